//! AddOffsetsToTxn, API key 25, versions 0 to 4; flexible from 3.
//!
//! KIP-98.

use crate::ErrorCode;
use crate::schema::messages;

messages! {
    /// Adds a group's offsets to a transaction.
    request AddOffsetsToTxnRequest, ADD_OFFSETS_TO_TXN, versions 0..=4, flexible 3..,
        answered by AddOffsetsToTxnResponse {
        /// The transactional id.
        [0..] transactional_id: String,
        /// The producer id; −1 if there is none.
        [0..] producer_id: i64,
        /// The producer's epoch; −1 if there is none.
        [0..] producer_epoch: i16,
        /// The group.
        [0..] group_id: String,
    }

    /// Answers [`AddOffsetsToTxnRequest`].
    response AddOffsetsToTxnResponse {
        /// For how many ms a quota holds the client back; newer brokers leave the waiting to the client.
        [0..] throttle_time_ms: i32,
        /// What went wrong.
        [0..] error_code: ErrorCode,
    }
}
