//! Lives through a generated upstream, and compares after each run what the catalog has with what the upstream held.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ingest::run::{PassOutcome, PassReport};
use ingest_sandbox::Options;
use proptest::prop_assert;
use serde_json::Value;

use super::plan::{Change, Event, Kind, Name, Total, World};
use super::server::{Server, time};
use crate::support::lab::Lab;
use crate::support::seeds::Held;
use ingest_testing::stub_upstream::StubUpstream;

/// Longer than an unfinished pass is resumed.
const BETWEEN_RUNS: Duration = Duration::from_secs(50 * 3_600);
/// More requests than any list needs.
const MOST: u64 = 60;

pub fn live(world: &World) -> Held {
    let mut life = Life::new(world);
    for event in &world.events {
        match event {
            Event::Change(change) => life.change(*change),
            Event::Run(during) => life.run(*during)?,
        }
    }
    life.mend()
}

pub struct Life {
    lab: Lab,
    pub server: Arc<Mutex<Server>>,
    _stub: StubUpstream,
    /// Whether the configuration has every name right.
    is_right: bool,
    /// Whether a page had as many records as were requested, and the pages of the last complete list.
    honoured: bool,
    last_pages: u64,
    /// Whether the last complete list had one page at most.
    was_one_page: bool,
    /// Whether a complete list had more.
    led_on: bool,
}

/// A record as the catalog has it.
struct Stored {
    version: i64,
    gone: bool,
}

impl Life {
    pub fn new(world: &World) -> Self {
        let (page, records) = world.tables(&[]);
        let [params, since] = match world.since {
            0 => ["", ""],
            1 => [
                ", params = { since = \"{since}\" }",
                "since = \"2020-01-01\"",
            ],
            _ => [
                ", params = { since = \"{since}\" }",
                "since = { at = \"/updated\", first = \"2020-01-01T00:00:00Z\" }",
            ],
        };
        let text = format!(
            "regions = [\"US\"]\n[upstreams.api]\nbase_url = \"https://api.example.com\"\n[upstreams.api.calls.list]\npath = \"list\"\ncost = 1\n\
             page = {page}\nrecords = {records}\n[credentials.api]\nupstream = \"api\"\n\
             limits = {{ daily = {{ quota = 100_000, window = \"1h\" }} }}\n\
             [jobs.rows]\ncredential = \"api\"\n{since}\nsteps = [{{ call = \"list\"{params} }}]\n"
        );
        let mut lab = Lab::written(&text, &[], Options::default());
        let server = Server::new(world, lab.now().micros() / 1_000_000);
        let server = Arc::new(Mutex::new(server));
        let answering = Arc::clone(&server);
        let stub = StubUpstream::start(move |request| answering.lock().unwrap().answer(request));
        lab.set(&format!("upstreams.api.base_url=\"{}\"", stub.url()));
        Self {
            lab,
            server,
            _stub: stub,
            is_right: !world.wrong.is_some_and(|name| world.uses(name)),
            honoured: false,
            last_pages: 0,
            was_one_page: false,
            led_on: false,
        }
    }

    fn change(&mut self, change: Change) {
        if self.is_hidden(change) {
            return;
        }
        self.pass_time();
        let mut server = self.server.lock().unwrap();
        server.change(change);
        if let Change::Rename(name) = change {
            self.is_right &= !server.world.uses(name);
        }
    }

    /// Whether a list of one page can then be one that the upstream caps: nothing tells them apart but a request for each pass.
    /// Neither is a next page without a usual name, in a list that never had it under the configured one.
    fn is_hidden(&self, change: Change) -> bool {
        let server = self.server.lock().unwrap();
        let is_obscure = server.world.obscure && server.world.kind == Kind::Token;
        if change == Change::Rename(Name::Next) && is_obscure && !self.led_on {
            return true;
        }
        let is_capped = server.world.page_size().map(usize::from) > Some(server.honoured_size());
        let caps = match change {
            Change::Cap(_) | Change::Rename(Name::Size) => true,
            Change::Grow(_) | Change::Update(_) => is_capped,
            Change::Lose(_) | Change::Rename(_) => false,
        };
        caps && self.was_one_page
    }

    fn pass_time(&self) {
        self.lab.pass(BETWEEN_RUNS);
        let now = self.lab.now().micros() / 1_000_000;
        self.server.lock().unwrap().now = now;
    }

    pub fn run(&mut self, during: Option<(u8, Change)>) -> Held {
        let during = during.filter(|(_, change)| !self.is_hidden(*change));
        self.pass_time();
        {
            let mut server = self.server.lock().unwrap();
            (server.requests, server.during) = (0, during);
        }
        let began = self.lab.now().micros() / 1_000_000;
        let least = during.is_none().then(|| self.least());
        let mut report = self.lab.run("rows");
        // A process that another test starts holds the files of this one, locked ones too, until it runs its program.
        while report.passes[0].outcome == PassOutcome::Busy {
            std::thread::yield_now();
            report = self.lab.run("rows");
        }
        let pass = &report.passes[0];
        self.check(pass, began, least)?;
        if pass.outcome == PassOutcome::Complete {
            self.last_pages = pass.pages;
            let size = self.server.lock().unwrap().honoured_size() as u64;
            self.was_one_page = pass.records <= size;
            self.led_on |= !self.was_one_page;
        }
        Ok(())
    }

