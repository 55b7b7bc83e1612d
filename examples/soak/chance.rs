use std::time::Duration;

/// Chance that can be had again: splitmix64.
pub(crate) struct Chance(u64);

impl Chance {
    /// That of one chapter of a seed.
    pub(crate) fn of(seed: u64, chapter: u64) -> Self {
        let mut chance = Self(seed);
        let mixed = chance.next();
        Self(mixed ^ chapter.wrapping_mul(0xD6E8_FEB8_6659_FD93))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    /// Whether it happens, once in so many times.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    pub(crate) fn millis_below(&mut self, end: usize) -> Duration {
        Duration::from_millis(self.below(end) as u64)
    }
}
