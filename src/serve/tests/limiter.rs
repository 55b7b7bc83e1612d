//! Very many clients at once.

use std::net::Ipv4Addr;

use super::*;

const EACH: u64 = 60;

fn address(number: u32) -> Key {
    Key::Address(Ipv4Addr::from(number).into())
}

/// The memory of this process, in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.unwrap_or_default()
}

#[test]
fn very_many_addresses_take_bounded_memory_and_nobody_is_forgotten() {
    let hour = Duration::from_secs(3_600);
    let window = ingest_quota::Window::new(Some(hour), None).unwrap();
    let limit = Limit::new(Units::new(EACH), Units::ZERO, window).unwrap();
    let policy = RequestLimit::new("readers", limit);
    let mut memory = Memory::default();
    let mut fits = |key: Key, now: Timestamp| {
        let key = memory.place(key, now);
        memory.take(key, &policy, now).retry_in.is_none()
    };
    let now = Timestamp::from_micros(1_800_000_000_000_000);
    let before = resident();
    let most = u32::try_from(MOST_CLIENTS).unwrap();
    assert!((0..most).all(|number| fits(address(number), now)));
    assert!(
        resident() < before + 50 * 1024,
        "{} KiB more",
        resident() - before
    );
    // Those beyond share what one client has.
    let beyond = (0..200).filter(|number| fits(address(most + number), now));
    assert_eq!(beyond.count() as u64, EACH);
    assert!(
        fits(Key::Client("one".to_owned()), now),
        "a token has its own limit"
    );
    let more = (0..EACH).filter(|_| fits(address(7), now));
    assert_eq!(more.count() as u64, EACH - 1, "nobody is forgotten");
    // Whoever has no requests in the window leaves its place to others.
    let later = now + 2 * hour;
    let beyond = (0..200).filter(|number| fits(address(most + number), later));
    assert_eq!(beyond.count(), 200);
}
