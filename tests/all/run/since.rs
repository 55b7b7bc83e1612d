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
fn since_is_not_before_1970() {
    let stub = stub(|_| [json!(1), json!(2)]);
    let world = world(&stub, "{since:-5m}", "", "");
    run(&world);
    assert_eq!(froms(&stub, "US"), ["1970-01-01T00:00:00Z"]);
}

#[test]
fn since_at_continues_each_region_at_the_greatest_value_that_was_seen() {
    let stub = stub(|region| match region {
        "US" => [
            json!("2026-03-02T00:00:00+02:00"),
            json!("2026-03-01T21:30:00Z"),
        ],
        _ => [json!("2026-01-05T00:00:00Z"), json!("2026-01-04T00:00:00Z")],
    });
    let since = "since = { at = \"/at\", first = \"2024-01-01T00:00:00Z\" }";
    let world = world(&stub, "{since}", since, "");
    run(&world);
    run(&world);
    assert_eq!(
        froms(&stub, "US"),
        ["2024-01-01T00:00:00Z", "2026-03-02T00:00:00+02:00"]
    );
    assert_eq!(
        froms(&stub, "GB"),
        ["2024-01-01T00:00:00Z", "2026-01-05T00:00:00Z"]
    );
}

#[test]
fn numbers_compare_as_numbers_and_are_written_as_times_where_a_format_requests_it() {
    let stub = stub(|_| [json!("9007199254740993"), json!(999)]);
    let plain = world(&stub, "{since}", "since = { at = \"/at\", first = 0 }", "");
    run(&plain);
    run(&plain);
    assert_eq!(froms(&stub, "US"), ["0", "9007199254740993"]);
    let stub = self::stub(|_| [json!(1_704_067_200), json!(1_704_067_100)]);
    let formatted = world(&stub, "{since:-1d:%F}", "since = { at = \"/at\" }", "");
    run(&formatted);
    run(&formatted);
    assert_eq!(froms(&stub, "US"), ["1970-01-01", "2023-12-31"]);
}

#[test]
fn values_before_1970_are_sent_as_they_are_and_never_as_1970() {
    let stub = stub(|_| [json!("1789-07-14"), json!("1788-02-03")]);
    let since = "since = { at = \"/at\", first = \"1776-07-04\" }";
    let days = world(&stub, "{since:%Y-%m-%d}", since, "");
    run(&days);
    run(&days);
    assert_eq!(froms(&stub, "US"), ["1776-07-04", "1789-07-14"]);
    let stub = self::stub(|_| [json!(-1.25), json!(-6_106_060_800_i64)]);
    let since = "since = { at = \"/at\", first = \"0001-01-01\" }";
    let numbers = world(&stub, "{since:-1s:%s%3f}", since, "");
    run(&numbers);
    run(&numbers);
    assert_eq!(froms(&stub, "US"), ["-62135596801000", "-2250"]);
}

/// Each value, and what `{since:-1d}` then is.
const SHIFTED: [(&str, &str); 15] = [
    ("2024-05-31T07:00:00", "2024-05-30T07:00:00"),
    ("2024-03-01T07:00:00+0000", "2024-02-29T07:00:00+0000"),
    ("2024-05-31T00:30:00+0200", "2024-05-30T00:30:00+0200"),
    ("2024-05-31 07:00:00", "2024-05-30 07:00:00"),
    ("2024-05-31T07:00Z", "2024-05-30T07:00Z"),
    ("2024-05-31T07:00:00.120Z", "2024-05-30T07:00:00.120Z"),
    (
        "2024-05-31T07:00:00.123456789+05:30",
        "2024-05-30T07:00:00.123456789+05:30",
    ),
    (
        "Fri, 31 May 2024 07:00:00 GMT",
        "Thu, 30 May 2024 07:00:00 GMT",
    ),
    (
        "Sat, 1 Jun 2024 07:00:00 GMT",
        "Fri, 31 May 2024 07:00:00 GMT",
    ),
    ("20240601", "20240531"),
    ("20240601T070000Z", "20240531T070000Z"),
    ("1776-07-04", "1776-07-03"),
    ("1717138800", "1717052400"),
    ("1717138800123", "1717052400123"),
    ("-1.5", "-86401.5"),
];

