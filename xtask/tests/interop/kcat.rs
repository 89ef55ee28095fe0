//! kcat, and so librdkafka, against the embedded broker.

use std::collections::HashMap;
use std::process::Command;
use std::time::Duration;

use crate::embedded::Embedded;
use crate::program::{self, Ended};

const AT_MOST: Duration = Duration::from_secs(60);

#[track_caller]
fn kcat(brokers: &Embedded, arguments: &[&str], input: &str) -> Ended {
    let mut command = Command::new("kcat");
    // Its default of a minute would hide that something is not answered.
    command
        .args(["-b", &brokers.bootstrap, "-m", "20"])
        .args(arguments);
    program::run(&mut command, input, AT_MOST)
}

/// Numbered lines of about 40 bytes.
fn lines(count: u32) -> String {
    (0..count)
        .map(|number| format!("line {number:08} of {count} for the broker\n"))
        .collect()
}

#[test]
fn the_metadata_names_every_broker_and_every_partitions_leader() {
    let brokers = Embedded::start(3);
    kcat(&brokers, &["-P", "-t", "told"], "x\n").succeeded();
    let told = kcat(&brokers, &["-L", "-t", "told"], "").succeeded();
    assert!(told.contains("3 brokers:"), "{told}");
    for address in brokers.bootstrap.split(',') {
        assert!(told.contains(&format!("at {address}")), "{address} in {told}");
    }
    assert!(told.contains("topic \"told\" with "), "{told}");
    assert!(told.contains("partition 0, leader "), "{told}");
    assert!(!told.contains("leader -1"), "{told}");
}

#[test]
fn what_was_produced_is_consumed_in_order_with_every_codec() {
    let brokers = Embedded::start(3);
    let sent = lines(20_000);
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let topic = format!("codec-{codec}");
        kcat(
            &brokers,
            &["-P", "-t", &topic, "-p", "0", "-z", codec, "-X", "acks=all"],
            &sent,
        )
        .succeeded();
        let read = kcat(
            &brokers,
            &["-C", "-t", &topic, "-p", "0", "-o", "beginning", "-e", "-q"],
            "",
        )
        .succeeded();
        assert_eq!(read.lines().count(), 20_000, "{codec}");
        assert!(
            read == sent,
            "{codec}: the same number of lines, and not the same lines"
        );
    }
}

#[test]
fn acks_of_none_one_and_all_and_idempotence_lose_nothing() {
    let brokers = Embedded::start(3);
    let sent = lines(5_000);
    for (topic, setting) in [
        ("acks-0", "acks=0"),
        ("acks-1", "acks=1"),
        ("acks-all", "acks=all"),
        ("once", "enable.idempotence=true"),
    ] {
        kcat(&brokers, &["-P", "-t", topic, "-p", "0", "-X", setting], &sent).succeeded();
        let read = kcat(
            &brokers,
            &[
                "-C",
                "-t",
                topic,
                "-p",
                "0",
                "-o",
                "beginning",
                "-c",
                "5000",
                "-q",
            ],
            "",
        );
        assert!(read.succeeded() == sent, "{setting}");
    }
}

#[test]
fn keys_headers_and_null_values_come_back_as_they_were_sent() {
    let brokers = Embedded::start(3);
    let produce = [
        "-P", "-t", "shape", "-p", "0", "-K", ":", "-Z", "-H", "unit=ms", "-H", "empty=",
    ];
    kcat(&brokers, &produce, "key:value\n:no key\ntombstone:\n").succeeded();
    let read = kcat(
        &brokers,
        &[
            "-C",
            "-t",
            "shape",
            "-p",
            "0",
            "-o",
            "beginning",
            "-e",
            "-q",
            "-f",
            "%o %K/%k %S/%s %h\n",
        ],
        "",
    )
    .succeeded();
    let expected = [
        "0 3/key 5/value unit=ms,empty=",
        "1 -1/ 6/no key unit=ms,empty=",
        "2 9/tombstone -1/ unit=ms,empty=",
    ];
    assert_eq!(read.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_group_goes_on_where_it_has_committed() {
    let brokers = Embedded::start(3);
    let read = |count: &str| {
        let read = [
            "-G",
            "readers",
            "-X",
            "auto.offset.reset=earliest",
            "-q",
            "-c",
            count,
            "group",
        ];
        kcat(&brokers, &read, "").succeeded()
    };
    kcat(&brokers, &["-P", "-t", "group"], &lines(3_000)).succeeded();
    let mut read_by_both: Vec<String> = read("1000").lines().map(str::to_owned).collect();
    read_by_both.extend(read("2000").lines().map(str::to_owned));
    assert_eq!(read_by_both.len(), 3_000);
    read_by_both.sort_unstable();
    read_by_both.dedup();
    assert_eq!(
        read_by_both.len(),
        3_000,
        "the second member read again what the first had committed"
    );
}

#[test]
fn offsets_are_found_by_time() {
    let brokers = Embedded::start(1);
    kcat(&brokers, &["-P", "-t", "times", "-p", "0"], "a\nb\nc\n").succeeded();
    let offset = |time: &str| {
        let found = kcat(&brokers, &["-Q", "-t", &format!("times:0:{time}")], "").succeeded();
        found
            .trim()
            .rsplit(' ')
            .next()
            .map(str::to_owned)
            .unwrap_or_default()
    };
    assert_eq!(offset("-2"), "0", "earliest");
    assert_eq!(offset("-1"), "3", "latest");
    assert_eq!(
        offset("1000"),
        "0",
        "the first record at or after a time long ago"
    );
}

#[test]
fn records_without_a_key_are_spread_and_none_is_read_twice() {
    let brokers = Embedded::start(3);
    crate::java_tools::create_topic(&brokers.bootstrap, "spread", 6, 3, &[]);
    kcat(
        &brokers,
        &["-P", "-t", "spread", "-X", "sticky.partitioning.linger.ms=1"],
        &lines(30_000),
    )
    .succeeded();
    let read = kcat(
        &brokers,
        &[
            "-C",
            "-t",
            "spread",
            "-o",
            "beginning",
            "-e",
            "-q",
            "-f",
            "%p %s\n",
        ],
        "",
    )
    .succeeded();
    let mut by_partition: HashMap<&str, Vec<&str>> = HashMap::new();
    for line in read.lines() {
        let (partition, value) = line.split_once(' ').expect("partition and value");
        by_partition.entry(partition).or_default().push(value);
    }
    assert_eq!(by_partition.values().map(Vec::len).sum::<usize>(), 30_000);
    assert!(by_partition.len() > 1, "all in one partition");
    // Lines are numbered as they were sent, so each partition's must rise.
    assert!(
        by_partition
            .values()
            .all(|values| values.is_sorted_by(|a, b| a < b)),
        "reordered within a partition"
    );
}
