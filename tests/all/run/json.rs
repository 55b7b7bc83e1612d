use serde_json::{Value, json};

use crate::support::world::World;

/// Runs with `--format json`: stdout is one JSON object and a newline, whatever happened.
fn object(world: &World, code: i32, arguments: &[&str]) -> Value {
    let ran = world.ingest(&[arguments, &["--format", "json"]].concat());
    assert_eq!(ran.code, code, "{arguments:?}: {ran:?}");
    assert_eq!(
        ran.stdout.matches('\n').count(),
        1,
        "{arguments:?}: {ran:?}"
    );
    let object = ran.json();
    assert!(object.is_object(), "{arguments:?}: {object}");
    object
}

#[test]
fn every_command_writes_one_json_object_to_stdout_whatever_happens() {
    let mut world = World::new();
    assert_eq!(object(&world, 0, &["status"])["limits"][0]["used"], 0);
    assert_eq!(object(&world, 0, &["search", "nothing"])["hits"], json!([]));
    assert_eq!(
        object(&world, 0, &["--region", "US", "--dry-run"])["dry_run"],
        true
    );
    assert_eq!(
        object(&world, 0, &["--region", "US", "--job", "trending"])["outcome"],
        "complete"
    );
    assert_eq!(
        object(&world, 0, &["--region", "US", "--job", "trending"])["outcome"],
        "nothing_due"
    );
    assert_eq!(object(&world, 0, &["check"])["verdict"], "good");
    assert_eq!(
        object(&world, 0, &["charge", "youtube", "videos.list"])["decision"],
        "granted"
    );
    assert_eq!(
        object(&world, 0, &["reopen", "youtube", "daily"])["reopened"],
        false
    );
    world.faults(&json!({ "answer": "spent", "times": 9 }));
    assert_eq!(
        object(&world, 75, &["--region", "GB", "--strict"])["outcome"],
        "stopped"
    );
    assert_eq!(
        object(&world, 75, &["charge", "youtube", "videos.list"])["decision"],
        "rejected"
    );
    assert_eq!(
        object(&world, 0, &["reopen", "youtube", "daily"])["reopened"],
        true
    );
    world.set("jobs.trending.credential=nobody");
    assert!(object(&world, 2, &["status"])["error"].is_string());
}

#[test]
fn wrong_usage_and_failures_are_json_objects_too() {
    let mut world = World::new();
    for arguments in [
        ["--region", "UX"].as_slice(),
        &["--region", "US", "--job", "nothing"],
        &["--region", "US", "--concurrency", "0"],
        &["--region", "US", "--set", "no.such.thing=1"],
        &["charge", "youtube", "nothing"],
        &["charge", "nobody", "videos.list"],
        &["reopen", "nobody", "daily"],
        &["search"],
        &["no-such-command"],
        &[],
    ] {
        assert!(object(&world, 2, arguments)["error"].is_string());
    }
    assert_eq!(world.requests(), 0);
    world
        .set("upstreams.youtube.base_url=\"http://127.0.0.1:1\"")
        .set("upstreams.youtube.attempts=1");
    let failed = object(&world, 1, &["--region", "US", "--job", "trending"]);
    assert_eq!(
        (&failed["outcome"], &failed["passes"][0]["outcome"]),
        (&"failed".into(), &"failed".into())
    );
    assert_eq!(object(&world, 1, &["check", "--connect"])["verdict"], "bad");
    assert_eq!(
        world.charged("daily"),
        0,
        "a request that never left was charged"
    );
}
