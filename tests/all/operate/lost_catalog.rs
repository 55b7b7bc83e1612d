//! A catalog that is gone, or empty, beside a ledger with charges: `status` and `check` say so.

use std::fs;

use crate::support::world::World;

const NOTHING: &str = "Nothing was ingested yet";

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn delete(world: &World) {
    for suffix in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(world.state_dir().join(format!("catalog.db{suffix}")));
    }
}

#[test]
fn a_lost_catalog_is_not_taken_for_a_new_one() {
    let empty: fn(&World) = |world| {
        delete(world);
        fs::write(world.state_dir().join("catalog.db"), "").unwrap();
    };
    for (lose, how) in [(delete as fn(&World), "is missing"), (empty, "is empty")] {
        let world = World::new();
        assert_eq!(world.ingest(&["--region", "US"]).code, 0);
        assert!(!words(&world.ingest(&["status"]).stdout).contains(how));
        lose(&world);
        let status = world.ingest(&["status"]);
        let said = words(&status.stdout);
        assert!(
            said.contains(&format!(
                "catalog.db {how}, although the ledger has charges"
            )),
            "{said}"
        );
        assert!(said.contains("Restore it from a backup"), "{said}");
        assert!(!said.contains(NOTHING), "{said}");
        assert!(
            world.json(&["status"])["lost_catalog"]
                .as_str()
                .unwrap()
                .contains(how)
        );
        let check = world.ingest(&["check"]);
        assert_eq!(check.code, 1, "{check:?}");
        assert!(words(&check.stdout).contains(how), "{check:?}");
        // The next run begins anew.
        assert_eq!(world.ingest(&["--region", "US"]).code, 0);
        assert_eq!(world.ingest(&["check"]).code, 0);
    }
}

#[test]
fn a_ledger_that_was_charged_by_hand_alone_needs_no_catalog() {
    let world = World::new();
    assert_eq!(world.ingest(&["charge", "youtube", "videos.list"]).code, 0);
    assert!(words(&world.ingest(&["status"]).stdout).contains(NOTHING));
    assert_eq!(world.ingest(&["check"]).code, 0);
}
