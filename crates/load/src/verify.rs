//! Holds what consumers are given against what was sent.
//!
//! A [`GroupBook`] keeps what one group has been given, shared by the threads that its consumers run on: which sequence
//! numbers of each producer, and in what order within each partition. A [`Verifier`] belongs to a thread and reads stamps;
//! runs of neighbouring records are judged together, so a lock is taken once a batch.

use crate::meeting::{Placed, SenderClock};
use crate::places::ByPlace;
use crate::recorder::Interval;
use crate::shared::Shared;
use client::batch::{Batch, crc32c};
use measure::offset_index::MatchedRun;
use measure::partition_order::{DeliveredRun, OrderCounts, PartitionOrder};
use measure::sequence_set::SequenceSet;
use measure::stamp::{STAMP_BYTES, Stamp};
use model::result::Metric;
use model::workload::StampPlacement;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// A batch that decodes to more than this is not one of Kafka's (max.message.bytes bounds it far below).
const MOST_DECODED_BYTES: usize = 256 << 20;
/// Producers of another run whose records are told apart; those beyond are foreign.
pub const MOST_SENDING_PRODUCERS: usize = 4096;
/// Records of another run wait for its clock in this number at most, and for so long.
const MOST_UNPLACED: usize = 1 << 20;
const PLACED_WITHIN_NS: u64 = 10_000_000_000;

/// What one group has been given.
#[derive(Debug)]
pub struct GroupBook {
    /// The group's name, or that of its assignment.
    pub name: String,
    /// Its number, over all topics.
    pub index: usize,
    /// Its place among the groups that read the same topic.
    pub place_in_topic: usize,
    /// The numbers of the topics that it reads.
    pub topics: Vec<usize>,
    orders: ByPlace<Mutex<PartitionOrder>>,
    next_offsets: ByPlace<AtomicI64>,
    delivered: Vec<Mutex<SequenceSet>>,
    checked: AtomicU64,
    reordered: AtomicU64,
    duplicated: AtomicU64,
    redelivered: AtomicU64,
    expired: AtomicU64,
    corrupt: AtomicU64,
    foreign: AtomicU64,
    /// By place: since when no member has the partition; 0 while one has it.
    unassigned_since_ns: ByPlace<AtomicU64>,
    unassigned_ns: AtomicU64,
    revocations: AtomicU64,
}

/// Counts of what was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Records held against what was sent.
    pub checked: u64,
    /// Behind a later record of their producer.
    pub reordered: u64,
    /// In the log more than once.
    pub duplicated: u64,
    /// Given again at an offset that was given before.
    pub redelivered: u64,
    /// The check does not fit.
    pub corrupt: u64,
    /// Not sent by this run.
    pub foreign: u64,
}

impl GroupBook {
    /// Nothing given yet. `partitions` and `producers` are those of all topics together, when the load begins.
    pub fn new(
        name: String,
        index: usize,
        place_in_topic: usize,
        topics: Vec<usize>,
        partitions: usize,
        producers: usize,
    ) -> GroupBook {
        GroupBook {
            name,
            index,
            place_in_topic,
            topics,
            orders: ByPlace::new(partitions, || Mutex::new(PartitionOrder::new())),
            next_offsets: ByPlace::new(partitions, || AtomicI64::new(0)),
            delivered: (0..producers).map(|_| Mutex::new(SequenceSet::new())).collect(),
            checked: AtomicU64::new(0),
            reordered: AtomicU64::new(0),
            duplicated: AtomicU64::new(0),
            redelivered: AtomicU64::new(0),
            expired: AtomicU64::new(0),
            corrupt: AtomicU64::new(0),
            foreign: AtomicU64::new(0),
            unassigned_since_ns: ByPlace::new(partitions, || AtomicU64::new(0)),
            unassigned_ns: AtomicU64::new(0),
            revocations: AtomicU64::new(0),
        }
    }

    /// A member has given up partitions, or lost them.
    pub fn given_up(&self, places: impl Iterator<Item = usize>, at_ns: u64) {
        self.revocations.fetch_add(1, Ordering::Relaxed);
        for place in places {
            self.unassigned_since_ns[place].store(at_ns.max(1), Ordering::Release);
        }
    }

    /// A member has partitions: its own from before, and new ones.
    pub fn taken_up(&self, places: impl Iterator<Item = usize>, at_ns: u64) {
        for place in places {
            let since_ns = self.unassigned_since_ns[place].swap(0, Ordering::AcqRel);
            if since_ns > 0 {
                let without_ns = at_ns.saturating_sub(since_ns);
                self.unassigned_ns.fetch_add(without_ns, Ordering::Relaxed);
            }
        }
    }

