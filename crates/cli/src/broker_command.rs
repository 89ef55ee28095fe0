//! `plimsoll broker`: embedded brokers until a signal comes.

use crate::arguments::BrokerArguments;
use crate::console;
use crate::exit_status::ExitStatus;
use crate::failure::{Failure, system_error, with_causes};
use crate::interruption;
use broker::{Config, StartError};
use std::collections::BTreeMap;
use std::io::{Read, stdin};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{Sender, channel};

/// Starts the brokers, says where they are, and serves until it is told to end.
///
/// # Errors
/// When the options are wrong or the brokers cannot be started.
pub fn run(arguments: &BrokerArguments) -> Result<ExitStatus, Failure> {
    let config = config(arguments)?;
    let (ends, ended) = channel();
    interruption::ends_wait(ends.clone())?;
    let handle = broker::start(config).map_err(|error| not_started(&error, &arguments.listen))?;
    let bootstrap = handle.bootstrap();
    let mut text: String = (1..)
        .zip(bootstrap.split(','))
        .map(|(id, address)| format!("broker {id}: {address}\n"))
        .collect();
    text.push_str(&format!("bootstrap: {bootstrap}\n"));
    // Brokers whose output nobody can take serve all the same.
    console::print(&text).unwrap_or_default();
    if arguments.until_stdin_closes {
        watch_stdin(ends)?;
    }
    ended.recv().unwrap_or_default();
    handle.shutdown();
    Ok(ExitStatus::Done)
}

fn config(arguments: &BrokerArguments) -> Result<Config, Failure> {
    let (listen, advertised_host) = address(&arguments.listen)?;
    let mut config = Config {
        brokers: arguments.brokers,
        listen,
        advertised_host: arguments.advertised_host.clone().or(advertised_host),
        memory_bytes: arguments.memory.bytes(),
        prefault_bytes: arguments.prefault.bytes(),
        properties: properties(&arguments.property)?,
        ..Config::default()
    };
    if let Some(threads) = arguments.threads {
        config.threads = threads;
    }
    config
        .check()
        .map_err(|error| Failure::usage(error.to_string()))?;
    Ok(config)
}

/// The address to listen at, and the host name that was given for it, if it was one.
fn address(text: &str) -> Result<(SocketAddr, Option<String>), Failure> {
    let wrong = |why: &str| {
        Failure::usage(format!(
            "--listen {text}: {why}; give HOST:PORT such as 127.0.0.1:9092"
        ))
    };
    let Some((host, _)) = text.rsplit_once(':').filter(|(host, _)| !host.is_empty()) else {
        return Err(wrong("there is no host or no port"));
    };
    let mut addresses = text
        .to_socket_addrs()
        .map_err(|error| wrong(&system_error(&error)))?;
    let address = addresses.next().ok_or_else(|| wrong("the name has no address"))?;
    let is_name = host.trim_matches(['[', ']']).parse::<IpAddr>().is_err();
    Ok((address, is_name.then(|| host.to_owned())))
}

fn properties(assignments: &[String]) -> Result<BTreeMap<String, String>, Failure> {
    let split = |assignment: &String| match assignment.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err(Failure::usage(format!(
            "--property {assignment}: it is not NAME=VALUE, such as num.partitions=6"
        ))),
    };
    assignments.iter().map(split).collect()
}

fn not_started(error: &StartError, listen: &str) -> Failure {
    match error {
        StartError::Config(_) => Failure::usage(with_causes(error)),
        StartError::Listen { source, .. } if source.kind() == std::io::ErrorKind::AddrInUse => {
            Failure::failed(format!(
                "{}; something listens there already: choose another port than that of --listen {listen}, or port 0 for any free one",
                system_error(&std::io::Error::other(with_causes(error)))
            ))
        }
        _ => Failure::of_error(error),
    }
}

/// Ends the wait when the standard input ends.
fn watch_stdin(ends: Sender<()>) -> Result<(), Failure> {
    let watch = move || {
        let mut waste = [0; 256];
        while stdin().lock().read(&mut waste).is_ok_and(|read| read > 0) {}
        ends.send(()).unwrap_or_default();
    };
    let thread = std::thread::Builder::new().name("stdin".to_owned()).spawn(watch);
    thread
        .map(drop)
        .map_err(|error| Failure::failed(format!("no thread can be started: {}", system_error(&error))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_as_it_is_and_a_name_is_advertised() {
        assert_eq!(
            address("127.0.0.1:0"),
            Ok((SocketAddr::from(([127, 0, 0, 1], 0)), None))
        );
        assert_eq!(
            address("[::1]:9092").map(|(address, name)| (address.port(), name)),
            Ok((9092, None))
        );
        assert_eq!(
            address("localhost:9092").map(|(_, name)| name),
            Ok(Some("localhost".to_owned()))
        );
        for text in ["9092", ":9092", "127.0.0.1", "127.0.0.1:port", "127.0.0.1:70000"] {
            let failure = address(text).expect_err(text);
            assert_eq!(failure.status, ExitStatus::Usage);
            assert!(
                failure.messages[0].starts_with(&format!("--listen {text}: ")),
                "{failure:?}"
            );
        }
    }
}
