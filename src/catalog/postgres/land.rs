//! Stores pages. What can be known before is asked in one round trip, and what follows is written in a second one; every
//! transaction locks tables in the order of this file and rows in the order of their keys.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use tokio::try_join;
use tokio_postgres::Row as Found;

use super::sql::{Columns, all_stored, parameters, plain, stored as stored_text, time};
use super::words::Vector;
use super::{PostgresError, Transaction, fence, passes, tags, views, words};
use crate::catalog::layout::KindLayout;
use crate::catalog::page::{LandingPage, Row, Text};
use crate::catalog::values::{self, integer};
use crate::catalog::{Landed, OpenBatch, PassId, PassRef};

const OPEN: &str =
    "select id, units, pg_current_xact_id()::text from pass where id = $1 for update";
const BEGIN: &str =
    "insert into pass (job, region, started_at, slice_from, slice_to) values ($1, $2, $3, $4, $5)
    returning id, units, pg_current_xact_id()::text";
const NUMBERS: &str = "select nextval('record_number_seq') from generate_series(1, $1)";
/// The transaction that holds a record's lock changes its text.
const HASHES: &str =
    "select id, text_hash from record where upstream = $1 and kind = $2 and id = any($3)
    order by id for update";
const LAST_POSITION: &str =
    "select coalesce(max(position), 0) from listing where pass = $1 and step = $2";
const LISTED: &str = "select id, coalesce(requested, ''), parent is null from listing
    where id = any($5) and kind = $4 and upstream = $3 and pass = $1 and step = $2";
const KEEP_VERSION: &str =
    "insert into record_version (upstream, kind, id, pass, replaced_at, body)
    select record.upstream, record.kind, record.id, $3, $4, record.body
    from unnest($5, $6) with ordinality page (id, body, place)
    join record on record.upstream = $1 and record.kind = $2 and record.id = page.id
    where record.body <> page.body order by page.place";
/// A record of more than 1 MiB counts as changed whenever it is returned, as in a file. An unchanged body is not written
/// again.
const STORE: &str = "insert into record (number, upstream, kind, id, first_seen, last_seen, changed_at, text_hash, body)
    select page.number, $1, $2, page.id, $3, $3, $3, page.text_hash, page.body
    from unnest($4, $5, $6, $7) page (number, id, text_hash, body)
    on conflict (upstream, kind, id) do update set last_seen = excluded.last_seen, gone_at = null,
        text_hash = excluded.text_hash,
        body = case when record.body = excluded.body then record.body else excluded.body end,
        changed_at = case when octet_length(excluded.body) > 1048576 then excluded.last_seen
            when record.body = excluded.body and record.gone_at is null then coalesce(record.changed_at, record.last_seen)
            else excluded.last_seen end";
const INDEX: &str = "insert into record_text (number, length, words)
    select record.number, page.length, page.words::tsvector from unnest($3, $4, $5) page (id, length, words)
    join record on record.upstream = $1 and record.kind = $2 and record.id = page.id
    order by record.number
    on conflict (number) do update set length = excluded.length, words = excluded.words";
const UNINDEX: &str = "delete from record_text where number in
    (select number from record where upstream = $1 and kind = $2 and id = any($3))";
const LIST: &str = "insert into listing (pass, step, position, call, upstream, kind, id, requested)
    select $1, $2, page.position, $3, $4, $5, page.id, page.requested
    from unnest($6, $7, $8) page (position, id, requested)";
const CAME: &str = "delete from absent where (upstream, kind, id) in
    (select upstream, kind, id from absent where upstream = $1 and kind = $2 and id = any($3) order by id for update)";
const ABSENT: &str = "insert into absent (upstream, kind, id, at) select $1, $2, page.id, $4 from unnest($3) page (id)
    on conflict (upstream, kind, id) do update set at = excluded.at";
const FETCHED: &str = "delete from batch where pass = $1 and step = $2 and ids = $3";
const BEGUN: &str = "insert into batch (pass, step, ids, missing, cursors, began, empty_pages)
    values ($1, $2, $3, $4, $5, $6, $7)";
/// The checkpoint of a landing that is repeated since the answer to its commit was lost.
const KNOWN: &str = "select pass, cursor is null from checkpoint where landing = $1";
const CHECKPOINT: &str = "insert into checkpoint (pass, step, page, cursor, landed_at, request, empty_pages, cut, landing)
    select $1, $2, coalesce((select max(page) from checkpoint where pass = $1 and step = $2), 0) + 1,
        case when exists (select 1 from checkpoint
            where pass = $1 and step = $2 and hashtextextended(cursor, 0) = hashtextextended($3, 0) and cursor = $3)
        then null else $3 end, $4, $5, $6, $7, $8
    returning cursor is null";

