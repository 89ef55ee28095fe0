//! What the embedded brokers are to be.

use crate::security::{SecurityFault, SecuritySettings};
use crate::settings::check_node_configs;
use model::broker_script::BrokerScript;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

/// What the embedded brokers are to be. [`Config::default`] is one broker on a free port of 127.0.0.1.
#[derive(Clone, PartialEq)]
pub struct Config {
    /// How many brokers; they are numbered from 1.
    pub brokers: usize,
    /// Address and port of the first broker. The others take the ports after it; with port 0 each takes any free one.
    pub listen: SocketAddr,
    /// The host name or address that clients are told, if not the one that is listened at.
    pub advertised_host: Option<String>,
    /// Host and port that clients are told for each broker, in order of their ids, where something stands between them and the
    /// brokers; empty for where each broker listens. It goes before `advertised_host`.
    pub advertised: Vec<(String, u16)>,
    /// Threads that serve connections.
    pub threads: usize,
    /// What records and buffers of all brokers together may take. Beyond it the oldest records go, whatever retention
    /// says.
    pub memory_bytes: u64,
    /// How much of that memory is touched at the start, so that the first records need not wait for the kernel to give
    /// it: about 0.8 s a GiB. 0 touches none.
    pub prefault_bytes: u64,
    /// Broker configs under Kafka's names, for all brokers: `num.partitions`, `default.replication.factor`,
    /// `auto.create.topics.enable`, `min.insync.replicas`, `message.max.bytes`, `log.retention.ms`,
    /// `log.retention.bytes`, `group.initial.rebalance.delay.ms` (0 here by default) and others; of security `security.protocol`,
    /// `ssl.*`, `sasl.*` and `connections.max.reauth.ms`, which may stand behind `listener.name.`, the protocol in lower case, and
    /// a mechanism.
    pub properties: BTreeMap<String, String>,
    /// The script that is followed from the start on; absent for none.
    pub script: Option<BrokerScript>,
    /// Where each request is written down with the time at which it came and that at which it was answered; absent for
    /// nowhere.
    pub request_log: Option<PathBuf>,
    /// Where control calls are listened for, port 0 for any free one; absent for nowhere. Whoever can connect there can stop
    /// brokers.
    pub control: Option<SocketAddr>,
}

/// More brokers than that are taken for a mistake.
const MOST_BROKERS: usize = 1000;
/// Less memory than that does not hold the requests that are being served.
const LEAST_MEMORY_BYTES: u64 = 8 << 20;

impl std::fmt::Debug for Config {
    /// Properties by their names alone: passwords are among their values.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.properties.keys().map(String::as_str).collect();
        f.debug_struct("Config")
            .field("brokers", &self.brokers)
            .field("listen", &self.listen)
            .field("memory_bytes", &self.memory_bytes)
            .field("properties", &names)
            .finish_non_exhaustive()
    }
}

impl Default for Config {
    fn default() -> Config {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Config {
            brokers: 1,
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            advertised_host: None,
            advertised: Vec::new(),
            threads: (cores / 2).clamp(1, 4),
            memory_bytes: 1 << 30,
            prefault_bytes: 0,
            properties: BTreeMap::new(),
            script: None,
            request_log: None,
            control: None,
        }
    }
}

/// What is wrong with a [`Config`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Too few or too many brokers.
    #[error("the number of brokers must be from 1 to {MOST_BROKERS}, not {0}")]
    Brokers(usize),
    /// The last broker's port would be beyond 65535.
    #[error("{brokers} brokers from port {first_port} on need ports above 65535; begin at {} or below", 65536 - brokers)]
    Ports {
        /// How many brokers.
        brokers: usize,
        /// The first one's port.
        first_port: u16,
    },
    /// Not as many advertised addresses as brokers.
    #[error(
        "{addresses} addresses are advertised for {brokers} brokers; give one for each, in order of their ids"
    )]
    Advertised {
        /// How many addresses.
        addresses: usize,
        /// How many brokers.
        brokers: usize,
    },
    /// No threads, or far too many.
    #[error("the number of threads must be from 1 to 1024, not {0}")]
    Threads(usize),
    /// The script names a broker that there is not.
    #[error("the script names broker {0}, and there are {1}, numbered from 1")]
    ScriptBroker(i32, usize),
    /// Less memory than the brokers need to work at all.
    #[error("{0} bytes of memory are too few; the brokers need at least {LEAST_MEMORY_BYTES}")]
    Memory(u64),
    /// A broker config that does not exist or has a value that it cannot have.
    #[error("{0}")]
    Property(String),
    /// TLS is asked for, and there is no certificate to show.
    #[error("ssl.keystore.location is missing; TLS needs a store with the brokers' certificate and key")]
    NoCertificate,
    /// SASL is asked for, and nobody could log in.
    #[error(
        "sasl.jaas.config is missing; SASL needs users, written as user_NAME=\"password\" in the line of a login module"
    )]
    NoUsers,
}

