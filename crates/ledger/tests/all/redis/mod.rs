//! The ledger of many machines: the suite and the properties over a Redis, time given by hand, and what only Redis can
//! do to it.

mod between;
mod connections;
mod fitness;
mod kinds;
mod lives;
mod long;
mod loss;
pub(crate) mod machine;
mod many;
mod merged;
mod outage;
mod protocol;
pub(crate) mod stored;
mod told;

use std::sync::Arc;
use std::time::Duration;

use ingest_ledger::Ledger;
use ingest_ledger::redis::{RedisLedger, ServerTime};

use super::Store;
use crate::shared_as_ledger::SharedAsLedger;
use ingest_testing::redis_server::{RedisServer, ledger_config};

/// Longer than a busy machine needs: what these tests ask is not how fast it is.
const TIMEOUT: Duration = Duration::from_secs(20);
const MAX_SKEW: Duration = Duration::from_secs(300);

pub(crate) struct Standalone(RedisServer);

impl Standalone {
    pub(crate) async fn open() -> Self {
        Self(RedisServer::start())
    }

    /// One that runs no functions, as Redis before 7.
    pub(crate) async fn without_functions() -> Self {
        Self(RedisServer::without_functions())
    }
}

impl Drop for Standalone {
    /// Whatever the last operation of an account was.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            lives::every_key_expires(&self.0);
        }
    }
}

impl Store for Standalone {
    fn ledger(&self) -> Arc<dyn Ledger> {
        let ledger = RedisLedger::new(&self.0.url(), &ledger_config(TIMEOUT, MAX_SKEW)).unwrap();
        Arc::new(SharedAsLedger(ledger.with_time(ServerTime::Callers)))
    }
}

mod standalone {
    use super::Standalone;
    use crate::{properties, suite};

    suite::suite!(Standalone::open);
    properties::properties!(Standalone::open);
}

mod by_script {
    use super::Standalone;
    use crate::{properties, suite};

    suite::suite!(Standalone::without_functions);
    properties::properties!(Standalone::without_functions);
}
