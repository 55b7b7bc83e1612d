//! Looking changes nothing: not on the disk, and not in Redis.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::promises::LISTING_ONLY;
use crate::support::world::World;
use ingest_testing::redis_server::RedisServer;

const LOOKS: [&[&str]; 7] = [
    &["status"],
    &["status", "--format", "json"],
    &["--region", "all", "--dry-run"],
    &[
        "forecast",
        "--schedule",
        "daily",
        "--days",
        "1",
        "--job",
        "trending",
    ],
    &["history"],
    &["search", "puppy"],
    &["export", "--kind", "video"],
];

fn files(directory: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    let Ok(entries) = fs::read_dir(directory) else {
        return found;
    };
    for entry in entries.map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path));
            found.insert(path, None);
        } else {
            found.insert(path.clone(), Some(fs::read(&path).unwrap()));
        }
    }
    found
}

fn look(world: &World) {
    for arguments in LOOKS {
        let looked = world.ingest(arguments);
        assert_eq!(looked.code, 0, "{arguments:?}: {looked:?}");
    }
}

#[test]
fn looking_where_nothing_is_yet_creates_nothing() {
    let world = World::configured(&LISTING_ONLY, |_| {});
    look(&world);
    assert_eq!(files(world.directory.path()), BTreeMap::new());
}

#[test]
fn looking_changes_no_byte_of_any_file() {
    let world = World::configured(&LISTING_ONLY, |_| {});
    world.json(&["--region", "US", "--job", "trending"]);
    let before = files(world.directory.path());
    assert!(before.len() > 2, "{:?}", before.keys());
    look(&world);
    assert!(
        before == files(world.directory.path()),
        "something was written"
    );
    assert_eq!(world.requests(), 4);
}

#[test]
fn looking_over_redis_writes_neither_there_nor_here() {
    let server = RedisServer::start();
    let mut world = World::configured(&LISTING_ONLY, |_| {});
    world.ledger_at(server.port()).set("ledger.timeout=5s");
    look(&world);
    assert_eq!(
        (files(world.directory.path()), server.dump_all().len()),
        (BTreeMap::new(), 0)
    );

    world.json(&["--region", "US", "--job", "trending"]);
    let before = (files(world.directory.path()), server.dump_all());
    let calls = server.calls();
    look(&world);
    assert!(
        before == (files(world.directory.path()), server.dump_all()),
        "something was written"
    );
    let writing = [
        "hset",
        "hdel",
        "zadd",
        "zrem",
        "zremrangebyrank",
        "pexpire",
        "set",
        "del",
    ];
    let since = server.calls();
    let written = writing
        .iter()
        .filter(|command| since.get(**command) != calls.get(**command));
    assert_eq!(written.count(), 0, "{calls:?} {since:?}");
}
