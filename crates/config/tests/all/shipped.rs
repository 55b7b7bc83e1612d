//! The `quotas.toml` that ships.

use std::collections::BTreeMap;
use std::time::Duration;

use ingest_config::{Auth, Class, Config, LedgerStore, RuleBody, SecretSource, classify};
use ingest_quota::{Calendar, Outage, Units};
use proptest::prelude::*;
use serde_json::json;

use super::{SHIPPED, parse, right};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn shipped() -> Config {
    right(SHIPPED, &[])
}

#[test]
fn every_list_call_has_its_weight() {
    let of_one = [
        "activities",
        "channels",
        "channelSections",
        "comments",
        "commentThreads",
        "guideCategories",
        "i18nLanguages",
        "i18nRegions",
        "members",
        "membershipsLevels",
        "playlistItems",
        "playlists",
        "subscriptions",
        "videoAbuseReportReasons",
        "videoCategories",
        "videos",
    ];
    let weights = of_one.map(|resource| (format!("{resource}.list"), 1));
    let weights = weights.into_iter().chain([
        ("search.list".to_owned(), 100),
        ("captions.list".to_owned(), 50),
    ]);
    let config = shipped();
    let calls = &config.upstreams["youtube"].calls;
    let found: BTreeMap<String, u64> = calls
        .values()
        .map(|call| (call.name.clone(), call.cost.of("daily").get()))
        .collect();
    assert_eq!(found, weights.collect());
    for call in calls.values() {
        assert_eq!(
            call.cost.of("search"),
            Units::new(u64::from(call.name == "search.list")),
            "{}",
            call.name
        );
        assert!(
            call.path.is_some() && call.records.is_some(),
            "{} can be made",
            call.name
        );
    }
    assert_eq!(calls["search.list"].outage, Some(Outage::Refuse));
}

#[test]
fn each_kind_of_record_is_that_of_one_call() {
    let config = shipped();
    let kinds: Vec<_> = config.upstreams["youtube"]
        .calls
        .values()
        .map(|call| &call.records.as_ref().unwrap().kind)
        .collect();
    let distinct: std::collections::BTreeSet<_> = kinds.iter().collect();
    assert_eq!(distinct.len(), kinds.len());
}

#[test]
fn the_limits_are_those_of_the_upstream() {
    let config = shipped();
    let credential = &config.credentials["youtube"];
    assert_eq!(
        credential.secret,
        Some(SecretSource::Env("YOUTUBE_API_KEY".to_owned()))
    );
    assert_eq!(
        credential.upstream.auth,
        Auth::Header("x-goog-api-key".to_owned())
    );
    for (name, quota, enforced) in [("daily", 10_000, 9_500), ("search", 100, 90)] {
        let limit = &credential.account.limits[name];
        assert_eq!(
            (limit.quota(), limit.enforced()),
            (Units::new(quota), Units::new(enforced))
        );
        assert_eq!(limit.window().sliding(), Some(DAY));
        assert_eq!(
            limit.window().resets(),
            Some(Calendar::days(chrono_tz::America::Los_Angeles))
        );
    }
}

/// What the upstream says of a spent bucket closes that limit, not another.
#[test]
fn a_spent_bucket_is_found_among_the_limits() {
    let config = shipped();
    let limits = &config.credentials["youtube"].limits;
    let metadata = json!({ "quota_limit": "defaultSearchListPerDayPerProject", "quota_unit": "1/d/{project}" });
    let body = json!({ "error": { "details": [{ "metadata": metadata }] } });
    let seen = RuleBody {
        document: &body,
        text: &body.to_string(),
    };
    let rule = classify(&config.upstreams["youtube"].errors, 429, |_| None, seen).unwrap();
    assert_eq!(rule.class, Class::Spent);
    let named = rule.limit_at.as_ref().unwrap().text_in(&body);
    let meant: Vec<_> = limits
        .iter()
        .filter(|(_, limit)| limit.upstream_name == named)
        .map(|(name, _)| name)
        .collect();
    assert_eq!(meant, ["search"]);
}

#[test]
fn the_jobs_are_those_of_the_readme() {
    let config = shipped();
    let codes: Vec<_> = config
        .regions
        .iter()
        .map(|region| region.code.as_str())
        .collect();
    assert_eq!(codes, ["US", "GB", "DE", "FR", "IN", "BR", "AU", "CA"]);
    assert_eq!(config.ledger.store, LedgerStore::Sqlite);
    assert_eq!(config.upstreams["youtube"].keep, Some(30 * DAY));

    let [trending, discover] = config.jobs.as_slice() else {
        panic!("{:?}", config.jobs)
    };
    assert_eq!(
        (
            trending.name.as_str(),
            trending.every,
            trending.regions.len()
        ),
        ("trending", Some(DAY / 24), 8)
    );
    assert_eq!(
        (
            trending.steps[0].call.name.as_str(),
            trending.steps[0].max_pages
        ),
        ("videos.list", Some(4))
    );
    assert_eq!(
        trending.steps[0].params["chart"].templates()[0].as_str(),
        "mostPopular"
    );
    let channels = trending.steps[1].ids.as_ref().unwrap();
    assert_eq!(
        (
            channels.from_kind.as_str(),
            channels.batch,
            channels.fresh_for
        ),
        ("video", 50, Some(7 * DAY))
    );
    assert_eq!(
        trending.steps[1].params["part"].templates()[0].as_str(),
        "snippet,statistics",
        "the call's own parameters are there"
    );

    assert_eq!(
        (discover.name.as_str(), discover.every),
        ("discover", Some(DAY / 2))
    );
    assert_eq!(
        (
            discover.steps[0].call.name.as_str(),
            discover.steps[0].max_pages
        ),
        ("search.list", Some(1))
    );
    let videos = discover.steps[1].ids.as_ref().unwrap();
    assert_eq!(
        (videos.from_kind.as_str(), videos.batch, videos.fresh_for),
        ("search_result", 50, Some(DAY))
    );
}

