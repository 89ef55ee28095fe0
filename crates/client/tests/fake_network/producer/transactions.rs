//! Transactions, request by request, by both protocols.

use super::*;
use client::producer::{EndedTransaction, GroupMember, TransactionOutcome};
use wire::messages::add_offsets_to_txn::{AddOffsetsToTxnRequest, AddOffsetsToTxnResponse};
use wire::messages::add_partitions_to_txn::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
};
use wire::messages::end_txn::{EndTxnRequest, EndTxnResponse};
use wire::messages::txn_offset_commit::{
    TxnOffsetCommitRequest, TxnOffsetCommitResponse, TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
};

const PROPERTIES: &[&str] = &["transactional.id=t1", "linger.ms=0", "retry.backoff.ms=100"];

struct Stage {
    network: Network,
    producer: Producer<Numbers>,
}

impl Stage {
    /// A producer with its id, on a cluster that has agreed on this level of `transaction.version`.
    fn new(level: i16, partitions: i32) -> Stage {
        let mut network = Network::new().with_topic("t", partitions);
        network.coordinator = 2;
        network.features.insert("transaction.version".to_owned(), level);
        let mut producer = Producer::new("t", &producer_config(PROPERTIES), 0, 1).expect("a codec");
        network.pass(&mut producer, 0);
        network.pass(&mut producer, MS);
        let mut stage = Stage { network, producer };
        let asked = stage.give_id(7, 0);
        assert_eq!(asked.transactional_id.as_deref(), Some("t1"));
        assert_eq!(asked.transaction_timeout_ms, 60_000);
        assert!(stage.producer.is_ready(stage.network.now_ns));
        stage
    }

    fn give_id(&mut self, producer_id: i64, epoch: i16) -> InitProducerIdRequest {
        let asked = give_producer_id(&mut self.network, &mut self.producer, producer_id, epoch);
        self.network.pass(&mut self.producer, MS);
        asked
    }

    fn append(&mut self, partition: usize, numbers: std::ops::Range<u64>) {
        append(&mut self.network, &mut self.producer, partition, numbers);
    }

    /// Answers AddPartitionsToTxn, and gives the partitions that it was about.
    fn added(&mut self, error: ErrorCode) -> Vec<i32> {
        let asked = self.network.take(ApiKey::ADD_PARTITIONS_TO_TXN);
        assert_eq!(
            (asked.broker, asked.version),
            (2, 3),
            "the coordinator, as clients ask it"
        );
        let request: AddPartitionsToTxnRequest = asked.read();
        let partitions = request.v3_and_below_topics[0].partitions.clone();
        let results = partitions
            .iter()
            .map(|&partition_index| AddPartitionsToTxnPartitionResult {
                partition_index,
                partition_error_code: error,
            });
        let response = AddPartitionsToTxnResponse {
            results_by_topic_v3_and_below: vec![AddPartitionsToTxnTopicResult {
                name: "t".to_owned(),
                results_by_partition: results.collect(),
            }],
            ..Default::default()
        };
        self.network
            .answer::<AddPartitionsToTxnRequest>(&mut self.producer, &asked, &response);
        partitions
    }

    /// Answers a Produce request, and gives its batches.
    fn produced(&mut self, error: ErrorCode) -> Vec<(i32, i64, i16, i32, u32)> {
        let asked = self.network.take(ApiKey::PRODUCE);
        let request = ProduceRequestRef::decode(asked.version, &mut Reader::new(asked.body()));
        assert_eq!(request.expect("a request").transactional_id, Some("t1"));
        answer(&mut self.network, &mut self.producer, &asked, error, 0);
        batches(&asked)
    }

    /// Answers EndTxn, and says whether it was a commit.
    fn ended(&mut self, error_code: ErrorCode, epoch: i16) -> bool {
        let asked = self.network.take(ApiKey::END_TXN);
        assert_eq!(asked.broker, 2);
        let response = EndTxnResponse {
            error_code,
            producer_id: 7,
            producer_epoch: epoch,
            ..Default::default()
        };
        self.network
            .answer::<EndTxnRequest>(&mut self.producer, &asked, &response);
        let request: EndTxnRequest = asked.read();
        request.committed
    }

