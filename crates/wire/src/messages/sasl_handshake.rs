//! SaslHandshake, API key 17, versions 0 to 1; never flexible.
//!
//! With version 0 the tokens follow without any header; with version 1 they travel in SaslAuthenticate (KIP-152).

use crate::ErrorCode;
use crate::schema::messages;

messages! {
    /// Chooses the SASL mechanism.
    request SaslHandshakeRequest, SASL_HANDSHAKE, versions 0..=1, flexible never,
        answered by SaslHandshakeResponse {
        /// The SASL mechanism, for example `PLAIN`.
        [0..] mechanism: String,
    }

    /// Answers [`SaslHandshakeRequest`].
    response SaslHandshakeResponse {
        /// What went wrong.
        [0..] error_code: ErrorCode,
        /// The mechanisms that the broker offers.
        [0..] mechanisms: Vec<String>,
    }
}
