//! When the records of a workload are due.
//!
//! A schedule maps the number k of a record, counted from zero over the whole workload, to the time at which it is to be
//! sent. The time is computed from k and an exact rate: nothing is rounded on the way and nothing is summed, so record
//! 10^15 is as exact as the first, and any thread can work out any record without asking another.

use thiserror::Error;

const NANOSECONDS_PER_SECOND: u64 = 1_000_000_000;

/// When each record of a workload is due, in nanoseconds since the start of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// The same rate from the first record to the last.
    Constant(ConstantRate),
}

impl Schedule {
    /// The time at which record `k` is due, rounded down to a whole nanosecond. Record 0 is due at 0.
    ///
    /// Never falls when `k` rises. Times past `u64::MAX` ns (584 years) are given as `u64::MAX`.
    pub fn due_ns(&self, k: u64) -> u64 {
        match self {
            Schedule::Constant(rate) => rate.due_ns(k),
        }
    }

    /// How many records are due at `t_ns` or before: the number of k with `due_ns(k) <= t_ns`.
    ///
    /// The exact inverse of [`due_ns`](Self::due_ns): records `0..due_count(t)` are due at t or before, all others
    /// after it. More than `u64::MAX` records are given as `u64::MAX`.
    pub fn due_count(&self, t_ns: u64) -> u64 {
        match self {
            Schedule::Constant(rate) => rate.due_count(t_ns),
        }
    }

    /// How many records are due before `t_ns`: the number of k with `due_ns(k) < t_ns`. Zero at 0.
    pub fn due_count_before(&self, t_ns: u64) -> u64 {
        t_ns.checked_sub(1).map_or(0, |last_ns| self.due_count(last_ns))
    }
}

/// A rate as an exact ratio of records to time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConstantRate {
    // `records` fall due every `period_ns`, in lowest terms; neither is zero.
    records: u64,
    period_ns: u64,
}

/// Why a ratio is no rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RateError {
    /// No records, or no time: nothing would ever be due, or everything at once.
    #[error("a rate of {records} records in {seconds} seconds: both must be above zero")]
    Zero {
        /// Records asked for.
        records: u64,
        /// Seconds in which they were to be sent.
        seconds: u64,
    },
    /// The period does not fit into 64 bits of nanoseconds.
    #[error("a rate over {seconds} seconds: the period must be below 584 years")]
    PeriodTooLong {
        /// Seconds asked for.
        seconds: u64,
    },
}

impl ConstantRate {
    /// `records` in every `seconds`: 50,000 records/s is `new(50_000, 1)`, one record in ten seconds `new(1, 10)`,
    /// 0.35 records/s `new(35, 100)`.
    ///
    /// # Errors
    /// When either is zero, or `seconds` is above 18,446,744,073 (584 years).
    pub fn new(records: u64, seconds: u64) -> Result<ConstantRate, RateError> {
        if records == 0 || seconds == 0 {
            return Err(RateError::Zero { records, seconds });
        }
        let period_ns = seconds
            .checked_mul(NANOSECONDS_PER_SECOND)
            .ok_or(RateError::PeriodTooLong { seconds })?;
        let divisor = greatest_common_divisor(records, period_ns);
        Ok(ConstantRate {
            records: records / divisor,
            period_ns: period_ns / divisor,
        })
    }

    /// The rate as a decimal number, for figures that are shown. Schedules use the exact ratio.
    pub fn records_per_second(&self) -> f64 {
        self.records as f64 * NANOSECONDS_PER_SECOND as f64 / self.period_ns as f64
    }

    // due(k) = floor(k · period / records)
    pub(crate) fn due_ns(&self, k: u64) -> u64 {
        match k.checked_mul(self.period_ns) {
            Some(product) => product / self.records,
            None => saturate(u128::from(k) * u128::from(self.period_ns) / u128::from(self.records)),
        }
    }

