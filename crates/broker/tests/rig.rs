//! The measuring rig on sockets: what comes when, what does not come, and what brokers can be told while they run.

use broker::{Config, Handle, known_names};
use model::broker_script::BrokerScript;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

fn script(rules: &str) -> BrokerScript {
    let (apis, errors) = known_names();
    BrokerScript::parse("s.yaml", &format!("rules:\n{rules}"), &apis, &errors).expect("a sound script")
}

fn brokers(rules: &str) -> Handle {
    broker::start(Config {
        brokers: 2,
        script: (!rules.is_empty()).then(|| script(rules)),
        control: Some(([127, 0, 0, 1], 0).into()),
        ..Config::default()
    })
    .expect("brokers")
}

fn connect(handle: &Handle, index: usize) -> TcpStream {
    let stream = TcpStream::connect(handle.addresses()[index]).expect("it listens");
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("a time-out");
    stream
}

/// ApiVersions 0 with that correlation id; gives the one of the answer.
fn ask(stream: &mut TcpStream, correlation_id: i32) -> std::io::Result<i32> {
    let mut request = vec![0, 0, 0, 10, 0, 18, 0, 0];
    request.extend(correlation_id.to_be_bytes());
    request.extend([0xff, 0xff]);
    stream.write_all(&request)?;
    answer(stream)
}

fn answer(stream: &mut TcpStream) -> std::io::Result<i32> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut body = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut body)?;
    Ok(i32::from_be_bytes(*body.first_chunk().expect("a correlation id")))
}

#[test]
fn an_answer_that_is_delayed_comes_no_sooner_and_in_its_place() {
    let handle = brokers("  - { api: ApiVersions, broker: 1, delay: 60ms }\n");
    let mut stream = connect(&handle, 0);
    let began = Instant::now();
    for correlation_id in 0..3 {
        assert_eq!(
            ask(&mut stream, correlation_id).expect("an answer"),
            correlation_id
        );
    }
    assert!(
        began.elapsed() >= Duration::from_millis(180),
        "{:?}",
        began.elapsed()
    );
    // The other broker answers at once: far sooner than the delay, even on a busy machine, at one try of several.
    let mut other = connect(&handle, 1);
    let quickest = (0..20).map(|id| {
        let began = Instant::now();
        assert_eq!(ask(&mut other, id).expect("an answer"), id);
        began.elapsed()
    });
    assert!(quickest.min().expect("tries") < Duration::from_millis(60));
}

/// ApiVersions 1, whose answer ends in the throttle time; gives that.
fn throttle_time(stream: &mut TcpStream) -> i32 {
    let request = [0, 0, 0, 10, 0, 18, 0, 1, 0, 0, 0, 7, 0xff, 0xff];
    stream.write_all(&request).expect("sent");
    let mut length = [0; 4];
    stream.read_exact(&mut length).expect("an answer");
    let mut body = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut body).expect("an answer");
    i32::from_be_bytes(*body.last_chunk().expect("a number"))
}

#[test]
fn who_is_told_to_hold_back_is_answered_at_once_and_not_read_until_then() {
    let handle = brokers("  - { api: ApiVersions, broker: 1, throttle_time: 300ms, requests: 1 }\n");
    let mut stream = connect(&handle, 0);
    let began = Instant::now();
    assert_eq!(throttle_time(&mut stream), 300);
    assert_eq!(throttle_time(&mut stream), 0, "but only the first one says so");
    let until = began.elapsed();
    assert!(until >= Duration::from_millis(300), "{until:?}");
    // Other connections are answered at once: at one try of several, even on a busy machine.
    let mut other = connect(&handle, 0);
    let quickest = (0..20).map(|_| {
        let began = Instant::now();
        assert_eq!(throttle_time(&mut other), 0);
        began.elapsed()
    });
    assert!(quickest.min().expect("tries") < Duration::from_millis(300));
}

#[test]
fn who_is_held_back_begins_to_wait_when_a_delayed_answer_has_left() {
    let handle = brokers(
        "  - { api: ApiVersions, broker: 1, delay: 200ms, throttle_time: 200ms, requests: 1 }\n\
         \x20 - { api: ApiVersions, broker: 2, delay: 1h, throttle_time: 100ms }\n",
    );
    let mut stream = connect(&handle, 0);
    let began = Instant::now();
    // Both are there when the first is looked at; the second is not read before the first has left and its time is over.
    let two = [[0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff]; 2].concat();
    stream.write_all(&two).expect("sent");
    for _ in 0..2 {
        assert_eq!(answer(&mut stream).expect("an answer"), 1);
    }
    assert!(
        began.elapsed() >= Duration::from_millis(400),
        "{:?}",
        began.elapsed()
    );
    // A script that is cleared lets the answer go, and the wait begins then.
    let mut held = connect(&handle, 1);
    held.write_all(&two).expect("sent");
    held.set_read_timeout(Some(Duration::from_millis(200)))
        .expect("a time-out");
    assert!(answer(&mut held).is_err());
    handle.follow(None).expect("it names no broker");
    held.set_read_timeout(Some(Duration::from_secs(20)))
        .expect("a time-out");
    for _ in 0..2 {
        assert_eq!(answer(&mut held).expect("an answer"), 1);
    }
}

