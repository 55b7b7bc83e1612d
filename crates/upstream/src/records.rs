//! The records of a response: where they are, and their ids.

use std::collections::HashMap;
use std::fmt;

use serde_json::{Map, Value};
use thiserror::Error;

use super::Page;
use super::beside::error_of;
use super::elements::{as_lists, is_place};
use super::layout::{NoRecords, SCALAR, from_columns, from_rows};
use super::repeated::{Repeated, TooMuchRepeated};
use ingest_base::record::Record;
use ingest_config::{Field, Format, Layout, Pointer, Records, Values};

/// What is not as it should be in a response.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum WrongShape {
    #[error("the response contains {found} instead of {expected} (at `{at}`)")]
    Value {
        at: String,
        found: &'static str,
        expected: &'static str,
    },
    #[error("the first row of the response (at `{at}`) has the name `{name}` twice")]
    Twice { at: String, name: String },
    #[error("none of the response's {count} records has an id at `{ids}`{has}")]
    NoIds {
        count: u64,
        ids: String,
        has: MembersOf,
    },
    #[error(transparent)]
    Repeat(#[from] TooMuchRepeated),
}

/// The records of a page.
#[derive(Debug)]
pub struct Found {
    /// The page with them. What it says beside them is not read yet.
    pub page: Page,
    /// What the first record without an id says that is an error.
    pub error: Option<String>,
    /// The last record that the response listed, if the cursor of the next page is in it.
    pub last: Option<Value>,
}

/// Members that `*` matches and that are no records, because they hold no object and others do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeftOut {
    pub members: u64,
    /// The name of the first one.
    pub first: Option<String>,
}

/// What records without an id have instead, for a message.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct MembersOf {
    /// Of the first one.
    names: Vec<String>,
    /// Whether one has an id that is longer than any that is stored.
    pub has_long_id: bool,
}

impl MembersOf {
    /// The most members that are named.
    const MOST: usize = 12;

    fn add(&mut self, record: &Value, is_first: bool, has_long_id: bool) {
        self.has_long_id |= has_long_id;
        if is_first {
            let names = record.as_object().into_iter().flatten();
            // One more shows that there are others.
            let names = names.map(|(name, _)| name.clone()).take(Self::MOST + 1);
            self.names = names.collect();
        }
    }

    /// The same names, each made safe by `shown`.
    pub fn shown_by(&self, shown: impl Fn(&str) -> String) -> Self {
        Self {
            names: self.names.iter().map(|name| shown(name)).collect(),
            has_long_id: self.has_long_id,
        }
    }
}

impl fmt::Display for MembersOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.has_long_id {
            write!(f, "; {LONG_ID}")?;
        }
        if self.names.is_empty() {
            return Ok(());
        }
        let named = self.names.iter().take(Self::MOST);
        let named: Vec<String> = named.map(|name| format!("`{name}`")).collect();
        let more = if self.names.len() > Self::MOST {
            " and others"
        } else {
            ""
        };
        write!(f, "; a record has {}{more}", named.join(", "))
    }
}

/// Takes the records out of a response: each id once, at its first place. In a list that names what changed, its last change
/// counts. `read_later`: where a record has what other steps and passes read.
pub fn take(
    document: &mut Value,
    what: &Records,
    values: &Values<'_>,
    keep_last: bool,
    read_later: &[Pointer],
) -> Result<Found, WrongShape> {
    let mut bodies = BodySearch::run(document, what)?;
    // An upstream can answer null for an id that it does not have.
    bodies
        .found
        .retain(|body| values.ids.is_empty() || !body.is_null());
    let listed = count(&bodies.found);
    let mut page = Page {
        listed,
        left_out: bodies.left_out,
        replaced: bodies.replaced,
        lacks_list: bodies.lacks_list && listed == 0,
        lacks_elements: bodies.lacks_element && listed == 0,
        ..Page::default()
    };
    let mut error = None;
    let last = bodies.found.last().filter(|_| keep_last).cloned();
    for mut body in bodies.found {
        add_fields(&mut body, what, values, &mut page.replaced);
        if what.format == Format::Xml {
            list_elements(&mut body, what, read_later);
        }
        match id_of(&body, &what.id, values) {
            None => {
                let is_long = |part| part_of(&body, part, values).is_some_and(|id| is_long(&id));
                let has_long_id = what.id.iter().any(is_long);
                page.has_instead.add(&body, page.skipped == 0, has_long_id);
                page.skipped += 1;
                error = error.or_else(|| error_of(&body));
            }
            Some(id) => page.records.push(Record { id, body }),
        }
    }
    match &what.removed {
        None => {
            let all = count(&page.records);
            page.differing = keep_first(&mut page.records);
            page.repeated = all - count(&page.records);
        }
        Some(how) => {
            page.records.reverse();
            keep_first(&mut page.records);
            page.records.reverse();
            let removed = page
                .records
                .extract_if(.., |record| how.is_said_by(&record.body));
            page.removed = removed.map(|record| record.id).collect();
        }
    }
    if listed > 0 && page.skipped == listed {
        return Err(WrongShape::NoIds {
            count: listed,
            ids: joined(&what.id),
            has: page.has_instead,
        });
    }
    Ok(Found { page, error, last })
}

