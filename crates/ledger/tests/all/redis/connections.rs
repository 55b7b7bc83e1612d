//! Everything that a connection can do instead of answering.

use std::sync::Arc;
use std::time::Duration;

use ingest_base::clock::Clock;
use ingest_ledger::redis::{RedisLedger, ServerTime};
use ingest_ledger::{Acquired, ClientError, LedgerError};
use ingest_quota::{Account, Outage, Timestamp};

use super::machine::{Machine, Process, WINDOW, account, refusal};
use super::stored::{key, stored, whole};
use super::{MAX_SKEW, TIMEOUT};
use ingest_testing::parrot::Parrot;
use ingest_testing::proxy::Proxy;
use ingest_testing::redis_server::{RedisServer, ledger_config, url, wait_until};

fn entries(server: &RedisServer, account: &Account) -> usize {
    stored(server, account).records
}

/// An outage: the expensive call is refused and not rejected, the cheap one goes ahead.
async fn is_an_outage(process: &Process, account: &Account, words: &str) {
    let why = refusal(process.ask(account, 1).await);
    assert!(why.contains(words), "{why}");
    process.take_unmetered(account, 1).await;
}

/// A machine with ten units, whose replies of its Redis can be cut off.
async fn behind_a_proxy() -> (RedisServer, Proxy, Machine, Account) {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port()).await;
    let machine = at(&format!("redis://127.0.0.1:{}", proxy.port()));
    (server, proxy, machine, account(10))
}

/// A machine whose Redis has this URL.
fn at(redis: &str) -> Machine {
    Machine::new(url(redis))
}

#[tokio::test]
async fn a_charge_whose_reply_was_cut_off_is_counted_once() {
    let (server, proxy, machine, account) = behind_a_proxy().await;
    let process = machine.process();
    for _ in 0..3 {
        process.take(&account, 1).await;
        proxy.cut(1);
        assert!(process.take(&account, 1).await.metered);
        assert_eq!(proxy.left(), 0);
    }
    assert_eq!(process.used(&account).await, 6);
    assert_eq!(entries(&server, &account), 6);
}

#[tokio::test]
async fn a_release_whose_reply_was_cut_off_is_told_again() {
    let (_server, proxy, machine, account) = behind_a_proxy().await;
    let process = machine.process();
    let permit = process.take(&account, 4).await;
    proxy.cut(2);
    process.0.release(&account, &permit).await.unwrap();
    assert_eq!(machine.process().used(&account).await, 0);
}

#[tokio::test]
async fn a_read_only_replica_is_an_outage_until_it_is_promoted() {
    let server = RedisServer::start();
    let (machine, account) = (Machine::new(server.url()), account(10));
    let process = machine.process();
    process.take(&account, 1).await;
    server.tell("REPLICAOF 127.0.0.1 1");
    is_an_outage(&process, &account, "READONLY").await;
    server.tell("CONFIG SET replica-serve-stale-data no");
    is_an_outage(&machine.process(), &account, "cannot be reached").await;
    server.tell("REPLICAOF NO ONE");
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(
        process.drain(&account).await,
        7,
        "without a restart of the process"
    );
}

#[tokio::test]
async fn a_redis_that_loads_is_an_outage() {
    let mut server = RedisServer::start();
    let (machine, account) = (Machine::new(server.url()), account(10));
    machine.process().take(&account, 1).await;
    server.tell("EVAL for\u{a0}i=1,200\u{a0}do\u{a0}redis.call('SET','filler'..i,string.rep('x',2000))\u{a0}end 0");
    server.tell("SAVE");
    server.restart_slowly();
    is_an_outage(&machine.process(), &account, "LOADING").await;
}

/// A machine that has made `charges` charges, as a user whose permissions can be taken away.
async fn with_permissions(charges: u64) -> (RedisServer, Machine, Account) {
    let server = RedisServer::start();
    server.tell("ACL SETUSER teller on >open-sesame ~ingest:* +@all");
    let url = url(&format!(
        "redis://teller:open-sesame@127.0.0.1:{}",
        server.port()
    ));
    let (machine, account) = (Machine::new(url), account(100));
    let process = machine.process();
    for _ in 0..charges {
        process.take(&account, 1).await;
    }
    (server, machine, account)
}

#[tokio::test]
async fn a_charge_that_was_denied_half_way_is_counted_once_where_it_went_ahead() {
    let at_chunks =
        (14..19).flat_map(|charges| ["zadd", "zrangebyscore"].map(|one| (charges, one)));
    for (charges, command) in [(1, "hset")].into_iter().chain(at_chunks) {
        let (server, machine, account) = with_permissions(charges).await;
        server.tell(&format!("ACL SETUSER teller -{command}"));
        machine.process().ask_cheaply(&account, 1).await;
        server.tell(&format!("ACL SETUSER teller +{command}"));
        assert_eq!(
            machine.process().used(&account).await,
            charges + 1,
            "without {command}"
        );
        whole(&server, &account);
        assert_eq!(
            machine.process().drain(&account).await,
            99 - charges,
            "without {command}"
        );
    }
}

#[tokio::test]
async fn what_is_told_while_a_permission_lacks_is_whole_or_none() {
    for command in ["zrangebyscore", "pexpire", "hset", "zadd"] {
        let (server, machine, account) = with_permissions(1).await;
        server.tell("ACL SETUSER teller -fcall -evalsha");
        for _ in 0..3 {
            machine.process().take_unmetered(&account, 1).await;
        }
        server.tell(&format!("ACL SETUSER teller +fcall +evalsha -{command}"));
        let mut granted = 0;
        for _ in 0..3 {
            granted += u64::from(matches!(
                machine.process().ask(&account, 1).await,
                Acquired::Permitted(_)
            ));
        }
        server.tell(&format!("ACL SETUSER teller +{command}"));
        assert_eq!(
            machine.process().used(&account).await,
            4 + granted,
            "without {command}"
        );
        whole(&server, &account);
    }
}

