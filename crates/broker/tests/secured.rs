//! Listeners with TLS and SASL, asked by a client that knows the protocol, rustls, and what must not be said.

use broker::{Certificates, Config, Handle, StartError, start};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::codec::Request;
use wire::header::{decode_response, encode_request};
use wire::messages::{
    ApiVersionsRequest, CreateTopicsRequest, DescribeConfigsRequest, MetadataRequest,
    SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse,
    create_topics, describe_configs,
};
use wire::sasl::{ClientExchange, OAuthBearerClient, PlainClient, ScramClient, ScramHash, Step};
use wire::{ApiKey, ErrorCode};

/// Longer than anything here takes, so that a fault is a failure and not a hang.
const PATIENCE: Duration = Duration::from_secs(20);
/// The first byte of an alert of TLS, and its level.
const ALERT: [u8; 1] = [21];
const PASSWORD: &str = "al=ice;s-secret";
const MODULE: &str = "org.apache.kafka.common.security.plain.PlainLoginModule required";

trait Duplex: Read + Write + Send {}
impl<T: Read + Write + Send> Duplex for T {}

struct Client(Box<dyn Duplex>);

fn tcp(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.set_nodelay(true).expect("no delay");
    stream
}

impl Client {
    fn plain(handle: &Handle) -> Client {
        Client(Box::new(tcp(handle.addresses()[0])))
    }

    fn tls(handle: &Handle, config: Arc<ClientConfig>) -> Client {
        let name = ServerName::try_from("127.0.0.1").expect("a name");
        let connection = ClientConnection::new(config, name).expect("a connection");
        Client(Box::new(StreamOwned::new(connection, tcp(handle.addresses()[0]))))
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        self.0.write_all(frame)?;
        self.0.flush()
    }

    fn receive(&mut self) -> io::Result<Vec<u8>> {
        let mut length = [0; 4];
        self.0.read_exact(&mut length)?;
        let mut frame = vec![0; i32::from_be_bytes(length) as usize];
        self.0.read_exact(&mut frame)?;
        Ok(frame)
    }

    fn ask_version<R: Request>(&mut self, version: i16, request: &R) -> io::Result<R::Response> {
        self.send(&encode_request::<R>(1, Some("tests"), version, request))?;
        let response = decode_response::<R>(version, &self.receive()?);
        Ok(response.expect("a response").1)
    }

    fn ask<R: Request>(&mut self, request: &R) -> io::Result<R::Response> {
        self.ask_version(*R::VERSIONS.end(), request)
    }

    fn handshake(&mut self, mechanism: &str) -> SaslHandshakeResponse {
        let mechanism = mechanism.to_owned();
        self.ask(&SaslHandshakeRequest { mechanism }).expect("an answer")
    }

    fn token(&mut self, auth_bytes: Vec<u8>) -> SaslAuthenticateResponse {
        self.ask(&SaslAuthenticateRequest { auth_bytes })
            .expect("an answer")
    }

    /// The whole exchange; gives the last answer.
    fn log_in(&mut self, mut exchange: ClientExchange) -> SaslAuthenticateResponse {
        assert_eq!(self.handshake(exchange.mechanism()).error_code, ErrorCode::NONE);
        let mut token = exchange.first();
        loop {
            let answer = self.token(token);
            if answer.error_code != ErrorCode::NONE {
                return answer;
            }
            match exchange.next(&answer.auth_bytes).expect("the broker's part") {
                Step::Send(next) => token = next,
                Step::Done => return answer,
            }
        }
    }

    fn is_served(&mut self) -> bool {
        self.ask(&MetadataRequest::default())
            .is_ok_and(|answer| answer.brokers.len() == 1)
    }

    /// It has been closed: it reads as ended, and not because time is up.
    #[track_caller]
    fn assert_closed(&mut self) {
        let began = Instant::now();
        let read = self.0.read(&mut [0; 64]);
        assert!(matches!(read, Ok(0)) || read.is_err(), "{read:?}");
        assert!(began.elapsed() < PATIENCE / 2, "it is still open");
    }
}

