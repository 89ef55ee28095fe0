//! All brokers of the process as one state machine: (now, request) → answer, or a promise of one.
//!
//! No socket and no clock: time is handed in, answers that come later are collected with [`Cluster::take_completed`], and
//! [`Cluster::next_deadline`] says when [`Cluster::tick`] is needed. The brokers share this state as a real cluster
//! shares its metadata log and its followers' copies; what each of them may do is decided by its number in each request.

use crate::answer::Answer;
use crate::api;
use crate::buffer::{Buffer, Pool, SMALLEST_BYTES, Slice};
use crate::consumer_group::{Beat, Heartbeat, Refused, Topics};
use crate::fetch_session::Sessions;
use crate::group::{Group, Replies};
use crate::log::{Marker, ProducedBatch};
use crate::partition::{Brokers, Partition};
use crate::quota::{Client, Kind, Quotas};
use crate::random::Random;
use crate::reply::{ConnectionId, ReplyTo};
use crate::settings::{self, NodeOverrides, NodeSettings, Overrides, TopicSettings, find_node_config};
use crate::transaction::Transactions;
use crate::waiting::Waiting;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use wire::{ErrorCode, Uuid};

/// The number of the first broker; the others count on from it.
pub(crate) const FIRST_BROKER_ID: i32 = 1;

/// A broker of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) id: i32,
    /// Where clients are told to find it.
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) is_up: bool,
    /// Whether its followers fetch.
    pub(crate) replicates: bool,
    /// Whether its followers are kept out of the in-sync replicas, as a script has it.
    pub(crate) is_kept_out: bool,
}

/// The brokers of the cluster, in order of their numbers.
#[derive(Clone, Debug)]
pub(crate) struct Nodes(Vec<Node>);

impl Nodes {
    pub(crate) fn all(&self) -> &[Node] {
        &self.0
    }

    pub(crate) fn up(&self) -> impl Iterator<Item = &Node> {
        self.0.iter().filter(|node| node.is_up)
    }

    pub(crate) fn get(&self, id: i32) -> Option<&Node> {
        self.0.iter().find(|node| node.id == id)
    }

    fn get_mut(&mut self, id: i32) -> Option<&mut Node> {
        self.0.iter_mut().find(|node| node.id == id)
    }
}

impl Brokers for Nodes {
    fn is_up(&self, broker: i32) -> bool {
        self.get(broker).is_some_and(|node| node.is_up)
    }

    fn replicates(&self, broker: i32) -> bool {
        self.get(broker).is_some_and(|node| node.replicates)
    }

    fn is_kept_out(&self, broker: i32) -> bool {
        self.get(broker).is_some_and(|node| node.is_kept_out)
    }
}

/// A topic's number in this process; never used twice.
pub(crate) type TopicKey = u32;

/// A topic.
#[derive(Debug)]
pub(crate) struct Topic {
    pub(crate) name: String,
    pub(crate) id: Uuid,
    /// Configs of its own.
    pub(crate) own: Overrides,
    /// What follows from them and from those of the nodes.
    pub(crate) settings: TopicSettings,
    pub(crate) partitions: Vec<Partition>,
}

impl Topic {
    pub(crate) fn partition(&self, index: i32) -> Option<&Partition> {
        self.partitions.get(usize::try_from(index).ok()?)
    }

    pub(crate) fn partition_mut(&mut self, index: i32) -> Option<&mut Partition> {
        self.partitions.get_mut(usize::try_from(index).ok()?)
    }
}

#[derive(Debug)]
struct GroupSlot {
    group: Group,
    armed_at: Option<u64>,
}

/// What is due at some time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// A waiting request is to be answered with what there is.
    Waiting(u64),
    /// A group needs a tick.
    Group(String),
    /// Old records are to go.
    Retention,
    /// Followers that are behind are to leave the in-sync replicas.
    Laggards,
    /// Partitions are to be led by their first replica again.
    PreferredLeaders,
    /// A transaction has taken as long as it may.
    Transaction(String),
    /// Markers that could not be written are to be tried again.
    Markers,
}

