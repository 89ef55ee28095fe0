//! `cargo x test --soak`: loads drawn by seed, on embedded brokers and on real Kafka, while brokers go and come back, stall,
//! refuse and hang up; and what must hold for every one of them.
//!
//! Each slice is one run of the binary. What it does follows from its seed, so a slice that fails is run again by that. First of
//! all the checker is checked: brokers that lose, double or swap one record in a million have to be found out.

use std::fmt::Write as _;
use std::fs;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::kafka;
use crate::status;
use crate::test::{Counts, counted, ended, prepare_interop};
use crate::tier::Progress;
use crate::workspace::Workspace;

const TIER: &str = "test --soak";
const CLUSTER: &str = "soak";
const BROKERS: u32 = 3;
/// How long a slice takes, about.
const SLICE: Duration = Duration::from_secs(30);
/// How long a slice may take over all, its drain included.
const AT_MOST: Duration = Duration::from_secs(180);

/// Runs slices for about so long; with a seed, that slice alone.
pub fn run(workspace: &Workspace, minutes: u64, seed: Option<u64>) -> Result<ExitCode> {
    let start = Instant::now();
    prepare_interop(workspace)?;
    if let Some(seed) = seed {
        let real = is_on_real_kafka(seed)
            .then(|| RealKafka::start(workspace))
            .transpose()?;
        let counts = counted(&format!("seed {seed}"), slice(workspace, seed, real.as_ref()));
        return ended(workspace, "test --soak --seed", start, counts, "");
    }
    let mut progress = Progress::of(workspace, TIER)?;
    for lie in ["lose", "double", "swap"] {
        let item = format!("checker {lie}");
        if progress.passed(&item).is_none() {
            let outcome = counted(&item, is_found_out(workspace, lie));
            progress.ended(workspace, &item, outcome)?;
        }
    }
    let first = status::now_seconds();
    let real = RealKafka::start(workspace)?;
    // A run that was cut short on this commit has done its part of the time.
    let before = SLICE * progress.passed_of("seed ") as u32;
    let length = Duration::from_secs(60 * minutes).saturating_sub(before);
    let (began, mut done) = (Instant::now(), 0);
    while began.elapsed() < length {
        let seed = first + done;
        let outcome = counted(&format!("seed {seed}"), slice(workspace, seed, Some(&real)));
        if outcome.failed > 0 {
            eprintln!("run it again with: cargo x test --soak --seed {seed}");
        }
        progress.ended(workspace, &format!("seed {seed}"), outcome)?;
        done += 1;
    }
    drop(real);
    let counts = progress.sum();
    let besides = format!(": {done} slices from seed {first} on, {minutes} min");
    progress.over(workspace)?;
    ended(workspace, TIER, start, counts, &besides)
}

fn is_on_real_kafka(seed: u64) -> bool {
    seed % 2 == 1
}

/// Numbers that follow from a seed (SplitMix64).
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From the first to the last, both included.
    fn between(&mut self, first: u64, last: u64) -> u64 {
        first + self.next() % (last - first + 1)
    }

    fn one_of<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[(self.next() % list.len() as u64) as usize]
    }

    fn one_in(&mut self, many: u64) -> bool {
        self.next().is_multiple_of(many)
    }
}

/// The workload and the client properties of a slice.
#[derive(Debug, PartialEq, Eq)]
struct Load {
    keys: Vec<String>,
    properties: Vec<String>,
    is_transactional: bool,
}

