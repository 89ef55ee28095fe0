//! TLS by rustls: the settings of a client, and a [`Transport`] that encrypts.

use super::SecurityError;
use crate::net::Transport;
use mio::event::Source;
use model::client_config::TlsConfig;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error,
    RootCertStore, SignatureScheme,
};
use std::io::{self, IoSlice, Read, Write};
use std::sync::Arc;
use wire::stores;

/// Plain bytes that may wait, encrypted, for the socket.
const MOST_UNSENT_BYTES: usize = 256 * 1024;

/// A client's settings of TLS, ready for use.
#[derive(Debug)]
pub(crate) struct TlsSide {
    config: Arc<ClientConfig>,
    roots: Vec<CertificateDer<'static>>,
}

impl TlsSide {
    /// Reads the stores.
    pub(super) fn new(settings: &TlsConfig) -> Result<TlsSide, SecurityError> {
        let provider = Arc::new(provider(&settings.cipher_suites)?);
        let mut versions = Vec::new();
        if settings.tls_1_3 {
            versions.push(&rustls::version::TLS13);
        }
        if settings.tls_1_2 {
            versions.push(&rustls::version::TLS12);
        }
        let trusted = |store| stores::trusted(store, &read_file);
        let given = settings.trust.as_ref().map(trusted).transpose()?;
        let roots = match &given {
            Some(roots) => roots.clone(),
            None => rustls_native_certs::load_native_certs().certs,
        };
        let mut anchors = RootCertStore::empty();
        let (_, unusable) = anchors.add_parsable_certificates(roots.iter().cloned());
        if anchors.is_empty() {
            return Err(SecurityError(if given.is_some() {
                format!(
                    "the trust store's {unusable} certificates cannot be used: they are not X.509 version 3"
                )
            } else {
                "the system trusts no certificates; name a trust store by ssl.truststore.location".to_owned()
            }));
        }
        let verifier = Arc::new(Verifier {
            anchors,
            trusted: given.clone().unwrap_or_default(),
            checks_host_name: settings.checks_host_name,
            provider: Arc::clone(&provider),
        });
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions)
            .map_err(|error| {
                SecurityError(format!(
                    "ssl.cipher.suites and ssl.enabled.protocols leave nothing to speak: {error}"
                ))
            })?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let config =
            match &settings.identity {
                Some(store) => {
                    let own = stores::identity(store, settings.key_password.as_ref(), &read_file)?;
                    builder.with_client_auth_cert(own.chain, own.key).map_err(|error| {
                    SecurityError(format!(
                        "the client's certificate and key of the key store do not go together: {error}"
                    ))
                })?
                }
                None => builder.with_no_client_auth(),
            };
        Ok(TlsSide {
            config: Arc::new(config),
            roots: given.unwrap_or_default(),
        })
    }

    /// The certificates of the trust store, DER; none where the system's are trusted.
    pub(super) fn roots(&self) -> Vec<Vec<u8>> {
        self.roots.iter().map(|root| root.to_vec()).collect()
    }

    /// A stream to that host over a socket that is connecting.
    pub(crate) fn transport(&self, stream: mio::net::TcpStream, host: &str) -> Result<TlsTransport, String> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| format!("{host} is neither a DNS name nor an IP address, which TLS needs"))?;
        let mut connection =
            ClientConnection::new(Arc::clone(&self.config), name).map_err(|error| error.to_string())?;
        connection.set_buffer_limit(Some(MOST_UNSENT_BYTES));
        Ok(TlsTransport {
            stream,
            connection,
            host: host.to_owned(),
            is_connected: false,
            is_over: false,
        })
    }
}

fn read_file(path: &str) -> io::Result<Vec<u8>> {
    std::fs::read(path)
}

