//! The transaction coordinator (KIP-98, KIP-360, KIP-890): which producer holds a transactional id, what its transaction
//! touches, and the markers that end it.
//!
//! Both protocols are served, told apart by the versions that clients use. In the first, partitions are added before they
//! are written to; in the second (Produce 12, EndTxn 5, TxnOffsetCommit 5), writing adds them, and each end raises the
//! epoch. A marker counts as written when it is on all in-sync replicas; until all are, the transaction is in preparation
//! and the producer is told CONCURRENT_TRANSACTIONS.

use crate::cluster::{Cluster, Timer, TopicKey};
use crate::log::Marker;
use std::collections::{BTreeMap, BTreeSet};
use wire::ErrorCode;

/// The last epoch that a producer id is used with; the one after it would be for fencing only.
const LAST_EPOCH: i16 = i16::MAX - 1;
/// One process coordinates all transactions, and never hands that over.
const COORDINATOR_EPOCH: i32 = 0;
/// How often markers are tried again that could not be written or replicated.
const MARKER_RETRY_NS: u64 = 10_000_000;

/// Where a transaction stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Empty,
    Ongoing,
    PrepareCommit,
    PrepareAbort,
    CompleteCommit,
    CompleteAbort,
}

impl State {
    /// As DescribeTransactions names it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            State::Empty => "Empty",
            State::Ongoing => "Ongoing",
            State::PrepareCommit => "PrepareCommit",
            State::PrepareAbort => "PrepareAbort",
            State::CompleteCommit => "CompleteCommit",
            State::CompleteAbort => "CompleteAbort",
        }
    }

    /// All names that ListTransactions can be asked for.
    pub(crate) const NAMES: [&str; 8] = [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "PrepareEpochFence",
        "Dead",
    ];

    fn is_preparing(self) -> bool {
        matches!(self, State::PrepareCommit | State::PrepareAbort)
    }
}

/// The producer that a client says it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProducerKey {
    pub(crate) id: i64,
    pub(crate) epoch: i16,
}

/// A partition that is to get a marker.
#[derive(Clone, Copy, Debug)]
struct Unmarked {
    place: (TopicKey, i32),
    /// Where the marker went, and the epoch of the leader that wrote it.
    written: Option<(i64, i32)>,
}

/// What is known of one transactional id.
#[derive(Debug)]
pub(crate) struct Transaction {
    pub(crate) producer: ProducerKey,
    /// What the producer was before its epoch was last raised, for clients whose answer was lost.
    previous: Option<ProducerKey>,
    pub(crate) timeout_ms: i32,
    pub(crate) state: State,
    /// When it began.
    started_at: Option<u64>,
    pub(crate) partitions: BTreeSet<(TopicKey, i32)>,
    /// Groups whose offsets are part of it.
    groups: BTreeSet<String>,
    unmarked: Vec<Unmarked>,
    /// What the markers carry.
    marker: Option<Marker>,
}

impl Transaction {
    /// When it began, if it is open.
    pub(crate) fn started_at(&self) -> Option<u64> {
        self.started_at
    }

    fn deadline(&self) -> Option<u64> {
        let started_at = self.started_at.filter(|_| self.state == State::Ongoing)?;
        Some(started_at.saturating_add(crate::group::ms_to_ns(self.timeout_ms.into())))
    }

    /// Raises the epoch; a producer id whose epochs are used up is replaced by `fresh_id`.
    fn raise(&mut self, fresh_id: impl FnOnce() -> i64) {
        self.previous = Some(self.producer);
        self.producer = if self.producer.epoch >= LAST_EPOCH {
            ProducerKey {
                id: fresh_id(),
                epoch: 0,
            }
        } else {
            ProducerKey {
                id: self.producer.id,
                epoch: self.producer.epoch + 1,
            }
        };
    }
}

/// All transactional ids.
#[derive(Debug, Default)]
pub(crate) struct Transactions {
    by_id: BTreeMap<String, Transaction>,
    /// Those whose markers are not all written.
    preparing: BTreeSet<String>,
    is_retry_armed: bool,
}

