//! What the pages of a list show: whether its end is proved, and what cannot happen in a list that is read correctly. Pure: it
//! knows the page, what the pages before it showed, and what earlier lists of the call did. Of these it keeps counts and names.
//!
//! How a list is read on. A page that is not full, behind which the upstream says nothing, is an assumed end.
//!
//! | reading | page | then |
//! | --- | --- | --- |
//! | any | leads on | `Pages` (`Capped` stays) |
//! | `Pages` | the end, as the upstream says | ends, proved |
//! | `Pages` | an assumed end, as earlier lists of the call had it | ends, proved |
//! | `Pages` | an assumed end of which nobody knows | `Asked(Assumed)` |
//! | `Pages` | the first says that it is the last, and denies it elsewhere | `Asked(Said)` |
//! | `Asked` | empty, or refused | ends, proved; the call is known to end so |
//! | `Asked(Assumed)` | has records | `Capped`: the upstream caps its pages |
//! | `Asked(Said)` | has records | ends, doubtful (`end-refuted`) |
//! | `Capped` | an assumed end | `Capped`, until a page is empty |
//! | any | shows a doubt that makes further pages worthless | ends, doubtful |
//! | any | leads on behind `max_pages` | ends, cut |

mod beside;
mod end;
mod findings;
mod known;
mod moves;
mod order;
mod since;
#[cfg(test)]
mod tests;
mod tried;

use std::collections::{BTreeMap, BTreeSet};

use ingest_base::list_so_far::ListSoFar;
use ingest_base::record::Doubted;
use ingest_config::{Call, Doubt, Job, MOST_EMPTY_PAGES, Region, Step, Variable};
use ingest_upstream::{End, Page};

use findings::missing_of;
pub use findings::{ComparedRecords, Findings};
pub use known::Known;
pub use moves::Judged as ListJudged;
use order::{Previous, Repeats};
pub use since::{Greatest, SeenValues, nothing_since_first, older_than_since, sent_unread};
pub use tried::{Judged, Tried, doubt_in_words};

/// Pages that repeat the page before in another order until that is a doubt.
const REORDERED: u64 = 2;

/// Pages in a row that repeat an earlier page behind a new cursor until that is a doubt.
const REPEATED: u64 = 3;

/// What is said of a list, each once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Said {
    /// What speaks against it: it is not complete.
    pub doubts: Vec<Doubted>,
    /// What else is worth knowing.
    pub notes: Vec<String>,
}

impl Said {
    /// Adds a note.
    pub fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Adds what else is said.
    pub fn add(&mut self, more: Self) {
        for doubt in more.doubts {
            if !self.doubts.contains(&doubt) {
                self.doubts.push(doubt);
            }
        }
        more.notes.into_iter().for_each(|note| self.note(note));
    }

    /// Whether something speaks against the list.
    #[must_use]
    pub const fn is_doubtful(&self) -> bool {
        !self.doubts.is_empty()
    }
}

/// One list while it is read.
#[derive(Debug)]
pub struct Review<'a> {
    job: &'a Job,
    step: &'a Step,
    region: &'a Region,
    /// The call of the step.
    call: &'a Call,
    /// What earlier lists of the call showed.
    known: Known,
    /// The pages with records in the last complete list of the region.
    last_pages: u64,
    /// The pages that earlier runs landed. A list goes on behind an empty page only where the upstream leads on.
    landed_before: u64,
    /// What this list shows.
    shown: Known,
    reading: Reading,
    /// Pages, those with records, and those that had no list where the configuration expects one.
    fetched: u64,
    with_records: u64,
    without_list: u64,
    /// Records that the responses listed.
    listed: u64,
    /// Whether exactly the first ids of the batch came.
    lacks_ids: bool,
    /// Whether the last page has no record, and was not requested to prove the end.
    is_last_empty: bool,
    /// Whether the last page has no record, and the number of all pages.
    ends_empty: bool,
    previous: Previous,
    reordered: u64,
    /// Pages with records that lack a place, by the key of `page`; and a place that looks like it.
    lacking: BTreeMap<&'static str, (u64, Option<String>)>,
    /// The numbers of records on the pages that led on.
    sizes: BTreeSet<u64>,
    /// How many of them have records.
    led: u64,
    is_unchanged: bool,
    /// Where the page says that the response is cut behind which a further one is to tell whether the list ended.
    cut_at: Option<String>,
    /// The names of members of pages that lead on and have no list.
    names_without_list: BTreeSet<String>,
    /// Whether an error beside the records was found.
    has_error: bool,
    /// Whether records of a page that led on have the same value at `page.last`.
    has_ties: bool,
    /// Whether the upstream named the next page, or said that there is one.
    is_named: bool,
    /// The same of the page before.
    was_named: bool,
}

