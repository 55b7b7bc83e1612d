//! Jobs with several credentials.

use serde_json::json;

use crate::support::world::World;
use ingest_testing::stub_upstream::{StubAnswer, StubRequest, StubUpstream};

/// A world whose job uses the keys `k1` and `k2`, each with this quota.
fn world(stub: &StubUpstream, quota: u64) -> World {
    let credential = |name: &str| {
        format!(
            "[credentials.{name}]\nupstream = \"rows\"\nsecret = {{ command = [\"printf\", \"{name}\"] }}\n\
             limits = {{ daily = {{ quota = {quota}, window = \"24h\" }} }}\n"
        )
    };
    let text = format!(
        "[upstreams.rows]\nbase_url = \"{}\"\nauth = {{ header = \"x-key\" }}\n\
         errors = [{{ status = 402, class = \"spent\" }}]\n\
         [upstreams.rows.calls.list]\npath = \"list\"\ncost = 1\n\
         page = {{ kind = \"token\", param = \"after\", next = \"/next\" }}\n\
         records = {{ at = \"/data\", kind = \"row\", id = \"/id\" }}\n{}{}\
         [jobs.rows]\ncredentials = [\"k1\", \"k2\"]\nsteps = [{{ call = \"list\" }}]\n",
        "https://rows.example.com",
        credential("k1"),
        credential("k2")
    );
    let mut world = World::written(&text, &[]);
    world.set(&format!("upstreams.rows.base_url=\"{}\"", stub.url()));
    for key in ["k1", "k2"] {
        world.set(&format!(
            "credentials.{key}.secret={{ command = [\"printf\", \"{key}\"] }}"
        ));
    }
    world.set("upstreams.rows.pause=1ms");
    world
}

/// A list of this many pages.
fn pages(request: &StubRequest, count: u64) -> StubAnswer {
    let page: u64 = request
        .param("after")
        .map_or(1, |page| page.parse().unwrap());
    let next = (page < count).then(|| (page + 1).to_string());
    StubAnswer::json(&json!({ "data": [{ "id": page }], "next": next }))
}

/// The key and cursor of each request.
fn requests(stub: &StubUpstream) -> Vec<String> {
    let shown = |request: &StubRequest| {
        let key = request.header("x-key").unwrap();
        format!("{key} {}", request.param("after").unwrap_or("1"))
    };
    stub.requests().iter().map(shown).collect()
}

#[test]
fn the_next_credential_is_used_when_the_quota_of_one_is_exhausted_as_the_preview_says() {
    let stub = StubUpstream::start(|request| pages(request, 3));
    let mut world = world(&stub, 3);
    assert_eq!(world.json(&["--region", "all"])["outcome"], "complete");
    // The second pass takes three more, of which the first key has none left.
    world.set("credentials.k1.limits.daily.quota=5");
    let preview = world.json(&["--region", "all", "--dry-run"]);
    let limits = preview["limits"].as_array().unwrap();
    let spends: Vec<_> = limits
        .iter()
        .map(|limit| limit["spends"].as_u64())
        .collect();
    assert_eq!(spends, [Some(2), Some(1)], "{preview}");
    for limit in limits {
        assert_eq!(limit["fits"], "all", "{preview}");
        assert_eq!(limit["expected"], limit["spends"]);
        assert!(limit["first_unfit"].is_null());
    }
    assert_eq!(preview["passes"][0]["fits"], "all");
    let report = world.json(&["--region", "all"]);
    assert_eq!(report["outcome"], "complete", "{report}");
    assert!(report["stopped_by"].is_null(), "{report}");
    assert_eq!(report["limits"][0]["used"], 5);
    assert_eq!(report["limits"][1]["used"], 1);
    assert_eq!(requests(&stub)[3..], ["k1 1", "k1 2", "k2 3"]);
    let status = world.json(&["status"]);
    assert_eq!(status["limits"].as_array().unwrap().len(), 2);
    let history = world.json(&["history"]);
    let rows = history["rows"].as_array().unwrap();
    let units = |account: &str| {
        let row = rows.iter().find(|row| row["account"] == account).unwrap();
        row["units"]["daily"].as_u64().unwrap()
    };
    assert_eq!((units("k1"), units("k2")), (5, 1), "{history}");
}

