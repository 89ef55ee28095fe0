//! Errors that a script gives to some partitions of a request, while the others are served.

use super::*;
use crate::api::Failing;
use model::broker_script::Selected;

fn failing(topic: &str, indexes: &[i32], error: ErrorCode, is_after: bool) -> Failing {
    Failing {
        partitions: Selected {
            topic: Some(topic.to_owned()),
            indexes: indexes.to_vec(),
        },
        error,
        is_after,
    }
}

impl Bench {
    /// A broker with the topics t, of two partitions, and u, of one.
    fn with_topics() -> Bench {
        let mut bench = Bench::new(1, &[]);
        bench.create("t", 2, 1, &[]);
        bench.create("u", 1, 1, &[]);
        bench
    }

    /// Produces one record to each partition, by name (version 12) or id (13); gives error and offset of each.
    fn produce_to_all(
        &mut self,
        version: i16,
        acks: i16,
        failing: &[Failing],
    ) -> Option<Vec<(ErrorCode, i64)>> {
        let batch = batch_bytes(&[ORIGIN_MS], 10, Codec::None);
        let head = ProduceHead {
            correlation_id: 7,
            client_id: None,
            version,
            transactional_id: None,
            acks,
            timeout_ms: 1500,
        };
        let partitions = [0, 1].map(|index| ProducePartition {
            index,
            batch_bytes: batch.len(),
        });
        let id = |name| self.cluster.topic(name).expect("it was created").id;
        let topics =
            [("t", &partitions[..]), ("u", &partitions[..1])].map(|(name, partitions)| ProduceTopic {
                name,
                topic_id: id(name),
                partitions,
            });
        let (mut out, mut cuts) = (Vec::new(), Vec::new());
        encode_produce_request(&head, &topics, &mut out, &mut cuts);
        let (mut frame, mut at) = (Vec::new(), 0);
        for cut in cuts {
            frame.extend_from_slice(&out[at..cut]);
            frame.extend_from_slice(&batch);
            at = cut;
        }
        frame.extend_from_slice(&out[at..]);
        let (asked, outcome) = self.send_failing(1, &frame, failing);
        if acks == 0 {
            assert!(!matches!(outcome, Outcome::Answer(_)));
        }
        let bytes = self.take(asked)?;
        let (_, response) = decode_produce_response(version, &bytes).expect("a response");
        let partitions = response
            .responses
            .iter()
            .flat_map(|topic| &topic.partition_responses);
        Some(
            partitions
                .map(|partition| (partition.error_code, partition.base_offset))
                .collect(),
        )
    }

    fn ends(&self) -> [i64; 3] {
        let end = |topic, index| {
            let partition = self.cluster.topic(topic).and_then(|topic| topic.partition(index));
            partition.map_or(-1, |partition| partition.log().end_offset())
        };
        [end("t", 0), end("t", 1), end("u", 0)]
    }
}

const OK: ErrorCode = ErrorCode::NONE;
const GONE: ErrorCode = ErrorCode::NOT_LEADER_OR_FOLLOWER;
const LATE: ErrorCode = ErrorCode::REQUEST_TIMED_OUT;

#[test]
fn only_the_partitions_that_are_named_fail_and_the_others_are_written() {
    for version in [12, 13] {
        let mut bench = Bench::with_topics();
        let named = [failing("t", &[1], GONE, false)];
        let answers = bench.produce_to_all(version, -1, &named);
        assert_eq!(
            answers,
            Some(vec![(OK, 0), (GONE, -1), (OK, 0)]),
            "version {version}"
        );
        assert_eq!(bench.ends(), [1, 0, 1]);
        let whole_topic = [failing("t", &[], GONE, false)];
        let answers = bench.produce_to_all(version, 1, &whole_topic);
        assert_eq!(answers, Some(vec![(GONE, -1), (GONE, -1), (OK, 1)]));
        assert_eq!(bench.ends(), [1, 0, 2]);
    }
}