#[test]
fn an_offset_shifts_every_form_of_a_time_and_keeps_the_form() {
    let rows: Vec<Value> = SHIFTED.iter().map(|(at, _)| json!(at)).collect();
    let stub = StubUpstream::start(move |request| {
        let region = request.path.rsplit('/').next().unwrap();
        let at: usize = region.trim_start_matches('R').parse().unwrap();
        StubAnswer::json(&json!({ "data": [{ "id": region, "at": rows[at] }] }))
    });
    let mut world = world(&stub, "{since:-1d}", "since = { at = \"/at\" }", "");
    let regions: Vec<String> = (0..SHIFTED.len()).map(|at| format!("R{at}")).collect();
    world.set(&format!("regions={regions:?}"));
    run(&world);
    let report = run(&world);
    for (region, (at, shifted)) in regions.iter().zip(SHIFTED) {
        assert_eq!(froms(&stub, region)[1], shifted, "{at}");
    }
    assert!(
        !report.to_string().contains("not read as a time"),
        "{report}"
    );
}

#[test]
fn a_format_of_since_reads_compares_and_writes_the_values() {
    let stub = stub(|_| [json!("01.06.2024"), json!("31.05.2024")]);
    let since = "since = { at = \"/at\", first = \"2024-01-01\", format = \"%d.%m.%Y\" }";
    for (template, expected) in [
        ("{since}", ["01.01.2024", "01.06.2024"]),
        ("{since:-1d}", ["31.12.2023", "31.05.2024"]),
        ("{since:%s}", ["1704067200", "1717200000"]),
    ] {
        let world = world(&stub, template, since, "");
        run(&world);
        run(&world);
        let froms = froms(&stub, "US");
        assert_eq!(froms[froms.len() - 2..], expected, "{template}");
    }
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
fn a_value_that_cannot_be_shifted_is_noted_and_does_not_advance_since() {
    let stub = stub(|_| [json!("31.05.2024"), json!("30.05.2024")]);
    let since = "since = { at = \"/at\", first = \"2024-01-01\" }";
    let world = world(&stub, "{since:-1d}", since, "");
    let report = run(&world);
    let detail = report["passes"][0]["detail"].as_str().unwrap();
    assert!(
        detail.contains("`31.05.2024` at `/at` is not read as a time")
            && detail.contains("`format` in the job's `since`"),
        "{detail}"
    );
    run(&world);
    assert_eq!(froms(&stub, "US"), ["2023-12-31", "2023-12-31"]);
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

#[test]
fn a_pass_that_resumes_keeps_its_value_and_what_it_saw() {
    let stub = stub(|_| [json!(20), json!(10)]);
    let mut world = world(&stub, "{since}", "since = { at = \"/at\", first = 5 }", "");
    world.set("credentials.rows.limits.daily.quota=1");
    assert_eq!(world.json(&["--region", "US"])["outcome"], "stopped");
    world.set("credentials.rows.limits.daily.quota=1000");
    assert_eq!(
        world.json(&["--region", "US"])["passes"][0]["resumed"],
        true
    );
    assert!(
        stub.requests()
            .iter()
            .all(|request| request.param("from") == Some("5"))
    );
    world.json(&["--region", "US"]);
    assert_eq!(froms(&stub, "US"), ["5", "20"]);
}

#[test]
fn a_pass_that_max_pages_cut_does_not_advance_the_value() {
    let stub = stub(|_| [json!(20), json!(10)]);
    let since = "since = { at = \"/at\", first = 5 }";
    let mut world = world(&stub, "{since}", since, ", max_pages = 1");
    world.json(&["--region", "all"]);
    // Or it were due again after a day.
    world.set("jobs.rows.every=1us");
    world.json(&["--region", "all"]);
    assert_eq!(froms(&stub, "US"), ["5", "5"]);
}

#[test]
fn a_value_of_another_place_is_not_used_and_a_place_without_values_is_noted() {
    let stub = stub(|_| [json!(20), json!(10)]);
    let mut world = world(&stub, "{since}", "since = { at = \"/at\", first = 5 }", "");
    run(&world);
    world.set("jobs.rows.since.at=\"/updated\"");
    let report = run(&world);
    assert_eq!(froms(&stub, "US"), ["5", "5"]);
    let detail = report["passes"][0]["detail"].as_str().unwrap();
    assert!(
        detail.contains("no record of a page has a value at `/updated`"),
        "{detail}"
    );
}

#[test]
fn check_rejects_a_since_that_no_step_uses_and_one_that_is_no_time() {
    let stub = stub(|_| [json!(1), json!(2)]);
    for (template, job, message) in [
        (
            "x",
            "since = \"2024-01-01\"",
            "no step of this job uses {since}",
        ),
        (
            "{since}",
            "since = \"yesterday\"",
            "expected a date, or a time in RFC 3339",
        ),
        ("{since:soon}", "", "not a valid date or time"),
        (
            "{Last modified}",
            "",
            "write {{Last modified}} for the text in braces",
        ),
        (
            "{region.date}",
            "",
            "{region.date} is not a template variable",
        ),
        ("{ now }", "", "write {now}, without blanks"),
        (
            "{since:-1d}",
            "since = { at = \"/at\", first = \"1.2.2024\" }",
            "expected a time, since {since:-1d} shifts or formats it",
        ),
        (
            "{since}",
            "since = { at = \"/at\", first = \"2024-13-01\", format = \"%d.%m.%Y\" }",
            "expected a date, a time in RFC 3339, or one in `format`",
        ),
        (
            "{since}",
            "since = { at = \"/at\", format = \"%d.%m.\" }",
            "expected a format of strftime by which a time can be read",
        ),
    ] {
        let text = format!(
            "regions = [\"US\"]\n[upstreams.rows]\nbase_url = \"{}\"\n[upstreams.rows.calls.list]\npath = \"list\"\n\
             cost = 1\nparams = {{ from = \"{template}\" }}\nrecords = {{ at = \"/data\", kind = \"row\", id = \"/id\" }}\n\
             [jobs.rows]\ncredential = \"rows\"\n{job}\nsteps = [{{ call = \"list\" }}]\n\
             [credentials.rows]\nupstream = \"rows\"\nlimits = {{ daily = {{ quota = 1, window = \"24h\" }} }}\n",
            stub.url()
        );
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("quotas.toml");
        std::fs::write(&path, text).unwrap();
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_ingest"))
            .args(["check", "--config"])
            .arg(&path)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned()
            + &String::from_utf8_lossy(&output.stdout);
        assert!(said.contains(message), "{message}: {said}");
    }
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

/// Milliseconds are as good as seconds before there is a value, and far in the future afterwards.
#[test]
fn a_list_that_begins_before_the_newest_record_and_has_none_is_noted() {
    let stub = StubUpstream::start(|request| {
        let from: i64 = request.param("from").unwrap().parse().unwrap();
        let rows = [1_709_251_200].into_iter().filter(|at| *at >= from);
        let rows: Vec<Value> = rows.map(|at| json!({ "id": 1, "at": at })).collect();
        StubAnswer::json(&json!({ "data": rows }))
    });
    for (template, noted) in [("{since:-1d:%s}", false), ("{since:-1d:%s%3f}", true)] {
        let world = world(&stub, template, "since = { at = \"/at\" }", "");
        run(&world);
        let report = run(&world).to_string();
        let note = "begins before the newest record that was seen";
        assert_eq!(report.contains(note), noted, "{template}: {report}");
    }
}