/// At most 200 channels and 50 hits a region, each in batches of 50.
#[test]
fn both_jobs_of_all_regions_fit_into_one_day_beside_what_they_leave() {
    let config = shipped();
    let regions = config.regions.len() as u64;
    let [trending, discover] = config.jobs.as_slice() else {
        panic!("{:?}", config.jobs)
    };
    let lists = |job: &ingest_config::Job| {
        job.steps[0]
            .call
            .cost
            .times(job.steps[0].max_pages.unwrap() * regions)
    };
    let (mut hourly, mut twice) = (lists(trending), lists(discover));
    hourly.add(&trending.steps[1].call.cost.times(regions * 200 / 50));
    twice.add(&discover.steps[1].call.cost.times(regions * 50 / 50));
    let limits = config.credentials["youtube"].account.limits.iter();
    let (a_day, shorter): (Vec<_>, Vec<_>) = limits.partition(|(name, _)| *name != "search_burst");
    for (name, limit) in shorter {
        assert!(
            lists(discover).of(name) <= limit.enforced(),
            "a pass is not stopped half way"
        );
    }
    let [by_trending, by_discover] = [trending, discover].map(|job| job.leave.of(&job.credential));
    for (name, limit) in a_day {
        assert!(
            twice.of(name) <= by_trending.of(name) || name == "search",
            "{name}: a pass fits into what is left"
        );
        let both = hourly.of(name) + twice.of(name) + by_trending.of(name);
        assert!(both <= limit.enforced(), "{name}: {both}");
        // Channels are asked for once in 7 days, so that all but the first of a day's passes are lists.
        let of_trending = lists(trending).of(name).times(24) + hourly.of(name);
        let day = of_trending + twice.of(name).times(2);
        let left = by_discover.of(name).saturating_sub(by_trending.of(name));
        assert!(
            lists(trending).of(name).times(24) <= left,
            "searches leave a day of lists"
        );
        assert!(
            day + by_trending.of(name) <= limit.enforced(),
            "{name}: {day}"
        );
    }
}

/// A piece of text put somewhere, a piece taken away, or a line moved elsewhere.
#[derive(Debug, Clone)]
enum Change {
    Put(usize, String),
    Cut(usize, usize),
    Move(usize, usize),
}

fn change() -> impl Strategy<Value = Change> {
    let at = 0..SHIPPED.len();
    let text = "(\"|'|=|\\[|\\]|\\{|\\}|\n|#|,|\\.|-|0|9{25}|1e9|nan|true|2026-01-01|\\\\u0000|é|\"\"\"|[a-z]){1,4}";
    prop_oneof![
        (at.clone(), text).prop_map(|(at, text)| Change::Put(at, text)),
        (at.clone(), 1..40_usize).prop_map(|(at, length)| Change::Cut(at, length)),
        (at.clone(), at).prop_map(|(from, to)| Change::Move(from, to)),
    ]
}

/// The last place at or before `at` between two characters.
fn boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len()))
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0)
}

fn changed(mut text: String, change: &Change) -> String {
    match change {
        Change::Put(at, piece) => {
            let at = boundary(&text, *at);
            text.insert_str(at, piece);
        }
        Change::Cut(at, length) => {
            let (from, to) = (boundary(&text, *at), boundary(&text, at + length));
            text.replace_range(from..to, "");
        }
        Change::Move(from, to) => {
            let mut lines: Vec<&str> = text.lines().collect();
            let (from, to) = (from % lines.len(), to % lines.len());
            let line = lines.remove(from);
            lines.insert(to, line);
            text = lines.join("\n");
        }
    }
    text
}

proptest! {
    // Each reads the whole file.
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_file_that_was_changed_anyhow_is_right_or_refused(changes in prop::collection::vec(change(), 1..6)) {
        let text = changes.iter().fold(SHIPPED.to_owned(), changed);
        if let Err(error) = parse(&text, &[]) {
            let said = error.to_string();
            prop_assert!(said.lines().all(|line| line.starts_with("quotas.toml:")), "{}", said);
        }
    }

    #[test]
    fn no_text_makes_a_set_panic(
        path in "(upstreams|youtube|jobs|trending|regions|steps|calls|\\.|\"|'|\\\\|[0-9]|=|\\[|#|\n|[a-z]| ){0,8}",
        value in "([a-z]|\"|'|\\[|\\]|\\{|\\}|=|,|[0-9]|\\.|\n){0,12}",
    ) {
        let set = format!("{path}={value}");
        let _ = parse(SHIPPED, &[&set]);
    }
}
