//! Batches, requests and retries, request by request.

mod transactions;

use crate::network::{Asked, MS, Network, Subject, producer_config};
use client::batch::{Batch, BatchBuilder, RecordHeaders};
use client::producer::{BatchTag, CannotAppend, FailureKind, Finished, Outcome, Producer};
use wire::messages::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};
use wire::produce::{
    PartitionProduceResponse, ProduceRequestRef, ProduceResponse, TopicProduceResponse,
    encode_produce_response,
};
use wire::{ApiKey, ErrorCode, Reader};

/// The numbers of the records in a batch.
#[derive(Debug, Default, PartialEq)]
struct Numbers(Vec<u64>);

impl BatchTag for Numbers {
    fn split_off(&mut self, records: u32) -> Numbers {
        Numbers(self.0.split_off(records as usize))
    }
}

/// A producer of `t` on a network where `t` has `partitions` partitions, and its id if it wants one.
fn ready(properties: &[&str], partitions: i32) -> (Network, Producer<Numbers>) {
    let mut network = Network::new().with_topic("t", partitions);
    let mut producer = Producer::new("t", &producer_config(properties), 0, 1).expect("a codec");
    network.pass(&mut producer, 0);
    if network.waiting().contains(&ApiKey::INIT_PRODUCER_ID) {
        give_producer_id(&mut network, &mut producer, 7, 0);
    }
    network.pass(&mut producer, MS);
    assert!(producer.is_ready(network.now_ns));
    (network, producer)
}

fn give_producer_id(
    network: &mut Network,
    producer: &mut Producer<Numbers>,
    producer_id: i64,
    epoch: i16,
) -> InitProducerIdRequest {
    let asked = network.take(ApiKey::INIT_PRODUCER_ID);
    let response = InitProducerIdResponse {
        producer_id,
        producer_epoch: epoch,
        ..Default::default()
    };
    network.answer::<InitProducerIdRequest>(producer, &asked, &response);
    asked.read()
}

/// Appends records of those numbers and 100 bytes to a partition.
fn append(
    network: &mut Network,
    producer: &mut Producer<Numbers>,
    partition: usize,
    numbers: std::ops::Range<u64>,
) {
    let bound = BatchBuilder::record_len_bound(None, 100, &RecordHeaders::default());
    for number in numbers {
        let open = producer.open(partition, bound, network.now_ns).expect("room");
        open.push(1000, None, 100, &RecordHeaders::default(), |out| {
            out.extend_from_slice(&[number as u8; 100])
        });
        open.tag.0.push(number);
    }
    network.pass(producer, 0);
}

/// The batches of a request: partition, producer id, epoch, base sequence, count.
fn batches(asked: &Asked) -> Vec<(i32, i64, i16, i32, u32)> {
    let request =
        ProduceRequestRef::decode(asked.version, &mut Reader::new(asked.body())).expect("a Produce request");
    let read = |partition: &wire::produce::ProducePartitionRef<'_>| {
        let range = partition.records.clone().expect("records");
        let batch = Batch::parse(&asked.body()[range]).expect("a batch");
        batch.check_crc().expect("its CRC fits");
        (
            partition.index,
            batch.producer_id(),
            batch.producer_epoch(),
            batch.base_sequence(),
            batch.count(),
        )
    };
    request.partitions.iter().map(read).collect()
}

/// Answers a Produce request with an error and an offset for each of its partitions.
fn answer(
    network: &mut Network,
    producer: &mut Producer<Numbers>,
    asked: &Asked,
    error: ErrorCode,
    base_offset: i64,
) {
    answer_throttled(network, producer, asked, error, base_offset, 0);
}

fn answer_throttled(
    network: &mut Network,
    producer: &mut Producer<Numbers>,
    asked: &Asked,
    error_code: ErrorCode,
    base_offset: i64,
    throttle_time_ms: i32,
) {
    let partition_responses = batches(asked)
        .iter()
        .map(|&(index, ..)| PartitionProduceResponse {
            index,
            error_code,
            base_offset,
            ..Default::default()
        })
        .collect();
    let response = ProduceResponse {
        responses: vec![TopicProduceResponse {
            name: "t".to_owned(),
            partition_responses,
            ..Default::default()
        }],
        throttle_time_ms,
        ..Default::default()
    };
    let frame = encode_produce_response(asked.correlation(), asked.version, &response);
    network.answer_raw(producer, asked, frame);
}

