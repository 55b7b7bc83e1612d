//! A token request, and what its response means. Nothing here sends or stores anything.

use std::fmt::Write;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Method, Request};
use ring::digest::{SHA256, digest};
use secrecy::zeroize::Zeroizing;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use url::{Url, form_urlencoded};

use super::Token;
use super::service_account::{GRANT_TYPE, ServiceAccountKey};
use crate::Failure;
use crate::endpoint::host_of;
use crate::response::Response;
use crate::response::refusal;
use ingest_config::{ClientPlace, Grant, OAuth, OAuthClient, Template, is_loopback};
use ingest_quota::Timestamp;
use ingest_secret::SecretsInUse;

/// The longest lifetime of a token that we accept as it is reported.
const LONGEST_LIFETIME: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A token request, ready to be sent.
pub struct TokenRequest {
    pub url: Url,
    form: Vec<(String, SecretString)>,
    authorization: Option<SecretString>,
    /// The client's secret, which `authorization` contains in an encoding.
    client_secret: Option<SecretString>,
}

/// The token request of a grant. `refresh` is the refresh token that the server issued last.
///
/// # Errors
/// A secret is unfit for it.
pub fn token_request(
    oauth: &OAuth,
    secrets: &SecretsInUse,
    refresh: Option<&SecretString>,
    now: Timestamp,
) -> Result<TokenRequest, String> {
    let mut form = TokenForm::default();
    let url = match &oauth.grant {
        Grant::ClientCredentials => {
            form.add("grant_type", "client_credentials");
            configured_url(oauth)?
        }
        Grant::RefreshToken(configured) => {
            form.add("grant_type", "refresh_token");
            match refresh {
                Some(refresh) => form.add("refresh_token", refresh.expose_secret()),
                None => form.add("refresh_token", &revealed(configured, secrets)?),
            }
            configured_url(oauth)?
        }
        Grant::ServiceAccount { key, subject } => {
            let key = ServiceAccountKey::parse(&revealed(key, secrets)?)?;
            let url = service_account_url(oauth, &key)?;
            let scope = oauth.scope.as_deref();
            let assertion = key.assertion(url.as_str(), scope, subject.as_deref(), now)?;
            form.add("grant_type", GRANT_TYPE);
            form.add("assertion", assertion.expose_secret());
            url
        }
    };
    // The scope of a service account is part of its claim.
    if let Some(scope) = oauth.scope.as_ref().filter(|_| oauth.client.is_some()) {
        form.add("scope", scope);
    }
    for (name, template) in &oauth.params {
        form.set(name, &revealed(template, secrets)?);
    }
    let authorization = match &oauth.client {
        Some(client) => identify(client, secrets, &mut form)?,
        None => None,
    };
    let client_secret = oauth
        .client
        .as_ref()
        .and_then(|client| client.secret.as_ref());
    let client_secret = client_secret.map(|secret| revealed(secret, secrets));
    Ok(TokenRequest {
        url,
        form: form.0,
        authorization,
        client_secret: client_secret
            .transpose()?
            .map(|secret| secret.as_str().into()),
    })
}

/// Identifies the client in the form, or by the value of `authorization` that this returns.
fn identify(
    client: &OAuthClient,
    secrets: &SecretsInUse,
    form: &mut TokenForm,
) -> Result<Option<SecretString>, String> {
    let id = revealed(&client.id, secrets)?;
    let Some(secret) = &client.secret else {
        form.add("client_id", &id);
        return Ok(None);
    };
    let secret = revealed(secret, secrets)?;
    match client.place {
        ClientPlace::Body => {
            form.add("client_id", &id);
            form.add("client_secret", &secret);
            Ok(None)
        }
        // RFC 6749, 2.3.1: both are encoded as in a form first.
        ClientPlace::Basic => Ok(Some(basic(&encoded(&id), &encoded(&secret)))),
    }
}

fn encoded(text: &str) -> Zeroizing<String> {
    Zeroizing::new(form_urlencoded::byte_serialize(text.as_bytes()).collect())
}

/// The value of `authorization: Basic`.
pub fn basic(user: &str, password: &str) -> SecretString {
    let both = Zeroizing::new(format!("{user}:{password}"));
    let encoded = Zeroizing::new(STANDARD.encode(&*both));
    format!("Basic {}", *encoded).into()
}

