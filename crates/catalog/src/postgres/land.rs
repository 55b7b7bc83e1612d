//! Stores pages, in two round trips: what the catalog has of a page is read, then everything is written. Every transaction locks
//! tables in the order of this file and rows in the order of their keys.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use tokio::task::yield_now;

use super::before::Before;
use super::connection::sent;
use super::functions::{ADVANCE_PASS, INDEX_RECORDS, STORE_RECORDS};
use super::sql::{Values, as_is, parameters, stored as stored_text, time};
use super::words::Vectors;
use super::{PostgresError, Transaction, gone, id_since, lasting, passes, tags, views};
use crate::layout::KindLayout;
use crate::page::{LandingPage, Row, Text};
use crate::values::{self, integer};
use crate::{Landed, Landing, OpenBatch, PassId, PassRef};

// `offset 0` keeps the lookup of each record by its key apart. Without it, and without statistics of the table, the planner
// reads all records of the kind.
const KEEP_VERSION: &str =
    "insert into record_version (upstream, kind, id, pass, replaced_at, body)
    select record.upstream, record.kind, record.id, $3, $4, record.body
    from unnest($5, $6) with ordinality page (id, body, place)
    cross join lateral (select * from record where upstream = $1 and kind = $2 and id = page.id offset 0) record
    where record.body <> page.body order by page.place";
/// Waits for other machines that land the records of a kind with `history`, so that each former body is kept once.
const LOCK: &str = "select 1 from unnest($3) page (id) cross join lateral
        (select 1 from record where upstream = $1 and kind = $2 and id = page.id for update) record";
const UNINDEX: &str = "delete from record_text where number in
    (select record.number from unnest($3) page (id) cross join lateral
        (select number from record where upstream = $1 and kind = $2 and id = page.id offset 0) record)";
// Locked in the order of the ids, as everywhere: two machines that wait for each other's rows end in a deadlock.
const CAME: &str = "delete from absent where (upstream, kind, id) in
    (select absent.* from unnest($3) page (id) cross join lateral
        (select upstream, kind, id from absent where upstream = $1 and kind = $2 and id = page.id for update) absent)";
const ABSENT: &str = "insert into absent (upstream, kind, id, at) select $1, $2, page.id, $4 from unnest($3) page (id)
    on conflict (upstream, kind, id) do update set at = excluded.at";
const FETCHED: &str = "delete from batch where pass = $1 and step = $2 and ids = $3";
const BEGUN: &str =
    "insert into batch (pass, step, ids, missing, cursors, began, empty_pages, greatest)
    values ($1, $2, $3, $4, $5, $6, $7, $8)";
// A pass that another machine's run would otherwise continue beside its own.
const FAILED: &str = "update pass set outcome = 'failed', finished_at = $2 where id = $1";

/// A page that was stored.
pub struct LandedPage {
    pub landed: Landed,
    /// Whether the view of its kind has to be replaced.
    pub is_new_layout: bool,
    /// How many words were appended to the full-text index.
    pub words: i64,
}

/// Stores a page and commits. The page is brought into the form in which it is stored while the server looks up what it has,
/// once for all attempts; its texts are split into words while the server stores the records.
pub async fn land(
    tx: Transaction<'_>,
    landing: &Arc<Landing>,
    prepared: &OnceLock<LandingPage>,
) -> Result<LandedPage, PostgresError> {
    let (before, page) = tokio::join!(
        biased;
        Before::read(&tx, landing),
        async {
            // The statements are sent meanwhile.
            yield_now().await;
            prepared.get_or_init(|| LandingPage::new(Arc::clone(landing)))
        },
    );
    let before = before?;
    let layout = KindLayout::new(&page.landing.kind);
    let is_new_layout = before.layout.as_ref() != Some(&layout);
    if is_new_layout {
        views::remember(&tx, page, &layout).await?;
    }
    let stored = Stored::new(page, &before);
    for layer in &stored.earlier {
        keep_versions(&tx, page, before.pass, layer).await?;
        store(&tx, page, layer).await?;
    }
    let storing = sent(async {
        tokio::try_join!(
            biased;
            keep_versions(&tx, page, before.pass, &stored.last),
            store(&tx, page, &stored.last),
        )
    })
    .await;
    let vectors = stored.vectors()?;
    let is_known = before.is_held && page.is_known(&before.versions);
    let (cursor_repeats, listed) = match before.is_held {
        true => {
            let rest = write(&tx, page, &before, &stored, &vectors);
            let all = async { tokio::try_join!(biased; storing, rest) };
            tx.commit_after(all).await?.1
        }
        false => {
            storing.await?;
            write_without_lease(&tx, page, &before, &stored, &vectors).await?;
            tx.commit().await?;
            (false, 0)
        }
    };
    let landed = Landed {
        pass: before.pass,
        cursor_repeats,
        is_known,
        listed,
        lease_lost: !before.is_held,
    };
    Ok(LandedPage {
        landed,
        is_new_layout,
        words: vectors.lengths.iter().sum(),
    })
}