/// How a list is read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// By its pages.
    Pages,
    /// By a further page that tells whether it ended.
    Asked(Asked),
    /// Behind pages with this many records, to which the upstream caps them.
    Capped(u64),
}

/// Why a further page is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// A page with this many records was not full.
    Assumed(u64),
    /// The upstream said that the list ends.
    Said,
}

/// Where a page is in its list.
#[derive(Debug, Clone, Copy)]
pub struct Turn<'a> {
    /// Pages before it, those of earlier runs included.
    pub before: u64,
    /// Whether its list begins at the cursor of the last pass.
    pub begins_at_cursor: bool,
    /// Whether the upstream named it, or said that there is one, on a page of an earlier run.
    pub is_named: bool,
    /// How many pages in a row before it brought no new record.
    pub barren: u64,
    /// The ids of a batch; empty in a step that lists.
    pub ids: &'a [String],
}

/// What follows from a page.
#[derive(Debug)]
pub struct Verdict {
    pub onward: Onward,
    /// Whether the page is empty and was requested only to prove the end.
    pub has_proved: bool,
    /// Whether no page so far has a list where the configuration expects one.
    pub has_no_list: bool,
    /// What is said of the list if the catalog finds that the page repeats its cursor without a new record.
    pub if_repeats: Said,
    pub said: Said,
}

/// How a list goes on behind a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Onward {
    /// With the page at this cursor.
    Next(String),
    /// With the page at this cursor, which is requested only to prove that the list ended.
    Proof(String),
    /// Not, although it continues: `max_pages` ends it.
    Cut,
    /// Not. Whether the end is proved.
    End { is_proved: bool },
}

impl Onward {
    /// Whether the list is over.
    #[must_use]
    pub const fn is_end(&self) -> bool {
        matches!(self, Self::End { .. })
    }

    /// Whether the list is over, and that is proved.
    #[must_use]
    pub const fn is_proved(&self) -> bool {
        matches!(self, Self::End { is_proved: true })
    }

    /// The cursor of the next page; `None` if there is none.
    #[must_use]
    pub fn into_cursor(self) -> Option<String> {
        match self {
            Self::Next(cursor) | Self::Proof(cursor) => Some(cursor),
            Self::Cut | Self::End { .. } => None,
        }
    }
}

/// A doubt after which no further page is worth its cost.
struct Stop {
    doubt: Doubt,
    text: String,
    /// Whether a list of the call ends so where the doubt is accepted.
    is_end: bool,
}

impl<'a> Review<'a> {
    /// Begins with a list whose region's last complete pass had this many pages with records.
    #[must_use]
    pub fn new(
        job: &'a Job,
        step: &'a Step,
        region: &'a Region,
        known: Known,
        last_pages: u64,
    ) -> Self {
        Self {
            job,
            step,
            region,
            call: &step.call,
            shown: Known {
                config: known.config.clone(),
                ..Known::default()
            },
            known,
            last_pages,
            landed_before: 0,
            reading: Reading::Pages,
            fetched: 0,
            with_records: 0,
            without_list: 0,
            listed: 0,
            lacks_ids: false,
            ends_empty: false,
            is_last_empty: false,
            previous: Previous::default(),
            reordered: 0,
            lacking: BTreeMap::new(),
            sizes: BTreeSet::new(),
            led: 0,
            is_unchanged: false,
            cut_at: None,
            names_without_list: BTreeSet::new(),
            has_error: false,
            has_ties: false,
            is_named: false,
            was_named: false,
        }
    }

    /// Goes on behind what the pages of earlier runs showed.
    pub fn resume(&mut self, pages: u64, list: &ListSoFar) {
        self.landed_before = pages;
        self.cut_at.clone_from(&list.cut_at);
    }

    /// Returns what this list shows of its call.
    #[must_use]
    pub const fn shown(&self) -> &Known {
        &self.shown
    }

