//! What is written inside of other messages: SASL exchanges of both sides, and the consumer protocol of groups.

use super::Target;
use crate::mutation::{Random, damage};
use wire::consumer_protocol::{ConsumerProtocolAssignment, ConsumerProtocolSubscription, decode, encode};
use wire::sasl::{
    OAuthBearerClient, OAuthRequest, PlainClient, PlainRequest, ScramClient, ScramCredential, ScramHash,
    ScramServer,
};

const KINDS: usize = 8;
const NONCE: &str = "rOprNGfwEbeRWgbNEkqO";

pub fn exchanges() -> Target {
    Target {
        name: "exchanges",
        input,
        run: Box::new(run),
    }
}

fn credential() -> ScramCredential {
    ScramCredential::new(ScramHash::Sha256, "pencil", b"salt")
}

fn client() -> ScramClient {
    ScramClient::new(ScramHash::Sha256, "user", "pencil", NONCE, false)
}

fn input(random: &mut Random) -> Vec<u8> {
    let kind = random.below(KINDS);
    let mut bytes = match kind {
        0 => PlainClient::new("user", "secret").first(),
        1 => OAuthBearerClient::new("token", &[("name".to_owned(), "value".to_owned())]).first(),
        2 => client().first(),
        3 => ScramServer::new(&client().first(), NONCE)
            .map(|mut server| server.challenge(&credential()))
            .unwrap_or_default(),
        4 => b"c=biws,r=abc,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".to_vec(),
        5 => b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=".to_vec(),
        6 => {
            let subscription = ConsumerProtocolSubscription {
                topics: vec!["t".to_owned(), "u".to_owned()],
                ..ConsumerProtocolSubscription::default()
            };
            encode(random.below(4) as i16, &subscription)
        }
        _ => encode(random.below(4) as i16, &ConsumerProtocolAssignment::default()),
    };
    damage(&mut bytes, random);
    [&[kind as u8], &bytes[..]].concat()
}

fn run(input: &[u8]) {
    let [kind, bytes @ ..] = input else { return };
    match usize::from(*kind) % KINDS {
        0 => drop(PlainRequest::parse(bytes)),
        1 => drop(OAuthRequest::parse(bytes)),
        2 => {
            if let Ok(mut server) = ScramServer::new(bytes, NONCE) {
                server.challenge(&credential());
                let _ = server.finish(bytes);
            }
        }
        3 => {
            let mut client = client();
            client.first();
            if client.next(bytes).is_ok() {
                let _ = client.next(bytes);
            }
        }
        4 => {
            let mut server = ScramServer::new(&client().first(), NONCE).expect("a sound first message");
            server.challenge(&credential());
            assert!(server.finish(bytes).is_err(), "a proof of nothing was taken");
        }
        5 => {
            let mut client = OAuthBearerClient::new("token", &[]);
            client.first();
            let _ = client.next(bytes);
        }
        6 => {
            if let Ok(read) = decode::<ConsumerProtocolSubscription>(bytes) {
                let again = decode::<ConsumerProtocolSubscription>(&encode(3, &read));
                assert_eq!(again.ok(), Some(read), "a subscription does not come back");
            }
        }
        _ => drop(decode::<ConsumerProtocolAssignment>(bytes)),
    }
}
