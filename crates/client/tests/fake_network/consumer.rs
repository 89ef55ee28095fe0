//! Positions, fetches and deliveries, request by request.

mod sessions_and_epochs;

use crate::network::{Asked, MS, Network, config};
use client::admin::TopicPartition;
use client::batch::{Batch, BatchBuilder, RecordHeaders};
use client::compress::{Codec, Compressor};
use client::consumer::{Consumer, ConsumerEvent, Deliver, StartAt, Subscription};
use std::time::Duration;
use wire::fetch::{
    AbortedTransaction, FetchRequest, FetchResponseHead, FetchResponsePartition, FetchResponseTopic,
    encode_fetch_response,
};
use wire::messages::list_offsets::{
    ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopicResponse,
};
use wire::{ApiKey, ErrorCode};

/// What was delivered: partition, first offset that was asked for, base offset and count of the batch.
#[derive(Debug, Default)]
struct Delivered {
    batches: Vec<(i32, i64, i64, u32)>,
}

impl Deliver for Delivered {
    fn batch(&mut self, topic: &str, partition: i32, batch: &Batch<'_>, from_offset: i64, _: u64) {
        assert_eq!(topic, "t");
        self.batches
            .push((partition, from_offset, batch.base_offset(), batch.count()));
    }
}

/// A consumer of the first `partitions` partitions of `t`, from `start` on.
fn consumer(properties: &[&str], partitions: i32, start: StartAt) -> Consumer {
    let chosen = (0..partitions)
        .map(|index| (("t".to_owned(), index), start))
        .collect();
    Consumer::new(
        &config(properties),
        &Subscription::Partitions(chosen),
        0,
        Duration::ZERO,
    )
    .expect("it can be made")
}

fn deliver(network: &mut Network, consumer: &mut Consumer) -> Vec<(i32, i64, i64, u32)> {
    let mut delivered = Delivered::default();
    consumer.deliver(&mut delivered, network.now_ns, &mut Vec::new());
    network.pass(consumer, 0);
    delivered.batches
}

fn events(consumer: &mut Consumer) -> Vec<ConsumerEvent> {
    let told = std::iter::from_fn(|| consumer.next_event());
    told.filter(|event| !matches!(event, ConsumerEvent::Assigned { .. }))
        .collect()
}

/// A batch of `count` records from `base_offset` on.
fn batch(base_offset: i64, count: u32) -> Vec<u8> {
    let mut builder = BatchBuilder::new(Vec::new());
    for _ in 0..count {
        builder.push(1000, None, 3, &RecordHeaders::default(), |out| {
            out.extend_from_slice(b"abc")
        });
    }
    let mut compressor = Compressor::new(Codec::None, None).expect("a codec");
    let sealed = builder.seal(&mut compressor, &mut Vec::new()).expect("a batch");
    let mut bytes = sealed.into_buffer();
    bytes[..8].copy_from_slice(&base_offset.to_be_bytes());
    bytes
}

/// The same as part of a transaction of `producer`.
fn transactional(base_offset: i64, count: u32, producer: i64) -> Vec<u8> {
    let mut bytes = batch(base_offset, count);
    bytes[43..51].copy_from_slice(&producer.to_be_bytes());
    bytes[22] |= 1 << 4;
    with_crc(bytes)
}

/// The marker that ends a transaction of `producer`.
fn marker(offset: i64, producer: i64, is_commit: bool) -> Vec<u8> {
    let mut builder = BatchBuilder::new(Vec::new());
    let key = [0, 0, 0, u8::from(is_commit)];
    builder.push(1000, Some(&key), 6, &RecordHeaders::default(), |out| {
        out.extend_from_slice(&[0; 6])
    });
    let mut compressor = Compressor::new(Codec::None, None).expect("a codec");
    let mut bytes = builder
        .seal(&mut compressor, &mut Vec::new())
        .expect("a batch")
        .into_buffer();
    bytes[..8].copy_from_slice(&offset.to_be_bytes());
    bytes[43..51].copy_from_slice(&producer.to_be_bytes());
    bytes[22] |= (1 << 4) | (1 << 5);
    with_crc(bytes)
}

