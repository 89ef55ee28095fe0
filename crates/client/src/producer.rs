//! The producer: one topic's open, waiting and travelling batches, as a state machine.
//!
//! It behaves as the Java client's producer does with the same properties: a partition's batch is sent when it is full,
//! when `linger.ms` has passed, when the buffer is exhausted, or along with another batch to the same broker; what can be
//! retried is retried until `retries` or `delivery.timeout.ms` are used up; an idempotent producer numbers its batches so
//! that retries neither double nor reorder them.
//!
//! The user appends records straight into the open batch of a partition ([`Producer::open`]) and leaves a tag of type `T` in
//! it. Each batch ends exactly once, as a [`Finished`] with that tag. With a transactional id, all records are written in
//! transactions (`producer::transaction`).

mod transaction;

pub use transaction::{EndedTransaction, GroupMember, TransactionOutcome};

use crate::admin::TopicPartition;
use crate::cluster::{
    Cluster, ClusterConfig, ClusterEvent, Metadata, Node, REQUEST_TIMEOUT, nanos, throttle_ms,
};
use crate::net::{CloseReason, ConnId, NetAction, NetEvent, Outgoing};
use crate::partitioner::StickyPartitioner;
use model::client_config::{Acks, Compression, ProducerConfig};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use transaction::{CONCURRENT_BACKOFF_NS, Ending, Offsets, Transactions};
use wire::batch::{Batch, BatchBuilder, HEADER_LEN, RecordHeaders, SealedBatch};
use wire::codec::{Message, Reader, Uuid};
use wire::compress::{Codec, CodecError, Compressor};
use wire::messages::add_offsets_to_txn::{AddOffsetsToTxnRequest, AddOffsetsToTxnResponse};
use wire::messages::add_partitions_to_txn::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, AddPartitionsToTxnTopic,
};
use wire::messages::end_txn::{EndTxnRequest, EndTxnResponse};
use wire::messages::find_coordinator::{FindCoordinatorRequest, FindCoordinatorResponse};
use wire::messages::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};
use wire::messages::txn_offset_commit::{
    TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
};
use wire::produce::{self, ProduceHead, ProducePartition, ProduceResponse, ProduceTopic};
use wire::{ApiKey, ErrorCode};

/// The oldest version of Produce for batches as they are today.
const PRODUCE_OLDEST: i16 = 3;
/// The newest version of Produce for producers with a producer id in clusters of the first transaction protocol.
const PRODUCE_FIRST_PROTOCOL: i16 = 11;
/// The version in which a write adds its partition to the transaction; the last one that names topics by name.
const PRODUCE_ADDS: i16 = 12;
/// The version that names topics by their ids (KIP-516).
const PRODUCE_BY_ID: i16 = 13;
/// The version in which an end raises the epoch.
const END_RAISES: i16 = 5;
/// The version in which a commit of offsets adds the group to the transaction.
const OFFSETS_ADD: i16 = 5;
/// Versions of AddPartitionsToTxn that clients speak.
const ADD_PARTITIONS_VERSIONS: std::ops::RangeInclusive<i16> = 0..=3;
/// The level of the feature `transaction.version` from which on the second protocol is spoken.
const SECOND_PROTOCOL: i16 = 2;
/// No answer to a producer is larger.
const MAX_FRAME_BYTES: usize = 16 << 20;
/// Distance between the ids of neighbouring batches: halved by each split, so a batch of up to that many records can be
/// split down to single ones.
const ID_ROOM: u64 = 1 << 24;

/// What a user leaves in a batch and gets back when it has ended.
pub trait BatchTag: Default {
    /// Takes off what belongs to the records after the first `records`, for a batch that is split because the broker
    /// finds it too large.
    fn split_off(&mut self, records: u32) -> Self;
}

/// Why a batch failed, by kind, so that failures can be counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FailureKind {
    /// The broker answered with an error.
    Broker(ErrorCode),
    /// `delivery.timeout.ms` passed.
    DeliveryTimeout,
    /// The connection was lost, and no retry was left.
    ConnectionLost,
    /// A request was not answered within `request.timeout.ms`, and no retry was left.
    RequestTimeout,
    /// The producer's state on the broker was lost, and the batch may or may not have been appended before.
    ProducerStateLost,
    /// The codec failed.
    Compression,
    /// It was not sent, because its transaction had to be aborted.
    TransactionAborted,
    /// The topic was deleted and made again under its name; nothing of the old one is left.
    TopicMadeAgain,
}

impl std::fmt::Display for FailureKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FailureKind::Broker(code) => f.write_str(code.name()),
            FailureKind::DeliveryTimeout => f.write_str("delivery.timeout.ms"),
            FailureKind::ConnectionLost => f.write_str("connection lost"),
            FailureKind::RequestTimeout => f.write_str(REQUEST_TIMEOUT),
            FailureKind::ProducerStateLost => f.write_str("producer state lost"),
            FailureKind::Compression => f.write_str("compression"),
            FailureKind::TransactionAborted => f.write_str("transaction aborted"),
            FailureKind::TopicMadeAgain => f.write_str("topic made again"),
        }
    }
}

/// How a batch ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The broker has it.
    Acknowledged {
        /// Offset of its first record; absent for one that the broker had already (a retry of an idempotent producer).
        base_offset: Option<i64>,
    },
    /// It is certainly not in the log.
    Refused {
        /// The kind of failure.
        kind: FailureKind,
        /// The broker's or the client's words.
        message: String,
    },
    /// It was sent and not answered: it may be in the log.
    Unknown {
        /// The kind of failure.
        kind: FailureKind,
        /// The client's words.
        message: String,
    },
    /// It was given to the kernel, and with acks=0 no answer is ever sent.
    NotAwaited,
    /// The producer was closed while it was waiting or travelling. `sent` says whether it may be in the log.
    Unfinished {
        /// Whether it had been given to the kernel.
        sent: bool,
    },
}

/// A batch that has ended.
#[derive(Debug)]
pub struct Finished<T> {
    /// The partition.
    pub partition: i32,
    /// The broker that was asked last.
    pub broker: Option<i32>,
    /// The user's tag.
    pub tag: T,
    /// Records.
    pub count: u32,
    /// Bytes as sent.
    pub wire_bytes: usize,
    /// Bytes before compression.
    pub uncompressed_bytes: usize,
    /// How often it was sent.
    pub attempts: u32,
    /// The number of its transaction; 0 without.
    pub transaction: u64,
    /// When its last byte was last given to the kernel.
    pub written_ns: Option<u64>,
    /// When it ended.
    pub finished_ns: u64,
    /// How.
    pub outcome: Outcome,
}

/// Something that went wrong and may yet be made good by a retry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incident {
    /// When.
    pub at_ns: u64,
    /// The broker concerned.
    pub broker: Option<i32>,
    /// The partition concerned, if it is about one.
    pub partition: Option<i32>,
    /// The kind of failure.
    pub kind: FailureKind,
    /// The broker's or the client's words.
    pub message: String,
}

/// Incidents beyond this that nobody has taken are not kept.
const MOST_INCIDENTS: usize = 1000;

/// Why nothing can be appended at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CannotAppend {
    /// `buffer.memory` is used up.
    BufferFull,
    /// The topic's partitions are not known yet.
    NoMetadata,
}

/// What the producer has done with one broker so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BrokerCounts {
    /// Produce requests sent.
    pub requests: u64,
    /// Sum of the throttle times that it asked for.
    pub throttle_ns: u64,
}

/// What the producer has done so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProducerCounts {
    /// By broker.
    pub brokers: BTreeMap<i32, BrokerCounts>,
    /// Produce requests sent.
    pub requests: u64,
    /// Batches sent again.
    pub retried_batches: u64,
    /// Sum of the throttle times that brokers asked for.
    pub throttle_ns: u64,
    /// Batches split because the broker found them too large.
    pub split_batches: u64,
}

/// A batch that records are being appended to.
#[derive(Debug)]
pub struct OpenBatch<T> {
    builder: BatchBuilder,
    created_ns: u64,
    reserved_bytes: usize,
    limit_bytes: usize,
    transaction: u64,
    /// The user's.
    pub tag: T,
}

impl<T> OpenBatch<T> {
    /// Whether a record of at most `record_bytes` ([`BatchBuilder::record_len_bound`]) goes in. The first always does.
    #[inline]
    pub fn has_room(&self, record_bytes: usize) -> bool {
        self.builder.is_empty() || self.builder.len_bytes() + record_bytes <= self.limit_bytes
    }

    /// Appends a record; see [`BatchBuilder::push`].
    #[inline]
    pub fn push(
        &mut self,
        timestamp_ms: i64,
        key: Option<&[u8]>,
        value_len: usize,
        headers: &RecordHeaders,
        write_value: impl FnOnce(&mut Vec<u8>),
    ) {
        self.builder
            .push(timestamp_ms, key, value_len, headers, write_value);
    }

    /// See [`BatchBuilder::overwrite_tail`].
    #[inline]
    pub fn overwrite_tail(&mut self, bytes: &[u8]) {
        self.builder.overwrite_tail(bytes);
    }

    /// Records in it.
    pub fn count(&self) -> u32 {
        self.builder.count()
    }

    /// Bytes in it, before compression.
    pub fn len_bytes(&self) -> usize {
        self.builder.len_bytes()
    }
}

#[derive(Debug)]
struct Waiting<T> {
    /// Rises with each batch of the producer, so it orders those of a partition.
    id: u64,
    /// How many ids from its own on are free for the parts that it is split into.
    id_room: u64,
    sealed: Arc<SealedBatch>,
    tag: T,
    created_ns: u64,
    reserved_bytes: usize,
    attempts: u32,
    transaction: u64,
    /// Its place in the producer's numbering, once it has been sent.
    sequence: Option<i32>,
    /// Whether some attempt was given to the kernel and never answered.
    unanswered: bool,
    written_ns: Option<u64>,
    broker: Option<i32>,
    last_error: Option<(FailureKind, String)>,
}

#[derive(Debug)]
struct Partition<T> {
    leader: Option<i32>,
    open: Option<OpenBatch<T>>,
    queue: VecDeque<Waiting<T>>,
    in_flight: VecDeque<Waiting<T>>,
    next_sequence: i32,
    retry_at_ns: u64,
    /// The last batch was ended by linger or a full buffer rather than by being full.
    batch_ended: bool,
}

impl<T> Partition<T> {
    fn new() -> Partition<T> {
        Partition {
            leader: None,
            open: None,
            queue: VecDeque::new(),
            in_flight: VecDeque::new(),
            next_sequence: 0,
            retry_at_ns: 0,
            batch_ended: false,
        }
    }

