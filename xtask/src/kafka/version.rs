//! Releases of Apache Kafka, and what each needs in order to run.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A release such as 4.4.0; ordered as releases are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Version {
    major: u32,
    minor: u32,
    patch: u32,
}

impl Version {
    const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self { major, minor, patch }
    }

    /// Whether its nodes are brokers and controllers (KRaft, production-ready from 3.3, KIP-833); else they need ZooKeeper.
    pub fn is_kraft(self) -> bool {
        self >= Self::new(3, 3, 0)
    }

    /// Whether it logs through Log4j 2 (from 4.0, KIP-653); else through log4j 1 or its successor reload4j.
    pub fn logs_with_log4j2(self) -> bool {
        self >= Self::new(4, 0, 0)
    }

    /// Whether consumers may be sent to a replica near them (from 2.4, KIP-392).
    pub fn chooses_replicas(self) -> bool {
        self >= Self::new(2, 4, 0)
    }

    /// The Scala release in the name of its core jar.
    pub fn scala(self) -> &'static str {
        if self < Self::new(2, 4, 0) { "2.12" } else { "2.13" }
    }

    /// The profiles of `xtask/kafka/pom.xml` that it needs.
    pub fn maven_profiles(self) -> Vec<&'static str> {
        let mut profiles = vec![if self.logs_with_log4j2() {
            "log4j2"
        } else {
            "reload4j"
        }];
        if self < Self::new(2, 4, 0) {
            profiles.push("newer-zookeeper");
        }
        profiles
    }
}

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let mut numbers = text.split('.').map(|number| number.parse::<u32>().ok());
            let version = Self::new(numbers.next()??, numbers.next()??, numbers.next()??);
            numbers.next().is_none().then_some(version)
        };
        let version = parse().ok_or("a release as on Maven Central is expected, such as 4.4.0 or 2.8.2")?;
        if version < Self::new(2, 1, 0) {
            Err("2.1.0 is the oldest that is run".to_owned())
        } else {
            Ok(version)
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl From<Version> for String {
    fn from(version: Version) -> Self {
        version.to_string()
    }
}

impl TryFrom<String> for Version {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_ordered_by_number_and_not_by_letter() {
        let [old, new] = ["2.8.2", "2.10.0"].map(|text| text.parse::<Version>().unwrap());
        assert!(old < new);
        assert_eq!(new.to_string(), "2.10.0");
    }

    #[test]
    fn what_is_no_release_or_too_old_is_refused() {
        for text in ["", "4", "4.4", "4.4.0.1", "4.4.x", "latest", "2.0.1", "0.11.0"] {
            assert!(text.parse::<Version>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn every_line_gets_a_log_binding_and_the_oldest_a_newer_zookeeper() {
        let profiles = |text: &str| text.parse::<Version>().unwrap().maven_profiles();
        assert_eq!(profiles("3.3.2"), ["reload4j"]);
        assert_eq!(profiles("4.4.0"), ["log4j2"]);
        assert_eq!(profiles("2.8.2"), ["reload4j"]);
        assert_eq!(profiles("2.1.1"), ["reload4j", "newer-zookeeper"]);
    }
}
