use std::fs;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::world::World;
use ingest_testing::redis_server::RedisServer;

/// A limit that two searches fill.
fn small() -> World {
    let mut world = World::new();
    world.set("credentials.youtube.limits.daily={ quota = 250, window = \"24h\" }");
    world
        .set("jobs.trending.leave={}")
        .set("jobs.discover.leave={}");
    world
}

#[test]
fn several_charges_at_once_are_all_or_none() {
    let world = small();
    let granted = world.json(&["charge", "youtube", "search.list", "--times", "2"]);
    assert_eq!(
        (&granted["decision"], &granted["units"]["daily"]),
        (&"granted".into(), &200.into())
    );
    let rejected = world.ingest(&[
        "charge",
        "youtube",
        "videos.list",
        "--times",
        "51",
        "--format",
        "json",
    ]);
    assert_eq!(rejected.code, 75, "{rejected:?}");
    assert!(rejected.json()["retry_after_seconds"].as_f64().unwrap() > 86_000.0);
    assert!(rejected.json()["retry_at"].is_string());
    assert_eq!(world.charged("daily"), 200);
    let never = world.ingest(&["charge", "youtube", "search.list", "--times", "3"]);
    assert_eq!(never.code, 1, "{never:?}");
    assert_eq!(
        world
            .ingest(&["charge", "youtube", "search.list", "--times", "0"])
            .code,
        2
    );
}

#[test]
fn what_was_charged_can_be_released_by_its_id_alone() {
    let world = small();
    world.json(&["charge", "youtube", "search.list", "--id", "mine"]);
    assert_eq!(world.charged("daily"), 100);
    let released = world.json(&["release", "mine"]);
    assert_eq!(
        (&released["account"], &released["released"]),
        (&"youtube".into(), &true.into())
    );
    assert_eq!(world.charged("daily"), 0);
    let unknown = world.ingest(&["release", "yours"]);
    assert_eq!(unknown.code, 1);
    assert!(
        unknown.stderr.contains("no account has charge `yours`"),
        "{unknown:?}"
    );
    assert_eq!(
        world
            .ingest(&["release", "mine", "--account", "yuotube"])
            .code,
        2
    );
}

#[test]
fn a_command_runs_once_it_is_charged_and_its_exit_code_is_passed_on() {
    let world = small();
    let ran = world.ingest(&[
        "exec",
        "youtube",
        "search.list",
        "--",
        "sh",
        "-c",
        "echo $INGEST_CHARGE_ID; exit 7",
    ]);
    assert_eq!(ran.code, 7, "{ran:?}");
    assert!(ran.stdout.trim().len() > 10, "{ran:?}");
    assert_eq!(world.charged("daily"), 100);
    world.json(&["release", ran.stdout.trim()]);
    assert_eq!(world.charged("daily"), 0);
}

#[test]
fn a_command_that_is_rejected_does_not_run_and_it_is_said_when_it_fits() {
    let world = small();
    world.json(&["charge", "youtube", "search.list", "--times", "2"]);
    let marker = world.directory.path().join("ran");
    let command = ["--", "touch", marker.to_str().unwrap()];
    let rejected = world.ingest(
        &[
            &["exec", "youtube", "search.list", "--format", "json"],
            &command[..],
        ]
        .concat(),
    );
    assert_eq!(rejected.code, 75, "{rejected:?}");
    assert_eq!(rejected.json()["decision"], "rejected");
    assert!(rejected.json()["retry_after_seconds"].as_f64().unwrap() > 86_000.0);
    let in_words = world.ingest(&[&["exec", "youtube", "search.list"], &command[..]].concat());
    assert_eq!(
        (in_words.code, in_words.stdout.as_str()),
        (75, ""),
        "stdout is the command's: {in_words:?}"
    );
    assert!(
        in_words.stderr.contains("Rejected: ") && in_words.stderr.contains("retry in"),
        "{in_words:?}"
    );
    assert!(!marker.exists());
}

#[test]
fn a_command_that_cannot_be_started_costs_nothing() {
    let world = small();
    let failed = world.ingest(&["exec", "youtube", "search.list", "--", "/nowhere/at/all"]);
    assert_eq!(failed.code, 1, "{failed:?}");
    assert!(failed.stderr.contains("released"), "{failed:?}");
    assert_eq!(world.charged("daily"), 0);
}

#[test]
fn a_command_that_cannot_be_started_gives_no_charge_back_that_another_one_used() {
    let world = small();
    let exec = |program| {
        world.ingest(&[
            "exec",
            "youtube",
            "search.list",
            "--id",
            "mine",
            "--",
            program,
        ])
    };
    assert_eq!(exec("true").code, 0);
    let failed = exec("/nowhere/at/all");
    assert_eq!(failed.code, 1, "{failed:?}");
    assert!(failed.stderr.contains("stays charged"), "{failed:?}");
    assert_eq!(world.charged("daily"), 100);
}

#[test]
fn a_signal_is_handed_on_to_the_command() {
    let world = small();
    let marker = world.directory.path().join("begun");
    let script = format!(
        "trap 'exit 9' TERM; touch {}; while :; do sleep 0.02; done",
        marker.display()
    );
    let mut command = world.command(&["exec", "youtube", "videos.list", "--", "sh", "-c", &script]);
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    while fs::metadata(&marker).is_err() {
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(9));
}

#[test]
fn what_was_charged_under_any_id_stays_charged_when_a_limit_is_reopened() {
    let redis = RedisServer::start();
    let url = format!("ledger.url=\"redis://127.0.0.1:{}\"", redis.port());
    for sets in [&[][..], &[url.as_str(), "ledger.timeout=5s"]] {
        let world = World::configured(sets, |_| {});
        for id in ["told-mine", "mine-2", "reported daily", "pass trending US"] {
            let charge = ["charge", "youtube", "videos.list", "--times", "100"];
            let charged = world.json(&[&charge[..], &["--id", id]].concat());
            assert_eq!(charged["decision"], "granted");
        }
        assert_eq!(
            world.json(&["reopen", "youtube", "daily"])["reopened"],
            false
        );
        assert_eq!(world.charged("daily"), 400);
        assert_eq!(
            world.json(&["status"])["spend"][0]["origin"],
            "charged",
            "whatever its id"
        );
    }
}

#[test]
fn an_id_that_this_program_could_make_is_refused() {
    let world = World::new();
    for wrong in ["\u{1}reported daily", "a\nb", "mine~1", "~22"] {
        let charge = ["charge", "youtube", "videos.list", "--id", wrong];
        let refused = world.ingest(&charge);
        assert_eq!(refused.code, 2, "{wrong:?}: {refused:?}");
    }
    for right in ["mine~", "mine~1a", "~", "äö ü"] {
        let charge = ["charge", "youtube", "videos.list", "--id", right];
        assert_eq!(world.ingest(&charge).code, 0, "{right}");
    }
    assert_eq!(world.charged("daily"), 4);
}