    fn is_recovering(&self) -> bool {
        self.queue.front().is_some_and(|batch| batch.attempts > 0)
            || self.in_flight.iter().any(|batch| batch.attempts > 1)
    }
}

/// What a request of the producer was.
#[derive(Debug)]
enum Asked {
    ProducerId,
    Produce(Vec<(usize, u64)>),
    Coordinator,
    AddPartitions(Vec<usize>),
    EndTransaction,
    AddOffsets,
    GroupCoordinator,
    CommitOffsets,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProducerId {
    /// Not idempotent: nothing is numbered.
    NotNeeded,
    /// To be asked for, as soon as nothing is in flight.
    Wanted,
    /// Asked for.
    Asked,
    /// Given by a broker.
    Is { id: i64, epoch: i16 },
}

#[derive(Clone, Copy, Debug)]
struct Settings {
    acks: Acks,
    batch_size_bytes: usize,
    linger_ns: u64,
    buffer_memory_bytes: usize,
    max_in_flight: usize,
    max_request_bytes: usize,
    retries: u32,
    retry_backoff_ns: u64,
    retry_backoff_max_ns: u64,
    request_timeout_ns: u64,
    delivery_timeout_ns: u64,
    availability_timeout_ns: Option<u64>,
}

/// See the module.
#[derive(Debug)]
pub struct Producer<T> {
    topic: String,
    /// Zero while it is not known, and with brokers older than 2.8.
    topic_id: Uuid,
    settings: Settings,
    cluster: Cluster<Asked>,
    partitions: Vec<Partition<T>>,
    /// How many of those the topic has: one that was made again may have fewer than before.
    known: usize,
    partitioner: StickyPartitioner,
    producer_id: ProducerId,
    /// The id and epoch that a new epoch is asked for with.
    last_producer: Option<(i64, i16)>,
    producer_id_retry_ns: u64,
    transactions: Option<Box<Transactions>>,
    compressor: Compressor,
    compression_ratio: f64,
    scratch: Vec<u8>,
    buffers: Vec<Vec<u8>>,
    memory_used_bytes: usize,
    memory_exhausted: bool,
    flushing: bool,
    next_batch: u64,
    /// Since when a broker could not be sent to, for `partitioner.availability.timeout.ms`.
    unavailable_since_ns: BTreeMap<i32, u64>,
    rotate: usize,
    finished: VecDeque<Finished<T>>,
    incidents: VecDeque<Incident>,
    counts: ProducerCounts,
    fatal: Option<String>,
    topic_error: ErrorCode,
    /// Nothing has to be looked at before this, unless something happens.
    next_look_ns: u64,
}

impl<T: BatchTag> Producer<T> {
    /// A producer of `topic` that is not connected yet. `seed` drives the choice of partitions.
    ///
    /// # Errors
    ///
    /// When the codec does not take its level.
    pub fn new(
        topic: &str,
        config: &ProducerConfig,
        owner: u32,
        seed: u64,
    ) -> Result<Producer<T>, CodecError> {
        let (codec, level) = codec_of(config.compression);
        let mut cluster = Cluster::new(ClusterConfig::new(&config.connection, owner, MAX_FRAME_BYTES));
        cluster.watch_topics([topic]);
        let batch_size_bytes = config.batch_size_bytes as usize;
        Ok(Producer {
            topic: topic.to_owned(),
            topic_id: Uuid::ZERO,
            known: 0,
            settings: Settings {
                acks: config.acks,
                batch_size_bytes,
                linger_ns: nanos(config.linger),
                buffer_memory_bytes: usize::try_from(config.buffer_memory_bytes).unwrap_or(usize::MAX),
                max_in_flight: config.max_in_flight_requests as usize,
                max_request_bytes: config.max_request_size_bytes as usize,
                retries: config.retries,
                retry_backoff_ns: nanos(config.connection.retry_backoff),
                retry_backoff_max_ns: nanos(config.connection.retry_backoff_max),
                request_timeout_ns: nanos(config.connection.request_timeout),
                delivery_timeout_ns: nanos(config.delivery_timeout),
                availability_timeout_ns: config.partitioner.availability_timeout.map(nanos),
            },
            cluster,
            partitions: Vec::new(),
            partitioner: StickyPartitioner::new(seed, batch_size_bytes, config.partitioner.adaptive),
            producer_id: if config.idempotence {
                ProducerId::Wanted
            } else {
                ProducerId::NotNeeded
            },
            last_producer: None,
            producer_id_retry_ns: 0,
            transactions: config
                .transaction
                .as_ref()
                .map(|config| Box::new(Transactions::new(config))),
            compressor: Compressor::new(codec, level)?,
            compression_ratio: 1.0,
            scratch: Vec::new(),
            buffers: Vec::new(),
            memory_used_bytes: 0,
            memory_exhausted: false,
            flushing: false,
            next_batch: 0,
            unavailable_since_ns: BTreeMap::new(),
            rotate: 0,
            finished: VecDeque::new(),
            incidents: VecDeque::new(),
            counts: ProducerCounts::default(),
            fatal: None,
            topic_error: ErrorCode::NONE,
            next_look_ns: 0,
        })
    }

    /// How many partitions the topic has; 0 until metadata has come.
    pub fn partitions(&self) -> usize {
        self.known
    }

    /// What it has done.
    pub fn counts(&self) -> &ProducerCounts {
        &self.counts
    }

    /// Bytes of `buffer.memory` in use.
    pub fn memory_used_bytes(&self) -> usize {
        self.memory_used_bytes
    }

    /// Why it cannot go on at all, if so.
    pub fn fatal(&self) -> Option<&str> {
        self.fatal.as_deref().or(self.cluster.unusable())
    }

    /// What the brokers said of the topic when they last were asked.
    pub fn topic_error(&self) -> ErrorCode {
        self.topic_error
    }

    /// The connections and the metadata below.
    pub fn cluster(&self) -> &Cluster<impl Sized> {
        &self.cluster
    }

    /// Whether it knows the topic's leaders, is connected to all of them, and has its producer id: the next record appended
    /// would be sent without a detour.
    pub fn is_ready(&mut self, now_ns: u64) -> bool {
        if matches!(self.producer_id, ProducerId::Wanted | ProducerId::Asked) || self.partitions.is_empty() {
            return false;
        }
        let mut ready = true;
        for index in 0..self.known {
            ready &= match self.partitions[index].leader {
                Some(leader) => self.cluster.is_ready(Node::Broker(leader), now_ns),
                None => false,
            };
        }
        ready
    }

    /// The partition that the sticky partitioner is at; `None` until metadata has come.
    pub fn sticky_partition(&mut self, now_ns: u64) -> Option<usize> {
        let count = self.known;
        if count == 0 {
            return None;
        }
        let (partitions, unavailable, timeout) = (
            &self.partitions,
            &self.unavailable_since_ns,
            self.settings.availability_timeout_ns,
        );
        Some(self.partitioner.partition(count, |index| {
            let leader = partitions[index].leader?;
            if let (Some(timeout), Some(since)) = (timeout, unavailable.get(&leader))
                && now_ns.saturating_sub(*since) > timeout
            {
                return None;
            }
            Some(partitions[index].queue.len())
        }))
    }

    /// The open batch of `partition`, a new one if there is none or a record of `record_bytes` has no room in it.
    ///
    /// # Errors
    ///
    /// When `buffer.memory` has no room for another batch, or nothing is known of the partition.
    #[inline]
    pub fn open(
        &mut self,
        partition: usize,
        record_bytes: usize,
        now_ns: u64,
    ) -> Result<&mut OpenBatch<T>, CannotAppend> {
        let Some(state) = self.partitions.get(partition) else {
            return Err(CannotAppend::NoMetadata);
        };
        let fits = state
            .open
            .as_ref()
            .is_some_and(|open| open.has_room(record_bytes));
        if !fits {
            if state.open.is_some() {
                self.seal(partition, now_ns);
                self.partitioner.batch_full();
            }
            self.start_batch(partition, record_bytes, now_ns)?;
        }
        if let Some(transactions) = &mut self.transactions {
            transactions.appended(now_ns);
        }
        Ok(self.partitions[partition]
            .open
            .as_mut()
            .expect("there is one now"))
    }

    /// Says that records of `bytes` in all were appended to `partition` by choice of the sticky partitioner.
    pub fn appended(&mut self, partition: usize, bytes: usize, record_bytes: usize, now_ns: u64) {
        let full = self.partitions[partition]
            .open
            .as_ref()
            .is_none_or(|open| !open.has_room(record_bytes));
        if full {
            self.seal(partition, now_ns);
            self.partitioner.batch_full();
        } else {
            let ended = std::mem::take(&mut self.partitions[partition].batch_ended);
            self.partitioner.produced(bytes, ended);
        }
    }

    /// Says that a record was appended to `partition` by its key; `record_bytes` bounds the next one's size.
    pub fn appended_keyed(&mut self, partition: usize, record_bytes: usize, now_ns: u64) {
        if self.partitions[partition]
            .open
            .as_ref()
            .is_some_and(|open| !open.has_room(record_bytes))
        {
            self.seal(partition, now_ns);
        }
    }

    /// Whether records are being gathered for that partition.
    pub fn is_gathering(&self, partition: usize) -> bool {
        self.partitions
            .get(partition)
            .is_some_and(|state| state.open.is_some())
    }

    /// Sends all that is waiting without regard to linger, until [`Producer::is_idle`].
    pub fn flush(&mut self) {
        self.flushing = true;
        self.next_look_ns = 0;
    }

    /// Whether no batch is open, waiting or travelling, and no transaction is being ended.
    pub fn is_idle(&self) -> bool {
        let is_ending = |transactions: &Transactions| transactions.ending.is_some();
        self.partitions
            .iter()
            .all(|p| p.open.is_none() && p.queue.is_empty() && p.in_flight.is_empty())
            && !self.transactions.as_deref().is_some_and(is_ending)
    }

    /// Since when there are records in the transaction that is open for appending; `None` while it has none, or without
    /// transactions.
    pub fn transaction_since_ns(&self) -> Option<u64> {
        self.transactions.as_ref()?.appending_since_ns()
    }

    /// Closes the open transaction for appending, and commits or aborts it once all its records have been answered. False if
    /// there is none, or the one before is still being ended.
    pub fn end_transaction(&mut self, is_commit: bool, now_ns: u64) -> bool {
        let Some(transactions) = &mut self.transactions else {
            return false;
        };
        if transactions.ending.is_some() || transactions.began_ns.is_none() {
            return false;
        }
        transactions.ending = Some(Ending {
            is_commit,
            asked_ns: now_ns,
            is_asked: false,
            ask_at_ns: 0,
        });
        for partition in 0..self.partitions.len() {
            self.seal(partition, now_ns);
        }
        if let Some(transactions) = &mut self.transactions {
            transactions.appending = transactions.active + 1;
        }
        self.next_look_ns = 0;
        true
    }

