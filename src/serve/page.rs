//! The page, for people: five forms over the documents of the commands, without scripts. Each has its filters in its address; times
//! are UTC.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use ring::digest::{SHA256, digest};
use serde::Deserialize;
use serde_json::Value;

use super::App;
use super::api::{self, MOST, PlanParameters, RecordsParameters, SearchParameters, parameters};
use super::day::{self, DayCharts};
use super::problem::Problem;
use crate::cli::ForecastArgs;
use crate::commands::environment::Environment;
use crate::commands::figures::{cost, count, counted, instant};
use crate::commands::status::{self, parts, standing};
use crate::commands::{export, forecast, history, search};
use crate::doc::html::{self, escaped};
use crate::doc::{Doc, DocBlock, Grid, Head, PageLink, Phrase, Phrases, Section, Tone};
use ingest_base::plain::one_line;
use ingest_catalog::{PassRecord, SearchResults, StoredRecord};
use ingest_config::{LedgerStore, Pointer, Region};
use ingest_quota::Timestamp;

const STYLE: &str = include_str!("style.css");
const ICON: &str = include_str!("icon.svg");

/// The addresses of the style sheet and the icon, which change with them: browsers keep them for ever.
static STYLE_PATH: LazyLock<String> = LazyLock::new(|| format!("/style-{}.css", hash_of(STYLE)));
static ICON_PATH: LazyLock<String> = LazyLock::new(|| format!("/icon-{}.svg", hash_of(ICON)));
/// Where browsers look for an icon by themselves.
const USUAL_ICON_PATH: &str = "/favicon.ico";

const HTML: &str = "text/html; charset=utf-8";

/// The views, in the order of the navigation: address and name.
const VIEWS: [(&str, &str); 4] = [
    ("/", "Overview"),
    ("/search", "Search"),
    ("/history", "History"),
    ("/plan", "Plan"),
];

pub fn routes() -> Router<Arc<App>> {
    let style = || async { kept("text/css; charset=utf-8", STYLE) };
    let icon = || async { kept("image/svg+xml", ICON) };
    Router::new()
        .route("/", get(overview_page))
        .route("/search", get(search_page))
        .route("/history", get(history_page))
        .route("/record", get(record_page))
        .route("/plan", get(plan_page))
        .route(&STYLE_PATH, get(style))
        .route(&ICON_PATH, get(icon))
        .route(USUAL_ICON_PATH, get(icon))
}

fn hash_of(text: &str) -> String {
    let hash = digest(&SHA256, text.as_bytes());
    let start = hash.as_ref().iter().take(8);
    start.map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a browser loads this by itself, beside a page.
pub fn is_beside_pages(path: &str) -> bool {
    path == *STYLE_PATH || path == *ICON_PATH || path == USUAL_ICON_PATH
}

/// What a browser keeps for ever under its address.
fn kept(media_type: &'static str, text: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, media_type),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
    ];
    (headers, text).into_response()
}

/// Whether a browser's window sends the request, whose reader sees errors as pages too. No form of the page posts.
pub fn is_read_by_person(request: &Request) -> bool {
    let mut accepted = request.headers().get_all(header::ACCEPT).iter();
    let accepts_page =
        accepted.any(|types| types.to_str().is_ok_and(|all| all.contains("text/html")));
    accepts_page && matches!(*request.method(), Method::GET | Method::HEAD)
}

/// An error as a page. It says nothing of the state, which its reader may not be allowed to see.
pub fn with_problem(response: Response) -> Response {
    let Some(problem) = response.extensions().get::<Problem>() else {
        return response;
    };
    let page = framed("", &problem.title, &alert(problem), "");
    let (mut parts, _) = response.into_parts();
    let html = HeaderValue::from_static(HTML);
    parts.headers.insert(header::CONTENT_TYPE, html);
    Response::from_parts(parts, page.into())
}

/// A view: its form, and what it shows, or what is wrong, beside the form in which it can be corrected.
fn view(app: &App, path: &str, form: &str, shown: Result<String, Problem>) -> Response {
    let name = VIEWS.iter().find(|(known, _)| *known == path);
    let name = name.map_or("ingest", |(_, name)| *name);
    titled(
        app,
        path,
        (name, form),
        shown.map(|shown| (name.to_owned(), shown)),
    )
}

