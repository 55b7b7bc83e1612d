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
use super::{Auth, Call, Config, Job, Upstream};

/// Reports the contradictions between the valid tables of a configuration that has invalid ones too. What depends on an invalid
/// table is not checked.
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
    root.refuse_at(
        &["upstreams", &upstream.name, "base_url"],
        "a secret is sent only over https, or over http to this machine",
        "write https://",
    );
}

/// A client of the server can charge only credentials that exist.
fn clients(config: &Config, root: &Item<'_>) {
    for (name, client) in &config.serve.clients {
        for (place, credential) in client.charge.iter().flatten().enumerate() {
            let place = ["serve", "clients", name, "charge", &place.to_string()];
            let known = || config.credentials.keys().map(String::as_str);
            if known().all(|known| known != credential) {
                root.refuse_at(&place, "unknown credential", advice(credential, known()));
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
    if credentials.is_empty() {
        return;
    }
    let refuse = |limit: &str, place: usize, key: &[&str]| {
        let place = place.to_string();
        let place = ["upstreams", &upstream.name, "errors", &place];
        root.refuse_at(
            &[&place, key].concat(),
            "no credential of this upstream has this limit",
            advice(limit, names()),
        );
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

/// A call, as the document has it.
fn call_in<'a>(root: &Item<'a>, upstream: &Upstream, call: &Call) -> Option<Item<'a>> {
    root.find(&["upstreams", &upstream.name, "calls", &call.name])
}

/// A step of a job, as the document has it.
fn step_in<'a>(root: &Item<'a>, job: &Job, at: usize) -> Option<Item<'a>> {
    root.find(&["jobs", &job.name, "steps", &at.to_string()])
}
