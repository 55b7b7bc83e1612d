//! Arguments, logging, wiring, exit code.

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use ingest::cli::{Cli, Global};
use ingest::commands;
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let cli = Cli::read();
    log(&cli.global);
    match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(commands::dispatch(cli)).into(),
        Err(error) => {
            tracing::error!("cannot start: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Logs go to stderr. `RUST_LOG` overrides `-v` and `-q`.
fn log(global: &Global) {
    let level = match (global.quiet, global.verbose) {
        (true, _) => "error",
        (false, 0) => "warn",
        (false, 1) => "ingest=info,warn",
        (false, 2) => "ingest=debug,info",
        (false, _) => "trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let colours = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(colours)
        .with_target(false)
        // It would say so on stderr, which is what failed.
        .log_internal_errors(false)
        .init();
}
