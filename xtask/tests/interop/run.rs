//! `plimsoll run`, held against what the brokers and Kafka's own tools say afterwards.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::embedded::Embedded;
use crate::java_tools::NEWEST;
use crate::program;

/// A directory of one test's own, removed with this value.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new(test: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a directory for the test");
        Self(path)
    }

    /// Writes `driver-kafka.yaml`, an OMB driver file: acks=all, three replicas of which two must be in sync.
    pub fn write_target(&self, bootstrap: &str) {
        self.write("driver-kafka.yaml", &target(bootstrap));
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).expect("a file for the test");
    }

    /// Runs plimsoll here; it must end with status 0. Returns `result.json` of the one run that was made.
    #[track_caller]
    pub fn run(&self, arguments: &[&str]) -> Value {
        let mut command = Command::new(crate::plimsoll());
        command.arg("run").args(arguments);
        self.run_command(command)
    }

    /// The same for a command that runs plimsoll.
    #[track_caller]
    pub fn run_command(&self, mut command: Command) -> Value {
        command.current_dir(&self.0);
        let told = program::run(&mut command, "", Duration::from_secs(180)).succeeded();
        let runs: Vec<PathBuf> = fs::read_dir(self.0.join("plimsoll-runs"))
            .unwrap_or_else(|error| panic!("no plimsoll-runs: {error}\n{told}"))
            .map(|entry| entry.expect("a readable entry").path())
            .collect();
        let [run] = runs.as_slice() else {
            panic!("one result folder is expected: {runs:?}")
        };
        let text = fs::read_to_string(run.join("result.json")).expect("result.json");
        serde_json::from_str(&text).expect("result.json is JSON")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left under the target directory harms nobody.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A count that the result must hold.
#[track_caller]
pub fn count(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("a count is missing: {value}"))
}

/// Every record that was sent, all but a moment's, was acknowledged, confirmed by the end offsets, and consumed once and in order.
#[track_caller]
pub fn assert_every_record_arrived(result: &Value, at_least: u64) {
    let totals = &result["whole_run"];
    let acknowledged = count(&totals["acknowledged_count"]);
    assert!(
        acknowledged >= at_least,
        "{acknowledged} acknowledged, {at_least} expected: {totals:#}"
    );
    assert_eq!(count(&totals["confirmed_count"]), acknowledged, "{totals:#}");
    assert_eq!(
        count(&totals["due_count"]),
        count(&totals["unsent_count"]) + count(&totals["sent_count"]),
        "{totals:#}"
    );
    assert_eq!(count(&totals["sent_count"]), acknowledged, "{totals:#}");
    // A topic's subscription is a group of its own, and each of these loads has one subscription a topic.
    let groups = totals["consumed"].as_array().expect("consumed").iter();
    let consumed: u64 = groups.map(|group| count(&group["records_count"])).sum();
    assert_eq!(consumed, acknowledged, "{totals:#}");
    for what in [
        "lost",
        "duplicated",
        "redelivered",
        "reordered",
        "corrupt",
        "foreign",
    ] {
        assert_eq!(
            count(&totals["verification"][format!("{what}_count")]),
            0,
            "{what}: {totals:#}"
        );
    }
    // What is due in the last moment of a phase on a busy machine is not sent any more, and counted as that.
    assert!(
        count(&totals["unsent_count"]) <= count(&totals["due_count"]) / 50,
        "{totals:#}"
    );
}

const WORKLOAD: &str = "\
name: three-topics
topics: 3
partitionsPerTopic: 12
messageSize: 512
useRandomizedPayloads: true
randomBytesRatio: 0.5
randomizedPayloadPoolSize: 1000
subscriptionsPerTopic: 1
consumerPerSubscription: 3
producersPerTopic: 2
producerRate: 10000
consumerBacklogSizeGB: 0
warmupDurationMinutes: 0
testDurationMinutes: 1
";

fn target(bootstrap: &str) -> String {
    format!(
        "\
name: Kafka
driverClass: io.openmessaging.benchmark.driver.kafka.KafkaBenchmarkDriver
replicationFactor: 3
topicConfig: |
  min.insync.replicas=2
commonConfig: |
  bootstrap.servers={bootstrap}
producerConfig: |
  acks=all
consumerConfig: |
  auto.offset.reset=earliest
"
    )
}

