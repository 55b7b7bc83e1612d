//! The body of a request, rendered.

use std::fmt;

use serde_json::{Map, Value};
use url::form_urlencoded::Serializer;

use super::{Failure, PageRequest};
use ingest_config::{Body, Place, Template, Turn, Values, place_in_json};

/// A body as it is sent.
#[derive(Debug, Clone)]
pub enum RenderedBody {
    Json(Value),
    /// The fields in their order.
    Form(Vec<(String, String)>),
}

impl RenderedBody {
    pub const fn content_type(&self) -> &'static str {
        match self {
            Self::Json(_) => "application/json",
            Self::Form(_) => "application/x-www-form-urlencoded",
        }
    }

    /// The value for people: a form as text.
    pub fn shown(&self) -> Value {
        match self {
            Self::Json(value) => value.clone(),
            Self::Form(_) => Value::String(self.to_string()),
        }
    }

    /// The value of a paging parameter, as text.
    pub fn value_of(&self, param: &str) -> Option<String> {
        match self {
            Self::Json(value) => place_in_json(param)?.text_in(value),
            Self::Form(fields) => {
                let mut fields = fields.iter();
                let found = fields.find(|(name, _)| name == param);
                found.map(|(_, value)| value.clone())
            }
        }
    }

    /// Sets a paging parameter.
    fn set(&mut self, param: &str, value: Value) -> Option<()> {
        match self {
            Self::Json(document) => put(document, place_in_json(param)?.tokens(), value),
            Self::Form(fields) => {
                fields.retain(|(name, _)| name != param);
                fields.push((param.to_owned(), value_text(&value)));
                Some(())
            }
        }
    }
}

impl fmt::Display for RenderedBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(value) => write!(f, "{value}"),
            Self::Form(fields) => {
                let mut text = Serializer::new(String::new());
                f.write_str(&text.extend_pairs(fields).finish())
            }
        }
    }
}

/// The body of a request, with the page in it where it goes there. `text` renders its templates.
pub fn rendered<'a>(
    request: &PageRequest<'a>,
    turn: &Turn<'a>,
    text: &impl Fn(&Template, &Values<'_>) -> Result<String, Failure>,
) -> Result<Option<RenderedBody>, Failure> {
    let values = request.values();
    let body = match of_page(request, turn) {
        None => None,
        Some(Body::Json(json)) => Some(RenderedBody::Json(json.render(&values, text)?)),
        Some(Body::Form(params)) => {
            let mut fields = Vec::new();
            for (name, param) in params {
                let texts = param.render(&values, text)?;
                fields.extend(texts.into_iter().map(|text| (name.clone(), text)));
            }
            Some(RenderedBody::Form(fields))
        }
    };
    match turn.place {
        Place::Query => Ok(body),
        Place::Body => turned(request, turn, body).map(Some),
    }
}

/// The body as it is configured: behind the first page, a list can have another one.
fn of_page<'a>(request: &PageRequest<'a>, turn: &Turn<'a>) -> Option<&'a Body> {
    match turn.then {
        Some(then) => then.body.as_ref(),
        None => request.step.body.as_ref(),
    }
}

/// The body with the size of the page, unless it has one, and the cursor.
fn turned(
    request: &PageRequest<'_>,
    turn: &Turn<'_>,
    body: Option<RenderedBody>,
) -> Result<RenderedBody, Failure> {
    let mut body = body.unwrap_or_else(|| RenderedBody::Json(Value::Object(Map::new())));
    let size = turn
        .size
        .filter(|(param, _)| body.value_of(param).is_none())
        .map(|(param, size)| (param, Value::from(size)));
    for (param, value) in size.into_iter().chain(turn.cursor.clone()) {
        body.set(param, value).ok_or_else(|| {
            Failure::NotSent(format!(
                "the body of `{}` has no place for the parameter `{param}` of its `page`",
                request.step.call.name
            ))
        })?;
    }
    Ok(body)
}

/// Sets the value at a place, and creates the objects that lead there. `None` if something else is in the way.
fn put(document: &mut Value, tokens: &[String], value: Value) -> Option<()> {
    let Some((token, rest)) = tokens.split_first() else {
        *document = value;
        return Some(());
    };
    let next = match document {
        Value::Object(members) => {
            let absent = || match rest.is_empty() {
                true => Value::Null,
                false => Value::Object(Map::new()),
            };
            members.entry(token.as_str()).or_insert_with(absent)
        }
        Value::Array(elements) => elements.get_mut(token.parse::<usize>().ok()?)?,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
    };
    put(next, rest, value)
}

/// A value of a parameter, as it is sent: a text without its quotes.
pub fn value_text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}
