//! The result of a run: one versioned document, complete enough that every report is made from it alone.
//!
//! Rules of the document, which docs/result-schema.md describes field by field:
//! - Each number's unit is the end of its key: `_ns`, `_bytes`, `_count`, `_per_second`, `_ratio`, `_seconds`.
//! - What was not measured is absent, never zero.
//! - Times are nanoseconds since the run's start on one monotonic clock, unless the key says otherwise.
//! - Fields are only ever added, and then optional, so that a reader of version 1 reads every later one.
//!
//! Accounting: due = unsent + sent, and sent = acknowledged + written + refused + unknown + unfinished, where
//! `written` takes the place of `acknowledged` for acks=0. On topics of the run's own:
//! acknowledged ≤ confirmed ≤ acknowledged + unknown + unfinished.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::source;

/// The version of the document that this code writes.
pub const SCHEMA_VERSION: u32 = 1;

/// The result of one run. See the module's head for the rules that hold for every field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// Version of the document's schema, [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// What sort of result it is.
    pub kind: ResultKind,
    /// The program that wrote it.
    pub tool: Tool,
    /// Identifies the run; the same number is mixed into the check of each record's stamp.
    pub run_id: String,
    /// The workload's name.
    pub name: String,
    /// Wall-clock time of the run's start, RFC 3339 in UTC.
    pub started_at: String,
    /// The command line that was typed, one element an argument.
    pub command: Vec<String>,
    /// One command line, as a shell reads it, that runs the same resolved workload on the same target again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reproduce: Option<String>,
    /// Whether the run came to its end.
    pub status: Status,
    /// The resolved workload, by key of the workload file.
    pub workload: BTreeMap<String, Setting>,
    /// The resolved target.
    pub target: Target,
    /// What the cluster told of itself; absent when it was never reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<Cluster>,
    /// The host that the load came from.
    pub host: Host,
    /// How the clocks of sender and receiver are related.
    pub clock_domain: ClockDomain,
    /// The clocks of sender and receiver; absent where they are one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clocks: Option<Clocks>,
    /// The topics that were loaded.
    pub topics: Vec<Topic>,
    /// The consumer groups that read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Group>,
    /// The phases in the order in which they ran.
    pub phases: Vec<Phase>,
    /// The accounting over all phases together.
    pub whole_run: Totals,
    /// Records by partition, over the measured phase.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partitions: Vec<Partition>,
    /// How evenly the partitions were loaded, over the measured phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skew: Option<Skew>,
    /// Requests by broker, over the measured phase.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub brokers: Vec<Broker>,
    /// What the load generator itself used and how well it kept its schedule, over the measured phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator: Option<Generator>,
    /// Errors grouped by kind, over the whole run, the most frequent first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<ErrorGroup>,
    /// What the reader of the figures should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
    /// What happened during the run, in the order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
    /// The generator's memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// The judgement with the figures it rests on; absent when nothing was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// What became of each term of the objectives that were given, over the measured phase.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objectives: Vec<ObjectiveOutcome>,
    /// The other files of the result folder.
    #[serde(default)]
    pub files: Files,
}

impl RunResult {
    /// The measured phase, where the run came so far.
    pub fn measured(&self) -> Option<&Phase> {
        self.phases.iter().find(|phase| phase.name == PhaseName::Measure)
    }

    /// Reads a document.
    ///
    /// # Errors
    /// When the text is no result document, with the line and column that JSON gives.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// Writes the document: pretty JSON with a stable order of keys, ended by a line feed. Equal results give equal text.
    ///
    /// # Errors
    /// Never for the types of this module; the signature is that of the JSON writer.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        Ok(text)
    }
}

/// What sort of result a document is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultKind {
    /// One workload on one target, once.
    Run,
}

/// The program that wrote the result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// `plimsoll`.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// Whether the run came to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// How it ended.
    pub state: State,
    /// Why it did not complete; absent when it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// All phases ran to their ends.
    Complete,
    /// It was interrupted; the figures cover what ran.
    Partial,
    /// It failed; the figures cover what ran before.
    Failed,
}

