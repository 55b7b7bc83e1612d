//! One request, against an upstream that answers as told.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::print_stderr
)]

mod answers;
mod bytes;
mod fuzz;
mod hostile;
mod pages;
mod properties;
mod refusals;
mod requests;
mod secrets;
mod tokens;
mod wire;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ingest_base::clock::{Deadline, Monotonic};
use ingest_config as config;
use ingest_config::{
    Auth, Call, Field, Format, Layout, Method, PageKind, Paging, Param, Params, Pointer, Records,
    Region, Rule, Step, Template,
};
use ingest_quota::{Cost, Timestamp};
use ingest_secret::Secret;
use ingest_upstream::{Client, Connection, Failure, Page, PageRequest, Upstream};
use serde_json::{Value, json};

use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};

/// 2026-06-15T12:00:00Z
pub(crate) const NOW: Timestamp = Timestamp::from_micros(1_781_524_800_000_000);

pub(crate) const SECRET: &str = "AbCd-0123456789/secret+value";

/// One request, ready to be changed by a test.
#[derive(Clone)]
pub(crate) struct Asking {
    pub(crate) upstream: config::Upstream,
    pub(crate) call: Call,
    pub(crate) params: Params,
    pub(crate) region: Region,
    pub(crate) ids: Vec<String>,
    pub(crate) cursor: Option<String>,
    pub(crate) secret: Option<&'static str>,
    pub(crate) since: Option<config::SinceValue>,
}

/// A plain listing of `/items` with an id at `/id`, at that address.
pub(crate) fn asking(url: &str) -> Asking {
    Asking {
        upstream: upstream(url),
        call: call(),
        params: BTreeMap::new(),
        region: Region {
            code: "US".to_owned(),
            values: BTreeMap::new(),
            slice: None,
        },
        ids: Vec::new(),
        cursor: None,
        secret: None,
        since: None,
    }
}

fn upstream(url: &str) -> config::Upstream {
    config::Upstream {
        name: "example".to_owned(),
        base_url: url.parse().unwrap(),
        auth: Auth::None,
        timeout: Duration::from_secs(20),
        pause: Duration::ZERO,
        attempts: 4,
        max_concurrency: None,
        max_body: 1 << 20,
        max_values: 250_000,
        keep: None,
        headers: BTreeMap::new(),
        params: BTreeMap::new(),
        errors: Vec::new(),
        calls: BTreeMap::new(),
    }
}

fn call() -> Call {
    Call {
        name: "things.list".to_owned(),
        cost: Cost::none(),
        outage: None,
        method: Method::GET,
        path: Some(template("things")),
        body: None,
        paging: Paging::default(),
        params: BTreeMap::new(),
        headers: BTreeMap::new(),
        records: Some(records("/items", &["/id"]).into()),
        trust: Vec::new(),
        etag: config::Etag::Unused,
        settle: BTreeMap::new(),
        errors: Vec::new(),
        own_rules: 0,
    }
}

pub(crate) fn records(at: &str, id: &[&str]) -> Records {
    Records {
        fields: Vec::new(),
        at: pointer(at),
        history: false,
        removed: None,
        kind: "thing".to_owned(),
        key: None,
        format: Format::default(),
        layout: Layout::default(),
        id: id.iter().map(|id| Field::At(pointer(id))).collect(),
        text: Vec::new(),
        columns: BTreeMap::new(),
    }
}

pub(crate) fn pointer(text: &str) -> Pointer {
    Pointer::parse(text).unwrap()
}

pub(crate) fn template(text: &str) -> Template {
    Template::parse(text).unwrap()
}

pub(crate) fn token_paging() -> Paging {
    Paging {
        kind: PageKind::Token,
        param: Some("pageToken".to_owned()),
        next: Some(pointer("/next")),
        size_param: Some("maxResults".to_owned()),
        size: Some(2),
        ..Paging::default()
    }
}

