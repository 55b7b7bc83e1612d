//! Turning pages: each kind from its first page to its own end.

use ingest_config::{Auth, Method, PageKind, Paging, Place};
use ingest_upstream::Failure;
use serde_json::{Value, json};

use super::{Asking, SECRET, answering, asking, ids, pointer, things, token_paging, told};
use ingest_testing::stub_upstream::{StubAnswer, StubRequest, StubUpstream};

fn sized(paging: Paging, param: Option<&str>, size: u64) -> Paging {
    Paging {
        size_param: param.map(str::to_owned),
        size: Some(size),
        ..paging
    }
}

fn offset(total: Option<&str>, place: Place) -> Paging {
    let (param, total) = ("offset".to_owned(), total.map(pointer));
    let paging = Paging {
        kind: PageKind::Offset,
        param: Some(param),
        place: Some(place),
        total,
        ..Paging::default()
    };
    sized(paging, Some("limit"), 2)
}

fn number(first: u64) -> Paging {
    Paging {
        kind: PageKind::Number,
        param: Some("page".to_owned()),
        first: Some(first.to_string()),
        ..Paging::default()
    }
}

/// Turns pages until the end; the ids of each, and what was asked for each.
async fn walk(mut asking: Asking, stub: &StubUpstream) -> (Vec<Vec<String>>, Vec<StubRequest>) {
    let client = asking.client();
    let mut pages = Vec::new();
    loop {
        let page = asking.fetch_by(&client).await.unwrap();
        pages.push(ids(&page).into_iter().map(str::to_owned).collect());
        asking.cursor = page.next;
        if asking.cursor.is_none() {
            return (pages, stub.requests());
        }
    }
}

#[tokio::test]
async fn a_token_may_be_a_number_and_ends_where_it_is_blank() {
    let long: Value = serde_json::from_str("18446744073709551617").unwrap();
    let wrong = |found: &str| {
        Err(format!(
            "wrong shape: the response contains {found} instead of the next page's token (at `/next`)"
        ))
    };
    let tokens = [
        (json!("CAoQAA"), Ok(Some("CAoQAA"))),
        (json!(12), Ok(Some("12"))),
        (json!(null), Ok(None)),
        (json!(""), Ok(None)),
        (json!(" "), Ok(None)),
        (json!(false), Ok(None)),
        (json!({}), wrong("an object")),
        (long, Ok(Some("18446744073709551617"))),
        (json!(1.5), Ok(Some("1.5"))),
    ];
    for (token, expected) in tokens {
        let stub = answering(StubAnswer::json(
            &json!({ "items": [{ "id": "a" }], "next": token }),
        ));
        let page = asking(&stub.url()).paging(token_paging()).fetch().await;
        let next = page.map(|page| page.next).map_err(|failure| told(&failure));
        assert_eq!(
            next,
            expected.map(|next: Option<&str>| next.map(str::to_owned)),
            "{token}"
        );
    }
}

#[tokio::test]
async fn a_cursor_that_should_be_a_number_and_is_none_is_a_bad_one() {
    for paging in [offset(None, Place::Query), number(1)] {
        let stub = answering(StubAnswer::json(&things(&["a"])));
        let failure = asking(&stub.url())
            .paging(paging)
            .cursor("x".to_owned())
            .fetch()
            .await
            .unwrap_err();
        assert!(matches!(failure, Failure::BadCursor(_)));
        assert!(stub.requests().is_empty());
    }
}

fn next_url() -> Paging {
    Paging {
        kind: PageKind::NextUrl,
        next: Some(pointer("/links/next")),
        ..Paging::default()
    }
}

fn link() -> Paging {
    Paging {
        kind: PageKind::Link,
        ..Paging::default()
    }
}