/// A setting with its source. Secrets are redacted before they get here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// The value as text.
    pub value: String,
    /// Where it came from: `file:line`, a flag's name, `default`, `Kafka default`, `OMB default`, or, for a setting of
    /// the cluster, the broker's own word for its source.
    pub source: String,
}

impl From<&source::ResolvedValue> for Setting {
    fn from(resolved: &source::ResolvedValue) -> Self {
        Setting {
            value: resolved.value.clone(),
            source: resolved.source.to_string(),
        }
    }
}

/// Resolved values as the document holds them.
pub fn settings(values: &[source::ResolvedValue]) -> BTreeMap<String, Setting> {
    values
        .iter()
        .map(|value| (value.key.clone(), Setting::from(value)))
        .collect()
}

/// The resolved target: which cluster, and the client settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// The target's name, where its file gives one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The addresses asked first, `host:port`.
    pub bootstrap_servers: Vec<String>,
    /// Whether the run started embedded brokers of its own.
    pub embedded: bool,
    /// The producers' properties, by Kafka's name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub producer: BTreeMap<String, Setting>,
    /// The consumers' properties, by Kafka's name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub consumer: BTreeMap<String, Setting>,
    /// The admin client's properties, by Kafka's name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub admin: BTreeMap<String, Setting>,
    /// The configs that topics of the run's own were created with.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub topic_config: BTreeMap<String, Setting>,
    /// Properties that Kafka knows, that were set, and that have no effect here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_honoured: Vec<NotHonoured>,
}

/// A property that Kafka knows, that was set, and that has no effect here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotHonoured {
    /// Kafka's name.
    pub name: String,
    /// The value that was given, redacted if it is a secret.
    pub value: String,
    /// Why it has no effect.
    pub why: String,
}

/// What the cluster told of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// The cluster's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<String>,
    /// The brokers' version as far as the API versions they serve give it away, such as `4.1 or newer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kafka_version: Option<String>,
    /// The brokers in Metadata.
    pub brokers: Vec<ClusterBroker>,
    /// The topics' configs as the brokers see them; absent where the principal may not describe them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topic_configs: Vec<TopicConfigs>,
    /// The brokers' configs that matter to a load test; absent where the principal may not describe them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub broker_configs: Vec<BrokerConfigs>,
}

/// A broker as Metadata gives it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterBroker {
    /// The broker's node id.
    pub id: i32,
    /// The host that it advertises.
    pub host: String,
    /// The port that it advertises.
    pub port: u16,
    /// Its rack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rack: Option<String>,
}

/// The configs of one topic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicConfigs {
    /// The topic's name.
    pub topic: String,
    /// Its configs by name.
    pub configs: BTreeMap<String, Setting>,
}

/// The configs of one broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokerConfigs {
    /// The broker's node id.
    pub broker: i32,
    /// Its configs by name.
    pub configs: BTreeMap<String, Setting>,
}

/// The host that the load came from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// The host's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// CPUs that the process may run on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus_count: Option<u32>,
    /// The CPU's model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_model: Option<String>,
    /// The memory of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// The kernel's release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The kernel's clock source, such as `tsc`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_source: Option<String>,
    /// The CPUs that the control group's quota grants; absent where it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup_quota_cpus: Option<f64>,
}

/// How the clocks of sender and receiver are related, on which the end-to-end latency rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockDomain {
    /// Sender and receiver are one process with one monotonic clock: no error of synchronisation.
    OneProcess,
    /// The sender is another run of the same run id, and its clock was compared with the receiver's; see `clocks`.
    Compared,
    /// The sender is another run of the same run id, and its clock is not known: end-to-end latency rests on the records'
    /// timestamps, is wrong by as much as the wall clocks differ, and is not valid.
    Unknown,
}