impl Load {
    fn draw(draw: &mut Draw) -> Load {
        let is_transactional = draw.one_in(3);
        let topics = draw.between(1, 2);
        let keys = vec![
            format!("topics={topics}"),
            format!("partitionsPerTopic={}", draw.between(1, 8)),
            format!("messageSize={}", draw.between(24, 1500)),
            format!("producersPerTopic={}", draw.between(1, 3)),
            format!("producerRate={}", draw.between(500, 15_000)),
            format!("subscriptionsPerTopic={}", draw.between(1, 2)),
            format!("consumerPerSubscription={}", draw.between(1, 3)),
            format!(
                "keyDistributor={}",
                draw.one_of(&["NO_KEY", "KEY_ROUND_ROBIN", "RANDOM_NANO"])
            ),
            format!("seed={}", draw.between(1, 1_000_000)),
            format!("transactional={is_transactional}"),
            format!("transactionDuration={}ms", draw.between(50, 1000)),
            "warmupDuration=0s".to_owned(),
            "testDuration=12s".to_owned(),
        ];
        let mut properties = vec![
            format!("linger.ms={}", draw.between(0, 20)),
            format!("batch.size={}", draw.one_of(&["0", "1000", "16384", "262144"])),
            format!(
                "compression.type={}",
                draw.one_of(&["none", "gzip", "snappy", "lz4", "zstd"])
            ),
            format!("max.in.flight.requests.per.connection={}", draw.between(1, 5)),
            "retry.backoff.max.ms=200".to_owned(),
            "request.timeout.ms=5000".to_owned(),
            format!("enable.auto.commit={}", draw.one_of(&["true", "false"])),
            "auto.commit.interval.ms=500".to_owned(),
        ];
        if is_transactional {
            properties.push("isolation.level=read_committed".to_owned());
        }
        if draw.one_in(3) {
            properties.push("group.protocol=consumer".to_owned());
        } else {
            let strategy = draw.one_of(&["range", "roundrobin", "sticky", "cooperative-sticky"]);
            properties.push(format!("partition.assignment.strategy={strategy}"));
            properties.push("session.timeout.ms=6000".to_owned());
            properties.push("heartbeat.interval.ms=500".to_owned());
        }
        Load {
            keys,
            properties,
            is_transactional,
        }
    }
}

/// A script of trouble for the embedded brokers. At most one broker is away at a time, so that nothing acknowledged by all
/// in-sync replicas may be lost.
fn script(draw: &mut Draw) -> String {
    let mut text = format!("seed: {}\nrules:\n", draw.between(1, 1_000_000));
    let mut from_ms = draw.between(500, 2500);
    while from_ms < 10_000 {
        let for_ms = draw.between(300, 2500);
        let broker = draw.between(1, BROKERS.into());
        let what = match draw.between(0, 3) {
            0 => format!("down: {broker}"),
            1 => format!("follower_stops: {broker}"),
            2 => format!("broker: {broker}, stall: true"),
            _ => format!("broker: {broker}, drop: true, every_nth: {}", draw.between(3, 40)),
        };
        // Writing to a text does not fail.
        let _ = writeln!(text, "  - {{ {what}, from: {from_ms}ms, for: {for_ms}ms }}");
        from_ms += for_ms + draw.between(300, 3000);
    }
    for error in [
        "NOT_ENOUGH_REPLICAS",
        "REQUEST_TIMED_OUT",
        "NOT_LEADER_OR_FOLLOWER",
    ] {
        if draw.one_in(2) {
            let way = if error == "REQUEST_TIMED_OUT" {
                "error_after"
            } else {
                "error"
            };
            let nth = draw.between(20, 300);
            let _ = writeln!(text, "  - {{ api: Produce, {way}: {error}, every_nth: {nth} }}");
        }
    }
    if draw.one_in(2) {
        let _ = writeln!(
            text,
            "  - {{ api: Fetch, delay: {{ uniform: [0ms, {}ms] }} }}",
            draw.between(1, 40)
        );
    }
    text
}

/// A real cluster that is up as long as this value.
struct RealKafka<'a> {
    workspace: &'a Workspace,
    bootstrap: String,
}

impl<'a> RealKafka<'a> {
    fn start(workspace: &'a Workspace) -> Result<RealKafka<'a>> {
        kafka::down(workspace, CLUSTER)?;
        let plan = kafka::Plan {
            name: CLUSTER.to_owned(),
            version: kafka::DEFAULT_VERSION.parse().map_err(anyhow::Error::msg)?,
            brokers: BROKERS,
            properties: vec![("group.initial.rebalance.delay.ms".to_owned(), "200".to_owned())],
            secured: false,
        };
        eprintln!("starting Apache Kafka {}", plan.version);
        let bootstrap = kafka::up(workspace, &plan)?;
        Ok(RealKafka { workspace, bootstrap })
    }

    /// Kills or pauses one node after the other, at drawn times, as long as the child runs; all of them run at the end.
    fn trouble(&self, draw: &mut Draw, child: &mut Child) -> Result<()> {
        loop {
            let wait = Duration::from_millis(draw.between(1000, 4000));
            if has_ended_within(child, wait)? {
                return Ok(());
            }
            let node = draw.between(1, BROKERS.into()) as u32;
            let away = Duration::from_millis(draw.between(500, 4000));
            if draw.one_in(2) {
                kafka::kill(self.workspace, CLUSTER, node)?;
                has_ended_within(child, away)?;
                kafka::restart(self.workspace, CLUSTER, node)?;
            } else {
                kafka::pause(self.workspace, CLUSTER, node)?;
                let ended = has_ended_within(child, away);
                kafka::resume(self.workspace, CLUSTER, node)?;
                ended?;
            }
        }
    }
}

impl Drop for RealKafka<'_> {
    fn drop(&mut self) {
        // What cannot be stopped now is stopped before the next start.
        let _ = kafka::down(self.workspace, CLUSTER);
    }
}

