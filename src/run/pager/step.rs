//! A list that is a step of a region's pass.

use super::{List, Of};
use crate::review::{Onward, Verdict, nothing_since_first};
use crate::run::stop_reason::StopReason;
use ingest_base::record::Doubted;
use ingest_catalog::{AtKnown, Landing, PassId};
use ingest_config::{Job, Lasting, Step, Variable};
use ingest_upstream::Page;

const ENDS_EARLY: &str = "the list ended before any record that earlier passes knew; this pass marks no record as gone, and the \
                          next one reads on to what the passes before this one knew (`--relist` reads everything)";

/// A step of a region's pass.
#[derive(Clone, Copy)]
pub struct StepOfPass {
    /// Whether the pass has doubts about its lists.
    pub is_doubtful: bool,
    /// Whether the list can end at what is known.
    pub at_known: AtKnown,
    /// Whether a complete pass read it to its end, and found records.
    pub had_records: bool,
    /// Whether the next list has to begin where this one did.
    pub is_cut: bool,
}

impl List<'_> {
    /// Lands a page of a step. `lacks_some`: some of its records have no id, are not stored, or perhaps did not arrive.
    pub(super) async fn land_in_step(
        &mut self,
        of: StepOfPass,
        mut page: Page,
        verdict: Verdict,
        lacks_some: bool,
    ) -> Result<(), StopReason> {
        let is_doubtful = self.said.is_doubtful() || of.is_doubtful;
        if is_doubtful {
            // What speaks against the list is not shown again for a page that did not change.
            page.tag = None;
        }
        if self.context.compared_records.is_some() {
            let (call, records) = (&self.step.call.name, &page.records);
            self.stats.findings.see_ids(self.job, call, records);
        }
        let onward = verdict.onward;
        let (is_proved, is_cut) = (onward.is_proved(), onward == Onward::Cut);
        // Perhaps the list has more than was landed.
        let is_unproved = onward == (Onward::End { is_proved: false });
        let is_partial = lacks_some || is_cut || is_unproved || verdict.has_no_list;
        // One that could not be read completely shows nothing, and a record that was removed changed.
        let is_whole = !is_partial && page.removed.is_empty();
        let at_known = match of.at_known {
            AtKnown::Stop if !is_whole => AtKnown::ReadOn,
            at_known => at_known,
        };
        // An upstream that has one cursor for the whole list ends it with an empty page.
        let is_empty = page.is_empty();
        let if_repeats = verdict.if_repeats.doubts.first().filter(|_| !is_empty);
        let mut list = self.at.list.clone();
        list.is_partial |= is_partial;
        list.is_ended = is_proved;
        self.review.add_to(&mut list, &page);
        self.said.notes.iter().for_each(|note| list.note(note));
        // Records of which the catalog lists each that is new.
        let has_all = page.removed.is_empty() && page.skipped == 0 && !page.unchanged;
        let is_listed = self.step.call.records.is_some() && has_all;
        let lasting = self.begins_next(&mut page, is_cut);
        let next = onward.into_cursor();
        let pass = self.pass.lock().await;
        let landing = Landing {
            next: next.clone(),
            at_known,
            cut: is_cut && self.job.names(self.step, &Variable::Since),
            list: list.clone(),
            greatest: self.start.greatest.stored(self.job),
            empty_pages: self.empty_pages(is_empty),
            // The next pass would begin behind the records that a doubtful list has perhaps missed, and no pass would find them.
            // A slice is listed once, and again by `--relist` only, which begins at no cursor.
            lasting: lasting.filter(|_| !is_doubtful && self.region.slice.is_none()),
            if_repeats: if_repeats.cloned(),
            doubts: verdict.said.doubts,
            ..self.landing(&mut page, &pass)
        };
        let landed = self.commit(pass, landing, page.skipped).await?;
        if landed.cursor_repeats && !is_empty {
            self.said.add(verdict.if_repeats);
        }
        let is_old = is_listed && landed.listed == list.listed;
        list.barren = match is_old && list.unlisted == self.at.list.unlisted {
            true => list.barren.saturating_add(1),
            false => 0,
        };
        list.listed = landed.listed;
        list.is_known = landed.is_known;
        list.is_partial |= landed.is_known;
        self.at.list = list;
        // A cursor that the pass has followed before leads in a circle, of which every page would be paid for again.
        let is_over = landed.cursor_repeats || landed.is_known;
        self.advance(next.filter(|_| !is_over), is_empty);
        Ok(())
    }

    /// The cursor with which the next pass begins: that of the last page, or the former one where `max_pages` cut the list. A page
    /// that only seems to be the last has it too, and those behind it replace it.
    fn begins_next(&self, page: &mut Page, is_cut: bool) -> Option<String> {
        let is_last = self.step.call.paging.lasting == Some(Lasting::Last);
        let own = page.lasting.take();
        match is_cut {
            true if is_last => page.next.take().or(own),
            true => self.start.lasting.clone(),
            false => own,
        }
    }

    /// Stores the end of a step.
    pub(super) async fn store_end(
        &mut self,
        cut: bool,
        doubts: &[Doubted],
    ) -> Result<(), StopReason> {
        let notes = self.said.notes.iter();
        notes.for_each(|note| self.at.list.note(note));
        let mut pass = self.pass.lock().await;
        if pass.id.is_some() {
            let (catalog, step) = (&self.context.catalog, (self.at.step, cut));
            let end = catalog.end_step(&mut pass, step, &self.at.list, doubts);
            end.await?;
        }
        Ok(())
    }

    /// Makes the pass forget where the step stood.
    ///
    /// # Errors
    /// It did so before: the cursor would expire at every run.
    pub(super) async fn restart_step(&self, why: &str) -> Result<(), StopReason> {
        let mut pass = self.pass.lock().await;
        if pass.id.is_none() {
            return Err(StopReason::Failed(why.to_owned()));
        }
        let (catalog, now) = (&self.context.catalog, self.context.clock.now());
        if catalog.restart_step(&mut pass, self.at.step, now).await? {
            return Ok(());
        }
        // A failed pass would request the expired cursor again at every run. A refused one ends, and the next pass begins when it is
        // due.
        Err(StopReason::Unserved(format!(
            "{why}; the step was already restarted once"
        )))
    }

    /// Judges a step's list by what all its pages showed, those of earlier runs included, once its end is proved or it reached what
    /// is known.
    pub async fn judge(&mut self) -> Result<(), StopReason> {
        let list = &self.at.list;
        if !(list.is_ended || list.is_known) || self.said.is_doubtful() {
            return Ok(());
        }
        let begins_at_cursor = self.start.lasting.is_some();
        let marks_gone = list.is_ended && marks_gone(self.job, self.step, begins_at_cursor);
        let mut judged = self.review.judge(list, marks_gone);
        let pass = self.pass.lock().await.id;
        if list.is_ended && self.passed_what_is_known(pass).await? {
            (judged.is_partial, judged.is_cut) = (true, true);
            judged.said.note(ENDS_EARLY);
        }
        self.said.add(judged.said.clone());
        if let Of::Step(of) = &mut self.of {
            of.is_cut |= judged.is_cut;
        }
        if judged.is_partial && pass.is_some() {
            self.at.list.is_partial = true;
            self.store_end(judged.is_cut, &judged.said.doubts).await?;
        }
        Ok(())
    }

    /// Whether a list that can stop at what is known ended, and nothing of it was: the records that are known are behind an end that
    /// cannot be right, or are all gone, which a pass that reads everything shows.
    async fn passed_what_is_known(&self, pass: Option<PassId>) -> Result<bool, StopReason> {
        match (&self.of, pass) {
            (Of::Step(of), Some(pass)) if of.at_known == AtKnown::Stop && of.had_records => {
                let catalog = &self.context.catalog;
                let meets = catalog.meets_known(pass, self.at.step, self.request());
                Ok(!meets.await?)
            }
            _ => Ok(false),
        }
    }

    /// Notes that a list has no record at all that begins at a configured `{since}`, or before the newest record that was seen.
    pub fn note_nothing_found(&mut self) {
        let is_empty = self.stats.records == 0 && self.stats.skipped == 0;
        let names_since = self.job.names(self.step, &Variable::Since);
        if !is_empty || self.said.is_doubtful() || !names_since {
            return;
        }
        let (call, since) = (&self.step.call.name, &self.start.since);
        let has_seen_one = since.as_ref().is_some_and(|since| since.text().is_some());
        if since.is_some() && *since == self.job.since.first {
            self.said.note(nothing_since_first(call));
        } else if has_seen_one && self.step.shifts_since() {
            self.said.note(format!(
                "{call}: no record, although {{since}} begins before the newest record that was seen; check the parameter that \
                carries it, and its format, such as {{since:%s}} for seconds"
            ));
        }
    }
}