    /// Whether the ids that the last page lacks were perhaps not looked up: exactly the first ids of the batch came.
    #[must_use]
    pub const fn lacks_ids(&self) -> bool {
        self.lacks_ids
    }

    /// Whether it has seen a page.
    #[must_use]
    pub const fn has_begun(&self) -> bool {
        self.fetched > 0
    }

    /// Takes up what other lists of the call showed meanwhile. Returns whether a further page need not be requested any more.
    pub fn learn(&mut self, known: Known) -> bool {
        self.known = known;
        match self.reading {
            Reading::Asked(Asked::Said) => self.known.told,
            Reading::Asked(Asked::Assumed(listed)) => {
                let full = self.known.full.map(|(_, full)| full);
                let is_short = full.is_none_or(|full| listed < full);
                let is_whole = !self.is_shorter() && self.cut_at.is_none();
                is_short && self.tells(listed, full) && is_whole
            }
            Reading::Pages | Reading::Capped(_) => false,
        }
    }

    /// The upstream refused the further page, so there is none. Returns what is said of the list.
    pub fn refused(&mut self) -> Said {
        if let Reading::Asked(asked) = self.reading {
            self.prove(asked);
        }
        self.check_cut(None)
    }

    /// Returns what follows from a page.
    pub fn see(&mut self, page: &Page, turn: Turn<'_>) -> Verdict {
        if self.fetched == 0 {
            self.landed_before = turn.before;
        }
        let repeats = self.previous.compare(&page.records);
        self.count(page);
        let mut said = Said::default();
        self.check_beside(page, &mut said);
        let asked = match self.reading {
            Reading::Asked(asked) => Some(asked),
            Reading::Pages | Reading::Capped(_) => None,
        };
        let has_proved = asked.is_some() && page.listed == 0 && page.next.is_none();
        if let Some(asked) = asked {
            self.answered(asked, page, has_proved);
        }
        let mut onward = self.follow(page, turn, (asked, repeats), &mut said);
        if onward.is_end() {
            // Only at the end: a page before it may lack a list that a later one has.
            if !said.is_doubtful() {
                self.check_list(page, turn, asked.is_some(), &mut said);
                self.check_empty(page, turn, &mut said);
            }
            if said.is_doubtful() {
                onward = Onward::End { is_proved: false };
            }
        }
        self.check_ids(page, &mut said);
        if matches!(onward, Onward::Next(_)) && self.is_last(turn) {
            onward = Onward::Cut;
            said.add(self.cut());
        }
        Verdict {
            onward,
            has_proved,
            has_no_list: self.without_list == self.fetched,
            if_repeats: self.same_cursor(),
            said,
        }
    }

    fn count(&mut self, page: &Page) {
        self.fetched += 1;
        // What reports that there is no record has an empty list: at `page.total`, or elsewhere in two passes in a row, of which the
        // second one marks records as gone.
        let can_mark = self.step.ids.is_none() && !self.names_since();
        let says_none = page.unread.beside.says_none && self.last_pages == 0 && can_mark;
        let has_list = !page.lacks_list && !page.is_blank || page.total == Some(0) || says_none;
        self.without_list += u64::from(!has_list);
        self.listed = self.listed.saturating_add(page.listed);
        self.is_last_empty = page.listed == 0 && !matches!(self.reading, Reading::Asked(_));
        self.ends_empty = page.listed == 0 && page.pages.is_some();
        self.is_unchanged |= page.unchanged;
        if !page.unchanged {
            self.shown.see(page);
        }
        if page.listed == 0 {
            return;
        }
        self.cut_at = None;
        self.with_records += 1;
        for (key, is_there) in &page.places {
            let always = self.shown.places.entry((*key).to_owned()).or_insert(true);
            *always &= is_there;
        }
        for lacking in &page.unread.lacking {
            let (pages, instead) = self.lacking.entry(lacking.key).or_default();
            *pages += 1;
            *instead = instead.take().or_else(|| lacking.instead.clone());
        }
        if let Some(size) = page.size.filter(|size| page.listed == *size) {
            self.shown.full = Some((size, size));
        }
    }

    /// The further page came.
    fn answered(&mut self, asked: Asked, page: &Page, has_proved: bool) {
        self.reading = match asked {
            Asked::Assumed(listed) if page.listed > 0 => Reading::Capped(listed),
            Asked::Assumed(_) | Asked::Said => Reading::Pages,
        };
        if has_proved {
            self.prove(asked);
        }
    }

