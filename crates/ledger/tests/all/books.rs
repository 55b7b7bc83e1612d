//! Short words for what every test of a ledger says: accounts, costs, instants, and charges made in one line.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use chrono_tz::Tz;
use ingest_ledger::{Charge, Ledger, Purpose};
use ingest_quota::{
    Account, Calendar, ChargeId, Closing, Cost, Decision, Entry, Floor, Grant, Limit, LimitUsage,
    Origin, Rejection, Timestamp, Units, Window,
};

/// The grace of windows up to 100 seconds.
pub(crate) const GRACE: Duration = Duration::from_millis(100);
pub(crate) const MICROSECOND: Duration = Duration::from_micros(1);
pub(crate) const LOS_ANGELES: Tz = chrono_tz::America::Los_Angeles;

/// An instant in the first minutes of an afternoon in Los Angeles, with microseconds that no float would keep.
pub(crate) fn at(seconds: f64) -> Timestamp {
    let start = time("2026-06-10T20:00:00.123457Z");
    Timestamp::from_micros(start.micros() + (seconds * 1e6).round() as i64)
}

pub(crate) fn time(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

pub(crate) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) fn id(text: &str) -> ChargeId {
    ChargeId::new(text)
}

fn fresh(what: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!(
        "{what}-{}-{}",
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    )
}

pub(crate) fn fresh_id() -> ChargeId {
    ChargeId::new(fresh("id"))
}

/// Units by limit.
pub(crate) fn cost<const N: usize>(components: [(&str, u64); N]) -> Cost {
    components
        .into_iter()
        .map(|(limit, units)| (limit.to_owned(), Units::new(units)))
        .collect()
}

/// A limit that lets `quota` through in any `window`.
pub(crate) fn sliding(quota: u64, window: Duration) -> Limit {
    limit(quota, Some(window), None)
}

/// A limit that lets `quota` through in each day of Los Angeles.
pub(crate) fn daily(quota: u64) -> Limit {
    limit(quota, None, Some(LOS_ANGELES))
}

pub(crate) fn limit(quota: u64, window: Option<Duration>, resets: Option<Tz>) -> Limit {
    Limit::new(
        Units::new(quota),
        Units::ZERO,
        Window::new(window, resets.map(Calendar::days)).unwrap(),
    )
    .unwrap()
}

/// An account that no other test has.
pub(crate) fn account<const N: usize>(limits: [(&str, Limit); N]) -> Account {
    let limits = limits
        .into_iter()
        .map(|(name, limit)| (name.to_owned(), limit))
        .collect();
    Account {
        name: fresh("account"),
        limits,
    }
}

pub(crate) fn entry(id: &ChargeId, at: Timestamp, cost: Cost) -> Entry {
    Entry {
        origin: Origin::CarriedOver,
        id: id.clone(),
        at,
        cost,
    }
}

pub(crate) fn floor(limit: &str, at: Timestamp, used: u64) -> Floor {
    Floor {
        limit: limit.to_owned(),
        at,
        used: Units::new(used),
    }
}

/// One account in one ledger.
#[derive(Clone)]
pub(crate) struct Books {
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) account: Account,
}

impl Books {
    pub(crate) fn new(ledger: Arc<dyn Ledger>, account: Account) -> Self {
        Self { ledger, account }
    }

    /// A charge with everything said.
    pub(crate) async fn decide(
        &self,
        id: &ChargeId,
        cost: &Cost,
        leave: &Cost,
        now: Timestamp,
    ) -> Decision {
        let purpose = Purpose {
            job: Some("trending".into()),
            region: Some("US".into()),
            call: "videos.list".into(),
        };
        let charge = Charge {
            account: &self.account,
            id,
            cost,
            leave,
            purpose: &purpose,
        };
        self.ledger.charge(charge, now).await.unwrap()
    }

    /// A charge under a fresh id that leaves nothing.
    pub(crate) async fn charge(&self, cost: &Cost, now: Timestamp) -> Decision {
        self.decide(&fresh_id(), cost, &Cost::none(), now).await
    }

    /// A charge under an id that is granted, or the test fails.
    pub(crate) async fn take_as(&self, id: &ChargeId, cost: &Cost, now: Timestamp) -> Grant {
        match self.decide(id, cost, &Cost::none(), now).await {
            Decision::Granted(grant) => grant,
            other => panic!("expected a grant at {now}, got {other:?}"),
        }
    }

    /// A charge that is granted, or the test fails.
    pub(crate) async fn take(&self, cost: &Cost, now: Timestamp) -> Grant {
        self.take_as(&fresh_id(), cost, now).await
    }

    /// A charge that is rejected, or the test fails.
    pub(crate) async fn reject(&self, cost: &Cost, now: Timestamp) -> Rejection {
        self.reject_leaving(cost, &Cost::none(), now).await
    }

    pub(crate) async fn reject_leaving(
        &self,
        cost: &Cost,
        leave: &Cost,
        now: Timestamp,
    ) -> Rejection {
        match self.decide(&fresh_id(), cost, leave, now).await {
            Decision::Rejected(rejection) => rejection,
            other => panic!("expected a rejection at {now}, got {other:?}"),
        }
    }

    pub(crate) async fn settle(&self, id: &ChargeId, cost: &Cost, now: Timestamp) {
        self.ledger
            .settle(&self.account, id, cost, now)
            .await
            .unwrap();
    }

    pub(crate) async fn absorb(&self, entries: &[Entry], floors: &[Floor], now: Timestamp) {
        self.ledger
            .absorb(&self.account, entries, floors, now)
            .await
            .unwrap();
    }

    pub(crate) async fn close(&self, limit: &str, closing: Closing, now: Timestamp) {
        self.ledger
            .close(&self.account, limit, closing, now)
            .await
            .unwrap();
    }

    pub(crate) async fn reopen(&self, limit: &str, now: Timestamp) {
        self.ledger.reopen(&self.account, limit, now).await.unwrap();
    }

    pub(crate) async fn usage(&self, now: Timestamp) -> Vec<LimitUsage> {
        self.ledger.usage(&self.account, now).await.unwrap()
    }

    /// How one limit stands.
    pub(crate) async fn standing(&self, limit: &str, now: Timestamp) -> LimitUsage {
        self.usage(now)
            .await
            .into_iter()
            .find(|usage| usage.limit == limit)
            .unwrap()
    }

    /// What counts against one limit, in units.
    pub(crate) async fn used(&self, limit: &str, now: Timestamp) -> u64 {
        self.standing(limit, now).await.used.get()
    }
}
