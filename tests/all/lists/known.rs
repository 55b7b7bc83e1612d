//! Feeds that list the newest first: a pass stops at the first page of which all records are known and unchanged.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::lasting::{complete, run};
use crate::support::json::says;
use crate::support::world::World;
use ingest_testing::stub_upstream::{StubAnswer, StubRequest, StubUpstream};

/// Records with their versions, the newest first.
#[derive(Default)]
pub struct Feed(pub Vec<(i64, i64)>);

impl Feed {
    pub fn add(&mut self, id: i64) {
        self.0.insert(0, (id, 1));
    }

    /// Changes a record, which moves to the front.
    pub fn change(&mut self, id: i64) {
        let at = self.place(id);
        let (id, version) = self.0.remove(at);
        self.0.insert(0, (id, version + 1));
    }

    /// Changes a record, which stays where it is.
    pub fn change_in_place(&mut self, id: i64) {
        let at = self.place(id);
        self.0[at].1 += 1;
    }

    pub fn remove(&mut self, id: i64) {
        let at = self.place(id);
        self.0.remove(at);
    }

    fn place(&self, id: i64) -> usize {
        self.0.iter().position(|(known, _)| *known == id).unwrap()
    }

    /// A page of two records, by its number.
    pub fn page(&self, request: &StubRequest) -> Value {
        let page: usize = request
            .param("page")
            .map_or(1, |page| page.parse().unwrap());
        let item = |(id, version): &(i64, i64)| json!({ "id": id, "version": version });
        let items: Vec<Value> = self
            .0
            .iter()
            .skip(2 * (page - 1))
            .take(2)
            .map(item)
            .collect();
        json!({ "items": items, "more": 2 * page < self.0.len(), "total": self.0.len() })
    }
}

pub type Shared = Arc<Mutex<Feed>>;

/// A feed of eight records: four pages.
pub fn feed() -> Shared {
    let mut feed = Feed::default();
    (1..=8).for_each(|id| feed.add(id));
    Arc::new(Mutex::new(feed))
}

pub fn stub(feed: &Shared) -> StubUpstream {
    let feed = Arc::clone(feed);
    StubUpstream::start(move |request| StubAnswer::json(&feed.lock().unwrap().page(request)))
}

pub const NEVER: &str = "stop_at_known = { complete_every = \"never\" }";

/// The configuration of a feed whose step has this key.
pub fn text(step: &str) -> String {
    format!(
        "regions = [\"US\"]\n[upstreams.feed]\nbase_url = \"https://feed.example.com\"\n\
         [upstreams.feed.calls.list]\npath = \"posts\"\ncost = 1\n\
         page = {{ kind = \"number\", param = \"page\", more = \"/more\" }}\n\
         records = {{ at = \"/items\", kind = \"post\", id = \"/id\" }}\n\
         [jobs.posts]\ncredential = \"feed\"\nsteps = [{{ call = \"list\", {step} }}]\n\
         [credentials.feed]\nupstream = \"feed\"\nlimits = {{ daily = {{ quota = 10_000, window = \"24h\" }} }}\n"
    )
}

pub fn world(step: &str, stub: &StubUpstream) -> World {
    World::upon(stub, &text(step))
}

/// The records in the catalog with their versions, the gone ones left out.
fn stored(world: &World) -> Vec<(i64, i64)> {
    let catalog = world.catalog();
    let sql = "select cast(id as integer), json_extract(body, '$.version') from record where gone_at is null order by 1";
    let mut query = catalog.prepare(sql).unwrap();
    let rows = query.query_map([], |row| row.try_into());
    rows.unwrap().collect::<Result<_, _>>().unwrap()
}

fn held(feed: &Shared) -> Vec<(i64, i64)> {
    let mut held = feed.lock().unwrap().0.clone();
    held.sort_unstable();
    held
}

/// From now on, passes read the whole list.
fn walk(world: &mut World) {
    world.set(
        "jobs.posts.steps=[{ call = \"list\", stop_at_known = { complete_every = \"1ms\" } }]",
    );
}

fn stop(world: &mut World) {
    world.set(&format!(
        "jobs.posts.steps=[{{ call = \"list\", {NEVER} }}]"
    ));
}

#[test]
fn a_pass_stops_at_the_first_page_that_is_known_and_unchanged() {
    let feed = feed();
    let stub = stub(&feed);
    let world = world(NEVER, &stub);
    assert_eq!(
        run(&world),
        complete(4, 8),
        "the first pass reads everything"
    );
    assert_eq!(run(&world), complete(1, 2), "nothing is new");
    feed.lock().unwrap().add(9);
    assert_eq!(
        run(&world),
        complete(2, 4),
        "the page behind the new record is known"
    );
    feed.lock().unwrap().change(3);
    assert_eq!(run(&world), complete(2, 4), "so it is behind a changed one");
    (10..=13).for_each(|id| feed.lock().unwrap().add(id));
    assert_eq!(run(&world), complete(3, 6));
    assert_eq!(stored(&world), held(&feed));
    assert_eq!(run(&world), complete(1, 2));
}

