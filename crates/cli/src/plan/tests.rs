//! What command lines mean, what is wrong with them, and that a plan's own command line means the same again.

use super::*;
use crate::arguments::{Command, CommandLine};
use clap::Parser;
use model::units::TargetRate;
use std::collections::BTreeMap;

/// Files of a test's own.
struct Memory(BTreeMap<&'static str, &'static [u8]>);

impl Files for Memory {
    fn read(&self, path: &Path, at_most: u64) -> io::Result<Vec<u8>> {
        let content = path
            .to_str()
            .and_then(|path| self.0.get(path))
            .ok_or(io::ErrorKind::NotFound)?;
        Ok(content[..content.len().min(at_most as usize)].to_vec())
    }
}

const OMB_WORKLOAD: &str = "\
name: three topics
topics: 3
partitionsPerTopic: 12
messageSize: 512
useRandomizedPayloads: true
randomBytesRatio: 0.5
randomizedPayloadPoolSize: 100
subscriptionsPerTopic: 1
consumerPerSubscription: 3
producersPerTopic: 2
producerRate: 10000
consumerBacklogSizeGB: 0
testDurationMinutes: 1
";

const CONSUME_WORKLOAD: &str = "\
topicNames: [orders, 'pay.ments_2']
existingTopics: true
subscriptionsPerTopic: 1
consumerPerSubscription: 1
warmupDurationMinutes: 0
testRecords: 1000
";

