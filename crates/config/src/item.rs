//! A value of the document with its path, which reports problems with that.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::rc::Rc;

use super::error::Problem;
use super::names::{advice, dotted};
use super::shown::shown;
use super::tree::{Kind, Node, Origin};

/// More than anybody corrects at once. Each problem is compared with all before it, so their number must be bounded.
const MOST_PROBLEMS: usize = 100;

/// A document being read, with the problems that were found.
pub struct Document {
    pub file: PathBuf,
    pub root: Node,
    problems: RefCell<Vec<Problem>>,
}

impl Document {
    pub const fn new(file: PathBuf, root: Node) -> Self {
        Self {
            file,
            root,
            problems: RefCell::new(Vec::new()),
        }
    }

    pub const fn item(&self) -> Item<'_> {
        Item {
            document: self,
            node: &self.root,
            path: Path(None),
        }
    }

    pub fn is_right(&self) -> bool {
        self.problems.borrow().is_empty()
    }

    pub fn into_problems(self) -> Vec<Problem> {
        self.problems.into_inner()
    }

    /// Adds a problem, once: two jobs may have it in common.
    fn add<T>(&self, problem: Problem) -> Option<T> {
        let mut problems = self.problems.borrow_mut();
        if problems.len() < MOST_PROBLEMS && !problems.contains(&problem) {
            problems.push(problem);
        }
        None
    }

    fn place(&self, origin: &Origin) -> String {
        match origin {
            Origin::Line(line) => format!("{}:{line}", self.file.display()),
            Origin::Set(path) => format!("--set {path}"),
        }
    }
}

/// A value with its path. Whatever reads it returns `None` if it is invalid, after reporting why.
#[derive(Clone)]
pub struct Item<'a> {
    document: &'a Document,
    node: &'a Node,
    path: Path<'a>,
}

/// The keys that lead to a value. It shares those that lead to the table above it.
#[derive(Clone)]
struct Path<'a>(Option<Rc<(Cow<'a, str>, Path<'a>)>>);

impl<'a> Path<'a> {
    fn below(&self, key: Cow<'a, str>) -> Self {
        Self(Some(Rc::new((key, self.clone()))))
    }

    /// The keys, that of the document's own table first.
    fn keys(&self) -> Vec<String> {
        let (mut keys, mut path) = (Vec::new(), self);
        while let Some((key, above)) = path.0.as_deref() {
            keys.push(key.to_string());
            path = above;
        }
        keys.reverse();
        keys
    }
}

impl<'a> Item<'a> {
    /// Reports what was expected of this value, and what to write instead.
    pub fn refuse<T>(&self, expected: impl Display, instead: impl Display) -> Option<T> {
        let path = self.path();
        let value = shown(&path, self.node);
        self.complain(dotted(&path), value, expected, instead)
    }

    /// Reports the same of the value at a path below this one, if that is present.
    pub fn refuse_at(&self, path: &[&str], expected: impl Display, instead: impl Display) {
        if let Some(item) = self.find(path) {
            item.refuse::<()>(expected, instead);
        }
    }

    /// The same without the value, which may be a secret.
    pub fn refuse_unseen<T>(&self, expected: impl Display, instead: impl Display) -> Option<T> {
        self.complain(dotted(&self.path()), None, expected, instead)
    }

    /// Reports that a key of this table is missing.
    pub fn lacks<T>(&self, key: &str, example: &str) -> Option<T> {
        let path = self.path.below(Cow::Borrowed(key)).keys();
        let expected = match &self.node.origin {
            Origin::Line(_) => "is missing",
            Origin::Set(_) => {
                "is missing from a section that only this --set creates; check its path"
            }
        };
        self.complain(
            dotted(&path),
            None,
            expected,
            format!("write {key} = {example}"),
        )
    }

    fn complain<T>(
        &self,
        path: String,
        value: Option<String>,
        expected: impl Display,
        instead: impl Display,
    ) -> Option<T> {
        let (expected, instead) = (expected.to_string(), instead.to_string());
        let place = self.document.place(&self.node.origin);
        self.document.add(Problem {
            place,
            path,
            value,
            expected,
            instead,
        })
    }