    /// How often a member gave up partitions while the load ran, and for how long partitions then had no member, summed over
    /// partitions.
    pub fn rebalanced(&self) -> (u64, u64) {
        (
            self.revocations.load(Ordering::Relaxed),
            self.unassigned_ns.load(Ordering::Relaxed),
        )
    }

    /// The offset behind the last that was given of that partition.
    pub fn next_offset(&self, place: usize) -> i64 {
        self.next_offsets[place].load(Ordering::Acquire)
    }

    /// The group is at that offset of the partition, so what is below is not awaited: it starts to read there, or has passed
    /// by what is not delivered.
    pub fn is_at(&self, place: usize, offset: i64) {
        self.next_offsets[place].fetch_max(offset, Ordering::AcqRel);
    }

    /// The log of the partition ends at that offset now: it was truncated or, with 0, its topic was made again.
    pub fn is_cut_back(&self, place: usize, offset: i64) {
        self.next_offsets[place].fetch_min(offset, Ordering::AcqRel);
        let mut order = self.orders[place].lock().expect("no holder panics");
        order.cut_back_to(u64::try_from(offset).unwrap_or(0));
    }

    /// The log no longer had so many offsets when the group came to them.
    pub fn passed_by(&self, offsets: u64) {
        self.expired.fetch_add(offsets, Ordering::Relaxed);
    }

    /// Offsets that the log no longer had when the group came to them.
    pub fn expired(&self) -> u64 {
        self.expired.load(Ordering::Relaxed)
    }

    /// Of the records acknowledged to a producer, how many this group never was given.
    pub fn missing(&self, producer: u32, acknowledged: &SequenceSet) -> u64 {
        let delivered = self.delivered[producer as usize]
            .lock()
            .expect("no holder panics");
        acknowledged.not_in(&delivered, 0).count
    }

    /// What was found so far.
    pub fn found(&self) -> Found {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Found {
            checked: count(&self.checked),
            reordered: count(&self.reordered),
            duplicated: count(&self.duplicated),
            redelivered: count(&self.redelivered),
            corrupt: count(&self.corrupt),
            foreign: count(&self.foreign),
        }
    }

    fn judge(&self, place: usize, run: DeliveredRun) {
        let counts: OrderCounts = {
            let mut delivered = self.delivered[run.producer as usize]
                .lock()
                .expect("no holder panics");
            let mut order = self.orders[place].lock().expect("no holder panics");
            order.judge(run, &mut delivered)
        };
        self.checked.fetch_add(run.count, Ordering::Relaxed);
        for (counter, count) in [
            (&self.reordered, counts.reordered),
            (&self.duplicated, counts.duplicated),
            (&self.redelivered, counts.redelivered),
        ] {
            if count > 0 {
                counter.fetch_add(count, Ordering::Relaxed);
            }
        }
    }
}

/// Reads what one thread is given.
#[derive(Debug)]
pub struct Verifier {
    placement: StampPlacement,
    scratch: Vec<u8>,
    matched: Vec<MatchedRun>,
    unplaced: Vec<Unplaced>,
}

/// A record of another run, whose clock is not known yet.
#[derive(Clone, Copy, Debug)]
struct Unplaced {
    due_ns: u64,
    timestamp_ms: i64,
    at_ns: u64,
}

/// A batch that was delivered.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// The place of its partition when all are counted through.
    pub place: usize,
    /// The batch.
    pub batch: &'a Batch<'a>,
    /// Records below this offset were not asked for.
    pub from_offset: i64,
    /// When it came, on the clock.
    pub at_ns: u64,
}

/// What a batch held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delivered {
    /// Records.
    pub records: u64,
    /// Bytes of their keys and values.
    pub payload_bytes: u64,
}

impl Verifier {
    /// A verifier of records that carry their stamp there.
    pub fn new(placement: StampPlacement) -> Verifier {
        Verifier {
            placement,
            scratch: Vec::new(),
            matched: Vec::new(),
            unplaced: Vec::new(),
        }
    }

