//! `security.protocol`, `ssl.*` and `sasl.*`: what they come to, and what is said where they contradict each other.

use std::time::Duration;

use model::client_config::{ClientProperties, SaslConfig, Secret, Security, Store, TokenSource};

fn given(text: &str) -> ClientProperties {
    let mut properties = ClientProperties::default();
    properties
        .read_file("c.properties", &format!("bootstrap.servers=a:9092\n{text}"))
        .expect("a sound file");
    properties
}

fn security(text: &str) -> Security {
    match given(text).admin() {
        Ok(resolved) => resolved.config.connection.security,
        Err(faults) => panic!("{faults}"),
    }
}

fn faults(text: &str) -> String {
    let faults = given(text).producer().expect_err("faulty").to_string();
    for secret in ["geheim", "changeit"] {
        assert!(!faults.contains(secret), "{faults}");
    }
    faults
}

const SCRAM: &str = "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config=\
                     org.apache.kafka.common.security.scram.ScramLoginModule required \\\n  username=\"al=ice\" \
                     password=\"ge;heim\";\n";

#[test]
fn a_javas_file_is_read_whole() {
    let security = security(&format!(
        "{SCRAM}ssl.truststore.location=/etc/trust.jks\nssl.truststore.password=changeit\n"
    ));
    assert_eq!(security.protocol(), "SASL_SSL");
    let tls = security.tls.expect("TLS");
    assert_eq!(
        tls.trust,
        Some(Store::File {
            path: "/etc/trust.jks".to_owned(),
            password: Some(Secret::new("changeit")),
            is_pem: false,
        })
    );
    assert!(tls.checks_host_name && tls.tls_1_2 && tls.tls_1_3 && tls.identity.is_none());
    assert_eq!(
        security.sasl,
        Some(SaslConfig::Scram {
            is_sha_512: true,
            username: "al=ice".to_owned(),
            password: Secret::new("ge;heim"),
            is_token: false,
        })
    );
}

#[test]
fn secrets_are_shown_nowhere() {
    let text = format!("{SCRAM}ssl.truststore.location=/t\nssl.truststore.password=changeit\n");
    let resolved = given(&text).producer().expect("sound");
    let shown = format!(
        "{:?} {:?} {:?}",
        resolved.config,
        resolved.values,
        given(&text).shown()
    );
    assert!(
        !shown.contains("changeit") && !shown.contains("ge;heim"),
        "{shown}"
    );
}

#[test]
fn without_a_protocol_connections_are_plain_and_the_rest_has_no_effect() {
    let text = SCRAM.replace("security.protocol=SASL_SSL", "security.protocol=PLAINTEXT");
    let resolved = given(&text).admin().expect("sound");
    assert_eq!(resolved.config.connection.security, Security::default());
    let told: Vec<&str> = resolved
        .not_honoured
        .iter()
        .map(|told| told.name.as_str())
        .collect();
    assert_eq!(told, ["sasl.jaas.config", "sasl.mechanism"]);
}

#[test]
fn bearer_tokens_come_from_where_the_properties_say() {
    let base = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n";
    let jaas = |options: &str| {
        format!(
            "sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required {options};\n"
        )
    };
    let source = |text: &str| match security(&format!("{base}{text}")).sasl {
        Some(SaslConfig::OAuthBearer { source, extensions }) => (source, extensions),
        other => panic!("{other:?}"),
    };
    let (unsecured, extensions) = source(&jaas(
        "unsecuredLoginStringClaim_sub=\"alice\" extension_traceId=\"7\" unsecuredLoginLifetimeSeconds=\"60\"",
    ));
    assert_eq!(
        unsecured,
        TokenSource::Unsecured {
            claims: vec![("sub".to_owned(), "alice".to_owned())],
            scope: Vec::new(),
            lifetime: Duration::from_secs(60),
        }
    );
    assert_eq!(extensions, [("traceId".to_owned(), "7".to_owned())]);
    let file = "sasl.oauthbearer.token.endpoint.url=file:///run/token\n";
    let (file, _) = source(&format!("{file}{}", jaas("")));
    assert_eq!(
        file,
        TokenSource::File {
            path: "/run/token".to_owned()
        }
    );
    let handler = "sasl.login.callback.handler.class=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler\n";
    let endpoint =
        "sasl.oauthbearer.token.endpoint.url=https://login/token\nsasl.login.read.timeout.ms=2000\n";
    let credentials = jaas("clientId=\"me\" clientSecret=\"geheim\" scope=\"kafka\"");
    let (fetched, _) = source(&format!("{handler}{endpoint}{credentials}"));
    assert_eq!(
        fetched,
        TokenSource::ClientCredentials {
            endpoint: "https://login/token".to_owned(),
            client_id: "me".to_owned(),
            client_secret: Secret::new("geheim"),
            scope: Some("kafka".to_owned()),
            connect_timeout: None,
            read_timeout: Some(Duration::from_secs(2)),
            urlencodes: false,
        }
    );
}

