//! `ingest completions`, `ingest man` and `ingest schema`: made from what `--help` and the reader of quotas.toml know.

use std::io;

use clap::CommandFactory;
use clap_complete::Shell;

use super::Error;
use crate::cli::Cli;
use crate::config;
use crate::exit::Exit;

/// Prints a completion script.
pub(super) fn completions(shell: Shell) -> Result<Exit, Error> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "ingest", &mut script);
    write(&script)
}

/// Prints the manual page.
pub(super) fn man() -> Result<Exit, Error> {
    let mut page = Vec::new();
    clap_mangen::Man::new(Cli::command()).render(&mut page).map_err(Error::io("cannot make the manual page"))?;
    write(&page)
}

/// Prints the JSON Schema of `quotas.toml`.
pub(super) fn schema() -> Result<Exit, Error> {
    let text = serde_json::to_string_pretty(&config::schema());
    let text = text.map_err(|error| Error::io("cannot make the schema")(error.into()))?;
    write(format!("{text}\n").as_bytes())
}

fn write(bytes: &[u8]) -> Result<Exit, Error> {
    match io::Write::write_all(&mut io::stdout().lock(), bytes) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Error::io("cannot write to stdout")(error)),
        _ => Ok(Exit::Success),
    }
}
