//! How the brokers' listeners are secured: what Kafka's properties say of it, and what is made of them at the start.
//!
//! Users stand in the JAAS lines of the mechanisms, as `user_NAME="password"`, which Kafka knows of PLAIN; its SCRAM users are in
//! the cluster's metadata, and here in their line too. A line without listener and mechanism, `sasl.jaas.config`, serves every
//! mechanism that has none of its own. Bearer tokens are held against the rules of Kafka's validator of unsecured tokens, or
//! are one of those that the line names, `token_NAME="token"`.

mod bearer;
mod tls;

use crate::settings::Overrides;
use crate::settings::security::{
    MECHANISMS, PROTOCOLS, default_of, find_security_config, listener_of, value_for,
};
use bearer::BearerRules;
use model::client_config::jaas::JaasEntry;
use model::client_config::{Secret, Store};
use rustls::ServerConfig;
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::sasl::{ScramCredential, ScramHash};

/// Random bytes of a salt or a nonce.
const NONCE_BYTES: usize = 18;

/// A mechanism of SASL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mechanism {
    Plain,
    Scram(ScramHash),
    OAuthBearer,
}

impl Mechanism {
    const ALL: [Mechanism; 4] = [
        Mechanism::Plain,
        Mechanism::Scram(ScramHash::Sha256),
        Mechanism::Scram(ScramHash::Sha512),
        Mechanism::OAuthBearer,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Mechanism::Plain => "PLAIN",
            Mechanism::Scram(hash) => hash.mechanism(),
            Mechanism::OAuthBearer => "OAUTHBEARER",
        }
    }

    fn of_name(name: &str) -> Option<Mechanism> {
        Mechanism::ALL
            .into_iter()
            .find(|mechanism| mechanism.name() == name)
    }
}

/// Whether clients show certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientAuth {
    None,
    Requested,
    Required,
}

/// What the properties say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SecuritySettings {
    pub(crate) protocol: &'static str,
    tls: Option<TlsSettings>,
    sasl: Option<SaslSettings>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct TlsSettings {
    identity: Store,
    key_password: Option<Secret>,
    trust: Option<Store>,
    client_auth: ClientAuth,
    tls_1_2: bool,
    tls_1_3: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct SaslSettings {
    mechanisms: Vec<MechanismSettings>,
    most_frame_bytes: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct MechanismSettings {
    mechanism: Mechanism,
    users: BTreeMap<String, Secret>,
    bearer: Option<BearerRules>,
    session_ms: Option<i64>,
}

/// What is wrong with the properties of security.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SecurityFault {
    /// TLS, and no certificate to show.
    NoCertificate,
    /// SASL, and nobody who could log in.
    NoUsers,
    /// Anything else, as a sentence.
    Wrong(String),
}

fn wrong<T>(text: String) -> Result<T, SecurityFault> {
    Err(SecurityFault::Wrong(text))
}

impl SecuritySettings {
    /// Reads properties that have been held against their definitions one by one.
    ///
    /// # Errors
    /// The first that does not go together with the others. No value of a secret is told.
    pub(crate) fn new(configs: &Overrides) -> Result<SecuritySettings, SecurityFault> {
        let protocol = value_for(configs, "", None, "security.protocol").unwrap_or("PLAINTEXT");
        let protocol = PROTOCOLS
            .iter()
            .find(|known| **known == protocol)
            .copied()
            .unwrap_or("PLAINTEXT");
        let listener = protocol.to_lowercase();
        for name in configs.keys() {
            if let Some(other) = listener_of(name).filter(|name| *name != listener) {
                return wrong(format!(
                    "{name}: there is no listener {other}; the one that there is has the name of its security.protocol, {listener}"
                ));
            }
        }
        let (has_tls, has_sasl) = (protocol.ends_with("SSL"), protocol.starts_with("SASL"));
        // What has no effect would leave open what was meant to be secured.
        let stray = configs.keys().find_map(|name| {
            let needs_tls = match find_security_config(name)?.name {
                "security.protocol" => return None,
                bare => bare.starts_with("ssl."),
            };
            let is_stray = if needs_tls { !has_tls } else { !has_sasl };
            let wanted = if needs_tls {
                "SSL or SASL_SSL"
            } else {
                "SASL_PLAINTEXT or SASL_SSL"
            };
            is_stray.then_some((name, wanted))
        });
        if let Some((name, wanted)) = stray {
            return wrong(format!(
                "{name} has no effect where security.protocol is {protocol}; set that to {wanted}, or leave this out"
            ));
        }
        let given = Given {
            configs,
            listener: &listener,
        };
        Ok(SecuritySettings {
            protocol,
            tls: has_tls.then(|| given.tls()).transpose()?,
            sasl: has_sasl.then(|| given.sasl()).transpose()?,
        })
    }

    /// Reads the stores and makes what passwords are held against. `origin_ms` is the time of day at `now` = 0.
    ///
    /// # Errors
    /// What is wrong with a store, as a sentence.
    pub(crate) fn prepare(&self, origin_ms: i64) -> Result<Security, String> {
        let sasl = match &self.sasl {
            Some(settings) => Some(Arc::new(Mechanisms::new(settings, origin_ms)?)),
            None => None,
        };
        Ok(Security {
            protocol: self.protocol,
            tls: self.tls.as_ref().map(tls::server).transpose()?,
            sasl,
        })
    }
}

/// The properties, as those of one listener.
struct Given<'a> {
    configs: &'a Overrides,
    listener: &'a str,
}

