//! Signs of a mistake in the configuration that show in the pages of a pass: values that no page of a call contained, and ids
//! whose record differs between regions.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use ingest_base::record::Record;
use ingest_config::{Ids, Job, Pointer, Region, Step};
use ingest_upstream::{Missing, Page, ReportedCost, missing};
use parking_lot::Mutex;

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
    /// Records that were compared with those of other pages and regions.
    landed: u64,
    regions: BetweenRegions,
    /// Records that came again in one walk of a list with another body, and the id of the first one.
    rewritten: u64,
    first_rewritten: Option<String>,
}

/// Ids that another region of the run returned too, or in a step of ids another request for one id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct BetweenRegions {
    /// Whether the records belong to requests for one id each.
    of_ids: bool,
    shared: u64,
    differing: u64,
    /// Ids whose record is the same, and the regions that returned them first.
    same: u64,
    same_as: BTreeSet<Arc<str>>,
    /// The first id with another body, and its regions.
    example: Option<(String, Arc<str>, Arc<str>)>,
}

impl Findings {
    /// Adds a page of a step, and the report that came with it.
    pub fn add_page(&mut self, step: &Step, page: &Page, reported: &ReportedCost) {
        let found = self.0.entry(step.call.name.clone()).or_default();
        found.pages += 1;
        found.unchanged += u64::from(page.unchanged);
        found.listed += page.listed;
        found.full += u64::from(page.listed >= step.call.paging.page_size());
        found.with_records += u64::from(!page.records.is_empty());
        for one in missing(&step.call, page, reported) {
            let is_expected = match &one {
                // The review of the list says what they mean.
                Missing::Next { .. } | Missing::Rest { .. } | Missing::UnreadNext { .. } => true,
                Missing::Reported { .. } | Missing::Reset { .. } | Missing::Settle { .. } => {
                    page.unchanged
                }
                // The last page says that it is the last one, others need not say anything.
                Missing::Paging { key: "done", .. } => page.next.is_some(),
                Missing::Paging { .. } | Missing::Size { .. } | Missing::NoObject { .. } => false,
                // They are found when the records are landed.
                Missing::Ids { .. } | Missing::Parent { .. } | Missing::Since { .. } => false,
                Missing::Column { .. }
                | Missing::NoMembers { .. }
                | Missing::ColumnType { .. }
                | Missing::Text { .. } => false,
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
            if let Some(missing) = missing_of(ids, records)
                && let Some(found) = self.0.get_mut(call)
            {
                *found.lacking.entry(missing).or_default() += 1;
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
            found.rewritten += more.rewritten;
            let first = more.first_rewritten.clone();
            found.first_rewritten = found.first_rewritten.take().or(first);
            found.regions.of_ids |= more.regions.of_ids;
            found.regions.same += more.regions.same;
            found.regions.shared += more.regions.shared;
            found.regions.differing += more.regions.differing;
            let same_as = more.regions.same_as.iter().cloned();
            found.regions.same_as.extend(same_as);
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
            let repeated = (found.repeated > 0).then(|| format!("{call}: {repeated}"));
            let regions = found
                .regions
                .note(call)
                .or(found.regions.note_same(call, found.landed));
            let rewritten = found.note_rewritten(call);
            absent.chain(repeated).chain(regions).chain(rewritten)
        })
    }
}

impl OfCall {
    /// Returns a note if many records came again with another body: a record that is updated during the walk is no mistake.
    fn note_rewritten(&self, call: &str) -> Option<String> {
        const FEW: u64 = 3;
        let id = self.first_rewritten.as_ref()?;
        let is_often = self.rewritten >= FEW && self.rewritten.saturating_mul(5) >= self.landed;
        is_often.then(|| {
            format!(
                "{call}: {} of {} records came again in the same list with another body, such as `{id}`; only the last body is \
                kept: if each page has another part of a record, request all parts in one page, or in calls of their own",
                self.rewritten, self.landed
            )
        })
    }

    /// Returns what no page contained.
    fn absent(&self) -> impl Iterator<Item = &Missing> {
        let lacking = self.lacking.iter();
        let in_all = lacking.filter(|(missing, pages)| match missing {
            Missing::Column { .. }
            | Missing::NoMembers { .. }
            | Missing::ColumnType { .. }
            | Missing::Text { .. } => **pages == self.with_records,
            Missing::Reported { .. } | Missing::Reset { .. } | Missing::Settle { .. } => {
                **pages == self.pages - self.unchanged
            }
            Missing::Paging { key: "done", .. } => true,
            // A page that is not full may be the last one, and lack it rightly.
            Missing::Paging { .. } => **pages >= self.full,
            Missing::Ids { .. } | Missing::Since { .. } => **pages == self.with_records,
            Missing::UnreadNext { .. }
            | Missing::Rest { .. }
            | Missing::Size { .. }
            | Missing::Parent { .. }
            | Missing::NoObject { .. } => true,
            Missing::Next { .. }
            | Missing::List { .. }
            | Missing::Id { .. }
            | Missing::DistinctId { .. } => **pages == self.pages,
        });
        in_all.map(|(missing, _)| missing)
    }
}

impl BetweenRegions {
    /// Adds a record that two regions returned.
    fn add(&mut self, id: &str, is_same: bool, (first, second): (Arc<str>, Arc<str>)) {
        self.shared += 1;
        if is_same {
            self.same += 1;
            self.same_as.insert(first);
        } else {
            self.differing += 1;
            self.example
                .get_or_insert_with(|| (id.to_owned(), first, second));
        }
    }

