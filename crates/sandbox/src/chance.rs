//! Pseudo-random values that are equal in every process: everything that is invented is a function of the seed and of
//! the request.

/// A source of values. Drawing does not change it: derive one for each purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chance(u64);

impl Chance {
    pub const fn new(seed: u64) -> Self {
        Self(mix(seed))
    }

    /// The source for this purpose.
    pub fn of(self, purpose: &str) -> Self {
        let hash = purpose
            .bytes()
            .fold(self.0 ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
        Self(mix(hash))
    }

    /// The source for this number.
    pub const fn nth(self, number: u64) -> Self {
        Self(mix(self.0 ^ mix(number)))
    }

    /// All 64 bits of it.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// A number below `end`; 0 where there is none.
    pub fn below(self, end: u64) -> u64 {
        self.0.checked_rem(end).unwrap_or(0)
    }

    /// True in `share` of 100 cases.
    pub fn percent(self, share: u64) -> bool {
        self.of("percent").below(100) < share
    }

    /// True in this share of the cases, 0 to 1.
    pub fn happens(self, share: f64) -> bool {
        // 53 bits are what a float holds exactly.
        let drawn = (self.0 >> 11) as f64 / (1_u64 << 53) as f64;
        drawn < share
    }

    /// One of these; the type's default where there is none.
    pub fn pick<T: Copy + Default>(self, from: &[T]) -> T {
        let count = u64::try_from(from.len()).unwrap_or(0);
        let index = usize::try_from(self.below(count)).unwrap_or(0);
        from.get(index).copied().unwrap_or_default()
    }
}

/// Stirs 64 bits, reversibly (the finalizer of splitmix64).
pub const fn mix(bits: u64) -> u64 {
    let bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// The inverse of `mix`.
pub const fn unmix(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 31) ^ (bits >> 62)).wrapping_mul(0x3196_42b2_d24d_8ec3);
    let bits = (bits ^ (bits >> 27) ^ (bits >> 54)).wrapping_mul(0x96de_1b17_3f11_9089);
    let bits = bits ^ (bits >> 30) ^ (bits >> 60);
    bits.wrapping_sub(0x9e37_79b9_7f4a_7c15)
}
