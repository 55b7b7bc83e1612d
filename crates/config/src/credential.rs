//! `[credentials.NAME]`: a secret, and the account whose quota it uses.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::declare::{
    ExactlyOne, FILE, Later, Leaf, Named as ByName, Optional, Or, Place, Required, Shape, TEXT,
    Table, Type, keys, table,
};
use super::item::{self, Item};
use super::limit::{CredentialLimit, LIMIT, Limits};
use super::names::Named;
use super::{Call, Region, Upstream};
use ingest_quota::{Account, Cost, Limit, LimitName};

/// A secret for an upstream, and the account whose quota it uses.
#[derive(Debug, Clone)]
pub struct Credential {
    pub name: String,
    /// The upstream that it is for.
    pub upstream: Arc<Upstream>,
    /// Where the secret is; `None` for an upstream that requires none.
    pub secret: Option<SecretSource>,
    /// Where further secrets are, by the NAME of their template variable `{secret:NAME}`.
    pub secrets: BTreeMap<String, SecretSource>,
    /// The account whose quota it uses, with its limits.
    pub account: Arc<Account>,
    /// The limits that its requests can charge, by their configured names: those of the account.
    pub limits: Limits,
}

impl Credential {
    /// Whether the other credential charges each limit of this one too.
    #[must_use]
    pub fn shares_limits(&self, other: &Self) -> bool {
        let mut own = self.limits.values().map(|limit| &limit.ledger_name);
        let has = |name: &LimitName| {
            other
                .limits
                .values()
                .any(|limit| limit.ledger_name == *name)
        };
        self.account.name == other.account.name && own.all(has)
    }

    /// Returns the longest time that a run sleeps for a limit, by its name in the ledger.
    #[must_use]
    pub fn wait(&self, limit: &str) -> Duration {
        self.limits
            .get(self.configured_name(limit))
            .map_or(Duration::ZERO, |limit| limit.wait)
    }

    /// Whether a limit, by its name in the ledger, only paces the requests: see [`CredentialLimit::paces`].
    #[must_use]
    pub fn is_paced_by(&self, limit: &str) -> bool {
        self.limits
            .get(self.configured_name(limit))
            .is_some_and(CredentialLimit::paces)
    }

    /// Returns `cost` by the names of its limits in the ledger, for a request for `region`.
    ///
    /// # Errors
    /// The region lacks a value of a scope, so the quota that the request would use is unknown.
    pub fn in_ledger(&self, cost: &Cost, region: &Region) -> Result<Cost, String> {
        cost.iter()
            .map(|(limit, units)| Ok((self.ledger_name(limit, region)?, units)))
            .collect()
    }

    /// Whether the names of the limits of `cost` in the ledger depend on the region.
    #[must_use]
    pub fn is_scoped(&self, cost: &Cost) -> bool {
        let mut limits = cost.limits().filter_map(|limit| self.limits.get(limit));
        limits.any(|limit| limit.scope.is_some())
    }

    /// Returns the name in the ledger of a limit, for a request for `region`.
    ///
    /// # Errors
    /// When the region lacks a value of the limit's scope.
    pub fn ledger_name(&self, limit: &LimitName, region: &Region) -> Result<LimitName, String> {
        let Some(configured) = self.limits.get(limit) else {
            return Ok(limit.clone());
        };
        configured.name_for(region).ok_or_else(|| {
            format!(
                "region {:?} has no value for the scope of limit {limit:?}",
                region.code
            )
        })
    }

    /// Returns what a job leaves to others, by the names of its limits in the ledger, for a request for `region`. Without those
    /// limits for whose scope the region has no value: such a request does not charge them.
    #[must_use]
    pub fn leave_in_ledger(&self, leave: &Cost, region: &Region) -> Cost {
        let named = |(limit, units)| Some((self.ledger_name(limit, region).ok()?, units));
        leave.iter().filter_map(named).collect()
    }

    /// Returns the call with the names of its limits in the ledger, for requests for `region`; as configured where the region
    /// lacks a value of a scope.
    #[must_use]
    pub fn call_in_ledger(&self, call: &Arc<Call>, region: &Region) -> Arc<Call> {
        let Ok(cost) = self.in_ledger(&call.cost, region) else {
            return Arc::clone(call);
        };
        if cost == call.cost {
            return Arc::clone(call);
        }
        let settle = call
            .settle
            .iter()
            .filter_map(|(limit, at)| Some((self.ledger_name(limit, region).ok()?, at.clone())));
        Arc::new(Call {
            cost,
            settle: settle.collect(),
            ..Call::clone(call)
        })
    }

    /// Returns the configured name of a limit that the ledger names. Where limits have scopes, no configured name
    /// contains the separator.
    #[must_use]
    pub fn configured_name<'a>(&self, limit: &'a str) -> &'a str {
        match limit.split_once('/') {
            Some((configured, _)) if !self.limits.contains_key(limit) => configured,
            Some(_) | None => limit,
        }
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

pub fn all(
    items: Vec<Item<'_>>,
    upstreams: &Named<Upstream>,
    regions: &[Arc<Region>],
) -> Named<Credential> {
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
    // A second pass, because each account has limits of all its credentials, also of those further down.
    Named::read(items, |item| {
        let known = own.get(item.name())?;
        let mut limits = accounts.get(&known.account).cloned().unwrap_or_default();
        // `wait` and `reported` are those of the credential, where two say different ones.
        limits.extend(known.limits.clone());
        Some(Credential {
            name: item.name().to_owned(),
            upstream: known.upstream.clone(),
            secret: known.secret.clone(),
            secrets: known.secrets.clone(),
            account: Arc::new(Account {
                name: known.account.clone(),
                limits: in_ledger(&limits, regions).collect(),
            }),
            limits,
        })
    })
}

/// Returns limits by their names in the ledger; one with a scope for each value that regions have.
fn in_ledger<'a>(
    limits: &'a Limits,
    regions: &'a [Arc<Region>],
) -> impl Iterator<Item = (LimitName, Limit)> + 'a {
    limits.values().flat_map(move |limit| {
        let scoped = limit.scope.as_ref().map(|_| regions).unwrap_or_default();
        let scoped = scoped.iter().filter_map(|region| limit.name_for(region));
        let plain = limit.scope.is_none().then(|| limit.ledger_name.clone());
        plain
            .into_iter()
            .chain(scoped)
            .map(|name| (name, limit.limit))
    })
}

/// Adds a credential's limits to those of its account. Two definitions of one limit must agree.
fn agree(item: &Item<'_>, own: &Own, account: &mut Limits) {
    for (name, limit) in &own.limits {
        let found = || item.find(&["limits", name]).unwrap_or_else(|| item.clone());
        match account.get(name) {
            None => drop(account.insert(name.clone(), limit.clone())),
            // The rest may differ: `wait` and `reported` are about the requests of one credential, not about what the
            // ledger counts.
            Some(known) if known.limit == limit.limit && known.scope == limit.scope => {}
            Some(_) => {
                let expected = format!(
                    "another credential of account {:?} defines this limit differently",
                    own.account
                );
                found().refuse::<()>(expected, "define the limits in one credential only");
            }
        }
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
    // Braces would end the hash tag that keeps the keys of an account in one slot of a Redis cluster (L47).
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
