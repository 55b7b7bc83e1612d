//! `[credentials.NAME.limits]`: quotas.
//!
//! A scope becomes limits when the configuration is read: an account has one limit for each value that the regions have,
//! `hourly/12345`. So ledgers, reports and the sandbox need not know of scopes; what charges translates the names
//! ([`super::Credential::in_ledger`]).

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::counting::{BUCKETS, COUNTING, CountingWord, PARTS};
use super::declare::{
    DURATION, DURATION_OR_ZERO, Keys, Leaf, Optional, Or, Required, SOME_UNITS, Shape, TEMPLATE,
    TEXT, TRUTH, Type, UNITS, Words, keys, table,
};
use super::field::{RESPONSE_FIELD, ResponseField};
use super::header_pattern::{HEADER_PATTERN, HeaderPattern, Part};
use super::item::Item;
use super::names::advice;
use super::{Region, Template, Values, Variable};
use ingest_quota::{Calendar, Limit, LimitName, Period, Timestamp, Units, Window, WindowError};

/// A limit of an account, or of each value of its scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialLimit {
    /// Its arithmetic.
    pub limit: Limit,
    /// Each value of this template has a quota of its own. `None`: there is one quota.
    pub scope: Option<Template>,
    /// Its name in the ledger; of a limit with a scope, without the value.
    pub ledger_name: LimitName,
    /// The longest time that a run sleeps for the limit; a longer wait stops the run.
    pub wait: Duration,
    /// The upstream's name for the limit, in a response that reports it exhausted.
    pub upstream_name: Option<String>,
    /// Whether it is the user's own: the upstream does not know it.
    pub own: bool,
    /// Where responses report its state; `None` if the upstream reports nothing.
    pub reported: Option<ReportedState>,
}

/// Limits by their configured names.
pub type Limits = BTreeMap<LimitName, CredentialLimit>;

impl CredentialLimit {
    /// Whether a run always waits until its units return: it paces the requests, and stops none while it is open.
    #[must_use]
    pub fn paces(&self) -> bool {
        self.wait >= self.limit.span()
    }

    /// Returns the name in the ledger of the quota that a request for `region` uses. `None` where the region lacks a value of
    /// the scope.
    #[must_use]
    pub fn name_for(&self, region: &Region) -> Option<LimitName> {
        let Some(scope) = &self.scope else {
            return Some(self.ledger_name.clone());
        };
        let values = Values {
            region,
            ids: &[],
            cursor: None,
            now: Timestamp::from_micros(0),
            since: None,
        };
        let is_known = scope
            .variables()
            .iter()
            .all(|variable| has(region, variable));
        is_known.then(|| format!("{}/{}", self.ledger_name, scope.render(&values)))
    }
}

/// Whether a region has a value for a variable of a scope.
fn has(region: &Region, variable: &Variable) -> bool {
    match variable {
        Variable::Region => region.code != Region::SHARED,
        Variable::OfRegion(name) => region
            .values
            .get(name)
            .is_some_and(|value| !value.is_empty()),
        Variable::Ids
        | Variable::Id
        | Variable::Cursor
        | Variable::Now
        | Variable::Since
        | Variable::Date
        | Variable::SliceFrom
        | Variable::SliceTo
        | Variable::Secret(_) => false,
    }
}

