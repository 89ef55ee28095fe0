//! One run of the release binary, watched from outside, and what is to be said of its result.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::accounts;
use crate::process::Process;
use crate::workspace::Workspace;

/// How long a run may take beyond its load: its start, its drain and its end.
const BEYOND: Duration = Duration::from_secs(120);
/// How often the run is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// A run to be started.
pub struct Load<'a> {
    workspace: &'a Workspace,
    arguments: Vec<String>,
    duration: Duration,
    drain: Duration,
    is_transactional: bool,
}

impl<'a> Load<'a> {
    /// A run for so long on these brokers: one topic of six partitions with three copies, two thousand records a second, one
    /// group of two. What is added comes behind, and wins.
    pub fn on(workspace: &'a Workspace, bootstrap: &str, duration: Duration) -> Load<'a> {
        let load = Load {
            workspace,
            arguments: Vec::new(),
            duration,
            drain: Duration::from_secs(60),
            is_transactional: false,
        };
        let length = format!("testDuration={}s", duration.as_secs());
        load.with(&[
            "run",
            "--json",
            "--bootstrap-server",
            bootstrap,
            "--set",
            "warmupDuration=0s",
            "--set",
            &length,
        ])
        .with(&["--set", "topics=1", "--set", "partitionsPerTopic=6"])
        .with(&["--set", "messageSize=200", "--set", "producerRate=2000"])
        .with(&["--set", "consumerPerSubscription=2"])
        .with(&["-X", "retry.backoff.max.ms=200"])
    }

    /// Adds arguments.
    pub fn with(mut self, arguments: &[&str]) -> Load<'a> {
        self.arguments
            .extend(arguments.iter().map(|text| (*text).to_owned()));
        self
    }

    /// What was sent is awaited for so long at the end; 60 s if nothing is said.
    pub fn draining_for(self, drain: Duration) -> Load<'a> {
        Load { drain, ..self }
    }

    /// Three copies of each partition, two of which must be in sync.
    pub fn replicated(self) -> Load<'a> {
        self.with(&[
            "--replication-factor",
            "3",
            "--topic-config",
            "min.insync.replicas=2",
        ])
    }

    /// In transactions, which consumers wait for.
    pub fn in_transactions(mut self) -> Load<'a> {
        self.is_transactional = true;
        self.with(&[
            "--set",
            "transactional=true",
            "--set",
            "transactionDuration=300ms",
        ])
        .with(&["-X", "isolation.level=read_committed"])
    }

    /// Starts it, and waits until records are due.
    pub fn start(self) -> Result<Running> {
        let home = self.workspace.target().join("failures");
        fs::create_dir_all(&home)?;
        let output = home.join("result.json");
        let told = home.join("told.txt");
        let child = Command::new(self.workspace.target().join("release/plimsoll"))
            .args(&self.arguments)
            .args(["--drain-timeout", &format!("{}s", self.drain.as_secs())])
            .current_dir(&home)
            .stdin(Stdio::null())
            .stdout(fs::File::create(&output)?)
            .stderr(fs::File::create(&told)?)
            .spawn()
            .context("cannot run the release binary")?;
        let mut running = Running {
            child,
            output,
            told,
            began: Instant::now(),
            at_most: self.duration + BEYOND,
            is_interrupted: false,
            is_transactional: self.is_transactional,
        };
        running.await_told("measuring begins", Duration::from_secs(60))?;
        running.began = Instant::now();
        Ok(running)
    }
}

/// A run under load. It is killed when this value is dropped before it has ended.
pub struct Running {
    child: Child,
    output: PathBuf,
    told: PathBuf,
    /// When its load began.
    began: Instant,
    at_most: Duration,
    is_interrupted: bool,
    is_transactional: bool,
}

impl Running {
    /// The process.
    pub fn process(&self) -> Result<Process> {
        Process::of_id(self.child.id())
    }

    /// What it has told on its standard error so far.
    pub fn told(&self) -> String {
        fs::read_to_string(&self.told).unwrap_or_default()
    }

    /// The name of the topic that it made, and that of its group.
    pub fn names(&self) -> Result<(String, String)> {
        let told = self.told();
        let (_, rest) = told.split_once("created topic ").context("it made no topic")?;
        let topic = rest.split_whitespace().next().context("its topic has no name")?;
        let (run, _) = topic
            .split_once("-topic-")
            .context("its topic has another name")?;
        Ok((topic.to_owned(), format!("{run}-sub-000")))
    }