#[test]
fn a_pass_stops_when_all_are_exhausted_and_continues_with_any() {
    let stub = StubUpstream::start(|request| pages(request, 6));
    let mut world = world(&stub, 2);
    let report = world.json(&["--region", "all"]);
    assert_eq!(report["outcome"], "stopped", "{report}");
    assert_eq!(report["stopped_by"]["account"], "k1", "{report}");
    let preview = world.json(&["--region", "all", "--dry-run"]);
    assert_eq!(preview["limits"][0]["fits"], "none", "{preview}");
    world.set("credentials.k2.limits.daily.quota=9");
    let report = world.json(&["--region", "all"]);
    assert_eq!(report["outcome"], "complete", "{report}");
    assert_eq!(report["passes"][0]["resumed"], true);
    assert_eq!(
        requests(&stub),
        ["k1 1", "k1 2", "k2 3", "k2 4", "k2 5", "k2 6"]
    );
    let forecast = world.json(&[
        "forecast",
        "--region",
        "all",
        "--schedule",
        "hourly",
        "--days",
        "1",
    ]);
    assert_eq!(forecast["limits"].as_array().unwrap().len(), 2);
}

#[test]
fn a_refusal_of_the_upstream_closes_the_limit_of_one_credential() {
    let stub = StubUpstream::start(|request| {
        let is_second = request.param("after").is_some();
        match request.header("x-key") {
            Some("k1") if is_second => StubAnswer::error(402, &json!({})),
            _ => pages(request, 2),
        }
    });
    let world = world(&stub, 100);
    for _ in 0..2 {
        assert_eq!(world.json(&["--region", "all"])["outcome"], "complete");
    }
    assert_eq!(requests(&stub), ["k1 1", "k1 2", "k2 2", "k2 1", "k2 2"]);
}

#[test]
fn a_call_is_tried_with_each_of_the_credentials() {
    let stub = StubUpstream::start(|request| pages(request, 1));
    let world = world(&stub, 100);
    for key in ["k1", "k2"] {
        let tried = world.json(&["try", key, "list"]);
        assert_eq!(tried["job"], "rows", "{tried}");
        assert_eq!(tried["class"], "page");
    }
    assert_eq!(requests(&stub), ["k1 1", "k2 1"]);
}

/// Without an error rule, a 401 rejects the credential.
fn revoked(key: &'static str) -> StubUpstream {
    StubUpstream::start(move |request| match request.header("x-key") {
        Some(used) if used == key || key == "both" => {
            StubAnswer::error(401, &json!({ "message": "revoked" }))
        }
        _ => pages(request, 3),
    })
}

#[test]
fn a_credential_that_the_upstream_rejects_is_named_and_the_next_one_is_used_for_the_rest_of_the_run()
 {
    let stub = revoked("k1");
    let world = world(&stub, 100);
    let report = world.json(&["--region", "all"]);
    assert_eq!(report["outcome"], "complete", "{report}");
    assert_eq!(requests(&stub), ["k1 1", "k2 1", "k2 2", "k2 3"]);
    let detail = report["passes"][0]["detail"].as_str().unwrap();
    assert!(
        detail.contains("the upstream rejected the credential k1") && detail.contains("revoked"),
        "{report}"
    );
    let ran = world.ingest(&["--region", "all"]);
    assert!(ran.stderr.contains("rejected the credential"), "{ran:?}");
}

#[test]
fn a_run_whose_credentials_are_all_rejected_is_refused_and_names_each() {
    let stub = revoked("both");
    let world = world(&stub, 100);
    let report = world.json(&["--region", "all"]);
    assert_eq!(report["passes"][0]["outcome"], "refused", "{report}");
    let detail = report["passes"][0]["detail"].as_str().unwrap();
    for key in ["k1", "k2"] {
        assert!(
            detail.contains(&format!("the credential {key}")),
            "{report}"
        );
    }
    assert_eq!(requests(&stub), ["k1 1", "k2 1"]);
}

/// A job that is complete with its second credential waits for nothing.
#[test]
fn a_run_is_stopped_by_what_a_pass_waits_for() {
    let stub = StubUpstream::start(|request| pages(request, 3));
    let mut world = world(&stub, 2);
    world.set("upstreams.rows.calls.other={ path = \"other\", cost = 1, page = { kind = \"token\", param = \"after\", next = \"/next\" }, records = { at = \"/data\", kind = \"other\", id = \"/id\" } }");
    world.set("credentials.k3={ upstream = \"rows\", secret = { command = [\"printf\", \"k3\"] }, limits = { daily = { quota = 1, window = \"24h\" } } }");
    world.set("jobs.other={ credential = \"k3\", steps = [{ call = \"other\" }] }");
    // What the other job was refused first fits sooner.
    world.set("credentials.k1.limits.daily.window=\"1h\"");
    let report = world.json(&["--region", "all"]);
    assert_eq!(report["outcome"], "stopped", "{report}");
    for (job, outcome) in [("rows", "complete"), ("other", "stopped")] {
        let mut passes = report["passes"].as_array().unwrap().iter();
        let pass = passes.find(|pass| pass["job"] == job).unwrap();
        assert_eq!(pass["outcome"], outcome, "{report}");
    }
    assert_eq!(report["stopped_by"]["account"], "k3", "{report}");
}

