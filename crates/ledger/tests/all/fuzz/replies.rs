//! Replies of something that is no Redis, or of one gone mad.

use std::sync::Mutex;
use std::time::Duration;

use ingest_config::RedisUrl;
use ingest_quota::Outage;
use proptest::prelude::*;

use crate::redis::machine::{Machine, account};
use ingest_testing::fuzz::{cases, near};
use ingest_testing::parrot::Parrot;

#[test]
fn a_changed_reply_is_a_verdict_or_an_error_soon() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let (parrot, account) = (Parrot::start(), account(10));
    let machine = Mutex::new(Machine::new(
        RedisUrl::parse(&format!("redis://127.0.0.1:{}", parrot.port)).unwrap(),
    ));
    machine.lock().unwrap().timeout = Duration::from_millis(50);
    proptest!(cases(8), |(replies in prop::collection::vec(near("reply"), 1..6))| {
        parrot.say(replies.concat());
        let machine = machine.lock().unwrap();
        let asked = runtime.block_on(async {
            let process = machine.process();
            let asking = process.try_ask(&account, None, 1, Outage::Refuse);
            tokio::time::timeout(Duration::from_secs(20), asking).await
        });
        prop_assert!(asked.is_ok(), "it never ended");
    });
}
