//! What is expected of the figures, and whether they meet it.

use serde::Serialize;

use super::figures::{Figure, aligned, shown, significant};

/// A bound for one figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

/// One expectation. The numbers' unit is that of `figure`; a ratio has none.
#[derive(Debug, Serialize)]
pub struct Expectation {
    pub what: String,
    pub figure: Option<Figure>,
    pub bound: Bound,
    pub measured: Option<f64>,
    /// Absent where nothing was measured.
    pub met: Option<bool>,
}

impl Expectation {
    pub fn of(what: impl Into<String>, figure: Option<Figure>, bound: Bound, measured: Option<f64>) -> Self {
        let met = measured.map(|measured| match bound {
            Bound::AtLeast(least) => measured >= least,
            Bound::AtMost(most) => measured <= most,
        });
        Self {
            what: what.into(),
            figure,
            bound,
            measured,
            met,
        }
    }

    fn show(&self, value: f64) -> String {
        match self.figure {
            Some(Figure::PayloadBytesPerSecond) => format!("{} MB/s", significant(value / 1e6)),
            Some(Figure::RecordsPerSecond) => format!("{}/s", Figure::RecordsPerSecond.show(value)),
            Some(figure) => figure.show(value),
            None => significant(value),
        }
    }
}

/// All of them as a table, each with what was measured.
pub fn table(expectations: &[Expectation]) -> String {
    let mut lines = vec![["expected", "bound", "measured", ""].map(str::to_owned).to_vec()];
    for expectation in expectations {
        let bound = match expectation.bound {
            Bound::AtLeast(least) => format!("≥ {}", expectation.show(least)),
            Bound::AtMost(most) => format!("≤ {}", expectation.show(most)),
        };
        let met = match expectation.met {
            Some(true) => "met",
            Some(false) => "NOT MET",
            None => "not measured",
        };
        lines.push(vec![
            expectation.what.clone(),
            bound,
            shown(expectation.measured, |value| expectation.show(value)),
            met.to_owned(),
        ]);
    }
    aligned(&lines, 1)
}

/// How many are met, in a line.
pub fn summary(expectations: &[Expectation]) -> String {
    let count = |met: Option<bool>| {
        expectations
            .iter()
            .filter(|expectation| expectation.met == met)
            .count()
    };
    let mut summary = format!("{} of {} expectations met", count(Some(true)), expectations.len());
    let not_measured = count(None);
    if not_measured > 0 {
        summary.push_str(&format!(", {not_measured} not measured"));
    }
    summary
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_itself_is_met_and_what_was_not_measured_is_neither_met_nor_missed() {
        let met = |bound, measured| Expectation::of("x", None, bound, measured).met;
        assert_eq!(met(Bound::AtLeast(2.0), Some(2.0)), Some(true));
        assert_eq!(met(Bound::AtLeast(2.0), Some(1.9)), Some(false));
        assert_eq!(met(Bound::AtMost(0.1), Some(0.1)), Some(true));
        assert_eq!(met(Bound::AtMost(0.1), Some(0.11)), Some(false));
        assert_eq!(met(Bound::AtMost(0.1), None), None);
    }

    #[test]
    fn the_summary_counts_what_was_not_measured_apart() {
        let of = |measured| Expectation::of("x", None, Bound::AtLeast(1.0), measured);
        assert_eq!(
            summary(&[of(Some(2.0)), of(Some(0.5))]),
            "1 of 2 expectations met"
        );
        assert_eq!(
            summary(&[of(Some(2.0)), of(None)]),
            "1 of 2 expectations met, 1 not measured"
        );
    }

    #[test]
    fn each_line_names_bound_and_measure_in_one_unit() {
        let rate = Expectation::of(
            "rate",
            Some(Figure::RecordsPerSecond),
            Bound::AtLeast(5e6),
            Some(6_365_194.0),
        );
        let ratio = Expectation::of("ratio", None, Bound::AtMost(0.1), None);
        assert_eq!(
            table(&[rate, ratio]),
            "  expected       bound  measured
  rate      ≥ 5.00 M/s  6.37 M/s           met
  ratio        ≤ 0.100         -  not measured
"
        );
    }
}
