//! Lists whose next pass begins where the last one ended, and that name what changed.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::support::json::has;
use crate::support::world::World;
use ingest_testing::stub_upstream::{StubAnswer, StubRequest, StubUpstream};

/// What happened at the upstream, in order: a record was written, or removed.
#[derive(Default)]
pub struct Feed {
    pub changes: Vec<(u64, Option<u64>)>,
    /// Cursors before this one are too old.
    pub oldest: usize,
}

impl Feed {
    pub fn write(&mut self, id: u64, version: u64) {
        self.changes.push((id, Some(version)));
    }

    /// The changes behind a cursor, each record as it is now; only those that are there where everything is listed.
    fn since(&self, cursor: Option<usize>) -> Vec<Value> {
        let behind = self.changes.iter().skip(cursor.unwrap_or(0));
        let mut ids: Vec<u64> = behind.map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids.dedup();
        let now = |id: u64| {
            let last = self.changes.iter().rfind(|(known, _)| *known == id);
            last.unwrap().1
        };
        let all = ids.into_iter().filter_map(|id| match now(id) {
            Some(version) => Some(json!({ "id": id, "version": version, "status": "confirmed" })),
            None if cursor.is_some() => Some(json!({ "id": id, "status": "cancelled" })),
            None => None,
        });
        all.collect()
    }
}

pub type Shared = Arc<Mutex<Feed>>;

pub fn feed() -> Shared {
    let mut feed = Feed::default();
    (1..=5).for_each(|id| feed.write(id, 1));
    Arc::new(Mutex::new(feed))
}

/// Pages of two changes. `begin` and `turn` are the parameters of the pass and of the page; an answer has what `leads` makes of
/// the cursors of the next page and of the next pass.
fn stub(
    feed: &Shared,
    (begin, turn): (&'static str, &'static str),
    leads: impl Fn(&StubRequest, Option<String>, Option<String>) -> Value + Send + Sync + 'static,
) -> StubUpstream {
    let feed = Arc::clone(feed);
    StubUpstream::start(move |request| {
        let feed = feed.lock().unwrap();
        let begins: Option<usize> = request.param(begin).map(|cursor| cursor.parse().unwrap());
        let place = request.param(turn).map(|place| {
            let (from, skipped) = place.split_once('.').unwrap();
            (from.parse().ok(), skipped.parse().unwrap())
        });
        let (from, skipped): (Option<usize>, usize) = place.unwrap_or((begins, 0));
        if from.is_some_and(|from| from < feed.oldest) {
            return StubAnswer::error(410, &json!({ "error": { "message": "Sync again." } }));
        }
        let changes = feed.since(from);
        let page: Vec<Value> = changes.iter().skip(skipped).take(2).cloned().collect();
        let (next, end) = match skipped + 2 < changes.len() {
            true => {
                let from = from.map_or("all".to_owned(), |from| from.to_string());
                (Some(format!("{from}.{}", skipped + 2)), None)
            }
            false => (None, Some(feed.changes.len().to_string())),
        };
        let mut body = leads(request, next, end);
        body["items"] = page.into();
        StubAnswer::json(&body)
    })
}

fn world(page: &str, call: &str, stub: &StubUpstream) -> World {
    let text = format!(
        "regions = [\"US\"]\n[upstreams.feed]\nbase_url = \"https://feed.example.com\"\n\
         [upstreams.feed.calls.list]\npath = \"events\"\ncost = 1\npage = {page}\n{call}\
         records = {{ at = \"/items\", kind = \"event\", id = \"/id\", removed = {{ at = \"/status\", is = \"cancelled\" }} }}\n\
         [jobs.events]\ncredential = \"feed\"\nsteps = [{{ call = \"list\" }}]\n\
         [credentials.feed]\nupstream = \"feed\"\nlimits = {{ daily = {{ quota = 10_000, window = \"24h\" }} }}\n"
    );
    World::upon(stub, &text)
}

/// The outcome, the requests and the records of the next run.
pub fn run(world: &World) -> (String, u64, u64) {
    let pass = world.json(&["--region", "US"])["passes"][0].clone();
    let number = |name: &str| pass[name].as_u64().unwrap();
    let outcome = pass["outcome"].as_str().unwrap().to_owned();
    (outcome, number("requests"), number("records"))
}

