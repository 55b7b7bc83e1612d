//! `[upstreams.NAME]`: an API, its authentication and its calls.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use url::Url;

use super::Template;
use super::call::{CALL, Call};
use super::declare::{
    AndThen, BYTES, COUNT, DURATION, ExactlyOne, Leaf, Named, Optional, Or, OwnName, Required,
    Shape, TEXT, Type, keys, table,
};
use super::headers::{HEADER_NAME, HEADERS};
use super::item::Item;
use super::loopback::is_loopback;
use super::oauth::{Grant, OAUTH, OAuth, SECRET_TEMPLATE};
use super::rules::{RULES, Rule};

keys! {
    /// An API that jobs pull from.
    #[derive(Debug, Clone)]
    pub struct Upstream {
        /// The name of the upstream.
        name: String = OwnName,
        /// The URL to which the paths of the calls are joined, with or without a trailing slash. A secret is sent only over
        /// https, or over http to this machine.
        base_url: Url = Required(BASE_URL, "'https://api.example.com/v1'"),
        /// How requests carry the secret of a credential; `"none"` for an API that requires no secret.
        auth: Auth = Or(AUTH, "'none'", "{ header = 'x-api-key' }"),
        /// The timeout of one request, including the connection.
        timeout: Duration = Or(DURATION, "'30s'", "'10s'"),
        /// The most attempts for one request, the first one included. Every attempt is charged.
        attempts: u32 = Or(ATTEMPTS, "4", "2"),
        /// The pause before the second attempt. It doubles with each further attempt.
        pause: Duration = Or(DURATION, "'500ms'", "'2s'"),
        /// The most requests that one run sends to the upstream at the same time, whatever `--concurrency` says. If unset, no
        /// such bound.
        max_concurrency: Option<u64> = Optional(COUNT, "2"),
        /// The largest accepted response body, after decompression.
        max_body: u64 = Or(BYTES, "'32MiB'", "'100MiB'"),
        /// Records that no response contained for this long are deleted. If unset, records are kept forever.
        keep: Option<Duration> = Optional(DURATION, "'30d'"),
        /// Headers of every request. Their values are templates. A secret is `{secret}` or `{secret:NAME}`.
        headers: BTreeMap<String, Template> = Or(HEADERS, "{}", "{ accept = 'application/vnd.example+json' }"),
        /// Rules that classify refusals; the first rule that matches applies. A refusal that no rule matches is classified by its status: 401, 403 and 407 are `denied`, 429 is `slow_down`,
        /// 408, 425 and 5xx are `transient`, and any other is `skip`.
        errors: Vec<Rule> = Or(RULES, "[]", "[{ status = 429, class = 'slow_down' }]"),
        /// The metered methods of the API by name, at least one.
        calls: BTreeMap<String, Arc<Call>> = Required(
            AndThen(Named(CALL, "CALL"), at_least_one_call),
            "{ 'things.list' = { path = 'things', cost = 1 } }",
        ),
    }
}

impl Upstream {
    /// Whether the upstream is on this machine.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        is_loopback(&self.base_url)
    }
}

/// How a request carries the secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Auth {
    /// Not at all.
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
    #[must_use]
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

keys! {
    struct AuthKeys {
        /// The header that carries the secret.
        header: Option<String> = Optional(HEADER_NAME, "'x-api-key'"),
        /// The query parameter that carries the secret. Proxies log it; prefer a header.
        query: Option<String> = Optional(TEXT, "'key'"),
        /// Send the secret as `authorization: Bearer SECRET`.
        bearer: Option<()> = Optional(BEARER, "true"),
        /// Send `authorization: Basic` with a user and a password.
        basic: Option<BasicKeys> = Optional(table::<BasicKeys>(), "{ user = '{secret}', password = '' }"),
        /// Send an access token of OAuth 2 as a bearer token. It is requested when it is needed, stored in the state directory
        /// for its owner alone, and renewed before it expires and once after a 401. Token requests are not charged.
        oauth: Option<OAuth> = Optional(OAUTH, "{ kind = 'client_credentials', token_url = 'https://id.example.com/token', client_id = 'me', client_secret = '{secret}' }"),
    }
}

