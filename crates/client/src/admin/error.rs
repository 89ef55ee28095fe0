//! Why an admin client could not do what it was asked for.

use crate::net::CloseReason;
use crate::rights::Refusal;
use model::client_config::HostPort;
use std::time::Duration;
use wire::ApiKey;
use wire::versions::Unsupported;

/// A server that could not be spoken with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFailure {
    /// Its id, if metadata named it.
    pub broker: Option<i32>,
    /// Where it should listen.
    pub address: HostPort,
    /// Why not.
    pub reason: CloseReason,
}

impl std::fmt::Display for ServerFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(id) = self.broker {
            write!(f, "broker {id} at ")?;
        }
        write!(f, "{}: {}", self.address, self.reason)?;
        if let (CloseReason::ByPeer, None) = (&self.reason, self.broker) {
            write!(
                f,
                " before it answered; it may expect TLS or SASL, or not be Kafka"
            )?;
        }
        Ok(())
    }
}

fn joined(failures: &[ServerFailure]) -> String {
    failures
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("; ")
}

/// Why an operation failed as a whole.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// No bootstrap server could be spoken with.
    #[error("no bootstrap server answers: {}", joined(.failures))]
    NoBootstrapServer {
        /// Each of them, in the order given.
        failures: Vec<ServerFailure>,
    },
    /// A bootstrap server answers, and none of the addresses that it names can be reached.
    #[error(
        "{bootstrap} answers, but the cluster advertises listeners that cannot be reached from here: {}; \
         the usual cause is advertised.listeners in the brokers' configuration, which must name addresses that clients can \
         resolve and reach",
        joined(.failures)
    )]
    AdvertisedUnreachable {
        /// A bootstrap server that answers.
        bootstrap: HostPort,
        /// The brokers that it names.
        failures: Vec<ServerFailure>,
    },
    /// A bootstrap server answers, and knows of no broker that is alive.
    #[error("{bootstrap} answers, but names no broker that is alive")]
    NoBrokers {
        /// The bootstrap server.
        bootstrap: HostPort,
    },
    /// One broker that is needed cannot be spoken with.
    #[error("{api} cannot be asked: {failure}")]
    Unreachable {
        /// What was to be asked.
        api: ApiKey,
        /// Of whom, and why not.
        failure: ServerFailure,
    },
    /// A broker that is needed is not one of the cluster's, or is down.
    #[error("{api} cannot be asked: the cluster names no broker {broker} that is alive")]
    UnknownBroker {
        /// What was to be asked.
        api: ApiKey,
        /// The broker's id.
        broker: i32,
    },
    /// It took too long.
    #[error("{what} was not done within {} s{}", .after.as_secs_f64(), .last.as_ref().map(|last| format!("; last: {last}")).unwrap_or_default())]
    TimedOut {
        /// What.
        what: String,
        /// How long was waited.
        after: Duration,
        /// What went wrong last, if anything did.
        last: Option<String>,
    },
    /// The broker is too old or too new.
    #[error("{0}")]
    Unsupported(String),
    /// No broker can be spoken with: no common version, a login that is refused, a certificate that is not trusted, or a store
    /// that cannot be read.
    #[error("{0}")]
    Unusable(String),
    /// The broker refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The broker's answer cannot be read.
    #[error("the answer to {api} cannot be read: {error}")]
    BadAnswer {
        /// What was asked.
        api: ApiKey,
        /// What is wrong with the answer.
        error: wire::DecodeError,
    },
    /// The system grants no sockets.
    #[error("the poll loop failed: {0}")]
    Poll(#[from] std::io::Error),
}

impl From<Unsupported> for AdminError {
    fn from(unsupported: Unsupported) -> AdminError {
        AdminError::Unsupported(unsupported.to_string())
    }
}
