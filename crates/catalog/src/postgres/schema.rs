//! What the schema of a catalog holds.

use super::sql::{Values, as_is, parameters};
use super::{LEASE_TABLE, LEDGER_TABLE, Postgres, PostgresError, Transaction};
use ingest_sqlite::Identity;

/// A version of the schema.
pub struct Version {
    /// Rises with every release that changes what is created.
    pub number: i32,
    /// The statements that create it.
    pub created: &'static [&'static str],
    /// What the release before created: such a schema is taken over. `None` where there is nothing to take over.
    pub former: Option<Identity>,
}

/// What this release creates.
pub const VERSION: Version = Version {
    number: 12,
    created: CREATED,
    former: None,
};

/// The statements that create what a schema holds.
///
/// The tables are those of the catalog in a SQLite file, with the same columns; times are `timestamptz`. All text compares
/// byte by byte (collation `C`), as there. U+0000 in an id, cursor or name is stored as U+001A and `0`, U+001A as U+001A and
/// `1`, because `text` cannot contain U+0000.
///
/// | table | what a row is |
/// | --- | --- |
/// | `schema_version` | the one row says by what the tables are known: their version, and a digest of these statements |
/// | `record` | a thing that an upstream returned, as it was when last seen; `number` rises in the order of first sight; `text_hash` tells whether its text changed; `changed_at` is when its body last changed or it returned; `gone_at` is null unless no list has it any more |
/// | `record_text` | full-text index: the words of a record's text, lower-case and without diacritics, and how many they are; a character a word in scripts without spaces |
/// | `record_version` | a former body of a record of a kind with `history`, the pass whose page replaced it, and when |
/// | `listing` | a record's place in what a step of a pass returned, from 1; stays when the record is dropped; `requested` is the id with which a step of ids requested it, and `parent` the id of the record that named that id: a record of several parents has a row for each, the later ones at the end |
/// | `pass` | a walk of a job over a region; `outcome` is null while it is open, `failed` where it landed no page; `units` is JSON, by limit; `cut` where `max_pages` ended a step that names `{since}`; `greatest` is JSON: the job's `since.at`, and the greatest value seen there; `slice_from` and `slice_to` are the span of time that it fetches, in a job with slices; `left_at` is when a run last left it, `failed` is whether that run failed, `notes` is why it got no further and what it noticed, `request` is a hash of what the job requested where it was refused or is doubtful, `doubts` is JSON: what cannot happen in a list that is read correctly, and `relists` tells whether it lists everything again |
/// | `checkpoint` | a landed page and the cursor that led on from it; null when the step was done; `request` names the step's call and a hash of its parameters; `empty_pages` is how many pages in a row were empty; `cut` where `max_pages` ended the step; `list` is JSON: what the pages until then showed of the list, so that one that is resumed is judged as one that was not stopped; `landing` is the number of the landing, so that one that is repeated is stored once |
/// | `lasting_cursor` | a list of which a pass reads only what is new: the cursor at its end, with which the next pass begins, null when the upstream no longer accepted it; or, where the list stops at what is known, whether this pass `stopped` before its end; `request` as in `checkpoint` |
/// | `restart` | a step of a pass that was started over |
/// | `absent` | an id that was requested and not returned, and when; one that the upstream forbids can have a time to come, before which it is not requested again |
/// | `kind` | how a call's records are read: JSON of the pointers to their text, and of the columns of their view |
/// | `estimate` | what a call is expected to cost whose answers tell it; `units` is JSON, by limit |
/// | `call_facts` | what the lists of a call showed: JSON |
/// | `tag` | a page that came under an `ETag`: the request, its records' ids as JSON, and the cursor that led on |
/// | `batch` | ids that were requested together and are between two pages: those not returned yet, and the cursors; JSON; `began` is the time with which its requests are rendered; `greatest` as in `pass`, of its pages |
/// | `id_since` | the last complete list of an id that steps of a call requested for a job: `began` is when its pass started, `greatest` as in `pass`; the next list takes `{since}` from it; `cursor` is the one with which that list begins, and `request` that of its step |
/// | `account_ledger` | the ledger in which every machine charges an account, and the machine that recorded it |
/// | `lease` | who works on a region of a job, and until when; a row is never deleted, so that `term` only rises |
///
/// A region is taken by the function `take_lease`.
///
/// Views select columns of `record.body` by the functions `json_of`, `members_of` and `as_…`, which are null where a value is
/// not of its type. Anybody may use them.
const CREATED: &[&str] = &[TABLES, LEASE_TABLE, LEDGER_TABLE];

