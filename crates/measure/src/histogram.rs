//! Latency histograms, recorded by whole runs of records.
//!
//! A batch is acknowledged at one time, and its records were due at times of exact arithmetic progression. So their
//! response times are recorded by stepping over the buckets of the histogram, not over the records: one addition per
//! bucket that the run touches, with the same outcome as recording each record by itself.
//!
//! The buckets are those of an HDR histogram of 1 ns to 1 h at three significant digits, so that it can be written out as
//! one: values below 2,048 ns have a bucket each, and every doubling above is cut into 1,024. A value is known to 0.1 %.
//! One histogram takes 261 KiB (33,421 counters of 8 bytes) however much is recorded; merging and resetting touch only
//! what lies between the smallest and the largest value.

use std::ops::Range;

use hdrhistogram::Histogram;

use crate::share::Share;

/// The largest value that is told apart: one hour. What took longer is recorded as one hour, and counted as saturated.
pub const LONGEST_NS: u64 = 3_600_000_000_000;

const SIGNIFICANT_DIGITS: u8 = 3;
const BUCKETS_PER_DOUBLING: usize = 1_024;
const BUCKETS: usize = bucket_of(LONGEST_NS) + 1;

/// A histogram of latencies in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencyHistogram {
    counts: Box<[u64]>,
    count: u64,
    // The extremes are kept apart, exact: a bucket is up to 0.1 % wide, and a maximum is quoted to the digit. Only buckets
    // between theirs have counts.
    min_ns: u64,
    max_ns: u64,
    negative_count: u64,
    saturated_count: u64,
    censored_count: u64,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self::new()
    }
}

impl LatencyHistogram {
    /// An empty histogram.
    pub fn new() -> LatencyHistogram {
        LatencyHistogram {
            counts: vec![0; BUCKETS].into(),
            count: 0,
            min_ns: u64::MAX,
            max_ns: 0,
            negative_count: 0,
            saturated_count: 0,
            censored_count: 0,
        }
    }

    /// Records `count` latencies of `value_ns` each.
    #[inline]
    pub fn record_n(&mut self, value_ns: u64, count: u64) {
        if count == 0 {
            return;
        }
        self.widen(value_ns, value_ns);
        self.count = self.count.saturating_add(count);
        if value_ns > LONGEST_NS {
            self.saturated_count = self.saturated_count.saturating_add(count);
        }
        self.add_to_bucket(bucket_of(value_ns.min(LONGEST_NS)), count);
    }

    /// Records the latency of something that ended at `at_ns` and began, or was due, at `since_ns`. An end before the
    /// beginning is recorded as zero and counted as negative: clocks of two hosts do that, and it must show.
    #[inline]
    pub fn record_since(&mut self, since_ns: u64, at_ns: u64, count: u64) {
        if at_ns < since_ns {
            self.negative_count = self.negative_count.saturating_add(count);
        }
        self.record_n(at_ns.saturating_sub(since_ns), count);
    }

    /// Records `at_ns − due` of each of the `count` records of `share` from `first_sequence` on: the same as
    /// [`record_since`](Self::record_since) for each of them, at the cost of one step per bucket that is touched.
    pub fn record_due_run(&mut self, share: &Share, first_sequence: u64, count: u64, at_ns: u64) {
        let end = first_sequence.saturating_add(count);
        if first_sequence == end {
            return;
        }
        let due_end = share.due_count(at_ns).clamp(first_sequence, end);
        if due_end < end {
            self.negative_count = self.negative_count.saturating_add(end - due_end);
            self.record_n(0, end - due_end);
        }
        if first_sequence < due_end {
            self.record_past_due_run(share, first_sequence, due_end, at_ns);
        }
    }

    /// As [`record_due_run`](Self::record_due_run), for records that had no end by `at_ns`: their ages are lower bounds
    /// of their latencies. They are in every percentile, since leaving the slowest out would flatter it, and are counted
    /// as censored beside.
    pub fn record_censored_due_run(&mut self, share: &Share, first_sequence: u64, count: u64, at_ns: u64) {
        self.censored_count = self.censored_count.saturating_add(count);
        self.record_due_run(share, first_sequence, count, at_ns);
    }

