//! From properties as they were given to the typed settings of a client, with everything that is wrong at once.

use std::collections::BTreeMap;
use std::time::Duration;

use super::catalogue::{self, Honoured, ValueKind};
use super::{
    Acks, AdminConfig, AssignmentStrategy, ClientKind, Compression, ConnectionConfig, ConsumerConfig,
    GroupProtocol, HostPort, IsolationLevel, OffsetReset, PartitionerConfig, ProducerConfig, Secret,
    TransactionConfig,
};
use crate::fault::{Fault, FaultKind, Faults, Notice};
use crate::properties;
use crate::result::NotHonoured;
use crate::source::{ResolvedValue, Source};
use crate::spelling::nearest;

/// More wrong addresses in one list help nobody.
const MOST_WRONG_ADDRESSES_TOLD: usize = 10;

/// What is shown in place of a secret, as Kafka shows it.
const REDACTED: &str = "[hidden]";
/// A name this near to a known one is taken for a slip.
const SLIP: usize = 2;

/// Properties as they were given, by name; what is set later replaces what was set before.
///
/// Values are shown by [`ClientProperties::shown`] alone, which hides secrets; `Debug` shows names only.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ClientProperties {
    given: BTreeMap<String, Given>,
}

#[derive(Clone, PartialEq, Eq)]
struct Given {
    value: String,
    source: Source,
    /// Given for all clients, so that one that lacks the property need not be told.
    shared: bool,
}

impl std::fmt::Debug for ClientProperties {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.given.keys()).finish()
    }
}

/// The settings of a client, and what is to be told of how they came about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved<T> {
    /// The settings.
    pub config: T,
    /// Every honoured property with its value and source, defaults included, secrets hidden.
    pub values: Vec<ResolvedValue>,
    /// What was given and has no effect.
    pub not_honoured: Vec<NotHonoured>,
    /// What the user should know besides.
    pub notices: Vec<Notice>,
}

impl ClientProperties {
    /// Sets a property that was given for all clients alike, such as one of `-X`.
    pub fn set_shared(&mut self, name: &str, value: &str, source: Source) {
        self.put(name, value, source, true);
    }

    /// Sets a property that was given for this client alone.
    pub fn set_own(&mut self, name: &str, value: &str, source: Source) {
        self.put(name, value, source, false);
    }

    /// Sets a property unless it was given.
    pub fn set_default(&mut self, name: &str, value: &str, source: Source) {
        if !self.given.contains_key(name) {
            self.put(name, value, source, true);
        }
    }

    fn put(&mut self, name: &str, value: &str, source: Source, shared: bool) {
        self.given.insert(
            name.to_owned(),
            Given {
                value: value.trim().to_owned(),
                source,
                shared,
            },
        );
    }

    /// Sets all properties of a file for all clients alike.
    ///
    /// # Errors
    /// All lines that do not follow the properties format; nothing is set then.
    pub fn read_file(&mut self, path: &str, text: &str) -> Result<(), Faults> {
        let properties = match properties::parse(text) {
            Ok(properties) => properties,
            Err(errors) => {
                let fault = |error: properties::PropertiesError| {
                    Fault::syntax(Source::file(path, error.line), error.problem)
                };
                return Faults::check(errors.into_iter().map(fault).collect(), ());
            }
        };
        for property in properties {
            self.set_shared(&property.name, &property.value, Source::file(path, property.line));
        }
        Ok(())
    }

    /// Sets `name=value` of a command-line option, whose name is `flag`, for all clients alike.
    ///
    /// # Errors
    /// When there is no `=` or no name before it.
    pub fn assign(&mut self, assignment: &str, flag: &str) -> Result<(), Faults> {
        match assignment.split_once('=') {
            Some((name, value)) if !name.trim().is_empty() => {
                self.set_shared(name.trim(), value, Source::flag(flag));
                Ok(())
            }
            _ => {
                let problem = format!("\"{assignment}\" is not name=value, such as acks=all");
                Err(Fault::syntax(Source::flag(flag), problem).into())
            }
        }
    }

