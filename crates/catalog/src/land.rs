//! Lands a page: records, lists and the next cursor in one transaction, so that a run that is killed has all of a page or nothing of it.
//!
//! What the catalog has of the page is read first, in one round trip; then the records are stored, in another; and all that follows
//! from both is sent with the commit. Rows are locked in the order of their keys.

use std::collections::{HashMap, HashSet};

use super::gone::LOCK_RECORDS;
use super::layout::KindLayout;
use super::page::{IndexedText, LandingPage, Row};
use super::passes::{self, Counts, Held};
use super::sql::{self, Insert, Query, StoreError, Tx, Value, values};
use super::values::{list as json_list, sum};
use super::{Landed, Landing, OpenBatch, PassId};
use super::{gone, id_since, index, lasting, tags, views, wanted};
use ingest_base::list_so_far::ListSoFar;

/// Rows of one statement: they are in memory once more while it runs.
const AT_ONCE: usize = 1_000;

/// The page itself, where it was stored before and the answer to the commit was lost.
const LANDED: &str = "select pass, cursor is null, list from checkpoint where landing = ?1";
const NEWEST: &str = "select coalesce(max(number), 0) from record";
/// Before numbers are taken, since others can commit later ones first: tells readers that those from here on are not settled.
const NUMBERING: &str = "select pg_advisory_xact_lock_shared(hashtext(current_schema()),
    ((select coalesce(max(number), 0) from record) / 1024)::integer)::text";
const NUMBERS: &str = "select nextval('record_number_seq') from generate_series(1, ?1)";
const LAST_POSITION: &str =
    "select coalesce(max(position), 0) from listing where pass = ?1 and step = ?2";
/// The rows that a step has of a record, each with the id that requested it, and whether it has no parent.
const LISTED: &str =
    "select id, coalesce(requested, ''), parent is null from listing {by listing_of_record}
    where id = {key} and kind = ?4 and upstream = ?3 and pass = ?1 and step = ?2";
/// The same of all records at once. PostgreSQL can take the index of the step, which it would read once for each record.
const LISTED_OF_PAGE: &str = "select id, coalesce(requested, ''), parent is null from listing
    where id = any(?5) and kind = ?4 and upstream = ?3 and pass = ?1 and step = ?2";
const REPEATS: &str = "select exists (select 1 from checkpoint
    where pass = ?1 and step = ?2 and {hash cursor} = {hash ?3} and cursor = ?3)";
// A record of more than 1 MiB counts as changed whenever it is returned: comparing would take as much memory again.
// Keeps `text_hash` of a stored record: the hash of the text that the index holds of it.
const STORE: Insert<'_> = Insert {
    table: "record",
    columns: &[
        "number",
        "upstream",
        "kind",
        "id",
        "first_seen",
        "last_seen",
        "changed_at",
        "text_hash",
        "body",
    ],
    tail: "on conflict (upstream, kind, id) do update set last_seen = excluded.last_seen, body = excluded.body, gone_at = null,
        changed_at = case when octet_length(excluded.body) > 1048576 then excluded.last_seen
            when record.body = excluded.body and record.gone_at is null then coalesce(record.changed_at, record.last_seen)
            else excluded.last_seen end
        returning number, text_hash, id",
};
/// The same for a page whose pass is lost: another machine may have newer records by now, and requests the page again.
const STORE_NEW: Insert<'_> = Insert {
    tail: "on conflict (upstream, kind, id) do nothing returning number, text_hash, id",
    ..STORE
};
const KEEP_VERSION: &str =
    "insert into record_version (upstream, kind, id, pass, replaced_at, body)
    select upstream, kind, id, ?4, ?5, body from record
    where upstream = ?1 and kind = ?2 and id = ?3 and body <> ?6";
const REHASH: &str = "update record set text_hash = ?2 where number = ?1";
const LIST: Insert<'_> = Insert {
    table: "listing",
    columns: &[
        "pass",
        "step",
        "position",
        "call",
        "upstream",
        "kind",
        "id",
        "requested",
        "version",
    ],
    tail: "",
};
const CAME: &str = "delete from absent where upstream = ?1 and kind = ?2 and id = ?3";
const ABSENT: Insert<'_> = Insert {
    table: "absent",
    columns: &["upstream", "kind", "id", "at"],
    tail: "on conflict (upstream, kind, id) do update set at = excluded.at",
};
const FETCHED: &str = "delete from batch where pass = ?1 and step = ?2 and ids = ?3";
const BEGUN: &str =
    "insert into batch (pass, step, ids, missing, cursors, began, empty_pages, greatest)
    values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
