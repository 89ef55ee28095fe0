//! ListOffsets (2), versions 1 to 10: earliest, latest, by time, the highest timestamp, earliest local.
//!
//! Left out: tiered storage, of which there is none (its timestamps find what a log without it would); the timeout of
//! version 10, because answers are immediate.

use super::Context;
use super::fetch::READ_COMMITTED;
use crate::cluster::Cluster;
use crate::log::FoundOffset;
use wire::ErrorCode;
use wire::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse,
    ListOffsetsTopicResponse,
};

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;

pub(super) fn serve(
    cluster: &mut Cluster,
    context: &Context<'_>,
    request: ListOffsetsRequest,
) -> ListOffsetsResponse {
    let topics = request.topics.into_iter().map(|topic| ListOffsetsTopicResponse {
        partitions: topic
            .partitions
            .into_iter()
            .map(|partition| {
                let partition_index = partition.partition_index;
                let is_committed = request.isolation_level == READ_COMMITTED;
                match find(cluster, context.broker, &topic.name, &partition, is_committed) {
                    Ok(Some(found)) => ListOffsetsPartitionResponse {
                        partition_index,
                        timestamp: found.timestamp_ms,
                        offset: found.offset,
                        leader_epoch: found.leader_epoch,
                        ..ListOffsetsPartitionResponse::default()
                    },
                    Ok(None) => ListOffsetsPartitionResponse {
                        partition_index,
                        ..ListOffsetsPartitionResponse::default()
                    },
                    Err(error_code) => ListOffsetsPartitionResponse {
                        partition_index,
                        error_code,
                        ..ListOffsetsPartitionResponse::default()
                    },
                }
            })
            .collect(),
        name: topic.name,
    });
    ListOffsetsResponse {
        topics: topics.collect(),
        ..ListOffsetsResponse::default()
    }
}

fn find(
    cluster: &Cluster,
    broker: i32,
    topic: &str,
    wanted: &ListOffsetsPartition,
    is_committed: bool,
) -> Result<Option<FoundOffset>, ErrorCode> {
    let partition = cluster
        .topic(topic)
        .and_then(|topic| topic.partition(wanted.partition_index))
        .ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    partition.check_leader(broker, wanted.current_leader_epoch)?;
    let log = partition.log();
    // Who reads committed records only is told of no others.
    let end = if is_committed {
        partition.last_stable_offset()
    } else {
        partition.high_watermark()
    };
    let without_time = |offset, leader_epoch| {
        Some(FoundOffset {
            offset,
            timestamp_ms: -1,
            leader_epoch,
        })
    };
    Ok(match wanted.timestamp {
        LATEST => without_time(end, partition.leader_epoch()),
        EARLIEST | EARLIEST_LOCAL => {
            let start = log.start_offset();
            without_time(start, log.epochs().at(start).unwrap_or(partition.leader_epoch()))
        }
        MAX_TIMESTAMP => log.find_max_timestamp(end),
        LATEST_TIERED => without_time(-1, -1),
        time if time >= 0 => log.find_by_time(time, end),
        _ => return Err(ErrorCode::UNSUPPORTED_VERSION),
    })
}
