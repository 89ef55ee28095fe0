//! What a load is given and what it tells while it runs. It never sees an argument or a file.

use client::admin::AdminError;
use model::result::{Event, PhaseName, RunResult, Warning};
use model::target::Target;
use model::workload::Workload;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

/// Where consumers of existing topics start to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StartFrom {
    /// At the first record that is there.
    Earliest,
    /// At the records that come after they are assigned. For topics of the run's own the two are the same.
    #[default]
    Latest,
}

/// One workload on one target, with what the user wants besides.
#[derive(Clone, Debug)]
pub struct LoadPlan {
    /// Identifies the run, and ties the records' stamps to it.
    pub run_id: u64,
    /// Whether another run was given the same, so that one consumes what the other produces.
    pub is_run_id_shared: bool,
    /// The workload.
    pub workload: Workload,
    /// The target.
    pub target: Target,
    /// The content of the payload file, where the workload names one; of the length that the workload says.
    pub payload_file: Option<Vec<u8>>,
    /// Keep topics and groups that the run made.
    pub keep: bool,
    /// Run although the brokers' disks may fill up.
    pub force: bool,
    /// Where consumers start.
    pub from: StartFrom,
    /// How long what was sent is awaited at the end.
    pub drain_timeout: Duration,
    /// Threads for producers and for consumers; `None` lets the load choose by the number of CPUs.
    pub threads: Option<usize>,
    /// Whether the brokers are embedded ones that the run started, of which nothing outlives it.
    pub embedded: bool,
    /// The command line, for the result.
    pub command: Vec<String>,
    /// A command line that does the same again, for the result.
    pub reproduce: Option<String>,
}

/// Figures of about the last second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// The phase.
    pub phase: Option<PhaseName>,
    /// Since the start of load.
    pub elapsed_ns: u64,
    /// When the load ends by plan; absent where numbers of records end it.
    pub planned_ns: Option<u64>,
    /// Records handed to producers, per second.
    pub published_per_second: f64,
    /// Records acknowledged (written, with acks=0), per second.
    pub acknowledged_per_second: f64,
    /// Records delivered, over all groups, per second.
    pub consumed_per_second: f64,
    /// Acknowledged and not yet delivered, over all groups; absent without consumers or producers.
    pub backlog_count: Option<u64>,
    /// Records refused or unknown so far.
    pub failed_count: u64,
    /// 99th percentile of response time, or of service time at rate max.
    pub p99_ns: Option<u64>,
}

/// What a load tells while it runs.
#[derive(Clone, Debug)]
pub enum LoadEvent<'a> {
    /// A step of the preparation or of the end, in words.
    Step(&'a str),
    /// Something that the user should know now.
    Warning(&'a Warning),
    /// A phase with load begins.
    PhaseStarted(PhaseName),
    /// About once a second.
    Progress(Progress),
    /// Something happened that goes into the result.
    Happened(&'a Event),
    /// Lines for the interval log.
    Series(&'a str),
}

/// Where the load tells it. An error ends the run as an interruption does; it comes back in [`Ended::sink_error`].
pub trait Sink {
    /// Takes one event.
    fn take(&mut self, event: LoadEvent<'_>) -> std::io::Result<()>;
}

impl<F: FnMut(LoadEvent<'_>) -> std::io::Result<()>> Sink for F {
    fn take(&mut self, event: LoadEvent<'_>) -> std::io::Result<()> {
        self(event)
    }
}

/// How the user ends a run early: once for the summary of what was measured. Shared with the signal handler.
#[derive(Debug, Default)]
pub struct Interrupt(AtomicU8);

impl Interrupt {
    /// Not interrupted.
    pub const fn new() -> Interrupt {
        Interrupt(AtomicU8::new(0))
    }

    /// Interrupts, and says how often it has been done before.
    pub fn raise(&self) -> u8 {
        self.0.fetch_add(1, Ordering::AcqRel)
    }

    /// Whether it was raised.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Acquire) > 0
    }
}

/// A run that came as far as its load.
#[derive(Debug)]
pub struct Ended {
    /// Everything about it.
    pub result: RunResult,
    /// The sink failed, so that something of the run was not kept (such as a full disk).
    pub sink_error: Option<std::io::Error>,
}

/// Why a run did not come as far as its load. Nothing is left on the cluster, or the message says what is.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The cluster could not be asked.
    #[error("{doing}: {source}")]
    Admin {
        /// What was being done.
        doing: &'static str,
        /// What went wrong.
        #[source]
        source: AdminError,
    },
    /// The workload does not fit the cluster.
    #[error("{0}")]
    Unfit(String),
    /// A client could not get ready.
    #[error("{0}")]
    NotReady(String),
    /// The user ended it before the load began.
    #[error("interrupted before the load began")]
    Interrupted,
    /// The system refused something (sockets, threads).
    #[error("{doing}: {source}")]
    System {
        /// What was being done.
        doing: &'static str,
        /// What went wrong.
        #[source]
        source: std::io::Error,
    },
}
