//! `--set PATH=VALUE`

use std::path::Path;
use std::sync::Arc;

use toml::de::{DeTable, DeValue};

use super::error::Problem;
use super::names::{dotted, quoted};
use super::tree::{Entry, Kind, Node, Origin};

/// Puts the value of one `--set` into a document.
pub fn apply(root: &mut Node, set: &str) -> Result<(), Problem> {
    let (path, value) = split(set).ok_or_else(|| malformed(set))?;
    let origin = Origin::Set(Arc::from(dotted(&path)));
    let value = Node::of_set(value, &origin);
    put(root, &path, &value, &origin).map_err(|(depth, what)| no_table(&path, depth, what))
}

/// The path and the value.
fn split(set: &str) -> Option<(Vec<String>, &str)> {
    let at = equals_sign(set)?;
    let path = segments(set.get(..at)?)?;
    // As in a line of TOML, blanks around the value are ignored.
    Some((path, set.get(at + 1..)?.trim()))
}

/// The position of the first `=` outside quotes.
fn equals_sign(set: &str) -> Option<usize> {
    let (mut quote, mut escaped) = (None, false);
    for (at, letter) in set.char_indices() {
        match (quote, letter) {
            (Some('"'), '\\') if !escaped => {
                escaped = true;
                continue;
            }
            (Some(open), _) if open == letter && !escaped => quote = None,
            (None, '"' | '\'') => quote = Some(letter),
            (None, '=') => return Some(at),
            _ => {}
        }
        escaped = false;
    }
    None
}

/// The segments of a dotted path: TOML's own reading of a dotted key.
fn segments(path: &str) -> Option<Vec<String>> {
    // Unquoted, they would make the line below another line, a table or a comment.
    if path.contains(['\n', '\r', '[', '#']) && !path.contains(['"', '\'']) {
        return None;
    }
    let line = format!("{} = 0", path.trim());
    let table = DeTable::parse(&line).ok()?;
    let mut segments = Vec::new();
    let mut table = table.get_ref();
    loop {
        let (key, value) = table.iter().next().filter(|_| table.len() == 1)?;
        segments.push(key.get_ref().to_string());
        match value.get_ref() {
            DeValue::Table(below) => table = below,
            DeValue::Integer(_) => return Some(segments),
            _ => return None,
        }
    }
}

/// Puts a value at a path, creating the tables that are missing. Fails with the depth that it reached, and what is wrong there.
fn put(
    node: &mut Node,
    path: &[String],
    value: &Node,
    origin: &Origin,
) -> Result<(), (usize, &'static str)> {
    let Some((key, below)) = path.split_first() else {
        *node = value.clone();
        return Ok(());
    };
    let next = match &mut node.kind {
        Kind::Table(entries) => in_table(entries, key, origin),
        Kind::List(nodes) => in_list(nodes, key, origin),
        _ => return Err((0, "is not a table")),
    };
    let next = next.ok_or((0, "is a list without this element"))?;
    put(next, below, value, origin).map_err(|(depth, what)| (depth + 1, what))
}

fn in_table<'n>(entries: &'n mut Vec<Entry>, key: &str, origin: &Origin) -> Option<&'n mut Node> {
    if !entries.iter().any(|entry| entry.key == key) {
        entries.push(Entry {
            key: key.to_owned(),
            node: empty(origin),
        });
    }
    entries
        .iter_mut()
        .find(|entry| entry.key == key)
        .map(|entry| &mut entry.node)
}

/// An element by its number from 0; the number after the last one adds one.
fn in_list<'n>(nodes: &'n mut Vec<Node>, key: &str, origin: &Origin) -> Option<&'n mut Node> {
    let at: usize = key.parse().ok()?;
    if at == nodes.len() {
        nodes.push(empty(origin));
    }
    nodes.get_mut(at)
}

fn empty(origin: &Origin) -> Node {
    Node {
        origin: origin.clone(),
        kind: Kind::Table(Vec::new()),
    }
}

/// The text may contain a secret if the `=` was forgotten, so only what can be a path is shown.
fn malformed(set: &str) -> Problem {
    let path = |letter: &char| letter.is_alphanumeric() || "._-\"'".contains(*letter);
    let shown: String = set.chars().take_while(path).take(60).collect();
    Problem::of_text(
        format!("--set {shown}"),
        "expected a dotted path, `=` and a value",
        "write for example --set ledger.timeout=1s; put a key that contains a dot in quotes",
    )
}

/// What stands at a depth of the path has no keys.
fn no_table(path: &[String], depth: usize, what: &str) -> Problem {
    let above = dotted(path.get(..depth).unwrap_or(path));
    let key = path.get(depth).map_or_else(String::new, |key| quoted(key));
    Problem {
        place: format!("--set {}", dotted(path)),
        path: above.clone(),
        value: None,
        expected: format!("{what}, so it has no {key}"),
        instead: format!("write --set {above}=VALUE with the whole value"),
    }
}

/// The problem of a file that is not text.
pub fn not_utf8(file: &Path, line: usize) -> Problem {
    let place = format!("{}:{line}", file.display());
    Problem::of_text(place, "the file is not UTF-8", "save the file as UTF-8")
}

/// The problem of a file that is not TOML.
pub fn not_toml(file: &Path, line: usize, message: &str) -> Problem {
    let place = format!("{}:{line}", file.display());
    let expected = format!("not valid TOML: {message}");
    Problem::of_text(place, expected, "see https://toml.io for the syntax")
}