/// The suites that are named, in their order; all of ring's for an empty list.
fn provider(suites: &[String]) -> Result<CryptoProvider, SecurityError> {
    let mut provider = ring::default_provider();
    if suites.is_empty() {
        return Ok(provider);
    }
    let served = provider.cipher_suites.clone();
    // IANA's and rustls's names of the suites of TLS 1.3 differ in their beginnings.
    let name_of =
        |suite: &rustls::SupportedCipherSuite| format!("{:?}", suite.suite()).replace("TLS13_", "TLS_");
    provider.cipher_suites = suites
        .iter()
        .filter_map(|wanted| served.iter().find(|suite| name_of(suite) == *wanted).copied())
        .collect();
    if provider.cipher_suites.is_empty() {
        let names: Vec<String> = served.iter().map(name_of).collect();
        return Err(SecurityError(format!(
            "ssl.cipher.suites = {}: none of them is served; served are {}",
            suites.join(","),
            names.join(", ")
        )));
    }
    Ok(provider)
}

/// Verifies as Java does: by the trust anchors, by a certificate that is itself in the trust store, and, if wanted, by name.
#[derive(Debug)]
struct Verifier {
    anchors: RootCertStore,
    trusted: Vec<CertificateDer<'static>>,
    checks_host_name: bool,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let certificate = ParsedCertificate::try_from(end_entity)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        let signed = verify_server_cert_signed_by_trust_anchor(
            &certificate,
            &self.anchors,
            intermediates,
            now,
            algorithms,
        );
        if let Err(error) = signed {
            // A self-signed certificate that was put into the trust store is trusted as it is, though it signs nothing else.
            let is_known = self.trusted.iter().any(|known| known == end_entity);
            let is_about_time = matches!(
                error,
                Error::InvalidCertificate(
                    CertificateError::Expired
                        | CertificateError::ExpiredContext { .. }
                        | CertificateError::NotValidYet
                        | CertificateError::NotValidYetContext { .. }
                )
            );
            if !is_known || is_about_time {
                return Err(error);
            }
        }
        if self.checks_host_name {
            verify_server_name(&certificate, server_name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// Why TLS failed, in words for the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{words}")]
pub(crate) struct TlsFailure {
    pub(crate) words: String,
    /// Whether the next attempt would fail in the same way.
    pub(crate) is_final: bool,
}

impl TlsFailure {
    fn of(error: &Error, host: &str) -> TlsFailure {
        let words = match error {
            Error::InvalidCertificate(certificate) => of_certificate(certificate, host),
            Error::AlertReceived(alert) => of_alert(*alert),
            Error::InvalidMessage(_) => {
                "what answers there does not speak TLS; its port may be one for security.protocol=PLAINTEXT \
                                         or SASL_PLAINTEXT"
                    .to_owned()
            }
            Error::PeerIncompatible(what) => {
                format!("client and broker have no version or cipher suite of TLS in common ({what:?})")
            }
            other => format!("TLS failed: {other}"),
        };
        TlsFailure {
            words,
            is_final: true,
        }
    }

    fn into_io(self) -> io::Error {
        io::Error::other(self)
    }
}

fn of_certificate(error: &CertificateError, host: &str) -> String {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the broker's certificate has expired".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the broker's certificate is not valid yet, or this host's clock is wrong".to_owned()
        }
        CertificateError::UnknownIssuer => {
            "the broker's certificate is signed by nobody that is trusted; name a store that holds its CA by \
             ssl.truststore.location"
                .to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            let named = match error {
                CertificateError::NotValidForNameContext { presented, .. } if !presented.is_empty() => {
                    format!(", but {}", presented.join(", "))
                }
                _ => String::new(),
            };
            format!(
                "the broker's certificate does not name {host}{named}; connect by a name that it has, or switch the check off by \
                 ssl.endpoint.identification.algorithm="
            )
        }
        CertificateError::BadSignature => "the broker's certificate has a wrong signature".to_owned(),
        other => format!("the broker's certificate is not valid: {other}"),
    }
}

fn of_alert(alert: AlertDescription) -> String {
    let what = match alert {
        AlertDescription::CertificateRequired => {
            "the broker asks for a client certificate; name a store that holds one by ssl.keystore.location"
        }
        AlertDescription::UnknownCA
        | AlertDescription::CertificateUnknown
        | AlertDescription::AccessDenied => {
            "the broker does not trust the client's certificate; its CA must be in the broker's trust store"
        }
        AlertDescription::BadCertificate | AlertDescription::UnsupportedCertificate => {
            "the broker does not accept the client's certificate, or asks for one where none is given; see \
             ssl.keystore.location"
        }
        AlertDescription::DecryptError => {
            "a signature does not fit: the client's certificate is signed by another key than that of the CA of this name in the \
             broker's trust store, or its own key is not the one in its store"
        }
        AlertDescription::CertificateExpired => "the client's certificate has expired",
        AlertDescription::CertificateRevoked => "the client's certificate is revoked",
        AlertDescription::HandshakeFailure
        | AlertDescription::ProtocolVersion
        | AlertDescription::InsufficientSecurity => {
            "client and broker have no version or cipher suite of TLS in common, or the broker asks for a client certificate; see \
             ssl.enabled.protocols, ssl.cipher.suites and ssl.keystore.location"
        }
        other => return format!("the broker ended TLS with the alert {other:?}"),
    };
    what.to_owned()
}

/// An encrypted stream.
pub(crate) struct TlsTransport {
    stream: mio::net::TcpStream,
    connection: ClientConnection,
    host: String,
    is_connected: bool,
    is_over: bool,
}

impl TlsTransport {
    /// Gives the socket what waits for it; `false` while some is left.
    fn send(&mut self) -> io::Result<bool> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut self.stream) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Takes what the socket has; `Ok(0)` is its end.
    fn receive(&mut self) -> io::Result<usize> {
        let count = loop {
            match self.connection.read_tls(&mut self.stream) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        if let Err(error) = self.connection.process_new_packets() {
            // The alert that tells the broker why is worth an attempt, and no more.
            let _ = self.send();
            return Err(TlsFailure::of(&error, &self.host).into_io());
        }
        Ok(count)
    }
}

impl Transport for TlsTransport {
    fn source(&mut self) -> &mut dyn Source {
        &mut self.stream
    }

