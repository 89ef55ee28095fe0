//! `plimsoll broker`: embedded brokers until a signal comes.

use crate::arguments::{BrokerArguments, BrokerCommand, ControlAction, ControlArguments};
use crate::console;
use crate::exit_status::ExitStatus;
use crate::failure::{Failure, system_error, with_causes};
use crate::interruption;
use crate::rehearsal::Rehearsal;
use broker::{Config, ConfigError, StartError};
use model::broker_script::BrokerScript;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write, stdin};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// How long running brokers may take to answer a control call.
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);

/// Starts the brokers, says where they are, and serves until it is told to end.
///
/// # Errors
/// When the options are wrong or the brokers cannot be started.
pub fn run(arguments: &BrokerArguments) -> Result<ExitStatus, Failure> {
    if let Some(BrokerCommand::Control(arguments)) = &arguments.command {
        return control(arguments);
    }
    let (config, rehearsal) = config(arguments)?;
    let (ends, ended) = channel();
    interruption::ends_wait(ends.clone())?;
    let handle = broker::start(config).map_err(|error| not_started(&error, &arguments.listen))?;
    let bootstrap = handle.bootstrap();
    let mut text: String = (1..)
        .zip(bootstrap.split(','))
        .map(|(id, address)| format!("broker {id}: {address}\n"))
        .collect();
    if !arguments.advertised.is_empty() {
        // Whoever stands in between needs to know where to hand on to.
        for (id, address) in (1..).zip(handle.addresses()) {
            text.push_str(&format!("broker {id} listens: {address}\n"));
        }
    }
    if let Some(address) = handle.control_address() {
        text.push_str(&format!("control: {address}\n"));
    }
    if let Some(rehearsal) = rehearsal {
        rehearsal.write_clients(&bootstrap)?;
        text.push_str(&rehearsal.told());
    }
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

fn config(arguments: &BrokerArguments) -> Result<(Config, Option<Rehearsal>), Failure> {
    let (listen, advertised_host) = address("--listen", &arguments.listen)?;
    let control = match &arguments.control {
        Some(text) => Some(address("--control", text)?.0),
        None => None,
    };
    let script = match &arguments.script {
        Some(path) => Some(script(path)?.1),
        None => None,
    };
    let mut properties = match &arguments.property_file {
        Some(path) => property_file(path)?,
        None => BTreeMap::new(),
    };
    properties.extend(self::properties(&arguments.property)?);
    let advertised_host = arguments.advertised_host.clone().or(advertised_host);
    let advertised = advertised(&arguments.advertised)?;
    let rehearsal = match &arguments.secured {
        Some(folder) => {
            let names: Vec<String> = Some(listen.ip())
                .filter(|ip| !ip.is_unspecified())
                .map(|ip| ip.to_string())
                .into_iter()
                .chain(advertised_host.clone())
                .chain(advertised.iter().map(|(host, _)| host.clone()))
                .collect();
            Some(Rehearsal::prepare(folder, &names, &mut properties)?)
        }
        None => None,
    };
    let mut config = Config {
        brokers: arguments.brokers,
        listen,
        advertised_host,
        advertised,
        memory_bytes: arguments.memory.bytes(),
        prefault_bytes: arguments.prefault.bytes(),
        properties,
        script,
        request_log: arguments.request_log.clone(),
        control,
        ..Config::default()
    };
    if let Some(threads) = arguments.threads {
        config.threads = threads;
    }
    config.check().map_err(|error| match error {
        ConfigError::NoCertificate | ConfigError::NoUsers => Failure::usage(format!(
            "{error}; or let --secured FOLDER make certificates and a user"
        )),
        error => Failure::usage(error.to_string()),
    })?;
    Ok((config, rehearsal))
}

fn property_file(path: &Path) -> Result<BTreeMap<String, String>, Failure> {
    let name = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("--property-file {name}: {}", system_error(&error))))?;
    let read = model::properties::parse(&text).map_err(|errors| Failure {
        status: ExitStatus::Usage,
        messages: errors.iter().map(|error| format!("{name}: {error}")).collect(),
    })?;
    Ok(read
        .into_iter()
        .map(|property| (property.name, property.value))
        .collect())
}

