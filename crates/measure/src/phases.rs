//! Where the phases of a run begin and end.
//!
//! A record belongs to the phase in which it is due, whenever it is sent or acknowledged. So a phase is a range of the
//! schedule's records, and of each share's sequence numbers; its times follow from that, or that from its times.

use std::ops::Range;

use crate::schedule::Schedule;
use crate::share::Share;

/// How long a phase lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PhaseLength {
    /// This many nanoseconds of the schedule.
    Nanoseconds(u64),
    /// This many of the schedule's records.
    Records(u64),
}

/// A phase as a part of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduledPhase {
    /// When it begins, in nanoseconds of the schedule.
    pub start_ns: u64,
    /// When it ends and the next begins. For a length in records: when the first record after it is due.
    pub end_ns: u64,
    /// The numbers k of its records in the whole schedule.
    pub records: Range<u64>,
}

impl ScheduledPhase {
    /// Lays out the phases of the given lengths one after the other from the schedule's start.
    pub fn lay_out(schedule: &Schedule, lengths: &[PhaseLength]) -> Vec<ScheduledPhase> {
        let (mut start_ns, mut first) = (0_u64, 0_u64);
        let mut phases = Vec::with_capacity(lengths.len());
        for &length in lengths {
            let (end_ns, end) = match length {
                PhaseLength::Nanoseconds(length_ns) => {
                    let end_ns = start_ns.saturating_add(length_ns);
                    // Not below `first`: where several records are due in one nanosecond, those of an earlier phase of so
                    // many records stay in it.
                    (end_ns, schedule.due_count_before(end_ns).max(first))
                }
                PhaseLength::Records(count) => {
                    let end = first.saturating_add(count);
                    (schedule.due_ns(end).max(start_ns), end)
                }
            };
            phases.push(ScheduledPhase {
                start_ns,
                end_ns,
                records: first..end,
            });
            (start_ns, first) = (end_ns, end);
        }
        phases
    }

    /// The phase's records that a share owns, as the share's own sequence numbers.
    pub fn sequences(&self, share: &Share) -> Range<u64> {
        share.owned_before(self.records.start)..share.owned_before(self.records.end)
    }

    /// How long it lasts.
    pub fn length_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::ConstantRate;
    use crate::share::tests::any_split;
    use PhaseLength::{Nanoseconds, Records};
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;

    fn per_second(records: u64) -> Schedule {
        Schedule::Constant(ConstantRate::new(records, 1).expect("a rate"))
    }

    fn any_length() -> impl Strategy<Value = PhaseLength> {
        prop_oneof![
            (0..100 * SECOND).prop_map(Nanoseconds),
            (0..1_000_000_u64).prop_map(Records)
        ]
    }

    #[test]
    fn a_record_due_at_the_very_end_of_a_phase_belongs_to_the_next() {
        let phases =
            ScheduledPhase::lay_out(&per_second(100), &[Nanoseconds(SECOND), Nanoseconds(2 * SECOND)]);
        assert_eq!(
            phases[0],
            ScheduledPhase {
                start_ns: 0,
                end_ns: SECOND,
                records: 0..100
            }
        );
        assert_eq!(
            phases[1],
            ScheduledPhase {
                start_ns: SECOND,
                end_ns: 3 * SECOND,
                records: 100..300
            }
        );
    }

    #[test]
    fn lengths_in_records_and_in_time_follow_each_other() {
        let phases =
            ScheduledPhase::lay_out(&per_second(100), &[Records(50), Nanoseconds(SECOND), Records(10)]);
        assert_eq!(
            phases[0],
            ScheduledPhase {
                start_ns: 0,
                end_ns: SECOND / 2,
                records: 0..50
            }
        );
        assert_eq!(
            phases[1],
            ScheduledPhase {
                start_ns: SECOND / 2,
                end_ns: SECOND * 3 / 2,
                records: 50..150
            }
        );
        assert_eq!(phases[2].records, 150..160);
        assert_eq!(phases[2].length_ns(), SECOND / 10);
    }

    #[test]
    fn phases_beyond_the_end_of_time_saturate() {
        let phases = ScheduledPhase::lay_out(&per_second(1), &[Nanoseconds(u64::MAX), Records(u64::MAX)]);
        assert_eq!(phases[1].start_ns, u64::MAX);
        assert_eq!(phases[1].end_ns, u64::MAX);
    }

    proptest! {
        #[test]
        fn each_record_of_each_share_is_in_one_phase_the_one_in_which_it_is_due(
            split in any_split(), lengths in prop::collection::vec(any_length(), 1..5),
        ) {
            let phases = ScheduledPhase::lay_out(split[0].schedule(), &lengths);
            for (phase, &length) in phases.iter().zip(&lengths) {
                let owned: u64 = split.iter().map(|share| phase.sequences(share)).map(|s| s.end - s.start).sum();
                prop_assert_eq!(owned, phase.records.end - phase.records.start);
                if let Records(count) = length {
                    prop_assert_eq!(owned, count);
                }
            }
            for share in &split {
                let mut next = 0;
                for phase in &phases {
                    let sequences = phase.sequences(share);
                    prop_assert_eq!(sequences.start, next);
                    next = sequences.end;
                    if sequences.start < sequences.end {
                        prop_assert!(share.due_ns(sequences.start) >= phase.start_ns);
                        prop_assert!(share.due_ns(sequences.end - 1) <= phase.end_ns);
                    }
                }
            }
        }
    }
}
