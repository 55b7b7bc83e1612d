use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::poll_fn;
use tokio::sync::mpsc::channel;
use tokio::task::spawn_blocking;

use super::{SqliteCatalog, StoreError, passes, records, search};
use crate::{
    Archive, CatalogError, PassId, PassRecord, RecordPages, RecordsPage, RecordsQuery, SearchQuery,
    SearchResults, StoredRecord,
};
use ingest_quota::Timestamp;
use ingest_sqlite::Interruptible;

#[async_trait]
impl<A: Send + Sync> Archive for SqliteCatalog<A> {
    async fn history(&self, since: Timestamp) -> Result<Vec<PassRecord>, CatalogError> {
        self.read(move |connection| passes::history(connection, since))
            .await
    }

    async fn failures(&self, since: Timestamp, most: u32) -> Result<Vec<PassRecord>, CatalogError> {
        self.read(move |connection| passes::failures(connection, since, most))
            .await
    }

    async fn pass(&self, pass: PassId) -> Result<Option<PassRecord>, CatalogError> {
        self.read(move |connection| passes::pass(connection, pass))
            .await
    }

    async fn jobs_and_regions(&self) -> Result<Vec<(String, String)>, CatalogError> {
        self.read(passes::jobs_and_regions).await
    }

    fn records(&self, query: RecordsQuery) -> RecordPages {
        // One page is read while the one before it is written out.
        let (sender, mut receiver) = channel(1);
        let (database, path) = (Arc::clone(&self.database), self.path.clone());
        spawn_blocking(move || {
            let each = |page| sender.blocking_send(Ok(page)).is_ok();
            let read = database
                .lock()
                .read_once(|connection| records::records(connection, &query, each));
            if let Err(error) = read {
                // Fails only if nobody reads any more.
                let _ = sender.blocking_send(Err(StoreError::from(error).at(&path)));
            }
        });
        poll_fn(move |context| receiver.poll_recv(context)).boxed()
    }

    async fn records_page(
        &self,
        query: RecordsQuery,
        after: Option<i64>,
        most: u32,
    ) -> Result<RecordsPage, CatalogError> {
        self.read(move |connection| records::page(connection, &query, after, most))
            .await
    }

    async fn record(
        &self,
        upstream: &str,
        kind: &str,
        id: &str,
    ) -> Result<Option<StoredRecord>, CatalogError> {
        let name = [upstream, kind, id].map(str::to_owned);
        self.read(move |connection| records::record(connection, &name))
            .await
    }

    async fn search(&self, query: SearchQuery) -> Result<SearchResults, CatalogError> {
        let interruptible = Interruptible::default();
        let _wanted = interruptible.wanted();
        self.on_its_thread(move |database| {
            Ok(database.read(|connection| {
                let _running = interruptible.runs_on(connection)?;
                search::search(connection, &interruptible, &query)
            })?)
        })
        .await
    }
}
