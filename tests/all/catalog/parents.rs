//! The parents of records that a step of ids returned.

use ingest_catalog::{PassId, PassScope, PendingQuery};
use serde_json::{Value, json};

use crate::fixture::{Fixture, JOB, Page, at, pointer, video_of};
use crate::support::world::World;
use ingest_testing::stub_upstream::{StubAnswer, StubRequest, StubUpstream};

/// A list of things of two regions, and the children of their ids at `place`, `batch` ids in a request.
fn world(upstream: &StubUpstream, place: &str, batch: u64) -> World {
    let text = format!(
        r#"
regions = ["US", "GB"]
[upstreams.tree]
base_url = "https://tree.example.com"
[upstreams.tree.calls.things]
path = "things/{{region}}"
cost = 1
records = {{ at = "/items", kind = "thing", id = "/id" }}
[upstreams.tree.calls.children]
path = "children"
cost = 1
records = {{ at = "/items", kind = "child", id = "/id", columns = {{ name = "/name" }} }}
[credentials.tree]
upstream = "tree"
limits = {{ daily = {{ quota = 100, window = "24h" }} }}
[jobs.tree]
credential = "tree"
[[jobs.tree.steps]]
call = "things"
[[jobs.tree.steps]]
call = "children"
params = {{ of = "{{ids}}" }}
ids = {{ from = "things", at = "{place}", batch = {batch} }}
"#
    );
    let mut world = World::written(&text, &[]);
    world.set(&format!("upstreams.tree.base_url={}", upstream.url()));
    world
}

fn items(items: &Value) -> StubAnswer {
    StubAnswer::json(&json!({ "items": items }))
}

fn run(world: &World) {
    let run = world.json(&["--region", "all"]);
    assert_eq!(run["outcome"], "complete", "{run}");
}

fn rows(world: &World, sql: &str) -> Vec<String> {
    let catalog = world.catalog();
    let mut statement = catalog.prepare(sql).unwrap();
    let width = statement.column_count();
    let rows = statement.query_map([], |row| {
        let cell = |column| {
            let text: Option<String> = row.get(column)?;
            Ok(text.unwrap_or_else(|| "-".to_owned()))
        };
        (0..width).map(cell).collect::<rusqlite::Result<Vec<_>>>()
    });
    rows.unwrap().map(|row| row.unwrap().join(" ")).collect()
}

const LISTED: &str = "select id, parent from listing where call = 'children' order by id, parent";
const VIEWED: &str = "select id, parent from tree_child order by id";

/// Two things of one owner, of two regions, and one of another.
fn owned(request: &StubRequest) -> StubAnswer {
    match request.path.rsplit('/').next() {
        Some("US") => items(&json!([{ "id": "t1", "owner": 1 }, { "id": "t2", "owner": 2 }])),
        Some("GB") => items(&json!([{ "id": "t3", "owner": 1 }, { "id": "t1", "owner": 1 }])),
        _ => items(&json!([{ "id": 1, "name": "one" }, { "id": 2, "name": "two" }])),
    }
}

#[test]
fn a_record_that_several_records_name_is_listed_under_each_of_them() {
    let upstream = StubUpstream::start(owned);
    let world = world(&upstream, "/owner", 50);
    run(&world);
    assert_eq!(rows(&world, LISTED), ["1 t1", "1 t3", "2 t2"]);
    assert_eq!(rows(&world, VIEWED), ["1 -", "2 t2"]);
    let joined = "select thing.id, child.body ->> '$.name' from record thing
        join listing on listing.parent = thing.id and listing.kind = 'child'
        join record child on child.kind = 'child' and child.id = listing.id
        where thing.kind = 'thing' order by 1";
    assert_eq!(rows(&world, joined), ["t1 one", "t2 two", "t3 one"]);
}

#[test]
fn a_list_of_each_parent_is_listed_under_it_also_where_two_share_a_record() {
    let upstream = StubUpstream::start(|request| match request.param("of") {
        None => items(&json!([{ "id": "C1" }, { "id": "C2" }])),
        Some(of) => items(&json!([{ "id": format!("message of {of}") }, { "id": "shared" }])),
    });
    let world = world(&upstream, "/id", 1);
    let listed = [
        "message of C1 C1",
        "message of C2 C2",
        "shared C1",
        "shared C2",
    ];
    for pass in ["1", "2"] {
        run(&world);
        let newest = "and pass = (select max(pass) from listing where call = 'children')";
        let newest = LISTED.replace("order", &format!("{newest} order"));
        assert_eq!(rows(&world, &newest), listed, "pass {pass}");
    }
    let viewed = ["message of C1 C1", "message of C2 C2", "shared -"];
    assert_eq!(rows(&world, VIEWED), viewed);
    let counts = "select count(*) from pass where records <> (select count(*) from (select 1 from listing where pass = pass.id
            group by step, id, requested, case when parent is null then position end))";
    assert_eq!(world.count(counts), 0);
}

fn channels_of_videos() -> PendingQuery {
    PendingQuery {
        scope: PassScope::Open,
        job: JOB.into(),
        upstream: "youtube".into(),
        listed_by: "videos.list".into(),
        listed_kind: "video".into(),
        at: pointer("/snippet/channelId").into(),
        kind: "channel".into(),
        fresh_since: at(0),
    }
}

async fn link(f: &Fixture, pass: PassId) {
    f.catalog
        .link_parents(pass, 1, channels_of_videos())
        .await
        .unwrap();
}

#[tokio::test]
async fn a_parent_that_is_listed_after_its_child_was_fetched_is_a_parent_too() {
    let f = Fixture::new();
    let listing = "select id, position, parent from listing where step = 1 order by position";
    let walk = f
        .land(&Page::of(vec![video_of("v1", "c")]).next("2"))
        .await
        .pass;
    let batch = f.land(&Page::channels(&["c", "d"], &["c", "x"])).await.pass;
    assert_eq!(f.rows(listing), ["c 1 -", "x 2 -"]);
    link(&f, batch).await;
    assert_eq!(f.rows(listing), ["c 1 v1", "x 2 -"]);
    f.land(&Page::of(vec![video_of("v2", "c")]).in_pass(walk))
        .await;
    for _ in 0..2 {
        link(&f, batch).await;
        assert_eq!(f.rows(listing), ["c 1 v1", "x 2 -", "c 3 v2"]);
    }
    let again = Page::channels(&["c", "d"], &["c"]).in_pass(batch);
    f.land(&again).await;
    link(&f, batch).await;
    assert_eq!(f.rows(listing), ["c 1 v1", "x 2 -", "c 3 v2"]);
    let records = format!("select records from pass where id = {}", batch.0);
    assert_eq!(
        f.rows(&records),
        ["2"],
        "a further parent is no further record"
    );
}
