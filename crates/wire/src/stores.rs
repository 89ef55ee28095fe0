//! Certificates and keys out of trust and key stores: JKS, PKCS12 and PEM, as Java's clients and Kafka's brokers take them.
//!
//! Bytes in, certificates and keys out: whoever asks hands in how a file is read.

mod jks;

use jks::{Jks, JksError, is_jks};
use model::client_config::{Secret, Store};
use p12_keystore::Pkcs12Archive;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::fmt;
use std::io;

/// A store that cannot be used, with its place among the properties and what is wrong. It never holds a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StoreError(String);

/// Gives the content of the file with that path.
pub type ReadFile<'a> = &'a dyn Fn(&str) -> io::Result<Vec<u8>>;

/// A certificate with those that signed it, and its key.
pub struct Identity {
    /// The certificate, then those that signed it, one after the other.
    pub chain: Vec<CertificateDer<'static>>,
    /// The key of the first of them.
    pub key: PrivateKeyDer<'static>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("certificates", &self.chain.len())
            .finish_non_exhaustive()
    }
}

/// Bytes of a store with what messages call it.
struct Opened<'a> {
    name: String,
    bytes: Vec<u8>,
    password: Option<&'a str>,
    is_pem: bool,
}

impl<'a> Opened<'a> {
    fn of(
        path: &str,
        password: Option<&'a Secret>,
        is_pem: bool,
        what: &str,
        read: ReadFile<'_>,
    ) -> Result<Opened<'a>, StoreError> {
        let bytes = read(path).map_err(|error| {
            let text = error.to_string();
            let words = text.split(" (os error").next().unwrap_or(&text).to_owned();
            StoreError(format!("{what} = {path}: cannot be read: {words}"))
        })?;
        Ok(Opened {
            name: format!("{what} = {path}"),
            is_pem: is_pem || begins_as_pem(&bytes),
            bytes,
            password: password.map(Secret::reveal),
        })
    }

    fn wrong(&self, problem: &str) -> StoreError {
        StoreError(format!("{}: {problem}", self.name))
    }

    fn jks(&self, password_name: &str) -> Result<Jks, StoreError> {
        Jks::read(&self.bytes, self.password).map_err(|error| match error {
            JksError::Damaged => self.wrong("this JKS store is damaged"),
            JksError::WrongPassword => {
                self.wrong(&format!("{password_name} is wrong, or the store was changed"))
            }
        })
    }

    fn pkcs12(&self, password_name: &str) -> Result<Pkcs12Archive, StoreError> {
        let password = self.password.unwrap_or_default();
        Pkcs12Archive::from_pkcs12(&self.bytes, password).map_err(|error| match error {
            p12_keystore::error::Error::MacError(_) if self.password.is_none() => self.wrong(&format!(
                "{password_name} is missing, and this PKCS12 store has a password"
            )),
            p12_keystore::error::Error::MacError(_) => self.wrong(&format!("{password_name} is wrong")),
            p12_keystore::error::Error::DerError(_) => {
                self.wrong("it is neither a PKCS12 nor a JKS store, nor PEM text")
            }
            other => self.wrong(&format!("this PKCS12 store cannot be read: {other}")),
        })
    }
}

fn begins_as_pem(bytes: &[u8]) -> bool {
    bytes
        .windows(10)
        .take(64 * 1024)
        .any(|window| window == b"-----BEGIN")
}

