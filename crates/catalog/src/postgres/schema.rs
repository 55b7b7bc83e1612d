//! What the schema of a catalog holds.

use std::sync::LazyLock;

use tokio_postgres::types::Type;

use super::{LEASE_TABLE, LEDGER_TABLE, Postgres, PostgresError, Transaction};
use crate::sql::Dialect;
use crate::tables::created;
use ingest_sqlite::Identity;

/// The version of the schema: rises with every release that changes what is created.
pub const VERSION: i32 = 15;

/// The statements that create it.
static CREATED: LazyLock<String> =
    LazyLock::new(|| created(Dialect::Postgres, MORE) + LEASE_TABLE + LEDGER_TABLE);
/// By what the tables are known.
static IDENTITY: LazyLock<Identity> = LazyLock::new(|| Identity::new(VERSION, &CREATED));

/// What to do with a schema of another version.
const REMEDY: &str = "keep the program that wrote it, or set catalog.schema to another name: the next run then requests everything \
    again, and what upstreams no longer return, former bodies and the history of passes stay behind";

/// The lock under which schemas are created. Any number that no other program takes.
const LOCK: &str = "select pg_advisory_xact_lock(7815696102)";
const EXISTS: &str = "select exists (select 1 from pg_namespace where nspname = $1),
    exists (select 1 from pg_class where relnamespace = to_regnamespace($1) and relkind in ('r', 'p')),
    to_regclass($1 || '.schema_version') is not null,
    current_setting('server_version_num')::bigint, current_setting('server_encoding')";
// A table of another version may lack the digest.
const FOUND: &str =
    "select version, (to_jsonb(schema_version) ->> 'digest')::bigint from schema_version";
const SIGN: &str = "insert into schema_version (version, digest) values ($1, $2)";
/// The oldest version of the server.
const OLDEST_SERVER: i64 = 13_00_00;

/// What a schema has beside the tables.
///
/// | table | what a row is |
/// | --- | --- |
/// | `schema_version` | the one row says by what the tables are known: their version, and a digest of these statements |
/// | `record_text` | full-text index: the words of a record's text, lower-case and without diacritics, and how many they are; a character a word in scripts without spaces |
/// | `account_ledger` | the ledger in which every machine charges an account, and the machine that recorded it |
/// | `lease` | who works on a region of a job, and until when; `holder` is a random number of the lease |
///
/// Views select columns of `record.body` by the functions `json_of`, `members_of` and
/// `as_…`, which are null where a value is not of its type. Anybody may use them.
// Half of the time of storing a page's records was the compression of their bodies, and lz4 saves most of it. The list of
// appended words is long because `merging.rs` merges it beside the walk: when the list is full, a landing waits for the merge.
// A planner that estimates few passes prefers an index by age alone, and walks all passes by it where a region has none of an
// outcome. It leaves a partial index to statements that name its condition, which holds for each pass.
const MORE: &str = r#"
create table schema_version (version bigint not null, digest bigint not null);

create index pass_of_region on pass (region);
create index pass_since on pass (started_at) where id > 0;

do $$
begin
    if 'lz4' = any (select unnest(enumvals) from pg_settings where name = 'default_toast_compression') then
        alter table record alter column body set compression lz4;
    end if;
end
$$;

create table record_text (
    number bigint primary key,
    length bigint not null,
    words  tsvector not null
);
create index record_text_words on record_text using gin (words) with (gin_pending_list_limit = 65536);

create function json_of(body text) returns json
language sql immutable strict parallel safe as $$
    select case when strpos(body, '\u0000') = 0 then body::json
        else regexp_replace(body, '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g')::json end
$$;

create function members_of(document json) returns setof json
language sql immutable strict parallel safe as $$
    select value from json_array_elements(case when json_typeof(document) = 'array' then document end)
    union all
    select value from json_each(case when json_typeof(document) = 'object' then document end)
$$;

create function as_integer(value text) returns bigint
language sql immutable strict parallel safe as $$
    select case when value ~ '^-?[0-9]{1,19}$' then
        case when value::numeric between -9223372036854775807 and 9223372036854775807 then value::bigint end
    end
$$;

create function as_real(value text) returns double precision
language sql immutable strict parallel safe as $$
    select case when length(value) <= 300 and value ~ '^-?(?=[.]?[0-9])[0-9]*([.][0-9]*)?([eE][+-]?[0-9]{1,3})?$' then
        case when abs(value::numeric) > 1.797e308 then null
            when abs(value::numeric) < 1e-300 then 0
            else value::double precision end
    end
$$;

create function as_boolean(value text) returns boolean
language sql immutable strict parallel safe as $$
    select case when lower(value) in ('true', '1') then true when lower(value) in ('false', '0') then false end
$$;

-- Numbers are times before 1970 too, from the year 1 on.
create function as_time(value text) returns timestamptz
language plpgsql immutable strict set timezone to 'UTC' as $$
declare
    seconds numeric;