/// A batch in the order in which batches came, over all partitions.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    topic: TopicKey,
    partition: i32,
    base_offset: i64,
}

/// What a cluster is made of.
#[derive(Debug)]
pub(crate) struct Setup {
    /// Advertised host and port of each broker.
    pub(crate) addresses: Vec<(String, u16)>,
    /// The security protocol of their listeners.
    pub(crate) protocol: &'static str,
    pub(crate) configs: Overrides,
    /// What random identifiers come from.
    pub(crate) seed: u64,
    /// The time of day at `now` = 0, ms since 1970.
    pub(crate) origin_ms: i64,
    /// What all buffers may take.
    pub(crate) memory_bytes: u64,
    pub(crate) pool: Arc<Pool>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) id: String,
    pub(crate) protocol: &'static str,
    pub(crate) nodes: Nodes,
    pub(crate) overrides: NodeOverrides,
    pub(crate) settings: NodeSettings,
    pub(crate) random: Random,
    pub(crate) waiting: Waiting,
    pub(crate) transactions: Transactions,
    pub(crate) fetch_sessions: Sessions,
    pub(crate) quotas: Quotas,
    pub(crate) memory_bytes: u64,
    origin_ms: i64,
    pool: Arc<Pool>,
    topics: HashMap<TopicKey, Topic>,
    by_name: BTreeMap<String, TopicKey>,
    by_id: HashMap<Uuid, TopicKey>,
    next_topic: TopicKey,
    /// Turns with each topic, so that leaders are spread over brokers.
    next_placement: usize,
    next_producer_id: i64,
    /// The buffer that markers go to, and how much of it is used.
    markers: Option<(Arc<Buffer>, usize)>,
    groups: BTreeMap<String, GroupSlot>,
    timers: BTreeSet<(u64, Timer)>,
    arrivals: VecDeque<Arrival>,
    /// Arrivals are tidied when there are more than this.
    arrivals_limit: usize,
    completed: Vec<(ConnectionId, Answer)>,
}

/// Secrets are replaced by nothing: what they are needed for is made by now, and nobody is told them.
fn without_secrets(mut configs: Overrides) -> Overrides {
    for (name, value) in &mut configs {
        if find_node_config(name).is_some_and(|definition| definition.kind == settings::Kind::Password) {
            value.clear();
        }
    }
    configs
}

/// Below this, arrivals are not worth tidying.
const LEAST_ARRIVALS_LIMIT: usize = 4096;

impl Cluster {
    pub(crate) fn new(setup: Setup) -> Cluster {
        let mut random = Random::new(setup.seed);
        let overrides = NodeOverrides {
            fixed: without_secrets(setup.configs),
            dynamic: Overrides::new(),
        };
        let nodes = setup.addresses.into_iter().zip(FIRST_BROKER_ID..);
        Cluster {
            id: random.uuid().to_string(),
            protocol: setup.protocol,
            nodes: Nodes(
                nodes
                    .map(|((host, port), id)| Node {
                        id,
                        host,
                        port,
                        is_up: true,
                        replicates: true,
                        is_kept_out: false,
                    })
                    .collect(),
            ),
            settings: NodeSettings::new(&overrides),
            overrides,
            random,
            waiting: Waiting::default(),
            transactions: Transactions::default(),
            fetch_sessions: Sessions::default(),
            quotas: Quotas::default(),
            memory_bytes: setup.memory_bytes,
            origin_ms: setup.origin_ms,
            pool: setup.pool,
            topics: HashMap::new(),
            by_name: BTreeMap::new(),
            by_id: HashMap::new(),
            next_topic: 0,
            next_placement: 0,
            next_producer_id: 0,
            markers: None,
            groups: BTreeMap::new(),
            timers: BTreeSet::new(),
            arrivals: VecDeque::new(),
            arrivals_limit: LEAST_ARRIVALS_LIMIT,
            completed: Vec::new(),
        }
    }

