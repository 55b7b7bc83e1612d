//! The command line.

use std::env;
use std::io::{self, Write};
#[cfg(any(feature = "sandbox", feature = "serve"))]
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{
    Arg, ArgAction, ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum,
};
use clap_complete::Shell;

use crate::exit::Exit;
use crate::when::{Since, Until};

/// Pull data from metered APIs without overspending their quota.
///
/// Every request is charged to a sliding-window ledger before it is sent. When the ledger rejects a charge, the run stops
/// cleanly, and the next run resumes there.
#[derive(Debug, Parser)]
#[command(name = "ingest", version)]
#[command(after_help = EXIT_CODES, after_long_help = long_notes())]
pub struct Cli {
    /// The command; without one, `ingest` runs the jobs.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// The options of a run.
    #[command(flatten)]
    pub run: RunArgs,
    /// The options of every command.
    #[command(flatten)]
    pub global: Global,
}

impl Cli {
    /// Reads the command line, or ends the process with what is wrong with it.
    #[must_use]
    pub fn read() -> Self {
        if env::args_os().len() <= 1 {
            suggest();
        }
        let read = command()
            .try_get_matches()
            .and_then(|matches| Self::from_matches(&matches));
        read.unwrap_or_else(|error| refuse(&explained(error)))
    }

    fn from_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        misplaced(matches)?;
        let mut cli =
            Self::from_arg_matches(matches).map_err(|error| error.format(&mut command()))?;
        cli.global.sandbox = practises(matches);
        let mut before = matches;
        while let Some((_, after)) = before.subcommand() {
            cli.global.sandbox |= practises(after);
            cli.global
                .sets
                .extend(after.get_many(SETS).into_iter().flatten().cloned());
            before = after;
        }
        // clap finds no conflict between the two sides of a subcommand.
        if cli.global.quiet && cli.global.verbose > 0 {
            return Err(command().error(
                ErrorKind::ArgumentConflict,
                "--quiet and --verbose cannot be combined",
            ));
        }
        Ok(cli)
    }
}

/// The definition of the command line.
///
/// clap drops the first values of a global option that is given both before and after a subcommand. `--set` can be repeated,
/// so it is an option of each subcommand instead. `--sandbox` is one of the subcommands that work in a state directory.
#[must_use]
pub fn command() -> clap::Command {
    let command = Cli::command();
    let option = |id| {
        let mut options = command.get_arguments();
        options.find(|option| option.get_id() == id).cloned()
    };
    let help = "Work in the state directory of sandbox runs";
    let (set, sandbox) = (
        option(SETS),
        option(SANDBOX).map(|option| option.help(help)),
    );
    command.mut_subcommands(|subcommand| {
        let sandbox = sandbox.iter();
        let sandbox = sandbox.filter(|_| STATEFUL.contains(&subcommand.get_name()));
        let sandbox: Vec<Arg> = sandbox.cloned().collect();
        let subcommand = subcommand.mut_subcommands(|nested| nested.args(&set));
        subcommand.args(&set).args(sandbox)
    })
}

const SETS: &str = "sets";
const SANDBOX: &str = "sandbox";
/// The subcommands that work in a state directory, and so in that of sandbox runs too.
const STATEFUL: &[&str] = &[
    "status", "search", "export", "history", "forecast", "charge", "release", "close", "reopen",
    "repair", "backup", "serve",
];

fn practises(matches: &ArgMatches) -> bool {
    matches.try_get_one(SANDBOX).ok().flatten() == Some(&true)
}

/// Rejects options of a run before a subcommand: they would be ignored, which is worst for `--dry-run`.
fn misplaced(matches: &ArgMatches) -> Result<(), clap::Error> {
    let Some((name, _)) = matches.subcommand() else {
        return Ok(());
    };
    let mut command = command();
    let of_run = RunArgs::augment_args(clap::Command::new("run"));
    let typed =
        |id: &&clap::Id| matches.value_source(id.as_str()) == Some(ValueSource::CommandLine);
    let Some(option) = of_run
        .get_arguments()
        .filter(|option| typed(&option.get_id()))
        .find_map(Arg::get_long)
    else {
        return Ok(());
    };
    let own = command
        .find_subcommand(name)
        .into_iter()
        .flat_map(clap::Command::get_arguments);
    let message = if own.filter_map(Arg::get_long).any(|own| own == option) {
        format!("--{option} before {name} applies to a run; write it after {name}")
    } else {
        format!("--{option} applies to a run; {name} does not accept it")
    };
    Err(command.error(ErrorKind::ArgumentConflict, message))
}

