//! The embedded broker: a Kafka cluster of one or several brokers in one process, for trial, rehearsal and calibration.
//!
//! It speaks enough of the Kafka protocol for the usual clients to produce, consume, join groups and administer. Records
//! are kept in memory, bounded by retention and by a budget over all brokers; nothing is on disk. Replication is
//! simulated: a follower is a position in its leader's log, so a replication factor of 3 costs no copy, while acks,
//! `min.insync.replicas`, high watermark, in-sync replicas and leader epochs mean what they mean in Kafka.
//!
//! [`start`] opens the listeners and gives a [`Handle`], with which brokers can be stopped, paused and started again.
//!
//! As a measuring rig it follows a script (`rig`; docs/broker-script.md): answers are delayed, stalled, limited, replaced by
//! errors or never given, exactly as the script says; and it writes down when each request came and was answered
//! (`request_log`).
//!
//! Its listeners speak plain bytes or TLS, and want a login by SASL or none (`security`, `channel`, `login`).
//!
//! Inside, `cluster` is the state machine (no sockets, no clock), `api` has one file for each request that is served,
//! `partition`, `log`, `producer_state`, `stable_offset`, `transaction`, `group`, `consumer_group` and `quota` hold the rules, and `server`, `connection` and `buffer` move bytes.

mod alarm;
mod answer;
mod api;
mod buffer;
mod certificates;
mod channel;
mod cluster;
#[cfg(test)]
mod cluster_tests;
mod config;
mod connection;
mod consumer_group;
mod control;
mod fetch_session;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod glance;
mod group;
mod handle;
mod log;
mod login;
mod partition;
mod producer_state;
mod quota;
mod random;
mod reply;
mod request_log;
mod rig;
mod schedule;
mod security;
mod server;
mod settings;
mod stable_offset;
mod transaction;
mod waiting;

pub use certificates::{Certificates, CertificatesError};
pub use config::{Config, ConfigError};
pub use handle::{Control, Handle, StartBrokerError, StartError, UnknownBroker, start};
pub use rig::known_names;
pub use security::random_text;