/// The certificates that a trust store holds.
///
/// # Errors
///
/// When it cannot be read, is damaged, does not open with its password, or holds none.
pub fn trusted(store: &Store, read: ReadFile<'_>) -> Result<Vec<CertificateDer<'static>>, StoreError> {
    const LOCATION: &str = "ssl.truststore.location";
    const PASSWORD: &str = "ssl.truststore.password";
    let (name, certificates) = match store {
        Store::Pem { certificates, .. } => {
            const NAME: &str = "ssl.truststore.certificates";
            (
                NAME.to_owned(),
                pem_certificates(certificates.reveal().as_bytes(), NAME)?,
            )
        }
        Store::File {
            path,
            password,
            is_pem,
        } => {
            let opened = Opened::of(path, password.as_ref(), *is_pem, LOCATION, read)?;
            let certificates = if opened.is_pem {
                pem_certificates(&opened.bytes, &opened.name)?
            } else if is_jks(&opened.bytes) {
                // A key's own chain is no reason to trust anybody.
                let store = opened.jks(PASSWORD)?;
                store.certificates.into_iter().map(CertificateDer::from).collect()
            } else {
                let archive = opened.pkcs12(PASSWORD)?;
                let trusted = archive.certs.iter().filter(|bag| bag.local_key_id.is_none());
                trusted
                    .map(|bag| CertificateDer::from(bag.cert.as_der().to_vec()))
                    .collect()
            };
            (opened.name, certificates)
        }
    };
    if certificates.is_empty() {
        return Err(StoreError(format!("{name}: it holds no trusted certificate")));
    }
    Ok(certificates)
}

/// The certificate and key that a key store holds; the first that it has. `key_password` is that of the key within the store, or
/// of an encrypted PEM key.
///
/// # Errors
///
/// When it cannot be read, is damaged, does not open with its passwords, or lacks a key or its certificate.
pub fn identity(
    store: &Store,
    key_password: Option<&Secret>,
    read: ReadFile<'_>,
) -> Result<Identity, StoreError> {
    const LOCATION: &str = "ssl.keystore.location";
    const PASSWORD: &str = "ssl.keystore.password";
    let key_password = key_password.map(Secret::reveal);
    match store {
        Store::Pem { certificates, key } => {
            let chain = pem_certificates(certificates.reveal().as_bytes(), "ssl.keystore.certificate.chain")?;
            let key = key.as_ref().map_or("", Secret::reveal);
            let key = pem_key(key.as_bytes(), key_password, "ssl.keystore.key")?;
            Ok(Identity { chain, key })
        }
        Store::File {
            path,
            password,
            is_pem,
        } => {
            let opened = Opened::of(path, password.as_ref(), *is_pem, LOCATION, read)?;
            if opened.is_pem {
                let chain = pem_certificates(&opened.bytes, &opened.name)?;
                let key = pem_key(&opened.bytes, key_password, &opened.name)?;
                return Ok(Identity { chain, key });
            }
            if is_jks(&opened.bytes) {
                let store = opened.jks(PASSWORD)?;
                let hidden = store
                    .keys
                    .first()
                    .ok_or_else(|| opened.wrong("it holds no private key"))?;
                let password = key_password.or(opened.password).unwrap_or_default();
                let key = hidden.open(password).map_err(|error| match error {
                    JksError::Damaged => opened.wrong("the private key in it is damaged"),
                    JksError::WrongPassword => {
                        opened.wrong("the private key does not open with ssl.key.password, or without that with ssl.keystore.password")
                    }
                })?;
                return Ok(Identity {
                    chain: hidden.chain.iter().cloned().map(CertificateDer::from).collect(),
                    key: PrivatePkcs8KeyDer::from(key).into(),
                });
            }
            let archive = opened.pkcs12(PASSWORD)?;
            let bag = archive
                .keys
                .first()
                .ok_or_else(|| opened.wrong("it holds no private key"))?;
            let own = archive
                .certs
                .iter()
                .find(|cert| {
                    bag.local_key_id.is_some()
                        && cert.local_key_id.as_deref() == bag.local_key_id.as_ref().map(|id| id.as_ref())
                })
                .ok_or_else(|| opened.wrong("it holds no certificate of its private key"))?;
            let mut chain = vec![own];
            // Those that signed it, one after the other.
            while let Some(signer) = archive.certs.iter().find(|cert| {
                let last = chain[chain.len() - 1];
                cert.cert.subject() == last.cert.issuer()
                    && !chain.iter().any(|known| known.cert == cert.cert)
            }) {
                chain.push(signer);
            }
            Ok(Identity {
                chain: chain
                    .iter()
                    .map(|bag| CertificateDer::from(bag.cert.as_der().to_vec()))
                    .collect(),
                key: PrivatePkcs8KeyDer::from(bag.key.as_der().to_vec()).into(),
            })
        }
    }
}

fn pem_certificates(text: &[u8], name: &str) -> Result<Vec<CertificateDer<'static>>, StoreError> {
    let text = one_line_unfolded(text);
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match certificates {
        Ok(certificates) if certificates.is_empty() => Err(StoreError(format!(
            "{name}: no -----BEGIN CERTIFICATE----- is in it"
        ))),
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(StoreError(format!(
            "{name}: a certificate in it is damaged: {error}"
        ))),
    }
}