fn plain(user: &str, password: &str) -> ClientExchange {
    ClientExchange::Plain(PlainClient::new(user, password))
}

fn scram(hash: ScramHash, user: &str, password: &str) -> ClientExchange {
    ClientExchange::Scram(Box::new(ScramClient::new(hash, user, password, "a-nonce", false)))
}

fn bearer(token: &str) -> ClientExchange {
    ClientExchange::OAuthBearer(OAuthBearerClient::new(token, &[]))
}

/// An unsecured token of alice that expires in so many ms.
fn token(expires_in_ms: i64) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let expires = (now.expect("a clock").as_millis() as i64 + expires_in_ms) as f64 / 1000.0;
    let encode = |text: &str| {
        use base64::Engine;
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text)
    };
    let claims = format!(r#"{{"sub":"alice","exp":{expires}}}"#);
    format!("{}.{}.", encode(r#"{"alg":"none"}"#), encode(&claims))
}

fn config(properties: &[(&str, &str)]) -> Config {
    let properties = properties
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Config {
        properties: properties.collect(),
        ..Config::default()
    }
}

fn with_users(protocol: &str, more: &[(&str, &str)]) -> Handle {
    let line = format!("{MODULE} user_alice=\"{PASSWORD}\" user_bob=\"other\" token_carol=\"opaque\";");
    let own = [
        ("security.protocol", protocol),
        ("sasl.jaas.config", line.as_str()),
    ];
    start(config(&[&own[..], more].concat())).expect("brokers start")
}

/// A folder with certificates, removed with this value.
struct Stores(PathBuf, Certificates);

impl Stores {
    fn new(test: &str) -> Stores {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        let made = Certificates::make(&[]).expect("certificates");
        std::fs::write(path.join("ca.pem"), &made.authority).expect("written");
        std::fs::write(path.join("broker.pem"), &made.broker).expect("written");
        Stores(path, made)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// What brokers need for TLS.
    fn properties(&self, more: &[(&str, &str)]) -> Config {
        let (keys, trust) = (self.path("broker.pem"), self.path("ca.pem"));
        let own = [
            ("ssl.keystore.type", "PEM"),
            ("ssl.keystore.location", keys.as_str()),
            ("ssl.truststore.type", "PEM"),
            ("ssl.truststore.location", trust.as_str()),
        ];
        config(&[&own[..], more].concat())
    }

    fn brokers(&self, more: &[(&str, &str)]) -> Handle {
        start(self.properties(&[&[("security.protocol", "SSL")], more].concat())).expect("brokers start")
    }

    /// A client's settings that trust these certificates.
    fn client(
        &self,
        identity: Option<&str>,
        version: &'static rustls::SupportedProtocolVersion,
    ) -> Arc<ClientConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_slice(self.1.authority.as_bytes()).expect("a certificate");
        roots.add(authority).expect("an anchor");
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .expect("versions")
            .with_root_certificates(roots);
        Arc::new(match identity {
            None => builder.with_no_client_auth(),
            Some(pem) => {
                let chain = CertificateDer::pem_slice_iter(pem.as_bytes())
                    .map(|certificate| certificate.expect("one"));
                let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).expect("a key");
                builder
                    .with_client_auth_cert(chain.collect(), key)
                    .expect("an identity")
            }
        })
    }
}

impl Drop for Stores {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap_or_default();
    }
}

