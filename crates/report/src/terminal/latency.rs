//! The latencies of the measured phase, one row a metric.

use model::result::{ClockDomain, LatencySummary, Metric, RunResult};

use super::Manner;
use crate::figures;
use crate::wrap::wrapped;

const LABEL: usize = 16;
const COLUMN: usize = 10;
const COUNT: usize = 14;

const ROWS: [(Metric, &str); 7] = [
    (Metric::Response, "response"),
    (Metric::Queue, "queue"),
    (Metric::Service, "service"),
    (Metric::EndToEnd, "end-to-end"),
    (Metric::ScheduleLag, "schedule lag"),
    (Metric::Commit, "commit"),
    (Metric::Abort, "abort"),
];

/// From this part of the time on a full send buffer is worth a word beside the queue time.
const BUFFER_FULL_RATIO: f64 = 0.5;

pub(super) fn section(result: &RunResult) -> String {
    let Some(phase) = result.measured().filter(|phase| phase.totals.is_some()) else {
        return String::new();
    };
    let manner = Manner::of(result);
    let mut text = format!("{:<LABEL$}", "Latency");
    for column in ["p50", "p95", "p99", "p99.9", "max"] {
        text.push_str(&format!("{column:>COLUMN$}"));
    }
    text.push_str(&format!("{:>COUNT$}\n", "count"));
    let mut is_thin = false;
    for (metric, name) in ROWS {
        match phase.latency(metric) {
            Some(summary) => {
                text.push_str(&row(name, summary));
                is_thin |= summary.count < fewest_samples(0.999);
            }
            // Where there are no transactions, nothing is missing.
            None if matches!(metric, Metric::Commit | Metric::Abort) => {}
            None => {
                let dash = format!("  {name:<14}{:>COLUMN$}", "–");
                text.push_str(&format!("{dash}  {}\n", why_absent(metric, manner)).replace("  \n", "\n"));
            }
        }
    }
    if is_thin {
        text.push_str(&wrapped(
            "  ",
            "> : so few values that the percentile may lie above their maximum",
        ));
    }
    for note in notes(result, phase) {
        text.push_str(&wrapped("  ", &note));
    }
    text
}

fn row(name: &str, summary: &LatencySummary) -> String {
    let mut text = format!("  {name:<14}");
    let percentiles = [
        (0.5, summary.p50_ns),
        (0.95, summary.p95_ns),
        (0.99, summary.p99_ns),
        (0.999, summary.p99_9_ns),
    ];
    for (quantile, ns) in percentiles {
        let shown = if summary.count < fewest_samples(quantile) {
            format!(">{}", figures::time(summary.max_ns))
        } else {
            figures::time(ns)
        };
        text.push_str(&format!("{shown:>COLUMN$}"));
    }
    text.push_str(&format!(
        "{:>COLUMN$}{:>COUNT$}\n",
        figures::time(summary.max_ns),
        figures::count(summary.count)
    ));
    text
}

/// The fewest values whose maximum is, with 97.5 % confidence, not below the quantile q: the maximum of n lies below it
/// with probability q^n, so n ≥ ln 0.025 / ln q; 368 for the 99th percentile.
fn fewest_samples(quantile: f64) -> u64 {
    (0.025_f64.ln() / quantile.ln()).ceil() as u64
}

fn why_absent(metric: Metric, manner: Manner) -> &'static str {
    match metric {
        Metric::EndToEnd if !manner.consumes => "nothing was read back",
        Metric::EndToEnd if !manner.produces => "the sender's due times are not known; see --run-id",
        Metric::EndToEnd => "the records carry no due time",
        _ if !manner.produces => "nothing was produced",
        Metric::Response | Metric::Service if manner.acks_0 => "no broker ack (acks=0)",
        Metric::Response | Metric::ScheduleLag if manner.closed_loop => "no due times at rate max",
        _ => "no record came so far",
    }
}

fn notes(result: &RunResult, phase: &model::result::Phase) -> Vec<String> {
    let mut notes = Vec::new();
    let censored = phase
        .latency(Metric::Response)
        .and_then(|summary| Some((summary.censored_count?, summary.count)));
    if let Some((censored, count)) = censored.filter(|(censored, _)| *censored > 0) {
        notes.push(format!(
            "response: {} of {} values are ages of records not sent or not finished when the phase ended; their true \
             values are higher",
            figures::count(censored),
            figures::count(count)
        ));
    }
    let buffer_full = result
        .generator
        .as_ref()
        .and_then(|generator| generator.buffer_full_ratio);
    if let Some(ratio) = buffer_full.filter(|ratio| *ratio >= BUFFER_FULL_RATIO) {
        let medians = match (phase.latency(Metric::Queue), phase.latency(Metric::Service)) {
            (Some(queue), Some(service)) => format!(
                " (median {} there, {} in network and broker)",
                figures::time(queue.p50_ns),
                figures::time(service.p50_ns)
            ),
            _ => String::new(),
        };
        notes.push(format!(
            "queue: the send buffer was full {} of the time, so this is time spent waiting in the producer{medians}, not \
             the cluster's latency",
            figures::percent(ratio)
        ));
    }
    if let (Some(clocks), Some(_)) = (result.clocks, phase.latency(Metric::EndToEnd)) {
        let bound = clocks.bound_ns.map_or("an unknown error".to_owned(), |ns| {
            format!("± {}", figures::time(ns))
        });
        notes.push(match (result.clock_domain, clocks.wall_offset_ns) {
            (ClockDomain::Compared, Some(offset_ns)) => {
                let way = if offset_ns < 0 { "behind" } else { "ahead of" };
                format!(
                    "end-to-end: exact to {bound}, by {} exchanges with the run that sends; this host's wall clock is {} {way} \
                     the sender's, which is taken into account",
                    figures::count(clocks.exchanges_count),
                    figures::time(offset_ns.unsigned_abs())
                )
            }
            _ => "end-to-end: not valid, since the clock of the run that sends is not known".to_owned(),
        });
    }
    if phase.short {
        notes.push(format!(
            "short: measured for {} only, and a steady state takes 60 s or more to be seen",
            figures::length(phase.duration_ns())
        ));
    }
    notes
}
