//! ListTransactions (66), versions 0 to 1: which transactions a broker coordinates (KIP-664).
//!
//! Nothing left out.

use super::Context;
use crate::cluster::Cluster;
use crate::group::ms_to_ns;
use crate::transaction::State;
use wire::messages::list_transactions::{
    ListTransactionsRequest, ListTransactionsResponse, TransactionState,
};

pub(super) fn serve(
    cluster: &mut Cluster,
    context: &Context<'_>,
    request: ListTransactionsRequest,
) -> ListTransactionsResponse {
    let unknown = request
        .state_filters
        .iter()
        .filter(|state| !State::NAMES.contains(&state.as_str()));
    let longer_than = (request.duration_filter >= 0).then(|| ms_to_ns(request.duration_filter));
    let found = cluster
        .transactions
        .all()
        .filter(|(id, _)| cluster.check_coordinator(id, context.broker).is_ok())
        .filter(|(_, transaction)| {
            let (state, producer_id) = (transaction.state.name(), transaction.producer.id);
            let age = transaction.started_at().map(|at| context.now.saturating_sub(at));
            (request.state_filters.is_empty() || request.state_filters.iter().any(|wanted| wanted == state))
                && (request.producer_id_filters.is_empty()
                    || request.producer_id_filters.contains(&producer_id))
                && longer_than.is_none_or(|least| age.is_some_and(|age| age > least))
        })
        .map(|(id, transaction)| TransactionState {
            transactional_id: id.to_owned(),
            producer_id: transaction.producer.id,
            transaction_state: transaction.state.name().to_owned(),
        });
    ListTransactionsResponse {
        transaction_states: found.collect(),
        unknown_state_filters: unknown.cloned().collect(),
        ..ListTransactionsResponse::default()
    }
}
