//! Texts with `{variables}`, which are replaced for each request.

mod date;

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use secrecy::zeroize::Zeroizing;
use serde_json::{Value, json};
use thiserror::Error;

use self::date::Date;
use super::error::Refusal;
use super::id_place::parts;
use super::moment::Moment;
use super::names::closest;
use super::values::{Leaf, leaves, scalar, text};
use super::{CursorText, Pointer, Region, SinceValue, Slice};
use ingest_quota::Timestamp;

const EPOCH: Timestamp = Timestamp::from_micros(0);

/// Before the name of a value of the region; without it another variable of the name comes first.
const OF_REGION: &str = "region.";

/// A text with `{variables}`; a literal brace is written twice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Template {
    text: String,
    parts: Vec<Part>,
}

/// A variable of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Variable {
    /// `{region}`: the region's code.
    Region,
    /// `{ids}`: a batch of ids, joined by commas; `{ids:SEPARATOR}`: joined by something else; `{ids:json}`: a JSON array.
    Ids,
    /// `{cursor}`: the cursor of the page; empty for a first one without a cursor.
    Cursor,
    /// `{now}`: the time at which the pass started, in RFC 3339.
    Now,
    /// `{since:-5m:%s}`: the start of the job's last complete pass over this region, with an optional offset and format; or what
    /// the job's `since` says.
    Since,
    /// `{date:-1d:%Y/%m/%d}`: the date in UTC at which the pass started, with an optional offset and format.
    Date,
    /// `{slice.from:%s}`: the start of the pass's slice, with an optional offset and format.
    SliceFrom,
    /// `{slice.to:-1d:%Y-%m-%d}`: its end, which it does not include.
    SliceTo,
    /// `{id}`: the only id of a request.
    Id,
    /// `{parent:/owner/login}`: a value of the record that names the id.
    Parent(Pointer),
    /// `{secret:NAME}`: a secret of the credential; `{secret}` (`None`): its `secret`.
    Secret(Option<String>),
    /// `{region.NAME}`, or anything else: a value of the region.
    OfRegion(String),
}

/// The values of a template's variables in one request.
#[derive(Debug, Clone, Copy)]
pub struct Values<'a> {
    pub region: &'a Region,
    /// The batch of ids; empty in a step that lists.
    pub ids: &'a [String],
    /// The cursor of the page.
    pub cursor: Option<CursorText<'a>>,
    /// The start of the pass: all of its requests are rendered with this time.
    pub now: Timestamp,
    /// The value of `{since}`; `None`: the Unix epoch.
    pub since: Option<&'a SinceValue>,
    /// The places of the values that each id has with it (`{parent:/owner/login}`); empty: an id is an id alone.
    pub parent: &'a [Pointer],
}

/// What is wrong with a template.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TemplateError {
    /// A brace without its counterpart.
    #[error("`{{` and `}}` do not match; write a literal brace twice")]
    Unbalanced,
    /// A variable in doubled braces, which would be text.
    #[error("`{{{{{0}}}}}` is text, not a variable; write {{{0}}}, in single braces")]
    Doubled(String),
    /// Braces around nothing.
    #[error("`{{}}` has no variable name")]
    Nameless,
    /// A separator of ids without a character.
    #[error("`{{ids:}}` has no separator; write {{ids}} for a comma, or for example {{ids:|}}")]
    Separator,
    /// A value of the parent without a place, or with one that is no place of one value.
    #[error(
        "`{{{0}}}` is not a value of the record that names the id; write for example {{parent:/owner/login}}"
    )]
    Parent(String),
    /// A value of the parent whose place ends with what is nearly `:path`.
    #[error("`{{{0}:{1}}}` does not end with `:path`; write {{{0}:path}} to keep slashes")]
    Path(String, String),
    /// A date with an invalid offset or format.
    #[error(
        "`{{{0}}}` is not a valid date or time; write for example {{date:-1d:%Y-%m-%d}} or {{since:-5m:%s}}"
    )]
    Date(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(String),
    Variable(Variable, Argument),
}