    fn commit(&mut self) -> bool {
        let now_ns = self.network.now_ns;
        let is_begun = self.producer.end_transaction(true, now_ns);
        self.network.pass(&mut self.producer, 0);
        is_begun
    }

    fn send_offsets(&mut self) {
        let member = GroupMember {
            group_id: "g".to_owned(),
            member_id: "m".to_owned(),
            generation: 4,
            group_instance_id: None,
        };
        let now_ns = self.network.now_ns;
        let positions = vec![(("in".to_owned(), 0), 17), (("in".to_owned(), 1), 9)];
        assert!(self.producer.send_offsets(member, positions, now_ns));
        self.network.pass(&mut self.producer, MS);
    }

    fn offsets_added(&mut self, error_code: ErrorCode) {
        let asked = self.network.take(ApiKey::ADD_OFFSETS_TO_TXN);
        let response = AddOffsetsToTxnResponse {
            error_code,
            ..Default::default()
        };
        self.network
            .answer::<AddOffsetsToTxnRequest>(&mut self.producer, &asked, &response);
        self.network.pass(&mut self.producer, MS);
    }

    /// Answers TxnOffsetCommit, and gives the version and the request.
    fn offsets_committed(&mut self, error_code: ErrorCode) -> (i16, TxnOffsetCommitRequest) {
        let asked = self.network.take(ApiKey::TXN_OFFSET_COMMIT);
        let response = TxnOffsetCommitResponse {
            topics: vec![TxnOffsetCommitResponseTopic {
                name: "in".to_owned(),
                partitions: vec![TxnOffsetCommitResponsePartition {
                    partition_index: 0,
                    error_code,
                }],
            }],
            ..Default::default()
        };
        self.network
            .answer::<TxnOffsetCommitRequest>(&mut self.producer, &asked, &response);
        self.network.pass(&mut self.producer, MS);
        (asked.version, asked.read())
    }

    fn transaction(&mut self) -> Option<EndedTransaction> {
        self.producer.next_transaction()
    }
}

#[test]
fn in_the_first_protocol_partitions_are_added_before_they_are_written_to() {
    let mut stage = Stage::new(1, 2);
    stage.append(0, 0..2);
    assert_eq!(stage.network.waiting(), [ApiKey::ADD_PARTITIONS_TO_TXN]);
    assert_eq!(stage.added(ErrorCode::NONE), [0]);
    assert_eq!(stage.produced(ErrorCode::NONE), [(0, 7, 0, 0, 2)]);
    // Once added, a partition needs it no more.
    stage.append(0, 2..3);
    assert_eq!(stage.produced(ErrorCode::NONE), [(0, 7, 0, 2, 1)]);
    assert!(stage.commit());
    assert!(stage.ended(ErrorCode::NONE, 0));
    let ended = stage.transaction().expect("committed");
    assert_eq!(
        (ended.number, ended.partitions, ended.outcome),
        (0, vec![0], TransactionOutcome::Committed)
    );
    // The next transaction adds its partitions anew, and the numbering goes on.
    stage.append(0, 3..4);
    assert_eq!(stage.added(ErrorCode::CONCURRENT_TRANSACTIONS), [0]);
    assert_eq!(stage.network.waiting(), []);
    stage.network.pass(&mut stage.producer, 20 * MS);
    assert_eq!(stage.added(ErrorCode::NONE), [0]);
    assert_eq!(stage.produced(ErrorCode::NONE), [(0, 7, 0, 3, 1)]);
}