/// Renames the tables of a schema, so that the statements of the next version can use their names. Those statements make the functions
/// again, and `kind` the views.
const SET_ASIDE: &str = "do $$
declare
    here regnamespace := current_schema()::regnamespace;
    command text;
begin
    foreach command in array array(
        select format('drop view if exists %I cascade', relname) from pg_class where relnamespace = here and relkind = 'v')
        || array(select format('drop function %s cascade', oid::regprocedure) from pg_proc where pronamespace = here)
        || array(select format('alter %s %I rename to %I', kind, relname, 'former_' || relname)
            from pg_class join (values ('i', 'index'), ('S', 'sequence'), ('r', 'table')) kinds (letter, kind)
                on letter = relkind::text where relnamespace = here)
    loop
        execute command;
    end loop;
end
$$";
/// Copies the columns that the tables of the version before and the new ones have in common, and drops the former tables.
const TAKE_OVER: &str = "do $$
declare
    here regnamespace := current_schema()::regnamespace;
    own text;
    common text;
    command text;
begin
    for own in select substr(relname, 8) from pg_class
            where relnamespace = here and relkind = 'r' and relname like 'former\\_%' order by 1 loop
        select string_agg(quote_ident(new.attname), ', ') into common
            from pg_attribute new join pg_attribute old using (attname)
            where new.attrelid = to_regclass(quote_ident(own)) and old.attrelid = ('former_' || own)::regclass
                and new.attnum > 0 and not new.attisdropped and own <> 'schema_version';
        if common is not null then
            execute format('insert into %I (%s) select %s from %I', own, common, common, 'former_' || own);
        end if;
        execute format('drop table %I cascade', 'former_' || own);
    end loop;
    foreach command in array array(
        select format('select setval(pg_get_serial_sequence(%L, %L), max(%I)) from %I', relname, attname, attname, relname)
        from pg_attribute join pg_class on pg_class.oid = attrelid
        where relnamespace = here and relkind = 'r' and attidentity <> '')
    loop
        execute command;
    end loop;
end
$$";

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
const IDENTITY: &str =
    "select version, (to_jsonb(schema_version) ->> 'digest')::bigint from schema_version";
const SIGN: &str = "insert into schema_version (version, digest) values ($1, $2)";
/// The oldest version of the server: it has `xid8` and `pg_xact_status`.
const OLDEST_SERVER: i64 = 13_00_00;

/// A text column compares byte by byte. Indexes hold hashes of texts that have no limit, because an index row has 2.7 kB at
/// most.
// Half of the time of storing a page's records was the compression of their bodies, and lz4 saves most of it. The list of
// appended words is long because `merging.rs` merges it beside the walk: when the list is full, a landing waits for the merge.
const TABLES: &str = r#"
create table schema_version (version bigint not null, digest bigint not null);

create table record (
    number     bigint generated by default as identity primary key,
    upstream   text collate "C" not null,
    kind       text collate "C" not null,
    id         text collate "C" not null,
    first_seen timestamptz not null,
    last_seen  timestamptz not null,
    text_hash  bigint,
    body       text not null,
    changed_at timestamptz,
    gone_at    timestamptz,
    unique (upstream, kind, id)
);
create index record_by_age on record (upstream, last_seen);
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

create table record_version (
    number      bigint generated by default as identity primary key,
    upstream    text collate "C" not null,
    kind        text collate "C" not null,
    id          text collate "C" not null,
    pass        bigint not null,
    replaced_at timestamptz not null,
    body        text not null
);
create index version_of_record on record_version (id, kind, upstream, replaced_at);
create index version_by_age on record_version (upstream, replaced_at);

