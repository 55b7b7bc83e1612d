//! An upstream that gives the same page whatever number is asked for, or empty pages that always lead on.

use crate::config::{Call, Paging};
use crate::upstream::Page;

/// The ids of the page before, once there was one.
#[derive(Debug, Default)]
pub struct Before(Option<Vec<String>>);

impl Before {
    /// Why the list ends with a page although that leads on; it is the one before from then on.
    ///
    /// Where the cursor is a count of ours it never repeats, so the page has to tell. Where it is the upstream's, an empty
    /// page can be followed by a full one; two of them in a row are taken for the end, or a walk could cost any number.
    pub fn ends(&mut self, page: &Page, call: &Call) -> Option<String> {
        let ids: Vec<String> = page
            .records
            .iter()
            .map(|record| record.id.clone())
            .collect();
        let again = self.0.as_ref() == Some(&ids) && page.next.is_some();
        let empty = ids.is_empty();
        self.0 = Some(ids);
        let counted = matches!(call.paging, Paging::Offset { .. } | Paging::Number { .. });
        match (again, empty) {
            (true, true) => Some(format!(
                "{} gave two empty pages in a row: its list ends there",
                call.name
            )),
            (true, false) if counted => Some(format!(
                "{} gave the same page again: its list ends there",
                call.name
            )),
            _ => None,
        }
    }
}
