//! Kafka's client properties: what the Java producer, consumer and admin client know, what of it is honoured here, and
//! the typed settings that the clients are configured by.
//!
//! Names, defaults and rules are those of Apache Kafka 4.x (`ProducerConfig`, `ConsumerConfig`, `AdminClientConfig`,
//! `SaslConfigs`, `SslConfigs`). A property that Kafka knows and that has no effect here is reported, an unknown one that
//! resembles a known one is a fault, and any other unknown one is a notice, as Kafka itself only warns of those.

mod catalogue;
pub mod jaas;
mod resolve;
mod secured;
mod security;

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;
use std::time::Duration;

pub use catalogue::{Honoured, PropertySpec, ValueKind, all as catalogue, find as find_property, is_secret};
pub use resolve::{ClientProperties, Resolved};
pub use security::{SaslConfig, Secret, Security, Store, TlsConfig, TokenSource};

/// The three clients that a property may belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClientKind {
    /// Sends records.
    Producer,
    /// Reads records, alone or in a group.
    Consumer,
    /// Creates, describes and deletes topics.
    Admin,
}

impl fmt::Display for ClientKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ClientKind::Producer => "producer",
            ClientKind::Consumer => "consumer",
            ClientKind::Admin => "admin client",
        })
    }
}

/// The address of a server: a name or an IP address, and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostPort {
    /// The name or the IP address, IPv6 without brackets.
    pub host: String,
    /// The TCP port, never 0.
    pub port: u16,
}

impl FromStr for HostPort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        // Kafka's addresses may carry a listener's name, as in PLAINTEXT://host:9092.
        let bare = text.split_once("://").map_or(text, |(_, rest)| rest);
        let allowed = || format!("\"{text}\" is not host:port; write for example broker1:9092 or [::1]:9092");
        let (host, port) = match bare.strip_prefix('[') {
            Some(rest) => rest.split_once("]:").ok_or_else(allowed)?,
            None => bare.rsplit_once(':').ok_or_else(allowed)?,
        };
        let port = port.parse::<u16>().ok().filter(|&port| port != 0);
        let port = port.ok_or_else(|| format!("\"{text}\": the port is a number from 1 to 65535"))?;
        let is_ipv6 = host.parse::<Ipv6Addr>().is_ok();
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '%');
        if host.is_empty() || !(is_ipv6 || host.chars().all(is_name)) {
            return Err(allowed());
        }
        Ok(HostPort {
            host: host.to_owned(),
            port,
        })
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// What every client needs to connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionConfig {
    /// `bootstrap.servers`, never empty.
    pub bootstrap_servers: Vec<HostPort>,
    /// How connections are secured.
    pub security: Security,
    /// `client.id`, sent with each request and used by quotas; may be empty.
    pub client_id: String,
    /// `request.timeout.ms`: how long an answer is awaited.
    pub request_timeout: Duration,
    /// `retry.backoff.ms`: the wait before the first repeat of a request.
    pub retry_backoff: Duration,
    /// `retry.backoff.max.ms`: the longest wait between repeats, which doubles up to it (KIP-580).
    pub retry_backoff_max: Duration,
    /// `reconnect.backoff.ms`: the wait before a broken connection is opened again.
    pub reconnect_backoff: Duration,
    /// `reconnect.backoff.max.ms`: the longest such wait.
    pub reconnect_backoff_max: Duration,
    /// `socket.connection.setup.timeout.ms`: how long a connection may take to be made (KIP-601).
    pub connection_setup_timeout: Duration,
    /// `socket.connection.setup.timeout.max.ms`: up to which that time doubles with each failure.
    pub connection_setup_timeout_max: Duration,
    /// `connections.max.idle.ms`: after which an unused connection is closed; absent for never (-1).
    pub connections_max_idle: Option<Duration>,
    /// `metadata.max.age.ms`: after which metadata is asked for again without need.
    pub metadata_max_age: Duration,
    /// `send.buffer.bytes`, the socket's SO_SNDBUF; absent for the system's choice (-1).
    pub send_buffer_bytes: Option<u32>,
    /// `receive.buffer.bytes`, the socket's SO_RCVBUF; absent for the system's choice (-1).
    pub receive_buffer_bytes: Option<u32>,
}

