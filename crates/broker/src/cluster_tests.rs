//! The cluster as clients meet it, request by request, on a clock that the tests set.

use crate::api::{self, Frame, Outcome, SERVED};
use crate::buffer::Pool;
use crate::cluster::{Cluster, Setup};
use crate::log::tests::batch_bytes;
use crate::reply::ConnectionId;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::batch::batches;
use wire::codec::Request;
use wire::compress::Codec;
use wire::fetch::{FetchPartition, FetchRequest, FetchResponseRef, FetchTopic, encode_fetch_request};
use wire::header::{decode_response, encode_request};
use wire::messages::*;
use wire::produce::{
    PartitionProduceResponse, ProduceHead, ProducePartition, ProduceTopic, decode_produce_response,
    encode_produce_request,
};
use wire::{ApiKey, ErrorCode};

mod failing;
mod fetch_sessions;
mod quotas;
mod transactions;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
/// The time of day when the tests begin.
const ORIGIN_MS: i64 = 1_700_000_000_000;

/// A cluster and clients that ask it.
struct Bench {
    cluster: Cluster,
    pool: Arc<Pool>,
    now: u64,
    /// Each request comes by a connection of its own.
    connections: usize,
    answers: BTreeMap<usize, Vec<u8>>,
}

/// A request that was made; its answer is to be asked for.
#[derive(Clone, Copy, Debug)]
struct Asked(usize);

#[derive(Debug, PartialEq)]
enum Read {
    Failed(ErrorCode),
    /// (base offset, records) of each batch.
    Batches(Vec<(i64, u32)>),
}

impl Bench {
    fn new(brokers: u16, configs: &[(&str, &str)]) -> Bench {
        Bench::with_memory(brokers, configs, 64 << 20)
    }

    fn with_memory(brokers: u16, configs: &[(&str, &str)], memory_bytes: u64) -> Bench {
        let pool = Pool::new(memory_bytes as usize);
        let setup = Setup {
            addresses: (0..brokers)
                .map(|index| ("localhost".to_owned(), 9000 + index))
                .collect(),
            protocol: "PLAINTEXT",
            configs: configs
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            seed: 1,
            origin_ms: ORIGIN_MS,
            memory_bytes,
            pool: Arc::clone(&pool),
        };
        Bench {
            cluster: Cluster::new(setup),
            pool,
            now: 0,
            connections: 0,
            answers: BTreeMap::new(),
        }
    }

    /// Sends a frame, length field included, to a broker.
    fn send(&mut self, broker: i32, frame: &[u8]) -> (Asked, Outcome) {
        self.send_failing(broker, frame, &[])
    }

    /// The same, where a script has some of it fail.
    fn send_failing(&mut self, broker: i32, frame: &[u8], failing: &[api::Failing]) -> (Asked, Outcome) {
        let number = self.connections;
        self.connections += 1;
        let buffer = self.pool.take(frame.len());
        buffer.write()[..frame.len()].copy_from_slice(frame);
        let frame = Frame {
            buffer: &buffer,
            range: &(4..frame.len()),
            connection: ConnectionId { thread: 0, number },
            broker,
            client_host: "127.0.0.1",
            lie: None,
            failing,
        };
        let outcome = api::serve(frame, self.now, None, || &mut self.cluster);
        if let Outcome::Answer(answer) = &outcome {
            self.answers.insert(number, answer.to_vec());
        }
        self.collect();
        (Asked(number), outcome)
    }

    fn collect(&mut self) {
        for (to, answer) in self.cluster.take_completed() {
            self.answers.insert(to.number, answer.to_vec());
        }
    }

    /// Lets time pass, second by millisecond where something is due.
    fn pass(&mut self, ns: u64) {
        let end = self.now + ns;
        while let Some(deadline) = self.cluster.next_deadline().filter(|deadline| *deadline <= end) {
            self.now = self.now.max(deadline);
            self.cluster.tick(self.now);
            self.collect();
        }
        self.now = end;
    }

    /// The answer without its length field, if there is one yet.
    fn take(&mut self, asked: Asked) -> Option<Vec<u8>> {
        self.answers.remove(&asked.0).map(|bytes| {
            assert_eq!(
                bytes[..4],
                ((bytes.len() - 4) as i32).to_be_bytes(),
                "the length field is right"
            );
            bytes[4..].to_vec()
        })
    }

    fn begin<R: Request>(&mut self, broker: i32, version: i16, request: &R) -> Asked {
        self.send(broker, &encode_request::<R>(7, Some("tests"), version, request))
            .0
    }

    fn finish<R: Request>(&mut self, version: i16, asked: Asked) -> Option<R::Response> {
        let bytes = self.take(asked)?;
        let (correlation_id, response) = decode_response::<R>(version, &bytes).expect("a response");
        assert_eq!(correlation_id, 7);
        Some(response)
    }

    fn ask<R: Request>(&mut self, broker: i32, request: &R) -> R::Response {
        let version = *R::VERSIONS.end();
        let asked = self.begin(broker, version, request);
        self.finish::<R>(version, asked).expect("an answer at once")
    }

    fn create(&mut self, name: &str, partitions: i32, factor: i16, configs: &[(&str, &str)]) -> ErrorCode {
        let configs = configs
            .iter()
            .map(|(name, value)| create_topics::CreatableTopicConfig {
                name: (*name).to_owned(),
                value: Some((*value).to_owned()),
            });
        let topic = create_topics::CreatableTopic {
            name: name.to_owned(),
            num_partitions: partitions,
            replication_factor: factor,
            configs: configs.collect(),
            ..Default::default()
        };
        let response = self.ask(
            1,
            &CreateTopicsRequest {
                topics: vec![topic],
                ..Default::default()
            },
        );
        response.topics[0].error_code
    }

