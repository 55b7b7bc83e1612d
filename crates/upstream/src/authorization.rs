//! How a request carries the secrets of its credential.

use std::path::Path;

use reqwest::Request;
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use secrecy::zeroize::Zeroizing;
use secrecy::{ExposeSecret, SecretString};

use super::token::{AccessToken, TokenInUse, basic};
use super::{Failure, transient};
use ingest_config as config;
use ingest_config::{Auth, Template};
use ingest_secret::{Remedy, Secrets, SecretsInUse};

/// The secrets of a credential, and the access token that they are exchanged for.
#[derive(Debug)]
pub struct Authorization {
    secrets: Secrets,
    token: Option<AccessToken>,
}

/// The secrets and the access token that one request carries.
pub struct Carried {
    pub secrets: SecretsInUse,
    token: Option<TokenInUse>,
}

impl Authorization {
    /// The authorization of requests to `upstream`. Nothing is read or requested yet.
    pub fn new(upstream: &config::Upstream, secrets: Secrets) -> Self {
        let token = match &upstream.auth {
            Auth::OAuth(oauth) => Some(AccessToken::new((**oauth).clone(), upstream)),
            Auth::None | Auth::Header(_) | Auth::Query(_) | Auth::Bearer | Auth::Basic { .. } => {
                None
            }
        };
        Self { secrets, token }
    }

    /// The same authorization, whose access tokens are stored in the state directory.
    pub fn stored_in(self, state_dir: &Path, credential: &str) -> Self {
        Self {
            token: self
                .token
                .map(|token| token.stored_in(state_dir, credential)),
            ..self
        }
    }

    /// Whether requests carry anything secret.
    pub fn sends_secrets(&self) -> bool {
        self.secrets.is_some() || self.token.is_some()
    }

    /// Whether the credential has a secret.
    pub fn has_secrets(&self) -> bool {
        self.secrets.is_some()
    }

    /// What one request carries. A secret is read and a token is requested if that is necessary.
    ///
    /// # Errors
    /// A secret is missing, or there is no access token. Nothing was charged for it.
    pub async fn reveal(&self) -> Result<Carried, Failure> {
        let secrets = self.secrets().await?;
        let token = match &self.token {
            Some(token) => Some(token.reveal(&secrets).await?),
            None => None,
        };
        Ok(Carried { secrets, token })
    }

    /// The same after the request was charged: a token that is there is not renewed, since that takes long.
    ///
    /// # Errors
    /// As [`Self::reveal`].
    pub async fn current(&self) -> Result<Carried, Failure> {
        let secrets = self.secrets().await?;
        let token = match &self.token {
            Some(token) => Some(token.current(&secrets).await?),
            None => None,
        };
        Ok(Carried { secrets, token })
    }

    /// Reads the secrets.
    ///
    /// # Errors
    /// One is missing.
    pub async fn secrets(&self) -> Result<SecretsInUse, Failure> {
        let revealed = self.secrets.reveal().await;
        revealed.map_err(|error| Failure::NotSent(error.to_string()))
    }

    /// Reads the secrets, and builds the request for an access token of which they are a part. It is not sent.
    ///
    /// # Errors
    /// A secret is missing, or is none that a token can be requested with.
    pub async fn check(&self) -> Result<(), Failure> {
        let secrets = self.secrets().await?;
        let token = self.token.as_ref();
        token.map_or(Ok(()), |token| token.check(&secrets))
    }

    /// Records that the upstream accepted what a request carried.
    pub async fn accepted(&self, carried: &Carried) {
        self.secrets.accepted(&carried.secrets).await;
        if let (Some(token), Some(used)) = (&self.token, &carried.token) {
            token.accepted(used).await;
        }
    }

