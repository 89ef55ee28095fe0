//! The rate that was achieved, window by window.
//!
//! An average hides a generator that stands still and then catches up. So records are counted in windows of 100 ms and of
//! 1 s, and each window is held against what the schedule planned for it.

use std::collections::BTreeMap;

use crate::schedule::Schedule;

/// The width of the short windows: 100 ms. Windows begin at multiples of their width.
pub const SHORT_WINDOW_NS: u64 = 100_000_000;
/// The width of the long windows: 1 s.
pub const LONG_WINDOW_NS: u64 = 1_000_000_000;
/// How far a short window may be off its plan, in per cent, before it is counted as outside.
pub const SHORT_TOLERANCE_PERCENT: u64 = 20;
/// How far a long window may be off its plan, in per cent, before it is counted as outside.
pub const LONG_TOLERANCE_PERCENT: u64 = 2;

/// Counts of records by the 100 ms in which they were sent; one for each thread, emptied into an [`AchievedRate`] from
/// time to time.
#[derive(Clone, Debug, Default)]
pub struct WindowCounts {
    counts: BTreeMap<u64, u64>,
}

impl WindowCounts {
    /// No records yet.
    pub fn new() -> WindowCounts {
        WindowCounts::default()
    }

    /// Counts `count` records at `at_ns`, on the clock of the schedule.
    pub fn record(&mut self, at_ns: u64, count: u64) {
        let window = self.counts.entry(at_ns / SHORT_WINDOW_NS).or_default();
        *window = window.saturating_add(count);
    }
}

/// The rate over one phase. Holds only the windows that may still grow.
#[derive(Clone, Debug)]
pub struct AchievedRate {
    schedule: Option<Schedule>,
    // Whole short windows of the phase that are not closed, as numbers of windows.
    next_window: u64,
    end_window: u64,
    open: BTreeMap<u64, u64>,
    short: WindowFigures,
    long: WindowFigures,
    // The long window that is being put together from short ones.
    long_count: u64,
    long_parts: u64,
    late_count: u64,
}

/// What windows of one width say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowFigures {
    /// The width of each.
    pub width_ns: u64,
    /// How many whole windows there were.
    pub windows: u64,
    /// How many were off their plan by more than the tolerance, and by more than one record. None without a plan.
    pub outside: Option<u64>,
    /// The fewest records in a window. None without windows.
    pub fewest_records: Option<u64>,
    /// The most records in a window. None without windows.
    pub most_records: Option<u64>,
}

impl AchievedRate {
    /// Counts the whole windows within `start_ns..end_ns`, against `schedule` if there is a plan.
    pub fn new(schedule: Option<Schedule>, start_ns: u64, end_ns: u64) -> AchievedRate {
        let figures = |width_ns| WindowFigures {
            width_ns,
            windows: 0,
            outside: schedule.map(|_| 0),
            fewest_records: None,
            most_records: None,
        };
        AchievedRate {
            schedule,
            next_window: start_ns.div_ceil(SHORT_WINDOW_NS),
            end_window: end_ns / SHORT_WINDOW_NS,
            open: BTreeMap::new(),
            short: figures(SHORT_WINDOW_NS),
            long: figures(LONG_WINDOW_NS),
            long_count: 0,
            long_parts: 0,
            late_count: 0,
        }
    }

    /// Takes a thread's counts and leaves it empty. What falls outside of the phase is left out.
    pub fn take(&mut self, counts: &mut WindowCounts) {
        for (window, count) in std::mem::take(&mut counts.counts) {
            if window < self.next_window {
                self.late_count = self.late_count.saturating_add(count);
            } else if window < self.end_window {
                let sum = self.open.entry(window).or_default();
                *sum = sum.saturating_add(count);
            }
        }
    }

