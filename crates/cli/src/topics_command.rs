//! `plimsoll topics`: the chores around topics, for clusters where Kafka's own tools are not at hand.

use crate::arguments::{ClusterArguments, TopicsCommand};
use crate::console::Console;
use crate::exit_status::ExitStatus;
use crate::failure::{Failure, with_causes};
use crate::plan::{Disk, text_of};
use crate::table::aligned;
use client::admin::{Admin, AdminError, ConfigEntry, ConfigResource, ConfigSource, Layout, NewTopic};
use client::clock::RunClock;
use client::cluster::{PartitionInfo, TopicInfo};
use model::client_config::{AdminConfig, ClientProperties};
use model::fault::{Fault, FaultKind, Faults};
use model::source::Source;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;
use wire::ErrorCode;

/// How long a cluster may take to be reached, and new topics to get their leaders.
const WITHIN: Duration = Duration::from_secs(30);

/// Does what was asked for.
///
/// # Errors
/// When the cluster cannot be reached or refuses.
pub fn run(command: &TopicsCommand) -> Result<ExitStatus, Failure> {
    match command {
        TopicsCommand::List { cluster, json } => list(&mut connect(cluster)?, *json),
        TopicsCommand::Describe { names, cluster, json } => describe(&mut connect(cluster)?, names, *json),
        TopicsCommand::Create {
            name,
            cluster,
            partitions,
            replication_factor,
            config,
            if_not_exists,
        } => {
            let layout = Layout::Counts {
                partitions: *partitions,
                replication_factor: *replication_factor,
            };
            let topic = NewTopic {
                name: name.clone(),
                layout,
                configs: config.iter().cloned().collect(),
            };
            create(&mut connect(cluster)?, topic, *if_not_exists)
        }
        TopicsCommand::Alter {
            name,
            cluster,
            partitions,
            config,
            delete_config,
        } => {
            let set = config
                .iter()
                .map(|(name, value)| (name.clone(), Some(value.clone())));
            let taken_back = delete_config.iter().map(|name| (name.clone(), None));
            let configs: BTreeMap<_, _> = set.chain(taken_back).collect();
            if partitions.is_none() && configs.is_empty() {
                let nothing = "nothing to alter: give --partitions, --config or --delete-config";
                return Err(Failure::usage(nothing));
            }
            alter(&mut connect(cluster)?, name, *partitions, &configs)
        }
        TopicsCommand::Delete {
            names,
            cluster,
            if_exists,
        } => delete(&mut connect(cluster)?, names, *if_exists),
    }
}

fn connect(cluster: &ClusterArguments) -> Result<Admin, Failure> {
    let console = Console::new(false);
    let config = admin_config(cluster, &console)?;
    let admin =
        Admin::connect(&config, RunClock::start(), WITHIN).map_err(|error| Failure::of_error(&error))?;
    admin.warnings().iter().for_each(|warning| console.warn(warning));
    Ok(admin)
}

fn admin_config(cluster: &ClusterArguments, console: &Console) -> Result<AdminConfig, Failure> {
    let mut properties = ClientProperties::default();
    let mut faults: Vec<Fault> = Vec::new();
    if let Some(path) = &cluster.command_config {
        match text_of(&Disk, path) {
            Ok(text) => {
                let read = properties.read_file(&path.display().to_string(), &text);
                faults.extend(read.err().into_iter().flatten());
            }
            Err(problem) => faults.push(Fault {
                kind: FaultKind::Missing,
                source: Some(Source::flag("--command-config")),
                key: None,
                value: None,
                problem: format!("{}: {problem}", path.display()),
            }),
        }
    }
    for property in &cluster.property {
        faults.extend(properties.assign(property, "-X").err().into_iter().flatten());
    }
    if let Some(servers) = &cluster.bootstrap_server {
        properties.set_shared("bootstrap.servers", servers, Source::flag("--bootstrap-server"));
    }
    if faults.is_empty() && properties.get("bootstrap.servers").is_none() {
        return Err(Failure::usage(
            "no cluster is named; give --bootstrap-server HOST:PORT",
        ));
    }
    properties.set_default("client.id", "plimsoll", Source::Default);
    let resolved = match (properties.admin(), Faults::check(faults, ())) {
        (Ok(resolved), Ok(())) => resolved,
        (Ok(_), Err(own)) => return Err(own.into()),
        (Err(faults), Ok(())) => return Err(faults.into()),
        (Err(faults), Err(own)) => return Err(own.and(faults).in_order().into()),
    };
    resolved
        .notices
        .iter()
        .for_each(|notice| console.warn(&notice.to_string()));
    for property in &resolved.not_honoured {
        console.warn(&format!(
            "{} = {} has no effect: {}",
            property.name, property.value, property.why
        ));
    }
    Ok(resolved.config)
}

