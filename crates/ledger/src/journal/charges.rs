//! The charges of this machine (table `charge`): requested, then marked "may be sent" or void; or unmetered.

use std::collections::BTreeMap;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

use super::closings::{self, Binding};
use super::position::{self, StoredPosition, SyncState, sync_state};
use super::rows::{NAMELESS, entry, found, valid_id};
use super::{Journal, JournalError, JournalTime, write};
use crate::{Charge, Found, Granted, Purpose, repeats};
use ingest_quota::admission::{kept_from, remembered_from};
use ingest_quota::{Account, ChargeId, Cost, Entry, LimitName, Origin, Timestamp, Units};
use ingest_sqlite::Json;

/// A charge that may be sent to the ledger.
#[derive(Debug, Clone)]
pub struct Begun {
    /// The id that was given, or one made from it when that one names no charge any more (L12).
    pub id: ChargeId,
    /// Whether the charge was sent before, with an unknown result.
    pub in_doubt: bool,
    /// What must be known before it is sent.
    pub state: SyncState,
}

/// What became of a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marked {
    /// The request may be sent.
    MayBeSent,
    /// The grant came from a ledger that was lost since, or the charge was taken for abandoned (L21).
    Void,
}

/// Whether a charge may go ahead without the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unmetered {
    /// It is recorded.
    Allowed {
        /// The id that it is recorded under.
        id: ChargeId,
        /// The closed limits that it probes, each with the interval of its last closing.
        probing: BTreeMap<LimitName, Duration>,
    },
    /// It was recorded before.
    Repeated {
        /// The id that it is recorded under.
        id: ChargeId,
        /// The cost that it was recorded with.
        held: Cost,
    },
    /// The allowance does not hold it.
    Exhausted,
    /// The upstream reported a limit exhausted.
    Closed {
        limit: LimitName,
        /// Until when it is closed.
        until: Timestamp,
    },
}

impl Journal {
    /// Records that a charge is requested, before it is sent to the ledger (L20).
    pub async fn begin(&self, charge: Charge<'_>, now: Timestamp) -> Result<Begun, JournalError> {
        let (moment, row) = (
            JournalTime::new(charge.account, now),
            ChargeRow::new(charge, now),
        );
        self.write(move |tx| {
            let row = row.valid(tx)?;
            let in_doubt = has_state(tx, &moment.account, &row.id, "asked")?;
            // A charge that may be sent already stays as it is: the ledger grants its id again, and counts it once.
            row.insert(
                tx,
                "insert into charge (account, id, at, cost, state, asked_at, owner, job, region, call)
                 values (?1, ?2, ?3, ?4, 'asked', ?3, ?5, ?6, ?7, ?8)
                 on conflict do update set owner = excluded.owner, asked_at = excluded.asked_at where state = 'asked'",
            )?;
            Ok(Begun {
                state: sync_state(tx, &moment, &row.id)?,
                id: row.id,
                in_doubt,
            })
        })
        .await
    }

    /// Marks a granted charge "may be sent", unless the grant is void (L21).
    pub async fn mark(
        &self,
        account: &Account,
        id: &ChargeId,
        granted: Granted,
        now: Timestamp,
    ) -> Result<Marked, JournalError> {
        let (moment, id) = (JournalTime::new(account, now), id.clone());
        let ledger = self.ledger.clone();
        self.write(move |tx| {
            let marked = mark(tx, &moment, &id, &granted)?;
            match marked {
                Marked::Void => void(tx, &moment.account, &id)?,
                Marked::MayBeSent => {
                    position::record_ledger(tx, &moment.account, ledger.as_deref())?;
                }
            }
            Ok(marked)
        })
        .await
    }

    /// Voids a charge that the ledger may hold: it is settled to nothing at the next contact.
    pub async fn void(&self, account: &Account, id: &ChargeId) -> Result<(), JournalError> {
        let (account, id) = (account.name.clone(), id.clone());
        self.write(move |tx| void(tx, &account, &id)).await
    }

    /// Deletes a charge that the ledger has not recorded.
    pub async fn forget(&self, account: &Account, id: &ChargeId) -> Result<(), JournalError> {
        let (account, id) = (account.name.clone(), id.clone());
        self.write(move |tx| {
            let delete = "delete from charge where account = ? and id = ? and state = 'asked'";
            tx.prepare_cached(delete)?
                .execute(params![account, id.as_str()])
                .map(drop)
        })
        .await
    }

