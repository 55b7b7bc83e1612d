//! The manual of `quotas.toml`, generated from the declarations that the reader uses: `docs/configuration.md`.

use serde_json::Value;

use ingest_config::schema::{example_of, inline, words};
use ingest_config::{SAYS, Template, schema};

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

const ALL_KEYS: &str = "## All keys\n\nA key that is not `required` may be left out. Each ends with an example; a word is one of those below it.\n";

/// Returns the contents and the keys as Markdown: what `docs/configuration.md` has below its guide.
pub fn markdown() -> String {
    let schema = schema();
    let mut manual = Manual::default();
    manual.describe("", &schema);
    manual.heading(&table_anchor("secrets"), "Secrets");
    manual.paragraph(SECRETS);
    if let Some(secret) = secret(&schema) {
        manual.keys("secrets", secret);
    }
    manual.heading(&table_anchor("templates"), "Templates");
    manual.paragraph(TEMPLATES);
    let variables = Template::VARIABLES.into_iter();
    manual.words(variables.map(|(name, _, doc)| (format!("{{{name}}}"), doc)));
    manual.heading(&table_anchor("pointers"), "JSON pointers");
    manual.paragraph(POINTERS);
    manual.heading(&table_anchor("durations"), "Durations");
    manual.paragraph(DURATIONS);
    manual.heading(&table_anchor("rules"), "What belongs together");
    manual.paragraph(&format!("{TOGETHER}\n\n{SAYS}"));
    format!("{ALL_KEYS}{}\n{}", manual.contents, manual.text)
}

/// The manual while it is written.
#[derive(Default)]
struct Manual {
    /// Every table with its keys.
    contents: String,
    text: String,
    /// Whether the last table has a key already.
    has_key: bool,
}

impl Manual {
    fn heading(&mut self, anchor: &str, heading: &str) {
        self.has_key = false;
        self.contents += &format!("\n- [{heading}](#{anchor})");
        self.text += &format!("\n<a id=\"{anchor}\"></a>\n\n## {heading}\n");
    }

    fn paragraph(&mut self, paragraph: &str) {
        self.text += &format!("\n{paragraph}\n");
    }

    /// Adds words, each with its meaning.
    fn words<'t>(&mut self, words: impl Iterator<Item = (String, &'t str)>) {
        for (word, meaning) in words {
            self.text += &format!("\n- `{word}`: {meaning}");
        }
        self.text.push('\n');
    }

    /// Adds the tables within a value at `path`, each with its keys.
    fn describe(&mut self, path: &str, schema: &Value) {
        if is_secret(schema) || DESCRIBED.contains(&path) {
            return;
        }
        if let Some(properties) = schema["properties"].as_object() {
            let heading = match path {
                "" => "Top level".to_owned(),
                _ => format!("`{path}`"),
            };
            self.heading(&table_anchor(path), &heading);
            self.keys(path, schema);
            for (key, value) in properties {
                let path = format!("{path}.{key}");
                self.describe(path.trim_start_matches('.'), value);
            }
        }
        if schema["additionalProperties"].is_object() {
            let key = path.rsplit('.').next().unwrap_or_default();
            let name = NAMES.iter().find(|(table, _)| *table == key);
            let name = name.map_or("NAME", |(_, name)| name);
            self.describe(&format!("{path}.{name}"), &schema["additionalProperties"]);
        }
        if schema["items"].is_object() {
            self.describe(&format!("{path}[]"), &schema["items"]);
        }
        for schema in schema["anyOf"].as_array().into_iter().flatten() {
            self.describe(path, schema);
        }
    }

    /// Adds the keys of a table.
    fn keys(&mut self, path: &str, table: &Value) {
        let required = table["required"].as_array();
        let is_required =
            |key: &str| required.is_some_and(|keys| keys.iter().any(|one| one == key));
        let path = if path.is_empty() { TOP } else { path };
        for (key, schema) in table["properties"].as_object().into_iter().flatten() {
            let presence = match schema.get("default") {
                _ if is_required(key) => "; required".to_owned(),
                Some(default) => format!("; default `{}`", inline(default)),
                None => String::new(),
            };
            let about = schema["description"].as_str().unwrap_or_default();
            let (of, example) = (label(schema), inline(example_of(schema)));
            let anchor = format!("{}.{key}", in_anchors(path));
            let between = if self.has_key { ", " } else { ": " };
            self.has_key = true;
            self.contents += &format!("{between}[{key}](#{anchor})");
            self.text += &format!(
                "\n<a id=\"{anchor}\"></a>**`{key}`** ({of}{presence}): {about} `{key} = {example}`\n"
            );
            let words = words_within(schema);
            if words.len() > 1 {
                let words = words.into_iter();
                self.words(words.map(|(word, doc)| (format!("\"{word}\""), doc)));
            }
        }
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
