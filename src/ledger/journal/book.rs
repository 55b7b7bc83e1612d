//! A charge on its way: asked for, then either marked "may be sent", or void.

use std::collections::BTreeMap;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::{Journal, JournalError, closings};
use crate::ledger::{LedgerPosition, Purpose, Report, Seen};
use crate::quota::{Account, ChargeId, Cost, LimitName, Timestamp, Units};

/// A charge that may be put to the ledger now.
#[derive(Debug, Clone)]
pub struct Begun {
    /// Its id: the one given, or one made from it where that was voided.
    pub id: ChargeId,
    /// What this machine has seen of the ledger.
    pub seen: Seen,
    /// Whether a loss was found and not all is told again.
    pub recovering: bool,
    /// Whether there is anything to be told first.
    pub pending: bool,
    /// Until when everything is refused after a loss.
    pub wait_until: Timestamp,
    /// Whether it was asked for before, and nobody knows what came of that.
    pub doubtful: bool,
}

/// What became of a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marked {
    /// The request may be sent.
    MayBeSent,
    /// The grant came from a ledger that was lost since, or somebody took this charge for abandoned.
    Void,
}

/// A grant as the ledger told it.
#[derive(Debug, Clone)]
pub struct Granted {
    pub contact: LedgerPosition,
    pub used: BTreeMap<LimitName, Units>,
    /// Closed limits that this charge probes, each with the interval of its last closing.
    pub probing: BTreeMap<LimitName, Duration>,
    /// Whether the ledger recorded the charge just now, or had done so before.
    pub fresh: bool,
}

impl Journal {
    /// Writes down that a charge is asked for.
    pub async fn begin(
        &self,
        account: &Account,
        id: &ChargeId,
        (cost, purpose): (&Cost, &Purpose),
        now: Timestamp,
    ) -> Result<Begun, JournalError> {
        let (name, id, cost, window) = (
            account.name.clone(),
            id.clone(),
            json(cost),
            account.longest_window(),
        );
        let Purpose { job, region, call } = purpose.clone();
        self.with(move |connection| {
            let tx = write(connection)?;
            drop_expired(&tx, &name, &id, now, window)?;
            let id = valid_id(&tx, &name, &id)?;
            let doubtful = is_asked(&tx, &name, &id)?;
            tx.prepare_cached(
                "insert into charge (account, id, at, cost, state, asked_at, owner, job, region, call)
                 values (?1, ?2, ?3, ?4, 'asked', ?3, ?5, ?6, ?7, ?8)
                 on conflict do update set owner = excluded.owner, asked_at = excluded.asked_at where state = 'asked'",
            )?
            .execute(params![
                name,
                id.as_str(),
                now.micros(),
                cost,
                std::process::id(),
                job,
                region,
                call
            ])?;
            let begun = begun(&tx, &name, id, now, window)?;
            tx.commit()?;
            Ok(Begun { doubtful, ..begun })
        })
        .await
    }

    /// How things stand for a charge that was begun, after something was told.
    pub async fn look_again(
        &self,
        account: &Account,
        id: &ChargeId,
        now: Timestamp,
    ) -> Result<Begun, JournalError> {
        let (name, id, window) = (account.name.clone(), id.clone(), account.longest_window());
        self.with(move |connection| begun(connection, &name, id, now, window))
            .await
    }

    /// What this machine has seen of the ledger, as far as it still matters.
    pub async fn seen(&self, account: &Account, now: Timestamp) -> Result<Seen, JournalError> {
        let (name, window) = (account.name.clone(), account.longest_window());
        let contact = self
            .look(move |connection| contact(connection, &name, now, window))
            .await?;
        Ok(contact.unwrap_or_default().seen)
    }

