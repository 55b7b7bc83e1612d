//! `ingest init --answer FILE`: a first draft of a configuration from a saved response. It shows where the records are, what
//! identifies them and how it names the next page; whatever it cannot show is a guess, and marked so.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::Error;
use ingest_base::bounded;
use ingest_base::saved_response::SavedResponse;
use ingest_config::{ColumnType, Format};
use ingest_upstream::{NextPlace, Outline, outline};

/// The most columns of a draft.
const COLUMNS: usize = 8;
/// Names of members that identify a record, in lower case without marks between words, the likeliest first.
const IDS: [&str; 8] = ["id", "uuid", "guid", "key", "sku", "code", "slug", "url"];
const TEXTS: [&str; 7] = [
    "title",
    "name",
    "description",
    "summary",
    "text",
    "body",
    "subject",
];
/// Names of lists that say nothing of their records.
const GENERAL: [&str; 9] = [
    "data", "items", "results", "records", "values", "entries", "rows", "list", "hits",
];

/// Returns the configuration for the response in a file, or on stdin.
///
/// # Errors
/// The response cannot be read, or has no record.
pub fn draft(file: &Path) -> Result<String, Error> {
    let what = format!("cannot read the saved response {}", file.display());
    let saved = match file == Path::new("-") {
        true => {
            let bytes = bounded::bytes(std::io::stdin().lock(), bounded::DOCUMENT);
            bytes.map(|bytes| SavedResponse::parse(&bytes))
        }
        false => SavedResponse::read(file),
    };
    let outline = outline(&saved.map_err(Error::io(what))?);
    let outline = outline.map_err(|why| Error::Usage(format!("{}: {why}", file.display())))?;
    Ok(text(&outline))
}

fn text(outline: &Outline) -> String {
    let members = members(&outline.records);
    let id = id(&outline.records, &members);
    let list = outline.at.tokens().last().map_or("things", |name| name);
    let (kind, path) = (kind(list), key(list));
    let format = match outline.format {
        Format::Json => String::new(),
        format => format!("format = {}\n", quoted(format.word())),
    };
    let texts = members
        .iter()
        .filter(|one| TEXTS.contains(&&*letters(&one.name)));
    let texts: Vec<String> = texts.map(|one| quoted(&one.at)).collect();
    let columns = members.iter().filter(|one| one.at != id).take(COLUMNS);
    let columns: Vec<String> = columns.map(Member::column).collect();
    format!(
        "# A first draft from a saved response. What stands below \"Guess\" the response does not show: compare it with the\n\
        # documentation, then run `ingest try api list --answer FILE`, which shows what this file reads, and what is missing.\n\n\
        [upstreams.api]\n\
        # Guess: the address of the API, to which the paths of its calls are joined.\n\
        base_url = \"https://api.example.com\"\n\
        # Guess: no secret. With one, write for example auth = {{ bearer = true }} or auth = {{ header = \"x-api-key\" }}, and in\n\
        # [credentials.api] where to read it: secret = {{ env = \"API_KEY\" }}.\n\
        auth = \"none\"\n\n\
        [upstreams.api.calls.list]\n\
        # Guess: the path, what a request costs, and no parameters: params = {{ name = \"value\" }} adds some.\n\
        path = {}\ncost = 1\n{}\n\
        [upstreams.api.calls.list.records]\n\
        # Guess: what kind of record it is, what identifies one, and its texts, by their names.\n\
        at = {}\nkind = {}\n{format}id = {}\ntext = [{}]\ncolumns = {{ {} }}\n\n\
        [credentials.api]\nupstream = \"api\"\n\
        # Guess: the quota. Write what your plan grants, and for how long.\n\
        limits = {{ daily = {{ quota = 1_000, window = \"24h\" }} }}\n\n\
        [jobs.list]\ncredential = \"api\"\n\
        # Guess: how often the list changes.\n\
        every = \"1d\"\nsteps = [{{ call = \"list\" }}]\n",
        quoted(&path),
        page(outline),
        quoted(outline.at.as_str()),
        quoted(&kind),
        quoted(&id),
        texts.join(", "),
        columns.join(", "),
    )
}

/// The key `page`, as far as the response shows it.
fn page(outline: &Outline) -> String {
    let more = outline
        .more
        .iter()
        .map(|at| format!(", more = {}", quoted(at)));
    let done = outline
        .done
        .iter()
        .map(|at| format!(", done = {}", quoted(at)));
    let flag: String = more.chain(done).take(1).collect();
    let size = outline.records.len();
    let guessed = |what: &str, page: &str| format!("# Guess: {what}\npage = {{ {page} }}\n");
    match (&outline.next, &outline.total) {
        (Some(NextPlace::Link), _) => "page = { kind = \"link\" }\n".to_owned(),
        (Some(NextPlace::Url(at)), _) => {
            format!(
                "page = {{ kind = \"next_url\", next = {}{flag} }}\n",
                quoted(at)
            )
        }
        (Some(NextPlace::Token(at)), _) => guessed(
            "the parameter that carries the token of the next page.",
            &format!(
                "kind = \"token\", param = {}, next = {}{flag}",
                quoted(&param(at)),
                quoted(at)
            ),
        ),
        (None, Some((at, total))) if *total > size as u64 => guessed(
            "the parameters that skip records and that request the size of a page, and that size.",
            &format!(
                "kind = \"offset\", param = \"offset\", size_param = \"limit\", size = {size}, total = {}",
                quoted(at)
            ),
        ),
        (None, _) => match outline.more.as_ref().or(outline.done.as_ref()) {
            Some(at) => format!(
                "# Without `page`, one page is the whole list. The response says at {} whether there is a next one: write how to request it.\n",
                quoted(at)
            ),
            None => {
                "# Guess: one page is the whole list; if there are more, write `page`.\n".to_owned()
            }
        },
    }
}

