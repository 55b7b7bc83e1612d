//! Merges old charges of an account whose limits count in parts, as the ledger does: those of one part of the window and one
//! purpose become one row.

use std::collections::BTreeMap;
use std::time::Duration;

use rusqlite::{Row, Transaction, params};

use super::rows::{NAMELESS, entry};
use ingest_quota::{Account, Cost, Entry, Limit, Timestamp};
use ingest_sqlite::Json;

/// The most charges that are merged at once, and more than are made between two times.
const MOST: i64 = 1_024;

/// The charges that may be merged: granted, and in the ledger as they are here.
// Rows without a call were absorbed, or settled before they arrived: the ledger remembers their ids longer (L11).
const WHICH: &str =
    "account = ?1 and at >= ?2 and at <= ?3 and state = 'sent' and known and told = 1
    and not unmetered and call is not null";

/// The job, region and call under which a charge is reported.
type Purpose = [Option<String>; 3];

/// Merges granted charges whose ids the ledger has forgotten. A bounded number: the oldest that are not merged, and the rows
/// of the last part that is.
pub fn merge(tx: &Transaction<'_>, account: &Account, now: Timestamp) -> rusqlite::Result<()> {
    if !account.forgets_ids() {
        return Ok(());
    }
    let until = now - account.id_memory();
    let from = now - account.longest_window();
    let Some(first) = first_single(tx, account, from, until)? else {
        return Ok(());
    };
    // From one part earlier, so that the row of the last merged part takes what belongs to it.
    let charges = charges(tx, account, first - longest_part(account), until)?;
    let is_one = |(earlier, _): &(Entry, Purpose), (later, _): &(Entry, Purpose)| {
        account.merges(earlier.at, later.at, now)
    };
    charges
        .chunk_by(is_one)
        .try_for_each(|part| merge_part(tx, account, part))
}

fn longest_part(account: &Account) -> Duration {
    let parts = account.limits.values().map(Limit::window);
    let lengths = parts.filter_map(|window| Some(window.parts()?.length()));
    lengths.max().unwrap_or_default()
}

/// Returns when the oldest charge was made that is not merged.
fn first_single(
    tx: &Transaction<'_>,
    account: &Account,
    from: Timestamp,
    until: Timestamp,
) -> rusqlite::Result<Option<Timestamp>> {
    let select = format!("select min(at) from charge where {WHICH} and substr(id, 1, 1) != ?4");
    let nameless = NAMELESS.to_string();
    let params = params![account.name, from.micros(), until.micros(), nameless];
    let first: Option<i64> = tx
        .prepare_cached(&select)?
        .query_row(params, |row| row.get(0))?;
    Ok(first.map(Timestamp::from_micros))
}

fn charges(
    tx: &Transaction<'_>,
    account: &Account,
    from: Timestamp,
    until: Timestamp,
) -> rusqlite::Result<Vec<(Entry, Purpose)>> {
    let select = format!(
        "select id, at, cost, origin, job, region, call from charge where {WHICH} order by at limit ?4"
    );
    let params = params![account.name, from.micros(), until.micros(), MOST];
    let read = |row: &Row<'_>| Ok((entry(row)?, [row.get(4)?, row.get(5)?, row.get(6)?]));
    tx.prepare_cached(&select)?
        .query_map(params, read)?
        .collect()
}

fn merge_part(
    tx: &Transaction<'_>,
    account: &Account,
    part: &[(Entry, Purpose)],
) -> rusqlite::Result<()> {
    let mut by_purpose: BTreeMap<&Purpose, Vec<&Entry>> = BTreeMap::new();
    for (entry, purpose) in part {
        by_purpose.entry(purpose).or_default().push(entry);
    }
    by_purpose
        .into_iter()
        .filter(|(_, entries)| entries.len() > 1)
        .try_for_each(|(purpose, entries)| replace(tx, account, purpose, &entries))
}

/// Replaces charges by one, at the time of the last.
fn replace(
    tx: &Transaction<'_>,
    account: &Account,
    purpose: &Purpose,
    entries: &[&Entry],
) -> rusqlite::Result<()> {
    let (mut cost, mut charges) = (Cost::none(), 0_u32);
    for entry in entries {
        cost.add(&entry.cost);
        let delete = "delete from charge where account = ? and id = ? returning charges";
        let mut delete = tx.prepare_cached(delete)?;
        charges += delete.query_row([&account.name, entry.id.as_str()], |row| {
            row.get::<_, u32>(0)
        })?;
    }
    let Some(last) = entries.last() else {
        return Ok(());
    };
    let id = format!(
        "{NAMELESS}{}",
        last.id.as_str().trim_start_matches(NAMELESS)
    );
    let ([job, region, call], at) = (purpose, last.at.micros());
    let process = std::process::id();
    tx.prepare_cached(
        "insert into charge (account, id, at, cost, state, known, asked_at, owner, job, region, call,
             charges)
         values (?1, ?2, ?3, ?4, 'sent', 1, ?3, ?5, ?6, ?7, ?8, ?9)",
    )?
    .execute(params![
        account.name,
        id,
        at,
        Json(&cost),
        process,
        job,
        region,
        call,
        charges
    ])
    .map(drop)
}
