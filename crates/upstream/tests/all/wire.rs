//! Connections that break, bodies that do not end, and what of it counts as sent.

use std::io::Write;
use std::net::TcpListener;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use ingest_secret::Secret;
use ingest_upstream::{Client, ClientError, Failure};

use super::{answering, asking, ids, template, things, told};
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};

/// What fits into the buffers of a socket, and a little more.
const IN_FLIGHT: u64 = 24 << 20;

#[tokio::test]
async fn a_connection_that_is_refused_was_not_sent() {
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let failure = asking(&format!("http://{free}")).fetch().await.unwrap_err();
    assert!(
        told(&failure).starts_with(&format!("not sent: cannot connect to {free}: ")),
        "{failure}"
    );
    assert!(failure.to_string().contains("refused"), "{failure}");
}

#[tokio::test]
async fn a_host_that_does_not_exist_was_not_sent() {
    let failure = asking("http://nowhere.invalid/v1")
        .fetch()
        .await
        .unwrap_err();
    assert!(
        told(&failure).starts_with("not sent: cannot connect to nowhere.invalid: "),
        "{failure}"
    );
}

#[tokio::test]
async fn a_handshake_that_fails_was_not_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let mut socket = listener.accept().unwrap().0;
        socket.write_all(b"220 this is no TLS\r\n").unwrap();
    });
    let failure = asking(&format!("https://{address}"))
        .fetch()
        .await
        .unwrap_err();
    server.join().unwrap();
    assert!(
        told(&failure).starts_with(&format!("not sent: cannot connect to {address}: ")),
        "{failure}"
    );
}

#[tokio::test]
async fn everything_in_doubt_stays_charged_and_is_sent_once() {
    let bad = [
        (StubAnswer::dropped(), "the connection to 127.0.0.1"),
        (
            StubAnswer::raw("HTTP/1.1 200 OK\r\ncontent-le"),
            "the connection to 127.0.0.1",
        ),
        (
            StubAnswer::raw("SSH-2.0-OpenSSH_9.6\r\n"),
            "the connection to 127.0.0.1",
        ),
        (
            StubAnswer::json(&things(&["a", "b"])).half(),
            "the response is incomplete: ",
        ),
        (
            StubAnswer::json(&things(&["a", "b"])).gzipped().half(),
            "the response is incomplete: ",
        ),
        (
            StubAnswer::text(200, "no gzip").header("content-encoding", "gzip"),
            "the response is incomplete: ",
        ),
    ];
    for (answer, expected) in bad {
        let stub = answering(answer);
        let failure = asking(&stub.url()).fetch().await.unwrap_err();
        assert!(
            told(&failure).starts_with(&format!("transient: {expected}")),
            "{failure}"
        );
        assert_eq!(stub.requests().len(), 1, "{failure}");
    }
}

#[tokio::test]
async fn a_kept_connection_that_breaks_under_a_request_is_not_tried_again() {
    let stub = StubUpstream::answering([StubAnswer::json(&things(&["a"])), StubAnswer::dropped()]);
    let asking = asking(&stub.url());
    let client = asking.client();
    asking.fetch_by(&client).await.unwrap();
    let failure = asking.fetch_by(&client).await.unwrap_err();
    assert!(matches!(failure, Failure::Transient { .. }));
    assert_eq!((stub.requests().len(), stub.connections()), (2, 1));
}

#[tokio::test]
async fn connections_are_kept() {
    let stub = answering(StubAnswer::json(&things(&["a"])));
    let asking = asking(&stub.url());
    let client = asking.client();
    for _ in 0..5 {
        asking.fetch_by(&client).await.unwrap();
    }
    assert_eq!((stub.requests().len(), stub.connections()), (5, 1));
}

#[test]
fn this_machine_is_never_asked_through_a_proxy() {
    let again = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "wire::connections_are_kept"])
        .envs(["http_proxy", "HTTP_PROXY", "ALL_PROXY"].map(|name| (name, "http://127.0.0.1:1")))
        .output();
    let said = String::from_utf8_lossy(&again.unwrap().stdout).into_owned();
    assert!(said.contains("1 passed"), "{said}");
}

