//! Listeners with TLS and SASL beside the plain one, and the properties files of clients for them.
//!
//! Certificates are made by OpenSSL and stores by the JDK's keytool, so that what plimsoll reads is what others write. All of
//! it stands in `secured/` of the cluster's directory and goes with it. Users: `alice`, password [`PASSWORD`], in SCRAM and PLAIN.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::debian;

/// Password of the user and of all stores; it holds what formats trip over.
pub const PASSWORD: &str = "al=ice;s-secret";
/// Stores are not opened by passwords with signs in the brokers' own properties.
const STORE_PASSWORD: &str = "changeit";

/// The protocols that are offered beside PLAINTEXT, in the order of their ports.
pub const LISTENERS: [&str; 3] = ["SSL", "SASL_SSL", "SASL_PLAINTEXT"];

/// What the brokers add to their properties.
pub fn broker_properties(directory: &Path) -> Vec<(String, String)> {
    let store = |name: &str| directory.join(name).display().to_string();
    let mut properties: Vec<(String, String)> = [
        ("ssl.keystore.location", store("broker.p12")),
        ("ssl.keystore.type", "PKCS12".to_owned()),
        ("ssl.keystore.password", STORE_PASSWORD.to_owned()),
        ("ssl.key.password", STORE_PASSWORD.to_owned()),
        ("ssl.truststore.location", store("truststore.jks")),
        ("ssl.truststore.type", "JKS".to_owned()),
        ("ssl.truststore.password", STORE_PASSWORD.to_owned()),
        ("listener.name.ssl.ssl.client.auth", "required".to_owned()),
        (
            "sasl.enabled.mechanisms",
            "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER".to_owned(),
        ),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec();
    for listener in ["sasl_ssl", "sasl_plaintext"] {
        let mut jaas = |mechanism: &str, module: &str, options: &str| {
            properties.push((
                format!("listener.name.{listener}.{mechanism}.sasl.jaas.config"),
                format!("org.apache.kafka.common.security.{module} required {options};"),
            ));
        };
        jaas(
            "plain",
            "plain.PlainLoginModule",
            &format!("user_alice=\"{PASSWORD}\""),
        );
        jaas("scram-sha-256", "scram.ScramLoginModule", "");
        jaas("scram-sha-512", "scram.ScramLoginModule", "");
        jaas(
            "oauthbearer",
            "oauthbearer.OAuthBearerLoginModule",
            "unsecuredLoginStringClaim_sub=\"broker\"",
        );
    }
    properties
}

/// What the storage of a KRaft node is formatted with, so that the user exists from the beginning.
pub fn scram_arguments() -> Vec<String> {
    ["SCRAM-SHA-256", "SCRAM-SHA-512"]
        .iter()
        .flat_map(|mechanism| {
            let user = format!("{mechanism}=[name=alice,password={PASSWORD}]");
            ["--add-scram".to_owned(), user]
        })
        .collect()
}

/// Makes certificates, stores, and the clients' properties files. `bootstrap` gives the addresses of a listener.
pub fn make(directory: &Path, java: &Path, bootstrap: impl Fn(&str) -> String) -> Result<()> {
    fs::create_dir_all(directory)?;
    let maker = Maker {
        directory,
        openssl: debian::openssl()?,
        keytool: java.with_file_name("keytool"),
    };
    maker.certificates()?;
    maker.stores()?;
    for (name, text) in clients(directory, bootstrap) {
        fs::write(directory.join(name), text)?;
    }
    Ok(())
}

struct Maker<'a> {
    directory: &'a Path,
    openssl: PathBuf,
    keytool: PathBuf,
}