#[test]
fn in_the_second_protocol_writing_adds_and_each_end_begins_a_new_epoch() {
    let mut stage = Stage::new(2, 1);
    stage.append(0, 0..2);
    let asked = stage.network.next_asked().expect("a write at once");
    assert_eq!((asked.key, asked.version), (ApiKey::PRODUCE, 13));
    answer(
        &mut stage.network,
        &mut stage.producer,
        &asked,
        ErrorCode::NONE,
        0,
    );
    assert!(stage.commit());
    // Meanwhile the records of the next one gather and are not sent.
    stage.append(0, 2..5);
    assert_eq!(stage.network.waiting(), [ApiKey::END_TXN]);
    assert!(!stage.commit(), "one is being ended");
    assert!(stage.ended(ErrorCode::NONE, 1));
    assert_eq!(
        stage.produced(ErrorCode::CONCURRENT_TRANSACTIONS),
        [(0, 7, 1, 0, 3)]
    );
    assert_eq!(stage.producer.next_incident(), None, "that is no fault");
    stage.network.pass(&mut stage.producer, 20 * MS);
    assert_eq!(stage.produced(ErrorCode::NONE), [(0, 7, 1, 0, 3)]);
    let tags: Vec<u64> = finished(&mut stage.producer)
        .iter()
        .map(|batch| batch.transaction)
        .collect();
    assert_eq!(tags, [0, 1]);
}

#[test]
fn a_commit_awaits_what_is_under_way_and_lost_answers_are_asked_for_again() {
    let mut stage = Stage::new(2, 1);
    stage.append(0, 0..1);
    assert!(stage.commit());
    assert_eq!(stage.network.waiting(), [ApiKey::PRODUCE]);
    stage.produced(ErrorCode::NONE);
    let asked = stage.network.take(ApiKey::END_TXN);
    stage.network.close(&mut stage.producer, asked.conn);
    stage.network.pass(&mut stage.producer, 1000 * MS);
    stage.network.pass(&mut stage.producer, 1000 * MS);
    assert!(stage.ended(ErrorCode::NOT_COORDINATOR, 0));
    let sought = stage.network.coordinator_asked;
    stage.network.pass(&mut stage.producer, 200 * MS);
    assert!(
        stage.network.coordinator_asked > sought,
        "the coordinator was sought again"
    );
    assert!(stage.ended(ErrorCode::CONCURRENT_TRANSACTIONS, 0));
    stage.network.pass(&mut stage.producer, 100 * MS);
    assert!(stage.ended(ErrorCode::NONE, 1));
    assert_eq!(
        stage.transaction().map(|ended| ended.outcome),
        Some(TransactionOutcome::Committed)
    );
    assert!(stage.producer.is_idle());
}

