//! An upstream of which only the configuration is known: every call answers what the configuration reads.

mod fill;
mod page;
mod record;
mod refusal;

use serde_json::Value;

use self::fill::set;
use super::answer::Answer;
use super::asked::Asked;
use super::chance::Chance;
use super::refusal::Refusal;
use crate::config::Records;

pub(super) use self::refusal::refuse;

/// More records than this no list holds.
const LONGEST: u64 = 100_000;

/// Answers a request. `total` takes the place of how much the list holds.
pub(super) fn answer(asked: &Asked<'_>, world: Chance, total: Option<u64>) -> Answer {
    let world = world.of(&asked.route.upstream.name);
    let Some(records) = &asked.route.call.records else {
        return Answer::json(200, serde_json::json!({}));
    };
    match asked.ids() {
        Some(ids) => Answer::json(200, body(records, record::by_id(asked.route, records, &ids, world))),
        None => listed(asked, records, world, total),
    }
}

fn listed(asked: &Asked<'_>, records: &Records, world: Chance, total: Option<u64>) -> Answer {
    let name = asked.list();
    let list = world.of(&name);
    let total = total.unwrap_or_else(|| page::usual_total(&asked.route.call.paging));
    let Some(span) = page::span(asked, list) else {
        return refuse(&asked.route.upstream, &Refusal::BadCursor);
    };
    let total = total.min(LONGEST);
    let all = record::list(records, &name, total, world);
    let (skip, take) = (usize::try_from(span.start), usize::try_from(span.size));
    let page = all.into_iter().skip(skip.unwrap_or(usize::MAX)).take(take.unwrap_or_default());
    let page = page.map(|chance| record::one(asked.route, records, chance, None));
    page::lead_on(Answer::json(200, body(records, page.collect())), asked, span, total, list)
}

/// An answer that holds these records.
fn body(records: &Records, list: Vec<Value>) -> Value {
    let mut body = Value::Null;
    set(&mut body, records.at.tokens(), list.into());
    body
}