impl Transactions {
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &Transaction)> {
        self.by_id
            .iter()
            .map(|(id, transaction)| (id.as_str(), transaction))
    }

    pub(crate) fn get(&self, id: &str) -> Option<&Transaction> {
        self.by_id.get(id)
    }

    /// The transaction of the producer that a client says it is.
    fn find(&mut self, id: &str, producer: ProducerKey) -> Result<&mut Transaction, ErrorCode> {
        let transaction = self
            .by_id
            .get_mut(id)
            .filter(|transaction| transaction.producer.id == producer.id)
            .ok_or(ErrorCode::INVALID_PRODUCER_ID_MAPPING)?;
        if transaction.producer.epoch != producer.epoch {
            return Err(ErrorCode::PRODUCER_FENCED);
        }
        Ok(transaction)
    }
}

impl Cluster {
    /// Gives a producer its id and epoch, and fences whoever had the transactional id before. `known` is what the producer
    /// had, when it asks for a new epoch only.
    pub(crate) fn init_transactional_producer(
        &mut self,
        now: u64,
        id: &str,
        timeout_ms: i32,
        known: Option<ProducerKey>,
    ) -> Result<ProducerKey, ErrorCode> {
        if id.is_empty() {
            return Err(ErrorCode::INVALID_REQUEST);
        }
        if timeout_ms <= 0 || i64::from(timeout_ms) > self.settings.transaction_max_timeout_ms {
            return Err(ErrorCode::INVALID_TRANSACTION_TIMEOUT);
        }
        let Some(transaction) = self.transactions.by_id.get(id) else {
            let producer = ProducerKey {
                id: self.new_producer_id(),
                epoch: 0,
            };
            self.transactions.by_id.insert(
                id.to_owned(),
                Transaction {
                    producer,
                    previous: None,
                    timeout_ms,
                    state: State::Empty,
                    started_at: None,
                    partitions: BTreeSet::new(),
                    groups: BTreeSet::new(),
                    unmarked: Vec::new(),
                    marker: None,
                },
            );
            return Ok(producer);
        };
        if transaction.state.is_preparing() {
            return Err(ErrorCode::CONCURRENT_TRANSACTIONS);
        }
        if let Some(known) = known {
            let is_current = known == transaction.producer;
            let is_repeated = Some(known) == transaction.previous;
            if !is_current && !is_repeated {
                return Err(ErrorCode::PRODUCER_FENCED);
            }
            if is_repeated && transaction.state != State::Ongoing {
                return Ok(transaction.producer);
            }
        }
        if transaction.state == State::Ongoing {
            self.abort_and_fence(now, id);
            if self
                .transactions
                .get(id)
                .is_some_and(|transaction| transaction.state.is_preparing())
            {
                return Err(ErrorCode::CONCURRENT_TRANSACTIONS);
            }
        }
        let fresh_id = self.next_producer_id();
        let Some(transaction) = self.transactions.by_id.get_mut(id) else {
            return Err(ErrorCode::UNKNOWN_SERVER_ERROR);
        };
        let mut is_used = false;
        transaction.raise(|| {
            is_used = true;
            fresh_id
        });
        transaction.timeout_ms = timeout_ms;
        transaction.state = State::Empty;
        let producer = transaction.producer;
        if is_used {
            self.new_producer_id();
        }
        Ok(producer)
    }

    /// Adds partitions to a producer's transaction, which begins with the first.
    pub(crate) fn add_to_transaction(
        &mut self,
        now: u64,
        id: &str,
        producer: ProducerKey,
        partitions: &[(TopicKey, i32)],
        group: Option<&str>,
    ) -> Result<(), ErrorCode> {
        let transaction = self.transactions.find(id, producer)?;
        if transaction.state.is_preparing() {
            return Err(ErrorCode::CONCURRENT_TRANSACTIONS);
        }
        if transaction.state != State::Ongoing {
            transaction.state = State::Ongoing;
            transaction.started_at = Some(now);
            if let Some(deadline) = transaction.deadline() {
                self.at(deadline, Timer::Transaction(id.to_owned()));
            }
        }
        let transaction = self.transactions.find(id, producer)?;
        transaction.partitions.extend(partitions);
        if let Some(group) = group.filter(|group| !transaction.groups.contains(*group)) {
            transaction.groups.insert(group.to_owned());
        }
        Ok(())
    }

