//! Indexes landed pages beside the walk, so that landing a page does not wait for the index of the page before it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::{mem, thread};

use parking_lot::Mutex;
use rusqlite::Connection;

use super::land::Changes;
use super::text_index::TextIndex;
use crate::page::LandingPage;
use ingest_sqlite as sqlite;

/// The most pages that wait, which bounds the memory: the next page is landed after they are indexed.
const WAITING: usize = 32;

/// A landed page whose texts differ from what the index holds.
pub type ChangedPage = (LandingPage, Changes);

/// Applies the changes of landed pages to the full-text index, in a thread. The pages are in the catalog already, and so is
/// the log of their changes: what an interruption leaves undone, the next writer does.
pub struct Indexer {
    index: Arc<TextIndex>,
    catalog: PathBuf,
    pages: Mutex<Vec<ChangedPage>>,
    /// A second connection to the catalog, opened for the first page. The thread that indexes holds it.
    records: Mutex<Option<Connection>>,
    /// Each indexes once: one is at work, and one waits for it.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Indexer {
    /// Indexes pages of the catalog at `catalog`. Opens nothing yet.
    pub fn new(catalog: &Path, index: Arc<TextIndex>) -> Self {
        Self {
            index,
            catalog: catalog.to_owned(),
            pages: Mutex::default(),
            records: Mutex::default(),
            threads: Mutex::default(),
        }
    }

    /// Indexes a page soon. Waits for the pages before it only if many wait.
    pub fn add(self: &Arc<Self>, page: ChangedPage) {
        let waiting = self.push(page);
        if waiting == 1 {
            let this = Arc::clone(self);
            let thread = thread::Builder::new().name("index".to_owned());
            let mut threads = self.threads.lock();
            threads.retain(|thread| !thread.is_finished());
            // Without a thread the page waits for those after it, or for the end.
            threads.extend(thread.spawn(move || this.finish()));
        } else if waiting > WAITING {
            self.finish();
        }
    }

    /// Waits until every page that was added is indexed.
    pub fn finish(&self) {
        let mut records = self.records.lock();
        let pages = mem::take(&mut *self.pages.lock());
        if pages.is_empty() {
            return;
        }
        if records.is_none() {
            match sqlite::open_again(&self.catalog) {
                Ok(connection) => *records = Some(connection),
                Err(error) => self.index.report(&sqlite::explain(&error)),
            }
        }
        if let Some(records) = records.as_mut() {
            self.index.follow(records, &pages);
        }
    }

    /// Adds a page. Returns the number of pages that wait, this one included.
    fn push(&self, page: ChangedPage) -> usize {
        let mut pages = self.pages.lock();
        pages.push(page);
        pages.len()
    }
}

/// Waits for an indexer when its catalog is closed.
pub struct FinishOnDrop(pub Arc<Indexer>);

impl Drop for FinishOnDrop {
    fn drop(&mut self) {
        self.0.finish();
        // Until they end, they keep the files open.
        for thread in mem::take(&mut *self.0.threads.lock()) {
            // A panic has ended the process.
            let _ = thread.join();
        }
    }
}
