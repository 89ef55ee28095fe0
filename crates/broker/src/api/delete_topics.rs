//! DeleteTopics (20), versions 1 to 6: by name and, from version 6 on, by id. A topic's partitions are taken from
//! `controller_mutation_rate`; from version 5 on one is refused that comes when it is used up. Nothing left out.

use super::{Context, book_mutations};
use crate::cluster::Cluster;
use wire::ErrorCode;
use wire::messages::delete_topics::{
    DeletableTopicResult, DeleteTopicState, DeleteTopicsRequest, DeleteTopicsResponse,
};

/// From this version on clients know what it is to be refused for a quota (KIP-599).
const STRICT_FROM: i16 = 5;

pub(super) fn serve(
    cluster: &mut Cluster,
    context: &Context<'_>,
    request: DeleteTopicsRequest,
) -> DeleteTopicsResponse {
    let by_name = request.topic_names.into_iter().map(|name| DeleteTopicState {
        name: Some(name),
        ..DeleteTopicState::default()
    });
    let wanted: Vec<DeleteTopicState> = request.topics.into_iter().chain(by_name).collect();
    let mut throttle_time_ms = 0;
    let responses = wanted
        .into_iter()
        .map(|topic| delete(cluster, context, topic, &mut throttle_time_ms));
    let responses = responses.collect();
    DeleteTopicsResponse {
        responses,
        throttle_time_ms,
    }
}

fn delete(
    cluster: &mut Cluster,
    context: &Context<'_>,
    wanted: DeleteTopicState,
    throttle_time_ms: &mut i32,
) -> DeletableTopicResult {
    let (key, unknown) = match &wanted.name {
        Some(_) if !wanted.topic_id.is_zero() => (None, ErrorCode::INVALID_REQUEST),
        Some(name) => (cluster.topic_key(name), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        None => (
            cluster.topic_key_by_id(wanted.topic_id),
            ErrorCode::UNKNOWN_TOPIC_ID,
        ),
    };
    let mut result = DeletableTopicResult {
        name: wanted.name,
        topic_id: wanted.topic_id,
        ..DeletableTopicResult::default()
    };
    let Some(topic) = key.and_then(|key| cluster.topic_at(key)) else {
        result.error_code = unknown;
        result.error_message = Some(unknown.describe().to_owned());
        return result;
    };
    (result.name, result.topic_id) = (Some(topic.name.clone()), topic.id);
    if !cluster.settings.deletes_topics {
        result.error_code = ErrorCode::TOPIC_DELETION_DISABLED;
        return result;
    }
    let partitions = topic.partitions.len();
    if let Err((error, text)) = book_mutations(cluster, context, partitions, STRICT_FROM, throttle_time_ms) {
        (result.error_code, result.error_message) = (error, Some(text));
        return result;
    }
    if let Some(key) = key {
        cluster.delete_topic(context.now, key);
    }
    result
}
