//! Consumers alone and in groups.

use crate::stage::{Stage, admin, brokers, consumer_config, create, produce};
use client::admin::{OffsetAt, TopicPartition};
use client::consumer::{ConsumerEvent, StartAt, Subscription};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

fn partitions_of(topic: &str, count: i32, start: StartAt) -> Subscription {
    Subscription::Partitions(
        (0..count)
            .map(|index| ((topic.to_owned(), index), start))
            .collect(),
    )
}

fn group_of(topic: &str) -> Subscription {
    Subscription::Group {
        topics: vec![topic.to_owned()],
    }
}

/// Each offset of each partition was seen once, and those of a partition in order by each player.
fn assert_each_once(stage: &Stage, topic: &str, partitions: i32, from: i64, to: i64) {
    let mut seen: BTreeMap<TopicPartition, Vec<i64>> = BTreeMap::new();
    for player in &stage.players {
        let mut last: BTreeMap<i32, i64> = BTreeMap::new();
        for record in &player.collected.seen {
            let before = last.insert(record.partition, record.offset);
            assert!(
                before.is_none_or(|before| before < record.offset),
                "out of order: {record:?} after {before:?}"
            );
            assert_eq!(record.value, record.offset.to_string().into_bytes());
            seen.entry((record.topic.clone(), record.partition))
                .or_default()
                .push(record.offset);
        }
    }
    for index in 0..partitions {
        let offsets = seen.remove(&(topic.to_owned(), index)).unwrap_or_default();
        let distinct: BTreeSet<i64> = offsets.iter().copied().collect();
        assert_eq!(distinct.len(), offsets.len(), "partition {index} has duplicates");
        assert_eq!(distinct, (from..to).collect(), "partition {index}");
    }
    assert!(seen.is_empty(), "records of other partitions: {:?}", seen.keys());
}

#[test]
fn partitions_of_ones_own_choice_are_read_from_the_start() {
    let brokers = brokers(3);
    create(&mut admin(&brokers.bootstrap()), "t", 12, 3);
    produce(&brokers.bootstrap(), "t", 12, 0..100);
    let mut stage = Stage::new();
    stage.add(
        &consumer_config(&brokers.bootstrap(), &[]),
        &partitions_of("t", 12, StartAt::Earliest),
    );
    stage.until("all records come", |stage| stage.seen() == 1200);
    assert_each_once(&stage, "t", 12, 0, 100);
    let consumer = &stage.players[0].consumer;
    assert!(consumer.is_assigned_and_positioned());
    assert_eq!(consumer.lag(), Some(0));
    assert_eq!(consumer.counts().corrupt_batches, 0);
    // What comes later is read as it comes.
    produce(&brokers.bootstrap(), "t", 12, 100..150);
    stage.until("the later records come", |stage| stage.seen() == 1800);
    assert_each_once(&stage, "t", 12, 0, 150);
}

#[test]
fn latest_timestamps_and_offsets_are_places_to_start_from() {
    let brokers = brokers(1);
    create(&mut admin(&brokers.bootstrap()), "t", 1, 1);
    produce(&brokers.bootstrap(), "t", 1, 0..20);
    let config = consumer_config(&brokers.bootstrap(), &[]);
    let mut stage = Stage::new();
    for start in [
        StartAt::Latest,
        StartAt::Offset(7),
        StartAt::TimestampMs(0),
        StartAt::TimestampMs(i64::MAX),
    ] {
        stage.add(&config, &partitions_of("t", 1, start));
    }
    stage.until("all have positions", |stage| {
        stage
            .players
            .iter()
            .all(|player| player.consumer.is_assigned_and_positioned())
    });
    produce(&brokers.bootstrap(), "t", 1, 20..30);
    stage.until("all records come", |stage| stage.seen() == 10 + 23 + 30 + 10);
    let firsts: Vec<i64> = stage
        .players
        .iter()
        .map(|player| player.collected.seen[0].offset)
        .collect();
    assert_eq!(firsts, [20, 7, 0, 20]);
}