/// A pass that another machine's run would otherwise continue beside its own.
const FAILED: &str = "update pass set outcome = 'failed', finished_at = $2 where id = $1";

/// What the catalog holds of a page before it lands.
struct Before {
    pass: PassId,
    units: String,
    /// Whether this process still holds the lease under which the page was requested.
    is_held: bool,
    /// The hash of each stored record's text, by id.
    hashes: HashMap<String, Option<i64>>,
    /// Unused numbers for the records, in their order.
    numbers: Vec<i64>,
    last_position: i64,
    /// What the step listed of the page's records: id, the id that requested it, and whether it has no parent.
    listed: Vec<(String, String, bool)>,
    layout: Option<KindLayout>,
}

/// Stores a page. Returns also whether the view of its kind has to be replaced.
pub async fn land(
    tx: &Transaction<'_>,
    page: &LandingPage,
) -> Result<(Landed, bool), PostgresError> {
    let before = before(tx, page).await?;
    let layout = KindLayout::new(&page.landing.kind);
    let is_new_layout = before.layout.as_ref() != Some(&layout);
    if is_new_layout {
        views::remember(tx, page, &layout).await?;
    }
    let stored = Stored::new(page, &before)?;
    for layer in &stored.earlier {
        keep_versions(tx, page, before.pass, layer).await?;
        store(tx, page, layer).await?;
    }
    let cursor_repeats = match before.is_held {
        true => write(tx, page, &before, &stored).await?,
        false => write_without_lease(tx, page, &before, &stored).await?,
    };
    let landed = Landed {
        pass: before.pass,
        cursor_repeats,
        lease_lost: !before.is_held,
    };
    Ok((landed, is_new_layout))
}

/// Writes a page, all statements in one round trip. Returns whether its cursor repeats.
async fn write(
    tx: &Transaction<'_>,
    page: &LandingPage,
    before: &Before,
    stored: &Stored<'_>,
) -> Result<bool, PostgresError> {
    let (pass, listed) = (before.pass, Listed::new(page, before));
    let listed_rows = integer(listed.ids.len() as u64);
    let (.., cursor_repeats, ()) = try_join!(
        biased;
        keep_versions(tx, page, pass, &stored.last),
        store(tx, page, &stored.last),
        index(tx, page, stored),
        unindex(tx, page, stored),
        list(tx, page, pass, &listed),
        forget_absent(tx, page),
        store_absent(tx, page),
        forget_batch(tx, page, pass),
        store_batch(tx, page, pass),
        tags::remember(tx, page),
        tags::forget_aged(tx, page),
        checkpoint(tx, page, pass),
        count(tx, page, before, (1, listed_rows)),
    )?;
    Ok(cursor_repeats)
}

/// Writes what was paid for: records and counts. The cursor and the listing are the next holder's, who may request the page
/// again.
async fn write_without_lease(
    tx: &Transaction<'_>,
    page: &LandingPage,
    before: &Before,
    stored: &Stored<'_>,
) -> Result<bool, PostgresError> {
    try_join!(
        biased;
        keep_versions(tx, page, before.pass, &stored.last),
        store(tx, page, &stored.last),
        index(tx, page, stored),
        unindex(tx, page, stored),
        count(tx, page, before, (0, 0)),
    )?;
    if matches!(page.landing.pass, PassRef::New { .. }) {
        tx.execute(FAILED, parameters![before.pass.0, time(page.landing.now)])
            .await?;
    }
    Ok(false)
}

