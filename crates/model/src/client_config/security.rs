//! `security.protocol`, and the settings of TLS and SASL that belong to it.

use std::fmt;
use std::time::Duration;

/// A text that is never shown: `Debug` hides it, and there is no `Display`.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Secret(String);

impl Secret {
    /// Hides a text.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// The text itself, for where it is needed.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

/// How connections are secured; both absent is PLAINTEXT.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Security {
    /// TLS, of the protocols SSL and SASL_SSL.
    pub tls: Option<TlsConfig>,
    /// SASL, of the protocols SASL_PLAINTEXT and SASL_SSL.
    pub sasl: Option<SaslConfig>,
}

impl Security {
    /// The name of the protocol.
    pub fn protocol(&self) -> &'static str {
        match (&self.tls, &self.sasl) {
            (None, None) => "PLAINTEXT",
            (Some(_), None) => "SSL",
            (None, Some(_)) => "SASL_PLAINTEXT",
            (Some(_), Some(_)) => "SASL_SSL",
        }
    }
}

/// The settings `ssl.*`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TlsConfig {
    /// Whose certificates are trusted; absent for those that the system trusts.
    pub trust: Option<Store>,
    /// The client's own certificate and key; absent where it shows none.
    pub identity: Option<Store>,
    /// `ssl.key.password`: of the key within the store, or of an encrypted PEM key.
    pub key_password: Option<Secret>,
    /// `ssl.endpoint.identification.algorithm` is `https`: the broker's certificate must name the host that was asked for.
    pub checks_host_name: bool,
    /// `ssl.enabled.protocols` has TLSv1.2.
    pub tls_1_2: bool,
    /// `ssl.enabled.protocols` has TLSv1.3.
    pub tls_1_3: bool,
    /// `ssl.cipher.suites` by their IANA names; empty for all that are served.
    pub cipher_suites: Vec<String>,
}

/// Where certificates and keys come from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Store {
    /// A file.
    File {
        /// Its path.
        path: String,
        /// Its password: `ssl.truststore.password` or `ssl.keystore.password`.
        password: Option<Secret>,
        /// Whether the type was given as PEM; otherwise the file's first bytes tell what it is, as Java does it for JKS and
        /// PKCS12.
        is_pem: bool,
    },
    /// PEM text in the properties themselves (KIP-651).
    Pem {
        /// `ssl.truststore.certificates`, or `ssl.keystore.certificate.chain`.
        certificates: Secret,
        /// `ssl.keystore.key`; absent in a trust store.
        key: Option<Secret>,
    },
}

/// The settings `sasl.*`, by mechanism.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SaslConfig {
    /// PLAIN.
    Plain {
        /// The user.
        username: String,
        /// The password.
        password: Secret,
    },
    /// SCRAM-SHA-256 or SCRAM-SHA-512.
    Scram {
        /// Whether it is the latter.
        is_sha_512: bool,
        /// The user, or the id of a delegation token.
        username: String,
        /// The password, or the token's HMAC.
        password: Secret,
        /// `tokenauth=true`: name and password are a delegation token's (KIP-48).
        is_token: bool,
    },
    /// OAUTHBEARER.
    OAuthBearer {
        /// Where tokens come from.
        source: TokenSource,
        /// Options `extension_*` of the login module (KIP-342).
        extensions: Vec<(String, String)>,
    },
}

impl SaslConfig {
    /// The mechanism's name.
    pub fn mechanism(&self) -> &'static str {
        match self {
            SaslConfig::Plain { .. } => "PLAIN",
            SaslConfig::Scram {
                is_sha_512: false, ..
            } => "SCRAM-SHA-256",
            SaslConfig::Scram { is_sha_512: true, .. } => "SCRAM-SHA-512",
            SaslConfig::OAuthBearer { .. } => "OAUTHBEARER",
        }
    }
}

/// Where a bearer token comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TokenSource {
    /// The client makes an unsigned one by itself (options `unsecuredLogin…`), which only brokers for trial accept.
    Unsecured {
        /// `unsecuredLoginStringClaim_*`, among them `sub`, the principal.
        claims: Vec<(String, String)>,
        /// `unsecuredLoginListClaim_scope`.
        scope: Vec<String>,
        /// `unsecuredLoginLifetimeSeconds`.
        lifetime: Duration,
    },
    /// A file that holds one (`sasl.oauthbearer.token.endpoint.url=file:…`), read anew before it expires.
    File {
        /// Its path.
        path: String,
    },
    /// The client credentials grant of OAuth 2.0 (RFC 6749, section 4.4).
    ClientCredentials {
        /// `sasl.oauthbearer.token.endpoint.url`.
        endpoint: String,
        /// The client's id.
        client_id: String,
        /// Its secret.
        client_secret: Secret,
        /// `scope`; absent for the server's choice.
        scope: Option<String>,
        /// `sasl.login.connect.timeout.ms`; absent for none of its own.
        connect_timeout: Option<Duration>,
        /// `sasl.login.read.timeout.ms`; absent for none of its own.
        read_timeout: Option<Duration>,
        /// `sasl.oauthbearer.header.urlencode`: id and secret are URL-encoded before they go into the header.
        urlencodes: bool,
    },
}