    /// Whether a partition is part of a producer's open transaction, as it must be before it is written to in the first
    /// protocol (KIP-890).
    pub(crate) fn is_in_transaction(
        &mut self,
        id: &str,
        producer: ProducerKey,
        place: (TopicKey, i32),
    ) -> Result<(), ErrorCode> {
        let transaction = self.transactions.find(id, producer)?;
        if transaction.state.is_preparing() {
            return Err(ErrorCode::CONCURRENT_TRANSACTIONS);
        }
        if transaction.state == State::Ongoing && transaction.partitions.contains(&place) {
            Ok(())
        } else {
            Err(ErrorCode::INVALID_TXN_STATE)
        }
    }

    /// Whether a group's offsets are part of a producer's open transaction.
    pub(crate) fn is_group_in_transaction(
        &mut self,
        id: &str,
        producer: ProducerKey,
        group: &str,
    ) -> Result<(), ErrorCode> {
        let transaction = self.transactions.find(id, producer)?;
        if transaction.state == State::Ongoing && transaction.groups.contains(group) {
            Ok(())
        } else {
            Err(ErrorCode::INVALID_TXN_STATE)
        }
    }

    /// Ends a producer's transaction. `raises` is the second protocol, in which the producer goes on in a new epoch; the
    /// producer to go on with is given back.
    pub(crate) fn end_transaction(
        &mut self,
        now: u64,
        id: &str,
        producer: ProducerKey,
        is_commit: bool,
        raises: bool,
    ) -> Result<ProducerKey, ErrorCode> {
        let (preparing, complete) = if is_commit {
            (State::PrepareCommit, State::CompleteCommit)
        } else {
            (State::PrepareAbort, State::CompleteAbort)
        };
        let known = self.transactions.by_id.get(id);
        if raises
            && let Some(transaction) = known
            && transaction.previous == Some(producer)
            && [preparing, complete].contains(&transaction.state)
        {
            // The answer to the first attempt was lost.
            return if transaction.state == preparing {
                Err(ErrorCode::CONCURRENT_TRANSACTIONS)
            } else {
                Ok(transaction.producer)
            };
        }
        let transaction = self.transactions.find(id, producer)?;
        match transaction.state {
            State::Ongoing => {}
            // An abort of nothing is allowed in the second protocol: the producer cannot know whether its write arrived.
            State::Empty | State::CompleteAbort | State::CompleteCommit if raises && !is_commit => {}
            state if state == complete && !raises => return Ok(transaction.producer),
            state if state == preparing => return Err(ErrorCode::CONCURRENT_TRANSACTIONS),
            _ => return Err(ErrorCode::INVALID_TXN_STATE),
        }
        self.end(now, id, is_commit, raises);
        let transaction = self.transactions.get(id);
        Ok(transaction.map_or(producer, |transaction| transaction.producer))
    }

    /// Ends the open transaction of a producer that is gone or too slow; what it sends from now on is refused.
    pub(crate) fn abort_and_fence(&mut self, now: u64, id: &str) {
        self.end(now, id, false, true);
        if let Some(transaction) = self.transactions.by_id.get_mut(id) {
            // Nobody was told of the new epoch, so nobody may come back with the old one.
            transaction.previous = None;
        }
    }

