//! `[catalog]`: where pages are stored.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::credential::SecretSource;
use super::error::Refusal;
use super::postgres_url::{PostgresUrl, PostgresUrlError};
use super::values::{As, Leaf, Span, Text, Whole, default, leaf, leaves, text};

/// `[catalog]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CatalogConfig {
    /// A file in the state directory for one machine, or a PostgreSQL that several machines share: `postgres://ROLE@HOST/DATABASE`
    /// ([docs/postgres.md](postgres.md)). Example: `url = "postgres://ingest@db.example/ingest?sslmode=verify-full"`.
    #[serde(rename = "url", default)]
    pub store: CatalogStore,
    /// Where the password of PostgreSQL is read from. If unset, `$PGPASSWORD` or a password file. Example: `password = { credential = "catalog" }`.
    pub password: Option<SecretSource>,
    /// How long a machine that died keeps its regions, from 1s to 1h. A machine that cannot reach the database sends nothing after
    /// three quarters of it. Example: `lease = "5min"`.
    #[serde(default = "default::seconds::<60>", with = "As::<Lease>")]
    pub lease: Duration,
    /// The schema of the catalog: lower-case letters, digits and `_`. Example: `schema = "news"`.
    #[serde(default = "ingest", with = "As::<SchemaName>")]
    pub schema: String,
    /// The most connections of a process for pages; its leases have one more, and so has the merging of words. One is enough: tasks
    /// then wait for each other. Example: `connections = 1`.
    #[serde(default = "default::small::<4>", with = "As::<Whole<u32, 1, 64>>")]
    pub connections: u32,
}

fn ingest() -> String {
    "ingest".to_owned()
}

/// Where the catalog is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum CatalogStore {
    /// Files in the state directory.
    #[default]
    Sqlite,
    /// A PostgreSQL database. Its URL may contain a password.
    Postgres(PostgresUrl),
}

const EXAMPLE: &str = "write \"sqlite\", or for example \"postgres://ingest@db.example/ingest\"";
const ESCAPED: &str = "in a password, write `/` as %2F, `?` as %3F, `#` as %23 and `@` as %40";

leaves!(CatalogStore);

impl Serialize for CatalogStore {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Sqlite => serializer.serialize_str("sqlite"),
            Self::Postgres(url) => serializer.collect_str(url),
        }
    }
}

/// The URL may contain a password: no message repeats it.
impl Leaf for CatalogStore {
    type Value = Self;

    fn read(raw: Value) -> Result<Self, Refusal> {
        let text = text(raw)?;
        if text == "sqlite" {
            return Ok(Self::Sqlite);
        }
        if !PostgresUrl::is_one(&text) {
            return Err(Refusal::new(
                "expected `sqlite`, postgres:// or postgresql://",
                EXAMPLE,
            ));
        }
        PostgresUrl::parse(&text)
            .map(Self::Postgres)
            .map_err(|error| match error {
                PostgresUrlError::AtBehindHost | PostgresUrlError::Port => Refusal::new(
                    "the host ends within the user, the password or the port",
                    ESCAPED,
                ),
                error => Refusal::new(format!("not a valid PostgreSQL URL: {error}"), EXAMPLE),
            })
    }

    fn schema() -> Value {
        let title = "`\"sqlite\"`, or URL of a PostgreSQL database";
        json!({ "title": title, "type": "string", "pattern": "^(sqlite$|postgres(ql)?://)" })
    }
}

leaf!(
    Lease,
    Span,
    Duration,
    |lease| (Duration::from_secs(1)..=Duration::from_secs(3600))
        .contains(&lease)
        .then_some(lease),
    "expected a duration from 1s to 1h",
    "write \"60s\"",
    Span::schema(),
    Span::written,
);

leaf!(
    SchemaName,
    Text,
    String,
    |name| {
        let is_right =
            |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
        let begins_well =
            !name.starts_with(|first: char| first.is_ascii_digit()) && !name.starts_with("pg_");
        // PostgreSQL cuts longer identifiers and keeps `pg_` for itself.
        let is_right = (1..=63).contains(&name.len()) && name.chars().all(is_right);
        (is_right && begins_well).then_some(name)
    },
    "expected lower-case letters, digits and `_`, and not a name that begins with a digit or `pg_`",
    "write \"ingest\"",
    json!({ "title": "name of a schema", "type": "string", "pattern": "^[a-z_][a-z0-9_]{0,62}$" }),
    |name| name.as_str().into(),
);

impl CatalogConfig {
    /// Whether the URL uses what is configured beside it. A catalog in files ignores all of it, as `--sandbox` needs.
    pub fn checked(&self) -> Result<(), Refusal> {
        match (&self.store, &self.password) {
            (CatalogStore::Postgres(url), Some(_)) if url.password().is_some() => {
                let remedy = "remove the password from catalog.url: postgres://ROLE@HOST/DATABASE";
                let refusal = Refusal::new("catalog.url already contains a password", remedy);
                Err(refusal.below("password"))
            }
            _ => Ok(()),
        }
    }
}
