//! What is drawn by seed, so that it can be drawn again.

/// Numbers that follow from a seed (SplitMix64).
pub struct Draw(u64);

impl Draw {
    /// From the start of what this seed gives.
    pub fn of(seed: u64) -> Draw {
        Draw(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From the first to the last, both included.
    pub fn between(&mut self, first: u64, last: u64) -> u64 {
        first + self.next() % (last - first + 1)
    }

    /// One of them, each as likely as the others.
    pub fn one_of<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[(self.next() % list.len() as u64) as usize]
    }

    /// True one time in so many.
    pub fn one_in(&mut self, many: u64) -> bool {
        self.next().is_multiple_of(many)
    }
}
