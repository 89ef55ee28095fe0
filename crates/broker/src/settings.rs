//! Topic and node configs under Kafka's own names: which there are, what they may be, what they are by default.
//!
//! Honoured: `retention.ms`, `retention.bytes`, `max.message.bytes`, `min.insync.replicas`, `message.timestamp.type`,
//! `message.timestamp.{before,after}.max.ms`, `unclean.leader.election.enable`, and the node configs marked so below.
//! Refused, because to accept them would be to lie: compaction, recompression by the broker, remote storage. The others
//! speak of files and threads that this broker does not have; they are accepted, shown, and without effect.

pub(crate) mod security;

use crate::quota::Windows;
use security::find_security_config;
use std::collections::BTreeMap;

/// Configs that somebody set, by name.
pub(crate) type Overrides = BTreeMap<String, String>;

/// The type of a config's value, as DescribeConfigs numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Boolean = 1,
    String = 2,
    Int = 3,
    Long = 5,
    Double = 6,
    List = 7,
    /// Never shown.
    Password = 9,
}

/// What a value is held against beside its type.
#[derive(Clone, Copy, Debug)]
enum Rule {
    Any,
    AtLeast(i64),
    OneOf(&'static [&'static str]),
    /// Only this value, for this reason.
    Only(&'static str, &'static str),
}

/// One config.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) default: &'static str,
    rule: Rule,
    /// The node config that gives a topic config its default.
    pub(crate) node_name: Option<&'static str>,
    /// Whether it may be changed while the broker runs.
    pub(crate) is_dynamic: bool,
}

const LONGEST: &str = "9223372036854775807";
const NO_COMPACTION: &str = "this broker keeps records in memory and deletes the oldest; it does not compact";
const NO_RECOMPRESSION: &str = "this broker keeps batches as producers send them and does not recompress";
const NO_REMOTE: &str = "this broker has no remote storage";

const fn topic(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    rule: Rule,
    node_name: Option<&'static str>,
) -> Definition {
    Definition {
        name,
        kind,
        default,
        rule,
        node_name,
        is_dynamic: true,
    }
}

const fn node(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    rule: Rule,
    is_dynamic: bool,
) -> Definition {
    Definition {
        name,
        kind,
        default,
        rule,
        node_name: None,
        is_dynamic,
    }
}

