//! The manual of `quotas.toml`, generated from the declarations that the reader uses: `docs/configuration.md`.

use std::fmt::Write;

use super::Template;
use super::declare::{Key, Need, Shape};
use super::read;
use super::shown::written;

const INTRODUCTION: &str = "This file defines what `ingest` fetches, from where, and within which quota. It is TOML. \
    `ingest init` writes one, `ingest check` validates it, and `--set PATH=VALUE` overrides any value for one run by its \
    dotted path. In paths, a word in capitals is a name that the file chooses.";
const TEMPLATES: &str = "A template is a string in which `{variables}` are replaced for each request. A literal brace is \
    written twice: `{{` and `}}`. A variable in doubled braces is rejected as a mistake. A name that is not in this table is \
    a value of the region: `[regions.GB]` with `city = \"London\"` is used as `{city}`. In a path and in the query, the value of \
    a variable is percent-encoded: write it as it is, `sc-domain:example.com`, not `sc-domain%3Aexample.com`.";
const POINTERS: &str = "A JSON pointer (RFC 6901) names a place in a response: `/items/0/id`. The token `*` stands for every \
    element of a list and for every member of an object: `/items/*/id`. In a token, `~1` stands for `/` and `~0` for `~`. An empty \
    pointer is the whole response.";

const ID: &str = "The only id of the request, in a step with `ids` and `batch = 1`; also in `records.id` and `columns` of its \
    call, which so know what they belong to. In other steps, a value of the region that has this name.";

/// What a first reader needs, in Markdown alone.
const GUIDE: &str = include_str!("guide.md");

const SECRETS: &str = "A secret is never in this file, but in one of these places. Exactly one of the keys is present.";
/// The keys of a secret, which several tables have.
const OF_A_SECRET: [&str; 4] = ["env", "file", "credential", "command"];

/// The path of what is in no table, in anchors.
const TOP: &str = "top";