    fn end(&mut self, now: u64, id: &str, is_commit: bool, raises: bool) {
        let fresh_id = self.next_producer_id();
        let Some(transaction) = self.transactions.by_id.get_mut(id) else {
            return;
        };
        let deadline = transaction.deadline();
        transaction.state = if is_commit {
            State::PrepareCommit
        } else {
            State::PrepareAbort
        };
        let marked = transaction.producer;
        let mut is_used = false;
        if raises {
            transaction.raise(|| {
                is_used = true;
                fresh_id
            });
        }
        let marker = Marker {
            producer_id: marked.id,
            // In the second protocol the marker itself fences the epoch that it ends.
            producer_epoch: if raises { marked.epoch + 1 } else { marked.epoch },
            coordinator_epoch: COORDINATOR_EPOCH,
            is_commit,
        };
        transaction.marker = Some(marker);
        transaction.started_at = None;
        let partitions = std::mem::take(&mut transaction.partitions);
        transaction.unmarked = partitions
            .into_iter()
            .map(|place| Unmarked { place, written: None })
            .collect();
        let groups = std::mem::take(&mut transaction.groups);
        if let Some(deadline) = deadline {
            self.cancel(deadline, Timer::Transaction(id.to_owned()));
        }
        if is_used {
            self.new_producer_id();
        }
        for group in groups {
            self.with_group(now, &group, |group, _, _| {
                group.end_transaction(marked.id, is_commit)
            });
        }
        self.transactions.preparing.insert(id.to_owned());
        self.write_markers(now);
    }

    /// A transaction has taken as long as its producer allowed.
    pub(crate) fn transaction_timed_out(&mut self, now: u64, id: &str) {
        let is_due = self
            .transactions
            .get(id)
            .and_then(Transaction::deadline)
            .is_some_and(|deadline| deadline <= now);
        if is_due {
            self.abort_and_fence(now, id);
        }
    }

    /// It is time to try again what could not be written.
    pub(crate) fn retry_markers(&mut self, now: u64) {
        self.transactions.is_retry_armed = false;
        self.write_markers(now);
    }

    /// Writes markers where that is possible, and completes the transactions that have all of theirs.
    fn write_markers(&mut self, now: u64) {
        for id in self.transactions.preparing.clone() {
            let Some(transaction) = self.transactions.by_id.get_mut(&id) else {
                continue;
            };
            let Some(marker) = transaction.marker else {
                continue;
            };
            let mut unmarked = std::mem::take(&mut transaction.unmarked);
            unmarked.retain_mut(|unmarked| !self.is_marked(now, unmarked, &marker));
            let Some(transaction) = self.transactions.by_id.get_mut(&id) else {
                continue;
            };
            transaction.unmarked = unmarked;
            if transaction.unmarked.is_empty() {
                transaction.state = if marker.is_commit {
                    State::CompleteCommit
                } else {
                    State::CompleteAbort
                };
                self.transactions.preparing.remove(&id);
            }
        }
        if !self.transactions.preparing.is_empty() && !self.transactions.is_retry_armed {
            self.transactions.is_retry_armed = true;
            self.at(now.saturating_add(MARKER_RETRY_NS), Timer::Markers);
        }
    }

    /// Writes the marker unless it is there, and says whether all in-sync replicas have it.
    fn is_marked(&mut self, now: u64, unmarked: &mut Unmarked, marker: &Marker) -> bool {
        let (key, index) = unmarked.place;
        let Some(partition) = self.topic_at(key).and_then(|topic| topic.partition(index)) else {
            // A deleted topic needs no marker.
            return true;
        };
        let is_there = unmarked
            .written
            .is_some_and(|(offset, leader_epoch)| partition.holds(offset, leader_epoch));
        if !is_there {
            let leader_epoch = partition.leader_epoch();
            match self.append_marker(now, unmarked.place, marker) {
                Ok(offset) => unmarked.written = Some((offset, leader_epoch)),
                // A newer epoch has written since: the transaction has been ended by somebody else.
                Err(ErrorCode::INVALID_PRODUCER_EPOCH) => return true,
                Err(_) => return false,
            }
        }
        let partition = self.topic_at(key).and_then(|topic| topic.partition(index));
        partition.is_none_or(|partition| {
            unmarked
                .written
                .is_some_and(|(offset, _)| partition.high_watermark() > offset)
        })
    }
}