fn with_crc(mut bytes: Vec<u8>) -> Vec<u8> {
    let crc = client::batch::crc32c(&bytes[21..]);
    bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    bytes
}

/// What a broker answers for a partition.
#[derive(Default)]
struct Part {
    index: i32,
    error: ErrorCode,
    high_watermark: i64,
    near_replica: Option<i32>,
    aborted: Vec<AbortedTransaction>,
    records: Vec<u8>,
}

fn records(index: i32, high_watermark: i64, batches: &[Vec<u8>]) -> Part {
    Part {
        index,
        high_watermark,
        records: batches.concat(),
        ..Part::default()
    }
}

fn error(index: i32, error: ErrorCode) -> Part {
    Part {
        index,
        error,
        high_watermark: -1,
        ..Part::default()
    }
}

fn fetched(network: &mut Network, consumer: &mut Consumer, asked: &Asked, throttle_ms: i32, parts: &[Part]) {
    answered(network, consumer, asked, throttle_ms, (ErrorCode::NONE, 0), parts);
}

/// Answers a Fetch with an error of the whole request and a session.
fn answered(
    network: &mut Network,
    consumer: &mut Consumer,
    asked: &Asked,
    throttle_ms: i32,
    (error_code, session_id): (ErrorCode, i32),
    parts: &[Part],
) {
    let partitions: Vec<FetchResponsePartition<'_>> = parts
        .iter()
        .map(|part| FetchResponsePartition {
            index: part.index,
            error_code: part.error,
            high_watermark: part.high_watermark,
            last_stable_offset: part.high_watermark,
            log_start_offset: 0,
            diverging_epoch: None,
            current_leader: None,
            aborted_transactions: Some(&part.aborted),
            preferred_read_replica: part.near_replica.unwrap_or(-1),
            records_bytes: part.records.len(),
        })
        .collect();
    let topics = [FetchResponseTopic {
        name: "t",
        topic_id: network.topic_id_of("t"),
        partitions: &partitions,
    }];
    let head = FetchResponseHead {
        correlation_id: asked.correlation(),
        version: asked.version,
        throttle_time_ms: throttle_ms,
        error_code,
        session_id,
        node_endpoints: &[],
    };
    let (mut frame, mut cuts) = (Vec::new(), Vec::new());
    encode_fetch_response(&head, &topics, &mut frame, &mut cuts);
    let bodies = parts.iter().map(|part| part.records.as_slice());
    let whole = wire::cuts::pieces(&frame, &cuts, bodies)
        .collect::<Vec<_>>()
        .concat();
    network.answer_raw(consumer, asked, whole);
}

fn listed(network: &mut Network, consumer: &mut Consumer, asked: &Asked, offsets: &[(i32, i64, ErrorCode)]) {
    let partitions = offsets
        .iter()
        .map(
            |&(partition_index, offset, error_code)| ListOffsetsPartitionResponse {
                partition_index,
                offset,
                error_code,
                ..Default::default()
            },
        )
        .collect();
    let response = ListOffsetsResponse {
        topics: vec![ListOffsetsTopicResponse {
            name: "t".to_owned(),
            partitions,
        }],
        ..Default::default()
    };
    network.answer::<ListOffsetsRequest>(consumer, asked, &response);
}

/// What a Fetch asks for: partition and offset, in order.
fn wanted(asked: &Asked) -> Vec<(i32, i64)> {
    let request: FetchRequest = asked.message();
    let partitions = request.topics.iter().flat_map(|topic| &topic.partitions);
    partitions
        .map(|partition| (partition.partition, partition.fetch_offset))
        .collect()
}