/// What follows the name of a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Argument {
    Nothing,
    /// The offset and the format of a time.
    Date(Date),
    /// What joins several ids.
    Separator(String),
    /// Several ids are a JSON array.
    Json,
    /// In a path, slashes of the value are slashes of the path.
    Path,
}

impl Template {
    /// The variables that every template can use: name, variable and documentation.
    pub const VARIABLES: [(&'static str, Variable, &'static str); 11] = [
        (
            "region",
            Variable::Region,
            "The code of the region. `{region.NAME}` is its value NAME, also where another variable has that name, as in \
            `{region.date}`.",
        ),
        (
            "ids",
            Variable::Ids,
            "The ids of the request, joined by commas, in a step with `ids`. `{ids:|}` joins them by `|` or any other separator, and \
            `{ids:json}` is a JSON array of strings. In a list, a text with `{ids}` stands for one for each id. An id with what joins them \
            fails.",
        ),
        (
            "cursor",
            Variable::Cursor,
            "The cursor of the page, as its parameter carries it; empty for a first page without `first`, unless pages are counted.",
        ),
        (
            "now",
            Variable::Now,
            "The time at which the pass started, in UTC: `2024-05-31T07:00:00Z`.",
        ),
        (
            "since",
            Variable::Since,
            "The start of the job's last complete pass over the region, in UTC; `1970-01-01T00:00:00Z` before the first one. The \
            job's `since` changes both. In a step of `ids` with `batch = 1`, the same of each id. An offset and a format may \
            follow, as for `{date}`: `{since:-5m}`, `{since:%Y-%m-%d}`, `{since:-5m:%s}` in seconds and `{since:%s%3f}` in \
            milliseconds since 1970. Without a format, a value of records keeps its form (`usage.md` lists those that are read). \
            No offset goes back from the start of 1970, which stands for the beginning.",
        ),
        (
            "date",
            Variable::Date,
            "The date in UTC at which the pass started: `2024-05-31`. An offset in s, m, h, d or w and a format of strftime may \
            follow, both or one of them: `{date:-1d:%Y/%m/%d}`.",
        ),
        (
            "slice.from",
            Variable::SliceFrom,
            "The start of the slice, in UTC: `2024-01-01T00:00:00Z`. An offset and a format may follow, as for `{since}`.",
        ),
        (
            "slice.to",
            Variable::SliceTo,
            "The end of the slice, which is the start of the next one. For an upstream whose last day is included, \
            `{slice.to:-1d:%Y-%m-%d}`.",
        ),
        (
            "id",
            Variable::Id,
            "The only id of the request, in a step with `ids` and `batch = 1`; also in `records.id` and `columns` of its call. In other \
            steps, a value of the region that has this name.",
        ),
        (
            "parent",
            Variable::Parent(Pointer::ROOT),
            "`{parent:/owner/login}` is the value at this place of the record that names the id, in a step of `ids` with `batch = 1`. \
            Each id is requested once for each combination of values; a record that lacks one names no id.",
        ),
        (
            "secret",
            Variable::Secret(None),
            "The `secret` of the credential; `{secret:NAME}` is one of its `secrets`. Only in `auth`, headers, query \
            parameters and bodies.",
        ),
    ];

    /// The names of these variables.
    pub fn variable_names() -> [&'static str; 11] {
        Self::VARIABLES.map(|(name, ..)| name)
    }

