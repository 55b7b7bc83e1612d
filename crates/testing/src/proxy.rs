//! A way to a server that can be cut: after a script ran there, and before its reply arrives.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What goes through to the server on a port of 127.0.0.1.
pub struct Proxy {
    address: SocketAddr,
    cuts: Arc<AtomicU32>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    pub async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let cuts = Arc::new(AtomicU32::new(0));
        let accepting = tokio::spawn(accept(listener, port, Arc::clone(&cuts)));
        Self {
            address,
            cuts,
            accepting,
        }
    }

    pub const fn port(&self) -> u16 {
        self.address.port()
    }

    /// Lets the next scripts run, and cuts the connection instead of passing on what they answer.
    pub fn cut(&self, replies: u32) {
        self.cuts.store(replies, Ordering::SeqCst);
    }

    /// Replies that are still to be cut.
    pub fn left(&self) -> u32 {
        self.cuts.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, port: u16, cuts: Arc<AtomicU32>) {
    while let Ok((client, _)) = listener.accept().await {
        let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else {
            continue;
        };
        let (asks, answers) = (client.into_split(), server.into_split());
        let runs = Arc::new(AtomicBool::new(false));
        tokio::spawn(asked(asks.0, answers.1, Arc::clone(&runs)));
        tokio::spawn(answered(answers.0, asks.1, runs, Arc::clone(&cuts)));
    }
}

async fn asked(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, runs: Arc<AtomicBool>) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        if buffer[..length]
            .windows(5)
            .any(|word| word == b"EVALS" || word == b"FCALL")
        {
            runs.store(true, Ordering::SeqCst);
        }
        if to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}

async fn answered(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    runs: Arc<AtomicBool>,
    cuts: Arc<AtomicU32>,
) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        let is_reply = runs.swap(false, Ordering::SeqCst)
            && !buffer.starts_with(b"-NOSCRIPT")
            && !buffer.starts_with(b"-ERR Function not found");
        let cut = is_reply
            && cuts
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                    left.checked_sub(1)
                })
                .is_ok();
        if cut || to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
