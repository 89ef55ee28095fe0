//! Connections to a cluster's brokers, what they understand, and who leads what: the state that every client needs.
//!
//! [`Cluster`] is a state machine. It is told what happened on the network and what time it is, and answers with
//! [`NetAction`]s and [`ClusterEvent`]s; it reads no clock and touches no socket. Requests of its user carry a tag of type
//! `T`, which comes back with the answer or with the loss of the connection.

use crate::net::{CloseReason, ConnId, Frame, NetAction, NetEvent, Outgoing, SocketOptions};
use crate::security::{Login, Secured};
use model::client_config::{ConnectionConfig, HostPort};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;
use wire::codec::{Layout, Message, Reader, Request};
use wire::messages::api_versions::{ApiVersionsRequest, ApiVersionsResponse};
use wire::messages::metadata::{MetadataRequest, MetadataRequestTopic, MetadataResponse};
use wire::messages::sasl_authenticate::{SaslAuthenticateRequest, SaslAuthenticateResponse};
use wire::messages::sasl_handshake::{SaslHandshakeRequest, SaslHandshakeResponse};
use wire::sasl::{ClientExchange, Step};
use wire::versions::{ApiVersionTable, Unsupported};
use wire::{ApiKey, ErrorCode};

/// How a client connects.
#[derive(Clone, Debug)]
pub struct ClusterConfig {
    /// `bootstrap.servers`.
    pub bootstrap: Vec<HostPort>,
    /// `client.id`.
    pub client_id: String,
    /// Number of this client on its thread; becomes part of its connections' names.
    pub owner: u32,
    /// `request.timeout.ms`.
    pub request_timeout_ns: u64,
    /// `reconnect.backoff.ms`, doubled with each failure in a row.
    pub reconnect_backoff_ns: u64,
    /// `reconnect.backoff.max.ms`.
    pub reconnect_backoff_max_ns: u64,
    /// `retry.backoff.ms`: the least time between two requests for metadata.
    pub retry_backoff_ns: u64,
    /// `socket.connection.setup.timeout.ms`, until a connection has said which versions it understands.
    pub setup_timeout_ns: u64,
    /// `metadata.max.age.ms`.
    pub metadata_max_age_ns: u64,
    /// Socket options.
    pub socket: SocketOptions,
    /// TLS and SASL, or why they cannot be used.
    pub secured: Result<Secured, String>,
}

impl ClusterConfig {
    /// As the properties say. `owner` numbers the client on its thread; a frame of more than `max_frame_bytes` is not
    /// believed.
    pub fn new(connection: &ConnectionConfig, owner: u32, max_frame_bytes: usize) -> ClusterConfig {
        ClusterConfig {
            bootstrap: connection.bootstrap_servers.clone(),
            client_id: connection.client_id.clone(),
            owner,
            request_timeout_ns: nanos(connection.request_timeout),
            reconnect_backoff_ns: nanos(connection.reconnect_backoff),
            reconnect_backoff_max_ns: nanos(connection.reconnect_backoff_max),
            retry_backoff_ns: nanos(connection.retry_backoff),
            setup_timeout_ns: nanos(connection.connection_setup_timeout),
            metadata_max_age_ns: nanos(connection.metadata_max_age),
            socket: SocketOptions {
                send_buffer_bytes: connection.send_buffer_bytes.map(|bytes| bytes as usize),
                receive_buffer_bytes: connection.receive_buffer_bytes.map(|bytes| bytes as usize),
                max_frame_bytes,
            },
            secured: Secured::prepare(&connection.security).map_err(|error| error.to_string()),
        }
    }
}

/// Whole nanoseconds, or the most that 64 bits hold.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// For how many ms an answer of `api` in `version` asks its reader to wait.
pub(crate) fn throttle_ms(api: ApiKey, version: i16, throttle_time_ms: i32) -> u32 {
    match wire::throttle::client_waits_from(api) {
        Some(from) if version >= from => u32::try_from(throttle_time_ms).unwrap_or(0),
        _ => 0,
    }
}

/// A topic's id that was replaced by another is not believed for so long.
const RETIRED_NS: u64 = 10_000_000_000;
/// Questions that any broker can answer go to others while one has been silent for this long.
const SLOW_NS: u64 = 2_000_000_000;

/// A broker as metadata names it, or a bootstrap server of which only the address is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Node {
    /// The broker of that id.
    Broker(i32),
    /// The bootstrap server at that place in the list.
    Bootstrap(usize),
}

/// What the cluster says of itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata {
    /// Brokers by id.
    pub brokers: BTreeMap<i32, BrokerInfo>,
    /// The broker that answers for the controller.
    pub controller: Option<i32>,
    /// The cluster's id.
    pub cluster_id: Option<String>,
    /// The topics that were asked for, by name.
    pub topics: HashMap<String, TopicInfo>,
}

/// One broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerInfo {
    /// What it advertises.
    pub address: HostPort,
    /// Its rack.
    pub rack: Option<String>,
}

/// One topic.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopicInfo {
    /// Why there is no more to say, or `NONE`.
    pub error: ErrorCode,
    /// Its id; all zero before Kafka 2.8.
    pub topic_id: Uuid,
    /// Whether Kafka keeps it for itself.
    pub is_internal: bool,
    /// Its partitions, by index.
    pub partitions: Vec<PartitionInfo>,
}

pub use wire::codec::Uuid;

/// The time-out by which a request that is not answered ends its connection, by its property's name.
pub(crate) const REQUEST_TIMEOUT: &str = "request.timeout.ms";

