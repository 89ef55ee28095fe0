//! Client properties: Kafka's defaults, Kafka's rules, and what is told of the rest.

use std::time::Duration;

use model::client_config::{
    Acks, ClientKind, ClientProperties, Compression, ConsumerConfig, Honoured, HostPort, OffsetReset,
    ProducerConfig, Resolved, catalogue, find_property,
};
use model::source::Source;
use proptest::prelude::*;

fn given(text: &str) -> ClientProperties {
    let mut properties = ClientProperties::default();
    properties.set_default("bootstrap.servers", "localhost:9092", Source::Default);
    properties
        .read_file("c.properties", text)
        .unwrap_or_else(|faults| panic!("{faults}"));
    properties
}

fn producer(text: &str) -> Resolved<ProducerConfig> {
    given(text)
        .producer()
        .unwrap_or_else(|faults| panic!("{text}: {faults}"))
}

fn consumer(text: &str) -> Resolved<ConsumerConfig> {
    given(text)
        .consumer()
        .unwrap_or_else(|faults| panic!("{text}: {faults}"))
}

fn source_of<'a, T>(resolved: &'a Resolved<T>, name: &str) -> (&'a str, &'a Source) {
    let found = resolved
        .values
        .iter()
        .find(|value| value.key == name)
        .expect(name);
    (&found.value, &found.source)
}

#[test]
fn a_producers_defaults_are_those_of_the_java_client() {
    let ProducerConfig { connection, .. } = producer("").config;
    assert_eq!(
        connection.bootstrap_servers,
        [HostPort {
            host: "localhost".into(),
            port: 9092
        }]
    );
    assert_eq!(connection.request_timeout, Duration::from_secs(30));
    assert_eq!(connection.connections_max_idle, Some(Duration::from_secs(540)));
    assert_eq!(
        (connection.send_buffer_bytes, connection.receive_buffer_bytes),
        (Some(131_072), Some(32_768))
    );
    let config = producer("").config;
    assert_eq!((config.acks, config.idempotence), (Acks::All, true));
    assert_eq!(
        (config.batch_size_bytes, config.linger),
        (16_384, Duration::from_millis(5))
    );
    assert_eq!(
        (config.buffer_memory_bytes, config.max_block),
        (33_554_432, Duration::from_secs(60))
    );
    assert_eq!(
        (config.max_in_flight_requests, config.max_request_size_bytes),
        (5, 1_048_576)
    );
    assert_eq!(
        (config.retries, config.delivery_timeout),
        (2_147_483_647, Duration::from_secs(120))
    );
    assert_eq!(config.compression, Compression::None);
    assert!(config.partitioner.adaptive && !config.partitioner.ignore_keys);
    assert_eq!(config.partitioner.availability_timeout, None);
}

#[test]
fn a_consumers_defaults_are_those_of_the_java_client() {
    let config = consumer("").config;
    assert_eq!(
        (config.fetch_min_bytes, config.fetch_max_wait),
        (1, Duration::from_millis(500))
    );
    assert_eq!(
        (config.fetch_max_bytes, config.max_partition_fetch_bytes),
        (52_428_800, 1_048_576)
    );
    assert_eq!(config.session_timeout, Duration::from_secs(45));
    assert_eq!(
        (config.auto_offset_reset, config.auto_commit, config.check_crcs),
        (OffsetReset::Latest, true, true)
    );
    assert_eq!((config.group_id, config.client_rack), (None, None));
    assert_eq!(config.connection.receive_buffer_bytes, Some(65_536));
}

#[test]
fn values_keep_their_sources() {
    let resolved = producer("# head\nacks=1\n");
    assert_eq!(
        source_of(&resolved, "acks"),
        ("1", &Source::file("c.properties", 2))
    );
    assert_eq!(source_of(&resolved, "linger.ms"), ("5", &Source::KafkaDefault));
    assert_eq!(
        source_of(&resolved, "enable.idempotence"),
        ("false", &Source::Derived("acks".into()))
    );
}

