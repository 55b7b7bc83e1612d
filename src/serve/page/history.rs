//! `/history`: passes and spend by day, job and region. `/pass`: one pass.

use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;
use std::collections::BTreeMap;

use super::table::{Cell, UnitColumns, table};
use super::{Detail, Reader, choice, details, text_field};
use crate::commands::history::{self, History, Row};
use crate::commands::table::{cost, count, span};
use crate::serve::App;
use crate::serve::api::HistoryParameters;
use crate::serve::problem::Problem;
use ingest_base::plain::plain;
use ingest_catalog::{PassId, PassRecord};
use ingest_config::Region;
use ingest_quota::{Cost, Timestamp};

/// The most passes that one page lists.
const MOST_PASSES: usize = 200;

/// What the view is asked for.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct HistoryFilter {
    since: Option<String>,
    job: Option<String>,
    region: Option<String>,
}

impl HistoryFilter {
    fn job(&self) -> Option<&str> {
        self.job.as_deref().filter(|job| !job.is_empty())
    }

    fn region(&self) -> Option<&str> {
        self.region.as_deref().filter(|region| !region.is_empty())
    }

    fn since(&self) -> &str {
        self.since
            .as_deref()
            .filter(|since| !since.is_empty())
            .unwrap_or("30d")
    }

    fn is_filtered(&self) -> bool {
        self.job().is_some() || self.region().is_some()
    }

    fn has(&self, job: Option<&str>, region: Option<&str>) -> bool {
        self.job().is_none_or(|wanted| job == Some(wanted))
            && self.region().is_none_or(|wanted| region == Some(wanted))
    }
}

/// What the view shows.
pub struct Passes {
    history: History,
    /// The passes of the job or region that is asked for, newest first.
    passes: Option<Vec<PassShown>>,
}

/// A pass.
pub struct PassShown {
    id: PassId,
    job: String,
    /// With the slice, if it fetches one.
    region: String,
    /// The region of the history, which has all slices of a region together.
    region_code: String,
    started_at: Timestamp,
    finished_at: Option<Timestamp>,
    /// How it ended; null while it is unfinished.
    outcome: Option<&'static str>,
    pages: u64,
    records: u64,
    requests: u64,
    units: Cost,
    /// When the last run that walked it left it.
    left_at: Option<Timestamp>,
    /// Whether that run failed.
    failed: bool,
    /// Why that run got no further, and what it noticed.
    notes: Option<String>,
}

impl PassShown {
    fn of(pass: PassRecord) -> Self {
        let outcome = pass.word();
        Self {
            region: Region::key_of(&pass.region, pass.slice),
            region_code: pass.region,
            id: pass.id,
            job: pass.job,
            started_at: pass.started_at,
            finished_at: pass.finished_at,
            outcome,
            pages: pass.pages,
            records: pass.records,
            requests: pass.requests,
            units: pass.units,
            left_at: pass.left_at,
            failed: pass.failed,
            notes: pass.notes,
        }
    }

    fn class(&self) -> &'static str {
        match (self.failed, self.outcome) {
            (true, _) => "bad",
            (false, None | Some("no page")) => "warn",
            (false, Some(_)) => "good",
        }
    }

    fn state(&self) -> &'static str {
        self.outcome.unwrap_or("unfinished")
    }
}

/// `GET /history`
pub async fn page(reader: Reader) -> Response {
    let asked = reader.filters::<HistoryFilter>();
    let form = form(&reader, asked.as_ref().unwrap_or(&HistoryFilter::default()));
    let content = match &asked {
        Ok(asked) => passes(&reader.app, asked)
            .await
            .map(|found| shown(&reader, &found, asked)),
        Err(problem) => Err(problem.clone()),
    };
    reader.view("/history", &form, content)
}

async fn passes(app: &App, asked: &HistoryFilter) -> Result<Passes, Problem> {
    let since = HistoryParameters {
        since: asked.since.clone(),
    };
    let (since, asked) = (since.since()?, asked.clone());
    app.read(move |environment| async move {
        let since = environment.clock.now() - since;
        let mut history = history::report(&environment, since).await?;
        let mut passes = None;
        if asked.is_filtered() {
            let has = |row: &Row| asked.has(row.job.as_deref(), row.region.as_deref());
            history.rows.retain(has);
            // Read again: the report has the sums of days, and not the passes.
            let all = environment.archive().await?.history(since).await?;
            let own = all
                .into_iter()
                .rev()
                .filter(|pass| asked.has(Some(&pass.job), Some(&pass.region)));
            passes = Some(own.take(MOST_PASSES).map(PassShown::of).collect());
        }
        Ok(Passes { history, passes })
    })
    .await
}