pub fn complete(requests: u64, records: u64) -> (String, u64, u64) {
    ("complete".to_owned(), requests, records)
}

/// The records that are not gone, with their versions.
fn stored(world: &World) -> Vec<(String, i64)> {
    let catalog = world.catalog();
    let mut query = catalog
        .prepare("select id, json_extract(body, '$.version') from record where gone_at is null order by id")
        .unwrap();
    let rows = query.query_map([], |row| row.try_into());
    rows.unwrap().collect::<Result<_, _>>().unwrap()
}

fn versions(of: &[(&str, i64)]) -> Vec<(String, i64)> {
    of.iter()
        .map(|(id, version)| ((*id).to_owned(), *version))
        .collect()
}

/// A feed whose next pass begins with a parameter of its own.
pub fn synced(feed: &Shared) -> (StubUpstream, World) {
    let stub = stub(
        feed,
        ("sync", "page"),
        |_, next, end| json!({ "next": next, "sync": end }),
    );
    let page = r#"{ kind = "token", param = "page", next = "/next", lasting = "/sync", lasting_param = "sync" }"#;
    let world = world(page, "", &stub);
    (stub, world)
}

#[test]
fn the_next_pass_names_what_changed_and_what_was_removed() {
    let feed = feed();
    let (stub, world) = synced(&feed);
    assert_eq!(run(&world), complete(3, 5));
    assert_eq!(run(&world), complete(1, 0), "nothing changed");
    {
        let mut feed = feed.lock().unwrap();
        feed.write(2, 2);
        feed.write(6, 1);
        feed.changes.push((3, None));
    }
    let preview = world.json(&["--region", "US", "--dry-run"]);
    assert_eq!(preview["steps"][0]["requests"]["expected"], 1, "{preview}");
    assert_eq!(run(&world), complete(2, 2));
    let all = [("1", 1), ("2", 2), ("4", 1), ("5", 1), ("6", 1)];
    assert_eq!(
        stored(&world),
        versions(&all),
        "what is not named is not gone"
    );
    let begins = |request: &StubRequest| request.param("sync").map(str::to_owned);
    let begins: Vec<_> = stub.requests().iter().map(begins).collect();
    let expected = [None, None, None, Some("5"), Some("5"), Some("5")];
    assert_eq!(begins, expected.map(|begins| begins.map(str::to_owned)));
    let body = "select json_extract(body, '$.version') from record where id = '3'";
    assert_eq!(world.count(body), 1, "a removed record keeps its body");
}

#[test]
fn a_pass_begins_anew_once_where_the_cursor_is_too_old() {
    let feed = feed();
    let (_stub, mut world) = synced(&feed);
    assert_eq!(run(&world), complete(3, 5));
    feed.lock().unwrap().oldest = 6;
    feed.lock().unwrap().write(6, 1);
    let pass = world.json(&["--region", "US"])["passes"][0].clone();
    let detail = pass["detail"].as_str().unwrap();
    assert!(detail.contains("everything is listed again"), "{detail}");
    has(&pass, &json!({ "outcome": "complete", "requests": 4 }));
    assert_eq!(run(&world), complete(1, 0));
    // The same by a rule, for another status.
    feed.lock().unwrap().oldest = 7;
    feed.lock().unwrap().write(7, 1);
    world.set("upstreams.feed.errors=[{ status = 410, class = \"old_cursor\" }]");
    assert_eq!(run(&world), complete(5, 7));
    assert_eq!(stored(&world).len(), 7);
}

fn gone(world: &World) -> Vec<String> {
    let catalog = world.catalog();
    let mut query = catalog
        .prepare("select id from record where gone_at is not null order by id")
        .unwrap();
    let rows = query.query_map([], |row| row.get(0));
    rows.unwrap().collect::<Result<_, _>>().unwrap()
}

