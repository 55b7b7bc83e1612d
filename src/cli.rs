//! What a person types.

use std::env;
use std::io::{self, Write};
#[cfg(feature = "sandbox")]
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{
    Arg, ArgAction, ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum,
};
use clap_complete::Shell;

use crate::exit::Exit;

/// Pull from metered upstream APIs, and never overspend their quota.
///
/// Every request is charged to a sliding-window ledger before it is sent. When the ledger says no, the run stops
/// cleanly, and the next one goes on where it stopped.
#[derive(Debug, Parser)]
#[command(name = "ingest", version, subcommand_negates_reqs = true)]
#[command(after_help = EXIT_CODES, after_long_help = long_notes())]
pub struct Cli {
    /// What to do instead of a run.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// What to run.
    #[command(flatten)]
    pub run: RunArgs,
    /// What holds for every command.
    #[command(flatten)]
    pub global: Global,
}

impl Cli {
    /// Reads the command line, or ends the process with what is wrong with it.
    #[must_use]
    pub fn read() -> Self {
        let read = command()
            .try_get_matches()
            .and_then(|matches| Self::of(&matches));
        read.unwrap_or_else(|error| {
            if env::args_os().len() <= 1 {
                suggest();
            }
            refuse(&error)
        })
    }

    fn of(matches: &ArgMatches) -> Result<Self, clap::Error> {
        misplaced(matches)?;
        let mut cli =
            Self::from_arg_matches(matches).map_err(|error| error.format(&mut command()))?;
        if let Some((_, after)) = matches.subcommand() {
            cli.global
                .sets
                .extend(after.get_many(SETS).into_iter().flatten().cloned());
        }
        if cli.global.quiet && cli.global.verbose > 0 {
            return Err(command().error(
                ErrorKind::ArgumentConflict,
                "--quiet and --verbose exclude each other",
            ));
        }
        Ok(cli)
    }
}

/// Everything that can be typed.
///
/// An option that is global in clap and stands both before and after a subcommand loses what stood before it: `--set`, which
/// can be repeated, is an option of each subcommand instead.
#[must_use]
pub fn command() -> clap::Command {
    let command = Cli::command();
    let set = command
        .get_arguments()
        .find(|option| option.get_id() == SETS)
        .cloned();
    command.mut_subcommands(|subcommand| subcommand.args(&set))
}

const SETS: &str = "sets";

/// What a run alone has, given before a subcommand, would be ignored there: `--dry-run` most of all.
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
        format!("--{option} before {name} is for a run; write it after {name}")
    } else {
        format!("--{option} is for a run; {name} takes none")
    };
    Err(command.error(ErrorKind::ArgumentConflict, message))
}

/// A count of what is asked for at once.
fn at_least_one<T: FromStr + PartialOrd + From<u8>>(text: &str) -> Result<T, String> {
    text.parse()
        .ok()
        .filter(|count| *count >= T::from(1))
        .ok_or_else(|| "give 1 or more".to_owned())
}

/// Ends the process with what a newcomer can try.
fn suggest() -> ! {
    // The exit code says it too.
    let _ = writeln!(io::stderr(), "{SUGGESTIONS}");
    std::process::exit(Exit::Usage.code().into())
}

const SUGGESTIONS: &str = "\
ingest: no regions given. Try:

  ingest --region all --sandbox   run every job against a local stand-in: no key, no real quota
  ingest --region all --dry-run   show what a run would spend, without spending it
  ingest --region all             run every job that is due
  ingest status                   show the limits and how fresh each region is
  ingest init                     write a configuration to start from
  ingest --help                   list all commands and options";

/// Ends the process with what is wrong; whoever reads JSON from stdout gets an object there too.
fn refuse(error: &clap::Error) -> ! {
    let arguments: Vec<String> = env::args_os()
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    let asks_for_json = arguments
        .windows(2)
        .any(|pair| pair == ["--format", "json"])
        || arguments.iter().any(|argument| argument == "--format=json");
    if asks_for_json && error.use_stderr() {
        let object = serde_json::json!({ "error": error.render().to_string().trim_end() });
        // Whoever stopped reading is told by the exit code.
        let _ = writeln!(io::stdout(), "{object}");
    }
    error.exit()
}

