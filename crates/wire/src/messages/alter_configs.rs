//! AlterConfigs, API key 33, versions 0 to 2; flexible from 2.
//!
//! Superseded by IncrementalAlterConfigs, and the only choice with brokers before 2.3.

use crate::ErrorCode;
use crate::schema::messages;

messages! {
    /// Replaces all settings of a resource; those that are not named fall back to their defaults.
    request AlterConfigsRequest, ALTER_CONFIGS, versions 0..=2, flexible 2..,
        answered by AlterConfigsResponse {
        /// The resources.
        [0..] resources: Vec<AlterConfigsResource>,
        /// Whether to check only, and change nothing.
        [0..] validate_only: bool,
    }

    /// One element of [`AlterConfigsRequest::resources`].
    struct AlterConfigsResource {
        /// The resource's type: 2 topic, 4 broker, 8 logger, 16 client metrics, 32 group.
        [0..] resource_type: i8,
        /// The resource's name; a broker's is its node id in digits.
        [0..] resource_name: String,
        /// The settings.
        [0..] configs: Vec<AlterableConfig>,
    }

    /// One element of [`AlterConfigsResource::configs`].
    struct AlterableConfig {
        /// The name.
        [0..] name: String,
        /// The value; null where it is deleted.
        [0..] value: Option<String>,
    }

    /// Answers [`AlterConfigsRequest`].
    response AlterConfigsResponse {
        /// For how many ms a quota holds the client back; newer brokers leave the waiting to the client.
        [0..] throttle_time_ms: i32,
        /// The outcome for each.
        [0..] responses: Vec<AlterConfigsResourceResponse>,
    }

    /// One element of [`AlterConfigsResponse::responses`].
    struct AlterConfigsResourceResponse {
        /// What went wrong.
        [0..] error_code: ErrorCode,
        /// The broker's explanation, if it gives one.
        [0..] error_message: Option<String>,
        /// The resource's type: 2 topic, 4 broker, 8 logger, 16 client metrics, 32 group.
        [0..] resource_type: i8,
        /// The resource's name; a broker's is its node id in digits.
        [0..] resource_name: String,
    }
}
