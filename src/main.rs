//! Arguments, logging, wiring, exit code.

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use ingest::cli::{Cli, Global, Log};
use ingest::commands;
use ingest::run::FAILURE;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

fn main() -> ExitCode {
    commands::answer_shell();
    let cli = Cli::read();
    log(&cli.global);
    commands::dispatch(
        cli,
        #[cfg(feature = "serve")]
        ingest::serve::serve,
    )
    .into()
}

/// Logs go to stderr. `RUST_LOG` overrides `-v` and `-q`.
fn log(global: &Global) {
    let asked = std::env::var("RUST_LOG")
        .ok()
        .and_then(|asked| asked.parse().ok());
    let filter: Targets = asked
        .or_else(|| level(global).parse().ok())
        .unwrap_or_default();
    // An internal error of the logger would go to stderr, which is what failed.
    let log = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_writer(io::stderr)
        .with_target(false)
        .log_internal_errors(false);
    match global.log {
        Log::Json => log
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false)
            .finish()
            .with(filter)
            .init(),
        Log::Text => log.with_ansi(colours()).finish().with(filter).init(),
    }
}

/// The level of the log on stderr. The result on stdout reports each failure once already.
fn level(global: &Global) -> String {
    match (global.log, global.quiet, global.verbose) {
        (_, true, _) => format!(
            "error,{FAILURE}={}",
            if global.log == Log::Json {
                "error"
            } else {
                "off"
            }
        ),
        (Log::Text, false, 0) => format!("warn,{FAILURE}=off"),
        (Log::Text, false, 1) => format!("ingest=info,{FAILURE}=off,warn"),
        (Log::Json, false, 0 | 1) => "ingest=info,warn".to_owned(),
        (_, false, 2) => "ingest=debug,info".to_owned(),
        (_, false, _) => "trace".to_owned(),
    }
}

fn colours() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
