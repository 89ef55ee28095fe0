//! Two runs that are two halves of one load, the second with its clocks shifted.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::embedded::Embedded;
use crate::program;
use crate::run::{Scratch, count};

/// By how much faketime shifts the receiver's clocks.
const SHIFT_NS: i64 = -250_000_000;

/// One half of a load ; the other half has the same run id.
fn half(bootstrap: &str, shift: Option<&str>, arguments: &[&str]) -> Command {
    let mut command = match shift {
        Some(shift) => {
            let mut faketime = Command::new("faketime");
            faketime.args(["-f", shift]).arg(crate::plimsoll());
            faketime
        }
        None => Command::new(crate::plimsoll()),
    };
    command.args(["run", "--bootstrap-server", bootstrap, "--run-id", "two-halves"]);
    command.args(["--topic", "shared", "--existing"]).args(arguments);
    command
}

const SENDING: [&str; 10] = [
    "--subscriptions",
    "0",
    "--rate",
    "1000",
    "--warmup",
    "1s",
    "--duration",
    "4s",
    "--record-size",
    "100",
];
const RECEIVING: [&str; 10] = [
    "--producers-per-topic",
    "0",
    "--subscriptions",
    "1",
    "--consumers-per-subscription",
    "1",
    "--warmup",
    "1s",
    "--duration",
    "9s",
];

/// The topic that both halves were told.
fn make_topic(bootstrap: &str) {
    let mut command = Command::new(crate::plimsoll());
    command.args([
        "topics",
        "create",
        "shared",
        "--partitions",
        "3",
        "--bootstrap-server",
        bootstrap,
    ]);
    program::run(&mut command, "", Duration::from_secs(20)).succeeded();
}

/// Runs a sender while a receiver reads, and gives the results of both.
fn both_halves(test: &str, shift: Option<&str>) -> (Value, Value) {
    let brokers = Embedded::start(1);
    let bootstrap = brokers.bootstrap.clone();
    make_topic(&bootstrap);
    let (sender, receiver) = (
        Scratch::new(&format!("{test}-sender")),
        Scratch::new(&format!("{test}-receiver")),
    );
    let receiving = std::thread::spawn({
        let command = half(&bootstrap, shift, &RECEIVING);
        move || receiver.run_command(command)
    });
    // It has to be assigned before the first record is sent, or it would not read that one.
    await_receiver(&bootstrap);
    let sent = sender.run_command(half(&bootstrap, None, &SENDING));
    let received = receiving.join().expect("the receiver's result");
    let mut list = Command::new(crate::plimsoll());
    list.args(["topics", "list", "--bootstrap-server", &bootstrap]);
    let left = program::run(&mut list, "", Duration::from_secs(20)).succeeded();
    assert!(
        !left.contains("-clock"),
        "the topic of the clocks is left: {left}"
    );
    (sent, received)
}

/// Waits until the receiver has begun.
fn await_receiver(bootstrap: &str) {
    for _ in 0..100 {
        let mut list = Command::new(crate::plimsoll());
        list.args(["topics", "list", "--bootstrap-server", bootstrap]);
        let told = program::run(&mut list, "", Duration::from_secs(20)).succeeded();
        if told.contains("-clock") {
            // The receiver makes that topic, and is assigned a moment later.
            std::thread::sleep(Duration::from_secs(1));
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("the receiver did not begin");
}

fn end_to_end(result: &Value) -> (u64, u64) {
    let phases = result["phases"].as_array().expect("phases").iter();
    let of_phase = phases.flat_map(|phase| phase["latencies"].as_array().into_iter().flatten());
    let latencies: Vec<&Value> = of_phase
        .filter(|latency| latency["metric"] == "end_to_end")
        .collect();
    let samples = latencies.iter().map(|latency| count(&latency["count"])).sum();
    let median = latencies.iter().map(|latency| count(&latency["p50_ns"])).max();
    (samples, median.expect("end-to-end latencies"))
}

#[test]
fn a_receiver_whose_clock_is_behind_says_by_how_much_and_times_every_record() {
    let (sent, received) = both_halves("clocks-shifted", Some("-0.25s"));
    let records = count(&sent["whole_run"]["acknowledged_count"]);
    assert_eq!(received["clock_domain"], "compared", "{received:#}");
    let offset_ns = received["clocks"]["wall_offset_ns"].as_i64().expect("an offset");
    let bound_ns = count(&received["clocks"]["bound_ns"]);
    // Wall clocks are read once a process, and a step of the host's between the two reads adds to the offset.
    assert!(
        offset_ns.abs_diff(SHIFT_NS) <= bound_ns + 1_000_000,
        "{offset_ns} ± {bound_ns}"
    );
    assert!(bound_ns <= 20_000_000, "{bound_ns}");
    let (samples, median_ns) = end_to_end(&received);
    assert_eq!(samples, records, "{received:#}");
    assert!(median_ns < 100_000_000, "{median_ns}: the shift is in it");
    let found = &received["whole_run"]["verification"];
    assert_eq!(count(&found["checked_count"]), records, "{found:#}");
    for none in [
        "duplicated_count",
        "reordered_count",
        "foreign_count",
        "corrupt_count",
    ] {
        assert_eq!(count(&found[none]), 0, "{none}: {found:#}");
    }
    assert!(
        found.get("lost_count").is_none(),
        "only the sender knows: {found:#}"
    );
}

#[test]
fn without_the_senders_clock_every_record_is_timed_and_the_figures_are_marked_invalid() {
    let brokers = Embedded::start(1);
    make_topic(&brokers.bootstrap);
    // The sender has ended before the receiver begins: nobody answers.
    let sender = Scratch::new("clocks-unknown-sender");
    let sent = sender.run_command(half(&brokers.bootstrap, None, &SENDING));
    let records = count(&sent["whole_run"]["acknowledged_count"]);
    let receiver = Scratch::new("clocks-unknown-receiver");
    let reading = [
        &RECEIVING[..6],
        &["--from", "earliest", "--warmup", "0", "--records"],
    ]
    .concat();
    let all = records.to_string();
    let command = half(
        &brokers.bootstrap,
        None,
        &[&reading[..], &[all.as_str()]].concat(),
    );
    let received = receiver.run_command(command);
    assert_eq!(received["clock_domain"], "unknown", "{received:#}");
    assert_eq!(count(&received["clocks"]["unplaced_count"]), records);
    assert_eq!(end_to_end(&received).0, records);
    let warnings = received["warnings"].as_array().expect("warnings");
    assert!(
        warnings
            .iter()
            .any(|warning| warning["code"] == "clocks-not-compared"),
        "{warnings:#?}"
    );
}
