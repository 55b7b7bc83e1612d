use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::poll_fn;
use tokio::sync::mpsc::{Sender, channel};
use tokio::task::spawn_blocking;

use super::catalog::{File, Server, Store};
use super::records::Records;
use super::sql::{ServerTx, StoreError, Tx};
use super::{
    Archive, Catalog, CatalogError, PassId, PassRecord, RecordPages, RecordsPage, RecordsQuery,
    SearchQuery, SearchResults, StoredRecord,
};
use super::{passes, postgres, records, sqlite};
use ingest_quota::Timestamp;
use ingest_sqlite::Interruptible;

#[async_trait]
impl<A: Send + Sync> Archive for Catalog<A> {
    async fn history(&self, since: Timestamp) -> Result<Vec<PassRecord>, CatalogError> {
        self.read(move |tx| passes::history(tx, since)).await
    }

    async fn failures(&self, since: Timestamp, most: u32) -> Result<Vec<PassRecord>, CatalogError> {
        self.read(move |tx| passes::failures(tx, since, most)).await
    }

    async fn pass(&self, pass: PassId) -> Result<Option<PassRecord>, CatalogError> {
        self.read(move |tx| passes::pass(tx, pass)).await
    }

    async fn jobs_and_regions(&self) -> Result<Vec<(String, String)>, CatalogError> {
        self.read(passes::jobs_and_regions).await
    }

    fn records(&self, query: RecordsQuery) -> RecordPages {
        // One page is read while the one before it is written out.
        let (sender, mut receiver) = channel(1);
        match &self.store {
            Store::File(file) => send_of_file(file, query, sender),
            Store::Server(server) => {
                tokio::spawn(send_of_server(server.clone(), query, sender));
            }
        }
        poll_fn(move |context| receiver.poll_recv(context)).boxed()
    }

    async fn records_page(
        &self,
        query: RecordsQuery,
        after: Option<i64>,
        most: u32,
    ) -> Result<RecordsPage, CatalogError> {
        self.read(move |tx| records::page(tx, &query, after, most))
            .await
    }

    async fn record(
        &self,
        upstream: &str,
        kind: &str,
        id: &str,
    ) -> Result<Option<StoredRecord>, CatalogError> {
        let [upstream, kind, id] = [upstream, kind, id].map(str::to_owned);
        self.read(move |tx| records::record(tx, &upstream, &kind, &id))
            .await
    }

    async fn search(&self, query: SearchQuery) -> Result<SearchResults, CatalogError> {
        match &self.store {
            Store::File(file) => {
                let interruptible = Interruptible::default();
                let _wanted = interruptible.wanted();
                file.apart(move |database| {
                    Ok(database.read(|connection| {
                        let _running = interruptible.runs_on(connection)?;
                        sqlite::search(connection, &interruptible, &query)
                    })?)
                })
                .await
            }
            Store::Server(_) => self.read(move |tx| postgres::search(tx, &query)).await,
        }
    }
}

type Pages = Sender<Result<Vec<StoredRecord>, CatalogError>>;

/// Sends the records page by page, until nobody reads any more.
fn send(tx: &Tx<'_>, query: &RecordsQuery, sender: &Pages) -> Result<(), StoreError> {
    let mut records = Records::after(query, None);
    while let Some(page) = records.next(tx)? {
        if sender.blocking_send(Ok(page)).is_err() {
            break;
        }
    }
    Ok(())
}

fn send_of_file(file: &File, query: RecordsQuery, sender: Pages) {
    let (database, path) = (file.database.clone(), file.path.clone());
    spawn_blocking(move || {
        let read = database.lock().read_once(|connection| {
            send(&Tx::File(connection), &query, &sender).map_err(StoreError::into_sqlite)
        });
        if let Err(error) = read {
            // Fails only if nobody reads any more.
            let _ = sender.blocking_send(Err(StoreError::from(error).of_file(&path)));
        }
    });
}

async fn send_of_server(server: Server, query: RecordsQuery, sender: Pages) {
    // By a connection of its own, which it keeps for as long as its reader takes.
    let session = server.postgres.with_one_connection().session().await;
    let sent = match session {
        Ok(session) => {
            let to = sender.clone();
            let read = server.apart(session, move |session, wanted| {
                let tx = ServerTx::begin_reading(session, wanted.clone())?;
                send(&Tx::Server(&tx), &query, &to)
            });
            read.await
        }
        Err(error) => Err(server.postgres.error(error)),
    };
    if let Err(error) = sent {
        // Fails only if nobody reads any more.
        let _ = sender.send(Err(error)).await;
    }
}
