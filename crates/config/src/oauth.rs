//! `auth = { oauth = { kind = "…" } }`: how an access token of OAuth 2 is requested.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use url::Url;

use super::error::Refusal;
use super::values::{As, Filled, Table, Text, described, is_loopback, leaf};
use super::{Template, Variable};

/// How an access token of OAuth 2 is requested. The templates contain literal text, `{secret}` and `{secret:NAME}`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Table<OAuthKeys>")]
pub struct OAuth {
    /// What is exchanged for an access token.
    pub grant: Grant,
    /// The token endpoint; `None` for a service account whose key names it.
    pub token_url: Option<Url>,
    /// How the client proves who it is to the token endpoint; `None` for a service account.
    pub client: Option<OAuthClient>,
    /// The scopes, separated by spaces; `None` requests the default of the server.
    pub scope: Option<String>,
    /// More parameters of the token request, such as `audience`.
    pub params: BTreeMap<String, Template>,
}

/// What is exchanged for an access token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grant {
    /// The client's own id and secret.
    ClientCredentials,
    /// A refresh token, which a person got once. A server may replace it with each use.
    RefreshToken(Template),
    /// A claim that is signed with the private key of a Google service account.
    ServiceAccount {
        /// The account's key, as the JSON document that Google issues.
        key: Template,
        /// The user on whose behalf the account acts; `None`: itself.
        subject: Option<String>,
    },
}

/// The client of an OAuth 2 server. Its texts contain literal text, `{secret}` and `{secret:NAME}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OAuthClient {
    /// The id of the client.
    pub id: Template,
    /// The secret of the client; `None`: the client is public.
    pub secret: Option<Template>,
    /// Where both are sent.
    pub place: ClientPlace,
}

/// Where the id and the secret of a client are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClientPlace {
    /// In `authorization: Basic`, which every server should accept (RFC 6749).
    #[default]
    #[serde(rename = "header")]
    Basic,
    /// In the body, as `client_id` and `client_secret`.
    Body,
}

/// What is exchanged for an access token.
#[derive(Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Kind {
    /// The client's own id and secret.
    ClientCredentials,
    /// A refresh token, which a person got once. If the server replaces it, the new one is stored in the state directory; another one
    /// in the configuration replaces that.
    RefreshToken,
    /// A claim that is signed with the private key of a Google service account.
    ServiceAccount,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OAuthKeys {
    /// What is exchanged for an access token. Example: `kind = "client_credentials"`.
    kind: Kind,
    /// The token endpoint: https, or http to this machine. A service account needs none: its key names it. Example: `token_url =
    /// "https://id.example.com/oauth/token"`.
    #[serde(default, with = "As::<Option<TokenUrl>>")]
    token_url: Option<Url>,
    /// The id of the client: text, `{secret}` or `{secret:NAME}`. Required, except for a service account. Example: `client_id = "my-client"`.
    #[serde(default, with = "As::<Option<SecretTemplate>>")]
    client_id: Option<Template>,
    /// The secret of the client. If unset, the client is public. Example: `client_secret = "{secret:client}"`.
    #[serde(default, with = "As::<Option<SecretTemplate>>")]
    client_secret: Option<Template>,
    /// Where the id and the secret of the client are sent. If unset, in the header. Example: `client_in = "body"`.
    client_in: Option<ClientPlace>,
    /// The first refresh token, with `kind = "refresh_token"`. Example: `refresh_token = "{secret:refresh}"`.
    #[serde(default, with = "As::<Option<SecretTemplate>>")]
    refresh_token: Option<Template>,
    /// The key of a service account: the JSON document that Google issues. If unset, `{secret}`. Example: `key = "{secret:account}"`.
    #[serde(default, with = "As::<Option<SecretTemplate>>")]
    key: Option<Template>,
    /// The user for whom a service account acts, by domain-wide delegation. If unset, the account itself. Example: `subject = "someone@example.com"`.
    #[serde(default, with = "As::<Option<Filled>>")]
    subject: Option<String>,
    /// The scopes, separated by spaces. If unset, the server chooses, or those of the refresh token; a service account must have some. Example: `scope = "read"`.
    #[serde(default, with = "As::<Option<Filled>>")]
    scope: Option<String>,
    /// More parameters of the token request. `grant_type` and `scope` replace the usual ones, as `grant_type = "account_credentials"`
    /// for Zoom. Not for a service account. Example: `params = { audience = "https://api.example.com" }`.
    params: Option<BTreeMap<String, SecretText>>,
}

