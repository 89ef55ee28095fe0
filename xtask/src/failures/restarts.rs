//! A whole cluster is restarted, one broker after the other, under load.

use std::time::Duration;

use anyhow::Result;

use super::embedded::Embedded;
use super::load::Load;
use super::real_kafka;
use crate::workspace::Workspace;

/// From when one broker is back to when the next one goes.
const PAUSE: Duration = Duration::from_secs(3);

/// Embedded brokers that are stopped, and are away for 2 s each.
pub fn of_embedded_brokers(workspace: &Workspace) -> Result<()> {
    const AWAY: Duration = Duration::from_secs(2);
    let brokers = Embedded::start(workspace, &[])?;
    let mut run = Load::on(workspace, &brokers.bootstrap, Duration::from_secs(22))
        .replicated()
        .start()?;
    for broker in ["1", "2", "3"] {
        run.until(run.elapsed() + PAUSE)?;
        brokers.control(&["stop", broker])?;
        run.until(run.elapsed() + AWAY)?;
        brokers.control(&["start", broker])?;
    }
    let outcome = run.end()?;
    outcome.tell();
    outcome.ensure_whole()
}

/// Real brokers that are ended in order (SIGTERM), as an upgrade does, and started again. How long that takes is up to the
/// machine, so the run is ended when it is done.
pub fn of_real_kafka(workspace: &Workspace) -> Result<()> {
    const AT_MOST: Duration = Duration::from_secs(240);
    let real = real_kafka(workspace)?;
    let mut run = Load::on(workspace, real.bootstrap(), AT_MOST)
        .replicated()
        .start()?;
    for node in 1..=3 {
        run.until(run.elapsed() + PAUSE)?;
        real.restart(node)?;
    }
    run.until(run.elapsed() + PAUSE)?;
    eprintln!("  all were restarted within {} s", run.elapsed().as_secs());
    run.interrupt()?;
    let outcome = run.end()?;
    outcome.tell();
    outcome.ensure_whole()
}
