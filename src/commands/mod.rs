//! One file for each subcommand: its first function names, in order, what the command does.

mod advice;
mod backup;
mod cells;
pub(crate) mod charge;
mod check;
mod close;
mod completion;
mod copy_catalog;
mod draft;
pub(crate) mod environment;
mod error;
pub(crate) mod export;
pub(crate) mod figures;
pub(crate) mod forecast;
mod generate;
mod groups;
pub(crate) mod history;
pub mod limits;
mod lost_catalog;
pub(crate) mod metrics;
pub(crate) mod names;
pub(crate) mod output;
mod owner;
mod presets;
pub(crate) mod preview;
mod progress;
pub(crate) mod refill;
pub(crate) mod release;
mod reopen;
mod repair;
mod replace;
mod run;
#[cfg(feature = "sandbox")]
mod sandbox;
pub(crate) mod search;
pub(crate) mod signals;
mod slices;
pub(crate) mod status;
pub(crate) mod tokens;
mod try_call;

use std::io::{self, Write};
use std::time::Duration;

#[cfg(feature = "serve")]
use futures_util::future::BoxFuture;

use crate::cli::{CatalogCommand, Cli, Command, Format, Log};
#[cfg(feature = "serve")]
use crate::cli::{Global, ServeArgs};
use crate::exit::Exit;

pub use crate::doc::text::{Screen, Style};
pub use completion::answer_shell;
pub use error::Error;
pub use forecast::in_words as forecast_in_words;

/// The time that other threads get at the end: a name lookup that nobody answers would take half a minute.
const LAST_WORK: Duration = Duration::from_secs(1);

/// The server. It uses the reports of the commands, so the commands cannot use it.
#[cfg(feature = "serve")]
pub type Server = for<'a> fn(&'a Global, &'a ServeArgs) -> BoxFuture<'a, Result<Exit, Error>>;

/// Runs the command. The runtime starts here and not in `main`, so that it is compiled once, with the library.
#[must_use]
pub fn dispatch(cli: Cli, #[cfg(feature = "serve")] serve: Server) -> Exit {
    let (format, log) = (cli.global.format, cli.global.log);
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if !answers_requests(&cli) {
        runtime.worker_threads(1);
    }
    match limits::check_files()
        .and_then(|()| limits::check_clock())
        .and_then(|()| runtime.enable_all().build().map_err(limits::not_started))
        .and_then(|runtime| {
            let ended = runtime.block_on(async {
                let _files = limits::outlive_limit_of_files()?;
                execute(
                    cli,
                    #[cfg(feature = "serve")]
                    serve,
                )
                .await
            });
            runtime.shutdown_timeout(LAST_WORK);
            ended
        }) {
        Ok(exit) => exit,
        Err(error) => {
            report(&error, format, log);
            error.exit()
        }
    }
}

/// Whether the command is a server, which uses all processors. Any other one works on its first thread, and on others for what
/// takes long: beside them, one drives connections and listens to signals.
const fn answers_requests(cli: &Cli) -> bool {
    match cli.command {
        #[cfg(feature = "sandbox")]
        Some(Command::Sandbox(_)) => true,
        #[cfg(feature = "serve")]
        Some(Command::Serve(_)) => true,
        _ => false,
    }
}

async fn execute(cli: Cli, #[cfg(feature = "serve")] serve: Server) -> Result<Exit, Error> {
    let global = &cli.global;
    match &cli.command {
        None if cli.run.dry_run => preview::preview(global, &cli.run).await,
        None => run::run(global, &cli.run).await,
        Some(Command::Status(args)) => status::status(global, args).await,
        Some(Command::Check(args)) => check::check(global, *args).await,
        Some(Command::Backup(args)) => backup::backup(global, args).await,
        Some(Command::Catalog(CatalogCommand::Copy(args))) => {
            copy_catalog::copy_catalog(global, args).await
        }
        Some(Command::Repair) => repair::repair(global).await,
        Some(Command::Schema) => generate::schema(),
        Some(Command::Init(args)) => presets::init(global, args),
        Some(Command::Presets) => presets::list(global),
        Some(Command::Search(args)) => search::search(global, args).await,
        Some(Command::Try(args)) => try_call::try_call(global, args).await,
        Some(Command::Charge(args)) => charge::charge(global, args).await,
        Some(Command::Release(args)) => release::release(global, args).await,
        Some(Command::Forecast(args)) => forecast::forecast(global, args).await,
        Some(Command::History(args)) => history::history(global, args).await,
        Some(Command::Export(args)) => export::export(global, args).await,
        Some(Command::Close(args)) => close::close(global, args).await,
        Some(Command::Reopen(args)) => reopen::reopen(global, args).await,
        #[cfg(feature = "sandbox")]
        Some(Command::Sandbox(args)) => sandbox::sandbox(global, args).await,
        #[cfg(feature = "serve")]
        Some(Command::Serve(args)) => serve(global, args).await,
        Some(Command::Completions { shell }) => generate::completions(*shell),
        Some(Command::Man { command }) => generate::man(command.as_deref()),
    }
}

/// Writes an error to stderr; with `--format json` also an object to stdout.
fn report(error: &Error, format: Format, log: Log) {
    match log {
        Log::Json => tracing::error!("{error}"),
        Log::Text => drop(writeln!(
            io::stderr().lock(),
            "ingest: {}",
            output::shown_lines(&error.to_string())
        )),
    }
    if format == Format::Json {
        let _ = output::json(&serde_json::json!({ "error": error.to_string() }));
    }
}
