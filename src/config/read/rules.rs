//! `errors`: rules, or the names of sets of them.

use super::scalars::{pointer, word};
use super::upstream::header_name;
use crate::config::item::{self, Document, Item};
use crate::config::names::advice;
use crate::config::section::Section;
use crate::config::tree::{Kind, Node};
use crate::config::{Class, Condition, Rule, StatusMatch, Until};

/// The built-in sets: rules of upstreams whose answers many APIs share.
pub const SETS: [(&str, &str); 1] = [("google", include_str!("../rules/google.toml"))];
pub const KEYS: [&str; 12] = [
    "status",
    "at",
    "is",
    "all",
    "text",
    "header",
    "header_is",
    "class",
    "limit",
    "limit_at",
    "until_header",
    "free",
];
pub const BODY_KEYS: [&str; 2] = ["at", "is"];
pub const CLASSES: [(&str, Class); 6] = [
    ("spent", Class::Spent),
    ("slow_down", Class::SlowDown),
    ("denied", Class::Denied),
    ("skip", Class::Skip),
    ("bad_cursor", Class::BadCursor),
    ("transient", Class::Transient),
];

pub fn rules(item: Item<'_>) -> Option<Vec<Rule>> {
    let elements = match item.kind() {
        Kind::Text(_) => vec![item],
        Kind::List(_) => item.list()?,
        _ => {
            return item.refuse(
                "expected a list of rules, or the name of a rule set",
                "write \"google\", or [{ status = 403, class = \"denied\" }]",
            );
        }
    };
    let read = |item: Item<'_>| match item.kind() {
        Kind::Text(name) => set(&item, name),
        _ => rule(item).map(|rule| vec![rule]),
    };
    item::all::<_, Vec<Vec<Rule>>>(elements.into_iter().map(read)).map(|rules| rules.concat())
}

fn set(item: &Item<'_>, name: &str) -> Option<Vec<Rule>> {
    let Some((_, text)) = SETS.iter().find(|(known, _)| *known == name) else {
        return item.refuse(
            "unknown rule set",
            advice(name, SETS.map(|(known, _)| known)),
        );
    };
    let document = Document::new(format!("{name}.toml").into(), Node::parse(text).ok()?);
    let rules = document.item().find(&["rules"])?;
    item::all(rules.list()?.into_iter().map(rule))
}

fn rule(item: Item<'_>) -> Option<Rule> {
    let section = item.clone().table(&KEYS)?;
    let status = section.or("status", Vec::new(), statuses);
    let conditions = conditions(&section);
    let class = section.required("class", "\"skip\"", |item| word(&item, &CLASSES));
    let limit = section.optional("limit", |item| item.filled_text());
    let limit_at = section.optional("limit_at", pointer);
    let until = section.optional("until_header", |item| {
        header_name(&item, item.text()?).map(Until::EpochHeader)
    });
    let free = section.or("free", false, |item| item.truth());
    let (status, conditions) = (status?, conditions?);
    if status.is_empty() && conditions.is_empty() {
        return item.refuse(
            "the rule has no condition: it would match every refusal",
            "add status = [\"4xx\", \"5xx\"] or another condition",
        );
    }
    Some(Rule {
        status,
        conditions,
        class: class?,
        limit: limit?,
        limit_at: limit_at?,
        until: until?,
        free: free?,
    })
}

fn statuses(item: Item<'_>) -> Option<Vec<StatusMatch>> {
    item::all(item.one_or_more()?.into_iter().map(status))
}

fn status(item: Item<'_>) -> Option<StatusMatch> {
    let found = match item.kind() {
        Kind::Integer(number) => u16::try_from(*number)
            .ok()
            .filter(|status| (100..600).contains(status))
            .map(StatusMatch::Exactly),
        Kind::Text(text) => hundred(text).map(StatusMatch::Hundred),
        _ => None,
    };
    found.or_else(|| {
        item.refuse(
            "expected a status code, or a class such as \"5xx\"",
            "write 403 or \"5xx\"",
        )
    })
}

fn hundred(text: &str) -> Option<u16> {
    text.strip_suffix("xx")?
        .parse()
        .ok()
        .filter(|hundred| (1..6).contains(hundred))
}

fn conditions(section: &Section<'_>) -> Option<Vec<Condition>> {
    let bodies = match (section.get("at"), section.get("is")) {
        (None, None) => Some(Vec::new()),
        _ => body(section).map(|condition| vec![condition]),
    };
    let all = section.or("all", Vec::new(), |item| {
        item::all(
            item.list()?
                .into_iter()
                .map(|item| body(&item.table(&BODY_KEYS)?)),
        )
    });
    let text = section.optional("text", |item| item.filled_text().map(Condition::Text));
    let header = header(section);
    let mut conditions = bodies?;
    conditions.extend(all?);
    conditions.extend(text?);
    conditions.extend(header?);
    Some(conditions)
}

fn body(section: &Section<'_>) -> Option<Condition> {
    let at = section.required("at", "\"/error/code\"", pointer);
    let is = section.required("is", "\"quotaExceeded\"", patterns);
    Some(Condition::Body { at: at?, is: is? })
}

fn header(section: &Section<'_>) -> Option<Option<Condition>> {
    let name = section.optional("header", |item| header_name(&item, item.text()?));
    let is = section.optional("header_is", patterns);
    match (name?, is?) {
        (Some(name), is) => Some(Some(Condition::Header {
            name,
            is: is.unwrap_or_default(),
        })),
        (None, None) => Some(None),
        (None, Some(_)) => section.0.lacks("header", "\"x-ratelimit-remaining\""),
    }
}

fn patterns(item: Item<'_>) -> Option<Vec<String>> {
    item::all(item.one_or_more()?.into_iter().map(|item| item.as_text()))
}
