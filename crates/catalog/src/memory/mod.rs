//! A catalog in memory, for simulations: it begins with [`Contents`] and the states of regions that another catalog has, and
//! stores passes and ids, no records.
//!
//! Its lists are known beforehand: a landed page has one record, whose id is the page's number in the contents. It deletes and marks
//! nothing, has no archive, and is the only one that has its leases.

mod contents;
mod pass;
mod state;

use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;

use self::pass::{open, open_passes};
use self::state::State;
use super::{
    CallFacts, CatalogError, Estimate, IdSince, KnownList, Landed, Landing, LastPages,
    LastingCursors, Lease, Leases, Listed, NamedIds, OpenPass, PassEnd, PassId, PassReader,
    PassRef, PassStore, PendingId, PendingQuery, Rearrangement, RecordIds, RegionState, Resource,
    SliceState, Taken, Term,
};
use ingest_base::clock::Deadline;
use ingest_base::list_so_far::ListSoFar;
use ingest_base::record::{CachedPage, Doubted, Tag};
use ingest_config::{IdPlace, Slice};
use ingest_quota::{Cost, Timestamp};

pub use contents::{Contents, PageNumber, PageRecords, RecordKind, RegionAtStart};

#[derive(Debug, Default)]
pub struct MemoryCatalog {
    contents: Arc<Contents>,
    state: Mutex<State>,
}

impl MemoryCatalog {
    /// Begins with the state of these regions, and with the shared passes of jobs, each with the upstream and the name of its job.
    #[must_use]
    pub fn new<'a>(
        contents: Arc<Contents>,
        regions: impl IntoIterator<Item = RegionAtStart<'a>>,
        shared: impl IntoIterator<Item = (&'a str, &'a str, &'a OpenPass)>,
    ) -> Self {
        let mut state = State::new(&contents);
        for region in regions {
            state.begin(&contents, region);
        }
        for (upstream, job, pass) in shared {
            state.put(pass.id, open(&contents, upstream, job, pass));
        }
        Self {
            contents,
            state: Mutex::new(state),
        }
    }
}

#[async_trait]
impl PassReader for MemoryCatalog {
    async fn region_states(
        &self,
        job: &str,
        regions: &[String],
        _: Timestamp,
    ) -> Result<Vec<RegionState>, CatalogError> {
        let state = self.state.lock();
        Ok(regions
            .iter()
            .map(|region| state.region_state(job, region))
            .collect())
    }

    async fn slices(
        &self,
        job: &str,
        regions: &[String],
        _: Timestamp,
    ) -> Result<Vec<SliceState>, CatalogError> {
        let state = self.state.lock();
        let slices = |region: &String| state.slices(job, region);
        Ok(regions.iter().flat_map(slices).collect())
    }

    async fn slice(
        &self,
        job: &str,
        region: &str,
        slice: Slice,
        _: Timestamp,
    ) -> Result<Option<SliceState>, CatalogError> {
        Ok(self.state.lock().slice(job, region, slice))
    }

    async fn last_pages(
        &self,
        job: &str,
        regions: &[String],
        _: u32,
    ) -> Result<Vec<LastPages>, CatalogError> {
        let state = self.state.lock();
        let last = |region: &String| state.last_pages(job, region).into_iter().collect();
        Ok(regions.iter().map(last).collect())
    }

    async fn open_passes(&self, job: &str) -> Result<Vec<OpenPass>, CatalogError> {
        Ok(open_passes(self.state.lock().open(job)))
    }

    async fn listings(&self, passes: &[PassId]) -> Result<Listed, CatalogError> {
        let known = |pass: &PassId| self.contents.listings.get(pass).cloned();
        let listed = passes
            .iter()
            .map(|pass| (*pass, known(pass).unwrap_or_default()));
        Ok(listed.collect())
    }

    async fn pending_ids(&self, query: PendingQuery) -> Result<Vec<PendingId>, CatalogError> {
        Ok(self.state.lock().pending(&self.contents, &query))
    }

    async fn named_ids(
        &self,
        records: RecordIds,
        at: &IdPlace,
    ) -> Result<Vec<NamedIds>, CatalogError> {
        let place = ((records.upstream, records.kind), at.to_string());
        let names = self.contents.names(&place);
        let named = |id: Arc<str>| {
            let named = names.of(&id).into_owned();
            (id, named)
        };
        Ok(records.ids.into_iter().map(named).collect())
    }

    /// What a simulated list returns depends on no time.
    async fn id_sinces(
        &self,
        _: &str,
        _: &str,
        _: &[String],
    ) -> Result<Vec<IdSince>, CatalogError> {
        Ok(Vec::new())
    }

    async fn lasting_cursors(&self, _: &[PassId]) -> Result<LastingCursors, CatalogError> {
        Ok(LastingCursors::new())
    }

    async fn known_lists(
        &self,
        job: &str,
        lists: &[(String, String)],
        _: Timestamp,
    ) -> Result<Vec<Option<KnownList>>, CatalogError> {
        let state = self.state.lock();
        let known = |(region, request): &(String, String)| state.known_list(job, region, request);
        Ok(lists.iter().map(known).collect())
    }

