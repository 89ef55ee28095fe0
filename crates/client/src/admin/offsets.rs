//! Offsets of partitions, asked of their leaders.

use super::call::To;
use super::{Admin, AdminError, TopicPartition};
use crate::cluster::{PartitionInfo, TopicInfo};
use crate::rights::Refusal;
use std::collections::{BTreeMap, BTreeSet};
use wire::codec::Message;
use wire::messages::list_offsets::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};
use wire::{ApiKey, ErrorCode};

/// Which offset of a partition is sought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetAt {
    /// The log's first.
    Earliest,
    /// The one that the next record will get: the high watermark, for a client.
    Latest,
    /// That of the record with the largest timestamp (Kafka 3.0 and newer).
    MaxTimestamp,
    /// The first whose timestamp, in ms since 1970, is not smaller.
    TimestampMs(i64),
}

impl OffsetAt {
    /// The number in a ListOffsets request.
    pub(crate) fn wire_value(self) -> i64 {
        match self {
            OffsetAt::Earliest => -2,
            OffsetAt::Latest => -1,
            OffsetAt::MaxTimestamp => -3,
            OffsetAt::TimestampMs(ms) => ms.max(0),
        }
    }
}

/// An offset that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedOffset {
    /// The offset.
    pub offset: i64,
    /// The record's timestamp, in ms since 1970; absent for the log's ends.
    pub timestamp_ms: Option<i64>,
}

impl Admin {
    /// The offset at `at` of each of these partitions, asked of their leaders; `None` where no record is so young.
    ///
    /// # Errors
    ///
    /// When a leader does not answer in time. A partition that is refused has its own outcome.
    pub fn list_offsets(
        &mut self,
        partitions: &[TopicPartition],
        at: OffsetAt,
    ) -> Result<BTreeMap<TopicPartition, Result<Option<ListedOffset>, Refusal>>, AdminError> {
        let until_ns = self.until_ns();
        let names: Vec<String> = partitions
            .iter()
            .map(|(topic, _)| topic.clone())
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        let mut left: BTreeSet<TopicPartition> = partitions.iter().cloned().collect();
        let mut found = BTreeMap::new();
        let versions = if at == OffsetAt::MaxTimestamp {
            7..=10
        } else {
            ListOffsetsRequest::VERSIONS
        };
        loop {
            let topics = self.topics(Some(&names))?;
            let mut by_leader: BTreeMap<i32, BTreeMap<&str, Vec<ListOffsetsPartition>>> = BTreeMap::new();
            for (topic, index) in &left {
                match leader_of(topics.get(topic), *index) {
                    Ok((leader, epoch)) => {
                        by_leader
                            .entry(leader)
                            .or_default()
                            .entry(topic)
                            .or_default()
                            .push(ListOffsetsPartition {
                                partition_index: *index,
                                current_leader_epoch: epoch,
                                timestamp: at.wire_value(),
                            });
                    }
                    Err(error) => {
                        let refusal =
                            Refusal::new(ApiKey::LIST_OFFSETS, error, None, &format!("{topic}-{index}"));
                        found.insert((topic.clone(), *index), Err(refusal));
                    }
                }
            }
            let timeout_ms = self.timeout_ms(until_ns);
            let calls: Vec<(To, ListOffsetsRequest)> = by_leader
                .into_iter()
                .map(|(leader, topics)| {
                    let topics = topics
                        .into_iter()
                        .map(|(name, partitions)| ListOffsetsTopic {
                            name: name.to_owned(),
                            partitions,
                        })
                        .collect();
                    (
                        To::Broker(leader),
                        ListOffsetsRequest {
                            replica_id: -1,
                            isolation_level: 0,
                            topics,
                            timeout_ms,
                        },
                    )
                })
                .collect();
            for answer in self.call_many(&calls, versions.clone(), until_ns) {
                let answer = match answer {
                    // The leader is gone; another may lead by the next round.
                    Err(AdminError::Unreachable { .. } | AdminError::UnknownBroker { .. })
                        if self.clock.now_ns() < until_ns =>
                    {
                        continue;
                    }
                    other => other?,
                };
                for topic in answer.message.topics {
                    for partition in topic.partitions {
                        let index = partition.partition_index;
                        let subject = format!("{}-{index}", topic.name);
                        let outcome =
                            Refusal::check(ApiKey::LIST_OFFSETS, partition.error_code, None, &subject).map(
                                |()| {
                                    (partition.offset >= 0).then_some(ListedOffset {
                                        offset: partition.offset,
                                        timestamp_ms: (partition.timestamp >= 0)
                                            .then_some(partition.timestamp),
                                    })
                                },
                            );
                        found.insert((topic.name.clone(), index), outcome);
                    }
                }
            }
            left.retain(|key| match found.get(key) {
                None => true,
                Some(Err(refusal)) => {
                    // A topic that no broker knows is not waited for.
                    refusal.error != ErrorCode::UNKNOWN_TOPIC_OR_PARTITION && refusal.error.is_retriable()
                }
                Some(Ok(_)) => false,
            });
            if left.is_empty() {
                return Ok(found);
            }
            if self.clock.now_ns() >= until_ns {
                let missing = left.iter().find(|key| !found.contains_key(*key));
                return match missing {
                    None => Ok(found),
                    Some((topic, index)) => Err(self.timed_out(
                        "ListOffsets",
                        Some(format!("{topic}-{index} has no leader that answers")),
                    )),
                };
            }
            self.cluster.want_metadata();
            self.back_off(true, until_ns)?;
        }
    }
}

/// Leader and leader epoch of a partition, or why there is none.
fn leader_of(topic: Option<&TopicInfo>, index: i32) -> Result<(i32, i32), ErrorCode> {
    let topic = topic.ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    let partition = topic.partitions.iter().find(|partition| partition.index == index);
    match partition {
        Some(PartitionInfo {
            leader: Some(leader),
            leader_epoch,
            ..
        }) => Ok((*leader, *leader_epoch)),
        Some(_) => Err(ErrorCode::LEADER_NOT_AVAILABLE),
        None if topic.error.is_error() => Err(topic.error),
        None => Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
    }
}
