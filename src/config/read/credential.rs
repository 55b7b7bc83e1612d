//! `[credentials.X]`

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::scalars::{any_duration, duration, name, some_units, units};
use super::upstream::header_name;
use crate::config::item::{self, Item};
use crate::config::names::{Named, advice};
use crate::config::section::Section;
use crate::config::{Auth, Credential, CredentialLimit, ReportedHeaders, SecretSource, Upstream};
use crate::quota::{Account, Limit, LimitName, Units, Window, WindowError};

pub const KEYS: [&str; 4] = ["upstream", "secret", "account", "limits"];
pub const SECRET_KEYS: [&str; 4] = ["env", "file", "credential", "command"];
pub const LIMIT_KEYS: [&str; 8] = [
    "quota",
    "headroom",
    "window",
    "resets",
    "wait",
    "upstream_name",
    "reported",
    "told",
];
pub const REPORTED_KEYS: [&str; 3] = ["remaining", "reset", "resource"];
const WAIT: Duration = Duration::from_secs(2);

/// What a credential says of itself; what another one says of the same account is added later.
struct Own {
    upstream: Arc<Upstream>,
    secret: Option<SecretSource>,
    account: String,
    limits: BTreeMap<LimitName, (Limit, CredentialLimit)>,
}

type Limits = BTreeMap<LimitName, (Limit, CredentialLimit)>;

pub fn all(items: Vec<Item<'_>>, upstreams: &Named<Upstream>) -> Named<Credential> {
    let mut own: BTreeMap<String, Own> = BTreeMap::new();
    let mut accounts: BTreeMap<String, Limits> = BTreeMap::new();
    for item in &items {
        let Some(read) = credential(item.clone(), upstreams) else {
            continue;
        };
        agree(
            item,
            &read,
            accounts.entry(read.account.clone()).or_default(),
        );
        own.insert(item.name().to_owned(), read);
    }
    Named::read(items, |item| {
        Some(complete(item.name(), own.get(item.name())?, &accounts))
    })
}

/// Adds a credential's limits to those of its account. Two that say different things about one limit cannot both be right.
fn agree(item: &Item<'_>, own: &Own, account: &mut Limits) {
    for (name, (limit, more)) in &own.limits {
        match account.get(name) {
            None => drop(account.insert(name.clone(), (*limit, more.clone()))),
            Some((known, _)) if known == limit => {}
            Some(_) => {
                let found = item.find(&["limits", name]).unwrap_or_else(|| item.clone());
                let expected = format!(
                    "another credential of account {:?} defines this limit differently",
                    own.account
                );
                found.refuse::<()>(expected, "define the limits in one credential only");
            }
        }
    }
}

fn complete(name: &str, own: &Own, accounts: &BTreeMap<String, Limits>) -> Credential {
    let all = accounts.get(&own.account).unwrap_or(&own.limits);
    let more = |(name, (_, more)): (&LimitName, &(Limit, CredentialLimit))| {
        let own = own.limits.get(name).map_or(more, |(_, own)| own);
        (name.clone(), own.clone())
    };
    let limits = all
        .iter()
        .map(|(name, (limit, _))| (name.clone(), *limit))
        .collect();
    Credential {
        name: name.to_owned(),
        upstream: own.upstream.clone(),
        secret: own.secret.clone(),
        secrets: BTreeMap::new(),
        account: Arc::new(Account {
            name: own.account.clone(),
            limits,
        }),
        limits: all.iter().map(more).collect(),
    }
}

fn credential(item: Item<'_>, upstreams: &Named<Upstream>) -> Option<Own> {
    let own_name = item.name().to_owned();
    let section = item.table(&KEYS)?;
    let upstream = section.required("upstream", "\"NAME\"", |item| {
        upstreams.named_by(&item, "upstream")
    });
    let secret = section.optional("secret", secret);
    let account = section.or("account", own_name, account);
    let limits = section.or("limits", Limits::new(), limits);
    let (upstream, secret) = (upstream?, secret?);
    match (&upstream.auth, &secret, section.get("secret")) {
        (Auth::None, Some(_), Some(item)) => item.refuse(
            format!(
                "upstream {:?} has no `auth`: the secret would never be sent",
                upstream.name
            ),
            "add `auth` to the upstream, or remove the secret",
        ),
        (Auth::None, ..) | (_, Some(_), _) => Some(Own {
            upstream,
            secret,
            account: account?,
            limits: limits?,
        }),
        _ => section.0.lacks("secret", "{ env = \"VARIABLE\" }"),
    }
}

fn account(item: Item<'_>) -> Option<String> {
    let text = item.filled_text()?;
    if text.contains(['{', '}']) || text.len() > 200 {
        return item.refuse(
            "expected a name of at most 200 bytes without braces",
            "write another name",
        );
    }
    Some(text)
}