    // floor(k · period / records) <= t  ⇔  k · period < (t + 1) · records  ⇔  k < ceil((t + 1) · records / period).
    // (t + 1) · records is at most 2^64 · (2^64 − 1) and fits into 128 bits.
    pub(crate) fn due_count(&self, t_ns: u64) -> u64 {
        match t_ns
            .checked_add(1)
            .and_then(|end_ns| end_ns.checked_mul(self.records))
        {
            Some(product) => product.div_ceil(self.period_ns),
            None => {
                let product = (u128::from(t_ns) + 1) * u128::from(self.records);
                saturate(product.div_ceil(u128::from(self.period_ns)))
            }
        }
    }

    /// The exact time from a record to the one `gap` records later, in nanoseconds over
    /// [`records`](Self::records). The whole part saturates.
    pub(crate) fn gap_ns(&self, gap: u64) -> MixedNumber {
        MixedNumber::of(u128::from(gap) * u128::from(self.period_ns), self.records)
    }

    /// The denominator of exact times.
    pub(crate) fn records(&self) -> u64 {
        self.records
    }

    /// How many of the records k ≡ `residue` mod `period` are due at `t_ns`, `t_ns + step_ns` and so on. None where the
    /// numbers do not fit, or `t_ns` is before the first of them is due.
    pub(crate) fn due_counts(&self, period: u64, residue: u64, t_ns: u64, step_ns: u64) -> Option<DueCounts> {
        // (s · period + residue) · period_ns < (t + 1) · records, solved for s.
        let denominator = period.checked_mul(self.period_ns)?;
        let first = u128::from(residue) * u128::from(self.period_ns);
        let numerator = ((u128::from(t_ns) + 1) * u128::from(self.records)).checked_sub(first)?;
        let step = u128::from(step_ns) * u128::from(self.records);
        Some(DueCounts {
            next: MixedNumber::of(numerator, denominator),
            step: MixedNumber::of(step, denominator),
            denominator,
        })
    }
}

/// How many records are due at evenly spaced times: the exact counts, at the cost of an addition each. Never ends.
#[derive(Clone, Debug)]
pub(crate) struct DueCounts {
    next: MixedNumber,
    step: MixedNumber,
    denominator: u64,
}

impl Iterator for DueCounts {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        let count = self.next.whole.saturating_add(u64::from(self.next.remainder > 0));
        self.next = self.next.plus(self.step, self.denominator);
        Some(count)
    }
}

/// `whole + remainder / denominator`, the remainder below the denominator, which is kept elsewhere. The whole part
/// saturates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MixedNumber {
    pub(crate) whole: u64,
    remainder: u64,
}

impl MixedNumber {
    fn of(numerator: u128, denominator: u64) -> MixedNumber {
        let denominator = u128::from(denominator);
        MixedNumber {
            whole: saturate(numerator / denominator),
            remainder: (numerator % denominator) as u64,
        }
    }

    #[inline]
    pub(crate) fn plus(self, other: MixedNumber, denominator: u64) -> MixedNumber {
        let whole = self.whole.saturating_add(other.whole);
        // Both remainders are below the denominator, whose double may not fit into 64 bits.
        let to_next = denominator - other.remainder;
        if self.remainder >= to_next {
            MixedNumber {
                whole: whole.saturating_add(1),
                remainder: self.remainder - to_next,
            }
        } else {
            MixedNumber {
                whole,
                remainder: self.remainder + other.remainder,
            }
        }
    }
}

