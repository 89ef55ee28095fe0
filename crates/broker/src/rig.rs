//! The measuring rig: what a script makes of each request. No socket and no clock: time is handed in.
//!
//! A request is judged when it has come in whole ([`Rig::judge`]), in the order in which requests come; that decides whether
//! it is carried out and how long its answer is held. When the answer is ready, [`Rig::release_at`] says when it may leave.

use crate::api::Failing;
use crate::random::Random;
use model::broker_script::{BrokerScript, Distribution, FollowerLag, Lie, Rule, Service, SlowFollower};
use std::collections::BTreeMap;
use std::time::Duration;
use wire::{ApiKey, ErrorCode};

/// What a rule may ask of a request.
#[derive(Clone, Debug)]
pub(crate) struct Described<'a> {
    /// The broker that was asked.
    pub(crate) broker: i32,
    pub(crate) api: ApiKey,
    /// The partitions that it names, where rules look at them.
    pub(crate) partitions: Vec<(&'a str, i32)>,
    /// Bytes of its record batches.
    pub(crate) batch_bytes: u64,
    /// Whether it asks for the acknowledgement of all in-sync replicas.
    pub(crate) waits_for_all: bool,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is carried out, but for what fails.
    Served,
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

/// What is made of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Judgement {
    pub(crate) fate: Fate,
    /// What of it fails; of several, the first that names a partition counts.
    pub(crate) failing: Vec<Failing>,
    pub(crate) hold: Hold,
    /// For how many ms the client is held back.
    pub(crate) throttle_ms: u32,
}

/// Bytes that a follower has to fetch one after the other.
#[derive(Clone, Copy, Debug)]
struct Backlog {
    /// Since when it has always had some to fetch.
    since: u64,
    /// Those that have come since.
    bytes: u64,
}

impl Backlog {
    /// When all of them are fetched. From the sum, so that nothing is lost by rounding.
    fn fetched_at(self, bytes_per_second: u64) -> u64 {
        let took = (u128::from(self.bytes) * 1_000_000_000).div_ceil(bytes_per_second.max(1).into());
        self.since.saturating_add(u64::try_from(took).unwrap_or(u64::MAX))
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
    /// What each slow follower has still to fetch, by rule.
    backlogs: BTreeMap<usize, Backlog>,
}

impl Rig {
    /// A script that begins at `now`.
    pub(crate) fn new(script: &BrokerScript, now: u64) -> Rig {
        Rig {
            random: Random::new(script.seed),
            began: now,
            matched: vec![0; script.rules.len()],
            free_at: BTreeMap::new(),
            backlogs: BTreeMap::new(),
            rules: script.rules.clone(),
        }
    }

    /// Whether any rule looks at topics.
    pub(crate) fn looks_at_topics(&self) -> bool {
        self.rules.iter().any(|rule| !rule.partitions.is_all())
    }

    /// Judges a request. `followed_bytes` says how many bytes it brings that a broker has to fetch as an in-sync follower;
    /// `None` where that broker follows none of the partitions that are written to.
    pub(crate) fn judge(
        &mut self,
        request: &Described<'_>,
        now: u64,
        followed_bytes: impl Fn(i32) -> Option<u64>,
    ) -> Judgement {
        let mut fate = Fate::Served;
        let mut failing: Vec<Failing> = Vec::new();
        let mut throttle_ns = 0;
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
            let Rule {
                effect, partitions, ..
            } = self.rules[index].clone();
            if fate == Fate::Served {
                let decided = [
                    effect.drop.then_some(Fate::Dropped),
                    effect.silence.then_some(Fate::Silenced),
                    effect.lie.map(Fate::Lied),
                ];
                match decided.into_iter().flatten().next() {
                    Some(decided) if failing.is_empty() => fate = decided,
                    _ => {}
                }
                let errors = [(&effect.error, false), (&effect.error_after, true)];
                failing.extend(errors.into_iter().filter_map(|(name, is_after)| {
                    Some(Failing {
                        partitions: partitions.clone(),
                        error: error_named(name.as_deref()?)?,
                        is_after,
                    })
                }));
            }
            if let Some(length) = &effect.throttle_time {
                throttle_ns = throttle_ns.max(self.draw(length));
            }
            if let Some(delay) = &effect.delay {
                hold.delay_ns = hold.delay_ns.saturating_add(self.draw(delay));
            }
            if let Some(SlowFollower { broker, lag }) = effect.slow_follower
                && let Some(bytes) = followed_bytes(broker)
            {
                match lag {
                    FollowerLag::By(by) if request.waits_for_all => {
                        hold.delay_ns = hold.delay_ns.saturating_add(nanos(by));
                    }
                    FollowerLag::By(_) => {}
                    FollowerLag::BytesPerSecond(rate) => {
                        let fetched_at = self.fetch(index, bytes, rate, now);
                        if request.waits_for_all {
                            hold.served_at = hold.served_at.max(fetched_at);
                        }
                    }
                }
            }
            if let Some(service) = &effect.service {
                let took = self.service_ns(service, request);
                let free_at = self.free_at.entry((index, request.broker)).or_insert(0);
                *free_at = (*free_at).max(now).saturating_add(took);
                hold.served_at = hold.served_at.max(*free_at);
            }
        }
        Judgement {
            fate,
            failing,
            hold,
            throttle_ms: u32::try_from(throttle_ns.div_ceil(1_000_000)).unwrap_or(u32::MAX),
        }
    }

