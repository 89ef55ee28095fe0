//! What is said on the standard error: steps, warnings, errors, and the line of progress, which is rewritten in place where
//! that is a terminal.
//!
//! A standard error that nobody reads any more is no reason to end a run, so what cannot be written is let go.

use std::io::{IsTerminal, Write, stderr, stdout};
use std::sync::{Mutex, PoisonError};

/// The standard error of the process.
#[derive(Debug)]
pub struct Console {
    is_terminal: bool,
    is_quiet: bool,
    /// Whether the last line is one of progress, to be written over.
    has_status: Mutex<bool>,
}

/// The width of a terminal that does not tell it.
const USUAL_COLUMNS: usize = 80;

impl Console {
    /// The standard error; a quiet one leaves out steps and progress.
    pub fn new(is_quiet: bool) -> Console {
        Console {
            is_terminal: stderr().is_terminal(),
            is_quiet,
            has_status: Mutex::new(false),
        }
    }

    /// Whether progress is shown on one line that is rewritten.
    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// The columns of the terminal.
    pub fn columns(&self) -> usize {
        let size = rustix::termios::tcgetwinsize(stderr());
        size.map(|size| usize::from(size.ws_col))
            .ok()
            .filter(|&columns| columns > 0)
            .unwrap_or(USUAL_COLUMNS)
    }

    /// A step that was taken.
    pub fn step(&self, text: &str) {
        if !self.is_quiet {
            self.write(text);
        }
    }

    /// Something that the user should know.
    pub fn warn(&self, text: &str) {
        self.write(&format!("warning: {text}"));
    }

    /// Something that went wrong.
    pub fn error(&self, text: &str) {
        self.write(&format!("error: {text}"));
    }

    /// How a command is used, as it stands.
    pub fn usage(&self, text: &str) {
        let_go(stderr().lock().write_all(text.as_bytes()));
    }

    /// The line of progress, which takes the place of the last one on a terminal.
    pub fn progress(&self, line: &str) {
        if self.is_quiet {
            return;
        }
        let mut has_status = self.has_status.lock().unwrap_or_else(PoisonError::into_inner);
        let text = if self.is_terminal {
            format!("\r\x1b[K{line}")
        } else {
            format!("{line}\n")
        };
        let_go(stderr().lock().write_all(text.as_bytes()));
        *has_status = self.is_terminal;
    }

    /// Takes the line of progress away.
    pub fn end_progress(&self) {
        let mut has_status = self.has_status.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut *has_status) {
            let_go(stderr().lock().write_all(b"\r\x1b[K"));
        }
    }

    fn write(&self, text: &str) {
        let mut has_status = self.has_status.lock().unwrap_or_else(PoisonError::into_inner);
        let clearing = if std::mem::take(&mut *has_status) {
            "\r\x1b[K"
        } else {
            ""
        };
        let_go(
            stderr()
                .lock()
                .write_all(format!("{clearing}plimsoll: {text}\n").as_bytes()),
        );
    }
}

fn let_go(written: std::io::Result<()>) {
    written.unwrap_or_default();
}

/// Writes what was asked for to the standard output. A reader that has gone away, as `head` does, has what it wanted.
///
/// # Errors
/// When the output cannot take it for another reason, such as a full disk.
pub fn print(text: &str) -> std::io::Result<()> {
    let mut out = stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}
