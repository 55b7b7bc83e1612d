//! Requests with several values of the record that names them, and values with slashes in a path.

use serde_json::{Value, json};

use crate::support::world::World;
use ingest_testing::stub_upstream::{StubAnswer, StubRequest, StubUpstream};

const PATH: &str = "repos/{parent:/owner/login}/{parent:/name}/issues";

fn text(path: &str, at: &str) -> String {
    format!(
        r#"
[upstreams.api]
base_url = "https://api.example.com"
attempts = 1
[upstreams.api.calls.repos]
path = "repos"
cost = 1
records = {{ kind = "repo", id = "/id" }}
[upstreams.api.calls.issues]
path = "{path}"
cost = 1
records = {{ kind = "issue", id = "/id" }}
[credentials.api]
upstream = "api"
limits = {{ daily = {{ quota = 1000, window = "24h" }} }}
[jobs.j]
credential = "api"
steps = [{{ call = "repos" }}, {{ call = "issues", ids = {{ from = "repos", at = "{at}", batch = 1 }} }}]
"#
    )
}

/// A stand-in with these repositories, each of which has one issue; the id of the issue is its place.
fn stub(repos: Value) -> StubUpstream {
    StubUpstream::start(move |request: &StubRequest| match request.path.as_str() {
        "/repos" => StubAnswer::json(&repos),
        path => StubAnswer::json(&json!([{ "id": path }])),
    })
}

fn world(stub: &StubUpstream, path: &str, at: &str) -> World {
    World::upon(stub, &text(path, at))
}

fn repo(id: u64, owner: &str, name: &str) -> Value {
    json!({ "id": id, "full_name": format!("{owner}/{name}"), "name": name, "owner": { "login": owner } })
}

fn paths(stub: &StubUpstream) -> Vec<String> {
    let mut paths: Vec<String> = stub.requests().iter().map(|one| one.path.clone()).collect();
    paths.sort();
    paths
}

#[test]
fn what_is_nearly_path_behind_a_place_is_refused_and_another_colon_is_not() {
    let stub = stub(json!([]));
    for (end, code) in [("paht", 2), ("Path", 2), ("pth", 2), ("date", 0)] {
        let mut world = world(&stub, PATH, "/id");
        let path = format!("repos/{{parent:/full_name:{end}}}/issues");
        world.set(&format!("upstreams.api.calls.issues.path=\"{path}\""));
        let checked = world.ingest(&["check", "--config-only"]);
        let is_named = checked.stderr.contains("{parent:/full_name:path}");
        assert_eq!((checked.code, is_named), (code, code == 2), "{checked:?}");
    }
}

#[test]
fn the_sandbox_serves_requests_with_values_of_a_parent() {
    for path in [PATH, "repos/{id:path}/issues"] {
        let world = World::written(&text(path, "/full_name"), &[]);
        let preview = world.json(&["--dry-run"]);
        let run = world.json(&[]);
        assert_eq!(run["outcome"], "complete", "{run} {preview}");
        assert!(world.charged("daily") > 10, "{run}");
        assert_eq!(world.charged("daily"), world.counted("daily"));
    }
}

#[test]
fn try_takes_an_id_and_then_the_values_that_are_sent_with_it() {
    let stub = stub(json!([repo(1, "octo", "a")]));
    let world = world(&stub, PATH, "/id");
    let tried = world.ingest(&["try", "api", "issues"]);
    let said =
        "name them with --id, and then the value at `/name`, and then the value at `/owner/login`";
    assert!(tried.stderr.contains(said), "{tried:?}");
    let tried = world.ingest(&[
        "try", "api", "issues", "--id", "1", "--id", "a", "--id", "octo",
    ]);
    assert_eq!(tried.code, 0, "{tried:?}");
    assert_eq!(paths(&stub), ["/repos/octo/a/issues"]);
    let alone = world.ingest(&["try", "api", "issues", "--id", "1"]);
    assert_eq!((alone.code, paths(&stub).len()), (2, 1), "{alone:?}");
    let tried = world.ingest(&["try", "api", "issues", "--id", "1", "--id", "a"]);
    assert_eq!(tried.code, 2, "{tried:?}");
}
