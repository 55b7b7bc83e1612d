//! Upstreams that differ in paging, auth and quota: all of them can be said.

use ingest_config::{Auth, Class, Method, PageKind, Region, RuleBody, Template, Values, classify};
use ingest_quota::{Timestamp, Units};
use serde_json::json;

use super::right;

const OTHERS: &str = r#"
[regions.DE]
language = "rust"
property = 4711

[regions.FR]
language = "ocaml"
property = 4712

# Link headers, a bearer token, hourly and minutely limits that answers tell by headers.
[upstreams.forge]
base_url = "https://api.forge.example"
auth = { bearer = true }
headers = { accept = "application/vnd.forge+json" }
errors = [
    { status = [403, 429], header = "x-ratelimit-remaining", header_is = "0", class = "spent", until_header = "x-ratelimit-reset" },
    { status = [403, 429], header = "retry-after", class = "slow_down" },
]
[upstreams.forge.calls."search.repositories"]
path = "search/repositories"
cost = { search = 1 }
params = { q = "language:{language} pushed:>{date:-1d}" }
page = { kind = "link", size_param = "per_page", size = 100 }
records = { at = "/items", kind = "repository", id = "/full_name" }
[credentials.forge]
upstream = "forge"
secret = { command = ["forge-token"] }
[credentials.forge.limits]
core = { quota = 5_000, window = "1h" }
search = { quota = 30, window = "1m", wait = "1m" }
[jobs.repositories]
credential = "forge"
steps = [{ call = "search.repositories" }]

# POST, offsets in the body, tokens whose day ends at midnight Pacific.
[upstreams.analytics]
base_url = "https://data.analytics.example/v1beta"
auth = { bearer = true }
errors = [
    { status = 429, text = "per day", class = "spent" },
    { status = 429, text = "per hour", class = "spent" },
    { status = 429, class = "slow_down" },
]
[upstreams.analytics.calls.runReport]
path = "properties/{property}:runReport"
method = "POST"
cost = { daily = 10, hourly = 10 }
json = { dateRanges = [{ startDate = "{date:-1d}", endDate = "{date}" }], metrics = [{ name = "users" }], filter = "{region}" }
page = { kind = "offset", param = "offset", in = "body", size_param = "limit", size = 1000, total = "/rowCount" }
records = { at = "/rows", kind = "row", id = ["/dimensionValues/0/value", "/dimensionValues/1/value"] }
[credentials.analytics]
upstream = "analytics"
secret = { file = "/run/token" }
limits = { daily = { quota = 200_000, resets = "America/Los_Angeles" }, hourly = { quota = 40_000, window = "1h" } }
[jobs.reports]
credential = "analytics"
steps = [{ call = "runReport" }]

# A key in the query, page numbers, a day that ends at 00:00 UTC, one request a second.
[upstreams.news]
base_url = "https://news.example/api/v4"
auth = { query = "apikey" }
errors = [{ status = 403, class = "spent" }, { status = 429, class = "slow_down" }]
[upstreams.news.calls.top]
path = "top-headlines"
cost = { daily = 1, pace = 1 }
params = { country = "{region}", from = "{since}" }
page = { kind = "number", param = "page", size_param = "max", size = 10 }
records = { at = "/articles", kind = "article", id = "/url" }
[credentials.news]
upstream = "news"
secret = { credential = "news-key" }
limits = { daily = { quota = 100, resets = "UTC" }, pace = { quota = 1, window = "1s" } }
[jobs.headlines]
credential = "news"
steps = [{ call = "top", max_pages = 2 }]

# No key, no pages, a date in the path.
[upstreams.views]
base_url = "https://views.example/metrics"
headers = { user-agent = "ingest (someone@example.com)" }
[upstreams.views.calls.top]
path = "top-per-country/{region}/all-access/{date:-1d:%Y/%m/%d}"
cost = { pace = 1 }
records = { at = "/items/0/articles", kind = "article", id = "/article" }
[credentials.views]
upstream = "views"
limits = { pace = { quota = 3, window = "1s" } }
[jobs.views]
credential = "views"
every = "24h"
steps = [{ call = "top" }]
"#;

#[test]
fn upstreams_that_differ_in_everything_are_read() {
    let config = right(OTHERS, &[]);
    assert_eq!(config.jobs.len(), 4);
    let forge = &config.upstreams["forge"];
    assert_eq!(
        (&forge.auth, forge.headers["accept"].as_str()),
        (&Auth::Bearer, "application/vnd.forge+json")
    );
    let paging = &forge.calls["search.repositories"].paging;
    assert_eq!(paging.kind, PageKind::Link);
    let report = &config.upstreams["analytics"].calls["runReport"];
    assert_eq!(
        (&report.method, report.cost.of("hourly")),
        (&Method::POST, Units::new(10))
    );
    assert_eq!(config.upstreams["views"].auth, Auth::None);
    assert!(config.credentials["views"].secret.is_none());
}

#[test]
fn rules_for_a_text_come_before_those_for_its_status() {
    let config = right(OTHERS, &[]);
    let class = |text: &str| {
        let body =
            json!({ "error": { "code": 429, "message": text, "status": "RESOURCE_EXHAUSTED" } });
        let seen = RuleBody {
            document: &body,
            text: &body.to_string(),
        };
        classify(&config.upstreams["analytics"].errors, 429, |_| None, seen)
            .unwrap()
            .class
    };
    assert_eq!(class("no tokens are left per hour"), Class::Spent);
    assert_eq!(class("too many at once"), Class::SlowDown);
}

#[test]
fn a_path_is_made_of_the_region_and_the_day_before() {
    let config = right(OTHERS, &[]);
    let template: &Template = config.upstreams["views"].calls["top"]
        .path
        .as_ref()
        .unwrap();
    let region: &Region = &config.regions[0];
    let now = Timestamp::parse("2026-03-01T00:00:00Z").unwrap();
    let path = template.render(&Values {
        region,
        ids: &[],
        cursor: None,
        now,
        since: None,
        parent: &[],
    });
    assert_eq!(path, "top-per-country/DE/all-access/2026/02/28");
}
