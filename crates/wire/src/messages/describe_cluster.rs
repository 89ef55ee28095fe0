//! DescribeCluster, API key 60, versions 0 to 2; flexible from 0.
//!
//! KIP-700. 1 asks for controllers too (KIP-919), 2 lists fenced brokers (KIP-1073).

use crate::ErrorCode;
use crate::schema::messages;

messages! {
    /// Asks for the id, the controller and the nodes of the cluster (KIP-700).
    request DescribeClusterRequest, DESCRIBE_CLUSTER, versions 0..=2, flexible 0..,
        answered by DescribeClusterResponse {
        /// Whether to say what the principal may do to the cluster.
        [0..] include_cluster_authorized_operations: bool,
        /// 1 asks for brokers, 2 for controllers.
        [1..] endpoint_type: i8 = 1,
        /// Whether to list brokers that are registered but fenced.
        [2..] include_fenced_brokers: bool,
    }

    /// Answers [`DescribeClusterRequest`].
    response DescribeClusterResponse {
        /// For how many ms a quota holds the client back; newer brokers leave the waiting to the client.
        [0..] throttle_time_ms: i32,
        /// What went wrong.
        [0..] error_code: ErrorCode,
        /// The broker's explanation, if it gives one.
        [0..] error_message: Option<String>,
        /// What is described: 1 brokers, 2 controllers.
        [1..] endpoint_type: i8 = 1,
        /// The cluster's id.
        [0..] cluster_id: String,
        /// The controller's node id, or that of a broker that passes requests on to it; −1 if not known.
        [0..] controller_id: i32 = -1,
        /// The brokers that are alive.
        [0..] brokers: Vec<DescribeClusterBroker>,
        /// What the principal may do to the cluster, a bit for each operation; `i32::MIN` if that was not asked for.
        [0..] cluster_authorized_operations: i32 = i32::MIN,
    }

    /// One element of [`DescribeClusterResponse::brokers`].
    struct DescribeClusterBroker {
        /// The broker's node id.
        [0..] broker_id: i32,
        /// The host name or address.
        [0..] host: String,
        /// The port.
        [0..] port: i32,
        /// The broker's rack.
        [0..] rack: Option<String>,
        /// Whether the broker is fenced.
        [2..] is_fenced: bool,
    }
}
