//! Fetch sessions, topics that are made again, and logs that are truncated.

use super::*;
use wire::Uuid;
use wire::messages::offset_for_leader_epoch::{
    EpochEndOffset, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, OffsetForLeaderTopicResult,
};

/// Session, its epoch, and the partitions that the request takes off.
fn session(asked: &Asked) -> (i32, i32, Vec<i32>) {
    let request: FetchRequest = asked.message();
    let forgotten = request.forgotten_topics_data.iter();
    (
        request.session_id,
        request.session_epoch,
        forgotten.flat_map(|topic| topic.partitions.clone()).collect(),
    )
}

fn in_session(network: &mut Network, consumer: &mut Consumer, asked: &Asked, id: i32, parts: &[Part]) {
    answered(network, consumer, asked, 0, (ErrorCode::NONE, id), parts);
}

/// Tells where the epoch of a partition ends.
fn epoch_ends(
    network: &mut Network,
    consumer: &mut Consumer,
    asked: &Asked,
    error_code: ErrorCode,
    (leader_epoch, end_offset): (i32, i64),
) {
    let response = OffsetForLeaderEpochResponse {
        topics: vec![OffsetForLeaderTopicResult {
            topic: "t".to_owned(),
            partitions: vec![EpochEndOffset {
                error_code,
                partition: 0,
                leader_epoch,
                end_offset,
            }],
        }],
        ..Default::default()
    };
    network.answer::<OffsetForLeaderEpochRequest>(consumer, asked, &response);
}

/// The partition's epoch as a Fetch or a question for epochs names it: the leader's, and that of the last record.
fn epochs(asked: &Asked) -> (i32, i32) {
    let request: OffsetForLeaderEpochRequest = asked.read();
    assert_eq!(request.replica_id, -1);
    let partition = &request.topics[0].partitions[0];
    (partition.current_leader_epoch, partition.leader_epoch)
}

fn of_epoch(epoch: i32, mut bytes: Vec<u8>) -> Vec<u8> {
    bytes[12..16].copy_from_slice(&epoch.to_be_bytes());
    bytes
}

#[test]
fn in_a_session_only_what_moved_is_named_again() {
    let mut network = Network::new();
    network.topics.insert("t".to_owned(), vec![(1, 0); 3]);
    let mut consumer = consumer(&[], 3, StartAt::Offset(0));
    network.pass(&mut consumer, MS);
    let asked = network.take(ApiKey::FETCH);
    assert_eq!(session(&asked), (0, 0, vec![]));
    let parts = [
        records(0, 9, &[batch(0, 1)]),
        records(1, 9, &[]),
        records(2, 9, &[]),
    ];
    in_session(&mut network, &mut consumer, &asked, 77, &parts);
    let asked = network.take(ApiKey::FETCH);
    assert_eq!((session(&asked), wanted(&asked)), ((77, 1, vec![]), vec![(0, 1)]));
    // Those that the answer leaves out have no news, and are still read.
    in_session(
        &mut network,
        &mut consumer,
        &asked,
        77,
        &[records(2, 12, &[batch(0, 4)])],
    );
    assert_eq!(deliver(&mut network, &mut consumer), [(0, 0, 0, 1), (2, 0, 0, 4)]);
    assert_eq!(consumer.lag(), Some(8 + 9 + 8));
    let asked = network.take(ApiKey::FETCH);
    assert_eq!((session(&asked), wanted(&asked)), ((77, 2, vec![]), vec![(2, 4)]));
    // One that fails leaves the session until its back-off has passed.
    let failed = error(1, ErrorCode::CORRUPT_MESSAGE);
    in_session(&mut network, &mut consumer, &asked, 77, &[failed]);
    let asked = network.take(ApiKey::FETCH);
    assert_eq!((session(&asked), wanted(&asked)), ((77, 3, vec![1]), vec![]));
    network.pass_slowly(&mut consumer, 200 * MS, 10 * MS);
    in_session(&mut network, &mut consumer, &asked, 77, &[]);
    let asked = network.take(ApiKey::FETCH);
    assert_eq!((session(&asked), wanted(&asked)), ((77, 4, vec![]), vec![(1, 0)]));
}

#[test]
fn a_session_that_the_broker_has_lost_or_doubts_is_opened_anew_at_once() {
    for (refusal, expected) in [
        (ErrorCode::FETCH_SESSION_ID_NOT_FOUND, (0, 0, vec![])),
        (ErrorCode::INVALID_FETCH_SESSION_EPOCH, (5, 0, vec![])),
        (ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR, (5, 0, vec![])),
    ] {
        let mut network = Network::new().with_topic("t", 1);
        let mut consumer = consumer(&[], 1, StartAt::Offset(3));
        network.pass(&mut consumer, MS);
        let asked = network.take(ApiKey::FETCH);
        in_session(&mut network, &mut consumer, &asked, 5, &[records(0, 3, &[])]);
        let asked = network.take(ApiKey::FETCH);
        assert_eq!(wanted(&asked), []);
        answered(&mut network, &mut consumer, &asked, 0, (refusal, 0), &[]);
        let asked = network.take(ApiKey::FETCH);
        assert_eq!((session(&asked), wanted(&asked)), (expected, vec![(0, 3)]));
        assert_eq!(events(&mut consumer), []);
    }
}