#[test]
fn each_mechanism_lets_in_who_knows_the_password_and_nobody_else() {
    let handle = with_users("SASL_PLAINTEXT", &[]);
    let expired = token(-1000);
    for (right, wrong) in [
        (plain("alice", PASSWORD), plain("alice", "other")),
        (plain("bob", "other"), plain("mallory", "other")),
        (
            scram(ScramHash::Sha256, "alice", PASSWORD),
            scram(ScramHash::Sha256, "alice", "other"),
        ),
        (
            scram(ScramHash::Sha512, "bob", "other"),
            scram(ScramHash::Sha512, "mallory", "other"),
        ),
        (bearer(&token(60_000)), bearer(&expired)),
        (bearer("opaque"), bearer("opaqu")),
    ] {
        let mut client = Client::plain(&handle);
        client.ask(&ApiVersionsRequest::default()).expect("an answer");
        let name = right.mechanism();
        assert_eq!(client.log_in(right).error_code, ErrorCode::NONE, "{name}");
        assert!(client.is_served(), "{name}");
        // And without ApiVersions before.
        let mut client = Client::plain(&handle);
        let refused = client.log_in(wrong);
        assert_eq!(
            refused.error_code,
            ErrorCode::SASL_AUTHENTICATION_FAILED,
            "{name}"
        );
        let told = refused.error_message.expect("a reason");
        let expected = if name == "OAUTHBEARER" {
            "invalid_token"
        } else {
            "Authentication failed"
        };
        assert!(told.contains(expected), "{told}");
        assert!(!told.contains("other") && !told.contains("opaq"), "{told}");
        client.assert_closed();
    }
}

#[test]
fn a_mechanism_that_is_not_enabled_is_answered_with_those_that_are() {
    let handle = with_users(
        "SASL_PLAINTEXT",
        &[("sasl.enabled.mechanisms", "SCRAM-SHA-512,PLAIN")],
    );
    let mut client = Client::plain(&handle);
    let answer = client.handshake("GSSAPI");
    assert_eq!(answer.error_code, ErrorCode::UNSUPPORTED_SASL_MECHANISM);
    assert_eq!(answer.mechanisms, ["SCRAM-SHA-512", "PLAIN"]);
    client.assert_closed();
}

#[test]
fn tokens_without_headers_follow_the_handshake_of_old() {
    let handle = with_users("SASL_PLAINTEXT", &[]);
    let mut exchange = scram(ScramHash::Sha512, "alice", PASSWORD);
    let mechanism = exchange.mechanism().to_owned();
    let mut client = Client::plain(&handle);
    let answer = client.ask_version(0, &SaslHandshakeRequest { mechanism });
    assert_eq!(answer.expect("an answer").error_code, ErrorCode::NONE);
    let mut token = exchange.first();
    loop {
        let length = (token.len() as u32).to_be_bytes();
        client.send(&[&length, token.as_slice()].concat()).expect("sent");
        match exchange.next(&client.receive().expect("a token")) {
            Ok(Step::Send(next)) => token = next,
            other => break assert_eq!(other, Ok(Step::Done)),
        }
    }
    assert!(client.is_served());

    let mut client = Client::plain(&handle);
    let mechanism = "PLAIN".to_owned();
    let answer = client.ask_version(0, &SaslHandshakeRequest { mechanism });
    assert_eq!(answer.expect("an answer").error_code, ErrorCode::NONE);
    client.send(b"\0\0\0\x0d\0alice\0anothe").expect("sent");
    client.assert_closed();
}

#[test]
fn nothing_is_served_before_the_login_and_large_claims_are_not_believed() {
    let handle = with_users("SASL_PLAINTEXT", &[("sasl.server.max.receive.size", "1000")]);
    let versions = || encode_request(1, None, 3, &ApiVersionsRequest::default());
    let metadata = || encode_request(1, None, 9, &MetadataRequest::default());
    let authenticate = || encode_request(1, None, 2, &SaslAuthenticateRequest::default());
    let handshake = || {
        let mechanism = "PLAIN".to_owned();
        encode_request(1, None, 1, &SaslHandshakeRequest { mechanism })
    };
    for (frames, answered) in [
        (vec![metadata()], 0),
        (vec![authenticate()], 0),
        (vec![versions(), versions()], 1),
        (vec![versions(), metadata()], 1),
        (vec![versions(), handshake(), handshake()], 2),
        (vec![handshake(), metadata()], 1),
        (vec![b"\0\0\x03\xe9\0\x12\0\0".to_vec()], 0),
        (vec![b"GET / HTTP/1.1\r\n\r\n".to_vec()], 0),
    ] {
        let mut client = Client::plain(&handle);
        client.send(&frames.concat()).expect("sent");
        for _ in 0..answered {
            client.receive().expect("an answer");
        }
        client.assert_closed();
    }
    // A version that is not known may be followed by one that is, as KIP-511 wants it.
    let mut client = Client::plain(&handle);
    client
        .send(&encode_request(1, None, 127, &ApiVersionsRequest::default()))
        .expect("sent");
    client.receive().expect("a refusal");
    assert_eq!(
        client.log_in(plain("alice", PASSWORD)).error_code,
        ErrorCode::NONE
    );
    // So may one that comes after the login.
    client
        .send(&encode_request(1, None, 127, &ApiVersionsRequest::default()))
        .expect("sent");
    let refused = decode_response::<ApiVersionsRequest>(127, &client.receive().expect("a refusal"));
    let refused = refused.expect("an answer in version 0").1;
    assert_eq!(refused.error_code, ErrorCode::UNSUPPORTED_VERSION);
    // Large requests are served afterwards.
    let name = "x".repeat(20_000);
    let request = encode_request(1, Some(&name), 9, &MetadataRequest::default());
    client.send(&request).expect("sent");
    client.receive().expect("an answer");
}

