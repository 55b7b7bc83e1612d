//! The generated upstream: what it holds, and what it answers.

use std::fmt::Write;

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Map, Value, json};

use super::plan::{Change, Kind, Name, Total, World};
use ingest_testing::stub_upstream::{StubAnswer, StubRequest};

/// A record, with times in seconds.
#[derive(Debug, Clone)]
pub struct Row {
    pub id: u32,
    pub born: i64,
    pub updated: i64,
}

pub struct Server {
    pub world: World,
    /// Names that are the other ones now.
    pub renamed: Vec<Name>,
    /// What it holds, in the order of the ids.
    pub rows: Vec<Row>,
    /// The time, in seconds.
    pub now: i64,
    /// Requests of the current run, and what changes before one of them.
    pub requests: u64,
    pub during: Option<(u8, Change)>,
    last_id: u32,
    /// The most records that it ever held.
    highest: usize,
}

pub fn time(seconds: i64) -> String {
    DateTime::<Utc>::from_timestamp(seconds, 0)
        .unwrap()
        .to_rfc3339_opts(SecondsFormat::Secs, true)
}

impl Server {
    pub fn new(world: &World, now: i64) -> Self {
        let mut server = Self {
            world: world.clone(),
            renamed: Vec::new(),
            rows: Vec::new(),
            now,
            requests: 0,
            during: None,
            last_id: 100,
            highest: 0,
        };
        server.change(Change::Grow(world.rows));
        server
    }

    pub fn change(&mut self, change: Change) {
        let count = self.rows.len().max(1);
        match change {
            Change::Grow(more) => {
                for _ in 0..more {
                    self.last_id += 1;
                    self.rows.push(Row {
                        id: self.last_id,
                        born: self.now,
                        updated: self.now,
                    });
                }
            }
            Change::Lose(at) if !self.rows.is_empty() => {
                self.rows.remove(usize::from(at) % count);
            }
            Change::Update(at) => {
                if let Some(row) = self.rows.get_mut(usize::from(at) % count) {
                    row.updated = self.now;
                }
            }
            Change::Lose(_) => {}
            Change::Cap(cap) => self.world.cap = cap,
            Change::Rename(name) if self.renamed.contains(&name) => {
                self.renamed.retain(|known| *known != name);
            }
            Change::Rename(name) => self.renamed.push(name),
        }
        self.highest = self.highest.max(self.rows.len());
    }

    /// What changes while it is read, where a reader could see it.
    fn change_while_read(&mut self, change: Change) {
        let counts = self.world.kind.counts();
        // A total that falls shows that records went.
        let tells = self.world.total == Total::Right && !self.renamed.contains(&Name::Total);
        let hides = match change {
            Change::Lose(_) => counts && !tells,
            Change::Update(_) | Change::Grow(_) | Change::Cap(_) | Change::Rename(_) => false,
        };
        if !hides {
            self.now += 1;
            self.change(change);
        }
    }