#[test]
fn a_session_is_not_believed_after_a_lost_connection() {
    let mut network = Network::new().with_topic("t", 1);
    let mut consumer = consumer(&[], 1, StartAt::Offset(3));
    network.pass(&mut consumer, MS);
    let asked = network.take(ApiKey::FETCH);
    in_session(&mut network, &mut consumer, &asked, 5, &[records(0, 3, &[])]);
    let asked = network.take(ApiKey::FETCH);
    network.close(&mut consumer, asked.conn);
    network.pass_slowly(&mut consumer, 1000 * MS, 10 * MS);
    let again = network.take(ApiKey::FETCH);
    assert_eq!((session(&again), wanted(&again)), ((5, 0, vec![]), vec![(0, 3)]));
}

#[test]
fn brokers_without_topic_ids_or_sessions_are_asked_by_name_and_in_full() {
    for (newest, expected) in [(12, (0, 0, vec![])), (6, (0, -1, vec![]))] {
        let mut network = Network::new().with_topic("t", 1);
        network.newest.insert(ApiKey::FETCH, newest);
        let mut consumer = consumer(&[], 1, StartAt::Offset(0));
        network.pass(&mut consumer, MS);
        let asked = network.take(ApiKey::FETCH);
        assert_eq!((asked.version, session(&asked)), (newest, expected));
        assert_eq!(asked.message::<FetchRequest>().topics[0].topic, "t");
        fetched(
            &mut network,
            &mut consumer,
            &asked,
            0,
            &[records(0, 2, &[batch(0, 2)])],
        );
        assert_eq!(deliver(&mut network, &mut consumer), [(0, 0, 0, 2)]);
    }
}

#[test]
fn a_topic_that_is_made_again_is_read_from_its_beginning_after_what_was_fetched_of_the_old_one() {
    let mut network = Network::new();
    network.topics.insert("t".to_owned(), vec![(1, 6)]);
    let mut consumer = consumer(
        &["retry.backoff.ms=50", "auto.offset.reset=latest"],
        1,
        StartAt::Offset(0),
    );
    network.pass(&mut consumer, MS);
    let asked = network.take(ApiKey::FETCH);
    in_session(
        &mut network,
        &mut consumer,
        &asked,
        4,
        &[records(0, 9, &[batch(0, 9)])],
    );
    let asked = network.take(ApiKey::FETCH);
    network.topics.insert("t".to_owned(), vec![(1, 0)]);
    let old = network.topic_id_of("t");
    network.new_ids.insert("t".to_owned(), Uuid([5; 16]));
    let gone = error(0, ErrorCode::UNKNOWN_TOPIC_ID);
    // The answer is still of the topic by its old id.
    network.new_ids.insert("t".to_owned(), old);
    in_session(&mut network, &mut consumer, &asked, 4, &[gone]);
    network.new_ids.insert("t".to_owned(), Uuid([5; 16]));
    network.pass_slowly(&mut consumer, 300 * MS, 10 * MS);
    assert_eq!(network.waiting(), []);
    assert_eq!(deliver(&mut network, &mut consumer), [(0, 0, 0, 9)]);
    let asked = network.take(ApiKey::LIST_OFFSETS);
    let request: ListOffsetsRequest = asked.read();
    let partition = &request.topics[0].partitions[0];
    assert_eq!((partition.timestamp, partition.current_leader_epoch), (-2, 0));
    listed(&mut network, &mut consumer, &asked, &[(0, 0, ErrorCode::NONE)]);
    let asked = network.take(ApiKey::FETCH);
    assert_eq!(wanted(&asked), [(0, 0)]);
    let request: FetchRequest = asked.message();
    assert_eq!(request.topics[0].topic_id, Uuid([5; 16]));
    let told = events(&mut consumer);
    assert!(
        matches!(
            told[..],
            [ConsumerEvent::TopicMadeAgain {
                partition: 0,
                from: 9,
                ..
            }]
        ),
        "{told:?}"
    );
    // A broker that lags and still names the old one does not take the consumer back.
    network.new_ids.insert("t".to_owned(), old);
    in_session(
        &mut network,
        &mut consumer,
        &asked,
        4,
        &[error(0, ErrorCode::NOT_LEADER_OR_FOLLOWER)],
    );
    network.new_ids.insert("t".to_owned(), Uuid([5; 16]));
    network.pass_slowly(&mut consumer, 300 * MS, 10 * MS);
    assert_eq!(events(&mut consumer), []);
}