    fn begin_produce(&mut self, broker: i32, topic: &str, acks: i16, batch: &[u8]) -> (Asked, Outcome) {
        let head = ProduceHead {
            correlation_id: 7,
            client_id: None,
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
            name: topic,
            topic_id: wire::Uuid::ZERO,
            partitions: &partitions,
        }];
        let (mut out, mut cuts) = (Vec::new(), Vec::new());
        encode_produce_request(&head, &topics, &mut out, &mut cuts);
        let tail = out.split_off(cuts[0]);
        self.send(broker, &[&out, batch, &tail].concat())
    }

    fn produced(&mut self, asked: Asked) -> Option<PartitionProduceResponse> {
        let bytes = self.take(asked)?;
        let (_, response) = decode_produce_response(9, &bytes).expect("a response");
        Some(response.responses[0].partition_responses[0].clone())
    }

    /// Produces one batch of records of the present to the leader of partition 0.
    fn produce(&mut self, topic: &str, acks: i16, records: usize) -> Result<i64, ErrorCode> {
        let now_ms = ORIGIN_MS + (self.now / MS) as i64;
        let batch = batch_bytes(&vec![now_ms; records], 100, Codec::None);
        let leader = self.leader(topic);
        let (asked, _) = self.begin_produce(leader, topic, acks, &batch);
        let answer = self.produced(asked).expect("an answer at once");
        answer.error_code.into_result().map(|()| answer.base_offset)
    }

    fn leader(&self, topic: &str) -> i32 {
        self.cluster
            .topic(topic)
            .and_then(|topic| topic.partitions[0].leader())
            .expect("a leader")
    }

    fn begin_fetch(&mut self, topic: &str, offset: i64, min_bytes: i32) -> Asked {
        let partition = FetchPartition {
            fetch_offset: offset,
            partition_max_bytes: 1 << 20,
            ..Default::default()
        };
        let topics = vec![FetchTopic {
            topic: topic.to_owned(),
            partitions: vec![partition],
            ..Default::default()
        }];
        let request = FetchRequest {
            max_wait_ms: 500,
            min_bytes,
            topics,
            ..Default::default()
        };
        let leader = self
            .cluster
            .topic(topic)
            .and_then(|topic| topic.partitions[0].leader())
            .unwrap_or(1);
        self.send(leader, &encode_fetch_request(7, None, 12, &request)).0
    }

    fn fetched(&mut self, asked: Asked) -> Option<Read> {
        let bytes = self.take(asked)?;
        let response = FetchResponseRef::decode(12, &bytes).expect("a response");
        let partition = &response.partitions[0];
        if partition.error_code.is_error() {
            return Some(Read::Failed(partition.error_code));
        }
        let batch = |batch: Result<wire::batch::Batch<'_>, _>| {
            let batch = batch.expect("a batch");
            batch.check_crc().expect("undamaged");
            (batch.base_offset(), batch.count())
        };
        Some(Read::Batches(batches(partition.records).map(batch).collect()))
    }

    fn fetch(&mut self, topic: &str, offset: i64) -> Read {
        let asked = self.begin_fetch(topic, offset, 0);
        self.fetched(asked).expect("an answer at once")
    }
}