create table pass (
    id          bigint generated by default as identity primary key,
    job         text collate "C" not null,
    region      text collate "C" not null,
    started_at  timestamptz not null,
    finished_at timestamptz,
    outcome     text collate "C" check (outcome in ('complete', 'doubtful', 'refused', 'abandoned', 'failed')),
    pages       bigint not null default 0,
    records     bigint not null default 0,
    requests    bigint not null default 0,
    units       text not null default '{}',
    cut         boolean not null default false,
    greatest    text,
    slice_from  timestamptz,
    slice_to    timestamptz,
    left_at     timestamptz,
    failed      boolean not null default false,
    notes       text,
    request     text collate "C",
    doubts      text,
    relists     boolean not null default false
);
create index pass_by_outcome on pass (job, region, outcome, started_at);
create index pass_open on pass (job, region, started_at) where finished_at is null;
create index pass_uncut on pass (job, region, started_at) where outcome = 'complete' and cut = false;
create index pass_failed on pass (left_at) where failed = true;
create index pass_of_slice on pass (job, region, slice_from) where slice_from is not null;
create index pass_of_region on pass (region);
-- A planner that estimates few passes prefers an index by age alone, and walks all passes by it where a region has none of an
-- outcome. It leaves a partial index to statements that name its condition, which holds for each pass.
create index pass_since on pass (started_at) where id > 0;

create table listing (
    pass      bigint not null,
    step      bigint not null,
    position  bigint not null,
    call      text collate "C" not null,
    upstream  text collate "C" not null,
    kind      text collate "C" not null,
    id        text collate "C" not null,
    requested text collate "C",
    parent    text collate "C",
    version   bigint,
    primary key (pass, step, position)
);
create unique index listing_of_record on listing
    (id, kind, upstream, pass, step, coalesce(requested, ''), coalesce(parent, ''));
create index listing_of_child on listing (id, kind, upstream, pass, parent) where parent is not null;

create table checkpoint (
    pass        bigint not null,
    step        bigint not null,
    page        bigint not null,
    cursor      text collate "C",
    landed_at   timestamptz not null,
    request     text collate "C",
    empty_pages bigint not null default 0,
    cut         boolean not null default false,
    landing     text unique,
    list        text,
    primary key (pass, step, page)
);
create index checkpoint_by_cursor on checkpoint (pass, step, hashtextextended(cursor, 0));

create table lasting_cursor (
    pass    bigint not null,
    step    bigint not null,
    request text collate "C" not null,
    cursor  text collate "C",
    stopped boolean,
    primary key (pass, request)
);
create index lasting_by_request on lasting_cursor (request, stopped);

create table restart (
    pass bigint not null,
    step bigint not null,
    primary key (pass, step)
);

create table absent (
    upstream text collate "C" not null,
    kind     text collate "C" not null,
    id       text collate "C" not null,
    at       timestamptz not null,
    primary key (upstream, kind, id)
);
create index absent_by_age on absent (upstream, at);

create table kind (
    upstream text collate "C" not null,
    kind     text collate "C" not null,
    call     text collate "C" not null,
    text     text not null,
    columns  text not null,
    primary key (upstream, kind, call)
);

create table estimate (
    upstream text collate "C" not null,
    call     text collate "C" not null,
    units    text not null,
    primary key (upstream, call)
);

create table call_facts (
    upstream text collate "C" not null,
    call     text collate "C" not null,
    facts    text not null,
    primary key (upstream, call)
);

create table tag (
    upstream text collate "C" not null,
    request  text collate "C" not null,
    call     text collate "C" not null,
    name     text collate "C" not null,
    kind     text collate "C" not null,
    ids      text not null,
    next     text collate "C",
    at       timestamptz not null
);
create unique index tag_of_request on tag (upstream, hashtextextended(request, 0));
create index tag_by_age on tag (upstream, at);

create table batch (
    pass        bigint not null,
    step        bigint not null,
    ids         text collate "C" not null,
    missing     text not null,
    cursors     text not null,
    began       timestamptz not null,
    empty_pages bigint not null default 0,
    greatest    text
);
create index batch_of_step on batch (pass, step);

create table id_since (
    job      text collate "C" not null,
    call     text collate "C" not null,
    id       text collate "C" not null,
    began    timestamptz not null,
    greatest text,
    request  text collate "C",
    cursor   text collate "C",
    primary key (job, call, id)
);

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

impl Version {
    /// By what the tables are known.
    #[must_use]
    pub fn identity(&self) -> Identity {
        Identity::new(self.number, &self.created.concat())
    }
}

/// What a schema was found to be.
enum Found {
    Current,
    Former,
    Nothing,
}