async fn before(tx: &Transaction<'_>, page: &LandingPage) -> Result<Before, PostgresError> {
    let landing = &*page.landing;
    let (upstream, kind) = of_kind(page);
    let mut ids: Vec<Cow<'_, str>> = all_stored(page.rows.iter().map(|row| &row.id));
    ids.sort_unstable();
    ids.dedup();
    let count = integer(page.rows.len() as u64);
    // Only an open pass can have listed anything.
    let (open, step) = (open(&landing.pass), page.step);
    let (is_held, known, of_pass, layout, numbers, hashes, last, listed) = try_join!(
        biased;
        fence(tx, landing.term.as_ref()),
        async { tx.query(KNOWN, parameters![landing.id]).await },
        of_pass(tx, &landing.pass),
        views::layout(tx, (&upstream, &kind), &landing.call),
        async { tx.query(NUMBERS, parameters![count]).await },
        async { tx.query(HASHES, parameters![upstream, kind, ids]).await },
        async { tx.query(LAST_POSITION, parameters![open, step]).await },
        async { tx.query(LISTED, parameters![open, step, upstream, kind, ids]).await },
    )?;
    if let Some(known) = known.first() {
        // The transaction is rolled back: it may have begun another pass.
        return Err(PostgresError::Landed(Landed {
            pass: PassId(known.value(0)?),
            cursor_repeats: known.value::<bool>(1)? && landing.next.is_some(),
            lease_lost: false,
        }));
    }
    let Some(of_pass) = of_pass.first() else {
        return Err(PostgresError::NoSuchPass(PassId(open)));
    };
    tx.identify(of_pass.value(2)?);
    let numbers = numbers.iter().map(|row| row.value(0));
    let hashes = hashes.iter().map(|row| Ok((row.text(0)?, row.value(1)?)));
    let listed = listed
        .iter()
        .map(|row| Ok((row.text(0)?, row.text(1)?, row.value(2)?)));
    Ok(Before {
        pass: PassId(of_pass.value(0)?),
        units: of_pass.value(1)?,
        is_held,
        hashes: hashes.collect::<Result<_, PostgresError>>()?,
        numbers: numbers.collect::<Result<_, _>>()?,
        last_position: last.first().map_or(Ok(0), |row| row.value(0))?,
        listed: listed.collect::<Result<_, PostgresError>>()?,
        layout,
    })
}

/// The id of an open pass, or one that no pass has.
const fn open(pass: &PassRef) -> i64 {
    match pass {
        PassRef::Open(pass) => pass.0,
        PassRef::New { .. } => -1,
    }
}

/// Locks a pass, or begins one.
async fn of_pass(tx: &Transaction<'_>, pass: &PassRef) -> Result<Vec<Found>, PostgresError> {
    match pass {
        PassRef::Open(pass) => tx.query(OPEN, parameters![pass.0]).await,
        PassRef::New {
            job,
            region,
            slice,
            started_at,
        } => {
            let (from, to) = passes::edges(*slice);
            let (job, region) = (stored_text(job), stored_text(region));
            tx.query(BEGIN, parameters![job, region, time(*started_at), from, to])
                .await
        }
    }
}

/// The records of a page as they are written.
struct Stored<'p> {
    /// A record that is several times in a page, with bodies that differ, is written as often: this is all but the last time.
    earlier: Vec<Layer<'p>>,
    last: Layer<'p>,
    /// Records whose text changed, and their words.
    indexed: BTreeMap<Cow<'p, str>, Vector>,
    /// Records that had a text and have none now.
    unindexed: Vec<Cow<'p, str>>,
}

/// Records of different ids, in the order of their ids.
#[derive(Default)]
struct Layer<'p> {
    rows: BTreeMap<Cow<'p, str>, (i64, &'p Row)>,
}

impl<'p> Stored<'p> {
    fn new(page: &'p LandingPage, before: &Before) -> Result<Self, PostgresError> {
        let mut layers: Vec<Layer<'p>> = Vec::new();
        let mut seen: HashMap<&str, usize> = HashMap::new();
        let mut texts: BTreeMap<&str, Option<&Text>> = BTreeMap::new();
        for (row, number) in page.rows.iter().zip(&before.numbers) {
            let depth = seen.entry(&row.id).or_default();
            texts.insert(&row.id, row.text.as_ref());
            if layers.len() <= *depth {
                layers.push(Layer::default());
            }
            if let Some(layer) = layers.get_mut(*depth) {
                layer.rows.insert(stored_text(&row.id), (*number, row));
            }
            *depth += 1;
        }
        let (mut indexed, mut unindexed) = (Vec::new(), Vec::new());
        for (id, text) in texts {
            let hash = text.map(|text| text.hash);
            let before = before.hashes.get(id);
            match text {
                _ if before == Some(&hash) => {}
                Some(text) => indexed.push((stored_text(id), text.parted.as_str())),
                None if before.is_some() => unindexed.push(stored_text(id)),
                None => {}
            }
        }
        let words = words::vectors(indexed.iter().map(|(_, text)| *text))?;
        let ids = indexed.into_iter().map(|(id, _)| id);
        Ok(Self {
            last: layers.pop().unwrap_or_default(),
            earlier: layers,
            indexed: ids.zip(words).collect(),
            unindexed,
        })
    }
}