fn finished(producer: &mut Producer<Numbers>) -> Vec<Finished<Numbers>> {
    std::iter::from_fn(|| producer.next_finished()).collect()
}

fn outcomes(producer: &mut Producer<Numbers>) -> Vec<(Vec<u64>, Outcome)> {
    finished(producer)
        .into_iter()
        .map(|batch| (batch.tag.0, batch.outcome))
        .collect()
}

fn acknowledged(base_offset: i64) -> Outcome {
    Outcome::Acknowledged {
        base_offset: Some(base_offset),
    }
}

#[test]
fn a_batch_waits_for_linger_and_a_full_one_does_not() {
    let (mut network, mut producer) = ready(&["linger.ms=5", "batch.size=1000"], 1);
    append(&mut network, &mut producer, 0, 0..2);
    network.pass(&mut producer, 4 * MS);
    assert_eq!(network.waiting(), []);
    network.pass(&mut producer, MS);
    assert_eq!(batches(&network.take(ApiKey::PRODUCE)), [(0, 7, 0, 0, 2)]);
    // 61 bytes of header and 8 records of at most 122 bytes.
    append(&mut network, &mut producer, 0, 2..11);
    assert_eq!(batches(&network.take(ApiKey::PRODUCE)), [(0, 7, 0, 2, 8)]);
}

#[test]
fn one_ready_batch_takes_along_those_for_the_same_broker() {
    let (mut network, mut producer) = ready(&["linger.ms=50", "batch.size=1000"], 6);
    // Broker 1 leads partitions 0 and 3, broker 2 leads 1 and 4.
    for partition in [0, 1, 4] {
        append(&mut network, &mut producer, partition, 0..1);
    }
    append(&mut network, &mut producer, 3, 1..10);
    let asked = network.take(ApiKey::PRODUCE);
    assert_eq!(asked.broker, 1);
    assert_eq!(
        batches(&asked)
            .iter()
            .map(|batch| (batch.0, batch.4))
            .collect::<Vec<_>>(),
        [(0, 1), (3, 8)]
    );
    assert_eq!(network.waiting(), []);
}

#[test]
fn an_acknowledgement_ends_the_batch_with_its_tag_and_offset() {
    let (mut network, mut producer) = ready(&["linger.ms=0"], 1);
    append(&mut network, &mut producer, 0, 0..1);
    let asked = network.take(ApiKey::PRODUCE);
    network.pass(&mut producer, 3 * MS);
    answer(&mut network, &mut producer, &asked, ErrorCode::NONE, 41);
    let ended = finished(&mut producer);
    assert_eq!(
        (ended[0].tag.0.as_slice(), &ended[0].outcome),
        (&[0][..], &acknowledged(41))
    );
    assert_eq!(
        ended[0].finished_ns - ended[0].written_ns.unwrap(),
        3 * MS,
        "service time"
    );
    assert!(producer.is_idle() && producer.memory_used_bytes() == 0);
}

#[test]
fn order_is_kept_when_the_first_of_two_batches_fails() {
    let (mut network, mut producer) = ready(&["linger.ms=0"], 1);
    append(&mut network, &mut producer, 0, 0..1);
    append(&mut network, &mut producer, 0, 1..2);
    let (first, second) = (network.take(ApiKey::PRODUCE), network.take(ApiKey::PRODUCE));
    // The leader moves.
    network.topics.insert("t".to_owned(), vec![(3, 1)]);
    answer(
        &mut network,
        &mut producer,
        &first,
        ErrorCode::NOT_LEADER_OR_FOLLOWER,
        -1,
    );
    append(&mut network, &mut producer, 0, 2..3);
    assert_eq!(network.waiting(), [], "the one in flight is awaited first");
    answer(
        &mut network,
        &mut producer,
        &second,
        ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER,
        -1,
    );
    network.pass_slowly(&mut producer, 300 * MS, MS);
    let again = network.take(ApiKey::PRODUCE);
    assert_eq!((again.broker, batches(&again)), (3, vec![(0, 7, 0, 0, 1)]));
    assert_eq!(network.waiting(), [], "one at a time until the first is through");
    answer(&mut network, &mut producer, &again, ErrorCode::NONE, 10);
    network.pass_slowly(&mut producer, 300 * MS, MS);
    let again = network.take(ApiKey::PRODUCE);
    assert_eq!(batches(&again), [(0, 7, 0, 1, 1)]);
    answer(&mut network, &mut producer, &again, ErrorCode::NONE, 11);
    network.pass_slowly(&mut producer, 10 * MS, MS);
    let third = network.take(ApiKey::PRODUCE);
    assert_eq!(batches(&third), [(0, 7, 0, 2, 1)]);
    answer(&mut network, &mut producer, &third, ErrorCode::NONE, 12);
    let expected: Vec<_> = (0..3)
        .map(|number| (vec![number], acknowledged(10 + number as i64)))
        .collect();
    assert_eq!(outcomes(&mut producer), expected);
}

