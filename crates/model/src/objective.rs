//! Objectives: what a run has to keep, in a small language.
//!
//! `p99 < 20ms, end-to-end p99.9 < 100ms, backlog < 1s, errors = 0, achieved >= 99.5%`: terms with commas between them, each
//! a quantity, a comparison and a value.
//!
//! | quantity | of what | value |
//! |---|---|---|
//! | `p50`, `p95`, `p99`, `p99.9`, `p99.99`, `max`, `mean` | response time; with `service`, `queue`, `schedule-lag`, `end-to-end` or `commit` before it, of that | a duration such as `20ms` |
//! | `backlog` | the largest number of records acknowledged and not yet consumed, of the group that is furthest behind | records, or a duration: the records that are produced in it |
//! | `errors` | records refused, unknown or unfinished | a number of records, or a share such as `0.01%` |
//! | `achieved` | records acknowledged of those that were due | a share such as `99.5%` |
//!
//! All are of the measured phase. What was not measured is not kept: an objective is met by figures alone.

use crate::result::{LatencySummary, Metric, ObjectiveOutcome, Phase};
use crate::spelling::likely_meant;
use crate::units::parse_duration;
use std::fmt;
use std::time::Duration;

/// A list of terms, all of which have to be kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Objectives(Vec<Objective>);

/// One term.
#[derive(Clone, Debug, PartialEq)]
pub struct Objective {
    /// As it was written.
    pub text: String,
    /// What is compared.
    pub quantity: Quantity,
    /// How.
    pub comparison: Comparison,
    /// With what.
    pub value: ObjectiveValue,
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// A place of a latency's distribution.
    Latency(Metric, Place),
    /// The largest backlog.
    Backlog,
    /// Records that failed.
    Errors,
    /// Records acknowledged of those due.
    Achieved,
}

/// A place of a distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The median.
    P50,
    /// The 95th percentile.
    P95,
    /// The 99th percentile.
    P99,
    /// The 99.9th percentile.
    P99_9,
    /// The 99.99th percentile.
    P99_99,
    /// The largest value.
    Max,
    /// The arithmetic mean.
    Mean,
}

/// How it is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `<`
    Below,
    /// `<=`
    AtMost,
    /// `=`
    Equal,
    /// `>=`
    AtLeast,
    /// `>`
    Above,
}

/// What it is compared with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ObjectiveValue {
    /// A length of time.
    Time(Duration),
    /// A number of records.
    Count(f64),
    /// A share, 1 being all.
    Share(f64),
}

/// What is wrong with a text, and where in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectiveError {
    /// The term.
    pub term: String,
    /// What is wrong, and what is allowed.
    pub problem: String,
}

impl fmt::Display for ObjectiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\": {}", self.term, self.problem)
    }
}

impl std::error::Error for ObjectiveError {}

const PLACES: [(&str, Place); 7] = [
    ("p50", Place::P50),
    ("p95", Place::P95),
    ("p99", Place::P99),
    ("p99.9", Place::P99_9),
    ("p99.99", Place::P99_99),
    ("max", Place::Max),
    ("mean", Place::Mean),
];
const METRICS: [(&str, Metric); 6] = [
    ("response", Metric::Response),
    ("service", Metric::Service),
    ("queue", Metric::Queue),
    ("schedule-lag", Metric::ScheduleLag),
    ("end-to-end", Metric::EndToEnd),
    ("commit", Metric::Commit),
];
const COMPARISONS: [(&str, Comparison); 6] = [
    ("<=", Comparison::AtMost),
    (">=", Comparison::AtLeast),
    ("==", Comparison::Equal),
    ("<", Comparison::Below),
    (">", Comparison::Above),
    ("=", Comparison::Equal),
];

impl Objectives {
    /// Reads a list of terms.
    ///
    /// # Errors
    /// The first term that cannot be read: what is wrong with it, and what is allowed.
    pub fn parse(text: &str) -> Result<Objectives, ObjectiveError> {
        let terms: Vec<&str> = text.split(',').map(str::trim).collect();
        if let [""] = terms[..] {
            return Err(ObjectiveError {
                term: text.to_owned(),
                problem: "an objective is needed, such as p99 < 20ms".to_owned(),
            });
        }
        let read = |term: &str| {
            Objective::parse(term).map_err(|problem| ObjectiveError {
                term: term.to_owned(),
                problem,
            })
        };
        terms
            .into_iter()
            .map(read)
            .collect::<Result<_, _>>()
            .map(Objectives)
    }