described!(OAuth: OAuthKeys);

impl TryFrom<Table<OAuthKeys>> for OAuth {
    type Error = Refusal;

    fn try_from(Table(mut keys): Table<OAuthKeys>) -> Result<Self, Refusal> {
        let missing = |key, example| move || Refusal::missing(key, example);
        let url = missing("token_url", "\"https://id.example.com/oauth/token\"");
        let (grant, client) = match keys.kind {
            Kind::ClientCredentials => (Grant::ClientCredentials, Some(keys.client()?)),
            Kind::RefreshToken => {
                let token = keys.refresh_token.take();
                let token = token.ok_or_else(missing("refresh_token", "\"{secret:refresh}\""))?;
                (Grant::RefreshToken(token), Some(keys.client()?))
            }
            Kind::ServiceAccount => {
                let key = keys.key.take().unwrap_or_else(Template::secret);
                let subject = keys.subject.take();
                (Grant::ServiceAccount { key, subject }, None)
            }
        };
        let (token_url, scope) = (keys.token_url.take(), keys.scope.take());
        let params = client.as_ref().and(keys.params.take()).unwrap_or_default();
        match client {
            Some(_) if token_url.is_none() => return Err(url()),
            None if scope.is_none() => {
                let example = "\"https://www.googleapis.com/auth/cloud-platform.read-only\"";
                return Err(Refusal::missing("scope", example));
            }
            _ => {}
        }
        let left = [
            ("client_id", keys.client_id.is_some(), false),
            ("client_secret", keys.client_secret.is_some(), false),
            ("client_in", keys.client_in.is_some(), false),
            ("refresh_token", keys.refresh_token.is_some(), false),
            ("key", keys.key.is_some(), false),
            ("subject", keys.subject.is_some(), false),
            ("params", keys.params.is_some(), false),
        ];
        Refusal::of_kind(&left)?;
        Ok(Self {
            grant,
            token_url,
            client,
            scope,
            params: params
                .into_iter()
                .map(|(name, SecretText(text))| (name, text))
                .collect(),
        })
    }
}

impl OAuthKeys {
    fn client(&mut self) -> Result<OAuthClient, Refusal> {
        let id = self.client_id.take();
        Ok(OAuthClient {
            id: id.ok_or_else(|| Refusal::missing("client_id", "\"my-client\""))?,
            secret: self.client_secret.take(),
            place: self.client_in.take().unwrap_or_default(),
        })
    }
}

/// A value of a table of [`SecretTemplate`]s.
#[derive(Deserialize, JsonSchema)]
#[serde(transparent)]
struct SecretText(#[serde(with = "As::<SecretTemplate>")] Template);

// A text that may contain secrets, but nothing of a request.
leaf!(
    SecretTemplate,
    Template,
    Template,
    |template| {
        let is_secret = |variable: &Variable| matches!(variable, Variable::Secret(_));
        template
            .variables()
            .iter()
            .all(is_secret)
            .then_some(template)
    },
    "only {secret} and {secret:NAME} have a value here",
    "write for example \"{secret:client}\"",
    Template::schema(),
    |template| template.as_str().into(),
);

leaf!(
    TokenUrl,
    Text,
    Url,
    |text| {
        // A variable would be sent as it is written.
        let url = Url::parse(&text)
            .ok()
            .filter(|_| !text.contains(['{', '}']))?;
        let is_safe = url.scheme() == "https" || (url.scheme() == "http" && is_loopback(&url));
        is_safe.then_some(url)
    },
    "expected an https URL without variables, since secrets are sent to it",
    "write for example \"https://id.example.com/oauth/token\"",
    json!({ "title": "URL", "type": "string", "pattern": "^https?://[^{}]*$" }),
);

impl OAuth {
    pub const fn service_account_key(&self) -> Option<&Template> {
        match &self.grant {
            Grant::ServiceAccount { key, .. } => Some(key),
            Grant::ClientCredentials | Grant::RefreshToken(_) => None,
        }
    }
}