/// `acks`: which acknowledgement a producer asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Acks {
    /// None: the broker does not answer.
    None,
    /// The leader's.
    Leader,
    /// That of all in-sync replicas.
    All,
}

impl Acks {
    /// The number in a Produce request: 0, 1 or -1.
    pub const fn wire_value(self) -> i16 {
        match self {
            Acks::None => 0,
            Acks::Leader => 1,
            Acks::All => -1,
        }
    }
}

impl fmt::Display for Acks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Acks::None => "0",
            Acks::Leader => "1",
            Acks::All => "all",
        })
    }
}

/// `compression.type` with the level of the codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Batches are sent as they are.
    None,
    /// gzip (RFC 1952).
    Gzip {
        /// 1 to 9, or -1 for the codec's own default.
        level: i32,
    },
    /// Snappy in snappy-java's framing.
    Snappy,
    /// LZ4 frames.
    Lz4 {
        /// 1 to 17.
        level: i32,
    },
    /// Zstandard.
    Zstd {
        /// -131072 to 22.
        level: i32,
    },
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Compression::None => "none",
            Compression::Gzip { .. } => "gzip",
            Compression::Snappy => "snappy",
            Compression::Lz4 { .. } => "lz4",
            Compression::Zstd { .. } => "zstd",
        })
    }
}

/// How the built-in partitioner picks partitions (KIP-794).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionerConfig {
    /// `partitioner.adaptive.partitioning.enable`: partitions with shorter queues are picked more often.
    pub adaptive: bool,
    /// `partitioner.availability.timeout.ms`: a broker that drained nothing for that long is left out; absent for never (0).
    pub availability_timeout: Option<Duration>,
    /// `partitioner.ignore.keys`: records with a key are spread as those without.
    pub ignore_keys: bool,
}

/// The settings of a producer that writes in transactions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionConfig {
    /// `transactional.id`; where there are several producers, what the ids of all of them begin with.
    pub id: String,
    /// `transaction.timeout.ms`: after which the coordinator aborts a transaction that has not ended.
    pub timeout: Duration,
}

/// The settings of a producer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerConfig {
    /// How it connects.
    pub connection: ConnectionConfig,
    /// `acks`.
    pub acks: Acks,
    /// `enable.idempotence`, after Kafka's rules for its silent switching off.
    pub idempotence: bool,
    /// `batch.size`: a batch is full at that many bytes; 0 means one record a batch.
    pub batch_size_bytes: u32,
    /// `linger.ms`: how long a batch that is not full waits.
    pub linger: Duration,
    /// `buffer.memory`: bytes that may wait in the producer.
    pub buffer_memory_bytes: u64,
    /// `max.block.ms`: how long a record waits for buffer memory before it fails.
    pub max_block: Duration,
    /// `max.in.flight.requests.per.connection`, at least 1.
    pub max_in_flight_requests: u32,
    /// `max.request.size`: of a request, and of a record before compression.
    pub max_request_size_bytes: u32,
    /// `retries`: how often a request is repeated after a retriable error; the delivery timeout usually ends it first.
    pub retries: u32,
    /// `delivery.timeout.ms`: from a batch's creation to its failure, over all waits and repeats.
    pub delivery_timeout: Duration,
    /// `compression.type` and its level.
    pub compression: Compression,
    /// How partitions are picked.
    pub partitioner: PartitionerConfig,
    /// With a `transactional.id`: its transactions.
    pub transaction: Option<TransactionConfig>,
    /// `transaction.timeout.ms`, for transactions that are asked for otherwise.
    pub transaction_timeout: Duration,
}

/// `auto.offset.reset`: where a partition without a committed offset is read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetReset {
    /// The first offset.
    Earliest,
    /// The end.
    Latest,
    /// Nowhere: it is an error.
    None,
    /// The first record not older than this (`by_duration:PT1H`, KIP-1106).
    ByDuration(Duration),
}

/// `isolation.level`: what of transactions a consumer sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IsolationLevel {
    /// All records.
    ReadUncommitted,
    /// Records of committed transactions, up to the last stable offset.
    ReadCommitted,
}

