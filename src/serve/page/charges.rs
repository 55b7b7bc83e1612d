//! `/limit`: the charges that count for a limit, newest first.

use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;

use super::Reader;
use super::table::{Cell, table};
use crate::commands::refill::recorded_ledger;
use crate::commands::table::counted;
use crate::serve::App;
use crate::serve::problem::Problem;
use ingest_base::plain::plain;
use ingest_ledger::{Origin, Spent};
use ingest_quota::{LimitName, Timestamp, Units};

/// The most charges that one page lists.
const MOST_CHARGES: usize = 200;

/// The limit that is asked for.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChargesQuery {
    account: String,
    limit: String,
}

/// What the view shows.
pub struct Charges {
    account: String,
    limit: LimitName,
    /// Charges count that are as new as this or newer.
    counted_from: Timestamp,
    /// How many count.
    charges: u64,
    /// Their units.
    units: Units,
    /// The newest of them.
    newest: Vec<ChargeShown>,
}

/// A charge.
struct ChargeShown {
    at: Timestamp,
    job: Option<String>,
    region: Option<String>,
    call: String,
    origin: Origin,
    /// The number of charges that took the units: more than one where old charges were merged.
    charges: u64,
    units: Units,
}

impl From<&Spent> for ChargeShown {
    fn from(spent: &Spent) -> Self {
        Self {
            at: spent.at,
            job: spent.purpose.job.clone(),
            region: spent.purpose.region.clone(),
            call: spent.purpose.call.clone(),
            origin: spent.origin,
            charges: spent.charges,
            units: spent.units,
        }
    }
}

/// `GET /limit`
pub async fn page(reader: Reader) -> Response {
    let content = content(&reader).await;
    reader.page_below("/", content)
}

async fn content(reader: &Reader) -> Result<(String, Markup), Problem> {
    let charges = charges(&reader.app, reader.filters()?).await?;
    let title = format!("Charges of {}/{}", charges.account, charges.limit);
    Ok((plain(&title), shown(reader, &charges)))
}

async fn charges(app: &App, asked: ChargesQuery) -> Result<Charges, Problem> {
    let accounts = app.environment.accounts();
    let account = accounts.into_iter().find(|one| one.name == asked.account);
    let limit = account.as_ref().and_then(|account| {
        let mut limits = account.limits.iter();
        limits.find(|(name, _)| **name == asked.limit)
    });
    let limit = limit.map(|(name, limit)| (name.clone(), *limit.window()));
    let (Some(account), Some((limit, window))) = (account, limit) else {
        let detail = "no limit of an account has these names";
        return Err(Problem::new(StatusCode::NOT_FOUND, detail));
    };
    app.read(move |environment| async move {
        let counted_from = window.counted_from(environment.clock.now());
        let ledger = recorded_ledger(&environment)?;
        let mut counted = ledger.spent(&account, counted_from).await?.charges;
        counted.retain(|one| one.limit == limit && one.at >= counted_from);
        counted.sort_by_key(|one| std::cmp::Reverse(one.at));
        let units = counted.iter().map(|one| one.units.get());
        Ok(Charges {
            account: account.name.clone(),
            charges: counted.iter().map(|one| one.charges).sum(),
            units: Units::new(units.fold(0, u64::saturating_add)),
            newest: counted
                .iter()
                .take(MOST_CHARGES)
                .map(ChargeShown::from)
                .collect(),
            limit,
            counted_from,
        })
    })
    .await
}

fn shown(reader: &Reader, charges: &Charges) -> Markup {
    let rows = charges.newest.iter().map(|one| charge_row(reader, one));
    html! {
        p {
            (counted(charges.units.get(), "unit")) " by " (counted(charges.charges, "charge"))
            " count, those since " (reader.time(charges.counted_from)) "."
        }
        @if !charges.newest.is_empty() {
            (table("The newest charges first", &["Charged", "Job", "Region", "Call", "Units"], rows.collect()))
        }
        @if charges.newest.len() >= MOST_CHARGES { p class="quiet" { "Older ones are not shown." } }
    }
}

fn charge_row(reader: &Reader, one: &ChargeShown) -> Vec<Cell> {
    let region = one.region.as_deref();
    let passes = [("job", one.job.as_deref()), ("region", region)];
    let whose = one.origin.whose(one.job.as_deref());
    let job = html! {
        @if one.job.is_some() { a href=(reader.to("/history", &passes)) { (plain(whose)) } } @else { (plain(whose)) }
        @if one.charges > 1 { ", " (counted(one.charges, "charge")) }
    };
    vec![
        Cell::new("", reader.time(one.at)),
        Cell::new("", job),
        Cell::text(region.unwrap_or_default()),
        Cell::text(&one.call),
        Cell::number(one.units.get()),
    ]
}
