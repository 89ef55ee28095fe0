//! DescribeCluster (60), versions 0 to 2.
//!
//! Left out: authorized operations; controllers as an endpoint of their own, because the brokers are the controllers.

use super::Context;
use crate::cluster::Cluster;
use wire::ErrorCode;
use wire::messages::describe_cluster::{
    DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse,
};

const BROKERS: i8 = 1;

pub(super) fn serve(
    cluster: &mut Cluster,
    _context: &Context<'_>,
    request: DescribeClusterRequest,
) -> DescribeClusterResponse {
    if request.endpoint_type != BROKERS {
        return DescribeClusterResponse {
            error_code: ErrorCode::MISMATCHED_ENDPOINT_TYPE,
            error_message: Some("this is a broker, and speaks of brokers only".to_owned()),
            ..DescribeClusterResponse::default()
        };
    }
    let shown = cluster
        .nodes
        .all()
        .iter()
        .filter(|node| node.is_up || request.include_fenced_brokers);
    DescribeClusterResponse {
        cluster_id: cluster.id.clone(),
        controller_id: cluster.controller_id(),
        brokers: shown
            .map(|node| DescribeClusterBroker {
                broker_id: node.id,
                host: node.host.clone(),
                port: node.port.into(),
                is_fenced: !node.is_up,
                ..DescribeClusterBroker::default()
            })
            .collect(),
        ..DescribeClusterResponse::default()
    }
}
