//! Parameters and bodies of requests: `params`, and `json`, `form` or `graphql`.

use std::collections::BTreeMap;
use std::slice;

use serde_json::{Map, Number, Value, json};

use super::declare::{
    AndThen, Key, Keys, Leaf, Optional, Presence, Required, Shape, TEMPLATE, TEXT, Type, keys,
    table, template,
};
use super::item::{self, Item};
use super::tree::Kind;
use super::{Call, Template, TemplateError, Values};

/// Parameters of a query or a form, by name.
pub type Params = BTreeMap<String, Param>;

/// The value of a parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Param {
    /// The parameter occurs once.
    Once(Template),
    /// The parameter occurs once for each of these; for a template with `{ids}`, once for each id.
    Repeated(Vec<Template>),
}

/// The body of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// JSON; of GraphQL too.
    Json(JsonTemplate),
    /// A form, `application/x-www-form-urlencoded`.
    Form(Params),
}

/// JSON whose texts are templates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JsonTemplate {
    /// A value that is sent as it is.
    Fixed(Value),
    Text(Template),
    /// A list, in which an element with `{ids}` stands for one element for each id.
    List(Vec<Self>),
    /// Members in the order of the file.
    Object(Vec<(String, Self)>),
}

impl Param {
    /// Its templates, in order.
    #[must_use]
    pub fn templates(&self) -> &[Template] {
        match self {
            Self::Once(template) => slice::from_ref(template),
            Self::Repeated(templates) => templates,
        }
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
    #[must_use]
    pub fn templates(&self) -> Vec<&Template> {
        match self {
            Self::Json(json) => json.templates(),
            Self::Form(params) => params.values().flat_map(Param::templates).collect(),
        }
    }

    /// This body with the values of another one, which replace those at the same places. `None` if one is a form and the
    /// other is not.
    fn with(self, own: Self) -> Option<Self> {
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
    /// Takes every text of a JSON document as a template.
    ///
    /// # Errors
    /// One of them is not a template.
    pub fn parse(value: Value) -> Result<Self, TemplateError> {
        Ok(match value {
            Value::String(text) => Self::Text(Template::parse(&text)?),
            Value::Array(elements) => {
                let elements = elements.into_iter().map(Self::parse);
                Self::List(elements.collect::<Result<_, _>>()?)
            }
            Value::Object(members) => {
                let members = members
                    .into_iter()
                    .map(|(name, member)| Ok((name, Self::parse(member)?)));
                Self::Object(members.collect::<Result<_, _>>()?)
            }
            fixed @ (Value::Null | Value::Bool(_) | Value::Number(_)) => Self::Fixed(fixed),
        })
    }

    /// The document of a request, whose texts are made by `text`.
    ///
    /// # Errors
    /// As `text`.
    pub fn render<E>(
        &self,
        values: &Values<'_>,
        text: &impl Fn(&Template, &Values<'_>) -> Result<String, E>,
    ) -> Result<Value, E> {
        Ok(match self {
            Self::Fixed(value) => value.clone(),
            Self::Text(template) => Value::String(text(template, values)?),
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
    #[must_use]
    pub fn fits(&self, received: &Value) -> bool {
        match self {
            Self::Fixed(value) => value == received,
            Self::Text(template) => {
                let text = received.as_str();
                text.is_some_and(|text| template.literal().is_none_or(|literal| literal == text))
            }
            // An element with `{ids}` stands for any number of elements, so these are not compared.
            Self::List(_) => received.is_array(),
            Self::Object(members) => members
                .iter()
                .all(|(name, member)| received.get(name).is_some_and(|value| member.fits(value))),
        }
    }

    fn templates(&self) -> Vec<&Template> {
        match self {
            Self::Fixed(_) => Vec::new(),
            Self::Text(template) => vec![template],
            Self::List(elements) => elements.iter().flat_map(Self::templates).collect(),
            Self::Object(members) => {
                let members = members.iter().map(|(_, member)| member);
                members.flat_map(Self::templates).collect()
            }
        }
    }

    /// Whether it stands for one element for each id in the list that contains it; ids in an inner list belong to that.
    fn repeats(&self) -> bool {
        match self {
            Self::Fixed(_) | Self::List(_) => false,
            Self::Text(template) => template.repeats(),
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

keys! {
    /// The body of a call.
    pub struct CallBody {
        /// A JSON body. Every string in it is a template; numbers stay numbers. In a list, an element with `{ids}` stands for one
        /// element for each id.
        json: Option<JsonTemplate> = Optional(JSON, "{ filter = { country = '{region}' }, limit = 100 }"),
        /// A form as the body (`application/x-www-form-urlencoded`). Its values are templates; a list repeats the field.
        form: Option<Params> = Optional(PARAMS, "{ country = '{region}', tag = ['new', 'free'] }"),
        /// A GraphQL request as the body.
        graphql: Option<JsonTemplate> = Optional(AndThen(table::<Graphql>(), |_, keys| Some(keys.request())), "{ query = 'query ($after: String) { things(after: $after) { id } }', variables = { first = 100 } }"),
    }
}

keys! {
    /// A GraphQL request.
    struct Graphql {
        /// The query. It is sent as it is written: its braces are not templates.
        query: String = Required(QUERY, "'query ($after: String) { things(after: $after) { id } }'"),
        /// The variables of the query, by name. Every string in them is a template; numbers stay numbers.
        variables: Option<JsonTemplate> = Optional(VARIABLES, "{ first = 100, country = '{region}' }"),
    }
}

keys! {
    /// What a step overrides in the body of its call.
    pub struct StepBody {
        /// Values of the JSON body, which override those of the call at the same places. Other values of the call remain.
        json: Option<JsonTemplate> = Optional(JSON, "{ filter = { country = 'US' } }"),
        /// Fields of the form, which override those of the call.
        form: Option<Params> = Optional(PARAMS, "{ sort = 'popular' }"),
        /// What differs from the GraphQL request of the call.
        graphql: Option<JsonTemplate> = Optional(AndThen(table::<StepGraphql>(), |_, keys| Some(with_variables(Vec::new(), Some(keys.variables)))), "{ variables = { sort = 'POPULAR' } }"),
    }
}

keys! {
    /// What differs from the GraphQL request of a call.
    struct StepGraphql {
        /// Variables of the query, which override those of the call.
        variables: JsonTemplate = Required(VARIABLES, "{ sort = 'POPULAR' }"),
    }
}

impl Graphql {
    fn request(self) -> JsonTemplate {
        // No template: the braces of a query are its own.
        let query = JsonTemplate::Fixed(Value::String(self.query));
        with_variables(vec![("query".to_owned(), query)], self.variables)
    }
}

fn with_variables(
    mut members: Vec<(String, JsonTemplate)>,
    variables: Option<JsonTemplate>,
) -> JsonTemplate {
    members.extend(variables.map(|variables| ("variables".to_owned(), variables)));
    JsonTemplate::Object(members)
}

/// Keys of which a table has one at most: the body of its requests. The function returns the bodies that are present.
pub struct OneBody<K>(fn(K) -> Bodies);

type Bodies = [Option<Body>; 3];

pub const CALL_BODY: OneBody<CallBody> = OneBody(|keys| bodies(keys.json, keys.form, keys.graphql));
pub const STEP_BODY: OneBody<StepBody> = OneBody(|keys| bodies(keys.json, keys.form, keys.graphql));

fn bodies(
    json: Option<JsonTemplate>,
    form: Option<Params>,
    graphql: Option<JsonTemplate>,
) -> Bodies {
    [
        json.map(Body::Json),
        form.map(Body::Form),
        graphql.map(Body::Json),
    ]
}

impl<K: Keys> Presence for OneBody<K> {
    type Value = Option<Body>;

    fn read(&self, section: &Item<'_>, _: &'static str) -> Option<Option<Body>> {
        let bodies = (self.0)(K::read(section)?);
        let mut present = bodies.into_iter().flatten();
        let body = present.next();
        if present.next().is_some() {
            return section.refuse(
                "a request has one body: at most one of json, form and graphql",
                "remove the others",
            );
        }
        Some(body)
    }

    fn keys(&self, _: &'static str, _: &'static str) -> Vec<Key> {
        K::keys()
    }

    fn names(&self, _: &'static str) -> Vec<&'static str> {
        K::names()
    }
}

/// Where a call or a step has its body; `None` without one.
pub fn body_of<'a>(item: &Item<'a>) -> Option<Item<'a>> {
    CallBody::names().iter().find_map(|name| item.find(&[name]))
}

/// The body of a step's requests: the call's, with the values of the step.
pub fn of_step(item: &Item<'_>, call: &Call, own: Option<Body>) -> Option<Option<Body>> {
    let Some(own) = own else {
        return Some(call.body.clone());
    };
    let merged = call.body.clone().and_then(|body| body.with(own));
    match merged {
        Some(body) => Some(Some(body)),
        None => body_of(item)?.refuse(
            format!("the call {:?} has no such body to override", call.name),
            "write the whole body in the call",
        ),
    }
}

/// Parameters by name; a list repeats one.
pub const PARAMS: Leaf<Params> = Leaf {
    read: |item| {
        item::all(
            item.entries()?
                .into_iter()
                .map(|item| Some((item.name().to_owned(), param(item)?))),
        )
    },
    shape: || {
        let value = TEMPLATE.shape().schema;
        let list = json!({ "type": "array", "items": value, "minItems": 1 });
        let either = json!({ "anyOf": [value, list] });
        let schema = json!({ "type": "object", "additionalProperties": either });
        Shape::scalar("table of templates, or lists of them, by parameter", schema)
    },
};

fn param(item: Item<'_>) -> Option<Param> {
    match item.kind() {
        Kind::List(_) => {
            item::all(item.one_or_more()?.into_iter().map(template)).map(Param::Repeated)
        }
        Kind::Text(_)
        | Kind::Integer(_)
        | Kind::Float(..)
        | Kind::Bool(_)
        | Kind::Date(_)
        | Kind::Table(_) => template(item).map(Param::Once),
    }
}

const JSON: Leaf<JsonTemplate> = Leaf {
    read: |item| match item.kind() {
        // `json_of` has reported each text that is no template.
        Kind::Table(_) | Kind::List(_) => JsonTemplate::parse(json_of(item)?).ok(),
        Kind::Text(_) | Kind::Integer(_) | Kind::Float(..) | Kind::Bool(_) | Kind::Date(_) => {
            item.refuse("expected a table or a list", "write { name = value }")
        }
    },
    shape: || Shape::scalar("table or list", json!({ "type": ["object", "array"] })),
};

const VARIABLES: Leaf<JsonTemplate> = Leaf {
    read: |item| match item.is_table() {
        true => JSON.read(item),
        false => item.refuse("expected a table", "write { name = value }"),
    },
    shape: || Shape::scalar("table", json!({ "type": "object" })),
};

/// A text of several lines.
const QUERY: Leaf<String> = Leaf {
    read: |item| match item.text()? {
        blank if blank.trim().is_empty() => item.refuse(
            "expected a query",
            "write for example \"{ things { id } }\"",
        ),
        text => Some(text.to_owned()),
    },
    shape: TEXT.shape,
};

/// The document as JSON, in which every text is a template.
fn json_of(item: Item<'_>) -> Option<Value> {
    match item.kind() {
        Kind::Text(text) => template(item).map(|_| Value::String(text.clone())),
        Kind::Date(date) => Some(Value::String(date.clone())),
        Kind::Bool(truth) => Some(Value::Bool(*truth)),
        Kind::Integer(number) => number_of(&item, i64::try_from(*number).ok().map(Number::from)),
        Kind::Float(number, _) => number_of(&item, Number::from_f64(*number)),
        Kind::List(_) => item::all(item.list()?.into_iter().map(json_of)).map(Value::Array),
        Kind::Table(_) => {
            let members = item
                .entries()?
                .into_iter()
                .map(|item| Some((item.name().to_owned(), json_of(item)?)));
            item::all::<_, Map<String, Value>>(members).map(Value::Object)
        }
    }
}

fn number_of(item: &Item<'_>, number: Option<Number>) -> Option<Value> {
    match number {
        Some(number) => Some(Value::Number(number)),
        None => item.refuse(
            "expected a number that JSON can represent",
            "write it in quotes",
        ),
    }
}
