//! What answers is no Redis, or one gone mad: never the end of a process.

use std::time::Duration;

use ingest_config::RedisUrl;
use ingest_quota::Outage;
use ingest_testing::parrot::Parrot;
use proptest::prelude::*;

use super::machine::{Machine, account, refusal};

fn reply() -> impl Strategy<Value = Vec<u8>> {
    let scalar = prop_oneof![
        Just(b"+OK\r\n".to_vec()),
        any::<i64>().prop_map(|number| format!(":{number}\r\n").into_bytes()),
        Just(b"$-1\r\n".to_vec()),
        Just(b"*-1\r\n".to_vec()),
        "[a-z0-9: -]{0,20}".prop_map(|text| format!("${}\r\n{text}\r\n", text.len()).into_bytes()),
        "[A-Z]{3,10} .{0,20}"
            .prop_map(|text| format!("-{}\r\n", text.replace(['\r', '\n'], " ")).into_bytes()),
        prop_oneof![
            Just("granted"),
            Just("rejected"),
            Just("lost"),
            Just("never"),
            Just("1")
        ]
        .prop_map(|word| format!("${}\r\n{word}\r\n", word.len()).into_bytes()),
    ];
    let value = scalar.prop_recursive(3, 16, 6, |inner| {
        prop::collection::vec(inner, 0..6).prop_map(|elements| {
            [
                format!("*{}\r\n", elements.len()).into_bytes(),
                elements.concat(),
            ]
            .concat()
        })
    });
    prop_oneof![
        3 => prop::collection::vec(value, 1..8).prop_map(|replies| replies.concat()),
        1 => prop::collection::vec(any::<u8>(), 1..60),
        1 => Just(b"*1000000000\r\n".to_vec()),
        1 => Just(b"$9223372036854775807\r\n".to_vec()),
        1 => Just([b"*1\r\n".repeat(5_000), b":1\r\n".to_vec()].concat()),
    ]
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
        let machine = Machine::new(RedisUrl::parse(&url).unwrap());
        let why = refusal(machine.process().ask(&account(10), 1).await);
        assert!(why.contains("permit it (deploy/redis/users.acl)"), "{why}");
    }
}

#[test]
fn whatever_answers_is_a_verdict_or_an_error_soon() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let parrot = Parrot::start();
    let account = account(10);
    let cases = ProptestConfig {
        cases: ProptestConfig::default().cases.min(4096) / 8,
        ..ProptestConfig::default()
    };
    proptest!(cases, |(bytes in reply())| {
        parrot.say(bytes);
        let url = format!("redis://127.0.0.1:{}", parrot.port);
        let mut machine = Machine::new(RedisUrl::parse(&url).unwrap());
        machine.timeout = Duration::from_millis(50);
        let asked = runtime.block_on(async {
            let process = machine.process();
            let asking = process.try_ask(&account, None, 1, Outage::Refuse);
            tokio::time::timeout(Duration::from_secs(20), asking).await
        });
        prop_assert!(asked.is_ok(), "it never ended");
    });
}