fn form(reader: &Reader, asked: &HistoryFilter) -> Markup {
    let config = &reader.app.environment.config;
    let jobs = config.jobs.iter().map(|job| &*job.name).collect();
    let regions = config.regions.iter().map(|region| &*region.code);
    html! {
        form method="get" action="/history" {
            (choice(("job", "Job"), &jobs, asked.job(), "any"))
            (choice(("region", "Region"), &regions.collect(), asked.region(), "any"))
            (text_field("since", "Started within", Some(asked.since()), "such as 30d"))
            div { button type="submit" { "Show" } }
        }
    }
}

fn shown(reader: &Reader, found: &Passes, asked: &HistoryFilter) -> Markup {
    // Newest first: a page is read from the top.
    let rows = &found.history.rows;
    let days: Vec<&[Row]> = rows
        .chunk_by(|one, next| one.day == next.day)
        .rev()
        .collect();
    html! {
        @if let Some(passes) = found.passes.as_deref().filter(|passes| !passes.is_empty()) {
            h2 { "Passes" }
            (passes_shown(reader, passes))
        }
        @if days.is_empty() { p { "Nothing was fetched or charged in this period." } }
        @for rows in days { (day(reader, rows, asked)) }
    }
}

fn passes_shown(reader: &Reader, passes: &[PassShown]) -> Markup {
    let limits = passes.iter().flat_map(|pass| pass.units.iter());
    let units = UnitColumns::of(limits.map(|(limit, _)| limit));
    let heads = [
        "Started", "Job", "Region", "State", "Pages", "Records", "Requests",
    ];
    let heads = [&heads[..], &units.heads(), &["Notes"]].concat();
    let rows = passes.iter().map(|pass| pass_row(reader, pass, &units));
    html! {
        (table("The newest passes first", &heads, rows.collect()))
        @if passes.len() >= MOST_PASSES { p class="quiet" { "Older ones are not shown." } }
    }
}

fn pass_row(reader: &Reader, pass: &PassShown, units: &UnitColumns<'_>) -> Vec<Cell> {
    let charged: Vec<_> = pass
        .units
        .iter()
        .map(|(limit, units)| (limit, units.get()))
        .collect();
    let mut row = vec![
        Cell::new(
            "short",
            reader.pass_link(pass.id, &reader.minute(pass.started_at)),
        ),
        Cell::text(&pass.job),
        Cell::text(&pass.region),
        Cell::new(pass.class(), html! { (pass.state()) }),
    ];
    row.extend([pass.pages, pass.records, pass.requests].map(Cell::number));
    row.extend(units.cells(&charged));
    let notes = pass.notes.as_deref().unwrap_or_default();
    row.push(Cell::new("notes", html! { (plain(notes)) }));
    row
}

fn day(reader: &Reader, rows: &[Row], asked: &HistoryFilter) -> Markup {
    let day = rows.first().map_or("", |row| &row.day);
    let units = UnitColumns::of(rows.iter().flat_map(|row| row.units.keys()));
    let heads = ["Job", "Region", "Complete", "Pages", "Records", "Requests"];
    let heads = [&heads[..], &units.heads()].concat();
    let rows = rows.iter().map(|row| day_row(reader, row, asked, &units));
    html! {
        h2 { (day) }
        (table(&format!("Passes of {day} (UTC)"), &heads, rows.collect()))
    }
}

fn day_row(
    reader: &Reader,
    row: &Row,
    asked: &HistoryFilter,
    units: &UnitColumns<'_>,
) -> Vec<Cell> {
    let complete = html! {
        @if row.passes > 0 { (count(row.complete)) " of " (count(row.passes)) }
    };
    let class = if row.complete < row.passes {
        "warn"
    } else {
        ""
    };
    let charged: Vec<_> = row
        .units
        .iter()
        .map(|(limit, units)| (limit, *units))
        .collect();
    let mut cells = vec![
        Cell::new("", job_shown(reader, row, asked)),
        Cell::text(row.region.as_deref().unwrap_or_default()),
        Cell::new(class, complete),
    ];
    cells.extend([row.pages, row.records, row.requests].map(Cell::number));
    cells.extend(units.cells(&charged));
    cells
}

