//! Names that refer to nothing, in a document whose tables are not all right: only names are compared.

use std::collections::BTreeSet;

use crate::Config;
use crate::declare::name;
use crate::item::Item;
use crate::names::advice;
use crate::tree::Kind;

/// Reports calls of steps, and limits of costs, that do not exist. Tables in `right` are left to the other checks.
pub fn names(right: &Config, root: &Item<'_>) {
    for credential in entries(root.find(&["credentials"])) {
        let Some(upstream) = text(credential.find(&["upstream"])) else {
            continue;
        };
        if right.credentials.contains_key(credential.name()) {
            continue;
        }
        let Some(known) = limits(root, &credential, upstream) else {
            continue;
        };
        for call in entries(root.find(&["upstreams", upstream, "calls"])) {
            costs(&call, &credential, &known);
        }
    }
    for job in entries(root.find(&["jobs"])) {
        let named = text(job.find(&["credential"]));
        let credential = named.filter(|name| !right.credentials.contains_key(*name));
        let credential = credential.and_then(|name| root.find(&["credentials", name]));
        if let Some(upstream) = credential.and_then(|one| text(one.find(&["upstream"]))) {
            steps(&job, upstream, root);
        }
    }
}

/// The names of the limits that the requests of a credential can charge; `None` if one is no valid name.
fn limits<'a>(root: &Item<'a>, credential: &Item<'a>, upstream: &str) -> Option<BTreeSet<String>> {
    let account = |one: &Item<'a>| match text(one.find(&["account"])) {
        Some(account) => account.to_owned(),
        None => one.name().to_owned(),
    };
    let of_account = entries(root.find(&["credentials"]));
    let of_account = of_account
        .iter()
        .filter(|one| account(one) == account(credential));
    let own = of_account.flat_map(|one| entries(one.find(&["limits"])));
    let shared = entries(root.find(&["upstreams", upstream, "limits"]));
    own.chain(shared)
        .map(|limit| name(&limit).map(|()| limit.name().to_owned()))
        .collect()
}

fn costs(call: &Item<'_>, credential: &Item<'_>, known: &BTreeSet<String>) {
    for charged in entries(call.find(&["cost"])) {
        let limit = charged.name();
        if !known.contains(limit) {
            charged.refuse::<()>(
                format!("credential {:?} has no limit {limit:?}", credential.name()),
                advice(limit, known.iter().map(String::as_str)),
            );
        }
    }
}

fn steps(job: &Item<'_>, upstream: &str, root: &Item<'_>) {
    let calls = entries(root.find(&["upstreams", upstream, "calls"]));
    if calls.is_empty() {
        return;
    }
    let known: Vec<&str> = calls.iter().map(Item::name).collect();
    let Some(steps) = job.find(&["steps"]) else {
        return;
    };
    let steps = match steps.kind() {
        Kind::List(_) => steps.list().unwrap_or_default(),
        _ => Vec::new(),
    };
    for item in steps.iter().filter_map(|step| step.find(&["call"])) {
        if let Kind::Text(call) = item.kind()
            && !known.contains(&call.as_str())
        {
            item.refuse::<()>(
                format!("upstream {upstream:?} has no call of this name"),
                advice(call, known.iter().copied()),
            );
        }
    }
}

/// The entries of a table; none of what is no table, which is reported elsewhere.
fn entries(item: Option<Item<'_>>) -> Vec<Item<'_>> {
    let table = item.filter(Item::is_table);
    table.and_then(|table| table.entries()).unwrap_or_default()
}

fn text(item: Option<Item<'_>>) -> Option<&str> {
    match item?.kind() {
        Kind::Text(text) => Some(text),
        _ => None,
    }
}
