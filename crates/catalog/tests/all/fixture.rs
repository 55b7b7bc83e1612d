//! A catalog in a directory of its own, and pages to land in it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ingest_base::list_so_far::ListSoFar;
use ingest_base::record::{Record, Tag};
use ingest_catalog::{
    AtKnown, Catalog, CatalogError, Landed, Landing, OpenBatch, PassId, PassRef, PassScope,
    PendingId, PendingQuery,
};
use ingest_config::{Column, Field, Format, Layout, Pointer, Records};
use ingest_quota::{Cost, Timestamp, Units};
use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;
use uuid::Uuid;

pub(crate) const JOB: &str = "trending";

pub(crate) struct Fixture {
    pub(crate) catalog: Catalog,
    pub(crate) dir: TempDir,
    pub(crate) person: Connection,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("catalog.db");
        let catalog = Catalog::open(&path).unwrap();
        let person = Connection::open(&path).unwrap();
        person.busy_timeout(Duration::from_secs(9)).unwrap();
        Self {
            catalog,
            dir,
            person,
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("catalog.db")
    }

    /// The directory alone, everything in it closed.
    pub(crate) fn close(self) -> TempDir {
        self.dir
    }

    pub(crate) fn reopen(&mut self) {
        self.catalog = Catalog::open(&self.path()).unwrap();
    }

    /// What a person sees who asks the file, a line a row.
    pub(crate) fn rows(&self, sql: &str) -> Vec<String> {
        text_rows(&self.person, sql)
    }

    pub(crate) fn count(&self, table: &str) -> usize {
        self.rows(&format!("select 1 from {table}")).len()
    }

    pub(crate) async fn land(&self, page: &Page) -> Landed {
        page.land(&self.catalog).await.unwrap()
    }

    pub(crate) async fn pending(&self, at: &str, fresh_since: Timestamp) -> Vec<(String, PassId)> {
        let query = pending_query(at, fresh_since);
        let pending = self.catalog.pending_ids(query).await.unwrap();
        pending
            .into_iter()
            .map(|PendingId { id, pass, .. }| (id, pass))
            .collect()
    }
}

/// Asks for the channels that listed videos name at a place and that are to be fetched.
pub(crate) fn pending_query(at: &str, fresh_since: Timestamp) -> PendingQuery {
    PendingQuery {
        scope: PassScope::Open,
        job: JOB.into(),
        upstream: "youtube".into(),
        listed_by: "videos.list".into(),
        listed_kind: "video".into(),
        at: pointer(at).into(),
        kind: "channel".into(),
        fresh_since,
    }
}

/// The rows of a query, with a space between two columns.
pub(crate) fn text_rows(file: &Connection, sql: &str) -> Vec<String> {
    let mut statement = file.prepare_cached(sql).unwrap();
    let width = statement.column_count();
    let rows = statement.query_map([], |row| {
        let columns = (0..width).map(|column| Ok(shown(row.get(column)?)));
        columns.collect::<rusqlite::Result<Vec<_>>>()
    });
    rows.unwrap().map(|row| row.unwrap().join(" ")).collect()
}

fn shown(value: rusqlite::types::Value) -> String {
    match value {
        rusqlite::types::Value::Null => "-".to_owned(),
        rusqlite::types::Value::Integer(number) => number.to_string(),
        rusqlite::types::Value::Real(number) => number.to_string(),
        rusqlite::types::Value::Text(text) => text,
        rusqlite::types::Value::Blob(_) => "blob".to_owned(),
    }
}

/// A page of videos, the first of a new pass over US unless said otherwise.
#[derive(Clone)]
pub(crate) struct Page {
    pub(crate) pass: PassRef,
    pub(crate) step: usize,
    pub(crate) upstream: String,
    pub(crate) call: String,
    pub(crate) kind: Records,
    pub(crate) records: Vec<Record>,
    pub(crate) next: Option<String>,
    pub(crate) requested: Vec<String>,
    pub(crate) requests: u64,
    pub(crate) units: Cost,
    pub(crate) tag: Option<Tag>,
    pub(crate) now: Timestamp,
}

impl Page {
    pub(crate) fn of(records: Vec<Record>) -> Self {
        Self {
            pass: new_pass("US", at(0)),
            step: 0,
            upstream: "youtube".into(),
            call: "videos.list".into(),
            kind: videos(),
            records,
            next: None,
            requested: Vec::new(),
            requests: 1,
            units: daily(1),
            tag: None,
            now: at(0),
        }
    }

    pub(crate) fn in_pass(mut self, pass: PassId) -> Self {
        self.pass = held(pass);
        self
    }

    pub(crate) fn over(mut self, region: &str, started_at: Timestamp) -> Self {
        self.pass = new_pass(region, started_at);
        self
    }