const EXIT_CODES: &str = "Exit codes: 0 done, or stopped cleanly at a limit, or nothing was due; 1 something failed or was refused, or a check found a fault; \
2 wrong usage or configuration; 75 a limit said no, for a run only with --strict; 130, 143 interrupted.";

/// The end of `--help` and of the manual page.
fn long_notes() -> String {
    format!("{EXIT_CODES}\n\n{LEDGER_URLS}")
}

const LEDGER_URLS: &str = "\
Where charges are recorded, as `ledger.url` in quotas.toml:

  sqlite
    a file in the state directory, for one machine
  redis://[USER@]HOST[:PORT][/DATABASE], rediss://... for TLS
    one Redis for several machines
  redis+sentinel://[USER@]HOST[:PORT][,HOST[:PORT]...]/SERVICE[/DATABASE][?tls=true]
    the primary that the Sentinels name
  redis+cluster://[USER@]HOST[:PORT][,HOST[:PORT]...][?tls=true]
    a Redis Cluster
  unix:///PATH[?db=DATABASE&user=USER]
    a Redis on this machine

`ledger.password` and `ledger.sentinel_password` are { env = NAME }, { file = PATH }, { credential = NAME } or \
{ command = [PROGRAM, ...] }; `ledger.tls` is { ca = FILE, cert = FILE, key = FILE }.";

/// What holds for every command.
#[derive(Debug, Clone, Args)]
pub struct Global {
    /// The configuration; otherwise $INGEST_CONFIG, ./quotas.toml, $XDG_CONFIG_HOME/ingest/quotas.toml, /etc/ingest/quotas.toml
    #[arg(long, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,
    /// Any configured value by its dotted path; repeatable
    #[arg(id = SETS, long = "set", value_name = "PATH=VALUE", action = ArgAction::Append)]
    pub sets: Vec<String>,
    /// Where ledger, catalog, journal and locks are; otherwise $INGEST_STATE_DIR, $STATE_DIRECTORY, $XDG_STATE_HOME/ingest
    #[arg(long, value_name = "DIR", global = true)]
    pub state_dir: Option<PathBuf>,
    /// How results are written to stdout
    #[arg(long, value_enum, default_value_t, global = true)]
    pub format: Format,
    /// How the log is written to stderr; otherwise $INGEST_LOG
    #[arg(
        long,
        value_enum,
        default_value_t,
        env = "INGEST_LOG",
        hide_env = true,
        global = true
    )]
    pub log: Log,
    /// Say more on stderr; repeat for more
    #[arg(short, long, action = ArgAction::Count, global = true)]
    pub verbose: u8,
    /// Say nothing unless something failed
    #[arg(short, long, global = true)]
    pub quiet: bool,
}

impl Global {
    /// Whether only the log is read (`--quiet --log json`): then a failure is an event, and no text goes to stdout.
    #[must_use]
    pub fn logs_only(&self) -> bool {
        self.quiet && self.log == Log::Json
    }
}

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// For scripts: one JSON object.
    Json,
}

/// How the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Log {
    /// For people: what they should know beside the result.
    #[default]
    // A variable that is set to nothing is as good as unset.
    #[value(alias = "")]
    Text,
    /// For collectors: one JSON object an event, failures among them.
    Json,
}

/// What to run.
#[derive(Debug, Clone, Args)]
pub struct RunArgs {
    /// Regions to walk, or `all`
    #[arg(
        long = "region",
        value_name = "REGION,…",
        value_delimiter = ',',
        required = true
    )]
    pub regions: Vec<String>,
    /// Jobs to run; otherwise all of them
    #[arg(long = "job", value_name = "JOB,…", value_delimiter = ',')]
    pub jobs: Vec<String>,
    /// Preview the spend: nothing is charged, requested or written. Its bounds include no retries
    #[arg(long)]
    pub dry_run: bool,
    /// Run against a local stand-in for the upstreams, with a state directory of its own: no key, no real quota
    #[cfg(feature = "sandbox")]
    #[arg(long)]
    pub sandbox: bool,
    /// How many regions walk at once
    #[arg(long, value_name = "N", default_value = "8", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub concurrency: u16,
    /// Write the run's figures there for Prometheus' textfile collector; otherwise $INGEST_METRICS_FILE
    #[arg(long, value_name = "FILE")]
    pub metrics_file: Option<PathBuf>,
    /// Exit with 75 when a limit stopped the run
    #[arg(long)]
    pub strict: bool,
}

