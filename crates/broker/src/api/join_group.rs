//! JoinGroup (11), versions 0 to 9. The rules are in [`crate::group`]. Nothing left out.

use super::{Context, encode};
use crate::answer::Answer;
use crate::cluster::Cluster;
use crate::group::{Join, Joined, Protocol, ms_to_ns};
use crate::reply::ReplyTo;
use wire::ErrorCode;
use wire::messages::join_group::{JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember};

pub(super) fn serve(cluster: &mut Cluster, context: &Context<'_>, request: JoinGroupRequest) {
    let member_id = request.member_id.clone();
    if let Err(error) = check(cluster, context, &request) {
        let joined = Joined {
            error,
            generation: -1,
            member_id,
            ..Joined::default()
        };
        cluster.complete(context.to, answer(context.to, joined));
        return;
    }
    // Before version 1 one timeout stood for both.
    let rebalance_timeout_ms = match request.rebalance_timeout_ms {
        ..0 => request.session_timeout_ms,
        timeout => timeout,
    };
    let join = Join {
        member_id,
        instance_id: request.group_instance_id,
        client_id: context.client_id.to_owned(),
        client_host: format!("/{}", context.client_host),
        session_timeout_ns: ms_to_ns(request.session_timeout_ms.into()),
        rebalance_timeout_ns: ms_to_ns(rebalance_timeout_ms.into()),
        protocol_type: request.protocol_type,
        protocols: request
            .protocols
            .into_iter()
            .map(|protocol| Protocol {
                name: protocol.name,
                metadata: protocol.metadata,
            })
            .collect(),
        can_rejoin_with_id: context.to.version >= 4,
        knows_skip_assignment: context.to.version >= 9,
        fresh_id: cluster.random.dashed_uuid(),
    };
    cluster.with_group(context.now, &request.group_id, |group, now, replies| {
        group.join(now, context.to, join, replies)
    });
}

fn check(cluster: &Cluster, context: &Context<'_>, request: &JoinGroupRequest) -> Result<(), ErrorCode> {
    if request.group_id.is_empty() {
        return Err(ErrorCode::INVALID_GROUP_ID);
    }
    cluster.check_coordinator(&request.group_id, context.broker)?;
    if !cluster
        .settings
        .session_timeout_ms
        .contains(&request.session_timeout_ms.into())
    {
        return Err(ErrorCode::INVALID_SESSION_TIMEOUT);
    }
    Ok(())
}

/// The answer in the layout that the request asked for.
pub(crate) fn answer(to: ReplyTo, joined: Joined) -> Answer {
    // Before version 7 there was no null for the protocol's name.
    let protocol_name = if to.version < 7 {
        Some(joined.protocol.unwrap_or_default())
    } else {
        joined.protocol
    };
    let members =
        joined.members.into_iter().map(
            |(member_id, group_instance_id, metadata)| JoinGroupResponseMember {
                member_id,
                group_instance_id,
                metadata,
            },
        );
    let response = JoinGroupResponse {
        error_code: joined.error,
        generation_id: joined.generation,
        protocol_type: joined.protocol_type,
        protocol_name,
        leader: joined.leader,
        skip_assignment: joined.skip_assignment,
        member_id: joined.member_id,
        members: members.collect(),
        ..JoinGroupResponse::default()
    };
    encode::<JoinGroupRequest>(to, &response)
}
