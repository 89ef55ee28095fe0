//! Logging in by SASL: what a connection may ask before it has, how it does, and when it has to again.
//!
//! As in Kafka, ApiVersions and SaslHandshake come first, in this order, and nothing else is served before the login is
//! complete; whatever else comes ends the connection. After version 0 of SaslHandshake the tokens travel as frames without any
//! header, after version 1 in SaslAuthenticate (KIP-152). A session that is limited (`connections.max.reauth.ms`, or the time
//! of a bearer token) ends at the first request after its time, unless the client has logged in anew before (KIP-368), as the
//! same principal and by the same mechanism.
//!
//! Left out: GSSAPI, delegation tokens, `connection.failed.authentication.delay.ms`: a refusal is told at once.

use crate::answer::Answer;
use crate::api::{Frame, Outcome, sasl_authenticate, sasl_handshake};
use crate::reply::ReplyTo;
use crate::security::{Mechanism, Mechanisms};
use std::sync::Arc;
use wire::ApiKey;
use wire::codec::Reader;
use wire::header::{ResponseFrame, decode_request_body, decode_request_header};
use wire::messages::{SaslAuthenticateRequest, SaslHandshakeRequest};
use wire::sasl::{OAuthRequest, PlainRequest, SaslError, ScramServer, oauth_refusal};

/// A client that logs in anew more often than that is refused, as by Kafka.
const AGAIN_AFTER_NS: u64 = 1_000_000_000;
/// What every failed login is told. By PLAIN nobody learns which half was wrong; by SCRAM an unknown user is refused one step
/// earlier.
const WRONG: &str = "Authentication failed: no such user, or a wrong password";

/// Where the login of a connection stands.
#[derive(Debug)]
pub(crate) struct Login {
    mechanisms: Arc<Mechanisms>,
    state: State,
    /// Who has logged in.
    session: Option<Session>,
    /// When the client last began to log in anew.
    again_at: Option<u64>,
}

#[derive(Debug)]
enum State {
    /// Nothing has come.
    New,
    /// ApiVersions has been answered.
    Known,
    /// The mechanism is chosen.
    Exchanging {
        mechanism: Mechanism,
        exchange: Exchange,
        /// Tokens are frames without headers.
        is_raw: bool,
    },
    Done,
}

#[derive(Debug, PartialEq, Eq)]
struct Session {
    principal: String,
    mechanism: Mechanism,
    /// `None`: it does not end.
    ends_at: Option<u64>,
}

#[derive(Debug, Default)]
enum Exchange {
    #[default]
    First,
    /// The client's proof is awaited.
    Scram(Box<ScramServer>),
    /// The client has been told that its token is refused, and is to confirm that.
    Refused(String),
}

/// What follows a token.
enum Step {
    Challenge(Vec<u8>),
    /// The login is complete.
    Complete {
        last: Vec<u8>,
        principal: String,
        /// When what the client has shown expires, in ms since 1970.
        expires_ms: Option<i64>,
    },
    Failed(String),
}

/// Who asks, as the header says, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) key: ApiKey,
    pub(crate) is_served: bool,
    pub(crate) to: ReplyTo,
    pub(crate) now: u64,
}

impl Login {
    pub(crate) fn new(mechanisms: Arc<Mechanisms>) -> Login {
        Login {
            mechanisms,
            state: State::New,
            session: None,
            again_at: None,
        }
    }

    /// Whether the client has logged in; it stays so while it does so anew.
    pub(crate) fn is_complete(&self) -> bool {
        self.session.is_some()
    }

    /// The largest frame that is taken before.
    pub(crate) fn most_frame_bytes(&self) -> usize {
        self.mechanisms.most_frame_bytes
    }

    /// Whether the next frame is a token without a header.
    pub(crate) fn awaits_bare_token(&self) -> bool {
        matches!(self.state, State::Exchanging { is_raw: true, .. })
    }

    /// Whether a frame is a request that can be served now. What is not ends the connection, or is a token without a header, and
    /// is no request to the rig.
    pub(crate) fn admits_frame(&self, frame: &Frame<'_>) -> bool {
        let bytes = frame.buffer.read();
        let header = bytes.get(frame.range.clone()).map(decode_request_header);
        let key = header.and_then(Result::ok).map(|(header, _)| header.api_key);
        !self.awaits_bare_token() && key.is_some_and(|key| self.admits(key))
    }

