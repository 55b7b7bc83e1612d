//! `ingest init --answer`: a saved response becomes a file that `ingest check` accepts, and that reads the response.

use std::io::Write;
use std::process::Stdio;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

use crate::support::world::World;

/// The file that is written for a response, and what `try` then reads in it. The file is checked, and has at most 40 lines.
fn drafted(response: impl AsRef<[u8]>) -> (String, Value) {
    let world = World::new();
    let here = world.directory.path();
    let (saved, written) = (here.join("saved"), here.join("drafted.toml"));
    std::fs::write(&saved, response).unwrap();
    let (saved, named) = (saved.to_str().unwrap(), written.to_str().unwrap());
    let ran = world.ingest(&["init", "--answer", saved, named]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let text = std::fs::read_to_string(&written).unwrap();
    assert!(text.lines().count() <= 40, "{text}");
    let ingest = |arguments: &[&str]| {
        let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin!("ingest"));
        command
            .current_dir(here)
            .env_clear()
            .env("HOME", here)
            .args(["--config", named])
            .args(arguments)
            .output()
            .unwrap()
    };
    let checked = ingest(&["check", "--config-only"]);
    assert!(checked.status.success(), "{checked:?}\n{text}");
    let tried = ingest(&["try", "api", "list", "--answer", saved, "--format", "json"]);
    let tried = serde_json::from_slice(&tried.stdout)
        .unwrap_or_else(|error| panic!("{error}: {tried:?}\n{text}"));
    (text, tried)
}

#[test]
fn a_flag_that_says_that_there_is_more_is_named_where_nothing_leads_there() {
    let (text, _) = drafted(r#"{"data": [{"id": "a"}, {"id": "b"}], "has_more": true}"#);
    let said = "The response says at \"/has_more\" whether there is a next one";
    assert!(text.contains(said), "{text}");
}

/// Responses: what they are called here, the response, what its file has, and how many records it has.
const RESPONSES: [(&str, &str, &[&str], u64); 10] = [
    (
        "a token, and what a record is called",
        r#"{"stories": [{"uid": "a", "title": "x", "year": 1998, "price": 1.5, "open": true, "seen": "2024-05-31T07:00:00Z"},
            {"uid": "b", "title": "y", "year": 2011, "price": 2, "open": false, "seen": "2024-06-01T07:00:00Z"}], "next_cursor": "abc"}"#,
        &[
            r#"at = "/stories""#,
            r#"kind = "story""#,
            r#"id = "/uid""#,
            r#"text = ["/title"]"#,
            r#"year = { at = "/year", type = "integer" }"#,
            r#"price = { at = "/price", type = "real" }"#,
            r#"open = { at = "/open", type = "boolean" }"#,
            r#"seen = { at = "/seen", type = "timestamp" }"#,
            r#"page = { kind = "token", param = "cursor", next = "/next_cursor" }"#,
        ],
        2,
    ),
    (
        "a URL in links, and ids in a common wrapper",
        r#"{"data": [{"id": 7, "attributes": {"name": "n"}}], "links": {"next": "https://x.example/p?page=2"}}"#,
        &[
            r#"kind = "thing""#,
            r#"id = "/id""#,
            r#"text = []"#,
            r#"attributes_name = "/attributes/name""#,
            r#"page = { kind = "next_url", next = "/links/next" }"#,
        ],
        1,
    ),
    (
        "a header",
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nlink: <https://x.example/p?page=2>; rel=\"next\"\r\n\r\n[{\"id\": 1}, {\"id\": 2}]",
        &[r#"at = """#, r#"page = { kind = "link" }"#],
        2,
    ),
    (
        "a flag beside a token",
        r#"{"items": [{"key": "a"}], "has_more": true, "paging": {"nextPageToken": "t"}}"#,
        &[r#"param = "pageToken", next = "/paging/nextPageToken", more = "/has_more""#],
        1,
    ),
    (
        "a total",
        r#"{"total": 64, "rows": [{"id": 1}, {"id": 2}]}"#,
        &[r#"kind = "offset", param = "offset", size_param = "limit", size = 2, total = "/total""#],
        2,
    ),
    (
        "no further page",
        r#"{"results": [{"id": 1}]}"#,
        &["one page is the whole list"],
        1,
    ),
    (
        "one object",
        r#"{"id": "x", "name": "n"}"#,
        &[r#"at = """#, r#"id = "/id""#],
        1,
    ),
    (
        "CSV with semicolons, and codes with zeros",
        "code;place;count\n007;Rome;3\n008;Bari;4\n",
        &[
            r#"format = "csv_semicolon""#,
            r#"id = "/code""#,
            r#"count = { at = "/count", type = "integer" }"#,
        ],
        2,
    ),
    (
        "XML",
        "<?xml version=\"1.0\"?><rss><channel><item><guid>a</guid><title>x</title></item><item><guid>b</guid><title>y</title></item></channel></rss>",
        &[
            r#"format = "xml""#,
            r#"at = "/rss/channel/item""#,
            r#"kind = "item""#,
            r#"id = "/guid""#,
        ],
        2,
    ),
    (
        "lines of JSON, and the first member that differs as the id",
        "{\"colour\": \"red\", \"number\": 1}\n{\"colour\": \"red\", \"number\": 2}\n",
        &[r#"format = "ndjson""#, r#"id = "/number""#],
        2,
    ),
];

#[test]
fn a_saved_response_becomes_a_file_that_is_accepted_and_reads_the_response() {
    for (name, response, expected, records) in RESPONSES {
        let (text, tried) = drafted(response);
        for line in expected {
            assert!(text.contains(line), "{name}: {line} is not in\n{text}");
        }
        assert_eq!(tried["class"], "page", "{name}: {tried}");
        assert_eq!(tried["record_count"], records, "{name}: {tried}");
        assert_eq!(
            tried["missing"],
            serde_json::json!([]),
            "{name}: {tried}\n{text}"
        );
    }
}

#[test]
fn a_saved_file_is_known_by_what_is_packed_in_it() {
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(b"code;place\n007;Rome\n").unwrap();
    let (text, tried) = drafted(packed.finish().unwrap());
    assert!(text.contains(r#"format = "csv_semicolon""#), "{text}");
    assert_eq!(tried["record_count"], 1, "{tried}");
}

#[test]
fn the_response_can_come_on_stdin_and_the_file_go_to_stdout() {
    let world = World::new();
    let mut command = world.command(&["init", "--answer", "-", "-"]);
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = child.unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"{\"cats\": [{\"id\": 1}]}").unwrap();
    drop(stdin);
    let printed = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    assert!(printed.contains("at = \"/cats\""), "{printed}");
}
