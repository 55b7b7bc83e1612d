//! `[ledger]` and `[catalog]`

use url::Url;

use super::scalars::{any_duration, duration, units, word};
use crate::config::item::Item;
use crate::config::{AfterLoss, LedgerConfig, LedgerStore, RedisUrl};

const SCHEMES: [&str; 5] = ["redis", "rediss", "redis+sentinel", "redis+cluster", "unix"];

pub(super) fn ledger(item: Item<'_>) -> Option<LedgerConfig> {
    let section = item.table(&["url", "timeout", "cheap_max", "unmetered_max", "max_skew", "after_loss"])?;
    let default = LedgerConfig::default();
    let store = section.or("url", default.store, store);
    let timeout = section.or("timeout", default.timeout, duration);
    let cheap_max = section.or("cheap_max", default.cheap_max, units);
    let unmetered_max = section.or("unmetered_max", default.unmetered_max, units);
    let max_skew = section.or("max_skew", default.max_skew, any_duration);
    let after_loss = section.or("after_loss", default.after_loss, |item| {
        word(&item, &[("floor", AfterLoss::Floor), ("wait", AfterLoss::Wait)])
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

pub(super) fn catalog(item: Item<'_>) -> Option<()> {
    item.table(&["url"])?.or("url", (), |url| word(&url, &[("sqlite", ())]))
}

/// The URL may hold a password: no message shows more of it than its scheme.
fn store(item: Item<'_>) -> Option<LedgerStore> {
    let example = "write \"sqlite\", or for example \"redis://127.0.0.1:6379/0\"";
    let text = item.text()?;
    if text == "sqlite" {
        return Some(LedgerStore::Sqlite);
    }
    let Ok(url) = Url::parse(text) else {
        return item.refuse("expected `sqlite` or the URL of a Redis", example);
    };
    if !SCHEMES.contains(&url.scheme()) {
        let schemes = SCHEMES.map(|scheme| format!("{scheme}://")).join(" ");
        return item.refuse(format!("expected `sqlite` or one of {schemes}"), example);
    }
    let reachable = if url.scheme() == "unix" { url.path().len() > 1 } else { url.has_host() };
    if !reachable {
        return item.refuse("expected a host, or a path for unix://", example);
    }
    Some(LedgerStore::Redis(RedisUrl::new(url)))
}
