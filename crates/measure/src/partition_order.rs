//! In what order a group was given the records of one partition.
//!
//! Records are judged by what they carry: their producer and its sequence number. Within a partition the records of one
//! producer must rise. A number that was seen before is a duplicate; one that is lower than the last and was not seen is
//! out of order; an offset that the group was given before is a redelivery, which is no fault of the log.

use std::collections::HashMap;

use crate::sequence_set::SequenceSet;

/// Consecutive records of one producer, at consecutive offsets of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveredRun {
    /// The offset of the first.
    pub offset: u64,
    /// The producer of all of them.
    pub producer: u32,
    /// The sequence number of the first; each next is higher by one.
    pub first_sequence: u64,
    /// How many there are.
    pub count: u64,
}

/// What was found of delivered records. Each is counted in one field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrderCounts {
    /// Given for the first time, and in order.
    pub in_order: u64,
    /// Given for the first time, after a record that its producer sent later.
    pub reordered: u64,
    /// Given before, at another offset or in another partition: they are in the log more than once.
    pub duplicated: u64,
    /// Given before, at an offset that the group had already read: read again after a rebalance or a restart.
    pub redelivered: u64,
}

impl OrderCounts {
    /// Adds the counts of `other`.
    pub fn add(&mut self, other: OrderCounts) {
        self.in_order += other.in_order;
        self.reordered += other.reordered;
        self.duplicated += other.duplicated;
        self.redelivered += other.redelivered;
    }

    /// How many records were given for the first time.
    pub fn first_deliveries(&self) -> u64 {
        self.in_order + self.reordered
    }
}

/// What one group has been given of one partition. A few tens of bytes for each producer that writes to the partition.
#[derive(Clone, Debug, Default)]
pub struct PartitionOrder {
    // Below it, offsets have been given before.
    next_offset: u64,
    last_sequences: HashMap<u32, u64>,
}

impl PartitionOrder {
    /// Nothing given yet.
    pub fn new() -> PartitionOrder {
        PartitionOrder::default()
    }

    /// The log now ends at `offset`, as after a truncation or, with 0, after its topic was made again: what is at offsets
    /// from there on is given for the first time.
    pub fn cut_back_to(&mut self, offset: u64) {
        self.next_offset = self.next_offset.min(offset);
    }

    /// Judges a run, and adds it to `delivered`: what the group has been given of this producer, over all partitions.
    pub fn judge(&mut self, run: DeliveredRun, delivered: &mut SequenceSet) -> OrderCounts {
        if run.count == 0 {
            return OrderCounts::default();
        }
        let read_before = self.next_offset.saturating_sub(run.offset).min(run.count);
        let (again, rest) = run.split_at(read_before);
        self.next_offset = self.next_offset.max(run.offset.saturating_add(run.count));
        let mut counts = self.judge_part(again, delivered);
        // Where the log was cut back and written anew, an offset can carry another record than before: only what was
        // seen before is a redelivery.
        counts.redelivered = std::mem::take(&mut counts.duplicated);
        counts.add(self.judge_part(rest, delivered));
        counts
    }

    fn judge_part(&mut self, run: DeliveredRun, delivered: &mut SequenceSet) -> OrderCounts {
        if run.count == 0 {
            return OrderCounts::default();
        }
        let last = self.last_sequences.get(&run.producer).copied();
        let not_rising = last.map_or(0, |last| {
            last.saturating_add(1).saturating_sub(run.first_sequence)
        });
        let (late, rising) = run.split_at(not_rising.min(run.count));
        let late = delivered.insert_run(late.first_sequence, late.count);
        let rising = delivered.insert_run(rising.first_sequence, rising.count);
        let run_last = run.first_sequence.saturating_add(run.count - 1);
        self.last_sequences
            .insert(run.producer, last.map_or(run_last, |last| last.max(run_last)));
        OrderCounts {
            in_order: rising.new,
            reordered: late.new,
            duplicated: late.already + rising.already,
            redelivered: 0,
        }
    }
}

