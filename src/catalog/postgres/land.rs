//! Stores pages. What can be known before is asked in one round trip, and what follows is written in a second one; every
//! transaction locks tables in the order of this file and rows in the order of their keys.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use super::before::Before;
use super::sql::{Columns, parameters, plain, stored as stored_text, time};
use super::words::Vectors;
use super::{PostgresError, Transaction, id_since, passes, tags, views};
use crate::catalog::layout::KindLayout;
use crate::catalog::page::{LandingPage, Row, Text};
use crate::catalog::values::{self, integer};
use crate::catalog::{Landed, Landing, OpenBatch, PassId, PassRef};

const KEEP_VERSION: &str =
    "insert into record_version (upstream, kind, id, pass, replaced_at, body)
    select record.upstream, record.kind, record.id, $3, $4, record.body
    from unnest($5, $6) with ordinality page (id, body, place)
    cross join lateral (select * from record where upstream = $1 and kind = $2 and id = page.id offset 0) record
    where record.body <> page.body order by page.place";
/// A record has its number, or the place of a new one among those that are drawn: new records are numbered in the order of the
/// page, and written in the order of their ids.
///
/// A record of more than 1 MiB counts as changed whenever it is returned, as in a file. An unchanged body is not written
/// again.
const STORE: &str = "with drawn as materialized (select array_agg(number) numbers
        from (select nextval('record_number_seq') number from generate_series(1, $9)) one)
    insert into record (number, upstream, kind, id, first_seen, last_seen, changed_at, text_hash, body)
    select coalesce(page.number, drawn.numbers[page.place]), $1, $2, page.id, $3, $3, $3, page.text_hash, page.body
    from unnest($4, $5, $6, $7, $8) page (number, place, id, text_hash, body), drawn
    on conflict (upstream, kind, id) do update set last_seen = excluded.last_seen, gone_at = null,
        text_hash = excluded.text_hash,
        body = case when record.body = excluded.body then record.body else excluded.body end,
        changed_at = case when octet_length(excluded.body) > 1048576 then excluded.last_seen
            when record.body = excluded.body and record.gone_at is null then coalesce(record.changed_at, record.last_seen)
            else excluded.last_seen end";
const INDEX: &str = "insert into record_text (number, length, words)
    select record.number, page.length, page.words from unnest($3, $4, $5) page (id, length, words)
    cross join lateral (select number from record where upstream = $1 and kind = $2 and id = page.id offset 0) record
    order by record.number
    on conflict (number) do update set length = excluded.length, words = excluded.words";
const UNINDEX: &str = "delete from record_text where number in
    (select record.number from unnest($3) page (id) cross join lateral
        (select number from record where upstream = $1 and kind = $2 and id = page.id offset 0) record)";
const CAME: &str = "delete from absent where (upstream, kind, id) in
    (select absent.* from unnest($3) page (id) cross join lateral
        (select upstream, kind, id from absent where upstream = $1 and kind = $2 and id = page.id for update) absent)";
const ABSENT: &str = "insert into absent (upstream, kind, id, at) select $1, $2, page.id, $4 from unnest($3) page (id)
    on conflict (upstream, kind, id) do update set at = excluded.at";
const FETCHED: &str = "delete from batch where pass = $1 and step = $2 and ids = $3";
const BEGUN: &str =
    "insert into batch (pass, step, ids, missing, cursors, began, empty_pages, greatest)
    values ($1, $2, $3, $4, $5, $6, $7, $8)";
/// What a page adds to its pass, which is locked: its listing, its cursor and its counts. A cursor that the step had before ends the
/// step, unless the page lists new records.
const ADVANCE: &str = "with forgotten as (
        update checkpoint set cursor = null where $15::bigint > 0 and pass = $1 and step = $2
            and hashtextextended(cursor, 0) = hashtextextended($9, 0) and cursor = $9),
    listed as (
        insert into listing (pass, step, position, call, upstream, kind, id, requested)
        select $1, $2, page.position, $3, $4, $5, page.id, page.requested
        from unnest($6, $7, $8) page (position, id, requested)),
    landed as (
        insert into checkpoint (pass, step, page, cursor, landed_at, request, empty_pages, cut, landing)
        select $1, $2, coalesce((select page from checkpoint where pass = $1 and step = $2 order by page desc limit 1), 0) + 1,
            case when $15::bigint = 0 and exists (select 1 from checkpoint
                where pass = $1 and step = $2 and hashtextextended(cursor, 0) = hashtextextended($9, 0) and cursor = $9)
            then null else $9 end, $10, $11, $12, $13, $14
        returning cursor is null as is_done)
    update pass set pages = pages + 1, records = records + $15, units = $16,
        requests = least(requests, 9223372036854775807 - $17) + $17, greatest = coalesce($18, greatest)
    where id = $1 returning (select is_done from landed)";