    /// Reads a template.
    ///
    /// # Errors
    /// When its braces do not match, or enclose nothing or an invalid date.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            let (before, from) = rest.split_at(at);
            push(&mut parts, before);
            rest = brace(&mut parts, from)?;
        }
        push(&mut parts, rest);
        Ok(Self {
            text: text.to_owned(),
            parts,
        })
    }

    /// `{secret}`
    pub fn secret() -> Self {
        Self {
            text: "{secret}".to_owned(),
            parts: vec![Part::Variable(Variable::Secret(None), Argument::Nothing)],
        }
    }

    /// The template as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The names of the secrets that it contains; `None` is the credential's `secret`.
    pub fn secrets(&self) -> impl Iterator<Item = Option<&str>> {
        self.used().filter_map(|(variable, _)| match variable {
            Variable::Secret(name) => Some(name.as_deref()),
            _ => None,
        })
    }

    fn used(&self) -> impl Iterator<Item = (&Variable, &Argument)> {
        self.parts.iter().filter_map(|part| match part {
            Part::Literal(_) => None,
            Part::Variable(variable, argument) => Some((variable, argument)),
        })
    }

    /// Returns the text with its secrets. `None` if `secret_of` has no value for one of them.
    pub fn reveal<'s>(
        &self,
        values: Option<&Values<'_>>,
        secret_of: impl Fn(Option<&str>) -> Option<&'s str>,
    ) -> Option<Zeroizing<String>> {
        let mut text = Zeroizing::new(String::new());
        for part in &self.parts {
            match (part, values) {
                (Part::Literal(literal), _) => text.push_str(literal),
                (Part::Variable(Variable::Secret(name), _), _) => {
                    text.push_str(secret_of(name.as_deref())?);
                }
                (part, values) => text.push_str(&part.of(values?, &str::to_owned)),
            }
        }
        Some(text)
    }

    /// Returns the text with every variable replaced by its value. Secrets stay variables.
    pub fn render(&self, values: &Values<'_>) -> String {
        let parts = self.parts.iter();
        parts.map(|part| part.of(values, &str::to_owned)).collect()
    }

    /// The same as a path, in which a value is one segment. A time is written as its format says, whose slashes are meant.
    pub fn path(&self, values: &Values<'_>) -> String {
        let parts = self.parts.iter();
        parts.map(|part| part.of(values, &in_segment)).collect()
    }

    /// The places of the values of a parent that it uses.
    pub fn parents(&self) -> impl Iterator<Item = &Pointer> {
        self.used().filter_map(|(variable, _)| match variable {
            Variable::Parent(at) => Some(at),
            _ => None,
        })
    }

    /// The variables that it uses, in order.
    pub fn variables(&self) -> Vec<Variable> {
        self.used().map(|(variable, _)| variable.clone()).collect()
    }

    /// Whether it uses this variable.
    pub fn names(&self, variable: &Variable) -> bool {
        self.variables().contains(variable)
    }

    /// Whether it stands for one text for each id in a list: it names the ids and does not say how they are joined.
    pub fn repeats(&self) -> bool {
        let mut used = self.used();
        used.any(|one| one == (&Variable::Ids, &Argument::Nothing))
    }

    /// Its first `{since}` with an offset or a format, as it is written: its value must be a time.
    pub fn timed_since(&self) -> Option<String> {
        let mut used = self.used();
        used.find(|(one, argument)| **one == Variable::Since && **argument != Argument::Nothing)?;
        let (_, rest) = self.text.split_once("{since:")?;
        let (date, _) = rest.split_once('}')?;
        Some(format!("{{since:{date}}}"))
    }

    /// Its first `{since}`, as it is written, and what it becomes with this value; `None` if it has none.
    pub fn since_with(&self, since: &SinceValue) -> Option<(String, String)> {
        let (variable, argument) = self.used().find(|(one, _)| **one == Variable::Since)?;
        let name = match argument {
            Argument::Nothing => "{since}".to_owned(),
            _ => self.timed_since()?,
        };
        let nowhere = Region::default();
        let values = Values {
            since: Some(since),
            ..Values::of_region(&nowhere)
        };
        Some((name, values.of(variable, argument, &str::to_owned)))
    }

    /// Its text with the values of a region alone. Other variables are empty, or of 1970.
    pub fn of_region(&self, region: &Region) -> String {
        self.render(&Values::of_region(region))
    }

    /// What it joins the ids by; `None` if it names none, or as JSON.
    pub fn joins_ids_by(&self) -> Option<&str> {
        self.used().find_map(|(one, argument)| match argument {
            Argument::Separator(separator) => Some(separator.as_str()),
            Argument::Nothing | Argument::Path if *one == Variable::Ids => Some(","),
            _ => None,
        })
    }

    /// Whether this name is in doubled braces in it, and so would be text.
    pub fn doubles(&self, name: &str) -> bool {
        let mut openings = self.text.split("{{").skip(1);
        openings.any(|inner| {
            let inner = inner.split_once("}}");
            inner.is_some_and(|(inner, _)| inner.trim() == name)
        })
    }

    /// Its text, if it uses no variable.
    pub fn literal(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [Part::Literal(text)] => Some(text),
            _ => None,
        }
    }
}

