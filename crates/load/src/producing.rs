//! Threads that produce: each drives its share of the producers through one poll loop.
//!
//! In a pass the loop reads the answers that have come, records what they end, appends what is due (a slice of at most
//! [`SLICE_BYTES`], so that answers are not left unread for long), and sends. Nothing is done per record but bytes.

use crate::keys::{KeyCursor, KeyTable};
use crate::payload::PayloadPool;
use crate::recorder::{Interval, LATE_NS, MOST_PARTITION_HISTOGRAMS};
use crate::shared::{Live, Message, Problem, Shared, ThreadRole};
use client::batch::{BatchBuilder, RecordHeaders};
use client::net::{Frame, Net};
use client::producer::{
    BatchTag, CannotAppend, EndedTransaction, Finished, Incident, Outcome, Producer, ProducerCounts,
    TransactionOutcome,
};
use measure::offset_index::{AcknowledgedRun, MatchedRun};
use measure::sequence_set::SequenceSet;
use measure::share::Share;
use measure::stamp::{STAMP_BYTES, Stamp};
use model::client_config::ProducerConfig;
use model::result::{Event, Metric};
use model::workload::StampPlacement;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender};

/// Encoded in one pass before answers are looked for again: about 100 µs of work.
const SLICE_BYTES: usize = 256 << 10;
/// Records that fall due within this time are appended together.
const GATHER_NS: u64 = 50_000;
/// The name of the header that carries the stamp, with `stamp: header`.
pub const STAMP_HEADER: &str = "plimsoll";

/// One producer's part of the load.
#[derive(Clone, Debug)]
pub struct ProducerPart {
    /// Its number within the run, which its stamps carry.
    pub index: u32,
    /// The topic's number.
    pub topic: usize,
    /// The topic's name.
    pub topic_name: String,
    /// Its share of the schedule; `None` at rate max.
    pub share: Option<Share>,
    /// Its sequence numbers by phase. At rate max, where a phase has a length in time, it is bounded by that alone.
    pub phases: Vec<Range<u64>>,
}

/// What every producing thread needs to know.
#[derive(Debug)]
pub struct ProducingPlan {
    /// The producers' properties.
    pub config: ProducerConfig,
    /// The values.
    pub pool: PayloadPool,
    /// The keys.
    pub keys: KeyTable,
    /// How keys are given.
    pub distributor: model::workload::KeyDistributor,
    /// Headers of each record, the stamp's placeholder last if it is in a header.
    pub headers: RecordHeaders,
    /// Where the stamp is.
    pub stamp: StampPlacement,
    /// Relative shares of the partitions; empty where the partitioner decides.
    pub partition_weights: Vec<u32>,
    /// The run's seed.
    pub seed: u64,
    /// How long a transaction gathers records before it is committed.
    pub transaction_duration_ns: u64,
}

/// Records that were appended to a batch together.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: u64,
    count: u32,
    appended_ns: u64,
}

/// The runs of a batch, in the order of its records.
#[derive(Debug, Default)]
struct Runs(Vec<Run>);

impl Runs {
    #[inline]
    fn add(&mut self, first: u64, count: u32, appended_ns: u64) {
        if let Some(last) = self.0.last_mut()
            && last.appended_ns == appended_ns
            && last.first + u64::from(last.count) == first
        {
            last.count += count;
            return;
        }
        self.0.push(Run {
            first,
            count,
            appended_ns,
        });
    }
}

impl BatchTag for Runs {
    fn split_off(&mut self, records: u32) -> Runs {
        let mut left = records;
        let Some(place) = self.0.iter().position(|run| {
            let inside = left < run.count;
            if !inside {
                left -= run.count;
            }
            inside
        }) else {
            return Runs::default();
        };
        let mut rest = self.0.split_off(place);
        if left > 0 {
            let run = rest[0];
            self.0.push(Run { count: left, ..run });
            rest[0] = Run {
                first: run.first + u64::from(left),
                count: run.count - left,
                ..run
            };
        }
        Runs(rest)
    }
}

/// What one producer has to say when it has ended.
#[derive(Debug)]
pub struct ProducerEnd {
    /// Its number.
    pub index: u32,
    /// Records due by phase; `None` at rate max.
    pub due: Option<Vec<u64>>,
    /// Records due and not sent by phase.
    pub unsent: Option<Vec<u64>>,
    /// What was acknowledged, for the search for what was lost.
    pub acknowledged: SequenceSet,
    /// Who led the topic's partitions at the end, as far as is known.
    pub leaders: Vec<Option<i32>>,
    /// Why it could not go on, if so.
    pub fatal: Option<String>,
}

struct Unit {
    part: ProducerPart,
    producer: Producer<Runs>,
    phase: usize,
    next: u64,
    done: bool,
    keys: Option<KeyCursor>,
    weighted: Option<WeightedPartitions>,
    blocked_since_ns: Option<u64>,
    unsent: Vec<u64>,
    due_ends: Vec<u64>,
    acknowledged: SequenceSet,
    /// Acknowledged records whose transaction, by its number, has not ended.
    undecided: VecDeque<(u64, Run)>,
    counts_before: ProducerCounts,
    ready: bool,
}

/// Gives partitions records in proportion to weights, a batch at a time.
struct WeightedPartitions {
    weights: Vec<u32>,
    sent: Vec<u64>,
    current: usize,
}

