//! The coordinator: starts the threads, tells the phases, gathers what the threads write down, and ends the run.

use crate::channel::receive_within;
use crate::consuming::{self, ConsumerPart, ConsumingPlan};
use crate::host::{self, CpuTime};
use crate::keys::KeyTable;
use crate::meeting::{Half, Meeting, MeetingClients, Told};
use crate::observer::{EndOffsets, Observer};
use crate::payload::PayloadPool;
use crate::plan::{Ended, Interrupt, LoadError, LoadEvent, LoadPlan, Progress, Sink};
use crate::prepare::{self, Prepared, short_id};
use crate::producing::{self, ProducerEnd, ProducerPart, ProducingPlan, STAMP_HEADER, deal};
use crate::recorder::{ErrorSheet, Interval, METRICS, PhaseSheet, add_errors, metric_name};
use crate::shared::{LoadPhase, Message, Problem, Shared, ThreadRole};
use crate::summary;
use crate::verify::{GroupBook, MOST_SENDING_PRODUCERS};
use client::admin::Admin;
use client::batch::{BatchBuilder, HEADER_LEN, RecordHeaders};
use client::clock::RunClock;
use measure::interval_log::{IntervalLog, Tag};
use measure::phases::{PhaseLength, ScheduledPhase};
use measure::rates::AchievedRate;
use measure::schedule::{ConstantRate, Schedule};
use measure::share::Share;
use measure::stamp::STAMP_BYTES;
use measure::trend::Trend;
use model::client_config::TransactionConfig;
use model::result::{CgroupThrottling, Event, Memory, Metric, PhaseName, Warning};
use model::units::TargetRate;
use model::workload::{self, Payload, StampPlacement, Workload};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{JoinHandle, ThreadId};
use std::time::Duration;

/// The cluster has to be reached, and every client to be ready, within this.
const READY_WITHIN: Duration = Duration::from_secs(30);
const CONNECT_WITHIN: Duration = Duration::from_secs(25);
/// How long the end offsets before the load are waited for.
const BASELINE_WITHIN: Duration = Duration::from_secs(10);
/// Of more groups the committed offsets are not asked for at the end.
const MOST_GROUPS_ASKED: usize = 100;
/// After an interruption what was sent is awaited for no longer than this.
const INTERRUPTED_DRAIN_NS: u64 = 1_000_000_000;
/// Calls to a cluster that has not answered before.
const LAST_CALLS_WITHIN: Duration = Duration::from_secs(5);
/// Between the moment at which all clients are ready and the first due time.
const LEAD_NS: u64 = 5_000_000;
const SECOND_NS: u64 = 1_000_000_000;
/// The threads hand over at whole seconds, and what they handed over is told this much later.
const GATHER_NS: u64 = 40_000_000;
/// More events than this are not kept.
const MOST_EVENTS: usize = 1000;

/// CPU time of a thread by phase.
#[derive(Clone, Debug, Default)]
pub struct ThreadUse {
    /// What it did.
    pub role: Option<ThreadRole>,
    /// What it had used when last heard of.
    last: Option<CpuTime>,
    /// By phase.
    pub by_phase: Vec<CpuTime>,
}

/// Everything that was gathered, from which the result is made.
pub struct Gathered {
    /// The run's phases and places.
    pub shared: Arc<Shared>,
    /// The topics.
    pub prepared: Prepared,
    /// Totals by phase.
    pub phases: Vec<PhaseSheet>,
    /// Errors by kind.
    pub errors: BTreeMap<String, ErrorSheet>,
    /// The rate at which records were handed over in each phase.
    pub rates: Vec<AchievedRate>,
    /// CPU by thread.
    pub threads: HashMap<ThreadId, ThreadUse>,
    /// What the producers said at their end.
    pub producer_ends: Vec<ProducerEnd>,
    /// What the groups were given.
    pub books: Vec<Arc<GroupBook>>,
    /// End offsets at the start, at the end of each phase, and when all was awaited.
    pub confirmed: Vec<Option<EndOffsets>>,
    /// Control group throttling at the start and at the end of each phase.
    pub throttling: Vec<Option<CgroupThrottling>>,
    /// The process's CPU time at the start and at the end of each phase.
    pub process_cpu: Vec<Option<CpuTime>>,
    /// When each phase ended, since the start of load.
    pub phase_ends_ns: Vec<u64>,
    /// When the preparation began and the load started, on the clock.
    pub start_ns: u64,
    /// When all was over, on the clock.
    pub end_ns: u64,
    /// How the backlog of all groups went in the measured phase.
    pub backlog: Trend,
    /// The largest that was seen of it.
    pub backlog_max: Option<u64>,
    /// Memory.
    pub memory: Memory,
    /// Events.
    pub events: Vec<Event>,
    /// Warnings.
    pub warnings: Vec<Warning>,
    /// Why it did not come to its end.
    pub failure: Option<String>,
    /// Whether the user ended it.
    pub interrupted: bool,
    /// Groups and whether they are left.
    pub groups_left: Vec<String>,
    /// Records that groups have committed beyond what they were given.
    pub committed_ahead: Option<u64>,
    /// Topics that are left.
    pub topics_left: Vec<String>,
    /// What was told of the sender's clock, where another run sends.
    pub told: Option<Told>,
    /// Schedule of the load.
    pub schedule: Option<Schedule>,
}

