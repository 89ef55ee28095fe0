//! Disks of brokers.

use super::call::To;
use super::{Admin, AdminError};
use crate::rights::Refusal;
use std::collections::BTreeMap;
use wire::codec::Message;
use wire::messages::describe_log_dirs::{DescribableLogDirTopic, DescribeLogDirsRequest};
use wire::{ApiKey, ErrorCode};

/// A directory of a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogDir {
    /// Its path on the broker's host.
    pub path: String,
    /// What is wrong with it, or `NONE`.
    pub error: ErrorCode,
    /// Size of its volume; absent before Kafka 3.3 (KIP-827).
    pub total_bytes: Option<u64>,
    /// Free space of its volume; absent before Kafka 3.3.
    pub usable_bytes: Option<u64>,
    /// The replicas in it.
    pub replicas: Vec<LogDirReplica>,
}

/// A replica in a broker's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogDirReplica {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// Bytes of its segments.
    pub size_bytes: u64,
    /// Whether it is being built to replace that of another directory.
    pub is_future: bool,
}

impl Admin {
    /// The directories of each broker, with the replicas of `topics` in them, or of all topics.
    ///
    /// # Errors
    ///
    /// When a broker does not answer in time. A broker that refuses has its own outcome; one that cannot be reached has none.
    pub fn describe_log_dirs(
        &mut self,
        brokers: &[i32],
        topics: Option<&BTreeMap<String, Vec<i32>>>,
    ) -> Result<BTreeMap<i32, Result<Vec<LogDir>, Refusal>>, AdminError> {
        let until_ns = self.until_ns();
        let topics = topics.map(|topics| {
            topics
                .iter()
                .map(|(topic, partitions)| DescribableLogDirTopic {
                    topic: topic.clone(),
                    partitions: partitions.clone(),
                })
                .collect::<Vec<_>>()
        });
        let calls: Vec<(To, DescribeLogDirsRequest)> = brokers
            .iter()
            .map(|&id| {
                (
                    To::Broker(id),
                    DescribeLogDirsRequest {
                        topics: topics.clone(),
                    },
                )
            })
            .collect();
        let answers = self.call_many(&calls, DescribeLogDirsRequest::VERSIONS, until_ns);
        let mut described = BTreeMap::new();
        for (&id, answer) in brokers.iter().zip(answers) {
            let message = match answer {
                Err(AdminError::Unreachable { .. } | AdminError::UnknownBroker { .. }) => continue,
                other => other?.message,
            };
            // Before version 3 a principal without rights is answered with an empty list.
            let error = match message.error_code {
                ErrorCode::NONE if message.results.is_empty() => ErrorCode::CLUSTER_AUTHORIZATION_FAILED,
                error => error,
            };
            let outcome = Refusal::check(ApiKey::DESCRIBE_LOG_DIRS, error, None, "").map(|()| {
                message
                    .results
                    .into_iter()
                    .map(|dir| LogDir {
                        path: dir.log_dir,
                        error: dir.error_code,
                        total_bytes: u64::try_from(dir.total_bytes).ok(),
                        usable_bytes: u64::try_from(dir.usable_bytes).ok(),
                        replicas: dir
                            .topics
                            .into_iter()
                            .flat_map(|topic| {
                                let name = topic.name;
                                topic.partitions.into_iter().map(move |partition| LogDirReplica {
                                    topic: name.clone(),
                                    partition: partition.partition_index,
                                    size_bytes: u64::try_from(partition.partition_size).unwrap_or(0),
                                    is_future: partition.is_future_key,
                                })
                            })
                            .collect(),
                    })
                    .collect()
            });
            described.insert(id, outcome);
        }
        Ok(described)
    }
}