/// The configs that topics have, in order of name.
pub(crate) const TOPIC_CONFIGS: &[Definition] = &[
    topic(
        "cleanup.policy",
        Kind::List,
        "delete",
        Rule::Only("delete", NO_COMPACTION),
        Some("log.cleanup.policy"),
    ),
    topic(
        "compression.gzip.level",
        Kind::Int,
        "-1",
        Rule::AtLeast(-1),
        Some("compression.gzip.level"),
    ),
    topic(
        "compression.lz4.level",
        Kind::Int,
        "9",
        Rule::AtLeast(1),
        Some("compression.lz4.level"),
    ),
    topic(
        "compression.type",
        Kind::String,
        "producer",
        Rule::Only("producer", NO_RECOMPRESSION),
        Some("compression.type"),
    ),
    topic(
        "compression.zstd.level",
        Kind::Int,
        "3",
        Rule::Any,
        Some("compression.zstd.level"),
    ),
    topic(
        "delete.retention.ms",
        Kind::Long,
        "86400000",
        Rule::AtLeast(0),
        Some("log.cleaner.delete.retention.ms"),
    ),
    topic(
        "file.delete.delay.ms",
        Kind::Long,
        "60000",
        Rule::AtLeast(0),
        Some("log.segment.delete.delay.ms"),
    ),
    topic(
        "flush.messages",
        Kind::Long,
        LONGEST,
        Rule::AtLeast(1),
        Some("log.flush.interval.messages"),
    ),
    topic(
        "flush.ms",
        Kind::Long,
        LONGEST,
        Rule::AtLeast(0),
        Some("log.flush.interval.ms"),
    ),
    topic(
        "follower.replication.throttled.replicas",
        Kind::List,
        "",
        Rule::Any,
        None,
    ),
    topic(
        "index.interval.bytes",
        Kind::Int,
        "4096",
        Rule::AtLeast(0),
        Some("log.index.interval.bytes"),
    ),
    topic(
        "leader.replication.throttled.replicas",
        Kind::List,
        "",
        Rule::Any,
        None,
    ),
    topic(
        "local.retention.bytes",
        Kind::Long,
        "-2",
        Rule::AtLeast(-2),
        Some("log.local.retention.bytes"),
    ),
    topic(
        "local.retention.ms",
        Kind::Long,
        "-2",
        Rule::AtLeast(-2),
        Some("log.local.retention.ms"),
    ),
    topic(
        "max.compaction.lag.ms",
        Kind::Long,
        LONGEST,
        Rule::AtLeast(1),
        Some("log.cleaner.max.compaction.lag.ms"),
    ),
    topic(
        "max.message.bytes",
        Kind::Int,
        "1048588",
        Rule::AtLeast(0),
        Some("message.max.bytes"),
    ),
    topic(
        "message.timestamp.after.max.ms",
        Kind::Long,
        "3600000",
        Rule::AtLeast(0),
        Some("log.message.timestamp.after.max.ms"),
    ),
    topic(
        "message.timestamp.before.max.ms",
        Kind::Long,
        LONGEST,
        Rule::AtLeast(0),
        Some("log.message.timestamp.before.max.ms"),
    ),
    topic(
        "message.timestamp.type",
        Kind::String,
        "CreateTime",
        Rule::OneOf(&["CreateTime", "LogAppendTime"]),
        Some("log.message.timestamp.type"),
    ),
    topic(
        "min.cleanable.dirty.ratio",
        Kind::Double,
        "0.5",
        Rule::Any,
        Some("log.cleaner.min.cleanable.ratio"),
    ),
    topic(
        "min.compaction.lag.ms",
        Kind::Long,
        "0",
        Rule::AtLeast(0),
        Some("log.cleaner.min.compaction.lag.ms"),
    ),
    topic(
        "min.insync.replicas",
        Kind::Int,
        "1",
        Rule::AtLeast(1),
        Some("min.insync.replicas"),
    ),
    topic(
        "preallocate",
        Kind::Boolean,
        "false",
        Rule::Any,
        Some("log.preallocate"),
    ),
    topic(
        "remote.storage.enable",
        Kind::Boolean,
        "false",
        Rule::Only("false", NO_REMOTE),
        None,
    ),
    topic(
        "retention.bytes",
        Kind::Long,
        "-1",
        Rule::AtLeast(-1),
        Some("log.retention.bytes"),
    ),
    topic(
        "retention.ms",
        Kind::Long,
        "604800000",
        Rule::AtLeast(-1),
        Some("log.retention.ms"),
    ),
    topic(
        "segment.bytes",
        Kind::Int,
        "1073741824",
        Rule::AtLeast(14),
        Some("log.segment.bytes"),
    ),
    topic(
        "segment.index.bytes",
        Kind::Int,
        "10485760",
        Rule::AtLeast(4),
        Some("log.index.size.max.bytes"),
    ),
    topic(
        "segment.jitter.ms",
        Kind::Long,
        "0",
        Rule::AtLeast(0),
        Some("log.roll.jitter.ms"),
    ),
    topic(
        "segment.ms",
        Kind::Long,
        "604800000",
        Rule::AtLeast(1),
        Some("log.roll.ms"),
    ),
    topic(
        "unclean.leader.election.enable",
        Kind::Boolean,
        "false",
        Rule::Any,
        Some("unclean.leader.election.enable"),
    ),
];