    /// These properties, overridden by those of `others`.
    pub fn overridden_by(&self, others: &ClientProperties) -> ClientProperties {
        let mut merged = self.clone();
        merged.given.extend(others.given.clone());
        merged
    }

    /// The value of a property as it was given, secrets included.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.given.get(name).map(|given| given.value.as_str())
    }

    /// All properties that were given, with their sources, secrets hidden.
    pub fn shown(&self) -> Vec<ResolvedValue> {
        let show = |(name, given): (&String, &Given)| ResolvedValue {
            key: name.clone(),
            value: redacted(name, &given.value),
            source: given.source.clone(),
        };
        self.given.iter().map(show).collect()
    }

    /// The settings of a producer.
    ///
    /// # Errors
    /// All faults: values out of their ranges, settings that contradict each other, what is not served, and names that
    /// differ from a known one by a slip.
    pub fn producer(&self) -> Result<Resolved<ProducerConfig>, Faults> {
        let mut reading = Reading::of(self, ClientKind::Producer);
        let config = reading.producer();
        reading.finish(config)
    }

    /// The settings of a consumer.
    ///
    /// # Errors
    /// As [`ClientProperties::producer`].
    pub fn consumer(&self) -> Result<Resolved<ConsumerConfig>, Faults> {
        let mut reading = Reading::of(self, ClientKind::Consumer);
        let config = reading.consumer();
        reading.finish(config)
    }

    /// The settings of an admin client.
    ///
    /// # Errors
    /// As [`ClientProperties::producer`].
    pub fn admin(&self) -> Result<Resolved<AdminConfig>, Faults> {
        let mut reading = Reading::of(self, ClientKind::Admin);
        let connection = reading.connection();
        let api_timeout = reading.milliseconds("default.api.timeout.ms");
        reading.finish(AdminConfig {
            connection,
            api_timeout,
        })
    }
}

fn redacted(name: &str, value: &str) -> String {
    if catalogue::is_secret(name) {
        REDACTED.to_owned()
    } else {
        value.to_owned()
    }
}

/// Reads the values one by one; a reader that finds a fault notes it and goes on with a harmless value.
pub(super) struct Reading<'a> {
    given: &'a BTreeMap<String, Given>,
    client: ClientKind,
    pub(super) faults: Vec<Fault>,
    not_honoured: Vec<NotHonoured>,
    notices: Vec<Notice>,
    values: Vec<ResolvedValue>,
}

impl<'a> Reading<'a> {
    fn of(properties: &'a ClientProperties, client: ClientKind) -> Self {
        let mut reading = Reading {
            given: &properties.given,
            client,
            faults: Vec::new(),
            not_honoured: Vec::new(),
            notices: Vec::new(),
            values: Vec::new(),
        };
        for (name, given) in reading.given {
            reading.sort_out(name, given);
        }
        reading
    }

    /// Tells of a property that is unknown, or has no effect on this client.
    fn sort_out(&mut self, name: &str, given: &Given) {
        let Some(spec) = catalogue::find(name, self.client) else {
            let is_known = catalogue::all().iter().any(|spec| spec.name == name);
            if !is_known {
                self.unknown(name, given);
            } else if !given.shared {
                self.no_effect(name, given, &format!("the {} has no such property", self.client));
            }
            return;
        };
        match spec.honoured {
            Honoured::Yes => {}
            Honoured::No(why) if spec.default != Some(&given.value) => self.no_effect(name, given, why),
            Honoured::Only { value, why } if given.value != value && !is_short_for(&given.value, value) => {
                self.no_effect(name, given, why);
            }
            Honoured::No(_) | Honoured::Only { .. } => {}
        }
    }

    fn unknown(&mut self, name: &str, given: &Given) {
        let names = catalogue::all().iter().map(|spec| spec.name);
        match nearest(name, names) {
            Some((meant, distance)) if distance <= SLIP => self.faults.push(Fault::of_value(
                FaultKind::UnknownKey,
                &given.source,
                name,
                &redacted(name, &given.value),
                format!("Kafka's clients have no such property; did you mean {meant}?"),
            )),
            _ => self.notices.push(Notice::at(
                &given.source,
                "unknown-property",
                format!("{name} is no property of Kafka's clients, and has no effect"),
            )),
        }
    }