#[test]
fn the_next_fetch_goes_out_before_the_last_one_is_delivered_and_no_further() {
    let mut network = Network::new().with_topic("t", 1);
    let mut consumer = consumer(&[], 1, StartAt::Offset(0));
    network.pass(&mut consumer, MS);
    let asked = network.take(ApiKey::FETCH);
    assert_eq!((asked.broker, asked.version), (1, 17));
    let request: FetchRequest = asked.message();
    assert_eq!(
        (request.max_wait_ms, request.min_bytes, request.max_bytes),
        (500, 1, 52_428_800)
    );
    assert_eq!((request.session_id, request.session_epoch), (0, 0));
    assert_eq!(request.topics[0].partitions[0].partition_max_bytes, 1_048_576);
    fetched(
        &mut network,
        &mut consumer,
        &asked,
        0,
        &[records(0, 10, &[batch(0, 3), batch(3, 2)])],
    );
    let asked = network.take(ApiKey::FETCH);
    assert_eq!(wanted(&asked), [(0, 5)]);
    fetched(
        &mut network,
        &mut consumer,
        &asked,
        0,
        &[records(0, 10, &[batch(5, 5)])],
    );
    // Two answers wait: a third is not asked for.
    assert_eq!(network.waiting(), []);
    assert_eq!(consumer.lag(), Some(10));
    assert_eq!(
        deliver(&mut network, &mut consumer),
        [(0, 0, 0, 3), (0, 3, 3, 2), (0, 5, 5, 5)]
    );
    assert_eq!(consumer.lag(), Some(0));
    assert_eq!(wanted(&network.take(ApiKey::FETCH)), [(0, 10)]);
    assert_eq!(
        (consumer.counts().fetch_requests, consumer.counts().batches),
        (3, 3)
    );
}

#[test]
fn what_comes_during_a_pause_is_delivered_when_it_ends() {
    let mut network = Network::new().with_topic("t", 1);
    let mut consumer = consumer(&[], 1, StartAt::Offset(0));
    network.pass(&mut consumer, MS);
    let asked = network.take(ApiKey::FETCH);
    consumer.pause_until(100 * MS);
    fetched(
        &mut network,
        &mut consumer,
        &asked,
        0,
        &[records(0, 2, &[batch(0, 2)])],
    );
    assert!(!consumer.has_deliveries());
    assert_eq!(deliver(&mut network, &mut consumer), []);
    assert_eq!(network.waiting(), []);
    assert_eq!(consumer.next_deadline_ns(), 100 * MS);
    network.pass(&mut consumer, 99 * MS);
    assert!(consumer.has_deliveries());
    assert_eq!(deliver(&mut network, &mut consumer), [(0, 0, 0, 2)]);
    assert_eq!(network.waiting(), [ApiKey::FETCH]);
}

#[test]
fn a_consumer_that_waits_for_records_lets_its_thread_sleep() {
    let mut network = Network::new().with_topic("t", 3);
    let mut consumer = consumer(&[], 3, StartAt::Offset(0));
    network.pass(&mut consumer, MS);
    assert_eq!(network.waiting(), [ApiKey::FETCH; 3]);
    let request_timeout_and_wait = 30_500 * MS;
    assert_eq!(
        consumer.next_deadline_ns(),
        network.now_ns + request_timeout_and_wait
    );
}

#[test]
fn each_broker_has_one_fetch_with_the_partitions_that_it_leads() {
    let mut network = Network::new().with_topic("t", 6);
    let mut consumer = consumer(&[], 6, StartAt::Offset(0));
    network.pass(&mut consumer, MS);
    let mut asked: Vec<(i32, Vec<(i32, i64)>)> = std::iter::from_fn(|| network.next_asked())
        .map(|asked| (asked.broker, wanted(&asked)))
        .collect();
    asked.sort();
    let expected = [
        (1, vec![(0, 0), (3, 0)]),
        (2, vec![(1, 0), (4, 0)]),
        (3, vec![(2, 0), (5, 0)]),
    ];
    assert_eq!(asked, expected);
}

