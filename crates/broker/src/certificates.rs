//! Certificates for a rehearsal: an authority of their own, a certificate for brokers, and one for clients.
//!
//! The keys are of the curve P-256 (ECDSA), in PKCS#8, as Kafka's PEM stores want them. The authority's own key is thrown away:
//! it can sign nothing more.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use std::time::{Duration, SystemTime};

/// Clocks that differ by less do no harm.
const VALID_BEFORE: Duration = Duration::from_secs(24 * 3600);
/// Longer than any rehearsal.
const VALID_FOR: Duration = Duration::from_secs(365 * 24 * 3600);

/// Certificates that were just made, in PEM. The keys are in here, which is why nothing shows it.
pub struct Certificates {
    /// The authority's certificate: the trust store of brokers and clients.
    pub authority: String,
    /// The brokers' key and certificate.
    pub broker: String,
    /// A client's key and certificate.
    pub client: String,
}

/// Why certificates cannot be made: a name that none can hold.
#[derive(Debug, thiserror::Error)]
#[error("no certificate can be made for these names")]
pub struct CertificatesError(#[from] rcgen::Error);

impl Certificates {
    /// Makes them anew, valid for a year. `names` are the host names and addresses by which clients find the brokers; those of
    /// loopback are always among them.
    ///
    /// # Errors
    /// If one of the names cannot stand in a certificate.
    pub fn make(names: &[String]) -> Result<Certificates, CertificatesError> {
        let key = KeyPair::generate()?;
        // Of its own name: one that was made before is then known to be another, and not taken for a forgery.
        let number = key.public_key_raw().iter().rev().take(4);
        let number: String = number.map(|byte| format!("{byte:02x}")).collect();
        let mut params = params(&format!("plimsoll rehearsal authority {number}"), Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let authority = params.self_signed(&key)?.pem();
        let issuer = Issuer::new(params, key);
        let mut all: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into();
        all.extend(names.iter().cloned());
        all.sort();
        all.dedup();
        Ok(Certificates {
            authority,
            broker: signed(
                &issuer,
                "plimsoll broker",
                all,
                ExtendedKeyUsagePurpose::ServerAuth,
            )?,
            client: signed(
                &issuer,
                "plimsoll client",
                Vec::new(),
                ExtendedKeyUsagePurpose::ClientAuth,
            )?,
        })
    }
}

fn params(common_name: &str, names: Vec<String>) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, common_name);
    let now = SystemTime::now();
    params.not_before = (now - VALID_BEFORE).into();
    params.not_after = (now + VALID_FOR).into();
    Ok(params)
}

/// Key and certificate, one after the other.
fn signed(
    issuer: &Issuer<'_, KeyPair>,
    common_name: &str,
    names: Vec<String>,
    purpose: ExtendedKeyUsagePurpose,
) -> Result<String, rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = params(common_name, names)?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![purpose];
    params.use_authority_key_identifier_extension = true;
    let certificate = params.signed_by(&key, issuer)?;
    Ok(key.serialize_pem() + &certificate.pem())
}
