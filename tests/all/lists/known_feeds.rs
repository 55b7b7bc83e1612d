//! Random feeds that list the newest first, and what happens to them: records come, change and go, also while a pass reads; runs stop
//! at a limit, passes are abandoned, other jobs read the same records. After each complete pass the catalog has what the feed had when
//! the pass began, but for what changed where it stands, which the next pass that reads everything finds; and nothing that is there
//! is gone.
//!
//! Left out is what no reader can see: a list with counted pages that loses a record while it is read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ingest::run::PassOutcome;
use ingest_sandbox::Options;
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::VARIABLES;
use crate::support::lab::Lab;
use crate::support::seeds::Held;
use ingest_testing::stub_upstream::{StubAnswer, StubRequest, StubUpstream};

const FEEDS: u64 = 40;
const HOUR: u64 = 3_600;
/// Passes read everything every so many hours.
const COMPLETE: u64 = 48;
/// An unfinished pass is resumed for so many hours.
const RESUMED: u64 = 6;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct World {
    /// Whether pages are counted; otherwise a cursor names the last record.
    counted: bool,
    size: u8,
    first: u8,
    events: Vec<Event>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum Change {
    Add(u8),
    /// The record at this place, which moves to the front.
    Touch(u8),
    /// It stays where it is.
    Edit(u8),
    Remove(u8),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
enum Event {
    Change(Change),
    /// So many hours pass.
    Wait(u8),
    /// The feed is read with so many units at most, and changes at a request.
    Run {
        units: u8,
        during: Option<(u8, Change)>,
    },
    /// Another job reads so many pages of the same records.
    Front(u8),
}

fn worlds() -> impl Strategy<Value = World> {
    let change = || {
        prop_oneof![
            4 => (1_u8..6).prop_map(Change::Add),
            2 => (0_u8..20).prop_map(Change::Touch),
            1 => (0_u8..20).prop_map(Change::Edit),
            1 => (0_u8..20).prop_map(Change::Remove),
        ]
    };
    let units = prop_oneof![2 => Just(100_u8), 1 => 1_u8..5];
    let during = prop::option::weighted(0.3, (0_u8..5, change()));
    let event = prop_oneof![
        4 => change().prop_map(Event::Change),
        2 => (1_u8..30).prop_map(Event::Wait),
        5 => (units, during).prop_map(|(units, during)| Event::Run { units, during }),
        1 => (1_u8..3).prop_map(Event::Front),
    ];
    let events = prop::collection::vec(event, 4..18);
    (any::<bool>(), 1_u8..4, 0_u8..14, events).prop_map(|(counted, size, first, events)| World {
        counted,
        size,
        first,
        events,
    })
}

/// A record of the feed.
#[derive(Debug, Clone, Copy)]
struct Post {
    id: u64,
    version: u64,
    /// Rises with each record that comes to the front.
    place: u64,
    /// The run in which it changed last, and whether that was in place.
    changed: u64,
    in_place: bool,
}

#[derive(Default)]
struct Feed {
    counted: bool,
    size: usize,
    posts: Vec<Post>,
    next: u64,
    /// The number of the run, requests in it, and what changes at one of them.
    run: u64,
    requests: u64,
    during: Option<(u64, Change)>,
}

impl Feed {
    fn change(&mut self, change: Change) {
        let place = |at: u8| usize::from(at) % self.posts.len().max(1);
        match change {
            Change::Add(count) => {
                for _ in 0..count {
                    self.next += 1;
                    let id = self.next;
                    self.put_in_front(Post {
                        id,
                        version: 1,
                        place: 0,
                        changed: 0,
                        in_place: false,
                    });
                }
            }
            _ if self.posts.is_empty() => {}
            Change::Touch(at) => {
                let post = self.posts.remove(place(at));
                self.next += 1;
                self.put_in_front(Post {
                    version: post.version + 1,
                    in_place: false,
                    ..post
                });
            }
            Change::Edit(at) => {
                let (run, at) = (self.run, place(at));
                let post = &mut self.posts[at];
                (post.version, post.changed, post.in_place) = (post.version + 1, run, true);
            }
            Change::Remove(at) => drop(self.posts.remove(place(at))),
        }
    }

    fn put_in_front(&mut self, post: Post) {
        let (place, changed) = (self.next, self.run);
        self.posts.insert(
            0,
            Post {
                place,
                changed,
                ..post
            },
        );
    }

    fn answer(&mut self, request: &StubRequest) -> StubAnswer {
        let cursor: u64 = request
            .param("page")
            .map_or(0, |page| page.parse().unwrap());
        let behind = |post: &&Post| cursor == 0 || post.place < cursor;
        let all: Vec<Post> = match self.counted {
            true => self
                .posts
                .iter()
                .skip(usize::try_from(cursor).unwrap() * self.size)
                .copied()
                .collect(),
            false => self.posts.iter().filter(behind).copied().collect(),
        };
        let page: Vec<Post> = all.iter().take(self.size).copied().collect();
        let more = all.len() > page.len();
        let next = page
            .last()
            .filter(|_| more)
            .map(|last| last.place.to_string());
        let items = page
            .iter()
            .map(|post| json!({ "id": post.id, "version": post.version }));
        let body = json!({ "items": items.collect::<Vec<_>>(), "more": more, "next": next });
        if let Some((_, change)) = self.during.filter(|(at, _)| *at == self.requests) {
            self.change(change);
        }
        self.requests += 1;
        StubAnswer::json(&body)
    }
}

struct Life {
    lab: Lab,
    feed: Arc<Mutex<Feed>>,
    _stub: StubUpstream,
    runs: u64,
    /// The run in which the unfinished pass began.
    open: Option<u64>,
    /// Whether the feed changed since the last complete pass began, or another job's run did something.
    is_new: bool,
    /// Whether it changed since a pass read everything.
    is_changed: bool,
}

#[test]
fn after_each_complete_pass_the_catalog_has_what_the_feed_had() {
    VARIABLES.live(FEEDS, &worlds(), live);
}

fn live(world: &World) -> Held {
    let mut life = Life::new(world);
    for event in &world.events {
        match event {
            Event::Change(change) => life.change(*change),
            Event::Wait(hours) => life.lab.pass(Duration::from_secs(HOUR * u64::from(*hours))),
            Event::Front(pages) => life.front(*pages),
            Event::Run { units, during } => life.run(*units, *during)?,
        }
    }
    life.lab
        .pass(Duration::from_secs(HOUR * (COMPLETE + RESUMED)));
    life.run(u8::MAX, None)?;
    // What that lacked is gone if the pass behind it does not find it at the front.
    life.run(u8::MAX, None)?;
    life.everything()
}

impl Life {
    fn new(world: &World) -> Self {
        let page = match world.counted {
            true => "{ kind = \"number\", param = \"page\", first = 0, more = \"/more\" }",
            false => "{ kind = \"token\", param = \"page\", next = \"/next\" }",
        };
        let text = format!(
            "regions = [\"US\"]\n[upstreams.api]\nbase_url = \"https://api.example.com\"\n[upstreams.api.calls.list]\npath = \"list\"\ncost = 1\n\
             page = {page}\nrecords = {{ at = \"/items\", kind = \"post\", id = \"/id\" }}\n\
             [credentials.api]\nupstream = \"api\"\nlimits = {{ daily = {{ quota = 100_000, window = \"1s\" }} }}\n\
             [jobs.feed]\ncredential = \"api\"\nresume_within = \"{RESUMED}h\"\n\
             steps = [{{ call = \"list\", stop_at_known = {{ complete_every = \"{COMPLETE}h\" }} }}]\n\
             [jobs.front]\ncredential = \"api\"\nsteps = [{{ call = \"list\", max_pages = 1 }}]\n"
        );
        let mut lab = Lab::written(&text, &[], Options::default());
        let mut feed = Feed {
            counted: world.counted,
            size: usize::from(world.size),
            ..Feed::default()
        };
        feed.change(Change::Add(world.first));
        let feed = Arc::new(Mutex::new(feed));
        let answering = Arc::clone(&feed);
        let stub = StubUpstream::start(move |request| answering.lock().unwrap().answer(request));
        lab.set(&format!("upstreams.api.base_url=\"{}\"", stub.url()));
        Self {
            lab,
            feed,
            _stub: stub,
            runs: 0,
            open: None,
            is_new: true,
            is_changed: true,
        }
    }

    /// Nobody can tell that a list with counted pages lost a record between two of its pages.
    fn is_hidden(&self, change: Change) -> bool {
        self.feed.lock().unwrap().counted && matches!(change, Change::Remove(_))
    }

    fn change(&mut self, change: Change) {
        if self.open.is_none() || !self.is_hidden(change) {
            self.feed.lock().unwrap().change(change);
            (self.is_new, self.is_changed) = (true, true);
        }
    }

    fn front(&mut self, pages: u8) {
        self.lab.pass(Duration::from_secs(2));
        self.lab.set(&format!(
            "jobs.front.steps=[{{ call = \"list\", max_pages = {pages} }}]"
        ));
        self.lab.run("front");
    }

    fn run(&mut self, units: u8, during: Option<(u8, Change)>) -> Held {
        self.lab.pass(Duration::from_secs(2));
        self.lab.set(&format!(
            "credentials.api.limits.daily={{ quota = {units}, window = \"1s\", wait = \"0s\" }}"
        ));
        self.runs += 1;
        let during = during.filter(|(_, change)| !self.is_hidden(*change));
        {
            let mut feed = self.feed.lock().unwrap();
            (feed.run, feed.requests) = (self.runs, 0);
            feed.during = during.map(|(at, change)| (u64::from(at), change));
        }
        let is_counted = self.feed.lock().unwrap().counted;
        let preview = self.lab.preview(&["feed"]);
        let report = self.lab.run("feed");
        let pass = &report.passes[0];
        let began = match pass.resumed {
            true => self.open.unwrap_or(self.runs),
            false => self.runs,
        };
        // Between two runs it changes too.
        self.feed.lock().unwrap().run = self.runs + 1;
        self.feed.lock().unwrap().during = None;
        match pass.outcome {
            PassOutcome::Complete => {
                let expected = preview.limits[0].units.expected;
                // What a pass reads again has as many pages as the last time.
                if during.is_none() && !self.is_new && (expected == 1 || !self.is_changed) {
                    prop_assert_eq!(expected, pass.requests, "the preview of {:?}", pass);
                }
                let feed = self.feed.lock().unwrap();
                let pages = feed.posts.len().div_ceil(feed.size).max(1) as u64;
                drop(feed);
                self.is_changed |= during.is_some();
                self.is_changed &= pass.requests != pages || during.is_some() || pass.resumed;
                (self.open, self.is_new) = (None, during.is_some() || pass.resumed);
                self.compare(began)?;
            }
            PassOutcome::Stopped => (self.open, self.is_new) = (Some(began), true),
            // Records that move a page by its own length look as if the parameter of the cursor had no effect.
            PassOutcome::Doubtful if during.is_some() && is_counted => {
                (self.open, self.is_new, self.is_changed) = (None, true, true);
            }
            // It is for a day then.
            PassOutcome::NotDue => {}
            other => prop_assert!(false, "{other:?}: {pass:?}"),
        }
        Ok(())
    }

    /// The versions in the catalog, and the records that are gone.
    fn stored(&self) -> (BTreeMap<u64, u64>, BTreeSet<u64>) {
        let path = self.lab.directory.path().join("catalog.db");
        let catalog = rusqlite::Connection::open(path).unwrap();
        let sql = "select cast(id as integer), json_extract(body, '$.version'), gone_at is not null from record";
        let mut query = catalog.prepare(sql).unwrap();
        let rows = query.query_map([], |row| {
            Ok((
                row.get::<_, i64>(0)?,
                row.get::<_, i64>(1)?,
                row.get::<_, bool>(2)?,
            ))
        });
        let (mut versions, mut gone) = (BTreeMap::new(), BTreeSet::new());
        for row in rows.unwrap() {
            let (id, version, is_gone) = row.unwrap();
            versions.insert(u64::try_from(id).unwrap(), u64::try_from(version).unwrap());
            if is_gone {
                gone.insert(u64::try_from(id).unwrap());
            }
        }
        (versions, gone)
    }

    /// The catalog has what the feed had when a pass began.
    fn compare(&self, began: u64) -> Held {
        let (versions, gone) = self.stored();
        for post in &self.feed.lock().unwrap().posts {
            prop_assert!(!gone.contains(&post.id), "{post:?} is gone");
            if post.changed >= began {
                continue;
            }
            let version = versions.get(&post.id);
            prop_assert!(
                version == Some(&post.version) || (post.in_place && version.is_some()),
                "{post:?} is {version:?} after a pass that began in run {began}"
            );
        }
        Ok(())
    }

    /// The last passes read everything.
    fn everything(&self) -> Held {
        let (versions, gone) = self.stored();
        let feed = self.feed.lock().unwrap();
        let held = feed.posts.iter().map(|post| (post.id, post.version));
        let held: BTreeMap<u64, u64> = held.collect();
        // What the other job saw last is in its list, and what no complete pass listed is in none.
        let (front, listed) = (
            self.listed("job = 'front' and id = (select max(id) from pass where job = 'front')"),
            self.listed("job = 'feed'"),
        );
        let is_there = |id: &u64| {
            let is_listed = listed.contains(id) && !front.contains(id);
            !gone.contains(id) && (held.contains_key(id) || is_listed)
        };
        let stored = versions.into_iter().filter(|(id, _)| is_there(id));
        prop_assert_eq!(stored.collect::<BTreeMap<u64, u64>>(), held);
        Ok(())
    }

    /// The records that some complete passes listed.
    fn listed(&self, passes: &str) -> BTreeSet<u64> {
        let path = self.lab.directory.path().join("catalog.db");
        let catalog = rusqlite::Connection::open(path).unwrap();
        let passes = format!("select id from pass where outcome = 'complete' and {passes}");
        let sql = format!("select cast(id as integer) from listing where pass in ({passes})");
        let mut query = catalog.prepare(&sql).unwrap();
        let ids = query.query_map([], |row| row.get::<_, i64>(0)).unwrap();
        ids.map(|id| u64::try_from(id.unwrap()).unwrap()).collect()
    }
}