/// One partition.
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionInfo {
    /// Its index.
    pub index: i32,
    /// The broker that leads it.
    pub leader: Option<i32>,
    /// The leader's epoch, −1 before Kafka 2.1.
    pub leader_epoch: i32,
    /// The brokers that hold it.
    pub replicas: Vec<i32>,
    /// Those that are in sync.
    pub isr: Vec<i32>,
}

/// What a [`Cluster`] tells its user.
#[derive(Debug)]
pub enum ClusterEvent<T> {
    /// A broker may be asked now.
    Ready(Node),
    /// Metadata came in.
    MetadataUpdated,
    /// A request that has no answer (acks=0) is in the kernel's hands.
    Written {
        /// The request's tag.
        tag: T,
        /// When.
        at_ns: u64,
    },
    /// An answer.
    Answer {
        /// Who answered.
        node: Node,
        /// The request's tag.
        tag: T,
        /// The request's version.
        version: i16,
        /// The answer.
        frame: Frame,
        /// Where in it the message begins, behind the header.
        body_at: usize,
        /// When the request's last byte was given to the kernel.
        written_ns: u64,
        /// When the answer was read.
        at_ns: u64,
    },
    /// The connection ended, or the time-out came, before the answer did.
    Lost {
        /// Who was asked.
        node: Node,
        /// The request's tag.
        tag: T,
        /// When the request's last byte was given to the kernel; `None` if it never was.
        written_ns: Option<u64>,
        /// Why.
        reason: CloseReason,
        /// When.
        at_ns: u64,
    },
}

#[derive(Debug)]
enum Purpose<T> {
    Versions {
        version: i16,
    },
    Handshake {
        version: i16,
    },
    Authenticate {
        version: i16,
    },
    Metadata {
        version: i16,
    },
    User {
        tag: T,
        version: i16,
        response_tagged: bool,
    },
}

impl<T> Purpose<T> {
    /// Whether the answer's header is the flexible one.
    fn has_tagged_answer(&self) -> bool {
        let is_flexible = |from: Option<i16>, version: i16| from.is_some_and(|from| version >= from);
        match *self {
            Purpose::Versions { .. } | Purpose::Handshake { .. } => false,
            Purpose::Authenticate { version } => is_flexible(SaslAuthenticateRequest::FLEXIBLE_FROM, version),
            Purpose::Metadata { version } => is_flexible(MetadataRequest::FLEXIBLE_FROM, version),
            Purpose::User { response_tagged, .. } => response_tagged,
        }
    }
}

#[derive(Debug)]
struct InFlight<T> {
    correlation: i32,
    purpose: Purpose<T>,
    written_ns: Option<u64>,
    timeout_at_ns: u64,
    has_answer: bool,
    asked_ns: u64,
    /// The API, where an answer's throttle time is looked for here and not by whoever asked.
    api: Option<ApiKey>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinkState {
    Idle,
    Connecting {
        conn: ConnId,
        since_ns: u64,
    },
    Negotiating {
        conn: ConnId,
        since_ns: u64,
    },
    /// Logs in, at first or anew; requests that were sent before are still answered.
    Authenticating {
        conn: ConnId,
        since_ns: u64,
    },
    Ready {
        conn: ConnId,
    },
}

#[derive(Debug)]
struct Link<T> {
    node: Node,
    address: HostPort,
    state: LinkState,
    in_flight: VecDeque<InFlight<T>>,
    failures: u32,
    attempts: u32,
    retry_at_ns: u64,
    last_failure: Option<CloseReason>,
    versions: Option<ApiVersionTable>,
    /// The cluster's features in use, with their levels, as this broker told them.
    features: BTreeMap<String, i16>,
    exchange: Option<ClientExchange>,
    /// When the session ends unless it is logged in anew before (KIP-368).
    log_in_again_ns: Option<u64>,
    /// Whether it has answered anything but the question for its versions since it was opened.
    has_served: bool,
    /// Its oldest question has waited for an answer for longer than [`SLOW_NS`].
    is_slow: bool,
    /// Nothing is sent to it before then, because a quota holds us back (KIP-219).
    throttled_until_ns: u64,
    /// Whether that is still to come, as of the last tick or answer.
    is_throttled: bool,
}

impl<T> Link<T> {
    fn new(node: Node, address: HostPort) -> Link<T> {
        Link {
            node,
            address,
            state: LinkState::Idle,
            in_flight: VecDeque::new(),
            failures: 0,
            attempts: 0,
            retry_at_ns: 0,
            last_failure: None,
            versions: None,
            features: BTreeMap::new(),
            exchange: None,
            log_in_again_ns: None,
            has_served: false,
            is_slow: false,
            throttled_until_ns: 0,
            is_throttled: false,
        }
    }

    fn conn(&self) -> Option<ConnId> {
        match self.state {
            LinkState::Idle => None,
            LinkState::Connecting { conn, .. }
            | LinkState::Negotiating { conn, .. }
            | LinkState::Authenticating { conn, .. }
            | LinkState::Ready { conn } => Some(conn),
        }
    }
}

/// Why a request could not be sent to a node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// There is no open connection; ask [`Cluster::is_ready`] first.
    #[error("not connected")]
    NotReady,
    /// The broker has no version of the API that we have.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
}

