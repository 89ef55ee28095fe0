//! Java's own key store format (`sun.security.provider.JavaKeyStore`), versions 1 and 2.
//!
//! | bytes | field |
//! |---|---|
//! | 4 | magic `FE ED FE ED` |
//! | 4 | version |
//! | 4 | number of entries |
//! | … | entries: tag (1 key, 2 certificate), alias, time; a key's bytes and its chain, or a certificate |
//! | 20 | SHA-1 of the password in UTF-16, the words `Mighty Aphrodite`, and all bytes before |
//!
//! A key is hidden by a stream of SHA-1 blocks that begins with the password and 20 bytes of salt, and is followed by SHA-1 of
//! password and key, by which a wrong password is known.

use sha1::{Digest, Sha1};

const MAGIC: u32 = 0xFEED_FEED;
/// What is mixed into the digest of the whole.
const WHITENER: &[u8] = b"Mighty Aphrodite";
const DIGEST_BYTES: usize = 20;
/// The algorithm of a hidden key: 1.3.6.1.4.1.42.2.17.1.1.
const KEY_PROTECTOR: [u8; 12] = [
    0x06, 0x0a, 0x2b, 0x06, 0x01, 0x04, 0x01, 0x2a, 0x02, 0x11, 0x01, 0x01,
];

/// A store's entries.
#[derive(Debug, Default)]
pub(super) struct Jks {
    /// Trusted certificates, DER.
    pub(super) certificates: Vec<Vec<u8>>,
    /// Keys that are still hidden, with their chains.
    pub(super) keys: Vec<HiddenKey>,
}

/// A key that is still hidden.
#[derive(Debug)]
pub(super) struct HiddenKey {
    protected: Vec<u8>,
    /// Its certificate and those that signed it, DER.
    pub(super) chain: Vec<Vec<u8>>,
}

/// Why a store cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JksError {
    /// It ends early, or holds what the format does not know.
    Damaged,
    /// The digest does not fit: the password is wrong, or bytes were changed.
    WrongPassword,
}

pub(super) fn is_jks(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC.to_be_bytes())
}

impl Jks {
    /// Reads a store. Without a password its digest is not checked, as Java does it for trust stores.
    pub(super) fn read(bytes: &[u8], password: Option<&str>) -> Result<Jks, JksError> {
        let body_len = bytes.len().checked_sub(DIGEST_BYTES).ok_or(JksError::Damaged)?;
        let (body, digest) = bytes.split_at(body_len);
        let mut input = Input(body);
        if input.u32()? != MAGIC {
            return Err(JksError::Damaged);
        }
        if let Some(password) = password {
            let mut hash = Sha1::new();
            hash.update(utf_16(password));
            hash.update(WHITENER);
            hash.update(body);
            if hash.finalize().as_slice() != digest {
                return Err(JksError::WrongPassword);
            }
        }
        let version = input.u32()?;
        if version != 1 && version != 2 {
            return Err(JksError::Damaged);
        }
        let mut store = Jks::default();
        for _ in 0..input.u32()? {
            let tag = input.u32()?;
            input.text()?;
            input.take(8)?;
            match tag {
                1 => {
                    let protected = input.bytes()?;
                    let mut chain = Vec::new();
                    for _ in 0..input.u32()? {
                        chain.push(input.certificate(version)?);
                    }
                    store.keys.push(HiddenKey { protected, chain });
                }
                2 => store.certificates.push(input.certificate(version)?),
                _ => return Err(JksError::Damaged),
            }
        }
        Ok(store)
    }
}

impl HiddenKey {
    /// The key, PKCS#8 in DER.
    pub(super) fn open(&self, password: &str) -> Result<Vec<u8>, JksError> {
        let hidden = octets_of_key_protector(&self.protected).ok_or(JksError::Damaged)?;
        let plain_len = hidden
            .len()
            .checked_sub(2 * DIGEST_BYTES)
            .ok_or(JksError::Damaged)?;
        let (salt, rest) = hidden.split_at(DIGEST_BYTES);
        let (encrypted, check) = rest.split_at(plain_len);
        let password = utf_16(password);
        let mut plain = Vec::with_capacity(plain_len);
        let mut block: Vec<u8> = salt.to_vec();
        for part in encrypted.chunks(DIGEST_BYTES) {
            block = digest_of(&password, &block);
            plain.extend(part.iter().zip(&block).map(|(a, b)| a ^ b));
        }
        if digest_of(&password, &plain) != check {
            return Err(JksError::WrongPassword);
        }
        Ok(plain)
    }
}

fn digest_of(password: &[u8], bytes: &[u8]) -> Vec<u8> {
    let mut hash = Sha1::new();
    hash.update(password);
    hash.update(bytes);
    hash.finalize().to_vec()
}

fn utf_16(password: &str) -> Vec<u8> {
    password.encode_utf16().flat_map(u16::to_be_bytes).collect()
}

/// The octets within `SEQUENCE { SEQUENCE { OID, NULL }, OCTET STRING }`, if the algorithm is the key protector.
fn octets_of_key_protector(der: &[u8]) -> Option<&[u8]> {
    let (tag, whole, rest) = der_item(der)?;
    if tag != 0x30 || !rest.is_empty() {
        return None;
    }
    let (tag, algorithm, rest) = der_item(whole)?;
    if tag != 0x30 || !algorithm.starts_with(&KEY_PROTECTOR) {
        return None;
    }
    let (tag, octets, _) = der_item(rest)?;
    (tag == 0x04).then_some(octets)
}

