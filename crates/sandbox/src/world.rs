//! The invented world: what is returned for a request that the quota allows. It is a function of the seed and of what is requested, and
//! nothing is stored: a token says where its list goes on, and an id which record it names.
//!
//! A list of `n` records has the numbers n - 1 to 0. With `page.lasting` it goes on behind its end: the number of a token counts the
//! passes since everything was listed, and each pass finds one new record and one that was removed. Where only an empty page ends a list,
//! each second number behind its end is that page.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use url::Url;

use super::answer::{Ending, Reply};
use super::below;
use super::drawn::{self, drawn};
use super::encode::{arranged, encoded};
use super::pointer::set;
use super::record::record;
use super::refuse::{Reason, refuse};
use super::request::CallRequest;
use super::route::{AnsweredCall, LINKED};
use ingest_config::{
    Format, Lasting, Lead, PageKind, Paging, Pointer, Records, Removed, ResponseField,
};
use ingest_quota::{Cost, LimitName, Units};

/// Records on a page, where neither the configuration nor the request says; and of a list that has one page.
const USUAL: u64 = 20;
/// Pages are at most this large.
const MOST: u64 = 10_000;
/// Pages are counted as if they had at most this many records, so that practice does not take long.
const USUAL_PAGE: u64 = 1_000;
/// Pages of a list, with half a page behind them, which is full where `max_pages` ends the list there.
const PAGES: u64 = 3;
/// No upstream has a region of this code, which ISO 3166 leaves to users.
const NO_REGION: &str = "XX";
/// The records that the lists of all regions share, of every five.
const SHARED: u64 = 2;
/// The requested ids that do not exist, of every hundred.
const ABSENT: u64 = 2;
/// The passes that begin at a cursor before the next cursor is too old.
const PASSES: u64 = 6;

/// Everything that is invented.
#[derive(Debug, Clone, Copy)]
pub struct World {
    seed: u64,
    /// The share of requests that fails, 0 to 1.
    failure_rate: f64,
}

impl World {
    pub const fn new(seed: u64, failure_rate: f64) -> Self {
        Self { seed, failure_rate }
    }

    /// What goes wrong by chance at this attempt of a request; `None`: nothing. It depends on the request and not on its time, so other
    /// requests do not change it.
    pub fn mishap(self, request: &CallRequest<'_>, attempt: u64) -> Option<Reply> {
        let drawn = drawn(self.seed, &format!("failure {attempt} {}", request.page()));
        // 53 bits are what a float holds exactly.
        let share = (drawn >> 11) as f64 / (1_u64 << 53) as f64;
        (share < self.failure_rate).then(|| match drawn % 3 {
            0 => refuse(request, &Reason::Backend(500)),
            1 => refuse(request, &Reason::Backend(503)),
            _ => Reply::text(503, "").ending(Ending::Dropped),
        })
    }

    /// A response. `total` replaces the number of records of a list.
    pub fn answer(self, request: &CallRequest<'_>, total: Option<u64>) -> Reply {
        let Some(records) = &request.route.call.records else {
            return Reply::json(200, json!({}));
        };
        if request.params.values().any(|value| value == NO_REGION) {
            return refuse(request, &Reason::NoRegion);
        }
        let question = Question::new(self.seed, request, records);
        let reply = match request.ids() {
            Some(ids) => question.of_ids(&ids),
            None => question.page(total.unwrap_or_else(|| usual_total(request.route))),
        };
        if reply.status != 200 {
            return reply;
        }
        encoded(
            arranged(self.report_cost(reply, request), records),
            records.format,
        )
    }

    /// What a request truly costs: what the configuration says, or half to one and a half times as much where the response
    /// reports it.
    pub fn cost(self, request: &CallRequest<'_>) -> Cost {
        let call = &request.route.call;
        // Drawn from the page and not from the attempt, so that a repeated request costs the same.
        let quarters = 2 + drawn::below(self.seed, &format!("cost {}", request.page()), 5);
        let cost = |(limit, units): (&LimitName, Units)| {
            let units = match call.settle.contains_key(limit) {
                true => Units::new(units.times(quarters).get().div_ceil(4)),
                false => units,
            };
            (limit.clone(), units)
        };
        call.cost.iter().map(cost).collect()
    }

    fn report_cost(self, reply: Reply, request: &CallRequest<'_>) -> Reply {
        let cost = self.cost(request);
        let settle = request.route.call.settle.iter();
        settle.fold(reply, |reply, (limit, at)| {
            let units = cost.of(limit).get();
            match at {
                ResponseField::Header(name) => reply.with_header(name, units.to_string()),
                ResponseField::Body(at) => reply.with_value(at, units.into()),
            }
        })
    }
}

/// A request for records.
#[derive(Debug, Clone)]
struct Question<'a> {
    /// The seed of the upstream's world.
    seed: u64,
    request: &'a CallRequest<'a>,
    paging: &'a Paging,
    records: &'a Records,
    /// The seed of the requested list.
    list: u64,
}

