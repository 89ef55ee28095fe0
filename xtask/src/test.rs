//! `cargo x test`: all tests, with real Kafka where they need it.

use std::io::{BufRead, BufReader};
use std::ops::AddAssign;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::tier::Progress;
use crate::workspace::Workspace;
use crate::{debian, failures, kafka, soak, status, suites};

/// The cluster that the interop tests use, apart from one that a person has started.
const CLUSTER: &str = "test";

/// Tests that ran, by how they ended.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Counts {
    pub passed: u64,
    pub failed: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

#[derive(clap::Args)]
pub struct Arguments {
    /// plimsoll on Apache Kafka 4.4 to 2.1, one release after the other; goes on where it stopped
    #[arg(long)]
    versions: bool,
    /// Other people's programs, and the integration tests that other clients bring, on embedded brokers; goes on where it
    /// stopped
    #[arg(long, conflicts_with = "versions")]
    interop: bool,
    /// Drawn loads while brokers go and come back, on embedded brokers and on real Kafka, and what must hold for all of them
    #[arg(long, conflicts_with_all = ["versions", "interop"])]
    soak: bool,
    /// Networks that break or are slow, brokers and coordinators that move, disks that fill up, topics that change; goes on
    /// where it stopped
    #[arg(long, conflicts_with_all = ["versions", "interop", "soak"])]
    failures: bool,
    /// With --failures: only this case; may be repeated
    #[arg(long = "case", requires = "failures")]
    cases: Vec<String>,
    /// With --soak: for about so many minutes
    #[arg(long, default_value_t = 30, requires = "soak")]
    minutes: u64,
    /// With --soak: only the slice of this seed
    #[arg(long, requires = "soak")]
    seed: Option<u64>,
}

/// Runs the tier that is asked for. The last line on standard output is `N passed, N failed`; what could not be run at all
/// counts as one failure.
pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<ExitCode> {
    if arguments.versions {
        return versions(workspace);
    }
    if arguments.interop {
        return others(workspace);
    }
    if arguments.soak {
        return soak::run(workspace, arguments.minutes, arguments.seed);
    }
    if arguments.failures {
        return failures::run(workspace, &arguments.cases);
    }
    let start = Instant::now();
    let mut counts = Counts::default();
    let mut count = |what: &str, outcome: Result<Counts>| counts += counted(what, outcome);
    count("the workspace's tests", workspace_tests(workspace));
    match prepare_interop(workspace) {
        Ok(()) => {
            // A tool waits for its JVM most of the time; a run with a rate to keep wants the machine for itself.
            let tools = run_counting(&mut interop(
                workspace,
                &[
                    "--skip",
                    "run::",
                    "--skip",
                    "broker_killed::",
                    "--skip",
                    "security::",
                    "--skip",
                    "versions::",
                    "--skip",
                    "python::",
                ],
                2,
            ));
            count("Kafka's tools and kcat", tools);
            count(
                "runs on real Kafka",
                on_real_kafka(workspace, &mut interop(workspace, &["run::"], 1)),
            );
            count(
                "TLS and SASL on real Kafka",
                on_secured_kafka(workspace, newest()?, &mut interop(workspace, &["security::"], 2)),
            );
            count(
                "a broker killed",
                run_counting(&mut interop(workspace, &["broker_killed::"], 1)),
            );
        }
        Err(error) => count("the interop tests", Err(error)),
    }
    ended(workspace, "test", start, counts, "")
}

/// What could not be run at all counts as one failure.
pub fn counted(what: &str, outcome: Result<Counts>) -> Counts {
    outcome.unwrap_or_else(|error| {
        eprintln!("{what}: {error:#}");
        Counts { passed: 0, failed: 1 }
    })
}

