//! SIGINT, SIGTERM and SIGHUP: the first ends a run in order, with what was measured; a second one ends it at once.

use crate::console::Console;
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use load::plan::Interrupt;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// Raises the interrupt that is returned when a signal comes.
///
/// # Errors
/// When the system grants no handler.
pub fn interrupts_run(console: Arc<Console>) -> Result<Arc<Interrupt>, Failure> {
    let interrupt = Arc::new(Interrupt::new());
    let raised = Arc::clone(&interrupt);
    on_signal(move || {
        if raised.raise() == 0 {
            console.step("interrupted: ending in order; once more ends at once");
        } else {
            console.end_progress();
            end_now();
        }
    })?;
    Ok(interrupt)
}

/// Sends through `ends` when a signal comes.
///
/// # Errors
/// When the system grants no handler.
pub fn ends_wait(ends: Sender<()>) -> Result<(), Failure> {
    // A receiver that is gone has been told already.
    on_signal(move || ends.send(()).unwrap_or_default())
}

fn on_signal(act: impl FnMut() + Send + 'static) -> Result<(), Failure> {
    ctrlc::set_handler(act).map_err(|error| Failure::failed(format!("signals cannot be handled: {error}")))
}

#[expect(
    clippy::exit,
    reason = "the user asked twice: nothing is waited for, and embedded brokers end with their input"
)]
fn end_now() {
    std::process::exit(ExitStatus::Interrupted.code().into())
}
