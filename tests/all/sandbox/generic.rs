use std::collections::BTreeSet;
use std::time::Duration;

use ingest_config::{Class, Config, RuleBody, classify};
use ingest_quota::Units;
use ingest_sandbox::{Options, Sandbox};
use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};

use super::{Table, invented};
use crate::support::world::World;

/// An upstream of one call, `things.list`, that turns its pages in this way.
fn api(page: &str, upstream: &str, credential: &str) -> Config {
    invented(&format!(
        r#"
        regions = ["US", "GB"]
        [upstreams.plain]
        base_url = "https://api.example.com/v1"
        {upstream}
        [upstreams.plain.calls."things.list"]
        path = "things/{{region}}"
        cost = 1
        page = {page}
        [upstreams.plain.calls."things.list".records]
        at = "/data/list"
        kind = "thing"
        id = ["/id", "/part/1/id"]
        text = ["/names/*/text"]
        columns = {{ star_count = "/counts/stars", made_at = "/made", label = "/labels/0" }}
        [upstreams.plain.calls."things.get"]
        path = "things"
        cost = 1
        records = {{ at = "", kind = "thing", id = "/id" }}
        [credentials.plain]
        upstream = "plain"
        {credential}
        [jobs.all]
        credential = "plain"
        [[jobs.all.steps]]
        call = "things.list"
        [[jobs.all.steps]]
        call = "things.get"
        params = {{ only = "{{ids}}" }}
        ids = {{ from = "things.list", at = "/owner/id", batch = 10 }}
        "#
    ))
}

const DAILY: &str = r#"limits = { daily = { quota = 1_000, resets = "UTC" } }"#;

async fn plain(page: &str) -> Table {
    Table::laid(&api(page, "", DAILY), Options::default()).await
}

impl Table {
    fn things(&self, region: &str, query: &[(&str, String)]) -> RequestBuilder {
        self.client
            .get(self.url("plain", &format!("things/{region}")))
            .query(query)
    }

    async fn page(&self, region: &str, query: &[(&str, String)]) -> Value {
        good(self.things(region, query).send().await.unwrap()).await
    }
}

async fn good(response: Response) -> Value {
    assert_eq!(response.status(), 200);
    response.json().await.unwrap()
}

fn list(page: &Value) -> Vec<String> {
    let records = page["data"]["list"].as_array().unwrap();
    records
        .iter()
        .map(|record| record["id"].as_str().unwrap().to_owned())
        .collect()
}

fn distinct(pages: &[Vec<String>]) -> usize {
    pages.concat().into_iter().collect::<BTreeSet<_>>().len()
}

const SIZES: [usize; 4] = [10, 10, 10, 5];

fn assert_walked(pages: &[Vec<String>]) {
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), SIZES);
    assert_eq!(distinct(pages), 35);
}

#[tokio::test]
async fn pages_are_turned_by_a_url_in_the_body_that_holds_no_secret() {
    let secret = format!("secret = {{ env = \"K\" }}\n{DAILY}");
    let page = r#"{ kind = "next_url", next = "/next", size = 10 }"#;
    let config = api(page, "auth = { query = \"key\" }", &secret);
    let table = Table::laid(&config, Options::default()).await;
    let mut url = table.url("plain", "things/US?q=a%20b");
    let mut pages = Vec::new();
    loop {
        let page = good(
            table
                .client
                .get(&url)
                .query(&[("key", "any")])
                .send()
                .await
                .unwrap(),
        )
        .await;
        pages.push(list(&page));
        let Some(next) = page["next"].as_str() else {
            break;
        };
        assert!(next.starts_with(&table.url("plain", "things/US")) && !next.contains("key"));
        next.clone_into(&mut url);
    }
    assert_walked(&pages);
}

