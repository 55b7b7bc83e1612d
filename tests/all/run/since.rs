//! `{since}`: lists that continue where the last pass ended, from a first value on.

use serde_json::{Value, json};

use crate::support::world::World;
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};

/// A world whose list names `{since}` as this template, of a job with more keys.
fn world(stub: &StubUpstream, template: &str, job: &str, step: &str) -> World {
    let text = format!(
        "regions = [\"US\", \"GB\"]\n[upstreams.rows]\nbase_url = \"https://rows.example.com\"\n\
         [upstreams.rows.calls.list]\npath = \"list/{{region}}\"\ncost = 1\n\
         page = {{ kind = \"token\", param = \"after\", next = \"/next\" }}\n\
         params = {{ from = \"{template}\" }}\n\
         records = {{ at = \"/data\", kind = \"row\", id = \"/id\" }}\n\
         [jobs.rows]\ncredential = \"rows\"\n{job}\nsteps = [{{ call = \"list\"{step} }}]\n\
         [credentials.rows]\nupstream = \"rows\"\nlimits = {{ daily = {{ quota = 1_000, window = \"24h\" }} }}\n"
    );
    let mut world = World::written(&text, &[]);
    world.set(&format!("upstreams.rows.base_url=\"{}\"", stub.url()));
    world
}

/// Two pages for each region; the values of the second are lower than those of the first.
fn stub(values: fn(&str) -> [Value; 2]) -> StubUpstream {
    StubUpstream::start(move |request| {
        let region = request.path.rsplit('/').next().unwrap();
        let [first, second] = values(region);
        StubAnswer::json(&match request.param("after") {
            None => json!({ "data": [{ "id": format!("{region}1"), "at": first }], "next": "2" }),
            Some(_) => {
                json!({ "data": [{ "id": format!("{region}2"), "at": second }, { "id": format!("{region}3") }] })
            }
        })
    })
}

/// What the first requests of the passes over a region had as `from`.
fn froms(stub: &StubUpstream, region: &str) -> Vec<String> {
    let requests = stub.requests();
    let firsts = requests
        .iter()
        .filter(|request| request.path.ends_with(region) && request.param("after").is_none());
    firsts
        .map(|request| request.param("from").unwrap().to_owned())
        .collect()
}

fn run(world: &World) -> Value {
    let report = world.json(&["--region", "all"]);
    assert_eq!(report["outcome"], "complete", "{report}");
    report
}

#[test]
fn the_first_pass_starts_at_the_first_value_and_the_next_at_its_start_with_offset_and_format() {
    let stub = stub(|_| [json!(1), json!(2)]);
    let world = world(&stub, "{since:-5m:%s%3f}", "since = \"2024-01-01\"", "");
    run(&world);
    assert_eq!(froms(&stub, "US"), ["1704066900000"]);
    run(&world);
    let started: String = world
        .catalog()
        .query_row(
            "select started_at from pass where region = 'US' order by id limit 1",
            [],
            |row| row.get(0),
        )
        .unwrap();
    let started = ingest_quota::Timestamp::parse(&started).unwrap().micros() / 1_000 - 300_000;
    assert_eq!(froms(&stub, "US")[1], started.to_string());
}

#[test]
fn the_sandbox_writes_its_times_in_the_format_of_since() {
    let since = "since = { at = \"/day\", format = \"%d.%m.%Y\" }";
    let text = format!(
        "regions = [\"US\"]\n[upstreams.rows]\nbase_url = \"https://rows.example.com\"\n[upstreams.rows.calls.list]\n\
         path = \"list\"\ncost = 1\nparams = {{ from = \"{{since:-1d}}\" }}\nrecords = {{ kind = \"row\", id = \"/id\" }}\n\
         [jobs.rows]\ncredential = \"rows\"\n{since}\nsteps = [{{ call = \"list\" }}]\n\
         [credentials.rows]\nupstream = \"rows\"\nlimits = {{ daily = {{ quota = 1_000, window = \"24h\" }} }}\n"
    );
    let report = run(&World::written(&text, &[]));
    assert_eq!(report["passes"][0]["detail"], Value::Null, "{report}");
}

