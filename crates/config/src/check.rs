//! Rules on values that are valid by themselves, but not together.

mod cost;
mod known;
mod paging;
mod request;
mod scope;
mod secrets;
mod views;

use self::Needs::{Everything, Itself, Regions};
use super::document::Document;
use super::names::advice;
use super::{Auth, Config, Rule, Upstream};

/// What must be right so that a rule can be checked.
enum Needs {
    /// Only what it compares.
    Itself,
    /// The regions too.
    Regions,
    /// The whole file.
    Everything,
}

type Check = fn(&Config, &Document<'_>);

/// What the manual says of the rules, in their order.
pub const SAYS: &str = "\
- A secret is sent over https, or to this machine.
- An error rule names limits of its upstream.
- A call charges and settles limits that exist.
- What a job leaves, and each call, fits its limits.
- A `scope` has a value for each region.
- Each variable of a template has a value.
- `params` leave paging and the secret alone.
- A cursor is no number of records.
- A job with `since` names `{since}`.
- Steps that request ids by one call have the same parameters.
- A job with `slices` names the slice.
- A list that stops at what is known is the same in every pass, and is read to its end within `keep`.
- A secret is in no path and no record.
- Each secret exists, and is sent.
- Clients charge credentials that exist.
- Each kind of records has its own view.";

const RULES: [(Needs, Check); 16] = [
    (Itself, transport),
    (Everything, refusals),
    (Itself, cost::charges),
    (Itself, cost::grants),
    (Regions, scope::scopes),
    (Regions, request::variables),
    (Regions, request::parameters),
    (Regions, request::cursors),
    (Regions, request::since),
    (Regions, request::ids),
    (Regions, request::slices),
    (Itself, known::stops),
    (Everything, secrets::are_sent_only),
    (Everything, secrets::exist_and_are_sent),
    (Everything, clients),
    (Itself, views::views),
];

/// Reports the contradictions within a configuration. In a file that has other mistakes too, what depends on a wrong value is not
/// checked.
pub fn config(config: &Config, document: &Document<'_>) {
    let (whole, regions) = (document.is_right(), document.is_right_below(&["regions"]));
    document.is_read();
    for (needs, rule) in RULES {
        let can_check = match needs {
            Itself => true,
            Regions => regions,
            Everything => whole,
        };
        if can_check {
            rule(config, document);
        }
    }
}

/// A secret is never sent over plain http except to this machine.
fn transport(config: &Config, document: &Document<'_>) {
    for upstream in config.upstreams.values() {
        is_protected(config, upstream, document);
    }
}

fn is_protected(config: &Config, upstream: &Upstream, document: &Document<'_>) {
    let credentials = config.credentials.values();
    let mut credentials = credentials.filter(|one| one.upstream.name == upstream.name);
    let has_secrets = credentials.any(|one| one.secret.is_some() || !one.secrets.is_empty());
    if (upstream.auth == Auth::None && !has_secrets)
        || upstream.base_url.scheme() == "https"
        || upstream.is_loopback()
    {
        return;
    }
    document.refuse(
        &["upstreams", &upstream.name, "base_url"],
        "a secret is sent only over https, or over http to this machine",
        "write https://",
    );
}

/// A client of the server can charge only credentials that exist.
fn clients(config: &Config, document: &Document<'_>) {
    for (name, client) in &config.serve.clients {
        for (place, credential) in client.charge.iter().flatten().enumerate() {
            let place = ["serve", "clients", name, "charge", &place.to_string()];
            let known = || config.credentials.keys().map(String::as_str);
            if known().all(|known| known != credential) {
                document.refuse(&place, "unknown credential", advice(credential, known()));
            }
        }
    }
}

/// The limit that a rule names must be one of some credential; otherwise every limit of the call would be closed.
fn refusals(config: &Config, document: &Document<'_>) {
    for upstream in config.upstreams.values() {
        names_limits(config, upstream, document);
    }
}

fn names_limits(config: &Config, upstream: &Upstream, document: &Document<'_>) {
    let credentials = config.credentials.values();
    let credentials = credentials.filter(|one| one.upstream.name == upstream.name);
    let limits: Vec<_> = credentials.clone().flat_map(|one| &one.limits).collect();
    if credentials.count() == 0 {
        return;
    }
    let names = || limits.iter().map(|(name, _)| name.as_str());
    let theirs = || {
        limits
            .iter()
            .filter_map(|(_, limit)| limit.upstream_name.as_deref())
    };
    let names_them = |of: &[&str], rules: &[Rule]| {
        for (place, rule) in rules.iter().enumerate() {
            let place = place.to_string();
            let place = [&["upstreams", &upstream.name], of, &["errors", &place]].concat();
            let refuse = |limit: &str, key: &[&str]| {
                document.refuse(
                    &[&place, key].concat(),
                    "no credential of this upstream has this limit",
                    advice(limit, names()),
                );
            };
            let limit = rule.limit.as_deref();
            if let Some(limit) =
                limit.filter(|limit| names().chain(theirs()).all(|name| name != *limit))
            {
                refuse(limit, &["limit"]);
            }
            for (index, limit) in rule.free.limits().iter().enumerate() {
                if names().all(|name| name != limit) {
                    refuse(limit, &["free", &index.to_string()]);
                }
            }
        }
    };
    names_them(&[], &upstream.errors);
    for call in upstream.calls.values() {
        names_them(&["calls", &call.name], call.own_errors());
    }
}