/// A cursor that a step had before, and that leads on again.
const FORGET_CURSOR: &str = "update checkpoint set cursor = null
    where pass = ?1 and step = ?2 and {hash cursor} = {hash ?3} and cursor = ?3";
const CHECKPOINT: &str = "insert into checkpoint (pass, step, page, cursor, landed_at, request, empty_pages, cut, list, landing)
    select ?1, ?2, coalesce(max(page), 0) + 1, ?3, ?4, ?5, ?6, ?7, ?8, ?9 from checkpoint where pass = ?1 and step = ?2";
pub const STATEMENTS: &[&str] = &[
    LANDED,
    NEWEST,
    LAST_POSITION,
    LISTED,
    REPEATS,
    KEEP_VERSION,
    REHASH,
    CAME,
    FETCHED,
    FORGET_CURSOR,
    CHECKPOINT,
];

/// A page that was stored.
pub struct LandedPage {
    pub landed: Landed,
    /// Whether the view of its kind has to be replaced.
    pub is_new_layout: bool,
    /// How many words wait to be merged into the full-text index.
    pub words: i64,
}

impl LandedPage {
    /// A page that was landed, or was before: then nothing is left to do.
    ///
    /// # Errors
    /// Any other failure.
    pub fn of(landed: Result<Self, StoreError>) -> Result<Self, StoreError> {
        match landed {
            Err(StoreError::Landed(landed)) => Ok(Self {
                landed,
                is_new_layout: false,
                words: 0,
            }),
            landed => landed,
        }
    }
}

/// Stores a page.
pub fn land(tx: &Tx<'_>, page: &LandingPage) -> Result<LandedPage, StoreError> {
    let landing = &*page.landing;
    let before = Before::read(tx, page)?;
    let is_new_layout = views::declare(tx, landing, &before.layout)?;
    let texts = store(tx, page, &before)?;
    let words = index::store(tx, &texts)?;
    let landed = match &before.held {
        Some(held) => {
            store_absent(tx, page)?;
            advance(tx, page, &before, held, page.is_known(&before.versions))?
        }
        None => {
            // It is paid for. The cursor and the listing are the next holder's, who may request it again.
            let Landing { requests, now, .. } = *landing;
            let counted = (requests, &landing.units);
            Landed {
                pass: passes::count_unproductive(tx, &landing.pass, counted, now)?,
                cursor_repeats: false,
                is_known: false,
                listed: 0,
                number: landing.pass.landed,
                is_lost: true,
            }
        }
    };
    Ok(LandedPage {
        landed,
        is_new_layout,
        words,
    })
}

/// Stores what a page adds to its pass, in a catalog that has no records. `is_known`: whether it ends its list.
pub fn without_records(
    tx: &Tx<'_>,
    page: &LandingPage,
    is_known: bool,
) -> Result<Landed, StoreError> {
    let pass = &page.landing.pass;
    let [held] = tx.ask([passes::holding(&page.landing)])?;
    let held = Held::read(&held)?.ok_or_else(|| StoreError::lost(pass))?;
    let before = Before {
        // The list lacks no record.
        last_position: i64::MAX,
        ..Before::default()
    };
    advance(tx, page, &before, &held, is_known)
}

/// What the catalog has of a page before it is stored.
#[derive(Default)]
struct Before {
    /// The pass; `None` where this process does not hold it any more.
    held: Option<Held>,
    layout: Option<KindLayout>,
    /// Numbers for new records, as many as the page has.
    numbers: Vec<i64>,
    last_position: i64,
    /// What the step listed of the page's records: id, the id that requested it, and whether it has no parent.
    listed: Vec<(String, String, bool)>,
    /// Whether the step had the page's cursor before.
    has_cursor: bool,
    /// For a page that can end its list, the versions of its records that the passes which tell about the list returned last.
    versions: HashMap<String, i64>,
}