#[test]
fn what_was_lost_with_its_connection_is_sent_again_under_its_number() {
    let (mut network, mut producer) = ready(&["linger.ms=0"], 1);
    append(&mut network, &mut producer, 0, 0..1);
    let asked = network.take(ApiKey::PRODUCE);
    network.close(&mut producer, asked.conn);
    assert_eq!(
        producer.next_incident().unwrap().kind,
        FailureKind::ConnectionLost
    );
    network.pass_slowly(&mut producer, 500 * MS, MS);
    let again = network.take(ApiKey::PRODUCE);
    assert_eq!(batches(&again), [(0, 7, 0, 0, 1)]);
    answer(
        &mut network,
        &mut producer,
        &again,
        ErrorCode::DUPLICATE_SEQUENCE_NUMBER,
        -1,
    );
    assert_eq!(
        outcomes(&mut producer),
        [(vec![0], Outcome::Acknowledged { base_offset: None })]
    );
}

#[test]
fn a_connection_that_was_idle_when_the_broker_closed_it_is_opened_again_at_once() {
    let (mut network, mut producer) = ready(&["linger.ms=0"], 1);
    append(&mut network, &mut producer, 0, 0..1);
    let asked = network.take(ApiKey::PRODUCE);
    answer(&mut network, &mut producer, &asked, ErrorCode::NONE, 0);
    network.close(&mut producer, asked.conn);
    append(&mut network, &mut producer, 0, 1..2);
    network.pass_slowly(&mut producer, 5 * MS, MS);
    assert_eq!(batches(&network.take(ApiKey::PRODUCE)), [(0, 7, 0, 1, 1)]);
    assert_eq!(producer.next_incident(), None);
}

#[test]
fn delivery_timeout_refuses_what_was_never_sent_and_leaves_open_what_was() {
    let properties = [
        "linger.ms=0",
        "delivery.timeout.ms=2000",
        "request.timeout.ms=1000",
    ];
    let (mut network, mut producer) = ready(&properties, 1);
    append(&mut network, &mut producer, 0, 0..1);
    network.take(ApiKey::PRODUCE);
    network.pass_slowly(&mut producer, 4_000 * MS, 10 * MS);
    let ended = outcomes(&mut producer);
    assert!(matches!(&ended[0].1, Outcome::Unknown { .. }), "{ended:?}");
    let (mut network, mut producer) = ready(&properties, 1);
    network.topics.insert("t".to_owned(), vec![(-1, 1)]);
    // Metadata may be asked for again at once.
    network.pass(&mut producer, 200 * MS);
    append(&mut network, &mut producer, 0, 0..1);
    let asked = network.take(ApiKey::PRODUCE);
    answer(
        &mut network,
        &mut producer,
        &asked,
        ErrorCode::NOT_LEADER_OR_FOLLOWER,
        -1,
    );
    network.pass_slowly(&mut producer, 4_000 * MS, 10 * MS);
    let ended = outcomes(&mut producer);
    assert!(
        matches!(&ended[0].1, Outcome::Refused { kind: FailureKind::DeliveryTimeout, message } if message.contains("NOT_LEADER")),
        "{ended:?}"
    );
}

