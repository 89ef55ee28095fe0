//! How two hosts' clocks are related, found by an exchange of stamps, and how far that may be wrong.
//!
//! One side asks at `asked`, on its clock; the other reads the question at `read` and answers at `answered`, on its own; the
//! answer comes back at `returned`. As in NTP (RFC 5905, section 8), the other clock is ahead by
//!
//! ```text
//! offset = ((read − asked) + (answered − returned)) / 2
//! ```
//!
//! and, however unequal the two ways were, the error is at most half of the time that both ways took together:
//!
//! ```text
//! bound = ((returned − asked) − (answered − read)) / 2
//! ```
//!
//! The exchange with the least bound is kept. Two clocks drift apart, so its bound grows with its age, and a newer exchange
//! takes its place as soon as that has the smaller one.

/// By how much two steady clocks may drift apart: each may be slewed by 500 ppm (RFC 5905, the most that NTP's discipline
/// corrects).
const DRIFT_PER_SECOND_NS: u64 = 1_000_000;
const SECOND_NS: u64 = 1_000_000_000;

/// The four stamps of one question and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// When the question was sent, on the asking side's clock.
    pub asked_ns: u64,
    /// When it was read, on the other clock.
    pub read_ns: u64,
    /// When the answer was sent, on the other clock.
    pub answered_ns: u64,
    /// When it was read, on the asking side's clock.
    pub returned_ns: u64,
}

/// By how much another clock is ahead of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockOffset {
    /// The other clock's time less ours, at one moment, in nanoseconds.
    pub offset_ns: i64,
    /// The error is at most this.
    pub bound_ns: u64,
}

impl Exchange {
    /// What the exchange tells; `None` where the stamps contradict each other (a clock was set back between them).
    pub fn offset(&self) -> Option<ClockOffset> {
        let there_and_back = self.returned_ns.checked_sub(self.asked_ns)?;
        let held = self.answered_ns.checked_sub(self.read_ns)?;
        let under_way = there_and_back.checked_sub(held)?;
        let there = i128::from(self.read_ns) - i128::from(self.asked_ns);
        let back = i128::from(self.answered_ns) - i128::from(self.returned_ns);
        Some(ClockOffset {
            offset_ns: i64::try_from((there + back) / 2).ok()?,
            // Halves are rounded up: a bound is never too small.
            bound_ns: under_way.div_ceil(2),
        })
    }
}

/// The best of the exchanges so far.
#[derive(Clone, Debug, Default)]
pub struct OffsetEstimate {
    best: Option<(ClockOffset, u64)>,
    exchanges: u64,
}

impl OffsetEstimate {
    /// No exchange yet.
    pub fn new() -> OffsetEstimate {
        OffsetEstimate::default()
    }

    /// Takes an exchange into account.
    pub fn add(&mut self, exchange: &Exchange) {
        let Some(newer) = exchange.offset() else {
            return;
        };
        self.exchanges += 1;
        let at_ns = exchange.returned_ns;
        if self.at(at_ns).is_none_or(|aged| newer.bound_ns <= aged.bound_ns) {
            self.best = Some((newer, at_ns));
        }
    }

    /// The offset as it is known at `now_ns`, on the asking side's clock; `None` before the first exchange.
    pub fn at(&self, now_ns: u64) -> Option<ClockOffset> {
        let (offset, at_ns) = self.best?;
        let age_ns = u128::from(now_ns.saturating_sub(at_ns));
        let drift_ns = age_ns * u128::from(DRIFT_PER_SECOND_NS) / u128::from(SECOND_NS);
        Some(ClockOffset {
            bound_ns: offset
                .bound_ns
                .saturating_add(u64::try_from(drift_ns).unwrap_or(u64::MAX)),
            ..offset
        })
    }

    /// Exchanges that told something.
    pub fn exchanges(&self) -> u64 {
        self.exchanges
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equal_ways_give_the_offset_and_half_of_the_time_under_way() {
        // The other clock is 250 ms behind; 2 ms there, 3 ms held, 2 ms back.
        let exchange = Exchange {
            asked_ns: 1_000_000_000,
            read_ns: 752_000_000,
            answered_ns: 755_000_000,
            returned_ns: 1_007_000_000,
        };
        let expected = ClockOffset {
            offset_ns: -250_000_000,
            bound_ns: 2_000_000,
        };
        assert_eq!(exchange.offset(), Some(expected));
    }

    #[test]
    fn stamps_that_contradict_each_other_tell_nothing() {
        let good = Exchange {
            asked_ns: 10,
            read_ns: 5,
            answered_ns: 6,
            returned_ns: 20,
        };
        assert!(good.offset().is_some());
        for bad in [
            Exchange {
                returned_ns: 9,
                ..good
            },
            Exchange {
                answered_ns: 4,
                ..good
            },
            Exchange {
                answered_ns: 16,
                ..good
            },
        ] {
            assert_eq!(bad.offset(), None, "{bad:?}");
        }
    }

    #[test]
    fn the_best_exchange_is_kept_until_its_age_makes_another_better() {
        let exchange = |at_ns: u64, way_ns: u64| Exchange {
            asked_ns: at_ns - 2 * way_ns,
            read_ns: at_ns - way_ns,
            answered_ns: at_ns - way_ns,
            returned_ns: at_ns,
        };
        let mut estimate = OffsetEstimate::new();
        assert_eq!(estimate.at(0), None);
        estimate.add(&exchange(10 * SECOND_NS, 100_000));
        // Half a second later the first may be 0.6 ms wrong: 1 ms is no better. After two seconds it is.
        estimate.add(&exchange(10 * SECOND_NS + SECOND_NS / 2, 1_000_000));
        assert_eq!(
            estimate.at(10 * SECOND_NS + SECOND_NS / 2).unwrap().bound_ns,
            600_000
        );
        estimate.add(&exchange(12 * SECOND_NS, 1_000_000));
        assert_eq!(estimate.at(12 * SECOND_NS).unwrap().bound_ns, 1_000_000);
        assert_eq!(estimate.at(13 * SECOND_NS).unwrap().bound_ns, 2_000_000);
        assert_eq!(estimate.exchanges(), 3);
    }

    proptest! {
        #[test]
        fn the_true_offset_is_never_outside_of_the_bound(
            asked_ns in 0_u64..1 << 60,
            there_ns in 0_u64..10_000_000_000,
            held_ns in 0_u64..10_000_000_000,
            back_ns in 0_u64..10_000_000_000,
            ahead_ns in -(1_i64 << 40)..1 << 40,
        ) {
            let asked_ns = asked_ns + (1 << 41);
            let other = |ours: u64| ours.checked_add_signed(ahead_ns).unwrap();
            let exchange = Exchange {
                asked_ns,
                read_ns: other(asked_ns + there_ns),
                answered_ns: other(asked_ns + there_ns + held_ns),
                returned_ns: asked_ns + there_ns + held_ns + back_ns,
            };
            let found = exchange.offset().unwrap();
            prop_assert!(found.offset_ns.abs_diff(ahead_ns) <= found.bound_ns, "{:?} for {}", found, ahead_ns);
        }
    }
}