impl<'a> Given<'a> {
    fn text(&self, name: &str) -> Option<&'a str> {
        value_for(self.configs, self.listener, None, name)
    }

    fn secret(&self, name: &str) -> Option<Secret> {
        self.text(name).map(Secret::new)
    }

    fn tls(&self) -> Result<TlsSettings, SecurityFault> {
        let versions = self
            .text("ssl.enabled.protocols")
            .unwrap_or(default_of("ssl.enabled.protocols"));
        let has = |wanted: &str| versions.split(',').any(|version| version.trim() == wanted);
        let (tls_1_2, tls_1_3) = (has("TLSv1.2"), has("TLSv1.3"));
        if !tls_1_2 && !tls_1_3 {
            return wrong(format!(
                "ssl.enabled.protocols={versions}: TLSv1.2 and TLSv1.3 are spoken; name one of them or both"
            ));
        }
        let client_auth = match self.text("ssl.client.auth") {
            Some("required") => ClientAuth::Required,
            Some("requested") => ClientAuth::Requested,
            _ => ClientAuth::None,
        };
        let identity = self.store(
            "ssl.keystore",
            "ssl.keystore.certificate.chain",
            Some("ssl.keystore.key"),
        )?;
        let trust = self.store("ssl.truststore", "ssl.truststore.certificates", None)?;
        if client_auth != ClientAuth::None && trust.is_none() {
            return wrong(
                "ssl.client.auth asks for certificates of clients; name by ssl.truststore.location whose are trusted"
                    .to_owned(),
            );
        }
        Ok(TlsSettings {
            identity: identity.ok_or(SecurityFault::NoCertificate)?,
            key_password: self.secret("ssl.key.password"),
            trust,
            client_auth,
            tls_1_2,
            tls_1_3,
        })
    }

    fn store(&self, prefix: &str, inline: &str, key: Option<&str>) -> Result<Option<Store>, SecurityFault> {
        let location = format!("{prefix}.location");
        let certificates = self.secret(inline);
        let key_text = key.and_then(|name| self.secret(name));
        if let Some(key) = key
            && certificates.is_some() != key_text.is_some()
        {
            return wrong(format!(
                "{inline} and {key} are given together, or neither of them"
            ));
        }
        match (self.text(&location), certificates) {
            (Some(_), Some(_)) => wrong(format!(
                "{location} and {inline} are both given; leave one of them out"
            )),
            (None, Some(certificates)) => Ok(Some(Store::Pem {
                certificates,
                key: key_text,
            })),
            (Some(path), None) => Ok(Some(Store::File {
                path: path.to_owned(),
                password: self.secret(&format!("{prefix}.password")),
                is_pem: self.text(&format!("{prefix}.type")) == Some("PEM"),
            })),
            (None, None) => Ok(None),
        }
    }

    fn sasl(&self) -> Result<SaslSettings, SecurityFault> {
        let number = |name: &str, mechanism| {
            let text = value_for(self.configs, self.listener, mechanism, name).unwrap_or(default_of(name));
            text.parse::<i64>().unwrap_or(0)
        };
        let named = self.text("sasl.enabled.mechanisms");
        let enabled: Vec<&str> = match named {
            Some(names) => names
                .split(',')
                .map(str::trim)
                .filter(|name| !name.is_empty())
                .collect(),
            None => MECHANISMS.to_vec(),
        };
        let mut mechanisms = Vec::with_capacity(enabled.len());
        for name in enabled {
            let Some(mechanism) = Mechanism::of_name(name) else {
                return wrong(format!(
                    "sasl.enabled.mechanisms: {name} is not served; served are {}",
                    MECHANISMS.join(", ")
                ));
            };
            match value_for(self.configs, self.listener, Some(name), "sasl.jaas.config") {
                // Unsigned tokens need no password: they are taken where somebody has asked for them.
                Some(line)
                    if named.is_none() && mechanism == Mechanism::OAuthBearer && !asks_for_tokens(line) => {}
                Some(line) => {
                    let session_ms = number("connections.max.reauth.ms", Some(name));
                    mechanisms.push(MechanismSettings {
                        session_ms: Some(session_ms).filter(|ms| *ms > 0),
                        ..self.mechanism(mechanism, line)?
                    });
                }
                None if named.is_some() => {
                    let name_of_line = format!(
                        "listener.name.{}.{}.sasl.jaas.config",
                        self.listener,
                        name.to_lowercase()
                    );
                    return wrong(format!(
                        "{name_of_line} is missing, and {name} is enabled: nobody could log in by it"
                    ));
                }
                None => {}
            }
        }
        if mechanisms.is_empty() {
            return Err(SecurityFault::NoUsers);
        }
        Ok(SaslSettings {
            mechanisms,
            most_frame_bytes: usize::try_from(number("sasl.server.max.receive.size", None))
                .unwrap_or(usize::MAX),
        })
    }

    fn mechanism(&self, mechanism: Mechanism, line: &str) -> Result<MechanismSettings, SecurityFault> {
        let in_line = |problem: String| {
            SecurityFault::Wrong(format!("sasl.jaas.config of {}: {problem}", mechanism.name()))
        };
        let entry = JaasEntry::parse(line).map_err(in_line)?;
        let users: BTreeMap<String, Secret> = options_after(&entry, "user_");
        let bearer = match mechanism {
            Mechanism::OAuthBearer => Some(BearerRules::new(&entry).map_err(in_line)?),
            Mechanism::Plain | Mechanism::Scram(_) if users.is_empty() => {
                let problem = "it names no users; write user_NAME=\"password\" for each".to_owned();
                return Err(in_line(problem));
            }
            Mechanism::Plain | Mechanism::Scram(_) => None,
        };
        Ok(MechanismSettings {
            mechanism,
            users,
            bearer,
            session_ms: None,
        })
    }
}