#[test]
fn try_says_how_the_value_is_read_and_what_the_next_request_carries() {
    let said = |values: fn(&str) -> [Value; 2], template: &str, since: &str| {
        let stub = stub(values);
        let world = world(&stub, template, since, "");
        let ran = world.ingest(&["try", "rows", "list"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.stdout
    };
    let at = "since = { at = \"/at\" }";
    let local = said(
        |_| [json!("2024-05-31 07:00:00"), json!(1)],
        "{since:-1d}",
        at,
    );
    assert!(
        local.contains("`2024-05-31 07:00:00` at `/at`, read as a date or a time without a zone, taken as UTC: 2024-05-31T07:00:00Z")
            && local.contains("{since:-1d} is then 2024-05-30 07:00:00"),
        "{local}"
    );
    let unread = said(|_| [json!("31.5."), json!(1)], "{since:-1d}", at);
    assert!(
        unread.contains("`31.5.` at `/at` is not read as a time"),
        "{unread}"
    );
    let id = said(|_| [json!(4711), json!(1)], "{since}", at);
    assert!(id.contains("{since} is then 4711"), "{id}");
}

#[test]
fn a_value_of_a_region_that_is_named_like_a_variable_is_named_with_its_region() {
    let stub = stub(|_| [json!(1), json!(2)]);
    let mut world = world(&stub, "{now}", "", "");
    world.set("regions={ US = { date = \"east\" }, GB = { date = \"west\" } }");
    world.set("upstreams.rows.calls.list.params={ from = \"{region.date}\" }");
    run(&world);
    assert_eq!(
        [froms(&stub, "US"), froms(&stub, "GB")],
        [["east"], ["west"]]
    );
}

/// A world that lists two parents, and the children of each since its own value.
fn parents(stub: &StubUpstream, since: &str, step: &str) -> World {
    let text = format!(
        "[upstreams.rows]\nbase_url = \"{}\"\npause = \"1ms\"\n\
         [upstreams.rows.calls.parents]\npath = \"list/parents\"\ncost = 1\n\
         page = {{ kind = \"token\", param = \"after\", next = \"/next\" }}\n\
         records = {{ at = \"/data\", kind = \"parent\", id = \"/id\" }}\n\
         [upstreams.rows.calls.children]\npath = \"list/{{id}}\"\ncost = 1\n\
         params = {{ from = \"{{since}}\" }}\n\
         page = {{ kind = \"token\", param = \"after\", next = \"/next\" }}\n\
         records = {{ at = \"/data\", kind = \"child\", id = [\"{{id}}\", \"/id\"] }}\n\
         [jobs.rows]\ncredential = \"rows\"\n{since}\nsteps = [{{ call = \"parents\" }}, \
         {{ call = \"children\", ids = {{ from = \"parents\", at = \"/id\", batch = 1 }}{step} }}]\n\
         [credentials.rows]\nupstream = \"rows\"\nlimits = {{ daily = {{ quota = 1_000, window = \"24h\" }} }}\n",
        stub.url()
    );
    let mut world = World::written(&text, &[]);
    world.set(&format!("upstreams.rows.base_url=\"{}\"", stub.url()));
    world
}

fn stub_of_parents() -> StubUpstream {
    stub(|region| match region {
        "parents" => [json!(900), json!(901)],
        "parents1" => [json!(20), json!(10)],
        _ => [json!(3), json!(4)],
    })
}

#[test]
fn each_id_of_a_step_of_ids_continues_at_its_own_greatest_value() {
    let stub = stub_of_parents();
    let world = parents(&stub, "since = { at = \"/at\", first = 1 }", "");
    run(&world);
    run(&world);
    assert_eq!(froms(&stub, "parents1"), ["1", "20"]);
    assert_eq!(froms(&stub, "parents3"), ["1", "4"]);
    let tried = world.json(&["try", "rows", "children", "--id", "parents1"]);
    let url = tried["request"]["url"].as_str().unwrap();
    assert!(url.ends_with("from=20"), "{tried}");
    for arguments in [
        &["--region", "all", "--dry-run"][..],
        &["forecast", "--schedule", "0 * * * *"],
        &["--region", "all", "--sandbox"],
    ] {
        let ran = world.ingest(arguments);
        assert_eq!(ran.code, 0, "{ran:?}");
    }
}

#[test]
fn without_a_place_each_id_continues_when_the_pass_of_its_last_complete_list_began() {
    let stub = stub_of_parents();
    let world = parents(&stub, "since = \"2024-01-01\"", "");
    run(&world);
    let began: String = world
        .catalog()
        .query_row("select min(started_at) from pass", [], |row| row.get(0))
        .unwrap();
    run(&world);
    let second = ingest_quota::Timestamp::parse(&froms(&stub, "parents1")[1]).unwrap();
    assert_eq!(froms(&stub, "parents1")[0], "2024-01-01T00:00:00Z");
    assert_eq!(
        second.micros() / 1_000_000,
        ingest_quota::Timestamp::parse(&began).unwrap().micros() / 1_000_000
    );
}

#[test]
fn a_list_of_an_id_that_max_pages_cut_does_not_advance_its_value() {
    let stub = stub_of_parents();
    let since = "since = { at = \"/at\", first = 1 }";
    let world = parents(&stub, since, ", max_pages = 1");
    let report = world.json(&["--region", "all"]);
    assert!(
        report
            .to_string()
            .contains("children stopped at max_pages before the end of its list"),
        "{report}"
    );
    world.json(&["--region", "all"]);
    assert_eq!(froms(&stub, "parents1"), ["1", "1"]);
}

#[test]
fn a_value_that_a_clock_ahead_stored_is_not_used() {
    let stub = stub_of_parents();
    let world = parents(&stub, "since = { at = \"/at\", first = 1 }", "");
    run(&world);
    let ahead = "update id_since set began = '2999-01-01T00:00:00.000000Z' where id = 'parents1'";
    let changed = rusqlite::Connection::open(world.state_dir().join("catalog.db"))
        .unwrap()
        .execute(ahead, [])
        .unwrap();
    assert_eq!(changed, 1);
    run(&world);
    assert_eq!(froms(&stub, "parents1"), ["1", "1"]);
    assert_eq!(froms(&stub, "parents3"), ["1", "4"]);
}

#[test]
fn check_rejects_since_for_several_ids_at_once_and_two_lists_of_one_id() {
    let stub = stub_of_parents();
    let world = parents(&stub, "since = { at = \"/at\", first = 1 }", "");
    let ids = "ids = { from = \"parents\", at = \"/id\", batch = ";
    for (steps, message) in [
        (
            format!("{{ call = \"children\", {ids}2 }} }}"),
            "write batch = 1",
        ),
        (
            format!("{{ call = \"children\", {ids}1 }} }}, {{ call = \"children\", {ids}1 }} }}"),
            "another step of this job has a {since} for each id of children",
        ),
    ] {
        let steps = format!("jobs.rows.steps=[{{ call = \"parents\" }}, {steps}]");
        let ran = world.ingest(&["check", "--config-only", "--set", &steps]);
        assert!(ran.stderr.contains(message), "{message}: {ran:?}");
    }
}

#[test]
fn lists_of_ids_without_any_record_since_the_first_value_are_noted() {
    let stub = StubUpstream::start(|request| {
        let data = match request.path.as_str() {
            "/list/parents" => json!([{ "id": "p1" }, { "id": "p2" }]),
            _ => json!([]),
        };
        StubAnswer::json(&json!({ "data": data }))
    });
    let world = parents(&stub, "since = { at = \"/at\", first = 1 }", "");
    let report = run(&world).to_string();
    let note = "children: no record since the first value of `since`";
    assert_eq!(report.matches(note).count(), 1, "{report}");
}