async fn keep_versions(
    tx: &Transaction<'_>,
    page: &LandingPage,
    pass: PassId,
    layer: &Layer<'_>,
) -> Result<(), PostgresError> {
    if !page.landing.kind.history || layer.rows.is_empty() {
        return Ok(());
    }
    let (upstream, kind) = of_kind(page);
    let mut rows: Vec<_> = layer.rows.iter().collect();
    rows.sort_by_key(|(_, (number, _))| *number);
    let ids: Vec<Cow<'_, str>> = rows.iter().map(|(id, _)| (*id).clone()).collect();
    let bodies: Vec<Cow<'_, str>> = rows.iter().map(|(_, (_, row))| plain(&row.body)).collect();
    tx.execute(
        KEEP_VERSION,
        parameters![upstream, kind, pass.0, time(page.landing.now), ids, bodies],
    )
    .await
    .map(drop)
}

async fn store(
    tx: &Transaction<'_>,
    page: &LandingPage,
    layer: &Layer<'_>,
) -> Result<(), PostgresError> {
    if layer.rows.is_empty() {
        return Ok(());
    }
    let (upstream, kind) = of_kind(page);
    let rows = layer.rows.values();
    let numbers: Vec<i64> = rows.clone().map(|(number, _)| *number).collect();
    let ids: Vec<Cow<'_, str>> = layer.rows.keys().cloned().collect();
    let hashes: Vec<Option<i64>> = rows.clone().map(|(_, row)| row.text_hash()).collect();
    let bodies: Vec<Cow<'_, str>> = rows.map(|(_, row)| plain(&row.body)).collect();
    tx.execute(
        STORE,
        parameters![
            upstream,
            kind,
            time(page.landing.now),
            numbers,
            ids,
            hashes,
            bodies
        ],
    )
    .await
    .map(drop)
}

async fn index(
    tx: &Transaction<'_>,
    page: &LandingPage,
    stored: &Stored<'_>,
) -> Result<(), PostgresError> {
    if stored.indexed.is_empty() {
        return Ok(());
    }
    let (upstream, kind) = of_kind(page);
    let ids: Vec<Cow<'_, str>> = stored.indexed.keys().cloned().collect();
    let vectors = stored.indexed.values();
    let lengths: Vec<i64> = vectors.clone().map(|vector| vector.length).collect();
    let words: Vec<Cow<'_, str>> = vectors.map(|vector| plain(&vector.words)).collect();
    tx.execute(INDEX, parameters![upstream, kind, ids, lengths, words])
        .await
        .map(drop)
}

async fn unindex(
    tx: &Transaction<'_>,
    page: &LandingPage,
    stored: &Stored<'_>,
) -> Result<(), PostgresError> {
    if stored.unindexed.is_empty() {
        return Ok(());
    }
    let (upstream, kind) = of_kind(page);
    tx.execute(UNINDEX, parameters![upstream, kind, stored.unindexed])
        .await
        .map(drop)
}

/// The rows that a page adds to a listing.
#[derive(Default)]
struct Listed<'p> {
    positions: Vec<i64>,
    ids: Vec<Cow<'p, str>>,
    requested: Vec<Option<Cow<'p, str>>>,
}

impl<'p> Listed<'p> {
    /// The records after those that the step listed before, each once; a record that was requested, once for each id that
    /// requested it.
    fn new(page: &'p LandingPage, before: &'p Before) -> Self {
        let mut seen: HashSet<(&str, &str, bool)> = HashSet::new();
        for (id, requested, is_first) in &before.listed {
            // A row that the parents of its record were written to since is the same one.
            seen.extend(is_first.then_some((id.as_str(), requested.as_str(), false)));
            seen.insert((id, requested, true));
        }
        let mut listed = Self::default();
        let mut last = before.last_position;
        for row in &page.rows {
            let requested = page.requested_by(row);
            let key = (
                row.id.as_str(),
                requested.unwrap_or_default(),
                requested.is_some(),
            );
            if !seen.insert(key) {
                continue;
            }
            last = last.saturating_add(1);
            listed.positions.push(last);
            listed.ids.push(stored_text(&row.id));
            listed.requested.push(requested.map(stored_text));
        }
        listed
    }
}

