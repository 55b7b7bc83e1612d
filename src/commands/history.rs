//! `ingest history`: passes and spend by day, job and region, from the catalog and the ledger.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::environment::Environment;
use super::figures::{cost, count};
use super::groups::{Group, grouped};
use super::output::Message;
use super::refill::recorded_ledger;
use super::slices::{self, Said};
use super::{Error, output};
use crate::cli::{Global, HistoryArgs};
use crate::doc::{Doc, Grid, Head, PageLink, Phrase, Phrases, Section};
use crate::exit::Exit;
use crate::review::doubt_in_words;
use ingest_base::record::Doubted;
use ingest_catalog::{PassEnd, PassRecord};
use ingest_config::Region;
use ingest_ledger::{ChargeSource, Origin, Spent};
use ingest_quota::{Cost, LimitName, Timestamp, Units};

/// The result of `history`.
#[derive(Debug, Serialize)]
pub struct History {
    pub since: Timestamp,
    pub rows: Vec<HistoryRow>,
}

/// Passes and spend of one region of a job in one UTC day. What no job charged has neither job nor region, but an origin.
#[derive(Debug, Default, Serialize)]
pub struct HistoryRow {
    pub day: String,
    pub account: String,
    pub job: Option<String>,
    pub region: Option<String>,
    pub origin: Origin,
    /// Passes that began, and how many of them are complete.
    pub passes: u64,
    pub complete: u64,
    /// How many of them are doubtful, and why.
    pub doubtful: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<Doubted>,
    /// What the passes noticed, each once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    pub pages: u64,
    pub records: u64,
    pub requests: u64,
    pub units: BTreeMap<LimitName, u64>,
}

type Key = (String, String, Option<String>, Option<String>, Origin);

/// Shows passes and spend.
pub async fn history(global: &Global, args: &HistoryArgs) -> Result<Exit, Error> {
    let environment = Environment::load(global)?;
    environment.expect_state_dir(global)?;
    let shown = &args.shown;
    environment
        .expect_stored(&shown.jobs, &shown.regions)
        .await?;
    let mut history = report(&environment, args.since.at(environment.clock.now())).await?;
    history
        .rows
        .retain(|row| shown.wants(row.job.as_deref(), row.region.as_deref()));
    output::report(global, &history, |screen| {
        Message::Result(history.doc(shown.all).text(screen))
    })?;
    Ok(Exit::Success)
}

/// Returns the passes and the spend since then.
pub async fn report(environment: &Environment, since: Timestamp) -> Result<History, Error> {
    let passes = environment.reader().await?.history(since).await?;
    let ledger = recorded_ledger(environment)?;
    let mut rows = BTreeMap::new();
    let (mut in_ledger, mut charged_by) = (BTreeSet::new(), BTreeMap::new());
    for account in environment.accounts() {
        let spending = ledger.spent(&account, since).await?;
        let jobs = spending
            .charges
            .iter()
            .filter_map(|spent| spent.purpose.job.clone());
        charged_by.extend(jobs.map(|job| (job, account.name.clone())));
        let whole = spending.source == ChargeSource::Ledger;
        in_ledger.extend(whole.then(|| account.name.clone()));
        // The journal keeps two windows, the catalog keeps all passes: only charges that no pass covers come from the journal.
        let charges = spending
            .charges
            .iter()
            .filter(|spent| whole || spent.purpose.job.is_none());
        charges.for_each(|spent| add_spent(&mut rows, &account.name, spent));
    }
    for pass in &passes {
        // The catalog keeps passes of jobs that the configuration has no longer: then the charges say whose they were.
        let charged = || charged_by.get(&pass.job).map(String::as_str);
        let account = environment.config.account_of(&pass.job).or_else(charged);
        let account = account.unwrap_or_default();
        add_pass(&mut rows, account, pass, in_ledger.contains(account));
    }
    Ok(History {
        since,
        rows: rows.into_values().collect(),
    })
}

fn row<'r>(
    rows: &'r mut BTreeMap<Key, HistoryRow>,
    at: Timestamp,
    account: &str,
    (job, region, origin): (Option<&str>, Option<&str>, Origin),
) -> &'r mut HistoryRow {
    let day = at.to_utc().format("%Y-%m-%d").to_string();
    let (job, region) = (job.map(str::to_owned), region.map(str::to_owned));
    let (account, names) = (account.to_owned(), (job.clone(), region.clone()));
    let key = (day.clone(), account.clone(), names.0, names.1, origin);
    rows.entry(key).or_insert_with(|| HistoryRow {
        day,
        account,
        job,
        region,
        origin,
        ..HistoryRow::default()
    })
}

fn add_spent(rows: &mut BTreeMap<Key, HistoryRow>, account: &str, spent: &Spent) {
    let (job, region) = (&spent.purpose.job, &spent.purpose.region);
    let whose = (job.as_deref(), region.as_deref(), spent.origin);
    let row = row(rows, spent.at, account, whose);
    let units = row.units.entry(spent.limit.clone()).or_default();
    *units = units.saturating_add(spent.units.get());
}