    /// Commits a group's positions with the open transaction, which begins with that if it has not: they count when it is
    /// committed (KIP-98, KIP-447). False without transactions, while one is being ended, or while earlier positions are on
    /// their way.
    pub fn send_offsets(
        &mut self,
        member: GroupMember,
        positions: Vec<(TopicPartition, i64)>,
        now_ns: u64,
    ) -> bool {
        let Some(transactions) = &mut self.transactions else {
            return false;
        };
        if transactions.ending.is_some() || transactions.offsets.is_some() || positions.is_empty() {
            return false;
        }
        transactions.appended(now_ns);
        transactions.offsets = Some(Offsets {
            member,
            positions,
            is_added: false,
            coordinator: None,
            is_asked: false,
            ask_at_ns: 0,
        });
        self.next_look_ns = 0;
        true
    }

    /// The next transaction that has ended. The batches of a transaction end before it does.
    pub fn next_transaction(&mut self) -> Option<EndedTransaction> {
        self.transactions.as_mut()?.ended.pop_front()
    }

    /// Gives all up that has not ended, as [`Outcome::Unfinished`], and closes the connections.
    pub fn abandon(&mut self, now_ns: u64) {
        for partition in 0..self.partitions.len() {
            self.seal(partition, now_ns);
            let state = &mut self.partitions[partition];
            let left: Vec<_> = state.in_flight.drain(..).map(|batch| (true, batch)).collect();
            let left = left
                .into_iter()
                .chain(state.queue.drain(..).map(|batch| (batch.unanswered, batch)))
                .collect::<Vec<_>>();
            for (sent, batch) in left {
                self.finish(partition, batch, now_ns, Outcome::Unfinished { sent });
            }
        }
        if let Some(transactions) = &mut self.transactions
            && transactions.began_ns.is_some()
        {
            transactions.is_over(TransactionOutcome::Undecided, now_ns);
        }
        self.cluster.close(now_ns);
        while self.cluster.next_event().is_some() {}
    }

    /// The next batch that has ended.
    pub fn next_finished(&mut self) -> Option<Finished<T>> {
        self.finished.pop_front()
    }

    /// The next thing that went wrong, whether or not a retry makes it good.
    pub fn next_incident(&mut self) -> Option<Incident> {
        self.incidents.pop_front()
    }

    /// The broker that leads a partition, as far as is known.
    pub fn leader(&self, partition: usize) -> Option<i32> {
        self.partitions.get(partition)?.leader
    }

    /// What is to be done on the network; the caller drains it.
    pub fn actions(&mut self) -> &mut Vec<NetAction> {
        self.cluster.actions()
    }

    /// Something happened on a connection of ours. Frames that have been read are added to `read` for the net to use again.
    pub fn on_net(&mut self, conn: ConnId, event: NetEvent, now_ns: u64, read: &mut Vec<crate::net::Frame>) {
        self.cluster.on_net(conn, event, now_ns);
        self.take_events(now_ns, read);
        self.next_look_ns = 0;
    }

    /// Time passes: expires, retries, and sends what is due.
    pub fn tick(&mut self, now_ns: u64, read: &mut Vec<crate::net::Frame>) {
        self.cluster.tick(now_ns);
        self.take_events(now_ns, read);
        if now_ns < self.next_look_ns && !self.memory_exhausted {
            return;
        }
        self.expire(now_ns);
        self.ask_producer_id(now_ns);
        let transaction_look_ns = self.drive_transaction(now_ns);
        self.next_look_ns = self.drain(now_ns).min(transaction_look_ns);
    }

    /// When [`Producer::tick`] has something to do next, if nothing happens until then.
    pub fn next_deadline_ns(&self) -> u64 {
        self.next_look_ns
            .min(self.cluster.next_deadline_ns().unwrap_or(u64::MAX))
    }

    fn start_batch(
        &mut self,
        partition: usize,
        record_bytes: usize,
        now_ns: u64,
    ) -> Result<(), CannotAppend> {
        let wanted_bytes = self.settings.batch_size_bytes.max(record_bytes + HEADER_LEN);
        if self.memory_used_bytes + wanted_bytes > self.settings.buffer_memory_bytes {
            // Java: while someone waits for memory, every batch may go, full or not.
            self.memory_exhausted = true;
            self.next_look_ns = 0;
            return Err(CannotAppend::BufferFull);
        }
        self.memory_used_bytes += wanted_bytes;
        // batch.size is held against the compressed size, as estimated from the batches before.
        let limit_bytes = match self.compressor.codec() {
            Codec::None => self.settings.batch_size_bytes,
            _ => (self.settings.batch_size_bytes as f64 / (self.compression_ratio * 1.05)) as usize,
        };
        let linger_ends_ns = now_ns.saturating_add(self.settings.linger_ns);
        self.next_look_ns = self.next_look_ns.min(linger_ends_ns);
        let buffer = self.buffers.pop().unwrap_or_default();
        self.partitions[partition].open = Some(OpenBatch {
            builder: BatchBuilder::new(buffer),
            created_ns: now_ns,
            reserved_bytes: wanted_bytes,
            limit_bytes,
            transaction: self
                .transactions
                .as_ref()
                .map_or(0, |transactions| transactions.appending),
            tag: T::default(),
        });
        Ok(())
    }

    /// Ends the open batch of a partition and queues it.
    fn seal(&mut self, partition: usize, now_ns: u64) {
        let Some(open) = self.partitions[partition].open.take() else {
            return;
        };
        let id = self.next_batch;
        self.next_batch += ID_ROOM;
        let (count, created_ns, reserved_bytes) =
            (open.builder.count(), open.created_ns, open.reserved_bytes);
        let transaction = open.transaction;
        self.partitions[partition].batch_ended = true;
        match open.builder.seal(&mut self.compressor, &mut self.scratch) {
            Ok(sealed) => {
                if self.compressor.codec() != Codec::None {
                    let ratio = sealed.bytes().len() as f64 / sealed.uncompressed_len_bytes() as f64;
                    // Kafka's CompressionRatioEstimator: fast to believe in worse, slow to believe in better.
                    self.compression_ratio = if ratio > self.compression_ratio {
                        ratio.max(self.compression_ratio + 0.05)
                    } else {
                        ratio.max(self.compression_ratio - 0.005)
                    };
                }
                self.partitions[partition].queue.push_back(Waiting {
                    id,
                    id_room: ID_ROOM,
                    sealed: Arc::new(sealed),
                    tag: open.tag,
                    created_ns,
                    reserved_bytes,
                    attempts: 0,
                    transaction,
                    sequence: None,
                    unanswered: false,
                    written_ns: None,
                    broker: None,
                    last_error: None,
                });
                self.next_look_ns = 0;
            }
            Err(error) => {
                self.memory_used_bytes -= reserved_bytes;
                if let Some(transactions) = &mut self.transactions {
                    transactions.fail(transaction, &FailureKind::Compression, &error.to_string());
                }
                self.finished.push_back(Finished {
                    partition: partition as i32,
                    broker: None,
                    tag: open.tag,
                    count,
                    wire_bytes: 0,
                    uncompressed_bytes: 0,
                    attempts: 0,
                    transaction,
                    written_ns: None,
                    finished_ns: now_ns,
                    outcome: Outcome::Refused {
                        kind: FailureKind::Compression,
                        message: error.to_string(),
                    },
                });
            }
        }
    }

    fn finish(&mut self, partition: usize, batch: Waiting<T>, now_ns: u64, outcome: Outcome) {
        self.memory_used_bytes -= batch.reserved_bytes;
        self.memory_exhausted = false;
        self.finished.push_back(Finished {
            partition: partition as i32,
            broker: batch.broker,
            count: batch.sealed.count(),
            wire_bytes: batch.sealed.bytes().len(),
            uncompressed_bytes: batch.sealed.uncompressed_len_bytes(),
            attempts: batch.attempts,
            transaction: batch.transaction,
            written_ns: batch.written_ns,
            tag: batch.tag,
            finished_ns: now_ns,
            outcome,
        });
        // Buffers that were used before have their pages already.
        if let Some(sealed) = Arc::into_inner(batch.sealed) {
            self.buffers.push(sealed.into_buffer());
        }
    }

    fn take_events(&mut self, now_ns: u64, read: &mut Vec<crate::net::Frame>) {
        while let Some(event) = self.cluster.next_event() {
            self.next_look_ns = 0;
            match event {
                ClusterEvent::Ready(_) => {}
                ClusterEvent::MetadataUpdated => self.on_metadata(now_ns),
                ClusterEvent::Written { tag, at_ns } => self.on_written_for_good(tag, at_ns),
                ClusterEvent::Answer {
                    node,
                    tag,
                    version,
                    frame,
                    body_at,
                    written_ns,
                    at_ns,
                } => {
                    let body = &frame.bytes()[body_at..];
                    match tag {
                        Asked::ProducerId => self.on_producer_id(version, body, now_ns),
                        Asked::Produce(batches) => {
                            self.on_produced(node, version, body, batches, written_ns, at_ns)
                        }
                        Asked::Coordinator => self.on_coordinator(version, body, at_ns),
                        Asked::AddPartitions(partitions) => {
                            self.on_partitions_added(version, body, &partitions, at_ns)
                        }
                        Asked::EndTransaction => self.on_transaction_ended(version, body, at_ns),
                        Asked::AddOffsets | Asked::GroupCoordinator | Asked::CommitOffsets => {
                            self.on_offsets(&tag, version, body, at_ns)
                        }
                    }
                    read.push(frame);
                }
                ClusterEvent::Lost {
                    node,
                    tag,
                    written_ns,
                    reason,
                    at_ns,
                } => {
                    let broker = match node {
                        Node::Broker(id) => Some(id),
                        Node::Bootstrap(_) => None,
                    };
                    let kind = match reason {
                        CloseReason::TimedOut {
                            what: REQUEST_TIMEOUT,
                        } => FailureKind::RequestTimeout,
                        _ => FailureKind::ConnectionLost,
                    };
                    self.note(at_ns, broker, None, kind.clone(), &reason.to_string());
                    match tag {
                        Asked::ProducerId => self.producer_id = ProducerId::Wanted,
                        Asked::Coordinator | Asked::AddPartitions(_) | Asked::EndTransaction => {
                            self.coordinator_did_not_answer(at_ns)
                        }
                        Asked::AddOffsets | Asked::GroupCoordinator | Asked::CommitOffsets => {
                            self.ask_for_offsets_again(at_ns, true);
                        }
                        Asked::Produce(batches) => {
                            for (partition, id) in batches {
                                let Some(mut batch) = self.take_in_flight(partition, id) else {
                                    continue;
                                };
                                batch.written_ns = written_ns.or(batch.written_ns);
                                batch.unanswered |= written_ns.is_some();
                                if self.settings.acks == Acks::None {
                                    // Nothing would have told of a failure later either.
                                    let outcome = Outcome::Unknown {
                                        kind: kind.clone(),
                                        message: reason.to_string(),
                                    };
                                    self.finish(partition, batch, at_ns, outcome);
                                    continue;
                                }
                                self.retry(partition, batch, kind.clone(), reason.to_string(), at_ns);
                            }
                        }
                    }
                }
            }
        }
    }

