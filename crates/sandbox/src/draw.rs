//! Fills templates. A text `@name` is replaced by a drawn value, a member `name?60` is in 60 of 100 things, and a member
//! `name?` is left out where its value is empty.

use std::time::Duration;

use serde_json::{Map, Value};

use super::answer::etag;
use super::chance::Chance;
use super::request::CallRequest;
use super::shape::ResponseShape;
use super::thing::{Class, Thing};
use super::words::{self, Language};
use ingest_config::{Moment, TimeFormat};
use ingest_quota::Timestamp;

/// Nothing in the invented world is newer. The instant is fixed, so that a later run finds the same records.
const NEWEST: Timestamp = Timestamp::from_micros(1_762_000_000_000_000);
const TWO_YEARS: u64 = 2 * 365 * 24 * 60 * 60;

/// What is known beyond the thing itself, by the name that templates use.
pub type Facts = Map<String, Value>;

/// A thing, and the request that it was found by.
#[derive(Debug, Clone)]
pub struct Drawing<'a> {
    pub shape: &'a ResponseShape,
    pub class: &'a Class,
    pub thing: Thing,
    pub world: Chance,
    pub request: &'a CallRequest<'a>,
    /// They take the place of drawn values.
    pub facts: Facts,
}

/// When a thing was published.
pub fn published(chance: Chance) -> Timestamp {
    NEWEST - Duration::from_secs(chance.of("published").below(TWO_YEARS))
}

impl<'d> Drawing<'d> {
    /// What is filled from facts alone.
    pub fn of_nothing(
        shape: &'d ResponseShape,
        request: &'d CallRequest<'d>,
        facts: Facts,
    ) -> Self {
        Self {
            shape,
            class: &shape.class,
            thing: Thing::default(),
            world: Chance::new(0),
            request,
            facts,
        }
    }

    pub fn fill(&self, template: &Value) -> Value {
        match template {
            Value::String(text) => match text.strip_prefix('@') {
                Some(name) => self.value(name),
                None => template.clone(),
            },
            Value::Array(parts) => parts.iter().map(|part| self.fill(part)).collect(),
            Value::Object(members) => Value::Object(self.members(members)),
            Value::Null | Value::Bool(_) | Value::Number(_) => template.clone(),
        }
    }

    fn members(&self, members: &Map<String, Value>) -> Map<String, Value> {
        let member = |(key, template): (&String, &Value)| {
            let (name, share) = key.split_once('?').unwrap_or((key, "100"));
            let is_present = |share| self.chance().of("present").of(name).percent(share);
            let present = share.parse().map_or(true, is_present);
            let value = present.then(|| self.fill(template))?;
            (!(share.is_empty() && is_empty(&value))).then(|| (name.to_owned(), value))
        };
        members.iter().filter_map(member).collect()
    }

    /// The value of a name. The same name has the same value everywhere in a thing.
    fn value(&self, name: &str) -> Value {
        if let Some(value) = self.facts.get(name) {
            return value.clone();
        }
        let (class, of_it) = name.split_once('.').unwrap_or((name, "id"));
        if let Some(class) = self.shape.class_named(class) {
            return self.related(class).value(of_it);
        }
        let (kind, argument) = name.split_once(':').unwrap_or((name, ""));
        match kind {
            "requested" => self.requested(argument),
            "shape" => match self.shape.upstream.shapes.get(argument) {
                Some(template) => self.fill(template),
                None => Value::Null,
            },
            "escaped" => match self.value(argument) {
                Value::String(text) => words::escaped(&text).into(),
                other => other,
            },
            _ => self.drawn(kind, argument, self.chance().of(name)),
        }
    }

    /// A value of this kind, drawn from `chance`.
    fn drawn(&self, kind: &str, argument: &str, chance: Chance) -> Value {
        let number = argument
            .split(':')
            .next()
            .and_then(|text| text.parse().ok());
        match kind {
            "id" => self.thing.id(self.class, self.world).into(),
            "etag" => etag(&self.thing.id(self.class, self.world)).into(),
            "hex" => format!("{:012x}", chance.bits() >> 16).into(),
            "someone" => format!("of-{:x}", chance.below(number.unwrap_or(1))).into(),
            "published" => rfc3339(published(self.chance())),
            "time" => rfc3339(published(chance)),
            "formatted" => TimeFormat::parse(argument)
                .map(|format| Moment::at(published(chance)).written(&format))
                .into(),
            "count" => count(chance).to_string().into(),
            "number" => chance.below(number.unwrap_or(1_000)).into(),
            "position" => self.thing.number().into(),
            "bool" => chance.percent(number.unwrap_or(50)).into(),
            "boolText" => chance.percent(number.unwrap_or(50)).to_string().into(),
            "one" => chance.pick(&argument.split('|').collect::<Vec<_>>()).into(),
            "duration" => duration(chance).into(),
            "country" => self.country().unwrap_or_else(|| "US".to_owned()).into(),
            "handle" => format!("@stand-in-{:x}", chance.below(1 << 40)).into(),
            "url" => format!("https://pages.example/{:016x}", chance.bits()).into(),
            _ => self.written(kind, number, chance),
        }
    }

    /// A value that is in the language of the thing; null for a name that means nothing.
    fn written(&self, kind: &str, number: Option<u64>, chance: Chance) -> Value {
        let Some(language) = Language::for_region(self.country().as_deref(), self.chance()) else {
            return Value::Null;
        };
        match kind {
            "title" => words::title(language, chance).into(),
            "text" => words::text(language, chance).into(),
            "name" => words::name(language, chance).into(),
            "words" => words::words(language, number.unwrap_or(6), chance).into(),
            "names" => {
                let count = chance
                    .of("count")
                    .below(number.unwrap_or(12))
                    .saturating_add(1);
                (0..count)
                    .map(|number| words::name(language, chance.nth(number)))
                    .collect()
            }
            "language" => language.code.as_str().into(),
            _ => Value::Null,
        }
    }

    /// What the request has for a parameter, else the value behind it: `videoId:video`.
    fn requested(&self, argument: &str) -> Value {
        let (param, otherwise) = argument.split_once(':').unwrap_or((argument, ""));
        match self.request.param(param) {
            Some(value) => value.into(),
            None => self.value(otherwise),
        }
    }

    fn related<'a>(&'a self, class: &'a Class) -> Drawing<'a> {
        Drawing {
            class,
            thing: self.thing.related(self.class, class, self.world),
            facts: Facts::new(),
            ..*self
        }
    }

    fn country(&self) -> Option<String> {
        self.thing.list.country()
    }

    fn chance(&self) -> Chance {
        self.thing.chance(self.class, self.world)
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(parts) => parts.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn rfc3339(at: Timestamp) -> Value {
    Moment::at(at).text().into()
}

/// Small ones and large ones, and a few that no float holds exactly.
fn count(chance: Chance) -> u64 {
    let digits = match chance.of("huge").percent(1) {
        true => 18,
        false => chance.of("digits").below(8).saturating_add(2),
    };
    chance.below(10_u64.saturating_pow(u32::try_from(digits).unwrap_or(2)))
}

fn duration(chance: Chance) -> String {
    let seconds = chance.below(3 * 60 * 60).saturating_add(5);
    let parts = [
        (seconds / 3600, 'H'),
        (seconds / 60 % 60, 'M'),
        (seconds % 60, 'S'),
    ];
    let parts = parts.iter().filter(|(number, _)| *number > 0);
    parts.fold("PT".to_owned(), |text, (number, unit)| {
        format!("{text}{number}{unit}")
    })
}