impl WeightedPartitions {
    fn choose(&mut self) -> usize {
        let behind = |place: usize| self.sent[place] as f64 / f64::from(self.weights[place]);
        self.current = (0..self.weights.len())
            .filter(|&place| self.weights[place] > 0)
            .min_by(|&a, &b| behind(a).total_cmp(&behind(b)))
            .unwrap_or(0);
        self.current
    }
}

/// Runs the producers of one thread to their end.
pub fn run_thread(
    shared: &Shared,
    plan: &ProducingPlan,
    parts: Vec<ProducerPart>,
    sender: &Sender<Message>,
    returned: &Receiver<Box<Interval>>,
) -> std::io::Result<Vec<ProducerEnd>> {
    let net = Net::new(shared.clock)?;
    let mut units = Vec::with_capacity(parts.len());
    for (owner, part) in parts.into_iter().enumerate() {
        units.push(Unit::new(part, plan, shared, owner as u32)?);
    }
    let mut thread = Thread {
        shared,
        plan,
        net,
        units,
        interval: Box::new(Interval::new(shared.phases.len())),
        sender,
        returned,
        next_flush_ns: u64::MAX,
        flushed_phase: 0,
        matched: Vec::new(),
        live: Live::default(),
        told: HashMap::new(),
    };
    thread.connect()?;
    thread.produce()?;
    thread.drain()?;
    Ok(thread.end())
}

impl Unit {
    fn new(part: ProducerPart, plan: &ProducingPlan, shared: &Shared, owner: u32) -> std::io::Result<Unit> {
        let seed = plan
            .seed
            .wrapping_mul(0x9e37_79b9)
            .wrapping_add(part.index.into());
        let mut config = plan.config.clone();
        if let Some(transaction) = config.transaction.as_mut().filter(|_| shared.shares.len() > 1) {
            transaction.id = format!("{}-{}", transaction.id, part.index);
        }
        let producer =
            Producer::new(&part.topic_name, &config, owner, seed).map_err(std::io::Error::other)?;
        let weighted = (!plan.partition_weights.is_empty()).then(|| WeightedPartitions {
            weights: plan.partition_weights.clone(),
            sent: vec![0; plan.partition_weights.len()],
            current: 0,
        });
        Ok(Unit {
            producer,
            phase: 0,
            next: part.phases.first().map_or(0, |range| range.start),
            done: false,
            keys: KeyCursor::new(plan.distributor, seed),
            weighted,
            blocked_since_ns: None,
            unsent: vec![0; shared.phases.len()],
            due_ends: part.phases.iter().map(|range| range.end).collect(),
            acknowledged: SequenceSet::new(),
            undecided: VecDeque::new(),
            counts_before: ProducerCounts::default(),
            ready: false,
            part,
        })
    }

    /// The phase of a record: by its number, or at rate max over time by when it was appended.
    fn phase_of(&self, shared: &Shared, run: &Run) -> usize {
        if self.part.share.is_none() && shared.phases_end_by_time {
            return shared.phase_at(run.appended_ns);
        }
        let place = self
            .part
            .phases
            .iter()
            .position(|range| range.contains(&run.first));
        place.unwrap_or(shared.phases.len() - 1)
    }

    /// Cuts a run where a phase ends within it.
    fn by_phase(&self, shared: &Shared, run: Run, mut each: impl FnMut(usize, Run)) {
        let mut rest = run;
        while rest.count > 0 {
            let phase = self.phase_of(shared, &rest);
            let end = match self.part.share {
                Some(_) => self.part.phases[phase].end,
                None if shared.phases_end_by_time => u64::MAX,
                None => self.part.phases[phase].end,
            };
            let count = (end.saturating_sub(rest.first)).min(rest.count.into()) as u32;
            let count = if count == 0 { rest.count } else { count };
            each(phase, Run { count, ..rest });
            rest = Run {
                first: rest.first + u64::from(count),
                count: rest.count - count,
                ..rest
            };
        }
    }
}

struct Thread<'a> {
    shared: &'a Shared,
    plan: &'a ProducingPlan,
    net: Net,
    units: Vec<Unit>,
    interval: Box<Interval>,
    sender: &'a Sender<Message>,
    returned: &'a Receiver<Box<Interval>>,
    next_flush_ns: u64,
    flushed_phase: usize,
    matched: Vec<MatchedRun>,
    live: Live,
    /// When an incident of this broker and kind was last told.
    told: HashMap<(Option<i32>, String), u64>,
}

