//! Identifiers that are unlike all others.

use wire::Uuid;

/// A generator of numbers without a pattern (splitmix64): from one seed always the same, so that tests repeat.
#[derive(Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A random identifier (version 4), never one that Kafka's tools take for an option because of a leading dash.
    pub(crate) fn uuid(&mut self) -> Uuid {
        loop {
            let bits = (u128::from(self.number()) << 64) | u128::from(self.number());
            let bits = (bits & !(0xf << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62);
            let uuid = Uuid(bits.to_be_bytes());
            if !uuid.to_string().starts_with('-') {
                return uuid;
            }
        }
    }

    /// A random identifier in the form 8-4-4-4-12, as member ids end.
    pub(crate) fn dashed_uuid(&mut self) -> String {
        let hex: String = self.uuid().0.iter().map(|byte| format!("{byte:02x}")).collect();
        format!(
            "{}-{}-{}-{}-{}",
            &hex[..8],
            &hex[8..12],
            &hex[12..16],
            &hex[16..20],
            &hex[20..]
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn identifiers_differ_and_repeat_with_the_seed() {
        let many: HashSet<String> = {
            let mut random = Random::new(1);
            (0..1000).map(|_| random.dashed_uuid()).collect()
        };
        assert_eq!(many.len(), 1000);
        assert!(many.contains(&Random::new(1).dashed_uuid()));
        let sample = Random::new(5).dashed_uuid();
        assert_eq!((sample.len(), &sample[14..15]), (36, "4"), "{sample}");
    }
}
