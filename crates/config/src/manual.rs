//! The manual of `quotas.toml`, generated from the declarations that the reader uses: `docs/configuration.md`.

use std::fmt::Write;

use serde_json::Value;

use super::Template;
use super::check::SAYS;
use super::schema::{example_of, inline, schema, words};

const TEMPLATES: &str = "A template is a string in which `{variables}` are replaced for each request. A literal brace is \
    written twice: `{{` and `}}`. A variable in doubled braces is rejected as a mistake. A name that is not in this list is \
    a value of the region. In a path and in the query, the value of \
    a variable is percent-encoded: write it as it is, `sc-domain:example.com`, not `sc-domain%3Aexample.com`. So are slashes in \
    a path, unless it has `{id:path}`, `{NAME:path}` or `{parent:/full_name:path}`.";
const DURATIONS: &str = "A duration is a whole number with its unit, or several: `\"250ms\"`, `\"24h\"`, `\"1h 30min\"`. Units: \
    `us`, `ms`, `s`, `m` (minutes), `h`, `d`, `w`, `M` (months of 30.44 days) and `y` (365.25 days).";
const POINTERS: &str = "A JSON pointer (RFC 6901) names a place in a response: `/items/0/id`. The token `*` stands for every \
    element of a list and for every member of an object: `/items/*/id`. In a token, `~1` stands for `/` and `~0` for `~`. An empty \
    pointer is the whole response.";

/// Tables whose keys are those of another one, which describes them.
const DESCRIBED: [&str; 2] = [
    "upstreams.NAME.calls.CALL.errors[]",
    "upstreams.NAME.calls.CALL.page.then.graphql",
];

const SECRETS: &str = "A secret is never in this file, but in one of these places: a table with exactly one of the keys.";

const TOGETHER: &str =
    "Beside each value by itself, these rules are checked whenever the file is read:";

/// What the manual calls the names that the file chooses, by the key of their table.
const NAMES: [(&str, &str); 6] = [
    ("regions", "CODE"),
    ("calls", "CALL"),
    ("limits", "LIMIT"),
    ("settle", "LIMIT"),
    ("columns", "COLUMN"),
    ("params", "PARAM"),
];

/// The path of what is in no table, in anchors.
const TOP: &str = "top";

/// One element of the manual.
enum Block {
    /// The anchor, and the text.
    Heading(String, String),
    Text(String),
    Key(ManualEntry),
    /// Words, each with its meaning.
    Words(Vec<(String, String)>),
}

/// A key of a table.
struct ManualEntry {
    anchor: String,
    name: String,
    /// Its type and its default.
    of: String,
    text: String,
}

/// Returns the contents and the keys as Markdown: what `docs/configuration.md` has below its guide.
#[must_use]
pub fn markdown() -> String {
    let blocks = blocks();
    let mut text = contents(&blocks);
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
            Block::Words(words) => words
                .iter()
                .try_for_each(|(word, meaning)| write!(text, "\n- `{word}`: {meaning}"))
                .and_then(|()| writeln!(text)),
        };
    }
    text
}

/// The table of contents: every table with its keys.
fn contents(blocks: &[Block]) -> String {
    let mut text =
        "## All keys\n\nA key that is not `required` may be left out. Each ends with an example; a word is one of those below it.\n"
            .to_owned();
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
            Block::Text(_) | Block::Words(_) => Ok(()),
        };
    }
    text + "\n"
}

fn blocks() -> Vec<Block> {
    let (mut blocks, schema) = (Vec::new(), schema());
    describe(&mut blocks, "", &schema);
    blocks.extend([
        Block::Heading(table_anchor("secrets"), "Secrets".to_owned()),
        Block::Text(SECRETS.to_owned()),
    ]);
    if let Some(secret) = secret(&schema) {
        keys(&mut blocks, "secrets", secret);
    }
    let variables = Template::VARIABLES.into_iter();
    let rows = variables.map(|(name, _, doc)| (format!("{{{name}}}"), doc.to_owned()));
    blocks.extend([
        Block::Heading(table_anchor("templates"), "Templates".to_owned()),
        Block::Text(TEMPLATES.to_owned()),
        Block::Words(rows.collect()),
        Block::Heading(table_anchor("pointers"), "JSON pointers".to_owned()),
        Block::Text(POINTERS.to_owned()),
        Block::Heading(table_anchor("durations"), "Durations".to_owned()),
        Block::Text(DURATIONS.to_owned()),
        Block::Heading(table_anchor("rules"), "What belongs together".to_owned()),
        Block::Text(format!("{TOGETHER}\n\n{SAYS}")),
    ]);
    blocks
}