impl Thread<'_> {
    /// Waits until `until_ns` or an event, and lets the producers see what happened.
    fn turn(&mut self, until_ns: u64) -> std::io::Result<u64> {
        let mut events = std::mem::take(&mut self.live.events);
        let mut read: Vec<Frame> = std::mem::take(&mut self.live.read);
        self.net.poll(Some(until_ns), &mut events)?;
        let now_ns = self.net.clock().now_ns();
        for (conn, event) in events.drain(..) {
            self.units[conn.owner as usize]
                .producer
                .on_net(conn, event, now_ns, &mut read);
        }
        for unit in &mut self.units {
            unit.producer.tick(now_ns, &mut read);
            if !unit.producer.actions().is_empty() {
                self.net.act(unit.producer.actions());
            }
        }
        for frame in read.drain(..) {
            self.net.recycle(frame);
        }
        (self.live.events, self.live.read) = (events, read);
        Ok(now_ns)
    }

    fn deadline_ns(&self, now_ns: u64) -> u64 {
        let soonest = self
            .units
            .iter()
            .map(|unit| unit.producer.next_deadline_ns())
            .min()
            .unwrap_or(u64::MAX);
        // A look every 50 ms at least, for the stop flag and the tick of the second.
        soonest.min(now_ns + 50_000_000)
    }

    /// Until every producer is ready, or the coordinator gives up.
    fn connect(&mut self) -> std::io::Result<()> {
        let mut now_ns = self.shared.clock.now_ns();
        let mut ready_before = 0;
        while self.shared.start_ns().is_none() {
            if self.shared.is_stopping() {
                return Ok(());
            }
            now_ns = self.turn(self.deadline_ns(now_ns).min(now_ns + 5_000_000))?;
            for unit in self.units.iter_mut().filter(|unit| !unit.ready) {
                if unit.producer.is_ready(now_ns) {
                    unit.ready = true;
                }
                if let Some(fatal) = unit.producer.fatal() {
                    let problem = Problem::producer(&unit.part, fatal.to_owned());
                    let _ = self.sender.send(Message::Failed(problem));
                    return Ok(());
                }
            }
            let ready = self.units.iter().filter(|unit| unit.ready).count();
            if ready > ready_before {
                self.shared
                    .ready
                    .fetch_add(ready - ready_before, Ordering::AcqRel);
                ready_before = ready;
            }
            for unit in &mut self.units {
                // Connections opened by readiness checks are asked for through actions too.
                self.net.act(unit.producer.actions());
            }
        }
        Ok(())
    }

    fn produce(&mut self) -> std::io::Result<()> {
        let Some(start_ns) = self.shared.start_ns() else {
            return Ok(());
        };
        self.next_flush_ns = start_ns + 1_000_000_000;
        // CPU time used so far is not the load's.
        let shared = self.shared;
        shared.flush(
            ThreadRole::Producer,
            None,
            &mut self.interval,
            self.sender,
            self.returned,
            start_ns,
        );
        let mut now_ns = self.shared.clock.now_ns();
        let mut wait_until_ns = start_ns;
        loop {
            now_ns = self.turn(wait_until_ns.max(now_ns))?;
            self.record_finished(now_ns);
            if self.shared.is_stopping() {
                break;
            }
            let mut soonest_ns = now_ns + 50_000_000;
            let mut all_done = true;
            for index in 0..self.units.len() {
                self.leave_phases_that_ended(index, start_ns, now_ns);
                if self.units[index].done {
                    continue;
                }
                all_done = false;
                if self.units[index].producer.fatal().is_some() {
                    let unit = &self.units[index];
                    let problem =
                        Problem::producer(&unit.part, unit.producer.fatal().unwrap_or_default().to_owned());
                    let _ = self.sender.send(Message::Failed(problem));
                    self.shared.stop_now();
                    break;
                }
                let wake_ns = self.append_due(index, start_ns, now_ns);
                soonest_ns = soonest_ns.min(wake_ns).min(self.commit_if_due(index, now_ns));
            }
            self.flush_if_due(start_ns, now_ns);
            if all_done {
                return Ok(());
            }
            // What was appended may be ready to go at once.
            let mut read = std::mem::take(&mut self.live.read);
            let sent_ns = self.net.clock().now_ns();
            for unit in &mut self.units {
                unit.producer.tick(sent_ns, &mut read);
                if !unit.producer.actions().is_empty() {
                    self.net.act(unit.producer.actions());
                }
                soonest_ns = soonest_ns.min(unit.producer.next_deadline_ns());
            }
            self.live.read = read;
            wait_until_ns = soonest_ns.min(self.next_flush_ns);
        }
        // Interrupted: the phase ends where it is.
        let stop_ns = now_ns;
        for index in 0..self.units.len() {
            self.cut_short(index, start_ns, stop_ns);
        }
        Ok(())
    }

    /// Moves a producer on when its phase has ended: what is still due then is not sent, and counts as unsent.
    fn leave_phases_that_ended(&mut self, index: usize, start_ns: u64, now_ns: u64) {
        let phases = &self.shared.phases;
        loop {
            let unit = &mut self.units[index];
            if unit.done {
                return;
            }
            let ends_ns = phases[unit.phase].end_ns.map(|end_ns| start_ns + end_ns);
            let by_time = ends_ns.is_some_and(|ends_ns| now_ns >= ends_ns);
            let range = unit.part.phases[unit.phase].clone();
            // A phase of so many records is over for a producer that has sent its own; the last one needs no wait for
            // the moment at which a next record would be due.
            let last = unit.phase + 1 == phases.len();
            let counted = phases[unit.phase].counted && (last || unit.part.share.is_none());
            let by_count = unit.next >= range.end && counted;
            if !by_time && !by_count {
                return;
            }
            if by_time && unit.part.share.is_some() {
                self.append_last(index, start_ns, now_ns);
            }
            let unit = &mut self.units[index];
            if let (Some(share), Some(ends_ns)) = (&unit.part.share, ends_ns) {
                let left = range.end.saturating_sub(unit.next);
                if left > 0 {
                    unit.unsent[unit.phase] += left;
                    let sheet = &mut self.interval.phases[unit.phase];
                    sheet.histogram(Metric::Response).record_censored_due_run(
                        share,
                        unit.next,
                        left,
                        ends_ns - start_ns,
                    );
                    unit.next = range.end;
                }
            }
            self.end_wait(index, now_ns);
            let unit = &mut self.units[index];
            if unit.phase + 1 == phases.len() {
                unit.done = true;
                unit.producer.flush();
            } else {
                unit.phase += 1;
                let phase = unit.phase;
                self.shared.enter_counted_phase(phase);
            }
        }
    }

    /// What fell due just before the phase's end, when only this thread's own waking was late, is still sent.
    fn append_last(&mut self, index: usize, start_ns: u64, now_ns: u64) {
        loop {
            let unit = &self.units[index];
            let (Some(share), range) = (&unit.part.share, &unit.part.phases[unit.phase]) else {
                return;
            };
            let late = share.due_ns(unit.next) + LATE_NS < now_ns - start_ns;
            if unit.next >= range.end || late || unit.blocked_since_ns.is_some() {
                return;
            }
            self.append_due(index, start_ns, now_ns);
        }
    }

    /// The run was interrupted: what was due by then and not sent is unsent, what was not due yet never was.
    fn cut_short(&mut self, index: usize, start_ns: u64, stop_ns: u64) {
        self.end_wait(index, stop_ns);
        let unit = &mut self.units[index];
        unit.producer.flush();
        if unit.done {
            return;
        }
        unit.done = true;
        if let Some(share) = &unit.part.share {
            let due = share.due_count(stop_ns.saturating_sub(start_ns));
            for phase in unit.phase..unit.part.phases.len() {
                let range = unit.part.phases[phase].clone();
                let end = due.clamp(range.start, range.end);
                unit.due_ends[phase] = end;
                let first = unit.next.clamp(range.start, end);
                if end > first {
                    unit.unsent[phase] += end - first;
                    let sheet = &mut self.interval.phases[phase];
                    sheet.histogram(Metric::Response).record_censored_due_run(
                        share,
                        first,
                        end - first,
                        stop_ns - start_ns,
                    );
                }
            }
        }
    }

    /// Commits the open transaction when it has gathered for long enough; says when to look again.
    fn commit_if_due(&mut self, index: usize, now_ns: u64) -> u64 {
        let producer = &mut self.units[index].producer;
        let Some(since_ns) = producer.transaction_since_ns() else {
            return u64::MAX;
        };
        let due_ns = since_ns.saturating_add(self.plan.transaction_duration_ns);
        if now_ns < due_ns {
            return due_ns;
        }
        // While the one before is still being ended, this one goes on.
        producer.end_transaction(true, now_ns);
        u64::MAX
    }

    fn end_wait(&mut self, index: usize, now_ns: u64) {
        let unit = &mut self.units[index];
        if let Some(since_ns) = unit.blocked_since_ns.take() {
            self.interval.phases[unit.phase].buffer_full_ns += now_ns - since_ns;
        }
    }

    /// Appends what is due, up to a slice, and says when to come back.
    fn append_due(&mut self, index: usize, start_ns: u64, now_ns: u64) -> u64 {
        let unit = &mut self.units[index];
        let since_start_ns = now_ns.saturating_sub(start_ns);
        let end = unit.part.phases[unit.phase].end;
        let due = match &unit.part.share {
            Some(share) => share.due_count(since_start_ns).min(end).saturating_sub(unit.next),
            None => end.saturating_sub(unit.next),
        };
        if due == 0 {
            return match &unit.part.share {
                Some(share) if unit.next < end => {
                    start_ns + share.due_ns(unit.next).max(since_start_ns + GATHER_NS)
                }
                // The phase's own end comes next.
                _ => self.shared.phases[unit.phase]
                    .end_ns
                    .map_or(u64::MAX, |end_ns| start_ns + end_ns),
            };
        }
        let first = unit.next;
        let appended = self.append(index, due, start_ns, now_ns);
        let unit = &mut self.units[index];
        let blocked = appended.blocked;
        if appended.count > 0 {
            let sheet = &mut self.interval.phases[unit.phase];
            sheet.sent += appended.count;
            self.interval.windows.record(since_start_ns, appended.count);
            self.shared.live.sent.fetch_add(appended.count, Ordering::Relaxed);
            if let Some(share) = &unit.part.share {
                let sheet = &mut self.interval.phases[unit.phase];
                sheet.histogram(Metric::ScheduleLag).record_due_run(
                    share,
                    first,
                    appended.count,
                    since_start_ns,
                );
                if since_start_ns > LATE_NS {
                    let late_end = share
                        .due_count(since_start_ns - LATE_NS)
                        .clamp(first, first + appended.count);
                    sheet.late += late_end - first;
                }
            }
        }
        match blocked {
            false => {
                self.end_wait(index, now_ns);
                let unit = &self.units[index];
                match &unit.part.share {
                    // There is more to append at once.
                    _ if appended.count < due => now_ns,
                    Some(share) if unit.next < end => {
                        start_ns + share.due_ns(unit.next).max(since_start_ns + GATHER_NS)
                    }
                    _ => now_ns,
                }
            }
            true => {
                unit.blocked_since_ns.get_or_insert(now_ns);
                self.refuse_what_waited_too_long(index, start_ns, now_ns)
            }
        }
    }

    /// `max.block.ms`: a record that waits for room in the buffer for longer than that fails.
    fn refuse_what_waited_too_long(&mut self, index: usize, start_ns: u64, now_ns: u64) -> u64 {
        let max_block_ns = u64::try_from(self.plan.config.max_block.as_nanos()).unwrap_or(u64::MAX);
        let unit = &mut self.units[index];
        let Some(share) = &unit.part.share else {
            return u64::MAX;
        };
        let since_start_ns = now_ns - start_ns;
        if since_start_ns > max_block_ns {
            let range = unit.part.phases[unit.phase].clone();
            let expired = share
                .due_count(since_start_ns - max_block_ns)
                .min(range.end)
                .saturating_sub(unit.next);
            if expired > 0 {
                let sheet = &mut self.interval.phases[unit.phase];
                sheet.sent += expired;
                sheet.refused += expired;
                sheet.histogram(Metric::Response).record_censored_due_run(
                    share,
                    unit.next,
                    expired,
                    since_start_ns,
                );
                self.shared.live.failed.fetch_add(expired, Ordering::Relaxed);
                let message = format!(
                    "no room in buffer.memory within max.block.ms ({} ms)",
                    self.plan.config.max_block.as_millis()
                );
                self.interval
                    .count_error("max.block.ms".to_owned(), expired, since_start_ns, None, &message);
                unit.next += expired;
            }
        }
        now_ns + 10_000_000
    }

    fn append(&mut self, index: usize, due: u64, start_ns: u64, now_ns: u64) -> Appended {
        let plan = self.plan;
        let timestamp_ms = self.shared.clock.wall_ms(now_ns);
        let unit = &mut self.units[index];
        let key_len = unit.keys.as_ref().map(|_| KeyTable::key_bytes());
        let bound = BatchBuilder::record_len_bound(key_len, plan.pool.value_bytes(), &plan.headers);
        let most = due.min((SLICE_BYTES / bound).max(1) as u64);
        let mut count = 0;
        let mut blocked = false;
        let encoder = Encoder {
            plan,
            run_id: self.shared.run_id,
            producer: unit.part.index,
            timestamp_ms,
        };
        while count < most && !blocked {
            let took = if unit.keys.is_some() {
                append_keyed(unit, &encoder, bound, most - count, start_ns, now_ns)
            } else {
                append_unkeyed(unit, &encoder, bound, most - count, start_ns, now_ns)
            };
            match took {
                Ok(took) => {
                    count += took;
                    unit.next += took;
                }
                Err(_) => blocked = true,
            }
        }
        Appended { count, blocked }
    }

    fn record_finished(&mut self, now_ns: u64) {
        let Some(start_ns) = self.shared.start_ns() else {
            return;
        };
        for index in 0..self.units.len() {
            while let Some(finished) = self.units[index].producer.next_finished() {
                self.record(index, finished, start_ns, now_ns);
            }
            while let Some(ended) = self.units[index].producer.next_transaction() {
                self.record_transaction(index, &ended, start_ns);
            }
            while let Some(incident) = self.units[index].producer.next_incident() {
                self.note(index, &incident, start_ns);
            }
        }
    }

    fn record(&mut self, index: usize, finished: Finished<Runs>, start_ns: u64, now_ns: u64) {
        let shared = self.shared;
        let unit = &mut self.units[index];
        let count = u64::from(finished.count);
        let ended_ns = finished.finished_ns;
        let since_start_ns = ended_ns.saturating_sub(start_ns);
        // The batch as a whole belongs to the phase of its first record.
        let phase = finished.tag.0.first().map_or(0, |run| unit.phase_of(shared, run));
        let interval = &mut *self.interval;
        let delivered = matches!(
            finished.outcome,
            Outcome::Acknowledged { .. } | Outcome::NotAwaited
        );
        if delivered {
            let sheet = &mut interval.phases[phase];
            sheet.batches += 1;
            sheet.wire_bytes += finished.wire_bytes as u64;
            sheet.uncompressed_bytes += finished.uncompressed_bytes as u64;
            let partition = sheet
                .partitions
                .entry((unit.part.topic, finished.partition))
                .or_default();
            partition.acknowledged += count;
            if let (Some(written_ns), Outcome::Acknowledged { .. }) = (finished.written_ns, &finished.outcome)
            {
                let service_ns = ended_ns.saturating_sub(written_ns);
                if shared.places.at_start() <= MOST_PARTITION_HISTOGRAMS {
                    partition
                        .service
                        .get_or_insert_with(Box::default)
                        .record_n(service_ns, 1);
                }
                if let Some(broker) = finished.broker {
                    let broker = sheet.brokers.entry(broker).or_default();
                    broker.service.record_n(service_ns, 1);
                }
            }
            if let Some(broker) = finished.broker {
                let broker = sheet.brokers.entry(broker).or_default();
                broker.batches += 1;
                broker.bytes += finished.wire_bytes as u64;
            }
        }
        let key_bytes = if unit.keys.is_some() {
            KeyTable::key_bytes()
        } else {
            0
        };
        let record_bytes = (self.plan.pool.value_bytes() + key_bytes) as u64;
        let mut position = match finished.outcome {
            Outcome::Acknowledged { base_offset } => base_offset,
            _ => None,
        };
        let is_transactional = self.plan.config.transaction.is_some();
        for &run in &finished.tag.0 {
            unit.by_phase(shared, run, |phase, run| {
                let records = u64::from(run.count);
                let sheet = &mut interval.phases[phase];
                match &finished.outcome {
                    Outcome::Acknowledged { .. } => sheet.acknowledged += records,
                    Outcome::NotAwaited => sheet.written += records,
                    Outcome::Refused { .. } => sheet.refused += records,
                    Outcome::Unknown { .. } => sheet.unknown += records,
                    Outcome::Unfinished { .. } => sheet.unfinished += records,
                }
                if delivered {
                    sheet.payload_bytes += records * record_bytes;
                    if let Some(written_ns) = finished.written_ns {
                        sheet
                            .histogram(Metric::Queue)
                            .record_n(written_ns.saturating_sub(run.appended_ns), records);
                        if matches!(finished.outcome, Outcome::Acknowledged { .. }) {
                            sheet
                                .histogram(Metric::Service)
                                .record_n(ended_ns.saturating_sub(written_ns), records);
                        }
                    }
                }
                if let Some(share) = &unit.part.share {
                    let response = sheet.histogram(Metric::Response);
                    match &finished.outcome {
                        Outcome::Acknowledged { .. } => {
                            response.record_due_run(share, run.first, records, since_start_ns);
                        }
                        Outcome::NotAwaited => {}
                        // It failed or did not end: its age so far is a lower bound.
                        _ => response.record_censored_due_run(share, run.first, records, since_start_ns),
                    }
                }
            });
            if matches!(finished.outcome, Outcome::Acknowledged { .. }) {
                if is_transactional {
                    unit.undecided.push_back((finished.transaction, run));
                } else if shared.verifies {
                    unit.acknowledged.insert_run(run.first, run.count.into());
                }
            }
            if let (Some(offset), Some(indices)) = (&mut position, &shared.offset_indices) {
                let acknowledged = AcknowledgedRun {
                    base_offset: *offset as u64,
                    producer: unit.part.index,
                    first_sequence: run.first,
                    count: run.count.into(),
                };
                *offset += i64::from(run.count);
                let place = shared.places.of(unit.part.topic, finished.partition);
                if let Some(place) = place {
                    self.matched.clear();
                    indices[place]
                        .lock()
                        .expect("no holder panics")
                        .acknowledge(acknowledged, &mut self.matched);
                    for matched in &self.matched {
                        crate::verify::record_matched(shared, interval, matched, start_ns);
                    }
                }
            }
        }
        match &finished.outcome {
            Outcome::Acknowledged { .. } | Outcome::NotAwaited => {
                shared.live.acknowledged.fetch_add(count, Ordering::Relaxed);
            }
            Outcome::Refused { kind, message } | Outcome::Unknown { kind, message } => {
                shared.live.failed.fetch_add(count, Ordering::Relaxed);
                let at_ns = now_ns.saturating_sub(start_ns);
                interval.count_error(kind.to_string(), count, at_ns, finished.broker, message);
            }
            Outcome::Unfinished { .. } => {}
        }
    }

    /// What was acknowledged in a transaction counts for readers when that is committed.
    fn record_transaction(&mut self, index: usize, ended: &EndedTransaction, start_ns: u64) {
        let shared = self.shared;
        let phase = shared.phase_at(ended.ended_ns);
        let interval = &mut *self.interval;
        let took_ns = ended.ended_ns.saturating_sub(ended.asked_ns);
        let sheet = &mut interval.phases[phase];
        match &ended.outcome {
            TransactionOutcome::Committed => {
                sheet.transactions.committed += 1;
                sheet.histogram(Metric::Commit).record_n(took_ns, 1);
            }
            TransactionOutcome::Aborted | TransactionOutcome::Failed { .. } => {
                sheet.transactions.aborted += 1;
                sheet.histogram(Metric::Abort).record_n(took_ns, 1);
            }
            TransactionOutcome::Undecided => sheet.transactions.undecided += 1,
        }
        if ended.outcome != TransactionOutcome::Undecided {
            let markers = ended.partitions.len() as u64;
            sheet.transactions.markers += markers;
            shared.live.markers.fetch_add(markers, Ordering::Relaxed);
        }
        let unit = &mut self.units[index];
        let mut lost_records = 0;
        while let Some(&(number, run)) = unit.undecided.front()
            && number <= ended.number
        {
            unit.undecided.pop_front();
            if ended.outcome == TransactionOutcome::Committed {
                if shared.verifies {
                    unit.acknowledged.insert_run(run.first, run.count.into());
                }
                continue;
            }
            lost_records += u64::from(run.count);
            unit.by_phase(shared, run, |phase, run| {
                let sheet = &mut interval.phases[phase].transactions;
                if ended.outcome == TransactionOutcome::Undecided {
                    sheet.undecided_records += u64::from(run.count);
                } else {
                    sheet.aborted_records += u64::from(run.count);
                }
            });
        }
        if let TransactionOutcome::Failed { kind, message } = &ended.outcome {
            shared.live.failed.fetch_add(lost_records, Ordering::Relaxed);
            let at_ns = ended.ended_ns.saturating_sub(start_ns);
            let kind = format!("transaction aborted after {kind}");
            interval.count_error(kind, lost_records, at_ns, None, message);
        }
    }

    /// Something went wrong that a retry may make good: it is counted, and told once a second, broker and kind.
    fn note(&mut self, index: usize, incident: &Incident, start_ns: u64) {
        let kind = incident.kind.to_string();
        let since_start_ns = incident.at_ns.saturating_sub(start_ns);
        self.interval.count_error(
            kind.clone(),
            0,
            since_start_ns,
            incident.broker,
            &incident.message,
        );
        let told = (incident.broker, kind.clone());
        if self
            .told
            .get(&told)
            .is_some_and(|&at_ns| incident.at_ns < at_ns + 1_000_000_000)
        {
            return;
        }
        self.told.insert(told, incident.at_ns);
        let topic = &self.units[index].part.topic_name;
        let _ = self.sender.send(Message::Event(Event {
            time_ns: incident.at_ns,
            kind: kind.to_lowercase().replace([' ', '_', '.'], "-"),
            broker: incident.broker,
            partition: incident.partition.map(|partition| format!("{topic}-{partition}")),
            label: incident.message.clone(),
        }));
    }

    fn flush_if_due(&mut self, start_ns: u64, now_ns: u64) {
        let phase = self.shared.phase_at(now_ns);
        if now_ns < self.next_flush_ns && phase == self.flushed_phase {
            return;
        }
        self.flush(self.flushed_phase, now_ns);
        self.flushed_phase = phase;
        while self.next_flush_ns <= now_ns {
            self.next_flush_ns += 1_000_000_000;
        }
        debug_assert!(self.next_flush_ns > start_ns);
    }

    /// Hands the interval to the coordinator. What only counts up is booked on the phase that the time belongs to.
    fn flush(&mut self, phase: usize, now_ns: u64) {
        for unit in &mut self.units {
            let sheet = &mut self.interval.phases[phase];
            if let Some(since_ns) = &mut unit.blocked_since_ns {
                sheet.buffer_full_ns += now_ns - *since_ns;
                *since_ns = now_ns;
            }
            let counts = unit.producer.counts();
            let before = &unit.counts_before;
            sheet.requests += counts.requests - before.requests;
            sheet.retried_batches += counts.retried_batches - before.retried_batches;
            for (&id, counts) in &counts.brokers {
                let before = before.brokers.get(&id).copied().unwrap_or_default();
                if *counts != before {
                    let broker = sheet.brokers.entry(id).or_default();
                    broker.requests += counts.requests - before.requests;
                    broker.throttle_ns += counts.throttle_ns - before.throttle_ns;
                }
            }
            unit.counts_before = counts.clone();
        }
        self.shared.flush(
            ThreadRole::Producer,
            Some(phase),
            &mut self.interval,
            self.sender,
            self.returned,
            now_ns,
        );
    }

    /// Awaits what was sent, up to the drain time-out.
    fn drain(&mut self) -> std::io::Result<()> {
        let Some(start_ns) = self.shared.start_ns() else {
            return Ok(());
        };
        let mut now_ns = self.shared.clock.now_ns();
        let began_ns = now_ns;
        for unit in &mut self.units {
            unit.producer.flush();
        }
        loop {
            for unit in &mut self.units {
                unit.producer.end_transaction(true, now_ns);
            }
            let is_idle =
                |unit: &Unit| unit.producer.is_idle() && unit.producer.transaction_since_ns().is_none();
            let idle = self
                .units
                .iter()
                .all(|unit| is_idle(unit) || unit.producer.fatal().is_some());
            let limit_ns = self.shared.drain_limit_ns();
            if idle || now_ns >= began_ns.saturating_add(limit_ns) {
                break;
            }
            now_ns = self.turn(self.deadline_ns(now_ns).min(now_ns + 20_000_000))?;
            self.record_finished(now_ns);
            self.flush_if_due(start_ns, now_ns);
        }
        for unit in &mut self.units {
            unit.producer.abandon(now_ns);
            self.net.act(unit.producer.actions());
        }
        self.record_finished(now_ns);
        let phase = self.shared.phase_at(now_ns);
        self.flush(phase, now_ns);
        Ok(())
    }

    fn end(self) -> Vec<ProducerEnd> {
        let started = self.shared.start_ns().is_some();
        self.units
            .into_iter()
            .map(|unit| {
                let scheduled = unit.part.share.is_some() && started;
                let due = unit
                    .part
                    .phases
                    .iter()
                    .zip(&unit.due_ends)
                    .map(|(range, &end)| end - range.start)
                    .collect();
                ProducerEnd {
                    index: unit.part.index,
                    due: scheduled.then_some(due),
                    unsent: scheduled.then_some(unit.unsent),
                    acknowledged: unit.acknowledged,
                    leaders: (0..unit.producer.partitions())
                        .map(|place| unit.producer.leader(place))
                        .collect(),
                    fatal: unit.producer.fatal().map(str::to_owned),
                }
            })
            .collect()
    }
}

