//! The target: which cluster, and the settings of the clients and topics, from OMB driver files, properties files and
//! flags.
//!
//! What is given later on this list overrides what is given earlier: the driver file's `commonConfig`, its
//! `producerConfig` and `consumerConfig`, properties files, single properties, the bootstrap servers' own flag.

use std::collections::BTreeMap;

use crate::client_config::{
    AdminConfig, ClientProperties, ConsumerConfig, HostPort, ProducerConfig, Resolved,
};
use crate::fault::{Fault, FaultKind, Faults, Notice};
use crate::properties;
use crate::result::{self, NotHonoured, Setting};
use crate::source::{ResolvedValue, Source};
use crate::spelling::likely_meant;
use crate::yaml::{self, Entry, Node, Value};

/// The keys of a driver file.
const KEYS: [&str; 7] = [
    "name",
    "driverClass",
    "replicationFactor",
    "topicConfig",
    "commonConfig",
    "producerConfig",
    "consumerConfig",
];

/// What was given of a target, before it is known to make sense.
#[derive(Clone, Debug, Default)]
pub struct TargetDraft {
    name: Option<String>,
    common: ClientProperties,
    producer: ClientProperties,
    consumer: ClientProperties,
    overrides: ClientProperties,
    topic_config: BTreeMap<String, (String, Source)>,
    replication_factor: Option<(String, Source)>,
    is_omb: bool,
    /// The driver file's text is no YAML, so that what it lacks cannot be told.
    unreadable: Option<Fault>,
    faults: Vec<Fault>,
    notices: Vec<Notice>,
}

/// A resolved target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The target's name, where its file gives one.
    pub name: Option<String>,
    /// The brokers to ask first, never empty.
    pub bootstrap_servers: Vec<HostPort>,
    /// Copies of each partition of topics to be created; absent for the cluster's default.
    pub replication_factor: Option<u16>,
    /// Configs of topics to be created.
    pub topic_config: Vec<ResolvedValue>,
    /// The producers' settings.
    pub producer: Resolved<ProducerConfig>,
    /// The consumers' settings.
    pub consumer: Resolved<ConsumerConfig>,
    /// The admin client's settings.
    pub admin: Resolved<AdminConfig>,
    /// Properties that were given and have no effect on any client, each once.
    pub not_honoured: Vec<NotHonoured>,
}

impl TargetDraft {
    /// Nothing but the Java client's defaults.
    pub fn new() -> Self {
        TargetDraft::default()
    }

    /// Takes an OMB driver file, whose name is `path`. What is wrong with it is told by [`TargetDraft::resolve`].
    pub fn read_driver_file(&mut self, path: &str, text: &str) {
        self.is_omb = true;
        let entries = match yaml::parse_mapping(path, text) {
            Ok(entries) => entries,
            Err(fault) => {
                self.unreadable = Some(fault);
                return;
            }
        };
        let mut seen: Vec<&str> = Vec::new();
        for entry in &entries {
            let source = Source::file(path, entry.line);
            if seen.contains(&entry.key.as_str()) {
                let problem = "the key stands twice; keep one";
                let shown = entry.node.shown();
                self.faults.push(Fault::of_value(
                    FaultKind::Repeated,
                    &source,
                    &entry.key,
                    &shown,
                    problem,
                ));
                continue;
            }
            seen.push(&entry.key);
            self.take(path, entry, source);
        }
    }

    fn take(&mut self, path: &str, entry: &Entry, source: Source) {
        let Entry { key, node, .. } = entry;
        match key.as_str() {
            "name" => self.name = Some(node.shown()).filter(|name| !name.is_empty()),
            "driverClass" => self.check_driver_class(node, &source),
            "replicationFactor" if node.is_null() => {}
            "replicationFactor" => self.replication_factor = Some((node.shown(), source)),
            "topicConfig" => {
                for (name, value, source) in self.block(path, entry) {
                    self.topic_config.insert(name, (value, source));
                }
            }
            "commonConfig" => {
                for (name, value, source) in self.block(path, entry) {
                    self.note_zone_id(&name, &value, &source);
                    self.common.set_shared(&name, &value, source);
                }
            }
            "producerConfig" => {
                for (name, value, source) in self.block(path, entry) {
                    self.producer.set_own(&name, &value, source);
                }
            }
            "consumerConfig" => {
                for (name, value, source) in self.block(path, entry) {
                    self.consumer.set_own(&name, &value, source);
                }
            }
            "reset" => self.notices.push(Notice::at(
                &source,
                "fork-key",
                "reset is of a fork of OMB and has no effect; topics that the run did not make are never deleted",
            )),
            _ => self.take_unknown(key, node, &source),
        }
    }

