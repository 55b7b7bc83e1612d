use std::path::Path;

use crate::support::world::{FAKETIME, World, ended};
use ingest_testing::not_run::not_run;
use ingest_testing::redis_server::RedisServer;

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
