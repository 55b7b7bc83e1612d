use std::path::Path;

use crate::support::world::{FAKETIME, World, ended};
use ingest_testing::not_run::not_run;
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

const TWO_SPANS: &str = r#"
[upstreams.api]
base_url = "http://127.0.0.1:1"
[upstreams.api.calls]
short = { cost = { burst = 1 } }
both = { cost = { burst = 1, daily = 1 } }
[credentials.api]
upstream = "api"
[credentials.api.limits]
burst = { quota = 100, window = "1s" }
daily = { quota = 100, resets = "UTC" }
"#;

#[test]
fn an_id_is_remembered_as_long_as_the_limits_that_its_charge_took() {
    let redis = RedisServer::start();
    let url = format!("ledger.url=\"redis://127.0.0.1:{}\"", redis.port());
    for sets in [&[][..], &[url.as_str(), "ledger.timeout=5s"]] {
        let world = World::written(TWO_SPANS, sets);
        let left = |call: &str, id: &str, limit: &str| {
            world.json(&["charge", "api", call, "--id", id])["remaining"][limit].clone()
        };
        left("short", "brief", "burst");
        left("both", "lasting", "daily");
        std::thread::sleep(std::time::Duration::from_millis(1_200));
        assert_eq!(
            left("short", "brief", "burst"),
            99,
            "the limit that it took has let the charge go: this is another one"
        );
        assert_eq!(
            left("both", "lasting", "daily"),
            99,
            "the day still counts it"
        );
        assert_eq!(world.charged("daily"), 1);
    }
}

#[test]
fn an_id_of_a_day_that_is_over_is_charged_again() {
    if !Path::new(FAKETIME).exists() {
        return not_run(
            "libfaketime is not installed: the id of a day that is over is not checked",
        );
    }
    let world = World::written(TWO_SPANS, &["upstreams.api.calls.short.cost={ daily = 1 }"]);
    let mut left = Vec::new();
    for now in [
        "2026-04-20 23:30:00",
        "2026-04-21 00:03:00",
        "2026-04-21 12:00:00",
        "2026-04-21 23:50:00",
    ] {
        let charge = [
            "charge", "api", "short", "--id", "some-id", "--format", "json",
        ];
        let ran = ended(world.command_at(now, &charge)).json();
        left.push(ran["remaining"]["daily"].as_u64());
    }
    assert_eq!(left, [Some(99); 4], "the charge of each day counts in it");
}
