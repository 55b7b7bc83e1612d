//! `[ledger]` and `[catalog]`

use std::path::PathBuf;

use super::credential::secret;
use super::scalars::{any_duration, duration, units, word};
use crate::config::item::Item;
use crate::config::section::Section;
use crate::config::{
    AfterLoss, ClientCertificate, LedgerConfig, LedgerStore, RedisAccess, RedisUrl, RedisUrlError,
};

pub const KEYS: [&str; 9] = [
    "url",
    "password",
    "sentinel_password",
    "tls",
    "timeout",
    "cheap_max",
    "unmetered_max",
    "max_skew",
    "after_loss",
];
pub const TLS_KEYS: [&str; 3] = ["ca", "cert", "key"];
pub const CATALOG_KEYS: [&str; 1] = ["url"];
pub const AFTER_LOSS: [(&str, AfterLoss); 2] =
    [("floor", AfterLoss::Floor), ("wait", AfterLoss::Wait)];
pub const SCHEMES: [&str; 5] = ["redis", "rediss", "redis+sentinel", "redis+cluster", "unix"];
const EXAMPLE: &str = "write \"sqlite\", or for example \"redis://127.0.0.1:6379/0\"";
const ESCAPED: &str = "in a password, write `/` as %2F, `?` as %3F and `#` as %23";

pub fn ledger(item: Item<'_>) -> Option<LedgerConfig> {
    let section = item.table(&KEYS)?;
    let default = LedgerConfig::default();
    let store = section.or("url", default.store, store);
    let access = access(&section);
    let timeout = section.or("timeout", default.timeout, duration);
    let cheap_max = section.or("cheap_max", default.cheap_max, units);
    let unmetered_max = section.or("unmetered_max", default.unmetered_max, units);
    let max_skew = section.or("max_skew", default.max_skew, any_duration);
    let after_loss = section.or("after_loss", default.after_loss, |item| {
        word(&item, &AFTER_LOSS)
    });
    let (store, access) = (store?, access?);
    fits(&section, &store, &access)?;
    let store = match store {
        LedgerStore::Redis(url) if access.password.is_some() => {
            LedgerStore::Redis(url.with_shown_user())
        }
        store => store,
    };
    Some(LedgerConfig {
        store,
        access,
        timeout: timeout?,
        cheap_max: cheap_max?,
        unmetered_max: unmetered_max?,
        max_skew: max_skew?,
        after_loss: after_loss?,
    })
}

/// What a connection to Redis needs beside the URL.
fn access(section: &Section<'_>) -> Option<RedisAccess> {
    let password = section.optional("password", secret);
    let sentinel_password = section.optional("sentinel_password", secret);
    let tls = section.or("tls", (None, None), tls);
    let (ca, client) = tls?;
    Some(RedisAccess {
        password: password?,
        sentinel_password: sentinel_password?,
        ca,
        client,
    })
}

fn tls(item: Item<'_>) -> Option<(Option<PathBuf>, Option<ClientCertificate>)> {
    let section = item.clone().table(&TLS_KEYS)?;
    let [ca, cert, key] = TLS_KEYS.map(|key| section.optional(key, file));
    match (ca?, cert?, key?) {
        (ca, Some(cert), Some(key)) => Some((ca, Some(ClientCertificate { cert, key }))),
        (ca, None, None) => Some((ca, None)),
        (_, Some(_), None) => section.0.lacks("key", "\"/etc/ingest/redis-client.key\""),
        (_, None, Some(_)) => section.0.lacks("cert", "\"/etc/ingest/redis-client.crt\""),
    }
}

fn file(item: Item<'_>) -> Option<PathBuf> {
    item.filled_text().map(PathBuf::from)
}

/// Whether the URL uses what is configured beside it. A ledger in a file ignores all of it, as `--sandbox` needs.
fn fits(section: &Section<'_>, store: &LedgerStore, access: &RedisAccess) -> Option<()> {
    let LedgerStore::Redis(url) = store else {
        return Some(());
    };
    if let (Some(item), true) = (section.get("password"), url.has_password()) {
        return item.refuse_unseen(
            "ledger.url already contains a password",
            "remove the password from ledger.url: redis://USER@HOST",
        );
    }
    if let (Some(item), false) = (section.get("sentinel_password"), url.is_sentinel()) {
        return item.refuse_unseen(
            "only redis+sentinel:// connects to Sentinels",
            "remove sentinel_password, or correct ledger.url",
        );
    }
    if let (Some(item), false) = (
        section.get("tls"),
        access.ca.is_none() && access.client.is_none() || url.is_tls(),
    ) {
        return item.refuse("the URL does not use TLS", url.with_tls_advice());
    }
    Some(())
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
            item.refuse("expected a database number after the host", ESCAPED)
        }
        Err(RedisUrlError::AtBehindHost) => {
            item.refuse("the host ends within the user or the password", ESCAPED)
        }
        Err(error) => item.refuse(format!("not a valid Redis URL: {error}"), EXAMPLE),
    }
}
