//! Bearer tokens: made, read from a file, or fetched by client credentials, and renewed before they expire.

use super::SecurityError;
use super::tls::TlsSide;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use model::client_config::TokenSource;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A token without a time of its own is asked for again after this long.
const UNKNOWN_LIFETIME: Duration = Duration::from_secs(300);
/// A fetch that has no time-outs of its own ends after this long.
const FETCH_WITHIN: Duration = Duration::from_secs(8);
/// No answer of a token endpoint is larger.
const MOST_ANSWER_BYTES: u64 = 1 << 20;

#[derive(Clone)]
struct Token {
    text: String,
    renew_at: Instant,
    expires_at: Instant,
}

/// The tokens of one source.
pub(super) struct Tokens {
    inner: Arc<Inner>,
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokens").finish_non_exhaustive()
    }
}

struct Inner {
    source: TokenSource,
    roots: Vec<Vec<u8>>,
    token: Mutex<Token>,
    failure: Mutex<Option<String>>,
    is_renewing: AtomicBool,
}

impl Tokens {
    /// Gets the first token.
    pub(super) fn begin(source: &TokenSource, tls: Option<&TlsSide>) -> Result<Tokens, SecurityError> {
        let roots = tls.map(TlsSide::roots).unwrap_or_default();
        let token = obtain(source, &roots).map_err(SecurityError)?;
        Ok(Tokens {
            inner: Arc::new(Inner {
                source: source.clone(),
                roots,
                token: Mutex::new(token),
                failure: Mutex::new(None),
                is_renewing: AtomicBool::new(false),
            }),
        })
    }

    /// The token as it is. One that has lived for four fifths of its time is renewed meanwhile, in a thread of its own.
    ///
    /// # Errors
    ///
    /// When it has expired and could not be renewed.
    pub(super) fn current(&self) -> Result<String, String> {
        let token = self.inner.token.lock().expect("no holder panics").clone();
        let now = Instant::now();
        if now >= token.renew_at {
            self.renew();
        }
        if now < token.expires_at {
            return Ok(token.text);
        }
        let why = self.inner.failure.lock().expect("no holder panics").clone();
        Err(why.unwrap_or_else(|| "the bearer token has expired, and a new one is on its way".to_owned()))
    }

    fn renew(&self) {
        if self.inner.is_renewing.swap(true, Ordering::AcqRel) {
            return;
        }
        let inner = Arc::clone(&self.inner);
        let spawned = std::thread::Builder::new()
            .name("token".to_owned())
            .spawn(move || {
                match obtain(&inner.source, &inner.roots) {
                    Ok(token) => {
                        *inner.token.lock().expect("no holder panics") = token;
                        *inner.failure.lock().expect("no holder panics") = None;
                    }
                    Err(why) => *inner.failure.lock().expect("no holder panics") = Some(why),
                }
                inner.is_renewing.store(false, Ordering::Release);
            });
        if spawned.is_err() {
            self.inner.is_renewing.store(false, Ordering::Release);
        }
    }
}

fn obtain(source: &TokenSource, roots: &[Vec<u8>]) -> Result<Token, String> {
    match source {
        TokenSource::Unsecured {
            claims,
            scope,
            lifetime,
        } => Ok(token(unsecured(claims, scope, *lifetime), Some(*lifetime))),
        TokenSource::File { path } => {
            let text = std::fs::read_to_string(path)
                .map_err(|error| format!("the token file {path} cannot be read: {error}"))?;
            let text = text.trim().to_owned();
            if text.is_empty() || text.chars().any(|c| c.is_whitespace() || c.is_control()) {
                return Err(format!(
                    "the token file {path} does not hold one token and nothing else"
                ));
            }
            let lifetime = lifetime_of(&text);
            if lifetime == Some(Duration::ZERO) {
                return Err(format!("the token in {path} has expired"));
            }
            Ok(token(text, lifetime))
        }
        TokenSource::ClientCredentials { .. } => fetch(source, roots),
    }
}

fn token(text: String, lifetime: Option<Duration>) -> Token {
    let now = Instant::now();
    let renew_after = lifetime.map_or(UNKNOWN_LIFETIME, |lifetime| lifetime.mul_f64(0.8));
    // A token whose time is not known is used until the broker refuses it.
    let expires_after = lifetime.unwrap_or(Duration::from_secs(365 * 24 * 3600));
    Token {
        text,
        renew_at: now + renew_after,
        expires_at: now + expires_after,
    }
}

/// What is left of the life of a JWT, by its claim `exp`; `None` for a token that is none.
fn lifetime_of(text: &str) -> Option<Duration> {
    let payload = text.split('.').nth(1)?;
    let claims: serde_json::Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()?;
    let expires = Duration::try_from_secs_f64(claims.get("exp")?.as_f64()?).ok()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    Some(expires.saturating_sub(now))
}

/// An unsigned JWT (RFC 7515, appendix A.5), as Kafka's `OAuthBearerUnsecuredLoginCallbackHandler` makes it.
fn unsecured(claims: &[(String, String)], scope: &[String], lifetime: Duration) -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs_f64();
    let mut payload = serde_json::Map::new();
    payload.insert("iat".to_owned(), now.into());
    payload.insert("exp".to_owned(), (now + lifetime.as_secs_f64()).into());
    for (name, value) in claims {
        payload.insert(name.clone(), value.clone().into());
    }
    if !scope.is_empty() {
        payload.insert("scope".to_owned(), scope.to_vec().into());
    }
    let header = URL_SAFE_NO_PAD.encode(br#"{"alg":"none"}"#);
    let payload = URL_SAFE_NO_PAD.encode(serde_json::Value::Object(payload).to_string());
    format!("{header}.{payload}.")
}

