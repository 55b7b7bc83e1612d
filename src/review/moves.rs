//! Lists that moved while they were read, and lists that have fewer records than the upstream reports: judged at their end, by what all
//! pages showed, those before a stop included.

use super::end::FEWEST;
use super::{Review, Said};
use ingest_base::list_so_far::{ListSoFar, Totals};
use ingest_config::{CursorText, Doubt, PageKind};
use ingest_upstream::Page;

/// What follows from a list as a whole.
#[derive(Debug, Default)]
pub struct Judged {
    pub said: Said,
    /// Whether it perhaps lacks records that there are: none is marked as gone.
    pub is_partial: bool,
    /// Whether the next list has to begin where this one did: it perhaps passed over records.
    pub is_cut: bool,
}

/// Returns the number of all records that a page reports, and its place in words: that of the configured place, or a greater one that
/// looks like it. Where the response names the next page, only one beside the list looks like it.
fn reported(review: &Review<'_>, page: &Page) -> Option<(String, u64)> {
    let paging = &review.call.paging;
    let configured = page.total.zip(paging.total.as_ref());
    let configured = configured.map(|(total, at)| (format!("`{at}`"), total));
    let unread = page.unread.total.as_ref();
    // A number of the records on the page is none of the list.
    let unread = unread.filter(|(at, total)| *total > page.listed && review.can_be_total(at));
    match (configured, unread) {
        (Some((_, total)), Some((at, unread))) if *unread > total => Some((at.clone(), *unread)),
        (None, Some((at, unread))) => Some((at.clone(), *unread)),
        (configured, _) => configured,
    }
}

/// Returns the number of all pages that a page reports, and its place in words: a list has no more pages than records.
fn pages(review: &Review<'_>, page: &Page) -> Option<(String, u64)> {
    place_of_pages(review).zip(page.pages)
}

/// The place of the number of all pages, in words.
fn place_of_pages(review: &Review<'_>) -> Option<String> {
    let at = review.call.paging.pages.as_ref()?;
    Some(format!("`{at}`"))
}

/// The object that has the member at a pointer.
fn parent(at: &str) -> &str {
    at.rsplit_once('/').map_or("", |(parent, _)| parent)
}

