use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::ffi::{Error, SQLITE_FULL};
use rustix::fs::statvfs;

use super::{
    SqliteCatalog, columns, estimates, gone, in_transaction, land, lasting, parents, passes, prune,
    tags,
};
use crate::page::{LandingPage, is_large};
use crate::values::integer;
use crate::{
    CallFacts, CatalogError, Estimate, Landed, Landing, PassEnd, PassId, PassRef, PassStore,
    PendingQuery, Rearrangement,
};
use ingest_base::apart::{apart, apart_alone};
use ingest_base::list_so_far::ListSoFar;
use ingest_base::record::Doubted;
use ingest_quota::{Cost, Timestamp};

/// The free space without which no page is requested, in bytes: a page that finds no space is paid for in vain.
const LEAST_SPACE: u64 = 1024 * 1024;

/// Fails if the disk of a file is almost full. A disk that does not report its size is not.
fn has_room(path: &Path) -> rusqlite::Result<()> {
    let disk = path.parent().and_then(|directory| statvfs(directory).ok());
    let is_full = disk.is_some_and(|disk| {
        disk.f_blocks > 0 && disk.f_bavail.saturating_mul(disk.f_frsize) < LEAST_SPACE
    });
    match is_full {
        true => Err(rusqlite::Error::SqliteFailure(
            Error::new(SQLITE_FULL),
            Some("less than 1 MiB is free".to_owned()),
        )),
        false => Ok(()),
    }
}

#[async_trait]
impl PassStore for SqliteCatalog {
    async fn check_writable(&self) -> Result<(), CatalogError> {
        let files = self.access.files.as_ref();
        let checked = files.map_or(Ok(()), |files| {
            files.in_place().and_then(|()| has_room(&self.path))
        });
        self.done(Ok(checked.map_err(Into::into)))
    }

    // A row of a file takes any text.
    fn takes_id(&self, _: &str) -> bool {
        true
    }

    async fn land(&self, landing: Arc<Landing>) -> Result<Landed, CatalogError> {
        let (database, is_large) = (Arc::clone(&self.database), is_large(&landing));
        let land = move || {
            // Not on the thread of the run, and not while others wait for the file.
            let page = LandingPage::new(landing);
            database
                .lock()
                .change(|connection| in_transaction(connection, |tx| land::land(tx, &page)))
        };
        self.done(match is_large {
            // An allocator rarely reuses on one thread what another one freed: all that need much memory share one thread.
            true => apart_alone(land).await,
            false => apart(land).await,
        })
    }

    async fn restart_step(&self, pass: PassId, step: usize) -> Result<bool, CatalogError> {
        self.write(move |tx| passes::restart_step(tx, pass, integer(step as u64)))
            .await
    }

    async fn rearrange(&self, pass: PassId, change: &Rearrangement) -> Result<(), CatalogError> {
        let change = change.clone();
        self.write(move |tx| passes::rearrange(tx, pass, &change))
            .await
    }

    async fn link_parents(
        &self,
        pass: PassId,
        step: usize,
        query: PendingQuery,
    ) -> Result<(), CatalogError> {
        self.write(move |tx| parents::link(tx, pass, integer(step as u64), &query))
            .await
    }

    async fn mark_gone(
        &self,
        pass: PassId,
        steps: &[usize],
        now: Timestamp,
    ) -> Result<u64, CatalogError> {
        let steps: Vec<i64> = steps.iter().map(|step| integer(*step as u64)).collect();
        self.write(move |tx| Ok(gone::mark(tx, pass, &steps, now)?))
            .await
    }

    async fn end_step(
        &self,
        pass: PassId,
        step: usize,
        cut: bool,
        list: &ListSoFar,
    ) -> Result<(), CatalogError> {
        let list = list.clone();
        self.write(move |tx| passes::end_step(tx, pass, integer(step as u64), (cut, &list)))
            .await
    }

    async fn finish(
        &self,
        pass: &PassRef,
        end: PassEnd,
        now: Timestamp,
    ) -> Result<PassId, CatalogError> {
        let pass = pass.clone();
        self.write(move |tx| passes::finish(tx, &pass, end, now))
            .await
    }

    async fn count_unproductive(
        &self,
        pass: &PassRef,
        requests: u64,
        units: &Cost,
        now: Timestamp,
    ) -> Result<(), CatalogError> {
        let (pass, units) = (pass.clone(), units.clone());
        self.write(move |tx| passes::count_unproductive(tx, &pass, integer(requests), &units, now))
            .await
    }

    async fn store_outcome(
        &self,
        pass: &PassRef,
        failed: bool,
        notes: Option<&str>,
        now: Timestamp,
    ) -> Result<(), CatalogError> {
        let (pass, notes) = (pass.clone(), notes.map(str::to_owned));
        self.write(move |tx| passes::store_outcome(tx, &pass, failed, notes.as_deref(), now))
            .await
    }

    async fn store_refusal(&self, pass: PassId, request: &str) -> Result<(), CatalogError> {
        let request = request.to_owned();
        self.write(move |tx| passes::store_refusal(tx, pass, &request))
            .await
    }

    async fn store_doubts(&self, pass: PassId, doubts: &[Doubted]) -> Result<(), CatalogError> {
        let doubts = doubts.to_vec();
        self.write(move |tx| Ok(passes::store_doubts(tx, pass, &doubts)?))
            .await
    }

    async fn store_call_facts(&self, facts: CallFacts) -> Result<(), CatalogError> {
        self.write(move |tx| Ok(estimates::store_facts(tx, &facts)?))
            .await
    }

    async fn forget_lasting(
        &self,
        job: &str,
        region: &str,
        request: &str,
    ) -> Result<(), CatalogError> {
        let [job, region, request] = [job, region, request].map(str::to_owned);
        self.write(move |tx| Ok(lasting::forget(tx, &job, &region, &request)?))
            .await
    }

    async fn forget_lasting_of_id(
        &self,
        job: &str,
        call: &str,
        id: &str,
    ) -> Result<(), CatalogError> {
        let [job, call, id] = [job, call, id].map(str::to_owned);
        self.write(move |tx| Ok(lasting::forget_of_id(tx, &job, &call, &id)?))
            .await
    }

    async fn learn(&self, estimate: Estimate) -> Result<(), CatalogError> {
        self.write(move |tx| Ok(estimates::learn(tx, &estimate)?))
            .await
    }

    async fn forget_tags(&self, upstream: &str, call: &str) -> Result<(), CatalogError> {
        let (upstream, call) = (upstream.to_owned(), call.to_owned());
        self.write(move |tx| Ok(tags::forget(tx, &upstream, &call)?))
            .await
    }

    async fn drop_unseen(&self, upstream: &str, since: Timestamp) -> Result<u64, CatalogError> {
        let (upstream, since) = (upstream.to_owned(), columns::time(since));
        self.change(move |connection| Ok(prune::drop_unseen(connection, &upstream, &since)?))
            .await
    }
}
