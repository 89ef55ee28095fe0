//! DescribeProducers (61), version 0: the producers that partitions remember (KIP-664).
//!
//! Nothing left out.

use super::Context;
use crate::cluster::Cluster;
use wire::ErrorCode;
use wire::messages::describe_producers::{
    DescribeProducersRequest, DescribeProducersResponse, PartitionResponse, ProducerState, TopicResponse,
};

pub(super) fn serve(
    cluster: &mut Cluster,
    context: &Context<'_>,
    request: DescribeProducersRequest,
) -> DescribeProducersResponse {
    let topics = request.topics.into_iter().map(|topic| {
        let partitions = topic.partition_indexes.iter().map(|index| {
            match find(cluster, context.broker, &topic.name, *index) {
                Ok(active_producers) => PartitionResponse {
                    partition_index: *index,
                    active_producers,
                    ..PartitionResponse::default()
                },
                Err(error_code) => PartitionResponse {
                    partition_index: *index,
                    error_code,
                    ..PartitionResponse::default()
                },
            }
        });
        TopicResponse {
            partitions: partitions.collect(),
            name: topic.name.clone(),
        }
    });
    DescribeProducersResponse {
        topics: topics.collect(),
        ..DescribeProducersResponse::default()
    }
}

fn find(cluster: &Cluster, broker: i32, topic: &str, index: i32) -> Result<Vec<ProducerState>, ErrorCode> {
    let partition = cluster
        .topic(topic)
        .and_then(|topic| topic.partition(index))
        .ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    // Followers remember them too.
    if !partition.replicas().any(|replica| replica == broker) {
        return Err(ErrorCode::NOT_LEADER_OR_FOLLOWER);
    }
    let states = partition.producers().map(|(producer, open_since)| ProducerState {
        producer_id: producer.producer_id,
        producer_epoch: producer.producer_epoch.into(),
        last_sequence: producer.last_sequence,
        last_timestamp: producer.last_seen_ms,
        coordinator_epoch: producer.coordinator_epoch,
        current_txn_start_offset: open_since.unwrap_or(-1),
    });
    Ok(states.collect())
}