impl IsolationLevel {
    /// The number in a Fetch or ListOffsets request: 0 or 1.
    pub const fn wire_value(self) -> i8 {
        match self {
            IsolationLevel::ReadUncommitted => 0,
            IsolationLevel::ReadCommitted => 1,
        }
    }
}

/// `partition.assignment.strategy`: how the leader of a classic group divides partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AssignmentStrategy {
    /// Each topic's partitions in ranges, over its subscribers in order.
    Range,
    /// All partitions in turn.
    RoundRobin,
    /// Evenly, and as they were as far as that goes together; members give everything up in between (KIP-54).
    Sticky,
    /// The same, and members give up only what they lose (KIP-429).
    CooperativeSticky,
}

impl AssignmentStrategy {
    /// All of them.
    pub const ALL: [AssignmentStrategy; 4] = [
        AssignmentStrategy::Range,
        AssignmentStrategy::RoundRobin,
        AssignmentStrategy::Sticky,
        AssignmentStrategy::CooperativeSticky,
    ];

    /// Its name in JoinGroup.
    pub const fn protocol_name(self) -> &'static str {
        match self {
            AssignmentStrategy::Range => "range",
            AssignmentStrategy::RoundRobin => "roundrobin",
            AssignmentStrategy::Sticky => "sticky",
            AssignmentStrategy::CooperativeSticky => "cooperative-sticky",
        }
    }

    /// The Java class that properties name it by, without its package.
    pub const fn class_name(self) -> &'static str {
        match self {
            AssignmentStrategy::Range => "RangeAssignor",
            AssignmentStrategy::RoundRobin => "RoundRobinAssignor",
            AssignmentStrategy::Sticky => "StickyAssignor",
            AssignmentStrategy::CooperativeSticky => "CooperativeStickyAssignor",
        }
    }
}

/// `group.protocol`: which protocol a consumer speaks with its group's coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupProtocol {
    /// Members divide partitions among themselves, by the first of these that all of them have; never empty.
    Classic(Vec<AssignmentStrategy>),
    /// The coordinator divides them (KIP-848), by this of its assignors; by its own choice where absent.
    Consumer(Option<String>),
}

/// The settings of a consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerConfig {
    /// How it connects.
    pub connection: ConnectionConfig,
    /// `fetch.min.bytes`: a broker holds its answer until it has that many.
    pub fetch_min_bytes: u32,
    /// `fetch.max.wait.ms`: or until that much time has passed.
    pub fetch_max_wait: Duration,
    /// `fetch.max.bytes`: the most that an answer holds, but for its first batch.
    pub fetch_max_bytes: u32,
    /// `max.partition.fetch.bytes`: the most of one partition in an answer, but for its first batch.
    pub max_partition_fetch_bytes: u32,
    /// `group.id`; absent where no group is joined.
    pub group_id: Option<String>,
    /// `group.protocol`, with `partition.assignment.strategy` or `group.remote.assignor`.
    pub group_protocol: GroupProtocol,
    /// `group.instance.id` of a static member (KIP-345).
    pub group_instance_id: Option<String>,
    /// `session.timeout.ms`: without a heartbeat for that long a member is thrown out.
    pub session_timeout: Duration,
    /// `heartbeat.interval.ms`.
    pub heartbeat_interval: Duration,
    /// `max.poll.interval.ms`, sent as the group's rebalance timeout.
    pub max_poll_interval: Duration,
    /// `auto.offset.reset`.
    pub auto_offset_reset: OffsetReset,
    /// `enable.auto.commit`: commits at intervals; otherwise what was consumed is committed after each poll.
    pub auto_commit: bool,
    /// `auto.commit.interval.ms`.
    pub auto_commit_interval: Duration,
    /// `isolation.level`.
    pub isolation_level: IsolationLevel,
    /// `client.rack`, for fetching from a near replica (KIP-392); absent when empty.
    pub client_rack: Option<String>,
    /// `check.crcs`: whether each batch's checksum is verified.
    pub check_crcs: bool,
}

/// The settings of an admin client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminConfig {
    /// How it connects.
    pub connection: ConnectionConfig,
    /// `default.api.timeout.ms`: how long one operation may take, over all its requests.
    pub api_timeout: Duration,
}
