//! A script for the embedded broker as a measuring rig: which answers come late, which never come, which are errors, and when.
//!
//! docs/broker-script.md describes the file for its users. A script is a YAML mapping with an optional `seed` and a list of
//! `rules`; each rule says for whom it holds (`broker`, `topic`, `partition`, `api`), when (`from`, `for`, `every`, or by the number of
//! matching requests), and what it does. Several effects of one rule act together; of several rules that match, delays add up,
//! the longest throttle time counts, and the first that drops, silences, lies to or fails a request wins.

use std::time::Duration;

use crate::fault::{Fault, FaultKind, Faults};
use crate::source::Source;
use crate::spelling::nearest;
use crate::units::{ByteSize, parse_duration};
use crate::yaml::{Entry, Node, Value, parse_mapping};

/// A name this near to a known one is taken for a slip.
const SLIP: usize = 2;
/// More rules are taken for a mistake; each is looked at for each request.
const MOST_RULES: usize = 1000;

/// A whole script.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BrokerScript {
    /// Seed of all that is random; the same script and the same requests in the same order give the same answers.
    pub seed: u64,
    /// The rules, in the order of the file.
    pub rules: Vec<Rule>,
}

/// One rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// The broker's id; absent for all.
    pub broker: Option<i32>,
    /// Partitions; a request matches that names one of them. Only Produce and Fetch name any here.
    pub partitions: Selected,
    /// The API's name, such as `Produce`; absent for all.
    pub api: Option<String>,
    /// When it holds.
    pub when: When,
    /// Of the matching requests each n-th is meant, beginning with the n-th; absent for all.
    pub every_nth: Option<u64>,
    /// The share of the matching requests that is meant, from 0 to 1; absent for all.
    pub probability: Option<f64>,
    /// What it does.
    pub effect: Effect,
}

/// Partitions that a rule is for; by default all, of a request that names none as well.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selected {
    /// Of this topic; absent for all.
    pub topic: Option<String>,
    /// With one of these numbers; empty for all.
    pub indexes: Vec<i32>,
}

impl Selected {
    /// Whether it is for every partition.
    pub fn is_all(&self) -> bool {
        self.topic.is_none() && self.indexes.is_empty()
    }

    /// Whether a partition is one of them.
    pub fn has(&self, topic: &str, index: i32) -> bool {
        self.topic.as_ref().is_none_or(|selected| selected == topic)
            && (self.indexes.is_empty() || self.indexes.contains(&index))
    }
}

/// The time of a rule, since the script began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct When {
    /// From then on.
    pub from: Duration,
    /// For so long; absent for ever.
    pub length: Option<Duration>,
    /// Again and again after so long; absent for once.
    pub every: Option<Duration>,
    /// From the n-th matching request on, counted from 1.
    pub from_request: u64,
    /// For so many matching requests; absent for all.
    pub requests: Option<u64>,
}

impl When {
    /// The span of time that `at` lies in, as its beginning and end since the script began; `None` outside of all.
    pub fn span(&self, at: Duration) -> Option<(Duration, Option<Duration>)> {
        let since = at.checked_sub(self.from)?;
        let begin = match self.every {
            Some(every) if !every.is_zero() => {
                let rounds = since.as_nanos() / every.as_nanos();
                let whole = u64::try_from(rounds * every.as_nanos()).ok()?;
                self.from + Duration::from_nanos(whole)
            }
            _ => self.from,
        };
        let end = self.length.map(|length| begin + length);
        end.is_none_or(|end| at < end).then_some((begin, end))
    }
}

/// What a rule does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Effect {
    /// The answer is held back for so long, each one by itself.
    pub delay: Option<Distribution>,
    /// Answers leave one after the other, each after its time of service: a queue with one server, for each broker.
    pub service: Option<Service>,
    /// No answer leaves before the rule's time is over.
    pub stall: bool,
    /// The rule's partitions are answered with this error, by name, and nothing is done with them.
    pub error: Option<String>,
    /// The same, but what is asked of them is done.
    pub error_after: Option<String>,
    /// The answer tells the client to hold back for so long, and nothing more is read from it meanwhile (KIP-219).
    pub throttle_time: Option<Distribution>,
    /// The batch is acknowledged, and what is done with it is not what was acknowledged.
    pub lie: Option<Lie>,
    /// The connection is closed instead of an answer.
    pub drop: bool,
    /// The connection stays open and is never answered again.
    pub silence: bool,
    /// Answers to acks=all on partitions with an in-sync follower on this broker are held back.
    pub slow_follower: Option<SlowFollower>,
    /// The broker's followers do not fetch while the rule holds, so that it leaves the in-sync replicas after
    /// replica.lag.time.max.ms.
    pub follower_stops: Option<i32>,
    /// The broker is out of the in-sync replicas of the partitions that it follows while the rule holds, at once, and its
    /// followers do not fetch.
    pub isr_shrinks: Option<i32>,
    /// The broker is down while the rule holds.
    pub down: Option<i32>,
}

