use std::fs;
use std::path::{Path, PathBuf};

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
