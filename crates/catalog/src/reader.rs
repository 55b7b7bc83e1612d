use std::sync::Arc;

use super::{
    CatalogError, CatalogReader, IdSince, KnownList, LastPages, LastingCursors, NamedIds, OpenPass,
    PassId, PassListings, PendingId, PendingQuery, RecordIds, RegionState, SliceState,
};
use super::{id_since, lasting, passes, prune, recall, tags, wanted};
use ingest_base::record::{CachedPage, Tag};
use ingest_config::{IdPlace, Slice};
use ingest_quota::Timestamp;

/// What runs, previews and reports read. Each method fails if the catalog cannot be read.
impl CatalogReader {
    /// Returns the state of each of these regions of a job, in the order given. Ignores passes that ended and that
    /// started later than `now`: a clock that ran ahead dated them. Passes over slices do not count.
    pub async fn region_states(
        &self,
        job: &str,
        regions: &[String],
        now: Timestamp,
    ) -> Result<Vec<RegionState>, CatalogError> {
        let (job, regions) = (job.to_owned(), regions.to_vec());
        self.read_few(move |tx| passes::region_states(tx, &job, &regions, now))
            .await
    }

    /// Returns the slices of these regions of a job that have passes, as `slice_states` gathers them. Ignores passes that ended
    /// and that started later than `now`.
    pub async fn slices(
        &self,
        job: &str,
        regions: &[String],
        now: Timestamp,
    ) -> Result<Vec<SliceState>, CatalogError> {
        let (job, regions) = (job.to_owned(), regions.to_vec());
        self.read(move |tx| passes::slices(tx, &job, &regions, now))
            .await
    }

    /// Returns one of these slices; `None` if it has no pass.
    pub async fn slice(
        &self,
        job: &str,
        region: &str,
        slice: Slice,
        now: Timestamp,
    ) -> Result<Option<SliceState>, CatalogError> {
        let [job, region] = [job, region].map(str::to_owned);
        self.read_few(move |tx| passes::slice(tx, &job, &region, slice, now))
            .await
    }

    /// Returns, for each of these regions of a job, the pages of each step, by the step's index, in each of its last `count`
    /// complete passes, those over slices included, newest first.
    pub async fn last_pages(
        &self,
        job: &str,
        regions: &[String],
        count: u32,
    ) -> Result<Vec<LastPages>, CatalogError> {
        let (job, regions) = (job.to_owned(), regions.to_vec());
        self.read(move |tx| passes::last_pages(tx, &job, &regions, count))
            .await
    }

    /// Returns the unfinished passes of a job, oldest first, including the one over `*`.
    pub async fn open_passes(&self, job: &str) -> Result<Vec<OpenPass>, CatalogError> {
        let job = job.to_owned();
        self.read_few(move |tx| passes::open_passes(tx, &job)).await
    }

    /// Returns what each of these passes listed, step by step, in order.
    pub async fn listings(&self, passes: &[PassId]) -> Result<PassListings, CatalogError> {
        let passes = passes.to_vec();
        self.read(move |tx| recall::listings(tx, &passes)).await
    }

    /// Returns the ids to fetch, in the order of the passes and their listings.
    pub async fn pending_ids(&self, query: PendingQuery) -> Result<Vec<PendingId>, CatalogError> {
        match &self.simulated {
            None => self.read(move |tx| wanted::pending_ids(tx, &query)).await,
            Some(simulated) => {
                let simulated = Arc::clone(simulated);
                self.read(move |tx| simulated.pending(tx, &query)).await
            }
        }
    }

    /// Returns the ids that these records name at a place, record by record. Omits records that are not stored.
    pub async fn named_ids(
        &self,
        records: RecordIds,
        at: &IdPlace,
    ) -> Result<Vec<NamedIds>, CatalogError> {
        if let Some(simulated) = &self.simulated {
            return Ok(simulated.named_ids(records, at.to_string()));
        }
        let at = at.clone();
        self.read(move |tx| wanted::named_ids(tx, &records, &at))
            .await
    }

    /// Returns where the lists of these ids continue, as steps of this call request them for this job. Omits ids without a
    /// complete list.
    pub async fn id_sinces(
        &self,
        job: &str,
        call: &str,
        ids: &[String],
    ) -> Result<Vec<IdSince>, CatalogError> {
        let (job, call, ids) = (job.to_owned(), call.to_owned(), ids.to_vec());
        self.read(move |tx| id_since::id_sinces(tx, &job, &call, &ids))
            .await
    }

    /// Returns the cursors at the ends of the lists of these passes, with which the next ones begin.
    pub async fn lasting_cursors(&self, passes: &[PassId]) -> Result<LastingCursors, CatalogError> {
        let passes = passes.to_vec();
        self.read_few(move |tx| lasting::of_passes(tx, &passes))
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
        self.read_few(move |tx| lasting::known(tx, &job, &lists, now))
            .await
    }

    /// Whether the list of a step of an unfinished pass has any record that an earlier pass returned which tells about the list, as
    /// [`AtKnown`](super::AtKnown) says.
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
        self.read_few(move |tx| lasting::meets_known(tx, pass, step, &request))
            .await
    }

    /// Returns when these ids were last fetched, or requested and found absent. Omits ids that never were, and those of gone records.
    pub async fn last_fetched(
        &self,
        records: RecordIds,
    ) -> Result<Vec<(Arc<str>, Timestamp)>, CatalogError> {
        if let Some(simulated) = &self.simulated {
            return Ok(simulated.last_fetched(records));
        }
        self.read(move |tx| recall::last_fetched(tx, &records))
            .await
    }

    /// Returns the page that a request brought last; `None` if it came without a tag or any of its records was deleted.
    pub async fn cached_page(
        &self,
        upstream: &str,
        kind: &str,
        request: &str,
    ) -> Result<Option<CachedPage>, CatalogError> {
        let [upstream, kind, request] = [upstream, kind, request].map(str::to_owned);
        self.read(move |tx| tags::cached_page(tx, &upstream, &kind, &request))
            .await
    }

    /// Returns the tags of all stored pages of an upstream.
    pub async fn tags(&self, upstream: &str) -> Result<Vec<Tag>, CatalogError> {
        let upstream = upstream.to_owned();
        self.read(move |tx| tags::tags(tx, &upstream)).await
    }

    /// Returns the number of an upstream's records that were last seen before `since`.
    pub async fn unseen(&self, upstream: &str, since: Timestamp) -> Result<u64, CatalogError> {
        let upstream = upstream.to_owned();
        self.read(move |tx| prune::unseen(tx, &upstream, since))
            .await
    }
}