    fn admits(&self, key: ApiKey) -> bool {
        match self.state {
            State::New => matches!(key, ApiKey::API_VERSIONS | ApiKey::SASL_HANDSHAKE),
            State::Known => key == ApiKey::SASL_HANDSHAKE,
            State::Exchanging { .. } => key == ApiKey::SASL_AUTHENTICATE,
            State::Done => true,
        }
    }

    /// What becomes of a request by what the login says; `None` where it is served as any other.
    pub(crate) fn serve(&mut self, asked: Asked, input: &mut Reader<'_>) -> Option<Outcome> {
        let Asked { key, now, .. } = asked;
        if !self.admits(key) {
            return Some(Outcome::Hangup);
        }
        match (&self.state, key) {
            (State::New, ApiKey::API_VERSIONS) => {
                // Refused for its version, it may come again.
                if asked.is_served {
                    self.state = State::Known;
                }
                None
            }
            (State::Done, ApiKey::SASL_HANDSHAKE) if asked.is_served => {
                // Too early, it is answered as one that is out of place.
                let may_begin = self.may_begin_again(now);
                may_begin.then(|| {
                    self.again_at = Some(now);
                    self.handshake(asked, input)
                })
            }
            (State::Done, _) => self.is_over(now).then_some(Outcome::Hangup),
            _ if !asked.is_served => Some(Outcome::Hangup),
            (State::New | State::Known, _) => Some(self.handshake(asked, input)),
            (State::Exchanging { .. }, _) => Some(self.authenticate(asked, input)),
        }
    }

    /// As whom the client has logged in.
    pub(crate) fn principal(&self) -> Option<&str> {
        self.session.as_ref().map(|session| session.principal.as_str())
    }

    /// What becomes of a frame that is a token and nothing else.
    pub(crate) fn bare_token(&mut self, token: &[u8], now: u64) -> Outcome {
        let framed = |bytes: Vec<u8>| {
            let length = i32::try_from(bytes.len()).unwrap_or(i32::MAX);
            Outcome::Answer(Answer::from_frame(ResponseFrame {
                bytes: [&length.to_be_bytes(), bytes.as_slice()].concat(),
                throttle_time_at: None,
            }))
        };
        match self.step(token, now) {
            Step::Challenge(bytes) => framed(bytes),
            Step::Complete {
                last,
                principal,
                expires_ms,
            } => match self.complete(principal, expires_ms, now) {
                Ok(_) => framed(last),
                Err(_) => Outcome::Hangup,
            },
            // There is no room for a reason.
            Step::Failed(_) => Outcome::Hangup,
        }
    }

    fn may_begin_again(&self, now: u64) -> bool {
        self.again_at
            .is_none_or(|at| now.saturating_sub(at) >= AGAIN_AFTER_NS)
    }

    fn is_over(&self, now: u64) -> bool {
        let ends_at = self.session.as_ref().and_then(|session| session.ends_at);
        ends_at.is_some_and(|at| at <= now)
    }

    fn handshake(&mut self, asked: Asked, input: &mut Reader<'_>) -> Outcome {
        let version = asked.to.version;
        let Ok(request) = decode_request_body::<SaslHandshakeRequest>(version, input) else {
            return Outcome::Hangup;
        };
        let chosen = self.mechanisms.find(&request.mechanism);
        let response = sasl_handshake::response(asked.to, chosen.is_some(), &self.mechanisms.names());
        let Some(mechanism) = chosen else {
            return Outcome::Last(response);
        };
        self.state = State::Exchanging {
            mechanism,
            exchange: Exchange::First,
            is_raw: version == 0,
        };
        Outcome::Answer(response)
    }

    fn authenticate(&mut self, asked: Asked, input: &mut Reader<'_>) -> Outcome {
        let Ok(request) = decode_request_body::<SaslAuthenticateRequest>(asked.to.version, input) else {
            return Outcome::Hangup;
        };
        let refused = |why: &str| Outcome::Last(sasl_authenticate::refused(asked.to, why));
        match self.step(&request.auth_bytes, asked.now) {
            Step::Challenge(bytes) => Outcome::Answer(sasl_authenticate::accepted(asked.to, bytes, 0)),
            Step::Complete {
                last,
                principal,
                expires_ms,
            } => match self.complete(principal, expires_ms, asked.now) {
                Ok(lifetime_ms) => Outcome::Answer(sasl_authenticate::accepted(asked.to, last, lifetime_ms)),
                Err(why) => refused(&why),
            },
            Step::Failed(why) => refused(&why),
        }
    }

