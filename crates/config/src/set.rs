//! `--set PATH=VALUE`

use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::Problem;
use super::names::{dotted, quoted};

/// Puts the value of one `--set` into a document, and returns its path. What is not TOML is text.
pub fn apply<'t>(root: &mut DeValue<'t>, set: &'t str) -> Result<Vec<String>, Problem> {
    let (path, value) = split(set).ok_or_else(|| malformed(set))?;
    let value = match DeValue::parse(value) {
        Ok(value) => value.into_inner(),
        Err(_) => DeValue::String(value.into()),
    };
    match put(root, &path, value) {
        Ok(()) => Ok(path),
        Err((depth, what)) => Err(no_table(&path, depth, what)),
    }
}

/// The path and the value: what is before the first `=` that follows a whole path, and so is in no quotes, and what is behind it.
fn split(set: &str) -> Option<(Vec<String>, &str)> {
    let mut signs = set.match_indices('=');
    signs.find_map(|(at, _)| {
        // As in a line of TOML, blanks around the value are ignored.
        Some((segments(set.get(..at)?)?, set.get(at + 1..)?.trim()))
    })
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
fn put<'t>(
    at: &mut DeValue<'t>,
    path: &[String],
    value: DeValue<'t>,
) -> Result<(), (usize, &'static str)> {
    let Some((key, rest)) = path.split_first() else {
        *at = value;
        return Ok(());
    };
    // What a `--set` creates stands on no line of the file.
    let nowhere = || Spanned::new(0..0, DeValue::Table(DeTable::new()));
    let next = match at {
        DeValue::Table(table) => {
            let key = Spanned::new(0..0, key.clone().into());
            table.entry(key).or_insert_with(nowhere)
        }
        DeValue::Array(array) => {
            let index = key.parse::<usize>();
            if index == Ok(array.len()) {
                array.push(nowhere());
            }
            let element = index.ok().and_then(|index| array.get_mut(index));
            element.ok_or((0, "is a list without this element"))?
        }
        _ => return Err((0, "is not a table")),
    };
    put(next.get_mut(), rest, value).map_err(|(depth, what)| (depth + 1, what))
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
pub fn not_toml(file: &Path, line: usize, message: &str, instead: &str) -> Problem {
    let place = format!("{}:{line}", file.display());
    let expected = format!("not valid TOML: {message}");
    Problem::of_text(place, expected, instead)
}
