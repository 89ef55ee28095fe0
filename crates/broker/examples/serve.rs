//! Runs embedded brokers: `serve <listen address> <brokers> [threads] [memory in MiB]`.
//!
//! Lines on standard input act on a broker while clients use it: `stop 2`, `start 2`, `pause 2` and `resume 2` (its
//! followers' fetching). The end of the input changes nothing; the process ends when it is ended.

use broker::{Config, Handle, start};
use std::error::Error;
use std::io::{BufRead, Write};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut config = Config::default();
    if let Some(listen) = arguments.next() {
        config.listen = listen.parse()?;
    }
    if let Some(brokers) = arguments.next() {
        config.brokers = brokers.parse()?;
    }
    if let Some(threads) = arguments.next() {
        config.threads = threads.parse()?;
    }
    if let Some(mebibytes) = arguments.next() {
        config.memory_bytes = mebibytes.parse::<u64>()? << 20;
    }
    let handle = start(config)?;
    let mut out = std::io::stdout();
    writeln!(out, "{}", handle.bootstrap())?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        match act(&handle, &line) {
            Ok(()) => writeln!(out, "done: {line}")?,
            Err(error) => writeln!(out, "{line}: {error}")?,
        }
    }
    loop {
        std::thread::park();
    }
}

fn act(handle: &Handle, line: &str) -> Result<(), Box<dyn Error>> {
    let (verb, broker) = line
        .split_once(' ')
        .ok_or("an action and a broker's number, please")?;
    let broker = broker.trim().parse()?;
    match verb {
        "stop" => handle.stop_broker(broker)?,
        "start" => handle.start_broker(broker)?,
        "pause" => handle.pause_replication(broker)?,
        "resume" => handle.resume_replication(broker)?,
        _ => return Err("stop, start, pause or resume, please".into()),
    }
    Ok(())
}
