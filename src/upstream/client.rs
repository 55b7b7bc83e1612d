use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use reqwest::StatusCode;
use thiserror::Error;
use tokio::sync::OnceCell;

use super::connection::Connection;
use super::http::Http;
use super::redactor::Redactor;
use super::request::RequestParts;
use super::{
    Exchange, Failure, Page, PageRequest, ReportedCost, Upstream, http, reported, transient,
};
use crate::clock::Deadline;
use crate::config::{self, Auth, CredentialLimit};
use crate::quota::LimitName;
use crate::secret::{Remedy, Secret, Shown};

/// What is configured of a credential's limits, by their names.
type Limits = BTreeMap<LimitName, CredentialLimit>;

/// The way to an upstream over HTTP.
#[derive(Debug)]
pub struct Client {
    upstream: Arc<config::Upstream>,
    secret: Secret,
    /// How answers tell of the credential's limits.
    limits: Limits,
    /// Built before the first charge: it is the slow part, and a run with nothing due makes none.
    http: OnceCell<Http>,
}

/// Why there is no way to an upstream: the configuration asks for what must not or cannot be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ClientError {
    /// A secret would go over the network for all to read.
    #[error(
        "upstreams.{upstream}.base_url is http to {host}, but a secret is sent only over https; \
        write https://"
    )]
    PlainHttp {
        /// To which upstream.
        upstream: String,
        /// Where that is.
        host: String,
    },
}

impl Client {
    /// The way of `credential` to its upstream, its secret read where the configuration says, once it is needed.
    ///
    /// # Errors
    /// Where a secret would go over plain http to another machine.
    pub fn of(credential: &config::Credential) -> Result<Self, ClientError> {
        let source = credential
            .secret
            .clone()
            .filter(|_| credential.upstream.auth != Auth::None);
        Ok(Self::new(
            Arc::clone(&credential.upstream),
            Secret::new(&credential.name, source),
        )?
        .with(credential.limits.clone()))
    }

    /// The way to `upstream` with that secret.
    ///
    /// # Errors
    /// As above.
    pub fn new(upstream: Arc<config::Upstream>, secret: Secret) -> Result<Self, ClientError> {
        let base = &upstream.base_url;
        if secret.is_some() && base.scheme() != "https" && !upstream.is_loopback() {
            return Err(ClientError::PlainHttp {
                upstream: upstream.name.clone(),
                host: http::host_of(base),
            });
        }
        Ok(Self {
            upstream,
            secret,
            limits: Limits::new(),
            http: OnceCell::new(),
        })
    }

    /// The same, where answers tell of these limits.
    #[must_use]
    pub fn with(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    async fn http(&self) -> Result<&Http, Failure> {
        let built = self
            .http
            .get_or_try_init(|| async { Http::new(&self.upstream) })
            .await;
        built.map_err(Failure::NotSent)
    }

    /// A token runs out: after a 401 the next attempt has another one, where a command gives one.
    async fn renewed(&self, shown: &Shown, message: String) -> Failure {
        match self.secret.refused(shown).await {
            Ok(Remedy::Renewed) => transient(format!("{message}; fetched a new secret")),
            Ok(Remedy::Nothing) => Failure::Denied(message),
            Err(error) => Failure::Denied(format!("{message}; {error}")),
        }
    }
}

#[async_trait]
impl Upstream for Client {
    async fn ready(&self) -> Result<(), Failure> {
        self.secret
            .ready()
            .await
            .map_err(|error| Failure::NotSent(error.to_string()))?;
        self.http().await.map(drop)
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
        let mut reported = ReportedCost::default();
        Exchange {
            page: self.ask(request, connection, deadline, &mut reported).await,
            reported,
        }
    }
}

impl Client {
    /// Sends a request and understands the answer; what that tells of the quota is `told`.
    async fn ask(
        &self,
        request: PageRequest<'_>,
        connection: Connection,
        deadline: Deadline,
        reported: &mut ReportedCost,
    ) -> Result<Page, Failure> {
        let shown = self
            .secret
            .show()
            .await
            .map_err(|error| Failure::NotSent(error.to_string()))?;
        let parts = RequestParts::new(&self.upstream, &self.limits, request)?;
        let sent = parts.with_secret(shown.secret.as_ref())?;
        let redactor = Redactor::new(shown.secret.as_ref());
        let http = self.http().await?;
        let answer = http.exchange(&sent, connection, deadline, redactor).await?;
        reported.limits = reported::limits(&parts, &answer);
        let status = answer.status;
        match answer.understand(&parts, reported).await {
            Err(Failure::Denied(message)) if status == StatusCode::UNAUTHORIZED => {
                Err(self.renewed(&shown, message).await)
            }
            understood => {
                if understood.is_ok() {
                    self.secret.taken(&shown).await;
                }
                understood
            }
        }
    }
}
