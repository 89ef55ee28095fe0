//! How producers split a schedule among themselves: exactly, and with no shared counter.
//!
//! A share owns the records whose number k leaves one of its residues when divided by the period. The shares of one
//! split own every record once. A share numbers its own records 0, 1, 2, … in the order in which they are due: that
//! number is the sequence number which the producer stamps into the record.

use thiserror::Error;

use crate::schedule::{DueCounts, MixedNumber, Schedule, greatest_common_divisor};

/// The longest period of a weighted split. Each share keeps a list of its slots in the period (24 bytes a slot).
pub const LONGEST_PERIOD: u64 = 1 << 16;

/// One producer's part of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    schedule: Schedule,
    period: u64,
    // Rising, all below the period, at least one.
    residues: Box<[u64]>,
    // The exact time from the record of each residue to the share's next record.
    steps: Box<[MixedNumber]>,
}

/// Why a schedule cannot be split as asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SplitError {
    /// The share of a split into none, or one beyond the split's end.
    #[error("share {index} of {count}: the index must be below the count")]
    NoSuchShare {
        /// The share asked for, from zero.
        index: u64,
        /// Into how many shares the schedule was to be split.
        count: u64,
    },
    /// A share of weight zero would own no record.
    #[error("weight {index} is zero: each share must own a part")]
    ZeroWeight {
        /// Which of the weights, from zero.
        index: usize,
    },
    /// The weights, in lowest terms, add up to more than [`LONGEST_PERIOD`].
    #[error("the weights add up to {sum} in lowest terms; at most {LONGEST_PERIOD} can be interleaved")]
    WeightsTooLarge {
        /// Their sum in lowest terms.
        sum: u64,
    },
}

impl Share {
    /// Share `index` of `count` equal ones: the records k ≡ index mod count.
    ///
    /// # Errors
    /// When `index` is not below `count`.
    pub fn of(schedule: Schedule, index: u64, count: u64) -> Result<Share, SplitError> {
        if index >= count {
            return Err(SplitError::NoSuchShare { index, count });
        }
        Ok(Share::from_residues(schedule, count, Box::new([index])))
    }

    /// Splits a schedule by weights: share i owns `weights[i]` records of every sum-of-weights, spread as evenly as they
    /// can be: in every stretch of the schedule a share has its part to within about one record.
    ///
    /// # Errors
    /// When a weight is zero, or the weights in lowest terms add up to more than [`LONGEST_PERIOD`].
    pub fn split_weighted(schedule: Schedule, weights: &[u64]) -> Result<Vec<Share>, SplitError> {
        if let Some(index) = weights.iter().position(|&weight| weight == 0) {
            return Err(SplitError::ZeroWeight { index });
        }
        let divisor = weights.iter().copied().fold(0, greatest_common_divisor);
        let weights: Vec<u64> = weights.iter().map(|weight| weight / divisor.max(1)).collect();
        let sum = weights
            .iter()
            .fold(0_u64, |sum, &weight| sum.saturating_add(weight));
        if sum > LONGEST_PERIOD {
            return Err(SplitError::WeightsTooLarge { sum });
        }
        let slots = interleave(&weights, sum);
        Ok(slots
            .into_iter()
            .map(|residues| Share::from_residues(schedule, sum, residues.into()))
            .collect())
    }

    fn from_residues(schedule: Schedule, period: u64, residues: Box<[u64]>) -> Share {
        let Schedule::Constant(rate) = schedule;
        let following = residues.iter().skip(1).copied().chain([residues[0] + period]);
        let steps = residues
            .iter()
            .zip(following)
            .map(|(this, next)| rate.gap_ns(next - this))
            .collect();
        Share {
            schedule,
            period,
            residues,
            steps,
        }
    }

    /// The schedule of which this is a part.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// The number k in the whole schedule of the share's own record `sequence`. Saturates at `u64::MAX`.
    pub fn schedule_index(&self, sequence: u64) -> u64 {
        let slots = self.residues.len() as u64;
        let (round, slot) = if slots == 1 {
            (sequence, 0)
        } else {
            (sequence / slots, sequence % slots)
        };
        round
            .checked_mul(self.period)
            .and_then(|start| start.checked_add(self.residues[slot as usize]))
            .unwrap_or(u64::MAX)
    }

    /// How many of the schedule's records `0..k` are the share's own; so also the sequence number of the share's first
    /// record that is not among them.
    pub fn owned_before(&self, k: u64) -> u64 {
        let (rounds, rest) = (k / self.period, k % self.period);
        if let [residue] = *self.residues {
            return rounds + u64::from(residue < rest);
        }
        let slots = self.residues.partition_point(|&residue| residue < rest) as u64;
        rounds * self.residues.len() as u64 + slots
    }

