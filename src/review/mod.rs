//! What the pages of a list show: whether its end is proved, and what cannot happen in a list that is read correctly. Pure: it
//! knows the page, what the pages before it showed, and what earlier lists of the call did. Of these it keeps counts and names.

mod beside;
mod end;
mod findings;
mod known;
mod moves;
mod order;
mod since;
mod tried;

use std::collections::{BTreeMap, BTreeSet};

use ingest_base::record::Doubted;
use ingest_config::{Call, Doubt, Job, Region, SinceValue, Step, Variable};
use ingest_upstream::{End, Page};

use findings::missing_of;
pub use findings::{Findings, ListRef, RegionalRecords};
pub use known::Known;
pub use moves::Judged as ListJudged;
use order::{Previous, Repeats};
pub use since::{
    Greatest, SeenValues, listed_anew, nothing_since_first, older_than_since, sent_unread,
};
pub use tried::{Judged, Tried, doubt_in_words};

/// Pages that repeat the page before in another order until that is a doubt.
const REORDERED: u64 = 2;

/// Pages in a row that repeat an earlier page behind a new cursor until that is a doubt.
const REPEATED: u64 = 3;

/// The fewest records that a page which an upstream caps has, in practice.
const FEWEST: u64 = 10;

/// Records of pages that upstreams have where a request does not say how many it wants, or says it wrongly.
const USUAL: [u64; 8] = [20, 25, 30, 50, 100, 250, 500, 1_000];

/// Whether upstreams cap pages at so many records where `size` are requested.
fn can_be_cap(records: u64, size: u64) -> bool {
    records >= FEWEST && (size.is_multiple_of(records) || USUAL.contains(&records))
}

fn refused_by(call: &str) -> String {
    format!(
        "{call}: the upstream refused a page that its own response named, or said to be there (a rule with class = \"end\"), so it has \
        more records than it lists; request shorter lists, such as one for each of several values of a parameter, or `slices`"
    )
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
    /// Pages, those with records, and those that had no list where the configuration expects one.
    fetched: u64,
    with_records: u64,
    without_list: u64,
    /// Records that the responses listed.
    listed: u64,
    previous: Previous,
    reordered: u64,
    /// Pages that begin with a record of the page before.
    overlapping: u64,
    /// Pages with records that lack a place, by the key of `page`; and a place that looks like it.
    lacking: BTreeMap<&'static str, (u64, Option<String>)>,
    /// The numbers of records on the pages that led on.
    sizes: BTreeSet<u64>,
    /// How many of them have records.
    led: u64,
    /// Why the next page is requested although this one seems to be the last.
    asked: Option<Asked>,
    /// The number of records on a page that the upstream capped.
    cap: Option<u64>,
    is_unchanged: bool,
    /// Whether an error beside the records was found.
    has_error: bool,
    /// Whether the upstream named the next page, or said that there is one.
    is_named: bool,
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
    /// The value of `{since}`; `None`: the Unix epoch.
    pub since: Option<&'a SinceValue>,
    /// Whether its list begins at the cursor of the last pass.
    pub begins_at_cursor: bool,
    /// Whether the upstream named it, or said that there is one, on a page of an earlier run.
    pub is_named: bool,
    /// The ids of a batch; empty in a step that lists.
    pub ids: &'a [String],
}

/// What follows from a page.
#[derive(Debug)]
pub struct Verdict {
    /// The cursor of the next page; `None` if the list ends.
    pub next: Option<String>,
    /// Whether `max_pages` ends the list here although it continues.
    pub is_cut: bool,
    /// Whether the next page is requested only to prove that the list ended.
    pub is_proof: bool,
    /// Whether the page is empty and was requested only to prove that.
    pub has_proved: bool,
    /// Whether the end is proved.
    pub is_proved: bool,
    /// Whether no page so far has a list where the configuration expects one.
    pub has_no_list: bool,
    /// What speaks against the list if the catalog finds that the page repeats its cursor without a new record.
    pub if_repeats: Finding,
    /// The doubts that are not accepted.
    pub doubts: Vec<Doubted>,
    /// What else is worth knowing.
    pub notes: Vec<String>,
}

/// Something that speaks against a list.
#[derive(Debug, Clone)]
pub enum Finding {
    /// A doubt: the list is not complete.
    Doubt(Doubted),
    /// A note: the configuration accepts the doubt.
    Note(String),
}