#[test]
fn partitions_that_have_waited_longest_come_first() {
    let mut network = Network::new();
    network.topics.insert("t".to_owned(), vec![(1, 0); 3]);
    let mut consumer = consumer(&[], 3, StartAt::Offset(0));
    network.pass(&mut consumer, MS);
    let asked = network.take(ApiKey::FETCH);
    assert_eq!(wanted(&asked), [(0, 0), (1, 0), (2, 0)]);
    let parts = [
        records(0, 9, &[batch(0, 1)]),
        records(1, 9, &[]),
        records(2, 9, &[]),
    ];
    fetched(&mut network, &mut consumer, &asked, 0, &parts);
    let asked = network.take(ApiKey::FETCH);
    assert_eq!(wanted(&asked), [(1, 0), (2, 0), (0, 1)]);
}

#[test]
fn a_batch_may_begin_before_the_position_and_the_last_may_be_cut() {
    let mut network = Network::new().with_topic("t", 1);
    let mut consumer = consumer(&[], 1, StartAt::Offset(12));
    network.pass(&mut consumer, MS);
    let asked = network.take(ApiKey::FETCH);
    let cut = batch(16, 4)[..80].to_vec();
    fetched(
        &mut network,
        &mut consumer,
        &asked,
        0,
        &[records(0, 20, &[batch(8, 2), batch(10, 5), batch(15, 1), cut])],
    );
    assert_eq!(
        deliver(&mut network, &mut consumer),
        [(0, 12, 10, 5), (0, 15, 15, 1)]
    );
    assert_eq!(wanted(&network.take(ApiKey::FETCH)), [(0, 16)]);
    assert_eq!(events(&mut consumer), []);
}

#[test]
fn a_batch_with_a_wrong_checksum_is_told_and_passed_over() {
    let mut network = Network::new().with_topic("t", 1);
    let mut damaged = batch(2, 3);
    let last = damaged.len() - 2;
    damaged[last] ^= 1;
    for (property, expected) in [("check.crcs=true", 2), ("check.crcs=false", 3)] {
        let mut consumer = consumer(&[property], 1, StartAt::Offset(0));
        network.pass(&mut consumer, MS);
        let asked = network.take(ApiKey::FETCH);
        let parts = [records(0, 9, &[batch(0, 2), damaged.clone(), batch(5, 1)])];
        fetched(&mut network, &mut consumer, &asked, 0, &parts);
        assert_eq!(deliver(&mut network, &mut consumer).len(), expected);
        assert_eq!(wanted(&network.take(ApiKey::FETCH)), [(0, 6)]);
        let told = events(&mut consumer);
        if expected == 3 {
            assert_eq!(told, []);
            continue;
        }
        let [
            ConsumerEvent::Corrupt {
                partition: 0,
                offset: 2,
                next_offset: 5,
                error,
                ..
            },
        ] = &told[..]
        else {
            panic!("{told:?}");
        };
        assert!(error.contains("CRC-32C"), "{error}");
        assert_eq!(consumer.counts().corrupt_batches, 1);
    }
}

#[test]
fn bytes_that_are_no_batch_do_not_stop_the_consumer() {
    let mut network = Network::new().with_topic("t", 1);
    let mut consumer = consumer(&[], 1, StartAt::Offset(0));
    network.pass(&mut consumer, MS);
    let mut old = batch(0, 4);
    old[16] = 1;
    // The batch behind it says where to go on.
    let asked = network.take(ApiKey::FETCH);
    fetched(
        &mut network,
        &mut consumer,
        &asked,
        0,
        &[records(0, 9, &[old.clone(), batch(4, 2)])],
    );
    assert_eq!(deliver(&mut network, &mut consumer), [(0, 4, 4, 2)]);
    let told = events(&mut consumer);
    assert!(
        matches!(
            told[..],
            [ConsumerEvent::Corrupt {
                offset: 0,
                next_offset: 4,
                ..
            }]
        ),
        "{told:?}"
    );
    // Nothing is behind it: further on with each attempt.
    old[..8].copy_from_slice(&6i64.to_be_bytes());
    let mut positions = Vec::new();
    for _ in 0..4 {
        let asked = network.take(ApiKey::FETCH);
        positions.push(wanted(&asked)[0].1);
        fetched(
            &mut network,
            &mut consumer,
            &asked,
            0,
            &[records(0, 99, std::slice::from_ref(&old))],
        );
        assert_eq!(deliver(&mut network, &mut consumer), []);
    }
    assert_eq!(positions, [6, 8, 12, 20]);
}

