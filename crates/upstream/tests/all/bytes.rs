//! Answers byte for byte: unusual ones that are right are read, broken ones are classified, and none is sent twice.

use std::io::Write;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::{asking, ids, told};
use ingest_testing::raw_server::{Act, RawServer};

const BODY: &str = r#"{"items":[{"id":"a"}]}"#;

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

/// An answer with these header lines, and the length of its body.
fn answer(headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\n{headers}content-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// What comes of an answer: the ids of its page, or the failure. It is asked for once, whatever it is.
async fn outcome(bytes: impl Into<Vec<u8>>) -> String {
    let server = RawServer::sending(bytes);
    let mut asking = asking(&server.url());
    asking.upstream.timeout = Duration::from_secs(2);
    let fetched = asking.fetch().await;
    assert_eq!(server.requests().len(), 1, "{fetched:?}");
    match fetched {
        Ok(page) => format!("page: {}", ids(&page).join(" ")),
        Err(failure) => told(&failure),
    }
}

#[tokio::test]
async fn an_unusual_answer_that_http_allows_is_read() {
    let two = [gzip(&BODY.as_bytes()[..9]), gzip(&BODY.as_bytes()[9..])].concat();
    let unusual: [(&str, Vec<u8>); 16] = [
        ("chunked, with trailers", b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n9;name=value\r\n{\"items\":\r\nd\r\n[{\"id\":\"a\"}]}\r\n0\r\nx-sum: 1\r\n\r\n".to_vec()),
        ("no content-length", format!("HTTP/1.1 200 OK\r\n\r\n{BODY}").into()),
        ("HTTP/1.0", format!("HTTP/1.0 200 OK\r\n\r\n{BODY}").into()),
        ("a 100 and a 103 before it", [b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n".to_vec(), answer("", BODY.as_bytes())].concat()),
        ("a folded header", answer("x-long: one\r\n two\r\n", BODY.as_bytes())),
        ("one content-length twice", answer("content-length: 22\r\n", BODY.as_bytes())),
        ("a status without a reason", format!("HTTP/1.1 200\r\ncontent-length: 22\r\n\r\n{BODY}").into()),
        ("a reason that is not ASCII", format!("HTTP/1.1 200 Très bien\r\ncontent-length: 22\r\n\r\n{BODY}").into()),
        ("a header of 64 KiB", answer(&format!("x-long: {}\r\n", "x".repeat(65_536)), BODY.as_bytes())),
        ("90 headers", answer(&"x-many: 1\r\n".repeat(90), BODY.as_bytes())),
        ("a byte order mark", answer("content-type: application/json; charset=utf-8\r\n", format!("\u{feff}{BODY}").as_bytes())),
        ("gzip", answer("content-encoding: gzip\r\n", &gzip(BODY.as_bytes()))),
        ("gzip of two members", answer("content-encoding: gzip\r\n", &two)),
        ("gzip by its old name, chunked", [b"HTTP/1.1 200 OK\r\ncontent-encoding: X-GZip\r\nconnection: close\r\n\r\n".to_vec(), two.clone()].concat()),
        ("no encoding, named", answer("content-encoding: identity\r\n", BODY.as_bytes())),
        ("garbage behind the answer", [answer("", BODY.as_bytes()), b"garbage\r\n\r\n".to_vec()].concat()),
    ];
    for (name, bytes) in unusual {
        assert_eq!(outcome(bytes).await, "page: a", "{name}");
    }
}

#[tokio::test]
async fn text_is_decoded_by_its_byte_order_mark_else_by_the_charset_that_the_answer_declares() {
    let body = r#"{"items":[{"id":"é"}]}"#;
    let utf16 = |mark: [u8; 2], unit: fn(u16) -> [u8; 2]| {
        let units = body.encode_utf16().flat_map(unit);
        mark.into_iter().chain(units).collect::<Vec<u8>>()
    };
    let latin1: Vec<u8> = body.chars().map(|one| one as u8).collect();
    let declared = |charset: &str| format!("content-type: application/json; charset={charset}\r\n");
    for (name, bytes) in [
        ("UTF-8", answer("", body.as_bytes())),
        (
            "UTF-16 little",
            answer("", &utf16([0xff, 0xfe], u16::to_le_bytes)),
        ),
        (
            "UTF-16 big",
            answer(&declared("utf-16"), &utf16([0xfe, 0xff], u16::to_be_bytes)),
        ),
        ("latin1", answer(&declared("ISO-8859-1"), &latin1)),
        (
            "latin1, quoted",
            answer(&declared("\"latin1\"; x=y"), &latin1),
        ),
        (
            "Windows",
            answer("Content-Type: text/plain;CHARSET=Windows-1252\r\n", &latin1),
        ),
        (
            "gzip of latin1",
            answer(
                &format!("{}content-encoding: gzip\r\n", declared("iso-8859-1")),
                &gzip(&latin1),
            ),
        ),
    ] {
        assert_eq!(outcome(bytes).await, "page: é", "{name}");
    }
}

#[tokio::test]
async fn bytes_that_are_no_text_of_their_charset_are_refused_and_say_which_it_is() {
    let body = b"{\"items\":[{\"id\":\"caf\xe9\"}]}";
    let declared = |charset: &str| format!("content-type: application/json; charset={charset}\r\n");
    for (bytes, expected) in [
        (
            answer("", body),
            "the response declares no charset, and byte 0xE9 at position 20 is not UTF-8",
        ),
        (
            answer(&declared("utf-8"), body),
            "the response declares the charset `utf-8`, and byte 0xE9 at position 20 is not UTF-8",
        ),
        (
            answer(&declared("klingon"), body),
            "the response declares the charset `klingon`, which is not supported",
        ),
        (
            answer(&declared("shift_jis"), b"{\"items\":[{\"id\":\"\x81\"}]}"),
            "the response declares the charset `shift_jis`, and its bytes are not Shift_JIS",
        ),
        (
            answer("", b"\xff\xfe{\0\0\xd8"),
            "the response starts with the byte order mark of UTF-16LE, and its bytes are not UTF-16LE",
        ),
    ] {
        let outcome = outcome(bytes).await;
        assert!(outcome.contains(expected), "{outcome}");
        assert!(
            !outcome.starts_with("transient"),
            "the same request would fail again: {outcome}"
        );
    }
}

#[tokio::test]
async fn a_broken_answer_is_in_doubt_and_is_asked_for_once() {
    let packed = gzip(BODY.as_bytes());
    for (name, bytes) in [
        ("nothing", Vec::new()),
        ("half a status line", b"HTTP/1.1 20".to_vec()),
        ("no status", b"HTTP/1.1 OK\r\n\r\n".to_vec()),
        (
            "two lengths",
            format!("HTTP/1.1 200 OK\r\ncontent-length: 22\r\ncontent-length: 5\r\n\r\n{BODY}")
                .into(),
        ),
        (
            "a length that is no number",
            format!("HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n{BODY}").into(),
        ),
        (
            "a header without a colon",
            format!("HTTP/1.1 200 OK\r\nno colon\r\ncontent-length: 22\r\n\r\n{BODY}").into(),
        ),
        (
            "a header of 1 MiB",
            answer(
                &format!("x-long: {}\r\n", "x".repeat(1 << 20)),
                BODY.as_bytes(),
            ),
        ),
        (
            "a body that is too short",
            format!("HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{BODY}").into(),
        ),
        (
            "a chunk that is no chunk",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n".to_vec(),
        ),
        (
            "chunks that do not end",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\n{\"items\":\r\n".to_vec(),
        ),
        (
            "gzip that is cut off",
            answer("content-encoding: gzip\r\n", &packed[..packed.len() - 9]),
        ),
        (
            "gzip without its checksum",
            answer("content-encoding: gzip\r\n", &packed[..packed.len() - 8]),
        ),
        (
            "a second member that is cut off",
            answer(
                "content-encoding: gzip\r\n",
                &[&packed[..], &packed[..12]].concat(),
            ),
        ),
        ("a 1xx alone", b"HTTP/1.1 103 Early Hints\r\n\r\n".to_vec()),
        ("another protocol", b"SSH-2.0-OpenSSH_9.6\r\n".to_vec()),
    ] {
        let outcome = outcome(bytes).await;
        assert!(outcome.starts_with("transient: "), "{name}: {outcome}");
    }
}

#[tokio::test]
async fn an_answer_without_a_body_or_of_another_status_is_classified_by_it() {
    for (bytes, expected) in [
        ("HTTP/1.1 204 No Content\r\n\r\n", "page: "),
        (
            "HTTP/1.1 205 Reset Content\r\ncontent-length: 0\r\n\r\n",
            "the response has no body",
        ),
        ("HTTP/1.1 304 Not Modified\r\n\r\n", "skip: 304"),
        ("HTTP/1.1 404\r\ncontent-length: 0\r\n\r\n", "skip: 404"),
        (
            "HTTP/1.1 429 Slow Down\r\ncontent-length: 0\r\n\r\n",
            "slow down: 429",
        ),
        (
            "HTTP/1.1 599 Nobody Knows\r\ncontent-length: 0\r\n\r\n",
            "transient: 599",
        ),
        (
            "HTTP/1.1 200 OK\r\ncontent-encoding: br\r\ncontent-length: 1\r\n\r\n\u{1}",
            "the response is encoded as `br`, which was not requested",
        ),
    ] {
        let outcome = outcome(bytes).await;
        assert!(outcome.contains(expected), "{bytes:?}: {outcome}");
    }
}

#[tokio::test]
async fn a_connection_that_is_reset_in_the_middle_of_an_answer_is_in_doubt() {
    let half = b"HTTP/1.1 200 OK\r\ncontent-length: 22\r\n\r\n{\"items\"".to_vec();
    for acts in [
        vec![Act::Read, Act::Reset],
        vec![
            Act::Read,
            Act::Send(half),
            Act::Wait(Duration::from_millis(50)),
            Act::Reset,
        ],
    ] {
        let server = RawServer::start(move |_| acts.clone());
        let failure = asking(&server.url()).fetch().await.unwrap_err();
        assert!(told(&failure).starts_with("transient: "), "{failure}");
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn what_comes_behind_an_answer_is_never_read_as_the_next_one() {
    let server = RawServer::start(|connection| {
        let id = |id: &str| answer("", BODY.replace('a', id).as_bytes());
        match connection {
            0 => vec![
                Act::Read,
                Act::Send([id("a"), id("stray")].concat()),
                Act::Hold,
            ],
            _ => vec![Act::Read, Act::Send(id("b")), Act::Hold],
        }
    });
    let asking = asking(&server.url());
    let client = asking.client();
    assert_eq!(ids(&asking.fetch_by(&client).await.unwrap()), ["a"]);
    assert_eq!(ids(&asking.fetch_by(&client).await.unwrap()), ["b"]);
    assert_eq!((server.requests().len(), server.connections()), (2, 2));
}
