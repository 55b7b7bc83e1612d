//! How the records of a kind are read, and the view of each kind.
//!
//! A view is replaced in a transaction of its own after the page that changes it: somebody who queries it may hold it locked,
//! and a paid page does not wait for that.

use std::collections::BTreeMap;

use tokio::sync::watch;

use super::connection::Session;
use super::select;
use crate::CatalogError;
use crate::catalog::Server;
use crate::either;
use crate::layout::{self, Layouts};
use crate::sql::{ServerTx, StoreError, Tx, values};

/// The views that this program made say so, and from what.
const VIEWS: &str = "select relname::text, obj_description(oid, 'pg_class') from pg_class
    where relnamespace = current_schema()::regnamespace and relkind = 'v'";
/// One process replaces views at a time.
const LOCK: &str = "select pg_advisory_xact_lock(7815696103)";
/// Waits no longer for somebody who reads a view.
const PATIENCE: &str = "set local lock_timeout to '2s'";

/// Replaces the views whose columns are not those that are stored now. A page that was paid for must not be lost because
/// somebody uses a view or PostgreSQL rejects its name, so that is only reported.
pub(crate) async fn refresh_views(server: &Server) {
    let refreshed = match server.postgres.session().await {
        Ok(session) => server.apart(session, refresh).await,
        Err(error) => Err(server.postgres.error(error)),
    };
    if let Err(error) = refreshed {
        report("the views", &error);
    }
}

fn refresh(session: &mut Session, wanted: &watch::Receiver<()>) -> Result<(), StoreError> {
    let outdated = outdated(&ServerTx::begin_reading(session, wanted.clone())?)?;
    for view in outdated {
        let tx = ServerTx::begin_writing(session, wanted.clone())?;
        if let Err(error) = replace(&tx, &view) {
            report(&view.name, &error.of_server("the view"));
        }
    }
    Ok(())
}

fn report(view: &str, error: &CatalogError) {
    tracing::warn!(view, %error, "cannot replace a view of the catalog; the next run tries again");
}

/// A view as it should be; without a definition it should not be there.
struct View {
    name: String,
    definition: Option<String>,
}

fn outdated(server: &ServerTx<'_>) -> Result<Vec<View>, StoreError> {
    let tx = Tx::Server(server);
    let layouts = Layouts::read(&tx)?;
    let found = found(&tx)?;
    let views = layouts.of_kinds().map(|(upstream, kind, layouts)| View {
        name: select::view(upstream, kind),
        definition: select::definition(upstream, kind, &layout::columns(layouts)),
    });
    Ok(views.filter(|view| !is_current(view, &found)).collect())
}

fn found(tx: &Tx<'_>) -> Result<BTreeMap<String, Option<String>>, StoreError> {
    let rows = tx.query(VIEWS, values![])?;
    rows.iter()
        .map(|row| Ok((row.text(0)?, row.optional_text(1)?)))
        .collect()
}

fn is_current(view: &View, found: &BTreeMap<String, Option<String>>) -> bool {
    let made = found.get(&view.name);
    match &view.definition {
        None => made.is_none(),
        Some(definition) => made.is_some_and(|made| made.as_deref() == Some(&*mark(definition))),
    }
}

/// The comment of a view: which definition it has.
fn mark(definition: &str) -> String {
    format!("made by ingest, {:016x}", ingest_base::fnv::fnv(definition))
}

fn replace(server: &ServerTx<'_>, view: &View) -> Result<(), StoreError> {
    let tx = Tx::Server(server);
    tx.batch(PATIENCE)?;
    tx.batch(LOCK)?;
    if is_current(view, &found(&tx)?) {
        return Ok(());
    }
    let name = either::name(&view.name);
    tx.batch(&format!("drop view if exists {name}"))?;
    if let Some(definition) = &view.definition {
        let mark = either::literal(&mark(definition));
        let create =
            format!("create view {name} as {definition}; comment on view {name} is {mark}");
        tx.batch(&create)?;
    }
    server.commit()
}