/// Writes what follows the records, all statements in one round trip. Returns whether its cursor repeats, and how many records the
/// step lists.
async fn write(
    tx: &Transaction<'_>,
    page: &LandingPage,
    before: &Before,
    stored: &Stored<'_>,
    vectors: &Vectors,
) -> Result<(bool, u64), PostgresError> {
    let pass = before.pass;
    let (.., advanced, ()) = tokio::try_join!(
        biased;
        // `biased` sends them in this order, which is that of all landings: tables are locked in one order.
        index(tx, page, stored, vectors),
        unindex(tx, page, stored),
        forget_absent(tx, page),
        store_absent(tx, page),
        forget_batch(tx, page, pass),
        store_batch(tx, page, pass),
        id_since::store(tx, page, pass),
        lasting::store(tx, page, pass, page.is_known(&before.versions)),
        gone::remove(tx, page),
        tags::remember(tx, page),
        tags::forget_aged(tx, page),
        advance(tx, page, before),
        passes::store_review(tx, pass, &page.landing),
    )?;
    Ok(advanced)
}

/// Writes what was paid for: records and counts. The cursor and the listing are the next holder's, who may request the page
/// again.
async fn write_without_lease(
    tx: &Transaction<'_>,
    page: &LandingPage,
    before: &Before,
    stored: &Stored<'_>,
    vectors: &Vectors,
) -> Result<(), PostgresError> {
    tokio::try_join!(
        biased;
        index(tx, page, stored, vectors),
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
    /// Records whose text changed, and that text.
    indexed: Vec<(Cow<'p, str>, &'p str)>,
    /// Records that had a text and have none now.
    unindexed: Vec<Cow<'p, str>>,
}

/// Records of different ids, in the order of their ids.
#[derive(Default)]
struct Layer<'p> {
    rows: BTreeMap<Cow<'p, str>, Placed<'p>>,
    /// How many of them are new.
    new: i64,
}

/// A record, and what the catalog has of it.
struct Placed<'p> {
    row: &'p Row,
    /// Its place among the new records, from 1; below 1 and different for each known record.
    place: i64,
    /// Whether it is known and its text changes.
    is_changed: bool,
    /// Its place in the page.
    at: usize,
}

impl<'p> Layer<'p> {
    /// Adds a record; `known` is the hash of its stored text, `None` for a new record.
    fn add(&mut self, row: &'p Row, at: usize, known: Option<Option<i64>>) {
        self.new += i64::from(known.is_none());
        let place = match known {
            None => self.new,
            Some(_) => -integer(at as u64),
        };
        let placed = Placed {
            row,
            place,
            is_changed: known.is_some_and(|hash| hash != row.text_hash()),
            at,
        };
        self.rows.insert(stored_text(&row.id), placed);
    }
}

impl<'p> Stored<'p> {
    fn new(page: &'p LandingPage, before: &Before) -> Self {
        let mut layers: Vec<Layer<'p>> = Vec::new();
        let mut seen: HashMap<&str, (usize, Option<i64>)> = HashMap::new();
        let mut texts: BTreeMap<&str, Option<&Text>> = BTreeMap::new();
        for (at, row) in page.rows.iter().enumerate() {
            let earlier = seen.get(&*row.id);
            let depth = earlier.map_or(0, |(depth, _)| depth + 1);
            let stored = before.text_hashes.get(&row.id).copied();
            let known = earlier.map(|(_, hash)| *hash).or(stored);
            if layers.len() <= depth {
                layers.push(Layer::default());
            }
            if let Some(layer) = layers.get_mut(depth) {
                layer.add(row, at, known);
            }
            seen.insert(&row.id, (depth, row.text_hash()));
            texts.insert(&row.id, row.text.as_ref());
        }
        let (mut indexed, mut unindexed) = (Vec::new(), Vec::new());
        for (id, text) in texts {
            let hash = text.map(|text| text.hash);
            let before = before.text_hashes.get(id).copied();
            match text {
                _ if before == Some(hash) => {}
                Some(text) => indexed.push((stored_text(id), text.parted.as_str())),
                None if before.is_some() => unindexed.push(stored_text(id)),
                None => {}
            }
        }
        Self {
            last: layers.pop().unwrap_or_default(),
            earlier: layers,
            indexed,
            unindexed,
        }
    }

    /// The words of the texts that changed.
    fn vectors(&self) -> Result<Vectors, PostgresError> {
        Vectors::new(self.indexed.iter().map(|(_, text)| *text))
    }
}

