//! What the catalog has of a page before it is stored: all of it is requested in one round trip, behind the check of the lease.

use std::borrow::Cow;
use std::collections::HashMap;

use tokio_postgres::Row;

use super::fence::LeaseKey;
use super::sql::{Columns, all_stored, parameters, stored, time};
use super::{PostgresError, Transaction, passes};
use crate::catalog::layout::KindLayout;
use crate::catalog::values::integer;
use crate::catalog::{Landed, Landing, PassId, PassRef};

/// The lock of the lease's row makes the next holder wait for the end of the transaction, and the lock of the pass any other
/// landing. Both rows are read as they are once they are locked.
const OPEN: &str = "select id, units, pg_current_xact_id()::text, (select true from lease
        where job = $2 and region = $3 and holder = $4 and term = $5
            and ($6 is null or exists (select 1 from checkpoint where landing = $6)) for key share)
    from pass where id = $1 for update";
const BEGIN: &str =
    "insert into pass (job, region, started_at, slice_from, slice_to) values ($1, $2, $3, $4, $5)
    returning id, units, pg_current_xact_id()::text, (select true from lease
        where job = $6 and region = $7 and holder = $8 and term = $9
            and ($10 is null or exists (select 1 from checkpoint where landing = $10)) for key share)";
/// The checkpoint of a landing that is repeated since the answer to its commit was lost; how the call's records are read; and
/// the last position of the step's listing.
const ALREADY: &str = "select known.pass, known.cursor is null, kind.text, kind.columns, last.position
    from (values (true)) one
    left join (select pass, cursor from checkpoint where landing = $1) known on true
    left join (select text, columns from kind where upstream = $2 and kind = $3 and call = $4) kind on true
    left join (select position from listing where pass = $5 and step = $6 order by position desc limit 1) last on true";
/// The transaction that holds a record's lock changes its text. Joined so that each record is looked up by its key, whatever
/// the planner knows of the table; in the order of the ids.
const RECORDS: &str = "select record.id, record.number, record.text_hash from unnest($3) page (id)
    cross join lateral (select id, number, text_hash from record
        where upstream = $1 and kind = $2 and id = page.id for update) record";
const LISTED: &str = "select id, coalesce(requested, ''), parent is null from listing
    where id = any($5) and kind = $4 and upstream = $3 and pass = $1 and step = $2";

/// What the catalog has of a page before it is stored.
pub struct Before {
    pub pass: PassId,
    pub units: String,
    /// Whether this process still holds the lease under which the page was requested.
    pub is_held: bool,
    /// The stored records, by id.
    pub records: HashMap<String, KnownRecord>,
    pub last_position: i64,
    /// What the step listed of the page's records: id, the id that requested it, and whether it has no parent.
    pub listed: Vec<(String, String, bool)>,
    pub layout: Option<KindLayout>,
}

/// A stored record.
pub struct KnownRecord {
    pub number: i64,
    pub text_hash: Option<i64>,
}

impl Before {
    pub async fn read(tx: &Transaction<'_>, landing: &Landing) -> Result<Self, PostgresError> {
        let mut ids: Vec<Cow<'_, str>> = all_stored(landing.records.iter().map(|one| &one.id));
        ids.sort_unstable();
        ids.dedup();
        let (of_pass, already, records, listed) = tokio::try_join!(
            biased;
            of_pass(tx, landing),
            already(tx, landing),
            records(tx, landing, &ids),
            listed(tx, landing, &ids),
        )?;
        let Some(already) = already.first() else {
            return Err(PostgresError::Unusable(
                "a row of constants is missing".to_owned(),
            ));
        };
        check_unknown(already, landing)?;
        let Some(of_pass) = of_pass.first() else {
            return Err(PostgresError::NoSuchPass(PassId(open(landing))));
        };
        tx.identify(of_pass.value(2)?);
        let is_held = landing.term.is_none() || of_pass.value::<Option<bool>>(3)?.is_some();
        let layout = already.value::<Option<String>>(2)?.zip(already.value(3)?);
        Ok(Self {
            pass: PassId(of_pass.value(0)?),
            units: of_pass.value(1)?,
            is_held,
            records: records.iter().map(record).collect::<Result<_, _>>()?,
            last_position: already.value::<Option<i64>>(4)?.unwrap_or(0),
            listed: listed.iter().map(listing).collect::<Result<_, _>>()?,
            layout: layout.map(|(text, columns)| KindLayout { text, columns }),
        })
    }
}