/// The same for what has a title of its own.
fn titled(
    app: &App,
    path: &str,
    (name, form): (&str, &str),
    shown: Result<(String, String), Problem>,
) -> Response {
    match shown {
        Ok((title, shown)) => {
            let content = form.to_owned() + &shown;
            let page = framed(path, &title, &content, &whereabouts(&app.environment));
            api::typed(HTML, page)
        }
        Err(problem) => {
            // A server whose database is away does not say where that is.
            let page = framed(path, name, &(form.to_owned() + &alert(&problem)), "");
            let status = StatusCode::from_u16(problem.status).unwrap_or_default();
            let content_type = [(header::CONTENT_TYPE, HTML)];
            let mut response = (status, content_type, page).into_response();
            if let Some(seconds) = problem.retry_after {
                let headers = response.headers_mut();
                headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
            }
            response
        }
    }
}

fn alert(problem: &Problem) -> String {
    let mut rest = problem.detail.chars();
    let first = rest.next().into_iter().flat_map(char::to_uppercase);
    let text: String = first.chain(rest).collect();
    format!("<p role=\"alert\" class=\"bad\">{}.</p>", escaped(&text))
}

/// What every page has around what it shows.
fn framed(path: &str, title: &str, content: &str, footer: &str) -> String {
    let (title, style, icon) = (escaped(title), &*STYLE_PATH, &*ICON_PATH);
    let views = VIEWS.iter().map(|(to, name)| {
        let current = if *to == path {
            " aria-current=\"page\""
        } else {
            ""
        };
        format!("<li><a href=\"{to}\"{current}>{name}</a></li>")
    });
    let views: String = views.collect();
    format!(
        "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title} · ingest</title>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\">\
         <link rel=\"stylesheet\" href=\"{style}\"><link rel=\"icon\" type=\"image/svg+xml\" href=\"{icon}\"></head><body>\
         <a class=\"skip\" href=\"#content\">Skip to the content</a>\
         <header><strong>ingest</strong><nav aria-label=\"Views\"><ul>{views}</ul></nav></header>\
         <main id=\"content\" tabindex=\"-1\"><h1>{title}</h1>{content}</main><footer>{footer}</footer></body></html>"
    )
}

/// What it is a page of.
fn whereabouts(environment: &Environment) -> String {
    let ledger = match &environment.config.ledger.store {
        LedgerStore::Sqlite => "a file".to_owned(),
        LedgerStore::Redis(url) => url.to_string(),
    };
    let catalog = environment.database();
    let catalog = catalog.map_or("files", |database| database.shown());
    let state = &environment.state_dir;
    let state = std::path::absolute(state).unwrap_or_else(|_| state.clone());
    let text = format!(
        "ingest {}. State directory: {}. Ledger: {ledger}. Catalog: {catalog}.",
        env!("CARGO_PKG_VERSION"),
        state.display()
    );
    format!("<p class=\"quiet\">{}</p>", escaped(&text))
}

/// A form of a view, with these fields.
fn form(path: &str, button: &str, fields: &[String]) -> String {
    let fields = fields.concat();
    format!(
        "<form method=\"get\" action=\"{path}\">{fields}<div><button type=\"submit\">{button}</button></div></form>"
    )
}

/// A field of a form, with an example.
fn field((name, label): (&str, &str), value: Option<&str>, example: &str) -> String {
    let (value, example) = (escaped(value.unwrap_or_default()), escaped(example));
    format!(
        "<div><label for=\"{name}\">{label}</label><input type=\"text\" id=\"{name}\" name=\"{name}\" value=\"{value}\" \
         placeholder=\"{example}\" autocomplete=\"off\"></div>"
    )
}

/// A field of a form with these values to choose from. The list has the chosen value even if it is not one of these.
fn choice((name, label): (&str, &str), values: &BTreeSet<&str>, chosen: Option<&str>) -> String {
    let other = chosen.filter(|chosen| !values.contains(chosen));
    let options = other.iter().chain(values).map(|value| {
        let selected = if chosen == Some(*value) {
            " selected"
        } else {
            ""
        };
        let value = escaped(value);
        format!("<option value=\"{value}\"{selected}>{value}</option>")
    });
    let options: String = options.collect();
    format!(
        "<div><label for=\"{name}\">{label}</label><select id=\"{name}\" name=\"{name}\"><option value=\"\">any</option>{options}\
         </select></div>"
    )
}

