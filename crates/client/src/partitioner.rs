//! Which partition a record goes to: murmur2 of its key, or the uniform sticky partitioner (KIP-480, KIP-794).

/// Kafka's murmur2 (seed 0x9747b28c), as the Java client hashes keys.
pub fn murmur2(key: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = 0x9747_b28c ^ key.len() as u32;
    let mut words = key.chunks_exact(4);
    for word in &mut words {
        let mut k = u32::from_le_bytes(word.try_into().expect("four bytes")).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        for (place, &byte) in rest.iter().enumerate() {
            hash ^= u32::from(byte) << (8 * place);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

/// The partition of a key among all partitions of a topic, whether they have a leader or not.
///
/// # Panics
///
/// With no partitions.
pub fn partition_of_key(key: &[u8], partitions: usize) -> usize {
    (murmur2(key) & 0x7fff_ffff) as usize % partitions
}

/// Small, fast and seeded: xorshift64*.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A sequence that is the same for the same seed.
    pub fn seeded(seed: u64) -> Random {
        // The state must not be zero, and neighbouring seeds must not give neighbouring sequences (splitmix64).
        let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Random((z ^ (z >> 31)) | 1)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `end`, each equally often to within 2⁻³².
    pub fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.next_u64()) * end as u128) >> 64) as usize
    }
}

/// Stays with one partition until `batch.size` bytes have gone there and its batch is done, then takes another at random:
/// evenly, or, when adaptive, rather one whose queue is short.
#[derive(Debug)]
pub struct StickyPartitioner {
    random: Random,
    batch_size_bytes: usize,
    adaptive: bool,
    current: Option<usize>,
    produced_bytes: usize,
    weights: Vec<usize>,
}

impl StickyPartitioner {
    /// `batch_size_bytes` of 0 (no batching) changes the partition with each record.
    pub fn new(seed: u64, batch_size_bytes: usize, adaptive: bool) -> StickyPartitioner {
        StickyPartitioner {
            random: Random::seeded(seed),
            batch_size_bytes: batch_size_bytes.max(1),
            adaptive,
            current: None,
            produced_bytes: 0,
            weights: Vec::new(),
        }
    }

    /// The partition of the next record. `queue` gives a partition's number of waiting batches, or `None` when it cannot be
    /// sent to at the moment; with none that can, any is taken.
    pub fn partition(&mut self, partitions: usize, queue: impl Fn(usize) -> Option<usize>) -> usize {
        if let Some(current) = self.current
            && current < partitions
        {
            return current;
        }
        let chosen = self.choose(partitions, queue);
        self.current = Some(chosen);
        self.produced_bytes = 0;
        chosen
    }

    /// Bytes went to the current partition. `batch_done` says that its batch is full or has been sent.
    pub fn produced(&mut self, bytes: usize, batch_done: bool) {
        self.produced_bytes += bytes;
        if batch_done && self.produced_bytes >= self.batch_size_bytes {
            self.current = None;
        }
    }

    /// The current partition's batch was full: what is missing to `batch.size` is less than a record.
    pub fn batch_full(&mut self) {
        self.current = None;
    }

    fn choose(&mut self, partitions: usize, queue: impl Fn(usize) -> Option<usize>) -> usize {
        self.weights.clear();
        self.weights
            .extend((0..partitions).map(|partition| queue(partition).map_or(0, |waiting| waiting + 1)));
        let longest = self.weights.iter().copied().max().unwrap_or(0);
        if longest == 0 {
            return self.random.below(partitions.max(1));
        }
        // KIP-794: the weight is the longest queue plus one less the own one; here each is counted from one already.
        for weight in self.weights.iter_mut().filter(|weight| **weight > 0) {
            *weight = if self.adaptive { longest + 1 - *weight } else { 1 };
        }
        let mut ticket = self.random.below(self.weights.iter().sum());
        for (partition, &weight) in self.weights.iter().enumerate() {
            if ticket < weight {
                return partition;
            }
            ticket -= weight;
        }
        unreachable!("the ticket is below the sum of the weights")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_hash_as_the_java_client_hashes_them() {
        for (key, hash) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key.as_bytes()) as i32, hash, "{key}");
        }
    }

    #[test]
    fn records_stick_to_a_partition_until_a_batch_is_done() {
        let mut partitioner = StickyPartitioner::new(1, 1000, true);
        let first = partitioner.partition(8, |_| Some(0));
        partitioner.produced(600, false);
        assert_eq!(partitioner.partition(8, |_| Some(0)), first);
        partitioner.produced(300, true);
        assert_eq!(
            partitioner.partition(8, |_| Some(0)),
            first,
            "a batch that linger ended does not change it below batch.size"
        );
        partitioner.produced(200, true);
        let later: Vec<_> = (0..20)
            .map(|_| {
                let partition = partitioner.partition(8, |_| Some(0));
                partitioner.batch_full();
                partition
            })
            .collect();
        assert!(later.iter().any(|&partition| partition != first));
    }

    #[test]
    fn choices_are_even_and_leave_out_what_cannot_be_sent_to() {
        let mut partitioner = StickyPartitioner::new(7, 1, false);
        let mut counts = [0; 5];
        for _ in 0..40_000 {
            let partition = partitioner.partition(5, |partition| (partition != 2).then_some(0));
            counts[partition] += 1;
            partitioner.batch_full();
        }
        assert_eq!(counts[2], 0);
        assert!(
            counts
                .iter()
                .enumerate()
                .all(|(partition, &count)| partition == 2 || (9_500..10_500).contains(&count)),
            "{counts:?}"
        );
    }

    #[test]
    fn an_adaptive_partitioner_avoids_the_long_queue() {
        let mut partitioner = StickyPartitioner::new(7, 1, true);
        let mut counts = [0; 3];
        for _ in 0..30_000 {
            counts[partitioner.partition(3, |partition| Some([9, 0, 0][partition]))] += 1;
            partitioner.batch_full();
        }
        // Weights 1, 10, 10.
        assert!((1_200..1_700).contains(&counts[0]), "{counts:?}");
    }
}