struct Appended {
    count: u64,
    blocked: bool,
}

/// Writes records of one producer.
struct Encoder<'a> {
    plan: &'a ProducingPlan,
    run_id: u64,
    producer: u32,
    timestamp_ms: i64,
}

impl Encoder<'_> {
    #[inline]
    fn push(
        &self,
        open: &mut client::producer::OpenBatch<Runs>,
        key: Option<&[u8]>,
        sequence: u64,
        due_ns: u64,
    ) {
        let pool = &self.plan.pool;
        let (payload, crc) = pool.slot(sequence.wrapping_add(u64::from(self.producer) * 7919));
        let mut stamp = [0; STAMP_BYTES];
        if self.plan.stamp != StampPlacement::None {
            Stamp {
                producer: self.producer,
                sequence,
                due_ns,
            }
            .encode(self.run_id, crc, &mut stamp);
        }
        open.push(
            self.timestamp_ms,
            key,
            pool.value_bytes(),
            &self.plan.headers,
            |out| {
                if pool.stamp_in_value() {
                    out.extend_from_slice(&stamp);
                }
                out.extend_from_slice(payload);
            },
        );
        if self.plan.stamp == StampPlacement::Header {
            open.overwrite_tail(&stamp);
        }
    }
}

/// Appends up to `most` records to one partition's open batch.
fn append_unkeyed(
    unit: &mut Unit,
    encoder: &Encoder<'_>,
    bound: usize,
    most: u64,
    start_ns: u64,
    now_ns: u64,
) -> Result<u64, CannotAppend> {
    let partition = match &mut unit.weighted {
        // The partition that is furthest behind its weight gets the next batch.
        Some(weighted) if unit.producer.is_gathering(weighted.current) => weighted.current,
        Some(weighted) => weighted.choose(),
        None => unit
            .producer
            .sticky_partition(now_ns)
            .ok_or(CannotAppend::NoMetadata)?,
    };
    let open = unit.producer.open(partition, bound, now_ns)?;
    let before = open.len_bytes();
    let first = unit.next;
    let mut count = 0;
    let closed_due_ns = now_ns - start_ns;
    let mut due_times = unit.part.share.as_ref().map(|share| share.due_times(first));
    while count < most && (count == 0 || open.has_room(bound)) {
        let due_ns = due_times
            .as_mut()
            .and_then(Iterator::next)
            .unwrap_or(closed_due_ns);
        encoder.push(open, None, first + count, due_ns);
        count += 1;
    }
    open.tag.add(first, count as u32, now_ns);
    let bytes = open.len_bytes() - before;
    unit.producer.appended(partition, bytes, bound, now_ns);
    if let Some(weighted) = &mut unit.weighted {
        weighted.sent[partition] += count;
    }
    Ok(count)
}

