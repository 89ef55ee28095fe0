//! A blocking client for the chores around a load: topics, configs, offsets, groups and disks.
//!
//! [`Admin`] drives a [`Net`] and a [`Cluster`] in the calling thread. Every operation is bounded in time, repeats what can
//! be repeated, and hands the broker's own words on. Where a principal may not do something, the [`Refusal`] of that one
//! item says which right is missing, so that the caller can go on without.

use crate::clock::RunClock;
use crate::cluster::{
    BrokerInfo, Cluster, ClusterConfig, ClusterEvent, Node, PartitionInfo, SendError, TopicInfo, nanos,
};
use crate::net::{CloseReason, ConnId, Net, NetEvent};
use crate::rights::Refusal;
use model::client_config::{AdminConfig, HostPort};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::time::Duration;
use wire::codec::{Message, Reader, Request};
use wire::messages::alter_configs::{self, AlterConfigsRequest};
use wire::messages::create_partitions::{CreatePartitionsRequest, CreatePartitionsTopic};
use wire::messages::create_topics::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig, CreateTopicsRequest,
};
use wire::messages::delete_groups::DeleteGroupsRequest;
use wire::messages::delete_topics::{DeleteTopicState, DeleteTopicsRequest};
use wire::messages::describe_configs::{DescribeConfigsRequest, DescribeConfigsResource};
use wire::messages::describe_groups::DescribeGroupsRequest;
use wire::messages::describe_log_dirs::{DescribableLogDirTopic, DescribeLogDirsRequest};
use wire::messages::find_coordinator::FindCoordinatorRequest;
use wire::messages::incremental_alter_configs::{self, IncrementalAlterConfigsRequest};
use wire::messages::list_groups::ListGroupsRequest;
use wire::messages::list_offsets::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};
use wire::messages::metadata::{MetadataRequest, MetadataRequestTopic};
use wire::messages::offset_fetch::{OffsetFetchRequest, OffsetFetchRequestGroup};
use wire::versions::Unsupported;
use wire::{ApiKey, ErrorCode, Uuid};

/// Answers beyond this are not believed. Metadata of 100,000 partitions takes about 10 MB.
const MAX_FRAME_BYTES: usize = 128 << 20;
/// Topics in one CreateTopics or DeleteTopics request: controllers refuse requests that make too many records at once.
const TOPICS_AT_ONCE: usize = 500;
/// Once one server answers, the others get this much longer.
const GRACE_NS: u64 = 2_000_000_000;
/// A refused connection is tried so often, since a name may have several addresses of which one works.
const REFUSALS_BEFORE_GIVING_UP: u32 = 3;
/// Between two looks at a connection that is being waited for.
const LOOK_NS: u64 = 20_000_000;

/// A server that could not be spoken with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFailure {
    /// Its id, if metadata named it.
    pub broker: Option<i32>,
    /// Where it should listen.
    pub address: HostPort,
    /// Why not.
    pub reason: CloseReason,
}

impl std::fmt::Display for ServerFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(id) = self.broker {
            write!(f, "broker {id} at ")?;
        }
        write!(f, "{}: {}", self.address, self.reason)?;
        if let (CloseReason::ByPeer, None) = (&self.reason, self.broker) {
            write!(
                f,
                " before it answered; it may expect TLS or SASL, or not be Kafka"
            )?;
        }
        Ok(())
    }
}

fn joined(failures: &[ServerFailure]) -> String {
    failures
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("; ")
}

/// Why an operation failed as a whole.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// No bootstrap server could be spoken with.
    #[error("no bootstrap server answers: {}", joined(.failures))]
    NoBootstrapServer {
        /// Each of them, in the order given.
        failures: Vec<ServerFailure>,
    },
    /// A bootstrap server answers, and none of the addresses that it names can be reached.
    #[error(
        "{bootstrap} answers, but the cluster advertises listeners that cannot be reached from here: {}; \
         the usual cause is advertised.listeners in the brokers' configuration, which must name addresses that clients can \
         resolve and reach",
        joined(.failures)
    )]
    AdvertisedUnreachable {
        /// A bootstrap server that answers.
        bootstrap: HostPort,
        /// The brokers that it names.
        failures: Vec<ServerFailure>,
    },
    /// A bootstrap server answers, and knows of no broker that is alive.
    #[error("{bootstrap} answers, but names no broker that is alive")]
    NoBrokers {
        /// The bootstrap server.
        bootstrap: HostPort,
    },
    /// One broker that is needed cannot be spoken with.
    #[error("{api} cannot be asked: {failure}")]
    Unreachable {
        /// What was to be asked.
        api: ApiKey,
        /// Of whom, and why not.
        failure: ServerFailure,
    },
    /// It took too long.
    #[error("{what} was not done within {} s{}", .after.as_secs_f64(), .last.as_ref().map(|last| format!("; last: {last}")).unwrap_or_default())]
    TimedOut {
        /// What.
        what: String,
        /// How long was waited.
        after: Duration,
        /// What went wrong last, if anything did.
        last: Option<String>,
    },
    /// The broker is too old or too new.
    #[error("{0}")]
    Unsupported(String),
    /// The broker refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The broker's answer cannot be read.
    #[error("the answer to {api} cannot be read: {error}")]
    BadAnswer {
        /// What was asked.
        api: ApiKey,
        /// What is wrong with the answer.
        error: wire::DecodeError,
    },
    /// The system grants no sockets.
    #[error("the poll loop failed: {0}")]
    Poll(#[from] std::io::Error),
}