    /// Waits until so much of its load has passed.
    pub fn until(&mut self, moment: Duration) -> Result<()> {
        while self.began.elapsed() < moment {
            self.ensure_runs()?;
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// How much of its load has passed.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    fn await_told(&mut self, text: &str, at_most: Duration) -> Result<()> {
        let start = Instant::now();
        while !self.told().contains(text) {
            self.ensure_runs()?;
            ensure!(
                start.elapsed() < at_most,
                "it did not tell {text:?} within {at_most:?}:\n{}",
                self.told()
            );
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    fn ensure_runs(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("the run has ended early ({status}):\n{}", self.told());
        }
        Ok(())
    }

    /// Ends its load here, in order (SIGTERM).
    pub fn interrupt(&mut self) -> Result<()> {
        self.is_interrupted = true;
        self.process()?.terminate()
    }

    /// Waits for its end.
    pub fn end(mut self) -> Result<Outcome> {
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            ensure!(
                self.began.elapsed() < self.at_most,
                "the run did not end within {:?}:\n{}",
                self.at_most,
                self.told()
            );
            std::thread::sleep(LOOK);
        };
        let told = self.told();
        let result = serde_json::from_slice(&fs::read(&self.output)?)
            .with_context(|| format!("it gave no result ({status}):\n{told}"))?;
        Ok(Outcome {
            status,
            result,
            told,
            is_interrupted: self.is_interrupted,
            is_transactional: self.is_transactional,
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended and was waited for cannot be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A run that has ended.
pub struct Outcome {
    pub status: ExitStatus,
    pub result: Value,
    pub told: String,
    is_interrupted: bool,
    is_transactional: bool,
}

impl Outcome {
    /// A count of the whole run; 0 where it is absent.
    pub fn count(&self, name: &str) -> u64 {
        self.result["whole_run"][name].as_u64().unwrap_or(0)
    }

    /// A figure of a latency over the measured phase, in nanoseconds.
    pub fn latency_ns(&self, metric: &str, figure: &str) -> Result<u64> {
        let phases = self.result["phases"].as_array().context("there are no phases")?;
        let measured = phases.iter().find(|phase| phase["name"] == "measure");
        let latencies = measured.and_then(|phase| phase["latencies"].as_array());
        let latency = latencies.and_then(|all| all.iter().find(|one| one["metric"] == metric));
        latency
            .and_then(|latency| latency[figure].as_u64())
            .with_context(|| format!("there is no {figure} of {metric}"))
    }

    /// Whether an error of this kind is in the result.
    pub fn has_error(&self, kind: &str) -> bool {
        self.errors().iter().any(|error| error["kind"] == kind)
    }

    /// The kinds of the errors in the result, each with its count.
    pub fn error_kinds(&self) -> String {
        let kinds = self.errors().iter();
        let told =
            kinds.map(|error| format!("{} {}×", error["kind"].as_str().unwrap_or("?"), error["count"]));
        told.collect::<Vec<_>>().join(", ")
    }

    fn errors(&self) -> &[Value] {
        self.result["errors"].as_array().map_or(&[], Vec::as_slice)
    }

    /// All that must hold of every run, and that nothing was refused, unknown or unfinished.
    pub fn ensure_whole(&self) -> Result<()> {
        let mut broken = self.broken();
        for name in ["refused_count", "unknown_count", "unfinished_count"] {
            if self.count(name) > 0 {
                broken.push(format!("{name} is {}, not 0", self.count(name)));
            }
        }
        let ended_as_told = match self.is_interrupted {
            true => self.status.code() == Some(130),
            false => self.status.success(),
        };
        if !ended_as_told {
            broken.push(format!("it ended with {}", self.status));
        }
        self.ensure_nothing(&broken)
    }

    /// All that must hold of every run that completes.
    pub fn ensure_sound(&self) -> Result<()> {
        self.ensure_nothing(&self.broken())
    }

    fn broken(&self) -> Vec<String> {
        let mut result = self.result.clone();
        if self.is_interrupted && result["status"]["state"] == "partial" {
            result["status"]["state"] = "complete".into();
        }
        accounts::broken(&result, self.is_transactional)
    }

    /// That the records add up.
    pub fn ensure_accounted(&self) -> Result<()> {
        self.ensure_nothing(&accounts::unaccounted(&self.result, self.is_transactional))
    }

    /// What is particular to a case; with the result where it does not hold.
    pub fn ensure(&self, holds: bool, what: &str) -> Result<()> {
        let broken = if holds { Vec::new() } else { vec![what.to_owned()] };
        self.ensure_nothing(&broken)
    }

    fn ensure_nothing(&self, broken: &[String]) -> Result<()> {
        if broken.is_empty() {
            return Ok(());
        }
        bail!(
            "this does not hold: {}\n{:#}\n{:#}\n{:#}\n{:#}\n{}",
            broken.join("; "),
            self.result["whole_run"],
            self.result["errors"],
            self.result["verdict"],
            self.result["events"],
            self.told
        )
    }

    /// One line for whoever watches the tier.
    pub fn tell(&self) {
        eprintln!(
            "  sent {}, acknowledged {}, refused {}, unknown {}, confirmed {}; response p99 {} ms, at most {} ms; errors: {}",
            self.count("sent_count"),
            self.count("acknowledged_count"),
            self.count("refused_count"),
            self.count("unknown_count"),
            self.result["whole_run"]["confirmed_count"]
                .as_u64()
                .map_or("not known".to_owned(), |count| count.to_string()),
            self.latency_ns("response", "p99_ns").unwrap_or(0) / 1_000_000,
            self.latency_ns("response", "max_ns").unwrap_or(0) / 1_000_000,
            self.error_kinds()
        );
    }
}
