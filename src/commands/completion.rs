//! Completion of names of the configuration and of presets in a shell.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::Arg;
use clap_complete::Shell;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Shells};

use super::{Error, presets};
use crate::cli;
use ingest_config::{Config, Sources};

/// The environment variable by which a shell's script requests candidates. The library's own, `COMPLETE`, could be set for
/// other reasons.
const VARIABLE: &str = "_INGEST_COMPLETE";
const PROGRAM: &str = "ingest";

/// Prints candidates and ends the process, if the shell started it for that.
pub fn answer_shell() {
    CompleteEnv::with_factory(command).var(VARIABLE).complete();
}

/// Returns the completion script of a shell.
pub fn script(shell: Shell) -> Result<Vec<u8>, Error> {
    let shells = Shells::builtins();
    let name = shell.to_string();
    let completer = shells
        .completer(&name)
        .ok_or_else(|| Error::Usage(format!("no completion for {name}")))?;
    let mut script = Vec::new();
    completer
        .write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script)
        .map_err(Error::io("cannot write the completion script"))?;
    Ok(script)
}

fn command() -> clap::Command {
    let command = cli::command().mut_args(|arg| with_names("", arg));
    command.mut_subcommands(|subcommand| {
        let name = subcommand.get_name().to_owned();
        subcommand.mut_args(|arg| with_names(&name, arg))
    })
}

/// The argument, with the names that it takes. `subcommand` is empty for a run.
fn with_names(subcommand: &str, arg: Arg) -> Arg {
    let names: fn() -> Vec<String> = match (subcommand, arg.get_id().as_str()) {
        (_, "regions") => || with_all(regions()),
        (_, "region") => regions,
        (_, "jobs") => {
            || of_config(|config| config.jobs.iter().map(|job| job.name.clone()).collect())
        }
        (_, "kind") => kinds,
        (_, "credential") => || of_config(|config| config.credentials.keys().cloned().collect()),
        (_, "call") => calls,
        (_, "account") => || of_accounts(|account| vec![account.name.clone()]),
        ("close" | "reopen", "limit") => {
            || of_accounts(|account| account.limits.keys().cloned().collect())
        }
        (_, "preset") => presets::names,
        ("man", "command") => commands,
        _ => return arg,
    };
    arg.add(ArgValueCompleter::new(move |current: &OsStr| {
        let current = current.to_string_lossy();
        let mut names = names();
        names.retain(|name| name.starts_with(&*current));
        names.dedup();
        names
            .into_iter()
            .map(CompletionCandidate::new)
            .collect::<Vec<_>>()
    }))
}

fn regions() -> Vec<String> {
    of_config(|config| {
        config
            .regions
            .iter()
            .map(|region| region.code.clone())
            .collect()
    })
}

fn with_all(mut names: Vec<String>) -> Vec<String> {
    names.insert(0, "all".to_owned());
    names
}

fn kinds() -> Vec<String> {
    of_config(|config| config.kinds().into_iter().map(str::to_owned).collect())
}

fn calls() -> Vec<String> {
    let mut calls = of_config(|config| {
        let calls = config.upstreams.values().flat_map(|one| one.calls.keys());
        calls.cloned().collect()
    });
    calls.sort();
    calls
}

fn commands() -> Vec<String> {
    let command = cli::command();
    let names = command.get_subcommands().map(clap::Command::get_name);
    names.map(str::to_owned).collect()
}

fn of_accounts(names: impl Fn(&ingest_quota::Account) -> Vec<String>) -> Vec<String> {
    let mut all = of_config(|config| {
        let accounts = config.credentials.values();
        accounts.flat_map(|one| names(&one.account)).collect()
    });
    all.sort();
    all
}

/// Returns names of the configuration that the command line refers to; none if it is missing or invalid.
fn of_config(names: impl FnOnce(&Config) -> Vec<String>) -> Vec<String> {
    let sources = Sources {
        // Found in the words: the line is still being typed, so clap cannot read it.
        path: typed_config(env::args_os()),
        sets: Vec::new(),
    };
    Config::load(&sources).map_or_else(|_| Vec::new(), |config| names(&config))
}

/// The file behind `--config` in the command line that follows `--`.
fn typed_config(arguments: impl Iterator<Item = OsString>) -> Option<PathBuf> {
    let mut typed = arguments.skip_while(|word| word != "--");
    while let Some(word) = typed.next() {
        if word == "--config" {
            return typed.next().map(PathBuf::from);
        }
        if let Some(file) = word
            .to_str()
            .and_then(|word| word.strip_prefix("--config="))
        {
            return Some(file.into());
        }
    }
    None
}