    /// Has a rule's slow follower fetch bytes behind those that came before; gives when it has them.
    fn fetch(&mut self, rule: usize, bytes: u64, bytes_per_second: u64, now: u64) -> u64 {
        let idle = Backlog { since: now, bytes: 0 };
        let backlog = self.backlogs.entry(rule).or_insert(idle);
        if backlog.fetched_at(bytes_per_second) <= now {
            *backlog = idle;
        }
        backlog.bytes = backlog.bytes.saturating_add(bytes);
        backlog.fetched_at(bytes_per_second)
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
        let mut named = request.partitions.iter();
        let is_named = rule.partitions.is_all()
            || named.any(|(topic, partition)| rule.partitions.has(topic, *partition));
        let is_of_api = rule
            .api
            .as_deref()
            .is_none_or(|api| request.api.name() == Some(api));
        rule.effect.is_of_requests()
            && rule.broker.is_none_or(|broker| broker == request.broker)
            && is_named
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
                let standard = self.standard_normal();
                (nanos(*mean) as f64 + standard * nanos(*deviation) as f64).max(0.0) as u64
            }
            Distribution::LogNormal(log_normal) => {
                let standard = self.standard_normal();
                (nanos(log_normal.median) as f64 * (log_normal.sigma() * standard).exp()) as u64
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

    /// A draw from the normal distribution with mean 0 and standard deviation 1, by Box and Muller.
    fn standard_normal(&mut self) -> f64 {
        let (a, b) = (1.0 - self.share(), self.share());
        (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
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
    use model::broker_script::Selected;
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
            partitions: vec![("t", 0)],
            batch_bytes: bytes,
            waits_for_all: true,
        }
    }

    /// When the answer to a request that comes at `now` leaves.
    fn leaves(rig: &mut Rig, request: &Described<'_>, now: u64) -> u64 {
        let judged = judge(rig, request, now);
        assert_eq!(judged.fate, Fate::Served);
        rig.release_at(&judged.hold, now)
    }

    /// What becomes of a request all of whose bytes every broker follows.
    fn judge(rig: &mut Rig, request: &Described<'_>, now: u64) -> Judgement {
        rig.judge(request, now, |_| Some(request.batch_bytes))
    }

    /// What fails with an error, in the whole request.
    fn failing(error: ErrorCode, is_after: bool) -> Vec<Failing> {
        vec![Failing {
            partitions: Selected::default(),
            error,
            is_after,
        }]
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
        let judged = judge(&mut rig, &fetch, 0);
        assert!(judged.fate == Fate::Served && judged.hold.is_none());
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
        let hold = judge(&mut before, &produce(1), 0).hold;
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
        let refused = failing(ErrorCode::NOT_LEADER_OR_FOLLOWER, false);
        let fates: Vec<bool> = (0..10)
            .map(|_| judge(&mut rig, &produce(1), 0).failing == refused)
            .collect();
        // Of the requests 2 to 7 each third: 4 and 7.
        let expected = [false, false, false, true, false, false, true, false, false, false];
        assert_eq!(fates, expected);
    }

    #[test]
    fn one_in_a_hundred_is_one_in_a_hundred_and_the_same_with_the_same_seed() {
        let run = || {
            let mut rig = rig("  - { api: Produce, error_after: REQUEST_TIMED_OUT, probability: 1% }\n");
            let denied = failing(ErrorCode::REQUEST_TIMED_OUT, true);
            (0..100_000)
                .filter(|_| judge(&mut rig, &produce(1), 0).failing == denied)
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
            partitions: vec![("t", 0), ("other", 3)],
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
        let judged = rig.judge(&produce(1), 0, |broker| (broker != 3).then_some(1));
        assert!(judged.hold.is_none());
        let leader_alone = Described {
            waits_for_all: false,
            ..produce(1)
        };
        assert_eq!(leaves(&mut rig, &leader_alone, 0), 0);
    }

    #[test]
    fn a_follower_that_fetches_at_a_rate_holds_what_waits_for_it_as_long_as_that_takes() {
        let mut rig = rig("  - { slow_follower: { broker: 3, bytes_per_second: 3MB } }\n");
        // 1 MB takes a third of a second, and the second one lies behind it.
        assert_eq!(leaves(&mut rig, &produce(1_000_000), 0), 333_333_334);
        assert_eq!(leaves(&mut rig, &produce(1_000_000), 0), 666_666_667);
        assert_eq!(leaves(&mut rig, &produce(1_000_000), 500 * MS), SECOND);
        // What is not waited for has to be fetched all the same.
        let leader_alone = Described {
            waits_for_all: false,
            ..produce(3_000_000)
        };
        assert_eq!(leaves(&mut rig, &leader_alone, 2 * SECOND), 2 * SECOND);
        assert_eq!(leaves(&mut rig, &produce(3_000_000), 2 * SECOND), 4 * SECOND);
        // What it does not follow costs nothing.
        let judged = rig.judge(&produce(3_000_000), 10 * SECOND, |_| None);
        assert!(judged.hold.is_none());
        assert_eq!(leaves(&mut rig, &produce(3), 10 * SECOND), 10 * SECOND + 1000);
    }

    #[test]
    fn clients_are_held_back_for_the_longest_throttle_time_in_whole_ms() {
        let mut rig = rig(
            "  - { api: Produce, throttle_time: 100ms, from: 1s }\n  - { throttle_time: 20100us, every_nth: 2 }\n",
        );
        let mut throttled = |now| judge(&mut rig, &produce(1), now).throttle_ms;
        assert_eq!([throttled(0), throttled(0)], [0, 21]);
        assert_eq!([throttled(SECOND), throttled(SECOND)], [100, 100]);
    }

    #[test]
    fn an_error_is_of_the_partitions_that_its_rule_names_and_the_first_rule_wins() {
        let mut rig = rig(
            "  - { topic: t, partition: [0, 1], api: Produce, error: NOT_LEADER_OR_FOLLOWER }\n\
             \x20 - { topic: t, api: Produce, error_after: REQUEST_TIMED_OUT }\n  - { drop: true }\n",
        );
        let judged = judge(&mut rig, &produce(1), 0);
        assert_eq!(
            judged.fate,
            Fate::Served,
            "what an earlier rule fails is not dropped"
        );
        let failing: Vec<(bool, ErrorCode, bool)> = judged
            .failing
            .iter()
            .map(|failing| (failing.partitions.has("t", 2), failing.error, failing.is_after))
            .collect();
        let expected = [
            (false, ErrorCode::NOT_LEADER_OR_FOLLOWER, false),
            (true, ErrorCode::REQUEST_TIMED_OUT, true),
        ];
        assert_eq!(failing, expected);
        let elsewhere = Described {
            partitions: vec![("u", 0)],
            ..produce(1)
        };
        let judged = judge(&mut rig, &elsewhere, 0);
        assert!(judged.fate == Fate::Dropped && judged.failing.is_empty());
    }

    #[test]
    fn rules_are_for_their_partitions() {
        let mut rig =
            rig("  - { topic: t, partition: 2, delay: 1ms }\n  - { partition: [3, 4], delay: 2ms }\n");
        let mut delay = |topic, partition| {
            let request = Described {
                partitions: vec![(topic, partition)],
                ..produce(1)
            };
            leaves(&mut rig, &request, 0)
        };
        assert_eq!(
            [
                delay("t", 2),
                delay("t", 1),
                delay("u", 2),
                delay("t", 3),
                delay("u", 4)
            ],
            [MS, 0, 0, 2 * MS, 2 * MS]
        );
    }

    /// Against the quantiles of the formula that docs/broker-script.md gives. The standard error of a sample quantile is
    /// √(p (1 − p) / n) / f; five of them are allowed, and the seed is fixed.
    #[test]
    fn lognormal_delays_have_the_median_and_the_p99_that_they_name() {
        let mut rig = rig("  - { delay: { lognormal: { median: 5ms, p99: 50ms } } }\n");
        let mut drawn: Vec<u64> = (0..200_000).map(|_| leaves(&mut rig, &produce(1), 0)).collect();
        drawn.sort_unstable();
        let sigma = 10_f64.ln() / 2.326_347_874;
        // (p, its quantile of the standard normal distribution, the density there)
        for (p, z, density) in [
            (0.1, -1.281_551_566, 0.175_498_3),
            (0.5, 0.0, 0.398_942_3),
            (0.9, 1.281_551_566, 0.175_498_3),
            (0.99, 2.326_347_874, 0.026_652_1),
            (0.999, 3.090_232_306, 0.003_367_1),
        ] {
            let expected = 5.0 * MS as f64 * (sigma * z).exp();
            let found = drawn[(p * drawn.len() as f64) as usize] as f64;
            let error = 5.0 * (p * (1.0 - p) / drawn.len() as f64).sqrt() / density * sigma;
            assert!(
                (found / expected).ln().abs() < error,
                "p{p}: {found} for {expected}, within {error}"
            );
        }
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
            // A mean of median · exp(σ² / 2).
            ("{ delay: { lognormal: { median: 4ms, p99: 18924us } } }", 5.0),
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
