//! The classic group protocol, request by request.

use crate::network::{Asked, MS, Network, config};
use client::group::{Commit, Group, GroupEvent};
use wire::codec::Request;
use wire::consumer_protocol::{
    self, ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartition,
};
use wire::messages::heartbeat::{HeartbeatRequest, HeartbeatResponse};
use wire::messages::join_group::{JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember};
use wire::messages::leave_group::{LeaveGroupRequest, LeaveGroupResponse};
use wire::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitResponse, OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use wire::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchResponse, OffsetFetchResponseGroup, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
};
use wire::messages::sync_group::{SyncGroupRequest, SyncGroupResponse};
use wire::{ApiKey, ErrorCode};

fn group(properties: &[&str]) -> Group {
    Group::new("g", &config(properties), vec!["t".to_owned()], 7)
}

fn member(id: &str, topics: &[&str]) -> JoinGroupResponseMember {
    let subscription = ConsumerProtocolSubscription {
        topics: topics.iter().map(|&topic| topic.to_owned()).collect(),
        ..Default::default()
    };
    let metadata = consumer_protocol::encode(1, &subscription);
    JoinGroupResponseMember {
        member_id: id.to_owned(),
        group_instance_id: None,
        metadata,
    }
}

fn joined(
    member_id: &str,
    leader: &str,
    generation: i32,
    members: Vec<JoinGroupResponseMember>,
) -> JoinGroupResponse {
    JoinGroupResponse {
        generation_id: generation,
        protocol_type: Some("consumer".to_owned()),
        protocol_name: Some("range".to_owned()),
        leader: leader.to_owned(),
        member_id: member_id.to_owned(),
        members,
        ..Default::default()
    }
}

fn assigned(topic: &str, partitions: &[i32]) -> SyncGroupResponse {
    let assignment = ConsumerProtocolAssignment {
        assigned_partitions: vec![TopicPartition {
            topic: topic.to_owned(),
            partitions: partitions.to_vec(),
        }],
        user_data: None,
    };
    SyncGroupResponse {
        assignment: consumer_protocol::encode(1, &assignment),
        ..Default::default()
    }
}

fn events(group: &mut Group) -> Vec<GroupEvent> {
    std::iter::from_fn(|| group.next_event()).collect()
}

fn committed(asked: &Asked, error_code: ErrorCode) -> OffsetCommitResponse {
    let request: OffsetCommitRequest = asked.read();
    let topics = request
        .topics
        .into_iter()
        .map(|topic| OffsetCommitResponseTopic {
            name: topic.name,
            partitions: topic
                .partitions
                .into_iter()
                .map(|partition| OffsetCommitResponsePartition {
                    partition_index: partition.partition_index,
                    error_code,
                })
                .collect(),
        })
        .collect();
    OffsetCommitResponse {
        topics,
        ..Default::default()
    }
}

fn commit(partition: i32, offset: i64) -> Commit {
    (("t".to_owned(), partition), offset)
}

/// Brings a group to where it is a follower with partition 0 of `t` in generation 5.
fn stable(network: &mut Network, group: &mut Group) {
    network.pass(group, MS);
    let asked = network.take(ApiKey::JOIN_GROUP);
    network.answer::<JoinGroupRequest>(group, &asked, &joined("me", "other", 5, Vec::new()));
    let asked = network.take(ApiKey::SYNC_GROUP);
    network.answer::<SyncGroupRequest>(group, &asked, &assigned("t", &[0]));
    let expected = GroupEvent::Assigned {
        generation: 5,
        partitions: vec![("t".to_owned(), 0)],
        keeps: false,
    };
    assert_eq!(events(group), [expected]);
}

/// Waits for the next heartbeat and answers it.
fn heartbeat(network: &mut Network, group: &mut Group, error_code: ErrorCode) {
    network.pass(group, 3000 * MS);
    let asked = network.take(ApiKey::HEARTBEAT);
    network.answer::<HeartbeatRequest>(
        group,
        &asked,
        &HeartbeatResponse {
            error_code,
            ..Default::default()
        },
    );
}

#[test]
fn the_id_that_the_coordinator_gives_is_joined_with_at_once() {
    let mut network = Network::new().with_topic("t", 6);
    network.coordinator = 2;
    let mut group = group(&[]);
    network.pass(&mut group, MS);
    let asked = network.take(ApiKey::JOIN_GROUP);
    assert_eq!(asked.broker, 2);
    let request: JoinGroupRequest = asked.read();
    assert_eq!(
        (request.member_id.as_str(), request.protocol_type.as_str()),
        ("", "consumer")
    );
    assert_eq!(
        (request.session_timeout_ms, request.rebalance_timeout_ms),
        (45_000, 300_000)
    );
    assert_eq!(request.protocols[0].name, "range");
    let required = JoinGroupResponse {
        error_code: ErrorCode::MEMBER_ID_REQUIRED,
        member_id: "me".to_owned(),
        ..Default::default()
    };
    network.answer::<JoinGroupRequest>(&mut group, &asked, &required);
    let request: JoinGroupRequest = network.take(ApiKey::JOIN_GROUP).read();
    assert_eq!(request.member_id, "me");
}

