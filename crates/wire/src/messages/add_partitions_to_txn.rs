//! AddPartitionsToTxn, API key 24, versions 0 to 5; flexible from 3.
//!
//! Clients speak versions up to 3; from 4 on it is a batch among brokers (KIP-890).

use crate::ErrorCode;
use crate::schema::messages;

messages! {
    /// Adds partitions to a transaction.
    request AddPartitionsToTxnRequest, ADD_PARTITIONS_TO_TXN, versions 0..=5, flexible 3..,
        answered by AddPartitionsToTxnResponse {
        /// The transactions.
        [4..]   transactions: Vec<AddPartitionsToTxnTransaction>,
        /// The transactional id.
        [0..=3] v3_and_below_transactional_id: String,
        /// The producer id.
        [0..=3] v3_and_below_producer_id: i64,
        /// The producer's epoch.
        [0..=3] v3_and_below_producer_epoch: i16,
        /// The partitions to add, by topic.
        [0..=3] v3_and_below_topics: Vec<AddPartitionsToTxnTopic>,
    }

    /// One element of [`AddPartitionsToTxnRequest::transactions`].
    struct AddPartitionsToTxnTransaction {
        /// The transactional id.
        [4..] transactional_id: String,
        /// The producer id; −1 if there is none.
        [4..] producer_id: i64,
        /// The producer's epoch; −1 if there is none.
        [4..] producer_epoch: i16,
        /// Whether to check only that the partitions are part of the transaction.
        [4..] verify_only: bool,
        /// The topics.
        [4..] topics: Vec<AddPartitionsToTxnTopic>,
    }

    /// A topic and its partitions.
    struct AddPartitionsToTxnTopic {
        /// The name.
        [0..] name: String,
        /// The partitions.
        [0..] partitions: Vec<i32>,
    }

    /// Answers [`AddPartitionsToTxnRequest`].
    response AddPartitionsToTxnResponse {
        /// For how many ms a quota holds the client back; newer brokers leave the waiting to the client.
        [0..]   throttle_time_ms: i32,
        /// What went wrong.
        [4..]   error_code: ErrorCode,
        /// The outcome for each transaction.
        [4..]   results_by_transaction: Vec<AddPartitionsToTxnResult>,
        /// The outcome for each topic.
        [0..=3] results_by_topic_v3_and_below: Vec<AddPartitionsToTxnTopicResult>,
    }

    /// One element of [`AddPartitionsToTxnResponse::results_by_transaction`].
    struct AddPartitionsToTxnResult {
        /// The transactional id.
        [4..] transactional_id: String,
        /// The outcome for each topic.
        [4..] topic_results: Vec<AddPartitionsToTxnTopicResult>,
    }

    /// The outcome for a topic.
    struct AddPartitionsToTxnTopicResult {
        /// The name.
        [0..] name: String,
        /// The outcome for each partition.
        [0..] results_by_partition: Vec<AddPartitionsToTxnPartitionResult>,
    }

    /// The outcome for a partition.
    struct AddPartitionsToTxnPartitionResult {
        /// The partition's index.
        [0..] partition_index: i32,
        /// What went wrong with the partition.
        [0..] partition_error_code: ErrorCode,
    }
}