    // All of `first..end` are due at `at_ns` or before, so the values fall from the first to the last, none below zero.
    fn record_past_due_run(&mut self, share: &Share, first: u64, end: u64, at_ns: u64) {
        let (longest_ns, shortest_ns) = (at_ns - share.due_ns(first), at_ns - share.due_ns(end - 1));
        self.widen(shortest_ns, longest_ns);
        self.count = self.count.saturating_add(end - first);
        let mut first = first;
        if longest_ns > LONGEST_NS {
            let saturated_end = share.due_count(at_ns - LONGEST_NS - 1).min(end);
            self.saturated_count = self.saturated_count.saturating_add(saturated_end - first);
            self.add_to_bucket(BUCKETS - 1, saturated_end - first);
            first = saturated_end;
        }
        if first == end {
            return;
        }
        let from_bucket = bucket_of((at_ns - share.due_ns(first)).min(LONGEST_NS));
        let buckets = from_bucket - bucket_of(shortest_ns) + 1;
        if end - first <= buckets as u64 {
            for due_ns in share.due_times(first).take((end - first) as usize) {
                self.add_to_bucket(bucket_of(at_ns - due_ns), 1);
            }
        } else {
            self.record_by_buckets(share, first, end, at_ns, from_bucket);
        }
    }

    // The records of a bucket and of all above it are those due by `at` minus its lowest value. The buckets of one doubling
    // have one width, so these times are evenly spaced and their counts can be carried along.
    fn record_by_buckets(&mut self, share: &Share, first: u64, end: u64, at_ns: u64, from_bucket: usize) {
        let mut sequence = first;
        let mut from_bucket = from_bucket;
        loop {
            let (lowest_ns, width_ns) = bounds_of(from_bucket);
            let to_bucket = first_bucket_of_width(from_bucket);
            let due_counts = share.due_counts(at_ns - lowest_ns, width_ns);
            for (bucket, due_count) in (to_bucket..=from_bucket).rev().zip(due_counts) {
                let bucket_end = due_count.min(end);
                self.add_to_bucket(bucket, bucket_end - sequence);
                sequence = bucket_end;
                if sequence == end {
                    return;
                }
            }
            // Bucket 0 holds the value 0: what is due at `at` itself, which all of `first..end` are by then.
            from_bucket = to_bucket.saturating_sub(1);
        }
    }

    #[inline]
    fn widen(&mut self, shortest_ns: u64, longest_ns: u64) {
        self.min_ns = self.min_ns.min(shortest_ns);
        self.max_ns = self.max_ns.max(longest_ns);
    }

    #[inline]
    fn add_to_bucket(&mut self, bucket: usize, count: u64) {
        self.counts[bucket] = self.counts[bucket].saturating_add(count);
    }

    /// Adds all that `other` holds.
    pub fn merge(&mut self, other: &LatencyHistogram) {
        let used = other.used();
        for (count, more) in self.counts[used.clone()].iter_mut().zip(&other.counts[used]) {
            *count = count.saturating_add(*more);
        }
        self.count = self.count.saturating_add(other.count);
        self.widen(other.min_ns, other.max_ns);
        self.negative_count = self.negative_count.saturating_add(other.negative_count);
        self.saturated_count = self.saturated_count.saturating_add(other.saturated_count);
        self.censored_count = self.censored_count.saturating_add(other.censored_count);
    }

    /// Forgets everything. The memory is kept.
    pub fn reset(&mut self) {
        let used = self.used();
        self.counts[used].fill(0);
        self.count = 0;
        self.min_ns = u64::MAX;
        self.max_ns = 0;
        self.negative_count = 0;
        self.saturated_count = 0;
        self.censored_count = 0;
    }

