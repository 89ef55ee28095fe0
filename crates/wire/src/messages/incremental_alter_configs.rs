//! IncrementalAlterConfigs, API key 44, versions 0 to 1; flexible from 1.
//!
//! KIP-339. Settings of a broker are changed at that broker.

use crate::ErrorCode;
use crate::schema::messages;

messages! {
    /// Changes single settings and leaves the others (KIP-339).
    request IncrementalAlterConfigsRequest, INCREMENTAL_ALTER_CONFIGS, versions 0..=1, flexible 1..,
        answered by IncrementalAlterConfigsResponse {
        /// The resources.
        [0..] resources: Vec<AlterConfigsResource>,
        /// Whether to check only, and change nothing.
        [0..] validate_only: bool,
    }

    /// One element of [`IncrementalAlterConfigsRequest::resources`].
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
        /// 0 sets, 1 deletes, 2 appends to a list, 3 subtracts from a list.
        [0..] config_operation: i8,
        /// The value; null where it is deleted.
        [0..] value: Option<String>,
    }

    /// Answers [`IncrementalAlterConfigsRequest`].
    response IncrementalAlterConfigsResponse {
        /// For how many ms a quota holds the client back; newer brokers leave the waiting to the client.
        [0..] throttle_time_ms: i32,
        /// The outcome for each.
        [0..] responses: Vec<AlterConfigsResourceResponse>,
    }

    /// One element of [`IncrementalAlterConfigsResponse::responses`].
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