#[test]
fn what_is_behind_the_stop_stays_and_only_a_complete_pass_finds_what_changed_in_place_or_went() {
    let feed = feed();
    let stub = stub(&feed);
    let mut world = world(NEVER, &stub);
    assert_eq!(run(&world), complete(4, 8));
    feed.lock().unwrap().add(9);
    assert_eq!(run(&world), complete(2, 4));
    feed.lock().unwrap().remove(1);
    feed.lock().unwrap().remove(9);
    feed.lock().unwrap().change_in_place(2);
    assert_eq!(run(&world), complete(1, 2));
    let all: Vec<_> = (1..=9).map(|id| (id, 1)).collect();
    assert_eq!(stored(&world), all, "absence proves nothing");
    walk(&mut world);
    assert_eq!(run(&world), complete(4, 7));
    stop(&mut world);
    assert_eq!(run(&world), complete(1, 2));
    let now = held(&feed);
    assert_eq!(
        stored(&world),
        now,
        "the records of all passes before count as listed"
    );
    feed.lock().unwrap().remove(4);
    world.json(&["--region", "US", "--job", "posts", "--relist"]);
    assert_eq!(
        stored(&world),
        now,
        "what went is marked by the pass behind it"
    );
    assert_eq!(run(&world), complete(1, 2));
    assert_eq!(stored(&world), held(&feed), "--relist reads everything too");
}

#[test]
fn a_record_that_moves_to_the_front_while_everything_is_read_is_not_gone() {
    let feed = feed();
    let answering = Arc::clone(&feed);
    let changing = Arc::new(Mutex::new(None));
    let changed = Arc::clone(&changing);
    let stub = StubUpstream::start(move |request| {
        let mut feed = answering.lock().unwrap();
        // A cursor that names the last record: what moves to the front moves nothing behind it.
        let cursor = request.param("page").map(|id| id.parse().unwrap());
        let begin = cursor.map_or(0, |id| feed.place(id) + 1);
        let page: Vec<_> = feed.0.iter().skip(begin).take(2).copied().collect();
        let items = page
            .iter()
            .map(|(id, version)| json!({ "id": id, "version": version }));
        let body = json!({ "items": items.collect::<Vec<_>>(), "next": page.get(1).map(|last| last.0.to_string()) });
        if let Some(id) = changed.lock().unwrap().take() {
            feed.change(id);
        }
        StubAnswer::json(&body)
    });
    let mut world = world(NEVER, &stub);
    world.set("upstreams.feed.calls.list.page={ kind = \"token\", param = \"page\", next = \"/next\", empty_page_ends = true }");
    assert_eq!(run(&world).0, "complete");
    walk(&mut world);
    *changing.lock().unwrap() = Some(1);
    feed.lock().unwrap().remove(2);
    assert_eq!(run(&world), complete(4, 6), "it lacks 1 and 2");
    stop(&mut world);
    assert_eq!(run(&world).0, "complete");
    assert_eq!(
        stored(&world),
        held(&feed),
        "1 is at the front now, and 2 is gone"
    );
}

#[test]
fn without_the_key_a_list_is_read_to_its_end_and_loses_what_earlier_passes_knew() {
    let feed = feed();
    let stub = stub(&feed);
    let mut world = world(NEVER, &stub);
    assert_eq!(run(&world), complete(4, 8));
    assert_eq!(run(&world), complete(1, 2));
    feed.lock().unwrap().remove(1);
    world.set("jobs.posts.steps=[{ call = \"list\" }]");
    assert_eq!(run(&world), complete(4, 7));
    assert_eq!(stored(&world), held(&feed));
    stop(&mut world);
    assert_eq!(
        run(&world),
        complete(4, 7),
        "passes without the key remember no list"
    );
    assert_eq!(run(&world), complete(1, 2));
}

#[test]
fn each_region_knows_its_own_list() {
    let feed = feed();
    let stub = stub(&feed);
    let mut world = world(NEVER, &stub);
    world.set("regions=[\"US\", \"GB\"]");
    world.set("upstreams.feed.calls.list.path=\"posts/{region}\"");
    let of = |world: &World, region: &str| {
        let pass = world.json(&["--region", region])["passes"][0].clone();
        pass["requests"].as_u64().unwrap()
    };
    assert_eq!(of(&world, "US"), 4);
    assert_eq!(
        of(&world, "GB"),
        4,
        "the same records, read by another region"
    );
    feed.lock().unwrap().add(9);
    assert_eq!((of(&world, "US"), of(&world, "US")), (2, 1));
    assert_eq!((of(&world, "GB"), of(&world, "GB")), (2, 1));
}