    pub(crate) fn step(mut self, step: usize) -> Self {
        self.step = step;
        self
    }

    pub(crate) fn next(mut self, cursor: &str) -> Self {
        self.next = Some(cursor.to_owned());
        self
    }

    pub(crate) fn now(mut self, now: Timestamp) -> Self {
        self.now = now;
        self
    }

    /// The answer to a batch of ids of channels.
    pub(crate) fn channels(requested: &[&str], came: &[&str]) -> Self {
        let records = came
            .iter()
            .map(|id| Record {
                id: (*id).to_owned(),
                body: json!({"id": id}),
            })
            .collect();
        Self {
            call: "channels.list".into(),
            kind: records_of("channel", &[], &[]),
            requested: requested.iter().map(|id| (*id).to_owned()).collect(),
            step: 1,
            ..Self::of(records).over("*", at(0))
        }
    }

    pub(crate) async fn land(&self, catalog: &Catalog) -> Result<Landed, CatalogError> {
        catalog.land(Arc::new(self.landing())).await
    }

    pub(crate) fn landing(&self) -> Landing {
        Landing {
            id: uuid::Uuid::now_v7(),
            pass: self.pass.clone(),
            step: self.step,
            upstream: self.upstream.clone(),
            call: self.call.clone(),
            kind: Arc::new(self.kind.clone()),
            names: vec![pointer("/snippet/channelId").into()],
            records: self.records.clone(),
            request: "request".into(),
            next: self.next.clone(),
            cut: false,
            at_known: AtKnown::Ignore,
            list: ListSoFar::default(),
            removed: Vec::new(),
            lasting: None,
            greatest: None,
            empty_pages: 0,
            requested: self.requested.clone(),
            absent_at: None,
            batch: (!self.requested.is_empty())
                .then(|| OpenBatch::new(self.step, self.requested.clone(), self.now)),
            since: None,
            doubts: Vec::new(),
            if_repeats: None,
            relists: false,
            requests: self.requests,
            units: self.units.clone(),
            tag: self.tag.clone(),
            now: self.now,
            latest: self.now + Duration::from_secs(5 * 60),
        }
    }
}

pub(crate) fn new_pass(region: &str, started_at: Timestamp) -> PassRef {
    PassRef {
        token: Uuid::nil(),
        ..PassRef::new(JOB, region, None, started_at)
    }
}

/// The reference by which the holder of a pass that a page of [`new_pass`] began writes to it.
pub(crate) fn held(pass: PassId) -> PassRef {
    PassRef {
        id: Some(pass),
        ..new_pass("US", at(0))
    }
}

/// Returns the time `minutes` after noon of 2026-03-01.
pub(crate) fn at(minutes: u64) -> Timestamp {
    Timestamp::parse("2026-03-01T12:00:00Z").unwrap() + Duration::from_secs(60 * minutes)
}

pub(crate) fn daily(units: u64) -> Cost {
    [("daily".to_owned(), Units::new(units))]
        .into_iter()
        .collect()
}

pub(crate) fn column(at: &str) -> Column {
    Column {
        at: pointer(at),
        kind: None,
        template: None,
    }
}

pub(crate) fn pointer(text: &str) -> Pointer {
    Pointer::parse(text).unwrap()
}

pub(crate) fn records_of(kind: &str, text: &[&str], columns: &[(&str, &str)]) -> Records {
    Records {
        fields: Vec::new(),
        at: pointer("/items"),
        history: false,
        removed: None,
        kind: kind.to_owned(),
        id: vec![Field::At(pointer("/id"))],
        key: None,
        format: Format::default(),
        layout: Layout::default(),
        text: text.iter().map(|text| pointer(text)).collect(),
        columns: columns
            .iter()
            .map(|(name, at)| ((*name).to_owned(), column(at)))
            .collect::<BTreeMap<_, _>>(),
    }
}

pub(crate) fn videos() -> Records {
    let text = ["/snippet/title", "/snippet/description", "/snippet/tags/*"];
    let columns = [
        ("title", "/snippet/title"),
        ("view_count", "/statistics/viewCount"),
        ("tags", "/snippet/tags/*"),
    ];
    records_of("video", &text, &columns)
}

/// A video with a title, of the channel `c-<id>`.
pub(crate) fn video(id: &str, title: &str) -> Record {
    record(
        id,
        json!({"id": id, "snippet": {"title": title, "channelId": format!("c-{id}")}}),
    )
}

pub(crate) fn video_of(id: &str, channel: &str) -> Record {
    record(
        id,
        json!({"id": id, "snippet": {"title": "t", "channelId": channel}}),
    )
}

pub(crate) fn record(id: &str, body: Value) -> Record {
    Record {
        id: id.to_owned(),
        body,
    }
}