#[test]
fn a_paused_consumer_fetches_nothing_and_then_goes_on() {
    let brokers = brokers(1);
    create(&mut admin(&brokers.bootstrap()), "t", 1, 1);
    produce(&brokers.bootstrap(), "t", 1, 0..20);
    let mut stage = Stage::new();
    stage.add(
        &consumer_config(&brokers.bootstrap(), &[]),
        &partitions_of("t", 1, StartAt::Earliest),
    );
    stage.players[0].consumer.pause();
    stage.turn_for(Duration::from_millis(300));
    assert_eq!(stage.players[0].consumer.counts().fetch_requests, 0);
    let resume_ns = stage.clock.now_ns() + 200_000_000;
    stage.players[0].consumer.pause_until(resume_ns);
    stage.until("records come after the pause", |stage| stage.seen() == 20);
    assert!(stage.clock.now_ns() >= resume_ns);
}

#[test]
fn three_members_share_twelve_partitions_and_each_record_comes_once() {
    let brokers = brokers(3);
    create(&mut admin(&brokers.bootstrap()), "t", 12, 3);
    produce(&brokers.bootstrap(), "t", 12, 0..50);
    let config = consumer_config(
        &brokers.bootstrap(),
        &["group.id=g", "auto.commit.interval.ms=100"],
    );
    let mut stage = Stage::new();
    for _ in 0..3 {
        stage.add(&config, &group_of("t"));
    }
    stage.until("all members have four partitions", |stage| {
        stage
            .players
            .iter()
            .all(|player| player.consumer.is_assigned_and_positioned() && player.assigned().len() == 4)
    });
    produce(&brokers.bootstrap(), "t", 12, 50..100);
    stage.until("all records come", |stage| stage.seen() == 1200);
    assert_each_once(&stage, "t", 12, 0, 100);
}

#[test]
fn when_a_member_leaves_the_others_take_over_where_it_stopped() {
    let brokers = brokers(2);
    create(&mut admin(&brokers.bootstrap()), "t", 12, 2);
    let config = consumer_config(
        &brokers.bootstrap(),
        &["group.id=g", "auto.commit.interval.ms=60000"],
    );
    let mut stage = Stage::new();
    for _ in 0..3 {
        stage.add(&config, &group_of("t"));
    }
    stage.until("all members have four partitions", |stage| {
        stage
            .players
            .iter()
            .all(|player| player.consumer.is_assigned_and_positioned() && player.assigned().len() == 4)
    });
    produce(&brokers.bootstrap(), "t", 12, 0..40);
    stage.until("all records come", |stage| stage.seen() == 480);
    stage.leave(1);
    stage.until("the others have six partitions each", |stage| {
        [0, 2].iter().all(|&index| {
            let player = &stage.players[index];
            player.consumer.is_assigned_and_positioned() && player.assigned().len() == 6
        })
    });
    produce(&brokers.bootstrap(), "t", 12, 40..80);
    stage.until("the later records come", |stage| stage.seen() == 960);
    assert_each_once(&stage, "t", 12, 0, 80);
    let player = &stage.players[0];
    assert!(
        player
            .events
            .iter()
            .any(|event| matches!(event, ConsumerEvent::RebalanceStarted { .. }))
    );
    assert!(
        player
            .events
            .iter()
            .any(|event| matches!(event, ConsumerEvent::Revoked { is_lost: false, .. }))
    );
    assert!(player.consumer.counts().rebalances >= 1);
}

