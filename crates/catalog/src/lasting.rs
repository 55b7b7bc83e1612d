//! Lists of which a pass reads only what is new: the cursors at their ends, with which the next pass begins, and what is known of
//! lists that stop there.

use super::page::LandingPage;
use super::rows::known_list;
use super::sql::{Query, Row, StoreError, Tx, values};
use super::{
    AtKnown, Catalog, CatalogError, CatalogReader, KnownList, LastingCursor, LastingCursors, PassId,
};
use ingest_quota::Timestamp;

const OF_PASS: &str =
    "select request, cursor from lasting_cursor where pass = {key} and cursor is not null";
const STORE: &str =
    "insert into lasting_cursor (pass, step, request, cursor, stopped) values (?1, ?2, ?3, ?4, ?5)
    on conflict (pass, request) do update set step = excluded.step, cursor = excluded.cursor, stopped = excluded.stopped";
/// The version of a record that the last pass returned which tells about the list: of the pass `?4`, or of a new one of this job
/// and region.
// In this order: from the newest pass with the record on, until one tells.
const VERSION: &str = "select listing.id, listing.version from listing {by listing_of_record}
    {join} lasting_cursor own on own.pass = listing.pass and own.request = ?3 and own.step = listing.step
    {join} pass on pass.id = listing.pass and pass.outcome = 'complete' and pass.cut = false
        and pass.job = ?4 and pass.region = ?5
    where listing.id = {key} and listing.kind = ?1 and listing.upstream = ?2
    order by listing.pass desc limit 1";
/// Whether a list has a record that a pass returned which tells about the list.
const MEETS: &str = "select exists (select 1 from listing mine
    {join} listing told {by listing_of_record}
        on told.id = mine.id and told.kind = mine.kind and told.upstream = mine.upstream and told.pass <> mine.pass
    {join} lasting_cursor own on own.pass = told.pass and own.request = ?3 and own.step = told.step
    {join} pass on pass.id = told.pass and pass.outcome = 'complete' and pass.cut = false
        and (pass.job, pass.region) = (select job, region from pass where id = ?1)
    where mine.pass = ?1 and mine.step = ?2)";
const KNOWN: &str = "select pass.id, pass.started_at, last.page, last.empty_pages, own.step, last.list
    from lasting_cursor own {join} pass on pass.id = own.pass
    {join} checkpoint last on last.pass = own.pass and last.step = own.step and last.page = (
        select max(page) from checkpoint where checkpoint.pass = own.pass and checkpoint.step = own.step)
    where own.request = ?3 and own.stopped = false and pass.job = ?1 and pass.region = ?2 and pass.outcome = 'complete'
        and pass.cut = false and pass.started_at <= ?4
    order by pass.started_at desc, pass.id desc limit 1";
const FORGET: &str = "update lasting_cursor set cursor = null
    where request = ?3 and pass in (select id from pass where job = ?1 and region = ?2)";
pub const STATEMENTS: &[&str] = &[OF_PASS, VERSION, MEETS, KNOWN];

impl CatalogReader {
    /// Returns the cursors at the ends of the lists of these passes, with which the next ones begin.
    pub async fn lasting_cursors(&self, passes: &[PassId]) -> Result<LastingCursors, CatalogError> {
        let passes = passes.to_vec();
        self.read_few(move |tx| {
            let mut known: LastingCursors = passes.iter().map(|pass| (*pass, Vec::new())).collect();
            for row in tx.each(OF_PASS, values![], passes.iter().map(|pass| pass.0))? {
                let of_pass = passes.get(row.place).and_then(|pass| known.get_mut(pass));
                if let Some(cursors) = of_pass {
                    cursors.push(LastingCursor {
                        request: row.text(0)?,
                        cursor: row.text(1)?,
                    });
                }
            }
            Ok(known)
        })
        .await
    }

    /// Returns, for each of these lists of a job, a region and a request, how far it was read; `None` for one that no complete pass
    /// read to its end. Ignores passes that started later than `now`.
    pub async fn known_lists(
        &self,
        job: &str,
        lists: &[(String, String)],
        now: Timestamp,
    ) -> Result<Vec<Option<KnownList>>, CatalogError> {
        let (job, lists) = (job.to_owned(), lists.to_vec());
        self.read_few(move |tx| known(tx, &job, &lists, now)).await
    }

    /// Whether the list of a step of an unfinished pass has any record that an earlier pass returned which tells about the list, as
    /// [`AtKnown`] says.
    pub async fn meets_known(
        &self,
        pass: PassId,
        step: usize,
        request: &str,
    ) -> Result<bool, CatalogError> {
        // In a simulation nothing is new.
        if self.simulated.is_some() {
            return Ok(true);
        }
        let request = request.to_owned();
        self.read_few(move |tx| tx.one(MEETS, values![pass.0, step, &request], Row::truth))
            .await
    }
}

impl Catalog {
    /// Deletes the cursors with which the next pass of a job over a region begins this request. Passes over slices, whose region
    /// names the slice, have none.
    pub async fn forget_lasting(
        &self,
        job: &str,
        region: &str,
        request: &str,
    ) -> Result<(), CatalogError> {
        let [job, region, request] = [job, region, request].map(str::to_owned);
        self.write(move |tx| tx.later(FORGET, values![&job, &region, &request]))
            .await
    }
}

/// Stores the cursor of the last page of a list, or that a list stops at what is known. `is_known`: whether it stopped at this page.
pub fn store(
    tx: &Tx<'_>,
    page: &LandingPage,
    pass: PassId,
    is_known: bool,
) -> Result<(), StoreError> {
    let cursor = &page.landing.lasting;
    let stopped = (page.landing.at_known != AtKnown::Ignore).then_some(is_known);
    if cursor.is_none() && stopped.is_none() {
        return Ok(());
    }
    let request = &page.landing.request;
    tx.later(STORE, values![pass.0, page.step, request, cursor, stopped])
}

/// The statement for the versions of the records of a page that can end its list: a row for each record that is known.
pub fn versions(page: &LandingPage) -> Query<'_> {
    let landing = &page.landing;
    if !landing.can_stop() {
        return Query::never();
    }
    let of = values![
        page.kind(),
        &landing.upstream,
        &landing.request,
        &landing.pass.job,
        &landing.pass.region
    ];
    let ids = page.rows.iter().map(|row| &row.id);
    Query::each(VERSION, of, ids)
}

/// How far lists of a job were read.
pub fn known(
    tx: &Tx<'_>,
    job: &str,
    lists: &[(String, String)],
    now: Timestamp,
) -> Result<Vec<Option<KnownList>>, StoreError> {
    let queries = lists
        .iter()
        .map(|(region, request)| Query::new(KNOWN, values![job, region, request, now]));
    let found = tx.ask_all(&queries.collect::<Vec<_>>())?;
    let known = found
        .iter()
        .map(|rows| rows.first().map(known_list).transpose());
    known.collect()
}
