//! Responses that are compressed: with a header, with a wrong one, or with none, as files are.

use std::io::Write;

use super::{Api, ids, run};
use crate::support::json::says;
use crate::support::world::World;
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};
use serde_json::Value;

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(body).unwrap();
    packed.finish().unwrap()
}

fn world(stub: &StubUpstream, format: &str, upstream: &str) -> World {
    let call = format!(r#"records = {{ format = "{format}", kind = "row", id = "/id" }}"#);
    let upstream = format!("attempts = 1\n{upstream}");
    Api {
        upstream: &upstream,
        call: &call,
        ..Api::default()
    }
    .world(stub)
}

/// The pass over one response, and the ids that were landed.
fn landed(answer: StubAnswer, format: &str) -> (Value, Vec<String>) {
    let stub = StubUpstream::answering([answer]);
    let world = world(&stub, format, "");
    (run(&world)["passes"][0].clone(), ids(&world))
}

const BODIES: [(&str, &str); 4] = [
    ("csv", "id,a\n1,2\n"),
    ("ndjson", "{\"id\":1}\n"),
    ("json", "[{\"id\":1}]"),
    ("json", "{\"id\":1}"),
];

#[test]
fn what_is_no_coding_is_ignored() {
    for coding in [
        "UTF-8",
        "utf8",
        "none",
        "binary",
        "identity",
        "8bit",
        "",
        "identity, UTF-8",
    ] {
        for (format, body) in BODIES {
            let answer = StubAnswer::text(200, body).header("content-encoding", coding);
            let (pass, ids) = landed(answer, format);
            assert_eq!(
                (&pass["outcome"], ids),
                (&"complete".into(), vec!["1".to_owned()]),
                "{coding} {pass}"
            );
        }
    }
}

#[test]
fn gzip_is_known_by_its_first_bytes() {
    for (format, body) in BODIES {
        for (name, value) in [
            ("content-type", "application/gzip"),
            ("content-type", "text/csv; charset=utf-8"),
            ("content-encoding", "gzip"),
            ("content-encoding", "UTF-8"),
            ("content-encoding", "utf-8, gzip"),
            ("content-encoding", "aws-chunked"),
        ] {
            let answer = StubAnswer::status(200)
                .body(gzip(body.as_bytes()))
                .header(name, value);
            let (pass, ids) = landed(answer, format);
            assert_eq!(
                (&pass["outcome"], ids),
                (&"complete".into(), vec!["1".to_owned()]),
                "{value} {pass}"
            );
        }
    }
}

#[test]
fn gzip_without_its_header_is_unpacked_no_further_than_allowed() {
    let packed = gzip(&vec![b' '; 8 << 20]);
    let stub = StubUpstream::answering([StubAnswer::status(200).body(packed)]);
    let world = world(&stub, "json", r#"max_body = "1MiB""#);
    let pass = run(&world)["passes"][0].clone();
    assert_eq!(pass["outcome"], "refused", "{pass}");
    let detail = pass["detail"].as_str().unwrap();
    assert!(
        detail.starts_with("the response is longer than 1048576 bytes"),
        "{pass}"
    );
}

#[test]
fn what_is_declared_as_gzip_and_is_not_and_what_is_packed_twice_is_called_so() {
    let declared = StubAnswer::text(200, "[{\"id\":1}]").header("content-encoding", "gzip");
    let twice = StubAnswer::status(200).body(gzip(&gzip(b"[{\"id\":1}]")));
    for (answer, said) in [
        (declared, "it is declared as gzip, and is not"),
        (
            twice.header("content-encoding", "gzip"),
            "the response is packed with gzip twice",
        ),
    ] {
        let (pass, _) = landed(answer, "json");
        assert_eq!(pass["outcome"], "failed", "{pass}");
        assert!(pass["detail"].as_str().unwrap().contains(said), "{pass}");
    }
}

#[test]
fn a_coding_that_is_not_read_and_an_archive_are_refused_by_name() {
    for (answer, said) in [
        (
            StubAnswer::text(200, "x").header("content-encoding", "br"),
            "encoded as `br`",
        ),
        (
            StubAnswer::text(200, "x").header("content-encoding", "UTF-8, zstd"),
            "encoded as `zstd`",
        ),
        (
            StubAnswer::text(200, "PK\u{3}\u{4}rest"),
            "is a ZIP archive",
        ),
    ] {
        let (pass, _) = landed(answer, "csv");
        assert_eq!(pass["outcome"], "failed", "{pass}");
        assert!(pass["detail"].as_str().unwrap().contains(said), "{pass}");
    }
}

#[test]
fn try_reads_a_saved_file_that_is_gzip() {
    let stub = StubUpstream::answering([StubAnswer::status(200)]);
    let world = world(&stub, "csv", "");
    let packed = gzip(b"id,a\n1,2\n");
    let head = b"HTTP/1.1 200 OK\r\ncontent-type: application/gzip\r\n\r\n".as_slice();
    for saved in [packed.clone(), [head, &packed].concat()] {
        let file = world.directory.path().join("saved.csv.gz");
        std::fs::write(&file, saved).unwrap();
        let shown = world.json(&["try", "main", "list", "--answer", file.to_str().unwrap()]);
        assert_eq!(shown["record_count"], 1, "{shown}");
    }
}

#[test]
fn a_response_of_more_values_than_usual_is_read_where_max_values_allows_it() {
    let rows: String = (0..50_000).map(|id| format!("{id},1,2,3,4,5\n")).collect();
    let body = format!("id,a,b,c,d,e\n{rows}");
    let stub = StubUpstream::answering([StubAnswer::text(200, &body)]);
    let mut world = world(&stub, "csv", "");
    world.set("jobs.all.every=1h");
    let pass = run(&world)["passes"][0].clone();
    assert_eq!(pass["outcome"], "refused", "{pass}");
    let detail = pass["detail"].as_str().unwrap();
    let expected =
        "more than 250000 values; request smaller pages, or raise upstreams.api.max_values";
    assert!(
        detail.starts_with("the response contains ") && detail.contains(expected),
        "{pass}"
    );
    world.set("upstreams.api.max_values=400_000");
    let pass = run(&world)["passes"][0].clone();
    assert_eq!(pass["outcome"], "complete", "{pass}");
    assert_eq!(pass["records"], 50_000, "{pass}");
}

#[test]
fn a_file_of_several_gzip_members_is_read_whole_and_one_that_is_cut_off_is_requested_again() {
    let members = [gzip(b"id,a\n1,2\n"), gzip(b"2,3\n")].concat();
    let (pass, ids) = landed(StubAnswer::status(200).body(members), "csv");
    assert_eq!((&pass["outcome"], ids.len()), (&"complete".into(), 2));
    let packed = gzip(&vec![b'x'; 1 << 16]);
    for cut in [3, 12, packed.len() - 4] {
        let (pass, ids) = landed(StubAnswer::status(200).body(&packed[..cut]), "csv");
        assert_eq!(
            (&pass["outcome"], ids.len()),
            (&"failed".into(), 0),
            "{pass}"
        );
        says(&pass["detail"], "its gzip is cut off");
    }
}

#[test]
fn an_empty_archive_and_one_of_several_files_say_what_to_request() {
    for body in ["PK\u{3}\u{4}rest", "PK\u{5}\u{6}rest", "PK\u{7}\u{8}rest"] {
        let (pass, _) = landed(StubAnswer::text(200, body), "csv");
        let detail = pass["detail"].as_str().unwrap();
        assert!(
            detail.contains("request it as gzip, or not compressed"),
            "{pass}"
        );
    }
}