keys! {
    struct LimitKeys {
        /// The units that the upstream grants.
        quota: Units = Required(SOME_UNITS, "10_000"),
        /// Units of the quota that are never used: for other clients of the account, and for requests that the two sides count
        /// on different sides of midnight.
        headroom: Units = Or(UNITS, "0", "500"),
        /// The length of the sliding window: no span of this length contains more than the quota. A limit has `window`,
        /// `resets`, or both.
        window: Option<Duration> = Optional(DURATION, "'24h'"),
        /// The time zone whose calendar resets the quota: at midnight, unless `period` names another.
        resets: Option<chrono_tz::Tz> = Optional(ZONE, "'America/Los_Angeles'"),
        /// The calendar period over which a limit with `resets` counts.
        period: Option<Period> = Optional(Words(PERIODS), "'month'"),
        /// How charges are remembered. With `exact`, each takes some 180 bytes in Redis for as long as it counts: choose
        /// `buckets` for more than a million charges in a window. It needs a `window` without `resets`. An account remembers
        /// the ids of its charges for the longest of its limits that count exactly, or else for ten minutes: a repeat after
        /// that is charged again. The counting can be changed at any time.
        counting: CountingWord = Or(Words(COUNTING), "'exact'", "'buckets'"),
        /// The number of parts of the window with `counting = "buckets"`. If unset, 60.
        buckets: Option<u32> = Optional(BUCKETS, "24"),
        /// Each value of this template has a quota of its own: `"{region}"`, or values of the regions. The ledger and the
        /// reports name such a limit with its value: `hourly/12345`. A step with `ids` cannot charge it, because one request
        /// then serves several regions. If unset, the account has one quota.
        scope: Option<Template> = Optional(SCOPE, "'{property}'"),
        /// The longest time that a run sleeps for this limit. A longer wait stops the run.
        wait: Duration = Or(DURATION_OR_ZERO, "'2s'", "'1min'"),
        /// The upstream's name for this limit, in responses that report it exhausted.
        upstream_name: Option<String> = Optional(TEXT, "'defaultPerDayPerProject'"),
        /// Whether the limit is your own, and the upstream does not know it. A refusal that names no limit closes the limits of its
        /// call that have an `upstream_name`; where none has, all of the call but your own; and your own only where the call charges
        /// no other.
        own: bool = Or(TRUTH, "false", "true"),
        /// Where responses report the remaining units: in headers or in the body. If less is reported than the ledger counts,
        /// the ledger takes the reported value.
        reported: Option<ReportedState> = Optional(REPORTED, "{ remaining = 'x-ratelimit-remaining' }"),
    }
}

const PERIODS: &[(&str, Period, &str)] = &[
    ("hour", Period::Hour, "From one full hour to the next."),
    (
        "day",
        Period::Day,
        "From midnight to midnight. The default.",
    ),
    ("week", Period::Week, "From Monday to Monday."),
    (
        "month",
        Period::Month,
        "From the first of a month to the first of the next.",
    ),
];

/// The schema accepts what a [`Window`] does: one that slides, or has a time zone, or both.
pub const LIMIT: Leaf<CredentialLimit> = Leaf {
    read: limit,
    shape: || {
        let either = json!([{ "required": ["window"] }, { "required": ["resets"] }]);
        Shape::table(LimitKeys::keys())
            .with("anyOf", either)
            .with(
                "dependentRequired",
                json!({ "period": ["resets"], "buckets": ["counting"] }),
            )
            .with("allOf", json!([{ "not": buckets_of_calendar() }]))
    },
};

/// What the schema refuses.
fn buckets_of_calendar() -> Value {
    json!({ "required": ["counting", "resets"], "properties": { "counting": { "const": "buckets" } } })
}

keys! {
    /// Where responses report the state of a limit.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ReportedState {
        /// The header with the remaining units, or a JSON pointer into the body. If neither this nor `used` is set, nor read
        /// by `pattern`, `reset` alone closes the limit.
        remaining: Option<ResponseField> = Optional(RESPONSE_FIELD, "'x-ratelimit-remaining'"),
        /// The header with the used units of the current window, or a JSON pointer into the body, where the upstream reports
        /// those: `quota` less these units remain. It replaces `remaining`.
        used: Option<ResponseField> = Optional(RESPONSE_FIELD, "'x-mbx-used-weight-1m'"),
        /// A header with several values: its name, a colon and its text, with `{remaining}`, `{used}`, `{quota}` or `{reset}`
        /// for the parts that are read, and `*` for any text. The text must begin like the pattern; what stands behind the
        /// pattern, and blanks, do not matter. Headers of the same name are read as one, with commas between them. With
        /// `{used}/{quota}`, the reported quota less the used units remain. It replaces `remaining` and `used`, and with
        /// `{reset}` also `reset`. For `total=10; remaining=9; resets=54`, write
        /// `"x-index: *remaining={remaining}; resets={reset}"`; for `"minute";r=3, "default";r=50;t=30`, write
        /// `'ratelimit: *"default";r={remaining};t={reset}'`.
        pattern: Option<HeaderPattern> = Optional(HEADER_PATTERN, "'sforce-limit-info: api-usage={used}/{quota}'"),
        /// Where the response reports the time at which all units return: in RFC 3339, as an HTTP date, in seconds since 1970 or
        /// thousandths, millionths or billionths of them, or in seconds from now. Without units left, the limit is closed until then.
        /// Without `remaining` and `used`, a response that has it allows no
        /// further request until then, such as the `backoff` of Stack Exchange: the limit is closed until that time.
        reset: Option<ResponseField> = Optional(RESPONSE_FIELD, "'x-ratelimit-reset'"),
        /// The header with the `upstream_name` (or else the name) of the limit. If unset, every response is about this limit.
        resource: Option<ResponseField> = Optional(RESPONSE_FIELD, "'x-ratelimit-resource'"),
    }
}

