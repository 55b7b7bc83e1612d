//! YouTube's answers: real fields, invented values.

mod check;
mod draw;
mod lists;
mod refusal;
mod resource;
mod thing;

use serde_json::{Map, Value, json};

use self::draw::Drawn;
use self::refusal::bad_parameter;
use self::resource::Listing;
use self::thing::{Class, Place, Thing};
use super::answer::{Answer, etag};
use super::asked::{Asked, split};
use super::chance::Chance;
use super::token::{self, Direction};
use crate::quota::Timestamp;

pub use self::refusal::refuse;
pub use self::resource::{Resource, Resources};

const MOST_IDS: usize = 50;

/// Answers a request. `total` takes the place of how much the list holds.
pub fn answer(resource: &Resource, asked: &Asked<'_>, world: Chance, total: Option<u64>) -> Answer {
    let question = Question {
        resource,
        asked,
        world,
        total: total.unwrap_or(resource.total),
    };
    question.answer().unwrap_or_else(|refused| *refused)
}

/// A request for a resource.
#[derive(Clone, Copy)]
struct Question<'a> {
    resource: &'a Resource,
    asked: &'a Asked<'a>,
    world: Chance,
    total: u64,
}

/// One page of a list.
struct Page {
    items: Vec<Value>,
    info: Option<Value>,
    next: Option<String>,
    previous: Option<String>,
}

type Refused = Box<Answer>;

impl<'a> Question<'a> {
    fn answer(self) -> Result<Answer, Refused> {
        let parts = self.parts()?;
        let region = self.region()?;
        self.filtered()?;
        let page = match self.asked.param("id") {
            Some(ids) => self.by_id(&split(ids), &parts)?,
            None if self.resource.class == Class::Value => self.values(&parts),
            None => self.listed(region, &parts)?,
        };
        Ok(Answer::json(200, self.envelope(page)))
    }

    /// The items of these ids, in their order. What does not exist is left out without a word.
    fn by_id(self, ids: &[String], parts: &[&str]) -> Result<Page, Refused> {
        if ids.len() > MOST_IDS {
            return Err(Box::new(bad_parameter(
                "invalidFilters",
                "id",
                "A request accepts at most 50 ids.",
            )));
        }
        self.page_size()?;
        if self.resource.class == Class::Value {
            let values = self
                .resource
                .values
                .iter()
                .filter(|(id, _)| ids.contains(id));
            return Ok(self.all_of(values.map(|value| self.value_item(value, parts)).collect()));
        }
        let found = ids
            .iter()
            .filter_map(|id| Thing::find(self.resource.class, id, self.world));
        let there = found.filter(|thing| {
            !thing
                .chance(self.world)
                .of("absent")
                .percent(self.resource.absent)
        });
        Ok(self.all_of(there.map(|thing| self.item(thing, None, parts)).collect()))
    }

    /// A fixed list.
    fn values(self, parts: &[&str]) -> Page {
        self.all_of(
            self.resource
                .values
                .iter()
                .map(|value| self.value_item(value, parts))
                .collect(),
        )
    }

    fn all_of(self, items: Vec<Value>) -> Page {
        let count = items.len();
        let info = self
            .resource
            .page
            .map(|_| json!({ "totalResults": count, "resultsPerPage": count }));
        Page {
            items,
            info,
            next: None,
            previous: None,
        }
    }

    /// A page of a list.
    fn listed(self, region: Place, parts: &[&str]) -> Result<Page, Refused> {
        let list = self.world.of(&self.asked.list());
        let size = self.page_size()?.unwrap_or(lists::LONGEST);
        let start = self.start(list)?;
        let things = self.things(region);
        let total = u64::try_from(things.len()).unwrap_or_default();
        let end = start.saturating_add(size).min(total);
        let (skip, take) = (
            usize::try_from(start),
            usize::try_from(end.saturating_sub(start)),
        );
        let page = things
            .into_iter()
            .skip(skip.unwrap_or_default())
            .take(take.unwrap_or_default());
        let paged = self.resource.page.is_some() && size > 0;
        Ok(Page {
            items: page.map(|thing| self.item(thing, None, parts)).collect(),
            info: self.resource.page.map(
                |_| json!({ "totalResults": self.claimed(total, start), "resultsPerPage": size }),
            ),
            next: (paged && end < total).then(|| token::encode(end, Direction::Next, list)),
            previous: (paged && start > 0)
                .then(|| token::encode(start.saturating_sub(size), Direction::Previous, list)),
        })
    }

