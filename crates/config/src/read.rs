//! The document, read into checked types: section by section, and then what they name.

use std::path::Path;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::document::Document;
use super::entries::Entries;
use super::error::{Problem, Refusal};
use super::names::advice;
use super::region::{self, Regions};
use super::{Call, CatalogConfig, Config, LedgerConfig, Upstream, check, credential, job};

/// The sections of a file, in the order in which they are read.
const SECTIONS: [&str; 7] = [
    "regions",
    "ledger",
    "catalog",
    "serve",
    "upstreams",
    "credentials",
    "jobs",
];

/// Reads a configuration, or says everything that is wrong with it.
pub fn config(text: &str, path: &Path, sets: &[String]) -> Result<Config, Vec<Problem>> {
    let mut document = Document::parse(path.to_owned(), text, sets).map_err(|one| vec![one])?;
    if !region::list(&mut document) {
        return Err(document.into_problems());
    }
    let config = sections(&document);
    if let Some(config) = &config {
        check::config(config, &document);
    }
    match config {
        Some(config) if document.is_right() => Ok(config),
        _ => Err(document.into_problems()),
    }
}

/// Every section by itself; what makes no sense together is left to `check`. A section that is wrong as a whole is the default one.
fn sections(document: &Document<'_>) -> Option<Config> {
    for key in document.keys(&[]) {
        if !SECTIONS.contains(&key.as_str()) {
            document.report(
                &[],
                &Refusal::unknown_key(advice(&key, SECTIONS)).below(&key),
            );
        }
    }
    let regions = document
        .has(&["regions"])
        .then(|| document.section(&["regions"], &[]));
    let regions = regions.flatten().map(|Regions(regions)| regions);
    let regions: Vec<_> = regions
        .unwrap_or_default()
        .into_iter()
        .map(Arc::new)
        .collect();
    let mut ledger: LedgerConfig = section(document, "ledger")?;
    if let Err(refusal) = ledger.checked() {
        document.report(&["ledger"], &refusal);
    }
    let catalog: CatalogConfig = section(document, "catalog")?;
    if let Err(refusal) = catalog.checked() {
        document.report(&["catalog"], &refusal);
    }
    let serve = section(document, "serve")?;
    let upstreams = Entries::read(document, &["upstreams"], |path| upstream(document, path));
    if upstreams.written().is_empty() && document.is_right_below(&["upstreams"]) {
        let remedy = "add [upstreams.NAME] with base_url and calls";
        document.refuse(&["upstreams"], "expected at least one", remedy);
    }
    let credentials = credential::all(document, &upstreams, &regions);
    let known = job::Known {
        regions: &regions,
        credentials: &credentials,
    };
    let jobs = Entries::read(document, &["jobs"], |path| job::job(document, path, &known));
    let in_order = jobs
        .written()
        .iter()
        .filter_map(|name| jobs.right.get(name).cloned());
    Some(Config {
        path: document.file.clone(),
        jobs: in_order.collect(),
        regions,
        ledger,
        catalog,
        serve,
        upstreams: upstreams.right,
        credentials: credentials.right,
    })
}

fn section<T: DeserializeOwned>(document: &Document<'_>, name: &str) -> Option<T> {
    let read = document.table(&[name], &[]);
    read.or_else(|| toml::from_str("").ok())
}

fn upstream(document: &Document<'_>, path: &[&str]) -> Option<Upstream> {
    let upstream = document.table::<Upstream>(path, &["calls"]);
    let path = [path, &["calls"]].concat();
    let calls = Entries::read(document, &path, |path| {
        let call = document.table::<Call>(path, &[])?;
        let name = path.last().copied().unwrap_or_default();
        Some(call.within(name, upstream.as_ref()?))
    });
    if calls.written().is_empty() && document.is_right_below(&path) {
        let remedy = "add [upstreams.NAME.calls.\"things.list\"]";
        document.refuse(&path, "expected at least one call", remedy);
    }
    let name = path.get(1).copied().unwrap_or_default().to_owned();
    Some(Upstream {
        name,
        calls: calls.right,
        ..upstream?
    })
}