fn regions_of(environment: &Environment) -> BTreeSet<&str> {
    let regions = environment.config.regions.iter();
    regions.map(|region| &*region.code).collect()
}

/// A filter that is filled in: a form sends the fields that nobody filled in, as empty text.
fn filled(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.is_empty())
}

fn link(text: &str, to: PageLink) -> Phrases {
    Phrase::linked(text, to).into()
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct OverviewFilter {
    /// `all`: every region, however many there are.
    regions: Option<String>,
}

/// How many regions are shown unless all are asked for.
const MOST_REGIONS: usize = 100;

/// `GET /`: what failed last, the limits with the spend of a day, and the age of each region.
async fn overview_page(State(app): State<Arc<App>>, uri: Uri) -> Response {
    view(&app, "/", "", overview(&app, &uri).await)
}

async fn overview(app: &App, uri: &Uri) -> Result<String, Problem> {
    let asked: OverviewFilter = parameters(uri)?;
    let most = match asked.regions.as_deref() {
        Some("all") => usize::MAX,
        Some(_) | None => MOST_REGIONS,
    };
    let read = |environment: Arc<Environment>| async move {
        let now = environment.clock.now();
        let status = status::report(&environment, None).await?;
        Ok((status, day::charts(&environment, now).await?, now))
    };
    let (status, charts, now) = app.read(read).await?;
    let mut head = Doc::default();
    head.say(parts::verdict(standing::summary_in_full(&status, now)));
    let nothing = parts::nothing_yet(&status).or_else(|| status.lost_catalog.clone());
    nothing.into_iter().for_each(|nothing| head.say(nothing));
    head.add(parts::held_back(&status.held_back));
    let mut failed = Section::headed("What failed last");
    failed.say_all(parts::failures_apart(&status, now));
    if failed.blocks.is_empty() {
        failed.say(Phrase::toned(
            "Nothing failed in the last pass over any region.",
            Tone::Good,
        ));
    }
    head.add(failed);
    let mut rest = Doc::default();
    let mut regions = parts::regions(&status, most, now);
    let hidden = status.regions.len().saturating_sub(most);
    if hidden > 0 {
        let more = format!("Show {}", counted(hidden as u64, "more region"));
        regions.say(link(&more, PageLink::to("/", &[("regions", Some("all"))])));
    }
    rest.add(regions);
    let mut notes = Section::headed("Notes");
    notes.say_all(parts::notes(&status));
    rest.add(notes);
    rest.add(parts::batches(&status.batches));
    rest.add(parts::walking(&status.walking));
    rest.add(parts::spend(&status.spend, false));
    rest.say(Phrase::toned(
        format!("As of {}.", instant(now)),
        Tone::Quiet,
    ));
    let limits = limits(&status, charts, now);
    Ok(html::html(&head) + &limits + &html::html(&rest))
}

fn limits(status: &status::Status, mut charts: DayCharts, now: Timestamp) -> String {
    let mut doc = Doc::default();
    for limit in &status.limits {
        let mut part = parts::limit(status, limit, now);
        let chart = charts.take(&limit.report.account, &limit.report.limit);
        part.blocks.extend(chart.map(DocBlock::Chart));
        doc.add(part);
    }
    let bars = doc.parts.iter().flat_map(|part| &part.blocks);
    let bars = bars.filter_map(|block| match block {
        DocBlock::Bar(bar) => Some(bar),
        _ => None,
    });
    let legend = html::legend(bars);
    format!("<h2 id=\"limits\">Limits</h2>{legend}{}", html::html(&doc))
}

/// The most passes that one page lists.
const MOST_PASSES: usize = 200;
/// The time that a history covers if nothing else is asked for.
const USUAL_SINCE: &str = "30d";

/// What the history is asked for.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct HistoryFilter {
    since: Option<String>,
    job: Option<String>,
    region: Option<String>,
    account: Option<String>,
    limit: Option<String>,
}

impl HistoryFilter {
    fn has<'u>(
        &self,
        account: &str,
        (job, region): (Option<&str>, Option<&str>),
        mut limits: impl Iterator<Item = &'u String>,
    ) -> bool {
        filled(&self.job).is_none_or(|wanted| job == Some(wanted))
            && filled(&self.region).is_none_or(|wanted| region == Some(wanted))
            && filled(&self.account).is_none_or(|wanted| account == wanted)
            && filled(&self.limit).is_none_or(|wanted| limits.any(|limit| limit == wanted))
    }

    fn is_of_some(&self) -> bool {
        let filters = [&self.job, &self.region, &self.account, &self.limit];
        filters.into_iter().any(|filter| filled(filter).is_some())
    }
}