/// Runs a workload on a target.
///
/// # Errors
///
/// When the load could not begin. Once it has, whatever happens is in the result.
pub fn run(
    plan: LoadPlan,
    clock: RunClock,
    interrupt: &Interrupt,
    sink: &mut dyn Sink,
) -> Result<Ended, LoadError> {
    let stamp = stamp_placement(&plan.workload);
    let headers = record_headers(&plan.workload, stamp);
    let key_len =
        (plan.workload.key_distributor != workload::KeyDistributor::NoKey).then(KeyTable::key_bytes);
    prepare::check_record_size(&plan, &headers, key_len)?;
    prepare::check_transactions(&plan)?;
    let record_bytes =
        BatchBuilder::record_len_bound(key_len, plan.workload.message_size.bytes() as usize, &headers)
            + HEADER_LEN;
    let _ = sink.take(LoadEvent::Step("connecting"));
    let mut admin = Admin::connect(&plan.target.admin.config, clock, CONNECT_WITHIN).map_err(|source| {
        LoadError::Admin {
            doing: "connecting",
            source,
        }
    })?;
    let mut warnings: Vec<Warning> = admin
        .warnings()
        .iter()
        .map(|text| Warning {
            code: "broker-not-reached".to_owned(),
            text: text.clone(),
        })
        .collect();
    if interrupt.is_raised() {
        return Err(LoadError::Interrupted);
    }
    let prepared = prepare::prepare(&plan, &mut admin, record_bytes)?;
    warnings.extend(prepared.warnings.iter().cloned());
    for warning in &warnings {
        let _ = sink.take(LoadEvent::Warning(warning));
    }
    let verb = if prepared.created { "created" } else { "using" };
    let named = match &prepared.names[..] {
        [only] => format!("{verb} topic {only} with {} partitions", prepared.partitions[0]),
        [first, .., last] => format!("{verb} {} topics, {first} to {last}", prepared.names.len()),
        [] => "no topics".to_owned(),
    };
    let _ = sink.take(LoadEvent::Step(&named));
    let mut run = match Run::build(&plan, clock, prepared.clone(), stamp, headers, warnings) {
        Ok(run) => run,
        Err(error) => {
            let left = prepare::remove_topics(&mut admin, &prepared, plan.keep);
            return Err(prepare::with_leftovers(error, &left, &plan));
        }
    };
    let meeting_topic = run.meet(&plan, &mut admin, sink);
    match run.start(interrupt, sink) {
        Ok(()) => {}
        Err(error) => {
            run.abandon();
            prepare::remove_meeting_topic(&mut admin, meeting_topic.as_deref());
            let left = prepare::remove_topics(&mut admin, &prepared, plan.keep);
            let groups = run.group_names();
            if !plan.keep {
                prepare::remove_groups(&mut admin, &groups);
            }
            return Err(prepare::with_leftovers(error, &left, &plan));
        }
    }
    let mut sink_error = None;
    run.conduct(interrupt, sink, &mut sink_error);
    run.finish(&plan, &mut admin, interrupt, sink, &mut sink_error);
    if let Some(why) = prepare::remove_meeting_topic(&mut admin, meeting_topic.as_deref()) {
        run.leftovers("topic", &[why]);
    }
    Ok(Ended {
        result: summary::make(&plan, run.gathered, clock),
        sink_error,
    })
}

/// Where stamps go. A payload file of the user's is sent as it is unless the stamp was asked for.
pub fn stamp_placement(workload: &Workload) -> StampPlacement {
    let asked = workload
        .values
        .iter()
        .any(|value| value.key == "stamp" && value.source != model::source::Source::Default);
    match workload.stamp {
        StampPlacement::Value if (workload.message_size.bytes() as usize) < STAMP_BYTES => {
            StampPlacement::None
        }
        StampPlacement::Value if matches!(workload.payload, Payload::File(_)) && !asked => {
            StampPlacement::None
        }
        placement => placement,
    }
}

fn record_headers(workload: &Workload, stamp: StampPlacement) -> RecordHeaders {
    let placeholder = [0; STAMP_BYTES];
    let mut pairs: Vec<(&str, Option<&[u8]>)> = workload
        .headers
        .iter()
        .map(|header| (header.name.as_str(), Some(&header.value[..])))
        .collect();
    if stamp == StampPlacement::Header {
        // Last, so that each record's own stamp can be written over the placeholder.
        pairs.push((STAMP_HEADER, Some(&placeholder)));
    }
    RecordHeaders::new(pairs)
}

struct Run {
    gathered: Gathered,
    admin_config: model::client_config::AdminConfig,
    producing: Arc<ProducingPlan>,
    consuming: Arc<ConsumingPlan>,
    producer_parts: Vec<ProducerPart>,
    consumer_parts: Vec<ConsumerPart>,
    producer_threads: usize,
    consumer_threads: usize,
    receiver: Receiver<Message>,
    sender: Sender<Message>,
    returns: HashMap<ThreadId, Sender<Box<Interval>>>,
    producers: Vec<JoinHandle<std::io::Result<Vec<ProducerEnd>>>>,
    consumers: Vec<JoinHandle<std::io::Result<()>>>,
    observer: Option<Observer>,
    meeting: Option<Meeting>,
    log: IntervalLog,
    second: Vec<PhaseSheet>,
    last_tick_ns: u64,
    last_counts: [u64; 3],
    counted_ns: u64,
    edges_asked: usize,
    clients: usize,
}

