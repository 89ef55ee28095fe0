//! AlterClientQuotas, API key 49, versions 0 to 1; flexible from 1.
//!
//! KIP-546.

use crate::ErrorCode;
use crate::schema::messages;

messages! {
    /// Changes client quotas (KIP-546).
    request AlterClientQuotasRequest, ALTER_CLIENT_QUOTAS, versions 0..=1, flexible 1..,
        answered by AlterClientQuotasResponse {
        /// The entries.
        [0..] entries: Vec<EntryData>,
        /// Whether to check only, and change nothing.
        [0..] validate_only: bool,
    }

    /// One element of [`AlterClientQuotasRequest::entries`].
    struct EntryData {
        /// The entity, by its parts.
        [0..] entity: Vec<EntityData>,
        /// What is changed.
        [0..] ops: Vec<OpData>,
    }

    /// One element of [`EntryData::entity`].
    struct EntityData {
        /// The entity's type: `user`, `client-id` or `ip`.
        [0..] entity_type: String,
        /// The entity's name; null is the default for its type.
        [0..] entity_name: Option<String>,
    }

    /// One element of [`EntryData::ops`].
    struct OpData {
        /// The quota's name.
        [0..] key: String,
        /// The value.
        [0..] value: f64,
        /// Whether the quota is removed rather than set.
        [0..] remove: bool,
    }

    /// Answers [`AlterClientQuotasRequest`].
    response AlterClientQuotasResponse {
        /// For how many ms a quota holds the client back; newer brokers leave the waiting to the client.
        [0..] throttle_time_ms: i32,
        /// The entries.
        [0..] entries: Vec<ResponseEntryData>,
    }

    /// One element of [`AlterClientQuotasResponse::entries`].
    struct ResponseEntryData {
        /// What went wrong.
        [0..] error_code: ErrorCode,
        /// The broker's explanation, if it gives one.
        [0..] error_message: Option<String>,
        /// The entity, by its parts.
        [0..] entity: Vec<EntityData>,
    }
}