#[tokio::test]
async fn a_call_without_pages_answers_all_at_once() {
    let table = plain(r#"{ kind = "none" }"#).await;
    assert_eq!(list(&table.page("US", &[]).await).len(), 20);
}

#[tokio::test]
async fn a_post_carries_its_offset_in_the_body() {
    let config = invented(
        r#"
        regions = ["US"]
        [upstreams.reports]
        base_url = "https://reports.example.com"
        auth = { bearer = true }
        [upstreams.reports.calls."run"]
        path = "v1/{{x}}/properties/{region}:runReport"
        method = "POST"
        cost = 5
        json = { country = "{region}" }
        page = { kind = "offset", param = "offset", in = "body", size_param = "limit", size = 10, total = "/rowCount" }
        records = { at = "/rows", kind = "row", id = ["/dimensionValues/0/value", "/dimensionValues/1/value"], columns = { users = "/metricValues/0/value" } }
        [credentials.reports]
        upstream = "reports"
        secret = { command = ["token"] }
        limits = { daily = { quota = 100, resets = "UTC" } }
        "#,
    );
    let table = Table::laid(&config, Options::default()).await;
    let ask = |offset: u64| {
        let request = table
            .client
            .post(table.url("reports", "v1/%7Bx%7D/properties/US:runReport"));
        let request = request.json(&json!({ "country": "US", "offset": offset, "limit": 10 }));
        request.bearer_auth(Sandbox::secret_of("reports")).send()
    };
    let (first, last) = (
        good(ask(0).await.unwrap()).await,
        good(ask(30).await.unwrap()).await,
    );
    assert_eq!(
        (
            first["rowCount"].as_u64(),
            first["rows"].as_array().unwrap().len()
        ),
        (Some(35), 10)
    );
    assert_eq!(last["rows"].as_array().unwrap().len(), 5);
    assert!(first["rows"][0]["dimensionValues"][1]["value"].is_string());
    assert!(first["rows"][0]["metricValues"][0]["value"].is_number());
    assert_eq!(table.used("daily"), 10);
    let unauthorized = table
        .client
        .post(table.url("reports", "v1/%7Bx%7D/properties/US:runReport"))
        .send();
    assert_eq!(unauthorized.await.unwrap().status(), 401);
}

#[tokio::test]
async fn whatever_the_configuration_reads_of_a_record_is_there() {
    let table = plain(r#"{ kind = "none" }"#).await;
    let page = table.page("US", &[]).await;
    for record in page["data"]["list"].as_array().unwrap() {
        assert!(record["part"][1]["id"].is_string());
        assert!(record["names"][0]["text"].is_string());
        assert!(record["counts"]["stars"].is_u64());
        assert!(record["made"].as_str().unwrap().starts_with("202"));
        assert!(record["labels"][0].is_string());
        assert!(
            record["owner"]["id"].is_string(),
            "what a job asks for next"
        );
    }
}

#[tokio::test]
async fn a_batch_of_ids_is_answered_id_by_id() {
    let table = plain(r#"{ kind = "none" }"#).await;
    let url = table.url("plain", "things");
    let asked: Vec<String> = (0..200).map(|number| format!("of-{number}")).collect();
    let mut found = Vec::new();
    for batch in asked.chunks(50) {
        let page = good(
            table
                .client
                .get(&url)
                .query(&[("only", batch.join(","))])
                .send()
                .await
                .unwrap(),
        )
        .await;
        found.extend(
            page.as_array()
                .unwrap()
                .iter()
                .map(|record| record["id"].as_str().unwrap().to_owned()),
        );
    }
    assert!(
        found.len() > 180 && found.len() < 200,
        "a few are gone: {}",
        found.len()
    );
    assert!(found.iter().all(|id| asked.contains(id)));
}

#[tokio::test]
async fn regions_overlap_and_every_process_tells_the_same() {
    let page = r#"{ kind = "number", param = "page", size = 100 }"#;
    let (table, other) = (plain(page).await, plain(page).await);
    let mut regions = Vec::new();
    for region in ["US", "GB"] {
        let mut all = BTreeSet::new();
        for number in 1..=4 {
            let query = [("page", number.to_string())];
            let page = table.page(region, &query).await;
            assert_eq!(page, other.page(region, &query).await);
            all.extend(list(&page));
        }
        regions.push(all);
    }
    assert_eq!(regions[0].len(), 350);
    assert_eq!(regions[0].intersection(&regions[1]).count(), 140);
}

/// What the upstream's own rules make of an answer.
async fn class(config: &Config, response: Response) -> Option<Class> {
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let body: Value = response.json().await.unwrap();
    let header = |name: &str| Some(headers.get(name)?.to_str().ok()?.into());
    let seen = RuleBody {
        document: &body,
        text: &body.to_string(),
    };
    classify(&config.upstreams["plain"].errors, status, header, seen).map(|rule| rule.class)
}

const RULES: &str = r#"
    auth = { header = "x-key" }
    errors = [
        { status = 410, class = "skip" },
        { status = 410, class = "spent" },
        { status = 403, header = "x-ratelimit-remaining", header_is = "0", until_header = "x-ratelimit-reset", class = "spent" },
        { status = [403, 429], at = "/problem/*/code", is = "TOO_FAST*", class = "slow_down" },
        { status = 403, text = "no such key", class = "denied" },
        { status = "4xx", at = "/problem/0/code", is = ["CURSOR", "PAGE"], class = "bad_cursor" },
    ]
"#;

fn with_rules(limit: &str) -> Config {
    let page = r#"{ kind = "token", param = "from", next = "/next" }"#;
    api(
        page,
        RULES,
        &format!("secret = {{ env = \"K\" }}\nlimits = {{ daily = {limit} }}"),
    )
}

async fn ruled(limit: &str, query: &[(&str, String)], key: &str) -> (u16, Option<Class>) {
    let config = with_rules(limit);
    let table = Table::laid(
        &config,
        Options {
            quota: Some(Units::new(2)),
            ..Options::default()
        },
    )
    .await;
    let ask = || table.things("US", query).header("x-key", key).send();
    let (_, _) = (ask().await, ask().await);
    let response = ask().await.unwrap();
    (response.status().as_u16(), class(&config, response).await)
}

#[tokio::test]
async fn a_refusal_is_what_the_upstreams_own_rules_know() {
    let (day, second) = (
        "{ quota = 9, resets = \"UTC\" }",
        "{ quota = 9, window = \"1s\" }",
    );
    assert_eq!(ruled(day, &[], "any").await, (403, Some(Class::Spent)));
    assert_eq!(
        ruled(second, &[], "any").await,
        (429, Some(Class::SlowDown))
    );
    assert_eq!(ruled(day, &[], "wrong").await, (403, Some(Class::Denied)));

    let table = Table::laid(&with_rules(day), Options::default()).await;
    let response = table
        .things("US", &[("from", "elsewhere".to_owned())])
        .header("x-key", "any")
        .send()
        .await;
    assert_eq!(
        class(&with_rules(day), response.unwrap()).await,
        Some(Class::BadCursor)
    );
}

#[tokio::test]
async fn a_retry_after_is_when_the_request_fits() {
    let config = api(
        r#"{ kind = "none" }"#,
        "",
        "limits = { daily = { quota = 2, window = \"10s\" } }",
    );
    let table = Table::laid(&config, Options::default()).await;
    for seconds in [0, 4] {
        table.clock.pass(Duration::from_secs(seconds));
        table.page("US", &[]).await;
    }
    table.clock.pass(Duration::from_secs(1));
    let response = table.things("US", &[]).send().await.unwrap();
    assert_eq!(
        (
            response.status().as_u16(),
            &response.headers()["retry-after"]
        ),
        (429, &"9".parse().unwrap())
    );
    table.clock.pass(Duration::from_secs(9));
    table.page("US", &[]).await;
}

/// Rules of which the first two look into details, as those of the shipped configuration.
const SPENT_BY_DETAILS: &str = r#"errors = [
    { status = [403, 429], at = "/error/details/*/metadata/quota_unit", is = "1/d/*", class = "spent", limit_at = "/error/details/*/metadata/quota_limit" },
    { status = [403, 429], at = "/error/details/*/metadata/quota_limit", is = ["*PerDayPerProject", "*PerDay"], class = "spent", limit_at = "/error/details/*/metadata/quota_limit" },
    { status = [403, 429], at = "/error/errors/*/reason", is = ["quotaExceeded", "dailyLimitExceeded"], class = "spent" },
]"#;

#[tokio::test]
async fn a_refusal_that_rules_know_by_its_details_has_them() {
    let page = r#"{ kind = "none" }"#;
    let named = r#"limits = { daily = { quota = 9, resets = "UTC", upstream_name = "TokensPerDayPerProject" } }"#;
    for credential in [DAILY, named] {
        let config = api(page, SPENT_BY_DETAILS, credential);
        let table = Table::laid(
            &config,
            Options {
                quota: Some(Units::new(1)),
                ..Options::default()
            },
        )
        .await;
        table.page("US", &[]).await;
        let response = table.things("US", &[]).send().await.unwrap();
        assert_eq!(class(&config, response).await, Some(Class::Spent));
    }
}

#[tokio::test]
async fn without_rules_a_spent_quota_is_429() {
    let config = api(r#"{ kind = "none" }"#, "", DAILY);
    let table = Table::laid(
        &config,
        Options {
            quota: Some(Units::new(1)),
            ..Options::default()
        },
    )
    .await;
    table.page("US", &[]).await;
    let response = table.things("US", &[]).send().await.unwrap();
    assert_eq!(response.status(), 429);
    assert!(response.json::<Value>().await.unwrap()["message"].is_string());
}

#[tokio::test]
async fn headers_tell_what_is_left_and_when_it_returns() {
    let table = plain(r#"{ kind = "none" }"#).await;
    let response = table.things("US", &[]).send().await.unwrap();
    let told = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(
        (told("x-ratelimit-limit"), told("x-ratelimit-remaining")),
        ("1000".to_owned(), "999".to_owned())
    );
    // 2026-11-21T00:00:00Z, and a second more so that whoever comes then is not early.
    assert_eq!(told("x-ratelimit-reset"), "1795219201");
}

#[tokio::test]
async fn a_path_with_dates_is_known_and_the_more_precise_one_is_meant() {
    let config = invented(
        r#"
        regions = ["US"]
        [upstreams.tops]
        base_url = "https://tops.example.com/api"
        [upstreams.tops.calls."top"]
        path = "top/{region}/all/{date:-1d:%Y/%m/%d}"
        cost = 1
        records = { at = "/items/0/articles", kind = "top", id = "/article" }
        [upstreams.tops.calls."any"]
        path = "top/{region}/all/{date:-1d:%Y}/{region}/07"
        cost = 1
        records = { at = "/any", kind = "any", id = "/id" }
        [upstreams.tops.calls."new"]
        path = "new/{since:-1d:%Y/%m/%d}/and/{since}"
        cost = 1
        records = { at = "/any", kind = "any", id = "/id" }
        [credentials.tops]
        upstream = "tops"
        limits = { daily = { quota = 100, resets = "UTC" } }
        "#,
    );
    let table = Table::laid(&config, Options::default()).await;
    let ask = |path: &str| table.client.get(table.url("tops", path)).send();
    let page = good(ask("top/US/all/2026/11/19").await.unwrap()).await;
    assert_eq!(page["items"][0]["articles"].as_array().unwrap().len(), 20);
    assert!(good(ask("top/US/all/2026/11/07").await.unwrap()).await["any"].is_array());
    let page = good(ask("new/2026/11/19/and/20").await.unwrap()).await;
    assert!(
        page["any"].is_array(),
        "the formats of other instants have slashes too"
    );
    for unknown in [
        "top/US/all/",
        "top/US/some/2026/11/19",
        "top",
        "new/2026/11/19/and/20/21",
    ] {
        assert_eq!(ask(unknown).await.unwrap().status(), 404, "{unknown}");
    }
}

#[test]
fn a_list_under_a_star_of_xml_and_one_that_begins_at_since_are_walked_to_their_end() {
    let base = r#"
        [upstreams.plain]
        base_url = "https://api.example.com"
        [credentials.plain]
        upstream = "plain"
        limits = { daily = { quota = 1000, window = "24h" } }
        [jobs.all]
        credential = "plain"
        steps = [{ call = "list" }]
        "#;
    let of_xml = r#"
        [upstreams.plain.calls.list]
        path = "list"
        cost = 1
        records = { format = "xml", at = "/feed/entry/*", kind = "entry", id = "/id", text = ["/title"] }
        "#;
    let since = r#"since = { at = "/id", first = 0 }
        [upstreams.plain.calls.list]
        path = "list"
        cost = 1
        params = { since_id = "{since}" }
        page = { kind = "token", param = "since_id", last = "/id", size_param = "limit", size = 50 }
        records = { at = "/items", kind = "entry", id = "/id" }
        "#;
    for call in [of_xml, since] {
        let world = World::written(&format!("{base}{call}"), &[]);
        let report = world.json(&["--region", "all"]);
        assert_eq!(report["outcome"], "complete", "{report}");
        assert!(
            report["passes"][0]["records"].as_u64() > Some(10),
            "{report}"
        );
    }
}
