//! Numbers that a seed determines, and the seeds of a commit.

/// A sequence of numbers that depends on nothing except its seed (`SplitMix64`).
pub(super) struct Chance(u64);

impl Chance {
    /// Returns the sequence of `seed` for the task `name`: tasks of one seed have independent numbers.
    pub(super) fn new(seed: u64, name: &str) -> Self {
        // FNV-1a, the same on every machine.
        let hash =
            name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
        Self(seed ^ hash)
    }

    /// Returns the seeds of `count` draws for the commit with this hash.
    pub(super) fn seeds_of(commit: &str, count: usize) -> Vec<u64> {
        let mut chance = Self::new(0, commit);
        (0..count).map(|_| chance.next() % 1_000_000).collect()
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from `low` to `high`, both included.
    pub(super) fn between(&mut self, low: u32, high: u32) -> u32 {
        let span = u64::from(high - low) + 1;
        low + u32::try_from(self.next() % span).expect("the remainder is below the span")
    }

    /// Returns one of `items`.
    pub(super) fn pick<'a>(&mut self, items: &[&'a str]) -> &'a str {
        self.some(items, 1)[0]
    }

    /// Returns `count` different ones of `items`, in random order.
    pub(super) fn some<'a>(&mut self, items: &[&'a str], count: usize) -> Vec<&'a str> {
        let mut left = items.to_vec();
        (0..count).map(|_| left.remove(usize::try_from(self.next()).unwrap_or_default() % left.len())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Chance;

    #[test]
    fn a_seed_determines_the_numbers() {
        let numbers = |seed, name| {
            let mut chance = Chance::new(seed, name);
            [chance.between(0, 1_000_000), chance.between(0, 1_000_000)]
        };
        assert_eq!(numbers(1, "echo"), numbers(1, "echo"));
        assert_ne!(numbers(1, "echo"), numbers(2, "echo"));
        assert_ne!(numbers(1, "echo"), numbers(1, "timer"));
        assert_eq!(Chance::seeds_of("4055011", 3).len(), 3);
        assert_ne!(Chance::seeds_of("4055011", 3), Chance::seeds_of("4055012", 3));
        assert_eq!(Chance::seeds_of("4055011", 3)[..1], Chance::seeds_of("4055011", 1));
    }
}
