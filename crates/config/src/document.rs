//! `quotas.toml` as a tree in which each key has its place, and the problems that were found in it.
//!
//! serde reads each section by itself. What it refuses is reported, left out, and the rest is read again, so that all mistakes are
//! found at once.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::error::{MISSING, Nested, Problem, Refusal, UNKNOWN, keys_of};
use super::names::{advice, dotted, names_secret, quoted};
use super::values::{Table, no_word, unknown_word};
use super::{schema, set};

/// More than anybody corrects at once. Each problem is compared with all before it, so their number must be bounded.
const MOST_PROBLEMS: usize = 100;

/// What the parser says of a word without quotes, by its first letter.
const BARE: [&str; 3] = [
    "string values must be quoted",
    "invalid boolean",
    "invalid float, expected",
];

/// A document being read.
pub struct Document<'t> {
    pub file: PathBuf,
    text: &'t str,
    root: DeValue<'t>,
    /// The paths that `--set` wrote, in order.
    sets: Vec<Vec<String>>,
    problems: RefCell<Vec<Problem>>,
    /// The number of problems that were found when all sections were read.
    read: Cell<Option<usize>>,
}

impl<'t> Document<'t> {
    /// Reads a file, and puts the values of `--set` into it.
    pub fn parse(file: PathBuf, text: &'t str, sets: &'t [String]) -> Result<Self, Problem> {
        let table = DeTable::parse(text).map_err(|error| {
            let line = line_at(text, error.span().map_or(0, |span| span.start));
            let first = (error.message() == "duplicate key").then(|| first_place(text, line));
            match first.flatten() {
                Some((key, first)) => {
                    let message = format!("{key} stands on line {first} already");
                    set::not_toml(&file, line, &message, "remove one")
                }
                None if BARE.iter().any(|said| error.message().starts_with(said)) => {
                    let message = "a text needs quotes, unlike true, false, a number and a date";
                    set::not_toml(&file, line, message, "write for example kind = \"thing\"")
                }
                None => set::not_toml(
                    &file,
                    line,
                    error.message(),
                    "see https://toml.io for the syntax",
                ),
            }
        })?;
        let mut root = DeValue::Table(table.into_inner());
        // The first that fails ends the reading: the document that was meant is not known.
        let sets = sets.iter().map(|set| set::apply(&mut root, set));
        let sets = sets.collect::<Result<_, _>>()?;
        Ok(Self {
            file,
            text,
            root,
            sets,
            problems: RefCell::default(),
            read: Cell::new(None),
        })
    }