#[cfg(any(feature = "serve", feature = "sandbox"))]
fn socket_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "expected an IP address and a port; write for example 127.0.0.1:8080".to_owned()
    })
}

/// Reads a span of time.
fn span(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|error| format!("{error}; write a number and a unit, such as 36h or 7d"))
}

/// A count of calls or days, from 1 on.
fn at_least_one<T: FromStr + PartialOrd + From<u8>>(text: &str) -> Result<T, String> {
    text.parse()
        .ok()
        .filter(|count| *count >= T::from(1))
        .ok_or_else(|| "expected 1 or more".to_owned())
}

/// Ends the process with what a newcomer can try.
fn suggest() -> ! {
    // The exit code reports it too.
    let _ = writeln!(io::stderr(), "{SUGGESTIONS}");
    std::process::exit(Exit::Usage.code().into())
}

const SUGGESTIONS: &str = "\
ingest: no regions given. Try:

  ingest --region all --sandbox   run every job against a local stand-in; needs no key and no real quota
  ingest --region all --dry-run   show what a run would spend
  ingest --region all             run every job that is due
  ingest status                   show the limits and the age of each region
  ingest init                     write a configuration to start from
  ingest --help                   list all commands and options";

/// The subcommands that this program was built without.
const LEFT_OUT: &[&str] = &[
    #[cfg(not(feature = "sandbox"))]
    "sandbox",
    #[cfg(not(feature = "serve"))]
    "serve",
];

/// The error, or how to build a program that knows the subcommand.
fn explained(error: clap::Error) -> clap::Error {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    if name == "run" {
        let said = "a run is no subcommand; run every job that is due with `ingest --region all`";
        return command().error(ErrorKind::InvalidSubcommand, said);
    }
    match LEFT_OUT.contains(&name.as_str()) {
        false => error,
        true => command().error(
            ErrorKind::InvalidSubcommand,
            format!(
                "this program was built without `{name}`; build it with `cargo build --release --features {name}`"
            ),
        ),
    }
}

/// Ends the process with an error message; with `--format json` also with an object on stdout.
fn refuse(error: &clap::Error) -> ! {
    let arguments: Vec<String> = env::args_os()
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    // clap rejected the line and says nothing of its options, so `--format json` is looked for in the words.
    let asks_for_json = arguments
        .windows(2)
        .any(|pair| pair == ["--format", "json"])
        || arguments.iter().any(|argument| argument == "--format=json");
    if asks_for_json && error.use_stderr() {
        let object = serde_json::json!({ "error": error.render().to_string().trim_end() });
        // If stdout is closed, the exit code still reports the error.
        let object = ingest_base::plain::json_safe(&object.to_string()).into_owned();
        let _ = writeln!(io::stdout(), "{object}");
    }
    let written = error.print().and_then(|()| io::stdout().flush());
    if let Err(failure) = written
        && failure.kind() != io::ErrorKind::BrokenPipe
    {
        let _ = writeln!(io::stderr(), "ingest: cannot write to stdout: {failure}");
        // `--help` and `--version` are no errors to clap, and end with 0 although nobody got their text.
        std::process::exit(error.exit_code().max(Exit::Failed.code().into()))
    }
    std::process::exit(error.exit_code())
}

const EXIT_CODES: &str = "Exit codes: 0 success, including a run that stopped at a limit or had nothing due; 1 failure or refusal, or a check found an error; \
2 usage or configuration error; 75 a limit rejected the charge (for a run only with --strict); 129, 130, 143 interrupted.";

