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
    let mut world = World::written(&text(path, at), &[]);
    world.set(&format!("upstreams.api.base_url=\"{}\"", stub.url()));
    world
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
fn a_request_has_several_values_of_the_record_that_names_it() {
    let stub = stub(json!([repo(1, "octo", "hello"), repo(2, "octo", "b c")]));
    let world = world(&stub, PATH, "/full_name");
    let preview = world.json(&["--dry-run"]);
    let run = world.json(&[]);
    assert_eq!(run["outcome"], "complete", "{run}");
    let expected = [
        "/repos",
        "/repos/octo/b%20c/issues",
        "/repos/octo/hello/issues",
    ];
    assert_eq!(paths(&stub), expected);
    assert_eq!(world.charged("daily"), 3, "{preview}");
    let preview = world.json(&["--dry-run"]);
    let again = world.json(&[]);
    assert_eq!(again["outcome"], "complete", "{again}");
    assert_eq!(world.charged("daily"), 6);
    assert_eq!(preview["units"], again["units"], "{preview} {again}");
}

#[test]
fn records_with_one_id_and_other_values_are_requests_of_their_own() {
    let stub = stub(json!([
        repo(1, "octo", "a"),
        repo(2, "octo", "b"),
        repo(3, "octo", "b")
    ]));
    let world = world(&stub, "repos/{id}/{parent:/name}/issues", "/owner/login");
    let run = world.json(&[]);
    assert_eq!(run["outcome"], "complete", "{run}");
    assert_eq!(
        paths(&stub),
        ["/repos", "/repos/octo/a/issues", "/repos/octo/b/issues"]
    );
}

#[test]
fn a_record_without_one_of_the_values_names_nothing_and_the_run_says_so() {
    let mut lost = repo(2, "octo", "lost");
    lost["owner"] = Value::Null;
    let stub = stub(json!([repo(1, "octo", "a"), lost, repo(3, "octo", "")]));
    let world = world(&stub, PATH, "/id");
    let run = world.json(&[]);
    assert_eq!(paths(&stub), ["/repos", "/repos/octo/a/issues"]);
    let said = "records that name an id have no value at `/owner/login` (`{parent:/owner/login}`), so nothing is requested for them";
    assert!(run.to_string().contains(said), "{run}");
}

