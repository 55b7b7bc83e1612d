//! What a request carries, and where it goes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ingest_base::clock::{Deadline, Monotonic};
use ingest_config::{Auth, Body, Config, Method, SinceValue};
use ingest_quota::Timestamp;
use ingest_secret::Secret;
use ingest_upstream::{Client, Connection, Failure, PageRequest, Upstream};
use serde_json::json;

use super::{NOW, SECRET, answering, asking, template, things, told, whenever};
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};

fn stub() -> StubUpstream {
    answering(StubAnswer::json(&things(&["a"])))
}

#[tokio::test]
async fn paths_and_parameters_are_filled_in() {
    let stub = stub();
    let mut asking = asking(&format!("{}/v3/", stub.url()))
        .path("top/{region}/{date:-1d:%Y/%m/%d}")
        .param("city", "{city}")
        .param("id", "{ids}")
        .param("since", "{since}");
    asking
        .region
        .values
        .insert("city".to_owned(), "São Paulo & more".to_owned());
    asking.ids = vec!["x".to_owned(), "y z".to_owned()];
    let since = SinceValue::Time(Timestamp::parse("2026-06-01T00:00:00Z").unwrap());
    asking.since = Some(since);
    asking.fetch().await.unwrap();
    let request = &stub.requests()[0];
    assert_eq!(
        (&*request.method, &*request.path),
        ("GET", "/v3/top/US/2026/06/14")
    );
    assert_eq!(
        (request.param("city"), request.param("id")),
        (Some("São Paulo & more"), Some("x,y z"))
    );
    assert!(
        request
            .param("since")
            .unwrap()
            .starts_with("2026-06-01T00:00:00")
    );
}

#[tokio::test]
async fn a_value_stays_within_its_segment_of_the_path() {
    let values = [
        ("../../x", "/v3/of/..%2F..%2Fx/list"),
        ("a?b#c", "/v3/of/a%3Fb%23c/list"),
        ("%2e%2e/", "/v3/of/%252e%252e%2F/list"),
        ("a\\b", "/v3/of/a%5Cb/list"),
        ("ü", "/v3/of/%C3%BC/list"),
        ("a\r\nx: y", "/v3/of/a%0D%0Ax%3A%20y/list"),
    ];
    for (value, expected) in values {
        let stub = stub();
        asking(&format!("{}/v3", stub.url()))
            .path("/of/{region}/list")
            .region(value)
            .fetch()
            .await
            .unwrap();
        assert_eq!(stub.requests()[0].path, expected, "{value}");
    }
    for value in [".", ".."] {
        let stub = stub();
        let failure = asking(&stub.url())
            .path("of/{region}/list")
            .region(value)
            .fetch()
            .await
            .unwrap_err();
        assert!(
            told(&failure)
                .starts_with("not sent: the path of `things.list` leads outside base_url"),
            "{failure}"
        );
        assert!(stub.requests().is_empty());
    }
}

#[tokio::test]
async fn a_since_that_is_no_time_stays_within_its_segment_of_the_path() {
    let sent = async |since: &str| {
        let stub = stub();
        let mut asking = asking(&stub.url()).path("/after/{since}/list");
        asking.since = Some(SinceValue::Text(since.to_owned()));
        asking.fetch().await.unwrap();
        stub.requests()[0].path.clone()
    };
    assert_eq!(sent("a/b?c").await, "/after/a%2Fb%3Fc/list");
    assert_eq!(sent("2026-06-01").await, "/after/2026-06-01/list");
}

#[tokio::test]
async fn every_text_of_a_body_is_filled_in() {
    let stub = stub();
    let mut asking = asking(&stub.url());
    asking.call.method = Method::POST;
    let body = json!({ "filter": { "in": ["{region}", 5], "text": "a \"{region}\" {{x}}" } });
    asking.call.body = Some(Body::Json(serde_json::from_value(body).unwrap()));
    asking.region("G\"B").fetch().await.unwrap();
    let expected = json!({ "filter": { "in": ["G\"B", 5], "text": "a \"G\"B\" {x}" } });
    assert_eq!(stub.requests()[0].json(), expected);
}

#[tokio::test]
async fn the_secret_goes_where_the_upstream_wants_it() {
    let places = [
        (
            Auth::Header("x-api-key".to_owned()),
            "x-api-key",
            SECRET.to_owned(),
        ),
        (Auth::Bearer, "authorization", format!("Bearer {SECRET}")),
    ];
    for (auth, header, expected) in places {
        let stub = stub();
        asking(&stub.url()).auth(auth).fetch().await.unwrap();
        assert_eq!(stub.requests()[0].header(header), Some(&*expected));
        assert!(stub.requests()[0].query.is_empty());
    }
    let stub = stub();
    asking(&stub.url())
        .auth(Auth::Query("key".to_owned()))
        .fetch()
        .await
        .unwrap();
    assert_eq!(stub.requests()[0].param("key"), Some(SECRET));
}

