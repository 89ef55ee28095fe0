//! Transactions as producers and read-committed consumers meet them, by both protocols.

use super::*;
use crate::transaction::ProducerKey;
use wire::batch::{BatchBuilder, RecordHeaders};
use wire::compress::Compressor;

/// Produce versions: partitions are added beforehand, and clients know TRANSACTION_ABORTABLE; or writes add them.
const FIRST: i16 = 11;
const SECOND: i16 = 12;

fn transactional_batch(producer: ProducerKey, base_sequence: i32, records: usize) -> Vec<u8> {
    let mut builder = BatchBuilder::new(Vec::new());
    for _ in 0..records {
        builder.push(ORIGIN_MS, None, 100, &RecordHeaders::default(), |out| {
            out.resize(out.len() + 100, 7);
        });
    }
    let mut compressor = Compressor::new(Codec::None, None).expect("codec");
    let mut sealed = builder.seal(&mut compressor, &mut Vec::new()).expect("sealed");
    sealed.set_producer(producer.id, producer.epoch, base_sequence, true);
    sealed.into_buffer()
}

/// (Base offset, records) of batches, and (producer, first offset) of aborted transactions.
type Committed = (Vec<(i64, u32)>, Vec<(i64, i64)>);

impl Bench {
    fn transactional(brokers: u16) -> Bench {
        let mut bench = Bench::new(brokers, &[]);
        bench.create("t", 1, brokers as i16, &[]);
        bench
    }

    fn coordinator(&self, key: &str) -> i32 {
        self.cluster.coordinator_of(key).expect("a coordinator").id
    }

    fn init(&mut self, id: &str, known: Option<ProducerKey>) -> Result<ProducerKey, ErrorCode> {
        let request = InitProducerIdRequest {
            transactional_id: Some(id.to_owned()),
            transaction_timeout_ms: 60_000,
            producer_id: known.map_or(-1, |known| known.id),
            producer_epoch: known.map_or(-1, |known| known.epoch),
        };
        let response = self.ask(self.coordinator(id), &request);
        response.error_code.into_result().map(|()| ProducerKey {
            id: response.producer_id,
            epoch: response.producer_epoch,
        })
    }

    fn add_partition(&mut self, id: &str, producer: ProducerKey) -> ErrorCode {
        let topic = add_partitions_to_txn::AddPartitionsToTxnTopic {
            name: "t".to_owned(),
            partitions: vec![0],
        };
        let request = AddPartitionsToTxnRequest {
            v3_and_below_transactional_id: id.to_owned(),
            v3_and_below_producer_id: producer.id,
            v3_and_below_producer_epoch: producer.epoch,
            v3_and_below_topics: vec![topic],
            ..Default::default()
        };
        let asked = self.begin(self.coordinator(id), 3, &request);
        let response = self
            .finish::<AddPartitionsToTxnRequest>(3, asked)
            .expect("an answer");
        response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
    }

