//! OffsetDelete (47), version 0: forgets offsets of topics that a group no longer reads. Nothing left out.

use super::Context;
use crate::cluster::Cluster;
use std::collections::BTreeSet;
use wire::ErrorCode;
use wire::consumer_protocol::{ConsumerProtocolSubscription, PROTOCOL_TYPE, decode};
use wire::messages::offset_delete::{
    OffsetDeleteRequest, OffsetDeleteResponse, OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};

pub(super) fn serve(
    cluster: &mut Cluster,
    context: &Context<'_>,
    request: OffsetDeleteRequest,
) -> OffsetDeleteResponse {
    let subscribed = match subscriptions(cluster, context.broker, &request.group_id) {
        Ok(subscribed) => subscribed,
        Err(error_code) => {
            return OffsetDeleteResponse {
                error_code,
                ..OffsetDeleteResponse::default()
            };
        }
    };
    let topics = request.topics.into_iter().map(|topic| {
        let is_read = subscribed.contains(&topic.name);
        let partitions = topic.partitions.into_iter().map(|partition| {
            let partition_index = partition.partition_index;
            let is_known = cluster
                .topic(&topic.name)
                .is_some_and(|topic| topic.partition(partition_index).is_some());
            let error_code = match (is_read, is_known) {
                (true, _) => ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC,
                (false, false) => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
                (false, true) => {
                    cluster.with_group(context.now, &request.group_id, |group, _, _| {
                        group.offsets_mut().remove(&(topic.name.clone(), partition_index));
                    });
                    ErrorCode::NONE
                }
            };
            OffsetDeleteResponsePartition {
                partition_index,
                error_code,
            }
        });
        OffsetDeleteResponseTopic {
            partitions: partitions.collect(),
            name: topic.name,
        }
    });
    OffsetDeleteResponse {
        topics: topics.collect(),
        ..OffsetDeleteResponse::default()
    }
}

/// The topics that the group's members read, if they can be told.
fn subscriptions(cluster: &Cluster, broker: i32, group_id: &str) -> Result<BTreeSet<String>, ErrorCode> {
    cluster.check_coordinator(group_id, broker)?;
    let group = cluster.group(group_id).ok_or(ErrorCode::GROUP_ID_NOT_FOUND)?;
    if let Some(consumer) = group.consumer() {
        let read = cluster.topics().filter(|topic| consumer.is_read(&topic.name));
        return Ok(read.map(|topic| topic.name.clone()).collect());
    }
    if group.members().is_empty() {
        return Ok(BTreeSet::new());
    }
    if group.protocol_type() != Some(PROTOCOL_TYPE) {
        return Err(ErrorCode::NON_EMPTY_GROUP);
    }
    group
        .subscribed_topics(|metadata| Some(decode::<ConsumerProtocolSubscription>(metadata).ok()?.topics))
        .ok_or(ErrorCode::NON_EMPTY_GROUP)
}
