//! DescribeProducers, API key 61, versions 0 to 0; flexible from 0.
//!
//! KIP-664.

use crate::ErrorCode;
use crate::schema::messages;

messages! {
    /// Asks for the producers that partitions remember (KIP-664).
    request DescribeProducersRequest, DESCRIBE_PRODUCERS, versions 0..=0, flexible 0..,
        answered by DescribeProducersResponse {
        /// The topics.
        [0..] topics: Vec<TopicRequest>,
    }

    /// One element of [`DescribeProducersRequest::topics`].
    struct TopicRequest {
        /// The name.
        [0..] name: String,
        /// The partitions' indexes.
        [0..] partition_indexes: Vec<i32>,
    }

    /// Answers [`DescribeProducersRequest`].
    response DescribeProducersResponse {
        /// For how many ms a quota holds the client back; newer brokers leave the waiting to the client.
        [0..] throttle_time_ms: i32,
        /// The topics.
        [0..] topics: Vec<TopicResponse>,
    }

    /// One element of [`DescribeProducersResponse::topics`].
    struct TopicResponse {
        /// The name.
        [0..] name: String,
        /// The partitions.
        [0..] partitions: Vec<PartitionResponse>,
    }

    /// One element of [`TopicResponse::partitions`].
    struct PartitionResponse {
        /// The partition's index.
        [0..] partition_index: i32,
        /// What went wrong.
        [0..] error_code: ErrorCode,
        /// The broker's explanation, if it gives one.
        [0..] error_message: Option<String>,
        /// The producers that the partition remembers.
        [0..] active_producers: Vec<ProducerState>,
    }

    /// One element of [`PartitionResponse::active_producers`].
    struct ProducerState {
        /// The producer id; −1 if there is none.
        [0..] producer_id: i64,
        /// The producer's epoch; −1 if there is none.
        [0..] producer_epoch: i32,
        /// The last sequence number written; −1 if none.
        [0..] last_sequence: i32 = -1,
        /// The time of the producer's last batch, in ms since 1970.
        [0..] last_timestamp: i64 = -1,
        /// The epoch of the coordinator that wrote the last marker; −1 if there was none.
        [0..] coordinator_epoch: i32,
        /// The first offset of the producer's open transaction; −1 if it has none.
        [0..] current_txn_start_offset: i64 = -1,
    }
}