/// What to do instead of a run.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show the limits and how fresh each region is
    Status(StatusArgs),
    /// Is quotas.toml right, are the secrets there, can the files be used? With --connect: does everything answer?
    Check(CheckArgs),
    /// Write a configuration to begin with; a file that is there is left as it is
    Init(InitArgs),
    /// List the presets that `init` can write
    Presets,
    /// Check the files of the state directory, and make their indices anew
    Repair,
    /// Copy the files of the state directory, beside whatever runs
    Backup(BackupArgs),
    /// Print the JSON Schema of quotas.toml, for editors
    Schema,
    /// Full-text search of what was ingested; costs nothing
    Search(SearchArgs),
    /// Charge one call by hand or from a script, to the same ledger
    Charge(ChargeArgs),
    /// Give back what a charge took, by its id
    Release(ReleaseArgs),
    /// Charge one call, and run a command only when it was granted
    Exec(ExecArgs),
    /// What a schedule of runs leads to: spend, limits, staleness
    Forecast(ForecastArgs),
    /// Passes and spend by day, job and region
    History(HistoryArgs),
    /// Write out the records of a kind
    Export(ExportArgs),
    /// Open a limit again that the upstream had called spent
    Reopen(ReopenArgs),
    /// Serve the stand-in for the upstreams alone
    #[cfg(feature = "sandbox")]
    Sandbox(SandboxArgs),
    /// Print a completion script
    Completions {
        /// For which shell
        shell: Shell,
    },
    /// Print the manual page, of ingest or of one of its commands
    Man {
        /// Of which command
        command: Option<String>,
    },
}

/// What to begin with.
#[derive(Debug, Clone, Args)]
pub struct InitArgs {
    /// One of `ingest presets`; otherwise the configuration that is shipped
    #[arg(long, value_name = "NAME")]
    pub preset: Option<String>,
    /// Where to write it
    #[arg(default_value = "quotas.toml")]
    pub file: PathBuf,
}

/// What status to show.
#[derive(Debug, Clone, Copy, Args)]
pub struct StatusArgs {
    /// Exit with 1 if a region has no complete pass within this time, such as 6h
    #[arg(long, value_name = "SPAN", value_parser = humantime::parse_duration)]
    pub fail_if_stale: Option<Duration>,
}

/// What to look at.
#[derive(Debug, Clone, Copy, Args)]
pub struct CheckArgs {
    /// Check quotas.toml only: needs no secrets, no state directory and no network
    #[arg(long, conflicts_with_all = ["connect", "spend"])]
    pub config_only: bool,
    /// Also connect: the ledger answers, every upstream's host is found and speaks TLS; nothing is metered
    #[arg(long)]
    pub connect: bool,
    /// With --connect: also make one metered call with every credential, the cheapest, charged like any other; says what it cost
    #[arg(long, requires = "connect")]
    pub spend: bool,
}

/// What to search for.
#[derive(Debug, Clone, Args)]
pub struct SearchArgs {
    /// Words, all of which must be there
    #[arg(required = true)]
    pub words: Vec<String>,
    /// Only records of this kind
    #[arg(long)]
    pub kind: Option<String>,
    /// Only what was listed for this region
    #[arg(long)]
    pub region: Option<String>,
    /// Only what was seen within this long, such as 7d
    #[arg(long, value_name = "SPAN", value_parser = humantime::parse_duration)]
    pub since: Option<Duration>,
    /// At most so many hits
    #[arg(long, value_name = "N", default_value = "20", value_parser = at_least_one::<u32>)]
    pub limit: u32,
}

