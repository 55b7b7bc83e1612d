//! Signs of a mistake in the configuration that show in the pages of a pass: values that no page of a call contained, and ids
//! whose record differs between regions.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use crate::config::{Credential, Job, Region, Step};
use crate::record::Record;
use crate::upstream::{Missing, Page, ReportedCost, missing};

/// The most ids of a run that are compared between regions, which bounds the memory. Of more ids, those with the smallest
/// hashes are compared: a mistake in the configuration shows in any of them.
const COMPARED: usize = 65_536;

/// The findings of a pass, by call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings(BTreeMap<String, OfCall>);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct OfCall {
    pages: u64,
    /// Pages whose response was "not modified", which reports no cost.
    unchanged: u64,
    with_records: u64,
    /// How many pages did not contain something.
    lacking: BTreeMap<Missing, u64>,
    /// Pages with as many records as a page can have.
    full: u64,
    /// Records of all pages, and those left out because an earlier one of their page has the same id.
    listed: u64,
    repeated: u64,
    /// Records that were compared with those of other regions.
    landed: u64,
    regions: BetweenRegions,
}

/// Ids that another region of the run returned too.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct BetweenRegions {
    shared: u64,
    differing: u64,
    /// Ids whose record is the same, and one of the regions that has them.
    same: u64,
    same_as: Option<Arc<str>>,
    /// The first id with another body, and its regions.
    example: Option<(String, Arc<str>, Arc<str>)>,
}

impl Findings {
    /// Adds a page of a step, requested for `ids` ids (0 in a step that lists), and the report that came with it.
    pub fn add_page(
        &mut self,
        credential: &Credential,
        (step, ids): (&Step, usize),
        page: &Page,
        reported: &ReportedCost,
    ) {
        let found = self.0.entry(step.call.name.clone()).or_default();
        found.pages += 1;
        found.unchanged += u64::from(page.unchanged);
        found.listed += page.listed;
        found.full += u64::from(page.listed >= step.call.paging.page_size());
        found.with_records += u64::from(!page.records.is_empty());
        for one in missing(&step.call, &credential.limits, page, reported) {
            let is_expected = match &one {
                // One page is all that was wanted, or each id has its record.
                Missing::Next { records, .. } | Missing::Rest { records, .. } => {
                    step.max_pages == Some(1) || *records <= ids as u64
                }
                Missing::UnreadNext { .. } => {
                    step.max_pages == Some(1) || page.listed <= ids as u64
                }
                Missing::Reported { .. } | Missing::Settle { .. } => page.unchanged,
                // The last page says that it is the last one, others need not say anything.
                Missing::Paging { key: "done", .. } => page.next.is_some(),
                Missing::Paging { .. } | Missing::Size { .. } | Missing::Ids { .. } => false,
                Missing::Column { .. } | Missing::ColumnType { .. } | Missing::Text { .. } => false,
                // The pager and the count of skipped records report these.
                Missing::List { .. } | Missing::Id { .. } => true,
                Missing::DistinctId { records } => {
                    found.repeated += *records;
                    true
                }
            };
            if !is_expected {
                *found.lacking.entry(one).or_default() += 1;
            }
        }
    }

    /// Adds whether the records of a landed page have the ids that later steps of the job request.
    pub fn see_ids(&mut self, job: &Job, call: &str, records: &[Record]) {
        let all_ids = job.steps.iter().filter_map(|step| step.ids.as_ref());
        for ids in all_ids.filter(|ids| ids.from == call && !records.is_empty()) {
            let has_one = records
                .iter()
                .any(|record| ids.at.has_text_in(&record.body));
            if !has_one && let Some(found) = self.0.get_mut(call) {
                let at = ids.at.to_string();
                *found.lacking.entry(Missing::Ids { at }).or_default() += 1;
            }
        }
    }

    /// Adds the findings of other pages.
    pub fn add(&mut self, other: &Self) {
        for (call, more) in &other.0 {
            let found = self.0.entry(call.clone()).or_default();
            found.pages += more.pages;
            found.unchanged += more.unchanged;
            found.with_records += more.with_records;
            for (one, pages) in &more.lacking {
                *found.lacking.entry(one.clone()).or_default() += pages;
            }
            found.listed += more.listed;
            found.full += more.full;
            found.repeated += more.repeated;
            found.landed += more.landed;
            found.regions.same += more.regions.same;
            found.regions.shared += more.regions.shared;
            found.regions.differing += more.regions.differing;
            let same_as = more.regions.same_as.clone();
            found.regions.same_as = found.regions.same_as.take().or(same_as);
            let example = more.regions.example.clone();
            found.regions.example = found.regions.example.take().or(example);
        }
    }