/// One element of the manual.
enum Block {
    /// The anchor, and the text.
    Heading(String, String),
    Text(String),
    Key(ManualEntry),
    /// The heads of the two columns, and the rows.
    Table([&'static str; 2], Vec<(String, String)>),
}

/// A key of a table.
struct ManualEntry {
    anchor: String,
    name: String,
    /// Its type and its default.
    of: String,
    text: String,
}

/// Returns the manual as Markdown.
#[must_use]
pub fn markdown() -> String {
    let blocks = blocks();
    let mut text = format!(
        "# quotas.toml\n\n<!-- Generated from the program; see tests/all/manual.rs. -->\n\n{INTRODUCTION}\n\n{GUIDE}{}",
        contents(&blocks)
    );
    for block in blocks {
        // Writing to a string cannot fail.
        let _ = match block {
            Block::Heading(anchor, heading) => {
                writeln!(text, "\n<a id=\"{anchor}\"></a>\n\n## {heading}")
            }
            Block::Text(paragraph) => writeln!(text, "\n{paragraph}"),
            Block::Key(ManualEntry {
                anchor,
                name,
                of,
                text: about,
            }) => writeln!(
                text,
                "\n<a id=\"{anchor}\"></a>**`{name}`** ({of}): {about}"
            ),
            Block::Table([left, right], rows) => {
                let _ = writeln!(text, "\n| {left} | {right} |\n| --- | --- |");
                rows.iter().try_for_each(|(word, meaning)| {
                    writeln!(text, "| `{word}` | {} |", meaning.replace('|', "\\|"))
                })
            }
        };
    }
    text
}

/// The table of contents: every table with its keys.
fn contents(blocks: &[Block]) -> String {
    let mut text = "\n## All keys\n".to_owned();
    let mut between = "";
    for block in blocks {
        let _ = match block {
            Block::Heading(anchor, heading) => {
                between = ": ";
                write!(text, "\n- [{heading}](#{anchor})")
            }
            Block::Key(ManualEntry { anchor, name, .. }) => {
                let written = write!(text, "{between}[{name}](#{anchor})");
                between = ", ";
                written
            }
            Block::Text(_) | Block::Table(..) => Ok(()),
        };
    }
    text + "\n"
}

fn blocks() -> Vec<Block> {
    let (mut blocks, shape) = (Vec::new(), read::shape());
    describe(&mut blocks, "", &shape);
    blocks.extend([
        Block::Heading(table_anchor("secrets"), "Secrets".to_owned()),
        Block::Text(SECRETS.to_owned()),
    ]);
    for key in secret(&shape).unwrap_or_default() {
        describe_key(&mut blocks, "secrets", key);
    }
    let variables = Template::VARIABLES.iter();
    let rows = variables.map(|(name, _, doc)| (format!("{{{name}}}"), (*doc).to_owned()));
    let rows = rows.chain([("{id}".to_owned(), ID.to_owned())]);
    blocks.extend([
        Block::Heading(table_anchor("templates"), "Templates".to_owned()),
        Block::Text(TEMPLATES.to_owned()),
        Block::Table(["variable", "value"], rows.collect()),
        Block::Heading(table_anchor("pointers"), "JSON pointers".to_owned()),
        Block::Text(POINTERS.to_owned()),
    ]);
    blocks
}

/// Adds the tables within a value at `path`, each with its keys.
fn describe(blocks: &mut Vec<Block>, path: &str, shape: &Shape) {
    for part in &shape.parts {
        let path = format!("{path}{}", part.path);
        let path = path.trim_start_matches('.');
        if part.keys.is_empty() || is_secret(&part.keys) {
            continue;
        }
        let heading = match path {
            "" => "Top level".to_owned(),
            _ => heading(path),
        };
        blocks.push(Block::Heading(table_anchor(path), heading));
        if !part.doc.is_empty() {
            blocks.push(Block::Text(part.doc.clone()));
        }
        for key in &part.keys {
            describe_key(blocks, path, key);
        }
        for key in &part.keys {
            describe(blocks, &format!("{path}.{}", key.name), &key.shape);
        }
    }
}

/// The heading of a table. One within a table with a `kind` has its whole path in front.
fn heading(path: &str) -> String {
    let below_a_kind = path.split_once(" with ").and_then(|(table, rest)| {
        let (kind, below) = rest.split_once("\".")?;
        Some(format!("`{table}.{below}` with `{kind}\"`"))
    });
    below_a_kind.unwrap_or_else(|| format!("`{path}`"))
}

fn is_secret(keys: &[Key]) -> bool {
    keys.iter().map(|key| key.name).eq(OF_A_SECRET)
}

fn secret(shape: &Shape) -> Option<&[Key]> {
    shape.parts.iter().find_map(|part| {
        let own = is_secret(&part.keys).then_some(part.keys.as_slice());
        own.or_else(|| part.keys.iter().find_map(|key| secret(&key.shape)))
    })
}

/// The anchor of a table, which differs from that of the key that is the table.
fn table_anchor(path: &str) -> String {
    let path = if path.is_empty() { TOP } else { path };
    format!("table.{}", in_anchors(path))
}

/// A path as anchors have it: the kind of a table is a part of it.
fn in_anchors(path: &str) -> String {
    let path = path.replace(" with kind = \"", ".");
    path.replace(['"', '[', ']'], "")
}

fn describe_key(blocks: &mut Vec<Block>, path: &str, key: &Key) {
    let presence = match &key.need {
        Need::Required => "required".to_owned(),
        Need::Default(default) => format!("default `{}`", written(default)),
        Need::Optional => "optional".to_owned(),
    };
    let is_secret = key.shape.parts.iter().any(|part| is_secret(&part.keys));
    let keys = if is_secret {
        " Its keys: see Secrets."
    } else {
        ""
    };
    let example = format!("`{} = {}`", key.name, written(&key.example));
    let path = if path.is_empty() { TOP } else { path };
    blocks.push(Block::Key(ManualEntry {
        anchor: format!("{}.{}", in_anchors(path), key.name),
        name: key.name.to_owned(),
        of: format!("{}; {presence}", key.shape.label),
        text: format!("{}{keys} Example: {example}", key.doc),
    }));
    if key.shape.words.len() > 1 {
        let words = key.shape.words.iter();
        let rows = words.map(|(word, doc)| (format!("\"{word}\""), (*doc).to_owned()));
        blocks.push(Block::Table(["value", "meaning"], rows.collect()));
    }
}
