//! Signs of a mistake in the configuration that show in the pages of a pass: values that no page of a call contained, and ids
//! whose record differs between regions or calls, of which only one is kept.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use ingest_base::record::Record;
use ingest_config::{Ids, Job, Pointer, Region, Step};
use ingest_upstream::{Missing, MissingFrom, Page, ReportedCost, missing};
use parking_lot::Mutex;

/// The most ids of a run that are compared, which bounds the memory. Of more ids, those with the smallest
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
    shared: BTreeMap<Between, Shared>,
}

/// Who of the run returned the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Between {
    /// Two regions of a call.
    Regions,
    /// Two requests for one id each.
    Ids,
    /// Two calls with records of one kind.
    Calls,
}

/// Ids that were returned twice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Shared {
    ids: u64,
    differing: u64,
    /// The first id with another body, and who returned it.
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
            for (between, more) in &more.shared {
                let shared = found.shared.entry(*between).or_default();
                shared.ids += more.ids;
                shared.differing += more.differing;
                shared.example = shared.example.take().or_else(|| more.example.clone());
            }
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
            let shared = found.shared.iter();
            texts.chain(shared.filter_map(move |(between, shared)| shared.note(*between, call)))
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

impl Shared {
    /// Returns a note if at least half of the shared ids differ: a count that changes between two requests is no mistake.
    fn note(&self, between: Between, call: &str) -> Option<String> {
        let (id, first, second) = self.example.as_ref()?;
        let (differing, ids) = (self.differing, self.ids);
        let (two, of, remedy) = match between {
            Between::Regions => (
                "two regions",
                "in",
                "if the region makes the difference, add it to records.id",
            ),
            Between::Ids => (
                "requests for two ids",
                "of",
                "if a record belongs to the requested id, add \"{id}\" to records.id",
            ),
            Between::Calls => (
                "two calls",
                "of",
                "give the records of each call a `kind` of their own",
            ),
        };
        (differing.saturating_mul(2) >= ids).then(|| {
            format!(
                "{call}: {differing} of {ids} ids that {two} returned have different records, such as `{id}` {of} {first} and \
                {second}; only the last one is kept: {remedy}"
            )
        })
    }
}

/// The records of a run that are compared: by the hash of kind and id.
#[derive(Debug, Default)]
pub struct ComparedRecords(Mutex<BTreeMap<u64, SeenRecord>>);

/// A record as it was returned first.
#[derive(Debug)]
struct SeenRecord {
    call: Arc<str>,
    /// The region, or the requested id; `None` of a batch of several ids.
    origin: Option<Arc<str>>,
    /// The hash of its body.
    body: u64,
}

impl SeenRecord {
    /// Who returned the same id as another record, with their names; `None` where both are of one region or request, or of a batch.
    fn between(&self, other: &Self, are_ids: bool) -> Option<(Between, Arc<str>, Arc<str>)> {
        if self.call != other.call {
            return Some((Between::Calls, self.call.clone(), other.call.clone()));
        }
        let (first, second) = self.origin.clone().zip(other.origin.clone())?;
        let between = match are_ids {
            true => Between::Ids,
            false => Between::Regions,
        };
        (first != second).then_some((between, first, second))
    }
}

impl ComparedRecords {
    /// Compares the records of a page with those that other regions and calls returned; in a step that requests `ids` one by one,
    /// with those of the other ids.
    pub fn compare(
        &self,
        (job, step, region): (&Job, &Step, &Region),
        ids: &[String],
        records: &[Record],
        findings: &mut Findings,
    ) {
        let origin: Option<Arc<str>> = match ids {
            [] if *region.code != *Region::SHARED => Some(Arc::from(&*region.code)),
            [id] => Some(Arc::from(id.as_str())),
            _ => None,
        };
        let call: Arc<str> = Arc::from(&*step.call.name);
        let of = step.call.records.as_ref().map(|records| &records.kind);
        let found = findings.0.entry(step.call.name.clone()).or_default();
        let mut all = self.0.lock();
        for record in records {
            let key = hash(&(&job.credential.upstream.name, of, &record.id));
            let is_full = all.len() >= COMPARED;
            if is_full && all.last_key_value().is_some_and(|(last, _)| key > *last) {
                continue;
            }
            let seen = SeenRecord {
                call: Arc::clone(&call),
                origin: origin.clone(),
                body: hash(&record.body),
            };
            match all.entry(key) {
                Entry::Vacant(free) => {
                    free.insert(seen);
                    if is_full {
                        all.pop_last();
                    }
                }
                Entry::Occupied(mut first) => match first.get().between(&seen, !ids.is_empty()) {
                    // A later page of the region can have the record once more, as it is now.
                    None => first.get_mut().body = seen.body,
                    Some((between, one, other)) => {
                        let shared = found.shared.entry(between).or_default();
                        shared.ids += 1;
                        if first.get().body != seen.body {
                            shared.differing += 1;
                            let example = || (record.id.clone(), one, other);
                            shared.example.get_or_insert_with(example);
                        }
                    }
                },
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
