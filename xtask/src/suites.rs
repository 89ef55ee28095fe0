//! The integration tests that other Kafka clients bring for a broker, run against embedded brokers.
//!
//! They are fetched from the clients' registries and kept under `target/suites/`; nothing of them is committed but the lists of
//! what cannot pass, with reasons, in `xtask/suites/`.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::debian;
use crate::test::Counts;
use crate::workspace::Workspace;

/// The releases that are run.
const FRANZ_GO: &str = "v1.22.3";
const KAFKA_PYTHON: &str = "3.0.12";
const AIOKAFKA: &str = "0.14.0";
const CONFLUENT_KAFKA: &str = "2.16.1";

/// How one test ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    Passed,
    Failed,
}

/// franz-go's tests of its client.
pub fn franz_go(workspace: &Workspace) -> Result<Counts> {
    let go = debian::go()?;
    let home = directory(workspace, "franz-go")?;
    let module = format!("github.com/twmb/franz-go@{FRANZ_GO}");
    let source = home.join(FRANZ_GO);
    let command = |arguments: &[&str], at: &Path| {
        let mut command = Command::new(&go);
        command.args(arguments).current_dir(at).stdin(Stdio::null());
        command.env("GOPATH", home.join("go")).env("GOFLAGS", "-mod=mod");
        // A release that needs a newer Go than the machine has brings it.
        command.env("GOTOOLCHAIN", "auto");
        command
    };
    if !source.exists() {
        let output = command(&["mod", "download", "-json", &module], &home)
            .stderr(Stdio::inherit())
            .output()?;
        let told: serde_json::Value = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("go mod download {module} told nothing of use"))?;
        let fetched = told["Dir"]
            .as_str()
            .with_context(|| format!("cannot fetch {module}: {}", told["Error"]))?;
        copy_tree(Path::new(fetched), &source)?;
    }
    let brokers = Brokers::start(workspace, &["--brokers", "3"])?;
    eprintln!("franz-go {FRANZ_GO} on {}", brokers.bootstrap);
    let mut child = command(
        &["test", "-count=1", "-timeout", "20m", "-json", "./pkg/kgo/..."],
        &source,
    )
    .env("KGO_SEEDS", &brokers.bootstrap)
    .env("KGO_TEST_RF", "3")
    .env("KGO_TEST_RECORDS", "50000")
    .env("KGO_LOG_LEVEL", "none")
    .stdout(Stdio::piped())
    .spawn()?;
    let stdout = child.stdout.take().context("its output is piped")?;
    let mut outcomes = BTreeMap::new();
    let mut said: BTreeMap<String, String> = BTreeMap::new();
    for line in BufReader::new(stdout).lines() {
        let Ok(event) = serde_json::from_str::<serde_json::Value>(&line?) else {
            continue;
        };
        let Some(test) = event["Test"].as_str() else {
            continue;
        };
        match event["Action"].as_str() {
            Some("pass") => drop(outcomes.insert(test.to_owned(), Outcome::Passed)),
            Some("fail") => drop(outcomes.insert(test.to_owned(), Outcome::Failed)),
            Some("output") => said
                .entry(test.to_owned())
                .or_default()
                .push_str(event["Output"].as_str().unwrap_or_default()),
            _ => {}
        }
    }
    child.wait()?;
    without_parents(&mut outcomes);
    judge(workspace, "franz-go", &outcomes, &said)
}

