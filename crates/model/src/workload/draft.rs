//! From a file, flags and defaults to a [`Workload`]: first what was written, then what it means, all faults at once.

use std::time::Duration;

use super::keys::{FAMILIES, find_key, fork_key, keys};
use super::reading::{Given, Reading};
use super::{ConsumerPace, Header, KeyDistributor, Payload, PhaseLength, StampPlacement, Workload};
use crate::fault::{Fault, FaultKind, Faults, Notice};
use crate::objective::Objectives;
use crate::source::{ResolvedValue, Source};
use crate::spelling::likely_meant;
use crate::units::{ByteSize, Rate, TargetRate, format_duration, parse_duration};
use crate::yaml::{self, Node, Value};

/// What was written, before it is known to make sense. Flags override the file, and the file overrides defaults.
#[derive(Clone, Debug)]
pub struct WorkloadDraft {
    given: Vec<Given>,
    from_file: bool,
    /// The file's text is no YAML, so that what it lacks cannot be told.
    unreadable: bool,
    faults: Vec<Fault>,
    notices: Vec<Notice>,
}

impl WorkloadDraft {
    /// The workload of a run without a file: plimsoll's own defaults.
    pub fn standard() -> Self {
        WorkloadDraft {
            given: Vec::new(),
            from_file: false,
            unreadable: false,
            faults: Vec::new(),
            notices: Vec::new(),
        }
    }

    /// The workload of a file, whose name is `path`, with OMB's defaults for what it lacks. What is wrong with it is told
    /// by [`WorkloadDraft::resolve`], together with all else.
    pub fn from_file(path: &str, text: &str) -> Self {
        let mut draft = WorkloadDraft {
            from_file: true,
            ..WorkloadDraft::standard()
        };
        let entries = match yaml::parse_mapping(path, text) {
            Ok(entries) => entries,
            Err(fault) => {
                draft.faults.push(fault);
                draft.unreadable = true;
                return draft;
            }
        };
        for entry in entries {
            let source = Source::file(path, entry.line);
            draft.take(&entry.key, entry.node, source, Repeat::Refused);
        }
        if !draft
            .given
            .iter()
            .any(|given| given.key.name == "name" && !given.node.is_null())
            && let (Some(key), Some(stem)) = (find_key("name"), file_stem(path))
        {
            let source = Source::Derived("the file's name".to_owned());
            draft.given.push(Given {
                key,
                node: Node::text(stem, 1),
                source,
            });
        }
        draft
    }

    /// Applies `key=value` of `--set`.
    pub fn apply_override(&mut self, assignment: &str) {
        match assignment.split_once('=') {
            Some((key, value)) => self.set(key.trim(), value, "--set"),
            None => self.faults.push(Fault::syntax(
                Source::flag("--set"),
                format!("\"{assignment}\" is not key=value, such as producerRate=5000"),
            )),
        }
    }

    /// Sets a key of the workload file to the value of a command-line option, whose name is `flag`.
    pub fn set(&mut self, key: &str, value: &str, flag: &str) {
        let source = Source::flag(flag);
        match yaml::parse_flag_value(value) {
            Ok(node) => self.take(key, node, source, Repeat::Replaces),
            Err(problem) => {
                self.faults
                    .push(Fault::of_value(FaultKind::Syntax, &source, key, value, problem));
            }
        }
    }

    fn has(&self, key: &str) -> bool {
        self.given.iter().any(|given| given.key.name == key)
    }

    fn take(&mut self, name: &str, node: Node, source: Source, repeat: Repeat) {
        let Some(key) = find_key(name) else {
            self.take_unknown(name, &node, &source);
            return;
        };
        match repeat {
            Repeat::Refused if self.has(name) => {
                let problem = "the key stands twice; keep one";
                self.faults.push(Fault::of_value(
                    FaultKind::Repeated,
                    &source,
                    name,
                    &node.shown(),
                    problem,
                ));
                return;
            }
            Repeat::Refused => {}
            Repeat::Replaces => {
                let family = FAMILIES.iter().find(|family| family.contains(&name));
                self.given.retain(|given| {
                    given.key.name != name && !family.is_some_and(|family| family.contains(&given.key.name))
                });
            }
        }
        self.given.push(Given { key, node, source });
    }