    /// The terms.
    pub fn terms(&self) -> &[Objective] {
        &self.0
    }

    /// What the 99th percentile of response time is to be at most, if a term says so.
    pub fn response_p99(&self) -> Option<Duration> {
        self.0.iter().find_map(|term| match term.value {
            ObjectiveValue::Time(time) => term.is_of_response_p99().then_some(time),
            ObjectiveValue::Count(_) | ObjectiveValue::Share(_) => None,
        })
    }

    /// Holds all terms against a phase.
    pub fn hold_against(&self, phase: &Phase) -> Vec<ObjectiveOutcome> {
        self.0.iter().map(|term| term.hold_against(phase)).collect()
    }
}

impl Objective {
    fn parse(term: &str) -> Result<Objective, String> {
        let at = COMPARISONS
            .iter()
            .filter_map(|(sign, comparison)| term.find(sign).map(|at| (at, *sign, *comparison)))
            .min_by_key(|(at, sign, _)| (*at, std::cmp::Reverse(sign.len())));
        let Some((at, sign, comparison)) = at else {
            return Err("a comparison is missing: one of <, <=, =, >=, >, as in p99 < 20ms".to_owned());
        };
        let (left, right) = (term[..at].trim(), term[at + sign.len()..].trim());
        if right.is_empty() {
            return Err(format!("a value is missing behind {sign}"));
        }
        let quantity = quantity(left)?;
        let value = value(quantity, right)?;
        Ok(Objective {
            text: term.to_owned(),
            quantity,
            comparison,
            value,
        })
    }

    /// Whether it says how large the 99th percentile of response time may be.
    pub fn is_of_response_p99(&self) -> bool {
        self.quantity == Quantity::Latency(Metric::Response, Place::P99)
            && matches!(self.comparison, Comparison::Below | Comparison::AtMost)
    }

    fn hold_against(&self, phase: &Phase) -> ObjectiveOutcome {
        let measured = self.measure(phase);
        let wanted = match self.value {
            ObjectiveValue::Time(time) => time.as_nanos() as f64,
            ObjectiveValue::Count(count) => count,
            ObjectiveValue::Share(share) => share,
        };
        let is_kept = measured.is_some_and(|measured| match self.comparison {
            Comparison::Below => measured < wanted,
            Comparison::AtMost => measured <= wanted,
            Comparison::Equal => measured == wanted,
            Comparison::AtLeast => measured >= wanted,
            Comparison::Above => measured > wanted,
        });
        let unit = match self.value {
            ObjectiveValue::Time(_) => "ns",
            ObjectiveValue::Count(_) => "records",
            ObjectiveValue::Share(_) => "ratio",
        };
        ObjectiveOutcome {
            objective: self.text.clone(),
            measured,
            unit: unit.to_owned(),
            kept: is_kept,
        }
    }

    /// In ns, records or a share, as the value is.
    fn measure(&self, phase: &Phase) -> Option<f64> {
        let totals = phase.totals.as_ref()?;
        match self.quantity {
            Quantity::Latency(metric, place) => {
                let found = phase.latencies.iter().find(|found| found.metric == metric)?;
                (found.count > 0).then(|| place.of(found))
            }
            Quantity::Backlog => {
                let records = phase.backlog_max_count? as f64;
                match self.value {
                    ObjectiveValue::Time(_) => {
                        let per_second = totals.acknowledged_per_second.filter(|rate| *rate > 0.0)?;
                        Some(records / per_second * 1e9)
                    }
                    _ => Some(records),
                }
            }
            Quantity::Errors => {
                let failed = (totals.refused_count + totals.unknown_count + totals.unfinished_count) as f64;
                match self.value {
                    ObjectiveValue::Share(_) => {
                        (totals.sent_count > 0).then(|| failed / totals.sent_count as f64)
                    }
                    _ => Some(failed),
                }
            }
            Quantity::Achieved => {
                let due = totals.due_count.filter(|due| *due > 0)? as f64;
                let done = totals.acknowledged_count.or(totals.written_count)? as f64;
                Some(done / due)
            }
        }
    }
}