#[test]
fn a_leader_assigns_the_topics_of_all_members_by_ranges() {
    let mut network = Network::new().with_topic("t", 7).with_topic("theirs", 2);
    let mut group = group(&[]);
    network.pass(&mut group, MS);
    let asked = network.take(ApiKey::JOIN_GROUP);
    // It does not subscribe to "theirs", and has to ask for its partitions before it can assign them.
    let members = vec![
        member("zoe", &["t", "theirs"]),
        member("me", &["t"]),
        member("amy", &["t"]),
    ];
    network.answer::<JoinGroupRequest>(&mut group, &asked, &joined("me", "me", 3, members));
    network.pass(&mut group, 200 * MS);
    let asked = network.take(ApiKey::SYNC_GROUP);
    let request: SyncGroupRequest = asked.read();
    assert_eq!((request.generation_id, request.member_id.as_str()), (3, "me"));
    let assignments: Vec<String> = request
        .assignments
        .iter()
        .map(|member| {
            let assignment: ConsumerProtocolAssignment =
                consumer_protocol::decode(&member.assignment).expect("an assignment");
            let topics: Vec<String> = assignment
                .assigned_partitions
                .iter()
                .map(|topic| format!("{}{:?}", topic.topic, topic.partitions))
                .collect();
            format!("{} {}", member.member_id, topics.join(" "))
        })
        .collect();
    assert_eq!(
        assignments,
        ["amy t[0, 1, 2]", "me t[3, 4]", "zoe t[5, 6] theirs[0, 1]"]
    );
}

#[test]
fn heartbeats_go_at_their_interval_and_one_at_a_time() {
    let mut network = Network::new().with_topic("t", 1);
    let mut group = group(&["heartbeat.interval.ms=1000"]);
    stable(&mut network, &mut group);
    network.pass(&mut group, 999 * MS);
    assert_eq!(network.waiting(), []);
    network.pass(&mut group, MS);
    let asked = network.take(ApiKey::HEARTBEAT);
    let request: HeartbeatRequest = asked.read();
    assert_eq!((request.generation_id, request.member_id.as_str()), (5, "me"));
    network.pass(&mut group, 5000 * MS);
    assert_eq!(network.waiting(), []);
    network.answer::<HeartbeatRequest>(&mut group, &asked, &HeartbeatResponse::default());
    assert_eq!(network.waiting(), [ApiKey::HEARTBEAT]);
}

#[test]
fn a_coordinator_that_holds_back_is_asked_nothing_at_all_until_then() {
    let mut network = Network::new().with_topic("t", 1);
    let mut group = group(&["heartbeat.interval.ms=1000"]);
    stable(&mut network, &mut group);
    network.pass(&mut group, 1000 * MS);
    let asked = network.take(ApiKey::HEARTBEAT);
    let held_back = HeartbeatResponse {
        throttle_time_ms: 2500,
        ..Default::default()
    };
    network.answer::<HeartbeatRequest>(&mut group, &asked, &held_back);
    group.commit(vec![commit(0, 7)]);
    network.pass_slowly(&mut group, 2499 * MS, MS);
    assert_eq!(network.waiting(), []);
    network.pass(&mut group, MS);
    let mut waiting = network.waiting();
    waiting.sort_unstable();
    assert_eq!(waiting, [ApiKey::OFFSET_COMMIT, ApiKey::HEARTBEAT]);
}

#[test]
fn what_was_read_is_committed_before_the_member_joins_again() {
    let mut network = Network::new().with_topic("t", 1);
    let mut group = group(&[]);
    stable(&mut network, &mut group);
    heartbeat(&mut network, &mut group, ErrorCode::REBALANCE_IN_PROGRESS);
    assert_eq!(
        events(&mut group),
        [GroupEvent::RebalanceStarted { keeps: false }]
    );
    // Nothing happens until the user has given up its partitions.
    network.pass(&mut group, 100 * MS);
    assert_eq!(network.waiting(), []);
    group.commit(vec![commit(0, 42)]);
    group.rejoin(network.now_ns);
    network.pass(&mut group, 0);
    assert_eq!(network.waiting(), [ApiKey::OFFSET_COMMIT, ApiKey::JOIN_GROUP]);
    let asked = network.take(ApiKey::OFFSET_COMMIT);
    let request: OffsetCommitRequest = asked.read();
    assert_eq!(
        (request.generation_id_or_member_epoch, request.member_id.as_str()),
        (5, "me")
    );
    assert_eq!(request.topics[0].partitions[0].committed_offset, 42);
    let response = committed(&asked, ErrorCode::NONE);
    network.answer::<OffsetCommitRequest>(&mut group, &asked, &response);
    let expected = GroupEvent::Committed {
        commits: vec![commit(0, 42)],
        result: Ok(()),
    };
    assert_eq!(events(&mut group), [expected]);
    let request: JoinGroupRequest = network.take(ApiKey::JOIN_GROUP).read();
    assert_eq!(request.member_id, "me");
}

