//! SCRAM with SHA-256 and SHA-512 (RFC 5802, RFC 7677): both sides prove that they know the password, and neither sends it.

use super::{SaslError, Step};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256, Sha512};

/// A broker that asks for more rounds than this would only keep the client busy; Kafka's own are from 4,096 to 16,384.
const MOST_ITERATIONS: u32 = 1 << 20;
/// RFC 7677, section 4; Kafka's brokers store no fewer.
const FEWEST_ITERATIONS: u32 = 4096;
/// No binding to the channel, no authorization id.
const GS2_HEADER: &str = "n,,";

/// The hash of a SCRAM mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScramHash {
    /// SCRAM-SHA-256.
    Sha256,
    /// SCRAM-SHA-512.
    Sha512,
}

impl ScramHash {
    /// The mechanism's name.
    pub const fn mechanism(self) -> &'static str {
        match self {
            ScramHash::Sha256 => "SCRAM-SHA-256",
            ScramHash::Sha512 => "SCRAM-SHA-512",
        }
    }

    fn digest(self, text: &[u8]) -> Vec<u8> {
        match self {
            ScramHash::Sha256 => Sha256::digest(text).to_vec(),
            ScramHash::Sha512 => Sha512::digest(text).to_vec(),
        }
    }

    fn mac(self, key: &[u8], text: &[u8]) -> Vec<u8> {
        // An HMAC takes keys of any length, so that neither constructor fails.
        match self {
            ScramHash::Sha256 => Hmac::<Sha256>::new_from_slice(key)
                .map(|mac| mac.chain_update(text).finalize().into_bytes().to_vec())
                .unwrap_or_default(),
            ScramHash::Sha512 => Hmac::<Sha512>::new_from_slice(key)
                .map(|mac| mac.chain_update(text).finalize().into_bytes().to_vec())
                .unwrap_or_default(),
        }
    }

    /// `Hi` of RFC 5802: PBKDF2 with one block.
    fn salted_password(self, password: &str, salt: &[u8], iterations: u32) -> Vec<u8> {
        match self {
            ScramHash::Sha256 => {
                let mut salted = vec![0; 32];
                pbkdf2::pbkdf2_hmac::<Sha256>(password.as_bytes(), salt, iterations, &mut salted);
                salted
            }
            ScramHash::Sha512 => {
                let mut salted = vec![0; 64];
                pbkdf2::pbkdf2_hmac::<Sha512>(password.as_bytes(), salt, iterations, &mut salted);
                salted
            }
        }
    }
}

/// Where a client's exchange stands.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ClientState {
    /// The server's nonce and salt are awaited.
    First,
    /// Its signature is, which is to be this.
    Final(Vec<u8>),
    /// Nothing is.
    Done,
}

/// A client's side.
#[derive(Clone)]
pub struct ScramClient {
    hash: ScramHash,
    password: String,
    nonce: String,
    first_bare: String,
    state: ClientState,
}

impl std::fmt::Debug for ScramClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScramClient")
            .field("hash", &self.hash)
            .finish_non_exhaustive()
    }
}

impl ScramClient {
    /// For that user. `nonce` is random text without commas, new for each exchange. `is_token` says that name and password
    /// are those of a delegation token (KIP-48).
    pub fn new(hash: ScramHash, username: &str, password: &str, nonce: &str, is_token: bool) -> ScramClient {
        let name = username.replace('=', "=3D").replace(',', "=2C");
        let token = if is_token { ",tokenauth=true" } else { "" };
        ScramClient {
            hash,
            password: password.to_owned(),
            nonce: nonce.to_owned(),
            first_bare: format!("n={name},r={nonce}{token}"),
            state: ClientState::First,
        }
    }

    /// Its hash.
    pub fn hash(&self) -> ScramHash {
        self.hash
    }

    /// The first message.
    pub fn first(&self) -> Vec<u8> {
        format!("{GS2_HEADER}{}", self.first_bare).into_bytes()
    }

