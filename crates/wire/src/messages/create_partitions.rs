//! CreatePartitions, API key 37, versions 0 to 3; flexible from 2.
//!
//! 3 may answer THROTTLING_QUOTA_EXCEEDED (KIP-599).

use crate::ErrorCode;
use crate::schema::messages;

messages! {
    /// Adds partitions to topics.
    request CreatePartitionsRequest, CREATE_PARTITIONS, versions 0..=3, flexible 2..,
        answered by CreatePartitionsResponse {
        /// The topics.
        [0..] topics: Vec<CreatePartitionsTopic>,
        /// How long the broker may take, in ms.
        [0..] timeout_ms: i32,
        /// Whether to check only, and change nothing.
        [0..] validate_only: bool,
    }

    /// One element of [`CreatePartitionsRequest::topics`].
    struct CreatePartitionsTopic {
        /// The name.
        [0..] name: String,
        /// How many partitions the topic is to have in all.
        [0..] count: i32,
        /// The replicas of each new partition; null leaves it to the brokers.
        [0..] assignments: Option<Vec<CreatePartitionsAssignment>>,
    }

    /// One element of [`CreatePartitionsTopic::assignments`].
    struct CreatePartitionsAssignment {
        /// The brokers that hold the replicas, the preferred leader first.
        [0..] broker_ids: Vec<i32>,
    }

    /// Answers [`CreatePartitionsRequest`].
    response CreatePartitionsResponse {
        /// For how many ms a quota holds the client back; newer brokers leave the waiting to the client.
        [0..] throttle_time_ms: i32,
        /// The outcome for each.
        [0..] results: Vec<CreatePartitionsTopicResult>,
    }

    /// One element of [`CreatePartitionsResponse::results`].
    struct CreatePartitionsTopicResult {
        /// The name.
        [0..] name: String,
        /// What went wrong.
        [0..] error_code: ErrorCode,
        /// The broker's explanation, if it gives one.
        [0..] error_message: Option<String>,
    }
}
