//! One account in one ledger, with a number of charges in its window.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ingest_base::clock::{Clock, SystemClock};
use ingest_ledger::{Charge, Ledger, Purpose, fresh_id};
use ingest_quota::{Account, Cost, Decision, Entry, Limit, Origin, Timestamp, Units, Window};
use uuid::Uuid;

pub(crate) const DAY: Duration = Duration::from_secs(24 * 3600);

/// What the next charge finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// It fits, whatever was charged before.
    Free,
    /// There is none.
    None,
}

pub(crate) struct Books {
    ledger: Arc<dyn Ledger>,
    account: Account,
    cost: Cost,
    room: Room,
    now: Timestamp,
    step: Duration,
}

impl Books {
    /// An account with `fill` charges of `cost` units in its window of a day.
    pub(crate) async fn filled(ledger: Arc<dyn Ledger>, fill: u32, cost: u64, room: Room) -> Self {
        let quota = match room {
            Room::Free => u64::from(u32::MAX) * 1000,
            Room::None => (u64::from(fill) * cost).max(cost),
        };
        let limit = Limit::new(
            quota.into(),
            Units::ZERO,
            Window::new(Some(DAY), None).unwrap(),
        )
        .unwrap();
        let account = Account {
            name: format!("bench-{}", Uuid::now_v7().simple()),
            limits: [("daily".to_owned(), limit)].into(),
        };
        let cost: Cost = [("daily".to_owned(), Units::new(cost))]
            .into_iter()
            .collect();
        let now = SystemClock.now();
        // None of them leaves the window while it is measured.
        let start = now - DAY / 2;
        let entries: Vec<_> = (0..fill)
            .map(|nth| Entry {
                origin: Origin::CarriedOver,
                id: fresh_id(),
                at: start + DAY / 2 / fill.max(1) * nth,
                cost: cost.clone(),
            })
            .collect();
        for entries in entries.chunks(1000) {
            ledger.absorb(&account, entries, &[], now).await.unwrap();
        }
        // A window that is to stay empty is left behind after each charge.
        let step = if fill == 0 && room == Room::Free {
            2 * DAY
        } else {
            Duration::from_micros(10)
        };
        Self {
            ledger,
            account,
            cost,
            room,
            now,
            step,
        }
    }

    /// The same, with so much time between two charges.
    pub(crate) fn every(self, step: Duration) -> Self {
        Self { step, ..self }
    }

    /// How long one charge takes.
    pub(crate) async fn charge(&mut self) -> Duration {
        self.now += self.step;
        let (took, decision) =
            timed_charge(&*self.ledger, &self.account, &self.cost, self.now).await;
        assert_eq!(
            matches!(decision, Decision::Granted(_)),
            self.room == Room::Free,
            "{decision:?}"
        );
        took
    }
}

/// How long one charge takes, and its decision.
pub(crate) async fn timed_charge(
    ledger: &dyn Ledger,
    account: &Account,
    cost: &Cost,
    now: Timestamp,
) -> (Duration, Decision) {
    let (id, purpose) = (
        fresh_id(),
        Purpose {
            job: Some("trending".into()),
            region: Some("US".into()),
            call: "videos.list".into(),
        },
    );
    let charge = Charge {
        account,
        id: &id,
        cost,
        leave: &Cost::none(),
        purpose: &purpose,
    };
    let began = Instant::now();
    let decision = ledger.charge(charge, now).await.unwrap();
    (began.elapsed(), decision)
}