/// A key in PKCS#8, plain or encrypted, as Kafka's clients take it; and the older forms of OpenSSL.
fn pem_key(text: &[u8], password: Option<&str>, name: &str) -> Result<PrivateKeyDer<'static>, StoreError> {
    const ENCRYPTED: &str = "ENCRYPTED PRIVATE KEY";
    let unfolded = one_line_unfolded(text);
    let text = String::from_utf8_lossy(&unfolded);
    let Some(begin) = text.find(&format!("-----BEGIN {ENCRYPTED}-----")) else {
        return PrivateKeyDer::from_pem_slice(&unfolded).map_err(|error| match error {
            rustls_pki_types::pem::Error::NoItemsFound => StoreError(format!(
                "{name}: no private key in PEM is in it (-----BEGIN PRIVATE KEY-----)"
            )),
            error => StoreError(format!("{name}: the private key in it is damaged: {error}")),
        });
    };
    let Some(password) = password else {
        return Err(StoreError(format!(
            "{name}: the private key is encrypted, and ssl.key.password is missing"
        )));
    };
    let end = format!("-----END {ENCRYPTED}-----");
    let damaged = || StoreError(format!("{name}: the encrypted private key in it is damaged"));
    let len = text[begin..].find(&end).ok_or_else(damaged)?;
    let block = &text[begin..begin + len + end.len()];
    let (_, document) = pkcs8::SecretDocument::from_pem(block).map_err(|_| damaged())?;
    let encrypted =
        pkcs8::EncryptedPrivateKeyInfoRef::try_from(document.as_bytes()).map_err(|_| damaged())?;
    let key = encrypted.decrypt(password).map_err(|error| {
        let what = match error {
            pkcs8::Error::EncryptedPrivateKey(pkcs8::pkcs5::Error::UnsupportedAlgorithm { oid }) => {
                format!("its encryption ({oid}) is not served; convert it with: openssl pkcs8 -topk8 -v2 aes-256-cbc -in OLD -out NEW")
            }
            _ => "it does not open with ssl.key.password".to_owned(),
        };
        StoreError(format!("{name}: the private key is encrypted, and {what}"))
    })?;
    Ok(PrivatePkcs8KeyDer::from(key.as_bytes().to_vec()).into())
}

/// Text in a property may stand on one line with blanks where lines ended, which Java's reader takes; lines are what PEM has.
fn one_line_unfolded(text: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(text);
    let mut out = String::with_capacity(text.len() + 16);
    for line in text.lines() {
        let mut rest = line.trim();
        while let Some(begin) = rest.find("-----BEGIN ") {
            let Some(label_len) = rest[begin + 11..].find("-----") else {
                break;
            };
            let head_end = begin + 11 + label_len + 5;
            let tail = &rest[head_end..];
            let Some(end) = tail.find("-----END ") else {
                break;
            };
            let Some(end_len) = tail[end + 9..].find("-----") else {
                break;
            };
            out.push_str(&rest[begin..head_end]);
            out.push('\n');
            for word in tail[..end].split_whitespace() {
                out.push_str(word);
                out.push('\n');
            }
            let end_end = end + 9 + end_len + 5;
            out.push_str(&tail[end..end_end]);
            out.push('\n');
            rest = tail[end_end..].trim_start();
        }
        out.push_str(rest);
        out.push('\n');
    }
    out.into_bytes()
}
