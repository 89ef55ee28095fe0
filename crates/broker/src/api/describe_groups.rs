//! DescribeGroups (15), versions 0 to 6: classic groups with members and assignments.
//!
//! Left out: authorized operations.

use super::Context;
use crate::cluster::Cluster;
use wire::ErrorCode;
use wire::messages::describe_groups::{
    DescribeGroupsRequest, DescribeGroupsResponse, DescribedGroup, DescribedGroupMember,
};

pub(super) fn serve(
    cluster: &mut Cluster,
    context: &Context<'_>,
    request: DescribeGroupsRequest,
) -> DescribeGroupsResponse {
    let groups = request
        .groups
        .into_iter()
        .map(|group_id| describe(cluster, context, group_id));
    DescribeGroupsResponse {
        groups: groups.collect(),
        ..DescribeGroupsResponse::default()
    }
}

fn describe(cluster: &Cluster, context: &Context<'_>, group_id: String) -> DescribedGroup {
    if let Err(error_code) = cluster.check_coordinator(&group_id, context.broker) {
        return DescribedGroup {
            error_code,
            group_id,
            ..DescribedGroup::default()
        };
    }
    let classic = cluster
        .group(&group_id)
        .filter(|group| group.consumer().is_none());
    let Some(group) = classic else {
        // Version 6 made an error of what had been a state.
        let is_error = context.to.version >= 6;
        return DescribedGroup {
            error_code: if is_error {
                ErrorCode::GROUP_ID_NOT_FOUND
            } else {
                ErrorCode::NONE
            },
            error_message: is_error.then(|| format!("Group {group_id} not found.")),
            group_state: "Dead".to_owned(),
            group_id,
            ..DescribedGroup::default()
        };
    };
    let protocol = group.protocol();
    let members = group
        .members()
        .iter()
        .map(|(member_id, member)| DescribedGroupMember {
            member_id: member_id.clone(),
            group_instance_id: member.instance_id.clone(),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            member_metadata: member.metadata_for(protocol),
            // Outside a stable phase assignments are about to change and not told.
            member_assignment: protocol.map(|_| member.assignment.clone()).unwrap_or_default(),
        });
    DescribedGroup {
        group_state: group.state().name().to_owned(),
        protocol_type: group.protocol_type().unwrap_or_default().to_owned(),
        protocol_data: protocol.unwrap_or_default().to_owned(),
        members: members.collect(),
        group_id,
        ..DescribedGroup::default()
    }
}
