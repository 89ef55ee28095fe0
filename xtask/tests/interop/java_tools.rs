//! Apache Kafka's own tools, of the newest line and of the one before, against the embedded broker.

use std::process::Command;
use std::time::Duration;

use crate::embedded::Embedded;
use crate::program::{self, Ended};

/// A JVM's start on a busy machine takes seconds, and the first use assembles the release.
const AT_MOST: Duration = Duration::from_secs(180);

/// The tools of one release.
#[derive(Clone, Copy)]
pub struct Tools {
    version: &'static str,
}

/// The newest release's tools.
pub const NEWEST: Tools = Tools { version: "4.4.0" };

impl Tools {
    /// Those of a release.
    pub fn of(version: &'static str) -> Self {
        Self { version }
    }

    #[track_caller]
    pub fn run(self, tool: &str, arguments: &[&str], input: &str) -> Ended {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command
            .args(["kafka", "tool", "--version", self.version, tool])
            .args(arguments);
        program::run(&mut command, input, AT_MOST)
    }

    #[track_caller]
    fn topics(self, bootstrap: &str, arguments: &[&str]) -> Ended {
        self.run(
            "kafka-topics",
            &[&["--bootstrap-server", bootstrap], arguments].concat(),
            "",
        )
    }

    /// The sum of the end offsets of a topic's partitions.
    #[track_caller]
    pub fn end_offsets(self, bootstrap: &str, topic: &str) -> u64 {
        let told = self
            .run(
                "kafka-get-offsets",
                &["--bootstrap-server", bootstrap, "--topic", topic],
                "",
            )
            .succeeded();
        // topic:partition:offset
        let offsets = told
            .lines()
            .filter_map(|line| line.rsplit(':').next()?.parse::<u64>().ok());
        offsets.sum()
    }
}

/// Creates a topic with the newest tools.
#[track_caller]
pub fn create_topic(bootstrap: &str, topic: &str, partitions: u32, replicas: u32, configs: &[&str]) {
    let (partitions, replicas) = (partitions.to_string(), replicas.to_string());
    let mut arguments = vec![
        "--create",
        "--topic",
        topic,
        "--partitions",
        &partitions,
        "--replication-factor",
        &replicas,
    ];
    arguments.extend(configs.iter().flat_map(|config| ["--config", config]));
    let told = NEWEST.topics(bootstrap, &arguments).succeeded();
    assert!(told.contains(&format!("Created topic {topic}.")), "{told}");
}

fn topics_are_created_described_altered_and_deleted(tools: Tools) {
    let brokers = Embedded::start(3);
    let create = [
        "--create",
        "--topic",
        "made",
        "--partitions",
        "6",
        "--replication-factor",
        "3",
    ];
    let create = [&create[..], &["--config", "min.insync.replicas=2"]].concat();
    let told = tools.topics(&brokers.bootstrap, &create).succeeded();
    assert!(told.contains("Created topic made."), "{told}");
    let told = tools.topics(&brokers.bootstrap, &create).failed_with(1);
    assert!(told.contains("already exists"), "{told}");

    let told = tools
        .topics(&brokers.bootstrap, &["--describe", "--topic", "made"])
        .succeeded();
    assert!(
        told.contains("PartitionCount: 6\tReplicationFactor: 3\t"),
        "{told}"
    );
    assert!(told.contains("min.insync.replicas=2"), "{told}");
    let partitions: Vec<&str> = told
        .lines()
        .filter(|line| line.contains("\tPartition: "))
        .collect();
    assert_eq!(partitions.len(), 6, "{told}");
    for line in partitions {
        // In sync are all three, in whatever order.
        let ids = |name: &str| {
            let cell = line.split('\t').find_map(|cell| cell.strip_prefix(name));
            let mut ids: Vec<&str> = cell.unwrap_or_default().trim().split(',').collect();
            ids.sort_unstable();
            ids
        };
        assert_eq!(ids("Replicas:").len(), 3, "{line}");
        assert_eq!(ids("Replicas:"), ids("Isr:"), "{line}");
        assert!(ids("Replicas:").contains(&ids("Leader:")[0]), "{line}");
    }

    tools
        .topics(
            &brokers.bootstrap,
            &["--alter", "--topic", "made", "--partitions", "9"],
        )
        .succeeded();
    let told = tools
        .topics(&brokers.bootstrap, &["--describe", "--topic", "made"])
        .succeeded();
    assert!(told.contains("PartitionCount: 9\t"), "{told}");
    let told = tools.topics(&brokers.bootstrap, &["--list"]).succeeded();
    assert_eq!(told.trim(), "made");
    tools
        .topics(&brokers.bootstrap, &["--delete", "--topic", "made"])
        .succeeded();
    assert_eq!(
        tools.topics(&brokers.bootstrap, &["--list"]).succeeded().trim(),
        ""
    );
}