/// A pass that another machine's run would otherwise continue beside its own.
const FAILED: &str = "update pass set outcome = 'failed', finished_at = $2 where id = $1";

/// A page that was stored.
pub struct LandedPage {
    pub landed: Landed,
    /// Whether the view of its kind has to be replaced.
    pub is_new_layout: bool,
    /// How many words were appended to the full-text index.
    pub words: i64,
}

/// Stores a page and commits. What its records look like as they are stored is worked out while the server is asked what it has,
/// once for all attempts.
pub async fn land(
    tx: Transaction<'_>,
    landing: &Arc<Landing>,
    prepared: &OnceLock<LandingPage>,
) -> Result<LandedPage, PostgresError> {
    let (before, page) = tokio::join!(
        biased;
        Before::read(&tx, landing),
        async { prepared.get_or_init(|| LandingPage::new(Arc::clone(landing))) },
    );
    let before = before?;
    let layout = KindLayout::new(&page.landing.kind);
    let is_new_layout = before.layout.as_ref() != Some(&layout);
    if is_new_layout {
        views::remember(&tx, page, &layout).await?;
    }
    let stored = Stored::new(page, &before)?;
    for layer in &stored.earlier {
        keep_versions(&tx, page, before.pass, layer).await?;
        store(&tx, page, layer).await?;
    }
    let cursor_repeats = match before.is_held {
        true => tx.commit_after(write(&tx, page, &before, &stored)).await?,
        false => {
            write_without_lease(&tx, page, &before, &stored).await?;
            tx.commit().await?;
            false
        }
    };
    let landed = Landed {
        pass: before.pass,
        cursor_repeats,
        lease_lost: !before.is_held,
    };
    Ok(LandedPage {
        landed,
        is_new_layout,
        words: stored.vectors.lengths.iter().sum(),
    })
}

/// Writes a page, all statements in one round trip. Returns whether its cursor repeats.
async fn write(
    tx: &Transaction<'_>,
    page: &LandingPage,
    before: &Before,
    stored: &Stored<'_>,
) -> Result<bool, PostgresError> {
    let pass = before.pass;
    let (.., cursor_repeats) = tokio::try_join!(
        biased;
        keep_versions(tx, page, pass, &stored.last),
        store(tx, page, &stored.last),
        index(tx, page, stored),
        unindex(tx, page, stored),
        forget_absent(tx, page),
        store_absent(tx, page),
        forget_batch(tx, page, pass),
        store_batch(tx, page, pass),
        id_since::store(tx, page, pass),
        tags::remember(tx, page),
        tags::forget_aged(tx, page),
        advance(tx, page, before),
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
) -> Result<(), PostgresError> {
    tokio::try_join!(
        biased;
        keep_versions(tx, page, before.pass, &stored.last),
        store(tx, page, &stored.last),
        index(tx, page, stored),
        unindex(tx, page, stored),
        count(tx, page, before),
    )?;
    if matches!(page.landing.pass, PassRef::New { .. }) {
        tx.execute(FAILED, parameters![before.pass.0, time(page.landing.now)])
            .await?;
    }
    Ok(())
}

/// The records of a page as they are written.
struct Stored<'p> {
    /// A record that is several times in a page, with bodies that differ, is written as often: this is all but the last time.
    earlier: Vec<Layer<'p>>,
    last: Layer<'p>,
    /// Records whose text changed, and their words.
    indexed: Vec<Cow<'p, str>>,
    vectors: Vectors,
    /// Records that had a text and have none now.
    unindexed: Vec<Cow<'p, str>>,
}

/// Records of different ids, in the order of their ids.
#[derive(Default)]
struct Layer<'p> {
    rows: BTreeMap<Cow<'p, str>, Numbered<'p>>,
    /// How many of them need a new number.
    drawn: i64,
}

/// A record, and its number or its place among the numbers that are drawn.
struct Numbered<'p> {
    row: &'p Row,
    number: Option<i64>,
    place: Option<i64>,
    /// Its place in the page.
    at: usize,
}

impl<'p> Layer<'p> {
    fn add(&mut self, row: &'p Row, at: usize, number: Option<i64>) {
        self.drawn += i64::from(number.is_none());
        let place = number.is_none().then_some(self.drawn);
        let numbered = Numbered {
            row,
            number,
            place,
            at,
        };
        self.rows.insert(stored_text(&row.id), numbered);
    }
}