/// The address to listen at, and the host name that was given for it, if it was one.
fn address(flag: &str, text: &str) -> Result<(SocketAddr, Option<String>), Failure> {
    let wrong = |why: &str| {
        Failure::usage(format!(
            "{flag} {text}: {why}; give HOST:PORT such as 127.0.0.1:9092"
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

/// The hosts and ports that are advertised, as they are given: they need not be reachable from here.
fn advertised(texts: &[String]) -> Result<Vec<(String, u16)>, Failure> {
    let parse = |text: &String| {
        let (host, port) = text.trim().rsplit_once(':')?;
        let host = host.trim_matches(['[', ']']);
        let port = port.parse().ok().filter(|port| *port != 0)?;
        (!host.is_empty()).then(|| (host.to_owned(), port))
    };
    let read = |text| {
        parse(text).ok_or_else(|| {
            Failure::usage(format!(
                "--advertised {text}: it is not HOST:PORT, such as proxy:9092; give one for each broker, with commas between"
            ))
        })
    };
    texts.iter().map(read).collect()
}

/// A script's text, and what it says.
fn script(path: &Path) -> Result<(String, BrokerScript), Failure> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("--script {name}: {}", system_error(&error))))?;
    let (apis, errors) = broker::known_names();
    match BrokerScript::parse(&name, &text, &apis, &errors) {
        Ok(script) => Ok((text, script)),
        Err(faults) => Err(Failure::from(faults)),
    }
}

/// Says one thing to running brokers, and shows what they answer.
fn control(arguments: &ControlArguments) -> Result<ExitStatus, Failure> {
    let (place, _) = address("--at", &arguments.at)?;
    let call = match &arguments.action {
        ControlAction::Stop { broker } => format!("stop {broker}\n"),
        ControlAction::Start { broker } => format!("start {broker}\n"),
        ControlAction::Pause { broker } => format!("pause {broker}\n"),
        ControlAction::Resume { broker } => format!("resume {broker}\n"),
        ControlAction::Script { file } => {
            let (text, _) = script(file)?;
            format!("script {}\n{text}", text.len())
        }
        ControlAction::ClearScript => "script clear\n".to_owned(),
        ControlAction::FlushLog => "log flush\n".to_owned(),
        ControlAction::Status => "status\n".to_owned(),
    };
    let failed = |error: std::io::Error| {
        Failure::failed(format!(
            "{place}: {}; are the brokers running, with --control {place}?",
            system_error(&error)
        ))
    };
    let mut stream = TcpStream::connect_timeout(&place, ANSWERED_WITHIN).map_err(failed)?;
    stream.set_read_timeout(Some(ANSWERED_WITHIN)).map_err(failed)?;
    stream.write_all(call.as_bytes()).map_err(failed)?;
    for line in BufReader::new(stream).lines() {
        let line = line.map_err(failed)?;
        if line == "ok" {
            return Ok(ExitStatus::Done);
        }
        match line.strip_prefix("error: ") {
            Some(problem) => return Err(Failure::failed(problem.to_owned())),
            // Nobody may be there to read it.
            None => console::print(&format!("{line}\n")).unwrap_or_default(),
        }
    }
    Err(failed(std::io::ErrorKind::UnexpectedEof.into()))
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
        StartError::Config(_) | StartError::Store(_) => Failure::usage(with_causes(error)),
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
    fn advertised_addresses_are_taken_as_they_are_and_need_a_port() {
        let given = |text: &str| advertised(&text.split(',').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(
            given("proxy.invalid:9092,[::1]:9093"),
            Ok(vec![("proxy.invalid".to_owned(), 9092), ("::1".to_owned(), 9093)])
        );
        for text in ["proxy", ":9092", "proxy:0", "proxy:many", "a:1,"] {
            let failure = given(text).expect_err(text);
            assert_eq!(failure.status, ExitStatus::Usage);
            assert!(failure.messages[0].starts_with("--advertised "), "{failure:?}");
        }
    }

    #[test]
    fn an_address_is_taken_as_it_is_and_a_name_is_advertised() {
        assert_eq!(
            address("--listen", "127.0.0.1:0"),
            Ok((SocketAddr::from(([127, 0, 0, 1], 0)), None))
        );
        assert_eq!(
            address("--listen", "[::1]:9092").map(|(address, name)| (address.port(), name)),
            Ok((9092, None))
        );
        assert_eq!(
            address("--listen", "localhost:9092").map(|(_, name)| name),
            Ok(Some("localhost".to_owned()))
        );
        for text in ["9092", ":9092", "127.0.0.1", "127.0.0.1:port", "127.0.0.1:70000"] {
            let failure = address("--listen", text).expect_err(text);
            assert_eq!(failure.status, ExitStatus::Usage);
            assert!(
                failure.messages[0].starts_with(&format!("--listen {text}: ")),
                "{failure:?}"
            );
        }
    }
}
