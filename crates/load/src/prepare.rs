//! Before load starts: the topics, and whether the workload fits the cluster at all. After it: what was made is removed.

use crate::plan::{LoadError, LoadPlan};
use client::admin::{Admin, ConfigResource, ConfigSource, Layout, NewTopic};
use client::batch::{BatchBuilder, HEADER_LEN, RecordHeaders};
use client::cluster::{TopicInfo, Uuid};
use model::result::{self, BrokerConfigs, ClusterBroker, Setting, TopicConfigs, Warning};
use model::units::TargetRate;
use model::workload::{PhaseLength, Workload};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long topics may take to get their leaders.
const LEADERS_WITHIN: Duration = Duration::from_secs(25);
/// A run may fill the brokers' disks up to this part of what is free.
const FREE_SPACE_RATIO: f64 = 0.8;
/// Rates from here on stand for "as fast as possible" in OMB's files; what they would fill cannot be foretold.
const OMB_MAX_RATE_PER_SECOND: f64 = 10_000_000.0;
/// Topics of the run's own keep their records for the planned time and this much longer, so that what a killed run leaves
/// behind goes away by itself.
const RETENTION_BEYOND: Duration = Duration::from_secs(3600);

/// Broker configs that matter to a load test and go into the result.
const BROKER_CONFIGS: &[&str] = &[
    "auto.create.topics.enable",
    "background.threads",
    "compression.type",
    "default.replication.factor",
    "log.flush.interval.messages",
    "log.retention.bytes",
    "log.retention.hours",
    "log.segment.bytes",
    "message.max.bytes",
    "min.insync.replicas",
    "num.io.threads",
    "num.network.threads",
    "num.replica.fetchers",
    "queued.max.requests",
    "replica.fetch.max.bytes",
    "replica.lag.time.max.ms",
    "socket.receive.buffer.bytes",
    "socket.request.max.bytes",
    "socket.send.buffer.bytes",
    "unclean.leader.election.enable",
];

/// How long deleted topics may take to be forgotten by all brokers.
const GONE_WITHIN: Duration = Duration::from_secs(2);
/// Error codes of the protocol that mean that there is nothing to remove.
const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
const TOPIC_ALREADY_EXISTS: i16 = 36;
const GROUP_ID_NOT_FOUND: i16 = 69;

/// The topics of a run.
#[derive(Clone, Debug, Default)]
pub struct Prepared {
    /// Names, by the topics' numbers.
    pub names: Vec<String>,
    /// Their ids; all zero before Kafka 2.8.
    pub ids: Vec<Uuid>,
    /// The numbers of those that were deleted while the load ran, whether or not others of the same names were made.
    pub made_anew: Vec<usize>,
    /// Partitions of each.
    pub partitions: Vec<usize>,
    /// Copies of each partition.
    pub replication_factors: Vec<Option<u32>>,
    /// Whether the run created them.
    pub created: bool,
    /// What the cluster told of itself.
    pub cluster: result::Cluster,
    /// What the user should know.
    pub warnings: Vec<Warning>,
}

/// The name of the run in names of topics and groups.
pub fn short_id(run_id: u64) -> String {
    format!("{:08x}", (run_id >> 32) as u32 ^ run_id as u32)
}

/// The names of the run's topics.
pub fn topic_names(plan: &LoadPlan) -> Vec<String> {
    if !plan.workload.topic_names.is_empty() {
        return plan.workload.topic_names.clone();
    }
    (0..plan.workload.topics)
        .map(|index| format!("plimsoll-{}-topic-{index:04}", short_id(plan.run_id)))
        .collect()
}

/// Holds the size of a record against what the producer may send; the brokers' limit comes later, when they were asked.
pub fn check_record_size(
    plan: &LoadPlan,
    headers: &RecordHeaders,
    key_len: Option<usize>,
) -> Result<(), LoadError> {
    if !plan.workload.produces() {
        return Ok(());
    }
    let config = &plan.target.producer.config;
    let record =
        BatchBuilder::record_len_bound(key_len, plan.workload.message_size.bytes() as usize, headers)
            + HEADER_LEN;
    if record > config.max_request_size_bytes as usize {
        return Err(LoadError::Unfit(format!(
            "messageSize = {}: a record takes {record} bytes in a batch, and max.request.size = {} does not let the producer \
             send it; make the record smaller or set -X max.request.size={record}",
            plan.workload.message_size.bytes(),
            config.max_request_size_bytes,
        )));
    }
    let batch = record.max(config.batch_size_bytes as usize) as u64;
    if batch > config.buffer_memory_bytes {
        return Err(LoadError::Unfit(format!(
            "buffer.memory = {} holds not even one batch of {batch} bytes; set it to at least that",
            config.buffer_memory_bytes,
        )));
    }
    Ok(())
}

