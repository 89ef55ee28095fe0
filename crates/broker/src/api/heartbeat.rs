//! Heartbeat (12), versions 0 to 4. The rules are in [`crate::group`]. Nothing left out.

use super::Context;
use crate::cluster::Cluster;
use crate::group::Speaker;
use wire::messages::heartbeat::{HeartbeatRequest, HeartbeatResponse};

pub(super) fn serve(
    cluster: &mut Cluster,
    context: &Context<'_>,
    request: HeartbeatRequest,
) -> HeartbeatResponse {
    let speaker = Speaker {
        member_id: &request.member_id,
        instance_id: request.group_instance_id.as_deref(),
        generation: request.generation_id,
    };
    let error_code = match cluster.check_coordinator(&request.group_id, context.broker) {
        Ok(()) => cluster.with_group(context.now, &request.group_id, |group, now, _| {
            group.heartbeat(now, speaker)
        }),
        Err(error) => error,
    };
    HeartbeatResponse {
        error_code,
        ..HeartbeatResponse::default()
    }
}
