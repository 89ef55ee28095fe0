//! OffsetCommit (8), versions 2 to 9.
//!
//! Left out: a retention time for offsets (versions 2 to 4), which are kept as long as the group and the topic.

use super::Context;
use crate::cluster::Cluster;
use crate::group::{CommittedOffset, Speaker};
use wire::ErrorCode;
use wire::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitResponse, OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
};

/// Kafka's limit for the text that comes with an offset (offset.metadata.max.bytes).
const LONGEST_METADATA_BYTES: usize = 4096;

pub(super) fn serve(
    cluster: &mut Cluster,
    context: &Context<'_>,
    request: OffsetCommitRequest,
) -> OffsetCommitResponse {
    let speaker = Speaker {
        member_id: &request.member_id,
        instance_id: request.group_instance_id.as_deref(),
        generation: request.generation_id_or_member_epoch,
    };
    let group = &request.group_id;
    let admitted = cluster.check_coordinator(group, context.broker).and_then(|()| {
        cluster.with_group(context.now, group, |group, now, _| group.may_commit(now, speaker))
    });
    let topics = request.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.into_iter().map(|partition| {
            let partition_index = partition.partition_index;
            let outcome = admitted.and_then(|()| commit(cluster, context.now, group, &topic.name, partition));
            OffsetCommitResponsePartition {
                partition_index,
                error_code: outcome.err().unwrap_or(ErrorCode::NONE),
            }
        });
        OffsetCommitResponseTopic {
            partitions: partitions.collect(),
            name: topic.name,
        }
    });
    OffsetCommitResponse {
        topics: topics.collect(),
        ..OffsetCommitResponse::default()
    }
}

fn commit(
    cluster: &mut Cluster,
    now: u64,
    group: &str,
    topic: &str,
    partition: OffsetCommitRequestPartition,
) -> Result<(), ErrorCode> {
    let metadata = partition.committed_metadata.unwrap_or_default();
    check_offset(cluster, topic, partition.partition_index, &metadata)?;
    let committed = CommittedOffset {
        offset: partition.committed_offset,
        leader_epoch: partition.committed_leader_epoch,
        metadata,
    };
    cluster.with_group(now, group, |group, _, _| {
        group
            .offsets_mut()
            .insert((topic.to_owned(), partition.partition_index), committed);
    });
    Ok(())
}

/// Whether an offset may be committed for a partition.
pub(super) fn check_offset(
    cluster: &Cluster,
    topic: &str,
    partition: i32,
    metadata: &str,
) -> Result<(), ErrorCode> {
    if metadata.len() > LONGEST_METADATA_BYTES {
        return Err(ErrorCode::OFFSET_METADATA_TOO_LARGE);
    }
    let topic = cluster.topic(topic);
    match topic.and_then(|topic| topic.partition(partition)) {
        Some(_) => Ok(()),
        None => Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
    }
}