/// Members come and go while records are produced: each record comes once, and what members keep they go on reading.
fn members_come_and_go(properties: &[&str], keeps: bool) {
    let brokers = brokers(2);
    create(&mut admin(&brokers.bootstrap()), "t", 12, 2);
    let given = [&["group.id=g", "auto.commit.interval.ms=60000"], properties].concat();
    let config = consumer_config(&brokers.bootstrap(), &given);
    let mut stage = Stage::new();
    let settle = |stage: &mut Stage, players: &[usize]| {
        let each = 12 / players.len();
        stage.until("all members have their part", |stage| {
            players.iter().all(|&index| {
                let player = &stage.players[index];
                player.consumer.is_assigned_and_positioned() && player.assigned().len() == each
            })
        });
    };
    stage.add(&config, &group_of("t"));
    settle(&mut stage, &[0]);
    produce(&brokers.bootstrap(), "t", 12, 0..40);
    stage.until("all records come", |stage| stage.seen() == 480);
    let before = stage.players[0].assigned();
    stage.add(&config, &group_of("t"));
    stage.add(&config, &group_of("t"));
    settle(&mut stage, &[0, 1, 2]);
    produce(&brokers.bootstrap(), "t", 12, 40..80);
    stage.until("all records come", |stage| stage.seen() == 960);
    stage.leave(1);
    settle(&mut stage, &[0, 2]);
    produce(&brokers.bootstrap(), "t", 12, 80..120);
    stage.until("all records come", |stage| stage.seen() == 1440);
    assert_each_once(&stage, "t", 12, 0, 120);
    let first = &stage.players[0];
    let given_up: usize = first
        .events
        .iter()
        .map(|event| match event {
            ConsumerEvent::Revoked { partitions, .. } => partitions.len(),
            _ => 0,
        })
        .sum();
    if keeps {
        assert_eq!(given_up, 8, "no more than the others got");
        assert!(first.assigned().iter().filter(|own| before.contains(own)).count() >= 4);
    } else {
        assert!(given_up > 12, "all of it, each time");
    }
}

#[test]
fn members_of_every_strategy_come_and_go_without_loss_or_repetition() {
    for strategy in ["range", "roundrobin", "sticky"] {
        members_come_and_go(&[&format!("partition.assignment.strategy={strategy}")], false);
    }
    members_come_and_go(&["partition.assignment.strategy=cooperative-sticky"], true);
}

#[test]
fn members_of_the_newer_protocol_come_and_go_without_loss_or_repetition() {
    members_come_and_go(&["group.protocol=consumer"], true);
}

#[test]
fn what_one_consumer_commits_the_next_begins_after() {
    let brokers = brokers(1);
    let mut admin = admin(&brokers.bootstrap());
    create(&mut admin, "t", 3, 1);
    produce(&brokers.bootstrap(), "t", 3, 0..30);
    let config = consumer_config(&brokers.bootstrap(), &["group.id=g", "enable.auto.commit=false"]);
    let mut stage = Stage::new();
    stage.add(&config, &group_of("t"));
    stage.until("all records come", |stage| stage.seen() == 90);
    stage.players[0].consumer.commit();
    stage.until("the commit is acknowledged", |stage| {
        stage.players[0].consumer.counts().commits == 1
    });
    stage.leave(0);
    let committed = admin.committed_offsets("g").expect("an answer");
    assert_eq!(
        committed,
        (0..3).map(|index| (("t".to_owned(), index), 30)).collect()
    );

    produce(&brokers.bootstrap(), "t", 3, 30..40);
    let mut stage = Stage::new();
    stage.add(&config, &group_of("t"));
    stage.until("the rest comes", |stage| stage.seen() == 30);
    assert_each_once(&stage, "t", 3, 30, 40);
    // Without a member, from outside of the group.
    let mut stage = Stage::new();
    stage.add(&config, &partitions_of("t", 3, StartAt::Committed));
    stage.until("the rest comes again", |stage| stage.seen() == 30);
    assert_each_once(&stage, "t", 3, 30, 40);
}

