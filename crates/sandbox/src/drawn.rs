//! Numbers as if they were drawn, but the same in every process: everything that is invented is a function of a seed and of what is
//! requested.

use ingest_base::fnv::fnv;

/// The number of this name under a seed, out of all 64 bits.
pub fn drawn(seed: u64, name: &str) -> u64 {
    let hash = fnv(name);
    let [high, low] = [(hash >> 64) as u64, hash as u64];
    stirred(stirred(seed ^ high) ^ low)
}

/// The number of this name below `end`; 0 where there is none.
pub fn below(seed: u64, name: &str, end: u64) -> u64 {
    drawn(seed, name).checked_rem(end).unwrap_or(0)
}

/// Stirs 64 bits (the finalizer of splitmix64): texts that differ in their last character have nothing in common then.
const fn stirred(bits: u64) -> u64 {
    let bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
