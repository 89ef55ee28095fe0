//! SaslAuthenticate, API key 36, versions 0 to 2; flexible from 2.
//!
//! 1 tells after which time the client has to authenticate again (KIP-368).

use crate::ErrorCode;
use crate::schema::messages;

messages! {
    /// Carries one step of a SASL exchange.
    request SaslAuthenticateRequest, SASL_AUTHENTICATE, versions 0..=2, flexible 2..,
        answered by SaslAuthenticateResponse {
        /// The SASL mechanism's own bytes.
        [0..] auth_bytes: Vec<u8>,
    }

    /// Answers [`SaslAuthenticateRequest`].
    response SaslAuthenticateResponse {
        /// What went wrong.
        [0..] error_code: ErrorCode,
        /// The broker's explanation, if it gives one.
        [0..] error_message: Option<String>,
        /// The SASL mechanism's own bytes.
        [0..] auth_bytes: Vec<u8>,
        /// After how many ms the client has to authenticate again; 0 never.
        [1..] session_lifetime_ms: i64,
    }
}