/// The end of `--help` and of the manual page.
fn long_notes() -> String {
    format!("{EXIT_CODES}\n\n{LEDGER_URLS}")
}

const LEDGER_URLS: &str = "\
Values of `ledger.url` in quotas.toml (where charges are recorded):

  sqlite
    a file in the state directory, for one machine
  redis://[USER@]HOST[:PORT][/DATABASE], rediss://... for TLS
    a Redis that several machines share
  redis+sentinel://[USER@]HOST[:PORT][,HOST[:PORT]...]/SERVICE[/DATABASE][?tls=true]
    the primary that the Sentinels report
  redis+cluster://[USER@]HOST[:PORT][,HOST[:PORT]...][?tls=true]
    a Redis Cluster
  unix:///PATH[?db=DATABASE&user=USER]
    a Redis on this machine

`ledger.password` and `ledger.sentinel_password` are { env = NAME }, { file = PATH }, { credential = NAME } or \
{ command = [PROGRAM, ...] }; `ledger.tls` is { ca = FILE, cert = FILE, key = FILE }.";

/// The options of every command.
#[derive(Debug, Clone, Args)]
pub struct Global {
    /// Configuration file [default: $INGEST_CONFIG, ./quotas.toml, $XDG_CONFIG_HOME/ingest/quotas.toml, /etc/ingest/quotas.toml; the first that exists]
    #[arg(long, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,
    /// Override a configuration value (repeatable)
    #[arg(id = SETS, long = "set", value_name = "PATH=VALUE", action = ArgAction::Append)]
    pub sets: Vec<String>,
    /// Directory of ledger, catalog, journal and locks [default: $INGEST_STATE_DIR, $STATE_DIRECTORY, $XDG_STATE_HOME/ingest]
    #[arg(long, value_name = "DIR", global = true)]
    pub state_dir: Option<PathBuf>,
    /// As root: work as the owner of the state directory. Without it, root works in no other user's directory
    #[arg(long, global = true)]
    pub as_owner: bool,
    /// Format of the results on stdout
    #[arg(long, value_enum, default_value_t, global = true)]
    pub format: Format,
    /// Format of the log on stderr [env: INGEST_LOG]
    #[arg(
        long,
        value_enum,
        default_value_t,
        env = "INGEST_LOG",
        hide_env = true,
        global = true
    )]
    pub log: Log,
    /// Log more to stderr; repeat for more detail
    #[arg(short, long, action = ArgAction::Count, global = true)]
    pub verbose: u8,
    /// Print nothing unless something failed
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Whether `--sandbox` was given, to the run or to the subcommand.
    #[arg(skip)]
    pub sandbox: bool,
}

impl Global {
    /// Whether only the log is read (`--quiet --log json`): then a failure is an event, and no text goes to stdout.
    #[must_use]
    pub fn logs_only(&self) -> bool {
        self.quiet && self.log == Log::Json
    }
}

/// The format of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Format {
    /// Text.
    #[default]
    Text,
    /// One JSON object.
    Json,
}

/// The format of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Log {
    /// Text: warnings and errors.
    #[default]
    // An empty variable counts as unset.
    #[value(alias = "")]
    Text,
    /// One JSON object per event, failures included.
    Json,
}

/// The options of a run.
#[derive(Debug, Clone, Args)]
pub struct RunArgs {
    /// Regions to walk, or `all` [default with --sandbox or --dry-run, or without regions in the configuration: all]
    #[arg(long = "region", value_name = "REGION,…", value_delimiter = ',')]
    pub regions: Vec<String>,
    /// Jobs to run [default: all]
    #[arg(long = "job", value_name = "JOB,…", value_delimiter = ',')]
    pub jobs: Vec<String>,
    /// Preview the spend without charging, requesting or writing anything; retries are not included
    #[arg(long)]
    pub dry_run: bool,
    /// Request everything again, due or not, from the first value of `since`
    #[arg(long, requires = "jobs")]
    pub relist: bool,
    /// Run against a local stand-in for the upstreams, in a separate state directory; needs no key and no real quota
    #[cfg(feature = "sandbox")]
    #[arg(long)]
    pub sandbox: bool,
    /// Regions to walk concurrently
    #[arg(long, value_name = "N", default_value = "8", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub concurrency: u16,
    /// Write metrics to FILE, for the textfile collector of Prometheus' node_exporter [default: $INGEST_METRICS_FILE]
    #[arg(long, value_name = "FILE")]
    pub metrics_file: Option<PathBuf>,
    /// Exit with code 75 if a limit stopped the run
    #[arg(long)]
    pub strict: bool,
}

