//! The JSON schema of `quotas.toml`: of the types that serde reads, with their docstrings.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::Config;
use super::names::quoted;

/// The JSON Schema (draft 2020-12) of `quotas.toml`, for editors and for the manual.
pub fn schema() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|one| one.inline_subschemas = true);
    let root = settings.into_generator().into_root_schema_for::<Config>();
    let mut schema = root.to_value();
    tidy(&mut schema);
    if let Some(members) = schema.as_object_mut() {
        let description = "What ingest fetches, from where, and within which quota";
        members.insert("title".to_owned(), json!("quotas.toml"));
        members.insert("description".to_owned(), json!(description));
    }
    schema
}

/// TOML has no null, and a docstring ends with the key's example.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Array(elements) => elements.iter_mut().for_each(tidy),
        Value::Object(members) => {
            members.values_mut().for_each(tidy);
            without_null(members);
            // The largest number and the bits of Rust's types say nothing to a reader.
            if members.get("format").is_some_and(Value::is_string) {
                members.remove("format");
            }
            let described = members.get("description").and_then(Value::as_str);
            if let Some((description, example)) = described.map(with_example) {
                members.insert("description".to_owned(), description.into());
                members.extend(example.map(|example| ("examples".to_owned(), json!([example]))));
            }
            require_filled(members);
        }
        _ => {}
    }
}

fn without_null(members: &mut Map<String, Value>) {
    let null = json!("null");
    if members.get("default") == Some(&Value::Null) {
        members.remove("default");
    }
    if let Some(Value::Array(types)) = members.get_mut("type") {
        types.retain(|one| *one != null);
        if let [only] = types.as_slice() {
            let only = only.clone();
            members.insert("type".to_owned(), only);
        }
    }
    let Some(Value::Array(either)) = members.get_mut("anyOf") else {
        return;
    };
    either.retain(|one| one.get("type") != Some(&null) && *one != false);
    if let [Value::Object(only)] = either.as_slice() {
        let only = only.clone();
        members.remove("anyOf");
        for (key, value) in only {
            members.entry(key).or_insert(value);
        }
    }
}

/// A docstring in one line, and the example with which it ends.
fn with_example(docstring: &str) -> (String, Option<Value>) {
    let text = docstring.replace('\n', " ");
    let Some((description, example)) = text.rsplit_once(" Example: `") else {
        return (text, None);
    };
    let table = toml::from_str::<toml::Table>(example.trim_end_matches(['`', '.'])).ok();
    let value = table.and_then(|table| table.into_iter().next());
    let example = value.and_then(|(_, value)| serde_json::to_value(value).ok());
    (description.to_owned(), example)
}

/// A table that must have an entry must be present.
fn require_filled(members: &mut Map<String, Value>) {
    let properties = members.get_mut("properties").and_then(Value::as_object_mut);
    let mut filled = Vec::new();
    for (key, value) in properties.into_iter().flatten() {
        if let Some(value) = value.as_object_mut()
            && value.contains_key("minProperties")
            && !value.contains_key("maxProperties")
        {
            value.remove("default");
            filled.push(Value::from(key.as_str()));
        }
    }
    let required = members.entry("required").or_insert_with(|| json!([]));
    if let Value::Array(required) = required {
        required.extend(filled);
    }
    members.retain(|key, value| key != "required" || *value != json!([]));
}

/// An example of the value at a path, as TOML, with the other words where it is one of some.
pub fn example(path: &[&str]) -> String {
    let schema = schema();
    let Some(found) = find(&schema, path) else {
        return "...".to_owned();
    };
    let example = example_of(found);
    let others: Vec<&str> = words(found)
        .filter(|(word, _)| *word != *example)
        .map(|(word, _)| word)
        .collect();
    match others.as_slice() {
        [] => inline(example),
        others => format!("{} (or one of {})", inline(example), others.join(", ")),
    }
}

/// The example of a value; null without one.
pub fn example_of(schema: &Value) -> &Value {
    let example = schema.get("examples").and_then(|examples| examples.get(0));
    example.unwrap_or(&Value::Null)
}

/// What the schema says of the value at a path.
fn find<'s>(schema: &'s Value, path: &[&str]) -> Option<&'s Value> {
    let Some((key, rest)) = path.split_first() else {
        return Some(schema);
    };
    let property = schema
        .get("properties")
        .and_then(|properties| properties.get(key));
    let next = property.or_else(|| {
        schema
            .get("additionalProperties")
            .or_else(|| schema.get("items"))
    });
    let own = next.and_then(|next| find(next, rest));
    let either = schema.get("anyOf").and_then(Value::as_array);
    own.or_else(|| either?.iter().find_map(|schema| find(schema, path)))
}

/// The words that a value can be, each with its documentation.
pub fn words(schema: &Value) -> impl Iterator<Item = (&str, &str)> {
    let words = schema.get("oneOf").and_then(Value::as_array);
    words.into_iter().flatten().filter_map(|word| {
        let doc = word.get("description").and_then(Value::as_str);
        Some((word.get("const")?.as_str()?, doc.unwrap_or_default()))
    })
}

/// The words that the value at a path can be; none where it is no word.
pub fn words_at(path: &[&str]) -> Vec<String> {
    let schema = schema();
    let found = find(&schema, path).into_iter().flat_map(words);
    found.map(|(word, _)| word.to_owned()).collect()
}

/// A value as TOML, in one line.
pub fn inline(value: &Value) -> String {
    match value {
        Value::Array(values) => {
            let values: Vec<String> = values.iter().map(inline).collect();
            format!("[{}]", values.join(", "))
        }
        Value::Object(members) if members.is_empty() => "{}".to_owned(),
        Value::Object(members) => {
            let member =
                |(key, value): (&String, &Value)| format!("{} = {}", quoted(key), inline(value));
            let members: Vec<String> = members.iter().map(member).collect();
            format!("{{ {} }}", members.join(", "))
        }
        plain => plain.to_string(),
    }
}