    fn things(self, region: Place) -> Vec<Thing> {
        let total = self.total.min(lists::LONGEST);
        let mut things = match self.resource.list {
            Listing::Chart => lists::chart(region, total, self.world),
            Listing::Search => {
                let topic = lists::topic(self.asked.param("q").unwrap_or_default(), self.world);
                lists::found(region, topic, total, self.world)
            }
            Listing::Plain => {
                let topic = lists::topic(&self.about(), self.world);
                lists::numbered(self.resource.class, region, topic, total)
            }
        };
        let time = |name| self.asked.param(name).and_then(Timestamp::parse);
        lists::between(
            &mut things,
            time("publishedAfter"),
            time("publishedBefore"),
            self.world,
        );
        if self.asked.param("order") == Some("date") {
            lists::newest_first(&mut things, self.world);
        }
        things
    }

    /// What a plain list is about: its filters.
    fn about(self) -> String {
        let filters = self.resource.filters.iter();
        filters
            .filter_map(|filter| Some(format!("{filter}={}", self.asked.param(filter)?)))
            .collect()
    }

    /// What the upstream says that there is: not to be trusted.
    fn claimed(self, total: u64, start: u64) -> u64 {
        match self.resource.list {
            Listing::Search => 1_000_000,
            _ => total.saturating_add(self.world.of("claimed").nth(start).below(3)),
        }
    }

    fn value_item(self, value: &'a (String, String), parts: &[&str]) -> Value {
        let number = self
            .resource
            .values
            .iter()
            .position(|other| other == value)
            .unwrap_or_default();
        let number = u16::try_from(number).unwrap_or_default();
        let thing = Thing {
            class: Class::Value,
            place: Place::EVERYWHERE,
            topic: 0,
            number,
        };
        self.item(thing, Some(value), parts)
    }

    /// One item, with the parts that are asked for.
    fn item(self, thing: Thing, value: Option<&'a (String, String)>, parts: &[&str]) -> Value {
        let Self {
            resource,
            asked,
            world,
            ..
        } = self;
        let drawn = Drawn {
            thing,
            world,
            asked,
            value,
        };
        let mut shape = Map::new();
        if !resource.bare {
            shape.insert("kind".to_owned(), resource.kind.clone().into());
            shape.insert("etag".to_owned(), "@etag".into());
            shape.insert(
                "id".to_owned(),
                resource.own_id.clone().unwrap_or_else(|| "@id".into()),
            );
        }
        shape.extend(resource.always.clone());
        let wanted = resource.parts.iter().filter(|(name, shape)| {
            !shape.is_null()
                && name
                    .split('?')
                    .next()
                    .is_some_and(|name| parts.contains(&name))
        });
        shape.extend(wanted.map(|(name, part)| (name.clone(), part.clone())));
        drawn.fill(&Value::Object(shape))
    }

    /// The whole answer, in the order in which it is known.
    fn envelope(self, page: Page) -> Value {
        let mut body = Map::new();
        body.insert("kind".to_owned(), self.resource.list_kind.clone().into());
        body.insert(
            "etag".to_owned(),
            etag(&Value::from(page.items.clone()).to_string()).into(),
        );
        let tokens = [
            ("nextPageToken", page.next),
            ("prevPageToken", page.previous),
        ];
        body.extend(
            tokens
                .into_iter()
                .filter_map(|(name, token)| Some((name.to_owned(), token?.into()))),
        );
        let nobody = Thing {
            class: Class::Other,
            place: Place::EVERYWHERE,
            topic: 0,
            number: 0,
        };
        let drawn = Drawn {
            thing: nobody,
            world: self.world,
            asked: self.asked,
            value: None,
        };
        body.extend(
            self.resource
                .extra
                .iter()
                .map(|(name, shape)| (name.clone(), drawn.fill(shape))),
        );
        body.extend(page.info.map(|info| ("pageInfo".to_owned(), info)));
        if !(page.items.is_empty() && self.resource.list_may_be_missing) {
            body.insert("items".to_owned(), page.items.into());
        }
        Value::Object(body)
    }
}
