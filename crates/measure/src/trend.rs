//! Whether a series of samples, such as a backlog taken once a second, rises or falls.
//!
//! Least squares: the slope b of value = a + b·t, with its 95 % interval b ± t(n−2)·s/√Σ(t − t̄)², s² being the mean square
//! of what the line leaves over. Only sums are kept, so the memory does not grow. Neighbouring samples of a backlog are not
//! independent, which makes the interval too narrow: hold its ends against a bound that matters, not against zero.

/// Fewest samples for which a slope is given.
pub const FEWEST_SAMPLES: u64 = 5;

/// The sums of a series.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trend {
    first_ns: Option<u64>,
    samples: f64,
    mean_s: f64,
    mean_value: f64,
    // Sums of products of the differences from the means.
    time_time: f64,
    time_value: f64,
    value_value: f64,
}

/// A slope and its 95 % interval, in units of the value per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slope {
    /// The lower end of the interval.
    pub lower_per_second: f64,
    /// The slope of the line that fits best.
    pub per_second: f64,
    /// The upper end of the interval.
    pub upper_per_second: f64,
}

impl Trend {
    /// No samples yet.
    pub fn new() -> Trend {
        Trend::default()
    }

    /// Adds the value at a time. Times may come in any order.
    pub fn add(&mut self, at_ns: u64, value: f64) {
        let first_ns = *self.first_ns.get_or_insert(at_ns);
        let at_s = (i128::from(at_ns) - i128::from(first_ns)) as f64 / 1e9;
        self.samples += 1.0;
        let (off_s, off_value) = (at_s - self.mean_s, value - self.mean_value);
        self.mean_s += off_s / self.samples;
        self.mean_value += off_value / self.samples;
        self.time_time += off_s * (at_s - self.mean_s);
        self.time_value += off_s * (value - self.mean_value);
        self.value_value += off_value * (value - self.mean_value);
    }

    /// The slope. None with fewer than [`FEWEST_SAMPLES`], or when all were taken at one time or are not finite.
    pub fn slope(&self) -> Option<Slope> {
        if self.samples < FEWEST_SAMPLES as f64 || self.time_time <= 0.0 {
            return None;
        }
        let per_second = self.time_value / self.time_time;
        let left_over = (self.value_value - per_second * self.time_value).max(0.0);
        let freedom = self.samples - 2.0;
        let reach = student_t(freedom) * (left_over / freedom / self.time_time).sqrt();
        (per_second.is_finite() && reach.is_finite()).then_some(Slope {
            lower_per_second: per_second - reach,
            per_second,
            upper_per_second: per_second + reach,
        })
    }
}

/// The 97.5th percentile of Student's t, by the first terms of its expansion about the normal's z in 1/ν:
/// z + (z³ + z)/4ν + (5z⁵ + 16z³ + 3z)/96ν² + (3z⁷ + 19z⁵ + 17z³ − 15z)/384ν³. Within 1 % of the tables from three degrees of freedom on.
fn student_t(freedom: f64) -> f64 {
    const Z: f64 = 1.959_963_984_540_054;
    let first = (Z.powi(3) + Z) / 4.0;
    let second = (5.0 * Z.powi(5) + 16.0 * Z.powi(3) + 3.0 * Z) / 96.0;
    let third = (3.0 * Z.powi(7) + 19.0 * Z.powi(5) + 17.0 * Z.powi(3) - 15.0 * Z) / 384.0;
    Z + first / freedom + second / freedom.powi(2) + third / freedom.powi(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn slope(values: impl IntoIterator<Item = f64>) -> Option<Slope> {
        let mut trend = Trend::new();
        for (i, value) in values.into_iter().enumerate() {
            trend.add((1_000 + i as u64) * SECOND, value);
        }
        trend.slope()
    }

    #[test]
    fn a_straight_line_has_its_slope_and_no_doubt() {
        let slope = slope((0..60).map(|i| 5.0 + 250.0 * f64::from(i))).expect("a slope");
        assert!((slope.per_second - 250.0).abs() < 1e-9);
        assert!(slope.upper_per_second - slope.lower_per_second < 1e-3);
    }

    #[test]
    fn a_backlog_that_goes_up_and_down_has_zero_within_its_interval() {
        let slope = slope((0..60).map(|i| if i % 2 == 0 { 1_000.0 } else { 900.0 })).expect("a slope");
        assert!(
            slope.lower_per_second < 0.0 && slope.upper_per_second > 0.0,
            "{slope:?}"
        );
    }

    /// Worked by hand: t = 0..4, v = 1, 3, 2, 5, 4 → b = 8/10, residuals' sum of squares 3.6, s² = 1.2,
    /// 3.182·√(1.2/10) = 1.102.
    #[test]
    fn the_interval_is_that_of_least_squares() {
        let slope = slope([1.0, 3.0, 2.0, 5.0, 4.0]).expect("a slope");
        assert!((slope.per_second - 0.8).abs() < 1e-12);
        assert!((slope.upper_per_second - 0.8 - 1.102).abs() < 0.02, "{slope:?}");
    }

    #[test]
    fn students_t_is_near_its_tables() {
        for (freedom, table) in [
            (3.0, 3.182),
            (5.0, 2.571),
            (10.0, 2.228),
            (30.0, 2.042),
            (1e9, 1.960),
        ] {
            assert!(
                (student_t(freedom) / table - 1.0).abs() < 0.01,
                "{freedom}: {}",
                student_t(freedom)
            );
        }
    }

    #[test]
    fn too_little_is_no_slope() {
        assert_eq!(slope([1.0, 2.0, 3.0, 4.0]), None);
        let mut trend = Trend::new();
        for _ in 0..10 {
            trend.add(7, 1.0);
        }
        assert_eq!(trend.slope(), None);
        assert_eq!(slope([f64::NAN; 10]), None);
    }
}
