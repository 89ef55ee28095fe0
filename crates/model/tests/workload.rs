//! Workload files, overrides and defaults, from text to a resolved workload or to the messages a user sees.

use std::time::Duration;

use model::source::Source;
use model::units::{Rate, TargetRate};
use model::workload::{
    ConsumerPace, Header, KeyDistributor, Payload, PhaseLength, StampPlacement, Workload, WorkloadDraft, keys,
};
use proptest::prelude::*;

const SOUND: &str = "name: sound\ntopics: 2\npartitionsPerTopic: 3\nmessageSize: 100\nproducersPerTopic: 1\n\
                     producerRate: 1000\nsubscriptionsPerTopic: 1\nconsumerPerSubscription: 1\ntestDurationMinutes: 2\n";

fn resolve(text: &str) -> Workload {
    WorkloadDraft::from_file("w.yaml", text)
        .resolve()
        .unwrap_or_else(|faults| panic!("{faults}"))
        .0
}

/// The sound file with lines replaced or added: `key: value` replaces the line of that key.
fn sound_with(lines: &str) -> String {
    let replaced: Vec<&str> = lines
        .lines()
        .filter_map(|line| line.split_once(':').map(|(key, _)| key))
        .collect();
    let kept = SOUND
        .lines()
        .filter(|line| !replaced.iter().any(|key| line.starts_with(&format!("{key}:"))));
    kept.chain(lines.lines())
        .map(|line| format!("{line}\n"))
        .collect()
}

fn faults(text: &str) -> String {
    match WorkloadDraft::from_file("w.yaml", text).resolve() {
        Ok((workload, _)) => panic!("resolved to {workload:?}"),
        Err(faults) => faults.to_string(),
    }
}

fn source_of<'a>(workload: &'a Workload, key: &str) -> &'a Source {
    &workload
        .values
        .iter()
        .find(|value| value.key == key)
        .expect(key)
        .source
}

#[test]
fn a_sample_file_of_omb_reads_unchanged() {
    let workload = resolve(include_str!("omb/1-topic-16-partitions-1kb.yaml"));
    assert_eq!(workload.name, "1 producer / 1 consumer on 1 topic");
    assert_eq!((workload.topics, workload.partitions_per_topic), (1, 16));
    assert_eq!(workload.message_size.bytes(), 1024);
    assert_eq!(workload.payload, Payload::File("payload/payload-1Kb.data".into()));
    assert_eq!(workload.stamp, StampPlacement::None);
    assert_eq!(
        workload.producer_rate,
        Some(TargetRate::Fixed(Rate::new(10_000_000, 1).expect("rate")))
    );
    assert_eq!(workload.test, PhaseLength::Time(Duration::from_secs(900)));
    assert_eq!(workload.warm_up, Some(PhaseLength::Time(Duration::from_secs(60))));
    assert_eq!(source_of(&workload, "warmupDurationMinutes"), &Source::OmbDefault);
    assert_eq!(source_of(&workload, "topics"), &Source::file("w.yaml", 4));
}

#[test]
fn randomised_payloads_come_from_a_pool() {
    let workload = resolve(include_str!("omb/randomized.yaml"));
    assert_eq!(
        workload.payload,
        Payload::Randomized {
            random_bytes_ratio: 0.5,
            pool_size: 1000
        }
    );
    assert_eq!(workload.key_distributor, KeyDistributor::KeyRoundRobin);
    assert_eq!(workload.stamp, StampPlacement::Value);
}

#[test]
fn a_run_without_a_file_has_defaults_of_its_own() {
    let (workload, notices) = WorkloadDraft::standard().resolve().expect("defaults");
    assert!(notices.is_empty());
    assert_eq!(workload.test, PhaseLength::Time(Duration::from_secs(30)));
    assert_eq!(workload.payload, Payload::Text);
    assert!(workload.produces() && workload.consumes());
    assert!(
        workload
            .values
            .iter()
            .all(|value| value.source == Source::Default),
        "{:?}",
        workload.values
    );
}

#[test]
fn a_file_lends_its_name_to_a_workload_without_one() {
    let draft = WorkloadDraft::from_file("dir/simple-load.yaml", &SOUND.replace("name: sound\n", ""));
    assert_eq!(draft.resolve().expect("sound").0.name, "simple-load");
}

