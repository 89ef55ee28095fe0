//! ApiVersions (18), versions 0 to 4.
//!
//! A version that is not known is answered in the layout of version 0 with UNSUPPORTED_VERSION, as KIP-511 asks for, so
//! that newer clients can come back with an older one. The features are the second transaction protocol and what else
//! clients decide by. Left out: the check of cluster and node id (version 5).

use super::SERVED;
use wire::ErrorCode;
use wire::messages::api_versions::{
    ApiVersion, ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey,
};

/// The features in use, with their levels.
const FEATURES: &[(&str, i16)] = &[("group.version", 1), ("transaction.version", 2)];

pub(super) fn serve(_request: ApiVersionsRequest) -> ApiVersionsResponse {
    response(ErrorCode::NONE)
}

/// What is served, with an error in front.
pub(super) fn response(error_code: ErrorCode) -> ApiVersionsResponse {
    let api_keys = SERVED.iter().map(|(api_key, oldest, newest)| ApiVersion {
        api_key: *api_key,
        min_version: *oldest,
        max_version: *newest,
    });
    let supported = FEATURES.iter().map(|(name, level)| SupportedFeatureKey {
        name: (*name).to_owned(),
        min_version: 0,
        max_version: *level,
    });
    let finalized = FEATURES.iter().map(|(name, level)| FinalizedFeatureKey {
        name: (*name).to_owned(),
        max_version_level: *level,
        min_version_level: *level,
    });
    ApiVersionsResponse {
        error_code,
        supported_features: supported.collect(),
        finalized_features_epoch: 1,
        finalized_features: finalized.collect(),
        api_keys: api_keys.collect(),
        ..ApiVersionsResponse::default()
    }
}
