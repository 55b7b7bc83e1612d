use std::fs;
use std::process::Command;

use crate::support::world::{World, shipped};

/// Each wrong change of the shipped file, and what the refusal says.
const WRONG: [(&str, &str, &[&str]); 6] = [
    ("every = \"1h\"", "evry = \"1h\"", &["evry", "every"]),
    (
        "max_pages = 4",
        "max_pages = \"four\"",
        &["max_pages", "four"],
    ),
    (
        "call = \"channels.list\"",
        "call = \"chanels.list\"",
        &["chanels.list", "channels.list"],
    ),
    ("headroom = 500", "headroom = 9_950", &["daily"]),
    ("window = \"24h\"", "window = \"0s\"", &["window"]),
    ("[ledger]", "[ledger", &["toml"]),
];

#[test]
fn a_wrong_file_is_refused_whole_with_2_by_every_command_and_nothing_is_requested() {
    let world = World::new();
    let right = fs::read_to_string(shipped()).unwrap();
    for (from, to, words) in WRONG {
        let wrong = world.directory.path().join("wrong.toml");
        fs::write(&wrong, right.replacen(from, to, 1)).unwrap();
        for arguments in [
            ["--region", "all"].as_slice(),
            &["status"],
            &["check"],
            &["--region", "all", "--dry-run"],
        ] {
            let mut command = Command::new(assert_cmd::cargo::cargo_bin!("ingest"));
            command
                .current_dir(world.directory.path())
                .env_clear()
                .env("INGEST_STATE_DIR", world.state_dir());
            let ran = command
                .args(["--config", "wrong.toml"])
                .args(arguments)
                .output()
                .unwrap();
            let said = String::from_utf8(ran.stderr).unwrap();
            assert_eq!(ran.status.code(), Some(2), "{to}: {said}");
            assert!(
                said.contains("wrong.toml") && words.iter().all(|word| said.contains(word)),
                "{to}: {said}"
            );
        }
    }
    assert_eq!(world.requests(), 0);
    assert!(
        !world.state_dir().exists(),
        "a wrong file made a state directory"
    );
}