    fn no_effect(&mut self, name: &str, given: &Given, why: &str) {
        let value = redacted(name, &given.value);
        self.not_honoured.push(NotHonoured {
            name: name.to_owned(),
            value,
            why: why.to_owned(),
        });
    }

    fn finish<T>(self, config: T) -> Result<Resolved<T>, Faults> {
        let Reading {
            faults,
            mut not_honoured,
            notices,
            values,
            ..
        } = self;
        not_honoured.sort_by(|a, b| a.name.cmp(&b.name));
        not_honoured.dedup_by(|a, b| a.name == b.name);
        Faults::check(
            faults,
            Resolved {
                config,
                values,
                not_honoured,
                notices,
            },
        )
    }

    fn connection(&mut self) -> ConnectionConfig {
        let security = self.security();
        ConnectionConfig {
            bootstrap_servers: self.bootstrap_servers(),
            security,
            client_id: self.text("client.id"),
            request_timeout: self.milliseconds("request.timeout.ms"),
            retry_backoff: self.milliseconds("retry.backoff.ms"),
            retry_backoff_max: self.milliseconds("retry.backoff.max.ms"),
            reconnect_backoff: self.milliseconds("reconnect.backoff.ms"),
            reconnect_backoff_max: self.milliseconds("reconnect.backoff.max.ms"),
            connection_setup_timeout: self.milliseconds("socket.connection.setup.timeout.ms"),
            connection_setup_timeout_max: self.milliseconds("socket.connection.setup.timeout.max.ms"),
            connections_max_idle: self.milliseconds_or_never("connections.max.idle.ms"),
            metadata_max_age: self.milliseconds("metadata.max.age.ms"),
            send_buffer_bytes: self.buffer_bytes("send.buffer.bytes"),
            receive_buffer_bytes: self.buffer_bytes("receive.buffer.bytes"),
        }
    }

    fn bootstrap_servers(&mut self) -> Vec<HostPort> {
        let text = self.text("bootstrap.servers");
        let (mut servers, mut wrong) = (Vec::new(), 0);
        for address in text
            .split(',')
            .map(str::trim)
            .filter(|address| !address.is_empty())
        {
            match address.parse::<HostPort>() {
                Ok(server) => servers.push(server),
                Err(problem) => {
                    wrong += 1;
                    // Each fault holds the whole value.
                    if wrong <= MOST_WRONG_ADDRESSES_TOLD {
                        self.fault(FaultKind::WrongType, "bootstrap.servers", &problem);
                    }
                }
            }
        }
        if text.is_empty() {
            let problem = "missing; name one or more brokers, such as broker1:9092,broker2:9092";
            self.faults.push(Fault::missing("bootstrap.servers", problem));
        } else if servers.is_empty() && text.chars().all(|c| c == ',' || c.is_whitespace()) {
            self.fault(
                FaultKind::WrongType,
                "bootstrap.servers",
                "name one or more brokers, such as broker1:9092",
            );
        }
        servers
    }

    fn producer(&mut self) -> ProducerConfig {
        let connection = self.connection();
        let acks = match self.word("acks").as_str() {
            "0" => Acks::None,
            "1" => Acks::Leader,
            _ => Acks::All,
        };
        let retries = self.whole("retries") as u32;
        let max_in_flight_requests = self.whole("max.in.flight.requests.per.connection") as u32;
        let idempotence = self.idempotence(acks, retries, max_in_flight_requests);
        let batch_size_bytes = self.whole("batch.size") as u32;
        let linger = self.milliseconds("linger.ms");
        let buffer_memory_bytes = self.whole("buffer.memory");
        if buffer_memory_bytes < u64::from(batch_size_bytes) {
            let problem =
                format!("below batch.size = {batch_size_bytes}, so that no batch could be made; raise it");
            self.fault(FaultKind::Conflict, "buffer.memory", &problem);
        }
        let transaction_timeout = self.milliseconds("transaction.timeout.ms");
        let transaction = self.transaction(idempotence, transaction_timeout);
        ProducerConfig {
            acks,
            idempotence,
            transaction,
            transaction_timeout,
            batch_size_bytes,
            linger,
            buffer_memory_bytes,
            max_block: self.milliseconds("max.block.ms"),
            max_in_flight_requests,
            max_request_size_bytes: self.whole("max.request.size") as u32,
            retries,
            delivery_timeout: self.delivery_timeout(linger, connection.request_timeout),
            compression: self.compression(),
            partitioner: PartitionerConfig {
                adaptive: self.flag("partitioner.adaptive.partitioning.enable"),
                availability_timeout: Some(self.milliseconds("partitioner.availability.timeout.ms"))
                    .filter(|timeout| !timeout.is_zero()),
                ignore_keys: self.flag("partitioner.ignore.keys"),
            },
            connection,
        }
    }

