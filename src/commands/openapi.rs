//! `ingest init --openapi FILE --call GET:/things`: a first draft of a configuration from a description of an API, OpenAPI 3 or
//! Google discovery. A description says neither how pages follow each other nor what the quota is: each guess is marked.

use std::fmt::Write;

use serde_json::Value;

use super::Error;

/// Names of parameters and members, in lower case without marks between words, the likeliest first.
const CURSORS: [&str; 9] = [
    "cursor",
    "pagetoken",
    "startingafter",
    "after",
    "nexttoken",
    "startcursor",
    "continuationtoken",
    "marker",
    "nextcursor",
];
const NEXTS: [&str; 8] = [
    "nextcursor",
    "nextpagetoken",
    "nexttoken",
    "endcursor",
    "continuationtoken",
    "nextmarker",
    "next",
    "cursor",
];
const OFFSETS: [&str; 4] = ["offset", "skip", "start", "startindex"];
const PAGES: [&str; 4] = ["page", "pagenumber", "pageno", "pageindex"];
const SIZES: [&str; 8] = [
    "limit",
    "perpage",
    "pagesize",
    "maxresults",
    "count",
    "size",
    "top",
    "max",
];
const LISTS: [&str; 9] = [
    "data", "items", "results", "records", "values", "entries", "rows", "list", "hits",
];
const TEXTS: [&str; 7] = [
    "title",
    "name",
    "description",
    "summary",
    "text",
    "body",
    "subject",
];
/// The most columns that a draft has.
const COLUMNS: usize = 12;
/// How deep a response is searched.
const DEEPEST: usize = 3;
/// How many references lead from one to the next at most.
const REFERENCES: usize = 32;

/// A description with one of its methods.
struct Description<'a> {
    document: &'a Value,
    method: String,
    /// As it is described: `/things/{id}`.
    path: String,
    operation: &'a Value,
    /// Parameters of the path item, which its methods share.
    shared: Option<&'a Value>,
    is_discovery: bool,
}

struct Param {
    name: String,
    is_in_path: bool,
    is_required: bool,
    value: Option<String>,
    most: Option<u64>,
}

/// Returns the draft for a call such as `GET:/things`.
pub fn draft(text: &str, call: &str) -> Result<String, Error> {
    let document: Value = serde_json::from_str(text)
        .or_else(|_| serde_yaml_ng::from_str(text))
        .map_err(|error| {
            Error::Usage(format!("the description is neither JSON nor YAML: {error}"))
        })?;
    let (method, path) = call.split_once(':').ok_or_else(|| {
        Error::Usage(format!(
            "`{call}` is no call; write for example GET:/things"
        ))
    })?;
    let found = Description::find(&document, method, path);
    let found = found.ok_or_else(|| Error::Usage(unknown(&document, call)))?;
    Ok(found.text())
}

fn unknown(document: &Value, call: &str) -> String {
    let mut calls = Vec::new();
    for (path, item) in members(document, "paths") {
        let methods = item.as_object().into_iter().flatten();
        let methods = methods.filter(|(_, operation)| operation.get("responses").is_some());
        calls.extend(methods.map(|(method, _)| format!("{}:{path}", method.to_uppercase())));
    }
    discovered(document, &mut |method| {
        let (method, path) = (text(method, "httpMethod"), text(method, "path"));
        calls.push(format!("{method}:/{path}"));
    });
    if calls.is_empty() {
        return "the file describes no call; expected OpenAPI 3 or a Google discovery document"
            .to_owned();
    }
    format!(
        "the description has no call {call}; it has {}",
        calls.join(", ")
    )
}

/// Visits the methods of a discovery document.
fn discovered<'a>(resource: &'a Value, visit: &mut impl FnMut(&'a Value)) {
    members(resource, "methods").for_each(|(_, method)| visit(method));
    members(resource, "resources").for_each(|(_, inner)| discovered(inner, visit));
}

/// The members of an object that is a member of another one; none where it is missing.
fn members<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    let object = value.get(key).and_then(Value::as_object);
    object.into_iter().flatten()
}

/// The text of a member; empty where it is missing.
fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// A name in lower case without marks.
fn lower_letters(name: &str) -> String {
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    letters.map(|letter| letter.to_ascii_lowercase()).collect()
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// A name as a key of TOML and of a template: letters, digits and `_`.
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
        // In a template these names have a meaning of their own.
        "region" | "ids" | "cursor" | "now" | "since" | "date" | "secret" => {
            format!("{name}_value")
        }
        name => name.to_owned(),
    }
}

