//! Why a command ended without doing what was asked: what the user is told, and the exit status.

use crate::exit_status::ExitStatus;
use model::fault::{Fault, FaultKind, Faults};
use model::source::Source;
use std::error::Error;
use std::io;

/// A command that failed. Each message is a sentence or more: what, where, what is allowed, what to do next.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    /// The exit status.
    pub status: ExitStatus,
    /// The messages, at least one.
    pub messages: Vec<String>,
}

impl Failure {
    /// Something could not be done.
    pub fn failed(message: impl Into<String>) -> Failure {
        Failure {
            status: ExitStatus::Failed,
            messages: vec![message.into()],
        }
    }

    /// The command line is wrong.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure {
            status: ExitStatus::Usage,
            messages: vec![message.into()],
        }
    }

    /// An error with its causes, as far as its own text does not tell them.
    pub fn of_error(error: &dyn Error) -> Failure {
        Failure::failed(with_causes(error))
    }
}

impl From<Faults> for Failure {
    fn from(faults: Faults) -> Failure {
        Failure {
            status: ExitStatus::Usage,
            messages: faults.into_iter().map(|fault| fault.to_string()).collect(),
        }
    }
}

/// An error and its causes on one line.
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let told = inner.to_string();
        if !text.contains(&told) {
            text.push_str(": ");
            text.push_str(&told);
        }
        cause = inner.source();
    }
    text
}

/// What the system said, without the number that it has for it.
pub fn system_error(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error ") {
        Some((words, _)) => words.to_owned(),
        None => text,
    }
}

/// A fault of a command-line option's value.
pub fn flag_fault(flag: &str, value: &str, problem: impl Into<String>) -> Fault {
    Fault {
        kind: FaultKind::OutOfRange,
        source: Some(Source::flag(flag)),
        key: None,
        value: None,
        problem: format!("\"{value}\": {}", problem.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    enum Layered {
        #[error("cannot listen at 127.0.0.1:1")]
        Silent(#[source] io::Error),
        #[error("cannot listen: {0}")]
        Telling(#[source] io::Error),
    }

    #[test]
    fn a_cause_is_told_once() {
        let refused = || io::Error::other("permission denied");
        assert_eq!(
            with_causes(&Layered::Silent(refused())),
            "cannot listen at 127.0.0.1:1: permission denied"
        );
        assert_eq!(
            with_causes(&Layered::Telling(refused())),
            "cannot listen: permission denied"
        );
    }

    #[test]
    fn the_systems_words_come_without_its_number() {
        assert_eq!(
            system_error(&io::Error::from_raw_os_error(28)),
            "No space left on device"
        );
        assert_eq!(system_error(&io::Error::other("torn")), "torn");
    }
}