    fn open(&mut self) -> io::Result<bool> {
        if !self.is_connected {
            if let Some(error) = self.stream.take_error()? {
                return Err(error);
            }
            match self.stream.peer_addr() {
                Ok(_) => self.is_connected = true,
                Err(error) if error.kind() == io::ErrorKind::NotConnected => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        while self.connection.is_handshaking() {
            self.send()?;
            if !self.connection.wants_read() {
                return Ok(!self.connection.is_handshaking());
            }
            match self.receive() {
                Ok(0) => {
                    let words = "closed by the broker during the TLS handshake; its port may be one for \
                                 security.protocol=PLAINTEXT or SASL_PLAINTEXT"
                        .to_owned();
                    // A broker that is going down closes like this too.
                    return Err(TlsFailure {
                        words,
                        is_final: false,
                    }
                    .into_io());
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        self.send()?;
        Ok(true)
    }

    /// Fills `into` as far as the socket has something, so that a short read means that it is empty.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < into.len() {
            match self.connection.reader().read(&mut into[filled..]) {
                Ok(0) => break,
                Ok(count) => {
                    filled += count;
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Ended without the notice that TLS asks for, as many servers do.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
                Err(error) => return Err(error),
            }
            if self.is_over {
                break;
            }
            match self.receive() {
                Ok(0) => self.is_over = true,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && filled > 0 => break,
                Err(error) if filled > 0 && error.kind() != io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        // A new key or a notice may be due to the broker.
        self.send()?;
        Ok(filled)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        if !self.send()? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = self.connection.writer().write_vectored(slices)?;
        self.send()?;
        Ok(count)
    }

    fn has_unsent(&self) -> bool {
        self.connection.wants_write()
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send().map(|_| ())
    }
}
