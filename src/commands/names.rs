//! Errors about names that the configuration lacks, each with the one that is probably meant.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Error;
use super::figures::counted;
use ingest_config::{Config, Region, closest, without};
use ingest_quota::Account;

/// The account of a name that the command line has.
pub fn account_named(accounts: &[Arc<Account>], name: &str) -> Result<Arc<Account>, Error> {
    let known = accounts.iter().map(|account| &*account.name);
    let found = accounts.iter().find(|account| account.name == name);
    found
        .cloned()
        .ok_or_else(|| unknown("account", name, known))
}

/// What has a name that the command line, or a request, has.
pub fn named<'m, V>(what: &str, map: &'m BTreeMap<String, V>, name: &str) -> Result<&'m V, Error> {
    let known = map.keys().map(String::as_str);
    map.get(name).ok_or_else(|| unknown(what, name, known))
}

/// Returns an error about an unknown name.
pub fn unknown<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str>) -> Error {
    unknown_to_both(what, name, known.collect(), BTreeSet::new())
}

/// Returns an error about a name that neither the configuration nor the catalog has.
pub fn unknown_to_both<'a>(
    what: &str,
    name: &str,
    defined: Vec<&'a str>,
    stored: BTreeSet<&'a str>,
) -> Error {
    let stored = Vec::from_iter(stored.into_iter().filter(|one| !defined.contains(one)));
    let hint = closest(name, &[&defined[..], &stored].concat())
        .map(|close| format!("; did you mean `{close}`{}?", without(name, close)));
    Error::Usage(format!(
        "unknown {what} `{name}`{}; defined: {}{}",
        hint.unwrap_or_default(),
        listed(&defined, usize::MAX, what),
        in_the_catalog(&stored, what)
    ))
}

/// The names that only the catalog has, where it has some.
fn in_the_catalog(stored: &[&str], what: &str) -> String {
    match stored.len() {
        0 => String::new(),
        _ => format!("; in the catalog: {}", listed(stored, SHOWN_NAMES, what)),
    }
}

/// Names; of more than `most`, only their number.
fn listed(names: &[&str], most: usize, what: &str) -> String {
    match names.len() {
        0 => "none".to_owned(),
        few if few <= most => names.join(", "),
        many => counted(many as u64, what),
    }
}

/// Returns an error about an unknown region. Any two codes of two letters are close, so only those with the same letters, in
/// whatever case and order, are suggested. Of many regions, only their number is shown.
pub fn unknown_region(config: &Config, code: &str) -> Error {
    unknown_region_to_both(config, code, &BTreeSet::new())
}

/// The same about a region that the catalog does not have either.
pub fn unknown_region_to_both(config: &Config, code: &str, stored: &BTreeSet<&str>) -> Error {
    let defined: Vec<&str> = config.regions.iter().map(|region| &*region.code).collect();
    if defined.contains(&code) {
        let what = format!("region `{code}` is configured, but no selected job walks it");
        return Error::Usage(what);
    }
    let is_of_pass = |code: &&&str| !defined.contains(*code) && !is_marker(code);
    let stored: Vec<&str> = stored.iter().filter(is_of_pass).copied().collect();
    let codes = [&defined[..], &stored].concat();
    let same_letters = codes.iter().find(|known| letters(known) == letters(code));
    let is_name = code.chars().count() > LONGEST_CODE;
    let close = closest(code, &codes).filter(|_| is_name);
    let hint = same_letters.copied().or(close).map_or_else(
        || ";".to_owned(),
        |meant| format!("; did you mean `{meant}`{}?", without(code, meant)),
    );
    let defined = listed(&defined, SHOWN_NAMES, "region");
    let stored = in_the_catalog(&stored, "region");
    Error::Usage(format!(
        "unknown region `{code}`{hint} defined: {defined}{stored}"
    ))
}

/// Whether a pass has this in the place of a region.
fn is_marker(code: &str) -> bool {
    [Region::SHARED, Region::NONE].contains(&code)
}

/// With more characters, one that is wrong or too many still leaves one region meant.
const LONGEST_CODE: usize = 2;

/// The most regions that a message lists, and the most names of the catalog.
const SHOWN_NAMES: usize = 20;

/// The letters of a name in lower case and in order.
fn letters(name: &str) -> Vec<char> {
    let mut letters: Vec<char> = name.to_lowercase().chars().collect();
    letters.sort_unstable();
    letters
}