impl ReportedState {
    /// Whether responses report units, and not only waits.
    #[must_use]
    pub fn reports_units(&self) -> bool {
        let reads =
            |pattern: &HeaderPattern| pattern.has(Part::Remaining) || pattern.has(Part::Used);
        self.remaining.is_some() || self.used.is_some() || self.pattern.as_ref().is_some_and(reads)
    }
}

const REPORTED: Leaf<ReportedState> = Leaf {
    read: |item| {
        let keys = table::<ReportedState>().read(item.clone())?;
        if keys.pattern.is_some() {
            return beside_pattern(&item, keys);
        }
        match (&keys.remaining, &keys.used) {
            (Some(_), Some(_)) => item
                .find(&["used"])?
                .refuse("`remaining` reports the same", "remove one of them"),
            (None, None) if keys.reset.is_none() => item.lacks(
                "remaining",
                "\"x-ratelimit-remaining\", or used = \"x-used\", or reset = \"/backoff\"",
            ),
            (Some(at), None) if says_used(&at.to_string()) => {
                let remaining = item.find(&["remaining"])?;
                let name = remaining.text()?;
                remaining.refuse(
                    "expected the units that remain, not those that are used",
                    format!("write used = \"{name}\""),
                )
            }
            (Some(at), None) if ends_in(&at.to_string(), &["limit", "reset"]) => {
                item.find(&["remaining"])?.refuse(
                    "expected the units that remain, not the quota or its reset",
                    "write for example \"x-ratelimit-remaining\"",
                )
            }
            _ => Some(keys),
        }
    },
    shape: || {
        let keys = ["remaining", "used", "pattern", "reset"];
        let either: Vec<Value> = keys
            .iter()
            .map(|key| json!({ "required": [key] }))
            .collect();
        let twice = json!({ "anyOf": [
            { "required": ["remaining", "used"] },
            { "required": ["remaining", "pattern"] },
            { "required": ["used", "pattern"] },
            { "required": ["reset", "pattern"], "properties": { "pattern": { "pattern": "\\{reset\\}" } } },
        ] });
        Shape::table(ReportedState::keys())
            .with("anyOf", json!(either))
            .with("not", twice)
    },
};

/// Refuses keys that report what the pattern replaces.
fn beside_pattern(item: &Item<'_>, keys: ReportedState) -> Option<ReportedState> {
    let has_reset = |pattern: &HeaderPattern| pattern.has(Part::Reset);
    let resets_twice = keys.reset.is_some() && keys.pattern.as_ref().is_some_and(has_reset);
    if keys.remaining.is_some() || keys.used.is_some() || resets_twice {
        return item
            .find(&["pattern"])?
            .refuse("another key reports the same", "remove one of them");
    }
    Some(keys)
}

/// The words of the name of a header, or of a place in the body, in lower case.
fn words(name: &str) -> Vec<String> {
    let words = name.split(|letter: char| !letter.is_ascii_alphanumeric());
    words.map(str::to_ascii_lowercase).collect()
}

/// Whether a name says that the units are used, and not that they remain: `x-ratelimit-used`, `/quota/consumed`.
fn says_used(name: &str) -> bool {
    let words = words(name);
    let says = |some: &[&str]| words.iter().any(|word| some.contains(&word.as_str()));
    says(&["used", "consumed"]) && !says(&["remaining", "left", "available"])
}

