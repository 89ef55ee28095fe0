//! What is wrong with an input, as data: the place, the key, the value, the problem, and what is allowed.
//!
//! A reader of a file gets all faults at once, one line each:
//! `run.yaml:3: producersRate = 500: unknown key; did you mean producerRate?`

use std::fmt;

use crate::source::Source;

/// What sort of fault it is, for callers that act on it (exit status, tests).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// The text does not follow its format's grammar.
    Syntax,
    /// A key or property that nothing knows.
    UnknownKey,
    /// A key that stands twice in one place.
    Repeated,
    /// The value is not of the key's type, or not among its allowed words.
    WrongType,
    /// The value is of the right type, and too small, too large or senseless.
    OutOfRange,
    /// Two values that cannot stand together.
    Conflict,
    /// A value that must be given and was not.
    Missing,
    /// Kafka or OMB has it, and plimsoll does not.
    Unsupported,
}

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What sort of fault.
    pub kind: FaultKind,
    /// Where the value came from; absent for a value that was not given.
    pub source: Option<Source>,
    /// The key, as its file format spells it; absent where the text could not be read so far.
    pub key: Option<String>,
    /// The value that was given, redacted if it is a secret.
    pub value: Option<String>,
    /// What is wrong, what is allowed and what to do about it.
    pub problem: String,
}

impl Fault {
    /// A fault of a value that was given.
    pub fn of_value(
        kind: FaultKind,
        source: &Source,
        key: &str,
        value: &str,
        problem: impl Into<String>,
    ) -> Self {
        Fault {
            kind,
            source: Some(source.clone()),
            key: Some(key.to_owned()),
            value: Some(value.to_owned()),
            problem: problem.into(),
        }
    }

    /// A key that must be given and was not.
    pub fn missing(key: &str, problem: impl Into<String>) -> Self {
        Fault {
            kind: FaultKind::Missing,
            source: None,
            key: Some(key.to_owned()),
            value: None,
            problem: problem.into(),
        }
    }

    /// A text that does not follow its grammar, at a line of a file or in a flag.
    pub fn syntax(source: Source, problem: impl Into<String>) -> Self {
        Fault {
            kind: FaultKind::Syntax,
            source: Some(source),
            key: None,
            value: None,
            problem: problem.into(),
        }
    }

    /// What faults are ordered by.
    fn place(&self) -> (u8, &str, u32) {
        match &self.source {
            Some(Source::File { path, line }) => (0, path, *line),
            Some(_) => (1, "", 0),
            None => (2, "", 0),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(source) = &self.source {
            write!(f, "{source}: ")?;
        }
        match (&self.key, &self.value) {
            (Some(key), Some(value)) => write!(f, "{key} = {}: ", shortened(value))?,
            (Some(key), None) => write!(f, "{key}: ")?,
            (None, _) => {}
        }
        f.write_str(&self.problem)
    }
}

/// A value on one line, cut where it would drown the message.
fn shortened(value: &str) -> String {
    const LONGEST: usize = 80;
    let one_line = value.replace(['\n', '\r'], " ");
    if one_line.chars().count() <= LONGEST {
        return one_line;
    }
    let head: String = one_line.chars().take(LONGEST).collect();
    format!("{head}…")
}

/// All faults of one input, at least one, in the order in which they stand in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults(Vec<Fault>);

impl Faults {
    /// The faults, or the value when there are none.
    pub fn check<T>(faults: Vec<Fault>, value: T) -> Result<T, Faults> {
        if faults.is_empty() {
            Ok(value)
        } else {
            Err(Faults(faults))
        }
    }

    /// The faults, never empty.
    pub fn as_slice(&self) -> &[Fault] {
        &self.0
    }

    /// These faults followed by those of another input.
    pub fn and(mut self, others: Faults) -> Faults {
        self.0.extend(others.0);
        self
    }

    /// These faults, each once though several clients may tell of it, those of a file in the order of its lines, then
    /// those of flags, then what is missing.
    pub fn in_order(self) -> Faults {
        let mut told: Vec<Fault> = Vec::with_capacity(self.0.len());
        for fault in self.0 {
            if !told.contains(&fault) {
                told.push(fault);
            }
        }
        told.sort_by(|a, b| Fault::place(a).cmp(&Fault::place(b)));
        Faults(told)
    }
}

impl From<Fault> for Faults {
    fn from(fault: Fault) -> Self {
        Faults(vec![fault])
    }
}

impl IntoIterator for Faults {
    type Item = Fault;
    type IntoIter = std::vec::IntoIter<Fault>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{fault}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}

/// Something that does not stop the run and that the user should know, such as a key that only a fork of OMB knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Where it was found; absent where nothing was given.
    pub source: Option<Source>,
    /// A short name of the notice that stays the same between versions, in kebab case.
    pub code: &'static str,
    /// What was found, and what follows from it.
    pub text: String,
}

impl Notice {
    /// A notice about something at a place.
    pub fn at(source: &Source, code: &'static str, text: impl Into<String>) -> Self {
        Notice {
            source: Some(source.clone()),
            code,
            text: text.into(),
        }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Some(source) => write!(f, "{source}: {}", self.text),
            None => f.write_str(&self.text),
        }
    }
}
