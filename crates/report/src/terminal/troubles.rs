//! Errors by kind, warnings, settings without effect, and what stays on the cluster.

use model::result::RunResult;

use crate::figures;
use crate::wrap::wrapped;

/// Names listed one by one; of more, their number is told.
const MOST_NAMES: usize = 5;

pub(super) fn errors(result: &RunResult) -> String {
    if result.errors.is_empty() {
        return String::new();
    }
    let mut text = "Errors\n".to_owned();
    for error in &result.errors {
        let broker = error
            .broker
            .map(|broker| format!(" at broker {broker}"))
            .unwrap_or_default();
        let records = error
            .records_count
            .map(|count| format!(", {} records failed", figures::count(count)));
        let head = format!(
            "{} × {}{}, first{broker} after {}",
            figures::count(error.count),
            error.kind,
            records.unwrap_or_default(),
            figures::length(error.first_at_ns)
        );
        text.push_str(&wrapped("  ", &head));
        text.push_str(&wrapped("    ", &error.message));
        if let Some(hint) = &error.hint {
            text.push_str(&wrapped("    hint: ", hint));
        }
    }
    text
}

pub(super) fn warnings(result: &RunResult) -> String {
    let mut text = String::new();
    for warning in &result.warnings {
        text.push_str(&wrapped("  ", &warning.text));
    }
    for entry in &result.target.not_honoured {
        text.push_str(&wrapped(
            "  ",
            &format!("{} has no effect: {}", entry.name, entry.why),
        ));
    }
    if text.is_empty() {
        text
    } else {
        format!("Warnings\n{text}")
    }
}

/// Topics and groups of the run's own that are still there, with the commands that remove them.
pub(super) fn left_behind(result: &RunResult) -> String {
    let topics: Vec<&str> = result
        .topics
        .iter()
        .filter(|topic| topic.created_by_us && topic.kept)
        .map(|topic| topic.name.as_str())
        .collect();
    let groups: Vec<&str> = result
        .groups
        .iter()
        .filter(|group| group.created_by_us && group.kept)
        .map(|group| group.name.as_str())
        .collect();
    let mut text = String::new();
    if !topics.is_empty() {
        text.push_str(&wrapped("Kept      ", &format!("topics {}", listed(&topics))));
        let servers = result.target.bootstrap_servers.join(",");
        let delete = format!(
            "plimsoll topics delete --bootstrap-server {servers} {}",
            topics.join(" ")
        );
        text.push_str(&wrapped("  remove  ", &delete));
    }
    if !groups.is_empty() {
        text.push_str(&wrapped("Kept      ", &format!("groups {}", listed(&groups))));
    }
    text
}

fn listed(names: &[&str]) -> String {
    let shown = names
        .iter()
        .take(MOST_NAMES)
        .copied()
        .collect::<Vec<_>>()
        .join(", ");
    if names.len() > MOST_NAMES {
        format!("{shown} and {} more", names.len() - MOST_NAMES)
    } else {
        shown
    }
}