    /// Transactions need idempotence (KIP-98).
    fn transaction(&mut self, idempotence: bool, timeout: Duration) -> Option<TransactionConfig> {
        const NAME: &str = "transactional.id";
        if !self.given.contains_key(NAME) {
            return None;
        }
        let id = self.text(NAME);
        if id.is_empty() {
            self.fault(FaultKind::WrongType, NAME, "empty; give an id or leave it out");
        }
        if !idempotence {
            let problem = "transactions need enable.idempotence=true, acks=all and retries";
            self.fault(FaultKind::Conflict, NAME, problem);
        }
        Some(TransactionConfig { id, timeout })
    }

    /// Kafka 4's rules: what rules idempotence out switches it off in silence, unless it was asked for; more than five
    /// requests in flight are an error either way (KIP-679, and the 4.0 upgrade notes).
    fn idempotence(&mut self, acks: Acks, retries: u32, max_in_flight_requests: u32) -> bool {
        const NAME: &str = "enable.idempotence";
        let wanted = self.flag(NAME);
        let asked_for = self.given.contains_key(NAME);
        if !wanted {
            return false;
        }
        let ruled_out = [
            (
                acks != Acks::All,
                "acks",
                format!("acks = {acks}, and idempotence needs acks = all"),
            ),
            (
                retries == 0,
                "retries",
                "retries = 0, and idempotence needs retries".to_owned(),
            ),
        ];
        for (_, by, problem) in ruled_out.iter().filter(|(is_ruled_out, _, _)| *is_ruled_out) {
            if asked_for {
                self.fault(
                    FaultKind::Conflict,
                    NAME,
                    &format!("{problem}; change one of them"),
                );
            } else {
                self.replace_value(NAME, "false", Source::Derived((*by).to_owned()));
            }
        }
        if ruled_out.iter().any(|(is_ruled_out, _, _)| *is_ruled_out) {
            return false;
        }
        if max_in_flight_requests > 5 {
            let problem = "an idempotent producer may have at most 5 in flight; lower it, or set enable.idempotence=false";
            self.fault(
                FaultKind::Conflict,
                "max.in.flight.requests.per.connection",
                problem,
            );
        }
        true
    }

    /// At least linger and request timeout together: raised in silence where it is the default, else a fault.
    fn delivery_timeout(&mut self, linger: Duration, request_timeout: Duration) -> Duration {
        const NAME: &str = "delivery.timeout.ms";
        let timeout = self.milliseconds(NAME);
        let needed = linger + request_timeout;
        if timeout >= needed {
            return timeout;
        }
        let needed_ms = needed.as_millis();
        if self.given.contains_key(NAME) {
            let problem =
                format!("below linger.ms + request.timeout.ms = {needed_ms}; raise it or lower either");
            self.fault(FaultKind::Conflict, NAME, &problem);
            return timeout;
        }
        self.replace_value(
            NAME,
            &needed_ms.to_string(),
            Source::Derived("linger.ms + request.timeout.ms".to_owned()),
        );
        needed
    }