/// How the clock of this run, which received, and that of the run that sent were found to be related.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clocks {
    /// This run's wall clock less the sender's, in nanoseconds; end-to-end latency does not depend on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_offset_ns: Option<i64>,
    /// End-to-end latency is wrong by at most this: half of the least time that a question and its answer were under way,
    /// and what two clocks may drift apart since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_ns: Option<u64>,
    /// Questions that were answered.
    pub exchanges_count: u64,
    /// Records that came without the sender's clock being known.
    pub unplaced_count: u64,
}

/// A topic that was loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topic {
    /// Its name.
    pub name: String,
    /// Its partitions.
    pub partitions_count: u32,
    /// Copies of each partition; absent where Metadata did not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replication_factor_count: Option<u32>,
    /// Whether the run created it.
    pub created_by_us: bool,
    /// Whether it is still there after the run.
    pub kept: bool,
}

/// A consumer group that read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Its id.
    pub name: String,
    /// Its members.
    pub consumers_count: u32,
    /// Whether the run created it.
    pub created_by_us: bool,
    /// Whether it is still there after the run.
    pub kept: bool,
    /// How often a member gave up partitions, or lost them, while the load ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revocations_count: Option<u64>,
    /// For how long partitions had no member between two owners, summed over partitions, while the load ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unassigned_ns: Option<u64>,
}

/// The purposes of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PhaseName {
    /// Topics are created, clients connected, consumers assigned.
    Prepare,
    /// Load at the workload's rate, kept out of the measured figures.
    WarmUp,
    /// The phase that the figures are of.
    Measure,
    /// What was sent is awaited, and what was made is removed.
    Stop,
}

/// A part of a run with one purpose.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// Its purpose.
    pub name: PhaseName,
    /// When it began.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// Whether it measured for less than 60 s, so that its figures say little about a steady state.
    #[serde(default, skip_serializing_if = "is_false")]
    pub short: bool,
    /// The accounting of the records that were due in it; absent for phases without load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub totals: Option<Totals>,
    /// The latencies of the records that were due in it, one entry a metric that was measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub latencies: Vec<LatencySummary>,
    /// Batches and requests; absent for phases without load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batching: Option<Batching>,
    /// The most records that were acknowledged and not yet consumed, as seen once a second, on the average over groups; absent
    /// without consumers, and outside of the measured phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backlog_max_count: Option<u64>,
}

fn is_false(value: &bool) -> bool {
    !value
}

impl Phase {
    /// How long it lasted.
    pub fn duration_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// The summary of one metric, where it was measured.
    pub fn latency(&self, metric: Metric) -> Option<&LatencySummary> {
        self.latencies.iter().find(|summary| summary.metric == metric)
    }
}

/// The accounting of records over a phase or over the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Records due by the schedule; absent at rate max, which has no schedule, and when nothing was produced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_count: Option<u64>,
    /// Records due and not sent when the phase ended; absent where `due_count` is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsent_count: Option<u64>,
    /// Records handed to the producers.
    pub sent_count: u64,
    /// Records that a broker acknowledged; absent with acks=0, where none is asked to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged_count: Option<u64>,
    /// With acks=0 only: records given to the kernel, which no broker acknowledges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_count: Option<u64>,
    /// Records that failed with the broker's answer or before sending: surely not in the log.
    pub refused_count: u64,
    /// Records that failed without an answer: they may be in the log.
    pub unknown_count: u64,
    /// Records still under way when the drain timeout ended.
    pub unfinished_count: u64,
    /// Keys and values of the records acknowledged (written, with acks=0), before compression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_bytes: Option<u64>,
    /// The record batches that held them, as sent, after compression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire_bytes: Option<u64>,
    /// What the brokers' end offsets grew by, control batches taken off; absent on topics that others write to, and
    /// where offsets could not be sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmed_count: Option<u64>,
    /// Transactions; absent where none were made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transactions: Option<Transactions>,
    /// What each group consumed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub consumed: Vec<Consumed>,
    /// What the consumers found when they held the records against what was sent; absent where nothing was verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification: Option<Verification>,
    /// Records acknowledged (written, with acks=0) per second of the phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged_per_second: Option<f64>,
    /// Payload bytes of these per second of the phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_bytes_per_second: Option<f64>,
    /// Records confirmed by the brokers per second of the phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmed_per_second: Option<f64>,
}