fn saturate(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

pub(crate) fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rate(records: u64, seconds: u64) -> Schedule {
        Schedule::Constant(ConstantRate::new(records, seconds).expect("a rate"))
    }

    /// Rates from one record in 100 s to 10 M/s, odd ratios and ratios far beyond what a client can send.
    pub(crate) fn any_schedule() -> impl Strategy<Value = Schedule> {
        prop_oneof![
            (1..=10_000_000_u64, 1..=100_u64),
            (1..=1_000_u64, 1..=1_000_000_u64),
            (any::<u64>().prop_map(|r| r.max(1)), 1..=10_000_000_000_u64),
        ]
        .prop_map(|(records, seconds)| rate(records, seconds))
    }

    #[test]
    fn record_zero_is_due_at_the_start_and_the_rest_at_their_exact_times() {
        let thirds = rate(3, 1);
        assert_eq!(
            [0, 1, 2, 3, 4].map(|k| thirds.due_ns(k)),
            [0, 333_333_333, 666_666_666, 1_000_000_000, 1_333_333_333]
        );
        assert_eq!(rate(1, 10).due_ns(6), 60_000_000_000);
        assert_eq!(
            rate(10_000_000, 1).due_ns(10_000_000_000_000_000),
            1_000_000_000_000_000_000
        );
    }

    #[test]
    fn a_year_at_a_rate_that_no_interval_in_nanoseconds_can_state_has_no_drift() {
        // 3,000,000/s is an interval of 333.33… ns; an interval rounded to 333 ns would be 8.8 hours ahead by now.
        let year_s = 31_536_000;
        assert_eq!(
            rate(3_000_000, 1).due_ns(3_000_000 * year_s),
            year_s * NANOSECONDS_PER_SECOND
        );
    }

    #[test]
    fn the_count_at_a_time_includes_what_is_due_at_that_very_time() {
        let hundred = rate(100, 1);
        assert_eq!(hundred.due_count(0), 1);
        assert_eq!(hundred.due_count(9_999_999), 1);
        assert_eq!(hundred.due_count(10_000_000), 2);
        assert_eq!(hundred.due_count_before(10_000_000), 1);
        assert_eq!(hundred.due_count_before(0), 0);
        assert_eq!(hundred.due_count_before(1_000_000_000), 100);
    }

    #[test]
    fn times_that_do_not_fit_saturate() {
        assert_eq!(rate(1, 1_000).due_ns(u64::MAX), u64::MAX);
        assert_eq!(rate(u64::MAX, 1).due_count(u64::MAX), u64::MAX);
    }

    #[test]
    fn no_records_or_no_time_is_no_rate() {
        assert_eq!(
            ConstantRate::new(0, 1),
            Err(RateError::Zero {
                records: 0,
                seconds: 1
            })
        );
        assert_eq!(
            ConstantRate::new(1, 0),
            Err(RateError::Zero {
                records: 1,
                seconds: 0
            })
        );
        assert_eq!(
            ConstantRate::new(1, 18_446_744_074),
            Err(RateError::PeriodTooLong {
                seconds: 18_446_744_074
            })
        );
    }

    #[test]
    fn the_rate_is_shown_in_records_per_second() {
        assert_eq!(
            ConstantRate::new(1, 10).expect("a rate").records_per_second(),
            0.1
        );
        assert_eq!(
            ConstantRate::new(50_000, 1).expect("a rate").records_per_second(),
            50_000.0
        );
    }

    proptest! {
        #[test]
        fn due_count_is_the_exact_inverse_of_due_ns(schedule in any_schedule(), k in 0..=1_u64 << 50) {
            let due_ns = schedule.due_ns(k);
            if due_ns < u64::MAX {
                prop_assert!(schedule.due_count(due_ns) > k);
                prop_assert!(schedule.due_count_before(due_ns) <= k);
            }
        }

        #[test]
        fn due_times_around_any_time_fall_on_the_side_that_due_count_says(
            schedule in any_schedule(), t_ns in 0..u64::MAX,
        ) {
            let count = schedule.due_count(t_ns);
            if count > 0 && count < u64::MAX {
                prop_assert!(schedule.due_ns(count - 1) <= t_ns);
                prop_assert!(schedule.due_ns(count) > t_ns);
            }
        }

        #[test]
        fn gaps_add_up_to_the_computed_times(schedule in any_schedule(), gaps in prop::collection::vec(0..1_000_u64, 1..50)) {
            let Schedule::Constant(rate) = schedule;
            let mut at = rate.gap_ns(0);
            let mut k = 0;
            for gap in gaps {
                at = at.plus(rate.gap_ns(gap), rate.records());
                k += gap;
                prop_assert_eq!(at.whole, rate.due_ns(k));
            }
        }
    }
}
