//! The measuring rig: what a script makes of each request. No socket and no clock: time is handed in.
//!
//! A request is judged when it has come in whole ([`Rig::judge`]), in the order in which requests come; that decides whether
//! it is carried out and how long its answer is held. When the answer is ready, [`Rig::release_at`] says when it may leave.

use crate::random::Random;
use model::broker_script::{BrokerScript, Distribution, Lie, Rule, Service};
use std::collections::BTreeMap;
use std::time::Duration;
use wire::{ApiKey, ErrorCode};

/// What a rule may ask of a request.
#[derive(Clone, Debug)]
pub(crate) struct Described<'a> {
    /// The broker that was asked.
    pub(crate) broker: i32,
    pub(crate) api: ApiKey,
    /// The topics that it names, where rules look at them.
    pub(crate) topics: Vec<&'a str>,
    /// Bytes of its record batches.
    pub(crate) batch_bytes: u64,
    /// Whether it asks for the acknowledgement of all in-sync replicas.
    pub(crate) waits_for_all: bool,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is carried out.
    Served,
    /// It is not, and the answer is this error.
    Refused(ErrorCode),
    /// It is, and the answer is this error all the same.
    Denied(ErrorCode),
    /// It is acknowledged, and done otherwise.
    Lied(Lie),
    /// The connection is closed.
    Dropped,
    /// The connection is never answered again.
    Silenced,
}

/// How an answer is held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hold {
    /// It leaves no sooner: its service by a single server has ended then.
    served_at: u64,
    /// It leaves so much later than it is ready.
    delay_ns: u64,
    /// Rules whose stalls it has to wait for.
    stalls: Vec<usize>,
    /// When the script began whose rules they are.
    script_began: u64,
}

