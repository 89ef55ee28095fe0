//! Topics, configs, offsets, groups and disks.

use crate::stage::{LIMIT, Stage, admin, brokers, consumer_config, create, produce, topic};
use client::admin::{ConfigResource, ConfigSource, Layout, NewTopic, OffsetAt};
use client::consumer::Subscription;
use std::collections::BTreeMap;
use std::time::Duration;
use wire::ErrorCode;

#[test]
fn the_cluster_describes_itself() {
    let brokers = brokers(3);
    let mut admin = admin(&brokers.bootstrap());
    let cluster = admin.cluster().expect("an answer");
    assert!(cluster.cluster_id.is_some());
    assert_eq!(cluster.brokers.keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
    assert!(
        cluster
            .controller
            .is_some_and(|id| cluster.brokers.contains_key(&id))
    );
    let addresses: Vec<String> = cluster
        .brokers
        .values()
        .map(|broker| broker.address.to_string())
        .collect();
    assert_eq!(addresses.join(","), brokers.bootstrap());
}

#[test]
fn topics_are_created_described_enlarged_and_deleted() {
    let brokers = brokers(3);
    let mut admin = admin(&brokers.bootstrap());
    let assigned = NewTopic {
        name: "assigned".to_owned(),
        layout: Layout::Assigned(vec![vec![3, 1], vec![2, 3]]),
        configs: BTreeMap::from([("retention.ms".to_owned(), "60000".to_owned())]),
    };
    let outcomes = admin
        .create_topics(&[topic("counted", 4, 3), assigned], false)
        .expect("an answer");
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    admin
        .await_leaders(&[("counted".to_owned(), 4), ("assigned".to_owned(), 2)], LIMIT)
        .expect("leaders");
    let names = ["assigned".to_owned(), "counted".to_owned(), "missing".to_owned()];
    let topics = admin.topics(Some(&names)).expect("an answer");
    assert_eq!(topics["missing"].error, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    assert_eq!(topics["counted"].partitions.len(), 4);
    assert!(
        topics["counted"]
            .partitions
            .iter()
            .all(|partition| partition.replicas.len() == 3)
    );
    let replicas: Vec<&[i32]> = topics["assigned"]
        .partitions
        .iter()
        .map(|partition| &*partition.replicas)
        .collect();
    assert_eq!(replicas, [[3, 1], [2, 3]]);
    assert_eq!(topics["assigned"].partitions[0].leader, Some(3));
    assert_eq!(
        admin.topics(None).expect("an answer").keys().collect::<Vec<_>>(),
        ["assigned", "counted"]
    );

    admin.create_partitions("counted", 7).expect("it is enlarged");
    admin
        .await_leaders(&[("counted".to_owned(), 7)], LIMIT)
        .expect("leaders");
    let error = admin
        .create_partitions("counted", 2)
        .expect_err("a topic cannot shrink")
        .to_string();
    assert!(error.starts_with("counted: INVALID_PARTITIONS: "), "{error}");

    let doomed = ["counted".to_owned(), "assigned".to_owned(), "missing".to_owned()];
    let outcomes = admin.delete_topics(&doomed).expect("an answer");
    assert!(outcomes[0].is_ok() && outcomes[1].is_ok());
    assert_eq!(
        outcomes[2].as_ref().map_err(|refusal| refusal.error),
        Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
    );
    admin.await_deleted(&doomed, LIMIT).expect("they are gone");
    assert!(admin.topics(None).expect("an answer").is_empty());
}

#[test]
fn what_cannot_be_created_is_refused_topic_by_topic_in_the_brokers_words() {
    let brokers = brokers(1);
    let mut admin = admin(&brokers.bootstrap());
    create(&mut admin, "there", 1, 1);
    let wanted = [topic("there", 1, 1), topic("wide", 1, 3), topic("good", 1, 1)];
    let outcomes = admin.create_topics(&wanted, false).expect("an answer");
    let error = outcomes[0].as_ref().expect_err("it is there");
    assert_eq!(error.error, ErrorCode::TOPIC_ALREADY_EXISTS);
    let error = outcomes[1].as_ref().expect_err("there is one broker").to_string();
    assert!(error.starts_with("wide: INVALID_REPLICATION_FACTOR: "), "{error}");
    assert!(error.contains('3') && error.contains('1'), "{error}");
    assert!(outcomes[2].is_ok());
}

#[test]
fn a_check_creates_nothing() {
    let brokers = brokers(1);
    let mut admin = admin(&brokers.bootstrap());
    let outcomes = admin
        .create_topics(&[topic("t", 1, 1), topic("wide", 1, 2)], true)
        .expect("an answer");
    assert!(outcomes[0].is_ok() && outcomes[1].is_err());
    assert!(admin.topics(None).expect("an answer").is_empty());
    let waited = admin
        .await_leaders(&[("t".to_owned(), 1)], Duration::from_millis(100))
        .expect_err("it is not there");
    let text = waited.to_string();
    assert!(
        text.starts_with(
            "election of leaders was not done within 0.1 s; last: t: UNKNOWN_TOPIC_OR_PARTITION"
        ),
        "{text}"
    );
}

#[test]
fn many_topics_go_in_several_requests() {
    let brokers = brokers(1);
    let mut admin = admin(&brokers.bootstrap());
    let topics: Vec<NewTopic> = (0..1200).map(|index| topic(&format!("t{index}"), 1, 1)).collect();
    let outcomes = admin.create_topics(&topics, false).expect("an answer");
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1200);
    let names: Vec<String> = topics.into_iter().map(|topic| topic.name).collect();
    let outcomes = admin.delete_topics(&names).expect("an answer");
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1200);
}

