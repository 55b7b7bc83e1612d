//! One account in one ledger, with a number of charges in its window.

use std::time::{Duration, Instant};

use ingest_base::clock::{Clock as _, SystemClock};
use ingest_ledger::redis::{RedisLedger, ServerTime};
use ingest_ledger::{
    Ack, Charge, ChargeReply, Ledger, Purpose, Seen, SharedLedger, SqliteLedger, Update, fresh_id,
};
use ingest_quota::{Account, Cost, Decision, Entry, Limit, Origin, Timestamp, Units, Window};
use ingest_testing::redis_server::{RedisServer, ledger_config};
use tempfile::TempDir;

pub(crate) const DAY: Duration = Duration::from_secs(24 * 3600);

/// What the next charge finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// It fits, whatever was charged before.
    Free,
    /// There is none.
    None,
}

/// The clock by which a Redis counts.
#[derive(Clone, Copy)]
pub(crate) enum Clock {
    /// Its own, as in production.
    Server,
    /// The caller's, which moves by days.
    Told,
}

/// A ledger, charged as a run does.
pub(crate) enum Store {
    /// With the directory that it is in.
    File(
        SqliteLedger,
        #[allow(dead_code, reason = "it is removed at the end")] TempDir,
    ),
    /// With what the machine has seen of it, its newest charge among it.
    Redis(Box<RedisLedger>, Seen),
}

impl Store {
    pub(crate) fn file() -> Self {
        let directory = TempDir::new().unwrap();
        let ledger = SqliteLedger::open(&directory.path().join("ledger.db")).unwrap();
        Self::File(ledger, directory)
    }

    pub(crate) fn redis(server: &RedisServer, clock: Clock) -> Self {
        let config = ledger_config(Duration::from_secs(60), Duration::from_secs(300));
        let ledger = RedisLedger::new(&server.url(), &config).unwrap();
        let ledger = match clock {
            Clock::Server => ledger,
            Clock::Told => ledger.with_time(ServerTime::Callers),
        };
        Self::Redis(ledger.into(), Seen::default())
    }

    /// Whether a charge is granted.
    async fn grants(&mut self, charge: Charge<'_>, now: Timestamp) -> bool {
        match self {
            Self::File(ledger, _) => {
                let decision = ledger.charge(charge, now).await.unwrap();
                matches!(decision, Decision::Granted(_))
            }
            Self::Redis(ledger, seen) => {
                let id = charge.id.clone();
                match ledger.charge(charge, Some(seen), now).await.unwrap() {
                    ChargeReply::Granted(granted) => {
                        *seen = Seen {
                            epoch: granted.position.epoch,
                            sequence: granted.position.sequence,
                            newest: Some(id),
                        };
                        true
                    }
                    ChargeReply::Rejected { .. } => false,
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    async fn absorb(&mut self, account: &Account, entries: &[Entry], now: Timestamp) {
        match self {
            Self::File(ledger, _) => ledger.absorb(account, entries, &[], now).await.unwrap(),
            Self::Redis(ledger, seen) => {
                let update = Update::Absorb(entries);
                let updated = ledger.update(account, update, Some(seen), now).await;
                let Ack::Recorded { position, .. } = updated.unwrap() else {
                    panic!("the ledger was lost");
                };
                *seen = Seen {
                    epoch: position.epoch,
                    sequence: position.sequence,
                    newest: entries.last().map(|entry| entry.id.clone()),
                };
            }
        }
    }
}

pub(crate) struct Books {
    store: Store,
    account: Account,
    cost: Cost,
    room: Room,
    now: Timestamp,
    step: Duration,
}

impl Books {
    /// An account with `fill` charges of `cost` units in its window of a day.
    pub(crate) async fn filled(mut store: Store, fill: u32, cost: u64, room: Room) -> Self {
        let quota = match room {
            Room::Free => u64::from(u32::MAX) * 1000,
            Room::None => (u64::from(fill) * cost).max(cost),
        };
        let window = Window::new(Some(DAY), None).unwrap();
        let limit = Limit::new(quota.into(), Units::ZERO, window).unwrap();
        let account = Account {
            name: format!("bench-{}", fresh_id()),
            limits: [("daily".to_owned(), limit)].into(),
        };
        let cost = Cost::from_iter([("daily".to_owned(), Units::new(cost))]);
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
            store.absorb(&account, entries, now).await;
        }
        // A window that is to stay empty is left behind after each charge.
        let step = if fill == 0 && room == Room::Free {
            2 * DAY
        } else {
            Duration::from_micros(10)
        };
        Self {
            store,
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
        let purpose = Purpose {
            job: Some("trending".into()),
            region: Some("US".into()),
            call: "videos.list".into(),
        };
        let charge = Charge {
            account: &self.account,
            id: &fresh_id(),
            cost: &self.cost,
            leave: &Cost::none(),
            purpose: &purpose,
        };
        let began = Instant::now();
        let is_granted = self.store.grants(charge, self.now).await;
        let took = began.elapsed();
        assert_eq!(is_granted, self.room == Room::Free);
        took
    }
}