#[test]
fn leaders_are_followed_after_a_refusal() {
    for refusal in [
        ErrorCode::NOT_LEADER_OR_FOLLOWER,
        ErrorCode::FENCED_LEADER_EPOCH,
        ErrorCode::LEADER_NOT_AVAILABLE,
    ] {
        let mut network = Network::new().with_topic("t", 1);
        let mut consumer = consumer(&["retry.backoff.ms=50"], 1, StartAt::Offset(4));
        network.pass(&mut consumer, MS);
        let asked = network.take(ApiKey::FETCH);
        network.topics.insert("t".to_owned(), vec![(2, 1)]);
        fetched(&mut network, &mut consumer, &asked, 0, &[error(0, refusal)]);
        network.pass_slowly(&mut consumer, 200 * MS, 5 * MS);
        let asked = network.take(ApiKey::FETCH);
        assert_eq!((asked.broker, wanted(&asked)), (2, vec![(0, 4)]));
        assert_eq!(
            asked.message::<FetchRequest>().topics[0].partitions[0].current_leader_epoch,
            1
        );
        assert_eq!(events(&mut consumer), []);
    }
}

#[test]
fn a_near_replica_is_read_from_until_it_cannot_help() {
    let mut network = Network::new().with_topic("t", 1);
    let mut consumer = consumer(&["client.rack=here"], 1, StartAt::Offset(4));
    network.pass(&mut consumer, MS);
    for helpless in [
        ErrorCode::OFFSET_OUT_OF_RANGE,
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
    ] {
        let asked = network.take(ApiKey::FETCH);
        assert_eq!(
            (asked.broker, asked.message::<FetchRequest>().rack_id.as_str()),
            (1, "here")
        );
        let part = Part {
            near_replica: Some(2),
            ..records(0, 9, &[])
        };
        fetched(&mut network, &mut consumer, &asked, 0, &[part]);
        let asked = network.take(ApiKey::FETCH);
        assert_eq!((asked.broker, wanted(&asked)), (2, vec![(0, 4)]));
        fetched(&mut network, &mut consumer, &asked, 0, &[error(0, helpless)]);
        network.pass_slowly(&mut consumer, 300 * MS, 10 * MS);
    }
    let asked = network.take(ApiKey::FETCH);
    let part = Part {
        near_replica: Some(77),
        ..records(0, 9, &[])
    };
    fetched(&mut network, &mut consumer, &asked, 0, &[part]);
    network.pass_slowly(&mut consumer, 100 * MS, 10 * MS);
    assert_eq!(network.take(ApiKey::FETCH).broker, 1);
    assert_eq!(events(&mut consumer), []);
    assert_eq!(consumer.counts().offset_resets, 0);
}

#[test]
fn a_partition_that_keeps_failing_is_asked_for_less_and_less_often() {
    let mut network = Network::new().with_topic("t", 1);
    let mut consumer = consumer(
        &["retry.backoff.ms=100", "retry.backoff.max.ms=1000"],
        1,
        StartAt::Offset(0),
    );
    network.pass(&mut consumer, MS);
    let mut at_ms = Vec::new();
    while network.now_ns < 5000 * MS {
        while let Some(asked) = network.next_asked() {
            at_ms.push(network.now_ns / MS);
            fetched(
                &mut network,
                &mut consumer,
                &asked,
                0,
                &[error(0, ErrorCode::KAFKA_STORAGE_ERROR)],
            );
        }
        network.pass(&mut consumer, MS);
    }
    let gaps: Vec<u64> = at_ms.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(gaps, [100, 200, 400, 800, 1000, 1000, 1000]);
}