impl<'p> Stored<'p> {
    fn new(page: &'p LandingPage, before: &Before) -> Result<Self, PostgresError> {
        let mut layers: Vec<Layer<'p>> = Vec::new();
        let mut seen: HashMap<&str, usize> = HashMap::new();
        let mut texts: BTreeMap<&str, Option<&Text>> = BTreeMap::new();
        for (at, row) in page.rows.iter().enumerate() {
            let depth = seen.entry(&row.id).or_default();
            texts.insert(&row.id, row.text.as_ref());
            if layers.len() <= *depth {
                layers.push(Layer::default());
            }
            if let Some(layer) = layers.get_mut(*depth) {
                let known = before.records.get(&row.id);
                layer.add(row, at, known.map(|known| known.number));
            }
            *depth += 1;
        }
        let (mut indexed, mut parted, mut unindexed) = (Vec::new(), Vec::new(), Vec::new());
        for (id, text) in texts {
            let hash = text.map(|text| text.hash);
            let before = before.records.get(id).map(|record| record.text_hash);
            match text {
                _ if before == Some(hash) => {}
                Some(text) => {
                    indexed.push(stored_text(id));
                    parted.push(text.parted.as_str());
                }
                None if before.is_some() => unindexed.push(stored_text(id)),
                None => {}
            }
        }
        Ok(Self {
            last: layers.pop().unwrap_or_default(),
            earlier: layers,
            indexed,
            vectors: Vectors::of(parted.into_iter())?,
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
    rows.sort_by_key(|(_, numbered)| numbered.at);
    let ids: Vec<Cow<'_, str>> = rows.iter().map(|(id, _)| (*id).clone()).collect();
    let bodies: Vec<Cow<'_, str>> = rows.iter().map(|(_, one)| plain(&one.row.body)).collect();
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
    let numbers: Vec<Option<i64>> = rows.clone().map(|one| one.number).collect();
    let places: Vec<Option<i64>> = rows.clone().map(|one| one.place).collect();
    let ids: Vec<Cow<'_, str>> = layer.rows.keys().cloned().collect();
    let hashes: Vec<Option<i64>> = rows.clone().map(|one| one.row.text_hash()).collect();
    let bodies: Vec<Cow<'_, str>> = rows.map(|one| plain(&one.row.body)).collect();
    tx.execute(
        STORE,
        parameters![
            upstream,
            kind,
            time(page.landing.now),
            numbers,
            places,
            ids,
            hashes,
            bodies,
            layer.drawn,
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
    let Vectors { words, lengths } = &stored.vectors;
    tx.execute(
        INDEX,
        parameters![upstream, kind, stored.indexed, *lengths, *words],
    )
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
    let greatest = batch.greatest.as_deref().map(stored_text);
    tx.execute(
        BEGUN,
        parameters![
            pass.0,
            page.step,
            ids,
            missing,
            cursors,
            began,
            empty_pages,
            greatest
        ],
    )
    .await
    .map(drop)
}

/// Stores what a page adds to its pass. Returns whether the step had its cursor before; the step is then done.
async fn advance(
    tx: &Transaction<'_>,
    page: &LandingPage,
    before: &Before,
) -> Result<bool, PostgresError> {
    let landing = &*page.landing;
    let Listed {
        positions,
        ids,
        requested,
    } = Listed::new(page, before);
    let (upstream, kind) = of_kind(page);
    let next = landing.next.as_deref().map(stored_text);
    let rows = tx
        .query(
            ADVANCE,
            parameters![
                before.pass.0,
                page.step,
                stored_text(&landing.call),
                upstream,
                kind,
                positions,
                ids,
                requested,
                next,
                time(landing.now),
                stored_text(&landing.request),
                integer(landing.empty_pages),
                landing.cut,
                landing.id,
                integer(ids.len() as u64),
                Cow::<str>::Owned(values::sum(&before.units, &landing.units)),
                integer(landing.requests),
                landing.greatest.as_deref().map(stored_text),
            ],
        )
        .await?;
    let is_done = rows.first().map_or(Ok(false), |row| row.value(0))?;
    Ok(is_done && next.is_some())
}

/// Counts requests of a page that adds nothing to its pass.
async fn count(
    tx: &Transaction<'_>,
    page: &LandingPage,
    before: &Before,
) -> Result<(), PostgresError> {
    let landing = &*page.landing;
    let units = values::sum(&before.units, &landing.units);
    let greatest = landing.greatest.as_deref().map(stored_text);
    let (pages, records, requests) = (0_i64, 0_i64, integer(landing.requests));
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
