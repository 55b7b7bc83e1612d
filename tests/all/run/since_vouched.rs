//! How far `{since}` advances: never beyond what the pass can vouch for, by the upstream's clock.

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};

use crate::support::world::World;
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};

/// A world whose list carries `{since}` as this template.
fn world(stub: &StubUpstream, template: &str, since: &str, id: &str) -> World {
    let text = format!(
        r#"
[upstreams.rows]
base_url = "https://rows.example.com"
[upstreams.rows.calls.list]
path = "list"
cost = 1
page = {{ kind = "token", param = "after", next = "/next" }}
params = {{ from = "{template}" }}
records = {{ at = "/data", kind = "row", id = "{id}" }}
[jobs.rows]
credential = "rows"
{since}
steps = [{{ call = "list" }}]
[credentials.rows]
upstream = "rows"
limits = {{ daily = {{ quota = 1_000, window = "24h" }} }}
"#
    );
    World::upon(stub, &text)
}

fn froms(stub: &StubUpstream) -> Vec<String> {
    let requests = stub.requests();
    let firsts = requests
        .iter()
        .filter(|request| request.param("after").is_none());
    firsts
        .map(|request| request.param("from").unwrap().to_owned())
        .collect()
}

fn run(world: &World) -> Value {
    let report = world.json(&["--region", "all"]);
    assert_eq!(report["outcome"], "complete", "{report}");
    report
}

fn answering(records: Vec<Value>) -> StubUpstream {
    StubUpstream::start(move |_| StubAnswer::json(&json!({ "data": records })))
}

/// What the second pass requests after a first one that had these values, and what the first one notes.
fn after(values: [Value; 2], template: &str, since: &str) -> (String, String) {
    let records = values.into_iter().enumerate();
    let records = records.map(|(id, at)| json!({ "id": format!("r{id}"), "at": at }));
    let stub = answering(records.collect());
    let world = world(&stub, template, since, "/id");
    let detail = run(&world)["passes"][0]["detail"].to_string();
    run(&world);
    (froms(&stub)[1].clone(), detail)
}

const AT: &str = "since = { at = \"/at\" }";

#[test]
fn a_time_in_the_future_never_moves_since_past_the_start_of_the_pass() {
    let began = Utc::now();
    let is_now = |at: DateTime<Utc>| (at - began).num_seconds().abs() <= 40;
    let epoch = began.timestamp() - 86_400;
    let of_day = |format: &str| (began - TimeDelta::days(1)).format(format).to_string();
    let rfc = "%Y-%m-%dT%H:%M:%SZ";
    for future in [
        "2099-01-01T00:00:00Z",
        "9999-12-31T23:59:59Z",
        "2099-01-01T01:00:00.500+02:00",
    ] {
        let (from, note) = after([json!(of_day(rfc)), json!(future)], "{since}", AT);
        assert!(
            is_now(DateTime::parse_from_rfc3339(&from).unwrap().to_utc()),
            "{future}: {from}"
        );
        assert!(
            note.contains(future) && note.contains("is in the future"),
            "{note}"
        );
    }
    let (from, note) = after(
        [
            json!(of_day("%Y-%m-%d %H:%M:%S")),
            json!("9999-12-31 00:00:00"),
        ],
        "{since}",
        AT,
    );
    assert!(
        is_now(
            chrono::NaiveDateTime::parse_from_str(&from, "%Y-%m-%d %H:%M:%S")
                .unwrap()
                .and_utc()
        ),
        "{from}"
    );
    assert!(note.contains("is in the future"), "{note}");
    for (unit, future) in [(1, 4_070_908_800_i64), (1_000, 4_070_908_800_000)] {
        let (from, note) = after([json!(epoch * unit), json!(future)], "{since}", AT);
        assert!(
            is_now(DateTime::from_timestamp(from.parse::<i64>().unwrap() / unit, 0).unwrap()),
            "{from}"
        );
        assert!(note.contains("is in the future"), "{note}");
    }
    let (from, _) = after(
        [json!("1.1.2024"), json!("31.12.2099")],
        "{since}",
        "since = { at = \"/at\", format = \"%d.%m.%Y\" }",
    );
    assert_eq!(from, began.format("%d.%m.%Y").to_string());
    let (from, _) = after(
        [json!(of_day(rfc)), json!("2099-01-01T00:00:00Z")],
        "{since:-1d:%Y-%m-%d}",
        AT,
    );
    assert_eq!(from, of_day("%Y-%m-%d"));
}

