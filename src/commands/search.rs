//! `ingest search`: full-text search of the records. Costs nothing.

use std::path::Path;

use super::environment::{CATALOG_FILE, Environment, PRACTICE};
use super::figures::{count, instant};
use super::output::Message;
use super::{Error, output};
use crate::cli::{Global, SearchArgs};
use crate::doc::{Doc, PageLink, Phrase, Phrases, Section, Tone};
use crate::exit::Exit;
use ingest_catalog::{MARKS, SearchHit, SearchQuery, SearchResults};

/// Searches and shows the hits, best match first.
pub async fn search(global: &Global, args: &SearchArgs) -> Result<Exit, Error> {
    let environment = Environment::load(global)?;
    let results = find(&environment, args).await?;
    // After the search, which names an unknown kind or region first.
    environment.expect_catalog(global)?;
    output::report(global, &results, |screen| {
        let mut doc = doc(&results);
        if doc.parts.is_empty() {
            doc.say(nothing_in(&environment.state_dir));
        }
        Message::Result(doc.text(screen))
    })?;
    Ok(Exit::Success)
}

/// Returns the records that the arguments name.
pub async fn find(environment: &Environment, args: &SearchArgs) -> Result<SearchResults, Error> {
    if let Some(kind) = &args.kind {
        environment.expect_kind(kind)?;
    }
    environment
        .expect_stored(&[], args.region.as_slice())
        .await?;
    let query = SearchQuery {
        words: args.words.join(" "),
        kind: args.kind.clone(),
        region: args.region.clone(),
        since: args.since.map(|since| since.at(environment.clock.now())),
        limit: args.limit,
    };
    Ok(environment.reader().await?.search(query).await?)
}

/// Says that nothing was found. A user who has only run with `--sandbox` searches in the wrong state directory.
fn nothing_in(state_dir: &Path) -> String {
    let practice = state_dir.join(PRACTICE);
    if state_dir.join(CATALOG_FILE).exists() || !practice.join(CATALOG_FILE).exists() {
        return "No records found.".to_owned();
    }
    "No records found: the catalog is empty. To search what sandbox runs stored, add --sandbox"
        .to_owned()
}

/// The hits in words; empty where nothing was found in all records.
fn doc(results: &SearchResults) -> Doc {
    let mut doc: Doc = results.hits.iter().map(hit).collect();
    let bounded = bounded(results).map(|bounded| Section::item().with(bounded));
    doc.parts.extend(bounded);
    doc
}

/// A record that was found, and where in it the words are.
pub fn hit(hit: &SearchHit) -> Section {
    let name = format!("{}_{} {}", hit.upstream, hit.kind, hit.id);
    let record = PageLink::record(&hit.upstream, &hit.kind, &hit.id);
    // The marks are around each word that was found.
    let parts = hit.excerpt.trim().split(MARKS).enumerate();
    let excerpt = parts.map(|(place, text)| {
        let tone = if place % 2 == 1 {
            Tone::Found
        } else {
            Tone::Plain
        };
        Phrase::toned(text, tone)
    });
    let excerpt = excerpt.fold(Phrases::from("  "), Phrases::and);
    let mut name = Phrases::from(Phrase::linked(name, record));
    if let Some(at) = hit.gone_at {
        let gone = format!("  gone since {}", instant(at));
        name = name.and(Phrase::toned(gone, Tone::Warn));
    }
    Section::item().with(name).with(excerpt)
}

/// Says what was searched and ranked; `None` if all records were searched and all matches ranked.
pub fn bounded(results: &SearchResults) -> Option<String> {
    const NARROW: &str = "Add words, or --kind, --region or --since.";
    if let Some(since) = results.searched_since {
        let (since, found) = (
            instant(since),
            match results.hits.len() {
                0 => "none contains",
                _ => "these are the best that contain",
            },
        );
        return Some(format!(
            "To search all records would take too long. Of those first seen since {since}, {found} the words. {NARROW}"
        ));
    }
    let newest = count(u64::from(results.only_newest?));
    Some(format!(
        "There are more matches: these are the best of the newest {newest}. {NARROW}"
    ))
}
