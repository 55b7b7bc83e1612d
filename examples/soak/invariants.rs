//! What must hold, whatever went wrong.

use std::path::Path;

use rusqlite::Connection;

/// Every file of a machine is whole, and what is in it fits.
pub(crate) fn of_state(state: &Path) {
    of_catalog(state);
    of_journal(state);
}

/// A journal knows the cost of everything that may have been sent.
fn of_journal(state: &Path) {
    let Some(connection) = open(&state.join("journal.db")) else {
        return;
    };
    none(
        &connection,
        "a charge that may have been sent has no cost",
        "select id from charge where state = 'sent' and settled = 0 and not exists (select 1 from json_each(cost))",
    );
    whole(&connection);
}

/// A catalog's passes, pages and listings fit each other, and the file is whole.
fn of_catalog(state: &Path) {
    let Some(connection) = open(&state.join("catalog.db")) else {
        return;
    };
    none(
        &connection,
        "a pass counts other pages than it landed",
        "select id from pass where pages <> (select count(*) from checkpoint where pass = pass.id)",
    );
    none(
        &connection,
        "a pass counts other records than it listed",
        "select id from pass where records <> (select count(*) from (select 1 from listing where pass = pass.id
            group by step, id, requested, case when parent is null then position end))",
    );
    none(
        &connection,
        "a listing has gaps",
        "select pass from listing group by pass, step having max(position) <> count(*) or min(position) <> 1",
    );
    none(
        &connection,
        "pages have gaps",
        "select pass from checkpoint group by pass, step having max(page) <> count(*) or min(page) <> 1",
    );
    none(
        &connection,
        "a complete pass has a step that goes on",
        "select pass.id from pass join checkpoint on checkpoint.pass = pass.id
         where outcome = 'complete' and region <> '*' and cursor is not null and page = (
             select max(page) from checkpoint other where other.pass = pass.id and other.step = checkpoint.step)",
    );
    none(
        &connection,
        "a listed record is missing",
        "select id from listing where not exists (select 1 from record
         where record.id = listing.id and record.kind = listing.kind and record.upstream = listing.upstream)",
    );
    whole(&connection);
}

/// Units that the ledger of one machine ever recorded.
pub(crate) fn charged(state: &Path) -> u64 {
    let Some(connection) = open(&state.join("ledger.db")) else {
        return 0;
    };
    whole(&connection);
    none(
        &connection,
        "a running total is wrong",
        "select at from (select at, total, sum(units) over (partition by account, limit_name order by at, n) as summed
         from taken) where total <> summed",
    );
    let sum = "select coalesce(sum(units), 0) from taken where limit_name = 'daily'";
    let sum: i64 = connection.query_row(sum, [], |row| row.get(0)).unwrap();
    u64::try_from(sum).unwrap()
}

/// The newest charges of a machine's journal, and what it has seen.
pub(crate) fn dump(state: &Path) -> String {
    let Some(connection) = open(&state.join("journal.db")) else {
        return String::new();
    };
    let all = |sql: &str| -> Vec<String> {
        let mut statement = connection.prepare(sql).unwrap();
        statement
            .query_map([], |row| row.get(0))
            .unwrap()
            .map(Result::unwrap)
            .collect()
    };
    let charges = "select concat_ws(' ', id, at, cost, state, unmetered, settled, known, told, asked_at) from charge
        order by at desc limit 40";
    let contact = "select concat_ws(' ', epoch, sequence, newest, newest_at, at, ahead, recovering) from contact";
    format!("contact {:#?}\ncharges {:#?}", all(contact), all(charges))
}

fn open(path: &Path) -> Option<Connection> {
    let connection = Connection::open(path).ok().filter(|_| path.exists())?;
    connection
        .busy_timeout(std::time::Duration::from_secs(10))
        .unwrap();
    let version: i64 = connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap();
    (version > 0).then_some(connection)
}

fn whole(connection: &Connection) {
    let said: String = connection
        .query_row("pragma quick_check(1)", [], |row| row.get(0))
        .unwrap();
    assert_eq!(said, "ok");
}

fn none(connection: &Connection, what: &str, sql: &str) {
    let mut statement = connection.prepare(sql).unwrap();
    let found = statement
        .query([])
        .unwrap()
        .next()
        .unwrap()
        .map(|row| row.get_ref(0).map(|value| format!("{value:?}")));
    assert!(found.is_none(), "{what}: {found:?}");
}
