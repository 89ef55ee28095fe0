//! The transactions of a producer (KIP-98): where its coordinator is, which partitions the open transaction has, and how it
//! ends.
//!
//! Records belong to the transaction that is open when they are appended. [`super::Producer::end_transaction`] closes it for
//! appending; what was appended is sent and answered, then the coordinator is asked to commit or abort, and meanwhile the
//! records of the next transaction gather. A batch that fails makes its transaction abort. Both protocols are spoken: in
//! the first, partitions are added before they are written to; in the second (KIP-890, where the cluster has
//! `transaction.version` 2), writing adds them and each end raises the producer's epoch.

use super::FailureKind;
use crate::admin::TopicPartition;
use model::client_config::TransactionConfig;
use std::collections::{BTreeSet, VecDeque};

/// Java's back-off while the coordinator still completes the transaction before.
pub(super) const CONCURRENT_BACKOFF_NS: u64 = 20_000_000;

/// How a transaction ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionOutcome {
    /// The coordinator has committed it.
    Committed,
    /// The coordinator has aborted it, because the user asked for that.
    Aborted,
    /// It was aborted because a batch failed.
    Failed {
        /// The kind of failure.
        kind: FailureKind,
        /// The broker's or the client's words.
        message: String,
    },
    /// The producer was closed before the coordinator answered: it may have been committed, or will be aborted when
    /// `transaction.timeout.ms` is over.
    Undecided,
}

/// A transaction that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedTransaction {
    /// Its number, from 0; batches carry it ([`super::Finished::transaction`]).
    pub number: u64,
    /// When its first record was appended.
    pub began_ns: u64,
    /// When its end was asked for.
    pub asked_ns: u64,
    /// When it had ended.
    pub ended_ns: u64,
    /// The partitions that got a marker.
    pub partitions: Vec<usize>,
    /// How it ended.
    pub outcome: TransactionOutcome,
}

/// The member of a group whose positions are committed with a transaction, as its consumer knows itself (KIP-447).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupMember {
    /// The group.
    pub group_id: String,
    /// The member's id; empty for a consumer outside of the group.
    pub member_id: String,
    /// Its generation, or its epoch in the newer protocol; −1 outside of the group.
    pub generation: i32,
    /// The name of a static member.
    pub group_instance_id: Option<String>,
}

/// Positions that are to be committed with the active transaction.
#[derive(Clone, Debug)]
pub(super) struct Offsets {
    pub(super) member: GroupMember,
    pub(super) positions: Vec<(TopicPartition, i64)>,
    /// Whether the group is part of the transaction; in the second protocol the commit makes it so.
    pub(super) is_added: bool,
    /// Who coordinates the group.
    pub(super) coordinator: Option<i32>,
    /// Whether a request for them is under way.
    pub(super) is_asked: bool,
    /// Not before then.
    pub(super) ask_at_ns: u64,
}

/// A transaction that is being ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ending {
    pub(super) is_commit: bool,
    pub(super) asked_ns: u64,
    /// Whether the coordinator has been asked and has not answered.
    pub(super) is_asked: bool,
    /// Not before then.
    pub(super) ask_at_ns: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Transactions {
    pub(super) id: String,
    pub(super) timeout_ms: i32,
    pub(super) coordinator: Option<i32>,
    pub(super) is_finding: bool,
    pub(super) find_at_ns: u64,
    /// Whether the second protocol is spoken; known with the producer id.
    pub(super) is_second: bool,
    /// The number of the transaction whose batches may be sent.
    pub(super) active: u64,
    /// The number of the transaction that records are appended to: the active one, or the one after it.
    pub(super) appending: u64,
    pub(super) began_ns: Option<u64>,
    pub(super) next_began_ns: Option<u64>,
    /// Partitions of the active transaction.
    pub(super) touched: BTreeSet<usize>,
    /// Partitions to be added to it, in the first protocol.
    pub(super) wanted: BTreeSet<usize>,
    pub(super) is_adding: bool,
    pub(super) add_at_ns: u64,
    pub(super) ending: Option<Ending>,
    /// What is yet to be committed with it.
    pub(super) offsets: Option<Offsets>,
    /// Whether the coordinator may know of a group in it, so that it has to be ended even without records.
    pub(super) has_group: bool,
    /// Why it has to be aborted.
    pub(super) failure: Option<(FailureKind, String)>,
    /// Why the next one will have to be.
    pub(super) next_failure: Option<(FailureKind, String)>,
    pub(super) ended: VecDeque<EndedTransaction>,
}

impl Transactions {
    pub(super) fn new(config: &TransactionConfig) -> Transactions {
        Transactions {
            id: config.id.clone(),
            timeout_ms: i32::try_from(config.timeout.as_millis()).unwrap_or(i32::MAX),
            coordinator: None,
            is_finding: false,
            find_at_ns: 0,
            is_second: false,
            active: 0,
            appending: 0,
            began_ns: None,
            next_began_ns: None,
            touched: BTreeSet::new(),
            wanted: BTreeSet::new(),
            is_adding: false,
            add_at_ns: 0,
            ending: None,
            offsets: None,
            has_group: false,
            failure: None,
            next_failure: None,
            ended: VecDeque::new(),
        }
    }

    /// A record is appended.
    pub(super) fn appended(&mut self, now_ns: u64) {
        if self.appending == self.active {
            self.began_ns.get_or_insert(now_ns);
        } else {
            self.next_began_ns.get_or_insert(now_ns);
        }
    }

    /// Since when records are in the transaction that is appended to.
    pub(super) fn appending_since_ns(&self) -> Option<u64> {
        if self.appending == self.active {
            self.began_ns
        } else {
            self.next_began_ns
        }
    }

    /// Whether the records of a partition may be sent, as far as the transaction goes.
    pub(super) fn lets_go(&self, partition: usize, transaction: u64) -> bool {
        transaction == self.active && (self.is_second || self.touched.contains(&partition))
    }

    /// Notes why the transaction has to be aborted; the first reason stays.
    pub(super) fn fail(&mut self, transaction: u64, kind: &FailureKind, message: &str) {
        let failure = if transaction == self.active {
            &mut self.failure
        } else {
            &mut self.next_failure
        };
        failure.get_or_insert_with(|| (kind.clone(), message.to_owned()));
    }

    /// The active transaction has ended; the next one begins, with what was appended meanwhile.
    pub(super) fn is_over(&mut self, outcome: TransactionOutcome, now_ns: u64) {
        let asked_ns = self.ending.map_or(now_ns, |ending| ending.asked_ns);
        self.ended.push_back(EndedTransaction {
            number: self.active,
            began_ns: self.began_ns.unwrap_or(asked_ns),
            asked_ns,
            ended_ns: now_ns,
            partitions: std::mem::take(&mut self.touched).into_iter().collect(),
            outcome,
        });
        self.ending = None;
        self.offsets = None;
        self.has_group = false;
        self.failure = self.next_failure.take();
        self.wanted.clear();
        self.began_ns = self.next_began_ns.take();
        self.active += 1;
        self.appending = self.active;
    }
}