/// Stores the bodies that records of a kind with history had until now.
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
    // Former bodies are numbered in the order of the page, as in a file.
    let mut rows: Vec<_> = layer.rows.iter().collect();
    rows.sort_by_key(|(_, numbered)| numbered.at);
    let ids: Vec<Cow<'_, str>> = rows.iter().map(|(id, _)| (*id).clone()).collect();
    let bodies: Vec<Cow<'_, str>> = rows.iter().map(|(_, one)| as_is(&one.row.body)).collect();
    let in_order: Vec<Cow<'_, str>> = layer.rows.keys().cloned().collect();
    let now = time(page.landing.now);
    tokio::try_join!(
        biased;
        async { tx.query(LOCK, parameters![upstream, kind, in_order]).await },
        async {
            tx.execute(KEEP_VERSION, parameters![upstream, kind, pass.0, now, ids, bodies])
                .await
        },
    )
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
    let places: Vec<i64> = rows.clone().map(|one| one.place).collect();
    let changed: Vec<bool> = rows.clone().map(|one| one.is_changed).collect();
    let ids: Vec<Cow<'_, str>> = layer.rows.keys().cloned().collect();
    let hashes: Vec<Option<i64>> = rows.clone().map(|one| one.row.text_hash()).collect();
    let bodies: Vec<Cow<'_, str>> = rows.map(|one| as_is(&one.row.body)).collect();
    let now = time(page.landing.now);
    tx.execute(
        STORE_RECORDS,
        parameters![upstream, kind, now, places, changed, ids, hashes, bodies],
    )
    .await
}

async fn index(
    tx: &Transaction<'_>,
    page: &LandingPage,
    stored: &Stored<'_>,
    vectors: &Vectors,
) -> Result<(), PostgresError> {
    if stored.indexed.is_empty() {
        return Ok(());
    }
    let (upstream, kind) = of_kind(page);
    let ids: Vec<Cow<'_, str>> = stored.indexed.iter().map(|(id, _)| id.clone()).collect();
    let Vectors { words, lengths } = vectors;
    tx.execute(
        INDEX_RECORDS,
        parameters![upstream, kind, ids, *lengths, *words],
    )
    .await
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
}

/// The rows that a page adds to a listing.
#[derive(Default)]
struct ListedRecords<'p> {
    positions: Vec<i64>,
    ids: Vec<Cow<'p, str>>,
    requested: Vec<Option<Cow<'p, str>>>,
    versions: Vec<Option<i64>>,
}

impl<'p> ListedRecords<'p> {
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
            listed.versions.push(row.version);
        }
        listed
    }
}

/// The requested ids that came, or that did not, in their order.
fn answers(page: &LandingPage, wanted: bool) -> Vec<Cow<'_, str>> {
    // Sorted, for the order of the locks.
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
    tx.execute(CAME, parameters![upstream, kind, ids]).await
}

async fn store_absent(tx: &Transaction<'_>, page: &LandingPage) -> Result<(), PostgresError> {
    let ids = answers(page, false);
    if ids.is_empty() {
        return Ok(());
    }
    let (upstream, kind) = of_kind(page);
    let landing = &page.landing;
    let at = time(landing.withheld_until.unwrap_or(landing.now));
    tx.execute(ABSENT, parameters![upstream, kind, ids, at])
        .await
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
    tx.execute(FETCHED, parameters![pass.0, page.step, as_is(&ids)])
        .await
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
}

/// Stores what a page adds to its pass. Returns whether the step had its cursor before, which is then done; and how many records it
/// lists.
async fn advance(
    tx: &Transaction<'_>,
    page: &LandingPage,
    before: &Before,
) -> Result<(bool, u64), PostgresError> {
    let landing = &*page.landing;
    let ListedRecords {
        positions,
        ids,
        requested,
        versions,
    } = ListedRecords::new(page, before);
    let is_known = page.is_known(&before.versions);
    let listed = before
        .last_position
        .saturating_add(integer(ids.len() as u64));
    let listed = u64::try_from(listed).unwrap_or(0);
    let (upstream, kind) = of_kind(page);
    let next = landing.next.as_deref().filter(|_| !is_known);
    let next = next.map(stored_text);
    let rows = tx
        .query(
            ADVANCE_PASS,
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
                stored_text(&landing.list_with(listed, is_known).stored()),
                versions,
            ],
        )
        .await?;
    let is_done = rows.first().map_or(Ok(false), |row| row.value(0))?;
    Ok((is_done && next.is_some(), listed))
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
            as_is(&units),
            greatest
        ],
    )
    .await
}

fn of_kind(page: &LandingPage) -> (Cow<'_, str>, Cow<'_, str>) {
    (
        stored_text(&page.landing.upstream),
        stored_text(page.kind()),
    )
}
