//! The embedded brokers as a whole: sequences of requests, sound and damaged, by any API, each on new brokers.

use super::Target;
use super::hot_path::{fetch_frame, produce_frame};
use crate::mutation::{Random, damage};
use broker::fuzzing::Session;
use wire::fuzzing::requests;
use wire::header::encode_request;
use wire::messages::create_topics::{CreatableTopic, CreateTopicsRequest};

/// What the brokers may keep.
const MEMORY_BYTES: u64 = 8 << 20;
const MOST_REQUESTS: usize = 100;

pub fn brokers() -> Target {
    Target {
        name: "brokers",
        input,
        run: Box::new(|input| {
            run(input);
        }),
    }
}

/// Feeds the requests of an input; gives how many there were and how many were answered.
fn run(mut input: &[u8]) -> (u32, u32) {
    let mut session = Session::new(MEMORY_BYTES);
    let (mut fed, mut answered) = (0, 0);
    while let [broker, a, b, c, rest @ ..] = input {
        let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        let (frame, after) = rest.split_at(length.min(rest.len()));
        fed += 1;
        answered += u32::from(session.feed(i32::from(broker % 3) + 1, frame).is_some());
        input = after;
    }
    (fed, answered)
}

/// Requests, each behind its broker and its length. Most times a topic is made first, that the others speak of.
fn input(random: &mut Random) -> Vec<u8> {
    let mut input = Vec::new();
    let mut push = |broker: u8, frame: &[u8]| {
        input.push(broker);
        input.extend_from_slice(&(frame.len() as u32).to_be_bytes()[1..]);
        input.extend_from_slice(frame);
    };
    if random.below(8) > 0 {
        let request = CreateTopicsRequest {
            topics: vec![CreatableTopic {
                name: "t".to_owned(),
                num_partitions: 3,
                replication_factor: 1,
                ..CreatableTopic::default()
            }],
            ..CreateTopicsRequest::default()
        };
        (0..3).for_each(|broker| push(broker, &encode_request(7, None, 5, &request)[4..]));
    }
    for _ in 0..1 + random.below(MOST_REQUESTS) {
        push(random.next() as u8, &frame(random));
    }
    input
}

/// A request without its length field. Its API key, version and correlation id come first.
fn frame(random: &mut Random) -> Vec<u8> {
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
    frame
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
        let (mut fed, mut answered) = (0, 0);
        for seed in 0..50 {
            let (more_fed, more_answered) = run(&input(&mut Random::new(seed)));
            fed += more_fed;
            answered += more_answered;
        }
        assert!(answered > fed / 3, "{answered} of {fed}");
    }
}