    /// The name of this in requests and responses.
    pub fn name(&self, name: Name) -> &'static str {
        self.world.name(name, self.renamed.contains(&name))
    }

    /// What the list of a request has, in its order.
    fn listed(&self, request: &StubRequest) -> Vec<Row> {
        let since = request.param("since").map_or(0, |since| {
            let since = DateTime::parse_from_rfc3339(since).unwrap();
            // Nothing is updated within a second.
            since.timestamp() + i64::from(since.timestamp_subsec_nanos() > 0)
        });
        let rows = self.rows.iter().filter(|row| row.updated >= since);
        let mut rows: Vec<Row> = rows.cloned().collect();
        if self.by_update() {
            rows.sort_by_key(|row| (row.updated, row.id));
        }
        if self.world.newest_first {
            rows.reverse();
        }
        rows
    }

    fn by_update(&self) -> bool {
        self.world.since > 0 && self.world.kind != Kind::Last
    }

    /// The place of a record in the order of the list.
    fn key(&self, row: &Row) -> i64 {
        match self.by_update() {
            true => row.updated * 1_000 + i64::from(row.id),
            false => i64::from(row.id),
        }
    }

    pub fn size(&self, requested: Option<u8>) -> usize {
        usize::from(requested.unwrap_or(self.world.usual).min(self.world.cap))
    }

    /// The records of a full page, where the configuration has the name of the size.
    pub fn honoured_size(&self) -> usize {
        let requested = self.world.size.filter(|(_, is_sent)| *is_sent);
        self.size(requested.map(|(size, _)| size))
    }

    pub fn answer(&mut self, request: &StubRequest) -> StubAnswer {
        if let Some((before, change)) = self.during
            && self.requests >= u64::from(before)
        {
            self.during = None;
            self.change_while_read(change);
        }
        self.requests += 1;
        let rows = self.listed(request);
        let requested = request.param(self.name(Name::Size));
        let size = self.size(requested.map(|size| size.parse().unwrap()));
        let cursor = request.param(self.name(Name::Param));
        let start = self.start(&rows, cursor, size);
        let end = rows.len().min(start + size);
        let page = &rows[start.min(end)..end];
        let next = (end < rows.len()).then(|| page.last().map(|row| self.key(row)));
        self.respond(request, (start == 0, page), next.flatten(), rows.len())
    }

    /// The place in the list where the page begins.
    fn start(&self, rows: &[Row], cursor: Option<&str>, size: usize) -> usize {
        let Some(cursor) = cursor else { return 0 };
        let cursor: i64 = cursor.parse().unwrap();
        let count = usize::try_from(cursor).unwrap_or(0);
        let is_behind = |row: &Row| match self.world.newest_first {
            true => self.key(row) < cursor,
            false => self.key(row) > cursor,
        };
        match self.world.kind {
            Kind::Offset => count,
            Kind::Number => count.saturating_sub(1) * size,
            Kind::Token | Kind::Last | Kind::NextUrl | Kind::Link => {
                let first = rows.iter().position(is_behind);
                first.unwrap_or(rows.len())
            }
        }
    }

    fn respond(
        &self,
        request: &StubRequest,
        (is_first, page): (bool, &[Row]),
        next: Option<i64>,
        total: usize,
    ) -> StubAnswer {
        let mut body = Map::new();
        let mut says = |name: Name, value: Value| body.insert(self.name(name).to_owned(), value);
        says(Name::At, page.iter().map(|row| self.record(row)).collect());
        let (kind, goes_on) = (self.world.kind, next.is_some());
        let next = next.map(|next| match kind {
            Kind::NextUrl | Kind::Link => self.url(request, next).into(),
            _ => Value::from(next.to_string()),
        });
        if matches!(kind, Kind::Token | Kind::NextUrl) && (next.is_some() || self.world.null_at_end)
        {
            says(Name::Next, next.clone().into());
        }
        if self.world.more {
            says(Name::More, goes_on.into());
        }
        if self.world.done {
            says(Name::Done, (!goes_on).into());
        }
        let total = match self.world.total {
            Total::Absent => None,
            Total::Right => Some(total),
            Total::First => Some(total).filter(|_| is_first),
            Total::Later => Some(total).filter(|_| !is_first),
            Total::High => Some(self.highest.max(total)),
        };
        if let Some(total) = total {
            says(Name::Total, total.into());
        }
        let answer = StubAnswer::json(&body.into());
        match next {
            Some(Value::String(url)) if kind == Kind::Link => {
                let rel = self.name(Name::Next);
                answer.header("link", &format!("<{url}>; rel=\"{rel}\""))
            }
            _ => answer,
        }
    }

    fn record(&self, row: &Row) -> Value {
        json!({ self.name(Name::Id): row.id, "updated": time(row.updated), "version": row.updated })
    }

    /// The URL of the request with another cursor.
    fn url(&self, request: &StubRequest, next: i64) -> String {
        let param = self.name(Name::Param);
        let mut url = format!("{}?{param}={next}", request.path);
        for (name, value) in request.query.iter().filter(|(name, _)| name != param) {
            write!(url, "&{name}={value}").unwrap();
        }
        url
    }
}

