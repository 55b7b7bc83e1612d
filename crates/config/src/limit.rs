//! `[credentials.NAME.limits]`: quotas.
//!
//! A scope becomes limits when the configuration is read: an account has one limit for each value that the regions have,
//! `hourly/12345`. So ledgers, reports and the sandbox need not know of scopes; what charges translates the names
//! ([`super::Credential::in_ledger`]).

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::error::Refusal;
use super::field::ResponseField;
use super::header_pattern::{HeaderPattern, Part};
use super::names::advice;
use super::values::{
    AnyUnits, As, Filled, Leaf, OneOf, SomeUnits, Span, SpanOrZero, Table, Whole, Words, default,
    described, leaf, text,
};
use super::{Region, Template, Variable};
use ingest_quota::{Calendar, Counting, Limit, LimitName, Period, Units, Window, WindowError};

/// A limit of an account, or of each value of its scope.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Table<LimitKeys>")]
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
    pub fn paces(&self) -> bool {
        self.wait >= self.limit.span()
    }

    /// Returns the name in the ledger of the quota that a request for `region` uses. `None` where the region lacks a value of
    /// the scope.
    pub fn name_for(&self, region: &Region) -> Option<LimitName> {
        let Some(scope) = &self.scope else {
            return Some(self.ledger_name.clone());
        };
        let is_known = scope
            .variables()
            .iter()
            .all(|variable| has(region, variable));
        is_known.then(|| format!("{}/{}", self.ledger_name, scope.of_region(region)))
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
        | Variable::Parent(_)
        | Variable::Cursor
        | Variable::Now
        | Variable::Since
        | Variable::Date
        | Variable::SliceFrom
        | Variable::SliceTo
        | Variable::Secret(_) => false,
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LimitKeys {
    /// The units that the upstream grants. Example: `quota = 10_000`.
    #[serde(with = "As::<SomeUnits>")]
    pub quota: Units,
    /// Units that are never used: for other clients of the account, and for requests around midnight that the two sides count in
    /// different days. Example: `headroom = 500`.
    #[serde(default = "default::units::<0>", with = "As::<AnyUnits>")]
    pub headroom: Units,
    /// The length of the sliding window: no span of it contains more than the quota. A limit has `window`, `resets`, or both. Example: `window = "24h"`.
    #[serde(default, with = "As::<Option<Span>>")]
    pub window: Option<Duration>,
    /// The time zone whose calendar resets the quota: at midnight, or by `period`. Example: `resets = "America/Los_Angeles"`.
    #[serde(default, with = "As::<Option<Zone>>")]
    pub resets: Option<chrono_tz::Tz>,
    /// The period of a limit with `resets`. Example: `period = "month"`.
    #[serde(default, with = "As::<Option<OneOf<Period>>>")]
    pub period: Option<Period>,
    /// How charges are remembered. With `exact`, each takes some 180 bytes in Redis while it counts: choose `buckets` for more than a
    /// million charges in a window without `resets`. An account remembers the ids of its charges for the longest limit that counts
    /// exactly, or else for ten minutes: a repeat after that is charged again. The counting can be changed at any time. Example: `counting = "buckets"`.
    #[serde(default)]
    pub counting: CountingWord,
    /// The number of parts of the window with `counting = "buckets"`. If unset, 60. Example: `buckets = 24`.
    #[serde(default, with = "As::<Option<Buckets>>")]
    pub buckets: Option<u32>,
    /// Each value of this template has a quota of its own: `"{region}"`, or values of the regions. Such a limit is named with its
    /// value: `hourly/12345`. A step with `ids` cannot charge it, since its requests serve several regions. If unset, the account has
    /// one quota. Example: `scope = "{property}"`.
    #[serde(default, with = "As::<Option<Scope>>")]
    pub scope: Option<Template>,
    /// The longest time that a run sleeps for this limit; a longer wait stops it. Example: `wait = "1min"`.
    #[serde(default = "default::seconds::<2>", with = "As::<SpanOrZero>")]
    pub wait: Duration,
    /// The upstream's name for this limit, in responses that report it exhausted. Example: `upstream_name = "defaultPerDayPerProject"`.
    #[serde(default, with = "As::<Option<Filled>>")]
    pub upstream_name: Option<String>,
    /// Whether the limit is your own, unknown to the upstream. A refusal that names no limit closes the limits of its call that have
    /// an `upstream_name`; without such, all but your own; and your own only where the call charges no other. Example: `own = true`.
    #[serde(default)]
    pub own: bool,
    /// Where responses report the remaining units. If that is less than the ledger counts, the ledger takes it. Example: `reported = {
    /// remaining = "x-ratelimit-remaining" }`.
    pub reported: Option<Table<ReportedState>>,
}

impl Words for Period {
    const WORDS: &'static [(&'static str, Self, &'static str)] = &[
        ("hour", Self::Hour, "From one full hour to the next."),
        ("day", Self::Day, "From midnight to midnight. The default."),
        ("week", Self::Week, "From Monday to Monday."),
        (
            "month",
            Self::Month,
            "From the first of a month to the first of the next.",
        ),
    ];
}