#[tokio::test]
async fn an_answer_that_takes_too_long_is_given_up() {
    let stub = answering(StubAnswer::json(&things(&["a"])).after(Duration::from_secs(60)));
    let mut asking = asking(&stub.url());
    asking.upstream.timeout = Duration::from_millis(200);
    let failure = asking.fetch().await.unwrap_err();
    assert!(
        told(&failure).starts_with("transient: 127.0.0.1"),
        "{failure}"
    );
    assert!(
        failure.to_string().ends_with("did not respond in time"),
        "{failure}"
    );
}

#[tokio::test]
async fn an_answer_is_read_no_further_than_allowed() {
    let endless = [
        StubAnswer::endless(vec![b' '; 1 << 16]),
        StubAnswer::gzip_bomb(),
    ];
    for answer in endless {
        let stub = answering(answer);
        let failure = asking(&stub.url()).fetch().await.unwrap_err();
        let expected = "skip: the response is longer than 1048576 bytes; request less, or raise upstreams.example.max_body";
        assert_eq!(told(&failure), expected);
        assert!(
            stub.bytes_sent() < IN_FLIGHT,
            "{} bytes went out",
            stub.bytes_sent()
        );
        assert_eq!(stub.requests().len(), 1);
    }
}

#[tokio::test]
async fn an_answer_as_long_as_allowed_is_read() {
    let body = things(&["a"]).to_string();
    for (most, fits) in [(body.len(), true), (body.len() - 1, false)] {
        let stub = answering(StubAnswer::text(200, &body));
        let mut asking = asking(&stub.url());
        asking.upstream.max_body = most as u64;
        let page = asking.fetch().await;
        assert_eq!(
            page.as_ref().is_ok_and(|page| ids(page) == ["a"]),
            fits,
            "{page:?}"
        );
    }
}

#[test]
fn a_secret_goes_over_plain_http_to_this_machine_alone() {
    let secret = || Secret::given("main", "0123456789".into());
    let here = [
        "http://127.0.0.1:1/",
        "http://127.9.9.9",
        "http://[::1]:80/",
        "http://localhost/",
        "https://example.org",
    ];
    let there = [
        "http://example.org/v3",
        "http://10.0.0.1:8080",
        "http://127.0.0.1.example.org",
        "http://0.0.0.0",
    ];
    for url in here {
        assert!(
            Client::new(Arc::new(asking(url).upstream), secret()).is_ok(),
            "{url}"
        );
    }
    for url in there {
        let refused = Client::new(Arc::new(asking(url).upstream), secret()).unwrap_err();
        assert!(matches!(refused, ClientError::PlainHttp { .. }), "{url}");
        assert!(
            Client::new(Arc::new(asking(url).upstream), Secret::new("main", None)).is_ok(),
            "{url} without a secret"
        );
    }
}

#[tokio::test]
async fn a_header_that_http_does_not_allow_is_not_sent() {
    for (name, value) in [
        ("x y", "1"),
        ("", "1"),
        ("x-ok", "a\r\nb: c"),
        ("x-ok", "\u{1}"),
    ] {
        let mut asking = asking("http://127.0.0.1:1");
        asking
            .upstream
            .headers
            .insert(name.to_owned(), template(value));
        let failure = asking.fetch().await.unwrap_err();
        assert!(
            told(&failure).starts_with("not sent: the header"),
            "{name}: {value}: {failure}"
        );
    }
}

#[tokio::test]
async fn a_large_answer_waits_until_the_one_before_is_dropped_and_a_small_one_does_not() {
    let stub = StubUpstream::start(|request| {
        let padding = "x".repeat(if request.param("size") == Some("large") {
            3 << 20
        } else {
            9
        });
        StubAnswer::json(&serde_json::json!({ "items": [{ "id": "a", "padding": padding }] }))
    });
    let mut large = asking(&stub.url()).param("size", "large");
    large.upstream.max_body = 4 << 20;
    // Less than it waits: that is no fault of the upstream's.
    large.upstream.timeout = Duration::from_secs(1);
    let held = large.fetch().await.unwrap();
    let mut second = Box::pin(large.fetch());
    assert!(
        tokio::time::timeout(Duration::from_millis(1500), &mut second)
            .await
            .is_err()
    );
    assert_eq!(ids(&asking(&stub.url()).fetch().await.unwrap()), ["a"]);
    drop(held);
    assert_eq!(ids(&second.await.unwrap()), ["a"]);
}
