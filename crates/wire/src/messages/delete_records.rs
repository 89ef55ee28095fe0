//! DeleteRecords, API key 21, versions 0 to 2; flexible from 2.
//!
//! Sent to the leader of each partition (KIP-107).

use crate::ErrorCode;
use crate::schema::messages;

messages! {
    /// Deletes the oldest records of partitions.
    request DeleteRecordsRequest, DELETE_RECORDS, versions 0..=2, flexible 2..,
        answered by DeleteRecordsResponse {
        /// The topics.
        [0..] topics: Vec<DeleteRecordsTopic>,
        /// How long the broker may take, in ms.
        [0..] timeout_ms: i32,
    }

    /// One element of [`DeleteRecordsRequest::topics`].
    struct DeleteRecordsTopic {
        /// The name.
        [0..] name: String,
        /// The partitions.
        [0..] partitions: Vec<DeleteRecordsPartition>,
    }

    /// One element of [`DeleteRecordsTopic::partitions`].
    struct DeleteRecordsPartition {
        /// The partition's index.
        [0..] partition_index: i32,
        /// Records before this offset are deleted; −1 deletes up to the high watermark.
        [0..] offset: i64,
    }

    /// Answers [`DeleteRecordsRequest`].
    response DeleteRecordsResponse {
        /// For how many ms a quota holds the client back; newer brokers leave the waiting to the client.
        [0..] throttle_time_ms: i32,
        /// The topics.
        [0..] topics: Vec<DeleteRecordsTopicResult>,
    }

    /// One element of [`DeleteRecordsResponse::topics`].
    struct DeleteRecordsTopicResult {
        /// The name.
        [0..] name: String,
        /// The partitions.
        [0..] partitions: Vec<DeleteRecordsPartitionResult>,
    }

    /// One element of [`DeleteRecordsTopicResult::partitions`].
    struct DeleteRecordsPartitionResult {
        /// The partition's index.
        [0..] partition_index: i32,
        /// The log's first offset after the deletion; −1 if it failed.
        [0..] low_watermark: i64,
        /// What went wrong.
        [0..] error_code: ErrorCode,
    }
}
