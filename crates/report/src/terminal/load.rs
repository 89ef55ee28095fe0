//! How the load was made up: batches, partitions, brokers, and what it cost the generator.

use model::result::{Broker, Partition, RunResult, ThreadRole, Totals};

use super::{Manner, measured};
use crate::figures;
use crate::wrap::{COLUMNS, cut, wrapped};

/// A skew above this is flagged.
const SKEWED: f64 = 2.0;
/// Partitions shown one by one; of more, the fewest and the most records are shown.
const MOST_PARTITIONS: usize = 48;
/// Brokers shown one by one, those with the most requests first.
const MOST_BROKERS: usize = 12;

/// Batches, requests, compression, and records per partition.
pub(super) fn producing(result: &RunResult) -> String {
    let manner = Manner::of(result);
    let mut text = String::new();
    if let Some(batching) = result.measured().and_then(|phase| phase.batching) {
        let mut parts = Vec::new();
        if let Some(size) = batching.average_batch_bytes {
            let records = batching
                .average_batch_records
                .map(|records| format!(" and {} records", figures::number(records)));
            parts.push(format!(
                "{}{} on average",
                figures::bytes(size),
                records.unwrap_or_default()
            ));
        }
        if let Some(rate) = batching.requests_per_second {
            parts.push(format!("{} requests/s", figures::number(rate)));
        }
        if let Some(retries) = batching.retries_count.filter(|&retries| retries > 0) {
            parts.push(format!("{} requests repeated", figures::count(retries)));
        }
        text.push_str(&line("batches", &parts));
        if let Some(ratio) = batching.compression_ratio {
            let codec = result
                .target
                .producer
                .get("compression.type")
                .map(|setting| setting.value.as_str());
            let told = match codec {
                Some("none") => "none".to_owned(),
                Some(codec) => format!("{codec}, to {} of the size before", figures::percent(ratio)),
                None => format!("to {} of the size before", figures::percent(ratio)),
            };
            text.push_str(&line("compression", &[told]));
        }
    }
    if let Some(totals) = measured(result) {
        text.push_str(&rates(totals, manner));
    }
    text.push_str(&partitions(result));
    if text.is_empty() {
        text
    } else {
        format!("{}\n{text}", if manner.produces { "Load" } else { "Reading" })
    }
}

fn line(label: &str, parts: &[String]) -> String {
    if parts.is_empty() {
        String::new()
    } else {
        wrapped(&format!("  {label:<14}"), &parts.join(", "))
    }
}

/// What clients believe, what brokers confirm, and what was read, side by side.
fn rates(totals: &Totals, manner: Manner) -> String {
    let mut parts = Vec::new();
    if let Some(rate) = totals.acknowledged_per_second {
        let what = if manner.acks_0 { "written" } else { "acknowledged" };
        parts.push(format!("{} {what}", figures::number(rate)));
    }
    if let Some(rate) = totals.confirmed_per_second {
        parts.push(format!("{} confirmed", figures::number(rate)));
    }
    let rates: Vec<f64> = totals
        .consumed
        .iter()
        .filter_map(|group| group.records_per_second)
        .collect();
    let least = rates.iter().copied().reduce(f64::min);
    let most = rates.iter().copied().reduce(f64::max);
    match (least, most, rates.len()) {
        (Some(rate), _, 1) => parts.push(format!("{} consumed", figures::number(rate))),
        (Some(least), Some(most), groups) => parts.push(format!(
            "{} to {} consumed by each of {groups} groups",
            figures::number(least),
            figures::number(most)
        )),
        _ => {}
    }
    line("records/s", &parts)
}

fn partitions(result: &RunResult) -> String {
    let Some(skew) = result.skew else {
        return String::new();
    };
    let mut text = line(
        "partitions",
        &[
            format!("{} of {} used", skew.used_partitions_count, skew.partitions_count),
            format!(
                "{} to {} records each",
                figures::count(skew.min_count),
                figures::count(skew.max_count)
            ),
            format!(
                "skew {} (max/mean)",
                figures::significant(skew.max_over_mean_ratio)
            ),
        ],
    );
    if skew.max_over_mean_ratio > SKEWED {
        let note = "! skewed: the fullest partition took more than twice the mean, so its leader carries more than its \
                    share; more records, larger batches or other keys even it out";
        text.push_str(&wrapped(&" ".repeat(16), note));
    }
    if result.partitions.len() <= MOST_PARTITIONS {
        for topic in result.partitions.chunk_by(|a, b| a.topic == b.topic) {
            text.push_str(&records_of(topic));
        }
    }
    text
}

/// The records of each partition of one topic, in columns.
fn records_of(topic: &[Partition]) -> String {
    let Some(first) = topic.first() else {
        return String::new();
    };
    let mut text = format!("    {}\n", cut(&first.topic, COLUMNS - 4));
    let cells: Vec<String> = topic
        .iter()
        .map(|p| format!("{}: {}", p.partition, figures::count(p.acknowledged_count)))
        .collect();
    let width = cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0) + 3;
    let in_a_row = ((COLUMNS - 6) / width).max(1);
    for row in cells.chunks(in_a_row) {
        let row: String = row.iter().map(|cell| format!("{cell:<width$}")).collect();
        text.push_str(&format!("      {}\n", row.trim_end()));
    }
    text
}

