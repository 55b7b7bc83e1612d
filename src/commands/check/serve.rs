//! Whether `ingest serve` can start: its address, and the tokens of its clients.

use std::net::SocketAddr;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, bind, socket};

use super::finding::{CheckFinding, FOUND, bad, found, warning};
use crate::commands::output;
use crate::commands::tokens::tokens;
use ingest_config::ServeConfig;

/// Checks the address and each token. Listens to nothing.
pub async fn server(config: &ServeConfig) -> Vec<CheckFinding> {
    let mut findings = Vec::new();
    let is_open = !config.listen.ip().to_canonical().is_loopback();
    if is_open && config.clients.is_empty() {
        let detail = format!(
            "other machines can reach {}, and no client has a token; `ingest serve` starts there only with \
            [serve.clients.NAME]",
            config.listen
        );
        findings.push(bad("serve.listen".to_owned(), detail));
    }
    findings.extend(address(config.listen));
    for (name, token) in tokens(config).await {
        let what = format!("token of serve.clients.{name}");
        let place = format!("serve.clients.{name}.token");
        let token = token.map_err(|why| output::without_path(&why, &place));
        findings.push(found(what, token.map(|_| FOUND)));
    }
    findings
}

/// Whether the address can be used; `None` if so. A socket that is bound and listens to nothing reaches nobody.
fn address(listen: SocketAddr) -> Option<CheckFinding> {
    let family = match listen {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let bound = socket(family, SocketType::STREAM, None).and_then(|socket| bind(socket, &listen));
    let what = "serve.listen".to_owned();
    match bound {
        Err(error @ (Errno::ADDRNOTAVAIL | Errno::ACCESS | Errno::AFNOSUPPORT)) => {
            let why = std::io::Error::from(error);
            let detail = format!(
                "`ingest serve` cannot listen on {listen}: {why}; name an address of this machine, and a port from 1024"
            );
            Some(bad(what, detail))
        }
        // Every machine may have something there that has nothing to do with a server that nobody configured.
        Err(Errno::ADDRINUSE) if listen != ServeConfig::USUAL => {
            let detail = format!(
                "{listen} is in use, by a server that runs or by another program: `ingest serve` cannot start beside it"
            );
            Some(warning(what, detail))
        }
        Ok(()) | Err(_) => None,
    }
}
