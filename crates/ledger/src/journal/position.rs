//! Where the ledger stood when it last replied (table `contact`), and the use of each limit that it then reported (table
//! `said`).

use std::collections::BTreeMap;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

use super::{Journal, JournalError, JournalTime};
use crate::{LedgerPosition, Report, Seen};
use ingest_quota::{Account, ChargeId, Cost, LimitName, Timestamp, Units};

/// What a charge must know before it is sent to the ledger.
#[derive(Debug, Clone)]
pub struct SyncState {
    /// What this machine has seen of the ledger.
    pub seen: Seen,
    /// Whether a loss was found and the recovery is not complete.
    pub recovering: bool,
    /// Whether the ledger lacks anything that the journal holds.
    pub pending: bool,
    /// Until when everything is refused after a loss.
    pub wait_until: Timestamp,
}

impl SyncState {
    /// Whether anything must be sent before a charge.
    pub fn is_behind(&self) -> bool {
        self.seen.epoch.is_empty() || self.recovering || self.pending
    }
}

impl Journal {
    /// Reads what a charge must know before it is sent. `charging` is not counted as pending.
    pub async fn sync_state(
        &self,
        account: &Account,
        charging: &ChargeId,
        now: Timestamp,
    ) -> Result<SyncState, JournalError> {
        let (moment, charging) = (JournalTime::new(account, now), charging.clone());
        self.look(move |connection| sync_state(connection, &moment, &charging))
            .await
    }

    /// Returns what this machine has seen of the ledger, as far as it still matters.
    pub async fn seen(&self, account: &Account, now: Timestamp) -> Result<Seen, JournalError> {
        let moment = JournalTime::new(account, now);
        let stored = self.look(move |connection| stored(connection, &moment));
        Ok(stored.await?.seen)
    }

    /// Returns until when this machine charges nothing after a loss; `None` when it does not wait.
    pub async fn waits_until(
        &self,
        account: &Account,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, JournalError> {
        let moment = JournalTime::new(account, now);
        let stored = self.look(move |connection| stored(connection, &moment));
        let until = stored.await?.wait_until;
        Ok(Some(until).filter(|until| self.is_waiting(*until, now)))
    }

    /// Records where the ledger stood when it took an update: a machine that was granted nothing, or nothing lately, must
    /// find a loss too.
    pub async fn record_position(
        &self,
        account: &Account,
        position: &LedgerPosition,
        now: Timestamp,
    ) -> Result<(), JournalError> {
        let (moment, position) = (JournalTime::new(account, now), position.clone());
        let ledger = self.ledger.clone();
        self.write(move |tx| {
            let before = stored(tx, &moment)?;
            if before.continues_in(&position) {
                let ahead = position.at.since(now);
                record(tx, &moment, &position, &before, ahead)?;
                record_ledger(tx, &moment.account, ledger.as_deref())?;
            }
            Ok(())
        })
        .await
    }

    /// Records what the ledger reported without recording anything itself. It counts towards the floors after a loss (L40).
    pub async fn record_report(
        &self,
        account: &Account,
        report: Report,
        now: Timestamp,
    ) -> Result<(), JournalError> {
        let moment = JournalTime::new(account, now);
        let ledger = self.ledger.clone();
        self.write(move |tx| {
            let before = stored(tx, &moment)?;
            let position = &report.position;
            if before.continues_in(position) && !position.epoch.is_empty() {
                // A report does not renew the lives of the ledger's keys.
                let renewed = LedgerPosition {
                    at: report.renewed,
                    ..position.clone()
                };
                record(tx, &moment, &renewed, &before, position.at.since(now))?;
                record_ledger(tx, &moment.account, ledger.as_deref())?;
                record_used(tx, &moment.account, position.at, &report.used)?;
            }
            Ok(())
        })
        .await
    }
}

// Statements about open charges name their index: SQLite would rather go through all charges of the account.
pub fn sync_state(
    connection: &Connection,
    moment: &JournalTime,
    charging: &ChargeId,
) -> rusqlite::Result<SyncState> {
    let stored = stored(connection, moment)?;
    let mut statement = connection.prepare_cached(
        "select exists (select 1 from charge indexed by charge_open
                where account = ?1 and (told = 0 or state = 'asked') and id != ?2)
             or exists (select 1 from closing where account = ?1 and told = 0)",
    )?;
    let parameters = params![moment.account, charging.as_str()];
    Ok(SyncState {
        seen: stored.seen,
        recovering: stored.recovering,
        pending: statement.query_row(parameters, |row| row.get(0))?,
        wait_until: stored.wait_until,
    })
}

/// The stored position of a ledger.
#[derive(Debug, Clone)]
pub struct StoredPosition {
    pub seen: Seen,
    /// The ledger's time.
    pub at: Timestamp,
    /// How far the ledger's clock was ahead of this machine's.
    pub ahead: Duration,
    pub recovering: bool,
    pub wait_until: Timestamp,
}

impl Default for StoredPosition {
    fn default() -> Self {
        Self {
            seen: Seen::default(),
            at: Timestamp::from_micros(0),
            ahead: Duration::ZERO,
            recovering: false,
            wait_until: Timestamp::from_micros(0),
        }
    }
}

impl StoredPosition {
    /// Whether a ledger at this position is the one that this machine is in step with.
    pub fn continues_in(&self, position: &LedgerPosition) -> bool {
        !self.recovering && (self.seen.epoch.is_empty() || self.seen.epoch == position.epoch)
    }
}