#[test]
fn what_fails_afterwards_is_written_and_the_first_rule_wins() {
    let mut bench = Bench::with_topics();
    let rules = [failing("t", &[0], LATE, true), failing("t", &[], GONE, false)];
    let answers = bench.produce_to_all(12, -1, &rules);
    assert_eq!(answers, Some(vec![(LATE, -1), (GONE, -1), (OK, 0)]));
    assert_eq!(bench.ends(), [1, 0, 1]);
}

#[test]
fn without_an_answer_what_was_refused_ends_the_connection() {
    let mut bench = Bench::with_topics();
    assert_eq!(
        bench.produce_to_all(12, 0, &[failing("t", &[1], GONE, false)]),
        None
    );
    assert_eq!(bench.ends(), [1, 0, 1]);
}

#[test]
fn fetched_partitions_fail_one_by_one_too() {
    for (version, is_after) in [(12, false), (12, true), (13, false)] {
        let mut bench = Bench::with_topics();
        bench.produce_to_all(12, 1, &[]);
        let topics = ["t", "u"].map(|name| FetchTopic {
            topic: name.to_owned(),
            topic_id: bench.cluster.topic(name).expect("it was created").id,
            partitions: (0..if name == "t" { 2 } else { 1 })
                .map(|partition| FetchPartition {
                    partition,
                    partition_max_bytes: 1 << 20,
                    ..Default::default()
                })
                .collect(),
        });
        let topics = topics.map(|topic| match version {
            12 => FetchTopic {
                topic_id: wire::Uuid::ZERO,
                ..topic
            },
            _ => FetchTopic {
                topic: String::new(),
                ..topic
            },
        });
        let request = FetchRequest {
            max_bytes: 1 << 20,
            topics: topics.to_vec(),
            ..Default::default()
        };
        let frame = encode_fetch_request(7, None, version, &request);
        let (asked, _) = bench.send_failing(1, &frame, &[failing("t", &[1], GONE, is_after)]);
        let bytes = bench.take(asked).expect("an answer at once");
        let response = FetchResponseRef::decode(version, &bytes).expect("a response");
        let found: Vec<(ErrorCode, bool)> = response
            .partitions
            .iter()
            .map(|partition| (partition.error_code, partition.records.is_empty()))
            .collect();
        assert_eq!(
            found,
            [(OK, false), (GONE, true), (OK, false)],
            "version {version}"
        );
    }
}

#[test]
fn a_broker_that_is_kept_out_of_the_isr_leaves_at_once_and_comes_back_at_once() {
    let mut bench = Bench::new(2, &[]);
    bench.create("t", 1, 2, &[("min.insync.replicas", "2")]);
    let leader = bench.leader("t");
    let follower = 3 - leader;
    let batch = batch_bytes(&[ORIGIN_MS], 10, Codec::None);
    bench.cluster.set_replication(0, follower, false);
    let (waiting, _) = bench.begin_produce(leader, "t", -1, &batch);
    assert_eq!(bench.produced(waiting), None);
    assert!(bench.cluster.keep_out_of_sync(bench.now, follower, true));
    bench.collect();
    let told = |answer: Option<PartitionProduceResponse>| answer.map(|answer| answer.error_code);
    assert_eq!(
        told(bench.produced(waiting)),
        Some(ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    );
    assert_eq!(bench.produce("t", -1, 1), Err(ErrorCode::NOT_ENOUGH_REPLICAS));
    let isr = |bench: &Bench| {
        let topic = bench.cluster.topic("t").expect("it was created");
        topic.partitions[0].in_sync().count()
    };
    assert_eq!(isr(&bench), 1);
    // Neither time nor a new start brings it back, but the end of what keeps it out.
    bench.cluster.set_replication(bench.now, follower, true);
    bench.cluster.stop_broker(bench.now, follower);
    bench.cluster.start_broker(bench.now, follower);
    bench.pass(60 * SECOND);
    assert_eq!(isr(&bench), 1);
    assert!(bench.cluster.keep_out_of_sync(bench.now, follower, false));
    assert_eq!(isr(&bench), 2);
    assert_eq!(bench.produce("t", -1, 1), Ok(1));
    assert!(!bench.cluster.keep_out_of_sync(bench.now, 9, true));
}
