//! What `--secured FOLDER` makes, so that a secured cluster can be rehearsed without any certificate at hand: an authority,
//! certificates for brokers and clients, a user with a password of its own, and properties files for clients.
//!
//! | file | for |
//! |---|---|
//! | `ca.pem` | trust store of all |
//! | `broker.pem` | the brokers' key and certificate |
//! | `client.pem` | a client's key and certificate |
//! | `client.properties` | plimsoll and the Java clients and tools |
//! | `librdkafka.properties` | kcat and other clients on librdkafka |
//!
//! All of it is made anew at each start. Files that hold keys or passwords can be read by their owner only.

use crate::failure::{Failure, system_error};
use broker::Certificates;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// What a file begins with that may be written over.
const MARK: &str = "# Made by plimsoll broker --secured";
const AUTHORITY: &str = "ca.pem";
const BROKER: &str = "broker.pem";
const CLIENT: &str = "client.pem";
/// The properties file for plimsoll and the Java clients.
pub const CLIENT_PROPERTIES: &str = "client.properties";
const LIBRDKAFKA_PROPERTIES: &str = "librdkafka.properties";
const FILES: [&str; 5] = [
    AUTHORITY,
    BROKER,
    CLIENT,
    CLIENT_PROPERTIES,
    LIBRDKAFKA_PROPERTIES,
];
/// The user that is made.
const USER: &str = "plimsoll";
/// The mechanism that clients log in by where none is chosen.
const MECHANISM: &str = "SCRAM-SHA-512";
const PACKAGE: &str = "org.apache.kafka.common.security";

/// See the module.
pub struct Rehearsal {
    folder: PathBuf,
    protocol: String,
    mechanism: String,
    password: String,
    shows_certificate: bool,
}

impl Rehearsal {
    /// Makes the certificates and the user, and adds to the brokers' properties what they need of them: all of TLS, all of
    /// SASL, or both, as `security.protocol` says, which is SASL_SSL if not given. `names` are the brokers' host names.
    ///
    /// # Errors
    /// When the properties name certificates or users of their own, or the folder cannot be written or holds other files of
    /// these names.
    pub fn prepare(
        folder: &Path,
        names: &[String],
        properties: &mut BTreeMap<String, String>,
    ) -> Result<Rehearsal, Failure> {
        let is_own = |name: &&String| {
            ["ssl.keystore.", "ssl.truststore.", "ssl.key.", "sasl.jaas.config"]
                .iter()
                .any(|part| name.contains(part))
        };
        if let Some(name) = properties.keys().find(is_own) {
            return Err(Failure::usage(format!(
                "--secured makes certificates and a user, and {name} is given; leave one of them out"
            )));
        }
        let protocol = properties
            .entry("security.protocol".to_owned())
            .or_insert_with(|| "SASL_SSL".to_owned())
            .clone();
        if protocol == "PLAINTEXT" {
            return Err(Failure::usage(
                "--secured: security.protocol=PLAINTEXT secures nothing; leave one of them out",
            ));
        }
        let listener = format!("listener.name.{}.", protocol.to_lowercase());
        let given = |name: &str| {
            let own = properties.get(&format!("{listener}{name}"));
            own.or_else(|| properties.get(name)).cloned()
        };
        let mechanisms = given("sasl.enabled.mechanisms").unwrap_or_else(|| MECHANISM.to_owned());
        let mechanism = mechanisms
            .split(',')
            .next()
            .unwrap_or(MECHANISM)
            .trim()
            .to_owned();
        let client_auth = given("ssl.client.auth").unwrap_or_default();
        let password = broker::random_text()
            .ok_or_else(|| Failure::failed("the system has no random bytes for a password"))?;
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        let rehearsal = Rehearsal {
            shows_certificate: matches!(client_auth.as_str(), "required" | "requested"),
            folder,
            protocol,
            mechanism,
            password,
        };
        rehearsal.take_folder()?;
        // The mark comes first: what is left by a start that fails is ours at the next one.
        rehearsal.write(
            CLIENT_PROPERTIES,
            &format!("{MARK}; the brokers have not started yet.\n"),
        )?;
        if rehearsal.has_tls() {
            let made = Certificates::make(names).map_err(|error| Failure::of_error(&error))?;
            rehearsal.write(AUTHORITY, &made.authority)?;
            rehearsal.write(BROKER, &made.broker)?;
            rehearsal.write(CLIENT, &made.client)?;
            for (store, file) in [("keystore", BROKER), ("truststore", AUTHORITY)] {
                properties.insert(format!("ssl.{store}.type"), "PEM".to_owned());
                properties.insert(format!("ssl.{store}.location"), rehearsal.path(file));
            }
        }
        if rehearsal.has_sasl() {
            // Unsigned tokens are taken only where they were asked for.
            let module = match rehearsal.mechanism.as_str() {
                "OAUTHBEARER" => "oauthbearer.OAuthBearerLoginModule",
                _ => "plain.PlainLoginModule",
            };
            let line = format!(
                "{PACKAGE}.{module} required user_{USER}=\"{}\";",
                rehearsal.password
            );
            properties.insert("sasl.jaas.config".to_owned(), line);
        }
        Ok(rehearsal)
    }