/// The commands beside a run.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show the limits and the age of each region
    Status(StatusArgs),
    /// Check quotas.toml, the secrets and the state files; with --connect also ledger and upstreams
    Check(CheckArgs),
    /// Write an initial configuration; an existing file is not changed
    Init(InitArgs),
    /// List the presets of `ingest init`
    Presets,
    /// Check the files of the state directory and rebuild their indices
    Repair,
    /// Copy the files of the state directory, also while a run is in progress
    Backup(BackupArgs),
    /// Copy the catalog between a file and PostgreSQL
    #[command(subcommand)]
    Catalog(CatalogCommand),
    /// Print the JSON Schema of quotas.toml, for editors
    Schema,
    /// Search the ingested records (full text); costs no quota
    Search(SearchArgs),
    /// Send one charged request and show what its response contains, and does not contain
    Try(TryArgs),
    /// Charge a call to the ledger, by hand or from a script
    Charge(ChargeArgs),
    /// Release a charge by its id
    Release(ReleaseArgs),
    /// Forecast the spend, limits and staleness of a schedule of runs
    Forecast(ForecastArgs),
    /// Show passes and spend by day, job and region
    History(HistoryArgs),
    /// Export the records of a kind
    Export(ExportArgs),
    /// Close a limit by hand, for all runs of all machines
    Close(CloseArgs),
    /// Reopen a limit that the upstream reported exhausted, or that was closed by hand
    Reopen(ReopenArgs),
    /// Serve the stand-in for the upstreams
    #[cfg(feature = "sandbox")]
    Sandbox(SandboxArgs),
    /// Serve a page, a read API, and charging over HTTP
    #[cfg(feature = "serve")]
    Serve(ServeArgs),
    /// Print a completion script
    Completions {
        /// Shell to complete for
        shell: Shell,
    },
    /// Print the manual page of ingest or of a command
    Man {
        /// Command to document
        command: Option<String>,
    },
}

/// The options of `init`.
#[derive(Debug, Clone, Args)]
pub struct InitArgs {
    /// A preset of `ingest presets` [default: the shipped configuration]
    #[arg(long, value_name = "NAME")]
    pub preset: Option<String>,
    /// Write a first draft for the saved response in FILE (a body, or what `curl -i` prints), or `-` for stdin
    #[arg(long, value_name = "FILE", conflicts_with = "preset")]
    pub answer: Option<PathBuf>,
    /// File to write; `-` for stdout
    #[arg(default_value = "quotas.toml")]
    pub file: PathBuf,
}

/// What to do with the catalog.
#[derive(Debug, Clone, Subcommand)]
pub enum CatalogCommand {
    /// Copy a whole catalog and verify the copy. An interrupted copy continues when it is started again
    Copy(CatalogCopyArgs),
}

/// The options of `catalog copy`.
#[derive(Debug, Clone, Args)]
pub struct CatalogCopyArgs {
    /// The catalog to copy: `sqlite` for the file in the state directory, or postgres://...
    #[arg(long, value_name = "URL")]
    pub from: String,
    /// The copy: `sqlite` or postgres://...
    #[arg(long, value_name = "URL")]
    pub to: String,
}

/// Which regions a report shows.
#[derive(Debug, Clone, Args)]
pub struct Shown {
    /// Only these jobs
    #[arg(long = "job", value_name = "JOB,…", value_delimiter = ',')]
    pub jobs: Vec<String>,
    /// Only these regions
    #[arg(long = "region", value_name = "REGION,…", value_delimiter = ',')]
    pub regions: Vec<String>,
    /// Show each region, however many there are
    #[arg(long)]
    pub all: bool,
}

