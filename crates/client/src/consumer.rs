//! The consumer: partitions, positions and fetches, as a state machine.
//!
//! It reads partitions of its own choice, or those that a group assigns to it ([`crate::group`]). As in the Java client one
//! Fetch at a time is on its way to each broker, and partition leaders are followed. Records are handed out by reference:
//! answers wait until [`Consumer::deliver`] walks through their batches, while the next Fetch is on its way already.
//!
//! Fetches go by sessions (KIP-227) and by topic ids (KIP-516) where the broker has them. A position is held against the new
//! leader's log when leadership changes (KIP-320), so that a log that was truncated is noticed.

mod records;
mod session;

use crate::admin::{OffsetAt, TopicPartition};
use crate::cluster::{Cluster, ClusterConfig, ClusterEvent, Node, SendError, nanos, throttle_ms};
use crate::group::{Commit, Group, GroupEvent};
use crate::net::{ConnId, Frame, NetAction, NetEvent, Outgoing};
use crate::rights::{Refusal, is_missing_right};
use model::client_config::{ConsumerConfig, IsolationLevel, OffsetReset};
use records::{Aborted, Step, Walk};
use session::{Session, Wanted};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;
use std::time::Duration;
use wire::batch::Batch;
use wire::codec::{Message, Reader, Uuid};
use wire::fetch::{self, AbortedTransaction, FetchPartition, FetchRequest, FetchResponseRef};
use wire::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopic,
};
use wire::messages::offset_for_leader_epoch::{
    OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use wire::{ApiKey, ErrorCode};

/// Versions of Fetch that name topics by name.
const FETCH_BY_NAME: RangeInclusive<i16> = 4..=12;
/// Versions of Fetch for consumers; 18 is for followers. From [`session::IDS_FROM`] on topics go by their ids.
const FETCH_VERSIONS: RangeInclusive<i16> = 4..=17;
/// Versions of OffsetForLeaderEpoch that consumers may send (Kafka 2.3): the ones before are for brokers among themselves.
const EPOCH_VERSIONS: RangeInclusive<i16> = 3..=4;
/// From this version on answers have flexible headers.
const FETCH_FLEXIBLE_FROM: i16 = 12;
/// A first batch may exceed all fetch limits (KIP-74); one that is larger than this on top of them is not believed.
const MAX_BATCH_BYTES: usize = 256 << 20;
/// Frames beyond this are not believed, whatever the limits say: the letters `HTTP` claim 1.2 GB.
const MAX_FRAME_BYTES: usize = 1 << 30;
/// A topic that no broker knows for so long does not exist.
const UNKNOWN_TOPIC_NS: u64 = 15_000_000_000;
/// Between two looks at something that no event announces.
const LOOK_NS: u64 = 10_000_000;

/// What to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subscription {
    /// The partitions that the group of `group.id` assigns of these topics.
    Group {
        /// The topics.
        topics: Vec<String>,
    },
    /// These partitions, in no group. With a `group.id` its committed offsets can be read and written.
    Partitions(Vec<(TopicPartition, StartAt)>),
}

/// Where to begin to read a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartAt {
    /// At the group's committed offset; without one, where `auto.offset.reset` says.
    Committed,
    /// At the log's first offset.
    Earliest,
    /// At the log's end.
    Latest,
    /// At this offset.
    Offset(i64),
    /// At the first record whose timestamp, in ms since 1970, is not smaller; at the end if there is none.
    TimestampMs(i64),
}

/// A [`Consumer`] that cannot be made of its settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// A group's partitions are wanted and no group is named.
    #[error("group.id is not set, and consuming in a group needs one")]
    NoGroupId,
    /// Committed offsets are wanted and no group is named.
    #[error("group.id is not set, and reading from committed offsets needs one")]
    NoGroupForOffsets,
}

/// Takes what was consumed.
pub trait Deliver {
    /// One record batch that was read from `partition` of `topic`. Records below `from_offset` were not asked for and are to
    /// be passed over: a batch may begin before the position. `delivered_ns` is when its answer was read from the socket, or
    /// when the pause ended in which it came.
    ///
    /// Control batches, aborted transactions (under `read_committed`) and damaged batches are not delivered.
    fn batch(&mut self, topic: &str, partition: i32, batch: &Batch<'_>, from_offset: i64, delivered_ns: u64);

    /// All that an answer held of `partition` below `next_offset` has been delivered or was not to be: behind the last batch
    /// may stand control batches and aborted transactions.
    fn reached(&mut self, _topic: &str, _partition: i32, _next_offset: i64) {}
}

/// What a consumer tells its user.
#[derive(Clone, Debug, PartialEq)]
pub enum ConsumerEvent {
    /// The group rebalances; the partitions are given up now, and their positions were committed if commits are made at all.
    RebalanceStarted {
        /// When.
        at_ns: u64,
    },
    /// Partitions are not its own any more.
    Revoked {
        /// Which.
        partitions: Vec<TopicPartition>,
        /// Whether the coordinator had thrown the member out, so that nothing could be committed.
        is_lost: bool,
        /// When.
        at_ns: u64,
    },
    /// Partitions are its own. Their positions are still to be found.
    Assigned {
        /// Which.
        partitions: Vec<TopicPartition>,
        /// The group's generation; absent outside of groups.
        generation: Option<i32>,
        /// When.
        at_ns: u64,
    },
    /// The position was out of the log's range, and has been set anew as `auto.offset.reset` says.
    OffsetReset {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// The position that it had.
        from: i64,
        /// The one that it has now.
        to: i64,
        /// When.
        at_ns: u64,
    },
    /// The topic was deleted and made again under its name: the rest of the old one is gone, and the partition is read from
    /// the new one's beginning.
    TopicMadeAgain {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// The position in the old one.
        from: i64,
        /// When.
        at_ns: u64,
    },
    /// The log was truncated below the position, as by an unclean election of a leader: what was read from `to` on is not in
    /// it any more, and reading goes on there.
    Truncated {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// The position that it had.
        from: i64,
        /// The first offset at which the logs differ.
        to: i64,
        /// When.
        at_ns: u64,
    },
    /// A batch could not be read. It was passed over as far as its header can be believed.
    Corrupt {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// The position at which it was met.
        offset: i64,
        /// The position at which reading goes on.
        next_offset: i64,
        /// What is wrong with it.
        error: String,
    },
    /// A commit has ended.
    Committed {
        /// The positions that were to be committed.
        commits: Vec<Commit>,
        /// Whether they were.
        result: Result<(), String>,
        /// When.
        at_ns: u64,
    },
    /// It cannot go on.
    Failed {
        /// Why, and what is needed.
        reason: String,
    },
}

/// What a consumer has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConsumerCounts {
    /// Fetch requests sent.
    pub fetch_requests: u64,
    /// Bytes of answers to Fetch.
    pub fetched_bytes: u64,
    /// Batches delivered.
    pub batches: u64,
    /// Sum of the throttle times that brokers asked for.
    pub throttle_ns: u64,
    /// Commits that succeeded.
    pub commits: u64,
    /// Commits that failed.
    pub failed_commits: u64,
    /// Rebalances that took partitions away, being thrown out among them.
    pub rebalances: u64,
    /// Positions that were out of range and set anew.
    pub offset_resets: u64,
    /// Offsets that those passed over.
    pub skipped_offsets: u64,
    /// Batches that could not be read.
    pub corrupt_batches: u64,
}

/// What a consumer has fetched from one broker so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceCounts {
    /// Fetch requests answered.
    pub requests: u64,
    /// Bytes of their answers.
    pub bytes: u64,
    /// Sum of the throttle times that it asked for.
    pub throttle_ns: u64,
}

/// Where a partition's position stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The group is to say it.
    Committed,
    /// To be asked of the leader. `from` is the position that was out of range.
    Sought { at: OffsetAt, from: Option<i64> },
    /// The leader has been asked.
    Asked { at: OffsetAt, from: Option<i64> },
    /// Known.
    Known,
}

impl Place {
    /// After a change of the assignment, which leaves answers that are on their way without meaning.
    fn asked_anew(self) -> Place {
        match self {
            Place::Asked { at, from } => Place::Sought { at, from },
            other => other,
        }
    }
}

/// Whether a position is still to be held against its leader's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Check {
    /// It has been.
    Done,
    /// The leader is to be asked where the epoch of the last record ends.
    Wanted,
    /// It has been asked.
    Asked,
}

