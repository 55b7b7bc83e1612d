//! `[credentials.NAME]`: a secret, and the account whose quota it uses.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::declare::{
    DURATION, DURATION_OR_ZERO, ExactlyOne, FILE, Keys, Later, Leaf, Named as ByName, Optional, Or,
    Place, Renamed, Required, SOME_UNITS, Shape, TEXT, Table, Type, UNITS, Words, keys, table,
};
use super::field::{RESPONSE_FIELD, ResponseField};
use super::item::{self, Item};
use super::names::{Named, advice};
use super::upstream::Upstream;
use crate::quota::{Account, Calendar, Limit, LimitName, Period, Units, Window, WindowError};

/// A secret for an upstream, and the account whose quota it uses.
#[derive(Debug, Clone)]
pub struct Credential {
    /// Its name.
    pub name: String,
    /// The upstream that it is for.
    pub upstream: Arc<Upstream>,
    /// Where the secret is; `None` for an upstream that requires none.
    pub secret: Option<SecretSource>,
    /// Where further secrets are, by the NAME of their template variable `{secret:NAME}`.
    pub secrets: BTreeMap<String, SecretSource>,
    /// The account whose quota it uses, with its limits.
    pub account: Arc<Account>,
    /// What else is configured of each limit, by its name.
    pub limits: BTreeMap<LimitName, CredentialLimit>,
}

impl Credential {
    /// The longest time that a run sleeps for a limit.
    #[must_use]
    pub fn wait(&self, limit: &str) -> Duration {
        self.limits
            .get(limit)
            .map_or(Duration::ZERO, |limit| limit.wait)
    }
}

keys! {
    partial struct CredentialKeys {
        /// The upstream that the secret belongs to.
        upstream: Place = Required(Later(TEXT), "'things'"),
        /// Where to read the secret from; never the secret itself. An upstream without `auth` needs none.
        secret: Option<SecretSource> = Optional(SECRET, "{ env = 'THINGS_KEY' }"),
        /// Further secrets, by name. `{secret:NAME}` in `auth`, in a header or in a query parameter is one of them.
        secrets: BTreeMap<String, SecretSource> = Or(ByName(SECRET, "NAME"), "{}", "{ app = { env = 'APP_KEY' } }"),
        /// The account whose quota the credential uses. Two keys of one project share a quota: give both the same account. If
        /// unset, the name of the credential.
        account: Option<String> = Optional(ACCOUNT, "'my-project'"),
        /// The limits of the account, by name.
        limits: Limits = Or(ByName(LIMIT, "LIMIT"), "{}", "{ daily = { quota = 10_000, window = '24h' } }"),
    }
}

pub const CREDENTIAL: Table<CredentialKeys> = table();

/// What is configured of a limit besides its arithmetic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialLimit {
    /// The longest time that a run sleeps for the limit; a longer wait stops the run.
    pub wait: Duration,
    /// The upstream's name for the limit, in a response that reports it exhausted.
    pub upstream_name: Option<String>,
    /// Where responses report its state; `None` if the upstream reports nothing.
    pub reported: Option<ReportedHeaders>,
}

keys! {
    struct LimitKeys {
        /// The units that the upstream grants.
        quota: Units = Required(SOME_UNITS, "10_000"),
        /// Units of the quota that are never used: for other clients of the account, and for requests that the two sides count
        /// on different sides of midnight.
        headroom: Units = Or(UNITS, "0", "500"),
        /// The length of the sliding window: no span of this length contains more than the quota. A limit has `window`,
        /// `resets`, or both.
        window: Option<Duration> = Optional(DURATION, "'24h'"),
        /// The time zone whose calendar resets the quota: at midnight, unless `period` names another.
        resets: Option<chrono_tz::Tz> = Optional(ZONE, "'America/Los_Angeles'"),
        /// The calendar period over which a limit with `resets` counts.
        period: Option<Period> = Optional(Words(PERIODS), "'month'"),
        /// The longest time that a run sleeps for this limit. A longer wait stops the run.
        wait: Duration = Or(DURATION_OR_ZERO, "'2s'", "'1min'"),
        /// The upstream's name for this limit, in responses that report it exhausted.
        upstream_name: Option<String> = Optional(TEXT, "'defaultPerDayPerProject'"),
        /// Where responses report the remaining units: in headers or in the body. If less is reported than the ledger counts, the ledger takes
        /// the reported value.
        reported: Option<ReportedHeaders> = Renamed(Optional(table::<ReportedHeaders>(), "{ remaining = 'x-ratelimit-remaining' }"), "told"),
    }
}

