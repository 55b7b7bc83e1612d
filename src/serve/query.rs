//! What the address of a request says: names in its path, filters behind it.

use std::time::Duration;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Query};
use axum::http::Uri;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::problem::Problem;
use crate::when::Since;
use ingest_base::plain::one_line;

/// The most of anything that one response has.
pub const MOST: u32 = 1000;

/// Reads the parameters of a request.
pub fn parameters<T: DeserializeOwned>(uri: &Uri) -> Result<T, Problem> {
    let query = Query::try_from_uri(uri);
    query.map(|Query(parameters)| parameters).map_err(|error| {
        let text = one_line(&error.body_text());
        let why = text
            // axum's words before the reason name its types and not the parameter.
            .rsplit_once("query string: ")
            .map_or(&*text, |(_, why)| why);
        Problem::bad_request(format!("the query: {why}"))
    })
}

/// What a path names.
pub type InPath<T> = Result<Path<T>, PathRejection>;

pub fn in_path<T>(path: InPath<T>) -> Result<T, Problem> {
    let wrong = |error: PathRejection| {
        let why = one_line(&error.body_text());
        Problem::bad_request(format!("{why}; write the path as UTF-8, percent-encoded"))
    };
    path.map(|Path(named)| named).map_err(wrong)
}

/// A parameter. A form of the page sends the fields that nobody filled in, as empty text: those count as absent.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(transparent)]
pub struct Filled(Option<String>);

impl Filled {
    /// Its text; `None` where it is absent.
    pub fn get(&self) -> Option<&str> {
        self.0.as_deref().filter(|text| !text.is_empty())
    }

    /// Whether it is absent, or one of these.
    pub fn admits<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> bool {
        let wanted = self.get();
        wanted.is_none_or(|wanted| names.into_iter().any(|name| name == wanted))
    }

    pub fn owned(&self) -> Option<String> {
        self.get().map(str::to_owned)
    }

    /// A time as the commands take it, such as `7d` or `2026-11-01`.
    pub fn since(&self, name: &str) -> Result<Option<Since>, Problem> {
        let expected = "is no time; write for example 7d, 2026-11-01 or yesterday";
        self.parsed(name, expected, |text| text.parse().ok())
    }

    /// A span such as `7d`.
    pub fn span(&self, name: &str) -> Result<Option<Duration>, Problem> {
        let expected = "is no time span; write for example 7d";
        self.parsed(name, expected, |text| humantime::parse_duration(text).ok())
    }

    fn parsed<T>(
        &self,
        name: &str,
        expected: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, Problem> {
        let wrong = |text| Problem::bad_request(format!("{name}: `{}` {expected}", one_line(text)));
        let parsed = self
            .get()
            .map(|text| parse(text).ok_or_else(|| wrong(text)));
        parsed.transpose()
    }

    /// A number from 1 to [`MOST`]; an absent one is `usual`.
    pub fn number(&self, name: &str, usual: u32) -> Result<u32, Problem> {
        let wrong = || Problem::bad_request(format!("{name}: expected a number from 1 to {MOST}"));
        let number = self.get().map_or(Some(usual), |text| text.parse().ok());
        number
            .filter(|number| (1..=MOST).contains(number))
            .ok_or_else(wrong)
    }

    /// Names that are separated by commas; absent ones are `usual`.
    pub fn names(&self, usual: &[&str]) -> Vec<String> {
        let names = self
            .get()
            .map(|text| text.split(',').map(str::trim).collect());
        let names: Vec<&str> = names.unwrap_or_else(|| usual.to_vec());
        names.into_iter().map(str::to_owned).collect()
    }
}
