//! What is wrong is said in one message that names the place, and the exit status tells usage from failure.

use crate::process::Scratch;

/// Runs the program, which must end with that status and say exactly this.
#[track_caller]
fn check(test: &str, arguments: &[&str], status: i32, expected: &str) {
    let scratch = Scratch::new(test);
    scratch.write(
        "typo.yaml",
        "topics: 1\npartitionsPerTopic: 1\nproducersRate: 500\n",
    );
    scratch.write("small.data", "0123456789");
    scratch.write("empty.data", "");
    scratch.write("client.properties", "acks=all\nlinger.mss=5\n");
    scratch.write("a-file", "");
    let ended = scratch.run(arguments);
    assert_eq!(ended.stderr, expected);
    assert_eq!((ended.status, ended.stdout.as_str()), (Some(status), ""));
    assert!(
        scratch.results().is_empty(),
        "a result of a run that was not begun"
    );
}

/// The same where the message ends with what the allowed keys are.
#[track_caller]
fn check_start(test: &str, arguments: &[&str], status: i32, expected: &str) {
    let scratch = Scratch::new(test);
    scratch.write("typo.yaml", "topics: 1\npartitionsPerTopic: 1\nproducersRate: 500\nmessageSize: 1\nproducersPerTopic: 1\ntestDurationMinutes: 1\n");
    let ended = scratch.run(arguments);
    assert!(ended.stderr.starts_with(expected), "{}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert_eq!(ended.status, Some(status));
}

#[test]
fn rates_sizes_and_times_that_make_no_sense_are_refused() {
    check(
        "zero-rate",
        &["run", "--rate", "0"],
        2,
        "plimsoll: error: --rate: producerRate = 0: 0 asks OMB to search for the highest rate, which is not served here; give \
         a rate such as 10000, or max to send as fast as the cluster acknowledges\n",
    );
    check(
        "negative-rate",
        &["run", "--rate", "-5"],
        2,
        "plimsoll: error: --rate: producerRate = -5: a rate must be greater than zero; or give max to send as fast as the \
         cluster acknowledges\n",
    );
    check(
        "absurd-rate",
        &["run", "--rate", "1000000000000"],
        2,
        "plimsoll: error: --rate: producerRate = 1000000000000: a rate above 100 million records/s is more than any generator \
         reaches; or give max to send as fast as the cluster acknowledges\n",
    );
    check(
        "negative-size",
        &["run", "--record-size", "-1"],
        2,
        "plimsoll: error: --record-size: messageSize = -1: must not be negative\n",
    );
    check(
        "absurd-size",
        &["run", "--record-size", "2GiB"],
        2,
        "plimsoll: error: --record-size: messageSize = 2GiB: must be at most 1GiB\n",
    );
    check(
        "zero-duration",
        &["run", "--duration", "0s"],
        2,
        "plimsoll: error: --duration: testDuration = 0s: the measured phase must be longer than 0; OMB reads 0 as for ever: \
         give a long duration such as testDuration: 24h and stop it with Ctrl-C\n",
    );
    check(
        "negative-duration",
        &["run", "--duration", "-5s"],
        2,
        "plimsoll: error: --duration: testDuration = -5s: a duration must not be negative\n",
    );
    check(
        "absurd-duration",
        &["run", "--duration", "1000d"],
        2,
        "plimsoll: error: --duration: testDuration = 1000d: at most 366d\n",
    );
    check(
        "zero-topics",
        &["run", "--topics", "0", "--partitions", "0"],
        2,
        "plimsoll: error: --topics: topics = 0: must be at least 1\n\
         plimsoll: error: --partitions: partitionsPerTopic = 0: must be at least 1\n",
    );
    check(
        "zero-replication",
        &["run", "--replication-factor", "0"],
        2,
        "plimsoll: error: --replication-factor: replicationFactor = 0: must be a whole number from 1 to the number of brokers; \
         leave it out for the cluster's default\n",
    );
}

#[test]
fn misspelt_keys_and_properties_name_the_nearest() {
    check_start(
        "typo-key",
        &["run", "typo.yaml"],
        2,
        "plimsoll: error: typo.yaml:3: producersRate = 500: unknown key; did you mean producerRate? Allowed: name, topics, ",
    );
    check(
        "typo-property",
        &["run", "--command-config", "client.properties"],
        2,
        "plimsoll: error: client.properties:2: linger.mss = 5: Kafka's clients have no such property; did you mean linger.ms?\n",
    );
    check(
        "typo-topics-property",
        &[
            "topics",
            "list",
            "--bootstrap-server",
            "127.0.0.1:1",
            "-X",
            "linger.mss=5",
        ],
        2,
        "plimsoll: error: -X: linger.mss = 5: Kafka's clients have no such property; did you mean linger.ms?\n",
    );
}

#[test]
fn payload_files_that_do_not_fit_are_refused() {
    check(
        "no-payload",
        &["run", "--payload-file", "none.data"],
        2,
        "plimsoll: error: --payload-file: payloadFile = none.data: the file cannot be read: No such file or directory\n",
    );
    check(
        "empty-payload",
        &["run", "--payload-file", "empty.data"],
        2,
        "plimsoll: error: --payload-file: payloadFile = empty.data: the file is empty, and messageSize is 1024\n",
    );
    check(
        "wrong-payload",
        &["run", "--payload-file", "small.data", "--record-size", "100"],
        2,
        "plimsoll: error: --payload-file: payloadFile = small.data: the file has 10 bytes, and messageSize is 100; set \
         messageSize: 10 or give a file of 100 bytes\n",
    );
}

#[test]
fn a_result_folder_that_cannot_be_made_ends_the_run_before_it_begins() {
    check(
        "no-folder",
        &["run", "--output", "a-file/runs"],
        1,
        "plimsoll: error: a-file/runs cannot be made: Not a directory; the result of the run would be lost, so nothing was \
         started: choose another --output\n",
    );
}

#[test]
fn what_is_no_option_is_told_with_the_usage() {
    let ended = Scratch::new("usage").run(&["run", "--prodcuers-per-topic", "3"]);
    assert_eq!(ended.status, Some(2));
    let expected = "plimsoll: error: unexpected argument '--prodcuers-per-topic' found\n\n  tip: a similar argument exists: \
                    '--producers-per-topic'\n";
    assert!(ended.stderr.starts_with(expected), "{}", ended.stderr);
}

#[test]
fn times_and_records_do_not_go_together() {
    let ended = Scratch::new("conflict").run(&["run", "--duration", "5s", "--records", "10"]);
    assert_eq!(ended.status, Some(2));
    let expected = "plimsoll: error: the argument '--duration <TIME>' cannot be used with '--records <N>'\n";
    assert!(ended.stderr.starts_with(expected), "{}", ended.stderr);
}

#[test]
fn nothing_listens_at_the_address() {
    let scratch = Scratch::new("nobody");
    let begun = std::time::Instant::now();
    let ended = scratch.run(&["run", "--quiet", "--bootstrap-server", "127.0.0.1:1"]);
    assert!(begun.elapsed().as_secs() < 30, "{:?}", begun.elapsed());
    assert_eq!(ended.status, Some(1));
    let told = "plimsoll: error: connecting: no bootstrap server answers: 127.0.0.1:1: cannot connect (";
    assert!(ended.stderr.starts_with(told), "{}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert!(scratch.results().is_empty());
}

#[test]
fn a_name_that_does_not_resolve_is_told() {
    let scratch = Scratch::new("nameless");
    let ended = scratch.run(&[
        "topics",
        "list",
        "--bootstrap-server",
        "no-such-host.invalid:9092",
    ]);
    assert_eq!(ended.status, Some(1));
    let told = "plimsoll: error: no bootstrap server answers: no-such-host.invalid:9092: the name does not resolve (";
    assert!(ended.stderr.starts_with(told), "{}", ended.stderr);
}

#[test]
fn a_dry_run_starts_nothing() {
    let scratch = Scratch::new("dry-run");
    let ended = scratch.run(&["run", "--dry-run", "--rate", "5000"]).succeeded();
    assert!(
        ended
            .stdout
            .contains("  producerRate                             5000                     --rate\n")
    );
    assert!(
        ended
            .stdout
            .contains("\nreproduce\n  plimsoll run --set producerRate=5000\n"),
        "{}",
        ended.stdout
    );
    assert_eq!(ended.stderr, "");
    assert!(scratch.results().is_empty());
}
