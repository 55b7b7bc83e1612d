//! The document, read into checked types.

pub mod call;
pub mod credential;
pub mod job;
pub mod ledger;
pub mod notify;
pub mod paging;
pub mod region;
pub mod rules;
pub mod scalars;
pub mod upstream;

use std::path::Path;

use super::check;
use super::error::Problem;
use super::item::{Document, Item};
use super::names::Named;
use super::set;
use super::tree::Node;
use super::{Config, LedgerConfig, Notify};

pub const SECTIONS: [&str; 7] = [
    "regions",
    "ledger",
    "catalog",
    "notify",
    "upstreams",
    "credentials",
    "jobs",
];

/// Reads a configuration, or says everything that is wrong with it.
pub fn config(text: &str, path: &Path, sets: &[String]) -> Result<Config, Vec<Problem>> {
    let mut root =
        Node::parse(text).map_err(|error| vec![set::not_toml(path, error.line, &error.message)])?;
    for set in sets {
        set::apply(&mut root, set).map_err(|problem| vec![problem])?;
    }
    let document = Document::new(path.to_owned(), root);
    let config = sections(&document);
    if let Some(config) = &config {
        check::config(config, &document.item());
    }
    match config {
        Some(config) if document.is_right() => Ok(config),
        _ => Err(document.into_problems()),
    }
}

/// Everything that was written well; what only makes no sense together is left to `check`.
fn sections(document: &Document) -> Option<Config> {
    let root = document.item().table(&SECTIONS)?;
    let regions = root.or("regions", Vec::new(), |item| region::all(&item));
    let ledger = root.or("ledger", LedgerConfig::default(), ledger::ledger);
    let catalog = root.or("catalog", (), ledger::catalog);
    let notify = root.or("notify", Notify::default(), notify::notify);
    let upstreams = root.required(
        "upstreams",
        "{ name = { base_url = \"https://...\", calls = { ... } } }",
        some,
    );
    let upstreams = Named::read(upstreams.unwrap_or_default(), |item| {
        upstream::upstream(item.clone())
    });
    let credentials = credential::all(
        root.or("credentials", Vec::new(), named)
            .unwrap_or_default(),
        &upstreams,
    );
    let jobs = root.or("jobs", Vec::new(), named).unwrap_or_default();
    let known = job::Known {
        regions: regions.as_deref().unwrap_or_default(),
        credentials: &credentials,
    };
    let jobs: Vec<_> = jobs
        .into_iter()
        .filter_map(|item| job::job(item, &known))
        .collect();
    let () = catalog?;
    let config = Config {
        path: document.file.clone(),
        regions: regions?,
        ledger: ledger?,
        notify: notify?,
        upstreams: upstreams.right,
        credentials: credentials.right,
        jobs: jobs.into_iter().map(Into::into).collect(),
    };
    document.is_right().then_some(config)
}

/// The entries of a table of things with names.
fn named(item: Item<'_>) -> Option<Vec<Item<'_>>> {
    let entries = item.entries()?;
    entries
        .iter()
        .all(|entry| scalars::name(entry).is_some())
        .then_some(entries)
}

/// At least one thing with a name: without any, nothing could ever be done, and nobody would be told.
fn some(item: Item<'_>) -> Option<Vec<Item<'_>>> {
    match named(item.clone())? {
        entries if entries.is_empty() => item.refuse(
            "expected at least one",
            "add [upstreams.NAME] with base_url and calls",
        ),
        entries => Some(entries),
    }
}
