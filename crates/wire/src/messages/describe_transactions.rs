//! DescribeTransactions, API key 65, versions 0 to 0; flexible from 0.
//!
//! KIP-664.

use crate::ErrorCode;
use crate::schema::messages;

messages! {
    /// Asks for the state of transactions (KIP-664).
    request DescribeTransactionsRequest, DESCRIBE_TRANSACTIONS, versions 0..=0, flexible 0..,
        answered by DescribeTransactionsResponse {
        /// The transactional ids.
        [0..] transactional_ids: Vec<String>,
    }

    /// Answers [`DescribeTransactionsRequest`].
    response DescribeTransactionsResponse {
        /// For how many ms a quota holds the client back; newer brokers leave the waiting to the client.
        [0..] throttle_time_ms: i32,
        /// The transactions.
        [0..] transaction_states: Vec<TransactionState>,
    }

    /// One element of [`DescribeTransactionsResponse::transaction_states`].
    struct TransactionState {
        /// What went wrong.
        [0..] error_code: ErrorCode,
        /// The transactional id.
        [0..] transactional_id: String,
        /// The transaction's state, for example `Ongoing`.
        [0..] transaction_state: String,
        /// After how many ms without an end the coordinator aborts a transaction.
        [0..] transaction_timeout_ms: i32,
        /// When the transaction began, in ms since 1970; −1 if it has not.
        [0..] transaction_start_time_ms: i64,
        /// The producer id; −1 if there is none.
        [0..] producer_id: i64,
        /// The producer's epoch; −1 if there is none.
        [0..] producer_epoch: i16,
        /// The topics.
        [0..] topics: Vec<TopicData>,
    }

    /// One element of [`TransactionState::topics`].
    struct TopicData {
        /// The topic's name.
        [0..] topic: String,
        /// The partitions.
        [0..] partitions: Vec<i32>,
    }
}
