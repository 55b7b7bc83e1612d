//! Lists that move while they are read, in each kind of paging, within a run and over a stop at a limit: no record that the upstream
//! still has is marked as gone, and `{since}` passes over none.

use std::sync::{Arc, Mutex};

use ingest_testing::stub_upstream::{StubAnswer, StubRequest, StubUpstream};
use serde_json::{Value, json};

use crate::support::world::World;

const KINDS: [&str; 5] = ["offset", "number", "token", "link", "next_url"];
const SIZE: usize = 3;

/// What changes between two pages.
#[derive(Debug, Clone, Copy)]
enum Change {
    /// The first records go.
    Lose(usize),
    /// New records come at the front.
    Insert(usize),
    /// The first record goes, and the list gets this many at its end.
    Replace(usize),
    /// The first record moves to the end.
    Move,
}

/// An upstream whose cursors are places in its list.
struct Api {
    rows: Vec<usize>,
    next_id: usize,
    /// What changes before the request of this number.
    change: Option<(usize, Change)>,
    requests: usize,
    has_total: bool,
}

impl Api {
    fn change(&mut self, change: Change) {
        let mut new = || {
            self.next_id += 1;
            self.next_id
        };
        match change {
            Change::Lose(count) => drop(self.rows.drain(..count)),
            Change::Insert(count) => {
                let new: Vec<usize> = (0..count).map(|_| new()).collect();
                self.rows.splice(0..0, new);
            }
            Change::Replace(count) => {
                let new: Vec<usize> = (0..count).map(|_| new()).collect();
                self.rows.remove(0);
                self.rows.extend(new);
            }
            Change::Move => self.rows.rotate_left(1),
        }
    }

    fn answer(&mut self, request: &StubRequest, kind: &str) -> StubAnswer {
        if let Some((at, change)) = self.change
            && at == self.requests
        {
            self.change(change);
        }
        self.requests += 1;
        let cursor: usize = request.param("at").map_or(0, |at| at.parse().unwrap());
        let start = match kind {
            "number" => cursor.max(1).saturating_sub(1) * SIZE,
            _ => cursor,
        };
        let end = self.rows.len().min(start + SIZE);
        let page = self.rows.get(start..end).unwrap_or_default();
        let rows: Vec<Value> = page.iter().map(|id| json!({ "id": id })).collect();
        let mut body = json!({ "rows": rows });
        if self.has_total {
            body["total"] = self.rows.len().into();
        }
        let url = format!("{}?at={end}", request.path);
        let goes_on = end < self.rows.len();
        match kind {
            "token" if goes_on => body["next"] = end.to_string().into(),
            "next_url" if goes_on => body["next"] = url.clone().into(),
            _ => {}
        }
        let answer = StubAnswer::json(&body);
        match kind == "link" && goes_on {
            true => answer.header("link", &format!("<{url}>; rel=\"next\"")),
            false => answer,
        }
    }
}

fn upstream(kind: &'static str, has_total: bool) -> (StubUpstream, Arc<Mutex<Api>>) {
    let api = Arc::new(Mutex::new(Api {
        rows: (100..110).collect(),
        next_id: 200,
        change: None,
        requests: 0,
        has_total,
    }));
    let answering = Arc::clone(&api);
    let stub = StubUpstream::start(move |request| answering.lock().unwrap().answer(request, kind));
    (stub, api)
}

fn page(kind: &str) -> String {
    let keys = match kind {
        "offset" | "number" => "param = \"at\", size = 3",
        "token" => "param = \"at\", next = \"/next\"",
        "next_url" => "next = \"/next\"",
        _ => "size = 3",
    };
    format!("{{ kind = \"{kind}\", {keys}, total = \"/total\" }}")
}

fn world(stub: &StubUpstream, page: &str) -> World {
    let text = format!(
        "regions = [\"US\"]\n[upstreams.api]\nbase_url = \"https://api.example.com\"\n\
         [upstreams.api.calls.list]\npath = \"list\"\ncost = 1\npage = {page}\n\
         records = {{ at = \"/rows\", kind = \"row\", id = \"/id\" }}\n\
         [credentials.api]\nupstream = \"api\"\nlimits = {{ daily = {{ quota = 10_000, headroom = 0, window = \"24h\" }} }}\n\
         [jobs.rows]\ncredential = \"api\"\nevery = \"1ms\"\nsteps = [{{ call = \"list\" }}]\n"
    );
    World::upon(stub, &text)
}

