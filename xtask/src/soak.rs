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

use crate::accounts;
use crate::draw::Draw;
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
            .then(|| real_kafka(workspace))
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
    let real = real_kafka(workspace)?;
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

fn real_kafka(workspace: &Workspace) -> Result<kafka::Running<'_>> {
    let properties = [("group.initial.rebalance.delay.ms", "200")];
    kafka::Running::start(workspace, CLUSTER, BROKERS, &properties)
}

/// Kills or pauses one node after the other, at drawn times, as long as the child runs; all of them run at the end.
fn trouble(real: &kafka::Running<'_>, draw: &mut Draw, child: &mut Child) -> Result<()> {
    loop {
        let wait = Duration::from_millis(draw.between(1000, 4000));
        if has_ended_within(child, wait)? {
            return Ok(());
        }
        let node = draw.between(1, BROKERS.into()) as u32;
        let away = Duration::from_millis(draw.between(500, 4000));
        if draw.one_in(2) {
            real.kill(node)?;
            has_ended_within(child, away)?;
            real.restart(node)?;
        } else {
            real.pause(node)?;
            let ended = has_ended_within(child, away);
            real.resume(node)?;
            ended?;
        }
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
fn slice(workspace: &Workspace, seed: u64, real: Option<&kafka::Running<'_>>) -> Result<Counts> {
    let mut draw = Draw::of(seed);
    let load = Load::draw(&mut draw);
    let home = workspace.target().join("soak");
    fs::create_dir_all(&home)?;
    let mut command = plimsoll(workspace, &load.keys, &load.properties)?;
    let real = real.filter(|_| is_on_real_kafka(seed));
    let at = match real {
        Some(real) => {
            command.args(["--bootstrap-server", real.bootstrap()]);
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
        trouble(real, &mut draw, &mut child)?;
    }
    let result = result_of(child, &output)?;
    let broken = accounts::broken(&result, load.is_transactional);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_gives_the_same_slice() {
        for seed in 0..50 {
            assert_eq!(Load::draw(&mut Draw::of(seed)), Load::draw(&mut Draw::of(seed)));
            assert_eq!(script(&mut Draw::of(seed)), script(&mut Draw::of(seed)));
        }
        assert_ne!(Load::draw(&mut Draw::of(1)), Load::draw(&mut Draw::of(2)));
    }
}