#[test]
fn a_pass_that_lists_everything_again_marks_what_was_removed_unseen() {
    let feed = feed();
    let (_stub, mut world) = synced(&feed);
    assert_eq!(run(&world), complete(3, 5));
    feed.lock().unwrap().write(6, 1);
    assert_eq!(run(&world), complete(1, 1), "a list of its own");
    {
        let mut feed = feed.lock().unwrap();
        feed.changes.extend([(1, None), (6, None)]);
        feed.oldest = 8;
    }
    // The full list is resumed.
    world.set("credentials.feed.limits.daily.quota=6");
    assert_eq!(run(&world).0, "stopped");
    assert_eq!(gone(&world), [""; 0]);
    world.set("credentials.feed.limits.daily.quota=100");
    assert_eq!(run(&world).0, "complete");
    assert_eq!(gone(&world), ["1", "6"]);
    feed.lock().unwrap().write(7, 1);
    assert_eq!(run(&world), complete(1, 1));
    feed.lock().unwrap().changes.push((7, None));
    world.json(&["--region", "US", "--job", "events", "--relist"]);
    assert_eq!(
        gone(&world),
        ["1", "6", "7"],
        "--relist lists everything too"
    );
    assert_eq!(run(&world), complete(1, 0));
}

#[test]
fn a_feed_that_names_no_removed_record_loses_none_by_a_full_list() {
    let feed = feed();
    let (_stub, mut world) = synced(&feed);
    world.set(
        "upstreams.feed.calls.list.records={ at = \"/items\", kind = \"event\", id = \"/id\" }",
    );
    assert_eq!(run(&world), complete(3, 5));
    feed.lock().unwrap().changes.push((1, None));
    feed.lock().unwrap().oldest = 6;
    assert_eq!(run(&world).0, "complete");
    assert_eq!(gone(&world), [""; 0]);
}

#[test]
fn a_slice_keeps_no_cursor_since_it_is_fetched_once() {
    let feed = feed();
    let (stub, mut world) = synced(&feed);
    world.set("jobs.events.slices={ from = \"2024-01-01\", to = \"2024-01-03\", step = \"1d\" }");
    world.set("jobs.events.steps=[{ call = \"list\", params = { day = \"{slice.from:%F}\" } }]");
    world.json(&["--region", "US"]);
    world.json(&["--region", "US", "--job", "events", "--relist"]);
    assert_eq!(begun(&stub, "sync"), vec![None; 12]);
    assert_eq!(world.count("select count(*) from lasting_cursor"), 0);
}

/// A list of two calendars, and for each of them the changes of the feed.
fn calendars(feed: &Shared) -> (StubUpstream, World) {
    let answered = Arc::clone(feed);
    let stub = StubUpstream::start(move |request| {
        let feed = answered.lock().unwrap();
        let Some(calendar) = request.path.strip_prefix("/events/") else {
            return StubAnswer::json(&json!({ "items": [{ "id": "a" }, { "id": "b" }] }));
        };
        let from: Option<usize> = request.param("sync").map(|from| from.parse().unwrap());
        if from.is_some_and(|from| from < feed.oldest) {
            return StubAnswer::error(410, &json!({ "error": { "message": "Sync again." } }));
        }
        let mut items = feed.since(from);
        for item in &mut items {
            item["id"] = format!("{calendar}{}", item["id"]).into();
        }
        StubAnswer::json(&json!({ "items": items, "sync": feed.changes.len().to_string() }))
    });
    let mut world = world("{ kind = \"none\" }", "", &stub);
    world
        .set(
            "upstreams.feed.calls.events={ path = \"events/{id}\", cost = 1, page = { kind = \"token\", param = \"page\", \
             next = \"/next\", lasting = \"/sync\", lasting_param = \"sync\" }, records = { at = \"/items\", kind = \"entry\", \
             id = \"/id\", removed = { at = \"/status\", is = \"cancelled\" } } }",
        )
        .set("jobs.events.steps=[{ call = \"list\" }, { call = \"events\", ids = { from = \"list\", at = \"/id\", batch = 1 } }]");
    (stub, world)
}

/// Where the lists of the calendars begin in one more run.
fn next_begins(stub: &StubUpstream, world: &World, options: &[&str]) -> Vec<Option<String>> {
    let before = stub.requests().len();
    world.json(&[&["--region", "US"], options].concat());
    let requests = stub.requests().split_off(before);
    let of_ids = requests
        .iter()
        .filter(|one| one.path.starts_with("/events/"));
    let begins = of_ids.map(|one| one.param("sync").map(str::to_owned));
    let mut begins: Vec<_> = begins.collect();
    begins.sort();
    begins
}

