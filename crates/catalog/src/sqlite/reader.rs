use std::sync::Arc;

use async_trait::async_trait;

use super::{
    SqliteCatalog, columns, estimates, id_since, lasting, passes, pending, prune, recall, tags,
};
use crate::{
    CallFacts, CatalogError, Estimate, IdSince, KnownList, LastPages, LastingCursors, Listed,
    NamedIds, OpenPass, PassId, PassReader, PendingId, PendingQuery, RecordIds, RegionState,
    SliceState,
};
use ingest_base::record::{CachedPage, Tag};
use ingest_config::{IdPlace, Slice};
use ingest_quota::Timestamp;

#[async_trait]
impl<A: Send + Sync> PassReader for SqliteCatalog<A> {
    async fn region_states(
        &self,
        job: &str,
        regions: &[String],
        now: Timestamp,
    ) -> Result<Vec<RegionState>, CatalogError> {
        let (job, regions) = (job.to_owned(), regions.to_vec());
        self.read_few(move |connection| passes::region_states(connection, &job, &regions, now))
            .await
    }

    async fn slices(
        &self,
        job: &str,
        regions: &[String],
        now: Timestamp,
    ) -> Result<Vec<SliceState>, CatalogError> {
        let (job, regions) = (job.to_owned(), regions.to_vec());
        self.read(move |connection| passes::slices(connection, &job, &regions, now))
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
        self.read_few(move |connection| passes::slice(connection, &job, &region, slice, now))
            .await
    }

    async fn last_pages(
        &self,
        job: &str,
        regions: &[String],
        count: u32,
    ) -> Result<Vec<LastPages>, CatalogError> {
        let (job, regions) = (job.to_owned(), regions.to_vec());
        self.read(move |connection| passes::last_pages(connection, &job, &regions, count))
            .await
    }

    async fn open_passes(&self, job: &str) -> Result<Vec<OpenPass>, CatalogError> {
        let job = job.to_owned();
        self.read_few(move |connection| passes::open_passes(connection, &job))
            .await
    }

    async fn listings(&self, passes: &[PassId]) -> Result<Listed, CatalogError> {
        let passes = passes.to_vec();
        self.read(move |connection| recall::listings(connection, &passes))
            .await
    }

    async fn pending_ids(&self, query: PendingQuery) -> Result<Vec<PendingId>, CatalogError> {
        self.read(move |connection| pending::pending_ids(connection, &query))
            .await
    }

    async fn named_ids(
        &self,
        records: RecordIds,
        at: &IdPlace,
    ) -> Result<Vec<NamedIds>, CatalogError> {
        let at = at.clone();
        self.read(move |connection| recall::named_ids(connection, &records, &at))
            .await
    }

    async fn id_sinces(
        &self,
        job: &str,
        call: &str,
        ids: &[String],
    ) -> Result<Vec<IdSince>, CatalogError> {
        let (job, call, ids) = (job.to_owned(), call.to_owned(), ids.to_vec());
        self.read(move |connection| id_since::id_sinces(connection, &job, &call, &ids))
            .await
    }

    async fn lasting_cursors(&self, passes: &[PassId]) -> Result<LastingCursors, CatalogError> {
        let passes = passes.to_vec();
        self.read_few(move |connection| lasting::of_passes(connection, &passes))
            .await
    }

    async fn known_lists(
        &self,
        job: &str,
        lists: &[(String, String)],
        now: Timestamp,
    ) -> Result<Vec<Option<KnownList>>, CatalogError> {
        let (job, lists) = (job.to_owned(), lists.to_vec());
        self.read_few(move |connection| lasting::known(connection, &job, &lists, now))
            .await
    }

    async fn meets_known(
        &self,
        pass: PassId,
        step: usize,
        request: &str,
    ) -> Result<bool, CatalogError> {
        let request = request.to_owned();
        self.read_few(move |connection| lasting::meets_known(connection, pass, step, &request))
            .await
    }

    async fn last_fetched(
        &self,
        records: RecordIds,
    ) -> Result<Vec<(Arc<str>, Timestamp)>, CatalogError> {
        self.read(move |connection| recall::last_fetched(connection, &records))
            .await
    }

    async fn cached_page(
        &self,
        upstream: &str,
        kind: &str,
        request: &str,
    ) -> Result<Option<CachedPage>, CatalogError> {
        let [upstream, kind, request] = [upstream, kind, request].map(str::to_owned);
        self.read(move |connection| tags::cached_page(connection, &upstream, &kind, &request))
            .await
    }

    async fn tags(&self, upstream: &str) -> Result<Vec<Tag>, CatalogError> {
        let upstream = upstream.to_owned();
        self.read(move |connection| tags::tags(connection, &upstream))
            .await
    }

    async fn call_facts(&self) -> Result<Vec<CallFacts>, CatalogError> {
        self.read_few(estimates::call_facts).await
    }

    async fn estimates(&self) -> Result<Vec<Estimate>, CatalogError> {
        self.read_few(estimates::estimates).await
    }

    async fn unseen(&self, upstream: &str, since: Timestamp) -> Result<u64, CatalogError> {
        let (upstream, since) = (upstream.to_owned(), columns::time(since));
        self.read(move |connection| prune::unseen(connection, &upstream, &since))
            .await
    }
}
