//! Merges the words of landed pages into the full-text index beside the walk. The server appends them to a list first, which every
//! search reads from its beginning to its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use super::Postgres;

/// Words that are appended before a merge: some 4 MB. The server's own limit, at which a landing waits for the merge, is
/// `gin_pending_list_limit` of the index.
const APPENDED: i64 = 200_000;
/// How long a merge may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// The words that this process appended.
pub struct Merging {
    /// On connections of its own: no page waits for a merge.
    postgres: Postgres,
    appended: AtomicI64,
    is_running: AtomicBool,
    /// Whether the role may not merge: it does not own the index.
    is_denied: AtomicBool,
}

impl Merging {
    pub fn new(postgres: &Postgres) -> Arc<Self> {
        Arc::new(Self {
            postgres: postgres.with_one_connection(),
            appended: AtomicI64::new(0),
            is_running: AtomicBool::new(false),
            is_denied: AtomicBool::new(false),
        })
    }

    /// Counts words that a landing appended. Merges them soon if they are many.
    pub fn add(self: &Arc<Self>, words: i64) {
        let appended = self.appended.fetch_add(words, Ordering::Relaxed) + words;
        let is_denied = self.is_denied.load(Ordering::Relaxed);
        if appended < APPENDED || is_denied || self.is_running.swap(true, Ordering::Relaxed) {
            return;
        }
        // Before the merge: what is appended during it counts for the next one.
        self.appended.store(0, Ordering::Relaxed);
        let this = Arc::clone(self);
        tokio::spawn(async move {
            this.merge().await;
            this.is_running.store(false, Ordering::Relaxed);
        });
    }

    async fn merge(&self) {
        let schema = self.postgres.schema();
        let merge = format!("select gin_clean_pending_list('\"{schema}\".record_text_words')");
        match self.postgres.autocommit(&merge, &[], PATIENCE).await {
            Err(error) if error.is_denied() => {
                self.is_denied.store(true, Ordering::Relaxed);
                tracing::warn!(
                    "cannot merge words into the full-text index: {error}; PostgreSQL merges them later, and a page then waits \
                    for that: make the role of catalog.url a member of the role that owns the schema `{schema}`"
                );
            }
            // The server merges them as well, later.
            Err(error) => tracing::debug!("cannot merge words into the full-text index: {error}"),
            Ok(_) => {}
        }
    }
}
