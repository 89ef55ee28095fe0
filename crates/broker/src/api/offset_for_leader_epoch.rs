//! OffsetForLeaderEpoch (23), versions 2 to 4: where a leader epoch ended, so that consumers notice truncation. Nothing
//! left out.

use super::Context;
use crate::cluster::Cluster;
use wire::ErrorCode;
use wire::messages::offset_for_leader_epoch::{
    EpochEndOffset, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
};

pub(super) fn serve(
    cluster: &mut Cluster,
    context: &Context<'_>,
    request: OffsetForLeaderEpochRequest,
) -> OffsetForLeaderEpochResponse {
    let topics = request
        .topics
        .into_iter()
        .map(|topic| OffsetForLeaderTopicResult {
            partitions: topic
                .partitions
                .into_iter()
                .map(|partition| {
                    let found = find(cluster, context.broker, &topic.topic, &partition);
                    let (leader_epoch, end_offset) = found.ok().flatten().unwrap_or((-1, -1));
                    EpochEndOffset {
                        error_code: found.err().unwrap_or(ErrorCode::NONE),
                        partition: partition.partition,
                        leader_epoch,
                        end_offset,
                    }
                })
                .collect(),
            topic: topic.topic,
        });
    OffsetForLeaderEpochResponse {
        topics: topics.collect(),
        ..OffsetForLeaderEpochResponse::default()
    }
}

fn find(
    cluster: &Cluster,
    broker: i32,
    topic: &str,
    wanted: &OffsetForLeaderPartition,
) -> Result<Option<(i32, i64)>, ErrorCode> {
    let partition = cluster
        .topic(topic)
        .and_then(|topic| topic.partition(wanted.partition))
        .ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    partition.check_leader(broker, wanted.current_leader_epoch)?;
    let log = partition.log();
    Ok(log.epochs().end_of(
        wanted.leader_epoch,
        partition.leader_epoch(),
        log.start_offset(),
        log.end_offset(),
    ))
}