#[test]
fn a_run_names_the_refusal_for_which_a_pass_waits_and_not_one_that_another_job_passed_over() {
    let stub = StubUpstream::start(|request| pages(request, 4));
    let mut world = world(&stub, 3);
    world.set(
        "jobs.later={ credential = \"k1\", leave = { daily = 1 }, steps = [{ call = \"list\" }] }",
    );
    let report = world.json(&["--region", "all"]);
    let passes = report["passes"].as_array().unwrap();
    let pass = |job: &str| passes.iter().find(|pass| pass["job"] == job).unwrap();
    assert_eq!(pass("rows")["outcome"], "complete", "{report}");
    assert_eq!(pass("later")["outcome"], "stopped", "{report}");
    let retry_at = report["stopped_by"]["retry_at"].as_str().unwrap();
    let detail = pass("later")["detail"].as_str().unwrap();
    let at = ingest_quota::Timestamp::parse(retry_at).unwrap();
    let retry_at = ingest_base::plain::instant(at);
    assert!(detail.contains(&retry_at), "{report}");
}

/// A refusal that a run met once is not asked for again: the pass of another call with the same cost stops for it too.
#[test]
fn a_run_names_the_call_that_waits_where_another_call_met_the_refusal_first_and_went_on() {
    let stub = StubUpstream::start(|request| pages(request, 4));
    let mut world = world(&stub, 3);
    world.set(
        "upstreams.rows.calls.other={ path = \"other\", cost = 1, records = { at = \"/data\", kind = \"other\", id = \"/id\" } }",
    );
    world.set("jobs.so_on={ credential = \"k1\", steps = [{ call = \"other\" }] }");
    let report = world.json(&["--region", "all", "--concurrency", "1"]);
    let passes = report["passes"].as_array().unwrap();
    let pass = |job: &str| passes.iter().find(|pass| pass["job"] == job).unwrap();
    assert_eq!(pass("rows")["outcome"], "complete", "{report}");
    assert_eq!(pass("so_on")["outcome"], "stopped", "{report}");
    assert_eq!(report["stopped_by"]["call"], "other", "{report}");
}

#[test]
fn an_account_is_charged_nothing_for_passes_that_the_other_one_of_the_job_paid() {
    let stub = StubUpstream::start(|request| pages(request, 3));
    let mut world = world(&stub, 2);
    world.set("credentials.k2.limits.daily.quota=100");
    let used = |world: &World, limit: usize| {
        world.json(&["status"])["limits"][limit]["used"]
            .as_u64()
            .unwrap()
    };
    for run in 1..=3 {
        let ran = world.ingest(&["--region", "all"]);
        assert!(!ran.stderr.contains("older than the catalog"), "{ran:?}");
        assert_eq!((used(&world, 0), used(&world, 1)), (2, 3 * run - 2));
    }
    // A ledger that was put back is older for every account.
    let ledger = world.state_dir().join("ledger.db");
    let kept = world.state_dir().join("kept.db");
    std::fs::copy(&ledger, &kept).unwrap();
    assert_eq!(world.ingest(&["--region", "all"]).code, 0);
    for side in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(world.state_dir().join(format!("ledger.db{side}")));
    }
    std::fs::rename(&kept, &ledger).unwrap();
    let ran = world.ingest(&["charge", "k2", "list"]);
    assert!(ran.stderr.contains("older than the catalog"), "{ran:?}");
    assert_eq!(used(&world, 1), 7 + 3 + 1);
}

#[test]
fn a_job_that_used_another_account_for_a_while_is_charged_once() {
    let stub = StubUpstream::start(|request| pages(request, 3));
    let mut world = world(&stub, 100);
    for key in ["k1", "k2", "k1"] {
        world.set(&format!("jobs.rows.credentials=[\"{key}\"]"));
        let ran = world.ingest(&["--region", "all"]);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran:?}");
    }
    assert_eq!(world.recorded("daily"), 9);
}