keys! {
    struct BasicKeys {
        /// The user: text, `{secret}` or `{secret:NAME}`.
        user: Template = Required(SECRET_TEMPLATE, "'{secret}'"),
        /// The password, likewise.
        password: Template = Or(SECRET_TEMPLATE, "''", "'{secret:password}'"),
    }
}

const AUTH_REMEDY: &str = "write { header = \"x-api-key\" }, { query = \"key\" }, { bearer = true }, { basic = { ... } }, \
    { oauth = { ... } } or \"none\"";
const AUTH_KEYS: ExactlyOne<AuthKeys> = ExactlyOne(table(), AUTH_REMEDY);
const AUTH: Leaf<Auth> = Leaf {
    read: auth,
    shape: || Shape::scalar("`\"none\"`", json!({ "const": "none" })).or(AUTH_KEYS.shape()),
};

fn auth(item: Item<'_>) -> Option<Auth> {
    if !item.is_table() {
        return match item.text()? {
            "none" => Some(Auth::None),
            _ => item.refuse("expected how requests carry the secret", AUTH_REMEDY),
        };
    }
    let keys = AUTH_KEYS.read(item)?;
    let header = keys.header.map(Auth::Header);
    header
        .or(keys.query.map(Auth::Query))
        .or(keys.bearer.map(|()| Auth::Bearer))
        .or(keys
            .basic
            .map(|BasicKeys { user, password }| Auth::Basic { user, password }))
        .or(keys.oauth.map(|oauth| Auth::OAuth(Box::new(oauth))))
}

const BEARER: Leaf<()> = Leaf {
    read: |item| match item.truth()? {
        true => Some(()),
        false => item.refuse(
            "expected true",
            "write auth = \"none\" if the upstream needs no secret",
        ),
    },
    shape: || Shape::scalar("`true`", json!({ "const": true })),
};

const ATTEMPTS: Leaf<u32> = Leaf {
    read: |item| u32::try_from(item.number(1..=100)?).ok(),
    shape: || {
        let schema = json!({ "type": "integer", "minimum": 1, "maximum": 100 });
        Shape::scalar("integer from 1 to 100", schema)
    },
};

const BASE_URL: Leaf<Url> = Leaf {
    read: base_url,
    shape: || {
        let schema = json!({ "type": "string", "pattern": "^https?://[^?#]*$" });
        Shape::scalar("URL", schema)
    },
};

fn base_url(item: Item<'_>) -> Option<Url> {
    let example = "write for example \"https://api.example.com/v1\"";
    let Ok(url) = Url::parse(item.text()?) else {
        return item.refuse("expected a URL", example);
    };
    if !matches!(url.scheme(), "http" | "https") {
        return item.refuse("expected an http or https URL", example);
    }
    // Messages and logs show this URL.
    if !url.username().is_empty() || url.password().is_some() {
        return item.refuse(
            "expected a URL without a user or password",
            "configure the secret with `auth` and a credential",
        );
    }
    if url.query().is_some() || url.fragment().is_some() {
        return item.refuse(
            "expected a URL without `?` and `#`",
            "move them into `params` of the calls",
        );
    }
    Some(url)
}

fn at_least_one_call(
    item: &Item<'_>,
    calls: BTreeMap<String, Call>,
) -> Option<BTreeMap<String, Arc<Call>>> {
    if calls.is_empty() {
        return item.refuse(
            "expected at least one call",
            "add [upstreams.NAME.calls.\"things.list\"]",
        );
    }
    let shared = calls.into_iter().map(|(name, call)| (name, Arc::new(call)));
    Some(shared.collect())
}
