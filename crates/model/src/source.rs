//! Where a value came from: a line of a file, a flag, or a default.

use std::fmt;

/// The origin of one setting, kept with the value until it stands in the result.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// A line of a file.
    File {
        /// The file's name as the user gave it.
        path: String,
        /// The line, counted from 1.
        line: u32,
    },
    /// A command-line option, by its name, such as `--rate`, `--set` or `-X`.
    Flag(String),
    /// The default of the Open Messaging Benchmark's file format.
    OmbDefault,
    /// The default of the current Java client.
    KafkaDefault,
    /// plimsoll's own default.
    Default,
    /// Computed from other settings; the text says which.
    Derived(String),
}

impl Source {
    /// A line of a file.
    pub fn file(path: &str, line: u32) -> Self {
        Source::File {
            path: path.to_owned(),
            line,
        }
    }

    /// A command-line option by its name, dashes included.
    pub fn flag(name: &str) -> Self {
        Source::Flag(name.to_owned())
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::File { path, line } => write!(f, "{path}:{line}"),
            Source::Flag(name) => f.write_str(name),
            Source::OmbDefault => f.write_str("OMB default"),
            Source::KafkaDefault => f.write_str("Kafka default"),
            Source::Default => f.write_str("default"),
            Source::Derived(from) => write!(f, "derived from {from}"),
        }
    }
}

/// One setting after everything was resolved, as text, with its source. Secrets are already redacted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedValue {
    /// The key as its file format spells it.
    pub key: String,
    /// The value as text.
    pub value: String,
    /// Where it came from.
    pub source: Source,
}
