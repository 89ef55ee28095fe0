//! One of three real brokers is killed under load and started again: what plimsoll says of it is held against kcat.

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::java_tools;
use crate::program::{self, Ended};
use crate::run::{Scratch, count};

const CLUSTER: &str = "test-fault";

/// The node that is killed.
const VICTIM: u32 = 2;

/// A cluster of this test's own, for the others want theirs whole; gone with this value.
struct Cluster {
    bootstrap: String,
}

impl Cluster {
    fn up() -> Self {
        // One that a broken run has left is not fresh.
        kafka(&["down", "--name", CLUSTER]).succeeded();
        let told = kafka(&["up", "--name", CLUSTER]).succeeded();
        let bootstrap = told
            .lines()
            .last()
            .and_then(|line| line.strip_prefix("bootstrap: "))
            .expect("a bootstrap line");
        Self {
            bootstrap: bootstrap.to_owned(),
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Not `kafka`, which panics: a test may be failing already.
        let _ = Command::new(env!("CARGO_BIN_EXE_xtask"))
            .args(["kafka", "down", "--name", CLUSTER])
            .status();
    }
}

#[track_caller]
fn kafka(arguments: &[&str]) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    program::run(command.arg("kafka").args(arguments), "", Duration::from_secs(240))
}

/// kcat, which sends a record every 20 ms to one partition whose records bear the time at which the leader appended them.
struct Probe {
    kcat: Child,
    /// Returns by how much its worst wait was too long: how much this machine disturbs those who wait on it.
    feeder: JoinHandle<Duration>,
    ends: Arc<AtomicBool>,
}

const PROBE_TOPIC: &str = "probe";

/// Time between two records of the probe.
const BEAT: Duration = Duration::from_millis(20);

impl Probe {
    fn start(bootstrap: &str, partition: u64) -> Self {
        let settings = [
            "acks=all",
            "max.in.flight=1",
            "linger.ms=0",
            "retry.backoff.ms=50",
            "reconnect.backoff.max.ms=100",
            // It should hear of the new leader when there is one, and not when it gets round to asking.
            "topic.metadata.refresh.interval.ms=100",
        ];
        let mut kcat = Command::new("kcat")
            .args([
                "-b",
                bootstrap,
                "-P",
                "-t",
                PROBE_TOPIC,
                "-p",
                &partition.to_string(),
            ])
            .args(settings.iter().flat_map(|setting| ["-X", setting]))
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("kcat runs");
        let mut input = kcat.stdin.take().expect("its input is piped");
        let ends = Arc::new(AtomicBool::new(false));
        let feeder = std::thread::spawn({
            let ends = Arc::clone(&ends);
            move || {
                let mut worst = Duration::ZERO;
                while !ends.load(Ordering::Relaxed) && input.write_all(b"beat\n").is_ok() {
                    let start = Instant::now();
                    std::thread::sleep(BEAT);
                    worst = worst.max(start.elapsed() - BEAT);
                }
                worst
            }
        });
        Self { kcat, feeder, ends }
    }

    /// Ends it, and returns the longest time between two neighbouring records of its partition, and the worst disturbance.
    fn longest_gap(mut self, bootstrap: &str, partition: u64) -> (Duration, Duration) {
        self.ends.store(true, Ordering::Relaxed);
        let disturbance = self.feeder.join().expect("the feeder ends");
        program::wait(&mut self.kcat, Duration::from_secs(30)).expect("kcat ends with its input");
        let partition = partition.to_string();
        let read = [
            "-b",
            bootstrap,
            "-C",
            "-t",
            PROBE_TOPIC,
            "-p",
            &partition,
            "-o",
            "beginning",
            "-e",
            "-q",
            "-f",
            "%T\n",
        ];
        let told = program::run(Command::new("kcat").args(read), "", Duration::from_secs(60)).succeeded();
        let times_ms: Vec<u64> = told.lines().filter_map(|line| line.parse().ok()).collect();
        assert!(times_ms.len() > 100, "the probe sent {} records", times_ms.len());
        let gaps = times_ms.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
        (Duration::from_millis(gaps.max().unwrap_or_default()), disturbance)
    }
}

