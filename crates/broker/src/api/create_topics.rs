//! CreateTopics (19), versions 2 to 7: by count and factor or by assignment, with configs, validate-only.
//! Partitions are taken from `controller_mutation_rate`, also where they are only validated, as in Kafka; from version 6 on a
//! topic is refused that comes when it is used up. Nothing left out.

use super::describe_configs::sources_of;
use super::{Context, book_mutations};
use crate::cluster::{Cluster, Topic};
use crate::settings::{Overrides, TOPIC_CONFIGS, check_topic_configs};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use wire::ErrorCode;
use wire::messages::create_topics::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfigs, CreatableTopicResult,
    CreateTopicsRequest, CreateTopicsResponse,
};

/// The longest name that a topic may have.
const LONGEST_NAME: usize = 249;

/// More partitions than that in one topic are taken for a mistake: each takes memory.
const MOST_PARTITIONS: i32 = 200_000;

/// From this version on clients know what it is to be refused for a quota (KIP-599).
const STRICT_FROM: i16 = 6;

/// Why something cannot be, in a code and in a sentence.
pub(super) type Refusal = (ErrorCode, String);

pub(super) fn serve(
    cluster: &mut Cluster,
    context: &Context<'_>,
    request: CreateTopicsRequest,
) -> CreateTopicsResponse {
    let mut times: HashMap<&str, usize> = HashMap::new();
    for topic in &request.topics {
        *times.entry(&topic.name).or_default() += 1;
    }
    let twice: BTreeSet<String> = times
        .into_iter()
        .filter(|(_, count)| *count > 1)
        .map(|(name, _)| name.to_owned())
        .collect();
    let mut topics: Vec<CreatableTopicResult> = twice
        .iter()
        .map(|name| {
            refused(
                name,
                (ErrorCode::INVALID_REQUEST, "Duplicate topic name.".to_owned()),
            )
        })
        .collect();
    let mut throttle_time_ms = 0;
    for topic in request.topics.iter().filter(|topic| !twice.contains(&topic.name)) {
        let planned = plan(cluster, topic).and_then(|planned| {
            let partitions = planned.placement.len();
            book_mutations(cluster, context, partitions, STRICT_FROM, &mut throttle_time_ms)?;
            Ok(planned)
        });
        topics.push(match planned {
            Ok(planned) if request.validate_only => planned.result(cluster, &topic.name, None),
            Ok(planned) => {
                let id = cluster.create_topic(
                    context.now,
                    &topic.name,
                    &planned.placement,
                    planned.configs.clone(),
                );
                planned.result(cluster, &topic.name, Some(id))
            }
            Err(refusal) => refused(&topic.name, refusal),
        });
    }
    CreateTopicsResponse {
        topics,
        throttle_time_ms,
    }
}

/// Creates a topic as `num.partitions` and `default.replication.factor` say.
pub(super) fn create_by_default(cluster: &mut Cluster, now: u64, name: &str) -> Result<(), Refusal> {
    let wanted = CreatableTopic {
        name: name.to_owned(),
        num_partitions: -1,
        replication_factor: -1,
        ..CreatableTopic::default()
    };
    let planned = plan(cluster, &wanted)?;
    cluster.create_topic(now, name, &planned.placement, planned.configs);
    Ok(())
}

struct Planned {
    placement: Vec<Vec<i32>>,
    configs: Overrides,
}

impl Planned {
    fn result(&self, cluster: &Cluster, name: &str, id: Option<wire::Uuid>) -> CreatableTopicResult {
        let configs = TOPIC_CONFIGS.iter().map(|definition| {
            let (source, value) = sources_of(definition, &self.configs, &cluster.overrides)[0];
            CreatableTopicConfigs {
                name: definition.name.to_owned(),
                value: Some(value.to_owned()),
                config_source: source as i8,
                ..CreatableTopicConfigs::default()
            }
        });
        CreatableTopicResult {
            name: name.to_owned(),
            topic_id: id.unwrap_or_default(),
            num_partitions: self.placement.len() as i32,
            replication_factor: self.placement.first().map_or(0, Vec::len) as i16,
            configs: Some(configs.collect()),
            ..CreatableTopicResult::default()
        }
    }
}

fn plan(cluster: &mut Cluster, topic: &CreatableTopic) -> Result<Planned, Refusal> {
    check_name(&topic.name)?;
    if cluster.topic(&topic.name).is_some() {
        return Err((
            ErrorCode::TOPIC_ALREADY_EXISTS,
            format!("Topic '{}' already exists.", topic.name),
        ));
    }
    if let Some(other) = colliding(cluster, &topic.name) {
        return Err((
            ErrorCode::INVALID_TOPIC_EXCEPTION,
            format!("Topic '{}' collides with existing topic: {other}", topic.name),
        ));
    }
    let mut configs = Overrides::new();
    for config in &topic.configs {
        let Some(value) = &config.value else {
            return Err((
                ErrorCode::INVALID_CONFIG,
                format!("Null value not supported for topic configs: {}", config.name),
            ));
        };
        configs.insert(config.name.clone(), value.clone());
    }
    check_topic_configs(&configs).map_err(|text| (ErrorCode::INVALID_CONFIG, text))?;
    let placement = if topic.assignments.is_empty() {
        let partitions = match topic.num_partitions {
            -1 => cluster.settings.default_partitions,
            count => count,
        };
        let factor = match topic.replication_factor {
            -1 => cluster.settings.default_replication_factor,
            factor => factor,
        };
        check_partitions(partitions)?;
        check_factor(cluster, factor)?;
        cluster.place(0, partitions as usize, factor as usize)
    } else if topic.num_partitions != -1 || topic.replication_factor != -1 {
        return Err((
            ErrorCode::INVALID_REQUEST,
            "Partitions and replication factor must be -1 where replicas are assigned by hand.".to_owned(),
        ));
    } else {
        by_hand(cluster, &topic.assignments)?
    };
    Ok(Planned { placement, configs })
}

