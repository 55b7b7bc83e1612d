use futures_util::StreamExt;
use futures_util::stream::poll_fn;
use tokio::sync::mpsc::{Sender, channel};
use tokio::task::spawn_blocking;

use super::catalog::{File, Server, Store};
use super::records::Records;
use super::sql::{ServerTx, StoreError, Tx, values};
use super::{
    CatalogError, CatalogReader, PassId, PassRecord, RecordPages, RecordsPage, RecordsQuery,
    SearchQuery, SearchResults, StoredRecord,
};
use super::{postgres, records, rows, sqlite};
use ingest_quota::Timestamp;

/// Passes as [`pass_record`](rows::pass_record) reads them.
macro_rules! pass_where {
    ($condition:literal) => {
        concat!(
            "select job, region, started_at, outcome, pages, records, requests, units, finished_at,
                slice_from, slice_to, id, left_at, failed, notes, doubts
            from pass where ",
            $condition
        )
    };
}
// The condition on the id, which always holds, is that of PostgreSQL's index by age.
const HISTORY: &str = pass_where!("started_at >= ?1 and id > 0 order by started_at, id");
const FAILURES: &str =
    pass_where!("failed = true and left_at >= ?1 order by left_at desc, id desc limit ?2");
const PASS: &str = pass_where!("id = ?1");
const JOBS_AND_REGIONS: &str = "select distinct job, region from pass";
pub const STATEMENTS: &[&str] = &[HISTORY, FAILURES, PASS];

/// What the commands that show records read, and the server. Each method fails if the catalog cannot be read.
///
/// The server gives up a read that takes too long by dropping its future. The read must then end soon, so that it does not
/// keep the store busy: a file is interrupted, a server is sent a cancellation.
impl CatalogReader {
    /// Returns the passes that started at `since` or later, oldest first.
    pub async fn history(&self, since: Timestamp) -> Result<Vec<PassRecord>, CatalogError> {
        self.read(move |tx| {
            let rows = tx.query(HISTORY, values![since])?;
            rows.iter().map(rows::pass_record).collect()
        })
        .await
    }

    /// Returns at most `most` passes that a run left as failed at `since` or later and that no run has completed, the last one
    /// first.
    pub async fn failures(
        &self,
        since: Timestamp,
        most: u32,
    ) -> Result<Vec<PassRecord>, CatalogError> {
        self.read(move |tx| {
            let rows = tx.query(FAILURES, values![since, i64::from(most)])?;
            rows.iter().map(rows::pass_record).collect()
        })
        .await
    }

    /// Returns a pass; `None` if there is none with this id.
    pub async fn pass(&self, pass: PassId) -> Result<Option<PassRecord>, CatalogError> {
        self.read(move |tx| {
            let row = tx.first(PASS, values![pass.0])?;
            row.as_ref().map(rows::pass_record).transpose()
        })
        .await
    }

    /// Returns each job with each region that it has a pass over, also those that the configuration has no longer. Reads an
    /// index over all passes.
    pub async fn jobs_and_regions(&self) -> Result<Vec<(String, String)>, CatalogError> {
        self.read(|tx| {
            let rows = tx.query(JOBS_AND_REGIONS, values![])?;
            let names = rows.iter().map(|row| Ok((row.text(0)?, row.text(1)?)));
            names.collect()
        })
        .await
    }

    /// Returns the records of a kind from one state of the catalog, in the order in which they were first seen. Reading
    /// stops when the stream is dropped.
    pub fn records(&self, query: RecordsQuery) -> RecordPages {
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

    /// Returns at most `most` records of the query, in the order in which they were first seen: those whose position is
    /// greater than `after`, or the first ones. A page ends earlier where its bodies are very long, but has at least one record
    /// if there is one.
    pub async fn records_page(
        &self,
        query: RecordsQuery,
        after: Option<i64>,
        most: u32,
    ) -> Result<RecordsPage, CatalogError> {
        let settled = self.read(records::settled).await?;
        self.read(move |tx| records::page(tx, &query, after, (most, settled)))
            .await
    }

    /// Returns a record by its name; `None` if it is not stored.
    pub async fn record(
        &self,
        upstream: &str,
        kind: &str,
        id: &str,
    ) -> Result<Option<StoredRecord>, CatalogError> {
        let [upstream, kind, id] = [upstream, kind, id].map(str::to_owned);
        self.read(move |tx| records::record(tx, &upstream, &kind, &id))
            .await
    }

    /// Returns the records that contain all words, best match first. Where more than [`RANKED`](super::RANKED) records contain them, only
    /// the [`RANKED`](super::RANKED) that were first seen last are ranked, and the result says so: the time of a search must not grow with
    /// the number of records that contain a word.
    pub async fn search(&self, query: SearchQuery) -> Result<SearchResults, CatalogError> {
        match &self.store {
            Store::File(file) => {
                file.read_interruptibly(move |connection, interruptible| {
                    sqlite::search(connection, interruptible, &query)
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
