//! A configuration with every key once, generated from the declarations that the reader uses: `ingest init --preset blank`.

use std::fmt::Write;

use super::declare::{Key, Need, Part, Shape};
use super::names::quoted;
use super::read;
use super::shown::written;
use super::tree::{Kind, Node};

const INTRODUCTION: &str = "Every key of quotas.toml. A line that begins with `#` and no space is a key that is not in \
    use: remove the `#`, and that of the table above it. Where a table begins several times, keep the one of the right kind. \
    The other lines are the least that a configuration needs: `ingest check --config-only` accepts it as it is.";

/// The widest comment, in characters.
const WIDTH: usize = 118;

/// The tables of the least configuration, by the headers that they have here.
const IN_USE: [&str; 8] = [
    "",
    "[upstreams.things]",
    "[upstreams.things.calls.\"things.list\"]",
    "[upstreams.things.calls.\"things.list\".records]",
    "[credentials.things]",
    "[credentials.things.limits.daily]",
    "[jobs.popular]",
    "[[jobs.popular.steps]]",
];

/// What such a table needs besides its required keys.
const NEEDED: [&str; 5] = ["credential", "regions", "path", "at", "window"];

/// Returns the configuration.
#[must_use]
pub fn blank() -> String {
    let mut text = comment(INTRODUCTION);
    for part in &read::shape().parts {
        table(&mut text, "", "", part);
    }
    text
}

/// Adds a table: its header, its plain keys, and the tables in it, whose paths begin with `path`.
fn table(text: &mut String, path: &str, header: &str, part: &Part) {
    let is_used = IN_USE.contains(&header);
    let mark = if is_used { "" } else { "#" };
    if !header.is_empty() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{mark}{header}");
    }
    if let Some(kind) = kind_of(part) {
        let _ = writeln!(text, "#kind = \"{kind}\"");
    }
    let tables = part.keys.iter().filter(|key| has_tables(&key.shape));
    // A key can be a value or a table.
    let is_plain = |key: &&Key| {
        !has_tables(&key.shape)
            || NEEDED.contains(&key.name) && !matches!(key.example.kind, Kind::Table(_))
    };
    for key in part.keys.iter().filter(is_plain) {
        let is_needed = matches!(key.need, Need::Required) || NEEDED.contains(&key.name);
        let mark = if is_used && is_needed { "" } else { "#" };
        text.push_str(&comment(&about(key)));
        let _ = writeln!(text, "{mark}{} = {}", key.name, written(&key.example));
    }
    for key in tables {
        let path = match path {
            "" => key.name.to_owned(),
            _ => format!("{path}.{}", key.name),
        };
        let example = format!(" Example: {} = {}", key.name, written(&key.example));
        let _ = write!(text, "\n{}", comment(&(about(key) + &example)));
        for (at, part) in key.shape.parts.iter().enumerate() {
            if at > 0 {
                text.push('\n');
            }
            if kind_of(part).is_some() {
                text.push_str(&comment(&part.doc));
            }
            let (path, header) = place(&path, part, &key.example);
            table(text, &path, &header, part);
        }
    }
}

fn has_tables(shape: &Shape) -> bool {
    shape.parts.iter().any(|part| !part.keys.is_empty())
}

/// The kind of a table whose `kind` decides on its keys.
fn kind_of(part: &Part) -> Option<&str> {
    let (_, kind) = part.path.split_once(" with kind = \"")?;
    kind.strip_suffix('"')
}

/// The path and the header of a table, whose name is the first one of the example where the file chooses it.
fn place(path: &str, part: &Part, example: &Node) -> (String, String) {
    let name = match &example.kind {
        Kind::Table(entries) if part.path.starts_with('.') => entries.first(),
        _ => None,
    };
    let path = match name {
        Some(entry) => format!("{path}.{}", quoted(&entry.key)),
        None => path.to_owned(),
    };
    match part.path.ends_with("[]") {
        true => (path.clone(), format!("[[{path}]]")),
        false => (path.clone(), format!("[{path}]")),
    }
}

/// What the manual says of a key, with the words that it accepts.
fn about(key: &Key) -> String {
    let presence = match &key.need {
        Need::Required => "Required.".to_owned(),
        Need::Default(default) => format!("Default: {}.", written(default)),
        Need::Optional => "Optional.".to_owned(),
    };
    let words = match key.shape.words.len() > 1 && !has_tables(&key.shape) {
        true => key
            .shape
            .words
            .iter()
            .map(|(word, doc)| format!(" \"{word}\": {doc}"))
            .collect(),
        false => String::new(),
    };
    format!("{}: {} {presence}{words}", key.name, key.doc)
}

/// A text as lines of a comment.
fn comment(text: &str) -> String {
    textwrap::wrap(text, WIDTH)
        .iter()
        .map(|line| format!("# {line}\n"))
        .collect()
}