const OWN_KEYS_WORKLOAD: &str = "\
name: \"quotes ' and \\\" and $HOME\"
topics: 2
topicWeights: [3, 1]
partitionsPerTopic: 2
partitionWeights: [1, 0]
messageSize: 100
headers: {trace: \"a b\"}
stamp: header
producersPerTopic: 1
producerRate: 0.5
subscriptionsPerTopic: 2
consumerPerSubscription: 1
consumerDelayMs: 0.2
topicsPerConsumer: 2
warmupRecords: 10
testDuration: 1h30m
seed: 7
";

const DRIVER: &str = "\
name: Kafka
driverClass: io.openmessaging.benchmark.driver.kafka.KafkaBenchmarkDriver
replicationFactor: 3
topicConfig: |
  min.insync.replicas=2
commonConfig: |
  bootstrap.servers=a:9092,b:9092
producerConfig: |
  acks=all
  linger.ms=1
consumerConfig: |
  auto.offset.reset=earliest
";

fn files() -> Memory {
    Memory(BTreeMap::from([
        ("omb.yaml", OMB_WORKLOAD.as_bytes()),
        ("consume.yaml", CONSUME_WORKLOAD.as_bytes()),
        ("own.yaml", OWN_KEYS_WORKLOAD.as_bytes()),
        ("driver.yaml", DRIVER.as_bytes()),
        ("client.properties", b"acks=1\ncompression.type=zstd\n".as_slice()),
        ("typo.yaml", b"topics: 1\nproducersRate: 500\n".as_slice()),
        ("binary", &[0xff, 0xfe]),
        ("empty.data", b""),
        ("payload.data", &[b'x'; 300]),
    ]))
}

fn arguments(words: &[&str]) -> RunArguments {
    let line = CommandLine::try_parse_from(["plimsoll", "run"].iter().chain(words))
        .expect("a command line that parses");
    match line.command {
        Command::Run(arguments) => *arguments,
        other => panic!("not a run: {other:?}"),
    }
}

fn plan(words: &[&str]) -> Plan {
    Plan::resolve(&arguments(words), &files()).unwrap_or_else(|faults| panic!("{words:?}: {faults}"))
}

#[track_caller]
fn check_faults(words: &[&str], expected: &[&str]) {
    let faults = Plan::resolve(&arguments(words), &files()).expect_err("a faulty plan");
    let told: Vec<String> = faults.into_iter().map(|fault| fault.to_string()).collect();
    let told: Vec<&str> = told.iter().map(String::as_str).collect();
    assert_eq!(told, expected);
}

#[test]
fn without_anything_embedded_brokers_are_loaded_for_30_seconds() {
    let plan = plan(&[]);
    assert!(plan.embedded);
    assert_eq!(
        plan.workload.test,
        model::workload::PhaseLength::Time(Duration::from_secs(30))
    );
    assert_eq!(plan.reproduce, "plimsoll run");
    let load = plan
        .for_load(1, Vec::new(), Some("127.0.0.1:40001,127.0.0.1:40002"), None)
        .unwrap();
    let servers: Vec<String> = load
        .target
        .bootstrap_servers
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(servers, ["127.0.0.1:40001", "127.0.0.1:40002"]);
    assert!(load.embedded);
}

#[test]
fn a_cluster_may_be_named_in_four_ways() {
    for words in [
        &["--bootstrap-server", "a:9092"][..],
        &["-X", "bootstrap.servers=a:9092"],
        &["--target", "driver.yaml"],
        &["--target", "driver.yaml", "--bootstrap-server", "c:1"],
    ] {
        assert!(!plan(words).embedded, "{words:?}");
    }
    assert!(plan(&["--command-config", "client.properties"]).embedded);
}

#[test]
fn options_override_set_which_overrides_the_file() {
    let plan = plan(&[
        "omb.yaml",
        "--set",
        "topics=1",
        "--rate",
        "max",
        "--duration",
        "20s",
    ]);
    assert_eq!(plan.workload.topics, 1);
    assert_eq!(plan.workload.producer_rate, Some(TargetRate::Max));
    assert_eq!(
        plan.workload.test,
        model::workload::PhaseLength::Time(Duration::from_secs(20))
    );
    let source = |key: &str| {
        let value = plan.workload.values.iter().find(|value| value.key == key);
        value.map(|value| value.source.to_string()).unwrap_or_default()
    };
    assert_eq!(source("topics"), "--set");
    assert_eq!(source("producerRate"), "--rate");
    assert_eq!(source("testDuration"), "--duration");
    assert_eq!(source("messageSize"), "omb.yaml:4");
}

#[test]
fn a_topic_that_is_only_read_exists() {
    let plan = plan(&[
        "--topic",
        "orders",
        "--producers-per-topic",
        "0",
        "--from",
        "earliest",
    ]);
    assert!(plan.workload.existing_topics);
    assert_eq!(plan.from, StartFrom::Earliest);
    let plan = self::plan(&["--topic", "orders"]);
    assert!(!plan.workload.existing_topics);
    assert_eq!(plan.from, StartFrom::Latest);
    assert_eq!(self::plan(&["--target", "driver.yaml"]).from, StartFrom::Earliest);
}

#[test]
fn a_payload_file_decides_the_size_where_nothing_else_does() {
    let plan = plan(&["--payload-file", "payload.data"]);
    assert_eq!(plan.workload.message_size.bytes(), 300);
    assert_eq!(plan.payload_file.map(|content| content.len()), Some(300));
    check_faults(
        &["--payload-file", "payload.data", "--record-size", "512"],
        &[
            "--payload-file: payloadFile = payload.data: the file has 300 bytes, and messageSize is 512; set messageSize: 300 or \
           give a file of 512 bytes",
        ],
    );
    check_faults(
        &["--payload-file", "empty.data"],
        &["--payload-file: payloadFile = empty.data: the file is empty, and messageSize is 1024"],
    );
    check_faults(
        &["--payload-file", "none.data"],
        &["--payload-file: payloadFile = none.data: the file cannot be read: entity not found"],
    );
}

#[test]
fn files_that_cannot_be_read_are_named() {
    check_faults(
        &["none.yaml"],
        &["workload file: none.yaml: the file cannot be read: entity not found"],
    );
    check_faults(
        &["binary"],
        &["workload file: binary: the file is not text in UTF-8"],
    );
    check_faults(
        &["--target", "none.yaml", "--command-config", "none.properties"],
        &[
            "--target: none.yaml: the file cannot be read: entity not found",
            "--command-config: none.properties: the file cannot be read: entity not found",
        ],
    );
}

#[test]
fn all_faults_are_told_at_once() {
    let words = [
        "--rate",
        "0",
        "--record-size",
        "-5",
        "--duration",
        "90",
        "--threads",
        "0",
        "--drain-timeout",
        "soon",
        "-X",
        "ackss=all",
        "--bootstrap-server",
        "a:99999",
    ];
    let faults = Plan::resolve(&arguments(&words), &files()).expect_err("a faulty plan");
    let told: Vec<String> = faults.into_iter().map(|fault| fault.to_string()).collect();
    for expected in [
        "--rate: producerRate = 0: ",
        "--record-size: messageSize = -5: must not be negative",
        "--duration: testDuration = 90: a duration needs a unit: 90s, 90m or 90ms",
        "--threads: \"0\": a whole number from 1 to 1024",
        "--drain-timeout: \"soon\": a duration is a number with a unit",
        "-X: ackss = all: Kafka's clients have no such property; did you mean acks?",
        "--bootstrap-server: bootstrap.servers = a:99999: ",
    ] {
        let found = told.iter().filter(|fault| fault.starts_with(expected)).count();
        assert_eq!(found, 1, "{expected:?} in {told:#?}");
    }
    assert_eq!(told.len(), 7, "{told:#?}");
}

#[test]
fn a_misspelt_key_is_refused_with_the_nearest_one() {
    let faults = Plan::resolve(&arguments(&["typo.yaml"]), &files())
        .expect_err("a faulty plan")
        .to_string();
    assert!(
        faults.contains("typo.yaml:2: producersRate = 500: unknown key; did you mean producerRate?"),
        "{faults}"
    );
}

#[test]
fn one_key_is_not_set_in_two_ways() {
    check_faults(
        &["--set", "producerRate=5", "--rate", "6"],
        &["--set: \"producerRate=5\": --rate sets producerRate too; keep one of them"],
    );
}

#[test]
fn a_dry_run_shows_every_value_with_its_source() {
    let told = plan(&[
        "omb.yaml",
        "--target",
        "driver.yaml",
        "-X",
        "acks=1",
        "--rate",
        "5000",
    ])
    .describe();
    for line in [
        "  producerRate                             5000                     --rate",
        "  messageSize                              512                      omb.yaml:4",
        "  acks                                     1                        -X",
        "  linger.ms                                1                        driver.yaml:10",
        "  batch.size                               16384                    Kafka default",
        "  replicationFactor                        3                        driver.yaml:3",
        "  min.insync.replicas                      2                        driver.yaml:5",
    ] {
        assert!(told.contains(line), "{line:?} in\n{told}");
    }
}

/// Splits a command line as a POSIX shell does, as far as quotes and backslashes go.
fn shell_words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_quoted = false;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        let word = words.last_mut().expect("there is always a word");
        match c {
            '\'' => is_quoted = !is_quoted,
            '\\' if !is_quoted => word.extend(chars.next()),
            ' ' if !is_quoted => words.push(String::new()),
            _ => word.push(c),
        }
    }
    words
}