#[test]
fn flags_override_the_file_and_replace_what_says_the_same() {
    let mut draft = WorkloadDraft::from_file("w.yaml", SOUND);
    draft.apply_override("producerRate=50k");
    draft.apply_override("topicWeights=[3, 1]");
    draft.set("testDuration", "90s", "--duration");
    draft.set("warmupRecords", "500", "--warmup-records");
    let workload = draft.resolve().expect("sound").0;
    assert_eq!(
        workload.producer_rate,
        Some(TargetRate::Fixed(Rate::new(50_000, 1).expect("rate")))
    );
    assert_eq!(workload.topic_weights, [3, 1]);
    assert_eq!(workload.test, PhaseLength::Time(Duration::from_secs(90)));
    assert_eq!(workload.warm_up, Some(PhaseLength::Records(500)));
    assert_eq!(source_of(&workload, "producerRate"), &Source::flag("--set"));
    assert_eq!(source_of(&workload, "testDuration"), &Source::flag("--duration"));
    assert!(
        !workload
            .values
            .iter()
            .any(|value| value.key == "testDurationMinutes")
    );
}

#[test]
fn a_test_of_so_many_records_has_no_warm_up_unless_asked() {
    let workload = resolve(&sound_with(
        "testDurationMinutes:\ntestRecords: 5\nproducerRate: 0.5",
    ));
    assert_eq!((workload.warm_up, workload.test), (None, PhaseLength::Records(5)));
    let workload = resolve(&sound_with(
        "testDurationMinutes:\ntestRecords: 5\nwarmupDuration: 2s",
    ));
    assert_eq!(workload.warm_up, Some(PhaseLength::Time(Duration::from_secs(2))));
}

#[test]
fn a_warm_up_of_zero_is_none() {
    assert_eq!(resolve(&sound_with("warmupDurationMinutes: 0")).warm_up, None);
}

#[test]
fn producing_alone_and_consuming_alone_are_workloads() {
    let produce = resolve(&sound_with(
        "subscriptionsPerTopic: 0\nconsumerPerSubscription: 0",
    ));
    assert!(produce.produces() && !produce.consumes());
    let consume = resolve(&sound_with("producersPerTopic: 0\nproducerRate:\nmessageSize:"));
    assert!(!consume.produces() && consume.consumes());
    assert_eq!(consume.producer_rate, None);
}

#[test]
fn existing_topics_are_named_and_need_no_partition_count() {
    let text = sound_with("topics:\npartitionsPerTopic:\ntopicNames: [orders, bills]\nexistingTopics: true");
    let workload = resolve(&text);
    assert_eq!(workload.topic_names, ["orders", "bills"]);
    assert_eq!((workload.topics, workload.existing_topics), (2, true));
}

#[test]
fn our_own_keys_are_read() {
    let workload = resolve(&sound_with(
        "partitionWeights: [1, 0, 9]\nheaders: {trace: abc, empty: \"\"}\nconsumerDelayMs: 0.2\ntopicsPerConsumer: 2\n\
         stamp: header\nseed: 77\nmessageSize: 1KiB",
    ));
    assert_eq!(workload.partition_weights, [1, 0, 9]);
    assert_eq!(
        workload.headers,
        [
            Header {
                name: "trace".into(),
                value: b"abc".to_vec()
            },
            Header {
                name: "empty".into(),
                value: Vec::new()
            },
        ]
    );
    assert_eq!(
        workload.consumer_pace,
        ConsumerPace::DelayPerRecord(Duration::from_micros(200))
    );
    assert_eq!((workload.topics_per_consumer, workload.seed), (2, 77));
    assert_eq!(workload.stamp, StampPlacement::Header);
    assert_eq!(workload.message_size.bytes(), 1024);
    let workload = resolve(&sound_with("headerCount: 2\nheaderSize: 3B\nconsumerRate: 30/m"));
    assert_eq!(
        workload.headers[1],
        Header {
            name: "h1".into(),
            value: b"abc".to_vec()
        }
    );
    assert_eq!(
        workload.consumer_pace,
        ConsumerPace::AtMost(Rate::new(1, 2).expect("rate"))
    );
}

