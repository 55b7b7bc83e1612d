//! `/plan`: what the next run would spend.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use maud::{Markup, html};

use super::{table, view};
use crate::commands::table::{count, instant, span};
use crate::plain::plain;
use crate::run::{Fits, LimitPreview, Preview, Range};
use crate::serve::App;
use crate::serve::api::{self, PlanParameters, parameters};
use crate::serve::problem::Problem;

/// `GET /plan`
pub async fn page(State(app): State<Arc<App>>, uri: Uri, headers: HeaderMap) -> Response {
    let content = content(&app, &uri).await;
    view(&headers, "/plan", content)
}

async fn content(app: &App, uri: &Uri) -> Result<Markup, Problem> {
    let parameters: PlanParameters = parameters(uri)?;
    let (region, job) = (parameters.region.clone(), parameters.job.clone());
    let preview = api::plan(app, parameters).await?;
    let query = uri.query().map(|query| format!("?{query}"));
    Ok(html! {
        form method="get" action="/plan" {
            (field("region", "Regions, or all", region.as_deref().unwrap_or("all")))
            (field("job", "Jobs; all if empty", job.as_deref().unwrap_or_default()))
            div { button type="submit" { "Show" } }
        }
        (shown(&preview))
        p class="quiet" { a href=(format!("/plan.json{}", query.unwrap_or_default())) { "JSON" } }
    })
}

fn field(name: &str, label: &str, value: &str) -> Markup {
    html! {
        div {
            label for=(name) { (label) }
            input type="text" id=(name) name=(name) value=(value);
        }
    }
}

fn shown(preview: &Preview) -> Markup {
    let due: Vec<_> = preview
        .steps
        .iter()
        .filter(|step| step.due && step.requests.max != Some(0))
        .collect();
    html! {
        @if due.is_empty() {
            p { "Nothing is due." }
        } @else {
            (table("What the next run would request; nothing is charged", &["Job", "Region", "Call", "Requests", "Units"], &html! {
                @for step in due {
                    @let units: Vec<String> = step.units.iter().map(|(limit, units)| format!("{} {limit}", range(*units))).collect();
                    tr {
                        td { (plain(&step.job)) } td { (plain(&step.region)) } td { (plain(&step.call)) }
                        td { (range(step.requests)) } td { (plain(&units.join(", "))) }
                    }
                }
            }))
            p class="quiet" { "Retries are not included; each further attempt at a failed request is charged too." }
        }
        h2 { "Limits" }
        (table("What the next run would leave", &["Account", "Limit", "Left", "At least", "Expected", "At most", "Fits"], &html! {
            @for limit in &preview.limits { (limit_shown(limit)) }
        }))
    }
}

fn limit_shown(limit: &LimitPreview) -> Markup {
    let (class, fits) = match limit.fits {
        Fits::All => ("good", "yes"),
        Fits::Part => ("warn", "in part"),
        Fits::None => ("bad", "not now"),
        Fits::Unknown => ("bad", "unknown: no ledger"),
    };
    html! {
        tr {
            td { (plain(&limit.account)) } td { (plain(&limit.limit)) }
            td class="number" { (limit.remaining.map_or_else(|| "?".to_owned(), |units| count(units.get()))) }
            td class="number" { (count(limit.units.min)) } td class="number" { (count(limit.units.expected)) }
            td class="number" { (limit.units.max.map_or_else(|| "unbounded".to_owned(), count)) }
            td class=(class) { (fits)
                @if let Some(first) = &limit.first_unfit {
                    ": stops at " (plain(&first.call)) " of " (plain(&first.job)) " " (plain(&first.region))
                    "; fits in " (span(first.retry_after)) " (" (instant(first.retry_at)) ")"
                }
            }
        }
    }
}

/// `4`, or `1 to 4, expected 2`
fn range(range: Range) -> String {
    if range == Range::exactly(range.expected) {
        return count(range.expected);
    }
    let most = range.max.map_or_else(|| "any number".to_owned(), count);
    format!(
        "{} to {most}, expected {}",
        count(range.min),
        count(range.expected)
    )
}