fn lines_of_the_console_arrive_in_order_and_the_group_has_no_lag(tools: Tools) {
    let brokers = Embedded::start(3);
    create_topic(&brokers.bootstrap, "console", 1, 3, &[]);
    let sent: String = (0..2_000).map(|number| format!("line {number}\n")).collect();
    let of_topic = ["--bootstrap-server", &brokers.bootstrap, "--topic", "console"];
    tools.run("kafka-console-producer", &of_topic, &sent).succeeded();
    let read = [
        "--from-beginning",
        "--group",
        "console-readers",
        "--max-messages",
        "2000",
        "--timeout-ms",
        "30000",
    ];
    let read = tools
        .run("kafka-console-consumer", &[&of_topic[..], &read].concat(), "")
        .succeeded();
    assert!(
        read == sent,
        "{} lines, or in another order",
        read.lines().count()
    );

    let describe = [
        "--bootstrap-server",
        &brokers.bootstrap,
        "--describe",
        "--group",
        "console-readers",
    ];
    let told = tools.run("kafka-consumer-groups", &describe, "").succeeded();
    let row = told.lines().find(|line| line.starts_with("console-readers"));
    let cells: Vec<&str> = row
        .unwrap_or_else(|| panic!("{told}"))
        .split_whitespace()
        .collect();
    assert_eq!(
        cells[1..6],
        ["console", "0", "2000", "2000", "0"],
        "topic, partition, committed, end, lag: {told}"
    );
}

fn the_perf_tools_count_what_they_were_told_to_send(tools: Tools) {
    let brokers = Embedded::start(3);
    let cases = [
        ("perf-all", "acks=all", "compression.type=none"),
        ("perf-one", "acks=1", "compression.type=lz4"),
        ("perf-none", "acks=0", "compression.type=zstd"),
    ];
    for (topic, acks, compression) in cases {
        create_topic(&brokers.bootstrap, topic, 3, 3, &[]);
        let bootstrap = format!("bootstrap.servers={}", brokers.bootstrap);
        let load = [
            "--topic",
            topic,
            "--num-records",
            "100000",
            "--record-size",
            "100",
            "--throughput",
            "-1",
        ];
        let settings = ["--producer-props", &bootstrap, acks, compression];
        let told = tools
            .run("kafka-producer-perf-test", &[&load[..], &settings].concat(), "")
            .succeeded();
        assert!(
            told.contains("\n100000 records sent") || told.starts_with("100000 records sent"),
            "{told}"
        );
        assert_eq!(tools.end_offsets(&brokers.bootstrap, topic), 100_000, "{topic}");
    }
    let read = [
        "--bootstrap-server",
        &brokers.bootstrap,
        "--topic",
        "perf-one",
        "--messages",
        "100000",
    ];
    let told = tools.run("kafka-consumer-perf-test", &read, "").succeeded();
    // start, end, MB, MB/s, records, …
    let records = told.lines().last().and_then(|line| line.split(", ").nth(4));
    assert_eq!(records, Some("100000"), "{told}");
}

