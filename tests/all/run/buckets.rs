//! Limits that count in parts of their window, through the program, against a stand-in that counts exactly.

use std::process::{Child, Stdio};
use std::time::Duration;

use super::LISTING;
use crate::support::world::World;
use ingest_testing::redis_server::RedisServer;

const QUOTA: u64 = 12;
const RUN: &[&str] = &["--region", "all", "--job", "trending"];
/// Twelve units a second, counted in tenths of it. A run of one unit a page, four pages a region, sleeps while its limit is full, and
/// is killed before it is done.
const IN_TENTHS: &str = "credentials.youtube.limits.daily={ quota = 12, window = \"1s\", counting = \"buckets\", buckets = 10, wait = \"5s\" }";

/// Runs that sleep for units, each killed at another moment, and one that ends.
fn runs_and_kills(world: &World) {
    for kill in 0..5 {
        let mut run: Child = world.command(RUN).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(150 + 90 * kill));
        run.kill().unwrap();
        run.wait().unwrap();
        assert!(world.most_in_window("daily") <= QUOTA);
    }
    // A machine that is too busy to use a grant within 100 ms ends the run.
    let mut last = world.ingest(RUN);
    for _ in 0..5 {
        if last.code == 0 {
            break;
        }
        last = world.ingest(RUN);
    }
    assert_eq!(last.code, 0, "{last:?}");
    assert!(
        world.most_in_window("daily") <= QUOTA,
        "{}",
        world.most_in_window("daily")
    );
    assert!(world.requests() >= 32, "every page of every region");
}

fn in_tenths() -> World {
    World::configured(&[&LISTING[..], &[IN_TENTHS]].concat(), |_| {})
}

#[test]
fn no_window_is_overspent_that_counts_in_buckets_in_a_file() {
    runs_and_kills(&in_tenths());
}

#[test]
fn no_window_is_overspent_that_counts_in_buckets_in_redis_which_is_wiped() {
    let server = RedisServer::start();
    let mut world = in_tenths();
    world.ledger_at(server.port()).set("ledger.timeout=2s");
    runs_and_kills(&world);
    server.tell("FLUSHALL");
    runs_and_kills(&world);
}

#[test]
fn the_counting_of_a_spent_limit_can_be_changed_and_grants_nothing() {
    let day = |counting: &str| {
        let limit = "credentials.youtube.limits.daily={ quota = 12, window = \"24h\"";
        format!("{limit}, counting = \"{counting}\" }}")
    };
    let mut world = World::configured(&[&LISTING[..], &[&day("exact")]].concat(), |_| {});
    assert_eq!(world.json(RUN)["outcome"], "stopped");
    for counting in ["buckets", "exact", "buckets"] {
        world.set(&day(counting));
        let preview = world.json(&[RUN, &["--dry-run"]].concat());
        assert_eq!(preview["limits"][0]["remaining"], 0, "{preview}");
        assert_eq!(world.json(RUN)["outcome"], "stopped", "{counting}");
        let status = world.json(&["status"]);
        assert_eq!(status["limits"][0]["used"], 12, "{status}");
    }
    assert_eq!(
        (world.counted("daily"), world.most_in_window("daily")),
        (12, 12)
    );
}

#[test]
fn a_charge_that_counts_in_buckets_fits_at_its_retry_and_not_before() {
    let world = World::configured(
        &[&LISTING[..], &["credentials.youtube.limits.daily={ quota = 12, window = \"24h\", counting = \"buckets\", buckets = 24 }"]].concat(),
        |_| {},
    );
    let charge = ["charge", "youtube", "videos.list"];
    for _ in 0..QUOTA {
        assert_eq!(world.json(&charge)["decision"], "granted");
    }
    let rejected = world.json(&charge);
    assert_eq!(rejected["decision"], "rejected", "{rejected}");
    let seconds = rejected["retry_after_seconds"].as_f64().unwrap();
    // A day and its grace after the last instant of this hour, which can have ended meanwhile.
    assert!((86_400.0..=90_087.0).contains(&seconds), "{seconds}");
    let returns = &world.json(&["status"])["limits"][0]["returns"];
    let at = ingest_quota::Timestamp::parse(returns[0]["at"].as_str().unwrap()).unwrap();
    let part_begins = at - Duration::from_micros(86_486_400_000 - 1);
    assert_eq!(part_begins.micros() % 3_600_000_000, 0, "{returns}");
}
