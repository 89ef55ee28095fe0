//! Whole loads against the embedded broker in this process.

use client::admin::{Admin, Layout, NewTopic};
use client::clock::RunClock;
use load::plan::{Ended, Interrupt, LoadError, LoadEvent, LoadPlan, StartFrom};
use model::result::{LimitedBy, Metric, PhaseName, RunResult, State};
use model::target::TargetDraft;
use model::workload::WorkloadDraft;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Three brokers for one test.
fn brokers() -> broker::Handle {
    broker::start(broker::Config {
        brokers: 3,
        ..broker::Config::default()
    })
    .expect("loopback has free ports")
}

/// A plan of the standard workload with those keys and properties.
fn plan(bootstrap: &str, keys: &[&str], properties: &[&str]) -> LoadPlan {
    let mut workload = WorkloadDraft::standard();
    for key in keys {
        workload.apply_override(key);
    }
    let mut target = TargetDraft::new();
    target.set_bootstrap_servers(bootstrap, "--bootstrap-server");
    target.set_replication_factor("3", "--replication-factor");
    for property in properties {
        target.set_property(property, "-X");
    }
    LoadPlan {
        is_run_id_shared: false,
        run_id: 0x1234_5678_9abc_def0 ^ std::process::id() as u64,
        workload: workload.resolve().expect("the workload is sound").0,
        target: target.resolve().expect("the target is sound").0,
        payload_file: None,
        keep: false,
        force: false,
        from: StartFrom::Latest,
        drain_timeout: Duration::from_secs(10),
        threads: None,
        embedded: false,
        command: vec!["plimsoll".to_owned(), "run".to_owned()],
        reproduce: None,
    }
}

fn run(plan: LoadPlan) -> Result<Ended, LoadError> {
    let mut sink = |_: LoadEvent<'_>| Ok(());
    load::run(plan, RunClock::start(), &Interrupt::new(), &mut sink)
}

#[test]
fn transactions_are_committed_and_nothing_of_them_is_lost() {
    let brokers = brokers();
    let keys = [
        "topics=1",
        "partitionsPerTopic=3",
        "producersPerTopic=2",
        "producerRate=5000",
        "warmupDuration=0s",
        "testDuration=2s",
        "transactional=true",
        "transactionDuration=100ms",
    ];
    let properties = ["isolation.level=read_committed"];
    let ended = run(plan(&brokers.bootstrap(), &keys, &properties)).expect("it runs");
    check_whole(&ended.result, Some(10_000), 1);
    let transactions = ended.result.whole_run.transactions.expect("some were made");
    // Two producers, each with one every 100 ms at most: those of the last moments are shorter, and a slow machine makes fewer.
    assert!(
        (10..=44).contains(&transactions.committed_count),
        "{transactions:?}"
    );
    assert_eq!(
        (
            transactions.aborted_count,
            transactions.aborted_records_count,
            transactions.undecided_count
        ),
        (0, 0, None)
    );
    assert!(transactions.markers_count >= transactions.committed_count);
    let measured = ended.result.measured().expect("a measured phase");
    let commit = measured.latency(Metric::Commit).expect("commits are timed");
    assert!(commit.count > 0 && measured.latency(Metric::Abort).is_none());
    // Records are read when their transaction is committed: on average half its length later.
    let end_to_end = measured.latency(Metric::EndToEnd).expect("read back");
    assert!(end_to_end.p50_ns > 30_000_000, "{end_to_end:?}");
}

fn check_whole(result: &RunResult, due: Option<u64>, subscriptions: u64) {
    let totals = &result.whole_run;
    assert_eq!(result.status.state, State::Complete, "{:?}", result.status);
    assert_eq!(totals.due_count, due);
    let failed = totals.refused_count + totals.unknown_count + totals.unfinished_count;
    let acknowledged = totals.acknowledged_count.unwrap();
    assert_eq!(totals.sent_count, acknowledged + failed);
    if let Some(due) = due {
        assert_eq!(due, totals.unsent_count.unwrap() + totals.sent_count);
    }
    assert_eq!(failed, 0, "{:?}", result.errors);
    assert_eq!(totals.confirmed_count, Some(acknowledged));
    let consumed: u64 = totals
        .consumed
        .iter()
        .map(|consumed| consumed.records_count)
        .sum();
    assert_eq!(consumed, acknowledged * subscriptions);
    let found = totals.verification.unwrap();
    assert!(!found.found_damage() && found.foreign_count == 0, "{found:?}");
    assert_eq!(found.checked_count, consumed);
}

