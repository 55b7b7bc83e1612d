//! `[upstreams.NAME]`: an API, its authentication and its calls.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use url::Url;

use super::Template;
use super::body::Params;
use super::call::Call;
use super::error::Refusal;
use super::headers::{Headers, SentHeaderName};
use super::oauth::{Grant, OAuth, SecretTemplate};
use super::rules::Rule;
use super::values::{
    As, Bytes, Count, Either, Filled, Leaf, Named, Span, Table, Text, Whole, default, described,
    is_loopback, leaf, text,
};

/// The usual bounds of a response.
pub const USUAL_BODY: u64 = 32 << 20;
pub const USUAL_VALUES: u64 = 250_000;

/// An API that jobs pull from.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Upstream {
    /// The name of the upstream.
    #[serde(skip)]
    pub name: String,
    /// The URL to which the paths of the calls are joined. A secret is sent only over https, or over http to this machine. Example:
    /// `base_url = "https://api.example.com/v1"`.
    #[serde(with = "As::<BaseUrl>")]
    pub base_url: Url,
    /// How requests carry the secret; `"none"` for an API that requires none. Example: `auth = { header = "x-api-key" }`.
    #[serde(default)]
    pub auth: Auth,
    /// The timeout of one request, the connection included. Example: `timeout = "10s"`.
    #[serde(default = "default::seconds::<30>", with = "As::<Span>")]
    pub timeout: Duration,
    /// The most attempts for one request, the first one included. Every attempt is charged. Example: `attempts = 2`.
    #[serde(default = "default::small::<4>", with = "As::<Whole<u32, 1, 100>>")]
    pub attempts: u32,
    /// The pause before the second attempt. It doubles with each further attempt. Example: `pause = "2s"`.
    #[serde(default = "default::milliseconds::<500>", with = "As::<Span>")]
    pub pause: Duration,
    /// The most requests of a run at a time, whatever `--concurrency` says. If unset, no such bound. Example: `max_concurrency = 2`.
    #[serde(default, with = "As::<Option<Count>>")]
    pub max_concurrency: Option<u64>,
    /// The largest accepted response body, after decompression. Example: `max_body = "100MiB"`.
    #[serde(default = "default::number::<USUAL_BODY>", with = "As::<Bytes>")]
    pub max_body: u64,
    /// The most values of a response, as a count of the separators of its format: a value takes up to a hundred times the memory of
    /// its text. A table of 50,000 rows and 6 columns has 300,000. Example: `max_values = 1_000_000`.
    #[serde(default = "default::number::<USUAL_VALUES>", with = "As::<Count>")]
    pub max_values: u64,
    /// Records that no response contained for this long are deleted. If unset, none. Example: `keep = "30d"`.
    #[serde(default, with = "As::<Option<Span>>")]
    pub keep: Option<Duration>,
    /// Headers of every request. Their values are templates, also with `{secret}` or `{secret:NAME}`. Example: `headers = { accept =
    /// "application/vnd.example+json" }`.
    #[serde(default, with = "As::<Headers>")]
    pub headers: BTreeMap<String, Template>,
    /// Query parameters of every request, except of a next page whose whole URL the response has. A call and a step can override them.
    /// Example: `params = { api-version = "2024-05" }`.
    #[serde(default)]
    pub params: Params,
    /// Rules that classify refusals; the first that matches applies, those of the call before these. Without one, the status decides:
    /// 401, 403 and 407 are `denied`, 429 is `slow_down`,
    /// 408, 425 and 5xx are `transient`, and any other is `skip`. Example: `errors = [{ status = 429, class = "slow_down" }]`.
    #[serde(default)]
    pub errors: Vec<Rule>,
    /// The metered methods of the API, at least one. Example: `calls = { "things.list" = { path = "things", cost = 1 } }`.
    #[serde(default, with = "Named::<Arc<Call>>")]
    #[schemars(extend("minProperties" = 1))]
    pub calls: BTreeMap<String, Arc<Call>>,
}

impl Upstream {
    /// Whether the upstream is on this machine.
    pub fn is_loopback(&self) -> bool {
        is_loopback(&self.base_url)
    }
}

/// How a request carries the secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Either<NoAuth, AuthKeys>")]
pub enum Auth {
    /// Not at all.
    #[default]
    None,
    /// In a header of this name.
    Header(String),
    /// In a query parameter of this name.
    Query(String),
    /// As `authorization: Bearer`.
    Bearer,
    /// As `authorization: Basic`.
    Basic { user: Template, password: Template },
    /// An access token of OAuth 2, as `authorization: Bearer`.
    OAuth(Box<OAuth>),
}