/// What the cluster consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterDescription {
    /// The cluster's id.
    pub cluster_id: Option<String>,
    /// The broker that answers for the controller.
    pub controller: Option<i32>,
    /// Brokers that are alive, by id.
    pub brokers: BTreeMap<i32, BrokerInfo>,
}

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

/// What configs belong to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConfigResource {
    /// A topic.
    Topic(String),
    /// A broker.
    Broker(i32),
    /// The default of all brokers.
    AllBrokers,
}

impl ConfigResource {
    fn kind(&self) -> i8 {
        match self {
            ConfigResource::Topic(_) => 2,
            ConfigResource::Broker(_) | ConfigResource::AllBrokers => 4,
        }
    }

    fn name(&self) -> String {
        match self {
            ConfigResource::Topic(name) => name.clone(),
            ConfigResource::Broker(id) => id.to_string(),
            ConfigResource::AllBrokers => String::new(),
        }
    }

    /// Settings of one broker are that broker's to tell and to change.
    fn asked_of(&self) -> To {
        match self {
            ConfigResource::Broker(id) => To::Broker(*id),
            ConfigResource::Topic(_) | ConfigResource::AllBrokers => To::Any,
        }
    }
}

/// One setting of a topic or broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigEntry {
    /// Its name.
    pub name: String,
    /// Its value; `None` if it is kept secret or has none.
    pub value: Option<String>,
    /// Where the value comes from.
    pub source: ConfigSource,
    /// Whether it cannot be changed while the broker runs.
    pub is_read_only: bool,
    /// Whether its value is kept secret.
    pub is_sensitive: bool,
}

/// Where the value of a config comes from (KIP-226).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigSource {
    /// Set on the topic.
    Topic,
    /// Set on this broker while running.
    Broker,
    /// Set on all brokers while running.
    AllBrokers,
    /// The broker's file.
    BrokerFile,
    /// Kafka's default.
    Default,
    /// A source that is not known here.
    Other(i8),
}

impl ConfigSource {
    fn from_wire(source: i8) -> ConfigSource {
        match source {
            1 => ConfigSource::Topic,
            2 => ConfigSource::Broker,
            3 => ConfigSource::AllBrokers,
            4 => ConfigSource::BrokerFile,
            5 => ConfigSource::Default,
            other => ConfigSource::Other(other),
        }
    }
}

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

/// A topic's name and a partition's index.
pub type TopicPartition = (String, i32);

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

/// A group as its coordinator lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedGroup {
    /// Its id.
    pub group_id: String,
    /// `consumer` for consumers.
    pub protocol_type: String,
    /// Its state, such as `Stable` or `Empty`; absent before Kafka 2.6.
    pub state: Option<String>,
    /// `classic`, `consumer` or `share`; absent before Kafka 3.8.
    pub kind: Option<String>,
    /// Its coordinator.
    pub coordinator: i32,
}

/// A classic group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDescription {
    /// Its id.
    pub group_id: String,
    /// Its state, such as `Stable` or `Empty`.
    pub state: String,
    /// `consumer` for consumers.
    pub protocol_type: String,
    /// The assignor in use.
    pub assignor: String,
    /// Its members.
    pub members: Vec<GroupMember>,
}

/// A member of a classic group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMember {
    /// Its id.
    pub member_id: String,
    /// The name of a static member.
    pub group_instance_id: Option<String>,
    /// Its client id.
    pub client_id: String,
    /// The host that it connects from.
    pub client_host: String,
    /// What it is assigned; empty if that cannot be read.
    pub assigned: Vec<TopicPartition>,
}

/// Whom to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    Any,
    Controller,
    Broker(i32),
}

struct Answer<M> {
    message: M,
    version: i16,
    /// Whether an earlier attempt was sent and never answered: it may have been carried out.
    repeated: bool,
}

enum Slot<M> {
    Waiting { not_before_ns: u64 },
    Asked { tag: u64 },
    Done(Result<Answer<M>, AdminError>),
}

/// Counts how often a connection has failed, from what the cluster tells of its next attempt.
#[derive(Default)]
struct Trial {
    seen_retry_ns: u64,
    failures: u32,
    reason: Option<CloseReason>,
}

impl Trial {
    fn look(&mut self, cluster: &Cluster<u64>, node: Node) {
        let Some(retry_ns) = cluster.retry_at_ns(node) else {
            return;
        };
        if retry_ns == self.seen_retry_ns {
            return;
        }
        let failure = cluster.failures().find(|(failed, ..)| *failed == node);
        if let Some((_, _, reason)) = failure {
            self.seen_retry_ns = retry_ns;
            self.failures += 1;
            self.reason = Some(reason.clone());
        }
    }

    fn has_given_up(&self) -> bool {
        match &self.reason {
            None => false,
            Some(CloseReason::Refused { .. } | CloseReason::ByPeer | CloseReason::Failed { .. }) => {
                self.failures >= REFUSALS_BEFORE_GIVING_UP
            }
            Some(
                CloseReason::Unresolved { .. } | CloseReason::BadFrame { .. } | CloseReason::TimedOut { .. },
            ) => true,
        }
    }

