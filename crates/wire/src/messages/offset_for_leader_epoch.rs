//! OffsetForLeaderEpoch, API key 23, versions 2 to 4; flexible from 4.
//!
//! 3 adds the replica id, so that consumers may ask (KIP-320).

use crate::ErrorCode;
use crate::schema::messages;

messages! {
    /// Asks where a leader epoch ended, to find out whether a log was truncated.
    request OffsetForLeaderEpochRequest, OFFSET_FOR_LEADER_EPOCH, versions 2..=4, flexible 4..,
        answered by OffsetForLeaderEpochResponse {
        /// −1 for clients, −2 for consumers that must not see beyond the high watermark.
        [3..] replica_id: i32 = -2,
        /// The topics.
        [2..] topics: Vec<OffsetForLeaderTopic>,
    }

    /// One element of [`OffsetForLeaderEpochRequest::topics`].
    struct OffsetForLeaderTopic {
        /// The topic's name.
        [2..] topic: String,
        /// The partitions.
        [2..] partitions: Vec<OffsetForLeaderPartition>,
    }

    /// One element of [`OffsetForLeaderTopic::partitions`].
    struct OffsetForLeaderPartition {
        /// The partition's index.
        [2..] partition: i32,
        /// The leader epoch that the client knows, by which a broker finds out who is behind; −1 does without.
        [2..] current_leader_epoch: i32 = -1,
        /// The leader epoch; −1 if not known.
        [2..] leader_epoch: i32,
    }

    /// Answers [`OffsetForLeaderEpochRequest`].
    response OffsetForLeaderEpochResponse {
        /// For how many ms a quota holds the client back; newer brokers leave the waiting to the client.
        [2..] throttle_time_ms: i32,
        /// The topics.
        [2..] topics: Vec<OffsetForLeaderTopicResult>,
    }

    /// One element of [`OffsetForLeaderEpochResponse::topics`].
    struct OffsetForLeaderTopicResult {
        /// The topic's name.
        [2..] topic: String,
        /// The partitions.
        [2..] partitions: Vec<EpochEndOffset>,
    }

    /// One element of [`OffsetForLeaderTopicResult::partitions`].
    struct EpochEndOffset {
        /// What went wrong.
        [2..] error_code: ErrorCode,
        /// The partition's index.
        [2..] partition: i32,
        /// The leader epoch; −1 if not known.
        [2..] leader_epoch: i32 = -1,
        /// The first offset after that epoch; −1 if it is not known.
        [2..] end_offset: i64 = -1,
    }
}