    /// Returns the notes for the summary. Of a `resumed` pass it returns no missing values: pages of an earlier run can contain
    /// them.
    pub fn notes(&self, resumed: bool) -> impl Iterator<Item = String> {
        self.0.iter().flat_map(move |(call, found)| {
            let absent = found.absent().filter(move |_| !resumed);
            let absent = absent.map(move |missing| format!("{call}: {missing}"));
            let repeated = Missing::DistinctId {
                records: found.repeated,
            };
            // An upstream may return a record twice; a wrong id repeats often.
            let is_often = found.repeated > 1 && found.repeated.saturating_mul(5) >= found.listed;
            let repeated = is_often.then(|| format!("{call}: {repeated}"));
            let regions = found
                .regions
                .note(call)
                .or(found.regions.note_same(call, found.landed));
            absent.chain(repeated).chain(regions)
        })
    }
}

impl OfCall {
    /// Returns what no page contained.
    fn absent(&self) -> impl Iterator<Item = &Missing> {
        let lacking = self.lacking.iter();
        let in_all = lacking.filter(|(missing, pages)| match missing {
            Missing::Column { .. } | Missing::ColumnType { .. } | Missing::Text { .. } => {
                **pages == self.with_records
            }
            Missing::Reported { .. } | Missing::Settle { .. } => {
                **pages == self.pages - self.unchanged
            }
            Missing::Paging { key: "done", .. } => true,
            Missing::Paging { .. } => **pages >= self.full,
            Missing::Ids { .. } => **pages == self.with_records,
            Missing::UnreadNext { .. } | Missing::Rest { .. } | Missing::Size { .. } => true,
            Missing::Next { .. }
            | Missing::List { .. }
            | Missing::Id { .. }
            | Missing::DistinctId { .. } => **pages == self.pages,
        });
        in_all.map(|(missing, _)| missing)
    }
}

impl BetweenRegions {
    /// Returns a note if at least half of the shared ids differ: a count that changes between two requests is no mistake.
    fn note(&self, call: &str) -> Option<String> {
        let (id, first, second) = self.example.as_ref()?;
        let is_mistake = self.differing.saturating_mul(2) >= self.shared;
        is_mistake.then(|| {
            format!(
                "{call}: {} of {} ids that two regions returned have different records, such as `{id}` in {first} and \
                {second}; only the last one is kept: if the region makes the difference, add it to records.id",
                self.differing, self.shared
            )
        })
    }
}

/// The records of a run that are compared between regions: by the hash of call and id, the region that returned it first and
/// the hash of its body.
#[derive(Debug, Default)]
pub struct RegionalRecords(Mutex<BTreeMap<u64, (Arc<str>, u64)>>);

impl RegionalRecords {
    /// Compares the records of a page with those that other regions returned. Batches belong to no region.
    pub fn compare(
        &self,
        (job, step, region): (&Job, &Step, &Region),
        records: &[Record],
        findings: &mut Findings,
    ) {
        if job.regions.len() < 2 || region.code == Region::SHARED {
            return;
        }
        let region: Arc<str> = Arc::from(region.code.as_str());
        let (upstream, call) = (&job.credential.upstream.name, &step.call.name);
        let of_call = findings.0.entry(call.clone()).or_default();
        of_call.landed += u64::try_from(records.len()).unwrap_or(u64::MAX);
        let found = &mut of_call.regions;
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for record in records {
            let key = hash(&(upstream, call, &record.id));
            let is_full = all.len() >= COMPARED;
            if is_full && all.last_key_value().is_some_and(|(last, _)| key > *last) {
                continue;
            }
            let body = hash(&record.body);
            match all.entry(key) {
                Entry::Vacant(free) => {
                    free.insert((Arc::clone(&region), body));
                    if is_full {
                        all.pop_last();
                    }
                }
                Entry::Occupied(first) if first.get().0 != region => {
                    let (other, before) = first.get();
                    found.shared += 1;
                    if *before == body {
                        found.same += 1;
                        found.same_as.get_or_insert(Arc::clone(other));
                    } else {
                        found.differing += 1;
                        let example = (record.id.clone(), Arc::clone(other), Arc::clone(&region));
                        found.example.get_or_insert(example);
                    }
                }
                Entry::Occupied(_) => {}
            }
        }
    }
}

impl BetweenRegions {
    /// Returns a note if at least half of the records of a region are those of another one. Half, since the two may have walked
    /// their lists at the same time.
    fn note_same(&self, call: &str, landed: u64) -> Option<String> {
        const FEW: u64 = 3;
        let other = self.same_as.as_ref()?;
        (self.same >= FEW && self.same.saturating_mul(2) >= landed).then(|| {
            format!(
                "{call}: {} of {landed} records are the same as those of {other}: if the region should make a difference, check \
                that a parameter or the path contains it, and the parameter's name",
                self.same
            )
        })
    }
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