/// Keeps the first of the records that have the same id. Returns the number of others that differ from it.
fn keep_first(records: &mut Vec<Record>) -> u64 {
    let mut differing = 0;
    let mut first: HashMap<String, usize> = HashMap::with_capacity(records.len());
    let mut kept: Vec<Record> = Vec::with_capacity(records.len());
    for record in records.drain(..) {
        match first.get(&record.id).and_then(|place| kept.get(*place)) {
            Some(earlier) => differing += u64::from(earlier.body != record.body),
            None => {
                first.insert(record.id.clone(), kept.len());
                kept.push(record);
            }
        }
    }
    *records = kept;
    differing
}

/// Whether a response is one record, or contains something where its records should be.
pub fn has_records(document: &Value, what: &Records, values: &Values<'_>) -> bool {
    match (what.at.tokens(), document) {
        // A whole response that is an object may also be an error: a record has an id.
        ([], Value::Object(_)) => id_of(document, &what.id, values).is_some(),
        // Null beside an error, as GraphQL writes it, is no empty list.
        _ => what.at.find(document).is_some_and(|found| !found.is_null()),
    }
}

/// The values that a record takes from its request.
fn add_fields(
    body: &mut Value,
    what: &Records,
    values: &Values<'_>,
    replaced: &mut Option<String>,
) {
    if let Value::Object(members) = body {
        for (name, column) in &what.columns {
            if let Some(template) = &column.template {
                put(members, name, template.render(values), replaced);
            }
        }
    }
}

/// Adds a member. Notes it in `replaced` where the record has one of this name with another value.
fn put(members: &mut Map<String, Value>, name: &str, text: String, replaced: &mut Option<String>) {
    let own = members.insert(name.to_owned(), text.into());
    if own.is_some_and(|own| members.get(name) != Some(&own)) {
        replaced.get_or_insert_with(|| name.to_owned());
    }
}

/// Makes a list of each lone element of a record that is read as one of several.
fn list_elements(body: &mut Value, what: &Records, read_later: &[Pointer]) {
    let columns = what.columns.values().map(|column| &column.at);
    let ids = what.id.iter().filter_map(Field::pointer);
    let removed = what.removed.iter().map(|removed| &removed.at);
    let all = columns.chain(&what.text).chain(ids).chain(removed);
    for pointer in all.chain(read_later) {
        as_lists(body, pointer.tokens(), 1);
    }
}

/// The records at a pointer, taken out of their places.
struct BodySearch<'a> {
    what: &'a Records,
    found: Vec<Value>,
    left_out: LeftOut,
    /// The member for the name of a record, where a record has another value in it.
    replaced: Option<String>,
    /// Whether an object lacks a member that the pointer names.
    lacks_list: bool,
    /// Whether an element lacks the last element that the pointer names.
    lacks_element: bool,
    /// The bytes that each record has again.
    repeated: Repeated,
}

impl<'a> BodySearch<'a> {
    fn run(document: &mut Value, what: &'a Records) -> Result<Self, WrongShape> {
        let mut search = Self {
            what,
            found: Vec::new(),
            left_out: LeftOut::default(),
            replaced: None,
            lacks_list: false,
            lacks_element: false,
            repeated: Repeated::default(),
        };
        // With `key`, `*` stands for elements of different names.
        if what.format == Format::Xml && what.key.is_none() {
            as_lists(document, what.at.tokens(), 2);
        }
        search.walk(document, what.at.tokens(), None)?;
        Ok(search)
    }

