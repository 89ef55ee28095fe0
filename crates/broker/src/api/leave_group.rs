//! LeaveGroup (13), versions 0 to 5: one member or, from version 3 on, several. Nothing left out.

use super::Context;
use crate::cluster::Cluster;
use wire::ErrorCode;
use wire::messages::leave_group::{LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse};

pub(super) fn serve(
    cluster: &mut Cluster,
    context: &Context<'_>,
    request: LeaveGroupRequest,
) -> LeaveGroupResponse {
    if let Err(error_code) = cluster.check_coordinator(&request.group_id, context.broker) {
        return LeaveGroupResponse {
            error_code,
            ..LeaveGroupResponse::default()
        };
    }
    let has_list = context.to.version >= 3;
    let leaving = if has_list {
        request.members
    } else {
        vec![MemberIdentity {
            member_id: request.member_id,
            ..MemberIdentity::default()
        }]
    };
    let members: Vec<MemberResponse> = leaving
        .into_iter()
        .map(|member| {
            let instance_id = member.group_instance_id.as_deref();
            let error_code = cluster.with_group(context.now, &request.group_id, |group, now, replies| {
                group.leave(now, &member.member_id, instance_id, replies)
            });
            MemberResponse {
                member_id: member.member_id,
                group_instance_id: member.group_instance_id,
                error_code,
            }
        })
        .collect();
    let alone = members
        .first()
        .filter(|_| !has_list)
        .map_or(ErrorCode::NONE, |member| member.error_code);
    LeaveGroupResponse {
        error_code: alone,
        members,
        ..LeaveGroupResponse::default()
    }
}
