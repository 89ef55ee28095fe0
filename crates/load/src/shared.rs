//! What the threads of a load share: the clock, the phases, the flags by which they are started and stopped, and counters
//! for the progress line. Histograms are not among it; see [`crate::recorder`].

use crate::host::{self, CpuTime};
use crate::meeting::SenderClock;
use crate::places::{ByPlace, Places};
use crate::producing::ProducerPart;
use crate::recorder::Interval;
use client::clock::RunClock;
use client::net::{ConnId, Frame, NetEvent};
use measure::offset_index::OffsetIndex;
use measure::share::Share;
use model::result::{Event, PhaseName};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender};

/// A phase with load.
#[derive(Clone, Debug)]
pub struct LoadPhase {
    /// Warm-up or measure.
    pub name: PhaseName,
    /// When it ends, since the start of load; `None` where only the number of records ends it.
    pub end_ns: Option<u64>,
    /// Whether it is as long as a number of records takes.
    pub counted: bool,
}

/// Counters for the progress line.
#[derive(Debug, Default)]
pub struct LiveCounters {
    /// Records handed to producers.
    pub sent: AtomicU64,
    /// Records acknowledged, or written with acks=0.
    pub acknowledged: AtomicU64,
    /// Markers that coordinators write for transactions that have ended.
    pub markers: AtomicU64,
    /// Records refused or unknown.
    pub failed: AtomicU64,
    /// Records delivered, over all groups.
    pub consumed: AtomicU64,
}

/// What a thread is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ThreadRole {
    /// It produces.
    Producer,
    /// It consumes.
    Consumer,
}

impl ThreadRole {
    /// Its name in the result.
    pub fn name(self) -> &'static str {
        match self {
            ThreadRole::Producer => "producer",
            ThreadRole::Consumer => "consumer",
        }
    }
}

/// Why a client cannot go on.
#[derive(Clone, Debug)]
pub struct Problem {
    /// Which client, in a few words.
    pub who: String,
    /// What is wrong.
    pub what: String,
}

impl Problem {
    pub(crate) fn producer(part: &ProducerPart, what: String) -> Problem {
        Problem {
            who: format!("producer {} of topic {}", part.index, part.topic_name),
            what,
        }
    }
}

/// What threads tell the coordinator.
#[derive(Debug)]
pub enum Message {
    /// About a second of one thread.
    Interval {
        /// The thread's role.
        role: ThreadRole,
        /// The thread.
        thread: std::thread::ThreadId,
        /// What it saw.
        interval: Box<Interval>,
        /// CPU time that the thread has used so far.
        cpu: Option<CpuTime>,
        /// The phase in which it used it since it was last heard of; `None` before the load.
        phase: Option<usize>,
        /// When it was handed over.
        at_ns: u64,
    },
    /// A client cannot go on.
    Failed(Problem),
    /// Something worth keeping happened.
    Event(Event),
}

/// Buffers that a thread uses again in each turn.
#[derive(Debug, Default)]
pub(crate) struct Live {
    pub(crate) events: Vec<(ConnId, NetEvent)>,
    pub(crate) read: Vec<Frame>,
}

/// See the module.
#[derive(Debug)]
pub struct Shared {
    /// The clock of all stamps.
    pub clock: RunClock,
    /// Ties stamps to this run.
    pub run_id: u64,
    /// The phases with load, in order.
    pub phases: Vec<LoadPhase>,
    /// Whether every phase ends at a time.
    pub phases_end_by_time: bool,
    /// The places of the topics' partitions.
    pub places: Places,
    /// Each producer's share, by its number; `None` at rate max.
    pub shares: Vec<Option<Share>>,
    /// Each producer's sequence numbers by phase.
    pub sequences: Vec<Vec<std::ops::Range<u64>>>,
    /// Whether what was acknowledged is kept to be held against what is consumed.
    pub verifies: bool,
    /// For records without a stamp: due times by partition and offset, one a partition.
    pub offset_indices: Option<ByPlace<Mutex<OffsetIndex>>>,
    /// The time of another run that sends what this one consumes, where the two share a run id.
    pub sender_clock: Option<SenderClock>,
    /// Producers and consumers that are ready.
    pub ready: AtomicUsize,
    /// Counters for the progress line.
    pub live: LiveCounters,
    start: AtomicU64,
    stopping: AtomicBool,
    consumers_done: AtomicBool,
    drain_limit: AtomicU64,
    counted_phase: AtomicUsize,
}