    /// Walks along `tokens`. `name` is the member that the last `*` matched, if it matched a member.
    fn walk(
        &mut self,
        value: &mut Value,
        tokens: &[String],
        name: Option<&str>,
    ) -> Result<(), WrongShape> {
        let Some((token, rest)) = tokens.split_first() else {
            return self.take(value, name);
        };
        match value {
            // A member that is really named `*` comes first.
            Value::Object(members) if token == "*" && !members.contains_key(token) => {
                if rest.is_empty() {
                    self.leave_out(members);
                }
                let mut filled = members.iter_mut().filter(|(_, member)| !member.is_null());
                filled.try_for_each(|(name, member)| self.walk(member, rest, Some(name)))
            }
            Value::Object(members) => match members.get_mut(token) {
                Some(member) => self.walk(member, rest, name),
                None => self.lacks(rest),
            },
            Value::Array(elements) if token == "*" => {
                elements.iter_mut().try_for_each(|element| match element {
                    // An element of a list is a record, be it one without an id.
                    Value::Null if rest.is_empty() => {
                        self.found.push(Value::Null);
                        Ok(())
                    }
                    element => self.walk(element, rest, name),
                })
            }
            Value::Array(elements) => match token.parse::<usize>().map(|at| elements.get_mut(at)) {
                Ok(Some(element)) => self.walk(element, rest, name),
                Ok(None) => self.lacks(rest),
                Err(_) => Err(self.wrong("an array", "an object")),
            },
            // An object or a list without content, as many servers write it.
            Value::Null => Ok(()),
            other if self.is_empty_element(other) => Ok(()),
            other => Err(self.wrong(name_of(other), "an object")),
        }
    }

    /// Whether a value is an element without content, which is read as an empty text: XML has no other form of an empty list.
    fn is_empty_element(&self, value: &Value) -> bool {
        self.what.format == Format::Xml && value.as_str() == Some("")
    }

    /// Removes the members that hold no object, if others do: `{ "uids": ["7"], "7": { … } }`. With `key`, or another layout than
    /// objects, each member is a record.
    fn leave_out(&mut self, members: &mut Map<String, Value>) {
        let each_is_one = self.what.key.is_some() || self.what.layout != Layout::Objects;
        if each_is_one || !members.values().any(holds_object) {
            return;
        }
        members.retain(|name, member| {
            let stays = holds_object(member);
            if !stays {
                self.left_out.members += 1;
                self.left_out.first.get_or_insert_with(|| name.clone());
            }
            stays
        });
    }

    /// Goes on without a value, behind which the pointer has the tokens `rest`. In XML, an element that can occur several times
    /// occurs no time in an empty list.
    fn lacks(&mut self, rest: &[String]) -> Result<(), WrongShape> {
        let is_root = rest.len().saturating_add(1) == self.what.at.tokens().len();
        let is_last = rest.first().is_none_or(|next| is_place(next));
        if self.what.format == Format::Xml && is_last && !is_root {
            self.lacks_element = true;
        } else {
            self.lacks_list = true;
        }
        Ok(())
    }

    /// Takes the records at the end of the pointer: the elements of an array, or one value. Null is an empty list.
    fn take(&mut self, value: &mut Value, name: Option<&str>) -> Result<(), WrongShape> {
        if value.is_null() || self.is_empty_element(value) {
            return Ok(());
        }
        // A lone element that is a text. Several are a list, whose elements are records too.
        if self.what.format == Format::Xml && value.is_string() && name.is_none() {
            self.found.push(value.take());
            return Ok(());
        }
        self.arrange(value)?;
        match (value, name.zip(self.what.key.as_deref())) {
            (Value::Array(elements), named) => {
                let name_bytes = named.map_or(0, |(name, key)| name.len() + key.len());
                self.repeated.add(name_bytes, elements.len())?;
                for mut element in std::mem::take(elements) {
                    if let (Some((name, key)), Value::Object(members)) = (named, &mut element) {
                        put(members, key, name.to_owned(), &mut self.replaced);
                    }
                    self.found.push(element);
                }
            }
            (Value::Object(members), named) => {
                let mut members = std::mem::take(members);
                if let Some((name, key)) = named {
                    put(&mut members, key, name.to_owned(), &mut self.replaced);
                }
                self.found.push(Value::Object(members));
            }
            (
                scalar @ (Value::Bool(_) | Value::Number(_) | Value::String(_)),
                Some((name, key)),
            ) => {
                let members = [
                    (key.to_owned(), name.into()),
                    (SCALAR.to_owned(), scalar.take()),
                ];
                self.found.push(Value::Object(Map::from_iter(members)));
            }
            (other, _) => return Err(self.wrong(name_of(other), "a list or an object")),
        }
        Ok(())
    }

