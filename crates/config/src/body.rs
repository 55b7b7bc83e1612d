//! Parameters and bodies of requests: `params`, and `json`, `form` or `graphql`.

use std::collections::BTreeMap;
use std::slice;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use thiserror::Error;

use super::error::Refusal;
use super::values::{As, Leaf, OneOrMore, Table, Text, leaf, leaves};
use super::{Template, Values};

/// Parameters of a query or a form, by name.
pub type Params = BTreeMap<String, Param>;

/// Parameters of a call or a step, beside those that they override.
pub fn beside(all: &Params, own: Params) -> Params {
    all.clone().into_iter().chain(own).collect()
}

/// The value of a parameter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Param {
    /// The parameter occurs once.
    Once(Template),
    /// The parameter occurs once for each of these; for a template with `{ids}`, once for each id.
    Repeated(Vec<Template>),
}

/// The body of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Body {
    /// JSON; of GraphQL too.
    Json(JsonTemplate),
    /// A form, `application/x-www-form-urlencoded`.
    Form(Params),
}

/// JSON whose texts are templates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum JsonTemplate {
    /// A value that is sent as it is.
    Fixed(Value),
    Text(Template),
    /// A number, written as the only member `number` of a table; null where the text is empty.
    Number(Template),
    /// A list, in which an element with `{ids}` stands for one element for each id.
    List(Vec<Self>),
    /// Members in the order of the file.
    Object(Vec<(String, Self)>),
}

/// A template of a number is something else with the values of a request.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "`{template}` is no number with these values: {text:?}; write the text without {{ number = ... }}, or for a time {{since:%s}}"
)]
pub struct NoNumber {
    template: String,
    text: String,
}

impl Param {
    /// Its templates, in order.
    pub fn templates(&self) -> &[Template] {
        match self {
            Self::Once(template) => slice::from_ref(template),
            Self::Repeated(templates) => templates,
        }
    }

    /// Its templates that stand for all ids of a request at once: in a list, one can stand for each.
    pub fn of_all_ids(&self) -> impl Iterator<Item = &Template> {
        let is_list = matches!(self, Self::Repeated(_));
        let templates = self.templates().iter();
        templates.filter(move |template| !(is_list && template.repeats()))
    }

    /// The values of a request, in order, each made by `text`.
    ///
    /// # Errors
    /// As `text`.
    pub fn render<T, E>(
        &self,
        values: &Values<'_>,
        text: impl Fn(&Template, &Values<'_>) -> Result<T, E>,
    ) -> Result<Vec<T>, E> {
        match self {
            Self::Once(template) => Ok(vec![text(template, values)?]),
            Self::Repeated(templates) => templates
                .iter()
                .flat_map(|template| {
                    let each = values.for_each_id(template.repeats());
                    each.into_iter().map(move |values| (template, values))
                })
                .map(|(template, values)| text(template, &values))
                .collect(),
        }
    }
}

impl Body {
    pub fn templates(&self) -> Vec<&Template> {
        match self {
            Self::Json(json) => json.templates(),
            Self::Form(params) => params.values().flat_map(Param::templates).collect(),
        }
    }

    /// Its templates that stand for all ids of a request at once.
    pub fn of_all_ids(&self) -> Vec<&Template> {
        match self {
            Self::Json(json) => json.of_all_ids(),
            Self::Form(params) => params.values().flat_map(Param::of_all_ids).collect(),
        }
    }