/// The configs that nodes have of their own, beside those that give topics their defaults. All of them are honoured.
pub(crate) const NODE_CONFIGS: &[Definition] = &[
    node(
        "auto.create.topics.enable",
        Kind::Boolean,
        "true",
        Rule::Any,
        false,
    ),
    node(
        "auto.leader.rebalance.enable",
        Kind::Boolean,
        "true",
        Rule::Any,
        false,
    ),
    node(
        "connections.max.idle.ms",
        Kind::Long,
        "600000",
        Rule::AtLeast(-1),
        false,
    ),
    node(
        "controller.quota.window.num",
        Kind::Int,
        "11",
        Rule::AtLeast(1),
        false,
    ),
    node(
        "controller.quota.window.size.seconds",
        Kind::Int,
        "1",
        Rule::AtLeast(1),
        false,
    ),
    node(
        "default.replication.factor",
        Kind::Int,
        "1",
        Rule::AtLeast(1),
        false,
    ),
    node("delete.topic.enable", Kind::Boolean, "true", Rule::Any, false),
    // Kafka waits 3 s; a broker for trials and tests is better off without.
    node(
        "group.initial.rebalance.delay.ms",
        Kind::Int,
        "0",
        Rule::AtLeast(0),
        false,
    ),
    node(
        "group.consumer.heartbeat.interval.ms",
        Kind::Int,
        "5000",
        Rule::AtLeast(1),
        false,
    ),
    node(
        "group.consumer.session.timeout.ms",
        Kind::Int,
        "45000",
        Rule::AtLeast(1),
        false,
    ),
    node(
        "group.max.session.timeout.ms",
        Kind::Int,
        "1800000",
        Rule::AtLeast(1),
        false,
    ),
    node(
        "group.min.session.timeout.ms",
        Kind::Int,
        "6000",
        Rule::AtLeast(1),
        false,
    ),
    node(
        "leader.imbalance.check.interval.seconds",
        Kind::Long,
        "300",
        Rule::AtLeast(1),
        false,
    ),
    // Kafka looks every 5 minutes; here records are memory.
    node(
        "log.retention.check.interval.ms",
        Kind::Long,
        "5000",
        Rule::AtLeast(1),
        false,
    ),
    node("num.partitions", Kind::Int, "1", Rule::AtLeast(1), false),
    node(
        "max.incremental.fetch.session.cache.slots",
        Kind::Int,
        "1000",
        Rule::AtLeast(0),
        false,
    ),
    node(
        "producer.id.expiration.ms",
        Kind::Int,
        "86400000",
        Rule::AtLeast(1),
        true,
    ),
    node("quota.window.num", Kind::Int, "11", Rule::AtLeast(1), false),
    node(
        "quota.window.size.seconds",
        Kind::Int,
        "1",
        Rule::AtLeast(1),
        false,
    ),
    node(
        "replica.lag.time.max.ms",
        Kind::Long,
        "30000",
        Rule::AtLeast(1),
        false,
    ),
    node(
        "socket.request.max.bytes",
        Kind::Int,
        "104857600",
        Rule::AtLeast(1),
        false,
    ),
    node(
        "transaction.max.timeout.ms",
        Kind::Int,
        "900000",
        Rule::AtLeast(1),
        false,
    ),
];

/// A node config, one of security among them, or the topic config that it gives a default to.
pub(crate) fn find_node_config(name: &str) -> Option<&'static Definition> {
    NODE_CONFIGS
        .iter()
        .find(|definition| definition.name == name)
        .or_else(|| {
            TOPIC_CONFIGS
                .iter()
                .find(|definition| definition.node_name == Some(name))
        })
        .or_else(|| find_security_config(name))
}

/// A topic config.
pub(crate) fn find_topic_config(name: &str) -> Option<&'static Definition> {
    TOPIC_CONFIGS.iter().find(|definition| definition.name == name)
}