fn list(admin: &mut Admin, as_json: bool) -> Result<ExitStatus, Failure> {
    let topics = admin
        .topics(None)
        .map_err(|error| asked_in_vain("the topics cannot be listed", &error))?;
    if as_json {
        let topics: Vec<Value> = topics
            .iter()
            .map(|(name, info)| {
                json!({
                    "name": name,
                    "partitions_count": info.partitions.len(),
                    "replication_factor_count": replication_factor(info),
                    "internal": info.is_internal,
                })
            })
            .collect();
        return crate::print(&pretty(&topics.into()));
    }
    let mut rows = vec![["TOPIC", "PARTITIONS", "REPLICATION"].map(str::to_owned).to_vec()];
    rows.extend(topics.iter().map(|(name, info)| {
        let factor = replication_factor(info).map_or("–".to_owned(), |factor| factor.to_string());
        vec![name.clone(), info.partitions.len().to_string(), factor]
    }));
    crate::print(&aligned(&rows))
}

/// The copies of each partition; the fewest, where partitions differ.
fn replication_factor(info: &TopicInfo) -> Option<usize> {
    info.partitions
        .iter()
        .map(|partition| partition.replicas.len())
        .min()
}

/// A topic as it is described.
struct Described<'a> {
    name: &'a str,
    info: &'a TopicInfo,
    /// Absent where the principal may not see them.
    configs: Option<&'a [ConfigEntry]>,
}

fn describe(admin: &mut Admin, names: &[String], as_json: bool) -> Result<ExitStatus, Failure> {
    let wanted = (!names.is_empty()).then_some(names);
    let topics = admin
        .topics(wanted)
        .map_err(|error| asked_in_vain("the topics cannot be described", &error))?;
    let (known, unknown): (Vec<_>, Vec<_>) = topics.iter().partition(|(_, info)| !info.error.is_error());
    let resources: Vec<ConfigResource> = known
        .iter()
        .map(|(name, _)| ConfigResource::Topic((*name).clone()))
        .collect();
    let configs = if resources.is_empty() {
        Ok(BTreeMap::new())
    } else {
        admin.describe_configs(&resources)
    };
    let configs =
        configs.map_err(|error| asked_in_vain("the topics' configs cannot be described", &error))?;
    let described: Vec<Described<'_>> = known
        .iter()
        .map(|(name, info)| {
            let configs = configs.get(&ConfigResource::Topic((*name).clone()));
            Described {
                name,
                info,
                configs: configs.and_then(|configs| configs.as_deref().ok()),
            }
        })
        .collect();
    let text = match as_json {
        true => pretty(&described.iter().map(as_value).collect()),
        false => described.iter().map(as_text).collect::<Vec<_>>().join("\n"),
    };
    crate::print(&text)?;
    let missing = |(name, info): (&String, &TopicInfo)| match info.error {
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => format!("topic {name} does not exist"),
        error => format!("topic {name} cannot be described: {error}: {}", error.describe()),
    };
    let messages: Vec<String> = unknown.into_iter().map(missing).collect();
    if messages.is_empty() {
        Ok(ExitStatus::Done)
    } else {
        Err(Failure {
            status: ExitStatus::Failed,
            messages,
        })
    }
}

fn as_text(topic: &Described<'_>) -> String {
    let Described { name, info, configs } = topic;
    let factor = replication_factor(info).map_or("–".to_owned(), |factor| factor.to_string());
    let mut text = String::new();
    writeln!(
        text,
        "{name}: {} partitions, replication factor {factor}",
        info.partitions.len()
    )
    .unwrap_or_default();
    let set: Vec<String> = configs
        .unwrap_or_default()
        .iter()
        .filter(|entry| entry.source == ConfigSource::Topic)
        .map(|entry| format!("{}={}", entry.name, entry.value.as_deref().unwrap_or("[hidden]")))
        .collect();
    match configs {
        None => text.push_str("  configs may not be seen (needed: DescribeConfigs on the topic)\n"),
        Some(_) if set.is_empty() => text.push_str("  no configs of its own\n"),
        Some(_) => set
            .iter()
            .for_each(|config| writeln!(text, "  {config}").unwrap_or_default()),
    }
    let mut rows = vec![
        ["  PARTITION", "LEADER", "REPLICAS", "IN SYNC"]
            .map(str::to_owned)
            .to_vec(),
    ];
    rows.extend(info.partitions.iter().map(|partition| {
        let leader = partition
            .leader
            .map_or("none".to_owned(), |leader| leader.to_string());
        let behind = if partition.isr.len() < partition.replicas.len() {
            " (too few)"
        } else {
            ""
        };
        vec![
            format!("  {}", partition.index),
            leader,
            ids(&partition.replicas),
            format!("{}{behind}", ids(&partition.isr)),
        ]
    }));
    text + &aligned(&rows)
}