/// Holds the transactions that are wanted against what the producer's properties allow.
pub fn check_transactions(plan: &LoadPlan) -> Result<(), LoadError> {
    let config = &plan.target.producer.config;
    let makes_some = plan.workload.transactional || config.transaction.is_some();
    if !plan.workload.produces() || !makes_some {
        return Ok(());
    }
    if !config.idempotence {
        return Err(LoadError::Unfit(
            "transactional: true needs an idempotent producer: enable.idempotence=true, acks=all and retries above 0".to_owned(),
        ));
    }
    let (duration, timeout) = (plan.workload.transaction_duration, config.transaction_timeout);
    if duration >= timeout {
        return Err(LoadError::Unfit(format!(
            "transactionDuration = {} is not below transaction.timeout.ms = {}, so that the coordinator would abort each \
             transaction; shorten the one or raise the other",
            model::units::format_duration(duration),
            timeout.as_millis()
        )));
    }
    Ok(())
}

/// Makes the topics ready, or finds those that exist.
pub fn prepare(plan: &LoadPlan, admin: &mut Admin, record_bytes: usize) -> Result<Prepared, LoadError> {
    let names = topic_names(plan);
    let mut prepared = Prepared {
        names: names.clone(),
        ..Prepared::default()
    };
    let described = admin.cluster().map_err(|source| LoadError::Admin {
        doing: "asking who the brokers are",
        source,
    })?;
    prepared.cluster.cluster_id = described.cluster_id.clone();
    prepared.cluster.brokers = described
        .brokers
        .iter()
        .map(|(&id, broker)| ClusterBroker {
            id,
            host: broker.address.host.clone(),
            port: broker.address.port,
            rack: broker.rack.clone(),
        })
        .collect();
    let known = admin.topics(Some(&names)).map_err(|source| LoadError::Admin {
        doing: "asking which topics exist",
        source,
    })?;
    let exists = |name: &String| known.get(name).is_some_and(|info| info.error.0 == 0);
    if plan.workload.existing_topics {
        let missing: Vec<&String> = names.iter().filter(|name| !exists(name)).collect();
        if let Some(&name) = missing.first() {
            let told = known
                .get(name)
                .map_or("the brokers do not know it", |info| info.error.describe());
            return Err(LoadError::Unfit(format!(
                "topic {name} is to be an existing one, but cannot be used: {told}; list the topics there are with: \
                 plimsoll topics list --bootstrap-server {}",
                servers(&plan.target.admin.config)
            )));
        }
    } else {
        if let Some(name) = names.iter().find(|name| exists(name)) {
            return Err(LoadError::Unfit(format!(
                "topic {name} exists already, and a run neither alters nor deletes what it did not make; give --existing to \
                 use it as it is, or another --topic"
            )));
        }
        check_free_space(plan, admin, &mut prepared)?;
        create(plan, admin, &names)?;
        prepared.created = true;
    }
    match finish(plan, admin, &mut prepared, record_bytes) {
        Ok(()) => Ok(prepared),
        Err(error) => {
            let left = remove_topics(admin, &prepared, plan.keep);
            Err(with_leftovers(error, &left, plan))
        }
    }
}

fn finish(
    plan: &LoadPlan,
    admin: &mut Admin,
    prepared: &mut Prepared,
    record_bytes: usize,
) -> Result<(), LoadError> {
    if prepared.created {
        let wanted: Vec<(String, u32)> = prepared
            .names
            .iter()
            .map(|name| (name.clone(), plan.workload.partitions_per_topic))
            .collect();
        admin
            .await_leaders(&wanted, LEADERS_WITHIN)
            .map_err(|source| LoadError::Admin {
                doing: "waiting for the new topics' leaders",
                source,
            })?;
    }
    let infos = admin
        .topics(Some(&prepared.names))
        .map_err(|source| LoadError::Admin {
            doing: "asking for the topics' partitions",
            source,
        })?;
    for name in &prepared.names {
        let info: Option<&TopicInfo> = infos.get(name);
        prepared.ids.push(info.map_or(Uuid::ZERO, |info| info.topic_id));
        prepared
            .partitions
            .push(info.map_or(0, |info| info.partitions.len()));
        let replicas = info.and_then(|info| {
            info.partitions
                .iter()
                .map(|partition| partition.replicas.len())
                .min()
        });
        prepared
            .replication_factors
            .push(replicas.map(|count| count as u32));
    }
    let weights = &plan.workload.partition_weights;
    if let Some(place) = prepared
        .partitions
        .iter()
        .position(|&count| !weights.is_empty() && count != weights.len())
    {
        return Err(LoadError::Unfit(format!(
            "partitionWeights has {} weights, and topic {} has {} partitions; give one weight for each",
            weights.len(),
            prepared.names[place],
            prepared.partitions[place],
        )));
    }
    see_configs(admin, prepared);
    check_broker_limit(plan, prepared, record_bytes)
}