impl Run {
    fn build(
        plan: &LoadPlan,
        clock: RunClock,
        prepared: Prepared,
        stamp: StampPlacement,
        headers: RecordHeaders,
        warnings: Vec<Warning>,
    ) -> Result<Run, LoadError> {
        let workload = &plan.workload;
        let (schedule, phases, layout) = phases(workload)?;
        let (parts, shares) = producer_parts(workload, &prepared, schedule, &phases, &layout)?;
        let groups = groups(plan, &prepared);
        let groups_per_topic = workload.subscriptions_per_topic as usize;
        let by_offset = (stamp == StampPlacement::None
            && schedule.is_some()
            && groups_per_topic > 0
            && workload.produces())
        .then_some(groups_per_topic);
        let drain_ns = u64::try_from(plan.drain_timeout.as_nanos()).unwrap_or(u64::MAX);
        let verifies = stamp != StampPlacement::None && workload.produces() && workload.consumes();
        let sequences = parts.iter().map(|part| part.phases.clone()).collect();
        let half = half(plan);
        let shared = Shared::new(
            clock,
            plan.run_id,
            phases,
            &prepared.partitions,
            shares,
            sequences,
            verifies,
            by_offset,
            drain_ns,
        );
        let shared = Arc::new(if half == Some(Half::Receiver) {
            shared.with_sender_clock()
        } else {
            shared
        });
        let payload_stamp = if stamp == StampPlacement::Value {
            StampPlacement::Value
        } else {
            StampPlacement::None
        };
        let mut config = plan.target.producer.config.clone();
        if workload.transactional && config.transaction.is_none() {
            config.transaction = Some(TransactionConfig {
                id: format!("plimsoll-{:016x}", plan.run_id),
                timeout: config.transaction_timeout,
            });
        }
        let producing = Arc::new(ProducingPlan {
            config,
            pool: PayloadPool::new(
                &workload.payload,
                workload.message_size.bytes() as usize,
                payload_stamp,
                plan.payload_file.as_deref(),
                workload.seed,
            ),
            keys: KeyTable::new(workload.seed),
            distributor: workload.key_distributor,
            headers,
            stamp,
            partition_weights: workload.partition_weights.clone(),
            seed: workload.seed,
            transaction_duration_ns: u64::try_from(workload.transaction_duration.as_nanos())
                .unwrap_or(u64::MAX),
        });
        let books: Vec<Arc<GroupBook>> = groups
            .iter()
            .enumerate()
            .map(|(index, group)| {
                Arc::new(GroupBook::new(
                    group.name.clone(),
                    index,
                    group.place_in_topic,
                    group.topics.clone(),
                    shared.places.at_start(),
                    if half == Some(Half::Receiver) {
                        MOST_SENDING_PRODUCERS
                    } else {
                        parts.len()
                    },
                ))
            })
            .collect();
        let consumer_parts = consumer_parts(workload, &books);
        let consuming = Arc::new(ConsumingPlan {
            config: plan.target.consumer.config.clone(),
            stamp: if verifies || by_offset.is_some() || half == Some(Half::Receiver) {
                stamp
            } else {
                StampPlacement::None
            },
            pace: workload.consumer_pace,
            members_per_group: workload.consumers_per_subscription as usize,
            from_latest: plan.from == crate::plan::StartFrom::Latest && !prepared.created,
            topic_names: prepared.names.clone(),
            reset_given: plan.target.consumer.values.iter().any(|value| {
                value.key == "auto.offset.reset" && value.source != model::source::Source::KafkaDefault
            }),
            ends_after: (!workload.produces())
                .then_some(match workload.test {
                    workload::PhaseLength::Records(count) => Some(count),
                    workload::PhaseLength::Time(_) => None,
                })
                .flatten(),
        });
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        // Producers, consumers and brokers beside them share the CPUs; a thread beyond them only makes the others wait.
        let most = plan.threads.unwrap_or((cpus / 2).max(1));
        let producer_threads = most.min(parts.len());
        let consumer_threads = most.min(consumer_parts.len());
        let (sender, receiver) = mpsc::channel();
        let count = shared.phases.len();
        let clients = parts.len() + consumer_parts.len();
        Ok(Run {
            gathered: Gathered {
                prepared,
                phases: (0..count).map(|_| PhaseSheet::default()).collect(),
                errors: BTreeMap::new(),
                rates: layout
                    .iter()
                    .map(|phase| AchievedRate::new(schedule, phase.start_ns, phase.end_ns))
                    .collect(),
                threads: HashMap::new(),
                producer_ends: Vec::new(),
                books,
                confirmed: Vec::new(),
                throttling: Vec::new(),
                process_cpu: Vec::new(),
                phase_ends_ns: Vec::new(),
                start_ns: 0,
                end_ns: 0,
                backlog: Trend::default(),
                backlog_max: None,
                memory: Memory::default(),
                events: Vec::new(),
                warnings,
                failure: None,
                interrupted: false,
                groups_left: Vec::new(),
                committed_ahead: None,
                topics_left: Vec::new(),
                told: None,
                schedule,
                shared,
            },
            admin_config: plan.target.admin.config.clone(),
            producing,
            consuming,
            producer_parts: parts,
            consumer_parts,
            producer_threads,
            consumer_threads,
            receiver,
            sender,
            returns: HashMap::new(),
            producers: Vec::new(),
            consumers: Vec::new(),
            observer: None,
            meeting: None,
            log: IntervalLog::new(),
            second: (0..count).map(|_| PhaseSheet::default()).collect(),
            last_tick_ns: 0,
            last_counts: [0; 3],
            counted_ns: 0,
            edges_asked: 0,
            clients,
        })
    }

    /// Begins to compare clocks with the other half of the load, where there is one; gives the topic that was made for it.
    fn meet(&mut self, plan: &LoadPlan, admin: &mut Admin, sink: &mut dyn Sink) -> Option<String> {
        let half = half(plan)?;
        let topic = prepare::meeting_topic(plan.run_id);
        let made = prepare::make_meeting_topic(plan, admin, &topic);
        let clients = MeetingClients::of(&plan.target.producer.config, &plan.target.consumer.config);
        let shared = Arc::clone(&self.gathered.shared);
        // Any number will do that the other half has not drawn.
        let id = shared.clock.wall_start().as_nanos() as u64 ^ u64::from(std::process::id()).rotate_left(40);
        let started = match &made {
            Ok(_) => Meeting::start(&topic, half, id, clients, shared).map_err(|error| error.to_string()),
            Err(why) => Err(why.clone()),
        };
        match started {
            Ok(meeting) => self.meeting = Some(meeting),
            Err(why) => {
                let warning = Warning {
                    code: "clocks-not-compared".to_owned(),
                    text: format!("clocks cannot be compared through topic {topic}: {why}"),
                };
                let _ = sink.take(LoadEvent::Warning(&warning));
                self.gathered.warnings.push(warning);
            }
        }
        made.unwrap_or(false).then_some(topic)
    }

    fn group_names(&self) -> Vec<String> {
        self.gathered.books.iter().map(|book| book.name.clone()).collect()
    }

    /// Connects every client, consumers first, and sets the start.
    fn start(&mut self, interrupt: &Interrupt, sink: &mut dyn Sink) -> Result<(), LoadError> {
        let shared = Arc::clone(&self.gathered.shared);
        let began_ns = shared.clock.now_ns();
        let consumers = self.consumer_parts.len();
        if consumers > 0 {
            let _ = sink.take(LoadEvent::Step(&format!("assigning {consumers} consumers")));
        }
        for parts in deal(std::mem::take(&mut self.consumer_parts), self.consumer_threads) {
            let (shared, plan, sender) = (
                Arc::clone(&shared),
                Arc::clone(&self.consuming),
                self.sender.clone(),
            );
            let (return_sender, returned) = mpsc::channel();
            let books = self.gathered.books.clone();
            let handle = spawn("consume", move || {
                consuming::run_thread(&shared, &plan, &books, parts, &sender, &returned)
            })?;
            self.returns.insert(handle.thread().id(), return_sender);
            self.consumers.push(handle);
        }
        self.await_ready(consumers, began_ns, interrupt, sink)?;
        let topics = self.gathered.prepared.names.clone();
        let observer =
            Observer::start(self.admin_config.clone(), shared.clock, topics).map_err(|source| {
                LoadError::System {
                    doing: "starting a thread",
                    source,
                }
            })?;
        self.observer = Some(observer);
        let producers = self.producer_parts.len();
        if producers > 0 {
            let _ = sink.take(LoadEvent::Step(&format!("connecting {producers} producers")));
        }
        for parts in deal(std::mem::take(&mut self.producer_parts), self.producer_threads) {
            let (shared, plan, sender) = (
                Arc::clone(&shared),
                Arc::clone(&self.producing),
                self.sender.clone(),
            );
            let (return_sender, returned) = mpsc::channel();
            let handle = spawn("produce", move || {
                producing::run_thread(&shared, &plan, parts, &sender, &returned)
            })?;
            self.returns.insert(handle.thread().id(), return_sender);
            self.producers.push(handle);
        }
        self.await_ready(self.clients, began_ns, interrupt, sink)
    }