    /// The failure that is worth a word, with `otherwise` where nothing has failed yet.
    fn reason_or(&self, otherwise: &'static str) -> CloseReason {
        self.reason
            .clone()
            .unwrap_or(CloseReason::TimedOut { what: otherwise })
    }
}

/// See the module.
#[derive(Debug)]
pub struct Admin {
    net: Net,
    clock: RunClock,
    cluster: Cluster<u64>,
    api_timeout_ns: u64,
    retry_backoff_ns: u64,
    warnings: Vec<String>,
    next_tag: u64,
    events: Vec<(ConnId, NetEvent)>,
}

impl Admin {
    /// Connects to every bootstrap server and every broker, in at most `within` and `default.api.timeout.ms`. What could not
    /// be reached while others could is told by [`Admin::warnings`].
    ///
    /// # Errors
    ///
    /// When no bootstrap server answers, or none of the brokers that it names can be reached; the error tells each one's
    /// failure.
    pub fn connect(config: &AdminConfig, clock: RunClock, within: Duration) -> Result<Admin, AdminError> {
        let mut admin = Admin {
            net: Net::new(clock)?,
            clock,
            cluster: Cluster::new(ClusterConfig::new(&config.connection, 0, MAX_FRAME_BYTES)),
            api_timeout_ns: nanos(config.api_timeout),
            retry_backoff_ns: nanos(config.connection.retry_backoff),
            warnings: Vec::new(),
            next_tag: 0,
            events: Vec::new(),
        };
        let until_ns = clock
            .now_ns()
            .saturating_add(nanos(within).min(admin.api_timeout_ns));
        let bootstrap_failures = admin.reach_bootstrap(until_ns)?;
        let broker_failures = admin.reach_brokers(until_ns)?;
        let servers = admin.cluster.config().bootstrap.len();
        for failure in &bootstrap_failures {
            // A dead bootstrap server that is also a dead broker is one warning, not two.
            if !broker_failures
                .iter()
                .any(|broker| broker.address == failure.address)
            {
                let rest = servers - bootstrap_failures.len();
                admin.warnings.push(format!(
                    "bootstrap server {failure}; going on with the other {rest} of {servers}"
                ));
            }
        }
        let brokers = admin.cluster.metadata().brokers.len();
        for failure in &broker_failures {
            let rest = brokers - broker_failures.len();
            admin.warnings.push(format!(
                "{failure}; going on with the other {rest} of {brokers} brokers"
            ));
        }
        Ok(admin)
    }

    /// What is not as it should be, and did not keep [`Admin::connect`] from going on.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The cluster and its brokers, asked for anew.
    ///
    /// # Errors
    ///
    /// When no broker answers in time.
    pub fn cluster(&mut self) -> Result<ClusterDescription, AdminError> {
        let response = self.call(
            To::Any,
            &MetadataRequest {
                topics: Some(Vec::new()),
                ..no_creation()
            },
        )?;
        Ok(ClusterDescription {
            cluster_id: response.cluster_id,
            controller: (response.controller_id >= 0).then_some(response.controller_id),
            brokers: response
                .brokers
                .into_iter()
                .map(|broker| {
                    let address = HostPort {
                        host: broker.host,
                        port: broker.port.clamp(0, 65535) as u16,
                    };
                    (
                        broker.node_id,
                        BrokerInfo {
                            address,
                            rack: broker.rack,
                        },
                    )
                })
                .collect(),
        })
    }

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

    /// The settings of topics and brokers. A refusal for lack of rights is that resource's own outcome.
    ///
    /// # Errors
    ///
    /// When a broker does not answer in time.
    pub fn describe_configs(
        &mut self,
        resources: &[ConfigResource],
    ) -> Result<BTreeMap<ConfigResource, Result<Vec<ConfigEntry>, Refusal>>, AdminError> {
        let mut by_target: Vec<(To, Vec<&ConfigResource>)> = Vec::new();
        for resource in resources {
            let to = resource.asked_of();
            match by_target.iter_mut().find(|(target, _)| *target == to) {
                Some((_, list)) => list.push(resource),
                None => by_target.push((to, vec![resource])),
            }
        }
        let calls: Vec<(To, DescribeConfigsRequest)> = by_target
            .iter()
            .map(|(to, list)| {
                let resources = list
                    .iter()
                    .map(|resource| DescribeConfigsResource {
                        resource_type: resource.kind(),
                        resource_name: resource.name(),
                        configuration_keys: None,
                    })
                    .collect();
                (
                    *to,
                    DescribeConfigsRequest {
                        resources,
                        ..Default::default()
                    },
                )
            })
            .collect();
        let until_ns = self.until_ns();
        let answers = self.call_many(&calls, DescribeConfigsRequest::VERSIONS, until_ns);
        let mut described = BTreeMap::new();
        for ((_, list), answer) in by_target.iter().zip(answers) {
            for result in answer?.message.results {
                let Some(resource) = list.iter().find(|resource| {
                    resource.kind() == result.resource_type && resource.name() == result.resource_name
                }) else {
                    continue;
                };
                let refusal = Refusal::check(
                    ApiKey::DESCRIBE_CONFIGS,
                    result.error_code,
                    result.error_message,
                    &result.resource_name,
                );
                let outcome = refusal.map(|()| {
                    result
                        .configs
                        .into_iter()
                        .map(|config| ConfigEntry {
                            name: config.name,
                            value: config.value,
                            source: ConfigSource::from_wire(config.config_source),
                            is_read_only: config.read_only,
                            is_sensitive: config.is_sensitive,
                        })
                        .collect()
                });
                described.insert((*resource).clone(), outcome);
            }
        }
        Ok(described)
    }