#[test]
fn a_member_that_is_not_known_any_more_joins_as_a_new_one() {
    for (error, member_id) in [
        (ErrorCode::UNKNOWN_MEMBER_ID, ""),
        (ErrorCode::ILLEGAL_GENERATION, "me"),
    ] {
        let mut network = Network::new().with_topic("t", 1);
        let mut group = group(&[]);
        stable(&mut network, &mut group);
        heartbeat(&mut network, &mut group, error);
        assert_eq!(events(&mut group), [GroupEvent::Lost { error }]);
        let request: JoinGroupRequest = network.take(ApiKey::JOIN_GROUP).read();
        assert_eq!(request.member_id, member_id);
    }
}

#[test]
fn a_coordinator_that_has_moved_is_sought_again_and_membership_goes_on() {
    let mut network = Network::new().with_topic("t", 1);
    let mut group = group(&[]);
    stable(&mut network, &mut group);
    assert_eq!(network.coordinator_asked, 1);
    network.coordinator = 3;
    heartbeat(&mut network, &mut group, ErrorCode::NOT_COORDINATOR);
    network.pass_slowly(&mut group, 200 * MS, 10 * MS);
    assert_eq!(network.coordinator_asked, 2);
    let asked = network.take(ApiKey::HEARTBEAT);
    assert_eq!(asked.broker, 3);
    assert_eq!(events(&mut group), []);
    assert!(group.is_stable());
}

#[test]
fn a_coordinator_that_is_not_there_yet_is_asked_for_until_it_is() {
    let mut network = Network::new().with_topic("t", 1);
    network.coordinator_error = ErrorCode::COORDINATOR_NOT_AVAILABLE;
    let mut group = group(&["retry.backoff.ms=100"]);
    network.pass_slowly(&mut group, 1000 * MS, 10 * MS);
    assert!(
        (8..=11).contains(&network.coordinator_asked),
        "asked {} times in a second",
        network.coordinator_asked
    );
    network.coordinator_error = ErrorCode::NONE;
    network.pass_slowly(&mut group, 200 * MS, 10 * MS);
    network.take(ApiKey::JOIN_GROUP);
}

#[test]
fn a_coordinator_that_hangs_up_is_connected_to_again() {
    let mut network = Network::new().with_topic("t", 1);
    let mut group = group(&[]);
    stable(&mut network, &mut group);
    network.pass(&mut group, 3000 * MS);
    let conn = network.take(ApiKey::HEARTBEAT).conn;
    network.close(&mut group, conn);
    network.pass_slowly(&mut group, 500 * MS, 10 * MS);
    let asked = network.take(ApiKey::HEARTBEAT);
    assert_ne!(asked.conn, conn);
    assert!(group.is_stable());
}

#[test]
fn a_join_may_wait_for_the_whole_rebalance() {
    let mut network = Network::new().with_topic("t", 1);
    let mut group = group(&["max.poll.interval.ms=60000", "request.timeout.ms=10000"]);
    network.pass(&mut group, MS);
    let asked = network.take(ApiKey::JOIN_GROUP);
    network.pass_slowly(&mut group, 64_000 * MS, 1000 * MS);
    network.answer::<JoinGroupRequest>(&mut group, &asked, &joined("me", "other", 1, Vec::new()));
    network.take(ApiKey::SYNC_GROUP);
}

#[test]
fn a_join_that_takes_longer_than_the_rebalance_may_is_begun_anew() {
    let mut network = Network::new().with_topic("t", 1);
    let mut group = group(&["max.poll.interval.ms=60000", "request.timeout.ms=10000"]);
    network.pass(&mut group, MS);
    let first = network.take(ApiKey::JOIN_GROUP);
    network.pass_slowly(&mut group, 66_000 * MS, 100 * MS);
    assert_ne!(network.take(ApiKey::JOIN_GROUP).conn, first.conn);
}

#[test]
fn a_session_that_has_run_out_sends_the_member_to_look_for_the_coordinator() {
    let mut network = Network::new().with_topic("t", 1);
    let mut group = group(&[
        "session.timeout.ms=6000",
        "heartbeat.interval.ms=1000",
        "request.timeout.ms=30000",
    ]);
    stable(&mut network, &mut group);
    network.pass_slowly(&mut group, 5900 * MS, 100 * MS);
    assert_eq!(network.coordinator_asked, 1);
    let stuck = network.take(ApiKey::HEARTBEAT);
    network.pass_slowly(&mut group, 500 * MS, 10 * MS);
    assert!(network.coordinator_asked >= 2);
    assert_ne!(network.take(ApiKey::HEARTBEAT).conn, stuck.conn);
}