impl Auth {
    /// Whether the credential's `secret` is sent, or exchanged for a token, although the file does not write `{secret}`.
    pub fn sends_secret(&self) -> bool {
        match self {
            Self::Header(_) | Self::Query(_) | Self::Bearer => true,
            Self::OAuth(oauth) => match &oauth.grant {
                Grant::ServiceAccount { key, .. } => key.secrets().any(|name| name.is_none()),
                Grant::ClientCredentials | Grant::RefreshToken(_) => false,
            },
            Self::None | Self::Basic { .. } => false,
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
struct AuthKeys {
    /// The header that carries the secret. Example: `header = "x-api-key"`.
    #[serde(default, with = "As::<Option<SentHeaderName>>")]
    pub header: Option<String>,
    /// The query parameter that carries the secret. Proxies log it; prefer a header. Example: `query = "key"`.
    #[serde(default, with = "As::<Option<Filled>>")]
    pub query: Option<String>,
    /// Send the secret as `authorization: Bearer SECRET`. Example: `bearer = true`.
    #[serde(default, with = "As::<Option<True>>")]
    pub bearer: Option<()>,
    /// Send `authorization: Basic` with a user and a password. Example: `basic = { user = "{secret}", password = "" }`.
    pub basic: Option<Table<BasicKeys>>,
    /// Send an access token of OAuth 2 as a bearer token. It is stored in the state directory for its owner alone, and renewed before
    /// it expires and once after a 401. Token requests are not charged. Example: `oauth = { kind = "client_credentials", token_url =
    /// "https://id.example.com/token", client_id = "me", client_secret = "{secret}" }`.
    pub oauth: Option<OAuth>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct BasicKeys {
    /// The user: text, `{secret}` or `{secret:NAME}`. Example: `user = "{secret}"`.
    #[serde(with = "As::<SecretTemplate>")]
    pub user: Template,
    /// The password, likewise. Example: `password = "{secret:password}"`.
    #[serde(default = "nothing", with = "As::<SecretTemplate>")]
    pub password: Template,
}

const AUTH_REMEDY: &str = "write { header = \"x-api-key\" }, { query = \"key\" }, { bearer = true }, { basic = { ... } }, \
    { oauth = { ... } } or \"none\"";

leaf!(
    NoAuth,
    Text,
    (),
    |text| (text == "none").then_some(()),
    "expected how requests carry the secret",
    AUTH_REMEDY,
    json!({ "title": "`\"none\"`", "const": "none" }),
);

described!(Auth: Either<NoAuth, AuthKeys>);

impl TryFrom<Either<NoAuth, AuthKeys>> for Auth {
    type Error = Refusal;

    fn try_from(keys: Either<NoAuth, AuthKeys>) -> Result<Self, Refusal> {
        let Either::Table(keys) = keys else {
            return Ok(Self::None);
        };
        let basic = keys
            .basic
            .map(|Table(BasicKeys { user, password })| Self::Basic { user, password });
        let ways = [
            keys.header.map(Self::Header),
            keys.query.map(Self::Query),
            keys.bearer.map(|()| Self::Bearer),
            basic,
            keys.oauth.map(|oauth| Self::OAuth(Box::new(oauth))),
        ];
        exactly_one(ways, "header, query, bearer, basic, oauth", AUTH_REMEDY)
    }
}

/// The only value that is present of several keys.
pub fn exactly_one<T, const N: usize>(
    values: [Option<T>; N],
    names: &str,
    remedy: &str,
) -> Result<T, Refusal> {
    let mut present = values.into_iter().flatten();
    match (present.next(), present.next()) {
        (Some(only), None) => Ok(only),
        _ => Err(Refusal::new(
            format!("expected exactly one of {names}"),
            remedy,
        )),
    }
}

/// How a default is shown.
impl Serialize for Auth {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("none")
    }
}

fn nothing() -> Template {
    Template::default()
}

struct True;

impl Leaf for True {
    type Value = ();

    fn read(raw: Value) -> Result<(), Refusal> {
        match raw {
            Value::Bool(true) => Ok(()),
            Value::String(_) => Err(Refusal::new(
                "a secret must not be in this file",
                "write { bearer = true }, and where the secret is read from in `secret` of the credential",
            )),
            _ => Err(Refusal::new(
                "expected true",
                "write auth = \"none\" if the upstream needs no secret",
            )),
        }
    }

    fn schema() -> Value {
        json!({ "title": "`true`", "const": true })
    }
}

struct BaseUrl;

impl Leaf for BaseUrl {
    type Value = Url;

    fn read(raw: Value) -> Result<Url, Refusal> {
        let example = "write for example \"https://api.example.com/v1\"";
        let text = text(raw)?;
        if text.contains(['{', '}']) {
            return Err(Refusal::new(
                "expected a URL without variables",
                "write them into `path` of the calls, or an upstream for each host",
            ));
        }
        let Ok(url) = Url::parse(&text) else {
            return Err(Refusal::new("expected a URL", example));
        };
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Refusal::new("expected an http or https URL", example));
        }
        // Messages and logs show this URL.
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Refusal::new(
                "expected a URL without a user or password",
                "configure the secret with `auth` and a credential",
            ));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(Refusal::new(
                "expected a URL without `?` and `#`",
                "move them into `params` of the calls",
            ));
        }
        Ok(url)
    }

    fn schema() -> Value {
        json!({ "title": "URL", "type": "string", "pattern": "^https?://[^?#{}]*$" })
    }
}