async fn list(
    tx: &Transaction<'_>,
    page: &LandingPage,
    pass: PassId,
    listed: &Listed<'_>,
) -> Result<(), PostgresError> {
    if listed.ids.is_empty() {
        return Ok(());
    }
    let (upstream, kind) = of_kind(page);
    let call = stored_text(&page.landing.call);
    let Listed {
        positions,
        ids,
        requested,
    } = listed;
    tx.execute(
        LIST,
        parameters![
            pass.0, page.step, call, upstream, kind, *positions, *ids, *requested
        ],
    )
    .await
    .map(drop)
}

/// The requested ids that came, or that did not, in their order.
fn answers(page: &LandingPage, wanted: bool) -> Vec<Cow<'_, str>> {
    let ids: BTreeSet<Cow<'_, str>> = page
        .answers()
        .filter(|(_, came)| *came == wanted)
        .map(|(id, _)| stored_text(id))
        .collect();
    ids.into_iter().collect()
}

async fn forget_absent(tx: &Transaction<'_>, page: &LandingPage) -> Result<(), PostgresError> {
    let ids = answers(page, true);
    if ids.is_empty() {
        return Ok(());
    }
    let (upstream, kind) = of_kind(page);
    tx.execute(CAME, parameters![upstream, kind, ids])
        .await
        .map(drop)
}

async fn store_absent(tx: &Transaction<'_>, page: &LandingPage) -> Result<(), PostgresError> {
    let ids = answers(page, false);
    if ids.is_empty() {
        return Ok(());
    }
    let (upstream, kind) = of_kind(page);
    tx.execute(
        ABSENT,
        parameters![upstream, kind, ids, time(page.landing.now)],
    )
    .await
    .map(drop)
}

async fn forget_batch(
    tx: &Transaction<'_>,
    page: &LandingPage,
    pass: PassId,
) -> Result<(), PostgresError> {
    let Some(batch) = &page.landing.batch else {
        return Ok(());
    };
    let ids = values::list(&batch.ids);
    tx.execute(FETCHED, parameters![pass.0, page.step, plain(&ids)])
        .await
        .map(drop)
}

/// A batch is in the catalog only between its pages.
async fn store_batch(
    tx: &Transaction<'_>,
    page: &LandingPage,
    pass: PassId,
) -> Result<(), PostgresError> {
    let between = |batch: &&OpenBatch| !batch.cursors.is_empty();
    let Some(batch) = page.landing.batch.as_ref().filter(between) else {
        return Ok(());
    };
    let lists = [&batch.ids, &batch.missing, &batch.cursors];
    let [ids, missing, cursors] = lists.map(|list| Cow::<str>::Owned(values::list(list)));
    let (began, empty_pages) = (time(batch.began), integer(batch.empty_pages));
    tx.execute(
        BEGUN,
        parameters![pass.0, page.step, ids, missing, cursors, began, empty_pages],
    )
    .await
    .map(drop)
}

/// Stores the cursor. Returns whether the step had it before; the step is then done.
async fn checkpoint(
    tx: &Transaction<'_>,
    page: &LandingPage,
    pass: PassId,
) -> Result<bool, PostgresError> {
    let landing = &*page.landing;
    let next = landing.next.as_deref().map(stored_text);
    let rows = tx
        .query(
            CHECKPOINT,
            parameters![
                pass.0,
                page.step,
                next,
                time(landing.now),
                stored_text(&landing.request),
                integer(landing.empty_pages),
                landing.cut,
                landing.id,
            ],
        )
        .await?;
    let is_done = rows.first().map_or(Ok(false), |row| row.value(0))?;
    Ok(is_done && next.is_some())
}

async fn count(
    tx: &Transaction<'_>,
    page: &LandingPage,
    before: &Before,
    (pages, records): (i64, i64),
) -> Result<(), PostgresError> {
    let landing = &*page.landing;
    let units = values::sum(&before.units, &landing.units);
    let greatest = landing.greatest.as_deref().map(stored_text);
    let requests = integer(landing.requests);
    tx.execute(
        passes::COUNT,
        parameters![
            before.pass.0,
            pages,
            records,
            requests,
            plain(&units),
            greatest
        ],
    )
    .await
    .map(drop)
}

fn of_kind(page: &LandingPage) -> (Cow<'_, str>, Cow<'_, str>) {
    (
        stored_text(&page.landing.upstream),
        stored_text(page.kind()),
    )
}
