//! ApiVersions, API key 18, versions 0 to 4; flexible from 3.
//!
//! The response has header version 0 in every version, and a request version that the broker does not know is answered in
//! version 0 with UNSUPPORTED_VERSION: see [`crate::header`]. 3 adds the client's name (KIP-511) and features (KIP-584).

use crate::schema::messages;
use crate::{ApiKey, ErrorCode};

messages! {
    /// Asks which versions of which APIs the broker serves. The first request on a connection.
    request ApiVersionsRequest, API_VERSIONS, versions 0..=4, flexible 3..,
        answered by ApiVersionsResponse {
        /// The client's name. Letters, digits, `.` and `-`; a broker refuses others.
        [3..] client_software_name: String,
        /// The client's version, under the same rules.
        [3..] client_software_version: String,
    }

    /// Answers [`ApiVersionsRequest`].
    response ApiVersionsResponse {
        /// What went wrong.
        [0..]        error_code: ErrorCode,
        /// What the broker serves.
        [0..]        api_keys: Vec<ApiVersion>,
        /// For how many ms a quota holds the client back; newer brokers leave the waiting to the client.
        [1..]        throttle_time_ms: i32,
        /// The features that this broker supports.
        [3.., tag 0] supported_features: Vec<SupportedFeatureKey>,
        /// Grows with each change of the features in use; −1 if not known.
        [3.., tag 1] finalized_features_epoch: i64 = -1,
        /// The features in use in the cluster.
        [3.., tag 2] finalized_features: Vec<FinalizedFeatureKey>,
        /// Whether the broker is ready to leave ZooKeeper.
        [3.., tag 3] zk_migration_ready: bool,
    }

    /// One element of [`ApiVersionsResponse::api_keys`].
    struct ApiVersion {
        /// The API.
        [0..] api_key: ApiKey,
        /// The oldest version.
        [0..] min_version: i16,
        /// The newest version.
        [0..] max_version: i16,
    }

    /// One element of [`ApiVersionsResponse::supported_features`].
    struct SupportedFeatureKey {
        /// The name.
        [3..] name: String,
        /// The oldest version.
        [3..] min_version: i16,
        /// The newest version.
        [3..] max_version: i16,
    }

    /// One element of [`ApiVersionsResponse::finalized_features`].
    struct FinalizedFeatureKey {
        /// The name.
        [3..] name: String,
        /// The highest level that brokers may use.
        [3..] max_version_level: i16,
        /// The lowest level that brokers may use.
        [3..] min_version_level: i16,
    }
}
