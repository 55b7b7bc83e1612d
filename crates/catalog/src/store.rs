use std::path::Path;
use std::sync::Arc;

use rusqlite::ffi::{Error, SQLITE_FULL};
use rustix::fs::statvfs;

use super::catalog::{Server, Store};
use super::land::LandedPage;
use super::page::{LandingPage, is_large};
use super::passes::Held;
use super::postgres;
use super::sql::{Query, Row, StoreError, Tx, values};
use super::{
    Catalog, CatalogError, KeptLists, Landed, Landing, OpenPass, PassEnd, PassId, PassRef,
    PendingQuery, Rearrangement,
};
use super::{gone, land, parents, passes};
use ingest_base::list_so_far::ListSoFar;
use ingest_base::record::Doubted;
use ingest_quota::{Cost, Timestamp};

/// The free space without which no page is requested, in bytes: a page that finds no space is paid for in vain.
const LEAST_SPACE: u64 = 1024 * 1024;

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
                let landed = Box::pin(server.land(&landing)).await;
                landed.map_err(|error| error.of_server(server.postgres.shown()))
            }
        }
    }

    /// Takes up an unfinished pass: from then on this process alone can write to it. `None` if something was written to it since it was
    /// read.
    pub async fn take_up(
        &self,
        job: &str,
        open: &OpenPass,
    ) -> Result<Option<PassRef>, CatalogError> {
        let pass = PassRef {
            id: Some(open.id),
            landed: open.landed,
            ..PassRef::new(job, &open.region, open.slice, open.started_at)
        };
        let (id, landed, token) = (open.id.0, open.landed, pass.token.to_string());
        let taken = self.write(move |tx| tx.first(passes::TAKE_UP, values![id, landed, &token]));
        Ok(taken.await?.map(|_| pass))
    }

    /// Writes to a pass, which fails unless this process holds it.
    async fn write_to<T: Send + 'static>(
        &self,
        pass: &mut PassRef,
        work: impl Fn(&Tx<'_>, PassId) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, CatalogError> {
        let work = move |tx: &Tx<'_>, pass, _: &[Vec<Row>]| work(tx, pass);
        self.ask_and_write_to(pass, Vec::new(), work).await
    }

    /// The same behind statements, whose rows it is given.
    async fn ask_and_write_to<T: Send + 'static>(
        &self,
        pass: &mut PassRef,
        queries: Vec<Query<'static>>,
        work: impl Fn(&Tx<'_>, PassId, &[Vec<Row>]) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, CatalogError> {
        let of = pass.clone();
        let write = move |tx: &Tx<'_>| {
            let (held, found) = passes::hold(tx, &of, queries.clone())?;
            let Held { pass, number, .. } = held;
            Ok((work(tx, pass, &found)?, number))
        };
        let (done, number) = self.write(write).await?;
        pass.landed = number;
        Ok(done)
    }

    /// Restarts a step of a pass and deletes its listing. Returns `false`, and changes nothing, if the step was restarted
    /// before.
    pub async fn restart_step(
        &self,
        pass: &mut PassRef,
        step: usize,
        now: Timestamp,
    ) -> Result<bool, CatalogError> {
        let restart = move |tx: &Tx<'_>, pass: PassId| {
            if tx.execute(passes::RESTART, values![pass.0, step, now])? == 0 {
                return Ok(false);
            }
            passes::forget_step(tx, pass, step)?;
            Ok(true)
        };
        self.write_to(pass, restart).await
    }

    /// Adapts an unfinished pass to the steps that its job has now.
    pub async fn rearrange(
        &self,
        pass: &mut PassRef,
        change: &Rearrangement,
    ) -> Result<(), CatalogError> {
        let change = change.clone();
        let rearrange = move |tx: &Tx<'_>, pass| {
            for step in &change.dropped {
                passes::forget_step(tx, pass, *step)?;
            }
            tx.batch(&change.sql(pass))
        };
        self.write_to(pass, rearrange).await
    }

    /// Stores which records named the ids that a step of a pass requested: the parents of what it returned. `query` is the
    /// query for the ids of that step.
    pub async fn link_parents(
        &self,
        pass: &mut PassRef,
        step: usize,
        query: PendingQuery,
    ) -> Result<(), CatalogError> {
        self.write_to(pass, move |tx, pass| parents::link(tx, pass, step, &query))
            .await
    }

    /// Marks records as gone: those that the last complete pass of the same list as these steps of the pass `of` has and they do not,
    /// unless another list has them or they were returned since that pass started. A list whose passes begin at cursors has what
    /// any of its passes named. Call it for a `pass` before it ends, with its steps that listed everything; or, where the pass before
    /// read lists which can end at what is known, for that one. Returns the number of records.
    pub async fn mark_gone(
        &self,
        pass: &mut PassRef,
        (of, steps): (PassId, &[usize]),
        now: Timestamp,
    ) -> Result<u64, CatalogError> {
        let (queries, steps) = (gone::before(of, steps), steps.to_vec());
        let mark =
            move |tx: &Tx<'_>, _, found: &[Vec<Row>]| gone::mark(tx, (of, &steps), found, now);
        self.ask_and_write_to(pass, queries, mark).await
    }

    /// Ends a step at its last landed page, whatever cursor that page has, and adds doubts to the pass; `cut` as in
    /// [`Landing::cut`], `list` instead of the one that was landed.
    pub async fn end_step(
        &self,
        pass: &mut PassRef,
        (step, cut): (usize, bool),
        list: &ListSoFar,
        doubts: &[Doubted],
    ) -> Result<(), CatalogError> {
        let (list, doubts) = (list.clone(), doubts.to_vec());
        let end = move |tx: &Tx<'_>, pass: PassId| {
            passes::store_doubts(tx, pass, &doubts)?;
            tx.later(passes::END_STEP, values![pass.0, step, cut, list.stored()])
        };
        self.write_to(pass, end).await
    }

    /// Ends a pass. A pass that has ended keeps its end.
    pub async fn finish(
        &self,
        pass: &mut PassRef,
        end: PassEnd,
        now: Timestamp,
    ) -> Result<PassId, CatalogError> {
        if let Some(id) = pass.id {
            self.write_to(pass, move |tx, pass| passes::end(tx, pass, end, now))
                .await?;
            return Ok(id);
        }
        let of = pass.clone();
        let ended = self.write(move |tx| passes::end_without_page(tx, &of, end, now));
        let id = ended.await?;
        (pass.id, pass.landed) = (Some(id), 1);
        Ok(id)
    }

    /// Ends a pass as complete, after it marked the records as gone that these steps no longer list, as [`Self::mark_gone`] does.
    /// Returns the number of records.
    pub async fn complete(
        &self,
        pass: &mut PassRef,
        steps: &[usize],
        now: Timestamp,
    ) -> Result<u64, CatalogError> {
        let steps = match self.simulated {
            // What no simulation has is not missing.
            Some(_) => Vec::new(),
            None => steps.to_vec(),
        };
        let queries = pass.id.map(|pass| gone::before(pass, &steps));
        let complete = move |tx: &Tx<'_>, pass, found: &[Vec<Row>]| {
            let gone = gone::mark(tx, (pass, &steps), found, now)?;
            passes::end(tx, pass, PassEnd::Complete, now)?;
            Ok(gone)
        };
        self.ask_and_write_to(pass, queries.unwrap_or_default(), complete)
            .await
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
        let count =
            move |tx: &Tx<'_>| passes::count_unproductive(tx, &pass, (requests, &units), now);
        self.write(count).await.map(drop)
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
        self.write(move |tx| {
            let stored = match pass.id {
                Some(pass) => Some(pass),
                None => passes::without_page(tx, &pass, failed, now)?,
            };
            stored.map_or(Ok(()), |id| {
                let of = values![id.0, now, failed, &notes, pass.token.to_string()];
                tx.later(passes::STORE_OUTCOME, of)
            })
        })
        .await
    }

    /// Stores what the job requested in a pass that was refused or is doubtful, so that the region is due again when that changes.
    pub async fn store_refusal(
        &self,
        pass: &mut PassRef,
        request: &str,
    ) -> Result<(), CatalogError> {
        let request = request.to_owned();
        let store = move |tx: &Tx<'_>, pass: PassId| {
            tx.later(passes::STORE_REFUSAL, values![pass.0, &request])
        };
        self.write_to(pass, store).await
    }

    /// Keeps what passes named in lists that have more than this pass lists.
    pub async fn keep_named(
        &self,
        pass: &mut PassRef,
        lists: KeptLists,
    ) -> Result<(), CatalogError> {
        self.write_to(pass, move |tx, pass| gone::keep(tx, pass, &lists))
            .await
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
    async fn land(&self, landing: &Arc<Landing>) -> Result<Landed, StoreError> {
        let page = Arc::new(LandingPage::new(Arc::clone(landing)));
        let landed = self.try_write(move |tx| land::land(tx, &page)).await;
        let page = LandedPage::of(landed)?;
        self.merging.add(page.words);
        if page.is_new_layout {
            postgres::refresh_views(self).await;
        }
        Ok(page.landed)
    }
}