    /// A further page was empty: lists of the call end so.
    fn prove(&mut self, asked: Asked) {
        self.reading = Reading::Pages;
        match asked {
            Asked::Said => self.shown.told = true,
            Asked::Assumed(listed) => self.shown.proved = self.shown.proved.max(Some(listed)),
        }
    }

    /// Decides whether the list goes on behind a page.
    fn follow(
        &mut self,
        page: &Page,
        turn: Turn<'_>,
        (asked, repeats): (Option<Asked>, Repeats),
        said: &mut Said,
    ) -> Onward {
        self.was_named = self.is_named;
        let leads = self.call.paging.names_next(None, false);
        self.is_named = page.is_named || (page.unchanged && leads);
        let stop = self.leads_nowhere(page, turn);
        if let Some(stop) = stop.or_else(|| self.stops(page, asked, repeats)) {
            let is_end = stop.is_end || !self.call.trust.contains(&stop.doubt);
            said.add(self.find(stop.doubt, stop.text));
            if is_end {
                return Onward::End {
                    is_proved: !said.is_doubtful(),
                };
            }
        }
        if page.is_refused && (self.was_named || turn.is_named) && asked.is_none() {
            let text = self.text(
                "the upstream refused a page that its own response named, or said to be there (a rule with class = \"end\"), so it has \
                more records than it lists; request shorter lists, such as one for each of several values of a parameter, or `slices`",
            );
            said.add(self.find(Doubt::Cut, text));
            return Onward::End { is_proved: false };
        }
        let onward = match &page.next {
            Some(next) => Onward::Next(next.clone()),
            None => self.end(page, turn, said),
        };
        if matches!(onward, Onward::Next(_)) {
            self.shown.led_on = true;
            self.has_ties |= self.shows_ties(page);
            if page.listed > 0 {
                self.shown.least = self.shown.least.into_iter().chain([page.listed]).min();
                self.sizes.insert(page.listed);
                self.led += 1;
            }
        }
        onward
    }

    /// Whether two records of a page that follow each other have the same value at `page.last`.
    fn shows_ties(&self, page: &Page) -> bool {
        let Some(at) = &self.call.paging.last else {
            return false;
        };
        let values = page.records.iter().map(|record| at.text_in(&record.body));
        let values: Vec<Option<String>> = values.collect();
        let mut pairs = values.windows(2);
        pairs.any(|pair| pair.first().is_some_and(Option::is_some) && pair.first() == pair.last())
    }

    /// Finds records that are not landed, and that no other list has.
    fn check_ids(&self, page: &Page, said: &mut Said) {
        let is_slice = self.region.slice.is_some();
        let is_read_once =
            self.reads_what_is_new() || self.call.paging.lasting.is_some() || is_slice;
        let what = match (page.skipped, page.differing) {
            (1.., _) if is_read_once => "have no id at `records.id`",
            // Where lists overlap, the second one can be a newer state of the first.
            (_, 1..) if is_slice => "have the id of another record of their page (`records.id`)",
            _ => return,
        };
        let text = format!("records {what}, and the next list does not have them again");
        said.add(self.find(Doubt::IdsMissing, self.text(&text)));
    }

    /// Returns the doubt about a list that goes on and on without a new record, whatever the order of those that come again.
    fn leads_nowhere(&self, page: &Page, turn: Turn<'_>) -> Option<Stop> {
        let is_barren = turn.barren >= MOST_EMPTY_PAGES && page.next.is_some() && page.listed > 0;
        (is_barren && !self.call.names_changes()).then(|| Stop {
            doubt: Doubt::RecordsRepeat,
            text: self.text(&format!(
                "{} pages in a row brought no new record; the upstream may not know `page.param`",
                turn.barren
            )),
            is_end: false,
        })
    }