    /// Records a charge before it goes ahead without the ledger, if this machine may spend it: at most `most` units within
    /// a window, over all its processes (L31).
    pub async fn charge_unmetered(
        &self,
        charge: Charge<'_>,
        most: Units,
        now: Timestamp,
    ) -> Result<Unmetered, JournalError> {
        let (account, row) = (charge.account.clone(), ChargeRow::new(charge, now));
        self.change(move |connection| {
            // The request leaves at once, so the row must be on the disk and not only in the system's cache.
            connection.pragma_update(None, "synchronous", "full")?;
            let unmetered = write(connection, |tx| charge_unmetered(tx, &account, row, most));
            connection.pragma_update(None, "synchronous", "normal")?;
            unmetered
        })
        .await
    }

    /// Returns the units that went unmetered since `from`, over all processes.
    pub async fn unmetered_since(
        &self,
        account: &Account,
        from: Timestamp,
    ) -> Result<Units, JournalError> {
        let account = account.name.clone();
        self.look(move |connection| unmetered_since(connection, &account, from))
            .await
    }

    /// Records the true cost of a charge.
    pub async fn settle(
        &self,
        account: &Account,
        id: &ChargeId,
        cost: &Cost,
        now: Timestamp,
    ) -> Result<(), JournalError> {
        let row = ChargeRow::settled(account, id, now, cost);
        self.write(move |tx| settle(tx, &row)).await
    }

    /// Records the true cost of a charge of this machine that counts, and returns what had become of it: one that was taken back
    /// stays so.
    pub async fn correct(
        &self,
        account: &Account,
        id: &ChargeId,
        cost: &Cost,
        now: Timestamp,
    ) -> Result<Found, JournalError> {
        let row = ChargeRow::settled(account, id, now, cost);
        self.write(move |tx| {
            let found = found(tx, &row.account, &row.id)?;
            if let Found::Counting(id) = &found {
                let id = id.clone();
                settle(tx, &ChargeRow { id, ..row })?;
            }
            Ok(found)
        })
        .await
    }

    /// Lets an id that the ledger has forgotten name a new charge (L11): its charge stays, without a name, while it may count.
    pub async fn free_forgotten(
        &self,
        account: &Account,
        id: &ChargeId,
        now: Timestamp,
    ) -> Result<(), JournalError> {
        let (name, charged) = (account.name.clone(), id.clone());
        let found = self.look(move |connection| named(connection, &name, &charged));
        let Some(named) = found.await? else {
            return Ok(());
        };
        if named.is_remembered(account, now) {
            return Ok(());
        }
        let (name, id) = (account.name.clone(), id.clone());
        self.write(move |tx| free(tx, &name, &id, named.at)).await
    }

    /// Records charges made elsewhere, each once.
    pub async fn add(&self, account: &Account, entries: &[Entry]) -> Result<(), JournalError> {
        let row = |entry: &Entry| ChargeRow {
            origin: entry.origin,
            ..ChargeRow::settled(account, &entry.id, entry.at, &entry.cost)
        };
        let rows: Vec<ChargeRow> = entries.iter().map(row).collect();
        self.write(move |tx| {
            let add = |row: &ChargeRow| row.upsert_settled(tx, "on conflict do nothing");
            rows.iter().try_for_each(add)
        })
        .await
    }
}

/// A charge as it is written.
struct ChargeRow {
    account: String,
    id: ChargeId,
    at: Timestamp,
    cost: Cost,
    purpose: Purpose,
    origin: Origin,
}

impl ChargeRow {
    fn new(charge: Charge<'_>, at: Timestamp) -> Self {
        Self {
            account: charge.account.name.clone(),
            id: charge.id.clone(),
            at,
            cost: charge.cost.clone(),
            purpose: charge.purpose.clone(),
            origin: Origin::Charged,
        }
    }

    /// A charge whose cost is final, without a purpose.
    fn settled(account: &Account, id: &ChargeId, at: Timestamp, cost: &Cost) -> Self {
        Self {
            account: account.name.clone(),
            id: id.clone(),
            at,
            cost: cost.counted(),
            purpose: Purpose::default(),
            origin: Origin::CarriedOver,
        }
    }

    /// The same charge under an id that can be charged.
    fn valid(self, connection: &Connection) -> rusqlite::Result<Self> {
        let id = valid_id(connection, &self.account, &self.id)?;
        Ok(Self { id, ..self })
    }

    /// Runs a statement of eight parameters: account, id, time, cost, process, job, region, call.
    fn insert(&self, connection: &Connection, statement: &str) -> rusqlite::Result<()> {
        let Purpose { job, region, call } = &self.purpose;
        connection
            .prepare_cached(statement)?
            .execute(params![
                self.account,
                self.id.as_str(),
                self.at.micros(),
                Json(&self.cost),
                std::process::id(),
                job,
                region,
                call
            ])
            .map(drop)
    }