impl Before {
    fn read(tx: &Tx<'_>, page: &LandingPage) -> Result<Self, StoreError> {
        let landing = &*page.landing;
        let open = landing.pass.id;
        let (count, id) = (page.rows.len(), landing.id.to_string());
        let numbers = match tx {
            Tx::File(_) => Query::new(NEWEST, values![]),
            Tx::Server(_) => Query::new(NUMBERS, values![count]),
        };
        let [last, listed, cursor] = of_step(tx, page, open);
        let numbering = match tx {
            Tx::File(_) => Query::never(),
            Tx::Server(_) => Query::new(NUMBERING, values![]).when(count > 0),
        };
        let [
            held,
            landed,
            layout,
            _,
            numbers,
            last,
            listed,
            cursor,
            versions,
        ] = tx.ask([
            passes::holding(landing),
            Query::new(LANDED, values![id]),
            views::layout(landing),
            numbering,
            numbers.when(count > 0),
            last,
            listed,
            cursor,
            lasting::versions(page),
        ])?;
        let held = Held::read(&held)?;
        // A pass that this page does not begin, though its process did not know.
        let begun = held.as_ref().filter(|held| held.number > 1);
        let [last, listed, cursor] = match begun {
            Some(held) if open.is_none() => tx.ask(of_step(tx, page, Some(held.pass)))?,
            _ => [last, listed, cursor],
        };
        let last_position = last.first().map_or(Ok(0), |row| row.integer(0))?;
        if let Some(row) = landed.first() {
            let landed = stored_before(row, landing, (held.as_ref(), last_position))?;
            return Err(StoreError::Landed(landed));
        }
        let versions = versions.iter().filter_map(|row| {
            let version = row.optional_integer(1).transpose()?;
            Some(version.and_then(|version| Ok((row.text(0)?, version))))
        });
        let listed = listed
            .iter()
            .map(|row| Ok((row.text(0)?, row.text(1)?, row.truth(2)?)));
        Ok(Self {
            held,
            layout: layout
                .first()
                .map(|row| KindLayout::read(row, 0))
                .transpose()?,
            numbers: offered(tx, &numbers, count)?,
            last_position,
            listed: listed.collect::<Result<_, StoreError>>()?,
            has_cursor: cursor.first().map_or(Ok(false), |row| row.truth(0))?,
            versions: versions.collect::<Result<_, StoreError>>()?,
        })
    }
}

/// The statements for what a step of a pass has: its last position, what it listed of the page's records, and whether it had the page's
/// cursor.
fn of_step<'p>(tx: &Tx<'_>, page: &'p LandingPage, pass: Option<PassId>) -> [Query<'p>; 3] {
    let (step, next) = (page.step, &page.landing.next);
    let Some(pass) = pass else {
        return [(); 3].map(|()| Query::never());
    };
    let of = values![pass.0, step, &page.landing.upstream, page.kind()];
    let listed = match tx {
        Tx::File(_) => Query::each(LISTED, of, page.rows.iter().map(|row| &row.id)),
        // A page can have very many records.
        Tx::Server(_) => {
            let ids = page.rows.iter().map(|row| row.id.clone()).collect();
            Query::new(LISTED_OF_PAGE, [of, vec![Value::Texts(ids)]].concat())
        }
    };
    [
        Query::new(LAST_POSITION, values![pass.0, step]),
        listed,
        Query::new(REPEATS, values![pass.0, step, next]).when(next.is_some()),
    ]
}

/// What a page was when it was stored.
fn stored_before(
    row: &sql::Row,
    landing: &Landing,
    (held, listed): (Option<&Held>, i64),
) -> Result<Landed, StoreError> {
    let is_known = ListSoFar::read(row.optional_text(2)?.as_deref()).is_known;
    Ok(Landed {
        pass: PassId(row.integer(0)?),
        cursor_repeats: row.truth(1)? && landing.next.is_some() && !is_known,
        is_known,
        listed: u64::try_from(listed).unwrap_or(0),
        // This transaction is undone, and with it the number that it raised.
        number: held.map_or(landing.pass.landed, |held| held.number - 1),
        is_lost: held.is_none(),
    })
}

/// Numbers for as many new records. In a file only one transaction writes at a time, so they follow the newest.
fn offered(tx: &Tx<'_>, rows: &[sql::Row], count: usize) -> Result<Vec<i64>, StoreError> {
    match (tx, rows.first()) {
        (Tx::File(_), Some(newest)) => {
            let newest = newest.integer(0)?;
            Ok((1..=count as i64)
                .map(|more| newest.saturating_add(more))
                .collect())
        }
        _ => rows.iter().map(|row| row.integer(0)).collect(),
    }
}

