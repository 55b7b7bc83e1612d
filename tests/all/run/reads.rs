//! A charge reads as little of a large ledger as of a small one: by its calls of `read`, which the system counts.

use std::process::Command;

use crate::support::world::World;
use ingest_testing::redis_server::RedisServer;

/// Charges of the last minutes, so that all of them count and are remembered.
const CHARGES: u32 = 20_000;
/// What a charge may read beyond what it reads of a small file: some pages more of each index.
const MORE: u64 = 200_000;

const LEDGER: &str = "
    with recursive numbers(k) as (select 1 union all select k + 1 from numbers where k < ?1)
    insert into charge (account, at, n, id, job, region, call)
        select account, at - k, 0, id || k, job, region, call from charge, numbers where n = 0;
    with recursive numbers(k) as (select 1 union all select k + 1 from numbers where k < ?1)
    insert into taken (account, limit_name, at, n, units, total)
        select account, limit_name, at - k, 0, 0, 0 from taken, numbers;";
const JOURNAL: &str = "
    with recursive numbers(k) as (select 1 union all select k + 1 from numbers where k < ?1)
    insert into charge (account, id, at, cost, state, known, asked_at, owner, job, region, call)
        select account, id || k, at - k, cost, state, known, asked_at, owner, job, region, call from charge, numbers;";

#[test]
fn a_charge_reads_no_more_of_a_large_ledger_in_a_file_than_of_a_small_one() {
    let world = World::new();
    reads_as_much(&world, "ledger.db", LEDGER);
}

#[test]
fn a_charge_reads_no_more_of_a_large_journal_than_of_a_small_one() {
    let server = RedisServer::start();
    let mut world = World::new();
    world.set(&format!("ledger.url=\"{}\"", server.url().expose()));
    reads_as_much(&world, "journal.db", JOURNAL);
}

fn reads_as_much(world: &World, file: &str, grow: &str) {
    read_by_a_charge(world);
    let small = read_by_a_charge(world);
    let path = world.state_dir().join(file);
    let database = rusqlite::Connection::open(path).unwrap();
    for statement in grow
        .split_inclusive(';')
        .filter(|one| !one.trim().is_empty())
    {
        database.execute(statement, [CHARGES]).unwrap();
    }
    drop(database);
    read_by_a_charge(world);
    let large = read_by_a_charge(world);
    assert!(
        large < small + MORE,
        "{small} bytes of a small file, {large} of a large one"
    );
}

/// Charges by the binary, and returns the bytes that it read.
fn read_by_a_charge(world: &World) -> u64 {
    let command = world.command(&["charge", "youtube", "videos.list"]);
    // The system adds what a child read to its parent when the parent has waited for it.
    let counted = "\"$@\" >/dev/null || exit 1; read -r name bytes < /proc/$$/io; echo \"$bytes\"";
    let output = Command::new("sh")
        .args(["-c", counted, "sh"])
        .arg(command.get_program())
        .args(command.get_args())
        .env_clear()
        .envs(
            command
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .current_dir(world.directory.path())
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    said.trim()
        .parse()
        .unwrap_or_else(|_| panic!("{said:?}: {}", String::from_utf8_lossy(&output.stderr)))
}
