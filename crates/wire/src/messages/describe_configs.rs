//! DescribeConfigs, API key 32, versions 1 to 4; flexible from 4.
//!
//! 1 adds synonyms and the value's source, 3 its type and documentation (KIP-569). Settings of a broker are asked of that
//! broker.

use crate::ErrorCode;
use crate::schema::messages;

messages! {
    /// Asks for settings of topics, brokers and others.
    request DescribeConfigsRequest, DESCRIBE_CONFIGS, versions 1..=4, flexible 4..,
        answered by DescribeConfigsResponse {
        /// The resources.
        [1..] resources: Vec<DescribeConfigsResource>,
        /// Whether to list where else each value could have come from.
        [1..] include_synonyms: bool,
        /// Whether to say what each setting does.
        [3..] include_documentation: bool,
    }

    /// One element of [`DescribeConfigsRequest::resources`].
    struct DescribeConfigsResource {
        /// The resource's type: 2 topic, 4 broker, 8 logger, 16 client metrics, 32 group.
        [1..] resource_type: i8,
        /// The resource's name; a broker's is its node id in digits.
        [1..] resource_name: String,
        /// The settings to list; null lists all.
        [1..] configuration_keys: Option<Vec<String>>,
    }

    /// Answers [`DescribeConfigsRequest`].
    response DescribeConfigsResponse {
        /// For how many ms a quota holds the client back; newer brokers leave the waiting to the client.
        [1..] throttle_time_ms: i32,
        /// The outcome for each.
        [1..] results: Vec<DescribeConfigsResult>,
    }

    /// One element of [`DescribeConfigsResponse::results`].
    struct DescribeConfigsResult {
        /// What went wrong.
        [1..] error_code: ErrorCode,
        /// The broker's explanation, if it gives one.
        [1..] error_message: Option<String>,
        /// The resource's type: 2 topic, 4 broker, 8 logger, 16 client metrics, 32 group.
        [1..] resource_type: i8,
        /// The resource's name; a broker's is its node id in digits.
        [1..] resource_name: String,
        /// The settings.
        [1..] configs: Vec<DescribeConfigsResourceResult>,
    }

    /// One element of [`DescribeConfigsResult::configs`].
    struct DescribeConfigsResourceResult {
        /// The name.
        [1..] name: String,
        /// The value; null if it is kept secret.
        [1..] value: Option<String>,
        /// Whether the setting cannot be changed.
        [1..] read_only: bool,
        /// Where the value comes from: 1 topic, 2 this broker, 3 all brokers, 4 broker's file, 5 default, 6 logger,
        /// 7 client metrics, 8 group.
        [1..] config_source: i8 = -1,
        /// Whether the value is kept secret.
        [1..] is_sensitive: bool,
        /// Where else the value could have come from, the strongest first.
        [1..] synonyms: Vec<DescribeConfigsSynonym>,
        /// The value's type: 1 boolean, 2 string, 3 int, 4 short, 5 long, 6 double, 7 list, 8 class, 9 password.
        [3..] config_type: i8,
        /// What the setting does.
        [3..] documentation: Option<String>,
    }

    /// One element of [`DescribeConfigsResourceResult::synonyms`].
    struct DescribeConfigsSynonym {
        /// The name.
        [1..] name: String,
        /// The value.
        [1..] value: Option<String>,
        /// As `config_source`.
        [1..] source: i8,
    }
}
