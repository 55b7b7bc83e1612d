//! Which ledger each account is charged in. Machines that share a catalog, and charge ledgers of their own, would spend a quota
//! once each.

use tokio_postgres::Row;

use super::connection::{Postgres, text};
use super::error::PostgresError;
use crate::Holder;

pub const TABLE: &str = "
create table account_ledger (
    account text collate \"C\" primary key,
    ledger text collate \"C\" not null,
    machine text not null,
    since timestamptz not null
);
";

const RECORDED: &str = "select ledger, machine from account_ledger where account = $1";
const RECORD: &str = "insert into account_ledger (account, ledger, machine, since)
    values ($1, $2, $3, clock_timestamp()) on conflict (account) do nothing";
const REPLACE: &str =
    "update account_ledger set ledger = $2, machine = $3, since = clock_timestamp()
    where account = $1 and ledger = $4";

/// The ledger in which an account is charged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedLedger {
    /// Its identity.
    pub ledger: String,
    /// The machine that recorded it.
    pub machine: String,
}

/// Returns the ledger that is recorded of an account.
///
/// # Errors
/// The statement failed.
pub async fn recorded(
    postgres: &Postgres,
    account: &str,
) -> Result<Option<RecordedLedger>, PostgresError> {
    found(postgres.query(RECORDED, &[text(&account)]).await?)
}

fn found(rows: Vec<Row>) -> Result<Option<RecordedLedger>, PostgresError> {
    let row = rows.into_iter().next();
    row.map(|row| {
        Ok(RecordedLedger {
            ledger: row.try_get(0)?,
            machine: row.try_get(1)?,
        })
    })
    .transpose()
}

/// Records the ledger of an account, unless one is recorded. Returns the one that is.
///
/// # Errors
/// A statement failed.
pub async fn record(
    postgres: &Postgres,
    account: &str,
    ledger: &str,
) -> Result<RecordedLedger, PostgresError> {
    if let Some(recorded) = recorded(postgres, account).await? {
        return Ok(recorded);
    }
    let machine = Holder::this_process().machine;
    let mut session = postgres.session().await?;
    let transaction = session.begin().await?;
    let row = [text(&account), text(&ledger), text(&machine)];
    transaction.execute(RECORD, &row).await?;
    let recorded = found(transaction.query(RECORDED, &[text(&account)]).await?)?;
    transaction.commit().await?;
    recorded.ok_or_else(|| PostgresError::Unusable("an account's ledger vanished".to_owned()))
}

/// Records another ledger of an account in place of `former`, if that is still recorded.
///
/// # Errors
/// The statement failed.
pub async fn replace(
    postgres: &Postgres,
    account: &str,
    ledger: &str,
    former: &str,
) -> Result<(), PostgresError> {
    let machine = Holder::this_process().machine;
    let mut session = postgres.session().await?;
    let transaction = session.begin().await?;
    let row = [text(&account), text(&ledger), text(&machine), text(&former)];
    transaction.execute(REPLACE, &row).await?;
    transaction.commit().await
}
