//! What one response shows alone, to `ingest try`: as a run finds that which knows nothing of the call.

use std::collections::BTreeSet;

use super::{Known, Review, SeenValues, Turn, missing_of, older_than_since};
use ingest_base::record::{Doubted, Record};
use ingest_config::{Job, Lead, Pointer, Region, SinceValue, Step, Variable};
use ingest_upstream::{Missing, Page, ReportedCost, missing};

const EMPTY: &str = "the page has no records, so ids, columns and paging cannot be examined; if there should be some, check the \
    parameters (a time in `{since}` can be in the wrong unit), or try another region";

const EMPTY_GOES_ON: &str = "the page is empty and names a next page, so a run goes on behind it; if an empty page ends the list, \
    write empty_page_ends = true in its `page`";

/// What was requested.
#[derive(Debug, Clone, Copy)]
pub struct Tried<'a> {
    /// The job; of one credential.
    pub job: &'a Job,
    pub step: &'a Step,
    pub region: &'a Region,
    /// The ids; none in a step that lists.
    pub ids: &'a [String],
    /// The value of `{since}`; `None`: the Unix epoch.
    pub since: Option<&'a SinceValue>,
    /// Whether its list begins at the cursor of the last pass.
    pub begins_at_cursor: bool,
}

/// What a page shows.
#[derive(Debug)]
pub struct Judged {
    /// How the list goes on, and why.
    pub goes_on: String,
    /// The doubts about the list.
    pub doubts: Vec<Doubted>,
    /// What the configuration names and the page lacks.
    pub missing: BTreeSet<Missing>,
    /// What else a person should know, the doubts included.
    pub notes: Vec<String>,
    /// The values for the next `{since}`; `None` where the step does not name it.
    pub values: Option<SeenValues>,
}

impl Tried<'_> {
    /// Returns what a page shows, and the report that came with it.
    #[must_use]
    pub fn judge(&self, page: &Page, reported: &ReportedCost) -> Judged {
        let Self { job, step, .. } = *self;
        let mut values = self
            .names_since()
            .then(|| SeenValues::read(job, step, &page.records));
        let unread = values.as_mut().and_then(|values| values.unread.take());
        let mut review = Review::new(job, step, self.region, Known::default(), 0);
        let turn = Turn {
            before: 0,
            since: self.since,
            begins_at_cursor: self.begins_at_cursor,
            is_named: false,
            ids: self.ids,
        };
        let verdict = review.see(page, turn);
        let is_empty = page.records.is_empty() && !page.lacks_list && page.skipped == 0;
        let goes_on_empty = page.listed == 0 && page.next.is_some();
        let notes = unread
            .into_iter()
            .chain(verdict.doubts.iter().map(doubt_in_words))
            .chain(review.note_size(page))
            .chain(self.likely_total(&review, page))
            .chain(is_empty.then(|| EMPTY.to_owned()))
            .chain(goes_on_empty.then(|| EMPTY_GOES_ON.to_owned()))
            .chain(page.dead_end.clone())
            .chain(self.older_records(&page.records));
        let mut missing = missing(&step.call, page, reported);
        missing.extend(self.lacking(&page.records));
        Judged {
            goes_on: self.goes_on(review.goes_on(page, &verdict), verdict.next.is_some()),
            notes: notes.collect(),
            doubts: verdict.doubts,
            missing: missing.into_iter().collect(),
            values,
        }
    }

    /// Adds to how a list goes on where a run stops before its end.
    fn goes_on(&self, why: String, is_more: bool) -> String {
        match self.step.stop_at_known.filter(|_| is_more) {
            Some(_) => format!(
                "{why}; a run stops here if all records of the page are known and unchanged (`stop_at_known`)"
            ),
            None => why,
        }
    }

    fn names_since(&self) -> bool {
        self.job.names(self.step, &Variable::Since)
    }

    /// A note if a number that looks like that of all records is not read.
    fn likely_total(&self, review: &Review<'_>, page: &Page) -> Option<String> {
        let paging = &self.step.call.paging;
        let is_read = paging.total().is_some() || matches!(paging.lead(), Lead::Pages(_));
        let is_list = self.ids.is_empty() && page.next.is_some();
        let (at, total) = page
            .unread
            .total
            .as_ref()
            .filter(|(at, _)| is_list && !is_read && at.starts_with('`'))?;
        let place = at.trim_matches('`');
        (*total > page.listed && review.can_be_total(at)).then(|| {
            format!(
                "the response has {total} at {at}: if that is the number of all records of the list, write total = \"{place}\" in \
                `page`, and a run compares it with the records that it got"
            )
        })
    }

    /// A note if records are older than the `{since}` of the request.
    fn older_records(&self, records: &[Record]) -> Option<String> {
        let at = self.job.since.at.as_ref()?;
        let since = self.since.filter(|since| since.text().is_some())?;
        let mut texts = records.iter().flat_map(|record| at.texts_in(&record.body));
        let compares = self.names_since() && !self.step.shifts_since();
        let are_older = texts.any(|text| self.job.since.value_of(text).compare(since).is_lt());
        (compares && are_older).then(|| older_than_since(&self.step.call.name))
    }

    /// What no record contains although the job reads it: ids for a later step, and values of the next `{since}`.
    fn lacking(&self, records: &[Record]) -> Vec<Missing> {
        let has = |at: &Pointer| records.iter().any(|record| at.has_text_in(&record.body));
        let ids = self.job.steps.iter().filter_map(|step| step.ids.as_ref());
        let ids = ids.filter(|ids| ids.from == self.step.call.name);
        let ids = ids.filter_map(|ids| missing_of(ids, records));
        let since = self.job.since.at.as_ref();
        let since = since.filter(|at| self.names_since() && !has(at));
        let since = since.map(|at| Missing::Since { at: at.to_string() });
        match records.is_empty() {
            true => Vec::new(),
            false => ids.chain(since).collect(),
        }
    }
}

/// Returns a doubt with its name.
#[must_use]
pub fn doubt_in_words(doubt: &Doubted) -> String {
    format!("doubtful ({}): {}", doubt.doubt, doubt.text)
}
