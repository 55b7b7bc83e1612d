//! What the keys of a ledger hold, read beside the ledger.

use ingest_quota::Account;
use ingest_testing::redis_server::RedisServer;
use redis::{RedisResult, Script, Value, from_redis_value};

/// The parts of a ledger.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Stored {
    /// In chunks and open.
    pub(crate) records: usize,
    pub(crate) chunks: usize,
    /// Those of records in chunks.
    pub(crate) ids: usize,
    pub(crate) floors: usize,
    /// What of it does not fit together.
    pub(crate) wrong: Vec<String>,
}

pub(crate) fn key(account: &Account, part: &str) -> String {
    format!("ingest:{{{}}}:{part}", account.name)
}

pub(crate) fn stored(server: &RedisServer, account: &Account) -> Stored {
    try_stored(server, account).unwrap()
}

pub(crate) fn try_stored(server: &RedisServer, account: &Account) -> RedisResult<Stored> {
    let script = Script::new(include_str!("stored.lua"));
    let mut invocation = script.prepare_invoke();
    for part in ["main", "log", "ids"] {
        invocation.key(key(account, part));
    }
    let mut connection = server.try_connect()?;
    let values: Vec<Value> = invocation.invoke(&mut connection)?;
    let mut values = values.into_iter();
    let mut number = || from_redis_value::<usize>(values.next().unwrap());
    let (records, chunks, ids, floors) = (number()?, number()?, number()?, number()?);
    let wrong = values
        .map(from_redis_value::<String>)
        .collect::<Result<_, _>>()?;
    Ok(Stored {
        records,
        chunks,
        ids,
        floors,
        wrong,
    })
}

/// Sees that what is stored fits together.
pub(crate) fn whole(server: &RedisServer, account: &Account) {
    assert_eq!(stored(server, account).wrong, [""; 0]);
}
