//! Passes and spend by day, job and region; of a job, a region or a limit also each pass.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use serde::Deserialize;

use super::form::{choice, field, form, regions_of};
use super::view;
use crate::commands::environment::Environment;
use crate::commands::figures::{cost, count};
use crate::commands::history;
use crate::doc::html;
use crate::doc::{Doc, Grid, Head, PageLink, Phrase, Phrases, Section, Tone};
use crate::serve::App;
use crate::serve::api;
use crate::serve::problem::Problem;
use crate::serve::query::{Filled, parameters};
use ingest_catalog::PassRecord;
use ingest_config::Region;

/// The most passes that one page lists.
const MOST_PASSES: usize = 200;
/// The time that a history covers if nothing else is asked for.
const USUAL_SINCE: &str = "30d";

/// What the history is asked for.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct HistoryFilter {
    since: Filled,
    job: Filled,
    region: Filled,
    account: Filled,
    limit: Filled,
}

impl HistoryFilter {
    fn has<'u>(
        &self,
        account: &str,
        (job, region): (Option<&str>, Option<&str>),
        limits: impl Iterator<Item = &'u String>,
    ) -> bool {
        self.job.admits(job)
            && self.region.admits(region)
            && self.account.admits([account])
            && self.limit.admits(limits.map(String::as_str))
    }

    fn is_of_some(&self) -> bool {
        let filters = [&self.job, &self.region, &self.account, &self.limit];
        filters.iter().any(|filter| filter.get().is_some())
    }
}

/// `GET /history`: passes and spend by day, job and region; of a job, a region or a limit also each pass.
pub async fn history_page(State(app): State<Arc<App>>, uri: Uri) -> Response {
    let asked = parameters::<HistoryFilter>(&uri);
    let usual = HistoryFilter::default();
    let filter = asked.as_ref().unwrap_or(&usual);
    let jobs = app.environment.config.jobs.iter();
    let jobs = jobs.map(|job| &*job.name).collect();
    let since = filter.since.get().unwrap_or(USUAL_SINCE);
    let fields = [
        choice(("job", "Job"), &jobs, filter.job.get()),
        choice(
            ("region", "Region"),
            &regions_of(&app.environment),
            filter.region.get(),
        ),
        field(
            ("since", "Started within"),
            Some(since),
            "such as 30d or 2026-11-01",
        ),
    ];
    let form = form("/history", "Show", &fields);
    let shown = match asked {
        Ok(asked) => passes(&app, asked).await,
        Err(problem) => Err(problem),
    };
    view(&app, "/history", &form, shown)
}

async fn passes(app: &App, asked: HistoryFilter) -> Result<String, Problem> {
    let since = api::since_of_history(&asked.since)?;
    app.read(move |environment| async move {
        let [job, region] = [&asked.job, &asked.region].map(Filled::owned);
        environment
            .expect_stored(job.as_slice(), region.as_slice())
            .await?;
        environment.expect_limit(asked.account.get(), asked.limit.get())?;
        let since = since.at(environment.clock.now());
        let mut history = history::report(&environment, since).await?;
        let mut doc = Doc::default();
        if asked.is_of_some() {
            history.rows.retain(|row| {
                let whose = (row.job.as_deref(), row.region.as_deref());
                asked.has(&row.account, whose, row.units.keys())
            });
            // Read again: the report has the sums of days, and not the passes.
            let mut all = environment.reader().await?.history(since).await?;
            all.retain(|pass| {
                let account = environment.config.account_of(&pass.job);
                let whose = (Some(&*pass.job), Some(&*pass.region));
                asked.has(
                    account.unwrap_or_default(),
                    whose,
                    pass.units.iter().map(|(limit, _)| limit),
                )
            });
            doc.add(passes_shown(&environment, &all));
        }
        let mut days = history.doc(false).parts;
        // A page is read from the top.
        days.reverse();
        doc.parts.extend(days);
        Ok(html::html(&doc))
    })
    .await
}

/// The newest passes first.
fn passes_shown(environment: &Environment, passes: &[PassRecord]) -> Section {
    let newest: Vec<&PassRecord> = passes.iter().rev().take(MOST_PASSES).collect();
    let started = |pass: &&PassRecord| {
        pass.started_at
            .to_utc()
            .format("%Y-%m-%d %H:%M")
            .to_string()
    };
    let state = |pass: &&PassRecord| {
        let tone = match (pass.failed, pass.word()) {
            (true, _) => Tone::Bad,
            (false, None | Some("no page")) => Tone::Warn,
            (false, Some(_)) => Tone::Good,
        };
        Phrase::toned(pass.word().unwrap_or("unfinished"), tone)
    };
    let table = Grid::of(&newest)
        .column(Head::text("STARTED (UTC)"), started)
        .column(Head::text("JOB"), |pass| &*pass.job)
        .column(Head::text("REGION"), |pass| {
            Region::key_of(&pass.region, pass.slice)
        })
        .column(Head::text("STATE"), state)
        .column(Head::number("PAGES"), |pass| count(pass.pages))
        .column(Head::number("RECORDS"), |pass| count(pass.records))
        .column(Head::number("REQUESTS"), |pass| count(pass.requests))
        .column(Head::text("UNITS"), |pass| cost(&pass.units))
        .column(Head::text("SEEN SINCE"), |pass| {
            records_of(environment, pass)
        })
        .column(Head::text("NOTES"), |pass| {
            pass.notes.as_deref().unwrap_or_default()
        });
    let mut part = Section::headed("Passes").with_rows(table);
    if passes.len() > MOST_PASSES {
        part.say(Phrase::toned("Older ones are not shown.", Tone::Quiet));
    }
    part
}

/// The kinds of record of a pass, which lead to those that were seen since it began: of its region, or of all regions where a step
/// fetches ids, since such a request serves several at once.
fn records_of(environment: &Environment, pass: &PassRecord) -> Phrases {
    let job = environment.config.job(&pass.job);
    let own = Some(&*pass.region).filter(|region| *region != Region::SHARED);
    // The instant itself: a span would be counted from the time at which somebody follows the link.
    let since = pass.started_at.to_string();
    let mut kinds = BTreeMap::new();
    for step in job.into_iter().flat_map(|job| &job.steps) {
        if let Some(records) = &step.call.records {
            let region = own.filter(|_| step.ids.is_none());
            kinds.entry(&*records.kind).or_insert(region);
        }
    }
    let links = kinds.into_iter().map(|(kind, region)| {
        let filters = [
            ("kind", Some(kind)),
            ("region", region),
            ("since", Some(&*since)),
        ];
        Phrase::linked(kind, PageLink::to("/search", &filters))
    });
    Phrases::joined(links, ", ")
}