#[test]
fn configs_are_read_set_and_taken_back() {
    let brokers = brokers(2);
    let mut admin = admin(&brokers.bootstrap());
    create(&mut admin, "t", 1, 1);
    let resource = ConfigResource::Topic("t".to_owned());
    let before = admin
        .config_value(&resource, "retention.ms")
        .expect("an answer")
        .expect("a value");
    let changes = BTreeMap::from([("retention.ms".to_owned(), Some("1234567".to_owned()))]);
    admin.alter_configs(&resource, &changes).expect("it is changed");
    let mut described = admin
        .describe_configs(&[resource.clone(), ConfigResource::Broker(2)])
        .expect("an answer");
    let entries = described
        .remove(&resource)
        .expect("it is there")
        .expect("it may be seen");
    let entry = entries
        .iter()
        .find(|entry| entry.name == "retention.ms")
        .expect("it is there");
    assert_eq!(
        (entry.value.as_deref(), entry.source),
        (Some("1234567"), ConfigSource::Topic)
    );
    let of_broker = described
        .remove(&ConfigResource::Broker(2))
        .expect("it is there")
        .expect("it may be seen");
    assert!(of_broker.iter().any(|entry| entry.name == "min.insync.replicas"));
    let changes = BTreeMap::from([("retention.ms".to_owned(), None)]);
    admin
        .alter_configs(&resource, &changes)
        .expect("it is taken back");
    assert_eq!(
        admin.config_value(&resource, "retention.ms").expect("an answer"),
        Some(before)
    );
    let changes = BTreeMap::from([("retention.minutes".to_owned(), Some("1".to_owned()))]);
    let error = admin
        .alter_configs(&resource, &changes)
        .expect_err("there is no such config")
        .to_string();
    assert!(error.contains("retention.minutes"), "{error}");
}

