//! `[credentials.NAME]`: a secret, and the account whose quota it uses.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::document::Document;
use super::entries::Entries;
use super::error::Refusal;
use super::limit::{CredentialLimit, Limits};
use super::upstream::exactly_one;
use super::values::{As, Either, File, Filled, Leaf, List, Named, Text, described, leaf};
use super::{Call, Leave, Region, Upstream};
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
    pub fn wait(&self, limit: &str) -> Duration {
        self.limits
            .get(self.configured_name(limit))
            .map_or(Duration::ZERO, |limit| limit.wait)
    }

    /// Whether a limit, by its name in the ledger, only paces the requests: see [`CredentialLimit::paces`].
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
        let mut sum = Cost::none();
        for (limit, units) in cost.iter() {
            // A cost can name one limit by both of its names.
            sum.add(&Cost::from_iter([(
                self.ledger_name(limit, region)?,
                units,
            )]));
        }
        Ok(sum)
    }

    /// Whether the names of the limits of `cost` in the ledger depend on the region.
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
    pub fn leave_in_ledger(&self, leave: &Leave, region: &Region) -> Cost {
        let named = |(limit, units)| Some((self.ledger_name(limit, region).ok()?, units));
        leave.of(self).iter().filter_map(named).collect()
    }

    /// Returns the call with the names of its limits in the ledger, for requests for `region`; as configured where the region
    /// lacks a value of a scope.
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
    pub fn configured_name<'a>(&self, limit: &'a str) -> &'a str {
        match limit.split_once('/') {
            Some((configured, _)) if !self.limits.contains_key(limit) => configured,
            Some(_) | None => limit,
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CredentialKeys {
    /// The upstream that the secret belongs to. Example: `upstream = "things"`.
    #[serde(with = "As::<Filled>")]
    upstream: String,
    /// Where the secret is read from. An upstream without `auth` needs none. Example: `secret = { env = "THINGS_KEY" }`.
    secret: Option<SecretSource>,
    /// Further secrets, for `{secret:NAME}` in `auth`, headers, query parameters and bodies. Example: `secrets = { app = { env = "APP_KEY" } }`.
    #[serde(default, with = "Named::<SecretSource>")]
    secrets: BTreeMap<String, SecretSource>,
    /// The account whose quota the credential uses; keys that share a quota have the same. If unset, the name of the credential.
    /// Example: `account = "my-project"`.
    #[serde(default, with = "As::<Option<AccountName>>")]
    account: Option<String>,
    /// The limits of the account, by name. Example: `limits = { daily = { quota = 10_000, window = "24h" } }`.
    #[serde(default, with = "Named::<CredentialLimit>")]
    limits: Limits,
}

/// Where a secret is. The secret itself is never part of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Either<NoSecret, SecretKeys>")]
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

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
struct SecretKeys {
    /// The environment variable with the secret; the one with `_FILE` appended may name a file instead. Example: `env = "THINGS_KEY"`.
    #[serde(default, with = "As::<Option<EnvName>>")]
    pub env: Option<String>,
    /// The file with the secret. Only its owner may be able to read it. Example: `file = "/etc/ingest/things.key"`.
    #[serde(default, with = "As::<Option<File>>")]
    pub file: Option<PathBuf>,
    /// The name of a `LoadCredential=` entry of the systemd unit. Example: `credential = "things-key"`.
    #[serde(default, with = "As::<Option<SystemdName>>")]
    pub credential: Option<String>,
    /// A program that prints the secret, and its arguments. Example: `command = ["pass", "show", "things"]`.
    #[serde(default, with = "As::<Option<CommandLine>>")]
    pub command: Option<Vec<String>>,
}

const SECRET_REMEDY: &str = "write { env = \"NAME\" }, { file = \"/path\" }, { credential = \"name\" } or { command = [\"program\"] }";

/// A secret that was written into the file.
struct NoSecret;

impl Leaf for NoSecret {
    type Value = SecretSource;

    fn read(_: Value) -> Result<SecretSource, Refusal> {
        Err(Refusal::new(
            "expected the place of the secret: the secret itself must not be in this file",
            SECRET_REMEDY,
        ))
    }

    fn schema() -> Value {
        json!(false)
    }
}

described!(SecretSource: Either<NoSecret, SecretKeys>);

impl TryFrom<Either<NoSecret, SecretKeys>> for SecretSource {
    type Error = Refusal;

    fn try_from(keys: Either<NoSecret, SecretKeys>) -> Result<Self, Refusal> {
        let keys = match keys {
            Either::Text(source) => return Ok(source),
            Either::Table(keys) => keys,
        };
        let places = [
            keys.env.map(Self::Env),
            keys.file.map(Self::File),
            keys.credential.map(Self::Credential),
            keys.command.map(Self::Command),
        ];
        exactly_one(places, "env, file, credential, command", SECRET_REMEDY)
    }
}

/// Reads the credentials, each with the limits of its account.
pub fn all(
    document: &Document<'_>,
    upstreams: &Entries<Upstream>,
    regions: &[Arc<Region>],
) -> Entries<Credential> {
    // What a credential says itself; what another one says of the same account is added below.
    let own = Entries::read(document, &["credentials"], |path| {
        let keys: CredentialKeys = document.table(path, &[])?;
        let place = [path, &["upstream"]].concat();
        let upstream = upstreams.named(&keys.upstream, "upstream", document, &place)?;
        let name = path.last().copied().unwrap_or_default().to_owned();
        let mut limits = keys.limits;
        for (name, limit) in &mut limits {
            limit.ledger_name.clone_from(name);
        }
        Some(Credential {
            account: Arc::new(Account {
                name: keys.account.unwrap_or_else(|| name.clone()),
                limits: BTreeMap::new(),
            }),
            name,
            upstream,
            secret: keys.secret,
            secrets: keys.secrets,
            limits,
        })
    });
    let mut accounts: BTreeMap<String, Limits> = BTreeMap::new();
    for name in own.written() {
        if let Some(read) = own.right.get(name) {
            let account = accounts.entry(read.account.name.clone()).or_default();
            agree(document, read, account);
        }
    }
    // A second pass, because each account has limits of all its credentials, also of those further down.
    own.map(|known| {
        let name = known.account.name.clone();
        let mut limits = accounts.get(&name).cloned().unwrap_or_default();
        // `wait` and `reported` are those of the credential, where two say different ones.
        limits.extend(known.limits.clone());
        Credential {
            account: Arc::new(Account {
                name,
                limits: in_ledger(&limits, regions).collect(),
            }),
            limits,
            ..known.clone()
        }
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
fn agree(document: &Document<'_>, own: &Credential, account: &mut Limits) {
    for (name, limit) in &own.limits {
        match account.get(name) {
            None => drop(account.insert(name.clone(), limit.clone())),
            // The rest may differ: `wait` and `reported` are about the requests of one credential, not about what the
            // ledger counts.
            Some(known) if known.limit == limit.limit && known.scope == limit.scope => {}
            Some(_) => document.refuse(
                &["credentials", &own.name, "limits", name],
                format!(
                    "another credential of account {:?} defines this limit differently",
                    own.account.name
                ),
                "define the limits in one credential only",
            ),
        }
    }
}

// Braces would end the hash tag that keeps the keys of an account in one slot of a Redis cluster (L47).
leaf!(
    AccountName,
    Filled,
    String,
    |text| (!text.contains(['{', '}']) && text.len() <= 200).then_some(text),
    "expected a name of at most 200 bytes without braces",
    "write another name",
    Filled::schema(),
);

/// Whether a text is more likely the secret than the name of the variable that has it. A name is in messages, logs and reports.
fn is_like_a_secret(text: &str) -> bool {
    /// The fewest characters of a key, in practice.
    const FEWEST: usize = 20;
    let has = |is: fn(&u8) -> bool| text.bytes().any(|byte| is(&byte));
    text.len() >= FEWEST && has(u8::is_ascii_lowercase) && has(u8::is_ascii_digit)
}

leaf!(
    EnvName,
    Filled,
    String,
    |text| {
        let is_right = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let begins_well = !text.starts_with(|first: char| first.is_ascii_digit());
        (begins_well && text.chars().all(is_right) && !is_like_a_secret(&text)).then_some(text)
    },
    "expected the name of an environment variable",
    "write for example \"API_KEY\"",
    json!({
        "title": "name of an environment variable",
        "type": "string",
        "pattern": "^[A-Za-z_][A-Za-z0-9_]*$",
    }),
);

leaf!(
    SystemdName,
    Filled,
    String,
    |text| (!text.contains('/') && text != "." && text != "..").then_some(text),
    "expected the name of a LoadCredential= entry, without a slash",
    "write for example \"api-key\"",
    json!({ "type": "string", "pattern": "^[^/]+$" }),
);

// A program and its arguments.
leaf!(
    CommandLine,
    List::<Text, 0>,
    Vec<String>,
    |words| {
        let has_program = words.first().is_some_and(|program| !program.is_empty());
        has_program.then_some(words)
    },
    "expected a list: a program and its arguments",
    "write for example [\"pass\", \"show\", \"api-key\"]",
    json!({ "type": "array", "items": { "type": "string" }, "minItems": 1 }),
);
