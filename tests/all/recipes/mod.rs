//! Every recipe of docs/recipes, through the binary, against a stand-in with the shapes and refusals of its API.
//!
//! A module has one API: its [`Recipe`], and functions that answer as the API does. What must hold of every recipe is here.

mod alpha_vantage;
mod feed;
mod github_graphql;
mod google_analytics;
mod google_calendar;
mod microsoft_graph;
mod monthly_cap;
mod notion;
mod openalex;
mod openweather;
mod place;
mod pubmed;
mod reddit;
mod shopify;
mod slack;
mod stripe;
mod tickets;
mod zendesk;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use self::place::Place;
use ingest_testing::stub_upstream::{StubAnswer, StubRequest};

/// Units by the name that the ledger has for their limit.
pub type Units = BTreeMap<String, u64>;

/// A recipe, and its API.
#[derive(Clone, Copy)]
pub struct Recipe {
    /// `docs/recipes/NAME.toml`
    pub name: &'static str,
    /// Texts of the file, and what a test writes instead. `{stub}` is the URL of the stand-in, `{directory}` the place.
    pub instead: &'static [(&'static str, &'static str)],
    /// The variable with the secret, and the secret.
    pub secret: (&'static str, &'static str),
    pub credential: &'static str,
    /// The limits whose window slides. Tests give them a quota and a window that no run exhausts.
    pub windows: &'static [&'static str],
    /// The limit that stops a run.
    pub limit: &'static str,
    /// The call that `try` tries, and an id if it requests ids.
    pub tries: &'static [(&'static str, Option<&'static str>)],
    /// The views of its kinds, and how many records each has after a complete run.
    pub records: &'static [(&'static str, i64)],
    /// Answers a request, and says what it costs.
    pub answer: fn(&StubRequest, &Units) -> Answer,
    /// Declines a request as the API does when there were too many.
    pub refuse: fn(&StubRequest) -> Answer,
    /// What a run does then.
    pub then: Then,
}

/// What an API answers, and the units that it counts for it.
pub struct Answer {
    pub response: StubAnswer,
    pub cost: Vec<(String, u64)>,
}

impl Answer {
    /// An answer that costs one unit of each of these limits.
    pub fn one(response: StubAnswer, limits: &[&str]) -> Self {
        let cost = limits.iter().map(|limit| ((*limit).to_owned(), 1));
        Self {
            response,
            cost: cost.collect(),
        }
    }

    pub fn free(response: StubAnswer) -> Self {
        Self::one(response, &[])
    }
}

/// What a run does after a refusal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// It waits, requests the same page again, and completes.
    Retries,
    /// It stops, and continues when the limit is open again.
    Stops,
    /// The same; and the response reports that nothing is left, which the ledger takes over.
    Exhausted,
}

/// The position that a page begins at, and its end, in a list of `total` things.
pub fn span(start: usize, size: usize, total: usize) -> (std::ops::Range<usize>, bool) {
    let end = total.min(start + size);
    (start.min(end)..end, end < total)
}

/// The number in a parameter or a cursor.
pub fn number(text: Option<&str>) -> usize {
    text.map_or(0, |text| text.parse().unwrap())
}

fn outcome(report: &Value) -> &str {
    report["outcome"]
        .as_str()
        .unwrap_or_else(|| panic!("{report}"))
}

fn has_no_notes(report: &Value) {
    for pass in report["passes"].as_array().unwrap() {
        let detail = pass["detail"].as_str().unwrap_or("");
        // What the upstream declined is no mistake of the file.
        assert!(
            detail.is_empty() || detail.contains("was refused and skipped"),
            "{report}"
        );
    }
}

/// Every record is there, and no page was requested twice.
fn has_all(place: &Place, of: &Recipe) {
    for (view, expected) in of.records {
        assert_eq!(place.count(view), *expected, "{view}");
    }
    let mut seen = BTreeSet::new();
    for page in place.pages() {
        assert!(seen.insert(page.clone()), "twice: {page}");
    }
}

/// The ledger holds what the API counted.
fn counts_agree(place: &Place) {
    assert_eq!(place.recorded(), place.counted());
}

fn lands_all_records_once(of: &Recipe) {
    let place = Place::new(of);
    let first = place.run(&[]);
    assert_eq!(outcome(&first), "complete", "{first}");
    has_no_notes(&first);
    has_all(&place, of);
    counts_agree(&place);
    let requests = place.requests();
    let again = place.run(&[]);
    assert_eq!(
        (outcome(&again), place.requests()),
        ("nothing_due", requests),
        "{again}"
    );
}

