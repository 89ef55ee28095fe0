//! What a thread of the load writes down: histograms and counts of the current second, by phase.
//!
//! Once a second the thread hands its [`Interval`] to the coordinator and goes on with one that comes back empty, so that
//! memory does not grow with the run and nothing is shared between threads while records are being handled.

use measure::histogram::LatencyHistogram;
use measure::rates::WindowCounts;
use model::result::Metric;
use std::collections::BTreeMap;

/// Sends later than this after they were due are counted as late.
pub const LATE_NS: u64 = 10_000_000;
/// Up to this many partitions each has a histogram of its own.
pub const MOST_PARTITION_HISTOGRAMS: usize = 96;

/// The metrics in the order in which a [`PhaseSheet`] holds them.
pub const METRICS: [Metric; 7] = [
    Metric::Response,
    Metric::Queue,
    Metric::Service,
    Metric::EndToEnd,
    Metric::ScheduleLag,
    Metric::Commit,
    Metric::Abort,
];

/// The name of a metric in the interval log's tags.
pub fn metric_name(metric: Metric) -> &'static str {
    match metric {
        Metric::Response => "response",
        Metric::Queue => "queue",
        Metric::Service => "service",
        Metric::EndToEnd => "end-to-end",
        Metric::ScheduleLag => "schedule-lag",
        Metric::Commit => "commit",
        Metric::Abort => "abort",
    }
}

/// Counts of one partition within a phase.
#[derive(Clone, Debug, Default)]
pub struct PartitionSheet {
    /// Records acknowledged (written, with acks=0).
    pub acknowledged: u64,
    /// Service times, one a batch, where there are few enough partitions.
    pub service: Option<Box<LatencyHistogram>>,
}

/// Counts of one broker within a phase.
#[derive(Clone, Debug, Default)]
pub struct BrokerSheet {
    /// Batches that ended there.
    pub batches: u64,
    /// Bytes of the batches.
    pub bytes: u64,
    /// Produce requests.
    pub requests: u64,
    /// Throttle time that it asked producers for.
    pub throttle_ns: u64,
    /// Bytes of answers to Fetch.
    pub fetched_bytes: u64,
    /// Throttle time that it asked consumers for.
    pub fetch_throttle_ns: u64,
    /// Service times, one a batch.
    pub service: LatencyHistogram,
}

/// One kind of error.
#[derive(Clone, Debug)]
pub struct ErrorSheet {
    /// Batches or occurrences.
    pub count: u64,
    /// Records concerned.
    pub records: u64,
    /// When it was first seen.
    pub first_ns: u64,
    /// When it was last seen.
    pub last_ns: u64,
    /// The first broker that it was seen at.
    pub broker: Option<i32>,
    /// The first message.
    pub message: String,
}

/// Transactions that ended within a phase, and records by the phase in which they were due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransactionSheet {
    /// Committed.
    pub committed: u64,
    /// Aborted.
    pub aborted: u64,
    /// Given up at the end without the coordinator's answer.
    pub undecided: u64,
    /// Acknowledged records that were then aborted.
    pub aborted_records: u64,
    /// Acknowledged records of undecided transactions.
    pub undecided_records: u64,
    /// Markers written.
    pub markers: u64,
}

/// Everything that is counted for one phase.
#[derive(Debug, Default)]
pub struct PhaseSheet {
    /// One a metric, in the order of [`METRICS`]; made when first needed.
    pub latency: [Option<Box<LatencyHistogram>>; 7],
    /// Records handed to the producer.
    pub sent: u64,
    /// Records acknowledged.
    pub acknowledged: u64,
    /// Records written with acks=0.
    pub written: u64,
    /// Records refused.
    pub refused: u64,
    /// Records whose end is not known.
    pub unknown: u64,
    /// Records given up at the end.
    pub unfinished: u64,
    /// Keys and values of what was acknowledged or written.
    pub payload_bytes: u64,
    /// Batches as sent.
    pub wire_bytes: u64,
    /// Batches before compression.
    pub uncompressed_bytes: u64,
    /// Batches.
    pub batches: u64,
    /// Produce requests.
    pub requests: u64,
    /// Batches sent again.
    pub retried_batches: u64,
    /// Time for which records that were due waited for `buffer.memory`, summed over producers.
    pub buffer_full_ns: u64,
    /// Records sent later than [`LATE_NS`] after they were due.
    pub late: u64,
    /// Transactions.
    pub transactions: TransactionSheet,
    /// By topic number and partition.
    pub partitions: BTreeMap<(usize, i32), PartitionSheet>,
    /// By broker.
    pub brokers: BTreeMap<i32, BrokerSheet>,
    /// By subscription (index over all topics): records and payload bytes delivered.
    pub consumed: BTreeMap<usize, (u64, u64)>,
}

impl PhaseSheet {
    /// The histogram of a metric.
    pub fn histogram(&mut self, metric: Metric) -> &mut LatencyHistogram {
        let place = METRICS
            .iter()
            .position(|&other| other == metric)
            .expect("METRICS has all");
        self.latency[place].get_or_insert_with(Box::default)
    }