/// Holds a topic's name against Kafka's rules.
pub(super) fn check_name(name: &str) -> Result<(), Refusal> {
    let reason = if name.is_empty() {
        "the empty string is not allowed".to_owned()
    } else if matches!(name, "." | "..") {
        format!("'{name}' is not allowed")
    } else if name.len() > LONGEST_NAME {
        format!("the length of '{name}' is longer than the max allowed length {LONGEST_NAME}")
    } else if name
        .bytes()
        .any(|byte| !(byte.is_ascii_alphanumeric() || b"._-".contains(&byte)))
    {
        format!("'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'")
    } else {
        return Ok(());
    };
    Err((
        ErrorCode::INVALID_TOPIC_EXCEPTION,
        format!("Topic name is invalid: {reason}"),
    ))
}

/// A topic whose name would be the same in metrics, where a dot becomes an underscore.
fn colliding<'a>(cluster: &'a Cluster, name: &str) -> Option<&'a str> {
    if !name.contains(['.', '_']) {
        return None;
    }
    let plain = |name: &str| {
        name.bytes()
            .map(|byte| if byte == b'.' { b'_' } else { byte })
            .collect::<Vec<u8>>()
    };
    let wanted = plain(name);
    let collides = |topic: &&Topic| topic.name.len() == wanted.len() && plain(&topic.name) == wanted;
    cluster.topics().find(collides).map(|topic| topic.name.as_str())
}

pub(super) fn check_partitions(partitions: i32) -> Result<(), Refusal> {
    match partitions {
        ..=0 => Err((
            ErrorCode::INVALID_PARTITIONS,
            "Number of partitions must be larger than 0.".to_owned(),
        )),
        1..=MOST_PARTITIONS => Ok(()),
        _ => Err((
            ErrorCode::INVALID_PARTITIONS,
            format!("Number of partitions must not be larger than {MOST_PARTITIONS}; it is {partitions}."),
        )),
    }
}

fn check_factor(cluster: &Cluster, factor: i16) -> Result<(), Refusal> {
    let brokers = cluster.nodes.all().len();
    let text = if factor <= 0 {
        "Replication factor must be larger than 0.".to_owned()
    } else if factor as usize > brokers {
        format!(
            "Unable to replicate the partition {factor} time(s): The target replication factor of {factor} cannot be \
             reached because only {brokers} broker(s) are registered."
        )
    } else {
        return Ok(());
    };
    Err((ErrorCode::INVALID_REPLICATION_FACTOR, text))
}

fn by_hand(cluster: &Cluster, assignments: &[CreatableReplicaAssignment]) -> Result<Vec<Vec<i32>>, Refusal> {
    let by_index: BTreeMap<i32, &Vec<i32>> = assignments
        .iter()
        .map(|assignment| (assignment.partition_index, &assignment.broker_ids))
        .collect();
    let is_dense =
        by_index.len() == assignments.len() && by_index.keys().copied().eq(0..assignments.len() as i32);
    if !is_dense {
        return Err((
            ErrorCode::INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence".to_owned(),
        ));
    }
    let placement: Vec<Vec<i32>> = by_index.into_values().cloned().collect();
    check_by_hand(cluster, &placement, placement[0].len())?;
    Ok(placement)
}

/// Holds replicas that somebody chose against the brokers there are and the factor there is to be.
pub(super) fn check_by_hand(cluster: &Cluster, placement: &[Vec<i32>], factor: usize) -> Result<(), Refusal> {
    let wrong = |text: String| Err((ErrorCode::INVALID_REPLICA_ASSIGNMENT, text));
    for (index, replicas) in placement.iter().enumerate() {
        if replicas.is_empty() {
            return wrong(format!(
                "The manual partition assignment includes an empty replica list for partition {index}."
            ));
        }
        if replicas.len() != factor {
            return wrong(format!(
                "The manual partition assignment includes a partition with {} replica(s), but this is not consistent \
                 with previous partitions, which have {factor} replica(s).",
                replicas.len()
            ));
        }
        if replicas.iter().collect::<BTreeSet<_>>().len() != replicas.len() {
            return wrong(format!(
                "The manual partition assignment includes a broker twice for partition {index}."
            ));
        }
        if let Some(unknown) = replicas.iter().find(|id| cluster.nodes.get(**id).is_none()) {
            return wrong(format!(
                "The manual partition assignment includes broker {unknown}, but no such broker is registered."
            ));
        }
    }
    Ok(())
}

fn refused(name: &str, (error_code, text): Refusal) -> CreatableTopicResult {
    CreatableTopicResult {
        name: name.to_owned(),
        error_code,
        error_message: Some(text),
        configs: Some(Vec::new()),
        topic_config_error_code: ErrorCode::NONE,
        ..CreatableTopicResult::default()
    }
}
