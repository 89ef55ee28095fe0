//! Threads that consume: each drives its share of the consumers through one poll loop and verifies what they are given.

use crate::recorder::Interval;
use crate::shared::{Message, Problem, Shared, ThreadRole};
use crate::verify::{Arrival, GroupBook, Verifier};
use client::batch::Batch;
use client::consumer::{Consumer, ConsumerEvent, Deliver, OWNERS, SourceCounts, Subscription};
use client::net::{ConnId, Frame, Net, NetEvent};
use client::producer::FailureKind;
use model::client_config::{AssignmentStrategy, ConsumerConfig, GroupProtocol, OffsetReset};
use model::result::Event;
use model::workload::{ConsumerPace, StampPlacement};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender};

/// Positions are committed this often where the client does not do so by itself, as OMB's driver leaves it to the tool.
const COMMIT_NS: u64 = 1_000_000_000;
/// How long a consumer may take to leave its group.
const LEAVE_NS: u64 = 2_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;

/// One consumer's part of the load.
#[derive(Clone, Copy, Debug)]
pub struct ConsumerPart {
    /// Its number within the run.
    pub index: u32,
    /// The number of its group.
    pub group: usize,
}

/// A group whose members keep partitions through rebalances is given so long to divide them evenly before the load begins.
const SETTLED_WITHIN_NS: u64 = 15_000_000_000;

/// What every consuming thread needs to know.
#[derive(Debug)]
pub struct ConsumingPlan {
    /// The consumers' properties; `group.id` is the group's name.
    pub config: ConsumerConfig,
    /// Where stamps are; `None` where nothing is verified.
    pub stamp: StampPlacement,
    /// How fast records are taken.
    pub pace: ConsumerPace,
    /// Whether to start at the end of what is there.
    pub from_latest: bool,
    /// Whether `auto.offset.reset` was given, which then decides where to start.
    pub reset_given: bool,
    /// The topics' names, by their numbers.
    pub topic_names: Vec<String>,
    /// Members of each group.
    pub members_per_group: usize,
    /// Where nothing is produced: after how many records over all groups the load ends, if not by time.
    pub ends_after: Option<u64>,
}

struct Unit {
    part: ConsumerPart,
    consumer: Consumer,
    ready: bool,
    commit_at_ns: u64,
    /// Since when it has no partition, once it had some.
    without_since_ns: Option<u64>,
    /// When it first had all that it then was assigned.
    positioned_ns: Option<u64>,
    /// What it had fetched of each broker when that was last written down.
    fetched_before: BTreeMap<i32, SourceCounts>,
}

/// Runs the consumers of one thread to their end.
pub fn run_thread(
    shared: &Shared,
    plan: &ConsumingPlan,
    books: &[Arc<GroupBook>],
    parts: Vec<ConsumerPart>,
    sender: &Sender<Message>,
    returned: &Receiver<Box<Interval>>,
) -> std::io::Result<()> {
    let net = Net::new(shared.clock)?;
    let mut units = Vec::with_capacity(parts.len());
    for (place, part) in parts.into_iter().enumerate() {
        let book = &books[part.group];
        let mut config = plan.config.clone();
        config.group_id = Some(book.name.clone());
        if !plan.reset_given {
            config.auto_offset_reset = if plan.from_latest {
                OffsetReset::Latest
            } else {
                OffsetReset::Earliest
            };
        }
        let topics = book
            .topics
            .iter()
            .map(|&topic| plan.topic_names[topic].clone())
            .collect();
        let subscription = Subscription::Group { topics };
        let consumer = Consumer::new(
            &config,
            &subscription,
            place as u32 * OWNERS,
            shared.clock.wall_start(),
        )
        .map_err(std::io::Error::other)?;
        units.push(Unit {
            part,
            consumer,
            ready: false,
            commit_at_ns: 0,
            without_since_ns: None,
            positioned_ns: None,
            fetched_before: BTreeMap::new(),
        });
    }
    let mut thread = Thread {
        shared,
        plan,
        books,
        net,
        units,
        interval: Box::new(Interval::new(shared.phases.len())),
        verifier: Verifier::new(plan.stamp),
        sender,
        returned,
        next_flush_ns: None,
        flushed_phase: 0,
        events: Vec::new(),
        read: Vec::new(),
    };
    thread.consume()?;
    thread.leave()
}