    /// The time of day, ms since 1970.
    pub(crate) fn wall_ms(&self, now: u64) -> i64 {
        self.origin_ms + (now / 1_000_000) as i64
    }

    /// Answers that have become possible since the last call.
    pub(crate) fn take_completed(&mut self) -> Vec<(ConnectionId, Answer)> {
        std::mem::take(&mut self.completed)
    }

    /// Hands over an answer to a request that waited.
    pub(crate) fn complete(&mut self, to: ReplyTo, answer: Answer) {
        self.completed.push((to.connection, answer));
    }

    /// A connection is gone: nobody waits there any more.
    pub(crate) fn connection_closed(&mut self, connection: ConnectionId) {
        api::forget_connection(self, connection);
    }

    /// When [`Cluster::tick`] is next needed.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Arms a timer.
    pub(crate) fn at(&mut self, deadline: u64, timer: Timer) {
        self.timers.insert((deadline, timer));
    }

    /// Disarms a timer.
    pub(crate) fn cancel(&mut self, deadline: u64, timer: Timer) {
        self.timers.remove(&(deadline, timer));
    }

    /// Does what has become due.
    pub(crate) fn tick(&mut self, now: u64) {
        while self.timers.first().is_some_and(|(at, _)| *at <= now) {
            let Some((_, timer)) = self.timers.pop_first() else {
                return;
            };
            match timer {
                Timer::Waiting(id) => api::time_is_up(self, now, id),
                Timer::Group(name) => {
                    if let Some(slot) = self.groups.get_mut(&name) {
                        slot.armed_at = None;
                        self.with_group(now, &name, Group::tick);
                    }
                }
                Timer::Retention => self.apply_retention(now),
                Timer::Laggards => self.drop_laggards(now),
                Timer::PreferredLeaders => self.prefer_first_replicas(now),
                Timer::Transaction(id) => self.transaction_timed_out(now, &id),
                Timer::Markers => self.retry_markers(now),
            }
        }
    }

    /// Topics in order of name.
    pub(crate) fn topics(&self) -> impl Iterator<Item = &Topic> {
        self.by_name.values().filter_map(|key| self.topics.get(key))
    }

    pub(crate) fn topic(&self, name: &str) -> Option<&Topic> {
        self.topics.get(self.by_name.get(name)?)
    }

    pub(crate) fn topic_by_id(&self, id: Uuid) -> Option<&Topic> {
        self.topics.get(self.by_id.get(&id)?)
    }

    pub(crate) fn topic_key(&self, name: &str) -> Option<TopicKey> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn topic_key_by_id(&self, id: Uuid) -> Option<TopicKey> {
        self.by_id.get(&id).copied()
    }

    pub(crate) fn topic_at(&self, key: TopicKey) -> Option<&Topic> {
        self.topics.get(&key)
    }

    pub(crate) fn topic_at_mut(&mut self, key: TopicKey) -> Option<&mut Topic> {
        self.topics.get_mut(&key)
    }

    /// Which brokers are to hold each partition, leaders and followers spread evenly. `first` is the number of the first
    /// partition.
    pub(crate) fn place(
        &mut self,
        first: usize,
        partitions: usize,
        replication_factor: usize,
    ) -> Vec<Vec<i32>> {
        let ids: Vec<i32> = self.nodes.all().iter().map(|node| node.id).collect();
        let start = self.next_placement;
        self.next_placement += 1;
        let replica = |partition: usize, which: usize| {
            let leader = start + partition;
            // Followers start one further with each round over the brokers, so that not always the same two pair up.
            let step = if which == 0 {
                0
            } else {
                1 + (partition / ids.len() + which - 1) % (ids.len() - 1).max(1)
            };
            ids[(leader + step) % ids.len()]
        };
        (first..first + partitions)
            .map(|partition| {
                (0..replication_factor)
                    .map(|which| replica(partition, which))
                    .collect()
            })
            .collect()
    }