begin
    if value ~ '^-?[0-9]{1,11}([.][0-9]+)?$' then
        seconds := trunc(value::numeric);
    elsif value ~ '^-?[0-9]{12,14}([.][0-9]+)?$' then
        seconds := trunc(value::numeric / 1000);
    elsif value ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}' then
        return value::timestamptz;
    end if;
    return case when seconds >= -62135596800 then to_timestamp(seconds) end;
exception when others then
    return null;
end
$$;
"#;

/// What a schema was found to be.
enum FoundSchema {
    Current,
    Nothing,
    /// Its table of the version has no row: another process has just created it, or somebody deleted the row.
    Unsigned,
}

/// Creates the schema unless it is there. One process does so at a time.
///
/// # Errors
/// The schema is another version's or not a catalog's, the server is too old, or the role may not change it.
pub async fn establish(postgres: &Postgres) -> Result<(), PostgresError> {
    let mut session = postgres.session().await?;
    let tx = session.begin_reading().await?;
    let found = find(&tx, postgres.schema()).await?;
    tx.end();
    if let FoundSchema::Current = found {
        return Ok(());
    }
    let tx = session.begin().await?;
    tx.batch("set local statement_timeout to 0; set local lock_timeout to 0")
        .await?;
    tx.batch(LOCK).await?;
    match find(&tx, postgres.schema()).await? {
        // Another process has created it meanwhile.
        FoundSchema::Current => return tx.commit().await,
        FoundSchema::Nothing => create(&tx, postgres.schema()).await?,
        FoundSchema::Unsigned => return Err(unsigned(postgres)),
    }
    tx.batch(&CREATED).await?;
    let (number, digest) = (i64::from(VERSION), i64::from(IDENTITY.digest));
    let signed = [(&number as _, Type::INT8), (&digest as _, Type::INT8)];
    tx.execute(SIGN, &signed).await?;
    tx.commit().await
}

/// Whether the schema holds a catalog.
///
/// # Errors
/// The schema is another version's or not a catalog's, or the server is too old.
pub async fn is_there(postgres: &Postgres) -> Result<bool, PostgresError> {
    let mut session = postgres.session().await?;
    let tx = session.begin_reading().await?;
    let mut found = find(&tx, postgres.schema()).await?;
    tx.end();
    if let FoundSchema::Unsigned = found {
        // A transaction sees a table that was created since it began, and none of its rows.
        let tx = session.begin_reading().await?;
        found = find(&tx, postgres.schema()).await?;
        tx.end();
    }
    match found {
        FoundSchema::Current => Ok(true),
        FoundSchema::Unsigned => Err(unsigned(postgres)),
        FoundSchema::Nothing => Ok(false),
    }
}

fn unsigned(postgres: &Postgres) -> PostgresError {
    let schema = postgres.schema();
    PostgresError::Unusable(format!("the schema `{schema}` has no version; {REMEDY}"))
}

async fn find(tx: &Transaction<'_>, schema: &str) -> Result<FoundSchema, PostgresError> {
    let rows = tx.query(EXISTS, &[(&schema, Type::TEXT)]).await?;
    let unusable = |why: String| Err(PostgresError::Unusable(why));
    let Some(row) = rows.first() else {
        return Ok(FoundSchema::Nothing);
    };
    let server: i64 = row.try_get(3)?;
    if server < OLDEST_SERVER {
        return unusable(format!(
            "the server is PostgreSQL {}; version 13 or later is needed",
            server / 10_000
        ));
    }
    let encoding: &str = row.try_get(4)?;
    if encoding != "UTF8" {
        return unusable(format!(
            "the database has the encoding {encoding}; create one with the encoding UTF8"
        ));
    }
    let (has_tables, is_catalog): (bool, bool) = (row.try_get(1)?, row.try_get(2)?);
    if !is_catalog {
        return match has_tables {
            false => Ok(FoundSchema::Nothing),
            true => unusable(format!(
                "the schema `{schema}` has tables of something else; set catalog.schema to another name"
            )),
        };
    }
    let rows = tx.query(FOUND, &[]).await?;
    let Some(row) = rows.first() else {
        return Ok(FoundSchema::Unsigned);
    };
    let (number, digest): (i64, Option<i64>) = (row.try_get(0)?, row.try_get(1)?);
    if (number, digest) == (i64::from(VERSION), Some(i64::from(IDENTITY.digest))) {
        return Ok(FoundSchema::Current);
    }
    unusable(match number > i64::from(VERSION) {
        true => format!(
            "the schema `{schema}` has version {number}, and this release supports versions up to {VERSION}; \
            upgrade ingest, or set catalog.schema to another name",
        ),
        false => format!(
            "the schema `{schema}` has version {number} with other tables than this release's version {VERSION}; {REMEDY}",
        ),
    })
}

/// Creates the schema, unless the role was given an empty one.
async fn create(tx: &Transaction<'_>, schema: &str) -> Result<(), PostgresError> {
    let rows = tx.query(EXISTS, &[(&schema, Type::TEXT)]).await?;
    let exists = rows.first().map(|row| row.try_get(0)).transpose()?;
    match exists {
        Some(true) => Ok(()),
        _ => tx.batch(&format!("create schema {schema}")).await,
    }
}