struct Thread<'a> {
    shared: &'a Shared,
    plan: &'a ConsumingPlan,
    books: &'a [Arc<GroupBook>],
    net: Net,
    units: Vec<Unit>,
    interval: Box<Interval>,
    verifier: Verifier,
    sender: &'a Sender<Message>,
    returned: &'a Receiver<Box<Interval>>,
    next_flush_ns: Option<u64>,
    flushed_phase: usize,
    events: Vec<(ConnId, NetEvent)>,
    read: Vec<Frame>,
}

impl Thread<'_> {
    fn turn(&mut self, until_ns: u64) -> std::io::Result<u64> {
        let mut events = std::mem::take(&mut self.events);
        self.net.poll(Some(until_ns), &mut events)?;
        let now_ns = self.net.clock().now_ns();
        for (conn, event) in events.drain(..) {
            let unit = &mut self.units[(conn.owner / OWNERS) as usize];
            unit.consumer.on_net(conn, event, now_ns, &mut self.read);
            self.net.act(unit.consumer.actions());
        }
        self.events = events;
        for unit in &mut self.units {
            unit.consumer.tick(now_ns, &mut self.read);
            if !unit.consumer.actions().is_empty() {
                self.net.act(unit.consumer.actions());
            }
        }
        self.recycle();
        Ok(now_ns)
    }

    fn recycle(&mut self) {
        for frame in self.read.drain(..) {
            self.net.recycle(frame);
        }
    }

    fn deadline_ns(&self, now_ns: u64) -> u64 {
        let soonest = self
            .units
            .iter()
            .map(|unit| unit.consumer.next_deadline_ns())
            .min()
            .unwrap_or(u64::MAX);
        soonest
            .min(now_ns + 20_000_000)
            .min(self.next_flush_ns.unwrap_or(u64::MAX))
    }

    fn consume(&mut self) -> std::io::Result<()> {
        let mut now_ns = self.shared.clock.now_ns();
        loop {
            let waiting = self.units.iter().any(|unit| unit.consumer.has_deliveries());
            now_ns = self.turn(if waiting { now_ns } else { self.deadline_ns(now_ns) })?;
            self.tell_events(now_ns);
            if self.shared.are_consumers_done() {
                return Ok(());
            }
            match self.shared.start_ns() {
                None => self.count_ready(now_ns),
                Some(start_ns) => {
                    self.deliver(now_ns);
                    self.commit(now_ns);
                    self.flush_if_due(start_ns, now_ns);
                    let enough = self
                        .plan
                        .ends_after
                        .is_some_and(|count| self.shared.live.consumed.load(Ordering::Relaxed) >= count);
                    if enough {
                        return Ok(());
                    }
                }
            }
        }
    }

    fn count_ready(&mut self, now_ns: u64) {
        // Where members keep their partitions through a rebalance, the first to come gets all of them and hands them on later.
        let is_incremental = match &self.plan.config.group_protocol {
            GroupProtocol::Consumer(_) => true,
            GroupProtocol::Classic(strategies) => *strategies == [AssignmentStrategy::CooperativeSticky],
        };
        for unit in self.units.iter_mut().filter(|unit| !unit.ready) {
            if unit.consumer.is_assigned_and_positioned() {
                let since_ns = *unit.positioned_ns.get_or_insert(now_ns);
                let topics = &self.books[unit.part.group].topics;
                let partitions: usize = topics
                    .iter()
                    .map(|&topic| self.shared.places.of_topic_at_start(topic))
                    .sum();
                let members = self.plan.members_per_group.max(1);
                let fair = partitions / members..=partitions.div_ceil(members);
                let is_settled = fair.contains(&unit.consumer.assigned().count());
                if is_incremental && !is_settled && now_ns.saturating_sub(since_ns) < SETTLED_WITHIN_NS {
                    continue;
                }
                unit.ready = true;
                let book = &self.books[unit.part.group];
                for (topic, partition, position) in unit.consumer.positions() {
                    let number = self.plan.topic_names.iter().position(|name| name == topic);
                    if let (Some(topic), Some(position)) = (number, position)
                        && let Some(place) = self.shared.places.of(topic, partition)
                    {
                        book.is_at(place, position);
                    }
                }
                self.shared.ready.fetch_add(1, Ordering::AcqRel);
            }
        }
    }

    fn deliver(&mut self, now_ns: u64) {
        for place in 0..self.units.len() {
            let unit = &mut self.units[place];
            if !unit.consumer.has_deliveries() {
                continue;
            }
            let mut reader = Reader {
                shared: self.shared,
                plan: self.plan,
                book: &self.books[unit.part.group],
                interval: &mut self.interval,
                verifier: &mut self.verifier,
                records: 0,
            };
            unit.consumer.deliver(&mut reader, now_ns, &mut self.read);
            let records = reader.records;
            let pause_ns = match self.plan.pace {
                ConsumerPace::Unlimited => 0,
                ConsumerPace::DelayPerRecord(delay) => u64::try_from(delay.as_nanos())
                    .unwrap_or(u64::MAX)
                    .saturating_mul(records),
                ConsumerPace::AtMost(rate) => (records as f64 / rate.per_second() * 1e9) as u64,
            };
            if pause_ns > 0 {
                unit.consumer.pause_until(now_ns.saturating_add(pause_ns));
            }
            self.net.act(unit.consumer.actions());
        }
        self.recycle();
    }

    /// Where the client does not commit by itself, positions are committed once a second.
    fn commit(&mut self, now_ns: u64) {
        if self.plan.config.auto_commit {
            return;
        }
        for unit in &mut self.units {
            if now_ns >= unit.commit_at_ns {
                unit.commit_at_ns = now_ns + COMMIT_NS;
                unit.consumer.commit();
                self.net.act(unit.consumer.actions());
            }
        }
    }

    fn tell_events(&mut self, now_ns: u64) {
        let start_ns = self.shared.start_ns();
        let since_ns = |at_ns: u64| start_ns.map_or(0, |start_ns| at_ns.saturating_sub(start_ns));
        for unit in &mut self.units {
            let group = &self.books[unit.part.group].name;
            while let Some(event) = unit.consumer.next_event() {
                let (kind, at_ns, partition, label) = match event {
                    ConsumerEvent::Failed { reason } => {
                        let who = format!("consumer {} of group {group}", unit.part.index);
                        let _ = self.sender.send(Message::Failed(Problem { who, what: reason }));
                        continue;
                    }
                    // Assignments before the load are its preparation.
                    _ if start_ns.is_none() => continue,
                    ConsumerEvent::RebalanceStarted { at_ns } => {
                        let label = format!("group {group} rebalances");
                        ("rebalance-started", at_ns, None, label)
                    }
                    ConsumerEvent::Revoked {
                        partitions,
                        is_lost,
                        at_ns,
                    } => {
                        if !self.shared.are_consumers_done() {
                            let places = places_of(self.shared, self.plan, &partitions);
                            self.books[unit.part.group].given_up(places, at_ns);
                        }
                        if unit.consumer.assigned().next().is_none() {
                            unit.without_since_ns.get_or_insert(at_ns);
                        }
                        let how = if is_lost { "lost" } else { "gave up" };
                        let label = format!(
                            "consumer {} of group {group} {how} {} partitions",
                            unit.part.index,
                            partitions.len()
                        );
                        ("partitions-revoked", at_ns, None, label)
                    }
                    ConsumerEvent::Assigned {
                        partitions, at_ns, ..
                    } => {
                        let places = places_of(self.shared, self.plan, &partitions);
                        self.books[unit.part.group].taken_up(places, at_ns);
                        let without = unit
                            .without_since_ns
                            .take_if(|_| !partitions.is_empty())
                            .map_or_else(String::new, |since| {
                                format!(" after {:.3} s without any", (at_ns - since) as f64 / 1e9)
                            });
                        let label = format!(
                            "consumer {} of group {group} got {} partitions{without}",
                            unit.part.index,
                            partitions.len()
                        );
                        ("partitions-assigned", at_ns, None, label)
                    }
                    ConsumerEvent::OffsetReset {
                        topic,
                        partition,
                        from,
                        to,
                        at_ns,
                    } => {
                        self.books[unit.part.group].passed_by(u64::try_from(to - from).unwrap_or(0));
                        let why = match to < from {
                            false => "retention removed what lies between",
                            true => {
                                "the log ends before it: the topic was made anew, or records were cut off"
                            }
                        };
                        let label = format!(
                            "group {group} was at offset {from}, which the log no longer has, and goes on at {to}; {why}"
                        );
                        ("offset-reset", at_ns, Some(format!("{topic}-{partition}")), label)
                    }
                    ConsumerEvent::TopicMadeAgain {
                        topic,
                        partition,
                        from,
                        at_ns,
                    } => {
                        let place = place_of(self.shared, self.plan, &topic, partition);
                        if let Some(place) = place {
                            self.books[unit.part.group].is_cut_back(place, 0);
                        }
                        let label = format!(
                            "topic {topic} was deleted and made again: group {group} had read up to offset {from} of the old one and \
                             reads the new one from its beginning"
                        );
                        let kind = FailureKind::TopicMadeAgain.to_string();
                        self.interval.count_error(kind, 0, since_ns(at_ns), None, &label);
                        (
                            "topic-made-again",
                            at_ns,
                            Some(format!("{topic}-{partition}")),
                            label,
                        )
                    }
                    ConsumerEvent::Truncated {
                        topic,
                        partition,
                        from,
                        to,
                        at_ns,
                    } => {
                        let place = place_of(self.shared, self.plan, &topic, partition);
                        if let Some(place) = place {
                            self.books[unit.part.group].is_cut_back(place, to);
                        }
                        let label = format!(
                            "the log was truncated: group {group} had read up to offset {from}, and the new leader's log differs from \
                             offset {to} on"
                        );
                        self.interval.count_error(
                            "log truncated".to_owned(),
                            0,
                            since_ns(at_ns),
                            None,
                            &label,
                        );
                        (
                            "log-truncated",
                            at_ns,
                            Some(format!("{topic}-{partition}")),
                            label,
                        )
                    }
                    ConsumerEvent::Corrupt {
                        topic,
                        partition,
                        offset,
                        error,
                        ..
                    } => {
                        let message = format!("{topic}-{partition} at offset {offset}: {error}");
                        self.interval.count_error(
                            "corrupt batch".to_owned(),
                            0,
                            since_ns(now_ns),
                            None,
                            &message,
                        );
                        (
                            "corrupt-batch",
                            now_ns,
                            Some(format!("{topic}-{partition}")),
                            message,
                        )
                    }
                    ConsumerEvent::Committed { result: Err(why), .. } => {
                        self.interval.count_error(
                            "commit failed".to_owned(),
                            0,
                            since_ns(now_ns),
                            None,
                            &why,
                        );
                        continue;
                    }
                    ConsumerEvent::Committed { .. } => continue,
                };
                let event = Event {
                    time_ns: at_ns,
                    kind: kind.to_owned(),
                    broker: None,
                    partition,
                    label,
                };
                let _ = self.sender.send(Message::Event(event));
            }
        }
    }

    fn flush_if_due(&mut self, start_ns: u64, now_ns: u64) {
        let Some(next_ns) = self.next_flush_ns else {
            // CPU time used so far is not the load's.
            let shared = self.shared;
            shared.flush(
                ThreadRole::Consumer,
                None,
                &mut self.interval,
                self.sender,
                self.returned,
                start_ns,
            );
            self.next_flush_ns = Some(start_ns + SECOND_NS);
            return;
        };
        let phase = self.shared.phase_at(now_ns);
        if now_ns < next_ns && phase == self.flushed_phase {
            return;
        }
        self.flush(now_ns);
        self.flushed_phase = phase;
        let behind = now_ns.saturating_sub(next_ns) / SECOND_NS;
        if now_ns >= next_ns {
            self.next_flush_ns = Some(next_ns + (behind + 1) * SECOND_NS);
        }
    }

    fn flush(&mut self, now_ns: u64) {
        for unit in &mut self.units {
            let sheet = &mut self.interval.phases[self.flushed_phase];
            for (id, counts) in unit.consumer.sources() {
                let before = unit.fetched_before.insert(id, counts).unwrap_or_default();
                if counts != before {
                    let broker = sheet.brokers.entry(id).or_default();
                    broker.fetched_bytes += counts.bytes - before.bytes;
                    broker.fetch_throttle_ns += counts.throttle_ns - before.throttle_ns;
                }
            }
        }
        let shared = self.shared;
        let phase = Some(self.flushed_phase);
        shared.flush(
            ThreadRole::Consumer,
            phase,
            &mut self.interval,
            self.sender,
            self.returned,
            now_ns,
        );
    }

    fn leave(&mut self) -> std::io::Result<()> {
        let mut now_ns = self.shared.clock.now_ns();
        if self.shared.start_ns().is_some() {
            self.verifier.finish(self.shared, &mut self.interval);
            self.flush(now_ns);
        }
        let until_ns = now_ns + LEAVE_NS;
        for unit in &mut self.units {
            unit.consumer.leave(now_ns, until_ns, &mut self.read);
            self.net.act(unit.consumer.actions());
        }
        while now_ns < until_ns && self.units.iter().any(|unit| !unit.consumer.is_closed()) {
            now_ns = self.turn(self.deadline_ns(now_ns).clamp(now_ns, until_ns))?;
        }
        for unit in &mut self.units {
            unit.consumer.abandon(now_ns, &mut self.read);
            self.net.act(unit.consumer.actions());
        }
        Ok(())
    }
}

