//! A server whose ledger is gone, was replaced or emptied grants nothing more.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use super::{CLIENT, Served, TOKEN};
use crate::support::world::World;

const CHARGE: &str = "/api/v1/charge";

/// What happens to the state directory, and what is said of it.
type Change = (&'static str, fn(&Path));

fn charge(units: u64) -> Value {
    json!({ "credential": "youtube", "cost": units })
}

/// A server, with its log in a file.
fn served() -> Served {
    let world = World::configured(
        &[
            CLIENT,
            "credentials.youtube.limits.daily={ quota = 10_000, window = \"24h\" }",
        ],
        |_| {},
    );
    let log = fs::File::create(world.state_dir().with_extension("log")).unwrap();
    let mut command = world.command(&["serve", "--format", "json", "--listen", "127.0.0.1:0"]);
    command
        .env("DASHBOARDS", TOKEN)
        .stdout(Stdio::piped())
        .stderr(log);
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(
        &mut std::io::BufReader::new(child.stdout.take().unwrap()),
        &mut line,
    )
    .unwrap();
    let said: Value = serde_json::from_str(&line).unwrap();
    let address = said["address"].as_str().unwrap().parse().unwrap();
    Served {
        world,
        child,
        address,
    }
}

fn delete(state: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(state.join(format!("ledger.db{suffix}")));
    }
}

fn log(served: &Served) -> String {
    let mut text = String::new();
    fs::File::open(served.world.state_dir().with_extension("log"))
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    text
}

#[test]
fn a_server_whose_ledger_is_gone_replaced_or_emptied_grants_nothing_more() {
    let changes: [Change; 5] = [
        ("was deleted", delete),
        ("moved away with its directory", |state| {
            fs::rename(state, state.with_extension("away")).unwrap();
        }),
        ("was replaced by another file", |state| {
            // Made before the other one is gone, which frees its number.
            fs::write(state.join("new"), "").unwrap();
            delete(state);
            fs::rename(state.join("new"), state.join("ledger.db")).unwrap();
        }),
        ("was replaced by another file", |state| {
            let ledger = state.join("ledger.db");
            fs::copy(&ledger, state.join("copy")).unwrap();
            fs::rename(state.join("copy"), ledger).unwrap();
        }),
        ("lacks charges that this process made", |state| {
            fs::write(state.join("ledger.db"), "").unwrap();
        }),
    ];
    for (said, change) in changes {
        let served = served();
        assert_eq!(served.post(CHARGE, None, &charge(9_000)).status, 200);
        change(&served.world.state_dir());
        for _ in 0..3 {
            let refused = served.post(CHARGE, None, &charge(900));
            assert_eq!(refused.status, 500, "{said}: {}", refused.text());
            let text = refused.text();
            assert!(text.contains("grants nothing more"), "{text}");
            assert!(text.contains("restarts this server"), "{text}");
        }
        let log = log(&served);
        let log: String = log.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            log.contains(said) && log.contains("Put the file back"),
            "{said}: {log}"
        );
    }
}

#[test]
fn a_server_whose_ledger_is_put_back_goes_on() {
    let served = served();
    assert_eq!(served.post(CHARGE, None, &charge(9_000)).status, 200);
    let state = served.world.state_dir();
    fs::rename(&state, state.with_extension("away")).unwrap();
    assert_eq!(served.post(CHARGE, None, &charge(1)).status, 500);
    assert!(!state.exists(), "no directory is made in its place");
    fs::rename(state.with_extension("away"), &state).unwrap();
    assert_eq!(served.post(CHARGE, None, &charge(900)).status, 200);
    assert_eq!(served.post(CHARGE, None, &charge(900)).status, 429);
}
