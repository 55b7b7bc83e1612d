//! How the records of a kind are read, which decides about the columns of its view.

use super::Landing;
use super::layout::KindLayout;
use super::sql::{Query, StoreError, Tx, values};

const LAYOUT: &str =
    "select text, columns from kind where upstream = ?1 and kind = ?2 and call = ?3";
const REMEMBER: &str =
    "insert into kind (upstream, kind, call, text, columns) values (?1, ?2, ?3, ?4, ?5)
    on conflict (upstream, kind, call) do update set text = excluded.text, columns = excluded.columns";
pub const STATEMENTS: &[&str] = &[LAYOUT];

/// The statement for how the call's records were read before.
pub fn layout(landing: &Landing) -> Query<'_> {
    let Landing {
        upstream,
        kind,
        call,
        ..
    } = landing;
    Query::new(LAYOUT, values![upstream, &kind.kind, call])
}

/// Stores how a call's records are read, if that changed. In a file, the kind's view is replaced at once; returns whether it has to be
/// replaced after the transaction, since somebody who reads a view of PostgreSQL may hold it locked.
pub fn declare(
    tx: &Tx<'_>,
    landing: &Landing,
    before: &Option<KindLayout>,
) -> Result<bool, StoreError> {
    let layout = KindLayout::new(&landing.kind);
    if before.as_ref() == Some(&layout) {
        return Ok(false);
    }
    let (upstream, kind) = (&landing.upstream, &landing.kind.kind);
    let KindLayout { text, columns } = &layout;
    tx.later(
        REMEMBER,
        values![upstream, kind, &landing.call, text, columns],
    )?;
    match tx {
        Tx::File(connection) => {
            super::sqlite::create_view(connection, upstream, kind)?;
            Ok(false)
        }
        Tx::Server(_) => Ok(true),
    }
}
