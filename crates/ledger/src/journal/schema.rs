//! The tables of the file.

use crate::sqlite::KEEP;
use ingest_sqlite::Schema;

/// `charge` holds this machine's charges of two windows, `contact` the ledger's last position, `said` the use of each limit
/// that the ledger reported last, `closing` the limits that the upstream reported exhausted. Times are microseconds since the
/// Unix epoch. State `asked` is a requested charge, and `told` says that the ledger has the row as it is here.
pub const SCHEMA: Schema = Schema {
    name: "journal",
    version: 7,
    tables: TABLES,
    remedy: KEEP,
};

const TABLES: &str = "
create table charge (
    account text not null,
    id text not null,
    -- When the ledger recorded it; until that is known, and where it went unmetered, by this machine's clock.
    at integer not null,
    -- Units by limit, as JSON.
    cost text not null,
    state text not null check (state in ('asked', 'sent', 'void')),
    -- Whether it went ahead without the ledger.
    unmetered integer not null default 0,
    -- Whether its cost is final.
    settled integer not null default 0,
    -- Whether the ledger has it at all.
    known integer not null default 0,
    -- Whether the ledger has it as it is here.
    told integer not null default 1,
    version integer not null default 0,
    asked_at integer not null,
    owner integer not null,
    -- What it is for; null when that was not recorded. Only the journal has it: the log in Redis stays small, and a machine
    -- can report its own spend alone.
    job text,
    region text,
    call text,
    -- How many charges the row stands for: more than one where old charges were merged.
    charges integer not null default 1,
    -- Where it is from: `charged`, `reported` by the upstream, `carried_over`.
    origin text not null default 'charged',
    primary key (account, id)
) without rowid;
create index charge_open on charge (account) where told = 0 or state = 'asked';
create index charge_unmetered on charge (account, at) where unmetered = 1;
create index charge_at on charge (account, at);
create table contact (
    account text primary key,
    epoch text not null,
    sequence integer not null,
    newest text,
    newest_at integer not null default 0,
    -- When the ledger granted last.
    at integer not null,
    -- How far its clock was ahead of this machine's.
    ahead integer not null default 0,
    -- Whether the ledger lost data and this machine's charges are not all sent again.
    recovering integer not null default 0,
    -- Until when everything is refused after a loss.
    wait_until integer not null default 0,
    -- Which ledger, by its URL without user and password. Another epoch under the same URL is a loss; under another URL the
    -- configuration was changed, and nothing was lost.
    ledger text
) without rowid;
create table said (
    account text not null,
    limit_name text not null,
    at integer not null,
    used integer not null,
    primary key (account, limit_name)
) without rowid;
create table closing (
    account text not null,
    limit_name text not null,
    -- Nothing where it was taken back.
    until integer,
    probing integer not null,
    told integer not null,
    version integer not null default 0,
    -- How long a closing without a known reset lasted, in microseconds.
    probe_interval integer,
    -- Where it was taken back: until when it was known to last. A closing that ends later is a newer one.
    opens integer,
    primary key (account, limit_name)
) without rowid;
";
