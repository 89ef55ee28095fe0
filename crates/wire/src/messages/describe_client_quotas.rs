//! DescribeClientQuotas, API key 48, versions 0 to 1; flexible from 1.
//!
//! KIP-546.

use crate::ErrorCode;
use crate::schema::messages;

messages! {
    /// Asks for client quotas (KIP-546).
    request DescribeClientQuotasRequest, DESCRIBE_CLIENT_QUOTAS, versions 0..=1, flexible 1..,
        answered by DescribeClientQuotasResponse {
        /// What the entities must match.
        [0..] components: Vec<ComponentData>,
        /// Whether to leave out entities that have further parts.
        [0..] strict: bool,
    }

    /// One element of [`DescribeClientQuotasRequest::components`].
    struct ComponentData {
        /// The entity's type: `user`, `client-id` or `ip`.
        [0..] entity_type: String,
        /// 0 this name, 1 the default, 2 any name.
        [0..] match_type: i8,
        /// The name to match, named `match` in Kafka; null unless `match_type` is 0.
        [0..] match_name: Option<String>,
    }

    /// Answers [`DescribeClientQuotasRequest`].
    response DescribeClientQuotasResponse {
        /// For how many ms a quota holds the client back; newer brokers leave the waiting to the client.
        [0..] throttle_time_ms: i32,
        /// What went wrong.
        [0..] error_code: ErrorCode,
        /// The broker's explanation, if it gives one.
        [0..] error_message: Option<String>,
        /// The entries.
        [0..] entries: Option<Vec<EntryData>>,
    }

    /// One element of [`DescribeClientQuotasResponse::entries`].
    struct EntryData {
        /// The entity, by its parts.
        [0..] entity: Vec<EntityData>,
        /// The quotas.
        [0..] values: Vec<ValueData>,
    }

    /// One element of [`EntryData::entity`].
    struct EntityData {
        /// The entity's type: `user`, `client-id` or `ip`.
        [0..] entity_type: String,
        /// The entity's name; null is the default for its type.
        [0..] entity_name: Option<String>,
    }

    /// One element of [`EntryData::values`].
    struct ValueData {
        /// The quota's name.
        [0..] key: String,
        /// The value.
        [0..] value: f64,
    }
}