    pub const fn origin(&self) -> &'a Origin {
        &self.node.origin
    }

    pub const fn kind(&self) -> &'a Kind {
        &self.node.kind
    }

    /// A document that holds the default of a key of this table, to be read like a value that is present.
    pub fn default_document(&self, default: Node) -> Document {
        Document::new(self.document.file.clone(), default)
    }

    pub fn path(&self) -> Vec<String> {
        self.path.keys()
    }

    /// The last part of its path.
    pub fn name(&self) -> &str {
        self.path.0.as_deref().map_or("", |(key, _)| key)
    }

    /// The value at a path below this one; `None` if it is absent. Elements of a list are numbered from 0.
    pub fn find(&self, path: &[&str]) -> Option<Self> {
        path.iter().try_fold(self.clone(), |item, key| {
            let node = item.node.get(key)?;
            Some(item.below(Cow::Owned((*key).to_owned()), node))
        })
    }

    /// The whole document.
    pub const fn root(&self) -> Self {
        self.document.item()
    }

    pub const fn is_number(&self) -> bool {
        matches!(self.node.kind, Kind::Integer(_) | Kind::Float(..))
    }

    pub const fn is_table(&self) -> bool {
        matches!(self.node.kind, Kind::Table(_))
    }

    fn below(&self, key: Cow<'a, str>, node: &'a Node) -> Self {
        Self {
            document: self.document,
            node,
            path: self.path.below(key),
        }
    }

    /// A string; a number or a boolean is the text that it was written as.
    pub fn as_text(&self) -> Option<String> {
        match self.kind() {
            Kind::Text(text) => Some(text.clone()),
            Kind::Integer(number) => Some(number.to_string()),
            Kind::Float(number, _) => Some(number.to_string()),
            Kind::Bool(truth) => Some(truth.to_string()),
            Kind::Date(date) => Some(date.clone()),
            Kind::List(_) | Kind::Table(_) => {
                self.refuse("expected a string", "write one string in quotes")
            }
        }
    }

    pub fn text(&self) -> Option<&'a str> {
        match self.kind() {
            Kind::Text(text) => Some(text),
            _ => self.refuse("expected a string", "write it in quotes"),
        }
    }

    pub fn filled_text(&self) -> Option<String> {
        match self.text()? {
            "" => self.refuse("expected a string that is not empty", "write a value"),
            text if text.chars().any(char::is_control) => self.refuse(
                "expected a string without control characters",
                "remove them",
            ),
            text => Some(text.to_owned()),
        }
    }

    pub fn truth(&self) -> Option<bool> {
        match self.kind() {
            Kind::Bool(truth) => Some(*truth),
            _ => self.refuse("expected true or false", "write true, or remove the key"),
        }
    }

    pub fn number(&self, range: RangeInclusive<u64>) -> Option<u64> {
        let found = match self.kind() {
            Kind::Integer(number) => u64::try_from(*number)
                .ok()
                .filter(|number| range.contains(number)),
            _ => None,
        };
        let (least, most) = (range.start(), range.end());
        let expected = format!("expected a whole number from {least} to {most}");
        found.or_else(|| self.refuse(expected, self.advice_on_number(*least, *most)))
    }

    fn advice_on_number(&self, least: u64, most: u64) -> String {
        match self.kind() {
            Kind::Text(text) if text.parse::<u64>().is_ok() => {
                format!("write {text} without quotes")
            }
            Kind::Float(number, _)
                if number.fract() == 0.0 && (least as f64..=most as f64).contains(number) =>
            {
                format!("write {number}")
            }
            Kind::Float(..) => "write a number without a fraction".to_owned(),
            Kind::Integer(number) if *number > i128::from(most) => format!("write {most} or less"),
            _ => format!("write {least} or more"),
        }
    }

    /// The elements of a list.
    pub fn list(&self) -> Option<Vec<Self>> {
        match self.kind() {
            Kind::List(nodes) => Some(
                nodes
                    .iter()
                    .enumerate()
                    .map(|(at, node)| self.below(Cow::Owned(at.to_string()), node))
                    .collect(),
            ),
            _ => self.refuse("expected a list", "write the values in square brackets"),
        }
    }

    /// The elements of a list of tables, which a file writes as sections.
    pub fn list_of_tables(&self) -> Option<Vec<Self>> {
        match self.kind() {
            Kind::Table(_) => self.refuse(
                "expected a list of tables",
                format!("write [[{}]]", dotted(&self.path())),
            ),
            _ => self.list(),
        }
    }

    /// The elements of a list that is not empty; a single value is a list of one.
    pub fn one_or_more(&self) -> Option<Vec<Self>> {
        match self.kind() {
            Kind::List(nodes) if nodes.is_empty() => self.refuse(
                "expected at least one value",
                "write one value, or a list of values",
            ),
            Kind::List(_) => self.list(),
            _ => Some(vec![self.clone()]),
        }
    }

    /// The entries of a table whose keys are names that the file chooses.
    pub fn entries(&self) -> Option<Vec<Self>> {
        match self.kind() {
            Kind::Table(entries) => Some(
                entries
                    .iter()
                    .map(|entry| self.below(Cow::Borrowed(&*entry.key), &entry.node))
                    .collect(),
            ),
            _ => self.refuse("expected a table", "write { name = value }, or a [section]"),
        }
    }

    /// This table, if it has no other keys than these.
    pub fn table(self, known: &[&str]) -> Option<Self> {
        let entries = self.entries()?;
        let strangers: Vec<_> = entries
            .iter()
            .filter(|entry| !known.contains(&entry.name()))
            .collect();
        for stranger in &strangers {
            let advice = advice(stranger.name(), known.iter().copied());
            stranger.complain::<()>(dotted(&stranger.path()), None, stranger.unknown(), advice);
        }
        strangers.is_empty().then_some(self)
    }
}

impl Item<'_> {
    const fn unknown(&self) -> &'static str {
        match self.node.origin {
            Origin::Line(_) => "unknown key",
            Origin::Set(_) => "unknown key (put a key that contains a dot in quotes)",
        }
    }
}

/// Every value, or `None` if any is invalid. Every element is read, so that all problems are reported.
pub fn all<T, C: FromIterator<T>>(read: impl IntoIterator<Item = Option<T>>) -> Option<C> {
    read.into_iter().collect::<Vec<_>>().into_iter().collect()
}
