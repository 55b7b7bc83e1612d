//! The end of a list: whether it is proved, and what speaks against it.

use super::moves::is_small;
use super::{Asked, Finding, Review, Turn, Verdict};
use ingest_base::record::Doubted;
use ingest_config::{Doubt, Lasting, Lead, PageKind, Place};
use ingest_upstream::{End, Missing, Page, signs_of_end};

/// The keys of `page` that say where the next page is, which many upstreams leave out on the last page.
const NEXT: [&str; 3] = ["next", "next_header", "link"];

impl Review<'_> {
    /// Decides about a page behind which the response names no further one.
    pub fn end(&mut self, page: &Page, turn: Turn<'_>, verdict: &mut Verdict) {
        let further = match &page.end {
            End::Assumed(further) => self.beyond_assumed(page, turn).map(|why| (further, why)),
            End::Said(further) if self.is_told_first(page, turn) => {
                Some((further, Beyond::Proof(Asked::Said)))
            }
            End::Said(_) | End::Proved | End::NotNamed | End::Unnamed(_) => None,
        };
        match further {
            Some((further, Beyond::Page)) => {
                verdict.next = Some(further.clone());
                return;
            }
            Some((further, Beyond::Proof(asked))) => {
                verdict.next = Some(further.clone());
                verdict.is_proof = true;
                self.asked = Some(asked);
                return;
            }
            Some((_, Beyond::Nothing)) | None => {}
        }
        let is_open = matches!(further, Some((_, Beyond::Nothing)));
        if page.dead_end.is_none() {
            self.check(page, turn, verdict);
        }
        if let Some(Lasting::At(at)) = self.call.paging.lasting()
            && page.lasting.is_none()
            && page.listed > 0
            && verdict.doubts.is_empty()
        {
            verdict.notes.push(format!(
                "{}: the last page has no cursor at `{at}` (`page.lasting`), so the next pass lists everything",
                self.call.name
            ));
        }
        self.shown.full = match self.cap {
            Some(cap) => page.size.map(|size| (size, cap)),
            None => self.shown.full.or(self.known.full),
        };
        verdict.is_proved = !is_open && verdict.doubts.is_empty() && page.dead_end.is_none();
    }

    /// What is beyond a page that is not full and where the upstream says nothing; `None` if the list ends there by what is known.
    fn beyond_assumed(&self, page: &Page, turn: Turn<'_>) -> Option<Beyond> {
        // A batch of which each id has come has no more. A single id can have a list of children.
        let all_came = turn.ids.len() > 1 && page.listed >= turn.ids.len() as u64;
        let full = self.shown.full.or(self.known.full);
        let full = full.filter(|(size, _)| Some(*size) == page.size);
        let full = full.map(|(_, full)| full);
        let is_capped = self.cap.is_some() || full.is_some_and(|full| page.listed >= full);
        let is_whole = !self.is_shorter() && page.unread.next.is_none();
        if all_came || (!is_capped && is_whole && self.tells(page.listed, full)) {
            return None;
        }
        Some(match (self.is_last(turn), is_capped) {
            // A list with `{since}` is asked beyond `max_pages` too: what it leaves out is on no later list.
            (true, _) if !self.names_since() => Beyond::Nothing,
            (_, true) => Beyond::Page,
            (_, false) => Beyond::Proof(Asked::Assumed(page.listed)),
        })
    }

    /// Whether a first page says that it is the last one, and something else in it says that it is not, in a call whose word was
    /// never confirmed: the place can be that of another number or flag.
    fn is_told_first(&self, page: &Page, turn: Turn<'_>) -> bool {
        let total = page.unread.total.as_ref().map(|(_, total)| *total);
        let is_denied =
            page.unread.next.is_some() || total.is_some_and(|total| total > page.listed);
        let is_single = turn.before == 0 && !self.is_last(turn) && turn.ids.is_empty();
        is_denied && is_single && page.listed > 0 && !self.known.led_on && !self.known.told
    }

    /// Returns what speaks against a list that `max_pages` ends although it goes on, where that loses records: if it names
    /// `{since}`, and the next list had only what is newer than this one; in a slice, of which no other pass lists the rest; and
    /// where the last page has the cursor of the next pass.
    #[must_use]
    pub fn cut(&self) -> Option<Finding> {
        let call = &self.call.name;
        let text = match (self.region.slice.is_some(), self.names_since()) {
            (true, _) => format!(
                "{call} stopped at max_pages before the end of its list, and no pass lists the rest of the slice; raise max_pages, or \
                choose shorter slices for what is left (`slices.step`)"
            ),
            (false, true) => format!(
                "{call} stopped at max_pages before the end of its list, and the next pass uses the same {{since}}; raise max_pages"
            ),
            (false, false) if matches!(self.call.paging.lasting(), Some(Lasting::At(_))) => {
                format!(
                    "{call} stopped at max_pages before the end of its list, where the cursor of the next pass is; raise max_pages"
                )
            }
            (false, false) => return None,
        };
        Some(self.find(Doubt::Cut, text))
    }

    fn check(&mut self, page: &Page, turn: Turn<'_>, verdict: &mut Verdict) {
        // A further page means nothing where one is wanted, or where each requested id can have come.
        let is_only = self.step.max_pages == Some(1);
        let is_wanted = is_only || (page.listed > 0 && page.listed <= turn.ids.len() as u64);
        if !is_wanted {
            self.check_next(page, turn, verdict);
        }
        // A request for ids has another shape than a list.
        if turn.ids.is_empty() {
            self.check_places(page, verdict);
        }
        self.note_caps(page, verdict);
        let is_whole = self.fetched == turn.before.saturating_add(1);
        if turn.ids.is_empty() && !self.is_last(turn) && !self.is_unchanged {
            self.check_total(page, is_whole, verdict);
        }
        if is_whole {
            self.note_overlaps(page, verdict);
        }
    }

    /// What looks like a next page although the list ends.
    fn check_next(&self, page: &Page, turn: Turn<'_>, verdict: &mut Verdict) {
        let paging = &self.call.paging;
        let is_single = turn.before == 0 && !self.known.led_on;
        let is_one_page = matches!(paging.lead(), Lead::Nowhere) && !paging.counts_itself();
        let is_unnamed = page.end == End::NotNamed || is_one_page;
        let is_full = is_one_page || page.size.is_some_and(|size| page.listed >= size);
        let unread = &page.unread;
        let can_lead = (unread.url.as_ref()).or(unread.token.as_ref().filter(|_| is_full));
        if let Some(at) = can_lead.filter(|_| is_single && is_unnamed && page.listed > 0) {
            let text = format!(
                "{}: the list ends here, and the response has a value at {at} that can lead to a next page (`page`)",
                self.call.name
            );
            self.doubt(Doubt::NextUnread, text, verdict);
            return;
        }
        let Some(sign) = signs_of_end(paging, page) else {
            return;
        };
        let text = format!("{}: {sign}", self.call.name);
        let doubt = match &sign {
            Missing::Next {
                unread: Some(_), ..
            }
            | Missing::UnreadNext { .. }
                if is_unnamed =>
            {
                Doubt::NextUnread
            }
            // What a feed names on its last page is where the next pass begins.
            Missing::Next { is_flag: true, .. }
                if turn.begins_at_cursor && paging.lasting() == Some(&Lasting::Last) =>
            {
                return;
            }
            Missing::Next { is_flag: true, .. } if is_single => Doubt::NextMissing,
            Missing::UnreadNext { .. } => return verdict.notes.push(text),
            Missing::Next { .. } if is_single && is_unnamed => match &unread.total {
                Some((_, total)) if *total > page.listed && !is_small(*total, page.listed) => {
                    Doubt::FewerThanTotal
                }
                // The list can have exactly one full page.
                Some(_) | None => return verdict.notes.push(text),
            },
            Missing::Rest { total, records, .. } if is_one_page || (is_single && is_unnamed) => {
                if is_small(*total, *records) {
                    return verdict.notes.push(text);
                }
                Doubt::FewerThanTotal
            }
            Missing::Rest { .. } if !paging.counts_itself() => return verdict.notes.push(text),
            _ => return,
        };
        self.doubt(doubt, text, verdict);
    }

    /// Places that earlier responses of the call had, or that this list has under another name.
    fn check_places(&self, page: &Page, verdict: &mut Verdict) {
        let name = &self.call.name;
        for (key, always) in &self.shown.places {
            // A list that `max_pages` cut never shows a page without a next one.
            let is_next = NEXT.contains(&key.as_str());
            if !always && !is_next && self.known.places.get(key) == Some(&true) {
                let text = format!(
                    "{name}: responses lack the value of `page.{key}`, which every earlier response had; the upstream may have \
                    renamed it"
                );
                self.doubt(Doubt::PlaceMissing, text, verdict);
            }
        }
        for (key, (pages, instead)) in &self.lacking {
            if let Some(instead) = instead.as_ref().filter(|_| *pages >= self.with_records) {
                let text = format!(
                    "{name}: no response has true or false at the place of `page.{key}`; {instead} looks like it"
                );
                self.doubt(Doubt::PlaceMissing, text, verdict);
            }
        }
        if let Some(text) = self.renamed_next(page) {
            self.doubt(Doubt::PlaceMissing, text, verdict);
        }
    }

    /// What shows that the place of the next page has another name now: a page as long as those that led on has none, and has a
    /// member that no response had.
    fn renamed_next(&self, page: &Page) -> Option<String> {
        // A place that is there, as null, has its name.
        let mut lacking = page.places.iter().filter(|(_, is_there)| !is_there);
        let (key, _) = lacking.find(|(key, _)| NEXT.contains(key))?;
        let is_long = self.known.least.is_some_and(|least| page.listed >= least);
        if page.end != End::NotNamed || !self.known.led_on || !is_long {
            return None;
        }
        let new = page
            .unread
            .names
            .iter()
            .find(|name| self.known.is_new(name));
        let is_shorter = self.is_shorter() && *key != "next";
        let what = match new {
            Some(new) => format!("and have `/{new}`, which none had"),
            None if is_shorter => format!("and the last list had {} pages", self.last_pages),
            None => return None,
        };
        Some(format!(
            "{}: responses lack the value of `page.{key}`, which earlier ones had on such a page, {what}; the upstream may have \
            renamed it",
            self.call.name
        ))
    }

    /// Whether the list has as many records as the response reports.
    fn check_total(&self, page: &Page, is_whole: bool, verdict: &mut Verdict) {
        let unread = page.unread.total.as_ref();
        let unread = unread.filter(|_| self.call.paging.counts_itself() && is_whole);
        let reached = match page.before {
            Some(before) => before.saturating_add(page.listed),
            None if is_whole => self.listed,
            None => return,
        };
        // What leads on by itself can have fewer records than its last page reports, if others came while it was read.
        let paging = &self.call.paging;
        let is_compared = paging.counts_itself() || (is_whole && self.fetched == 1);
        let at = paging.total().filter(|_| is_compared);
        let (at, total) = match (page.total, unread, at) {
            (Some(total), None, Some(at)) => (format!("`{at}`"), total),
            (Some(total), Some((_, unread)), Some(at)) if total >= *unread => {
                (format!("`{at}`"), total)
            }
            (_, Some((at, total)), _) => (at.clone(), *total),
            _ => return,
        };
        let has_doubt = |doubt: &Doubted| doubt.doubt == Doubt::FewerThanTotal.name();
        // What a list of a few records less means is judged of the list as a whole.
        if total <= reached || is_small(total, reached) || verdict.doubts.iter().any(has_doubt) {
            return;
        }
        let text = format!(
            "{}: the list ended after {reached} records, and the response has {total} at {at}: if that is the number of all \
            records, check `page.first`, `page.size` and `page.size_param`",
            self.call.name
        );
        self.doubt(Doubt::FewerThanTotal, text, verdict);
    }

    /// Notes that the pages have fewer records than were requested.
    fn note_caps(&self, page: &Page, verdict: &mut Verdict) {
        let param = self.call.paging.size().and_then(|size| size.param);
        let (Some(param), Some(size)) = (param, page.size) else {
            return;
        };
        let known = self
            .known
            .full
            .filter(|(requested, full)| *requested == size && *full < size);
        let alike = self.sizes.first().filter(|_| self.sizes.len() == 1);
        let alike = alike.filter(|records| **records < size && self.led > 1);
        let seen = self.cap.or(known.map(|(_, full)| full)).or(alike.copied());
        if let Some(seen) = seen {
            verdict.notes.push(format!(
                "{}: pages have {seen} records although `{param}` requests {size}; the list goes on by {seen}. Check the name of \
                `page.size_param`, or write size = {seen}{}",
                self.call.name,
                self.without_size(param, size)
            ));
        }
    }

    /// What to write for an upstream that leaves records out of full pages, whose lengths differ then; nothing where `page` needs
    /// a size.
    fn without_size(&self, param: &str, size: u64) -> String {
        if self.call.paging.kind == PageKind::Offset {
            return String::new();
        }
        let fixed = match self.call.paging.place() {
            Place::Query if !param.starts_with('/') => {
                format!("params = {{ {param} = \"{size}\" }}")
            }
            Place::Query | Place::Body => format!("{param}: {size} in its body"),
        };
        format!(
            ". If the length of its full pages differs, remove `page.size` and `page.size_param`, and write the size as a fixed \
            value of the call: {fixed}"
        )
    }

    /// Notes that every page begins with records of the page before.
    fn note_overlaps(&self, page: &Page, verdict: &mut Verdict) {
        if !self.call.paging.counts_itself() || self.fetched < 2 {
            return;
        }
        // The first page follows none, and an empty last one begins with no record.
        let turns = self.fetched - u64::from(page.listed == 0) - 1;
        let total = page.unread.total.as_ref().map(|(_, total)| *total);
        let has_too_many = self.overlapping > 0 && total.is_some_and(|total| total < self.listed);
        if turns > 0 && (self.overlapping >= turns || has_too_many) {
            verdict.notes.push(format!(
                "{}: pages begin with records of the page before; check `page.param` and `page.first`",
                self.call.name
            ));
        }
    }
}

/// What is beyond a page that seems to be the last.
#[derive(Clone, Copy)]
enum Beyond {
    /// A page of the list.
    Page,
    /// A request that tells.
    Proof(Asked),
    /// Nobody knows, and no request may tell.
    Nothing,
}