impl<'a> Question<'a> {
    fn new(seed: u64, request: &'a CallRequest<'a>, records: &'a Records) -> Self {
        let seed = drawn(seed, &request.route.upstream.name);
        Self {
            seed,
            request,
            paging: &request.route.call.paging,
            records,
            list: drawn(seed, &request.list()),
        }
    }

    /// The records of these ids, in their order. What does not exist is left out.
    fn of_ids(&self, ids: &[String]) -> Reply {
        let is_there =
            |id: &&String| drawn::below(self.seed, &format!("absent {id}"), 100) >= ABSENT;
        let there = ids.iter().filter(is_there);
        self.reply(there.map(|id| self.record(id)).collect())
    }

    /// A page of a list with this number of records.
    fn page(&self, total: u64) -> Reply {
        let place = self.request.place();
        let size = self.page_size();
        let start = self.paging.position(place.as_deref(), size, |token| {
            // The first page has `{since}` in place of a token.
            let begins = self.request.route.begins_at_since && !is_token(token);
            self.start_of(token).or(begins.then_some(0))
        });
        let Some(start) = start else {
            return refuse(self.request, &Reason::BadCursor);
        };
        let behind = start.checked_sub(total).filter(|_| place.is_some());
        if let (Some(behind), Some(_)) = (behind, &self.paging.lasting) {
            return self.changes(behind, total);
        }
        let is_paged = has_pages(self.paging);
        let end = if is_paged {
            start.saturating_add(size).min(total)
        } else {
            total
        };
        // The newest first: what makes a list longer moves all of its pages.
        let numbers = (start..end).map(|place| total - 1 - place);
        let mut found: Vec<Value> = numbers
            .map(|number| self.record(&self.id(number)))
            .collect();
        // A list that an empty page ends names a next page until then.
        let goes_on = end < total || (self.paging.empty_page_ends() && !found.is_empty());
        let next = (is_paged && goes_on).then(|| self.token(end));
        if let (Some(at), true, Some(last)) = (&self.paging.last, is_paged, found.last_mut()) {
            // On the last page too: an empty page follows its last record.
            replace(last, at, self.token(end).into());
        }
        let is_last = next.is_none();
        let reply = self.lead_on(self.reply(found), next.as_deref(), total);
        match is_last {
            true => self.begin_next(reply, end, First::Everything),
            false => reply,
        }
    }

    /// How many records a page has: what is requested, as far as a page can have them.
    fn page_size(&self) -> u64 {
        let param = self.paging.size_param.as_deref();
        let requested = param.and_then(|param| self.request.page_value(param)?.parse().ok());
        let usual = self.paging.size.unwrap_or(USUAL);
        requested.unwrap_or(usual).clamp(1, MOST)
    }

    /// What changed, that far behind a list of `total` records.
    fn changes(&self, behind: u64, total: u64) -> Reply {
        let changed = match (behind % 2, behind / 2) {
            (0, _) => Vec::new(),
            (_, PASSES..) => return refuse(self.request, &Reason::OldCursor),
            (_, pass) => {
                // Its numbers are no multiples of five, and so in no other list.
                let number = |pass: u64| {
                    total
                        .saturating_add(pass)
                        .saturating_mul(5)
                        .saturating_add(SHARED)
                };
                let removed = match pass {
                    0 => (0..total).rfind(|number| !is_shared(*number)),
                    _ => Some(number(pass - 1)),
                };
                let found = self.record(&self.id(number(pass)));
                let removed = removed.and_then(|number| self.removed(number));
                std::iter::once(found).chain(removed).collect()
            }
        };
        let reply = self.lead_on(self.reply(changed), None, total);
        self.begin_next(reply, total.saturating_add(behind), First::Changes)
    }

    /// A record that says that it was removed; `None` where the configuration reads no such thing.
    fn removed(&self, number: u64) -> Option<Value> {
        let Removed { at, is } = self.records.removed.as_ref()?;
        let mut record = self.record(&self.id(number));
        let said = is
            .first()
            .map_or(Value::Bool(true), |is| is.as_str().into());
        replace(&mut record, at, said);
        Some(record)
    }

    fn record(&self, id: &str) -> Value {
        record(self.seed, self.request.route, self.records, id)
    }

    /// The id of a record of the list, by its number.
    fn id(&self, number: u64) -> String {
        let list = if is_shared(number) {
            self.seed
        } else {
            self.list
        };
        let drawn = drawn(list, &format!("{} {number}", self.records.kind));
        URL_SAFE_NO_PAD.encode(drawn.to_be_bytes())
    }

    /// A response with these records.
    fn reply(&self, records: Vec<Value>) -> Reply {
        let mut body = Value::Null;
        let at = match (self.records.at.tokens(), self.records.format) {
            // Elements of one name are their list; XML has no list in a list.
            ([above @ .., last], Format::Xml) if last == "*" => above,
            (at, _) => at,
        };
        set(&mut body, at, records.into());
        Reply::json(200, body)
    }