    /// Writes the properties files for clients of brokers at these addresses.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn write_clients(&self, bootstrap: &str) -> Result<(), Failure> {
        let text_of = |pairs: &[(&str, String)], escape: fn(&str) -> String| {
            let lines = pairs
                .iter()
                .map(|(name, value)| format!("{name}={}\n", escape(value)));
            format!(
                "{MARK}; at its next start it is made anew.\n{}",
                lines.collect::<String>()
            )
        };
        let java = text_of(&self.java(bootstrap), escaped);
        self.write(CLIENT_PROPERTIES, &java)?;
        let librdkafka = text_of(&self.librdkafka(bootstrap), str::to_owned);
        self.write(LIBRDKAFKA_PROPERTIES, &librdkafka)
    }

    /// What the user is told.
    pub fn told(&self) -> String {
        format!(
            "{}: client.properties is in {}\n",
            self.protocol,
            self.folder.display()
        )
    }

    fn has_tls(&self) -> bool {
        self.protocol.ends_with("SSL")
    }

    fn has_sasl(&self) -> bool {
        self.protocol.starts_with("SASL")
    }

    fn path(&self, file: &str) -> String {
        self.folder.join(file).display().to_string()
    }

    fn java(&self, bootstrap: &str) -> Vec<(&'static str, String)> {
        let mut pairs = vec![
            ("bootstrap.servers", bootstrap.to_owned()),
            ("security.protocol", self.protocol.clone()),
        ];
        if self.has_sasl() {
            let login = format!("username=\"{USER}\" password=\"{}\"", self.password);
            let line = match self.mechanism.as_str() {
                "PLAIN" => format!("plain.PlainLoginModule required {login};"),
                "OAUTHBEARER" => format!(
                    "oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=\"{USER}\";"
                ),
                _ => format!("scram.ScramLoginModule required {login};"),
            };
            pairs.push(("sasl.mechanism", self.mechanism.clone()));
            pairs.push(("sasl.jaas.config", format!("{PACKAGE}.{line}")));
        }
        if self.has_tls() {
            pairs.push(("ssl.truststore.type", "PEM".to_owned()));
            pairs.push(("ssl.truststore.location", self.path(AUTHORITY)));
            if self.shows_certificate {
                pairs.push(("ssl.keystore.type", "PEM".to_owned()));
                pairs.push(("ssl.keystore.location", self.path(CLIENT)));
            }
        }
        pairs
    }

    fn librdkafka(&self, bootstrap: &str) -> Vec<(&'static str, String)> {
        let mut pairs = vec![
            ("bootstrap.servers", bootstrap.to_owned()),
            ("security.protocol", self.protocol.clone()),
        ];
        if self.has_sasl() {
            pairs.push(("sasl.mechanism", self.mechanism.clone()));
            if self.mechanism == "OAUTHBEARER" {
                pairs.push(("enable.sasl.oauthbearer.unsecure.jwt", "true".to_owned()));
                pairs.push(("sasl.oauthbearer.config", format!("principal={USER}")));
            } else {
                pairs.push(("sasl.username", USER.to_owned()));
                pairs.push(("sasl.password", self.password.clone()));
            }
        }
        if self.has_tls() {
            pairs.push(("ssl.ca.location", self.path(AUTHORITY)));
            if self.shows_certificate {
                pairs.push(("ssl.certificate.location", self.path(CLIENT)));
                pairs.push(("ssl.key.location", self.path(CLIENT)));
            }
        }
        pairs
    }

    /// Sees to it that the folder is there and that what is written over was made by this.
    fn take_folder(&self) -> Result<(), Failure> {
        let shown = self.folder.display();
        std::fs::create_dir_all(&self.folder)
            .map_err(|error| Failure::usage(format!("--secured {shown}: {}", system_error(&error))))?;
        let is_ours = read_beginning(&self.folder.join(CLIENT_PROPERTIES)).is_ok_and(|text| text == MARK);
        let other = FILES.iter().find(|file| self.folder.join(file).exists());
        match other {
            Some(file) if !is_ours => Err(Failure::usage(format!(
                "--secured {shown}: {file} is there and would be written over; name another folder, or remove it"
            ))),
            _ => Ok(()),
        }
    }

    fn write(&self, file: &str, text: &str) -> Result<(), Failure> {
        let path = self.folder.join(file);
        let written = match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            // A new file, since one that is there keeps the rights that it has.
            _ => OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&path)
                .and_then(|mut opened| opened.write_all(text.as_bytes())),
        };
        written.map_err(|error| Failure::failed(format!("{}: {}", path.display(), system_error(&error))))
    }
}