/// Adds the tables within a value at `path`, each with its keys.
fn describe(blocks: &mut Vec<Block>, path: &str, schema: &Value) {
    if is_secret(schema) || DESCRIBED.contains(&path) {
        return;
    }
    if let Some(properties) = schema["properties"].as_object() {
        let heading = match path {
            "" => "Top level".to_owned(),
            _ => format!("`{path}`"),
        };
        blocks.push(Block::Heading(table_anchor(path), heading));
        keys(blocks, path, schema);
        for (key, value) in properties {
            let path = format!("{path}.{key}");
            describe(blocks, path.trim_start_matches('.'), value);
        }
    }
    if schema["additionalProperties"].is_object() {
        let key = path.rsplit('.').next().unwrap_or_default();
        let name = NAMES.iter().find(|(table, _)| *table == key);
        let name = name.map_or("NAME", |(_, name)| name);
        describe(
            blocks,
            &format!("{path}.{name}"),
            &schema["additionalProperties"],
        );
    }
    describe_if_present(blocks, &format!("{path}[]"), &schema["items"]);
    for schema in schema["anyOf"].as_array().into_iter().flatten() {
        describe(blocks, path, schema);
    }
}

fn describe_if_present(blocks: &mut Vec<Block>, path: &str, schema: &Value) {
    if schema.is_object() {
        describe(blocks, path, schema);
    }
}

/// Whether a table says where a secret is.
fn is_secret(schema: &Value) -> bool {
    let properties = &schema["properties"];
    ["env", "file", "credential", "command"]
        .iter()
        .all(|key| properties.get(key).is_some())
}

/// The first table that says where a secret is.
fn secret(schema: &Value) -> Option<&Value> {
    match schema {
        Value::Object(_) if is_secret(schema) => Some(schema),
        Value::Object(members) => members.values().find_map(secret),
        Value::Array(elements) => elements.iter().find_map(secret),
        _ => None,
    }
}

/// The anchor of a table, which differs from that of the key that is the table.
fn table_anchor(path: &str) -> String {
    let path = if path.is_empty() { TOP } else { path };
    format!("table.{}", in_anchors(path))
}

fn in_anchors(path: &str) -> String {
    path.replace(['[', ']'], "")
}

/// Adds the keys of a table.
fn keys(blocks: &mut Vec<Block>, path: &str, table: &Value) {
    let required = table["required"].as_array();
    let is_required = |key: &str| required.is_some_and(|keys| keys.iter().any(|one| one == key));
    let path = if path.is_empty() { TOP } else { path };
    for (key, schema) in table["properties"].as_object().into_iter().flatten() {
        let presence = match schema.get("default") {
            _ if is_required(key) => "; required".to_owned(),
            Some(default) => format!("; default `{}`", inline(default)),
            None => String::new(),
        };
        let about = schema["description"].as_str().unwrap_or_default();
        let example = inline(example_of(schema));
        blocks.push(Block::Key(ManualEntry {
            anchor: format!("{}.{key}", in_anchors(path)),
            name: key.clone(),
            of: format!("{}{presence}", label(schema)),
            text: format!("{about} `{key} = {example}`"),
        }));
        let words: Vec<_> = words_within(schema)
            .into_iter()
            .map(|(word, doc)| (format!("\"{word}\""), doc.to_owned()))
            .collect();
        if words.len() > 1 {
            blocks.push(Block::Words(words));
        }
    }
}

/// The words that a value, or an element of it, can be.
fn words_within(schema: &Value) -> Vec<(&str, &str)> {
    let mut found: Vec<_> = words(schema).collect();
    if schema["items"].is_object() {
        found.extend(words(&schema["items"]));
    }
    found
}

/// The type of a value, as the manual calls it.
fn label(schema: &Value) -> String {
    if is_secret(schema) {
        return "[secret](#table.secrets)".to_owned();
    }
    if let Some(title) = schema["title"].as_str() {
        return title.to_owned();
    }
    if let Some(either) = schema["anyOf"].as_array() {
        let either: Vec<String> = either.iter().map(label).collect();
        return either.join(", or ");
    }
    if words(schema).next().is_some() {
        return "word".to_owned();
    }
    match schema["type"].as_str() {
        Some("object") if schema["additionalProperties"].is_object() => {
            match label(&schema["additionalProperties"]).as_str() {
                "table" => "tables by name".to_owned(),
                label => format!("table by name of: {label}"),
            }
        }
        Some("object") => "table".to_owned(),
        Some("array") => format!("list of: {}", label(&schema["items"])),
        Some("boolean") => "true or false".to_owned(),
        other => other.unwrap_or("value").to_owned(),
    }
}
