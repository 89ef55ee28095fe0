//! Fetch sessions, request by request.

use super::*;
use wire::Uuid;
use wire::fetch::ForgottenTopic;

const VERSION: i16 = 12;

/// What an answer says: session, and of each partition the number of records.
type Answered = (ErrorCode, i32, Vec<(i32, u32)>);

fn ask(
    bench: &mut Bench,
    version: i16,
    (session_id, session_epoch): (i32, i32),
    named: &[(i32, i64)],
    forgotten: &[i32],
    max_wait_ms: i32,
) -> Asked {
    let topic_id = match version {
        ..13 => Uuid::ZERO,
        _ => bench.cluster.topic("t").map(|topic| topic.id).expect("a topic"),
    };
    let partitions = named.iter().map(|&(partition, fetch_offset)| FetchPartition {
        partition,
        fetch_offset,
        partition_max_bytes: 1 << 20,
        ..FetchPartition::default()
    });
    let request = FetchRequest {
        session_id,
        session_epoch,
        max_wait_ms,
        min_bytes: 1,
        topics: match named {
            [] => Vec::new(),
            _ => vec![FetchTopic {
                topic: "t".to_owned(),
                topic_id,
                partitions: partitions.collect(),
            }],
        },
        forgotten_topics_data: match forgotten {
            [] => Vec::new(),
            _ => vec![ForgottenTopic {
                topic: "t".to_owned(),
                topic_id,
                partitions: forgotten.to_vec(),
            }],
        },
        ..FetchRequest::default()
    };
    bench.send(1, &encode_fetch_request(7, None, version, &request)).0
}

fn answered(bench: &mut Bench, version: i16, asked: Asked) -> Option<Answered> {
    let bytes = bench.take(asked)?;
    let response = FetchResponseRef::decode(version, &bytes).expect("a response");
    let counts = response.partitions.iter().map(|partition| {
        let records = batches(partition.records).map(|batch| batch.expect("a batch").count());
        (partition.index, records.sum())
    });
    let counts = counts.collect();
    Some((response.error_code, response.session_id, counts))
}

#[test]
fn a_session_answers_with_what_is_new() {
    for version in [VERSION, 17] {
        let mut bench = Bench::new(1, &[]);
        bench.create("t", 3, 1, &[]);
        bench.produce("t", 1, 2).expect("appended");
        let whole = [(0, 0), (1, 0), (2, 0)];
        let asked = ask(&mut bench, version, (0, 0), &whole, &[], 0);
        let (error, id, counts) = answered(&mut bench, version, asked).expect("at once");
        assert_eq!((error, counts), (ErrorCode::NONE, vec![(0, 2), (1, 0), (2, 0)]));
        assert!(id > 0);
        // Nothing is new: it waits, and is woken by records at a partition that it does not name.
        let asked = ask(&mut bench, version, (id, 1), &[(0, 2)], &[], 500);
        assert_eq!(answered(&mut bench, version, asked), None);
        bench.produce("t", 1, 3).expect("appended");
        assert_eq!(
            answered(&mut bench, version, asked),
            Some((ErrorCode::NONE, id, vec![(0, 3)]))
        );
        // A forgotten partition is not told of, nor what has not changed.
        let asked = ask(&mut bench, version, (id, 2), &[], &[0], 0);
        assert_eq!(
            answered(&mut bench, version, asked),
            Some((ErrorCode::NONE, id, vec![]))
        );
        // The wrong number, and a session that is not there.
        let asked = ask(&mut bench, version, (id, 2), &[], &[], 0);
        assert_eq!(
            answered(&mut bench, version, asked),
            Some((ErrorCode::INVALID_FETCH_SESSION_EPOCH, 0, vec![]))
        );
        let asked = ask(&mut bench, version, (id ^ 1, 1), &[], &[], 0);
        assert_eq!(
            answered(&mut bench, version, asked),
            Some((ErrorCode::FETCH_SESSION_ID_NOT_FOUND, 0, vec![]))
        );
        // A new one takes its place.
        let asked = ask(&mut bench, version, (id, 0), &[(1, 0)], &[], 0);
        let (_, next, counts) = answered(&mut bench, version, asked).expect("at once");
        assert_eq!(counts, [(1, 0)]);
        assert!(next > 0 && next != id);
    }
}

#[test]
fn a_broker_that_was_down_has_no_sessions() {
    let mut bench = Bench::new(1, &[]);
    bench.create("t", 1, 1, &[]);
    let asked = ask(&mut bench, VERSION, (0, 0), &[(0, 0)], &[], 0);
    let (_, id, _) = answered(&mut bench, VERSION, asked).expect("at once");
    bench.cluster.stop_broker(bench.now, 1);
    bench.cluster.start_broker(bench.now, 1);
    let asked = ask(&mut bench, VERSION, (id, 1), &[], &[], 0);
    assert_eq!(
        answered(&mut bench, VERSION, asked),
        Some((ErrorCode::FETCH_SESSION_ID_NOT_FOUND, 0, vec![]))
    );
}
