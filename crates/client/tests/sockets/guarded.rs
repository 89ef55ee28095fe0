//! The client against embedded brokers with TLS and SASL: who gets in, and what is said to who does not.

use crate::stage::{LIMIT, Stage, properties};
use broker::{Certificates, Handle};
use client::admin::Admin;
use client::clock::RunClock;
use client::consumer::Subscription;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What goes wrong is told within this (docs of the README).
const TOLD_WITHIN: Duration = Duration::from_secs(10);
const PASSWORD: &str = "al=ice;s-secret";

/// A folder with certificates, removed with this value.
struct Stores {
    folder: PathBuf,
    made: Certificates,
}

impl Stores {
    fn new(test: &str) -> Stores {
        let folder =
            PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let made = Certificates::make(&[]).expect("certificates");
        let stores = Stores { folder, made };
        stores.write("ca.pem", &stores.made.authority);
        stores.write("broker.pem", &stores.made.broker);
        stores.write("client.pem", &stores.made.client);
        stores
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.join(name), text).expect("written");
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn brokers(&self, more: &[&str]) -> Handle {
        let own = [
            "ssl.keystore.type=PEM".to_owned(),
            format!("ssl.keystore.location={}", self.path("broker.pem")),
            "ssl.truststore.type=PEM".to_owned(),
            format!("ssl.truststore.location={}", self.path("ca.pem")),
        ];
        brokers(&own, more)
    }

    /// What a client trusts.
    fn trust(&self) -> Vec<String> {
        vec![
            "security.protocol=SSL".to_owned(),
            "ssl.truststore.type=PEM".to_owned(),
            format!("ssl.truststore.location={}", self.path("ca.pem")),
        ]
    }
}

impl Drop for Stores {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.folder).unwrap_or_default();
    }
}

fn brokers(own: &[String], more: &[&str]) -> Handle {
    let split = |text: &str| {
        let (name, value) = text.split_once('=').expect("an assignment");
        (name.to_owned(), value.to_owned())
    };
    let own = own.iter().map(|text| split(text));
    broker::start(broker::Config {
        properties: own.chain(more.iter().map(|text| split(text))).collect(),
        ..broker::Config::default()
    })
    .expect("brokers start")
}

fn users(more: &str) -> String {
    format!("sasl.jaas.config=a.PlainLoginModule required user_alice=\"{PASSWORD}\" {more};")
}

/// A client's login.
fn login(mechanism: &str, password: &str) -> Vec<String> {
    let line = match mechanism {
        "PLAIN" => format!("a.PlainLoginModule required username=\"alice\" password=\"{password}\";"),
        "OAUTHBEARER" => {
            format!("a.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=\"alice\" {password};")
        }
        _ => format!("a.ScramLoginModule required username=\"alice\" password=\"{password}\";"),
    };
    vec![
        "security.protocol=SASL_PLAINTEXT".to_owned(),
        format!("sasl.mechanism={mechanism}"),
        format!("sasl.jaas.config={line}"),
    ]
}

fn connect(bootstrap: &str, given: &[String]) -> Result<Admin, String> {
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    let config = properties(bootstrap, &given)
        .admin()
        .expect("sound properties")
        .config;
    let began = Instant::now();
    let connected =
        Admin::connect(&config, RunClock::start(), TOLD_WITHIN).map_err(|error| error.to_string());
    assert!(began.elapsed() < TOLD_WITHIN, "{:?}", began.elapsed());
    connected
}

#[track_caller]
fn check_served(bootstrap: &str, given: &[String]) {
    if let Err(error) = connect(bootstrap, given) {
        panic!("{given:?}: {error}");
    }
}

#[track_caller]
fn check_told(bootstrap: &str, given: &[String], expected: &[&str]) {
    match connect(bootstrap, given) {
        Ok(_) => panic!("{given:?}: it is let in"),
        Err(error) => {
            for part in expected {
                assert!(error.contains(part), "{part} is not in: {error}");
            }
            assert!(!error.contains(PASSWORD) && !error.contains("falsch"), "{error}");
        }
    }
}