impl Review<'_> {
    /// Adds what a page shows to what those before it showed.
    pub fn add_to(&self, list: &mut ListSoFar, page: &Page) {
        let records = page.records.len() as u64;
        list.records = list.records.saturating_add(records);
        // One that repeats an id of its page is none of the different records.
        let unlisted = page
            .listed
            .saturating_sub(records.saturating_add(page.repeated));
        list.unlisted = list.unlisted.saturating_add(unlisted);
        list.overlapping = list.overlapping.saturating_add(self.previous.overlapping());
        list.skipped = list.skipped.saturating_add(page.skipped);
        list.is_named = self.is_named;
        let next = page.next.as_deref();
        list.is_counted |= next.is_some_and(|next| self.counts(list, page, next));
        if page.listed > 0 {
            list.cut_at.clone_from(&page.unread.cut);
        }
        // On the last page, it says that the list is cut.
        let rest = page.unread.rest.as_ref().filter(|_| page.next.is_some());
        let rest = rest.map(|(at, rest)| {
            let total = list.records.saturating_add(list.unlisted);
            let at = format!("the sum of the records so far and {at}");
            (at, total.saturating_add(*rest))
        });
        let reported = reported(self, page).or_else(|| pages(self, page));
        if let Some((at, total)) = reported.or(rest) {
            list.report(at, total);
        }
    }

    /// Notes a parameter that the URL of the next page lacks, where that counts pages: a cursor can stand for what was requested.
    pub(super) fn check_dropped(&self, page: &Page, said: &mut Said) {
        let is_counted = page.next.as_deref().is_some_and(counts_pages);
        let mut dropped = page.unread.dropped.iter();
        let lacking = dropped.find(|name| is_counted && !counts_pages_as(name));
        if let Some(name) = lacking {
            said.note(self.text(&format!(
                "the next page's URL lacks the parameter `{name}` that the request had; if the upstream drops it, later pages list other \
                records"
            )));
        }
    }

    /// Whether the cursor of the next page counts pages, or the records before it: in a URL, or as a token. One that is the id of the
    /// page's last record names that.
    fn counts(&self, list: &ListSoFar, page: &Page, next: &str) -> bool {
        let read = list.records.saturating_add(list.unlisted);
        let pages = self.landed_before.saturating_add(self.fetched);
        // A small number can be any cursor.
        let is_count = |number: u64| {
            let is_next = |count: u64| number == count || number == count.saturating_add(1);
            (read >= FEWEST && is_next(read)) || (pages > 1 && is_next(pages))
        };
        let is_id = |token: &str| page.records.last().is_some_and(|last| last.id == token);
        let paging = &self.call.paging;
        match paging.cursor_text(Some(next)) {
            Some(CursorText::Text(token)) if paging.kind == PageKind::Token => {
                let is_counted = token.parse().is_ok_and(is_count);
                is_counted && !is_id(token) && paging.last.is_none()
            }
            Some(CursorText::Text(url)) => counts_pages(url),
            Some(CursorText::Count(_)) | None => false,
        }
    }

    /// Whether a number at a place that is not configured can be that of all records.
    pub(super) fn can_be_total(&self, at: &str) -> bool {
        let paging = &self.call.paging;
        let list = self
            .call
            .records
            .as_ref()
            .map(|records| records.at.as_str());
        let beside = ["", list.map_or("", parent)];
        paging.counts_itself()
            || (paging.total.is_none() && beside.contains(&parent(at.trim_matches('`'))))
    }

    /// Whether totals are only what looks like one: such a list is no doubt, and marks nothing as gone.
    fn is_likely_total(&self) -> bool {
        self.call.paging.total.is_none() && !self.call.paging.counts_itself()
    }

    /// Judges a list whose end is proved. `marks_gone`: whether records that it lacks would be marked as gone.
    #[must_use]
    pub fn judge(&self, list: &ListSoFar, marks_gone: bool) -> Judged {
        let mut judged = Judged::default();
        // What changed is named again when it changes again, and has no number of all records.
        if self.call.names_changes() {
            return judged;
        }
        // An empty list can have one page.
        let of_pages = place_of_pages(self);
        // What is behind a page that is known was not read.
        let total = list.total.as_ref().filter(|_| !list.is_known);
        if let Some(total) = total.filter(|total| of_pages.as_ref() != Some(&total.at)) {
            match self.is_likely_total() {
                true => self.judge_likely_total(list, total, marks_gone, &mut judged),
                false => self.judge_total(list, total, &mut judged),
            }
        }
        if let Some(total) = total.filter(|total| of_pages.as_ref() == Some(&total.at)) {
            self.judge_pages(total, &mut judged);
        }
        // On each page that follows another one, or so that there are more records than the response reports.
        let on_each = list.overlapping >= self.with_records.saturating_sub(1);
        let has_too_many = total.is_some_and(|total| total.last < self.listed);
        let overlaps = list.overlapping > 0 && (on_each || has_too_many);
        if self.call.paging.counts_itself() && overlaps {
            judged.said.note(self.text(
                "pages begin with records of the page before; check `page.param` and `page.first`",
            ));
        }
        self.judge_order(list, marks_gone, &mut judged);
        self.judge_ties(list, &mut judged);
        self.judge_length(list, marks_gone, &mut judged);
        self.judge_stop(list, marks_gone, &mut judged);
        judged
    }

    /// Whether it has as many different records as the response reports.
    fn judge_total(&self, list: &ListSoFar, total: &Totals, judged: &mut Judged) {
        let reached = list.reached();
        // A record that came while the list was read can be before its pages.
        if total.least <= reached {
            return;
        }
        let text = format!(
            "{}: the list ended after {reached} {}records, and the response has {} at {}: if that is the number of all records, \
            check `page.first`, `page.size` and `page.size_param`",
            self.call.name,
            if list.again() > 0 { "different " } else { "" },
            total.least,
            total.at
        );
        let is_accepted = self.call.trust.contains(&Doubt::FewerThanTotal);
        let is_note = is_small(total.least, reached) && !self.is_last_chance();
        judged.is_partial |= !is_accepted;
        judged.is_cut |= !is_accepted && self.reads_what_is_new();
        match is_note && !is_accepted {
            true => judged.said.note(format!("{text}; {}", self.consequence())),
            false => judged.said.add(self.find(Doubt::FewerThanTotal, text)),
        }
    }

    /// Whether it has as many pages as the response reports.
    fn judge_pages(&self, total: &Totals, judged: &mut Judged) {
        let read = self.landed_before.saturating_add(self.fetched);
        // A list that became shorter while it was read has fewer pages on its last one.
        let is_short = total.least > read;
        let lacks_last = self.ends_empty && read > 1 && total.last >= read;
        if !is_short && !lacks_last {
            return;
        }
        let (call, of, at) = (&self.call.name, total.least, &total.at);
        let (ended, check) = match is_short {
            true => ("after", ""),
            false => (
                "with the last of",
                "; that page is empty: check `page.first`",
            ),
        };
        let text = format!(
            "{call}: the list ended {ended} {read} pages, and the response has {of} at {at}{check}"
        );
        let said = self.find(Doubt::FewerThanTotal, text);
        judged.is_partial |= said.is_doubtful();
        judged.is_cut |= said.is_doubtful() && self.reads_what_is_new();
        judged.said.add(said);
    }

    /// Whether it has as many different records as a number says that looks like that of all records.
    fn judge_likely_total(
        &self,
        list: &ListSoFar,
        total: &Totals,
        marks_gone: bool,
        judged: &mut Judged,
    ) {
        let (reached, least, at) = (list.reached(), total.least, &total.at);
        let is_accepted = self.call.trust.contains(&Doubt::FewerThanTotal);
        let loses = self.reads_what_is_new() || self.is_last_chance();
        if least <= reached || is_accepted || !(marks_gone || loses) {
            return;
        }
        judged.is_partial = true;
        judged.is_cut |= self.reads_what_is_new();
        // A header cannot be read as `total`.
        let remedy = match at.starts_with('`') {
            true => {
                "; if that is the number of all records, write it as `total` into `page`; if not, "
            }
            false => "; if that is not the number of all records, ",
        };
        let text = self.text(&format!(
            "the list ended after {reached} records, and the response has {least} at {at}"
        ));
        if self.is_last_chance() {
            let text = format!("{text}, and no other pass lists the slice");
            judged.said.add(self.find(Doubt::FewerThanTotal, text));
            return;
        }
        judged.said.note(format!(
            "{text}, so {}{remedy}write trust = [\"{}\"] into the call",
            self.consequence(),
            Doubt::FewerThanTotal.name()
        ));
    }

    /// Whether the list moved while it was read.
    fn judge_order(&self, list: &ListSoFar, marks_gone: bool, judged: &mut Judged) {
        let total = list
            .total
            .as_ref()
            .filter(|total| total.fell || total.first != total.last);
        let again = list.again();
        let pages = place_of_pages(self);
        let is_of_pages = total.is_some_and(|total| pages.as_ref() == Some(&total.at));
        let of = if is_of_pages { "pages" } else { "records" };
        let Some(why) = why(self.call.name.as_str(), of, total, again) else {
            return;
        };
        judged.is_partial |= marks_gone;
        // A record that moved to a later page, or went, moved those behind it to pages that were read already. What moves to the front
        // only repeats the end of the page before.
        // In a list that has its newest records first, what comes and what changes moves the others back, and passes over none.
        let is_counted = self.call.paging.counts_itself() || list.is_counted;
        let moves_back = is_counted && self.step.stop_at_known.is_none();
        let moved_back = moves_back && again > list.overlapping;
        let fell = total.is_some_and(|total| total.fell) && !self.is_likely_total();
        let passed_over = fell || moved_back;
        if passed_over && self.is_last_chance() {
            let text = format!("{why}, and no other pass lists what it passed over");
            judged.is_partial = true;
            judged.said.add(self.find(Doubt::ListMoved, text));
            return;
        }
        let is_cut = passed_over && self.reads_what_is_new();
        judged.is_partial |= is_cut;
        judged.is_cut |= is_cut;
        if marks_gone || is_cut {
            judged.said.note(format!("{why}; {}", self.consequence()));
        }
    }

    /// Whether several records have the value by which the next page begins, so that it can pass over those that are not on this one.
    fn judge_ties(&self, list: &ListSoFar, judged: &mut Judged) {
        let Some(at) = self.call.paging.last.as_ref().filter(|_| self.has_ties) else {
            return;
        };
        // A next page that begins with the value itself has the last record again.
        if list.again() > 0 {
            return;
        }
        judged.is_partial = true;
        judged.is_cut |= self.reads_what_is_new();
        judged.said.note(self.text(&format!(
            "records have the same value at `{at}` (`page.last`), so a next page that begins behind it may pass over others; name a value \
            that no two records share; {}",
            self.consequence()
        )));
    }

    /// Whether it has less than half of the pages of the last one, or fewer and ends with an empty page: an upstream that answers with an
    /// empty page or without a next one while it fails shows no more than that, unless it reports how many there are. A next list that is as short is the second one
    /// that says so.
    fn judge_length(&self, list: &ListSoFar, marks_gone: bool, judged: &mut Judged) {
        let read = self.landed_before.saturating_add(self.with_records);
        let last = self.last_pages;
        let is_known = last < u64::MAX && marks_gone && !self.names_since();
        let is_half = read.saturating_mul(2) < last && read.saturating_add(2) <= last;
        let is_short = is_half || (self.is_last_empty && 0 < read && read < last);
        if !is_known || !is_short || list.total.is_some() || judged.is_partial {
            return;
        }
        judged.is_partial = true;
        judged.said.note(self.text(&format!(
            "the list has {read} {} with records, and the last one had {last}; this pass marks no record as gone, and the next one does if \
            its list is as short",
            if read == 1 { "page" } else { "pages" }
        )));
    }

    /// Whether a run stopped in the middle of pages that are counted: what went meanwhile moved others to pages that were read already, and
    /// only a number of all records would show it.
    fn judge_stop(&self, list: &ListSoFar, marks_gone: bool, judged: &mut Judged) {
        let is_counted = self.call.paging.counts_itself() || list.is_counted;
        let is_seen = list.total.is_some() || judged.is_partial;
        if self.landed_before == 0 || !is_counted || is_seen {
            return;
        }
        judged.is_partial |= marks_gone;
        let consequence = match marks_gone {
            true => "this pass marks no record as gone",
            // A list that begins at the same value again would never come further than such a stop.
            false => "--relist lists them",
        };
        judged.said.note(self.text(&format!(
            "a run stopped between its pages, which are counted, and no response reports the number of all records (`page.total`), so \
            records that moved meanwhile are perhaps not listed; {consequence}"
        )));
    }

    /// Whether no later pass lists what this one passed over.
    fn is_last_chance(&self) -> bool {
        self.region.slice.is_some()
    }

    fn consequence(&self) -> &'static str {
        match self.names_since() {
            true => "the next pass begins at the same {since}",
            false if self.step.stop_at_known.is_some() => {
                "this pass marks no record as gone, and the next one reads on to what the passes before this one knew"
            }
            false => "this pass marks no record as gone",
        }
    }
}

