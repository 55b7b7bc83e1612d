//! How the records of a kind are read, and the view of each kind.
//!
//! A view is replaced in a transaction of its own after the page that changes it: somebody who queries it may hold it locked,
//! and a paid page does not wait for that.

use std::collections::BTreeMap;

use tokio_postgres::Row;

use super::select;
use super::sql::{Columns, Values, as_is, parameters, stored};
use super::{Postgres, PostgresError, Transaction};
use crate::either;
use crate::layout::{self, KindLayout};
use crate::page::LandingPage;
use crate::rows;
use ingest_config::Pointer;

const REMEMBER: &str = "insert into kind (upstream, kind, call, text, columns) values ($1, $2, $3, $4, $5)
    on conflict (upstream, kind, call) do update set text = excluded.text, columns = excluded.columns";
const LAYOUTS: &str =
    "select upstream, kind, text, columns from kind order by upstream, kind, call";
/// The views that this program made say so, and from what.
const VIEWS: &str = "select relname::text, obj_description(oid, 'pg_class') from pg_class
    where relnamespace = to_regnamespace($1) and relkind = 'v'";
/// One process replaces views at a time.
const LOCK: &str = "select pg_advisory_xact_lock(7815696103)";
/// Waits no longer for somebody who reads a view.
const PATIENCE: &str = "set local lock_timeout to '2s'";

/// Stores how the records of a page are read.
pub async fn remember(
    tx: &Transaction<'_>,
    page: &LandingPage,
    layout: &KindLayout,
) -> Result<(), PostgresError> {
    let (upstream, kind) = (stored(&page.landing.upstream), stored(page.kind()));
    let call = stored(&page.landing.call);
    tx.execute(
        REMEMBER,
        parameters![
            upstream,
            kind,
            call,
            as_is(&layout.text),
            as_is(&layout.columns)
        ],
    )
    .await
}

/// How the records of each kind are read, by upstream and kind.
pub struct Layouts(BTreeMap<(String, String), Vec<KindLayout>>);

impl Layouts {
    pub async fn read(tx: &Transaction<'_>) -> Result<Self, PostgresError> {
        let mut layouts: BTreeMap<(String, String), Vec<KindLayout>> = BTreeMap::new();
        for row in tx.query(LAYOUTS, &[]).await? {
            let kind = (row.text(0)?, row.text(1)?);
            layouts
                .entry(kind)
                .or_default()
                .push(rows::layout(&row, 2)?);
        }
        Ok(Self(layouts))
    }

    /// Where the records of a kind have their text, over all calls that land them.
    pub fn text_pointers(&self, upstream: &str, kind: &str) -> Vec<Pointer> {
        let layouts = self.0.get(&(upstream.to_owned(), kind.to_owned()));
        layouts.map_or_else(Vec::new, |layouts| layout::text_pointers(layouts))
    }
}

/// Replaces the views whose columns are not those that are stored now. A page that was paid for must not be lost because
/// somebody uses a view or PostgreSQL rejects its name, so that is only reported.
pub async fn refresh(postgres: &Postgres) {
    let outdated = match outdated(postgres).await {
        Ok(outdated) => outdated,
        Err(error) => return report("the views", &error),
    };
    for view in outdated {
        if let Err(error) = replace(postgres, &view).await {
            report(&view.name, &error);
        }
    }
}

fn report(view: &str, error: &PostgresError) {
    tracing::warn!(view, %error, "cannot replace a view of the catalog; the next run tries again");
}

/// A view as it should be; without a definition it should not be there.
struct View {
    name: String,
    definition: Option<String>,
}

async fn outdated(postgres: &Postgres) -> Result<Vec<View>, PostgresError> {
    let mut session = postgres.session().await?;
    let tx = session.begin_reading().await?;
    let layouts = Layouts::read(&tx).await?;
    let found = found(&tx, postgres.schema()).await?;
    tx.end();
    let views = layouts.0.iter().map(|((upstream, kind), layouts)| View {
        name: select::view(upstream, kind),
        definition: select::definition(upstream, kind, &layout::columns(layouts)),
    });
    Ok(views.filter(|view| !is_current(view, &found)).collect())
}

async fn found(
    tx: &Transaction<'_>,
    schema: &str,
) -> Result<BTreeMap<String, Option<String>>, PostgresError> {
    let rows = tx.query(VIEWS, parameters![as_is(schema)]).await?;
    let view = |row: &Row| Ok((row.value(0)?, row.value(1)?));
    rows.iter().map(view).collect()
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

async fn replace(postgres: &Postgres, view: &View) -> Result<(), PostgresError> {
    let mut session = postgres.session().await?;
    let tx = session.begin().await?;
    tx.batch(PATIENCE).await?;
    tx.batch(LOCK).await?;
    if is_current(view, &found(&tx, postgres.schema()).await?) {
        tx.end();
        return Ok(());
    }
    let name = either::name(&view.name);
    tx.batch(&format!("drop view if exists {name}")).await?;
    if let Some(definition) = &view.definition {
        let mark = either::literal(&mark(definition));
        let create =
            format!("create view {name} as {definition}; comment on view {name} is {mark}");
        tx.batch(&create).await?;
    }
    tx.commit().await
}