    fn check(&mut self, pass: &PassReport, began: i64, least: Option<u64>) -> Held {
        let server = self.server.lock().unwrap();
        let stored = self.stored();
        let (outcome, detail) = (pass.outcome, pass.detail.as_deref());
        let world = &server.world;
        prop_assert!(
            server.requests <= MOST,
            "{} requests: {outcome:?} {detail:?}",
            server.requests
        );
        for row in &server.rows {
            let known = stored.get(&row.id);
            prop_assert!(
                !known.is_some_and(|known| known.gone),
                "{} is there, and was marked as gone: {outcome:?} {detail:?}\n{world:?}",
                row.id
            );
            // In a list with the latest update first, a record that is updated moves before the pages that were read.
            let moved = row.updated > began && world.since > 0 && world.newest_first;
            // What a list that moved passed over comes with the next pass, which begins where this one did.
            let noted = detail.is_some_and(|detail| {
                detail.contains("moved while it was read")
                    || detail.contains("the list ended after")
            });
            if outcome == PassOutcome::Complete && row.born <= began && !moved && !noted {
                let version = (row.updated <= began).then_some(row.updated);
                prop_assert!(
                    known.is_some_and(|known| version.is_none_or(|version| known.version == version)),
                    "complete, and {} of {} of {} is missing: {} requests, {detail:?}\n{world:?}",
                    row.id,
                    time(row.updated),
                    server.rows.len(),
                    server.requests
                );
            }
        }
        let is_honest = matches!(world.total, Total::Absent | Total::Right);
        if let Some(least) = least.filter(|_| self.is_right && is_honest) {
            prop_assert!(
                outcome == PassOutcome::Complete || may_have_more(&server),
                "nothing is wrong, and it ended as {outcome:?}: {detail:?}\n{world:?}"
            );
            prop_assert!(
                outcome != PassOutcome::Complete || server.requests <= least,
                "{} requests where {least} suffice: {detail:?}\n{world:?}",
                server.requests
            );
        }
        Ok(())
    }

    /// The most requests that a right configuration takes for its list.
    fn least(&mut self) -> u64 {
        let server = self.server.lock().unwrap();
        let world = &server.world;
        if world.since > 0 {
            return MOST;
        }
        let rows = server.rows.len();
        let size = server.honoured_size();
        let pages = rows.div_ceil(size).max(1) as u64;
        let says = world.kind.leads() || world.reads_more() || world.reads_done();
        let reaches_total = world.reads_total() && world.kind.counts();
        if says || reaches_total || rows == 0 {
            return pages;
        }
        let configured = world.page_size().map(usize::from);
        self.honoured |= rows >= size && configured == Some(size);
        let is_full = rows.is_multiple_of(size);
        // Once for the call: an upstream can leave a few records out of a full page.
        let is_nearly = rows > size && rows % size * 10 >= size * 9;
        let is_known = self.honoured && pages >= self.last_pages && configured == Some(size);
        pages + u64::from(is_full || is_nearly || !is_known)
    }

    fn stored(&self) -> BTreeMap<u32, Stored> {
        let catalog =
            rusqlite::Connection::open(self.lab.directory.path().join("catalog.db")).unwrap();
        let mut query = catalog
            .prepare("select id, body, gone_at is not null from record")
            .unwrap();
        let rows = query.query_map([], |row| {
            let (id, body): (String, String) = (row.get(0)?, row.get(1)?);
            let body: Value = serde_json::from_str(&body).unwrap();
            let version = body["version"].as_i64().unwrap();
            Ok((
                id.parse().unwrap(),
                Stored {
                    version,
                    gone: row.get(2)?,
                },
            ))
        });
        rows.unwrap().collect::<Result<_, _>>().unwrap()
    }

    /// Corrects the configuration, after which the next run lacks nothing.
    fn mend(&mut self) -> Held {
        let (page, records) = {
            let mut server = self.server.lock().unwrap();
            server.world.wrong = None;
            if server.world.total != Total::Absent {
                server.world.total = Total::Right;
            }
            server.world.tables(&server.renamed)
        };
        self.lab
            .set(&format!("upstreams.api.calls.list.page={page}"));
        self.lab
            .set(&format!("upstreams.api.calls.list.records={records}"));
        self.is_right = !self.is_dropped();
        self.run(None)?;
        self.run(None)
    }

    /// Whether the upstream has a header that no configuration names.
    fn is_dropped(&self) -> bool {
        let server = self.server.lock().unwrap();
        server.world.kind == Kind::Link && server.renamed.contains(&Name::Next)
    }
}

/// Whether a page without a next one looks like one whose next one was not found: it is full, and the upstream leaves out the
/// place at the end.
fn may_have_more(server: &Server) -> bool {
    let world = &server.world;
    let is_silent = world.kind == Kind::Link || !world.null_at_end;
    world.kind.leads() && is_silent && !world.reads_more() && !world.reads_done()
}
