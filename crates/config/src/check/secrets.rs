//! Every secret that a request contains exists, and every configured secret is sent.

use super::call_in;
use crate::item::Item;
use crate::tree::Kind;
use crate::{Auth, Config, Credential, Template};

/// A variable `{secret:NAME}`, or `{secret}` without a name, and where it was written.
type Use<'a> = (Item<'a>, Option<String>);

pub fn secrets(config: &Config, root: &Item<'_>) {
    for upstream in config.upstreams.values() {
        for call in upstream.calls.values() {
            let call = call_in(root, upstream, call);
            // Paths are in logs and in the identities of requests, and records are stored.
            let places = ["path", "records"].map(|key| call.as_ref()?.find(&[key]));
            places.iter().flatten().for_each(only_where_it_is_sent);
        }
    }
    for credential in config.credentials.values() {
        let uses = uses_of(config, credential, root);
        if let Some(item) = root.find(&["credentials", &credential.name]) {
            are_present(credential, &item, &uses);
            are_used(credential, &item, &uses);
        }
    }
}

/// Where templates of a credential's requests name secrets.
fn uses_of<'a>(config: &Config, credential: &Credential, root: &Item<'a>) -> Vec<Use<'a>> {
    let upstream = root.find(&["upstreams", &credential.upstream.name]);
    let jobs = config.jobs.iter();
    let jobs = jobs.filter(|job| job.credentials().any(|one| one.name == credential.name));
    let jobs = jobs.filter_map(|job| root.find(&["jobs", &job.name]));
    let mut uses = Vec::new();
    for item in upstream.into_iter().chain(jobs) {
        collect(&item, &mut uses);
    }
    uses
}

fn collect<'a>(item: &Item<'a>, uses: &mut Vec<Use<'a>>) {
    // An item of each value takes longer to make than all values take to look through.
    if !has_template(item.kind()) {
        return;
    }
    match item.kind() {
        Kind::Text(text) => {
            let template = Template::parse(text).ok();
            for name in template.iter().flat_map(Template::secrets) {
                uses.push((item.clone(), name.map(str::to_owned)));
            }
        }
        Kind::List(_) => {
            let elements = item.list().into_iter().flatten();
            elements.for_each(|element| collect(&element, uses));
        }
        Kind::Table(_) => {
            let entries = item.entries().into_iter().flatten();
            entries.for_each(|entry| collect(&entry, uses));
        }
        Kind::Integer(_) | Kind::Float(..) | Kind::Bool(_) | Kind::Date(_) => {}
    }
}

/// Whether any text within a value can name a secret.
fn has_template(kind: &Kind) -> bool {
    match kind {
        Kind::Text(text) => text.contains("{secret"),
        Kind::List(nodes) => nodes.iter().any(|node| has_template(&node.kind)),
        Kind::Table(entries) => entries.iter().any(|entry| has_template(&entry.node.kind)),
        Kind::Integer(_) | Kind::Float(..) | Kind::Bool(_) | Kind::Date(_) => false,
    }
}

fn only_where_it_is_sent(item: &Item<'_>) {
    let mut uses = Vec::new();
    collect(item, &mut uses);
    for (item, _) in uses {
        item.refuse::<()>(
            "a secret is sent in a header, a parameter or a body only",
            "move it into `headers` or `params`",
        );
    }
}

fn are_present(credential: &Credential, item: &Item<'_>, uses: &[Use<'_>]) {
    let own = || (credential.upstream.auth.sends_secret(), &credential.secret);
    if matches!(own(), (true, None)) {
        item.lacks::<()>("secret", "{ env = \"VARIABLE\" }");
    }
    for (_, name) in uses {
        match name {
            None if credential.secret.is_none() => {
                item.lacks::<()>("secret", "{ env = \"VARIABLE\" }");
            }
            Some(name) if !credential.secrets.contains_key(name) => {
                match item.find(&["secrets"]) {
                    Some(secrets) => secrets.lacks::<()>(name, "{ env = \"VARIABLE\" }"),
                    None => {
                        let example = format!("{{ {name} = {{ env = \"VARIABLE\" }} }}");
                        item.lacks("secrets", &example)
                    }
                };
            }
            None | Some(_) => {}
        }
    }
}

fn are_used(credential: &Credential, item: &Item<'_>, uses: &[Use<'_>]) {
    let is_used = |wanted: Option<&str>| uses.iter().any(|(_, name)| name.as_deref() == wanted);
    let upstream = &credential.upstream;
    if let Some(secret) = item.find(&["secret"])
        && !upstream.auth.sends_secret()
        && !is_used(None)
    {
        let (name, contains) = match upstream.auth {
            Auth::None => (&upstream.name, "has no `auth`"),
            _ => (&upstream.name, "does not use `{secret}` in its `auth`"),
        };
        secret.refuse::<()>(
            format!("upstream {name:?} {contains}: the secret would never be sent"),
            "write {secret} into `auth`, a header, a parameter or a body, or remove the secret",
        );
    }
    for name in credential
        .secrets
        .keys()
        .filter(|name| !is_used(Some(name)))
    {
        if let Some(secret) = item.find(&["secrets", name]) {
            secret.refuse::<()>(
                format!("no request contains {{secret:{name}}}: it would never be sent"),
                "remove it, or write it into a header, a parameter, a body or `auth`",
            );
        }
    }
}
