//! plimsoll itself: runs, topics, and an embedded broker that outlives a run.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use super::ONE_PROGRAM;
use super::child::{self, Ended};

/// How long embedded brokers may take until they serve.
const BROKER_START: Duration = Duration::from_secs(60);

/// The binary that is measured.
pub struct Plimsoll {
    program: PathBuf,
    /// Where result folders are made, and removed once they are read.
    results: PathBuf,
}

/// One run that came to its end.
pub struct Run {
    /// The process as a whole.
    pub ended: Ended,
    document: Document,
}

/// What is read of `result.json`.
#[derive(Deserialize)]
struct Document {
    status: Status,
    phases: Vec<Phase>,
    whole_run: Totals,
    generator: Option<Generator>,
}

#[derive(Deserialize)]
struct Status {
    state: String,
    reason: Option<String>,
}

#[derive(Deserialize)]
struct Phase {
    name: String,
    start_ns: u64,
    end_ns: u64,
    totals: Option<Totals>,
    #[serde(default)]
    latencies: Vec<Latency>,
}

#[derive(Deserialize)]
struct Totals {
    acknowledged_count: Option<u64>,
    acknowledged_per_second: Option<f64>,
    payload_bytes_per_second: Option<f64>,
    #[serde(default)]
    consumed: Vec<Consumed>,
    verification: Option<Verification>,
}

#[derive(Deserialize)]
struct Consumed {
    records_count: u64,
    payload_bytes: Option<u64>,
    records_per_second: Option<f64>,
}

#[derive(Deserialize)]
struct Verification {
    checked_count: u64,
}

#[derive(Deserialize)]
struct Latency {
    metric: String,
    p50_ns: u64,
    p99_ns: u64,
}

#[derive(Deserialize)]
struct Generator {
    cpu_seconds_per_million_records: Option<f64>,
}

impl Plimsoll {
    /// `folder` is where it may write.
    pub fn new(program: PathBuf, folder: &Path) -> Self {
        Self {
            program,
            results: folder.join("results"),
        }
    }

    /// What it says of itself, such as `plimsoll 0.1.0`.
    pub fn version(&self) -> Result<String> {
        let ended = child::run(Command::new(&self.program).arg("--version"), ONE_PROGRAM)?;
        Ok(ended.stdout.trim().to_owned())
    }

    /// `plimsoll run` with these arguments, to its end.
    pub fn run(&self, arguments: &[String]) -> Result<Run> {
        let mut command = Command::new(&self.program);
        command
            .arg("run")
            .args(arguments)
            .args(["--quiet", "--json", "--output"])
            .arg(&self.results);
        let ended = child::run(&mut command, ONE_PROGRAM)?;
        let document: Document =
            serde_json::from_str(&ended.stdout).context("plimsoll run --json has printed no result")?;
        fs::remove_dir_all(&self.results)
            .with_context(|| format!("cannot remove {}", self.results.display()))?;
        ensure!(
            document.status.state == "complete",
            "the run is {}: {}",
            document.status.state,
            document.status.reason.unwrap_or_default()
        );
        Ok(Run { ended, document })
    }

    /// Makes a topic. What is deleted of it later goes from the disk at once, or the disk would be busy with it for minutes.
    pub fn create_topic(
        &self,
        bootstrap: &str,
        name: &str,
        partitions: u32,
        replication_factor: u32,
    ) -> Result<()> {
        let (partitions, replication_factor) = (partitions.to_string(), replication_factor.to_string());
        let mut command = Command::new(&self.program);
        command
            .args(["topics", "create", name, "--bootstrap-server", bootstrap])
            .args([
                "--partitions",
                &partitions,
                "--replication-factor",
                &replication_factor,
            ])
            .args(["--config", "file.delete.delay.ms=1000"]);
        child::run(&mut command, ONE_PROGRAM).map(drop)
    }

    /// Deletes a topic.
    pub fn delete_topic(&self, bootstrap: &str, name: &str) -> Result<()> {
        let mut command = Command::new(&self.program);
        command.args(["topics", "delete", name, "--bootstrap-server", bootstrap]);
        child::run(&mut command, ONE_PROGRAM).map(drop)
    }

    /// Starts embedded brokers with so much memory, all of it touched, and waits until they serve.
    pub fn broker(&self, brokers: u32, memory: &str) -> Result<Broker> {
        let mut child = Command::new(&self.program)
            .args(["broker", "--until-stdin-closes", "--listen", "127.0.0.1:0"])
            .args(["--brokers", &brokers.to_string()])
            .args(["--memory", memory, "--prefault", memory])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot run plimsoll broker")?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().context("its output is not piped")?;
        let mut broker = Broker {
            child,
            stdin,
            bootstrap: String::new(),
        };
        let (sender, bootstrap) = mpsc::channel();
        std::thread::spawn(move || {
            // To the end, so that the pipe stays open; nobody listens to a second bootstrap line.
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if let Some(bootstrap) = line.strip_prefix("bootstrap: ") {
                    sender.send(bootstrap.to_owned()).unwrap_or_default();
                }
            }
        });
        match bootstrap.recv_timeout(BROKER_START) {
            Ok(bootstrap) => broker.bootstrap = bootstrap,
            Err(_) => bail!(
                "plimsoll broker does not serve after {} s",
                BROKER_START.as_secs()
            ),
        }
        Ok(broker)
    }
}