    /// What follows the server's message.
    ///
    /// # Errors
    ///
    /// When the message is not one of SCRAM's, when the server asks for too many rounds, or when its signature is wrong.
    pub fn next(&mut self, answer: &[u8]) -> Result<Step, SaslError> {
        let text = std::str::from_utf8(answer)
            .map_err(|_| SaslError::Malformed("the broker's SCRAM message is not text"))?;
        if let Some(error) = attribute(text, 'e') {
            return Err(SaslError::Refused(error.to_owned()));
        }
        match std::mem::replace(&mut self.state, ClientState::Done) {
            ClientState::First => self.prove(text),
            ClientState::Final(expected) => {
                let signature = attribute(text, 'v').and_then(|text| STANDARD.decode(text).ok());
                if signature.is_some_and(|signature| signature == expected) {
                    Ok(Step::Done)
                } else {
                    Err(SaslError::ServerNotAuthentic)
                }
            }
            ClientState::Done => Err(SaslError::Malformed("the broker goes on after the end of SCRAM")),
        }
    }

    fn prove(&mut self, server_first: &str) -> Result<Step, SaslError> {
        let nonce = attribute(server_first, 'r')
            .filter(|nonce| nonce.len() > self.nonce.len() && nonce.starts_with(&self.nonce))
            .ok_or(SaslError::Malformed(
                "the broker's SCRAM nonce does not go on from ours",
            ))?;
        let salt = attribute(server_first, 's')
            .and_then(|salt| STANDARD.decode(salt).ok())
            .ok_or(SaslError::Malformed("the broker's SCRAM message has no salt"))?;
        let iterations: u32 = attribute(server_first, 'i')
            .and_then(|text| text.parse().ok())
            .ok_or(SaslError::Malformed(
                "the broker's SCRAM message has no number of rounds",
            ))?;
        if iterations < FEWEST_ITERATIONS {
            return Err(SaslError::Malformed(
                "the broker asks for fewer than 4,096 rounds of SCRAM, which is not safe",
            ));
        }
        if iterations > MOST_ITERATIONS {
            return Err(SaslError::Malformed(
                "the broker asks for more than 1,048,576 rounds of SCRAM",
            ));
        }
        let salted = self.hash.salted_password(&self.password, &salt, iterations);
        let without_proof = format!("c={},r={nonce}", STANDARD.encode(GS2_HEADER));
        let message = format!("{},{server_first},{without_proof}", self.first_bare);
        let client_key = self.hash.mac(&salted, b"Client Key");
        let signature = self.hash.mac(&self.hash.digest(&client_key), message.as_bytes());
        let proof: Vec<u8> = client_key.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
        let server_key = self.hash.mac(&salted, b"Server Key");
        self.state = ClientState::Final(self.hash.mac(&server_key, message.as_bytes()));
        let proof = STANDARD.encode(proof);
        Ok(Step::Send(format!("{without_proof},p={proof}").into_bytes()))
    }
}

/// What a server keeps of a password.
#[derive(Clone, PartialEq, Eq)]
pub struct ScramCredential {
    hash: ScramHash,
    salt: Vec<u8>,
    iterations: u32,
    stored_key: Vec<u8>,
    server_key: Vec<u8>,
}

impl std::fmt::Debug for ScramCredential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScramCredential")
            .field("hash", &self.hash)
            .finish_non_exhaustive()
    }
}

impl ScramCredential {
    /// Of a password, with Kafka's 4,096 rounds.
    pub fn new(hash: ScramHash, password: &str, salt: &[u8]) -> ScramCredential {
        let salted = hash.salted_password(password, salt, FEWEST_ITERATIONS);
        ScramCredential {
            hash,
            salt: salt.to_vec(),
            iterations: FEWEST_ITERATIONS,
            stored_key: hash.digest(&hash.mac(&salted, b"Client Key")),
            server_key: hash.mac(&salted, b"Server Key"),
        }
    }
}

/// A server's side, after the client's first message.
#[derive(Clone, Debug)]
pub struct ScramServer {
    username: String,
    first_bare: String,
    nonce: String,
    credential: Option<(ScramCredential, String)>,
}