    /// Returns a note if at least half of the shared ids differ: a count that changes between two requests is no mistake.
    fn note(&self, call: &str) -> Option<String> {
        let (id, first, second) = self.example.as_ref()?;
        let is_mistake = self.differing.saturating_mul(2) >= self.shared;
        is_mistake.then(|| {
            let (differing, shared) = (self.differing, self.shared);
            if self.of_ids {
                return format!(
                    "{call}: {differing} of {shared} ids that requests for two ids returned have different records, such as \
                    `{id}` of {first} and {second}; only the last one is kept: if a record belongs to the requested id, add \
                    \"{{id}}\" to records.id"
                );
            }
            format!(
                "{call}: {differing} of {shared} ids that two regions returned have different records, such as `{id}` in \
                {first} and {second}; only the last one is kept: if the region makes the difference, add it to records.id"
            )
        })
    }
}

/// The records of a run that are compared between the pages of a list, and between regions: by the hash of call and id.
#[derive(Debug, Default)]
pub struct RegionalRecords(Mutex<BTreeMap<u64, SeenRecord>>);

/// A record as it was returned first.
#[derive(Debug)]
struct SeenRecord {
    /// The region, or the requested id.
    origin: Arc<str>,
    /// The hash of the list.
    list: u64,
    /// The hash of its body.
    body: u64,
}

/// The list to which a page belongs.
#[derive(Debug, Clone, Copy)]
pub struct ListRef<'a> {
    pub job: &'a Job,
    pub step: &'a Step,
    pub region: &'a Region,
    pub request: &'a str,
    /// The ids that it requests; none in a step that lists.
    pub ids: &'a [String],
}

impl ListRef<'_> {
    /// Returns what its records are compared by: its region, or the only id that it requests. `None` for a batch of several ids,
    /// which belongs to no region.
    fn origin(&self) -> Option<Arc<str>> {
        match self.ids {
            [] => Some(&*self.region.code).filter(|code| *code != Region::SHARED),
            [id] => Some(id.as_str()),
            _ => None,
        }
        .map(Arc::from)
    }
}

impl RegionalRecords {
    /// Compares the records of a page with those of earlier pages, and with those that other regions returned; in a step that
    /// requests ids one by one, with those of the other ids.
    pub fn compare(&self, list: ListRef<'_>, records: &[Record], findings: &mut Findings) {
        let ListRef {
            job, step, region, ..
        } = list;
        let Some(origin) = list.origin() else { return };
        let of_ids = !list.ids.is_empty();
        let list = hash(&(&job.name, region.key(), list.request, list.ids));
        let (upstream, call) = (&job.credential.upstream.name, &step.call.name);
        let of_call = findings.0.entry(call.clone()).or_default();
        of_call.regions.of_ids |= of_ids;
        of_call.landed += u64::try_from(records.len()).unwrap_or(u64::MAX);
        let mut all = self.0.lock();
        for record in records {
            let key = hash(&(upstream, call, &record.id));
            let is_full = all.len() >= COMPARED;
            if is_full && all.last_key_value().is_some_and(|(last, _)| key > *last) {
                continue;
            }
            let body = hash(&record.body);
            match all.entry(key) {
                Entry::Vacant(free) => {
                    let origin = Arc::clone(&origin);
                    free.insert(SeenRecord { origin, list, body });
                    if is_full {
                        all.pop_last();
                    }
                }
                Entry::Occupied(mut first) if first.get().list == list => {
                    if first.get().body != body {
                        of_call.rewritten += 1;
                        let id = &mut of_call.first_rewritten;
                        id.get_or_insert_with(|| record.id.clone());
                    }
                    first.get_mut().body = body;
                }
                Entry::Occupied(first) if first.get().origin != origin => {
                    let is_same = first.get().body == body;
                    let regions = (Arc::clone(&first.get().origin), Arc::clone(&origin));
                    of_call.regions.add(&record.id, is_same, regions);
                }
                Entry::Occupied(_) => {}
            }
        }
    }
}

impl BetweenRegions {
    /// Returns a note if the records of a region are those of other ones.
    ///
    /// Of regions that walk the same list at the same time, each may be the first that returns a part of it. One of two has half
    /// of its records from the other one, one of three two thirds from the others. Charts of neighbours share as much by chance,
    /// but with several of them, and not nine tenths.
    fn note_same(&self, call: &str, landed: u64) -> Option<String> {
        const FEW: u64 = 3;
        // Several parents often have the same child.
        let first = self.same_as.first().filter(|_| !self.of_ids)?;
        let others = u64::try_from(self.same_as.len()).unwrap_or(u64::MAX).min(9);
        let is_mistake = self.same.saturating_mul(others + 1) >= landed.saturating_mul(others);
        (self.same >= FEW && is_mistake).then(|| {
            format!(
                "{call}: {} of {landed} records are the same as those of {first}{}: if the region should make a difference, check \
                that a parameter or the path contains it, and the parameter's name",
                self.same,
                if others > 1 { " and other regions" } else { "" }
            )
        })
    }
}

fn hash(value: &impl Hash) -> u64 {
    // Compared within one run alone, so it need not be the hash of another build.
    foldhash::fast::FixedState::default().hash_one(value)
}

/// What these records of a page lack of what a later step requests.
pub fn missing_of(ids: &Ids, records: &[Record]) -> Option<Missing> {
    let has = |record: &&Record, at: &Pointer| at.has_text_in(&record.body);
    let naming: Vec<&Record> = records.iter().filter(|one| has(one, ids.at.at())).collect();
    if naming.is_empty() {
        let at = ids.at.at().to_string();
        return Some(Missing::Ids { at });
    }
    let is_lacking = |at: &&Pointer| !naming.iter().all(|record| has(record, at));
    let lacking = ids.at.parent().iter().find(is_lacking);
    lacking.map(|at| Missing::Parent { at: at.to_string() })
}
