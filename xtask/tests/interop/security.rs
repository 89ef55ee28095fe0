//! TLS and SASL on real Kafka: one properties file for plimsoll and for Kafka's own tools.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::java_tools;
use crate::program;
use crate::run::{Scratch, count};

/// How long a failed login or handshake may take until it is told.
const TOLD_WITHIN: Duration = Duration::from_secs(10);

/// The secured cluster that the test tier has started: its plain bootstrap servers, and where its files stand.
struct Secured {
    plain: String,
    directory: PathBuf,
}

fn secured() -> Secured {
    Secured {
        plain: crate::required("PLIMSOLL_TEST_SECURED_KAFKA"),
        directory: PathBuf::from(crate::required("PLIMSOLL_TEST_SECURED_FILES")),
    }
}

impl Secured {
    fn file(&self, name: &str) -> String {
        self.directory
            .join(format!("{name}.properties"))
            .display()
            .to_string()
    }

    /// What a properties file says of a property.
    fn property(&self, file: &str, name: &str) -> String {
        let text = std::fs::read_to_string(self.file(file)).expect("a properties file");
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.expect("the property").to_owned()
    }

    fn bootstrap(&self, file: &str) -> String {
        self.property(file, "bootstrap.servers")
    }
}

/// Produces and consumes with that file, and lets Kafka's console consumer read the same topic with it.
fn produces_and_consumes(name: &str, java_reads_too: bool) {
    let secured = secured();
    let file = secured.file(name);
    let topic = format!("secured-{name}");
    java_tools::create_topic(&secured.plain, &topic, 3, 1, &[]);
    let scratch = Scratch::new(&format!("security-{name}"));
    let result = scratch.run(&[
        "--command-config",
        &file,
        "--topic",
        &topic,
        "--existing",
        "--rate",
        "1000",
        "--record-size",
        "300",
        "--warmup",
        "0",
        "--duration",
        "2s",
    ]);
    let totals = &result["whole_run"];
    assert_eq!(count(&totals["acknowledged_count"]), 2000, "{totals:#}");
    assert_eq!(
        count(&totals["verification"]["checked_count"]),
        2000,
        "{totals:#}"
    );
    assert_eq!(count(&totals["verification"]["lost_count"]), 0, "{totals:#}");
    let text = serde_json::to_string(&result).expect("JSON");
    assert!(
        !text.contains("s-secret") && !text.contains("changeit"),
        "a secret is in the result"
    );
    if java_reads_too {
        let bootstrap = secured.bootstrap(name);
        let options = [
            "--topic",
            &topic,
            "--from-beginning",
            "--max-messages",
            "2000",
            "--timeout-ms",
            "20000",
        ];
        let consume = [
            &["--bootstrap-server", &bootstrap, "--consumer.config", &file],
            &options[..],
        ]
        .concat();
        let read = java_tools::NEWEST.run("kafka-console-consumer", &consume, "");
        assert!(
            read.stderr.contains("Processed a total of 2000 messages"),
            "{read}"
        );
    }
}

#[test]
fn scram_sha_512_over_tls_with_a_jks_trust_store() {
    produces_and_consumes("scram-512-jks", true);
}

#[test]
fn scram_sha_256_over_tls_with_a_pkcs12_trust_store() {
    produces_and_consumes("scram-256-p12", false);
}

#[test]
fn plain_over_tls_with_pem_certificates() {
    produces_and_consumes("plain-pem", false);
}

#[test]
fn a_bearer_token_over_tls() {
    produces_and_consumes("oauthbearer", false);
}

#[test]
fn scram_without_tls() {
    produces_and_consumes("scram-plaintext", false);
}

#[test]
fn mutual_tls_with_jks_stores() {
    produces_and_consumes("mutual-jks", true);
}

#[test]
fn mutual_tls_with_pkcs12_stores() {
    produces_and_consumes("mutual-p12", false);
}

#[test]
fn mutual_tls_with_an_encrypted_pem_key() {
    produces_and_consumes("mutual-pem", false);
}

/// What `topics list` says when it fails with these arguments, in time and without any secret.
fn refusal(arguments: &[&str]) -> String {
    let mut command = Command::new(crate::plimsoll());
    command.args(["topics", "list"]).args(arguments);
    let began = Instant::now();
    let ended = program::run(&mut command, "", Duration::from_secs(60));
    let took = began.elapsed();
    assert!(!ended.is_success(), "{ended}");
    let text = format!("{}{}", ended.stdout, ended.stderr);
    assert!(took < TOLD_WITHIN, "{took:?}: {text}");
    for secret in ["s-secret", "changeit", "falsch"] {
        assert!(!text.contains(secret), "a secret is shown: {text}");
    }
    text
}

#[track_caller]
fn says(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "{word:?} is not in: {text}");
    }
}

fn jaas(module: &str) -> String {
    format!(
        "sasl.jaas.config=org.apache.kafka.common.security.{module} required username=\"alice\" password=\"falsch\";"
    )
}

#[test]
fn a_wrong_password_is_told_with_mechanism_and_broker() {
    let secured = secured();
    for (file, mechanism, module) in [
        ("scram-512-jks", "SCRAM-SHA-512", "scram.ScramLoginModule"),
        ("scram-256-p12", "SCRAM-SHA-256", "scram.ScramLoginModule"),
        ("plain-pem", "PLAIN", "plain.PlainLoginModule"),
    ] {
        let text = refusal(&["--command-config", &secured.file(file), "-X", &jaas(module)]);
        says(
            &text,
            &["authentication failed", mechanism, &secured.bootstrap(file)],
        );
    }
}

