//! DeleteGroups (42), versions 0 to 2: groups without members, with their offsets. Nothing left out.

use super::Context;
use crate::cluster::Cluster;
use wire::ErrorCode;
use wire::messages::delete_groups::{DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse};

pub(super) fn serve(
    cluster: &mut Cluster,
    context: &Context<'_>,
    request: DeleteGroupsRequest,
) -> DeleteGroupsResponse {
    let results = request.groups_names.into_iter().map(|group_id| {
        let error_code = delete(cluster, context.broker, &group_id)
            .err()
            .unwrap_or(ErrorCode::NONE);
        DeletableGroupResult { group_id, error_code }
    });
    DeleteGroupsResponse {
        results: results.collect(),
        ..DeleteGroupsResponse::default()
    }
}

fn delete(cluster: &mut Cluster, broker: i32, group_id: &str) -> Result<(), ErrorCode> {
    cluster.check_coordinator(group_id, broker)?;
    match cluster.group(group_id).map(|group| group.is_empty()) {
        None => Err(ErrorCode::GROUP_ID_NOT_FOUND),
        Some(true) => {
            cluster.delete_group(group_id);
            Ok(())
        }
        Some(false) => Err(ErrorCode::NON_EMPTY_GROUP),
    }
}