/// Appends one record to the partition of its key.
fn append_keyed(
    unit: &mut Unit,
    encoder: &Encoder<'_>,
    bound: usize,
    most: u64,
    start_ns: u64,
    now_ns: u64,
) -> Result<u64, CannotAppend> {
    let partitions = unit.producer.partitions();
    if partitions == 0 {
        return Err(CannotAppend::NoMetadata);
    }
    let cursor = unit.keys.as_mut().expect("asked only with keys");
    let first = unit.next;
    let closed_due_ns = now_ns - start_ns;
    let mut due_times = unit.part.share.as_ref().map(|share| share.due_times(first));
    let mut count = 0;
    while count < most {
        let (index, partition) = cursor.peek(&encoder.plan.keys, partitions);
        let open = match unit.producer.open(partition, bound, now_ns) {
            Ok(open) => open,
            Err(error) if count == 0 => return Err(error),
            Err(_) => break,
        };
        let due_ns = due_times
            .as_mut()
            .and_then(Iterator::next)
            .unwrap_or(closed_due_ns);
        encoder.push(
            open,
            Some(cursor.key(&encoder.plan.keys, index)),
            first + count,
            due_ns,
        );
        open.tag.add(first + count, 1, now_ns);
        unit.producer.appended_keyed(partition, bound, now_ns);
        cursor.advance();
        count += 1;
    }
    Ok(count)
}