#[test]
fn a_refused_batch_leaves_no_gap_in_the_numbers() {
    let (mut network, mut producer) = ready(&["linger.ms=0"], 1);
    append(&mut network, &mut producer, 0, 0..1);
    append(&mut network, &mut producer, 0, 1..2);
    let (first, second) = (network.take(ApiKey::PRODUCE), network.take(ApiKey::PRODUCE));
    answer(&mut network, &mut producer, &first, ErrorCode::INVALID_RECORD, -1);
    answer(
        &mut network,
        &mut producer,
        &second,
        ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER,
        -1,
    );
    if network.waiting().contains(&ApiKey::INIT_PRODUCER_ID) {
        give_producer_id(&mut network, &mut producer, 7, 1);
    }
    network.pass_slowly(&mut producer, 300 * MS, MS);
    let again = network.take(ApiKey::PRODUCE);
    assert_eq!(
        batches(&again)[0].3,
        0,
        "it has the number of the one that was refused"
    );
    answer(&mut network, &mut producer, &again, ErrorCode::NONE, 5);
    let ended = outcomes(&mut producer);
    assert!(
        matches!(&ended[0], (numbers, Outcome::Refused { kind: FailureKind::Broker(ErrorCode::INVALID_RECORD), .. }) if numbers == &[0])
    );
    assert_eq!(ended[1], (vec![1], acknowledged(5)));
}

#[test]
fn a_lost_numbering_is_replaced_by_a_new_epoch() {
    let (mut network, mut producer) = ready(&["linger.ms=0"], 1);
    append(&mut network, &mut producer, 0, 0..1);
    let asked = network.take(ApiKey::PRODUCE);
    answer(
        &mut network,
        &mut producer,
        &asked,
        ErrorCode::UNKNOWN_PRODUCER_ID,
        -1,
    );
    network.pass_slowly(&mut producer, 10 * MS, MS);
    let request = give_producer_id(&mut network, &mut producer, 7, 1);
    assert_eq!((request.producer_id, request.producer_epoch), (7, 0));
    network.pass_slowly(&mut producer, 300 * MS, MS);
    assert_eq!(batches(&network.take(ApiKey::PRODUCE)), [(0, 7, 1, 0, 1)]);
}

#[test]
fn a_batch_that_the_broker_finds_too_large_is_split_down_to_what_fits() {
    let (mut network, mut producer) = ready(&["linger.ms=5"], 1);
    append(&mut network, &mut producer, 0, 0..4);
    network.pass(&mut producer, 5 * MS);
    let whole = network.take(ApiKey::PRODUCE);
    assert_eq!(batches(&whole), [(0, 7, 0, 0, 4)]);
    answer(
        &mut network,
        &mut producer,
        &whole,
        ErrorCode::MESSAGE_TOO_LARGE,
        -1,
    );
    for (sequence, offset) in [(0, 20), (2, 22)] {
        network.pass_slowly(&mut producer, 10 * MS, MS);
        let half = network.take(ApiKey::PRODUCE);
        assert_eq!(batches(&half), [(0, 7, 0, sequence, 2)]);
        answer(&mut network, &mut producer, &half, ErrorCode::NONE, offset);
    }
    assert_eq!(
        outcomes(&mut producer),
        [(vec![0, 1], acknowledged(20)), (vec![2, 3], acknowledged(22))]
    );
    assert_eq!(producer.memory_used_bytes(), 0);
}

#[test]
fn one_record_that_is_too_large_is_refused() {
    let (mut network, mut producer) = ready(&["linger.ms=0"], 1);
    append(&mut network, &mut producer, 0, 0..1);
    let asked = network.take(ApiKey::PRODUCE);
    answer(
        &mut network,
        &mut producer,
        &asked,
        ErrorCode::MESSAGE_TOO_LARGE,
        -1,
    );
    let ended = outcomes(&mut producer);
    assert!(matches!(
        &ended[0].1,
        Outcome::Refused {
            kind: FailureKind::Broker(ErrorCode::MESSAGE_TOO_LARGE),
            ..
        }
    ));
}

#[test]
fn a_throttled_producer_waits_as_long_as_the_broker_asks() {
    let (mut network, mut producer) = ready(&["linger.ms=0"], 1);
    append(&mut network, &mut producer, 0, 0..1);
    let asked = network.take(ApiKey::PRODUCE);
    answer_throttled(&mut network, &mut producer, &asked, ErrorCode::NONE, 0, 500);
    assert_eq!(producer.counts().throttle_ns, 500 * MS);
    append(&mut network, &mut producer, 0, 1..2);
    network.pass_slowly(&mut producer, 499 * MS, MS);
    assert_eq!(network.waiting(), []);
    network.pass(&mut producer, MS);
    assert_eq!(batches(&network.take(ApiKey::PRODUCE)), [(0, 7, 0, 1, 1)]);
}