#[test]
fn each_mechanism_logs_in_and_a_wrong_password_is_told_as_one() {
    let all = "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER";
    let handle = brokers(&[], &["security.protocol=SASL_PLAINTEXT", all, &users("")]);
    let bootstrap = handle.bootstrap();
    for mechanism in ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] {
        check_served(&bootstrap, &login(mechanism, PASSWORD));
        check_told(
            &bootstrap,
            &login(mechanism, "falsch"),
            &[
                &bootstrap,
                "authentication failed with",
                mechanism,
                "wrong password",
            ],
        );
    }
    check_served(&bootstrap, &login("OAUTHBEARER", ""));
    // A token that was issued at no time.
    check_told(
        &bootstrap,
        &login("OAUTHBEARER", "unsecuredLoginStringClaim_iat=\"tomorrow\""),
        &["authentication failed with OAUTHBEARER", "invalid_token"],
    );
}

#[test]
fn a_mechanism_that_is_not_enabled_and_a_listener_that_wants_another_protocol_are_told() {
    let stores = Stores::new("protocols");
    let with_login = brokers(
        &[],
        &[
            "security.protocol=SASL_PLAINTEXT",
            "sasl.enabled.mechanisms=SCRAM-SHA-512,PLAIN",
            &users(""),
        ],
    );
    check_told(
        &with_login.bootstrap(),
        &login("SCRAM-SHA-256", PASSWORD),
        &["not enabled", "SCRAM-SHA-512, PLAIN"],
    );
    check_told(&with_login.bootstrap(), &[], &["SASL"]);
    check_told(
        &with_login.bootstrap(),
        &stores.trust(),
        &["security.protocol=PLAINTEXT or SASL_PLAINTEXT"],
    );
    let plain = brokers(&[], &[]);
    check_told(
        &plain.bootstrap(),
        &login("PLAIN", PASSWORD),
        &["does not expect SASL", "security.protocol=PLAINTEXT or SSL"],
    );
    check_told(
        &plain.bootstrap(),
        &stores.trust(),
        &["security.protocol=PLAINTEXT or SASL_PLAINTEXT"],
    );
    let tls = stores.brokers(&["security.protocol=SSL"]);
    check_told(&tls.bootstrap(), &[], &["TLS", "security.protocol=SSL"]);
    check_told(&tls.bootstrap(), &login("PLAIN", PASSWORD), &["TLS", "SSL"]);
}

