//! Topics: which there are, making them, enlarging them, deleting them.

use super::call::To;
use super::reach::LOOK_NS;
use super::{Admin, AdminError};
use crate::cluster::{PartitionInfo, TopicInfo, nanos};
use crate::rights::Refusal;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use wire::codec::Message;
use wire::messages::create_partitions::{CreatePartitionsRequest, CreatePartitionsTopic};
use wire::messages::create_topics::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig, CreateTopicsRequest,
};
use wire::messages::delete_topics::{DeleteTopicState, DeleteTopicsRequest};
use wire::messages::metadata::{MetadataRequest, MetadataRequestTopic};
use wire::{ApiKey, ErrorCode, Uuid};

/// Topics in one CreateTopics or DeleteTopics request: controllers refuse requests that make too many records at once.
const TOPICS_AT_ONCE: usize = 500;

/// How a new topic's partitions are laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layout {
    /// The brokers choose. `None` is the brokers' default (Kafka 2.4 and newer).
    Counts {
        /// How many partitions.
        partitions: Option<u32>,
        /// How many replicas of each.
        replication_factor: Option<u16>,
    },
    /// The brokers of each partition's replicas, the preferred leader first.
    Assigned(Vec<Vec<i32>>),
}

/// A topic to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTopic {
    /// Its name.
    pub name: String,
    /// Its partitions.
    pub layout: Layout,
    /// Its configs.
    pub configs: BTreeMap<String, String>,
}

impl Admin {
    /// The topics of these names, or all that the principal may see. Those that do not exist are there with their error.
    ///
    /// # Errors
    ///
    /// When no broker answers in time.
    pub fn topics(&mut self, names: Option<&[String]>) -> Result<BTreeMap<String, TopicInfo>, AdminError> {
        let wanted = names.map(|names| {
            names
                .iter()
                .map(|name| MetadataRequestTopic {
                    name: Some(name.clone()),
                    ..Default::default()
                })
                .collect()
        });
        let response = self.call(
            To::Any,
            &MetadataRequest {
                topics: wanted,
                ..no_creation()
            },
        )?;
        let mut topics = BTreeMap::new();
        for topic in response.topics {
            let Some(name) = topic.name else { continue };
            let mut partitions: Vec<PartitionInfo> = topic
                .partitions
                .into_iter()
                .map(|partition| PartitionInfo {
                    index: partition.partition_index,
                    leader: (partition.leader_id >= 0).then_some(partition.leader_id),
                    leader_epoch: partition.leader_epoch,
                    replicas: partition.replica_nodes,
                    isr: partition.isr_nodes,
                })
                .collect();
            partitions.sort_by_key(|partition| partition.index);
            let info = TopicInfo {
                error: topic.error_code,
                topic_id: topic.topic_id,
                is_internal: topic.is_internal,
                partitions,
            };
            topics.insert(name, info);
        }
        Ok(topics)
    }

    /// Creates topics, or only checks whether it could. Each topic's outcome stands at its place: its id (all zero before
    /// Kafka 2.8), or the broker's refusal.
    ///
    /// # Errors
    ///
    /// When the controller does not answer in time.
    pub fn create_topics(
        &mut self,
        topics: &[NewTopic],
        validate_only: bool,
    ) -> Result<Vec<Result<Uuid, Refusal>>, AdminError> {
        let until_ns = self.until_ns();
        let mut outcomes: BTreeMap<String, Result<Uuid, Refusal>> = BTreeMap::new();
        for batch in topics.chunks(TOPICS_AT_ONCE) {
            let mut left: Vec<&NewTopic> = batch.iter().collect();
            let mut maybe_created = false;
            while !left.is_empty() {
                let request = CreateTopicsRequest {
                    topics: left.iter().map(|topic| creatable(topic)).collect(),
                    timeout_ms: self.timeout_ms(until_ns),
                    validate_only,
                };
                let by_default = left.iter().any(|topic| {
                    matches!(&topic.layout, Layout::Counts { partitions, replication_factor }
                        if partitions.is_none() || replication_factor.is_none())
                });
                let versions = if by_default {
                    4..=7
                } else {
                    CreateTopicsRequest::VERSIONS
                };
                let answer = self.call_within(To::Controller, versions, &request, until_ns)?;
                maybe_created |= answer.repeated;
                let mut again = BTreeSet::new();
                for result in answer.message.topics {
                    let error = result.error_code;
                    let is_done = error == ErrorCode::TOPIC_ALREADY_EXISTS && maybe_created && !validate_only;
                    if self.is_worth_repeating(error, until_ns) {
                        maybe_created |= error == ErrorCode::REQUEST_TIMED_OUT;
                        again.insert(result.name.clone());
                    }
                    let outcome = if error.is_error() && !is_done {
                        Err(Refusal::new(
                            ApiKey::CREATE_TOPICS,
                            error,
                            result.error_message,
                            &result.name,
                        ))
                    } else {
                        Ok(result.topic_id)
                    };
                    outcomes.insert(result.name, outcome);
                }
                left.retain(|topic| again.contains(&topic.name));
                self.back_off(!left.is_empty(), until_ns)?;
            }
        }
        Ok(topics
            .iter()
            .map(|topic| outcome_of(&outcomes, ApiKey::CREATE_TOPICS, &topic.name))
            .collect())
    }