impl Effect {
    /// Whether it acts on answers, and not on brokers.
    pub fn is_of_requests(&self) -> bool {
        self.of_brokers() == 0
    }

    /// How many effects act on brokers.
    fn of_brokers(&self) -> usize {
        let given = [self.follower_stops, self.isr_shrinks, self.down];
        given.iter().flatten().count()
    }
}

/// A follower that has its leaders' records late.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlowFollower {
    /// The follower's broker.
    pub broker: i32,
    /// How late.
    pub lag: FollowerLag,
}

/// How late a follower has its leaders' records.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FollowerLag {
    /// Each so much later than the leader.
    By(Duration),
    /// All that it follows, on whichever leader, one after the other at so many bytes a second.
    BytesPerSecond(u64),
}

/// What a broker does with a batch that it acknowledges: to see whether whoever checks it finds out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// It is not kept.
    Lose,
    /// It is kept twice.
    Double,
    /// It is kept behind the batch that comes next.
    Swap,
}

/// A length of time, fixed or drawn for each request.
#[derive(Clone, Debug, PartialEq)]
pub enum Distribution {
    /// Always this.
    Fixed(Duration),
    /// Equally likely from one to the other.
    Uniform(Duration, Duration),
    /// Exponential with this mean.
    Exponential(Duration),
    /// Normal with this mean and standard deviation, never below zero.
    Normal(Duration, Duration),
    /// Log-normal with this median and 99th percentile: the logarithm is normal with the mean ln(median) and the standard
    /// deviation ln(p99 / median) / [`LogNormal::Z99`].
    LogNormal(LogNormal),
    /// One of these, each with its weight.
    OneOf(Vec<(f64, Duration)>),
}

/// A log-normal distribution, as latencies often are: by what is measured of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogNormal {
    /// Half are below; longer than nothing.
    pub median: Duration,
    /// 99 of 100 are below; no less than the median.
    pub p99: Duration,
}

impl LogNormal {
    /// The 99th percentile of the standard normal distribution.
    pub const Z99: f64 = 2.326_347_874_040_841;

    /// The standard deviation of the logarithm. That of `{ median: 5ms, p99: 50ms }` is ln 10 / 2.326 = 0.990.
    pub fn sigma(self) -> f64 {
        (self.p99.as_secs_f64() / self.median.as_secs_f64()).ln() / LogNormal::Z99
    }
}

/// The time of service of a request: the sum of what is given.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// For each request.
    pub each: Option<Distribution>,
    /// Record-batch bytes a second; a request of Produce takes its bytes over this.
    pub bytes_per_second: Option<f64>,
    /// Requests a second.
    pub requests_per_second: Option<f64>,
}

const RULE_KEYS: [&str; 26] = [
    "broker",
    "topic",
    "partition",
    "api",
    "from",
    "for",
    "every",
    "from_request",
    "requests",
    "every_nth",
    "probability",
    "delay",
    "service",
    "bytes_per_second",
    "requests_per_second",
    "stall",
    "error",
    "error_after",
    "throttle_time",
    "lie",
    "drop",
    "silence",
    "slow_follower",
    "follower_stops",
    "isr_shrinks",
    "down",
];

impl BrokerScript {
    /// Reads a script. `known_apis` and `known_errors` are the names that a rule may use.
    ///
    /// # Errors
    /// All faults at once: unknown keys with the nearest known one, values out of their ranges, rules without an effect.
    pub fn parse(
        path: &str,
        text: &str,
        known_apis: &[&str],
        known_errors: &[&str],
    ) -> Result<BrokerScript, Faults> {
        let entries = parse_mapping(path, text).map_err(Faults::from)?;
        let mut reading = Reading {
            path,
            known_apis,
            known_errors,
            faults: Vec::new(),
        };
        let mut script = BrokerScript::default();
        for entry in &entries {
            match entry.key.as_str() {
                "seed" => script.seed = reading.number(entry, "a whole number").unwrap_or(0),
                "rules" => match &entry.node.value {
                    Value::Sequence(items) if items.len() <= MOST_RULES => {
                        script.rules = items.iter().filter_map(|item| reading.rule(item)).collect();
                    }
                    Value::Sequence(items) => {
                        let problem = format!("at most {MOST_RULES}, not {}", items.len());
                        reading.fault(entry, FaultKind::OutOfRange, problem);
                    }
                    _ => reading.fault(
                        entry,
                        FaultKind::WrongType,
                        "a list of rules, each with a dash before it",
                    ),
                },
                _ => reading.unknown(entry, &["seed", "rules"]),
            }
        }
        if script.rules.is_empty() && reading.faults.is_empty() {
            reading.faults.push(Fault::missing(
                "rules",
                format!("{path} has no rules: it would change nothing"),
            ));
        }
        Faults::check(reading.faults, script)
    }
}