#[derive(Debug)]
struct Partition {
    topic: Arc<str>,
    /// Zero while it is not known, and with brokers older than 2.8.
    topic_id: Uuid,
    /// The topic has been made again; what was fetched of the old one is delivered first.
    is_made_again: bool,
    index: i32,
    place: Place,
    /// The leader epoch of the record before `fetch_at`; −1 if not known.
    epoch: i32,
    check: Check,
    /// The offset of the next record to be delivered.
    delivered: i64,
    /// The offset of the next record to be asked for.
    fetch_at: i64,
    high_watermark: Option<i64>,
    leader: Option<i32>,
    leader_epoch: i32,
    /// The leader has refused, and metadata has not come since.
    is_leader_doubted: bool,
    /// A near replica to read from, and until when (KIP-392).
    replica: Option<(i32, u64)>,
    retry_at_ns: u64,
    failures: u32,
    /// Damaged batches met in a row.
    damaged: u32,
    /// When it last gave records, counted in answers, by which partitions take turns.
    served: u64,
    committed: Option<i64>,
}

impl Partition {
    fn name(&self) -> TopicPartition {
        (self.topic.to_string(), self.index)
    }

    /// Its leader's epoch: with a new one the position is held against the leader's log.
    fn is_led_in(&mut self, epoch: i32) {
        if epoch > self.leader_epoch && self.epoch >= 0 && self.place == Place::Known {
            self.check = Check::Wanted;
        }
        self.leader_epoch = epoch;
    }

    fn believed_leader(&self) -> Option<i32> {
        self.leader.filter(|_| !self.is_leader_doubted)
    }

    /// Whom to fetch from.
    fn source(&self, now_ns: u64) -> Option<i32> {
        match self.replica {
            Some((replica, until_ns)) if now_ns < until_ns => Some(replica),
            _ => self.believed_leader(),
        }
    }
}

/// One broker as a source of records.
#[derive(Debug, Default)]
struct Source {
    is_fetching: bool,
    /// Answers that wait for delivery.
    undelivered: u32,
    session: Session,
    counts: SourceCounts,
}

#[derive(Debug)]
enum Asked {
    Fetch {
        broker: i32,
        assignment: u64,
        positions: Vec<(usize, i64)>,
    },
    Offsets {
        assignment: u64,
        partitions: Vec<usize>,
    },
    Epochs {
        assignment: u64,
        /// Each with the position and the epoch that it was asked for.
        partitions: Vec<(usize, i64, i32)>,
    },
}

/// A part of an answer that belongs to one partition.
#[derive(Debug)]
struct Piece {
    partition: usize,
    from: i64,
    range: Range<usize>,
    aborted: Vec<AbortedTransaction>,
    step: i64,
}

/// An answer whose batches wait for delivery.
#[derive(Debug)]
struct Fetched {
    broker: i32,
    assignment: u64,
    frame: Frame,
    pieces: Vec<Piece>,
    at_ns: u64,
}

#[derive(Debug)]
struct Settings {
    min_bytes: i32,
    max_wait_ns: u64,
    max_bytes: i32,
    partition_max_bytes: i32,
    isolation: IsolationLevel,
    rack: Option<String>,
    check_crcs: bool,
    reset: OffsetReset,
    retry_backoff_ns: u64,
    retry_backoff_max_ns: u64,
    request_timeout_ns: u64,
    metadata_max_age_ns: u64,
    auto_commit_ns: Option<u64>,
}

/// See the module.
#[derive(Debug)]
pub struct Consumer {
    settings: Settings,
    wall_start: Duration,
    cluster: Cluster<Asked>,
    group: Option<Group>,
    topics: Vec<String>,
    partitions: Vec<Partition>,
    by_name: HashMap<Arc<str>, BTreeMap<i32, usize>>,
    /// Rises with each change of the partitions, so that late answers are known as such.
    assignment: u64,
    sources: BTreeMap<i32, Source>,
    fetched: VecDeque<Fetched>,
    answers: u64,
    is_assigned: bool,
    paused_until_ns: u64,
    commit_at_ns: u64,
    /// Whether it commits at all, by itself or because the user did.
    commits: bool,
    unknown_since_ns: BTreeMap<String, u64>,
    is_leaving: bool,
    is_closed: bool,
    has_failed: bool,
    look_ns: u64,
    ticked_ns: u64,
    counts: ConsumerCounts,
    events: VecDeque<ConsumerEvent>,
    control: Vec<u8>,
}

/// How many owner numbers ([`ConnId::owner`]) a consumer takes: its own and the next, its group's.
pub const OWNERS: u32 = 2;

impl Consumer {
    /// A consumer that is not connected yet. Events of connections whose owner is `owner` or `owner + 1` are its own.
    /// `wall_start` is the wall-clock time, since 1970, of the clock's origin.
    ///
    /// # Errors
    ///
    /// When the subscription needs a group and `group.id` is absent.
    pub fn new(
        config: &ConsumerConfig,
        subscription: &Subscription,
        owner: u32,
        wall_start: Duration,
    ) -> Result<Consumer, SetupError> {
        let connection = &config.connection;
        let max_frame_bytes = (config.fetch_max_bytes as usize)
            .saturating_add(MAX_BATCH_BYTES)
            .min(MAX_FRAME_BYTES);
        let mut cluster = Cluster::new(ClusterConfig::new(connection, owner, max_frame_bytes));
        let (topics, chosen) = match subscription {
            Subscription::Group { topics } => (topics.clone(), None),
            Subscription::Partitions(chosen) => {
                let topics: BTreeSet<&String> = chosen.iter().map(|((topic, _), _)| topic).collect();
                (topics.into_iter().cloned().collect(), Some(chosen))
            }
        };
        cluster.watch_topics(topics.iter().map(String::as_str));
        let group = match (&config.group_id, chosen) {
            (Some(id), None) => Some(Group::new(id, config, topics.clone(), owner + 1)),
            (Some(id), Some(_)) => Some(Group::new(id, config, Vec::new(), owner + 1)),
            (None, None) => return Err(SetupError::NoGroupId),
            (None, Some(chosen)) if chosen.iter().any(|(_, start)| *start == StartAt::Committed) => {
                return Err(SetupError::NoGroupForOffsets);
            }
            (None, Some(_)) => None,
        };
        let bytes = |bytes: u32| i32::try_from(bytes).unwrap_or(i32::MAX);
        let mut consumer = Consumer {
            settings: Settings {
                min_bytes: bytes(config.fetch_min_bytes),
                max_wait_ns: nanos(config.fetch_max_wait),
                max_bytes: bytes(config.fetch_max_bytes),
                partition_max_bytes: bytes(config.max_partition_fetch_bytes),
                isolation: config.isolation_level,
                rack: config.client_rack.clone(),
                check_crcs: config.check_crcs,
                reset: config.auto_offset_reset,
                retry_backoff_ns: nanos(connection.retry_backoff),
                retry_backoff_max_ns: nanos(connection.retry_backoff_max),
                request_timeout_ns: nanos(connection.request_timeout),
                metadata_max_age_ns: nanos(connection.metadata_max_age),
                auto_commit_ns: (config.auto_commit && group.is_some())
                    .then(|| nanos(config.auto_commit_interval)),
            },
            wall_start,
            cluster,
            group,
            topics,
            partitions: Vec::new(),
            by_name: HashMap::new(),
            assignment: 0,
            sources: BTreeMap::new(),
            fetched: VecDeque::new(),
            answers: 0,
            is_assigned: false,
            paused_until_ns: 0,
            commit_at_ns: u64::MAX,
            commits: config.auto_commit && config.group_id.is_some(),
            unknown_since_ns: BTreeMap::new(),
            is_leaving: false,
            is_closed: false,
            has_failed: false,
            look_ns: 0,
            ticked_ns: 0,
            counts: ConsumerCounts::default(),
            events: VecDeque::new(),
            control: Vec::new(),
        };
        if let Some(chosen) = chosen {
            consumer.assign(chosen, None, 0);
        }
        Ok(consumer)
    }

    /// Its partitions.
    pub fn assigned(&self) -> impl Iterator<Item = (&str, i32)> {
        self.partitions
            .iter()
            .map(|partition| (&*partition.topic, partition.index))
    }

    /// Its partitions and, where known, the offset of the next record to be delivered of each.
    pub fn positions(&self) -> impl Iterator<Item = (&str, i32, Option<i64>)> {
        self.partitions.iter().map(|partition| {
            let position = (partition.place == Place::Known).then_some(partition.delivered);
            (&*partition.topic, partition.index, position)
        })
    }

