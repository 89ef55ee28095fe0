//! A network that is slow, narrow, or cuts connections: what plimsoll says of it is held against what is known.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::embedded::Embedded;
use super::load::{Load, Outcome};
use super::namespace::Namespace;
use super::proxy::{Proxy, Shape};
use crate::workspace::Workspace;

/// Three brokers, each behind a proxy of its own.
struct Behind<'a> {
    brokers: Embedded<'a>,
    proxies: Vec<Proxy>,
}

impl<'a> Behind<'a> {
    fn start(workspace: &'a Workspace, shape: Shape) -> Result<Behind<'a>> {
        let shapes = (0..3).map(|broker| Shape {
            seed: shape.seed + broker,
            ..shape
        });
        let mut proxies = shapes.map(Proxy::bind).collect::<Result<Vec<_>>>()?;
        let advertised: Vec<String> = proxies.iter().map(|proxy| proxy.address().to_string()).collect();
        let brokers = Embedded::start(workspace, &["--advertised", &advertised.join(",")])?;
        ensure!(
            brokers.listens.len() == proxies.len() && brokers.bootstrap == advertised.join(","),
            "the brokers do not advertise the proxies"
        );
        for (proxy, server) in proxies.iter_mut().zip(&brokers.listens) {
            proxy.serve(
                server
                    .parse()
                    .with_context(|| format!("{server} is no address"))?,
            );
        }
        Ok(Behind { brokers, proxies })
    }
}

/// The response time is what the network's delay makes it, to 2 % or 200 µs, and the rest is what the same way takes without
/// the delay.
pub fn delays(workspace: &Workspace) -> Result<()> {
    const EACH_WAY: Duration = Duration::from_millis(25);
    let p50 = |delay: Duration| {
        let behind = Behind::start(
            workspace,
            Shape {
                delay,
                ..Shape::default()
            },
        )?;
        // So few records that each travels alone and waits for nothing but the network.
        let outcome = Load::on(workspace, &behind.brokers.bootstrap, Duration::from_secs(10))
            .with(&[
                "--set",
                "producerRate=60",
                "-X",
                "linger.ms=0",
                "-X",
                "batch.size=0",
            ])
            .start()?
            .end()?;
        outcome.tell();
        outcome.ensure_whole()?;
        outcome.latency_ns("response", "p50_ns")
    };
    let hop = p50(Duration::ZERO)?;
    let slow = p50(EACH_WAY)?;
    let delay = 2 * EACH_WAY.as_nanos() as u64;
    let tolerance = (delay / 50).max(200_000) + hop;
    eprintln!("  response p50 {hop} ns without delay, {slow} ns with {delay} ns of it");
    ensure!(
        slow >= delay && slow.abs_diff(delay + hop) <= tolerance,
        "response p50 is {slow} ns; the network's delay is {delay} ns, and without it p50 is {hop} ns"
    );
    Ok(())
}

/// Small writes, a delay, and connections that end in the middle of a frame: exactly once all the same.
pub fn splits_and_cuts(workspace: &Workspace) -> Result<()> {
    let shape = Shape {
        delay: Duration::from_millis(1),
        largest_write: Some(500),
        cuts_after_ms: Some((200, 1500)),
        seed: 5,
        ..Shape::default()
    };
    let behind = Behind::start(workspace, shape)?;
    let run = Load::on(workspace, &behind.brokers.bootstrap, Duration::from_secs(20))
        .replicated()
        .with(&["-X", "reconnect.backoff.max.ms=100"])
        .start()?;
    let outcome = run.end()?;
    outcome.tell();
    let cuts = behind.proxies.iter().flat_map(Proxy::log);
    let cuts = cuts.filter(|line| line.contains("hangs up")).count();
    eprintln!("  {cuts} connections were cut");
    ensure!(cuts > 10, "only {cuts} connections were cut");
    outcome.ensure_whole()?;
    outcome.ensure(
        outcome.has_error("connection lost"),
        "the result names the connections that were lost",
    )
}

/// What passes of each byte of a stream: headers of Ethernet (14), IPv4 (20) and TCP with time stamps (32) on segments of
/// 1448 bytes.
const PAYLOAD_OF_FRAME: f64 = 1448.0 / 1514.0;

/// The throughput is the rate of the link, to 5 %, and it is not put on the generator.
pub fn is_limited(workspace: &Workspace) -> Result<()> {
    const BITS_PER_SECOND: u64 = 40_000_000;
    let namespace = Namespace::make()?;
    let brokers = Embedded::start_in(workspace, &namespace)?;
    namespace.limit(BITS_PER_SECOND)?;
    let outcome = narrow(workspace, &brokers.bootstrap)?.end()?;
    let expected = BITS_PER_SECOND as f64 / 8.0 * PAYLOAD_OF_FRAME;
    ensure_limited(&outcome, expected)
}

/// The same where each broker has a narrow way of its own.
pub fn is_limited_to_each_broker(workspace: &Workspace) -> Result<()> {
    const BYTES_PER_SECOND: u64 = 1_000_000;
    let shape = Shape {
        bytes_per_second: Some(BYTES_PER_SECOND),
        largest_write: Some(8192),
        ..Shape::default()
    };
    let behind = Behind::start(workspace, shape)?;
    let outcome = narrow(workspace, &behind.brokers.bootstrap)?.end()?;
    ensure_limited(&outcome, 3.0 * BYTES_PER_SECOND as f64)
}

/// More than a narrow way takes, by a schedule.
fn narrow(workspace: &Workspace, bootstrap: &str) -> Result<super::load::Running> {
    Load::on(workspace, bootstrap, Duration::from_secs(15))
        .with(&[
            "--set",
            "warmupDuration=5s",
            "--set",
            "messageSize=1000",
            "--set",
            "producerRate=12000",
        ])
        .with(&["-X", "buffer.memory=4194304", "-X", "compression.type=none"])
        .start()
}

fn ensure_limited(outcome: &Outcome, bytes_per_second: f64) -> Result<()> {
    outcome.tell();
    outcome.ensure_sound()?;
    let phases = outcome.result["phases"]
        .as_array()
        .context("there are no phases")?;
    let measured = phases.iter().find(|phase| phase["name"] == "measure");
    let measured = measured.context("nothing was measured")?;
    let figure = |value: &serde_json::Value| value.as_f64().context("a figure is absent");
    let seconds = (figure(&measured["end_ns"])? - figure(&measured["start_ns"])?) / 1e9;
    let mut bytes = 0.0;
    for broker in outcome.result["brokers"].as_array().context("no brokers")? {
        bytes += figure(&broker["produced_bytes"])?;
    }
    let measured = bytes / seconds;
    eprintln!("  {measured:.0} bytes/s of batches, and {bytes_per_second:.0} can pass");
    outcome.ensure(
        (measured - bytes_per_second).abs() <= 0.05 * bytes_per_second,
        &format!(
            "{measured:.0} bytes/s of batches are within 5 % of the {bytes_per_second:.0} that can pass"
        ),
    )?;
    outcome.ensure(
        outcome.result["verdict"]["limited_by"] == "cluster",
        "the verdict is that the cluster, or the network to it, was the limit",
    )
}
