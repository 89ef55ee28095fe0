//! How connections are secured: certificates and keys read from their stores, and logins by SASL.
//!
//! [`Secured::prepare`] reads what the properties name. It is done once a process for equal settings: a thousand producers
//! share one reading, one TLS configuration with its session cache, and one bearer token.

mod tls;
mod tokens;

pub(crate) use tls::TlsFailure;

use model::client_config::{SaslConfig, Security};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};
use wire::sasl::{ClientExchange, OAuthBearerClient, PlainClient, ScramClient, ScramHash};

/// Random bytes of a SCRAM nonce.
const NONCE_BYTES: usize = 18;

/// Settings of TLS or SASL that cannot be used, with what is wrong and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SecurityError(pub(crate) String);

impl From<wire::stores::StoreError> for SecurityError {
    fn from(error: wire::stores::StoreError) -> SecurityError {
        SecurityError(error.to_string())
    }
}

/// What connections need, ready for use. The default is PLAINTEXT.
#[derive(Clone, Debug, Default)]
pub struct Secured {
    /// For TLS.
    pub(crate) tls: Option<Arc<tls::TlsSide>>,
    /// For SASL.
    pub(crate) login: Option<Arc<Login>>,
    protocol: &'static str,
}

impl Secured {
    /// Reads stores and keys, and fetches the first bearer token, unless that was done before for the same settings.
    ///
    /// # Errors
    ///
    /// When a file cannot be read, is not what it should be, or does not open with its password; when no token is given.
    pub fn prepare(security: &Security) -> Result<Secured, SecurityError> {
        static PREPARED: OnceLock<Mutex<HashMap<Security, Secured>>> = OnceLock::new();
        if security.tls.is_none() && security.sasl.is_none() {
            return Ok(Secured {
                protocol: security.protocol(),
                ..Secured::default()
            });
        }
        let mut prepared = PREPARED
            .get_or_init(Mutex::default)
            .lock()
            .expect("no holder panics");
        if let Some(known) = prepared.get(security) {
            return Ok(known.clone());
        }
        let tls = match &security.tls {
            Some(config) => Some(Arc::new(tls::TlsSide::new(config)?)),
            None => None,
        };
        let login = match &security.sasl {
            Some(config) => Some(Arc::new(Login::new(config, tls.as_deref())?)),
            None => None,
        };
        let made = Secured {
            tls,
            login,
            protocol: security.protocol(),
        };
        prepared.insert(security.clone(), made.clone());
        Ok(made)
    }

    /// The name of the security protocol.
    pub fn protocol(&self) -> &'static str {
        self.protocol
    }
}

/// Who a client is to the brokers, by SASL.
#[derive(Debug)]
pub(crate) struct Login {
    config: SaslConfig,
    tokens: Option<tokens::Tokens>,
}

impl Login {
    fn new(config: &SaslConfig, tls: Option<&tls::TlsSide>) -> Result<Login, SecurityError> {
        let tokens = match config {
            SaslConfig::OAuthBearer { source, .. } => Some(tokens::Tokens::begin(source, tls)?),
            SaslConfig::Plain { .. } | SaslConfig::Scram { .. } => None,
        };
        Ok(Login {
            config: config.clone(),
            tokens,
        })
    }

    pub(crate) fn mechanism(&self) -> &'static str {
        self.config.mechanism()
    }

    /// A new exchange.
    ///
    /// # Errors
    ///
    /// When there is no token that is still valid, or the system has no random bytes.
    pub(crate) fn exchange(&self) -> Result<ClientExchange, String> {
        match &self.config {
            SaslConfig::Plain { username, password } => Ok(ClientExchange::Plain(PlainClient::new(
                username,
                password.reveal(),
            ))),
            SaslConfig::Scram {
                is_sha_512,
                username,
                password,
                is_token,
            } => {
                let hash = if *is_sha_512 {
                    ScramHash::Sha512
                } else {
                    ScramHash::Sha256
                };
                let nonce = nonce()?;
                let client = ScramClient::new(hash, username, password.reveal(), &nonce, *is_token);
                Ok(ClientExchange::Scram(Box::new(client)))
            }
            SaslConfig::OAuthBearer { extensions, .. } => {
                let tokens = self.tokens.as_ref().ok_or("no bearer token was asked for")?;
                let token = tokens.current()?;
                Ok(ClientExchange::OAuthBearer(OAuthBearerClient::new(
                    &token, extensions,
                )))
            }
        }
    }
}

fn nonce() -> Result<String, String> {
    let mut bytes = [0; NONCE_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| format!("the system has no random bytes: {error}"))?;
    // Hexadecimal digits hold no comma, which is all that SCRAM asks of a nonce.
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