#[test]
fn idempotence_gives_way_in_silence_unless_asked_for() {
    assert!(!producer("acks=1").config.idempotence);
    assert!(!producer("acks=0").config.idempotence);
    assert!(!producer("retries=0").config.idempotence);
    assert!(producer("acks=-1").config.idempotence);
    assert!(
        !producer("enable.idempotence=false\nmax.in.flight.requests.per.connection=50")
            .config
            .idempotence
    );
    assert!(producer("enable.idempotence=true").config.idempotence);
}

#[test]
fn a_delivery_timeout_by_default_grows_with_what_it_must_hold() {
    let resolved = producer("linger.ms=100000\nrequest.timeout.ms=50000");
    assert_eq!(resolved.config.delivery_timeout, Duration::from_secs(150));
    let source = Source::Derived("linger.ms + request.timeout.ms".into());
    assert_eq!(source_of(&resolved, "delivery.timeout.ms"), ("150000", &source));
}

#[test]
fn codecs_come_with_their_levels() {
    assert_eq!(
        producer("compression.type=gzip").config.compression,
        Compression::Gzip { level: -1 }
    );
    assert_eq!(
        producer("compression.type=lz4").config.compression,
        Compression::Lz4 { level: 9 }
    );
    let zstd = producer("compression.type=ZSTD\ncompression.zstd.level=-5")
        .config
        .compression;
    assert_eq!(zstd, Compression::Zstd { level: -5 });
}

#[test]
fn minus_one_leaves_it_to_the_system_or_to_never() {
    let connection = producer("send.buffer.bytes=-1\nconnections.max.idle.ms=-1")
        .config
        .connection;
    assert_eq!(
        (connection.send_buffer_bytes, connection.connections_max_idle),
        (None, None)
    );
}

#[test]
fn offsets_may_be_reset_by_age() {
    for (text, age) in [("PT1H", 3_600), ("P1DT30M", 88_200), ("pt1h0.5s", 3_600)] {
        let OffsetReset::ByDuration(found) = consumer(&format!("auto.offset.reset=by_duration:{text}"))
            .config
            .auto_offset_reset
        else {
            panic!("{text}")
        };
        assert_eq!(found.as_secs(), age, "{text}");
    }
    for wrong in [
        "by_duration:",
        "by_duration:P",
        "by_duration:PT",
        "by_duration:PT5",
        "by_duration:P1H",
        "by_duration:-PT1H",
    ] {
        assert!(
            given(&format!("auto.offset.reset={wrong}")).consumer().is_err(),
            "{wrong}"
        );
    }
}

#[test]
fn what_kafka_knows_and_has_no_effect_is_told_once() {
    let resolved = producer(
        "key.serializer=org.apache.kafka.common.serialization.StringSerializer\nssl.truststore.password=hunter2\n\
         metrics.num.samples=2\nenable.metrics.push=false\ngroup.id=g\npartitioner.rack.aware=true\n",
    );
    let told: Vec<_> = resolved
        .not_honoured
        .iter()
        .map(|p| (p.name.as_str(), p.value.as_str(), p.why.as_str()))
        .collect();
    assert_eq!(
        told,
        [
            (
                "key.serializer",
                "org.apache.kafka.common.serialization.StringSerializer",
                "keys and values are bytes, and no serialiser is used"
            ),
            (
                "partitioner.rack.aware",
                "true",
                "partitions are picked without regard to racks"
            ),
            (
                "ssl.truststore.password",
                "[hidden]",
                "it belongs to security.protocol SSL or SASL_SSL, and connections are PLAINTEXT"
            ),
        ]
    );
}

#[test]
fn a_property_of_another_client_is_told_only_where_it_was_meant_for_this_one() {
    let mut properties = given("");
    properties.set_own("linger.ms", "5", Source::file("driver.yaml", 9));
    let told = properties.consumer().expect("sound").not_honoured;
    assert_eq!(told.len(), 1);
    assert_eq!(
        (told[0].name.as_str(), told[0].why.as_str()),
        ("linger.ms", "the consumer has no such property")
    );
}