#[test]
fn each_id_has_a_cursor_of_its_own() {
    let feed = feed();
    let (stub, world) = calendars(&feed);
    assert_eq!(next_begins(&stub, &world, &[]), [None, None]);
    assert_eq!(
        world.count("select count(*) from record where kind = 'entry'"),
        10
    );
    feed.lock().unwrap().changes.push((5, None));
    let at = |cursor: &str| Some(cursor.to_owned());
    assert_eq!(next_begins(&stub, &world, &[]), [at("5"), at("5")]);
    let gone = "select count(*) from record where kind = 'entry' and gone_at is not null";
    assert_eq!(world.count(gone), 2);
    feed.lock().unwrap().oldest = 7;
    feed.lock().unwrap().write(6, 1);
    let anew = next_begins(&stub, &world, &[]);
    assert_eq!(anew, [None, None, at("6"), at("6")], "each anew, once");
    assert_eq!(next_begins(&stub, &world, &[]), [at("7"), at("7")]);
}

#[test]
fn relist_begins_the_lists_of_ids_without_a_cursor_and_so_does_the_run_that_continues_it() {
    let feed = feed();
    let (stub, mut world) = calendars(&feed);
    assert_eq!(next_begins(&stub, &world, &[]), [None, None]);
    let relist = ["--job", "events", "--relist"];
    assert_eq!(next_begins(&stub, &world, &relist), [None, None]);
    let at = |cursor: &str| Some(cursor.to_owned());
    assert_eq!(next_begins(&stub, &world, &[]), [at("5"), at("5")]);
    // Behind the list that names the ids, and behind the first of them.
    for (quota, left) in [(10, 2), (14, 1)] {
        world.set(&format!("credentials.feed.limits.daily.quota={quota}"));
        let begun = next_begins(&stub, &world, &relist);
        assert_eq!(begun, vec![None; 2 - left], "{quota}");
        world.set("credentials.feed.limits.daily.quota=100");
        assert_eq!(next_begins(&stub, &world, &[]), vec![None; left], "{quota}");
    }
    assert_eq!(next_begins(&stub, &world, &[]), [at("5"), at("5")]);
}

#[test]
fn relist_gives_up_a_list_of_an_id_that_an_earlier_run_left_between_two_pages() {
    let stub = StubUpstream::start(|request| {
        let Some(calendar) = request.path.strip_prefix("/events/") else {
            return StubAnswer::json(&json!({ "items": [{ "id": "a" }] }));
        };
        let page: u32 = request
            .param("page")
            .map_or(0, |page| page.parse().unwrap());
        let next = (page < 2).then(|| (page + 1).to_string());
        StubAnswer::json(&json!({ "items": [{ "id": format!("{calendar}{page}") }], "next": next }))
    });
    let mut world = world("{ kind = \"none\" }", "", &stub);
    world
        .set(
            "upstreams.feed.calls.events={ path = \"events/{id}\", cost = 1, page = { kind = \"token\", param = \"page\", \
             next = \"/next\" }, records = { at = \"/items\", kind = \"entry\", id = \"/id\" } }",
        )
        .set("jobs.events.steps=[{ call = \"list\" }, { call = \"events\", ids = { from = \"list\", at = \"/id\", batch = 1 } }]")
        .set("credentials.feed.limits.daily.quota=2");
    world.json(&["--region", "US"]);
    assert_eq!(stub.requests().len(), 2);
    world.set("credentials.feed.limits.daily.quota=100");
    let before = stub.requests().len();
    world.json(&["--region", "US", "--job", "events", "--relist"]);
    let pages = stub.requests().split_off(before);
    let pages: Vec<_> = pages.iter().map(|one| one.param("page")).collect();
    assert_eq!(pages, [None, None, Some("1"), Some("2")]);
    assert_eq!(
        world.count("select count(*) from record where kind = 'entry'"),
        3
    );
}