    /// Adds what the configuration reads to request the next page.
    fn lead_on(&self, reply: Reply, next: Option<&str>, total: u64) -> Reply {
        let values = [
            (&self.paging.more, next.is_some().into()),
            (&self.paging.done, next.is_none().into()),
            (&self.paging.total, total.into()),
            (
                &self.paging.pages,
                total.div_ceil(self.paging.page_size()).into(),
            ),
        ];
        let values = values.into_iter();
        let values = values.filter_map(|(at, value): (_, Value)| Some((at.as_ref()?, value)));
        let reply = values.fold(reply, |reply, (at, value)| reply.with_value(at, value));
        match (self.paging.lead(), next) {
            (Some(Lead::Token(at)), Some(token)) => reply.with_value(at, token.into()),
            (Some(Lead::Url(at)), _) => {
                reply.with_value(at, next.map(|token| self.linked(token).to_string()).into())
            }
            (Some(Lead::LinkHeader), Some(token)) => {
                reply.with_header("link", format!("<{}>; rel=\"next\"", self.linked(token)))
            }
            (Some(Lead::TokenHeader(name)), Some(token)) => reply.with_header(name, token),
            (Some(Lead::LastRecord(_)) | None, _)
            | (Some(Lead::Token(_) | Lead::TokenHeader(_) | Lead::LinkHeader), None) => reply,
        }
    }

    /// Adds the cursor with which the next pass begins, behind `end`.
    fn begin_next(&self, reply: Reply, end: u64, first: First) -> Reply {
        let Some(at) = self.paging.lasting_at() else {
            return reply;
        };
        // Where nothing says that a page is the last, only an empty page ends the list, and the token leads to that first.
        let is_said = matches!(self.paging.lasting, Some(Lasting::At(_)))
            || self.paging.more.is_some()
            || self.paging.done.is_some();
        let further = match (is_said, first) {
            (true, First::Everything) | (false, First::Changes) => 1,
            (true, First::Changes) => 2,
            (false, First::Everything) => 0,
        };
        let token = self.token(end.saturating_add(further));
        let cursor = match self.paging.kind {
            PageKind::NextUrl => self.linked(&token).to_string(),
            _ => token,
        };
        reply.with_value(at, cursor.into())
    }

    /// The token of the list that leads to this number; other lists do not know it.
    fn token(&self, number: u64) -> String {
        let token = format!("{number:x}-{:08x}", self.check(number));
        match &self.paging.then {
            // The requests of further pages do not show which list they are for.
            Some(_) => format!("{token}.{}", URL_SAFE_NO_PAD.encode(self.request.list())),
            None => token,
        }
    }

    fn start_of(&self, token: &str) -> Option<u64> {
        let (number, check) = token.split('.').next()?.split_once('-')?;
        let number = u64::from_str_radix(number, 16).ok()?;
        (check == format!("{:08x}", self.check(number))).then_some(number)
    }

    fn check(&self, number: u64) -> u64 {
        drawn(self.list, &format!("token {number}")) >> 32
    }

    /// The same request with another cursor, and without its secret.
    fn linked(&self, token: &str) -> Url {
        let mut url = below(&self.request.base, self.request.path);
        let others = self
            .request
            .params
            .iter()
            .filter(|(name, _)| *name != LINKED);
        url.query_pairs_mut()
            .clear()
            .extend_pairs(others)
            .append_pair(LINKED, token);
        url
    }
}

/// What the pages before a cursor had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum First {
    /// All records of the list.
    Everything,
    Changes,
}

/// Whether a text has the form of a token of the sandbox.
fn is_token(text: &str) -> bool {
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let parts = text.split('.').next().and_then(|text| text.split_once('-'));
    parts.is_some_and(|(number, check)| is_hex(number) && is_hex(check) && check.len() == 8)
}

/// Whether the record of this number is in the lists of all regions: they are spread over each list.
const fn is_shared(number: u64) -> bool {
    number % 5 < SHARED
}

fn has_pages(paging: &Paging) -> bool {
    paging.most_pages(None) != Some(1)
}

/// How many records a list of a call has, if nobody says.
fn usual_total(route: &AnsweredCall) -> u64 {
    let paging = &route.call.paging;
    let size = paging.size.map_or(USUAL, |size| size.min(USUAL_PAGE));
    let behind = match route.most_pages.contains(&(PAGES + 1)) {
        true => size,
        false => size / 2,
    };
    match has_pages(paging) {
        true => size.saturating_mul(PAGES).saturating_add(behind),
        false => USUAL,
    }
}

/// Puts a value in the place of another one, if there is one.
fn replace(record: &mut Value, at: &Pointer, value: Value) {
    match record.pointer_mut(at.as_str()) {
        Some(place) => *place = value,
        None => set(record, at.tokens(), value),
    }
}
