//! The view of each kind of record.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use super::typed;
use crate::either::{first_of, name, view_of};
use crate::layout::{self, KindLayout, Layouts};
use crate::sql::{StoreError, Tx};

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
        let selects = selects(upstream, kind, &columns(of_kind));
        // SQLite keeps the statement as it was written, name and all.
        if found.is_some_and(|found| !found.ends_with(&selects)) {
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
    let columns = columns(layouts);
    let drop_it = format!("drop view if exists main.{}", name(&view));
    let created = tx
        .execute_batch(&drop_it)
        .and_then(|()| match columns.is_empty() {
            true => Ok(()),
            false => tx.execute_batch(&format!(
                "create view main.{} as {}",
                name(&view),
                selects(upstream, kind, &columns)
            )),
        });
    match created {
        // The error ended the transaction, so the page is not stored either.
        Err(error) if tx.is_autocommit() => Err(error),
        Err(error) => {
            tracing::warn!(view, %error, "the catalog has no view of this kind");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// The select statement of a kind's view.
fn selects(upstream: &str, kind: &str, columns: &BTreeMap<String, Vec<String>>) -> String {
    let own = columns.iter();
    let own: Vec<_> = own
        .map(|(name, found)| (name.clone(), first_of(found)))
        .collect();
    view_of(upstream, kind, &own)
}

/// Expressions by column.
fn columns(layouts: &[KindLayout]) -> BTreeMap<String, Vec<String>> {
    let columns = layout::columns(layouts).into_iter();
    let with_expressions = columns.map(|(name, places)| {
        let mut found: Vec<String> = Vec::new();
        for column in places {
            let expression = typed::typed(column.kind, "record.body", column.at.tokens());
            if !found.contains(&expression) {
                found.push(expression);
            }
        }
        (name, found)
    });
    with_expressions.collect()
}