    /// Writes records in a transaction.
    fn write(
        &mut self,
        id: &str,
        version: i16,
        producer: ProducerKey,
        (base_sequence, records): (i32, usize),
    ) -> Result<i64, ErrorCode> {
        let batch = transactional_batch(producer, base_sequence, records);
        let head = ProduceHead {
            correlation_id: 7,
            client_id: None,
            version,
            transactional_id: Some(id),
            acks: -1,
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
        let leader = self.leader("t");
        let (asked, _) = self.send(leader, &[&out[..], &batch, &tail].concat());
        let bytes = self.take(asked).expect("an answer at once");
        let (_, response) = decode_produce_response(version, &bytes).expect("a response");
        let answer = &response.responses[0].partition_responses[0];
        answer.error_code.into_result().map(|()| answer.base_offset)
    }

    fn end(
        &mut self,
        id: &str,
        version: i16,
        producer: ProducerKey,
        committed: bool,
    ) -> Result<ProducerKey, ErrorCode> {
        let request = EndTxnRequest {
            transactional_id: id.to_owned(),
            producer_id: producer.id,
            producer_epoch: producer.epoch,
            committed,
        };
        let asked = self.begin(self.coordinator(id), version, &request);
        let response = self.finish::<EndTxnRequest>(version, asked).expect("an answer");
        response.error_code.into_result().map(|()| ProducerKey {
            id: response.producer_id,
            epoch: response.producer_epoch,
        })
    }

    fn begin_committed_fetch(&mut self, offset: i64, min_bytes: i32) -> Asked {
        let partition = FetchPartition {
            fetch_offset: offset,
            partition_max_bytes: 1 << 20,
            ..Default::default()
        };
        let request = FetchRequest {
            max_wait_ms: 500,
            min_bytes,
            isolation_level: 1,
            topics: vec![FetchTopic {
                topic: "t".to_owned(),
                partitions: vec![partition],
                ..Default::default()
            }],
            ..Default::default()
        };
        let leader = self.leader("t");
        self.send(leader, &encode_fetch_request(7, None, 12, &request)).0
    }

    /// What a read-committed consumer gets.
    fn committed(&mut self, asked: Asked) -> Option<Committed> {
        let bytes = self.take(asked)?;
        let response = FetchResponseRef::decode(12, &bytes).expect("a response");
        let partition = &response.partitions[0];
        assert_eq!(partition.error_code, ErrorCode::NONE);
        let batches = batches(partition.records).map(|batch| {
            let batch = batch.expect("a batch");
            batch.check_crc().expect("undamaged");
            (batch.base_offset(), batch.count())
        });
        let aborted = partition.aborted_transactions.iter();
        Some((
            batches.collect(),
            aborted
                .map(|aborted| (aborted.producer_id, aborted.first_offset))
                .collect(),
        ))
    }

    fn latest(&mut self, isolation_level: i8) -> i64 {
        let partition = list_offsets::ListOffsetsPartition {
            timestamp: -1,
            ..Default::default()
        };
        let request = ListOffsetsRequest {
            isolation_level,
            topics: vec![list_offsets::ListOffsetsTopic {
                name: "t".to_owned(),
                partitions: vec![partition],
            }],
            ..Default::default()
        };
        let leader = self.leader("t");
        self.ask(leader, &request).topics[0].partitions[0].offset
    }
}

#[test]
fn committed_records_become_readable_with_their_marker() {
    let mut bench = Bench::transactional(3);
    let producer = bench.init("a", None).expect("a producer");
    assert_eq!(
        bench.write("a", FIRST, producer, (0, 2)),
        Err(ErrorCode::TRANSACTION_ABORTABLE),
        "the partition was not added"
    );
    assert_eq!(bench.add_partition("a", producer), ErrorCode::NONE);
    assert_eq!(bench.write("a", FIRST, producer, (0, 2)), Ok(0));
    assert_eq!((bench.latest(0), bench.latest(1)), (2, 0));
    let waiting = bench.begin_committed_fetch(0, 1);
    assert_eq!(bench.write("a", FIRST, producer, (2, 1)), Ok(2));
    assert_eq!(
        bench.committed(waiting),
        None,
        "what is not committed wakes nobody"
    );
    assert_eq!(bench.end("a", 4, producer, true).map(|_| ()), Ok(()));
    let read = bench.committed(waiting).expect("woken by the commit");
    assert_eq!(read, (vec![(0, 2), (2, 1), (3, 1)], vec![]));
    assert_eq!((bench.latest(0), bench.latest(1)), (4, 4));
    // The same producer goes on in the same epoch, with the next sequence number.
    assert_eq!(bench.add_partition("a", producer), ErrorCode::NONE);
    assert_eq!(bench.write("a", FIRST, producer, (3, 1)), Ok(4));
    assert_eq!(
        bench.end("a", 4, producer, false).map(|_| ()),
        Ok(()),
        "and the abort is told to consumers"
    );
    let asked = bench.begin_committed_fetch(4, 1);
    assert_eq!(
        bench.committed(asked),
        Some((vec![(4, 1), (5, 1)], vec![(producer.id, 4)]))
    );
    assert_eq!(
        bench.end("a", 4, producer, false).map(|_| ()),
        Ok(()),
        "a repeated abort"
    );
    assert_eq!(
        bench.end("a", 4, producer, true),
        Err(ErrorCode::INVALID_TXN_STATE)
    );
}

#[test]
fn the_second_protocol_adds_by_writing_and_raises_the_epoch_with_each_end() {
    let mut bench = Bench::transactional(1);
    let first = bench.init("a", None).expect("a producer");
    assert_eq!(bench.write("a", SECOND, first, (0, 3)), Ok(0));
    let second = bench.end("a", 5, first, true).expect("committed");
    assert_eq!((second.id, second.epoch), (first.id, first.epoch + 1));
    assert_eq!(
        bench.end("a", 5, first, true),
        Ok(second),
        "a repeated commit gets the same answer"
    );
    assert_eq!(
        bench.write("a", SECOND, first, (3, 1)),
        Err(ErrorCode::INVALID_PRODUCER_EPOCH)
    );
    assert_eq!(bench.write("a", SECOND, second, (0, 1)), Ok(4));
    let third = bench.end("a", 5, second, false).expect("aborted");
    let fourth = bench.end("a", 5, third, false).expect("an abort of nothing");
    assert_eq!((third.epoch, fourth.epoch), (2, 3));
    assert_eq!(bench.end("a", 5, fourth, true), Err(ErrorCode::INVALID_TXN_STATE));
    let asked = bench.begin_committed_fetch(0, 1);
    let (_, aborted) = bench.committed(asked).expect("an answer");
    assert_eq!(aborted, [(first.id, 4)]);
}

#[test]
fn a_newcomer_with_the_same_id_fences_the_old_one_and_aborts_its_transaction() {
    let mut bench = Bench::transactional(1);
    let old = bench.init("a", None).expect("a producer");
    bench.add_partition("a", old);
    assert_eq!(bench.write("a", FIRST, old, (0, 1)), Ok(0));
    let new = bench.init("a", None).expect("the newcomer");
    assert!(new.id == old.id && new.epoch > old.epoch);
    assert_eq!(
        bench.write("a", FIRST, old, (1, 1)),
        Err(ErrorCode::INVALID_PRODUCER_EPOCH)
    );
    assert_eq!(bench.add_partition("a", old), ErrorCode::PRODUCER_FENCED);
    assert_eq!(bench.end("a", 4, old, true), Err(ErrorCode::PRODUCER_FENCED));
    assert_eq!(bench.init("a", Some(old)), Err(ErrorCode::PRODUCER_FENCED));
    let asked = bench.begin_committed_fetch(0, 1);
    assert_eq!(
        bench.committed(asked),
        Some((vec![(0, 1), (1, 1)], vec![(old.id, 0)]))
    );
    let raised = bench.init("a", Some(new)).expect("a new epoch on request");
    assert_eq!(raised.epoch, new.epoch + 1);
    assert_eq!(bench.init("a", Some(new)), Ok(raised), "the request came twice");
}

#[test]
fn a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced() {
    let mut bench = Bench::transactional(1);
    let producer = bench.init("a", None).expect("a producer");
    bench.add_partition("a", producer);
    assert_eq!(bench.write("a", FIRST, producer, (0, 1)), Ok(0));
    bench.pass(59 * super::SECOND);
    assert_eq!(bench.latest(1), 0);
    bench.pass(super::SECOND);
    assert_eq!(bench.latest(1), 2);
    assert_eq!(bench.end("a", 4, producer, true), Err(ErrorCode::PRODUCER_FENCED));
}

#[test]
fn a_marker_waits_for_replicas_and_a_leader() {
    let mut bench = Bench::transactional(3);
    let producer = bench.init("a", None).expect("a producer");
    bench.add_partition("a", producer);
    assert_eq!(bench.write("a", FIRST, producer, (0, 1)), Ok(0));
    let follower = (1..=3).find(|id| *id != bench.leader("t")).expect("a follower");
    bench.cluster.set_replication(bench.now, follower, false);
    assert_eq!(bench.end("a", 4, producer, true).map(|_| ()), Ok(()));
    assert_eq!(bench.latest(1), 0, "the marker is not on all in-sync replicas");
    assert_eq!(
        bench.add_partition("a", producer),
        ErrorCode::CONCURRENT_TRANSACTIONS
    );
    assert_eq!(bench.init("a", None), Err(ErrorCode::CONCURRENT_TRANSACTIONS));
    bench.cluster.set_replication(bench.now, follower, true);
    bench.pass(10 * MS);
    assert_eq!(bench.latest(1), 2);
    assert_eq!(bench.add_partition("a", producer), ErrorCode::NONE);

    assert_eq!(bench.write("a", FIRST, producer, (1, 1)), Ok(2));
    for broker in 1..=3 {
        bench.cluster.stop_broker(bench.now, broker);
    }
    bench.cluster.abort_and_fence(bench.now, "a");
    bench.pass(super::SECOND);
    for broker in 1..=3 {
        bench.cluster.start_broker(bench.now, broker);
    }
    bench.pass(10 * MS);
    assert_eq!(
        bench.latest(1),
        4,
        "the marker was written as soon as somebody led"
    );
}

#[test]
fn offsets_count_when_their_transaction_commits() {
    let mut bench = Bench::transactional(1);
    let producer = bench.init("a", None).expect("a producer");
    let commit = |bench: &mut Bench, version: i16, producer: ProducerKey, offset: i64| {
        let partition = txn_offset_commit::TxnOffsetCommitRequestPartition {
            committed_offset: offset,
            ..Default::default()
        };
        let request = TxnOffsetCommitRequest {
            transactional_id: "a".to_owned(),
            group_id: "g".to_owned(),
            producer_id: producer.id,
            producer_epoch: producer.epoch,
            topics: vec![txn_offset_commit::TxnOffsetCommitRequestTopic {
                name: "t".to_owned(),
                partitions: vec![partition],
            }],
            ..Default::default()
        };
        let asked = bench.begin(1, version, &request);
        let response = bench
            .finish::<TxnOffsetCommitRequest>(version, asked)
            .expect("an answer");
        response.topics[0].partitions[0].error_code
    };
    let fetch = |bench: &mut Bench, require_stable: bool| {
        let topic = offset_fetch::OffsetFetchRequestTopics {
            name: "t".to_owned(),
            partition_indexes: vec![0],
        };
        let group = offset_fetch::OffsetFetchRequestGroup {
            group_id: "g".to_owned(),
            topics: Some(vec![topic]),
            ..Default::default()
        };
        let request = OffsetFetchRequest {
            groups: vec![group],
            require_stable,
            ..Default::default()
        };
        let asked = bench.begin(1, 9, &request);
        let response = bench.finish::<OffsetFetchRequest>(9, asked).expect("an answer");
        let partition = &response.groups[0].topics[0].partitions[0];
        (partition.committed_offset, partition.error_code)
    };
    assert_eq!(
        commit(&mut bench, 3, producer, 5),
        ErrorCode::INVALID_TXN_STATE,
        "the group was not added"
    );
    let add = AddOffsetsToTxnRequest {
        transactional_id: "a".to_owned(),
        producer_id: producer.id,
        producer_epoch: producer.epoch,
        group_id: "g".to_owned(),
    };
    assert_eq!(bench.ask(1, &add).error_code, ErrorCode::NONE);
    assert_eq!(commit(&mut bench, 3, producer, 5), ErrorCode::NONE);
    assert_eq!(fetch(&mut bench, false), (-1, ErrorCode::NONE));
    assert_eq!(fetch(&mut bench, true), (-1, ErrorCode::UNSTABLE_OFFSET_COMMIT));
    assert_eq!(bench.end("a", 4, producer, true).map(|_| ()), Ok(()));
    assert_eq!(fetch(&mut bench, true), (5, ErrorCode::NONE));
    assert_eq!(commit(&mut bench, 5, producer, 9), ErrorCode::NONE);
    assert_eq!(bench.end("a", 5, producer, false).map(|_| ()), Ok(()));
    assert_eq!(fetch(&mut bench, true), (5, ErrorCode::NONE));
}

#[test]
fn what_is_not_allowed_is_refused() {
    let mut bench = Bench::transactional(1);
    let producer = bench.init("a", None).expect("a producer");
    assert_eq!(bench.init("", None), Err(ErrorCode::INVALID_REQUEST));
    let long = InitProducerIdRequest {
        transactional_id: Some("b".to_owned()),
        transaction_timeout_ms: 900_001,
        ..Default::default()
    };
    assert_eq!(
        bench.ask(1, &long).error_code,
        ErrorCode::INVALID_TRANSACTION_TIMEOUT
    );
    let stranger = ProducerKey {
        id: producer.id + 1000,
        epoch: 0,
    };
    assert_eq!(
        bench.add_partition("a", stranger),
        ErrorCode::INVALID_PRODUCER_ID_MAPPING
    );
    assert_eq!(
        bench.add_partition("b", producer),
        ErrorCode::INVALID_PRODUCER_ID_MAPPING
    );
    assert_eq!(
        bench.end("a", 4, producer, true),
        Err(ErrorCode::INVALID_TXN_STATE)
    );
    // A batch without its transactional id, and one outside of the transaction that is open.
    let batch = transactional_batch(producer, 0, 1);
    let (asked, _) = bench.begin_produce(1, "t", -1, &batch);
    assert_eq!(
        bench.produced(asked).expect("an answer").error_code,
        ErrorCode::INVALID_PRODUCER_ID_MAPPING
    );
    assert_eq!(bench.write("a", SECOND, producer, (0, 1)), Ok(0));
    let mut builder = BatchBuilder::new(Vec::new());
    builder.push(ORIGIN_MS, None, 1, &RecordHeaders::default(), |out| out.push(1));
    let mut compressor = Compressor::new(Codec::None, None).expect("codec");
    let mut sealed = builder.seal(&mut compressor, &mut Vec::new()).expect("sealed");
    sealed.set_producer(producer.id, producer.epoch, 1, false);
    let (asked, _) = bench.begin_produce(1, "t", -1, sealed.bytes());
    assert_eq!(
        bench.produced(asked).expect("an answer").error_code,
        ErrorCode::INVALID_TXN_STATE
    );
}

#[test]
fn tools_see_transactions_and_end_one_that_hangs() {
    let mut bench = Bench::transactional(1);
    let producer = bench.init("a", None).expect("a producer");
    assert_eq!(bench.write("a", SECOND, producer, (0, 1)), Ok(0));
    bench.pass(super::SECOND);
    let described = bench.ask(
        1,
        &DescribeTransactionsRequest {
            transactional_ids: vec!["a".to_owned(), "b".to_owned()],
        },
    );
    let [known, unknown] = &described.transaction_states[..] else {
        panic!("two answers");
    };
    assert_eq!(
        (
            known.transaction_state.as_str(),
            known.transaction_start_time_ms,
            known.topics[0].topic.as_str()
        ),
        ("Ongoing", ORIGIN_MS, "t")
    );
    assert_eq!(unknown.error_code, ErrorCode::TRANSACTIONAL_ID_NOT_FOUND);
    let list = |bench: &mut Bench, states: &[&str], duration_filter| {
        let request = ListTransactionsRequest {
            state_filters: states.iter().map(|state| (*state).to_owned()).collect(),
            duration_filter,
            ..Default::default()
        };
        let response = bench.ask(1, &request);
        (response.transaction_states.len(), response.unknown_state_filters)
    };
    assert_eq!(list(&mut bench, &[], -1), (1, vec![]));
    assert_eq!(
        list(&mut bench, &["Empty", "Odd"], -1),
        (0, vec!["Odd".to_owned()])
    );
    assert_eq!(list(&mut bench, &[], 999).0, 1);
    assert_eq!(list(&mut bench, &[], 1000).0, 0);
    let request = DescribeProducersRequest {
        topics: vec![describe_producers::TopicRequest {
            name: "t".to_owned(),
            partition_indexes: vec![0],
        }],
    };
    let described = bench.ask(1, &request);
    let state = &described.topics[0].partitions[0].active_producers[0];
    assert_eq!(
        (
            state.producer_id,
            state.last_sequence,
            state.current_txn_start_offset
        ),
        (producer.id, 0, 0)
    );
    let marker = write_txn_markers::WritableTxnMarker {
        producer_id: producer.id,
        producer_epoch: producer.epoch,
        transaction_result: false,
        topics: vec![write_txn_markers::WritableTxnMarkerTopic {
            name: "t".to_owned(),
            partition_indexes: vec![0],
        }],
        coordinator_epoch: 0,
    };
    let ended = bench.ask(
        1,
        &WriteTxnMarkersRequest {
            markers: vec![marker],
        },
    );
    assert_eq!(
        ended.markers[0].topics[0].partitions[0].error_code,
        ErrorCode::NONE
    );
    assert_eq!(bench.latest(1), 2);
}