/// The configs that the brokers see; a principal that may not describe them goes on without.
fn see_configs(admin: &mut Admin, prepared: &mut Prepared) {
    let mut resources: Vec<ConfigResource> = prepared
        .names
        .iter()
        .cloned()
        .map(ConfigResource::Topic)
        .collect();
    resources.extend(
        prepared
            .cluster
            .brokers
            .iter()
            .map(|broker| ConfigResource::Broker(broker.id)),
    );
    let Ok(described) = admin.describe_configs(&resources) else {
        return;
    };
    for (resource, entries) in described {
        let Ok(entries) = entries else { continue };
        let keep = |name: &str, source: ConfigSource| match &resource {
            ConfigResource::Topic(_) => true,
            _ => {
                BROKER_CONFIGS.contains(&name)
                    || matches!(source, ConfigSource::Broker | ConfigSource::AllBrokers)
            }
        };
        let configs: BTreeMap<String, Setting> = entries
            .into_iter()
            .filter(|entry| !entry.is_sensitive && keep(&entry.name, entry.source))
            .filter_map(|entry| {
                let source = match entry.source {
                    ConfigSource::Topic => "topic",
                    ConfigSource::Broker => "broker, dynamic",
                    ConfigSource::AllBrokers => "all brokers, dynamic",
                    ConfigSource::BrokerFile => "broker's file",
                    ConfigSource::Default => "Kafka default",
                    ConfigSource::Other(_) => "other",
                };
                Some((
                    entry.name,
                    Setting {
                        value: entry.value?,
                        source: source.to_owned(),
                    },
                ))
            })
            .collect();
        match resource {
            ConfigResource::Topic(topic) => prepared
                .cluster
                .topic_configs
                .push(TopicConfigs { topic, configs }),
            ConfigResource::Broker(broker) => prepared
                .cluster
                .broker_configs
                .push(BrokerConfigs { broker, configs }),
            ConfigResource::AllBrokers => {}
        }
    }
}

fn check_broker_limit(
    plan: &LoadPlan,
    prepared: &mut Prepared,
    record_bytes: usize,
) -> Result<(), LoadError> {
    if !plan.workload.produces() {
        return Ok(());
    }
    for topic in &prepared.cluster.topic_configs {
        let Some(limit) = topic
            .configs
            .get("max.message.bytes")
            .and_then(|setting| setting.value.parse::<usize>().ok())
        else {
            continue;
        };
        if record_bytes > limit
            && plan.target.producer.config.compression == model::client_config::Compression::None
        {
            return Err(LoadError::Unfit(format!(
                "messageSize = {}: a record takes {record_bytes} bytes in a batch, and max.message.bytes = {limit} of topic {} \
                 does not let the brokers take it; make the record smaller, or give --topic-config max.message.bytes={record_bytes}",
                plan.workload.message_size.bytes(),
                topic.topic,
            )));
        }
        let batch = plan.target.producer.config.batch_size_bytes as usize;
        if batch > limit {
            prepared.warnings.push(Warning {
                code: "batch-size-above-broker-limit".to_owned(),
                text: format!(
                    "batch.size = {batch} is above max.message.bytes = {limit} of topic {}: full batches are refused, split and \
                     sent again",
                    topic.topic
                ),
            });
            break;
        }
    }
    Ok(())
}

/// How many payload bytes the run is going to write, once; `None` where that cannot be foretold.
fn planned_bytes(workload: &Workload) -> Option<f64> {
    let rate = match workload.producer_rate? {
        TargetRate::Fixed(rate) => Some(rate.per_second()),
        TargetRate::Max => None,
    };
    if rate.is_some_and(|rate| rate >= OMB_MAX_RATE_PER_SECOND) {
        return None;
    }
    let records = |length: &PhaseLength| match length {
        PhaseLength::Records(count) => Some(*count as f64),
        PhaseLength::Time(time) => Some(rate? * time.as_secs_f64()),
    };
    let all = records(&workload.test)? + workload.warm_up.as_ref().map_or(Some(0.0), records)?;
    Some(all * workload.message_size.bytes() as f64)
}