#[test]
fn a_broker_that_holds_back_holds_up_no_other() {
    let (mut network, mut producer) = ready(&["linger.ms=0"], 2);
    append(&mut network, &mut producer, 0, 0..1);
    let asked = network.take(ApiKey::PRODUCE);
    assert_eq!(asked.broker, 1);
    answer_throttled(&mut network, &mut producer, &asked, ErrorCode::NONE, 0, 500);
    assert!(!producer.is_ready(network.now_ns));
    append(&mut network, &mut producer, 0, 1..2);
    append(&mut network, &mut producer, 1, 2..3);
    assert_eq!(network.take(ApiKey::PRODUCE).broker, 2);
    network.pass_slowly(&mut producer, 499 * MS, MS);
    assert_eq!(network.waiting(), []);
    // It wakes up by itself when the time is over.
    assert_eq!(producer.next_deadline_ns(), network.now_ns + MS);
    network.pass(&mut producer, MS);
    assert_eq!(network.take(ApiKey::PRODUCE).broker, 1);
}

#[test]
fn a_lone_broker_that_holds_back_is_not_asked_for_metadata_by_a_new_connection() {
    let (mut network, mut producer) = ready(&["linger.ms=0", "metadata.max.age.ms=100"], 1);
    append(&mut network, &mut producer, 0, 0..1);
    let asked = network.take(ApiKey::PRODUCE);
    answer_throttled(&mut network, &mut producer, &asked, ErrorCode::NONE, 0, 60_000);
    let before = network.metadata_asked;
    for _ in 0..100 {
        let next_ns = producer.next_deadline_ns();
        assert!(next_ns > network.now_ns, "it would spin");
        let step_ns = (next_ns - network.now_ns).min(MS);
        network.pass(&mut producer, step_ns);
    }
    assert!(
        network.metadata_asked > before,
        "another broker of the list is asked"
    );
}

#[test]
fn requests_in_flight_are_as_many_as_allowed() {
    let (mut network, mut producer) = ready(&["linger.ms=0", "max.in.flight.requests.per.connection=2"], 1);
    for number in 0..4 {
        append(&mut network, &mut producer, 0, number..number + 1);
    }
    assert_eq!(network.waiting(), [ApiKey::PRODUCE; 2]);
    let asked = network.take(ApiKey::PRODUCE);
    answer(&mut network, &mut producer, &asked, ErrorCode::NONE, 0);
    assert_eq!(network.waiting(), [ApiKey::PRODUCE; 2]);
}

#[test]
fn a_full_buffer_sends_everything_and_has_room_again_after_an_acknowledgement() {
    let (mut network, mut producer) = ready(&["linger.ms=1000", "batch.size=1000", "buffer.memory=2000"], 6);
    append(&mut network, &mut producer, 0, 0..1);
    append(&mut network, &mut producer, 1, 1..2);
    let bound = BatchBuilder::record_len_bound(None, 100, &RecordHeaders::default());
    assert_eq!(
        producer.open(2, bound, network.now_ns).unwrap_err(),
        CannotAppend::BufferFull
    );
    network.pass(&mut producer, 0);
    let asked = network.take(ApiKey::PRODUCE);
    assert_eq!(
        network.waiting(),
        [ApiKey::PRODUCE],
        "both went without waiting for linger"
    );
    answer(&mut network, &mut producer, &asked, ErrorCode::NONE, 0);
    assert!(producer.open(2, bound, network.now_ns).is_ok());
}

#[test]
fn with_acks_0_a_batch_ends_when_it_is_written() {
    let (mut network, mut producer) = ready(&["acks=0", "linger.ms=0"], 1);
    append(&mut network, &mut producer, 0, 0..1);
    assert_eq!(batches(&network.take(ApiKey::PRODUCE)), [(0, -1, -1, -1, 1)]);
    assert_eq!(outcomes(&mut producer), [(vec![0], Outcome::NotAwaited)]);
}

#[test]
fn what_is_given_up_says_whether_it_was_sent() {
    let (mut network, mut producer) = ready(&["linger.ms=0", "max.in.flight.requests.per.connection=1"], 1);
    append(&mut network, &mut producer, 0, 0..1);
    append(&mut network, &mut producer, 0, 1..2);
    producer.abandon(network.now_ns);
    assert_eq!(
        outcomes(&mut producer),
        [
            (vec![0], Outcome::Unfinished { sent: true }),
            (vec![1], Outcome::Unfinished { sent: false })
        ]
    );
    Subject::actions(&mut producer).clear();
}

