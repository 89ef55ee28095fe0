//! Runs on embedded brokers, from the command line to the result.

use crate::process::{Brokers, Scratch, finish, pause, signal};
use serde_json::Value;
use std::fs;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// A load that is over soon.
const SHORT: [&str; 6] = ["--rate", "2000", "--warmup", "0", "--duration", "2s"];

#[track_caller]
fn count(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("a count is missing: {value}"))
}

/// The program with piped output, running.
fn spawn(scratch: &Scratch, arguments: &[&str]) -> Child {
    scratch
        .command(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("plimsoll runs")
}

#[test]
fn without_a_cluster_every_record_goes_through_brokers_of_its_own() {
    let scratch = Scratch::new("embedded");
    let ended = scratch.run(&[&["run"], &SHORT[..]].concat()).succeeded();
    assert!(
        ended
            .stderr
            .contains("no cluster named: started 3 embedded brokers"),
        "{}",
        ended.stderr
    );
    assert!(
        ended.stderr.contains("-topic-0000"),
        "the topic is named: {}",
        ended.stderr
    );
    let result = scratch.result();
    let totals = &result["whole_run"];
    let acknowledged = count(&totals["acknowledged_count"]);
    assert!((3_990..=4_000).contains(&acknowledged), "{totals:#}");
    assert_eq!(
        count(&totals["due_count"]),
        count(&totals["unsent_count"]) + count(&totals["sent_count"]),
        "{totals:#}"
    );
    assert_eq!(count(&totals["confirmed_count"]), acknowledged, "{totals:#}");
    assert_eq!(
        count(&totals["consumed"][0]["records_count"]),
        acknowledged,
        "{totals:#}"
    );
    assert_eq!(result["status"]["state"], "complete");
    assert_eq!(result["target"]["embedded"], true);
    assert_eq!(
        result["reproduce"],
        "plimsoll run --set producerRate=2000 --set warmupDuration=0s --set testDuration=2s"
    );
    let folder = scratch.results().remove(0);
    assert!(
        ended
            .stdout
            .contains(folder.file_name().and_then(|name| name.to_str()).expect("a name")),
        "{}",
        ended.stdout
    );
    let series = fs::read_to_string(folder.join("series.hlog")).expect("series.hlog");
    assert!(
        series
            .lines()
            .filter(|line| !line.starts_with(['#', '"']))
            .count()
            > 2,
        "{series}"
    );
    let mut files: Vec<_> = fs::read_dir(&folder)
        .expect("a folder")
        .map(|entry| entry.expect("a file").file_name())
        .collect();
    files.sort();
    assert_eq!(files, ["result.json", "series.hlog"]);
}

#[test]
fn json_on_the_standard_output_is_the_result() {
    let scratch = Scratch::new("json");
    let ended = scratch
        .run(&[&["run", "--json", "--quiet"], &SHORT[..]].concat())
        .succeeded();
    assert_eq!(
        serde_json::from_str::<Value>(&ended.stdout).expect("JSON"),
        scratch.result()
    );
    assert_eq!(ended.stderr, "");
}

#[test]
fn topics_are_removed_kept_or_left_alone_as_asked() {
    let brokers = Brokers::start(&["--brokers", "3"]);
    let scratch = Scratch::new("traces");
    let run = |arguments: &[&str]| {
        scratch.run(
            &[
                &["run", "--bootstrap-server", &brokers.bootstrap],
                &SHORT[..],
                arguments,
            ]
            .concat(),
        )
    };
    run(&[]).succeeded();
    assert_eq!(brokers.topics(), [""; 0]);

    run(&["--topic", "orders", "--keep"]).succeeded();
    assert_eq!(brokers.topics(), ["orders"]);

    let refused = run(&["--topic", "orders"]);
    assert_eq!(refused.status, Some(1));
    assert!(
        refused.stderr.contains("topic orders exists already") && refused.stderr.contains("--existing"),
        "{}",
        refused.stderr
    );

    let absent = run(&["--topic", "payments", "--existing"]);
    assert_eq!(absent.status, Some(1));
    assert!(absent.stderr.contains("topic payments"), "{}", absent.stderr);

    run(&["--topic", "orders", "--existing"]).succeeded();
    assert_eq!(brokers.topics(), ["orders"]);
}

#[test]
fn a_topic_that_exists_is_read_without_producing() {
    let brokers = Brokers::start(&["--brokers", "1"]);
    let produce = Scratch::new("preload");
    let produced = [
        "run",
        "--bootstrap-server",
        &brokers.bootstrap,
        "--topic",
        "orders",
        "--keep",
        "--subscriptions",
        "0",
    ];
    produce
        .run(&[&produced[..], &["--rate", "max", "--records", "5000"]].concat())
        .succeeded();
    let consume = Scratch::new("consume");
    let consumed = [
        "run",
        "--bootstrap-server",
        &brokers.bootstrap,
        "--topic",
        "orders",
        "--producers-per-topic",
        "0",
    ];
    consume
        .run(&[&consumed[..], &["--from", "earliest", "--records", "5000"]].concat())
        .succeeded();
    let totals = &consume.result()["whole_run"];
    assert_eq!(
        count(&totals["consumed"][0]["records_count"]),
        5_000,
        "{totals:#}"
    );
    assert_eq!(brokers.topics(), ["orders"]);
}

/// Waits until a run of a second or more has load on it.
#[track_caller]
fn await_load(scratch: &Scratch) {
    let begun = Instant::now();
    let has_series = || {
        let results = scratch.results();
        let series = results
            .first()
            .and_then(|folder| fs::read_to_string(folder.join("series.hlog")).ok());
        series.is_some_and(|series| series.lines().any(|line| !line.starts_with(['#', '"'])))
    };
    while !has_series() {
        assert!(begun.elapsed() < Duration::from_secs(30), "no load began");
        pause(Duration::from_millis(20));
    }
}

#[test]
fn an_interrupted_run_tells_what_it_measured() {
    for name in ["INT", "TERM"] {
        let brokers = Brokers::start(&["--brokers", "1"]);
        let scratch = Scratch::new(&format!("interrupted-{name}"));
        let run = spawn(
            &scratch,
            &[
                "run",
                "--bootstrap-server",
                &brokers.bootstrap,
                "--rate",
                "2000",
                "--duration",
                "60s",
            ],
        );
        await_load(&scratch);
        let begun = Instant::now();
        signal(&run, name);
        let ended = finish(run);
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
        assert_eq!(ended.status, Some(130), "{}", ended.stderr);
        let result = scratch.result();
        assert_eq!(result["status"]["state"], "partial");
        let totals = &result["whole_run"];
        assert!(count(&totals["acknowledged_count"]) > 0, "{totals:#}");
        assert_eq!(
            count(&totals["sent_count"]),
            count(&totals["acknowledged_count"]),
            "{totals:#}"
        );
        assert!(!ended.stdout.is_empty(), "a summary is expected");
        assert_eq!(brokers.topics(), [""; 0]);
    }
}

#[test]
fn a_second_signal_ends_at_once() {
    let brokers = Brokers::start(&["--brokers", "1"]);
    let scratch = Scratch::new("interrupted-twice");
    let run = spawn(
        &scratch,
        &[
            "run",
            "--bootstrap-server",
            &brokers.bootstrap,
            "--rate",
            "2000",
            "--duration",
            "60s",
        ],
    );
    await_load(&scratch);
    // The brokers stand still, so that what was sent would be awaited for long.
    signal(&brokers.child, "STOP");
    signal(&run, "INT");
    pause(Duration::from_millis(300));
    let begun = Instant::now();
    signal(&run, "INT");
    let ended = finish(run);
    signal(&brokers.child, "CONT");
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    assert_eq!(ended.status, Some(130), "{}", ended.stderr);
}

#[test]
fn a_full_disk_ends_the_run_with_its_summary() {
    let brokers = Brokers::start(&["--brokers", "1"]);
    let scratch = Scratch::new("full-disk");
    // A limit on the size of files, met as an error and not as a signal, is what a full disk is to the writer.
    let script = format!(
        "trap '' XFSZ; ulimit -f 1; exec '{}' run --bootstrap-server {} --rate 2000 --warmup 0 --duration 60s",
        env!("CARGO_BIN_EXE_plimsoll"),
        brokers.bootstrap
    );
    let mut shell = std::process::Command::new("sh");
    shell
        .args(["-c", &script])
        .current_dir(scratch.path())
        .stdin(Stdio::null());
    let begun = Instant::now();
    let ended = finish(
        shell
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("sh runs"),
    );
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    assert_eq!(ended.status, Some(1), "{}", ended.stderr);
    assert!(
        ended
            .stderr
            .contains("series.hlog cannot be written: File too large; the run was ended"),
        "{}",
        ended.stderr
    );
    assert!(
        ended.stdout.contains("acknowledged"),
        "a summary is expected: {}",
        ended.stdout
    );
    assert_eq!(brokers.topics(), [""; 0]);
}

#[test]
fn more_replicas_than_brokers_leave_nothing_behind() {
    let brokers = Brokers::start(&["--brokers", "2"]);
    let scratch = Scratch::new("replicas");
    let ended = scratch.run(&[
        "run",
        "--bootstrap-server",
        &brokers.bootstrap,
        "--replication-factor",
        "3",
    ]);
    assert_eq!(ended.status, Some(1));
    assert!(
        ended.stderr.contains("INVALID_REPLICATION_FACTOR"),
        "{}",
        ended.stderr
    );
    assert_eq!(brokers.topics(), [""; 0]);
    assert!(scratch.results().is_empty() && !scratch.path().join("plimsoll-runs").exists());
}

#[test]
fn records_too_large_for_client_or_broker_are_refused_before_load() {
    let brokers = Brokers::start(&["--brokers", "1"]);
    let scratch = Scratch::new("too-large");
    let run = |arguments: &[&str]| {
        scratch.run(&[&["run", "--bootstrap-server", &brokers.bootstrap], arguments].concat())
    };
    let client = run(&["--record-size", "2MiB"]);
    assert_eq!(client.status, Some(1));
    assert!(client.stderr.contains("max.request.size"), "{}", client.stderr);
    let broker = run(&[
        "--rate",
        "10",
        "--record-size",
        "10000",
        "--topic-config",
        "max.message.bytes=5000",
    ]);
    assert_eq!(broker.status, Some(1));
    assert!(broker.stderr.contains("max.message.bytes"), "{}", broker.stderr);
    assert_eq!(brokers.topics(), [""; 0]);
}

#[test]
fn one_dead_bootstrap_server_of_three_is_one_warning() {
    let brokers = Brokers::start(&["--brokers", "2"]);
    let scratch = Scratch::new("one-dead");
    let servers = format!("127.0.0.1:1,{}", brokers.bootstrap);
    let ended = scratch
        .run(&[&["run", "--quiet", "--bootstrap-server", &servers], &SHORT[..]].concat())
        .succeeded();
    let warnings = ended
        .stderr
        .lines()
        .filter(|line| line.starts_with("plimsoll: warning: "))
        .count();
    assert_eq!(warnings, 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("127.0.0.1:1"), "{}", ended.stderr);
}

#[test]
fn without_acknowledgements_none_is_claimed() {
    let scratch = Scratch::new("acks-0");
    let ended = scratch
        .run(&[&["run", "-X", "acks=0"], &SHORT[..]].concat())
        .succeeded();
    let totals = &scratch.result()["whole_run"];
    assert_eq!(totals.get("acknowledged_count"), None, "{totals:#}");
    assert!(count(&totals["written_count"]) > 0, "{totals:#}");
    assert!(
        ended.stdout.to_lowercase().contains("no broker ack"),
        "{}",
        ended.stdout
    );
}

#[test]
fn an_advertised_listener_that_cannot_be_reached_is_named_with_the_usual_cause() {
    let brokers = Brokers::start(&["--brokers", "1", "--advertised-host", "no-such-host.invalid"]);
    let port = brokers.bootstrap.rsplit(':').next().expect("a port");
    let scratch = Scratch::new("advertised");
    let ended = scratch.run(&["run", "--bootstrap-server", &format!("127.0.0.1:{port}")]);
    assert_eq!(ended.status, Some(1));
    assert!(
        ended.stderr.contains("no-such-host.invalid") && ended.stderr.contains("advertised.listeners"),
        "{}",
        ended.stderr
    );
}

#[test]
fn records_that_failed_make_the_run_fail() {
    let brokers = Brokers::start(&["--brokers", "1"]);
    let scratch = Scratch::new("failed-records");
    let settings = [
        "-X",
        "delivery.timeout.ms=2000",
        "-X",
        "request.timeout.ms=1000",
        "-X",
        "linger.ms=0",
        "-X",
        // How long the removal of the topic is tried, which nobody will answer.
        "default.api.timeout.ms=3000",
    ];
    let load = [
        "--rate",
        "1000",
        "--warmup",
        "0",
        "--duration",
        "6s",
        "--subscriptions",
        "0",
        "--drain-timeout",
        "5s",
    ];
    let run = spawn(
        &scratch,
        &[
            &["run", "--bootstrap-server", &brokers.bootstrap],
            &settings[..],
            &load,
        ]
        .concat(),
    );
    await_load(&scratch);
    signal(&brokers.child, "KILL");
    let ended = finish(run);
    assert_eq!(ended.status, Some(1), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("records sent were not acknowledged"),
        "{}",
        ended.stderr
    );
    let totals = &scratch.result()["whole_run"];
    let sum = [
        "acknowledged_count",
        "refused_count",
        "unknown_count",
        "unfinished_count",
    ]
    .map(|key| count(&totals[key]));
    assert_eq!(
        count(&totals["sent_count"]),
        sum.iter().sum::<u64>(),
        "{totals:#}"
    );
    assert_eq!(
        count(&totals["due_count"]),
        count(&totals["unsent_count"]) + count(&totals["sent_count"]),
        "{totals:#}"
    );
}
