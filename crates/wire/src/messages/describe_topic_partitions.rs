//! DescribeTopicPartitions, API key 75, versions 0 to 0; flexible from 0.
//!
//! KIP-966.

use crate::ErrorCode;
use crate::codec::Uuid;
use crate::schema::messages;

messages! {
    /// Asks for the partitions of topics, page by page (KIP-966).
    request DescribeTopicPartitionsRequest, DESCRIBE_TOPIC_PARTITIONS, versions 0..=0, flexible 0..,
        answered by DescribeTopicPartitionsResponse {
        /// The topics.
        [0..] topics: Vec<TopicRequest>,
        /// The most partitions to describe in one answer.
        [0..] response_partition_limit: i32 = 2000,
        /// Where to go on; null starts at the beginning.
        [0..] cursor: Option<Cursor>,
    }

    /// One element of [`DescribeTopicPartitionsRequest::topics`].
    struct TopicRequest {
        /// The name.
        [0..] name: String,
    }

    /// What [`DescribeTopicPartitionsRequest::cursor`] holds.
    struct Cursor {
        /// The topic's name.
        [0..] topic_name: String,
        /// The partition's index.
        [0..] partition_index: i32,
    }

    /// Answers [`DescribeTopicPartitionsRequest`].
    response DescribeTopicPartitionsResponse {
        /// For how many ms a quota holds the client back; newer brokers leave the waiting to the client.
        [0..] throttle_time_ms: i32,
        /// The topics.
        [0..] topics: Vec<DescribeTopicPartitionsResponseTopic>,
        /// Where the next request goes on; null if this was all.
        [0..] next_cursor: Option<Cursor>,
    }

    /// One element of [`DescribeTopicPartitionsResponse::topics`].
    struct DescribeTopicPartitionsResponseTopic {
        /// What went wrong.
        [0..] error_code: ErrorCode,
        /// The name.
        [0..] name: Option<String>,
        /// The topic's id; zero if not known.
        [0..] topic_id: Uuid,
        /// Whether the topic is one of Kafka's own.
        [0..] is_internal: bool,
        /// The partitions.
        [0..] partitions: Vec<DescribeTopicPartitionsResponsePartition>,
        /// What the principal may do to the topic, a bit for each operation; `i32::MIN` if that was not asked for.
        [0..] topic_authorized_operations: i32 = i32::MIN,
    }

    /// One element of [`DescribeTopicPartitionsResponseTopic::partitions`].
    struct DescribeTopicPartitionsResponsePartition {
        /// What went wrong.
        [0..] error_code: ErrorCode,
        /// The partition's index.
        [0..] partition_index: i32,
        /// The leader's node id; −1 if there is none.
        [0..] leader_id: i32,
        /// The leader epoch; −1 if not known.
        [0..] leader_epoch: i32 = -1,
        /// The brokers that hold the replicas.
        [0..] replica_nodes: Vec<i32>,
        /// The replicas that are in sync.
        [0..] isr_nodes: Vec<i32>,
        /// Replicas that may become leader although they are not in sync (KIP-966).
        [0..] eligible_leader_replicas: Option<Vec<i32>>,
        /// The last replicas that could have become leader (KIP-966).
        [0..] last_known_elr: Option<Vec<i32>>,
        /// The replicas whose broker or disk is gone.
        [0..] offline_replicas: Vec<i32>,
    }
}
