use std::time::{Duration, Instant};

use ingest_sandbox::{Options, Sandbox};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{CHART, Table, shipped};
use crate::support::json::has;

#[tokio::test]
async fn requests_are_told_without_their_secret() {
    let table = Table::youtube().await;
    let page = table.json(&format!("{CHART}GB")).await;
    let token = page["nextPageToken"].as_str().unwrap();
    table.ask(&format!("{CHART}GB&pageToken={token}")).await;
    table.ask("channels?part=id&id=a,b,c").await;
    table.ask("nowhere?key=hush").await;
    let log = table.report("requests").await;
    assert_eq!(log[0]["call"], "videos.list");
    assert_eq!(log[0]["params"]["regionCode"], "GB");
    assert_eq!(log[0]["at"], "2026-11-20T12:00:00.000000Z");
    assert_eq!(
        (&log[0]["cursor"], &log[1]["cursor"]),
        (&Value::Null, &json!(token))
    );
    assert_eq!(
        (&log[2]["ids"], &log[2]["params"]),
        (&json!(3), &json!({ "part": "id" }))
    );
    has(&log[3], &json!({ "call": null, "status": 404 }));
    let text = log.to_string();
    assert!(!text.contains(&Sandbox::secret_of("youtube")) && !text.contains("hush"));
}

#[tokio::test]
async fn a_request_is_refused_as_a_fault_says() {
    let table = Table::youtube().await;
    for (kind, status, text) in [
        ("plain_error", 400, "that did not work"),
        ("spent", 429, "The quota of daily is exhausted."),
        ("slow_down", 429, "The quota of daily is exhausted."),
        ("denied", 401, "The secret is invalid."),
        ("bad_cursor", 400, "The cursor is invalid for this list."),
    ] {
        table.told("faults", json!({ "answer": kind })).await;
        let response = table.ask(&format!("{CHART}US")).await;
        assert_eq!(response.status(), status, "{kind}");
        assert!(response.text().await.unwrap().contains(text), "{kind}");
    }
}

#[tokio::test]
async fn a_token_can_be_made_to_repeat() {
    let table = Table::youtube().await;
    let path = format!("{CHART}US");
    let token = table.json(&path).await["nextPageToken"].clone();
    table
        .told("faults", json!({ "answer": "same_cursor" }))
        .await;
    let second = table
        .json(&format!("{path}&pageToken={}", token.as_str().unwrap()))
        .await;
    assert_eq!(second["nextPageToken"], token);
}

#[tokio::test]
async fn the_failure_rate_is_kept_and_falls_alike_in_every_process() {
    let options = || Options {
        failure_rate: 0.3,
        ..Options::default()
    };
    let mut runs = Vec::new();
    for _ in 0..2 {
        let table = Table::laid(&shipped(&[]), options()).await;
        let mut statuses = Vec::new();
        for number in 0..100 {
            let url = table.url(
                "youtube",
                &format!("videos?part=id&chart=mostPopular&hl={number}"),
            );
            let answer = table
                .client
                .get(url)
                .header("x-goog-api-key", "any")
                .send()
                .await;
            statuses.push(answer.map_or(0, |response| response.status().as_u16()));
        }
        runs.push(statuses);
    }
    assert_eq!(runs[0], runs[1]);
    let failed = runs[0].iter().filter(|status| **status != 200).count();
    assert!((15..=45).contains(&failed), "{failed}");
    assert!([0, 500, 503].iter().all(|status| runs[0].contains(status)));
}

#[tokio::test]
async fn an_answer_takes_as_long_as_it_is_told_to() {
    let table = Table::laid(
        &shipped(&[]),
        Options {
            latency: Duration::from_millis(60),
            ..Options::default()
        },
    )
    .await;
    let before = Instant::now();
    table.json(&format!("{CHART}US")).await;
    assert!(before.elapsed() >= Duration::from_millis(60));
}

#[tokio::test]
async fn nobody_is_answered_after_it_was_stopped() {
    let table = Table::youtube().await;
    table.json(&format!("{CHART}US")).await;
    // Not by a new connection: its port may be another test's by then.
    let mut stream = TcpStream::connect(table.sandbox.address()).await.unwrap();
    table.sandbox.shutdown().await;
    let request = format!("GET {CHART}US HTTP/1.1\r\nhost: x\r\n\r\n");
    let _ = stream.write_all(request.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert_eq!(String::from_utf8_lossy(&answer), "");
}

#[tokio::test]
async fn hostile_requests_get_an_answer_and_the_next_one_too() {
    let table = Table::youtube().await;
    let paths = [
        "/",
        "//",
        "/_sandbox",
        "/youtube/",
        "/youtube/videos?part=%FF%FE&chart=%00&pageToken=////&maxResults=99999999999999999999999",
        "/youtube/videos?part=id&chart=mostPopular&pageToken=CP______________8BEAAd",
        "/youtube/videos/../../etc/passwd",
        "/%FF/%00",
    ];
    for path in paths {
        for method in ["GET", "POST", "DELETE", "HEAD"] {
            let mut stream = TcpStream::connect(table.sandbox.address()).await.unwrap();
            let head = format!(
                "{method} {path} HTTP/1.1\r\nhost: x\r\nx-goog-api-key: \u{fc}\r\nconnection: close\r\n"
            );
            let request = format!("{head}content-length: 2\r\n\r\n[[");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await;
            let answer = String::from_utf8_lossy(&answer).into_owned();
            assert!(
                answer.starts_with("HTTP/1.1 4"),
                "{method} {path}: {answer}"
            );
        }
    }
    table.json(&format!("{CHART}US")).await;
}
