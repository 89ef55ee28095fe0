//! ConsumerGroupHeartbeat (68), versions 0 to 1: joins, stays in and leaves a group of the new protocol (KIP-848).
//!
//! The rules are in [`crate::consumer_group`]. Left out: groups whose members are of both protocols; a classic group has to
//! be empty before it becomes one of these.

use super::Context;
use crate::cluster::Cluster;
use crate::consumer_group::{Beat, Heartbeat, Place, Refused};
use std::collections::{BTreeMap, BTreeSet};
use wire::ErrorCode;
use wire::messages::consumer_group_heartbeat::{
    Assignment, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, TopicPartitions,
};

/// From this version on, clients make their member ids themselves.
const IDS_ARE_CLIENTS_FROM: i16 = 1;

pub(super) fn serve(
    cluster: &mut Cluster,
    context: &Context<'_>,
    request: ConsumerGroupHeartbeatRequest,
) -> ConsumerGroupHeartbeatResponse {
    match beat(cluster, context, request) {
        Ok((member_id, beat)) => ConsumerGroupHeartbeatResponse {
            member_id: Some(member_id),
            member_epoch: beat.member_epoch,
            heartbeat_interval_ms: cluster.settings.consumer_heartbeat_interval_ms,
            assignment: beat.assignment.map(|owned| Assignment {
                topic_partitions: by_topic(cluster, &owned),
            }),
            ..ConsumerGroupHeartbeatResponse::default()
        },
        Err(refused) => ConsumerGroupHeartbeatResponse {
            error_code: refused.error,
            error_message: Some(refused.reason).filter(|reason| !reason.is_empty()),
            ..ConsumerGroupHeartbeatResponse::default()
        },
    }
}

fn beat(
    cluster: &mut Cluster,
    context: &Context<'_>,
    request: ConsumerGroupHeartbeatRequest,
) -> Result<(String, Beat), Refused> {
    let refuse = |error, reason: &str| {
        Err(Refused {
            error,
            reason: reason.to_owned(),
        })
    };
    if request.group_id.trim().is_empty() {
        return refuse(ErrorCode::INVALID_REQUEST, "GroupId can't be empty.");
    }
    if let Err(error) = cluster.check_coordinator(&request.group_id, context.broker) {
        return refuse(error, "");
    }
    let mut member_id = request.member_id;
    if member_id.is_empty() {
        if context.to.version >= IDS_ARE_CLIENTS_FROM || request.member_epoch != 0 {
            return refuse(ErrorCode::INVALID_REQUEST, "MemberId can't be empty.");
        }
        member_id = cluster.random.uuid().to_string();
    }
    let owned = request.topic_partitions.map(|topics| {
        let places = topics.iter().flat_map(|topic| {
            let key = cluster.topic_key_by_id(topic.topic_id);
            let indexes = topic.partitions.iter().copied();
            indexes.filter_map(move |index| Some((key?, index)))
        });
        places.collect()
    });
    let heartbeat = Heartbeat {
        member_id: member_id.clone(),
        member_epoch: request.member_epoch,
        instance_id: request.instance_id,
        rack_id: request.rack_id,
        rebalance_timeout_ms: request.rebalance_timeout_ms,
        subscribed_names: request.subscribed_topic_names,
        subscribed_regex: request.subscribed_topic_regex,
        server_assignor: request.server_assignor,
        owned,
        client_id: context.client_id.to_owned(),
        client_host: format!("/{}", context.client_host),
    };
    let beat = cluster.consumer_heartbeat(context.now, &request.group_id, heartbeat)?;
    Ok((member_id, beat))
}

fn by_topic(cluster: &Cluster, owned: &BTreeSet<Place>) -> Vec<TopicPartitions> {
    let mut topics: BTreeMap<_, Vec<i32>> = BTreeMap::new();
    for (key, index) in owned {
        topics.entry(*key).or_default().push(*index);
    }
    let found = topics.into_iter().filter_map(|(key, partitions)| {
        Some(TopicPartitions {
            topic_id: cluster.topic_at(key)?.id,
            partitions,
        })
    });
    found.collect()
}