/// The parameter for a token that a response has at this place: `cursor` for `/next_cursor`.
fn param(at: &str) -> String {
    let name = at.rsplit('/').next().unwrap_or_default();
    let is_next = name
        .get(..4)
        .is_some_and(|start| start.eq_ignore_ascii_case("next"));
    let rest = if is_next { name.get(4..) } else { Some(name) };
    let rest = rest.unwrap_or_default().trim_start_matches(['_', '-']);
    let mut letters = rest.chars();
    match letters.next() {
        None => "cursor".to_owned(),
        Some(first) => first.to_lowercase().chain(letters).collect(),
    }
}

/// A member of records that is no list and no object.
struct Member {
    /// Its name, and those of the members around it.
    name: String,
    /// Its place.
    at: String,
    kind: Option<ColumnType>,
}

impl Member {
    /// Its column.
    fn column(&self) -> String {
        let (name, at) = (key(&self.name), quoted(&self.at));
        match self.kind {
            None => format!("{name} = {at}"),
            Some(kind) => format!("{name} = {{ at = {at}, type = \"{}\" }}", kind.name()),
        }
    }
}

/// The members of records that hold one value each, in their order. Names that columns would share are taken once.
fn members(records: &[Value]) -> Vec<Member> {
    let mut places: Vec<(Vec<&str>, Vec<&Value>)> = Vec::new();
    for record in records {
        let mut found = Vec::new();
        leaves(record, &mut Vec::new(), &mut found);
        for (path, value) in found {
            match places.iter_mut().find(|(known, _)| *known == path) {
                Some((_, values)) => values.push(value),
                None => places.push((path, vec![value])),
            }
        }
    }
    let mut names = BTreeSet::new();
    let members = places.into_iter().map(|(path, values)| Member {
        name: path.join("_"),
        at: path
            .iter()
            .map(|name| format!("/{}", escaped(name)))
            .collect(),
        kind: type_of(&values),
    });
    let once = members.filter(|one| names.insert(key(&one.name).to_ascii_lowercase()));
    once.collect()
}

/// The values in an object, and those in the objects within it.
fn leaves<'v>(
    value: &'v Value,
    path: &mut Vec<&'v str>,
    found: &mut Vec<(Vec<&'v str>, &'v Value)>,
) {
    match value {
        Value::Object(members) if path.len() < 2 => {
            for (name, member) in members.iter().filter(|(name, _)| *name != "*") {
                path.push(name);
                leaves(member, path, found);
                path.pop();
            }
        }
        Value::Object(_) | Value::Array(_) | Value::Null => {}
        Value::Bool(_) | Value::Number(_) | Value::String(_) => found.push((path.clone(), value)),
    }
}

/// The type that all values have; `None`: text.
fn type_of(values: &[&Value]) -> Option<ColumnType> {
    let all = |is: fn(&Value) -> bool| values.iter().all(|value| is(value));
    // A number with zeros before it is a code.
    let is_code = |value: &Value| {
        let text = value.as_str().unwrap_or_default().trim_start_matches('-');
        text.len() > 1 && text.starts_with('0') && !text.starts_with("0.")
    };
    if all(Value::is_boolean) {
        return Some(ColumnType::Boolean);
    }
    if values.iter().any(|value| is_code(value)) {
        return None;
    }
    if all(|value| ColumnType::Integer.fits(value)) {
        return Some(ColumnType::Integer);
    }
    if all(|value| ColumnType::Real.fits(value)) {
        return Some(ColumnType::Real);
    }
    all(|value| value.is_string() && ColumnType::Timestamp.fits(value))
        .then_some(ColumnType::Timestamp)
}

/// The place of what identifies a record: what is there in each one and differs, by its name; or else the first such place.
fn id(records: &[Value], members: &[Member]) -> String {
    let differs = |one: &&Member| {
        let values = records.iter().filter_map(|record| record.pointer(&one.at));
        let texts: BTreeSet<String> = values
            .filter(|value| !value.is_null())
            .map(Value::to_string)
            .collect();
        texts.len() == records.len()
    };
    let able: Vec<&Member> = members.iter().filter(differs).collect();
    let named = |wanted: &&str| able.iter().find(|one| letters(&one.name) == **wanted);
    let ends = able.iter().find(|one| letters(&one.name).ends_with("id"));
    let found = IDS.iter().find_map(named);
    let found = found.or(ends).or(able.first());
    found.map_or_else(|| "/id".to_owned(), |one| one.at.clone())
}

/// What one element of a list of this name is called.
fn kind(list: &str) -> String {
    if GENERAL.contains(&&*letters(list)) {
        return "thing".to_owned();
    }
    let name = key(list);
    match (name.strip_suffix("ies"), name.strip_suffix('s')) {
        (Some(stem), _) if !stem.is_empty() => format!("{stem}y"),
        (_, Some(stem)) if !stem.is_empty() && !stem.ends_with('s') => stem.to_owned(),
        _ => name,
    }
}

/// The letters and digits of a name, in lower case.
fn letters(name: &str) -> String {
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    letters.map(|letter| letter.to_ascii_lowercase()).collect()
}

/// A name as a key of TOML: letters, digits and `_`.
fn key(name: &str) -> String {
    let letter = |letter: char| {
        if letter.is_ascii_alphanumeric() {
            letter
        } else {
            '_'
        }
    };
    let name: String = name.chars().map(letter).collect();
    match name.trim_matches('_') {
        "" => "value".to_owned(),
        name => name.to_owned(),
    }
}

fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}
