//! `cargo x test`: all tests, with real Kafka where they need it.

use std::io::{BufRead, BufReader};
use std::ops::AddAssign;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::workspace::Workspace;
use crate::{debian, kafka, status};

/// The cluster that the interop tests use, apart from one that a person has started.
const CLUSTER: &str = "test";

/// Tests that ran, by how they ended.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Counts {
    passed: u64,
    failed: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

/// Runs the workspace's tests, then the interop tests on a cluster of their own. The last line on standard output is
/// `N passed, N failed`; what could not be run at all counts as one failure.
pub fn run(workspace: &Workspace) -> Result<ExitCode> {
    let start = Instant::now();
    let mut counts = Counts::default();
    let mut count = |what: &str, outcome: Result<Counts>| {
        counts += outcome.unwrap_or_else(|error| {
            eprintln!("{what}: {error:#}");
            Counts { passed: 0, failed: 1 }
        });
    };
    count("the workspace's tests", workspace_tests(workspace));
    match prepare_interop(workspace) {
        Ok(()) => {
            // A tool waits for its JVM most of the time; a run with a rate to keep wants the machine for itself.
            let tools = run_counting(&mut interop(
                workspace,
                &["--skip", "run::", "--skip", "broker_killed::"],
                2,
            ));
            count("Kafka's tools and kcat", tools);
            count(
                "runs on real Kafka",
                on_real_kafka(workspace, &mut interop(workspace, &["run::"], 1)),
            );
            count(
                "a broker killed",
                run_counting(&mut interop(workspace, &["broker_killed::"], 1)),
            );
        }
        Err(error) => count("the interop tests", Err(error)),
    }
    let summary = format!("{} passed, {} failed", counts.passed, counts.failed);
    eprintln!("took {}", status::for_people(start.elapsed()));
    status::record(
        workspace,
        "test",
        start.elapsed(),
        counts.failed == 0,
        summary.as_str(),
    )?;
    println!("{summary}");
    Ok(if counts.failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn workspace_tests(workspace: &Workspace) -> Result<Counts> {
    run_counting(workspace.cargo().args(["test", "--workspace", "--no-fail-fast"]))
}

/// The release binary, and the programs that it is tested with.
fn prepare_interop(workspace: &Workspace) -> Result<()> {
    eprintln!("building the release binary");
    let built = workspace
        .cargo()
        .args(["build", "--release", "--package", "cli"])
        .status()?;
    ensure!(built.success(), "the release binary cannot be built");
    debian::java()?;
    debian::kcat()?;
    debian::faketime()?;
    Ok(())
}

/// The interop tests that the filter leaves, so many at a time.
fn interop(workspace: &Workspace, filter: &[&str], threads: u32) -> Command {
    let mut command = workspace.cargo();
    command
        .args(["test", "--package", "xtask", "--test", "interop", "--"])
        .args(filter);
    command.args(["--test-threads", &threads.to_string()]);
    command.env(
        "PLIMSOLL_TEST_BINARY",
        workspace.target().join("release/plimsoll"),
    );
    command
}

/// Runs tests while a cluster of three brokers is up.
fn on_real_kafka(workspace: &Workspace, tests: &mut Command) -> Result<Counts> {
    // A cluster that an interrupted run has left would not be fresh.
    kafka::down(workspace, CLUSTER)?;
    let plan = kafka::Plan {
        name: CLUSTER.to_owned(),
        version: kafka::DEFAULT_VERSION.parse().map_err(anyhow::Error::msg)?,
        brokers: 3,
        properties: Vec::new(),
    };
    eprintln!("starting Apache Kafka {}", plan.version);
    let bootstrap = kafka::up(workspace, &plan)?;
    let counts = run_counting(tests.env("PLIMSOLL_TEST_KAFKA", bootstrap));
    kafka::down(workspace, CLUSTER)?;
    counts
}

/// Runs `cargo test …`, shows its output as it comes, and adds up what its test binaries say of themselves.
fn run_counting(command: &mut Command) -> Result<Counts> {
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run cargo")?;
    let stdout = child.stdout.take().context("cargo's output is not piped")?;
    let mut counts = Counts::default();
    let mut lines = BufReader::new(stdout);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line)? > 0 {
        let text = String::from_utf8_lossy(&line);
        print!("{text}");
        counts += result_of(&text).unwrap_or_default();
        line.clear();
    }
    let ended = child.wait()?;
    if counts.failed == 0 && !ended.success() {
        // Something did not compile, or a test binary died before it could say anything.
        if counts.passed == 0 {
            bail!("cargo test: {ended}");
        }
        counts.failed = 1;
    }
    Ok(counts)
}

/// The counts of a line that ends one test binary: `test result: ok. 3 passed; 0 failed; 0 ignored; …`.
fn result_of(line: &str) -> Option<Counts> {
    let (_, tail) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let count = |word: &str| {
        let part = tail.split(';').find(|part| part.trim_end().ends_with(word))?;
        part.trim().strip_suffix(word)?.trim().parse().ok()
    };
    Some(Counts {
        passed: count("passed")?,
        failed: count("failed")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_test_binary_says_of_itself_is_read() {
        let ok = "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out; finished in 0.01s\n";
        assert_eq!(
            result_of(ok),
            Some(Counts {
                passed: 12,
                failed: 0
            })
        );
        let failed = "test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(result_of(failed), Some(Counts { passed: 2, failed: 1 }));
    }

    #[test]
    fn other_lines_count_nothing() {
        for line in [
            "running 3 tests\n",
            "test a ... ok\n",
            "test result: ",
            "",
            "1 passed; 2 failed\n",
        ] {
            assert_eq!(result_of(line), None, "{line:?}");
        }
    }
}