#[test]
fn a_login_that_nobody_asked_for_is_out_of_place() {
    let handle = start(Config::default()).expect("brokers start");
    let mut client = Client::plain(&handle);
    let answer = client.ask(&ApiVersionsRequest::default()).expect("an answer");
    let known = |key| answer.api_keys.iter().any(|api| api.api_key == key);
    assert!(known(ApiKey::SASL_HANDSHAKE) && known(ApiKey::SASL_AUTHENTICATE));
    assert_eq!(
        client.handshake("PLAIN").error_code,
        ErrorCode::ILLEGAL_SASL_STATE
    );
    assert_eq!(client.token(Vec::new()).error_code, ErrorCode::ILLEGAL_SASL_STATE);
    assert!(client.is_served());
}

#[test]
fn a_session_ends_unless_it_is_renewed_by_who_began_it() {
    let handle = with_users(
        "SASL_PLAINTEXT",
        &[(
            "listener.name.sasl_plaintext.plain.connections.max.reauth.ms",
            "1000",
        )],
    );
    let mut client = Client::plain(&handle);
    let began = Instant::now();
    assert_eq!(client.log_in(plain("alice", PASSWORD)).session_lifetime_ms, 1000);
    let mut asked = 0;
    while client.is_served() {
        asked += 1;
        assert!(began.elapsed() < PATIENCE, "the session does not end");
    }
    assert!(asked > 0 && began.elapsed() >= Duration::from_millis(1000));

    // One that has ended can be renewed, as long as nothing else was asked.
    let mut client = Client::plain(&handle);
    client.log_in(plain("alice", PASSWORD));
    assert_eq!(client.log_in(plain("alice", PASSWORD)).session_lifetime_ms, 1000);
    assert!(client.is_served());
    // Less than a second later, that is no login any more.
    assert_eq!(
        client.handshake("PLAIN").error_code,
        ErrorCode::ILLEGAL_SASL_STATE
    );

    for other in [plain("bob", "other"), scram(ScramHash::Sha256, "alice", PASSWORD)] {
        let mut client = Client::plain(&handle);
        client.log_in(plain("alice", PASSWORD));
        let refused = client.log_in(other);
        assert_eq!(refused.error_code, ErrorCode::SASL_AUTHENTICATION_FAILED);
        assert!(refused.error_message.is_some_and(|told| told.contains("renewed")));
        client.assert_closed();
    }

    // Without a limit of the mechanism's own, that of a token counts.
    let mut client = Client::plain(&handle);
    let lifetime_ms = client.log_in(bearer(&token(30_000))).session_lifetime_ms;
    assert!((20_000..=30_001).contains(&lifetime_ms), "{lifetime_ms}");
    assert_eq!(
        Client::plain(&handle)
            .log_in(scram(ScramHash::Sha256, "alice", PASSWORD))
            .session_lifetime_ms,
        0
    );
}