    fn await_ready(
        &mut self,
        wanted: usize,
        began_ns: u64,
        interrupt: &Interrupt,
        sink: &mut dyn Sink,
    ) -> Result<(), LoadError> {
        let shared = Arc::clone(&self.gathered.shared);
        let mut told_ns = began_ns;
        loop {
            let ready = shared.ready.load(Ordering::Acquire);
            if ready >= wanted {
                return Ok(());
            }
            if interrupt.is_raised() {
                return Err(LoadError::Interrupted);
            }
            let now_ns = shared.clock.now_ns();
            if now_ns - began_ns > READY_WITHIN.as_nanos() as u64 {
                return Err(LoadError::NotReady(format!(
                    "{} of {wanted} clients did not get ready within {} s: their brokers, groups or partitions did not answer",
                    wanted - ready,
                    READY_WITHIN.as_secs()
                )));
            }
            if now_ns - told_ns > 5 * SECOND_NS {
                told_ns = now_ns;
                let _ = sink.take(LoadEvent::Step(&format!(
                    "{ready} of {} clients are ready",
                    self.clients
                )));
            }
            match receive_within(&self.receiver, Duration::from_millis(2)) {
                Ok(Message::Failed(Problem { who, what })) => {
                    return Err(LoadError::NotReady(format!("{who}: {what}")));
                }
                Ok(Message::Event(event)) => self.keep_event(event, sink),
                Ok(Message::Interval { .. }) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(LoadError::NotReady("the threads of the load ended".to_owned()));
                }
            }
        }
    }

    /// From the first due record to the moment when the producers have ended.
    fn conduct(
        &mut self,
        interrupt: &Interrupt,
        sink: &mut dyn Sink,
        sink_error: &mut Option<std::io::Error>,
    ) {
        let shared = Arc::clone(&self.gathered.shared);
        // The first sample has to be there before the first record is, or it would count some of the run's own.
        self.ask_ends(BASELINE_WITHIN);
        let start_ns = shared.clock.now_ns() + LEAD_NS;
        self.gathered.start_ns = start_ns;
        // Threads hand over at whole seconds; the line comes when they have.
        self.last_tick_ns = start_ns;
        self.counted_ns = start_ns;
        self.gathered.memory.rss_start_bytes = host::resident_bytes();
        self.sample_host();
        shared.start_at(start_ns);
        let wall_ns = shared.clock.wall_start().as_nanos() as u64 + start_ns;
        let header = IntervalLog::header(
            wall_ns,
            &["[plimsoll: values are nanoseconds, maxima milliseconds; a tag is phase:metric]"],
        );
        keep(sink_error, sink.take(LoadEvent::Series(&header)));
        keep(
            sink_error,
            sink.take(LoadEvent::PhaseStarted(shared.phases[0].name)),
        );
        let mut phase = 0;
        let produces = !self.producers.is_empty();
        let mut failed = false;
        loop {
            let now_ns = shared.clock.now_ns();
            // Where only numbers of records end phases, and nothing is produced, the consumers tell.
            let now_phase = shared.phase_at(now_ns);
            let over = if produces {
                self.producers.iter().all(JoinHandle::is_finished)
            } else {
                match shared.phases.last().and_then(|phase| phase.end_ns) {
                    Some(end_ns) => now_ns >= start_ns + end_ns,
                    None => self.consumers.iter().all(JoinHandle::is_finished),
                }
            };
            while phase < now_phase {
                self.end_phase(now_ns);
                phase += 1;
                keep(
                    sink_error,
                    sink.take(LoadEvent::PhaseStarted(shared.phases[phase].name)),
                );
            }
            if over || self.load_is_over(now_ns) && self.gathered.phase_ends_ns.len() < shared.phases.len() {
                while self.gathered.phase_ends_ns.len() < shared.phases.len() {
                    self.end_phase(now_ns);
                }
            }
            if over {
                break;
            }
            if (interrupt.is_raised() || sink_error.is_some() || failed) && !shared.is_stopping() {
                self.gathered.interrupted |= interrupt.is_raised();
                shared.limit_drain(INTERRUPTED_DRAIN_NS);
                shared.stop_now();
                while self.gathered.phase_ends_ns.len() < shared.phases.len() {
                    self.end_phase(now_ns);
                }
                if !produces {
                    break;
                }
            }
            let next_tick_ns = self.last_tick_ns + SECOND_NS + GATHER_NS;
            if now_ns >= next_tick_ns {
                self.tick(now_ns, sink, sink_error);
                continue;
            }
            let wait = Duration::from_nanos((next_tick_ns - now_ns).min(20_000_000));
            if let Ok(message) = receive_within(&self.receiver, wait) {
                failed |= self.take(message, sink);
            }
        }
        self.gathered.memory.rss_end_bytes = host::resident_bytes();
    }

    /// Whether the last phase has ended by its time, though answers are still awaited.
    fn load_is_over(&self, now_ns: u64) -> bool {
        let shared = &self.gathered.shared;
        shared
            .phases
            .last()
            .and_then(|phase| phase.end_ns)
            .is_some_and(|end_ns| now_ns >= self.gathered.start_ns + end_ns)
    }

    fn end_phase(&mut self, now_ns: u64) {
        let ended = self.gathered.phase_ends_ns.len();
        let phase = &self.gathered.shared.phases[ended];
        let now_ns = now_ns.saturating_sub(self.gathered.start_ns);
        let end_ns = match phase.end_ns {
            // So many records last until the next one would be due, though nobody waits for that.
            Some(planned_ns) if phase.counted && !self.gathered.shared.is_stopping() => planned_ns,
            Some(planned_ns) => planned_ns.min(now_ns),
            None => now_ns,
        };
        self.gathered.phase_ends_ns.push(end_ns);
        self.edge();
    }

    /// Samples what is sampled at the edges of phases.
    fn edge(&mut self) {
        self.sample_host();
        if let Some(observer) = &self.observer {
            observer.ask();
            self.edges_asked += 1;
        }
    }

    fn sample_host(&mut self) {
        self.gathered.throttling.push(host::cgroup_throttling());
        self.gathered.process_cpu.push(host::process_cpu());
    }

    /// True when a client failed for good.
    fn take(&mut self, message: Message, sink: &mut dyn Sink) -> bool {
        match message {
            Message::Interval {
                role,
                thread,
                mut interval,
                cpu,
                phase,
                at_ns: _,
            } => {
                let used = self.gathered.threads.entry(thread).or_insert_with(|| ThreadUse {
                    role: Some(role),
                    last: None,
                    by_phase: vec![CpuTime::default(); self.gathered.shared.phases.len()],
                });
                if let (Some(cpu), Some(last), Some(phase)) = (cpu, used.last, phase) {
                    let more = cpu.since(last);
                    used.by_phase[phase].user_ns += more.user_ns;
                    used.by_phase[phase].system_ns += more.system_ns;
                    used.by_phase[phase].waiting_ns += more.waiting_ns;
                }
                used.last = cpu;
                for ((total, second), sheet) in self
                    .gathered
                    .phases
                    .iter_mut()
                    .zip(&mut self.second)
                    .zip(&interval.phases)
                {
                    total.add(sheet);
                    second.add_latencies(sheet);
                }
                add_errors(&mut self.gathered.errors, &interval.errors);
                for (place, rate) in self.gathered.rates.iter_mut().enumerate() {
                    // Each phase leaves out what falls outside of it, and the last takes what is left.
                    let mut windows = if place + 1 == self.gathered.shared.phases.len() {
                        std::mem::take(&mut interval.windows)
                    } else {
                        interval.windows.clone()
                    };
                    rate.take(&mut windows);
                }
                interval.reset();
                if let Some(back) = self.returns.get(&thread) {
                    let _ = back.send(interval);
                }
                false
            }
            Message::Failed(problem) => {
                self.gathered
                    .failure
                    .get_or_insert(format!("{}: {}", problem.who, problem.what));
                true
            }
            Message::Event(event) => {
                self.keep_event(event, sink);
                false
            }
        }
    }

    fn keep_event(&mut self, event: Event, sink: &mut dyn Sink) {
        let _ = sink.take(LoadEvent::Happened(&event));
        if self.gathered.events.len() < MOST_EVENTS {
            self.gathered.events.push(event);
        }
    }

    /// Once a second: the log, the progress line, memory, the backlog.
    fn tick(&mut self, now_ns: u64, sink: &mut dyn Sink, sink_error: &mut Option<std::io::Error>) {
        let shared = Arc::clone(&self.gathered.shared);
        let start_ns = self.gathered.start_ns;
        let whole_ns = now_ns - (now_ns - start_ns) % SECOND_NS;
        let text = self.log_second(whole_ns);
        if !text.is_empty() {
            keep(sink_error, sink.take(LoadEvent::Series(&text)));
        }
        let since_ns = now_ns - start_ns;
        for rate in &mut self.gathered.rates {
            // Threads hand their windows over within the second after.
            rate.close_before(since_ns.saturating_sub(2 * SECOND_NS));
        }
        let counts = [
            &shared.live.sent,
            &shared.live.acknowledged,
            &shared.live.consumed,
        ]
        .map(|counter| counter.load(Ordering::Relaxed));
        let seconds = (now_ns - self.counted_ns).max(1) as f64 / 1e9;
        let [published, acknowledged, consumed] =
            std::array::from_fn(|place| (counts[place] - self.last_counts[place]) as f64 / seconds);
        let groups = self.workload_groups();
        let backlog = (groups > 0 && !self.producers.is_empty())
            .then(|| (counts[1] * groups).saturating_sub(counts[2]));
        let phase = shared.phase_at(now_ns);
        if let (Some(backlog), PhaseName::Measure) = (backlog, shared.phases[phase].name) {
            self.gathered
                .backlog
                .add(since_ns, backlog as f64 / groups as f64);
            let each = backlog.div_ceil(groups);
            self.gathered.backlog_max = Some(self.gathered.backlog_max.unwrap_or(0).max(each));
        }
        let metric = if self.gathered.schedule.is_some() {
            Metric::Response
        } else {
            Metric::Service
        };
        let mut newest = measure::LatencyHistogram::new();
        for sheet in &mut self.second {
            newest.merge(sheet.histogram(metric));
        }
        let planned_ns = shared.phases.last().and_then(|phase| phase.end_ns);
        keep(
            sink_error,
            sink.take(LoadEvent::Progress(Progress {
                phase: Some(
                    if planned_ns.is_some_and(|planned_ns| since_ns > planned_ns + GATHER_NS + SECOND_NS / 2)
                    {
                        PhaseName::Stop
                    } else {
                        shared.phases[phase].name
                    },
                ),
                elapsed_ns: since_ns,
                planned_ns,
                published_per_second: published,
                acknowledged_per_second: acknowledged,
                consumed_per_second: consumed,
                backlog_count: backlog,
                failed_count: shared.live.failed.load(Ordering::Relaxed),
                p99_ns: newest.value_at_quantile_ns(0.99),
            })),
        );
        for sheet in &mut self.second {
            sheet.reset_latencies();
        }
        if let Some(planned_ns) = planned_ns {
            let memory = &mut self.gathered.memory;
            if since_ns * 10 >= planned_ns && memory.rss_at_10_percent_bytes.is_none() {
                memory.rss_at_10_percent_bytes = host::resident_bytes();
            }
            if since_ns * 10 >= planned_ns * 9 && memory.rss_at_90_percent_bytes.is_none() {
                memory.rss_at_90_percent_bytes = host::resident_bytes();
            }
        }
        self.last_counts = counts;
        self.counted_ns = now_ns;
        self.last_tick_ns = self.last_tick_ns.max(now_ns - (now_ns - start_ns) % SECOND_NS);
    }

    /// Groups by which each record is to be read.
    fn workload_groups(&self) -> u64 {
        let topics = self.gathered.prepared.names.len().max(1);
        (self
            .gathered
            .books
            .iter()
            .map(|book| book.topics.len())
            .sum::<usize>()
            / topics) as u64
    }

    fn log_second(&mut self, now_ns: u64) -> String {
        let mut text = String::new();
        let from_ns = self.last_tick_ns - self.gathered.start_ns;
        for (sheet, phase) in self.second.iter().zip(&self.gathered.shared.phases) {
            let name = if phase.name == PhaseName::WarmUp {
                "warm-up"
            } else {
                "measure"
            };
            for (metric, histogram) in METRICS.iter().zip(&sheet.latency) {
                let Some(histogram) = histogram.as_ref().filter(|histogram| !histogram.is_empty()) else {
                    continue;
                };
                let Ok(tag) = Tag::of(name, metric_name(*metric)) else {
                    continue;
                };
                let _ = self
                    .log
                    .append(&mut text, &tag, from_ns, now_ns - self.last_tick_ns, histogram);
            }
        }
        text
    }

    /// Awaits the producers and what is still to be consumed, then removes what was made.
    fn finish(
        &mut self,
        plan: &LoadPlan,
        admin: &mut Admin,
        interrupt: &Interrupt,
        sink: &mut dyn Sink,
        sink_error: &mut Option<std::io::Error>,
    ) {
        let shared = Arc::clone(&self.gathered.shared);
        for handle in std::mem::take(&mut self.producers) {
            match handle.join() {
                Ok(Ok(ends)) => self.gathered.producer_ends.extend(ends),
                Ok(Err(error)) => self.fail(format!("a producing thread ended: {error}")),
                Err(_) => self.fail("a producing thread panicked; this is a bug in plimsoll".to_owned()),
            }
        }
        self.gathered.producer_ends.sort_by_key(|end| end.index);
        if let Some(fatal) = self
            .gathered
            .producer_ends
            .iter()
            .find_map(|end| end.fatal.clone())
        {
            self.fail(fatal);
        }
        // What the brokers have, once everything that was sent has ended.
        let within = Duration::from_nanos(shared.drain_limit_ns().max(2 * SECOND_NS));
        let mut ends = self.ask_ends(within);
        let markers = shared.live.markers.load(Ordering::Relaxed);
        if plan.target.producer.config.acks == model::client_config::Acks::None || markers > 0 {
            ends = self.await_settled(ends, within);
        }
        self.await_consumers(&ends, interrupt, sink);
        shared.end_consumers();
        for handle in std::mem::take(&mut self.consumers) {
            match handle.join() {
                Ok(Ok(())) => {}
                Ok(Err(error)) => self.fail(format!("a consuming thread ended: {error}")),
                Err(_) => self.fail("a consuming thread panicked; this is a bug in plimsoll".to_owned()),
            }
        }
        while let Ok(message) = self.receiver.try_recv() {
            self.take(message, sink);
        }
        let now_ns = shared.clock.now_ns();
        let text = self.log_second(now_ns.max(self.last_tick_ns + 1));
        if !text.is_empty() {
            keep(sink_error, sink.take(LoadEvent::Series(&text)));
        }
        for rate in &mut self.gathered.rates {
            rate.close_before(now_ns.saturating_sub(self.gathered.start_ns));
        }
        self.gathered.told = self.meeting.take().map(Meeting::end);
        if let Some(observer) = self.observer.take() {
            self.gathered.confirmed = observer.end(self.edges_asked);
        }
        self.gathered.memory.rss_peak_bytes = host::peak_resident_bytes();
        // A cluster that did not tell its end offsets is not waited for at length a second time.
        let mut again = None;
        if ends.is_none() && !self.gathered.prepared.names.is_empty() {
            let mut config = self.admin_config.clone();
            config.api_timeout = config.api_timeout.min(LAST_CALLS_WITHIN);
            again = Some(Admin::connect(&config, shared.clock, LAST_CALLS_WITHIN));
        }
        let made_groups = self.group_names();
        let asked = match &mut again {
            None => Some(&mut *admin),
            Some(Ok(again)) => Some(again),
            Some(Err(_)) => None,
        };
        if let Some(admin) = asked {
            self.gathered.committed_ahead = self.committed_ahead(admin);
            self.see_made_anew(admin);
        }
        if !plan.keep && !plan.embedded {
            let _ = sink.take(LoadEvent::Step("removing what was made"));
        }
        if plan.keep {
            self.gathered.topics_left = if self.gathered.prepared.created {
                self.gathered.prepared.names.clone()
            } else {
                Vec::new()
            };
            self.gathered.groups_left = made_groups;
        } else if let Some(Err(error)) = &again {
            let all = |names: &[String]| {
                names
                    .iter()
                    .map(|name| (name.clone(), error.to_string()))
                    .collect::<Vec<_>>()
            };
            self.gathered.topics_left = if self.gathered.prepared.created {
                self.gathered.prepared.names.clone()
            } else {
                Vec::new()
            };
            let topics = all(&self.gathered.topics_left);
            self.leftovers("topic", &topics);
            self.leftovers("group", &all(&made_groups));
            self.gathered.groups_left = made_groups;
        } else {
            let admin = match &mut again {
                Some(Ok(again)) => again,
                _ => admin,
            };
            let left = prepare::remove_groups(admin, &made_groups);
            self.leftovers("group", &left);
            self.gathered.groups_left = left.into_iter().map(|(name, _)| name).collect();
            let left = prepare::remove_topics(admin, &self.gathered.prepared, plan.keep);
            self.leftovers("topic", &left);
            self.gathered.topics_left = left.into_iter().map(|(name, _)| name).collect();
        }
        self.gathered.end_ns = shared.clock.now_ns();
    }

    /// Topics that the run made, and that were deleted while it ran: what they held is gone, and another one of the same name is
    /// not the run's to remove.
    fn see_made_anew(&mut self, admin: &mut Admin) {
        let prepared = &mut self.gathered.prepared;
        let Ok(infos) = admin.topics(Some(&prepared.names)) else {
            return;
        };
        for ((name, id), number) in prepared.names.iter().zip(&prepared.ids).zip(0..) {
            let now = infos.get(name).filter(|info| !info.partitions.is_empty());
            let what = match now {
                Some(info) if info.topic_id == *id => continue,
                Some(_) => "deleted and made again",
                None => "deleted",
            };
            prepared.made_anew.push(number);
            self.gathered.warnings.push(Warning {
                code: "topic-made-again".to_owned(),
                text: format!(
                    "topic {name} was {what} while the load ran: records that it held are gone with it and are not called lost, \
                     and what the brokers confirm is not known"
                ),
            });
        }
    }

    /// Records that groups have committed beyond what they were given; `None` where that cannot be asked.
    fn committed_ahead(&self, admin: &mut Admin) -> Option<u64> {
        if self.gathered.books.is_empty() || self.gathered.books.len() > MOST_GROUPS_ASKED {
            return None;
        }
        let names = &self.gathered.prepared.names;
        let mut ahead = 0;
        for book in &self.gathered.books {
            for ((topic, partition), offset) in admin.committed_offsets(&book.name).ok()? {
                let number = names.iter().position(|name| *name == topic);
                let place = number.and_then(|number| self.gathered.shared.places.of(number, partition));
                if let Some(place) = place {
                    ahead += u64::try_from(offset - book.next_offset(place)).unwrap_or(0);
                }
            }
        }
        Some(ahead)
    }

    fn ask_ends(&mut self, within: Duration) -> Option<EndOffsets> {
        let ends = self
            .observer
            .as_ref()
            .and_then(|observer| observer.ask_last(self.edges_asked, within));
        self.edges_asked += 1;
        ends
    }

    /// With acks=0 the brokers may still be reading what was written, and markers of transactions are written after their
    /// coordinator has answered: until all has arrived, or nothing more does.
    fn await_settled(&mut self, mut ends: Option<EndOffsets>, within: Duration) -> Option<EndOffsets> {
        let shared = Arc::clone(&self.gathered.shared);
        let live = &shared.live;
        let written = live.acknowledged.load(Ordering::Relaxed) + live.markers.load(Ordering::Relaxed);
        let before = self
            .observer
            .as_ref()
            .and_then(Observer::first)
            .map(|ends| ends.sum());
        let began_ns = shared.clock.now_ns();
        let mut unchanged_since_ns = began_ns;
        while let Some(now) = &ends {
            let now_ns = shared.clock.now_ns();
            let arrived = before.is_some_and(|before| now.sum().saturating_sub(before) >= written);
            let waited = now_ns - unchanged_since_ns > SECOND_NS || now_ns - began_ns > 5 * SECOND_NS;
            if arrived || waited {
                break;
            }
            // Nothing else is to be done meanwhile, so the channel's wait serves as the pause.
            let _ = receive_within(&self.receiver, Duration::from_millis(20))
                .map(|message| self.take(message, &mut |_: LoadEvent<'_>| Ok(())));
            let newer = self.ask_ends(within);
            if newer.as_ref().map(EndOffsets::sum) != Some(now.sum()) {
                unchanged_since_ns = shared.clock.now_ns();
            }
            ends = newer;
        }
        ends
    }

    fn leftovers(&mut self, kind: &str, left: &[(String, String)]) {
        let Some((_, why)) = left.first() else { return };
        let names: Vec<&str> = left.iter().map(|(name, _)| name.as_str()).collect();
        let how = if kind == "topic" {
            format!(
                "; remove with: plimsoll topics delete --bootstrap-server {} {}",
                prepare::servers(&self.admin_config),
                names.join(" ")
            )
        } else {
            String::new()
        };
        self.gathered.warnings.push(Warning {
            code: format!("{kind}-left-behind"),
            text: format!(
                "{} {kind}(s) could not be removed ({why}): {}{how}",
                left.len(),
                names.join(", ")
            ),
        });
    }

    fn fail(&mut self, why: String) {
        self.gathered.failure.get_or_insert(why);
    }

    /// Until every group has read up to the ends that the brokers told, or the drain time-out.
    fn await_consumers(&mut self, ends: &Option<EndOffsets>, interrupt: &Interrupt, sink: &mut dyn Sink) {
        let shared = Arc::clone(&self.gathered.shared);
        if self.gathered.prepared.names.is_empty() || self.producing_nothing() {
            return;
        }
        let Some(ends) = ends else { return };
        let began_ns = shared.clock.now_ns();
        loop {
            let done = self.gathered.books.iter().all(|book| {
                book.topics.iter().all(|&topic| {
                    ends.of_topic(topic).all(|(partition, end)| {
                        let place = shared.places.of(topic, partition);
                        place.is_none_or(|place| book.next_offset(place) >= end)
                    })
                })
            });
            if done || self.consumers.iter().all(JoinHandle::is_finished) {
                return;
            }
            if interrupt.is_raised() {
                self.gathered.interrupted = true;
                shared.limit_drain(INTERRUPTED_DRAIN_NS);
            }
            if shared.clock.now_ns() - began_ns > shared.drain_limit_ns() {
                self.gathered.warnings.push(Warning {
                    code: "not-consumed".to_owned(),
                    text: format!(
                        "the consumers had not read up to the end when the drain time-out of {:.0} s was over",
                        shared.drain_limit_ns() as f64 / 1e9
                    ),
                });
                return;
            }
            if let Ok(message) = receive_within(&self.receiver, Duration::from_millis(5)) {
                self.take(message, sink);
            }
        }
    }

    fn producing_nothing(&self) -> bool {
        self.gathered.shared.shares.is_empty()
    }

    /// Ends all threads before the load began.
    fn abandon(&mut self) {
        let shared = &self.gathered.shared;
        shared.limit_drain(0);
        shared.stop_now();
        shared.end_consumers();
        for handle in std::mem::take(&mut self.producers) {
            let _ = handle.join();
        }
        for handle in std::mem::take(&mut self.consumers) {
            let _ = handle.join();
        }
    }
}

fn keep(first: &mut Option<std::io::Error>, outcome: std::io::Result<()>) {
    if let Err(error) = outcome {
        first.get_or_insert(error);
    }
}

fn spawn<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, LoadError> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(body)
        .map_err(|source| LoadError::System {
            doing: "starting a thread",
            source,
        })
}