#[test]
fn every_record_of_an_open_loop_is_accounted_for() {
    let brokers = brokers();
    let keys = [
        "topics=2",
        "partitionsPerTopic=4",
        "messageSize=200",
        "producerRate=20000",
        "producersPerTopic=2",
        "subscriptionsPerTopic=2",
        "consumerPerSubscription=2",
        "warmupDuration=1s",
        "testDuration=2s",
    ];
    let ended = run(plan(&brokers.bootstrap(), &keys, &[])).unwrap();
    let result = ended.result;
    check_whole(&result, Some(60_000), 2);
    // A stall of this machine at the end of a phase may keep some from being sent; they are accounted for all the same.
    assert!(
        result.whole_run.unsent_count.unwrap() < 6_000,
        "{:?}",
        result.whole_run
    );
    let measured = result.measured().unwrap();
    let totals = measured.totals.as_ref().unwrap();
    assert_eq!(totals.due_count, Some(40_000));
    assert!(measured.short);
    let count = |metric| measured.latency(metric).unwrap().count;
    assert_eq!(
        count(Metric::Response),
        40_000,
        "what was not sent is in it with its age"
    );
    assert_eq!(count(Metric::ScheduleLag), totals.sent_count);
    assert_eq!(count(Metric::Service), totals.sent_count);
    assert_eq!(count(Metric::EndToEnd), 2 * totals.sent_count);
    let names: Vec<PhaseName> = result.phases.iter().map(|phase| phase.name).collect();
    assert_eq!(
        names,
        [
            PhaseName::Prepare,
            PhaseName::WarmUp,
            PhaseName::Measure,
            PhaseName::Stop
        ]
    );
    let mut admin = Admin::connect(
        &plan(&brokers.bootstrap(), &[], &[]).target.admin.config,
        RunClock::start(),
        Duration::from_secs(5),
    )
    .unwrap();
    let left: Vec<String> = admin
        .topics(None)
        .unwrap()
        .into_keys()
        .filter(|name| name.contains("plimsoll"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn rate_max_sends_as_many_records_as_asked() {
    let brokers = brokers();
    let keys = [
        "producerRate=max",
        "testRecords=300000",
        "messageSize=100",
        "warmupRecords=10000",
    ];
    let result = run(plan(&brokers.bootstrap(), &keys, &["acks=1", "batch.size=65536"]))
        .unwrap()
        .result;
    check_whole(&result, None, 1);
    assert_eq!(result.whole_run.sent_count, 310_000);
    let measured = result.measured().unwrap();
    assert_eq!(measured.totals.as_ref().unwrap().sent_count, 300_000);
    assert!(measured.latency(Metric::Response).is_none());
    assert!(measured.latency(Metric::Queue).is_some() && measured.latency(Metric::Service).is_some());
}

#[test]
fn keyed_compressed_and_header_stamped_records_are_verified_too() {
    let brokers = brokers();
    let keys = [
        "keyDistributor=KEY_ROUND_ROBIN",
        "partitionsPerTopic=10",
        "stamp=header",
        "messageSize=20",
        "producerRate=5000",
        "testDuration=2s",
        "warmupDuration=0s",
    ];
    for codec in ["zstd", "lz4", "snappy", "gzip"] {
        let property = format!("compression.type={codec}");
        let result = run(plan(&brokers.bootstrap(), &keys, &[&property]))
            .unwrap()
            .result;
        check_whole(&result, Some(10_000), 1);
        assert_eq!(result.skew.unwrap().used_partitions_count, 10);
    }
}

#[test]
fn records_without_room_for_a_stamp_are_timed_by_their_offsets() {
    let brokers = brokers();
    let keys = [
        "messageSize=10",
        "producerRate=20000",
        "testDuration=2s",
        "warmupDuration=0s",
    ];
    let result = run(plan(&brokers.bootstrap(), &keys, &[])).unwrap().result;
    assert_eq!(result.whole_run.verification, None);
    assert_eq!(result.whole_run.consumed[0].records_count, 40_000);
    assert_eq!(
        result
            .measured()
            .unwrap()
            .latency(Metric::EndToEnd)
            .unwrap()
            .count,
        40_000
    );
}

#[test]
fn acks_0_says_what_was_written_and_nothing_of_latency() {
    let brokers = brokers();
    let keys = ["producerRate=10000", "testDuration=1s", "warmupDuration=0s"];
    let result = run(plan(&brokers.bootstrap(), &keys, &["acks=0"]))
        .unwrap()
        .result;
    let totals = &result.whole_run;
    let sent = Some(totals.sent_count);
    assert!(sent > Some(9_000));
    assert_eq!((totals.acknowledged_count, totals.written_count), (None, sent));
    assert_eq!(totals.confirmed_count, sent);
    let measured = result.measured().unwrap();
    assert!(measured.latency(Metric::Response).is_none() && measured.latency(Metric::Service).is_none());
}

#[test]
fn what_does_not_fit_ends_before_the_load_and_leaves_nothing() {
    let brokers = brokers();
    let bootstrap = brokers.bootstrap();
    let message =
        |keys: &[&str], properties: &[&str]| run(plan(&bootstrap, keys, properties)).unwrap_err().to_string();
    let told = message(&["messageSize=2000000"], &[]);
    assert!(told.contains("max.request.size"), "{told}");
    let told = message(
        &["messageSize=2000000", "producerRate=10", "testDuration=1s"],
        &["max.request.size=5000000"],
    );
    assert!(told.contains("max.message.bytes"), "{told}");
    let told = message(&["topicNames=nowhere", "existingTopics=true"], &[]);
    assert!(told.contains("nowhere"), "{told}");
    let mut too_many = plan(&bootstrap, &[], &[]);
    too_many.target.replication_factor = Some(5);
    let told = run(too_many).unwrap_err().to_string();
    assert!(told.contains('5') && told.contains('3'), "{told}");
}

/// Runs `plan` while another thread does something to the brokers.
fn run_while(
    brokers: &broker::Handle,
    plan: LoadPlan,
    disturb: impl FnOnce(&broker::Handle) + Send,
) -> RunResult {
    std::thread::scope(|scope| {
        scope.spawn(|| disturb(brokers));
        run(plan).unwrap().result
    })
}

/// Waits in a test's own thread; the load's time is real here.
fn wait_ms(ms: u64) {
    let (_keep, never) = std::sync::mpsc::channel::<()>();
    let _ = never.recv_timeout(Duration::from_millis(ms));
}

#[test]
fn nothing_acknowledged_is_lost_doubled_or_reordered_when_brokers_go_and_come_back() {
    let brokers = brokers();
    let keys = [
        "topics=2",
        "partitionsPerTopic=6",
        "messageSize=100",
        "producerRate=20000",
        "producersPerTopic=2",
        "consumerPerSubscription=2",
        "warmupDuration=0s",
        "testDuration=6s",
    ];
    let plan = plan(
        &brokers.bootstrap(),
        &keys,
        &["batch.size=2000", "retry.backoff.ms=20"],
    );
    let result = run_while(&brokers, plan, |brokers| {
        for id in [2, 3, 1] {
            wait_ms(1_200);
            brokers.stop_broker(id).unwrap();
            wait_ms(500);
            brokers.start_broker(id).unwrap();
        }
    });
    let totals = &result.whole_run;
    let failed = totals.refused_count + totals.unknown_count + totals.unfinished_count;
    let (due, unsent) = (totals.due_count.unwrap(), totals.unsent_count.unwrap());
    let (acknowledged, confirmed) = (
        totals.acknowledged_count.unwrap(),
        totals.confirmed_count.unwrap(),
    );
    assert_eq!(due, 120_000);
    assert_eq!(due, unsent + totals.sent_count);
    assert_eq!(totals.sent_count, acknowledged + failed);
    let found = totals.verification.unwrap();
    assert!(
        acknowledged <= confirmed,
        "{acknowledged} {confirmed} {found:?} {:?} {:?}",
        totals.consumed,
        result.events
    );
    assert!(confirmed <= acknowledged + totals.unknown_count + totals.unfinished_count);
    assert!(!found.found_damage() && found.foreign_count == 0, "{found:?}");
    assert!(acknowledged > 100_000, "{acknowledged}: {:?}", result.errors);
}

#[test]
fn a_rate_that_cannot_be_reached_ends_on_time_with_all_accounted_for() {
    let brokers = brokers();
    let keys = [
        "messageSize=1000",
        "producerRate=100000000",
        "warmupDuration=0s",
        "testDuration=2s",
        "subscriptionsPerTopic=0",
    ];
    let began = std::time::Instant::now();
    let result = run(plan(&brokers.bootstrap(), &keys, &[])).unwrap().result;
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    let totals = &result.whole_run;
    assert_eq!(totals.due_count, Some(200_000_000));
    assert_eq!(
        totals.due_count.unwrap(),
        totals.unsent_count.unwrap() + totals.sent_count
    );
    assert_eq!(totals.acknowledged_count, Some(totals.sent_count));
    assert_eq!(totals.confirmed_count, totals.acknowledged_count);
    let response = result
        .measured()
        .unwrap()
        .latency(Metric::Response)
        .unwrap()
        .clone();
    assert_eq!(
        response.count, 200_000_000,
        "what was not sent is in the distribution with its age"
    );
    assert!(response.censored_count.unwrap() >= totals.unsent_count.unwrap());
    assert_eq!(result.verdict.unwrap().sustained, Some(false));
}

#[test]
fn weights_of_topics_and_partitions_are_kept() {
    let brokers = brokers();
    let keys = [
        "topics=2",
        "topicWeights=[3, 1]",
        "partitionsPerTopic=4",
        "partitionWeights=[4, 3, 2, 1]",
        "messageSize=100",
        "producerRate=8000",
        "subscriptionsPerTopic=0",
        "warmupDuration=0s",
        "testDuration=2s",
    ];
    let result = run(plan(&brokers.bootstrap(), &keys, &[])).unwrap().result;
    let all = result.whole_run.acknowledged_count.unwrap() as f64;
    for (place, partition) in result.partitions.iter().enumerate() {
        let share = [0.75, 0.25][place / 4] * [0.4, 0.3, 0.2, 0.1][place % 4];
        let found = partition.acknowledged_count as f64 / all;
        assert!(
            (found / share - 1.0).abs() < 0.15,
            "partition {place}: {found} of {share}"
        );
    }
}

#[test]
fn what_a_slow_consumer_had_no_time_for_is_not_read_rather_than_lost() {
    let brokers = brokers();
    let keys = [
        "consumerRate=500",
        "messageSize=100",
        "producerRate=2000",
        "warmupDuration=0s",
        "testDuration=2s",
    ];
    let mut plan = plan(&brokers.bootstrap(), &keys, &[]);
    plan.drain_timeout = Duration::from_secs(1);
    let result = run(plan).unwrap().result;
    let found = result.whole_run.verification.unwrap();
    assert_eq!(found.lost_count, Some(0), "{found:?}");
    let unread = found.unread_count.unwrap();
    assert!(unread > 500, "{found:?}");
    assert_eq!(
        unread + result.whole_run.consumed[0].records_count,
        result.whole_run.acknowledged_count.unwrap()
    );
    assert!(
        result
            .warnings
            .iter()
            .any(|warning| warning.code == "not-consumed")
    );
}

/// Three brokers that follow a script, and a light load on one partition of acks 1 without linger.
fn scripted(rules: &str) -> RunResult {
    scripted_with(rules, &[], &[])
}

fn scripted_with(rules: &str, more_keys: &[&str], more_properties: &[&str]) -> RunResult {
    let (apis, errors) = broker::known_names();
    let script =
        model::broker_script::BrokerScript::parse("s.yaml", &format!("rules:\n{rules}"), &apis, &errors);
    let brokers = broker::start(broker::Config {
        script: Some(script.expect("a sound script")),
        ..broker::Config::default()
    })
    .expect("loopback has free ports");
    let keys = [
        "topics=1",
        "partitionsPerTopic=1",
        "messageSize=100",
        "producerRate=200",
        "warmupDuration=0s",
        "testDuration=4s",
    ];
    let keys = [&keys[..], more_keys].concat();
    let properties = [&["linger.ms=0", "retry.backoff.ms=5"][..], more_properties].concat();
    let mut plan = plan(&brokers.bootstrap(), &keys, &properties);
    let mut draft = TargetDraft::new();
    draft.set_bootstrap_servers(&brokers.bootstrap(), "--bootstrap-server");
    draft.set_replication_factor("1", "--replication-factor");
    for property in properties {
        draft.set_property(property, "-X");
    }
    plan.target = draft.resolve().expect("the target is sound").0;
    run(plan).unwrap().result
}

/// One broker on which every client id has that quota, and a load on it.
fn with_quota(key: &str, bytes_per_second: u32, keys: &[&str]) -> RunResult {
    let brokers = broker::start(broker::Config::default()).expect("loopback has free ports");
    set_quota(&brokers, key, bytes_per_second);
    let all = [
        &[
            "topics=1",
            "partitionsPerTopic=1",
            "messageSize=1000",
            "warmupDuration=0s",
        ][..],
        keys,
    ];
    let mut plan = plan(&brokers.bootstrap(), &all.concat(), &[]);
    let mut draft = TargetDraft::new();
    draft.set_bootstrap_servers(&brokers.bootstrap(), "--bootstrap-server");
    draft.set_replication_factor("1", "--replication-factor");
    plan.target = draft.resolve().expect("the target is sound").0;
    run(plan).unwrap().result
}

/// Sets a quota of the default client id by AlterClientQuotas 0, as kafka-configs does it.
fn set_quota(brokers: &broker::Handle, key: &str, bytes_per_second: u32) {
    let string = |text: &str| [&(text.len() as i16).to_be_bytes()[..], text.as_bytes()].concat();
    let (one, null) = (1_i32.to_be_bytes(), (-1_i16).to_be_bytes());
    // API and version, correlation id, no client id.
    let header = [&[0, 49, 0, 0][..], &[0, 0, 0, 7], &null].concat();
    let entity = [&one[..], &string("client-id"), &null].concat();
    let value = f64::from(bytes_per_second).to_be_bytes();
    let op = [&one[..], &string(key), &value, &[0]].concat();
    let request = [&header[..], &one, &entity, &op, &[0]].concat();
    let mut stream = TcpStream::connect(brokers.addresses()[0]).expect("it listens");
    stream
        .write_all(&(request.len() as i32).to_be_bytes())
        .and_then(|()| stream.write_all(&request))
        .expect("sent");
    let mut length = [0; 4];
    stream.read_exact(&mut length).expect("an answer");
    let mut answer = vec![0; i32::from_be_bytes(length) as usize];
    stream.read_exact(&mut answer).expect("an answer");
    // Correlation id, throttle time, one entry, and its error.
    assert_eq!(
        answer[..14],
        [0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0],
        "{answer:?}"
    );
}

#[test]
fn a_producer_that_its_quota_holds_back_is_said_to_be_limited_by_it() {
    let result = with_quota(
        "producer_byte_rate",
        200_000,
        &["producerRate=max", "testDuration=4s"],
    );
    let verdict = result.verdict.as_ref().expect("it was judged");
    assert_eq!(verdict.limited_by, LimitedBy::Quota, "{verdict:?}");
    let throttled_ns = result.brokers[0].throttle_ns.expect("it was held back");
    assert_eq!(
        result.generator.expect("it was measured").throttle_ns,
        Some(throttled_ns)
    );
    // It may send at once what ten seconds allow, and the same again when the windows of the first are over, as it may be
    // before the drain is; some requests of 16 KiB are on their way beyond that.
    let records = result.whole_run.acknowledged_count.expect("some were sent");
    let most = (2 * 11 * 200_000 + 20 * 16_384) / 1_000;
    assert!((1_800..most).contains(&records), "{records} records");
    assert!(throttled_ns > 2_000_000_000, "{throttled_ns}");
}

#[test]
fn a_consumer_that_its_quota_holds_back_is_said_to_be_limited_by_it() {
    let keys = ["producerRate=500", "testDuration=6s"];
    let result = with_quota("consumer_byte_rate", 50_000, &keys);
    let verdict = result.verdict.as_ref().expect("it was judged");
    assert_eq!(verdict.limited_by, LimitedBy::Quota, "{verdict:?}");
    let throttled_ns = result.brokers[0].throttle_ns.expect("it was held back");
    assert_eq!(
        result.generator.expect("it was measured").throttle_ns,
        Some(throttled_ns)
    );
    assert!(throttled_ns > 1_000_000_000, "{throttled_ns}");
}

#[test]
fn a_throttle_time_of_a_script_is_counted_as_the_client_was_told_it() {
    let result = scripted("  - { api: Produce, throttle_time: 100ms, every_nth: 10 }\n");
    check_whole(&result, Some(800), 1);
    let requests = result.brokers[0].requests_count;
    let told_ns = requests / 10 * 100_000_000;
    assert_eq!(
        result.brokers[0].throttle_ns,
        Some(told_ns),
        "of {requests} requests"
    );
    // Nine of 200 a second are sent, then it is told to wait for 100 ms: those that were due meanwhile are late by that.
    let response = result.measured().unwrap().latency(Metric::Response).unwrap();
    assert!(response.max_ns >= 90_000_000, "{response:?}");
}

#[test]
fn a_delay_of_the_brokers_is_in_the_service_time_of_every_record() {
    let result = scripted("  - { api: Produce, delay: 20ms }\n");
    check_whole(&result, Some(800), 1);
    let service = result.measured().unwrap().latency(Metric::Service).unwrap();
    // Never less than the truth; how much more is this machine's doing, but not a half of it.
    assert!(service.min_ns >= 20_000_000, "{service:?}");
    assert!(service.p50_ns < 30_000_000, "{service:?}");
}

#[test]
fn a_stall_of_the_brokers_is_in_the_response_times_of_all_records_that_were_due_meanwhile() {
    let result = scripted("  - { stall: true, from: 2s, for: 1s }\n");
    let totals = &result.whole_run;
    assert_eq!(totals.acknowledged_count, Some(800), "{totals:?}");
    let response = result.measured().unwrap().latency(Metric::Response).unwrap();
    assert!(response.max_ns >= 900_000_000, "{response:?}");
    // A quarter of the records were due during the stall, so a tenth waited for more than half a second.
    assert!(response.p95_ns >= 500_000_000, "{response:?}");
}

#[test]
fn errors_that_are_made_good_by_retries_lose_and_double_nothing() {
    let rules = "  - { api: Produce, error: NOT_ENOUGH_REPLICAS, every_nth: 10 }\n\
                 \x20 - { api: Produce, error_after: REQUEST_TIMED_OUT, every_nth: 13 }\n";
    let result = scripted(rules);
    check_whole(&result, Some(800), 1);
    let kinds: Vec<&str> = result.errors.iter().map(|error| error.kind.as_str()).collect();
    assert!(
        kinds.contains(&"NOT_ENOUGH_REPLICAS") && kinds.contains(&"REQUEST_TIMED_OUT"),
        "{kinds:?}"
    );
}

#[test]
fn a_transaction_with_a_refused_batch_is_aborted_and_its_records_are_told_apart() {
    let rules = "  - { api: Produce, error: INVALID_RECORD, every_nth: 100 }\n";
    let properties = ["transactional.id=t", "isolation.level=read_committed"];
    let result = scripted_with(rules, &["transactionDuration=100ms"], &properties);
    let totals = &result.whole_run;
    let transactions = totals.transactions.expect("some were made");
    assert!(
        transactions.aborted_count > 0 && transactions.committed_count > transactions.aborted_count,
        "{transactions:?}"
    );
    // Readers got what was committed, and that whole.
    let acknowledged = totals.acknowledged_count.unwrap();
    assert!(
        totals.refused_count > 0 && transactions.aborted_records_count > 0,
        "{totals:?}"
    );
    let committed = acknowledged - transactions.aborted_records_count;
    assert_eq!(totals.consumed[0].records_count, committed);
    let found = totals.verification.unwrap();
    assert!(!found.found_damage(), "{found:?}");
    // What was aborted stands in the log all the same.
    assert_eq!(totals.confirmed_count, Some(acknowledged));
    let abort = result.measured().unwrap().latency(Metric::Abort);
    assert!(abort.is_some_and(|abort| abort.count == transactions.aborted_count));
    assert_eq!(
        result.verdict.as_ref().and_then(|verdict| verdict.sustained),
        Some(false)
    );
}

/// Runs it, and changes its only topic once records have been acknowledged.
fn run_changing(plan: LoadPlan, change: impl Fn(&mut Admin, &str)) -> RunResult {
    let topic = load::prepare::topic_names(&plan).remove(0);
    let clock = RunClock::start();
    let config = plan.target.admin.config.clone();
    let mut admin = Some(Admin::connect(&config, clock, Duration::from_secs(10)).expect("it serves"));
    let mut sink = |event: LoadEvent<'_>| {
        if let LoadEvent::Progress(progress) = event
            && progress.acknowledged_per_second > 0.0
            && let Some(mut admin) = admin.take()
        {
            change(&mut admin, &topic);
        }
        Ok(())
    };
    let ended = load::run(plan, clock, &Interrupt::new(), &mut sink).expect("it runs");
    assert!(admin.is_none(), "the topic was changed");
    ended.result
}

#[test]
fn partitions_that_are_added_under_load_are_produced_to_and_verified_as_the_others() {
    let brokers = brokers();
    let keys = [
        "topics=1",
        "partitionsPerTopic=2",
        "producerRate=5000",
        "consumerPerSubscription=1",
        "warmupDuration=0s",
        "testDuration=6s",
    ];
    let plan = plan(&brokers.bootstrap(), &keys, &["metadata.max.age.ms=500"]);
    let result = run_changing(plan, |admin, topic| {
        admin.create_partitions(topic, 5).expect("two become five");
    });
    check_whole(&result, Some(30_000), 1);
    assert_eq!(result.topics[0].partitions_count, 5);
    let acknowledged: Vec<u64> = result
        .partitions
        .iter()
        .map(|partition| partition.acknowledged_count)
        .collect();
    assert_eq!(acknowledged.len(), 5);
    assert!(acknowledged.iter().all(|&count| count > 0), "{acknowledged:?}");
}

#[test]
fn a_topic_that_is_made_anew_under_load_is_told_and_left_to_whom_it_belongs() {
    let brokers = brokers();
    let keys = [
        "topics=1",
        "partitionsPerTopic=2",
        "producerRate=1000",
        "warmupDuration=0s",
        "testDuration=6s",
    ];
    let plan = plan(&brokers.bootstrap(), &keys, &["metadata.max.age.ms=500"]);
    let config = plan.target.admin.config.clone();
    let name = load::prepare::topic_names(&plan).remove(0);
    let result = run_changing(plan, |admin, topic| {
        admin.delete_topics(&[topic.to_owned()]).expect("it is deleted");
        let again = NewTopic {
            name: topic.to_owned(),
            layout: Layout::Counts {
                partitions: Some(2),
                replication_factor: Some(3),
            },
            configs: BTreeMap::new(),
        };
        admin.create_topics(&[again], false).expect("it is made again");
    });
    let totals = &result.whole_run;
    assert_eq!(
        totals.due_count,
        Some(totals.sent_count + totals.unsent_count.unwrap())
    );
    assert_eq!(totals.confirmed_count, None, "of which of the two topics?");
    let found = totals.verification.expect("consumers verify");
    assert_eq!((found.lost_count, found.unread_count), (None, None));
    let codes: Vec<&str> = result.warnings.iter().map(|warning| &*warning.code).collect();
    assert!(codes.contains(&"topic-made-again"), "{codes:?}");
    let mut admin = Admin::connect(&config, RunClock::start(), Duration::from_secs(10)).expect("it serves");
    let left = admin
        .topics(Some(std::slice::from_ref(&name)))
        .expect("it answers");
    assert_eq!(left[&name].partitions.len(), 2, "another made it: it stays");
}