/// Wraps the parts for the threads: each gets every n-th.
pub fn deal<T>(parts: Vec<T>, threads: usize) -> Vec<Vec<T>> {
    let mut dealt: Vec<Vec<T>> = (0..threads).map(|_| Vec::new()).collect();
    for (index, part) in parts.into_iter().enumerate() {
        dealt[index % threads].push(part);
    }
    dealt
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(list: &[(u64, u32, u64)]) -> Runs {
        let mut runs = Runs::default();
        for &(first, count, at) in list {
            runs.add(first, count, at);
        }
        runs
    }

    fn shape(runs: &Runs) -> Vec<(u64, u32, u64)> {
        runs.0
            .iter()
            .map(|run| (run.first, run.count, run.appended_ns))
            .collect()
    }

    #[test]
    fn records_appended_together_make_one_run() {
        assert_eq!(
            shape(&runs(&[(0, 3, 5), (3, 2, 5), (5, 1, 6), (9, 1, 6)])),
            [(0, 5, 5), (5, 1, 6), (9, 1, 6)]
        );
    }

    #[test]
    fn a_split_batch_splits_its_runs() {
        let mut first = runs(&[(0, 5, 5), (5, 4, 6)]);
        let second = first.split_off(3);
        assert_eq!(
            (shape(&first), shape(&second)),
            (vec![(0, 3, 5)], vec![(3, 2, 5), (5, 4, 6)])
        );
        let mut first = runs(&[(0, 5, 5), (5, 4, 6)]);
        let second = first.split_off(5);
        assert_eq!(
            (shape(&first), shape(&second)),
            (vec![(0, 5, 5)], vec![(5, 4, 6)])
        );
        let mut all = runs(&[(0, 5, 5)]);
        assert_eq!(shape(&all.split_off(5)), []);
    }

    #[test]
    fn weights_are_kept_to_within_a_batch() {
        let mut weighted = WeightedPartitions {
            weights: vec![3, 1, 0],
            sent: vec![0; 3],
            current: 0,
        };
        for _ in 0..400 {
            let partition = weighted.choose();
            weighted.sent[partition] += 10;
        }
        assert_eq!(weighted.sent, [3000, 1000, 0]);
    }

    #[test]
    fn parts_are_dealt_evenly() {
        assert_eq!(deal(vec![0, 1, 2, 3, 4], 2), [vec![0, 2, 4], vec![1, 3]]);
    }
}