/// Transactions that ended in a phase. Their records are counted by the phase in which they were due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transactions {
    /// Transactions that were committed.
    pub committed_count: u64,
    /// Transactions that were aborted, because a batch of theirs failed.
    pub aborted_count: u64,
    /// Transactions whose end the coordinator had not confirmed when the drain timeout ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undecided_count: Option<u64>,
    /// Records that a broker acknowledged and that were then aborted, so that readers of committed records never get them.
    pub aborted_records_count: u64,
    /// Acknowledged records of undecided transactions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undecided_records_count: Option<u64>,
    /// Markers that the coordinators wrote for them, one in each partition of each transaction: offsets that hold no record,
    /// taken off `confirmed_count`.
    pub markers_count: u64,
}

/// What one consumer group read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Consumed {
    /// The group's id, or the assignment's name where there is no group.
    pub group: String,
    /// Records delivered, each counted as often as it came.
    pub records_count: u64,
    /// Their keys and values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_bytes: Option<u64>,
    /// Records delivered per second of the phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records_per_second: Option<f64>,
}

/// What the consumers found, summed over the groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verification {
    /// Records that were held against what was sent.
    pub checked_count: u64,
    /// Records acknowledged that a group did not get, though it read what lies behind them; absent where another run sent
    /// them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_count: Option<u64>,
    /// Records at the end of the log that a group had not read when the drain time-out was over: not lost, only not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread_count: Option<u64>,
    /// Records that retention had removed from the log before a group came to read them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expired_count: Option<u64>,
    /// Records below an offset that a group had committed at the end, and that it had not been given: were it to start again,
    /// it would never get them. Absent where the offsets could not be asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub committed_ahead_count: Option<u64>,
    /// Records that stand in the log more than once.
    pub duplicated_count: u64,
    /// Records that a group got again at an offset it already had, as after a rebalance. No fault of the log.
    pub redelivered_count: u64,
    /// Records that stand behind a later record of the same producer in the same partition.
    pub reordered_count: u64,
    /// Records whose check does not fit their content.
    pub corrupt_count: u64,
    /// Records that this run did not send.
    pub foreign_count: u64,
}

impl Verification {
    /// Whether any record was lost, duplicated, reordered or damaged.
    pub fn found_damage(&self) -> bool {
        self.lost_count.is_some_and(|count| count > 0)
            || self.committed_ahead_count.is_some_and(|count| count > 0)
            || self.duplicated_count > 0
            || self.reordered_count > 0
            || self.corrupt_count > 0
    }
}

/// What a latency is measured between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// From when the record was due to when its acknowledgement was read: what an application feels.
    Response,
    /// From handing the record to the producer to when the last byte of its request was given to the kernel.
    Queue,
    /// From there to when the acknowledgement was read: network and broker.
    Service,
    /// From when the record was due to when a consumer had it.
    EndToEnd,
    /// From when the record was due to when it was handed to the producer: the generator's own lateness.
    ScheduleLag,
    /// From when a transaction's commit was asked for to the coordinator's confirmation, the sending of what it still held
    /// included. One value a transaction.
    Commit,
    /// The same for aborts.
    Abort,
}

/// The distribution of one latency over a phase, from a histogram with three significant digits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencySummary {
    /// What is measured.
    pub metric: Metric,
    /// Values in the histogram.
    pub count: u64,
    /// The smallest value.
    pub min_ns: u64,
    /// The 50th percentile.
    pub p50_ns: u64,
    /// The 95th percentile.
    pub p95_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The 99.9th percentile.
    pub p99_9_ns: u64,
    /// The 99.99th percentile.
    pub p99_99_ns: u64,
    /// The largest value.
    pub max_ns: u64,
    /// The arithmetic mean.
    pub mean_ns: f64,
    /// Values among `count` that are only lower bounds: the ages of records that were due and not sent, or sent and not
    /// finished, when the phase ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub censored_count: Option<u64>,
    /// Values among `count` that were below zero, which clocks of two hosts can bring about; they are taken as zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub negative_count: Option<u64>,
}

