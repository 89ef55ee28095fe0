//! InitProducerId, API key 22, versions 0 to 5; flexible from 2.
//!
//! 3 lets a producer raise its epoch (KIP-360).

use crate::ErrorCode;
use crate::schema::messages;

messages! {
    /// Asks for a producer id and epoch.
    request InitProducerIdRequest, INIT_PRODUCER_ID, versions 0..=5, flexible 2..,
        answered by InitProducerIdResponse {
        /// The transactional id; null for a producer that is only idempotent.
        [0..] transactional_id: Option<String>,
        /// After how many ms without an end the coordinator aborts a transaction.
        [0..] transaction_timeout_ms: i32,
        /// The producer id; −1 if there is none.
        [3..] producer_id: i64 = -1,
        /// The producer's epoch; −1 if there is none.
        [3..] producer_epoch: i16 = -1,
    }

    /// Answers [`InitProducerIdRequest`].
    response InitProducerIdResponse {
        /// For how many ms a quota holds the client back; newer brokers leave the waiting to the client.
        [0..] throttle_time_ms: i32,
        /// What went wrong.
        [0..] error_code: ErrorCode,
        /// The producer id; −1 if there is none.
        [0..] producer_id: i64 = -1,
        /// The producer's epoch; −1 if there is none.
        [0..] producer_epoch: i16,
    }
}
