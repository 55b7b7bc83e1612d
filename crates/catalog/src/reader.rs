use std::sync::Arc;

use async_trait::async_trait;

use super::{
    CallFacts, Catalog, CatalogError, Estimate, IdSince, KnownList, LastPages, LastingCursors,
    Listed, NamedIds, OpenPass, PassId, PassReader, PendingId, PendingQuery, RecordIds,
    RegionState, SliceState,
};
use super::{estimates, id_since, lasting, passes, pending, prune, recall, tags};
use ingest_base::record::{CachedPage, Tag};
use ingest_config::{IdPlace, Slice};
use ingest_quota::Timestamp;

#[async_trait]
impl<A: Send + Sync> PassReader for Catalog<A> {
    async fn region_states(
        &self,
        job: &str,
        regions: &[String],
        now: Timestamp,
    ) -> Result<Vec<RegionState>, CatalogError> {
        let (job, regions) = (job.to_owned(), regions.to_vec());
        self.read_few(move |tx| passes::region_states(tx, &job, &regions, now))
            .await
    }

    async fn slices(
        &self,
        job: &str,
        regions: &[String],
        now: Timestamp,
    ) -> Result<Vec<SliceState>, CatalogError> {
        let (job, regions) = (job.to_owned(), regions.to_vec());
        self.read(move |tx| passes::slices(tx, &job, &regions, now))
            .await
    }

    async fn slice(
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

    async fn last_pages(
        &self,
        job: &str,
        regions: &[String],
        count: u32,
    ) -> Result<Vec<LastPages>, CatalogError> {
        let (job, regions) = (job.to_owned(), regions.to_vec());
        self.read(move |tx| passes::last_pages(tx, &job, &regions, count))
            .await
    }

    async fn open_passes(&self, job: &str) -> Result<Vec<OpenPass>, CatalogError> {
        let job = job.to_owned();
        self.read_few(move |tx| passes::open_passes(tx, &job)).await
    }

    async fn listings(&self, passes: &[PassId]) -> Result<Listed, CatalogError> {
        let passes = passes.to_vec();
        self.read(move |tx| recall::listings(tx, &passes)).await
    }

    async fn pending_ids(&self, query: PendingQuery) -> Result<Vec<PendingId>, CatalogError> {
        self.read(move |tx| pending::pending_ids(tx, &query)).await
    }

    async fn named_ids(
        &self,
        records: RecordIds,
        at: &IdPlace,
    ) -> Result<Vec<NamedIds>, CatalogError> {
        let at = at.clone();
        self.read(move |tx| recall::named_ids(tx, &records, &at))
            .await
    }

    async fn id_sinces(
        &self,
        job: &str,
        call: &str,
        ids: &[String],
    ) -> Result<Vec<IdSince>, CatalogError> {
        let (job, call, ids) = (job.to_owned(), call.to_owned(), ids.to_vec());
        self.read(move |tx| id_since::id_sinces(tx, &job, &call, &ids))
            .await
    }

    async fn lasting_cursors(&self, passes: &[PassId]) -> Result<LastingCursors, CatalogError> {
        let passes = passes.to_vec();
        self.read_few(move |tx| lasting::of_passes(tx, &passes))
            .await
    }

    async fn known_lists(
        &self,
        job: &str,
        lists: &[(String, String)],
        now: Timestamp,
    ) -> Result<Vec<Option<KnownList>>, CatalogError> {
        let (job, lists) = (job.to_owned(), lists.to_vec());
        self.read_few(move |tx| lasting::known(tx, &job, &lists, now))
            .await
    }

    async fn meets_known(
        &self,
        pass: PassId,
        step: usize,
        request: &str,
    ) -> Result<bool, CatalogError> {
        let request = request.to_owned();
        self.read_few(move |tx| lasting::meets_known(tx, pass, step, &request))
            .await
    }

    async fn last_fetched(
        &self,
        records: RecordIds,
    ) -> Result<Vec<(Arc<str>, Timestamp)>, CatalogError> {
        self.read(move |tx| recall::last_fetched(tx, &records))
            .await
    }

    async fn cached_page(
        &self,
        upstream: &str,
        kind: &str,
        request: &str,
    ) -> Result<Option<CachedPage>, CatalogError> {
        let [upstream, kind, request] = [upstream, kind, request].map(str::to_owned);
        self.read(move |tx| tags::cached_page(tx, &upstream, &kind, &request))
            .await
    }

    async fn tags(&self, upstream: &str) -> Result<Vec<Tag>, CatalogError> {
        let upstream = upstream.to_owned();
        self.read(move |tx| tags::tags(tx, &upstream)).await
    }

    async fn call_facts(&self) -> Result<Vec<CallFacts>, CatalogError> {
        self.read_few(estimates::call_facts).await
    }

    async fn estimates(&self) -> Result<Vec<Estimate>, CatalogError> {
        self.read_few(estimates::estimates).await
    }

    async fn unseen(&self, upstream: &str, since: Timestamp) -> Result<u64, CatalogError> {
        let upstream = upstream.to_owned();
        self.read(move |tx| prune::unseen(tx, &upstream, since))
            .await
    }
}