    /// Returns the doubt after which no further page is worth its cost.
    fn stops(&mut self, page: &Page, asked: Option<Asked>, repeats: Repeats) -> Option<Stop> {
        let name = &self.call.name;
        let stop = |doubt, text| {
            Some(Stop {
                doubt,
                text,
                is_end: false,
            })
        };
        if let (Some(elsewhere), Some(records)) = (&page.elsewhere, &self.call.records) {
            let text = format!(
                "{name}: the response has no records at `{}` (`records.at`), and a list at `{elsewhere}`",
                records.at
            );
            return stop(Doubt::NoRecords, text);
        }
        if self.call.paging.counts_itself() && page.listed > 0 && repeats == Repeats::Whole {
            let text = format!(
                "{name} returned the same page twice; the list ends there; if it has more, the upstream may not know \
                `page.param`, or `page.first` is wrong"
            );
            return Some(Stop {
                doubt: Doubt::CursorRepeats,
                text,
                is_end: true,
            });
        }
        // One that changed twice is named twice, but not a page of them in the same order.
        if self.names_since() && page.listed > 1 && repeats == Repeats::Whole {
            let text = format!("{name}: a page repeats the page before and has another cursor");
            return stop(Doubt::RecordsRepeat, text);
        }
        // A record that changed twice is named twice.
        if !self.call.names_changes() && page.listed > 0 {
            self.reordered += u64::from(repeats.is_reordered());
            if self.previous.repeated() >= REPEATED {
                let text = format!(
                    "{name} returned {REPEATED} pages in a row that it had returned before, each with a new cursor; the list ends there; if \
                    it has more, the upstream may not know `page.param`, or different records have one id (`records.id`)"
                );
                return stop(Doubt::CursorRepeats, text);
            }
            let adds_nothing = repeats == Repeats::Within && page.next.is_none();
            if self.reordered >= REORDERED || adds_nothing {
                let text = format!(
                    "{name}: pages repeat records of the page before in another order; check `page.param` and the order of the list: \
                    the parameter may lead to where the list came from"
                );
                return stop(Doubt::RecordsRepeat, text);
            }
        }
        if asked == Some(Asked::Said) && page.listed > 0 {
            let text = format!(
                "{name}: the first response says that the list ends there, and a further page has records; check the places of \
                `page` (`more`, `done`, `total`, `pages`)"
            );
            return stop(Doubt::EndRefuted, text);
        }
        match &page.end {
            End::Unnamed(why) => Some(Stop {
                doubt: Doubt::NextUnnamed,
                text: format!("{name}: {why}"),
                is_end: true,
            }),
            End::NotNamed | End::Said(_) | End::Assumed(_) | End::Proved => None,
        }
    }

    /// A text about the call.
    fn text(&self, why: &str) -> String {
        format!("{}: {why}", self.call.name)
    }

    /// Returns a doubt, or a note if the configuration accepts it.
    fn find(&self, doubt: Doubt, text: String) -> Said {
        let upstream = &self.job.credential.upstream.name;
        let (call, name) = (&self.call.name, doubt.name());
        let mut said = Said::default();
        if self.call.trust.contains(&doubt) {
            said.note(format!("{text} (accepted: {name})"));
        } else {
            said.doubts.push(Doubted {
                doubt: name.to_owned(),
                call: call.clone(),
                text: format!(
                    "{text}; if the list is right, write trust = [\"{name}\"] in [upstreams.{upstream}.calls.{call:?}]"
                ),
            });
        }
        said
    }

    /// What is said of a list whose cursor repeats without a new record.
    fn same_cursor(&self) -> Said {
        let mistake = match &self.call.paging.param {
            Some(_) => "the upstream may not know `page.param`",
            None => "`page.next` may name the page itself, or the first one",
        };
        let text = format!(
            "{} returned the same cursor twice, and no new record; the list ends there; if it has more, {mistake}",
            self.call.name
        );
        self.find(Doubt::CursorRepeats, text)
    }

    /// Whether a list that ends too early would lose records for good.
    fn names_since(&self) -> bool {
        self.job.names(self.step, &Variable::Since)
    }

    /// Whether passes read only what is new, so that no later one lists what this one passed over.
    fn reads_what_is_new(&self) -> bool {
        self.names_since() || self.step.stop_at_known.is_some()
    }

    /// Whether the list has fewer pages so far than the last complete one of the region.
    const fn is_shorter(&self) -> bool {
        self.landed_before.saturating_add(self.with_records) < self.last_pages
    }

    /// Whether `max_pages` allows no page behind this one.
    fn is_last(&self, turn: Turn<'_>) -> bool {
        let most = self.step.max_pages;
        most.is_some_and(|most| turn.before.saturating_add(1) >= most)
    }
}