impl Config {
    /// Holds all values against what is possible.
    ///
    /// # Errors
    /// The first value that is not.
    pub fn check(&self) -> Result<(), ConfigError> {
        if !(1..=MOST_BROKERS).contains(&self.brokers) {
            return Err(ConfigError::Brokers(self.brokers));
        }
        let first_port = self.listen.port();
        if first_port != 0 && usize::from(first_port) + self.brokers > 65536 {
            return Err(ConfigError::Ports {
                brokers: self.brokers,
                first_port,
            });
        }
        if !self.advertised.is_empty() && self.advertised.len() != self.brokers {
            return Err(ConfigError::Advertised {
                addresses: self.advertised.len(),
                brokers: self.brokers,
            });
        }
        if !(1..=1024).contains(&self.threads) {
            return Err(ConfigError::Threads(self.threads));
        }
        if self.memory_bytes < LEAST_MEMORY_BYTES {
            return Err(ConfigError::Memory(self.memory_bytes));
        }
        let script = self.script.as_ref();
        if let Some(id) = script.and_then(|script| unknown_broker(script, self.brokers)) {
            return Err(ConfigError::ScriptBroker(id, self.brokers));
        }
        self.security().map(drop)
    }

    /// What the properties say of security.
    pub(crate) fn security(&self) -> Result<SecuritySettings, ConfigError> {
        check_node_configs(&self.properties).map_err(ConfigError::Property)?;
        SecuritySettings::new(&self.properties).map_err(|fault| match fault {
            SecurityFault::NoCertificate => ConfigError::NoCertificate,
            SecurityFault::NoUsers => ConfigError::NoUsers,
            SecurityFault::Wrong(text) => ConfigError::Property(text),
        })
    }
}

/// The first broker that a script names and that is not among so many.
pub(crate) fn unknown_broker(script: &BrokerScript, brokers: usize) -> Option<i32> {
    let named = script.rules.iter().flat_map(|rule| {
        let effect = &rule.effect;
        let follower = effect.slow_follower.map(|slow| slow.broker);
        [
            rule.broker,
            effect.down,
            effect.follower_stops,
            effect.isr_shrinks,
            follower,
        ]
    });
    named
        .flatten()
        .find(|id| usize::try_from(*id).map_or(true, |id| !(1..=brokers).contains(&id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_possible_and_what_is_not_is_told() {
        let config = Config::default();
        assert_eq!(config.check(), Ok(()));
        let check = |config: Config| {
            config
                .check()
                .map_err(|error| error.to_string())
                .err()
                .unwrap_or_default()
        };
        assert!(
            check(Config {
                brokers: 0,
                ..config.clone()
            })
            .contains("from 1 to 1000, not 0")
        );
        let listen = SocketAddr::from(([127, 0, 0, 1], 65535));
        assert!(
            check(Config {
                brokers: 2,
                listen,
                ..config.clone()
            })
            .contains("begin at 65534")
        );
        assert!(
            check(Config {
                threads: 0,
                ..config.clone()
            })
            .contains("threads")
        );
        assert!(
            check(Config {
                memory_bytes: 0,
                ..config.clone()
            })
            .contains("too few")
        );
        let advertised = vec![("proxy".to_owned(), 9092)];
        assert!(
            check(Config {
                brokers: 2,
                advertised,
                ..config.clone()
            })
            .contains("1 addresses are advertised for 2 brokers")
        );
        let properties = BTreeMap::from([("num.partition".to_owned(), "1".to_owned())]);
        assert_eq!(
            check(Config { properties, ..config }),
            "Unknown broker config name: num.partition"
        );
    }
}