    /// Adds all of `other`.
    pub fn add(&mut self, other: &PhaseSheet) {
        self.add_latencies(other);
        self.sent += other.sent;
        self.acknowledged += other.acknowledged;
        self.written += other.written;
        self.refused += other.refused;
        self.unknown += other.unknown;
        self.unfinished += other.unfinished;
        self.payload_bytes += other.payload_bytes;
        self.wire_bytes += other.wire_bytes;
        self.uncompressed_bytes += other.uncompressed_bytes;
        self.batches += other.batches;
        self.requests += other.requests;
        self.retried_batches += other.retried_batches;
        self.buffer_full_ns += other.buffer_full_ns;
        self.late += other.late;
        let (mine, theirs) = (&mut self.transactions, &other.transactions);
        mine.committed += theirs.committed;
        mine.aborted += theirs.aborted;
        mine.undecided += theirs.undecided;
        mine.aborted_records += theirs.aborted_records;
        mine.undecided_records += theirs.undecided_records;
        mine.markers += theirs.markers;
        for (&partition, theirs) in &other.partitions {
            let mine = self.partitions.entry(partition).or_default();
            mine.acknowledged += theirs.acknowledged;
            if let Some(theirs) = &theirs.service {
                mine.service.get_or_insert_with(Box::default).merge(theirs);
            }
        }
        for (&broker, theirs) in &other.brokers {
            let mine = self.brokers.entry(broker).or_default();
            mine.batches += theirs.batches;
            mine.bytes += theirs.bytes;
            mine.requests += theirs.requests;
            mine.throttle_ns += theirs.throttle_ns;
            mine.fetched_bytes += theirs.fetched_bytes;
            mine.fetch_throttle_ns += theirs.fetch_throttle_ns;
            mine.service.merge(&theirs.service);
        }
        for (&subscription, &(records, bytes)) in &other.consumed {
            let mine = self.consumed.entry(subscription).or_default();
            mine.0 += records;
            mine.1 += bytes;
        }
    }

    /// Adds the histograms of `other` and nothing else.
    pub fn add_latencies(&mut self, other: &PhaseSheet) {
        for (mine, theirs) in self.latency.iter_mut().zip(&other.latency) {
            if let Some(theirs) = theirs.as_ref().filter(|theirs| !theirs.is_empty()) {
                mine.get_or_insert_with(Box::default).merge(theirs);
            }
        }
    }

    /// Empties the histograms; their memory is kept.
    pub fn reset_latencies(&mut self) {
        for histogram in self.latency.iter_mut().flatten() {
            histogram.reset();
        }
    }

    /// Forgets everything but the memory of histograms.
    fn reset(&mut self) {
        let latency = std::mem::take(&mut self.latency);
        let partitions = std::mem::take(&mut self.partitions);
        let brokers = std::mem::take(&mut self.brokers);
        *self = PhaseSheet {
            latency,
            partitions,
            brokers,
            ..PhaseSheet::default()
        };
        self.reset_latencies();
        for sheet in self.partitions.values_mut() {
            sheet.acknowledged = 0;
            if let Some(histogram) = &mut sheet.service {
                histogram.reset();
            }
        }
        for sheet in self.brokers.values_mut() {
            let mut service = std::mem::take(&mut sheet.service);
            service.reset();
            *sheet = BrokerSheet {
                service,
                ..BrokerSheet::default()
            };
        }
    }
}

/// What one thread saw in about a second.
#[derive(Debug, Default)]
pub struct Interval {
    /// One a phase, in their order.
    pub phases: Vec<PhaseSheet>,
    /// Records handed to the producers, by when they were.
    pub windows: WindowCounts,
    /// Errors by kind.
    pub errors: BTreeMap<String, ErrorSheet>,
}

impl Interval {
    /// Empty, for that many phases.
    pub fn new(phases: usize) -> Interval {
        Interval {
            phases: (0..phases).map(|_| PhaseSheet::default()).collect(),
            ..Interval::default()
        }
    }

    /// Forgets everything but the memory of histograms.
    pub fn reset(&mut self) {
        self.windows = WindowCounts::new();
        self.errors.clear();
        for phase in &mut self.phases {
            phase.reset();
        }
    }

    /// Counts an error.
    pub fn count_error(
        &mut self,
        kind: String,
        records: u64,
        at_ns: u64,
        broker: Option<i32>,
        message: &str,
    ) {
        let sheet = self.errors.entry(kind).or_insert_with(|| ErrorSheet {
            count: 0,
            records: 0,
            first_ns: at_ns,
            last_ns: at_ns,
            broker,
            message: message.to_owned(),
        });
        sheet.count += 1;
        sheet.records += records;
        sheet.last_ns = at_ns;
    }
}

/// Adds errors of one map to another.
pub fn add_errors(into: &mut BTreeMap<String, ErrorSheet>, from: &BTreeMap<String, ErrorSheet>) {
    for (kind, theirs) in from {
        match into.get_mut(kind) {
            Some(mine) => {
                mine.count += theirs.count;
                mine.records += theirs.records;
                mine.last_ns = mine.last_ns.max(theirs.last_ns);
                if theirs.first_ns < mine.first_ns {
                    mine.first_ns = theirs.first_ns;
                    mine.broker = theirs.broker;
                    mine.message.clone_from(&theirs.message);
                }
            }
            None => {
                into.insert(kind.clone(), theirs.clone());
            }
        }
    }
}
