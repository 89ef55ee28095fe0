//! Quotas as clients meet them: set and read by their APIs, and held against what is produced, fetched and changed.

use super::*;
use crate::answer::Answer;

/// A client id with its quotas, and a client that has none.
const BOUND: &str = "bound";
const FREE: &str = "free";

/// What a request asks to be set, by key; `None` takes it away.
type Ops<'a> = &'a [(&'a str, Option<f64>)];

fn part(kind: &str, name: Option<&str>) -> alter_client_quotas::EntityData {
    alter_client_quotas::EntityData {
        entity_type: kind.to_owned(),
        entity_name: name.map(str::to_owned),
    }
}

fn entry(entity: &[(&str, Option<&str>)], ops: Ops<'_>) -> alter_client_quotas::EntryData {
    let ops = ops.iter().map(|(key, value)| alter_client_quotas::OpData {
        key: (*key).to_owned(),
        value: value.unwrap_or_default(),
        remove: value.is_none(),
    });
    alter_client_quotas::EntryData {
        entity: entity.iter().map(|(kind, name)| part(kind, *name)).collect(),
        ops: ops.collect(),
    }
}

impl Bench {
    fn alter(&mut self, entries: Vec<alter_client_quotas::EntryData>, validate_only: bool) -> Vec<String> {
        let response = self.ask(
            1,
            &AlterClientQuotasRequest {
                entries,
                validate_only,
            },
        );
        let told = response.entries.into_iter().map(|entry| {
            let code = entry.error_code.name();
            entry
                .error_message
                .map_or(code.to_owned(), |text| format!("{code}: {text}"))
        });
        told.collect()
    }

    /// Sets quotas of a client id; null for its default.
    fn set(&mut self, client_id: Option<&str>, ops: Ops<'_>) {
        let told = self.alter(vec![entry(&[("client-id", client_id)], ops)], false);
        assert_eq!(told, ["NONE"]);
    }

    /// What there is, as `user=u,client-id=<default>: key=value`.
    fn describe(&mut self, components: &[(&str, i8, Option<&str>)], strict: bool) -> Vec<String> {
        let components = components
            .iter()
            .map(|(kind, match_type, name)| describe_client_quotas::ComponentData {
                entity_type: (*kind).to_owned(),
                match_type: *match_type,
                match_name: name.map(str::to_owned),
            })
            .collect();
        let response = self.ask(1, &DescribeClientQuotasRequest { components, strict });
        let Some(entries) = response.entries else {
            return vec![response.error_code.name().to_owned()];
        };
        let shown = entries.into_iter().map(|entry| {
            let entity: Vec<String> = entry
                .entity
                .iter()
                .map(|part| {
                    let name = part.entity_name.as_deref().unwrap_or("<default>");
                    format!("{}={name}", part.entity_type)
                })
                .collect();
            let values: Vec<String> = entry
                .values
                .iter()
                .map(|value| format!("{}={}", value.key, value.value))
                .collect();
            format!("{}: {}", entity.join(","), values.join(","))
        });
        shown.collect()
    }

    /// Sends one batch of `bytes` as `client_id`; gives what becomes of it, and the answer's throttle time where there is one.
    fn produce_as(
        &mut self,
        client_id: &str,
        broker: i32,
        acks: i16,
        bytes: usize,
    ) -> (Outcome, Option<i32>) {
        let frame = self.produce_frame(client_id, acks, bytes);
        let (asked, outcome) = self.send(broker, &frame);
        let answer = self.take(asked);
        let throttled = answer.map(|bytes| {
            let (_, response) = decode_produce_response(9, &bytes).expect("a response");
            response.throttle_time_ms
        });
        (outcome, throttled)
    }

    /// A request with one batch of one record of `bytes`, length field included.
    fn produce_frame(&self, client_id: &str, acks: i16, bytes: usize) -> Vec<u8> {
        let now_ms = ORIGIN_MS + (self.now / MS) as i64;
        let batch = batch_bytes(&[now_ms], bytes, Codec::None);
        let head = ProduceHead {
            correlation_id: 7,
            client_id: Some(client_id),
            version: 9,
            transactional_id: None,
            acks,
            timeout_ms: 1500,
        };
        let partitions = [ProducePartition {
            index: 0,
            batch_bytes: batch.len(),
        }];
        let topics = [ProduceTopic {
            name: "t",
            topic_id: wire::Uuid::ZERO,
            partitions: &partitions,
        }];
        let (mut out, mut cuts) = (Vec::new(), Vec::new());
        encode_produce_request(&head, &topics, &mut out, &mut cuts);
        let tail = out.split_off(cuts[0]);
        [&out, &batch[..], &tail].concat()
    }

    /// Fetches from the start of the topic; gives records' bytes and throttle time, and the frame.
    fn fetch_as(&mut self, client_id: &str, offset: i64, max_bytes: i32) -> (usize, i32, Outcome) {
        let partition = FetchPartition {
            fetch_offset: offset,
            partition_max_bytes: max_bytes,
            ..Default::default()
        };
        let topics = vec![FetchTopic {
            topic: "t".to_owned(),
            partitions: vec![partition],
            ..Default::default()
        }];
        let request = FetchRequest {
            max_bytes,
            topics,
            ..Default::default()
        };
        let leader = self.leader("t");
        let frame = encode_fetch_request(7, Some(client_id), 12, &request);
        let (asked, outcome) = self.send(leader, &frame);
        let bytes = self.take(asked).expect("an answer at once");
        let response = FetchResponseRef::decode(12, &bytes).expect("a response");
        let records = response
            .partitions
            .iter()
            .map(|partition| partition.records.len());
        (records.sum(), response.throttle_time_ms, outcome)
    }
}

fn muted_ms(outcome: &Outcome) -> u32 {
    match outcome {
        Outcome::Answer(answer) | Outcome::Last(answer) => Answer::throttle_ms(answer),
        Outcome::Silent(throttle_ms) => *throttle_ms,
        Outcome::Later | Outcome::Hangup => 0,
    }
}

#[test]
fn quotas_are_set_read_and_taken_away() {
    let mut bench = Bench::new(1, &[]);
    let rates: Ops<'_> = &[
        ("producer_byte_rate", Some(1e6)),
        ("consumer_byte_rate", Some(2e6)),
    ];
    let told = bench.alter(
        vec![
            entry(&[("client-id", Some("c"))], rates),
            entry(&[("client-id", None)], &[("controller_mutation_rate", Some(0.5))]),
            entry(
                &[("user", Some("u")), ("client-id", None)],
                &[("producer_byte_rate", Some(3.0))],
            ),
            entry(&[("user", None)], &[("producer_byte_rate", Some(4.0))]),
        ],
        false,
    );
    assert_eq!(told, ["NONE"; 4]);
    let of_client = "client-id=c: consumer_byte_rate=2000000,producer_byte_rate=1000000";
    let of_clients = "client-id=<default>: controller_mutation_rate=0.5";
    let of_both = "user=u,client-id=<default>: producer_byte_rate=3";
    let of_users = "user=<default>: producer_byte_rate=4";
    assert_eq!(
        bench.describe(&[], false),
        [of_clients, of_client, of_users, of_both]
    );
    let none: [&str; 0] = [];
    assert_eq!(bench.describe(&[], true), none);
    assert_eq!(bench.describe(&[("client-id", 0, Some("c"))], true), [of_client]);
    assert_eq!(
        bench.describe(&[("client-id", 1, None)], false),
        [of_clients, of_both]
    );
    assert_eq!(bench.describe(&[("client-id", 1, None)], true), [of_clients]);
    assert_eq!(bench.describe(&[("user", 2, None)], false), [of_users, of_both]);
    assert_eq!(
        bench.describe(&[("user", 2, None), ("client-id", 2, None)], true),
        [of_both]
    );
    assert_eq!(bench.describe(&[("ip", 2, None)], false), none);
    for (wrong, code) in [
        (vec![("ip", 2, None), ("user", 2, None)], "INVALID_REQUEST"),
        (vec![("user", 0, None)], "INVALID_REQUEST"),
        (vec![("user", 1, Some("u"))], "INVALID_REQUEST"),
        (vec![("user", 3, None)], "INVALID_REQUEST"),
        (vec![("user", 2, None), ("user", 2, None)], "INVALID_REQUEST"),
        (vec![("", 2, None)], "INVALID_REQUEST"),
        (vec![("host", 2, None)], "UNSUPPORTED_VERSION"),
    ] {
        assert_eq!(bench.describe(&wrong, false), [code], "{wrong:?}");
    }

    bench.set(Some("c"), &[("consumer_byte_rate", None)]);
    assert_eq!(
        bench.describe(&[("client-id", 0, Some("c"))], true),
        ["client-id=c: producer_byte_rate=1000000"]
    );
    bench.set(Some("c"), &[("producer_byte_rate", None)]);
    assert_eq!(bench.describe(&[("client-id", 0, Some("c"))], true), none);
}

#[test]
fn what_cannot_be_a_quota_is_refused_by_name_and_changes_nothing() {
    let mut bench = Bench::new(1, &[]);
    let client: &[(&str, Option<&str>)] = &[("client-id", Some("c"))];
    let good: Ops<'_> = &[("producer_byte_rate", Some(1.0))];
    for (entity, ops, expected) in [
        (
            client,
            &[
                ("producer_byte_rate", Some(1.0)),
                ("request_percentage", Some(50.0)),
            ][..],
            "request_percentage",
        ),
        (
            client,
            &[("connection_creation_rate", Some(1.0))],
            "a quota of addresses",
        ),
        (client, &[("producer_byte_rat", Some(1.0))], "producer_byte_rat"),
        (client, &[("producer_byte_rate", Some(0.0))], "above 0, not 0"),
        (client, &[("producer_byte_rate", Some(f64::NAN))], "above 0"),
        (client, &[("consumer_byte_rate", Some(1.5))], "whole number"),
        (
            client,
            &[("producer_byte_rate", Some(1.0)), ("producer_byte_rate", None)],
            "twice",
        ),
        (&[], good, "names a user, a client-id or both"),
        (&[("client-id", Some(""))], good, "an empty client-id"),
        (&[("ip", None)], good, "no quotas of addresses"),
        (&[("host", None)], good, "no entity type host"),
        (&[("user", None), ("user", Some("u"))], good, "twice"),
    ] {
        let told = bench.alter(vec![entry(entity, ops)], false);
        assert!(
            told[0].starts_with("INVALID_REQUEST: ") && told[0].contains(expected),
            "{entity:?} {ops:?}: {told:?}"
        );
    }
    assert_eq!(bench.alter(vec![entry(client, good)], true), ["NONE"]);
    assert_eq!(
        bench.describe(&[], false),
        Vec::<String>::new(),
        "what is only validated is not set"
    );
    let twice = bench.alter(vec![entry(client, good), entry(client, good)], false);
    assert!(twice[0] == "NONE" && twice[1].contains("twice"), "{twice:?}");
}

#[test]
fn who_produces_more_than_its_quota_is_answered_at_once_and_held_back() {
    let mut bench = Bench::new(2, &[]);
    bench.create("t", 1, 2, &[]);
    let leader = bench.leader("t");
    bench.set(Some(BOUND), &[("producer_byte_rate", Some(10_000.0))]);
    // 100 000 bytes are what ten windows allow at once; 11 requests of about 10 100 bytes exceed it.
    let mut throttled = Vec::new();
    for _ in 0..11 {
        let (outcome, said) = bench.produce_as(BOUND, leader, -1, 10_000);
        assert_eq!(said, Some(muted_ms(&outcome) as i32), "what is said is done");
        throttled.extend(said);
    }
    let request_bytes = 10_000 + 129;
    let excess = |requests: usize| (requests * request_bytes).saturating_sub(100_000) as f64 / 10_000.0;
    for (index, said) in throttled.iter().enumerate() {
        let expected = (excess(index + 1) * 1e3).round();
        assert!(
            (f64::from(*said) - expected).abs() < 100.0,
            "{index}: {said} for {expected}"
        );
    }
    assert!(throttled[10] > 1_000, "{throttled:?}");
    assert_eq!(bench.produce_as(FREE, leader, -1, 10_000).1, Some(0));

    let (outcome, said) = bench.produce_as(BOUND, leader, 0, 10_000);
    assert_eq!(said, None, "acks=0 is not answered");
    assert!(
        matches!(outcome, Outcome::Silent(ms) if ms > throttled[10] as u32),
        "and held back all the same: {outcome:?}"
    );
    bench.pass(11 * SECOND);
    assert_eq!(bench.produce_as(BOUND, leader, -1, 10_000).1, Some(0));
    // What another broker has seen is not its business.
    bench.cluster.stop_broker(bench.now, leader);
    for _ in 0..9 {
        assert_eq!(bench.produce_as(BOUND, 3 - leader, 1, 10_000).1, Some(0));
    }
}

#[test]
fn a_produce_request_that_waits_is_booked_when_it_is_answered() {
    let mut bench = Bench::new(2, &[]);
    bench.create("t", 1, 2, &[]);
    let leader = bench.leader("t");
    bench.set(Some(BOUND), &[("producer_byte_rate", Some(1_000.0))]);
    bench.cluster.set_replication(0, 3 - leader, false);
    let (outcome, said) = bench.produce_as(BOUND, leader, -1, 20_000);
    assert!(matches!(outcome, Outcome::Later) && said.is_none());
    let waiting = Asked(bench.connections - 1);
    bench.pass(SECOND);
    bench.cluster.set_replication(bench.now, 3 - leader, true);
    bench.collect();
    let bytes = bench.take(waiting).expect("an answer");
    let (_, response) = decode_produce_response(9, &bytes).expect("a response");
    // 20 kB at 1 kB/s, of which ten windows are free.
    assert!(
        (10_000..10_300).contains(&response.throttle_time_ms),
        "{}",
        response.throttle_time_ms
    );
}

#[test]
fn who_fetches_more_than_its_quota_gets_nothing_and_is_not_charged_for_it() {
    let mut bench = Bench::new(1, &[]);
    bench.create("t", 1, 1, &[]);
    for _ in 0..30 {
        bench.produce_as(FREE, 1, 1, 1_000);
    }
    bench.set(None, &[("consumer_byte_rate", Some(1_000.0))]);
    let (bytes, said, outcome) = bench.fetch_as(BOUND, 0, 1 << 20);
    assert!(
        (8_000..=10_000).contains(&bytes) && said == 0 && muted_ms(&outcome) == 0,
        "no more at once than ten windows allow: {bytes} bytes, {said} ms"
    );
    let (bytes, said, outcome) = bench.fetch_as(BOUND, 10, 5_000);
    assert_eq!((bytes, said), (0, muted_ms(&outcome) as i32));
    assert!((3_000..5_000).contains(&said), "{said}");
    assert_eq!(bench.fetch_as(BOUND, 10, 5_000).1, said, "it was not charged");
    assert!(
        bench.fetch_as(FREE, 10, 5_000).0 > 3_000,
        "each has the default for itself"
    );
    bench.pass(11 * SECOND);
    assert!(bench.fetch_as(BOUND, 10, 5_000).0 > 3_000);
}

/// An hour of a producer that waits as it is told, over the APIs: what was acknowledged is the bound, within one percent.
#[test]
fn an_obedient_producer_sustains_its_quota() {
    let mut bench = Bench::new(1, &[]);
    bench.create("t", 1, 1, &[("retention.bytes", "1000000")]);
    bench.set(Some(BOUND), &[("producer_byte_rate", Some(100_000.0))]);
    let request_bytes = bench.produce_frame(BOUND, 1, 2_000).len() - 4;
    let mut requests = 0;
    while bench.now < 3_600 * SECOND {
        let (outcome, said) = bench.produce_as(BOUND, 1, 1, 2_000);
        assert_eq!(said, Some(muted_ms(&outcome) as i32));
        requests += 1;
        bench.pass(MS * (1 + u64::from(muted_ms(&outcome))));
    }
    let found = (requests * request_bytes) as f64 / 3_600.0 / 100_000.0;
    assert!((found - 1.0).abs() < 0.01, "{found}");
}

#[test]
fn changes_to_topics_take_tokens_and_newer_clients_are_refused() {
    let mut bench = Bench::new(1, &[]);
    bench.set(None, &[("controller_mutation_rate", Some(1.0))]);
    // The bench's requests come from one client id: eleven tokens.
    assert_eq!(bench.create("a", 9, 1, &[]), ErrorCode::NONE);
    assert_eq!(
        bench.create("b", 6, 1, &[]),
        ErrorCode::NONE,
        "the last may overdraw"
    );
    let topic = |name: &str| create_topics::CreatableTopic {
        name: name.to_owned(),
        num_partitions: 1,
        replication_factor: 1,
        ..Default::default()
    };
    let request = CreateTopicsRequest {
        topics: vec![topic("c")],
        ..Default::default()
    };
    let refused = bench.ask(1, &request);
    assert_eq!(
        (refused.topics[0].error_code, refused.throttle_time_ms),
        (ErrorCode::THROTTLING_QUOTA_EXCEEDED, 4_000)
    );
    let more = create_partitions::CreatePartitionsTopic {
        name: "a".to_owned(),
        count: 10,
        ..Default::default()
    };
    let refused = bench.ask(
        1,
        &CreatePartitionsRequest {
            topics: vec![more],
            ..Default::default()
        },
    );
    assert_eq!(
        refused.results[0].error_code,
        ErrorCode::THROTTLING_QUOTA_EXCEEDED
    );
    let state = delete_topics::DeleteTopicState {
        name: Some("b".to_owned()),
        ..Default::default()
    };
    let delete = DeleteTopicsRequest {
        topics: vec![state],
        ..Default::default()
    };
    let refused = bench.ask(1, &delete);
    assert_eq!(
        (refused.responses[0].error_code, refused.throttle_time_ms),
        (ErrorCode::THROTTLING_QUOTA_EXCEEDED, 4_000)
    );
    // Older clients do not know that: theirs is done, and they wait.
    let asked = bench.begin(1, 5, &request);
    let done = bench
        .finish::<CreateTopicsRequest>(5, asked)
        .expect("an answer at once");
    assert_eq!(
        (done.topics[0].error_code, done.throttle_time_ms),
        (ErrorCode::NONE, 5_000)
    );
    bench.pass(5 * SECOND);
    let deleted = bench.ask(1, &delete);
    assert_eq!(
        (deleted.responses[0].error_code, deleted.throttle_time_ms),
        (ErrorCode::NONE, 0)
    );
}
