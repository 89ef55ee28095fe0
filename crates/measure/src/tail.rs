//! How far a percentile can be trusted, from the number of samples alone.
//!
//! The rank of the true p-quantile among n independent samples is binomial, whatever the distribution. So the samples of
//! rank l and u enclose it with at least 95 % confidence, where
//!
//! * l is the highest rank with P(X < l) ≤ 2.5 %, u the lowest with P(X < u) ≥ 97.5 %, X ~ Binomial(n, p);
//! * there is no u when even the largest sample may lie below the quantile, p^n > 2.5 %: then the percentile is only known
//!   to be "above the maximum seen", and it takes n ≥ ln 0.025 / ln p samples to say more (368 for the 99th percentile).
//!
//! Exact, and slightly conservative. Latencies of neighbouring records are not independent: these intervals are the least
//! that must be admitted, not the most.

/// How much of the probability may lie beyond either end.
const BEYOND_EACH_END: f64 = 0.025;

/// Above this variance of the binomial (a hundred million, 10^10 samples at the 99th percentile) the normal distribution
/// stands in for it: their ranks differ by less than one in ten thousand of the interval's width.
const NORMAL_ABOVE_VARIANCE: f64 = 1e8;

/// The ranks, counted from 1 for the smallest sample, that enclose a percentile with 95 % confidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfidenceRanks {
    /// The lower end. None: it may lie below the smallest sample.
    pub lower: Option<u64>,
    /// The upper end. None: it may lie above the largest sample.
    pub upper: Option<u64>,
}

/// The ranks that enclose the `quantile` (0.99 for the 99th percentile) of `samples` samples. Neither when there are no
/// samples or `quantile` is not between 0 and 1.
pub fn confidence_ranks(samples: u64, quantile: f64) -> ConfidenceRanks {
    if samples == 0 || !(quantile > 0.0 && quantile < 1.0) {
        return ConfidenceRanks {
            lower: None,
            upper: None,
        };
    }
    let variance = samples as f64 * quantile * (1.0 - quantile);
    if variance > NORMAL_ABOVE_VARIANCE {
        normal_ranks(samples, quantile)
    } else {
        binomial_ranks(samples, quantile)
    }
}

/// The fewest samples whose maximum is, with 95 % confidence, not below the `quantile`: with fewer, the percentile is to
/// be read as "above the maximum". None when `quantile` is not between 0 and 1.
pub fn fewest_samples(quantile: f64) -> Option<u64> {
    let between = quantile > 0.0 && quantile < 1.0;
    between.then(|| (BEYOND_EACH_END.ln() / quantile.ln()).ceil() as u64)
}

/// Sums the binomial's probabilities outwards from its most likely value, relative to that, until nothing is added any
/// more. So no factorials are needed, and no more terms than some twenty standard deviations.
fn binomial_ranks(samples: u64, quantile: f64) -> ConfidenceRanks {
    let odds = quantile / (1.0 - quantile);
    // weight(k + 1) / weight(k)
    let ratio = |k: u64| (samples - k) as f64 / (k + 1) as f64 * odds;
    let mode = (((samples + 1) as f64 * quantile) as u64).min(samples);

    let mut total = 1.0;
    let mut weight = 1.0;
    for k in mode..samples {
        weight *= ratio(k);
        total += weight;
        if weight < f64::EPSILON * 1e-6 {
            break;
        }
    }
    let (mut lowest, mut lowest_weight) = (mode, 1.0);
    while lowest > 0 && lowest_weight > f64::EPSILON * 1e-6 {
        lowest -= 1;
        lowest_weight /= ratio(lowest);
        total += lowest_weight;
    }

    // P(X <= k), as k rises from where it is as good as zero.
    let mut up_to = 0.0;
    let mut weight = lowest_weight;
    let mut lower = (lowest > 0).then_some(lowest);
    for k in lowest..samples {
        up_to += weight / total;
        weight *= ratio(k);
        // P(X < k + 1) = P(X <= k)
        if up_to <= BEYOND_EACH_END {
            lower = Some(k + 1);
        }
        if up_to >= 1.0 - BEYOND_EACH_END {
            return ConfidenceRanks {
                lower,
                upper: Some(k + 1),
            };
        }
    }
    ConfidenceRanks { lower, upper: None }
}