    /// How many latencies were recorded.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The longest, exact. None when nothing was recorded.
    pub fn max_ns(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.max_ns)
    }

    /// The latency that the given part of all recorded ones did not exceed, to within 0.1 % upwards and never above the
    /// maximum; `quantile` from 0 to 1, 0.99 being the 99th percentile. None when nothing was recorded.
    pub fn value_at_quantile_ns(&self, quantile: f64) -> Option<u64> {
        self.value_at_rank_ns(self.rank_of(quantile))
    }

    /// The latency of the `rank`th fastest record, counted from 1: what the ranks of
    /// [`confidence_ranks`](crate::tail::confidence_ranks) ask for. None when there are fewer.
    pub fn value_at_rank_ns(&self, rank: u64) -> Option<u64> {
        if rank == 0 {
            return None;
        }
        let mut seen = 0_u64;
        self.used().find_map(|bucket| {
            seen = seen.saturating_add(self.counts[bucket]);
            (seen >= rank).then(|| self.value_of(bucket))
        })
    }

    /// The figures that are shown. None when nothing was recorded.
    pub fn summary(&self) -> Option<LatencySummary> {
        let at = |quantile| self.value_at_quantile_ns(quantile);
        Some(LatencySummary {
            count: self.count,
            min_ns: (!self.is_empty()).then_some(self.min_ns)?,
            mean_ns: self.mean_ns()?,
            p50_ns: at(0.5)?,
            p90_ns: at(0.9)?,
            p95_ns: at(0.95)?,
            p99_ns: at(0.99)?,
            p99_9_ns: at(0.999)?,
            p99_99_ns: at(0.9999)?,
            max_ns: self.max_ns,
            negative_count: self.negative_count,
            saturated_count: self.saturated_count,
            censored_count: self.censored_count,
        })
    }

    /// The same counts as a histogram of the HdrHistogram library, for serialisation and for its tools.
    pub fn to_hdr(&self) -> Histogram<u64> {
        let mut hdr = Histogram::new_with_bounds(1, LONGEST_NS, SIGNIFICANT_DIGITS)
            .expect("valid bounds: low >= 1, high >= 2 * low, at most 5 digits");
        for bucket in self.used().filter(|&bucket| self.counts[bucket] > 0) {
            hdr.saturating_record_n(bounds_of(bucket).0, self.counts[bucket]);
        }
        hdr
    }

    fn rank_of(&self, quantile: f64) -> u64 {
        ((quantile * self.count as f64).ceil() as u64).clamp(1, self.count.max(1))
    }

    fn value_of(&self, bucket: usize) -> u64 {
        let (lowest_ns, width_ns) = bounds_of(bucket);
        (lowest_ns + (width_ns - 1)).clamp(self.min_ns, self.max_ns)
    }

    // Each value stands for the middle of its bucket, 0.05 % off at most.
    fn mean_ns(&self) -> Option<u64> {
        let sum: u128 = self
            .used()
            .map(|bucket| {
                let (lowest_ns, width_ns) = bounds_of(bucket);
                u128::from(self.counts[bucket]) * u128::from(lowest_ns + width_ns / 2)
            })
            .sum();
        let mean_ns = sum.checked_div(u128::from(self.count))?;
        Some((mean_ns as u64).clamp(self.min_ns, self.max_ns))
    }

    // The buckets that can have counts.
    fn used(&self) -> Range<usize> {
        if self.is_empty() {
            return 0..0;
        }
        bucket_of(self.min_ns.min(LONGEST_NS))..bucket_of(self.max_ns.min(LONGEST_NS)) + 1
    }
}

/// The bucket of a value. Values below 2,048 have one each; above, the eleven highest bits of a value tell its bucket.
#[inline]
const fn bucket_of(value_ns: u64) -> usize {
    let shift = (value_ns | (BUCKETS_PER_DOUBLING as u64)).ilog2() - BUCKETS_PER_DOUBLING.ilog2();
    shift as usize * BUCKETS_PER_DOUBLING + (value_ns >> shift) as usize
}

/// The lowest value of a bucket, and how many values it holds.
#[inline]
fn bounds_of(bucket: usize) -> (u64, u64) {
    let shift = (bucket / BUCKETS_PER_DOUBLING).saturating_sub(1);
    (
        ((bucket - shift * BUCKETS_PER_DOUBLING) as u64) << shift,
        1 << shift,
    )
}

/// The lowest of the buckets that are as wide as this one.
fn first_bucket_of_width(bucket: usize) -> usize {
    if bucket < 2 * BUCKETS_PER_DOUBLING {
        0
    } else {
        bucket / BUCKETS_PER_DOUBLING * BUCKETS_PER_DOUBLING
    }
}

