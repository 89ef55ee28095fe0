//! One operation's requests: sent to whoever is in charge, sent again where a connection was lost, bounded in time.

use super::reach::{LOOK_NS, Trial};
use super::{Admin, AdminError, ServerFailure};
use crate::cluster::{ClusterEvent, Node, SendError};
use std::ops::RangeInclusive;
use std::time::Duration;
use wire::ErrorCode;
use wire::codec::{Message, Reader, Request};

/// A broker that metadata has not named for so long is not one of the cluster's, or is down.
const MISSING_BROKER_NS: u64 = 1_000_000_000;

/// Whom to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum To {
    Any,
    Controller,
    Broker(i32),
}

pub(super) struct Answer<M> {
    pub(super) message: M,
    pub(super) version: i16,
    /// Whether an earlier attempt was sent and never answered: it may have been carried out.
    pub(super) repeated: bool,
}

enum Slot<M> {
    Waiting { not_before_ns: u64 },
    Asked { tag: u64 },
    Done(Result<Answer<M>, AdminError>),
}

impl Admin {
    pub(super) fn until_ns(&self) -> u64 {
        self.clock.now_ns().saturating_add(self.api_timeout_ns)
    }

    /// How long the broker may take, for requests that tell it.
    pub(super) fn timeout_ms(&self, until_ns: u64) -> i32 {
        let left_ns = until_ns
            .saturating_sub(self.clock.now_ns())
            .min(self.cluster.config().request_timeout_ns);
        i32::try_from(left_ns / 1_000_000).unwrap_or(i32::MAX)
    }

    pub(super) fn is_worth_repeating(&self, error: ErrorCode, until_ns: u64) -> bool {
        error.is_retriable() && self.clock.now_ns() < until_ns
    }

    pub(super) fn timed_out(&self, what: &str, last: Option<String>) -> AdminError {
        AdminError::TimedOut {
            what: what.to_owned(),
            after: Duration::from_nanos(self.api_timeout_ns),
            last,
        }
    }

    /// Waits before the next attempt, and asks where the controller is by then.
    pub(super) fn back_off(&mut self, again: bool, until_ns: u64) -> Result<(), AdminError> {
        if again {
            self.cluster.want_metadata();
            self.wait(self.retry_backoff_ns, until_ns)?;
        }
        Ok(())
    }

    pub(super) fn wait(&mut self, for_ns: u64, until_ns: u64) -> Result<(), AdminError> {
        let end_ns = self.clock.now_ns().saturating_add(for_ns).min(until_ns);
        while self.clock.now_ns() < end_ns {
            self.step(end_ns)?;
            while self.cluster.next_event().is_some() {}
        }
        Ok(())
    }

    /// Lets the network do what it has to do, and waits for it, not beyond `until_ns`.
    pub(super) fn step(&mut self, until_ns: u64) -> Result<(), AdminError> {
        let now_ns = self.clock.now_ns();
        self.cluster.tick(now_ns);
        self.net.act(self.cluster.actions());
        // A deadline that has passed waits for something else to happen: not to spin on it costs a millisecond at most.
        let deadline_ns = self
            .cluster
            .next_deadline_ns()
            .unwrap_or(u64::MAX)
            .max(now_ns + 1_000_000);
        self.net.poll(Some(until_ns.min(deadline_ns)), &mut self.events)?;
        let now_ns = self.clock.now_ns();
        for (conn, event) in self.events.drain(..) {
            self.cluster.on_net(conn, event, now_ns);
        }
        self.net.act(self.cluster.actions());
        Ok(())
    }

    pub(super) fn call<R: Request>(&mut self, to: To, request: &R) -> Result<R::Response, AdminError> {
        let until_ns = self.until_ns();
        Ok(self.call_within(to, R::VERSIONS, request, until_ns)?.message)
    }

    pub(super) fn call_within<R: Request>(
        &mut self,
        to: To,
        versions: RangeInclusive<i16>,
        request: &R,
        until_ns: u64,
    ) -> Result<Answer<R::Response>, AdminError> {
        let mut answers = self.call_many(&[(to, request.clone())], versions, until_ns);
        answers
            .pop()
            .unwrap_or_else(|| Err(self.timed_out(&R::KEY.to_string(), None)))
    }