fn configured_url(oauth: &OAuth) -> Result<Url, String> {
    oauth
        .token_url
        .clone()
        .ok_or_else(|| "auth.oauth has no token_url".to_owned())
}

fn service_account_url(oauth: &OAuth, key: &ServiceAccountKey) -> Result<Url, String> {
    const GOOGLE: &str = "https://oauth2.googleapis.com/token";
    if let Some(url) = &oauth.token_url {
        return Ok(url.clone());
    }
    let url = key.token_uri.as_deref().unwrap_or(GOOGLE);
    Url::parse(url)
        .ok()
        .filter(|url| url.scheme() == "https" || is_loopback(url))
        .ok_or_else(|| "the service account's token_uri is not an https URL".to_owned())
}

fn revealed(template: &Template, secrets: &SecretsInUse) -> Result<Zeroizing<String>, String> {
    let text = template.reveal(None, |name| secrets.get(name));
    text.ok_or_else(|| format!("`{template}` contains a variable without a value"))
}

/// Hashes of what stored tokens depend on. They say nothing about the secrets.
#[derive(Debug)]
pub struct Dependencies {
    /// What a stored refresh token depends on: a new one in the configuration replaces it.
    pub grant: String,
    /// What a stored access token depends on besides.
    pub request: String,
}

/// What the tokens of a grant depend on.
///
/// # Errors
/// A secret is missing.
pub fn dependencies(oauth: &OAuth, secrets: &SecretsInUse) -> Result<Dependencies, String> {
    let url = oauth.token_url.as_ref().map_or("", Url::as_str);
    let mut grant = Zeroizing::new(url.to_owned());
    let mut add = |text: &str| {
        grant.push('\n');
        grant.push_str(text);
    };
    if let Some(client) = &oauth.client {
        add(&revealed(&client.id, secrets)?);
    }
    match &oauth.grant {
        Grant::ClientCredentials => add("client_credentials"),
        Grant::RefreshToken(token) => add(&revealed(token, secrets)?),
        Grant::ServiceAccount { key, subject } => {
            add(&revealed(key, secrets)?);
            add(subject.as_deref().unwrap_or_default());
        }
    }
    let mut request = oauth.scope.clone().unwrap_or_default();
    for (name, template) in &oauth.params {
        request.push_str(&format!("\n{name}={template}"));
    }
    Ok(Dependencies {
        grant: hash(&grant),
        request: hash(&request),
    })
}

fn hash(text: &str) -> String {
    let mut hash = String::new();
    for byte in digest(&SHA256, text.as_bytes()).as_ref() {
        // Writing to a `String` cannot fail.
        let _ = write!(hash, "{byte:02x}");
    }
    hash
}

#[derive(Default)]
struct TokenForm(Vec<(String, SecretString)>);

impl TokenForm {
    fn add(&mut self, name: &str, value: &str) {
        self.0.push((name.to_owned(), value.into()));
    }

    /// Adds a parameter in place of one with this name: some servers have a `grant_type` of their own.
    fn set(&mut self, name: &str, value: &str) {
        self.0.retain(|(other, _)| other != name);
        self.add(name, value);
    }
}

impl TokenRequest {
    /// The request as it is sent.
    ///
    /// # Errors
    /// The client's id or secret cannot be sent in a header.
    pub fn http(&self) -> Result<Request, Failure> {
        let mut request = Request::new(Method::POST, self.url.clone());
        let headers = request.headers_mut();
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/x-www-form-urlencoded"),
        );
        if let Some(authorization) = &self.authorization {
            let value = HeaderValue::try_from(authorization.expose_secret());
            let mut value = value.map_err(|_| {
                Failure::NotSent("the client's id or secret cannot be sent in a header".to_owned())
            })?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let mut body = form_urlencoded::Serializer::new(String::new());
        for (name, value) in &self.form {
            body.append_pair(name, value.expose_secret());
        }
        *request.body_mut() = Some(body.finish().into());
        Ok(request)
    }

    /// What no message may contain.
    pub fn secrets(&self) -> Vec<SecretString> {
        const PUBLIC: [&str; 4] = ["grant_type", "scope", "client_id", "audience"];
        let secret = self
            .form
            .iter()
            .filter(|(name, _)| !PUBLIC.contains(&name.as_str()));
        secret
            .map(|(_, value)| value.clone())
            .chain(self.authorization.clone())
            .chain(self.client_secret.clone())
            .collect()
    }
}