/// The job of a row, which leads to its passes.
fn job_shown(reader: &Reader, row: &Row, asked: &HistoryFilter) -> Markup {
    let (Some(job), Some(region)) = (&row.job, &row.region) else {
        return html! { (plain(row.origin.whose(row.job.as_deref()))) };
    };
    if asked.has(Some(job), Some(region)) && asked.job().is_some() && asked.region().is_some() {
        return html! { (plain(job)) };
    }
    let since = asked.since.as_deref().unwrap_or("30d");
    let passes = [
        ("job", Some(&**job)),
        ("region", Some(region)),
        ("since", Some(since)),
    ];
    let to = reader.to("/history", &passes);
    html! { a href=(to) aria-label=(plain(&format!("Passes of {job} over {region}"))) { (plain(job)) } }
}

/// The pass that is asked for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Id {
    id: String,
}

/// `GET /pass`
pub async fn pass_page(reader: Reader) -> Response {
    let content = pass_content(&reader).await;
    reader.page_below("/history", content)
}

async fn pass_content(reader: &Reader) -> Result<(String, Markup), Problem> {
    let pass = pass(&reader.app, reader.filters()?).await?;
    let title = format!("Pass of {} over {}", pass.job, pass.region);
    Ok((plain(&title), pass_shown(reader, &pass)))
}

async fn pass(app: &App, Id { id }: Id) -> Result<PassShown, Problem> {
    let id = id.parse().map(PassId);
    let id = id.map_err(|_| Problem::bad_request("id: expected the number of a pass"))?;
    let found = app
        .read(move |environment| async move { Ok(environment.archive().await?.pass(id).await?) })
        .await?;
    let missing = || Problem::new(StatusCode::NOT_FOUND, "no pass has this id");
    found.map(PassShown::of).ok_or_else(missing)
}

fn pass_shown(reader: &Reader, pass: &PassShown) -> Markup {
    let of_region = [
        ("job", Some(&*pass.job)),
        ("region", Some(&*pass.region_code)),
    ];
    let more = reader.to("/history", &of_region);
    let took = pass.finished_at.map(|at| span(at.since(pass.started_at)));
    let units = cost(&pass.units);
    let all = [
        Detail::new(
            "State",
            html! { span class=(pass.class()) { (pass.state()) } },
        ),
        Detail::new("Started", reader.time(pass.started_at)),
        Detail::maybe(
            "Ended",
            pass.finished_at.map(
                |at| html! { (reader.time(at)) @if let Some(took) = &took { ", after " (took) } },
            ),
        ),
        Detail::maybe("Last walked", pass.left_at.map(|at| reader.time(at))),
        Detail::new("Pages", html! { (count(pass.pages)) }),
        Detail::new("Records", html! { (count(pass.records)) }),
        Detail::new("Requests", html! { (count(pass.requests)) }),
        Detail::new(
            "Units",
            html! { (if units.is_empty() { "none".to_owned() } else { plain(&units) }) },
        ),
        Detail::maybe(
            "Notes",
            pass.notes.as_deref().map(|notes| html! { (plain(notes)) }),
        ),
    ];
    html! {
        (details(all))
        p { a href=(more) { "All passes over this region" } }
        @for (kind, to) in to_records(reader, pass) { p { a href=(to) { "Records of kind " (plain(kind)) " that were seen since" } } }
    }
}

/// The kinds of record of a pass, and the addresses of those records that were seen since it began: of its region, or of all
/// regions where a step fetches ids, since such a request serves several at once.
fn to_records<'r>(reader: &'r Reader, pass: &PassShown) -> Vec<(&'r str, String)> {
    let environment = &reader.app.environment;
    let mut jobs = environment.config.jobs.iter();
    let job = jobs.find(|job| *job.name == *pass.job);
    let own = Some(&*pass.region_code).filter(|region| *region != Region::SHARED);
    let age = environment.clock.now().since(pass.started_at).as_secs();
    // Rounded up: a record of the pass is not older than it.
    let since = format!("{}m", age / 60 + 1);
    let mut kinds = BTreeMap::new();
    for step in job.into_iter().flat_map(|job| &job.steps) {
        if let Some(records) = &step.call.records {
            let region = own.filter(|_| step.ids.is_none());
            kinds.entry(&*records.kind).or_insert(region);
        }
    }
    let to = |(kind, region)| {
        let since = Some(&*since);
        let filters = [
            ("kind", Some(kind)),
            ("region", region),
            ("seen_since", since),
        ];
        (kind, reader.to("/records", &filters))
    };
    kinds.into_iter().map(to).collect()
}