#[test]
fn requests_and_answers_of_any_size_go_through_tls_of_either_version() {
    let stores = Stores::new("sizes");
    let handle = stores.brokers(&[]);
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let mut client = Client::tls(&handle, stores.client(None, version));
        for name_bytes in [1, 3_000, 30_000] {
            let name = "n".repeat(name_bytes);
            // Unread answers pile up: more than the socket and rustls together take.
            let frame = encode_request(1, Some(&name), 4, &DescribeConfigsRequest::default());
            let configs = encode_request(
                2,
                None,
                4,
                &DescribeConfigsRequest {
                    resources: vec![
                        describe_configs::DescribeConfigsResource {
                            resource_type: 4,
                            resource_name: "1".to_owned(),
                            configuration_keys: None,
                        };
                        100
                    ],
                    include_synonyms: true,
                    ..DescribeConfigsRequest::default()
                },
            );
            for _ in 0..20 {
                client.send(&frame).expect("sent");
                client.send(&configs).expect("sent");
            }
            let mut sizes = Vec::new();
            for _ in 0..20 {
                client.receive().expect("an answer");
                sizes.push(client.receive().expect("an answer").len());
            }
            assert!(
                sizes[0] > 100_000 && sizes.iter().all(|size| *size == sizes[0]),
                "{sizes:?}"
            );
        }
        assert!(client.is_served());
    }
    // The certificate names what loopback is called.
    for name in ["localhost", "127.0.0.1", "::1"] {
        let name = ServerName::try_from(name).expect("a name");
        let config = stores.client(None, &rustls::version::TLS13);
        let connection = ClientConnection::new(config, name).expect("a connection");
        let mut client = Client(Box::new(StreamOwned::new(connection, tcp(handle.addresses()[0]))));
        assert!(client.is_served());
    }
}

#[test]
fn a_client_must_show_a_certificate_where_one_is_required_and_a_known_one_where_any_is_shown() {
    let stores = Stores::new("client-auth");
    let stranger = Certificates::make(&[]).expect("certificates").client;
    let own = stores.1.client.clone();
    for (wanted, without, with_own, with_strangers) in [
        ("none", true, true, true),
        ("requested", true, true, false),
        ("required", false, true, false),
    ] {
        let handle = stores.brokers(&[("ssl.client.auth", wanted)]);
        for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
            for (identity, expected) in [
                (None, without),
                (Some(own.as_str()), with_own),
                (Some(stranger.as_str()), with_strangers),
            ] {
                let mut client = Client::tls(&handle, stores.client(identity, version));
                assert_eq!(client.is_served(), expected, "{wanted}, {version:?}");
            }
        }
    }
    // A certificate that stands in the trust store itself is trusted, whoever signed it.
    std::fs::write(stores.path("ca.pem"), stores.1.authority.clone() + &stranger).expect("written");
    let handle = stores.brokers(&[("ssl.client.auth", "required")]);
    let config = stores.client(Some(&stranger), &rustls::version::TLS13);
    assert!(Client::tls(&handle, config).is_served());
}

#[test]
fn tls_and_a_login_go_together() {
    let stores = Stores::new("sasl-ssl");
    let line = format!("{MODULE} user_alice=\"{PASSWORD}\";");
    let handle = start(stores.properties(&[
        ("security.protocol", "SASL_SSL"),
        ("listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config", &line),
    ]))
    .expect("brokers start");
    let connect = || Client::tls(&handle, stores.client(None, &rustls::version::TLS13));
    let mut client = connect();
    client.log_in(scram(ScramHash::Sha512, "alice", PASSWORD));
    assert!(client.is_served());
    assert!(!connect().is_served());
    // What the brokers were given as a secret is told to nobody.
    let request = DescribeConfigsRequest {
        resources: vec![describe_configs::DescribeConfigsResource {
            resource_type: 4,
            resource_name: "1".to_owned(),
            configuration_keys: None,
        }],
        include_synonyms: true,
        ..DescribeConfigsRequest::default()
    };
    let shown = format!("{:?}", client.ask(&request).expect("an answer"));
    assert!(shown.contains("listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config"));
    assert!(shown.contains("SASL_SSL://127.0.0.1:"), "{shown}");
    assert!(
        !shown.contains(PASSWORD) && !shown.contains("user_alice"),
        "{shown}"
    );
}

