//! The full-text index, in a file of its own beside the catalog, so that every reader of SQLite can open the catalog.
//!
//! Two files cannot be committed together, because SQLite commits each write-ahead log on its own. So the catalog logs which
//! texts changed (`text_change`) in the transaction that changes them, and the index stores its position in that log in the
//! transaction that applies the changes. After an interruption the next writer applies the rest: at once where it shows, by a log
//! that nobody deleted, and otherwise with the first page that it lands, which opens the index. An index whose position is
//! from another history than the catalog's, as after a power cut or a restored file, is rebuilt.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};

use super::indexer::ChangedPage;
use super::{StoreError, rebuild};
use ingest_sqlite as sqlite;
use ingest_sqlite::{Database, Interruptible, OpenError, Schema};

/// The index's file, in the directory of its catalog.
pub const FILE: &str = "search.db";

/// What the file holds.
///
/// | table | what a row is |
/// | --- | --- |
/// | `record_text` | full-text index: `rowid` is `record.number`; it holds the words of a text's first 64 KiB, not texts |
/// | `followed` | the newest row of the catalog's `text_change` that the index holds |
const SCHEMA: Schema = Schema {
    name: "full-text index",
    version: 1,
    tables: TABLES,
    former: None,
    remedy: "`ingest repair` builds it again from the catalog, without any request",
};

const TABLES: &str = r#"
create virtual table record_text using fts5 (
    text,
    content = '',
    contentless_delete = 1,
    tokenize = "unicode61 remove_diacritics 2 categories 'L* N* Co M*'"
);
create table followed (
    only_row integer primary key check (only_row = 1),
    seq      integer not null,
    mark     integer not null
) strict;
"#;

const FOLLOWED: &str = "select seq, mark from followed";
const FOLLOW: &str = "insert into followed (only_row, seq, mark) values (1, ?1, ?2)
    on conflict do update set seq = excluded.seq, mark = excluded.mark";
const INDEX: &str = "insert into record_text (rowid, text) values (?1, ?2)";
const UNINDEX: &str = "delete from record_text where rowid = ?1";

const IS_FOLLOWED: &str = "select exists (select 1 from text_change where seq = ?1 and mark = ?2)";
const CHANGED_SINCE: &str = "select seq, number, mark from text_change where seq > ?1 order by seq";
const CHANGES_BETWEEN: &str = "select count(*) from text_change where seq > ?1 and seq <= ?2";
const NEWEST_CHANGE: &str = "select max(seq) from text_change";
const HAS_RECORDS: &str = "select exists (select 1 from record)";
const OLDEST_CHANGE: &str = "select min(seq) from text_change";
const FORGET: &str = "delete from text_change where seq < ?1";
/// The statements for the catalog.
pub const STATEMENTS: &[&str] = &[
    IS_FOLLOWED,
    CHANGED_SINCE,
    CHANGES_BETWEEN,
    NEWEST_CHANGE,
    OLDEST_CHANGE,
    FORGET,
];

/// The entries of the log that are kept although the index has applied them. An index that lacks more is rebuilt.
// A power cut can undo committed changes of the index, but not more than its write-ahead log holds, which is fewer.
const KEPT: i64 = 10_000;

/// How long a search waits for the index of pages that a run landed just before.
const PATIENCE: Duration = Duration::from_millis(500);

/// The position of an index in the log of its catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Followed {
    pub seq: i64,
    /// Random, so that an entry differs from one with the same number in another history.
    pub mark: i64,
}

/// What the index's file is opened for.
#[derive(Debug, Clone, Copy)]
enum Access {
    Writing,
    Reading,
}

/// The full-text index of a catalog.
pub struct TextIndex {
    path: PathBuf,
    access: Access,
    /// `None` until it is needed, and if it cannot be opened: pages are then landed without it.
    database: Mutex<Option<Database>>,
    /// Whether a failure was reported, because one report per process is enough.
    reported: AtomicBool,
}

impl TextIndex {
    /// The index of the catalog at `catalog`, for writing. The first page that is landed opens its file: most runs land none.
    pub fn to_write(catalog: &Path) -> Self {
        Self::of(catalog, Access::Writing)
    }

    /// The index of the catalog at `catalog`, for reading. The first query opens its file.
    pub fn to_read(catalog: &Path) -> Self {
        Self::of(catalog, Access::Reading)
    }

    fn of(catalog: &Path, access: Access) -> Self {
        Self {
            path: catalog.with_file_name(FILE),
            access,
            database: Mutex::new(None),
            reported: AtomicBool::new(false),
        }
    }

    /// Whether the index is missing, or may lack changes of a process that was killed: the last process that closes a file deletes
    /// its log. To be called before the catalog at `catalog` is opened, which makes a log.
    pub fn may_be_behind(&self, catalog: &Path) -> bool {
        let has_log = |file: &Path| sqlite::beside(file, "-wal").exists();
        !self.path.exists() || has_log(catalog) || has_log(&self.path)
    }

