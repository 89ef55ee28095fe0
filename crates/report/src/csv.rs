//! The result as CSV: one row a run, for tables over many runs, and one row a partition.
//!
//! RFC 4180: commas, line feeds after each row, quotes where a text needs them. What was not measured is an empty field.

use model::result::{LatencySummary, Metric, RunResult};

/// A column of a latency: its name and its value.
type Quantile = (&'static str, fn(&LatencySummary) -> u64);

/// A header and one row with the figures of the measured phase.
pub fn summary(result: &RunResult) -> String {
    let phase = result.measured();
    let totals = phase.and_then(|phase| phase.totals.as_ref());
    let setting = |key: &str| {
        result
            .workload
            .get(key)
            .map(|setting| setting.value.clone())
            .unwrap_or_default()
    };
    let property = |key: &str| {
        result
            .target
            .producer
            .get(key)
            .map(|setting| setting.value.clone())
            .unwrap_or_default()
    };
    let verification = totals.and_then(|totals| totals.verification);
    let mut columns: Vec<(&str, String)> = vec![
        ("run_id", result.run_id.clone()),
        ("name", result.name.clone()),
        ("started_at", result.started_at.clone()),
        ("state", word(&result.status.state)),
        ("topics", setting("topics")),
        ("partitions_per_topic", setting("partitionsPerTopic")),
        ("message_size_bytes", setting("messageSize")),
        ("producers_per_topic", setting("producersPerTopic")),
        ("subscriptions_per_topic", setting("subscriptionsPerTopic")),
        ("producer_rate", setting("producerRate")),
        ("acks", property("acks")),
        ("compression_type", property("compression.type")),
        ("batch_size_bytes", property("batch.size")),
        ("linger_ms", property("linger.ms")),
        ("duration_ns", optional(phase.map(|phase| phase.duration_ns()))),
        ("due_count", optional(totals.and_then(|t| t.due_count))),
        ("unsent_count", optional(totals.and_then(|t| t.unsent_count))),
        ("sent_count", optional(totals.map(|t| t.sent_count))),
        (
            "acknowledged_count",
            optional(totals.and_then(|t| t.acknowledged_count)),
        ),
        ("refused_count", optional(totals.map(|t| t.refused_count))),
        ("unknown_count", optional(totals.map(|t| t.unknown_count))),
        ("unfinished_count", optional(totals.map(|t| t.unfinished_count))),
        (
            "confirmed_count",
            optional(totals.and_then(|t| t.confirmed_count)),
        ),
        (
            "consumed_count",
            optional(totals.map(|t| t.consumed.iter().map(|group| group.records_count).sum::<u64>())),
        ),
        ("lost_count", optional(verification.and_then(|v| v.lost_count))),
        (
            "duplicated_count",
            optional(verification.map(|v| v.duplicated_count)),
        ),
        (
            "reordered_count",
            optional(verification.map(|v| v.reordered_count)),
        ),
        ("corrupt_count", optional(verification.map(|v| v.corrupt_count))),
        ("foreign_count", optional(verification.map(|v| v.foreign_count))),
        (
            "acknowledged_per_second",
            optional(totals.and_then(|t| t.acknowledged_per_second)),
        ),
        (
            "payload_bytes_per_second",
            optional(totals.and_then(|t| t.payload_bytes_per_second)),
        ),
    ];
    let quantiles: [Quantile; 5] = [
        ("p50_ns", |summary| summary.p50_ns),
        ("p95_ns", |summary| summary.p95_ns),
        ("p99_ns", |summary| summary.p99_ns),
        ("p99_9_ns", |summary| summary.p99_9_ns),
        ("max_ns", |summary| summary.max_ns),
    ];
    let metrics = [
        Metric::Response,
        Metric::Queue,
        Metric::Service,
        Metric::EndToEnd,
        Metric::ScheduleLag,
    ];
    let mut latencies: Vec<(String, String)> = Vec::new();
    for metric in metrics {
        let summary = phase.and_then(|phase| phase.latency(metric));
        for (name, pick) in quantiles {
            latencies.push((format!("{}_{name}", word(&metric)), optional(summary.map(pick))));
        }
    }
    columns.extend(
        latencies
            .iter()
            .map(|(name, value)| (name.as_str(), value.clone())),
    );
    let batching = phase.and_then(|phase| phase.batching);
    let generator = result.generator.as_ref();
    let transactions = totals.and_then(|totals| totals.transactions);
    let commit = phase.and_then(|phase| phase.latency(Metric::Commit));
    columns.extend([
        (
            "average_batch_bytes",
            optional(batching.and_then(|b| b.average_batch_bytes)),
        ),
        (
            "requests_per_second",
            optional(batching.and_then(|b| b.requests_per_second)),
        ),
        (
            "compression_ratio",
            optional(batching.and_then(|b| b.compression_ratio)),
        ),
        (
            "skew_max_over_mean_ratio",
            optional(result.skew.map(|skew| skew.max_over_mean_ratio)),
        ),
        (
            "generator_cpu_seconds_per_million_records",
            optional(generator.and_then(|g| g.cpu_seconds_per_million_records)),
        ),
        ("throttle_ns", optional(generator.and_then(|g| g.throttle_ns))),
        (
            "sustained",
            optional(result.verdict.as_ref().and_then(|verdict| verdict.sustained)),
        ),
        (
            "limited_by",
            result
                .verdict
                .as_ref()
                .map(|verdict| word(&verdict.limited_by))
                .unwrap_or_default(),
        ),
        (
            "transactions_committed_count",
            optional(transactions.map(|found| found.committed_count)),
        ),
        (
            "transactions_aborted_count",
            optional(transactions.map(|found| found.aborted_count)),
        ),
        (
            "aborted_records_count",
            optional(transactions.map(|found| found.aborted_records_count)),
        ),
        ("commit_p50_ns", optional(commit.map(|summary| summary.p50_ns))),
        ("commit_p99_ns", optional(commit.map(|summary| summary.p99_ns))),
        ("commit_max_ns", optional(commit.map(|summary| summary.max_ns))),
    ]);
    let (names, values): (Vec<&str>, Vec<String>) = columns.into_iter().unzip();
    row(names.iter().map(|name| (*name).to_owned())) + &row(values)
}

/// A header and one row a partition, with the figures of the measured phase.
pub fn partitions(result: &RunResult) -> String {
    let header = [
        "topic",
        "partition",
        "leader",
        "acknowledged_count",
        "payload_bytes",
        "service_p50_ns",
        "service_p99_ns",
    ];
    let mut text = row(header.map(str::to_owned));
    for partition in &result.partitions {
        text.push_str(&row([
            partition.topic.clone(),
            partition.partition.to_string(),
            optional(partition.leader),
            partition.acknowledged_count.to_string(),
            optional(partition.payload_bytes),
            optional(partition.service_p50_ns),
            optional(partition.service_p99_ns),
        ]));
    }
    text
}

fn optional(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// A word of the result's schema as the document spells it.
fn word(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value)
        .ok()
        .and_then(|value| value.as_str().map(str::to_owned))
        .unwrap_or_default()
}

fn row(fields: impl IntoIterator<Item = String>) -> String {
    let quoted = |field: String| {
        if field.contains([',', '"', '\n', '\r']) {
            format!("\"{}\"", field.replace('"', "\"\""))
        } else {
            field
        }
    };
    let fields: Vec<String> = fields.into_iter().map(quoted).collect();
    fields.join(",") + "\n"
}
