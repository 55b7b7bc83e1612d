//! The client of one credential: builds a request, sends it once, and interprets the response.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use reqwest::StatusCode;
use thiserror::Error;
use tokio::sync::OnceCell;

use super::authorization::Authorization;
use super::connection::Connection;
use super::endpoint::{Endpoint, host_of};
use super::http::Http;
use super::redactor::Redactor;
use super::request::{RequestParts, ShownRequest};
use super::response::Response;
use super::{Exchange, Failure, Page, PageRequest, Upstream};
use ingest_base::clock::Deadline;
use ingest_base::saved_response::SavedResponse;
use ingest_config as config;
use ingest_config::CredentialLimit;
use ingest_quota::LimitName;
use ingest_secret::{Secrets, SecretsInUse};

/// The configuration of a credential's limits, by name.
type Limits = BTreeMap<LimitName, CredentialLimit>;

/// Sends requests to an upstream over HTTP, with the secrets of one credential.
#[derive(Debug)]
pub struct Client {
    upstream: Arc<config::Upstream>,
    authorization: Authorization,
    /// How responses report the state of the credential's limits.
    limits: Limits,
    /// Built before the first charge, since this is slow. A run with nothing due does not build it.
    http: OnceCell<Http>,
}

/// Why a client cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ClientError {
    /// A secret would be sent unencrypted.
    #[error(
        "upstreams.{upstream}.base_url is http to {host}, but a secret is sent only over https; \
        write https://"
    )]
    PlainHttp { upstream: String, host: String },
}

impl Client {
    /// The client of `credential`. Its secrets are read when they are first needed; access tokens are stored in the state
    /// directory.
    ///
    /// # Errors
    /// A secret would be sent over plain http to another machine.
    pub fn for_credential(
        credential: &config::Credential,
        state_dir: &Path,
    ) -> Result<Self, ClientError> {
        let mut client = Self::new(Arc::clone(&credential.upstream), Secrets::new(credential))?;
        client.authorization = client.authorization.stored_in(state_dir, &credential.name);
        Ok(client.with(credential.limits.clone()))
    }

    /// The client of `upstream` with these secrets.
    ///
    /// # Errors
    /// A secret would be sent over plain http to another machine.
    pub fn new(
        upstream: Arc<config::Upstream>,
        secrets: impl Into<Secrets>,
    ) -> Result<Self, ClientError> {
        let authorization = Authorization::new(&upstream, secrets.into());
        let base = &upstream.base_url;
        if authorization.sends_secrets() && base.scheme() != "https" && !upstream.is_loopback() {
            return Err(ClientError::PlainHttp {
                upstream: upstream.name.clone(),
                host: host_of(base),
            });
        }
        Ok(Self {
            upstream,
            authorization,
            limits: Limits::new(),
            http: OnceCell::new(),
        })
    }

    /// The same client, whose responses report the state of these limits.
    #[must_use]
    pub fn with(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    async fn http(&self) -> Result<&Http, Failure> {
        let built = self
            .http
            .get_or_try_init(|| async { Http::new(Endpoint::from(&*self.upstream)) })
            .await;
        built.map_err(Failure::NotSent)
    }
}

#[async_trait]
impl Upstream for Client {
    async fn ready(&self) -> Result<(), Failure> {
        self.authorization.reveal().await?;
        self.http().await.map(drop)
    }

    async fn secrets(&self) -> Result<Option<SecretsInUse>, Failure> {
        if !self.authorization.has_secrets() {
            return Ok(None);
        }
        self.authorization.secrets().await.map(Some)
    }

    async fn connect(&self) -> Result<Connection, Failure> {
        self.http().await?.connect().await
    }