    fn compression(&mut self) -> Compression {
        let codec = self.word("compression.type");
        // All levels are read, so that a faulty one is told even where its codec is not used.
        let gzip = self.signed("compression.gzip.level") as i32;
        let lz4 = self.signed("compression.lz4.level") as i32;
        let zstd = self.signed("compression.zstd.level") as i32;
        if gzip == 0 {
            self.fault(
                FaultKind::OutOfRange,
                "compression.gzip.level",
                "must be from 1 to 9, or -1 for the default",
            );
        }
        match codec.as_str() {
            "gzip" => Compression::Gzip { level: gzip },
            "snappy" => Compression::Snappy,
            "lz4" => Compression::Lz4 { level: lz4 },
            "zstd" => Compression::Zstd { level: zstd },
            _ => Compression::None,
        }
    }

    fn consumer(&mut self) -> ConsumerConfig {
        let group_protocol = self.group_protocol();
        let session_timeout = self.milliseconds("session.timeout.ms");
        let heartbeat_interval = self.milliseconds("heartbeat.interval.ms");
        if heartbeat_interval >= session_timeout {
            let problem = format!(
                "must be below session.timeout.ms = {}, and is usually a third of it",
                session_timeout.as_millis()
            );
            self.fault(FaultKind::Conflict, "heartbeat.interval.ms", &problem);
        }
        ConsumerConfig {
            connection: self.connection(),
            fetch_min_bytes: self.whole("fetch.min.bytes") as u32,
            fetch_max_wait: self.milliseconds("fetch.max.wait.ms"),
            fetch_max_bytes: self.whole("fetch.max.bytes") as u32,
            max_partition_fetch_bytes: self.whole("max.partition.fetch.bytes") as u32,
            group_id: self.optional_text("group.id"),
            group_protocol,
            group_instance_id: self.optional_text("group.instance.id"),
            session_timeout,
            heartbeat_interval,
            max_poll_interval: self.milliseconds("max.poll.interval.ms"),
            auto_offset_reset: self.offset_reset(),
            auto_commit: self.flag("enable.auto.commit"),
            auto_commit_interval: self.milliseconds("auto.commit.interval.ms"),
            isolation_level: match self.word("isolation.level").as_str() {
                "read_committed" => IsolationLevel::ReadCommitted,
                _ => IsolationLevel::ReadUncommitted,
            },
            client_rack: self.optional_text("client.rack"),
            check_crcs: self.flag("check.crcs"),
        }
    }

    fn group_protocol(&mut self) -> GroupProtocol {
        const STRATEGY: &str = "partition.assignment.strategy";
        let remote_assignor = self.optional_text("group.remote.assignor");
        let text = self.text("group.protocol");
        let is_consumer = text.eq_ignore_ascii_case("consumer");
        if !is_consumer && !text.eq_ignore_ascii_case("classic") {
            self.fault(
                FaultKind::WrongType,
                "group.protocol",
                "allowed: classic, consumer",
            );
        }
        if is_consumer {
            // As the Java client has it: the coordinator decides these.
            for name in [STRATEGY, "session.timeout.ms", "heartbeat.interval.ms"] {
                if self.given.contains_key(name) {
                    let problem =
                        "is not for group.protocol=consumer, where the brokers decide it; leave it out";
                    self.fault(FaultKind::Conflict, name, problem);
                }
            }
        } else if remote_assignor.is_some() {
            let problem = "is for group.protocol=consumer; set that, or leave this out";
            self.fault(FaultKind::Conflict, "group.remote.assignor", problem);
        }
        let strategies = self.assignment_strategies();
        if is_consumer {
            GroupProtocol::Consumer(remote_assignor)
        } else {
            GroupProtocol::Classic(strategies)
        }
    }

