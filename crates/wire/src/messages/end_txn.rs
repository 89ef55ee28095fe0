//! EndTxn, API key 26, versions 0 to 5; flexible from 3.
//!
//! 5 answers with the producer id and epoch to go on with (transactions v2, KIP-890).

use crate::ErrorCode;
use crate::schema::messages;

messages! {
    /// Commits or aborts a transaction.
    request EndTxnRequest, END_TXN, versions 0..=5, flexible 3..,
        answered by EndTxnResponse {
        /// The transactional id.
        [0..] transactional_id: String,
        /// The producer id; −1 if there is none.
        [0..] producer_id: i64,
        /// The producer's epoch; −1 if there is none.
        [0..] producer_epoch: i16,
        /// Whether the transaction is committed; otherwise it is aborted.
        [0..] committed: bool,
    }

    /// Answers [`EndTxnRequest`].
    response EndTxnResponse {
        /// For how many ms a quota holds the client back; newer brokers leave the waiting to the client.
        [0..] throttle_time_ms: i32,
        /// What went wrong.
        [0..] error_code: ErrorCode,
        /// The producer id to go on with (transactions v2); −1 if unchanged.
        [5..] producer_id: i64 = -1,
        /// The epoch to go on with (transactions v2); −1 if unchanged.
        [5..] producer_epoch: i16 = -1,
    }
}