/// Whether records that a whole list lacks are gone. A list for a time, such as `{since}` or `{date}`, lists something else in every
/// pass. One whose passes begin at cursors names everything where it begins without one; where nothing says that a record was
/// removed, it can be a feed that keeps the last events only.
#[must_use]
pub fn marks_gone(job: &Job, step: &Step, begins_at_cursor: bool) -> bool {
    let call = &step.call;
    let begins_anew = !begins_at_cursor && call.paging.lasting.is_some();
    let names_everything = !call.names_changes() || (begins_anew && call.names_removed());
    job.time_of(step).is_none() && names_everything
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use ingest_config::Config;

    #[test]
    fn a_list_of_a_time_loses_no_record_and_one_of_changes_only_what_it_names() {
        let gone = |more: &str, params: &str, begins_at_cursor| {
            let text = format!(
                "regions = [\"US\"]\n[upstreams.a]\nbase_url = \"https://a.example.com\"\n[upstreams.a.calls.list]\npath = \"list\"\n\
                 cost = 1\nrecords = {{ at = \"/rows\", kind = \"row\", id = \"/id\"{more} }}\n\
                 page = {{ kind = \"token\", param = \"token\", next = \"/next\", lasting = \"/sync\" }}\n\
                 [credentials.a]\nupstream = \"a\"\nlimits = {{ daily = {{ quota = 100, window = \"24h\" }} }}\n\
                 [jobs.a]\ncredential = \"a\"\nsteps = [{{ call = \"list\"{params} }}]\n"
            );
            let config = Config::parse(&text, Path::new("quotas.toml"), &[]).unwrap();
            let job = &config.jobs[0];
            marks_gone(job, &job.steps[0], begins_at_cursor)
        };
        let removed = ", removed = { at = \"/status\", is = \"cancelled\" }";
        assert!(gone(removed, "", false));
        assert!(!gone(removed, "", true), "it names changes alone");
        assert!(!gone("", "", false), "it can keep the last events only");
        let since = ", params = { since = \"{since}\" }";
        assert!(!gone(removed, since, false), "it is of a time");
    }
}
