//! `ingest serve`: a page, a read API, and charging over HTTP, beside the runs. It never calls an upstream.
//!
//! | file | purpose |
//! | --- | --- |
//! | `listen`, `connections`, `places` | sockets, and the bounds on connections |
//! | `patient`, `rest` | clients that read slowly, and bodies that nobody read |
//! | `guard`, `auth` | which requests are answered, and whose they are |
//! | `limiter`, `fields` | how many requests a client may send |
//! | `turns`, `reads`, `unread` | how much is done at once, and how much of what was read is in memory |
//! | `api`, `charge`, `query` | the answers for programs, and what their requests ask for |
//! | `page`, `day` | the answers for people: the documents of the commands |

mod api;
mod auth;
mod charge;
mod connections;
mod day;
mod fields;
mod guard;
mod limiter;
mod listen;
mod page;
mod patient;
mod places;
mod problem;
mod query;
mod reads;
mod rest;
mod router;
mod seen_files;
mod turns;
mod unread;

use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use self::auth::Clients;
use self::charge::Charges;
use self::limiter::Limiter;
use self::reads::Reads;
use self::seen_files::SeenFiles;
use self::unread::UnreadAnswers;
use serde_json::json;

use crate::cli::{Global, ServeArgs};
use crate::commands::environment::Environment;
use crate::commands::output::Message;
use crate::commands::{Error, output, signals};
use crate::exit::Exit;

/// What all requests share.
pub(crate) struct App {
    environment: Arc<Environment>,
    seen: Arc<SeenFiles>,
    clients: Clients,
    limiter: Limiter,
    reads: Reads,
    unread: UnreadAnswers,
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
    let seen = SeenFiles::default();
    seen.expect(&environment)?;
    let config = &environment.config.serve;
    let listeners = listen::listeners(config)?;
    let must_present_token = listeners.iter().any(listen::is_open_to_others);
    let app = Arc::new(App {
        clients: Clients::read(config, must_present_token).await?,
        limiter: Limiter::new(&environment.config)?,
        reads: Reads::new(config.query_timeout),
        unread: UnreadAnswers::default(),
        charges: Charges::default(),
        seen: Arc::new(seen),
        environment: Arc::new(environment),
    });
    let stop = signals::listen("requests in progress get 5 s", crate::run::Waits::default())?;
    // The sockets are bound: a client that reads this can connect.
    announce(&listeners, global)?;
    let unread = app.unread.clone();
    let is_behind_a_proxy = app.environment.config.serve.trusted_hops > 0;
    let others = (unread, is_behind_a_proxy);
    connections::serve(listeners, router::router(app), others, stop).await;
    Ok(Exit::Success)
}

fn announce(listeners: &[tokio::net::TcpListener], global: &Global) -> Result<(), Error> {
    let addresses = listeners.iter().filter_map(|one| one.local_addr().ok());
    let addresses: Vec<String> = addresses.map(|one: SocketAddr| one.to_string()).collect();
    let report = json!({ "address": addresses.first(), "addresses": addresses });
    output::report(global, &report, |_| {
        let urls = addresses.iter().map(|one| format!("http://{one}/"));
        let urls = urls.collect::<Vec<_>>().join(" and ");
        Message::Done(format!("Serving on {urls}; press Ctrl-C to stop."))
    })
}
