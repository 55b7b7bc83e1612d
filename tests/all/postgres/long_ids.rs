//! Ids that do not fit in an index of PostgreSQL.

use serde_json::{Value, json};

use crate::support::json::has;
use crate::support::shared_world::SharedWorld;
use crate::support::world::World;
use ingest_testing::postgres::PostgresServer;
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};

/// As long as an id in an index may be, and longer than any index takes; of characters that do not compress.
fn long(bytes: usize) -> String {
    let mut state = 7_u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        char::from(b'a' + u8::try_from((state >> 33) % 26).unwrap())
    };
    (0..bytes).map(|_| next()).collect()
}

#[test]
fn a_page_with_ids_that_are_too_long_is_stored_without_them_and_the_run_says_so() {
    let rows = |ids: &[String]| -> Vec<Value> {
        let row = |id: &String| json!({ "id": id, "owner": format!("of-{id}") });
        ids.iter().map(row).collect()
    };
    let upstream = StubUpstream::start(move |request| {
        if let Some(ids) = request.param("ids") {
            let ids: Vec<String> = ids.split(',').map(str::to_owned).collect();
            return StubAnswer::json(&json!({ "data": rows(&ids) }));
        }
        let (ids, next) = match request.param("page") {
            None => (vec!["short".to_owned(), long(3_000), long(797)], Some("1")),
            Some(_) => (vec![long(800)], None),
        };
        StubAnswer::json(&json!({ "data": rows(&ids), "next": next }))
    });
    let text = "regions = [\"A\"]\n\
        [upstreams.rows]\nbase_url = \"https://rows.example.com\"\npause = \"1ms\"\n\
        [upstreams.rows.calls.list]\npath = \"list\"\ncost = 1\n\
        page = { kind = \"token\", param = \"page\", next = \"/next\" }\n\
        records = { at = \"/data\", kind = \"row\", id = \"/id\" }\n\
        [upstreams.rows.calls.get]\npath = \"get\"\ncost = 1\n\
        records = { at = \"/data\", kind = \"thing\", id = \"/id\" }\n\
        [credentials.rows]\nupstream = \"rows\"\nlimits = { daily = { quota = 100, window = \"24h\" } }\n\
        [jobs.rows]\ncredential = \"rows\"\nevery = \"1h\"\nsteps = [\n\
        { call = \"list\", params = { region = \"{region}\" } },\n\
        { call = \"get\", params = { ids = \"{ids}\" }, ids = { from = \"list\", at = \"/owner\", batch = 8 } }]\n";
    let schema = PostgresServer::shared().schema();
    let mut world = World::upon(&upstream, text);
    schema.in_world(&mut world);
    let run = world.ingest(&["--region", "A", "--format", "json"]);
    assert_eq!(run.code, 0, "{run:?}");
    let pass = &run.json()["passes"][0];
    has(pass, &json!({ "outcome": "complete", "records": 3 }));
    let detail = pass["detail"].as_str().unwrap();
    assert!(
        detail.contains("list returned records that are not stored")
            && detail.contains("3000 bytes"),
        "{detail}"
    );
    let stored = |kind: &str| {
        let sql = "select coalesce(string_agg(octet_length(id)::text, ' ' order by octet_length(id)), '') from record";
        let rows = schema.rows(&format!("{sql} where kind = '{kind}'"));
        rows[0].get::<_, String>(0)
    };
    assert_eq!(stored("row"), "5 797 800");
    // `of-` makes the id of 800 bytes too long to be requested.
    assert_eq!(stored("thing"), "8 800");
    assert!(
        run.stderr.contains("is not requested") && run.stderr.contains("803 bytes"),
        "{}",
        run.stderr
    );
    assert_eq!(upstream.requests().len(), 3);
    let again = world.ingest(&["--region", "A", "--format", "json"]);
    assert_eq!(again.json()["outcome"], "nothing_due", "{again:?}");
    assert_eq!(upstream.requests().len(), 3);
}