/// The options of a JAAS line whose names begin so.
/// Whether a login line is one of OAUTHBEARER.
fn asks_for_tokens(line: &str) -> bool {
    JaasEntry::parse(line).is_ok_and(|entry| {
        entry.module.contains("OAuthBearer")
            || entry
                .options
                .iter()
                .any(|(name, _)| name.starts_with("token_") || name.starts_with("unsecuredValidator"))
    })
}

/// Whether two secrets are the same, in a time that does not tell how much of them is.
pub(crate) fn is_same_secret(known: &str, given: &str) -> bool {
    let differing = known
        .bytes()
        .zip(given.bytes())
        .fold(0, |all, (a, b)| all | (a ^ b));
    known.len() == given.len() && differing == 0
}

fn options_after(entry: &JaasEntry, prefix: &str) -> BTreeMap<String, Secret> {
    let options = entry.options.iter();
    options
        .filter_map(|(name, value)| Some((name.strip_prefix(prefix)?, value)))
        .filter(|(name, value)| !name.is_empty() && !value.is_empty())
        .map(|(name, value)| (name.to_owned(), Secret::new(value)))
        .collect()
}

/// What connections are secured by, ready for use.
#[derive(Clone, Debug)]
pub(crate) struct Security {
    pub(crate) protocol: &'static str,
    pub(crate) tls: Option<Arc<ServerConfig>>,
    pub(crate) sasl: Option<Arc<Mechanisms>>,
}

/// The enabled mechanisms of SASL, with who may log in by them.
#[derive(Debug)]
pub(crate) struct Mechanisms {
    enabled: Vec<Enabled>,
    pub(crate) most_frame_bytes: usize,
    origin_ms: i64,
}