impl DeliveredRun {
    // The first `count` records, and the others.
    fn split_at(self, count: u64) -> (DeliveredRun, DeliveredRun) {
        let rest = DeliveredRun {
            offset: self.offset.saturating_add(count),
            first_sequence: self.first_sequence.saturating_add(count),
            count: self.count - count,
            ..self
        };
        (DeliveredRun { count, ..self }, rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behind_a_cut_the_same_records_are_doubled_and_not_redelivered() {
        let run = |offset, first_sequence, count| DeliveredRun {
            offset,
            producer: 0,
            first_sequence,
            count,
        };
        for (cut_at, redelivered, duplicated) in [(None, 3, 0), (Some(6), 1, 2), (Some(0), 0, 3)] {
            let (mut order, mut delivered) = (PartitionOrder::new(), SequenceSet::new());
            order.judge(run(0, 0, 8), &mut delivered);
            if let Some(offset) = cut_at {
                order.cut_back_to(offset);
            }
            let counts = order.judge(run(5, 5, 3), &mut delivered);
            assert_eq!(
                (counts.redelivered, counts.duplicated),
                (redelivered, duplicated),
                "{cut_at:?}"
            );
        }
    }
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn run(offset: u64, producer: u32, first_sequence: u64, count: u64) -> DeliveredRun {
        DeliveredRun {
            offset,
            producer,
            first_sequence,
            count,
        }
    }

    fn counts(in_order: u64, reordered: u64, duplicated: u64, redelivered: u64) -> OrderCounts {
        OrderCounts {
            in_order,
            reordered,
            duplicated,
            redelivered,
        }
    }

    #[test]
    fn rising_runs_with_gaps_are_in_order() {
        let (mut order, mut delivered) = (PartitionOrder::new(), SequenceSet::new());
        assert_eq!(
            order.judge(run(100, 0, 0, 10), &mut delivered),
            counts(10, 0, 0, 0)
        );
        assert_eq!(
            order.judge(run(110, 0, 500, 10), &mut delivered),
            counts(10, 0, 0, 0)
        );
    }

    #[test]
    fn producers_do_not_disturb_each_others_order() {
        let mut order = PartitionOrder::new();
        let (mut of_zero, mut of_one) = (SequenceSet::new(), SequenceSet::new());
        assert_eq!(order.judge(run(0, 0, 100, 10), &mut of_zero), counts(10, 0, 0, 0));
        assert_eq!(order.judge(run(10, 1, 0, 10), &mut of_one), counts(10, 0, 0, 0));
        assert_eq!(
            order.judge(run(20, 0, 110, 10), &mut of_zero),
            counts(10, 0, 0, 0)
        );
    }

    #[test]
    fn a_lower_number_that_was_not_seen_is_reordered() {
        let (mut order, mut delivered) = (PartitionOrder::new(), SequenceSet::new());
        order.judge(run(0, 0, 20, 10), &mut delivered);
        assert_eq!(
            order.judge(run(10, 0, 10, 10), &mut delivered),
            counts(0, 10, 0, 0)
        );
        assert_eq!(
            order.judge(run(20, 0, 30, 10), &mut delivered),
            counts(10, 0, 0, 0)
        );
    }

    #[test]
    fn a_batch_that_is_in_the_log_twice_is_duplicated() {
        let (mut order, mut delivered) = (PartitionOrder::new(), SequenceSet::new());
        order.judge(run(0, 0, 0, 10), &mut delivered);
        assert_eq!(order.judge(run(10, 0, 5, 10), &mut delivered), counts(5, 0, 5, 0));
    }

    #[test]
    fn a_record_that_another_partition_has_too_is_duplicated() {
        let mut delivered = SequenceSet::new();
        PartitionOrder::new().judge(run(0, 0, 0, 10), &mut delivered);
        assert_eq!(
            PartitionOrder::new().judge(run(0, 0, 0, 10), &mut delivered),
            counts(0, 0, 10, 0)
        );
    }

    #[test]
    fn an_offset_that_is_read_again_is_redelivered_and_not_judged_again() {
        let (mut order, mut delivered) = (PartitionOrder::new(), SequenceSet::new());
        order.judge(run(0, 0, 0, 100), &mut delivered);
        assert_eq!(
            order.judge(run(40, 0, 40, 80), &mut delivered),
            counts(20, 0, 0, 60)
        );
    }

    #[test]
    fn another_record_at_an_offset_that_was_read_is_a_first_delivery() {
        let (mut order, mut delivered) = (PartitionOrder::new(), SequenceSet::new());
        order.judge(run(0, 0, 0, 10), &mut delivered);
        assert_eq!(order.judge(run(5, 0, 20, 5), &mut delivered), counts(5, 0, 0, 0));
    }

    #[test]
    fn hostile_runs_are_counted_without_overflow() {
        let (mut order, mut delivered) = (PartitionOrder::new(), SequenceSet::new());
        order.judge(run(u64::MAX, u32::MAX, u64::MAX, u64::MAX), &mut delivered);
        let counts = order.judge(run(0, u32::MAX, 0, 10), &mut delivered);
        assert_eq!(counts.first_deliveries(), 10);
    }

    proptest! {
        #[test]
        fn runs_are_judged_as_their_records_would_be_one_by_one(
            runs in prop::collection::vec((0..300_u64, 0..2_u32, 0..300_u64, 0..40_u64), 1..30),
        ) {
            let mut order = PartitionOrder::new();
            let mut delivered = [SequenceSet::new(), SequenceSet::new()];
            let mut seen = HashSet::new();
            let mut last = [None; 2];
            let mut next_offset = 0;
            for (offset, producer, first_sequence, count) in runs {
                let mut expected = OrderCounts::default();
                let read_to = next_offset;
                for i in 0..count {
                    let sequence = first_sequence + i;
                    if !seen.insert((producer, sequence)) {
                        if offset + i < read_to { expected.redelivered += 1 } else { expected.duplicated += 1 }
                    } else if last[producer as usize].is_some_and(|last| sequence <= last) {
                        expected.reordered += 1;
                    } else {
                        expected.in_order += 1;
                    }
                    let last = &mut last[producer as usize];
                    *last = Some(last.map_or(sequence, |last: u64| last.max(sequence)));
                    next_offset = next_offset.max(offset + i + 1);
                }
                let found = order.judge(
                    DeliveredRun { offset, producer, first_sequence, count }, &mut delivered[producer as usize],
                );
                prop_assert_eq!(found, expected);
            }
        }
    }
}