#[tokio::test]
async fn a_broken_script_refuses_whatever_the_policy() {
    let server = RedisServer::start();
    let (machine, account) = (Machine::new(server.url()), account(10));
    machine.process().take(&account, 1).await;
    server.tell(&format!("SET {} damaged", key(&account, "main")));
    let asked = machine
        .process()
        .try_ask(&account, None, 1, Outage::Allow)
        .await;
    assert!(
        matches!(asked, Err(ClientError::Ledger(LedgerError::Broken(_)))),
        "{asked:?}"
    );
}

#[tokio::test]
async fn what_is_no_redis_is_not_taken_for_one() {
    let server = RedisServer::start();
    let (mut machine, account) = (
        at(&format!("rediss://127.0.0.1:{}", server.port())),
        account(10),
    );
    machine.timeout = Duration::from_millis(500);
    is_an_outage(&machine.process(), &account, "cannot be reached").await;
}

#[tokio::test]
async fn what_answers_without_tls_is_asked_whether_it_speaks_it() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let mut machine = Machine::new(url(&format!("rediss://127.0.0.1:{port}")));
    machine.timeout = Duration::from_millis(250);
    let why = refusal(machine.process().ask(&account(10), 1).await);
    assert!(
        why.contains(
            "no answer within 250ms (rediss:// requires TLS: does the server support it?)"
        ),
        "{why}"
    );
}

#[tokio::test]
async fn what_speaks_another_protocol_is_an_outage_that_says_so_on_one_line() {
    let parrot = Parrot::start();
    let (machine, account) = (
        at(&format!("redis://127.0.0.1:{}", parrot.port)),
        account(10),
    );
    parrot.say(
        b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n\r\n400 Bad Request".to_vec(),
    );
    is_an_outage(
        &machine.process(),
        &account,
        "not in the Redis protocol, or is incomplete",
    )
    .await;
    let why = refusal(machine.process().ask(&account, 1).await);
    assert!(!why.contains('\n'), "{why}");
}

#[tokio::test]
async fn a_reply_that_ends_in_the_middle_is_an_outage() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            let _ = std::io::Read::read(&mut socket, &mut [0; 4096]);
            let _ = std::io::Write::write_all(&mut socket, b"*5\r\n$7\r\ngranted\r\n$32\r\n01");
        }
    });
    let (machine, account) = (at(&format!("redis://127.0.0.1:{port}")), account(10));
    is_an_outage(&machine.process(), &account, "cannot be reached").await;
}

struct Wrong(i64);

#[async_trait::async_trait]
impl Clock for Wrong {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(ingest_base::clock::SystemClock.now().micros() + self.0)
    }

    async fn sleep(&self, span: Duration) {
        tokio::time::sleep(span).await;
    }
}

#[tokio::test]
async fn a_server_whose_clock_is_an_hour_off_is_an_outage_and_hands_nothing_out() {
    let server = RedisServer::start();
    let (machine, account) = (Machine::new(server.url()), account(2));
    assert_eq!(machine.process().drain(&account).await, 2);
    for hours in [1, -1] {
        let ledger = RedisLedger::new(&machine.url, &ledger_config(TIMEOUT, MAX_SKEW)).unwrap();
        let ledger = ledger.with_time(ServerTime::Told(Arc::new(Wrong(hours * 3_600_000_000))));
        let process = machine.process_over(Arc::new(ledger));
        is_an_outage(&process, &account, "max_skew").await;
        assert!(process.0.usage(&account).await.is_err());
    }
    assert_eq!(entries(&server, &account), 2);
    assert_eq!(machine.process().used(&account).await, 4);
}

#[tokio::test]
async fn a_ledger_that_is_ahead_since_its_clock_was_set_back_is_an_outage() {
    let server = RedisServer::start();
    let (machine, account) = (Machine::new(server.url()), account(10));
    machine.process_later(WINDOW).take(&account, 1).await;
    let newcomer = Machine::new(server.url());
    is_an_outage(&newcomer.process(), &account, "max_skew").await;
    assert_eq!(entries(&server, &account), 1);
}

#[tokio::test]
async fn a_connection_that_died_in_a_pause_is_replaced_without_a_word() {
    let server = RedisServer::start();
    let (machine, account) = (Machine::new(server.url()), account(10));
    let process = machine.process();
    for _ in 0..3 {
        process.take(&account, 1).await;
        server.tell("CLIENT KILL TYPE normal SKIPME yes");
    }
    wait_until("only one connection is left", || {
        server
            .ask::<String>("CLIENT LIST TYPE normal")
            .lines()
            .count()
            == 1
    });
    assert_eq!(process.used(&account).await, 3);
}

#[tokio::test]
async fn a_permission_that_lacks_in_the_script_is_an_outage_in_every_servers_words() {
    let parrot = Parrot::start();
    let url = format!("redis://127.0.0.1:{}", parrot.port);
    for words in [
        "ERR The user executing the script can't run this command or subcommand script: on @user_function:67.",
        "ERR ACL failure in script: User teller has no permissions to run the 'hset' command script: on @user_function:67.",
    ] {
        parrot.say(format!("-{words}\r\n").into_bytes());
        let why = refusal(at(&url).process().ask(&account(10), 1).await);
        assert!(why.contains("permit it (deploy/redis/users.acl)"), "{why}");
    }
}