#[test]
fn under_a_new_leader_the_position_is_held_against_its_log() {
    for (answer, expected) in [
        // The log reaches as far, or goes on.
        ((0, 5), vec![(0, 5)]),
        ((0, 70), vec![(0, 5)]),
        // It was cut.
        ((0, 3), vec![(0, 3)]),
    ] {
        let mut network = Network::new().with_topic("t", 1);
        let mut consumer = consumer(&["retry.backoff.ms=50"], 1, StartAt::Offset(0));
        network.pass(&mut consumer, MS);
        let asked = network.take(ApiKey::FETCH);
        fetched(
            &mut network,
            &mut consumer,
            &asked,
            0,
            &[records(0, 5, &[of_epoch(0, batch(0, 5))])],
        );
        assert_eq!(deliver(&mut network, &mut consumer), [(0, 0, 0, 5)]);
        let asked = network.take(ApiKey::FETCH);
        network.topics.insert("t".to_owned(), vec![(2, 3)]);
        fetched(
            &mut network,
            &mut consumer,
            &asked,
            0,
            &[error(0, ErrorCode::NOT_LEADER_OR_FOLLOWER)],
        );
        network.pass_slowly(&mut consumer, 200 * MS, 10 * MS);
        assert_eq!(network.waiting(), [ApiKey::OFFSET_FOR_LEADER_EPOCH]);
        let asked = network.take(ApiKey::OFFSET_FOR_LEADER_EPOCH);
        assert_eq!((asked.broker, epochs(&asked)), (2, (3, 0)));
        // Refusals are asked again.
        epoch_ends(
            &mut network,
            &mut consumer,
            &asked,
            ErrorCode::NOT_LEADER_OR_FOLLOWER,
            (-1, -1),
        );
        network.pass_slowly(&mut consumer, 300 * MS, 10 * MS);
        let asked = network.take(ApiKey::OFFSET_FOR_LEADER_EPOCH);
        epoch_ends(&mut network, &mut consumer, &asked, ErrorCode::NONE, answer);
        let asked = network.take(ApiKey::FETCH);
        assert_eq!((asked.broker, wanted(&asked)), (2, expected.clone()));
        let told = events(&mut consumer);
        match expected[..] {
            [(0, 3)] => assert!(
                matches!(
                    told[..],
                    [ConsumerEvent::Truncated {
                        partition: 0,
                        from: 5,
                        to: 3,
                        ..
                    }]
                ),
                "{told:?}"
            ),
            _ => assert_eq!(told, []),
        }
    }
}

#[test]
fn what_was_fetched_of_a_log_that_is_cut_is_not_delivered() {
    let mut network = Network::new().with_topic("t", 1);
    let mut consumer = consumer(&["retry.backoff.ms=50"], 1, StartAt::Offset(0));
    network.pass(&mut consumer, MS);
    let asked = network.take(ApiKey::FETCH);
    consumer.pause();
    fetched(
        &mut network,
        &mut consumer,
        &asked,
        0,
        &[records(0, 5, &[of_epoch(0, batch(0, 5))])],
    );
    network.topics.insert("t".to_owned(), vec![(2, 1)]);
    consumer.resume();
    network.pass(&mut consumer, MS);
    let asked = network.take(ApiKey::FETCH);
    fetched(
        &mut network,
        &mut consumer,
        &asked,
        0,
        &[error(0, ErrorCode::NOT_LEADER_OR_FOLLOWER)],
    );
    network.pass_slowly(&mut consumer, 200 * MS, 10 * MS);
    let asked = network.take(ApiKey::OFFSET_FOR_LEADER_EPOCH);
    epoch_ends(&mut network, &mut consumer, &asked, ErrorCode::NONE, (0, 3));
    assert_eq!(deliver(&mut network, &mut consumer), []);
    assert_eq!(wanted(&network.take(ApiKey::FETCH)), [(0, 0)]);
    assert_eq!(events(&mut consumer), []);
}

#[test]
fn brokers_that_do_not_tell_consumers_of_epochs_are_believed() {
    let mut network = Network::new().with_topic("t", 1);
    network.newest.insert(ApiKey::OFFSET_FOR_LEADER_EPOCH, 2);
    let mut consumer = consumer(&["retry.backoff.ms=50"], 1, StartAt::Offset(0));
    network.pass(&mut consumer, MS);
    let asked = network.take(ApiKey::FETCH);
    fetched(
        &mut network,
        &mut consumer,
        &asked,
        0,
        &[records(0, 5, &[of_epoch(0, batch(0, 5))])],
    );
    let asked = network.take(ApiKey::FETCH);
    network.topics.insert("t".to_owned(), vec![(2, 1)]);
    fetched(
        &mut network,
        &mut consumer,
        &asked,
        0,
        &[error(0, ErrorCode::NOT_LEADER_OR_FOLLOWER)],
    );
    network.pass_slowly(&mut consumer, 200 * MS, 10 * MS);
    let asked = network.take(ApiKey::FETCH);
    assert_eq!((asked.broker, wanted(&asked)), (2, vec![(0, 5)]));
}