#[test]
fn what_cannot_be_served_or_is_missing_is_told_with_a_way_out() {
    let sasl = "security.protocol=SASL_SSL\n";
    let ssl = "security.protocol=SSL\n";
    let jaas = "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username=\"u\" \
                password=\"geheim\";\n";
    for (text, expected) in [
        (sasl.to_owned() + jaas, "GSSAPI: Kerberos is not served"),
        (
            format!("{sasl}sasl.mechanism=PLAIN\n"),
            "sasl.jaas.config: missing",
        ),
        (
            format!("{sasl}sasl.mechanism=SCRAM-SHA-256\n{jaas}"),
            "PlainLoginModule does not belong to sasl.mechanism = SCRAM-SHA-256",
        ),
        (
            format!(
                "{sasl}sasl.mechanism=PLAIN\nsasl.jaas.config=a.PlainLoginModule required username=\"u\";\n"
            ),
            "needs the option password",
        ),
        (
            format!(
                "{sasl}sasl.mechanism=PLAIN\nsasl.jaas.config=a.PlainLoginModule required password=\"geheim\n"
            ),
            "a quote is opened and not closed",
        ),
        (
            format!("{sasl}sasl.mechanism=DIGEST-MD5\n{jaas}"),
            "allowed: PLAIN, SCRAM-SHA-256",
        ),
        (
            format!(
                "{sasl}sasl.mechanism=OAUTHBEARER\nsasl.jaas.config=a.OAuthBearerLoginModule required;\n"
            ),
            "sasl.oauthbearer.token.endpoint.url",
        ),
        (
            format!("{ssl}ssl.truststore.type=BKS\n"),
            "allowed: JKS, PKCS12, PEM",
        ),
        (
            format!("{ssl}ssl.truststore.certificates=x\n"),
            "set ssl.truststore.type=PEM",
        ),
        (
            format!("{ssl}ssl.keystore.type=PEM\nssl.keystore.key=geheim\n"),
            "ssl.keystore.certificate.chain: missing",
        ),
        (
            format!("{ssl}ssl.enabled.protocols=TLSv1.1\n"),
            "TLSv1.2 and TLSv1.3 are spoken",
        ),
        (
            format!("{ssl}ssl.endpoint.identification.algorithm=ldaps\n"),
            "allowed: https, or empty",
        ),
    ] {
        let told = faults(&text);
        assert!(told.contains(expected), "{text}\n{told}");
    }
}

#[test]
fn the_check_of_host_names_can_be_switched_off_and_versions_chosen() {
    let tls = security(
        "security.protocol=SSL\nssl.endpoint.identification.algorithm=\nssl.enabled.protocols=TLSv1.3\n\
         ssl.cipher.suites=TLS_AES_128_GCM_SHA256, TLS_AES_256_GCM_SHA384\n",
    )
    .tls
    .expect("TLS");
    assert!(!tls.checks_host_name && !tls.tls_1_2 && tls.tls_1_3);
    assert_eq!(
        tls.cipher_suites,
        ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384"]
    );
}