impl Place {
    fn of(self, found: &LatencySummary) -> f64 {
        let ns = match self {
            Place::P50 => found.p50_ns,
            Place::P95 => found.p95_ns,
            Place::P99 => found.p99_ns,
            Place::P99_9 => found.p99_9_ns,
            Place::P99_99 => found.p99_99_ns,
            Place::Max => found.max_ns,
            Place::Mean => return found.mean_ns,
        };
        ns as f64
    }
}

fn quantity(text: &str) -> Result<Quantity, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let place = |word: &str| {
        PLACES
            .iter()
            .find(|(name, _)| *name == word)
            .map(|(_, place)| *place)
    };
    let metric = |word: &str| {
        METRICS
            .iter()
            .find(|(name, _)| *name == word)
            .map(|(_, metric)| *metric)
    };
    match words[..] {
        ["backlog"] => return Ok(Quantity::Backlog),
        ["errors"] => return Ok(Quantity::Errors),
        ["achieved"] => return Ok(Quantity::Achieved),
        [at] => {
            if let Some(place) = place(at) {
                return Ok(Quantity::Latency(Metric::Response, place));
            }
            if metric(at).is_some() {
                return Err(format!(
                    "which part of {at} is meant? one of p50, p95, p99, p99.9, p99.99, max, mean, as in {at} p99"
                ));
            }
        }
        [of, at] => match (metric(of), place(at)) {
            (Some(metric), Some(place)) => return Ok(Quantity::Latency(metric, place)),
            (Some(_), None) => {
                return Err(format!("{at} is none of p50, p95, p99, p99.9, p99.99, max, mean"));
            }
            _ => {}
        },
        _ => {}
    }
    let known: Vec<&str> = PLACES
        .iter()
        .map(|(name, _)| *name)
        .chain(METRICS.iter().map(|(name, _)| *name))
        .chain(["backlog", "errors", "achieved"])
        .collect();
    let unknown = words
        .iter()
        .find(|word| !known.contains(word))
        .copied()
        .unwrap_or(text);
    let hint = match likely_meant(unknown, known.iter().copied()) {
        Some(near) => format!("; did you mean {near}?"),
        None => ".".to_owned(),
    };
    Err(format!(
        "{unknown} is not known{hint} Allowed: p50, p95, p99, p99.9, p99.99, max or mean, with response, service, queue, schedule-lag, \
         end-to-end or commit before it; backlog; errors; achieved"
    ))
}

