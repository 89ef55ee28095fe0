//! Damage: what is done to a sound input.

/// Numbers that follow from a seed (SplitMix64).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below `end`; 0 where that is 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(count + 8);
        while bytes.len() < count {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(count);
        bytes
    }

    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}

/// Lengths and counts that decoders must not believe, in the forms in which they are written.
const CLAIMS: [&[u8]; 10] = [
    &[0x7f, 0xff, 0xff, 0xff],
    &[0x80, 0x00, 0x00, 0x00],
    &[0xff, 0xff, 0xff, 0xff],
    &[0x00, 0xff, 0xff, 0xff],
    &[0x7f, 0xff],
    &[0x80, 0x00],
    &[0xff, 0xff, 0xff, 0xff, 0x0f],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
    &[0x80, 0x80, 0x80, 0x80, 0x08],
    &[0x00],
];

/// Damages `bytes` in none to a few places.
pub fn damage(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..random.below(5) {
        let at = random.below(bytes.len());
        match random.below(8) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
            1 if !bytes.is_empty() => bytes[at] = random.next() as u8,
            2 => bytes.truncate(at),
            3 => {
                let (count, end) = (random.below(9), at.min(bytes.len()));
                let more = random.bytes(count);
                bytes.splice(end..end, more);
            }
            4 => {
                let end = (at + random.below(9)).min(bytes.len());
                bytes.drain(at.min(end)..end);
            }
            5 => {
                let end = (at + random.below(64)).min(bytes.len());
                let part = bytes[at.min(end)..end].to_vec();
                bytes.splice(at.min(end)..at.min(end), part);
            }
            6 if random.below(16) == 0 => {
                // One part many times over: deep nesting, long lists.
                let end = (at + 1 + random.below(16)).min(bytes.len());
                let part = bytes[at.min(end)..end].to_vec();
                let times = random.below(2000);
                bytes.splice(end..end, part.repeat(times));
            }
            _ => {
                let claim = *random.pick(&CLAIMS);
                let end = (at + claim.len()).min(bytes.len());
                bytes.splice(at.min(end)..end, claim.iter().copied());
            }
        }
    }
}
