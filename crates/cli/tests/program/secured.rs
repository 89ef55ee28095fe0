//! `plimsoll broker` with TLS and SASL, and runs against it.

use crate::process::{Brokers, Scratch};
use std::os::unix::fs::PermissionsExt;

#[test]
fn brokers_make_what_clients_need_and_a_run_on_them_is_verified() {
    let scratch = Scratch::new("secured");
    let folder = scratch.path().join("certs");
    let shown = folder.display().to_string();
    for (protocol, more) in [
        ("SASL_SSL", vec![]),
        ("SSL", vec!["--property", "ssl.client.auth=required"]),
        (
            "SASL_PLAINTEXT",
            vec!["--property", "sasl.enabled.mechanisms=OAUTHBEARER"],
        ),
    ] {
        let chosen = format!("security.protocol={protocol}");
        let given = [
            &["--secured", shown.as_str(), "--property", chosen.as_str()][..],
            &more,
        ]
        .concat();
        let brokers = Brokers::start(&given);
        for name in ["client.properties", "librdkafka.properties"] {
            let mode = std::fs::metadata(folder.join(name))
                .expect("a file")
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
        let text = std::fs::read_to_string(folder.join("client.properties")).expect("a file");
        assert!(text.contains(&format!(
            "bootstrap.servers={}\nsecurity.protocol={protocol}\n",
            brokers.bootstrap
        )));
        let client = folder.join("client.properties").display().to_string();
        let run = [
            "run",
            "--rate",
            "500",
            "--warmup",
            "0",
            "--duration",
            "1s",
            "--json",
        ];
        let ended = scratch
            .run(&[&run[..], &["--command-config", &client]].concat())
            .succeeded();
        let result: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
        assert_eq!(
            result["whole_run"]["consumed"][0]["records_count"], 500,
            "{protocol}"
        );
        // The password is in the file, and nowhere else.
        let password = text
            .split("password=\"")
            .nth(1)
            .and_then(|rest| rest.split('"').next());
        if let Some(password) = password {
            assert!(
                password.len() > 20 && !ended.stdout.contains(password) && !ended.stderr.contains(password)
            );
        }
        let refused = scratch.run(&["topics", "list", "--bootstrap-server", &brokers.bootstrap]);
        assert_eq!(refused.status, Some(1), "{}", refused.stderr);
    }
}

#[test]
fn a_run_without_a_cluster_can_have_secured_brokers() {
    let scratch = Scratch::new("broker-secured");
    let run = ["run", "--rate", "500", "--warmup", "0", "--duration", "1s"];
    scratch
        .run(&[&run[..], &["--broker-secured", "certs"]].concat())
        .succeeded();
    let result = scratch.result();
    assert_eq!(result["whole_run"]["consumed"][0]["records_count"], 500);
    let text = result.to_string();
    assert!(
        text.contains("SASL_SSL") && text.contains("--broker-secured"),
        "{text}"
    );
    let made = std::fs::read_to_string(scratch.path().join("certs/client.properties")).expect("a file");
    let password = made
        .split("password=\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next());
    assert!(!text.contains(password.expect("a password")));
    // What is given for the clients counts more than what was made for them.
    let wrong = scratch.run(
        &[
            &run[..],
            &["--broker-secured", "certs", "-X", "sasl.mechanism=PLAIN", "-X"],
            &["sasl.jaas.config=a.PlainLoginModule required username=\"plimsoll\" password=\"falsch\";"],
        ]
        .concat(),
    );
    assert_eq!(wrong.status, Some(1), "{}", wrong.stderr);
    assert!(
        wrong.stderr.contains("authentication failed with PLAIN"),
        "{}",
        wrong.stderr
    );
    assert!(!wrong.stderr.contains("falsch"), "{}", wrong.stderr);
}

#[track_caller]
fn check_refused(scratch: &Scratch, arguments: &[&str], expected: &str) {
    let ended = scratch.run(&[&["broker", "--listen", "127.0.0.1:0"], arguments].concat());
    assert_eq!(
        (ended.status, ended.stdout.as_str()),
        (Some(2), ""),
        "{}",
        ended.stderr
    );
    assert_eq!(ended.stderr, format!("plimsoll: error: {expected}\n"));
}

#[test]
fn what_cannot_be_secured_so_is_refused_and_nothing_is_written_over() {
    let scratch = Scratch::new("not-secured");
    scratch.write("client.properties", "security.protocol=SSL\n");
    scratch.write(
        "broker.properties",
        "security.protocol=SASL_PLAINTEXT\nsasl.jaas.config=a.B required user_me=\"geheim\"\n",
    );
    let here = scratch.path().display().to_string();
    check_refused(
        &scratch,
        &["--secured", "."],
        &format!(
            "--secured {here}: client.properties is there and would be written over; name another folder, or remove it"
        ),
    );
    check_refused(
        &scratch,
        &["--secured", "x", "--property", "ssl.keystore.location=k.jks"],
        "--secured makes certificates and a user, and ssl.keystore.location is given; leave one of them out",
    );
    check_refused(
        &scratch,
        &["--property", "security.protocol=SSL"],
        "ssl.keystore.location is missing; TLS needs a store with the brokers' certificate and key; or let --secured FOLDER make \
         certificates and a user",
    );
    check_refused(
        &scratch,
        &["--property-file", "broker.properties"],
        "sasl.jaas.config of PLAIN: it does not end in a semicolon",
    );
    check_refused(
        &scratch,
        &["--property-file", "nowhere.properties"],
        "--property-file nowhere.properties: No such file or directory",
    );
    check_refused(
        &scratch,
        &[
            "--property",
            "security.protocol=SSL",
            "--property",
            "ssl.keystore.location=k.jks",
        ],
        "the embedded brokers cannot be started: ssl.keystore.location = k.jks: cannot be read: No such file or directory",
    );
    let kept = std::fs::read_to_string(scratch.path().join("client.properties")).expect("a file");
    assert_eq!(kept, "security.protocol=SSL\n");
}