impl World {
    /// A name of the upstream, or the other one that it can have.
    pub fn name(&self, name: Name, other: bool) -> &'static str {
        let [plain, other_one, obscure] = match name {
            Name::Size => ["limit", "per_page", "stk"],
            Name::Param => ["from", "position", "ab"],
            Name::Next => ["next", "next_cursor", "weiter"],
            Name::More => ["has_more", "has_next", "noch"],
            Name::Done => ["is_last", "last_page", "fertig"],
            Name::Total => ["total", "total_count", "summe"],
            Name::At => ["rows", "data", "zeilen"],
            Name::Id => ["id", "uid", "nr"],
        };
        match (other, self.obscure) {
            (false, _) => plain,
            (true, false) => other_one,
            (true, true) => obscure,
        }
    }

    /// The name in the configuration, which is wrong where that is so.
    fn configured(&self, name: Name, renamed: &[Name]) -> &'static str {
        let is_other = renamed.contains(&name) != (self.wrong == Some(name));
        self.name(name, is_other)
    }

    /// `page` and `records`, where these names are the other ones.
    pub fn tables(&self, renamed: &[Name]) -> (String, String) {
        let name = |name| self.configured(name, renamed);
        let mut page = match self.kind {
            Kind::Token => format!(
                "kind=\"token\",param=\"{}\",next=\"/{}\"",
                name(Name::Param),
                name(Name::Next)
            ),
            Kind::Last => format!(
                "kind=\"token\",param=\"{}\",last=\"/{}\"",
                name(Name::Param),
                name(Name::Id)
            ),
            Kind::NextUrl => format!("kind=\"next_url\",next=\"/{}\"", name(Name::Next)),
            Kind::Link => "kind=\"link\"".to_owned(),
            Kind::Offset => format!("kind=\"offset\",param=\"{}\"", name(Name::Param)),
            Kind::Number => format!("kind=\"number\",param=\"{}\"", name(Name::Param)),
        };
        if let Some((size, is_sent)) = self.size {
            write!(page, ",size={size}").unwrap();
            if is_sent {
                write!(page, ",size_param=\"{}\"", name(Name::Size)).unwrap();
            }
        }
        for (key, read, of) in [
            ("more", self.reads_more(), Name::More),
            ("done", self.reads_done(), Name::Done),
            ("total", self.reads_total(), Name::Total),
        ] {
            if read {
                write!(page, ",{key}=\"/{}\"", name(of)).unwrap();
            }
        }
        let records = format!(
            "{{at=\"/{}\",kind=\"row\",id=\"/{}\"}}",
            name(Name::At),
            name(Name::Id)
        );
        (format!("{{{page}}}"), records)
    }

    pub fn reads_more(&self) -> bool {
        self.more && self.reads[0] && self.kind != Kind::Link
    }

    pub fn reads_done(&self) -> bool {
        self.done && self.reads[1] && self.kind != Kind::Link
    }

    pub fn reads_total(&self) -> bool {
        self.total != Total::Absent && self.reads[2]
    }

    /// Whether requests or responses have this name, and the configuration too.
    pub fn uses(&self, name: Name) -> bool {
        match name {
            Name::Size => self.size.is_some_and(|(_, is_sent)| is_sent),
            Name::Param => !matches!(self.kind, Kind::NextUrl | Kind::Link),
            Name::Next => self.kind.leads(),
            Name::More => self.reads_more(),
            Name::Done => self.reads_done(),
            Name::Total => self.reads_total(),
            Name::At | Name::Id => true,
        }
    }
}