    /// Indexes what changed in the catalog, also what a process left that was killed; the texts of the pages `landed` are in
    /// memory. The pages are stored already, so a failure is only reported, and the next writer tries again.
    pub fn follow(&self, records: &mut Connection, landed: &[ChangedPage]) {
        let mut opened = self.database.lock();
        let is_closed = opened.is_none();
        // What could not be opened is not tried again for each page.
        if is_closed && self.reported.load(Ordering::Relaxed) {
            return;
        }
        let followed = match self.opened(&mut opened) {
            Ok(None) => Ok(()),
            Ok(Some(database)) => database
                .change(|index| {
                    follow(index, records, landed)?;
                    if is_closed {
                        shorten_log(index, records)?;
                    }
                    Ok(())
                })
                .map_err(|error: rusqlite::Error| sqlite::explain(&error)),
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = followed {
            self.report(&error);
        }
    }

    /// Rebuilds the index from the records, even if its file is damaged. Returns the number of indexed records.
    pub fn rebuild(&self, records: &mut Connection) -> Result<u64, StoreError> {
        let mut database = self.database.lock();
        // A damaged file fails here; the index is then made anew.
        if let Ok(Some(opened)) = self.opened(&mut database)
            && let Ok(indexed) = opened.change(|index| rebuild::rebuild(index, records))
        {
            return Ok(indexed);
        }
        *database = None;
        self.remove_files();
        let mut made = sqlite::open(&self.path, SCHEMA)?;
        let indexed = made.change(|index| rebuild::rebuild(index, records))?;
        *database = Some(made);
        Ok(indexed)
    }

    /// Waits until the index holds the newest change of the catalog. Returns that change; `None` if nothing ever changed.
    /// Gives up after [`PATIENCE`]: no process may be left that would index it.
    pub fn catch_up(&self, records: &mut Database) -> Result<Option<i64>, StoreError> {
        let newest =
            records.read(|records| records.query_row(NEWEST_CHANGE, [], |row| row.get(0)))?;
        let Some(seq) = newest else { return Ok(None) };
        let began = Instant::now();
        while self.lacks(seq)? && began.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(5));
        }
        Ok(newest)
    }

    /// Whether the index does not hold a change yet.
    fn lacks(&self, seq: i64) -> Result<bool, StoreError> {
        let mut opened = self.database.lock();
        let Some(database) = self.opened(&mut opened)? else {
            return Ok(false);
        };
        let followed = database.read(followed);
        let followed = followed.map_err(|error| StoreError::of_index(&self.path, error))?;
        Ok(followed.is_some_and(|followed| followed.seq < seq))
    }

    /// Reads from the index, and returns the result of `read`. Calls it again if the index changed meanwhile. Warns if the
    /// index lacks changes up to `newest`.
    pub fn read<T: Default>(
        &self,
        (records, newest): (&Connection, Option<i64>),
        interruptible: &Interruptible,
        read: impl Fn(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let mut opened = self.database.lock();
        let Some(database) = self.opened(&mut opened)? else {
            return nothing_indexed(records).map(|()| T::default());
        };
        let found = database.read(|index| {
            let _running = interruptible.runs_on(index)?;
            Ok((missing(index, records, newest)?, read(index)?))
        });
        let (missing, found) = found.map_err(|error| StoreError::of_index(&self.path, error))?;
        match missing {
            None => nothing_indexed(records)?,
            Some(missing) => report_missing(missing),
        }
        Ok(found)
    }

    /// Opens the index if it is not open; `None` if its file does not exist and is only read.
    fn opened<'a>(
        &self,
        database: &'a mut Option<Database>,
    ) -> Result<Option<&'a mut Database>, OpenError> {
        if database.is_none() {
            *database = match self.access {
                Access::Writing => Some(sqlite::open(&self.path, SCHEMA)?),
                Access::Reading => sqlite::open_read_only(&self.path, SCHEMA)?,
            };
        }
        Ok(database.as_mut())
    }

    /// Closes the index if it is open: in a thread, which is returned, if that writes its log into its file.
    pub fn close(&self) -> Option<JoinHandle<()>> {
        let database = self.database.lock().take()?;
        match self.access {
            Access::Writing => thread::Builder::new().spawn(move || drop(database)).ok(),
            Access::Reading => None,
        }
    }

    /// Reports the first failure of this process.
    pub fn report(&self, error: &str) {
        if !self.reported.swap(true, Ordering::Relaxed) {
            let file = self.path.display();
            tracing::warn!(
                "{file}: cannot update the full-text index: {error}; the records are safe, and \
                `ingest repair` rebuilds the index"
            );
        }
    }

    fn remove_files(&self) {
        for suffix in ["", "-wal", "-shm"] {
            // What cannot be removed is reported when the file is opened.
            let _ = fs::remove_file(sqlite::beside(&self.path, suffix));
        }
    }
}