impl Definition {
    /// Holds a value against type and rule; `name` is the one it was given under.
    ///
    /// # Errors
    /// The sentence to tell whoever set it.
    pub(crate) fn check(&self, name: &str, value: &str) -> Result<(), String> {
        let wrong = |reason: String| {
            Err(format!(
                "Invalid value {value} for configuration {name}: {reason}"
            ))
        };
        let number = match self.kind {
            Kind::Int => value
                .trim()
                .parse::<i32>()
                .map(i64::from)
                .map_err(|_| "Not a number of type INT"),
            Kind::Long => value
                .trim()
                .parse::<i64>()
                .map_err(|_| "Not a number of type LONG"),
            Kind::Double => match value.trim().parse::<f64>() {
                Ok(number) if (0.0..=1.0).contains(&number) => Ok(0),
                _ => Err("Must be a number from 0 to 1"),
            },
            Kind::Boolean if !matches!(value.trim().to_lowercase().as_str(), "true" | "false") => {
                Err("Expected value to be either true or false")
            }
            Kind::Boolean | Kind::String | Kind::List | Kind::Password => Ok(0),
        };
        let number = match number {
            Ok(number) => number,
            Err(reason) => return wrong(reason.to_owned()),
        };
        match self.rule {
            Rule::AtLeast(least) if number < least => wrong(format!("Value must be at least {least}")),
            Rule::OneOf(allowed) if !allowed.contains(&value) => {
                wrong(format!("String must be one of: {}", allowed.join(", ")))
            }
            Rule::Only(allowed, reason) if value.trim() != allowed => {
                wrong(format!("{reason}; only {allowed} is possible"))
            }
            Rule::Any | Rule::AtLeast(_) | Rule::OneOf(_) | Rule::Only(..) => Ok(()),
        }
    }
}

/// Holds the configs that a topic is to be given against the list.
///
/// # Errors
/// The first that cannot be, as a sentence.
pub(crate) fn check_topic_configs(configs: &Overrides) -> Result<(), String> {
    configs
        .iter()
        .try_for_each(|(name, value)| match find_topic_config(name) {
            Some(definition) => definition.check(name, value),
            None => Err(format!("Unknown topic config name: {name}")),
        })
}

/// Holds the configs that nodes are to be given against the list.
///
/// # Errors
/// The first that cannot be, as a sentence.
pub(crate) fn check_node_configs(configs: &Overrides) -> Result<(), String> {
    configs
        .iter()
        .try_for_each(|(name, value)| match find_node_config(name) {
            Some(definition) => definition.check(name, value),
            None => Err(format!("Unknown broker config name: {name}")),
        })
}

/// Where a value in force comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Topic = 1,
    DynamicDefaultNode = 3,
    StaticNode = 4,
    Default = 5,
}

/// What the nodes were started with and what was changed since. All brokers of the process share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeOverrides {
    pub(crate) fixed: Overrides,
    pub(crate) dynamic: Overrides,
}

impl NodeOverrides {
    /// All values that a node config has, the one in force first.
    pub(crate) fn values<'a>(&'a self, name: &str, default: &'a str) -> Vec<(Source, &'a str)> {
        let dynamic = self
            .dynamic
            .get(name)
            .map(|value| (Source::DynamicDefaultNode, value.as_str()));
        let fixed = self
            .fixed
            .get(name)
            .map(|value| (Source::StaticNode, value.as_str()));
        dynamic
            .into_iter()
            .chain(fixed)
            .chain([(Source::Default, default)])
            .collect()
    }

    fn value(&self, definition: &Definition) -> &str {
        let name = definition.node_name.unwrap_or(definition.name);
        self.dynamic
            .get(name)
            .or_else(|| self.fixed.get(name))
            .map_or(definition.default, String::as_str)
    }

    fn number(&self, name: &str) -> i64 {
        find_node_config(name)
            .and_then(|definition| self.value(definition).trim().parse().ok())
            .unwrap_or_default()
    }

    fn flag(&self, name: &str) -> bool {
        find_node_config(name)
            .is_some_and(|definition| self.value(definition).trim().eq_ignore_ascii_case("true"))
    }
}