fn ids(brokers: &[i32]) -> String {
    brokers
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(",")
}

fn as_value(topic: &Described<'_>) -> Value {
    let partition = |partition: &PartitionInfo| {
        json!({
            "partition": partition.index,
            "leader": partition.leader,
            "replicas": partition.replicas,
            "in_sync_replicas": partition.isr,
        })
    };
    let mut value = Map::new();
    value.insert("name".to_owned(), topic.name.into());
    value.insert("internal".to_owned(), topic.info.is_internal.into());
    value.insert(
        "partitions".to_owned(),
        topic.info.partitions.iter().map(partition).collect(),
    );
    if let Some(configs) = topic.configs {
        let configs = configs.iter().map(|entry| {
            let config = json!({ "value": entry.value, "source": source_word(entry.source) });
            (entry.name.clone(), config)
        });
        value.insert("configs".to_owned(), Value::Object(configs.collect()));
    }
    Value::Object(value)
}

fn source_word(source: ConfigSource) -> String {
    match source {
        ConfigSource::Topic => "topic".to_owned(),
        ConfigSource::Broker => "broker, dynamic".to_owned(),
        ConfigSource::AllBrokers => "all brokers, dynamic".to_owned(),
        ConfigSource::BrokerFile => "broker's file".to_owned(),
        ConfigSource::Default => "Kafka default".to_owned(),
        ConfigSource::Other(number) => format!("source {number}"),
    }
}

fn create(admin: &mut Admin, topic: NewTopic, if_not_exists: bool) -> Result<ExitStatus, Failure> {
    let name = topic.name.clone();
    let failed = format!("topic {name} cannot be created");
    let outcomes = admin
        .create_topics(&[topic], false)
        .map_err(|error| asked_in_vain(&failed, &error))?;
    match outcomes.into_iter().next() {
        Some(Err(refusal)) if refusal.error == ErrorCode::TOPIC_ALREADY_EXISTS && if_not_exists => {
            return crate::print(&format!("topic {name} exists already\n"));
        }
        Some(Err(refusal)) => return Err(Failure::failed(format!("topic {refusal}"))),
        Some(Ok(_)) | None => {}
    }
    let unready = |error| asked_in_vain(&format!("topic {name} was created, but is not ready"), &error);
    // One partition at least: how many there are by default is the cluster's to know.
    admin
        .await_leaders(&[(name.clone(), 1)], WITHIN)
        .map_err(unready)?;
    crate::print(&format!("created topic {name}\n"))
}

fn alter(
    admin: &mut Admin,
    name: &str,
    partitions: Option<u32>,
    configs: &BTreeMap<String, Option<String>>,
) -> Result<ExitStatus, Failure> {
    let failed = format!("topic {name} cannot be altered");
    if let Some(partitions) = partitions {
        admin
            .create_partitions(name, partitions)
            .map_err(|error| asked_in_vain(&failed, &error))?;
    }
    if !configs.is_empty() {
        let resource = ConfigResource::Topic(name.to_owned());
        admin
            .alter_configs(&resource, configs)
            .map_err(|error| asked_in_vain(&failed, &error))?;
    }
    crate::print(&format!("altered topic {name}\n"))
}

fn delete(admin: &mut Admin, names: &[String], if_exists: bool) -> Result<ExitStatus, Failure> {
    let outcomes = admin
        .delete_topics(names)
        .map_err(|error| asked_in_vain("the topics cannot be deleted", &error))?;
    let mut text = String::new();
    let mut deleted = Vec::new();
    let mut messages = Vec::new();
    for (name, outcome) in names.iter().zip(outcomes) {
        match outcome {
            Ok(()) => {
                deleted.push(name.clone());
                writeln!(text, "deleted topic {name}").unwrap_or_default();
            }
            Err(refusal) if refusal.error == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION && if_exists => {
                writeln!(text, "topic {name} does not exist").unwrap_or_default();
            }
            Err(refusal) if refusal.error == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => {
                messages.push(format!("topic {name} does not exist, or may not be seen"));
            }
            Err(refusal) => messages.push(format!("topic {refusal}")),
        }
    }
    if !deleted.is_empty() {
        let awaited = admin.await_deleted(&deleted, WITHIN);
        awaited.map_err(|error| asked_in_vain("the topics were marked for deletion", &error))?;
    }
    crate::print(&text)?;
    if messages.is_empty() {
        Ok(ExitStatus::Done)
    } else {
        Err(Failure {
            status: ExitStatus::Failed,
            messages,
        })
    }
}

fn asked_in_vain(what: &str, error: &AdminError) -> Failure {
    Failure::failed(format!("{what}: {}", with_causes(error)))
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}