#[test]
fn a_lost_connection_is_no_loss_of_records() {
    let mut network = Network::new().with_topic("t", 1);
    let mut consumer = consumer(&[], 1, StartAt::Offset(3));
    network.pass(&mut consumer, MS);
    let asked = network.take(ApiKey::FETCH);
    network.close(&mut consumer, asked.conn);
    network.pass_slowly(&mut consumer, 1000 * MS, 10 * MS);
    let again = network.take(ApiKey::FETCH);
    assert_ne!(again.conn, asked.conn);
    assert_eq!(wanted(&again), [(0, 3)]);
}

#[test]
fn a_position_out_of_range_goes_where_the_policy_says_and_skipped_offsets_are_counted() {
    let mut network = Network::new().with_topic("t", 1);
    let mut consumer = consumer(&["auto.offset.reset=earliest"], 1, StartAt::Offset(5));
    network.pass(&mut consumer, MS);
    let asked = network.take(ApiKey::FETCH);
    fetched(
        &mut network,
        &mut consumer,
        &asked,
        0,
        &[error(0, ErrorCode::OFFSET_OUT_OF_RANGE)],
    );
    let asked = network.take(ApiKey::LIST_OFFSETS);
    let request: ListOffsetsRequest = asked.read();
    assert_eq!(request.topics[0].partitions[0].timestamp, -2);
    assert!(!consumer.is_assigned_and_positioned());
    listed(&mut network, &mut consumer, &asked, &[(0, 105, ErrorCode::NONE)]);
    assert_eq!(wanted(&network.take(ApiKey::FETCH)), [(0, 105)]);
    let told = events(&mut consumer);
    assert!(
        matches!(
            told[..],
            [ConsumerEvent::OffsetReset {
                partition: 0,
                from: 5,
                to: 105,
                ..
            }]
        ),
        "{told:?}"
    );
    assert_eq!(
        (consumer.counts().offset_resets, consumer.counts().skipped_offsets),
        (1, 100)
    );
}

#[test]
fn positions_are_sought_until_the_leader_tells_them() {
    let mut network = Network::new().with_topic("t", 2);
    let mut consumer = consumer(&["retry.backoff.ms=100"], 2, StartAt::Latest);
    network.pass(&mut consumer, MS);
    let first = network.take(ApiKey::LIST_OFFSETS);
    let second = network.take(ApiKey::LIST_OFFSETS);
    assert_eq!((first.broker, second.broker), (1, 2));
    listed(
        &mut network,
        &mut consumer,
        &first,
        &[(0, -1, ErrorCode::LEADER_NOT_AVAILABLE)],
    );
    listed(&mut network, &mut consumer, &second, &[(1, 8, ErrorCode::NONE)]);
    assert_eq!(wanted(&network.take(ApiKey::FETCH)), [(1, 8)]);
    assert!(!consumer.is_assigned_and_positioned());
    network.pass_slowly(&mut consumer, 110 * MS, 10 * MS);
    let first = network.take(ApiKey::LIST_OFFSETS);
    listed(&mut network, &mut consumer, &first, &[(0, 7, ErrorCode::NONE)]);
    assert!(consumer.is_assigned_and_positioned());
    let positions: Vec<(TopicPartition, Option<i64>)> = consumer
        .positions()
        .map(|(topic, index, position)| ((topic.to_owned(), index), position))
        .collect();
    assert_eq!(
        positions,
        [(("t".to_owned(), 0), Some(7)), (("t".to_owned(), 1), Some(8))]
    );
}

