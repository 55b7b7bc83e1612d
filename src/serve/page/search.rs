//! Records by their words, or all of a kind.

use std::sync::Arc;

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use serde::Deserialize;
use serde_json::Value;

use super::form::{choice, field, form, link, regions_of};
use super::view;
use crate::commands::environment::Environment;
use crate::commands::figures::{counted, instant};
use crate::commands::search;
use crate::doc::html::{self, escaped};
use crate::doc::{Doc, Grid, Head, PageLink, Phrase, Phrases, Section, Tone};
use crate::serve::App;
use crate::serve::api::{self, RecordsParameters, SearchParameters};
use crate::serve::problem::Problem;
use crate::serve::query::{Filled, MOST, parameters};
use ingest_base::plain::one_line;
use ingest_catalog::{SearchResults, StoredRecord};

/// What a search is asked for; without words, it is the records of a kind.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchFilter {
    #[serde(default)]
    q: String,
    kind: Filled,
    region: Filled,
    since: Filled,
    limit: Filled,
    cursor: Filled,
}

impl SearchFilter {
    /// The address of the same search with more hits, or of the records behind these.
    fn again(&self, limit: Option<&str>, cursor: Option<&str>) -> PageLink {
        let filters = [
            ("q", Some(&*self.q)),
            ("kind", self.kind.get()),
            ("region", self.region.get()),
            ("since", self.since.get()),
            ("limit", limit),
            ("cursor", cursor),
        ];
        PageLink::to("/search", &filters)
    }
}

/// `GET /search`: records by their words, or all of a kind.
pub async fn search_page(State(app): State<Arc<App>>, uri: Uri) -> Response {
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
        choice(("kind", "Kind"), &kinds, filter.kind.get()),
        choice(
            ("region", "Region"),
            &regions_of(&app.environment),
            filter.region.get(),
        ),
        field(
            ("since", "Seen within"),
            filter.since.get(),
            "such as 7d or 2026-11-01",
        ),
    ];
    let form = form("/search", "Search", &fields);
    let shown = match &asked {
        Ok(asked) => match (asked.q.trim().is_empty(), asked.kind.get()) {
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
    let page = api::records_page(app, kind, &asked_for).await;
    let page = page.map_err(|problem| Problem {
        // The field of the page, which the API has under another name.
        detail: problem.detail.replacen("seen_since: ", "since: ", 1),
        ..problem
    })?;
    let linked = |record: &StoredRecord| {
        let body = serde_json::from_str(&record.body).unwrap_or_default();
        let (upstream, id) = (&record.upstream, &record.id);
        let name = name_of(&app.environment, (upstream, kind, id), &body);
        link(&name, PageLink::record(upstream, kind, id))
    };
    let table = Grid::of(&page.records)
        .column(Head::text("RECORD"), linked)
        .column(Head::text("ID"), |record| &record.id)
        .column(Head::text("LAST SEEN"), |record| instant(record.last_seen));
    let number = counted(page.records.len() as u64, "record");
    let mut part = Section::headed(match (page.more, asked.cursor.get()) {
        (true, None) => format!("The first {number}"),
        (true, Some(_)) => format!("The next {number}"),
        (false, None) => number,
        (false, Some(_)) => format!("The last {number}"),
    })
    .with_piece(table);
    if let Some(last) = page.records.last().filter(|_| page.more) {
        let next = asked.again(asked.limit.get(), Some(&last.position.to_string()));
        part.say(link("The next records in the order of first sight", next));
    }
    let shape = |shape| {
        let filters = [
            ("as", Some(shape)),
            ("region", asked.region.get()),
            ("seen_since", asked.since.get()),
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
pub fn name_of(
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
