//! Requests as brokers decode them and responses as clients do: every API in every version.

use super::{Run, Target};
use crate::mutation::{Random, damage};
use wire::fuzzing::{self, Sampled};

pub fn requests() -> Target {
    Target {
        name: "requests",
        input: |random| input(random, &fuzzing::requests()),
        run: runner(fuzzing::requests()),
    }
}

pub fn responses() -> Target {
    Target {
        name: "responses",
        input: |random| input(random, &fuzzing::responses()),
        run: runner(fuzzing::responses()),
    }
}

/// The message's place in the list, its version, and its bytes.
fn input(random: &mut Random, list: &[Sampled]) -> Vec<u8> {
    let place = random.below(list.len());
    let versions = list[place].versions.clone();
    let version = versions.start() + random.below(versions.clone().count()) as i16;
    let count = random.below(400);
    let choices = random.bytes(count);
    let mut bytes = (list[place].sample)(version, &choices);
    damage(&mut bytes, random);
    [&[place as u8, version as u8], &bytes[..]].concat()
}

fn runner(list: Vec<Sampled>) -> Run {
    Box::new(move |input| {
        let [place, version, bytes @ ..] = input else {
            return;
        };
        let message = &list[usize::from(*place) % list.len()];
        let version = i16::from(*version).clamp(*message.versions.start(), *message.versions.end());
        let comes_back = (message.comes_back)(version, bytes);
        assert_ne!(
            comes_back,
            Some(false),
            "{} version {version} does not come back",
            message.name
        );
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_reach_every_message_and_a_good_part_of_them_can_be_read() {
        for list in [fuzzing::requests(), fuzzing::responses()] {
            let mut reached = vec![false; list.len()];
            let mut read = 0;
            for seed in 0..3000 {
                let bytes = input(&mut Random::new(seed), &list);
                let message = &list[usize::from(bytes[0])];
                reached[usize::from(bytes[0])] = true;
                read += u32::from((message.comes_back)(bytes[1].into(), &bytes[2..]).is_some());
            }
            assert!(reached.iter().all(|reached| *reached));
            assert!(read > 750, "{read} of 3000");
        }
    }
}