struct Reading<'a> {
    path: &'a str,
    known_apis: &'a [&'a str],
    known_errors: &'a [&'a str],
    faults: Vec<Fault>,
}

impl Reading<'_> {
    fn fault(&mut self, entry: &Entry, kind: FaultKind, problem: impl Into<String>) {
        let source = Source::file(self.path, entry.line);
        let fault = Fault::of_value(kind, &source, &entry.key, &entry.node.shown(), problem);
        self.faults.push(fault);
    }

    fn unknown(&mut self, entry: &Entry, known: &[&str]) {
        let problem = match nearest(&entry.key, known.iter().copied()) {
            Some((meant, distance)) if distance <= SLIP => format!("unknown key; did you mean {meant}?"),
            _ => format!("unknown key; known are {}", known.join(", ")),
        };
        self.fault(entry, FaultKind::UnknownKey, problem);
    }

    fn rule(&mut self, item: &Node) -> Option<Rule> {
        let Value::Mapping(entries) = &item.value else {
            let source = Source::file(self.path, item.line);
            self.faults.push(Fault::syntax(
                source,
                "a rule is a mapping, such as { api: Produce, delay: 5ms }",
            ));
            return None;
        };
        let before = self.faults.len();
        let mut rule = Rule {
            broker: None,
            partitions: Selected::default(),
            api: None,
            when: When {
                from: Duration::ZERO,
                length: None,
                every: None,
                from_request: 1,
                requests: None,
            },
            every_nth: None,
            probability: None,
            effect: Effect::default(),
        };
        let mut service = Service {
            each: None,
            bytes_per_second: None,
            requests_per_second: None,
        };
        let mut seen: Vec<&str> = Vec::new();
        for entry in entries {
            if seen.contains(&entry.key.as_str()) {
                self.fault(entry, FaultKind::Repeated, "stands twice in one rule");
            }
            seen.push(&entry.key);
            let effect = &mut rule.effect;
            match entry.key.as_str() {
                "broker" => rule.broker = self.broker(entry),
                "topic" => rule.partitions.topic = self.text(entry),
                "partition" => rule.partitions.indexes = self.partitions(entry),
                "api" => {
                    rule.api = self.word(
                        entry,
                        self.known_apis,
                        "an API of Kafka's, such as Produce or Fetch",
                    )
                }
                "from" => rule.when.from = self.duration(entry).unwrap_or_default(),
                "for" => rule.when.length = self.positive(entry),
                "every" => rule.when.every = self.positive(entry),
                "from_request" => rule.when.from_request = self.count(entry).unwrap_or(1),
                "requests" => rule.when.requests = self.count(entry),
                "every_nth" => rule.every_nth = self.count(entry),
                "probability" => rule.probability = self.probability(entry),
                "delay" => effect.delay = self.distribution(entry),
                "service" => service.each = self.distribution(entry),
                "bytes_per_second" => service.bytes_per_second = self.bytes(entry),
                "requests_per_second" => service.requests_per_second = self.rate(entry),
                "stall" => effect.stall = self.flag(entry),
                "error" => {
                    effect.error = self.word(entry, self.known_errors, "the name of an error of Kafka's")
                }
                "error_after" => {
                    effect.error_after =
                        self.word(entry, self.known_errors, "the name of an error of Kafka's")
                }
                "throttle_time" => effect.throttle_time = self.distribution(entry),
                "lie" => effect.lie = self.lie(entry),
                "drop" => effect.drop = self.flag(entry),
                "silence" => effect.silence = self.flag(entry),
                "slow_follower" => effect.slow_follower = self.slow_follower(entry),
                "follower_stops" => effect.follower_stops = self.broker(entry),
                "isr_shrinks" => effect.isr_shrinks = self.broker(entry),
                "down" => effect.down = self.broker(entry),
                _ => self.unknown(entry, &RULE_KEYS),
            }
        }
        if service.each.is_some()
            || service.bytes_per_second.is_some()
            || service.requests_per_second.is_some()
        {
            rule.effect.service = Some(service);
        }
        self.check(item, &rule, before);
        Some(rule)
    }

    /// What a rule's values say together.
    fn check(&mut self, item: &Node, rule: &Rule, faults_before: usize) {
        if self.faults.len() > faults_before {
            return;
        }
        let source = || Source::file(self.path, item.line);
        let mut problem = None;
        let when = &rule.when;
        let counts = rule.every_nth.is_some()
            || rule.probability.is_some()
            || when.requests.is_some()
            || when.from_request != 1;
        let of_brokers = Effect {
            down: rule.effect.down,
            follower_stops: rule.effect.follower_stops,
            isr_shrinks: rule.effect.isr_shrinks,
            ..Effect::default()
        };
        let stands_alone = rule.effect == of_brokers && of_brokers.of_brokers() == 1;
        if rule.effect == Effect::default() {
            problem = Some(
                "the rule does nothing; give one of delay, service, bytes_per_second, requests_per_second, stall, error, \
                            error_after, throttle_time, lie, drop, silence, slow_follower, follower_stops, isr_shrinks, down",
            );
        } else if rule.effect.stall && rule.when.length.is_none() {
            problem = Some("a stall needs an end; give `for`");
        } else if rule.when.every.is_some() && rule.when.length.is_none() {
            problem = Some("`every` repeats a span; give its length by `for`");
        } else if rule
            .when
            .every
            .zip(rule.when.length)
            .is_some_and(|(every, length)| length > every)
        {
            problem = Some("`for` is longer than `every`");
        } else if !rule.effect.is_of_requests()
            && (rule.api.is_some() || !rule.partitions.is_all() || rule.broker.is_some())
        {
            problem = Some(
                "down, follower_stops and isr_shrinks name their broker themselves, and have no api, topic, partition or \
                 broker beside them",
            );
        } else if (rule.effect.stall || !rule.effect.is_of_requests()) && counts {
            problem = Some(
                "stall, down, follower_stops and isr_shrinks hold for a time; they have no from_request, requests, \
                 every_nth or probability beside them",
            );
        } else if !rule.effect.is_of_requests() && !stands_alone {
            problem = Some("down, follower_stops and isr_shrinks stand in rules of their own");
        } else if [
            rule.effect.drop,
            rule.effect.silence,
            rule.effect.error.is_some(),
            rule.effect.error_after.is_some(),
            rule.effect.lie.is_some(),
        ]
        .iter()
        .filter(|given| **given)
        .count()
            > 1
        {
            problem = Some("drop, silence, error, error_after and lie exclude each other");
        } else if !rule.partitions.is_all()
            && !matches!(rule.api.as_deref(), None | Some("Produce" | "Fetch"))
        {
            problem = Some("only Produce and Fetch name topics here; give one of them as api, or none");
        } else if (rule.effect.slow_follower.is_some()
            || rule
                .effect
                .service
                .as_ref()
                .is_some_and(|service| service.bytes_per_second.is_some()))
            && !matches!(rule.api.as_deref(), None | Some("Produce"))
        {
            problem = Some("bytes_per_second and slow_follower are of Produce alone");
        } else if (rule.effect.error.is_some() || rule.effect.error_after.is_some())
            && !matches!(rule.api.as_deref(), Some("Produce" | "Fetch"))
        {
            problem = Some("an error needs api: Produce or api: Fetch");
        } else if rule.effect.lie.is_some() && rule.api.as_deref() != Some("Produce") {
            problem = Some("a lie is told of batches; it needs api: Produce");
        }
        if let Some(problem) = problem {
            let fault = Fault::syntax(source(), problem);
            self.faults.push(fault);
        }
    }

    fn scalar<'e>(&mut self, entry: &'e Entry, expected: &str) -> Option<&'e str> {
        match &entry.node.value {
            Value::Scalar { text, .. } if !text.trim().is_empty() => Some(text.trim()),
            _ => {
                self.fault(entry, FaultKind::WrongType, expected);
                None
            }
        }
    }

    fn lie(&mut self, entry: &Entry) -> Option<Lie> {
        match self.scalar(entry, "lose, double or swap")? {
            "lose" => Some(Lie::Lose),
            "double" => Some(Lie::Double),
            "swap" => Some(Lie::Swap),
            _ => {
                self.fault(entry, FaultKind::WrongType, "allowed: lose, double, swap");
                None
            }
        }
    }

    fn text(&mut self, entry: &Entry) -> Option<String> {
        self.scalar(entry, "a text").map(str::to_owned)
    }

    fn number(&mut self, entry: &Entry, expected: &str) -> Option<u64> {
        let number = self.scalar(entry, expected)?.parse().ok();
        if number.is_none() {
            self.fault(entry, FaultKind::WrongType, expected);
        }
        number
    }

    fn count(&mut self, entry: &Entry) -> Option<u64> {
        let number = self.number(entry, "a whole number from 1")?;
        if number == 0 {
            self.fault(entry, FaultKind::OutOfRange, "a whole number from 1");
        }
        Some(number.max(1))
    }

    fn broker(&mut self, entry: &Entry) -> Option<i32> {
        let number = self.number(entry, "a broker's id, from 1")?;
        let id = i32::try_from(number).ok().filter(|&id| id >= 1);
        if id.is_none() {
            self.fault(entry, FaultKind::OutOfRange, "a broker's id, from 1");
        }
        id
    }

    fn probability(&mut self, entry: &Entry) -> Option<f64> {
        const EXPECTED: &str = "from 0 to 1, such as 0.01, or a percentage such as 1%";
        let text = self.scalar(entry, EXPECTED)?;
        let number = match text.strip_suffix('%') {
            Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
            None => text.parse(),
        };
        match number {
            Ok(number) if (0.0..=1.0).contains(&number) => Some(number),
            _ => {
                self.fault(entry, FaultKind::OutOfRange, EXPECTED);
                None
            }
        }
    }

    fn flag(&mut self, entry: &Entry) -> bool {
        match self.scalar(entry, "true or false") {
            Some("true") => true,
            Some("false") | None => false,
            Some(_) => {
                self.fault(entry, FaultKind::WrongType, "true or false");
                false
            }
        }
    }

    fn word(&mut self, entry: &Entry, known: &[&str], expected: &str) -> Option<String> {
        let text = self.scalar(entry, expected)?;
        if let Some(word) = known.iter().find(|word| word.eq_ignore_ascii_case(text)) {
            return Some((*word).to_owned());
        }
        let problem = match nearest(text, known.iter().copied()) {
            Some((meant, distance)) if distance <= SLIP + 1 => format!("{expected}; did you mean {meant}?"),
            _ => expected.to_owned(),
        };
        self.fault(entry, FaultKind::WrongType, problem);
        None
    }

    fn duration(&mut self, entry: &Entry) -> Option<Duration> {
        const EXPECTED: &str = "a length of time, such as 5ms, 2s or 1m";
        let text = self.scalar(entry, EXPECTED)?;
        let duration = parse_duration(text);
        match duration {
            Ok(duration) => Some(duration),
            Err(error) => {
                self.fault(entry, FaultKind::WrongType, format!("{EXPECTED}: {error}"));
                None
            }
        }
    }

    fn positive(&mut self, entry: &Entry) -> Option<Duration> {
        let duration = self.duration(entry)?;
        if duration.is_zero() {
            self.fault(entry, FaultKind::OutOfRange, "longer than nothing");
        }
        Some(duration)
    }

    fn bytes(&mut self, entry: &Entry) -> Option<f64> {
        const EXPECTED: &str = "bytes a second, such as 10MB or 64KiB, more than 0";
        let size = self.scalar(entry, EXPECTED)?.parse::<ByteSize>();
        match size {
            Ok(size) if size.bytes() > 0 => Some(size.bytes() as f64),
            _ => {
                self.fault(entry, FaultKind::WrongType, EXPECTED);
                None
            }
        }
    }

    fn rate(&mut self, entry: &Entry) -> Option<f64> {
        const EXPECTED: &str = "requests a second, more than 0";
        let rate = self.scalar(entry, EXPECTED)?.parse::<f64>().ok();
        let rate = rate.filter(|rate| rate.is_finite() && *rate > 0.0);
        if rate.is_none() {
            self.fault(entry, FaultKind::OutOfRange, EXPECTED);
        }
        rate
    }

    /// `3`, or a list such as `[0, 2]`.
    fn partitions(&mut self, entry: &Entry) -> Vec<i32> {
        const EXPECTED: &str = "a partition's number, from 0, or a list such as [0, 2]";
        let items: Vec<&Node> = match &entry.node.value {
            Value::Sequence(items) => items.iter().collect(),
            _ => vec![&entry.node],
        };
        let index = |node: &&Node| match &node.value {
            Value::Scalar { text, .. } => text.trim().parse::<i32>().ok().filter(|index| *index >= 0),
            _ => None,
        };
        let indexes: Option<Vec<i32>> = items.iter().map(index).collect();
        match indexes.filter(|indexes| !indexes.is_empty()) {
            Some(indexes) => indexes,
            None => {
                self.fault(entry, FaultKind::WrongType, EXPECTED);
                Vec::new()
            }
        }
    }

    fn slow_follower(&mut self, entry: &Entry) -> Option<SlowFollower> {
        const EXPECTED: &str =
            "a mapping such as { broker: 2, by: 50ms } or { broker: 2, bytes_per_second: 5MB }";
        let Value::Mapping(parts) = &entry.node.value else {
            self.fault(entry, FaultKind::WrongType, EXPECTED);
            return None;
        };
        let (mut broker, mut lags) = (None, Vec::new());
        for part in parts {
            match part.key.as_str() {
                "broker" => broker = self.broker(part),
                "by" => lags.extend(self.duration(part).map(FollowerLag::By)),
                "bytes_per_second" => {
                    let rate = self.bytes(part);
                    lags.extend(rate.map(|rate| FollowerLag::BytesPerSecond(rate as u64)));
                }
                _ => self.unknown(part, &["broker", "by", "bytes_per_second"]),
            }
        }
        match (broker, lags.as_slice()) {
            (Some(broker), &[lag]) => Some(SlowFollower { broker, lag }),
            (_, []) | (None, _) => {
                self.fault(entry, FaultKind::Missing, EXPECTED);
                None
            }
            _ => {
                let problem = "by and bytes_per_second exclude each other; write two rules for both";
                self.fault(entry, FaultKind::WrongType, problem);
                None
            }
        }
    }

    /// `{ median: 5ms, p99: 50ms }`.
    fn log_normal(&mut self, entry: &Entry) -> Option<LogNormal> {
        const EXPECTED: &str =
            "a median, longer than nothing, and a p99 that is no shorter, such as { median: 5ms, p99: 50ms }";
        let parts = match &entry.node.value {
            Value::Mapping(parts) => parts.as_slice(),
            _ => &[],
        };
        let (mut median, mut p99) = (None, None);
        for part in parts {
            match part.key.as_str() {
                "median" => median = self.duration(part),
                "p99" => p99 = self.duration(part),
                _ => self.unknown(part, &["median", "p99"]),
            }
        }
        match median.zip(p99) {
            Some((median, p99)) if !median.is_zero() && median <= p99 => Some(LogNormal { median, p99 }),
            _ => {
                self.fault(entry, FaultKind::WrongType, EXPECTED);
                None
            }
        }
    }

    /// `5ms`, or a mapping with one of uniform, exponential, normal, lognormal, one_of.
    fn distribution(&mut self, entry: &Entry) -> Option<Distribution> {
        const EXPECTED: &str = "a length of time such as 5ms, or { uniform: [1ms, 9ms] }, { exponential: 5ms }, \
                                { normal: [5ms, 1ms] }, { lognormal: { median: 5ms, p99: 50ms } }, \
                                { one_of: [[0.9, 1ms], [0.1, 50ms]] }";
        let parts = match &entry.node.value {
            Value::Scalar { .. } => return self.duration(entry).map(Distribution::Fixed),
            Value::Mapping(parts) => parts,
            Value::Sequence(_) => {
                self.fault(entry, FaultKind::WrongType, EXPECTED);
                return None;
            }
        };
        let [part] = parts.as_slice() else {
            self.fault(entry, FaultKind::WrongType, EXPECTED);
            return None;
        };
        if part.key == "lognormal" {
            return self.log_normal(part).map(Distribution::LogNormal);
        }
        let items: Vec<&Node> = match &part.node.value {
            Value::Sequence(items) => items.iter().collect(),
            _ => vec![&part.node],
        };
        let time = |node: &&Node| match &node.value {
            Value::Scalar { text, .. } => parse_duration(text.trim()).ok(),
            _ => None,
        };
        let times: Option<Vec<Duration>> = items.iter().map(time).collect();
        let found = match (part.key.as_str(), times.as_deref()) {
            ("uniform", Some(&[from, to])) if from <= to => Some(Distribution::Uniform(from, to)),
            ("exponential", Some(&[mean])) => Some(Distribution::Exponential(mean)),
            ("normal", Some(&[mean, deviation])) => Some(Distribution::Normal(mean, deviation)),
            ("one_of", None) => {
                let weighted = |node: &&Node| match &node.value {
                    Value::Sequence(pair) => match pair.as_slice() {
                        [weight, length] => {
                            let weight = weight
                                .shown()
                                .parse::<f64>()
                                .ok()
                                .filter(|w| w.is_finite() && *w > 0.0)?;
                            Some((weight, time(&length)?))
                        }
                        _ => None,
                    },
                    _ => None,
                };
                let all: Option<Vec<(f64, Duration)>> = items.iter().map(weighted).collect();
                all.filter(|all| !all.is_empty()).map(Distribution::OneOf)
            }
            ("uniform" | "exponential" | "normal" | "one_of", _) => None,
            _ => {
                self.unknown(part, &["uniform", "exponential", "normal", "lognormal", "one_of"]);
                return None;
            }
        };
        if found.is_none() {
            self.fault(entry, FaultKind::WrongType, EXPECTED);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const APIS: [&str; 3] = ["Produce", "Fetch", "Metadata"];
    const ERRORS: [&str; 2] = ["NOT_LEADER_OR_FOLLOWER", "REQUEST_TIMED_OUT"];

    fn parse(text: &str) -> Result<BrokerScript, Faults> {
        BrokerScript::parse("s.yaml", text, &APIS, &ERRORS)
    }

    #[test]
    fn a_script_is_read_whole() {
        let script = parse(
            "seed: 7\nrules:\n  - api: produce\n    topic: t\n    broker: 2\n    delay: 5ms\n    every_nth: 3\n\
             \x20 - { stall: true, from: 20s, for: 2s, every: 20s }\n\
             \x20 - { api: Produce, bytes_per_second: 10MB, service: { exponential: 1ms } }\n\
             \x20 - { api: Produce, error: NOT_LEADER_OR_FOLLOWER, probability: 1% }\n\
             \x20 - { slow_follower: { broker: 3, by: 40ms } }\n\
             \x20 - { down: 2, from: 10s, for: 5s }\n\
             \x20 - { delay: { one_of: [[0.9, 1ms], [0.1, 50ms]] }, from_request: 100, requests: 10 }\n\
             \x20 - { topic: t, partition: [0, 2], throttle_time: { lognormal: { median: 5ms, p99: 50ms } } }\n\
             \x20 - { slow_follower: { broker: 3, bytes_per_second: 5MB } }\n\
             \x20 - { isr_shrinks: 3, from: 1s, for: 2s }\n\
             \x20 - { partition: 4, api: fetch, error: REQUEST_TIMED_OUT }\n",
        )
        .unwrap();
        assert_eq!((script.seed, script.rules.len()), (7, 11));
        let first = &script.rules[0];
        assert_eq!(
            (
                first.api.as_deref(),
                first.partitions.topic.as_deref(),
                first.broker
            ),
            (Some("Produce"), Some("t"), Some(2))
        );
        assert_eq!(
            first.effect.delay,
            Some(Distribution::Fixed(Duration::from_millis(5)))
        );
        assert_eq!(first.every_nth, Some(3));
        assert!(script.rules[1].effect.stall);
        let service = script.rules[2].effect.service.clone().unwrap();
        assert_eq!(service.bytes_per_second, Some(10e6));
        assert_eq!(
            service.each,
            Some(Distribution::Exponential(Duration::from_millis(1)))
        );
        assert_eq!(script.rules[3].probability, Some(0.01));
        assert_eq!(
            script.rules[4].effect.slow_follower,
            Some(SlowFollower {
                broker: 3,
                lag: FollowerLag::By(Duration::from_millis(40))
            })
        );
        assert_eq!(script.rules[5].effect.down, Some(2));
        assert_eq!(
            (script.rules[6].when.from_request, script.rules[6].when.requests),
            (100, Some(10))
        );
        let selected = &script.rules[7].partitions;
        assert!(selected.has("t", 2) && !selected.has("t", 1) && !selected.has("u", 0));
        let log_normal = LogNormal {
            median: Duration::from_millis(5),
            p99: Duration::from_millis(50),
        };
        assert_eq!(
            script.rules[7].effect.throttle_time,
            Some(Distribution::LogNormal(log_normal))
        );
        assert!(
            (log_normal.sigma() - 0.9898).abs() < 1e-4,
            "{}",
            log_normal.sigma()
        );
        assert_eq!(
            script.rules[8].effect.slow_follower,
            Some(SlowFollower {
                broker: 3,
                lag: FollowerLag::BytesPerSecond(5_000_000)
            })
        );
        assert_eq!(script.rules[9].effect.isr_shrinks, Some(3));
        let selected = &script.rules[10].partitions;
        assert!(selected.has("any", 4) && !selected.has("any", 0) && !selected.is_all());
    }

    #[test]
    fn spans_repeat_and_end() {
        let seconds = Duration::from_secs;
        let when = When {
            from: seconds(20),
            length: Some(seconds(2)),
            every: Some(seconds(30)),
            from_request: 1,
            requests: None,
        };
        assert_eq!(when.span(seconds(19)), None);
        assert_eq!(when.span(seconds(20)), Some((seconds(20), Some(seconds(22)))));
        assert_eq!(when.span(seconds(21)), Some((seconds(20), Some(seconds(22)))));
        assert_eq!(when.span(seconds(22)), None);
        assert_eq!(when.span(seconds(50)), Some((seconds(50), Some(seconds(52)))));
        let once = When {
            every: None,
            length: None,
            ..when
        };
        assert_eq!(once.span(seconds(500)), Some((seconds(20), None)));
    }

    #[test]
    fn faults_name_line_key_and_what_is_allowed() {
        for (text, expected) in [
            (
                "rule:\n  - { delay: 5ms }\n",
                "s.yaml:1: rule = [{delay: 5ms}]: unknown key; did you mean rules?",
            ),
            (
                "rules:\n  - delai: 5ms\n",
                "s.yaml:2: delai = 5ms: unknown key; did you mean delay?",
            ),
            (
                "rules:\n  - delay: five\n",
                "s.yaml:2: delay = five: a length of time",
            ),
            (
                "rules:\n  - api: Produse\n    delay: 1ms\n",
                "did you mean Produce?",
            ),
            ("rules:\n  - api: Produce\n", "s.yaml:2: the rule does nothing"),
            ("rules:\n  - stall: true\n", "a stall needs an end"),
            (
                "rules:\n  - { stall: true, every: 2s, for: 3s }\n",
                "`for` is longer than `every`",
            ),
            (
                "rules:\n  - { delay: 1ms, every: 3s }\n",
                "give its length by `for`",
            ),
            (
                "rules:\n  - { error: REQUEST_TIMED_OUT }\n",
                "an error needs api: Produce",
            ),
            (
                "rules:\n  - { api: Produce, error: REQUEST_TIMEDOUT }\n",
                "did you mean REQUEST_TIMED_OUT?",
            ),
            ("rules:\n  - { down: 0 }\n", "a broker's id, from 1"),
            (
                "rules:\n  - { down: 2, api: Fetch }\n",
                "name their broker themselves",
            ),
            ("rules:\n  - { delay: 1ms, probability: 2 }\n", "from 0 to 1"),
            (
                "rules:\n  - { delay: { uniform: [9ms, 1ms] } }\n",
                "a length of time such as 5ms, or",
            ),
            (
                "rules:\n  - { delay: { gamma: 1ms } }\n",
                "gamma = 1ms: unknown key; known are uniform",
            ),
            ("rules:\n  - { bytes_per_second: 0 }\n", "bytes a second"),
            ("rules:\n  - { delay: 1ms, delay: 2ms }\n", "twice"),
            (
                "rules:\n  - { stall: true, for: 1s, probability: 0 }\n",
                "hold for a time",
            ),
            ("rules:\n  - { down: 1, every_nth: 2 }\n", "hold for a time"),
            ("rules:\n  - { down: 1, delay: 1ms }\n", "in rules of their own"),
            (
                "rules:\n  - { down: 1, follower_stops: 2 }\n",
                "in rules of their own",
            ),
            (
                "rules:\n  - { drop: true, silence: true }\n",
                "exclude each other",
            ),
            (
                "rules:\n  - { topic: t, api: Metadata, delay: 1ms }\n",
                "only Produce and Fetch name topics",
            ),
            (
                "rules:\n  - { api: Fetch, bytes_per_second: 1MB }\n",
                "of Produce alone",
            ),
            (
                "rules:\n  - { api: Fetch, slow_follower: { broker: 2, by: 1ms } }\n",
                "of Produce alone",
            ),
            (
                "rules:\n  - { isr_shrinks: 3, delay: 1ms }\n",
                "in rules of their own",
            ),
            (
                "rules:\n  - { isr_shrinks: 3, partition: 1 }\n",
                "name their broker themselves",
            ),
            ("rules:\n  - { isr_shrinks: 3, requests: 1 }\n", "hold for a time"),
            (
                "rules:\n  - { isr_shrink: 3 }\n",
                "isr_shrink = 3: unknown key; did you mean isr_shrinks?",
            ),
            (
                "rules:\n  - { partition: [0, x], delay: 1ms }\n",
                "partition = [0, x]: a partition's number, from 0, or a list such as [0, 2]",
            ),
            (
                "rules:\n  - { partition: -1, delay: 1ms }\n",
                "a partition's number",
            ),
            (
                "rules:\n  - { partition: 1, api: Metadata, delay: 1ms }\n",
                "only Produce and Fetch name topics",
            ),
            (
                "rules:\n  - { delay: { lognormal: { median: 5ms, p99: 1ms } } }\n",
                "a p99 that is no shorter",
            ),
            (
                "rules:\n  - { delay: { lognormal: [5ms, 50ms] } }\n",
                "such as { median: 5ms, p99: 50ms }",
            ),
            (
                "rules:\n  - { delay: { lognormal: { mean: 5ms, p99: 50ms } } }\n",
                "mean = 5ms: unknown key; did you mean median?",
            ),
            (
                "rules:\n  - { slow_follower: { broker: 2 } }\n",
                "or { broker: 2, bytes_per_second: 5MB }",
            ),
            (
                "rules:\n  - { slow_follower: { broker: 2, by: 1ms, bytes_per_second: 5MB } }\n",
                "exclude each other",
            ),
            (
                "rules:\n  - { slow_follower: { broker: 2, bytes_per_second: 0 } }\n",
                "bytes a second",
            ),
            (
                "rules:\n  - { throttle_time: soon }\n",
                "throttle_time = soon: a length of time, such as 5ms",
            ),
            ("rules: 5\n", "a list of rules"),
            ("seed: 1\n", "it would change nothing"),
            ("rules:\n  - 5ms\n", "a rule is a mapping"),
        ] {
            let told = parse(text).expect_err(text).to_string();
            assert!(told.contains(expected), "{text}\n{told}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "[a-z_:{}\\[\\]0-9 ,.\n-]{0,200}") {
            let _ = parse(&text);
        }
    }
}
