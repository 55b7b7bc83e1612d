//! `ingest serve`: a page, a read API, and charging over HTTP, beside the runs. It never calls an upstream.
//!
//! | file | purpose |
//! | --- | --- |
//! | `listen`, `connections` | sockets, and the limits of each connection |
//! | `guard`, `host`, `client` | which requests are answered, and whose they are |
//! | `limiter`, `fields` | how many requests a client may send |
//! | `reads`, `api`, `charge`, `metrics`, `openapi` | the answers for programs |
//! | `page` | the answers for people |

mod api;
mod charge;
mod client;
mod connections;
mod fields;
mod guard;
mod host;
mod limiter;
mod listen;
mod metrics;
mod openapi;
mod page;
mod problem;
mod reads;

use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use self::charge::Charges;
use self::client::Clients;
use self::limiter::Limiter;
use self::reads::Reads;
use crate::cli::{Format, Global, ServeArgs};
use crate::commands::environment::Environment;
use crate::commands::{Error, output, signals};
use crate::exit::Exit;

/// What all requests share.
pub struct App {
    environment: Arc<Environment>,
    clients: Clients,
    limiter: Limiter,
    reads: Reads,
    charges: Charges,
}

/// Serves until a signal ends it.
#[must_use]
pub fn serve<'a>(global: &'a Global, args: &'a ServeArgs) -> BoxFuture<'a, Result<Exit, Error>> {
    Box::pin(serve_until_stopped(global, args))
}

async fn serve_until_stopped(global: &Global, args: &ServeArgs) -> Result<Exit, Error> {
    let mut environment = Environment::load(global)?;
    if let Some(listen) = args.listen {
        environment.config.serve.listen = listen;
    }
    let config = &environment.config.serve;
    let listeners = listen::listeners(config)?;
    let must_present_token = listeners.iter().any(listen::is_open_to_others);
    let app = Arc::new(App {
        clients: Clients::read(config, must_present_token).await?,
        limiter: Limiter::new(&environment.config)?,
        reads: Reads::new(config.query_timeout),
        charges: Charges::default(),
        environment: Arc::new(environment),
    });
    let stop = signals::listen("requests in progress get 5 s")?;
    announce(&listeners, global)?;
    connections::serve(listeners, api::router(app), stop).await;
    Ok(Exit::Success)
}

fn announce(listeners: &[tokio::net::TcpListener], global: &Global) -> Result<(), Error> {
    let addresses = listeners.iter().filter_map(|one| one.local_addr().ok());
    let addresses: Vec<String> = addresses.map(|one: SocketAddr| one.to_string()).collect();
    match global.format {
        Format::Json => output::json(&serde_json::json!({
            "address": addresses.first(),
            "addresses": addresses,
        })),
        Format::Text if global.quiet => Ok(()),
        Format::Text => {
            let urls: Vec<String> = addresses
                .iter()
                .map(|one| format!("http://{one}/"))
                .collect();
            output::text_line(&format!(
                "Serving on {}; press Ctrl-C to stop.",
                urls.join(" and ")
            ))
        }
    }
}
