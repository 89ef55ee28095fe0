//! OffsetCommit, API key 8, versions 2 to 9; flexible from 8.
//!
//! 5 drops the retention time (KIP-211), 6 adds leader epochs (KIP-320), 7 static members, 9 the new group protocol
//! (KIP-848). Version 10, by topic id, is not spoken.

use crate::ErrorCode;
use crate::schema::messages;

messages! {
    /// Commits a group's offsets.
    request OffsetCommitRequest, OFFSET_COMMIT, versions 2..=9, flexible 8..,
        answered by OffsetCommitResponse {
        /// The group.
        [2..]   group_id: String,
        /// The generation (classic groups) or the member's epoch; −1 commits from outside of the group.
        [2..]   generation_id_or_member_epoch: i32 = -1,
        /// The member; empty where it has no id yet.
        [2..]   member_id: String,
        /// The name of a static member; null for others.
        [7..]   group_instance_id: Option<String>,
        /// How long to keep the offset, in ms; −1 is the brokers' default.
        [2..=4] retention_time_ms: i64 = -1,
        /// The topics.
        [2..]   topics: Vec<OffsetCommitRequestTopic>,
    }

    /// One element of [`OffsetCommitRequest::topics`].
    struct OffsetCommitRequestTopic {
        /// The name.
        [2..] name: String,
        /// The partitions.
        [2..] partitions: Vec<OffsetCommitRequestPartition>,
    }

    /// One element of [`OffsetCommitRequestTopic::partitions`].
    struct OffsetCommitRequestPartition {
        /// The partition's index.
        [2..] partition_index: i32,
        /// The offset of the next record to read; −1 if none is committed.
        [2..] committed_offset: i64,
        /// The leader epoch of the last record before the offset; −1 if not known.
        [6..] committed_leader_epoch: i32 = -1,
        /// A text that is kept with the offset.
        [2..] committed_metadata: Option<String>,
    }

    /// Answers [`OffsetCommitRequest`].
    response OffsetCommitResponse {
        /// For how many ms a quota holds the client back; newer brokers leave the waiting to the client.
        [3..] throttle_time_ms: i32,
        /// The topics.
        [2..] topics: Vec<OffsetCommitResponseTopic>,
    }

    /// One element of [`OffsetCommitResponse::topics`].
    struct OffsetCommitResponseTopic {
        /// The name.
        [2..] name: String,
        /// The partitions.
        [2..] partitions: Vec<OffsetCommitResponsePartition>,
    }

    /// One element of [`OffsetCommitResponseTopic::partitions`].
    struct OffsetCommitResponsePartition {
        /// The partition's index.
        [2..] partition_index: i32,
        /// What went wrong.
        [2..] error_code: ErrorCode,
    }
}