fn why(call: &str, of: &str, total: Option<&Totals>, again: u64) -> Option<String> {
    let total = total.map(|total| {
        let (first, last, at) = (total.first, total.last, &total.at);
        match total.fell && first <= last {
            true => format!(
                "the number of all {of} at {at} fell in between to {}",
                total.least
            ),
            false => format!("the number of all {of} at {at} went from {first} to {last}"),
        }
    });
    let again = (again > 0).then(|| match again {
        1 => "1 record came again on a later page".to_owned(),
        _ => format!("{again} records came again on later pages"),
    });
    let signs: Vec<String> = total.into_iter().chain(again).collect();
    (!signs.is_empty()).then(|| {
        format!(
            "{call}: the list moved while it was read ({})",
            signs.join(", ")
        )
    })
}

/// Whether a URL names its page by number, or by the number of records before it.
fn counts_pages(url: &str) -> bool {
    let (_, query) = url.split_once('?').unwrap_or_default();
    url::form_urlencoded::parse(query.as_bytes()).any(|(name, value)| {
        counts_pages_as(&name) && value.len() < 8 && value.parse::<u32>().is_ok()
    })
}

/// Whether a parameter by this name is the number of a page, or of the records before it.
fn counts_pages_as(name: &str) -> bool {
    const NAMES: [&str; 12] = [
        "from",
        "offset",
        "p",
        "page",
        "pageno",
        "pagenumber",
        "pageoffset",
        "pg",
        "skip",
        "start",
        "startat",
        "startindex",
    ];
    let letters = name.chars().filter(char::is_ascii_alphabetic);
    let plain: String = letters.map(|letter| letter.to_ascii_lowercase()).collect();
    NAMES.contains(&plain.as_str())
}

/// Whether a list can have moved by so much while it was read.
pub fn is_small(total: u64, reached: u64) -> bool {
    total.saturating_sub(reached) <= (total / 100).max(1)
}