    async fn fetch(
        &self,
        request: PageRequest<'_>,
        connection: Connection,
        deadline: Deadline,
    ) -> Exchange {
        // Stands until the request has a result.
        let mut exchange = Exchange::from(Err(Failure::TooLate));
        exchange.page = self.ask(request, connection, deadline, &mut exchange).await;
        exchange
    }
}

impl Client {
    /// Interprets a saved response as that of this request.
    pub async fn read_saved(&self, request: PageRequest<'_>, saved: &SavedResponse) -> Exchange {
        let mut exchange = Exchange::from(Err(Failure::TooLate));
        exchange.page = match RequestParts::new(&self.upstream, &self.limits, request) {
            Ok(parts) => {
                let response = Response::saved(saved, self.upstream.max_body);
                self.interpret(&parts, response, &mut exchange).await
            }
            Err(failure) => Err(failure),
        };
        exchange
    }

    /// Checks that the secrets can be read, and that an access token can be requested with them. Requests none.
    ///
    /// # Errors
    /// A secret is missing, or fits no token request.
    pub async fn has_secrets(&self) -> Result<(), Failure> {
        self.authorization.check().await
    }

    /// The request as it would be sent, without its secrets.
    ///
    /// # Errors
    /// No request can be built.
    pub fn show(&self, request: PageRequest<'_>) -> Result<ShownRequest, Failure> {
        RequestParts::new(&self.upstream, &self.limits, request).map(|parts| parts.shown())
    }

    /// Interprets a response. Its class, and what it reports about the quota, are put into `exchange`.
    async fn interpret(
        &self,
        parts: &RequestParts<'_>,
        response: Response,
        exchange: &mut Exchange,
    ) -> Result<Page, Failure> {
        let response = response.of(&self.upstream, parts.format());
        response.understand(parts, exchange).await
    }

    async fn ask(
        &self,
        request: PageRequest<'_>,
        connection: Connection,
        deadline: Deadline,
        exchange: &mut Exchange,
    ) -> Result<Page, Failure> {
        let carried = self.authorization.current().await?;
        let parts = RequestParts::new(&self.upstream, &self.limits, request)?;
        let sent = parts.authorized(&carried)?;
        let redactor = Redactor::new(carried.confidential(&self.upstream.auth));
        let http = self.http().await?;
        let response = http.exchange(&sent, connection, deadline, redactor).await?;
        let status = response.status;
        match self.interpret(&parts, response, exchange).await {
            // A token or a secret may have been replaced meanwhile: then the next attempt succeeds, and nobody has to act.
            Err(Failure::Denied(message)) if status == StatusCode::UNAUTHORIZED => {
                let failure = self.authorization.rejected(&carried, message).await;
                // With a new secret the request is worth another attempt, whatever the rule says.
                if let Some(classified) = &mut exchange.classified
                    && !matches!(failure, Failure::Denied(_))
                {
                    classified.rule = None;
                }
                Err(failure)
            }
            understood => {
                if understood.is_ok() {
                    self.authorization.accepted(&carried).await;
                }
                understood
            }
        }
    }
}

/// A client that keeps the last exchange.
#[derive(Debug)]
pub struct Recorder {
    client: Client,
    last: Mutex<Option<Exchange>>,
}

impl Recorder {
    /// Records the requests of a client.
    pub const fn new(client: Client) -> Self {
        Self {
            client,
            last: Mutex::new(None),
        }
    }

    /// Returns the result of the last request; `None`: none was sent.
    pub fn last(&self) -> Option<Exchange> {
        let mut last = self.last.lock();
        last.take()
    }
}

#[async_trait]
impl Upstream for Recorder {
    async fn ready(&self) -> Result<(), Failure> {
        self.client.ready().await
    }

    async fn secrets(&self) -> Result<Option<SecretsInUse>, Failure> {
        self.client.secrets().await
    }

    async fn connect(&self) -> Result<Connection, Failure> {
        self.client.connect().await
    }

    async fn fetch(
        &self,
        request: PageRequest<'_>,
        connection: Connection,
        deadline: Deadline,
    ) -> Exchange {
        let exchange = self.client.fetch(request, connection, deadline).await;
        let mut last = self.last.lock();
        *last = Some(exchange.clone());
        exchange
    }
}
