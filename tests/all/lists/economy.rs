//! What the proofs of a right configuration cost: lists of a call that its upstream serves with the size that is requested, and that
//! has any number of records at each run.

use proptest::prelude::*;
use proptest::prop_assert;

use super::life::Life;
use super::plan::{Change, Kind, World};
use super::{UPSTREAMS, VARIABLES};
use crate::support::seeds::Held;

/// The fewest records of a list whose proof tells how the lists of its call end.
const TELLING: u8 = 10;

/// A list whose pages are counted, and its records at each run: never half a page, which is proved since caps are halved.
fn plans() -> impl Strategy<Value = (Kind, u8, Vec<u8>)> {
    let kinds = prop::sample::select(&[Kind::Last, Kind::Offset, Kind::Number][..]);
    let sizes = prop::sample::select(&[20_u8, 25, 50, 100, 200][..]);
    (kinds, sizes).prop_flat_map(|(kind, size)| {
        let most = prop::sample::select(vec![size / 2, size - 1, size.saturating_add(size / 4)]);
        let rows = most.prop_flat_map(move |most| {
            let rows = (0..=most)
                .prop_map(move |rows| rows + u8::from(u16::from(rows) * 2 == u16::from(size)));
            prop::collection::vec(rows, 3..=8)
        });
        (Just(kind), Just(size), rows)
    })
}

#[test]
fn a_right_configuration_pays_one_proof_for_a_call_whatever_its_lists_have() {
    VARIABLES.live(UPSTREAMS / 3, &plans(), |(kind, size, rows)| {
        pays(*kind, *size, rows)
    });
}

fn pays(kind: Kind, size: u8, rows: &[u8]) -> Held {
    let mut life = Life::new(&World {
        rows: 0,
        size: Some((size, true)),
        cap: size,
        ..World::of(kind)
    });
    let (mut proved, mut last_pages) = (Vec::new(), 0);
    for rows in rows {
        resize(&life, usize::from(*rows));
        life.run(None)?;
        let pages = rows.div_ceil(size).max(1);
        let is_full = *rows > 0 && rows.is_multiple_of(size);
        let paid = life.server.lock().unwrap().requests - u64::from(pages) - u64::from(is_full);
        // One with fewer pages than the last one is proved each time.
        if paid > 0 && pages >= last_pages {
            proved.push(*rows);
        }
        last_pages = pages;
    }
    let most = match proved.first() {
        Some(first) if *first < TELLING => 2,
        Some(_) | None => 1,
    };
    prop_assert!(
        proved.len() <= most,
        "{kind:?} of {size}, lists of {rows:?}: proofs at {proved:?}"
    );
    Ok(())
}

fn resize(life: &Life, rows: usize) {
    let mut server = life.server.lock().unwrap();
    server.rows.truncate(rows);
    let more = rows - server.rows.len();
    server.change(Change::Grow(more.try_into().unwrap()));
}

#[test]
fn a_list_of_a_usual_page_behind_a_very_short_one_is_proved_too() {
    let world = World {
        rows: 3,
        size: Some((100, true)),
        cap: 50,
        ..World::of(Kind::Offset)
    };
    for kind in [Kind::Last, Kind::Offset, Kind::Number] {
        let mut life = Life::new(&World {
            kind,
            ..world.clone()
        });
        life.run(None).unwrap();
        resize(&life, 120);
        life.run(None).unwrap();
    }
}