/// kafka-python's integration tests.
pub fn kafka_python(workspace: &Workspace) -> Result<Counts> {
    let python = python(workspace)?;
    let home = directory(workspace, "kafka-python")?;
    let source = home.join(format!("kafka_python-{KAFKA_PYTHON}"));
    if !source.exists() {
        let wanted = format!("kafka-python=={KAFKA_PYTHON}");
        let mut pip = Command::new(&python);
        pip.args([
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--no-binary",
            ":all:",
        ]);
        succeeded(pip.args(["--dest", &home.to_string_lossy(), &wanted]))?;
        let archive = home.join(format!("kafka_python-{KAFKA_PYTHON}.tar.gz"));
        succeeded(Command::new("tar").arg("xzf").arg(&archive).arg("-C").arg(&home))?;
    }
    // What the release leaves out of its tests: the package file, and a module by which they start brokers of their own. With
    // a broker given from outside they need two names of it.
    fs::write(source.join("test/__init__.py"), "")?;
    fs::write(source.join("test/service.py"), EXTERNAL_SERVICE)?;
    let properties = [
        "--property",
        "num.partitions=4",
        "--property",
        "group.min.session.timeout.ms=100",
    ];
    let brokers = Brokers::start(workspace, &[&["--brokers", "1"][..], &properties].concat())?;
    eprintln!("kafka-python {KAFKA_PYTHON} on {}", brokers.bootstrap);
    let files =
        ["admin", "consumer", "producer"].map(|what| format!("test/integration/test_{what}_integration.py"));
    let pytest = |tests: &[String]| {
        Command::new(&python)
            .args([
                "-m",
                "pytest",
                "-q",
                "-rA",
                "--tb=short",
                "--timeout",
                "120",
                "-p",
                "no:cacheprovider",
            ])
            .args(tests)
            .current_dir(&source)
            .stdin(Stdio::null())
            .env("KAFKA_URI", format!("kafka://{}", brokers.bootstrap))
            .env("KAFKA_VERSION", "4.0.0")
            .env("KAFKA_ROOT", &source)
            .output()
    };
    let output = pytest(&files)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut outcomes = pytest_outcomes(&text);
    // A consumer of theirs that subscribes while its first question for metadata, of no topics, is on its way takes the answer for
    // that of its own, and sees its topic five minutes later. So what fails is run once more by itself, and that is told.
    let list = list_of(workspace, "kafka-python")?;
    let failed: Vec<String> = outcomes
        .iter()
        .filter(|(test, outcome)| **outcome == Outcome::Failed && !list.contains_key(*test))
        .map(|(test, _)| format!("test/integration/{test}"))
        .collect();
    if !failed.is_empty() && failed.len() <= MOST_REPEATED {
        eprintln!("kafka-python: once more: {}", failed.join(", "));
        let again = pytest(&failed)?;
        outcomes.extend(pytest_outcomes(&String::from_utf8_lossy(&again.stdout)));
    }
    let said = outcomes
        .keys()
        .map(|test| (test.clone(), last_lines_about(&text, test)))
        .collect();
    ensure!(
        !outcomes.is_empty(),
        "pytest ran nothing:\n{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    judge(workspace, "kafka-python", &outcomes, &said)
}

/// More failures than these are no accident.
const MOST_REPEATED: usize = 3;

const EXTERNAL_SERVICE: &str = "class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def stop(self):
        pass


class SpawnedService:
    pass
";

/// A Python with the clients that are run, in an environment of its own.
pub fn python(workspace: &Workspace) -> Result<PathBuf> {
    let home = directory(workspace, "python")?;
    let python = home.join("bin/python");
    let mark = home.join("installed.txt");
    let wanted = [
        format!("kafka-python=={KAFKA_PYTHON}"),
        format!("aiokafka=={AIOKAFKA}"),
        format!("confluent-kafka=={CONFLUENT_KAFKA}"),
        "pytest==8.4.2".to_owned(),
        "pytest-timeout==2.4.0".to_owned(),
        "crc32c".to_owned(),
        "lz4".to_owned(),
        "python-snappy".to_owned(),
        "zstandard".to_owned(),
        "setuptools".to_owned(),
        "wheel".to_owned(),
    ];
    let listed = wanted.join("\n");
    if fs::read_to_string(&mark).is_ok_and(|installed| installed == listed) {
        return Ok(python);
    }
    succeeded(Command::new(debian::python()?).args(["-m", "venv"]).arg(&home))?;
    let mut pip = Command::new(&python);
    succeeded(pip.args(["-m", "pip", "install", "--quiet"]).args(&wanted))?;
    fs::write(mark, listed)?;
    Ok(python)
}

fn succeeded(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{command:?}: {}\n{stderr}",
        output.status
    );
    Ok(())
}