/// Tag, content and what follows.
fn der_item(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (len, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let count = usize::from(first - 0x80);
            let digits = rest.get(..count)?;
            let len = digits
                .iter()
                .fold(0_usize, |len, &digit| len << 8 | usize::from(digit));
            (len, &rest[count..])
        }
        _ => return None,
    };
    (len <= rest.len()).then(|| (tag, &rest[..len], &rest[len..]))
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], JksError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(JksError::Damaged)?;
        self.0 = rest;
        Ok(taken)
    }

    fn u32(&mut self) -> Result<u32, JksError> {
        let bytes = self.take(4)?.first_chunk().ok_or(JksError::Damaged)?;
        Ok(u32::from_be_bytes(*bytes))
    }

    fn text(&mut self) -> Result<&'a [u8], JksError> {
        let len = *self.take(2)?.first_chunk().ok_or(JksError::Damaged)?;
        self.take(usize::from(u16::from_be_bytes(len)))
    }

    fn bytes(&mut self) -> Result<Vec<u8>, JksError> {
        let len = self.u32()? as usize;
        Ok(self.take(len)?.to_vec())
    }

    /// Version 2 writes the type before each certificate.
    fn certificate(&mut self, version: u32) -> Result<Vec<u8>, JksError> {
        if version == 2 {
            self.text()?;
        }
        self.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store as Java writes it: one certificate `c`, and one key `k` hidden by `key_password`.
    fn store(password: &str, key_password: &str, key: &[u8]) -> Vec<u8> {
        let mut body = Vec::new();
        let text = |body: &mut Vec<u8>, text: &[u8]| {
            body.extend((text.len() as u16).to_be_bytes());
            body.extend(text);
        };
        let bytes = |body: &mut Vec<u8>, bytes: &[u8]| {
            body.extend((bytes.len() as u32).to_be_bytes());
            body.extend(bytes);
        };
        body.extend(MAGIC.to_be_bytes());
        body.extend(2_u32.to_be_bytes());
        body.extend(2_u32.to_be_bytes());
        body.extend(2_u32.to_be_bytes());
        text(&mut body, b"ca");
        body.extend([0; 8]);
        text(&mut body, b"X.509");
        bytes(&mut body, b"certificate");
        body.extend(1_u32.to_be_bytes());
        text(&mut body, b"me");
        body.extend([0; 8]);
        bytes(&mut body, &hidden(key_password, key));
        body.extend(1_u32.to_be_bytes());
        text(&mut body, b"X.509");
        bytes(&mut body, b"own");
        let mut hash = Sha1::new();
        hash.update(utf_16(password));
        hash.update(WHITENER);
        hash.update(&body);
        body.extend(hash.finalize());
        body
    }

    fn hidden(password: &str, key: &[u8]) -> Vec<u8> {
        let password = utf_16(password);
        let salt = [9; DIGEST_BYTES];
        let mut octets = salt.to_vec();
        let mut block = salt.to_vec();
        for part in key.chunks(DIGEST_BYTES) {
            block = digest_of(&password, &block);
            octets.extend(part.iter().zip(&block).map(|(a, b)| a ^ b));
        }
        octets.extend(digest_of(&password, key));
        let item = |tag: u8, content: &[u8]| {
            [
                &[tag, 0x82, (content.len() >> 8) as u8, content.len() as u8],
                content,
            ]
            .concat()
        };
        let algorithm = item(0x30, &[&KEY_PROTECTOR[..], &[0x05, 0x00]].concat());
        item(0x30, &[algorithm, item(0x04, &octets)].concat())
    }

    #[test]
    fn certificates_and_keys_come_out() {
        let key: Vec<u8> = (0..=255).collect();
        let bytes = store("geheim", "anders", &key);
        assert!(is_jks(&bytes));
        for password in [Some("geheim"), None] {
            let store = Jks::read(&bytes, password).unwrap();
            assert_eq!(store.certificates, [b"certificate".to_vec()]);
            assert_eq!(store.keys[0].chain, [b"own".to_vec()]);
            assert_eq!(store.keys[0].open("anders"), Ok(key.clone()));
            assert_eq!(store.keys[0].open("geheim"), Err(JksError::WrongPassword));
        }
        assert_eq!(
            Jks::read(&bytes, Some("falsch")).unwrap_err(),
            JksError::WrongPassword
        );
    }

    #[test]
    fn a_store_that_is_cut_or_claims_too_much_is_damaged() {
        let bytes = store("p", "p", b"key");
        for len in 0..bytes.len() {
            let _ = Jks::read(&bytes[..len], None).map(|store| store.keys.first().map(|key| key.open("p")));
        }
        let mut claiming = bytes.clone();
        claiming[8..12].copy_from_slice(&u32::MAX.to_be_bytes());
        assert_eq!(Jks::read(&claiming, None).unwrap_err(), JksError::Damaged);
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0xff;
            let _ = Jks::read(&changed, None).map(|store| store.keys.first().map(|key| key.open("p")));
            assert!(Jks::read(&changed, Some("p")).is_err(), "byte {at}");
        }
    }
}