impl Shared {
    /// Before the start.
    #[allow(
        clippy::too_many_arguments,
        reason = "built once, by the coordinator, from values of different kinds"
    )]
    pub fn new(
        clock: RunClock,
        run_id: u64,
        phases: Vec<LoadPhase>,
        partitions_by_topic: &[usize],
        shares: Vec<Option<Share>>,
        sequences: Vec<Vec<std::ops::Range<u64>>>,
        verifies: bool,
        groups_by_offset: Option<usize>,
        drain_limit_ns: u64,
    ) -> Shared {
        let places = Places::new(partitions_by_topic);
        let offset_indices = groups_by_offset
            .map(|groups| ByPlace::new(places.at_start(), move || Mutex::new(OffsetIndex::new(groups))));
        Shared {
            clock,
            run_id,
            phases_end_by_time: phases.iter().all(|phase| phase.end_ns.is_some()),
            phases,
            places,
            shares,
            sequences,
            verifies,
            offset_indices,
            sender_clock: None,
            ready: AtomicUsize::new(0),
            live: LiveCounters::default(),
            start: AtomicU64::new(u64::MAX),
            stopping: AtomicBool::new(false),
            consumers_done: AtomicBool::new(false),
            drain_limit: AtomicU64::new(drain_limit_ns),
            counted_phase: AtomicUsize::new(0),
        }
    }

    /// The load consumes what another run of the same id sends.
    pub fn with_sender_clock(self) -> Shared {
        Shared {
            sender_clock: Some(SenderClock::default()),
            ..self
        }
    }

    /// When the load starts, on the clock; `None` until the coordinator says so.
    #[inline]
    pub fn start_ns(&self) -> Option<u64> {
        Some(self.start.load(Ordering::Acquire)).filter(|&start| start != u64::MAX)
    }

    /// Starts the load at that time.
    pub fn start_at(&self, start_ns: u64) {
        self.start.store(start_ns, Ordering::Release);
    }

    /// Whether the load is to end where it is.
    #[inline]
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Ends the load where it is.
    pub fn stop_now(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// Whether consumers have had all there was.
    #[inline]
    pub fn are_consumers_done(&self) -> bool {
        self.consumers_done.load(Ordering::Acquire)
    }

    /// Tells the consumers to end.
    pub fn end_consumers(&self) {
        self.consumers_done.store(true, Ordering::Release);
    }

    /// How long what was sent is awaited.
    pub fn drain_limit_ns(&self) -> u64 {
        self.drain_limit.load(Ordering::Acquire)
    }

    /// Shortens that, after an interruption.
    pub fn limit_drain(&self, limit_ns: u64) {
        self.drain_limit.fetch_min(limit_ns, Ordering::AcqRel);
    }

    /// A producer has gone on to that phase, where numbers of records end them.
    pub fn enter_counted_phase(&self, phase: usize) {
        self.counted_phase.fetch_max(phase, Ordering::AcqRel);
    }

    /// The phase at that time on the clock; the last one after its end.
    #[inline]
    pub fn phase_at(&self, now_ns: u64) -> usize {
        if !self.phases_end_by_time {
            return self.counted_phase.load(Ordering::Acquire);
        }
        let since_ns = self
            .start_ns()
            .map_or(0, |start_ns| now_ns.saturating_sub(start_ns));
        let place = self
            .phases
            .iter()
            .position(|phase| phase.end_ns.is_some_and(|end_ns| since_ns < end_ns));
        place.unwrap_or(self.phases.len() - 1)
    }

    /// The phase of a producer's record.
    #[inline]
    pub fn phase_of_sequence(&self, producer: u32, sequence: u64) -> usize {
        let ranges = &self.sequences[producer as usize];
        ranges
            .iter()
            .position(|range| sequence < range.end)
            .unwrap_or(self.phases.len() - 1)
    }

    /// Hands a thread's interval to the coordinator, and gives the thread an empty one.
    pub(crate) fn flush(
        &self,
        role: ThreadRole,
        phase: Option<usize>,
        interval: &mut Box<Interval>,
        sender: &Sender<Message>,
        returned: &Receiver<Box<Interval>>,
        at_ns: u64,
    ) {
        let empty = returned
            .try_recv()
            .unwrap_or_else(|_| Box::new(Interval::new(self.phases.len())));
        let full = std::mem::replace(interval, empty);
        let thread = std::thread::current().id();
        let _ = sender.send(Message::Interval {
            role,
            thread,
            interval: full,
            cpu: host::thread_cpu(),
            phase,
            at_ns,
        });
    }
}