#[derive(Debug)]
struct Enabled {
    mechanism: Mechanism,
    passwords: BTreeMap<String, Secret>,
    credentials: BTreeMap<String, ScramCredential>,
    bearer: Option<BearerRules>,
    session_ms: Option<i64>,
}

impl Mechanisms {
    fn new(settings: &SaslSettings, origin_ms: i64) -> Result<Mechanisms, String> {
        let enabled = settings.mechanisms.iter().map(|settings| {
            let mut enabled = Enabled {
                mechanism: settings.mechanism,
                passwords: BTreeMap::new(),
                credentials: BTreeMap::new(),
                bearer: settings.bearer.clone(),
                session_ms: settings.session_ms,
            };
            match settings.mechanism {
                Mechanism::Plain => enabled.passwords.clone_from(&settings.users),
                Mechanism::Scram(hash) => {
                    for (name, password) in &settings.users {
                        let salt = random_text().ok_or("the system has no random bytes")?;
                        let credential = ScramCredential::new(hash, password.reveal(), salt.as_bytes());
                        enabled.credentials.insert(name.clone(), credential);
                    }
                }
                Mechanism::OAuthBearer => {}
            }
            Ok(enabled)
        });
        Ok(Mechanisms {
            enabled: enabled.collect::<Result<_, String>>()?,
            most_frame_bytes: settings.most_frame_bytes,
            origin_ms,
        })
    }

    fn enabled(&self, mechanism: Mechanism) -> Option<&Enabled> {
        self.enabled.iter().find(|enabled| enabled.mechanism == mechanism)
    }

    /// The names of those that are enabled.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.enabled
            .iter()
            .map(|enabled| enabled.mechanism.name())
            .collect()
    }

    /// The mechanism of that name, if it is enabled.
    pub(crate) fn find(&self, name: &str) -> Option<Mechanism> {
        Mechanism::of_name(name).filter(|mechanism| self.enabled(*mechanism).is_some())
    }

    /// Whether that is the password of a user of PLAIN.
    pub(crate) fn has_password(&self, username: &str, password: &str) -> bool {
        let known = self
            .enabled(Mechanism::Plain)
            .and_then(|enabled| enabled.passwords.get(username));
        known.is_some_and(|known| is_same_secret(known.reveal(), password))
    }

    /// What a user of SCRAM is held against.
    pub(crate) fn credential(&self, mechanism: Mechanism, username: &str) -> Option<&ScramCredential> {
        self.enabled(mechanism)?.credentials.get(username)
    }

    /// Whose a bearer token is, and when it expires, ms since 1970.
    ///
    /// # Errors
    /// The status by which it is refused (RFC 6750).
    pub(crate) fn bearer_of(&self, token: &str, wall_ms: i64) -> Result<(String, Option<i64>), &'static str> {
        let rules = self
            .enabled(Mechanism::OAuthBearer)
            .and_then(|enabled| enabled.bearer.as_ref());
        rules.ok_or(bearer::INVALID)?.check(token, wall_ms)
    }

    /// How long a session of that mechanism lasts, in ms; `None` for without end.
    pub(crate) fn session_ms(&self, mechanism: Mechanism) -> Option<i64> {
        self.enabled(mechanism)?.session_ms
    }

    /// The time of day, ms since 1970.
    pub(crate) fn wall_ms(&self, now: u64) -> i64 {
        self.origin_ms.saturating_add((now / 1_000_000) as i64)
    }

    /// The broker's part of a nonce; `None` where the system has no random bytes.
    pub(crate) fn nonce(&self) -> Option<String> {
        random_text()
    }
}