#[test]
fn leaving_commits_first_and_then_says_so() {
    let mut network = Network::new().with_topic("t", 1);
    let mut group = group(&[]);
    stable(&mut network, &mut group);
    group.commit(vec![commit(0, 9)]);
    let now_ns = network.now_ns;
    group.leave(now_ns, now_ns + 5000 * MS);
    network.pass(&mut group, 0);
    assert_eq!(network.waiting(), [ApiKey::OFFSET_COMMIT]);
    let asked = network.take(ApiKey::OFFSET_COMMIT);
    let response = committed(&asked, ErrorCode::NONE);
    network.answer::<OffsetCommitRequest>(&mut group, &asked, &response);
    let asked = network.take(ApiKey::LEAVE_GROUP);
    let request: LeaveGroupRequest = asked.read();
    assert_eq!(request.members[0].member_id, "me");
    assert!(!group.is_gone());
    network.answer::<LeaveGroupRequest>(&mut group, &asked, &LeaveGroupResponse::default());
    assert!(group.is_gone());
    assert_eq!(events(&mut group).last(), Some(&GroupEvent::Left));
}

#[test]
fn leaving_while_a_join_waits_takes_another_connection() {
    let mut network = Network::new().with_topic("t", 1);
    let mut group = group(&[]);
    network.pass(&mut group, MS);
    let asked = network.take(ApiKey::JOIN_GROUP);
    let required = JoinGroupResponse {
        error_code: ErrorCode::MEMBER_ID_REQUIRED,
        member_id: "me".to_owned(),
        ..Default::default()
    };
    network.answer::<JoinGroupRequest>(&mut group, &asked, &required);
    let parked = network.take(ApiKey::JOIN_GROUP);
    let now_ns = network.now_ns;
    group.leave(now_ns, now_ns + 5000 * MS);
    network.pass_slowly(&mut group, 1000 * MS, 10 * MS);
    let asked = network.take(ApiKey::LEAVE_GROUP);
    assert_ne!(asked.conn, parked.conn);
    let request: LeaveGroupRequest = asked.read();
    assert_eq!(request.members[0].member_id, "me");
}

#[test]
fn leaving_is_given_up_in_time() {
    let mut network = Network::new().with_topic("t", 1);
    let mut group = group(&[]);
    stable(&mut network, &mut group);
    let now_ns = network.now_ns;
    group.leave(now_ns, now_ns + 1000 * MS);
    network.pass_slowly(&mut group, 900 * MS, 100 * MS);
    assert!(!group.is_gone());
    network.pass_slowly(&mut group, 200 * MS, 100 * MS);
    assert_eq!(events(&mut group), [GroupEvent::Left]);
}

#[test]
fn old_coordinators_are_spoken_to_in_their_own_versions() {
    let mut network = Network::new().with_topic("t", 1);
    let versions = [
        (ApiKey::FIND_COORDINATOR, 2),
        (ApiKey::JOIN_GROUP, 3),
        (ApiKey::SYNC_GROUP, 2),
        (ApiKey::HEARTBEAT, 2),
        (ApiKey::LEAVE_GROUP, 2),
        (ApiKey::OFFSET_COMMIT, 6),
        (ApiKey::METADATA, 7),
    ];
    network.newest.extend(versions);
    let mut group = group(&[]);
    stable(&mut network, &mut group);
    heartbeat(&mut network, &mut group, ErrorCode::NONE);
    let now_ns = network.now_ns;
    group.leave(now_ns, now_ns + 1000 * MS);
    network.pass(&mut group, 0);
    let asked = network.take(ApiKey::LEAVE_GROUP);
    assert_eq!(asked.version, 2);
    assert_eq!(asked.read::<LeaveGroupRequest>().member_id, "me");
}