    /// Creates a topic. Name, configs and replicas have been checked.
    pub(crate) fn create_topic(
        &mut self,
        now: u64,
        name: &str,
        placement: &[Vec<i32>],
        own: Overrides,
    ) -> Uuid {
        let key = self.next_topic;
        self.next_topic += 1;
        let id = self.random.uuid();
        let partitions = placement
            .iter()
            .map(|replicas| Partition::new(replicas, &self.nodes, now))
            .collect();
        let settings = TopicSettings::new(&own, &self.overrides);
        self.topics.insert(
            key,
            Topic {
                name: name.to_owned(),
                id,
                own,
                settings,
                partitions,
            },
        );
        self.by_name.insert(name.to_owned(), key);
        self.by_id.insert(id, key);
        id
    }

    /// Adds partitions to a topic.
    pub(crate) fn add_partitions(&mut self, now: u64, key: TopicKey, placement: &[Vec<i32>]) {
        if let Some(topic) = self.topics.get_mut(&key) {
            topic.partitions.extend(
                placement
                    .iter()
                    .map(|replicas| Partition::new(replicas, &self.nodes, now)),
            );
        }
    }

    /// Deletes a topic with all that waits for it and all that groups have committed for it.
    pub(crate) fn delete_topic(&mut self, now: u64, key: TopicKey) {
        let Some(topic) = self.topics.remove(&key) else {
            return;
        };
        self.by_name.remove(&topic.name);
        self.by_id.remove(&topic.id);
        for slot in self.groups.values_mut() {
            slot.group.forget_topic(&topic.name);
        }
        for partition in topic.partitions {
            for id in partition
                .waiting_fetches
                .into_iter()
                .chain(partition.waiting_produces)
            {
                api::look_again(self, now, id);
            }
        }
    }

    /// Computes anew what follows from configs.
    pub(crate) fn configs_changed(&mut self) {
        self.settings = NodeSettings::new(&self.overrides);
        for topic in self.topics.values_mut() {
            topic.settings = TopicSettings::new(&topic.own, &self.overrides);
        }
    }

    /// The nodes and one topic, which a partition needs both.
    pub(crate) fn topic_and_nodes(&mut self, key: TopicKey) -> Option<(&mut Topic, &Nodes)> {
        Some((self.topics.get_mut(&key)?, &self.nodes))
    }

    /// Notes that a batch came, makes room for it, and wakes those who waited for it.
    pub(crate) fn arrived(
        &mut self,
        now: u64,
        topic: TopicKey,
        partition: i32,
        base_offset: i64,
        grown_bytes: usize,
    ) {
        if self.arrivals.is_empty() {
            self.at(
                now.saturating_add(self.settings.retention_check_interval_ns),
                Timer::Retention,
            );
        }
        self.arrivals.push_back(Arrival {
            topic,
            partition,
            base_offset,
        });
        self.evict(2 * grown_bytes);
        if self.arrivals.len() > self.arrivals_limit {
            let topics = &self.topics;
            self.arrivals.retain(|arrival| is_there(topics, arrival));
            self.arrivals_limit = LEAST_ARRIVALS_LIMIT.max(2 * self.arrivals.len());
        }
        if self.has_paused_replication() {
            self.watch_laggards(now);
        }
    }

    /// Forgets the oldest batches while buffers take more than they may, at most about `limit_bytes` of them: where
    /// memory is held by something else than logs, emptying all logs would not help.
    fn evict(&mut self, limit_bytes: usize) {
        let mut evicted_bytes = 0;
        while self.pool.in_use_bytes() as u64 > self.memory_bytes
            && evicted_bytes <= limit_bytes
            && self.arrivals.len() > 1
        {
            let Some(oldest) = self.arrivals.pop_front() else {
                return;
            };
            let partition = self
                .topics
                .get_mut(&oldest.topic)
                .and_then(|topic| topic.partition_mut(oldest.partition));
            if let Some(partition) = partition {
                let before = partition.log().len_bytes();
                partition.evict_through(oldest.base_offset);
                evicted_bytes += before - partition.log().len_bytes();
            }
        }
    }