/// Batches and requests of a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Batching {
    /// Record batches sent, repeats not counted.
    pub batches_count: u64,
    /// Produce requests sent, repeats counted.
    pub requests_count: u64,
    /// Mean size of a batch as sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average_batch_bytes: Option<f64>,
    /// Mean number of records in a batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average_batch_records: Option<f64>,
    /// Produce requests per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_second: Option<f64>,
    /// Size of the batches as sent, over their size before compression: 1 means not compressed, smaller is better.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compression_ratio: Option<f64>,
    /// Requests sent again after a retriable error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries_count: Option<u64>,
}

/// What one partition took in the measured phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Partition {
    /// The topic's name.
    pub topic: String,
    /// The partition's number.
    pub partition: u32,
    /// The leader's node id when the phase ended; absent when there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<i32>,
    /// Records acknowledged (written, with acks=0).
    pub acknowledged_count: u64,
    /// Their keys and values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_bytes: Option<u64>,
    /// Median service time of its batches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_p50_ns: Option<u64>,
    /// 99th percentile of the service time of its batches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_p99_ns: Option<u64>,
}

/// How evenly records fell on partitions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Skew {
    /// Partitions of all topics.
    pub partitions_count: u32,
    /// Those that took at least one record.
    pub used_partitions_count: u32,
    /// Records on the fullest partition.
    pub max_count: u64,
    /// Records on the emptiest partition.
    pub min_count: u64,
    /// Records on the fullest partition over the mean of all: 1 is even.
    pub max_over_mean_ratio: f64,
}

impl Skew {
    /// The skew of these record counts, one a partition; `None` without partitions or records.
    pub fn of(records_per_partition: &[u64]) -> Option<Skew> {
        let total: u128 = records_per_partition.iter().map(|&count| u128::from(count)).sum();
        let max_count = records_per_partition.iter().copied().max()?;
        let min_count = records_per_partition.iter().copied().min()?;
        if total == 0 {
            return None;
        }
        let mean = total as f64 / records_per_partition.len() as f64;
        Some(Skew {
            partitions_count: u32::try_from(records_per_partition.len()).unwrap_or(u32::MAX),
            used_partitions_count: records_per_partition.iter().filter(|&&count| count > 0).count() as u32,
            max_count,
            min_count,
            max_over_mean_ratio: max_count as f64 / mean,
        })
    }
}

/// What one broker did in the measured phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Broker {
    /// The broker's node id.
    pub id: i32,
    /// Produce requests sent to it.
    pub requests_count: u64,
    /// Bytes of record batches sent to it, after compression.
    pub produced_bytes: u64,
    /// Bytes fetched from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetched_bytes: Option<u64>,
    /// Median service time of its Produce requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_p50_ns: Option<u64>,
    /// 99th percentile of the service time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_p99_ns: Option<u64>,
    /// Longest service time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_max_ns: Option<u64>,
    /// Time for which it told clients to hold back because of a quota, summed over its answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttle_ns: Option<u64>,
}

/// What the load generator used, and how well it kept its schedule, over the measured phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Generator {
    /// CPU time by the threads' role.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<ThreadRole>,
    /// CPU seconds of all the generator's threads for a million records, sent and consumed counted apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_seconds_per_million_records: Option<f64>,
    /// CPU time of the busiest thread over the phase's duration, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busiest_thread_utilisation_ratio: Option<f64>,
    /// CPU time of the whole process over what its CPUs and its quota allow, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_utilisation_ratio: Option<f64>,
    /// The control group's throttling; absent where there is no quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<CgroupThrottling>,
    /// Time for which a record that was due waited because the producer's buffer was full, summed over the producers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer_full_ns: Option<u64>,
    /// That time over the phase's duration times the producers, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer_full_ratio: Option<f64>,
    /// Time for which brokers told the clients to hold back because of a quota, summed over the answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttle_ns: Option<u64>,
    /// The highest number of records handed to the producers in 100 ms, times ten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_100ms_per_second: Option<f64>,
    /// Records that were sent late, and what became of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<LateSends>,
}

