//! The end of a list: whether it is proved, and what speaks against it.

use std::collections::HashSet;

use super::moves::is_small;
use super::{Asked, Onward, Reading, Review, Said, Turn};
use ingest_base::record::Doubted;
use ingest_config::{Doubt, Lasting, PageKind, Place};
use ingest_upstream::{End, Page, SignKind, signs_of_end};

/// The keys of `page` that say where the next page is, which many upstreams leave out on the last page.
const NEXT: [&str; 3] = ["next", "next_header", "link"];

impl Review<'_> {
    /// Decides about a page behind which the response names no further one.
    pub fn end(&mut self, page: &Page, turn: Turn<'_>, said: &mut Said) -> Onward {
        let mut is_open = page.is_unbounded;
        match &page.end {
            End::Assumed(further) => match self.beyond_assumed(page, turn) {
                Some(Beyond::Page) => return Onward::Next(further.clone()),
                Some(Beyond::Proof(asked)) => {
                    self.cut_at.clone_from(&page.unread.cut);
                    return self.ask(asked, further);
                }
                Some(Beyond::Nothing) => is_open = true,
                None => {}
            },
            End::Said(further) if self.is_told_first(page, turn) || self.is_full_by_cap(page) => {
                return self.ask(Asked::Said, further);
            }
            End::Said(_) | End::Proved | End::NotNamed | End::Unnamed(_) => {}
        }
        let has_next = |place: &(&str, bool)| place.1 && NEXT.contains(&place.0);
        self.shown.names_end |= page.listed > 0 && page.places.iter().any(has_next);
        if page.dead_end.is_none() {
            self.check(page, turn, said);
        }
        if let Some(Lasting::At(at)) = &self.call.paging.lasting
            && page.lasting.is_none()
            && page.listed > 0
            && !said.is_doubtful()
        {
            said.note(self.text(&format!(
                "the last page has no cursor at `{at}` (`page.lasting`), so the next pass lists everything"
            )));
        }
        self.shown.full = match self.reading {
            Reading::Capped(cap) => page.size.map(|size| (size, cap)),
            Reading::Pages | Reading::Asked(_) => self.shown.full.or(self.known.full),
        };
        Onward::End {
            is_proved: !is_open && !said.is_doubtful() && page.dead_end.is_none(),
        }
    }

    fn ask(&mut self, asked: Asked, further: &str) -> Onward {
        self.reading = Reading::Asked(asked);
        Onward::Proof(further.to_owned())
    }

    /// What is beyond a page that is not full and where the upstream says nothing; `None` if the list ends there by what is known.
    fn beyond_assumed(&self, page: &Page, turn: Turn<'_>) -> Option<Beyond> {
        // A batch of which each id has come has no more. A single id can have a list of children.
        let all_came = turn.ids.len() > 1 && page.listed >= turn.ids.len() as u64;
        let full = self.shown.full.or(self.known.full);
        let full = full.filter(|(size, _)| Some(*size) == page.size);
        let full = full.map(|(_, full)| full);
        let is_capped = matches!(self.reading, Reading::Capped(_))
            || full.is_some_and(|full| page.listed >= full);
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

    /// Whether what is known of the call tells that a page of so many records is the last one. `full`: the records of a full page.
    ///
    /// An empty further page proves that no page with fewer records than the one before it is capped. Of one with more it proves
    /// nothing, and no request can tell a list with as many records as a cap from a capped one but a further page for each list. A
    /// right configuration pays once for its call, so what is proved of one list holds for the others, with two exceptions: a list too
    /// short for any cap told nothing about caps, and half of a full page is what an upstream has that lowers its cap. Lost is what
    /// an upstream caps at more records than the proved list has, where no page was full, no total and no next page is reported, and
    /// the region had no more pages before.
    pub(super) fn tells(&self, listed: u64, full: Option<u64>) -> bool {
        let proved = self.shown.proved.max(self.known.proved);
        let is_proved = proved.is_some_and(|proved| listed <= proved);
        match full {
            // An upstream that leaves a few records out of a full page has more behind it.
            Some(full) if self.shown.full.is_some() => {
                let is_nearly = |listed| is_nearly(listed, full);
                is_proved || !is_nearly(listed) || proved.is_some_and(is_nearly)
            }
            // Where the upstream halves its pages, a list that was never longer would end there, whatever was proved of a longer page
            // before that.
            Some(full) => {
                let is_half = listed >= FEWEST && listed.saturating_mul(2) == full;
                !is_half || proved == Some(listed)
            }
            None => {
                let told = |proved| proved >= FEWEST || listed < FEWEST;
                is_proved || proved.is_some_and(told)
            }
        }
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

    /// Whether a page that says it is the last one is as long as the others, which are shorter than requested: an upstream that counts
    /// pages by the requested size ends too early. Never confirmed for the call.
    fn is_full_by_cap(&self, page: &Page) -> bool {
        let is_capped = page.size.is_some_and(|size| page.listed < size) && self.led > 1;
        let is_alike = self.sizes.len() == 1 && self.sizes.contains(&page.listed);
        let paging = &self.call.paging;
        let is_requested = paging.size_param.is_some() && paging.total.is_none();
        is_capped && is_alike && is_requested && !self.known.told
    }

    /// Returns what speaks against a list that `max_pages` ends although it goes on, where that loses records: if it names
    /// `{since}`, and the next list had only what is newer than this one; in a slice, of which no other pass lists the rest; and
    /// where the last page has the cursor of the next pass.
    #[must_use]
    pub fn cut(&self) -> Said {
        let why = match (self.region.slice.is_some(), self.names_since()) {
            (true, _) => {
                "and no pass lists the rest of the slice; raise max_pages, or choose shorter slices for what is left (`slices.step`)"
            }
            (false, true) => "and the next pass uses the same {since}; raise max_pages",
            (false, false) if matches!(self.call.paging.lasting, Some(Lasting::At(_))) => {
                "where the cursor of the next pass is; raise max_pages"
            }
            (false, false) => return Said::default(),
        };
        let name = &self.call.name;
        let text = format!("{name} stopped at max_pages before the end of its list, {why}");
        self.find(Doubt::Cut, text)
    }

    fn check(&mut self, page: &Page, turn: Turn<'_>, said: &mut Said) {
        // A further page means nothing where one is wanted, or where each requested id came.
        let is_only = self.step.max_pages == Some(1);
        let is_wanted = is_only || all_came(page, turn.ids);
        let cut = match is_only {
            true => Said::default(),
            false => self.check_cut(page.unread.cut.as_ref()),
        };
        let is_cut = cut != Said::default();
        said.add(cut);
        if !is_wanted && !is_cut {
            said.add(self.check_next(page, turn));
        }
        self.note_caps(page, said);
        // A request for ids has another shape than a list.
        if !turn.ids.is_empty() {
            let note = self.note_batch(page, turn);
            return said.notes.extend(note);
        }
        self.check_places(page, said);
        if !self.is_last(turn) && !self.is_unchanged {
            self.check_total(page, turn, said);
        }
    }

    /// What says that the list is cut although it ends: the last page, at this place, or the one behind which a further one was
    /// requested.
    pub(super) fn check_cut(&self, at: Option<&String>) -> Said {
        let Some(at) = at.or(self.cut_at.as_ref()) else {
            return Said::default();
        };
        let text = self.text(&format!(
            "the list ends here, and the response says at {at} that it is cut: the rest of the list is lost"
        ));
        self.find(Doubt::NextUnread, text)
    }

    /// Notes that exactly the first ids of a batch came: perhaps the upstream answers no more at once.
    fn note_batch(&mut self, page: &Page, turn: Turn<'_>) -> Option<String> {
        let came: HashSet<&str> = page.records.iter().map(|one| one.id.as_str()).collect();
        let has_come = |id: &&String| came.contains(id.as_str());
        let first = turn.ids.iter().take_while(has_come).count();
        let rest = turn.ids.get(first..).unwrap_or_default();
        // A few can be absent by accident.
        let is_many = first.min(rest.len()) >= FEWEST_IDS;
        let is_most = first > 0 && rest.len() >= MANY_IDS;
        self.lacks_ids = (is_many || is_most) && !rest.iter().any(|id| has_come(&id));
        self.lacks_ids.then(|| {
            self.text(&format!(
                "only the first {first} of {} requested ids came; if the upstream answers no more at once, write batch = {first} (`ids`)",
                turn.ids.len()
            ))
        })
    }

    /// What looks like a next page although the list ends.
    fn check_next(&self, page: &Page, turn: Turn<'_>) -> Said {
        let paging = &self.call.paging;
        let is_single = turn.before == 0 && !self.known.led_on;
        let is_one_page = paging.kind == PageKind::None;
        let is_unnamed = page.end == End::NotNamed || is_one_page;
        let is_full = is_one_page || page.size.is_some_and(|size| page.listed >= size);
        let unread = &page.unread;
        let can_lead = (unread.url.as_ref()).or(unread.token.as_ref().filter(|_| is_full));
        let can_lead = can_lead.filter(|_| turn.ids.len() <= 1 && page.listed > 0);
        if let Some(at) = can_lead.filter(|_| is_single && is_unnamed) {
            let text = self.text(&format!(
                "the list ends here, and the response has a value at {at} that can lead to a next page (`page`)"
            ));
            return self.find(Doubt::NextUnread, text);
        }
        let Some(sign) = signs_of_end(paging, page) else {
            return Said::default();
        };
        let total = unread.total.as_ref().map_or(0, |(_, total)| *total);
        let is_small = is_small(total, page.listed);
        // What a feed names on its last page is where the next pass begins.
        let begins_next = turn.begins_at_cursor && paging.lasting == Some(Lasting::Last);
        let is_only = is_single && is_unnamed;
        let doubt = match sign.kind {
            SignKind::FullPage { is_elsewhere: true } | SignKind::NamedElsewhere if is_unnamed => {
                Some(Doubt::NextUnread)
            }
            SignKind::Denied if is_single && !begins_next => Some(Doubt::NextMissing),
            // The list can have exactly one full page.
            SignKind::FullPage { .. } if is_only => Some(Doubt::FewerThanTotal),
            SignKind::MoreRecords if is_only || is_one_page => Some(Doubt::FewerThanTotal),
            SignKind::NamedElsewhere => None,
            SignKind::MoreRecords if !paging.counts_itself() => None,
            SignKind::FullPage { .. } | SignKind::Denied | SignKind::MoreRecords => {
                return Said::default();
            }
        };
        let text = self.text(&sign.text);
        // Of a batch, it can be the number of ids that were requested.
        let is_note = is_small || turn.ids.len() > 1;
        match doubt.filter(|doubt| *doubt != Doubt::FewerThanTotal || !is_note) {
            Some(doubt) => self.find(doubt, text),
            None => Said {
                notes: vec![text],
                ..Said::default()
            },
        }
    }

    /// Places that earlier responses of the call had, or that this list has under another name.
    fn check_places(&self, page: &Page, said: &mut Said) {
        let name = &self.call.name;
        // An empty page can leave out a number that would be 0, but not what says that it is the last one.
        let ends = |(key, is_there): &&(&str, bool)| !is_there && ["more", "done"].contains(key);
        let is_empty = page.listed == 0 && !page.lacks_list && self.call.paging.lasting.is_none();
        let of_empty = page.places.iter().filter(|_| is_empty).filter(ends);
        let of_empty = of_empty.map(|(key, _)| *key);
        let lacking = self.shown.places.iter().filter(|(_, always)| !**always);
        let lacking = lacking.map(|(key, _)| key.as_str());
        for key in lacking.chain(of_empty) {
            // Many upstreams leave it out on the last page, and a list that `max_pages` cut never shows one.
            // A list of one page that is shorter than those that led on can lack it too.
            let least = self.known.least.filter(|_| !self.shown.led_on);
            let is_short = least.is_some_and(|least| page.listed < least);
            let can_lack = NEXT.contains(&key) && (!self.known.names_end || is_short);
            let known = self.known.places.get(key).or(self.shown.places.get(key));
            if !can_lack && known == Some(&true) {
                let text = format!(
                    "{name}: responses lack the value of `page.{key}`, which every earlier response had; the upstream may have \
                    renamed it"
                );
                said.add(self.find(Doubt::PlaceMissing, text));
            }
        }
        for (key, (pages, instead)) in &self.lacking {
            if let Some(instead) = instead.as_ref().filter(|_| *pages >= self.with_records) {
                let text = format!(
                    "{name}: no response has true or false at the place of `page.{key}`; {instead} looks like it"
                );
                said.add(self.find(Doubt::PlaceMissing, text));
            }
        }
        if let Some(text) = self.renamed_next(page) {
            said.add(self.find(Doubt::PlaceMissing, text));
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
        // A list of what is new is shorter by nature, and one that led on has the place.
        let has_length = self.last_pages < u64::MAX && !self.names_since() && !self.shown.led_on;
        let is_shorter = has_length && self.is_shorter() && *key != "next";
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
    fn check_total(&self, page: &Page, turn: Turn<'_>, said: &mut Said) {
        let is_whole = self.fetched == turn.before.saturating_add(1);
        let paging = &self.call.paging;
        let is_of_page = page.total == Some(page.listed) && page.size == page.total;
        // No request is worth this suspicion: a whole list can have exactly one page.
        if let Some(at) = paging.total.as_ref().filter(|_| is_of_page && is_whole)
            && turn.before == 0
            && !self.known.led_on
        {
            said.note(self.text(&format!(
                "the list ends with its first page, which is full, and `{at}` (`page.total`) reports as many records: if that is their \
                number in the page, the rest of the list is lost"
            )));
        }
        let unread = page.unread.total.as_ref();
        let unread = unread.filter(|_| paging.counts_itself() && is_whole);
        let reached = match page.before {
            Some(before) => before.saturating_add(page.listed),
            None if is_whole => self.listed,
            None => return,
        };
        // What leads on by itself can have fewer records than its last page reports, if others came while it was read.
        let is_compared = paging.counts_itself() || (is_whole && self.fetched == 1);
        let read = paging.total.as_ref().zip(page.total);
        let read = read.filter(|_| is_compared);
        let (at, total) = match (read, unread) {
            (Some((at, total)), None) => (format!("`{at}`"), total),
            (Some((at, total)), Some((_, unread))) if total >= *unread => {
                (format!("`{at}`"), total)
            }
            (_, Some((at, total))) => (at.clone(), *total),
            (None, None) => return,
        };
        let has_doubt = |doubt: &Doubted| doubt.doubt == Doubt::FewerThanTotal.name();
        // What a list of a few records less means is judged of the list as a whole.
        if total <= reached || is_small(total, reached) || said.doubts.iter().any(has_doubt) {
            return;
        }
        let text = self.text(&format!(
            "the list ended after {reached} records, and the response has {total} at {at}: if that is the number of all records, check \
            `page.first`, `page.size` and `page.size_param`"
        ));
        said.add(self.find(Doubt::FewerThanTotal, text));
    }

    /// Notes that the pages have fewer records than were requested.
    fn note_caps(&self, page: &Page, said: &mut Said) {
        let param = self.call.paging.size_param.as_deref();
        let (Some(param), Some(size)) = (param, page.size) else {
            return;
        };
        let known = self
            .known
            .full
            .filter(|(requested, full)| *requested == size && *full < size);
        let alike = self.sizes.first().filter(|_| self.sizes.len() == 1);
        let alike = alike.filter(|records| **records < size && self.led > 1);
        let cap = match self.reading {
            Reading::Capped(cap) => Some(cap),
            Reading::Pages | Reading::Asked(_) => None,
        };
        let seen = cap.or(known.map(|(_, full)| full)).or(alike.copied());
        if let Some(seen) = seen {
            said.note(format!(
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
}

/// Whether each requested id came. A single one can have a list of children, so its record must be there.
fn all_came(page: &Page, ids: &[String]) -> bool {
    match ids {
        [id] => page.records.iter().any(|record| record.id == *id),
        ids => page.listed > 0 && page.listed == ids.len() as u64,
    }
}

/// Whether a page lacks only a few records of a full one.
const fn is_nearly(listed: u64, full: u64) -> bool {
    listed < full && listed.saturating_mul(10) >= full.saturating_mul(9)
}

/// The fewest records that a page which an upstream caps has, in practice.
pub(super) const FEWEST: u64 = 10;

/// The fewest ids that came, and that did not, where that is no accident.
const FEWEST_IDS: usize = 5;

/// The fewest ids that did not come where it is no accident that one came, and that it is the first.
const MANY_IDS: usize = 20;

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