#[test]
fn what_is_not_tls_gets_an_alert_and_is_closed() {
    let stores = Stores::new("not-tls");
    let handle = stores.brokers(&[]);
    let versions = encode_request(1, Some("plain"), 3, &ApiVersionsRequest::default());
    let large = [b"\x02\xfa\xf0\x80".as_slice(), &[7; 100_000]].concat();
    for bytes in [&versions[..], b"GET / HTTP/1.1\r\n\r\n", &[0xff; 30], &large] {
        let mut client = Client::plain(&handle);
        client.send(bytes).expect("sent");
        let mut answer = Vec::new();
        client
            .0
            .read_to_end(&mut answer)
            .expect("it is closed, and not reset");
        assert!(answer.starts_with(&ALERT) && answer.len() == 7, "{answer:?}");
    }
    // The reverse: TLS where none is spoken is a frame of impossible length.
    let plain = start(Config::default()).expect("brokers start");
    let mut client = Client::tls(&plain, stores.client(None, &rustls::version::TLS13));
    assert!(client.ask(&ApiVersionsRequest::default()).is_err());
}

#[test]
fn handshakes_that_never_end_are_closed_in_time_and_cost_the_others_nothing() {
    let stores = Stores::new("hostile");
    let idle = ("connections.max.idle.ms", "500");
    let handle = stores.brokers(&[idle]);
    // A hello of TLS, as far as it is sent: the record says that 512 bytes follow.
    let mut begun: Vec<TcpStream> = (0..200)
        .map(|number| {
            let mut stream = tcp(handle.addresses()[0]);
            let hello = [22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3];
            stream
                .write_all(&hello[..1 + number % hello.len()])
                .expect("sent");
            stream
        })
        .collect();
    let config = stores.client(None, &rustls::version::TLS13);
    let mut working = Client::tls(&handle, Arc::clone(&config));
    // This one has shaken hands and says nothing more, in time or ever.
    let mut silent = {
        let name = ServerName::try_from("localhost").expect("a name");
        let mut connection = ClientConnection::new(config, name).expect("a connection");
        let mut stream = tcp(handle.addresses()[0]);
        while connection.is_handshaking() {
            connection.complete_io(&mut stream).expect("a handshake");
        }
        Client(Box::new(StreamOwned::new(connection, stream)))
    };
    let mut dripping = tcp(handle.addresses()[0]);
    dripping.write_all(&[22, 3, 1, 2, 0, 1]).expect("sent");
    let began = Instant::now();
    let mut slowest = Duration::ZERO;
    while began.elapsed() < Duration::from_millis(300) {
        let sent = Instant::now();
        assert!(working.is_served());
        slowest = slowest.max(sent.elapsed());
        // It may be closed by now.
        let _ = dripping.write(&[0]);
    }
    for stream in &mut begun {
        let read = stream.read(&mut [0; 64]);
        assert!(read.is_ok() || read.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionReset));
        assert!(working.is_served());
    }
    silent.assert_closed();
    let mut last = [0; 64];
    while dripping.read(&mut last).is_ok_and(|count| count > 0) {}
    assert!(began.elapsed() < PATIENCE / 2, "{:?}", began.elapsed());
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
    assert!(working.is_served());
}

#[test]
fn who_asks_without_logging_in_is_closed_in_time_however_often_it_asks() {
    let handle = with_users("SASL_PLAINTEXT", &[("connections.max.idle.ms", "300")]);
    let mut client = Client::plain(&handle);
    let began = Instant::now();
    // A version that is not known may be tried again and again.
    let frame = encode_request(1, None, 127, &ApiVersionsRequest::default());
    while client.send(&frame).is_ok() && client.receive().is_ok() {
        assert!(began.elapsed() < PATIENCE, "it is still served");
    }
    assert!(began.elapsed() >= Duration::from_millis(300));
}

