//! The document, read into checked types.

use std::path::Path;
use std::sync::Arc;

use super::Config;
use super::catalog::{CATALOG, CatalogConfig};
use super::check;
use super::credential::{self, CREDENTIAL};
use super::declare::{
    Keys, Later, Named as ByName, Optional, Or, Place, Required, Shape, Type, keys, name, table,
};
use super::error::Problem;
use super::item::{Document, Item};
use super::job::{self, JOB};
use super::ledger::{LEDGER, LedgerConfig};
use super::names::Named;
use super::region::{REGIONS, Region};
use super::region_source;
use super::serve::{SERVE, ServeConfig};
use super::set;
use super::tree::Node;
use super::upstream::Upstream;

keys! {
    partial struct Root {
        /// The partitions that jobs walk: a list of codes, or a table of regions with values, which templates use by their names:
        /// `[regions.GB]` with `city = "London"` is used as `{city}`. Or where to read them from: `{ file = "places.csv" }`. If unset, each job makes one pass, whose region is shown as `-`.
        regions: Option<Vec<Arc<Region>>> = Optional(REGIONS, "['US', 'GB', 'DE']"),
        /// Where charges are recorded.
        ledger: LedgerConfig = Or(LEDGER, "{}", "{ url = 'sqlite', timeout = '1s' }"),
        /// Where pages are stored.
        catalog: CatalogConfig = Or(CATALOG, "{}", "{ url = 'sqlite' }"),
        /// The server of `ingest serve`: a page, a read API, and charging over HTTP.
        serve: ServeConfig = Or(SERVE, "{}", "{ listen = '127.0.0.1:8080' }"),
        /// The APIs, by name.
        upstreams: Place = Required(Later(ByName(table::<Upstream>(), "NAME")), "{ things = { base_url = 'https://api.example.com/v1', calls = { 'things.list' = { path = 'things', cost = 1 } } } }"),
        /// Secrets, and the accounts whose quota they use, by name.
        credentials: Option<Place> = Optional(Later(ByName(CREDENTIAL, "NAME")), "{ things = { upstream = 'things', secret = { env = 'THINGS_KEY' } } }"),
        /// What to fetch for each region, by name.
        jobs: Option<Place> = Optional(Later(ByName(JOB, "NAME")), "{ popular = { credential = 'things', steps = [{ call = 'things.list' }] } }"),
    }
}

/// Reads a configuration, or says everything that is wrong with it.
pub fn config(text: &str, path: &Path, sets: &[String]) -> Result<Config, Vec<Problem>> {
    let mut root =
        Node::parse(text).map_err(|error| vec![set::not_toml(path, error.line, &error.message)])?;
    for set in sets {
        // The first that fails ends the reading: the document that was meant is not known.
        set::apply(&mut root, set).map_err(|problem| vec![problem])?;
    }
    let mut document = Document::new(path.to_owned(), root);
    // Before anything is read: what a file lists is then checked as if the document had it.
    match region_source::listed(&document) {
        Ok(Some(regions)) => document.root.put("regions", regions),
        Ok(None) => {}
        Err(()) => return Err(document.into_problems()),
    }
    let config = sections(&document);
    match &config {
        Some(Sections { config, .. }) if document.is_right() => {
            check::config(config, &document.item());
        }
        Some(Sections {
            config,
            regions_are_right,
        }) => check::some(config, *regions_are_right, &document.item()),
        None => {}
    }
    match config.map(|sections| sections.config) {
        Some(config) if document.is_right() => Ok(config),
        _ => Err(document.into_problems()),
    }
}

/// The tables that are right.
struct Sections {
    config: Config,
    regions_are_right: bool,
}

/// Every section by itself; what makes no sense together is left to `check`. Sections that are wrong are the default ones.
fn sections(document: &Document) -> Option<Sections> {
    let item = document.item();
    let root = table::<Root>().read(item.clone())?;
    let blank = Document::new(document.file.clone(), Node::parse("").ok()?);
    let default = table::<Root>().read(blank.item())?;
    let upstreams = root.upstreams.and_then(|place| some(place.item(&item)?));
    let upstreams = Named::read(upstreams.unwrap_or_default(), |item| {
        table::<Upstream>().read(item.clone())
    });
    let regions = root.regions.map(Option::unwrap_or_default);
    let credentials = credential::all(
        names_of(root.credentials, &item),
        &upstreams,
        regions.as_deref().unwrap_or_default(),
    );
    let known = job::Known {
        regions: regions.as_deref().unwrap_or_default(),
        credentials: &credentials,
    };
    let jobs: Vec<_> = names_of(root.jobs, &item)
        .into_iter()
        .filter_map(|item| job::job(item, &known))
        .collect();
    let regions_are_right = regions.is_some();
    let config = Config {
        path: document.file.clone(),
        regions: regions.unwrap_or_default(),
        ledger: root.ledger.or(default.ledger)?,
        catalog: root.catalog.or(default.catalog)?,
        serve: root.serve.or(default.serve)?,
        upstreams: upstreams.right,
        credentials: credentials.right,
        jobs: jobs.into_iter().map(Into::into).collect(),
    };
    Some(Sections {
        config,
        regions_are_right,
    })
}

/// The JSON schema of the whole file, and its description for the manual.
pub fn shape() -> Shape {
    Shape::table(Root::keys())
}

/// The entries of a table by names, if it is present.
fn names_of<'a>(table: Option<Option<Place>>, root: &Item<'a>) -> Vec<Item<'a>> {
    let item = table.flatten().and_then(|place| place.item(root));
    item.and_then(named).unwrap_or_default()
}

/// The entries of a table whose keys are names.
fn named(item: Item<'_>) -> Option<Vec<Item<'_>>> {
    let entries = item.entries()?;
    let named = entries.iter().all(|entry| name(entry).is_some());
    named.then_some(entries)
}

/// At least one entry: without an upstream, nothing could ever be requested.
fn some(item: Item<'_>) -> Option<Vec<Item<'_>>> {
    match named(item.clone())? {
        entries if entries.is_empty() => item.refuse(
            "expected at least one",
            "add [upstreams.NAME] with base_url and calls",
        ),
        entries => Some(entries),
    }
}
