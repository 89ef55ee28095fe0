//! OAUTHBEARER (RFC 7628, and KIP-255 for extensions): one message with the token; a broker that refuses says why in JSON, and
//! is answered with a single byte before it ends the exchange.

use super::{SaslError, Step};

/// What parts key-value pairs.
const SEPARATOR: char = '\u{1}';

/// A client's side.
#[derive(Clone)]
pub struct OAuthBearerClient {
    token: String,
    extensions: Vec<(String, String)>,
    refusal: Option<String>,
}

impl std::fmt::Debug for OAuthBearerClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OAuthBearerClient").finish_non_exhaustive()
    }
}

impl OAuthBearerClient {
    /// With that token, and the SASL extensions of the login.
    pub fn new(token: &str, extensions: &[(String, String)]) -> OAuthBearerClient {
        OAuthBearerClient {
            token: token.to_owned(),
            extensions: extensions.to_vec(),
            refusal: None,
        }
    }

    /// The message.
    pub fn first(&self) -> Vec<u8> {
        let mut text = format!("n,,{SEPARATOR}auth=Bearer {}", self.token);
        for (name, value) in &self.extensions {
            text.push(SEPARATOR);
            text.push_str(name);
            text.push('=');
            text.push_str(value);
        }
        text.push(SEPARATOR);
        text.push(SEPARATOR);
        text.into_bytes()
    }

    /// Nothing follows a broker that agrees. One that refuses is sent the byte that lets it end the exchange; its reason
    /// is [`OAuthBearerClient::refusal`] then.
    ///
    /// # Errors
    ///
    /// When the broker goes on after its refusal was confirmed.
    pub fn next(&mut self, answer: &[u8]) -> Result<Step, SaslError> {
        if answer.is_empty() {
            return Ok(Step::Done);
        }
        if let Some(refusal) = &self.refusal {
            return Err(SaslError::Refused(refusal.clone()));
        }
        self.refusal = Some(String::from_utf8_lossy(answer).into_owned());
        Ok(Step::Send(vec![1]))
    }

    /// What the broker said when it refused.
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }
}

/// What a client says, as a server reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OAuthRequest<'a> {
    /// The token.
    pub token: &'a str,
    /// Pairs besides.
    pub extensions: Vec<(&'a str, &'a str)>,
}

impl<'a> OAuthRequest<'a> {
    /// Reads the message.
    ///
    /// # Errors
    ///
    /// When it has no bearer token, or is not of the form that RFC 7628 gives it.
    pub fn parse(message: &'a [u8]) -> Result<OAuthRequest<'a>, SaslError> {
        const WRONG: SaslError =
            SaslError::Malformed("an OAUTHBEARER message is a GS2 header and key-value pairs");
        let text = std::str::from_utf8(message).map_err(|_| WRONG)?;
        let (header, rest) = text.split_once(SEPARATOR).ok_or(WRONG)?;
        if !header.starts_with("n,") || !header.ends_with(',') {
            return Err(WRONG);
        }
        let rest = rest.strip_suffix(SEPARATOR).ok_or(WRONG)?;
        let mut token = None;
        let mut extensions = Vec::new();
        for pair in rest.split(SEPARATOR).filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or(WRONG)?;
            if name == "auth" {
                let (scheme, given) = value.split_once(' ').ok_or(WRONG)?;
                if !scheme.eq_ignore_ascii_case("bearer") {
                    return Err(SaslError::Malformed("the scheme of auth is to be Bearer"));
                }
                token = Some(given.trim());
            } else {
                extensions.push((name, value));
            }
        }
        let token = token.filter(|token| !token.is_empty()).ok_or(WRONG)?;
        Ok(OAuthRequest { token, extensions })
    }
}

/// How a server refuses a token (RFC 7628, section 3.2.2).
pub fn refusal(status: &str) -> Vec<u8> {
    format!("{{\"status\":\"{status}\"}}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_is_that_of_the_rfc() {
        let extensions = [
            ("host".to_owned(), "server.example.com".to_owned()),
            ("port".to_owned(), "143".to_owned()),
        ];
        let client = OAuthBearerClient::new("vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==", &extensions);
        let message = client.first();
        assert_eq!(
            String::from_utf8(message.clone()).unwrap(),
            "n,,\u{1}auth=Bearer vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==\u{1}host=server.example.com\u{1}port=143\u{1}\u{1}"
        );
        let read = OAuthRequest::parse(&message).unwrap();
        assert_eq!(read.token, "vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==");
        assert_eq!(read.extensions, [("host", "server.example.com"), ("port", "143")]);
        assert!(!format!("{client:?}").contains("vF9"), "a token is never shown");
    }

    #[test]
    fn a_refusal_is_confirmed_and_kept() {
        let mut client = OAuthBearerClient::new("t", &[]);
        assert_eq!(client.next(b""), Ok(Step::Done));
        let refused = refusal("invalid_token");
        assert_eq!(client.next(&refused), Ok(Step::Send(vec![1])));
        assert_eq!(client.refusal(), Some("{\"status\":\"invalid_token\"}"));
        assert!(matches!(client.next(&refused), Err(SaslError::Refused(_))));
    }

    #[test]
    fn other_messages_are_refused() {
        for bad in [
            &b""[..],
            b"n,,",
            b"n,,\x01\x01",
            b"y,,\x01auth=Bearer t\x01\x01",
            b"n,,\x01auth=Basic t\x01\x01",
            b"n,,\x01auth=Bearer \x01\x01",
            b"n,,\x01auth\x01\x01",
        ] {
            assert!(OAuthRequest::parse(bad).is_err(), "{bad:?}");
        }
    }
}