#[test]
fn a_connection_that_closes_while_it_waits_waits_no_longer() {
    let stores = Stores::new("waiting");
    let log = stores.0.join("requests.csv");
    let handle = start(Config {
        request_log: Some(log.clone()),
        ..stores.properties(&[("security.protocol", "SSL")])
    })
    .expect("brokers start");
    let topic = create_topics::CreatableTopic {
        name: "t".to_owned(),
        num_partitions: 1,
        replication_factor: 1,
        ..create_topics::CreatableTopic::default()
    };
    let created =
        Client::tls(&handle, stores.client(None, &rustls::version::TLS13)).ask(&CreateTopicsRequest {
            topics: vec![topic],
            ..CreateTopicsRequest::default()
        });
    assert_eq!(created.expect("an answer").topics[0].error_code, ErrorCode::NONE);
    let fetch = wire::fetch::encode_fetch_request(
        1,
        None,
        12,
        &wire::fetch::FetchRequest {
            max_wait_ms: i32::MAX,
            min_bytes: 1,
            topics: vec![wire::fetch::FetchTopic {
                topic: "t".to_owned(),
                partitions: vec![wire::fetch::FetchPartition {
                    partition_max_bytes: 1000,
                    ..wire::fetch::FetchPartition::default()
                }],
                ..wire::fetch::FetchTopic::default()
            }],
            ..wire::fetch::FetchRequest::default()
        },
    );
    for (number, version) in [&rustls::version::TLS12, &rustls::version::TLS13]
        .into_iter()
        .enumerate()
    {
        let name = ServerName::try_from("localhost").expect("a name");
        let connection = ClientConnection::new(stores.client(None, version), name).expect("a connection");
        let mut stream = StreamOwned::new(connection, tcp(handle.addresses()[0]));
        stream.write_all(&fetch).expect("sent");
        stream.conn.send_close_notify();
        stream.flush().expect("sent");
        // Not dropped before the end: bytes that it has not read would make a reset of that, and the request might be lost.
        stream.sock.shutdown(std::net::Shutdown::Write).expect("closed");
        // It is written down as a request that was never answered once the broker has seen that the client is gone.
        let began = Instant::now();
        loop {
            handle.flush_log();
            let text = std::fs::read_to_string(&log).expect("a log");
            if text.matches(",,1,Fetch,12,").count() > number {
                break;
            }
            assert!(began.elapsed() < PATIENCE, "{text}");
        }
    }
}

#[test]
fn the_rig_judges_requests_within_tls_and_writes_them_down() {
    let stores = Stores::new("rig");
    let (apis, errors) = broker::known_names();
    let rules = "rules:\n  - { api: SaslAuthenticate, delay: 80ms }\n  - { api: Metadata, drop: true, from_request: 3 }\n";
    let script =
        model::broker_script::BrokerScript::parse("s.yaml", rules, &apis, &errors).expect("a script");
    let log = stores.0.join("requests.csv");
    let line = format!("{MODULE} user_alice=\"{PASSWORD}\";");
    let handle = start(Config {
        script: Some(script),
        request_log: Some(log.clone()),
        ..stores.properties(&[("security.protocol", "SASL_SSL"), ("sasl.jaas.config", &line)])
    })
    .expect("brokers start");
    let mut client = Client::tls(&handle, stores.client(None, &rustls::version::TLS13));
    let began = Instant::now();
    client.log_in(plain("alice", PASSWORD));
    assert!(
        began.elapsed() >= Duration::from_millis(80),
        "{:?}",
        began.elapsed()
    );
    assert!(client.is_served() && client.is_served() && !client.is_served());
    // Who connects to a broker that is paused shakes hands when it goes on.
    handle.pause_broker(1).expect("a broker");
    let mut waiting = Client::tls(&handle, stores.client(None, &rustls::version::TLS13));
    let resumed_at = std::thread::scope(|scope| {
        let login = scope.spawn(|| {
            let answer = waiting.log_in(plain("alice", PASSWORD));
            (answer.error_code, Instant::now())
        });
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(100) {
            std::thread::yield_now();
        }
        assert!(!login.is_finished());
        let resumed_at = Instant::now();
        handle.resume_broker(1).expect("a broker");
        let (error, at) = login.join().expect("no panic");
        assert_eq!(error, ErrorCode::NONE);
        assert!(at > resumed_at);
        resumed_at
    });
    assert!(
        resumed_at.elapsed() >= Duration::from_millis(80),
        "the answer is delayed"
    );
    // One that asks too early is no request.
    let mut early = Client::tls(&handle, stores.client(None, &rustls::version::TLS13));
    assert!(!early.is_served());
    handle.shutdown();
    let text = std::fs::read_to_string(log).expect("a log");
    let apis: Vec<(&str, bool)> = text
        .lines()
        .skip(1)
        .map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            (fields[3], !fields[1].is_empty())
        })
        .collect();
    assert_eq!(
        apis,
        [
            ("SaslHandshake", true),
            ("SaslAuthenticate", true),
            ("Metadata", true),
            ("Metadata", true),
            ("Metadata", false),
            ("SaslHandshake", true),
            ("SaslAuthenticate", true)
        ]
    );
}