#[test]
fn a_batch_that_fails_aborts_its_transaction_and_the_next_begins_anew() {
    let mut stage = Stage::new(1, 1);
    stage.append(0, 0..1);
    stage.added(ErrorCode::NONE);
    stage.produced(ErrorCode::NONE);
    stage.append(0, 1..2);
    let asked = stage.network.take(ApiKey::PRODUCE);
    stage.append(0, 2..3);
    answer(
        &mut stage.network,
        &mut stage.producer,
        &asked,
        ErrorCode::INVALID_RECORD,
        -1,
    );
    stage.network.pass(&mut stage.producer, 0);
    // The third was on its way when the second failed.
    stage.produced(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
    assert!(!stage.ended(ErrorCode::NONE, 0), "an abort");
    let ended = stage.transaction().expect("aborted");
    assert!(
        matches!(
            &ended.outcome,
            TransactionOutcome::Failed {
                kind: FailureKind::Broker(ErrorCode::INVALID_RECORD),
                ..
            }
        ),
        "{:?}",
        ended.outcome
    );
    let outcomes = outcomes(&mut stage.producer);
    assert_eq!(outcomes.len(), 3);
    assert_eq!(outcomes[0].1, acknowledged(0));
    assert!(matches!(outcomes[1].1, Outcome::Refused { .. }));
    // A new epoch, since the numbering has gaps.
    let asked = stage.give_id(7, 1);
    assert_eq!((asked.producer_id, asked.producer_epoch), (7, 0));
    stage.append(0, 3..4);
    stage.added(ErrorCode::NONE);
    assert_eq!(stage.produced(ErrorCode::NONE), [(0, 7, 1, 0, 1)]);
}

#[test]
fn a_fenced_producer_says_so_and_what_may_be_the_cause() {
    let mut stage = Stage::new(2, 1);
    stage.append(0, 0..1);
    stage.produced(ErrorCode::NONE);
    stage.commit();
    stage.ended(ErrorCode::PRODUCER_FENCED, -1);
    let fatal = stage.producer.fatal().expect("it cannot go on");
    assert!(
        fatal.contains("transactional.id t1") && fatal.contains("transaction.timeout.ms = 60000"),
        "{fatal}"
    );
    stage.producer.abandon(stage.network.now_ns);
    assert_eq!(
        stage.transaction().map(|ended| ended.outcome),
        Some(TransactionOutcome::Undecided)
    );
}

#[test]
fn rights_that_are_missing_are_named() {
    let mut network = Network::new().with_topic("t", 1);
    network.coordinator_error = ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED;
    let mut producer: Producer<Numbers> =
        Producer::new("t", &producer_config(PROPERTIES), 0, 1).expect("a codec");
    network.pass(&mut producer, 0);
    network.pass(&mut producer, MS);
    let fatal = producer.fatal().expect("it cannot go on");
    assert!(
        fatal.contains("ACLs DESCRIBE and WRITE on the transactional id t1"),
        "{fatal}"
    );
}

#[test]
fn a_transaction_without_records_is_none() {
    let mut stage = Stage::new(2, 1);
    assert_eq!(stage.producer.transaction_since_ns(), None);
    assert!(!stage.commit());
    assert!(stage.producer.is_idle());
}

#[test]
fn offsets_are_committed_with_the_transaction_and_before_its_end() {
    let mut stage = Stage::new(1, 1);
    stage.send_offsets();
    assert!(stage.commit());
    assert_eq!(stage.network.waiting(), [ApiKey::ADD_OFFSETS_TO_TXN]);
    stage.offsets_added(ErrorCode::NONE);
    let (version, request) = stage.offsets_committed(ErrorCode::NONE);
    assert!(version < 5);
    assert_eq!(
        (request.member_id.as_str(), request.generation_id_or_member_epoch),
        ("m", 4)
    );
    let offsets: Vec<i64> = request.topics[0]
        .partitions
        .iter()
        .map(|partition| partition.committed_offset)
        .collect();
    assert_eq!(offsets, [17, 9]);
    assert!(
        stage.ended(ErrorCode::NONE, 0),
        "a commit, although there are no records"
    );
    let ended = stage.transaction().expect("committed");
    assert_eq!(
        (ended.partitions, ended.outcome),
        (vec![], TransactionOutcome::Committed)
    );

    // In the second protocol the commit makes the group part of the transaction.
    let mut stage = Stage::new(2, 1);
    stage.append(0, 0..1);
    stage.produced(ErrorCode::NONE);
    stage.send_offsets();
    let (version, _) = stage.offsets_committed(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS);
    assert_eq!(version, 5);
    assert!(stage.commit());
    assert_eq!(stage.network.waiting(), [], "the offsets are awaited");
    stage.network.pass(&mut stage.producer, 100 * MS);
    stage.offsets_committed(ErrorCode::NONE);
    assert!(stage.ended(ErrorCode::NONE, 1));
}

#[test]
fn offsets_of_a_member_that_was_thrown_out_abort_the_transaction() {
    let mut stage = Stage::new(2, 1);
    stage.append(0, 0..1);
    stage.produced(ErrorCode::NONE);
    stage.send_offsets();
    stage.offsets_committed(ErrorCode::ILLEGAL_GENERATION);
    assert!(!stage.ended(ErrorCode::NONE, 1), "an abort");
    let ended = stage.transaction().expect("aborted");
    assert!(
        matches!(&ended.outcome, TransactionOutcome::Failed { message, .. } if message.contains("group g")),
        "{:?}",
        ended.outcome
    );
}