/// Fails if the page was stored before. The transaction is then rolled back: it may have begun another pass.
fn check_unknown(already: &Row, landing: &Landing) -> Result<(), PostgresError> {
    let Some(pass) = already.value::<Option<i64>>(0)? else {
        return Ok(());
    };
    Err(PostgresError::Landed(Landed {
        pass: PassId(pass),
        cursor_repeats: already.value::<bool>(1)? && landing.next.is_some(),
        lease_lost: false,
    }))
}

/// The id of an open pass, or one that no pass has.
const fn open(landing: &Landing) -> i64 {
    match &landing.pass {
        PassRef::Open(pass) => pass.0,
        PassRef::New { .. } => -1,
    }
}

/// Locks a pass, or begins one; and checks its lease.
async fn of_pass(tx: &Transaction<'_>, landing: &Landing) -> Result<Vec<Row>, PostgresError> {
    let key = LeaseKey::of(tx.postgres().terms(), landing.term.as_ref());
    match &landing.pass {
        PassRef::Open(pass) => {
            tx.query(
                OPEN,
                parameters![
                    pass.0,
                    key.job,
                    key.region,
                    key.holder,
                    key.term,
                    key.landing
                ],
            )
            .await
        }
        PassRef::New {
            job,
            region,
            slice,
            started_at,
        } => {
            let (from, to) = passes::edges(*slice);
            let (job, region, at) = (stored(job), stored(region), time(*started_at));
            tx.query(
                BEGIN,
                parameters![
                    job,
                    region,
                    at,
                    from,
                    to,
                    key.job,
                    key.region,
                    key.holder,
                    key.term,
                    key.landing
                ],
            )
            .await
        }
    }
}

async fn already(tx: &Transaction<'_>, landing: &Landing) -> Result<Vec<Row>, PostgresError> {
    let (upstream, kind) = (stored(&landing.upstream), stored(&landing.kind.kind));
    let call = stored(&landing.call);
    tx.query(
        ALREADY,
        parameters![
            landing.id,
            upstream,
            kind,
            call,
            open(landing),
            step(landing)
        ],
    )
    .await
}

async fn records(
    tx: &Transaction<'_>,
    landing: &Landing,
    ids: &Vec<Cow<'_, str>>,
) -> Result<Vec<Row>, PostgresError> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let (upstream, kind) = (stored(&landing.upstream), stored(&landing.kind.kind));
    tx.query(RECORDS, parameters![upstream, kind, *ids]).await
}

/// A pass that begins with this page has listed nothing.
async fn listed(
    tx: &Transaction<'_>,
    landing: &Landing,
    ids: &Vec<Cow<'_, str>>,
) -> Result<Vec<Row>, PostgresError> {
    if ids.is_empty() || matches!(landing.pass, PassRef::New { .. }) {
        return Ok(Vec::new());
    }
    let (upstream, kind) = (stored(&landing.upstream), stored(&landing.kind.kind));
    tx.query(
        LISTED,
        parameters![open(landing), step(landing), upstream, kind, *ids],
    )
    .await
}

fn step(landing: &Landing) -> i64 {
    integer(landing.step as u64)
}

fn record(row: &Row) -> Result<(String, KnownRecord), PostgresError> {
    let stored = KnownRecord {
        number: row.value(1)?,
        text_hash: row.value(2)?,
    };
    Ok((row.text(0)?, stored))
}

fn listing(row: &Row) -> Result<(String, String, bool), PostgresError> {
    Ok((row.text(0)?, row.text(1)?, row.value(2)?))
}
