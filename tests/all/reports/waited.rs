//! `ingest charge --wait`: a charge that a limit rejects waits until it fits.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::world::{Ran, World};
use ingest_testing::redis_server::RedisServer;

/// Brief limits let one charge through at a time.
pub const BRIEF: &str = r#"
[upstreams.api]
base_url = "http://127.0.0.1:1"
[upstreams.api.calls]
brief = { cost = { burst = 1 } }
hourly = { cost = { hour = 1 } }
[credentials.api]
upstream = "api"
[credentials.api.limits]
burst = { quota = 1, window = "2s" }
hour = { quota = 1, window = "1h" }
"#;

const CHARGE: [&str; 3] = ["charge", "api", "brief"];

/// The same with a ledger in a file and, at the same time, in Redis.
pub fn each(check: impl Fn(&World, Option<&RedisServer>) + Sync) {
    let redis = RedisServer::start();
    let url = format!("ledger.url=\"redis://127.0.0.1:{}\"", redis.port());
    let over_redis = [url.as_str(), "ledger.timeout=5s"];
    std::thread::scope(|both| {
        both.spawn(|| check(&World::written(BRIEF, &[]), None));
        both.spawn(|| check(&World::written(BRIEF, &over_redis), Some(&redis)));
    });
}

fn waiting(world: &World, call: &str, most: &str) -> Ran {
    world.ingest(&["charge", "api", call, "--wait", most, "--format", "json"])
}

fn waited(ran: &Ran) -> f64 {
    ran.json()["waited_seconds"].as_f64().unwrap()
}

#[test]
fn a_charge_waits_until_it_fits_and_no_longer() {
    each(|world, redis| {
        let at_once = waiting(world, "brief", "30s");
        assert_eq!((at_once.code, waited(&at_once)), (0, 0.0), "{at_once:?}");
        assert_eq!(world.ingest(&CHARGE).code, 75, "without the option");
        let before = redis.map(RedisServer::calls);
        let later = waiting(world, "brief", "30s");
        assert_eq!(later.code, 0, "{later:?}");
        assert_eq!(later.json()["decision"], "granted", "{later:?}");
        assert!((0.1..20.0).contains(&waited(&later)), "{later:?}");
        if let Some((redis, before)) = redis.zip(before) {
            let asked = redis.calls()["fcall"] - before["fcall"];
            assert!(asked < 6, "it asked the ledger {asked} times");
        }
        let shown = world.ingest(&[&CHARGE[..], &["--wait", "30s"]].concat());
        assert!(shown.stdout.contains("; waited "), "{shown:?}");
    });
}

#[test]
fn a_charge_that_does_not_fit_in_time_is_rejected_at_once() {
    each(|world, _| {
        assert_eq!(waiting(world, "hourly", "1s").code, 0);
        let began = Instant::now();
        let rejected = waiting(world, "hourly", "30s");
        assert_eq!(
            (rejected.code, waited(&rejected)),
            (75, 0.0),
            "{rejected:?}"
        );
        assert!(rejected.json()["retry_after_seconds"].as_f64().unwrap() > 3_000.0);
        let never = world.ingest(&[&CHARGE[..], &["--times", "2", "--wait", "30s"]].concat());
        assert_eq!(never.code, 1, "{never:?}");
        assert!(
            never.stdout.contains("never grants more than 1"),
            "{never:?}"
        );
        assert!(began.elapsed() < Duration::from_secs(20));
    });
}

#[test]
fn all_who_wait_for_one_limit_end_and_none_is_granted_beside_another() {
    each(|world, _| {
        let wait = [&CHARGE[..], &["--wait", "55s", "--format", "json"]].concat();
        let began = Instant::now();
        let ran = world.ingest_at_once(4, &wait);
        assert!(ran.iter().all(|one| one.code == 0), "{ran:?}");
        assert!(
            began.elapsed() > Duration::from_secs(6),
            "four charges, one in two seconds"
        );
    });
}

#[test]
fn a_signal_ends_the_wait_at_once() {
    each(|world, _| {
        assert_eq!(waiting(world, "hourly", "1s").code, 0);
        for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
            let mut command = world.command(&[
                "charge", "api", "hourly", "--wait", "2h", "-v", "--format", "json",
            ]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = command.spawn().unwrap();
            let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
            assert!(said.any(|line| line.unwrap().contains("waiting ")));
            let asked = Instant::now();
            kill_process(Pid::from_child(&child), signal).unwrap();
            said.for_each(drop);
            let ran = Ran::of(child.wait_with_output().unwrap());
            assert!(asked.elapsed() < Duration::from_secs(5), "{ran:?}");
            assert_eq!(ran.code, code, "{ran:?}");
            let answer = ran.json();
            assert_eq!(answer["decision"], "rejected", "{ran:?}");
            let detail = answer["detail"].as_str().unwrap();
            assert!(detail.contains("; interrupted after "), "{ran:?}");
        }
    });
}
