//! `ingest completions`, `ingest man` and `ingest schema`: made from what `--help` and the reader of quotas.toml know.

use std::io;

use clap_complete::Shell;

use super::Error;
use crate::cli::command;
use crate::config;
use crate::exit::Exit;

/// Prints a completion script.
pub fn completions(shell: Shell) -> Result<Exit, Error> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "ingest", &mut script);
    write(&script)
}

/// Prints the manual page, of the program or of one of its commands.
pub fn man(name: Option<&str>) -> Result<Exit, Error> {
    let mut all = command();
    all.build();
    let described = match name {
        None => all,
        Some(name) => all
            .find_subcommand(name)
            .cloned()
            .ok_or_else(|| no_such_command(name))?,
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(described)
        .render(&mut page)
        .map_err(Error::io("cannot make the manual page"))?;
    write(&page)
}

fn no_such_command(name: &str) -> Error {
    Error::Usage(format!(
        "there is no command `{name}`; `ingest --help` lists them all"
    ))
}

/// Prints the JSON Schema of `quotas.toml`.
pub fn schema() -> Result<Exit, Error> {
    let text = serde_json::to_string_pretty(&config::schema());
    let text = text.map_err(|error| Error::io("cannot make the schema")(error.into()))?;
    write(format!("{text}\n").as_bytes())
}

fn write(bytes: &[u8]) -> Result<Exit, Error> {
    match io::Write::write_all(&mut io::stdout().lock(), bytes) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::io("cannot write to stdout")(error))
        }
        _ => Ok(Exit::Success),
    }
}