fn normal_ranks(samples: u64, quantile: f64) -> ConfidenceRanks {
    const STANDARD_DEVIATIONS: f64 = 1.959_963_984_540_054;
    let mean = samples as f64 * quantile;
    let reach = STANDARD_DEVIATIONS * (mean * (1.0 - quantile)).sqrt();
    ConfidenceRanks {
        lower: Some((mean - reach) as u64),
        upper: Some(((mean + reach).ceil() as u64).min(samples)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranks_are_those_of_the_exact_binomial() {
        for (samples, quantile, lower, upper) in [
            (1_000, 0.99, 983, 997),
            (10_000, 0.99, 9_880, 9_920),
            (100_000, 0.99, 98_938, 99_062),
            (10_000, 0.999, 9_983, 9_997),
            (100_000, 0.999, 99_880, 99_920),
            (1_000_000, 0.9999, 999_880, 999_920),
            (30, 0.5, 10, 21),
            (10, 0.5, 2, 9),
            (6, 0.5, 1, 6),
        ] {
            assert_eq!(
                confidence_ranks(samples, quantile),
                ConfidenceRanks {
                    lower: Some(lower),
                    upper: Some(upper)
                },
                "p{quantile} of {samples}"
            );
        }
    }

    #[test]
    fn below_the_fewest_samples_the_percentile_is_above_the_maximum() {
        for (quantile, fewest) in [(0.9, 36), (0.99, 368), (0.999, 3_688), (0.9999, 36_887)] {
            assert_eq!(fewest_samples(quantile), Some(fewest));
            assert_eq!(confidence_ranks(fewest, quantile).upper, Some(fewest));
            assert_eq!(confidence_ranks(fewest - 1, quantile).upper, None);
        }
    }

    #[test]
    fn a_median_of_few_samples_may_lie_beyond_both_ends() {
        assert_eq!(
            confidence_ranks(5, 0.5),
            ConfidenceRanks {
                lower: None,
                upper: None
            }
        );
    }

    #[test]
    fn what_is_no_quantile_has_no_ranks() {
        for quantile in [0.0, 1.0, -1.0, 2.0, f64::NAN, f64::INFINITY] {
            assert_eq!(
                confidence_ranks(1_000, quantile),
                ConfidenceRanks {
                    lower: None,
                    upper: None
                }
            );
            assert_eq!(fewest_samples(quantile), None);
        }
        assert_eq!(
            confidence_ranks(0, 0.5),
            ConfidenceRanks {
                lower: None,
                upper: None
            }
        );
    }

    #[test]
    fn the_normal_stands_in_for_the_binomial_without_a_step() {
        let samples = 3_000_000_000;
        let exact = binomial_ranks(samples, 0.99);
        let normal = normal_ranks(samples, 0.99);
        let apart = |a: Option<u64>, b: Option<u64>| a.expect("a rank").abs_diff(b.expect("a rank"));
        assert!(apart(exact.lower, normal.lower) <= 3, "{exact:?} {normal:?}");
        assert!(apart(exact.upper, normal.upper) <= 3, "{exact:?} {normal:?}");
        assert_eq!(
            confidence_ranks(u64::MAX, 0.9999)
                .upper
                .map(|rank| rank > u64::MAX / 2),
            Some(true)
        );
    }

    proptest! {
        #[test]
        fn the_ranks_enclose_the_quantile(samples in 1..1_000_000_u64, quantile in 0.001..0.999_9_f64) {
            let ranks = confidence_ranks(samples, quantile);
            let middle = samples as f64 * quantile;
            prop_assert!(ranks.lower.is_none_or(|lower| lower as f64 <= middle + 1.0 && lower >= 1));
            prop_assert!(ranks.upper.is_none_or(|upper| upper as f64 >= middle && upper <= samples));
        }
    }
}