#[test]
fn a_pass_that_does_not_complete_keeps_the_former_cursor() {
    let feed = feed();
    let (stub, mut world) = synced(&feed);
    assert_eq!(run(&world), complete(3, 5));
    (11..=15).for_each(|id| feed.lock().unwrap().write(id, 1));
    world.set("credentials.feed.limits.daily.quota=5");
    let (outcome, requests, _) = run(&world);
    assert_eq!((&*outcome, requests), ("stopped", 2));
    world.set("credentials.feed.limits.daily.quota=50");
    assert_eq!(run(&world), complete(1, 1));
    let last = stub.requests().pop().unwrap();
    assert_eq!(
        last.param("sync"),
        Some("5"),
        "all pages of a pass carry its cursor"
    );
}

#[test]
fn the_sandbox_knows_lists_that_go_on_where_the_last_one_ended() {
    let pages = [
        r#"{ kind = "token", param = "page", next = "/next", size_param = "limit", size = 3, lasting = "/sync", lasting_param = "sync" }"#,
        r#"{ kind = "token", param = "page", next = "/next", size_param = "limit", size = 3, lasting = "last" }"#,
        r#"{ kind = "token", param = "page", next = "/next", done = "/done", size_param = "limit", size = 3, lasting = "last" }"#,
        r#"{ kind = "next_url", next = "/next", lasting = "/delta" }"#,
    ];
    for page in pages {
        let stub = stub(&feed(), ("sync", "page"), |_, _, _| json!({}));
        let mut world = world(page, "", &stub);
        world.set("upstreams.feed.errors=[{ status = 400, at = \"/error/code\", is = \"syncStateNotFound\", class = \"old_cursor\" }]");
        let sandboxed = || {
            let pass = world.json(&["--region", "US", "--sandbox"])["passes"][0].clone();
            assert_eq!(pass["outcome"], "complete", "{page}: {pass}");
            let number = |name: &str| pass[name].as_u64().unwrap();
            (number("requests"), number("records"))
        };
        let gone = || {
            let exported = world.ingest(&["export", "--sandbox", "--format", "csv"]);
            let rows = exported.stdout.lines();
            rows.filter(|row| row.contains("cancelled")).count()
        };
        let (requests, records) = sandboxed();
        // Where an empty page ends the list, each pass has one.
        let empty = u64::from(page.contains("\"last\"") && !page.contains("done"));
        for _ in 0..6 {
            assert_eq!(sandboxed(), (1 + empty, 1), "{page}");
        }
        assert_eq!(gone(), 0);
        assert_eq!(sandboxed(), (1 + requests, records), "too old: {page}");
        assert_eq!(sandboxed(), (1 + empty, 1), "{page}");
        assert_eq!(stub.requests().len(), 0);
    }
}

/// A feed whose answers are `body` of the parameter `cursor`.
fn answering(
    page: &str,
    body: impl Fn(Option<&str>) -> StubAnswer + Send + Sync + 'static,
) -> (StubUpstream, World) {
    let stub = StubUpstream::start(move |request| {
        let place = request.param("cursor").or(request.param("from"));
        body(place)
    });
    let world = world(page, "", &stub);
    (stub, world)
}

fn begun(stub: &StubUpstream, param: &str) -> Vec<Option<String>> {
    let requests = stub.requests();
    let begins = requests
        .iter()
        .map(|one| one.param(param).map(str::to_owned));
    begins.collect()
}

fn cursors(of: &[&str]) -> Vec<Option<String>> {
    let given = of.iter().map(|cursor| Some((*cursor).to_owned()));
    std::iter::once(None).chain(given).collect()
}

#[test]
fn a_feed_whose_flag_has_another_name_is_doubtful_and_keeps_its_cursor() {
    let renamed = Arc::new(Mutex::new(false));
    let is_renamed = Arc::clone(&renamed);
    let (stub, mut world) = answering(
        r#"{ kind = "token", param = "cursor", next = "/after", done = "/done", lasting = "last" }"#,
        move |cursor| {
            let at: u64 = cursor.map_or(0, |cursor| cursor.parse().unwrap());
            let renamed = *is_renamed.lock().unwrap();
            let last = if renamed { 4 } else { 2 };
            let items: Vec<Value> = (at..last).take(2).map(|id| json!({ "id": id })).collect();
            let after = at + items.len() as u64;
            let done = if renamed { "is_done" } else { "done" };
            StubAnswer::json(
                &json!({ "items": items, "after": after.to_string(), done: after == last }),
            )
        },
    );
    world.set("jobs.events.every=\"1ms\"");
    assert_eq!(run(&world), complete(1, 2));
    *renamed.lock().unwrap() = true;
    assert_eq!(run(&world).0, "doubtful");
    world.set("upstreams.feed.calls.list.trust=[\"place-missing\"]");
    assert_eq!(run(&world), complete(2, 2));
    let begins = begun(&stub, "cursor");
    assert_eq!(begins, cursors(&["2", "4", "2", "4"]));
}