    /// Reads the records of a batch that a member of the group was given.
    pub fn read(
        &mut self,
        shared: &Shared,
        book: &GroupBook,
        interval: &mut Interval,
        arrival: Arrival<'_>,
    ) -> Delivered {
        let Arrival {
            place,
            batch,
            from_offset,
            at_ns,
        } = arrival;
        let mut delivered = Delivered::default();
        let Some(start_ns) = shared.start_ns() else {
            return delivered;
        };
        let mut scratch = std::mem::take(&mut self.scratch);
        let records = match batch.records(&mut scratch, MOST_DECODED_BYTES) {
            Ok(records) => records,
            Err(error) => {
                book.corrupt.fetch_add(batch.count().into(), Ordering::Relaxed);
                let since_start_ns = at_ns.saturating_sub(start_ns);
                interval.count_error(
                    "corrupt batch".to_owned(),
                    batch.count().into(),
                    since_start_ns,
                    None,
                    &error.to_string(),
                );
                self.scratch = scratch;
                return delivered;
            }
        };
        let base_offset = batch.base_offset();
        let mut run: Option<DeliveredRun> = None;
        let mut first_offset = None;
        for record in records {
            let Ok(record) = record else {
                book.corrupt.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            let offset = base_offset + i64::from(record.offset_delta);
            if offset < from_offset {
                continue;
            }
            let value = record.value.unwrap_or_default();
            delivered.records += 1;
            delivered.payload_bytes += (value.len() + record.key.map_or(0, <[u8]>::len)) as u64;
            first_offset.get_or_insert(offset);
            let (stamp, payload) = match self.placement {
                StampPlacement::None => continue,
                StampPlacement::Value => (value, value.get(STAMP_BYTES..).unwrap_or_default()),
                StampPlacement::Header => (
                    record.header(crate::producing::STAMP_HEADER).unwrap_or_default(),
                    value,
                ),
            };
            let Some(parsed) = Stamp::parse(stamp) else {
                book.foreign.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            let Stamp {
                producer, sequence, ..
            } = parsed.stamp;
            let producers = match shared.sender_clock {
                Some(_) => MOST_SENDING_PRODUCERS,
                None => shared.shares.len(),
            };
            if (producer as usize) < producers && parsed.verify(shared.run_id, crc32c(payload)) {
                if let Some(clock) = &shared.sender_clock {
                    let record = Unplaced {
                        due_ns: parsed.stamp.due_ns,
                        timestamp_ms: batch.base_timestamp_ms() + record.timestamp_delta_ms,
                        at_ns,
                    };
                    self.time(shared, clock, interval, record);
                }
                match &mut run {
                    Some(run)
                        if run.producer == producer
                            && run.first_sequence + run.count == sequence
                            && run.offset + run.count == offset as u64 =>
                    {
                        run.count += 1;
                    }
                    _ => {
                        if let Some(done) = run.take() {
                            settle(shared, book, interval, place, done, at_ns, start_ns);
                        }
                        run = Some(DeliveredRun {
                            offset: offset as u64,
                            producer,
                            first_sequence: sequence,
                            count: 1,
                        });
                    }
                }
            } else if is_ours(shared, &parsed.stamp) {
                book.corrupt.fetch_add(1, Ordering::Relaxed);
            } else {
                book.foreign.fetch_add(1, Ordering::Relaxed);
            }
        }
        if let Some(done) = run {
            settle(shared, book, interval, place, done, at_ns, start_ns);
        }
        if let (StampPlacement::None, Some(first), Some(indices)) =
            (self.placement, first_offset, &shared.offset_indices)
        {
            self.matched.clear();
            let mut index = indices[place].lock().expect("no holder panics");
            index.deliver(
                book.place_in_topic,
                first as u64,
                delivered.records,
                at_ns,
                &mut self.matched,
            );
            drop(index);
            for matched in &self.matched {
                record_matched(shared, interval, matched, start_ns);
            }
        }
        book.next_offsets[place].fetch_max(batch.last_offset() + 1, Ordering::AcqRel);
        let sheet = &mut interval.phases[shared.phase_at(at_ns)];
        let consumed = sheet.consumed.entry(book.index).or_default();
        consumed.0 += delivered.records;
        consumed.1 += delivered.payload_bytes;
        shared
            .live
            .consumed
            .fetch_add(delivered.records, Ordering::Relaxed);
        self.scratch = scratch;
        delivered
    }

    /// Records the end-to-end latency of another run's record, or keeps it until that run's clock is known.
    fn time(&mut self, shared: &Shared, clock: &SenderClock, interval: &mut Interval, record: Unplaced) {
        let waits_for_long = self.unplaced.len() >= MOST_UNPLACED
            || self
                .unplaced
                .first()
                .is_some_and(|first| record.at_ns.saturating_sub(first.at_ns) > PLACED_WITHIN_NS);
        if waits_for_long && clock.place(0) == Placed::NotYet {
            clock.give_up();
        }
        if clock.place(0) == Placed::NotYet {
            self.unplaced.push(record);
            return;
        }
        for earlier in std::mem::take(&mut self.unplaced) {
            record_of_other_run(shared, clock, interval, earlier);
        }
        record_of_other_run(shared, clock, interval, record);
    }

    /// Nothing more comes: what waits for another run's clock waits no longer.
    pub fn finish(&mut self, shared: &Shared, interval: &mut Interval) {
        let Some(clock) = &shared.sender_clock else {
            return;
        };
        if !self.unplaced.is_empty() && clock.place(0) == Placed::NotYet {
            clock.give_up();
        }
        for record in std::mem::take(&mut self.unplaced) {
            record_of_other_run(shared, clock, interval, record);
        }
    }
}

/// By the phase in which it was due. Where the other run's clock is not known, its timestamp stands in for the due time:
/// the wall clocks of two hosts, in whole milliseconds, which the result marks as not valid.
fn record_of_other_run(shared: &Shared, clock: &SenderClock, interval: &mut Interval, record: Unplaced) {
    let since_ns = match clock.place(record.due_ns) {
        Placed::At(ns) => ns,
        Placed::NotYet | Placed::Never => {
            clock.count_unplaced(1);
            let wall_start_ns = shared.clock.wall_start().as_nanos() as i128;
            let ns = i128::from(record.timestamp_ms) * 1_000_000 - wall_start_ns;
            i64::try_from(ns).unwrap_or(i64::MIN)
        }
    };
    let phase = shared.phase_at(u64::try_from(since_ns).unwrap_or(0));
    let histogram = interval.phases[phase].histogram(Metric::EndToEnd);
    // Shifted to where neither is negative.
    match u64::try_from(i128::from(record.at_ns) - i128::from(since_ns)) {
        Ok(latency_ns) => histogram.record_n(latency_ns, 1),
        Err(_) => histogram.record_since(1, 0, 1),
    }
}

/// Whether a stamp whose check does not fit is one of this run's all the same, so that the record was damaged.
fn is_ours(shared: &Shared, stamp: &Stamp) -> bool {
    let Some(share) = shared.shares.get(stamp.producer as usize) else {
        return false;
    };
    let within = shared.sequences[stamp.producer as usize]
        .last()
        .is_some_and(|range| stamp.sequence < range.end);
    within
        && share
            .as_ref()
            .is_none_or(|share| share.due_ns(stamp.sequence) == stamp.due_ns)
}

fn settle(
    shared: &Shared,
    book: &GroupBook,
    interval: &mut Interval,
    place: usize,
    run: DeliveredRun,
    at_ns: u64,
    start_ns: u64,
) {
    book.judge(place, run);
    record_end_to_end(
        shared,
        interval,
        run.producer,
        run.first_sequence,
        run.count,
        at_ns,
        start_ns,
    );
}

/// Records the end-to-end latency of records that were found by their offsets.
pub fn record_matched(shared: &Shared, interval: &mut Interval, matched: &MatchedRun, start_ns: u64) {
    let MatchedRun {
        producer,
        first_sequence,
        count,
        delivered_at_ns,
        ..
    } = *matched;
    record_end_to_end(
        shared,
        interval,
        producer,
        first_sequence,
        count,
        delivered_at_ns,
        start_ns,
    );
}

/// By the phase in which the records were due.
fn record_end_to_end(
    shared: &Shared,
    interval: &mut Interval,
    producer: u32,
    first: u64,
    count: u64,
    at_ns: u64,
    start_ns: u64,
) {
    let Some(Some(share)) = shared.shares.get(producer as usize) else {
        return;
    };
    let (mut first, end) = (first, first + count);
    while first < end {
        let phase = shared.phase_of_sequence(producer, first);
        let cut = shared.sequences[producer as usize][phase]
            .end
            .clamp(first + 1, end);
        let histogram = interval.phases[phase].histogram(Metric::EndToEnd);
        histogram.record_due_run(share, first, cut - first, at_ns.saturating_sub(start_ns));
        first = cut;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::LoadPhase;
    use client::batch::{BatchBuilder, RecordHeaders, set_base_offset};
    use client::clock::RunClock;
    use client::compress::{Codec, Compressor};
    use measure::schedule::{ConstantRate, Schedule};
    use measure::share::Share;
    use model::result::PhaseName;

    const RUN: u64 = 99;

    fn shared() -> Shared {
        let share = Share::of(Schedule::Constant(ConstantRate::new(1000, 1).unwrap()), 0, 1).unwrap();
        let phases = vec![
            LoadPhase {
                name: PhaseName::WarmUp,
                end_ns: Some(1_000_000_000),
                counted: false,
            },
            LoadPhase {
                name: PhaseName::Measure,
                end_ns: Some(2_000_000_000),
                counted: false,
            },
        ];
        let sequences = vec![vec![0..1000, 1000..2000]];
        let shared = Shared::new(
            RunClock::start(),
            RUN,
            phases,
            &[1],
            vec![Some(share)],
            sequences,
            true,
            None,
            0,
        );
        shared.start_at(0);
        shared
    }

    /// A batch of records with those sequence numbers from that offset on.
    fn batch(base_offset: i64, sequences: &[u64], damage: impl Fn(u64, &mut Vec<u8>)) -> Vec<u8> {
        let mut builder = BatchBuilder::new(Vec::new());
        for &sequence in sequences {
            let payload = b"payload";
            let mut stamp = [0; STAMP_BYTES];
            Stamp {
                producer: 0,
                sequence,
                due_ns: sequence * 1_000_000,
            }
            .encode(RUN, crc32c(payload), &mut stamp);
            let mut value = [&stamp[..], payload].concat();
            damage(sequence, &mut value);
            builder.push(0, None, value.len(), &RecordHeaders::default(), |out| {
                out.extend_from_slice(&value)
            });
        }
        let mut bytes = builder
            .seal(&mut Compressor::new(Codec::Lz4, None).unwrap(), &mut Vec::new())
            .unwrap()
            .into_buffer();
        set_base_offset(&mut bytes, base_offset);
        bytes
    }

    fn read_all(batches: &[Vec<u8>]) -> (Found, Interval, GroupBook) {
        let shared = shared();
        let book = GroupBook::new("g".to_owned(), 0, 0, vec![0], 1, 1);
        let mut interval = Interval::new(2);
        let mut verifier = Verifier::new(StampPlacement::Value);
        for bytes in batches {
            let batch = Batch::parse(bytes).unwrap();
            let arrival = Arrival {
                place: 0,
                batch: &batch,
                from_offset: batch.base_offset(),
                at_ns: 1_500_000_000,
            };
            verifier.read(&shared, &book, &mut interval, arrival);
        }
        (book.found(), interval, book)
    }

    fn acknowledged(end: u64) -> SequenceSet {
        let mut set = SequenceSet::new();
        set.insert_run(0, end);
        set
    }

    #[test]
    fn what_arrives_whole_and_in_order_is_found_to_be_so() {
        let (found, mut interval, book) =
            read_all(&[batch(0, &[0, 1, 2], |_, _| {}), batch(3, &[3, 4], |_, _| {})]);
        assert_eq!(
            found,
            Found {
                checked: 5,
                ..Found::default()
            }
        );
        assert_eq!(book.missing(0, &acknowledged(5)), 0);
        assert_eq!(book.next_offset(0), 5);
        // Due at 0 to 4 ms, in the warm-up; delivered at 1.5 s, in the measured phase.
        assert_eq!(interval.phases[0].histogram(Metric::EndToEnd).count(), 5);
        assert_eq!(interval.phases[1].consumed[&0], (5, 5 * 31));
    }

    #[test]
    fn one_lost_doubled_or_swapped_record_is_found() {
        let (found, _, book) = read_all(&[batch(0, &[0, 1, 3, 4], |_, _| {})]);
        assert_eq!((found.checked, book.missing(0, &acknowledged(5))), (4, 1));
        let (found, ..) = read_all(&[batch(0, &[0, 1, 2, 2, 3], |_, _| {})]);
        assert_eq!((found.duplicated, found.reordered), (1, 0));
        let (found, ..) = read_all(&[batch(0, &[0, 2, 1, 3], |_, _| {})]);
        assert_eq!((found.duplicated, found.reordered), (0, 1));
    }

    #[test]
    fn the_same_offsets_again_are_redelivered_not_doubled() {
        let bytes = batch(0, &[0, 1, 2], |_, _| {});
        let (found, ..) = read_all(&[bytes.clone(), bytes]);
        assert_eq!((found.redelivered, found.duplicated, found.reordered), (3, 0, 0));
    }

    #[test]
    fn a_damaged_record_is_corrupt_and_a_strangers_is_foreign() {
        let (found, _, book) = read_all(&[batch(0, &[0, 1, 2], |sequence, value| {
            if sequence == 1 {
                value[30] ^= 1;
            }
            if sequence == 2 {
                value.clear();
                value.extend_from_slice(b"somebody else's record, long enough for a stamp");
            }
        })]);
        assert_eq!((found.checked, found.corrupt, found.foreign), (1, 1, 1));
        assert_eq!(book.missing(0, &acknowledged(3)), 2);
    }
}