    /// Writes a charge whose cost is final and has no purpose. `on_conflict` says what happens to one that is there.
    fn upsert_settled(&self, connection: &Connection, on_conflict: &str) -> rusqlite::Result<()> {
        let insert = format!(
            "insert into charge (account, id, at, cost, state, settled, told, asked_at, owner, origin)
             values (?1, ?2, ?3, ?4, 'sent', 1, 0, ?3, ?5, ?6) {on_conflict}"
        );
        let (id, at) = (self.id.as_str(), self.at.micros());
        let process = std::process::id();
        let (cost, origin) = (Json(&self.cost), self.origin.as_str());
        connection
            .prepare_cached(&insert)?
            .execute(params![self.account, id, at, cost, process, origin])
            .map(drop)
    }
}

/// Records the true cost of a charge, unless it was released.
fn settle(tx: &Transaction<'_>, row: &ChargeRow) -> rusqlite::Result<()> {
    let is_released =
        "select 1 from charge where account = ? and id = ? and settled and cost = '{}'";
    if tx
        .prepare_cached(is_released)?
        .exists(params![row.account, row.id.as_str()])?
    {
        return Ok(());
    }
    // A floor that is set after a loss must contain the true cost, which the ledger reported without it (L38).
    if let Some(before) = charged(tx, row)? {
        let mut more = row.cost.clone();
        more.take(&before.cost);
        position::raise_used(tx, &row.account, before.at, &more)?;
    }
    row.upsert_settled(
        tx,
        "on conflict do update set cost = excluded.cost, settled = 1, told = 0, version = version + 1,
             state = case state when 'asked' then 'void' else state end",
    )
}

/// A charge that may have been sent, as far as its id is concerned.
struct Named {
    at: Timestamp,
    cost: Cost,
    /// Whether the ledger absorbed it, or it was settled before it arrived.
    is_lasting: bool,
    /// How far the ledger's clock is ahead.
    ahead: Duration,
}

impl Named {
    /// Whether the ledger takes a charge under its id for the same one.
    fn is_remembered(&self, account: &Account, now: Timestamp) -> bool {
        let now = now + self.ahead;
        match self.is_lasting {
            true => self.at > kept_from(account, now),
            false => {
                let held = account.taken(&self.cost);
                self.at > remembered_from(account, now) && repeats(account, &held, self.at, now)
            }
        }
    }
}

/// Returns the charge of an id that may have been sent. One that was taken back is left out: its id names no charge any more (L12).
fn named(connection: &Connection, account: &str, id: &ChargeId) -> rusqlite::Result<Option<Named>> {
    let mut statement = connection.prepare_cached(
        "select at, cost, call is null or (unmetered and known),
             coalesce((select ahead from contact where contact.account = charge.account), 0)
         from charge where account = ? and id = ? and state = 'sent' and not (settled and cost = '{}')",
    )?;
    let read = |row: &Row<'_>| {
        Ok(Named {
            at: Timestamp::from_micros(row.get(0)?),
            cost: row.get::<_, Json<Cost>>(1)?.0,
            is_lasting: row.get(2)?,
            ahead: Duration::from_micros(u64::try_from(row.get::<_, i64>(3)?).unwrap_or_default()),
        })
    };
    let found = statement.query_row(params![account, id.as_str()], read);
    found.optional()
}

/// Takes its id from a charge made at `at`.
fn free(tx: &Transaction<'_>, account: &str, id: &ChargeId, at: Timestamp) -> rusqlite::Result<()> {
    tx.prepare_cached(
        "update charge set id = ?4 || id || ' ' || at where account = ?1 and id = ?2 and at = ?3",
    )?
    .execute(params![
        account,
        id.as_str(),
        at.micros(),
        NAMELESS.to_string()
    ])?;
    // A recovery could not send it under its name.
    tx.prepare_cached("update contact set newest = null where account = ? and newest = ?")?
        .execute(params![account, id.as_str()])
        .map(drop)
}

fn has_state(
    connection: &Connection,
    account: &str,
    id: &ChargeId,
    state: &str,
) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("select 1 from charge where account = ? and id = ? and state = ?")?
        .exists(params![account, id.as_str(), state])
}

