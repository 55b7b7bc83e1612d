//! The way from every machine to a server: connections on it go silent while both ends take them for open.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch::{Receiver, Sender, channel};

use super::super::chance::Chance;

/// The state of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Open,
    /// Nothing arrives, not even the end of the connection.
    Silent,
    Cut,
}

/// A port of 127.0.0.1 that leads to a socket. It listens for as long as it lives, whatever the server does.
pub(super) struct Link {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    target: Mutex<PathBuf>,
    ways: Mutex<Vec<Sender<Way>>>,
    /// What becomes of new connections.
    fresh: Mutex<Way>,
}

impl Link {
    pub(super) async fn to(target: PathBuf) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            target: Mutex::new(target),
            ways: Mutex::default(),
            fresh: Mutex::new(Way::Open),
        });
        tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self { port, shared }
    }

    pub(super) const fn port(&self) -> u16 {
        self.port
    }

    /// Leads new connections elsewhere.
    pub(super) fn lead_to(&self, target: PathBuf) {
        *self.shared.target.lock().unwrap() = target;
    }

    /// Makes connections go silent: all of them and every new one, or about half of those that are open.
    pub(super) fn silence(&self, chance: Option<&mut Chance>) {
        let ways = self.shared.ways.lock().unwrap();
        match chance {
            None => {
                *self.shared.fresh.lock().unwrap() = Way::Silent;
                ways.iter().for_each(silent);
            }
            Some(chance) => {
                let some = ways.iter().filter(|_| chance.once_in(2));
                some.for_each(silent);
            }
        }
    }

    /// Ends the silence: what was sent meanwhile arrives late, or, if the connections are cut, never.
    pub(super) fn heal(&self, cut: bool) {
        *self.shared.fresh.lock().unwrap() = Way::Open;
        let after = if cut { Way::Cut } else { Way::Open };
        for way in self.shared.ways.lock().unwrap().iter() {
            way.send_if_modified(|way| {
                let is_silent = *way == Way::Silent;
                *way = if is_silent { after } else { *way };
                is_silent
            });
        }
    }
}

fn silent(way: &Sender<Way>) {
    way.send_replace(Way::Silent);
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        let fresh = *shared.fresh.lock().unwrap();
        let (sender, way) = channel(fresh);
        let mut ways = shared.ways.lock().unwrap();
        ways.retain(|way| !way.is_closed());
        ways.push(sender);
        drop(ways);
        tokio::spawn(connect(client, Arc::clone(&shared), way));
    }
}

async fn connect(client: TcpStream, shared: Arc<Shared>, mut way: Receiver<Way>) {
    // While it is silent, not even the server learns of the connection.
    if is_cut(&mut way).await {
        return;
    }
    let target = shared.target.lock().unwrap().clone();
    let Ok(server) = UnixStream::connect(target).await else {
        return;
    };
    let (asks, answers) = (client.into_split(), server.into_split());
    tokio::select! {
        () = pass_on(asks.0, answers.1, way.clone()) => {}
        () = pass_on(answers.0, asks.1, way) => {}
    }
}

async fn pass_on(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut way: Receiver<Way>,
) {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let mut other = way.clone();
        let read = tokio::select! {
            read = from.read(&mut buffer) => read.unwrap_or(0),
            _ = other.wait_for(|way| *way == Way::Cut) => return,
        };
        if is_cut(&mut way).await || read == 0 || to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

/// Waits while a connection is silent. Returns whether it is cut then.
async fn is_cut(way: &mut Receiver<Way>) -> bool {
    let after = way.wait_for(|way| *way != Way::Silent).await;
    after.is_ok_and(|way| *way == Way::Cut)
}