    /// One setting of a resource; `None` where the principal may not see it, or there is no such setting.
    ///
    /// # Errors
    ///
    /// When the broker refuses for another reason than lack of rights, or does not answer in time.
    pub fn config_value(
        &mut self,
        resource: &ConfigResource,
        name: &str,
    ) -> Result<Option<String>, AdminError> {
        let mut described = self.describe_configs(std::slice::from_ref(resource))?;
        match described.remove(resource) {
            None => Ok(None),
            Some(Err(refusal)) if refusal.is_missing_right() => Ok(None),
            Some(Err(refusal)) => Err(refusal.into()),
            Some(Ok(entries)) => Ok(entries
                .into_iter()
                .find(|entry| entry.name == name)
                .and_then(|entry| entry.value)),
        }
    }

    /// Sets (`Some`) or takes back (`None`) single settings and leaves the others. On brokers before Kafka 2.3, which can only
    /// replace all settings of a resource, those in effect are read first and sent along.
    ///
    /// # Errors
    ///
    /// The broker's refusal, or that it did not answer in time.
    pub fn alter_configs(
        &mut self,
        resource: &ConfigResource,
        changes: &BTreeMap<String, Option<String>>,
    ) -> Result<(), AdminError> {
        let until_ns = self.until_ns();
        let configs = changes
            .iter()
            .map(|(name, value)| incremental_alter_configs::AlterableConfig {
                name: name.clone(),
                config_operation: i8::from(value.is_none()),
                value: value.clone(),
            })
            .collect();
        let request = IncrementalAlterConfigsRequest {
            resources: vec![incremental_alter_configs::AlterConfigsResource {
                resource_type: resource.kind(),
                resource_name: resource.name(),
                configs,
            }],
            validate_only: false,
        };
        let versions = IncrementalAlterConfigsRequest::VERSIONS;
        match self.call_within(resource.asked_of(), versions, &request, until_ns) {
            Ok(answer) => {
                for result in answer.message.responses {
                    Refusal::check(
                        ApiKey::INCREMENTAL_ALTER_CONFIGS,
                        result.error_code,
                        result.error_message,
                        &result.resource_name,
                    )?;
                }
                Ok(())
            }
            Err(AdminError::Unsupported(_)) => self.replace_configs(resource, changes, until_ns),
            Err(error) => Err(error),
        }
    }

    fn replace_configs(
        &mut self,
        resource: &ConfigResource,
        changes: &BTreeMap<String, Option<String>>,
        until_ns: u64,
    ) -> Result<(), AdminError> {
        let mut described = self.describe_configs(std::slice::from_ref(resource))?;
        let entries = described.remove(resource).unwrap_or_else(|| Ok(Vec::new()))?;
        let own = match resource {
            ConfigResource::Topic(_) => ConfigSource::Topic,
            ConfigResource::Broker(_) => ConfigSource::Broker,
            ConfigResource::AllBrokers => ConfigSource::AllBrokers,
        };
        let mut values: BTreeMap<String, Option<String>> = entries
            .into_iter()
            .filter(|entry| entry.source == own)
            .map(|entry| (entry.name, entry.value))
            .collect();
        values.extend(changes.clone());
        let configs = values
            .into_iter()
            .filter(|(_, value)| value.is_some())
            .map(|(name, value)| alter_configs::AlterableConfig { name, value })
            .collect();
        let request = AlterConfigsRequest {
            resources: vec![alter_configs::AlterConfigsResource {
                resource_type: resource.kind(),
                resource_name: resource.name(),
                configs,
            }],
            validate_only: false,
        };
        let answer = self.call_within(
            resource.asked_of(),
            AlterConfigsRequest::VERSIONS,
            &request,
            until_ns,
        )?;
        for result in answer.message.responses {
            Refusal::check(
                ApiKey::ALTER_CONFIGS,
                result.error_code,
                result.error_message,
                &result.resource_name,
            )?;
        }
        Ok(())
    }

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
                    Err(AdminError::Unreachable { .. }) if self.clock.now_ns() < until_ns => continue,
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

    /// The directories of each broker, with the replicas of `topics` in them, or of all topics.
    ///
    /// # Errors
    ///
    /// When a broker does not answer in time. A broker that refuses has its own outcome.
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
            let message = answer?.message;
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