/// As much of a file as the mark is long.
fn read_beginning(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let file = std::fs::File::open(path)?;
    file.take(MARK.len() as u64).read_to_string(&mut text)?;
    Ok(text)
}

/// A value as `java.util.Properties` reads it back, whatever character set it takes the file for.
fn escaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for c in value.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            ' '..='~' => text.push(c),
            c => c
                .encode_utf16(&mut [0; 2])
                .iter()
                .for_each(|unit| text.push_str(&format!("\\u{unit:04x}"))),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_from_the_file() {
        for value in ["/tmp/a b", "C:\\x", "größe 中😀", "a=b:c#d!"] {
            let text = format!("name={}", escaped(value));
            assert!(text.is_ascii());
            let read = model::properties::parse(&text).expect("properties");
            assert_eq!(read[0].value, value);
        }
    }

    fn clients_of(protocol: &str, mechanism: &str, shows_certificate: bool) -> Rehearsal {
        Rehearsal {
            folder: PathBuf::from("/f"),
            protocol: protocol.to_owned(),
            mechanism: mechanism.to_owned(),
            password: "geheim".to_owned(),
            shows_certificate,
        }
    }

    #[test]
    fn clients_are_told_what_their_protocol_needs_and_no_more() {
        let names = |pairs: Vec<(&'static str, String)>| -> Vec<&'static str> {
            pairs.into_iter().map(|(name, _)| name).skip(1).collect()
        };
        let ssl = clients_of("SSL", "SCRAM-SHA-512", true);
        assert_eq!(
            names(ssl.java("b:1")),
            [
                "security.protocol",
                "ssl.truststore.type",
                "ssl.truststore.location",
                "ssl.keystore.type",
                "ssl.keystore.location"
            ]
        );
        assert_eq!(
            names(ssl.librdkafka("b:1")),
            [
                "security.protocol",
                "ssl.ca.location",
                "ssl.certificate.location",
                "ssl.key.location"
            ]
        );
        let bearer = clients_of("SASL_PLAINTEXT", "OAUTHBEARER", false);
        assert_eq!(
            names(bearer.java("b:1")),
            ["security.protocol", "sasl.mechanism", "sasl.jaas.config"]
        );
        let told = format!(
            "{:?}{:?}{}",
            bearer.java("b:1"),
            bearer.librdkafka("b:1"),
            bearer.told()
        );
        assert!(!told.contains("geheim"), "{told}");
    }
}
