//! Copies a whole catalog from one store to another.
//!
//! Rows are compared in the order of their keys, and written where they differ. So a copy that was interrupted continues where it
//! stopped, at the speed of reading, and one whose source changed meanwhile is brought up to date by another.

use std::collections::HashMap;

use async_trait::async_trait;

use super::CatalogError;
use super::tables::{COPIED, Table};
use ingest_quota::Timestamp;

/// Rows that are compared at a time.
const AT_ONCE: usize = 100;

/// The value of a column.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Value {
    Null,
    /// A number.
    Integer(i64),
    /// A text, or JSON.
    Text(String),
    Time(Timestamp),
    /// Yes or no.
    Truth(bool),
}

/// A row of a table: its columns in their order.
pub type CopiedRow = Vec<Value>;

/// Returns the beginning of a statement that adds a row of `listing` for each row found, with all of its columns but another
/// position and parent.
pub fn listing_again(position: &str, parent: &str) -> String {
    let listing = COPIED.iter().find(|table| table.name == "listing");
    let names = || {
        listing
            .into_iter()
            .flat_map(|table| &table.columns)
            .map(|(name, _)| *name)
    };
    let values = names().map(|name| match name {
        "position" => position.to_owned(),
        "parent" => parent.to_owned(),
        other => format!("listing.{other}"),
    });
    let (names, values) = (names().collect::<Vec<_>>(), values.collect::<Vec<_>>());
    format!(
        "insert into listing ({}) select {}",
        names.join(", "),
        values.join(", ")
    )
}

/// Returns the tables whose rows belong to a step of a pass.
pub fn tables_of_steps() -> impl Iterator<Item = &'static str> {
    let names_step = |table: &&Table| table.columns.iter().any(|(name, _)| *name == "step");
    COPIED.iter().filter(names_step).map(|table| table.name)
}

/// A catalog that can be copied, or be a copy.
#[async_trait]
pub trait CopyStore: Send + Sync {
    /// Returns the number of rows of a table.
    async fn count(&self, table: &'static Table) -> Result<u64, CatalogError>;

    /// Returns at most `most` rows in the order of their keys, behind a key or from the first one.
    async fn rows_after(
        &self,
        table: &'static Table,
        key: Option<Vec<Value>>,
        most: usize,
    ) -> Result<Vec<CopiedRow>, CatalogError>;

    /// Returns the rows with these keys, in any order.
    async fn rows_with(
        &self,
        table: &'static Table,
        keys: Vec<Vec<Value>>,
    ) -> Result<Vec<CopiedRow>, CatalogError>;

    /// Writes rows in place of those with their keys.
    async fn replace(
        &self,
        table: &'static Table,
        rows: Vec<CopiedRow>,
    ) -> Result<(), CatalogError>;

    /// Makes what follows from the rows: views, the full-text index, the next numbers.
    async fn complete(&self) -> Result<(), CatalogError>;
}

/// The key of a row.
fn key_of<'r>(table: &Table, row: &'r [Value]) -> &'r [Value] {
    row.get(..table.key).unwrap_or(row)
}

/// What a copy did to a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopiedTable {
    /// The table.
    pub name: &'static str,
    pub rows: u64,
    /// Those of them that were written now. The others were there already.
    pub written: u64,
}

/// Copies all tables, and verifies the copy by count and by content. `progress` is called after each table.
///
/// # Errors
/// A store failed, or the copy differs from its source in the end.
pub async fn copy(
    from: &dyn CopyStore,
    to: &dyn CopyStore,
    progress: &(dyn Fn(CopiedTable) + Sync),
) -> Result<Vec<CopiedTable>, CatalogError> {
    for table in COPIED.iter() {
        let (source, copy) = (from.count(table).await?, to.count(table).await?);
        // Only keys of the source are compared, so rows of the copy's own would stay and go unseen.
        if copy > source {
            return Err(differs(table, source, copy));
        }
    }
    let mut copied = Vec::new();
    for table in COPIED.iter() {
        let mut written = 0_u64;
        let mut rows = 0_u64;
        let mut after = None;
        while let Some(page) = page(from, to, table, &mut after).await? {
            rows += page.rows;
            written += page.differing.len() as u64;
            if !page.differing.is_empty() {
                let replaced = to.replace(table, page.differing).await;
                replaced.map_err(|error| with_advice(table, error))?;
            }
        }
        let done = CopiedTable {
            name: table.name,
            rows,
            written,
        };
        progress(done);
        copied.push(done);
    }
    to.complete().await?;
    // Both are read once more: a row may have changed behind the copy.
    for table in COPIED.iter() {
        verify(from, to, table).await?;
    }
    Ok(copied)
}

/// Some rows of the source.
struct Page {
    rows: u64,
    /// Those that the copy lacks, or has otherwise.
    differing: Vec<CopiedRow>,
}

async fn page(
    from: &dyn CopyStore,
    to: &dyn CopyStore,
    table: &'static Table,
    after: &mut Option<Vec<Value>>,
) -> Result<Option<Page>, CatalogError> {
    let rows = from.rows_after(table, after.take(), AT_ONCE).await?;
    let Some(last) = rows.last() else {
        return Ok(None);
    };
    *after = Some(key_of(table, last).to_vec());
    let keys = rows.iter().map(|row| key_of(table, row).to_vec()).collect();
    let there: HashMap<Vec<Value>, CopiedRow> = to
        .rows_with(table, keys)
        .await?
        .into_iter()
        .map(|row| (key_of(table, &row).to_vec(), row))
        .collect();
    let count = rows.len() as u64;
    let differs = |row: &CopiedRow| there.get(key_of(table, row)) != Some(row);
    Ok(Some(Page {
        rows: count,
        differing: rows.into_iter().filter(differs).collect(),
    }))
}

async fn verify(
    from: &dyn CopyStore,
    to: &dyn CopyStore,
    table: &'static Table,
) -> Result<(), CatalogError> {
    let (source, copy) = (from.count(table).await?, to.count(table).await?);
    if source != copy {
        return Err(differs(table, source, copy));
    }
    let mut after = None;
    while let Some(page) = page(from, to, table, &mut after).await? {
        if !page.differing.is_empty() {
            return Err(CatalogError::Failed(format!(
                "{} rows of the table `{}` changed during the copy; run the command again when no run writes to the source",
                page.differing.len(),
                table.name
            )));
        }
    }
    Ok(())
}

fn differs(table: &Table, source: u64, copy: u64) -> CatalogError {
    CatalogError::Failed(format!(
        "the copy of the table `{}` has {copy} rows and its source {source}: if the source changed meanwhile, run the \
        command again when no run writes to it; if the copy had rows of its own, copy into an empty catalog",
        table.name
    ))
}

fn with_advice(table: &Table, error: CatalogError) -> CatalogError {
    match error {
        CatalogError::Failed(why) => CatalogError::Failed(format!(
            "cannot copy the table `{}`: {why}; if the copy had rows of its own, copy into an empty catalog",
            table.name
        )),
        CatalogError::Unavailable(why) => CatalogError::Unavailable(why),
    }
}
