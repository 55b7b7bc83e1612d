//! The invented world: what is returned for a request that the quota allows.

use serde_json::{Value, json};
use url::Url;

use super::answer::{Ending, Reply, etag};
use super::below;
use super::chance::Chance;
use super::check::Refused;
use super::draw::{Drawing, Facts};
use super::encode::{arranged, encoded};
use super::fault::{self, Mishap};
use super::lasting::First;
use super::pointer::set;
use super::refuse::{Reason, refuse};
use super::request::CallRequest;
use super::route::LINKED;
use super::shape::ResponseShape;
use super::thing::{Thing, ThingList};
use super::token::{self, Direction};
use ingest_config::{Lead, Pointer, ResponseField};
use ingest_quota::{Cost, LimitName, Units};

/// Everything that is invented, as a function of a seed and of what is requested.
#[derive(Debug, Clone, Copy)]
pub struct World {
    seed: Chance,
    failure_rate: f64,
}

impl World {
    pub const fn new(seed: u64, failure_rate: f64) -> Self {
        Self {
            seed: Chance::new(seed),
            failure_rate,
        }
    }

    /// What goes wrong by chance at this attempt of a request; `None`: nothing.
    pub fn mishap(self, request: &CallRequest<'_>, attempt: u64) -> Option<Reply> {
        match fault::mishap(self.seed, self.failure_rate, &request.page(), attempt)? {
            Mishap::Backend(status) => Some(refuse(request, &Reason::Backend(status))),
            Mishap::Drop => Some(Reply::text(503, "").ending(Ending::Dropped)),
        }
    }

    /// A response. `total` replaces the number of records of a list.
    pub fn answer(self, request: &CallRequest<'_>, total: Option<u64>) -> Reply {
        let Some(shape) = &request.route.shape else {
            return Reply::json(200, json!({}));
        };
        let question = Question {
            shape,
            request,
            world: self.seed.of(&request.route.upstream.name),
            total,
        };
        let reply = question.answer().unwrap_or_else(|refused| *refused);
        let reply = self.report_cost(reply, request);
        let records = request.route.call.records.as_ref();
        match records.filter(|_| reply.status == 200) {
            Some(records) => encoded(arranged(reply, records), records.format),
            None => reply,
        }
    }

    /// What a request truly costs: what the configuration says, or half to one and a half times as much where the response
    /// reports it.
    pub fn cost(self, request: &CallRequest<'_>) -> Cost {
        let call = &request.route.call;
        let upstream = self.seed.of(&request.route.upstream.name);
        let drawn = upstream
            // Drawn from the page and not from the attempt, so that a repeated request costs the same.
            .of("cost")
            .of(&request.page())
            .below(5)
            .saturating_add(2);
        let cost = |(limit, units): (&LimitName, Units)| {
            let units = match call.settle.contains_key(limit) {
                true => Units::new(units.times(drawn).get().div_ceil(4)),
                false => units,
            };
            (limit.clone(), units)
        };
        call.cost.iter().map(cost).collect()
    }

    fn report_cost(self, reply: Reply, request: &CallRequest<'_>) -> Reply {
        let settle = &request.route.call.settle;
        if settle.is_empty() || reply.status != 200 {
            return reply;
        }
        let cost = self.cost(request);
        settle.iter().fold(reply, |reply, (limit, at)| {
            let units = cost.of(limit).get();
            match at {
                ResponseField::Header(name) => reply.with_header(name, units.to_string()),
                ResponseField::Body(at) => reply.with_value(at, units.into()),
            }
        })
    }
}

/// A request for records of a known shape.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    pub shape: &'a ResponseShape,
    pub request: &'a CallRequest<'a>,
    pub world: Chance,
    /// In place of the number of records of a list.
    pub total: Option<u64>,
}

/// Which things of a list a page has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub start: u64,
    pub size: u64,
}

