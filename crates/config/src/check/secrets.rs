//! Every secret that a request contains exists, and every configured secret is sent.

use std::collections::BTreeSet;

use crate::document::Document;
use crate::{Auth, Config, Credential, Template};

const VARIABLE: &str = "{ env = \"VARIABLE\" }";

/// Paths are in logs and in the identities of requests, and records are stored.
pub fn are_sent_only(config: &Config, document: &Document<'_>) {
    for upstream in config.upstreams.values() {
        for call in upstream.calls.values() {
            for key in ["path", "records"] {
                let path = ["upstreams", &upstream.name, "calls", &call.name, key];
                only_where_it_is_sent(&path, document);
            }
        }
    }
}

pub fn exist_and_are_sent(config: &Config, document: &Document<'_>) {
    for credential in config.credentials.values() {
        let uses = uses_of(config, credential, document);
        are_present(credential, document, &uses);
        are_used(credential, document, &uses);
    }
}

/// The secrets that templates of a credential's requests name; `None` is its `secret`.
fn uses_of(
    config: &Config,
    credential: &Credential,
    document: &Document<'_>,
) -> BTreeSet<Option<String>> {
    let jobs = config.jobs.iter();
    let jobs = jobs.filter(|job| job.credentials().any(|one| one.name == credential.name));
    let jobs = jobs.map(|job| ["jobs", &job.name]);
    let places = std::iter::once(["upstreams", &credential.upstream.name]).chain(jobs);
    let texts = places.flat_map(|place| document.texts_with("{secret", &place));
    texts.flat_map(|(_, text)| named_in(text)).collect()
}

fn named_in(text: &str) -> Vec<Option<String>> {
    let template = Template::parse(text).ok();
    let secrets = template.iter().flat_map(Template::secrets);
    secrets.map(|name| name.map(str::to_owned)).collect()
}

fn only_where_it_is_sent(path: &[&str], document: &Document<'_>) {
    let texts = document.texts_with("{secret", path);
    for (place, _) in texts.iter().filter(|(_, text)| !named_in(text).is_empty()) {
        document.refuse(
            place,
            "a secret is sent in a header, a parameter or a body only",
            "move it into `headers` or `params`",
        );
    }
}

fn are_present(credential: &Credential, document: &Document<'_>, uses: &BTreeSet<Option<String>>) {
    let path = ["credentials", &credential.name];
    if credential.secret.is_none()
        && (credential.upstream.auth.sends_secret() || uses.contains(&None))
    {
        document.lacks(&path, "secret", VARIABLE);
    }
    for name in uses.iter().flatten() {
        let secrets = [&path[..], &["secrets"]].concat();
        match document.has(&secrets) {
            _ if credential.secrets.contains_key(name) => {}
            true => document.lacks(&secrets, name, VARIABLE),
            false => document.lacks(&path, "secrets", &format!("{{ {name} = {VARIABLE} }}")),
        }
    }
}

fn are_used(credential: &Credential, document: &Document<'_>, uses: &BTreeSet<Option<String>>) {
    let upstream = &credential.upstream;
    if credential.secret.is_some() && !upstream.auth.sends_secret() && !uses.contains(&None) {
        let contains = match upstream.auth {
            Auth::None => "has no `auth`",
            _ => "does not use `{secret}` in its `auth`",
        };
        document.refuse(
            &["credentials", &credential.name, "secret"],
            format!(
                "upstream {:?} {contains}: the secret would never be sent",
                upstream.name
            ),
            "write {secret} into `auth`, a header, a parameter or a body, or remove the secret",
        );
    }
    let secrets = credential.secrets.keys();
    for name in secrets.filter(|name| !uses.contains(&Some((*name).clone()))) {
        document.refuse(
            &["credentials", &credential.name, "secrets", name],
            format!("no request contains {{secret:{name}}}: it would never be sent"),
            "remove it, or write it into a header, a parameter, a body or `auth`",
        );
    }
}