impl Asking {
    pub(crate) fn paging(mut self, paging: Paging) -> Self {
        self.call.paging = paging;
        self
    }

    pub(crate) fn cursor(mut self, cursor: impl Into<Option<String>>) -> Self {
        self.cursor = cursor.into();
        self
    }

    pub(crate) fn param(mut self, name: &str, text: &str) -> Self {
        self.params
            .insert(name.to_owned(), Param::Once(template(text)));
        self
    }

    pub(crate) fn path(mut self, text: &str) -> Self {
        self.call.path = Some(template(text));
        self
    }

    pub(crate) fn region(mut self, code: &str) -> Self {
        self.region.code = code.to_owned();
        self
    }

    pub(crate) fn auth(mut self, auth: Auth) -> Self {
        self.upstream.auth = auth;
        self.secret = Some(SECRET);
        self
    }

    pub(crate) fn rules(mut self, rules: Vec<Rule>) -> Self {
        self.call.errors = rules;
        self
    }

    pub(crate) fn client(&self) -> Client {
        let secret = self.secret.map_or_else(
            || Secret::new("main", None),
            |secret| Secret::given("main", secret.into()),
        );
        Client::new(Arc::new(self.upstream.clone()), secret).unwrap()
    }

    pub(crate) async fn fetch(&self) -> Result<Page, Failure> {
        self.fetch_by(&self.client()).await
    }

    pub(crate) async fn fetch_until(&self, deadline: Deadline) -> Result<Page, Failure> {
        self.fetch_in_time(&self.client(), deadline).await
    }

    pub(crate) async fn fetch_by(&self, client: &Client) -> Result<Page, Failure> {
        self.fetch_in_time(client, whenever()).await
    }

    async fn fetch_in_time(&self, client: &Client, deadline: Deadline) -> Result<Page, Failure> {
        let step = Step {
            call: Arc::new(self.call.clone()),
            params: self.params.clone(),
            body: self.call.body.clone(),
            max_pages: None,
            stop_at_known: None,
            ids: None,
            read_later: Vec::new(),
        };
        let (region, ids, cursor) = (&self.region, &*self.ids, self.cursor.as_deref());
        client
            .fetch(
                PageRequest {
                    step: &step,
                    region,
                    ids,
                    cursor,
                    lasting: None,
                    began: NOW,
                    now: NOW,
                    since: self.since.as_ref(),
                    known: None,
                },
                Connection::default(),
                deadline,
            )
            .await
            .page
    }
}

/// No grant is about to run out.
pub(crate) fn whenever() -> Deadline {
    Deadline::new(Monotonic::now(), Duration::MAX)
}

/// Things of these ids, as the listing holds them.
pub(crate) fn things(ids: &[&str]) -> Value {
    json!({ "items": ids.iter().map(|id| json!({ "id": id })).collect::<Vec<_>>() })
}

pub(crate) fn answering(answer: StubAnswer) -> StubUpstream {
    StubUpstream::answering([answer])
}

pub(crate) fn ids(page: &Page) -> Vec<&str> {
    page.records
        .iter()
        .map(|record| record.id.as_str())
        .collect()
}

/// What a failure says, and which it is.
pub(crate) fn told(failure: &Failure) -> String {
    let kind = match failure {
        Failure::TooLate => "too late",
        Failure::Unreachable(_) | Failure::NotSent(_) | Failure::Unsendable(_) => "not sent",
        Failure::Spent { .. } => "spent",
        Failure::SlowDown { .. } => "slow down",
        Failure::Denied(_) => "denied",
        Failure::Skip(_) => "skip",
        Failure::BadCursor(_) => "bad cursor",
        Failure::OldCursor(_) => "old cursor",
        Failure::WrongShape(_) => "wrong shape",
        Failure::Transient { .. } | Failure::Unreadable { .. } => "transient",
    };
    format!("{kind}: {failure}")
}