    /// What a 401 means: if there is another token or secret now, the next attempt may succeed.
    pub async fn rejected(&self, carried: &Carried, message: String) -> Failure {
        let remedy = match (&self.token, &carried.token) {
            (Some(token), Some(used)) => match token.rejected(used, &carried.secrets).await {
                // Whether there is another token shows when the token endpoint is back.
                Err(failure @ (Failure::Transient { .. } | Failure::Unreachable(_))) => {
                    return transient(format!("{message}; {failure}"));
                }
                remedy => remedy.map_err(|failure| failure.to_string()),
            },
            _ => self
                .secrets
                .rejected(&carried.secrets)
                .await
                .map_err(|error| error.to_string()),
        };
        match remedy {
            Ok(Remedy::Renewed) => transient(format!("{message}; fetched a new secret")),
            Ok(Remedy::Nothing) => Failure::Denied(message),
            Err(why) => Failure::Denied(format!("{message}; {why}")),
        }
    }
}

impl Carried {
    /// Everything that no message and no landed page may contain.
    pub fn confidential(&self, auth: &Auth) -> Vec<SecretString> {
        let secrets = self.secrets.all().cloned();
        let token = self.token.iter().map(|token| token.access.clone());
        // The redactor knows base64 of each secret alone. Joined with the user, a password encodes to another text.
        let basic = match auth {
            Auth::Basic { user, password } => self.basic(user, password).ok(),
            Auth::None | Auth::Header(_) | Auth::Query(_) | Auth::Bearer | Auth::OAuth(_) => None,
        };
        let basic = basic.and_then(|value| {
            let encoded = value.expose_secret().strip_prefix("Basic ");
            encoded.map(SecretString::from)
        });
        secrets.chain(token).chain(basic).collect()
    }

    /// Adds to a request what its upstream requires.
    ///
    /// # Errors
    /// A secret cannot be sent in this way.
    pub fn authorize(&self, request: &mut Request, auth: &Auth) -> Result<(), Failure> {
        let own = || self.secrets.own().map(ExposeSecret::expose_secret);
        match (auth, own()) {
            (Auth::Query(name), Some(secret)) => {
                let mut query = request.url_mut().query_pairs_mut();
                query.append_pair(name, secret);
                Ok(())
            }
            (Auth::Header(name), Some(secret)) => add_header(request, name, secret),
            (Auth::Bearer, Some(secret)) => bearer(request, secret),
            (Auth::Basic { user, password }, _) => {
                let value = self.basic(user, password)?;
                add_header(request, AUTHORIZATION.as_str(), value.expose_secret())
            }
            (Auth::OAuth(_), _) => match &self.token {
                Some(token) => bearer(request, token.access.expose_secret()),
                None => Ok(()),
            },
            (Auth::None | Auth::Query(_) | Auth::Header(_) | Auth::Bearer, _) => Ok(()),
        }
    }

    fn basic(&self, user: &Template, password: &Template) -> Result<SecretString, Failure> {
        let text = |template: &Template| {
            let text = template.reveal(None, |name| self.secrets.get(name));
            text.ok_or_else(|| no_value(template))
        };
        Ok(basic(&text(user)?, &text(password)?))
    }
}

/// A template names a secret that the credential does not have.
pub fn no_value(template: &Template) -> Failure {
    Failure::NotSent(format!(
        "`{template}` contains a secret that the credential does not have"
    ))
}

fn bearer(request: &mut Request, token: &str) -> Result<(), Failure> {
    let value = Zeroizing::new(format!("Bearer {token}"));
    add_header(request, AUTHORIZATION.as_str(), &value)
}

/// Adds a header that no log may contain.
pub fn add_header(request: &mut Request, name: &str, secret: &str) -> Result<(), Failure> {
    let unfit = || {
        Failure::NotSent(format!(
            "the secret is not a valid value of the header `{name}`"
        ))
    };
    let name = HeaderName::try_from(name).map_err(|_| unfit())?;
    let mut value = HeaderValue::try_from(secret).map_err(|_| unfit())?;
    value.set_sensitive(true);
    request.headers_mut().insert(name, value);
    Ok(())
}