    fn apply_retention(&mut self, now: u64) {
        let now_ms = self.wall_ms(now);
        let producers_before_ms = now_ms.saturating_sub(self.settings.producer_expiration_ms);
        for topic in self.topics.values_mut() {
            for partition in &mut topic.partitions {
                partition.retain(&topic.settings, now_ms);
                partition.expire_producers(producers_before_ms);
            }
        }
        let topics = &self.topics;
        // In order of arrival the first that is still there ends what is worth looking at.
        while self
            .arrivals
            .front()
            .is_some_and(|arrival| !is_there(topics, arrival))
        {
            self.arrivals.pop_front();
        }
        if !self.arrivals.is_empty() {
            self.at(
                now.saturating_add(self.settings.retention_check_interval_ns),
                Timer::Retention,
            );
        }
    }

    /// Bytes of records on one broker: (topic, partition index, bytes, records that it is behind).
    pub(crate) fn replicas_on(&self, broker: i32) -> impl Iterator<Item = (&Topic, i32, usize, i64)> {
        self.topics().flat_map(move |topic| {
            topic
                .partitions
                .iter()
                .zip(0..)
                .filter_map(move |(partition, index)| {
                    Some((
                        topic,
                        index,
                        partition.log().len_bytes(),
                        partition.lag_of(broker)?,
                    ))
                })
        })
    }

    /// The broker that clients are told is the controller.
    pub(crate) fn controller_id(&self) -> i32 {
        self.nodes.up().next().map_or(-1, |node| node.id)
    }

    /// Books bytes on a client at a broker; gives for how many ms it is to be held back.
    pub(crate) fn book(
        &mut self,
        now: u64,
        (broker, client): (i32, &Client),
        kind: Kind,
        bytes: usize,
    ) -> u32 {
        let windows = self.settings.quota_windows;
        self.quotas.book((broker, client), kind, bytes, windows, now)
    }

    /// Stops a broker: it leaves the in-sync replicas, and others lead in its place. False if there is no such broker.
    pub(crate) fn stop_broker(&mut self, now: u64, broker: i32) -> bool {
        let Some(node) = self.nodes.get_mut(broker) else {
            return false;
        };
        node.is_up = false;
        self.fetch_sessions.forget_broker(broker);
        for topic in self.topics.values_mut() {
            for partition in &mut topic.partitions {
                partition.broker_stopped(broker, &topic.settings, &self.nodes, now);
            }
        }
        api::look_at_all_again(self, now);
        true
    }

    /// Starts a broker again: it catches up, and leads what nobody leads. False if there is no such broker.
    pub(crate) fn start_broker(&mut self, now: u64, broker: i32) -> bool {
        let Some(node) = self.nodes.get_mut(broker) else {
            return false;
        };
        node.is_up = true;
        node.replicates = true;
        for topic in self.topics.values_mut() {
            for partition in &mut topic.partitions {
                partition.broker_started(&topic.settings, &self.nodes, now);
            }
        }
        if self.settings.moves_leaders_back {
            self.at(
                now.saturating_add(self.settings.leader_check_interval_ns),
                Timer::PreferredLeaders,
            );
        }
        api::look_at_all_again(self, now);
        true
    }

    /// Stops or resumes the fetching of a broker's followers. False if there is no such broker.
    pub(crate) fn set_replication(&mut self, now: u64, broker: i32, replicates: bool) -> bool {
        let Some(node) = self.nodes.get_mut(broker) else {
            return false;
        };
        node.replicates = replicates;
        for topic in self.topics.values_mut() {
            for partition in &mut topic.partitions {
                partition.follow(&self.nodes, now);
            }
        }
        self.watch_laggards(now);
        api::look_at_all_again(self, now);
        true
    }