    fn on_metadata(&mut self, now_ns: u64) {
        let metadata: &Metadata = self.cluster.metadata();
        let Some(topic) = metadata.topics.get(&self.topic) else {
            return;
        };
        self.topic_error = topic.error;
        let mut missing_leader = topic.error != ErrorCode::NONE;
        if topic.error == ErrorCode::NONE {
            let (before, id) = (self.topic_id, topic.topic_id);
            // A broker before 2.8 tells none, as in the middle of an upgrade.
            let is_made_again = !before.is_zero() && !id.is_zero() && before != id;
            if !id.is_zero() {
                self.topic_id = id;
            }
            if is_made_again {
                self.known = topic.partitions.len().min(self.partitions.len());
                for partition in self.partitions.iter_mut().skip(self.known) {
                    partition.leader = None;
                }
            }
            for info in &topic.partitions {
                let Ok(index) = usize::try_from(info.index) else {
                    continue;
                };
                // Partitions come in order and without gaps; one that does not is not made room for.
                if index == self.partitions.len() {
                    self.partitions.push(Partition::new());
                }
                self.known = self.known.max(index + 1).min(self.partitions.len());
                if let Some(partition) = self.partitions.get_mut(index) {
                    partition.leader = info.leader;
                    missing_leader |= info.leader.is_none();
                }
            }
            if is_made_again {
                let message = format!(
                    "topic {} was deleted and made again (its id was {before} and is {id}): what was written before is gone",
                    self.topic
                );
                self.note(now_ns, None, None, FailureKind::TopicMadeAgain, &message);
            }
        }
        if missing_leader {
            self.cluster.want_metadata();
        }
        for index in 0..self.partitions.len() {
            if let Some(leader) = self.partitions[index].leader {
                self.cluster.is_ready(Node::Broker(leader), now_ns);
            }
        }
    }

    fn ask_producer_id(&mut self, now_ns: u64) {
        if self.producer_id != ProducerId::Wanted
            || now_ns < self.producer_id_retry_ns
            || self.fatal.is_some()
        {
            return;
        }
        if self
            .partitions
            .iter()
            .any(|partition| !partition.in_flight.is_empty())
        {
            return;
        }
        let node = match &self.transactions {
            Some(_) => self.coordinator(now_ns),
            None => self.cluster.any_ready(),
        };
        let Some(node) = node else {
            return;
        };
        let bump = self.last_producer.filter(|_| {
            self.cluster
                .version(node, ApiKey::INIT_PRODUCER_ID, InitProducerIdRequest::VERSIONS)
                .is_ok_and(|version| version >= 3)
        });
        let (producer_id, producer_epoch) = bump.unwrap_or((-1, -1));
        let transactions = self.transactions.as_ref();
        let request = InitProducerIdRequest {
            transactional_id: transactions.map(|transactions| transactions.id.clone()),
            transaction_timeout_ms: transactions.map_or(i32::MAX, |transactions| transactions.timeout_ms),
            producer_id,
            producer_epoch,
        };
        match self.cluster.send(node, &request, Asked::ProducerId, now_ns) {
            Ok(()) => self.producer_id = ProducerId::Asked,
            Err(crate::cluster::SendError::NotReady) => {}
            Err(error) => {
                self.fatal = Some(format!(
                    "idempotence is not possible: {error}; set enable.idempotence=false"
                ))
            }
        }
    }

    fn on_producer_id(&mut self, version: i16, body: &[u8], now_ns: u64) {
        let response = match InitProducerIdResponse::decode(version, &mut Reader::new(body)) {
            Ok(response) => response,
            Err(error) => {
                self.fatal = Some(format!("the answer to InitProducerId cannot be read: {error}"));
                return;
            }
        };
        match response.error_code {
            ErrorCode::NONE => {
                self.producer_id = ProducerId::Is {
                    id: response.producer_id,
                    epoch: response.producer_epoch,
                };
                self.last_producer = Some((response.producer_id, response.producer_epoch));
                self.choose_protocol();
                for index in 0..self.partitions.len() {
                    self.partitions[index].next_sequence = 0;
                    // With a new epoch the broker cannot tell a retry from a new batch, so one that may be in the log
                    // is not sent a second time.
                    let queue = std::mem::take(&mut self.partitions[index].queue);
                    for mut batch in queue {
                        if batch.unanswered {
                            let message =
                                "sent without an answer before the producer's epoch changed".to_owned();
                            let outcome = Outcome::Unknown {
                                kind: FailureKind::ProducerStateLost,
                                message,
                            };
                            self.finish(index, batch, now_ns, outcome);
                        } else {
                            batch.sequence = None;
                            batch.attempts = 0;
                            self.partitions[index].queue.push_back(batch);
                        }
                    }
                }
            }
            // The id or epoch is of no use any more: a fresh one.
            ErrorCode::INVALID_PRODUCER_EPOCH
            | ErrorCode::PRODUCER_FENCED
            | ErrorCode::INVALID_PRODUCER_ID_MAPPING
                if self.last_producer.is_some() && self.transactions.is_none() =>
            {
                self.last_producer = None;
                self.producer_id = ProducerId::Wanted;
            }
            error if error.is_retriable() => {
                self.producer_id = ProducerId::Wanted;
                self.producer_id_retry_ns = now_ns + self.settings.retry_backoff_ns;
                if error.refreshes_coordinator() {
                    self.coordinator_is_lost(now_ns);
                }
            }
            error if self.transactions.is_some() => {
                self.refuse_transactions(ApiKey::INIT_PRODUCER_ID, error);
            }
            error => {
                self.fatal = Some(format!(
                    "InitProducerId failed with {error}: {}; an idempotent producer needs the ACL IDEMPOTENT_WRITE on the \
                     cluster (before Kafka 2.8) or WRITE on a topic, or set enable.idempotence=false",
                    error.describe()
                ));
            }
        }
    }

    /// The transaction coordinator, if it is known and connected; else sees to it that it will be.
    fn coordinator(&mut self, now_ns: u64) -> Option<Node> {
        let transactions = self.transactions.as_mut()?;
        if let Some(id) = transactions.coordinator {
            let node = Node::Broker(id);
            if self.cluster.is_ready(node, now_ns) {
                return Some(node);
            }
            let is_known = self.cluster.metadata().brokers.contains_key(&id);
            if is_known && self.cluster.retry_at_ns(node).is_none() {
                return None;
            }
            self.cluster.want_metadata();
            transactions.coordinator = None;
            transactions.find_at_ns = now_ns.saturating_add(self.settings.retry_backoff_ns);
        }
        if transactions.is_finding || now_ns < transactions.find_at_ns {
            return None;
        }
        let Some(node) = self.cluster.any_ready() else {
            self.cluster.want_metadata();
            return None;
        };
        const TRANSACTION: i8 = 1;
        let request = FindCoordinatorRequest {
            key: transactions.id.clone(),
            key_type: TRANSACTION,
            coordinator_keys: vec![transactions.id.clone()],
        };
        match self.cluster.send(node, &request, Asked::Coordinator, now_ns) {
            Ok(()) => transactions.is_finding = true,
            Err(error) => self.fatal = Some(format!("transactions are not possible: {error}")),
        }
        None
    }

    fn on_coordinator(&mut self, version: i16, body: &[u8], now_ns: u64) {
        let response = match FindCoordinatorResponse::decode(version, &mut Reader::new(body)) {
            Ok(response) => response,
            Err(error) => {
                self.fatal = Some(format!("the answer to FindCoordinator cannot be read: {error}"));
                return;
            }
        };
        let Some(transactions) = &mut self.transactions else {
            return;
        };
        transactions.is_finding = false;
        let (error, _, id) = crate::admin::found_coordinator(version, response);
        match error {
            ErrorCode::NONE => {
                transactions.coordinator = Some(id);
                if !self.cluster.metadata().brokers.contains_key(&id) {
                    self.cluster.want_metadata();
                }
            }
            // Kafka creates the topic of transactions with the first of them.
            error if error.is_retriable() => {
                transactions.find_at_ns = now_ns.saturating_add(self.settings.retry_backoff_ns);
            }
            error => self.refuse_transactions(ApiKey::FIND_COORDINATOR, error),
        }
    }

    fn coordinator_is_lost(&mut self, now_ns: u64) {
        if let Some(transactions) = &mut self.transactions {
            transactions.coordinator = None;
            transactions.find_at_ns = now_ns;
            self.cluster.want_metadata();
        }
    }

    /// What it was asked is asked again: each of the requests may be repeated.
    fn coordinator_did_not_answer(&mut self, now_ns: u64) {
        if let Some(transactions) = &mut self.transactions {
            let again_ns = now_ns.saturating_add(self.settings.retry_backoff_ns);
            transactions.coordinator = None;
            transactions.is_finding = false;
            transactions.find_at_ns = again_ns;
            transactions.is_adding = false;
            transactions.add_at_ns = again_ns;
            if let Some(ending) = &mut transactions.ending {
                ending.is_asked = false;
                ending.ask_at_ns = again_ns;
            }
        }
    }

    /// Says for good that there can be no transactions.
    fn refuse_transactions(&mut self, api: ApiKey, error: ErrorCode) {
        let Some(transactions) = &self.transactions else {
            return;
        };
        let id = &transactions.id;
        let advice = match error {
            ErrorCode::PRODUCER_FENCED | ErrorCode::INVALID_PRODUCER_EPOCH => format!(
                "another producer uses the same id, or a transaction took longer than transaction.timeout.ms = {}",
                transactions.timeout_ms
            ),
            ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED => {
                format!("the principal needs the ACLs DESCRIBE and WRITE on the transactional id {id}")
            }
            ErrorCode::INVALID_TRANSACTION_TIMEOUT => format!(
                "transaction.timeout.ms = {} is above the brokers' transaction.max.timeout.ms; lower it",
                transactions.timeout_ms
            ),
            _ => error.describe().to_owned(),
        };
        self.fatal = Some(format!(
            "{api} for transactional.id {id} failed with {error}: {advice}"
        ));
    }

