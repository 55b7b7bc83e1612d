//! `[ledger]` and `[catalog]`

use super::scalars::{any_duration, duration, units, word};
use crate::config::item::Item;
use crate::config::{AfterLoss, LedgerConfig, LedgerStore, RedisUrl, RedisUrlError};

pub const KEYS: [&str; 6] = [
    "url",
    "timeout",
    "cheap_max",
    "unmetered_max",
    "max_skew",
    "after_loss",
];
pub const CATALOG_KEYS: [&str; 1] = ["url"];
pub const AFTER_LOSS: [(&str, AfterLoss); 2] =
    [("floor", AfterLoss::Floor), ("wait", AfterLoss::Wait)];
pub const SCHEMES: [&str; 5] = ["redis", "rediss", "redis+sentinel", "redis+cluster", "unix"];
const EXAMPLE: &str = "write \"sqlite\", or for example \"redis://127.0.0.1:6379/0\"";
const ESCAPED: &str = "write a `/` of a password as %2F, a `?` as %3F, a `#` as %23";

pub fn ledger(item: Item<'_>) -> Option<LedgerConfig> {
    let section = item.table(&KEYS)?;
    let default = LedgerConfig::default();
    let store = section.or("url", default.store, store);
    let timeout = section.or("timeout", default.timeout, duration);
    let cheap_max = section.or("cheap_max", default.cheap_max, units);
    let unmetered_max = section.or("unmetered_max", default.unmetered_max, units);
    let max_skew = section.or("max_skew", default.max_skew, any_duration);
    let after_loss = section.or("after_loss", default.after_loss, |item| {
        word(&item, &AFTER_LOSS)
    });
    Some(LedgerConfig {
        store: store?,
        timeout: timeout?,
        cheap_max: cheap_max?,
        unmetered_max: unmetered_max?,
        max_skew: max_skew?,
        after_loss: after_loss?,
    })
}

pub fn catalog(item: Item<'_>) -> Option<()> {
    item.table(&CATALOG_KEYS)?
        .or("url", (), |url| word(&url, &[("sqlite", ())]))
}

/// The URL may hold a password: no message shows more of it than its scheme.
fn store(item: Item<'_>) -> Option<LedgerStore> {
    let text = item.text()?;
    if text == "sqlite" {
        return Some(LedgerStore::Sqlite);
    }
    let scheme = text.split_once(':').map_or("", |(scheme, _)| scheme);
    if !SCHEMES.contains(&scheme) {
        let schemes = SCHEMES.map(|scheme| format!("{scheme}://")).join(" ");
        return item.refuse(format!("expected `sqlite` or one of {schemes}"), EXAMPLE);
    }
    match RedisUrl::parse(text) {
        Ok(url) => Some(LedgerStore::Redis(url)),
        // What stands in place of the number may be part of a password.
        Err(RedisUrlError::Database(_)) => {
            item.refuse("expected the number of a database after the host", ESCAPED)
        }
        Err(RedisUrlError::AtBehindHost) => {
            item.refuse("the host ends within the user or the password", ESCAPED)
        }
        Err(error) => item.refuse(format!("this is not the URL of a Redis: {error}"), EXAMPLE),
    }
}
