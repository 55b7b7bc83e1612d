//! One page, requested outside a run: charged like any other, and landed only if that is wanted.

use std::sync::Arc;

use super::attempt::fetch_page;
use super::context::Context;
use super::stats::PassStats;
use super::steps::request_of;
use super::stop_reason::StopReason;
use crate::review::{Review, Turn};
use ingest_base::list_so_far::ListSoFar;
use ingest_catalog::{Landing, PassRef, Resource, Taken};
use ingest_config::{Job, Region, Variable};
use ingest_quota::Cost;
use ingest_upstream::{Page, PageRequest};
use uuid::Uuid;

/// The request of one page.
#[derive(Debug, Clone, Copy)]
pub struct SinglePage<'a> {
    pub job: &'a Job,
    /// The index of the step.
    pub step: usize,
    pub region: &'a Region,
    /// What is requested.
    pub request: PageRequest<'a>,
}

impl SinglePage<'_> {
    /// Sends the request; returns the page and what was charged. `land`: lands the page as the first one of a new pass, which
    /// the next run continues; if a pass of the region is unfinished, nothing is requested.
    pub async fn fetch(&self, context: &Context, land: bool) -> (Result<Page, StopReason>, Cost) {
        let mut stats = PassStats::default();
        let page = match land {
            true => self.fetch_and_land(context, &mut stats).await,
            false => self.send(context, &mut stats).await,
        };
        (page, stats.units)
    }

    async fn fetch_and_land(
        &self,
        context: &Context,
        stats: &mut PassStats,
    ) -> Result<Page, StopReason> {
        let (job, region) = (&self.job.name, self.region.key());
        let _lease = match context.leases.take(&Resource::region(job, &region)).await? {
            Taken::Granted(lease) => lease,
            Taken::Held(holder) => return Err(StopReason::Busy(holder)),
        };
        let (codes, now) = ([self.region.code.clone()], context.clock.now());
        if let Some(slice) = self.region.slice {
            let catalog = &context.catalog;
            let known = catalog.slice(job, &self.region.code, slice, now).await?;
            if known.is_some() {
                return Err(StopReason::Failed(format!(
                    "{job} {region} has a pass already; nothing was requested"
                )));
            }
        }
        let states = context.catalog.region_states(job, &codes, now).await?;
        if states.iter().any(|state| state.unfinished.is_some()) {
            return Err(StopReason::Failed(format!(
                "{job} {region} has an unfinished pass, which `ingest` continues; nothing was \
                requested"
            )));
        }
        let page = self.send(context, stats).await?;
        self.land(context, &page, stats).await?;
        Ok(page)
    }

    async fn send(&self, context: &Context, stats: &mut PassStats) -> Result<Page, StopReason> {
        fetch_page(context, self.job, self.request, stats).await
    }

    async fn land(
        &self,
        context: &Context,
        page: &Page,
        stats: &PassStats,
    ) -> Result<(), StopReason> {
        let step = self.request.step;
        let Some(records) = &step.call.records else {
            return Ok(());
        };
        let is_last = step.max_pages == Some(1);
        let upstream = &self.job.credential.upstream;
        let known = context.known_calls.of(upstream, &step.call);
        let turn = Turn {
            before: 0,
            since: self.request.since,
            begins_at_cursor: self.request.lasting.is_some(),
            ids: &[],
        };
        let verdict = Review::new(self.job, step, self.region, known, 0).see(page, turn);
        let lasts = !is_last && verdict.doubts.is_empty() && self.region.slice.is_none();
        let is_unproved = verdict.next.is_none() && !verdict.is_proved;
        let is_partial = page.skipped > 0 || verdict.is_cut || is_unproved || verdict.has_no_list;
        let landing = Landing {
            id: Uuid::now_v7(),
            pass: self.pass(),
            step: self.step,
            upstream: self.job.credential.upstream.name.clone(),
            call: step.call.name.clone(),
            kind: Arc::clone(records),
            records: page.records.clone(),
            request: request_of(self.job, step, self.region),
            next: verdict.next.filter(|_| !verdict.is_cut),
            cut: verdict.is_cut && self.job.names(step, &Variable::Since),
            list: ListSoFar {
                is_partial,
                skipped: page.skipped,
                notes: verdict.notes,
                ..ListSoFar::default()
            },
            greatest: None,
            empty_pages: u64::from(page.records.is_empty() && page.removed.is_empty()),
            requested: Vec::new(),
            batch: None,
            since: None,
            removed: page.removed.clone(),
            lasting: page.lasting.clone().filter(|_| lasts),
            doubts: verdict.doubts,
            if_repeats: None,
            relists: false,
            requests: stats.unlanded_requests,
            units: stats.unlanded_units.clone(),
            tag: page.tag.clone(),
            now: context.clock.now(),
            term: context
                .leases
                .term(&Resource::region(&self.job.name, &self.region.key())),
        };
        let landed = context.land(landing).await;
        landed
            .map(drop)
            .map_err(|page| StopReason::Failed(page.why))
    }

    fn pass(&self) -> PassRef {
        PassRef::New {
            job: self.job.name.clone(),
            region: self.region.code.clone(),
            slice: self.region.slice,
            started_at: self.request.began,
        }
    }
}
