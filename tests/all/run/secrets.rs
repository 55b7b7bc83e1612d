use std::fs;
use std::path::Path;

use serde_json::json;

use crate::support::world::{SECRET, World};

#[test]
fn the_secret_is_in_no_output_and_no_file_at_full_tracing() {
    let world = World::new();
    let echo = json!({ "status": 400, "body": { "error": { "message": format!("bad key {SECRET}") } }, "after": 3 });
    world.faults(&echo);
    for arguments in [
        ["-vvv", "--region", "all"].as_slice(),
        &["-vvv", "check"],
        &["-vvv", "status"],
    ] {
        let ran = world
            .command(arguments)
            .env("RUST_LOG", "trace")
            .output()
            .unwrap();
        for output in [ran.stdout, ran.stderr] {
            assert!(
                !String::from_utf8_lossy(&output).contains(SECRET),
                "{arguments:?} printed the secret"
            );
        }
    }
    assert!(world.requests() > 0);
    search(world.directory.path());
}

fn search(directory: &Path) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            search(&path);
        } else {
            let bytes = fs::read(&path).unwrap();
            assert!(
                !bytes
                    .windows(SECRET.len())
                    .any(|part| part == SECRET.as_bytes()),
                "{path:?} holds the secret"
            );
        }
    }
}
