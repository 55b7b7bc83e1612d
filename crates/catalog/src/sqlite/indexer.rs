//! Indexes landed pages beside the walk, so that landing a page does not wait for the index of the page before it; and writes the
//! catalog's log into its file while no page comes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use std::{mem, thread};

use parking_lot::{Condvar, Mutex, MutexGuard};
use rusqlite::Connection;

use super::land::Changes;
use super::text_index::TextIndex;
use crate::page::LandingPage;
use ingest_sqlite as sqlite;

/// The most pages that wait, which bounds the memory: the next page is landed after they are indexed.
const WAITING: usize = 32;

/// How long no page is landed until the catalog's log is written into its file, if it holds as many pages as this: beside the
/// wait for the next responses, and not in the transaction that makes the log too long, for which all others wait.
const QUIET: Duration = Duration::from_millis(20);
const LOGGED: usize = 8;
const CHECKPOINT: &str = "pragma wal_checkpoint(passive)";

/// A landed page whose texts differ from what the index holds.
pub type ChangedPage = (LandingPage, Changes);

/// The second connection to a catalog, while it is used.
type Records<'i> = MutexGuard<'i, Option<Connection>>;

/// Applies the changes of landed pages to the full-text index, in a thread. The pages are in the catalog already, and so is
/// the log of their changes: what an interruption leaves undone, the next writer does.
pub struct Indexer {
    index: Arc<TextIndex>,
    catalog: PathBuf,
    queue: Mutex<Queue>,
    /// Tells the thread that the queue changed.
    changed: Condvar,
    /// A second connection to the catalog, opened when it is needed. The thread that indexes holds it.
    records: Mutex<Option<Connection>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Queue {
    pages: Vec<ChangedPage>,
    /// The number of pages that were landed since the log was written into the file.
    logged: usize,
    /// Whether no further page comes.
    is_closed: bool,
}

impl Indexer {
    /// Indexes pages of the catalog at `catalog`. Opens nothing yet.
    pub fn new(catalog: &Path, index: Arc<TextIndex>) -> Self {
        Self {
            index,
            catalog: catalog.to_owned(),
            queue: Mutex::default(),
            changed: Condvar::new(),
            records: Mutex::default(),
            thread: Mutex::default(),
        }
    }

    /// Indexes a landed page soon, unless nothing changed. Waits for the pages before it only if many wait.
    pub fn add(self: &Arc<Self>, page: ChangedPage) {
        let waiting = self.push(page);
        // Without a thread the page waits for those after it, or for the end.
        self.start();
        self.changed.notify_one();
        if waiting > WAITING {
            self.finish();
        }
    }

    fn start(self: &Arc<Self>) {
        let mut started = self.thread.lock();
        if started.is_none() {
            let this = Arc::clone(self);
            let thread = thread::Builder::new().name("index".to_owned());
            *started = thread.spawn(move || this.serve()).ok();
        }
    }

    /// Indexes pages until no further one comes.
    fn serve(&self) {
        loop {
            let mut queue = self.queue.lock();
            let mut is_quiet = false;
            while queue.pages.is_empty() && !queue.is_closed && !is_quiet {
                if queue.logged < LOGGED {
                    self.changed.wait(&mut queue);
                } else {
                    is_quiet = self.changed.wait_for(&mut queue, QUIET).timed_out();
                }
            }
            if is_quiet {
                queue.logged = 0;
            } else if queue.pages.is_empty() {
                return;
            }
            drop(queue);
            match is_quiet {
                true => self.checkpoint(),
                false => self.finish(),
            }
        }
    }

    /// Waits until every page that was added is indexed.
    pub fn finish(&self) {
        let records = self.records.lock();
        let pages = mem::take(&mut self.queue.lock().pages);
        if !pages.is_empty() {
            self.follow(records, &pages);
        }
    }

    fn follow(&self, mut records: Records<'_>, pages: &[ChangedPage]) {
        if let Some(records) = self.opened(&mut records) {
            self.index.follow(records, pages);
        }
    }

    fn opened<'r>(&self, records: &'r mut Records<'_>) -> Option<&'r mut Connection> {
        if records.is_none() {
            match sqlite::open_again(&self.catalog) {
                Ok(connection) => **records = Some(connection),
                Err(error) => self.index.report(&sqlite::explain(&error)),
            }
        }
        records.as_mut()
    }

    /// Writes the catalog's log into its file.
    fn checkpoint(&self) {
        if let Some(records) = self.opened(&mut self.records.lock())
            && let Err(error) = records.query_row(CHECKPOINT, [], |_| Ok(()))
        {
            tracing::debug!(%error, "the log is not written into the catalog's file yet");
        }
    }

    /// Indexes what waits, and closes the connection to the catalog: no further page comes.
    pub fn end(&self) {
        self.queue.lock().is_closed = true;
        self.changed.notify_one();
        self.finish();
        if let Some(thread) = self.thread.lock().take() {
            // A panic has ended the process.
            let _ = thread.join();
        }
        *self.records.lock() = None;
    }

    /// Adds a page. Returns the number of pages that wait, this one included.
    fn push(&self, page: ChangedPage) -> usize {
        let mut queue = self.queue.lock();
        queue.logged += 1;
        queue
            .pages
            .extend(Some(page).filter(|(_, changes)| !changes.is_empty()));
        queue.pages.len()
    }
}