fn has_ended_within(child: &mut Child, time: Duration) -> Result<bool> {
    let until = Instant::now() + time;
    while Instant::now() < until {
        if child.try_wait()?.is_some() {
            return Ok(true);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(false)
}

/// One run, as its seed has it, and the checks of its result.
fn slice(workspace: &Workspace, seed: u64, real: Option<&RealKafka<'_>>) -> Result<Counts> {
    let mut draw = Draw(seed);
    let load = Load::draw(&mut draw);
    let home = workspace.target().join("soak");
    fs::create_dir_all(&home)?;
    let mut command = plimsoll(workspace, &load.keys, &load.properties)?;
    let real = real.filter(|_| is_on_real_kafka(seed));
    let at = match real {
        Some(real) => {
            command.args(["--bootstrap-server", &real.bootstrap]);
            "Apache Kafka"
        }
        None => {
            let path = home.join("script.yaml");
            fs::write(&path, script(&mut draw))?;
            command.arg("--broker-script").arg(&path);
            "embedded brokers"
        }
    };
    eprintln!(
        "seed {seed}, {at}: {} {}",
        load.keys.join(" "),
        load.properties.join(" ")
    );
    let (mut child, output) = spawn(command, &home)?;
    if let Some(real) = real {
        real.trouble(&mut draw, &mut child)?;
    }
    let result = result_of(child, &output)?;
    let broken = broken(&result, load.is_transactional);
    for what in &broken {
        eprintln!("seed {seed}: {what}");
    }
    if !broken.is_empty() {
        eprintln!("{:#}\n{:#}", result["whole_run"], result["errors"]);
    }
    Ok(Counts {
        passed: u64::from(broken.is_empty()),
        failed: u64::from(!broken.is_empty()),
    })
}

/// A broker that lies about one record in a million is found out, and the exit status says so.
fn is_found_out(workspace: &Workspace, lie: &str) -> Result<Counts> {
    let home = workspace.target().join("soak");
    fs::create_dir_all(&home)?;
    let path = home.join("lie.yaml");
    fs::write(
        &path,
        format!("rules:\n  - {{ api: Produce, lie: {lie}, from_request: 700000, requests: 1 }}\n"),
    )?;
    // One record a request, so that the request is the record.
    let keys = [
        "topics=1",
        "partitionsPerTopic=1",
        "messageSize=24",
        "producerRate=max",
        "warmupDuration=0s",
        "testRecords=1000000",
    ];
    let properties = ["batch.size=0", "linger.ms=0"];
    let owned = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let mut command = plimsoll(workspace, &owned(&keys), &owned(&properties))?;
    command.arg("--broker-script").arg(&path);
    eprintln!("a broker that is to {lie} one record in a million");
    let (mut child, output) = spawn(command, &home)?;
    ensure!(
        has_ended_within(&mut child, AT_MOST)?,
        "it did not end within {AT_MOST:?}"
    );
    let status = child.wait()?;
    let result: Value = serde_json::from_slice(&fs::read(&output)?).context("its result is no JSON")?;
    let found = &result["whole_run"]["verification"];
    let count = match lie {
        "lose" => &found["lost_count"],
        "double" => &found["duplicated_count"],
        _ => &found["reordered_count"],
    };
    ensure!(
        count.as_u64().is_some_and(|count| count > 0),
        "it was not found out: {found}"
    );
    ensure!(
        !status.success(),
        "it was found out, and the exit status does not say so"
    );
    Ok(Counts { passed: 1, failed: 0 })
}

fn plimsoll(workspace: &Workspace, keys: &[String], properties: &[String]) -> Result<Command> {
    let mut command = Command::new(workspace.target().join("release/plimsoll"));
    command.args(["run", "--json", "--replication-factor", "3"]);
    command.args([
        "--topic-config",
        "min.insync.replicas=2",
        "--drain-timeout",
        "60s",
    ]);
    for key in keys {
        command.args(["--set", key]);
    }
    for property in properties {
        command.args(["-X", property]);
    }
    Ok(command)
}

/// Starts it with its output in a file.
fn spawn(mut command: Command, home: &std::path::Path) -> Result<(Child, std::path::PathBuf)> {
    let output = home.join("result.json");
    let told = home.join("told.txt");
    command
        .current_dir(home)
        .stdin(Stdio::null())
        .stdout(fs::File::create(&output)?)
        .stderr(fs::File::create(&told)?);
    Ok((command.spawn().context("cannot run the release binary")?, output))
}

fn result_of(mut child: Child, output: &std::path::Path) -> Result<Value> {
    if !has_ended_within(&mut child, AT_MOST)? {
        child.kill()?;
        child.wait()?;
        anyhow::bail!("it did not end within {AT_MOST:?}");
    }
    serde_json::from_slice(&fs::read(output)?).with_context(|| {
        let told = fs::read_to_string(output.with_file_name("told.txt")).unwrap_or_default();
        format!("it gave no result:\n{told}")
    })
}

/// What does not hold of a result that must.
fn broken(result: &Value, is_transactional: bool) -> Vec<String> {
    let mut broken = Vec::new();
    let totals = &result["whole_run"];
    let count = |name: &str| totals[name].as_u64().unwrap_or(0);
    let mut must = |holds: bool, what: &str| {
        if !holds {
            broken.push(what.to_owned());
        }
    };
    must(
        result["status"]["state"] == "complete",
        "the run did not complete",
    );
    must(
        count("due_count") == count("unsent_count") + count("sent_count"),
        "due = unsent + sent",
    );
    let open = count("unknown_count") + count("unfinished_count");
    must(
        count("sent_count") == count("acknowledged_count") + count("refused_count") + open,
        "sent = acknowledged + refused + unknown + unfinished",
    );
    let confirmed = totals["confirmed_count"].as_u64();
    must(confirmed.is_some(), "the brokers' end offsets were not known");
    if let Some(confirmed) = confirmed {
        must(
            count("acknowledged_count") <= confirmed,
            "what was acknowledged is in the log (acknowledged ≤ confirmed)",
        );
        // A transaction that is aborted may leave in the log what was refused of it.
        let aborted = totals["transactions"]["aborted_count"].as_u64().unwrap_or(0) > 0;
        must(
            confirmed <= count("acknowledged_count") + open || (is_transactional && aborted),
            "nothing is in the log twice (confirmed ≤ acknowledged + unknown + unfinished)",
        );
    }
    let found = &totals["verification"];
    for name in [
        "lost_count",
        "unread_count",
        "duplicated_count",
        "reordered_count",
        "corrupt_count",
        "foreign_count",
    ] {
        must(found[name] == 0, &format!("{name} is 0"));
    }
    let ahead = &found["committed_ahead_count"];
    must(ahead == 0, "committed offsets are not ahead of what was given");
    must(count("sent_count") > 0, "anything was sent at all");
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_gives_the_same_slice() {
        for seed in 0..50 {
            assert_eq!(Load::draw(&mut Draw(seed)), Load::draw(&mut Draw(seed)));
            assert_eq!(script(&mut Draw(seed)), script(&mut Draw(seed)));
        }
        assert_ne!(Load::draw(&mut Draw(1)), Load::draw(&mut Draw(2)));
    }

    #[test]
    fn what_does_not_hold_is_named() {
        let sound = serde_json::json!({
            "status": { "state": "complete" },
            "whole_run": {
                "due_count": 10, "unsent_count": 1, "sent_count": 9, "acknowledged_count": 8, "refused_count": 0,
                "unknown_count": 1, "unfinished_count": 0, "confirmed_count": 9,
                "verification": {
                    "lost_count": 0, "unread_count": 0, "duplicated_count": 0, "reordered_count": 0, "corrupt_count": 0,
                    "foreign_count": 0, "committed_ahead_count": 0
                }
            }
        });
        assert_eq!(broken(&sound, false), Vec::<String>::new());
        for (path, value) in [
            ("/whole_run/verification/lost_count", 1),
            ("/whole_run/verification/duplicated_count", 1),
            ("/whole_run/verification/reordered_count", 1),
            ("/whole_run/verification/committed_ahead_count", 3),
            ("/whole_run/confirmed_count", 7),
            ("/whole_run/confirmed_count", 10),
            ("/whole_run/refused_count", 1),
            ("/whole_run/unsent_count", 0),
        ] {
            let mut result = sound.clone();
            *result.pointer_mut(path).expect("it is there") = value.into();
            assert_eq!(broken(&result, false).len(), 1, "{path} = {value}");
        }
    }
}