    /// All groups that the principal may see, by id.
    ///
    /// # Errors
    ///
    /// When a broker refuses, or does not answer in time.
    pub fn list_groups(&mut self) -> Result<Vec<ListedGroup>, AdminError> {
        let brokers: Vec<i32> = self.cluster()?.brokers.into_keys().collect();
        let until_ns = self.until_ns();
        let calls: Vec<(To, ListGroupsRequest)> = brokers
            .iter()
            .map(|&id| (To::Broker(id), ListGroupsRequest::default()))
            .collect();
        let answers = self.call_many(&calls, ListGroupsRequest::VERSIONS, until_ns);
        let mut groups = Vec::new();
        for (&coordinator, answer) in brokers.iter().zip(answers) {
            let Answer { message, version, .. } = answer?;
            Refusal::check(ApiKey::LIST_GROUPS, message.error_code, None, "")?;
            groups.extend(message.groups.into_iter().map(|group| ListedGroup {
                group_id: group.group_id,
                protocol_type: group.protocol_type,
                state: (version >= 4).then_some(group.group_state),
                kind: (version >= 5).then_some(group.group_type),
                coordinator,
            }));
        }
        groups.sort_by(|a, b| a.group_id.cmp(&b.group_id));
        Ok(groups)
    }

    /// A classic group; `None` if there is no such group.
    ///
    /// # Errors
    ///
    /// The coordinator's refusal, or that it did not answer in time.
    pub fn describe_group(&mut self, group_id: &str) -> Result<Option<GroupDescription>, AdminError> {
        let until_ns = self.until_ns();
        loop {
            let request = DescribeGroupsRequest {
                groups: vec![group_id.to_owned()],
                include_authorized_operations: false,
            };
            let coordinator = self.coordinator(group_id, until_ns)?;
            let answer =
                self.call_within(coordinator, DescribeGroupsRequest::VERSIONS, &request, until_ns)?;
            let Some(group) = answer.message.groups.into_iter().next() else {
                return Ok(None);
            };
            if self.is_worth_repeating(group.error_code, until_ns) {
                self.back_off(true, until_ns)?;
                continue;
            }
            if group.error_code == ErrorCode::GROUP_ID_NOT_FOUND || group.group_state == "Dead" {
                return Ok(None);
            }
            Refusal::check(
                ApiKey::DESCRIBE_GROUPS,
                group.error_code,
                group.error_message,
                group_id,
            )?;
            return Ok(Some(GroupDescription {
                group_id: group.group_id,
                state: group.group_state,
                protocol_type: group.protocol_type,
                assignor: group.protocol_data,
                members: group
                    .members
                    .into_iter()
                    .map(|member| GroupMember {
                        assigned: assigned_in(&member.member_assignment),
                        member_id: member.member_id,
                        group_instance_id: member.group_instance_id,
                        client_id: member.client_id,
                        client_host: member.client_host,
                    })
                    .collect(),
            }));
        }
    }

    /// Deletes groups without members. Each one's outcome stands at its place.
    ///
    /// # Errors
    ///
    /// When a coordinator does not answer in time.
    pub fn delete_groups(&mut self, group_ids: &[String]) -> Result<Vec<Result<(), Refusal>>, AdminError> {
        let until_ns = self.until_ns();
        let mut outcomes = Vec::with_capacity(group_ids.len());
        for group_id in group_ids {
            let outcome = loop {
                let coordinator = self.coordinator(group_id, until_ns)?;
                let request = DeleteGroupsRequest {
                    groups_names: vec![group_id.clone()],
                };
                let answer =
                    self.call_within(coordinator, DeleteGroupsRequest::VERSIONS, &request, until_ns)?;
                let error = answer
                    .message
                    .results
                    .first()
                    .map_or(ErrorCode::NONE, |result| result.error_code);
                if self.is_worth_repeating(error, until_ns) {
                    self.back_off(true, until_ns)?;
                    continue;
                }
                if error == ErrorCode::GROUP_ID_NOT_FOUND && answer.repeated {
                    break Ok(());
                }
                break Refusal::check(ApiKey::DELETE_GROUPS, error, None, group_id);
            };
            outcomes.push(outcome);
        }
        Ok(outcomes)
    }

    /// The offsets that a group has committed.
    ///
    /// # Errors
    ///
    /// The coordinator's refusal, or that it did not answer in time.
    pub fn committed_offsets(&mut self, group_id: &str) -> Result<BTreeMap<TopicPartition, i64>, AdminError> {
        let until_ns = self.until_ns();
        loop {
            let request = OffsetFetchRequest {
                group_id: group_id.to_owned(),
                topics: None,
                groups: vec![OffsetFetchRequestGroup {
                    group_id: group_id.to_owned(),
                    topics: None,
                    ..Default::default()
                }],
                require_stable: false,
            };
            let coordinator = self.coordinator(group_id, until_ns)?;
            // Version 1 cannot ask for all topics.
            let message = self.call_within(coordinator, 2..=9, &request, until_ns)?.message;
            let mut error = message.error_code;
            let mut committed = BTreeMap::new();
            let mut add = |topic: &str, index: i32, offset: i64| {
                if offset >= 0 {
                    committed.insert((topic.to_owned(), index), offset);
                }
            };
            for topic in &message.topics {
                topic
                    .partitions
                    .iter()
                    .for_each(|p| add(&topic.name, p.partition_index, p.committed_offset));
            }
            for group in message.groups.iter().filter(|group| group.group_id == group_id) {
                error = group.error_code;
                for topic in &group.topics {
                    topic
                        .partitions
                        .iter()
                        .for_each(|p| add(&topic.name, p.partition_index, p.committed_offset));
                }
            }
            if !self.is_worth_repeating(error, until_ns) {
                Refusal::check(ApiKey::OFFSET_FETCH, error, None, group_id)?;
                return Ok(committed);
            }
            self.back_off(true, until_ns)?;
        }
    }

