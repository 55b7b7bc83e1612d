use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::poll_fn;
use tokio::sync::mpsc::{Sender, channel};

use super::catalog::{PostgresCatalog, reading};
use super::records::Records;
use super::{PostgresError, passes, records, search};
use crate::{
    Archive, CatalogError, PassId, PassRecord, RecordPages, RecordsPage, RecordsQuery, SearchQuery,
    SearchResults, StoredRecord,
};
use ingest_quota::Timestamp;

#[async_trait]
impl Archive for PostgresCatalog {
    async fn history(&self, since: Timestamp) -> Result<Vec<PassRecord>, CatalogError> {
        reading!(self, tx => passes::history(&tx, since))
    }

    async fn failures(&self, since: Timestamp, most: u32) -> Result<Vec<PassRecord>, CatalogError> {
        reading!(self, tx => passes::failures(&tx, since, most))
    }

    async fn pass(&self, pass: PassId) -> Result<Option<PassRecord>, CatalogError> {
        reading!(self, tx => passes::pass(&tx, pass))
    }

    async fn jobs_and_regions(&self) -> Result<Vec<(String, String)>, CatalogError> {
        reading!(self, tx => passes::jobs_and_regions(&tx))
    }

    fn records(&self, query: RecordsQuery) -> RecordPages {
        // One page is read while the one before it is written out.
        let (sender, mut receiver) = channel(1);
        let catalog = self.clone();
        tokio::spawn(async move {
            if let Err(error) = send(&catalog, &query, &sender).await {
                // Fails only if nobody reads any more.
                let _ = sender.send(catalog.done(Err(error))).await;
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
        reading!(self, tx => records::page(&tx, &query, after, most))
    }

    async fn record(
        &self,
        upstream: &str,
        kind: &str,
        id: &str,
    ) -> Result<Option<StoredRecord>, CatalogError> {
        reading!(self, tx => records::record(&tx, upstream, kind, id))
    }

    async fn search(&self, query: SearchQuery) -> Result<SearchResults, CatalogError> {
        reading!(self, tx => search::search(&tx, &query))
    }
}

/// Sends the records page by page, until nobody reads any more.
async fn send(
    catalog: &PostgresCatalog,
    query: &RecordsQuery,
    sender: &Sender<Result<Vec<StoredRecord>, CatalogError>>,
) -> Result<(), PostgresError> {
    // By a connection of its own, which it keeps for as long as its reader takes.
    let database = catalog.postgres.with_one_connection();
    let mut session = database.session().await?;
    let tx = session.begin_reading().await?;
    let mut records = Records::open(&tx, query, None).await?;
    while let Some(page) = records.next(&tx).await? {
        if sender.send(Ok(page)).await.is_err() {
            break;
        }
    }
    tx.end();
    Ok(())
}
