//! The verdict with the figures it rests on.

use model::result::{LimitedBy, RunResult, Verdict};

use crate::figures;
use crate::wrap::wrapped;

/// What held the run back, as the end of a sentence.
pub(super) fn limit_words(limited_by: LimitedBy) -> &'static str {
    match limited_by {
        LimitedBy::Generator => "limited by the load generator",
        LimitedBy::Quota => "limited by a client quota",
        LimitedBy::Cluster => "limited by the cluster",
        LimitedBy::Nothing => "limited by nothing but the rate asked for",
        LimitedBy::Unknown => "limited by what cannot be told",
    }
}

/// The judgement in words. A rate that was reached was not limited: what then is not the cluster's is in the latencies.
pub(super) fn words(result: &RunResult, verdict: &Verdict) -> String {
    let limit = limit_words(verdict.limited_by);
    match (verdict.sustained, verdict.limited_by) {
        (Some(true), _) => format!("sustained, {limit}"),
        (Some(false), _) => format!("not sustained, {limit}"),
        (None, LimitedBy::Generator) if rate_was_reached(result) => {
            "rate reached, latencies disturbed by the load generator".to_owned()
        }
        (None, LimitedBy::Quota) if rate_was_reached(result) => {
            "rate reached, latencies disturbed by a client quota".to_owned()
        }
        (None, _) => limit.to_owned(),
    }
}

/// Whether all but one in two hundred of the records that were due were acknowledged (or written, with acks=0).
fn rate_was_reached(result: &RunResult) -> bool {
    let totals = result.measured().and_then(|phase| phase.totals.as_ref());
    totals.is_some_and(|totals| {
        let done = totals.acknowledged_count.or(totals.written_count).unwrap_or(0);
        totals
            .due_count
            .is_some_and(|due| due > 0 && done as f64 >= due as f64 * 0.995)
    })
}

/// What became of each term of the objectives.
pub(super) fn objectives(result: &RunResult) -> String {
    if result.objectives.is_empty() {
        return String::new();
    }
    let mut text = String::from("Objectives\n");
    for outcome in &result.objectives {
        let measured = match (outcome.measured, outcome.unit.as_str()) {
            (None, _) => "not measured".to_owned(),
            (Some(ns), "ns") => figures::time(ns as u64),
            (Some(share), "ratio") => format!("{:.3} %", share * 100.0),
            (Some(count), _) => figures::count(count as u64),
        };
        let word = if outcome.kept { "kept" } else { "missed" };
        text.push_str(&format!("  {word:<8}{:<36}{measured}\n", outcome.objective));
    }
    text
}

pub(super) fn section(result: &RunResult) -> String {
    let Some(verdict) = &result.verdict else {
        return String::new();
    };
    let mut text = wrapped("Verdict   ", &words(result, verdict));
    for evidence in &verdict.evidence {
        text.push_str(&wrapped("  - ", &evidence.text));
    }
    text
}
