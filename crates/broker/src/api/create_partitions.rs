//! CreatePartitions (37), versions 0 to 3: more partitions for a topic, placed by us or by hand. They are taken from
//! `controller_mutation_rate`; from version 3 on a topic is refused that comes when it is used up. Nothing left out.

use super::create_topics::{Refusal, check_by_hand, check_partitions};
use super::{Context, book_mutations, create_topics};
use crate::cluster::{Cluster, TopicKey};
use wire::ErrorCode;
use wire::messages::create_partitions::{
    CreatePartitionsRequest, CreatePartitionsResponse, CreatePartitionsTopic, CreatePartitionsTopicResult,
};

/// From this version on clients know what it is to be refused for a quota (KIP-599).
const STRICT_FROM: i16 = 3;

pub(super) fn serve(
    cluster: &mut Cluster,
    context: &Context<'_>,
    request: CreatePartitionsRequest,
) -> CreatePartitionsResponse {
    let mut throttle_time_ms = 0;
    let results = request.topics.into_iter().map(|topic| {
        let planned = plan(cluster, &topic).and_then(|(key, placement)| {
            book_mutations(
                cluster,
                context,
                placement.len(),
                STRICT_FROM,
                &mut throttle_time_ms,
            )?;
            Ok((key, placement))
        });
        let (error_code, error_message) = match planned {
            Ok((key, placement)) => {
                if !request.validate_only {
                    cluster.add_partitions(context.now, key, &placement);
                }
                (ErrorCode::NONE, None)
            }
            Err((error, text)) => (error, Some(text)),
        };
        CreatePartitionsTopicResult {
            name: topic.name,
            error_code,
            error_message,
        }
    });
    let results = results.collect();
    CreatePartitionsResponse {
        results,
        throttle_time_ms,
    }
}

fn plan(cluster: &mut Cluster, wanted: &CreatePartitionsTopic) -> Result<(TopicKey, Vec<Vec<i32>>), Refusal> {
    create_topics::check_name(&wanted.name)?;
    let key = cluster.topic_key(&wanted.name);
    let Some((key, topic)) = key.and_then(|key| Some((key, cluster.topic_at(key)?))) else {
        let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
        return Err((unknown, unknown.describe().to_owned()));
    };
    let there = topic.partitions.len();
    let factor = topic
        .partitions
        .first()
        .map_or(1, |partition| partition.replicas().count());
    check_partitions(wanted.count)?;
    let Some(more) = (wanted.count as usize)
        .checked_sub(there)
        .filter(|more| *more > 0)
    else {
        let text = if wanted.count as usize == there {
            format!("Topic already has {there} partition(s).")
        } else {
            format!(
                "The topic {} currently has {there} partition(s); {} would not be an increase.",
                wanted.name, wanted.count
            )
        };
        return Err((ErrorCode::INVALID_PARTITIONS, text));
    };
    let Some(by_hand) = &wanted.assignments else {
        return Ok((key, cluster.place(there, more, factor)));
    };
    if by_hand.len() != more {
        return Err((
            ErrorCode::INVALID_REPLICA_ASSIGNMENT,
            format!(
                "Attempted to add {more} additional partition(s), but only {} assignment(s) were specified.",
                by_hand.len()
            ),
        ));
    }
    let placement: Vec<Vec<i32>> = by_hand
        .iter()
        .map(|assignment| assignment.broker_ids.clone())
        .collect();
    check_by_hand(cluster, &placement, factor)?;
    Ok((key, placement))
}
