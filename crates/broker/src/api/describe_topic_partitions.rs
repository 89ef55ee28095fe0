//! DescribeTopicPartitions (75), version 0 (KIP-966): topics page by page.
//!
//! Left out: eligible leader replicas, of which there are none.

use super::Context;
use super::metadata::offline;
use crate::cluster::{Cluster, Topic};
use std::collections::BTreeSet;
use wire::ErrorCode;
use wire::messages::describe_topic_partitions::{
    Cursor, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition as ResponsePartition,
    DescribeTopicPartitionsResponseTopic as ResponseTopic,
};

/// Kafka's own limit (max.request.partition.size.limit).
const MOST_PARTITIONS: usize = 2000;

pub(super) fn serve(
    cluster: &mut Cluster,
    _context: &Context<'_>,
    request: DescribeTopicPartitionsRequest,
) -> DescribeTopicPartitionsResponse {
    let names: BTreeSet<String> = if request.topics.is_empty() {
        cluster.topics().map(|topic| topic.name.clone()).collect()
    } else {
        request.topics.into_iter().map(|topic| topic.name).collect()
    };
    let (from_topic, mut from_partition) = match request.cursor {
        Some(cursor) => (
            cursor.topic_name,
            usize::try_from(cursor.partition_index).unwrap_or(0),
        ),
        None => (String::new(), 0),
    };
    let mut room = usize::try_from(request.response_partition_limit)
        .unwrap_or(0)
        .clamp(1, MOST_PARTITIONS);
    let mut response = DescribeTopicPartitionsResponse::default();
    for name in names {
        if name < from_topic {
            continue;
        }
        if name != from_topic {
            from_partition = 0;
        }
        if room == 0 {
            response.next_cursor = Some(Cursor {
                topic_name: name,
                ..Cursor::default()
            });
            break;
        }
        let Some(topic) = cluster.topic(&name) else {
            response.topics.push(ResponseTopic {
                error_code: ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
                name: Some(name),
                ..ResponseTopic::default()
            });
            continue;
        };
        let partitions = describe(cluster, topic, from_partition, room);
        room -= partitions.len();
        let next = from_partition + partitions.len();
        response.topics.push(ResponseTopic {
            name: Some(name.clone()),
            topic_id: topic.id,
            partitions,
            ..ResponseTopic::default()
        });
        if next < topic.partitions.len() {
            response.next_cursor = Some(Cursor {
                topic_name: name,
                partition_index: next as i32,
            });
            break;
        }
    }
    response
}

fn describe(cluster: &Cluster, topic: &Topic, from: usize, most: usize) -> Vec<ResponsePartition> {
    topic
        .partitions
        .iter()
        .zip(0..)
        .skip(from)
        .take(most)
        .map(|(partition, partition_index)| ResponsePartition {
            error_code: if partition.leader().is_some() {
                ErrorCode::NONE
            } else {
                ErrorCode::LEADER_NOT_AVAILABLE
            },
            partition_index,
            leader_id: partition.leader().unwrap_or(-1),
            leader_epoch: partition.leader_epoch(),
            replica_nodes: partition.replicas().collect(),
            isr_nodes: partition.in_sync().collect(),
            // Clients take a null list for a fault.
            eligible_leader_replicas: Some(Vec::new()),
            last_known_elr: Some(Vec::new()),
            offline_replicas: offline(cluster, partition),
        })
        .collect()
}
