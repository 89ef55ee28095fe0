//! SyncGroup (14), versions 0 to 5. The rules are in [`crate::group`]. Nothing left out.

use super::{Context, encode};
use crate::answer::Answer;
use crate::cluster::Cluster;
use crate::group::{Speaker, Synced};
use crate::reply::ReplyTo;
use wire::messages::sync_group::{SyncGroupRequest, SyncGroupResponse};

pub(super) fn serve(cluster: &mut Cluster, context: &Context<'_>, request: SyncGroupRequest) {
    if let Err(error) = cluster.check_coordinator(&request.group_id, context.broker) {
        let synced = Synced {
            error,
            ..Synced::default()
        };
        cluster.complete(context.to, answer(context.to, synced));
        return;
    }
    let assignments = request
        .assignments
        .into_iter()
        .map(|assignment| (assignment.member_id, assignment.assignment))
        .collect();
    let speaker = Speaker {
        member_id: &request.member_id,
        instance_id: request.group_instance_id.as_deref(),
        generation: request.generation_id,
    };
    let protocol = (request.protocol_type.as_deref(), request.protocol_name.as_deref());
    cluster.with_group(context.now, &request.group_id, |group, now, replies| {
        group.sync(now, context.to, speaker, protocol, assignments, replies);
    });
}

/// The answer in the layout that the request asked for.
pub(crate) fn answer(to: ReplyTo, synced: Synced) -> Answer {
    let response = SyncGroupResponse {
        error_code: synced.error,
        protocol_type: synced.protocol_type,
        protocol_name: synced.protocol,
        assignment: synced.assignment,
        ..SyncGroupResponse::default()
    };
    encode::<SyncGroupRequest>(to, &response)
}
