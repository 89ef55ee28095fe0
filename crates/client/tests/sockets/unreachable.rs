//! What is said when a cluster cannot be reached: every server with its own reason, and the usual cause.

use crate::stage::{brokers, properties};
use client::admin::{Admin, AdminError};
use client::clock::RunClock;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

/// Connects, and gives the error or the warnings as text, with `names` put in the place of addresses. Must not take longer
/// than `within` and a second.
fn check(bootstrap: &str, within: Duration, names: &[(String, &str)]) -> Result<String, String> {
    let config = properties(bootstrap, &[])
        .admin()
        .expect("valid properties")
        .config;
    let started = Instant::now();
    let connected = Admin::connect(&config, RunClock::start(), within);
    let took = started.elapsed();
    assert!(took < within + Duration::from_secs(1), "it took {took:?}");
    let named = |text: String| {
        names
            .iter()
            .fold(text, |text, (address, name)| text.replace(address, name))
    };
    match connected {
        Ok(admin) => Ok(named(admin.warnings().join("\n"))),
        Err(error) => Err(named(error.to_string())),
    }
}

/// An address at which nothing listens.
fn closed_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").to_string()
}

/// A listener that answers each connection with `words`, or with nothing at all, and keeps it open until the peer has gone if
/// `stays`.
fn listener(words: &'static [u8], stays: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            std::thread::spawn(move || {
                let mut request = [0; 512];
                let _ = stream.read(&mut request);
                let _ = stream.write_all(words);
                while stays && stream.read(&mut request).is_ok_and(|count| count > 0) {}
            });
        }
    });
    address
}

#[test]
fn nothing_listens() {
    let port = closed_port();
    let error = check(&port, Duration::from_secs(30), &[(port.clone(), "CLOSED")]);
    assert_eq!(
        error.unwrap_err(),
        "no bootstrap server answers: CLOSED: cannot connect (Connection refused)"
    );
}

#[test]
fn a_name_does_not_resolve() {
    let error = check("no-such-host.invalid:9092", Duration::from_secs(30), &[]).unwrap_err();
    let start = "no bootstrap server answers: no-such-host.invalid:9092: the name does not resolve (";
    assert!(error.starts_with(start), "{error}");
}

#[test]
fn an_http_server_is_not_a_broker() {
    let address = listener(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", true).to_string();
    let error = check(&address, Duration::from_secs(30), &[(address.clone(), "HTTP")]);
    assert_eq!(
        error.unwrap_err(),
        "no bootstrap server answers: HTTP: the peer does not speak Kafka on this port (frame of 1213486160 bytes)"
    );
}

#[test]
fn a_listener_that_hangs_up_may_expect_tls() {
    let address = listener(b"", false).to_string();
    let error = check(&address, Duration::from_secs(30), &[(address.clone(), "RUDE")]);
    assert_eq!(
        error.unwrap_err(),
        "no bootstrap server answers: RUDE: closed by the broker before it answered; it may expect TLS or SASL, or not be Kafka"
    );
}

#[test]
fn a_listener_that_says_nothing_is_given_up_in_time() {
    let address = listener(b"", true).to_string();
    let error = check(
        &address,
        Duration::from_millis(700),
        &[(address.clone(), "SILENT")],
    );
    assert_eq!(
        error.unwrap_err(),
        "no bootstrap server answers: SILENT: timed out (no answer yet)"
    );
}

#[test]
fn each_of_several_servers_is_told_with_its_own_reason() {
    let closed = closed_port();
    let http = listener(b"HTTP/1.1 400 Bad Request\r\n\r\n", true).to_string();
    let names = [(closed.clone(), "CLOSED"), (http.clone(), "HTTP")];
    let error = check(&format!("{closed},{http}"), Duration::from_secs(30), &names);
    assert_eq!(
        error.unwrap_err(),
        "no bootstrap server answers: CLOSED: cannot connect (Connection refused); \
         HTTP: the peer does not speak Kafka on this port (frame of 1213486160 bytes)"
    );
}

#[test]
fn advertised_listeners_that_do_not_resolve_are_named_with_the_usual_cause() {
    let config = broker::Config {
        brokers: 2,
        advertised_host: Some("kafka.invalid".to_owned()),
        ..broker::Config::default()
    };
    let brokers = broker::start(config).expect("brokers start");
    let ports: Vec<String> = brokers
        .addresses()
        .iter()
        .map(|address| address.port().to_string())
        .collect();
    let bootstrap = brokers.addresses()[0].to_string();
    let names = [(ports[0].clone(), "PORT1"), (ports[1].clone(), "PORT2")];
    let error = check(&bootstrap, Duration::from_secs(30), &names).unwrap_err();
    let start = "127.0.0.1:PORT1 answers, but the cluster advertises listeners that cannot be reached from here: \
                 broker 1 at kafka.invalid:PORT1: the name does not resolve (";
    assert!(error.starts_with(start), "{error}");
    assert!(
        error.contains("; broker 2 at kafka.invalid:PORT2: the name does not resolve ("),
        "{error}"
    );
    let end = "the usual cause is advertised.listeners in the brokers' configuration, which must name addresses that \
               clients can resolve and reach";
    assert!(error.ends_with(end), "{error}");
}

#[test]
fn advertised_listeners_that_refuse_are_named_too() {
    let config = broker::Config {
        advertised_host: Some("127.0.0.2".to_owned()),
        ..broker::Config::default()
    };
    let brokers = broker::start(config).expect("brokers start");
    let address = brokers.addresses()[0];
    let names = [(address.port().to_string(), "PORT")];
    let error = check(&address.to_string(), Duration::from_secs(30), &names).unwrap_err();
    let part = "broker 1 at 127.0.0.2:PORT: cannot connect (Connection refused)";
    assert!(error.contains(part), "{error}");
}

#[test]
fn one_dead_server_of_three_is_one_warning() {
    let brokers = brokers(2);
    let closed = closed_port();
    let names = [(closed.clone(), "CLOSED")];
    let expected =
        "bootstrap server CLOSED: cannot connect (Connection refused); going on with the other 2 of 3";
    for bootstrap in [
        format!("{closed},{}", brokers.bootstrap()),
        format!("{},{closed}", brokers.bootstrap()),
    ] {
        assert_eq!(
            check(&bootstrap, Duration::from_secs(30), &names),
            Ok(expected.to_owned())
        );
    }
}

#[test]
fn a_broker_that_is_down_is_not_told_twice() {
    let brokers = brokers(3);
    let bootstrap = brokers.bootstrap();
    assert_eq!(check(&bootstrap, Duration::from_secs(30), &[]), Ok(String::new()));
    brokers.stop_broker(2).expect("it exists");
    let warnings = check(&bootstrap, Duration::from_secs(30), &[]).expect("two brokers answer");
    assert_eq!(warnings.lines().count(), 1, "{warnings}");
    assert!(warnings.contains("going on with the other 2 of 3"), "{warnings}");
}

#[test]
fn the_failures_are_there_as_data() {
    let port = closed_port();
    let config = properties(&port, &[]).admin().expect("valid properties").config;
    let error = Admin::connect(&config, RunClock::start(), Duration::from_secs(5)).unwrap_err();
    let AdminError::NoBootstrapServer { failures } = error else {
        panic!("{error}")
    };
    assert_eq!(failures.len(), 1);
    assert_eq!(failures[0].address.to_string(), port);
    assert_eq!(failures[0].broker, None);
}