#[test]
fn an_empty_page_shows_nothing() {
    let feed = feed();
    let answering = Arc::clone(&feed);
    let empty = Arc::new(Mutex::new(false));
    let is_empty = Arc::clone(&empty);
    let stub = StubUpstream::start(move |request| {
        let mut page = answering.lock().unwrap().page(request);
        let number: i64 = request
            .param("page")
            .map_or(1, |page| page.parse().unwrap());
        if page["more"] == true {
            page["next"] = (number + 1).to_string().into();
        }
        if *is_empty.lock().unwrap() && number == 1 {
            page["items"] = json!([]);
        }
        StubAnswer::json(&page)
    });
    let mut world = world(NEVER, &stub);
    world.set(
        "upstreams.feed.calls.list.page={ kind = \"token\", param = \"page\", next = \"/next\" }",
    );
    assert_eq!(run(&world), complete(4, 8));
    *empty.lock().unwrap() = true;
    assert_eq!(
        run(&world),
        complete(2, 2),
        "it leads on, to a page that is known"
    );
}

#[test]
fn a_record_without_an_id_keeps_its_page_from_being_known() {
    let feed = feed();
    let answering = Arc::clone(&feed);
    let stub = StubUpstream::start(move |request| {
        let mut page = answering.lock().unwrap().page(request);
        if request.param("page") == Some("1") {
            page["items"]
                .as_array_mut()
                .unwrap()
                .push(json!({ "id": null }));
        }
        StubAnswer::json(&page)
    });
    let mut world = world(NEVER, &stub);
    assert_eq!(
        run(&world),
        ("doubtful".to_owned(), 4, 8),
        "no later pass would find it"
    );
    world.set("upstreams.feed.calls.list.trust=[\"ids-missing\"]");
    assert_eq!(
        run(&world),
        complete(4, 8),
        "a doubtful pass is known to none"
    );
    assert_eq!(run(&world), complete(2, 4));
}

#[test]
fn a_list_that_lost_records_while_it_was_read_is_not_known() {
    let feed = feed();
    let answering = Arc::clone(&feed);
    let removing = Arc::new(Mutex::new(None));
    let removed = Arc::clone(&removing);
    let stub = StubUpstream::start(move |request| {
        let mut feed = answering.lock().unwrap();
        let page = feed.page(request);
        if let Some(id) = removed.lock().unwrap().take() {
            feed.remove(id);
        }
        StubAnswer::json(&page)
    });
    let mut world = world(NEVER, &stub);
    world.set("upstreams.feed.calls.list.page={ kind = \"number\", param = \"page\", size = 2, total = \"/total\" }");
    assert_eq!(run(&world), complete(4, 8));
    (9..=14).for_each(|id| feed.lock().unwrap().add(id));
    // Behind the first page: record 12 slips from the second page to the first.
    *removing.lock().unwrap() = Some(14);
    let pass = world.json(&["--region", "US"])["passes"][0].clone();
    let detail = pass["detail"].as_str().unwrap();
    assert!(
        detail.contains("reads on to what the passes before this one knew"),
        "{pass}"
    );
    assert_ne!(stored(&world).len(), 14, "12 was passed over");
    assert_eq!(run(&world), complete(4, 8));
    assert!(stored(&world).contains(&(12, 1)));
    assert_eq!(run(&world), complete(1, 2));
}

#[test]
fn another_reading_of_the_same_list_is_read_to_its_end() {
    let feed = feed();
    let stub = stub(&feed);
    let mut world = world(NEVER, &stub);
    assert_eq!(run(&world), complete(4, 8));
    world.set("upstreams.feed.calls.list.records.id=[\"/id\", \"/version\"]");
    assert_eq!(run(&world), complete(4, 8), "these ids are not known");
    assert_eq!(run(&world), complete(1, 2));
    world.set("upstreams.feed.calls.list.params={ sort = \"changed\" }");
    assert_eq!(run(&world), complete(4, 8), "neither is this list");
    assert_eq!(run(&world), complete(1, 2));
}

