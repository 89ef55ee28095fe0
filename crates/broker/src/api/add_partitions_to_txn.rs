//! AddPartitionsToTxn (24), versions 0 to 3: adds partitions to a producer's transaction before they are written to.
//!
//! Left out: the form that brokers send to each other (from version 4 on).

use super::Context;
use crate::cluster::{Cluster, TopicKey};
use crate::transaction::ProducerKey;
use wire::ErrorCode;
use wire::messages::add_partitions_to_txn::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
};

pub(super) fn serve(
    cluster: &mut Cluster,
    context: &Context<'_>,
    request: AddPartitionsToTxnRequest,
) -> AddPartitionsToTxnResponse {
    let mut places = Vec::new();
    let mut is_any_unknown = false;
    let topics: Vec<(String, Vec<(i32, bool)>)> = request
        .v3_and_below_topics
        .into_iter()
        .map(|topic| {
            let key = cluster.topic_key(&topic.name);
            let partitions = topic.partitions.into_iter().map(|index| {
                let place = key.and_then(|key| existing(cluster, key, index));
                is_any_unknown |= place.is_none();
                places.extend(place);
                (index, place.is_some())
            });
            let partitions = partitions.collect();
            (topic.name, partitions)
        })
        .collect();
    let id = &request.v3_and_below_transactional_id;
    let producer = ProducerKey {
        id: request.v3_and_below_producer_id,
        epoch: request.v3_and_below_producer_epoch,
    };
    let outcome = match cluster.check_coordinator(id, context.broker) {
        Ok(()) if is_any_unknown => Err(ErrorCode::OPERATION_NOT_ATTEMPTED),
        Ok(()) => cluster.add_to_transaction(context.now, id, producer, &places, None),
        Err(error) => Err(error),
    };
    let error = super::end_txn::as_known(outcome.err().unwrap_or(ErrorCode::NONE), context.to.version);
    let results = topics
        .into_iter()
        .map(|(name, partitions)| AddPartitionsToTxnTopicResult {
            name,
            results_by_partition: partitions
                .into_iter()
                .map(|(partition_index, is_known)| AddPartitionsToTxnPartitionResult {
                    partition_index,
                    partition_error_code: if is_known {
                        error
                    } else {
                        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
                    },
                })
                .collect(),
        });
    AddPartitionsToTxnResponse {
        results_by_topic_v3_and_below: results.collect(),
        ..AddPartitionsToTxnResponse::default()
    }
}

fn existing(cluster: &Cluster, key: TopicKey, index: i32) -> Option<(TopicKey, i32)> {
    cluster.topic_at(key)?.partition(index)?;
    Some((key, index))
}
