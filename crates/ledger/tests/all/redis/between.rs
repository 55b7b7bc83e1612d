//! What happens between two steps of one charge: after the ledger granted it, and before the journal marks it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use ingest_ledger::redis::RedisLedger;
use ingest_ledger::{
    Ack, Acquired, Charge, ChargeReply, LedgerError, Seen, SharedLedger, Update, UsageReply,
};
use ingest_quota::{Account, ChargeId, Closing, Cost, Timestamp, Units};

use tokio::sync::oneshot;

use super::machine::{Machine, Process, account, refusal, rejection};
use super::{MAX_SKEW, TIMEOUT};
use ingest_testing::redis_server::{RedisServer, ledger_config, url};

type Happening = BoxFuture<'static, ()>;

/// A ledger after whose next grant something happens, before anybody hears of the grant.
struct Interposed {
    inner: RedisLedger,
    happening: Mutex<Option<Happening>>,
    /// Loses everything as soon as it was told, this often, and how often it was told again what it had lost.
    forgets: Option<(Arc<RedisServer>, Arc<AtomicU32>, u32)>,
    /// How much longer than it takes anybody waits for its answers.
    late: Duration,
}

impl Interposed {
    fn over(machine: &Machine) -> Self {
        let config = ledger_config(TIMEOUT, MAX_SKEW);
        Self {
            inner: RedisLedger::new(&machine.url, &config).unwrap(),
            happening: Mutex::new(None),
            forgets: None,
            late: Duration::ZERO,
        }
    }

    fn process(machine: &Machine, happening: Happening) -> Process {
        let happening = Mutex::new(Some(happening));
        machine.process_over(Arc::new(Self {
            happening,
            ..Self::over(machine)
        }))
    }

    fn forgetful(
        machine: &Machine,
        server: &Arc<RedisServer>,
        recoveries: &Arc<AtomicU32>,
        times: u32,
    ) -> Process {
        let forgets = Some((Arc::clone(server), Arc::clone(recoveries), times));
        machine.process_over(Arc::new(Self {
            forgets,
            ..Self::over(machine)
        }))
    }
}

#[async_trait]
impl SharedLedger for Interposed {
    async fn charge(
        &self,
        charge: Charge<'_>,
        seen: Option<&Seen>,
        now: Timestamp,
    ) -> Result<ChargeReply, LedgerError> {
        let answer = self.inner.charge(charge, seen, now).await;
        let happening = self.happening.lock().unwrap().take();
        if let Some(happening) = happening {
            happening.await;
        }
        tokio::time::sleep(self.late).await;
        answer
    }

    async fn update(
        &self,
        account: &Account,
        update: Update<'_>,
        seen: Option<&Seen>,
        now: Timestamp,
    ) -> Result<Ack, LedgerError> {
        let heard = self.inner.update(account, update, seen, now).await;
        if let Some((server, recoveries, times)) = &self.forgets {
            if recoveries.load(Ordering::Relaxed) < *times {
                server.tell("FLUSHALL");
            }
            recoveries.fetch_add(
                u32::from(matches!(update, Update::Recover(..))),
                Ordering::Relaxed,
            );
        }
        heard
    }

    async fn usage(
        &self,
        account: &Account,
        seen: Option<&Seen>,
        charges: &[ChargeId],
        now: Timestamp,
    ) -> Result<UsageReply, LedgerError> {
        self.inner.usage(account, seen, charges, now).await
    }

