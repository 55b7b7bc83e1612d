//! Files without a version: new ones, and those that were restored from a dump as text, which has no `user_version`.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::Connection;

use super::{OpenError, Schema};

/// Tables by name, with their definitions. Virtual tables and the tables behind them are left out, and what SQLite keeps
/// for itself: a dump may not have them. So is the mark of a backup, which is in a copy of any version.
type Tables = BTreeMap<String, String>;

const TABLES: &str = "select name, sql from sqlite_schema where type = 'table' and name not like 'sqlite\\_%' escape '\\'
    and name <> 'backup'";

/// The version whose tables a file has; 0 for a file without tables. The newest version that fits is meant.
///
/// # Errors
/// When the file cannot be read, or holds other tables than any version has.
pub fn version_of(connection: &Connection, path: &Path, schema: Schema) -> Result<i64, OpenError> {
    let failed = |source| OpenError::Sqlite {
        path: path.to_owned(),
        name: schema.name,
        source,
    };
    let found = tables(connection).map_err(failed)?;
    if found.is_empty() {
        return Ok(0);
    }
    versions(schema)
        .map_err(failed)?
        .into_iter()
        .rev()
        .find(|(_, tables)| {
            tables
                .iter()
                .all(|(name, sql)| found.get(name) == Some(sql))
        })
        .map(|(version, _)| version)
        .ok_or_else(|| OpenError::Foreign {
            path: path.to_owned(),
            name: schema.name,
        })
}

/// The tables of each version, from the oldest.
fn versions(schema: Schema) -> rusqlite::Result<Vec<(i64, Tables)>> {
    let scratch = Connection::open_in_memory()?;
    (1..)
        .zip(schema.migrations)
        .map(|(version, migration)| {
            scratch.execute_batch(migration)?;
            Ok((version, tables(&scratch)?))
        })
        .collect()
}

fn tables(connection: &Connection) -> rusqlite::Result<Tables> {
    let mut statement = connection.prepare(TABLES)?;
    let all = statement
        .query_map([], |row| row.try_into())?
        .collect::<rusqlite::Result<Vec<(String, String)>>>()?;
    let (of_modules, ordinary): (Vec<_>, Vec<_>) = all
        .into_iter()
        .partition(|(_, sql)| normalized(sql).starts_with("createvirtualtable"));
    let is_behind = |name: &str| {
        of_modules
            .iter()
            .any(|(module, _)| name.starts_with(&format!("{module}_")))
    };
    Ok(ordinary
        .into_iter()
        .filter(|(name, _)| !is_behind(name))
        .map(|(name, sql)| (name, normalized(&sql)))
        .collect())
}

/// A definition without what tools write differently: case, space and quotes.
fn normalized(sql: &str) -> String {
    sql.chars()
        .filter(|character| !character.is_whitespace() && !"\"'`[]".contains(*character))
        .flat_map(char::to_lowercase)
        .collect()
}