    fn take_unknown(&mut self, key: &str, node: &Node, source: &Source) {
        let allowed = KEYS.join(", ");
        let problem = match likely_meant(key, KEYS) {
            Some(meant) => format!("unknown key; did you mean {meant}? Allowed: {allowed}"),
            None => format!("unknown key. Allowed: {allowed}"),
        };
        // The value may hold a password that was meant for a known key.
        let shown = match &node.value {
            Value::Scalar { text, .. } if !text.contains(['=', '\n']) => text.as_str(),
            _ => "…",
        };
        self.faults.push(Fault::of_value(
            FaultKind::UnknownKey,
            source,
            key,
            shown,
            problem,
        ));
    }

    fn check_driver_class(&mut self, node: &Node, source: &Source) {
        let class = node.shown();
        let is_kafka =
            class.ends_with(".KafkaBenchmarkDriver") || class.ends_with(".RedpandaBenchmarkDriver");
        if !is_kafka && !node.is_null() {
            let problem = "only Kafka is loaded; the class must be io.openmessaging.benchmark.driver.kafka.KafkaBenchmarkDriver";
            self.faults.push(Fault::of_value(
                FaultKind::Unsupported,
                source,
                "driverClass",
                &class,
                problem,
            ));
        }
    }

    /// The properties of one of the file's text blocks; a map of names to values is read alike.
    fn block(&mut self, path: &str, entry: &Entry) -> Vec<(String, String, Source)> {
        let Entry {
            key,
            node,
            line: key_line,
        } = entry;
        match &node.value {
            Value::Scalar { text, block, .. } => {
                // Only in a literal block do the lines of the text stand as they do in the file, from the one below
                // its key.
                let line_of = |line: u32| {
                    if *block {
                        key_line.saturating_add(line)
                    } else {
                        node.line
                    }
                };
                match properties::parse(text) {
                    Ok(properties) => {
                        let place =
                            |p: properties::Property| (p.name, p.value, Source::file(path, line_of(p.line)));
                        properties.into_iter().map(place).collect()
                    }
                    Err(errors) => {
                        let fault = |e: properties::PropertiesError| {
                            Fault::syntax(
                                Source::file(path, line_of(e.line)),
                                format!("{key}: {}", e.problem),
                            )
                        };
                        self.faults.extend(errors.into_iter().map(fault));
                        Vec::new()
                    }
                }
            }
            Value::Mapping(entries) => entries
                .iter()
                .map(|entry| {
                    (
                        entry.key.clone(),
                        entry.node.shown(),
                        Source::file(path, entry.line),
                    )
                })
                .collect(),
            Value::Sequence(_) => {
                let problem = "a text block of name=value lines";
                let source = Source::file(path, node.line);
                self.faults.push(Fault::of_value(
                    FaultKind::WrongType,
                    &source,
                    key,
                    "[…]",
                    problem,
                ));
                Vec::new()
            }
        }
    }

    fn note_zone_id(&mut self, name: &str, value: &str, source: &Source) {
        if name == "client.id" && value.contains("{zone.id}") {
            let text = "{zone.id} in client.id is kept as it is written, since there is no JVM property to take it from";
            self.notices.push(Notice::at(source, "zone-id", text));
        }
    }

    /// Takes a properties file for all clients, whose name is `path`.
    pub fn read_properties_file(&mut self, path: &str, text: &str) {
        if let Err(faults) = self.overrides.read_file(path, text) {
            self.faults.extend(faults);
        }
    }

    /// Takes a file of client properties whose name is `path`, below all others.
    pub fn read_default_properties(&mut self, path: &str, text: &str) {
        let mut defaults = ClientProperties::default();
        if let Err(faults) = defaults.read_file(path, text) {
            self.faults.extend(faults);
        }
        self.common = defaults.overridden_by(&self.common);
    }

    /// Sets `name=value` for all clients, of a command-line option whose name is `flag`.
    pub fn set_property(&mut self, assignment: &str, flag: &str) {
        if let Err(faults) = self.overrides.assign(assignment, flag) {
            self.faults.extend(faults);
        }
    }

    /// Sets the brokers to ask first, of a command-line option whose name is `flag`.
    pub fn set_bootstrap_servers(&mut self, servers: &str, flag: &str) {
        self.overrides
            .set_shared("bootstrap.servers", servers, Source::flag(flag));
    }

    /// Whether brokers to ask first were given, rightly or wrongly.
    pub fn has_bootstrap_servers(&self) -> bool {
        [&self.overrides, &self.producer, &self.consumer, &self.common]
            .iter()
            .any(|properties| properties.get("bootstrap.servers").is_some())
    }

    /// Sets `name=value` of topics to be created, of a command-line option whose name is `flag`.
    pub fn set_topic_config(&mut self, assignment: &str, flag: &str) {
        match assignment.split_once('=') {
            Some((name, value)) if !name.trim().is_empty() => {
                let value = (value.trim().to_owned(), Source::flag(flag));
                self.topic_config.insert(name.trim().to_owned(), value);
            }
            _ => {
                let problem = format!("\"{assignment}\" is not name=value, such as min.insync.replicas=2");
                self.faults.push(Fault::syntax(Source::flag(flag), problem));
            }
        }
    }