    fn coordinator(&mut self, group_id: &str, until_ns: u64) -> Result<To, AdminError> {
        loop {
            let request = FindCoordinatorRequest {
                key: group_id.to_owned(),
                key_type: 0,
                coordinator_keys: vec![group_id.to_owned()],
            };
            let answer = self.call_within(To::Any, FindCoordinatorRequest::VERSIONS, &request, until_ns)?;
            let (error, message, id) = found_coordinator(answer.version, answer.message);
            if error == ErrorCode::NONE {
                return Ok(To::Broker(id));
            }
            if !self.is_worth_repeating(error, until_ns) {
                return Err(Refusal::new(ApiKey::FIND_COORDINATOR, error, message, group_id).into());
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

    fn until_ns(&self) -> u64 {
        self.clock.now_ns().saturating_add(self.api_timeout_ns)
    }

    /// How long the broker may take, for requests that tell it.
    fn timeout_ms(&self, until_ns: u64) -> i32 {
        let left_ns = until_ns
            .saturating_sub(self.clock.now_ns())
            .min(self.cluster.config().request_timeout_ns);
        i32::try_from(left_ns / 1_000_000).unwrap_or(i32::MAX)
    }

    fn is_worth_repeating(&self, error: ErrorCode, until_ns: u64) -> bool {
        error.is_retriable() && self.clock.now_ns() < until_ns
    }

    fn timed_out(&self, what: &str, last: Option<String>) -> AdminError {
        AdminError::TimedOut {
            what: what.to_owned(),
            after: Duration::from_nanos(self.api_timeout_ns),
            last,
        }
    }

    /// Waits before the next attempt, and asks where the controller is by then.
    fn back_off(&mut self, again: bool, until_ns: u64) -> Result<(), AdminError> {
        if again {
            self.cluster.want_metadata();
            self.wait(self.retry_backoff_ns, until_ns)?;
        }
        Ok(())
    }

    fn wait(&mut self, for_ns: u64, until_ns: u64) -> Result<(), AdminError> {
        let end_ns = self.clock.now_ns().saturating_add(for_ns).min(until_ns);
        while self.clock.now_ns() < end_ns {
            self.step(end_ns)?;
            while self.cluster.next_event().is_some() {}
        }
        Ok(())
    }

    /// Lets the network do what it has to do, and waits for it, not beyond `until_ns`.
    fn step(&mut self, until_ns: u64) -> Result<(), AdminError> {
        let now_ns = self.clock.now_ns();
        self.cluster.tick(now_ns);
        self.net.act(self.cluster.actions());
        // A deadline that has passed waits for something else to happen: not to spin on it costs a millisecond at most.
        let deadline_ns = self
            .cluster
            .next_deadline_ns()
            .unwrap_or(u64::MAX)
            .max(now_ns + 1_000_000);
        self.net.poll(Some(until_ns.min(deadline_ns)), &mut self.events)?;
        let now_ns = self.clock.now_ns();
        for (conn, event) in self.events.drain(..) {
            self.cluster.on_net(conn, event, now_ns);
        }
        self.net.act(self.cluster.actions());
        Ok(())
    }

    /// Connects to all bootstrap servers and waits for metadata. Gives the failures of those that do not answer while others
    /// do.
    fn reach_bootstrap(&mut self, until_ns: u64) -> Result<Vec<ServerFailure>, AdminError> {
        let addresses = self.cluster.config().bootstrap.clone();
        let mut trials: Vec<Trial> = addresses.iter().map(|_| Trial::default()).collect();
        let mut answered_ns = None;
        loop {
            let now_ns = self.clock.now_ns();
            let mut ready = vec![false; trials.len()];
            for (index, trial) in trials.iter_mut().enumerate() {
                let node = Node::Bootstrap(index);
                trial.look(&self.cluster, node);
                ready[index] = !trial.has_given_up() && self.cluster.is_ready(node, now_ns);
            }
            if let Some(unusable) = self.cluster.unusable() {
                let text = format!("{unusable}; plimsoll speaks with Kafka 2.1 and newer");
                return Err(AdminError::Unsupported(text));
            }
            let settled = trials
                .iter()
                .zip(&ready)
                .all(|(trial, &ready)| ready || trial.has_given_up());
            let failures = || {
                let unanswered = trials
                    .iter()
                    .zip(&ready)
                    .zip(&addresses)
                    .filter(|((_, ready), _)| !**ready);
                unanswered
                    .map(|((trial, _), address)| ServerFailure {
                        broker: None,
                        address: address.clone(),
                        reason: trial.reason_or("no answer yet"),
                    })
                    .collect::<Vec<_>>()
            };
            if self.cluster.has_metadata() {
                let since_ns = *answered_ns.get_or_insert(now_ns);
                if settled || now_ns >= until_ns.min(since_ns + GRACE_NS) {
                    return Ok(failures());
                }
            } else if trials.iter().all(Trial::has_given_up) || now_ns >= until_ns {
                return Err(AdminError::NoBootstrapServer { failures: failures() });
            }
            self.step(until_ns.min(now_ns + LOOK_NS))?;
            while self.cluster.next_event().is_some() {}
        }
    }

    /// Connects to all brokers that metadata names. Gives the failures of those that do not answer while others do.
    fn reach_brokers(&mut self, until_ns: u64) -> Result<Vec<ServerFailure>, AdminError> {
        let brokers: Vec<(i32, HostPort)> = self
            .cluster
            .metadata()
            .brokers
            .iter()
            .map(|(&id, broker)| (id, broker.address.clone()))
            .collect();
        let answering = |cluster: &Cluster<u64>| match cluster.any_ready() {
            Some(Node::Bootstrap(index)) => cluster.config().bootstrap[index].clone(),
            _ => cluster.config().bootstrap[0].clone(),
        };
        if brokers.is_empty() {
            return Err(AdminError::NoBrokers {
                bootstrap: answering(&self.cluster),
            });
        }
        let mut trials: Vec<Trial> = brokers.iter().map(|_| Trial::default()).collect();
        let mut answered_ns = None;
        loop {
            let now_ns = self.clock.now_ns();
            let mut ready = vec![false; trials.len()];
            for ((trial, (id, _)), ready) in trials.iter_mut().zip(&brokers).zip(&mut ready) {
                let node = Node::Broker(*id);
                trial.look(&self.cluster, node);
                *ready = !trial.has_given_up() && self.cluster.is_ready(node, now_ns);
            }
            let settled = trials
                .iter()
                .zip(&ready)
                .all(|(trial, &ready)| ready || trial.has_given_up());
            let failures = || {
                let unanswered = trials
                    .iter()
                    .zip(&ready)
                    .zip(&brokers)
                    .filter(|((_, ready), _)| !**ready);
                unanswered
                    .map(|((trial, _), (id, address))| ServerFailure {
                        broker: Some(*id),
                        address: address.clone(),
                        reason: trial.reason_or("no answer yet"),
                    })
                    .collect::<Vec<_>>()
            };
            if ready.contains(&true) {
                let since_ns = *answered_ns.get_or_insert(now_ns);
                if settled || now_ns >= until_ns.min(since_ns + GRACE_NS) {
                    return Ok(failures());
                }
            } else if settled || now_ns >= until_ns {
                let bootstrap = answering(&self.cluster);
                return Err(AdminError::AdvertisedUnreachable {
                    bootstrap,
                    failures: failures(),
                });
            }
            self.step(until_ns.min(now_ns + LOOK_NS))?;
            while self.cluster.next_event().is_some() {}
        }
    }

    fn call<R: Request>(&mut self, to: To, request: &R) -> Result<R::Response, AdminError> {
        let until_ns = self.until_ns();
        Ok(self.call_within(to, R::VERSIONS, request, until_ns)?.message)
    }

    fn call_within<R: Request>(
        &mut self,
        to: To,
        versions: RangeInclusive<i16>,
        request: &R,
        until_ns: u64,
    ) -> Result<Answer<R::Response>, AdminError> {
        let mut answers = self.call_many(&[(to, request.clone())], versions, until_ns);
        answers
            .pop()
            .unwrap_or_else(|| Err(self.timed_out(&R::KEY.to_string(), None)))
    }

    /// Sends all requests at once and waits for all answers. Requests whose connection is lost are sent again, to whoever
    /// is in charge by then.
    fn call_many<R: Request>(
        &mut self,
        calls: &[(To, R)],
        versions: RangeInclusive<i16>,
        until_ns: u64,
    ) -> Vec<Result<Answer<R::Response>, AdminError>> {
        let mut slots: Vec<Slot<R::Response>> =
            calls.iter().map(|_| Slot::Waiting { not_before_ns: 0 }).collect();
        let mut trials: Vec<Trial> = calls.iter().map(|_| Trial::default()).collect();
        let mut repeated = vec![false; calls.len()];
        let mut last_failure: Option<String> = None;
        loop {
            let now_ns = self.clock.now_ns();
            for (index, (to, request)) in calls.iter().enumerate() {
                if let Slot::Waiting { not_before_ns } = slots[index]
                    && now_ns >= not_before_ns
                {
                    match self.try_send(*to, versions.clone(), request, &mut trials[index], now_ns) {
                        Ok(Some(tag)) => slots[index] = Slot::Asked { tag },
                        Ok(None) => {}
                        Err(error) => slots[index] = Slot::Done(Err(error)),
                    }
                }
            }
            let unfinished = slots.iter().any(|slot| !matches!(slot, Slot::Done(_)));
            if !unfinished || now_ns >= until_ns {
                break;
            }
            let waiting = slots.iter().any(|slot| matches!(slot, Slot::Waiting { .. }));
            if let Err(error) = self.step(if waiting {
                until_ns.min(now_ns + LOOK_NS)
            } else {
                until_ns
            }) {
                let text = error.to_string();
                for slot in slots.iter_mut().filter(|slot| !matches!(slot, Slot::Done(_))) {
                    *slot = Slot::Done(Err(AdminError::Poll(std::io::Error::other(text.clone()))));
                }
                break;
            }
            while let Some(event) = self.cluster.next_event() {
                let asked = |slots: &[Slot<R::Response>], tag: u64| {
                    slots
                        .iter()
                        .position(|slot| matches!(slot, Slot::Asked { tag: asked } if *asked == tag))
                };
                match event {
                    ClusterEvent::Answer {
                        tag,
                        version,
                        frame,
                        body_at,
                        ..
                    } => {
                        if let Some(index) = asked(&slots, tag) {
                            let decoded =
                                R::Response::decode(version, &mut Reader::new(&frame.bytes()[body_at..]));
                            slots[index] = Slot::Done(match decoded {
                                Ok(message) => Ok(Answer {
                                    message,
                                    version,
                                    repeated: repeated[index],
                                }),
                                Err(error) => Err(AdminError::BadAnswer { api: R::KEY, error }),
                            });
                        }
                        self.net.recycle(frame);
                    }
                    ClusterEvent::Lost {
                        tag,
                        written_ns,
                        reason,
                        ..
                    } => {
                        if let Some(index) = asked(&slots, tag) {
                            repeated[index] |= written_ns.is_some();
                            last_failure = Some(reason.to_string());
                            slots[index] = Slot::Waiting {
                                not_before_ns: now_ns + self.retry_backoff_ns,
                            };
                        }
                    }
                    ClusterEvent::Ready(_) | ClusterEvent::MetadataUpdated | ClusterEvent::Written { .. } => {
                    }
                }
            }
        }
        slots
            .into_iter()
            .map(|slot| match slot {
                Slot::Done(result) => result,
                Slot::Waiting { .. } | Slot::Asked { .. } => {
                    Err(self.timed_out(&R::KEY.to_string(), last_failure.clone()))
                }
            })
            .collect()
    }

    /// Sends the request if whoever has to get it is connected; `None` while that is not so.
    fn try_send<R: Request>(
        &mut self,
        to: To,
        versions: RangeInclusive<i16>,
        request: &R,
        trial: &mut Trial,
        now_ns: u64,
    ) -> Result<Option<u64>, AdminError> {
        let wanted = match to {
            To::Any => None,
            To::Controller => self.cluster.metadata().controller,
            To::Broker(id) => Some(id),
        };
        let mut node = None;
        if let Some(id) = wanted {
            let broker = Node::Broker(id);
            if self.cluster.is_ready(broker, now_ns) {
                node = Some(broker);
            } else if !self.cluster.metadata().brokers.contains_key(&id) {
                self.cluster.want_metadata();
            }
            trial.look(&self.cluster, broker);
            if node.is_none() && trial.has_given_up() && to != To::Controller {
                let metadata = self.cluster.metadata();
                let address = metadata.brokers.get(&id).map(|broker| broker.address.clone());
                if let Some(address) = address {
                    let failure = ServerFailure {
                        broker: Some(id),
                        address,
                        reason: trial.reason_or("no answer yet"),
                    };
                    return Err(AdminError::Unreachable { api: R::KEY, failure });
                }
            }
        }
        // Brokers without ZooKeeper pass requests on to the controller, so any will do where it cannot be reached.
        if node.is_none()
            && (to == To::Any || (to == To::Controller && (wanted.is_none() || trial.has_given_up())))
        {
            node = self.cluster.any_ready();
            if node.is_none() {
                self.cluster.want_metadata();
            }
        }
        let Some(node) = node else { return Ok(None) };
        let tag = self.next_tag;
        let timeout_ns = self.cluster.config().request_timeout_ns;
        match self
            .cluster
            .send_within(node, versions, request, tag, now_ns, timeout_ns)
        {
            Ok(()) => {
                self.next_tag += 1;
                Ok(Some(tag))
            }
            Err(SendError::NotReady) => Ok(None),
            Err(SendError::Unsupported(unsupported)) => Err(unsupported.into()),
        }
    }
}

impl From<Unsupported> for AdminError {
    fn from(unsupported: Unsupported) -> AdminError {
        AdminError::Unsupported(unsupported.to_string())
    }
}

/// A tool that only looks must not create what it looks for.
fn no_creation() -> MetadataRequest {
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

/// Error, explanation and node id in an answer to FindCoordinator about one key.
pub(crate) fn found_coordinator(
    version: i16,
    message: wire::messages::find_coordinator::FindCoordinatorResponse,
) -> (ErrorCode, Option<String>, i32) {
    if version < 4 {
        return (message.error_code, message.error_message, message.node_id);
    }
    match message.coordinators.into_iter().next() {
        Some(found) => (found.error_code, found.error_message, found.node_id),
        None => (ErrorCode::COORDINATOR_NOT_AVAILABLE, None, -1),
    }
}

fn assigned_in(bytes: &[u8]) -> Vec<TopicPartition> {
    let Ok(assignment) =
        wire::consumer_protocol::decode::<wire::consumer_protocol::ConsumerProtocolAssignment>(bytes)
    else {
        return Vec::new();
    };
    assignment
        .assigned_partitions
        .into_iter()
        .flat_map(|topic| {
            let name = topic.topic;
            topic
                .partitions
                .into_iter()
                .map(move |partition| (name.clone(), partition))
        })
        .collect()
}
