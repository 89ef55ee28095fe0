//! The brokers' side of TLS: rustls with ring, from Kafka's stores.

use super::{ClientAuth, TlsSettings};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, ServerConfig,
    SignatureScheme,
};
use std::io;
use std::sync::Arc;
use wire::stores;

/// Reads the stores.
///
/// # Errors
/// What is wrong with them, as a sentence.
pub(super) fn server(settings: &TlsSettings) -> Result<Arc<ServerConfig>, String> {
    let read = |path: &str| -> io::Result<Vec<u8>> { std::fs::read(path) };
    let provider = Arc::new(ring::default_provider());
    let versions: Vec<_> = [
        (settings.tls_1_3, &rustls::version::TLS13),
        (settings.tls_1_2, &rustls::version::TLS12),
    ]
    .into_iter()
    .filter_map(|(is_spoken, version)| is_spoken.then_some(version))
    .collect();
    let own = stores::identity(&settings.identity, settings.key_password.as_ref(), &read)
        .map_err(|error| error.to_string())?;
    let trust = settings.trust.as_ref().map(|store| stores::trusted(store, &read));
    let trusted = trust.transpose().map_err(|error| error.to_string())?;
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&versions)
        .map_err(|error| format!("ssl.enabled.protocols leaves nothing to speak: {error}"))?;
    let builder = match (settings.client_auth, trusted) {
        (ClientAuth::None, _) | (_, None) => builder.with_no_client_auth(),
        (wanted, Some(trusted)) => {
            let mut anchors = RootCertStore::empty();
            anchors.add_parsable_certificates(trusted.iter().cloned());
            let unusable =
                |error: &dyn std::fmt::Display| format!("the brokers' trust store cannot be used: {error}");
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(anchors), provider);
            let verifier = match wanted {
                ClientAuth::Required => verifier,
                ClientAuth::Requested | ClientAuth::None => verifier.allow_unauthenticated(),
            };
            builder.with_client_cert_verifier(Arc::new(Verifier {
                signed: verifier.build().map_err(|error| unusable(&error))?,
                trusted,
            }))
        }
    };
    let config = builder.with_single_cert(own.chain, own.key).map_err(|error| {
        format!("the brokers' certificate and key of the key store do not go together: {error}")
    })?;
    Ok(Arc::new(config))
}

/// Verifies as Java does: by the trust anchors, or by a certificate that is itself in the trust store.
#[derive(Debug)]
struct Verifier {
    signed: Arc<dyn ClientCertVerifier>,
    trusted: Vec<CertificateDer<'static>>,
}

impl ClientCertVerifier for Verifier {
    fn offer_client_auth(&self) -> bool {
        self.signed.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.signed.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.signed.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.signed.verify_client_cert(end_entity, intermediates, now);
        let is_about_time = matches!(
            verified,
            Err(Error::InvalidCertificate(
                CertificateError::Expired
                    | CertificateError::ExpiredContext { .. }
                    | CertificateError::NotValidYet
                    | CertificateError::NotValidYetContext { .. }
            ))
        );
        let is_known = self.trusted.iter().any(|known| known == end_entity);
        match verified {
            Err(_) if is_known && !is_about_time => Ok(ClientCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signed.supported_verify_schemes()
    }
}
