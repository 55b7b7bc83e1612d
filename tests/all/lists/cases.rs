//! Upstreams that showed a defect once.

use super::life::live;
use super::plan::{Change, Event, Kind, Name, Total, World};

fn holds(world: &World) {
    live(world).unwrap();
}

#[test]
fn a_size_that_the_upstream_does_not_know_ends_no_list() {
    holds(&World {
        wrong: Some(Name::Size),
        usual: 3,
        ..World::of(Kind::Last)
    });
}

#[test]
fn a_cap_that_was_lowered_ends_no_list() {
    let lower = Event::Change(Change::Cap(3));
    for kind in [Kind::Last, Kind::Offset, Kind::Number] {
        holds(&World {
            events: vec![Event::Run(None), lower.clone(), Event::Run(None)],
            ..World::of(kind)
        });
    }
}

#[test]
fn numbered_pages_with_a_total_that_is_not_read_end_at_no_short_page() {
    holds(&World {
        size: Some((8, false)),
        total: Total::Right,
        ..World::of(Kind::Number)
    });
}

#[test]
fn a_wrong_place_of_the_records_completes_no_pass() {
    holds(&World {
        wrong: Some(Name::At),
        since: 1,
        ..World::of(Kind::Token)
    });
}

#[test]
fn a_member_with_the_next_page_that_is_renamed_completes_no_pass() {
    let renamed = Event::Change(Change::Rename(Name::Next));
    for kind in [Kind::Token, Kind::NextUrl, Kind::Link] {
        holds(&World {
            events: vec![Event::Run(None), renamed.clone(), Event::Run(None)],
            ..World::of(kind)
        });
    }
}

#[test]
fn a_next_page_that_never_had_the_configured_name_completes_no_pass() {
    for (kind, obscure) in [
        (Kind::Link, false),
        (Kind::Link, true),
        (Kind::NextUrl, false),
        (Kind::NextUrl, true),
    ] {
        let renamed = Event::Change(Change::Rename(Name::Next));
        holds(&World {
            obscure,
            events: vec![renamed, Event::Run(None), Event::Run(None)],
            ..World::of(kind)
        });
    }
}

#[test]
fn another_member_that_is_renamed_is_no_doubt_about_a_next_page_that_is_null() {
    let renamed = Event::Change(Change::Rename(Name::Total));
    holds(&World {
        total: Total::Right,
        rows: 10,
        events: vec![Event::Run(None), renamed, Event::Run(None)],
        ..World::of(Kind::Token)
    });
}

#[test]
fn a_total_that_no_page_reaches_completes_no_pass_of_a_list_that_never_led_on() {
    let renamed = Event::Change(Change::Rename(Name::Next));
    holds(&World {
        obscure: true,
        total: Total::Right,
        events: vec![renamed, Event::Run(None), Event::Run(None)],
        ..World::of(Kind::Token)
    });
}
