//! DescribeTransactions (65), version 0: the state of transactions (KIP-664).
//!
//! Nothing left out.

use super::Context;
use crate::cluster::Cluster;
use std::collections::BTreeMap;
use wire::ErrorCode;
use wire::messages::describe_transactions::{
    DescribeTransactionsRequest, DescribeTransactionsResponse, TopicData, TransactionState,
};

pub(super) fn serve(
    cluster: &mut Cluster,
    context: &Context<'_>,
    request: DescribeTransactionsRequest,
) -> DescribeTransactionsResponse {
    let states = request
        .transactional_ids
        .into_iter()
        .map(|id| match find(cluster, context.broker, &id) {
            Ok(state) => state,
            Err(error_code) => TransactionState {
                error_code,
                transactional_id: id,
                ..TransactionState::default()
            },
        });
    DescribeTransactionsResponse {
        transaction_states: states.collect(),
        ..DescribeTransactionsResponse::default()
    }
}

fn find(cluster: &Cluster, broker: i32, id: &str) -> Result<TransactionState, ErrorCode> {
    if id.is_empty() {
        return Err(ErrorCode::INVALID_REQUEST);
    }
    cluster.check_coordinator(id, broker)?;
    let transaction = cluster
        .transactions
        .get(id)
        .ok_or(ErrorCode::TRANSACTIONAL_ID_NOT_FOUND)?;
    let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for (key, index) in &transaction.partitions {
        if let Some(topic) = cluster.topic_at(*key) {
            topics.entry(&topic.name).or_default().push(*index);
        }
    }
    Ok(TransactionState {
        transactional_id: id.to_owned(),
        transaction_state: transaction.state.name().to_owned(),
        transaction_timeout_ms: transaction.timeout_ms,
        transaction_start_time_ms: transaction.started_at().map_or(-1, |at| cluster.wall_ms(at)),
        producer_id: transaction.producer.id,
        producer_epoch: transaction.producer.epoch,
        topics: topics
            .into_iter()
            .map(|(topic, partitions)| TopicData {
                topic: topic.to_owned(),
                partitions,
            })
            .collect(),
        ..TransactionState::default()
    })
}