#[test]
fn certificates_are_checked_by_both_sides_and_what_is_wrong_is_told() {
    let stores = Stores::new("certificates");
    let stranger = Stores::new("stranger");
    let own = |of: &Stores| {
        let keys = format!("ssl.keystore.location={}", of.path("client.pem"));
        [stores.trust(), vec!["ssl.keystore.type=PEM".to_owned(), keys]].concat()
    };
    for version in ["TLSv1.2", "TLSv1.3"] {
        let spoken = format!("ssl.enabled.protocols={version}");
        let handle = stores.brokers(&["security.protocol=SSL", "ssl.client.auth=required", &spoken]);
        let bootstrap = handle.bootstrap();
        check_served(&bootstrap, &own(&stores));
        check_served(&bootstrap.replace("127.0.0.1", "localhost"), &own(&stores));
        check_told(
            &bootstrap,
            &stores.trust(),
            &["asks for a", "ssl.keystore.location"],
        );
        check_told(
            &bootstrap,
            &own(&stranger),
            &["does not trust the client's certificate"],
        );
        let mut other = vec!["TLSv1.2", "TLSv1.3"];
        other.retain(|name| *name != version);
        let other = [own(&stores), vec![format!("ssl.enabled.protocols={}", other[0])]].concat();
        check_told(
            &bootstrap,
            &other,
            &["no version or cipher suite of TLS in common"],
        );
    }
    let requested = stores.brokers(&["security.protocol=SSL", "ssl.client.auth=requested"]);
    check_served(&requested.bootstrap(), &stores.trust());
    check_told(&requested.bootstrap(), &own(&stranger), &["does not trust"]);
    check_told(
        &requested.bootstrap(),
        &stranger.trust(),
        &["signed by nobody that is trusted"],
    );
    // The certificate names loopback and nothing else.
    let everywhere = broker::start(broker::Config {
        listen: ([0, 0, 0, 0], 0).into(),
        properties: [
            ("security.protocol", "SSL".to_owned()),
            ("ssl.keystore.location", stores.path("broker.pem")),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into(),
        ..broker::Config::default()
    })
    .expect("brokers start");
    let port = everywhere.addresses()[0].port();
    check_told(
        &format!("127.0.0.2:{port}"),
        &stores.trust(),
        &["does not name 127.0.0.2", "localhost"],
    );
    let unchecked = [
        stores.trust(),
        vec!["ssl.endpoint.identification.algorithm=".to_owned()],
    ]
    .concat();
    check_served(&format!("127.0.0.2:{port}"), &unchecked);
}

#[test]
fn a_session_that_the_broker_limits_is_renewed_before_it_ends() {
    let stores = Stores::new("renewed");
    let log = stores.folder.join("requests.csv");
    let names = [
        ("security.protocol", "SASL_SSL".to_owned()),
        ("ssl.keystore.location", stores.path("broker.pem")),
        (
            "sasl.jaas.config",
            format!("a.B required user_alice=\"{PASSWORD}\";"),
        ),
        ("connections.max.reauth.ms", "1500".to_owned()),
    ];
    let handle = broker::start(broker::Config {
        properties: names.map(|(name, value)| (name.to_owned(), value)).into(),
        request_log: Some(log.clone()),
        ..broker::Config::default()
    })
    .expect("brokers start");
    let mut given = [stores.trust(), login("SCRAM-SHA-512", PASSWORD)].concat();
    given.push("security.protocol=SASL_SSL".to_owned());
    let admin_given = given.clone();
    given.extend(
        [
            "fetch.max.wait.ms=50",
            "auto.offset.reset=earliest",
            "auto.commit.interval.ms=200",
        ]
        .map(str::to_owned),
    );
    given.push("group.id=g".to_owned());
    let bootstrap = handle.bootstrap();
    let mut admin = connect(&bootstrap, &admin_given).expect("let in");
    crate::stage::create(&mut admin, "t", 2, 1);
    let words: Vec<&str> = given.iter().map(String::as_str).collect();
    let config = properties(&bootstrap, &words)
        .consumer()
        .expect("sound properties")
        .config;
    let mut stage = Stage::new();
    stage.add(
        &config,
        &Subscription::Group {
            topics: vec!["t".to_owned()],
        },
    );
    stage.until("partitions are assigned", |stage| {
        stage.players[0].assigned().len() == 2
    });
    stage.turn_for(Duration::from_millis(4000));
    handle.flush_log();
    let text = std::fs::read_to_string(&log).expect("a log");
    // Logins by connection: more than one, and no connection was closed for its age: each goes on after its last login.
    let lines: Vec<Vec<&str>> = text
        .lines()
        .skip(1)
        .map(|line| line.split(',').collect())
        .collect();
    let fetching: Vec<&str> = lines
        .iter()
        .filter(|fields| fields[3] == "Fetch")
        .map(|fields| fields[5])
        .collect();
    let connection = *fetching.first().expect("fetches");
    assert!(
        fetching.iter().all(|other| *other == connection),
        "it was opened anew"
    );
    let logins = lines
        .iter()
        .filter(|fields| fields[5] == connection && fields[3] == "SaslHandshake")
        .count();
    assert!(logins >= 3, "{logins} logins\n{text}");
    assert!(stage.clock.now_ns() < LIMIT.as_nanos() as u64);
}