#[test]
fn strategies_are_taken_by_class_or_by_name_in_their_order() {
    use model::client_config::{AssignmentStrategy, GroupProtocol};
    let protocol = |properties: &str| consumer(properties).config.group_protocol;
    assert_eq!(
        protocol(""),
        GroupProtocol::Classic(vec![
            AssignmentStrategy::Range,
            AssignmentStrategy::CooperativeSticky
        ])
    );
    let sticky = "org.apache.kafka.clients.consumer.StickyAssignor";
    assert_eq!(
        protocol(&format!("partition.assignment.strategy={sticky}, roundrobin")),
        GroupProtocol::Classic(vec![AssignmentStrategy::Sticky, AssignmentStrategy::RoundRobin])
    );
    assert_eq!(
        protocol("group.protocol=CONSUMER\ngroup.remote.assignor=range"),
        GroupProtocol::Consumer(Some("range".to_owned()))
    );
}

#[test]
fn a_name_far_from_every_known_one_is_a_notice() {
    let resolved = producer("my.interceptor.colour=red");
    let told: Vec<String> = resolved.notices.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        ["c.properties:1: my.interceptor.colour is no property of Kafka's clients, and has no effect"]
    );
}

#[test]
fn secrets_are_never_shown() {
    let properties =
        given("sasl.jaas.config=user hunter2\nmy.db.password=hunter2\nsasl.jaas.confg=hunter2\n");
    let shown: String = properties
        .shown()
        .iter()
        .map(|value| value.value.clone())
        .collect();
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(!format!("{properties:?}").contains("hunter2"));
    let fault = properties.producer().expect_err("misspelt").to_string();
    assert!(
        fault.contains("sasl.jaas.confg = [hidden]: ") && !fault.contains("hunter2"),
        "{fault}"
    );
    assert_eq!(properties.get("my.db.password"), Some("hunter2"));
}

#[test]
fn addresses_are_names_or_numbers_with_a_port() {
    for (text, host, port, shown) in [
        ("a:9092", "a", 9092, "a:9092"),
        (
            "PLAINTEXT://b.example.com:1",
            "b.example.com",
            1,
            "b.example.com:1",
        ),
        ("[::1]:9092", "::1", 9092, "[::1]:9092"),
        (" 127.0.0.1:65535 ", "127.0.0.1", 65535, "127.0.0.1:65535"),
    ] {
        let address: HostPort = text.parse().expect(text);
        assert_eq!(
            (address.host.as_str(), address.port, address.to_string().as_str()),
            (host, port, shown)
        );
    }
    for wrong in [
        "a",
        "a:",
        "a:0",
        "a:65536",
        ":9092",
        "a b:1",
        "[::1]",
        "[::1:9092",
        "::1:",
        "http//x:1",
    ] {
        assert!(wrong.parse::<HostPort>().is_err(), "{wrong}");
    }
}