type Plan = (Option<Schedule>, Vec<LoadPhase>, Vec<ScheduledPhase>);

/// The schedule (none at rate max), the phases, and their places in it.
fn phases(workload: &Workload) -> Result<Plan, LoadError> {
    let mut lengths = Vec::new();
    if let Some(warm_up) = workload.warm_up {
        lengths.push((PhaseName::WarmUp, warm_up));
    }
    lengths.push((PhaseName::Measure, workload.test));
    let schedule = match workload.producer_rate {
        Some(TargetRate::Fixed(rate)) => Some(Schedule::Constant(
            ConstantRate::new(rate.records(), rate.seconds())
                .map_err(|error| LoadError::Unfit(error.to_string()))?,
        )),
        _ => None,
    };
    let mut layout = Vec::new();
    if let Some(schedule) = &schedule {
        let lengths: Vec<PhaseLength> = lengths
            .iter()
            .map(|(_, length)| match length {
                workload::PhaseLength::Time(time) => PhaseLength::Nanoseconds(time.as_nanos() as u64),
                workload::PhaseLength::Records(count) => PhaseLength::Records(*count),
            })
            .collect();
        layout = ScheduledPhase::lay_out(schedule, &lengths);
    }
    let mut phases = Vec::new();
    let mut end = Some(0);
    for (place, (name, length)) in lengths.iter().enumerate() {
        end = match (layout.get(place), length) {
            (Some(laid), _) => Some(laid.end_ns),
            (None, workload::PhaseLength::Time(time)) => end.map(|end: u64| end + time.as_nanos() as u64),
            (None, workload::PhaseLength::Records(_)) => None,
        };
        let counted = matches!(length, workload::PhaseLength::Records(_));
        phases.push(LoadPhase {
            name: *name,
            end_ns: end,
            counted,
        });
    }
    if layout.is_empty() {
        // Rates are counted in windows of the phases where their times are known beforehand.
        let mut start_ns = 0;
        for phase in &phases {
            let end_ns = phase.end_ns.unwrap_or(u64::MAX / 2);
            layout.push(ScheduledPhase {
                start_ns,
                end_ns,
                records: 0..0,
            });
            start_ns = end_ns;
        }
    }
    Ok((schedule, phases, layout))
}

