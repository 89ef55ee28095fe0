//! WriteTxnMarkers, API key 27, versions 1 to 1; flexible from 1.
//!
//! Brokers send it to each other at the end of a transaction, and administrators to end one that hangs (KIP-664).

use crate::ErrorCode;
use crate::schema::messages;

messages! {
    /// Writes the markers that end transactions.
    request WriteTxnMarkersRequest, WRITE_TXN_MARKERS, versions 1..=1, flexible 1..,
        answered by WriteTxnMarkersResponse {
        /// The markers.
        [1..] markers: Vec<WritableTxnMarker>,
    }

    /// One element of [`WriteTxnMarkersRequest::markers`].
    struct WritableTxnMarker {
        /// The producer id.
        [1..] producer_id: i64,
        /// The producer's epoch.
        [1..] producer_epoch: i16,
        /// Whether the transaction is committed; otherwise it is aborted.
        [1..] transaction_result: bool,
        /// The partitions that get the marker, by topic.
        [1..] topics: Vec<WritableTxnMarkerTopic>,
        /// The epoch of the coordinator that ends the transaction.
        [1..] coordinator_epoch: i32,
    }

    /// One element of [`WritableTxnMarker::topics`].
    struct WritableTxnMarkerTopic {
        /// The name.
        [1..] name: String,
        /// The partitions.
        [1..] partition_indexes: Vec<i32>,
    }

    /// Answers [`WriteTxnMarkersRequest`].
    response WriteTxnMarkersResponse {
        /// The outcome for each marker.
        [1..] markers: Vec<WritableTxnMarkerResult>,
    }

    /// One element of [`WriteTxnMarkersResponse::markers`].
    struct WritableTxnMarkerResult {
        /// The producer id.
        [1..] producer_id: i64,
        /// The outcome, by topic.
        [1..] topics: Vec<WritableTxnMarkerTopicResult>,
    }

    /// One element of [`WritableTxnMarkerResult::topics`].
    struct WritableTxnMarkerTopicResult {
        /// The name.
        [1..] name: String,
        /// The outcome for each partition.
        [1..] partitions: Vec<WritableTxnMarkerPartitionResult>,
    }

    /// One element of [`WritableTxnMarkerTopicResult::partitions`].
    struct WritableTxnMarkerPartitionResult {
        /// The partition's index.
        [1..] partition_index: i32,
        /// What went wrong.
        [1..] error_code: ErrorCode,
    }
}