#[tokio::test]
async fn a_request_says_who_asks_and_what_is_understood() {
    let (first, second) = (stub(), stub());
    asking(&first.url()).fetch().await.unwrap();
    let request = &first.requests()[0];
    assert_eq!(
        request.header("user-agent"),
        Some(concat!("ingest/", env!("CARGO_PKG_VERSION")))
    );
    assert_eq!(request.header("accept"), Some("application/json"));

    let mut configured = asking(&second.url());
    configured
        .upstream
        .headers
        .insert("User-Agent".to_owned(), template("me (mail@example.org)"));
    configured.upstream.headers.insert(
        "accept".to_owned(),
        template("application/vnd.example+json"),
    );
    configured.fetch().await.unwrap();
    assert_eq!(
        second.requests()[0].header("user-agent"),
        Some("me (mail@example.org)")
    );
    assert_eq!(
        second.requests()[0].header("accept"),
        Some("application/vnd.example+json")
    );
}

#[tokio::test]
async fn headers_are_templates_and_those_of_the_call_come_before_those_of_its_upstream() {
    let stub = stub();
    let mut configured = asking(&stub.url());
    configured
        .upstream
        .headers
        .insert("x-partition".to_owned(), template("all of {region}"));
    configured
        .upstream
        .headers
        .insert("accept-language".to_owned(), template("en"));
    configured.call.headers.insert(
        "accept-language".to_owned(),
        template("{language}, {date:%Y}"),
    );
    configured
        .region
        .values
        .insert("language".to_owned(), "de".to_owned());
    configured.fetch().await.unwrap();
    assert_eq!(stub.requests()[0].header("x-partition"), Some("all of US"));
    assert_eq!(
        stub.requests()[0].header("accept-language"),
        Some("de, 2026")
    );
}

#[tokio::test]
async fn a_request_that_no_url_can_hold_is_not_sent() {
    let stub = stub();
    let failure = asking(&stub.url())
        .param("q", &"x".repeat(100_000))
        .fetch()
        .await
        .unwrap_err();
    assert!(
        told(&failure).starts_with("not sent: the URL is 1000"),
        "{failure}"
    );
    assert!(stub.requests().is_empty());
}

#[tokio::test]
async fn the_shipped_configuration_asks_for_what_its_upstream_understands() {
    let stub = StubUpstream::start(|request| match &*request.path {
        "/v3/videos" => {
            StubAnswer::json(&json!({ "items": [{ "id": "v1" }], "nextPageToken": "CDIQAA" }))
        }
        _ => StubAnswer::error(
            403,
            &json!({ "error": { "errors": [{ "reason": "quotaExceeded" }], "message": "spent" } }),
        ),
    });
    let set = format!("upstreams.youtube.base_url={}/v3", stub.url());
    let shipped = include_str!("../../../../quotas.toml");
    let config = Config::parse(shipped, Path::new("quotas.toml"), &[set]).unwrap();
    let credential = &config.credentials["youtube"];
    let secret = Secret::given(&credential.name, SECRET.into());
    let client = Client::new(Arc::clone(&credential.upstream), secret).unwrap();
    let trending = config
        .jobs
        .iter()
        .find(|job| job.name == "trending")
        .unwrap();
    let first = PageRequest {
        step: &trending.steps[0],
        region: &trending.regions[0],
        ids: &[],
        cursor: None,
        lasting: None,
        began: NOW,
        now: NOW,
        since: None,
        known: None,
    };
    assert_eq!(
        client
            .fetch(first, Connection::default(), whenever())
            .await
            .page
            .unwrap()
            .next
            .as_deref(),
        Some("CDIQAA")
    );
    let ids = ["c1".to_owned(), "c2".to_owned()];
    let second = PageRequest {
        step: &trending.steps[1],
        ids: &ids,
        ..first
    };
    assert!(matches!(
        client
            .fetch(second, Connection::default(), whenever())
            .await
            .page,
        Err(Failure::Spent { .. })
    ));

    let requests = stub.requests();
    let listed =
        ["chart", "regionCode", "maxResults", "pageToken"].map(|name| requests[0].param(name));
    assert_eq!(listed, [Some("mostPopular"), Some("US"), Some("50"), None]);
    assert_eq!(
        (
            requests[0].header("x-goog-api-key"),
            requests[0].param("key")
        ),
        (Some(SECRET), None)
    );
    assert_eq!(
        (&*requests[1].path, requests[1].param("id")),
        ("/v3/channels", Some("c1,c2"))
    );
}

#[tokio::test]
async fn a_request_whose_leave_has_run_out_is_not_sent() {
    let stub = answering(StubAnswer::json(&things(&["a"])));
    let asking = asking(&stub.url());
    let failure = asking
        .fetch_until(Deadline::new(Monotonic::now(), Duration::ZERO))
        .await
        .unwrap_err();
    assert_eq!((failure, stub.requests().len()), (Failure::TooLate, 0));
}