#[test]
fn a_position_beyond_the_log_is_set_anew_and_told() {
    let brokers = brokers(1);
    create(&mut admin(&brokers.bootstrap()), "t", 1, 1);
    produce(&brokers.bootstrap(), "t", 1, 0..10);
    let mut stage = Stage::new();
    let config = consumer_config(&brokers.bootstrap(), &["auto.offset.reset=latest"]);
    stage.add(&config, &partitions_of("t", 1, StartAt::Offset(500)));
    stage.until("the position is reset", |stage| {
        stage.players[0].consumer.counts().offset_resets == 1
    });
    let reset = stage.players[0]
        .events
        .iter()
        .find(|event| matches!(event, ConsumerEvent::OffsetReset { .. }));
    assert!(
        matches!(
            reset,
            Some(ConsumerEvent::OffsetReset {
                partition: 0,
                from: 500,
                to: 10,
                ..
            })
        ),
        "{reset:?}"
    );
    produce(&brokers.bootstrap(), "t", 1, 10..15);
    stage.until("what comes later is read", |stage| stage.seen() == 5);

    let mut stage = Stage::new();
    let config = consumer_config(&brokers.bootstrap(), &["auto.offset.reset=none"]);
    stage.add(&config, &partitions_of("t", 1, StartAt::Offset(500)));
    stage.until("it fails", |stage| {
        !stage.players[0].events.is_empty() && stage.players[0].events.len() > 1
    });
    let Some(ConsumerEvent::Failed { reason }) = stage.players[0].events.last() else {
        panic!("no failure")
    };
    assert_eq!(
        reason,
        "t-0: offset 500 is out of the log's range, and auto.offset.reset=none forbids to choose another; set earliest or latest"
    );
}

#[test]
fn a_consumer_follows_the_leaders_when_a_broker_stops() {
    let brokers = brokers(3);
    let bootstrap = brokers.bootstrap();
    create(&mut admin(&bootstrap), "t", 6, 3);
    produce(&bootstrap, "t", 6, 0..20);
    let mut stage = Stage::new();
    let config = consumer_config(&bootstrap, &["group.id=g"]);
    stage.add(&config, &group_of("t"));
    stage.add(&config, &group_of("t"));
    stage.until("the first records come", |stage| stage.seen() == 120);
    stage.until("both have three partitions", |stage| {
        stage
            .players
            .iter()
            .all(|player| player.consumer.is_assigned_and_positioned() && player.assigned().len() == 3)
    });
    for stopped in 1..=3 {
        brokers.stop_broker(stopped).expect("it exists");
        let from = 20 + 20 * (stopped as u64 - 1);
        produce(&bootstrap, "t", 6, from..from + 20);
        let expected = 120 * (stopped as usize + 1);
        stage.until("records come from the new leaders", |stage| {
            stage.seen() >= expected
        });
        brokers.start_broker(stopped).expect("it starts again");
        let all = Duration::from_secs(5);
        admin(&bootstrap)
            .await_leaders(&[("t".to_owned(), 6)], all)
            .expect("leaders");
    }
    assert_each_once(&stage, "t", 6, 0, 80);
}

#[test]
fn a_topic_that_does_not_exist_is_a_failure_that_says_so() {
    let brokers = brokers(1);
    let mut stage = Stage::new();
    stage.add(
        &consumer_config(&brokers.bootstrap(), &[]),
        &partitions_of("missing", 1, StartAt::Earliest),
    );
    stage.until("it fails", |stage| {
        stage.players[0]
            .events
            .iter()
            .any(|event| matches!(event, ConsumerEvent::Failed { .. }))
    });
    let Some(ConsumerEvent::Failed { reason }) = stage.players[0].events.last() else {
        panic!("no failure")
    };
    assert_eq!(
        reason,
        "topic missing does not exist: the brokers have not known it for 15 s"
    );
}

#[test]
fn a_member_of_a_topic_that_is_created_later_is_given_its_partitions() {
    let brokers = brokers(1);
    let bootstrap = brokers.bootstrap();
    let mut stage = Stage::new();
    stage.add(&consumer_config(&bootstrap, &["group.id=g"]), &group_of("later"));
    stage.until("it is a member without partitions", |stage| {
        stage.players[0].consumer.is_assigned_and_positioned()
    });
    let mut admin = admin(&bootstrap);
    create(&mut admin, "later", 2, 1);
    stage.until("it has two partitions", |stage| {
        stage.players[0].assigned().len() == 2
    });
    produce(&bootstrap, "later", 2, 0..10);
    stage.until("records come", |stage| stage.seen() == 20);
    let ends = admin
        .list_offsets(&[("later".to_owned(), 0)], OffsetAt::Latest)
        .expect("an answer");
    let end = ends[&("later".to_owned(), 0)]
        .as_ref()
        .expect("an offset")
        .expect("an offset");
    assert_eq!(end.offset, 10);
}