#[test]
fn a_position_is_sought_as_soon_as_its_leader_no_longer_holds_back() {
    let mut network = Network::new().with_topic("t", 1);
    let mut consumer = consumer(&["retry.backoff.ms=100"], 1, StartAt::Latest);
    network.pass(&mut consumer, MS);
    let asked = network.take(ApiKey::LIST_OFFSETS);
    let response = ListOffsetsResponse {
        throttle_time_ms: 300,
        topics: vec![ListOffsetsTopicResponse {
            name: "t".to_owned(),
            partitions: vec![ListOffsetsPartitionResponse {
                partition_index: 0,
                offset: -1,
                error_code: ErrorCode::OFFSET_NOT_AVAILABLE,
                ..Default::default()
            }],
        }],
    };
    network.answer::<ListOffsetsRequest>(&mut consumer, &asked, &response);
    network.pass_slowly(&mut consumer, 290 * MS, 10 * MS);
    assert_eq!(network.waiting(), []);
    network.pass_slowly(&mut consumer, 30 * MS, 10 * MS);
    let asked = network.take(ApiKey::LIST_OFFSETS);
    listed(&mut network, &mut consumer, &asked, &[(0, 7, ErrorCode::NONE)]);
    assert!(consumer.is_assigned_and_positioned());
}

#[test]
fn a_timestamp_beyond_the_last_record_means_the_end() {
    let mut network = Network::new().with_topic("t", 1);
    let mut consumer = consumer(&[], 1, StartAt::TimestampMs(1234));
    network.pass(&mut consumer, MS);
    let asked = network.take(ApiKey::LIST_OFFSETS);
    assert_eq!(
        asked.read::<ListOffsetsRequest>().topics[0].partitions[0].timestamp,
        1234
    );
    listed(&mut network, &mut consumer, &asked, &[(0, -1, ErrorCode::NONE)]);
    let asked = network.take(ApiKey::LIST_OFFSETS);
    assert_eq!(
        asked.read::<ListOffsetsRequest>().topics[0].partitions[0].timestamp,
        -1
    );
}

#[test]
fn a_quota_holds_the_next_fetch_back() {
    let mut network = Network::new().with_topic("t", 1);
    let mut consumer = consumer(&[], 1, StartAt::Offset(0));
    network.pass(&mut consumer, MS);
    let asked = network.take(ApiKey::FETCH);
    fetched(&mut network, &mut consumer, &asked, 300, &[records(0, 0, &[])]);
    network.pass(&mut consumer, 299 * MS);
    assert_eq!(network.waiting(), []);
    assert_eq!(consumer.next_deadline_ns(), 301 * MS);
    network.pass(&mut consumer, MS);
    assert_eq!(network.waiting(), [ApiKey::FETCH]);
    assert_eq!(consumer.counts().throttle_ns, 300 * MS);
}

#[test]
fn aborted_transactions_and_markers_are_left_out() {
    let aborted = vec![
        AbortedTransaction {
            producer_id: 8,
            first_offset: 2,
        },
        AbortedTransaction {
            producer_id: 7,
            first_offset: 0,
        },
    ];
    let batches = [
        transactional(0, 2, 7),
        transactional(2, 1, 8),
        batch(3, 1),
        marker(4, 7, false),
        transactional(5, 2, 7),
        transactional(7, 1, 8),
        marker(8, 8, false),
        marker(9, 7, true),
    ];
    let offsets =
        |delivered: Vec<(i32, i64, i64, u32)>| delivered.iter().map(|batch| batch.2).collect::<Vec<_>>();
    for (property, expected) in [
        ("isolation.level=read_committed", vec![3, 5]),
        ("isolation.level=read_uncommitted", vec![0, 2, 3, 5, 7]),
    ] {
        let mut network = Network::new().with_topic("t", 1);
        let mut consumer = consumer(&[property], 1, StartAt::Offset(0));
        network.pass(&mut consumer, MS);
        let asked = network.take(ApiKey::FETCH);
        let part = Part {
            aborted: aborted.clone(),
            ..records(0, 10, &batches)
        };
        fetched(&mut network, &mut consumer, &asked, 0, &[part]);
        assert_eq!(offsets(deliver(&mut network, &mut consumer)), expected);
        // Markers are passed over, so that there is no lag.
        assert_eq!(consumer.lag(), Some(0));
        assert_eq!(wanted(&network.take(ApiKey::FETCH)), [(0, 10)]);
    }
}