fn planned_time(workload: &Workload) -> Duration {
    let rate = match workload.producer_rate {
        Some(TargetRate::Fixed(rate)) => rate.per_second(),
        _ => 1000.0,
    };
    let time = |length: &PhaseLength| match length {
        PhaseLength::Time(time) => *time,
        PhaseLength::Records(count) => Duration::from_secs_f64((*count as f64 / rate).min(1e9)),
    };
    time(&workload.test) + workload.warm_up.as_ref().map_or(Duration::ZERO, time)
}

fn check_free_space(plan: &LoadPlan, admin: &mut Admin, prepared: &mut Prepared) -> Result<(), LoadError> {
    if plan.embedded || !plan.workload.produces() {
        return Ok(());
    }
    let brokers: Vec<i32> = prepared.cluster.brokers.iter().map(|broker| broker.id).collect();
    // No topic is asked for: only the volumes' sizes are wanted.
    let Ok(dirs) = admin.describe_log_dirs(&brokers, Some(&BTreeMap::new())) else {
        return Ok(());
    };
    let mut usable_bytes = 0.0;
    for dirs in dirs.values() {
        let Ok(dirs) = dirs else { return Ok(()) };
        for dir in dirs {
            let Some(usable) = dir.usable_bytes else {
                return Ok(());
            };
            usable_bytes += usable as f64;
        }
    }
    let Some(bytes) = planned_bytes(&plan.workload) else {
        prepared.warnings.push(Warning {
            code: "free-space-not-checked".to_owned(),
            text: format!(
                "the brokers have {:.1} GB free in all; how much this rate fills cannot be foretold",
                usable_bytes / 1e9
            ),
        });
        return Ok(());
    };
    let copies = plan.target.replication_factor.unwrap_or(1).max(1);
    let wanted = bytes * f64::from(copies);
    if wanted > FREE_SPACE_RATIO * usable_bytes {
        let told = format!(
            "the run would write {:.1} GB ({:.1} GB × replication factor {copies}), and the brokers have {:.1} GB free in all, of which a \
             run may take {:.0} %",
            wanted / 1e9,
            bytes / 1e9,
            usable_bytes / 1e9,
            FREE_SPACE_RATIO * 100.0,
        );
        if !plan.force {
            return Err(LoadError::Unfit(format!(
                "{told}; shorten it, lower the rate, or give --force"
            )));
        }
        prepared.warnings.push(Warning {
            code: "disks-may-fill".to_owned(),
            text: format!("{told}; --force was given"),
        });
    }
    Ok(())
}

fn create(plan: &LoadPlan, admin: &mut Admin, names: &[String]) -> Result<(), LoadError> {
    let mut configs: BTreeMap<String, String> = plan
        .target
        .topic_config
        .iter()
        .map(|value| (value.key.clone(), value.value.clone()))
        .collect();
    if !plan.keep {
        let retention = planned_time(&plan.workload) + RETENTION_BEYOND;
        configs
            .entry("retention.ms".to_owned())
            .or_insert_with(|| retention.as_millis().to_string());
    }
    let topics: Vec<NewTopic> = names
        .iter()
        .map(|name| NewTopic {
            name: name.clone(),
            layout: Layout::Counts {
                partitions: Some(plan.workload.partitions_per_topic),
                replication_factor: plan.target.replication_factor,
            },
            configs: configs.clone(),
        })
        .collect();
    let outcomes = admin
        .create_topics(&topics, false)
        .map_err(|source| LoadError::Admin {
            doing: "creating the topics",
            source,
        })?;
    let mut made = Prepared {
        created: true,
        ..Prepared::default()
    };
    let mut refusal = None;
    for (name, outcome) in names.iter().zip(outcomes) {
        match outcome {
            Ok(_) => made.names.push(name.clone()),
            Err(error) => refusal = refusal.or(Some(error)),
        }
    }
    match refusal {
        None => Ok(()),
        Some(refusal) => {
            let left = remove_topics(admin, &made, false);
            let brokers = admin
                .cluster()
                .map(|cluster| cluster.brokers.len())
                .unwrap_or_default();
            let factor = plan
                .target
                .replication_factor
                .map_or("the brokers' default".to_owned(), |factor| factor.to_string());
            Err(with_leftovers(
                LoadError::Unfit(format!(
                    "{refusal} (asked for: {} partitions, replication factor {factor}; brokers alive: {brokers})",
                    plan.workload.partitions_per_topic,
                )),
                &left,
                plan,
            ))
        }
    }
}