/// What to charge.
#[derive(Debug, Clone, Args)]
pub struct ChargeArgs {
    /// A credential of the configuration
    pub credential: String,
    /// A call of its upstream, such as videos.list
    pub call: String,
    /// The id to charge under: repeating one is granted again and counted once
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    pub id: Option<String>,
    /// So many of them at once, all or none
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = at_least_one::<u64>)]
    pub times: u64,
}

/// What to give back.
#[derive(Debug, Clone, Args)]
pub struct ReleaseArgs {
    /// The id that the charge was granted under
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub id: String,
    /// The account that was charged; needed where a shared ledger was charged from another machine
    #[arg(long)]
    pub account: Option<String>,
}

/// Where the copies go.
#[derive(Debug, Clone, Args)]
pub struct BackupArgs {
    /// A directory that is empty, or not there yet
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}

/// What to run once it is charged.
#[derive(Debug, Clone, Args)]
pub struct ExecArgs {
    /// What is charged.
    #[command(flatten)]
    pub charge: ChargeArgs,
    /// What to run, with its arguments, after --; it finds the id of its charge in $INGEST_CHARGE_ID
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<std::ffi::OsString>,
}

/// What to forecast.
#[derive(Debug, Clone, Args)]
pub struct ForecastArgs {
    /// When runs start: a cron expression, or hourly, daily, '*-*-* 03:00:00'
    #[arg(long, value_name = "CRON")]
    pub schedule: String,
    /// How many days
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
    /// Jobs to run; otherwise all of them
    #[arg(long = "job", value_name = "JOB,…", value_delimiter = ',')]
    pub jobs: Vec<String>,
    /// How many regions walk at once
    #[arg(long, value_name = "N", default_value = "8", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub concurrency: u16,
}

/// What history to show.
#[derive(Debug, Clone, Args)]
pub struct HistoryArgs {
    /// Only what began within this long, such as 30d
    #[arg(long, value_name = "SPAN", default_value = "30d", value_parser = humantime::parse_duration)]
    pub since: Duration,
    /// Write it as comma-separated values instead
    #[arg(long)]
    pub csv: bool,
    /// Leave text that a spreadsheet would run as a formula as it is; otherwise it has a ' before it
    #[arg(long, requires = "csv")]
    pub raw: bool,
}

/// What to write out.
#[derive(Debug, Clone, Args)]
pub struct ExportArgs {
    /// The kind of record, such as video
    #[arg(long)]
    pub kind: String,
    /// Only what was listed for this region
    #[arg(long)]
    pub region: Option<String>,
    /// Only what was seen within this long, such as 7d
    #[arg(long, value_name = "SPAN", value_parser = humantime::parse_duration)]
    pub since: Option<Duration>,
    /// How it is written
    #[arg(long = "as", value_enum, default_value_t)]
    pub shape: Shape,
    /// With --as csv: leave text that a spreadsheet would run as a formula as it is; otherwise it has a ' before it
    #[arg(long)]
    pub raw: bool,
    /// Into this file, whole or not at all; otherwise to stdout
    #[arg(long, value_name = "FILE")]
    pub to: Option<PathBuf>,
}

/// How records are written out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Shape {
    /// A JSON object a line, the whole record in it.
    #[default]
    Ndjson,
    /// Comma-separated values: the columns that are configured for the kind.
    Csv,
}

/// What to reopen.
#[derive(Debug, Clone, Args)]
pub struct ReopenArgs {
    /// An account: a credential's name, unless `account` says otherwise
    pub account: String,
    /// A limit of it, such as daily
    pub limit: String,
}

/// How the stand-in behaves.
#[cfg(feature = "sandbox")]
#[derive(Debug, Clone, Args)]
pub struct SandboxArgs {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,
    /// How long every answer takes
    #[arg(long, value_name = "SPAN", default_value = "0ms", value_parser = humantime::parse_duration)]
    pub latency: Duration,
    /// The share of requests that fail, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub failure_rate: f64,
    /// The real quota of every limit, instead of the configured ones
    #[arg(long, value_name = "UNITS")]
    pub quota: Option<u64>,
    /// What decides which requests fail, and what the data look like
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}