    /// When the share's record `sequence` is due. See [`Schedule::due_ns`].
    pub fn due_ns(&self, sequence: u64) -> u64 {
        self.schedule.due_ns(self.schedule_index(sequence))
    }

    /// How many of the share's records are due at `t_ns` or before: sequence numbers `0..due_count(t)` are.
    pub fn due_count(&self, t_ns: u64) -> u64 {
        self.owned_before(self.schedule.due_count(t_ns))
    }

    /// How many of the share's records are due before `t_ns`.
    pub fn due_count_before(&self, t_ns: u64) -> u64 {
        self.owned_before(self.schedule.due_count_before(t_ns))
    }

    /// [`due_count`](Self::due_count) at `t_ns`, `t_ns + step_ns` and so on without end, each exact, at the cost of an
    /// addition where the share is one of equal ones.
    pub(crate) fn due_counts(&self, t_ns: u64, step_ns: u64) -> ShareDueCounts<'_> {
        let Schedule::Constant(rate) = self.schedule;
        let carried = match *self.residues {
            [residue] => rate.due_counts(self.period, residue, t_ns, step_ns),
            _ => None,
        };
        carried.map_or(
            ShareDueCounts::Computed {
                share: self,
                t_ns,
                step_ns,
            },
            ShareDueCounts::Carried,
        )
    }

    /// The due times of the records from `first_sequence` on, without end: equal to [`due_ns`](Self::due_ns) of each, at
    /// the cost of an addition instead of a division. The remainder is carried along, so nothing drifts.
    pub fn due_times(&self, first_sequence: u64) -> DueTimes<'_> {
        let Schedule::Constant(rate) = self.schedule;
        DueTimes {
            steps: &self.steps,
            slot: (first_sequence % self.steps.len() as u64) as usize,
            next: rate.gap_ns(self.schedule_index(first_sequence)),
            denominator: rate.records(),
        }
    }
}

/// How many of a share's records are due at evenly spaced times, from [`Share::due_counts`]. Never ends.
#[derive(Clone, Debug)]
pub(crate) enum ShareDueCounts<'a> {
    Carried(DueCounts),
    Computed {
        share: &'a Share,
        t_ns: u64,
        step_ns: u64,
    },
}

impl Iterator for ShareDueCounts<'_> {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        match self {
            ShareDueCounts::Carried(counts) => counts.next(),
            ShareDueCounts::Computed { share, t_ns, step_ns } => {
                let count = share.due_count(*t_ns);
                *t_ns = t_ns.saturating_add(*step_ns);
                Some(count)
            }
        }
    }
}

/// The due times of consecutive records of a share, from [`Share::due_times`]. Never ends.
#[derive(Clone, Debug)]
pub struct DueTimes<'a> {
    steps: &'a [MixedNumber],
    slot: usize,
    next: MixedNumber,
    denominator: u64,
}

impl Iterator for DueTimes<'_> {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        let due_ns = self.next.whole;
        self.next = self.next.plus(self.steps[self.slot], self.denominator);
        self.slot += 1;
        if self.slot == self.steps.len() {
            self.slot = 0;
        }
        Some(due_ns)
    }
}