/// `counting`, of the limits of an account and of those on readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CountingWord {
    /// Each by itself.
    #[default]
    Exact,
    /// Each part of the window as one sum, the oldest in full: little memory, never more than the quota, up to one part of the window
    /// too strict.
    Buckets,
}

impl CountingWord {
    /// The counting, with this number of parts where it has parts.
    pub const fn with(self, parts: u32) -> Counting {
        match self {
            Self::Exact => Counting::Exact,
            Self::Buckets => Counting::Buckets(parts),
        }
    }
}

/// The number of parts of a window where none is configured.
pub const PARTS: u32 = 60;

pub type Buckets = Whole<u32, 1, 10_000>;

/// Where responses report the state of a limit.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReportedState {
    /// The remaining units. If neither this nor `used` is set, nor read by `pattern`, `reset` alone closes the limit. Example:
    /// `remaining = "x-ratelimit-remaining"`.
    pub remaining: Option<ResponseField>,
    /// The used units of the current window, instead of `remaining`: `quota` less these remain. Example: `used = "x-mbx-used-weight-1m"`.
    pub used: Option<ResponseField>,
    /// A header with several values: its name, a colon and its text, with `{remaining}`, `{used}`, `{quota}` or `{reset}` for the
    /// parts that are read, and `*` for any text. What stands behind the pattern, and blanks, do not matter. Headers of one name are
    /// read as one, with commas between them. With
    /// `{used}/{quota}`, the reported quota less the used units remain. It replaces `remaining` and `used`, and with
    /// `{reset}` also `reset`. For `total=10; remaining=9; resets=54`, write
    /// `"x-index: *remaining={remaining}; resets={reset}"`; for `"minute";r=3, "default";r=50;t=30`, write
    /// `'ratelimit: *"default";r={remaining};t={reset}'`. Example: `pattern = "sforce-limit-info: api-usage={used}/{quota}"`.
    pub pattern: Option<HeaderPattern>,
    /// The time at which all units return: in RFC 3339, as an HTTP date, in seconds since 1970 or thousandths, millionths or
    /// billionths of them, or in seconds from now. Without units left, the limit is closed until then; without `remaining` and `used`,
    /// by every response that has it, such as the `backoff` of Stack Exchange. Example: `reset = "x-ratelimit-reset"`.
    pub reset: Option<ResponseField>,
    /// The `upstream_name`, or else the name, of the limit that a response is about. If unset, it is this one. Example: `resource = "x-ratelimit-resource"`.
    pub resource: Option<ResponseField>,
}

impl ReportedState {
    /// Whether responses report units, and not only waits.
    pub fn reports_units(&self) -> bool {
        let reads =
            |pattern: &HeaderPattern| pattern.has(Part::Remaining) || pattern.has(Part::Used);
        self.remaining.is_some() || self.used.is_some() || self.pattern.as_ref().is_some_and(reads)
    }
}