impl Question<'_> {
    fn answer(self) -> Result<Reply, Refused> {
        let parts = self.parts()?;
        self.check()?;
        let item = self.shape.item(&parts);
        match self.ids()? {
            Some(ids) => {
                // A size that the upstream would refuse is refused with ids too.
                self.page_size()?;
                Ok(self.whole(self.of_ids(&ids, &item)))
            }
            None if self.shape.call.values.is_empty() => self.page(&item),
            None => Ok(self.whole(self.values(|_| true, &item))),
        }
    }

    /// The records of these ids, in their order. What does not exist is left out.
    fn of_ids(self, ids: &[String], item: &Value) -> Vec<Value> {
        if !self.shape.call.values.is_empty() {
            return self.values(|id| ids.iter().any(|wanted| wanted == id), item);
        }
        let class = &self.shape.class;
        let found = ids.iter().filter_map(|id| {
            let found = Thing::find(class, id, self.world);
            let any = || {
                self.shape
                    .is_generated
                    .then(|| Thing::of_any_id(id, self.world))
            };
            Some((id, found.or_else(any)?))
        });
        let absent = self.shape.call.absent;
        let is_there =
            |thing: &Thing| !thing.chance(class, self.world).of("absent").percent(absent);
        let there = found.filter(|(_, thing)| is_there(thing));
        there
            .map(|(id, thing)| self.record(thing, &[("id", id)], item))
            .collect()
    }

    /// The records of a fixed list.
    fn values(self, wanted: impl Fn(&str) -> bool, item: &Value) -> Vec<Value> {
        let values = &self.shape.call.values;
        let things = ThingList::SHARED.things(u64::try_from(values.len()).unwrap_or_default());
        let wanted = things.zip(values).filter(|(_, (id, _))| wanted(id));
        wanted
            .map(|(thing, (id, name))| self.record(thing, &[("id", id), ("value", name)], item))
            .collect()
    }

    /// A page of a list.
    fn page(self, item: &Value) -> Result<Reply, Refused> {
        let Span { start, size } = self.span()?;
        let things = self.things();
        let total = u64::try_from(things.len()).unwrap_or_default();
        if let Some(behind) = self.behind(start, total) {
            return self.changes(behind, total, item);
        }
        let end = start.saturating_add(size).min(total);
        let range = |number| usize::try_from(number).unwrap_or(usize::MAX);
        let page = things.into_iter().skip(range(start)).take(range(size));
        let mut items: Vec<Value> = page.map(|thing| self.record(thing, &[], item)).collect();
        let is_paged = self.shape.call.page.is_some() && size > 0;
        // A list that an empty page ends names a next page until then.
        let paging = &self.request.route.call.paging;
        let leads_on = paging.empty_page_ends() && !items.is_empty();
        let goes_on = is_paged && (end < total || leads_on);
        let next = goes_on.then(|| self.token(end, Direction::Next));
        if let (Lead::LastRecord(at), true) = (self.request.route.call.paging.lead(), is_paged) {
            // On the last page too: an empty page follows its last record.
            put_into_last(&mut items, at, &self.token(end, Direction::Next));
        }
        let mut facts = Facts::new();
        if let Some(next) = &next {
            facts.insert("next".to_owned(), next.as_str().into());
        }
        if is_paged && start > 0 {
            let previous = self.token(start.saturating_sub(size), Direction::Previous);
            facts.insert("previous".to_owned(), previous.into());
        }
        if is_paged {
            facts.insert("total".to_owned(), total.into());
            facts.insert("size".to_owned(), size.into());
        }
        let reply = self.reply(items, facts);
        Ok(match self.shape.is_generated {
            true => {
                let reply = lead_on(reply, self.request, next.as_deref(), total);
                match next {
                    Some(_) => reply,
                    None => self.begin_next(reply, end, First::Everything),
                }
            }
            false => reply,
        })
    }

    /// A response that has all that was requested.
    fn whole(self, items: Vec<Value>) -> Reply {
        let mut facts = Facts::new();
        if self.shape.call.page.is_some() {
            facts.insert("total".to_owned(), items.len().into());
            facts.insert("size".to_owned(), items.len().into());
        }
        self.reply(items, facts)
    }

    pub fn reply(self, items: Vec<Value>, mut facts: Facts) -> Reply {
        let items = Value::from(items);
        facts.insert("etag".to_owned(), etag(&items.to_string()).into());
        facts.insert("items".to_owned(), items);
        facts.insert(
            "list_kind".to_owned(),
            self.shape.call.list_kind.as_str().into(),
        );
        let drawing = Drawing::of_nothing(self.shape, self.request, facts);
        Reply::json(200, drawing.fill(self.shape.answer()))
    }

    pub fn record(self, thing: Thing, known: &[(&str, &str)], item: &Value) -> Value {
        let mut facts = Facts::new();
        facts.insert("kind".to_owned(), self.shape.call.kind.as_str().into());
        facts.extend(
            known
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).into())),
        );
        let drawing = Drawing {
            shape: self.shape,
            class: &self.shape.class,
            thing,
            world: self.world,
            request: self.request,
            facts,
        };
        drawing.fill(item)
    }

    pub fn token(&self, offset: u64, direction: Direction) -> String {
        let token = token::encode(offset, direction, self.list_chance());
        match self.request.route.call.paging.then() {
            Some(_) => token::with_list(&token, &self.request.list()),
            None => token,
        }
    }

    /// What the tokens of the requested list are drawn from.
    pub fn list_chance(&self) -> Chance {
        self.world.of(&self.request.list())
    }
}

