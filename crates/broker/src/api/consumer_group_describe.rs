//! ConsumerGroupDescribe (69), versions 0 to 1: groups of the new protocol, with members and what they own (KIP-848).
//!
//! Left out: authorized operations.

use super::Context;
use crate::cluster::Cluster;
use crate::consumer_group::{ConsumerGroup, Place};
use std::collections::{BTreeMap, BTreeSet};
use wire::ErrorCode;
use wire::messages::consumer_group_describe::{
    Assignment, ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, DescribedGroup, Member,
    TopicPartitions,
};

/// `member_type` of a member of the new protocol.
const CONSUMER: i8 = 1;

pub(super) fn serve(
    cluster: &mut Cluster,
    context: &Context<'_>,
    request: ConsumerGroupDescribeRequest,
) -> ConsumerGroupDescribeResponse {
    let groups = request
        .group_ids
        .into_iter()
        .map(|group_id| describe(cluster, context, group_id));
    ConsumerGroupDescribeResponse {
        groups: groups.collect(),
        ..ConsumerGroupDescribeResponse::default()
    }
}

fn describe(cluster: &Cluster, context: &Context<'_>, group_id: String) -> DescribedGroup {
    let refuse = |group_id: String, error_code, message: Option<String>| DescribedGroup {
        error_code,
        error_message: message,
        group_id,
        ..DescribedGroup::default()
    };
    if let Err(error) = cluster.check_coordinator(&group_id, context.broker) {
        return refuse(group_id, error, None);
    }
    let Some(group) = cluster.group(&group_id).and_then(|group| group.consumer()) else {
        let message = match cluster.group(&group_id) {
            Some(_) => format!("Group {group_id} is not a consumer group."),
            None => format!("Group {group_id} not found."),
        };
        return refuse(group_id, ErrorCode::GROUP_ID_NOT_FOUND, Some(message));
    };
    DescribedGroup {
        group_state: group.state_name().to_owned(),
        group_epoch: group.epoch,
        assignment_epoch: group.assignment_epoch,
        assignor_name: group.assignor().name().to_owned(),
        members: members(cluster, group),
        group_id,
        ..DescribedGroup::default()
    }
}

fn members(cluster: &Cluster, group: &ConsumerGroup) -> Vec<Member> {
    let members = group.members.iter().map(|(member_id, member)| Member {
        member_id: member_id.clone(),
        instance_id: member.instance_id.clone(),
        rack_id: member.rack_id.clone(),
        member_epoch: member.epoch,
        client_id: member.client_id.clone(),
        client_host: member.client_host.clone(),
        subscribed_topic_names: member.subscribed_names.iter().cloned().collect(),
        subscribed_topic_regex: member.subscribed_regex.clone(),
        assignment: assignment(cluster, &member.assigned),
        target_assignment: assignment(cluster, &group.target_of(member_id)),
        member_type: CONSUMER,
    });
    members.collect()
}

fn assignment(cluster: &Cluster, places: &BTreeSet<Place>) -> Assignment {
    let mut topics: BTreeMap<_, Vec<i32>> = BTreeMap::new();
    for (key, index) in places {
        topics.entry(*key).or_default().push(*index);
    }
    let found = topics.into_iter().filter_map(|(key, partitions)| {
        let topic = cluster.topic_at(key)?;
        Some(TopicPartitions {
            topic_id: topic.id,
            topic_name: topic.name.clone(),
            partitions,
        })
    });
    Assignment {
        topic_partitions: found.collect(),
    }
}
