//! What the soak rests on, and a little of it.
#![allow(dead_code, reason = "the soak uses the rest")]

#[path = "../../examples/soak/chance.rs"]
mod chance;
#[path = "../../examples/soak/machines/mod.rs"]
mod machines;
#[path = "../../examples/soak/process.rs"]
mod process;
#[path = "../../examples/soak/redis.rs"]
mod redis;
#[path = "../../examples/soak/sizes.rs"]
mod sizes;
#[path = "../../examples/soak/tally.rs"]
mod tally;

use std::time::{Duration, Instant};

use self::redis::{Mishap, Redis};

/// Rounds of four machines that share a catalog and a ledger, for each way to the database: `bash tests/soak.sh --machines` tells
/// many more.
fn machines_agree(chapter: u64) {
    let program = assert_cmd::cargo::cargo_bin!("ingest");
    let tally = tally::Tally::default();
    let program = program.to_str().unwrap();
    let chapter = machines::Chapter::new(18, chapter, program, machines::Sizes::Few);
    chapter.tell(2, Instant::now() + Duration::from_secs(600), &tally);
}

#[test]
fn four_machines_agree_whatever_befalls_them_and_their_servers() {
    machines_agree(0);
}

#[test]
fn four_machines_agree_whatever_befalls_their_pooler() {
    machines_agree(1);
}

#[test]
fn four_machines_agree_after_failovers_that_lose_nothing() {
    machines_agree(2);
}

#[test]
fn four_machines_agree_after_failovers_that_lose_pages() {
    machines_agree(3);
}

#[test]
fn the_redis_of_a_chapter_has_no_port_that_another_process_could_take_while_it_is_down() {
    let mut server = Redis::start();
    for _ in 0..2 {
        let client = ::redis::Client::open(server.url()).unwrap();
        let mut ask = ::redis::cmd("CONFIG");
        let port: Vec<String> = ask
            .arg(&["GET", "port"])
            .query(&mut client.get_connection().unwrap())
            .unwrap();
        assert_eq!(port, ["port", "0"]);
        server.suffer(Mishap::Restart, Duration::from_millis(10), 0);
    }
}