    fn assignment_strategies(&mut self) -> Vec<AssignmentStrategy> {
        const NAME: &str = "partition.assignment.strategy";
        let text = self.text(NAME);
        let mut strategies = Vec::new();
        for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            let class = name
                .strip_prefix("org.apache.kafka.clients.consumer.")
                .unwrap_or(name);
            let found = AssignmentStrategy::ALL
                .into_iter()
                .find(|strategy| class == strategy.class_name() || class == strategy.protocol_name());
            match found {
                Some(strategy) if strategies.contains(&strategy) => {
                    self.fault(FaultKind::Conflict, NAME, &format!("{name} is named twice"));
                }
                Some(strategy) => strategies.push(strategy),
                None => {
                    let known = AssignmentStrategy::ALL
                        .map(AssignmentStrategy::class_name)
                        .join(", ");
                    let problem =
                        format!("{name} is not known; allowed: {known}, with or without their package");
                    self.fault(FaultKind::Unsupported, NAME, &problem);
                }
            }
        }
        if strategies.is_empty() {
            if text.trim().is_empty() {
                self.fault(FaultKind::WrongType, NAME, "names no strategy");
            }
            strategies.push(AssignmentStrategy::Range);
        }
        strategies
    }

    fn offset_reset(&mut self) -> OffsetReset {
        const NAME: &str = "auto.offset.reset";
        let text = self.text(NAME).to_ascii_lowercase();
        match text.as_str() {
            "earliest" => return OffsetReset::Earliest,
            "latest" => return OffsetReset::Latest,
            "none" => return OffsetReset::None,
            _ => {}
        }
        match text.strip_prefix("by_duration:").and_then(iso_8601_duration) {
            Some(age) => OffsetReset::ByDuration(age),
            None => {
                let problem =
                    "allowed: earliest, latest, none, or by_duration:PnDTnHnMnS such as by_duration:PT1H";
                self.fault(FaultKind::WrongType, NAME, problem);
                OffsetReset::Latest
            }
        }
    }

    // Readers of single values.

    /// The value of a property, given or default, kept for the result; empty where there is neither.
    pub(super) fn text(&mut self, name: &str) -> String {
        let Some(spec) = catalogue::find(name, self.client) else {
            return String::new();
        };
        let (value, source) = match self.given.get(name) {
            Some(given) => (given.value.as_str(), given.source.clone()),
            None => match spec.default {
                Some(default) => (default, Source::KafkaDefault),
                None => return String::new(),
            },
        };
        let resolved = ResolvedValue {
            key: name.to_owned(),
            value: redacted(name, value),
            source,
        };
        self.values.push(resolved);
        value.to_owned()
    }

    pub(super) fn optional_text(&mut self, name: &str) -> Option<String> {
        Some(self.text(name)).filter(|text| !text.is_empty())
    }

    fn replace_value(&mut self, name: &str, value: &str, source: Source) {
        if let Some(kept) = self.values.iter_mut().find(|kept| kept.key == name) {
            *kept = ResolvedValue {
                key: name.to_owned(),
                value: value.to_owned(),
                source,
            };
        }
    }

    /// Whether a property was given.
    pub(super) fn is_given(&self, name: &str) -> bool {
        self.given.contains_key(name)
    }

    /// The value of a secret, which is not kept for the result beyond that it was given.
    pub(super) fn secret(&mut self, name: &str) -> Option<Secret> {
        self.optional_text(name).map(Secret::new)
    }

    /// A property that was given has no effect after all.
    pub(super) fn ignore(&mut self, name: &str, why: &str) {
        let given: &'a BTreeMap<String, Given> = self.given;
        if let Some(given) = given.get(name) {
            self.no_effect(name, given, why);
        }
    }

    /// Notes a fault of a property; one that was not given is shown with its default.
    pub(super) fn fault(&mut self, kind: FaultKind, name: &str, problem: &str) {
        let kept = self.values.iter().find(|kept| kept.key == name);
        let (value, source) = match (self.given.get(name), kept) {
            (Some(given), _) => (redacted(name, &given.value), given.source.clone()),
            (None, Some(kept)) => (kept.value.clone(), kept.source.clone()),
            (None, None) => (String::new(), Source::KafkaDefault),
        };
        self.faults
            .push(Fault::of_value(kind, &source, name, &value, problem));
    }

    /// One of the words of a property's type; empty after a fault.
    pub(super) fn word(&mut self, name: &str) -> String {
        let text = self.text(name);
        let words = match catalogue::find(name, self.client).map(|spec| spec.kind) {
            Some(ValueKind::Word(words)) => words,
            _ => &[],
        };
        // Kafka compares most of its words without regard to case.
        if let Some(word) = words.iter().find(|word| word.eq_ignore_ascii_case(&text)) {
            return (*word).to_owned();
        }
        let problem = match nearest(&text, words.iter().copied()) {
            Some((meant, distance)) if distance <= SLIP && text.len() > SLIP => {
                format!("did you mean {meant}? Allowed: {}", words.join(", "))
            }
            _ => format!("allowed: {}", words.join(", ")),
        };
        self.fault(FaultKind::WrongType, name, &problem);
        String::new()
    }

    pub(super) fn flag(&mut self, name: &str) -> bool {
        let text = self.text(name);
        if text.eq_ignore_ascii_case("true") {
            return true;
        }
        if !text.eq_ignore_ascii_case("false") {
            self.fault(FaultKind::WrongType, name, "allowed: true, false");
        }
        false
    }

    /// A whole number within the limits of its type; the nearest allowed to 0 after a fault.
    fn signed(&mut self, name: &str) -> i64 {
        let text = self.text(name);
        let Some(ValueKind::Whole { min, max }) = catalogue::find(name, self.client).map(|spec| spec.kind)
        else {
            return 0;
        };
        match text.parse::<i64>() {
            Ok(value) if (min..=max).contains(&value) => value,
            Ok(value) => {
                let problem = if value < min {
                    format!("must be at least {min}")
                } else {
                    format!("must be at most {max}")
                };
                self.fault(FaultKind::OutOfRange, name, &problem);
                min.max(1).min(max)
            }
            Err(_) if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => {
                self.fault(FaultKind::OutOfRange, name, &format!("must be at most {max}"));
                min.max(1).min(max)
            }
            Err(_) => {
                self.fault(FaultKind::WrongType, name, "must be a whole number");
                min.max(1).min(max)
            }
        }
    }

    fn whole(&mut self, name: &str) -> u64 {
        u64::try_from(self.signed(name)).unwrap_or(0)
    }

    pub(super) fn milliseconds(&mut self, name: &str) -> Duration {
        Duration::from_millis(self.whole(name))
    }

    fn milliseconds_or_never(&mut self, name: &str) -> Option<Duration> {
        u64::try_from(self.signed(name)).ok().map(Duration::from_millis)
    }

    /// A socket's buffer; -1 leaves it to the system.
    fn buffer_bytes(&mut self, name: &str) -> Option<u32> {
        u32::try_from(self.signed(name)).ok()
    }
}