pub fn secret(item: Item<'_>) -> Option<SecretSource> {
    let ways = "write { env = \"NAME\" }, { file = \"/path\" }, { credential = \"name\" } or { command = [\"program\"] }";
    if !item.is_table() {
        return item.refuse(
            "expected the place of the secret: the secret itself must not be in this file",
            ways,
        );
    }
    let section = item.clone().table(&SECRET_KEYS)?;
    let ways_given = SECRET_KEYS.map(|key| section.get(key));
    match ways_given {
        [Some(env), None, None, None] => variable(&env).map(SecretSource::Env),
        [None, Some(file), None, None] => file
            .filled_text()
            .map(|path| SecretSource::File(path.into())),
        [None, None, Some(name), None] => systemd(&name).map(SecretSource::Credential),
        [None, None, None, Some(command)] => command_line(&command).map(SecretSource::Command),
        _ => item.refuse(
            "expected exactly one of env, file, credential, command",
            ways,
        ),
    }
}

fn variable(item: &Item<'_>) -> Option<String> {
    let text = item.filled_text()?;
    let right = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    if !text.chars().all(right) || text.starts_with(|first: char| first.is_ascii_digit()) {
        return item.refuse(
            "expected the name of an environment variable",
            "write for example \"API_KEY\"",
        );
    }
    Some(text)
}

fn systemd(item: &Item<'_>) -> Option<String> {
    let text = item.filled_text()?;
    if text.contains('/') || text == "." || text == ".." {
        return item.refuse(
            "expected the name of a LoadCredential= entry, without a slash",
            "write for example \"api-key\"",
        );
    }
    Some(text)
}

fn command_line(item: &Item<'_>) -> Option<Vec<String>> {
    let words: Vec<String> = item::all(
        item.list()?
            .iter()
            .map(|word| word.text().map(str::to_owned)),
    )?;
    match words.first() {
        Some(program) if !program.is_empty() => Some(words),
        _ => item.refuse(
            "expected a list: a program and its arguments",
            "write for example [\"pass\", \"show\", \"api-key\"]",
        ),
    }
}

fn limits(item: Item<'_>) -> Option<Limits> {
    item::all(item.entries()?.into_iter().map(|item| {
        name(&item)?;
        Some((item.name().to_owned(), limit(item)?))
    }))
}

fn limit(item: Item<'_>) -> Option<(Limit, CredentialLimit)> {
    let section = item.clone().table(&LIMIT_KEYS)?;
    let quota = section.required("quota", "10_000", some_units);
    let headroom = section.or("headroom", Units::ZERO, units);
    let window = section.optional("window", duration);
    let resets = section.optional("resets", zone);
    let wait = section.or("wait", WAIT, any_duration);
    let upstream_name = section.optional("upstream_name", |item| item.filled_text());
    let reported = reported(&section);
    let more = CredentialLimit {
        wait: wait?,
        upstream_name: upstream_name?,
        reported: reported?,
    };
    let window = match Window::new(window?, resets?) {
        Ok(window) => window,
        Err(WindowError::Missing) => {
            return section
                .0
                .lacks("window", "\"24h\", or resets = \"UTC\", or both");
        }
        Err(error) => return item.refuse(error, "write window = \"24h\""),
    };
    match Limit::new(quota?, headroom?, window) {
        Ok(limit) => Some((limit, more)),
        Err(error) => section
            .get("headroom")?
            .refuse(error, "write a headroom below the quota"),
    }
}

/// The key `reported`, or its former name `told`.
fn reported(limit: &Section<'_>) -> Option<Option<ReportedHeaders>> {
    match (limit.get("reported"), limit.get("told")) {
        (Some(_), Some(former)) => former.refuse(
            "`told` is the former name of `reported`, and both are present",
            "remove `told`",
        ),
        (Some(item), None) | (None, Some(item)) => reported_headers(item).map(Some),
        (None, None) => Some(None),
    }
}

/// The response headers that report the state of the limit.
fn reported_headers(item: Item<'_>) -> Option<ReportedHeaders> {
    let section = item.table(&REPORTED_KEYS)?;
    let header = |item: Item<'_>| header_name(&item, item.text()?);
    let remaining = section.required("remaining", "\"x-ratelimit-remaining\"", header);
    let reset = section.optional("reset", header);
    let resource = section.optional("resource", header);
    Some(ReportedHeaders {
        remaining: remaining?,
        reset: reset?,
        resource: resource?,
    })
}

/// A time zone by its name in the time zone database, in that very case.
fn zone(item: Item<'_>) -> Option<chrono_tz::Tz> {
    let text = item.text()?;
    match text.parse() {
        Ok(zone) => Some(zone),
        Err(_) => item.refuse("expected a time zone", advice_on_zone(text)),
    }
}

fn advice_on_zone(text: &str) -> String {
    // An abbreviation has many neighbours, and none of them is meant: `EST` knows no summer.
    if (3..=5).contains(&text.len()) && text.chars().all(|letter| letter.is_ascii_uppercase()) {
        return "write the name of a zone, such as \"America/Los_Angeles\" or \"UTC\"".to_owned();
    }
    match advice(text, chrono_tz::TZ_VARIANTS.iter().map(|zone| zone.name())) {
        meant if meant.starts_with("did you mean") => meant,
        _ => "write for example \"America/Los_Angeles\" or \"UTC\"".to_owned(),
    }
}