/// `GET /history`: passes and spend by day, job and region; of a job, a region or a limit also each pass.
async fn history_page(State(app): State<Arc<App>>, uri: Uri) -> Response {
    let asked = parameters::<HistoryFilter>(&uri);
    let usual = HistoryFilter::default();
    let filter = asked.as_ref().unwrap_or(&usual);
    let jobs = app.environment.config.jobs.iter();
    let jobs = jobs.map(|job| &*job.name).collect();
    let since = filled(&filter.since).unwrap_or(USUAL_SINCE);
    let fields = [
        choice(("job", "Job"), &jobs, filled(&filter.job)),
        choice(
            ("region", "Region"),
            &regions_of(&app.environment),
            filled(&filter.region),
        ),
        field(("since", "Started within"), Some(since), "such as 30d"),
    ];
    let form = form("/history", "Show", &fields);
    let shown = match asked {
        Ok(asked) => passes(&app, asked).await,
        Err(problem) => Err(problem),
    };
    view(&app, "/history", &form, shown)
}

async fn passes(app: &App, asked: HistoryFilter) -> Result<String, Problem> {
    let since = api::HistoryParameters {
        since: asked.since.clone(),
    };
    let since = since.since()?;
    app.read(move |environment| async move {
        let since = environment.clock.now() - since;
        let mut history = history::report(&environment, since).await?;
        let mut doc = Doc::default();
        if asked.is_of_some() {
            history.rows.retain(|row| {
                let whose = (row.job.as_deref(), row.region.as_deref());
                asked.has(&row.account, whose, row.units.keys())
            });
            // Read again: the report has the sums of days, and not the passes.
            let mut all = environment.archive().await?.history(since).await?;
            all.retain(|pass| {
                let account = account_of(&environment, &pass.job);
                let whose = (Some(&*pass.job), Some(&*pass.region));
                asked.has(account, whose, pass.units.iter().map(|(limit, _)| limit))
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

fn account_of<'e>(environment: &'e Environment, job: &str) -> &'e str {
    let mut jobs = environment.config.jobs.iter();
    let job = jobs.find(|known| known.name == job);
    job.map_or("", |job| &*job.credential.account.name)
}

/// The newest passes first.
fn passes_shown(environment: &Environment, passes: &[PassRecord]) -> Section {
    let mut part = Section::headed("Passes");
    if passes.is_empty() {
        return part;
    }
    let mut table = Grid::new([
        Head::text("STARTED (UTC)"),
        Head::text("JOB"),
        Head::text("REGION"),
        Head::text("STATE"),
        Head::number("PAGES"),
        Head::number("RECORDS"),
        Head::number("REQUESTS"),
        Head::text("UNITS"),
        Head::text("SEEN SINCE"),
        Head::text("NOTES"),
    ]);
    for pass in passes.iter().rev().take(MOST_PASSES) {
        let started = pass.started_at.to_utc().format("%Y-%m-%d %H:%M");
        let tone = match (pass.failed, pass.word()) {
            (true, _) => Tone::Bad,
            (false, None | Some("no page")) => Tone::Warn,
            (false, Some(_)) => Tone::Good,
        };
        table.row([
            started.to_string().into(),
            pass.job.clone().into(),
            Region::key_of(&pass.region, pass.slice).into(),
            Phrase::toned(pass.word().unwrap_or("unfinished"), tone).into(),
            count(pass.pages).into(),
            count(pass.records).into(),
            count(pass.requests).into(),
            cost(&pass.units).into(),
            records_of(environment, pass),
            pass.notes.clone().unwrap_or_default().into(),
        ]);
    }
    part.blocks.push(table.into());
    if passes.len() > MOST_PASSES {
        part.say(Phrase::toned("Older ones are not shown.", Tone::Quiet));
    }
    part
}

/// The kinds of record of a pass, which lead to those that were seen since it began: of its region, or of all regions where a step
/// fetches ids, since such a request serves several at once.
fn records_of(environment: &Environment, pass: &PassRecord) -> Phrases {
    let mut jobs = environment.config.jobs.iter();
    let job = jobs.find(|job| *job.name == *pass.job);
    let own = Some(&*pass.region).filter(|region| *region != Region::SHARED);
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

/// What a search is asked for; without words, it is the records of a kind.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchFilter {
    #[serde(default)]
    q: String,
    kind: Option<String>,
    region: Option<String>,
    since: Option<String>,
    limit: Option<String>,
    cursor: Option<String>,
}

impl SearchFilter {
    /// The address of the same search with more hits, or of the records behind these.
    fn again(&self, limit: Option<&str>, cursor: Option<&str>) -> PageLink {
        let filters = [
            ("q", Some(&*self.q)),
            ("kind", filled(&self.kind)),
            ("region", filled(&self.region)),
            ("since", filled(&self.since)),
            ("limit", limit),
            ("cursor", cursor),
        ];
        PageLink::to("/search", &filters)
    }
}

/// `GET /search`: records by their words, or all of a kind.
async fn search_page(State(app): State<Arc<App>>, uri: Uri) -> Response {
    let asked = parameters::<SearchFilter>(&uri);
    let usual = SearchFilter::default();
    let filter = asked.as_ref().unwrap_or(&usual);
    let kinds = app.environment.config.kinds();
    let words = format!(
        "<div class=\"words\"><label for=\"q\">Words</label><input type=\"search\" id=\"q\" name=\"q\" value=\"{}\" maxlength=\"1024\" \
         autocomplete=\"off\"></div>",
        escaped(&filter.q)
    );
    let fields = [
        words,
        choice(("kind", "Kind"), &kinds, filled(&filter.kind)),
        choice(
            ("region", "Region"),
            &regions_of(&app.environment),
            filled(&filter.region),
        ),
        field(
            ("since", "Seen within"),
            filled(&filter.since),
            "such as 7d",
        ),
    ];
    let form = form("/search", "Search", &fields);
    let shown = match &asked {
        Ok(asked) => match (asked.q.trim().is_empty(), filled(&asked.kind)) {
            (false, _) => found(&app, asked).await,
            (true, Some(kind)) => records(&app, asked, kind).await,
            (true, None) => Ok(html::html(&hint(&app.environment))),
        },
        Err(problem) => Err(problem.clone()),
    };
    view(&app, "/search", &form, shown)
}

const HINT: &str = "A record is found if it contains all of the words. pupp* stands for every word that begins so; the last word \
                    does so by itself.";

fn hint(environment: &Environment) -> Doc {
    let mut part = Section::default().with(Phrase::toned(HINT, Tone::Quiet));
    part.say_all(environment.config.kinds().into_iter().map(|kind| {
        let all = PageLink::to("/search", &[("kind", Some(kind))]);
        Phrase::linked(format!("All records of kind {kind}"), all)
    }));
    Doc::from_iter([part])
}

async fn found(app: &App, asked: &SearchFilter) -> Result<String, Problem> {
    let is_word = |last: char| last.is_alphanumeric();
    // The last word may still be typed.
    let star = if asked.q.ends_with(is_word) { "*" } else { "" };
    let parameters = SearchParameters {
        q: format!("{}{star}", asked.q),
        kind: asked.kind.clone(),
        region: asked.region.clone(),
        since: asked.since.clone(),
        limit: asked.limit.clone(),
    };
    let arguments = parameters.arguments()?;
    let limit = arguments.limit;
    let results = app
        .read(move |environment| async move { search::find(&environment, &arguments).await })
        .await?;
    let mut doc = Doc::default();
    let mut head = Section::headed(hits(&results, limit));
    // The command names its options there, which are fields on the page.
    let bounded = search::bounded(&results).map(|text| text.replace("--", ""));
    head.say(Phrase::toned(bounded.unwrap_or_default(), Tone::Warn));
    doc.add(head);
    let environment = &app.environment;
    for hit in &results.hits {
        let name = (&*hit.upstream, &*hit.kind, &*hit.id);
        doc.add(Section {
            heading: Some(name_of(environment, name, &hit.body)),
            ..search::hit(hit)
        });
    }
    if results.hits.is_empty() {
        doc.say(Phrase::toned(HINT, Tone::Quiet));
    }
    let more = limit.saturating_mul(5).min(MOST);
    if results.hits.len() == limit as usize && more > limit {
        doc.say(link(
            "Show more",
            asked.again(Some(&more.to_string()), None),
        ));
    }
    Ok(html::html(&doc))
}

fn hits(results: &SearchResults, limit: u32) -> String {
    match results.hits.len() {
        0 => "No record contains these words".to_owned(),
        hits if hits == limit as usize => format!("The best {}", counted(hits as u64, "record")),
        hits => counted(hits as u64, "record"),
    }
}

/// The records of a kind in the order of first sight.
async fn records(app: &App, asked: &SearchFilter, kind: &str) -> Result<String, Problem> {
    let asked_for = RecordsParameters {
        region: asked.region.clone(),
        seen_since: asked.since.clone(),
        limit: asked.limit.clone(),
        cursor: asked.cursor.clone(),
        ..RecordsParameters::default()
    };
    let page = api::records_page(app, kind, &asked_for).await?;
    let mut table = Grid::new([
        Head::text("RECORD"),
        Head::text("ID"),
        Head::text("LAST SEEN"),
    ]);
    for record in &page.records {
        let body = serde_json::from_str(&record.body).unwrap_or_default();
        let StoredRecord { upstream, id, .. } = record;
        let name = name_of(&app.environment, (upstream, kind, id), &body);
        table.row([
            link(&name, PageLink::record(upstream, kind, id)),
            id.clone().into(),
            instant(record.last_seen).into(),
        ]);
    }
    let number = counted(page.records.len() as u64, "record");
    let mut part = Section::headed(match page.more {
        true => format!("The first {number}"),
        false => number,
    });
    part.blocks.push(table.into());
    if let Some(last) = page.records.last().filter(|_| page.more) {
        let next = asked.again(filled(&asked.limit), Some(&last.position.to_string()));
        part.say(link("The next records in the order of first sight", next));
    }
    let shape = |shape| {
        let filters = [
            ("as", Some(shape)),
            ("region", filled(&asked.region)),
            ("seen_since", filled(&asked.since)),
        ];
        Phrase::linked(
            shape.to_uppercase(),
            PageLink::to(&format!("/api/v1/records/{kind}"), &filters),
        )
    };
    part.say(
        Phrases::from("These records as ")
            .and(shape("csv"))
            .and(" or ")
            .and(shape("ndjson")),
    );
    Ok(html::part(&part))
}

/// What people call a record: the first of its texts; its id if it has none.
fn name_of(
    environment: &Environment,
    (upstream, kind, id): (&str, &str, &str),
    body: &Value,
) -> String {
    let upstream = environment.config.upstreams.get(upstream);
    let calls = upstream.into_iter().flat_map(|one| one.calls.values());
    let records = calls.filter_map(|call| call.records.as_deref());
    let texts = records
        .filter(|records| records.kind == kind)
        .flat_map(|records| &records.text);
    let mut texts = texts.filter_map(|at| at.find(body)?.as_str());
    let name = texts.find(|text| !text.trim().is_empty()).map(one_line);
    name.unwrap_or_else(|| id.to_owned())
}

/// The columns that a record has values for.
fn columns_of<'c>(
    columns: &'c BTreeMap<String, Vec<Pointer>>,
    body: &Value,
) -> Vec<(&'c str, String)> {
    let values = columns.iter().filter_map(|(name, places)| {
        let found = |at: &Pointer| at.find(body).filter(|value| !value.is_null()).cloned();
        let text = match places.iter().find_map(found)? {
            Value::String(text) => text,
            value => value.to_string(),
        };
        Some((name.as_str(), text))
    });
    values.collect()
}

/// The record that is asked for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordFilter {
    kind: String,
    id: String,
    upstream: Option<String>,
}

/// `GET /record`: one record, with its columns as the configuration names them.
async fn record_page(State(app): State<Arc<App>>, uri: Uri) -> Response {
    let shown = record(&app, &uri).await;
    titled(&app, "/search", ("Record", ""), shown)
}

async fn record(app: &App, uri: &Uri) -> Result<(String, String), Problem> {
    let RecordFilter { kind, id, upstream } = parameters(uri)?;
    let record = api::one_record(app, kind, id, upstream).await?;
    let body = serde_json::from_str(&record.body).unwrap_or_default();
    let StoredRecord {
        upstream, kind, id, ..
    } = &record;
    let title = name_of(&app.environment, (upstream, kind, id), &body);
    let columns = export::columns(&app.environment, kind).unwrap_or_default();
    let columns = columns_of(&columns, &body).into_iter();
    let columns = columns.map(|(name, value)| (name, Phrase::found(&value)));
    let mut of_all: Vec<(&str, Phrase)> = vec![
        ("Upstream", upstream.into()),
        ("Kind", kind.into()),
        ("Id", id.into()),
        ("First seen", instant(record.first_seen).into()),
        ("Last seen", instant(record.last_seen).into()),
    ];
    of_all.extend(record.gone_at.map(|at| ("Gone since", instant(at).into())));
    let text = serde_json::to_string_pretty(&body).unwrap_or_default();
    let mut source = Section::headed("As the upstream returned it");
    source.blocks.push(DocBlock::Source(text));
    let doc = Doc::from_iter([
        named("Columns", columns),
        named("In the catalog", of_all.into_iter()),
        source,
    ]);
    Ok((title, html::html(&doc)))
}

/// Names and what they stand for.
fn named<'n>(heading: &str, all: impl Iterator<Item = (&'n str, Phrase)>) -> Section {
    let mut table = Grid::new([Head::text("NAME"), Head::text("VALUE")]);
    all.for_each(|(name, value)| table.row([name.into(), value.into()]));
    let mut part = Section::headed(heading);
    if !table.rows.is_empty() {
        part.blocks.push(table.into());
    }
    part
}

