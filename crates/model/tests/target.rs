//! Targets: OMB driver files, properties files and flags, from text to resolved settings or to messages.

use model::client_config::Acks;
use model::source::Source;
use model::target::{Target, TargetDraft};

const DRIVER: &str = "\
# A driver file in the manner of OMB's own samples.
name: Kafka
driverClass: io.openmessaging.benchmark.driver.kafka.KafkaBenchmarkDriver

# Kafka client-specific configuration
replicationFactor: 3

topicConfig: |
  min.insync.replicas=2

commonConfig: |
  bootstrap.servers=a:9092,b:9092
  request.timeout.ms=40000

producerConfig: |
  acks=1
  # half way
  linger.ms=1
  batch.size=1048576

consumerConfig: |
  auto.offset.reset=earliest
  max.partition.fetch.bytes=10485760
";

fn draft(text: &str) -> TargetDraft {
    let mut draft = TargetDraft::new();
    draft.read_driver_file("driver.yaml", text);
    draft
}

fn resolve(text: &str) -> Target {
    draft(text)
        .resolve()
        .unwrap_or_else(|faults| panic!("{faults}"))
        .0
}

fn faults(text: &str) -> String {
    draft(text).resolve().expect_err(text).to_string()
}

#[test]
fn a_driver_file_gives_cluster_topics_and_clients() {
    let target = resolve(DRIVER);
    assert_eq!(target.name.as_deref(), Some("Kafka"));
    let servers: Vec<String> = target.bootstrap_servers.iter().map(ToString::to_string).collect();
    assert_eq!(servers, ["a:9092", "b:9092"]);
    assert_eq!(target.replication_factor, Some(3));
    assert_eq!(target.topic_config[0].value, "2");
    assert_eq!(target.producer.config.acks, Acks::Leader);
    assert_eq!(target.producer.config.batch_size_bytes, 1_048_576);
    assert_eq!(target.producer.config.connection.client_id, "plimsoll");
    assert_eq!(target.consumer.config.connection.request_timeout.as_secs(), 40);
    assert_eq!(target.admin.config.connection.request_timeout.as_secs(), 40);
}

#[test]
fn each_value_knows_its_line_of_the_driver_file() {
    let target = resolve(DRIVER);
    let line_of = |values: &[model::source::ResolvedValue], name: &str| {
        values
            .iter()
            .find(|value| value.key == name)
            .expect(name)
            .source
            .clone()
    };
    for (name, line) in [("acks", 16), ("linger.ms", 18), ("request.timeout.ms", 13)] {
        assert_eq!(
            line_of(&target.producer.values, name),
            Source::file("driver.yaml", line),
            "{name}"
        );
        assert!(
            DRIVER
                .lines()
                .nth(line as usize - 1)
                .is_some_and(|text| text.trim().starts_with(name)),
            "{name}"
        );
    }
    assert_eq!(target.topic_config[0].source, Source::file("driver.yaml", 9));
    // In a folded or quoted text the lines are not those of the file.
    let target = resolve("commonConfig: \"bootstrap.servers=a:1\\nlinger.ms=7\"\n");
    assert_eq!(
        line_of(&target.producer.values, "linger.ms"),
        Source::file("driver.yaml", 1)
    );
}

#[test]
fn an_omb_target_does_not_commit_by_itself_and_any_other_does() {
    assert!(!resolve(DRIVER).consumer.config.auto_commit);
    assert!(
        resolve(&DRIVER.replace("auto.offset", "enable.auto.commit=true\n  auto.offset"))
            .consumer
            .config
            .auto_commit
    );
    let mut flags = TargetDraft::new();
    flags.set_bootstrap_servers("a:9092", "--bootstrap-server");
    assert!(flags.resolve().expect("sound").0.consumer.config.auto_commit);
}

#[test]
fn flags_override_properties_files_and_these_the_driver_file() {
    let mut draft = draft(DRIVER);
    draft.read_properties_file("client.properties", "acks=0\nlinger.ms=3\n");
    draft.set_property("linger.ms=9", "-X");
    draft.set_bootstrap_servers("c:1", "--bootstrap-server");
    draft.set_replication_factor("1", "--replication-factor");
    draft.set_topic_config("retention.ms=60000", "--topic-config");
    assert!(draft.has_bootstrap_servers());
    let target = draft.resolve().expect("sound").0;
    assert_eq!(target.producer.config.acks, Acks::None);
    assert_eq!(target.producer.config.linger.as_millis(), 9);
    assert_eq!(target.bootstrap_servers[0].to_string(), "c:1");
    assert_eq!(
        (target.replication_factor, target.topic_config.len()),
        (Some(1), 2)
    );
}

