//! Which tables a file has: it is made with them, and known by them.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use ring::digest::{SHA256, digest};
use rusqlite::{Connection, TransactionBehavior};

use super::{OpenError, confirmed};

/// A kind of file.
#[derive(Debug, Clone, Copy)]
pub struct Schema {
    /// What the file holds, as a message calls it: `ledger`, `catalog`.
    pub name: &'static str,
    /// Rises with every release that changes `tables`.
    pub version: i32,
    /// The statements that create what a new file holds.
    pub tables: &'static str,
    /// What to do with a file of any other version.
    pub remedy: &'static str,
}

/// By what a file, or a schema of PostgreSQL, is known: the version, and a digest of the statements that made its tables. SQLite
/// keeps them as `user_version` and `application_id`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// 0 where none was written: in a new file, and in one that was restored from a dump as text.
    pub version: i32,
    /// 32 bits of SHA-256.
    pub digest: i32,
}

impl Identity {
    /// The identity of what these statements make.
    pub fn new(version: i32, tables: &str) -> Self {
        let hash = digest(&SHA256, normalized(tables).as_bytes());
        let first = hash.as_ref().first_chunk().copied().unwrap_or_default();
        Self {
            version,
            digest: i32::from_be_bytes(first),
        }
    }

    fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let sql =
            "select user_version, application_id from pragma_user_version, pragma_application_id";
        connection.query_row(sql, [], |row| {
            Ok(Self {
                version: row.get(0)?,
                digest: row.get(1)?,
            })
        })
    }

    fn write(self, connection: &Connection) -> rusqlite::Result<()> {
        connection.pragma_update(None, "application_id", self.digest)?;
        connection.pragma_update(None, "user_version", self.version)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (tables {:08x})", self.version, self.digest)
    }
}

/// What a file was found to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoundTables {
    /// What this release writes.
    Current,
    /// The same without an identity, restored from a dump as text.
    Restored,
    /// Nothing yet.
    Empty,
    /// Another release's; without a version, other tables than this release's.
    Other(Identity),
    /// Another database, which has none of the tables.
    Another,
}

impl Schema {
    /// By what a file of this release is known.
    pub fn identity(&self) -> Identity {
        Identity::new(self.version, self.tables)
    }

    pub fn recognize(&self, connection: &Connection) -> rusqlite::Result<FoundTables> {
        match Identity::read(connection)? {
            found if found == self.identity() => Ok(FoundTables::Current),
            found if found.version != 0 => {
                let theirs = names(connection)?;
                let is_another = theirs.is_disjoint(&names(&self.new_tables()?)?);
                Ok(match is_another && !theirs.is_empty() {
                    true => FoundTables::Another,
                    false => FoundTables::Other(found),
                })
            }
            found => self.compare(connection, found),
        }
    }

    /// The tables of a new file, in memory.
    fn new_tables(&self) -> rusqlite::Result<Connection> {
        let new = Connection::open_in_memory()?;
        new.execute_batch(self.tables)?;
        Ok(new)
    }

    /// Compares the tables of a file without a version, and what belongs to them, with those of this release.
    fn compare(&self, connection: &Connection, found: Identity) -> rusqlite::Result<FoundTables> {
        let theirs = definitions(connection)?;
        if theirs.is_empty() {
            return Ok(FoundTables::Empty);
        }
        Ok(match definitions(&self.new_tables()?)?.is_subset(&theirs) {
            true => FoundTables::Restored,
            false => FoundTables::Other(found),
        })
    }

    /// Makes a file what this release writes.
    pub fn establish(&self, connection: &mut Connection, path: &Path) -> Result<(), OpenError> {
        let failed = |error| OpenError::sqlite(path, self.name, confirmed(path, error));
        if self.recognize(connection).map_err(failed)? == FoundTables::Current {
            return Ok(());
        }
        let tx = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(failed)?;
        match self.recognize(&tx).map_err(failed)? {
            // Another process has made it meanwhile.
            FoundTables::Current => return Ok(()),
            FoundTables::Restored => Ok(()),
            FoundTables::Empty => tx.execute_batch(self.tables),
            FoundTables::Other(found) => return Err(self.refuse(path, found, self.remedy)),
            FoundTables::Another => return Err(self.refuse_another(path)),
        }
        .and_then(|()| self.identity().write(&tx))
        .and_then(|()| tx.commit())
        .map_err(failed)
    }

    pub fn refuse_another(&self, path: &Path) -> OpenError {
        let name = self.name;
        let why = format!(
            "none of the tables of a {name}: it is another database, of ingest or of another program, under this name; move it \
            away, and put the {name} back or restore it from a backup"
        );
        OpenError::Foreign {
            path: path.to_owned(),
            name,
            why,
        }
    }

    pub fn refuse(&self, path: &Path, found: Identity, remedy: &str) -> OpenError {
        let (name, known) = (self.name, self.identity());
        let why = match found.version {
            0 => format!(
                "no version (`pragma user_version` is 0), and its tables are not those of a {name}; restore it from a backup, or \
                {remedy}"
            ),
            newer if newer > known.version => format!(
                "version {newer}, and this release supports versions up to {}; upgrade ingest",
                known.version
            ),
            _ => format!("version {found}, and this release reads version {known}; {remedy}"),
        };
        OpenError::Foreign {
            path: path.to_owned(),
            name,
            why,
        }
    }
}

/// The tables of a file. Not those that SQLite keeps for itself, nor the mark of a backup, which is in a copy of any version.
const TABLES: &str =
    "type = 'table' and name not like 'sqlite\\_%' escape '\\' and name <> 'backup'";

/// The names of a file's tables.
fn names(connection: &Connection) -> rusqlite::Result<BTreeSet<String>> {
    let sql = format!("select lower(name) from sqlite_schema where {TABLES}");
    Ok(texts(connection, &sql)?.into_iter().collect())
}

/// What a file holds but for views: each definition without what tools write differently.
fn definitions(connection: &Connection) -> rusqlite::Result<BTreeSet<String>> {
    let sql = format!(
        "select sql from sqlite_schema where {TABLES} or type in ('index', 'trigger') and sql is not null"
    );
    let all = texts(connection, &sql)?;
    Ok(all.iter().map(|sql| normalized(sql)).collect())
}

/// The texts that a statement returns.
pub fn texts(connection: &Connection, sql: &str) -> rusqlite::Result<Vec<String>> {
    connection
        .prepare(sql)?
        .query_map([], |row| row.get(0))?
        .collect()
}

/// A definition without case, space and quotes.
fn normalized(sql: &str) -> String {
    sql.chars()
        .filter(|character| !character.is_whitespace() && !"\"'`[]".contains(*character))
        .flat_map(char::to_lowercase)
        .collect()
}
