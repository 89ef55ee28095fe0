//! One of three real brokers is killed under load and started again: what plimsoll says of it is held against kcat.

use std::process::Command;
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
        // A follower that asks a leader which does not know yet that it is one waits for so long, 1 s by default: on some
        // partitions and not on others, so that those of the run would stall longer than those of the probes, or shorter.
        let soon = ["--property", "replica.fetch.backoff.ms=50"];
        let told = kafka(&[&["up", "--name", CLUSTER], &soon[..]].concat()).succeeded();
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

/// kcat, started again and again: each sends one record to one partition and ends when that is acknowledged.
struct Probe {
    seen: JoinHandle<Seen>,
    ends: Arc<AtomicBool>,
}

/// What the probe saw.
struct Seen {
    records: u32,
    /// The longest that one record took from the start of its kcat to the end: the stall was at least so long.
    longest: Duration,
    /// The longest time between two acknowledgements: the stall was at most so long.
    longest_silence: Duration,
    /// By how much the worst wait was too long: how much this machine disturbs those who wait on it.
    disturbance: Duration,
}

const PROBE_TOPIC: &str = "probe";

/// Pause between two records of the probe.
const PAUSE: Duration = Duration::from_millis(100);

impl Probe {
    fn start(bootstrap: &str, partition: u64) -> Self {
        let settings = [
            "acks=all",
            "linger.ms=0",
            "retry.backoff.ms=50",
            "reconnect.backoff.max.ms=100",
            // It should hear of the new leader when there is one, and not when it gets round to asking.
            "topic.metadata.refresh.interval.ms=100",
        ];
        let mut kcat = Command::new("kcat");
        kcat.args([
            "-b",
            bootstrap,
            "-P",
            "-t",
            PROBE_TOPIC,
            "-p",
            &partition.to_string(),
        ]);
        kcat.args(settings.iter().flat_map(|setting| ["-X", setting]));
        let ends = Arc::new(AtomicBool::new(false));
        let seen = std::thread::spawn({
            let ends = Arc::clone(&ends);
            move || {
                let mut seen = Seen {
                    records: 0,
                    longest: Duration::ZERO,
                    longest_silence: Duration::ZERO,
                    disturbance: Duration::ZERO,
                };
                let mut start = Instant::now();
                let mut last_acknowledged = start;
                while !ends.load(Ordering::Relaxed) {
                    // A record that is given up is sent again, and its time goes on.
                    if program::run(&mut kcat, "beat\n", Duration::from_secs(60)).is_success() {
                        seen.records += 1;
                        seen.longest = seen.longest.max(start.elapsed());
                        seen.longest_silence = seen.longest_silence.max(last_acknowledged.elapsed());
                        last_acknowledged = Instant::now();
                        start = last_acknowledged;
                        std::thread::sleep(PAUSE);
                        seen.disturbance = seen.disturbance.max(start.elapsed() - PAUSE);
                        start = Instant::now();
                    }
                }
                seen
            }
        });
        Self { seen, ends }
    }

    /// Ends it.
    fn end(self) -> Seen {
        self.ends.store(true, Ordering::Relaxed);
        self.seen.join().expect("the probe ends")
    }
}

/// The partitions of the probe's topic that the victim leads.
fn led_by_victim(bootstrap: &str) -> Vec<u64> {
    let mut kcat = Command::new("kcat");
    kcat.args(["-b", bootstrap, "-L", "-J", "-t", PROBE_TOPIC]);
    let told = program::run(&mut kcat, "", Duration::from_secs(30)).succeeded();
    let metadata: Value = serde_json::from_str(&told).expect("kcat -J prints JSON");
    let partitions = metadata["topics"][0]["partitions"]
        .as_array()
        .expect("partitions")
        .iter();
    let led = partitions.filter(|partition| partition["leader"] == VICTIM);
    led.map(|partition| count(&partition["partition"])).collect()
}

#[test]
fn a_broker_that_is_killed_costs_time_and_no_record_that_was_acknowledged() {
    let cluster = Cluster::up();
    let bootstrap = cluster.bootstrap.clone();
    // Partitions recover one after the other: the longest stall is seen on several, not on one.
    java_tools::create_topic(&bootstrap, PROBE_TOPIC, 9, 3, &["min.insync.replicas=2"]);
    let probed = led_by_victim(&bootstrap);
    assert!(!probed.is_empty(), "the node that is to be killed leads nothing");
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
        let time = ["--rate", "1000", "--warmup", "5s", "--duration", "40s"];
        // The wait between tries, and the time that it takes to send what has heaped up, are the client's own and not what
        // is compared: tries come often, and the heap goes in few requests.
        let tries = ["-X", "retry.backoff.max.ms=100", "-X", "batch.size=262144"];
        scratch.run(&[&["--target", "driver-kafka.yaml"], &load[..], &time, &tries].concat())
    });
    let probes: Vec<Probe> = probed
        .into_iter()
        .map(|partition| Probe::start(&bootstrap, partition))
        .collect();
    // Five seconds of warm-up, then half of what is measured.
    std::thread::sleep(Duration::from_secs(25));
    kafka(&["kill", &VICTIM.to_string(), "--name", CLUSTER]).succeeded();
    std::thread::sleep(Duration::from_secs(10));
    kafka(&["restart", &VICTIM.to_string(), "--name", CLUSTER]).succeeded();
    let result = run.join().expect("the run's result");
    let seen: Vec<Seen> = probes.into_iter().map(Probe::end).collect();
    let records: u32 = seen.iter().map(|seen| seen.records).sum();
    assert!(records > 100, "the probes sent {records} records");
    let worst = |of: fn(&Seen) -> Duration| seen.iter().map(of).max().unwrap_or_default();
    let (at_least, at_most) = (worst(|seen| seen.longest), worst(|seen| seen.longest_silence));
    let disturbance = worst(|seen| seen.disturbance);

    let totals = &result["whole_run"];
    let ended: u64 = ["unsent", "acknowledged", "refused", "unknown", "unfinished"]
        .map(|end| count(&totals[format!("{end}_count")]))
        .iter()
        .sum();
    assert_eq!(count(&totals["due_count"]), ended, "{totals:#}");
    assert!(count(&totals["due_count"]) >= 44_800, "{totals:#}");
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
        at_least > Duration::from_secs(2),
        "the probe noticed nothing: {at_least:?}"
    );
    let tolerance = Duration::from_millis(500) + disturbance;
    assert!(
        longest + tolerance >= at_least && longest <= at_most + tolerance,
        "plimsoll says {longest:?}, the probes {at_least:?} to {at_most:?}; waits on this machine were up to \
         {disturbance:?} too long"
    );
}