impl Verdict {
    fn add(&mut self, finding: Option<Finding>) {
        match finding {
            Some(Finding::Doubt(doubt)) => self.doubts.push(doubt),
            Some(Finding::Note(note)) => self.notes.push(note),
            None => {}
        }
    }
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
            fetched: 0,
            with_records: 0,
            without_list: 0,
            listed: 0,
            previous: Previous::default(),
            reordered: 0,
            overlapping: 0,
            lacking: BTreeMap::new(),
            sizes: BTreeSet::new(),
            led: 0,
            asked: None,
            cap: None,
            is_unchanged: false,
            has_error: false,
            is_named: false,
        }
    }

    /// Returns what this list shows of its call.
    #[must_use]
    pub const fn shown(&self) -> &Known {
        &self.shown
    }

    /// Takes up what other lists of the call showed meanwhile. Returns whether a further page need not be requested any more.
    pub fn learn(&mut self, known: Known) -> bool {
        self.known = known;
        match self.asked {
            Some(Asked::Said) => self.known.told,
            Some(Asked::Assumed(listed)) => {
                let full = self.known.full.map(|(_, full)| full);
                let is_short = full.is_none_or(|full| listed < full);
                is_short && self.tells(listed, full) && !self.is_shorter()
            }
            None => false,
        }
    }

    /// Whether it has seen a page.
    #[must_use]
    pub const fn has_begun(&self) -> bool {
        self.fetched > 0
    }

    /// Returns what follows from a page.
    pub fn see(&mut self, page: &Page, turn: Turn<'_>) -> Verdict {
        if self.fetched == 0 {
            self.landed_before = turn.before;
        }
        let (repeats, overlaps) = self.previous.compare(&page.records);
        self.count(page, overlaps);
        let mut verdict = Verdict {
            next: page.next.clone(),
            is_cut: false,
            is_proof: false,
            has_proved: false,
            is_proved: false,
            has_no_list: self.without_list == self.fetched,
            if_repeats: self.find(Doubt::CursorRepeats, self.same_cursor()),
            doubts: Vec::new(),
            notes: Vec::new(),
        };
        self.check_beside(page, &mut verdict);
        let was_asked = self.asked.is_some();
        self.follow(page, turn, repeats, &mut verdict);
        // Only at the end: a page before it may lack a list that a later one has.
        if verdict.next.is_none() && verdict.doubts.is_empty() {
            self.check_list(page, turn, was_asked, &mut verdict);
        }
        verdict.is_proved &= verdict.doubts.is_empty();
        if page.skipped > 0 && (self.reads_what_is_new() || self.call.paging.lasting().is_some()) {
            let text = format!(
                "{}: records have no id at `records.id`, and the next list does not have them again",
                self.call.name
            );
            self.doubt(Doubt::IdsMissing, text, &mut verdict);
        }
        verdict.is_cut = verdict.next.is_some() && !verdict.is_proof && self.is_last(turn);
        if verdict.is_cut {
            verdict.add(self.cut());
        }
        verdict
    }

    /// Decides whether the list goes on behind a page.
    fn follow(&mut self, page: &Page, turn: Turn<'_>, repeats: Repeats, verdict: &mut Verdict) {
        let (asked, was_named) = (self.asked.take(), self.is_named);
        self.is_named = page.is_named || (page.unchanged && self.leads());
        if asked.is_some() && page.listed == 0 && page.next.is_none() {
            verdict.has_proved = true;
            self.prove(asked);
        }
        if self.stops(page, (asked, repeats), verdict) {
            verdict.next = None;
            return;
        }
        if page.is_refused && (was_named || turn.is_named) && asked.is_none() {
            let text = refused_by(&self.call.name);
            self.doubt(Doubt::Cut, text, verdict);
            return;
        }
        if let (Some(Asked::Assumed(listed)), false) = (asked, page.listed == 0) {
            self.cap = Some(listed);
        }
        if verdict.next.is_none() {
            self.end(page, turn, verdict);
        }
        if verdict.next.is_some() && !verdict.is_proof {
            self.lead_on(page);
        }
    }

    /// Whether the upstream names each next page.
    fn leads(&self) -> bool {
        self.call.paging.names_next(None, false)
    }

    /// The upstream refused the further page, so there is none.
    pub fn refused(&mut self) {
        let asked = self.asked.take();
        self.prove(asked);
    }

    fn count(&mut self, page: &Page, overlaps: bool) {
        self.fetched += 1;
        self.without_list += u64::from(page.lacks_list || page.is_blank);
        self.listed = self.listed.saturating_add(page.listed);
        self.overlapping += u64::from(overlaps);
        self.is_unchanged |= page.unchanged;
        if !page.unchanged {
            self.shown.see(page);
        }
        if page.listed == 0 {
            return;
        }
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

    /// Whether the list has fewer pages so far than the last complete one of the region.
    const fn is_shorter(&self) -> bool {
        self.landed_before.saturating_add(self.with_records) < self.last_pages
    }

    /// A further page was empty.
    fn prove(&mut self, asked: Option<Asked>) {
        match asked {
            Some(Asked::Said) => self.shown.told = true,
            Some(Asked::Assumed(listed)) if self.cap.is_none() => {
                self.shown.proved = self.shown.proved.max(Some(listed));
            }
            Some(Asked::Assumed(_)) | None => {}
        }
    }

    /// Whether what is known of the call tells that a page of so many records is the last one. `full`: the records of a full page.
    ///
    /// An empty further page proves that no page with fewer records than the one before it is capped. Of one with more it proves
    /// nothing, and no request can tell a list with as many records as a cap from a capped one but a further page for each list. A
    /// right configuration pays once for its call, so what is proved of one list holds for the others, with two exceptions: a list too
    /// short for any cap told nothing about caps, and half of a full page is what an upstream has that lowers its cap. Lost is what
    /// an upstream caps at more records than the proved list has, where no page was full, no total and no next page is reported, and
    /// the region had no more pages before.
    fn tells(&self, listed: u64, full: Option<u64>) -> bool {
        let proved = self.shown.proved.max(self.known.proved);
        let is_proved = proved.is_some_and(|proved| listed <= proved);
        match full {
            Some(_) if self.shown.full.is_some() => true,
            // Where the upstream halves its pages, a list that was never longer would end there.
            Some(full) => is_proved || listed < FEWEST || listed.saturating_mul(2) != full,
            None => {
                let size = self.call.paging.page_size();
                let told = |proved| proved >= FEWEST || !can_be_cap(listed, size);
                is_proved || proved.is_some_and(told)
            }
        }
    }

    fn lead_on(&mut self, page: &Page) {
        self.shown.led_on = true;
        if page.listed > 0 {
            self.shown.least = self.shown.least.into_iter().chain([page.listed]).min();
            self.sizes.insert(page.listed);
            self.led += 1;
        }
    }

    /// Adds the doubts after which no further page is worth its cost. Returns whether the list ends there.
    fn stops(
        &mut self,
        page: &Page,
        (asked, repeats): (Option<Asked>, Repeats),
        verdict: &mut Verdict,
    ) -> bool {
        let name = &self.call.name;
        if let (Some(elsewhere), Some(records)) = (&page.elsewhere, &self.call.records) {
            let text = format!(
                "{name}: the response has no records at `{}` (`records.at`), and a list at `{elsewhere}`",
                records.at
            );
            return self.doubt(Doubt::NoRecords, text, verdict);
        }
        if self.call.paging.counts_itself() && page.listed > 0 && repeats == Repeats::Whole {
            let text = format!(
                "{name} returned the same page twice; the list ends there; if it has more, the upstream may not know \
                `page.param`, or `page.first` is wrong"
            );
            self.doubt(Doubt::CursorRepeats, text, verdict);
            // Where the configuration accepts the doubt, a list of this call ends so.
            verdict.is_proved = verdict.doubts.is_empty();
            return true;
        }
        // A record that changed twice is named twice.
        let can_repeat = self.call.names_changes() || page.listed == 0;
        let is_reordered = matches!(repeats, Repeats::InAnotherOrder | Repeats::Within);
        if is_reordered && !can_repeat {
            self.reordered += 1;
        }
        if self.previous.repeated() >= REPEATED && !can_repeat {
            let text = format!(
                "{name} returned {REPEATED} pages in a row that it had returned before, each with a new cursor; the list ends there; if it \
                has more, the upstream may not know `page.param`"
            );
            return self.doubt(Doubt::CursorRepeats, text, verdict);
        }
        let adds_nothing = repeats == Repeats::Within && page.next.is_none();
        if self.reordered >= REORDERED || (adds_nothing && !can_repeat) {
            let text = format!(
                "{name}: pages repeat records of the page before in another order; check `page.param` and the order of the list: \
                the parameter may lead to where the list came from"
            );
            return self.doubt(Doubt::RecordsRepeat, text, verdict);
        }
        if asked == Some(Asked::Said) && page.listed > 0 {
            let text = format!(
                "{name}: the first response says that the list ends there, and a further page has records; check the places of \
                `page` (`more`, `done`, `total`, `pages`)"
            );
            return self.doubt(Doubt::EndRefuted, text, verdict);
        }
        if let End::Unnamed(why) = &page.end {
            let text = format!("{name}: {why}");
            self.doubt(Doubt::NextUnnamed, text, verdict);
            verdict.is_proved = verdict.doubts.is_empty();
            return true;
        }
        false
    }

    /// Adds a doubt, or a note if the configuration accepts it. Returns whether it is a doubt.
    fn doubt(&self, doubt: Doubt, text: String, verdict: &mut Verdict) -> bool {
        let finding = self.find(doubt, text);
        let is_doubt = matches!(finding, Finding::Doubt(_));
        verdict.add(Some(finding));
        is_doubt
    }

    fn find(&self, doubt: Doubt, text: String) -> Finding {
        let upstream = &self.job.credential.upstream.name;
        let (call, name) = (&self.call.name, doubt.name());
        if self.call.trust.contains(&doubt) {
            return Finding::Note(format!("{text} (accepted: {name})"));
        }
        Finding::Doubt(Doubted {
            doubt: name.to_owned(),
            call: call.clone(),
            text: format!(
                "{text}; if the list is right, write trust = [\"{name}\"] in [upstreams.{upstream}.calls.{call:?}]"
            ),
        })
    }

    /// Whether a list that ends too early would lose records for good.
    fn names_since(&self) -> bool {
        self.job.names(self.step, &Variable::Since)
    }

    /// Whether passes read only what is new, so that no later one lists what this one passed over.
    fn reads_what_is_new(&self) -> bool {
        self.names_since() || self.step.stop_at_known.is_some()
    }

    /// Whether `max_pages` allows no page behind this one.
    fn is_last(&self, turn: Turn<'_>) -> bool {
        let most = self.step.max_pages;
        most.is_some_and(|most| turn.before.saturating_add(1) >= most)
    }

    /// Returns how the list goes on behind a page, and why.
    #[must_use]
    pub fn goes_on(&self, page: &Page, verdict: &Verdict) -> String {
        let size = page.size.unwrap_or_default();
        if verdict.is_proof {
            return format!(
                "seems to end here, since the page is not full ({} of {size} records) and the response does not say whether there \
                are more: a run requests one further page, once for this call, unless a page of the call was full",
                page.listed
            );
        }
        let why = match (&verdict.next, &page.end) {
            (Some(_), _) if !self.call.paging.counts_itself() => {
                "goes on: the response names the next page"
            }
            (Some(_), _) if page.total.is_some() => "goes on: the reported total is not reached",
            (Some(_), _) => "goes on: the page is full, or the response says that there are more",
            (None, _) if !verdict.doubts.is_empty() => "ends here, and cannot be trusted",
            (None, End::NotNamed) => "ends here: the response names no next page",
            (None, End::Said(_)) => "ends here: the response says so",
            (None, End::Assumed(_)) => "ends here: the step wants one page",
            (None, End::Proved) if page.listed == 0 => "ends here: the page is empty",
            (None, End::Proved | End::Unnamed(_)) => {
                "ends here: one page is the whole list, or the response says so"
            }
        };
        why.to_owned()
    }

    /// Returns a note on a page that leads on and has fewer records than were requested.
    #[must_use]
    pub fn note_size(&self, page: &Page) -> Option<String> {
        let param = self.call.paging.size()?.param?;
        let size = page
            .size
            .filter(|size| page.listed > 0 && page.listed < *size)?;
        page.next.as_ref()?;
        Some(format!(
            "the page has {} records although `{param}` requests {size}, and the list goes on: the upstream may not know the \
            parameter (`page.size_param`), or has smaller pages (`page.size`); a list costs {} times the requests",
            page.listed,
            size.div_ceil(page.listed)
        ))
    }

    fn same_cursor(&self) -> String {
        let mistake = match self.call.paging.cursor_param() {
            Some(_) => "the upstream may not know `page.param`",
            None => "`page.next` may name the page itself, or the first one",
        };
        format!(
            "{} returned the same cursor twice, and no new record; the list ends there; if it has more, {mistake}",
            self.call.name
        )
    }
}
