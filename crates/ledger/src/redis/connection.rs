//! A connection. The answers of one server have a bound, since another program on the port could fill the memory.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster_async::ClusterConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, ConnectionAddr, RedisResult, Value};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinSet;

use ingest_base::bounded::too_long;

/// The most bytes that are read of what a command is answered. A report of 10,000 limits has half of them.
const ANSWER: u64 = 4 << 20;

/// A connection that several tasks use at once.
#[derive(Clone)]
pub enum Connection {
    Node {
        connection: MultiplexedConnection,
        /// The task that reads and writes it, which ends with its last user; none where the library drives it.
        _driver: Arc<JoinSet<()>>,
    },
    Cluster(ClusterConnection),
}

impl Connection {
    /// Connects to a server. Over TLS the server has proved who it is, and the library connects.
    pub async fn to(client: &Client) -> RedisResult<Self> {
        // Without timeouts of the library: one deadline covers the whole operation.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None);
        let info = client.get_connection_info();
        let stream: Box<dyn Stream> = match info.addr() {
            ConnectionAddr::Tcp(host, port) => {
                Box::new(TcpStream::connect((host.as_str(), *port)).await?)
            }
            ConnectionAddr::Unix(path) => Box::new(UnixStream::connect(path).await?),
            _ => {
                let connection = client.get_multiplexed_async_connection_with_config(&config);
                return Ok(Self::Node {
                    connection: connection.await?,
                    _driver: Arc::default(),
                });
            }
        };
        let (stream, settings) = (Bounded { stream, read: 0 }, info.redis_settings());
        let connection = MultiplexedConnection::new_with_config(settings, stream, config);
        let (connection, driver) = connection.await?;
        let mut tasks = JoinSet::new();
        tasks.spawn(driver);
        Ok(Self::Node {
            connection,
            _driver: Arc::new(tasks),
        })
    }

    /// Sends a command.
    pub async fn send(&mut self, command: &Cmd) -> RedisResult<Value> {
        match self {
            Self::Node { connection, .. } => connection.req_packed_command(command).await,
            Self::Cluster(cluster) => cluster.req_packed_command(command).await,
        }
    }
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// A stream that fails when more is read than any answer has. Each command begins the count anew.
struct Bounded {
    stream: Box<dyn Stream>,
    read: u64,
}

impl AsyncRead for Bounded {
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

impl AsyncWrite for Bounded {
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