    /// Which protocol is spoken follows from what the coordinator says that the cluster has agreed on.
    fn choose_protocol(&mut self) {
        let Some(transactions) = &mut self.transactions else {
            return;
        };
        let Some(node) = transactions.coordinator.map(Node::Broker) else {
            return;
        };
        let level = self.cluster.feature(node, "transaction.version");
        let serves = |api, version: i16| self.cluster.version(node, api, version..=version).is_ok();
        transactions.is_second = level.is_some_and(|level| level >= SECOND_PROTOCOL)
            && serves(ApiKey::PRODUCE, PRODUCE_ADDS)
            && serves(ApiKey::END_TXN, END_RAISES);
    }

    /// Whether the partition is part of the active transaction, or need not be before it is written to.
    fn is_let_go(&self, partition: usize) -> bool {
        let Some(transactions) = &self.transactions else {
            return true;
        };
        let state = &self.partitions[partition];
        let front = state.queue.front().map(|batch| batch.transaction);
        front
            .or(state.open.as_ref().map(|open| open.transaction))
            .is_some_and(|transaction| transactions.lets_go(partition, transaction))
            && transactions.failure.is_none()
    }

    /// Adds partitions to the transaction, as the first protocol asks for it; says when to look again.
    fn add_partitions(&mut self, partitions: Vec<usize>, now_ns: u64) -> u64 {
        let Some(transactions) = &mut self.transactions else {
            return u64::MAX;
        };
        transactions.wanted.extend(partitions);
        if transactions.is_adding || now_ns < transactions.add_at_ns {
            return transactions.add_at_ns.max(now_ns + 1_000_000);
        }
        let ProducerId::Is { id, epoch } = self.producer_id else {
            return u64::MAX;
        };
        let Some(node) = self.coordinator(now_ns) else {
            return now_ns + 10_000_000;
        };
        let Some(transactions) = &mut self.transactions else {
            return u64::MAX;
        };
        let wanted: Vec<usize> = std::mem::take(&mut transactions.wanted).into_iter().collect();
        let request = AddPartitionsToTxnRequest {
            v3_and_below_transactional_id: transactions.id.clone(),
            v3_and_below_producer_id: id,
            v3_and_below_producer_epoch: epoch,
            v3_and_below_topics: vec![AddPartitionsToTxnTopic {
                name: self.topic.clone(),
                partitions: wanted.iter().map(|&index| index as i32).collect(),
            }],
            ..AddPartitionsToTxnRequest::default()
        };
        let timeout_ns = self.settings.request_timeout_ns;
        let asked = Asked::AddPartitions(wanted);
        let versions = ADD_PARTITIONS_VERSIONS;
        match self
            .cluster
            .send_within(node, versions, &request, asked, now_ns, timeout_ns)
        {
            Ok(()) => transactions.is_adding = true,
            Err(error) => self.fatal = Some(format!("transactions are not possible: {error}")),
        }
        u64::MAX
    }