/// The node configs that are honoured, as values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeSettings {
    pub(crate) default_partitions: i32,
    pub(crate) default_replication_factor: i16,
    pub(crate) creates_topics: bool,
    pub(crate) deletes_topics: bool,
    pub(crate) moves_leaders_back: bool,
    pub(crate) leader_check_interval_ns: u64,
    pub(crate) initial_rebalance_delay_ns: u64,
    pub(crate) consumer_heartbeat_interval_ms: i32,
    pub(crate) consumer_session_timeout_ns: u64,
    pub(crate) session_timeout_ms: std::ops::RangeInclusive<i64>,
    pub(crate) retention_check_interval_ns: u64,
    pub(crate) replica_lag_time_max_ns: u64,
    pub(crate) producer_expiration_ms: i64,
    pub(crate) request_max_bytes: usize,
    /// `None`: for ever.
    pub(crate) connections_max_idle_ns: Option<u64>,
    pub(crate) transaction_max_timeout_ms: i64,
    /// How many fetch sessions each broker keeps.
    pub(crate) fetch_session_slots: usize,
    /// Over which byte rates are held against quotas.
    pub(crate) quota_windows: Windows,
    /// Over which changes to partitions are.
    pub(crate) controller_quota_windows: Windows,
}

impl NodeSettings {
    pub(crate) fn new(nodes: &NodeOverrides) -> NodeSettings {
        let ms = |name| crate::group::ms_to_ns(nodes.number(name));
        // More than that is for ever.
        let at_most = |name, most: i64| nodes.number(name).clamp(1, most).unsigned_abs();
        let windows = |count, seconds| Windows {
            count: at_most(count, 1_000_000),
            ms: 1000 * at_most(seconds, 1_000_000),
        };
        NodeSettings {
            default_partitions: nodes.number("num.partitions") as i32,
            default_replication_factor: nodes.number("default.replication.factor").min(i16::MAX.into())
                as i16,
            creates_topics: nodes.flag("auto.create.topics.enable"),
            deletes_topics: nodes.flag("delete.topic.enable"),
            moves_leaders_back: nodes.flag("auto.leader.rebalance.enable"),
            leader_check_interval_ns: ms("leader.imbalance.check.interval.seconds").saturating_mul(1000),
            initial_rebalance_delay_ns: ms("group.initial.rebalance.delay.ms"),
            consumer_heartbeat_interval_ms: nodes.number("group.consumer.heartbeat.interval.ms") as i32,
            consumer_session_timeout_ns: ms("group.consumer.session.timeout.ms"),
            session_timeout_ms: nodes.number("group.min.session.timeout.ms")
                ..=nodes.number("group.max.session.timeout.ms"),
            retention_check_interval_ns: ms("log.retention.check.interval.ms"),
            replica_lag_time_max_ns: ms("replica.lag.time.max.ms"),
            producer_expiration_ms: nodes.number("producer.id.expiration.ms"),
            request_max_bytes: nodes.number("socket.request.max.bytes") as usize,
            connections_max_idle_ns: Some(nodes.number("connections.max.idle.ms"))
                .filter(|ms| *ms >= 0)
                .map(crate::group::ms_to_ns),
            transaction_max_timeout_ms: nodes.number("transaction.max.timeout.ms"),
            fetch_session_slots: nodes.number("max.incremental.fetch.session.cache.slots") as usize,
            quota_windows: windows("quota.window.num", "quota.window.size.seconds"),
            controller_quota_windows: windows(
                "controller.quota.window.num",
                "controller.quota.window.size.seconds",
            ),
        }
    }
}