    /// This body with the values of another one, which replace those at the same places. `None` if one is a form and the
    /// other is not.
    pub fn with(self, own: Self) -> Option<Self> {
        match (self, own) {
            (Self::Json(json), Self::Json(own)) => Some(Self::Json(json.with(own))),
            (Self::Form(params), Self::Form(own)) => {
                Some(Self::Form(params.into_iter().chain(own).collect()))
            }
            (Self::Json(_), Self::Form(_)) | (Self::Form(_), Self::Json(_)) => None,
        }
    }
}

impl JsonTemplate {
    /// The document of a request, whose texts are made by `text`.
    ///
    /// # Errors
    /// As `text`, and where a text that should be a number is none.
    pub fn render<E: From<NoNumber>>(
        &self,
        values: &Values<'_>,
        text: &impl Fn(&Template, &Values<'_>) -> Result<String, E>,
    ) -> Result<Value, E> {
        Ok(match self {
            Self::Fixed(value) => value.clone(),
            Self::Text(template) => Value::String(text(template, values)?),
            Self::Number(template) => number(template, text(template, values)?)?,
            Self::List(elements) => {
                let mut rendered = Vec::new();
                for element in elements {
                    for values in values.for_each_id(element.repeats()) {
                        rendered.push(element.render(&values, text)?);
                    }
                }
                Value::Array(rendered)
            }
            Self::Object(members) => {
                let members = members
                    .iter()
                    .map(|(name, member)| Ok((name.clone(), member.render(values, text)?)));
                Value::Object(members.collect::<Result<Map<_, _>, E>>()?)
            }
        })
    }

    /// Whether this could be what a received document was made of. Texts with variables fit any text.
    pub fn fits(&self, received: &Value) -> bool {
        match self {
            Self::Fixed(value) => value == received,
            Self::Text(template) => {
                let text = received.as_str();
                text.is_some_and(|text| template.literal().is_none_or(|literal| literal == text))
            }
            Self::Number(_) => received.is_number() || received.is_null(),
            // An element with `{ids}` stands for any number of elements, so these are not compared.
            Self::List(_) => received.is_array(),
            Self::Object(members) => members
                .iter()
                .all(|(name, member)| received.get(name).is_some_and(|value| member.fits(value))),
        }
    }

    /// Its templates, in order.
    pub fn templates(&self) -> Vec<&Template> {
        self.templates_of(&|_| true)
    }

    /// Its templates that stand for all ids at once.
    fn of_all_ids(&self) -> Vec<&Template> {
        self.templates_of(&|element| !element.repeats())
    }

    /// Its templates, without those of elements of lists that do not count.
    fn templates_of(&self, counts: &dyn Fn(&Self) -> bool) -> Vec<&Template> {
        match self {
            Self::Fixed(_) => Vec::new(),
            Self::Text(template) | Self::Number(template) => vec![template],
            Self::List(elements) => {
                let elements = elements.iter().filter(|element| counts(element));
                elements.flat_map(|one| one.templates_of(counts)).collect()
            }
            Self::Object(members) => {
                let members = members.iter().map(|(_, member)| member);
                members.flat_map(|one| one.templates_of(counts)).collect()
            }
        }
    }

    /// Whether it stands for one element for each id in the list that contains it; ids in an inner list belong to that.
    fn repeats(&self) -> bool {
        match self {
            Self::Fixed(_) | Self::List(_) => false,
            Self::Text(template) | Self::Number(template) => template.repeats(),
            Self::Object(members) => members.iter().any(|(_, member)| member.repeats()),
        }
    }

    fn with(self, own: Self) -> Self {
        let (mut members, own) = match (self, own) {
            (Self::Object(members), Self::Object(own)) => (members, own),
            (_, own) => return own,
        };
        for (name, value) in own {
            match members.iter().position(|(known, _)| *known == name) {
                Some(at) => {
                    let (name, member) = members.remove(at);
                    // At its own place: members keep the order of the file.
                    members.insert(at, (name, member.with(value)));
                }
                None => members.push((name, value)),
            }
        }
        Self::Object(members)
    }
}

/// The only member of a table that stands for a number.
pub const NUMBER: &str = "number";

fn number(template: &Template, text: String) -> Result<Value, NoNumber> {
    if text.is_empty() {
        return Ok(Value::Null);
    }
    let number = text.parse().map(Value::Number);
    number.map_err(|_| NoNumber {
        template: template.to_string(),
        text,
    })
}

/// A GraphQL request.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Graphql {
    /// The query, as it is written: its braces are no templates. Example: `query = "query ($after: String) { things(after: $after) { id } }"`.
    #[serde(with = "As::<Query>")]
    query: String,
    /// The variables of the query. Their strings are templates, and `{ number = "{id}" }` is a number. Example: `variables = { first =
    /// 100, country = "{region}" }`.
    #[serde(default, with = "As::<Option<Variables>>")]
    variables: Option<JsonTemplate>,
}

/// What differs from the GraphQL request of a call.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepGraphql {
    /// Variables of the query, which override those of the call. Example: `variables = { sort = "POPULAR" }`.
    #[serde(with = "As::<Variables>")]
    variables: JsonTemplate,
}

impl From<Graphql> for Body {
    fn from(keys: Graphql) -> Self {
        // No template: the braces of a query are its own.
        let query = JsonTemplate::Fixed(Value::String(keys.query));
        let variables = keys
            .variables
            .map(|variables| ("variables".to_owned(), variables));
        let query = std::iter::once(("query".to_owned(), query));
        Self::Json(JsonTemplate::Object(query.chain(variables).collect()))
    }
}

impl From<StepGraphql> for Body {
    fn from(keys: StepGraphql) -> Self {
        let variables = vec![("variables".to_owned(), keys.variables)];
        Self::Json(JsonTemplate::Object(variables))
    }
}

