use std::path::Path;
use std::sync::Arc;

use rusqlite::ffi::{Error, SQLITE_FULL};
use rustix::fs::statvfs;

use super::catalog::{Server, Store};
use super::land::LandedPage;
use super::page::{LandingPage, is_large};
use super::postgres::{self, PostgresError};
use super::sql::{StoreError, Tx};
use super::{
    Catalog, CatalogError, KeptLists, Landed, Landing, PassEnd, PassId, PassRef, PendingQuery,
    Rearrangement, Resource, Term,
};
use super::{gone, id_since, land, lasting, parents, passes, prune, tags};
use ingest_base::list_so_far::ListSoFar;
use ingest_base::record::Doubted;
use ingest_quota::{Cost, Timestamp};

/// The free space without which no page is requested, in bytes: a page that finds no space is paid for in vain.
const LEAST_SPACE: u64 = 1024 * 1024;
/// Terms are numbered from 1.
const NO_TERM: i64 = 0;

/// What a run writes. Each method writes all or nothing, and fails if the catalog cannot be written.
impl Catalog {
    /// Fails if a landed page would be lost, as when the catalog's file was deleted since it was opened. Fast enough to be
    /// called before each request.
    pub async fn check_writable(&self) -> Result<(), CatalogError> {
        match &self.store {
            Store::File(file) => {
                let files = file.files.as_ref();
                let checked = files.map_or(Ok(()), |files| {
                    files.in_place().and_then(|()| has_room(&file.path))
                });
                checked.map_err(|error| StoreError::from(error).of_file(&file.path))
            }
            // A server cannot lose a table under a connection as a file can be deleted under its descriptor: a landing fails there.
            Store::Server(_) => Ok(()),
        }
    }

    /// Whether the catalog can store an id. One that it cannot store is neither landed nor requested.
    pub fn takes_id(&self, id: &str) -> bool {
        match &self.store {
            // A row of a file takes any text.
            Store::File(_) => true,
            Store::Server(_) => postgres::takes_id(id),
        }
    }

    /// Stores a page: records, listing, full-text index, cursor and the pass's counts. An error means that nothing of it
    /// was stored, so the caller can repeat the same landing after a retryable one.
    pub async fn land(&self, landing: Arc<Landing>) -> Result<Landed, CatalogError> {
        if let Some(simulated) = &self.simulated {
            let simulated = Arc::clone(simulated);
            return self.write(move |tx| simulated.land(tx, &landing)).await;
        }
        match &self.store {
            Store::File(file) => {
                let is_large = is_large(&landing);
                // The page takes its form not on the thread of the run.
                let land = move |tx: &Tx<'_>| land::land(tx, &LandingPage::new(landing));
                let page = file.land(is_large, land).await;
                page.map(|page| page.landed)
            }
            Store::Server(server) => {
                let landed = Box::pin(server.land_or_count(&landing)).await;
                landed.map_err(|error| error.of_server(server.postgres.shown()))
            }
        }
    }

    /// Restarts a step of a pass and deletes its listing. Returns `false`, and changes nothing, if the step was restarted
    /// before.
    pub async fn restart_step(
        &self,
        pass: PassId,
        step: usize,
        now: Timestamp,
    ) -> Result<bool, CatalogError> {
        self.write(move |tx| passes::restart_step(tx, pass, step, now))
            .await
    }

    /// Adapts an unfinished pass to the steps that its job has now.
    pub async fn rearrange(
        &self,
        pass: PassId,
        change: &Rearrangement,
    ) -> Result<(), CatalogError> {
        let change = change.clone();
        self.write(move |tx| passes::rearrange(tx, pass, &change))
            .await
    }

    /// Stores which records named the ids that a step of a pass requested: the parents of what it returned. `query` is the
    /// query for the ids of that step.
    pub async fn link_parents(
        &self,
        pass: PassId,
        step: usize,
        query: PendingQuery,
    ) -> Result<(), CatalogError> {
        self.write(move |tx| parents::link(tx, pass, step, &query))
            .await
    }