fn directory(workspace: &Workspace, name: &str) -> Result<PathBuf> {
    let path = workspace.target().join("suites").join(name);
    fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
    Ok(path)
}

/// A copy that may be written to, which a module cache may not.
fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else {
            fs::write(&target, fs::read(entry.path())?)?;
        }
    }
    Ok(())
}

/// Embedded brokers in a process of their own, which ends with this value.
struct Brokers {
    child: Child,
    _stdout: BufReader<ChildStdout>,
    bootstrap: String,
}

impl Brokers {
    fn start(workspace: &Workspace, arguments: &[&str]) -> Result<Brokers> {
        let mut child = Command::new(workspace.target().join("release/plimsoll"))
            .args(["broker", "--listen", "127.0.0.1:0"])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot run the release binary")?;
        let mut stdout = BufReader::new(child.stdout.take().context("its output is piped")?);
        let mut line = String::new();
        while stdout.read_line(&mut line)? > 0 {
            if let Some(servers) = line.strip_prefix("bootstrap: ") {
                return Ok(Brokers {
                    bootstrap: servers.trim().to_owned(),
                    child,
                    _stdout: stdout,
                });
            }
            line.clear();
        }
        bail!("plimsoll broker ended without a bootstrap line")
    }
}

impl Drop for Brokers {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A test fails with each of its parts: only the parts are judged.
fn without_parents(outcomes: &mut BTreeMap<String, Outcome>) {
    let names: Vec<String> = outcomes.keys().cloned().collect();
    outcomes.retain(|name, _| !names.iter().any(|other| other.starts_with(&format!("{name}/"))));
}

/// What pytest's summary (`-rA`) says, without the directories.
fn pytest_outcomes(text: &str) -> BTreeMap<String, Outcome> {
    let mut outcomes = BTreeMap::new();
    for line in text.lines() {
        let outcome = match line.split_once(' ') {
            Some(("PASSED", rest)) => (rest, Outcome::Passed),
            Some(("FAILED" | "ERROR", rest)) => (rest, Outcome::Failed),
            _ => continue,
        };
        let name = outcome.0.split(" - ").next().unwrap_or_default();
        if let Some(name) = name.strip_prefix("test/integration/") {
            outcomes.insert(name.to_owned(), outcome.1);
        }
    }
    outcomes
}

fn last_lines_about(text: &str, test: &str) -> String {
    let short = test.rsplit("::").next().unwrap_or(test);
    let lines: Vec<&str> = text.lines().filter(|line| line.contains(short)).collect();
    lines[lines.len().saturating_sub(5)..].join("\n")
}

/// The tests of a suite that cannot pass.
fn list_of(workspace: &Workspace, suite: &str) -> Result<BTreeMap<String, String>> {
    let path = workspace.root().join(format!("xtask/suites/{suite}.txt"));
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    listed(&text)
}

/// Holds what failed against the list of what cannot pass.
fn judge(
    workspace: &Workspace,
    suite: &str,
    outcomes: &BTreeMap<String, Outcome>,
    said: &BTreeMap<String, String>,
) -> Result<Counts> {
    let listed = list_of(workspace, suite)?;
    let (counts, complaints) = judged(outcomes, &listed);
    for (test, complaint) in complaints {
        eprintln!("{suite}: {test}: {complaint}");
        let said = said.get(&test).map_or("", String::as_str);
        eprintln!("{}", tail(said, 2000));
    }
    println!(
        "{suite}: {} tests as expected, {} of them listed as impossible; {} not",
        counts.passed,
        listed.len(),
        counts.failed
    );
    Ok(counts)
}

fn tail(text: &str, bytes: usize) -> &str {
    let mut start = text.len().saturating_sub(bytes);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

/// The tests of a list, with their reasons.
fn listed(text: &str) -> Result<BTreeMap<String, String>> {
    let mut listed = BTreeMap::new();
    let entries = text
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    for line in entries {
        let (test, reason) = line
            .split_once(": ")
            .with_context(|| format!("no reason is given: {line}"))?;
        listed.insert(test.to_owned(), reason.to_owned());
    }
    Ok(listed)
}

fn judged(
    outcomes: &BTreeMap<String, Outcome>,
    listed: &BTreeMap<String, String>,
) -> (Counts, Vec<(String, &'static str)>) {
    let mut counts = Counts::default();
    let mut complaints = Vec::new();
    for (test, outcome) in outcomes {
        let complaint = match (outcome, listed.contains_key(test)) {
            (Outcome::Passed, false) | (Outcome::Failed, true) => None,
            (Outcome::Failed, false) => Some("failed, and is not listed as impossible"),
            (Outcome::Passed, true) => Some("is listed as impossible, and passed"),
        };
        match complaint {
            None => counts.passed += 1,
            Some(complaint) => {
                counts.failed += 1;
                complaints.push((test.clone(), complaint));
            }
        }
    }
    for test in listed.keys().filter(|test| !outcomes.contains_key(*test)) {
        counts.failed += 1;
        complaints.push((test.clone(), "is listed as impossible, and did not run"));
    }
    (counts, complaints)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes(list: &[(&str, Outcome)]) -> BTreeMap<String, Outcome> {
        list.iter()
            .map(|(name, outcome)| ((*name).to_owned(), *outcome))
            .collect()
    }

    #[test]
    fn a_failure_must_be_listed_and_what_is_listed_must_fail() {
        let listed = listed("# a list\nb: not served\nc: not served\nd: not served\n").expect("a list");
        let ran = outcomes(&[
            ("a", Outcome::Passed),
            ("b", Outcome::Failed),
            ("c", Outcome::Passed),
            ("e", Outcome::Failed),
        ]);
        let (counts, complaints) = judged(&ran, &listed);
        assert_eq!(counts, Counts { passed: 2, failed: 3 });
        let named: Vec<&str> = complaints.iter().map(|(test, _)| test.as_str()).collect();
        assert_eq!(named, ["c", "e", "d"]);
    }

    #[test]
    fn every_entry_of_a_list_has_a_reason() {
        assert!(listed("TestOne\n").is_err());
        for list in [
            include_str!("../suites/franz-go.txt"),
            include_str!("../suites/kafka-python.txt"),
        ] {
            assert!(!listed(list).expect("reasons").is_empty());
        }
    }

    #[test]
    fn parts_of_a_test_stand_for_it() {
        let mut ran = outcomes(&[
            ("Group", Outcome::Failed),
            ("Group/range", Outcome::Failed),
            ("Groups", Outcome::Passed),
        ]);
        without_parents(&mut ran);
        assert_eq!(ran.keys().collect::<Vec<_>>(), ["Group/range", "Groups"]);
    }

    #[test]
    fn the_summary_of_pytest_is_read() {
        let text = "PASSED test/integration/test_a.py::test_one[x]\n\
                    FAILED test/integration/test_a.py::test_two - AssertionError: no - not so\n\
                    ERROR test/integration/test_b.py::test_three - OSError\n\
                    2 failed, 1 passed in 3.1s\n";
        assert_eq!(
            pytest_outcomes(text),
            outcomes(&[
                ("test_a.py::test_one[x]", Outcome::Passed),
                ("test_a.py::test_two", Outcome::Failed),
                ("test_b.py::test_three", Outcome::Failed),
            ])
        );
    }
}