/// What a histogram says, in nanoseconds. The minimum and the maximum are exact, the rest is known to 0.1 %.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencySummary {
    /// How many latencies these figures rest on.
    pub count: u64,
    /// The shortest.
    pub min_ns: u64,
    /// The mean.
    pub mean_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// The 90th percentile.
    pub p90_ns: u64,
    /// The 95th percentile.
    pub p95_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The 99.9th percentile.
    pub p99_9_ns: u64,
    /// The 99.99th percentile.
    pub p99_99_ns: u64,
    /// The longest, exact even above [`LONGEST_NS`].
    pub max_ns: u64,
    /// How many ended before they began, and are in the figures as zero.
    pub negative_count: u64,
    /// How many took longer than [`LONGEST_NS`], and are in the percentiles as that.
    pub saturated_count: u64,
    /// How many had not ended when they were recorded, and are in the figures with their age at that time.
    pub censored_count: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::{ConstantRate, Schedule};
    use crate::share::tests::any_split;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;
    const SECOND: u64 = 1_000_000_000;

    fn whole(records: u64, seconds: u64) -> Share {
        let rate = ConstantRate::new(records, seconds).expect("a rate");
        Share::of(Schedule::Constant(rate), 0, 1).expect("a share")
    }

    fn one_by_one(share: &Share, first: u64, count: u64, at_ns: u64) -> LatencyHistogram {
        let mut histogram = LatencyHistogram::new();
        for sequence in first..first + count {
            histogram.record_since(share.due_ns(sequence), at_ns, 1);
        }
        histogram
    }

    fn assert_same(run: &LatencyHistogram, each: &LatencyHistogram) {
        assert_eq!(run.summary(), each.summary());
        assert!(run == each, "the summaries are equal, and the buckets are not");
    }

    #[test]
    fn the_buckets_are_those_of_an_hdr_histogram() {
        let hdr = Histogram::<u64>::new_with_bounds(1, LONGEST_NS, SIGNIFICANT_DIGITS).expect("bounds");
        let near_powers =
            (0..42).flat_map(|bit| [-1, 0, 1].map(|off| (1_u64 << bit).saturating_add_signed(off)));
        for value in near_powers.chain([3_333, 1_234_567, LONGEST_NS]) {
            let (lowest, width) = bounds_of(bucket_of(value));
            assert_eq!(
                (lowest, width),
                (hdr.lowest_equivalent(value), hdr.equivalent_range(value)),
                "{value}"
            );
        }
    }

    #[test]
    fn percentiles_are_those_of_an_hdr_histogram() {
        let mut histogram = LatencyHistogram::new();
        histogram.record_due_run(&whole(7_919, 1), 0, 100_000, 13 * SECOND);
        let hdr = histogram.to_hdr();
        assert_eq!(hdr.len(), histogram.count());
        for quantile in [0.001, 0.01, 0.5, 0.9, 0.99, 0.999] {
            assert_eq!(
                histogram.value_at_quantile_ns(quantile),
                Some(hdr.value_at_quantile(quantile)),
                "{quantile}"
            );
        }
        assert_eq!(histogram.value_at_quantile_ns(1.0), histogram.max_ns());
    }

    #[test]
    fn nothing_recorded_is_no_summary() {
        let histogram = LatencyHistogram::new();
        assert_eq!(histogram.summary(), None);
        assert_eq!(histogram.value_at_quantile_ns(0.99), None);
        assert_eq!(histogram.value_at_rank_ns(1), None);
    }

    #[test]
    fn extremes_are_exact_and_percentiles_within_a_thousandth() {
        let mut histogram = LatencyHistogram::new();
        for value in 1..=100_u64 {
            histogram.record_n(value * MS + 7, 1);
        }
        let summary = histogram.summary().expect("recorded");
        assert_eq!(
            (summary.count, summary.min_ns, summary.max_ns),
            (100, MS + 7, 100 * MS + 7)
        );
        assert!(
            (50 * MS..=50 * MS + 50_007).contains(&summary.p50_ns),
            "{}",
            summary.p50_ns
        );
        assert!(
            (99 * MS..=99 * MS + 99_007).contains(&summary.p99_ns),
            "{}",
            summary.p99_ns
        );
        assert_eq!(histogram.value_at_rank_ns(100), Some(100 * MS + 7));
        assert_eq!(histogram.value_at_rank_ns(101), None);
    }

    /// 100/s answered after 1 ms for 100 s, then a stall of 100 s that all that was due waits out.
    #[test]
    fn a_stall_is_in_every_record_that_was_due_in_it() {
        let share = whole(100, 1);
        let mut histogram = LatencyHistogram::new();
        histogram.record_n(MS, 10_000);
        histogram.record_due_run(&share, 10_000, 10_000, 200 * SECOND);
        let summary = histogram.summary().expect("recorded");
        assert_eq!(summary.count, 20_000);
        let near = |value_ns: u64, seconds: f64| (value_ns as f64 / 1e9 - seconds).abs() < 0.1;
        assert!(histogram.value_at_quantile_ns(0.499).expect("recorded") <= MS + MS / 1_000);
        assert!(near(
            histogram.value_at_quantile_ns(0.75).expect("recorded"),
            50.0
        ));
        assert!(near(summary.p99_ns, 98.0));
        assert!(near(summary.mean_ns, 25.0));
        assert_eq!(summary.max_ns, 100 * SECOND);
    }

    #[test]
    fn records_that_ended_before_they_were_due_are_zero_and_counted_as_negative() {
        let share = whole(1_000, 1);
        let mut histogram = LatencyHistogram::new();
        histogram.record_due_run(&share, 0, 10, 5 * MS);
        let summary = histogram.summary().expect("recorded");
        assert_eq!((summary.count, summary.negative_count), (10, 4));
        assert_eq!((summary.min_ns, summary.max_ns), (0, 5 * MS));
        assert_same(&histogram, &one_by_one(&share, 0, 10, 5 * MS));
    }

    #[test]
    fn more_than_an_hour_is_an_hour_and_counted_as_saturated() {
        let share = whole(1, 1);
        let mut histogram = LatencyHistogram::new();
        histogram.record_due_run(&share, 0, 7_200, 7_200 * SECOND);
        let summary = histogram.summary().expect("recorded");
        assert_eq!((summary.count, summary.saturated_count), (7_200, 3_600));
        assert_eq!(summary.max_ns, 7_200 * SECOND);
        let hour = LONGEST_NS..LONGEST_NS + LONGEST_NS / 1_000;
        assert!(hour.contains(&summary.p99_ns), "{}", summary.p99_ns);
        assert_same(&histogram, &one_by_one(&share, 0, 7_200, 7_200 * SECOND));
    }

    #[test]
    fn what_had_not_ended_is_in_the_figures_with_its_age_and_counted_as_censored() {
        let share = whole(1_000, 1);
        let mut histogram = LatencyHistogram::new();
        histogram.record_censored_due_run(&share, 0, 1_000, SECOND);
        let summary = histogram.summary().expect("recorded");
        assert_eq!(
            (summary.count, summary.censored_count, summary.max_ns),
            (1_000, 1_000, SECOND)
        );
    }

    #[test]
    fn merging_adds_and_resetting_forgets() {
        let mut sum = LatencyHistogram::new();
        let mut part = LatencyHistogram::new();
        sum.record_n(3 * MS, 2);
        part.record_since(5, 0, 1);
        part.record_n(LONGEST_NS + 1, 1);
        sum.merge(&part);
        let summary = sum.summary().expect("recorded");
        assert_eq!(
            (summary.count, summary.min_ns, summary.max_ns),
            (4, 0, LONGEST_NS + 1)
        );
        assert_eq!((summary.negative_count, summary.saturated_count), (1, 1));
        sum.reset();
        assert_same(&sum, &LatencyHistogram::new());
    }

    #[test]
    fn hostile_runs_end() {
        let share = whole(10_000_000, 1);
        let mut histogram = LatencyHistogram::new();
        histogram.record_due_run(&share, u64::MAX, u64::MAX, u64::MAX);
        histogram.record_due_run(&share, 5, 0, 0);
        assert_eq!(histogram.count(), 0);
        histogram.record_due_run(&share, 0, u64::MAX, u64::MAX);
        assert_eq!(histogram.count(), u64::MAX);
    }

    proptest! {
        #[test]
        fn a_run_is_recorded_as_each_of_its_records_would_be(
            split in any_split(), pick in any::<prop::sample::Index>(),
            first in 0..1_u64 << 40, count in 0..400_u64, after_ns in -10_000_000_i64..10_000_000_000,
        ) {
            let share = pick.get(&split);
            // Due times past the end of time saturate, and are no progression any more.
            if share.due_ns(first + count) == u64::MAX {
                return Ok(());
            }
            let at_ns = share.due_ns(first + count / 2).saturating_add_signed(after_ns);
            let mut run = LatencyHistogram::new();
            run.record_due_run(share, first, count, at_ns);
            assert_same(&run, &one_by_one(share, first, count, at_ns));
        }

        #[test]
        fn a_dense_run_is_recorded_as_each_of_its_records_would_be(
            records in 100_000..20_000_000_u64, producers in 1..8_u64, first in 0..1_u64 << 30,
            count in 0..5_000_u64, after_ns in 0..2_000_000_u64,
        ) {
            let rate = ConstantRate::new(records, 1).expect("a rate");
            let share = Share::of(Schedule::Constant(rate), producers - 1, producers).expect("a share");
            let at_ns = share.due_ns(first + count) + after_ns;
            let mut run = LatencyHistogram::new();
            run.record_due_run(&share, first, count, at_ns);
            assert_same(&run, &one_by_one(&share, first, count, at_ns));
        }
    }
}