    /// Closes the windows that ended at `t_ns` or before: every thread's counts up to then must have been taken.
    pub fn close_before(&mut self, t_ns: u64) {
        let close_end = (t_ns / SHORT_WINDOW_NS).min(self.end_window);
        while self.next_window < close_end {
            let window = self.next_window;
            let count = self.open.remove(&window).unwrap_or(0);
            self.short
                .add(window, count, self.schedule.as_ref(), SHORT_TOLERANCE_PERCENT);
            self.add_to_long(window, count);
            self.next_window += 1;
        }
    }

    /// The windows of 100 ms that are closed.
    pub fn short_windows(&self) -> WindowFigures {
        self.short
    }

    /// The windows of 1 s that are closed.
    pub fn long_windows(&self) -> WindowFigures {
        self.long
    }

    /// The highest rate over 100 ms, in records per second: what a cluster is hit with after a stall. None without windows.
    pub fn peak_per_second(&self) -> Option<u64> {
        self.short
            .most_records
            .map(|most| most.saturating_mul(LONG_WINDOW_NS / SHORT_WINDOW_NS))
    }

    /// Records that fell before the phase or into windows that had been closed, and are in no window.
    pub fn late_count(&self) -> u64 {
        self.late_count
    }

    fn add_to_long(&mut self, window: u64, count: u64) {
        let parts = LONG_WINDOW_NS / SHORT_WINDOW_NS;
        if window.is_multiple_of(parts) {
            (self.long_count, self.long_parts) = (0, 0);
        }
        self.long_count = self.long_count.saturating_add(count);
        self.long_parts += 1;
        if self.long_parts == parts && window % parts == parts - 1 {
            self.long.add(
                window / parts,
                self.long_count,
                self.schedule.as_ref(),
                LONG_TOLERANCE_PERCENT,
            );
        }
    }
}

