//! FindCoordinator (10), versions 0 to 6: which broker speaks for a group or for a transactional id.
//!
//! Left out: coordinators of share groups, of which there are none.

use super::Context;
use crate::cluster::Cluster;
use wire::ErrorCode;
use wire::messages::find_coordinator::{Coordinator, FindCoordinatorRequest, FindCoordinatorResponse};

const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;

pub(super) fn serve(
    cluster: &mut Cluster,
    context: &Context<'_>,
    request: FindCoordinatorRequest,
) -> FindCoordinatorResponse {
    if context.to.version >= 4 {
        let keys = request.coordinator_keys.into_iter();
        return FindCoordinatorResponse {
            coordinators: keys.map(|key| find(cluster, request.key_type, key)).collect(),
            ..FindCoordinatorResponse::default()
        };
    }
    let found = find(cluster, request.key_type, request.key);
    FindCoordinatorResponse {
        error_code: found.error_code,
        error_message: found.error_message,
        node_id: found.node_id,
        host: found.host,
        port: found.port,
        ..FindCoordinatorResponse::default()
    }
}

fn find(cluster: &Cluster, key_type: i8, key: String) -> Coordinator {
    let failed = |key, error_code, text: &str| Coordinator {
        key,
        node_id: -1,
        port: -1,
        error_code,
        error_message: Some(text.to_owned()),
        ..Coordinator::default()
    };
    if ![GROUP, TRANSACTION].contains(&key_type) {
        return failed(
            key,
            ErrorCode::INVALID_REQUEST,
            "this broker coordinates groups (0) and transactions (1) only",
        );
    }
    match cluster.coordinator_of(&key) {
        Some(node) => Coordinator {
            key,
            node_id: node.id,
            host: node.host.clone(),
            port: node.port.into(),
            ..Coordinator::default()
        },
        None => failed(key, ErrorCode::COORDINATOR_NOT_AVAILABLE, "no broker is up"),
    }
}
