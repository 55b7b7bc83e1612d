//! The manual of `quotas.toml`, generated from the declarations that the reader uses: `docs/configuration.md`, and the
//! manual page quotas.toml(5).

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

/// One element of the manual.
enum Block {
    Heading(String),
    Text(String),
    /// The key, its type and its default, and the text about it.
    Key(String, String, String),
    /// The heads of the two columns, and the rows.
    Table([&'static str; 2], Vec<(String, String)>),
}

/// Returns the manual as Markdown.
#[must_use]
pub fn markdown() -> String {
    let mut text =
        "# quotas.toml\n\n<!-- Generated from the program; see tests/all/config/manual.rs. -->\n"
            .to_owned();
    for block in blocks() {
        // Writing to a string cannot fail.
        let _ = match block {
            Block::Heading(heading) => writeln!(text, "\n## {heading}"),
            Block::Text(paragraph) => writeln!(text, "\n{paragraph}"),
            Block::Key(name, of, paragraph) => writeln!(text, "\n**`{name}`** ({of}): {paragraph}"),
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

/// Returns the manual as a manual page in roff.
#[must_use]
pub fn roff() -> String {
    let mut text =
        ".TH quotas.toml 5\n.SH NAME\nquotas.toml \\- the configuration of ingest\n".to_owned();
    for block in blocks() {
        let _ = match block {
            Block::Heading(heading) => writeln!(text, ".SH \"{}\"", escaped(&heading)),
            Block::Text(paragraph) => writeln!(text, ".PP\n{}", escaped(&paragraph)),
            Block::Key(name, of, paragraph) => {
                writeln!(
                    text,
                    ".TP\n\\fB{name}\\fR ({})\n{}",
                    escaped(&of),
                    escaped(&paragraph)
                )
            }
            Block::Table(_, rows) => rows.iter().try_for_each(|(word, meaning)| {
                writeln!(
                    text,
                    ".RS\n.TP\n\\fB{}\\fR\n{}\n.RE",
                    escaped(word),
                    escaped(meaning)
                )
            }),
        };
    }
    text + ".SH SEE ALSO\n.BR ingest (1)\n"
}

/// Text for roff: `code` in bold, and nothing that roff takes for a request.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    let mut escaped = String::new();
    for (at, part) in text.split('`').enumerate() {
        let bold = at % 2 == 1;
        let _ = if bold {
            write!(escaped, "\\fB{part}\\fR")
        } else {
            write!(escaped, "{part}")
        };
    }
    if escaped.starts_with(['.', '\'']) {
        escaped.insert_str(0, "\\&");
    }
    escaped
}

fn blocks() -> Vec<Block> {
    let mut blocks = vec![Block::Text(INTRODUCTION.to_owned())];
    describe(&mut blocks, "", &read::shape());
    let variables = Template::VARIABLES.iter();
    let rows = variables.map(|(name, _, doc)| (format!("{{{name}}}"), (*doc).to_owned()));
    let rows = rows.chain([("{id}".to_owned(), ID.to_owned())]);
    blocks.extend([
        Block::Heading("Templates".to_owned()),
        Block::Text(TEMPLATES.to_owned()),
        Block::Table(["variable", "value"], rows.collect()),
        Block::Heading("JSON pointers".to_owned()),
        Block::Text(POINTERS.to_owned()),
    ]);
    blocks
}

/// Adds the tables within a value at `path`, each with its keys.
fn describe(blocks: &mut Vec<Block>, path: &str, shape: &Shape) {
    for part in &shape.parts {
        let path = format!("{path}{}", part.path);
        let path = path.trim_start_matches('.');
        if part.keys.is_empty() {
            continue;
        }
        blocks.push(Block::Heading(match path {
            "" => "Top level".to_owned(),
            _ => heading(path),
        }));
        if !part.doc.is_empty() {
            blocks.push(Block::Text(part.doc.clone()));
        }
        for key in &part.keys {
            describe_key(blocks, key);
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

fn describe_key(blocks: &mut Vec<Block>, key: &Key) {
    let presence = match &key.need {
        Need::Required => "required".to_owned(),
        Need::Default(default) => format!("default `{}`", written(default)),
        Need::Optional => "optional".to_owned(),
    };
    let former = key.former.map_or_else(String::new, |former| {
        format!(" Its former name `{former}` is still accepted.")
    });
    let example = format!("`{} = {}`", key.name, written(&key.example));
    blocks.push(Block::Key(
        key.name.to_owned(),
        format!("{}; {presence}", key.shape.label),
        format!("{}{former} Example: {example}", key.doc),
    ));
    if key.shape.words.len() > 1 {
        let words = key.shape.words.iter();
        let rows = words.map(|(word, doc)| (format!("\"{word}\""), (*doc).to_owned()));
        blocks.push(Block::Table(["value", "meaning"], rows.collect()));
    }
}