/// An upstream whose first page leads on to `next`, in a header and in the body, and whose second is the last.
fn leading_to(next: impl Fn(&StubRequest) -> String + Send + Sync + 'static) -> StubUpstream {
    StubUpstream::start(move |request| match request.param("page") {
        Some(_) => StubAnswer::json(&things(&["b"])),
        None => {
            let (next, mut body) = (next(request), things(&["a"]));
            body["links"] = json!({ "next": next });
            StubAnswer::json(&body).header(
                "link",
                &format!(r#"<{next}>; rel="next", </x?page=9>; rel="last""#),
            )
        }
    })
}

#[tokio::test]
async fn a_url_of_the_next_page_is_followed_as_it_is() {
    for paging in [next_url(), link()] {
        let here = leading_to(|request| {
            format!(
                "http://{}/v1/things?page=2&after=a%2Fb",
                request.header("host").unwrap()
            )
        });
        let (pages, asked) = walk(
            asking(&here.url()).param("q", "x").paging(paging.clone()),
            &here,
        )
        .await;
        assert_eq!(pages.concat(), ["a", "b"]);
        assert_eq!(
            (&*asked[0].path, asked[0].param("q")),
            ("/things", Some("x"))
        );
        assert_eq!(
            (
                &*asked[1].path,
                asked[1].param("after"),
                asked[1].param("q")
            ),
            ("/v1/things", Some("a/b"), None)
        );
        let relative = leading_to(|_| "?page=2".to_owned());
        let (pages, asked) = walk(asking(&relative.url()).paging(paging), &relative).await;
        assert_eq!((pages.concat().len(), &*asked[1].path), (2, "/things"));
    }
}

/// What an empty page says where the next one is, of each kind.
#[tokio::test]
async fn an_empty_page_that_leads_on_is_not_the_last() {
    let leads_on = [
        (token_paging(), Some("/things?page=2")),
        (next_url(), Some("/things?page=2")),
        (link(), Some("/things?page=2")),
        (offset(None, Place::Query), None),
        (offset(Some("/total"), Place::Query), None),
        (number(1), None),
    ];
    let bodies = [json!({ "items": [], "total": 9 }), json!({ "total": 9 })];
    for ((paging, expected), mut body) in leads_on
        .iter()
        .flat_map(|kind| bodies.clone().map(|body| (kind, body)))
    {
        body["next"] = "/things?page=2".into();
        body["links"] = json!({ "next": "/things?page=2" });
        let answer = StubAnswer::json(&body).header("link", "</things?page=2>; rel=next");
        let stub = answering(answer);
        let page = asking(&stub.url())
            .paging(paging.clone())
            .fetch()
            .await
            .unwrap();
        assert_eq!(page.next.as_deref(), *expected, "{paging:?}");
    }
}

#[tokio::test]
async fn a_token_that_no_url_holds_is_not_sent() {
    let stub = answering(StubAnswer::json(&things(&["a"])));
    let long = "t".repeat(100_000);
    let kinds = [
        (
            token_paging(),
            "the next page's token is 100000 characters long, which is too long for a URL",
        ),
        (
            next_url(),
            "the next page's URL is 100000 characters long, which is too long for a request",
        ),
    ];
    for (paging, expected) in kinds {
        let failure = asking(&stub.url())
            .paging(paging)
            .cursor(long.clone())
            .fetch()
            .await
            .unwrap_err();
        assert_eq!(told(&failure), format!("not sent: {expected}"));
    }
    assert!(stub.requests().is_empty());
    let mut in_body = asking(&stub.url()).cursor(long);
    in_body.call.method = Method::POST;
    let (param, next) = ("page".to_owned(), pointer("/next"));
    in_body.call.paging = Paging {
        kind: PageKind::Token,
        param: Some(param),
        next: Some(next),
        place: Some(Place::Body),
        ..Paging::default()
    };
    assert!(in_body.fetch().await.is_ok());
}

#[tokio::test]
async fn what_is_no_url_of_a_next_page_is_shown() {
    let wrong = [
        (
            next_url(),
            "http://[::",
            "wrong shape: the value at `/links/next` is not a URL: \"http://[::\"",
        ),
        (
            link(),
            "http://[::",
            "wrong shape: the value in the header `link` is not a URL: \"http://[::\"",
        ),
    ];
    for (paging, url, expected) in wrong {
        let stub = leading_to(move |_| url.to_owned());
        assert_eq!(
            told(
                &asking(&stub.url())
                    .paging(paging)
                    .fetch()
                    .await
                    .unwrap_err()
            ),
            expected
        );
    }
}

#[tokio::test]
async fn the_next_page_is_never_on_another_host() {
    let other = "the next page is on another host (";
    let elsewhere = [
        ("https://evil.example/things?page=2", other),
        ("//evil.example/?page=2", other),
        ("http://127.0.0.1:1/?page=2", other),
        ("ftp://x/y", other),
        (
            "file:///etc/passwd",
            "the next page's URL has no host: \"file:///etc/passwd\"",
        ),
    ];
    for (paging, (url, told)) in [next_url(), link()]
        .iter()
        .flat_map(|paging| elsewhere.map(|one| (paging, one)))
    {
        let stub = leading_to(move |_| url.to_owned());
        let page = asking(&stub.url())
            .paging(paging.clone())
            .fetch()
            .await
            .unwrap();
        assert!(
            !page.records.is_empty() && page.next.is_none(),
            "{url}: the page itself is paid for"
        );
        assert!(page.dead_end.unwrap().starts_with(told), "{url}");
    }
}

#[tokio::test]
async fn a_cursor_that_was_tampered_with_leads_to_no_other_host() {
    for cursor in [
        "//evil.example/?page=2",
        "https://evil.example/?page=2",
        "@evil.example",
        "\\\\evil.example",
    ] {
        let stub = answering(StubAnswer::json(&things(&["b"])));
        let page = asking(&stub.url())
            .paging(next_url())
            .cursor(cursor.to_owned())
            .fetch()
            .await;
        assert_eq!((page.is_ok(), stub.requests().len()), (true, 1), "{cursor}");
    }
}

#[tokio::test]
async fn the_secret_is_left_out_of_a_cursor_and_added_again() {
    for paging in [next_url(), link()] {
        let stub = leading_to(|request| {
            format!("/things?page=2&key={}&x=1", request.param("key").unwrap())
        });
        let mut asking = asking(&stub.url())
            .paging(paging)
            .auth(Auth::Query("key".to_owned()));
        asking.cursor = asking.fetch().await.unwrap().next;
        assert_eq!(asking.cursor.as_deref(), Some("/things?page=2&x=1"));
        asking.fetch().await.unwrap();
        let expected = [("page", "2"), ("x", "1"), ("key", SECRET)]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(stub.requests()[1].query, expected);
    }
}

#[tokio::test]
async fn a_secret_of_a_header_that_the_next_url_repeats_is_left_out_of_the_cursor() {
    for (auth, secret, parameter) in [
        (Auth::Bearer, "EAABshort", "access_token=EAABshort"),
        (Auth::Bearer, "EAABshort", "token=EAABshort"),
        (Auth::Bearer, "EAABshort", "access_token=another"),
        (Auth::Header("x-key".to_owned()), "a b", "k=a+b"),
        (
            Auth::Bearer,
            "EAAB-longer-than-16-bytes",
            "t=EAAB-longer-than-16-bytes",
        ),
    ] {
        for paging in [next_url(), link()] {
            let stub = leading_to(move |_| format!("/things?{parameter}&page=2"));
            let mut asking = asking(&stub.url()).paging(paging).auth(auth.clone());
            asking.secret = Some(secret);
            let next = asking.fetch().await.unwrap().next;
            assert_eq!(next.as_deref(), Some("/things?page=2"), "{parameter}");
        }
    }
}
