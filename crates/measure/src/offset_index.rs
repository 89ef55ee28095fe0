//! Due times of records that carry no stamp, found by partition and offset.
//!
//! The acknowledgement of a batch says at which offsets its records are; a delivery says which offsets were read, and
//! when. Either may come first. What both know of is matched, once for each group, and forgotten when every group has had
//! it: memory is held for what is outstanding (about 100 bytes a batch), not for what has passed.

use std::collections::BTreeMap;

use crate::sequence_set::SequenceSet;

/// How many deliveries of one group may wait for an acknowledgement. A delivery comes first by milliseconds at most, so
/// more than this are records that others wrote or whose acknowledgement was lost; the oldest are given up.
pub const MOST_WAITING_DELIVERIES: usize = 4_096;

/// Consecutive records of one producer that the broker has put at consecutive offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcknowledgedRun {
    /// The offset of the first.
    pub base_offset: u64,
    /// Who produced them.
    pub producer: u32,
    /// The sequence number of the first, from which its due time is computed.
    pub first_sequence: u64,
    /// How many there are.
    pub count: u64,
}

/// Records that were delivered, and what they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatchedRun {
    /// Which group they were delivered to.
    pub group: usize,
    /// Who produced them.
    pub producer: u32,
    /// The sequence number of the first.
    pub first_sequence: u64,
    /// How many there are.
    pub count: u64,
    /// When they were delivered, as it was handed in.
    pub delivered_at_ns: u64,
}

/// The outstanding records of one partition.
#[derive(Clone, Debug)]
pub struct OffsetIndex {
    // By base offset. They do not overlap.
    acknowledged: BTreeMap<u64, Outstanding>,
    groups: Vec<Group>,
    given_up_count: u64,
}

#[derive(Clone, Copy, Debug)]
struct Outstanding {
    run: AcknowledgedRun,
    // Records times groups that have not been delivered.
    left: u64,
}

#[derive(Clone, Debug, Default)]
struct Group {
    delivered: SequenceSet,
    // Deliveries that no acknowledgement has told of, by first offset. They do not overlap.
    waiting: BTreeMap<u64, Waiting>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    count: u64,
    at_ns: u64,
}

impl OffsetIndex {
    /// An index for a partition that `groups` groups read, numbered from zero.
    pub fn new(groups: usize) -> OffsetIndex {
        OffsetIndex {
            acknowledged: BTreeMap::new(),
            groups: vec![Group::default(); groups],
            given_up_count: 0,
        }
    }

    /// Takes an acknowledgement, and adds to `matched` what of it has already been delivered. A run at offsets that are
    /// already known, which a broker never gives, is ignored.
    pub fn acknowledge(&mut self, run: AcknowledgedRun, matched: &mut Vec<MatchedRun>) {
        let (start, end) = (run.base_offset, run.base_offset.saturating_add(run.count));
        let before = self.acknowledged.range(..end).next_back();
        if start == end || before.is_some_and(|(_, before)| before.run.end() > start) {
            return;
        }
        let mut left = 0_u64;
        for (number, group) in self.groups.iter_mut().enumerate() {
            left = left.saturating_add(group.delivered.missing_in(start, end, 0).count);
            group.take_waiting(start, end, |offset, count, delivered_at_ns| {
                let first_sequence = run.sequence_at(offset);
                matched.push(MatchedRun {
                    group: number,
                    producer: run.producer,
                    first_sequence,
                    count,
                    delivered_at_ns,
                });
            });
        }
        if left > 0 {
            self.acknowledged.insert(start, Outstanding { run, left });
        }
    }

    /// Takes a delivery of `count` records from `first_offset` on to `group`, and adds to `matched` what of it has been
    /// acknowledged; the rest waits. Returns how many of them the group had been given before, which are not matched
    /// again. A group that the index was not made for is ignored.
    pub fn deliver(
        &mut self,
        group: usize,
        first_offset: u64,
        count: u64,
        at_ns: u64,
        matched: &mut Vec<MatchedRun>,
    ) -> u64 {
        let Some(state) = self.groups.get_mut(group) else {
            return 0;
        };
        let unseen = state
            .delivered
            .missing_in(first_offset, first_offset.saturating_add(count), usize::MAX);
        let inserted = state.delivered.insert_run(first_offset, count);
        for range in unseen.ranges {
            self.match_delivery(group, range.start, range.end, at_ns, matched);
        }
        inserted.already
    }

    /// How many runs are held, of acknowledged and of waiting records: what the memory grows with.
    pub fn outstanding_runs(&self) -> usize {
        self.acknowledged.len() + self.groups.iter().map(|group| group.waiting.len()).sum::<usize>()
    }

