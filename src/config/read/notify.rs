//! `[notify]`

use url::Url;

use crate::config::Notify;
use crate::config::item::Item;

pub const KEYS: [&str; 4] = ["start", "success", "stopped", "failure"];

pub fn notify(item: Item<'_>) -> Option<Notify> {
    let section = item.table(&KEYS)?;
    let [start, success, stopped, failure] = KEYS.map(|key| section.optional(key, url));
    Some(Notify {
        start: start?,
        success: success?,
        stopped: stopped?,
        failure: failure?,
    })
}

/// No message shows it: whoever knows the URL can ping it.
fn url(item: Item<'_>) -> Option<Url> {
    let parsed = item.text().and_then(|text| Url::parse(text).ok());
    let right = parsed.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    right.or_else(|| {
        item.refuse_unseen(
            "expected an http or https URL",
            "write for example \"https://hc-ping.com/...\"",
        )
    })
}
