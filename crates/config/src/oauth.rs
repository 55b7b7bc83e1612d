//! `auth = { oauth = { kind = "…" } }`: how an access token of OAuth 2 is requested.

use std::collections::BTreeMap;

use serde_json::json;
use url::Url;

use super::declare::{
    Flat, Keys, Kind, Leaf, Named, Optional, Or, Required, Shape, TEMPLATE, TEXT, Tagged, Type,
    Words, keys, template,
};
use super::loopback::is_loopback;
use super::{Template, Variable};

/// How an access token of OAuth 2 is requested. The templates contain literal text, `{secret}` and `{secret:NAME}`.
#[derive(Debug, Clone, PartialEq, Eq)]
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

keys! {
    /// The client of an OAuth 2 server.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct OAuthClient {
        /// The id of the client: text, `{secret}` or `{secret:NAME}`.
        id as "client_id": Template = Required(SECRET_TEMPLATE, "'my-client'"),
        /// The secret of the client. If unset, the client is public.
        secret as "client_secret": Option<Template> = Optional(SECRET_TEMPLATE, "'{secret:client}'"),
        /// Where the id and the secret of the client are sent.
        place as "client_in": ClientPlace = Or(Words(PLACES), "'header'", "'body'"),
    }
}

/// Where the id and the secret of a client are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientPlace {
    /// In the header `authorization: Basic`.
    #[default]
    Basic,
    Body,
}

const PLACES: &[(&str, ClientPlace, &str)] = &[
    (
        "header",
        ClientPlace::Basic,
        "In the header `authorization: Basic`, which every server should accept (RFC 6749).",
    ),
    (
        "body",
        ClientPlace::Body,
        "In the body, as `client_id` and `client_secret`, which some servers require.",
    ),
];

pub const OAUTH: Tagged<OAuth> = Tagged(&[
    Kind::read_from::<ClientCredentialsKeys>(
        "client_credentials",
        "The client's own id and secret are exchanged for an access token.",
        |keys| ClientCredentialsKeys::read(keys).map(ClientCredentialsKeys::oauth),
    ),
    Kind::read_from::<RefreshTokenKeys>(
        "refresh_token",
        "A refresh token, which a person got once, is exchanged for an access token. If the server replaces the refresh token, \
        the new one is stored in the state directory; another one in the configuration replaces that.",
        |keys| RefreshTokenKeys::read(keys).map(RefreshTokenKeys::oauth),
    ),
    Kind::read_from::<ServiceAccountKeys>(
        "service_account",
        "A Google service account: a claim that is signed with its private key is exchanged for an access token.",
        |keys| ServiceAccountKeys::read(keys).map(ServiceAccountKeys::oauth),
    ),
]);

keys! {
    struct ClientCredentialsKeys {
        /// The token endpoint. It is https, or http to this machine.
        token_url: Url = Required(TOKEN_URL, "'https://id.example.com/oauth/token'"),
        /// The client.
        client: OAuthClient = Flat::<OAuthClient>::NEW,
        /// The scopes, separated by spaces. If unset, the server chooses.
        scope: Option<String> = Optional(TEXT, "'read'"),
        /// More parameters of the token request. One named `grant_type` or `scope` replaces the usual one, such as
        /// `grant_type = "account_credentials"` for Zoom.
        params: BTreeMap<String, Template> = Or(Named(SECRET_TEMPLATE, "PARAM"), "{}", "{ audience = 'https://api.example.com' }"),
    }
}

keys! {
    struct RefreshTokenKeys {
        /// The first refresh token, such as `{secret:refresh}`.
        refresh_token: Template = Required(SECRET_TEMPLATE, "'{secret:refresh}'"),
        /// The token endpoint. It is https, or http to this machine.
        token_url: Url = Required(TOKEN_URL, "'https://id.example.com/oauth/token'"),
        /// The client.
        client: OAuthClient = Flat::<OAuthClient>::NEW,
        /// The scopes, separated by spaces. If unset, those of the refresh token.
        scope: Option<String> = Optional(TEXT, "'read'"),
        /// More parameters of the token request. One named `grant_type` or `scope` replaces the usual one, such as
        /// `grant_type = "account_credentials"` for Zoom.
        params: BTreeMap<String, Template> = Or(Named(SECRET_TEMPLATE, "PARAM"), "{}", "{ audience = 'https://api.example.com' }"),
    }
}

keys! {
    struct ServiceAccountKeys {
        /// The key of the account: the JSON document that Google issues.
        key: Template = Or(SECRET_TEMPLATE, "'{secret}'", "'{secret:account}'"),
        /// The scopes, separated by spaces.
        scope: String = Required(TEXT, "'https://www.googleapis.com/auth/cloud-platform.read-only'"),
        /// The user on whose behalf the account acts, by domain-wide delegation. If unset, the account itself.
        subject: Option<String> = Optional(TEXT, "'someone@example.com'"),
        /// The token endpoint. If unset, that of the key.
        token_url: Option<Url> = Optional(TOKEN_URL, "'https://oauth2.googleapis.com/token'"),
    }
}

impl ClientCredentialsKeys {
    fn oauth(self) -> OAuth {
        OAuth {
            grant: Grant::ClientCredentials,
            token_url: Some(self.token_url),
            client: Some(self.client),
            scope: self.scope,
            params: self.params,
        }
    }
}

impl RefreshTokenKeys {
    fn oauth(self) -> OAuth {
        OAuth {
            grant: Grant::RefreshToken(self.refresh_token),
            token_url: Some(self.token_url),
            client: Some(self.client),
            scope: self.scope,
            params: self.params,
        }
    }
}

impl ServiceAccountKeys {
    fn oauth(self) -> OAuth {
        let (key, subject) = (self.key, self.subject);
        OAuth {
            grant: Grant::ServiceAccount { key, subject },
            token_url: self.token_url,
            client: None,
            scope: Some(self.scope),
            params: BTreeMap::new(),
        }
    }
}

/// A text that may contain secrets, but nothing of a request.
pub const SECRET_TEMPLATE: Leaf<Template> = Leaf {
    read: |item| {
        let template = template(item.clone())?;
        let is_secret = |variable: &Variable| matches!(variable, Variable::Secret(_));
        if template.variables().iter().all(is_secret) {
            return Some(template);
        }
        item.refuse(
            "only {secret} and {secret:NAME} have a value here",
            "write for example \"{secret:client}\"",
        )
    },
    shape: || TEMPLATE.shape(),
};

const TOKEN_URL: Leaf<Url> = Leaf {
    read: |item| match Url::parse(item.text()?) {
        Ok(url) if url.scheme() == "https" || (url.scheme() == "http" && is_loopback(&url)) => {
            Some(url)
        }
        _ => item.refuse(
            "expected an https URL, since secrets are sent to it",
            "write for example \"https://id.example.com/oauth/token\"",
        ),
    },
    shape: || {
        let schema = json!({ "type": "string", "pattern": "^https?://" });
        Shape::scalar("URL", schema)
    },
};

impl OAuth {
    #[must_use]
    pub const fn service_account_key(&self) -> Option<&Template> {
        match &self.grant {
            Grant::ServiceAccount { key, .. } => Some(key),
            Grant::ClientCredentials | Grant::RefreshToken(_) => None,
        }
    }
}
