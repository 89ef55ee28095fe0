//! The answer, in one sentence: how fast, how slow in the tail, and whether that is what was asked for.

use model::result::{LimitedBy, Metric, RunResult, State, Totals, Verification};

use super::{Manner, is_complete, measured};
use crate::figures;
use crate::wrap::wrapped;

pub(super) fn section(result: &RunResult) -> String {
    let mut text = match measured(result) {
        Some(totals) => wrapped("", &format!("{}: {}", result.name, answer(result, totals))),
        None => wrapped("", &format!("{}: nothing was measured", result.name)),
    };
    if let Some(damage) = result.whole_run.verification.as_ref().and_then(damage) {
        text.push_str(&wrapped("", &damage));
    }
    if !is_complete(result) {
        let reason = result
            .status
            .reason
            .as_deref()
            .unwrap_or("it did not come to its end");
        let line = match result.status.state {
            State::Failed => format!("Failed: {reason}"),
            _ => format!("Partial: {reason}; the figures cover what ran"),
        };
        text.push_str(&wrapped("", &line));
    }
    text
}

fn answer(result: &RunResult, totals: &Totals) -> String {
    let manner = Manner::of(result);
    let mut parts = vec![if manner.produces {
        sent(result, totals, manner)
    } else {
        read(totals)
    }];
    if let Some(tail) = tail(result) {
        parts.push(tail);
    }
    let judged = judged(result, manner);
    let parts = parts.join(", ");
    if judged.is_empty() {
        parts
    } else {
        format!("{parts}: {judged}")
    }
}

/// The throughput that the brokers confirm, or, where they do not, what the clients believe.
fn sent(result: &RunResult, totals: &Totals, manner: Manner) -> String {
    let believed = if manner.acks_0 {
        "written, none acknowledged (acks=0)"
    } else {
        "acknowledged"
    };
    let (rate, what) = match (totals.confirmed_per_second, totals.acknowledged_per_second) {
        (Some(confirmed), _) if manner.acks_0 => {
            (confirmed, "confirmed by the brokers, none acknowledged (acks=0)")
        }
        (Some(confirmed), _) => (confirmed, "confirmed by the brokers"),
        (None, Some(rate)) => (rate, believed),
        (None, None) => return format!("no rate was measured, {believed}"),
    };
    let planned = planned_per_second(result, totals).filter(|planned| rate < planned * 0.995);
    let of_planned = planned
        .map(|planned| format!(" of {}", figures::number(planned)))
        .unwrap_or_default();
    let bytes_per_record = totals
        .payload_bytes_per_second
        .zip(totals.acknowledged_per_second)
        .filter(|(_, records)| *records > 0.0)
        .map(|(bytes, records)| bytes / records);
    let bytes = bytes_per_record
        .map(|bytes| format!(", {}/s", figures::bytes(bytes * rate)))
        .unwrap_or_default();
    format!("{}{of_planned} records/s{bytes} {what}", figures::number(rate))
}

/// The rate that was asked for over the measured phase, from the records that were due in it.
fn planned_per_second(result: &RunResult, totals: &Totals) -> Option<f64> {
    let seconds = result.measured()?.duration_ns() as f64 / 1e9;
    (seconds > 0.0).then_some(totals.due_count? as f64 / seconds)
}

fn read(totals: &Totals) -> String {
    let rates: Vec<f64> = totals
        .consumed
        .iter()
        .filter_map(|group| group.records_per_second)
        .collect();
    let seconds_of =
        |group: &model::result::Consumed| Some(group.records_count as f64 / group.records_per_second?);
    let bytes: Option<f64> = totals
        .consumed
        .iter()
        .map(|group| Some(group.payload_bytes? as f64 / seconds_of(group).filter(|seconds| *seconds > 0.0)?))
        .sum();
    let bytes = bytes
        .filter(|bytes| *bytes > 0.0)
        .map(|bytes| format!(", {}/s", figures::bytes(bytes)));
    if rates.is_empty() {
        return "nothing was consumed".to_owned();
    }
    format!(
        "{} records/s{} consumed",
        figures::number(rates.iter().sum()),
        bytes.unwrap_or_default()
    )
}

/// The tail of what an application feels, or of the nearest thing to it that was measured.
fn tail(result: &RunResult) -> Option<String> {
    let phase = result.measured()?;
    [
        (Metric::Response, "response"),
        (Metric::Service, "service"),
        (Metric::EndToEnd, "end-to-end"),
    ]
    .into_iter()
    .find_map(|(metric, name)| Some((phase.latency(metric)?, name)))
    .map(|(summary, name)| format!("{name} p99 {}", figures::time(summary.p99_ns)))
}

fn judged(result: &RunResult, manner: Manner) -> String {
    let Some(verdict) = &result.verdict else {
        return String::new();
    };
    let limit = super::verdict::limit_words(verdict.limited_by);
    match (verdict.sustained, verdict.limited_by) {
        (Some(true), _) => "sustained".to_owned(),
        (Some(false), LimitedBy::Nothing | LimitedBy::Unknown) => "not sustained".to_owned(),
        (Some(false), _) => format!("not sustained, {limit}"),
        (None, LimitedBy::Nothing) => String::new(),
        (None, LimitedBy::Unknown) if manner.closed_loop => format!("as fast as it went, {limit}"),
        (None, LimitedBy::Unknown) => limit.to_owned(),
        (None, _) if manner.closed_loop => format!("as fast as it went, {limit}"),
        (None, _) => super::verdict::words(result, verdict),
    }
}

fn damage(found: &Verification) -> Option<String> {
    let kinds = [
        (found.lost_count.unwrap_or(0), "lost"),
        (found.duplicated_count, "duplicated"),
        (found.reordered_count, "reordered"),
        (found.corrupt_count, "corrupt"),
    ];
    let told: Vec<String> = kinds
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, kind)| format!("{} {kind}", figures::count(*count)))
        .collect();
    (!told.is_empty()).then(|| format!("Records were damaged: {}.", told.join(", ")))
}