/// Takes the spend from the ledger where it has the charges: it also has those of requests that landed nothing.
fn add_pass(
    rows: &mut BTreeMap<Key, HistoryRow>,
    account: &str,
    pass: &PassRecord,
    ledger_tells: bool,
) {
    let whose = (Some(&*pass.job), Some(&*pass.region), Origin::Charged);
    let row = row(rows, pass.started_at, account, whose);
    row.passes += 1;
    row.complete += u64::from(pass.outcome == Some(PassEnd::Complete));
    row.doubtful += u64::from(pass.outcome == Some(PassEnd::Doubtful));
    for doubt in &pass.doubts {
        if row.doubts.iter().all(|known| known.text != doubt.text) {
            row.doubts.push(doubt.clone());
        }
    }
    // The notes of a doubtful pass begin with its doubts.
    let notes = pass.notes.iter().filter(|_| pass.doubts.is_empty());
    for note in notes {
        if !row.notes.contains(note) {
            row.notes.push(note.clone());
        }
    }
    row.pages = row.pages.saturating_add(pass.pages);
    row.records = row.records.saturating_add(pass.records);
    row.requests = row.requests.saturating_add(pass.requests);
    for (limit, spent) in pass.units.iter().filter(|_| !ledger_tells) {
        let units = row.units.entry(limit.clone()).or_default();
        *units = units.saturating_add(spent.get());
    }
}

impl History {
    /// The history in words: a part for each day, the oldest first.
    pub fn doc(&self, all: bool) -> Doc {
        let mut doc = Doc::default();
        if self.rows.is_empty() {
            doc.say("Nothing was fetched or charged in this period.");
        }
        let days = self.rows.chunk_by(|one, next| one.day == next.day);
        days.for_each(|rows| doc.add(day(rows, all)));
        doc
    }
}

fn day(rows: &[HistoryRow], all: bool) -> Section {
    let groups = groups(rows, all || rows.len() <= MOST_ROWS);
    let complete = |group: &Group<'_, HistoryRow>| match group.sum(|row| row.passes) {
        0 => "-".to_owned(),
        passes => format!(
            "{} of {}",
            count(group.sum(|row| row.complete)),
            count(passes)
        ),
    };
    let units = |row: &HistoryRow| -> Cost {
        let units = row.units.iter();
        units
            .map(|(limit, sum)| (limit.clone(), Units::new(*sum)))
            .collect()
    };
    let table = Grid::of(&groups)
        .column(Head::text("JOB"), |group| whose(group, rows))
        .column(Head::text("REGION"), |group| regions(&group.all))
        .column(Head::text("COMPLETE"), complete)
        .column(Head::number("PAGES").spare(0), |group| {
            count(group.sum(|row| row.pages))
        })
        .column(Head::number("RECORDS").spare(2), |group| {
            count(group.sum(|row| row.records))
        })
        .column(Head::number("REQUESTS").spare(1), |group| {
            count(group.sum(|row| row.requests))
        })
        .column(Head::text("UNITS"), |group| cost(&group.cost(units)));
    let day = rows.first().map_or("", |row| &row.day);
    let mut part = Section {
        is_headed: true,
        ..Section::headed(format!("{day} (UTC)")).with_piece(table)
    };
    part.say_all(slices::said(rows.iter().flat_map(said)));
    part
}

/// The job of rows, which leads to its passes; with the account where the job charged several that day.
fn whose(group: &Group<'_, HistoryRow>, day: &[HistoryRow]) -> Phrases {
    let first = group.first;
    let of_others = |row: &HistoryRow| row.job == first.job && row.account != first.account;
    let whose = first.origin.whose(first.job.as_deref());
    let whose = match day.iter().any(of_others) {
        true => format!("{whose} ({})", first.account),
        false => whose.to_owned(),
    };
    let region = first.region.as_deref().filter(|_| group.all.len() == 1);
    match &first.job {
        Some(job) => Phrase::linked(whose, PageLink::passes(job, region)).into(),
        None => whose.into(),
    }
}

fn regions(group: &[&HistoryRow]) -> Phrases {
    if group.iter().all(|row| row.region.is_none()) {
        return "-".into();
    }
    let regions = group.iter().filter_map(|row| row.region.as_deref());
    slices::named_or_counted(regions.map(|region| (region, None)))
}

/// Of more regions in a day, those of a job are one row.
const MOST_ROWS: usize = 40;

/// Puts the regions of each job together, its batches apart, unless each is a row.
fn groups(rows: &[HistoryRow], each: bool) -> Vec<Group<'_, HistoryRow>> {
    fn key(row: &HistoryRow) -> impl Ord {
        let is_shared = row.region.as_deref() == Some(Region::SHARED);
        (&*row.account, &row.job, row.origin, is_shared)
    }
    let mut sorted: Vec<&HistoryRow> = rows.iter().collect();
    if !each {
        sorted.sort_by(|one, other| key(one).cmp(&key(other)));
    }
    grouped(sorted, |one, other| !each && key(one) == key(other))
}

/// Returns each doubt and each note of a row.
fn said(row: &HistoryRow) -> impl Iterator<Item = Said<'_>> {
    let (job, region) = (row.job.as_deref(), row.region.as_deref());
    let doubts = row.doubts.iter().map(doubt_in_words);
    let lines = doubts.chain(row.notes.iter().cloned());
    lines.map(move |line| (job.unwrap_or_default(), (region.unwrap_or("-"), None), line))
}