/// The keys of which a table has one at most.
pub const BODIES: [&str; 3] = ["json", "form", "graphql"];

/// The body of the requests of a table with these keys.
pub fn only_body(
    json: Option<JsonTemplate>,
    form: Option<Params>,
    graphql: Option<Table<impl Into<Body>>>,
) -> Result<Option<Body>, Refusal> {
    let bodies = [
        json.map(Body::Json),
        form.map(Body::Form),
        graphql.map(|Table(graphql)| graphql.into()),
    ];
    let mut present = bodies.into_iter().flatten();
    match (present.next(), present.next()) {
        (body, None) => Ok(body),
        _ => Err(Refusal::new(
            "a request has one body: at most one of json, form and graphql",
            "remove the others",
        )),
    }
}

leaves!(Param, JsonTemplate);

impl Leaf for Param {
    type Value = Self;

    fn read(raw: Value) -> Result<Self, Refusal> {
        match raw {
            Value::Array(_) => OneOrMore::<Template>::read(raw).map(Self::Repeated),
            raw => Template::read(raw).map(Self::Once),
        }
    }

    fn schema() -> Value {
        let value = Template::schema();
        let list = json!({ "type": "array", "items": value, "minItems": 1 });
        json!({ "title": "template, or list of them", "anyOf": [value, list] })
    }
}

impl Leaf for JsonTemplate {
    type Value = Self;

    fn read(raw: Value) -> Result<Self, Refusal> {
        match raw {
            // A whole body is no number.
            Value::Object(members) => Self::object(members),
            Value::Array(_) => Self::within(raw),
            _ => Err(Refusal::new(
                "expected a table or a list",
                "write { name = value }",
            )),
        }
    }

    fn schema() -> Value {
        json!({ "title": "table or list", "type": ["object", "array"] })
    }
}

impl JsonTemplate {
    /// A value within a document, in which every text is a template.
    fn within(raw: Value) -> Result<Self, Refusal> {
        Ok(match raw {
            Value::String(_) => Self::Text(Template::read(raw)?),
            Value::Array(elements) => {
                let element = |(at, element)| {
                    Self::within(element).map_err(|refusal| refusal.below(&usize::to_string(&at)))
                };
                let elements = elements.into_iter().enumerate().map(element);
                Self::List(elements.collect::<Result<_, _>>()?)
            }
            Value::Object(members) => match Self::number(&members)? {
                Some(number) => Self::Number(number),
                None => Self::object(members)?,
            },
            // TOML's infinities and what is no number have no form in JSON.
            Value::Null => {
                return Err(Refusal::new(
                    "expected a number that JSON can represent",
                    "write it in quotes",
                ));
            }
            fixed @ (Value::Bool(_) | Value::Number(_)) => Self::Fixed(fixed),
        })
    }
}

impl JsonTemplate {
    fn object(members: Map<String, Value>) -> Result<Self, Refusal> {
        let member = |(name, member): (String, Value)| match Self::within(member) {
            Ok(member) => Ok((name, member)),
            Err(refusal) => Err(refusal.below(&name)),
        };
        let members = members.into_iter().map(member);
        Ok(Self::Object(members.collect::<Result<_, _>>()?))
    }

    /// The template of a number, if the members are `number` alone and its text has a variable.
    fn number(members: &Map<String, Value>) -> Result<Option<Template>, Refusal> {
        let text = members.get(NUMBER).filter(|_| members.len() == 1);
        let Some(text @ Value::String(_)) = text else {
            return Ok(None);
        };
        let template = Template::read(text.clone()).map_err(|refusal| refusal.below(NUMBER))?;
        if template.secrets().next().is_some() {
            let refusal = Refusal::new("a secret is a text", "write the text alone");
            return Err(refusal.below(NUMBER));
        }
        Ok((template.literal().is_none()).then_some(template))
    }
}

/// The variables of a GraphQL request.
struct Variables;

impl Leaf for Variables {
    type Value = JsonTemplate;

    fn read(raw: Value) -> Result<JsonTemplate, Refusal> {
        match raw.is_object() {
            true => JsonTemplate::read(raw),
            false => Err(Refusal::new("expected a table", "write { name = value }")),
        }
    }

    fn schema() -> Value {
        json!({ "title": "table", "type": "object" })
    }
}

// A text of several lines.
leaf!(
    Query,
    Text,
    String,
    |text| (!text.trim().is_empty()).then_some(text),
    "expected a query",
    "write for example \"{ things { id } }\"",
    json!({ "type": "string", "minLength": 1 }),
);