    fn on_partitions_added(&mut self, version: i16, body: &[u8], partitions: &[usize], now_ns: u64) {
        let response = match AddPartitionsToTxnResponse::decode(version, &mut Reader::new(body)) {
            Ok(response) => response,
            Err(error) => {
                self.fatal = Some(format!(
                    "the answer to AddPartitionsToTxn cannot be read: {error}"
                ));
                return;
            }
        };
        let Some(transactions) = &mut self.transactions else {
            return;
        };
        transactions.is_adding = false;
        let results = response
            .results_by_topic_v3_and_below
            .into_iter()
            .flat_map(|topic| topic.results_by_partition);
        // Partitions are added all together or not at all; those without a fault of their own are not attempted.
        let worst = results
            .map(|result| result.partition_error_code)
            .filter(|error| error.is_error())
            .min_by_key(|error| *error == ErrorCode::OPERATION_NOT_ATTEMPTED);
        match worst {
            None => transactions.touched.extend(partitions),
            Some(error) if error.is_retriable() => {
                transactions.add_at_ns = now_ns
                    + if error == ErrorCode::CONCURRENT_TRANSACTIONS {
                        CONCURRENT_BACKOFF_NS.min(self.settings.retry_backoff_ns)
                    } else {
                        self.settings.retry_backoff_ns
                    };
                if error.refreshes_coordinator() {
                    self.coordinator_is_lost(now_ns);
                } else if error.refreshes_metadata() {
                    self.cluster.want_metadata();
                }
            }
            Some(
                error @ (ErrorCode::PRODUCER_FENCED
                | ErrorCode::INVALID_PRODUCER_EPOCH
                | ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
            ) => self.refuse_transactions(ApiKey::ADD_PARTITIONS_TO_TXN, error),
            Some(error) => {
                let active = transactions.active;
                transactions.fail(active, &FailureKind::Broker(error), error.describe());
            }
        }
    }

    /// Takes the commit of a group's positions further; says when to look again.
    fn drive_offsets(&mut self, now_ns: u64) -> u64 {
        let ProducerId::Is { id, epoch } = self.producer_id else {
            return u64::MAX;
        };
        let Some(transactions) = &self.transactions else {
            return u64::MAX;
        };
        let Some(offsets) = transactions.offsets.clone() else {
            return u64::MAX;
        };
        if offsets.is_asked || transactions.failure.is_some() {
            return u64::MAX;
        }
        if now_ns < offsets.ask_at_ns {
            return offsets.ask_at_ns;
        }
        let (transactional_id, is_second) = (transactions.id.clone(), transactions.is_second);
        let group_id = offsets.member.group_id.clone();
        let sent = if !offsets.is_added && !is_second {
            let Some(node) = self.coordinator(now_ns) else {
                return now_ns + 10_000_000;
            };
            let request = AddOffsetsToTxnRequest {
                transactional_id,
                producer_id: id,
                producer_epoch: epoch,
                group_id,
            };
            self.cluster.send(node, &request, Asked::AddOffsets, now_ns)
        } else if let Some(coordinator) = offsets.coordinator {
            let node = Node::Broker(coordinator);
            if !self.cluster.is_ready(node, now_ns) {
                return self.cluster.retry_at_ns(node).unwrap_or(now_ns + 10_000_000);
            }
            let request = TxnOffsetCommitRequest {
                transactional_id,
                group_id,
                producer_id: id,
                producer_epoch: epoch,
                generation_id_or_member_epoch: offsets.member.generation,
                member_id: offsets.member.member_id.clone(),
                group_instance_id: offsets.member.group_instance_id.clone(),
                topics: offset_topics(&offsets.positions),
            };
            let versions = if is_second {
                OFFSETS_ADD..=OFFSETS_ADD
            } else {
                *TxnOffsetCommitRequest::VERSIONS.start()..=OFFSETS_ADD - 1
            };
            let timeout_ns = self.settings.request_timeout_ns;
            self.cluster
                .send_within(node, versions, &request, Asked::CommitOffsets, now_ns, timeout_ns)
        } else {
            let Some(node) = self.cluster.any_ready() else {
                return now_ns + 10_000_000;
            };
            const GROUP: i8 = 0;
            let request = FindCoordinatorRequest {
                key: group_id.clone(),
                key_type: GROUP,
                coordinator_keys: vec![group_id],
            };
            self.cluster.send(node, &request, Asked::GroupCoordinator, now_ns)
        };
        match sent {
            Ok(()) => {
                if let Some(transactions) = &mut self.transactions {
                    transactions.has_group = true;
                    if let Some(offsets) = &mut transactions.offsets {
                        offsets.is_asked = true;
                    }
                }
            }
            Err(error) => self.fatal = Some(format!("offsets in transactions are not possible: {error}")),
        }
        u64::MAX
    }

    fn ask_for_offsets_again(&mut self, now_ns: u64, forgets_coordinator: bool) {
        let again_ns = now_ns.saturating_add(self.settings.retry_backoff_ns);
        if let Some(offsets) = self.transactions.as_mut().and_then(|it| it.offsets.as_mut()) {
            offsets.is_asked = false;
            offsets.ask_at_ns = again_ns;
            if forgets_coordinator {
                offsets.coordinator = None;
                self.cluster.want_metadata();
            }
        }
    }

    fn on_offsets(&mut self, asked: &Asked, version: i16, body: &[u8], now_ns: u64) {
        let body = &mut Reader::new(body);
        let read = match asked {
            Asked::AddOffsets => AddOffsetsToTxnResponse::decode(version, body)
                .map(|response| (ApiKey::ADD_OFFSETS_TO_TXN, response.error_code, None)),
            Asked::GroupCoordinator => FindCoordinatorResponse::decode(version, body).map(|response| {
                let (error, _, id) = crate::admin::found_coordinator(version, response);
                (ApiKey::FIND_COORDINATOR, error, Some(id))
            }),
            _ => TxnOffsetCommitResponse::decode(version, body).map(|response| {
                let errors = response.topics.iter().flat_map(|topic| &topic.partitions);
                let error = errors
                    .map(|partition| partition.error_code)
                    .find(|error| error.is_error());
                (ApiKey::TXN_OFFSET_COMMIT, error.unwrap_or(ErrorCode::NONE), None)
            }),
        };
        let (api, error, coordinator) = match read {
            Ok(read) => read,
            Err(error) => {
                self.fatal = Some(format!(
                    "an answer about offsets in a transaction cannot be read: {error}"
                ));
                return;
            }
        };
        let Some(transactions) = &mut self.transactions else {
            return;
        };
        let Some(offsets) = &mut transactions.offsets else {
            return;
        };
        offsets.is_asked = false;
        match error {
            ErrorCode::NONE if api == ApiKey::ADD_OFFSETS_TO_TXN => offsets.is_added = true,
            ErrorCode::NONE if api == ApiKey::FIND_COORDINATOR => {
                offsets.coordinator = coordinator;
                let is_known =
                    coordinator.is_some_and(|id| self.cluster.metadata().brokers.contains_key(&id));
                if !is_known {
                    self.cluster.want_metadata();
                }
            }
            ErrorCode::NONE => transactions.offsets = None,
            error if error.is_retriable() => {
                if error.refreshes_coordinator() && api == ApiKey::ADD_OFFSETS_TO_TXN {
                    self.coordinator_is_lost(now_ns);
                }
                self.ask_for_offsets_again(now_ns, error.refreshes_coordinator());
            }
            error @ (ErrorCode::PRODUCER_FENCED | ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED) => {
                self.refuse_transactions(api, error);
            }
            // Such as a member that the group has thrown out: what it read belongs to another one by now.
            error => {
                let active = transactions.active;
                let message = format!(
                    "{api} for group {}: {}",
                    offsets.member.group_id,
                    error.describe()
                );
                transactions.fail(active, &FailureKind::Broker(error), &message);
            }
        }
    }

    /// Takes the end of a transaction further; says when to look again.
    fn drive_transaction(&mut self, now_ns: u64) -> u64 {
        let offsets_look_ns = self.drive_offsets(now_ns);
        self.drive_end(now_ns).min(offsets_look_ns)
    }

    fn drive_end(&mut self, now_ns: u64) -> u64 {
        let Some(transactions) = &self.transactions else {
            return u64::MAX;
        };
        if transactions.failure.is_some() && transactions.ending.is_none() && transactions.began_ns.is_some()
        {
            self.end_transaction(false, now_ns);
        }
        let Some(transactions) = &self.transactions else {
            return u64::MAX;
        };
        let Some(ending) = transactions.ending else {
            return u64::MAX;
        };
        let active = transactions.active;
        let aborts = !ending.is_commit || transactions.failure.is_some();
        if aborts && !ending.is_asked {
            self.give_up_queued(active, now_ns);
        }
        let is_of_active = |batch: &Waiting<T>| batch.transaction == active;
        let is_open = self
            .partitions
            .iter()
            .any(|state| state.queue.iter().any(is_of_active) || state.in_flight.iter().any(is_of_active));
        let Some(transactions) = &mut self.transactions else {
            return u64::MAX;
        };
        let awaits_offsets = transactions
            .offsets
            .as_ref()
            .is_some_and(|offsets| offsets.is_asked || !aborts);
        if is_open || transactions.is_adding || ending.is_asked || awaits_offsets {
            return u64::MAX;
        }
        if transactions.touched.is_empty() && !transactions.has_group {
            // The brokers know nothing of it.
            self.transaction_is_over(!aborts, now_ns);
            return 0;
        }
        if now_ns < ending.ask_at_ns {
            return ending.ask_at_ns;
        }
        let ProducerId::Is { id, epoch } = self.producer_id else {
            return now_ns + 10_000_000;
        };
        let (transactional_id, is_second) = (transactions.id.clone(), transactions.is_second);
        let Some(node) = self.coordinator(now_ns) else {
            return now_ns + 10_000_000;
        };
        let request = EndTxnRequest {
            transactional_id,
            producer_id: id,
            producer_epoch: epoch,
            committed: !aborts,
        };
        let versions = if is_second {
            END_RAISES..=END_RAISES
        } else {
            *EndTxnRequest::VERSIONS.start()..=END_RAISES - 1
        };
        let (asked, timeout_ns) = (Asked::EndTransaction, self.settings.request_timeout_ns);
        match self
            .cluster
            .send_within(node, versions, &request, asked, now_ns, timeout_ns)
        {
            Ok(()) => {
                if let Some(ending) = self.transactions.as_mut().and_then(|it| it.ending.as_mut()) {
                    ending.is_asked = true;
                    ending.is_commit = !aborts;
                }
            }
            Err(error) => self.fatal = Some(format!("transactions are not possible: {error}")),
        }
        u64::MAX
    }

    /// What an aborted transaction has not sent yet is not sent at all.
    fn give_up_queued(&mut self, transaction: u64, now_ns: u64) {
        for partition in 0..self.partitions.len() {
            let state = &mut self.partitions[partition];
            let (given_up, kept): (VecDeque<_>, VecDeque<_>) = state
                .queue
                .drain(..)
                .partition(|batch| batch.transaction == transaction);
            state.queue = kept;
            for batch in given_up {
                let message = "not sent, because its transaction is aborted".to_owned();
                let kind = FailureKind::TransactionAborted;
                let outcome = if batch.unanswered {
                    Outcome::Unknown { kind, message }
                } else {
                    Outcome::Refused { kind, message }
                };
                self.finish(partition, batch, now_ns, outcome);
            }
        }
    }

    fn transaction_is_over(&mut self, is_commit: bool, now_ns: u64) {
        let Some(transactions) = &mut self.transactions else {
            return;
        };
        let outcome = match transactions.failure.take() {
            Some((kind, message)) => TransactionOutcome::Failed { kind, message },
            None if is_commit => TransactionOutcome::Committed,
            None => TransactionOutcome::Aborted,
        };
        transactions.is_over(outcome, now_ns);
        self.next_look_ns = 0;
    }

    fn on_transaction_ended(&mut self, version: i16, body: &[u8], now_ns: u64) {
        let response = match EndTxnResponse::decode(version, &mut Reader::new(body)) {
            Ok(response) => response,
            Err(error) => {
                self.fatal = Some(format!("the answer to EndTxn cannot be read: {error}"));
                return;
            }
        };
        let retry_backoff_ns = self.settings.retry_backoff_ns;
        let Some(transactions) = &mut self.transactions else {
            return;
        };
        let Some(ending) = &mut transactions.ending else {
            return;
        };
        ending.is_asked = false;
        let is_commit = ending.is_commit;
        match response.error_code {
            ErrorCode::NONE => {
                if version >= END_RAISES {
                    let (id, epoch) = (response.producer_id, response.producer_epoch);
                    self.producer_id = ProducerId::Is { id, epoch };
                    self.last_producer = Some((id, epoch));
                    for state in &mut self.partitions {
                        state.next_sequence = 0;
                    }
                } else if !is_commit {
                    // Batches that failed have left gaps in the numbering: it begins anew in a new epoch.
                    self.producer_id = ProducerId::Wanted;
                }
                self.transaction_is_over(is_commit, now_ns);
            }
            ErrorCode::TRANSACTION_ABORTABLE if is_commit => {
                let error = response.error_code;
                let active = transactions.active;
                transactions.fail(active, &FailureKind::Broker(error), error.describe());
            }
            error if error.is_retriable() => {
                ending.ask_at_ns = now_ns + retry_backoff_ns;
                if error.refreshes_coordinator() {
                    self.coordinator_is_lost(now_ns);
                }
            }
            error => self.refuse_transactions(ApiKey::END_TXN, error),
        }
    }

    fn on_written_for_good(&mut self, tag: Asked, at_ns: u64) {
        let Asked::Produce(batches) = tag else { return };
        for (partition, id) in batches {
            let Some(mut batch) = self.take_in_flight(partition, id) else {
                continue;
            };
            batch.written_ns = Some(at_ns);
            self.finish(partition, batch, at_ns, Outcome::NotAwaited);
        }
    }

    fn on_produced(
        &mut self,
        node: Node,
        version: i16,
        body: &[u8],
        batches: Vec<(usize, u64)>,
        written_ns: u64,
        at_ns: u64,
    ) {
        let response = match ProduceResponse::decode(version, &mut Reader::new(body)) {
            Ok(response) => response,
            Err(error) => {
                for (partition, id) in batches {
                    let Some(mut batch) = self.take_in_flight(partition, id) else {
                        continue;
                    };
                    batch.unanswered = true;
                    self.retry(
                        partition,
                        batch,
                        FailureKind::ConnectionLost,
                        format!("unreadable answer: {error}"),
                        at_ns,
                    );
                }
                return;
            }
        };
        if response.throttle_time_ms > 0 {
            let throttle_ns = response.throttle_time_ms as u64 * 1_000_000;
            self.counts.throttle_ns += throttle_ns;
            if let Node::Broker(id) = node {
                self.counts.brokers.entry(id).or_default().throttle_ns += throttle_ns;
            }
            // From version 6 on (KIP-219) the broker answers first and leaves the waiting to us.
            let throttle_ms = throttle_ms(ApiKey::PRODUCE, version, response.throttle_time_ms);
            self.cluster.hold_back(node, throttle_ms, at_ns);
        }
        let answers: Vec<_> = response
            .responses
            .into_iter()
            .flat_map(|topic| topic.partition_responses)
            .collect();
        for (partition, id) in batches {
            let Some(mut batch) = self.take_in_flight(partition, id) else {
                continue;
            };
            batch.written_ns = Some(written_ns);
            match answers.iter().find(|answer| answer.index == partition as i32) {
                Some(answer) => {
                    let message = answer.error_message.clone();
                    self.on_answer(
                        partition,
                        batch,
                        answer.error_code,
                        answer.base_offset,
                        message,
                        at_ns,
                    );
                }
                None => {
                    batch.unanswered = true;
                    self.retry(
                        partition,
                        batch,
                        FailureKind::ConnectionLost,
                        "the answer left the partition out".to_owned(),
                        at_ns,
                    );
                }
            }
        }
    }

    fn on_answer(
        &mut self,
        partition: usize,
        mut batch: Waiting<T>,
        error: ErrorCode,
        base_offset: i64,
        message: Option<String>,
        at_ns: u64,
    ) {
        match error {
            ErrorCode::NONE => {
                let base_offset = (base_offset >= 0).then_some(base_offset);
                self.finish(partition, batch, at_ns, Outcome::Acknowledged { base_offset });
            }
            ErrorCode::DUPLICATE_SEQUENCE_NUMBER => {
                self.finish(
                    partition,
                    batch,
                    at_ns,
                    Outcome::Acknowledged { base_offset: None },
                );
            }
            ErrorCode::MESSAGE_TOO_LARGE if batch.sealed.count() > 1 => self.split(partition, batch, at_ns),
            ErrorCode::PRODUCER_FENCED if self.transactions.is_some() => {
                self.refuse_transactions(ApiKey::PRODUCE, error);
                let message = message.unwrap_or_else(|| error.describe().to_owned());
                self.fail(partition, batch, FailureKind::Broker(error), message, at_ns);
            }
            ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER if batch.sequence.is_some() => {
                let behind_another = self.partitions[partition]
                    .queue
                    .front()
                    .is_some_and(|first| first.id < batch.id)
                    || self.partitions[partition]
                        .in_flight
                        .front()
                        .is_some_and(|first| first.id < batch.id);
                if behind_another {
                    // The one before it failed: this one only has to wait for it.
                    self.requeue(partition, batch);
                } else if self.transactions.is_some() {
                    let message = message.unwrap_or_else(|| error.describe().to_owned());
                    self.fail(partition, batch, FailureKind::Broker(error), message, at_ns);
                } else {
                    self.want_new_epoch(partition, batch, error, at_ns);
                }
            }
            ErrorCode::UNKNOWN_PRODUCER_ID
            | ErrorCode::INVALID_PRODUCER_EPOCH
            | ErrorCode::INVALID_PRODUCER_ID_MAPPING
                if batch.sequence.is_some() && self.transactions.is_none() =>
            {
                self.want_new_epoch(partition, batch, error, at_ns);
            }
            error if error.is_retriable() => {
                if error.refreshes_metadata() {
                    self.cluster.want_metadata();
                }
                // REQUEST_TIMED_OUT and NOT_ENOUGH_REPLICAS_AFTER_APPEND come after the leader has appended.
                batch.unanswered |= matches!(
                    error,
                    ErrorCode::REQUEST_TIMED_OUT | ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND
                );
                let message = message.unwrap_or_else(|| error.describe().to_owned());
                self.retry(partition, batch, FailureKind::Broker(error), message, at_ns);
            }
            error => {
                let message = message.unwrap_or_else(|| error.describe().to_owned());
                self.fail(partition, batch, FailureKind::Broker(error), message, at_ns);
            }
        }
    }

    /// The broker does not know the producer's numbering any more: nothing is sent until a new epoch has come.
    fn want_new_epoch(&mut self, partition: usize, batch: Waiting<T>, error: ErrorCode, at_ns: u64) {
        if let ProducerId::Is { .. } = self.producer_id {
            self.producer_id = ProducerId::Wanted;
        }
        let message = error.describe().to_owned();
        self.retry(partition, batch, FailureKind::Broker(error), message, at_ns);
    }

    fn retry(
        &mut self,
        partition: usize,
        mut batch: Waiting<T>,
        kind: FailureKind,
        message: String,
        at_ns: u64,
    ) {
        if batch.attempts > self.settings.retries || self.is_expired(&batch, at_ns) {
            return self.fail(partition, batch, kind, message, at_ns);
        }
        // That the coordinator still writes markers is no fault; it costs time, which is measured.
        let is_between_transactions = kind == FailureKind::Broker(ErrorCode::CONCURRENT_TRANSACTIONS);
        if let FailureKind::Broker(_) = kind
            && !is_between_transactions
        {
            self.note(
                at_ns,
                batch.broker,
                Some(partition as i32),
                kind.clone(),
                &message,
            );
        }
        batch.last_error = Some((kind, message));
        self.counts.retried_batches += 1;
        let doublings = batch.attempts.saturating_sub(1).min(20);
        let backoff_ns =
            (self.settings.retry_backoff_ns << doublings).min(self.settings.retry_backoff_max_ns);
        let backoff_ns = if is_between_transactions {
            backoff_ns.min(CONCURRENT_BACKOFF_NS)
        } else {
            backoff_ns
        };
        self.partitions[partition].retry_at_ns = at_ns.saturating_add(backoff_ns);
        self.requeue(partition, batch);
    }

    fn note(
        &mut self,
        at_ns: u64,
        broker: Option<i32>,
        partition: Option<i32>,
        kind: FailureKind,
        message: &str,
    ) {
        if self.incidents.len() < MOST_INCIDENTS {
            self.incidents.push_back(Incident {
                at_ns,
                broker,
                partition,
                kind,
                message: message.to_owned(),
            });
        }
    }

    /// Back into the queue, at its place.
    fn requeue(&mut self, partition: usize, batch: Waiting<T>) {
        let queue = &mut self.partitions[partition].queue;
        let place = queue.partition_point(|other| other.id < batch.id);
        queue.insert(place, batch);
        self.next_look_ns = 0;
    }

    fn is_expired(&self, batch: &Waiting<T>, now_ns: u64) -> bool {
        now_ns >= batch.created_ns.saturating_add(self.settings.delivery_timeout_ns)
    }

    fn fail(&mut self, partition: usize, batch: Waiting<T>, kind: FailureKind, message: String, at_ns: u64) {
        if let Some(transactions) = &mut self.transactions {
            // Its transaction is aborted, and with the next one the numbering begins anew.
            transactions.fail(batch.transaction, &kind, &message);
        } else if let (Some(_), ProducerId::Is { .. }) = (batch.sequence, self.producer_id) {
            if batch.unanswered {
                // Whether the broker counts it is not known, so no number after it is certain.
                self.producer_id = ProducerId::Wanted;
            } else {
                self.close_gap(partition, batch.id, batch.sealed.count());
            }
        }
        let outcome = if batch.unanswered {
            Outcome::Unknown { kind, message }
        } else {
            Outcome::Refused { kind, message }
        };
        self.finish(partition, batch, at_ns, outcome);
    }

    /// A numbered batch is certainly not in the log: those after it move up. Those in flight will come back as out of order.
    fn close_gap(&mut self, partition: usize, id: u64, count: u32) {
        let state = &mut self.partitions[partition];
        for batch in state
            .queue
            .iter_mut()
            .chain(state.in_flight.iter_mut())
            .filter(|batch| batch.id > id)
        {
            batch.sequence = batch
                .sequence
                .map(|sequence| add_to_sequence(sequence, -i64::from(count)));
        }
        state.next_sequence = add_to_sequence(state.next_sequence, -i64::from(count));
    }

    fn split(&mut self, partition: usize, batch: Waiting<T>, at_ns: u64) {
        self.counts.split_batches += 1;
        let reserved_bytes = batch.reserved_bytes;
        let count = batch.sealed.count();
        match self.halves(&batch) {
            Ok((first, second)) => {
                let mut first_tag = batch.tag;
                let second_tag = first_tag.split_off(count / 2);
                let second_sequence = batch
                    .sequence
                    .map(|sequence| add_to_sequence(sequence, i64::from(count / 2)));
                let id_room = batch.id_room / 2;
                let second = Waiting {
                    id: batch.id + id_room,
                    id_room,
                    sealed: Arc::new(second),
                    tag: second_tag,
                    created_ns: batch.created_ns,
                    reserved_bytes: reserved_bytes / 2,
                    attempts: batch.attempts,
                    transaction: batch.transaction,
                    sequence: second_sequence,
                    unanswered: batch.unanswered,
                    written_ns: None,
                    broker: batch.broker,
                    last_error: None,
                };
                let first = Waiting {
                    id: batch.id,
                    id_room,
                    sealed: Arc::new(first),
                    tag: first_tag,
                    reserved_bytes: reserved_bytes - reserved_bytes / 2,
                    sequence: batch.sequence,
                    created_ns: batch.created_ns,
                    attempts: batch.attempts,
                    transaction: batch.transaction,
                    unanswered: batch.unanswered,
                    written_ns: None,
                    broker: batch.broker,
                    last_error: None,
                };
                self.requeue(partition, second);
                self.requeue(partition, first);
            }
            Err(message) => {
                self.fail(
                    partition,
                    batch,
                    FailureKind::Broker(ErrorCode::MESSAGE_TOO_LARGE),
                    message,
                    at_ns,
                );
            }
        }
    }

    fn halves(&mut self, batch: &Waiting<T>) -> Result<(SealedBatch, SealedBatch), String> {
        let whole = Batch::parse(batch.sealed.bytes()).map_err(|error| error.to_string())?;
        let mut decoded = Vec::new();
        let records = whole
            .records(&mut decoded, batch.sealed.uncompressed_len_bytes())
            .map_err(|error| error.to_string())?;
        let mut builders = [BatchBuilder::new(Vec::new()), BatchBuilder::new(Vec::new())];
        let half = whole.count() / 2;
        for (index, record) in records.enumerate() {
            let record = record.map_err(|error| error.to_string())?;
            let value = record.value.unwrap_or_default();
            let headers = RecordHeaders::of(&record);
            builders[usize::from(index as u32 >= half)].push(
                whole.base_timestamp_ms() + record.timestamp_delta_ms,
                record.key,
                value.len(),
                &headers,
                |out| out.extend_from_slice(value),
            );
        }
        let [first, second] = builders;
        let mut seal = |builder: BatchBuilder| {
            builder
                .seal(&mut self.compressor, &mut self.scratch)
                .map_err(|error| error.to_string())
        };
        Ok((seal(first)?, seal(second)?))
    }

    fn take_in_flight(&mut self, partition: usize, id: u64) -> Option<Waiting<T>> {
        let in_flight = &mut self.partitions.get_mut(partition)?.in_flight;
        let place = in_flight.iter().position(|batch| batch.id == id)?;
        in_flight.remove(place)
    }

    /// Ends what has waited beyond `delivery.timeout.ms`, and what was for partitions that the topic does not have any more.
    fn expire(&mut self, now_ns: u64) {
        for partition in self.known..self.partitions.len() {
            self.seal(partition, now_ns);
            while let Some(batch) = self.partitions[partition].queue.pop_front() {
                let message = format!(
                    "topic {} was made again with {} partitions, and this was for partition {partition}",
                    self.topic, self.known
                );
                self.fail(partition, batch, FailureKind::TopicMadeAgain, message, now_ns);
            }
        }
        for partition in 0..self.partitions.len() {
            if let Some(open) = &self.partitions[partition].open
                && now_ns >= open.created_ns.saturating_add(self.settings.delivery_timeout_ns)
            {
                self.seal(partition, now_ns);
            }
            while let Some(front) = self.partitions[partition].queue.front()
                && self.is_expired(front, now_ns)
            {
                let mut batch = self.partitions[partition]
                    .queue
                    .pop_front()
                    .expect("it was there");
                let waited_ms = (now_ns - batch.created_ns) / 1_000_000;
                let after = match batch.last_error.take() {
                    Some((kind, message)) => format!("; the last attempt failed: {kind}: {message}"),
                    None => String::new(),
                };
                let message = format!("not delivered within {waited_ms} ms of its creation{after}");
                self.fail(partition, batch, FailureKind::DeliveryTimeout, message, now_ns);
            }
        }
    }

    /// Sends all that may go, and says when to look again.
    fn drain(&mut self, now_ns: u64) -> u64 {
        let mut look_ns = u64::MAX;
        let partitions = self.partitions.len();
        if partitions == 0 || matches!(self.producer_id, ProducerId::Wanted | ProducerId::Asked) {
            let retry_ns = if self.producer_id == ProducerId::Wanted {
                self.producer_id_retry_ns
            } else {
                0
            };
            if retry_ns > now_ns {
                return retry_ns;
            }
            // Linger and delivery time-outs of what is being gathered meanwhile.
            return now_ns + 10_000_000;
        }
        let mut brokers: Vec<i32> = Vec::new();
        let mut to_add: Vec<usize> = Vec::new();
        for (index, partition) in self.partitions.iter().enumerate() {
            let Some(leader) = partition.leader else {
                if !partition.queue.is_empty() || partition.open.is_some() {
                    self.cluster.want_metadata();
                    look_ns = look_ns.min(now_ns + 10_000_000);
                }
                continue;
            };
            let delivery_ns = partition.queue.front().map_or(u64::MAX, |front| {
                front.created_ns.saturating_add(self.settings.delivery_timeout_ns)
            });
            look_ns = look_ns.min(delivery_ns);
            match self.ready_at_ns(partition) {
                Some(at_ns) if at_ns > now_ns => look_ns = look_ns.min(at_ns),
                Some(_) if !self.is_let_go(index) => to_add.push(index),
                Some(_) if !brokers.contains(&leader) => brokers.push(leader),
                Some(_) => {}
                None => {}
            }
        }
        if !to_add.is_empty() {
            look_ns = look_ns.min(self.add_partitions(to_add, now_ns));
        }
        for broker in brokers {
            let node = Node::Broker(broker);
            if let Some(until_ns) = self.cluster.throttled_until_ns(node, now_ns) {
                look_ns = look_ns.min(until_ns);
                continue;
            }
            if !self.cluster.is_ready(node, now_ns) {
                self.unavailable_since_ns.entry(broker).or_insert(now_ns);
                // While a leader cannot be reached its partitions may have got another, and batches wait for the news.
                if self.cluster.has_failed(node) {
                    self.cluster.want_metadata();
                }
                look_ns = look_ns.min(
                    self.cluster
                        .retry_at_ns(node)
                        .unwrap_or(u64::MAX)
                        .max(now_ns + 1_000_000),
                );
                continue;
            }
            while self.cluster.in_flight(node) < self.settings.max_in_flight {
                match self.send_one(broker, now_ns) {
                    true => {
                        self.unavailable_since_ns.remove(&broker);
                    }
                    false => break,
                }
            }
            if self.cluster.in_flight(node) >= self.settings.max_in_flight {
                self.unavailable_since_ns.entry(broker).or_insert(now_ns);
            }
        }
        look_ns
    }

    /// When the partition's next batch may go: at once, after linger or back-off, or `None` while there is nothing or it has to
    /// wait for answers.
    fn ready_at_ns(&self, partition: &Partition<T>) -> Option<u64> {
        if partition.is_recovering() && !partition.in_flight.is_empty() {
            return None;
        }
        if let Some(transactions) = &self.transactions {
            let front = partition.queue.front().map(|batch| batch.transaction);
            let next = front.or(partition.open.as_ref().map(|open| open.transaction))?;
            // What belongs to the next transaction waits until this one has ended, and a failed one sends no more.
            if next != transactions.active || transactions.failure.is_some() {
                return None;
            }
        }
        if !partition.queue.is_empty() {
            return Some(if partition.is_recovering() {
                partition.retry_at_ns
            } else {
                0
            });
        }
        let open = partition.open.as_ref()?;
        if self.flushing || self.memory_exhausted {
            return Some(0);
        }
        Some(open.created_ns.saturating_add(self.settings.linger_ns))
    }

    /// Sends one request to `broker` with one batch of each partition that it leads and that has one to give, as long as it is
    /// within `max.request.size`. False when there is nothing to send.
    fn send_one(&mut self, broker: i32, now_ns: u64) -> bool {
        let partitions = self.partitions.len();
        let may_go = |(index, partition): (usize, &Partition<T>)| {
            partition.leader == Some(broker)
                && self.ready_at_ns(partition).is_some_and(|at_ns| at_ns <= now_ns)
                && self.is_let_go(index)
        };
        if !self.partitions.iter().enumerate().any(may_go) {
            return false;
        }
        let mut request_bytes = 0;
        let mut chosen: Vec<(usize, u64)> = Vec::new();
        for step in 0..partitions {
            let index = (self.rotate + step) % partitions;
            let partition = &self.partitions[index];
            if partition.leader != Some(broker) || !self.is_let_go(index) {
                continue;
            }
            let recovering = partition.is_recovering();
            if recovering && (!partition.in_flight.is_empty() || now_ns < partition.retry_at_ns) {
                continue;
            }
            // One that is ready takes along those that still linger: they are on their way in the same request.
            if partition.queue.is_empty() {
                self.seal(index, now_ns);
            }
            let Some(front) = self.partitions[index].queue.front() else {
                continue;
            };
            let bytes = front.sealed.bytes().len();
            if !chosen.is_empty() && request_bytes + bytes > self.settings.max_request_bytes {
                // It goes first next time.
                self.rotate = index;
                break;
            }
            request_bytes += bytes;
            chosen.push((index, front.id));
        }
        if chosen.is_empty() {
            return false;
        }
        chosen.sort_unstable_by_key(|&(index, _)| index);
        let versions = self.produce_versions(Node::Broker(broker));
        let version = match self
            .cluster
            .version(Node::Broker(broker), ApiKey::PRODUCE, versions)
        {
            Ok(version) => version,
            Err(error) => {
                self.fatal = Some(error.to_string());
                return false;
            }
        };
        if self.compressor.codec() == Codec::Zstd && version < 7 {
            self.fatal =
                Some("compression.type=zstd needs brokers of Kafka 2.1 or newer (Produce 7)".to_owned());
            return false;
        }
        let mut bodies = Vec::with_capacity(chosen.len());
        if let Some(transactions) = &mut self.transactions {
            transactions
                .touched
                .extend(chosen.iter().map(|&(index, _)| index));
        }
        for &(index, _) in &chosen {
            let state = &mut self.partitions[index];
            let mut batch = state.queue.pop_front().expect("it was chosen");
            if let ProducerId::Is { id, epoch } = self.producer_id {
                let sequence = *batch.sequence.get_or_insert_with(|| {
                    let sequence = state.next_sequence;
                    state.next_sequence = add_to_sequence(sequence, batch.sealed.count().into());
                    sequence
                });
                let is_transactional = self.transactions.is_some();
                Arc::make_mut(&mut batch.sealed).set_producer(id, epoch, sequence, is_transactional);
            }
            batch.attempts += 1;
            batch.broker = Some(broker);
            bodies.push(Arc::clone(&batch.sealed));
            state.in_flight.push_back(batch);
        }
        let correlation = self.cluster.next_correlation();
        let (head, cuts) = self.encode(version, correlation, &chosen, &bodies);
        let acks = self.settings.acks;
        let timeout_ns = (acks != Acks::None).then_some(self.settings.request_timeout_ns);
        self.counts.requests += 1;
        self.counts.brokers.entry(broker).or_default().requests += 1;
        let outgoing = Outgoing {
            head,
            cuts,
            bodies,
            correlation,
        };
        let sent = self.cluster.send_raw(
            Node::Broker(broker),
            outgoing,
            version,
            version >= 9,
            timeout_ns,
            Asked::Produce(chosen),
            now_ns,
        );
        debug_assert!(sent.is_ok(), "readiness was checked");
        true
    }

    /// Which versions of Produce may be spoken with a broker: those above 11 are for clusters that have agreed on the second
    /// transaction protocol, as far as producers with a producer id go (KIP-890), and ids need metadata that has told them.
    fn produce_versions(&self, node: Node) -> std::ops::RangeInclusive<i16> {
        let (is_second, oldest) = match &self.transactions {
            Some(transactions) if transactions.is_second => (true, PRODUCE_ADDS),
            Some(_) => (false, PRODUCE_OLDEST),
            None => {
                let level = self.cluster.feature(node, "transaction.version");
                let is_second = level.is_some_and(|level| level >= SECOND_PROTOCOL);
                let has_no_id = matches!(self.producer_id, ProducerId::NotNeeded);
                (is_second || has_no_id, PRODUCE_OLDEST)
            }
        };
        let newest = match is_second {
            true if !self.topic_id.is_zero() => PRODUCE_BY_ID,
            true if self.transactions.is_some() => PRODUCE_ADDS,
            _ => PRODUCE_FIRST_PROTOCOL,
        };
        oldest..=newest
    }

    fn encode(
        &self,
        version: i16,
        correlation: i32,
        chosen: &[(usize, u64)],
        bodies: &[Arc<SealedBatch>],
    ) -> (Vec<u8>, Vec<usize>) {
        let partitions: Vec<ProducePartition> = chosen
            .iter()
            .zip(bodies)
            .map(|(&(index, _), body)| ProducePartition {
                index: index as i32,
                batch_bytes: body.bytes().len(),
            })
            .collect();
        let head = ProduceHead {
            correlation_id: correlation,
            client_id: Some(&self.cluster.config().client_id),
            version,
            transactional_id: self
                .transactions
                .as_ref()
                .map(|transactions| transactions.id.as_str()),
            acks: self.settings.acks.wire_value(),
            timeout_ms: i32::try_from(self.settings.request_timeout_ns / 1_000_000).unwrap_or(i32::MAX),
        };
        let topic = ProduceTopic {
            name: &self.topic,
            topic_id: self.topic_id,
            partitions: &partitions,
        };
        let (mut out, mut cuts) = (Vec::with_capacity(128), Vec::with_capacity(partitions.len()));
        produce::encode_produce_request(&head, &[topic], &mut out, &mut cuts);
        (out, cuts)
    }
}

/// Positions by topic, as TxnOffsetCommit carries them.
fn offset_topics(positions: &[(TopicPartition, i64)]) -> Vec<TxnOffsetCommitRequestTopic> {
    let mut topics: Vec<TxnOffsetCommitRequestTopic> = Vec::new();
    for ((name, partition_index), committed_offset) in positions {
        let partition = TxnOffsetCommitRequestPartition {
            partition_index: *partition_index,
            committed_offset: *committed_offset,
            committed_metadata: Some(String::new()),
            ..TxnOffsetCommitRequestPartition::default()
        };
        match topics.iter_mut().find(|topic| topic.name == *name) {
            Some(topic) => topic.partitions.push(partition),
            None => topics.push(TxnOffsetCommitRequestTopic {
                name: name.clone(),
                partitions: vec![partition],
            }),
        }
    }
    topics
}

/// Sequence numbers run from 0 to `i32::MAX` and start anew.
fn add_to_sequence(sequence: i32, by: i64) -> i32 {
    (i64::from(sequence) + by).rem_euclid(1 << 31) as i32
}

fn codec_of(compression: Compression) -> (Codec, Option<i32>) {
    match compression {
        Compression::None => (Codec::None, None),
        Compression::Gzip { level } => (Codec::Gzip, (level >= 0).then_some(level)),
        Compression::Snappy => (Codec::Snappy, None),
        Compression::Lz4 { .. } => (Codec::Lz4, None),
        Compression::Zstd { level } => (Codec::Zstd, Some(level)),
    }
}
