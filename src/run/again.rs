//! An upstream that gives the same page whatever number is asked for, or empty pages that always lead on.

use super::stop_reason::StopReason;
use crate::config::{Call, Paging};
use crate::upstream::Page;

/// The ids of the page before, once there was one.
#[derive(Debug, Default)]
pub struct Before(Option<Vec<String>>);

impl Before {
    /// Why the list ends with a page although that leads on; it is the one before from then on.
    ///
    /// Where the cursor is a count of ours it never repeats, so the page has to tell.
    pub fn ends(&mut self, page: &Page, call: &Call) -> Option<String> {
        if !matches!(call.paging, Paging::Offset { .. } | Paging::Number { .. }) {
            return None;
        }
        let ids: Vec<String> = page
            .records
            .iter()
            .map(|record| record.id.clone())
            .collect();
        let again = self.0.as_ref() == Some(&ids) && page.next.is_some();
        self.0 = Some(ids);
        again.then(|| {
            format!(
                "{} returned the same page twice; treating the list as complete",
                call.name
            )
        })
    }
}

/// How many pages in a row are empty behind this one, before which there were so many.
pub fn empty_pages(before: u64, page: &Page) -> u64 {
    if page.records.is_empty() {
        before.saturating_add(1)
    } else {
        0
    }
}

/// Whether a list may go on that leads on behind so many empty pages in a row: the upstream's cursor can lead past any
/// number of them, and each is paid for.
///
/// # Errors
/// When there are more than configured. The list is not complete; its cursor stays where it is.
pub fn may_go_on(empty_pages: u64, call: &Call) -> Result<(), StopReason> {
    if empty_pages <= call.empty_pages {
        return Ok(());
    }
    Err(StopReason::Failed(format!(
        "{} returned {empty_pages} empty pages in a row and its cursor continues, so the list is \
        not complete; to resume from there, raise empty_pages (now {}) in its `page`",
        call.name, call.empty_pages
    )))
}
