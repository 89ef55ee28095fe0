//! The line a second that shows how a run goes.

use load::plan::Progress;
use model::result::PhaseName;

/// The line for a log: one a second, below one another.
pub fn plain_line(progress: &Progress) -> String {
    let mut parts = vec![
        format!("published {}/s", rate(progress.published_per_second)),
        format!("acknowledged {}/s", rate(progress.acknowledged_per_second)),
        format!("consumed {}/s", rate(progress.consumed_per_second)),
    ];
    if let Some(backlog) = progress.backlog_count {
        parts.push(format!("backlog {}", grouped(backlog)));
    }
    if let Some(p99_ns) = progress.p99_ns {
        parts.push(format!("p99 {}", span(p99_ns)));
    }
    if progress.failed_count > 0 {
        parts.push(format!("failed {}", grouped(progress.failed_count)));
    }
    format!("{} {}: {}", elapsed(progress), phase(progress), parts.join(", "))
}

/// The line for a terminal of so many columns: a bar of the time that has passed, then the figures, the weightiest first,
/// as far as there is room.
pub fn terminal_line(progress: &Progress, columns: usize) -> String {
    let mut line = String::new();
    let mut parts = vec![
        format!("{}{} {}", bar(progress), elapsed(progress), phase(progress)),
        format!("sent {}/s", rate(progress.published_per_second)),
        format!("acked {}/s", rate(progress.acknowledged_per_second)),
        format!("read {}/s", rate(progress.consumed_per_second)),
    ];
    if progress.failed_count > 0 {
        parts.insert(1, format!("FAILED {}", grouped(progress.failed_count)));
    }
    parts.extend(progress.p99_ns.map(|p99_ns| format!("p99 {}", span(p99_ns))));
    parts.extend(
        progress
            .backlog_count
            .map(|backlog| format!("backlog {}", grouped(backlog))),
    );
    for part in parts {
        let gap = if line.is_empty() { 0 } else { 2 };
        // The last column stays free, since some terminals wrap there.
        if line.chars().count() + gap + part.chars().count() >= columns {
            break;
        }
        line.push_str(&" ".repeat(gap));
        line.push_str(&part);
    }
    line
}

fn bar(progress: &Progress) -> String {
    const CELLS: u64 = 10;
    let Some(planned_ns) = progress.planned_ns.filter(|&planned_ns| planned_ns > 0) else {
        return String::new();
    };
    let passed = u128::from(progress.elapsed_ns.min(planned_ns)) * u128::from(CELLS) / u128::from(planned_ns);
    let passed = passed as usize;
    format!("[{}{}] ", "#".repeat(passed), ".".repeat(CELLS as usize - passed))
}

fn elapsed(progress: &Progress) -> String {
    let seconds = |ns: u64| ns / 1_000_000_000;
    match progress.planned_ns {
        Some(planned_ns) => format!(
            "{}/{} s",
            seconds(progress.elapsed_ns),
            planned_ns.div_ceil(1_000_000_000)
        ),
        None => format!("{} s", seconds(progress.elapsed_ns)),
    }
}

fn phase(progress: &Progress) -> &'static str {
    match progress.phase {
        Some(PhaseName::Prepare) | None => "prepare",
        Some(PhaseName::WarmUp) => "warm-up",
        Some(PhaseName::Measure) => "measure",
        Some(PhaseName::Stop) => "stop",
    }
}

/// A rate to the whole record, or to three digits where it is small.
fn rate(per_second: f64) -> String {
    match per_second {
        // Anything that is no number of records is shown as what it is.
        rate if !rate.is_finite() || rate < 0.0 => format!("{rate}"),
        rate if rate == 0.0 || rate >= 99.5 => grouped(rate.round() as u64),
        rate => format!("{rate:.1}"),
    }
}

/// Thousands set apart by commas.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A span of time with the unit that gives it one to three digits before the point.
fn span(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000_000 => (ns as f64 / 1e3, "µs"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    match value {
        value if value >= 100.0 => format!("{value:.0} {unit}"),
        value if value >= 10.0 => format!("{value:.1} {unit}"),
        value => format!("{value:.2} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress() -> Progress {
        Progress {
            phase: Some(PhaseName::Measure),
            elapsed_ns: 12_300_000_000,
            planned_ns: Some(35_000_000_000),
            published_per_second: 50_000.4,
            acknowledged_per_second: 49_998.0,
            consumed_per_second: 49_871.0,
            backlog_count: Some(1_234),
            failed_count: 0,
            p99_ns: Some(7_130_000),
        }
    }

    #[test]
    fn a_log_gets_every_figure() {
        assert_eq!(
            plain_line(&progress()),
            "12/35 s measure: published 50,000/s, acknowledged 49,998/s, consumed 49,871/s, backlog 1,234, p99 7.13 ms"
        );
    }

    #[test]
    fn what_was_not_measured_is_left_out() {
        let progress = Progress {
            planned_ns: None,
            backlog_count: None,
            p99_ns: None,
            ..progress()
        };
        assert_eq!(
            plain_line(&progress),
            "12 s measure: published 50,000/s, acknowledged 49,998/s, consumed 49,871/s"
        );
    }

    #[test]
    fn failures_are_told() {
        let progress = Progress {
            failed_count: 17,
            ..progress()
        };
        assert!(plain_line(&progress).ends_with(", failed 17"));
        assert!(terminal_line(&progress, 80).contains("FAILED 17"));
    }

    #[test]
    fn a_terminal_gets_what_it_has_room_for() {
        assert_eq!(
            terminal_line(&progress(), 110),
            "[###.......] 12/35 s measure  sent 50,000/s  acked 49,998/s  read 49,871/s  p99 7.13 ms  backlog 1,234"
        );
        assert_eq!(
            terminal_line(&progress(), 80),
            "[###.......] 12/35 s measure  sent 50,000/s  acked 49,998/s  read 49,871/s"
        );
        for columns in 0..120 {
            assert!(terminal_line(&progress(), columns).chars().count() < columns.max(1));
        }
    }
}
