//! `plimsoll topics` against embedded brokers.

use crate::process::{Brokers, Scratch};

#[test]
fn topics_are_created_described_altered_and_deleted() {
    let brokers = Brokers::start(&["--brokers", "3"]);
    let scratch = Scratch::new("topics");
    let topics = |arguments: &[&str]| {
        scratch.run(
            &[
                &["topics", arguments[0], "--bootstrap-server", &brokers.bootstrap],
                &arguments[1..],
            ]
            .concat(),
        )
    };
    let create = [
        "create",
        "orders",
        "--partitions",
        "2",
        "--replication-factor",
        "3",
        "--config",
        "retention.ms=60000",
    ];
    assert_eq!(topics(&create).succeeded().stdout, "created topic orders\n");
    let again = topics(&create);
    assert_eq!(again.status, Some(1));
    assert!(
        again
            .stderr
            .starts_with("plimsoll: error: topic orders: TOPIC_ALREADY_EXISTS: "),
        "{}",
        again.stderr
    );
    let told = topics(&[&create[..], &["--if-not-exists"]].concat()).succeeded();
    assert_eq!(told.stdout, "topic orders exists already\n");

    assert_eq!(
        topics(&["list"]).succeeded().stdout,
        "TOPIC   PARTITIONS  REPLICATION\norders  2           3\n"
    );
    let described = topics(&["describe", "orders"]).succeeded().stdout;
    let head = "orders: 2 partitions, replication factor 3\n  retention.ms=60000\n  PARTITION  LEADER  REPLICAS  IN SYNC\n";
    assert!(described.starts_with(head), "{described}");
    assert_eq!(described.lines().count(), 5, "{described}");

    topics(&[
        "alter",
        "orders",
        "--partitions",
        "4",
        "--delete-config",
        "retention.ms",
    ])
    .succeeded();
    let described = topics(&["describe", "orders", "--json"]).succeeded().stdout;
    let described: serde_json::Value = serde_json::from_str(&described).expect("JSON");
    assert_eq!(described[0]["partitions"].as_array().map(Vec::len), Some(4));
    assert_eq!(
        described[0]["partitions"][0]["in_sync_replicas"]
            .as_array()
            .map(Vec::len),
        Some(3)
    );
    assert_ne!(described[0]["configs"]["retention.ms"]["source"], "topic");

    assert_eq!(
        topics(&["delete", "orders"]).succeeded().stdout,
        "deleted topic orders\n"
    );
    assert_eq!(brokers.topics(), [""; 0]);
    let gone = topics(&["delete", "orders"]);
    assert_eq!(gone.status, Some(1));
    assert_eq!(
        gone.stderr,
        "plimsoll: error: topic orders does not exist, or may not be seen\n"
    );
    topics(&["delete", "orders", "--if-exists"]).succeeded();
    let gone = topics(&["describe", "orders"]);
    assert_eq!(
        (gone.status, gone.stderr.as_str()),
        (Some(1), "plimsoll: error: topic orders does not exist\n")
    );
}

#[test]
fn more_replicas_than_brokers_are_refused_with_both_numbers() {
    let brokers = Brokers::start(&["--brokers", "1"]);
    let scratch = Scratch::new("too-many-replicas");
    let create = [
        "topics",
        "create",
        "orders",
        "--replication-factor",
        "3",
        "--bootstrap-server",
        &brokers.bootstrap,
    ];
    let ended = scratch.run(&create);
    assert_eq!(ended.status, Some(1));
    assert!(
        ended.stderr.contains("INVALID_REPLICATION_FACTOR") && ended.stderr.contains('3'),
        "{}",
        ended.stderr
    );
}

#[test]
fn nothing_to_alter_is_a_usage_error() {
    let ended =
        Scratch::new("nothing").run(&["topics", "alter", "orders", "--bootstrap-server", "127.0.0.1:1"]);
    let told = "plimsoll: error: nothing to alter: give --partitions, --config or --delete-config\n";
    assert_eq!((ended.status, ended.stderr.as_str()), (Some(2), told));
}
