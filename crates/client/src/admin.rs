//! A blocking client for the chores around a load: topics, configs, offsets, groups and disks.
//!
//! [`Admin`] drives a [`Net`] and a [`Cluster`] in the calling thread. Every operation is bounded in time, repeats what can
//! be repeated, and hands the broker's own words on. Where a principal may not do something, the [`Refusal`] of that one
//! item says which right is missing, so that the caller can go on without.
//!
//! [`Refusal`]: crate::rights::Refusal

mod call;
mod configs;
mod error;
mod groups;
mod log_dirs;
mod offsets;
mod reach;
mod topics;

pub use configs::{ConfigEntry, ConfigResource, ConfigSource};
pub use error::{AdminError, ServerFailure};
pub(crate) use groups::found_coordinator;
pub use groups::{GroupDescription, GroupMember, ListedGroup};
pub use log_dirs::{LogDir, LogDirReplica};
pub use offsets::{ListedOffset, OffsetAt};
pub use topics::{Layout, NewTopic};

use crate::clock::RunClock;
use crate::cluster::{BrokerInfo, Cluster, ClusterConfig, nanos};
use crate::net::{ConnId, Net, NetEvent};
use call::To;
use model::client_config::{AdminConfig, HostPort};
use std::collections::BTreeMap;
use std::time::Duration;
use topics::no_creation;
use wire::messages::metadata::MetadataRequest;

/// Answers beyond this are not believed. Metadata of 100,000 partitions takes about 10 MB.
const MAX_FRAME_BYTES: usize = 128 << 20;

/// A topic's name and a partition's index.
pub type TopicPartition = (String, i32);

/// What the cluster consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterDescription {
    /// The cluster's id.
    pub cluster_id: Option<String>,
    /// The broker that answers for the controller.
    pub controller: Option<i32>,
    /// Brokers that are alive, by id.
    pub brokers: BTreeMap<i32, BrokerInfo>,
}

/// See the module.
#[derive(Debug)]
pub struct Admin {
    net: Net,
    clock: RunClock,
    cluster: Cluster<u64>,
    api_timeout_ns: u64,
    retry_backoff_ns: u64,
    warnings: Vec<String>,
    next_tag: u64,
    events: Vec<(ConnId, NetEvent)>,
}

impl Admin {
    /// Connects to every bootstrap server and every broker, in at most `within` and `default.api.timeout.ms`. What could not
    /// be reached while others could is told by [`Admin::warnings`].
    ///
    /// # Errors
    ///
    /// When no bootstrap server answers, or none of the brokers that it names can be reached; the error tells each one's
    /// failure.
    pub fn connect(config: &AdminConfig, clock: RunClock, within: Duration) -> Result<Admin, AdminError> {
        let mut admin = Admin {
            net: Net::new(clock)?,
            clock,
            cluster: Cluster::new(ClusterConfig::new(&config.connection, 0, MAX_FRAME_BYTES)),
            api_timeout_ns: nanos(config.api_timeout),
            retry_backoff_ns: nanos(config.connection.retry_backoff),
            warnings: Vec::new(),
            next_tag: 0,
            events: Vec::new(),
        };
        let until_ns = clock
            .now_ns()
            .saturating_add(nanos(within).min(admin.api_timeout_ns));
        let bootstrap_failures = admin.reach_bootstrap(until_ns)?;
        let broker_failures = admin.reach_brokers(until_ns)?;
        let servers = admin.cluster.config().bootstrap.len();
        for failure in &bootstrap_failures {
            // A dead bootstrap server that is also a dead broker is one warning, not two.
            if !broker_failures
                .iter()
                .any(|broker| broker.address == failure.address)
            {
                let rest = servers - bootstrap_failures.len();
                admin.warnings.push(format!(
                    "bootstrap server {failure}; going on with the other {rest} of {servers}"
                ));
            }
        }
        let brokers = admin.cluster.metadata().brokers.len();
        for failure in &broker_failures {
            let rest = brokers - broker_failures.len();
            admin.warnings.push(format!(
                "{failure}; going on with the other {rest} of {brokers} brokers"
            ));
        }
        Ok(admin)
    }

    /// What is not as it should be, and did not keep [`Admin::connect`] from going on.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The cluster and its brokers, asked for anew.
    ///
    /// # Errors
    ///
    /// When no broker answers in time.
    pub fn cluster(&mut self) -> Result<ClusterDescription, AdminError> {
        let response = self.call(
            To::Any,
            &MetadataRequest {
                topics: Some(Vec::new()),
                ..no_creation()
            },
        )?;
        Ok(ClusterDescription {
            cluster_id: response.cluster_id,
            controller: (response.controller_id >= 0).then_some(response.controller_id),
            brokers: response
                .brokers
                .into_iter()
                .map(|broker| {
                    let address = HostPort {
                        host: broker.host,
                        port: broker.port.clamp(0, 65535) as u16,
                    };
                    (
                        broker.node_id,
                        BrokerInfo {
                            address,
                            rack: broker.rack,
                        },
                    )
                })
                .collect(),
        })
    }
}
