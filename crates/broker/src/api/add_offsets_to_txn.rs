//! AddOffsetsToTxn (25), versions 0 to 4: makes a group's offsets part of a producer's transaction.
//!
//! Nothing left out.

use super::Context;
use crate::cluster::Cluster;
use crate::transaction::ProducerKey;
use wire::ErrorCode;
use wire::messages::{AddOffsetsToTxnRequest, AddOffsetsToTxnResponse};

pub(super) fn serve(
    cluster: &mut Cluster,
    context: &Context<'_>,
    request: AddOffsetsToTxnRequest,
) -> AddOffsetsToTxnResponse {
    let id = &request.transactional_id;
    let producer = ProducerKey {
        id: request.producer_id,
        epoch: request.producer_epoch,
    };
    let outcome = cluster
        .check_coordinator(id, context.broker)
        .and_then(|()| cluster.add_to_transaction(context.now, id, producer, &[], Some(&request.group_id)));
    AddOffsetsToTxnResponse {
        error_code: super::end_txn::as_known(outcome.err().unwrap_or(ErrorCode::NONE), context.to.version),
        ..AddOffsetsToTxnResponse::default()
    }
}
