//! Why the window slides: a counter that is reset on the minute lets twice its limit through around the full minute.
//! `cargo run --release --example boundary`
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;
use ingest::ledger::{Charge, Ledger, Purpose, SqliteLedger};
use ingest::quota::{Account, ChargeId, Cost, Decision, Limit, Timestamp, Units, Window};

/// Units a minute.
const LIMIT: u64 = 50;
const MINUTE: Duration = Duration::from_secs(60);

/// What was let through in the last second of one minute, and in the first of the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LetThrough {
    /// In the last second of the minute.
    pub before: u64,
    /// In the first second of the next.
    pub after: u64,
}

/// A counter that begins anew with each minute.
pub fn fixed_window() -> LetThrough {
    let mut counts = std::collections::HashMap::<i64, u64>::new();
    let [before, after] = bursts().map(|at| {
        let count = counts.entry(at.micros() / 60_000_000).or_default();
        (0..LIMIT)
            .filter(|_| {
                *count < LIMIT && {
                    *count += 1;
                    true
                }
            })
            .count() as u64
    });
    LetThrough { before, after }
}

/// A ledger, asked at the same moments.
pub async fn sliding_window(ledger: &dyn Ledger) -> LetThrough {
    let window = Window::new(Some(MINUTE), None).unwrap();
    let limit = Limit::new(Units::new(LIMIT), Units::ZERO, window).unwrap();
    let account = Account {
        name: "boundary".to_owned(),
        limits: [("minute".to_owned(), limit)].into(),
    };
    let [before, after] = bursts();
    LetThrough {
        before: burst(ledger, &account, before).await,
        after: burst(ledger, &account, after).await,
    }
}

async fn burst(ledger: &dyn Ledger, account: &Account, at: Timestamp) -> u64 {
    let mut granted = 0;
    for nth in 0..LIMIT {
        let id = ChargeId::new(format!("{at}-{nth}"));
        granted += u64::from(charge(ledger, account, &id, at).await);
    }
    granted
}

async fn charge(ledger: &dyn Ledger, account: &Account, id: &ChargeId, at: Timestamp) -> bool {
    let cost: Cost = [("minute".to_owned(), Units::new(1))].into_iter().collect();
    let (leave, purpose) = (Cost::none(), Purpose::default());
    let charge = Charge {
        account,
        id,
        cost: &cost,
        leave: &leave,
        purpose: &purpose,
    };
    matches!(
        ledger.charge(charge, at).await.unwrap(),
        Decision::Granted(_)
    )
}

fn bursts() -> [Timestamp; 2] {
    ["2026-06-10T11:59:59Z", "2026-06-10T12:00:00Z"].map(|time| Timestamp::parse(time).unwrap())
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let directory = tempfile::tempdir().unwrap();
    let ledger = SqliteLedger::open(&directory.path().join("ledger.db")).unwrap();
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header([
        &format!("{LIMIT} units a minute"),
        "at 11:59:59",
        "at 12:00:00",
        "within two seconds",
    ]);
    for (name, let_through) in [
        ("a fixed window", fixed_window()),
        ("ingest", sliding_window(&ledger).await),
    ] {
        let LetThrough { before, after } = let_through;
        table.add_row([
            name.to_owned(),
            before.to_string(),
            after.to_string(),
            (before + after).to_string(),
        ]);
    }
    println!("{table}");
}
