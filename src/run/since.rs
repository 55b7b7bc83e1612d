//! The greatest value that a list has at its job's `since.at`, and notes where the list and `{since}` do not fit each other.

use super::pager::Pager;
use super::steps::older_than_since;
use crate::config::{Job, SinceValue, Variable};
use crate::record::Record;

/// The greatest value that a list, or one before it, had at `since.at`.
#[derive(Debug, Clone, Default)]
pub struct Greatest(Option<String>);

impl Greatest {
    /// Reads the first of these stored values that belongs to the job's `since.at`.
    pub fn read<'s>(job: &Job, stored: impl IntoIterator<Item = Option<&'s str>>) -> Self {
        let mut stored = stored.into_iter().flatten();
        Self(stored.find_map(|stored| job.since.read(stored)))
    }

    /// Returns the value as the catalog stores it; `None` where there was none.
    #[must_use]
    pub fn stored(&self, job: &Job) -> Option<String> {
        job.since.stored(self.0.as_deref()?)
    }

    /// Adds the values of a page. Notes if its records have none, or are older than `since`, with which they were requested.
    pub fn see(&mut self, pager: &mut Pager<'_>, since: Option<&SinceValue>, records: &[Record]) {
        let at = pager.job.since.at.as_ref();
        let Some(at) = at.filter(|_| pager.job.names(pager.step, &Variable::Since)) else {
            return;
        };
        let texts = || records.iter().flat_map(|record| at.texts_in(&record.body));
        let is_older = |text: String| match since {
            Some(SinceValue::Text(since)) => SinceValue::compare(&text, since).is_lt(),
            Some(SinceValue::Time(_)) | None => false,
        };
        if !pager.step.shifts_since() && texts().any(is_older) {
            pager.note(older_than_since(&pager.step.call.name));
        }
        let seen = texts().max_by(|one, other| SinceValue::compare(one, other));
        if seen.is_none() && !records.is_empty() {
            pager.note(format!(
                "{}: no record of a page has a value at `{at}` (`since.at`), so {{since}} does not advance by it",
                pager.step.call.name
            ));
        }
        let all = self.0.take().into_iter().chain(seen);
        self.0 = all.max_by(|one, other| SinceValue::compare(one, other));
    }
}

/// Returns whether a step that `max_pages` ends names `{since}`. If the next list had only what is newer than this one, what this
/// one left out would be lost. Notes it, and what the list of a slice leaves out, which no other pass lists.
pub fn cuts(pager: &mut Pager<'_>) -> bool {
    let cut = pager.job.names(pager.step, &Variable::Since);
    if pager.region.slice.is_some() {
        pager.note(format!(
            "{} stopped at max_pages before the end of its list, and no pass lists the rest of the slice; raise max_pages, or \
            choose shorter slices for what is left (`slices.step`)",
            pager.step.call.name
        ));
    }
    if cut {
        pager.note(format!(
            "{} stopped at max_pages before the end of its list; the next pass uses the same \
            {{since}}",
            pager.step.call.name
        ));
    }
    cut
}

/// The note about lists that begin at the first value of `since` and have no record at all.
#[must_use]
pub fn nothing_since_first(call: &str) -> String {
    format!(
        "{call}: no record since the first value of `since`; check the format in which the parameter has {{since}}, such as \
        {{since:%s}} for seconds"
    )
}