const PERIODS: &[(&str, Period, &str)] = &[
    ("hour", Period::Hour, "From one full hour to the next."),
    (
        "day",
        Period::Day,
        "From midnight to midnight. The default.",
    ),
    ("week", Period::Week, "From Monday to Monday."),
    (
        "month",
        Period::Month,
        "From the first of a month to the first of the next.",
    ),
];

/// The schema accepts what a [`Window`] does: one that slides, or has a time zone, or both.
const LIMIT: Leaf<(Limit, CredentialLimit)> = Leaf {
    read: limit,
    shape: || {
        let either = json!([{ "required": ["window"] }, { "required": ["resets"] }]);
        Shape::table(LimitKeys::keys())
            .with("anyOf", either)
            .with("dependentRequired", json!({ "period": ["resets"] }))
    },
};

keys! {
    /// Where responses report the state of a limit.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ReportedHeaders {
        /// The header with the remaining units, or a JSON pointer into the body.
        remaining: ResponseField = Required(RESPONSE_FIELD, "'x-ratelimit-remaining'"),
        /// Where the response reports the time at which all units return: in RFC 3339, as an HTTP date, in seconds or
        /// milliseconds since 1970, or in seconds from now.
        reset: Option<ResponseField> = Optional(RESPONSE_FIELD, "'x-ratelimit-reset'"),
        /// The header with the `upstream_name` (or else the name) of the limit. If unset, every response is about this limit.
        resource: Option<ResponseField> = Optional(RESPONSE_FIELD, "'x-ratelimit-resource'"),
    }
}

/// Where a secret is. The secret itself is never part of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretSource {
    /// An environment variable.
    Env(String),
    /// A file, without its trailing newline.
    File(PathBuf),
    /// A file of this name in `$CREDENTIALS_DIRECTORY` (systemd's `LoadCredential`).
    Credential(String),
    /// The output of a command, without its trailing newline.
    Command(Vec<String>),
}

keys! {
    struct SecretKeys {
        /// The environment variable with the secret. The variable with `_FILE` appended may name a file instead.
        env: Option<String> = Optional(VARIABLE, "'THINGS_KEY'"),
        /// The file with the secret. Only its owner may be able to read it.
        file: Option<PathBuf> = Optional(FILE, "'/etc/ingest/things.key'"),
        /// The name of a `LoadCredential=` entry of the systemd unit.
        credential: Option<String> = Optional(SYSTEMD, "'things-key'"),
        /// A program that prints the secret, and its arguments.
        command: Option<Vec<String>> = Optional(COMMAND, "['pass', 'show', 'things']"),
    }
}

const SECRET_REMEDY: &str = "write { env = \"NAME\" }, { file = \"/path\" }, { credential = \"name\" } or { command = [\"program\"] }";
const SECRET_KEYS: ExactlyOne<SecretKeys> = ExactlyOne(table(), SECRET_REMEDY);
pub const SECRET: Leaf<SecretSource> = Leaf {
    read: secret,
    shape: || SECRET_KEYS.shape(),
};

fn secret(item: Item<'_>) -> Option<SecretSource> {
    if !item.is_table() {
        return item.refuse(
            "expected the place of the secret: the secret itself must not be in this file",
            SECRET_REMEDY,
        );
    }
    let keys = SECRET_KEYS.read(item)?;
    let env = keys.env.map(SecretSource::Env);
    env.or(keys.file.map(SecretSource::File))
        .or(keys.credential.map(SecretSource::Credential))
        .or(keys.command.map(SecretSource::Command))
}

/// What a credential says itself; what another one says of the same account is added later.
struct Own {
    upstream: Arc<Upstream>,
    secret: Option<SecretSource>,
    secrets: BTreeMap<String, SecretSource>,
    account: String,
    limits: Limits,
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

/// Adds a credential's limits to those of its account. Two definitions of one limit must agree.
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
        secrets: own.secrets.clone(),
        account: Arc::new(Account {
            name: own.account.clone(),
            limits,
        }),
        limits: all.iter().map(more).collect(),
    }
}

