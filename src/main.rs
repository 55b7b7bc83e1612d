//! Arguments, logging, wiring, exit code.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::thread::JoinHandle;
use std::{panic, thread};

use ingest::cli::{Cli, Global, Log};
use ingest::commands;
use ingest::commands::limits::{NO_FILES, NO_THREADS};
use ingest::exit::Exit;
use ingest::run::{CLOSING, FAILURE};
use ingest_base::plain::{json_safe, plain};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// The stack of the thread that works: the main thread's is as small as `ulimit -s` says.
const STACK: usize = 8 << 20;

fn main() -> ExitCode {
    panic::set_hook(Box::new(|panic| {
        report(&in_words(&panic.to_string()));
        std::process::exit(i32::from(Exit::Failed.code()));
    }));
    let thread = thread::Builder::new().stack_size(STACK).spawn(work);
    match thread.map(JoinHandle::join) {
        Ok(ended) => ended.unwrap_or(ExitCode::FAILURE),
        Err(error) => {
            report(&format!("cannot start a thread: {error}; {NO_THREADS}"));
            ExitCode::FAILURE
        }
    }
}

fn work() -> ExitCode {
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

/// What a panic means to its reader: libraries have no other way to say that the system gives them nothing more.
fn in_words(panic: &str) -> String {
    match panic {
        _ if panic.contains("spawn") => format!("cannot start a thread; {NO_THREADS}"),
        // EMFILE and ENFILE.
        _ if panic.contains("code: 24,") || panic.contains("code: 23,") => {
            format!("cannot open another file or connection; {NO_FILES}")
        }
        _ => format!(
            "stopped by an internal error: {}; what was stored stays, and the next run goes on; please report this",
            plain(&panic.replace('\n', " "))
        ),
    }
}

fn report(text: &str) {
    let _ = writeln!(io::stderr().lock(), "ingest: {text}");
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
            .with_writer(|| SafeJson(io::stderr()))
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

/// Writes lines of JSON with a code in place of each character that would mislead a terminal.
struct SafeJson(io::Stderr);

impl Write for SafeJson {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        // The log writes whole lines.
        let text = String::from_utf8_lossy(lines);
        self.0.write_all(json_safe(&text).as_bytes())?;
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// The level of the log on stderr. The result on stdout reports each failure once already.
fn level(global: &Global) -> String {
    match (global.log, global.quiet, global.verbose) {
        (_, true, _) => format!(
            "error,{CLOSING}=warn,{FAILURE}={}",
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
