//! Draws the values that the shapes in `resources.json` leave open.

use std::time::Duration;

use chrono::SecondsFormat;
use serde_json::{Map, Value, json};

use super::thing::{Class, Place, Thing};
use crate::quota::Timestamp;
use crate::sandbox::answer::etag;
use crate::sandbox::asked::Asked;
use crate::sandbox::chance::Chance;
use crate::sandbox::words::{self, Script};

/// The newest that anything in the stand-in's world is: it does not age, so that a later run finds the same again.
const NEWEST: Timestamp = Timestamp::from_micros(1_762_000_000_000_000);
const TWO_YEARS: u64 = 2 * 365 * 24 * 60 * 60;

/// A thing, and what was asked when it was found.
#[derive(Debug, Clone, Copy)]
pub struct Drawn<'a> {
    pub thing: Thing,
    pub world: Chance,
    pub asked: &'a Asked<'a>,
    /// Its id and its name, where it is of a fixed list.
    pub value: Option<&'a (String, String)>,
}

/// When a thing was published.
pub fn published(chance: Chance) -> Timestamp {
    NEWEST - Duration::from_secs(chance.of("published").below(TWO_YEARS))
}

impl Drawn<'_> {
    /// A shape with its values: a text `@name` is drawn, a member `name?60` is there in 60 of 100 things.
    pub fn fill(&self, shape: &Value) -> Value {
        match shape {
            Value::String(text) => text
                .strip_prefix('@')
                .map_or_else(|| shape.clone(), |name| self.value(name)),
            Value::Array(parts) => parts.iter().map(|part| self.fill(part)).collect(),
            Value::Object(members) => Value::Object(self.members(members)),
            _ => shape.clone(),
        }
    }

    fn members(&self, members: &Map<String, Value>) -> Map<String, Value> {
        let present = members.iter().filter_map(|(name, shape)| {
            let (name, share) = name.split_once('?').unwrap_or((name, "100"));
            let there = self
                .chance()
                .of("present")
                .of(name)
                .percent(share.parse().unwrap_or(100));
            there.then(|| (name.to_owned(), self.fill(shape)))
        });
        present.collect()
    }

    /// `name` or `name:argument`; the same name is drawn alike everywhere in a thing.
    fn value(&self, name: &str) -> Value {
        let (kind, argument) = name.split_once(':').unwrap_or((name, ""));
        let chance = self.chance().of(name);
        match kind {
            "id" => self.id().into(),
            "value" => self
                .value
                .map_or_else(Value::default, |(_, name)| name.clone().into()),
            "etag" => etag(&self.id()).into(),
            "asked" => self.asked_or_drawn(argument),
            "video" => self.related(Class::Video).id(self.world).into(),
            "channel" => self.channel().id(self.world).into(),
            "channelTitle" => title(self.channel(), self.world).into(),
            "uploads" => self.channel().id(self.world).replacen("UC", "UU", 1).into(),
            "playlist" => self.related(Class::Playlist).id(self.world).into(),
            "comment" => self.related(Class::Comment).id(self.world).into(),
            "title" => title(self.thing, self.world).into(),
            "titleEscaped" => words::escaped(&title(self.thing, self.world)).into(),
            "text" => words::text(self.script(), chance).into(),
            "name" => words::name(self.script(), chance).into(),
            "tags" => self.tags(chance),
            "keywords" => words::words(self.script(), 6, chance).into(),
            "published" => rfc3339(published(self.chance())).into(),
            "time" => rfc3339(published(chance)).into(),
            "count" => count(chance).to_string().into(),
            "number" => chance.below(argument.parse().unwrap_or(1_000)).into(),
            "position" => self.thing.number.into(),
            "bool" => chance.percent(argument.parse().unwrap_or(50)).into(),
            "boolText" => chance
                .percent(argument.parse().unwrap_or(50))
                .to_string()
                .into(),
            "one" => chance.pick(&argument.split('|').collect::<Vec<_>>()).into(),
            "duration" => duration(chance).into(),
            "language" => self.script().language().into(),
            "country" => self
                .thing
                .place
                .code()
                .unwrap_or_else(|| "US".to_owned())
                .into(),
            "region" => self.asked.param("regionCode").unwrap_or("US").into(),
            "handle" => format!("@stand-in-{:x}", chance.below(1 << 40)).into(),
            "url" => url(chance).into(),
            "thumbnails" => thumbnails(argument, self.chance()),
            _ => Value::Null,
        }
    }

    /// What was asked for by this parameter, else what stands behind it: `videoId:video`.
    fn asked_or_drawn(&self, argument: &str) -> Value {
        let (param, otherwise) = argument.split_once(':').unwrap_or((argument, ""));
        self.asked
            .param(param)
            .map_or_else(|| self.value(otherwise), Value::from)
    }

    pub fn id(&self) -> String {
        self.value
            .map_or_else(|| self.thing.id(self.world), |(id, _)| id.clone())
    }

    fn chance(&self) -> Chance {
        self.thing.chance(self.world)
    }

    fn script(&self) -> Script {
        script(self.thing, self.world)
    }

    const fn related(&self, class: Class) -> Thing {
        Thing {
            class,
            ..self.thing
        }
    }

    fn channel(&self) -> Thing {
        channel(self.thing, self.world)
    }

    fn tags(&self, chance: Chance) -> Value {
        let count = chance.of("count").below(12).saturating_add(1);
        (0..count)
            .map(|number| words::name(self.script(), chance.nth(number)))
            .collect()
    }
}