#[test]
fn blocks_may_be_absent_or_maps() {
    let target = resolve("commonConfig:\n  bootstrap.servers: a:9092\n  linger.ms: 7\n");
    assert_eq!(target.producer.config.linger.as_millis(), 7);
    assert_eq!(target.replication_factor, None);
}

#[test]
fn without_brokers_to_ask_it_is_told_once() {
    assert!(!TargetDraft::new().has_bootstrap_servers());
    assert_eq!(
        TargetDraft::new().resolve().expect_err("no brokers").to_string(),
        "bootstrap.servers: missing; name one or more brokers, such as broker1:9092,broker2:9092"
    );
}

#[test]
fn notices_do_not_stop_a_run() {
    let text = DRIVER.replace("replicationFactor", "reset: true\nreplicationFactor");
    let text = text.replace("request.timeout", "client.id=me-{zone.id}\n  request.timeout");
    let notices = draft(&text).resolve().expect("sound").1;
    let told: Vec<String> = notices.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "driver.yaml:6: reset is of a fork of OMB and has no effect; topics that the run did not make are never deleted",
            "driver.yaml:14: {zone.id} in client.id is kept as it is written, since there is no JVM property to take it from",
        ]
    );
}

#[test]
fn what_has_no_effect_is_listed_once_for_all_clients() {
    let text = DRIVER.replace("request.timeout", "ssl.key.password=hunter2\n  request.timeout");
    let target = resolve(&text.replace("acks=1", "acks=1\n  fetch.min.bytes=2"));
    let told: Vec<_> = target
        .not_honoured
        .iter()
        .map(|entry| (entry.name.as_str(), entry.value.as_str()))
        .collect();
    assert_eq!(told, [("fetch.min.bytes", "2"), ("ssl.key.password", "[hidden]")]);
    let document = serde_json::to_string(&target.for_result(false)).expect("JSON");
    assert!(!document.contains("hunter2"), "{document}");
    assert!(
        document.contains(r#""acks":{"value":"1","source":"driver.yaml:17"}"#),
        "{document}"
    );
}

/// Each message that a faulty driver file can bring, as the user sees it.
#[test]
fn faults_say_where_what_and_what_is_allowed() {
    let cases = [
        (
            "driverClass",
            DRIVER.replace("kafka.KafkaBenchmarkDriver", "pulsar.PulsarBenchmarkDriver"),
        ),
        (
            "misspelt key",
            DRIVER.replace("producerConfig", "producersConfig"),
        ),
        ("unknown key", DRIVER.replace("name: Kafka", "colour: red")),
        ("repeated key", DRIVER.replace("name: Kafka", "name: a\nname: b")),
        (
            "replication factor",
            DRIVER.replace("replicationFactor: 3", "replicationFactor: 0"),
        ),
        (
            "replication factor",
            DRIVER.replace("replicationFactor: 3", "replicationFactor: all"),
        ),
        (
            "list for a block",
            DRIVER.replace("topicConfig: |\n  min.insync.replicas=2", "topicConfig: [a]"),
        ),
        ("malformed block", DRIVER.replace("linger.ms=1", "linger.ms=\\u1")),
        (
            "several at once",
            DRIVER
                .replace("linger.ms=1", "linger.ms=-1\n  acks=5")
                .replace("earliest", "first"),
        ),
        (
            "common to all clients",
            DRIVER.replace("request.timeout.ms", "security.protocol=SSL\n  request.timeoutms"),
        ),
        ("no YAML", "name: [".to_owned()),
    ];
    let page: String = cases
        .iter()
        .map(|(what, text)| format!("{what}\n  → {}\n\n", faults(text).replace('\n', "\n  → ")))
        .collect();
    insta::assert_snapshot!(page);
}

#[test]
fn malformed_flags_are_told() {
    let mut draft = TargetDraft::new();
    draft.set_bootstrap_servers("a:9092", "--bootstrap-server");
    draft.set_property("acks", "-X");
    draft.set_topic_config("=5", "--topic-config");
    assert_eq!(
        draft.resolve().expect_err("malformed").to_string(),
        "-X: \"acks\" is not name=value, such as acks=all\n\
         --topic-config: \"=5\" is not name=value, such as min.insync.replicas=2"
    );
}
