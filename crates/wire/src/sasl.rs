//! What is said within SaslAuthenticate: the exchanges of each mechanism, from both sides, as bytes in and bytes out.
//!
//! Kafka wraps them in SaslHandshake (which names the mechanism) and SaslAuthenticate (one message each way). A client's
//! exchange begins with [`ClientExchange::first`]; each answer of the broker goes to [`ClientExchange::next`], which gives
//! the next message or says that the exchange is complete.

mod oauthbearer;
mod plain;
mod scram;

pub use oauthbearer::{OAuthBearerClient, OAuthRequest, refusal as oauth_refusal};
pub use plain::{PlainClient, PlainRequest};
pub use scram::{ScramClient, ScramCredential, ScramHash, ScramServer};

/// Why an exchange cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SaslError {
    /// The other side does not follow the mechanism.
    #[error("{0}")]
    Malformed(&'static str),
    /// The broker could not prove that it knows the password, so it may not be the broker.
    #[error("the broker did not prove that it knows the password: it may be another than it claims to be")]
    ServerNotAuthentic,
    /// The other side refuses, in its words.
    #[error("{0}")]
    Refused(String),
}

/// What follows an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// This is to be sent.
    Send(Vec<u8>),
    /// The exchange is complete.
    Done,
}

/// A client's side of one exchange, whatever its mechanism.
#[derive(Clone, Debug)]
pub enum ClientExchange {
    /// PLAIN (RFC 4616).
    Plain(PlainClient),
    /// SCRAM (RFC 5802), boxed since it is much larger than the others.
    Scram(Box<ScramClient>),
    /// OAUTHBEARER (RFC 7628).
    OAuthBearer(OAuthBearerClient),
}

impl ClientExchange {
    /// The mechanism's name, as SaslHandshake carries it.
    pub fn mechanism(&self) -> &'static str {
        match self {
            ClientExchange::Plain(_) => "PLAIN",
            ClientExchange::Scram(scram) => scram.hash().mechanism(),
            ClientExchange::OAuthBearer(_) => "OAUTHBEARER",
        }
    }

    /// The first message.
    pub fn first(&mut self) -> Vec<u8> {
        match self {
            ClientExchange::Plain(plain) => plain.first(),
            ClientExchange::Scram(scram) => scram.first(),
            ClientExchange::OAuthBearer(bearer) => bearer.first(),
        }
    }

    /// What follows the broker's answer.
    ///
    /// # Errors
    ///
    /// When the answer does not follow the mechanism, or the broker refuses.
    pub fn next(&mut self, answer: &[u8]) -> Result<Step, SaslError> {
        match self {
            ClientExchange::Plain(_) => Ok(Step::Done),
            ClientExchange::Scram(scram) => scram.next(answer),
            ClientExchange::OAuthBearer(bearer) => bearer.next(answer),
        }
    }
}