/// Records that were handed to the producer late. They keep their due time, are sent as soon as possible, and none is
/// skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LateSends {
    /// Records that were handed over more than `threshold_ns` after they were due.
    pub records_count: u64,
    /// From which lateness a record counts.
    pub threshold_ns: u64,
}

/// The CPU time of the threads of one role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadRole {
    /// What the threads do, such as `producer` or `consumer`.
    pub role: String,
    /// How many they are.
    pub threads_count: u32,
    /// CPU time in user mode, summed over them.
    pub cpu_user_ns: u64,
    /// CPU time in the kernel, summed over them.
    pub cpu_system_ns: u64,
}

/// How the control group's CPU quota held the process back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupThrottling {
    /// Scheduling periods that passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub periods_count: Option<u64>,
    /// Periods in which it was throttled.
    pub throttled_periods_count: u64,
    /// Time for which it was throttled, summed over CPUs.
    pub throttled_ns: u64,
}

/// Errors of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorGroup {
    /// Kafka's name of the error, or ours for those of the client, such as `delivery-timeout`.
    pub kind: String,
    /// Occurrences (batches, requests or connections).
    pub count: u64,
    /// Records that failed with it in the end; absent where retries made good, or where no record was concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records_count: Option<u64>,
    /// When it was first seen.
    pub first_at_ns: u64,
    /// When it was last seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_at_ns: Option<u64>,
    /// The broker that it was first seen at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broker: Option<i32>,
    /// The message of the first one.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// What the reader of the figures should know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// A short name that stays the same between versions, in kebab case.
    pub code: String,
    /// What was seen and what follows.
    pub text: String,
}

/// Something that happened during the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When.
    pub time_ns: u64,
    /// What, in kebab case, such as `leader-changed` or `connection-lost`.
    pub kind: String,
    /// The broker concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broker: Option<i32>,
    /// The partition concerned, `topic-number`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// A line for people.
    pub label: String,
}

/// The generator's resident memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// When the load began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss_start_bytes: Option<u64>,
    /// When 10 % of the load's time had passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss_at_10_percent_bytes: Option<u64>,
    /// When 90 % of the load's time had passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss_at_90_percent_bytes: Option<u64>,
    /// When the load ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss_end_bytes: Option<u64>,
    /// The most at any time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss_peak_bytes: Option<u64>,
}

/// A judgement with the figures it rests on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Whether the target rate was sustained; absent where there was no target rate, or it cannot be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sustained: Option<bool>,
    /// What held the run back.
    pub limited_by: LimitedBy,
    /// Why, the weightiest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
}

/// What became of one term of the objectives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObjectiveOutcome {
    /// The term, as it was written.
    pub objective: String,
    /// What was measured; absent where it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<f64>,
    /// Its unit: `ns`, `records` or `ratio`.
    pub unit: String,
    /// Whether the term was kept. What was not measured was not.
    pub kept: bool,
}

/// What held a run back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitedBy {
    /// The load generator: its CPU, its control group's quota, or its own schedule.
    Generator,
    /// A client quota of the cluster.
    Quota,
    /// The cluster, or the network to it.
    Cluster,
    /// Nothing: the target rate was reached.
    Nothing,
    /// It cannot be told from what was measured.
    Unknown,
}

/// One figure that a verdict rests on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// A short name that stays the same between versions, in kebab case.
    pub code: String,
    /// The finding in one sentence, figure included.
    pub text: String,
    /// The figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figure: Option<f64>,
    /// The figure's unit, such as `ratio`, `ns` or `records per second`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
}

/// The other files of the result folder, by their names in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Files {
    /// The interval log of all histograms, HDR format V2, one entry a second, phase and metric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<String>,
}