    /// The value at a path; elements of a list are numbered from 0.
    pub fn find(&self, path: &[impl AsRef<str>]) -> Option<&DeValue<'t>> {
        path.iter().try_fold(&self.root, |value, key| {
            below(value, key.as_ref()).map(Spanned::get_ref)
        })
    }

    pub fn has(&self, path: &[impl AsRef<str>]) -> bool {
        self.find(path).is_some()
    }

    /// Replaces a value that the document has.
    pub fn replace(&mut self, key: &str, value: DeValue<'t>) {
        if let DeValue::Table(root) = &mut self.root
            && let Some(found) = root.get_mut(key)
        {
            *found.get_mut() = value;
        }
    }

    /// The keys of a table in the order of the file; none of what is no table.
    pub fn keys(&self, path: &[&str]) -> Vec<String> {
        let table = self.find(path).and_then(DeValue::as_table);
        let entries = table.into_iter().flatten();
        entries.map(|(key, _)| key.get_ref().to_string()).collect()
    }

    /// Every text at a path and below it that contains `part`, with its own path.
    pub fn texts_with(&self, part: &str, path: &[&str]) -> Vec<(Vec<String>, &str)> {
        let mut texts = Vec::new();
        let mut at = path.iter().map(|key| Cow::Borrowed(*key)).collect();
        if let Some(value) = self.find(path) {
            collect(value, &mut at, part, &mut texts);
        }
        texts
    }

    /// Whether the table at `own` has a value in place of that which the table at a path has at the keys `below`. Tables on the way
    /// are joined.
    pub fn replaces(&self, own: &[&str], path: &[&str], below: &[String]) -> bool {
        let (mut own, mut other) = (self.find(own), self.find(path));
        for key in below {
            let (Some(DeValue::Table(table)), Some(DeValue::Table(others))) = (own, other) else {
                break;
            };
            own = table.get(key.as_str()).map(Spanned::get_ref);
            other = others.get(key.as_str()).map(Spanned::get_ref);
        }
        own.is_some()
    }

    /// Reads the section at a path, which is a table.
    pub fn table<T: DeserializeOwned>(&self, path: &[&str], apart: &[&str]) -> Option<T> {
        let read = self.section::<Table<T>>(path, apart);
        read.map(|Table(table)| table)
    }

    /// Reads the section at a path, without those of its keys that are read by themselves. `None` if it is wrong as a whole.
    pub fn section<T: DeserializeOwned>(&self, path: &[&str], apart: &[&str]) -> Option<T> {
        let mut refused: Vec<Refusal> = Vec::new();
        loop {
            // Nearly every section is right, and copied once.
            let mut value = self.without(path, apart);
            if !refused.iter().all(|one| leave_out(&mut value, one)) {
                return None;
            }
            let read = ValueDeserializer::from(Spanned::new(0..0, value));
            let error = match serde_path_to_error::deserialize(read) {
                Ok(section) => return Some(section),
                Err(error) => error,
            };
            let refusal = self.understood(path, error.inner().message(), keys_of(error.path()));
            self.report(path, &refusal);
            if self.problems.borrow().len() >= MOST_PROBLEMS {
                return None;
            }
            refused.push(refusal);
        }
    }

    /// A copy of the value at a path without some of its keys; an empty table if there is none.
    fn without(&self, path: &[&str], apart: &[&str]) -> DeValue<'t> {
        match self.find(path) {
            Some(DeValue::Table(table)) => {
                let kept = table
                    .iter()
                    .filter(|(key, _)| !apart.contains(&&**key.get_ref()));
                let kept = kept.map(|(key, value)| (key.clone(), value.clone()));
                DeValue::Table(kept.collect())
            }
            Some(other) => other.clone(),
            None => DeValue::Table(DeTable::new()),
        }
    }

    /// What an error of serde says, whose messages contain the value, which may be a secret.
    fn understood(&self, path: &[&str], message: &str, at: Vec<String>) -> Refusal {
        if let Some((more, inner)) = Nested::parse(message) {
            return self.understood(path, inner, [at, more].concat());
        }
        let path: Vec<&str> = path
            .iter()
            .copied()
            .chain(at.iter().map(String::as_str))
            .collect();
        let in_ticks = |text: &str| -> Vec<String> {
            text.split('`')
                .skip(1)
                .step_by(2)
                .map(str::to_owned)
                .collect()
        };
        let refusal = if let Some(refusal) = Refusal::parse(message) {
            refusal
        } else if let Some(key) = message.strip_prefix("missing field ") {
            let key = key.trim_matches('`');
            let example = schema::example(&[&path[..], &[key]].concat());
            Refusal::missing(key, &example)
        } else if let Some((unknown, known)) = message.split_once(", expected ") {
            let known = in_ticks(known);
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            if let Some(unknown) = unknown.strip_prefix("unknown field ") {
                let unknown = unknown.trim_matches('`');
                Refusal::unknown_key(
                    self.dotted_call(&path)
                        .unwrap_or_else(|| advice(unknown, known)),
                )
            } else if let Some(unknown) = unknown.strip_prefix("unknown variant ") {
                unknown_word(unknown.trim_matches('`'), &known)
            } else {
                self.wrong_type(&path, message)
            }
        } else if let Some(DeValue::Integer(_) | DeValue::Float(_)) = self.find(&path) {
            Refusal::new(
                "expected a number, or a string",
                "write a number in digits, or a string in quotes",
            )
        } else {
            no_text(&path)
        };
        let at = at.into_iter().chain(refusal.at.clone()).collect();
        Refusal { at, ..refusal }
    }

    /// What to write where a table below a call is probably the second half of the call's name; `None` elsewhere.
    fn dotted_call(&self, path: &[&str]) -> Option<String> {
        let &[section @ "upstreams", upstream, calls @ "calls", call, key] = path else {
            return None;
        };
        let is_table = matches!(self.find(path), Some(DeValue::Table(_)));
        let name = format!("{call}.{key}");
        is_table.then(|| {
            format!(
                "put a name with a dot in quotes: [{}]",
                dotted(&[section, upstream, calls, name.as_str()])
            )
        })
    }

    fn wrong_type(&self, path: &[&str], message: &str) -> Refusal {
        let expected = message
            .rsplit_once(", expected ")
            .map_or("", |(_, expected)| expected);
        let is_table = matches!(self.find(path), Some(DeValue::Table(_)));
        match expected {
            "a boolean" => Refusal::new("expected true or false", "write true, or remove the key"),
            "a sequence" if is_table => Refusal::new(
                "expected a list of tables",
                format!("write [[{}]]", dotted(path)),
            ),
            "a sequence" => Refusal::no_list(),
            "a map" => Refusal::no_table(),
            expected if expected.starts_with("struct ") => Refusal::no_table(),
            _ => no_text(path),
        }
    }

    /// Reports what was expected of the value at a path, and what to write instead.
    pub fn refuse(&self, path: &[impl AsRef<str>], expected: impl Display, instead: impl Display) {
        let value = self.find(path).and_then(|value| shown(path, value));
        self.add(path, value, expected.to_string(), instead.to_string());
    }

    /// The same without the value, which may be a secret.
    pub fn refuse_unseen(
        &self,
        path: &[impl AsRef<str>],
        expected: impl Display,
        instead: impl Display,
    ) {
        self.add(path, None, expected.to_string(), instead.to_string());
    }

    /// Reports that a key of a table is missing.
    pub fn lacks(&self, path: &[&str], key: &str, example: &str) {
        self.report(path, &Refusal::missing(key, example));
    }

    pub fn report(&self, path: &[&str], refusal: &Refusal) {
        let path: Vec<&str> = path
            .iter()
            .copied()
            .chain(refusal.at.iter().map(String::as_str))
            .collect();
        // What was wrong and left out is not missing, and a table without it need not be right.
        if !self.is_right_below(&path) {
            return;
        }
        let is_set = self.set_of(&path).is_some();
        let expected = match refusal.expected.as_str() {
            MISSING if is_set => {
                "is missing from a section that only this --set creates; check its path".to_owned()
            }
            UNKNOWN if is_set => format!("{UNKNOWN} (put a key that contains a dot in quotes)"),
            expected => expected.to_owned(),
        };
        match refusal.expected.as_str() {
            UNKNOWN => self.add(&path, None, expected, refusal.instead.clone()),
            _ => self.refuse(&path, expected, &refusal.instead),
        }
    }

    /// Adds a problem, once: two jobs may have it in common.
    fn add(
        &self,
        path: &[impl AsRef<str>],
        value: Option<String>,
        expected: String,
        instead: String,
    ) {
        let path: Vec<&str> = path.iter().map(AsRef::as_ref).collect();
        let place = match self.set_of(&path) {
            Some(set) => format!("--set {}", dotted(set)),
            None => format!("{}:{}", self.file.display(), self.line(&path)),
        };
        let problem = Problem {
            place,
            path: dotted(&path),
            value,
            expected,
            instead,
        };
        let mut problems = self.problems.borrow_mut();
        if problems.len() < MOST_PROBLEMS && !problems.contains(&problem) {
            problems.push(problem);
        }
    }

    /// The `--set` that wrote a value, or created the table in which it is missing; `None`: it is of the file.
    fn set_of(&self, path: &[&str]) -> Option<&Vec<String>> {
        let begins = |set: &&Vec<String>, path: &[&str]| {
            set.iter().zip(path).all(|(one, other)| one == other)
        };
        let written = |set: &&Vec<String>| set.len() <= path.len() && begins(set, path);
        let mut sets = self.sets.iter().rev();
        if let Some(set) = sets.clone().find(written) {
            return Some(set);
        }
        let (known, span) = self.deepest(path)?;
        let is_created = span.end == 0;
        sets.find(|set| is_created && begins(set, path.get(..known).unwrap_or_default()))
    }

    fn line(&self, path: &[&str]) -> usize {
        let start = self.deepest(path).map_or(0, |(_, span)| span.start);
        line_at(self.text, start)
    }

    /// The length of the part of a path that the document has, and where its last key stands. A key that `--set` wrote stands
    /// nowhere: its span is empty.
    fn deepest(&self, path: &[&str]) -> Option<(usize, std::ops::Range<usize>)> {
        let (mut found, mut value) = (None, &self.root);
        for (at, key) in path.iter().enumerate() {
            let Some(next) = below(value, key) else { break };
            let own = value.as_table().and_then(|table| table.get_key_value(*key));
            let span = own.map_or_else(|| next.span(), |(key, _)| key.span());
            found = Some((at + 1, span));
            value = next.get_ref();
        }
        found
    }

    pub fn is_right(&self) -> bool {
        self.problems.borrow().is_empty()
    }

    /// From now on, sections are compared. What is right does not change by that.
    pub fn is_read(&self) {
        self.read.set(Some(self.problems.borrow().len()));
    }

    /// Whether no problem was found at a path or below it when it was read.
    pub fn is_right_below(&self, path: &[&str]) -> bool {
        let problems = self.problems.borrow();
        if problems.is_empty() {
            return true;
        }
        let path = dotted(path);
        let read = self.read.get().unwrap_or(problems.len());
        let mut below = problems
            .iter()
            .take(read)
            .filter_map(|one| one.path.strip_prefix(&path));
        !below.any(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    pub fn into_problems(self) -> Vec<Problem> {
        self.problems.into_inner()
    }
}

/// What is said of a value that is no text, at a path that has a text, or one of some words.
fn no_text(path: &[&str]) -> Refusal {
    let words = schema::words_at(path);
    match words.is_empty() {
        true => Refusal::no_text(),
        false => no_word(&words.iter().map(String::as_str).collect::<Vec<_>>()),
    }
}

/// The value of a key of a table, or an element of a list by its number.
fn below<'v, 't>(value: &'v DeValue<'t>, key: &str) -> Option<&'v Spanned<DeValue<'t>>> {
    match value {
        DeValue::Table(table) => table.get(key),
        DeValue::Array(array) => array.get(key.parse::<usize>().ok()?),
        _ => None,
    }
}

/// Adds the texts within the value at a path that contain a part.
fn collect<'v: 'p, 'p>(
    value: &'v DeValue<'_>,
    path: &mut Vec<Cow<'p, str>>,
    part: &str,
    texts: &mut Vec<(Vec<String>, &'v str)>,
) {
    let mut below = |key, value: &'v Spanned<DeValue<'_>>| {
        path.push(key);
        collect(value.get_ref(), path, part, texts);
        path.pop();
    };
    match value {
        DeValue::String(text) if text.contains(part) => {
            let path = path.iter().map(|key| key.clone().into_owned());
            texts.push((path.collect(), text));
        }
        DeValue::Array(array) => {
            let elements = array.iter().enumerate();
            elements.for_each(|(at, value)| below(at.to_string().into(), value));
        }
        DeValue::Table(table) => {
            let entries = table.iter();
            entries.for_each(|(key, value)| below((&**key.get_ref()).into(), value));
        }
        _ => {}
    }
}

/// Takes out of a value what was refused: the key that leads to it, or the table that lacks it. False if that is the whole value.
fn leave_out(value: &mut DeValue<'_>, refusal: &Refusal) -> bool {
    let at: Vec<&str> = refusal.at.iter().map(String::as_str).collect();
    let exists = at.iter().try_fold(&*value, |value, key| {
        below(value, key).map(Spanned::get_ref)
    });
    match exists {
        Some(_) => remove(value, &at),
        None => remove(
            value,
            at.get(..at.len().saturating_sub(1)).unwrap_or_default(),
        ),
    }
}

/// Removes the last key of a path that is one of a table.
fn remove(value: &mut DeValue<'_>, path: &[&str]) -> bool {
    let Some((key, rest)) = path.split_first() else {
        return false;
    };
    match value {
        DeValue::Table(table) => {
            let is_below = table
                .get_mut(*key)
                .is_some_and(|below| remove(below.get_mut(), rest));
            if !is_below {
                table.remove(*key);
            }
            true
        }
        DeValue::Array(array) => {
            let at = key.parse::<usize>();
            let element = at.ok().and_then(|at| array.get_mut(at));
            element.is_some_and(|element| remove(element.get_mut(), rest))
        }
        _ => false,
    }
}

const LONGEST: usize = 60;

/// A value as a message shows it; `None` if it may contain a secret.
fn shown(path: &[impl AsRef<str>], value: &DeValue<'_>) -> Option<String> {
    let path: Vec<&str> = path.iter().map(AsRef::as_ref).collect();
    let may_be_secret = |key: &&str| {
        [
            "secret",
            "secrets",
            "password",
            "sentinel_password",
            "token",
            "auth",
            "headers",
        ]
        .contains(key)
    };
    match path.as_slice() {
        ["ledger", "url"] => scheme(value),
        ["catalog", "url"] => None,
        // Whole tables: what they hold may be a secret at the wrong place.
        [] | ["ledger" | "catalog" | "serve" | "credentials"] => None,
        ["credentials", _] | ["serve", "clients"] | ["serve", "clients", _] => None,
        path if path.iter().any(may_be_secret) || may_hold_secret(path, value) => None,
        // A user, a password or a key can be in such a URL.
        [.., "base_url"] if value.as_str().is_some_and(|text| text.contains(['@', '?'])) => None,
        _ if is_section(value) => None,
        _ => Some(shortened(&written(value))),
    }
}

/// Tables of what requests carry, by names that the upstream chose.
const CARRIED: [&str; 5] = ["params", "json", "form", "graphql", "headers"];

/// Whether a value of a request may be a secret: by a name on its path, or since it is in place of a whole table.
fn may_hold_secret(path: &[&str], value: &DeValue<'_>) -> bool {
    let table = path.iter().position(|key| CARRIED.contains(key));
    let below = table.and_then(|at| path.get(at + 1..));
    below.is_some_and(|below| {
        (below.is_empty() && !value.is_table()) || below.iter().any(|name| names_secret(name))
    })
}

/// Whether a value is a table of more than plain values, which is too long for a message.
fn is_section(value: &DeValue<'_>) -> bool {
    let is_nested =
        |value: &Spanned<DeValue<'_>>| value.get_ref().is_table() || value.get_ref().is_array();
    let table = value.as_table();
    table.is_some_and(|table| table.is_empty() || table.values().any(is_nested))
}

/// A URL that may contain a password is shown by its scheme only.
fn scheme(value: &DeValue<'_>) -> Option<String> {
    let Some(text) = value.as_str() else {
        let is_plain = !value.is_table() && !value.is_array();
        return is_plain.then(|| shortened(&written(value)));
    };
    let is_plain = |text: &str, more: &str| {
        let mut letters = text.chars();
        letters.all(|letter| letter.is_ascii_alphanumeric() || more.contains(letter))
    };
    match text.split_once("://") {
        Some((scheme, _)) if is_plain(scheme, "+") => {
            Some(format!("\"{}://...\"", shortened(scheme)))
        }
        None if is_plain(text, "") => Some(shortened(&format!("{text:?}"))),
        _ => None,
    }
}

/// A value as TOML, in one line.
fn written(value: &DeValue<'_>) -> String {
    let several = |values: Vec<String>| values.join(", ");
    match value {
        DeValue::String(text) => {
            format!("{:?}", text.chars().take(LONGEST * 2).collect::<String>())
        }
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(truth) => truth.to_string(),
        DeValue::Datetime(date) => date.to_string(),
        DeValue::Array(values) => {
            let values = values.iter().map(|value| written(value.get_ref()));
            format!("[{}]", several(values.collect()))
        }
        DeValue::Table(table) if table.is_empty() => "{}".to_owned(),
        DeValue::Table(table) => {
            let entries = table.iter().map(|(key, value)| {
                format!("{} = {}", quoted(key.get_ref()), written(value.get_ref()))
            });
            format!("{{ {} }}", several(entries.collect()))
        }
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((cut, _)) => format!("{}...", text.get(..cut).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// The line of an offset, from 1.
fn line_at(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().get(..offset).unwrap_or_default();
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}

/// Returns the table or the key of a line, from 1, and the line before it that has the same one; `None` where both are not
/// written alike.
fn first_place(text: &str, line: usize) -> Option<(String, usize)> {
    let is_table = |line: &str| line.trim_start().starts_with('[');
    let name = |line: &str| match is_table(line) {
        true => line
            .split_inclusive(']')
            .next()
            .unwrap_or_default()
            .replace(' ', ""),
        false => line.split('=').next().unwrap_or_default().trim().to_owned(),
    };
    let before: Vec<&str> = text.lines().take(line).collect();
    let (here, before) = before.split_last()?;
    let wanted = name(here);
    for (at, other) in before.iter().enumerate().rev() {
        if is_table(other) == is_table(here) && name(other) == wanted {
            return Some((format!("`{wanted}`"), at + 1));
        }
        if is_table(other) && !is_table(here) {
            return None;
        }
    }
    None
}