/// Returns how long after a grant the ledger's keys certainly live (L50): 26 hours or nine eighths of the window, whichever
/// is longer, renewed when a sixteenth of the window has gone by.
fn surely_kept(window: Duration) -> Duration {
    (window * 9 / 8)
        .max(Duration::from_secs(26 * 60 * 60))
        .saturating_sub(window / 16)
}

/// Reads the stored position; a default one after the ledger's keys may have expired, since a ledger that has forgotten
/// everything by then has lost nothing (L45). A charge that the ledger has forgotten by itself is not looked for.
pub fn stored(connection: &Connection, moment: &JournalTime) -> rusqlite::Result<StoredPosition> {
    let mut statement = connection.prepare_cached(
        "select epoch, sequence, newest, at, ahead, recovering, wait_until, newest_at from contact where account = ?",
    )?;
    let found = statement.query_row([&moment.account], |row| read(row, moment));
    let lives = |stored: &StoredPosition| stored.at + surely_kept(moment.window) > moment.now;
    Ok(found.optional()?.filter(lives).unwrap_or_default())
}

fn read(row: &Row<'_>, moment: &JournalTime) -> rusqlite::Result<StoredPosition> {
    let ahead = Duration::from_micros(row.get::<_, i64>(4)?.unsigned_abs());
    let newest_at = Timestamp::from_micros(row.get(7)?);
    let is_remembered = newest_at + moment.remembered > moment.now + ahead;
    let newest: Option<String> = row.get(2)?;
    Ok(StoredPosition {
        seen: Seen {
            epoch: row.get(0)?,
            sequence: row.get::<_, i64>(1)?.unsigned_abs(),
            newest: newest.filter(|_| is_remembered).map(ChargeId::new),
        },
        at: Timestamp::from_micros(row.get(3)?),
        ahead,
        recovering: row.get(5)?,
        wait_until: Timestamp::from_micros(row.get(6)?),
    })
}

/// Records the position of every reply, not of grants alone: a machine that only ever sends unmetered charges or closings must
/// find a loss too.
pub fn record(
    tx: &Transaction<'_>,
    moment: &JournalTime,
    position: &LedgerPosition,
    before: &StoredPosition,
    ahead: Duration,
) -> rusqlite::Result<()> {
    let sequence = position.sequence.max(before.seen.sequence);
    tx.prepare_cached(
        "insert into contact (account, epoch, sequence, at, ahead) values (?, ?, ?, ?, ?)
         on conflict do update set epoch = excluded.epoch, sequence = excluded.sequence, at = max(at, excluded.at),
             ahead = excluded.ahead, recovering = 0",
    )?
    .execute(params![
        moment.account,
        position.epoch,
        i64::try_from(sequence).unwrap_or(i64::MAX),
        position.at.micros(),
        i64::try_from(ahead.as_micros()).unwrap_or(0)
    ])
    .map(drop)
}

/// Records which ledger this machine is in step with; nothing when the client did not name one.
pub fn record_ledger(
    connection: &Connection,
    account: &str,
    ledger: Option<&str>,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "update contact set ledger = ?1 where account = ?2 and ?1 is not null and ledger is not ?1",
        )?
        .execute(params![ledger, account])
        .map(drop)
}

/// Records a charge as this machine's newest, unless a later one is recorded.
pub fn record_newest(
    tx: &Transaction<'_>,
    account: &str,
    id: &ChargeId,
    position: &LedgerPosition,
    before: &StoredPosition,
) -> rusqlite::Result<()> {
    if before.seen.newest.is_some() && position.sequence <= before.seen.sequence {
        return Ok(());
    }
    tx.prepare_cached("update contact set newest = ?, newest_at = ? where account = ?")?
        .execute(params![id.as_str(), position.at.micros(), account])
        .map(drop)
}

/// Records the use of each limit that the ledger reported at `at`. Of one instant the highest use holds.
pub fn record_used(
    tx: &Transaction<'_>,
    account: &str,
    at: Timestamp,
    used: &BTreeMap<LimitName, Units>,
) -> rusqlite::Result<()> {
    let mut statement = tx.prepare_cached(
        "insert into said (account, limit_name, at, used) values (?, ?, ?, ?)
         on conflict do update set at = excluded.at, used = excluded.used
         where excluded.at > at or (excluded.at = at and excluded.used > used)",
    )?;
    for (limit, used) in used {
        let used = i64::try_from(used.get()).unwrap_or(i64::MAX);
        statement.execute(params![account, limit, at.micros(), used])?;
    }
    Ok(())
}

/// Adds to the use that the ledger reported what a charge costs more than was known then.
pub fn raise_used(
    tx: &Transaction<'_>,
    account: &str,
    charged_at: Timestamp,
    more: &Cost,
) -> rusqlite::Result<()> {
    let mut statement = tx.prepare_cached(
        "update said set used = used + ? where account = ? and limit_name = ? and at >= ?",
    )?;
    for (limit, units) in more.iter() {
        let units = i64::try_from(units.get()).unwrap_or(i64::MAX / 2);
        statement.execute(params![units, account, limit, charged_at.micros()])?;
    }
    Ok(())
}

/// Returns the use of a limit that the ledger reported last, and when; `None` before the first report.
pub fn last_reported(
    connection: &Connection,
    account: &str,
    limit: &str,
) -> rusqlite::Result<Option<(Timestamp, Units)>> {
    let mut statement = connection
        .prepare_cached("select at, used from said where account = ? and limit_name = ?")?;
    let reported = statement.query_row([account, limit], |row| {
        let used = u64::try_from(row.get::<_, i64>(1)?).unwrap_or(0);
        Ok((Timestamp::from_micros(row.get(0)?), Units::new(used)))
    });
    reported.optional()
}
