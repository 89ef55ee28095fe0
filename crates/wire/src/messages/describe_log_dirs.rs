//! DescribeLogDirs, API key 35, versions 1 to 4; flexible from 2.
//!
//! KIP-113. 3 adds an error for the whole answer, 4 the volume's size and free space (KIP-827). Each broker knows only its
//! own directories.

use crate::ErrorCode;
use crate::schema::messages;

messages! {
    /// Asks how much each log takes on a broker, and how much space is left.
    request DescribeLogDirsRequest, DESCRIBE_LOG_DIRS, versions 1..=4, flexible 2..,
        answered by DescribeLogDirsResponse {
        /// The topics to describe; null is all.
        [1..] topics: Option<Vec<DescribableLogDirTopic>>,
    }

    /// One element of [`DescribeLogDirsRequest::topics`].
    struct DescribableLogDirTopic {
        /// The topic's name.
        [1..] topic: String,
        /// The partitions.
        [1..] partitions: Vec<i32>,
    }

    /// Answers [`DescribeLogDirsRequest`].
    response DescribeLogDirsResponse {
        /// For how many ms a quota holds the client back; newer brokers leave the waiting to the client.
        [1..] throttle_time_ms: i32,
        /// What went wrong.
        [3..] error_code: ErrorCode,
        /// The outcome for each.
        [1..] results: Vec<DescribeLogDirsResult>,
    }

    /// One element of [`DescribeLogDirsResponse::results`].
    struct DescribeLogDirsResult {
        /// What went wrong.
        [1..] error_code: ErrorCode,
        /// The directory's absolute path on the broker's host.
        [1..] log_dir: String,
        /// The topics.
        [1..] topics: Vec<DescribeLogDirsTopic>,
        /// The size of the volume that the directory is on, in bytes; −1 if not known.
        [4..] total_bytes: i64 = -1,
        /// The free space of the volume that the directory is on, in bytes; −1 if not known.
        [4..] usable_bytes: i64 = -1,
    }

    /// One element of [`DescribeLogDirsResult::topics`].
    struct DescribeLogDirsTopic {
        /// The name.
        [1..] name: String,
        /// The partitions.
        [1..] partitions: Vec<DescribeLogDirsPartition>,
    }

    /// One element of [`DescribeLogDirsTopic::partitions`].
    struct DescribeLogDirsPartition {
        /// The partition's index.
        [1..] partition_index: i32,
        /// The size of the log's segments, in bytes.
        [1..] partition_size: i64,
        /// How far the log is behind: the high watermark less its end, or for a future log, the other log's end less its own.
        [1..] offset_lag: i64,
        /// Whether the log is being built to replace that of another directory.
        [1..] is_future_key: bool,
    }
}