fn stops_at_a_limit_and_resumes(of: &Recipe) {
    let whole = Place::new(of);
    whole.run(&[]);
    let total = whole.counted_of(of.limit);
    assert!(total > 1, "{} has too few pages", of.name);
    let place = Place::new(of);
    let first = place.run(&place.quota_of(of.limit, total / 2));
    assert_eq!(outcome(&first), "stopped", "{first}");
    assert!(place.counted_of(of.limit) <= total / 2, "{first}");
    counts_agree(&place);
    let second = place.run(&[]);
    assert_eq!(outcome(&second), "complete", "{second}");
    has_all(&place, of);
    counts_agree(&place);
    assert_eq!(place.counted(), whole.counted());
}

fn continues_after_a_refusal(of: &Recipe) {
    let place = Place::new(of);
    place.refuse_request(1);
    let first = place.run(&[]);
    match of.then {
        Then::Retries => assert_eq!(outcome(&first), "complete", "{first}"),
        Then::Stops => {
            assert_eq!(outcome(&first), "stopped", "{first}");
            place.reopen();
            let second = place.run(&[]);
            assert_eq!(outcome(&second), "complete", "{second}");
        }
        Then::Exhausted => {
            assert_eq!(outcome(&first), "stopped", "{first}");
            let requests = place.requests();
            assert_eq!(outcome(&place.run(&[])), "stopped");
            assert_eq!(place.requests(), requests, "an exhausted limit was charged");
            assert!(!place.reports_open(), "{first}");
            return;
        }
    }
    has_all(&place, of);
    counts_agree(&place);
}

fn is_checked_and_tried_without_a_false_note(of: &Recipe) {
    let place = Place::new(of);
    let check = place.json(&["check"]);
    let findings = check["findings"].as_array();
    for finding in findings.unwrap_or_else(|| panic!("{check}")) {
        assert_eq!(finding["verdict"], "good", "{check}");
    }
    for (call, id) in of.tries {
        let id: Vec<&str> = id.iter().flat_map(|id| ["--id", id]).collect();
        let tried = place.json(&[&["try", of.credential, call], &*id].concat());
        assert_eq!(tried["class"], "page", "{tried}");
        assert!(tried["record_count"] != 0, "{tried}");
        for notes in [&tried["missing"], &tried["notes"]] {
            assert!(notes.as_array().unwrap().is_empty(), "{tried}");
        }
    }
    let sandbox = place.run(&["--sandbox".to_owned()]);
    assert_eq!(outcome(&sandbox), "complete", "{sandbox}");
}

/// The tests of a recipe.
macro_rules! tests {
    ($($recipe:ident),* $(,)?) => {$(
        mod $recipe {
            #[test]
            fn lands_all_records_once() {
                super::super::lands_all_records_once(&super::super::$recipe::RECIPE);
            }

            #[test]
            fn stops_at_a_limit_and_resumes() {
                super::super::stops_at_a_limit_and_resumes(&super::super::$recipe::RECIPE);
            }

            #[test]
            fn continues_after_a_refusal() {
                super::super::continues_after_a_refusal(&super::super::$recipe::RECIPE);
            }

            #[test]
            fn is_checked_and_tried_without_a_false_note() {
                super::super::is_checked_and_tried_without_a_false_note(&super::super::$recipe::RECIPE);
            }
        }

        const _: &super::Recipe = &super::$recipe::RECIPE;
    )*

    /// The recipes that are tested.
    pub const NAMES: &[&str] = &[$(super::$recipe::RECIPE.name),*];
    };
}

mod each {
    tests! {
        alpha_vantage,
        github_graphql,
        google_analytics,
        google_calendar,
        microsoft_graph,
        monthly_cap,
        notion,
        openalex,
        openweather,
        pubmed,
        reddit,
        shopify,
        slack,
        stripe,
        tickets,
        zendesk,
    }
}

#[test]
fn every_recipe_is_tested_and_listed() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/recipes");
    let list = std::fs::read_to_string(folder.join("README.md")).unwrap();
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .filter_map(|file| {
            let name = file.unwrap().file_name().into_string().unwrap();
            Some(name.strip_suffix(".toml")?.to_owned())
        })
        .collect();
    names.sort_unstable();
    assert_eq!(names, each::NAMES);
    for name in names {
        assert!(list.contains(&format!("({name}.toml)")), "{name}");
    }
}