#[test]
fn connections_are_dropped_or_fall_silent() {
    let handle = brokers(
        "  - { api: ApiVersions, broker: 1, drop: true, from_request: 2 }\n  - { api: ApiVersions, broker: 2, silence: true }\n",
    );
    let mut dropped = connect(&handle, 0);
    assert_eq!(ask(&mut dropped, 1).expect("the first is answered"), 1);
    assert!(ask(&mut dropped, 2).is_err());
    let mut silent = connect(&handle, 1);
    silent
        .set_read_timeout(Some(Duration::from_millis(200)))
        .expect("a time-out");
    let error = ask(&mut silent, 1).expect_err("nothing comes");
    assert_eq!(
        error.kind(),
        std::io::ErrorKind::WouldBlock,
        "it is still open: {error}"
    );
}

/// One control call; gives its answer's lines.
fn call(handle: &Handle, text: &str) -> Vec<String> {
    let mut stream = TcpStream::connect(handle.control_address().expect("control")).expect("it listens");
    stream.write_all(text.as_bytes()).expect("sent");
    let mut lines = Vec::new();
    for line in BufReader::new(stream).lines() {
        let line = line.expect("a line");
        let is_last = line == "ok" || line.starts_with("error: ");
        lines.push(line);
        if is_last {
            break;
        }
    }
    lines
}

#[test]
fn brokers_are_stopped_started_paused_and_scripted_while_they_run() {
    let handle = brokers("");
    assert_eq!(call(&handle, "stop 2\n"), ["ok"]);
    assert!(TcpStream::connect(handle.addresses()[1]).is_err());
    assert!(call(&handle, "status\n")[1].ends_with(": down"));
    assert_eq!(call(&handle, "start 2\n"), ["ok"]);
    let mut stream = connect(&handle, 1);
    assert_eq!(ask(&mut stream, 1).expect("an answer"), 1);

    assert_eq!(call(&handle, "pause 2\n"), ["ok"]);
    stream
        .set_read_timeout(Some(Duration::from_millis(200)))
        .expect("a time-out");
    assert!(ask(&mut stream, 2).is_err(), "a paused broker answers nothing");
    assert_eq!(call(&handle, "resume 2\n"), ["ok"]);
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("a time-out");
    assert_eq!(answer(&mut stream).expect("what was asked meanwhile"), 2);

    let rules = "rules:\n  - { api: ApiVersions, drop: true }\n";
    assert_eq!(call(&handle, &format!("script {}\n{rules}", rules.len())), ["ok"]);
    assert!(ask(&mut stream, 3).is_err());
    assert_eq!(call(&handle, "script clear\n"), ["ok"]);
    assert_eq!(ask(&mut connect(&handle, 1), 4).expect("an answer"), 4);

    for (wrong, expected) in [
        ("stop 9\n", "there is no broker 9"),
        ("stop two\n", "not a broker's id"),
        ("sing\n", "known are"),
        ("script 9\nrules: []", "no rules"),
        ("script 99999999\n", "bytes"),
    ] {
        let told = call(&handle, wrong).join("\n");
        assert!(
            told.starts_with("error: ") && told.contains(expected),
            "{wrong}: {told}"
        );
    }
}

#[test]
fn each_request_is_written_down_with_its_times() {
    let path = std::env::temp_dir().join(format!("rig-log-{}", std::process::id()));
    let handle = broker::start(Config {
        script: Some(script("  - { api: ApiVersions, delay: 30ms }\n")),
        request_log: Some(path.clone()),
        ..Config::default()
    })
    .expect("a broker");
    let mut stream = connect(&handle, 0);
    for id in 0..5 {
        ask(&mut stream, id).expect("an answer");
    }
    handle.shutdown();
    let text = std::fs::read_to_string(&path).expect("the log");
    std::fs::remove_file(&path).expect("it was there");
    let lines: Vec<Vec<&str>> = text
        .lines()
        .skip(1)
        .map(|line| line.split(',').collect())
        .collect();
    assert_eq!(lines.len(), 5, "{text}");
    for (id, line) in lines.iter().enumerate() {
        let time = |at: usize| line[at].parse::<u64>().expect("a time");
        assert!(time(1) - time(0) >= 30_000_000, "{line:?}");
        assert_eq!(
            (line[3], line[6]),
            ("ApiVersions", id.to_string().as_str()),
            "{line:?}"
        );
    }
}