/// Each message that faulty properties can bring, as the user sees it.
#[test]
fn faults_say_where_what_and_what_is_allowed() {
    let cases = [
        (ClientKind::Producer, "bootstrap.servers="),
        (ClientKind::Producer, "bootstrap.servers=,"),
        (ClientKind::Producer, "bootstrap.servers=a:9092,b,c:x"),
        (ClientKind::Producer, "acks=2"),
        (ClientKind::Producer, "acks=al"),
        (ClientKind::Producer, "enable.idempotence=yes"),
        (ClientKind::Producer, "enable.idempotence=true\nacks=1"),
        (ClientKind::Producer, "enable.idempotence=true\nretries=0"),
        (ClientKind::Producer, "max.in.flight.requests.per.connection=6"),
        (ClientKind::Producer, "max.in.flight.requests.per.connection=0"),
        (ClientKind::Producer, "linger.ms=-1"),
        (ClientKind::Producer, "linger.ms=soon"),
        (ClientKind::Producer, "linger.ms="),
        (ClientKind::Producer, "linger.ms=99999999999999999999"),
        (ClientKind::Producer, "lingr.ms=5"),
        (ClientKind::Producer, "batch.size=3000000000"),
        (ClientKind::Producer, "buffer.memory=1000"),
        (ClientKind::Producer, "delivery.timeout.ms=30000"),
        (ClientKind::Producer, "compression.type=brotli"),
        (ClientKind::Producer, "compression.type=gzp"),
        (ClientKind::Producer, "compression.gzip.level=0"),
        (ClientKind::Producer, "compression.zstd.level=23"),
        (ClientKind::Producer, "transactional.id=t1\nacks=1"),
        (ClientKind::Producer, "security.protocol=SASL_SSL"),
        (ClientKind::Producer, "security.protocol=TLS"),
        (ClientKind::Consumer, "group.protocol=newest"),
        (
            ClientKind::Consumer,
            "group.protocol=consumer\nsession.timeout.ms=9000",
        ),
        (ClientKind::Consumer, "group.remote.assignor=uniform"),
        (
            ClientKind::Consumer,
            "partition.assignment.strategy=RangeAssigner",
        ),
        (ClientKind::Consumer, "heartbeat.interval.ms=45000"),
        (ClientKind::Consumer, "auto.offset.reset=first"),
        (ClientKind::Consumer, "isolation.level=committed"),
        (ClientKind::Consumer, "fetch.min.byte=1"),
        (ClientKind::Admin, "default.api.timeout.ms=-5"),
    ];
    let told = |client: ClientKind, text: &str| {
        let properties = given(text);
        let outcome = match client {
            ClientKind::Producer => properties.producer().map(|_| ()),
            ClientKind::Consumer => properties.consumer().map(|_| ()),
            ClientKind::Admin => properties.admin().map(|_| ()),
        };
        outcome.expect_err(text).to_string().replace('\n', "\n  → ")
    };
    let page: String = cases
        .iter()
        .map(|&(client, text)| format!("{client}: {text}\n  → {}\n\n", told(client, text)))
        .collect();
    insta::assert_snapshot!(page);
}

#[test]
fn a_file_that_is_malformed_is_told_line_by_line() {
    let faults = ClientProperties::default()
        .read_file("c.properties", "acks=all\nx=\\uZZZZ\n")
        .expect_err("malformed");
    assert_eq!(
        faults.to_string(),
        "c.properties:2: \\uZZZZ is not \\u with four hexadecimal digits"
    );
}

#[test]
fn every_honoured_property_of_each_client_is_resolved() {
    let all_given = "client.rack=r\ngroup.id=g\ngroup.instance.id=i\ntransactional.id=t\ngroup.protocol=consumer\ngroup.remote.assignor=range\n";
    let (producer, consumer) = (producer(all_given), consumer(all_given));
    let admin = given(all_given).admin().expect("sound");
    // Those of TLS and SASL are read where the protocol asks for them.
    let is_of_security = |name: &str| name.starts_with("ssl.") || name.starts_with("sasl.");
    let honoured = catalogue().iter().filter(|spec| spec.honoured == Honoured::Yes);
    for spec in honoured.filter(|spec| !is_of_security(spec.name)) {
        for (client, values) in [
            (ClientKind::Producer, &producer.values),
            (ClientKind::Consumer, &consumer.values),
            (ClientKind::Admin, &admin.values),
        ] {
            let is_resolved = values.iter().any(|value| value.key == spec.name);
            assert!(
                is_resolved
                    == find_property(spec.name, client).is_some_and(|spec| spec.honoured == Honoured::Yes),
                "{} of the {client}",
                spec.name
            );
        }
    }
}

proptest! {
    #[test]
    fn no_value_of_any_property_makes_a_reader_panic(index in 0..catalogue().len(), value in "[-0-9.,:a-zA-Zµ]{0,24}") {
        let mut properties = given("");
        properties.set_own(catalogue()[index].name, &value, Source::flag("-X"));
        let _ = (properties.producer(), properties.consumer(), properties.admin());
    }
}