#[test]
fn a_commit_that_can_be_repeated_is_and_another_fails_with_its_reason() {
    let mut network = Network::new().with_topic("t", 1);
    let mut group = group(&[]);
    stable(&mut network, &mut group);
    group.commit(vec![commit(0, 1)]);
    network.pass(&mut group, 0);
    let asked = network.take(ApiKey::OFFSET_COMMIT);
    let response = committed(&asked, ErrorCode::COORDINATOR_LOAD_IN_PROGRESS);
    network.answer::<OffsetCommitRequest>(&mut group, &asked, &response);
    assert_eq!(events(&mut group), []);
    // A newer one takes the place of the one that is to be repeated.
    group.commit(vec![commit(0, 2)]);
    network.pass(&mut group, 200 * MS);
    let asked = network.take(ApiKey::OFFSET_COMMIT);
    assert_eq!(
        asked.read::<OffsetCommitRequest>().topics[0].partitions[0].committed_offset,
        2
    );
    let response = committed(&asked, ErrorCode::TOPIC_AUTHORIZATION_FAILED);
    network.answer::<OffsetCommitRequest>(&mut group, &asked, &response);
    let reason = "t: TOPIC_AUTHORIZATION_FAILED: The principal may not do this to the topic. (needed: Read on Topic \"t\")";
    let expected = GroupEvent::Committed {
        commits: vec![commit(0, 2)],
        result: Err(reason.to_owned()),
    };
    assert_eq!(events(&mut group), [expected]);
}

#[test]
fn a_commit_that_meets_a_rebalance_starts_it() {
    let mut network = Network::new().with_topic("t", 1);
    let mut group = group(&[]);
    stable(&mut network, &mut group);
    group.commit(vec![commit(0, 1)]);
    network.pass(&mut group, 0);
    let asked = network.take(ApiKey::OFFSET_COMMIT);
    let response = committed(&asked, ErrorCode::REBALANCE_IN_PROGRESS);
    network.answer::<OffsetCommitRequest>(&mut group, &asked, &response);
    let events = events(&mut group);
    assert!(
        matches!(
            events[..],
            [
                GroupEvent::Committed { result: Err(_), .. },
                GroupEvent::RebalanceStarted { .. }
            ]
        ),
        "{events:?}"
    );
}

#[test]
fn a_refused_member_says_what_it_needs() {
    let cases = [
        (
            ErrorCode::GROUP_AUTHORIZATION_FAILED,
            "(needed: Read on Group \"g\")",
        ),
        (ErrorCode::INVALID_SESSION_TIMEOUT, "group.min.session.timeout.ms"),
        (
            ErrorCode::INCONSISTENT_GROUP_PROTOCOL,
            "partition.assignment.strategy",
        ),
        (ErrorCode::GROUP_MAX_SIZE_REACHED, "group.max.size"),
        (ErrorCode::FENCED_INSTANCE_ID, "group.instance.id"),
        (ErrorCode::INVALID_GROUP_ID, "INVALID_GROUP_ID"),
    ];
    for (error_code, hint) in cases {
        let mut network = Network::new().with_topic("t", 1);
        let mut group = group(&[]);
        network.pass(&mut group, MS);
        let asked = network.take(ApiKey::JOIN_GROUP);
        let response = JoinGroupResponse {
            error_code,
            ..Default::default()
        };
        network.answer::<JoinGroupRequest>(&mut group, &asked, &response);
        let events = events(&mut group);
        let [GroupEvent::Failed { reason }] = &events[..] else {
            panic!("{events:?}")
        };
        assert!(
            reason.starts_with("group g: ") && reason.contains(hint),
            "{reason}"
        );
    }
    let mut network = Network::new().with_topic("t", 1);
    network.coordinator_error = ErrorCode::GROUP_AUTHORIZATION_FAILED;
    let mut group = group(&[]);
    network.pass(&mut group, MS);
    let events = events(&mut group);
    assert!(
        matches!(&events[..], [GroupEvent::Failed { reason }] if reason.contains("Read on Group")),
        "{events:?}"
    );
}

#[test]
fn committed_offsets_are_read_in_both_forms_and_again_while_they_are_unstable() {
    for newest in [5, 9] {
        let mut network = Network::new().with_topic("t", 2);
        network.newest.insert(ApiKey::OFFSET_FETCH, newest);
        // No topics: it joins nothing.
        let mut group = Group::new("g", &config(&[]), Vec::new(), 7);
        network.pass(&mut group, MS);
        assert_eq!(network.coordinator_asked, 0);
        group.fetch_offsets(vec![("t".to_owned(), 0), ("t".to_owned(), 1)]);
        network.pass(&mut group, MS);
        let asked = network.take(ApiKey::OFFSET_FETCH);
        network.answer::<OffsetFetchRequest>(
            &mut group,
            &asked,
            &offsets(&asked, &[7, -1], ErrorCode::UNSTABLE_OFFSET_COMMIT),
        );
        assert_eq!(events(&mut group), []);
        network.pass(&mut group, 200 * MS);
        let asked = network.take(ApiKey::OFFSET_FETCH);
        network.answer::<OffsetFetchRequest>(&mut group, &asked, &offsets(&asked, &[7, -1], ErrorCode::NONE));
        let expected = vec![(("t".to_owned(), 0), Some(7)), (("t".to_owned(), 1), None)];
        assert_eq!(events(&mut group), [GroupEvent::Offsets(expected)]);
    }
}