/// What a plan is asked for.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanFilter {
    region: Option<String>,
    job: Option<String>,
    schedule: Option<String>,
    days: Option<String>,
}

/// The days that a forecast looks ahead. Fewer than in the command, since a page has a deadline.
const USUAL_DAYS: u32 = 2;
/// The most days that a forecast looks ahead, as in the command.
const MOST_DAYS: u32 = 60;

/// `GET /plan`: what the next run would spend, and what a schedule leads to.
async fn plan_page(State(app): State<Arc<App>>, uri: Uri) -> Response {
    let asked = parameters::<PlanFilter>(&uri);
    let usual = PlanFilter::default();
    let filter = asked.as_ref().unwrap_or(&usual);
    let fields = [
        field(
            ("region", "Regions"),
            filled(&filter.region),
            "all, or such as US,GB",
        ),
        field(("job", "Jobs"), filled(&filter.job), "all"),
        field(
            ("schedule", "Schedule"),
            filled(&filter.schedule),
            "such as hourly",
        ),
        field(
            ("days", "Days ahead"),
            filled(&filter.days),
            &USUAL_DAYS.to_string(),
        ),
    ];
    let form = form("/plan", "Show", &fields);
    let shown = match &asked {
        Ok(asked) => planned(&app, asked).await,
        Err(problem) => Err(problem.clone()),
    };
    view(&app, "/plan", &form, shown)
}

