//! ListTransactions, API key 66, versions 0 to 1; flexible from 0.
//!
//! KIP-664. 1 filters by duration (KIP-994).

use crate::ErrorCode;
use crate::schema::messages;

messages! {
    /// Asks which transactions a broker coordinates (KIP-664).
    request ListTransactionsRequest, LIST_TRANSACTIONS, versions 0..=1, flexible 0..,
        answered by ListTransactionsResponse {
        /// Lists only transactions in these states; empty lists all.
        [0..] state_filters: Vec<String>,
        /// Lists only these producers' transactions; empty lists all.
        [0..] producer_id_filters: Vec<i64>,
        /// Lists only transactions that have run for longer, in ms; negative lists all.
        [1..] duration_filter: i64 = -1,
    }

    /// Answers [`ListTransactionsRequest`].
    response ListTransactionsResponse {
        /// For how many ms a quota holds the client back; newer brokers leave the waiting to the client.
        [0..] throttle_time_ms: i32,
        /// What went wrong.
        [0..] error_code: ErrorCode,
        /// States asked for that the coordinator does not know.
        [0..] unknown_state_filters: Vec<String>,
        /// The transactions.
        [0..] transaction_states: Vec<TransactionState>,
    }

    /// One element of [`ListTransactionsResponse::transaction_states`].
    struct TransactionState {
        /// The transactional id.
        [0..] transactional_id: String,
        /// The producer id; −1 if there is none.
        [0..] producer_id: i64,
        /// The transaction's state, for example `Ongoing`.
        [0..] transaction_state: String,
    }
}