    /// Where the replication factor was given, if it was.
    pub fn replication_factor_source(&self) -> Option<&Source> {
        self.replication_factor.as_ref().map(|(_, source)| source)
    }

    /// Sets the copies of each partition of topics to be created, of a command-line option whose name is `flag`.
    pub fn set_replication_factor(&mut self, value: &str, flag: &str) {
        self.replication_factor = Some((value.to_owned(), Source::flag(flag)));
    }

    /// The target, with what the user should know of it.
    ///
    /// # Errors
    /// All faults of files and flags at once, each once though it may concern several clients.
    pub fn resolve(mut self) -> Result<(Target, Vec<Notice>), Faults> {
        if let Some(fault) = self.unreadable {
            return Err(fault.into());
        }
        let replication_factor = self.replication_factor();
        let merged = |own: &ClientProperties| {
            let mut properties = self.common.overridden_by(own).overridden_by(&self.overrides);
            properties.set_default("client.id", "plimsoll", Source::Default);
            properties
        };
        let producer = merged(&self.producer).producer();
        let mut consumer = merged(&self.consumer);
        if self.is_omb {
            consumer.set_default("enable.auto.commit", "false", Source::OmbDefault);
        }
        let consumer = consumer.consumer();
        let admin = merged(&ClientProperties::default()).admin();
        let (producer, consumer, admin) = match (producer, consumer, admin) {
            (Ok(producer), Ok(consumer), Ok(admin)) => (producer, consumer, admin),
            (Err(first), consumer, admin) => {
                return Err(all_told(self.faults, first, [consumer.err(), admin.err()]));
            }
            (Ok(_), Err(first), admin) => return Err(all_told(self.faults, first, [admin.err(), None])),
            (Ok(_), Ok(_), Err(first)) => return Err(all_told(self.faults, first, [None, None])),
        };
        let mut notices = self.notices;
        for notice in producer
            .notices
            .iter()
            .chain(&consumer.notices)
            .chain(&admin.notices)
        {
            if !notices.contains(notice) {
                notices.push(notice.clone());
            }
        }
        let mut not_honoured: Vec<NotHonoured> = Vec::new();
        for entry in producer
            .not_honoured
            .iter()
            .chain(&consumer.not_honoured)
            .chain(&admin.not_honoured)
        {
            if !not_honoured.contains(entry) {
                not_honoured.push(entry.clone());
            }
        }
        let topic_config = self.topic_config.into_iter();
        let target = Target {
            name: self.name,
            bootstrap_servers: producer.config.connection.bootstrap_servers.clone(),
            replication_factor,
            topic_config: topic_config
                .map(|(key, (value, source))| ResolvedValue { key, value, source })
                .collect(),
            producer,
            consumer,
            admin,
            not_honoured,
        };
        Faults::check(self.faults, (target, notices))
    }

    fn replication_factor(&mut self) -> Option<u16> {
        let (text, source) = self.replication_factor.as_ref()?;
        match text.trim().parse::<u16>() {
            // The protocol's number is a signed 16-bit one.
            Ok(factor) if (1..=i16::MAX as u16).contains(&factor) => Some(factor),
            _ => {
                let problem = "must be a whole number from 1 to the number of brokers; leave it out for the cluster's default";
                let fault =
                    Fault::of_value(FaultKind::OutOfRange, source, "replicationFactor", text, problem);
                self.faults.push(fault);
                None
            }
        }
    }
}

/// The draft's own faults, then those of the clients, each once, in the order of the files' lines.
fn all_told(own: Vec<Fault>, first: Faults, others: [Option<Faults>; 2]) -> Faults {
    let all = match Faults::check(own, ()) {
        Ok(()) => first,
        Err(own) => own.and(first),
    };
    others.into_iter().flatten().fold(all, Faults::and).in_order()
}

impl Target {
    /// The target as the result document holds it.
    pub fn for_result(&self, embedded: bool) -> result::Target {
        let mut topic_config = result::settings(&self.topic_config);
        if let Some(factor) = self.replication_factor {
            let setting = Setting {
                value: factor.to_string(),
                source: "target".to_owned(),
            };
            topic_config.insert("replication.factor".to_owned(), setting);
        }
        result::Target {
            name: self.name.clone(),
            bootstrap_servers: self.bootstrap_servers.iter().map(ToString::to_string).collect(),
            embedded,
            producer: result::settings(&self.producer.values),
            consumer: result::settings(&self.consumer.values),
            admin: result::settings(&self.admin.values),
            topic_config,
            not_honoured: self.not_honoured.clone(),
        }
    }
}