    /// Whether it has its partitions, of which a group may have none for it, and a position in each: from now on nothing that
    /// is appended to them is missed.
    pub fn is_assigned_and_positioned(&self) -> bool {
        self.is_assigned
            && self
                .partitions
                .iter()
                .all(|partition| partition.place == Place::Known)
    }

    /// How many records its partitions hold beyond what was delivered: the sum of high watermark − position. `None` while that
    /// of some partition is not known.
    pub fn lag(&self) -> Option<u64> {
        self.partitions.iter().try_fold(0u64, |sum, partition| {
            let high_watermark = partition
                .high_watermark
                .filter(|_| partition.place == Place::Known)?;
            Some(sum.saturating_add(high_watermark.saturating_sub(partition.delivered).max(0) as u64))
        })
    }

    /// What it has done.
    pub fn counts(&self) -> ConsumerCounts {
        self.counts
    }

    /// What it has fetched, by broker.
    pub fn sources(&self) -> impl Iterator<Item = (i32, SourceCounts)> + '_ {
        self.sources
            .iter()
            .map(|(&broker, source)| (broker, source.counts))
    }

    /// The connections and the metadata below.
    pub fn cluster(&self) -> &Cluster<impl Sized> {
        &self.cluster
    }

    /// The next thing that its user should know.
    pub fn next_event(&mut self) -> Option<ConsumerEvent> {
        self.events.pop_front()
    }

    /// What is to be done on the network; the caller drains it.
    pub fn actions(&mut self) -> &mut Vec<NetAction> {
        if let Some(group) = &mut self.group {
            self.cluster.actions().append(group.actions());
        }
        self.cluster.actions()
    }

    /// Sends no Fetch and delivers nothing before that time, as an application does that is busy with what it has. What is on
    /// its way still comes and waits, and membership in the group goes on.
    pub fn pause_until(&mut self, until_ns: u64) {
        self.paused_until_ns = until_ns;
        self.look_ns = 0;
    }

    /// Fetches and delivers nothing until [`Consumer::resume`].
    pub fn pause(&mut self) {
        self.pause_until(u64::MAX);
    }

    /// Fetches and delivers again.
    pub fn resume(&mut self) {
        self.pause_until(self.ticked_ns);
    }

    /// Commits the positions of what was delivered and is not committed, in the background and one commit at a time: while one
    /// is under way this does nothing, so that it may be called after each delivery.
    pub fn commit(&mut self) {
        self.commits = true;
        if self.group.as_ref().is_some_and(|group| !group.is_committing()) {
            self.commit_now();
        }
    }

    /// Fetches no more, commits if commits are made at all, and leaves the group; gives up at `until_ns`. Done when
    /// [`Consumer::is_closed`].
    pub fn leave(&mut self, now_ns: u64, until_ns: u64, read: &mut Vec<Frame>) {
        if self.is_leaving || self.is_closed {
            return;
        }
        self.is_leaving = true;
        self.drop_fetched(read);
        if self.commits {
            self.commit_now();
        }
        self.cluster.close(now_ns);
        while self.cluster.next_event().is_some() {}
        match &mut self.group {
            Some(group) if !group.is_gone() => group.leave(now_ns, until_ns),
            _ => self.abandon(now_ns, read),
        }
        self.look_ns = 0;
    }

    /// Closes all connections at once, without a word to the group.
    pub fn abandon(&mut self, now_ns: u64, read: &mut Vec<Frame>) {
        self.drop_fetched(read);
        self.cluster.close(now_ns);
        while self.cluster.next_event().is_some() {}
        if let Some(group) = &mut self.group {
            group.abandon(now_ns);
        }
        self.is_leaving = true;
        self.is_closed = true;
    }

    /// Whether it has left.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Something happened on a connection of ours. Frames that have been read are added to `read` for the net to use again.
    pub fn on_net(&mut self, conn: ConnId, event: NetEvent, now_ns: u64, read: &mut Vec<Frame>) {
        let is_news = !matches!(event, NetEvent::Written { .. });
        if conn.owner == self.cluster.config().owner {
            self.cluster.on_net(conn, event, now_ns);
        } else if let Some(group) = &mut self.group {
            group.on_net(conn, event, now_ns, read);
        }
        if is_news {
            self.look_ns = 0;
        }
        // The next Fetch goes out before the records of this one are looked at.
        self.tick(now_ns, read);
    }

    /// Time passes: sends what is due.
    pub fn tick(&mut self, now_ns: u64, read: &mut Vec<Frame>) {
        if self.is_closed || (self.has_failed && !self.is_leaving) {
            return;
        }
        self.ticked_ns = now_ns;
        if !self.is_leaving {
            self.cluster.tick(now_ns);
            self.take_events(now_ns, read);
            if let Some(unusable) = self.cluster.unusable() {
                let reason = unusable.to_owned();
                self.fail(reason);
                return;
            }
        }
        if now_ns < self.look_ns || (self.has_failed && !self.is_leaving) {
            return;
        }
        let mut look_ns = u64::MAX;
        if !self.is_leaving {
            self.commit_when_due(now_ns);
            look_ns = look_ns.min(self.commit_at_ns);
        }
        if let Some(group) = &mut self.group {
            look_ns = look_ns.min(group.tick(now_ns, read));
            if self.take_group_events(now_ns, read) {
                look_ns = now_ns;
            }
        }
        if !self.is_leaving {
            look_ns = look_ns.min(self.watch_topics(now_ns));
            self.begin_anew(now_ns);
            look_ns = look_ns.min(self.seek(now_ns));
            look_ns = look_ns.min(self.check_positions(now_ns));
            look_ns = look_ns.min(self.fetch(now_ns));
        }
        self.look_ns = look_ns;
    }

    /// When [`Consumer::tick`] has something to do next, if nothing happens until then.
    pub fn next_deadline_ns(&self) -> u64 {
        if self.is_closed || (self.has_failed && !self.is_leaving) {
            return u64::MAX;
        }
        // A deadline that the cluster cannot act on yet must not make the caller spin.
        let cluster_ns = match self.is_leaving {
            true => u64::MAX,
            false => self
                .cluster
                .next_deadline_ns()
                .unwrap_or(u64::MAX)
                .max(self.ticked_ns + 1_000_000),
        };
        self.look_ns.min(cluster_ns)
    }

    /// Whether answers can be delivered, as of the last [`Consumer::tick`].
    pub fn has_deliveries(&self) -> bool {
        !self.fetched.is_empty() && self.ticked_ns >= self.paused_until_ns
    }

    /// Hands all batches that wait to `sink`, and the frames that held them to `read`. Sends what can be fetched thereafter.
    pub fn deliver(&mut self, sink: &mut dyn Deliver, now_ns: u64, read: &mut Vec<Frame>) {
        if self.fetched.is_empty() || now_ns < self.paused_until_ns {
            return;
        }
        while let Some(fetched) = self.fetched.pop_front() {
            if let Some(source) = self.sources.get_mut(&fetched.broker) {
                source.undelivered = source.undelivered.saturating_sub(1);
            }
            let delivered_ns = fetched.at_ns.max(self.paused_until_ns);
            if fetched.assignment == self.assignment {
                for piece in &fetched.pieces {
                    self.deliver_piece(
                        piece,
                        &fetched.frame.bytes()[piece.range.clone()],
                        delivered_ns,
                        sink,
                    );
                }
            }
            read.push(fetched.frame);
        }
        self.look_ns = 0;
        self.tick(now_ns, read);
    }

    fn deliver_piece(&mut self, piece: &Piece, records: &[u8], at_ns: u64, sink: &mut dyn Deliver) {
        let Some(partition) = self.partitions.get_mut(piece.partition) else {
            return;
        };
        if partition.place != Place::Known || partition.delivered != piece.from {
            return;
        }
        let mut aborted = Aborted::new(&piece.aborted);
        let mut walk = Walk::new(records, piece.from, piece.step);
        let mut damages = Vec::new();
        for step in walk.by_ref() {
            match step {
                Step::Damaged { from, next, error } => damages.push((from, next, error)),
                Step::Batch { batch, from } => {
                    if self.settings.check_crcs
                        && let Err(error) = batch.check_crc()
                    {
                        damages.push((from, batch.last_offset().saturating_add(1), error));
                        continue;
                    }
                    let is_wanted = match self.settings.isolation {
                        IsolationLevel::ReadUncommitted => !batch.is_control(),
                        IsolationLevel::ReadCommitted => aborted.lets_pass(&batch, &mut self.control),
                    };
                    if is_wanted && batch.count() > 0 {
                        self.counts.batches += 1;
                        sink.batch(&partition.topic, partition.index, &batch, from, at_ns);
                    }
                }
            }
        }
        partition.delivered = walk.at;
        sink.reached(&partition.topic, partition.index, walk.at);
        for (offset, next_offset, error) in damages {
            self.counts.corrupt_batches += 1;
            self.events.push_back(ConsumerEvent::Corrupt {
                topic: partition.topic.to_string(),
                partition: partition.index,
                offset,
                next_offset,
                error: error.to_string(),
            });
        }
    }

    fn drop_fetched(&mut self, read: &mut Vec<Frame>) {
        read.extend(self.fetched.drain(..).map(|fetched| fetched.frame));
        for source in self.sources.values_mut() {
            source.undelivered = 0;
        }
    }

    fn fail(&mut self, reason: String) {
        if !self.has_failed {
            self.has_failed = true;
            self.events.push_back(ConsumerEvent::Failed { reason });
        }
    }

    fn assign(&mut self, chosen: &[(TopicPartition, StartAt)], generation: Option<i32>, now_ns: u64) {
        self.assignment += 1;
        self.is_assigned = true;
        // Those that stay, as in a cooperative rebalance, go on from where they are.
        let mut kept: BTreeMap<TopicPartition, Partition> = self
            .partitions
            .drain(..)
            .map(|partition| (partition.name(), partition))
            .collect();
        self.by_name.clear();
        for ((topic, index), start) in chosen {
            if let Some(mut partition) = kept.remove(&(topic.clone(), *index)) {
                partition.fetch_at = partition.delivered;
                // What was fetched beyond may be of a later epoch.
                partition.epoch = -1;
                partition.check = Check::Done;
                partition.place = partition.place.asked_anew();
                self.by_name
                    .entry(Arc::clone(&partition.topic))
                    .or_default()
                    .insert(*index, self.partitions.len());
                self.partitions.push(partition);
                continue;
            }
            let topic: Arc<str> = match self.by_name.get_key_value(topic.as_str()) {
                Some((known, _)) => Arc::clone(known),
                None => Arc::from(topic.as_str()),
            };
            let sought = |at| (Place::Sought { at, from: None }, 0);
            let (place, offset) = match *start {
                StartAt::Committed => (Place::Committed, 0),
                StartAt::Earliest => sought(OffsetAt::Earliest),
                StartAt::Latest => sought(OffsetAt::Latest),
                StartAt::TimestampMs(ms) => sought(OffsetAt::TimestampMs(ms)),
                StartAt::Offset(offset) => (Place::Known, offset),
            };
            self.by_name
                .entry(Arc::clone(&topic))
                .or_default()
                .insert(*index, self.partitions.len());
            self.partitions.push(Partition {
                topic,
                topic_id: Uuid::ZERO,
                is_made_again: false,
                index: *index,
                place,
                epoch: -1,
                check: Check::Done,
                delivered: offset,
                fetch_at: offset,
                high_watermark: None,
                leader: None,
                leader_epoch: -1,
                is_leader_doubted: false,
                replica: None,
                retry_at_ns: 0,
                failures: 0,
                damaged: 0,
                served: 0,
                committed: None,
            });
        }
        self.cluster
            .watch_topics(chosen.iter().map(|((topic, _), _)| topic.as_str()));
        self.follow_leaders();
        let partitions: Vec<TopicPartition> = self.partitions.iter().map(Partition::name).collect();
        let committed: Vec<TopicPartition> = self
            .partitions
            .iter()
            .filter(|partition| partition.place == Place::Committed)
            .map(Partition::name)
            .collect();
        if let Some(group) = &mut self.group {
            group.fetch_offsets(committed);
        }
        self.commit_at_ns = match self.settings.auto_commit_ns {
            Some(interval_ns) => now_ns.saturating_add(interval_ns),
            None => u64::MAX,
        };
        self.events.push_back(ConsumerEvent::Assigned {
            partitions,
            generation,
            at_ns: now_ns,
        });
    }

    fn revoke(&mut self, is_lost: bool, now_ns: u64, read: &mut Vec<Frame>) {
        let partitions: Vec<TopicPartition> = self
            .partitions
            .drain(..)
            .map(|partition| partition.name())
            .collect();
        self.by_name.clear();
        self.assignment += 1;
        self.is_assigned = false;
        self.commit_at_ns = u64::MAX;
        self.counts.rebalances += 1;
        self.drop_fetched(read);
        self.events.push_back(ConsumerEvent::Revoked {
            partitions,
            is_lost,
            at_ns: now_ns,
        });
    }

    /// In a cooperative rebalance: commits and gives up what is not to be kept.
    fn give_up_all_but(&mut self, kept: &[TopicPartition], now_ns: u64, read: &mut Vec<Frame>) {
        // What has been fetched names partitions by their places, which change.
        self.drop_fetched(read);
        let lost: Vec<TopicPartition> = self
            .partitions
            .iter()
            .map(Partition::name)
            .filter(|partition| !kept.contains(partition))
            .collect();
        if lost.is_empty() {
            return;
        }
        if self.commits {
            self.commit_now();
        }
        self.partitions
            .retain(|partition| kept.contains(&partition.name()));
        self.counts.rebalances += 1;
        self.events.push_back(ConsumerEvent::Revoked {
            partitions: lost,
            is_lost: false,
            at_ns: now_ns,
        });
    }

    fn commit_when_due(&mut self, now_ns: u64) {
        let Some(interval_ns) = self.settings.auto_commit_ns else {
            return;
        };
        if now_ns >= self.commit_at_ns {
            self.commit_at_ns = now_ns.saturating_add(interval_ns);
            self.commit();
        }
    }

    fn commit_now(&mut self) {
        let Some(group) = &mut self.group else { return };
        let commits: Vec<Commit> = self
            .partitions
            .iter()
            .filter(|partition| {
                partition.place == Place::Known && partition.committed != Some(partition.delivered)
            })
            .map(|partition| (partition.name(), partition.delivered))
            .collect();
        if !commits.is_empty() {
            group.commit(commits);
            self.look_ns = 0;
        }
    }

    fn place_of(&self, topic: &str, index: i32) -> Option<usize> {
        self.by_name.get(topic)?.get(&index).copied()
    }

    fn place_by_id(&self, topic_id: Uuid, index: i32) -> Option<usize> {
        let (topic, _) = self.by_name.iter().find(|(_, places)| {
            places
                .values()
                .next()
                .is_some_and(|&place| self.partitions[place].topic_id == topic_id)
        })?;
        self.place_of(topic, index)
    }

    /// True if something changed that is to be acted on at once.
    fn take_group_events(&mut self, now_ns: u64, read: &mut Vec<Frame>) -> bool {
        let mut has_news = false;
        while let Some(event) = self.group.as_mut().and_then(Group::next_event) {
            has_news = true;
            match event {
                GroupEvent::RebalanceStarted { keeps } => {
                    self.events
                        .push_back(ConsumerEvent::RebalanceStarted { at_ns: now_ns });
                    if self.commits {
                        self.commit_now();
                    }
                    if !keeps {
                        self.revoke(false, now_ns, read);
                    }
                    if let Some(group) = &mut self.group {
                        group.rejoin(now_ns);
                    }
                }
                GroupEvent::Lost { .. } => self.revoke(true, now_ns, read),
                GroupEvent::Assigned {
                    generation,
                    partitions,
                    keeps,
                } => {
                    if keeps {
                        self.give_up_all_but(&partitions, now_ns, read);
                    }
                    let chosen: Vec<_> = partitions
                        .into_iter()
                        .map(|partition| (partition, StartAt::Committed))
                        .collect();
                    self.assign(&chosen, Some(generation), now_ns);
                    if let Some(group) = self.group.as_mut().filter(|_| keeps) {
                        group.rejoin(now_ns);
                    }
                }
                GroupEvent::Offsets(offsets) => self.on_committed_offsets(offsets),
                GroupEvent::Committed { commits, result } => {
                    match &result {
                        Ok(()) => self.counts.commits += 1,
                        Err(_) => self.counts.failed_commits += 1,
                    }
                    if result.is_ok() {
                        for ((topic, index), offset) in &commits {
                            if let Some(place) = self.place_of(topic, *index) {
                                self.partitions[place].committed = Some(*offset);
                            }
                        }
                    }
                    self.events.push_back(ConsumerEvent::Committed {
                        commits,
                        result,
                        at_ns: now_ns,
                    });
                }
                GroupEvent::Failed { reason } => {
                    self.is_closed |= self.is_leaving;
                    self.fail(reason);
                }
                GroupEvent::Left => self.is_closed = true,
            }
        }
        has_news
    }

    fn on_committed_offsets(&mut self, offsets: Vec<(TopicPartition, Option<i64>)>) {
        for ((topic, index), offset) in offsets {
            let Some(place) = self.place_of(&topic, index) else {
                continue;
            };
            if self.partitions[place].place != Place::Committed {
                continue;
            }
            match offset {
                Some(offset) => {
                    let partition = &mut self.partitions[place];
                    partition.place = Place::Known;
                    partition.delivered = offset;
                    partition.fetch_at = offset;
                    partition.committed = Some(offset);
                }
                None => self.reset(place, None),
            }
        }
    }

    /// Sets a position anew as `auto.offset.reset` says.
    fn reset(&mut self, place: usize, from: Option<i64>) {
        let at = match self.settings.reset {
            OffsetReset::Earliest => OffsetAt::Earliest,
            OffsetReset::Latest => OffsetAt::Latest,
            OffsetReset::ByDuration(age) => {
                let now = self.wall_start + Duration::from_nanos(self.ticked_ns);
                OffsetAt::TimestampMs(i64::try_from(now.saturating_sub(age).as_millis()).unwrap_or(i64::MAX))
            }
            OffsetReset::None => {
                let partition = &self.partitions[place];
                let what = match from {
                    Some(offset) => format!("offset {offset} is out of the log's range"),
                    None => "the group has no committed offset".to_owned(),
                };
                let reason = format!(
                    "{}-{}: {what}, and auto.offset.reset=none forbids to choose another; set earliest or latest",
                    partition.topic, partition.index
                );
                self.fail(reason);
                return;
            }
        };
        let partition = &mut self.partitions[place];
        partition.place = Place::Sought { at, from };
        partition.replica = None;
        partition.check = Check::Done;
    }

    fn take_events(&mut self, now_ns: u64, read: &mut Vec<Frame>) {
        while let Some(event) = self.cluster.next_event() {
            self.look_ns = 0;
            match event {
                ClusterEvent::Ready(_) | ClusterEvent::Written { .. } => {}
                ClusterEvent::MetadataUpdated => self.follow_leaders(),
                ClusterEvent::Answer {
                    tag,
                    version,
                    frame,
                    body_at,
                    at_ns,
                    ..
                } => match tag {
                    Asked::Fetch {
                        broker,
                        assignment,
                        positions,
                    } => {
                        self.sources.entry(broker).or_default().is_fetching = false;
                        if assignment == self.assignment {
                            self.on_fetched(broker, positions, version, frame, at_ns, read);
                        } else {
                            // Its records are of no use any more; what it says of the broker is.
                            if let Ok(response) = FetchResponseRef::decode(version, frame.bytes()) {
                                let (bytes, throttle_ms) = (frame.bytes().len(), response.throttle_time_ms);
                                self.account(broker, version, bytes, throttle_ms, at_ns);
                            }
                            read.push(frame);
                        }
                    }
                    Asked::Offsets {
                        assignment,
                        partitions,
                    } => {
                        if assignment == self.assignment {
                            let mut body = Reader::new(&frame.bytes()[body_at..]);
                            match ListOffsetsResponse::decode(version, &mut body) {
                                Ok(response) => self.on_offsets(&partitions, response, now_ns),
                                Err(error) => {
                                    self.fail(format!("the answer to ListOffsets cannot be read: {error}"))
                                }
                            }
                        }
                        read.push(frame);
                    }
                    Asked::Epochs {
                        assignment,
                        partitions,
                    } => {
                        if assignment == self.assignment {
                            let mut body = Reader::new(&frame.bytes()[body_at..]);
                            match OffsetForLeaderEpochResponse::decode(version, &mut body) {
                                Ok(response) => self.on_epochs(&partitions, response, now_ns, read),
                                Err(error) => self.fail(format!(
                                    "the answer to OffsetForLeaderEpoch cannot be read: {error}"
                                )),
                            }
                        }
                        read.push(frame);
                    }
                },
                ClusterEvent::Lost { tag, .. } => self.on_lost(tag, now_ns),
            }
        }
    }

    fn on_lost(&mut self, tag: Asked, now_ns: u64) {
        match tag {
            Asked::Fetch {
                broker,
                assignment,
                positions,
            } => {
                let source = self.sources.entry(broker).or_default();
                source.is_fetching = false;
                source.session.is_in_doubt();
                if assignment == self.assignment {
                    for (place, _) in positions {
                        self.partitions[place].replica = None;
                        self.back_off(place, now_ns);
                    }
                }
            }
            Asked::Offsets {
                assignment,
                partitions,
            } => {
                if assignment == self.assignment {
                    for place in partitions {
                        self.seek_again(place, now_ns);
                    }
                }
            }
            Asked::Epochs {
                assignment,
                partitions,
            } => {
                if assignment == self.assignment {
                    for (place, ..) in partitions {
                        self.check_again(place, now_ns);
                    }
                }
            }
        }
        self.cluster.want_metadata();
    }

    /// `retry.backoff.ms`, doubled with each failure in a row up to `retry.backoff.max.ms` (KIP-580).
    fn back_off(&mut self, place: usize, now_ns: u64) {
        let Settings {
            retry_backoff_ns,
            retry_backoff_max_ns,
            ..
        } = self.settings;
        let partition = &mut self.partitions[place];
        let wait_ns = retry_backoff_ns
            .saturating_mul(1 << partition.failures.min(16))
            .min(retry_backoff_max_ns.max(retry_backoff_ns));
        partition.failures += 1;
        partition.retry_at_ns = now_ns.saturating_add(wait_ns);
    }

    fn seek_again(&mut self, place: usize, now_ns: u64) {
        if let Place::Asked { at, from } = self.partitions[place].place {
            self.partitions[place].place = Place::Sought { at, from };
            self.back_off(place, now_ns);
        }
    }

    fn check_again(&mut self, place: usize, now_ns: u64) {
        if self.partitions[place].check == Check::Asked {
            self.partitions[place].check = Check::Wanted;
            self.back_off(place, now_ns);
        }
    }

    fn follow_leaders(&mut self) {
        let metadata = self.cluster.metadata();
        for partition in &mut self.partitions {
            let Some(topic) = metadata.topics.get(&*partition.topic) else {
                continue;
            };
            partition.is_leader_doubted = false;
            if !topic.topic_id.is_zero() && topic.topic_id != partition.topic_id {
                if !partition.topic_id.is_zero() {
                    // Its epochs begin anew, as its offsets do.
                    partition.leader_epoch = -1;
                    partition.leader = None;
                    partition.replica = None;
                    partition.epoch = -1;
                    partition.check = Check::Done;
                    partition.is_made_again = true;
                }
                partition.topic_id = topic.topic_id;
            }
            let found = topic
                .partitions
                .binary_search_by_key(&partition.index, |known| known.index);
            let Some(known) = found.ok().map(|found| &topic.partitions[found]) else {
                continue;
            };
            if known.leader_epoch < partition.leader_epoch {
                continue;
            }
            if partition.leader != known.leader || partition.leader_epoch != known.leader_epoch {
                partition.replica = None;
                // Another leader may be asked at once, whatever the last one said.
                if partition.leader != known.leader && partition.leader.is_some() {
                    partition.retry_at_ns = 0;
                }
            }
            partition.leader = known.leader;
            partition.is_led_in(known.leader_epoch);
        }
    }

    /// Topics that were made again are read from their beginning, as soon as what was fetched of the old ones is delivered.
    fn begin_anew(&mut self, now_ns: u64) {
        for partition in &mut self.partitions {
            if !partition.is_made_again || partition.delivered != partition.fetch_at {
                continue;
            }
            partition.is_made_again = false;
            if partition.place == Place::Known {
                self.events.push_back(ConsumerEvent::TopicMadeAgain {
                    topic: partition.topic.to_string(),
                    partition: partition.index,
                    from: partition.delivered,
                    at_ns: now_ns,
                });
            }
            // What the group has committed counts for the old topic.
            partition.committed = None;
            partition.high_watermark = None;
            partition.place = Place::Sought {
                at: OffsetAt::Earliest,
                from: None,
            };
        }
    }

    /// Fails on topics that may not be read or do not exist, and asks for metadata while there are some without.
    fn watch_topics(&mut self, now_ns: u64) -> u64 {
        if !self.cluster.has_metadata() {
            return u64::MAX;
        }
        let mut look_ns = u64::MAX;
        let mut failure = None;
        let mut is_incomplete = false;
        let metadata = self.cluster.metadata();
        for topic in &self.topics {
            let Some(info) = metadata.topics.get(topic) else {
                continue;
            };
            let last = self
                .by_name
                .get(topic.as_str())
                .and_then(|known| known.keys().next_back())
                .copied();
            let is_missing = last.is_some_and(|last| info.partitions.len() as i64 <= i64::from(last));
            if !is_missing && !info.partitions.is_empty() {
                self.unknown_since_ns.remove(topic);
                is_incomplete |= self.by_name.contains_key(topic.as_str())
                    && info.partitions.iter().any(|partition| partition.leader.is_none());
                continue;
            }
            if info.error.is_error() && !info.error.is_retriable() {
                let refusal = Refusal::new(ApiKey::METADATA, info.error, None, topic);
                failure = Some(format!("topic {refusal}"));
                break;
            }
            is_incomplete = true;
            let since_ns = *self.unknown_since_ns.entry(topic.clone()).or_insert(now_ns);
            let until_ns = since_ns + UNKNOWN_TOPIC_NS;
            if now_ns >= until_ns {
                let seconds = UNKNOWN_TOPIC_NS / 1_000_000_000;
                failure = Some(match last {
                    Some(last) if !info.partitions.is_empty() => {
                        format!(
                            "topic {topic} has {} partitions, and partition {last} was asked for",
                            info.partitions.len()
                        )
                    }
                    _ => {
                        format!("topic {topic} does not exist: the brokers have not known it for {seconds} s")
                    }
                });
                break;
            }
            look_ns = look_ns.min(until_ns);
        }
        if let Some(reason) = failure {
            self.fail(reason);
        } else if is_incomplete {
            self.cluster.want_metadata();
        }
        look_ns
    }

    /// The partitions that are meant, by those of their leaders that can be asked now, and when to look again for the others.
    fn by_ready_leader(
        &mut self,
        now_ns: u64,
        is_meant: impl Fn(&Partition) -> bool,
    ) -> (Vec<(Node, Vec<usize>)>, u64) {
        let mut look_ns = u64::MAX;
        let mut by_leader: BTreeMap<i32, Vec<usize>> = BTreeMap::new();
        for (place, partition) in self.partitions.iter().enumerate() {
            if !is_meant(partition) {
                continue;
            }
            if now_ns < partition.retry_at_ns {
                look_ns = look_ns.min(partition.retry_at_ns);
            } else if let Some(leader) = partition.believed_leader() {
                by_leader.entry(leader).or_default().push(place);
            } else {
                look_ns = look_ns.min(now_ns + LOOK_NS);
            }
        }
        let mut ready = Vec::with_capacity(by_leader.len());
        for (leader, places) in by_leader {
            let node = Node::Broker(leader);
            if self.cluster.is_ready(node, now_ns) {
                ready.push((node, places));
            } else {
                look_ns = look_ns.min(self.look_at_node(node, now_ns));
            }
        }
        (ready, look_ns)
    }

    /// Asks leaders for the positions that are sought.
    fn seek(&mut self, now_ns: u64) -> u64 {
        let is_sought = |partition: &Partition| matches!(partition.place, Place::Sought { .. });
        let (by_leader, look_ns) = self.by_ready_leader(now_ns, is_sought);
        for (node, places) in by_leader {
            let mut topics: Vec<ListOffsetsTopic> = Vec::new();
            for &place in &places {
                let partition = &mut self.partitions[place];
                let Place::Sought { at, from } = partition.place else {
                    continue;
                };
                partition.place = Place::Asked { at, from };
                let wanted = ListOffsetsPartition {
                    partition_index: partition.index,
                    current_leader_epoch: partition.leader_epoch,
                    timestamp: at.wire_value(),
                };
                match topics.iter_mut().find(|topic| *topic.name == *partition.topic) {
                    Some(topic) => topic.partitions.push(wanted),
                    None => topics.push(ListOffsetsTopic {
                        name: partition.topic.to_string(),
                        partitions: vec![wanted],
                    }),
                }
            }
            let request = ListOffsetsRequest {
                replica_id: -1,
                isolation_level: self.settings.isolation.wire_value(),
                topics,
                timeout_ms: i32::try_from(self.settings.request_timeout_ns / 1_000_000).unwrap_or(i32::MAX),
            };
            let tag = Asked::Offsets {
                assignment: self.assignment,
                partitions: places,
            };
            if let Err(error) = self.cluster.send(node, &request, tag, now_ns) {
                self.fail(error.to_string());
            }
        }
        look_ns
    }

    /// Asks new leaders where the epochs end that positions were reached in (KIP-320).
    fn check_positions(&mut self, now_ns: u64) -> u64 {
        let is_to_check = |partition: &Partition| {
            partition.check == Check::Wanted && partition.place == Place::Known && partition.epoch >= 0
        };
        let (by_leader, mut look_ns) = self.by_ready_leader(now_ns, is_to_check);
        for (node, places) in by_leader {
            let known = self
                .cluster
                .version(node, ApiKey::OFFSET_FOR_LEADER_EPOCH, EPOCH_VERSIONS);
            if known.is_err() {
                // Brokers before 2.3 do not tell consumers.
                for place in places {
                    self.partitions[place].check = Check::Done;
                }
                look_ns = now_ns;
                continue;
            }
            let mut topics: Vec<OffsetForLeaderTopic> = Vec::new();
            let mut asked = Vec::with_capacity(places.len());
            for &place in &places {
                let partition = &mut self.partitions[place];
                partition.check = Check::Asked;
                asked.push((place, partition.fetch_at, partition.epoch));
                let wanted = OffsetForLeaderPartition {
                    partition: partition.index,
                    current_leader_epoch: partition.leader_epoch,
                    leader_epoch: partition.epoch,
                };
                match topics.iter_mut().find(|topic| *topic.topic == *partition.topic) {
                    Some(topic) => topic.partitions.push(wanted),
                    None => topics.push(OffsetForLeaderTopic {
                        topic: partition.topic.to_string(),
                        partitions: vec![wanted],
                    }),
                }
            }
            let request = OffsetForLeaderEpochRequest {
                replica_id: -1,
                topics,
            };
            let tag = Asked::Epochs {
                assignment: self.assignment,
                partitions: asked,
            };
            let timeout_ns = self.settings.request_timeout_ns;
            let sent = self
                .cluster
                .send_within(node, EPOCH_VERSIONS, &request, tag, now_ns, timeout_ns);
            if let Err(error) = sent {
                self.fail(error.to_string());
            }
        }
        look_ns
    }

    fn on_epochs(
        &mut self,
        asked: &[(usize, i64, i32)],
        response: OffsetForLeaderEpochResponse,
        now_ns: u64,
        read: &mut Vec<Frame>,
    ) {
        for topic in response.topics {
            for found in topic.partitions {
                let Some(place) = self.place_of(&topic.topic, found.partition) else {
                    continue;
                };
                let partition = &mut self.partitions[place];
                if partition.check != Check::Asked || partition.place != Place::Known {
                    continue;
                }
                // An answer of the leader before may have moved the position meanwhile: then it is another question.
                if !asked.contains(&(place, partition.fetch_at, partition.epoch)) {
                    partition.check = Check::Wanted;
                    continue;
                }
                match found.error_code {
                    ErrorCode::NONE if found.leader_epoch < 0 || found.end_offset < 0 => {
                        // The leader knows nothing of that epoch: any position may be wrong.
                        partition.check = Check::Done;
                        self.truncate(place, None, now_ns, read);
                    }
                    ErrorCode::NONE => {
                        partition.check = Check::Done;
                        partition.failures = 0;
                        if found.end_offset < partition.fetch_at {
                            self.truncate(place, Some(found.end_offset), now_ns, read);
                        }
                    }
                    error if is_missing_right(error) || !error.is_retriable() => {
                        let refusal =
                            Refusal::new(ApiKey::OFFSET_FOR_LEADER_EPOCH, error, None, &topic.topic);
                        self.fail(refusal.to_string());
                    }
                    error => {
                        if error.refreshes_metadata() {
                            partition.is_leader_doubted = true;
                        }
                        self.cluster.want_metadata();
                        self.check_again(place, now_ns);
                    }
                }
            }
        }
        // What the broker did not mention is asked for again.
        for &(place, ..) in asked {
            self.check_again(place, now_ns);
        }
    }

    /// The log does not hold any more what was read: it ends at `end`, or where nobody knows.
    fn truncate(&mut self, place: usize, end: Option<i64>, now_ns: u64, read: &mut Vec<Frame>) {
        // What waits for delivery may be gone from the log, too.
        for fetched in &mut self.fetched {
            fetched.pieces.retain(|piece| piece.partition != place);
        }
        let sources = &mut self.sources;
        self.fetched.retain_mut(|fetched| {
            let is_empty = fetched.pieces.is_empty();
            if is_empty {
                read.push(std::mem::replace(
                    &mut fetched.frame,
                    Frame::from_bytes(Vec::new()),
                ));
                if let Some(source) = sources.get_mut(&fetched.broker) {
                    source.undelivered = source.undelivered.saturating_sub(1);
                }
            }
            !is_empty
        });
        let partition = &mut self.partitions[place];
        let from = partition.delivered;
        partition.fetch_at = partition.delivered;
        partition.epoch = -1;
        let to = match end {
            Some(end) => end.min(partition.delivered),
            None => return self.reset(place, Some(from)),
        };
        partition.delivered = to;
        partition.fetch_at = to;
        if to < from {
            self.events.push_back(ConsumerEvent::Truncated {
                topic: partition.topic.to_string(),
                partition: partition.index,
                from,
                to,
                at_ns: now_ns,
            });
        }
    }

    /// When to look whether a connection is there. That it is there comes as an event, and so does its end.
    fn look_at_node(&mut self, node: Node, now_ns: u64) -> u64 {
        if let Node::Broker(id) = node
            && !self.cluster.metadata().brokers.contains_key(&id)
        {
            self.cluster.want_metadata();
            return now_ns + LOOK_NS;
        }
        // No event comes when a broker no longer holds back.
        if let Some(until_ns) = self.cluster.throttled_until_ns(node, now_ns) {
            return until_ns;
        }
        self.cluster
            .retry_at_ns(node)
            .map_or(u64::MAX, |retry_ns| retry_ns.max(now_ns + 1_000_000))
    }

    fn on_offsets(&mut self, asked: &[usize], response: ListOffsetsResponse, now_ns: u64) {
        for topic in response.topics {
            for found in topic.partitions {
                let Some(place) = self.place_of(&topic.name, found.partition_index) else {
                    continue;
                };
                let Place::Asked { at, from } = self.partitions[place].place else {
                    continue;
                };
                match found.error_code {
                    ErrorCode::NONE if found.offset < 0 => {
                        // No record is so young: what comes is read from the end on.
                        self.partitions[place].place = Place::Sought {
                            at: OffsetAt::Latest,
                            from,
                        };
                    }
                    ErrorCode::NONE => {
                        self.partitions[place].epoch = found.leader_epoch;
                        self.position(place, found.offset, at, from, now_ns);
                    }
                    error if is_missing_right(error) || !error.is_retriable() => {
                        let refusal = Refusal::new(ApiKey::LIST_OFFSETS, error, None, &topic.name);
                        self.fail(refusal.to_string());
                    }
                    error => {
                        if error.refreshes_metadata() {
                            self.partitions[place].is_leader_doubted = true;
                            self.cluster.want_metadata();
                        }
                        self.seek_again(place, now_ns);
                    }
                }
            }
        }
        // What the broker did not mention is asked for again.
        for &place in asked {
            self.seek_again(place, now_ns);
        }
    }

    fn position(&mut self, place: usize, offset: i64, at: OffsetAt, from: Option<i64>, now_ns: u64) {
        let partition = &mut self.partitions[place];
        partition.place = Place::Known;
        partition.delivered = offset;
        partition.fetch_at = offset;
        partition.failures = 0;
        partition.retry_at_ns = 0;
        if at == OffsetAt::Latest && self.settings.isolation == IsolationLevel::ReadUncommitted {
            partition.high_watermark = Some(offset);
        }
        if let Some(from) = from {
            self.counts.offset_resets += 1;
            let skipped = offset.saturating_sub(from).max(0) as u64;
            self.counts.skipped_offsets = self.counts.skipped_offsets.saturating_add(skipped);
            self.events.push_back(ConsumerEvent::OffsetReset {
                topic: partition.topic.to_string(),
                partition: partition.index,
                from,
                to: offset,
                at_ns: now_ns,
            });
        }
    }

    /// Sends a Fetch to each broker that has none and leads something that is to be read.
    fn fetch(&mut self, now_ns: u64) -> u64 {
        if now_ns < self.paused_until_ns {
            return self.paused_until_ns;
        }
        let mut look_ns = u64::MAX;
        let mut by_source: BTreeMap<i32, Vec<usize>> = BTreeMap::new();
        for (place, partition) in self.partitions.iter().enumerate() {
            // Without an epoch there is nothing to hold the position against.
            let is_checked = partition.check == Check::Done || partition.epoch < 0;
            let is_certain = is_checked && !partition.is_made_again;
            if partition.place != Place::Known || !is_certain {
                continue;
            }
            if now_ns < partition.retry_at_ns {
                look_ns = look_ns.min(partition.retry_at_ns);
            } else if let Some(source) = partition.source(now_ns) {
                by_source.entry(source).or_default().push(place);
            } else {
                look_ns = look_ns.min(now_ns + LOOK_NS);
            }
        }
        for (broker, mut places) in by_source {
            let source = self.sources.entry(broker).or_default();
            // One answer may wait for delivery while the next one is on its way.
            if source.is_fetching || source.undelivered > 1 {
                continue;
            }
            let node = Node::Broker(broker);
            if let Some(until_ns) = self.cluster.throttled_until_ns(node, now_ns) {
                look_ns = look_ns.min(until_ns);
                continue;
            }
            if !self.cluster.is_ready(node, now_ns) {
                look_ns = look_ns.min(self.look_at_node(node, now_ns));
                let is_known = self.cluster.metadata().brokers.contains_key(&broker);
                if !is_known || self.cluster.retry_at_ns(node).is_some() {
                    // A near replica that cannot be reached is given up for the leader.
                    for &place in &places {
                        look_ns = if self.partitions[place].replica.take().is_some() {
                            now_ns
                        } else {
                            look_ns
                        };
                    }
                }
                continue;
            }
            // Those that have waited longest come first, since the broker fills its answer from the front.
            places.sort_by_key(|&place| self.partitions[place].served);
            if let Err(reason) = self.send_fetch(broker, &places, now_ns) {
                self.fail(reason);
                return u64::MAX;
            }
        }
        look_ns
    }

    fn send_fetch(&mut self, broker: i32, places: &[usize], now_ns: u64) -> Result<(), String> {
        let node = Node::Broker(broker);
        let has_ids = places
            .iter()
            .all(|&place| !self.partitions[place].topic_id.is_zero());
        let versions = if has_ids { FETCH_VERSIONS } else { FETCH_BY_NAME };
        let version = match self.cluster.version(node, ApiKey::FETCH, versions) {
            Ok(version) => version,
            Err(SendError::NotReady) => return Ok(()),
            Err(error) => return Err(error.to_string()),
        };
        let mut positions = Vec::with_capacity(places.len());
        let mut wanted = Vec::with_capacity(places.len());
        for &place in places {
            let partition = &self.partitions[place];
            positions.push((place, partition.fetch_at));
            wanted.push(Wanted {
                place,
                topic: Arc::clone(&partition.topic),
                topic_id: partition.topic_id,
                partition: FetchPartition {
                    partition: partition.index,
                    // A replica that follows knows the epoch of its leader, so ours goes along in either case.
                    current_leader_epoch: partition.leader_epoch,
                    fetch_offset: partition.fetch_at,
                    partition_max_bytes: self.settings.partition_max_bytes,
                    ..Default::default()
                },
            });
        }
        let mut request = FetchRequest {
            max_wait_ms: i32::try_from(self.settings.max_wait_ns / 1_000_000).unwrap_or(i32::MAX),
            min_bytes: self.settings.min_bytes,
            max_bytes: self.settings.max_bytes,
            isolation_level: self.settings.isolation.wire_value(),
            replica_id: -1,
            rack_id: self.settings.rack.clone().unwrap_or_default(),
            ..Default::default()
        };
        let source = self.sources.entry(broker).or_default();
        source.session.ask(version, self.assignment, wanted, &mut request);
        let correlation = self.cluster.next_correlation();
        let client_id = Some(self.cluster.config().client_id.as_str());
        let head = fetch::encode_fetch_request(correlation, client_id, version, &request);
        // The broker may take its time before it begins to answer.
        let timeout_ns = self
            .settings
            .request_timeout_ns
            .saturating_add(self.settings.max_wait_ns);
        let tag = Asked::Fetch {
            broker,
            assignment: self.assignment,
            positions,
        };
        let outgoing = Outgoing::plain(head, correlation);
        let tagged = version >= FETCH_FLEXIBLE_FROM;
        self.cluster
            .send_raw(node, outgoing, version, tagged, Some(timeout_ns), tag, now_ns)
            .map_err(|error| error.to_string())?;
        self.counts.fetch_requests += 1;
        self.sources.entry(broker).or_default().is_fetching = true;
        Ok(())
    }

    /// Counts an answer, and heeds what it says of being held back.
    fn account(&mut self, broker: i32, version: i16, bytes: usize, throttle_time_ms: i32, at_ns: u64) {
        let throttle_ns = u64::try_from(throttle_time_ms).unwrap_or(0) * 1_000_000;
        self.counts.fetched_bytes += bytes as u64;
        self.counts.throttle_ns += throttle_ns;
        let source = self.sources.entry(broker).or_default();
        source.counts.requests += 1;
        source.counts.bytes += bytes as u64;
        source.counts.throttle_ns += throttle_ns;
        let throttle_ms = throttle_ms(ApiKey::FETCH, version, throttle_time_ms);
        self.cluster.hold_back(Node::Broker(broker), throttle_ms, at_ns);
    }

    fn on_fetched(
        &mut self,
        broker: i32,
        positions: Vec<(usize, i64)>,
        version: i16,
        frame: Frame,
        at_ns: u64,
        read: &mut Vec<Frame>,
    ) {
        self.answers += 1;
        let response = match FetchResponseRef::decode(version, frame.bytes()) {
            Ok(response) => response,
            Err(error) => {
                self.fail(format!(
                    "the answer to Fetch of broker {broker} cannot be read: {error}"
                ));
                read.push(frame);
                return;
            }
        };
        let (bytes, throttle_ms) = (frame.bytes().len(), response.throttle_time_ms);
        self.account(broker, version, bytes, throttle_ms, at_ns);
        let session = &mut self.sources.entry(broker).or_default().session;
        match response.error_code {
            ErrorCode::NONE => session.is_answered(version, response.session_id),
            ErrorCode::FETCH_SESSION_ID_NOT_FOUND => session.is_unknown(),
            _ => session.is_in_doubt(),
        }
        if response.error_code.is_error() {
            let is_of_session = matches!(
                response.error_code,
                ErrorCode::FETCH_SESSION_ID_NOT_FOUND
                    | ErrorCode::INVALID_FETCH_SESSION_EPOCH
                    | ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR
            );
            if is_of_session {
                // The whole request goes out again at once: the broker has only forgotten what it was told.
            } else if response.error_code.is_retriable() {
                positions
                    .iter()
                    .for_each(|&(place, _)| self.back_off(place, at_ns));
            } else {
                self.fail(Refusal::new(ApiKey::FETCH, response.error_code, None, "").to_string());
            }
            read.push(frame);
            return;
        }
        let asked: HashMap<usize, i64> = positions.into_iter().collect();
        let mut pieces = Vec::new();
        for part in response.partitions {
            let place = match version >= session::IDS_FROM {
                true => self.place_by_id(part.topic_id, part.index),
                false => self.place_of(part.topic, part.index),
            };
            let Some(place) = place else {
                continue;
            };
            let partition = &mut self.partitions[place];
            let is_awaited =
                asked.get(&place) == Some(&partition.fetch_at) && partition.place == Place::Known;
            if !is_awaited {
                continue;
            }
            if part.error_code.is_error() {
                let hint = part
                    .current_leader
                    .map(|hint| (hint.leader_id, hint.leader_epoch));
                self.on_partition_error(broker, place, part.error_code, hint, at_ns);
                continue;
            }
            partition.failures = 0;
            partition.high_watermark = Some(part.high_watermark);
            if part.preferred_read_replica >= 0 {
                let until_ns = at_ns.saturating_add(self.settings.metadata_max_age_ns);
                partition.replica = Some((part.preferred_read_replica, until_ns));
            }
            if part.records.is_empty() {
                continue;
            }
            let from = partition.fetch_at;
            let step = 1i64 << partition.damaged.min(20);
            let mut walk = Walk::new(part.records, from, step);
            let is_damaged = walk.by_ref().any(|found| matches!(found, Step::Damaged { .. }));
            // The rest of the walk counts too.
            walk.by_ref().for_each(drop);
            partition.damaged = if is_damaged { partition.damaged + 1 } else { 0 };
            partition.fetch_at = walk.at;
            partition.epoch = walk.epoch;
            if walk.at > from || is_damaged {
                partition.served = self.answers;
            }
            let start = part.records.as_ptr() as usize - frame.bytes().as_ptr() as usize;
            let range = start..start + part.records.len();
            pieces.push(Piece {
                partition: place,
                from,
                range,
                aborted: part.aborted_transactions,
                step,
            });
        }
        if pieces.is_empty() {
            read.push(frame);
            return;
        }
        self.sources.entry(broker).or_default().undelivered += 1;
        self.fetched.push_back(Fetched {
            broker,
            assignment: self.assignment,
            frame,
            pieces,
            at_ns,
        });
    }

    fn on_partition_error(
        &mut self,
        broker: i32,
        place: usize,
        error: ErrorCode,
        hint: Option<(i32, i32)>,
        at_ns: u64,
    ) {
        let partition = &mut self.partitions[place];
        match error {
            ErrorCode::OFFSET_OUT_OF_RANGE if partition.leader != Some(broker) => {
                // A follower may be behind: the leader has the last word.
                partition.replica = None;
            }
            ErrorCode::OFFSET_OUT_OF_RANGE => {
                // What waits for delivery belongs to the old position and comes first.
                if partition.delivered == partition.fetch_at {
                    let from = partition.fetch_at;
                    self.reset(place, Some(from));
                } else {
                    self.back_off(place, at_ns);
                }
            }
            ErrorCode::UNSUPPORTED_COMPRESSION_TYPE => {
                let topic = &partition.topic;
                let reason = format!(
                    "topic {topic} holds zstd batches, and Fetch 10 (Kafka 2.1) is needed to read them"
                );
                self.fail(reason);
            }
            ErrorCode::CORRUPT_MESSAGE => {
                self.counts.corrupt_batches += 1;
                self.events.push_back(ConsumerEvent::Corrupt {
                    topic: partition.topic.to_string(),
                    partition: partition.index,
                    offset: partition.fetch_at,
                    next_offset: partition.fetch_at,
                    error: "the broker cannot read it itself".to_owned(),
                });
                self.back_off(place, at_ns);
            }
            error if error.is_retriable() => {
                partition.replica = None;
                if error == ErrorCode::UNKNOWN_LEADER_EPOCH {
                    // A topic that was deleted and created again begins with epoch 0: what metadata says next counts.
                    partition.leader_epoch = -1;
                    self.cluster.forget_epochs(&partition.topic);
                }
                let metadata = self.cluster.metadata();
                match hint {
                    // Kafka 3.7 and newer say who leads by now (KIP-951).
                    Some((leader, epoch))
                        if leader >= 0
                            && epoch > partition.leader_epoch
                            && metadata.brokers.contains_key(&leader) =>
                    {
                        partition.leader = Some(leader);
                        partition.is_led_in(epoch);
                    }
                    _ => {
                        partition.is_leader_doubted = error.refreshes_metadata();
                        self.back_off(place, at_ns);
                    }
                }
                self.cluster.want_metadata();
            }
            error => {
                let topic = partition.topic.to_string();
                self.fail(Refusal::new(ApiKey::FETCH, error, None, &topic).to_string());
            }
        }
    }
}
