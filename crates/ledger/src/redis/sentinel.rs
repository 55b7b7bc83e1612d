//! Asks Sentinels for the primary.

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::{Client, ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo};
use redis::{RedisResult, TlsCertificates};

use super::errors::Failure;
use super::node::{Node, open};

/// Sentinels that watch one primary.
pub struct Sentinels {
    pub sentinels: Vec<Client>,
    pub service: String,
    /// How to connect to the primary; its address is the one that the Sentinels report.
    pub primary: RedisConnectionInfo,
    pub is_tls: bool,
    pub certificates: Option<TlsCertificates>,
}

impl Sentinels {
    /// Connects to the primary that the first Sentinel to reply names. All are requested at once, since one that is down would
    /// use up the deadline. Returns the failure that says most about the cause.
    pub async fn connect(&self) -> Result<Node, Failure> {
        let attempts = self.sentinels.iter();
        let mut attempts: FuturesUnordered<_> = attempts
            .map(|sentinel| Box::pin(self.connect_by(sentinel)))
            .collect();
        let mut failures = Vec::new();
        while let Some(attempt) = attempts.next().await {
            match attempt {
                Ok(connection) => return Ok(connection),
                Err(failure) => failures.push(failure),
            }
        }
        let most = failures.into_iter().max_by_key(Failure::weight);
        Err(most.unwrap_or_else(|| Failure::UnknownService(self.service.clone())))
    }

    async fn connect_by(&self, sentinel: &Client) -> Result<Node, Failure> {
        let named = self.ask(sentinel).await.map_err(Failure::Sentinel)?;
        let (host, port) = named.ok_or_else(|| Failure::UnknownService(self.service.clone()))?;
        let address = match self.is_tls {
            true => ConnectionAddr::TcpTls {
                host,
                port,
                insecure: false,
                tls_params: None,
            },
            false => ConnectionAddr::Tcp(host, port),
        };
        let connected = async {
            let info = address.into_connection_info()?;
            let info = info.set_redis_settings(self.primary.clone());
            Node::connect(&open(info, self.certificates.as_ref())?).await
        };
        connected.await.map_err(Failure::Connecting)
    }

    async fn ask(&self, sentinel: &Client) -> RedisResult<Option<(String, u16)>> {
        let mut ask = redis::cmd("SENTINEL");
        ask.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.service);
        let answer = Node::connect(sentinel).await?.send(&ask).await?;
        let answer = answer.extract_error()?;
        Ok(redis::from_redis_value(answer)?)
    }
}
