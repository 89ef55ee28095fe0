//! TLS and bearer tokens against servers that are made for it: certificates that are wrong, and an endpoint that gives tokens.

use client::admin::Admin;
use client::clock::RunClock;
use client::security::Secured;
use model::client_config::ClientProperties;
use model::source::Source;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Logins and handshakes that fail are told within this.
const TOLD_WITHIN: Duration = Duration::from_secs(10);

/// Which certificate a server shows.
#[derive(Clone, Copy)]
struct Shown {
    name: &'static str,
    first_year: i32,
    last_year: i32,
}

/// A TLS server that shows such a certificate, and the certificate that it is signed by, in PEM.
fn server(shown: Shown) -> (String, String) {
    let ca_key = KeyPair::generate().expect("a key");
    let mut ca = CertificateParams::new(Vec::<String>::new()).expect("parameters");
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let root = ca.self_signed(&ca_key).expect("a certificate").pem();
    let issuer = Issuer::new(ca, ca_key);
    let key = KeyPair::generate().expect("a key");
    let mut leaf = CertificateParams::new(vec![shown.name.to_owned()]).expect("parameters");
    leaf.not_before = date_time_ymd(shown.first_year, 1, 1);
    leaf.not_after = date_time_ymd(shown.last_year, 1, 1);
    let certificate = leaf.signed_by(&key, &issuer).expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .expect("a server's settings");
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            let mut connection = rustls::ServerConnection::new(Arc::clone(&config)).expect("a connection");
            // A client that does not trust it ends the handshake; one that does is told nothing more.
            let _ = connection.complete_io(&mut stream);
        }
    });
    (address, root)
}

fn properties(bootstrap: &str, given: &[(&str, &str)]) -> ClientProperties {
    let mut properties = ClientProperties::default();
    for (name, value) in [("bootstrap.servers", bootstrap)].iter().chain(given) {
        properties.set_shared(name, value, Source::flag("-X"));
    }
    properties
}

/// What is said when connecting to a server with such a certificate fails.
fn told(shown: Shown, more: &[(&str, &str)]) -> String {
    let (address, root) = server(shown);
    let tls = [
        ("security.protocol", "SSL"),
        ("ssl.truststore.type", "PEM"),
        ("ssl.truststore.certificates", root.as_str()),
    ];
    let config = properties(&address, &[&tls[..], more].concat())
        .admin()
        .expect("sound properties")
        .config;
    let began = Instant::now();
    let error = match Admin::connect(&config, RunClock::start(), TOLD_WITHIN) {
        Ok(_) => panic!("it is no broker"),
        Err(error) => error.to_string(),
    };
    assert!(began.elapsed() < TOLD_WITHIN, "{:?}", began.elapsed());
    assert!(error.contains(&address), "{error}");
    error
}

#[test]
fn a_certificate_that_has_expired_is_told() {
    let shown = Shown {
        name: "127.0.0.1",
        first_year: 2000,
        last_year: 2001,
    };
    let error = told(shown, &[]);
    assert!(error.contains("the broker's certificate has expired"), "{error}");
}

#[test]
fn a_certificate_of_the_future_is_told() {
    let shown = Shown {
        name: "127.0.0.1",
        first_year: 4000,
        last_year: 4001,
    };
    let error = told(shown, &[]);
    assert!(error.contains("not valid yet"), "{error}");
}

#[test]
fn a_certificate_for_another_host_is_told_unless_names_are_not_checked() {
    let shown = Shown {
        name: "kafka.example.com",
        first_year: 2000,
        last_year: 4000,
    };
    let error = told(shown, &[]);
    assert!(
        error.contains("does not name 127.0.0.1") && error.contains("kafka.example.com"),
        "{error}"
    );
    // Then the handshake succeeds, and what fails is that the server is no broker.
    let error = told(shown, &[("ssl.endpoint.identification.algorithm", "")]);
    assert!(!error.contains("certificate"), "{error}");
}

/// A token endpoint that answers each request so; gives its address and what it was asked.
fn endpoint(status: &'static str, body: &'static str) -> (String, std::sync::mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    let (sender, asked) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = Vec::new();
            let mut chunk = [0; 4096];
            // Until the body is there: the form ends in the scope.
            while !request.ends_with(b"scope=kafka+write") {
                match stream.read(&mut chunk) {
                    Ok(count) if count > 0 => request.extend_from_slice(&chunk[..count]),
                    _ => break,
                }
            }
            let _ = sender.send(String::from_utf8_lossy(&request).into_owned());
            let length = body.len();
            let _ = write!(
                stream,
                "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
            );
        }
    });
    (format!("http://{address}/token"), asked)
}

fn bearer(endpoint: &str) -> Result<Secured, String> {
    let jaas = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required clientId=\"me\" \
                clientSecret=\"geheim\" scope=\"kafka write\";";
    let given = [
        ("security.protocol", "SASL_PLAINTEXT"),
        ("sasl.mechanism", "OAUTHBEARER"),
        ("sasl.oauthbearer.token.endpoint.url", endpoint),
        ("sasl.jaas.config", jaas),
    ];
    let config = properties("127.0.0.1:9", &given)
        .admin()
        .expect("sound properties")
        .config;
    Secured::prepare(&config.connection.security).map_err(|error| error.to_string())
}

#[test]
fn a_token_is_fetched_by_client_credentials_once_for_all_clients() {
    let (address, asked) = endpoint(
        "200 OK",
        r#"{"access_token":"opaque","expires_in":3600,"token_type":"bearer"}"#,
    );
    bearer(&address).expect("a token");
    bearer(&address).expect("the same token");
    let request = asked.recv().expect("a request");
    // me:geheim in base64.
    assert!(request.contains("Basic bWU6Z2VoZWlt"), "{request}");
    assert!(request.starts_with("POST /token "), "{request}");
    assert!(
        request.ends_with("grant_type=client_credentials&scope=kafka+write"),
        "{request}"
    );
    assert!(asked.try_recv().is_err(), "it was asked a second time");
}

#[test]
fn an_endpoint_that_refuses_is_told_with_its_reason_and_without_the_secret() {
    let body = r#"{"error":"invalid_client","error_description":"who are you"}"#;
    let (address, _asked) = endpoint("401 Unauthorized", body);
    let error = bearer(&address).expect_err("refused");
    for part in [address.as_str(), "401", "invalid_client", "who are you"] {
        assert!(error.contains(part), "{error}");
    }
    assert!(!error.contains("geheim"), "{error}");
    let (address, _asked) = endpoint("200 OK", "{}");
    let error = bearer(&address).expect_err("no token");
    assert!(error.contains("no access_token"), "{error}");
}