impl Hold {
    /// Whether the answer may leave at once.
    pub(crate) fn is_none(&self) -> bool {
        self.served_at == 0 && self.delay_ns == 0 && self.stalls.is_empty()
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Rig {
    rules: Vec<Rule>,
    random: Random,
    began: u64,
    /// Matching requests so far, by rule.
    matched: Vec<u64>,
    /// When each single server is free, by rule and broker.
    free_at: BTreeMap<(usize, i32), u64>,
}

impl Rig {
    /// A script that begins at `now`.
    pub(crate) fn new(script: &BrokerScript, now: u64) -> Rig {
        Rig {
            random: Random::new(script.seed),
            began: now,
            matched: vec![0; script.rules.len()],
            free_at: BTreeMap::new(),
            rules: script.rules.clone(),
        }
    }

    /// Whether any rule looks at topics.
    pub(crate) fn looks_at_topics(&self) -> bool {
        self.rules.iter().any(|rule| rule.topic.is_some())
    }

    /// Judges a request. `is_in_sync` says whether a broker is an in-sync follower of a partition that the request writes to.
    pub(crate) fn judge(
        &mut self,
        request: &Described<'_>,
        now: u64,
        is_in_sync: impl Fn(i32) -> bool,
    ) -> (Fate, Hold) {
        let mut fate = Fate::Served;
        let mut hold = Hold {
            script_began: self.began,
            ..Hold::default()
        };
        for index in 0..self.rules.len() {
            if !self.meets(index, request) {
                continue;
            }
            let effect = &self.rules[index].effect;
            // A stall holds whatever is to leave while it lasts, whenever it came.
            if effect.stall {
                hold.stalls.push(index);
            }
            if self.rules[index].when.span(self.since(now)).is_none() || !self.is_meant(index) {
                continue;
            }
            let effect = self.rules[index].effect.clone();
            let decided = [
                effect.drop.then_some(Fate::Dropped),
                effect.silence.then_some(Fate::Silenced),
                effect.error.as_deref().and_then(error_named).map(Fate::Refused),
                effect
                    .error_after
                    .as_deref()
                    .and_then(error_named)
                    .map(Fate::Denied),
                effect.lie.map(Fate::Lied),
            ];
            if let (Fate::Served, Some(decided)) = (fate, decided.into_iter().flatten().next()) {
                fate = decided;
            }
            if let Some(delay) = &effect.delay {
                hold.delay_ns = hold.delay_ns.saturating_add(self.draw(delay));
            }
            if let Some((follower, by)) = effect.slow_follower
                && request.waits_for_all
                && is_in_sync(follower)
            {
                hold.delay_ns = hold.delay_ns.saturating_add(nanos(by));
            }
            if let Some(service) = &effect.service {
                let took = self.service_ns(service, request);
                let free_at = self.free_at.entry((index, request.broker)).or_insert(0);
                *free_at = (*free_at).max(now).saturating_add(took);
                hold.served_at = hold.served_at.max(*free_at);
            }
        }
        (fate, hold)
    }

    /// When an answer that is ready at `ready` may leave. Stalls of a script that is no longer followed hold nothing.
    pub(crate) fn release_at(&self, hold: &Hold, ready: u64) -> u64 {
        let mut at = ready.max(hold.served_at).saturating_add(hold.delay_ns);
        if hold.script_began != self.began {
            return at;
        }
        // The end of one stall may lie in another: at most as often as there are stalls, but for those that follow upon themselves.
        for _ in 0..=hold.stalls.len() {
            let until = hold.stalls.iter().filter_map(|&index| {
                let (_, end) = self.rules.get(index)?.when.span(self.since(at))?;
                Some(self.began.saturating_add(nanos(end?)))
            });
            match until.max() {
                Some(until) if until > at => at = until,
                _ => break,
            }
        }
        at
    }

    fn since(&self, now: u64) -> Duration {
        Duration::from_nanos(now.saturating_sub(self.began))
    }

    /// Whether the rule is for requests like this one.
    fn meets(&self, index: usize, request: &Described<'_>) -> bool {
        let rule = &self.rules[index];
        let is_of_topic = rule
            .topic
            .as_ref()
            .is_none_or(|topic| request.topics.contains(&topic.as_str()));
        let is_of_api = rule
            .api
            .as_deref()
            .is_none_or(|api| request.api.name() == Some(api));
        rule.effect.is_of_requests()
            && rule.broker.is_none_or(|broker| broker == request.broker)
            && is_of_topic
            && is_of_api
    }

    /// Counts a matching request, and says whether it is one of those that are meant.
    fn is_meant(&mut self, index: usize) -> bool {
        self.matched[index] += 1;
        let number = self.matched[index];
        let rule = &self.rules[index];
        let from = rule.when.from_request;
        let is_within = number >= from
            && rule
                .when
                .requests
                .is_none_or(|requests| number < from.saturating_add(requests));
        if !is_within {
            return false;
        }
        let is_nth = rule
            .every_nth
            .is_none_or(|nth| (number - from + 1).is_multiple_of(nth));
        let probability = rule.probability;
        is_nth && probability.is_none_or(|probability| self.share() < probability)
    }

    /// A number from 0 to below 1.
    fn share(&mut self) -> f64 {
        // 53 bits are what such a number holds.
        (self.random.number() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn draw(&mut self, distribution: &Distribution) -> u64 {
        match distribution {
            Distribution::Fixed(length) => nanos(*length),
            Distribution::Uniform(from, to) => {
                let width = nanos(*to).saturating_sub(nanos(*from));
                nanos(*from).saturating_add((self.share() * width as f64) as u64)
            }
            Distribution::Exponential(mean) => (-(1.0 - self.share()).ln() * nanos(*mean) as f64) as u64,
            Distribution::Normal(mean, deviation) => {
                // Box and Muller.
                let (a, b) = (1.0 - self.share(), self.share());
                let standard = (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos();
                (nanos(*mean) as f64 + standard * nanos(*deviation) as f64).max(0.0) as u64
            }
            Distribution::OneOf(weighted) => {
                let whole: f64 = weighted.iter().map(|(weight, _)| weight).sum();
                let mut left = self.share() * whole;
                for (weight, length) in weighted {
                    if left < *weight {
                        return nanos(*length);
                    }
                    left -= weight;
                }
                weighted.last().map_or(0, |(_, length)| nanos(*length))
            }
        }
    }

    fn service_ns(&mut self, service: &Service, request: &Described<'_>) -> u64 {
        let mut took = service.each.as_ref().map_or(0, |each| self.draw(each));
        if let Some(rate) = service.bytes_per_second {
            took = took.saturating_add((request.batch_bytes as f64 / rate * 1e9) as u64);
        }
        if let Some(rate) = service.requests_per_second {
            took = took.saturating_add((1e9 / rate) as u64);
        }
        took
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The error of that name.
pub(crate) fn error_named(name: &str) -> Option<ErrorCode> {
    (-1..=200).map(ErrorCode).find(|code| code.name() == name)
}

/// The names of APIs and of errors that a script may use, for [`BrokerScript::parse`].
pub fn known_names() -> (Vec<&'static str>, Vec<&'static str>) {
    let apis = (0..=200).filter_map(|key| ApiKey(key).name()).collect();
    let unknown = ErrorCode(i16::MAX).name();
    let errors = (-1..=200)
        .map(|code| ErrorCode(code).name())
        .filter(|name| *name != unknown)
        .collect();
    (apis, errors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;
    const SECOND: u64 = 1_000_000_000;

    fn rig(rules: &str) -> Rig {
        let (apis, errors) = known_names();
        let script = BrokerScript::parse("s.yaml", &format!("seed: 3\nrules:\n{rules}"), &apis, &errors);
        Rig::new(&script.unwrap_or_else(|faults| panic!("{faults}")), 0)
    }

    fn produce(bytes: u64) -> Described<'static> {
        Described {
            broker: 1,
            api: ApiKey::PRODUCE,
            topics: vec!["t"],
            batch_bytes: bytes,
            waits_for_all: true,
        }
    }

    /// When the answer to a request that comes at `now` leaves.
    fn leaves(rig: &mut Rig, request: &Described<'_>, now: u64) -> u64 {
        let (fate, hold) = rig.judge(request, now, |_| true);
        assert_eq!(fate, Fate::Served);
        rig.release_at(&hold, now)
    }

    #[test]
    fn a_delay_holds_each_answer_by_itself() {
        let mut rig = rig("  - { api: Produce, delay: 5ms }\n");
        for now in [0, 1, MS, MS] {
            assert_eq!(leaves(&mut rig, &produce(1), now), now + 5 * MS);
        }
        let fetch = Described {
            api: ApiKey::FETCH,
            ..produce(0)
        };
        let (fate, hold) = rig.judge(&fetch, 0, |_| true);
        assert!(fate == Fate::Served && hold.is_none());
    }

    #[test]
    fn a_stall_holds_what_would_leave_while_it_lasts_and_comes_again() {
        let mut rig = rig("  - { stall: true, from: 20s, for: 2s, every: 20s }\n");
        for (now, expected) in [
            (0, 0),
            (20 * SECOND - 1, 20 * SECOND - 1),
            (20 * SECOND, 22 * SECOND),
            (21 * SECOND, 22 * SECOND),
            (22 * SECOND, 22 * SECOND),
            (41 * SECOND, 42 * SECOND),
        ] {
            assert_eq!(leaves(&mut rig, &produce(1), now), expected, "{now}");
        }
    }

    #[test]
    fn an_answer_that_a_delay_pushes_into_a_stall_waits_for_its_end() {
        let mut rig = rig("  - { delay: 500ms }\n  - { stall: true, from: 10s, for: 1s }\n");
        assert_eq!(leaves(&mut rig, &produce(1), 9_700 * MS), 11 * SECOND);
    }

    #[test]
    fn what_waited_for_a_stall_of_the_script_before_is_not_held_by_a_rule_of_the_next() {
        let mut before = rig("  - { stall: true, from: 1h, for: 1s }\n");
        let (_, hold) = before.judge(&produce(1), 0, |_| true);
        let next = Rig {
            began: 1,
            ..rig("  - { delay: 1ms, for: 5s }\n")
        };
        assert_eq!(next.release_at(&hold, MS), MS);
    }

    #[test]
    fn requests_are_served_one_after_the_other_by_each_broker() {
        let mut rig = rig("  - { service: 10ms }\n");
        assert_eq!(leaves(&mut rig, &produce(1), 0), 10 * MS);
        assert_eq!(leaves(&mut rig, &produce(1), 1), 20 * MS);
        let other = Described {
            broker: 2,
            ..produce(1)
        };
        assert_eq!(leaves(&mut rig, &other, 2), 10 * MS + 2);
        assert_eq!(leaves(&mut rig, &produce(1), SECOND), SECOND + 10 * MS);
    }

    #[test]
    fn errors_come_as_often_as_the_rule_says() {
        let mut rig = rig(
            "  - { api: Produce, error: NOT_LEADER_OR_FOLLOWER, every_nth: 3, from_request: 2, requests: 6 }\n",
        );
        let fates: Vec<bool> = (0..10)
            .map(|_| {
                rig.judge(&produce(1), 0, |_| true).0 == Fate::Refused(ErrorCode::NOT_LEADER_OR_FOLLOWER)
            })
            .collect();
        // Of the requests 2 to 7 each third: 4 and 7.
        let expected = [false, false, false, true, false, false, true, false, false, false];
        assert_eq!(fates, expected);
    }

    #[test]
    fn one_in_a_hundred_is_one_in_a_hundred_and_the_same_with_the_same_seed() {
        let run = || {
            let mut rig = rig("  - { api: Produce, error_after: REQUEST_TIMED_OUT, probability: 1% }\n");
            (0..100_000)
                .filter(|_| {
                    rig.judge(&produce(1), 0, |_| true).0 == Fate::Denied(ErrorCode::REQUEST_TIMED_OUT)
                })
                .collect::<Vec<u32>>()
        };
        let failed = run();
        assert_eq!(failed, run());
        // Four standard deviations of a binomial distribution.
        assert!((874..=1126).contains(&failed.len()), "{}", failed.len());
    }

    #[test]
    fn rules_are_for_their_broker_and_topic_and_time() {
        let mut rig = rig("  - { broker: 2, topic: other, delay: 1ms, from: 1s, for: 1s }\n");
        let other = Described {
            broker: 2,
            topics: vec!["t", "other"],
            ..produce(1)
        };
        assert_eq!(leaves(&mut rig, &other, SECOND), SECOND + MS);
        assert_eq!(leaves(&mut rig, &other, 0), 0);
        assert_eq!(leaves(&mut rig, &other, 2 * SECOND), 2 * SECOND);
        assert_eq!(leaves(&mut rig, &produce(1), SECOND), SECOND);
        assert_eq!(
            leaves(&mut rig, &Described { broker: 1, ..other }, SECOND),
            SECOND
        );
    }

    #[test]
    fn a_slow_follower_holds_what_waits_for_it() {
        let mut rig = rig("  - { slow_follower: { broker: 3, by: 40ms } }\n");
        assert_eq!(leaves(&mut rig, &produce(1), 0), 40 * MS);
        let (_, hold) = rig.judge(&produce(1), 0, |broker| broker != 3);
        assert!(hold.is_none());
        let leader_alone = Described {
            waits_for_all: false,
            ..produce(1)
        };
        assert_eq!(leaves(&mut rig, &leader_alone, 0), 0);
    }

    /// Pollaczek and Khinchine: with Poisson arrivals at a share ρ of the rate μ of a server that takes the same time for each,
    /// the mean wait is ρ / (2 μ (1 − ρ)).
    #[test]
    fn poisson_arrivals_at_a_fixed_server_wait_as_queueing_theory_says() {
        let mut rig = rig("  - { service: 1ms }\n");
        let mut random = Random::new(11);
        let (rho, count) = (0.8, 400_000);
        let (mut now, mut waited) = (0.0_f64, 0.0_f64);
        for _ in 0..count {
            let share = (random.number() >> 11) as f64 / (1_u64 << 53) as f64;
            now += -(1.0 - share).ln() / rho * MS as f64;
            let at = now as u64;
            waited += (leaves(&mut rig, &produce(1), at) - at - MS) as f64;
        }
        let expected = rho / (2.0 * (1.0 - rho)) * MS as f64;
        let found = waited / f64::from(count);
        assert!((found / expected - 1.0).abs() < 0.05, "{found} for {expected}");
    }

    #[test]
    fn distributions_have_the_means_that_they_name() {
        for (rule, mean) in [
            ("{ delay: { uniform: [1ms, 9ms] } }", 5.0),
            ("{ delay: { exponential: 5ms } }", 5.0),
            ("{ delay: { normal: [5ms, 1ms] } }", 5.0),
            ("{ delay: { one_of: [[0.9, 1ms], [0.1, 41ms]] } }", 5.0),
        ] {
            let mut rig = rig(&format!("  - {rule}\n"));
            let sum: u64 = (0..100_000).map(|_| leaves(&mut rig, &produce(1), 0)).sum();
            let found = sum as f64 / 100_000.0 / MS as f64;
            assert!((found - mean).abs() < 0.1, "{rule}: {found}");
        }
    }

    proptest! {
        /// Whatever comes when: by any time, no more bytes were acknowledged than the ceiling allows since the first came.
        #[test]
        fn a_ceiling_is_never_exceeded(requests in proptest::collection::vec((0_u64..50_000_000, 1_u64..1_000_000), 1..200)) {
            let mut rig = rig("  - { api: Produce, bytes_per_second: 10MB }\n");
            let (mut now, mut leaving) = (0, Vec::new());
            for (pause, bytes) in requests {
                now += pause;
                leaving.push((leaves(&mut rig, &produce(bytes), now), bytes, now));
            }
            let first = leaving[0].2;
            let mut sum = 0;
            for (at, bytes, _) in leaving {
                sum += bytes;
                prop_assert!(sum as f64 <= 10e6 * (at - first) as f64 / 1e9 + 1e-2 * sum as f64 / 1e3 + 1.0, "{} bytes by {}", sum, at);
            }
        }
    }
}
