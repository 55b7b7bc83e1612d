use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::support::world::World;

pub(super) fn everything_below(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| {
            if path.is_dir() {
                [vec![path.clone()], everything_below(&path)].concat()
            } else {
                vec![path]
            }
        })
        .collect()
}

#[test]
fn what_a_run_leaves_is_its_owners_alone() {
    let world = World::new();
    assert_eq!(world.ingest(&["--region", "US,GB"]).code, 0);
    assert_eq!(world.ingest(&["check", "--connect"]).code, 0);
    let all = [
        vec![world.state_dir()],
        everything_below(&world.state_dir()),
    ]
    .concat();
    assert!(all.len() > 4, "{all:?}");
    for path in all {
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{} is {mode:o}", path.display());
    }
}