#[test]
fn a_preview_says_where_a_list_stops_and_when_everything_is_read_again() {
    let feed = feed();
    let stub = stub(&feed);
    let mut world = world("stop_at_known = { complete_every = \"7d\" }", &stub);
    let dry = |world: &World| world.json(&["--region", "US", "--dry-run"])["steps"][0].clone();
    assert_eq!(
        dry(&world)["stops_at_known"],
        json!({ "reads": "everything", "complete_at": null })
    );
    assert_eq!(run(&world), complete(4, 8));
    let step = dry(&world);
    assert_eq!(
        step["requests"],
        json!({ "min": 1, "expected": 1, "max": null }),
        "{step}"
    );
    assert_eq!(step["stops_at_known"]["reads"], "what_is_new", "{step}");
    assert!(step["stops_at_known"]["complete_at"].is_string(), "{step}");
    let shown = world.ingest(&["--region", "US", "--dry-run"]).stdout;
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        shown.contains("list stops at the first page that is known"),
        "{shown}"
    );
    assert!(shown.contains("everything is read again from"), "{shown}");
    assert_eq!(run(&world), complete(1, 2));
    walk(&mut world);
    let step = dry(&world);
    assert_eq!(
        step["requests"]["expected"], 4,
        "as many pages as when all were read: {step}"
    );
    assert_eq!(step["stops_at_known"]["reads"], "everything", "{step}");
    assert_eq!(run(&world), complete(4, 8));
}

#[test]
fn try_says_where_a_run_would_stop() {
    let feed = feed();
    let stub = stub(&feed);
    let world = world(NEVER, &stub);
    assert_eq!(run(&world), complete(4, 8));
    let tried = world.json(&["try", "feed", "list"]);
    let goes_on = tried["goes_on"].as_str().unwrap();
    assert!(goes_on.contains("stop_at_known"), "{tried}");
}

#[test]
fn the_stand_in_serves_a_feed_whose_newest_records_come_first() {
    let text = text("stop_at_known = { complete_every = \"7d\" }").replace(
        "more = \"/more\"",
        "size_param = \"size\", size = 10, total = \"/total\"",
    );
    let world = World::written(&text, &[]);
    world.totals(&json!({ "list": 45 }));
    assert_eq!(run(&world), complete(5, 45));
    assert_eq!(run(&world), complete(1, 10));
    world.totals(&json!({ "list": 57 }));
    assert_eq!(run(&world), complete(3, 30), "twelve are new");
    assert_eq!(
        world.count("select count(*) from record where gone_at is null"),
        57
    );
    let dry = world.json(&["--region", "US", "--dry-run"]);
    assert_eq!(dry["limits"][0]["expected"], 1, "{dry}");
    assert_eq!(run(&world), complete(1, 10));
}

/// The same feed by full pages of three, of which some records can be hidden.
fn hiding(feed: &Shared, hidden: &Arc<Mutex<Vec<i64>>>) -> StubUpstream {
    let (feed, hidden) = (Arc::clone(feed), Arc::clone(hidden));
    StubUpstream::start(move |request: &StubRequest| {
        let page = request
            .param("page")
            .map_or(1, |page| page.parse().unwrap());
        let (feed, hidden) = (feed.lock().unwrap(), hidden.lock().unwrap());
        let of_page = feed.0.iter().skip(3 * (page - 1)).take(3);
        let shown = of_page.filter(|(id, _)| !hidden.contains(id));
        let items: Vec<Value> = shown
            .map(|(id, version)| json!({ "id": id, "version": version }))
            .collect();
        StubAnswer::json(&json!({ "items": items }))
    })
}

/// A world that read the feed by pages of three.
fn by_three(stub: &StubUpstream) -> World {
    let mut world = world(NEVER, stub);
    world.set("upstreams.feed.calls.list.page={ kind = \"number\", param = \"page\", size = 3 }");
    run(&world);
    world
}

#[test]
fn a_page_that_is_not_full_ends_no_list_before_what_is_known() {
    let feed = feed();
    let hidden = Arc::default();
    let stub = hiding(&feed, &hidden);
    let world = by_three(&stub);
    (9..=24).for_each(|id| feed.lock().unwrap().add(id));
    // It would be on the second page, which is short without it.
    hidden.lock().unwrap().push(20);
    assert_eq!(run(&world).0, "complete");
    let mut held = held(&feed);
    held.retain(|(id, _)| *id != 20);
    assert_eq!(stored(&world), held);
    hidden.lock().unwrap().clear();
    feed.lock().unwrap().add(25);
    run(&world);
    run(&world);
    let gone = "select count(*) from record where gone_at is not null";
    assert_eq!(world.count(gone), 0);
}

#[test]
fn a_list_that_ends_before_what_is_known_tells_nothing() {
    let feed = feed();
    let hidden = Arc::default();
    let stub = hiding(&feed, &hidden);
    let world = by_three(&stub);
    (9..=20).for_each(|id| feed.lock().unwrap().add(id));
    hidden.lock().unwrap().extend(1..=17);
    let ended = world.json(&["--region", "US"])["passes"][0].clone();
    says(
        &ended["detail"],
        "before any record that earlier passes knew",
    );
    hidden.lock().unwrap().clear();
    assert_eq!(run(&world).0, "complete");
    assert_eq!(stored(&world), held(&feed));
    run(&world);
    assert_eq!(stored(&world), held(&feed), "none of them is gone");
}