leaves!(Template);

impl serde::Serialize for Template {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

/// Numbers and booleans are the text that they are written as.
impl Leaf for Template {
    type Value = Self;

    fn read(raw: Value) -> Result<Self, Refusal> {
        let read = Self::parse(&scalar(raw)?);
        read.map_err(|error| Refusal::new(error, "write for example \"{region}\""))
    }

    fn schema() -> Value {
        json!({ "title": "template", "type": ["string", "number", "boolean"] })
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl<'a> Values<'a> {
    /// The values of a region alone, in 1970.
    const fn of_region(region: &'a Region) -> Self {
        Self {
            region,
            ids: &[],
            cursor: None,
            now: EPOCH,
            since: None,
            parent: &[],
        }
    }
}

impl Values<'_> {
    /// The values with which an element of a list is rendered: with each id alone if it `repeats`.
    pub fn for_each_id(&self, repeats: bool) -> Vec<Self> {
        if !repeats || self.ids.is_empty() {
            return vec![*self];
        }
        let ids = self.ids.chunks(1);
        ids.map(|ids| Self { ids, ..*self }).collect()
    }

    /// The value of a variable, of which `write` writes what others chose. A value that the region lacks is empty, which the
    /// configuration refuses.
    fn of(&self, variable: &Variable, argument: &Argument, write: Write<'_>) -> String {
        let chosen = |value: &str| match argument {
            Argument::Path => value.split('/').map(write).collect::<Vec<_>>().join("/"),
            _ => write(value),
        };
        let of_region = |name: &str| {
            self.region
                .values
                .get(name)
                .map_or_else(String::new, |value| chosen(value))
        };
        let date = |usual: fn() -> Date| match argument {
            Argument::Date(date) => date.clone(),
            _ => usual(),
        };
        // Empty outside a job with `slices`, which the configuration refuses.
        let edge = |edge: fn(Slice) -> Timestamp| {
            let slice = self.region.slice;
            slice.map_or_else(String::new, |slice| date(Date::of_moments).at(edge(slice)))
        };
        match variable {
            Variable::Region => chosen(&self.region.code),
            Variable::Ids => {
                let ids = (0..self.ids.len()).filter_map(|at| self.part(at, 0));
                let ids: Vec<String> = ids.map(|id| write(&id)).collect();
                match argument {
                    Argument::Json => Value::from(ids).to_string(),
                    Argument::Separator(separator) => ids.join(separator),
                    Argument::Nothing | Argument::Date(_) | Argument::Path => ids.join(","),
                }
            }
            Variable::Cursor => {
                let cursor = self.cursor.map(|cursor| cursor.to_string());
                write(&cursor.unwrap_or_default())
            }
            Variable::Now => Moment::at(self.now).text(),
            Variable::Since => match self.since.and_then(SinceValue::text) {
                Some(text) if *argument == Argument::Nothing => self.written_since(text, write),
                _ => self.since_at(&date(Date::of_moments), write),
            },
            Variable::Date => date(Date::of_days).at(self.now),
            Variable::SliceFrom => edge(|slice| slice.from),
            Variable::SliceTo => edge(|slice| slice.to),
            // A region may have a value of this name.
            Variable::Id => match self.part(0, 0) {
                Some(id) => chosen(&id),
                None => of_region("id"),
            },
            Variable::Parent(at) => {
                let place = self.parent.iter().position(|one| one == at);
                let value = place.and_then(|place| self.part(0, place + 1));
                value.map_or_else(String::new, |value| chosen(&value))
            }
            Variable::Secret(None) => "{secret}".to_owned(),
            Variable::Secret(Some(name)) => format!("{{secret:{name}}}"),
            Variable::OfRegion(name) => of_region(name),
        }
    }

    /// The first id that contains a text.
    pub fn id_with(&self, text: &str) -> Option<String> {
        let mut ids = (0..self.ids.len()).filter_map(|at| self.part(at, 0));
        ids.find(|id| id.contains(text))
    }

    /// The id itself (0) of the id at `id`, or a value that it has with it.
    fn part(&self, id: usize, part: usize) -> Option<String> {
        let id = self.ids.get(id)?;
        match self.parent {
            [] => (part == 0).then(|| id.clone()),
            _ => parts(id).into_iter().nth(part),
        }
    }

    /// A value of `{since}` as records have it: what is read as a time is no text that others chose.
    fn written_since(&self, text: &str, write: Write<'_>) -> String {
        match self.since.and_then(SinceValue::moment) {
            Some(_) => text.to_owned(),
            None => write(text),
        }
    }

    /// The value of `{since}` with an offset and a format; as it is where it is no time, which a run notes.
    fn since_at(&self, date: &Date, write: Write<'_>) -> String {
        let beginning = SinceValue::Time(EPOCH);
        let since = self.since.unwrap_or(&beginning);
        match (since.moment(), since.text()) {
            (None, Some(text)) => write(text),
            (moment, _) => date.since(moment.unwrap_or_else(|| Moment::at(EPOCH))),
        }
    }
}

/// How a value is written that the configuration does not contain.
type Write<'a> = &'a dyn Fn(&str) -> String;

impl Part {
    fn of(&self, values: &Values<'_>, write: Write<'_>) -> String {
        match self {
            Self::Literal(text) => text.clone(),
            Self::Variable(variable, argument) => values.of(variable, argument, write),
        }
    }
}

/// The characters that a segment of a path contains unescaped.
const IN_SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

fn in_segment(value: &str) -> String {
    utf8_percent_encode(value, IN_SEGMENT).to_string()
}

fn push(parts: &mut Vec<Part>, text: &str) {
    match parts.last_mut() {
        _ if text.is_empty() => {}
        Some(Part::Literal(before)) => before.push_str(text),
        _ => parts.push(Part::Literal(text.to_owned())),
    }
}

/// Reads what begins with a brace, and returns what follows it.
fn brace<'t>(parts: &mut Vec<Part>, text: &'t str) -> Result<&'t str, TemplateError> {
    // Other template languages write `{{name}}`. Here that is the text `{name}`, which would be sent as it is.
    let doubled = text
        .strip_prefix("{{")
        .and_then(|inner| inner.split_once("}}"));
    if let Some((name, _)) = doubled.filter(|(name, _)| is_variable(name.trim())) {
        return Err(TemplateError::Doubled(name.trim().to_owned()));
    }
    for (escape, meant) in [("{{", "{"), ("}}", "}")] {
        if let Some(rest) = text.strip_prefix(escape) {
            push(parts, meant);
            return Ok(rest);
        }
    }
    let inner = text.strip_prefix('{').ok_or(TemplateError::Unbalanced)?;
    let (name, rest) = inner.split_once('}').ok_or(TemplateError::Unbalanced)?;
    parts.push(variable(name)?);
    Ok(rest)
}