/// Adds what the configuration reads to request the next page.
pub fn lead_on(reply: Reply, request: &CallRequest<'_>, next: Option<&str>, total: u64) -> Reply {
    let url = next.map(|token| linked(request, token).to_string());
    let paging = &request.route.call.paging;
    let flags = [
        (paging.more(), next.is_some()),
        (paging.done(), next.is_none()),
    ];
    let reply = flags
        .into_iter()
        .fold(reply, |reply, (at, is_true)| match at {
            Some(at) => reply.with_value(at, is_true.into()),
            None => reply,
        });
    let reply = match paging.total() {
        Some(at) => reply.with_value(at, total.into()),
        None => reply,
    };
    match (request.route.call.paging.lead(), next, url) {
        (Lead::Total(_), ..) => reply,
        (Lead::Pages(at), ..) => {
            let pages = total.div_ceil(request.route.call.paging.page_size());
            reply.with_value(at, pages.into())
        }
        (Lead::Token(at), Some(token), _) => reply.with_value(at, token.into()),
        (Lead::Url(at), _, url) => reply.with_value(at, url.into()),
        (Lead::LinkHeader, _, Some(url)) => {
            reply.with_header("link", format!("<{url}>; rel=\"next\""))
        }
        (Lead::TokenHeader(name), Some(token), _) => reply.with_header(name, token),
        (Lead::Nowhere | Lead::LastRecord(_), ..)
        | (Lead::Token(_) | Lead::TokenHeader(_), None, _)
        | (Lead::LinkHeader, _, None) => reply,
    }
}

/// Puts the token of the next page into the last record.
fn put_into_last(items: &mut [Value], at: &Pointer, token: &str) {
    let Some(last) = items.last_mut() else {
        return;
    };
    match last.pointer_mut(at.as_str()) {
        Some(value) => *value = token.into(),
        None => set(last, at.tokens(), token.into()),
    }
}

/// The same request with another cursor, and without its secret.
pub fn linked(request: &CallRequest<'_>, token: &str) -> Url {
    let mut url = below(&request.base, request.path);
    let others = request.params.iter().filter(|(name, _)| *name != LINKED);
    url.query_pairs_mut()
        .clear()
        .extend_pairs(others)
        .append_pair(LINKED, token);
    url
}
