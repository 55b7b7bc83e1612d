//! Signs of a mistake in the configuration that show in the pages of a pass: values that no page of a call contained, and ids
//! whose record differs between regions, of which only one is kept.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use ingest_base::record::Record;
use ingest_config::{Ids, Job, Pointer, Region, Step};
use ingest_upstream::{Missing, MissingFrom, Page, ReportedCost, missing};
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
    /// Pages with as many records as a page can have.
    full: u64,
    /// What pages did not contain, and how many, by what it is without an example.
    lacking: BTreeMap<String, (Missing, u64)>,
    /// Records left out because an earlier one of their page has the same id, and another body.
    differing: u64,
    regions: BetweenRegions,
}

/// Ids that another region of the run returned too, or in a step of ids another request for one id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct BetweenRegions {
    /// Whether the records belong to requests for one id each.
    of_ids: bool,
    shared: u64,
    differing: u64,
    /// The first id with another body, and its regions.
    example: Option<(String, Arc<str>, Arc<str>)>,
}

impl Findings {
    /// Adds a page of a step, and the report that came with it.
    pub fn add_page(&mut self, step: &Step, page: &Page, reported: &ReportedCost) {
        let found = self.0.entry(step.call.name.clone()).or_default();
        found.pages += 1;
        found.unchanged += u64::from(page.unchanged);
        found.full += u64::from(page.listed >= step.call.paging.page_size());
        found.with_records += u64::from(!page.records.is_empty());
        found.differing += page.differing;
        for one in missing(&step.call, page, reported) {
            match one.from {
                MissingFrom::NoneOfAList => {}
                MissingFrom::AllReports if page.unchanged => {}
                MissingFrom::AnyPage
                | MissingFrom::AllWithRecords
                | MissingFrom::AllFull
                | MissingFrom::AllReports => found.lack(one, 1),
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
                found.lack(missing, 1);
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
            found.full += more.full;
            found.differing += more.differing;
            for (one, pages) in more.lacking.values() {
                found.lack(one.clone(), *pages);
            }
            found.regions.of_ids |= more.regions.of_ids;
            found.regions.shared += more.regions.shared;
            found.regions.differing += more.regions.differing;
            let example = more.regions.example.clone();
            found.regions.example = found.regions.example.take().or(example);
        }
    }

    /// Returns the notes for the summary. Of a `resumed` pass it returns no missing values: pages of an earlier run can contain
    /// them.
    pub fn notes(&self, resumed: bool) -> impl Iterator<Item = String> {
        self.0.iter().flat_map(move |(call, found)| {
            let absent = found.absent().filter(move |_| !resumed);
            let differing = Missing::distinct_ids(found.differing).text;
            let differing = Some(differing).filter(|_| found.differing > 0);
            let texts = absent.cloned().chain(differing);
            let texts = texts.map(move |text| format!("{call}: {text}"));
            texts.chain(found.regions.note(call))
        })
    }
}

impl OfCall {
    fn lack(&mut self, one: Missing, pages: u64) {
        let known = self.lacking.entry(one.what.clone());
        known.or_insert((one, 0)).1 += pages;
    }

    /// Returns what no page contained.
    fn absent(&self) -> impl Iterator<Item = &String> {
        let in_all = self.lacking.values().filter(|(one, pages)| match one.from {
            MissingFrom::AnyPage => true,
            MissingFrom::AllWithRecords => *pages == self.with_records,
            MissingFrom::AllFull => *pages >= self.full,
            MissingFrom::AllReports => *pages == self.pages - self.unchanged,
            MissingFrom::NoneOfAList => false,
        });
        in_all.map(|(one, _)| &one.text)
    }
}

impl BetweenRegions {
    /// Returns a note if at least half of the shared ids differ: a count that changes between two requests is no mistake.
    fn note(&self, call: &str) -> Option<String> {
        let (id, first, second) = self.example.as_ref()?;
        let (differing, shared) = (self.differing, self.shared);
        let (two, of, remedy) = match self.of_ids {
            true => (
                "requests for two ids",
                "of",
                "if a record belongs to the requested id, add \"{id}\" to records.id",
            ),
            false => (
                "two regions",
                "in",
                "if the region makes the difference, add it to records.id",
            ),
        };
        (differing.saturating_mul(2) >= shared).then(|| {
            format!(
                "{call}: {differing} of {shared} ids that {two} returned have different records, such as `{id}` {of} {first} and \
                {second}; only the last one is kept: {remedy}"
            )
        })
    }
}

/// The records of a run that are compared between regions: by the hash of call and id.
#[derive(Debug, Default)]
pub struct RegionalRecords(Mutex<BTreeMap<u64, SeenRecord>>);

/// A record as it was returned first.
#[derive(Debug)]
struct SeenRecord {
    /// The region, or the requested id.
    origin: Arc<str>,
    /// The hash of its body.
    body: u64,
}

impl RegionalRecords {
    /// Compares the records of a page with those that other regions returned; in a step that requests `ids` one by one, with those
    /// of the other ids. A batch of several ids belongs to no region.
    pub fn compare(
        &self,
        (job, step, region): (&Job, &Step, &Region),
        ids: &[String],
        records: &[Record],
        findings: &mut Findings,
    ) {
        let origin: Arc<str> = match ids {
            [] if *region.code != *Region::SHARED => Arc::from(&*region.code),
            [id] => Arc::from(id.as_str()),
            _ => return,
        };
        let (upstream, call) = (&job.credential.upstream.name, &step.call.name);
        let found = &mut findings.0.entry(call.clone()).or_default().regions;
        found.of_ids |= !ids.is_empty();
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
                    free.insert(SeenRecord { origin, body });
                    if is_full {
                        all.pop_last();
                    }
                }
                // A later page of the region can have the record once more, as it is now.
                Entry::Occupied(mut first) if first.get().origin == origin => {
                    first.get_mut().body = body;
                }
                Entry::Occupied(first) => {
                    found.shared += 1;
                    if first.get().body != body {
                        found.differing += 1;
                        let regions = (Arc::clone(&first.get().origin), Arc::clone(&origin));
                        let example = || (record.id.clone(), regions.0, regions.1);
                        found.example.get_or_insert_with(example);
                    }
                }
            }
        }
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
        let text = format!(
            "no record has an id at `{}` (`ids.at`) for a later step, which so requests nothing",
            ids.at.at()
        );
        return Some(Missing::new(MissingFrom::AllWithRecords, text));
    }
    let is_lacking = |at: &&Pointer| !naming.iter().all(|record| has(record, at));
    let at = ids.at.parent().iter().find(is_lacking)?;
    let text = format!(
        "records that name an id have no value at `{at}` (`{{parent:{at}}}`), so nothing is requested for them"
    );
    Some(Missing::new(MissingFrom::AnyPage, text))
}