    /// Until when this machine charges nothing after a loss; `None` where it does not wait.
    pub async fn waits_until(
        &self,
        account: &Account,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, JournalError> {
        let (name, window) = (account.name.clone(), account.longest_window());
        let contact = self
            .look(move |connection| contact(connection, &name, now, window))
            .await?;
        let until = contact.map(|contact| contact.wait_until);
        Ok(until.filter(|until| *until > now))
    }

    /// Marks a granted charge "may be sent": only while this machine is in the epoch that granted it, and nobody has
    /// taken the charge for abandoned.
    pub async fn mark(
        &self,
        account: &Account,
        id: &ChargeId,
        granted: Granted,
        now: Timestamp,
    ) -> Result<Marked, JournalError> {
        let (account, id, window) = (account.name.clone(), id.clone(), account.longest_window());
        let ledger = self.ledger.clone();
        self.with(move |connection| {
            let tx = write(connection)?;
            let marked = mark(&tx, &account, &id, &granted, now, window)?;
            match marked {
                Marked::Void => void(&tx, &account, &id)?,
                Marked::MayBeSent => note_ledger(&tx, &account, ledger.as_deref())?,
            }
            tx.commit()?;
            Ok(marked)
        })
        .await
    }

    /// Notes where the ledger stood when it took what it was told: a machine that was granted nothing, or nothing lately,
    /// must see a loss too.
    pub async fn heard(
        &self,
        account: &Account,
        contact: &LedgerPosition,
        now: Timestamp,
    ) -> Result<(), JournalError> {
        let (account, heard, window) = (
            account.name.clone(),
            contact.clone(),
            account.longest_window(),
        );
        let ledger = self.ledger.clone();
        self.with(move |connection| {
            let tx = write(connection)?;
            let before = self::contact(&tx, &account, now, window)?;
            if before.goes_on(&heard) {
                note_contact(&tx, &account, &heard, &before, heard.at.since(now))?;
                note_ledger(&tx, &account, ledger.as_deref())?;
            }
            tx.commit()
        })
        .await
    }

    /// Notes what the ledger reported without recording anything. It counts towards the floors after a loss.
    pub async fn heard_report(
        &self,
        account: &Account,
        report: Report,
        now: Timestamp,
    ) -> Result<(), JournalError> {
        let (account, window) = (account.name.clone(), account.longest_window());
        let ledger = self.ledger.clone();
        self.with(move |connection| {
            let tx = write(connection)?;
            let before = self::contact(&tx, &account, now, window)?;
            if before.goes_on(&report.contact) && !report.contact.epoch.is_empty() {
                let ahead = report.contact.at.since(now);
                let noted = LedgerPosition {
                    at: report.renewed,
                    ..report.contact.clone()
                };
                note_contact(&tx, &account, &noted, &before, ahead)?;
                note_ledger(&tx, &account, ledger.as_deref())?;
                note_said(&tx, &account, report.contact.at, &report.used)?;
            }
            tx.commit()
        })
        .await
    }

    /// Takes back a charge of which the ledger may have heard: it is settled to nothing at the next contact.
    pub async fn void(&self, account: &Account, id: &ChargeId) -> Result<(), JournalError> {
        let (account, id) = (account.name.clone(), id.clone());
        self.with(move |connection| void(connection, &account, &id))
            .await
    }

    /// Drops a charge of which the ledger has recorded nothing.
    pub async fn forget(&self, account: &Account, id: &ChargeId) -> Result<(), JournalError> {
        let (account, id) = (account.name.clone(), id.clone());
        self.with(move |connection| {
            let delete = "delete from charge where account = ? and id = ? and state = 'asked'";
            connection
                .prepare_cached(delete)?
                .execute(params![account, id.as_str()])
                .map(drop)
        })
        .await
    }
}

pub fn write(connection: &mut Connection) -> rusqlite::Result<Transaction<'_>> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate)
}

pub fn json(cost: &Cost) -> String {
    serde_json::to_string(cost).unwrap_or_default()
}

pub fn cost(json: &str) -> Cost {
    let components: BTreeMap<LimitName, u64> = serde_json::from_str(json).unwrap_or_default();
    components
        .into_iter()
        .map(|(limit, units)| (limit, Units::new(units)))
        .collect()
}

