//! What is in a list, and in what order.

use std::cmp::Reverse;

use super::draw::published;
use super::thing::{Class, Place, Thing};
use crate::quota::Timestamp;
use crate::sandbox::chance::Chance;

/// More than this no list holds: ids have 12 bits for it.
pub const LONGEST: u64 = 4_000;

/// A region's chart: two in five are in every region's, the others are its own.
pub fn chart(place: Place, total: u64, world: Chance) -> Vec<Thing> {
    let shared = total.saturating_mul(2) / 5;
    let mut chart = numbered(Class::Video, Place::EVERYWHERE, 0, shared);
    chart.extend(numbered(
        Class::Video,
        place,
        0,
        total.saturating_sub(shared),
    ));
    let order = world.of("chart").of(&place.code().unwrap_or_default());
    chart.sort_by_cached_key(|thing| thing.chance(order).bits());
    chart
}

/// What a search finds in a region: some that every region finds, some of its chart, and others.
pub fn found(place: Place, topic: u16, total: u64, world: Chance) -> Vec<Thing> {
    let shared = total.saturating_mul(2) / 5;
    let charted = (total / 5).min(100);
    let mut found = numbered(Class::Video, Place::EVERYWHERE, topic, shared);
    found.extend(numbered(Class::Video, place, 0, charted));
    found.extend(numbered(
        Class::Video,
        place,
        topic,
        total.saturating_sub(shared).saturating_sub(charted),
    ));
    let order = world.of("relevance");
    found.sort_by_cached_key(|thing| thing.chance(order).bits());
    found
}

/// Any other list.
pub fn numbered(class: Class, place: Place, topic: u16, total: u64) -> Vec<Thing> {
    let end = u16::try_from(total.min(LONGEST)).unwrap_or_default();
    (0..end)
        .map(|number| Thing {
            class,
            place,
            topic,
            number,
        })
        .collect()
}

/// Newest first.
pub fn newest_first(things: &mut [Thing], world: Chance) {
    things.sort_by_cached_key(|thing| Reverse(published(thing.chance(world))));
}

/// Leaves what was published in this time.
pub fn between(
    things: &mut Vec<Thing>,
    from: Option<Timestamp>,
    to: Option<Timestamp>,
    world: Chance,
) {
    things.retain(|thing| {
        let at = published(thing.chance(world));
        from.is_none_or(|from| at >= from) && to.is_none_or(|to| at < to)
    });
}

/// The list that a question is about, of 4,095; 0 is the charts'.
pub fn topic(question: &str, world: Chance) -> u16 {
    u16::try_from(world.of("topic").of(question).below(4_095))
        .unwrap_or_default()
        .saturating_add(1)
}