fn mark(
    tx: &Transaction<'_>,
    moment: &JournalTime,
    id: &ChargeId,
    granted: &Granted,
) -> rusqlite::Result<Marked> {
    let (account, position) = (&moment.account, &granted.position);
    let before = position::stored(tx, moment)?;
    if !before.continues_in(position) || !mark_sent(tx, account, id, granted)? {
        return Ok(Marked::Void);
    }
    let ahead = clock_lead(granted, &before, moment.now);
    position::record(tx, moment, position, &before, ahead)?;
    // A repeated grant carries the time of its charge, and says nothing about the ledger now.
    if granted.is_fresh() {
        position::record_newest(tx, account, id, position, &before)?;
        position::record_used(tx, account, position.at, &granted.used)?;
        closings::apply_grant(tx, moment, granted)?;
    }
    Ok(Marked::MayBeSent)
}

/// Returns how far the ledger's clock is ahead. A repeated grant carries the time of its charge, which is not the ledger's
/// now.
fn clock_lead(granted: &Granted, before: &StoredPosition, now: Timestamp) -> Duration {
    match granted.is_fresh() {
        true => granted.position.at.since(now),
        false => before.ahead,
    }
}

/// Returns whether there was a charge to mark.
fn mark_sent(
    tx: &Transaction<'_>,
    account: &str,
    id: &ChargeId,
    granted: &Granted,
) -> rusqlite::Result<bool> {
    let mut statement = tx.prepare_cached(
        "update charge set state = 'sent', known = 1, at = case when state = 'asked' or ? then ? else at end
         where account = ? and id = ? and state in ('asked', 'sent') and not (settled and cost = '{}')",
    )?;
    let at = granted.position.at.micros();
    let marked = statement.execute(params![granted.is_fresh(), at, account, id.as_str()])?;
    Ok(marked > 0)
}

// Only what was requested: the request of a row that was marked can have left.
pub fn void(connection: &Connection, account: &str, id: &ChargeId) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "update charge set state = 'void', cost = '{}', settled = 1, told = 0, version = version + 1
             where account = ? and id = ? and state = 'asked'",
        )?
        .execute(params![account, id.as_str()])
        .map(drop)
}

fn charge_unmetered(
    tx: &Transaction<'_>,
    account: &Account,
    row: ChargeRow,
    most: Units,
) -> rusqlite::Result<Unmetered> {
    let moment = JournalTime::new(account, row.at);
    let mut row = row.valid(tx)?;
    // Before closings and allowance: a repeated id is granted again, whatever else holds (L11).
    if let Some(charged) = charged(tx, &row)? {
        let held = charged.cost;
        return Ok(Unmetered::Repeated { id: row.id, held });
    }
    let probing = match closings::binding(tx, account, &row.cost, moment.now)? {
        Binding::Open(probing) => probing,
        Binding::Closed(limit, until) => return Ok(Unmetered::Closed { limit, until }),
    };
    let used = unmetered_since(tx, &account.name, moment.now - moment.window)?;
    if used + row.cost.largest() > most {
        return Ok(Unmetered::Exhausted);
    }
    closings::close_for_probes(tx, account, &probing, moment.now)?;
    // By the ledger's clock where that was ahead, and never before the last contact: no unit is forgotten too early (L32).
    let stored = position::stored(tx, &moment)?;
    row.at = (moment.now + stored.ahead).max(stored.at);
    row.insert(
        tx,
        "insert into charge (account, id, at, cost, state, unmetered, told, asked_at, owner, job, region, call)
         values (?1, ?2, ?3, ?4, 'sent', 1, 0, ?3, ?5, ?6, ?7, ?8)
         on conflict do update set at = excluded.at, cost = excluded.cost, state = 'sent', unmetered = 1, told = 0,
             version = version + 1",
    )?;
    Ok(Unmetered::Allowed {
        id: row.id,
        probing,
    })
}

/// Returns the charge of an id that may have been sent; `None` when there is none.
fn charged(tx: &Transaction<'_>, row: &ChargeRow) -> rusqlite::Result<Option<Entry>> {
    let mut statement = tx.prepare_cached(
        "select id, at, cost, origin from charge where account = ? and id = ? and state = 'sent'",
    )?;
    let parameters = params![row.account, row.id.as_str()];
    statement.query_row(parameters, entry).optional()
}

/// Returns the units that went unmetered since `from`: of a charge of several limits, its largest component.
fn unmetered_since(
    connection: &Connection,
    account: &str,
    from: Timestamp,
) -> rusqlite::Result<Units> {
    let mut statement = connection
        .prepare_cached("select cost from charge where account = ? and unmetered = 1 and at > ?")?;
    let costs = statement.query_map(params![account, from.micros()], |row| {
        row.get::<_, Json<Cost>>(0)
    })?;
    costs.map(|cost| Ok(cost?.0.largest())).sum()
}