#[test]
fn a_doubtful_pass_stores_no_cursor() {
    let feed = feed();
    let broken = Arc::new(Mutex::new(false));
    let is_broken = Arc::clone(&broken);
    let stub = stub(
        &feed,
        ("sync", "page"),
        move |_, next, end| match *is_broken.lock().unwrap() {
            true => json!({ "next": null, "sync": null }),
            false => json!({ "next": next, "sync": end }),
        },
    );
    let page = r#"{ kind = "token", param = "page", next = "/next", lasting = "/sync", lasting_param = "sync" }"#;
    let mut world = world(page, "", &stub);
    world.set("jobs.events.every=\"1ms\"");
    *broken.lock().unwrap() = true;
    let ran = world.ingest(&["--region", "US", "-q"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stderr.contains("`/sync` (`page.lasting`)"), "{ran:?}");
    let status = world.json(&["status"]);
    assert_eq!(status["regions"][0]["doubts"][0]["doubt"], "next-unnamed");
    *broken.lock().unwrap() = false;
    assert_eq!(run(&world), complete(3, 5));
    assert_eq!(begun(&stub, "sync"), vec![None; 4]);
    // A cursor that was stored before the doubt begins the next pass again.
    feed.lock().unwrap().write(7, 1);
    *broken.lock().unwrap() = true;
    assert_eq!(run(&world).0, "doubtful");
    *broken.lock().unwrap() = false;
    assert_eq!(run(&world), complete(1, 1));
    assert_eq!(begun(&stub, "sync").split_off(4), cursors(&["5", "5"])[1..]);
}

#[test]
fn status_says_that_a_region_goes_on_at_a_cursor_and_relist_lists_everything() {
    let feed = feed();
    let (stub, world) = synced(&feed);
    let status = world.json(&["status"]);
    assert_eq!(status["regions"][0]["begins_at_cursor"], Value::Null);
    assert_eq!(run(&world), complete(3, 5));
    let status = world.json(&["status"]);
    assert_eq!(status["regions"][0]["begins_at_cursor"], json!(["list"]));
    let text = world.ingest(&["status"]).stdout;
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.contains("events US: list goes on at the cursor of the last complete pass"),
        "{text}"
    );
    let preview = world.json(&["--region", "US", "--job", "events", "--relist", "--dry-run"]);
    assert_eq!(preview["steps"][0]["requests"]["expected"], 3, "{preview}");
    let relisted = world.json(&["--region", "US", "--job", "events", "--relist"]);
    assert_eq!(relisted["passes"][0]["requests"], 3, "{relisted}");
    assert_eq!(begun(&stub, "sync"), vec![None; 6]);
    assert_eq!(run(&world), complete(1, 0), "it has a cursor again");
}

#[test]
fn try_sends_the_request_of_the_next_pass_and_shows_where_the_one_behind_it_begins() {
    let feed = feed();
    let (stub, world) = synced(&feed);
    assert_eq!(run(&world), complete(3, 5));
    feed.lock().unwrap().write(6, 1);
    let tried = world.json(&["try", "feed", "list"]);
    has(&tried, &json!({ "record_count": 1, "lasting": "6" }));
    let shown = world.ingest(&["try", "feed", "list"]);
    assert!(
        shown.stdout.contains("The next pass begins at: 6"),
        "{shown:?}"
    );
    assert_eq!(run(&world), complete(1, 1));
    assert_eq!(run(&world), complete(1, 0));
    let begins = begun(&stub, "sync").split_off(3);
    assert_eq!(begins, cursors(&["5", "5", "5", "6"])[1..]);
}