#[test]
fn a_script_that_names_a_broker_that_is_not_there_changes_nothing() {
    let handle = brokers("");
    let rules = "rules:\n  - { down: 9, from: 1s }\n";
    let told = call(&handle, &format!("script {}\n{rules}", rules.len())).join("\n");
    assert!(told.contains("there is no broker 9"), "{told}");
    assert!(
        handle
            .follow(Some(&script("  - { broker: 3, delay: 1ms }\n")))
            .is_err()
    );
}

#[test]
fn a_broker_that_was_paused_and_killed_serves_when_it_is_started_anew() {
    let handle = brokers("");
    handle.pause_broker(2).expect("a broker");
    assert!(call(&handle, "status\n")[1].ends_with(": paused"));
    handle.stop_broker(2).expect("a broker");
    handle.start_broker(2).expect("the same address");
    assert_eq!(ask(&mut connect(&handle, 1), 5).expect("an answer"), 5);
}

#[test]
fn a_caller_who_says_nothing_keeps_nobody_waiting() {
    let handle = brokers("");
    let idle = TcpStream::connect(handle.control_address().expect("control")).expect("it listens");
    let began = Instant::now();
    assert_eq!(call(&handle, "status\n").last().map(String::as_str), Some("ok"));
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    drop(idle);
}

#[test]
fn a_silenced_connection_that_its_client_closes_is_closed() {
    let handle = brokers("  - { api: ApiVersions, silence: true }\n");
    let mut stream = connect(&handle, 0);
    stream
        .set_read_timeout(Some(Duration::from_millis(200)))
        .expect("a time-out");
    assert!(ask(&mut stream, 1).is_err());
    stream.shutdown(std::net::Shutdown::Write).expect("closed");
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("a time-out");
    assert_eq!(stream.read(&mut [0]).expect("the end"), 0);
}

#[test]
fn what_a_script_held_leaves_when_the_script_is_cleared() {
    let handle = brokers("  - { api: ApiVersions, delay: 1h }\n");
    let mut stream = connect(&handle, 0);
    stream
        .set_read_timeout(Some(Duration::from_millis(200)))
        .expect("a time-out");
    assert!(ask(&mut stream, 1).is_err());
    handle.follow(None).expect("it names no broker");
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("a time-out");
    assert_eq!(answer(&mut stream).expect("what was held"), 1);
}

#[test]
fn scripts_are_changed_while_requests_come() {
    let handle = brokers("  - { topic: t, delay: 0ms }\n");
    let address = handle.addresses()[0];
    let asking: Vec<_> = (0..4)
        .map(|_| {
            std::thread::spawn(move || {
                let mut stream = TcpStream::connect(address).expect("it listens");
                stream
                    .set_read_timeout(Some(Duration::from_secs(60)))
                    .expect("a time-out");
                (0..2000).all(|id| ask(&mut stream, id).is_ok_and(|answered| answered == id))
            })
        })
        .collect();
    let rules = script("  - { topic: t, delay: 0ms }\n");
    while asking.iter().any(|thread| !thread.is_finished()) {
        handle.follow(Some(&rules)).expect("it names no broker");
    }
    assert!(asking.into_iter().all(|thread| thread.join().expect("no panic")));
}

#[test]
fn a_broker_that_two_scripts_take_down_stays_down_from_one_to_the_other() {
    let handle = brokers("  - { down: 2 }\n");
    let is_down = || TcpStream::connect(handle.addresses()[1]).is_err();
    let soon = |holds: &dyn Fn() -> bool| {
        let began = Instant::now();
        while !holds() && began.elapsed() < Duration::from_secs(20) {
            std::thread::yield_now();
        }
        holds()
    };
    assert!(soon(&is_down));
    handle
        .follow(Some(&script("  - { down: 2, from: 0s }\n  - { delay: 1ms }\n")))
        .expect("it is there");
    assert!(soon(&is_down));
    handle.follow(None).expect("it names no broker");
    assert!(
        !is_down(),
        "what a script took down comes back before the next is followed"
    );
}

#[test]
fn a_request_whose_connection_ends_first_is_written_down_without_an_answer() {
    let path = std::env::temp_dir().join(format!("rig-unanswered-{}", std::process::id()));
    let handle = broker::start(Config {
        script: Some(script("  - { api: ApiVersions, delay: 1h }\n")),
        request_log: Some(path.clone()),
        ..Config::default()
    })
    .expect("a broker");
    let mut stream = connect(&handle, 0);
    stream
        .set_read_timeout(Some(Duration::from_millis(200)))
        .expect("a time-out");
    assert!(ask(&mut stream, 7).is_err());
    handle.shutdown();
    let text = std::fs::read_to_string(&path).expect("the log");
    std::fs::remove_file(&path).expect("it was there");
    let line: Vec<&str> = text.lines().nth(1).expect("a line").split(',').collect();
    assert_eq!((line[1], line[6]), ("", "7"), "{text}");
}