    /// Keeps a broker's followers out of the in-sync replicas from now on, or lets them catch up and come back. False if there
    /// is no such broker.
    pub(crate) fn keep_out_of_sync(&mut self, now: u64, broker: i32, is_kept_out: bool) -> bool {
        let Some(node) = self.nodes.get_mut(broker) else {
            return false;
        };
        node.is_kept_out = is_kept_out;
        for topic in self.topics.values_mut() {
            for partition in &mut topic.partitions {
                partition.follow(&self.nodes, now);
            }
        }
        api::look_at_all_again(self, now);
        true
    }

    fn has_paused_replication(&self) -> bool {
        self.nodes.all().iter().any(|node| !node.replicates)
    }

    fn watch_laggards(&mut self, now: u64) {
        if self.has_paused_replication() && !self.timers.iter().any(|(_, timer)| *timer == Timer::Laggards) {
            // Kafka looks twice in the time that it allows.
            self.at(
                now.saturating_add(self.settings.replica_lag_time_max_ns / 2),
                Timer::Laggards,
            );
        }
    }

    fn drop_laggards(&mut self, now: u64) {
        let since = now.saturating_sub(self.settings.replica_lag_time_max_ns);
        for topic in self.topics.values_mut() {
            for partition in &mut topic.partitions {
                partition.drop_laggards(since);
            }
        }
        self.watch_laggards(now);
        api::look_at_all_again(self, now);
    }

    fn prefer_first_replicas(&mut self, now: u64) {
        for topic in self.topics.values_mut() {
            for partition in &mut topic.partitions {
                partition.prefer_first(&self.nodes, now);
            }
        }
        api::look_at_all_again(self, now);
    }

    /// Appends a marker to a partition, and wakes those who waited for it; gives its offset.
    pub(crate) fn append_marker(
        &mut self,
        now: u64,
        (key, index): (TopicKey, i32),
        marker: &Marker,
    ) -> Result<i64, ErrorCode> {
        let now_ms = self.wall_ms(now);
        let slice = self.keep_marker(&marker.to_bytes(now_ms));
        let batch = ProducedBatch::of_marker(slice, marker, now_ms);
        let partition = self
            .topics
            .get_mut(&key)
            .and_then(|topic| topic.partition_mut(index))
            .ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
        let before = api::fetch::Readable::of(partition);
        let offset = partition.append_marker(marker, &batch, &self.nodes, (now, now_ms))?;
        let news = before.news(partition);
        self.arrived(now, key, index, offset, batch.slice.len_bytes());
        api::fetch::wake(self, now, key, index, news);
        Ok(offset)
    }

    /// Stores a marker, several to a buffer.
    fn keep_marker(&mut self, bytes: &[u8]) -> Slice {
        let (buffer, used) = match self.markers.take() {
            Some((buffer, used)) if used + bytes.len() <= buffer.len_bytes() => (buffer, used),
            _ => (self.pool.take(SMALLEST_BYTES), 0),
        };
        let end = used + bytes.len();
        buffer.write()[used..end].copy_from_slice(bytes);
        self.markers = Some((Arc::clone(&buffer), end));
        Slice::new(buffer, used..end)
    }

    /// The producer id that [`Cluster::new_producer_id`] gives next.
    pub(crate) fn next_producer_id(&self) -> i64 {
        self.next_producer_id
    }

    /// A producer id that nobody has had.
    pub(crate) fn new_producer_id(&mut self) -> i64 {
        let id = self.next_producer_id;
        self.next_producer_id += 1;
        id
    }

    /// Groups in order of name.
    pub(crate) fn groups(&self) -> impl Iterator<Item = (&str, &Group)> {
        self.groups
            .iter()
            .map(|(name, slot)| (name.as_str(), &slot.group))
    }

