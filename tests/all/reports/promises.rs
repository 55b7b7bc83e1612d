//! What a preview promises is what the run does: through the binary, for the shipped jobs and each preset.

use serde_json::json;

use crate::support::world::World;

/// Eight regions of four units.
pub const LISTING_ONLY: [&str; 5] = [
    "jobs.trending.steps=[{ call = \"videos.list\", params = { part = \"snippet\", chart = \"mostPopular\", regionCode = \"{region}\" }, max_pages = 4 }]",
    "upstreams.youtube.calls.\"videos.list\".page.size=5",
    "jobs.trending.leave={}",
    "jobs.discover.leave={}",
    "jobs.discover.steps=[{ call = \"videos.list\", params = { part = \"snippet\", chart = \"mostPopular\", regionCode = \"{region}\" } }]",
];

#[test]
fn no_limit_is_said_to_hold_what_another_keeps_from_being_asked_of_it() {
    let quota = "credentials.youtube.limits.daily={ quota = 900, window = \"24h\", wait = \"0s\" }";
    let world = World::configured(
        &[quota, "jobs.trending.leave={}", "jobs.discover.leave={}"],
        |_| {},
    );
    world.faults(&json!({ "call": "search.list", "after": 3, "times": 1, "answer": "spent" }));
    assert_eq!(world.json(&["--region", "all"])["outcome"], "stopped");
    let preview = world.json(&["--region", "all", "--dry-run"]);
    let before = world.charged("daily");
    assert_eq!(world.json(&["--region", "all"])["outcome"], "stopped");
    for limit in preview["limits"].as_array().unwrap() {
        let (remaining, expected) = (
            limit["remaining"].as_u64().unwrap(),
            limit["expected"].as_u64().unwrap(),
        );
        // `search_burst` is the user's own: the upstream's refusal does not close it, and it holds what is left.
        let is_own = limit["limit"] == "search_burst";
        assert_eq!(expected > remaining, !is_own, "{limit}");
        assert_eq!(limit["fits"] == "all", is_own, "{limit}");
    }
    assert_eq!(
        preview["limits"][0]["spends"],
        world.charged("daily") - before
    );
}
