//! How a charge of the journal is read and found: what every other file of the journal uses of the table `charge`.

use rusqlite::{Connection, Params, Row, params};

use crate::Found;
use ingest_quota::{ChargeId, Cost, Entry, Origin, Timestamp};
use ingest_sqlite::Json;

/// Begins the id of a row that stands for several charges, or for one whose id is forgotten: no charge has it.
pub const NAMELESS: char = '\u{2}';

/// Reads an entry from the columns `id, at, cost, origin`.
pub fn entry(row: &Row<'_>) -> rusqlite::Result<Entry> {
    Ok(Entry {
        origin: Origin::read(row.get_ref(3)?.as_str()?).unwrap_or_default(),
        id: ChargeId::new(row.get::<_, String>(0)?),
        at: Timestamp::from_micros(row.get(1)?),
        cost: row.get::<_, Json<Cost>>(2)?.0,
    })
}

/// Returns the sum of the costs that a statement selects.
pub fn sum(connection: &Connection, select: &str, params: impl Params) -> rusqlite::Result<Cost> {
    let mut statement = connection.prepare_cached(select)?;
    let mut sum = Cost::none();
    for cost in statement.query_map(params, |row| row.get::<_, Json<Cost>>(0))? {
        sum.add(&cost?.0);
    }
    Ok(sum)
}

/// Returns what became of the charge that was made here under `id`, or under one made from it. A charge of another machine is
/// not known here.
pub fn found(connection: &Connection, account: &str, id: &ChargeId) -> rusqlite::Result<Found> {
    // One that another machine made is here from its release on, and tells nothing until the ledger has heard of that.
    let mut statement = connection.prepare_cached(
        "select 1 from charge where account = ? and id = ? and (told or known or call is not null or cost != '{}')",
    )?;
    let mut has = |id: &ChargeId| statement.exists(params![account, id.as_str()]);
    let valid = valid_id(connection, account, id)?;
    Ok(match (has(&valid)?, has(id)?) {
        (true, _) => Found::Counting(valid),
        (false, true) => Found::TakenBack,
        (false, false) => Found::CannotTell,
    })
}

/// Returns the id under which a charge can be made. One that was voided or taken back stays settled in the ledger and would
/// cost nothing, so the next of its kind is taken (L12).
pub fn valid_id(
    connection: &Connection,
    account: &str,
    id: &ChargeId,
) -> rusqlite::Result<ChargeId> {
    let mut statement = connection.prepare_cached(
        "select 1 from charge where account = ? and id = ? and (state = 'void' or (settled and cost = '{}'))",
    )?;
    let (mut candidate, mut taken_back) = (id.clone(), 0);
    while statement.exists(params![account, candidate.as_str()])? {
        taken_back += 1;
        candidate = id.again(taken_back);
    }
    Ok(candidate)
}
