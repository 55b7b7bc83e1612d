//! A machine that charges a shared ledger: a state directory of its own, and processes that share it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ingest_base::clock::{Clock, SystemClock};
use ingest_config::{AfterLoss, RedisUrl};
use ingest_ledger::redis::{RedisLedger, ServerTime};
use ingest_ledger::{
    Acquired, ChargeRequest, ClientError, Journal, LedgerClient, Permit, Policy, Purpose,
    ReadOnlyClient, SharedClient, SharedLedger,
};
use ingest_quota::{Account, ChargeId, Cost, Outage, Rejection, Timestamp, Units};
use tempfile::TempDir;

use ingest_testing::redis_server::ledger_config;

use super::{MAX_SKEW, TIMEOUT};
use crate::books::{cost, limit, secs};

/// Long enough that nothing leaves it while a test runs.
pub(crate) const WINDOW: Duration = secs(3600);

pub(crate) struct Machine {
    state: Arc<TempDir>,
    pub(crate) url: RedisUrl,
    pub(crate) timeout: Duration,
    pub(crate) policy: Policy,
}

impl Machine {
    pub(crate) fn new(url: RedisUrl) -> Self {
        let policy = Policy {
            unmetered_max: Units::new(5),
            after_loss: AfterLoss::Floor,
        };
        Self {
            state: Arc::new(tempfile::tempdir().unwrap()),
            url,
            timeout: TIMEOUT,
            policy,
        }
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.state.path().join("journal.db")
    }

    /// One more process on this machine.
    pub(crate) fn process(&self) -> Process {
        let ledger =
            Arc::new(RedisLedger::new(&self.url, &ledger_config(self.timeout, MAX_SKEW)).unwrap());
        self.process_over(ledger)
    }

    pub(crate) fn process_over(&self, ledger: Arc<dyn SharedLedger>) -> Process {
        self.process_by(ledger, Arc::new(SystemClock))
    }

    /// One more process, so much later for everybody.
    pub(crate) fn process_later(&self, span: Duration) -> Process {
        self.process_behind(span, Duration::ZERO)
    }

    /// One more process, so much later, whose clock is so far behind the ledger's.
    pub(crate) fn process_behind(&self, later: Duration, behind: Duration) -> Process {
        let ledger = RedisLedger::new(&self.url, &ledger_config(self.timeout, MAX_SKEW)).unwrap();
        let ledger = ledger.with_time(ServerTime::Told(Arc::new(Later(later))));
        self.process_by(Arc::new(ledger), Arc::new(Later(later - behind)))
    }

    /// One more process, whose clock is so far behind everybody's.
    pub(crate) fn process_earlier(&self, span: Duration) -> Process {
        let ledger = RedisLedger::new(&self.url, &ledger_config(self.timeout, MAX_SKEW)).unwrap();
        self.process_by(Arc::new(ledger), Arc::new(Earlier(span)))
    }

    fn process_by(&self, ledger: Arc<dyn SharedLedger>, clock: Arc<dyn Clock>) -> Process {
        let journal = Journal::open(&self.journal()).unwrap();
        let client = SharedClient::new(ledger, journal, self.policy, clock);
        Process(Box::new(client), Arc::clone(&self.state))
    }

    /// A process that only looks.
    pub(crate) fn watcher(&self) -> Process {
        let ledger =
            Arc::new(RedisLedger::new(&self.url, &ledger_config(self.timeout, MAX_SKEW)).unwrap());
        let journal = Journal::open_read_only(&self.journal()).unwrap();
        let client = ReadOnlyClient::new(ledger, journal, Arc::new(SystemClock));
        Process(Box::new(client), Arc::clone(&self.state))
    }
}

/// The system's clock, set forward.
struct Later(Duration);

#[async_trait]
impl Clock for Later {
    fn now(&self) -> Timestamp {
        SystemClock.now() + self.0
    }

    async fn sleep(&self, span: Duration) {
        SystemClock.sleep(span).await;
    }
}

/// The system's clock, set back.
struct Earlier(Duration);

#[async_trait]
impl Clock for Earlier {
    fn now(&self) -> Timestamp {
        SystemClock.now() - self.0
    }

    async fn sleep(&self, span: Duration) {
        SystemClock.sleep(span).await;
    }
}

pub(crate) struct Process(
    pub(crate) Box<dyn LedgerClient>,
    #[expect(
        dead_code,
        reason = "the journal must stay in place while the process works"
    )]
    Arc<TempDir>,
);

impl Process {
    pub(crate) async fn try_ask(
        &self,
        account: &Account,
        id: Option<&ChargeId>,
        units: u64,
        outage: Outage,
    ) -> Result<Acquired, ClientError> {
        let (cost, leave, purpose) = (cost([("daily", units)]), Cost::none(), Purpose::default());
        self.0
            .acquire(ChargeRequest {
                account,
                id,
                cost: &cost,
                leave: &leave,
                outage,
                purpose: &purpose,
            })
            .await
    }

    pub(crate) async fn ask(&self, account: &Account, units: u64) -> Acquired {
        self.try_ask(account, None, units, Outage::Refuse)
            .await
            .unwrap()
    }

    /// A charge of a cheap call.
    pub(crate) async fn ask_cheaply(&self, account: &Account, units: u64) -> Acquired {
        self.try_ask(account, None, units, Outage::Allow)
            .await
            .unwrap()
    }

    pub(crate) async fn take(&self, account: &Account, units: u64) -> Permit {
        permit(self.ask(account, units).await)
    }

    pub(crate) async fn take_unmetered(&self, account: &Account, units: u64) -> Permit {
        let permit = permit(self.ask_cheaply(account, units).await);
        assert!(!permit.metered, "the ledger was not away");
        permit
    }

    /// How many units are granted, one after another, until no more are.
    pub(crate) async fn drain(&self, account: &Account) -> u64 {
        let mut granted = 0;
        while let Acquired::Permitted(_) = self.ask(account, 1).await {
            granted += 1;
        }
        granted
    }

    pub(crate) async fn used(&self, account: &Account) -> u64 {
        self.0
            .usage(account)
            .await
            .unwrap()
            .iter()
            .find(|usage| usage.limit == "daily")
            .unwrap()
            .used
            .get()
    }
}

/// An account of one limit.
pub(crate) fn account(quota: u64) -> Account {
    crate::books::account([("daily", limit(quota, Some(WINDOW), None))])
}

pub(crate) fn permit(verdict: Acquired) -> Permit {
    match verdict {
        Acquired::Permitted(permit) => permit,
        other => panic!("expected a permit, got {other:?}"),
    }
}

pub(crate) fn rejection(verdict: Acquired) -> Rejection {
    match verdict {
        Acquired::Rejected(rejection) => rejection,
        other => panic!("expected a rejection, got {other:?}"),
    }
}

pub(crate) fn refusal(verdict: Acquired) -> String {
    match verdict {
        Acquired::Refused(why) => why,
        other => panic!("expected a refusal, got {other:?}"),
    }
}