type Parts = (Vec<ProducerPart>, Vec<Option<Share>>);

fn producer_parts(
    workload: &Workload,
    prepared: &Prepared,
    schedule: Option<Schedule>,
    phases: &[LoadPhase],
    layout: &[ScheduledPhase],
) -> Result<Parts, LoadError> {
    if !workload.produces() {
        return Ok((Vec::new(), Vec::new()));
    }
    let per_topic = workload.producers_per_topic as usize;
    // Neighbouring records go to different topics, so that all are loaded evenly at any moment.
    let places: Vec<usize> = (0..per_topic).flat_map(|_| 0..prepared.names.len()).collect();
    let weights: Vec<u64> = places
        .iter()
        .map(|&topic| {
            workload
                .topic_weights
                .get(topic)
                .map_or(1, |&weight| u64::from(weight))
        })
        .collect();
    let shares: Vec<Option<Share>> = match schedule {
        Some(schedule) => Share::split_weighted(schedule, &weights)
            .map_err(|error| LoadError::Unfit(format!("topicWeights: {error}")))?
            .into_iter()
            .map(Some)
            .collect(),
        None => vec![None; places.len()],
    };
    let total_weight: u64 = weights.iter().sum();
    let mut counted = 0;
    let parts = places
        .iter()
        .zip(&shares)
        .enumerate()
        .map(|(index, (&topic, share))| {
            let ranges = match share {
                Some(share) => layout.iter().map(|phase| phase.sequences(share)).collect(),
                None => closed_ranges(workload, phases, counted, weights[index], total_weight),
            };
            counted += weights[index];
            ProducerPart {
                index: index as u32,
                topic,
                topic_name: prepared.names[topic].clone(),
                share: share.clone(),
                phases: ranges,
            }
        })
        .collect();
    Ok((parts, shares))
}