/// The partition of the probe's topic that the victim leads.
fn led_by_victim(bootstrap: &str) -> u64 {
    let told = program::run(
        Command::new("kcat").args(["-b", bootstrap, "-L", "-J", "-t", PROBE_TOPIC]),
        "",
        Duration::from_secs(30),
    )
    .succeeded();
    let metadata: Value = serde_json::from_str(&told).expect("kcat -J prints JSON");
    let partitions = metadata["topics"][0]["partitions"]
        .as_array()
        .expect("partitions");
    let led = partitions
        .iter()
        .find(|partition| partition["leader"] == VICTIM)
        .expect("each node leads one of three");
    led["partition"].as_u64().expect("a number")
}

#[test]
fn a_broker_that_is_killed_costs_time_and_no_record_that_was_acknowledged() {
    let cluster = Cluster::up();
    let bootstrap = cluster.bootstrap.clone();
    java_tools::create_topic(
        &bootstrap,
        PROBE_TOPIC,
        3,
        3,
        &["min.insync.replicas=2", "message.timestamp.type=LogAppendTime"],
    );
    let probed = led_by_victim(&bootstrap);
    let scratch = Scratch::new("broker-killed");
    scratch.write_target(&bootstrap);
    let run = std::thread::spawn(move || {
        let load = [
            "--topics",
            "3",
            "--partitions",
            "12",
            "--record-size",
            "512",
            "--consumers-per-subscription",
            "3",
        ];
        let time = ["--rate", "5000", "--warmup", "5s", "--duration", "40s"];
        // The wait between tries is the client's own, and not what is compared.
        let tries = ["-X", "retry.backoff.max.ms=100"];
        scratch.run(&[&["--target", "driver-kafka.yaml"], &load[..], &time, &tries].concat())
    });
    let probe = Probe::start(&bootstrap, probed);
    // Five seconds of warm-up, then half of what is measured.
    std::thread::sleep(Duration::from_secs(25));
    kafka(&["kill", &VICTIM.to_string(), "--name", CLUSTER]).succeeded();
    std::thread::sleep(Duration::from_secs(10));
    kafka(&["restart", &VICTIM.to_string(), "--name", CLUSTER]).succeeded();
    let result = run.join().expect("the run's result");
    let (stall, disturbance) = probe.longest_gap(&bootstrap, probed);

    let totals = &result["whole_run"];
    let ended: u64 = ["unsent", "acknowledged", "refused", "unknown", "unfinished"]
        .map(|end| count(&totals[format!("{end}_count")]))
        .iter()
        .sum();
    assert_eq!(count(&totals["due_count"]), ended, "{totals:#}");
    assert!(count(&totals["due_count"]) >= 224_000, "{totals:#}");
    assert_eq!(count(&totals["verification"]["lost_count"]), 0, "{totals:#}");
    assert_eq!(count(&totals["verification"]["reordered_count"]), 0, "{totals:#}");
    assert!(
        count(&totals["confirmed_count"]) >= count(&totals["acknowledged_count"]),
        "{totals:#}"
    );

    let measured = result["phases"]
        .as_array()
        .expect("phases")
        .iter()
        .find(|phase| phase["name"] == "measure");
    let latencies = measured.expect("a measured phase")["latencies"]
        .as_array()
        .expect("latencies");
    let response = latencies
        .iter()
        .find(|latency| latency["metric"] == "response")
        .expect("response times");
    let longest = Duration::from_nanos(count(&response["max_ns"]));
    // A node is fenced 9 s after its last heartbeat at the latest; heartbeats come every 2 s.
    assert!(
        stall > Duration::from_secs(2),
        "the probe noticed nothing: {stall:?}"
    );
    assert!(
        longest.abs_diff(stall) <= Duration::from_millis(500) + disturbance,
        "plimsoll says {longest:?}, the probe {stall:?}; waits on this machine were up to {disturbance:?} too long"
    );
}