    /// Turns columns and rows into a list of objects.
    fn arrange(&mut self, value: &mut Value) -> Result<(), WrongShape> {
        let repeated = &mut self.repeated;
        let arranged = match (self.what.layout, &mut *value) {
            (Layout::Objects, _) => return Ok(()),
            (Layout::Rows, Value::Array(rows)) if lacks_names(self.what, rows) => Err(
                NoRecords::Found("one row without the names in `records.id`"),
            ),
            (Layout::Columns, Value::Object(members)) => {
                from_columns(std::mem::take(members), repeated)
            }
            (Layout::Rows, Value::Array(rows)) => {
                from_rows(std::mem::take(rows), &self.what.fields, repeated)
            }
            (Layout::Columns | Layout::Rows, other) => Err(NoRecords::Found(name_of(other))),
        };
        let expected = match self.what.layout {
            Layout::Columns => "an object with a list for each field",
            Layout::Rows if !self.what.fields.is_empty() => {
                "a list of lists with the configured fields"
            }
            Layout::Objects | Layout::Rows => "a list of lists that begins with their names",
        };
        let arranged = arranged.map_err(|error| match error {
            NoRecords::Found(found) => self.wrong(found, expected),
            NoRecords::Twice(name) => WrongShape::Twice {
                at: self.what.at.to_string(),
                name,
            },
            NoRecords::Repeat(error) => error.into(),
        });
        *value = Value::Array(arranged?);
        Ok(())
    }

    fn wrong(&self, found: &'static str, expected: &'static str) -> WrongShape {
        WrongShape::Value {
            at: self.what.at.to_string(),
            found,
            expected,
        }
    }
}

/// Whether the only row of a list, which has the names of the others, lacks one that an id is made of.
fn lacks_names(what: &Records, rows: &[Value]) -> bool {
    let ([Value::Array(names)], []) = (rows, what.fields.as_slice()) else {
        return false;
    };
    let ids = what.id.iter().filter_map(Field::pointer);
    let mut ids = ids.filter_map(|at| at.tokens().first());
    let is_added = |id: &String| {
        let column = what.columns.get(id);
        column.is_some_and(|column| column.template.is_some())
    };
    ids.any(|id| !is_added(id) && !names.iter().any(|name| name == id))
}

/// Whether a value is an object, or a list that can have some.
fn holds_object(value: &Value) -> bool {
    match value {
        Value::Object(_) => true,
        Value::Array(elements) => elements.is_empty() || elements.iter().any(Value::is_object),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// The id of a record: its text, and of a number the digits that came. `None` if a part of it is missing, blank, or is what no
/// database stores exactly.
fn id_of(record: &Value, parts: &[Field], values: &Values<'_>) -> Option<String> {
    let id = |part: &Field| part_of(record, part, values).filter(|id| is_id(id));
    let parts: Option<Vec<String>> = parts.iter().map(id).collect();
    let (last, before) = parts.as_deref()?.split_last()?;
    // A slash in the last part is unambiguous, so it stays as it is.
    let before = before
        .iter()
        .map(|part| part.replace('%', "%25").replace('/', "%2F") + "/");
    Some(before.collect::<String>() + last)
}

fn part_of(record: &Value, part: &Field, values: &Values<'_>) -> Option<String> {
    match part {
        Field::At(at) => at.text_in(record),
        Field::Template(template) => Some(template.render(values)),
    }
}

fn is_id(text: &str) -> bool {
    !is_long(text) && !text.trim().is_empty() && !text.contains('\0')
}

/// Whether a text has more than 64 KiB: every table that names a record has its id again.
fn is_long(text: &str) -> bool {
    text.len() > 64 * 1024
}

/// What a long id is, in words.
pub const LONG_ID: &str = "an id has more than 64 KiB, and so its record has none";

pub const fn name_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn joined(ids: &[Field]) -> String {
    ids.iter()
        .map(Field::as_str)
        .collect::<Vec<_>>()
        .join("`, `")
}

fn count<T>(list: &[T]) -> u64 {
    u64::try_from(list.len()).unwrap_or(u64::MAX)
}
