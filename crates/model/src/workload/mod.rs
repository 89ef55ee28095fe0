//! The workload: what is produced and consumed, and how fast.
//!
//! Files are those of the Open Messaging Benchmark (OMB), unchanged, plus optional keys of our own; every key is in one
//! table ([`keys`]) with its meaning, its default and its type, from which the messages about unknown keys come.

mod draft;
mod keys;
mod reading;

use std::path::PathBuf;
use std::time::Duration;

pub use draft::WorkloadDraft;
pub use keys::{KeySpec, Origin, find_key, keys};

use crate::fault::{Fault, FaultKind};
use crate::objective::Objectives;
use crate::source::{ResolvedValue, Source};
use crate::units::{ByteSize, Rate, TargetRate};

/// How keys are given to records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyDistributor {
    /// No keys.
    NoKey,
    /// The table of keys in turn.
    KeyRoundRobin,
    /// Keys of the table at random.
    RandomNano,
}

/// What the values of records hold.
#[derive(Clone, Debug, PartialEq)]
pub enum Payload {
    /// Generated, and compresses as real text does. The default.
    Text,
    /// A pool of generated values: random bytes in front, zeros behind, as OMB makes them.
    Randomized {
        /// Share of each value that is random, 0 to 1.
        random_bytes_ratio: f64,
        /// Number of different values, at least 1.
        pool_size: u32,
    },
    /// One file's content, the same for each record.
    File(PathBuf),
}

/// A header that every record carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The header's key.
    pub name: String,
    /// Its value.
    pub value: Vec<u8>,
}

/// How long a phase lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PhaseLength {
    /// Until that much time has passed.
    Time(Duration),
    /// Until that many records were due (at rate max: were sent; where nothing is produced: were consumed), over all
    /// producers together.
    Records(u64),
}

/// Where the 24-byte stamp is put, by which records are verified and timed end to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StampPlacement {
    /// Over the first 24 bytes of the value.
    Value,
    /// In a header.
    Header,
    /// Nowhere: records are known by partition and offset alone.
    None,
}

/// How fast each consumer takes records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsumerPace {
    /// As fast as it can.
    Unlimited,
    /// It spends that long on each record, one after the other, as if it worked on it.
    DelayPerRecord(Duration),
    /// At most that many records per second, each consumer by itself.
    AtMost(Rate),
}

/// A resolved workload: complete, consistent, within limits.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Its name, for the result; never empty.
    pub name: String,
    /// Number of topics, at least 1.
    pub topics: u32,
    /// The topics' names; empty where the run names them itself, else as many as `topics`.
    pub topic_names: Vec<String>,
    /// Whether the topics must exist already: they are neither created nor deleted nor altered.
    pub existing_topics: bool,
    /// Partitions of each topic to be created, at least 1. Not used for existing topics.
    pub partitions_per_topic: u32,
    /// Relative shares of the rate, one a topic; empty where all are equal.
    pub topic_weights: Vec<u32>,
    /// Relative shares of a topic's records, one a partition; empty where the partitioner decides.
    pub partition_weights: Vec<u32>,
    /// How keys are given.
    pub key_distributor: KeyDistributor,
    /// Size of each record's value.
    pub message_size: ByteSize,
    /// What the values hold.
    pub payload: Payload,
    /// Headers of each record.
    pub headers: Vec<Header>,
    /// Where the stamp is put.
    pub stamp: StampPlacement,
    /// Producers of each topic; 0 where nothing is produced.
    pub producers_per_topic: u32,
    /// The rate over all producers of all topics together; absent where nothing is produced.
    pub producer_rate: Option<TargetRate>,
    /// What the run has to keep; empty for nothing.
    pub objectives: Objectives,
    /// Whether producers write in transactions although no `transactional.id` is set.
    pub transactional: bool,
    /// How long a transaction gathers records before it is committed; without effect where none are made.
    pub transaction_duration: Duration,
    /// Consumer groups of each topic; 0 where nothing is consumed.
    pub subscriptions_per_topic: u32,
    /// Consumers of each group.
    pub consumers_per_subscription: u32,
    /// Topics that each consumer reads, at least 1 and at most `topics`.
    pub topics_per_consumer: u32,
    /// How fast each consumer takes records.
    pub consumer_pace: ConsumerPace,
    /// The phase before the measured one; absent where there is none.
    pub warm_up: Option<PhaseLength>,
    /// The measured phase.
    pub test: PhaseLength,
    /// The seed of everything that is random in the workload.
    pub seed: u64,
    /// Each key of the file format with its resolved value and source.
    pub values: Vec<ResolvedValue>,
}

impl Workload {
    /// Whether anything is produced.
    pub fn produces(&self) -> bool {
        self.producers_per_topic > 0
    }

    /// Whether anything is consumed.
    pub fn consumes(&self) -> bool {
        self.subscriptions_per_topic > 0 && self.consumers_per_subscription > 0
    }

    /// Holds the length of the payload file against `messageSize`, as OMB does.
    ///
    /// # Errors
    /// When the file is empty while records are not, or its length is not `messageSize`.
    pub fn check_payload_len(&self, actual_bytes: u64) -> Result<(), Fault> {
        let expected_bytes = self.message_size.bytes();
        if actual_bytes == expected_bytes {
            return Ok(());
        }
        let given = self.values.iter().find(|value| value.key == "payloadFile");
        let (path, source) = given.map_or(("", &Source::Default), |given| (&given.value, &given.source));
        let problem = if actual_bytes == 0 {
            format!("the file is empty, and messageSize is {expected_bytes}")
        } else {
            format!(
                "the file has {actual_bytes} bytes, and messageSize is {expected_bytes}; set messageSize: {actual_bytes} \
                 or give a file of {expected_bytes} bytes"
            )
        };
        Err(Fault::of_value(
            FaultKind::Conflict,
            source,
            "payloadFile",
            path,
            problem,
        ))
    }

    /// Every resolved value as `key=value`: applied to [`WorkloadDraft::standard`] they give this workload again.
    pub fn assignments(&self) -> Vec<String> {
        self.values
            .iter()
            .map(|value| format!("{}={}", value.key, value.value))
            .collect()
    }
}
