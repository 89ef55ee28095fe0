//! What is written inside of other messages: SASL exchanges of both sides, and the consumer protocol of groups.

use std::sync::LazyLock;

use super::Target;
use crate::mutation::{Random, damage};
use wire::consumer_protocol::{self, ConsumerProtocolAssignment, ConsumerProtocolSubscription};
use wire::sasl::{
    OAuthBearerClient, OAuthRequest, PlainClient, PlainRequest, SaslError, ScramClient, ScramCredential,
    ScramHash, ScramServer, Step,
};
use wire::{Message, fuzzing};

const KINDS: usize = 9;
const NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
const HASHES: [ScramHash; 2] = [ScramHash::Sha256, ScramHash::Sha512];

pub fn exchanges() -> Target {
    Target {
        name: "exchanges",
        input,
        run: Box::new(run),
    }
}

/// One of each hash, made once: a proof takes thousands of rounds.
static EXCHANGES: LazyLock<[Exchange; 2]> = LazyLock::new(|| HASHES.map(Exchange::sound));

/// A sound SCRAM exchange, with both sides as they stand in the middle of it.
struct Exchange {
    credential: ScramCredential,
    challenge: Vec<u8>,
    /// Has sent its challenge.
    server: ScramServer,
    proof: Vec<u8>,
    /// Has sent its proof.
    client: ScramClient,
    signature: Vec<u8>,
}

impl Exchange {
    fn sound(hash: ScramHash) -> Exchange {
        let credential = ScramCredential::new(hash, "pencil", b"salt");
        let mut client = client(hash);
        let mut server = ScramServer::new(&client.first(), NONCE).expect("a sound first message");
        let challenge = server.challenge(&credential);
        let Ok(Step::Send(proof)) = client.next(&challenge) else {
            panic!("a sound challenge is refused");
        };
        let signature = server.finish(&proof).expect("a sound proof");
        Exchange {
            credential,
            challenge,
            server,
            proof,
            client,
            signature,
        }
    }
}

fn client(hash: ScramHash) -> ScramClient {
    ScramClient::new(hash, "user", "pencil", NONCE, false)
}

/// The kind, the hash, and a message.
fn input(random: &mut Random) -> Vec<u8> {
    let kind = random.below(KINDS);
    let place = random.below(HASHES.len());
    let hash = HASHES[place];
    let mut bytes = match kind {
        0 => PlainClient::new("user", "secret").first(),
        1 => OAuthBearerClient::new("token", &[("name".to_owned(), "value".to_owned())]).first(),
        2 => client(hash).first(),
        3 => format!("r={NONCE}{NONCE},s=c2FsdA==,i=4096").into_bytes(),
        4 => EXCHANGES[place].proof.clone(),
        5 => EXCHANGES[place].signature.clone(),
        6 => b"{\"status\":\"invalid_token\"}".to_vec(),
        _ => {
            let message = &fuzzing::consumer_protocol()[kind - 7];
            let version = random.below(5) as i16;
            let count = random.below(200);
            let choices = random.bytes(count);
            [
                &version.to_be_bytes()[..],
                &(message.sample)(version.min(3), &choices),
            ]
            .concat()
        }
    };
    damage(&mut bytes, random);
    [&[kind as u8, place as u8], &bytes[..]].concat()
}

fn run(input: &[u8]) {
    let [kind, place, bytes @ ..] = input else {
        return;
    };
    let place = usize::from(*place) % HASHES.len();
    let exchange = &EXCHANGES[place];
    match usize::from(*kind) % KINDS {
        0 => drop(PlainRequest::parse(bytes)),
        1 => drop(OAuthRequest::parse(bytes)),
        2 => {
            if let Ok(mut server) = ScramServer::new(bytes, NONCE) {
                server.challenge(&exchange.credential);
                let _ = server.finish(bytes);
            }
        }
        3 => {
            let mut client = client(HASHES[place]);
            let answered = client.next(bytes);
            assert!(
                bytes != exchange.challenge || answered.is_ok(),
                "the sound challenge is refused"
            );
            if answered.is_ok() {
                let _ = client.next(bytes);
            }
        }
        4 => assert_eq!(
            exchange.server.finish(bytes).is_ok(),
            bytes == exchange.proof,
            "a proof is the sound one or is refused"
        ),
        5 => {
            let sound = std::str::from_utf8(&exchange.signature).expect("text");
            let answered = exchange.client.clone().next(bytes);
            // Another attribute may stand beside the signature.
            let holds_it = std::str::from_utf8(bytes)
                .is_ok_and(|text| text.split(',').find(|part| part.starts_with("v=")) == Some(sound));
            assert!(
                matches!(answered, Err(SaslError::Refused(_))) || answered.is_ok() == holds_it,
                "a signature is the sound one or is refused"
            );
        }
        6 => {
            let mut client = OAuthBearerClient::new("token", &[]);
            client.first();
            let _ = client.next(bytes);
        }
        7 => protocol_comes_back::<ConsumerProtocolSubscription>(bytes),
        _ => protocol_comes_back::<ConsumerProtocolAssignment>(bytes),
    }
}

fn protocol_comes_back<M: Message>(bytes: &[u8]) {
    if let Ok(read) = consumer_protocol::decode::<M>(bytes) {
        let again = consumer_protocol::decode::<M>(&consumer_protocol::encode(3, &read));
        assert_eq!(again, Ok(read), "it does not come back");
    }
}