/// Writes down how a tier ended and says so.
pub fn ended(
    workspace: &Workspace,
    tier: &str,
    start: Instant,
    counts: Counts,
    besides: &str,
) -> Result<ExitCode> {
    let summary = format!("{} passed, {} failed", counts.passed, counts.failed);
    eprintln!("took {}", status::for_people(start.elapsed()));
    status::record(
        workspace,
        tier,
        start.elapsed(),
        counts.failed == 0,
        format!("{summary}{besides}"),
    )?;
    println!("{summary}");
    Ok(if counts.failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The releases of the tier `--versions`, and whether each is tested with TLS and SASL too.
const RELEASES: [(&str, bool); 5] = [
    ("4.4.0", true),
    ("3.9.2", true),
    ("2.8.2", false),
    ("2.4.1", false),
    ("2.1.1", false),
];

/// One release after the other. Releases that passed on this commit, in a run that was cut short, are not run again.
fn versions(workspace: &Workspace) -> Result<ExitCode> {
    const TIER: &str = "test --versions";
    let start = Instant::now();
    prepare_interop(workspace)?;
    let mut progress = Progress::of(workspace, TIER)?;
    for (release, has_security) in RELEASES {
        if let Some(counts) = progress.passed(release) {
            eprintln!(
                "Apache Kafka {release}: passed before on this commit ({} tests)",
                counts.passed
            );
            continue;
        }
        let version: kafka::Version = release.parse().map_err(anyhow::Error::msg)?;
        let mut counts = counted(
            release,
            on_release(workspace, version, &mut interop(workspace, &["versions::"], 1)),
        );
        if has_security {
            counts += counted(
                release,
                on_secured_kafka(workspace, version, &mut interop(workspace, &["security::"], 2)),
            );
        }
        progress.ended(workspace, release, counts)?;
    }
    let counts = progress.sum();
    let besides = progress.told();
    progress.over(workspace)?;
    ended(workspace, TIER, start, counts, &besides)
}

/// Other people's programs and tests on embedded brokers. What passed on this commit, in a run that was cut short, is not run
/// again.
fn others(workspace: &Workspace) -> Result<ExitCode> {
    const TIER: &str = "test --interop";
    let start = Instant::now();
    prepare_interop(workspace)?;
    let mut progress = Progress::of(workspace, TIER)?;
    let items: [(&str, &dyn Fn() -> Result<Counts>); 4] = [
        ("kafka's tools and kcat", &|| {
            run_counting(&mut interop(workspace, &["java_tools::", "kcat::"], 2))
        }),
        ("python clients", &|| {
            let python = suites::python(workspace)?;
            run_counting(interop(workspace, &["python::"], 1).env("PLIMSOLL_TEST_PYTHON", python))
        }),
        ("franz-go", &|| suites::franz_go(workspace)),
        ("kafka-python", &|| suites::kafka_python(workspace)),
    ];
    for (item, run) in items {
        if let Some(counts) = progress.passed(item) {
            eprintln!("{item}: passed before on this commit ({} tests)", counts.passed);
            continue;
        }
        progress.ended(workspace, item, counted(item, run()))?;
    }
    let counts = progress.sum();
    let besides = progress.told();
    progress.over(workspace)?;
    ended(workspace, TIER, start, counts, &besides)
}

fn newest() -> Result<kafka::Version> {
    kafka::DEFAULT_VERSION.parse().map_err(anyhow::Error::msg)
}

fn workspace_tests(workspace: &Workspace) -> Result<Counts> {
    run_counting(workspace.cargo().args(["test", "--workspace", "--no-fail-fast"]))
}

/// The release binary, and the programs that it is tested with.
pub fn prepare_interop(workspace: &Workspace) -> Result<()> {
    eprintln!("building the release binary");
    let built = workspace
        .cargo()
        .args(["build", "--release", "--package", "cli"])
        .status()?;
    ensure!(built.success(), "the release binary cannot be built");
    debian::java()?;
    debian::kcat()?;
    debian::faketime()?;
    debian::openssl()?;
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
    let plan = kafka::Plan {
        name: CLUSTER.to_owned(),
        version: newest()?,
        brokers: 3,
        properties: Vec::new(),
        secured: false,
    };
    on_cluster(workspace, &plan, tests)
}

/// Runs tests while one broker of that release is up.
fn on_release(workspace: &Workspace, version: kafka::Version, tests: &mut Command) -> Result<Counts> {
    let plan = kafka::Plan {
        name: format!("{CLUSTER}-{version}"),
        version,
        brokers: 1,
        properties: Vec::new(),
        secured: false,
    };
    on_cluster(workspace, &plan, tests)
}

/// Runs tests while one broker with TLS and SASL is up, which ends sessions after four seconds.
fn on_secured_kafka(workspace: &Workspace, version: kafka::Version, tests: &mut Command) -> Result<Counts> {
    let plan = kafka::Plan {
        name: format!("{CLUSTER}-secured-{version}"),
        version,
        brokers: 1,
        properties: vec![("connections.max.reauth.ms".to_owned(), "4000".to_owned())],
        secured: true,
    };
    on_cluster(workspace, &plan, tests)
}

fn on_cluster(workspace: &Workspace, plan: &kafka::Plan, tests: &mut Command) -> Result<Counts> {
    // A cluster that an interrupted run has left would not be fresh.
    kafka::down(workspace, &plan.name)?;
    eprintln!("starting Apache Kafka {}", plan.version);
    let bootstrap = kafka::up(workspace, plan)?;
    tests.env("PLIMSOLL_TEST_KAFKA_VERSION", plan.version.to_string());
    tests.env("PLIMSOLL_TEST_KAFKA", &bootstrap);
    if plan.secured {
        tests.env("PLIMSOLL_TEST_SECURED_KAFKA", &bootstrap);
        tests.env(
            "PLIMSOLL_TEST_SECURED_FILES",
            kafka::secured_directory(workspace, &plan.name)?,
        );
    }
    let counts = run_counting(tests);
    kafka::down(workspace, &plan.name)?;
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