/// Whether a name is that of a variable that every template can use, with its format or without.
fn is_variable(name: &str) -> bool {
    let name = name.split_once(':').map_or(name, |(name, _)| name);
    !matches!(name, "id" | "parent") && Template::variable_names().contains(&name)
}

/// What stands between braces: the name of a variable, and for some an argument behind a colon.
fn variable(text: &str) -> Result<Part, TemplateError> {
    if text.is_empty() {
        return Err(TemplateError::Nameless);
    }
    if text.contains('{') {
        return Err(TemplateError::Unbalanced);
    }
    let date = |date: Option<Date>| {
        let date = date.ok_or_else(|| TemplateError::Date(text.to_owned()))?;
        Ok(Argument::Date(date))
    };
    let (name, argument) = match text.split_once(':') {
        Some(("date", argument)) => (Variable::Date, date(Date::of_day(argument))?),
        Some(("since", argument)) => (Variable::Since, date(Date::of_second(argument))?),
        Some(("slice.from", argument)) => (Variable::SliceFrom, date(Date::of_second(argument))?),
        Some(("slice.to", argument)) => (Variable::SliceTo, date(Date::of_second(argument))?),
        Some(("ids", "")) => return Err(TemplateError::Separator),
        Some(("ids", "json")) => (Variable::Ids, Argument::Json),
        Some(("ids", by)) => (Variable::Ids, Argument::Separator(by.to_owned())),
        Some(("secret", name)) => (Variable::Secret(Some(name.to_owned())), Argument::Nothing),
        Some(("parent", place)) => parent(text, place)?,
        None if text == "parent" => return Err(TemplateError::Parent(text.to_owned())),
        Some((name, "path")) if name != "cursor" => (named(name), Argument::Path),
        _ => (named(text), Argument::Nothing),
    };
    Ok(Part::Variable(name, argument))
}