/// Stores the records. Returns the texts of those whose text changed: indexing is the expensive part, and most records that are seen
/// again have the same text.
fn store<'p>(
    tx: &Tx<'_>,
    page: &'p LandingPage,
    before: &Before,
) -> Result<Vec<(i64, Option<&'p IndexedText>)>, StoreError> {
    let mut texts = Vec::new();
    for layer in layers(page, before) {
        for rows in layer.chunks(AT_ONCE) {
            texts.append(&mut store_some(tx, page, before, rows)?);
        }
    }
    Ok(texts)
}

fn store_some<'p>(
    tx: &Tx<'_>,
    page: &LandingPage,
    before: &Before,
    rows: &[(i64, &'p Row)],
) -> Result<Vec<(i64, Option<&'p IndexedText>)>, StoreError> {
    let landing = &page.landing;
    let (upstream, kind, now) = (&landing.upstream, page.kind(), landing.now);
    let held = before.held.as_ref();
    if let Some(held) = held.filter(|_| landing.kind.history) {
        tx.each(
            LOCK_RECORDS,
            values![upstream, kind],
            rows.iter().map(|(_, row)| &row.id),
        )?;
        for (_, row) in rows {
            let former = values![upstream, kind, &row.id, held.pass.0, now, &row.body];
            tx.later(KEEP_VERSION, former)?;
        }
    }
    let sent = rows.iter().map(|(number, row)| {
        let hash = row.text_hash();
        values![
            *number, upstream, kind, &row.id, now, now, now, hash, &row.body
        ]
    });
    let insert = match held {
        Some(_) => &STORE,
        None => &STORE_NEW,
    };
    let stored = tx.insert(insert, sent.collect())?;
    let stored = stored
        .iter()
        .map(|row| Ok((row.text(2)?, (row.integer(0)?, row.optional_integer(1)?))));
    let stored: HashMap<String, (i64, Option<i64>)> = stored.collect::<Result<_, StoreError>>()?;
    let mut texts = Vec::new();
    for (offered, row) in rows {
        let Some((number, indexed)) = stored.get(&row.id).copied() else {
            continue;
        };
        if number == *offered {
            texts.extend(row.text.as_ref().map(|text| (number, Some(text))));
        } else if indexed != row.text_hash() {
            tx.later(REHASH, values![number, row.text_hash()])?;
            texts.push((number, row.text.as_ref()));
        }
    }
    Ok(texts)
}

/// The records of a page in the order of their ids, with the numbers that they have if they are new: new records are numbered in the
/// order of the page. A record that is several times in a page is in as many layers.
fn layers<'p>(page: &'p LandingPage, before: &Before) -> Vec<Vec<(i64, &'p Row)>> {
    // Without a map of the ids: a page can have very many records.
    let mut rows: Vec<(i64, &Row)> = before.numbers.iter().copied().zip(&page.rows).collect();
    rows.sort_by(|(_, one), (_, other)| one.id.cmp(&other.id));
    let mut layers: Vec<Vec<(i64, &Row)>> = Vec::new();
    let (mut last, mut time) = (None, 0);
    for (number, row) in rows {
        time = match last == Some(&row.id) {
            true => time + 1,
            false => 0,
        };
        last = Some(&row.id);
        if layers.len() <= time {
            layers.push(Vec::new());
        }
        if let Some(layer) = layers.get_mut(time) {
            layer.push((number, row));
        }
    }
    layers
}

/// Whether no record is twice in a page.
fn is_distinct(page: &LandingPage) -> bool {
    let mut ids: Vec<&str> = page.rows.iter().map(|row| row.id.as_str()).collect();
    ids.sort_unstable();
    ids.windows(2).all(|pair| pair.first() != pair.last())
}