/// See the module.
#[derive(Debug)]
pub struct Cluster<T> {
    config: ClusterConfig,
    links: Vec<Link<T>>,
    by_node: HashMap<Node, usize>,
    next_serial: u32,
    next_correlation: i32,
    metadata: Metadata,
    has_metadata: bool,
    topics: BTreeSet<String>,
    /// The newest id of each topic, and those that topics of before had under the same name.
    topic_ids: HashMap<String, Uuid>,
    /// Until when each is not believed: a broker lags for a moment, and which of two ids is the newer one is a guess.
    retired_ids: HashMap<Uuid, u64>,
    metadata_wanted: bool,
    metadata_in_flight: bool,
    metadata_asked_ns: Option<u64>,
    metadata_fresh_until_ns: u64,
    actions: Vec<NetAction>,
    events: VecDeque<ClusterEvent<T>>,
    unusable: Option<String>,
}

impl<T> Cluster<T> {
    /// A cluster that is not connected yet. Metadata is asked for at the first [`Cluster::tick`].
    pub fn new(config: ClusterConfig) -> Cluster<T> {
        let mut cluster = Cluster {
            links: Vec::new(),
            by_node: HashMap::new(),
            next_serial: 0,
            next_correlation: 0,
            metadata: Metadata::default(),
            has_metadata: false,
            topics: BTreeSet::new(),
            topic_ids: HashMap::new(),
            retired_ids: HashMap::new(),
            metadata_wanted: true,
            metadata_in_flight: false,
            metadata_asked_ns: None,
            metadata_fresh_until_ns: 0,
            actions: Vec::new(),
            events: VecDeque::new(),
            unusable: None,
            config,
        };
        for (index, address) in cluster.config.bootstrap.clone().into_iter().enumerate() {
            cluster.link(Node::Bootstrap(index), address);
        }
        cluster
    }

    /// How it connects.
    pub fn config(&self) -> &ClusterConfig {
        &self.config
    }