/// Hexadecimal digits that nobody can guess: a salt, a nonce, or a password. `None` where the system has no random bytes.
pub fn random_text() -> Option<String> {
    let mut bytes = [0; NONCE_BYTES];
    getrandom::fill(&mut bytes).ok()?;
    Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(given: &[(&str, &str)]) -> Result<SecuritySettings, String> {
        let configs = given
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        SecuritySettings::new(&configs).map_err(|fault| match fault {
            SecurityFault::Wrong(text) => text,
            other => format!("{other:?}"),
        })
    }

    const PLAIN: &str = "org.apache.kafka.common.security.plain.PlainLoginModule required user_alice=\"geheim\" user_bob=\"b\";";

    #[test]
    fn without_any_property_nothing_is_secured() {
        let settings = settings(&[]).unwrap();
        assert_eq!(
            (settings.protocol, settings.tls, settings.sasl),
            ("PLAINTEXT", None, None)
        );
    }

    #[test]
    fn mechanisms_are_those_that_are_named_or_have_users() {
        let names = |given: &[(&str, &str)]| {
            let protocol = [("security.protocol", "SASL_PLAINTEXT")];
            let settings = settings(&[&protocol[..], given].concat())?;
            Ok::<_, String>(settings.prepare(0)?.sasl.map_or(Vec::new(), |sasl| sasl.names()))
        };
        assert_eq!(
            names(&[("sasl.jaas.config", PLAIN)]).unwrap(),
            ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
        );
        // Unsigned tokens need no password, so that they are taken only where somebody has asked for them.
        let bearer = PLAIN.replace("plain.PlainLoginModule", "oauthbearer.OAuthBearerLoginModule");
        let tokens = PLAIN.replace("user_bob", "token_bob");
        for line in [bearer.as_str(), tokens.as_str()] {
            assert_eq!(
                names(&[("sasl.jaas.config", line)]).unwrap(),
                ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
            );
        }
        assert_eq!(
            names(&[("listener.name.sasl_plaintext.plain.sasl.jaas.config", PLAIN)]).unwrap(),
            ["PLAIN"]
        );
        let chosen = ("sasl.enabled.mechanisms", "SCRAM-SHA-512, PLAIN");
        assert_eq!(
            names(&[chosen, ("sasl.jaas.config", PLAIN)]).unwrap(),
            ["SCRAM-SHA-512", "PLAIN"]
        );
        assert_eq!(names(&[]).unwrap_err(), "NoUsers");
        let error = names(&[("sasl.enabled.mechanisms", "GSSAPI")]).unwrap_err();
        assert!(
            error.contains("GSSAPI is not served; served are PLAIN"),
            "{error}"
        );
        let error = names(&[("sasl.enabled.mechanisms", "PLAIN")]).unwrap_err();
        assert!(
            error.starts_with("listener.name.sasl_plaintext.plain.sasl.jaas.config is missing"),
            "{error}"
        );
    }

    #[test]
    fn what_does_not_go_together_is_told_without_secrets() {
        for (given, expected) in [
            (&[("security.protocol", "SSL")][..], "NoCertificate"),
            (
                &[("ssl.keystore.location", "k")],
                "ssl.keystore.location has no effect",
            ),
            (
                &[("sasl.jaas.config", PLAIN)],
                "set that to SASL_PLAINTEXT or SASL_SSL",
            ),
            (
                &[("listener.name.internal.ssl.client.auth", "none")],
                "there is no listener internal; the one that there is has the name of its security.protocol, plaintext",
            ),
            (
                &[
                    ("security.protocol", "SSL"),
                    ("ssl.keystore.location", "k"),
                    ("ssl.client.auth", "required"),
                ],
                "ssl.truststore.location",
            ),
            (
                &[
                    ("security.protocol", "SSL"),
                    ("ssl.keystore.location", "k"),
                    ("ssl.enabled.protocols", "TLSv1.1"),
                ],
                "TLSv1.2 and TLSv1.3",
            ),
            (
                &[("security.protocol", "SSL"), ("ssl.keystore.key", "geheim")],
                "are given together",
            ),
            (
                &[
                    ("security.protocol", "SASL_PLAINTEXT"),
                    ("sasl.jaas.config", "a.B required user_a=\"geheim\""),
                ],
                "sasl.jaas.config of PLAIN: it does not end in a semicolon",
            ),
            (
                &[
                    ("security.protocol", "SASL_PLAINTEXT"),
                    ("sasl.jaas.config", "a.B required username=\"geheim\";"),
                ],
                "it names no users",
            ),
        ] {
            let error = settings(given).unwrap_err();
            assert!(error.contains(expected), "{given:?}: {error}");
            assert!(!error.contains("geheim"), "{error}");
        }
        let settings = settings(&[
            ("security.protocol", "SASL_PLAINTEXT"),
            ("sasl.jaas.config", PLAIN),
        ])
        .unwrap();
        let prepared = settings.prepare(0).unwrap();
        assert!(
            !format!("{settings:?}{prepared:?}").contains("geheim"),
            "passwords are never shown"
        );
    }
}
