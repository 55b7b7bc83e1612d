//! Headers with bytes beyond ASCII: each is read as it came, or the run says that it cannot be read.

use super::{Api, ids, run};
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};
use serde_json::json;

const ROWS: &str = r#"records = { at = "", kind = "row", id = "/id" }"#;

/// A response with these header lines, byte for byte.
fn answer(status: &str, headers: &[&[u8]], body: &str) -> StubAnswer {
    let mut bytes = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n",
        body.len()
    )
    .into_bytes();
    for header in headers {
        bytes.extend_from_slice(header);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body.as_bytes());
    StubAnswer::raw(bytes)
}

fn page(headers: &[&[u8]], id: u32) -> StubAnswer {
    answer("200 OK", headers, &format!("[{{\"id\":{id}}}]"))
}

fn rows(paging: &str) -> String {
    format!("{paging}\n{ROWS}")
}

#[test]
fn a_link_beside_one_that_is_not_ascii_leads_on() {
    for beside in ["</חנות.avif>".as_bytes(), b"</boutiqu\xE9>", b"<\xFF\xFE>"] {
        let link = [
            b"link: </list?page=2>; rel=\"next\", ".as_slice(),
            beside,
            b"; rel=\"preload\"",
        ]
        .concat();
        let stub = StubUpstream::answering([page(&[&link], 1), page(&[], 2)]);
        let call = rows(r#"page = { kind = "link" }"#);
        let world = Api {
            call: &call,
            ..Api::default()
        }
        .world(&stub);
        assert_eq!(run(&world)["passes"][0]["outcome"], "complete");
        assert_eq!(ids(&world), ["1", "2"], "{beside:?}");
    }
}

#[test]
fn a_next_link_that_is_not_ascii_is_requested_with_the_bytes_that_came() {
    for (name, sent) in [("é".as_bytes(), "%C3%A9"), (b"\xE9", "%E9")] {
        let link = [
            b"link: </list/".as_slice(),
            name,
            b">; title=\"",
            name,
            b"\"; rel=next",
        ]
        .concat();
        let stub = StubUpstream::answering([page(&[&link], 1), page(&[], 2)]);
        let call = rows(r#"page = { kind = "link" }"#);
        let world = Api {
            call: &call,
            ..Api::default()
        }
        .world(&stub);
        run(&world);
        assert_eq!(ids(&world), ["1", "2"]);
        assert!(stub.requests()[1].path.contains(sent), "{sent}");
    }
}

#[test]
fn a_token_in_a_header_is_sent_back_as_it_came_or_the_pass_fails() {
    let call = rows(r#"page = { kind = "token", param = "after", next_header = "x-next" }"#);
    let api = Api {
        call: &call,
        ..Api::default()
    };
    let stub = StubUpstream::answering([page(&["x-next: é1".as_bytes()], 1), page(&[], 2)]);
    let world = api.world(&stub);
    assert_eq!(run(&world)["passes"][0]["outcome"], "complete");
    assert_eq!(ids(&world), ["1", "2"]);

    let stub = StubUpstream::answering([page(&[b"x-next: \xE91"], 1), page(&[], 2)]);
    let world = api.world(&stub);
    let pass = run(&world)["passes"][0].clone();
    assert_eq!(pass["outcome"], "failed", "{pass}");
    let detail = pass["detail"].as_str().unwrap();
    assert!(
        detail.contains("in the header `x-next`, is not UTF-8: \"é1\""),
        "{detail}"
    );
}

#[test]
fn a_rule_sees_a_header_that_is_not_ascii() {
    for value in [
        "x-error: quota épuisé".as_bytes(),
        b"x-error: quota \xE9puis\xE9",
    ] {
        for is in ["quota épuisé", "*puis*", "quota *"] {
            let upstream = format!(
                r#"errors = [{{ status = 400, header = "x-error", header_is = "{is}", class = "spent" }}]"#
            );
            let stub = StubUpstream::answering([answer("400 Bad Request", &[value], "{}")]);
            let call = rows("");
            let world = Api {
                upstream: &upstream,
                call: &call,
                ..Api::default()
            }
            .world(&stub);
            assert_eq!(run(&world)["outcome"], "stopped", "{is} {value:?}");
        }
    }
}

#[test]
fn an_etag_that_is_not_ascii_is_sent_back_as_it_came_or_not_at_all() {
    for (tag, is_sent_back) in [("etag: \"é\"".as_bytes(), true), (b"etag: \"\xE9\"", false)] {
        let stub = StubUpstream::answering([page(&[tag], 1), page(&[tag], 1)]);
        let call = rows(r#"etag = "free""#);
        let world = Api {
            call: &call,
            ..Api::default()
        }
        .world(&stub);
        run(&world);
        assert_eq!(run(&world)["passes"][0]["outcome"], "complete");
        let again = &stub.requests()[1];
        assert_eq!(again.header("if-none-match").is_some(), is_sent_back);
    }
}

#[test]
fn a_reported_limit_beside_bytes_that_are_not_ascii_is_read() {
    let limit = r#"reported = { pattern = "x-usage: used={used}/{quota}" }"#;
    let stub = StubUpstream::answering([page(&[b"x-usage: used=990/1000; compte=\xE9"], 1)]);
    let call = rows("");
    let world = Api {
        call: &call,
        limit,
        ..Api::default()
    }
    .world(&stub);
    run(&world);
    let status = world.json(&["status"]);
    assert_eq!(status["limits"][0]["remaining"], json!(10), "{status}");
}
