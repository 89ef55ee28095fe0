//! librdkafka's own benchmark, where it has been built.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use super::ONE_PROGRAM;
use super::child;
use super::real_kafka::{Consuming, Measured, Producing};
use crate::workspace::Workspace;

/// The program, and the version of librdkafka in it.
pub struct RdkafkaPerformance {
    program: PathBuf,
    version: String,
}

impl RdkafkaPerformance {
    /// The one that is named; else that of a clone under the target directory; else that of the `PATH`. `None` where there is
    /// none, an error where the one that is named does not run.
    pub fn find(workspace: &Workspace, named: Option<&Path>) -> Result<Option<Self>> {
        let built = workspace
            .target()
            .join("peers/librdkafka/examples/rdkafka_performance");
        let candidates = match named {
            Some(named) => vec![named.to_owned()],
            None => vec![built, PathBuf::from("rdkafka_performance")],
        };
        for program in candidates {
            if let Some(version) = version_of(&program) {
                return Ok(Some(Self { program, version }));
            }
        }
        match named {
            Some(named) => bail!("{} does not run as rdkafka_performance", named.display()),
            None => Ok(None),
        }
    }

    /// librdkafka's version.
    pub fn version(&self) -> &str {
        &self.version
    }

    pub fn produce(&self, producing: &Producing<'_>) -> Result<Measured> {
        let mut command = Command::new(&self.program);
        command
            .args(["-P", "-q", "-b", producing.bootstrap, "-t", producing.topic])
            .args(["-s", &producing.record_bytes.to_string()])
            .args(["-c", &producing.records_count.to_string()]);
        for (name, value) in properties(producing) {
            command.arg("-X").arg(format!("{name}={value}"));
        }
        let ended = child::run(&mut command, ONE_PROGRAM)?;
        let total = producer_total(&ended.stdout)
            .with_context(|| format!("rdkafka_performance has printed no total:\n{}", ended.stdout))?;
        ensure!(
            total.records_count == producing.records_count,
            "rdkafka_performance has delivered {} of {} records:\n{}",
            total.records_count,
            producing.records_count,
            ended.stdout
        );
        Ok(total.measured(&ended))
    }

    /// As a group's one member. Its rate begins with the first record.
    pub fn consume(&self, consuming: &Consuming<'_>) -> Result<Measured> {
        let mut command = Command::new(&self.program);
        command
            .args([
                "-G",
                consuming.group,
                "-q",
                "-b",
                consuming.bootstrap,
                "-t",
                consuming.topic,
            ])
            .args(["-c", &consuming.records_count.to_string()]);
        let ended = child::run(&mut command, ONE_PROGRAM)?;
        let total = consumer_total(&ended.stdout)
            .with_context(|| format!("rdkafka_performance has printed no total:\n{}", ended.stdout))?;
        ensure!(
            total.records_count >= consuming.records_count,
            "rdkafka_performance has read {} of {} records:\n{}",
            total.records_count,
            consuming.records_count,
            ended.stdout
        );
        Ok(total.measured(&ended))
    }
}

/// The same settings by librdkafka's names. Records in its buffer are bounded by their bytes alone, as in the Java client.
fn properties(producing: &Producing<'_>) -> Vec<(&'static str, String)> {
    let of_kafka = producing.properties().into_iter();
    let mut properties: Vec<_> = of_kafka
        .filter_map(|(name, value)| match name {
            "buffer.memory" => Some((
                "queue.buffering.max.kbytes",
                (value.parse::<u64>().ok()? / 1024).to_string(),
            )),
            "max.request.size" => Some(("message.max.bytes", value)),
            // Without idempotence its own default stays, which is no bound: it sends a batch a request, and would be held
            // back by a bound that does not hold back those who send several.
            "max.in.flight.requests.per.connection" if !producing.idempotent => None,
            _ => Some((name, value)),
        })
        .collect();
    properties.push(("queue.buffering.max.messages", "10000000".to_owned()));
    properties
}

/// The version out of the text that it prints without arguments; `None` where it does not run.
fn version_of(program: &Path) -> Option<String> {
    let output = Command::new(program).stdin(Stdio::null()).output().ok()?;
    let usage = String::from_utf8_lossy(&output.stderr).into_owned();
    let (_, version) = usage.split_once("librdkafka version ")?;
    version.split_whitespace().next().map(str::to_owned)
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Total {
    records_count: u64,
    records_per_second: f64,
}

impl Total {
    fn measured(self, ended: &child::Ended) -> Measured {
        Measured {
            records_count: self.records_count,
            records_per_second: Some(self.records_per_second),
            wall: ended.wall,
            cpu: ended.cpu,
        }
    }

    /// The number before a phrase of a total line: `… 1000 delivered …`, `… 98 msgs/s …`.
    fn of(line: &str, count_before: &str) -> Option<Self> {
        let number_before = |phrase: &str| {
            let (head, _) = line.split_once(phrase)?;
            head.rsplit(' ').next()?.parse::<u64>().ok()
        };
        Some(Self {
            records_count: number_before(count_before)?,
            records_per_second: number_before(" msgs/s")? as f64,
        })
    }
}

/// `% 1000 messages produced (100000 bytes), 1000 delivered (offset 0, 0 failed) in 5ms: 200000 msgs/s and 20.00 MB/s, …`
fn producer_total(stdout: &str) -> Option<Total> {
    let line = stdout
        .lines()
        .rev()
        .find(|line| line.contains(" messages produced "))?;
    Total::of(line, " delivered ")
}

/// `% 1000 messages (100000 bytes) consumed in 5ms: 200000 msgs/s (20.00 MB/s)`
fn consumer_total(stdout: &str) -> Option<Total> {
    let line = stdout.lines().rev().find(|line| line.contains(" consumed in "))?;
    Total::of(line, " messages (")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_read_from_the_last_line_that_has_them() {
        let produced = "\
% Sending 2000000 messages of size 100 bytes
% 900 messages produced (90000 bytes), 800 delivered (offset 0, 0 failed) in 1000ms: 800 msgs/s and 0.08 MB/s, 0 produce failures, 100 in queue, no compression
% 2000000 messages produced (200000000 bytes), 1999999 delivered (offset 12, 1 failed) in 3944ms: 507099 msgs/s and 50.71 MB/s, 0 produce failures, 0 in queue, no compression
";
        let expected = Total {
            records_count: 1_999_999,
            records_per_second: 507_099.0,
        };
        assert_eq!(producer_total(produced), Some(expected));
        let consumed =
            "% 4000001 messages (400000100 bytes) consumed in 3390ms: 1179941 msgs/s (117.99 MB/s)\n";
        let expected = Total {
            records_count: 4_000_001,
            records_per_second: 1_179_941.0,
        };
        assert_eq!(consumer_total(consumed), Some(expected));
        assert_eq!(consumer_total(produced), None);
        assert_eq!(producer_total(consumed), None);
    }
}
