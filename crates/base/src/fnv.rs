//! A hash that is the same in every release.

/// Returns the 128-bit FNV-1a hash, for names of files and comparisons across releases; not safe against deliberate collisions.
#[must_use]
pub fn fnv(text: &str) -> u128 {
    let (basis, prime) = (
        0x6c62_272e_07bb_0142_62b8_2175_6295_c58d,
        0x0100_0000_0000_0000_0000_013b,
    );
    text.bytes().fold(basis, |hash: u128, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(prime)
    })
}
