//! CreateTopics, API key 19, versions 2 to 7; flexible from 5.
//!
//! From version 4 on partitions and replicas may be −1, the brokers' defaults (KIP-464); 5 answers with the topic's
//! settings (KIP-525); 6 may answer THROTTLING_QUOTA_EXCEEDED (KIP-599); 7 answers with topic ids.

use crate::ErrorCode;
use crate::codec::Uuid;
use crate::schema::messages;

messages! {
    /// Creates topics.
    request CreateTopicsRequest, CREATE_TOPICS, versions 2..=7, flexible 5..,
        answered by CreateTopicsResponse {
        /// The topics.
        [2..] topics: Vec<CreatableTopic>,
        /// How long the broker may take, in ms.
        [2..] timeout_ms: i32 = 60000,
        /// Whether to check only, and change nothing.
        [2..] validate_only: bool,
    }

    /// One element of [`CreateTopicsRequest::topics`].
    struct CreatableTopic {
        /// The name.
        [2..] name: String,
        /// How many partitions; −1 is the brokers' default.
        [2..] num_partitions: i32,
        /// How many replicas; −1 is the brokers' default.
        [2..] replication_factor: i16,
        /// The replicas of each partition, where the caller lays them out; empty leaves it to the brokers.
        [2..] assignments: Vec<CreatableReplicaAssignment>,
        /// The settings.
        [2..] configs: Vec<CreatableTopicConfig>,
    }

    /// One element of [`CreatableTopic::assignments`].
    struct CreatableReplicaAssignment {
        /// The partition's index.
        [2..] partition_index: i32,
        /// The brokers that hold the replicas, the preferred leader first.
        [2..] broker_ids: Vec<i32>,
    }

    /// One element of [`CreatableTopic::configs`].
    struct CreatableTopicConfig {
        /// The name.
        [2..] name: String,
        /// The value; null is the brokers' default.
        [2..] value: Option<String>,
    }

    /// Answers [`CreateTopicsRequest`].
    response CreateTopicsResponse {
        /// For how many ms a quota holds the client back; newer brokers leave the waiting to the client.
        [2..] throttle_time_ms: i32,
        /// The topics.
        [2..] topics: Vec<CreatableTopicResult>,
    }

    /// One element of [`CreateTopicsResponse::topics`].
    struct CreatableTopicResult {
        /// The name.
        [2..]        name: String,
        /// The topic's id; zero if not known.
        [7..]        topic_id: Uuid,
        /// What went wrong.
        [2..]        error_code: ErrorCode,
        /// The broker's explanation, if it gives one.
        [2..]        error_message: Option<String>,
        /// Why `configs` is null.
        [5.., tag 0] topic_config_error_code: ErrorCode,
        /// How many partitions the topic has; −1 if not told.
        [5..]        num_partitions: i32 = -1,
        /// How many replicas each partition has; −1 if not told.
        [5..]        replication_factor: i16 = -1,
        /// The settings that the topic has; null if the principal may not see them.
        [5..]        configs: Option<Vec<CreatableTopicConfigs>>,
    }

    /// One element of [`CreatableTopicResult::configs`].
    struct CreatableTopicConfigs {
        /// The name.
        [5..] name: String,
        /// The value; null if it is kept secret.
        [5..] value: Option<String>,
        /// Whether the setting cannot be changed.
        [5..] read_only: bool,
        /// Where the value comes from: 1 topic, 2 this broker, 3 all brokers, 4 broker's file, 5 default, 6 logger,
        /// 7 client metrics, 8 group.
        [5..] config_source: i8 = -1,
        /// Whether the value is kept secret.
        [5..] is_sensitive: bool,
    }
}
