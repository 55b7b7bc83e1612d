//! Every kind of Redis: a cluster, a set with a Sentinel, and users that may do little.

use std::fs;

use ingest_config::RedisUrl;
use ingest_quota::Outage;

use super::machine::{Machine, account, permit};
use super::stored::try_stored;
use ingest_testing::redis_server::{RedisServer, url, wait_until};

fn hosts(servers: &[RedisServer]) -> String {
    servers
        .iter()
        .map(|server| format!("127.0.0.1:{}", server.port()))
        .collect::<Vec<_>>()
        .join(",")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_keeps_each_account_in_one_slot() {
    let nodes = RedisServer::cluster();
    let machine = Machine::new(url(&format!("redis+cluster://{}", hosts(&nodes))));
    let another = Machine::new(machine.url.clone());
    let (process, other) = (machine.process(), another.process());
    let accounts = [(); 9].map(|()| account(6));
    for account in &accounts {
        let (granted, of_other) = tokio::join!(process.drain(account), other.drain(account));
        assert_eq!(granted + of_other, 6);
        assert_eq!(process.used(account).await, 6);
    }
    let sizes = nodes.each_ref().map(|node| node.ask::<i64>("DBSIZE"));
    assert!(
        sizes.iter().all(|keys| *keys < 27),
        "spread over the nodes: {sizes:?}"
    );
    for node in &nodes {
        node.tell("FLUSHALL");
    }
    for account in &accounts {
        let granted = process.drain(account).await + other.drain(account).await;
        assert!(
            granted < 6,
            "a loss is found on every node: {granted} beyond what each had heard of"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_moves_is_followed() {
    let nodes = RedisServer::cluster();
    let machine = Machine::new(url(&format!("redis+cluster://{}", hosts(&nodes))));
    let (process, account) = (machine.process(), account(6));
    process.take(&account, 2).await;
    let slot: i64 = nodes[0].ask(&format!("CLUSTER KEYSLOT {{{}}}", account.name));
    let home = nodes
        .iter()
        .position(|node| node.ask::<i64>(&format!("CLUSTER COUNTKEYSINSLOT {slot}")) > 0)
        .unwrap();
    let (from, to) = (&nodes[home], &nodes[(home + 1) % 3]);
    let id: String = to.ask("CLUSTER MYID");
    // The slot goes without its keys: another server, and a loss.
    for node in [to, from, &nodes[(home + 2) % 3]] {
        if node.port() == from.port() {
            for key in node.ask::<Vec<String>>(&format!("CLUSTER GETKEYSINSLOT {slot} 10")) {
                node.tell(&format!("DEL {key}"));
            }
        }
        node.tell(&format!("CLUSTER SETSLOT {slot} NODE {id}"));
    }
    assert_eq!(process.drain(&account).await, 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sentinel_names_the_new_primary() {
    let (primary, replica) = (RedisServer::start(), RedisServer::start());
    replica.tell(&format!("REPLICAOF 127.0.0.1 {}", primary.port()));
    wait_until("the replica is in step", || {
        replica
            .ask::<String>("INFO replication")
            .contains("link_status:up")
    });
    let sentinel = RedisServer::sentinel(&primary);
    wait_until("the Sentinel knows the replica", || {
        sentinel.ask::<String>("INFO sentinel").contains("slaves=1")
    });
    let machine = Machine::new(url(&format!(
        "redis+sentinel://127.0.0.1:1,127.0.0.1:{}/ledger/0",
        sentinel.port()
    )));
    let (process, account) = (machine.process(), account(10));
    process.take(&account, 3).await;
    wait_until("the charge is copied", || {
        try_stored(&replica, &account).is_ok_and(|stored| stored.records == 1)
    });
    drop(primary);
    // It ends all connections to the one that it promotes.
    wait_until("the Sentinel promotes the replica", || {
        replica
            .try_ask::<String>("INFO replication")
            .is_ok_and(|told| told.contains("role:master"))
    });
    let mut granted = 0;
    while granted < 7 {
        if let ingest_ledger::Acquired::Permitted(_) = process
            .try_ask(&account, None, 1, Outage::Refuse)
            .await
            .unwrap()
        {
            granted += 1;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert_eq!(process.used(&account).await, 10);
    assert_eq!(process.drain(&account).await, 0);
}

/// A server with the shipped permissions, and the URL of their user.
pub(super) fn with_shipped_users() -> (RedisServer, RedisUrl, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let shipped = fs::read_to_string("../../deploy/redis/users.acl").unwrap();
    // The tests look into the server too.
    let users = shipped.replace("user default off", "user default on nopass");
    let file = directory.path().join("users.acl");
    fs::write(&file, users).unwrap();
    let server = RedisServer::with(&[
        "--aclfile",
        &file.display().to_string(),
        "--appendonly",
        "yes",
    ]);
    let url = url(&format!(
        "redis://ingest:CHANGE-THIS-PASSWORD@127.0.0.1:{}",
        server.port()
    ));
    (server, url, directory)
}

#[tokio::test]
async fn the_shipped_permissions_are_enough() {
    let (server, url, _directory) = with_shipped_users();
    let (machine, account) = (Machine::new(url), account(700));
    let process = machine.process();
    let permit = permit(process.ask(&account, 5).await);
    process.0.release(&account, &permit).await.unwrap();
    process
        .0
        .close(&account, "daily", ingest_quota::Closing::Probing)
        .await
        .unwrap();
    process.0.reopen(&account, "daily").await.unwrap();
    assert_eq!(process.drain(&account).await, 700, "chunks included");
    server.tell("FLUSHALL");
    server.tell("SCRIPT FLUSH");
    server.tell("FUNCTION FLUSH");
    assert_eq!(process.drain(&account).await, 0);
    assert_eq!(process.used(&account).await, 700);
    let denied: Vec<redis::Value> = server.ask("ACL LOG");
    assert!(denied.is_empty(), "{denied:?}");
}