impl ScramServer {
    /// Reads the client's first message. `nonce` is random text without commas.
    ///
    /// # Errors
    ///
    /// When it is not one of SCRAM's, or asks for what is not served: an authorization id or a binding to the channel.
    pub fn new(client_first: &[u8], nonce: &str) -> Result<ScramServer, SaslError> {
        let text = std::str::from_utf8(client_first)
            .map_err(|_| SaslError::Malformed("the client's SCRAM message is not text"))?;
        let first_bare = text.strip_prefix(GS2_HEADER).ok_or(SaslError::Malformed(
            "the client's SCRAM message asks for an authorization id or a channel binding",
        ))?;
        let name = attribute(first_bare, 'n')
            .ok_or(SaslError::Malformed("the client's SCRAM message has no name"))?;
        let client_nonce = attribute(first_bare, 'r')
            .filter(|nonce| !nonce.is_empty())
            .ok_or(SaslError::Malformed("the client's SCRAM message has no nonce"))?;
        Ok(ScramServer {
            username: name.replace("=2C", ",").replace("=3D", "="),
            first_bare: first_bare.to_owned(),
            nonce: format!("{client_nonce}{nonce}"),
            credential: None,
        })
    }

    /// Who the client says it is.
    pub fn username(&self) -> &str {
        &self.username
    }

    /// The server's first message, for the user's credential.
    pub fn challenge(&mut self, credential: &ScramCredential) -> Vec<u8> {
        let salt = STANDARD.encode(&credential.salt);
        let text = format!("r={},s={salt},i={}", self.nonce, credential.iterations);
        self.credential = Some((credential.clone(), text.clone()));
        text.into_bytes()
    }

    /// Reads the client's proof, and gives the server's own.
    ///
    /// # Errors
    ///
    /// When the proof is wrong.
    pub fn finish(&self, client_final: &[u8]) -> Result<Vec<u8>, SaslError> {
        const WRONG: SaslError = SaslError::Malformed("the client's proof is not one of SCRAM's");
        let refused = || SaslError::Refused("invalid credentials".to_owned());
        let (credential, server_first) = self.credential.as_ref().ok_or(WRONG)?;
        let text = std::str::from_utf8(client_final).map_err(|_| WRONG)?;
        let (without_proof, proof) = text.rsplit_once(",p=").ok_or(WRONG)?;
        // Kafka asks for no more than that the nonce ends in its own (CVE-2024-56128): librdkafka before 2.6.1 puts the client's
        // part before it a second time.
        if !attribute(without_proof, 'r').is_some_and(|nonce| nonce.ends_with(&self.nonce)) {
            return Err(SaslError::Malformed(
                "the nonce of the client's proof is not the one that it was given",
            ));
        }
        if attribute(without_proof, 'c') != Some(&STANDARD.encode(GS2_HEADER)) {
            return Err(WRONG);
        }
        let proof = STANDARD.decode(proof).map_err(|_| WRONG)?;
        let message = format!("{},{server_first},{without_proof}", self.first_bare);
        let hash = credential.hash;
        let signature = hash.mac(&credential.stored_key, message.as_bytes());
        if proof.len() != signature.len() {
            return Err(WRONG);
        }
        let client_key: Vec<u8> = proof.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
        if hash.digest(&client_key) != credential.stored_key {
            return Err(refused());
        }
        let signature = hash.mac(&credential.server_key, message.as_bytes());
        Ok(format!("v={}", STANDARD.encode(signature)).into_bytes())
    }
}