/// The topic configs that are honoured, as values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TopicSettings {
    /// `None`: for ever.
    pub(crate) retention_ms: Option<i64>,
    /// `None`: without a limit. Per partition.
    pub(crate) retention_bytes: Option<u64>,
    pub(crate) max_message_bytes: usize,
    pub(crate) min_insync_replicas: usize,
    pub(crate) is_log_append_time: bool,
    pub(crate) timestamp_before_max_ms: i64,
    pub(crate) timestamp_after_max_ms: i64,
    pub(crate) unclean_leader_election: bool,
}

impl TopicSettings {
    /// What holds for a topic with these configs of its own.
    pub(crate) fn new(topic: &Overrides, nodes: &NodeOverrides) -> TopicSettings {
        let text = |name: &str| {
            let definition = find_topic_config(name);
            let inherited = || definition.map_or("", |definition| nodes.value(definition));
            topic.get(name).map_or_else(inherited, String::as_str).trim()
        };
        let number = |name: &str| text(name).parse::<i64>().unwrap_or_default();
        TopicSettings {
            retention_ms: Some(number("retention.ms")).filter(|ms| *ms >= 0),
            retention_bytes: u64::try_from(number("retention.bytes")).ok(),
            max_message_bytes: number("max.message.bytes") as usize,
            min_insync_replicas: number("min.insync.replicas") as usize,
            is_log_append_time: text("message.timestamp.type") == "LogAppendTime",
            timestamp_before_max_ms: number("message.timestamp.before.max.ms"),
            timestamp_after_max_ms: number("message.timestamp.after.max.ms"),
            unclean_leader_election: text("unclean.leader.election.enable").eq_ignore_ascii_case("true"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, value: &str) -> Option<String> {
        check_topic_configs(&Overrides::from([(name.to_owned(), value.to_owned())])).err()
    }

    #[test]
    fn values_are_held_against_type_and_rule() {
        assert_eq!(check("retention.ms", "1000"), None);
        assert_eq!(check("retention.ms", "-1"), None);
        assert_eq!(
            check("retention.ms", "soon").as_deref(),
            Some("Invalid value soon for configuration retention.ms: Not a number of type LONG")
        );
        assert_eq!(
            check("min.insync.replicas", "0").as_deref(),
            Some("Invalid value 0 for configuration min.insync.replicas: Value must be at least 1")
        );
        assert_eq!(
            check("retension.ms", "1").as_deref(),
            Some("Unknown topic config name: retension.ms")
        );
        assert!(check("message.timestamp.type", "Never").is_some());
        assert!(check("preallocate", "perhaps").is_some());
    }

    #[test]
    fn what_cannot_be_done_is_refused_with_the_reason() {
        assert!(check("cleanup.policy", "compact").is_some_and(|text| text.contains("does not compact")));
        assert!(check("compression.type", "zstd").is_some_and(|text| text.contains("does not recompress")));
        assert_eq!(check("compression.type", "producer"), None);
    }

    #[test]
    fn every_default_is_a_valid_value() {
        for definition in TOPIC_CONFIGS
            .iter()
            .chain(NODE_CONFIGS)
            .chain(security::SECURITY_CONFIGS)
        {
            assert_eq!(definition.check(definition.name, definition.default), Ok(()));
        }
    }

    #[test]
    fn topics_inherit_from_nodes_and_override_them() {
        let mut nodes = NodeOverrides::default();
        nodes
            .fixed
            .insert("log.retention.ms".to_owned(), "5000".to_owned());
        nodes
            .dynamic
            .insert("min.insync.replicas".to_owned(), "2".to_owned());
        let own = Overrides::from([("retention.bytes".to_owned(), "100".to_owned())]);
        let settings = TopicSettings::new(&own, &nodes);
        assert_eq!(settings.retention_ms, Some(5000));
        assert_eq!(settings.retention_bytes, Some(100));
        assert_eq!(settings.min_insync_replicas, 2);
        assert_eq!(settings.max_message_bytes, 1_048_588);
        assert_eq!(
            nodes.values("min.insync.replicas", "1"),
            [(Source::DynamicDefaultNode, "2"), (Source::Default, "1")]
        );
    }
}
