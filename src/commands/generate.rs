//! `ingest completions`, `ingest man` and `ingest schema`: generated from the definitions of the command line and of quotas.toml.

use clap_complete::Shell;

use super::{Error, completion, output};
use crate::cli::command;
use crate::exit::Exit;
use ingest_config as config;

/// Prints a completion script.
pub fn completions(shell: Shell) -> Result<Exit, Error> {
    write(&completion::script(shell)?)
}

/// Files, environment and examples, which `--help` does not contain, in roff.
const MANUAL: &[u8] = include_bytes!("manual.roff");
/// The reference to the main page, at the end of a command's page.
const SEE_MAIN_PAGE: &[u8] = b".SH SEE ALSO\n.BR ingest (1)\n";

/// Prints the manual page of the program, or of one of its commands.
pub fn man(name: Option<&str>) -> Result<Exit, Error> {
    // `help` prints what the pages contain; it has no page.
    let mut all = command().disable_help_subcommand(true);
    all.build();
    let (described, further) = match name {
        None => (all, MANUAL),
        Some(name) => {
            let found = all.find_subcommand(name).cloned();
            (found.ok_or_else(|| no_such_command(name))?, SEE_MAIN_PAGE)
        }
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(described)
        .render(&mut page)
        .map_err(Error::io("cannot generate the manual page"))?;
    page.extend_from_slice(further);
    write(&page)
}

fn no_such_command(name: &str) -> Error {
    Error::Usage(format!(
        "unknown command `{name}`; `ingest --help` lists all commands"
    ))
}

/// Prints the JSON Schema of `quotas.toml`.
pub fn schema() -> Result<Exit, Error> {
    let text = serde_json::to_string_pretty(&config::schema());
    let text = text.map_err(|error| Error::io("cannot generate the schema")(error.into()))?;
    write(format!("{text}\n").as_bytes())
}

fn write(bytes: &[u8]) -> Result<Exit, Error> {
    output::bytes(bytes)?;
    Ok(Exit::Success)
}