#[test]
fn stores_of_each_kind_serve_and_those_that_do_not_are_told() {
    let stores = Stores::new("kinds");
    // PKCS12 under its password.
    let certificate = CertificateDer::from_pem_slice(stores.1.broker.as_bytes()).expect("a certificate");
    let key = match PrivateKeyDer::from_pem_slice(stores.1.broker.as_bytes()).expect("a key") {
        PrivateKeyDer::Pkcs8(key) => key.secret_pkcs8_der().to_vec(),
        other => panic!("{other:?}"),
    };
    let chain = p12_keystore::PrivateKeyChain::new(
        "broker",
        p12_keystore::PrivateKey::from_der(&key).expect("a key"),
        [p12_keystore::Certificate::from_der(&certificate).expect("a certificate")],
    );
    let mut store = p12_keystore::KeyStore::new();
    store.add_entry("broker", p12_keystore::KeyStoreEntry::PrivateKeyChain(chain));
    let bytes = store.writer("changeit").write().expect("a store");
    std::fs::write(stores.path("broker.p12"), bytes).expect("written");
    let p12 = stores.path("broker.p12");
    let pkcs12 = |password: &'static str| {
        vec![
            ("security.protocol", "SSL"),
            ("ssl.keystore.type", "PKCS12"),
            ("ssl.keystore.location", p12.as_str()),
            ("ssl.keystore.password", password),
        ]
    };
    // PEM text in the properties.
    let (key_pem, certificate_pem) = stores
        .1
        .broker
        .split_at(stores.1.broker.find("-----BEGIN CERT").expect("one"));
    let inline = vec![
        ("security.protocol", "SSL"),
        ("ssl.keystore.type", "PEM"),
        ("ssl.keystore.key", key_pem),
        ("ssl.keystore.certificate.chain", certificate_pem),
        ("ssl.truststore.certificates", &stores.1.authority),
        ("ssl.client.auth", "required"),
    ];
    for (given, identity) in [
        (pkcs12("changeit"), None),
        (inline, Some(stores.1.client.as_str())),
    ] {
        let handle = start(config(&given)).expect("brokers start");
        assert!(Client::tls(&handle, stores.client(identity, &rustls::version::TLS13)).is_served());
    }
    let told = |given: &[(&str, &str)]| match start(config(given)) {
        Err(StartError::Store(text)) => text,
        other => panic!("{other:?}"),
    };
    let text = told(&pkcs12("wrong-secret"));
    assert!(text.contains("ssl.keystore.password is wrong"), "{text}");
    assert!(!text.contains("wrong-secret"), "{text}");
    let nowhere = [
        ("security.protocol", "SSL"),
        ("ssl.keystore.location", "/nowhere/k.jks"),
    ];
    let text = told(&nowhere);
    assert!(text.contains("ssl.keystore.location = /nowhere/k.jks"), "{text}");
    let strange = stores.path("ca.pem");
    let text = told(&[("security.protocol", "SSL"), ("ssl.keystore.location", &strange)]);
    assert!(text.contains("no private key"), "{text}");
}
