//! `plimsoll broker` as a process.

use crate::process::{Brokers, Scratch, signal, wait};
use std::io::Read;
use std::time::Duration;

#[test]
fn it_tells_where_each_broker_is_and_ends_in_order_on_a_signal() {
    for name in ["INT", "TERM"] {
        let mut brokers = Brokers::start(&["--brokers", "2"]);
        assert_eq!(brokers.bootstrap.split(',').count(), 2, "{}", brokers.bootstrap);
        signal(&brokers.child, name);
        assert_eq!(
            wait(&mut brokers.child, Duration::from_secs(5)),
            Some(0),
            "SIG{name}"
        );
        let mut rest = String::new();
        brokers.stdout.read_to_string(&mut rest).expect("text");
        assert_eq!(rest, "", "the bootstrap line is the last one");
    }
}

#[test]
fn brokers_of_a_run_end_with_its_pipe_and_no_others_do() {
    let mut bound = Brokers::start(&["--brokers", "1", "--until-stdin-closes"]);
    let mut free = Brokers::start(&["--brokers", "1"]);
    drop(bound.child.stdin.take());
    drop(free.child.stdin.take());
    assert_eq!(wait(&mut bound.child, Duration::from_secs(5)), Some(0));
    assert_eq!(free.child.try_wait().expect("a process"), None);
}

#[track_caller]
fn check_refused(test: &str, arguments: &[&str], status: i32, expected: &str) {
    let ended = Scratch::new(test).run(&[&["broker"], arguments].concat());
    assert_eq!(ended.stderr, expected);
    assert_eq!((ended.status, ended.stdout.as_str()), (Some(status), ""));
}

#[test]
fn what_cannot_be_is_refused() {
    check_refused(
        "no-brokers",
        &["--brokers", "0", "--listen", "127.0.0.1:0"],
        2,
        "plimsoll: error: the number of brokers must be from 1 to 1000, not 0\n",
    );
    check_refused(
        "no-such-property",
        &["--listen", "127.0.0.1:0", "--property", "num.partition=3"],
        2,
        "plimsoll: error: Unknown broker config name: num.partition\n",
    );
    check_refused(
        "no-assignment",
        &["--listen", "127.0.0.1:0", "--property", "num.partitions"],
        2,
        "plimsoll: error: --property num.partitions: it is not NAME=VALUE, such as num.partitions=6\n",
    );
    let brokers = Brokers::start(&["--brokers", "1"]);
    let taken = &brokers.bootstrap;
    check_refused(
        "taken",
        &["--brokers", "1", "--listen", taken],
        1,
        &format!(
            "plimsoll: error: the embedded broker cannot listen at {taken}: Address already in use; something listens there \
             already: choose another port than that of --listen {taken}, or port 0 for any free one\n"
        ),
    );
}