/// Gives each of `sum` slots to one share, by smooth weighted round robin: before each slot every share earns its weight,
/// and the slot goes to the richest, who pays `sum` for it. Returns each share's slots, rising.
fn interleave(weights: &[u64], sum: u64) -> Vec<Vec<u64>> {
    let mut slots: Vec<Vec<u64>> = weights
        .iter()
        .map(|&weight| Vec::with_capacity(weight as usize))
        .collect();
    let mut earned = vec![0_i64; weights.len()];
    for slot in 0..sum {
        let mut richest = 0;
        for (share, &weight) in weights.iter().enumerate() {
            earned[share] += weight as i64;
            if earned[share] > earned[richest] {
                richest = share;
            }
        }
        earned[richest] -= sum as i64;
        slots[richest].push(slot);
    }
    slots
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::schedule::{ConstantRate, tests::any_schedule};
    use proptest::prelude::*;

    fn per_second(records: u64) -> Schedule {
        Schedule::Constant(ConstantRate::new(records, 1).expect("a rate"))
    }

    fn indices(share: &Share, count: u64) -> Vec<u64> {
        (0..count)
            .map(|sequence| share.schedule_index(sequence))
            .collect()
    }

    pub(crate) fn any_split() -> impl Strategy<Value = Vec<Share>> {
        prop_oneof![
            (any_schedule(), 1..=40_u64).prop_map(|(schedule, count)| {
                (0..count)
                    .map(|index| Share::of(schedule, index, count).expect("a share"))
                    .collect()
            }),
            (any_schedule(), prop::collection::vec(1..=9_u64, 1..8))
                .prop_map(|(schedule, weights)| Share::split_weighted(schedule, &weights).expect("a split")),
        ]
    }

    #[test]
    fn an_equal_share_owns_every_nth_record() {
        let share = Share::of(per_second(1_000), 2, 5).expect("a share");
        assert_eq!(indices(&share, 4), [2, 7, 12, 17]);
        assert_eq!(share.due_ns(1), 7_000_000);
        assert_eq!([0, 2, 3, 7, 8].map(|k| share.owned_before(k)), [0, 0, 1, 1, 2]);
        assert_eq!(share.due_count(7_000_000), 2);
        assert_eq!(share.due_count_before(7_000_000), 1);
    }

    #[test]
    fn weights_interleave_evenly() {
        let split = Share::split_weighted(per_second(1_000), &[5, 1, 1]).expect("a split");
        assert_eq!(indices(&split[0], 6), [0, 1, 3, 5, 6, 7]);
        assert_eq!(indices(&split[1], 2), [2, 9]);
        assert_eq!(indices(&split[2], 2), [4, 11]);
    }

    #[test]
    fn weights_are_taken_in_lowest_terms() {
        let split = Share::split_weighted(per_second(1_000), &[200_000, 100_000]).expect("a split");
        assert_eq!(
            split,
            Share::split_weighted(per_second(1_000), &[2, 1]).expect("a split")
        );
    }

    #[test]
    fn splits_that_own_nothing_are_refused() {
        let schedule = per_second(1);
        assert_eq!(
            Share::of(schedule, 0, 0),
            Err(SplitError::NoSuchShare { index: 0, count: 0 })
        );
        assert_eq!(
            Share::of(schedule, 3, 3),
            Err(SplitError::NoSuchShare { index: 3, count: 3 })
        );
        assert_eq!(
            Share::split_weighted(schedule, &[1, 0]),
            Err(SplitError::ZeroWeight { index: 1 })
        );
        assert_eq!(
            Share::split_weighted(schedule, &[u64::MAX, 1]),
            Err(SplitError::WeightsTooLarge { sum: u64::MAX })
        );
        assert_eq!(Share::split_weighted(schedule, &[]), Ok(Vec::new()));
    }

    proptest! {
        #[test]
        fn the_shares_of_a_split_own_every_record_exactly_once(split in any_split(), k in 0..=1_u64 << 40) {
            let owners = split.iter().filter(|share| {
                let sequence = share.owned_before(k);
                let owns = share.schedule_index(sequence) == k;
                assert_eq!(share.owned_before(k + 1), sequence + u64::from(owns));
                owns
            });
            prop_assert_eq!(owners.count(), 1);
            prop_assert_eq!(split.iter().map(|share| share.owned_before(k)).sum::<u64>(), k);
        }

        #[test]
        fn the_counts_of_a_split_add_up_to_the_schedule_at_any_time(split in any_split(), t_ns in 0..1_u64 << 60) {
            let whole = split[0].schedule().due_count(t_ns);
            if whole < u64::MAX {
                prop_assert_eq!(split.iter().map(|share| share.due_count(t_ns)).sum::<u64>(), whole);
            }
        }

        #[test]
        fn a_shares_due_count_is_the_exact_inverse_of_its_due_times(split in any_split(), sequence in 0..1_u64 << 30) {
            for share in split {
                let due_ns = share.due_ns(sequence);
                if due_ns < u64::MAX {
                    prop_assert!(share.due_count(due_ns) > sequence);
                    prop_assert!(share.due_count_before(due_ns) <= sequence);
                }
            }
        }

        #[test]
        fn counts_at_evenly_spaced_times_are_those_at_each(
            split in any_split(), t_ns in 0..1_u64 << 40, step_ns in 0..1_u64 << 30,
        ) {
            for share in split {
                for (i, count) in share.due_counts(t_ns, step_ns).take(50).enumerate() {
                    prop_assert_eq!(count, share.due_count(t_ns + i as u64 * step_ns));
                }
            }
        }

        #[test]
        fn due_times_are_those_of_each_record(split in any_split(), first in 0..1_u64 << 30) {
            for share in split {
                for (i, due_ns) in share.due_times(first).take(50).enumerate() {
                    prop_assert_eq!(due_ns, share.due_ns(first + i as u64));
                }
            }
        }

        #[test]
        fn a_weighted_share_never_strays_far_from_its_part(weights in prop::collection::vec(1..=9_u64, 1..8)) {
            let sum: u64 = weights.iter().sum();
            let split = Share::split_weighted(per_second(1), &weights).expect("a split");
            for (share, weight) in split.iter().zip(&weights) {
                for k in 0..2 * sum {
                    let part = (k * weight) as f64 / sum as f64;
                    let strays = (share.owned_before(k) as f64 - part).abs();
                    prop_assert!(strays < weights.len() as f64, "{strays} records off at {k}");
                }
            }
        }
    }
}
