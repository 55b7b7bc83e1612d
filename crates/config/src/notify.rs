//! `[notify]`: URLs that a run requests when it starts and ends.

use serde_json::json;
use url::Url;

use super::declare::{Leaf, Optional, Shape, keys};
use super::item::Item;

keys! {
    /// Treat the URLs like secrets: anyone who knows one can ping it.
    #[derive(Clone, Default, PartialEq, Eq)]
    pub struct Notify {
        /// The URL to ping when a run starts.
        start: Option<Url> = Optional(PING, "'https://hc-ping.com/UUID/start'"),
        /// The URL to ping when a run completed all due work, or nothing was due.
        success: Option<Url> = Optional(PING, "'https://hc-ping.com/UUID'"),
        /// The URL to ping when a limit stopped the run; the `success` URL if unset.
        stopped: Option<Url> = Optional(PING, "'https://hc-ping.com/UUID'"),
        /// The URL to ping when a run failed, was refused or was interrupted.
        failure: Option<Url> = Optional(PING, "'https://hc-ping.com/UUID/fail'"),
    }
}

impl std::fmt::Debug for Notify {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let set = [&self.start, &self.success, &self.stopped, &self.failure]
            .iter()
            .filter(|url| url.is_some())
            .count();
        write!(f, "Notify({set} URLs)")
    }
}

const PING: Leaf<Url> = Leaf {
    read: ping,
    shape: || Shape::scalar("URL", json!({ "type": "string", "pattern": "^https?://" })),
};

/// No message shows the URL: anyone who knows it can ping it.
fn ping(item: Item<'_>) -> Option<Url> {
    let parsed = item.text().and_then(|text| Url::parse(text).ok());
    let right = parsed.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    right.or_else(|| {
        item.refuse_unseen(
            "expected an http or https URL",
            "write for example \"https://hc-ping.com/...\"",
        )
    })
}