/// Stores what a page adds to its pass.
fn advance(
    tx: &Tx<'_>,
    page: &LandingPage,
    before: &Before,
    held: &Held,
    is_known: bool,
) -> Result<Landed, StoreError> {
    let (landing, pass) = (&*page.landing, held.pass);
    let records = list(tx, page, before, pass)?;
    let listed = u64::try_from(before.last_position).unwrap_or(0) + records;
    wanted::store(tx, page, pass)?;
    gone::remove(tx, page, pass)?;
    lasting::store(tx, page, pass, is_known)?;
    if let Some(batch) = &landing.batch {
        store_batch(tx, pass, page.step, batch)?;
    }
    if let Some(since) = &landing.since {
        id_since::store(tx, pass, &landing.call, since)?;
    }
    tags::remember(tx, page)?;
    let next = landing.next.as_ref().filter(|_| !is_known);
    let cursor_repeats = next.is_some() && records == 0 && before.has_cursor;
    let list = landing.list_with(listed, is_known);
    checkpoint(tx, page, pass, (next.filter(|_| !cursor_repeats), &list))?;
    let more = landing.if_repeats.iter().filter(|_| cursor_repeats);
    let doubts: Vec<_> = landing.doubts.iter().chain(more).cloned().collect();
    passes::store_doubts(tx, pass, &doubts)?;
    let counts = Counts {
        pages: 1,
        records,
        requests: landing.requests,
        units: sum(&held.units, &landing.units),
        greatest: landing.greatest.as_deref(),
    };
    passes::count(tx, pass, counts)?;
    Ok(Landed {
        pass,
        cursor_repeats,
        is_known,
        listed,
        number: held.number,
        is_lost: false,
    })
}

/// Lists the records after those that the step listed before, each once; a record that was requested, once for each id that requested
/// it. Returns the number of new rows.
fn list(tx: &Tx<'_>, page: &LandingPage, before: &Before, pass: PassId) -> Result<u64, StoreError> {
    let mut seen: HashSet<(&str, &str, bool)> = HashSet::new();
    for (id, requested, is_first) in &before.listed {
        // A row that the parents of its record were written to since is the same one.
        seen.extend(is_first.then_some((id.as_str(), requested.as_str(), false)));
        seen.insert((id, requested, true));
    }
    let is_new = seen.is_empty() && is_distinct(page);
    let landing = &page.landing;
    let mut rows: Vec<Vec<Value<'_>>> = Vec::new();
    let mut records = 0;
    for row in &page.rows {
        let requested = page.requested_by(row);
        let key = requested.unwrap_or_default();
        if is_new || seen.insert((&row.id, key, requested.is_some())) {
            records += 1;
            let position = before.last_position.saturating_add(records);
            rows.push(values![
                pass.0,
                page.step,
                position,
                &landing.call,
                &landing.upstream,
                page.kind(),
                &row.id,
                requested,
                row.version
            ]);
        }
        if rows.len() >= AT_ONCE {
            tx.insert_later(&LIST, std::mem::take(&mut rows))?;
        }
    }
    tx.insert_later(&LIST, rows)?;
    Ok(records.unsigned_abs())
}

fn store_absent(tx: &Tx<'_>, page: &LandingPage) -> Result<(), StoreError> {
    let landing = &page.landing;
    let at = landing.absent_at.unwrap_or(landing.now);
    let mut answers: Vec<(&str, bool)> = page.answers().collect();
    answers.sort_unstable();
    answers.dedup();
    let mut absent = Vec::new();
    for (id, came) in answers {
        match came {
            true => tx.later(CAME, values![&landing.upstream, page.kind(), id])?,
            false => absent.push(values![&landing.upstream, page.kind(), id, at]),
        }
    }
    tx.insert_later(&ABSENT, absent)
}

/// A batch is in the catalog only between its pages.
fn store_batch(tx: &Tx<'_>, pass: PassId, step: i64, batch: &OpenBatch) -> Result<(), StoreError> {
    let ids = json_list(&batch.ids);
    tx.later(FETCHED, values![pass.0, step, &ids])?;
    if batch.cursors.is_empty() {
        return Ok(());
    }
    tx.later(
        BEGUN,
        values![
            pass.0,
            step,
            ids,
            json_list(&batch.missing),
            json_list(&batch.cursors),
            batch.began,
            batch.empty_pages,
            &batch.greatest
        ],
    )
}

/// Stores the cursor of a page, `None` where the step is done, and what its list showed.
fn checkpoint(
    tx: &Tx<'_>,
    page: &LandingPage,
    pass: PassId,
    (cursor, list): (Option<&String>, &ListSoFar),
) -> Result<(), StoreError> {
    let landing = &page.landing;
    if let Some(cursor) = cursor {
        tx.later(FORGET_CURSOR, values![pass.0, page.step, cursor])?;
    }
    tx.later(
        CHECKPOINT,
        values![
            pass.0,
            page.step,
            cursor,
            landing.now,
            &landing.request,
            landing.empty_pages,
            landing.cut,
            list.stored(),
            landing.id.to_string()
        ],
    )
}