#[test]
fn small_records_carry_no_stamp() {
    assert_eq!(
        resolve(&sound_with("messageSize: 23")).stamp,
        StampPlacement::None
    );
    assert_eq!(
        resolve(&sound_with("messageSize: 24")).stamp,
        StampPlacement::Value
    );
    assert_eq!(resolve(&sound_with("messageSize: 0")).message_size.bytes(), 0);
}

#[test]
fn keys_of_forks_are_told_of_and_do_not_stop_the_run() {
    let draft = WorkloadDraft::from_file("w.yaml", &sound_with("reset: true\ndrainProducerRate: -1"));
    let told: Vec<String> = draft
        .resolve()
        .expect("sound")
        .1
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        told,
        [
            "w.yaml:10: reset is of a fork of OMB and has no effect; topics that the run did not make are never deleted",
            "w.yaml:11: drainProducerRate is of a fork of OMB and has no effect; it belongs to its backlog mode",
        ]
    );
}

#[test]
fn a_payload_file_must_have_the_size_of_a_message() {
    let workload = resolve(&sound_with("payloadFile: p.data"));
    assert_eq!(workload.check_payload_len(100), Ok(()));
    assert_eq!(
        workload.check_payload_len(0).expect_err("empty").to_string(),
        "w.yaml:10: payloadFile = p.data: the file is empty, and messageSize is 100"
    );
    assert_eq!(
        workload.check_payload_len(99).expect_err("too short").to_string(),
        "w.yaml:10: payloadFile = p.data: the file has 99 bytes, and messageSize is 100; set messageSize: 99 or give a \
         file of 100 bytes"
    );
}

#[test]
fn a_wrong_key_is_refused_and_the_right_one_named() {
    let text = SOUND.replace("producerRate", "producersRate");
    let message = faults(&text);
    assert!(message.starts_with(
        "w.yaml:6: producersRate = 1000: unknown key; did you mean producerRate? Allowed: name, "
    ));
    assert_eq!(
        message.lines().count(),
        1,
        "the missing producerRate is the same slip: {message}"
    );
}

/// Each message that a faulty workload can bring, as the user sees it.
#[test]
fn faults_say_where_what_and_what_is_allowed() {
    let cases = [
        "topics: 0",
        "topics: -1",
        "topics: 2.5",
        "topics: many",
        "topics: 99999999999999999999999",
        "topics:",
        "topics: [1, 2]",
        "topics: 2\ntopics: 3",
        "partitionsPerTopic: 0",
        "partitionsPerTopic: 900000",
        "messageSize: -1",
        "messageSize: 3GiB",
        "messageSize: 16k",
        "messageSize: big",
        "keyDistributor: key_round_robin",
        "keyDistributor: SOME_KEY",
        "keyDistributor: RANDOM_NANO\npartitionWeights: [1, 1, 1]",
        "useRandomizedPayloads: yes",
        "useRandomizedPayloads: true",
        "useRandomizedPayloads: true\nrandomizedPayloadPoolSize: 9000000\nmessageSize: 1MiB",
        "randomBytesRatio: 1.5",
        "producerRate: 0",
        "producerRate: 0.0",
        "producerRate: -5",
        "producerRate: 200000000",
        "producerRate: fast",
        "producerRate:",
        "producersPerTopic: 0\nsubscriptionsPerTopic: 0",
        "producersPerTopic: 99999",
        "consumerPerSubscription: 0",
        "consumerBacklogSizeGB: 10",
        "backlogDrainRatio: 2",
        "testDurationMinutes: 0",
        "testDurationMinutes: -1",
        "testDurationMinutes: 0.5",
        "testDurationMinutes: 99999999",
        "testDurationMinutes:",
        "testDurationMinutes: 1\ntestDuration: 60s",
        "testDurationMinutes:\ntestDuration: 60",
        "testDurationMinutes:\ntestDuration: 400d",
        "testDurationMinutes:\ntestRecords: 0",
        "warmupDurationMinutes: -1",
        "warmupDuration: -10s",
        "topicWeights: [1]",
        "topicWeights: 3",
        "topicWeights: [1, 1001]",
        "partitionWeights: [0, 0, 0]",
        "topicNames: [a b, a/b]",
        "topicNames: [a, a]",
        "topicNames: [a]",
        "existingTopics: true",
        "headers: 3",
        "headerCount: 3",
        "headerSize: 3",
        "headerCount: 1000\nheaderSize: 1MiB",
        "stamp: values",
        "stamp: value\nmessageSize: 10",
        "topicsPerConsumer: 3",
        "consumerDelayMs: 0",
        "consumerDelayMs: 5\nconsumerRate: 5",
        "consumerRate: 0",
        "seed: -1",
        "colour: red",
        "Topics: 1",
    ];
    let page: String = cases
        .iter()
        .map(|case| {
            format!(
                "{case}\n  → {}\n\n",
                faults(&sound_with(case)).replace('\n', "\n  → ")
            )
        })
        .collect();
    insta::assert_snapshot!(page);
}

