//! The view of each kind of record.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};

use super::typed;
use crate::either::{first_of, name, view_of};
use crate::layout::{self, KindLayout};
use crate::rows;
use ingest_config::{Pointer, Records};

pub const LAYOUT: &str =
    "select text, columns from kind where upstream = ?1 and kind = ?2 and call = ?3";
const REMEMBER: &str =
    "insert into kind (upstream, kind, call, text, columns) values (?1, ?2, ?3, ?4, ?5)
    on conflict do update set text = excluded.text, columns = excluded.columns";
pub const LAYOUTS: &str =
    "select text, columns from kind where upstream = ?1 and kind = ?2 order by call";

const KINDS: &str = "select distinct upstream, kind from kind";
const VIEW: &str = "select sql from sqlite_schema where type = 'view' and name = ?1";

/// Stores how a call's records are read, and replaces the kind's view if that changed.
pub fn declare(
    tx: &Transaction<'_>,
    upstream: &str,
    call: &str,
    records: &Records,
) -> rusqlite::Result<()> {
    let (kind, layout) = (&records.kind, KindLayout::new(records));
    let stored = tx
        .prepare_cached(LAYOUT)?
        .query_row((upstream, kind, call), |row| rows::layout(row, 0))
        .optional()?;
    if stored.as_ref() == Some(&layout) {
        return Ok(());
    }
    tx.prepare_cached(REMEMBER)?
        .execute((upstream, kind, call, &layout.text, &layout.columns))?;
    create_view(tx, upstream, kind)
}

/// Replaces the views that another version with the same tables defined differently. Writes nothing if there are none.
pub fn refresh(connection: &mut Connection) -> rusqlite::Result<()> {
    let outdated = outdated(connection)?;
    if outdated.is_empty() {
        return Ok(());
    }
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for (upstream, kind) in outdated {
        create_view(&tx, &upstream, &kind)?;
    }
    tx.commit()
}

/// Replaces the views of all kinds.
pub fn create_all(tx: &Transaction<'_>) -> rusqlite::Result<()> {
    for (upstream, kind) in kinds(tx)? {
        create_view(tx, &upstream, &kind)?;
    }
    Ok(())
}

fn kinds(connection: &Connection) -> rusqlite::Result<Vec<(String, String)>> {
    connection
        .prepare(KINDS)?
        .query_map([], |row| row.try_into())?
        .collect()
}

/// The upstreams and kinds whose view differs from this release's definition.
fn outdated(connection: &Connection) -> rusqlite::Result<Vec<(String, String)>> {
    let mut outdated = Vec::new();
    for (upstream, kind) in kinds(connection)? {
        let view = format!("{upstream}_{kind}");
        let found: Option<String> = connection
            .prepare_cached(VIEW)?
            .query_row([&view], |row| row.get(0))
            .optional()?;
        let columns = columns(&layouts(connection, &upstream, &kind)?);
        let selects = selects(&upstream, &kind, &columns);
        // SQLite keeps the statement as it was written, name and all.
        if found.is_some_and(|found| !found.ends_with(&selects)) {
            outdated.push((upstream, kind));
        }
    }
    Ok(outdated)
}

/// Where the records of a kind have their text, over all calls that land them.
pub fn text_pointers(
    connection: &Connection,
    upstream: &str,
    kind: &str,
) -> rusqlite::Result<Vec<Pointer>> {
    Ok(layout::text_pointers(&layouts(connection, upstream, kind)?))
}

fn layouts(
    connection: &Connection,
    upstream: &str,
    kind: &str,
) -> rusqlite::Result<Vec<KindLayout>> {
    connection
        .prepare_cached(LAYOUTS)?
        .query_map((upstream, kind), |row| rows::layout(row, 0))?
        .collect()
}

/// Replaces a view. A page that was paid for must not be lost because SQLite rejects the name of its view, so that is only
/// reported.
fn create_view(tx: &Transaction<'_>, upstream: &str, kind: &str) -> rusqlite::Result<()> {
    let view = format!("{upstream}_{kind}");
    let columns = columns(&layouts(tx, upstream, kind)?);
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