fn value(quantity: Quantity, text: &str) -> Result<ObjectiveValue, String> {
    let share = || -> Result<ObjectiveValue, String> {
        let number = text.trim_end_matches('%').trim();
        match number.parse::<f64>() {
            Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(ObjectiveValue::Share(percent / 100.0)),
            _ => Err(format!("{text} is no share from 0% to 100%")),
        }
    };
    let count = || -> Result<ObjectiveValue, String> {
        match text.parse::<f64>() {
            Ok(count) if count >= 0.0 && count.is_finite() => Ok(ObjectiveValue::Count(count)),
            _ => Err(format!("{text} is no number of records")),
        }
    };
    let time = || match parse_duration(text) {
        Ok(time) => Ok(ObjectiveValue::Time(time)),
        Err(error) => Err(error.to_string()),
    };
    let is_plain = text.chars().all(|c| c.is_ascii_digit() || c == '.');
    match quantity {
        Quantity::Latency(..) => time(),
        Quantity::Backlog if is_plain => count(),
        Quantity::Backlog => time(),
        Quantity::Errors if text.ends_with('%') => share(),
        Quantity::Errors => count(),
        Quantity::Achieved if text.ends_with('%') => share(),
        Quantity::Achieved => Err(format!("{text} is no share such as 99.5%")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{PhaseName, Totals};

    fn phase() -> Phase {
        let latency = |metric, p99_ns| LatencySummary {
            metric,
            count: 1000,
            min_ns: 1,
            p50_ns: p99_ns / 4,
            p95_ns: p99_ns / 2,
            p99_ns,
            p99_9_ns: p99_ns * 2,
            p99_99_ns: p99_ns * 3,
            max_ns: p99_ns * 4,
            mean_ns: p99_ns as f64 / 3.0,
            censored_count: None,
            negative_count: None,
        };
        Phase {
            name: PhaseName::Measure,
            start_ns: 0,
            end_ns: 10_000_000_000,
            short: true,
            totals: Some(Totals {
                due_count: Some(10_000),
                sent_count: 9_990,
                acknowledged_count: Some(9_980),
                refused_count: 6,
                unknown_count: 4,
                acknowledged_per_second: Some(998.0),
                ..Totals::default()
            }),
            latencies: vec![
                latency(Metric::Response, 20_000_000),
                latency(Metric::EndToEnd, 40_000_000),
            ],
            batching: None,
            backlog_max_count: Some(499),
        }
    }

    #[test]
    fn terms_are_held_against_what_was_measured() {
        for (term, measured, unit, kept) in [
            ("p99 < 20ms", Some(20e6), "ns", false),
            ("p99 <= 20ms", Some(20e6), "ns", true),
            ("response p50 < 5.1ms", Some(5e6), "ns", true),
            ("end-to-end p99.9 < 100ms", Some(80e6), "ns", true),
            ("end-to-end max<100ms", Some(160e6), "ns", false),
            ("service p99 < 1h", None, "ns", false),
            ("backlog < 500", Some(499.0), "records", true),
            ("backlog < 1s", Some(5e8), "ns", true),
            ("backlog < 400ms", Some(5e8), "ns", false),
            ("errors = 0", Some(10.0), "records", false),
            ("errors <= 10", Some(10.0), "records", true),
            ("errors < 0.2%", Some(10.0 / 9_990.0), "ratio", true),
            ("achieved >= 99.5%", Some(0.998), "ratio", true),
            ("achieved >= 99.9%", Some(0.998), "ratio", false),
        ] {
            let objectives = Objectives::parse(term).expect(term);
            let found = objectives.hold_against(&phase());
            assert_eq!(
                found,
                [ObjectiveOutcome {
                    objective: term.to_owned(),
                    measured,
                    unit: unit.to_owned(),
                    kept
                }],
                "{term}"
            );
        }
    }

    #[test]
    fn a_list_has_its_terms_in_order_and_gives_the_bound_of_response_time() {
        let objectives = Objectives::parse(" backlog < 1s ,p99 < 20ms, errors = 0").expect("a list");
        let texts: Vec<&str> = objectives.terms().iter().map(|term| term.text.as_str()).collect();
        assert_eq!(texts, ["backlog < 1s", "p99 < 20ms", "errors = 0"]);
        assert_eq!(objectives.response_p99(), Some(Duration::from_millis(20)));
        let others = Objectives::parse("end-to-end p99 < 20ms, p99 > 1ms").expect("a list");
        assert_eq!(others.response_p99(), None);
    }

    #[test]
    fn what_is_wrong_is_told_with_what_is_allowed() {
        for (text, expected) in [
            ("", "an objective is needed"),
            ("p99", "a comparison is missing"),
            ("p99 <", "a value is missing"),
            ("p99 < 20", "20s"),
            ("p98 < 20ms", "did you mean p95?"),
            ("serivce p99 < 20ms", "did you mean service?"),
            ("service < 20ms", "which part of service"),
            ("service p97 < 20ms", "p97 is none of p50"),
            ("latency p99 < 20ms", "latency is not known"),
            ("achieved >= 100", "no share such as 99.5%"),
            ("achieved >= 130%", "no share from 0% to 100%"),
            ("errors < many", "no number of records"),
            ("p99 < 20ms,, errors = 0", "a comparison is missing"),
        ] {
            let error = Objectives::parse(text).expect_err(text);
            assert!(error.problem.contains(expected), "{text}: {error}");
        }
    }
}