pub fn units(number: i64) -> Units {
    Units::new(u64::try_from(number).unwrap_or(0))
}

/// Drops a charge that counts no longer, as the ledger has: its id names a new charge now.
pub fn drop_expired(
    connection: &Connection,
    account: &str,
    id: &ChargeId,
    now: Timestamp,
    window: Duration,
) -> rusqlite::Result<()> {
    let ahead = contact(connection, account, now, window)?.ahead;
    let expired = now + ahead - window;
    connection
        .prepare_cached(
            "delete from charge where account = ? and id = ? and at <= ? and state = 'sent'
                 and not (settled and cost = '{}')",
        )?
        .execute(params![account, id.as_str(), expired.micros()])
        .map(drop)
}

/// The id under which a charge can be made: one that was voided or taken back stays settled in the ledger and would cost
/// nothing, so that its next use takes the next of its kind.
pub fn valid_id(
    connection: &Connection,
    account: &str,
    id: &ChargeId,
) -> rusqlite::Result<ChargeId> {
    let mut statement = connection.prepare_cached(
        "select 1 from charge where account = ? and id = ? and (state = 'void' or (settled and cost = '{}'))",
    )?;
    let mut candidate = id.clone();
    for attempt in 1.. {
        if !statement.exists(params![account, candidate.as_str()])? {
            break;
        }
        candidate = id.again(attempt);
    }
    Ok(candidate)
}

fn is_asked(connection: &Connection, account: &str, id: &ChargeId) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("select 1 from charge where account = ? and id = ? and state = 'asked'")?
        .exists(params![account, id.as_str()])
}

fn begun(
    connection: &Connection,
    account: &str,
    id: ChargeId,
    now: Timestamp,
    window: Duration,
) -> rusqlite::Result<Begun> {
    let contact = contact(connection, account, now, window)?;
    let mut charges = connection.prepare_cached(
        "select exists (select 1 from charge where account = ?1 and (told = 0 or state = 'asked') and id != ?2)
             or exists (select 1 from closing where account = ?1 and told = 0)",
    )?;
    let pending = charges.query_row(params![account, id.as_str()], |row| row.get(0))?;
    let StoredContact {
        seen,
        recovering,
        wait_until,
        ..
    } = contact;
    Ok(Begun {
        id,
        seen,
        recovering,
        pending,
        wait_until,
        doubtful: false,
    })
}

/// What is written of the ledger.
#[derive(Debug, Clone)]
pub struct StoredContact {
    pub seen: Seen,
    /// The ledger's time.
    pub at: Timestamp,
    pub ahead: Duration,
    pub recovering: bool,
    pub wait_until: Timestamp,
}

