//! What is right by itself, and makes no sense together.

mod cost;
mod request;

use super::item::Item;
use super::{Auth, Config, Upstream};

/// Says everything that makes no sense in a configuration that was read.
pub(super) fn config(config: &Config, root: &Item<'_>) {
    config.upstreams.values().for_each(|upstream| transport(upstream, root));
    cost::costs(config, root);
    request::requests(config, root);
}

/// A secret is never sent over plain http except to this machine.
fn transport(upstream: &Upstream, root: &Item<'_>) {
    if upstream.auth == Auth::None || upstream.base_url.scheme() == "https" || upstream.is_loopback() {
        return;
    }
    if let Some(item) = root.find(&["upstreams", &upstream.name, "base_url"]) {
        item.refuse::<()>("a secret is never sent over plain http, except to this machine", "write https://");
    }
}