/// The tokens in a response.
///
/// # Errors
/// The response contains none. A refusal is a `Denied`; a failure that may pass is a `Transient`.
pub fn tokens(response: &Response, to: &Url, now: Timestamp) -> Result<Token, Failure> {
    let host = host_of(to);
    if !response.status.is_success() {
        return Err(refused(response, &host, now));
    }
    if !response.is_whole() {
        let why = format!("the response of the token endpoint {host} is incomplete");
        return Err(crate::transient(why));
    }
    let document: Value = serde_json::from_str(&response.text_to_show()).unwrap_or_default();
    let text = |name: &str| document.get(name)?.as_str().map(SecretString::from);
    let Some(access) = text("access_token").filter(is_token) else {
        let why = without_token(response, &document);
        let why = format!("the token endpoint {host} returned no access_token: {why}");
        // A page of a proxy, or what is not what the configuration expects, rejects no secret.
        let is_rejected = document.get("error").is_some() && !passes(&document);
        return Err(match is_rejected {
            true => Failure::Denied(why),
            false => crate::transient(why),
        });
    };
    Ok(Token {
        access,
        refresh: text("refresh_token").filter(is_token),
        obtained_at: now,
        expires_at: lifetime(&document).map(|lifetime| now + lifetime),
    })
}

/// Whether the endpoint says that it failed itself (RFC 6749, 4.1.2.1): it rejects no secret.
fn passes(document: &Value) -> bool {
    let error = document.get("error").and_then(Value::as_str);
    matches!(error, Some("temporarily_unavailable" | "server_error"))
}

/// Whether a header can carry it.
fn is_token(token: &SecretString) -> bool {
    let token = token.expose_secret();
    !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic())
}

/// `expires_in`, in seconds: a number, or a string with one.
fn lifetime(document: &Value) -> Option<Duration> {
    let value = document.get("expires_in")?;
    let seconds = value.as_f64().or_else(|| value.as_str()?.parse().ok())?;
    let lifetime = Duration::try_from_secs_f64(seconds).ok()?;
    Some(lifetime.min(LONGEST_LIFETIME))
}

/// What a response means that is no success.
fn refused(response: &Response, host: &str, now: Timestamp) -> Failure {
    let by_status = refusal::failure_of(response, &[], now);
    let message = |by_status: &Failure| format!("the token endpoint {host} responded: {by_status}");
    match by_status {
        // The endpoint counts no quota of ours: its "slow down" pauses the token request and closes no limit.
        Failure::Transient { retry_after, .. } | Failure::SlowDown { retry_after, .. } => {
            Failure::Transient {
                message: message(&by_status),
                retry_after,
                limit: None,
            }
        }
        _ => {
            let document = serde_json::from_str(&response.text_to_show()).unwrap_or_default();
            let (status, reason) = (response.status.as_u16(), reason(response, &document));
            let why = format!("the token endpoint {host} refused: {status} {reason}");
            match passes(&document) {
                true => crate::transient(why),
                false => Failure::Denied(why),
            }
        }
    }
}

/// What a response has in place of a token. Its values stay unsaid: one of them can be the token, at another place.
fn without_token(response: &Response, document: &Value) -> String {
    match document.as_object() {
        Some(members) if members.contains_key("error") => reason(response, document),
        Some(members) => {
            let names: Vec<&str> = members.keys().map(String::as_str).collect();
            let names = response.shown(&names.join(", "));
            match members.contains_key("access_token") {
                true => format!(
                    "its members are {names}, and access_token is no text that a header can carry"
                ),
                false => format!("its members are {names}"),
            }
        }
        None => "it is no JSON object".to_owned(),
    }
}

/// Why the endpoint refused: `invalid_grant: Token has been revoked`.
fn reason(response: &Response, document: &Value) -> String {
    let text = |name: &str| document.get(name)?.as_str();
    match (text("error"), text("error_description")) {
        (Some(error), Some(description)) => {
            response.shown(&format!("{error}: {}", description.trim_end_matches('.')))
        }
        _ => match refusal::said(response, document) {
            said if said.is_empty() => "without a reason".to_owned(),
            said => said,
        },
    }
}