/// The value of one attribute of a message.
fn attribute(text: &str, name: char) -> Option<&str> {
    text.split(',')
        .find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7677, section 3: user, pencil.
    #[test]
    fn the_exchange_is_that_of_the_rfc() {
        let mut client = ScramClient::new(ScramHash::Sha256, "user", "pencil", "rOprNGfwEbeRWgbNEkqO", false);
        assert_eq!(client.first(), b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let challenge =
            b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        let proof = client.next(challenge).unwrap();
        assert_eq!(
            proof,
            Step::Send(
                b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
                    .to_vec()
            )
        );
        let last = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";
        assert_eq!(client.next(last), Ok(Step::Done));
        assert!(client.next(last).is_err());
    }

    fn exchange(hash: ScramHash, ours: &str, theirs: &str) -> Result<Step, SaslError> {
        let mut client = ScramClient::new(hash, "a=b,c", ours, "clientnonce", true);
        let mut server = ScramServer::new(&client.first(), "servernonce").unwrap();
        assert_eq!(server.username(), "a=b,c");
        let credential = ScramCredential::new(hash, theirs, b"salt");
        let challenge = server.challenge(&credential);
        let Step::Send(proof) = client.next(&challenge)? else {
            panic!("a proof is sent");
        };
        client.next(&server.finish(&proof)?)
    }

    #[test]
    fn both_sides_prove_what_they_know() {
        for hash in [ScramHash::Sha256, ScramHash::Sha512] {
            assert_eq!(exchange(hash, "geheim", "geheim"), Ok(Step::Done));
            let refused = exchange(hash, "geheim", "anders");
            assert_eq!(refused, Err(SaslError::Refused("invalid credentials".to_owned())));
        }
    }

    /// What the server says to a proof that is right but for its nonce.
    fn proof_with_nonce(nonce: &str) -> Result<Vec<u8>, SaslError> {
        let hash = ScramHash::Sha256;
        let mut server = ScramServer::new(b"n,,n=u,r=ours", "theirs").unwrap();
        let challenge = server.challenge(&ScramCredential::new(hash, "p", b"salt"));
        let challenge = String::from_utf8(challenge).unwrap();
        let without_proof = format!("c=biws,r={nonce}");
        let message = format!("n=u,r=ours,{challenge},{without_proof}");
        let salted = hash.salted_password("p", b"salt", FEWEST_ITERATIONS);
        let client_key = hash.mac(&salted, b"Client Key");
        let signature = hash.mac(&hash.digest(&client_key), message.as_bytes());
        let proof: Vec<u8> = client_key.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
        server.finish(format!("{without_proof},p={}", STANDARD.encode(proof)).as_bytes())
    }

    #[test]
    fn a_nonce_may_have_the_clients_part_twice_and_must_end_in_the_servers() {
        assert!(proof_with_nonce("ourstheirs").is_ok());
        assert!(proof_with_nonce("oursourstheirs").is_ok());
        for other in ["ours", "theirs", "ourstheirsX", ""] {
            let error = proof_with_nonce(other).unwrap_err();
            assert!(error.to_string().contains("nonce"), "{other}: {error}");
        }
    }

    #[test]
    fn a_server_that_does_not_know_the_password_is_found_out() {
        let mut client = ScramClient::new(ScramHash::Sha512, "u", "p", "nonce", false);
        client.next(b"r=nonceX,s=c2FsdA==,i=4096").unwrap();
        let forged = format!("v={}", STANDARD.encode([7; 64]));
        assert_eq!(client.next(forged.as_bytes()), Err(SaslError::ServerNotAuthentic));
    }

    #[test]
    fn messages_that_are_not_scrams_are_refused() {
        let client = ScramClient::new(ScramHash::Sha256, "u", "p", "nonce", false);
        for bad in [
            &b""[..],
            b"\xff",
            b"e=other-error",
            b"r=nonce,s=c2FsdA==,i=4096",
            b"r=other,s=c2FsdA==,i=4096",
            b"r=nonceX,s=!,i=4096",
            b"r=nonceX,i=4096",
            b"r=nonceX,s=c2FsdA==",
            b"r=nonceX,s=c2FsdA==,i=1",
            b"r=nonceX,s=c2FsdA==,i=4294967295",
        ] {
            assert!(client.clone().next(bad).is_err(), "{bad:?}");
        }
        for bad in [
            &b""[..],
            b"\xff",
            b"y,,n=u,r=n",
            b"n,,r=n",
            b"n,,n=u",
            b"n,,n=u,r=",
        ] {
            assert!(ScramServer::new(bad, "s").is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        let client = ScramClient::new(ScramHash::Sha256, "u", "geheim", "nonce", false);
        assert!(!format!("{client:?}").contains("geheim"));
    }
}