    /// Marks records as gone: those that the last complete pass of the same list has and these steps of this pass do not,
    /// unless another list has them or they were returned since this pass started. A list whose passes begin at cursors has what
    /// any of its passes named. Call it before the pass ends, with the steps that listed everything; or, where that pass read lists which
    /// can end at what is known, before the next complete one of the region ends. Returns the number of records.
    pub async fn mark_gone(
        &self,
        pass: PassId,
        steps: &[usize],
        now: Timestamp,
    ) -> Result<u64, CatalogError> {
        let steps = steps.to_vec();
        self.write(move |tx| gone::mark(tx, pass, &steps, now))
            .await
    }

    /// Ends a step at its last landed page, whatever cursor that page has; `cut` as in [`Landing::cut`], `list` instead of the
    /// one that was landed.
    pub async fn end_step(
        &self,
        pass: PassId,
        step: usize,
        cut: bool,
        list: &ListSoFar,
    ) -> Result<(), CatalogError> {
        let list = list.clone();
        self.write(move |tx| passes::end_step(tx, pass, step, (cut, &list)))
            .await
    }

    /// Ends a pass. A pass that has ended keeps its end.
    pub async fn finish(
        &self,
        pass: &PassRef,
        end: PassEnd,
        now: Timestamp,
    ) -> Result<PassId, CatalogError> {
        let pass = pass.clone();
        self.write(move |tx| passes::finish(tx, &pass, end, now))
            .await
    }

    /// Ends a pass as complete, after it marked the records as gone that these steps no longer list, as [`Self::mark_gone`] does.
    /// Returns the number of records.
    pub async fn complete(
        &self,
        pass: PassId,
        steps: &[usize],
        now: Timestamp,
    ) -> Result<u64, CatalogError> {
        let steps = match self.simulated {
            // What no simulation has is not missing.
            Some(_) => Vec::new(),
            None => steps.to_vec(),
        };
        let complete = move |tx: &Tx<'_>| passes::complete(tx, pass, &steps, now);
        let Store::Server(server) = &self.store else {
            return self.write(complete).await;
        };
        let completed = Box::pin(async {
            match server.try_write(complete.clone()).await {
                // A pass that was ended, before the connection was lost, keeps its end.
                Err(StoreError::Postgres(PostgresError::InDoubt)) => {
                    server.try_write(complete).await
                }
                completed => completed,
            }
        });
        completed
            .await
            .map_err(|error| error.of_server(server.postgres.shown()))
    }

    /// Adds requests that returned no page, and the units charged for them, to a pass. A new pass is stored as failed, so that
    /// `history` shows what it cost and a ledger that was lost is charged it.
    pub async fn count_unproductive(
        &self,
        pass: &PassRef,
        requests: u64,
        units: &Cost,
        now: Timestamp,
    ) -> Result<(), CatalogError> {
        let (pass, units) = (pass.clone(), units.clone());
        self.write(move |tx| passes::count_unproductive(tx, &pass, requests, &units, now))
            .await
    }