/// What each broker took, and how fast it answered.
pub(super) fn brokers(result: &RunResult) -> String {
    if result.brokers.is_empty() {
        return String::new();
    }
    let mut brokers: Vec<&Broker> = result.brokers.iter().collect();
    if brokers.len() > MOST_BROKERS {
        brokers.sort_by_key(|broker| std::cmp::Reverse(broker.requests_count));
        brokers.truncate(MOST_BROKERS);
    }
    let mut text = format!(
        "{:<8}{:>10}{:>11}{:>11}{:>10}{:>10}{:>10}{:>10}\n",
        "Broker", "requests", "produced", "fetched", "p50", "p99", "max", "throttled"
    );
    for broker in &brokers {
        let time = |ns: Option<u64>| ns.map_or_else(|| "–".to_owned(), figures::time);
        text.push_str(&format!(
            "  {:<6}{:>10}{:>11}{:>11}{:>10}{:>10}{:>10}{:>10}\n",
            broker.id,
            figures::count(broker.requests_count),
            figures::bytes(broker.produced_bytes as f64),
            broker
                .fetched_bytes
                .map_or_else(|| "–".to_owned(), |bytes| figures::bytes(bytes as f64)),
            time(broker.service_p50_ns),
            time(broker.service_p99_ns),
            time(broker.service_max_ns),
            broker
                .throttle_ns
                .filter(|&ns| ns == 0)
                .map_or_else(|| time(broker.throttle_ns), figures::count),
        ));
    }
    if brokers.len() < result.brokers.len() {
        text.push_str(&wrapped(
            "  ",
            &format!(
                "and {} more, with fewer requests",
                result.brokers.len() - brokers.len()
            ),
        ));
    }
    if let Some(throttled_ns) = result
        .generator
        .as_ref()
        .and_then(|g| g.throttle_ns)
        .filter(|&ns| ns > 0)
    {
        let note = format!(
            "! the brokers held this client back by a quota, for {} in total: that is the quota's delay, not slowness",
            figures::time(throttled_ns)
        );
        text.push_str(&wrapped("  ", &note));
    }
    text
}

/// The generator's CPU, its lateness and its memory.
pub(super) fn generator(result: &RunResult) -> String {
    let Some(generator) = &result.generator else {
        return String::new();
    };
    let mut text = String::new();
    let mut cpu = Vec::new();
    if let Some(seconds) = generator.cpu_seconds_per_million_records {
        cpu.push(format!(
            "{} s of CPU per million records",
            figures::significant(seconds)
        ));
    }
    if let Some(ratio) = generator.busiest_thread_utilisation_ratio {
        cpu.push(format!("busiest thread {} busy", figures::percent(ratio)));
    }
    if let Some(ratio) = generator.process_utilisation_ratio {
        cpu.push(format!("{} of its CPUs", figures::percent(ratio)));
    }
    text.push_str(&line("CPU", &cpu));
    text.push_str(&line(
        "threads",
        &generator.threads.iter().map(of_role).collect::<Vec<_>>(),
    ));
    if let Some(cgroup) = generator
        .cgroup
        .filter(|cgroup| cgroup.throttled_periods_count > 0)
    {
        let periods = cgroup
            .periods_count
            .map(|periods| format!(" of {}", figures::count(periods)));
        let told = format!(
            "! throttled in {}{} periods, for {}: latencies hold that time",
            figures::count(cgroup.throttled_periods_count),
            periods.unwrap_or_default(),
            figures::time(cgroup.throttled_ns)
        );
        text.push_str(&line("CPU quota", &[told]));
    }
    if let Some(ratio) = generator.buffer_full_ratio.filter(|ratio| *ratio > 0.0) {
        text.push_str(&line(
            "send buffer",
            &[format!("full {} of the time", figures::percent(ratio))],
        ));
    }
    if let Some(late) = generator.late.filter(|late| late.records_count > 0) {
        let mut told = format!(
            "{} records sent more than {} late, as soon as they could be, none skipped, timed from when they were due",
            figures::count(late.records_count),
            figures::time(late.threshold_ns)
        );
        if let Some(peak) = generator.peak_100ms_per_second {
            told.push_str(&format!(
                "; catching up at up to {} records/s (over 100 ms)",
                figures::number(peak)
            ));
        }
        text.push_str(&line("late", &[told]));
    } else if let Some(peak) = generator.peak_100ms_per_second {
        text.push_str(&line(
            "peak",
            &[format!("{} records/s over 100 ms", figures::number(peak))],
        ));
    }
    text.push_str(&memory(result));
    if text.is_empty() {
        text
    } else {
        format!("Load generator\n{text}")
    }
}

fn of_role(role: &ThreadRole) -> String {
    format!(
        "{} {}: user {}, system {}",
        role.threads_count,
        role.role,
        figures::time(role.cpu_user_ns),
        figures::time(role.cpu_system_ns)
    )
}

fn memory(result: &RunResult) -> String {
    let Some(memory) = result.memory else {
        return String::new();
    };
    let mut parts = Vec::new();
    if let (Some(early), Some(late)) = (memory.rss_at_10_percent_bytes, memory.rss_at_90_percent_bytes) {
        parts.push(format!(
            "{} at 10 % of the run, {} at 90 %",
            figures::bytes(early as f64),
            figures::bytes(late as f64)
        ));
    }
    if let Some(peak) = memory.rss_peak_bytes {
        parts.push(format!("{} at most", figures::bytes(peak as f64)));
    }
    line("memory", &parts)
}
