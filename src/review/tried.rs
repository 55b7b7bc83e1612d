//! What one response shows alone, to `ingest try`: as a run finds that which knows nothing of the call.

use super::{Known, Onward, Review, SeenValues, Turn, Verdict, missing_of, older_than_since};
use ingest_base::record::{Doubted, Record};
use ingest_config::{Job, Pointer, Region, SinceValue, Step, Variable};
use ingest_upstream::{End, Missing, MissingFrom, Page, ReportedCost, missing};

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
    pub missing: Vec<String>,
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
            begins_at_cursor: self.begins_at_cursor,
            is_named: false,
            barren: 0,
            ids: self.ids,
        };
        let verdict = review.see(page, turn);
        let is_empty = page.is_empty() && !page.lacks_list && page.skipped == 0;
        let goes_on_empty = page.listed == 0 && page.next.is_some();
        let doubts = verdict.said.doubts.clone();
        let notes = unread
            .into_iter()
            .chain(doubts.iter().map(doubt_in_words))
            .chain(self.note_size(page))
            .chain(self.likely_total(&review, page))
            .chain(self.all_removed(page))
            .chain(is_empty.then(|| EMPTY.to_owned()))
            .chain(goes_on_empty.then(|| EMPTY_GOES_ON.to_owned()))
            .chain(page.dead_end.clone())
            .chain(self.older_records(&page.records));
        let mut missing = missing(&step.call, page, reported);
        missing.extend(self.lacking(&page.records));
        Judged {
            goes_on: self.goes_on(page, verdict),
            notes: notes.collect(),
            doubts,
            missing: missing.into_iter().map(|one| one.text).collect(),
            values,
        }
    }

    /// Returns how the list goes on behind a page, and why.
    fn goes_on(&self, page: &Page, verdict: Verdict) -> String {
        let paging = &self.step.call.paging;
        let why = match (&verdict.onward, &page.end) {
            (Onward::Proof(_), _) => {
                let size = page.size.unwrap_or_default();
                &format!(
                    "seems to end here, since the page is not full ({} of {size} records) and the response does not say whether there \
                    are more: a run requests one further page, once for this call, unless a page of the call was full",
                    page.listed
                )
            }
            (Onward::Next(_) | Onward::Cut, _) if !paging.counts_itself() => {
                "goes on: the response names the next page"
            }
            (Onward::Next(_) | Onward::Cut, _) if page.total.is_some() => {
                "goes on: the reported total is not reached"
            }
            (Onward::Next(_) | Onward::Cut, _) => {
                "goes on: the page is full, or the response says that there are more"
            }
            (Onward::End { .. }, _) if verdict.said.is_doubtful() => {
                "ends here, and cannot be trusted"
            }
            (Onward::End { .. }, End::NotNamed) => "ends here: the response names no next page",
            (Onward::End { .. }, End::Said(_)) => "ends here: the response says so",
            (Onward::End { .. }, End::Assumed(_)) => "ends here: the step wants one page",
            (Onward::End { .. }, End::Proved) if page.listed == 0 => "ends here: the page is empty",
            (Onward::End { .. }, End::Proved | End::Unnamed(_)) => {
                "ends here: one page is the whole list, or the response says so"
            }
        };
        match self.step.stop_at_known.filter(|_| !verdict.onward.is_end()) {
            Some(_) => format!(
                "{why}; a run stops here if all records of the page are known and unchanged (`stop_at_known`)"
            ),
            None => why.to_owned(),
        }
    }

    /// A note on a page that leads on and has fewer records than were requested.
    fn note_size(&self, page: &Page) -> Option<String> {
        let param = self.step.call.paging.size_param.as_ref()?;
        let is_short = |size: &u64| page.listed > 0 && page.listed < *size && page.next.is_some();
        let size = page.size.filter(is_short)?;
        Some(format!(
            "the page has {} records although `{param}` requests {size}, and the list goes on: the upstream may not know the \
            parameter (`page.size_param`), or has smaller pages (`page.size`); a list costs {} times the requests",
            page.listed,
            size.div_ceil(page.listed)
        ))
    }

    fn names_since(&self) -> bool {
        self.job.names(self.step, &Variable::Since)
    }

    /// A note if a number that looks like that of all records is not read.
    fn likely_total(&self, review: &Review<'_>, page: &Page) -> Option<String> {
        let paging = &self.step.call.paging;
        let is_read = paging.total.is_some() || paging.pages.is_some();
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

    /// A note if each record of the page says that it was removed.
    fn all_removed(&self, page: &Page) -> Option<String> {
        let removed = self.step.call.records.as_ref()?.removed.as_ref()?;
        let are_all = page.records.is_empty() && !page.removed.is_empty();
        are_all.then(|| {
            format!(
                "each of the {} records says at `{}` that it was removed (`records.removed`): if they were not, write the values that say \
                so: removed = {{ at = \"{}\", is = \"VALUE\" }}",
                page.removed.len(),
                removed.at,
                removed.at
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
        let since = since.map(|at| {
            let text = format!(
                "no record has a value at `{at}` (`since.at`), so {{since}} does not advance by it"
            );
            Missing::new(MissingFrom::AllWithRecords, text)
        });
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