fn a_topics_configs_are_altered_and_described(tools: Tools) {
    let brokers = Embedded::start(1);
    create_topic(&brokers.bootstrap, "configured", 1, 1, &[]);
    let of_topic = [
        "--bootstrap-server",
        &brokers.bootstrap,
        "--entity-type",
        "topics",
        "--entity-name",
        "configured",
    ];
    let configs = |arguments: &[&str]| tools.run("kafka-configs", &[&of_topic[..], arguments].concat(), "");
    configs(&[
        "--alter",
        "--add-config",
        "retention.ms=60000,max.message.bytes=2000",
    ])
    .succeeded();
    let told = configs(&["--describe"]).succeeded();
    assert!(
        told.contains("retention.ms=60000") && told.contains("max.message.bytes=2000"),
        "{told}"
    );
    configs(&["--alter", "--delete-config", "retention.ms"]).succeeded();
    let told = configs(&["--describe"]).succeeded();
    assert!(
        !told.contains("retention.ms=60000") && told.contains("max.message.bytes=2000"),
        "{told}"
    );
}

fn verifiable_clients_agree_on_every_record(tools: Tools) {
    let brokers = Embedded::start(3);
    create_topic(&brokers.bootstrap, "verified", 3, 3, &["min.insync.replicas=2"]);
    let of_topic = [
        "--bootstrap-server",
        &brokers.bootstrap,
        "--topic",
        "verified",
        "--max-messages",
        "5000",
    ];
    let told = tools.run("kafka-verifiable-producer", &of_topic, "").succeeded();
    let events = events(&told);
    let offsets: Vec<(&serde_json::Value, &serde_json::Value)> = events
        .iter()
        .filter(|event| event["name"] == "producer_send_success")
        .map(|event| (&event["partition"], &event["offset"]))
        .collect();
    assert_eq!(offsets.len(), 5_000);
    let total = events
        .iter()
        .find(|event| event["name"] == "tool_data")
        .expect("tool_data");
    assert_eq!(
        (&total["sent"], &total["acked"]),
        (&5_000.into(), &5_000.into()),
        "{total}"
    );

    let read = [&of_topic[..], &["--group-id", "verifiers", "--verbose"]].concat();
    let told = tools.run("kafka-verifiable-consumer", &read, "").succeeded();
    let mut values: Vec<u32> = events_named(&told, "record_data")
        .filter_map(|event| event["value"].as_str().and_then(|value| value.parse().ok()))
        .collect();
    values.sort_unstable();
    values.dedup();
    assert_eq!(values.len(), 5_000, "different values read");
}

