//! An upstream that gives the same page whatever number is asked for.

use crate::config::Paging;
use crate::upstream::Page;

/// The ids of the page before. Where the cursor is a count of ours it never repeats, so the page has to tell.
#[derive(Debug, Default)]
pub(super) struct Before(Vec<String>);

impl Before {
    /// Whether a page is the one before once more; it is the one before from then on.
    pub(super) fn is(&mut self, page: &Page, paging: &Paging) -> bool {
        if !matches!(paging, Paging::Offset { .. } | Paging::Number { .. }) {
            return false;
        }
        let ids: Vec<String> = page.records.iter().map(|record| record.id.clone()).collect();
        let again = !ids.is_empty() && ids == self.0;
        self.0 = ids;
        again
    }
}