#[test]
fn what_may_not_be_read_says_which_right_is_missing() {
    let mut network = Network::new().with_topic("t", 1);
    let mut consumer = consumer(&[], 1, StartAt::Offset(0));
    network.pass(&mut consumer, MS);
    let asked = network.take(ApiKey::FETCH);
    fetched(
        &mut network,
        &mut consumer,
        &asked,
        0,
        &[error(0, ErrorCode::TOPIC_AUTHORIZATION_FAILED)],
    );
    let reason = "t: TOPIC_AUTHORIZATION_FAILED: The principal may not do this to the topic. (needed: Read on Topic \"t\")";
    assert_eq!(
        events(&mut consumer),
        [ConsumerEvent::Failed {
            reason: reason.to_owned()
        }]
    );
    network.pass(&mut consumer, 10_000 * MS);
    assert_eq!(network.waiting(), []);
}

#[test]
fn a_topic_that_may_not_be_described_fails_at_once_and_an_unknown_one_after_a_while() {
    let mut network = Network::new();
    network
        .topic_errors
        .insert("t".to_owned(), ErrorCode::TOPIC_AUTHORIZATION_FAILED);
    let mut subject = consumer(&[], 1, StartAt::Offset(0));
    network.pass(&mut subject, MS);
    let told = events(&mut subject);
    assert!(
        matches!(&told[..], [ConsumerEvent::Failed { reason }] if reason.contains("Describe on Topic \"t\"")),
        "{told:?}"
    );

    let mut network = Network::new();
    let mut subject = consumer(&[], 1, StartAt::Offset(0));
    network.pass_slowly(&mut subject, 14_900 * MS, 100 * MS);
    assert_eq!(events(&mut subject), []);
    network.pass_slowly(&mut subject, 200 * MS, 100 * MS);
    let told = events(&mut subject);
    assert!(
        matches!(&told[..], [ConsumerEvent::Failed { reason }] if reason.contains("does not exist")),
        "{told:?}"
    );

    // One that appears in between is read.
    let mut network = Network::new();
    let mut subject = consumer(&[], 1, StartAt::Offset(0));
    network.pass_slowly(&mut subject, 5000 * MS, 100 * MS);
    let mut network = network.with_topic("t", 1);
    network.pass_slowly(&mut subject, 500 * MS, 50 * MS);
    network.take(ApiKey::FETCH);
}

#[test]
fn answers_that_cannot_be_read_are_a_failure_and_no_panic() {
    let mut network = Network::new().with_topic("t", 1);
    let mut consumer = consumer(&[], 1, StartAt::Offset(0));
    network.pass(&mut consumer, MS);
    let asked = network.take(ApiKey::FETCH);
    let mut frame = vec![0; 4];
    frame.extend(asked.correlation().to_be_bytes());
    frame.extend([0, 0, 0, 0]);
    network.answer_raw(&mut consumer, &asked, frame);
    let told = events(&mut consumer);
    assert!(
        matches!(&told[..], [ConsumerEvent::Failed { reason }] if reason.contains("broker 1 cannot be read")),
        "{told:?}"
    );
}

#[test]
fn a_subscription_without_a_group_cannot_be_made() {
    let topics = vec!["t".to_owned()];
    let made = Consumer::new(&config(&[]), &Subscription::Group { topics }, 0, Duration::ZERO);
    assert_eq!(
        made.map(|_| ()).map_err(|error| error.to_string()),
        Err("group.id is not set, and consuming in a group needs one".to_owned())
    );
}
