//! SaslHandshake (17), versions 0 to 1.
//!
//! The mechanism is chosen by `login`; here are the answers. Where no login is expected, or one was begun anew less than a second
//! ago, the answer is ILLEGAL_SASL_STATE. Left out: GSSAPI, and the tokens of GSSAPI clients that send no SaslHandshake.

use super::encode;
use crate::answer::Answer;
use crate::reply::ReplyTo;
use wire::ErrorCode;
use wire::messages::sasl_handshake::{SaslHandshakeRequest, SaslHandshakeResponse};

/// A login is not expected.
pub(super) fn serve(_request: SaslHandshakeRequest) -> SaslHandshakeResponse {
    SaslHandshakeResponse {
        error_code: ErrorCode::ILLEGAL_SASL_STATE,
        ..SaslHandshakeResponse::default()
    }
}

/// Whether the mechanism that was asked for is enabled, and which are.
pub(crate) fn response(to: ReplyTo, is_enabled: bool, mechanisms: &[&str]) -> Answer {
    let error_code = match is_enabled {
        true => ErrorCode::NONE,
        false => ErrorCode::UNSUPPORTED_SASL_MECHANISM,
    };
    encode::<SaslHandshakeRequest>(
        to,
        &SaslHandshakeResponse {
            error_code,
            mechanisms: mechanisms.iter().map(|name| (*name).to_owned()).collect(),
        },
    )
}