    /// Waits until each of `topics` has its partitions and each partition a leader, in at most `within`.
    ///
    /// # Errors
    ///
    /// When that is not so in time: the error names the partitions that have no leader.
    pub fn await_leaders(&mut self, topics: &[(String, u32)], within: Duration) -> Result<(), AdminError> {
        let names: Vec<String> = topics.iter().map(|(name, _)| name.clone()).collect();
        self.await_topics("election of leaders", &names, within, |known| {
            topics
                .iter()
                .find_map(|(name, partitions)| what_is_missing(name, *partitions, known.get(name)))
        })
    }

    /// Waits until none of `topics` is known to the brokers any more, in at most `within`.
    ///
    /// # Errors
    ///
    /// When one is still there after that.
    pub fn await_deleted(&mut self, topics: &[String], within: Duration) -> Result<(), AdminError> {
        self.await_topics("deletion of topics", topics, within, |known| {
            known
                .iter()
                .find(|(_, info)| info.error != ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
                .map(|(name, _)| format!("{name} is still there"))
        })
    }

    /// Deletes topics. Each one's outcome stands at its place.
    ///
    /// # Errors
    ///
    /// When the controller does not answer in time.
    pub fn delete_topics(&mut self, topics: &[String]) -> Result<Vec<Result<(), Refusal>>, AdminError> {
        let until_ns = self.until_ns();
        let mut outcomes: BTreeMap<String, Result<(), Refusal>> = BTreeMap::new();
        for batch in topics.chunks(TOPICS_AT_ONCE) {
            let mut left: Vec<&String> = batch.iter().collect();
            let mut maybe_deleted = false;
            while !left.is_empty() {
                let request = DeleteTopicsRequest {
                    topics: left
                        .iter()
                        .map(|&name| DeleteTopicState {
                            name: Some(name.clone()),
                            topic_id: Uuid::ZERO,
                        })
                        .collect(),
                    topic_names: left.iter().map(|&name| name.clone()).collect(),
                    timeout_ms: self.timeout_ms(until_ns),
                };
                let answer =
                    self.call_within(To::Controller, DeleteTopicsRequest::VERSIONS, &request, until_ns)?;
                maybe_deleted |= answer.repeated;
                let mut again = BTreeSet::new();
                for result in answer.message.responses {
                    let Some(name) = result.name else { continue };
                    let error = result.error_code;
                    let is_done = error == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION && maybe_deleted;
                    // A topic that is not known is gone: asking again for longer would not find it.
                    if error != ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
                        && self.is_worth_repeating(error, until_ns)
                    {
                        maybe_deleted |= error == ErrorCode::REQUEST_TIMED_OUT;
                        again.insert(name.clone());
                    }
                    let outcome = if is_done {
                        Ok(())
                    } else {
                        Refusal::check(ApiKey::DELETE_TOPICS, error, result.error_message, &name)
                    };
                    outcomes.insert(name, outcome);
                }
                left.retain(|name| again.contains(*name));
                self.back_off(!left.is_empty(), until_ns)?;
            }
        }
        Ok(topics
            .iter()
            .map(|name| outcome_of(&outcomes, ApiKey::DELETE_TOPICS, name))
            .collect())
    }

    /// Raises a topic's number of partitions to `partitions`.
    ///
    /// # Errors
    ///
    /// The broker's refusal, or that it did not answer in time.
    pub fn create_partitions(&mut self, topic: &str, partitions: u32) -> Result<(), AdminError> {
        let until_ns = self.until_ns();
        loop {
            let wanted = CreatePartitionsTopic {
                name: topic.to_owned(),
                count: i32::try_from(partitions).unwrap_or(i32::MAX),
                assignments: None,
            };
            let request = CreatePartitionsRequest {
                topics: vec![wanted],
                timeout_ms: self.timeout_ms(until_ns),
                validate_only: false,
            };
            let answer = self.call_within(
                To::Controller,
                CreatePartitionsRequest::VERSIONS,
                &request,
                until_ns,
            )?;
            let result = answer
                .message
                .results
                .into_iter()
                .find(|result| result.name == topic)
                .unwrap_or_default();
            if !self.is_worth_repeating(result.error_code, until_ns) {
                return Ok(Refusal::check(
                    ApiKey::CREATE_PARTITIONS,
                    result.error_code,
                    result.error_message,
                    topic,
                )?);
            }
            self.back_off(true, until_ns)?;
        }
    }

    fn await_topics(
        &mut self,
        what: &str,
        names: &[String],
        within: Duration,
        missing: impl Fn(&BTreeMap<String, TopicInfo>) -> Option<String>,
    ) -> Result<(), AdminError> {
        if names.is_empty() {
            return Ok(());
        }
        let until_ns = self.clock.now_ns().saturating_add(nanos(within));
        loop {
            let Some(missing) = missing(&self.topics(Some(names))?) else {
                return Ok(());
            };
            if self.clock.now_ns() >= until_ns {
                return Err(AdminError::TimedOut {
                    what: what.to_owned(),
                    after: within,
                    last: Some(missing),
                });
            }
            self.wait(LOOK_NS, until_ns)?;
        }
    }
}

/// A tool that only looks must not create what it looks for.
pub(super) fn no_creation() -> MetadataRequest {
    MetadataRequest {
        allow_auto_topic_creation: false,
        ..MetadataRequest::default()
    }
}

fn creatable(topic: &NewTopic) -> CreatableTopic {
    let (num_partitions, replication_factor, assignments) = match &topic.layout {
        Layout::Counts {
            partitions,
            replication_factor,
        } => (
            partitions.map_or(-1, |count| i32::try_from(count).unwrap_or(i32::MAX)),
            replication_factor.map_or(-1, |factor| i16::try_from(factor).unwrap_or(i16::MAX)),
            Vec::new(),
        ),
        Layout::Assigned(replicas) => {
            let assignments = replicas
                .iter()
                .zip(0..)
                .map(|(broker_ids, partition_index)| CreatableReplicaAssignment {
                    partition_index,
                    broker_ids: broker_ids.clone(),
                })
                .collect();
            (-1, -1, assignments)
        }
    };
    CreatableTopic {
        name: topic.name.clone(),
        num_partitions,
        replication_factor,
        assignments,
        configs: topic
            .configs
            .iter()
            .map(|(name, value)| CreatableTopicConfig {
                name: name.clone(),
                value: Some(value.clone()),
            })
            .collect(),
    }
}

/// The outcome of an item; a broker that does not mention it has failed in a way that it has no code for.
fn outcome_of<T: Clone>(
    outcomes: &BTreeMap<String, Result<T, Refusal>>,
    api: ApiKey,
    name: &str,
) -> Result<T, Refusal> {
    outcomes.get(name).cloned().unwrap_or_else(|| {
        let words = Some("the answer does not mention it".to_owned());
        Err(Refusal::new(api, ErrorCode::UNKNOWN_SERVER_ERROR, words, name))
    })
}

fn what_is_missing(name: &str, partitions: u32, known: Option<&TopicInfo>) -> Option<String> {
    let Some(known) = known else {
        return Some(format!("{name} is not known"));
    };
    let there = known.partitions.len();
    let leaderless: Vec<String> = known
        .partitions
        .iter()
        .filter(|partition| partition.leader.is_none())
        .map(|partition| partition.index.to_string())
        .collect();
    if !leaderless.is_empty() {
        return Some(format!(
            "{name} has no leader for {} of {there} partitions ({})",
            leaderless.len(),
            leaderless.join(", ")
        ));
    }
    if known.error.is_error() {
        return Some(Refusal::new(ApiKey::METADATA, known.error, None, name).to_string());
    }
    (there < partitions as usize).then(|| format!("{name} has {there} of {partitions} partitions"))
}
