//! PLAIN (RFC 4616): one message, the password in clear.

use super::SaslError;

/// A client's side.
#[derive(Clone)]
pub struct PlainClient {
    username: String,
    password: String,
}

impl std::fmt::Debug for PlainClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PlainClient")
            .field("username", &self.username)
            .finish_non_exhaustive()
    }
}

impl PlainClient {
    /// For that user.
    pub fn new(username: &str, password: &str) -> PlainClient {
        PlainClient {
            username: username.to_owned(),
            password: password.to_owned(),
        }
    }

    /// The one message: an empty authorization id, so that the broker takes the user's name for it.
    pub fn first(&self) -> Vec<u8> {
        [b"\0", self.username.as_bytes(), b"\0", self.password.as_bytes()].concat()
    }
}

/// What a client says, as a server reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainRequest<'a> {
    /// For whom it wants to act; empty for itself.
    pub authorization_id: &'a str,
    /// Who it is.
    pub username: &'a str,
    /// How it proves that.
    pub password: &'a str,
}

impl<'a> PlainRequest<'a> {
    /// Reads the message.
    ///
    /// # Errors
    ///
    /// When it is not three texts parted by zero bytes, or a name or a password is empty.
    pub fn parse(message: &'a [u8]) -> Result<PlainRequest<'a>, SaslError> {
        const WRONG: SaslError = SaslError::Malformed(
            "a PLAIN message is an authorization id, a name and a password, parted by zero bytes",
        );
        let text = std::str::from_utf8(message).map_err(|_| WRONG)?;
        let mut parts = text.split('\0');
        let (Some(authorization_id), Some(username), Some(password), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(WRONG);
        };
        if username.is_empty() || password.is_empty() {
            return Err(SaslError::Malformed("a PLAIN message lacks a name or a password"));
        }
        Ok(PlainRequest {
            authorization_id,
            username,
            password,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_is_that_of_the_rfc() {
        // RFC 4616, section 4: tim, tanstaaftanstaaf.
        let client = PlainClient::new("tim", "tanstaaftanstaaf");
        let message = client.first();
        assert_eq!(message, b"\0tim\0tanstaaftanstaaf");
        let read = PlainRequest::parse(&message).unwrap();
        assert_eq!(
            (read.authorization_id, read.username, read.password),
            ("", "tim", "tanstaaftanstaaf")
        );
        assert!(
            !format!("{client:?}").contains("tanstaaf"),
            "a password is never shown"
        );
    }

    #[test]
    fn what_is_not_three_texts_is_refused() {
        for bad in [&b""[..], b"\0a", b"\0a\0b\0c", b"\0\0b", b"\0a\0", b"\0\xff\0b"] {
            assert!(PlainRequest::parse(bad).is_err(), "{bad:?}");
        }
    }
}
