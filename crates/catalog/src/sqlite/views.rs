//! The view of each kind of record.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use super::typed;
use crate::either::{first_of, name, view_of};
use crate::layout::{self, KindLayout, Layouts};
use crate::sql::{StoreError, Tx};
use ingest_config::Column;

const VIEW: &str = "select sql from sqlite_schema where type = 'view' and name = ?1";

/// Replaces the views that another version with the same tables defined differently. Writes nothing if there are none.
pub fn refresh_views(connection: &mut Connection) -> rusqlite::Result<()> {
    let layouts = layouts(connection)?;
    let mut outdated = Vec::new();
    for (upstream, kind, of_kind) in layouts.of_kinds() {
        let found: Option<String> = connection
            .prepare_cached(VIEW)?
            .query_row([format!("{upstream}_{kind}")], |row| row.get(0))
            .optional()?;
        let selects = selects(upstream, kind, of_kind);
        // SQLite keeps the statement as it was written, name and all.
        let is_current = |found: String| selects.is_some_and(|selects| found.ends_with(&selects));
        if found.is_some_and(|found| !is_current(found)) {
            outdated.push((upstream, kind, of_kind));
        }
    }
    if outdated.is_empty() {
        return Ok(());
    }
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for (upstream, kind, of_kind) in outdated {
        replace(&tx, upstream, kind, of_kind)?;
    }
    tx.commit()
}

/// Replaces the views of all kinds.
pub fn create_views(connection: &Connection) -> rusqlite::Result<()> {
    for (upstream, kind, of_kind) in layouts(connection)?.of_kinds() {
        replace(connection, upstream, kind, of_kind)?;
    }
    Ok(())
}

/// Replaces the view of a kind.
pub fn create_view(connection: &Connection, upstream: &str, kind: &str) -> rusqlite::Result<()> {
    let layouts = layouts(connection)?;
    replace(connection, upstream, kind, layouts.of_kind(upstream, kind))
}

fn layouts(connection: &Connection) -> rusqlite::Result<Layouts> {
    Layouts::read(&Tx::File(connection)).map_err(StoreError::into_sqlite)
}

/// Replaces a view. A page that was paid for must not be lost because SQLite rejects the name of its view, so that is only
/// reported.
fn replace(
    tx: &Connection,
    upstream: &str,
    kind: &str,
    layouts: &[KindLayout],
) -> rusqlite::Result<()> {
    let view = format!("{upstream}_{kind}");
    let name = name(&view);
    let mut sql = format!("drop view if exists main.{name};");
    if let Some(selects) = selects(upstream, kind, layouts) {
        sql += &format!("create view main.{name} as {selects}");
    }
    match tx.execute_batch(&sql) {
        // The error ended the transaction, so the page is not stored either.
        Err(error) if tx.is_autocommit() => Err(error),
        Err(error) => {
            tracing::warn!(view, %error, "the catalog has no view of this kind");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// The select statement of a kind's view; `None` for a kind without columns.
fn selects(upstream: &str, kind: &str, layouts: &[KindLayout]) -> Option<String> {
    let columns = layout::columns(layouts);
    let typed = |column: &Column| typed::typed(column.kind, "record.body", column.at.tokens());
    let own = columns.iter();
    let own: Vec<_> = own
        .map(|(name, places)| (name.clone(), first_of(places.iter().map(typed))))
        .collect();
    (!own.is_empty()).then(|| view_of(upstream, kind, &own))
}