#[test]
fn a_value_keeps_its_slashes_in_a_path_where_the_path_says_so() {
    let repos = json!([repo(1, "octo", "hello"), repo(2, "a b", "%2e?x#")]);
    for path in [
        "repos/{id:path}/issues",
        "repos/{parent:/full_name:path}/issues",
    ] {
        let stub = stub(repos.clone());
        let world = world(&stub, path, "/full_name");
        assert_eq!(world.json(&[])["outcome"], "complete");
        let expected = [
            "/repos",
            "/repos/a%20b/%252e%3Fx%23/issues",
            "/repos/octo/hello/issues",
        ];
        assert_eq!(paths(&stub), expected);
    }
    let stub = stub(repos);
    let world = world(&stub, "repos/{id}/issues", "/full_name");
    world.json(&[]);
    assert!(paths(&stub).contains(&"/repos/octo%2Fhello/issues".to_owned()));
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
fn a_value_of_a_region_keeps_its_slashes_too() {
    let stub = stub(json!([{ "id": 1 }]));
    let text =
        text("repos/{id}", "/id").replace("path = \"repos\"", "path = \"repos/{repo:path}\"");
    let text = format!("{text}\n[regions.A]\nrepo = \"octo/hello\"\n");
    let mut world = World::written(&text, &[]);
    world.set(&format!("upstreams.api.base_url=\"{}\"", stub.url()));
    world.json(&["--region", "all"]);
    assert!(paths(&stub).contains(&"/repos/octo/hello".to_owned()));
}

#[test]
fn a_value_that_climbs_out_of_the_base_url_is_never_sent_and_the_others_are() {
    for full_name in ["../../admin", "octo/..", "octo/./x", ".."] {
        let stub =
            stub(json!([{ "id": 1, "full_name": full_name }, { "id": 2, "full_name": "octo/b" }]));
        let world = world(&stub, "repos/{id:path}/issues", "/full_name");
        let run = world.json(&[]);
        assert_eq!(
            paths(&stub),
            ["/repos", "/repos/octo/b/issues"],
            "{full_name}"
        );
        assert_eq!(run["outcome"], "failed", "{run}");
        assert!(run.to_string().contains("leads outside base_url"), "{run}");
        assert_eq!(world.charged("daily"), 2, "what is not sent is not charged");
    }
}

#[test]
fn columns_and_ids_of_records_have_the_values_of_the_parent() {
    let stub = StubUpstream::start(|request: &StubRequest| match request.path.as_str() {
        "/repos" => StubAnswer::json(&json!([repo(1, "octo", "a"), repo(2, "cat", "a")])),
        _ => StubAnswer::json(&json!([{ "id": 7 }])),
    });
    let mut world = world(&stub, PATH, "/id");
    world.set("upstreams.api.calls.issues.records.id=[\"{parent:/owner/login}\", \"/id\"]");
    world.set("upstreams.api.calls.issues.records.columns={ repo = \"{parent:/full_name}\", of = \"{id}\" }");
    assert_eq!(world.json(&[])["outcome"], "complete");
    let catalog = world.catalog();
    let mut rows = catalog
        .prepare("select id, repo, of from api_issue order by id")
        .unwrap();
    let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
    let rows: Vec<(String, String, String)> = rows.unwrap().map(Result::unwrap).collect();
    let row = |id: &str, repo: &str, of: &str| (id.to_owned(), repo.to_owned(), of.to_owned());
    assert_eq!(
        rows,
        [row("cat/7", "cat/a", "2"), row("octo/7", "octo/a", "1")]
    );
}

#[test]
fn what_is_fresh_is_not_requested_again() {
    let stub = stub(json!([repo(1, "octo", "a")]));
    let mut world = world(&stub, PATH, "/id");
    world.set("jobs.j.steps.1.ids.fresh_for=1d");
    for _ in 0..2 {
        assert_eq!(world.json(&[])["outcome"], "complete");
    }
    assert_eq!(paths(&stub), ["/repos", "/repos", "/repos/octo/a/issues"]);
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
fn check_names_what_a_value_of_a_parent_needs() {
    for (set, place, said) in [
        (
            "upstreams.api.calls.issues.path=\"r/{parent}\"",
            "issues.path",
            "write for example {parent:/owner/login}",
        ),
        (
            "upstreams.api.calls.issues.path=\"r/{parent:name}\"",
            "issues.path",
            "write for example {parent:/owner/login}",
        ),
        (
            "upstreams.api.calls.issues.path=\"r/{parent:/a/*}\"",
            "issues.path",
            "write for example {parent:/owner/login}",
        ),
        (
            "jobs.j.steps.1.ids.batch=2",
            "issues.path",
            "write batch = 1",
        ),
        (
            "upstreams.api.calls.repos.path=\"r/{parent:/name}\"",
            "repos.path",
            "{parent:/name} has no value: this step of job \"j\" has no `ids`",
        ),
    ] {
        let mut world = World::written(&text(PATH, "/id"), &[]);
        world.set(set);
        let ran = world.ingest(&["check", "--config-only"]);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(
            ran.stderr.contains(place) && ran.stderr.contains(said),
            "{ran:?}"
        );
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

#[test]
fn an_id_that_cannot_be_requested_keeps_no_later_run_from_what_is_new() {
    let repos = std::sync::Arc::new(std::sync::Mutex::new(vec![
        repo(1, "octo", "a"),
        repo(2, "octo", ".."),
    ]));
    let stub = StubUpstream::start({
        let repos = std::sync::Arc::clone(&repos);
        move |request: &StubRequest| match request.path.as_str() {
            "/repos" => StubAnswer::json(&json!(*repos.lock().unwrap())),
            path => StubAnswer::json(&json!([{ "id": path }])),
        }
    });
    let mut world = world(&stub, PATH, "/id");
    world.set("jobs.j.every=1ms");
    let first = world.json(&[]);
    assert!(
        first.to_string().contains("leads outside base_url"),
        "{first}"
    );
    repos.lock().unwrap().push(repo(3, "octo", "new"));
    let second = world.json(&[]);
    assert!(
        paths(&stub).contains(&"/repos/octo/new/issues".to_owned()),
        "{second}"
    );
    assert_eq!(
        world.charged("daily"),
        stub.requests().len() as u64,
        "what is not sent is not charged"
    );
}
