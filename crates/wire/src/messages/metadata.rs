//! Metadata, API key 3, versions 0 to 13; flexible from 9.
//!
//! Null topics are all topics from version 1 on; version 0 has no null and says "all" by an empty list. 4 adds the
//! flag for automatic creation, 8 authorized operations, 10 topic ids in the answer, 12 asks by id, 13 an error for the
//! whole answer. Authorized operations of the cluster moved to DescribeCluster with version 11 (KIP-700).

use crate::ErrorCode;
use crate::codec::Uuid;
use crate::schema::messages;

messages! {
    /// Asks which brokers there are, and which of them lead the partitions of topics.
    request MetadataRequest, METADATA, versions 0..=13, flexible 9..,
        answered by MetadataResponse {
        /// The topics to describe. Null is all topics, empty is none; but in version 0, empty is all.
        [0.., null 1..] topics: Option<Vec<MetadataRequestTopic>>,
        /// Whether the brokers may create topics that are asked for and missing. Kafka's default is yes; a tool that
        /// only looks wants no.
        [4..]           allow_auto_topic_creation: bool = true,
        /// Whether to say what the principal may do to the cluster.
        [8..=10]        include_cluster_authorized_operations: bool,
        /// Whether to say what the principal may do to each topic.
        [8..]           include_topic_authorized_operations: bool,
    }

    /// One element of [`MetadataRequest::topics`].
    struct MetadataRequestTopic {
        /// The topic's id; zero if not known.
        [10..]           topic_id: Uuid,
        /// The topic's name; null asks by id.
        [0.., null 10..] name: Option<String>,
    }

    /// Answers [`MetadataRequest`].
    response MetadataResponse {
        /// For how many ms a quota holds the client back; newer brokers leave the waiting to the client.
        [3..]    throttle_time_ms: i32,
        /// The brokers that are alive.
        [0..]    brokers: Vec<MetadataResponseBroker>,
        /// The cluster's id.
        [2..]    cluster_id: Option<String>,
        /// The controller's node id, or that of a broker that passes requests on to it; −1 if not known.
        [1..]    controller_id: i32 = -1,
        /// The topics.
        [0..]    topics: Vec<MetadataResponseTopic>,
        /// What the principal may do to the cluster, a bit for each operation; `i32::MIN` if that was not asked for.
        [8..=10] cluster_authorized_operations: i32 = i32::MIN,
        /// What went wrong.
        [13..]   error_code: ErrorCode,
    }

    /// One element of [`MetadataResponse::brokers`].
    struct MetadataResponseBroker {
        /// The broker's node id.
        [0..] node_id: i32,
        /// The host name or address.
        [0..] host: String,
        /// The port.
        [0..] port: i32,
        /// The broker's rack.
        [1..] rack: Option<String>,
    }

    /// One element of [`MetadataResponse::topics`].
    struct MetadataResponseTopic {
        /// What went wrong.
        [0..]            error_code: ErrorCode,
        /// The topic's name; null where an id was asked for that is not known.
        [0.., null 12..] name: Option<String>,
        /// The topic's id; zero if not known.
        [10..]           topic_id: Uuid,
        /// Whether the topic is one of Kafka's own.
        [1..]            is_internal: bool,
        /// The partitions.
        [0..]            partitions: Vec<MetadataResponsePartition>,
        /// What the principal may do to the topic, a bit for each operation; `i32::MIN` if that was not asked for.
        [8..]            topic_authorized_operations: i32 = i32::MIN,
    }

    /// One element of [`MetadataResponseTopic::partitions`].
    struct MetadataResponsePartition {
        /// What went wrong.
        [0..] error_code: ErrorCode,
        /// The partition's index.
        [0..] partition_index: i32,
        /// The leader's node id; −1 if there is none.
        [0..] leader_id: i32,
        /// The leader epoch; −1 if not known.
        [7..] leader_epoch: i32 = -1,
        /// The brokers that hold the replicas.
        [0..] replica_nodes: Vec<i32>,
        /// The replicas that are in sync.
        [0..] isr_nodes: Vec<i32>,
        /// The replicas whose broker or disk is gone.
        [5..] offline_replicas: Vec<i32>,
    }
}
