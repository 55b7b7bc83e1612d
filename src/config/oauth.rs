use std::collections::BTreeMap;

use url::Url;

use super::Template;

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

/// The client of an OAuth 2 server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OAuthClient {
    /// Its id.
    pub id: Template,
    /// Its secret; `None` for a public client.
    pub secret: Option<Template>,
    /// Where both are sent.
    pub place: ClientPlace,
}

/// Where the id and the secret of a client are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientPlace {
    /// In the header `authorization: Basic`, which every server must accept (RFC 6749, 2.3.1).
    #[default]
    Basic,
    /// In the body, which some servers require.
    Body,
}

impl OAuth {
    /// Every template, for the secrets that they name.
    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        let of_grant = match &self.grant {
            Grant::ClientCredentials => None,
            Grant::RefreshToken(template) | Grant::ServiceAccount { key: template, .. } => {
                Some(template)
            }
        };
        let of_client = self.client.iter();
        let of_client = of_client.flat_map(|client| client.secret.iter().chain([&client.id]));
        of_grant
            .into_iter()
            .chain(of_client)
            .chain(self.params.values())
    }

    /// The key of a service account.
    #[must_use]
    pub const fn service_account_key(&self) -> Option<&Template> {
        match &self.grant {
            Grant::ServiceAccount { key, .. } => Some(key),
            Grant::ClientCredentials | Grant::RefreshToken(_) => None,
        }
    }
}
