use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use serde_json::Value;

use super::world::World;
use crate::config::{Job, Step};
use crate::record::Record;
use crate::upstream::{Failure, Page, PageRequest, Upstream};

/// Requests by job, region and the step's index.
pub type Asked = BTreeMap<(String, String, usize), u64>;

/// An upstream that answers what it answered the last time.
#[derive(Debug)]
pub(super) struct PlayUpstream {
    world: Arc<World>,
    jobs: Vec<Arc<Job>>,
    asked: Mutex<Asked>,
}

impl PlayUpstream {
    pub(super) fn new(world: Arc<World>, jobs: Vec<Arc<Job>>) -> Self {
        Self { world, jobs, asked: Mutex::default() }
    }

    pub(super) fn asked(&self) -> Asked {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whose step this is, and its index.
    fn find(&self, step: &Step) -> Option<(&Job, usize)> {
        let index = |job: &Job| job.steps.iter().position(|one| std::ptr::eq(one, step));
        self.jobs.iter().find_map(|job| Some((&**job, index(job)?)))
    }
}

#[async_trait]
impl Upstream for PlayUpstream {
    async fn ready(&self) -> Result<(), Failure> {
        Ok(())
    }

    async fn fetch(&self, request: PageRequest<'_>) -> Result<Page, Failure> {
        let Some((job, step)) = self.find(request.step) else {
            return Err(Failure::Skip("no job of this play has such a step".to_owned()));
        };
        let key = (job.name.clone(), request.region.code.clone(), step);
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default() += 1;
        if request.step.ids.is_some() {
            return Ok(page(request.ids.iter().map(String::as_str), None));
        }
        let pages = self.world.pages(&job.name, &request.region.code, step);
        let number: usize = request.cursor.and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
        let ids = pages.get(number).into_iter().flatten().map(|id| &**id);
        Ok(page(ids, (number + 1 < pages.len()).then(|| (number + 1).to_string())))
    }
}

fn page<'a>(ids: impl Iterator<Item = &'a str>, next: Option<String>) -> Page {
    let records = ids.map(|id| Record { id: id.to_owned(), body: Value::Null }).collect();
    Page { records, next, ..Page::default() }
}