/// A value of the record that names the id.
fn parent(text: &str, place: &str) -> Result<(Variable, Argument), TemplateError> {
    let (place, argument) = match place.strip_suffix(":path") {
        Some(place) => (place, Argument::Path),
        None => (place, Argument::Nothing),
    };
    // A member may have a colon in its name, but hardly one with this behind it.
    if let Some((_, end)) = place.rsplit_once(':')
        && closest(end, &["path"]).is_some()
        && let Some(before) = text.strip_suffix(&format!(":{end}"))
    {
        return Err(TemplateError::Path(before.to_owned(), end.to_owned()));
    }
    let at = Pointer::parse(place).ok();
    // One value is sent, so its place is one.
    let at = at.filter(|at| !at.tokens().is_empty() && at.tokens().iter().all(|one| one != "*"));
    let at = at.ok_or_else(|| TemplateError::Parent(text.to_owned()))?;
    Ok((Variable::Parent(at), argument))
}

/// The variable of a name.
fn named(name: &str) -> Variable {
    let mut known = Template::VARIABLES.into_iter();
    let found = known.find(|(known, ..)| *known == name);
    let of_region = name.strip_prefix(OF_REGION).unwrap_or(name);
    found.map_or_else(
        || Variable::OfRegion(of_region.to_owned()),
        |(_, variable, _)| variable,
    )
}

/// A path below the base URL of an upstream. What would lead elsewhere, or into the query, is not part of one.
pub struct Path;

impl Leaf for Path {
    type Value = Template;

    fn read(raw: Value) -> Result<Template, Refusal> {
        let text = text(raw)?;
        if text.contains(['?', '#']) {
            return Err(Refusal::new(
                "expected a path without `?` and `#`",
                "move the query into `params`",
            ));
        }
        if text.contains("://") || text.split('/').any(|segment| matches!(segment, "." | "..")) {
            return Err(Refusal::new(
                "expected a path below the upstream's base_url",
                "write for example \"things/{region}\"",
            ));
        }
        Template::read(text.into())
    }

    fn schema() -> Value {
        Template::schema()
    }
}