    pub(crate) fn group(&self, name: &str) -> Option<&Group> {
        self.groups.get(name).map(|slot| &slot.group)
    }

    pub(crate) fn delete_group(&mut self, name: &str) {
        if let Some(slot) = self.groups.remove(name)
            && let Some(armed_at) = slot.armed_at
        {
            self.cancel(armed_at, Timer::Group(name.to_owned()));
        }
    }

    /// Hands the group to `act`, which makes it if it is not there; its answers and timers are seen to.
    pub(crate) fn with_group<T>(
        &mut self,
        now: u64,
        name: &str,
        act: impl FnOnce(&mut Group, u64, &mut Replies) -> T,
    ) -> T {
        let delay = self.settings.initial_rebalance_delay_ns;
        let slot = self.groups.entry(name.to_owned()).or_insert_with(|| GroupSlot {
            group: Group::new(delay),
            armed_at: None,
        });
        let mut replies = Replies::default();
        let outcome = act(&mut slot.group, now, &mut replies);
        let (next, armed_at) = (slot.group.next_deadline(), slot.armed_at);
        // A heartbeat makes deadlines later; the earlier timer that is armed then finds nothing to do.
        if let Some(next) = next
            && armed_at.is_none_or(|armed_at| next < armed_at)
        {
            slot.armed_at = Some(next);
            if let Some(armed_at) = armed_at {
                self.timers.remove(&(armed_at, Timer::Group(name.to_owned())));
            }
            self.timers.insert((next, Timer::Group(name.to_owned())));
        }
        if slot.group.is_untouched() {
            self.delete_group(name);
        }
        for (to, joined) in replies.joined {
            self.complete(to, api::join_group::answer(to, joined));
        }
        for (to, synced) in replies.synced {
            self.complete(to, api::sync_group::answer(to, synced));
        }
        outcome
    }

    /// A member of a group of the newer protocol speaks.
    pub(crate) fn consumer_heartbeat(
        &mut self,
        now: u64,
        group: &str,
        beat: Heartbeat,
    ) -> Result<Beat, Refused> {
        let session_timeout_ns = self.settings.consumer_session_timeout_ns;
        // Taken out for the while, so that it can be handed the names of topics.
        let names = std::mem::take(&mut self.by_name);
        let topics: Topics<'_> = names
            .iter()
            .filter_map(|(name, key)| {
                let partitions = self.topics.get(key)?.partitions.len();
                Some((name.as_str(), (*key, partitions as i32)))
            })
            .collect();
        let outcome = self.with_group(now, group, |group, now, _| {
            group.consumer_heartbeat(now, beat, &topics, session_timeout_ns)
        });
        self.by_name = names;
        outcome
    }

    /// The broker that coordinates a group: the same for everyone, as long as it runs.
    pub(crate) fn coordinator_of(&self, group: &str) -> Option<&Node> {
        let count = self.nodes.all().len();
        let hash = group.bytes().fold(0_u32, |hash, byte| {
            hash.wrapping_mul(31).wrapping_add(byte.into())
        });
        let first = hash as usize % count.max(1);
        (0..count)
            .filter_map(|step| self.nodes.all().get((first + step) % count))
            .find(|node| node.is_up)
    }

    /// Whether `broker` coordinates the group.
    pub(crate) fn check_coordinator(&self, group: &str, broker: i32) -> Result<(), ErrorCode> {
        match self.coordinator_of(group) {
            Some(node) if node.id == broker => Ok(()),
            _ => Err(ErrorCode::NOT_COORDINATOR),
        }
    }
}

fn is_there(topics: &HashMap<TopicKey, Topic>, arrival: &Arrival) -> bool {
    topics
        .get(&arrival.topic)
        .and_then(|topic| topic.partition(arrival.partition))
        .is_some_and(|partition| partition.log().holds(arrival.base_offset))
}