impl Maker<'_> {
    fn certificates(&self) -> Result<()> {
        self.certificate_authority("ca")?;
        self.certificate_authority("stranger")?;
        fs::write(
            self.directory.join("names"),
            "subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n",
        )?;
        self.signed("broker", "ca")?;
        self.signed("client", "ca")?;
        self.signed("stranger-client", "stranger")
    }

    fn certificate_authority(&self, name: &str) -> Result<()> {
        self.openssl(&format!(
            "req -x509 -newkey rsa:2048 -nodes -keyout {name}.key -out {name}.pem -days 30 -subj /CN=plimsoll-{name} \
             -addext basicConstraints=critical,CA:TRUE"
        ))
    }

    fn signed(&self, name: &str, by: &str) -> Result<()> {
        self.openssl(&format!(
            "req -newkey rsa:2048 -nodes -keyout {name}.key -out {name}.csr -subj /CN={name}"
        ))?;
        self.openssl(&format!(
            "x509 -req -in {name}.csr -CA {by}.pem -CAkey {by}.key -CAcreateserial -extfile names -out {name}.pem -days 30"
        ))
    }

    fn stores(&self) -> Result<()> {
        for (name, by) in [
            ("broker", "ca"),
            ("client", "ca"),
            ("stranger-client", "stranger"),
        ] {
            self.openssl(&format!(
                "pkcs12 -export -in {name}.pem -inkey {name}.key -certfile {by}.pem -name {name} -passout \
                 pass:{STORE_PASSWORD} -out {name}.p12"
            ))?;
        }
        for (kind, file) in [("JKS", "truststore.jks"), ("PKCS12", "truststore.p12")] {
            self.keytool(&format!(
                "-importcert -noprompt -alias ca -file ca.pem -keystore {file} -storetype {kind} -storepass {STORE_PASSWORD}"
            ))?;
        }
        self.keytool(&format!(
            "-importkeystore -noprompt -srckeystore client.p12 -srcstoretype PKCS12 -srcstorepass {STORE_PASSWORD} -destkeystore \
             client.jks -deststoretype JKS -deststorepass {STORE_PASSWORD}"
        ))?;
        self.openssl(&format!(
            "pkcs8 -topk8 -v2 aes-256-cbc -in client.key -passout pass:{STORE_PASSWORD} -out client-encrypted.key"
        ))?;
        let read =
            |name: &str| fs::read_to_string(self.directory.join(name)).with_context(|| name.to_owned());
        let whole = read("client-encrypted.key")? + &read("client.pem")? + &read("ca.pem")?;
        fs::write(self.directory.join("client-keystore.pem"), whole)?;
        Ok(())
    }

    fn openssl(&self, arguments: &str) -> Result<()> {
        self.run(&self.openssl, arguments)
    }

    fn keytool(&self, arguments: &str) -> Result<()> {
        self.run(&self.keytool, arguments)
    }

    fn run(&self, program: &Path, arguments: &str) -> Result<()> {
        let output = Command::new(program)
            .args(arguments.split_whitespace())
            .current_dir(self.directory)
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot run {}", program.display()))?;
        ensure!(
            output.status.success(),
            "{} {arguments}:\n{}{}",
            program.display(),
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }
}

/// Properties files by name: one a way to log in, as the Java clients take them.
fn clients(directory: &Path, bootstrap: impl Fn(&str) -> String) -> Vec<(String, String)> {
    let path = |name: &str| directory.join(name).display().to_string();
    let trust_jks = format!(
        "ssl.truststore.location={}\nssl.truststore.password={STORE_PASSWORD}\n",
        path("truststore.jks")
    );
    let trust_p12 = format!(
        "ssl.truststore.type=PKCS12\nssl.truststore.location={}\nssl.truststore.password={STORE_PASSWORD}\n",
        path("truststore.p12")
    );
    let trust_pem = format!(
        "ssl.truststore.type=PEM\nssl.truststore.location={}\n",
        path("ca.pem")
    );
    let jaas = |module: &str, options: &str| {
        format!("sasl.jaas.config=org.apache.kafka.common.security.{module} required \\\n  {options};\n")
    };
    let user = format!("username=\"alice\" password=\"{PASSWORD}\"");
    let scram = |mechanism: &str| {
        format!(
            "sasl.mechanism={mechanism}\n{}",
            jaas("scram.ScramLoginModule", &user)
        )
    };
    let plain = format!("sasl.mechanism=PLAIN\n{}", jaas("plain.PlainLoginModule", &user));
    let bearer = format!(
        "sasl.mechanism=OAUTHBEARER\n{}",
        jaas(
            "oauthbearer.OAuthBearerLoginModule",
            "unsecuredLoginStringClaim_sub=\"alice\""
        )
    );
    let own_jks = format!(
        "ssl.keystore.location={}\nssl.keystore.password={STORE_PASSWORD}\nssl.key.password={STORE_PASSWORD}\n",
        path("client.jks")
    );
    let own_p12 = format!(
        "ssl.keystore.type=PKCS12\nssl.keystore.location={}\nssl.keystore.password={STORE_PASSWORD}\n",
        path("client.p12")
    );
    let own_pem = format!(
        "ssl.keystore.type=PEM\nssl.keystore.location={}\nssl.key.password={STORE_PASSWORD}\n",
        path("client-keystore.pem")
    );
    let file = |name: &str, protocol: &str, parts: &[&str]| {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "bootstrap.servers={}\nsecurity.protocol={protocol}\n{}",
            bootstrap(protocol),
            parts.concat()
        );
        (format!("{name}.properties"), text)
    };
    vec![
        file(
            "scram-512-jks",
            "SASL_SSL",
            &[&scram("SCRAM-SHA-512"), &trust_jks],
        ),
        file(
            "scram-256-p12",
            "SASL_SSL",
            &[&scram("SCRAM-SHA-256"), &trust_p12],
        ),
        file("plain-pem", "SASL_SSL", &[&plain, &trust_pem]),
        file("oauthbearer", "SASL_SSL", &[&bearer, &trust_pem]),
        file("scram-plaintext", "SASL_PLAINTEXT", &[&scram("SCRAM-SHA-512")]),
        file("mutual-jks", "SSL", &[&trust_jks, &own_jks]),
        file("mutual-p12", "SSL", &[&trust_p12, &own_p12]),
        file("mutual-pem", "SSL", &[&trust_pem, &own_pem]),
        file("no-certificate", "SSL", &[&trust_jks]),
    ]
}
