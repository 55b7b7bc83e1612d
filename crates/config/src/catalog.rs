//! `[catalog]`: where pages are stored.

use std::time::Duration;

use serde_json::json;

use super::credential::{SECRET, SecretSource};
use super::declare::{AndThen, DURATION, Leaf, Optional, Or, Shape, Table, keys, table};
use super::item::Item;
use super::postgres_url::{PostgresUrl, PostgresUrlError};

keys! {
    /// `[catalog]`
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct CatalogConfig {
        /// `"sqlite"`, a file in the state directory for one machine; or the URL of a PostgreSQL database that several machines
        /// share: `postgres://ROLE@HOST/DATABASE`. See [docs/postgres.md](postgres.md).
        store as "url": CatalogStore = Or(STORE, "'sqlite'", "'postgres://ingest@db.example/ingest?sslmode=verify-full'"),
        /// Where to read the password of PostgreSQL from; never the password itself. If unset, `$PGPASSWORD` or a password file.
        password: Option<SecretSource> = Optional(SECRET, "{ credential = 'catalog' }"),
        /// How long a machine that died keeps its regions from the others, from 1s to 1h. A machine that cannot reach the
        /// database stops sending requests after three quarters of it.
        lease: Duration = Or(LEASE, "'60s'", "'5min'"),
        /// The schema of PostgreSQL in which the catalog is: lower-case letters, digits and `_`.
        schema: String = Or(SCHEMA, "'ingest'", "'news'"),
        /// The most connections of a process to PostgreSQL for pages, from 1 to 64; its leases have one more, and the merging of
        /// words another one. One is enough: tasks wait for each other's.
        connections: u32 = Or(CONNECTIONS, "4", "1"),
    }
}

pub const CATALOG: AndThen<Table<CatalogConfig>, CatalogConfig> = AndThen(table(), with_its_url);

/// Where the catalog is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CatalogStore {
    /// Files in the state directory.
    Sqlite,
    /// A PostgreSQL database. Its URL may contain a password.
    Postgres(PostgresUrl),
}

const EXAMPLE: &str = "write \"sqlite\", or for example \"postgres://ingest@db.example/ingest\"";
const ESCAPED: &str = "in a password, write `/` as %2F, `?` as %3F, `#` as %23 and `@` as %40";

const STORE: Leaf<CatalogStore> = Leaf {
    read: store,
    shape: || {
        let schema = json!({ "type": "string", "pattern": "^(sqlite$|postgres(ql)?://)" });
        Shape::scalar("`\"sqlite\"`, or URL of a PostgreSQL database", schema)
    },
};

/// The URL may contain a password: no message repeats it.
fn store(item: Item<'_>) -> Option<CatalogStore> {
    match item.text()? {
        "sqlite" => Some(CatalogStore::Sqlite),
        text if !PostgresUrl::is_one(text) => {
            item.refuse_unseen("expected `sqlite`, postgres:// or postgresql://", EXAMPLE)
        }
        text => match PostgresUrl::parse(text) {
            Ok(url) => Some(CatalogStore::Postgres(url)),
            Err(PostgresUrlError::AtBehindHost | PostgresUrlError::Port) => item.refuse_unseen(
                "the host ends within the user, the password or the port",
                ESCAPED,
            ),
            Err(error) => {
                item.refuse_unseen(format!("not a valid PostgreSQL URL: {error}"), EXAMPLE)
            }
        },
    }
}

const LEASE: Leaf<Duration> = Leaf {
    read: |item| {
        let lease = super::declare::Type::read(&DURATION, item.clone())?;
        // `as_secs` leaves out the fraction, so the upper bound is compared once more.
        match (1..=3600).contains(&lease.as_secs()) && lease <= Duration::from_secs(3600) {
            true => Some(lease),
            false => item.refuse("expected a duration from 1s to 1h", "write \"60s\""),
        }
    },
    shape: DURATION.shape,
};

const CONNECTIONS: Leaf<u32> = Leaf {
    read: |item| item.number(1..=64).and_then(|most| most.try_into().ok()),
    shape: || {
        let schema = json!({ "type": "integer", "minimum": 1, "maximum": 64 });
        Shape::scalar("integer from 1 to 64", schema)
    },
};

const SCHEMA: Leaf<String> = Leaf {
    read: schema,
    shape: || {
        let schema = json!({ "type": "string", "pattern": "^[a-z_][a-z0-9_]{0,62}$" });
        Shape::scalar("name of a schema", schema)
    },
};

fn schema(item: Item<'_>) -> Option<String> {
    let name = item.text()?;
    let is_right =
        |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
    let begins_well =
        !name.starts_with(|first: char| first.is_ascii_digit()) && !name.starts_with("pg_");
    // PostgreSQL cuts longer identifiers and keeps `pg_` for itself.
    if name.is_empty() || name.len() > 63 || !name.chars().all(is_right) || !begins_well {
        return item.refuse(
            "expected lower-case letters, digits and `_`, and not a name that begins with a digit or `pg_`",
            "write \"ingest\"",
        );
    }
    Some(name.to_owned())
}

/// Whether the URL uses what is configured beside it. A catalog in files ignores all of it, as `--sandbox` needs.
fn with_its_url(item: &Item<'_>, catalog: CatalogConfig) -> Option<CatalogConfig> {
    let CatalogStore::Postgres(url) = &catalog.store else {
        return Some(catalog);
    };
    if let (Some(item), Some(_)) = (item.find(&["password"]), url.password()) {
        return item.refuse_unseen(
            "catalog.url already contains a password",
            "remove the password from catalog.url: postgres://ROLE@HOST/DATABASE",
        );
    }
    Some(catalog)
}
