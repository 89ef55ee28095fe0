//! The network breaks under a run, and comes back.

use std::time::Duration;

use anyhow::Result;

use super::embedded::Embedded;
use super::load::Load;
use super::namespace::Namespace;
use crate::workspace::Workspace;

const RUN: Duration = Duration::from_secs(30);
const BREAKS_AT: Duration = Duration::from_secs(10);
const BROKEN_FOR: Duration = Duration::from_secs(8);

/// The link is down for 8 s: TCP goes on where it was, so nothing is refused and nothing doubled, and the wait is in the
/// response times.
pub fn is_cut(workspace: &Workspace) -> Result<()> {
    let namespace = Namespace::make()?;
    let brokers = Embedded::start_in(workspace, &namespace)?;
    let mut run = Load::on(workspace, &brokers.bootstrap, RUN)
        .replicated()
        .start()?;
    run.until(BREAKS_AT)?;
    namespace.set_near_link(false)?;
    run.until(BREAKS_AT + BROKEN_FOR)?;
    namespace.set_near_link(true)?;
    let outcome = run.end()?;
    outcome.tell();
    outcome.ensure_whole()?;
    let longest = outcome.latency_ns("response", "max_ns")?;
    outcome.ensure(
        longest >= BROKEN_FOR.as_nanos() as u64,
        "the longest response is at least as long as the network was away",
    )
}

/// What the brokers answer vanishes for longer than request.timeout.ms, with no reset: the client sees it by its own time-out,
/// connects anew, and goes on. Requests that were carried out and whose answers vanished are not carried out twice.
pub fn is_silent(workspace: &Workspace) -> Result<()> {
    let namespace = Namespace::make()?;
    let brokers = Embedded::start_in(workspace, &namespace)?;
    let mut run = Load::on(workspace, &brokers.bootstrap, RUN)
        .replicated()
        .with(&["-X", "request.timeout.ms=3000", "-X", "delivery.timeout.ms=60000"])
        .with(&["-X", "socket.connection.setup.timeout.ms=2000"])
        .start()?;
    run.until(BREAKS_AT)?;
    namespace.set_silent(true)?;
    run.until(BREAKS_AT + BROKEN_FOR)?;
    namespace.set_silent(false)?;
    let outcome = run.end()?;
    outcome.tell();
    outcome.ensure_whole()?;
    outcome.ensure(
        outcome.has_error("request.timeout.ms"),
        "the result names the time-outs",
    )?;
    let longest = outcome.latency_ns("response", "max_ns")?;
    outcome.ensure(
        longest >= BROKEN_FOR.as_nanos() as u64,
        "the longest response is at least as long as the brokers were silent",
    )
}