#[test]
fn all_faults_of_file_and_flags_are_told_at_once_in_the_order_of_lines() {
    let mut draft = WorkloadDraft::from_file(
        "w.yaml",
        "topics: 0\nmessageSize: -1\nproducersPerTopic: 1\ncolour: red\n",
    );
    draft.apply_override("seed");
    draft.apply_override("testDurations=5");
    let message = draft.resolve().expect_err("faulty").to_string();
    let starts: Vec<&str> = message
        .lines()
        .map(|line| line.split(' ').next().unwrap_or_default())
        .collect();
    assert_eq!(
        starts[..4],
        ["w.yaml:1:", "w.yaml:2:", "w.yaml:4:", "--set:"],
        "{message}"
    );
    assert!(
        message.contains("partitionsPerTopic: missing; give the partitions"),
        "{message}"
    );
    assert!(message.contains("--set: \"seed\" is not key=value"), "{message}");
    assert!(
        message.contains("--set: testDurations = 5: unknown key; did you mean testDuration?"),
        "{message}"
    );
}

#[test]
fn a_file_that_is_no_yaml_is_one_fault_with_its_line() {
    assert_eq!(
        faults("topics: [1\n").lines().count(),
        1,
        "{}",
        faults("topics: [1\n")
    );
    assert!(faults("- topics\n").starts_with("w.yaml:1: the file must be a list of `key: value` lines"));
}

/// The assignments of a resolved workload give the same workload again, which is what the line that reproduces a run
/// rests on.
#[test]
fn the_assignments_of_a_workload_give_it_again() {
    for text in [
        include_str!("omb/1-topic-16-partitions-1kb.yaml").to_owned(),
        include_str!("omb/randomized.yaml").to_owned(),
        sound_with(
            "headers: {\"a: b\": \"x, \\\"y\\\" \\u00e9\"}\npartitionWeights: [1, 2, 3]\ntestDurationMinutes:\ntestRecords: 7",
        ),
        sound_with(
            "topics:\ntopicNames: [a, b-c]\nexistingTopics: true\nproducersPerTopic: 0\nproducerRate:",
        ),
        sound_with("headerCount: 2\nheaderSize: 5\nconsumerDelayMs: 2.5\nproducerRate: max"),
    ] {
        let workload = resolve(&text);
        let mut again = WorkloadDraft::standard();
        for assignment in workload.assignments() {
            again.apply_override(&assignment);
        }
        let again = again.resolve().unwrap_or_else(|faults| panic!("{faults}")).0;
        assert_eq!(
            Workload {
                values: Vec::new(),
                ..again
            },
            Workload {
                values: Vec::new(),
                ..workload
            }
        );
    }
}

proptest! {
    #[test]
    fn no_value_of_any_key_makes_the_reader_panic(index in 0..33usize, value in "[-0-9.,:a-zµ{}\\[\\]\"* ]{0,20}") {
        let _ = WorkloadDraft::from_file("w.yaml", &sound_with(&format!("{}: {value}", keys()[index].name))).resolve();
        let mut draft = WorkloadDraft::standard();
        draft.apply_override(&format!("{}={value}", keys()[index].name));
        let _ = draft.resolve();
    }
}