fn credential(item: Item<'_>, upstreams: &Named<Upstream>) -> Option<Own> {
    let keys = CREDENTIAL.read(item.clone())?;
    let upstream = keys
        .upstream
        .and_then(|place| upstreams.named_by(&place.item(&item.root())?, "upstream"));
    Some(Own {
        upstream: upstream?,
        secret: keys.secret?,
        secrets: keys.secrets?,
        account: keys.account?.unwrap_or_else(|| item.name().to_owned()),
        limits: keys.limits?,
    })
}

const ACCOUNT: Leaf<String> = Leaf {
    read: account,
    shape: || Shape::scalar("string", json!({ "type": "string", "minLength": 1 })),
};

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

const VARIABLE: Leaf<String> = Leaf {
    read: variable,
    shape: || {
        Shape::scalar(
            "name of an environment variable",
            json!({ "type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$" }),
        )
    },
};

fn variable(item: Item<'_>) -> Option<String> {
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

const SYSTEMD: Leaf<String> = Leaf {
    read: systemd,
    shape: || Shape::scalar("string", json!({ "type": "string", "pattern": "^[^/]+$" })),
};

fn systemd(item: Item<'_>) -> Option<String> {
    let text = item.filled_text()?;
    if text.contains('/') || text == "." || text == ".." {
        return item.refuse(
            "expected the name of a LoadCredential= entry, without a slash",
            "write for example \"api-key\"",
        );
    }
    Some(text)
}

const COMMAND: Leaf<Vec<String>> = Leaf {
    read: command_line,
    shape: || {
        Shape::scalar(
            "list of strings",
            json!({ "type": "array", "items": { "type": "string" }, "minItems": 1 }),
        )
    },
};

fn command_line(item: Item<'_>) -> Option<Vec<String>> {
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

fn limit(item: Item<'_>) -> Option<(Limit, CredentialLimit)> {
    let keys = table::<LimitKeys>().read(item.clone())?;
    if keys.resets.is_none() && keys.period.is_some() {
        return item.lacks("resets", "the time zone of the period, such as \"UTC\"");
    }
    let period = keys.period.unwrap_or_default();
    let resets = keys.resets.map(|zone| Calendar::new(zone, period));
    let window = match Window::new(keys.window, resets) {
        Ok(window) => window,
        Err(WindowError::Missing) => {
            return item.lacks("window", "\"24h\", or resets = \"UTC\", or both");
        }
        Err(error) => return item.refuse(error, "write window = \"24h\""),
    };
    let more = CredentialLimit {
        wait: keys.wait,
        upstream_name: keys.upstream_name,
        reported: keys.reported,
    };
    match Limit::new(keys.quota, keys.headroom, window) {
        Ok(limit) => Some((limit, more)),
        Err(error) => item
            .find(&["headroom"])?
            .refuse(error, "write a headroom below the quota"),
    }
}

/// A time zone by its name in the time zone database, in that very case.
const ZONE: Leaf<chrono_tz::Tz> = Leaf {
    read: zone,
    shape: || Shape::scalar("time zone", json!({ "type": "string", "minLength": 1 })),
};

fn zone(item: Item<'_>) -> Option<chrono_tz::Tz> {
    let text = item.text()?;
    match text.parse() {
        Ok(zone) => Some(zone),
        Err(_) => item.refuse("expected a time zone", advice_on_zone(text)),
    }
}

fn advice_on_zone(text: &str) -> String {
    // An abbreviation is close to many names, and none of them is meant: `EST` has no daylight saving time.
    if (3..=5).contains(&text.len()) && text.chars().all(|letter| letter.is_ascii_uppercase()) {
        return "write the name of a zone, such as \"America/Los_Angeles\" or \"UTC\"".to_owned();
    }
    match advice(text, chrono_tz::TZ_VARIANTS.iter().map(|zone| zone.name())) {
        meant if meant.starts_with("did you mean") => meant,
        _ => "write for example \"America/Los_Angeles\" or \"UTC\"".to_owned(),
    }
}