impl Shown {
    /// Whether a region of a job is shown; `None`: it belongs to no job.
    #[must_use]
    pub fn wants(&self, job: Option<&str>, region: Option<&str>) -> bool {
        let is_one = |names: &[String], name: Option<&str>| {
            names.is_empty() || name.is_some_and(|name| names.iter().any(|one| one == name))
        };
        is_one(&self.jobs, job) && is_one(&self.regions, region)
    }
}

/// The options of `status`.
#[derive(Debug, Clone, Args)]
pub struct StatusArgs {
    /// Which regions to show.
    #[command(flatten)]
    pub shown: Shown,
    /// Show the limits and what was charged to them, and nothing else
    #[arg(long)]
    pub limits: bool,
    /// Exit with code 1 if a region has no complete pass within this time, such as 6h
    #[arg(long, value_name = "SPAN", value_parser = span)]
    pub fail_if_stale: Option<Duration>,
}

/// The options of `check`.
#[derive(Debug, Clone, Copy, Args)]
pub struct CheckArgs {
    /// Check quotas.toml only; needs no secrets, state directory or network
    #[arg(long, conflicts_with = "connect")]
    pub config_only: bool,
    /// Also connect to the ledger and to each upstream (DNS, TCP, TLS); sends no metered request
    #[arg(long)]
    pub connect: bool,
}

/// The options of `search`.
#[derive(Debug, Clone, Args)]
pub struct SearchArgs {
    /// Words to find; a record must contain all of them
    #[arg(required = true)]
    pub words: Vec<String>,
    /// Only records of this kind
    #[arg(long)]
    pub kind: Option<String>,
    /// Only records listed for this region
    #[arg(long)]
    pub region: Option<String>,
    /// Only records seen since then: 7d, 2026-11-01, yesterday
    #[arg(long, value_name = "SINCE")]
    pub since: Option<Since>,
    /// The most records to show
    #[arg(long, value_name = "N", default_value = "20", value_parser = at_least_one::<u32>)]
    pub limit: u32,
}

/// The options of `try`.
#[derive(Debug, Clone, Args)]
pub struct TryArgs {
    /// A credential of the configuration
    pub credential: String,
    /// A call of its upstream; the request has the parameters of the first job step with this call
    pub call: String,
    /// Read a saved response (a body, or what `curl -i` prints) instead of sending a request; charges nothing
    #[arg(long, value_name = "FILE")]
    pub answer: Option<PathBuf>,
    /// Region to request [default: the first region of the job]
    #[arg(long, value_name = "REGION")]
    pub region: Option<String>,
    /// Id to request, for a call that requests ids; can be repeated
    #[arg(long = "id", value_name = "ID")]
    pub ids: Vec<String>,
}

/// The options of `charge`.
#[derive(Debug, Clone, Args)]
pub struct ChargeArgs {
    /// A credential of the configuration
    pub credential: String,
    /// A call of its upstream, such as videos.list
    pub call: String,
    /// Id of the charge; repeating an id is granted again and counted once
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    pub id: Option<String>,
    /// Region of the requests; required if the call charges a limit with a scope
    #[arg(long, value_name = "REGION")]
    pub region: Option<String>,
    /// Charge N calls atomically
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = at_least_one::<u64>)]
    pub times: u64,
    /// Wait at most this long for the charge to fit, such as 5s [default: reject it at once]
    #[arg(long, value_name = "SPAN", value_parser = span)]
    pub wait: Option<Duration>,
}

/// The options of `release`.
#[derive(Debug, Clone, Args)]
pub struct ReleaseArgs {
    /// Id of the charge
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub id: String,
    /// Account of the charge; required if another machine charged it to a shared ledger
    #[arg(long)]
    pub account: Option<String>,
}

/// The options of `backup`.
#[derive(Debug, Clone, Args)]
pub struct BackupArgs {
    /// Directory for the copies: empty or new
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}

