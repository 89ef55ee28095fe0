//! ElectLeaders, API key 43, versions 0 to 2; flexible from 2.
//!
//! 1 adds the type of election and an error for the whole answer (KIP-460).

use crate::ErrorCode;
use crate::schema::messages;

messages! {
    /// Elects leaders of partitions (KIP-183, KIP-460).
    request ElectLeadersRequest, ELECT_LEADERS, versions 0..=2, flexible 2..,
        answered by ElectLeadersResponse {
        /// 0 elects the preferred replica, 1 any, even one that is not in sync.
        [1..] election_type: i8,
        /// The partitions, by topic; null is all.
        [0..] topic_partitions: Option<Vec<TopicPartitions>>,
        /// How long the broker may take, in ms.
        [0..] timeout_ms: i32 = 60000,
    }

    /// One element of [`ElectLeadersRequest::topic_partitions`].
    struct TopicPartitions {
        /// The topic's name.
        [0..] topic: String,
        /// The partitions.
        [0..] partitions: Vec<i32>,
    }

    /// Answers [`ElectLeadersRequest`].
    response ElectLeadersResponse {
        /// For how many ms a quota holds the client back; newer brokers leave the waiting to the client.
        [0..] throttle_time_ms: i32,
        /// What went wrong.
        [1..] error_code: ErrorCode,
        /// The outcome for each topic.
        [0..] replica_election_results: Vec<ReplicaElectionResult>,
    }

    /// One element of [`ElectLeadersResponse::replica_election_results`].
    struct ReplicaElectionResult {
        /// The topic's name.
        [0..] topic: String,
        /// The outcome for each partition.
        [0..] partition_result: Vec<PartitionResult>,
    }

    /// One element of [`ReplicaElectionResult::partition_result`].
    struct PartitionResult {
        /// The partition's index.
        [0..] partition_id: i32,
        /// What went wrong.
        [0..] error_code: ErrorCode,
        /// The broker's explanation, if it gives one.
        [0..] error_message: Option<String>,
    }
}
