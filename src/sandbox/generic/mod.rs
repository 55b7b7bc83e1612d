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
use crate::quota::{Cost, LimitName, Units};

pub use self::refusal::{is_free, refuse};

/// More records than this no list holds.
const LONGEST: u64 = 100_000;

/// Answers a request. `total` takes the place of how much the list holds.
pub fn answer(asked: &Asked<'_>, world: Chance, total: Option<u64>) -> Answer {
    let own = world.of(&asked.route.upstream.name);
    let Some(records) = &asked.route.call.records else {
        return Answer::json(200, serde_json::json!({}));
    };
    let answer = match asked.ids() {
        Some(ids) => Answer::json(
            200,
            body(records, record::by_id(asked.route, records, &ids, own)),
        ),
        None => listed(asked, records, own, total),
    };
    tell_cost(answer, asked, world)
}

/// What a request truly costs: what the configuration says, or half to one and a half times as much where the answer
/// tells.
pub fn cost(asked: &Asked<'_>, world: Chance) -> Cost {
    let call = &asked.route.call;
    let drawn = world
        .of(&asked.route.upstream.name)
        .of("cost")
        .of(&asked.page())
        .below(5)
        .saturating_add(2);
    let of = |(limit, units): (&LimitName, Units)| match call.settle.contains_key(limit) {
        true => (
            limit.clone(),
            Units::new(units.times(drawn).get().div_ceil(4)),
        ),
        false => (limit.clone(), units),
    };
    call.cost.iter().map(of).collect()
}

fn tell_cost(answer: Answer, asked: &Asked<'_>, world: Chance) -> Answer {
    let settle = &asked.route.call.settle;
    if settle.is_empty() {
        return answer;
    }
    let cost = cost(asked, world);
    settle.iter().fold(answer, |answer, (limit, at)| {
        page::with_value(answer, at, cost.of(limit).get().into())
    })
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
    let page = all
        .into_iter()
        .skip(skip.unwrap_or(usize::MAX))
        .take(take.unwrap_or_default());
    let page = page.map(|chance| record::one(asked.route, records, chance, None));
    page::lead_on(
        Answer::json(200, body(records, page.collect())),
        asked,
        span,
        total,
        list,
    )
}

/// An answer that holds these records.
fn body(records: &Records, list: Vec<Value>) -> Value {
    let mut body = Value::Null;
    set(&mut body, records.at.tokens(), list.into());
    body
}