fn events(told: &str) -> Vec<serde_json::Value> {
    told.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

fn events_named(told: &str, name: &str) -> impl Iterator<Item = serde_json::Value> {
    events(told)
        .into_iter()
        .filter(move |event| event["name"] == name)
}

fn a_record_comes_back_end_to_end(tools: Tools) {
    let brokers = Embedded::start(3);
    create_topic(&brokers.bootstrap, "there-and-back", 1, 3, &[]);
    // Positional up to 4.1, and taken still, with a warning, by what came after.
    let told = tools.run(
        "kafka-e2e-latency",
        &[&brokers.bootstrap, "there-and-back", "200", "all", "100"],
        "",
    );
    let told = told.succeeded();
    assert!(
        told.contains("Avg latency: ") && told.contains("Percentiles: 50th = "),
        "{told}"
    );
    assert_eq!(tools.end_offsets(&brokers.bootstrap, "there-and-back"), 200);
}

fn what_cannot_be_is_refused_with_kafkas_own_reason(tools: Tools) {
    let brokers = Embedded::start(3);
    let too_many = [
        "--create",
        "--topic",
        "four",
        "--partitions",
        "1",
        "--replication-factor",
        "4",
    ];
    let told = tools.topics(&brokers.bootstrap, &too_many).failed_with(1);
    assert!(told.contains("InvalidReplicationFactorException"), "{told}");
    let bad_name = ["--create", "--topic", "no blanks", "--partitions", "1"];
    let told = tools.topics(&brokers.bootstrap, &bad_name).failed_with(1);
    assert!(told.contains("InvalidTopicException"), "{told}");

    create_topic(&brokers.bootstrap, "small", 1, 3, &["max.message.bytes=1000"]);
    let bootstrap = format!("bootstrap.servers={}", brokers.bootstrap);
    let load = [
        "--topic",
        "small",
        "--num-records",
        "1",
        "--record-size",
        "5000",
        "--throughput",
        "-1",
    ];
    let ended = tools.run(
        "kafka-producer-perf-test",
        &[&load[..], &["--producer-props", &bootstrap]].concat(),
        "",
    );
    assert!(ended.stderr.contains("RecordTooLargeException"), "{ended}");
    assert_eq!(tools.end_offsets(&brokers.bootstrap, "small"), 0);
}

fn transactions_are_made_listed_and_read_when_committed(tools: Tools) {
    let brokers = Embedded::start(3);
    create_topic(&brokers.bootstrap, "tx", 2, 3, &[]);
    let bootstrap = format!("bootstrap.servers={}", brokers.bootstrap);
    let load = [
        "--topic",
        "tx",
        "--num-records",
        "2000",
        "--record-size",
        "100",
        "--throughput",
        "2000",
        "--transactional-id",
        "perf",
        "--transaction-duration-ms",
        "100",
        "--producer-props",
        &bootstrap,
    ];
    let told = tools.run("kafka-producer-perf-test", &load, "").succeeded();
    assert!(told.contains("2000 records sent"), "{told}");
    let read = [
        "--bootstrap-server",
        &brokers.bootstrap,
        "--topic",
        "tx",
        "--from-beginning",
        "--isolation-level",
        "read_committed",
        "--max-messages",
        "2000",
        "--timeout-ms",
        "20000",
    ];
    let told = tools.run("kafka-console-consumer", &read, "").succeeded();
    assert_eq!(told.lines().count(), 2000);
    // Records and the markers of several transactions.
    assert!(tools.end_offsets(&brokers.bootstrap, "tx") > 2004);
    let transactions = |arguments: &[&str]| {
        tools
            .run(
                "kafka-transactions",
                &[&["--bootstrap-server", &brokers.bootstrap], arguments].concat(),
                "",
            )
            .succeeded()
    };
    let told = transactions(&["list"]);
    assert!(told.contains("perf") && told.contains("CompleteCommit"), "{told}");
    let told = transactions(&["describe", "--transactional-id", "perf"]);
    assert!(told.contains("CompleteCommit"), "{told}");
    let told = transactions(&["describe-producers", "--topic", "tx", "--partition", "0"]);
    assert!(told.contains("ProducerId"), "{told}");
    assert!(!transactions(&["find-hanging", "--broker-id", "1"]).contains("tx"));
}

/// The cases above as tests of one release's tools.
macro_rules! tests_with {
    ($module:ident, $version:literal: $($case:ident),+ $(,)?) => {
        mod $module {
            $(
                #[test]
                fn $case() {
                    super::$case(super::Tools { version: $version });
                }
            )+
        }
    };
}

tests_with!(
    tools_4_4, "4.4.0":
    topics_are_created_described_altered_and_deleted,
    lines_of_the_console_arrive_in_order_and_the_group_has_no_lag,
    the_perf_tools_count_what_they_were_told_to_send,
    a_topics_configs_are_altered_and_described,
    verifiable_clients_agree_on_every_record,
    a_record_comes_back_end_to_end,
    transactions_are_made_listed_and_read_when_committed,
    what_cannot_be_is_refused_with_kafkas_own_reason,
);

tests_with!(
    tools_3_9, "3.9.2":
    topics_are_created_described_altered_and_deleted,
    lines_of_the_console_arrive_in_order_and_the_group_has_no_lag,
    the_perf_tools_count_what_they_were_told_to_send,
    a_topics_configs_are_altered_and_described,
    verifiable_clients_agree_on_every_record,
    a_record_comes_back_end_to_end,
    transactions_are_made_listed_and_read_when_committed,
    what_cannot_be_is_refused_with_kafkas_own_reason,
);