#[test]
fn a_run_with_a_wrong_password_ends_as_soon() {
    let secured = secured();
    let mut command = Command::new(crate::plimsoll());
    let wrong = jaas("scram.ScramLoginModule");
    command.args([
        "run",
        "--command-config",
        &secured.file("scram-512-jks"),
        "-X",
        &wrong,
    ]);
    command.args(["--output", env!("CARGO_TARGET_TMPDIR")]);
    let began = Instant::now();
    let text = program::run(&mut command, "", Duration::from_secs(60)).failed_with(1);
    assert!(began.elapsed() < TOLD_WITHIN, "{text}");
    says(&text, &["authentication failed", "SCRAM-SHA-512"]);
}

#[test]
fn a_client_without_tls_on_a_tls_port_is_told_so_and_the_reverse() {
    let secured = secured();
    let tls = secured.bootstrap("mutual-jks");
    says(
        &refusal(&["--bootstrap-server", &tls]),
        &[&tls, "speaks TLS", "security.protocol=SSL"],
    );
    let sasl_tls = secured.bootstrap("plain-pem");
    let text = refusal(&[
        "--command-config",
        &secured.file("scram-plaintext"),
        "--bootstrap-server",
        &sasl_tls,
    ]);
    says(&text, &[&sasl_tls, "SASL_SSL"]);
    let text = refusal(&[
        "--command-config",
        &secured.file("mutual-jks"),
        "--bootstrap-server",
        &secured.plain,
    ]);
    says(&text, &[&secured.plain, "TLS", "PLAINTEXT"]);
}

#[test]
fn a_client_without_sasl_on_a_sasl_port_is_told_so_and_the_reverse() {
    let secured = secured();
    let sasl = secured.bootstrap("scram-plaintext");
    says(&refusal(&["--bootstrap-server", &sasl]), &[&sasl, "SASL"]);
    let text = refusal(&[
        "--command-config",
        &secured.file("scram-plaintext"),
        "--bootstrap-server",
        &secured.plain,
    ]);
    says(&text, &[&secured.plain, "does not expect SASL"]);
}

#[test]
fn certificates_that_are_not_trusted_are_told_from_both_sides() {
    let secured = secured();
    let path = |name: &str| secured.directory.join(name).display().to_string();
    let stranger = format!("ssl.truststore.location={}", path("stranger.pem"));
    let text = refusal(&["--command-config", &secured.file("mutual-pem"), "-X", &stranger]);
    says(
        &text,
        &["signed by nobody that is trusted", "ssl.truststore.location"],
    );
    let stranger = format!("ssl.keystore.location={}", path("stranger-client.p12"));
    let text = refusal(&["--command-config", &secured.file("mutual-p12"), "-X", &stranger]);
    says(&text, &["does not trust the client's certificate"]);
    says(
        &refusal(&["--command-config", &secured.file("no-certificate")]),
        &["ssl.keystore.location"],
    );
}

#[test]
fn stores_that_do_not_open_are_told_by_name() {
    let secured = secured();
    for (file, property, expected) in [
        ("mutual-jks", "ssl.truststore.password=falsch", "truststore.jks"),
        ("mutual-jks", "ssl.key.password=falsch", "client.jks"),
        ("mutual-p12", "ssl.keystore.password=falsch", "client.p12"),
        ("mutual-pem", "ssl.key.password=falsch", "client-keystore.pem"),
        (
            "mutual-pem",
            "ssl.truststore.location=/nowhere/ca.pem",
            "/nowhere/ca.pem",
        ),
    ] {
        let text = refusal(&["--command-config", &secured.file(file), "-X", property]);
        says(&text, &[expected, property.split('=').next().expect("a name")]);
    }
}

#[test]
fn kerberos_is_refused_by_name() {
    let secured = secured();
    let sasl = secured.bootstrap("scram-plaintext");
    let text = refusal(&[
        "--bootstrap-server",
        &sasl,
        "-X",
        "security.protocol=SASL_PLAINTEXT",
    ]);
    says(&text, &["GSSAPI", "SCRAM-SHA-512"]);
}

#[test]
fn a_session_that_ends_is_logged_in_anew_under_load() {
    // The tier's brokers end sessions after four seconds; without a new login they would close each connection.
    let secured = secured();
    let scratch = Scratch::new("security-anew");
    let file = secured.file("scram-plaintext");
    let load = [
        "--topics",
        "1",
        "--partitions",
        "3",
        "--replication-factor",
        "1",
        "--rate",
        "500",
    ];
    let time = ["--warmup", "0", "--duration", "10s"];
    let result = scratch.run(&[&["--command-config", &file][..], &load, &time].concat());
    let totals = &result["whole_run"];
    assert_eq!(count(&totals["acknowledged_count"]), 5000, "{totals:#}");
    assert_eq!(
        count(&totals["verification"]["checked_count"]),
        5000,
        "{totals:#}"
    );
    assert!(result.get("errors").is_none(), "{:#}", result["errors"]);
}

/// The secured cluster's files are where the tier says.
#[test]
fn every_way_to_log_in_has_its_file() {
    let secured = secured();
    for name in ["scram-512-jks", "mutual-pem", "oauthbearer"] {
        assert!(Path::new(&secured.file(name)).is_file(), "{name}");
    }
}
