//! SaslAuthenticate (36), versions 0 to 2.
//!
//! What a token means is decided by `login`; here are the answers. Where no login has been begun, the answer is
//! ILLEGAL_SASL_STATE. Left out: nothing.

use super::encode;
use crate::answer::Answer;
use crate::reply::ReplyTo;
use wire::ErrorCode;
use wire::messages::sasl_authenticate::{SaslAuthenticateRequest, SaslAuthenticateResponse};

/// A token is not expected.
pub(super) fn serve(_request: SaslAuthenticateRequest) -> SaslAuthenticateResponse {
    SaslAuthenticateResponse {
        error_code: ErrorCode::ILLEGAL_SASL_STATE,
        error_message: Some("no login has been begun by SaslHandshake".to_owned()),
        ..SaslAuthenticateResponse::default()
    }
}

/// The exchange goes on, or is complete.
pub(crate) fn accepted(to: ReplyTo, auth_bytes: Vec<u8>, session_lifetime_ms: i64) -> Answer {
    encode::<SaslAuthenticateRequest>(
        to,
        &SaslAuthenticateResponse {
            auth_bytes,
            session_lifetime_ms,
            ..SaslAuthenticateResponse::default()
        },
    )
}

/// The login has failed.
pub(crate) fn refused(to: ReplyTo, why: &str) -> Answer {
    encode::<SaslAuthenticateRequest>(
        to,
        &SaslAuthenticateResponse {
            error_code: ErrorCode::SASL_AUTHENTICATION_FAILED,
            error_message: Some(why.to_owned()),
            ..SaslAuthenticateResponse::default()
        },
    )
}
