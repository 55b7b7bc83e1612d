//! Copies a whole catalog from one store to another.
//!
//! Rows are compared in the order of their keys, and written where they differ. So a copy that was interrupted continues where it
//! stopped, at the speed of reading, and one whose source changed meanwhile is brought up to date by another.

use std::collections::HashMap;

use serde::Serialize;

use super::catalog::Store;
use super::sql::{Query, Row, Tx, Value, values};
use super::tables::{COPIED, CopiedRow, Table, put};
use super::{Catalog, CatalogError, postgres, sqlite};

/// Rows that are compared at a time.
const AT_ONCE: usize = 100;

/// The first columns of a pass, which never change: id, job, region and start.
const IDENTITY: usize = 4;

/// A catalog that is copied, or a copy. Each method fails if the catalog cannot be read or written.
impl Catalog {
    /// Returns the number of rows of a table.
    async fn count(&self, table: &'static Table) -> Result<u64, CatalogError> {
        let sql = format!("select count(*) from {}", table.name);
        self.read(move |tx| tx.one(&sql, values![], Row::count))
            .await
    }

    /// Returns at most `most` rows in the order of their keys, behind a key or from the first one.
    pub async fn rows_after(
        &self,
        table: &'static Table,
        key: Option<CopiedRow>,
        most: usize,
    ) -> Result<Vec<CopiedRow>, CatalogError> {
        let keys = Table::names(table.key_columns(), "");
        let behind = match &key {
            None => String::new(),
            Some(key) => format!("where ({keys}) > ({})", places(key.len())),
        };
        let sql = format!("{} {behind} order by {keys} limit {most}", table.select());
        self.read(move |tx| {
            let rows = tx.query(&sql, key.clone().unwrap_or_default())?;
            rows.iter().map(|row| table.row(row)).collect()
        })
        .await
    }

    /// Returns the rows with these keys, in any order.
    pub async fn rows_with(
        &self,
        table: &'static Table,
        keys: Vec<CopiedRow>,
    ) -> Result<Vec<CopiedRow>, CatalogError> {
        let sql = format!("{} where {}", table.select(), is_key(table));
        self.read(move |tx| {
            let queries = keys.iter().map(|key| Query::new(&sql, key.clone()));
            let found = tx.ask_all(&queries.collect::<Vec<_>>())?;
            let rows = found.iter().flatten();
            rows.map(|row| table.row(row)).collect()
        })
        .await
    }

    /// Writes rows in place of those with their keys.
    pub async fn replace(
        &self,
        table: &'static Table,
        rows: Vec<CopiedRow>,
    ) -> Result<(), CatalogError> {
        let delete = format!("delete from {} where {}", table.name, is_key(table));
        self.write(move |tx| {
            for row in &rows {
                tx.later(&delete, key_of(table, row).to_vec())?;
            }
            put(tx, table, rows.clone())
        })
        .await
    }

    /// Makes what follows from the rows: views, the full-text index, the next numbers.
    async fn complete_copy(&self) -> Result<(), CatalogError> {
        self.write(|tx| match tx {
            Tx::File(connection) => Ok(sqlite::create_views(connection)?),
            Tx::Server(_) => {
                let mut next = COPIED.iter().filter_map(Table::next_number);
                next.try_for_each(|sql| tx.query(&sql, values![]).map(drop))
            }
        })
        .await?;
        if let Store::Server(server) = &self.store {
            postgres::refresh_views(server).await;
        }
        self.rebuild_text().await.map(drop)
    }
}

fn is_key(table: &Table) -> String {
    let columns = table.key_columns().iter().zip(1..);
    let columns = columns.map(|((name, _), place)| format!("{name} = ?{place}"));
    columns.collect::<Vec<_>>().join(" and ")
}

fn places(count: usize) -> String {
    let places: Vec<String> = (1..=count).map(|place| format!("?{place}")).collect();
    places.join(", ")
}

/// The key of a row.
fn key_of<'r>(table: &Table, row: &'r CopiedRow) -> &'r [Value<'static>] {
    row.get(..table.key).unwrap_or(row)
}

/// What a copy did to a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct CopiedTable {
    /// The table.
    #[serde(rename = "table")]
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
    from: &Catalog,
    to: &Catalog,
    progress: &(dyn Fn(CopiedTable) + Sync),
) -> Result<Vec<CopiedTable>, CatalogError> {
    for table in COPIED.iter() {
        let (source, copy) = (from.count(table).await?, to.count(table).await?);
        // Only keys of the source are compared, so rows of the copy's own would stay and go unseen.
        if copy > source {
            return Err(differs(table, source, copy));
        }
        if table.name == "pass" {
            expect_passes_of(from, to, table).await?;
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
    to.complete_copy().await?;
    // Both are read once more: a row may have changed behind the copy.
    for table in COPIED.iter() {
        verify(from, to, table).await?;
    }
    Ok(copied)
}

/// Fails if the copy has a pass of its own: a run that wrote to it landed records, which those of the source would replace.
async fn expect_passes_of(
    from: &Catalog,
    to: &Catalog,
    passes: &'static Table,
) -> Result<(), CatalogError> {
    let mut after = None;
    while let Some(page) = page(to, from, passes, &mut after).await? {
        for own in page.differing {
            let key = key_of(passes, &own).to_vec();
            let known = from.rows_with(passes, vec![key]).await?;
            let is_same = |known: &CopiedRow| known.get(..IDENTITY) == own.get(..IDENTITY);
            if !known.first().is_some_and(is_same) {
                return Err(CatalogError::Failed(
                    "a run wrote to the copy: it has a pass that its source lacks; copy into an empty catalog".to_owned(),
                ));
            }
        }
    }
    Ok(())
}

/// Some rows of the source.
struct Page {
    rows: u64,
    /// Those that the copy lacks, or has otherwise.
    differing: Vec<CopiedRow>,
}

async fn page(
    from: &Catalog,
    to: &Catalog,
    table: &'static Table,
    after: &mut Option<CopiedRow>,
) -> Result<Option<Page>, CatalogError> {
    let rows = from.rows_after(table, after.take(), AT_ONCE).await?;
    let Some(last) = rows.last() else {
        return Ok(None);
    };
    *after = Some(key_of(table, last).to_vec());
    let keys = rows.iter().map(|row| key_of(table, row).to_vec()).collect();
    let there: HashMap<CopiedRow, CopiedRow> = to
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

async fn verify(from: &Catalog, to: &Catalog, table: &'static Table) -> Result<(), CatalogError> {
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