impl ReportedState {
    /// Refuses keys that report the same, or nothing.
    fn checked(self) -> Result<Self, Refusal> {
        let refuse = |key: &str, expected: &str, remedy: &str| {
            Err(Refusal::new(expected, remedy).below(key))
        };
        if let Some(pattern) = &self.pattern {
            let resets_twice = self.reset.is_some() && pattern.has(Part::Reset);
            if self.remaining.is_some() || self.used.is_some() || resets_twice {
                return refuse(
                    "pattern",
                    "another key reports the same",
                    "remove one of them",
                );
            }
            return Ok(self);
        }
        match (&self.remaining, &self.used) {
            (Some(_), Some(_)) => {
                refuse("used", "`remaining` reports the same", "remove one of them")
            }
            (None, None) if self.reset.is_none() => Err(Refusal::missing(
                "remaining",
                "\"x-ratelimit-remaining\", or used = \"x-used\", or reset = \"/backoff\"",
            )),
            (Some(at), None) if says_used(&at.to_string()) => refuse(
                "remaining",
                "expected the units that remain, not those that are used",
                &format!("write used = \"{at}\""),
            ),
            (Some(at), None) if ends_in(&at.to_string(), &["limit", "reset"]) => refuse(
                "remaining",
                "expected the units that remain, not the quota or its reset",
                "write for example \"x-ratelimit-remaining\"",
            ),
            _ => Ok(self),
        }
    }
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

described!(CredentialLimit: LimitKeys);

impl TryFrom<Table<LimitKeys>> for CredentialLimit {
    type Error = Refusal;

    /// Its name is not among its keys: [`super::Credential`] adds it.
    fn try_from(Table(keys): Table<LimitKeys>) -> Result<Self, Refusal> {
        if keys.resets.is_none() && keys.period.is_some() {
            let example = "the time zone of the period, such as \"UTC\"";
            return Err(Refusal::missing("resets", example));
        }
        if keys.own && (keys.upstream_name.is_some() || keys.reported.is_some()) {
            let refusal = Refusal::new(
                "the upstream knows a limit that it names or reports",
                "remove `own`, or `upstream_name` and `reported`",
            );
            return Err(refusal.below("own"));
        }
        let reported = keys
            .reported
            .as_ref()
            .map(|Table(one)| one.clone().checked())
            .transpose();
        let reported = reported.map_err(|refusal| refusal.below("reported"))?;
        let limit = Limit::new(keys.quota, keys.headroom, window(&keys)?).map_err(|error| {
            Refusal::new(error, "write a headroom below the quota").below("headroom")
        })?;
        Ok(Self {
            limit,
            scope: keys.scope,
            ledger_name: LimitName::new(),
            wait: keys.wait,
            upstream_name: keys.upstream_name,
            own: keys.own,
            reported,
        })
    }
}

fn window(keys: &LimitKeys) -> Result<Window, Refusal> {
    if keys.counting == CountingWord::Exact && keys.buckets.is_some() {
        return Err(Refusal::missing(
            "counting",
            "\"buckets\", or remove `buckets`",
        ));
    }
    let period = keys.period.unwrap_or_default();
    let resets = keys.resets.map(|zone| Calendar::new(zone, period));
    let counting = keys.counting.with(keys.buckets.unwrap_or(PARTS));
    let window = Window::new(keys.window, resets).and_then(|window| window.counted(counting));
    window.map_err(|error| match error {
        WindowError::Missing => Refusal::missing("window", "\"24h\", or resets = \"UTC\", or both"),
        WindowError::Zero => Refusal::new(error, "write window = \"24h\""),
        WindowError::BucketsOfCalendar => {
            Refusal::new(error, "remove `counting`, or replace `resets` by `window`")
                .below("counting")
        }
    })
}

leaf!(
    Scope,
    Template,
    Template,
    |template| {
        let of_region =
            |variable: &Variable| matches!(variable, Variable::Region | Variable::OfRegion(_));
        let variables = template.variables();
        (!variables.is_empty() && variables.iter().all(of_region)).then_some(template)
    },
    "expected {region} or values of the regions, and no other variable",
    "write for example \"{region}\"",
    Template::schema(),
);

/// A time zone by its name in the time zone database, in that very case.
struct Zone;

impl Leaf for Zone {
    type Value = chrono_tz::Tz;

    fn read(raw: Value) -> Result<chrono_tz::Tz, Refusal> {
        let text = text(raw)?;
        let zone = text.parse();
        zone.map_err(|_| Refusal::new("expected a time zone", advice_on_zone(&text)))
    }

    fn schema() -> Value {
        json!({ "title": "time zone", "type": "string", "minLength": 1 })
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