/// Removes the topics that the run made; gives back those that are left, with the reason.
pub fn remove_topics(admin: &mut Admin, prepared: &Prepared, keep: bool) -> Vec<(String, String)> {
    if keep || !prepared.created || prepared.names.is_empty() {
        return Vec::new();
    }
    let ours = (0..).zip(&prepared.names);
    let ours = ours.filter(|(number, _)| !prepared.made_anew.contains(number));
    let names: Vec<String> = ours.map(|(_, name)| name.clone()).collect();
    if names.is_empty() {
        return Vec::new();
    }
    match admin.delete_topics(&names) {
        Ok(outcomes) => {
            // Brokers forget them a moment after the controller has; who looks then should not find them.
            let _ = admin.await_deleted(&names, GONE_WITHIN);
            names
            .iter()
            .zip(outcomes)
            // One that the brokers do not know is gone, as after an answer that came too late.
            .filter_map(|(name, outcome)| {
                let refusal = outcome.err().filter(|refusal| refusal.error.0 != UNKNOWN_TOPIC_OR_PARTITION)?;
                Some((name.clone(), refusal.to_string()))
            })
            .collect()
        }
        Err(error) => names
            .iter()
            .map(|name| (name.clone(), error.to_string()))
            .collect(),
    }
}

/// The topic by which the two halves of a load compare their clocks.
pub fn meeting_topic(run_id: u64) -> String {
    format!("plimsoll-{}-clock", short_id(run_id))
}

/// Makes that topic, unless the other half has; says whether it was made.
pub fn make_meeting_topic(plan: &LoadPlan, admin: &mut Admin, name: &str) -> Result<bool, String> {
    let retention = RETENTION_BEYOND.as_millis().to_string();
    let topic = NewTopic {
        name: name.to_owned(),
        layout: Layout::Counts {
            partitions: Some(1),
            replication_factor: plan.target.replication_factor,
        },
        configs: BTreeMap::from([("retention.ms".to_owned(), retention)]),
    };
    let outcomes = admin
        .create_topics(&[topic], false)
        .map_err(|error| error.to_string())?;
    match outcomes.into_iter().next() {
        Some(Err(refusal)) if refusal.error.0 == TOPIC_ALREADY_EXISTS => Ok(false),
        Some(Err(refusal)) => Err(refusal.to_string()),
        Some(Ok(_)) | None => Ok(true),
    }
}

/// Removes it, where this run made it; gives back the topic and the reason if it is left.
pub fn remove_meeting_topic(admin: &mut Admin, topic: Option<&str>) -> Option<(String, String)> {
    let name = topic?.to_owned();
    let why = match admin.delete_topics(std::slice::from_ref(&name)) {
        Ok(outcomes) => outcomes
            .into_iter()
            .find_map(Result::err)
            .filter(|refusal| refusal.error.0 != UNKNOWN_TOPIC_OR_PARTITION)?
            .to_string(),
        Err(error) => error.to_string(),
    };
    Some((name, why))
}

/// Removes the groups that the run made; gives back those that are left, with the reason.
pub fn remove_groups(admin: &mut Admin, groups: &[String]) -> Vec<(String, String)> {
    if groups.is_empty() {
        return Vec::new();
    }
    let refused = |outcomes: Vec<Result<(), client::rights::Refusal>>| {
        groups
            .iter()
            .zip(outcomes)
            // A group that never committed is gone with its last member.
            .filter_map(|(name, outcome)| Some((name.clone(), outcome.err().filter(|error| error.error.0 != GROUP_ID_NOT_FOUND)?.to_string())))
            .collect::<Vec<_>>()
    };
    match admin.delete_groups(groups) {
        Ok(outcomes) => refused(outcomes),
        Err(error) => groups
            .iter()
            .map(|name| (name.clone(), error.to_string()))
            .collect(),
    }
}

/// An error that also tells what could not be removed.
pub fn with_leftovers(error: LoadError, left: &[(String, String)], plan: &LoadPlan) -> LoadError {
    let Some((name, why)) = left.first() else {
        return error;
    };
    let names: Vec<&str> = left.iter().map(|(name, _)| name.as_str()).collect();
    LoadError::Unfit(format!(
        "{error}; topic {name} could not be removed again ({why}); remove with: plimsoll topics delete --bootstrap-server {} {}",
        servers(&plan.target.admin.config),
        names.join(" ")
    ))
}

/// The bootstrap servers as an option takes them.
pub fn servers(config: &model::client_config::AdminConfig) -> String {
    config
        .connection
        .bootstrap_servers
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(",")
}
