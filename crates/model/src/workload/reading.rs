//! Readers of single values: from what was given for a key, or its default, to a number, a size, a word or a list, with
//! its source kept and its faults noted.

use super::keys::{KeySpec, Origin, find_key, keys};
use crate::fault::{Fault, FaultKind, Notice};
use crate::source::{ResolvedValue, Source};
use crate::spelling::likely_meant;
use crate::units::ByteSize;
use crate::yaml::{Node, Value};

/// A key with the value given for it.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) key: &'static KeySpec,
    pub(super) node: Node,
    pub(super) source: Source,
}

impl Given {
    /// The value where it is a text, `None` for a list or a map.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.node.value {
            Value::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }
}

/// Reads the values one by one. A reader that finds a fault notes it and goes on with a harmless value, so that one pass
/// finds all faults; the workload made of such values is never handed out.
pub(super) struct Reading {
    pub(super) given: Vec<Given>,
    pub(super) from_file: bool,
    pub(super) faults: Vec<Fault>,
    pub(super) notices: Vec<Notice>,
    pub(super) values: Vec<ResolvedValue>,
}

impl Reading {
    /// What was given for a key by file or flag; `key:` with nothing behind it is as if absent.
    pub(super) fn given(&self, key: &str) -> Option<Given> {
        self.given
            .iter()
            .find(|given| given.key.name == key && !given.node.is_null())
            .cloned()
    }

    /// What was given for a key, or its default.
    pub(super) fn value_of(&self, key: &str) -> Option<Given> {
        self.given(key).or_else(|| {
            let key = find_key(key)?;
            let default = if self.from_file {
                key.default_in_file
            } else {
                key.default_without_file
            }?;
            let is_omb = self.from_file && key.origin == Origin::Omb;
            let source = if is_omb {
                Source::OmbDefault
            } else {
                Source::Default
            };
            Some(Given {
                key,
                node: Node::text(default, 0),
                source,
            })
        })
    }

    /// Notes a fault where a key has neither value nor default, unless a misspelling of it was told already.
    pub(super) fn require(&mut self, key: &str, advice: &str) {
        let misspelt = |fault: &Fault| {
            fault.kind == FaultKind::UnknownKey
                && fault
                    .key
                    .as_deref()
                    .and_then(|name| likely_meant(name, keys().iter().map(|k| k.name)))
                    == Some(key)
        };
        if self.value_of(key).is_none() && !self.faults.iter().any(misspelt) {
            self.faults
                .push(Fault::missing(key, format!("missing; {advice}")));
        }
    }

    pub(super) fn fault(&mut self, kind: FaultKind, given: &Given, problem: &str) {
        self.faults.push(Fault::of_value(
            kind,
            &given.source,
            given.key.name,
            &given.node.shown(),
            problem,
        ));
    }

    pub(super) fn keep(&mut self, given: &Given, value: String) {
        self.values.push(ResolvedValue {
            key: given.key.name.to_owned(),
            value,
            source: given.source.clone(),
        });
    }

    /// A whole number within limits; the lower limit where it is faulty or absent.
    pub(super) fn whole(&mut self, key: &str, min: u64, max: u64) -> u64 {
        self.whole_or_fault(key, min, max).unwrap_or(min)
    }

    pub(super) fn whole_or_fault(&mut self, key: &str, min: u64, max: u64) -> Option<u64> {
        let given = self.value_of(key)?;
        let text = given.text().unwrap_or_default().trim().replace('_', "");
        let problem = match text.parse::<u64>() {
            Ok(number) if (min..=max).contains(&number) => {
                self.keep(&given, number.to_string());
                return Some(number);
            }
            Ok(number) if number < min => format!("must be at least {min}"),
            Ok(_) => format!("must be at most {max}"),
            Err(_) if text.starts_with('-') && text[1..].parse::<u64>().is_ok() => {
                format!("must be at least {min}")
            }
            Err(_) if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) => {
                format!("must be at most {max}")
            }
            Err(_) => "must be a whole number".to_owned(),
        };
        let kind = if problem.ends_with("number") {
            FaultKind::WrongType
        } else {
            FaultKind::OutOfRange
        };
        self.fault(kind, &given, &problem);
        None
    }

    pub(super) fn ratio(&mut self, key: &str) -> f64 {
        let Some(given) = self.value_of(key) else {
            return 0.0;
        };
        match given.text().unwrap_or_default().trim().parse::<f64>() {
            Ok(ratio) if (0.0..=1.0).contains(&ratio) => {
                self.keep(&given, ratio.to_string());
                ratio
            }
            _ => {
                self.fault(
                    FaultKind::OutOfRange,
                    &given,
                    "must be a number from 0 to 1, such as 0.5",
                );
                0.0
            }
        }
    }

    pub(super) fn size(&mut self, key: &str, max_bytes: u64) -> Option<ByteSize> {
        let given = self.value_of(key)?;
        let text = given.text().unwrap_or_default();
        match text.parse::<ByteSize>() {
            Ok(size) if size.bytes() <= max_bytes => {
                self.keep(&given, size.bytes().to_string());
                Some(size)
            }
            Ok(_) => {
                self.fault(
                    FaultKind::OutOfRange,
                    &given,
                    &format!("must be at most {}", ByteSize::from_bytes(max_bytes)),
                );
                None
            }
            Err(_) if text.trim().starts_with('-') => {
                self.fault(FaultKind::OutOfRange, &given, "must not be negative");
                None
            }
            Err(error) => {
                self.fault(FaultKind::WrongType, &given, &error.problem);
                None
            }
        }
    }

    pub(super) fn flag(&mut self, key: &str) -> bool {
        const WORDS: [(&str, bool); 6] = [
            ("true", true),
            ("false", false),
            ("True", true),
            ("False", false),
            ("TRUE", true),
            ("FALSE", false),
        ];
        self.word(key, &WORDS).unwrap_or(false)
    }

    pub(super) fn word<T: Copy>(&mut self, key: &str, words: &[(&str, T)]) -> Option<T> {
        let given = self.value_of(key)?;
        let text = given.text().unwrap_or_default().trim().to_owned();
        if let Some(&(word, value)) = words.iter().find(|(word, _)| *word == text) {
            self.keep(&given, word.to_owned());
            return Some(value);
        }
        // Words that differ in case alone are spellings of the first of them.
        let is_first = |at: usize| {
            !words[..at]
                .iter()
                .any(|(word, _)| word.eq_ignore_ascii_case(words[at].0))
        };
        let names = || {
            words
                .iter()
                .enumerate()
                .filter(|&(at, _)| is_first(at))
                .map(|(_, &(word, _))| word)
        };
        let allowed = names().collect::<Vec<_>>().join(", ");
        let problem = match likely_meant(&text, names()) {
            Some(meant) => format!("did you mean {meant}? Allowed: {allowed}"),
            None => format!("allowed: {allowed}"),
        };
        self.fault(FaultKind::WrongType, &given, &problem);
        None
    }

    /// The items of a list as texts; `None` where it is no list, or not one of texts.
    pub(super) fn list(&self, given: &Given) -> Option<Vec<String>> {
        let Value::Sequence(items) = &given.node.value else {
            return None;
        };
        let text = |item: &Node| match &item.value {
            Value::Scalar { text, .. } => Some(text.clone()),
            _ => None,
        };
        items.iter().map(text).collect()
    }
}