/// The options of `forecast`.
#[derive(Debug, Clone, Args)]
pub struct ForecastArgs {
    /// When runs start: a cron expression, or a systemd calendar expression such as hourly, daily or '*-*-* 03:00:00'
    #[arg(long, value_name = "CRON")]
    pub schedule: String,
    /// Days to forecast
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=60))]
    pub days: u32,
    /// Regions to walk, or `all`
    #[arg(
        long = "region",
        value_name = "REGION,…",
        value_delimiter = ',',
        default_value = "all"
    )]
    pub regions: Vec<String>,
    /// Jobs to run [default: all]
    #[arg(long = "job", value_name = "JOB,…", value_delimiter = ',')]
    pub jobs: Vec<String>,
    /// Regions to walk concurrently
    #[arg(long, value_name = "N", default_value = "8", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub concurrency: u16,
}

/// The options of `history`.
#[derive(Debug, Clone, Args)]
pub struct HistoryArgs {
    /// Only passes that started since then: 30d, 2026-11-01, yesterday
    #[arg(long, value_name = "SINCE", default_value = "30d")]
    pub since: Since,
    /// Which regions to show.
    #[command(flatten)]
    pub shown: Shown,
}

/// The options of `export`.
#[derive(Debug, Clone, Args)]
pub struct ExportArgs {
    /// Kind of the records, such as video
    #[arg(long)]
    pub kind: String,
    /// Only records listed for this region
    #[arg(long)]
    pub region: Option<String>,
    /// Only records that changed or are gone since then (7d, 2026-11-01, yesterday); of gone ones only the id
    #[arg(long, value_name = "SINCE")]
    pub since: Option<Since>,
    /// Only records seen since then, changed or not
    #[arg(long, value_name = "SINCE")]
    pub seen_since: Option<Since>,
    /// Output format
    #[arg(long = "as", value_enum, default_value_t)]
    pub shape: Shape,
    /// Write atomically to FILE instead of stdout
    #[arg(long, value_name = "FILE")]
    pub to: Option<PathBuf>,
}

/// The format of exported records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Shape {
    /// One JSON object per line, with the whole record.
    #[default]
    Ndjson,
    /// Comma-separated values: the configured columns of the kind; a ' before text that a spreadsheet would run as a formula.
    Csv,
}

/// The options of `close`.
#[derive(Debug, Clone, Args)]
pub struct CloseArgs {
    /// An account: the credential's name, unless its `account` is set
    pub account: String,
    /// A limit of the account, such as daily
    pub limit: String,
    /// Until when: 6h, 2026-11-01, 2026-11-01T12:00:00Z, tomorrow
    #[arg(long, value_name = "UNTIL")]
    pub until: Until,
}

/// The options of `reopen`.
#[derive(Debug, Clone, Args)]
pub struct ReopenArgs {
    /// An account: the credential's name, unless its `account` is set
    pub account: String,
    /// A limit of the account, such as daily
    pub limit: String,
}

/// The options of `serve`.
#[cfg(feature = "serve")]
#[derive(Debug, Clone, Args)]
pub struct ServeArgs {
    /// Address to listen on [default: serve.listen]
    #[arg(long, value_name = "ADDRESS", value_parser = socket_address)]
    pub listen: Option<SocketAddr>,
}

/// The options of `sandbox`.
#[cfg(feature = "sandbox")]
#[derive(Debug, Clone, Args)]
pub struct SandboxArgs {
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080", value_parser = socket_address)]
    pub listen: SocketAddr,
    /// Latency of every response
    #[arg(long, value_name = "SPAN", default_value = "0ms", value_parser = span)]
    pub latency: Duration,
    /// Fraction of requests that fail, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub failure_rate: f64,
    /// Quota of every limit [default: the configured quotas]
    #[arg(long, value_name = "UNITS")]
    pub quota: Option<u64>,
    /// Random seed for faults and data
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Serve the saved responses of a directory: CALL.json, or CALL.1.json, CALL.2.json ... for the pages of a call; with
    /// several upstreams, in directories named for them. A file holds a body, or what `curl -i` prints
    #[arg(long, value_name = "DIR")]
    pub answers: Option<PathBuf>,
}