fn offsets(asked: &Asked, offsets: &[i64], error_code: ErrorCode) -> OffsetFetchResponse {
    use wire::messages::offset_fetch::{OffsetFetchResponsePartition, OffsetFetchResponseTopic};
    assert_eq!(asked.key, OffsetFetchRequest::KEY);
    let numbered = || offsets.iter().copied().zip(0..);
    if asked.version < 8 {
        let partitions = numbered()
            .map(
                |(committed_offset, partition_index)| OffsetFetchResponsePartition {
                    partition_index,
                    committed_offset,
                    error_code,
                    ..Default::default()
                },
            )
            .collect();
        let topics = vec![OffsetFetchResponseTopic {
            name: "t".to_owned(),
            partitions,
        }];
        return OffsetFetchResponse {
            topics,
            ..Default::default()
        };
    }
    let partitions = numbered()
        .map(
            |(committed_offset, partition_index)| OffsetFetchResponsePartitions {
                partition_index,
                committed_offset,
                error_code,
                ..Default::default()
            },
        )
        .collect();
    let group = OffsetFetchResponseGroup {
        group_id: "g".to_owned(),
        topics: vec![OffsetFetchResponseTopics {
            name: "t".to_owned(),
            partitions,
        }],
        error_code: ErrorCode::NONE,
    };
    OffsetFetchResponse {
        groups: vec![group],
        ..Default::default()
    }
}

/// What the member says of itself for each strategy that it offers.
fn offered(asked: &Asked) -> Vec<(String, ConsumerProtocolSubscription)> {
    let request: JoinGroupRequest = asked.read();
    let protocols = request.protocols.into_iter();
    protocols
        .map(|protocol| {
            let subscription = consumer_protocol::decode(&protocol.metadata).expect("a subscription");
            (protocol.name, subscription)
        })
        .collect()
}

