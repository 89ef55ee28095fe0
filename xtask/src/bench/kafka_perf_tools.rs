//! Kafka's own kafka-producer-perf-test and kafka-consumer-perf-test.

use anyhow::{Context, Result, ensure};

use super::ONE_PROGRAM;
use super::child;
use super::real_kafka::{Consuming, Measured, Producing};
use crate::kafka;
use crate::workspace::Workspace;

/// How long kafka-consumer-perf-test waits for a next record before it gives up.
const CONSUMER_PATIENCE_MS: u32 = 30_000;

/// kafka-producer-perf-test of the newest release.
pub fn produce(workspace: &Workspace, producing: &Producing<'_>) -> Result<Measured> {
    let mut command = kafka::tool_command(workspace, version()?, "kafka-producer-perf-test")?;
    command
        .args([
            "--bootstrap-server",
            producing.bootstrap,
            "--topic",
            producing.topic,
        ])
        .args(["--num-records", &producing.records_count.to_string()])
        .args(["--record-size", &producing.record_bytes.to_string()])
        .args(["--throughput", "-1", "--command-property"])
        .args(
            producing
                .properties()
                .map(|(name, value)| format!("{name}={value}")),
        );
    let ended = child::run(&mut command, ONE_PROGRAM)?;
    let (records_count, records_per_second) = producer_total(&ended.stdout)
        .with_context(|| format!("kafka-producer-perf-test has printed no total:\n{}", ended.stdout))?;
    // It ends well whatever failed, and counts what did not.
    ensure!(
        records_count == producing.records_count,
        "kafka-producer-perf-test has sent {records_count} of {} records:\n{}",
        producing.records_count,
        ended.stderr
    );
    Ok(Measured {
        records_count,
        records_per_second: Some(records_per_second),
        wall: ended.wall,
        cpu: ended.cpu,
    })
}

/// kafka-consumer-perf-test of the newest release. Its rate is the one while fetching: joining the group is left out.
pub fn consume(workspace: &Workspace, consuming: &Consuming<'_>) -> Result<Measured> {
    let mut command = kafka::tool_command(workspace, version()?, "kafka-consumer-perf-test")?;
    command
        .args([
            "--bootstrap-server",
            consuming.bootstrap,
            "--topic",
            consuming.topic,
        ])
        .args(["--num-records", &consuming.records_count.to_string()])
        .args(["--timeout", &CONSUMER_PATIENCE_MS.to_string(), "--hide-header"]);
    let ended = child::run(&mut command, ONE_PROGRAM)?;
    let (records_count, records_per_second) = consumer_total(&ended.stdout)
        .with_context(|| format!("kafka-consumer-perf-test has printed no total:\n{}", ended.stdout))?;
    ensure!(
        records_count >= consuming.records_count,
        "kafka-consumer-perf-test has read {records_count} of {} records",
        consuming.records_count
    );
    Ok(Measured {
        records_count,
        records_per_second: Some(records_per_second),
        wall: ended.wall,
        cpu: ended.cpu,
    })
}

fn version() -> Result<kafka::Version> {
    kafka::DEFAULT_VERSION.parse().map_err(anyhow::Error::msg)
}

/// Records and records per second of the last line that is a total: it alone names percentiles.
fn producer_total(stdout: &str) -> Option<(u64, f64)> {
    let total = stdout
        .lines()
        .rev()
        .find(|line| line.contains(" records sent, ") && line.contains("99.9th"))?;
    let (count, rest) = total.split_once(" records sent, ")?;
    let (rate, _) = rest.split_once(" records/sec")?;
    Some((count.trim().parse().ok()?, rate.parse().ok()?))
}

/// Records, and records per second while fetching: columns data.consumed.in.nMsg and fetch.nMsg.sec, of ten.
fn consumer_total(stdout: &str) -> Option<(u64, f64)> {
    stdout.lines().rev().find_map(|line| {
        let fields: Vec<&str> = line.split(", ").collect();
        let [_, _, _, _, count, _, _, _, _, rate] = fields.as_slice() else {
            return None;
        };
        Some((count.parse().ok()?, rate.trim_end().parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_producers_total_is_its_last_line_and_not_that_of_a_window() {
        let stdout = "\
1013846 records sent, 202769.2 records/sec (19.34 MB/sec), 1210.8 ms avg latency, 1672.0 ms max latency.
1500000 records sent, 207900.207900 records/sec (19.83 MB/sec), 1180.53 ms avg latency, 1672.00 ms max latency, 1213 ms 50th, 1602 ms 95th, 1659 ms 99th, 1671 ms 99.9th.
";
        assert_eq!(producer_total(stdout), Some((1_500_000, 207_900.207_9)));
        assert_eq!(producer_total(stdout.lines().next().unwrap()), None);
        assert_eq!(producer_total(""), None);
    }

    #[test]
    fn a_consumers_warning_is_not_taken_for_its_total() {
        let total = "2026-12-01 10:00:00:000, 2026-12-01 10:00:03:100, 381.4697, 123.0547, 4000000, 1290322.5806, 878, 2222, 171.6785, 1800180.0180\n";
        assert_eq!(consumer_total(total), Some((4_000_000, 1_800_180.018)));
        let warning = "WARNING: Exiting before consuming the expected number of records: timeout (1000 ms) exceeded. You can use the --timeout option to increase the timeout.\n";
        assert_eq!(
            consumer_total(&format!("{warning}{total}")),
            Some((4_000_000, 1_800_180.018))
        );
        assert_eq!(consumer_total(warning), None);
    }
}