    /// Stores whether the run of a pass failed, with notes for people: of a pass that is not complete, or is complete with notes. A
    /// pass that is not in the catalog is stored if it failed. Of the passes of a region that failed before any request, only the last
    /// is kept: they cost nothing, and there is one with every run.
    pub async fn store_outcome(
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

    /// Stores what the job requested in a pass that was refused or is doubtful, so that the region is due again when that changes.
    pub async fn store_refusal(&self, pass: PassId, request: &str) -> Result<(), CatalogError> {
        let request = request.to_owned();
        self.write(move |tx| passes::store_refusal(tx, pass, &request))
            .await
    }

    /// Adds doubts to an unfinished pass.
    pub async fn store_doubts(&self, pass: PassId, doubts: &[Doubted]) -> Result<(), CatalogError> {
        let doubts = doubts.to_vec();
        self.write(move |tx| passes::store_doubts(tx, pass, &doubts))
            .await
    }

    /// Deletes the cursors with which the next pass of a job over a region begins this request. Passes over slices, whose region
    /// names the slice, have none.
    pub async fn forget_lasting(
        &self,
        job: &str,
        region: &str,
        request: &str,
    ) -> Result<(), CatalogError> {
        let [job, region, request] = [job, region, request].map(str::to_owned);
        self.write(move |tx| lasting::forget(tx, &job, &region, &request))
            .await
    }

    /// Deletes the cursor with which the next list of an id begins, as steps of this call request it for this job.
    pub async fn forget_lasting_of_id(
        &self,
        job: &str,
        call: &str,
        id: &str,
    ) -> Result<(), CatalogError> {
        let [job, call, id] = [job, call, id].map(str::to_owned);
        self.write(move |tx| id_since::forget(tx, &job, &call, &id))
            .await
    }

    /// Keeps what passes named in lists that have more than this pass lists.
    pub async fn keep_named(&self, pass: PassId, lists: KeptLists) -> Result<(), CatalogError> {
        self.write(move |tx| gone::keep(tx, pass, &lists)).await
    }

    /// Deletes the tags of a call's pages, so that they are requested in full.
    pub async fn forget_tags(&self, upstream: &str, call: &str) -> Result<(), CatalogError> {
        let (upstream, call) = (upstream.to_owned(), call.to_owned());
        self.write(move |tx| tags::forget(tx, &upstream, &call))
            .await
    }

    /// Deletes the records of an upstream that were last seen before `since`. Returns their number.
    pub async fn drop_unseen(&self, upstream: &str, since: Timestamp) -> Result<u64, CatalogError> {
        let of = upstream.to_owned();
        if !self.read(move |tx| prune::is_old(tx, &of, since)).await? {
            return Ok(0);
        }
        let mut dropped = 0;
        loop {
            let of = upstream.to_owned();
            let some = self.write(move |tx| prune::drop_some(tx, &of, since));
            let (records, more) = some.await?;
            dropped += records;
            if !more {
                return Ok(dropped);
            }
        }
    }
}

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

impl Server {
    async fn land_or_count(&self, landing: &Arc<Landing>) -> Result<Landed, StoreError> {
        match self.land(landing).await {
            Err(error @ StoreError::NoSuchPass(_)) => match without_pass(landing) {
                Some(landing) => self.land(&Arc::new(landing)).await,
                None => Err(error),
            },
            landed => landed,
        }
    }

    async fn land(&self, landing: &Arc<Landing>) -> Result<Landed, StoreError> {
        let page = Arc::new(LandingPage::new(Arc::clone(landing)));
        let landed = self.try_write(move |tx| land::land(tx, &page)).await;
        let page = LandedPage::of(landed)?;
        let landed = page.landed;
        self.merging.add(page.words);
        if let Some(term) = &landing.term {
            let terms = self.postgres.terms();
            terms.walks(&term.resource, landed.pass);
            if !landed.lease_lost {
                terms.set_last_landing(&term.resource, Some(landing.id));
            }
        }
        if page.is_new_layout {
            postgres::refresh_views(self).await;
        }
        Ok(landed)
    }
}

/// Returns the landing of a page whose pass a failover lost: its records and counts only, under a term that nobody has. `None`
/// where the page was not requested under a lease of a region.
fn without_pass(landing: &Landing) -> Option<Landing> {
    let term = landing.term.as_ref()?;
    let Resource::Region { job, region } = &term.resource else {
        return None;
    };
    Some(Landing {
        pass: PassRef::New {
            job: job.clone(),
            region: region.clone(),
            slice: None,
            started_at: landing.now,
        },
        term: Some(Term {
            number: NO_TERM,
            ..term.clone()
        }),
        ..landing.clone()
    })
}