/// Whether a class is named by its last part, or in a list among others, as Kafka's tools allow.
fn is_short_for(given: &str, value: &str) -> bool {
    value.contains('.') && given.split(',').map(str::trim).any(|class| class == value)
}

/// `PnDTnHnMnS` of ISO 8601, as `java.time.Duration` reads it, not negative, fractions of seconds allowed.
fn iso_8601_duration(text: &str) -> Option<Duration> {
    let text = text.to_ascii_lowercase();
    let rest = text.strip_prefix('p')?;
    let (days, time) = rest.split_once('t').unwrap_or((rest, ""));
    if days.is_empty() && time.is_empty() {
        return None;
    }
    // The units and their order are those of our own durations, but for the lack of anything below seconds.
    let is_part = |c: char| c.is_ascii_digit() || matches!(c, '.' | 'd' | 'h' | 'm' | 's');
    let is_sound = (days.is_empty() || days.ends_with('d')) && !time.contains('d') && !time.contains("ms");
    if !is_sound || !days.chars().chain(time.chars()).all(is_part) {
        return None;
    }
    crate::units::parse_duration(&format!("{days}{time}")).ok()
}

#[cfg(test)]
mod bootstrap_tests {
    use crate::target::TargetDraft;

    fn faults(wrong: usize) -> usize {
        let mut draft = TargetDraft::new();
        // Equal faults are told once.
        let addresses: Vec<String> = (0..wrong).map(|number| format!("b{number}")).collect();
        draft.set_property(&format!("bootstrap.servers={}", addresses.join(",")), "-X");
        let told = draft.resolve().expect_err("no port").to_string();
        told.matches("is not host:port").count()
    }

    #[test]
    fn of_many_wrong_addresses_the_first_ten_are_told() {
        assert_eq!(faults(2000), faults(10));
        assert!(faults(9) < faults(10));
    }
}