/// At rate max a producer's phases are bounded by its part of the records, where they are bounded by records.
fn closed_ranges(
    workload: &Workload,
    phases: &[LoadPhase],
    before: u64,
    weight: u64,
    total: u64,
) -> Vec<Range<u64>> {
    let part = |count: u64| {
        let until = |weight: u64| (u128::from(count) * u128::from(weight) / u128::from(total)) as u64;
        until(before + weight) - until(before)
    };
    let mut first = 0;
    phases
        .iter()
        .map(|phase| {
            let length = match (phase.name, workload.warm_up, workload.test) {
                (PhaseName::WarmUp, Some(length), _) | (PhaseName::Measure, _, length) => length,
                _ => workload.test,
            };
            let end = match length {
                workload::PhaseLength::Records(count) => first + part(count),
                workload::PhaseLength::Time(_) => u64::MAX,
            };
            let range = first..end;
            // A phase that ends by time leaves the counter where it is.
            first = if end == u64::MAX { first } else { end };
            range
        })
        .collect()
}

/// Which half of a load this run is, where it shares its run id with another.
fn half(plan: &LoadPlan) -> Option<Half> {
    if !plan.is_run_id_shared {
        return None;
    }
    match (plan.workload.produces(), plan.workload.consumes()) {
        (true, false) => Some(Half::Sender),
        (false, true) => Some(Half::Receiver),
        _ => None,
    }
}

