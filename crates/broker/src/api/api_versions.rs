//! ApiVersions (18), versions 0 to 4.
//!
//! A version that is not known is answered in the layout of version 0 with UNSUPPORTED_VERSION, as KIP-511 asks for, so
//! that newer clients can come back with an older one. Left out: features.

use super::SERVED;
use wire::ErrorCode;
use wire::messages::api_versions::{ApiVersion, ApiVersionsRequest, ApiVersionsResponse};

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
    ApiVersionsResponse {
        error_code,
        api_keys: api_keys.collect(),
        ..ApiVersionsResponse::default()
    }
}
