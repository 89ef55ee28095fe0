//! TxnOffsetCommit, API key 28, versions 0 to 5; flexible from 3.
//!
//! 3 adds the member, so that zombies are fenced (KIP-447); 5 is transactions v2 (KIP-890).

use crate::ErrorCode;
use crate::schema::messages;

messages! {
    /// Commits a group's offsets as part of a transaction.
    request TxnOffsetCommitRequest, TXN_OFFSET_COMMIT, versions 0..=5, flexible 3..,
        answered by TxnOffsetCommitResponse {
        /// The transactional id.
        [0..] transactional_id: String,
        /// The group.
        [0..] group_id: String,
        /// The producer id; −1 if there is none.
        [0..] producer_id: i64,
        /// The producer's epoch; −1 if there is none.
        [0..] producer_epoch: i16,
        /// The generation (classic groups) or the member's epoch; −1 commits from outside of the group.
        [3..] generation_id_or_member_epoch: i32 = -1,
        /// The member; empty where it has no id yet.
        [3..] member_id: String,
        /// The name of a static member; null for others.
        [3..] group_instance_id: Option<String>,
        /// The topics.
        [0..] topics: Vec<TxnOffsetCommitRequestTopic>,
    }

    /// One element of [`TxnOffsetCommitRequest::topics`].
    struct TxnOffsetCommitRequestTopic {
        /// The name.
        [0..] name: String,
        /// The partitions.
        [0..] partitions: Vec<TxnOffsetCommitRequestPartition>,
    }

    /// One element of [`TxnOffsetCommitRequestTopic::partitions`].
    struct TxnOffsetCommitRequestPartition {
        /// The partition's index.
        [0..] partition_index: i32,
        /// The offset of the next record to read; −1 if none is committed.
        [0..] committed_offset: i64,
        /// The leader epoch of the last record before the offset; −1 if not known.
        [2..] committed_leader_epoch: i32 = -1,
        /// A text that is kept with the offset.
        [0..] committed_metadata: Option<String>,
    }

    /// Answers [`TxnOffsetCommitRequest`].
    response TxnOffsetCommitResponse {
        /// For how many ms a quota holds the client back; newer brokers leave the waiting to the client.
        [0..] throttle_time_ms: i32,
        /// The topics.
        [0..] topics: Vec<TxnOffsetCommitResponseTopic>,
    }

    /// One element of [`TxnOffsetCommitResponse::topics`].
    struct TxnOffsetCommitResponseTopic {
        /// The name.
        [0..] name: String,
        /// The partitions.
        [0..] partitions: Vec<TxnOffsetCommitResponsePartition>,
    }

    /// One element of [`TxnOffsetCommitResponseTopic::partitions`].
    struct TxnOffsetCommitResponsePartition {
        /// The partition's index.
        [0..] partition_index: i32,
        /// What went wrong.
        [0..] error_code: ErrorCode,
    }
}
