//! What the catalog has of a page before it is stored: read in one round trip, after the check of the lease.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use super::fence::LeaseKey;
use super::functions::LANDING_STATE;
use super::sql::{Values, all_stored, parameters, restored, stored, time};
use super::{PostgresError, Transaction, passes};
use crate::layout::KindLayout;
use crate::values::integer;
use crate::{Landed, Landing, PassId, PassRef};
use ingest_base::list_so_far::ListSoFar;

/// What the catalog has of a page before it is stored.
pub struct Before {
    pub pass: PassId,
    pub units: String,
    /// Whether this process still holds the lease under which the page was requested.
    pub is_held: bool,
    /// The hashes of the texts of the stored records, by id.
    pub text_hashes: HashMap<String, Option<i64>>,
    pub last_position: i64,
    /// What the step listed of the page's records: id, the id that requested it, and whether it has no parent.
    pub listed: Vec<(String, String, bool)>,
    pub layout: Option<KindLayout>,
    /// For a page that can end its list, the versions of its records that the passes which tell about the list returned last, by id.
    pub versions: HashMap<String, i64>,
}

impl Before {
    pub async fn read(tx: &Transaction<'_>, landing: &Landing) -> Result<Self, PostgresError> {
        let rows = read(tx, landing).await?;
        let Some((row, pass)) = rows
            .first()
            .and_then(|row| Some((row, row.value::<Option<i64>>(0).transpose()?)))
        else {
            return Err(PostgresError::NoSuchPass(PassId(
                open(landing).unwrap_or_default(),
            )));
        };
        check_unknown(row, landing)?;
        // From here on a commit whose answer is lost can be looked up.
        tx.identify(row.value(2)?);
        let layout = row.value::<Option<String>>(7)?.zip(row.value(8)?);
        Ok(Self {
            pass: PassId(pass?),
            units: row.value(1)?,
            is_held: landing.term.is_none() || row.value::<Option<bool>>(3)?.is_some(),
            layout: layout.map(|(text, columns)| KindLayout { text, columns }),
            last_position: row.value::<Option<i64>>(9)?.unwrap_or(0),
            text_hashes: text_hashes(row)?,
            listed: listed(row)?,
            versions: versions(row)?,
        })
    }
}

/// Locks a pass, or begins one; checks its lease, and reads the rest.
async fn read(tx: &Transaction<'_>, landing: &Landing) -> Result<Vec<Row>, PostgresError> {
    let mut ids: Vec<Cow<'_, str>> = all_stored(landing.records.iter().map(|one| &one.id));
    ids.sort_unstable();
    ids.dedup();
    let key = LeaseKey::new(tx.postgres().terms(), landing.term.as_ref());
    let (job, region, at, (from, to)) = match &landing.pass {
        PassRef::Open(_) => (None, None, None, (None, None)),
        PassRef::New {
            job,
            region,
            slice,
            started_at,
        } => {
            let edges = passes::edges(*slice);
            (
                Some(stored(job)),
                Some(stored(region)),
                Some(time(*started_at)),
                edges,
            )
        }
    };
    tx.query(
        LANDING_STATE,
        parameters![
            landing.id,
            open(landing),
            job,
            region,
            at,
            from,
            to,
            key.job,
            key.region,
            key.holder,
            key.term,
            key.landing,
            stored(&landing.upstream),
            stored(&landing.kind.kind),
            stored(&landing.call),
            integer(landing.step as u64),
            ids,
            landing.can_stop().then(|| stored(&landing.request))
        ],
    )
    .await
}

/// Fails if the page was stored before. The transaction is then rolled back: it may have begun another pass.
fn check_unknown(row: &Row, landing: &Landing) -> Result<(), PostgresError> {
    let Some(pass) = row.value::<Option<i64>>(4)? else {
        return Ok(());
    };
    // Of a pass that the first page begins, nothing is read here.
    let first = || {
        landing
            .records
            .iter()
            .map(|record| &record.id)
            .collect::<HashSet<_>>()
            .len()
    };
    let listed = match open(landing) {
        Some(_) => u64::try_from(row.value::<Option<i64>>(9)?.unwrap_or(0)).unwrap_or(0),
        None => first() as u64,
    };
    let is_known = ListSoFar::read(row.value::<Option<&str>>(6)?).is_known;
    Err(PostgresError::Landed(Landed {
        pass: PassId(pass),
        cursor_repeats: row.value::<bool>(5)? && landing.next.is_some() && !is_known,
        is_known,
        listed,
        lease_lost: false,
    }))
}

/// The id of an open pass; `None` for a new one.
const fn open(landing: &Landing) -> Option<i64> {
    match &landing.pass {
        PassRef::Open(pass) => Some(pass.0),
        PassRef::New { .. } => None,
    }
}

fn text_hashes(row: &Row) -> Result<HashMap<String, Option<i64>>, PostgresError> {
    let ids: Vec<&str> = list(row, 10)?;
    let hashes: Vec<Option<i64>> = list(row, 11)?;
    Ok(ids.into_iter().map(restored).zip(hashes).collect())
}

fn listed(row: &Row) -> Result<Vec<(String, String, bool)>, PostgresError> {
    let (ids, requested): (Vec<&str>, Vec<&str>) = (list(row, 12)?, list(row, 13)?);
    let rows = ids.into_iter().zip(requested).zip(list::<bool>(row, 14)?);
    Ok(rows
        .map(|((id, requested), is_first)| (restored(id), restored(requested), is_first))
        .collect())
}

fn versions(row: &Row) -> Result<HashMap<String, i64>, PostgresError> {
    let ids: Vec<&str> = list(row, 15)?;
    let versions: Vec<i64> = list(row, 16)?;
    Ok(ids.into_iter().map(restored).zip(versions).collect())
}

/// Reads an array; an empty one is null.
fn list<'r, T: FromSql<'r>>(row: &'r Row, column: usize) -> Result<Vec<T>, PostgresError> {
    Ok(row.value::<Option<Vec<T>>>(column)?.unwrap_or_default())
}
