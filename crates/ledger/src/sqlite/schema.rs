//! The tables of the file.

use ingest_sqlite::Schema;

/// The tables of `ledger.db`. People may query it: times are microseconds since the Unix epoch.
///
/// - `charge`: every charge ever made. `n` distinguishes charges of one microsecond. Charges that came without a purpose
///   (absorbed, or settled before they arrived) have no job, region, call. `origin` says where a charge is from: `charged`,
///   `reported` by the upstream, `carried_over`.
/// - `taken`: what a charge took of each limit. `total` is the running total of the limit up to and with this row, in
///   the order of `(at, n)`: the units between two instants are the difference of two rows, however many lie between. It
///   never falls, so a search by time finds where it reached a number.
/// - `closing`: until when a limit is closed that the upstream reported as exhausted; `probing` when its reset is
///   unknown, with the length of that closing in `probe_interval`, in microseconds (`NULL`: an hour).
/// - `merged`: how far the charges of an account are merged whose limits count in parts. A row of `charge` then stands for
///   `charges` charges of its purpose in a part of the window, under the id of the last.
/// - `floor`: a lost ledger had reported `used` units at `at`.
pub const SCHEMA: Schema = Schema {
    name: "ledger",
    version: 6,
    tables: TABLES,
    remedy: KEEP,
};

/// What to do with a ledger or journal of another version.
pub const KEEP: &str = "keep the program that wrote it, or let nothing charge for the longest window of its limits and then \
    move it away: without it, what it has charged would be granted again";

// `taken_of_values` holds limits of values alone, which can be thousands: other charges write no more for it. There is no index of
// the totals, of which each charge would write a page: they grow with the time, so a search by time finds them.
const TABLES: &str = "
CREATE TABLE charge (
    account TEXT NOT NULL,
    at INTEGER NOT NULL,
    n INTEGER NOT NULL,
    id TEXT NOT NULL,
    job TEXT,
    region TEXT,
    call TEXT,
    charges INTEGER NOT NULL DEFAULT 1,
    origin TEXT NOT NULL DEFAULT 'charged',
    PRIMARY KEY (account, at, n)
) STRICT, WITHOUT ROWID;
CREATE INDEX charge_by_id ON charge (account, id);

CREATE TABLE taken (
    account TEXT NOT NULL,
    limit_name TEXT NOT NULL,
    at INTEGER NOT NULL,
    n INTEGER NOT NULL,
    units INTEGER NOT NULL,
    total INTEGER NOT NULL,
    PRIMARY KEY (account, limit_name, at, n)
) STRICT, WITHOUT ROWID;
CREATE INDEX taken_of_values ON taken (account, at, n) WHERE instr(limit_name, '/') > 0;

CREATE TABLE closing (
    account TEXT NOT NULL,
    limit_name TEXT NOT NULL,
    until INTEGER NOT NULL,
    probing INTEGER NOT NULL,
    probe_interval INTEGER,
    PRIMARY KEY (account, limit_name)
) STRICT, WITHOUT ROWID;

CREATE TABLE floor (
    account TEXT NOT NULL,
    limit_name TEXT NOT NULL,
    at INTEGER NOT NULL,
    used INTEGER NOT NULL,
    PRIMARY KEY (account, limit_name, at)
) STRICT, WITHOUT ROWID;

CREATE TABLE merged (
    account TEXT NOT NULL PRIMARY KEY,
    merged_from INTEGER NOT NULL,
    due INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
";