    fn take_unknown(&mut self, name: &str, node: &Node, source: &Source) {
        if let Some(meaning) = fork_key(name) {
            self.notices
                .push(Notice::at(source, "fork-key", format!("{name} {meaning}")));
            return;
        }
        let names = || keys().iter().map(|key| key.name);
        let all = names().collect::<Vec<_>>().join(", ");
        let problem = match likely_meant(name, names()) {
            Some(meant) => format!("unknown key; did you mean {meant}? Allowed: {all}"),
            None => format!("unknown key. Allowed: {all}"),
        };
        self.faults.push(Fault::of_value(
            FaultKind::UnknownKey,
            source,
            name,
            &node.shown(),
            problem,
        ));
    }

    /// The workload, with what the user should know of it.
    ///
    /// # Errors
    /// All faults of the file and the flags at once, those of the file in the order of its lines.
    pub fn resolve(self) -> Result<(Workload, Vec<Notice>), Faults> {
        if self.unreadable
            && let Some(fault) = self.faults.first()
        {
            return Err(fault.clone().into());
        }
        let mut reading = Reading {
            given: self.given,
            from_file: self.from_file,
            faults: self.faults,
            notices: self.notices,
            values: Vec::new(),
        };
        let workload = reading.workload();
        let Reading { faults, notices, .. } = reading;
        Faults::check(faults, (workload, notices)).map_err(Faults::in_order)
    }
}

/// What a key means that was given before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repeat {
    Refused,
    Replaces,
}

/// A file's name without its folders and its last extension.
fn file_stem(path: &str) -> Option<&str> {
    std::path::Path::new(path).file_stem()?.to_str()
}

const MOST_TOPICS: u64 = 100_000;
const MOST_PARTITIONS: u64 = 1_000_000;
const MOST_CLIENTS: u64 = 100_000;
/// Kafka's sizes are signed 32-bit numbers; half of their range leaves room for batch and request.
const LARGEST_RECORD_BYTES: u64 = 1 << 30;
const LARGEST_POOL_BYTES: u64 = 4 << 30;
const LONGEST_PHASE: Duration = Duration::from_secs(366 * 86_400);
const MOST_RECORDS: u64 = 1_000_000_000_000_000;
/// Kafka's default of transaction.max.timeout.ms.
const LONGEST_TRANSACTION: Duration = Duration::from_secs(15 * 60);
/// The stamp's length.
const STAMP_BYTES: u64 = 24;

impl Reading {
    fn workload(&mut self) -> Workload {
        let name = self.name();
        let (topics, topic_names) = self.topics();
        let existing_topics = self.existing_topics(&topic_names);
        let partitions_per_topic = self.partitions(topics, existing_topics);
        let topic_weights = self.weights("topicWeights", u64::from(topics), "topic");
        let weights_needed = if existing_topics {
            0
        } else {
            u64::from(partitions_per_topic)
        };
        let partition_weights = self.weights("partitionWeights", weights_needed, "partition");
        let key_distributor = self.key_distributor(&partition_weights);
        let producers_per_topic = self.clients("producersPerTopic", topics);
        let message_size = self.message_size(producers_per_topic);
        let payload = self.payload(message_size);
        let headers = self.headers();
        let stamp = self.stamp(message_size, &payload);
        let producer_rate = self.producer_rate(producers_per_topic);
        let objectives = self.objectives();
        let transactional = self.flag("transactional");
        let transaction_duration = self.transaction_duration();
        let (subscriptions_per_topic, consumers_per_subscription) =
            self.consumers(topics, producers_per_topic);
        let topics_per_consumer = self.whole("topicsPerConsumer", 1, u64::from(topics).max(1)) as u32;
        let consumer_pace = self.consumer_pace();
        self.backlog();
        let test = self.test_length();
        let warm_up = self.warm_up_length(test);
        let seed = self.whole("seed", 0, u64::MAX);
        let order = |value: &ResolvedValue| keys().iter().position(|key| key.name == value.key);
        let mut values = std::mem::take(&mut self.values);
        values.sort_by_key(order);
        Workload {
            name,
            topics,
            topic_names,
            existing_topics,
            partitions_per_topic,
            topic_weights,
            partition_weights,
            key_distributor,
            message_size,
            payload,
            headers,
            stamp,
            producers_per_topic,
            producer_rate,
            objectives,
            transactional,
            transaction_duration,
            subscriptions_per_topic,
            consumers_per_subscription,
            topics_per_consumer,
            consumer_pace,
            warm_up,
            test,
            seed,
            values,
        }
    }