    /// How many delivered records no acknowledgement ever told of, as far as they have been given up.
    pub fn given_up_count(&self) -> u64 {
        self.given_up_count
    }

    fn match_delivery(
        &mut self,
        group: usize,
        start: u64,
        end: u64,
        at_ns: u64,
        matched: &mut Vec<MatchedRun>,
    ) {
        let mut at = start;
        while at < end {
            let at_or_before = self.acknowledged.range_mut(..=at).next_back();
            let Some((&base, outstanding)) = at_or_before.filter(|(_, known)| known.run.end() > at) else {
                let known_from = self
                    .acknowledged
                    .range(at..end)
                    .next()
                    .map_or(end, |(&base, _)| base);
                self.wait(group, at, known_from, at_ns);
                at = known_from;
                continue;
            };
            let run = outstanding.run;
            let stop = run.end().min(end);
            let (first_sequence, count) = (run.sequence_at(at), stop - at);
            matched.push(MatchedRun {
                group,
                producer: run.producer,
                first_sequence,
                count,
                delivered_at_ns: at_ns,
            });
            outstanding.left = outstanding.left.saturating_sub(count);
            if outstanding.left == 0 {
                self.acknowledged.remove(&base);
            }
            at = stop;
        }
    }

    fn wait(&mut self, group: usize, start: u64, end: u64, at_ns: u64) {
        let waiting = &mut self.groups[group].waiting;
        waiting.insert(
            start,
            Waiting {
                count: end - start,
                at_ns,
            },
        );
        if waiting.len() > MOST_WAITING_DELIVERIES
            && let Some((_, oldest)) = waiting.pop_first()
        {
            self.given_up_count = self.given_up_count.saturating_add(oldest.count);
        }
    }
}

impl AcknowledgedRun {
    fn end(&self) -> u64 {
        self.base_offset.saturating_add(self.count)
    }

    fn sequence_at(&self, offset: u64) -> u64 {
        self.first_sequence.saturating_add(offset - self.base_offset)
    }
}

