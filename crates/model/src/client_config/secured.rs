//! From the properties `security.protocol`, `ssl.*` and `sasl.*` to a [`Security`].

use std::time::Duration;

use super::jaas::JaasEntry;
use super::resolve::Reading;
use super::{SaslConfig, Secret, Security, Store, TlsConfig, TokenSource};
use crate::fault::{Fault, FaultKind};

/// Java's default of `unsecuredLoginLifetimeSeconds`.
const UNSECURED_LIFETIME: Duration = Duration::from_secs(3600);
/// The callback handlers that are stood in for.
const HANDLERS: [&str; 2] = [
    "OAuthBearerLoginCallbackHandler",
    "OAuthBearerUnsecuredLoginCallbackHandler",
];

impl Reading<'_> {
    pub(super) fn security(&mut self) -> Security {
        let protocol = self.word("security.protocol");
        let has_tls = protocol.ends_with("SSL");
        let has_sasl = protocol.starts_with("SASL");
        if !has_tls {
            let why =
                format!("it belongs to security.protocol SSL or SASL_SSL, and connections are {protocol}");
            self.left_out("ssl.", &why);
        }
        if !has_sasl {
            let why = format!(
                "it belongs to security.protocol SASL_PLAINTEXT or SASL_SSL, and connections are {protocol}"
            );
            self.left_out("sasl.", &why);
        }
        Security {
            tls: has_tls.then(|| self.tls()),
            sasl: has_sasl.then(|| self.sasl()).flatten(),
        }
    }

    /// Says of every given property of that kind that it has no effect.
    fn left_out(&mut self, prefix: &str, why: &str) {
        let names = super::catalogue().iter().map(|spec| spec.name);
        let mut given: Vec<&str> = names
            .filter(|name| name.starts_with(prefix) && self.is_given(name))
            .collect();
        given.dedup();
        for name in given {
            self.ignore(name, why);
        }
    }

    fn tls(&mut self) -> TlsConfig {
        let trust = self.store("ssl.truststore", &["ssl.truststore.certificates"]);
        let identity = self.store(
            "ssl.keystore",
            &["ssl.keystore.certificate.chain", "ssl.keystore.key"],
        );
        let key_password = self.secret("ssl.key.password");
        let algorithm = self.text("ssl.endpoint.identification.algorithm");
        if !algorithm.is_empty() && !algorithm.eq_ignore_ascii_case("https") {
            self.fault(
                FaultKind::WrongType,
                "ssl.endpoint.identification.algorithm",
                "allowed: https, or empty for no check of the host's name",
            );
        }
        let versions = self.list("ssl.enabled.protocols");
        let has = |version: &str| versions.iter().any(|given| given == version);
        let (tls_1_2, tls_1_3) = (has("TLSv1.2"), has("TLSv1.3"));
        if !tls_1_2 && !tls_1_3 {
            self.fault(
                FaultKind::Unsupported,
                "ssl.enabled.protocols",
                "TLSv1.2 and TLSv1.3 are spoken; name one of them or both",
            );
        }
        TlsConfig {
            trust,
            identity,
            key_password,
            checks_host_name: !algorithm.is_empty(),
            tls_1_2,
            tls_1_3,
            cipher_suites: self.list("ssl.cipher.suites"),
        }
    }

    fn list(&mut self, name: &str) -> Vec<String> {
        let text = self.text(name);
        let items = text.split(',').map(str::trim);
        items.filter(|item| !item.is_empty()).map(str::to_owned).collect()
    }

    /// A trust or key store: a file, or PEM text in the properties that `inline` names.
    fn store(&mut self, prefix: &str, inline: &[&str]) -> Option<Store> {
        let named = |part: &str| format!("{prefix}.{part}");
        let (type_name, location_name) = (named("type"), named("location"));
        let kind = self.text(&type_name).to_ascii_uppercase();
        if !["JKS", "PKCS12", "PEM"].contains(&kind.as_str()) {
            self.fault(FaultKind::Unsupported, &type_name, "allowed: JKS, PKCS12, PEM");
        }
        let path = self.optional_text(&location_name);
        let password = self.secret(&named("password"));
        let certificates = self.secret(inline[0]);
        let key = inline.get(1).and_then(|name| self.secret(name));
        if certificates.is_some() || key.is_some() {
            if path.is_some() {
                let problem = format!("{} is given too; leave one of them out", inline[0]);
                self.fault(FaultKind::Conflict, &location_name, &problem);
            }
            if kind != "PEM" {
                let problem = format!(
                    "{} holds PEM text; set {type_name}=PEM, as Kafka's own clients need it",
                    inline[0]
                );
                self.fault(FaultKind::Conflict, &type_name, &problem);
            }
            if inline.len() > 1 && (certificates.is_none() || key.is_none()) {
                let missing = if key.is_none() { inline[1] } else { inline[0] };
                let problem = format!(
                    "missing; a client's certificate and its key are given together, see {}",
                    inline[0]
                );
                self.faults.push(Fault::missing(missing, problem));
            }
            return certificates.map(|certificates| Store::Pem { certificates, key });
        }
        path.map(|path| Store::File {
            path,
            password,
            is_pem: kind == "PEM",
        })
    }

    fn sasl(&mut self) -> Option<SaslConfig> {
        let mechanism = self.text("sasl.mechanism");
        let entry = self.jaas();
        let expected = match mechanism.as_str() {
            "PLAIN" => "PlainLoginModule",
            "SCRAM-SHA-256" | "SCRAM-SHA-512" => "ScramLoginModule",
            "OAUTHBEARER" => "OAuthBearerLoginModule",
            "GSSAPI" => {
                let problem = "Kerberos is not served; use a listener with PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER, or \
                               none of SASL, and set sasl.mechanism accordingly (GSSAPI is its default)";
                self.fault(FaultKind::Unsupported, "sasl.mechanism", problem);
                return None;
            }
            _ => {
                let problem = "allowed: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER";
                self.fault(FaultKind::Unsupported, "sasl.mechanism", problem);
                return None;
            }
        };
        let entry = entry?;
        // Vendors ship modules of their own under the same names; other names would not do what the mechanism says.
        if entry.module_name() != expected {
            let problem = format!(
                "{} does not belong to sasl.mechanism = {mechanism}, whose login module is \
                 org.apache.kafka.common.security.…{expected}",
                entry.module
            );
            self.fault(FaultKind::Conflict, "sasl.jaas.config", &problem);
            return None;
        }
        match mechanism.as_str() {
            "OAUTHBEARER" => self.oauth_bearer(&entry),
            _ => {
                let username = self.needed(&entry, "username");
                let password = self.needed(&entry, "password");
                let (username, password) = (username?, Secret::new(password?));
                Some(match mechanism.as_str() {
                    "PLAIN" => SaslConfig::Plain { username, password },
                    name => SaslConfig::Scram {
                        is_sha_512: name == "SCRAM-SHA-512",
                        username,
                        password,
                        is_token: entry
                            .option("tokenauth")
                            .is_some_and(|text| text.eq_ignore_ascii_case("true")),
                    },
                })
            }
        }
    }

    fn jaas(&mut self) -> Option<JaasEntry> {
        const NAME: &str = "sasl.jaas.config";
        let Some(text) = self.optional_text(NAME) else {
            let problem = "missing; SASL needs it, such as org.apache.kafka.common.security.scram.ScramLoginModule required \
                           username=\"…\" password=\"…\";";
            self.faults.push(Fault::missing(NAME, problem));
            return None;
        };
        match JaasEntry::parse(&text) {
            Ok(entry) => Some(entry),
            Err(problem) => {
                self.fault(FaultKind::WrongType, NAME, &problem);
                None
            }
        }
    }

    fn needed(&mut self, entry: &JaasEntry, option: &str) -> Option<String> {
        let value = entry.option(option).filter(|value| !value.is_empty());
        if value.is_none() {
            let problem = format!("{} needs the option {option}=\"…\"", entry.module_name());
            self.fault(FaultKind::WrongType, "sasl.jaas.config", &problem);
        }
        value.map(str::to_owned)
    }

    fn oauth_bearer(&mut self, entry: &JaasEntry) -> Option<SaslConfig> {
        const ENDPOINT: &str = "sasl.oauthbearer.token.endpoint.url";
        if let Some(class) = self.optional_text("sasl.login.callback.handler.class")
            && !HANDLERS
                .iter()
                .any(|known| class.rsplit('.').next() == Some(known))
        {
            let problem = format!(
                "no Java classes are loaded; what is stood in for is {}",
                HANDLERS.join(" and ")
            );
            self.fault(
                FaultKind::Unsupported,
                "sasl.login.callback.handler.class",
                &problem,
            );
        }
        let extensions = options_after(entry, "extension_");
        let connect_timeout = self.optional_milliseconds("sasl.login.connect.timeout.ms");
        let read_timeout = self.optional_milliseconds("sasl.login.read.timeout.ms");
        let urlencodes = self.flag("sasl.oauthbearer.header.urlencode");
        let own_id = self.optional_text("sasl.oauthbearer.client.credentials.client.id");
        let own_secret = self.secret("sasl.oauthbearer.client.credentials.client.secret");
        let own_scope = self.optional_text("sasl.oauthbearer.scope");
        let source = match self.optional_text(ENDPOINT) {
            Some(endpoint) if endpoint.starts_with("file:") => TokenSource::File {
                path: endpoint
                    .trim_start_matches("file:")
                    .trim_start_matches("//")
                    .to_owned(),
            },
            Some(endpoint) if endpoint.starts_with("http://") || endpoint.starts_with("https://") => {
                let option = |name: &str| entry.option(name).map(str::to_owned);
                let client_id = own_id.or_else(|| option("clientId"));
                let client_secret = own_secret.or_else(|| option("clientSecret").map(Secret::new));
                let (Some(client_id), Some(client_secret)) = (client_id, client_secret) else {
                    let problem = "client credentials need clientId=\"…\" and clientSecret=\"…\" among the login module's options, or \
                                   sasl.oauthbearer.client.credentials.client.id and .client.secret";
                    self.fault(FaultKind::WrongType, "sasl.jaas.config", problem);
                    return None;
                };
                TokenSource::ClientCredentials {
                    endpoint,
                    client_id,
                    client_secret,
                    scope: own_scope.or_else(|| option("scope")),
                    connect_timeout,
                    read_timeout,
                    urlencodes,
                }
            }
            Some(_) => {
                self.fault(
                    FaultKind::WrongType,
                    ENDPOINT,
                    "allowed: an address that begins with https:, http: or file:",
                );
                return None;
            }
            None => self.unsecured(entry)?,
        };
        Some(SaslConfig::OAuthBearer { source, extensions })
    }

    fn unsecured(&mut self, entry: &JaasEntry) -> Option<TokenSource> {
        let claims = options_after(entry, "unsecuredLoginStringClaim_");
        if !claims.iter().any(|(name, _)| name == "sub") {
            let problem = "a token comes from sasl.oauthbearer.token.endpoint.url, which is missing, or is made without a signature \
                           from the option unsecuredLoginStringClaim_sub=\"…\", which is missing too";
            self.fault(FaultKind::WrongType, "sasl.jaas.config", problem);
            return None;
        }
        let scope = options_after(entry, "unsecuredLoginListClaim_");
        let scope = scope.iter().find(|(name, _)| name == "scope").map(|(_, list)| {
            list.split([',', ' ', '|'])
                .filter(|item| !item.is_empty())
                .map(str::to_owned)
                .collect()
        });
        let lifetime = entry
            .option("unsecuredLoginLifetimeSeconds")
            .and_then(|text| text.parse().ok())
            .map_or(UNSECURED_LIFETIME, Duration::from_secs);
        Some(TokenSource::Unsecured {
            claims,
            scope: scope.unwrap_or_default(),
            lifetime,
        })
    }

    fn optional_milliseconds(&mut self, name: &str) -> Option<Duration> {
        self.is_given(name).then(|| self.milliseconds(name))
    }
}

fn options_after(entry: &JaasEntry, prefix: &str) -> Vec<(String, String)> {
    let options = entry.options.iter();
    let mut found: Vec<(String, String)> = options
        .filter_map(|(name, value)| Some((name.strip_prefix(prefix)?.to_owned(), value.clone())))
        .collect();
    found.sort();
    found
}
