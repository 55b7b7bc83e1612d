use std::collections::BTreeSet;
use std::time::Duration;

use ingest_config::{Class, Config, RuleBody, classify};
use ingest_quota::Units;
use ingest_sandbox::Options;
use reqwest::{RequestBuilder, Response};
use serde_json::Value;

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
