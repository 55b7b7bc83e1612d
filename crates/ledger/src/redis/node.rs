//! A connection to one server. Its answers have a bound, since another program on the port could fill the memory.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ConnectionInfo, RedisConnectionInfo,
    RedisResult, TlsCertificates, Value,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinSet;

use ingest_base::bounded::too_long;

/// The most bytes that are read of what a command is answered. A report of 10,000 limits has half of them.
const ANSWER: u64 = 4 << 20;

/// A connection that several tasks use at once.
#[derive(Clone)]
pub struct Node {
    connection: MultiplexedConnection,
    /// The task that reads and writes it, which ends with its last user; none where the library drives it.
    _driver: Arc<JoinSet<()>>,
}

impl Node {
    /// Connects to a server. Over TLS the server has proved who it is, and the library connects.
    pub async fn connect(client: &Client) -> RedisResult<Self> {
        let info = client.get_connection_info();
        let settings = info.redis_settings();
        match info.addr() {
            ConnectionAddr::Tcp(host, port) => {
                Self::over(TcpStream::connect((host.as_str(), *port)).await?, settings).await
            }
            ConnectionAddr::Unix(path) => {
                Self::over(UnixStream::connect(path).await?, settings).await
            }
            _ => {
                let config = patient();
                let connection = client.get_multiplexed_async_connection_with_config(&config);
                Ok(Self {
                    connection: connection.await?,
                    _driver: Arc::default(),
                })
            }
        }
    }

    async fn over(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        settings: &RedisConnectionInfo,
    ) -> RedisResult<Self> {
        let stream = Bounded { stream, read: 0 };
        let (connection, driver) =
            MultiplexedConnection::new_with_config(settings, stream, patient()).await?;
        let mut tasks = JoinSet::new();
        tasks.spawn(driver);
        Ok(Self {
            connection,
            _driver: Arc::new(tasks),
        })
    }

    /// Sends a command.
    pub async fn send(&mut self, command: &Cmd) -> RedisResult<Value> {
        self.connection.req_packed_command(command).await
    }
}

/// A stream that fails when more is read than any answer has. Each command begins the count anew.
struct Bounded<S> {
    stream: S,
    read: u64,
}

impl<S: AsyncRead + Unpin> AsyncRead for Bounded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let more = buffer.filled().len().saturating_sub(before);
        self.read = self.read.saturating_add(more as u64);
        Poll::Ready(match self.read > ANSWER {
            true => Err(io::Error::other(format!(
                "the answer: {}",
                too_long(ANSWER)
            ))),
            false => Ok(()),
        })
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Bounded<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.read = 0;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// A client of one server; nothing is connected yet.
pub fn open(info: ConnectionInfo, certificates: Option<&TlsCertificates>) -> RedisResult<Client> {
    match certificates {
        Some(certificates) => Client::build_with_tls(info, certificates.clone()),
        None => Client::open(info),
    }
}

/// A configuration without timeouts of the library: one deadline covers the whole operation.
fn patient() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None)
}