struct PlannedGroup {
    name: String,
    place_in_topic: usize,
    topics: Vec<usize>,
}

/// One group a subscription and topic, or, where consumers read several topics, one for those together.
fn groups(plan: &LoadPlan, prepared: &Prepared) -> Vec<PlannedGroup> {
    let workload = &plan.workload;
    if !workload.consumes() {
        return Vec::new();
    }
    let topics: Vec<usize> = (0..prepared.names.len()).collect();
    let mut groups = Vec::new();
    for together in topics.chunks(workload.topics_per_consumer.max(1) as usize) {
        for place in 0..workload.subscriptions_per_topic as usize {
            let index = groups.len();
            groups.push(PlannedGroup {
                name: format!("plimsoll-{}-sub-{index:03}", short_id(plan.run_id)),
                place_in_topic: place,
                topics: together.to_vec(),
            });
        }
    }
    groups
}

fn consumer_parts(workload: &Workload, books: &[Arc<GroupBook>]) -> Vec<ConsumerPart> {
    let mut parts = Vec::new();
    // Members of one group are dealt to different threads.
    for book in books {
        for _ in 0..workload.consumers_per_subscription {
            parts.push(ConsumerPart {
                index: parts.len() as u32,
                group: book.index,
            });
        }
    }
    parts
}