#[test]
fn real_kafka_confirms_and_returns_every_record_of_an_omb_workload() {
    let scratch = Scratch::new("real-omb");
    scratch.write("workload.yaml", WORKLOAD);
    scratch.write_target(&crate::real_kafka());
    let result = scratch.run(&[
        "workload.yaml",
        "--target",
        "driver-kafka.yaml",
        "--duration",
        "20s",
    ]);
    assert_every_record_arrived(&result, 190_000);
    for (tool, what) in [("kafka-topics", "topics"), ("kafka-consumer-groups", "groups")] {
        let told = NEWEST
            .run(tool, &["--bootstrap-server", &crate::real_kafka(), "--list"], "")
            .succeeded();
        let names: Vec<&str> = result[what]
            .as_array()
            .expect(what)
            .iter()
            .filter_map(|it| it["name"].as_str())
            .collect();
        assert_eq!(names.len(), 3, "{names:?}");
        assert!(
            !told.lines().any(|line| names.contains(&line)),
            "{what} were left behind: {told}"
        );
    }
}

#[test]
fn kafkas_own_end_offsets_say_what_the_result_says() {
    let bootstrap = crate::real_kafka();
    let scratch = Scratch::new("real-offsets");
    let load = [
        "--topics",
        "1",
        "--partitions",
        "6",
        "--replication-factor",
        "3",
        "--record-size",
        "300",
    ];
    let settings = [
        "--rate",
        "5000",
        "--warmup",
        "2s",
        "--duration",
        "8s",
        "-X",
        "acks=all",
        "-X",
        "compression.type=zstd",
    ];
    let result = scratch.run(
        &[
            &["--bootstrap-server", &bootstrap, "--keep"],
            &load[..],
            &settings,
        ]
        .concat(),
    );
    assert_every_record_arrived(&result, 48_000);
    let topic = result["topics"][0]["name"].as_str().expect("a topic");
    let acknowledged = result["whole_run"]["acknowledged_count"]
        .as_u64()
        .expect("a count");
    assert_eq!(NEWEST.end_offsets(&bootstrap, topic), acknowledged);
    NEWEST
        .run(
            "kafka-topics",
            &["--bootstrap-server", &bootstrap, "--delete", "--topic", topic],
            "",
        )
        .succeeded();
}

#[test]
fn the_embedded_broker_takes_a_hundred_thousand_records_a_second_and_loses_none() {
    let brokers = Embedded::start(3);
    let scratch = Scratch::new("embedded-omb");
    scratch.write("workload.yaml", WORKLOAD);
    scratch.write_target(&brokers.bootstrap);
    let result = scratch.run(&[
        "workload.yaml",
        "--target",
        "driver-kafka.yaml",
        "--rate",
        "100000",
        "--duration",
        "10s",
    ]);
    assert_every_record_arrived(&result, 950_000);
}

/// Each node is a rack of its own here (`r1`, `r2`, `r3`), and the brokers send consumers to the replica of theirs (KIP-392).
#[test]
fn a_consumer_with_a_rack_reads_from_the_replica_there() {
    let scratch = Scratch::new("run-rack");
    let bootstrap = crate::real_kafka();
    let load = [
        "--bootstrap-server",
        &bootstrap,
        "--partitions",
        "6",
        "--replication-factor",
        "3",
        "--record-size",
        "1000",
        "--rate",
        "2000",
        "--warmup",
        "1s",
        "--duration",
        "6s",
        "-X",
        "client.rack=r2",
    ];
    let result = scratch.run(&load);
    assert_every_record_arrived(&result, 13_000);
    let fetched = |broker: u64| -> u64 {
        let brokers = result["brokers"].as_array().expect("brokers").iter();
        brokers
            .filter(|found| count(&found["id"]) == broker)
            .map(|found| count(&found["fetched_bytes"]))
            .sum()
    };
    let all: u64 = (1..=3).map(fetched).sum();
    // All that was measured was fetched, and but for answers without records it was fetched there.
    assert!(all > 11_000 * 1000, "{:#}", result["brokers"]);
    assert!(fetched(2) * 100 > all * 98, "{:#}", result["brokers"]);
}
