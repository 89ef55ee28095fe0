//! The embedded brokers as a whole: sequences of requests, sound and damaged, by any API.

use super::Target;
use super::hot_path::{fetch_frame, produce_frame};
use crate::mutation::{Random, damage};
use broker::fuzzing::Session;
use wire::fuzzing::requests;

/// What the brokers may keep, and after how many requests they are new ones.
const MEMORY_BYTES: u64 = 8 << 20;
const REQUESTS_PER_SESSION: u32 = 2000;

pub fn brokers() -> Target {
    let mut session = Session::new(MEMORY_BYTES);
    let mut served = 0;
    Target {
        name: "brokers",
        input,
        run: Box::new(move |input| {
            let [broker, frame @ ..] = input else { return };
            served += 1;
            if served > REQUESTS_PER_SESSION {
                session = Session::new(MEMORY_BYTES);
                served = 0;
            }
            session.feed(i32::from(broker % 3) + 1, frame);
        }),
    }
}

/// The broker's number and a request without its length field. Its API key, version and correlation id come first.
fn input(random: &mut Random) -> Vec<u8> {
    let mut frame = match random.below(6) {
        0 => {
            let version = 3 + random.below(11) as i16;
            produce_frame(random, version)[4..].to_vec()
        }
        1 => {
            let version = 4 + random.below(15) as i16;
            fetch_frame(random, version)[4..].to_vec()
        }
        _ => control_frame(random),
    };
    if random.below(2) == 0 {
        damage(&mut frame, random);
    }
    [&[random.next() as u8], &frame[..]].concat()
}

fn control_frame(random: &mut Random) -> Vec<u8> {
    let list = requests();
    let message = random.pick(&list);
    let versions = message.versions.clone();
    let version = versions.start() + random.below(versions.clone().count()) as i16;
    let count = random.below(200);
    let choices = random.bytes(count);
    let name = message.name.trim_end_matches("Request");
    let key = wire::ApiKey::ALL.iter().find(|key| key.name() == Some(name));
    let mut frame = Vec::new();
    frame.extend_from_slice(&key.map_or(0, |key| key.0).to_be_bytes());
    frame.extend_from_slice(&version.to_be_bytes());
    frame.extend_from_slice(&7_i32.to_be_bytes());
    frame.extend_from_slice(&[0, 1, b'f']);
    // The tagged fields of a flexible header; in others it is the first byte of the body, which is damage enough.
    if random.below(8) > 0 {
        frame.push(0);
    }
    frame.extend_from_slice(&(message.sample)(version, &choices));
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_good_part_of_the_requests_is_sound_enough_to_be_answered() {
        let mut session = Session::new(MEMORY_BYTES);
        let answered = (0..1000).filter(|seed| {
            let frame = input(&mut Random::new(*seed));
            session.feed(1, &frame[1..]).is_some()
        });
        assert!(answered.count() > 300);
    }
}