impl WindowFigures {
    fn add(&mut self, window: u64, count: u64, schedule: Option<&Schedule>, tolerance_percent: u64) {
        self.windows += 1;
        self.fewest_records = Some(self.fewest_records.map_or(count, |fewest| fewest.min(count)));
        self.most_records = Some(self.most_records.map_or(count, |most| most.max(count)));
        if let (Some(outside), Some(schedule)) = (&mut self.outside, schedule) {
            let start_ns = window.saturating_mul(self.width_ns);
            let planned = schedule.due_count_before(start_ns.saturating_add(self.width_ns))
                - schedule.due_count_before(start_ns);
            let off = planned.abs_diff(count);
            let too_far = u128::from(off) * 100 > u128::from(planned) * u128::from(tolerance_percent);
            *outside += u64::from(off > 1 && too_far);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::ConstantRate;

    const MS: u64 = 1_000_000;
    const SECOND: u64 = 1_000 * MS;

    fn per_second(records: u64) -> Schedule {
        Schedule::Constant(ConstantRate::new(records, 1).expect("a rate"))
    }

    /// Sends at `per_ms` records in every millisecond of `start_ms..end_ms`.
    fn send(counts: &mut WindowCounts, start_ms: u64, end_ms: u64, per_ms: u64) {
        for ms in start_ms..end_ms {
            counts.record(ms * MS, per_ms);
        }
    }

    #[test]
    fn a_run_on_plan_has_every_window_inside() {
        let mut rate = AchievedRate::new(Some(per_second(10_000)), SECOND, 11 * SECOND);
        let mut counts = WindowCounts::new();
        send(&mut counts, 0, 12_000, 10);
        rate.take(&mut counts);
        rate.close_before(12 * SECOND);
        let short = rate.short_windows();
        assert_eq!((short.windows, short.outside), (100, Some(0)));
        assert_eq!(
            (short.fewest_records, short.most_records),
            (Some(1_000), Some(1_000))
        );
        let long = rate.long_windows();
        assert_eq!(
            (long.windows, long.outside, long.most_records),
            (10, Some(0), Some(10_000))
        );
        assert_eq!(rate.peak_per_second(), Some(10_000));
        assert_eq!(rate.late_count(), 10_000, "the second before the phase");
    }

    #[test]
    fn a_stall_and_the_burst_after_it_are_outside_and_the_peak_is_named() {
        let mut rate = AchievedRate::new(Some(per_second(10_000)), 0, 10 * SECOND);
        let mut counts = WindowCounts::new();
        send(&mut counts, 0, 3_000, 10);
        send(&mut counts, 5_000, 5_100, 210);
        send(&mut counts, 5_100, 10_000, 10);
        rate.take(&mut counts);
        rate.close_before(10 * SECOND);
        let short = rate.short_windows();
        assert_eq!(
            (short.windows, short.outside, short.fewest_records),
            (100, Some(21), Some(0))
        );
        assert_eq!(
            (rate.long_windows().windows, rate.long_windows().outside),
            (10, Some(3))
        );
        assert_eq!(rate.peak_per_second(), Some(210_000));
    }

    #[test]
    fn a_second_of_three_per_cent_too_few_is_outside_and_its_tenths_are_not() {
        let mut rate = AchievedRate::new(Some(per_second(100_000)), 0, SECOND);
        let mut counts = WindowCounts::new();
        send(&mut counts, 0, 1_000, 97);
        rate.take(&mut counts);
        rate.close_before(SECOND);
        assert_eq!(rate.short_windows().outside, Some(0));
        assert_eq!(rate.long_windows().outside, Some(1));
    }

    #[test]
    fn at_low_rates_one_record_more_or_less_is_on_plan() {
        let mut rate = AchievedRate::new(Some(per_second(5)), 0, SECOND);
        let mut counts = WindowCounts::new();
        for at_ms in [0, 201, 399, 600, 800] {
            counts.record(at_ms * MS, 1);
        }
        rate.take(&mut counts);
        rate.close_before(SECOND);
        assert_eq!(
            (rate.short_windows().outside, rate.long_windows().outside),
            (Some(0), Some(0))
        );
    }

    #[test]
    fn without_a_plan_there_is_nothing_to_be_outside_of() {
        let mut rate = AchievedRate::new(None, 0, SECOND);
        let mut counts = WindowCounts::new();
        send(&mut counts, 0, 500, 10);
        rate.take(&mut counts);
        rate.close_before(SECOND);
        assert_eq!(rate.short_windows().outside, None);
        assert_eq!(rate.peak_per_second(), Some(10_000));
    }

    #[test]
    fn threads_are_added_and_windows_stay_open_until_they_are_closed() {
        let mut rate = AchievedRate::new(Some(per_second(20_000)), 0, 2 * SECOND);
        let mut threads = [WindowCounts::new(), WindowCounts::new()];
        for second in 0..2 {
            for counts in &mut threads {
                send(counts, second * 1_000, (second + 1) * 1_000, 10);
                rate.take(counts);
            }
            rate.close_before((second + 1) * SECOND);
        }
        assert_eq!(rate.long_windows().windows, 2);
        assert_eq!(rate.long_windows().outside, Some(0));
        send(&mut threads[0], 0, 1, 7);
        rate.take(&mut threads[0]);
        assert_eq!(rate.late_count(), 7);
    }

    #[test]
    fn a_phase_that_begins_within_a_window_counts_whole_windows_alone() {
        let mut rate = AchievedRate::new(None, 1_950 * MS, 4_050 * MS);
        let mut counts = WindowCounts::new();
        send(&mut counts, 0, 5_000, 10);
        rate.take(&mut counts);
        rate.close_before(5 * SECOND);
        assert_eq!(
            (rate.short_windows().windows, rate.short_windows().fewest_records),
            (20, Some(1_000))
        );
        assert_eq!(
            (rate.long_windows().windows, rate.long_windows().fewest_records),
            (2, Some(10_000))
        );
    }

    #[test]
    fn hostile_times_cost_nothing() {
        let mut rate = AchievedRate::new(Some(per_second(1)), 0, SECOND);
        let mut counts = WindowCounts::new();
        counts.record(u64::MAX, u64::MAX);
        counts.record(u64::MAX, u64::MAX);
        rate.take(&mut counts);
        rate.close_before(u64::MAX);
        assert_eq!(rate.short_windows().most_records, Some(0));
    }
}