fn gone(world: &World) -> Vec<usize> {
    let catalog = world.catalog();
    let mut query = catalog
        .prepare("select cast(id as integer) from record where gone_at is not null order by id")
        .unwrap();
    let ids = query.query_map([], |row| row.get::<_, i64>(0)).unwrap();
    ids.map(|id| usize::try_from(id.unwrap()).unwrap())
        .collect()
}

/// Runs a whole list, and one that changes so before its third request. `stops`: a limit stops it there. Returns the last pass.
fn lives(kind: &'static str, change: Change, stops: bool) -> (World, Arc<Mutex<Api>>, Value) {
    let (stub, api) = upstream(kind, true);
    let mut world = world(&stub, &page(kind));
    // The stub lives as long as the test.
    std::mem::forget(stub);
    let first = world.json(&["--region", "US"]);
    assert_eq!(first["outcome"], "complete", "{first}");
    if stops {
        let quota = world.charged("daily") + 2;
        world.set(&format!("credentials.api.limits.daily.quota={quota}"));
        let stopped = world.json(&["--region", "US"]);
        assert_eq!(stopped["passes"][0]["outcome"], "stopped", "{stopped}");
        world.set("credentials.api.limits.daily.quota=10_000");
        api.lock().unwrap().change(change);
    } else {
        let mut api = api.lock().unwrap();
        api.change = Some((api.requests + 2, change));
    }
    let last = world.json(&["--region", "US"])["passes"][0].clone();
    (world, api, last)
}

#[test]
fn a_list_that_moves_while_it_is_read_marks_nothing_as_gone_and_the_next_whole_one_does() {
    for kind in KINDS {
        for (change, stops) in [
            (Change::Lose(2), false),
            (Change::Lose(2), true),
            (Change::Lose(1), true),
            (Change::Insert(1), false),
            (Change::Insert(2), true),
            (Change::Replace(2), true),
            (Change::Move, false),
            (Change::Move, true),
        ] {
            // A shorter list whose last page is full and names no next one is doubtful by that alone.
            if kind == "link" && matches!(change, Change::Lose(1)) {
                continue;
            }
            let what = format!("{kind}, {change:?}, stops: {stops}");
            let (world, api, last) = lives(kind, change, stops);
            assert_eq!(last["outcome"], "complete", "{what}: {last}");
            assert_eq!(gone(&world), [0; 0], "{what}: {last}");
            let detail = last["detail"].as_str().unwrap_or_default();
            assert!(detail.contains("marks no record as gone"), "{what}: {last}");
            let (rows, before) = {
                let mut api = api.lock().unwrap();
                api.change = None;
                (api.rows.clone(), 100..110)
            };
            let quiet = world.json(&["--region", "US"])["passes"][0].clone();
            assert_eq!(quiet["outcome"], "complete", "{what}: {quiet}");
            let lost: Vec<usize> = before.filter(|id| !rows.contains(id)).collect();
            assert_eq!(gone(&world), lost, "{what}: {quiet}");
            assert_eq!(quiet["detail"], Value::Null, "{what}");
        }
    }
}

/// Its cursor leads on and on, to the same records in another order.
#[test]
fn a_list_that_goes_on_without_a_new_record_is_doubtful_and_ends() {
    let pages = Mutex::new(0_u64);
    let stub = StubUpstream::start(move |_| {
        let mut pages = pages.lock().unwrap();
        *pages += 1;
        let rows: Vec<Value> = (0..3)
            .map(|n| json!({ "id": (*pages * 7 + n * 3) % 5 }))
            .collect();
        let rows = if pages.is_multiple_of(4) {
            Vec::new()
        } else {
            rows
        };
        StubAnswer::json(&json!({ "data": rows, "next": format!("c{pages}") }))
    });
    let text = "regions = [\"-\"]\n[upstreams.api]\nbase_url = \"https://api.example.com\"\n\
        [upstreams.api.calls.list]\npath = \"list\"\ncost = 1\nrecords = { at = \"/data\", kind = \"row\", id = \"/id\" }\n\
        page = { kind = \"token\", param = \"after\", next = \"/next\" }\n\
        [credentials.api]\nupstream = \"api\"\nlimits = { daily = { quota = 100, window = \"24h\" } }\n\
        [jobs.all]\ncredential = \"api\"\nsteps = [{ call = \"list\" }]\n";
    let report = World::upon(&stub, text).json(&[]);
    let doubt = &report["passes"][0]["doubts"][0]["doubt"];
    assert_eq!(doubt, "records-repeat", "{report:#}");
    assert!(stub.requests().len() < 30, "{}", stub.requests().len());
}
