//! Checks of values that are valid by themselves, but not together.

mod cost;
mod names;
mod paging;
mod request;
mod scope;
mod secrets;
mod views;

use super::item::Item;
use super::names::advice;
use super::{Auth, Config, Upstream};

/// Reports the contradictions within the tables of a configuration that are right, where others are not: what depends on those is
/// not known.
pub fn some(config: &Config, regions_are_right: bool, root: &Item<'_>) {
    config
        .upstreams
        .values()
        .for_each(|upstream| transport(config, upstream, root));
    cost::costs(config, root);
    if regions_are_right {
        scope::scopes(config, root);
        request::requests(config, root);
    }
    views::views(config, root);
    names::names(config, root);
}

/// Reports every contradiction within a configuration.
pub fn config(config: &Config, root: &Item<'_>) {
    config
        .upstreams
        .values()
        .for_each(|upstream| transport(config, upstream, root));
    config
        .upstreams
        .values()
        .for_each(|upstream| refusals(config, upstream, root));
    cost::costs(config, root);
    scope::scopes(config, root);
    request::requests(config, root);
    secrets::secrets(config, root);
    clients(config, root);
    descriptors(config, root);
    views::views(config, root);
}

/// A secret is never sent over plain http except to this machine.
fn transport(config: &Config, upstream: &Upstream, root: &Item<'_>) {
    let credentials = config.credentials.values();
    let mut credentials = credentials.filter(|one| one.upstream.name == upstream.name);
    let has_secrets = credentials.any(|one| one.secret.is_some() || !one.secrets.is_empty());
    if (upstream.auth == Auth::None && !has_secrets)
        || upstream.base_url.scheme() == "https"
        || upstream.is_loopback()
    {
        return;
    }
    if let Some(item) = root.find(&["upstreams", &upstream.name, "base_url"]) {
        item.refuse::<()>(
            "a secret is sent only over https, or over http to this machine",
            "write https://",
        );
    }
}

/// A client of the server can charge only credentials that exist.
fn clients(config: &Config, root: &Item<'_>) {
    for (name, client) in &config.serve.clients {
        for (place, credential) in client.charge.iter().flatten().enumerate() {
            let place = ["serve", "clients", name, "charge", &place.to_string()];
            let known = || config.credentials.keys().map(String::as_str);
            if known().all(|known| known != credential)
                && let Some(item) = root.find(&place)
            {
                item.refuse::<()>("unknown credential", advice(credential, known()));
            }
        }
    }
}

/// What Envoy's descriptors charge must exist.
fn descriptors(config: &Config, root: &Item<'_>) {
    let Some(envoy) = &config.serve.envoy else {
        return;
    };
    for (place, descriptor) in envoy.descriptors.iter().enumerate() {
        let at = |key| {
            let place = place.to_string();
            root.find(&["serve", "envoy", "descriptors", &place, key])
        };
        let Some(credential) = config.credentials.get(&descriptor.credential) else {
            let known = config.credentials.keys().map(String::as_str);
            if let Some(item) = at("credential") {
                item.refuse::<()>("unknown credential", advice(&descriptor.credential, known));
            }
            continue;
        };
        let calls = &credential.upstream.calls;
        match (&descriptor.call, &descriptor.cost) {
            (Some(call), None) if !calls.contains_key(call) => {
                let known = calls.keys().map(String::as_str);
                if let Some(item) = at("call") {
                    item.refuse::<()>("unknown call", advice(call, known));
                }
            }
            (Some(_), None) | (None, Some(_)) => {}
            (Some(_), Some(_)) | (None, None) => {
                if let Some(item) = at("entries") {
                    item.refuse::<()>(
                        "a descriptor charges a call or units",
                        "set `call` or `cost`",
                    );
                }
            }
        }
    }
}

/// The limit that a rule names must be one of some credential; otherwise every limit of the call would be closed.
fn refusals(config: &Config, upstream: &Upstream, root: &Item<'_>) {
    let credentials: Vec<_> = config
        .credentials
        .values()
        .filter(|one| one.upstream.name == upstream.name)
        .collect();
    let names = || {
        credentials
            .iter()
            .flat_map(|credential| credential.limits.keys())
            .map(String::as_str)
    };
    let theirs = || {
        credentials
            .iter()
            .flat_map(|one| one.limits.values())
            .filter_map(|one| one.upstream_name.as_deref())
    };
    let refuse = |limit: &str, place: usize, key: &[&str]| {
        let place = place.to_string();
        let place = ["upstreams", &upstream.name, "errors", &place];
        let item = root.find(&[&place, key].concat());
        if let Some(item) = item.filter(|_| !credentials.is_empty()) {
            item.refuse::<()>(
                "no credential of this upstream has this limit",
                advice(limit, names()),
            );
        }
    };
    for (place, rule) in upstream.errors.iter().enumerate() {
        let limit = rule.limit.as_deref();
        if let Some(limit) =
            limit.filter(|limit| names().chain(theirs()).all(|name| name != *limit))
        {
            refuse(limit, place, &["limit"]);
        }
        for (index, limit) in rule.free.limits().iter().enumerate() {
            if names().all(|name| name != limit) {
                refuse(limit, place, &["free", &index.to_string()]);
            }
        }
    }
}