/// Verifies the batches of one consumer as they are handed out.
struct Reader<'a> {
    shared: &'a Shared,
    plan: &'a ConsumingPlan,
    book: &'a GroupBook,
    interval: &'a mut Interval,
    verifier: &'a mut Verifier,
    records: u64,
}

/// The places of partitions when all are counted through.
fn place_of(shared: &Shared, plan: &ConsumingPlan, topic: &str, partition: i32) -> Option<usize> {
    let number = plan.topic_names.iter().position(|name| name == topic)?;
    shared.places.of(number, partition)
}

fn places_of<'a>(
    shared: &'a Shared,
    plan: &'a ConsumingPlan,
    partitions: &'a [(String, i32)],
) -> impl Iterator<Item = usize> + 'a {
    partitions
        .iter()
        .filter_map(|(topic, partition)| place_of(shared, plan, topic, *partition))
}

impl Deliver for Reader<'_> {
    fn batch(&mut self, topic: &str, partition: i32, batch: &Batch<'_>, from_offset: i64, delivered_ns: u64) {
        let Some(place) = self.place(topic, partition) else {
            return;
        };
        let arrival = Arrival {
            place,
            batch,
            from_offset,
            at_ns: delivered_ns,
        };
        let delivered = self.verifier.read(self.shared, self.book, self.interval, arrival);
        self.records += delivered.records;
    }

    fn reached(&mut self, topic: &str, partition: i32, next_offset: i64) {
        if let Some(place) = self.place(topic, partition) {
            self.book.is_at(place, next_offset);
        }
    }
}

impl Reader<'_> {
    /// The place of a partition when all are counted through, if the group reads it.
    fn place(&self, topic: &str, partition: i32) -> Option<usize> {
        let mut numbers = self.book.topics.iter().copied();
        let topic = numbers.find(|&number| self.plan.topic_names[number] == topic)?;
        self.shared.places.of(topic, partition)
    }
}