#[test]
fn what_changes_while_the_pass_reads_is_listed_again() {
    let stub = StubUpstream::start(|request| {
        let later = Utc::now() + TimeDelta::seconds(2);
        let of_next = later.format("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
        StubAnswer::json(&match request.param("after") {
            None => json!({ "data": [{ "id": "1", "at": "2024-01-01T00:00:00Z" }], "next": "2" }),
            Some(_) => json!({ "data": [{ "id": "2", "at": of_next }] }),
        })
    });
    let world = world(&stub, "{since}", AT, "/id");
    let report = run(&world);
    assert!(
        report["passes"][0]["detail"].is_null(),
        "it is no mistake: {report}"
    );
    let started: String = world
        .catalog()
        .query_row(
            "select started_at from pass order by id limit 1",
            [],
            |row| row.get(0),
        )
        .unwrap();
    run(&world);
    let [started, from] =
        [started, froms(&stub)[1].clone()].map(|at| DateTime::parse_from_rfc3339(&at).unwrap());
    assert!(
        (0..=1_000).contains(&(started - from).num_milliseconds()),
        "{started} {from}"
    );
}

#[test]
fn numbers_that_are_no_times_advance_since_as_far_as_they_go() {
    let (from, note) = after([json!(4711), json!(5_000_000_000_i64)], "{since}", AT);
    assert_eq!((from.as_str(), note.as_str()), ("5000000000", "null"));
    let stub = answering(vec![
        json!({ "id": 1_700_000_000 }),
        json!({ "id": 4_070_908_800_i64 }),
    ]);
    let world = world(&stub, "{since}", "since = { at = \"/id\" }", "/id");
    run(&world);
    run(&world);
    assert_eq!(froms(&stub)[1], "4070908800", "an id is no time");
}

/// An upstream whose clock differs from this machine's by so many seconds.
fn with_clock(differs: i64) -> StubUpstream {
    StubUpstream::start(move |_| {
        let theirs = Utc::now() + TimeDelta::seconds(differs);
        let date = theirs.format("%a, %d %b %Y %H:%M:%S GMT").to_string();
        let at = theirs.format("%Y-%m-%dT%H:%M:%SZ").to_string();
        StubAnswer::json(&json!({ "data": [{ "id": "1", "at": at }] })).header("date", &date)
    })
}

#[test]
fn since_is_in_the_upstreams_time_and_a_difference_above_a_minute_is_noted() {
    for (differs, noted) in [
        (-600, "behind"),
        (-7_200, "behind"),
        (-30, ""),
        (0, ""),
        (600, "ahead of"),
    ] {
        let stub = with_clock(differs);
        let world = world(&stub, "{since}", "", "/id");
        let before = Utc::now();
        let note = run(&world)["passes"][0]["detail"].to_string();
        run(&world);
        let from = DateTime::parse_from_rfc3339(&froms(&stub)[1])
            .unwrap()
            .to_utc();
        let began = (from - before).num_seconds();
        let expected = differs.min(0);
        assert!(
            (expected - 5..=expected + 20).contains(&began),
            "{differs}: {from}"
        );
        match noted {
            "" => assert_eq!(note, "null"),
            noted => assert!(
                note.contains("the clock of rows is ") && note.contains(noted),
                "{note}"
            ),
        }
        let checked = world.ingest(&["check", "--connect"]);
        assert_eq!(
            checked.stdout.contains("the clock of rows is"),
            !noted.is_empty(),
            "{checked:?}"
        );
        assert_eq!(checked.code, 0, "{checked:?}");
    }
}

#[test]
fn a_value_of_an_upstream_whose_clock_is_behind_is_capped_by_its_own_time() {
    let stub = with_clock(-600);
    let world = world(&stub, "{since}", AT, "/id");
    let before = Utc::now();
    run(&world);
    run(&world);
    let from = DateTime::parse_from_rfc3339(&froms(&stub)[1])
        .unwrap()
        .to_utc();
    assert!((from - before).num_seconds() <= -580, "{from}");
}
