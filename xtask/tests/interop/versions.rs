//! plimsoll on one release of Apache Kafka after the other, from the oldest that it serves to the newest.
//!
//! `cargo x test --versions` starts each release in turn and says which it is in `PLIMSOLL_TEST_KAFKA_VERSION`.

use std::process::Command;
use std::time::Duration;

use crate::java_tools::Tools;
use crate::program;
use crate::run::{Scratch, assert_every_record_arrived, count};

fn version() -> &'static str {
    // One release a process: what is leaked is one short text.
    Box::leak(crate::required("PLIMSOLL_TEST_KAFKA_VERSION").into_boxed_str())
}

/// A workload on topics of the run's own, with every record accounted for.
fn arrives(test: &str, properties: &[&str]) {
    let scratch = Scratch::new(&format!("versions-{test}"));
    let bootstrap = crate::real_kafka();
    let options = properties.iter().flat_map(|property| ["-X", property]);
    let load = [
        "--bootstrap-server",
        &bootstrap,
        "--topics",
        "2",
        "--partitions",
        "3",
        "--replication-factor",
        "1",
        "--record-size",
        "200",
        "--rate",
        "2000",
        "--warmup",
        "1s",
        "--duration",
        "3s",
        "--consumers-per-subscription",
        "2",
    ];
    let result = scratch.run(&load.into_iter().chain(options).collect::<Vec<_>>());
    assert_every_record_arrived(&result, 7000);
}

#[test]
fn every_record_arrives_with_acks_all_and_idempotence() {
    arrives("acks-all", &[]);
}

#[test]
fn every_record_arrives_with_acks_1() {
    arrives("acks-1", &["acks=1"]);
}

#[test]
fn every_record_arrives_in_every_codec() {
    for codec in ["gzip", "snappy", "lz4", "zstd"] {
        arrives(codec, &[&format!("compression.type={codec}")]);
    }
}

#[test]
fn what_is_written_with_acks_0_is_in_the_log() {
    let scratch = Scratch::new("versions-acks-0");
    let bootstrap = crate::real_kafka();
    let load = [
        "--topics",
        "1",
        "--partitions",
        "1",
        "--replication-factor",
        "1",
        "--subscriptions",
        "0",
    ];
    let time = [
        "--rate",
        "1000",
        "--warmup",
        "0",
        "--duration",
        "2s",
        "-X",
        "acks=0",
    ];
    let result = scratch.run(&[&["--bootstrap-server", &bootstrap][..], &load, &time].concat());
    let totals = &result["whole_run"];
    assert_eq!(
        count(&totals["written_count"]),
        count(&totals["confirmed_count"]),
        "{totals:#}"
    );
}

#[test]
fn the_releases_own_consumer_reads_what_was_written() {
    let (bootstrap, tools) = (crate::real_kafka(), Tools::of(version()));
    let topic = "versions-read-by-java";
    topics(
        &bootstrap,
        &["create", topic, "--partitions", "2", "--replication-factor", "1"],
    );
    for codec in ["none", "zstd"] {
        let scratch = Scratch::new(&format!("versions-java-{codec}"));
        let load = [
            "--topic",
            topic,
            "--existing",
            "--subscriptions",
            "0",
            "--rate",
            "500",
        ];
        let time = ["--warmup", "0", "--duration", "2s"];
        let compression = format!("compression.type={codec}");
        let parts = [
            &["--bootstrap-server", &bootstrap][..],
            &load,
            &time,
            &["-X", &compression],
        ]
        .concat();
        assert_eq!(
            count(&scratch.run(&parts)["whole_run"]["acknowledged_count"]),
            1000
        );
    }
    let read = [
        "--bootstrap-server",
        &bootstrap,
        "--topic",
        topic,
        "--from-beginning",
    ];
    let end = ["--max-messages", "2000", "--timeout-ms", "30000"];
    let ended = tools.run("kafka-console-consumer", &[&read[..], &end].concat(), "");
    assert!(
        ended.stderr.contains("Processed a total of 2000 messages"),
        "{ended}"
    );
    topics(&bootstrap, &["delete", topic]);
}

#[track_caller]
fn topics(bootstrap: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(crate::plimsoll());
    command
        .arg("topics")
        .args(arguments)
        .args(["--bootstrap-server", bootstrap]);
    program::run(&mut command, "", Duration::from_secs(60)).succeeded()
}

#[test]
fn topics_are_made_described_altered_and_deleted() {
    let bootstrap = crate::real_kafka();
    let topic = "versions-made";
    let create = [
        "create",
        topic,
        "--partitions",
        "2",
        "--replication-factor",
        "1",
        "--config",
        "retention.ms=60000",
    ];
    topics(&bootstrap, &create);
    assert!(topics(&bootstrap, &["list"]).contains(topic));
    topics(
        &bootstrap,
        &[
            "alter",
            topic,
            "--partitions",
            "4",
            "--config",
            "retention.ms=70000",
        ],
    );
    let told = topics(&bootstrap, &["describe", topic]);
    assert!(told.contains("70000"), "{told}");
    topics(&bootstrap, &["delete", topic]);
    assert!(!topics(&bootstrap, &["list"]).contains(topic));
}