    fn objectives(&mut self) -> Objectives {
        let Some(given) = self.value_of("slo") else {
            return Objectives::default();
        };
        let text = given.text().unwrap_or_default().trim().to_owned();
        match Objectives::parse(&text) {
            Ok(objectives) => {
                self.keep(&given, text);
                objectives
            }
            Err(error) => {
                self.fault(FaultKind::WrongType, &given, &error.to_string());
                Objectives::default()
            }
        }
    }

    fn transaction_duration(&mut self) -> Duration {
        let harmless = Duration::from_secs(3);
        let Some(given) = self.value_of("transactionDuration") else {
            return harmless;
        };
        match parse_duration(given.text().unwrap_or_default().trim()) {
            Ok(length) if !length.is_zero() && length <= LONGEST_TRANSACTION => {
                self.keep(&given, format_duration(length));
                length
            }
            Ok(_) => {
                self.fault(FaultKind::OutOfRange, &given, "more than 0 and at most 15m");
                harmless
            }
            Err(error) => {
                self.fault(FaultKind::WrongType, &given, &error.to_string());
                harmless
            }
        }
    }

    fn name(&mut self) -> String {
        let Some(given) = self.value_of("name") else {
            return String::new();
        };
        let name = given.text().map(str::trim).unwrap_or_default().to_owned();
        if name.is_empty() || name.chars().count() > 200 || name.chars().any(char::is_control) {
            self.fault(
                FaultKind::OutOfRange,
                &given,
                "a name of 1 to 200 characters on one line",
            );
        }
        self.keep(&given, name.clone());
        name
    }

    fn topics(&mut self) -> (u32, Vec<String>) {
        let names = self.topic_names();
        if names.is_empty() {
            self.require(
                "topics",
                "give the number of topics to create, such as topics: 1, or topicNames",
            );
            return (self.whole("topics", 1, MOST_TOPICS) as u32, names);
        }
        let count = names.len() as u64;
        if let Some(given) = self.given("topics") {
            let number = self.whole("topics", 1, MOST_TOPICS);
            if number != count {
                self.fault(
                    FaultKind::Conflict,
                    &given,
                    &format!("topicNames has {count} names; leave topics out"),
                );
            }
        } else {
            let source = Source::Derived("topicNames".to_owned());
            self.values.push(ResolvedValue {
                key: "topics".into(),
                value: count.to_string(),
                source,
            });
        }
        (count as u32, names)
    }

