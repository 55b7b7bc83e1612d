//! The upstream of a simulation: each request is counted, and answered from what the catalog has.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;

use super::snapshot::{CatalogSnapshot, ListKey};
use ingest_base::clock::Deadline;
use ingest_base::record::Record;
use ingest_catalog::memory::PageNumber;
use ingest_config::{Job, Step};
use ingest_upstream::{Connection, End, Exchange, Failure, Page, PageRequest, Upstream};

/// Requests by job, region and the step's index.
pub type RequestCounts = BTreeMap<ListKey, RequestCount>;

/// How often a page was requested.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestCount {
    /// In all.
    pub count: u64,
    /// Those whose page was not modified, and which cost nothing.
    pub not_modified: u64,
}

/// An upstream that repeats its last responses.
#[derive(Debug)]
pub struct SimulatedUpstream {
    snapshot: Arc<CatalogSnapshot>,
    jobs: Vec<Arc<Job>>,
    requests: Mutex<RequestCounts>,
    /// The real cursors of the next pages, as far as the catalog has them: the page's number, and its cursor.
    cursors: Mutex<HashMap<ListKey, (usize, Option<String>)>>,
}

impl SimulatedUpstream {
    pub fn new(snapshot: Arc<CatalogSnapshot>, jobs: Vec<Arc<Job>>) -> Self {
        let resumed = snapshot.cursors.iter();
        let cursors = resumed
            .map(|(place, (number, cursor))| (place.clone(), (*number, Some(cursor.clone()))))
            .collect();
        Self {
            snapshot,
            jobs,
            requests: Mutex::default(),
            cursors: Mutex::new(cursors),
        }
    }

    pub fn requests(&self) -> RequestCounts {
        locked(&self.requests).clone()
    }

    /// Returns the job of a step, and the step's index.
    fn find(&self, step: &Step) -> Option<(&Job, usize)> {
        // By its address, since two steps can be equal.
        let index = |job: &Job| job.steps.iter().position(|one| std::ptr::eq(one, step));
        self.jobs.iter().find_map(|job| Some((&**job, index(job)?)))
    }

    /// Whether a page is in the catalog and is requested only if it changed: by its real request, which the one of the page
    /// before led to.
    fn is_unchanged(
        &self,
        job: &Job,
        place: &ListKey,
        number: usize,
        request: PageRequest<'_>,
    ) -> bool {
        let Some(tags) = self.snapshot.tags.get(&job.credential.upstream.name) else {
            return false;
        };
        let mut cursors = locked(&self.cursors);
        let cursor_of_page = cursors.remove(place).filter(|(page, _)| *page == number);
        let Some((_, cursor)) = cursor_of_page.or((number == 0).then_some((0, None))) else {
            return false;
        };
        let request = PageRequest {
            cursor: cursor.as_deref(),
            ..request
        };
        let name = request.name(&job.credential.upstream);
        let Some(next) = name.and_then(|name| tags.get(&name)) else {
            return false;
        };
        if next.is_some() {
            cursors.insert(place.clone(), (number.saturating_add(1), next.clone()));
        }
        true
    }

    fn count(&self, place: ListKey, unchanged: bool) {
        let mut requests = locked(&self.requests);
        let requests = requests.entry(place).or_default();
        requests.count = requests.count.saturating_add(1);
        requests.not_modified = requests.not_modified.saturating_add(u64::from(unchanged));
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

#[async_trait]
impl Upstream for SimulatedUpstream {
    async fn ready(&self) -> Result<(), Failure> {
        Ok(())
    }

    async fn connect(&self) -> Result<Connection, Failure> {
        Ok(Connection::default())
    }

    async fn fetch(&self, request: PageRequest<'_>, _: Connection, _: Deadline) -> Exchange {
        self.page(request).into()
    }
}

impl SimulatedUpstream {
    fn page(&self, request: PageRequest<'_>) -> Result<Page, Failure> {
        let Some((job, step)) = self.find(request.step) else {
            return Err(Failure::Skip(
                "no job of this simulation has this step".to_owned(),
            ));
        };
        let place = (job.name.clone(), request.region.key(), step);
        let number: usize = match request.cursor {
            None => 0,
            // A batch that an earlier run began is at the upstream's cursor.
            Some(_) if request.step.ids.is_some() => 1,
            Some(cursor) => cursor.parse().unwrap_or(0),
        };
        let unchanged = self.is_unchanged(job, &place, number, request);
        self.count(place, unchanged);
        if request.step.ids.is_some() {
            let ids = request.ids.iter().filter(|_| number == 0);
            let page = page(ids.cloned(), None, unchanged);
            let records = page.records.len();
            return Ok(sized(page, records, (request.step, number)));
        }
        let pages = self.snapshot.pages(&job.name, request.region, step);
        let listed = pages.get(number);
        let contents = &self.snapshot.contents;
        let records = listed.map_or(0, |listed| contents.record_count(*listed));
        // A page of a list is one record, named by its number: the catalog in memory knows its ids.
        let names = listed.filter(|_| records > 0).map(PageNumber::to_string);
        let next = (number + 1 < pages.len()).then(|| (number + 1).to_string());
        let page = page(names.into_iter(), next, unchanged);
        Ok(sized(page, records, (request.step, number)))
    }
}

/// Returns the page with `records` records. In a list whose end the upstream does not state, only the last page is not full.
fn sized(page: Page, records: usize, (step, number): (&Step, usize)) -> Page {
    let size = step.call.paging.size;
    let Some(size) = size.filter(|_| step.call.paging.assumes_end() && !page.unchanged) else {
        return page;
    };
    let records = records as u64;
    let (listed, end) = match (&page.next, records) {
        (Some(_), _) => (size, End::Proved),
        (None, 0) => (0, End::Proved),
        (None, _) => {
            let further = End::Assumed((number + 1).to_string());
            (records.min(size.saturating_sub(1)), further)
        }
    };
    Page {
        listed,
        end,
        size: Some(size),
        ..page
    }
}

fn page(ids: impl Iterator<Item = String>, next: Option<String>, unchanged: bool) -> Page {
    let body = Value::Null;
    let records = ids
        .map(|id| Record {
            id,
            body: body.clone(),
        })
        .collect();
    Page {
        records,
        next,
        unchanged,
        ..Page::default()
    }
}