    /// In a simulation nothing is new.
    async fn meets_known(&self, _: PassId, _: usize, _: &str) -> Result<bool, CatalogError> {
        Ok(true)
    }

    async fn last_fetched(
        &self,
        records: RecordIds,
    ) -> Result<Vec<(Arc<str>, Timestamp)>, CatalogError> {
        let state = self.state.lock();
        let fetched = state.fetched(&self.contents, &(records.upstream, records.kind));
        let at = |id: Arc<str>| fetched.at(&id).map(|at| (id, at));
        Ok(records.ids.into_iter().filter_map(at).collect())
    }

    async fn cached_page(
        &self,
        _: &str,
        _: &str,
        _: &str,
    ) -> Result<Option<CachedPage>, CatalogError> {
        Ok(None)
    }

    async fn tags(&self, _: &str) -> Result<Vec<Tag>, CatalogError> {
        Ok(Vec::new())
    }

    async fn call_facts(&self) -> Result<Vec<CallFacts>, CatalogError> {
        Ok(self.state.lock().call_facts.clone())
    }

    async fn estimates(&self) -> Result<Vec<Estimate>, CatalogError> {
        Ok(Vec::new())
    }

    async fn unseen(&self, _: &str, _: Timestamp) -> Result<u64, CatalogError> {
        Ok(0)
    }
}

#[async_trait]
impl PassStore for MemoryCatalog {
    async fn check_writable(&self) -> Result<(), CatalogError> {
        Ok(())
    }

    fn takes_id(&self, _: &str) -> bool {
        true
    }

    async fn land(&self, landing: Arc<Landing>) -> Result<Landed, CatalogError> {
        Ok(self.state.lock().land(&landing))
    }

    async fn restart_step(&self, _: PassId, _: usize) -> Result<bool, CatalogError> {
        Ok(false)
    }

    async fn rearrange(&self, pass: PassId, change: &Rearrangement) -> Result<(), CatalogError> {
        if let Some(pass) = self.state.lock().passes.get_mut(&pass.0) {
            pass.rearrange(change);
        }
        Ok(())
    }

    async fn link_parents(&self, _: PassId, _: usize, _: PendingQuery) -> Result<(), CatalogError> {
        Ok(())
    }

    async fn mark_gone(&self, _: PassId, _: &[usize], _: Timestamp) -> Result<u64, CatalogError> {
        Ok(0)
    }

    async fn end_step(
        &self,
        pass: PassId,
        step: usize,
        cut: bool,
        _: &ListSoFar,
    ) -> Result<(), CatalogError> {
        if let Some(pass) = self.state.lock().passes.get_mut(&pass.0) {
            pass.cut |= cut;
            for at in pass.positions.iter_mut().filter(|at| at.step == step) {
                at.cursor = None;
            }
        }
        Ok(())
    }

    async fn finish(
        &self,
        pass: &PassRef,
        end: PassEnd,
        now: Timestamp,
    ) -> Result<PassId, CatalogError> {
        Ok(self.state.lock().finish(pass, end, now))
    }

    async fn count_unproductive(
        &self,
        _: &PassRef,
        _: u64,
        _: &Cost,
        _: Timestamp,
    ) -> Result<(), CatalogError> {
        Ok(())
    }

    async fn store_outcome(
        &self,
        _: &PassRef,
        _: bool,
        _: Option<&str>,
        _: Timestamp,
    ) -> Result<(), CatalogError> {
        Ok(())
    }

    async fn store_refusal(&self, _: PassId, _: &str) -> Result<(), CatalogError> {
        Ok(())
    }

    async fn store_doubts(&self, _: PassId, _: &[Doubted]) -> Result<(), CatalogError> {
        Ok(())
    }

    async fn forget_lasting(&self, _: &str, _: &str, _: &str) -> Result<(), CatalogError> {
        Ok(())
    }

    async fn forget_lasting_of_id(&self, _: &str, _: &str, _: &str) -> Result<(), CatalogError> {
        Ok(())
    }

    async fn store_call_facts(&self, facts: CallFacts) -> Result<(), CatalogError> {
        let all = &mut self.state.lock().call_facts;
        all.retain(|one| (&one.upstream, &one.call) != (&facts.upstream, &facts.call));
        all.push(facts);
        Ok(())
    }

    async fn learn(&self, _: Estimate) -> Result<(), CatalogError> {
        Ok(())
    }

    async fn forget_tags(&self, _: &str, _: &str) -> Result<(), CatalogError> {
        Ok(())
    }

    async fn drop_unseen(&self, _: &str, _: Timestamp) -> Result<u64, CatalogError> {
        Ok(0)
    }
}

/// A simulation is one run alone, so every resource is free.
#[async_trait]
impl Leases for MemoryCatalog {
    async fn take(&self, _: &Resource) -> Result<Taken, CatalogError> {
        Ok(Taken::Granted(Lease::new(())))
    }

    /// Lost with the process alone.
    fn term(&self, _: &Resource) -> Option<Term> {
        None
    }

    fn trusted_until(&self, _: &Resource) -> Option<Deadline> {
        None
    }

    async fn close(&self) {}

    fn check(&self, _: &Resource) -> Result<(), CatalogError> {
        Ok(())
    }
}