    fn topic_names(&mut self) -> Vec<String> {
        let Some(given) = self.given("topicNames") else {
            return Vec::new();
        };
        let names = match self.list(&given) {
            Some(names) => names,
            // One name need not be written as a list.
            None => given.text().map(|text| vec![text.to_owned()]).unwrap_or_default(),
        };
        for name in &names {
            let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
            if name.is_empty()
                || name.len() > 249
                || name == "."
                || name == ".."
                || !name.chars().all(is_legal)
            {
                let problem = format!(
                    "\"{name}\" is no topic name; allowed are 1 to 249 letters, digits, dots, underscores and hyphens"
                );
                self.fault(FaultKind::OutOfRange, &given, &problem);
            }
        }
        let mut sorted = names.clone();
        sorted.sort();
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            self.fault(
                FaultKind::Conflict,
                &given,
                &format!("\"{}\" is named twice", twice[0]),
            );
        }
        if names.is_empty() {
            self.fault(FaultKind::OutOfRange, &given, "a list of at least one topic name");
        }
        self.keep(&given, given.node.shown());
        names
    }

    fn existing_topics(&mut self, topic_names: &[String]) -> bool {
        let existing = self.flag("existingTopics");
        if let Some(given) = self
            .given("existingTopics")
            .filter(|_| existing && topic_names.is_empty())
        {
            self.fault(
                FaultKind::Conflict,
                &given,
                "name the existing topics with topicNames",
            );
        }
        existing
    }

    fn partitions(&mut self, topics: u32, existing_topics: bool) -> u32 {
        if existing_topics {
            return match self.given("partitionsPerTopic") {
                Some(_) => self.whole("partitionsPerTopic", 1, MOST_PARTITIONS) as u32,
                None => 1,
            };
        }
        self.require(
            "partitionsPerTopic",
            "give the partitions of each topic, such as partitionsPerTopic: 12",
        );
        let partitions = self.whole("partitionsPerTopic", 1, MOST_PARTITIONS);
        if partitions.saturating_mul(u64::from(topics)) > MOST_PARTITIONS
            && let Some(given) = self.value_of("partitionsPerTopic")
        {
            let problem = format!(
                "{topics} topics of {partitions} partitions are more than {MOST_PARTITIONS} partitions"
            );
            self.fault(FaultKind::OutOfRange, &given, &problem);
        }
        partitions as u32
    }

    /// A list of relative shares; `needed` is the length it must have, 0 where that is not known here.
    fn weights(&mut self, key: &str, needed: u64, of: &str) -> Vec<u32> {
        const ALLOWED: &str =
            "a list of whole numbers from 0 to 1000, such as [3, 1, 1], at least one of them above 0";
        let Some(given) = self.given(key) else {
            return Vec::new();
        };
        let Some(items) = self.list(&given) else {
            self.fault(FaultKind::WrongType, &given, ALLOWED);
            return Vec::new();
        };
        let weights: Vec<u32> = items
            .iter()
            .filter_map(|item| item.parse().ok())
            .filter(|&w| w <= 1000)
            .collect();
        if weights.len() != items.len() || weights.iter().all(|&weight| weight == 0) {
            self.fault(FaultKind::OutOfRange, &given, ALLOWED);
        } else if needed != 0 && weights.len() as u64 != needed {
            let problem = format!(
                "{} weights, and there are {needed} {of}s; give one a {of}",
                weights.len()
            );
            self.fault(FaultKind::Conflict, &given, &problem);
        }
        self.keep(&given, given.node.shown());
        weights
    }

    fn key_distributor(&mut self, partition_weights: &[u32]) -> KeyDistributor {
        const WORDS: [(&str, KeyDistributor); 3] = [
            ("NO_KEY", KeyDistributor::NoKey),
            ("KEY_ROUND_ROBIN", KeyDistributor::KeyRoundRobin),
            ("RANDOM_NANO", KeyDistributor::RandomNano),
        ];
        let distributor = self
            .word("keyDistributor", &WORDS)
            .unwrap_or(KeyDistributor::NoKey);
        if distributor != KeyDistributor::NoKey
            && !partition_weights.is_empty()
            && let Some(given) = self.value_of("keyDistributor")
        {
            let problem = "keys decide the partition, and partitionWeights do too; leave one of them out";
            self.fault(FaultKind::Conflict, &given, problem);
        }
        distributor
    }

    fn message_size(&mut self, producers_per_topic: u32) -> ByteSize {
        if producers_per_topic > 0 {
            self.require(
                "messageSize",
                "give the bytes of each record, such as messageSize: 1024",
            );
        }
        self.size("messageSize", LARGEST_RECORD_BYTES).unwrap_or_default()
    }

    fn payload(&mut self, message_size: ByteSize) -> Payload {
        let randomized = self.flag("useRandomizedPayloads");
        let ratio = self.ratio("randomBytesRatio");
        let pool_size = self.whole("randomizedPayloadPoolSize", 0, 10_000_000);
        let file = self.given("payloadFile").filter(|given| !given.node.is_null());
        if randomized {
            self.check_pool(pool_size, message_size);
            if let Some(file) = file {
                let text = "payloadFile has no effect, since useRandomizedPayloads is true";
                self.notices
                    .push(Notice::at(&file.source, "payload-file-unused", text));
            }
            return Payload::Randomized {
                random_bytes_ratio: ratio,
                pool_size: pool_size.max(1) as u32,
            };
        }
        for unused in ["randomBytesRatio", "randomizedPayloadPoolSize"] {
            if let Some(given) = self
                .given(unused)
                .filter(|given| !matches!(given.text(), Some("0" | "0.0")))
            {
                let text = format!("{unused} has no effect without useRandomizedPayloads: true");
                self.notices
                    .push(Notice::at(&given.source, "payload-key-unused", text));
            }
        }
        let Some(file) = file else { return Payload::Text };
        let path = file.text().map(str::trim).unwrap_or_default().to_owned();
        if path.is_empty() {
            self.fault(FaultKind::WrongType, &file, "the path of a file");
        }
        self.keep(&file, path.clone());
        Payload::File(path.into())
    }

    fn check_pool(&mut self, pool_size: u64, message_size: ByteSize) {
        if pool_size == 0 {
            let problem =
                "useRandomizedPayloads needs a pool; give for example randomizedPayloadPoolSize: 1000";
            match self.given("randomizedPayloadPoolSize") {
                Some(given) => self.fault(FaultKind::OutOfRange, &given, problem),
                None => self
                    .faults
                    .push(Fault::missing("randomizedPayloadPoolSize", problem)),
            }
            return;
        }
        let pool_bytes = pool_size.saturating_mul(message_size.bytes());
        if pool_bytes > LARGEST_POOL_BYTES
            && let Some(given) = self.given("randomizedPayloadPoolSize")
        {
            let problem = format!(
                "{pool_size} payloads of {message_size} need {pool_bytes} bytes of memory; at most 4GiB"
            );
            self.fault(FaultKind::OutOfRange, &given, &problem);
        }
    }

    fn headers(&mut self) -> Vec<Header> {
        let named = self.named_headers();
        let Some(count_given) = self.given("headerCount") else {
            if let Some(given) = self.given("headerSize") {
                self.fault(FaultKind::Conflict, &given, "give headerCount with it");
            }
            return named;
        };
        if let Some(given) = self.given("headers") {
            self.fault(
                FaultKind::Conflict,
                &given,
                "give either headers or headerCount with headerSize",
            );
        }
        let count = self.whole("headerCount", 0, 1_000);
        let size = match self.given("headerSize") {
            Some(_) => self.size("headerSize", 1 << 20).unwrap_or_default().bytes(),
            None => {
                self.fault(
                    FaultKind::Conflict,
                    &count_given,
                    "give headerSize with it, such as headerSize: 16",
                );
                0
            }
        };
        if count.saturating_mul(size) > 1 << 20 {
            self.fault(
                FaultKind::OutOfRange,
                &count_given,
                "headers of a record may have at most 1MiB together",
            );
            return Vec::new();
        }
        let value: Vec<u8> = (b'a'..=b'z').cycle().take(size as usize).collect();
        (0..count)
            .map(|index| Header {
                name: format!("h{index}"),
                value: value.clone(),
            })
            .collect()
    }

    fn named_headers(&mut self) -> Vec<Header> {
        const ALLOWED: &str = "a map of names to texts, such as {trace: abc}";
        let Some(given) = self.given("headers") else {
            return Vec::new();
        };
        let Value::Mapping(entries) = &given.node.value else {
            self.fault(FaultKind::WrongType, &given, ALLOWED);
            return Vec::new();
        };
        let mut headers = Vec::new();
        for entry in entries {
            match &entry.node.value {
                Value::Scalar { text, .. } => {
                    headers.push(Header {
                        name: entry.key.clone(),
                        value: text.clone().into_bytes(),
                    });
                }
                _ => self.fault(FaultKind::WrongType, &given, ALLOWED),
            }
        }
        let bytes: usize = headers
            .iter()
            .map(|header| header.name.len() + header.value.len())
            .sum();
        if headers.len() > 1_000 || bytes > 1 << 20 {
            let problem = "at most 1000 headers, and at most 1MiB of them together";
            self.fault(FaultKind::OutOfRange, &given, problem);
        }
        self.keep(&given, given.node.shown());
        headers
    }

    fn stamp(&mut self, message_size: ByteSize, payload: &Payload) -> StampPlacement {
        const WORDS: [(&str, StampPlacement); 3] = [
            ("value", StampPlacement::Value),
            ("header", StampPlacement::Header),
            ("none", StampPlacement::None),
        ];
        let too_small = message_size.bytes() < STAMP_BYTES;
        let Some(given) = self.given("stamp") else {
            let (placement, word, source) = match payload {
                Payload::File(_) => (
                    StampPlacement::None,
                    "none",
                    Source::Derived("payloadFile".to_owned()),
                ),
                _ if too_small => (
                    StampPlacement::None,
                    "none",
                    Source::Derived("messageSize".to_owned()),
                ),
                _ => (StampPlacement::Value, "value", Source::Default),
            };
            self.values.push(ResolvedValue {
                key: "stamp".to_owned(),
                value: word.to_owned(),
                source,
            });
            return placement;
        };
        let placement = self.word("stamp", &WORDS).unwrap_or(StampPlacement::None);
        if placement == StampPlacement::Value && too_small {
            let problem = format!(
                "the stamp takes {STAMP_BYTES} bytes, and messageSize is {}; use stamp: header or stamp: none",
                message_size.bytes()
            );
            self.fault(FaultKind::Conflict, &given, &problem);
        }
        placement
    }

    fn producer_rate(&mut self, producers_per_topic: u32) -> Option<TargetRate> {
        if producers_per_topic == 0 {
            return None;
        }
        self.require(
            "producerRate",
            "give the records per second of all producers together, such as 10000, or max",
        );
        let given = self.value_of("producerRate")?;
        let text = given.text().unwrap_or_default();
        if text
            .trim()
            .trim_start_matches('0')
            .trim_start_matches('.')
            .trim_end_matches('0')
            .is_empty()
            && text.contains('0')
        {
            let problem = "0 asks OMB to search for the highest rate, which is not served here; give a rate such as 10000, \
                           or max to send as fast as the cluster acknowledges";
            self.fault(FaultKind::Unsupported, &given, problem);
            return None;
        }
        match text.parse::<TargetRate>() {
            Ok(rate) => {
                self.keep(&given, text.trim().to_owned());
                Some(rate)
            }
            Err(error) => {
                self.fault(FaultKind::OutOfRange, &given, &error.problem);
                None
            }
        }
    }

    fn clients(&mut self, key: &str, topics: u32) -> u32 {
        let count = self.whole(key, 0, MOST_CLIENTS);
        if count.saturating_mul(u64::from(topics)) > MOST_CLIENTS
            && let Some(given) = self.value_of(key)
        {
            let problem = format!("{count} for each of {topics} topics are more than {MOST_CLIENTS} clients");
            self.fault(FaultKind::OutOfRange, &given, &problem);
        }
        count as u32
    }

    fn consumers(&mut self, topics: u32, producers_per_topic: u32) -> (u32, u32) {
        let subscriptions = self.clients("subscriptionsPerTopic", topics);
        let consumers = self.clients(
            "consumerPerSubscription",
            topics.max(1).saturating_mul(subscriptions.max(1)),
        );
        let given = self
            .given("consumerPerSubscription")
            .or_else(|| self.given("subscriptionsPerTopic"));
        match (subscriptions, consumers) {
            (0, 0) | (0, _) | (_, 0) if producers_per_topic == 0 => self.faults.push(Fault::missing(
                "producersPerTopic",
                "nothing is produced and nothing consumed; give producersPerTopic, or subscriptionsPerTopic with \
                 consumerPerSubscription, or both",
            )),
            (0, 1..) if self.given("consumerPerSubscription").is_some() => {
                if let Some(given) = given {
                    let text = "consumerPerSubscription has no effect, since subscriptionsPerTopic is 0";
                    self.notices.push(Notice::at(&given.source, "consumers-unused", text));
                }
            }
            (1.., 0) => {
                let problem = "subscriptionsPerTopic is above 0, and no group has a consumer; give consumerPerSubscription";
                match given {
                    Some(given) => self.fault(FaultKind::Conflict, &given, problem),
                    None => self.faults.push(Fault::missing("consumerPerSubscription", problem)),
                }
            }
            _ => {}
        }
        (subscriptions, consumers)
    }

    fn consumer_pace(&mut self) -> ConsumerPace {
        let delay = self.given("consumerDelayMs");
        if let Some(given) = self.given("consumerRate") {
            if delay.is_some() {
                self.fault(
                    FaultKind::Conflict,
                    &given,
                    "give either consumerRate or consumerDelayMs",
                );
            }
            return match given.text().unwrap_or_default().parse::<Rate>() {
                Ok(rate) => {
                    self.keep(&given, rate.to_string());
                    ConsumerPace::AtMost(rate)
                }
                Err(error) => {
                    self.fault(FaultKind::OutOfRange, &given, &error.problem);
                    ConsumerPace::Unlimited
                }
            };
        }
        let Some(delay) = delay else {
            return ConsumerPace::Unlimited;
        };
        let text = delay.text().unwrap_or_default().trim();
        match parse_duration(&format!("{text}ms")) {
            Ok(wait) if !wait.is_zero() && wait <= Duration::from_secs(3_600) => {
                self.keep(&delay, text.to_owned());
                ConsumerPace::DelayPerRecord(wait)
            }
            _ => {
                let problem = "milliseconds for each record above 0 and up to 3600000, such as 5 or 0.2";
                self.fault(FaultKind::OutOfRange, &delay, problem);
                ConsumerPace::Unlimited
            }
        }
    }

    fn backlog(&mut self) {
        self.ratio("backlogDrainRatio");
        let backlog = self.whole("consumerBacklogSizeGB", 0, u64::MAX >> 30);
        if backlog > 0
            && let Some(given) = self.given("consumerBacklogSizeGB")
        {
            let problem = "building a backlog before the test is not served; set it to 0. To read a backlog, first produce \
                           with subscriptionsPerTopic: 0 and --keep, then consume with producersPerTopic: 0, existingTopics: \
                           true and --from earliest";
            self.fault(FaultKind::Unsupported, &given, problem);
        }
    }

    fn test_length(&mut self) -> PhaseLength {
        let harmless = PhaseLength::Time(Duration::from_secs(1));
        let Some(given) = self.of_family(FAMILIES[1]) else {
            let problem = "give the length of the measured phase, such as testDurationMinutes: 5, testDuration: 90s or \
                           testRecords: 1000000";
            self.faults.push(Fault::missing("testDurationMinutes", problem));
            return harmless;
        };
        match self.length(&given) {
            Some(Some(length)) => length,
            Some(None) => {
                let problem = "the measured phase must be longer than 0; OMB reads 0 as for ever: give a long duration such \
                               as testDuration: 24h and stop it with Ctrl-C";
                self.fault(FaultKind::OutOfRange, &given, problem);
                harmless
            }
            None => harmless,
        }
    }

    fn warm_up_length(&mut self, test: PhaseLength) -> Option<PhaseLength> {
        let given = self.of_family(FAMILIES[0])?;
        let is_default = matches!(given.source, Source::Default | Source::OmbDefault);
        if is_default && matches!(test, PhaseLength::Records(_)) {
            // A count of records is meant as the whole of what is sent.
            let source = Source::Derived("testRecords".to_owned());
            self.values.push(ResolvedValue {
                key: "warmupRecords".into(),
                value: "0".into(),
                source,
            });
            return None;
        }
        self.length(&given).flatten()
    }

    /// The one key of a family that was given, or its default.
    fn of_family(&mut self, family: [&str; 3]) -> Option<Given> {
        let given: Vec<Given> = family.iter().filter_map(|key| self.given(key)).collect();
        if let [first, second, ..] = given.as_slice() {
            let problem = format!("{} says the same; keep one of them", first.key.name);
            self.fault(FaultKind::Conflict, second, &problem);
        }
        let first = given.into_iter().next();
        first.or_else(|| family.iter().find_map(|key| self.value_of(key)))
    }

    /// The length that a key of a family gives: `None` where it is faulty, `Some(None)` where it is zero.
    fn length(&mut self, given: &Given) -> Option<Option<PhaseLength>> {
        let name = given.key.name;
        if name.ends_with("Records") {
            let records = self.whole_or_fault(name, 0, MOST_RECORDS)?;
            return Some((records > 0).then_some(PhaseLength::Records(records)));
        }
        let text = given.text().unwrap_or_default().trim().to_owned();
        let length = if name.ends_with("Minutes") {
            if text.contains('.') && text.parse::<f64>().is_ok() {
                let instead = name.trim_end_matches("Minutes");
                let problem =
                    format!("whole minutes; for less give {instead} with a unit, such as {instead}: 30s");
                self.fault(FaultKind::WrongType, given, &problem);
                return None;
            }
            Duration::from_secs(self.whole_or_fault(name, 0, LONGEST_PHASE.as_secs() / 60)? * 60)
        } else {
            match parse_duration(&text) {
                Ok(length) if length <= LONGEST_PHASE => {
                    self.keep(given, format_duration(length));
                    length
                }
                Ok(_) => {
                    self.fault(FaultKind::OutOfRange, given, "at most 366d");
                    return None;
                }
                Err(error) => {
                    let negative = text.starts_with('-');
                    let problem = if negative {
                        "a duration must not be negative"
                    } else {
                        &error.problem
                    };
                    self.fault(FaultKind::OutOfRange, given, problem);
                    return None;
                }
            }
        };
        Some((!length.is_zero()).then_some(PhaseLength::Time(length)))
    }
}