impl<'a> Description<'a> {
    fn find(document: &'a Value, method: &str, path: &str) -> Option<Self> {
        let wanted = path.trim_start_matches('/');
        let mut paths = members(document, "paths");
        if let Some((path, item)) = paths.find(|(path, _)| path.trim_start_matches('/') == wanted) {
            let operation = item.get(method.to_ascii_lowercase())?;
            return Some(Self {
                document,
                method: method.to_ascii_uppercase(),
                path: path.clone(),
                operation,
                shared: item.get("parameters"),
                is_discovery: false,
            });
        }
        let mut found = None;
        discovered(document, &mut |operation| {
            let is_path = [text(operation, "path"), text(operation, "flatPath")].contains(&wanted);
            if is_path && text(operation, "httpMethod").eq_ignore_ascii_case(method) {
                found = Some(operation);
            }
        });
        found.map(|operation| Self {
            document,
            method: method.to_ascii_uppercase(),
            path: format!("/{wanted}"),
            operation,
            shared: None,
            is_discovery: true,
        })
    }

    /// A value, or what it refers to.
    fn resolved(&self, value: &'a Value) -> &'a Value {
        let mut value = value;
        for _ in 0..REFERENCES {
            let Some(reference) = value.get("$ref").and_then(Value::as_str) else {
                break;
            };
            let pointer = match reference.strip_prefix('#') {
                Some(pointer) => pointer.to_owned(),
                None => format!("/schemas/{reference}"),
            };
            match self.document.pointer(&pointer) {
                Some(found) => value = found,
                None => break,
            }
        }
        value
    }

    /// The properties of an object's schema, those of the parts of `allOf` included.
    fn properties(&self, schema: &'a Value) -> Vec<(&'a str, &'a Value)> {
        let schema = self.resolved(schema);
        let parts = schema.get("allOf").and_then(Value::as_array);
        let parts = parts.into_iter().flatten();
        // One level of parts is enough, and ends for schemas that refer to themselves.
        let parts = parts.map(|part| self.resolved(part));
        std::iter::once(schema)
            .chain(parts)
            .flat_map(|schema| members(schema, "properties"))
            .map(|(name, schema)| (name.as_str(), self.resolved(schema)))
            .collect()
    }

    fn base_url(&self) -> (String, bool) {
        let text = |pointer: &str| self.document.pointer(pointer).and_then(Value::as_str);
        if self.is_discovery {
            let root = text("/rootUrl").unwrap_or("https://example.googleapis.com/");
            return (
                format!("{root}{}", text("/servicePath").unwrap_or_default()),
                false,
            );
        }
        let mut url = text("/servers/0/url").unwrap_or_default().to_owned();
        let variables = self
            .document
            .pointer("/servers/0/variables")
            .and_then(Value::as_object);
        for (name, variable) in variables.into_iter().flatten() {
            let value = variable
                .get("default")
                .and_then(Value::as_str)
                .unwrap_or_default();
            url = url.replace(&format!("{{{name}}}"), value);
        }
        if url.starts_with("https://") && !url.contains('{') {
            return (url, false);
        }
        let path = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
        match url.contains("://") && !url.contains('{') {
            true => (format!("https://{path}"), true),
            false => (
                format!(
                    "https://api.example.com/{}",
                    path.trim_start_matches('/').replace(['{', '}'], "")
                ),
                true,
            ),
        }
    }

    fn params(&self) -> Vec<Param> {
        let lists = [self.shared, self.operation.get("parameters")]
            .into_iter()
            .flatten();
        let mut all = Vec::new();
        for list in lists {
            let of_list = list
                .as_array()
                .into_iter()
                .flatten()
                .map(|param| (None, param));
            let named = list.as_object().into_iter().flatten();
            let named = named.map(|(name, param)| (Some(name.as_str()), param));
            for (name, param) in of_list.chain(named) {
                let param = self.resolved(param);
                let place = ["in", "location"]
                    .iter()
                    .find_map(|key| param.get(key)?.as_str());
                let name = name.or(param.get("name").and_then(Value::as_str));
                if let (Some(name), Some("query" | "path")) = (name, place) {
                    all.push(self.param(name, place == Some("path"), param));
                }
            }
        }
        all
    }

    fn param(&self, name: &str, is_in_path: bool, param: &'a Value) -> Param {
        let schema = param
            .get("schema")
            .map_or(param, |schema| self.resolved(schema));
        let text = |value: &Value| match value {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            Value::Bool(truth) => Some(truth.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        };
        let value = param
            .get("example")
            .or(schema.get("example"))
            .or(schema.get("default"));
        let value = value.or(schema.pointer("/enum/0"));
        let most = schema.get("maximum").or(schema.get("default"));
        let most = most.and_then(|most| most.as_u64().or_else(|| most.as_str()?.parse().ok()));
        Param {
            name: name.to_owned(),
            is_in_path,
            is_required: param.get("required").and_then(Value::as_bool) == Some(true),
            value: value.and_then(text),
            most: most.filter(|most| *most > 0),
        }
    }

    fn response(&self) -> Option<&'a Value> {
        if self.is_discovery {
            return self
                .operation
                .get("response")
                .map(|schema| self.resolved(schema));
        }
        let responses = self.operation.get("responses")?.as_object()?;
        let success = responses.iter().find(|(status, _)| status.starts_with('2'));
        let (_, response) =
            success.or(responses.iter().find(|(status, _)| *status == "default"))?;
        let content = self.resolved(response).get("content")?.as_object()?;
        let json = content.iter().find(|(media, _)| media.contains("json"));
        let (_, media) = json.or(content.iter().next())?;
        Some(self.resolved(media.get("schema")?))
    }

    /// The place of the records in a schema, and the schema of one.
    fn records(&self, schema: &'a Value, at: &str, depth: usize) -> Option<(String, &'a Value)> {
        if let Some(items) = schema.get("items") {
            let item = self.resolved(items);
            let is_object = !self.properties(item).is_empty();
            return (is_object || depth == 0).then(|| (at.to_owned(), item));
        }
        if depth > DEEPEST {
            return None;
        }
        let mut properties = self.properties(schema);
        let rank = |name: &str| {
            LISTS
                .iter()
                .position(|known| *known == lower_letters(name))
                .unwrap_or(LISTS.len())
        };
        properties.sort_by_key(|(name, schema)| (schema.get("items").is_none(), rank(name)));
        let mut inner = properties.into_iter();
        inner.find_map(|(name, schema)| {
            self.records(schema, &(at.to_owned() + &pointer(name)), depth + 1)
        })
    }

    /// The place of a member with one of these names, outside of lists.
    fn member(&self, schema: &'a Value, names: &[&str], at: &str, depth: usize) -> Option<String> {
        let properties = self.properties(schema);
        let named = names.iter().find_map(|wanted| {
            let found = properties.iter().find(|(name, schema)| {
                lower_letters(name) == *wanted
                    && schema.get("items").is_none()
                    && schema.get("properties").is_none()
            });
            found.map(|(name, _)| format!("{at}/{name}"))
        });
        if named.is_some() || depth >= DEEPEST {
            return named;
        }
        let mut inner = properties
            .into_iter()
            .filter(|(_, schema)| schema.get("items").is_none());
        inner.find_map(|(name, schema)| {
            self.member(schema, names, &format!("{at}/{name}"), depth + 1)
        })
    }

    /// The keys of `page`, as far as the names say.
    fn page(
        &self,
        params: &[Param],
        schema: Option<&'a Value>,
        records_at: &str,
    ) -> Option<String> {
        let named = |names: &[&str]| {
            let find = |wanted: &&str| {
                params
                    .iter()
                    .find(|param| !param.is_in_path && lower_letters(&param.name) == *wanted)
            };
            names.iter().find_map(find)
        };
        let member = |names: &[&str]| schema.and_then(|schema| self.member(schema, names, "", 0));
        let size = named(&SIZES).map(|param| (param.name.clone(), param.most.unwrap_or(100)));
        let sized = size
            .as_ref()
            .map(|(name, most)| format!(", size_param = {}, size = {most}", quoted(name)));
        let sized = sized.unwrap_or_default();
        let more = member(&["hasmore", "hasnextpage", "more"]).filter(|at| *at != records_at);
        let more = more.map_or_else(String::new, |at| format!(", more = {}", quoted(&at)));
        if let Some(param) = named(&CURSORS) {
            let lead = match member(&NEXTS) {
                // `starting_after` takes the id of the last record and no token, as Stripe's does.
                Some(next) if lower_letters(&param.name) != "startingafter" => {
                    format!("next = {}", quoted(&next))
                }
                _ => "last = \"/id\"".to_owned(),
            };
            return Some(format!(
                "kind = \"token\", param = {}, {lead}{more}{sized}",
                quoted(&param.name)
            ));
        }
        if let (Some(param), true) = (named(&OFFSETS), size.is_some()) {
            let total = member(&["total", "totalcount", "totalresults", "count", "totalitems"]);
            let total = total.map_or_else(String::new, |at| format!(", total = {}", quoted(&at)));
            return Some(format!(
                "kind = \"offset\", param = {}{total}{sized}",
                quoted(&param.name)
            ));
        }
        if let Some(param) = named(&PAGES) {
            return Some(format!(
                "kind = \"number\", param = {}{more}{sized}",
                quoted(&param.name)
            ));
        }
        let next = member(&[
            "next",
            "nexturl",
            "nextlink",
            "nextpageurl",
            "odatanextlink",
        ])?;
        Some(format!(
            "kind = \"next_url\", next = {}{sized}",
            quoted(&next)
        ))
    }

    /// The keys of the upstream's `auth` and of the credential's secret.
    fn auth(&self) -> (String, bool) {
        if self.is_discovery {
            return ("auth = { bearer = true }".to_owned(), true);
        }
        let required = self
            .operation
            .get("security")
            .or(self.document.get("security"));
        let name = required.and_then(|all| all.get(0)?.as_object()?.keys().next());
        let schemes = self.document.pointer("/components/securitySchemes");
        let schemes = schemes.and_then(Value::as_object);
        let scheme = schemes.and_then(|schemes| match name {
            Some(name) => schemes.get(name),
            None => schemes.values().next(),
        });
        let Some(scheme) = scheme.map(|scheme| self.resolved(scheme)) else {
            return ("auth = \"none\"".to_owned(), false);
        };
        let name = text(scheme, "name");
        let auth = match (
            text(scheme, "type"),
            text(scheme, "in"),
            text(scheme, "scheme").to_ascii_lowercase().as_str(),
        ) {
            ("apiKey", "query", _) => format!("auth = {{ query = {} }}", quoted(name)),
            ("apiKey", "header", _) => format!(
                "auth = {{ header = {} }}",
                quoted(&name.to_ascii_lowercase())
            ),
            ("http", _, "basic") => "auth = { basic = { user = \"{secret}\" } }".to_owned(),
            _ => "auth = { bearer = true }".to_owned(),
        };
        (auth, true)
    }

    /// The configuration.
    fn text(&self) -> String {
        let title = ["/info/title", "/title", "/name"]
            .iter()
            .find_map(|at| self.document.pointer(at)?.as_str());
        let title = title.unwrap_or("An API").replace('\n', " ");
        let (params, response) = (self.params(), self.response());
        let (base_url, is_guess) = self.base_url();
        let guess = |is_guess: bool, what: &str| {
            if is_guess {
                format!("# Guess: {what}\n")
            } else {
                String::new()
            }
        };
        let (auth, has_secret) = self.auth();
        let mut text = format!(
            "# {title}: a first draft from its description, for {} {}.\n#\n# A line that begins with \"Guess\" says what the \
            description does not: compare it with the documentation, then run\n# `ingest try api list`, which shows what a \
            response lacks.\n\n",
            self.method, self.path
        );
        let in_path: Vec<&Param> = params.iter().filter(|param| param.is_in_path).collect();
        if !in_path.is_empty() {
            text.push_str("# Guess: a region is what the path names. Write one table for each.\n[regions.first]\n");
            for param in &in_path {
                let value = param.value.clone().unwrap_or_else(|| "1".to_owned());
                let _ = writeln!(text, "{} = {}", key(&param.name), quoted(&value));
            }
            text.push('\n');
        }
        let _ = write!(
            text,
            "[upstreams.api]\n{}base_url = {}\n{}{auth}\n\
            # Guess: the meaning of refusals. Others are classified by their status.\nerrors = [{{ status = 429, class = \"slow_down\" }}]\n\n",
            guess(is_guess, "the description has no complete https address."),
            quoted(&base_url),
            guess(has_secret, "how a request carries the secret."),
        );
        self.write_call(&mut text, &params, response);
        let _ = write!(
            text,
            "\n[credentials.api]\nupstream = \"api\"\n{}\n[credentials.api.limits]\n# Guess: the quota. Write what your plan grants, \
            and for how long.\ndaily = {{ quota = 1_000, window = \"24h\" }}\n\n[jobs.list]\ncredential = \"api\"\nevery = \"1d\"\n\n\
            [[jobs.list.steps]]\ncall = \"list\"\n",
            if has_secret {
                "secret = { env = \"API_KEY\" }\n"
            } else {
                ""
            },
        );
        text
    }

    fn write_call(&self, text: &mut String, params: &[Param], response: Option<&'a Value>) {
        // Google writes `{+name}` where a value keeps its slashes (RFC 6570).
        let mut path = self.path.trim_start_matches('/').replace("{+", "{");
        for param in params.iter().filter(|param| param.is_in_path) {
            path = path.replace(
                &format!("{{{}}}", param.name),
                &format!("{{{}}}", key(&param.name)),
            );
        }
        let _ = writeln!(text, "[upstreams.api.calls.list]\npath = {}", quoted(&path));
        if self.method != "GET" {
            let _ = writeln!(text, "method = {}", quoted(&self.method));
        }
        text.push_str("# Guess: what a request costs.\ncost = 1\n");
        if self.operation.get("requestBody").is_some() || self.operation.get("request").is_some() {
            text.push_str("# Guess: the body. Write what the call requires.\njson = {}\n");
        }
        let found = response.and_then(|schema| self.records(schema, "", 0));
        let (at, item) =
            found.map_or_else(|| (String::new(), response), |(at, item)| (at, Some(item)));
        let page = self.page(params, response, &at);
        let turned = page.clone().unwrap_or_default();
        let needed = params
            .iter()
            .filter(|param| param.is_required && !param.is_in_path);
        let needed: Vec<&Param> = needed
            .filter(|param| !turned.contains(&quoted(&param.name)))
            .collect();
        if !needed.is_empty() {
            text.push_str("# Guess: values of the parameters that the call requires.\n");
            let value = |param: &&Param| {
                let value = param
                    .value
                    .clone()
                    .unwrap_or_default()
                    .replace('{', "{{")
                    .replace('}', "}}");
                format!("{} = {}", quoted(&param.name), quoted(&value))
            };
            let values: Vec<String> = needed.iter().map(value).collect();
            let _ = writeln!(text, "params = {{ {} }}", values.join(", "));
        }
        match page {
            Some(page) => {
                let _ = writeln!(text, "# Guess: how pages follow each other, by the names of parameters and members.\npage = {{ {page} }}");
            }
            None => text.push_str("# Guess: one page is the whole list; the description names no parameter for pages.\n"),
        }
        self.write_records(text, &at, item);
    }

    fn write_records(&self, text: &mut String, at: &str, item: Option<&'a Value>) {
        let properties = item.map(|item| self.properties(item)).unwrap_or_default();
        let scalars: Vec<_> = properties
            .into_iter()
            .filter_map(|(name, schema)| Some((name, type_of(schema)?)))
            .collect();
        let ids = ["id", "uuid", "guid", "key", "name", "url"];
        let id = ids.iter().find_map(|wanted| {
            scalars
                .iter()
                .find(|(name, _)| lower_letters(name) == *wanted)
        });
        let id = id.or_else(|| {
            scalars
                .iter()
                .find(|(name, _)| lower_letters(name).ends_with("id"))
        });
        let id = id.map_or("id", |(name, _)| name);
        let last = self
            .path
            .rsplit('/')
            .find(|part| !part.is_empty() && !part.contains('{'));
        let kind = key(last.unwrap_or("thing"));
        let kind = kind
            .strip_suffix('s')
            .filter(|kind| !kind.is_empty())
            .unwrap_or(&kind);
        let texts = scalars
            .iter()
            .filter(|(name, _)| TEXTS.contains(&lower_letters(name).as_str()));
        let texts: Vec<String> = texts.map(|(name, _)| quoted(&pointer(name))).collect();
        let _ = write!(
            text,
            "\n# Guess: where the records are, what identifies one, its texts and its columns.\n[upstreams.api.calls.list.records]\n\
            at = {}\nkind = {}\nid = {}\ntext = [{}]\n\n[upstreams.api.calls.list.records.columns]\n",
            quoted(at),
            quoted(kind),
            quoted(&pointer(id)),
            texts.join(", ")
        );
        let columns = scalars.iter().filter(|(name, _)| *name != id).take(COLUMNS);
        for (name, kind) in columns {
            let _ = writeln!(
                text,
                "{} = {{ at = {}, type = \"{kind}\" }}",
                key(name),
                quoted(&pointer(name))
            );
        }
    }
}

fn pointer(name: &str) -> String {
    format!("/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// The type of a column for a schema; `None` if its values are lists or objects.
fn type_of(schema: &Value) -> Option<&'static str> {
    let kind = match schema.get("type") {
        // OpenAPI 3.1 may list "null" too.
        Some(Value::Array(kinds)) => kinds
            .iter()
            .filter_map(Value::as_str)
            .find(|kind| *kind != "null"),
        other => other.and_then(Value::as_str),
    };
    match (kind?, text(schema, "format")) {
        ("integer", _) | ("string", "int64" | "uint64") => Some("integer"),
        ("number", _) => Some("real"),
        ("boolean", _) => Some("boolean"),
        ("string", "date" | "date-time" | "google-datetime") => Some("timestamp"),
        ("string", _) => Some("text"),
        _ => None,
    }
}
