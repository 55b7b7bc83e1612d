//! `ingest completions` and `ingest man`: made from what `--help` knows.

use std::io;

use clap::CommandFactory;
use clap_complete::Shell;

use super::Error;
use crate::cli::Cli;
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

fn write(bytes: &[u8]) -> Result<Exit, Error> {
    match io::Write::write_all(&mut io::stdout().lock(), bytes) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Error::io("cannot write to stdout")(error)),
        _ => Ok(Exit::Success),
    }
}
