//! Texts with `{variables}`, which are replaced for each request.

mod date;

use std::fmt;

use secrecy::zeroize::Zeroizing;
use serde_json::Value;
use thiserror::Error;

use self::date::Date;
use super::moment::Moment;
use super::{CursorText, Region, SinceValue, Slice};
use ingest_quota::Timestamp;

const EPOCH: Timestamp = Timestamp::from_micros(0);

/// Before the name of a value of the region; without it another variable of the name comes first.
const OF_REGION: &str = "region.";

/// A text with `{variables}`; a literal brace is written twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    text: String,
    parts: Vec<TemplatePart>,
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
    /// A date with an invalid offset or format.
    #[error(
        "`{{{0}}}` is not a valid date or time; write for example {{date:-1d:%Y-%m-%d}} or {{since:-5m:%s}}"
    )]
    Date(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum TemplatePart {
    Literal(String),
    Variable(Variable),
    Date(Date),
    /// `{since}` with an offset or a format.
    Since(Date),
    SliceFrom(Date),
    SliceTo(Date),
    Ids(JoinedIds),
}

/// How several ids become one text.
#[derive(Debug, Clone, PartialEq, Eq)]
enum JoinedIds {
    Json,
    By(String),
}

impl JoinedIds {
    fn join(&self, ids: &[String]) -> String {
        match self {
            Self::Json => Value::from(ids).to_string(),
            Self::By(separator) => ids.join(separator),
        }
    }
}

impl Template {
    /// The variables that every template can use: name, variable and documentation.
    pub const VARIABLES: [(&'static str, Variable, &'static str); 9] = [
        (
            "region",
            Variable::Region,
            "The code of the region. `{region.NAME}` is its value NAME, also where another variable has that name, as in \
            `{region.date}`.",
        ),
        (
            "ids",
            Variable::Ids,
            "The ids of the request, joined by commas. Only in a step with `ids`. `{ids:|}` joins them by `|` or any other \
            separator, and `{ids:json}` is a JSON array of strings. In a list, a text with `{ids}` stands for one text for \
            each id.",
        ),
        (
            "cursor",
            Variable::Cursor,
            "The cursor of the page, as its parameter carries it: a number of the first page too where pages are counted; otherwise \
            empty for a first page without `first`.",
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
            job's `since` changes both. In a step of `ids` with `batch = 1`, the same of the last complete list of the id. An offset and a format may follow, as for `{date}`: `{since:-5m}`, `{since:%Y-%m-%d}`, \
            `{since:-5m:%s}` in seconds and `{since:%s%3f}` in milliseconds since 1970. Without a format, a value of records keeps \
            the form that it has there. No offset goes back from the start of 1970 itself, which stands for the beginning. \
            `usage.md` lists the forms that are read.",
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
            "The start of the slice, in UTC: `2024-01-01T00:00:00Z`. Only in a job with `slices`. An offset and a format may follow, \
            as for `{since}`.",
        ),
        (
            "slice.to",
            Variable::SliceTo,
            "The end of the slice, which is the start of the next one. For an upstream whose last day is included, \
            `{slice.to:-1d:%Y-%m-%d}`.",
        ),
        (
            "secret",
            Variable::Secret(None),
            "The `secret` of the credential; `{secret:NAME}` is one of its `secrets`. Only in `auth`, headers, query \
            parameters and bodies.",
        ),
    ];

    /// The names of these variables.
    #[must_use]
    pub fn variable_names() -> [&'static str; 9] {
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

    /// The template as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The names of the secrets that it contains; `None` is the credential's `secret`.
    pub fn secrets(&self) -> impl Iterator<Item = Option<&str>> {
        self.parts.iter().filter_map(|part| match part {
            TemplatePart::Variable(Variable::Secret(name)) => Some(name.as_deref()),
            TemplatePart::Literal(_)
            | TemplatePart::Variable(_)
            | TemplatePart::Date(_)
            | TemplatePart::Since(_)
            | TemplatePart::SliceFrom(_)
            | TemplatePart::SliceTo(_)
            | TemplatePart::Ids(_) => None,
        })
    }

    /// Returns the text with its secrets. `None` if `secret_of` has no value for one of them.
    #[must_use]
    pub fn reveal<'s>(
        &self,
        values: Option<&Values<'_>>,
        secret_of: impl Fn(Option<&str>) -> Option<&'s str>,
    ) -> Option<Zeroizing<String>> {
        let mut text = Zeroizing::new(String::new());
        for part in &self.parts {
            match (part, values) {
                (TemplatePart::Literal(literal), _) => text.push_str(literal),
                (TemplatePart::Variable(Variable::Secret(name)), _) => {
                    text.push_str(secret_of(name.as_deref())?);
                }
                (part, values) => text.push_str(&part.of(values?)),
            }
        }
        Some(text)
    }

    /// Returns the text with every variable replaced by its value. Secrets stay variables.
    #[must_use]
    pub fn render(&self, values: &Values<'_>) -> String {
        self.parts.iter().map(|part| part.of(values)).collect()
    }

    /// The variables that it uses, in order.
    #[must_use]
    pub fn variables(&self) -> Vec<Variable> {
        self.parts
            .iter()
            .filter_map(|part| match part {
                TemplatePart::Literal(_) => None,
                TemplatePart::Variable(variable) => Some(variable.clone()),
                TemplatePart::Date(_) => Some(Variable::Date),
                TemplatePart::Since(_) => Some(Variable::Since),
                TemplatePart::SliceFrom(_) => Some(Variable::SliceFrom),
                TemplatePart::SliceTo(_) => Some(Variable::SliceTo),
                TemplatePart::Ids(_) => Some(Variable::Ids),
            })
            .collect()
    }

    /// Whether it uses this variable.
    #[must_use]
    pub fn names(&self, variable: &Variable) -> bool {
        self.variables().contains(variable)
    }

    /// Whether it stands for one text for each id in a list: it names the ids and does not say how they are joined.
    #[must_use]
    pub fn repeats(&self) -> bool {
        self.parts.contains(&TemplatePart::Variable(Variable::Ids))
    }

    /// Its first `{since}` with an offset or a format, as it is written: its value must be a time.
    #[must_use]
    pub fn timed_since(&self) -> Option<String> {
        let is_timed = |part: &TemplatePart| matches!(part, TemplatePart::Since(_));
        self.parts.iter().find(|part| is_timed(part))?;
        let (_, rest) = self.text.split_once("{since:")?;
        let (date, _) = rest.split_once('}')?;
        Some(format!("{{since:{date}}}"))
    }

    /// Its first `{since}`, as it is written, and what it becomes with this value; `None` if it has none.
    #[must_use]
    pub fn since_with(&self, since: &SinceValue) -> Option<(String, String)> {
        let is_timed = |part: &TemplatePart| matches!(part, TemplatePart::Since(_));
        let is_since = |part: &TemplatePart| {
            is_timed(part) || *part == TemplatePart::Variable(Variable::Since)
        };
        let part = self.parts.iter().find(|part| is_since(part))?;
        let name = match is_timed(part) {
            true => self.timed_since()?,
            false => "{since}".to_owned(),
        };
        let values = Values {
            region: &Region::default(),
            ids: &[],
            cursor: None,
            now: EPOCH,
            since: Some(since),
        };
        Some((name, part.of(&values)))
    }

    /// What it joins the ids by, if it says so.
    #[must_use]
    pub fn ids_separator(&self) -> Option<&str> {
        self.parts.iter().find_map(|part| match part {
            TemplatePart::Ids(JoinedIds::By(separator)) => Some(separator.as_str()),
            TemplatePart::Ids(JoinedIds::Json)
            | TemplatePart::Literal(_)
            | TemplatePart::Variable(_)
            | TemplatePart::Date(_)
            | TemplatePart::Since(_)
            | TemplatePart::SliceFrom(_)
            | TemplatePart::SliceTo(_) => None,
        })
    }

    /// Whether this name is in doubled braces in it, and so would be text.
    #[must_use]
    pub fn doubles(&self, name: &str) -> bool {
        let mut openings = self.text.split("{{").skip(1);
        openings.any(|inner| {
            let inner = inner.split_once("}}");
            inner.is_some_and(|(inner, _)| inner.trim() == name)
        })
    }

    /// Its text, if it uses no variable.
    #[must_use]
    pub fn literal(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [TemplatePart::Literal(text)] => Some(text),
            _ => None,
        }
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Values<'_> {
    /// The values with which an element of a list is rendered: with each id alone if it `repeats`.
    #[must_use]
    pub fn for_each_id(&self, repeats: bool) -> Vec<Self> {
        if !repeats || self.ids.is_empty() {
            return vec![*self];
        }
        let ids = self.ids.chunks(1);
        ids.map(|ids| Self { ids, ..*self }).collect()
    }

    /// The value of a variable. A value that the region lacks is empty, which the configuration refuses.
    fn of(&self, variable: &Variable) -> String {
        match variable {
            Variable::Region => self.region.code.clone(),
            Variable::Ids => self.ids.join(","),
            Variable::Cursor => self
                .cursor
                .map(|cursor| cursor.to_string())
                .unwrap_or_default(),
            Variable::Now => Moment::at(self.now).text(),
            Variable::Since => match self.since.and_then(SinceValue::text) {
                Some(text) => text.to_owned(),
                None => self.since_at(&Date::of_moments()),
            },
            Variable::Date => Date::of_days().at(self.now),
            Variable::SliceFrom => self.edge(&Date::of_moments(), |slice| slice.from),
            Variable::SliceTo => self.edge(&Date::of_moments(), |slice| slice.to),
            // A region may have a value of this name.
            Variable::Id => match self.ids.first() {
                Some(id) => id.clone(),
                None => self.region.values.get("id").cloned().unwrap_or_default(),
            },
            Variable::Secret(None) => "{secret}".to_owned(),
            Variable::Secret(Some(name)) => format!("{{secret:{name}}}"),
            Variable::OfRegion(name) => self.region.values.get(name).cloned().unwrap_or_default(),
        }
    }

    /// An edge of the slice; empty outside a job with `slices`, which the configuration refuses.
    fn edge(&self, date: &Date, edge: impl Fn(Slice) -> Timestamp) -> String {
        let slice = self.region.slice;
        slice.map_or_else(String::new, |slice| date.at(edge(slice)))
    }

    /// The value of `{since}` with an offset and a format; as it is where it is no time, which a run notes.
    fn since_at(&self, date: &Date) -> String {
        let beginning = SinceValue::Time(EPOCH);
        let since = self.since.unwrap_or(&beginning);
        match (since.moment(), since.text()) {
            (None, Some(text)) => text.to_owned(),
            (moment, _) => date.since(moment.unwrap_or_else(|| Moment::at(EPOCH))),
        }
    }
}

impl TemplatePart {
    fn of(&self, values: &Values<'_>) -> String {
        match self {
            Self::Literal(text) => text.clone(),
            Self::Variable(variable) => values.of(variable),
            Self::Date(date) => date.at(values.now),
            Self::Since(date) => values.since_at(date),
            Self::SliceFrom(date) => values.edge(date, |slice| slice.from),
            Self::SliceTo(date) => values.edge(date, |slice| slice.to),
            Self::Ids(joined) => joined.join(values.ids),
        }
    }
}

fn push(parts: &mut Vec<TemplatePart>, text: &str) {
    match parts.last_mut() {
        _ if text.is_empty() => {}
        Some(TemplatePart::Literal(before)) => before.push_str(text),
        _ => parts.push(TemplatePart::Literal(text.to_owned())),
    }
}

/// Reads what begins with a brace, and returns what follows it.
fn brace<'t>(parts: &mut Vec<TemplatePart>, text: &'t str) -> Result<&'t str, TemplateError> {
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
    Template::variable_names().contains(&name)
}