/// A workload without the sources of its values.
fn bare(workload: &Workload) -> Workload {
    Workload {
        values: Vec::new(),
        ..workload.clone()
    }
}

#[test]
fn the_line_that_reproduces_a_plan_means_the_same_plan() {
    for words in [
        &[][..],
        &["omb.yaml"],
        &["consume.yaml"],
        &["own.yaml"],
        &[
            "omb.yaml",
            "--target",
            "driver.yaml",
            "--duration",
            "20s",
            "--warmup",
            "0",
        ],
        &[
            "omb.yaml",
            "--rate",
            "max",
            "--records",
            "5000000",
            "--warmup-records",
            "100000",
            "--keep",
            "--force",
        ],
        &[
            "--topic",
            "orders",
            "--topic",
            "payments",
            "--rate",
            "1/h",
            "--name",
            "it's $HOME",
        ],
        &[
            "--topic",
            "orders",
            "--producers-per-topic",
            "0",
            "--from",
            "earliest",
            "--records",
            "10",
        ],
        &[
            "--payload-file",
            "payload.data",
            "--stamp",
            "header",
            "--key-distributor",
            "RANDOM_NANO",
        ],
        &[
            "--bootstrap-server",
            "a:9092",
            "--record-size",
            "1KiB",
            "--subscriptions",
            "0",
            "--threads",
            "2",
        ],
        &[
            "--command-config",
            "client.properties",
            "-X",
            "linger.ms=0",
            "--replication-factor",
            "2",
        ],
        &[
            "--topic-config",
            "retention.ms=60000",
            "--drain-timeout",
            "5s",
            "--seed",
            "3",
            "--from",
            "latest",
        ],
        &[
            "--set",
            "headerCount=2",
            "--set",
            "headerSize=16",
            "--set",
            "consumerRate=10/s",
        ],
        &["--preset", "durable-events"],
        &[
            "--preset",
            "three-topics-512b",
            "--target",
            "driver.yaml",
            "--rate",
            "1000",
            "--records",
            "5000",
            "-X",
            "acks=1",
        ],
    ] {
        let first = plan(words);
        let line = shell_words(&first.reproduce);
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        assert_eq!(line[..2], ["plimsoll", "run"]);
        let second = plan(&line[2..]);
        assert_eq!(
            bare(&second.workload),
            bare(&first.workload),
            "{}",
            first.reproduce
        );
        assert_eq!(second.target, first.target, "{}", first.reproduce);
        assert_eq!(second.payload_file, first.payload_file);
        assert_eq!(
            (
                second.embedded,
                second.from,
                second.drain_timeout,
                second.threads,
                second.keep,
                second.force
            ),
            (
                first.embedded,
                first.from,
                first.drain_timeout,
                first.threads,
                first.keep,
                first.force
            ),
        );
        assert_eq!(second.reproduce, first.reproduce);
    }
}

#[test]
fn a_preset_brings_its_workload_and_its_client_settings_and_gives_way_to_what_is_said() {
    let plan_of_preset = plan(&["--preset", "durable-events"]);
    assert!(plan_of_preset.embedded);
    assert_eq!(plan_of_preset.workload.name, "durable-events");
    assert_eq!(plan_of_preset.target.replication_factor, Some(3));
    let shown = plan_of_preset.describe();
    assert!(shown.contains("preset durable-events:"), "{shown}");
    assert!(shown.contains("preset durable-events (driver):"), "{shown}");
    let other = plan(&[
        "--preset",
        "durable-events",
        "--target",
        "driver.yaml",
        "--record-size",
        "100",
        "-X",
        "compression.type=none",
    ]);
    assert!(!other.embedded);
    assert_eq!(other.workload.message_size.bytes(), 100);
    let value = |name: &str| {
        let values = &other.target.producer.values;
        values
            .iter()
            .find(|value| value.key == name)
            .map(|value| value.value.clone())
    };
    assert_eq!(value("compression.type").as_deref(), Some("none"));
    assert_eq!(value("linger.ms").as_deref(), Some("1"));
}

#[test]
fn a_preset_that_there_is_not_is_told_once() {
    check_faults(
        &["--preset", "durable-event"],
        &["--preset: \"durable-event\": there is no such preset; did you mean durable-events?"],
    );
}
