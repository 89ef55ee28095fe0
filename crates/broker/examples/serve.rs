//! Runs embedded brokers until the process is ended: `serve <listen address> <brokers> [threads] [memory in MiB]`.

use broker::{Config, start};

fn main() -> Result<(), Box<dyn std::error::Error>> {
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
    std::io::Write::write_all(
        &mut std::io::stdout(),
        format!("{}\n", handle.bootstrap()).as_bytes(),
    )?;
    loop {
        std::thread::park();
    }
}
