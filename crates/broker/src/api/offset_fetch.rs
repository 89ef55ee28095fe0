//! OffsetFetch (9), versions 1 to 9: of one group or, from version 8 on, of several.
//!
//! Nothing left out.

use super::Context;
use crate::cluster::Cluster;
use crate::group::CommittedOffset;
use std::collections::BTreeMap;
use wire::ErrorCode;
use wire::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse, OffsetFetchResponseGroup,
    OffsetFetchResponsePartition, OffsetFetchResponsePartitions, OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
};

/// No offset, as Kafka writes it.
const NONE: i64 = -1;

pub(super) fn serve(
    cluster: &mut Cluster,
    context: &Context<'_>,
    request: OffsetFetchRequest,
) -> OffsetFetchResponse {
    if context.to.version >= 8 {
        let groups = request.groups.into_iter().map(|group| {
            let error_code = cluster
                .check_coordinator(&group.group_id, context.broker)
                .and_then(|()| check_member(cluster, &group))
                .err();
            let wanted = group.topics.map(|topics| {
                topics
                    .into_iter()
                    .map(|topic| (topic.name, topic.partition_indexes))
                    .collect()
            });
            let found = if error_code.is_some() {
                Vec::new()
            } else {
                find(cluster, &group.group_id, wanted, request.require_stable)
            };
            let topics = found
                .into_iter()
                .map(|(name, partitions)| OffsetFetchResponseTopics {
                    name,
                    partitions: partitions
                        .into_iter()
                        .map(|(partition_index, committed)| OffsetFetchResponsePartitions {
                            partition_index,
                            committed_offset: committed.offset.max(NONE),
                            committed_leader_epoch: committed.leader_epoch,
                            error_code: unstable(committed.offset),
                            metadata: Some(committed.metadata),
                        })
                        .collect(),
                });
            OffsetFetchResponseGroup {
                topics: topics.collect(),
                error_code: error_code.unwrap_or(ErrorCode::NONE),
                group_id: group.group_id,
            }
        });
        return OffsetFetchResponse {
            groups: groups.collect(),
            ..OffsetFetchResponse::default()
        };
    }
    let error_code = cluster
        .check_coordinator(&request.group_id, context.broker)
        .err()
        .unwrap_or(ErrorCode::NONE);
    let wanted: Option<Vec<(String, Vec<i32>)>> = request.topics.map(|topics| {
        topics
            .into_iter()
            .map(|topic| (topic.name, topic.partition_indexes))
            .collect()
    });
    let found = find(cluster, &request.group_id, wanted, request.require_stable).into_iter();
    let topics = found.map(|(name, partitions)| OffsetFetchResponseTopic {
        name,
        partitions: partitions
            .into_iter()
            .map(|(partition_index, committed)| OffsetFetchResponsePartition {
                partition_index,
                committed_offset: if error_code.is_error() {
                    NONE
                } else {
                    committed.offset.max(NONE)
                },
                committed_leader_epoch: committed.leader_epoch,
                metadata: Some(committed.metadata),
                // Version 1 has no other place for an error.
                error_code: if error_code.is_error() {
                    error_code
                } else {
                    unstable(committed.offset)
                },
            })
            .collect(),
    });
    OffsetFetchResponse {
        topics: topics.collect(),
        error_code,
        ..OffsetFetchResponse::default()
    }
}

type Found = Vec<(String, Vec<(i32, CommittedOffset)>)>;

/// A member of a group of the newer protocol says in which epoch it asks.
fn check_member(cluster: &Cluster, asked: &OffsetFetchRequestGroup) -> Result<(), ErrorCode> {
    let member_id = asked.member_id.as_deref().unwrap_or_default();
    let consumer = cluster.group(&asked.group_id).and_then(|group| group.consumer());
    match consumer {
        Some(consumer) if !member_id.is_empty() || asked.member_epoch >= 0 => {
            consumer.may_commit(member_id, asked.member_epoch)
        }
        _ => Ok(()),
    }
}

/// In place of an offset: a transaction that has not ended may change it.
const UNSTABLE: i64 = -2;

fn unstable(offset: i64) -> ErrorCode {
    if offset == UNSTABLE {
        ErrorCode::UNSTABLE_OFFSET_COMMIT
    } else {
        ErrorCode::NONE
    }
}

/// What a group has committed: of the partitions that are wanted, each with an answer, or of all there are.
///
/// With `requires_stable`, [`UNSTABLE`] stands for those that a transaction may yet change.
fn find(
    cluster: &Cluster,
    group: &str,
    wanted: Option<Vec<(String, Vec<i32>)>>,
    requires_stable: bool,
) -> Found {
    let offsets = cluster.group(group).map(|group| group.offsets());
    let is_unstable = |topic: &str, index: i32| {
        requires_stable
            && cluster
                .group(group)
                .is_some_and(|group| group.is_unstable(topic, index))
    };
    let stable = |topic: &str, index: i32, committed: &CommittedOffset| {
        if is_unstable(topic, index) {
            CommittedOffset {
                offset: UNSTABLE,
                leader_epoch: -1,
                metadata: String::new(),
            }
        } else {
            committed.clone()
        }
    };
    let Some(wanted) = wanted else {
        let mut all: BTreeMap<&str, Vec<(i32, CommittedOffset)>> = BTreeMap::new();
        for ((topic, index), committed) in offsets.into_iter().flatten() {
            all.entry(topic)
                .or_default()
                .push((*index, stable(topic, *index, committed)));
        }
        return all
            .into_iter()
            .map(|(topic, partitions)| (topic.to_owned(), partitions))
            .collect();
    };
    let none = CommittedOffset {
        offset: NONE,
        leader_epoch: -1,
        metadata: String::new(),
    };
    let look_up = |topic: &str, index: i32| {
        let committed = offsets.and_then(|offsets| offsets.get(&(topic.to_owned(), index)));
        stable(topic, index, committed.unwrap_or(&none))
    };
    wanted
        .into_iter()
        .map(|(topic, indexes)| {
            let found = indexes
                .into_iter()
                .map(|index| (index, look_up(&topic, index)))
                .collect();
            (topic, found)
        })
        .collect()
}
