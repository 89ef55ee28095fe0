//! Connecting to a cluster, and finding out what is wrong where that is not possible.

use super::{Admin, AdminError, ServerFailure};
use crate::cluster::{Cluster, Node};
use crate::net::CloseReason;
use model::client_config::HostPort;

/// Once one server answers, the others get this much longer.
const GRACE_NS: u64 = 2_000_000_000;
/// A refused connection is tried so often, since a name may have several addresses of which one works.
const REFUSALS_BEFORE_GIVING_UP: u32 = 3;
/// Between two looks at a connection that is being waited for.
pub(super) const LOOK_NS: u64 = 20_000_000;

/// A server to be connected to.
struct Target {
    node: Node,
    broker: Option<i32>,
    address: HostPort,
}

impl Admin {
    /// Connects to all bootstrap servers and waits for metadata. Gives the failures of those that do not answer while others
    /// do.
    pub(super) fn reach_bootstrap(&mut self, until_ns: u64) -> Result<Vec<ServerFailure>, AdminError> {
        let addresses = self.cluster.config().bootstrap.clone();
        let targets: Vec<Target> = (0..)
            .zip(addresses)
            .map(|(index, address)| Target {
                node: Node::Bootstrap(index),
                broker: None,
                address,
            })
            .collect();
        let answers = |cluster: &Cluster<u64>, _: &[bool]| cluster.has_metadata();
        self.reach(&targets, until_ns, answers)?
            .map_err(|failures| AdminError::NoBootstrapServer { failures })
    }

    /// Connects to all brokers that metadata names. Gives the failures of those that do not answer while others do.
    pub(super) fn reach_brokers(&mut self, until_ns: u64) -> Result<Vec<ServerFailure>, AdminError> {
        let brokers = &self.cluster.metadata().brokers;
        let targets: Vec<Target> = brokers
            .iter()
            .map(|(&id, broker)| Target {
                node: Node::Broker(id),
                broker: Some(id),
                address: broker.address.clone(),
            })
            .collect();
        let servers = &self.cluster.config().bootstrap;
        let bootstrap = match self.cluster.any_ready() {
            Some(Node::Bootstrap(index)) => servers[index].clone(),
            _ => servers[0].clone(),
        };
        if targets.is_empty() {
            return Err(AdminError::NoBrokers { bootstrap });
        }
        let answers = |_: &Cluster<u64>, ready: &[bool]| ready.contains(&true);
        self.reach(&targets, until_ns, answers)?
            .map_err(|failures| AdminError::AdvertisedUnreachable { bootstrap, failures })
    }

    /// Connects to all targets. As soon as there is an answer, those that are still on their way are waited for a little; the
    /// failures of the others are the inner result, as a success if there was an answer at all.
    fn reach(
        &mut self,
        targets: &[Target],
        until_ns: u64,
        answers: impl Fn(&Cluster<u64>, &[bool]) -> bool,
    ) -> Result<Result<Vec<ServerFailure>, Vec<ServerFailure>>, AdminError> {
        let mut trials: Vec<Trial> = targets.iter().map(|_| Trial::default()).collect();
        let mut ready = vec![false; targets.len()];
        let mut answered_ns = None;
        loop {
            let now_ns = self.clock.now_ns();
            for ((trial, target), ready) in trials.iter_mut().zip(targets).zip(&mut ready) {
                trial.look(&self.cluster, target.node);
                // One that holds back has answered.
                let is_there = self.cluster.is_ready(target.node, now_ns)
                    || self.cluster.throttled_until_ns(target.node, now_ns).is_some();
                *ready = !trial.has_given_up() && is_there;
            }
            if let Some(unusable) = self.cluster.unusable() {
                return Err(AdminError::Unusable(unusable.to_owned()));
            }
            if answers(&self.cluster, &ready) {
                let since_ns = *answered_ns.get_or_insert(now_ns);
                let is_settled = trials
                    .iter()
                    .zip(&ready)
                    .all(|(trial, &ready)| ready || trial.has_given_up());
                if is_settled || now_ns >= until_ns.min(since_ns + GRACE_NS) {
                    return Ok(Ok(failures(targets, &trials, &ready)));
                }
            } else if trials.iter().all(Trial::has_given_up) || now_ns >= until_ns {
                return Ok(Err(failures(targets, &trials, &ready)));
            }
            self.step(until_ns.min(now_ns + LOOK_NS))?;
            while self.cluster.next_event().is_some() {}
        }
    }
}

fn failures(targets: &[Target], trials: &[Trial], ready: &[bool]) -> Vec<ServerFailure> {
    let unanswered = targets
        .iter()
        .zip(trials)
        .zip(ready)
        .filter(|(_, ready)| !**ready);
    unanswered
        .map(|((target, trial), _)| ServerFailure {
            broker: target.broker,
            address: target.address.clone(),
            reason: trial.reason_or("no answer yet"),
        })
        .collect()
}

/// Counts how often a connection has failed, from what the cluster tells of its next attempt.
#[derive(Default)]
pub(super) struct Trial {
    seen_retry_ns: u64,
    failures: u32,
    reason: Option<CloseReason>,
    missing_since_ns: Option<u64>,
}

impl Trial {
    pub(super) fn look(&mut self, cluster: &Cluster<u64>, node: Node) {
        let Some(retry_ns) = cluster.retry_at_ns(node) else {
            return;
        };
        if retry_ns == self.seen_retry_ns {
            return;
        }
        let failure = cluster.failures().find(|(failed, ..)| *failed == node);
        if let Some((_, _, reason)) = failure {
            self.seen_retry_ns = retry_ns;
            self.failures += 1;
            self.reason = Some(reason.clone());
        }
    }

    pub(super) fn has_given_up(&self) -> bool {
        match &self.reason {
            None => false,
            Some(
                CloseReason::Refused { .. }
                | CloseReason::ByPeer
                | CloseReason::ExpectsSasl
                | CloseReason::Tls { is_final: false, .. }
                | CloseReason::Failed { .. },
            ) => self.failures >= REFUSALS_BEFORE_GIVING_UP,
            Some(
                CloseReason::Unresolved { .. }
                | CloseReason::BadFrame { .. }
                | CloseReason::Tls { is_final: true, .. }
                | CloseReason::NotAuthenticated { .. }
                | CloseReason::SpeaksTls
                | CloseReason::TimedOut { .. },
            ) => true,
        }
    }

    /// Since when metadata has not named the broker, as far as this trial knows.
    pub(super) fn missing_since(&mut self, now_ns: u64) -> u64 {
        *self.missing_since_ns.get_or_insert(now_ns)
    }

    /// The failure that is worth a word, with `otherwise` where nothing has failed yet.
    pub(super) fn reason_or(&self, otherwise: &'static str) -> CloseReason {
        self.reason
            .clone()
            .unwrap_or(CloseReason::TimedOut { what: otherwise })
    }
}