    async fn falls_to(
        &self,
        account: &Account,
        limit: &str,
        most: Units,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, LedgerError> {
        self.inner.falls_to(account, limit, most, now).await
    }
}

/// A process whose ledger answers this late.
pub(super) fn late(machine: &Machine, late: Duration) -> Process {
    machine.process_over(Arc::new(Interposed {
        late,
        ..Interposed::over(machine)
    }))
}

/// Everything is flushed, and another process of the machine finds that out.
fn lost_and_found(server: &Arc<RedisServer>, machine: &Machine, account: &Account) -> Happening {
    let (server, mate, account) = (Arc::clone(server), machine.process(), account.clone());
    Box::pin(async move {
        server.tell("FLUSHALL");
        mate.take(&account, 1).await;
    })
}

#[tokio::test]
async fn a_grant_of_a_ledger_that_was_lost_meanwhile_is_charged_anew() {
    let server = Arc::new(RedisServer::start());
    let (machine, account) = (Machine::new(server.url()), account(10));
    machine.process().take(&account, 1).await;
    let process = Interposed::process(&machine, lost_and_found(&server, &machine, &account));
    process.take(&account, 1).await;
    let other = Machine::new(server.url());
    assert_eq!(
        other.process().used(&account).await,
        3,
        "for other machines, before this one does anything more"
    );
    assert_eq!(process.drain(&account).await, 7);
}

#[tokio::test]
async fn the_first_grant_of_a_ledger_that_was_lost_meanwhile_is_charged_anew() {
    let server = Arc::new(RedisServer::start());
    let (machine, account) = (Machine::new(server.url()), account(10));
    let process = Interposed::process(&machine, lost_and_found(&server, &machine, &account));
    process.take(&account, 1).await;
    let other = Machine::new(server.url());
    assert_eq!(
        other.process().used(&account).await,
        2,
        "for other machines, before this one does anything more"
    );
}

#[tokio::test]
async fn a_grant_of_a_ledger_that_was_lost_unnoticed_is_told_by_the_next_charge() {
    let server = Arc::new(RedisServer::start());
    let (machine, account) = (Machine::new(server.url()), account(10));
    let flushed = Arc::clone(&server);
    let process = Interposed::process(&machine, Box::pin(async move { flushed.tell("FLUSHALL") }));
    process.take(&account, 4).await;
    assert_eq!(process.drain(&account).await, 6);
}

#[tokio::test]
async fn a_charge_whose_process_died_before_it_was_marked_is_settled_to_nothing() {
    let server = RedisServer::start();
    let (machine, account) = (Machine::new(server.url()), account(10));
    let dying = Interposed::process(&machine, Box::pin(std::future::pending()));
    let asked = tokio::time::timeout(
        std::time::Duration::from_millis(300),
        dying.ask(&account, 4),
    )
    .await;
    assert!(asked.is_err());
    // Its journal row names a process that is no more.
    let journal = rusqlite::Connection::open(machine.journal()).unwrap();
    assert_eq!(
        journal
            .execute(
                "update charge set owner = 2147483647 where state = 'asked'",
                []
            )
            .unwrap(),
        1
    );
    assert_eq!(machine.process().drain(&account).await, 10);
}

#[tokio::test]
async fn a_limit_that_is_reopened_while_somebody_hears_that_it_is_closed_stays_open() {
    let server = RedisServer::start();
    let (machine, account) = (Machine::new(server.url()), account(10));
    machine
        .process()
        .0
        .close(&account, "daily", Closing::Probing)
        .await
        .unwrap();
    let nowhere = url("redis://127.0.0.1:1");
    let ledger = RedisLedger::new(&nowhere, &ledger_config(TIMEOUT, MAX_SKEW)).unwrap();
    let cut_off = machine.process_over(Arc::new(ledger));
    let reopened = account.clone();
    let process = Interposed::process(
        &machine,
        Box::pin(async move { cut_off.0.reopen(&reopened, "daily").await.unwrap() }),
    );
    rejection(process.ask(&account, 1).await);
    assert_eq!(machine.process().drain(&account).await, 10);
}

#[tokio::test]
async fn a_ledger_that_forgets_everything_at_once_is_away_soon() {
    let server = Arc::new(RedisServer::start());
    let (machine, account) = (Machine::new(server.url()), account(10));
    let permit = machine.process().take(&account, 1).await;
    let recoveries = Arc::new(AtomicU32::new(0));
    let forgetful = || {
        server.tell("FLUSHALL");
        recoveries.store(0, Ordering::Relaxed);
        Interposed::forgetful(&machine, &server, &recoveries, u32::MAX)
    };
    let why = refusal(forgetful().ask(&account, 1).await);
    assert!(why.contains("lost its data several times"), "{why}");
    assert!(recoveries.load(Ordering::Relaxed) <= 3, "{recoveries:?}");
    forgetful()
        .0
        .settle(&account, &permit.id, &Cost::none())
        .await
        .unwrap();
    assert!(recoveries.load(Ordering::Relaxed) <= 3, "{recoveries:?}");
    refusal(forgetful().ask(&account, 1).await);
    assert!(recoveries.load(Ordering::Relaxed) <= 3, "{recoveries:?}");
    assert_eq!(
        machine.process().drain(&account).await,
        9,
        "it had said that one is used"
    );
}

#[tokio::test]
async fn what_is_told_in_several_batches_is_told_again_where_the_first_was_lost_before_the_second()
{
    let server = Arc::new(RedisServer::start());
    let (machine, account) = (Machine::new(server.url()), account(300));
    let process = machine.process();
    for _ in 0..250 {
        process.take(&account, 1).await;
    }
    server.tell("FLUSHALL");
    let recoveries = Arc::new(AtomicU32::new(0));
    let process = Interposed::forgetful(&machine, &server, &recoveries, 1);
    assert_eq!(process.drain(&account).await, 50);
    assert_eq!(machine.process().used(&account).await, 300);
}

#[tokio::test]
async fn tasks_that_find_a_loss_together_tell_it_once_and_void_no_grant_of_one_another() {
    let server = Arc::new(RedisServer::start());
    let (machine, account) = (Machine::new(server.url()), account(300));
    machine.process().take(&account, 10).await;
    server.tell("FLUSHALL");
    let recoveries = Arc::new(AtomicU32::new(0));
    let process = Interposed::forgetful(&machine, &server, &recoveries, 0);
    futures_util::future::join_all((0..32).map(|_| process.take(&account, 1))).await;
    assert_eq!(recoveries.load(Ordering::Relaxed), 1);
    assert_eq!(machine.process().used(&account).await, 42);
}

#[tokio::test]
async fn of_two_first_charges_around_a_loss_none_is_forgotten() {
    let server = Arc::new(RedisServer::start());
    let (machine, account) = (Machine::new(server.url()), account(5));
    let (flushed, was_flushed) = oneshot::channel();
    let (charged, was_charged) = oneshot::channel();
    let (resume, resumed) = oneshot::channel::<()>();
    let first = Interposed::process(&machine, {
        let server = Arc::clone(&server);
        Box::pin(async move {
            server.tell("FLUSHALL");
            flushed.send(()).unwrap();
            was_charged.await.unwrap();
        })
    });
    let second = Interposed::process(
        &machine,
        Box::pin(async move {
            charged.send(()).unwrap();
            resumed.await.unwrap();
        }),
    );
    let first = async {
        let first = first.ask(&account, 3).await;
        machine.process().ask(&account, 1).await;
        resume.send(()).unwrap();
        first
    };
    let second = async {
        was_flushed.await.unwrap();
        second.ask(&account, 3).await
    };
    let (first, second) = tokio::join!(first, second);
    let both = [first, second];
    let sent = both
        .iter()
        .filter(|verdict| matches!(verdict, Acquired::Permitted(_)));
    assert_eq!(sent.count(), 1, "3 and 3 of 5 are permitted: {both:?}");
}