#[test]
fn topics_go_by_their_ids_where_the_cluster_lets_them() {
    // Newest version served, level of transaction.version, idempotent → version spoken.
    for (newest, level, is_idempotent, expected) in [
        (30, Some(2), true, 13),
        (30, Some(2), false, 13),
        (30, None, false, 13),
        (30, Some(1), true, 11),
        (30, None, true, 11),
        (12, Some(2), true, 12),
        (11, Some(2), true, 11),
        (9, None, false, 9),
    ] {
        let mut network = Network::new().with_topic("t", 1);
        network.newest.insert(ApiKey::PRODUCE, newest);
        if let Some(level) = level {
            network.features.insert("transaction.version".to_owned(), level);
        }
        let idempotence = format!("enable.idempotence={is_idempotent}");
        let properties = producer_config(&["linger.ms=0", &idempotence]);
        let mut producer = Producer::new("t", &properties, 0, 1).expect("a codec");
        network.pass(&mut producer, 0);
        if is_idempotent {
            give_producer_id(&mut network, &mut producer, 7, 0);
        }
        network.pass(&mut producer, MS);
        append(&mut network, &mut producer, 0, 0..1);
        let asked = network.take(ApiKey::PRODUCE);
        assert_eq!(asked.version, expected, "{newest} {level:?} {is_idempotent}");
        let request = ProduceRequestRef::decode(asked.version, &mut Reader::new(asked.body()));
        let request = request.expect("a request");
        let partition = &request.partitions[0];
        match expected {
            13 => assert_eq!(partition.topic_id, Network::topic_id("t")),
            _ => assert_eq!(partition.topic, "t"),
        }
    }
}

#[test]
fn a_topic_that_is_made_again_is_written_by_its_new_id_and_told_of() {
    let (mut network, mut producer) = ready(
        &["linger.ms=0", "enable.idempotence=false", "retry.backoff.ms=20"],
        2,
    );
    append(&mut network, &mut producer, 0, 0..2);
    append(&mut network, &mut producer, 1, 9..11);
    let new = wire::Uuid([3; 16]);
    network.new_ids.insert("t".to_owned(), new);
    network.topics.insert("t".to_owned(), vec![(1, 0)]);
    // Until metadata has told the new id, the old one is refused.
    let again = loop {
        network.pass(&mut producer, 10 * MS);
        assert!(network.now_ns < 1000 * MS, "the new id is never used");
        let Some(asked) = network.next_asked() else {
            continue;
        };
        let request = ProduceRequestRef::decode(asked.version, &mut Reader::new(asked.body()));
        let request = request.expect("a request");
        if request.partitions[0].topic_id == new {
            break asked;
        }
        answer(
            &mut network,
            &mut producer,
            &asked,
            ErrorCode::UNKNOWN_TOPIC_ID,
            -1,
        );
    };
    answer(&mut network, &mut producer, &again, ErrorCode::NONE, 0);
    let mut ended: Vec<(i32, Outcome)> = std::iter::from_fn(|| producer.next_finished())
        .map(|finished| (finished.partition, finished.outcome))
        .collect();
    ended.sort_by_key(|(partition, _)| *partition);
    assert_eq!(ended[0], (0, Outcome::Acknowledged { base_offset: Some(0) }));
    // The new topic does not have the other partition: what was for it is refused at once.
    assert!(
        matches!(
            &ended[1],
            (1, Outcome::Refused { kind: FailureKind::TopicMadeAgain, message })
                if message.contains("with 1 partitions")
        ),
        "{ended:?}"
    );
    let told: Vec<FailureKind> = std::iter::from_fn(|| producer.next_incident())
        .map(|incident| incident.kind)
        .collect();
    assert_eq!(
        told.first(),
        Some(&FailureKind::Broker(ErrorCode::UNKNOWN_TOPIC_ID))
    );
    assert!(told.contains(&FailureKind::TopicMadeAgain), "{told:?}");
    assert_eq!(producer.partitions(), 1);
    let now_ns = network.now_ns;
    assert_eq!(producer.sticky_partition(now_ns), Some(0));
}