fn ends_in(name: &str, some: &[&str]) -> bool {
    let words = words(name);
    words
        .last()
        .is_some_and(|word| some.contains(&word.as_str()))
}

fn limit(item: Item<'_>) -> Option<CredentialLimit> {
    let keys = table::<LimitKeys>().read(item.clone())?;
    if keys.resets.is_none() && keys.period.is_some() {
        return item.lacks("resets", "the time zone of the period, such as \"UTC\"");
    }
    if keys.own && (keys.upstream_name.is_some() || keys.reported.is_some()) {
        return item.find(&["own"])?.refuse(
            "the upstream knows a limit that it names or reports",
            "remove `own`, or `upstream_name` and `reported`",
        );
    }
    let window = window(&item, &keys)?;
    let limit = match Limit::new(keys.quota, keys.headroom, window) {
        Ok(limit) => limit,
        Err(error) => {
            return item
                .find(&["headroom"])?
                .refuse(error, "write a headroom below the quota");
        }
    };
    Some(CredentialLimit {
        limit,
        scope: keys.scope,
        ledger_name: item.name().to_owned(),
        wait: keys.wait,
        upstream_name: keys.upstream_name,
        own: keys.own,
        reported: keys.reported,
    })
}

fn window(item: &Item<'_>, keys: &LimitKeys) -> Option<Window> {
    if keys.counting == CountingWord::Exact && keys.buckets.is_some() {
        return item.lacks("counting", "\"buckets\", or remove `buckets`");
    }
    let period = keys.period.unwrap_or_default();
    let resets = keys.resets.map(|zone| Calendar::new(zone, period));
    let counting = keys.counting.with(keys.buckets.unwrap_or(PARTS));
    match Window::new(keys.window, resets).and_then(|window| window.counted(counting)) {
        Ok(window) => Some(window),
        Err(WindowError::Missing) => item.lacks("window", "\"24h\", or resets = \"UTC\", or both"),
        Err(error @ WindowError::Zero) => item.refuse(error, "write window = \"24h\""),
        Err(error @ WindowError::BucketsOfCalendar) => item
            .find(&["counting"])?
            .refuse(error, "remove `counting`, or replace `resets` by `window`"),
    }
}

const SCOPE: Leaf<Template> = Leaf {
    read: scope,
    shape: || TEMPLATE.shape(),
};

fn scope(item: Item<'_>) -> Option<Template> {
    let template = TEMPLATE.read(item.clone())?;
    let of_region =
        |variable: &Variable| matches!(variable, Variable::Region | Variable::OfRegion(_));
    let variables = template.variables();
    if variables.is_empty() || !variables.iter().all(of_region) {
        return item.refuse(
            "expected {region} or values of the regions, and no other variable",
            "write for example \"{region}\"",
        );
    }
    Some(template)
}

/// A time zone by its name in the time zone database, in that very case.
const ZONE: Leaf<chrono_tz::Tz> = Leaf {
    read: zone,
    shape: || Shape::scalar("time zone", json!({ "type": "string", "minLength": 1 })),
};

fn zone(item: Item<'_>) -> Option<chrono_tz::Tz> {
    let text = item.text()?;
    match text.parse() {
        Ok(zone) => Some(zone),
        Err(_) => item.refuse("expected a time zone", advice_on_zone(text)),
    }
}

fn advice_on_zone(text: &str) -> String {
    // An abbreviation is close to many names, and none of them is meant: `EST` has no daylight saving time.
    if (3..=5).contains(&text.len()) && text.chars().all(|letter| letter.is_ascii_uppercase()) {
        return "write the name of a zone, such as \"America/Los_Angeles\" or \"UTC\"".to_owned();
    }
    match advice(text, chrono_tz::TZ_VARIANTS.iter().map(|zone| zone.name())) {
        meant if meant.starts_with("did you mean") => meant,
        _ => "write for example \"America/Los_Angeles\" or \"UTC\"".to_owned(),
    }
}