#[test]
fn offsets_are_listed_by_leader() {
    let brokers = brokers(3);
    let mut admin = admin(&brokers.bootstrap());
    create(&mut admin, "t", 6, 1);
    let clock = client::clock::RunClock::start();
    let before_ms = clock.wall_ms(clock.now_ns());
    produce(&brokers.bootstrap(), "t", 6, 0..25);
    let partitions: Vec<_> = (0..6).map(|index| ("t".to_owned(), index)).collect();
    for (at, offset) in [
        (OffsetAt::Earliest, 0),
        (OffsetAt::Latest, 25),
        (OffsetAt::TimestampMs(before_ms), 0),
    ] {
        let listed = admin.list_offsets(&partitions, at).expect("an answer");
        assert_eq!(listed.len(), 6);
        for (partition, outcome) in listed {
            let found = outcome.expect("it is found").expect("there is one");
            assert_eq!(found.offset, offset, "{at:?} of {partition:?}");
        }
    }
    let future = OffsetAt::TimestampMs(i64::MAX);
    let listed = admin.list_offsets(&partitions[..1], future).expect("an answer");
    assert_eq!(listed[&partitions[0]], Ok(None));
    let newest = admin
        .list_offsets(&partitions[..1], OffsetAt::MaxTimestamp)
        .expect("an answer");
    let newest = newest[&partitions[0]]
        .as_ref()
        .expect("it is found")
        .expect("there is one");
    assert!(
        newest.timestamp_ms.is_some_and(|ms| ms >= before_ms),
        "{newest:?}"
    );
    let wanted = [("t".to_owned(), 99), ("missing".to_owned(), 0)];
    let listed = admin.list_offsets(&wanted, OffsetAt::Latest).expect("an answer");
    for key in &wanted {
        let error = listed[key].as_ref().map_err(|refusal| refusal.error);
        assert_eq!(error, Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
    }
}

#[test]
fn disks_tell_their_replicas_and_free_space() {
    let brokers = brokers(2);
    let mut admin = admin(&brokers.bootstrap());
    create(&mut admin, "t", 2, 2);
    produce(&brokers.bootstrap(), "t", 2, 0..10);
    let described = admin.describe_log_dirs(&[1, 2], None).expect("an answer");
    assert_eq!(described.len(), 2);
    for (broker, outcome) in described {
        let dirs = outcome.expect("it may be seen");
        assert!(dirs.iter().all(|dir| dir.error == ErrorCode::NONE));
        let total: Option<u64> = dirs.iter().map(|dir| dir.total_bytes).sum();
        let usable: Option<u64> = dirs.iter().map(|dir| dir.usable_bytes).sum();
        assert!(total > Some(0) && usable.is_none(), "broker {broker}: {dirs:?}");
        let replicas = dirs
            .iter()
            .flat_map(|dir| &dir.replicas)
            .filter(|replica| replica.topic == "t")
            .count();
        assert_eq!(replicas, 2, "broker {broker}: {dirs:?}");
    }
    brokers.stop_broker(2).expect("it exists");
    let described = admin.describe_log_dirs(&[1, 2], None).expect("an answer");
    assert_eq!(described.keys().copied().collect::<Vec<_>>(), [1]);
}

#[test]
fn groups_are_listed_described_and_deleted() {
    let brokers = brokers(2);
    let bootstrap = brokers.bootstrap();
    let mut admin = admin(&bootstrap);
    create(&mut admin, "t", 3, 1);
    let mut stage = Stage::new();
    let subscription = Subscription::Group {
        topics: vec!["t".to_owned()],
    };
    stage.add(
        &consumer_config(
            &bootstrap,
            &["group.id=g", "client.id=reader", "group.instance.id=one"],
        ),
        &subscription,
    );
    stage.until("it is a member", |stage| {
        stage.players[0].consumer.is_assigned_and_positioned()
    });
    let listed = admin.list_groups().expect("an answer");
    assert_eq!(
        listed
            .iter()
            .map(|group| group.group_id.as_str())
            .collect::<Vec<_>>(),
        ["g"]
    );
    assert_eq!(listed[0].state.as_deref(), Some("Stable"));
    let group = admin
        .describe_group("g")
        .expect("an answer")
        .expect("it is there");
    assert_eq!(
        (group.state.as_str(), group.assignor.as_str()),
        ("Stable", "range")
    );
    assert_eq!(group.members.len(), 1);
    assert_eq!(group.members[0].client_id, "reader");
    assert_eq!(group.members[0].group_instance_id.as_deref(), Some("one"));
    assert_eq!(
        group.members[0].assigned,
        (0..3).map(|index| ("t".to_owned(), index)).collect::<Vec<_>>()
    );
    let outcomes = admin.delete_groups(&["g".to_owned()]).expect("an answer");
    assert_eq!(
        outcomes[0].as_ref().map_err(|refusal| refusal.error),
        Err(ErrorCode::NON_EMPTY_GROUP)
    );
    stage.leave(0);
    let outcomes = admin
        .delete_groups(&["g".to_owned(), "none".to_owned()])
        .expect("an answer");
    assert_eq!(outcomes[0], Ok(()));
    assert_eq!(
        outcomes[1].as_ref().map_err(|refusal| refusal.error),
        Err(ErrorCode::GROUP_ID_NOT_FOUND)
    );
    assert_eq!(admin.describe_group("g").expect("an answer"), None);
    assert!(admin.list_groups().expect("an answer").is_empty());
}

#[test]
fn an_operation_goes_on_when_a_broker_is_gone() {
    let brokers = brokers(3);
    let mut admin = admin(&brokers.bootstrap());
    create(&mut admin, "t", 6, 3);
    produce(&brokers.bootstrap(), "t", 6, 0..10);
    for stopped in 1..=3 {
        brokers.stop_broker(stopped).expect("it exists");
        let partitions: Vec<_> = (0..6).map(|index| ("t".to_owned(), index)).collect();
        let listed = admin
            .list_offsets(&partitions, OffsetAt::Latest)
            .expect("an answer");
        for (partition, outcome) in listed {
            assert_eq!(
                outcome.expect("it is found").map(|found| found.offset),
                Some(10),
                "{partition:?}"
            );
        }
        let name = format!("after{stopped}");
        let outcomes = admin
            .create_topics(&[topic(&name, 1, 1)], false)
            .expect("an answer");
        assert!(outcomes[0].is_ok(), "{outcomes:?}");
        brokers.start_broker(stopped).expect("it starts again");
    }
}