#[test]
fn strategies_are_offered_in_their_order() {
    let mut network = Network::new().with_topic("t", 1);
    let mut by_default = group(&[]);
    network.pass(&mut by_default, MS);
    let names = |asked: &Asked| {
        let offered = offered(asked).into_iter();
        offered.map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert_eq!(
        names(&network.take(ApiKey::JOIN_GROUP)),
        ["range", "cooperative-sticky"]
    );
    let mut network = Network::new().with_topic("t", 1);
    let strategy =
        "partition.assignment.strategy=org.apache.kafka.clients.consumer.StickyAssignor,roundrobin";
    let mut group = group(&[strategy]);
    network.pass(&mut group, MS);
    assert_eq!(names(&network.take(ApiKey::JOIN_GROUP)), ["sticky", "roundrobin"]);
}

#[test]
fn a_cooperative_member_keeps_its_partitions_and_joins_again_for_what_it_loses() {
    let mut network = Network::new().with_topic("t", 3);
    let mut group = group(&["partition.assignment.strategy=cooperative-sticky"]);
    network.pass(&mut group, MS);
    let join = |network: &mut Network, group: &mut Group, generation: i32| {
        let asked = network.take(ApiKey::JOIN_GROUP);
        let response = JoinGroupResponse {
            protocol_name: Some("cooperative-sticky".to_owned()),
            ..joined("me", "other", generation, Vec::new())
        };
        network.answer::<JoinGroupRequest>(group, &asked, &response);
        offered(&asked).pop().expect("one strategy").1
    };
    let told = join(&mut network, &mut group, 5);
    assert_eq!((told.owned_partitions.len(), told.generation_id), (0, -1));
    let asked = network.take(ApiKey::SYNC_GROUP);
    network.answer::<SyncGroupRequest>(&mut group, &asked, &assigned("t", &[0, 1]));
    let assigned_to = |generation: i32, indexes: &[i32]| GroupEvent::Assigned {
        generation,
        partitions: indexes.iter().map(|index| ("t".to_owned(), *index)).collect(),
        keeps: true,
    };
    assert_eq!(events(&mut group), [assigned_to(5, &[0, 1])]);
    group.rejoin(network.now_ns);
    assert!(group.is_stable(), "it loses nothing");

    heartbeat(&mut network, &mut group, ErrorCode::REBALANCE_IN_PROGRESS);
    assert_eq!(events(&mut group), [GroupEvent::RebalanceStarted { keeps: true }]);
    group.rejoin(network.now_ns);
    network.pass(&mut group, MS);
    let told = join(&mut network, &mut group, 6);
    assert_eq!(told.owned_partitions[0].partitions, [0, 1]);
    assert_eq!(told.generation_id, 5);
    let asked = network.take(ApiKey::SYNC_GROUP);
    network.answer::<SyncGroupRequest>(&mut group, &asked, &assigned("t", &[1]));
    assert_eq!(events(&mut group), [assigned_to(6, &[1])]);
    // Once the user has given up what it lost, and what was read of it is committed, it joins again.
    group.commit(vec![commit(0, 9)]);
    group.rejoin(network.now_ns);
    network.pass(&mut group, MS);
    assert_eq!(network.waiting(), [ApiKey::OFFSET_COMMIT, ApiKey::JOIN_GROUP]);
    network.take(ApiKey::OFFSET_COMMIT);
    let told = join(&mut network, &mut group, 7);
    assert_eq!(
        (told.owned_partitions[0].partitions.as_slice(), told.generation_id),
        (&[1][..], 6)
    );
}

mod newer_protocol {
    use super::*;
    use wire::Uuid;
    use wire::messages::consumer_group_heartbeat::{
        Assignment, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, TopicPartitions,
    };

    const PROPERTIES: &[&str] = &["group.protocol=consumer", "group.remote.assignor=uniform"];

    fn beat(
        network: &mut Network,
        group: &mut Group,
        response: ConsumerGroupHeartbeatResponse,
    ) -> ConsumerGroupHeartbeatRequest {
        let asked = network.take(ApiKey::CONSUMER_GROUP_HEARTBEAT);
        network.answer::<ConsumerGroupHeartbeatRequest>(group, &asked, &response);
        asked.read()
    }

    fn given(member_epoch: i32, indexes: Option<&[i32]>) -> ConsumerGroupHeartbeatResponse {
        ConsumerGroupHeartbeatResponse {
            member_epoch,
            heartbeat_interval_ms: 5000,
            assignment: indexes.map(|indexes| Assignment {
                topic_partitions: vec![TopicPartitions {
                    topic_id: network_id(),
                    partitions: indexes.to_vec(),
                }],
            }),
            ..Default::default()
        }
    }

    fn network_id() -> Uuid {
        Network::topic_id("t")
    }

    fn failed(error_code: ErrorCode) -> ConsumerGroupHeartbeatResponse {
        ConsumerGroupHeartbeatResponse {
            error_code,
            ..Default::default()
        }
    }

    /// A member in epoch 3 that owns partitions 0 and 1.
    fn settled(network: &mut Network) -> Group {
        let mut group = group(PROPERTIES);
        network.pass(&mut group, MS);
        let join = beat(network, &mut group, given(3, Some(&[0, 1])));
        assert_eq!((join.member_epoch, join.member_id.len()), (0, 22));
        assert_eq!(join.subscribed_topic_names, Some(vec!["t".to_owned()]));
        assert_eq!(join.server_assignor.as_deref(), Some("uniform"));
        assert_eq!(join.topic_partitions, Some(vec![]));
        assert_eq!(join.rebalance_timeout_ms, 300_000);
        network.pass(&mut group, 0);
        assert_eq!(events(&mut group), [assigned_to(3, &[0, 1])]);
        group.rejoin(network.now_ns);
        network.pass(&mut group, 0);
        let owns = beat(network, &mut group, given(3, None));
        assert_eq!(owns.member_epoch, 3);
        assert_eq!(owns.topic_partitions.expect("told")[0].partitions, [0, 1]);
        assert_eq!(owns.subscribed_topic_names, None, "that has not changed");
        group
    }

    fn assigned_to(generation: i32, indexes: &[i32]) -> GroupEvent {
        GroupEvent::Assigned {
            generation,
            partitions: indexes.iter().map(|index| ("t".to_owned(), *index)).collect(),
            keeps: true,
        }
    }

    #[test]
    fn what_is_lost_is_given_up_and_told_at_once() {
        let mut network = Network::new().with_topic("t", 2);
        let mut group = settled(&mut network);
        network.pass(&mut group, 4999 * MS);
        assert_eq!(network.waiting(), []);
        network.pass(&mut group, MS);
        let plain = beat(&mut network, &mut group, given(3, Some(&[0])));
        assert_eq!(plain.topic_partitions, None, "that has not changed");
        network.pass(&mut group, 0);
        assert_eq!(events(&mut group), [assigned_to(3, &[0])]);
        group.commit(vec![commit(1, 7)]);
        group.rejoin(network.now_ns);
        network.pass(&mut group, 0);
        assert_eq!(
            network.waiting(),
            [ApiKey::OFFSET_COMMIT, ApiKey::CONSUMER_GROUP_HEARTBEAT],
            "the commit goes first"
        );
        let asked = network.take(ApiKey::OFFSET_COMMIT);
        let request: OffsetCommitRequest = asked.read();
        assert_eq!(
            (asked.version >= 9, request.generation_id_or_member_epoch),
            (true, 3)
        );
        let response = committed(&asked, ErrorCode::NONE);
        network.answer::<OffsetCommitRequest>(&mut group, &asked, &response);
        // What is committed before the heartbeat is answered still names the old epoch, and is made again in the new one.
        group.commit(vec![commit(0, 3)]);
        network.pass(&mut group, 0);
        let owns = beat(&mut network, &mut group, given(4, None));
        assert_eq!(owns.topic_partitions.expect("told")[0].partitions, [0]);
        assert_eq!(group.generation(), 4);
        let asked = network.take(ApiKey::OFFSET_COMMIT);
        let response = committed(&asked, ErrorCode::STALE_MEMBER_EPOCH);
        network.answer::<OffsetCommitRequest>(&mut group, &asked, &response);
        network.pass(&mut group, MS);
        let again: OffsetCommitRequest = network.take(ApiKey::OFFSET_COMMIT).read();
        assert_eq!(again.generation_id_or_member_epoch, 4);
    }

    #[test]
    fn a_fenced_member_loses_all_and_joins_again_under_its_id() {
        let mut network = Network::new().with_topic("t", 2);
        let mut group = settled(&mut network);
        let id = group.member_id().to_owned();
        network.pass(&mut group, 5000 * MS);
        beat(&mut network, &mut group, failed(ErrorCode::FENCED_MEMBER_EPOCH));
        assert!(matches!(events(&mut group)[..], [GroupEvent::Lost { .. }]));
        network.pass(&mut group, MS);
        let join = beat(&mut network, &mut group, given(9, Some(&[1])));
        assert_eq!((join.member_epoch, join.member_id), (0, id));
        network.pass(&mut group, 0);
        assert_eq!(events(&mut group), [assigned_to(9, &[1])]);
    }

    #[test]
    fn leaving_is_said_and_brokers_that_are_too_old_are_named() {
        let mut network = Network::new().with_topic("t", 2);
        let mut group = settled(&mut network);
        group.leave(network.now_ns, network.now_ns + 1000 * MS);
        network.pass(&mut group, 0);
        let leaves = beat(&mut network, &mut group, given(-1, None));
        assert_eq!(leaves.member_epoch, -1);
        assert!(group.is_gone());

        let mut network = Network::new().with_topic("t", 1);
        network.lacks.push(ApiKey::CONSUMER_GROUP_HEARTBEAT);
        let mut group = super::group(PROPERTIES);
        network.pass(&mut group, MS);
        let told = events(&mut group);
        assert!(
            matches!(&told[..], [GroupEvent::Failed { reason }] if reason.contains("Kafka 4.0 or newer")),
            "{told:?}"
        );
    }

    #[test]
    fn what_the_coordinator_refuses_is_explained() {
        for (error, words) in [
            (ErrorCode::UNSUPPORTED_ASSIGNOR, "group.consumer.assignors"),
            (ErrorCode::GROUP_ID_NOT_FOUND, "classic protocol"),
            (ErrorCode::GROUP_AUTHORIZATION_FAILED, "READ"),
        ] {
            let mut network = Network::new().with_topic("t", 1);
            let mut group = group(PROPERTIES);
            network.pass(&mut group, MS);
            beat(&mut network, &mut group, failed(error));
            let told = events(&mut group);
            assert!(
                matches!(&told[..], [GroupEvent::Failed { reason }] if reason.to_uppercase().contains(&words.to_uppercase())),
                "{told:?}"
            );
        }
    }
}

/// A leader of a group that has all partitions of `t`, after metadata has come anew: whether it rebalances.
fn rebalances_when(change: impl FnOnce(&mut Network)) -> bool {
    let mut network = Network::new().with_topic("t", 3);
    let mut group = group(&["metadata.max.age.ms=1000"]);
    network.pass(&mut group, MS);
    let asked = network.take(ApiKey::JOIN_GROUP);
    let members = vec![member("me", &["t"])];
    network.answer::<JoinGroupRequest>(&mut group, &asked, &joined("me", "me", 5, members));
    let asked = network.take(ApiKey::SYNC_GROUP);
    network.answer::<SyncGroupRequest>(&mut group, &asked, &assigned("t", &[0, 1, 2]));
    events(&mut group);
    change(&mut network);
    network.pass_slowly(&mut group, 2500 * MS, 50 * MS);
    events(&mut group)
        .iter()
        .any(|event| matches!(event, GroupEvent::RebalanceStarted { .. }))
}

#[test]
fn a_leader_assigns_anew_when_a_topic_has_more_partitions_or_is_another_with_fewer() {
    assert!(!rebalances_when(|_| {}));
    assert!(rebalances_when(|network| {
        network.topics.insert("t".to_owned(), vec![(1, 0); 4]);
    }));
    // Fewer of the same topic: a broker lags.
    assert!(!rebalances_when(|network| {
        network.topics.insert("t".to_owned(), vec![(1, 0); 2]);
    }));
    assert!(rebalances_when(|network| {
        network.topics.insert("t".to_owned(), vec![(1, 0); 2]);
        network.new_ids.insert("t".to_owned(), wire::Uuid([5; 16]));
    }));
}