async fn planned(app: &App, asked: &PlanFilter) -> Result<String, Problem> {
    let parameters = PlanParameters {
        region: asked.region.clone(),
        job: asked.job.clone(),
    };
    let (regions, jobs) = parameters.selected();
    let days = api::number("days", asked.days.as_deref(), USUAL_DAYS)?;
    if days > MOST_DAYS {
        let detail = format!("days: expected a number from 1 to {MOST_DAYS}");
        return Err(Problem::bad_request(detail));
    }
    let mut doc = api::plan(app, parameters).await?.doc();
    let Some(schedule) = filled(&asked.schedule).filter(|text| !text.trim().is_empty()) else {
        let enter = "Enter a schedule to see what its runs spend over the days ahead, and where a limit stops them.";
        doc.say(Phrase::toned(enter, Tone::Quiet));
        return Ok(html::html(&doc));
    };
    let arguments = ForecastArgs {
        schedule: schedule.to_owned(),
        days,
        regions,
        jobs,
        concurrency: api::CONCURRENCY,
    };
    // The rest of the deadline is for what the simulation starts from.
    let within: Duration = app.environment.config.serve.query_timeout / 2;
    let forecast = app.simulate(move |environment| async move {
        forecast::report(&environment, &arguments, Some(within)).await
    });
    let forecast = forecast.await?;
    let mut ahead = forecast.doc();
    if let (true, Some(head)) = (forecast.cut, ahead.parts.first_mut()) {
        let cut = "This page has no time for more than this; `ingest forecast` has all of it.";
        head.say(Phrase::toned(cut, Tone::Warn));
    }
    doc.parts.extend(ahead.parts);
    Ok(html::html(&doc))
}
