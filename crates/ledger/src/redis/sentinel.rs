//! Asks Sentinels for the primary.

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::{Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo};
use redis::{RedisResult, TlsCertificates};

use super::node::{ConnectError, Node, open};

/// Sentinels that watch one primary.
pub struct Sentinels {
    sentinels: Vec<Client>,
    service: String,
    /// How to connect to the primary; the address is the one that the Sentinels report.
    primary: RedisConnectionInfo,
    is_tls: bool,
    certificates: Option<TlsCertificates>,
}

impl Sentinels {
    pub fn new(
        addresses: Vec<ConnectionAddr>,
        service: String,
        logins: (RedisConnectionInfo, RedisConnectionInfo),
        certificates: Option<TlsCertificates>,
    ) -> RedisResult<Self> {
        let (of_sentinels, primary) = logins;
        let is_tls = matches!(addresses.first(), Some(ConnectionAddr::TcpTls { .. }));
        let sentinels = addresses.into_iter().map(|address| {
            let info = address.into_connection_info()?;
            open(
                info.set_redis_settings(of_sentinels.clone()),
                certificates.as_ref(),
            )
        });
        Ok(Self {
            sentinels: sentinels.collect::<RedisResult<_>>()?,
            service,
            primary,
            is_tls,
            certificates,
        })
    }

    /// Connects to the primary that the first Sentinel to reply names. All are requested at once, since one that is down would
    /// use up the deadline. Returns the failure that says most about the cause.
    pub async fn connect(&self) -> Result<Node, ConnectError> {
        let mut attempts: FuturesUnordered<_> = self
            .sentinels
            .iter()
            .map(|sentinel| Box::pin(self.connect_by(sentinel)))
            .collect();
        let mut failure = None;
        while let Some(attempt) = attempts.next().await {
            match (attempt, &failure) {
                (Ok(connection), _) => return Ok(connection),
                (Err(error), Some(known)) if error.says_less_than(known) => {}
                (Err(error), _) => failure = Some(error),
            }
        }
        Err(failure.unwrap_or_else(|| ConnectError::UnknownService(self.service.clone())))
    }

    async fn connect_by(&self, sentinel: &Client) -> Result<Node, ConnectError> {
        let named = self.ask(sentinel).await.map_err(ConnectError::Sentinel)?;
        let (host, port) =
            named.ok_or_else(|| ConnectError::UnknownService(self.service.clone()))?;
        let connected = async {
            let client = open(self.info(host, port)?, self.certificates.as_ref())?;
            Node::connect(&client).await
        };
        connected.await.map_err(ConnectError::Redis)
    }

    async fn ask(&self, sentinel: &Client) -> RedisResult<Option<(String, u16)>> {
        let mut sentinel = Node::connect(sentinel).await?;
        redis::cmd("SENTINEL")
            .arg("GET-MASTER-ADDR-BY-NAME")
            .arg(&self.service)
            .query_async(sentinel.connection())
            .await
    }

    fn info(&self, host: String, port: u16) -> RedisResult<ConnectionInfo> {
        let address = match self.is_tls {
            true => ConnectionAddr::TcpTls {
                host,
                port,
                insecure: false,
                tls_params: None,
            },
            false => ConnectionAddr::Tcp(host, port),
        };
        let info = address.into_connection_info()?;
        Ok(info.set_redis_settings(self.primary.clone()))
    }
}