impl Group {
    // Removes what of `start..end` waits, and calls `each` with (first offset, count, delivered at), rising.
    fn take_waiting(&mut self, start: u64, end: u64, mut each: impl FnMut(u64, u64, u64)) {
        let overlapping: Vec<(u64, Waiting)> = self
            .waiting
            .range(..end)
            .rev()
            .take_while(|(first, waiting)| *first + waiting.count > start)
            .map(|(&first, &waiting)| (first, waiting))
            .collect();
        for (first, waiting) in overlapping.into_iter().rev() {
            self.waiting.remove(&first);
            let last = first + waiting.count;
            let (from, to) = (first.max(start), last.min(end));
            if first < from {
                self.waiting.insert(
                    first,
                    Waiting {
                        count: from - first,
                        ..waiting
                    },
                );
            }
            if to < last {
                self.waiting.insert(
                    to,
                    Waiting {
                        count: last - to,
                        ..waiting
                    },
                );
            }
            each(from, to - from, waiting.at_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn acknowledged(base_offset: u64, producer: u32, first_sequence: u64, count: u64) -> AcknowledgedRun {
        AcknowledgedRun {
            base_offset,
            producer,
            first_sequence,
            count,
        }
    }

    fn matched(
        group: usize,
        producer: u32,
        first_sequence: u64,
        count: u64,
        delivered_at_ns: u64,
    ) -> MatchedRun {
        MatchedRun {
            group,
            producer,
            first_sequence,
            count,
            delivered_at_ns,
        }
    }

    #[test]
    fn a_delivery_after_the_acknowledgement_is_matched_at_once() {
        let mut index = OffsetIndex::new(1);
        let mut found = Vec::new();
        index.acknowledge(acknowledged(100, 3, 1_000, 10), &mut found);
        index.acknowledge(acknowledged(110, 4, 2_000, 10), &mut found);
        assert_eq!(found, []);
        assert_eq!(index.deliver(0, 105, 10, 77, &mut found), 0);
        assert_eq!(found, [matched(0, 3, 1_005, 5, 77), matched(0, 4, 2_000, 5, 77)]);
    }

    #[test]
    fn a_delivery_before_the_acknowledgement_waits_for_it() {
        let mut index = OffsetIndex::new(1);
        let mut found = Vec::new();
        index.deliver(0, 100, 10, 77, &mut found);
        assert_eq!(found, []);
        index.acknowledge(acknowledged(95, 3, 0, 10), &mut found);
        assert_eq!(found, [matched(0, 3, 5, 5, 77)]);
        found.clear();
        index.acknowledge(acknowledged(105, 3, 10, 10), &mut found);
        assert_eq!(found, [matched(0, 3, 10, 5, 77)]);
    }

    #[test]
    fn what_every_group_has_had_is_forgotten() {
        let mut index = OffsetIndex::new(2);
        let mut found = Vec::new();
        for batch in 0..1_000 {
            index.acknowledge(acknowledged(batch * 10, 0, batch * 10, 10), &mut found);
            index.deliver(0, batch * 10, 10, batch, &mut found);
        }
        assert_eq!(index.outstanding_runs(), 1_000);
        index.deliver(1, 0, 10_000, 5_000, &mut found);
        assert_eq!(index.outstanding_runs(), 0);
        assert_eq!(found.iter().map(|run| run.count).sum::<u64>(), 20_000);
    }

    #[test]
    fn records_that_are_read_again_are_not_matched_again() {
        let mut index = OffsetIndex::new(1);
        let mut found = Vec::new();
        index.acknowledge(acknowledged(0, 0, 0, 10), &mut found);
        index.deliver(0, 0, 6, 1, &mut found);
        assert_eq!(index.deliver(0, 4, 6, 2, &mut found), 2);
        assert_eq!(found, [matched(0, 0, 0, 6, 1), matched(0, 0, 6, 4, 2)]);
    }

    #[test]
    fn records_of_others_do_not_fill_the_memory() {
        let mut index = OffsetIndex::new(1);
        let mut found = Vec::new();
        for batch in 0..10_000_u64 {
            index.deliver(0, batch * 10, 10, batch, &mut found);
        }
        assert_eq!(index.outstanding_runs(), MOST_WAITING_DELIVERIES);
        assert_eq!(
            index.given_up_count(),
            (10_000 - MOST_WAITING_DELIVERIES as u64) * 10
        );
        index.acknowledge(acknowledged(0, 0, 0, 10), &mut found);
        assert_eq!(
            index.outstanding_runs(),
            MOST_WAITING_DELIVERIES,
            "already delivered, so nothing is left of it"
        );
    }

    #[test]
    fn hostile_offsets_and_groups_are_taken_without_overflow() {
        let mut index = OffsetIndex::new(2);
        let mut found = Vec::new();
        index.acknowledge(acknowledged(0, 0, u64::MAX, u64::MAX), &mut found);
        index.acknowledge(acknowledged(5, 0, 0, 10), &mut found);
        index.acknowledge(acknowledged(u64::MAX, 0, 0, 10), &mut found);
        index.deliver(0, u64::MAX - 3, 10, 0, &mut found);
        index.deliver(7, 0, 10, 0, &mut found);
        assert_eq!(found, [matched(0, 0, u64::MAX, 3, 0)]);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Acknowledge(u64),
        Deliver(usize, u64, u64),
    }

    proptest! {
        #[test]
        fn each_record_is_matched_once_for_each_group_whatever_comes_first(
            batches in Just((0..20_u64).collect::<Vec<_>>()).prop_shuffle(),
            deliveries in prop::collection::vec((0..2_usize, 0..180_u64, 0..60_u64), 0..40),
            order in any::<u64>(),
        ) {
            let mut steps: Vec<Step> = batches.into_iter().map(Step::Acknowledge).collect();
            for (i, (group, offset, count)) in deliveries.into_iter().enumerate() {
                let place = (order.rotate_left(i as u32) % (steps.len() as u64 + 1)) as usize;
                steps.insert(place, Step::Deliver(group, offset, count));
            }
            let mut index = OffsetIndex::new(2);
            let mut found = Vec::new();
            let mut delivered = BTreeSet::new();
            for step in steps {
                match step {
                    Step::Acknowledge(batch) => {
                        let run = acknowledged(batch * 10, batch as u32, batch * 1_000, 10);
                        index.acknowledge(run, &mut found);
                    }
                    Step::Deliver(group, offset, count) => {
                        // Beyond offset 200 nothing is ever acknowledged.
                        index.deliver(group, offset, count, 0, &mut found);
                        delivered.extend((offset..offset + count).filter(|&o| o < 200).map(|o| (group, o)));
                    }
                }
            }
            let mut matched = Vec::new();
            for run in &found {
                prop_assert_eq!(u64::from(run.producer), run.first_sequence / 1_000);
                let offset = u64::from(run.producer) * 10 + run.first_sequence % 1_000;
                matched.extend((offset..offset + run.count).map(|o| (run.group, o)));
            }
            matched.sort_unstable();
            prop_assert_eq!(matched, delivered.into_iter().collect::<Vec<_>>());
        }
    }
}