/// Whose a thing is: several things are one channel's.
fn channel(thing: Thing, world: Chance) -> Thing {
    if thing.class == Class::Channel {
        return thing;
    }
    let channels = match (thing.place, thing.topic) {
        (Place::EVERYWHERE, 0) => 50,
        (_, 0) => 80,
        _ => 300,
    };
    let number = thing.chance(world).of("channel").below(channels);
    Thing {
        class: Class::Channel,
        topic: 0,
        number: u16::try_from(number).unwrap_or_default(),
        ..thing
    }
}

fn script(thing: Thing, world: Chance) -> Script {
    Script::of(thing.place.code().as_deref(), thing.chance(world))
}

fn title(thing: Thing, world: Chance) -> String {
    let chance = thing.chance(world).of("title");
    let script = script(thing, world);
    if thing.class == Class::Channel {
        words::name(script, chance)
    } else {
        words::title(script, chance)
    }
}

fn rfc3339(at: Timestamp) -> String {
    at.to_utc().to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// Small ones and large ones, and a few that no float holds exactly.
fn count(chance: Chance) -> u64 {
    let digits = chance.of("digits").below(8).saturating_add(2);
    let digits = if chance.of("huge").percent(1) {
        18
    } else {
        digits
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

fn url(chance: Chance) -> String {
    format!("https://images.example/{:016x}", chance.bits())
}

/// The sizes that videos have (`5`; the larger ones are missing at times), or channels (`3`).
fn thumbnails(sizes: &str, chance: Chance) -> Value {
    let sizes = match sizes {
        "5" if chance.of("sizes").percent(80) => VIDEO_SIZES.get(..5),
        "channel" => Some(&CHANNEL_SIZES[..]),
        _ => VIDEO_SIZES.get(..3),
    };
    let thumbnails = sizes.unwrap_or_default().iter().map(|(name, width, height)| {
        let thumbnail = json!({ "url": url(chance.of("thumbnail").of(name)), "width": width, "height": height });
        ((*name).to_owned(), thumbnail)
    });
    Value::Object(thumbnails.collect())
}

const VIDEO_SIZES: [(&str, u32, u32); 5] = [
    ("default", 120, 90),
    ("medium", 320, 180),
    ("high", 480, 360),
    ("standard", 640, 480),
    ("maxres", 1280, 720),
];
const CHANNEL_SIZES: [(&str, u32, u32); 3] = [
    ("default", 88, 88),
    ("medium", 240, 240),
    ("high", 800, 800),
];