/// Creates the schema, or takes over that of the version before, unless it is there. One process does so at a time.
///
/// # Errors
/// The schema is another version's or not a catalog's, the server is too old, or the role may not change it.
pub async fn establish(postgres: &Postgres, version: &Version) -> Result<(), PostgresError> {
    let mut session = postgres.session().await?;
    let tx = session.begin_reading().await?;
    let found = find(&tx, postgres.schema(), version).await?;
    tx.end();
    if let Found::Current = found {
        return Ok(());
    }
    let tx = session.begin().await?;
    tx.batch("set local statement_timeout to 0; set local lock_timeout to 0")
        .await?;
    tx.batch(LOCK).await?;
    let (before, after) = match find(&tx, postgres.schema(), version).await? {
        // Another process has created it meanwhile.
        Found::Current => return tx.commit().await,
        Found::Former => (Some(SET_ASIDE), Some(TAKE_OVER)),
        Found::Nothing => {
            create(&tx, postgres.schema()).await?;
            (None, None)
        }
    };
    let all = before.iter().chain(version.created).chain(&after);
    for statements in all {
        tx.batch(statements).await?;
    }
    let known = version.identity();
    let (number, digest) = (i64::from(known.version), i64::from(known.digest));
    tx.execute(SIGN, parameters![number, digest]).await?;
    tx.commit().await
}

/// Whether the schema holds a catalog.
///
/// # Errors
/// The schema is another version's or not a catalog's, or the server is too old.
pub async fn is_there(postgres: &Postgres) -> Result<bool, PostgresError> {
    let mut session = postgres.session().await?;
    let tx = session.begin_reading().await?;
    let found = find(&tx, postgres.schema(), &VERSION).await?;
    tx.end();
    match found {
        Found::Current => Ok(true),
        Found::Nothing => Ok(false),
        Found::Former => Err(PostgresError::Unusable(format!(
            "the release before created the schema `{}`; any command that writes takes it over, such as a run without --dry-run",
            postgres.schema()
        ))),
    }
}

async fn find(
    tx: &Transaction<'_>,
    schema: &str,
    version: &Version,
) -> Result<Found, PostgresError> {
    let rows = tx.query(EXISTS, parameters![as_is(schema)]).await?;
    let unusable = |why: String| Err(PostgresError::Unusable(why));
    let Some(row) = rows.first() else {
        return Ok(Found::Nothing);
    };
    let server: i64 = row.value(3)?;
    if server < OLDEST_SERVER {
        return unusable(format!(
            "the server is PostgreSQL {}; version 13 or later is needed",
            server / 10_000
        ));
    }
    let encoding: &str = row.value(4)?;
    if encoding != "UTF8" {
        return unusable(format!(
            "the database has the encoding {encoding}; create one with the encoding UTF8"
        ));
    }
    let (has_tables, is_catalog): (bool, bool) = (row.value(1)?, row.value(2)?);
    if !is_catalog {
        return match has_tables {
            false => Ok(Found::Nothing),
            true => unusable(format!(
                "the schema `{schema}` has tables of something else; set catalog.schema to another name"
            )),
        };
    }
    let rows = tx.query(IDENTITY, &[]).await?;
    let row = rows.first().ok_or_else(|| {
        PostgresError::Unusable(format!("the schema `{schema}` has no version; {REMEDY}"))
    })?;
    let (number, digest): (i64, Option<i64>) = (row.value(0)?, row.value(1)?);
    let is =
        |one: Identity| (number, digest) == (i64::from(one.version), Some(i64::from(one.digest)));
    let known = version.identity();
    if is(known) {
        return Ok(Found::Current);
    }
    if version.former.is_some_and(is) {
        return Ok(Found::Former);
    }
    unusable(match number > i64::from(known.version) {
        true => format!(
            "the schema `{schema}` has version {number}, and this release supports versions up to {}; \
            upgrade ingest, or set catalog.schema to another name",
            known.version
        ),
        false => format!(
            "the schema `{schema}` has version {number} with other tables than this release's version {}; {REMEDY}",
            known.version
        ),
    })
}

/// Creates the schema, unless the role was given an empty one.
async fn create(tx: &Transaction<'_>, schema: &str) -> Result<(), PostgresError> {
    let rows = tx.query(EXISTS, parameters![as_is(schema)]).await?;
    let exists = rows.first().map(|row| row.value(0)).transpose()?;
    match exists {
        Some(true) => Ok(()),
        _ => tx.batch(&format!("create schema {schema}")).await,
    }
}