/// Embedded brokers, ended when this value is dropped, and by themselves when this process is gone.
pub struct Broker {
    child: Child,
    stdin: Option<ChildStdin>,
    bootstrap: String,
}

impl Broker {
    /// `host:port,…`
    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // They keep nothing on disk, so that nothing is lost. One that has ended already cannot be killed.
        self.child.kill().unwrap_or_default();
        self.child.wait().map(drop).unwrap_or_default();
    }
}

impl Run {
    fn measured(&self) -> Option<&Phase> {
        self.document.phases.iter().find(|phase| phase.name == "measure")
    }

    fn totals(&self) -> Option<&Totals> {
        self.measured()?.totals.as_ref()
    }

    /// Records acknowledged per second of the measured phase.
    pub fn acknowledged_per_second(&self) -> Option<f64> {
        self.totals()?.acknowledged_per_second
    }

    /// Their values, per second.
    pub fn payload_bytes_per_second(&self) -> Option<f64> {
        self.totals()?.payload_bytes_per_second
    }

    /// Records acknowledged over the whole run.
    pub fn acknowledged_count(&self) -> Option<u64> {
        self.document.whole_run.acknowledged_count
    }

    /// Records that the groups got over the whole run.
    pub fn consumed_count(&self) -> u64 {
        self.document
            .whole_run
            .consumed
            .iter()
            .map(|group| group.records_count)
            .sum()
    }

    /// Records that the groups got per second of the measured phase.
    pub fn consumed_per_second(&self) -> Option<f64> {
        self.totals()?
            .consumed
            .iter()
            .map(|group| group.records_per_second)
            .sum()
    }

    /// Their values, per second.
    pub fn consumed_bytes_per_second(&self) -> Option<f64> {
        let phase = self.measured()?;
        let bytes: u64 = self
            .totals()?
            .consumed
            .iter()
            .map(|group| group.payload_bytes)
            .sum::<Option<_>>()?;
        Some(bytes as f64 * 1e9 / phase.end_ns.checked_sub(phase.start_ns).filter(|ns| *ns > 0)? as f64)
    }

    /// Records that were held against what was sent, over the whole run.
    pub fn checked_count(&self) -> Option<u64> {
        Some(self.document.whole_run.verification.as_ref()?.checked_count)
    }

    /// CPU of the generator's threads.
    pub fn cpu_seconds_per_million_records(&self) -> Option<f64> {
        self.document.generator.as_ref()?.cpu_seconds_per_million_records
    }

    /// Median and 99th percentile of the service time.
    pub fn service_seconds(&self) -> Option<(f64, f64)> {
        let latencies = &self.measured()?.latencies;
        let service = latencies.iter().find(|latency| latency.metric == "service")?;
        Some((service.p50_ns as f64 / 1e9, service.p99_ns as f64 / 1e9))
    }

    /// From the run's start to the measured phase's end: with a number of records, when all of them were acknowledged.
    pub fn measured_end_seconds(&self) -> Option<f64> {
        Some(self.measured()?.end_ns as f64 / 1e9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESULT: &str = r#"{
        "status": {"state": "complete"},
        "phases": [
            {"name": "prepare", "start_ns": 0, "end_ns": 1000},
            {"name": "measure", "start_ns": 1000, "end_ns": 2000001000,
             "totals": {"acknowledged_count": 10, "acknowledged_per_second": 5.0, "payload_bytes_per_second": 500.0,
                        "consumed": [{"group": "a", "records_count": 8, "payload_bytes": 800, "records_per_second": 4.0},
                                     {"group": "b", "records_count": 6, "payload_bytes": 600, "records_per_second": 3.0}]},
             "latencies": [{"metric": "queue", "p50_ns": 1, "p99_ns": 2},
                           {"metric": "service", "p50_ns": 500000, "p99_ns": 4000000}]}
        ],
        "whole_run": {"acknowledged_count": 12, "consumed": [{"records_count": 12, "payload_bytes": 1200}],
                      "verification": {"checked_count": 11, "lost_count": 0}}
    }"#;

    #[test]
    fn rates_are_those_of_the_measured_phase_and_counts_those_of_the_whole_run() {
        let run = Run {
            document: serde_json::from_str(RESULT).unwrap(),
            ended: Ended {
                wall: Duration::ZERO,
                cpu: Duration::ZERO,
                stdout: String::new(),
                stderr: String::new(),
            },
        };
        assert_eq!(run.acknowledged_per_second(), Some(5.0));
        assert_eq!(run.acknowledged_count(), Some(12));
        assert_eq!(run.consumed_per_second(), Some(7.0));
        assert_eq!(run.consumed_bytes_per_second(), Some(700.0));
        assert_eq!(run.consumed_count(), 12);
        assert_eq!(run.checked_count(), Some(11));
        assert_eq!(run.service_seconds(), Some((0.0005, 0.004)));
        assert_eq!(run.measured_end_seconds(), Some(2.000001));
        assert_eq!(run.cpu_seconds_per_million_records(), None);
    }
}