    fn step(&mut self, token: &[u8], now: u64) -> Step {
        let State::Exchanging {
            mechanism, exchange, ..
        } = &mut self.state
        else {
            return Step::Failed(WRONG.to_owned());
        };
        match (std::mem::take(exchange), *mechanism) {
            (Exchange::First, Mechanism::Plain) => self.mechanisms.plain(token),
            (Exchange::First, Mechanism::Scram(_)) => match self.mechanisms.challenge(*mechanism, token) {
                Ok((server, challenge)) => {
                    *exchange = Exchange::Scram(Box::new(server));
                    Step::Challenge(challenge)
                }
                Err(why) => Step::Failed(why),
            },
            (Exchange::First, Mechanism::OAuthBearer) => match self.mechanisms.bearer(token, now) {
                Ok(step) => step,
                Err(status) => {
                    let refusal = oauth_refusal(status);
                    *exchange = Exchange::Refused(String::from_utf8_lossy(&refusal).into_owned());
                    Step::Challenge(refusal)
                }
            },
            (Exchange::Scram(server), _) => match server.finish(token) {
                Ok(last) => Step::Complete {
                    last,
                    principal: server.username().to_owned(),
                    expires_ms: None,
                },
                Err(SaslError::Refused(_)) => Step::Failed(WRONG.to_owned()),
                Err(error) => Step::Failed(format!("Authentication failed: {error}")),
            },
            (Exchange::Refused(refusal), _) => Step::Failed(refusal),
        }
    }

    /// Gives the session's length in ms, 0 for one that does not end.
    fn complete(&mut self, principal: String, expires_ms: Option<i64>, now: u64) -> Result<i64, String> {
        let State::Exchanging { mechanism, .. } = self.state else {
            return Err(WRONG.to_owned());
        };
        if let Some(before) = &self.session
            && (before.principal != principal || before.mechanism != mechanism)
        {
            return Err(
                "Authentication failed: a session is renewed by who began it and by the same mechanism"
                    .to_owned(),
            );
        }
        let left = expires_ms.map(|at| at.saturating_sub(self.mechanisms.wall_ms(now)).max(0));
        let lifetime_ms = left
            .into_iter()
            .chain(self.mechanisms.session_ms(mechanism))
            .min();
        self.session = Some(Session {
            principal,
            mechanism,
            ends_at: lifetime_ms.map(|ms| now.saturating_add(ms.unsigned_abs().saturating_mul(1_000_000))),
        });
        self.state = State::Done;
        Ok(lifetime_ms.unwrap_or(0))
    }
}

impl Mechanisms {
    fn plain(&self, token: &[u8]) -> Step {
        let request = match PlainRequest::parse(token) {
            Ok(request) => request,
            Err(error) => return Step::Failed(format!("Authentication failed: {error}")),
        };
        if !request.authorization_id.is_empty() && request.authorization_id != request.username {
            return Step::Failed("Authentication failed: nobody may act for another user".to_owned());
        }
        if !self.has_password(request.username, request.password) {
            return Step::Failed(WRONG.to_owned());
        }
        Step::Complete {
            last: Vec::new(),
            principal: request.username.to_owned(),
            expires_ms: None,
        }
    }

    fn challenge(&self, mechanism: Mechanism, token: &[u8]) -> Result<(ScramServer, Vec<u8>), String> {
        let nonce = self
            .nonce()
            .ok_or("Authentication failed: the broker has no random bytes")?;
        let mut server =
            ScramServer::new(token, &nonce).map_err(|error| format!("Authentication failed: {error}"))?;
        let credential = self.credential(mechanism, server.username()).ok_or(WRONG)?;
        let challenge = server.challenge(credential);
        Ok((server, challenge))
    }

    /// Gives the status by which a token is refused.
    fn bearer(&self, token: &[u8], now: u64) -> Result<Step, &'static str> {
        let request = match OAuthRequest::parse(token) {
            Ok(request) => request,
            Err(error) => return Ok(Step::Failed(format!("Authentication failed: {error}"))),
        };
        let (principal, expires_ms) = self.bearer_of(request.token, self.wall_ms(now))?;
        Ok(Step::Complete {
            last: Vec::new(),
            principal,
            expires_ms,
        })
    }
}