/// Deletes log entries that the index has applied.
fn shorten_log(index: &Connection, records: &Connection) -> rusqlite::Result<()> {
    let Some(followed) = followed(index)? else {
        return Ok(());
    };
    let oldest: Option<i64> = records.query_row(OLDEST_CHANGE, [], |row| row.get(0))?;
    let kept = followed.seq.saturating_sub(KEPT);
    match oldest {
        Some(oldest) if oldest < kept => records.execute(FORGET, [kept]).map(drop),
        _ => Ok(()),
    }
}

/// The index's position; `None` if it is new.
fn followed(index: &Connection) -> rusqlite::Result<Option<Followed>> {
    index
        .prepare_cached(FOLLOWED)?
        .query_row([], |row| {
            Ok(Followed {
                seq: row.get(0)?,
                mark: row.get(1)?,
            })
        })
        .optional()
}

/// The index's position, if it is in the catalog's log.
fn followed_here(index: &Connection, records: &Connection) -> rusqlite::Result<Option<Followed>> {
    let Some(followed) = followed(index)? else {
        return Ok(None);
    };
    let here: bool = records
        .prepare_cached(IS_FOLLOWED)?
        .query_row((followed.seq, followed.mark), |row| row.get(0))?;
    Ok(here.then_some(followed))
}

fn follow(
    index: &mut Connection,
    records: &mut Connection,
    landed: &[ChangedPage],
) -> rusqlite::Result<()> {
    let tx = index.transaction_with_behavior(TransactionBehavior::Immediate)?;
    match followed_here(&tx, records)? {
        Some(from) => {
            follow_from(&tx, records, from, landed)?;
            tx.commit()
        }
        None => {
            drop(tx);
            let indexed = rebuild::rebuild(index, records)?;
            if indexed > 0 {
                tracing::info!(records = indexed, "rebuilt the full-text index");
            }
            Ok(())
        }
    }
}

fn follow_from(
    index: &Transaction<'_>,
    records: &mut Connection,
    from: Followed,
    landed: &[ChangedPage],
) -> rusqlite::Result<()> {
    let snapshot = records.transaction()?;
    let mut statement = snapshot.prepare_cached(CHANGED_SINCE)?;
    let mut changes = statement.query([from.seq])?;
    let mut last = from;
    while let Some(change) = changes.next()? {
        let (seq, number): (i64, i64) = (change.get(0)?, change.get(1)?);
        let mark = change.get(2)?;
        last = Followed { seq, mark };
        let mut pages = landed.iter();
        match pages.find_map(|(page, changes)| changes.text(page, seq)) {
            Some(text) => replace(index, number, text)?,
            None => replace(index, number, rebuild::text(&snapshot, number)?.as_deref())?,
        }
    }
    if last == from {
        return Ok(());
    }
    set_followed(index, last)
}

/// Stores the index's position.
pub fn set_followed(index: &Connection, followed: Followed) -> rusqlite::Result<()> {
    index
        .prepare_cached(FOLLOW)?
        .execute((followed.seq, followed.mark))
        .map(drop)
}

/// Replaces a record's text in the index; `None` removes it.
fn replace(index: &Connection, number: i64, text: Option<&str>) -> rusqlite::Result<()> {
    index.prepare_cached(UNINDEX)?.execute([number])?;
    match text {
        Some(text) => add(index, number, text),
        None => Ok(()),
    }
}

/// Indexes the text of a record that is not in the index.
pub fn add(index: &Connection, number: i64, text: &str) -> rusqlite::Result<()> {
    index
        .prepare_cached(INDEX)?
        .execute((number, text))
        .map(drop)
}

/// Fails if the catalog has records but no index.
fn nothing_indexed(records: &Connection) -> Result<(), StoreError> {
    match records.query_row(HAS_RECORDS, [], |row| row.get(0))? {
        true => Err(StoreError::NoIndex),
        false => Ok(()),
    }
}

/// The number of changes up to `newest` that the index lacks; `None` if its position is not in the catalog's log.
fn missing(
    index: &Connection,
    records: &Connection,
    newest: Option<i64>,
) -> rusqlite::Result<Option<i64>> {
    let Some(followed) = followed_here(index, records)? else {
        return Ok(None);
    };
    records
        .prepare_cached(CHANGES_BETWEEN)?
        .query_row((followed.seq, newest), |row| row.get(0))
        .map(Some)
}

/// Warns that a search does not find some records: a writer was killed between its two commits.
fn report_missing(missing: i64) {
    if missing > 0 {
        tracing::warn!(
            "the full-text index lacks {missing} changed records; the next run or `ingest repair` \
            adds them"
        );
    }
}