    /// Sends all requests at once and waits for all answers. Requests whose connection is lost are sent again, to whoever
    /// is in charge by then.
    pub(super) fn call_many<R: Request>(
        &mut self,
        calls: &[(To, R)],
        versions: RangeInclusive<i16>,
        until_ns: u64,
    ) -> Vec<Result<Answer<R::Response>, AdminError>> {
        let mut slots: Vec<Slot<R::Response>> =
            calls.iter().map(|_| Slot::Waiting { not_before_ns: 0 }).collect();
        let mut trials: Vec<Trial> = calls.iter().map(|_| Trial::default()).collect();
        let mut repeated = vec![false; calls.len()];
        let mut last_failure: Option<String> = None;
        loop {
            let now_ns = self.clock.now_ns();
            for (index, (to, request)) in calls.iter().enumerate() {
                if let Slot::Waiting { not_before_ns } = slots[index]
                    && now_ns >= not_before_ns
                {
                    match self.try_send(*to, versions.clone(), request, &mut trials[index], now_ns) {
                        Ok(Some(tag)) => slots[index] = Slot::Asked { tag },
                        Ok(None) => {}
                        Err(error) => slots[index] = Slot::Done(Err(error)),
                    }
                }
            }
            let unfinished = slots.iter().any(|slot| !matches!(slot, Slot::Done(_)));
            if !unfinished || now_ns >= until_ns {
                break;
            }
            let waiting = slots.iter().any(|slot| matches!(slot, Slot::Waiting { .. }));
            if let Err(error) = self.step(if waiting {
                until_ns.min(now_ns + LOOK_NS)
            } else {
                until_ns
            }) {
                let text = error.to_string();
                for slot in slots.iter_mut().filter(|slot| !matches!(slot, Slot::Done(_))) {
                    *slot = Slot::Done(Err(AdminError::Poll(std::io::Error::other(text.clone()))));
                }
                break;
            }
            while let Some(event) = self.cluster.next_event() {
                let asked = |slots: &[Slot<R::Response>], tag: u64| {
                    slots
                        .iter()
                        .position(|slot| matches!(slot, Slot::Asked { tag: asked } if *asked == tag))
                };
                match event {
                    ClusterEvent::Answer {
                        tag,
                        version,
                        frame,
                        body_at,
                        ..
                    } => {
                        if let Some(index) = asked(&slots, tag) {
                            let decoded =
                                R::Response::decode(version, &mut Reader::new(&frame.bytes()[body_at..]));
                            slots[index] = Slot::Done(match decoded {
                                Ok(message) => Ok(Answer {
                                    message,
                                    version,
                                    repeated: repeated[index],
                                }),
                                Err(error) => Err(AdminError::BadAnswer { api: R::KEY, error }),
                            });
                        }
                        self.net.recycle(frame);
                    }
                    ClusterEvent::Lost {
                        tag,
                        written_ns,
                        reason,
                        ..
                    } => {
                        if let Some(index) = asked(&slots, tag) {
                            repeated[index] |= written_ns.is_some();
                            last_failure = Some(reason.to_string());
                            slots[index] = Slot::Waiting {
                                not_before_ns: now_ns.saturating_add(self.retry_backoff_ns),
                            };
                        }
                    }
                    ClusterEvent::Ready(_) | ClusterEvent::MetadataUpdated | ClusterEvent::Written { .. } => {
                    }
                }
            }
        }
        slots
            .into_iter()
            .map(|slot| match slot {
                Slot::Done(result) => result,
                Slot::Waiting { .. } | Slot::Asked { .. } => {
                    Err(self.timed_out(&R::KEY.to_string(), last_failure.clone()))
                }
            })
            .collect()
    }

    /// Sends the request if whoever has to get it is connected; `None` while that is not so.
    fn try_send<R: Request>(
        &mut self,
        to: To,
        versions: RangeInclusive<i16>,
        request: &R,
        trial: &mut Trial,
        now_ns: u64,
    ) -> Result<Option<u64>, AdminError> {
        let wanted = match to {
            To::Any => None,
            To::Controller => self.cluster.metadata().controller,
            To::Broker(id) => Some(id),
        };
        let mut node = None;
        let mut is_missing = false;
        if let Some(id) = wanted {
            let broker = Node::Broker(id);
            if self.cluster.is_ready(broker, now_ns) {
                node = Some(broker);
            }
            trial.look(&self.cluster, broker);
            let address = self
                .cluster
                .metadata()
                .brokers
                .get(&id)
                .map(|broker| broker.address.clone());
            if address.is_none() {
                self.cluster.want_metadata();
                is_missing = now_ns >= trial.missing_since(now_ns).saturating_add(MISSING_BROKER_NS);
            }
            if node.is_none() && to != To::Controller {
                match address {
                    Some(address) if trial.has_given_up() => {
                        let reason = trial.reason_or("no answer yet");
                        let failure = ServerFailure {
                            broker: Some(id),
                            address,
                            reason,
                        };
                        return Err(AdminError::Unreachable { api: R::KEY, failure });
                    }
                    None if is_missing => {
                        return Err(AdminError::UnknownBroker {
                            api: R::KEY,
                            broker: id,
                        });
                    }
                    _ => {}
                }
            }
        }
        // Brokers without ZooKeeper pass requests on to the controller, so any will do where it cannot be reached.
        if node.is_none()
            && match to {
                To::Any => true,
                To::Controller => wanted.is_none() || is_missing || trial.has_given_up(),
                To::Broker(_) => false,
            }
        {
            node = self.cluster.any_ready();
            if node.is_none() {
                self.cluster.want_metadata();
            }
        }
        let Some(node) = node else { return Ok(None) };
        let tag = self.next_tag;
        let timeout_ns = self.cluster.config().request_timeout_ns;
        match self
            .cluster
            .send_within(node, versions, request, tag, now_ns, timeout_ns)
        {
            Ok(()) => {
                self.next_tag += 1;
                Ok(Some(tag))
            }
            Err(SendError::NotReady) => Ok(None),
            Err(SendError::Unsupported(unsupported)) => Err(unsupported.into()),
        }
    }
}