impl Default for StoredContact {
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

impl StoredContact {
    /// Whether a ledger that stands so is the one that this machine is in step with.
    fn goes_on(&self, contact: &LedgerPosition) -> bool {
        !self.recovering && (self.seen.epoch.is_empty() || self.seen.epoch == contact.epoch)
    }
}

/// How long after a grant the ledger is there still, for certain: its keys live for 26 hours or for nine eighths of the
/// window, whichever is longer, and their lives are renewed when a sixteenth of the window has gone by
/// (`lua/common.lua`).
fn surely_kept(window: Duration) -> Duration {
    (window * 9 / 8)
        .max(Duration::from_secs(26 * 60 * 60))
        .saturating_sub(window / 16)
}

/// A charge of more than a window ago counts nowhere: a ledger that has forgotten it has lost nothing. One that has
/// forgotten everything has, while its keys should live.
pub fn contact(
    connection: &Connection,
    account: &str,
    now: Timestamp,
    window: Duration,
) -> rusqlite::Result<StoredContact> {
    let mut statement = connection.prepare_cached(
        "select epoch, sequence, newest, at, ahead, recovering, wait_until, newest_at from contact where account = ?",
    )?;
    let found = statement.query_row([account], |row| {
        let ahead = Duration::from_micros(row.get::<_, i64>(4)?.unsigned_abs());
        let newest_at = Timestamp::from_micros(row.get(7)?);
        let newest = row
            .get::<_, Option<String>>(2)?
            .filter(|_| newest_at + window > now + ahead);
        let stored = StoredContact {
            seen: Seen {
                epoch: row.get(0)?,
                sequence: row.get::<_, i64>(1)?.unsigned_abs(),
                newest: newest.map(ChargeId::new),
            },
            at: Timestamp::from_micros(row.get(3)?),
            ahead,
            recovering: row.get(5)?,
            wait_until: Timestamp::from_micros(row.get(6)?),
        };
        Ok(stored)
    });
    Ok(found
        .optional()?
        .filter(|stored| stored.at + surely_kept(window) > now)
        .unwrap_or_default())
}

fn mark(
    tx: &Transaction<'_>,
    account: &str,
    id: &ChargeId,
    granted: &Granted,
    now: Timestamp,
    window: Duration,
) -> rusqlite::Result<Marked> {
    let before = contact(tx, account, now, window)?;
    if !before.goes_on(&granted.contact) {
        return Ok(Marked::Void);
    }
    let mut statement = tx.prepare_cached(
        "update charge set state = 'sent', known = 1, at = case when state = 'asked' or ? then ? else at end
         where account = ? and id = ? and state in ('asked', 'sent') and not (settled and cost = '{}')",
    )?;
    if statement.execute(params![
        granted.fresh,
        granted.contact.at.micros(),
        account,
        id.as_str()
    ])? == 0
    {
        return Ok(Marked::Void);
    }
    // A repeat tells the time of the charge, which is not the ledger's now.
    let ahead = if granted.fresh {
        granted.contact.at.since(now)
    } else {
        before.ahead
    };
    note_contact(tx, account, &granted.contact, &before, ahead)?;
    if granted.fresh {
        note_newest(tx, account, id, &granted.contact, &before)?;
        note_said(tx, account, granted.contact.at, &granted.used)?;
        closings::granted(tx, account, granted, now)?;
    }
    Ok(Marked::MayBeSent)
}

fn note_contact(
    tx: &Transaction<'_>,
    account: &str,
    contact: &LedgerPosition,
    before: &StoredContact,
    ahead: Duration,
) -> rusqlite::Result<()> {
    let sequence = contact.sequence.max(before.seen.sequence);
    tx.prepare_cached(
        "insert into contact (account, epoch, sequence, at, ahead) values (?, ?, ?, ?, ?)
         on conflict do update set epoch = excluded.epoch, sequence = excluded.sequence, at = max(at, excluded.at),
             ahead = excluded.ahead, recovering = 0",
    )?
    .execute(params![
        account,
        contact.epoch,
        i64::try_from(sequence).unwrap_or(i64::MAX),
        contact.at.micros(),
        i64::try_from(ahead.as_micros()).unwrap_or(0)
    ])
    .map(drop)
}

/// Notes which ledger this machine is in step with.
pub fn note_ledger(
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

fn note_newest(
    tx: &Transaction<'_>,
    account: &str,
    id: &ChargeId,
    contact: &LedgerPosition,
    before: &StoredContact,
) -> rusqlite::Result<()> {
    if before.seen.newest.is_some() && contact.sequence <= before.seen.sequence {
        return Ok(());
    }
    tx.prepare_cached("update contact set newest = ?, newest_at = ? where account = ?")?
        .execute(params![id.as_str(), contact.at.micros(), account])
        .map(drop)
}

fn note_said(
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

pub fn void(connection: &Connection, account: &str, id: &ChargeId) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "update charge set state = 'void', cost = '{}', settled = 1, told = 0, version = version + 1
             where account = ? and id = ? and state = 'asked'",
        )?
        .execute(params![account, id.as_str()])
        .map(drop)
}
