use std::sync::Arc;

use async_trait::async_trait;

use super::catalog::{PostgresCatalog, reading};
use super::{estimates, id_since, lasting, passes, pending, prune, recall, tags};
use crate::{
    CallFacts, CatalogError, Estimate, IdSince, KnownList, LastPages, LastingCursors, Listed,
    NamedIds, OpenPass, PassId, PassReader, PendingId, PendingQuery, RecordIds, RegionState,
    SliceState,
};
use ingest_base::record::{CachedPage, Tag};
use ingest_config::{IdPlace, Slice};
use ingest_quota::Timestamp;

#[async_trait]
impl PassReader for PostgresCatalog {
    async fn region_states(
        &self,
        job: &str,
        regions: &[String],
        now: Timestamp,
    ) -> Result<Vec<RegionState>, CatalogError> {
        reading!(self, tx => passes::region_states(&tx, job, regions, now))
    }

    async fn slices(
        &self,
        job: &str,
        regions: &[String],
        now: Timestamp,
    ) -> Result<Vec<SliceState>, CatalogError> {
        reading!(self, tx => passes::slices(&tx, job, regions, now))
    }

    async fn slice(
        &self,
        job: &str,
        region: &str,
        slice: Slice,
        now: Timestamp,
    ) -> Result<Option<SliceState>, CatalogError> {
        reading!(self, tx => passes::slice(&tx, job, region, slice, now))
    }

    async fn last_pages(
        &self,
        job: &str,
        regions: &[String],
        count: u32,
    ) -> Result<Vec<LastPages>, CatalogError> {
        reading!(self, tx => passes::last_pages(&tx, job, regions, count))
    }

    async fn open_passes(&self, job: &str) -> Result<Vec<OpenPass>, CatalogError> {
        reading!(self, tx => passes::open_passes(&tx, job))
    }

    async fn listings(&self, passes: &[PassId]) -> Result<Listed, CatalogError> {
        reading!(self, tx => recall::listings(&tx, passes))
    }

    async fn pending_ids(&self, query: PendingQuery) -> Result<Vec<PendingId>, CatalogError> {
        reading!(self, tx => pending::pending_ids(&tx, &query))
    }

    async fn named_ids(
        &self,
        records: RecordIds,
        at: &IdPlace,
    ) -> Result<Vec<NamedIds>, CatalogError> {
        reading!(self, tx => recall::named_ids(&tx, &records, at))
    }

    async fn id_sinces(
        &self,
        job: &str,
        call: &str,
        ids: &[String],
    ) -> Result<Vec<IdSince>, CatalogError> {
        reading!(self, tx => id_since::id_sinces(&tx, job, call, ids))
    }

    async fn lasting_cursors(&self, passes: &[PassId]) -> Result<LastingCursors, CatalogError> {
        reading!(self, tx => lasting::of_passes(&tx, passes))
    }

    async fn known_lists(
        &self,
        job: &str,
        lists: &[(String, String)],
        now: Timestamp,
    ) -> Result<Vec<Option<KnownList>>, CatalogError> {
        reading!(self, tx => lasting::known(&tx, job, lists, now))
    }

    async fn meets_known(
        &self,
        pass: PassId,
        step: usize,
        request: &str,
    ) -> Result<bool, CatalogError> {
        reading!(self, tx => lasting::meets_known(&tx, pass, step, request))
    }

    async fn last_fetched(
        &self,
        records: RecordIds,
    ) -> Result<Vec<(Arc<str>, Timestamp)>, CatalogError> {
        reading!(self, tx => recall::last_fetched(&tx, &records))
    }

    async fn cached_page(
        &self,
        upstream: &str,
        kind: &str,
        request: &str,
    ) -> Result<Option<CachedPage>, CatalogError> {
        reading!(self, tx => tags::cached_page(&tx, upstream, kind, request))
    }

    async fn tags(&self, upstream: &str) -> Result<Vec<Tag>, CatalogError> {
        reading!(self, tx => tags::tags(&tx, upstream))
    }

    async fn call_facts(&self) -> Result<Vec<CallFacts>, CatalogError> {
        reading!(self, tx => estimates::call_facts(&tx))
    }

    async fn estimates(&self) -> Result<Vec<Estimate>, CatalogError> {
        reading!(self, tx => estimates::estimates(&tx))
    }

    async fn unseen(&self, upstream: &str, since: Timestamp) -> Result<u64, CatalogError> {
        reading!(self, tx => prune::unseen(&tx, upstream, since))
    }
}
