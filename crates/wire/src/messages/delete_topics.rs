//! DeleteTopics, API key 20, versions 1 to 6; flexible from 4.
//!
//! 4 is flexible, 5 explains errors (KIP-599), 6 deletes by id (KIP-516).

use crate::ErrorCode;
use crate::codec::Uuid;
use crate::schema::messages;

messages! {
    /// Deletes topics.
    request DeleteTopicsRequest, DELETE_TOPICS, versions 1..=6, flexible 4..,
        answered by DeleteTopicsResponse {
        /// The topics.
        [6..]   topics: Vec<DeleteTopicState>,
        /// The topics' names.
        [1..=5] topic_names: Vec<String>,
        /// How long the broker may take, in ms.
        [1..]   timeout_ms: i32,
    }

    /// One element of [`DeleteTopicsRequest::topics`].
    struct DeleteTopicState {
        /// The topic's name; null deletes by id.
        [6..] name: Option<String>,
        /// The topic's id; zero if not known.
        [6..] topic_id: Uuid,
    }

    /// Answers [`DeleteTopicsRequest`].
    response DeleteTopicsResponse {
        /// For how many ms a quota holds the client back; newer brokers leave the waiting to the client.
        [1..] throttle_time_ms: i32,
        /// The outcome for each.
        [1..] responses: Vec<DeletableTopicResult>,
    }

    /// One element of [`DeleteTopicsResponse::responses`].
    struct DeletableTopicResult {
        /// The name.
        [1.., null 6..] name: Option<String>,
        /// The topic's id; zero if not known.
        [6..]           topic_id: Uuid,
        /// What went wrong.
        [1..]           error_code: ErrorCode,
        /// The broker's explanation, if it gives one.
        [5..]           error_message: Option<String>,
    }
}
