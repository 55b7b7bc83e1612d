//! A batch of ids that are requested together, page by page.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use ingest_quota::Timestamp;

/// A batch of ids between two of its pages. It is in the catalog, so that the next run continues at the page where one
/// stopped. Only after its last page is an id absent that did not come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenBatch {
    /// The step's index in its job.
    pub step: usize,
    /// The requested ids.
    pub ids: Vec<String>,
    /// Those of them that no page has returned yet.
    pub missing: Vec<String>,
    /// The cursors of its pages, the next one last. Empty before its first page and after its last.
    pub cursors: Vec<String>,
    /// The time with which its requests are rendered: when the passes began that name its ids.
    pub began: Timestamp,
    /// How many pages in a row were empty at its end.
    pub empty_pages: u64,
    /// The greatest value on its pages, as [`ingest_config::Since::stored`] writes it; `None` where there was none.
    pub greatest: Option<String>,
}

impl OpenBatch {
    /// A batch that was not requested yet.
    pub fn new(step: usize, ids: Vec<String>, began: Timestamp) -> Self {
        Self {
            step,
            missing: ids.clone(),
            ids,
            cursors: Vec::new(),
            began,
            empty_pages: 0,
            greatest: None,
        }
    }

    /// The cursor of its next page; `None` for the first page.
    pub fn cursor(&self) -> Option<&str> {
        self.cursors.last().map(String::as_str)
    }

    /// Advances past a page that returned the ids `came` and has the cursor `next`. Returns the ids whose fate the page
    /// decides: those it returned, and with the last page also those that no page returned.
    pub fn advance(&mut self, came: &HashSet<&str>, next: Option<String>) -> Vec<String> {
        let missing = std::mem::take(&mut self.missing);
        let Some(next) = next else {
            self.cursors.clear();
            return missing;
        };
        self.cursors.push(next);
        let (arrived, missing) = missing
            .into_iter()
            .partition(|id| came.contains(id.as_str()));
        self.missing = missing;
        arrived
    }

    /// Restarts it at its first page.
    pub fn start_over(&mut self) {
        self.cursors.clear();
        self.missing.clone_from(&self.ids);
        self.empty_pages = 0;
    }

    /// Splits it into two batches of half the ids each.
    pub fn halves(&self) -> [Self; 2] {
        let (first, second) = self.ids.split_at(self.ids.len() / 2);
        [first, second].map(|ids| Self::new(self.step, ids.to_vec(), self.began))
    }
}