#[test]
fn what_was_produced_is_fetched() {
    let mut bench = Bench::new(3, &[]);
    assert_eq!(bench.create("t", 1, 3, &[]), ErrorCode::NONE);
    assert_eq!(bench.produce("t", -1, 2), Ok(0));
    assert_eq!(bench.produce("t", 1, 3), Ok(2));
    assert_eq!(bench.fetch("t", 0), Read::Batches(vec![(0, 2), (2, 3)]));
    assert_eq!(bench.fetch("t", 3), Read::Batches(vec![(2, 3)]));
    assert_eq!(bench.fetch("t", 5), Read::Batches(vec![]));
    assert_eq!(bench.fetch("t", 6), Read::Failed(ErrorCode::OFFSET_OUT_OF_RANGE));
    assert_eq!(
        bench.fetch("other", 0),
        Read::Failed(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
    );
}

#[test]
fn a_fetch_waits_until_enough_has_come_or_its_time_is_up() {
    let mut bench = Bench::new(1, &[]);
    bench.create("t", 1, 1, &[]);
    let patient = bench.begin_fetch("t", 0, 200);
    let impatient = bench.begin_fetch("t", 0, 1);
    assert_eq!(bench.fetched(impatient), None);
    assert_eq!(bench.produce("t", 1, 1), Ok(0));
    assert_eq!(bench.fetched(impatient), Some(Read::Batches(vec![(0, 1)])));
    assert_eq!(bench.fetched(patient), None, "one record is not 200 bytes");
    assert_eq!(bench.produce("t", 1, 1), Ok(1));
    assert_eq!(bench.fetched(patient), Some(Read::Batches(vec![(0, 1), (1, 1)])));

    let late = bench.begin_fetch("t", 2, 1);
    bench.pass(499 * MS);
    assert_eq!(bench.fetched(late), None);
    bench.pass(MS);
    assert_eq!(bench.fetched(late), Some(Read::Batches(vec![])));
}

#[test]
fn a_fetch_that_waits_learns_that_its_topic_or_leader_is_gone() {
    let mut bench = Bench::new(2, &[]);
    bench.create("t", 1, 2, &[]);
    let waiting = bench.begin_fetch("t", 0, 1);
    let leader = bench.leader("t");
    bench.cluster.stop_broker(0, leader);
    bench.collect();
    assert_eq!(
        bench.fetched(waiting),
        Some(Read::Failed(ErrorCode::NOT_LEADER_OR_FOLLOWER))
    );
    let waiting = bench.begin_fetch("t", 0, 1);
    let state = delete_topics::DeleteTopicState {
        name: Some("t".to_owned()),
        ..Default::default()
    };
    let deleted = bench.ask(
        1,
        &DeleteTopicsRequest {
            topics: vec![state],
            ..Default::default()
        },
    );
    assert_eq!(deleted.responses[0].error_code, ErrorCode::NONE);
    assert_eq!(
        bench.fetched(waiting),
        Some(Read::Failed(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION))
    );
}

#[test]
fn a_connection_that_ends_leaves_nothing_waiting() {
    let mut bench = Bench::new(1, &[]);
    bench.create("t", 1, 1, &[]);
    let waiting = bench.begin_fetch("t", 0, 1);
    bench.cluster.connection_closed(ConnectionId {
        thread: 0,
        number: waiting.0,
    });
    assert_eq!(bench.cluster.next_deadline(), None);
    bench.produce("t", 1, 1).expect("appended");
    assert_eq!(bench.fetched(waiting), None);
}

#[test]
fn acks_all_wait_for_followers_and_time_out() {
    let mut bench = Bench::new(3, &[]);
    bench.create("t", 1, 3, &[("min.insync.replicas", "2")]);
    let leader = bench.leader("t");
    let follower = if leader == 1 { 2 } else { 1 };
    bench.cluster.set_replication(0, follower, false);
    let batch = batch_bytes(&[ORIGIN_MS], 10, Codec::None);
    let (first, outcome) = bench.begin_produce(leader, "t", -1, &batch);
    assert!(matches!(outcome, Outcome::Later));
    assert_eq!(
        bench.fetch("t", 0),
        Read::Batches(vec![]),
        "what is not committed is not served"
    );
    bench.pass(1500 * MS);
    assert_eq!(
        bench.produced(first).map(|answer| answer.error_code),
        Some(ErrorCode::REQUEST_TIMED_OUT)
    );

    let (second, _) = bench.begin_produce(leader, "t", -1, &batch);
    let reader = bench.begin_fetch("t", 0, 1);
    bench.cluster.set_replication(bench.now, follower, true);
    bench.collect();
    let answer = bench.produced(second).expect("caught up");
    assert_eq!((answer.error_code, answer.base_offset), (ErrorCode::NONE, 1));
    assert_eq!(bench.fetched(reader), Some(Read::Batches(vec![(0, 1), (1, 1)])));
}

#[test]
fn a_follower_that_stays_behind_leaves_the_isr_after_its_time() {
    let mut bench = Bench::new(2, &[("replica.lag.time.max.ms", "600")]);
    bench.create("t", 1, 2, &[("min.insync.replicas", "2")]);
    let leader = bench.leader("t");
    bench.cluster.set_replication(0, 3 - leader, false);
    let (asked, _) = bench.begin_produce(leader, "t", -1, &batch_bytes(&[ORIGIN_MS], 10, Codec::None));
    bench.pass(600 * MS);
    assert_eq!(bench.produced(asked), None);
    bench.pass(600 * MS);
    // Written, but the one that was needed has gone.
    let error = bench.produced(asked).map(|answer| answer.error_code);
    assert_eq!(error, Some(ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND));
    assert_eq!(bench.produce("t", -1, 1), Err(ErrorCode::NOT_ENOUGH_REPLICAS));
    assert_eq!(bench.produce("t", 1, 1), Ok(1));
}

#[test]
fn refused_batches_say_why() {
    let mut bench = Bench::new(2, &[]);
    bench.create("t", 1, 1, &[("max.message.bytes", "200")]);
    let leader = bench.leader("t");
    let mut error = |broker, acks, batch: &[u8]| {
        let (asked, _) = bench.begin_produce(broker, "t", acks, batch);
        let answer = bench.produced(asked).expect("an answer at once");
        (answer.error_code, answer.error_message.is_some())
    };
    let good = batch_bytes(&[ORIGIN_MS], 10, Codec::None);
    let mut damaged = good.clone();
    damaged[65] ^= 1;
    assert_eq!(error(leader, 1, &damaged), (ErrorCode::CORRUPT_MESSAGE, true));
    assert_eq!(error(leader, 1, &good[..50]), (ErrorCode::INVALID_RECORD, true));
    assert_eq!(error(leader, 2, &good), (ErrorCode::INVALID_REQUIRED_ACKS, false));
    assert_eq!(
        error(3 - leader, 1, &good),
        (ErrorCode::NOT_LEADER_OR_FOLLOWER, false)
    );
    let large = batch_bytes(&[ORIGIN_MS], 300, Codec::None);
    assert_eq!(error(leader, 1, &large), (ErrorCode::MESSAGE_TOO_LARGE, true));
    let future = batch_bytes(&[ORIGIN_MS + 4_000_000], 10, Codec::None);
    assert_eq!(error(leader, 1, &future), (ErrorCode::INVALID_TIMESTAMP, true));
    assert_eq!(error(leader, 1, &good), (ErrorCode::NONE, false));
}

#[test]
fn without_acks_there_is_no_answer_but_the_end_of_the_connection() {
    let mut bench = Bench::new(1, &[]);
    bench.create("t", 1, 1, &[]);
    let good = batch_bytes(&[ORIGIN_MS], 10, Codec::None);
    assert!(matches!(
        bench.begin_produce(1, "t", 0, &good).1,
        Outcome::Silent(_)
    ));
    assert!(matches!(
        bench.begin_produce(1, "missing", 0, &good).1,
        Outcome::Hangup
    ));
    assert_eq!(bench.fetch("t", 0), Read::Batches(vec![(0, 1)]));
}

#[test]
fn a_repeated_batch_is_answered_with_its_first_offset() {
    let mut bench = Bench::new(1, &[]);
    bench.create("t", 1, 1, &[]);
    let producer = bench.ask(1, &InitProducerIdRequest::default());
    assert_eq!(producer.error_code, ErrorCode::NONE);
    let batch = |sequence: i32| {
        let mut bytes = batch_bytes(&[ORIGIN_MS], 10, Codec::None);
        bytes[43..51].copy_from_slice(&producer.producer_id.to_be_bytes());
        bytes[51..53].copy_from_slice(&producer.producer_epoch.to_be_bytes());
        bytes[53..57].copy_from_slice(&sequence.to_be_bytes());
        let crc = wire::batch::crc32c(&bytes[21..]);
        bytes[17..21].copy_from_slice(&crc.to_be_bytes());
        bytes
    };
    let mut append = |sequence| {
        let (asked, _) = bench.begin_produce(1, "t", -1, &batch(sequence));
        let answer = bench.produced(asked).expect("an answer at once");
        answer.error_code.into_result().map(|()| answer.base_offset)
    };
    assert_eq!(append(0), Ok(0));
    assert_eq!(append(1), Ok(1));
    assert_eq!(append(0), Ok(0));
    assert_eq!(append(3), Err(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER));
    assert_eq!(bench.fetch("t", 0), Read::Batches(vec![(0, 1), (1, 1)]));
    let next = bench.ask(1, &InitProducerIdRequest::default());
    assert_ne!(next.producer_id, producer.producer_id);
    let transactional = InitProducerIdRequest {
        transactional_id: Some("x".to_owned()),
        ..Default::default()
    };
    assert!(bench.ask(1, &transactional).error_code.is_error());
}

#[test]
fn memory_is_bounded_and_the_oldest_go_first() {
    let mut bench = Bench::with_memory(1, &[], 8 << 20);
    bench.create("a", 1, 1, &[]);
    bench.create("b", 1, 1, &[]);
    for _ in 0..1000 {
        bench.produce("a", 1, 100).expect("appended");
    }
    for _ in 0..300 {
        bench.produce("b", 1, 100).expect("appended");
    }
    assert!(
        bench.pool.in_use_bytes() <= (8 << 20) + (32 << 10),
        "{}",
        bench.pool.in_use_bytes()
    );
    let start = |name| {
        bench
            .cluster
            .topic(name)
            .map(|topic| topic.partitions[0].log().start_offset())
    };
    assert!(start("a") > Some(50_000), "{:?}", start("a"));
    assert_eq!(start("b"), Some(0));
    assert!(matches!(
        bench.fetch("a", 0),
        Read::Failed(ErrorCode::OFFSET_OUT_OF_RANGE)
    ));
}

#[test]
fn retention_forgets_by_age_and_by_size() {
    let mut bench = Bench::new(1, &[]);
    bench.create("old", 1, 1, &[("retention.ms", "60000")]);
    bench.create("large", 1, 1, &[("retention.bytes", "1000")]);
    bench.create("kept", 1, 1, &[("retention.ms", "-1")]);
    for topic in ["old", "large", "kept"] {
        for _ in 0..20 {
            bench.produce(topic, 1, 1).expect("appended");
        }
    }
    let start = |bench: &Bench, name| {
        bench
            .cluster
            .topic(name)
            .map(|topic| topic.partitions[0].log().start_offset())
    };
    // 20 batches of 171 bytes: the last six of them are 1000 bytes or more.
    assert_eq!(start(&bench, "large"), Some(14));
    assert_eq!(start(&bench, "old"), Some(0));
    bench.pass(66 * SECOND);
    assert_eq!(start(&bench, "old"), Some(20));
    assert_eq!(start(&bench, "kept"), Some(0));
}

#[test]
fn topics_are_created_altered_described_and_deleted() {
    let mut bench = Bench::new(3, &[("default.replication.factor", "2"), ("num.partitions", "4")]);
    assert_eq!(
        bench.create("t", 6, 3, &[("retention.ms", "1000")]),
        ErrorCode::NONE
    );
    assert_eq!(bench.create("t", 6, 3, &[]), ErrorCode::TOPIC_ALREADY_EXISTS);
    assert_eq!(bench.create("u", -1, -1, &[]), ErrorCode::NONE);
    assert_eq!(bench.create("u", 0, 1, &[]), ErrorCode::TOPIC_ALREADY_EXISTS);
    assert_eq!(bench.create("v", 0, 1, &[]), ErrorCode::INVALID_PARTITIONS);
    assert_eq!(bench.create("v", i32::MAX, 1, &[]), ErrorCode::INVALID_PARTITIONS);
    assert_eq!(
        bench.create("v", 1, 4, &[]),
        ErrorCode::INVALID_REPLICATION_FACTOR
    );
    assert_eq!(
        bench.create("v", 1, 0, &[]),
        ErrorCode::INVALID_REPLICATION_FACTOR
    );
    assert_eq!(bench.create("v w", 1, 1, &[]), ErrorCode::INVALID_TOPIC_EXCEPTION);
    assert_eq!(bench.create("..", 1, 1, &[]), ErrorCode::INVALID_TOPIC_EXCEPTION);
    assert_eq!(
        bench.create("v", 1, 1, &[("retention.ms", "x")]),
        ErrorCode::INVALID_CONFIG
    );
    assert_eq!(
        bench.create("v", 1, 1, &[("cleanup.policy", "compact")]),
        ErrorCode::INVALID_CONFIG
    );

    let all = bench.ask(
        2,
        &MetadataRequest {
            topics: None,
            ..Default::default()
        },
    );
    assert_eq!(all.brokers.len(), 3);
    let shape = |topic: &metadata::MetadataResponseTopic| {
        (
            topic.name.clone().unwrap_or_default(),
            topic.partitions.len(),
            topic.partitions[0].replica_nodes.len(),
        )
    };
    assert_eq!(
        all.topics.iter().map(shape).collect::<Vec<_>>(),
        [("t".to_owned(), 6, 3), ("u".to_owned(), 4, 2)]
    );
    let leads = |broker| {
        all.topics[0]
            .partitions
            .iter()
            .filter(|partition| partition.leader_id == broker)
            .count()
    };
    assert_eq!((leads(1), leads(2), leads(3)), (2, 2, 2));

    let more = create_partitions::CreatePartitionsTopic {
        name: "t".to_owned(),
        count: 8,
        assignments: None,
    };
    let request = CreatePartitionsRequest {
        topics: vec![more],
        ..Default::default()
    };
    assert_eq!(bench.ask(1, &request).results[0].error_code, ErrorCode::NONE);
    assert_eq!(
        bench.ask(1, &request).results[0].error_code,
        ErrorCode::INVALID_PARTITIONS
    );
    let topics = vec![describe_topic_partitions::TopicRequest { name: "t".to_owned() }];
    let request = DescribeTopicPartitionsRequest {
        topics,
        response_partition_limit: 5,
        cursor: None,
    };
    let page = bench.ask(1, &request);
    assert_eq!(page.topics[0].partitions.len(), 5);
    let page = bench.ask(
        1,
        &DescribeTopicPartitionsRequest {
            cursor: page.next_cursor,
            ..request
        },
    );
    assert_eq!((page.topics[0].partitions.len(), page.next_cursor), (3, None));

    let id = all.topics[0].topic_id;
    let by_id = delete_topics::DeleteTopicState {
        topic_id: id,
        ..Default::default()
    };
    let request = DeleteTopicsRequest {
        topics: vec![by_id],
        ..Default::default()
    };
    let deleted = bench.ask(1, &request);
    assert_eq!(
        (
            deleted.responses[0].name.as_deref(),
            deleted.responses[0].error_code
        ),
        (Some("t"), ErrorCode::NONE)
    );
    assert_eq!(
        bench.ask(1, &request).responses[0].error_code,
        ErrorCode::UNKNOWN_TOPIC_ID
    );
}

#[test]
fn names_that_metrics_would_mix_up_are_refused() {
    let mut bench = Bench::new(1, &[]);
    assert_eq!(bench.create("a.b_c", 1, 1, &[]), ErrorCode::NONE);
    assert_eq!(
        bench.create("a_b.c", 1, 1, &[]),
        ErrorCode::INVALID_TOPIC_EXCEPTION
    );
    assert_eq!(bench.create("a-b_c", 1, 1, &[]), ErrorCode::NONE);
}

#[test]
fn a_replication_factor_above_the_brokers_is_refused_with_both_numbers() {
    let mut bench = Bench::new(2, &[]);
    let topic = create_topics::CreatableTopic {
        name: "t".to_owned(),
        num_partitions: 1,
        replication_factor: 3,
        ..Default::default()
    };
    let response = bench.ask(
        1,
        &CreateTopicsRequest {
            topics: vec![topic],
            ..Default::default()
        },
    );
    assert_eq!(
        response.topics[0].error_message.as_deref(),
        Some(
            "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached \
             because only 2 broker(s) are registered."
        )
    );
}

#[test]
fn topics_appear_when_asked_for_unless_that_is_off() {
    let wanted = |allow| MetadataRequest {
        topics: Some(vec![metadata::MetadataRequestTopic {
            name: Some("t".to_owned()),
            ..Default::default()
        }]),
        allow_auto_topic_creation: allow,
        ..Default::default()
    };
    let mut bench = Bench::new(1, &[]);
    assert_eq!(
        bench.ask(1, &wanted(false)).topics[0].error_code,
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
    );
    assert_eq!(bench.ask(1, &wanted(true)).topics[0].error_code, ErrorCode::NONE);
    let mut bench = Bench::new(1, &[("auto.create.topics.enable", "false")]);
    assert_eq!(
        bench.ask(1, &wanted(true)).topics[0].error_code,
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
    );
}

#[test]
fn configs_are_set_shown_with_their_sources_and_unset() {
    let mut bench = Bench::new(1, &[("min.insync.replicas", "2")]);
    bench.create("t", 1, 1, &[]);
    let alter = |name: &str, operation, value: Option<&str>| IncrementalAlterConfigsRequest {
        resources: vec![incremental_alter_configs::AlterConfigsResource {
            resource_type: 2,
            resource_name: "t".to_owned(),
            configs: vec![incremental_alter_configs::AlterableConfig {
                name: name.to_owned(),
                config_operation: operation,
                value: value.map(str::to_owned),
            }],
        }],
        ..Default::default()
    };
    let shown = |bench: &mut Bench| {
        let resource = describe_configs::DescribeConfigsResource {
            resource_type: 2,
            resource_name: "t".to_owned(),
            configuration_keys: Some(vec!["min.insync.replicas".to_owned()]),
        };
        let request = DescribeConfigsRequest {
            resources: vec![resource],
            include_synonyms: true,
            ..Default::default()
        };
        let result = bench.ask(1, &request).results.remove(0).configs.remove(0);
        (
            result.value.unwrap_or_default(),
            result.config_source,
            result.synonyms.len(),
        )
    };
    assert_eq!(shown(&mut bench), ("2".to_owned(), 4, 2));
    assert_eq!(
        bench
            .ask(1, &alter("min.insync.replicas", 0, Some("1")))
            .responses[0]
            .error_code,
        ErrorCode::NONE
    );
    assert_eq!(shown(&mut bench), ("1".to_owned(), 1, 3));
    assert_eq!(bench.produce("t", -1, 1), Ok(0), "one replica is enough now");
    assert_eq!(
        bench.ask(1, &alter("min.insync.replicas", 1, None)).responses[0].error_code,
        ErrorCode::NONE
    );
    assert_eq!(bench.produce("t", -1, 1), Err(ErrorCode::NOT_ENOUGH_REPLICAS));
    let refused = bench.ask(1, &alter("cleanup.policy", 0, Some("compact")));
    assert_eq!(refused.responses[0].error_code, ErrorCode::INVALID_CONFIG);
}

#[test]
fn log_dirs_tell_the_budget_and_what_each_replica_has() {
    let mut bench = Bench::new(2, &[]);
    bench.create("t", 1, 2, &[]);
    bench.produce("t", -1, 10).expect("appended");
    let dirs = bench.ask(2, &DescribeLogDirsRequest { topics: None }).results;
    assert_eq!((dirs[0].total_bytes, dirs[0].usable_bytes), (64 << 20, -1));
    assert_eq!(dirs[0].topics[0].partitions[0].offset_lag, 0);
    assert!(dirs[0].topics[0].partitions[0].partition_size > 1000);
}

#[test]
fn a_group_joins_commits_and_is_described_by_its_coordinator_alone() {
    let mut bench = Bench::new(3, &[]);
    bench.create("t", 1, 1, &[]);
    let found = bench.ask(
        1,
        &FindCoordinatorRequest {
            coordinator_keys: vec!["g".to_owned()],
            ..Default::default()
        },
    );
    let coordinator = found.coordinators[0].node_id;
    let mut join = JoinGroupRequest {
        group_id: "g".to_owned(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 10_000,
        protocol_type: "consumer".to_owned(),
        protocols: vec![join_group::JoinGroupRequestProtocol {
            name: "range".to_owned(),
            metadata: vec![1],
        }],
        ..Default::default()
    };
    let elsewhere = bench.ask(coordinator % 3 + 1, &join);
    assert_eq!(elsewhere.error_code, ErrorCode::NOT_COORDINATOR);
    let first = bench.ask(coordinator, &join);
    assert_eq!(first.error_code, ErrorCode::MEMBER_ID_REQUIRED);
    join.member_id = first.member_id.clone();
    let joined = bench.ask(coordinator, &join);
    assert_eq!(
        (joined.error_code, joined.generation_id, &joined.leader),
        (ErrorCode::NONE, 1, &first.member_id)
    );
    let sync = SyncGroupRequest {
        group_id: "g".to_owned(),
        generation_id: 1,
        member_id: first.member_id.clone(),
        assignments: vec![sync_group::SyncGroupRequestAssignment {
            member_id: first.member_id.clone(),
            assignment: vec![9, 9],
        }],
        ..Default::default()
    };
    assert_eq!(bench.ask(coordinator, &sync).assignment, [9, 9]);

    let commit = OffsetCommitRequest {
        group_id: "g".to_owned(),
        generation_id_or_member_epoch: 1,
        member_id: first.member_id.clone(),
        topics: vec![offset_commit::OffsetCommitRequestTopic {
            name: "t".to_owned(),
            partitions: vec![offset_commit::OffsetCommitRequestPartition {
                committed_offset: 42,
                ..Default::default()
            }],
        }],
        ..Default::default()
    };
    assert_eq!(
        bench.ask(coordinator, &commit).topics[0].partitions[0].error_code,
        ErrorCode::NONE
    );
    let groups = vec![offset_fetch::OffsetFetchRequestGroup {
        group_id: "g".to_owned(),
        ..Default::default()
    }];
    let fetched = bench.ask(
        coordinator,
        &OffsetFetchRequest {
            groups,
            ..Default::default()
        },
    );
    assert_eq!(fetched.groups[0].topics[0].partitions[0].committed_offset, 42);

    let described = bench.ask(
        coordinator,
        &DescribeGroupsRequest {
            groups: vec!["g".to_owned()],
            ..Default::default()
        },
    );
    assert_eq!(
        (
            described.groups[0].group_state.as_str(),
            described.groups[0].members.len()
        ),
        ("Stable", 1)
    );
    let listed: usize = (1..=3)
        .map(|broker| bench.ask(broker, &ListGroupsRequest::default()).groups.len())
        .sum();
    assert_eq!(listed, 1, "one broker alone lists it");
    let delete = DeleteGroupsRequest {
        groups_names: vec!["g".to_owned()],
    };
    assert_eq!(
        bench.ask(coordinator, &delete).results[0].error_code,
        ErrorCode::NON_EMPTY_GROUP
    );
    bench.pass(11 * SECOND);
    assert_eq!(
        bench.ask(coordinator, &delete).results[0].error_code,
        ErrorCode::NONE
    );
    assert_eq!(
        bench.ask(coordinator, &delete).results[0].error_code,
        ErrorCode::GROUP_ID_NOT_FOUND
    );
}

#[test]
fn a_group_moves_to_another_coordinator_when_its_own_stops() {
    let mut bench = Bench::new(3, &[]);
    let find = FindCoordinatorRequest {
        coordinator_keys: vec!["g".to_owned()],
        ..Default::default()
    };
    let before = bench.ask(1, &find).coordinators[0].node_id;
    bench.cluster.stop_broker(0, before);
    let after = bench.ask(before % 3 + 1, &find).coordinators[0].node_id;
    assert_ne!(before, after);
    bench.cluster.start_broker(0, before);
    assert_eq!(bench.ask(1, &find).coordinators[0].node_id, before);
}

#[test]
fn a_broker_that_stops_and_comes_back_leads_again_after_the_check_interval() {
    let mut bench = Bench::new(3, &[("leader.imbalance.check.interval.seconds", "10")]);
    bench.create("t", 1, 3, &[]);
    bench.produce("t", -1, 1).expect("appended");
    let first = bench.leader("t");
    bench.cluster.stop_broker(0, first);
    assert_ne!(bench.leader("t"), first);
    assert_eq!(bench.produce("t", -1, 1), Ok(1));
    bench.cluster.start_broker(0, first);
    assert_ne!(bench.leader("t"), first);
    bench.pass(10 * SECOND);
    assert_eq!(bench.leader("t"), first);
    assert_eq!(bench.produce("t", -1, 1), Ok(2));
    assert_eq!(bench.fetch("t", 0), Read::Batches(vec![(0, 1), (1, 1), (2, 1)]));
    let epochs = OffsetForLeaderEpochRequest {
        topics: vec![offset_for_leader_epoch::OffsetForLeaderTopic {
            topic: "t".to_owned(),
            partitions: vec![offset_for_leader_epoch::OffsetForLeaderPartition {
                leader_epoch: 1,
                ..Default::default()
            }],
        }],
        ..Default::default()
    };
    assert_eq!(bench.ask(first, &epochs).topics[0].partitions[0].end_offset, 2);
}

#[test]
fn the_lead_is_given_back_when_somebody_asks_for_it() {
    let mut bench = Bench::new(3, &[]);
    bench.create("t", 1, 3, &[]);
    let first = bench.leader("t");
    let ask = |bench: &mut Bench, all: bool| {
        let named = elect_leaders::TopicPartitions {
            topic: "t".to_owned(),
            partitions: vec![0],
        };
        let topic_partitions = if all { None } else { Some(vec![named]) };
        let response = bench.ask(
            first % 3 + 1,
            &ElectLeadersRequest {
                topic_partitions,
                ..Default::default()
            },
        );
        assert_eq!(response.error_code, ErrorCode::NONE);
        let results = response.replica_election_results;
        results
            .iter()
            .flat_map(|topic| &topic.partition_result)
            .map(|result| result.error_code)
            .collect::<Vec<_>>()
    };
    assert_eq!(ask(&mut bench, false), [ErrorCode::ELECTION_NOT_NEEDED]);
    bench.cluster.stop_broker(0, first);
    assert_eq!(
        ask(&mut bench, false),
        [ErrorCode::PREFERRED_LEADER_NOT_AVAILABLE]
    );
    bench.cluster.start_broker(0, first);
    assert_ne!(bench.leader("t"), first);
    assert_eq!(ask(&mut bench, true), [ErrorCode::NONE]);
    assert_eq!(bench.leader("t"), first);
    assert_eq!(ask(&mut bench, true), []);
    let unclean = ElectLeadersRequest {
        election_type: 1,
        ..Default::default()
    };
    assert_eq!(bench.ask(1, &unclean).error_code, ErrorCode::INVALID_REQUEST);
}

#[test]
fn offsets_are_listed_by_name_and_by_time() {
    let mut bench = Bench::new(1, &[]);
    bench.create("t", 1, 1, &[]);
    for _ in 0..3 {
        bench.produce("t", 1, 2).expect("appended");
        bench.pass(SECOND);
    }
    let mut offset = |timestamp| {
        let partition = list_offsets::ListOffsetsPartition {
            timestamp,
            ..Default::default()
        };
        let topic = list_offsets::ListOffsetsTopic {
            name: "t".to_owned(),
            partitions: vec![partition],
        };
        let response = bench.ask(
            1,
            &ListOffsetsRequest {
                topics: vec![topic],
                ..Default::default()
            },
        );
        let found = &response.topics[0].partitions[0];
        assert_eq!(found.error_code, ErrorCode::NONE);
        (found.offset, found.timestamp)
    };
    assert_eq!(offset(-1), (6, -1));
    assert_eq!(offset(-2), (0, -1));
    assert_eq!(offset(-3), (4, ORIGIN_MS + 2000));
    assert_eq!(offset(ORIGIN_MS + 1), (2, ORIGIN_MS + 1000));
    assert_eq!(offset(ORIGIN_MS + 2001), (-1, -1));
}

#[test]
fn records_are_deleted_up_to_an_offset() {
    let mut bench = Bench::new(1, &[]);
    bench.create("t", 1, 1, &[]);
    bench.produce("t", 1, 10).expect("appended");
    let mut delete = |offset| {
        let partition = delete_records::DeleteRecordsPartition {
            partition_index: 0,
            offset,
        };
        let topic = delete_records::DeleteRecordsTopic {
            name: "t".to_owned(),
            partitions: vec![partition],
        };
        let response = bench.ask(
            1,
            &DeleteRecordsRequest {
                topics: vec![topic],
                timeout_ms: 1000,
            },
        );
        let result = &response.topics[0].partitions[0];
        (result.error_code, result.low_watermark)
    };
    assert_eq!(delete(4), (ErrorCode::NONE, 4));
    assert_eq!(delete(11).0, ErrorCode::OFFSET_OUT_OF_RANGE);
    assert_eq!(delete(-1), (ErrorCode::NONE, 10));
    assert_eq!(bench.fetch("t", 9), Read::Failed(ErrorCode::OFFSET_OUT_OF_RANGE));
}

#[test]
fn ten_thousand_partitions_are_cheap() {
    let mut bench = Bench::new(3, &[]);
    assert_eq!(bench.create("t", 10_000, 3, &[]), ErrorCode::NONE);
    let partition_bytes =
        size_of::<crate::partition::Partition>() + 3 * size_of::<crate::partition::Replica>();
    assert!(
        partition_bytes < 1000,
        "{partition_bytes} bytes each, so 10,000 take less than 10 MB"
    );
    let all = bench.ask(
        1,
        &MetadataRequest {
            topics: None,
            ..Default::default()
        },
    );
    assert_eq!(all.topics[0].partitions.len(), 10_000);
}

/// Asks with the default request in every version that is advertised.
fn is_answered<R: Request>() {
    let (_, oldest, newest) = *SERVED
        .iter()
        .find(|(key, ..)| *key == R::KEY)
        .expect("advertised");
    assert!(
        R::VERSIONS.contains(&oldest) && R::VERSIONS.contains(&newest),
        "{:?} is spoken",
        R::KEY
    );
    for version in oldest..=newest {
        let mut bench = Bench::new(1, &[]);
        bench.create("t", 1, 1, &[]);
        let asked = bench.begin(1, version, &R::default());
        assert!(
            bench.finish::<R>(version, asked).is_some(),
            "{:?} version {version}",
            R::KEY
        );
    }
}

#[test]
fn every_version_that_is_advertised_is_answered() {
    is_answered::<AlterConfigsRequest>();
    is_answered::<ApiVersionsRequest>();
    is_answered::<CreatePartitionsRequest>();
    is_answered::<CreateTopicsRequest>();
    is_answered::<DeleteGroupsRequest>();
    is_answered::<DeleteRecordsRequest>();
    is_answered::<DeleteTopicsRequest>();
    is_answered::<DescribeClusterRequest>();
    is_answered::<DescribeConfigsRequest>();
    is_answered::<DescribeGroupsRequest>();
    is_answered::<DescribeLogDirsRequest>();
    is_answered::<DescribeTopicPartitionsRequest>();
    is_answered::<ElectLeadersRequest>();
    is_answered::<FindCoordinatorRequest>();
    is_answered::<HeartbeatRequest>();
    is_answered::<IncrementalAlterConfigsRequest>();
    is_answered::<InitProducerIdRequest>();
    is_answered::<JoinGroupRequest>();
    is_answered::<LeaveGroupRequest>();
    is_answered::<ListGroupsRequest>();
    is_answered::<ListOffsetsRequest>();
    is_answered::<MetadataRequest>();
    is_answered::<OffsetCommitRequest>();
    is_answered::<OffsetDeleteRequest>();
    is_answered::<OffsetFetchRequest>();
    is_answered::<OffsetForLeaderEpochRequest>();
    is_answered::<SyncGroupRequest>();
}

#[test]
fn fetch_and_produce_are_answered_in_every_version() {
    for version in 4..=18 {
        let mut bench = Bench::new(1, &[]);
        let frame = encode_fetch_request(7, None, version, &FetchRequest::default());
        let (asked, _) = bench.send(1, &frame);
        let bytes = bench.take(asked).expect("an answer at once");
        assert!(
            FetchResponseRef::decode(version, &bytes).is_ok(),
            "version {version}"
        );
    }
    for version in 3..=13 {
        let mut bench = Bench::new(1, &[]);
        let head = ProduceHead {
            correlation_id: 7,
            client_id: None,
            version,
            transactional_id: None,
            acks: 1,
            timeout_ms: 1,
        };
        let (mut frame, mut cuts) = (Vec::new(), Vec::new());
        encode_produce_request(&head, &[], &mut frame, &mut cuts);
        let (asked, _) = bench.send(1, &frame);
        let bytes = bench.take(asked).expect("an answer at once");
        assert!(
            decode_produce_response(version, &bytes).is_ok(),
            "version {version}"
        );
    }
}

#[test]
fn what_is_not_served_ends_the_connection_and_unknown_api_versions_are_told_what_is() {
    let mut bench = Bench::new(1, &[]);
    let frame = encode_request::<DescribeAclsRequest>(7, None, 1, &DescribeAclsRequest::default());
    assert!(matches!(bench.send(1, &frame).1, Outcome::Hangup));
    let head = ProduceHead {
        correlation_id: 7,
        client_id: None,
        version: 2,
        transactional_id: None,
        acks: 1,
        timeout_ms: 1,
    };
    let (mut frame, mut cuts) = (Vec::new(), Vec::new());
    encode_produce_request(&head, &[], &mut frame, &mut cuts);
    assert!(
        matches!(bench.send(1, &frame).1, Outcome::Hangup),
        "advertised for old clients, and not served"
    );

    let mut frame = encode_request::<ApiVersionsRequest>(7, None, 4, &ApiVersionsRequest::default());
    frame[6..8].copy_from_slice(&99_i16.to_be_bytes());
    let (asked, _) = bench.send(1, &frame);
    let response = bench
        .finish::<ApiVersionsRequest>(4, asked)
        .expect("an answer at once");
    assert_eq!(response.error_code, ErrorCode::UNSUPPORTED_VERSION);
    assert!(
        response
            .api_keys
            .iter()
            .any(|api| api.api_key == ApiKey::API_VERSIONS && api.max_version == 4)
    );
}

proptest! {
    #[test]
    fn no_bytes_bring_a_broker_down(
        (api, version) in prop::sample::select(SERVED)
            .prop_flat_map(|(key, oldest, newest)| (Just(key), oldest..=newest)),
        body in prop::collection::vec(prop_oneof![Just(0_u8), Just(1), Just(255), any::<u8>()], 0..200),
    ) {
        let mut bench = Bench::new(2, &[]);
        bench.create("t", 1, 1, &[]);
        let mut frame = vec![0; 4];
        frame.extend_from_slice(&api.0.to_be_bytes());
        frame.extend_from_slice(&version.to_be_bytes());
        frame.extend_from_slice(&body);
        bench.send(1, &frame);
        bench.pass(SECOND);
        prop_assert_eq!(bench.produce("t", 1, 1), Ok(0));
    }
}
