use std::sync::{Arc, OnceLock};

use async_trait::async_trait;

use super::catalog::{PostgresCatalog, writing};
use super::land::{LandedPage, land};
use super::sql::takes_id;
use super::{PostgresError, estimates, gone, lasting, parents, passes, prune, tags, views};
use crate::values::integer;
use crate::{
    CallFacts, CatalogError, Estimate, Landed, Landing, PassEnd, PassId, PassRef, PassStore,
    PendingQuery, Rearrangement, Resource, Term,
};
use ingest_base::list_so_far::ListSoFar;
use ingest_base::record::Doubted;
use ingest_quota::{Cost, Timestamp};

/// Terms are numbered from 1.
const NO_TERM: i64 = 0;

#[async_trait]
impl PassStore for PostgresCatalog {
    // A server cannot lose a table under a connection as a file can be deleted under its descriptor: a landing fails there.
    async fn check_writable(&self) -> Result<(), CatalogError> {
        Ok(())
    }

    fn takes_id(&self, id: &str) -> bool {
        takes_id(id)
    }

    async fn land(&self, landing: Arc<Landing>) -> Result<Landed, CatalogError> {
        let landed = match self.try_land(&landing).await {
            Err(PostgresError::NoSuchPass(pass)) => match without_pass(&landing) {
                Some(landing) => self.try_land(&Arc::new(landing)).await,
                None => Err(PostgresError::NoSuchPass(pass)),
            },
            landed => landed,
        };
        self.done(landed)
    }

    async fn restart_step(&self, pass: PassId, step: usize) -> Result<bool, CatalogError> {
        writing!(self, tx => passes::restart_step(&tx, pass, integer(step as u64)))
    }

    async fn rearrange(&self, pass: PassId, change: &Rearrangement) -> Result<(), CatalogError> {
        writing!(self, tx => passes::rearrange(&tx, pass, change))
    }

    async fn link_parents(
        &self,
        pass: PassId,
        step: usize,
        query: PendingQuery,
    ) -> Result<(), CatalogError> {
        writing!(self, tx => parents::link(&tx, pass, integer(step as u64), &query))
    }

    async fn mark_gone(
        &self,
        pass: PassId,
        steps: &[usize],
        now: Timestamp,
    ) -> Result<u64, CatalogError> {
        let steps: Vec<i64> = steps.iter().map(|step| integer(*step as u64)).collect();
        writing!(self, tx => gone::mark(&tx, pass, &steps, now))
    }

    async fn end_step(
        &self,
        pass: PassId,
        step: usize,
        cut: bool,
        list: &ListSoFar,
    ) -> Result<(), CatalogError> {
        writing!(self, tx => passes::end_step(&tx, pass, integer(step as u64), (cut, list)))
    }

    async fn finish(
        &self,
        pass: &PassRef,
        end: PassEnd,
        now: Timestamp,
    ) -> Result<PassId, CatalogError> {
        writing!(self, tx => passes::finish(&tx, pass, end, now))
    }

    async fn complete(
        &self,
        pass: PassId,
        steps: &[usize],
        now: Timestamp,
    ) -> Result<u64, CatalogError> {
        let steps: Vec<i64> = steps.iter().map(|step| integer(*step as u64)).collect();
        let work = || async {
            let mut session = self.postgres.session().await?;
            let tx = session.begin().await?;
            passes::complete(&tx, pass, &steps, now).await
        };
        self.done(match self.postgres.repeated(work).await {
            // A pass that was ended, before the connection was lost, keeps its end.
            Err(PostgresError::InDoubt) => self.postgres.repeated(work).await,
            completed => completed,
        })
    }

    async fn count_unproductive(
        &self,
        pass: &PassRef,
        requests: u64,
        units: &Cost,
        now: Timestamp,
    ) -> Result<(), CatalogError> {
        writing!(self, tx => passes::count_unproductive(&tx, pass, requests, units, now))
    }

    async fn store_outcome(
        &self,
        pass: &PassRef,
        failed: bool,
        notes: Option<&str>,
        now: Timestamp,
    ) -> Result<(), CatalogError> {
        writing!(self, tx => passes::store_outcome(&tx, pass, failed, notes, now))
    }

    async fn store_refusal(&self, pass: PassId, request: &str) -> Result<(), CatalogError> {
        writing!(self, tx => passes::store_refusal(&tx, pass, request))
    }

    async fn store_doubts(&self, pass: PassId, doubts: &[Doubted]) -> Result<(), CatalogError> {
        writing!(self, tx => passes::store_doubts(&tx, pass, doubts))
    }

    async fn store_call_facts(&self, facts: CallFacts) -> Result<(), CatalogError> {
        writing!(self, tx => estimates::store_facts(&tx, &facts))
    }

    async fn forget_lasting(
        &self,
        job: &str,
        region: &str,
        request: &str,
    ) -> Result<(), CatalogError> {
        writing!(self, tx => lasting::forget(&tx, job, region, request))
    }

    async fn forget_lasting_of_id(
        &self,
        job: &str,
        call: &str,
        id: &str,
    ) -> Result<(), CatalogError> {
        writing!(self, tx => lasting::forget_of_id(&tx, job, call, id))
    }

    async fn learn(&self, estimate: Estimate) -> Result<(), CatalogError> {
        writing!(self, tx => estimates::learn(&tx, &estimate))
    }

    async fn forget_tags(&self, upstream: &str, call: &str) -> Result<(), CatalogError> {
        writing!(self, tx => tags::forget(&tx, upstream, call))
    }

    async fn drop_unseen(&self, upstream: &str, since: Timestamp) -> Result<u64, CatalogError> {
        self.done(prune::drop_unseen(&self.postgres, upstream, since).await)
    }
}

impl PostgresCatalog {
    async fn try_land(&self, landing: &Arc<Landing>) -> Result<Landed, PostgresError> {
        let prepared = OnceLock::new();
        let work = || async {
            let mut session = self.postgres.session().await?;
            let tx = session.begin().await?;
            land(tx, landing, &prepared).await
        };
        let page = match self.postgres.repeated(work).await {
            Err(PostgresError::Landed(landed)) => LandedPage {
                landed,
                is_new_layout: false,
                words: 0,
            },
            page => page?,
        };
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
            views::refresh(&self.postgres).await;
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
