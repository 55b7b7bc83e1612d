//! `ingest catalog copy`: copies the catalog from a file to PostgreSQL or back.

use serde_json::json;

use super::environment::{CATALOG_FILE, Environment};
use super::figures::counted;
use super::output::Message;
use super::progress::Working;
use super::{Error, output};
use crate::cli::{CatalogCopyArgs, Global};
use crate::exit::Exit;
use ingest_catalog::{Catalog, CopiedTable, Postgres, copy};
use ingest_config::PostgresUrl;

/// The word for the file in the state directory.
const FILE: &str = "sqlite";

/// Copies the catalog, and reports what was written.
pub async fn copy_catalog(global: &Global, args: &CatalogCopyArgs) -> Result<Exit, Error> {
    let environment = Environment::load(global)?;
    if args.from == args.to {
        return Err(Error::Usage(
            "--from and --to name the same catalog".to_owned(),
        ));
    }
    // Opening would create it, and the copy of an empty catalog would be reported as verified.
    if args.from == FILE && !environment.state_dir.join(CATALOG_FILE).exists() {
        return Err(Error::Refused(format!(
            "no catalog to copy: {} does not exist",
            environment.state_dir.join(CATALOG_FILE).display()
        )));
    }
    let from = opened(&environment, "--from", &args.from).await?;
    let to = opened(&environment, "--to", &args.to).await?;
    let working = Working::on(global, "copying the catalog", "row");
    let report = |table: CopiedTable| {
        working.count(table.rows);
        tracing::debug!(
            table = table.name,
            rows = table.rows,
            written = table.written,
            "copied"
        );
    };
    let copied = copy(&from, &to, &report).await?;
    drop(working);
    let report = json!({ "tables": copied, "verified": true });
    output::report(global, &report, |_| Message::Done(in_words(&copied)))?;
    Ok(Exit::Success)
}

async fn opened(environment: &Environment, option: &str, url: &str) -> Result<Catalog, Error> {
    if url == FILE {
        environment.create_state_dir()?;
        let path = environment.state_dir.join(CATALOG_FILE);
        return Ok(Catalog::open(&path)?);
    }
    let parsed = PostgresUrl::parse(url).map_err(|error| {
        Error::Usage(format!(
            "{option}: {error}; write `sqlite` or postgres://USER@HOST/DATABASE"
        ))
    })?;
    let config = &environment.config.catalog;
    let password = config.password.clone();
    let database = Postgres::new(&parsed, password, &config.schema, config.connections);
    Ok(Catalog::connect(database).await?)
}

fn in_words(copied: &[CopiedTable]) -> String {
    let rows = copied.iter().map(|table| table.rows).sum();
    let written: u64 = copied.iter().map(|table| table.written).sum();
    format!(
        "The copy has the same {} in {}; {written} of them were written now.",
        counted(rows, "row"),
        counted(copied.len() as u64, "table")
    )
}