/// What precedes the offset and the format of a time, the part that it is, and how the two are read.
type TimePart = (
    &'static str,
    fn(Date) -> TemplatePart,
    fn(&str) -> Option<Date>,
);

const TIMES: [TimePart; 4] = [
    ("date:", TemplatePart::Date, Date::of_day),
    ("since:", TemplatePart::Since, Date::of_second),
    ("slice.from:", TemplatePart::SliceFrom, Date::of_second),
    ("slice.to:", TemplatePart::SliceTo, Date::of_second),
];

fn variable(name: &str) -> Result<TemplatePart, TemplateError> {
    if name.is_empty() {
        return Err(TemplateError::Nameless);
    }
    if name.contains('{') {
        return Err(TemplateError::Unbalanced);
    }
    for (prefix, part, read) in TIMES {
        if let Some(date) = name.strip_prefix(prefix) {
            let date = read(date).ok_or_else(|| TemplateError::Date(name.to_owned()))?;
            return Ok(part(date));
        }
    }
    if name == "id" {
        return Ok(TemplatePart::Variable(Variable::Id));
    }
    if let Some(separator) = name.strip_prefix("ids:") {
        return Ok(TemplatePart::Ids(match separator {
            "" => return Err(TemplateError::Separator),
            "json" => JoinedIds::Json,
            separator => JoinedIds::By(separator.to_owned()),
        }));
    }
    if let Some(secret) = name.strip_prefix("secret:") {
        let secret = Variable::Secret(Some(secret.to_owned()));
        return Ok(TemplatePart::Variable(secret));
    }
    if let Some(value) = name.strip_prefix(OF_REGION) {
        return Ok(TemplatePart::Variable(Variable::OfRegion(value.to_owned())));
    }
    let found = Template::VARIABLES
        .into_iter()
        .find(|(known, ..)| *known == name);
    Ok(TemplatePart::Variable(match found {
        Some((_, variable, _)) => variable,
        None => Variable::OfRegion(name.to_owned()),
    }))
}