/// The client credentials grant: RFC 6749, section 4.4, with id and secret in the Authorization header.
fn fetch(source: &TokenSource, roots: &[Vec<u8>]) -> Result<Token, String> {
    let TokenSource::ClientCredentials {
        endpoint,
        client_id,
        client_secret,
        scope,
        connect_timeout,
        read_timeout,
        urlencodes,
    } = source
    else {
        return Err("no token endpoint is named".to_owned());
    };
    let certificates: Vec<ureq::tls::Certificate<'static>> = if roots.is_empty() {
        rustls_native_certs::load_native_certs()
            .certs
            .iter()
            .map(|certificate| ureq::tls::Certificate::from_der(certificate).to_owned())
            .collect()
    } else {
        roots
            .iter()
            .map(|der| ureq::tls::Certificate::from_der(der).to_owned())
            .collect()
    };
    let tls = ureq::tls::TlsConfig::builder()
        .root_certs(ureq::tls::RootCerts::new_with_certs(&certificates))
        .build();
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .tls_config(tls)
        .http_status_as_error(false)
        .timeout_connect(*connect_timeout)
        .timeout_recv_response(*read_timeout)
        .timeout_global(Some(
            FETCH_WITHIN.max(connect_timeout.unwrap_or_default() + read_timeout.unwrap_or_default()),
        ))
        .build()
        .into();
    let part = |text: &str| {
        if *urlencodes {
            url_encoded(text)
        } else {
            text.to_owned()
        }
    };
    let basic = STANDARD.encode(format!("{}:{}", part(client_id), part(client_secret.reveal())));
    let mut body = "grant_type=client_credentials".to_owned();
    if let Some(scope) = scope {
        body.push_str("&scope=");
        body.push_str(&url_encoded(scope));
    }
    let wrong = |what: String| format!("no bearer token from {endpoint}: {what}");
    let mut answer = agent
        .post(endpoint)
        .header("Authorization", &format!("Basic {basic}"))
        .header("Accept", "application/json")
        .header("Content-Type", "application/x-www-form-urlencoded")
        .send(body)
        .map_err(|error| wrong(error.to_string()))?;
    let status = answer.status();
    let text = answer
        .body_mut()
        .with_config()
        .limit(MOST_ANSWER_BYTES)
        .read_to_string()
        .map_err(|error| wrong(error.to_string()))?;
    let json: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    let word = |name: &str| json.get(name).and_then(|value| value.as_str()).map(str::to_owned);
    if !status.is_success() {
        let said: Vec<String> = [word("error"), word("error_description")]
            .into_iter()
            .flatten()
            .collect();
        let said = if said.is_empty() {
            String::new()
        } else {
            format!(" ({})", said.join(": "))
        };
        return Err(wrong(format!("it answers with status {status}{said}")));
    }
    let Some(text) = word("access_token").filter(|text| !text.is_empty()) else {
        return Err(wrong("its answer holds no access_token".to_owned()));
    };
    let expires_in = json
        .get("expires_in")
        .and_then(serde_json::Value::as_f64)
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let lifetime = lifetime_of(&text).or(expires_in);
    Ok(token(text, lifetime))
}

fn url_encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'*' => {
                char::from(byte).to_string()
            }
            b' ' => "+".to_owned(),
            other => format!("%{other:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unsigned_token_says_who_and_until_when() {
        let claims = [("sub".to_owned(), "alice".to_owned())];
        let text = unsecured(&claims, &["read".to_owned()], Duration::from_secs(60));
        let parts: Vec<&str> = text.split('.').collect();
        assert_eq!((parts.len(), parts[2]), (3, ""));
        let payload: serde_json::Value =
            serde_json::from_slice(&URL_SAFE_NO_PAD.decode(parts[1]).unwrap()).unwrap();
        assert_eq!(payload["sub"], "alice");
        assert_eq!(payload["scope"][0], "read");
        let left = lifetime_of(&text).unwrap();
        assert!(
            left > Duration::from_secs(50) && left <= Duration::from_secs(60),
            "{left:?}"
        );
        assert_eq!(lifetime_of("opaque"), None);
        assert_eq!(lifetime_of("a.!.c"), None);
    }

    #[test]
    fn a_token_that_was_just_got_is_used_and_one_that_is_old_is_not() {
        let source = TokenSource::Unsecured {
            claims: vec![("sub".to_owned(), "a".to_owned())],
            scope: Vec::new(),
            lifetime: Duration::ZERO,
        };
        let tokens = Tokens::begin(&source, None).unwrap();
        assert!(tokens.current().is_err());
        let source = TokenSource::File {
            path: "/nowhere/token".to_owned(),
        };
        let error = Tokens::begin(&source, None).unwrap_err();
        assert!(error.to_string().contains("/nowhere/token"), "{error}");
    }

    #[test]
    fn form_fields_are_encoded() {
        assert_eq!(url_encoded("a b/ü=1"), "a+b%2F%C3%BC%3D1");
    }
}
