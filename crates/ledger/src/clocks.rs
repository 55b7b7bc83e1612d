//! The clocks of this machine, of the catalog's database and of the ledger: which of them is wrong.

use std::time::Duration;

use super::redis::inspect;
use ingest_base::clock::{Clock, CorrectedClock, SystemClock};
use ingest_config::LedgerConfig;
use ingest_quota::Timestamp;

/// Clocks that are this close are taken for right.
const CLOSE: Duration = Duration::from_secs(60);
/// How long a comparison holds.
const HOLDS: Duration = Duration::from_secs(60);

/// What the clock of the catalog's database said.
#[derive(Debug)]
pub struct Told<'a> {
    /// The database, as messages name it.
    pub by: &'a str,
    /// What it said.
    pub at: Timestamp,
    /// How long the answer took.
    pub took: Duration,
}

/// Whether the clock was compared so long ago that it has to be again.
#[must_use]
pub fn is_due(clock: &CorrectedClock) -> bool {
    clock
        .checked()
        .is_none_or(|checked| checked.elapsed() >= HOLDS)
}

/// Compares this machine's clock with the database's, and corrects it if the ledger does not agree with it.
pub async fn compare(clock: &CorrectedClock, told: &Told<'_>, ledger: &LedgerConfig) {
    // The server read its clock somewhere within the exchange; the middle is wrong by half of it at most.
    let (own, theirs) = (SystemClock.now(), told.at + told.took / 2);
    let apart = own.since(theirs).max(theirs.since(own));
    // A slow answer makes the comparison less exact, and a clock is corrected only where it is surely wrong.
    if apart <= CLOSE + told.took {
        return clock.correct(None);
    }
    let (apart_shown, shown) = (shown(apart), told.by);
    if agrees(ledger, own, apart).await {
        tracing::warn!(
            "the clock of the catalog's database ({shown}) is {apart_shown} off, by those of this machine and of the \
            ledger; set it right"
        );
        return clock.correct(None);
    }
    let way = if own > theirs { "ahead of" } else { "behind" };
    tracing::warn!(
        "this machine's clock is {apart_shown} {way} that of the catalog's database ({shown}); this command goes by the \
        database's; set this machine's clock right"
    );
    clock.correct(Some(theirs));
}

/// Whether a shared ledger's clock is nearer to this machine's clock, `own`, than to the database's, which is `apart` from it.
async fn agrees(ledger: &LedgerConfig, own: Timestamp, apart: Duration) -> bool {
    let Some(url) = ledger.store.redis() else {
        return false;
    };
    // Within half of the difference, its clock is nearer to this machine's.
    let is_near = |skew| skew <= apart / 2;
    let found = inspect(url, ledger, own).await;
    found.is_ok_and(|fitness| fitness.skew.is_none_or(is_near))
}

fn shown(span: Duration) -> String {
    let minutes = (span.as_secs() + 30) / 60;
    humantime::format_duration(Duration::from_secs(minutes * 60)).to_string()
}
