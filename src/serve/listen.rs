//! The sockets: those that systemd passes, or the configured address.

use std::io;
use std::net::SocketAddr;

use listenfd::ListenFd;
use tokio::net::TcpListener;

use crate::commands::Error;
use ingest_config::ServeConfig;

/// Returns the sockets to serve on.
///
/// # Errors
/// The address cannot be bound, or others could reach it without a token.
pub fn listeners(config: &ServeConfig) -> Result<Vec<TcpListener>, Error> {
    let passed = passed().map_err(Error::io(
        "cannot use the sockets that systemd passed; use ListenStream= with an IP address and a port",
    ))?;
    let listeners = match passed {
        listeners if !listeners.is_empty() => listeners,
        _ => {
            // Before it is bound, so that a start that is refused opens no port even for a moment.
            refuse_without_clients(config, config.listen)?;
            vec![bind(config.listen)?]
        }
    };
    // Sockets of systemd are bound to what its unit says, not to `serve.listen`.
    for listener in &listeners {
        let address = listener.local_addr();
        refuse_without_clients(
            config,
            address.map_err(Error::io("cannot read an address"))?,
        )?;
    }
    Ok(listeners)
}

/// Whether other machines can reach the socket.
pub fn is_open_to_others(listener: &TcpListener) -> bool {
    let address = listener.local_addr();
    // An address that cannot be read counts as one that others can reach.
    !address.is_ok_and(|address| address.ip().to_canonical().is_loopback())
}

fn refuse_without_clients(config: &ServeConfig, address: SocketAddr) -> Result<(), Error> {
    if address.ip().to_canonical().is_loopback() || !config.clients.is_empty() {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "other machines can reach {address}, and no client has a token; add [serve.clients.NAME] with a token, or \
        listen on 127.0.0.1"
    )))
}

/// The sockets of systemd's socket activation; none if this process was started otherwise.
fn passed() -> io::Result<Vec<TcpListener>> {
    let mut passed = ListenFd::from_env();
    let mut listeners = Vec::new();
    for place in 0..passed.len() {
        if let Some(listener) = passed.take_tcp_listener(place)? {
            listener.set_nonblocking(true)?;
            listeners.push(TcpListener::from_std(listener)?);
        }
    }
    Ok(listeners)
}

/// Binds an address.
///
/// # Errors
/// It cannot be bound.
pub fn bind(address: SocketAddr) -> Result<TcpListener, Error> {
    let what = format!("cannot listen on {address}; choose another address with --listen");
    let bound = std::net::TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener)
    });
    bound.map_err(Error::io(what))
}
