use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::ffi::{Error, SQLITE_FULL};
use rustix::fs::statvfs;

use super::catalog::{Server, Store};
use super::land::LandedPage;
use super::page::{LandingPage, is_large};
use super::postgres::{self, PostgresError};
use super::sql::{StoreError, Tx};
use super::{
    CallFacts, Catalog, CatalogError, Estimate, Landed, Landing, PassEnd, PassId, PassRef,
    PassStore, PendingQuery, Rearrangement, Resource, Term,
};
use super::{estimates, gone, id_since, land, lasting, parents, passes, prune, tags};
use ingest_base::list_so_far::ListSoFar;
use ingest_base::record::Doubted;
use ingest_quota::{Cost, Timestamp};

/// The free space without which no page is requested, in bytes: a page that finds no space is paid for in vain.
const LEAST_SPACE: u64 = 1024 * 1024;
/// Terms are numbered from 1.
const NO_TERM: i64 = 0;

#[async_trait]
impl PassStore for Catalog {
    async fn check_writable(&self) -> Result<(), CatalogError> {
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

    fn takes_id(&self, id: &str) -> bool {
        match &self.store {
            // A row of a file takes any text.
            Store::File(_) => true,
            Store::Server(_) => postgres::takes_id(id),
        }
    }

    async fn land(&self, landing: Arc<Landing>) -> Result<Landed, CatalogError> {
        match &self.store {
            Store::File(file) => {
                let is_large = is_large(&landing);
                // The page takes its form not on the thread of the run.
                let land = move |tx: &Tx<'_>| land::land(tx, &LandingPage::new(landing));
                let page = file.land(is_large, land).await;
                page.map(|page| page.landed)
            }
            Store::Server(server) => {
                let landed = match server.land(&landing).await {
                    Err(error @ StoreError::NoSuchPass(_)) => match without_pass(&landing) {
                        Some(landing) => server.land(&Arc::new(landing)).await,
                        None => Err(error),
                    },
                    landed => landed,
                };
                landed.map_err(|error| error.of_server(server.postgres.shown()))
            }
        }
    }

    async fn restart_step(&self, pass: PassId, step: usize) -> Result<bool, CatalogError> {
        self.write(move |tx| passes::restart_step(tx, pass, step))
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
        self.write(move |tx| parents::link(tx, pass, step, &query))
            .await
    }

    async fn mark_gone(
        &self,
        pass: PassId,
        steps: &[usize],
        now: Timestamp,
    ) -> Result<u64, CatalogError> {
        let steps = steps.to_vec();
        self.write(move |tx| gone::mark(tx, pass, &steps, now))
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
        self.write(move |tx| passes::end_step(tx, pass, step, (cut, &list)))
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

    async fn complete(
        &self,
        pass: PassId,
        steps: &[usize],
        now: Timestamp,
    ) -> Result<u64, CatalogError> {
        let steps = steps.to_vec();
        let complete = move |tx: &Tx<'_>| passes::complete(tx, pass, &steps, now);
        let Store::Server(server) = &self.store else {
            return self.write(complete).await;
        };
        let completed = match server.try_write(complete.clone()).await {
            // A pass that was ended, before the connection was lost, keeps its end.
            Err(StoreError::Postgres(PostgresError::InDoubt)) => server.try_write(complete).await,
            completed => completed,
        };
        completed.map_err(|error| error.of_server(server.postgres.shown()))
    }

    async fn count_unproductive(
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
        self.write(move |tx| passes::store_doubts(tx, pass, &doubts))
            .await
    }

    async fn store_call_facts(&self, facts: CallFacts) -> Result<(), CatalogError> {
        self.write(move |tx| estimates::store_facts(tx, &facts))
            .await
    }

    async fn forget_lasting(
        &self,
        job: &str,
        region: &str,
        request: &str,
    ) -> Result<(), CatalogError> {
        let [job, region, request] = [job, region, request].map(str::to_owned);
        self.write(move |tx| lasting::forget(tx, &job, &region, &request))
            .await
    }

    async fn forget_lasting_of_id(
        &self,
        job: &str,
        call: &str,
        id: &str,
    ) -> Result<(), CatalogError> {
        let [job, call, id] = [job, call, id].map(str::to_owned);
        self.write(move |tx| id_since::forget(tx, &job, &call, &id))
            .await
    }

    async fn learn(&self, estimate: Estimate) -> Result<(), CatalogError> {
        self.write(move |tx| estimates::learn(tx, &estimate)).await
    }

    async fn forget_tags(&self, upstream: &str, call: &str) -> Result<(), CatalogError> {
        let (upstream, call) = (upstream.to_owned(), call.to_owned());
        self.write(move |tx| tags::forget(tx, &upstream, &call))
            .await
    }

    async fn drop_unseen(&self, upstream: &str, since: Timestamp) -> Result<u64, CatalogError> {
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