    /// The topics that metadata is asked for from now on. Metadata is asked for again if there is a new one.
    pub fn watch_topics<'a>(&mut self, topics: impl IntoIterator<Item = &'a str>) {
        for topic in topics {
            if self.topics.insert(topic.to_owned()) {
                self.metadata_wanted = true;
            }
        }
    }

    /// The newest metadata; empty until the first has come.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Whether metadata has ever come.
    pub fn has_metadata(&self) -> bool {
        self.has_metadata
    }

    /// Asks for metadata anew, as soon as `retry.backoff.ms` since the last time has passed.
    pub fn want_metadata(&mut self) {
        self.metadata_wanted = true;
    }

    /// Believes the next metadata about the leaders of `topic` even where their epochs are older than those known: the topic
    /// may have been made again, which brokers without topic ids do not say.
    pub fn forget_epochs(&mut self, topic: &str) {
        if let Some(topic) = self.metadata.topics.get_mut(topic) {
            for partition in &mut topic.partitions {
                partition.leader_epoch = -1;
            }
        }
    }

    /// The last failure of each address that has never or not lately been reached, for a message to the user.
    pub fn failures(&self) -> impl Iterator<Item = (Node, &HostPort, &CloseReason)> {
        self.links
            .iter()
            .filter(|link| link.failures > 0)
            .filter_map(|link| {
                link.last_failure
                    .as_ref()
                    .map(|failure| (link.node, &link.address, failure))
            })
    }

    /// Why no broker of this cluster can be spoken with at all, if that is so: no common version, a login that is refused, a
    /// certificate that is not trusted.
    pub fn unusable(&self) -> Option<&str> {
        self.unusable.as_deref()
    }

    /// Whether requests may be sent to `node` now: not while a quota holds us back. Opens a connection if there is none and the
    /// back-off has passed.
    pub fn is_ready(&mut self, node: Node, now_ns: u64) -> bool {
        let Some(&index) = self.by_node.get(&node) else {
            return false;
        };
        match self.links[index].state {
            LinkState::Ready { .. } => now_ns >= self.links[index].throttled_until_ns,
            LinkState::Idle if now_ns >= self.links[index].retry_at_ns => {
                self.connect(index, now_ns);
                false
            }
            _ => false,
        }
    }

    /// Until when a quota holds us back from `node`, if it does at `now_ns`.
    pub fn throttled_until_ns(&self, node: Node, now_ns: u64) -> Option<u64> {
        let until_ns = self.links[*self.by_node.get(&node)?].throttled_until_ns;
        (now_ns < until_ns).then_some(until_ns)
    }

    /// Sends nothing to `node` for so many ms, as its answer asks for (KIP-219). What answers to requests of
    /// [`Cluster::send`] say is seen to; this is for those that the caller reads itself.
    pub fn hold_back(&mut self, node: Node, throttle_ms: u32, now_ns: u64) {
        if let Some(&index) = self.by_node.get(&node) {
            let link = &mut self.links[index];
            let until_ns = now_ns.saturating_add(u64::from(throttle_ms) * 1_000_000);
            link.throttled_until_ns = link.throttled_until_ns.max(until_ns);
            link.is_throttled = now_ns < link.throttled_until_ns;
        }
    }

    /// Any node that requests may be sent to now, the one with the fewest in flight; brokers come before bootstrap servers.
    pub fn any_ready(&self) -> Option<Node> {
        self.links
            .iter()
            .filter(|link| matches!(link.state, LinkState::Ready { .. }) && !link.is_throttled)
            .min_by_key(|link| {
                (
                    link.is_slow,
                    matches!(link.node, Node::Bootstrap(_)),
                    link.in_flight.len(),
                )
            })
            .map(|link| link.node)
    }

    /// How many requests to `node` have not been answered.
    pub fn in_flight(&self, node: Node) -> usize {
        self.by_node
            .get(&node)
            .map_or(0, |&index| self.links[index].in_flight.len())
    }

    /// The newest version of `R` that we and `node` have in common, within `ours`.
    pub fn version(&self, node: Node, key: ApiKey, ours: RangeInclusive<i16>) -> Result<i16, SendError> {
        let versions = self
            .by_node
            .get(&node)
            .and_then(|&index| self.links[index].versions.as_ref())
            .ok_or(SendError::NotReady)?;
        Ok(versions.pick(key, ours)?)
    }

    /// The level of a feature that the cluster has agreed on (KIP-584), as `node` told it.
    pub fn feature(&self, node: Node, name: &str) -> Option<i16> {
        let index = *self.by_node.get(&node)?;
        self.links[index].features.get(name).copied()
    }

    /// Sends `request` in the newest common version.
    pub fn send<R: Request>(
        &mut self,
        node: Node,
        request: &R,
        tag: T,
        now_ns: u64,
    ) -> Result<(), SendError> {
        let timeout_ns = self.config.request_timeout_ns;
        self.send_within(node, R::VERSIONS, request, tag, now_ns, timeout_ns)
    }

    /// Sends `request` in the newest common version among `versions`, with a time-out of its own.
    pub fn send_within<R: Request>(
        &mut self,
        node: Node,
        versions: RangeInclusive<i16>,
        request: &R,
        tag: T,
        now_ns: u64,
        timeout_ns: u64,
    ) -> Result<(), SendError> {
        let version = self.version(node, R::KEY, versions)?;
        let correlation = self.next_correlation();
        let head = wire::header::encode_request(correlation, Some(&self.config.client_id), version, request);
        let response_tagged =
            R::FLEXIBLE_FROM.is_some_and(|from| version >= from) && R::KEY != ApiKey::API_VERSIONS;
        self.send_raw(
            node,
            Outgoing::plain(head, correlation),
            version,
            response_tagged,
            Some(timeout_ns),
            tag,
            now_ns,
        )?;
        let sent = self
            .by_node
            .get(&node)
            .and_then(|&index| self.links[index].in_flight.back_mut());
        if let Some(sent) = sent {
            sent.api = Some(R::KEY);
        }
        Ok(())
    }

    /// The correlation id for a request that the caller encodes.
    pub fn next_correlation(&mut self) -> i32 {
        self.next_correlation = self.next_correlation.wrapping_add(1) & i32::MAX;
        self.next_correlation
    }

    /// Sends a request that the caller has encoded with a correlation id of [`Cluster::next_correlation`].
    /// `response_tagged` says that the answer's header is the flexible one; without `timeout_ns` no answer is awaited.
    #[allow(
        clippy::too_many_arguments,
        reason = "one call site each in the producer and the consumer, all plain values"
    )]
    pub fn send_raw(
        &mut self,
        node: Node,
        request: Outgoing,
        version: i16,
        response_tagged: bool,
        timeout_ns: Option<u64>,
        tag: T,
        now_ns: u64,
    ) -> Result<(), SendError> {
        let &index = self.by_node.get(&node).ok_or(SendError::NotReady)?;
        let link = &mut self.links[index];
        let LinkState::Ready { conn } = link.state else {
            return Err(SendError::NotReady);
        };
        link.in_flight.push_back(InFlight {
            correlation: request.correlation,
            purpose: Purpose::User {
                tag,
                version,
                response_tagged,
            },
            written_ns: None,
            timeout_at_ns: now_ns.saturating_add(timeout_ns.unwrap_or(self.config.request_timeout_ns)),
            has_answer: timeout_ns.is_some(),
            asked_ns: now_ns,
            api: None,
        });
        self.actions.push(NetAction::Send { conn, request });
        Ok(())
    }

    /// What is to be done on the network; the caller drains it.
    pub fn actions(&mut self) -> &mut Vec<NetAction> {
        &mut self.actions
    }

    /// The next thing that its user should know.
    pub fn next_event(&mut self) -> Option<ClusterEvent<T>> {
        self.events.pop_front()
    }

    /// Closes all connections; what was in flight is lost.
    pub fn close(&mut self, now_ns: u64) {
        for index in 0..self.links.len() {
            if let Some(conn) = self.links[index].conn() {
                self.actions.push(NetAction::Close { conn });
                self.lose(index, CloseReason::TimedOut { what: "closed by us" }, now_ns);
            }
        }
    }

    /// Time passes: time-outs, reconnects, metadata that is wanted or has grown old.
    pub fn tick(&mut self, now_ns: u64) {
        for index in 0..self.links.len() {
            let link = &mut self.links[index];
            link.is_throttled = now_ns < link.throttled_until_ns;
            let oldest = link.in_flight.iter().find(|request| request.has_answer);
            link.is_slow = oldest.is_some_and(|request| now_ns >= request.asked_ns + SLOW_NS);
            let late = match link.state {
                LinkState::Idle => None,
                LinkState::Connecting { since_ns, .. }
                | LinkState::Negotiating { since_ns, .. }
                | LinkState::Authenticating { since_ns, .. } => (now_ns
                    >= since_ns + self.config.setup_timeout_ns)
                    .then_some("socket.connection.setup.timeout.ms"),
                LinkState::Ready { .. } => link
                    .in_flight
                    .iter()
                    .find(|request| request.has_answer)
                    .is_some_and(|request| now_ns >= request.timeout_at_ns)
                    .then_some(REQUEST_TIMEOUT),
            };
            if let (Some(what), Some(conn)) = (late, link.conn()) {
                self.actions.push(NetAction::Close { conn });
                self.lose(index, CloseReason::TimedOut { what }, now_ns);
            } else if let LinkState::Ready { conn } = link.state
                && link.log_in_again_ns.is_some_and(|at_ns| now_ns >= at_ns)
                && now_ns >= link.throttled_until_ns
            {
                self.log_in(index, conn, now_ns);
            }
        }
        if self.has_metadata && now_ns >= self.metadata_fresh_until_ns {
            self.metadata_wanted = true;
        }
        if self.metadata_wanted && !self.metadata_in_flight {
            self.ask_metadata(now_ns);
        }
    }

    /// When [`Cluster::tick`] has something to do next, if nothing happens on the network until then.
    pub fn next_deadline_ns(&self) -> Option<u64> {
        let mut soonest: Option<u64> = None;
        let mut at = |ns: u64| soonest = Some(soonest.map_or(ns, |old| old.min(ns)));
        for link in &self.links {
            if link.is_throttled {
                at(link.throttled_until_ns);
            }
            match link.state {
                LinkState::Idle => {}
                LinkState::Connecting { since_ns, .. }
                | LinkState::Negotiating { since_ns, .. }
                | LinkState::Authenticating { since_ns, .. } => at(since_ns + self.config.setup_timeout_ns),
                LinkState::Ready { .. } => {
                    if let Some(request) = link.in_flight.iter().find(|request| request.has_answer) {
                        at(request.timeout_at_ns);
                    }
                    if let Some(at_ns) = link.log_in_again_ns {
                        at(at_ns.max(link.throttled_until_ns));
                    }
                }
            }
        }
        if self.metadata_wanted && !self.metadata_in_flight {
            // Waits for the back-off, or for a connection that is to be opened after its own; one that is under way
            // announces itself.
            let allowed = self
                .metadata_asked_ns
                .map_or(0, |asked| asked + self.config.retry_backoff_ns);
            let underway = self
                .links
                .iter()
                .any(|link| !matches!(link.state, LinkState::Idle | LinkState::Ready { .. }));
            if self.any_ready().is_some() {
                at(allowed);
            } else if !underway {
                let retries = self.links.iter().filter(|link| link.state == LinkState::Idle);
                if let Some(retry_ns) = retries.map(|link| link.retry_at_ns).min() {
                    at(allowed.max(retry_ns));
                }
            }
        } else if self.has_metadata {
            at(self.metadata_fresh_until_ns);
        }
        soonest
    }

    /// Whether the last attempt to reach `node`, or its last connection, failed.
    pub fn has_failed(&self, node: Node) -> bool {
        self.by_node
            .get(&node)
            .is_some_and(|&index| self.links[index].failures > 0)
    }

    /// When a connection to `node` may be tried again; `None` while one is open or on its way.
    pub fn retry_at_ns(&self, node: Node) -> Option<u64> {
        let link = &self.links[*self.by_node.get(&node)?];
        (link.state == LinkState::Idle).then_some(link.retry_at_ns)
    }

    /// Something happened on a connection of ours.
    pub fn on_net(&mut self, conn: ConnId, event: NetEvent, now_ns: u64) {
        let Some(index) = self.links.iter().position(|link| link.conn() == Some(conn)) else {
            return;
        };
        match event {
            NetEvent::Connected => {
                self.links[index].state = LinkState::Negotiating {
                    conn,
                    since_ns: now_ns,
                };
                // Version 3 tells the broker who we are; one that does not know it answers in version 0.
                self.ask_versions(index, conn, 3, now_ns);
            }
            NetEvent::Written { correlation, at_ns } => self.on_written(index, correlation, at_ns),
            NetEvent::Frame(frame) => {
                if let Err(error) = self.on_frame(index, conn, frame, now_ns) {
                    self.actions.push(NetAction::Close { conn });
                    self.lose(index, CloseReason::Failed { error }, now_ns);
                }
            }
            NetEvent::Closed(reason) => self.lose(index, reason, now_ns),
        }
    }

    fn link(&mut self, node: Node, address: HostPort) -> usize {
        let index = self.links.len();
        self.links.push(Link::new(node, address));
        self.by_node.insert(node, index);
        index
    }

    fn connect(&mut self, index: usize, now_ns: u64) {
        let secured = match &self.config.secured {
            Ok(secured) => secured.clone(),
            Err(problem) => {
                self.unusable.get_or_insert_with(|| problem.clone());
                return;
            }
        };
        let conn = ConnId {
            owner: self.config.owner,
            serial: self.next_serial,
        };
        self.next_serial += 1;
        let link = &mut self.links[index];
        link.state = LinkState::Connecting {
            conn,
            since_ns: now_ns,
        };
        self.actions.push(NetAction::Connect {
            conn,
            address: link.address.clone(),
            attempt: link.attempts,
            options: self.config.socket,
            secured,
        });
        link.attempts = link.attempts.wrapping_add(1);
    }

    fn ask_versions(&mut self, index: usize, conn: ConnId, version: i16, now_ns: u64) {
        let correlation = self.next_correlation();
        let request = ApiVersionsRequest {
            client_software_name: "plimsoll".to_owned(),
            client_software_version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let head = wire::header::encode_request(correlation, Some(&self.config.client_id), version, &request);
        self.push_own(
            index,
            conn,
            head,
            correlation,
            Purpose::Versions { version },
            now_ns,
        );
    }

    fn push_own(
        &mut self,
        index: usize,
        conn: ConnId,
        head: Vec<u8>,
        correlation: i32,
        purpose: Purpose<T>,
        now_ns: u64,
    ) {
        self.links[index].in_flight.push_back(InFlight {
            correlation,
            purpose,
            written_ns: None,
            timeout_at_ns: u64::MAX,
            has_answer: true,
            asked_ns: now_ns,
            api: None,
        });
        self.actions.push(NetAction::Send {
            conn,
            request: Outgoing::plain(head, correlation),
        });
    }

    fn ask_metadata(&mut self, now_ns: u64) {
        if self
            .metadata_asked_ns
            .is_some_and(|asked| now_ns < asked + self.config.retry_backoff_ns)
        {
            return;
        }
        let Some(node) = self.any_ready() else {
            // One attempt at a time, brokers that we know before bootstrap servers, as long as none is on its way.
            let underway = self
                .links
                .iter()
                .any(|link| !matches!(link.state, LinkState::Idle | LinkState::Ready { .. }));
            if !underway {
                let candidate = (0..self.links.len())
                    .filter(|&index| {
                        let link = &self.links[index];
                        link.state == LinkState::Idle && now_ns >= link.retry_at_ns
                    })
                    .min_by_key(|&index| {
                        (
                            self.links[index].failures,
                            matches!(self.links[index].node, Node::Bootstrap(_)),
                            index,
                        )
                    });
                if let Some(index) = candidate {
                    self.connect(index, now_ns);
                }
            }
            return;
        };
        let version = match self.version(node, ApiKey::METADATA, 1..=12) {
            Ok(version) => version,
            Err(error) => {
                self.unusable = Some(format!("{error}; plimsoll speaks with Kafka 2.1 and newer"));
                return;
            }
        };
        let request = MetadataRequest {
            topics: Some(
                self.topics
                    .iter()
                    .map(|name| MetadataRequestTopic {
                        name: Some(name.clone()),
                        ..Default::default()
                    })
                    .collect(),
            ),
            allow_auto_topic_creation: false,
            ..MetadataRequest::default()
        };
        let correlation = self.next_correlation();
        let head = wire::header::encode_request(correlation, Some(&self.config.client_id), version, &request);
        let index = self.by_node[&node];
        let conn = self.links[index].conn().expect("a ready link is connected");
        self.push_own(
            index,
            conn,
            head,
            correlation,
            Purpose::Metadata { version },
            now_ns,
        );
        self.links[index]
            .in_flight
            .back_mut()
            .expect("just pushed")
            .timeout_at_ns = now_ns + self.config.request_timeout_ns;
        self.metadata_in_flight = true;
        self.metadata_wanted = false;
        self.metadata_asked_ns = Some(now_ns);
    }

    fn on_written(&mut self, index: usize, correlation: i32, at_ns: u64) {
        let link = &mut self.links[index];
        let Some(place) = link
            .in_flight
            .iter()
            .position(|request| request.correlation == correlation)
        else {
            return;
        };
        link.in_flight[place].written_ns = Some(at_ns);
        if !link.in_flight[place].has_answer {
            let request = link.in_flight.remove(place).expect("the place is in it");
            if let Purpose::User { tag, .. } = request.purpose {
                self.events.push_back(ClusterEvent::Written { tag, at_ns });
            }
        }
    }

    fn on_frame(&mut self, index: usize, conn: ConnId, frame: Frame, now_ns: u64) -> Result<(), String> {
        let mut reader = Reader::new(frame.bytes());
        let correlation = reader.read_i32().map_err(|error| error.to_string())?;
        let in_flight = &mut self.links[index].in_flight;
        let place = in_flight.iter().position(|request| request.has_answer);
        let Some(place) = place.filter(|&place| in_flight[place].correlation == correlation) else {
            return Err(format!("answer {correlation} to a question that was not asked"));
        };
        // Read while the request is still in flight: if it cannot be, that is lost with the connection, and told as such.
        if in_flight[place].purpose.has_tagged_answer() {
            let flexible = Layout {
                version: 0,
                flexible: true,
            };
            reader.skip_tagged(flexible).map_err(|error| error.to_string())?;
        }
        let request = in_flight.remove(place).expect("the place is in it");
        match request.purpose {
            Purpose::Versions { version } => self.on_versions(index, conn, version, &mut reader, now_ns),
            Purpose::Handshake { version } => {
                let response = SaslHandshakeResponse::decode(version, &mut reader)
                    .map_err(|error| format!("SaslHandshake: {error}"))?;
                self.on_handshake(index, conn, &response, now_ns);
                Ok(())
            }
            Purpose::Authenticate { version } => {
                let response = SaslAuthenticateResponse::decode(version, &mut reader)
                    .map_err(|error| format!("SaslAuthenticate: {error}"))?;
                self.on_authenticate(index, conn, &response, now_ns);
                Ok(())
            }
            Purpose::Metadata { version } => {
                self.metadata_in_flight = false;
                self.links[index].has_served = true;
                let response = MetadataResponse::decode(version, &mut reader)
                    .map_err(|error| format!("metadata: {error}"))?;
                let throttle_ms = throttle_ms(ApiKey::METADATA, version, response.throttle_time_ms);
                self.hold_back(self.links[index].node, throttle_ms, now_ns);
                self.on_metadata(response, now_ns);
                Ok(())
            }
            Purpose::User { tag, version, .. } => {
                let body_at = reader.position_bytes();
                self.links[index].has_served = true;
                let written_ns = request.written_ns.unwrap_or(now_ns);
                let node = self.links[index].node;
                if let Some(api) = request.api {
                    self.hold_back(node, wire::throttle::wait_ms(api, version, reader.rest()), now_ns);
                }
                self.events.push_back(ClusterEvent::Answer {
                    node,
                    tag,
                    version,
                    frame,
                    body_at,
                    written_ns,
                    at_ns: now_ns,
                });
                Ok(())
            }
        }
    }

    fn on_versions(
        &mut self,
        index: usize,
        conn: ConnId,
        version: i16,
        reader: &mut Reader<'_>,
        now_ns: u64,
    ) -> Result<(), String> {
        let not_kafka =
            |error: wire::codec::DecodeError| format!("the answer to ApiVersions cannot be read: {error}");
        let mut first = reader.clone();
        let error = ErrorCode(first.read_i16().map_err(not_kafka)?);
        if error == ErrorCode::UNSUPPORTED_VERSION && version > 0 {
            self.ask_versions(index, conn, 0, now_ns);
            return Ok(());
        }
        let response = ApiVersionsResponse::decode(version, reader).map_err(not_kafka)?;
        if response.error_code != ErrorCode::NONE {
            return Err(format!("ApiVersions: {}", response.error_code));
        }
        let throttle_ms = throttle_ms(ApiKey::API_VERSIONS, version, response.throttle_time_ms);
        self.hold_back(self.links[index].node, throttle_ms, now_ns);
        let link = &mut self.links[index];
        link.versions = Some(ApiVersionTable::new(&response));
        let features = response.finalized_features.into_iter();
        link.features = features
            .map(|feature| (feature.name, feature.max_version_level))
            .collect();
        if self.login().is_some() {
            self.log_in(index, conn, now_ns);
        } else {
            self.open_for_requests(index, conn, now_ns);
        }
        Ok(())
    }

    fn login(&self) -> Option<Arc<Login>> {
        self.config.secured.as_ref().ok()?.login.clone()
    }

    fn open_for_requests(&mut self, index: usize, conn: ConnId, now_ns: u64) {
        let link = &mut self.links[index];
        link.state = LinkState::Ready { conn };
        link.failures = 0;
        let node = link.node;
        self.events.push_back(ClusterEvent::Ready(node));
        if self.metadata_wanted && !self.metadata_in_flight {
            self.ask_metadata(now_ns);
        }
    }

    /// Names the mechanism, which begins a login.
    fn log_in(&mut self, index: usize, conn: ConnId, now_ns: u64) {
        let Some(login) = self.login() else { return };
        self.links[index].log_in_again_ns = None;
        self.links[index].state = LinkState::Authenticating {
            conn,
            since_ns: now_ns,
        };
        let version = self.links[index]
            .versions
            .as_ref()
            .and_then(|versions| versions.pick(ApiKey::SASL_HANDSHAKE, 1..=1).ok());
        let Some(version) = version else {
            let what = "it does not know SaslHandshake 1";
            return self.refused(index, conn, what, now_ns);
        };
        match login.exchange() {
            Ok(exchange) => self.links[index].exchange = Some(exchange),
            // What is missing may come: a token that is being renewed.
            Err(error) => {
                let reason = CloseReason::NotAuthenticated { error };
                self.actions.push(NetAction::Close { conn });
                return self.lose(index, reason, now_ns);
            }
        }
        let request = SaslHandshakeRequest {
            mechanism: login.mechanism().to_owned(),
        };
        let correlation = self.next_correlation();
        let head = wire::header::encode_request(correlation, Some(&self.config.client_id), version, &request);
        let purpose = Purpose::Handshake { version };
        self.push_own(index, conn, head, correlation, purpose, now_ns);
    }

    fn on_handshake(&mut self, index: usize, conn: ConnId, response: &SaslHandshakeResponse, now_ns: u64) {
        match response.error_code {
            ErrorCode::NONE => {
                let first = self.links[index].exchange.as_mut().map(ClientExchange::first);
                self.authenticate(index, conn, first.unwrap_or_default(), now_ns);
            }
            ErrorCode::UNSUPPORTED_SASL_MECHANISM => {
                let what = format!(
                    "the mechanism is not enabled there; enabled: {}",
                    response.mechanisms.join(", ")
                );
                self.refused(index, conn, &what, now_ns);
            }
            ErrorCode::ILLEGAL_SASL_STATE => {
                let what = "its listener does not expect SASL; set security.protocol=PLAINTEXT or SSL";
                self.refused(index, conn, what, now_ns);
            }
            other => self.refused(index, conn, other.name(), now_ns),
        }
    }

    fn authenticate(&mut self, index: usize, conn: ConnId, auth_bytes: Vec<u8>, now_ns: u64) {
        let version = self.links[index]
            .versions
            .as_ref()
            .and_then(|versions| versions.pick(ApiKey::SASL_AUTHENTICATE, 0..=2).ok())
            .unwrap_or(0);
        let request = SaslAuthenticateRequest { auth_bytes };
        let correlation = self.next_correlation();
        let head = wire::header::encode_request(correlation, Some(&self.config.client_id), version, &request);
        let purpose = Purpose::Authenticate { version };
        self.push_own(index, conn, head, correlation, purpose, now_ns);
    }

    fn on_authenticate(
        &mut self,
        index: usize,
        conn: ConnId,
        response: &SaslAuthenticateResponse,
        now_ns: u64,
    ) {
        let link = &mut self.links[index];
        if response.error_code != ErrorCode::NONE {
            let said = response.error_message.clone().filter(|text| !text.is_empty());
            let mut what = said.unwrap_or_else(|| response.error_code.name().to_owned());
            if let Some(ClientExchange::OAuthBearer(bearer)) = &link.exchange
                && let Some(refusal) = bearer.refusal()
                && !what.contains(refusal)
            {
                what = format!("{what} {refusal}");
            }
            return self.refused(index, conn, &what, now_ns);
        }
        let step = link
            .exchange
            .as_mut()
            .map_or(Ok(Step::Done), |exchange| exchange.next(&response.auth_bytes));
        match step {
            Ok(Step::Send(bytes)) => self.authenticate(index, conn, bytes, now_ns),
            Ok(Step::Done) => {
                link.exchange = None;
                if response.session_lifetime_ms > 0 {
                    // Java's clients take 85 to 95 % of it, by chance; by the connection's number they differ as well.
                    let percent = 85 + u64::from(conn.serial) % 10;
                    let lifetime_ns = (response.session_lifetime_ms as u64).saturating_mul(1_000_000);
                    link.log_in_again_ns = Some(now_ns.saturating_add(lifetime_ns / 100 * percent));
                }
                self.open_for_requests(index, conn, now_ns);
            }
            Err(error) => self.refused(index, conn, &error.to_string(), now_ns),
        }
    }

    /// A login that is refused will be refused again: nothing goes on without it.
    fn refused(&mut self, index: usize, conn: ConnId, what: &str, now_ns: u64) {
        let link = &self.links[index];
        let mechanism = self.login().map_or("SASL", |login| login.mechanism());
        let error = format!("authentication failed with {mechanism}: {what}");
        let broker = match link.node {
            Node::Broker(id) => format!("broker {id} at {}", link.address),
            Node::Bootstrap(_) => link.address.to_string(),
        };
        self.unusable.get_or_insert(format!("{broker}: {error}"));
        self.actions.push(NetAction::Close { conn });
        self.lose(index, CloseReason::NotAuthenticated { error }, now_ns);
    }

    fn on_metadata(&mut self, response: MetadataResponse, now_ns: u64) {
        let mut topics = HashMap::with_capacity(response.topics.len());
        for topic in response.topics {
            let Some(name) = topic.name else { continue };
            let known = self.metadata.topics.get(&name);
            // A broker that lags may still name the topic that has been replaced: that must not take us back either.
            self.retired_ids.retain(|_, until_ns| now_ns < *until_ns);
            if self.retired_ids.contains_key(&topic.topic_id) {
                if let Some(known) = known {
                    topics.insert(name, known.clone());
                }
                continue;
            }
            if !topic.topic_id.is_zero()
                && let Some(before) = self.topic_ids.insert(name.clone(), topic.topic_id)
                && before != topic.topic_id
            {
                self.retired_ids.insert(before, now_ns.saturating_add(RETIRED_NS));
            }
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
            // Brokers learn of a new leader one after the other: an answer from one that lags must not take us back.
            if let Some(known) = known.filter(|known| known.topic_id == topic.topic_id) {
                for partition in &mut partitions {
                    if let Ok(place) = known
                        .partitions
                        .binary_search_by_key(&partition.index, |known| known.index)
                        && known.partitions[place].leader_epoch > partition.leader_epoch
                        && partition.leader_epoch >= 0
                    {
                        *partition = known.partitions[place].clone();
                    }
                }
            }
            topics.insert(
                name,
                TopicInfo {
                    error: topic.error_code,
                    topic_id: topic.topic_id,
                    is_internal: topic.is_internal,
                    partitions,
                },
            );
        }
        self.metadata = Metadata {
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
            controller: (response.controller_id >= 0).then_some(response.controller_id),
            cluster_id: response.cluster_id,
            topics,
        };
        for (id, broker) in self.metadata.brokers.clone() {
            match self.by_node.get(&Node::Broker(id)) {
                Some(&index) => self.links[index].address = broker.address,
                None => {
                    self.link(Node::Broker(id), broker.address);
                }
            }
        }
        self.has_metadata = true;
        self.metadata_fresh_until_ns = now_ns.saturating_add(self.config.metadata_max_age_ns);
        self.events.push_back(ClusterEvent::MetadataUpdated);
    }

    fn lose(&mut self, index: usize, reason: CloseReason, now_ns: u64) {
        let link = &mut self.links[index];
        // A broker closes a connection that has been idle for long; that is no failure, and the next use opens it again.
        let idle_close = matches!(link.state, LinkState::Ready { .. })
            && link.in_flight.is_empty()
            && reason == CloseReason::ByPeer;
        let is_cut_at_first_request = matches!(link.state, LinkState::Ready { .. })
            && !link.has_served
            && reason == CloseReason::ByPeer
            && !idle_close
            && self
                .config
                .secured
                .as_ref()
                .is_ok_and(|secured| secured.login.is_none());
        let reason = if is_cut_at_first_request {
            CloseReason::ExpectsSasl
        } else {
            reason
        };
        link.state = LinkState::Idle;
        link.versions = None;
        link.exchange = None;
        link.log_in_again_ns = None;
        link.has_served = false;
        // A certificate that is not right now will not be so at the next attempt either.
        if let CloseReason::Tls {
            error,
            is_final: true,
        } = &reason
        {
            let at = link.address.to_string();
            self.unusable.get_or_insert(format!("{at}: {error}"));
        }
        if !idle_close {
            let backoff_ns = (self.config.reconnect_backoff_ns << link.failures.min(16))
                .min(self.config.reconnect_backoff_max_ns);
            link.failures += 1;
            link.retry_at_ns = now_ns.saturating_add(backoff_ns);
            link.last_failure = Some(reason.clone());
            self.metadata_wanted = true;
        }
        let node = link.node;
        for request in link.in_flight.drain(..) {
            match request.purpose {
                Purpose::Versions { .. } | Purpose::Handshake { .. } | Purpose::Authenticate { .. } => {}
                Purpose::Metadata { .. } => self.metadata_in_flight = false,
                Purpose::User { tag, .. } => self.events.push_back(ClusterEvent::Lost {
                    node,
                    tag,
                    written_ns: request.written_ns,
                    reason: reason.clone(),
                    at_ns: now_ns,
                }),
            }
        }
    }
}
