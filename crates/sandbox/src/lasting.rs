//! Lists whose next pass begins where the last one ended (`page.lasting`), as far as only the configuration is known.
//!
//! Nothing is stored: the token behind a list counts the passes since everything was listed. Each of them finds one new record and one
//! that was removed: at first a record of the list, and then the new one of the pass before. Where the list ends at an empty page, each
//! second token leads to that.

use serde_json::Value;

use super::answer::Reply;
use super::check::Refused;
use super::draw::Facts;
use super::pointer::set;
use super::refuse::{Reason, refuse};
use super::thing::{Thing, ThingList};
use super::token::Direction;
use super::world::{Question, lead_on, linked};
use ingest_config::{Lasting, Lead, Removed};

/// The number of passes that begin at a cursor before the sandbox refuses the next cursor as too old.
const PASSES: u64 = 6;

/// What the pages before a token had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum First {
    /// All records of the list.
    Everything,
    Changes,
}

impl Question<'_> {
    /// Returns how far behind the end of its list a request begins; `None` in a list, and where no pass begins behind one.
    pub fn behind(&self, start: u64, total: u64) -> Option<u64> {
        let lasts = self.shape.is_generated && self.request.route.call.paging.lasting().is_some();
        let behind = start.checked_sub(total)?;
        (lasts && self.request.place().is_some()).then_some(behind)
    }

    /// What changed, that far behind a list of `total` things.
    pub fn changes(self, behind: u64, total: u64, item: &Value) -> Result<Reply, Refused> {
        let changed = match (behind % 2, behind / 2) {
            (0, _) => Vec::new(),
            (_, PASSES..) => return Err(Box::new(refuse(self.request, &Reason::OldCursor))),
            (_, pass) => self.changed(pass, total, item),
        };
        let reply = lead_on(self.reply(changed, Facts::new()), self.request, None, total);
        Ok(self.begin_next(reply, total.saturating_add(behind), First::Changes))
    }

    fn changed(self, pass: u64, total: u64, item: &Value) -> Vec<Value> {
        let own = ThingList::named(&self.request.list(), self.world);
        let number = total.saturating_add(pass);
        let nth = |number: u64| own.things(number.saturating_add(1)).last();
        let found = nth(number).map(|thing| self.record(thing, &[], item));
        let removed = match pass {
            0 => self.things().into_iter().rfind(|thing| thing.list == own),
            _ => nth(number.saturating_sub(1)),
        };
        let removed = removed.and_then(|thing| self.removed(thing, item));
        found.into_iter().chain(removed).collect()
    }

    /// A thing that says that it was removed; `None` where the configuration reads no such thing.
    fn removed(self, thing: Thing, item: &Value) -> Option<Value> {
        let records = self.request.route.call.records.as_ref()?;
        let Removed { at, is } = records.removed.as_ref()?;
        let mut record = self.record(thing, &[], item);
        let value = is
            .first()
            .map_or(Value::Bool(true), |is| is.as_str().into());
        match record.pointer_mut(at.as_str()) {
            Some(place) => *place = value,
            None => set(&mut record, at.tokens(), value),
        }
        Some(record)
    }

    /// Adds the cursor with which the next pass begins, behind `end`.
    pub fn begin_next(self, reply: Reply, end: u64, first: First) -> Reply {
        let paging = &self.request.route.call.paging;
        let at = match (paging.lasting(), paging.lead()) {
            (Some(Lasting::At(at)), _) | (Some(Lasting::Last), Lead::Token(at) | Lead::Url(at)) => {
                at
            }
            (Some(Lasting::Last) | None, _) => return reply,
        };
        // Where nothing says that a page is the last, only an empty page ends the list, and the token leads to that
        // first.
        let is_said = matches!(paging.lasting(), Some(Lasting::At(_)))
            || paging.more().is_some()
            || paging.done().is_some();
        let further = match (is_said, first) {
            (true, First::Everything) | (false, First::Changes) => 1,
            (true, First::Changes) => 2,
            (false, First::Everything) => 0,
        };
        let token = self.token(end.saturating_add(further), Direction::Next);
        let cursor = match matches!(paging.lead(), Lead::Url(_)) {
            true => linked(self.request, &token).to_string(),
            false => token,
        };
        reply.with_value(at, cursor.into())
    }
}
