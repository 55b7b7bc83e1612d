//! Input of the worst kind, through the program. More of it is in `fuzz`.

use std::fs;

use ingest_config::{Config, ConfigError, Sources};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::terminal::at_a_terminal;
use crate::support::world::{World, shipped};
use ingest_testing::fuzz::{corpus, is_plain};
use ingest_testing::parrot::Parrot;
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};

/// Whatever is in the file: right, or refused with what is wrong.
fn load(bytes: &[u8]) -> Result<(), ConfigError> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("quotas.toml");
    fs::write(&path, bytes).unwrap();
    Config::load(&Sources {
        path: Some(path),
        sets: Vec::new(),
    })
    .map(drop)
}

#[test]
fn every_configuration_of_the_corpus_is_refused_and_none_is_the_end() {
    for (path, bytes) in corpus("config") {
        let refused = load(&bytes).expect_err(&path.display().to_string());
        assert!(!refused.to_string().is_empty());
    }
}

#[test]
fn a_configuration_of_any_depth_or_size_is_refused_without_a_word_too_many() {
    let deep = [
        format!("a = {}{}", "[".repeat(100_000), "]".repeat(100_000)),
        format!("a = {}", "{ a = ".repeat(100_000)),
        format!("{} = 1", vec!["a"; 100_000].join(".")),
        format!("[{}]", vec!["a"; 100_000].join(".")),
        format!("regions = [{}]", "\"x\",".repeat(100_000)),
        format!("x = {}", "9".repeat(100_000)),
        format!("x = 1e{}", "9".repeat(1000)),
        format!("\"{}\" = 1", "k".repeat(100_000)),
    ];
    for text in deep {
        let said = load(text.as_bytes()).unwrap_err().to_string();
        let shown: String = text.chars().take(30).collect();
        assert!(said.len() < 400_000, "{shown}: {} bytes", said.len());
    }
}

proptest! {
    #[test]
    fn any_bytes_are_a_configuration_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(load(&bytes).is_err());
    }

    #[test]
    fn bytes_in_the_middle_of_a_right_configuration_are_taken_or_refused(
        at in any::<prop::sample::Index>(),
        gone in 0_usize..40,
        bytes in prop::collection::vec(any::<u8>(), 0..12),
    ) {
        let mut text = fs::read(shipped()).unwrap();
        let from = at.index(text.len());
        let to = (from + gone).min(text.len());
        text.splice(from..to, bytes);
        let _ = load(&text);
    }
}

/// An upstream whose every text is hostile.
fn hostile_upstream(text: &'static str) -> StubUpstream {
    StubUpstream::start(move |request| {
        let items: Vec<Value> = (0..3)
            // An id with a NUL is none.
            .map(|n| json!({ "id": format!("{}{n}", text.replace('\0', "")), "snippet": { "title": format!("findme {text}"), "channelId": text } }))
            .collect();
        match request.number {
            0..2 => StubAnswer::json(&json!({ "items": items })),
            _ => StubAnswer::error(
                403,
                &json!({ "error": { "message": text, "errors": [{ "reason": text }] } }),
            ),
        }
    })
}

#[test]
fn what_an_upstream_says_is_never_a_command_to_a_terminal() {
    for text in [
        "\u{1b}]0;pwned\u{7}\u{1b}[2J",
        "\u{9b}31m\r\u{8}\0",
        "\u{202e}txt.exe\u{2066}",
        "\u{200e}txt\u{200f}.exe\u{61c}\u{200b}\u{feff}",
    ] {
        let upstream = hostile_upstream(text);
        let mut world = World::new();
        world
            .set(&format!("upstreams.youtube.base_url={}", upstream.url()))
            .set("jobs.trending.every=1us");
        for arguments in [
            &["--region", "US", "--job", "trending", "-v"][..],
            &["--region", "GB", "--job", "trending", "-v"],
            &["search", "findme"],
            &["status"],
            &["--region", "all", "--dry-run"],
            &["--region", "US", "--job", "trending", "--log", "json"],
            &["history"],
            &["history", "--format", "json"],
            &["status", "--format", "json"],
            &["search", "findme", "--format", "json"],
            &["export", "--kind", "video"],
            &["forecast", "--schedule", "daily", "--days", "1"],
            &["repair"],
            &["check", "--connect"],
        ] {
            let ran = world.ingest(arguments);
            assert!(is_plain(&ran.stdout), "{arguments:?}: {:?}", ran.stdout);
            assert!(is_plain(&ran.stderr), "{arguments:?}: {:?}", ran.stderr);
        }
        let line = world.ingest(&["export", "--kind", "video"]).stdout;
        let record: Value = serde_json::from_str(line.lines().next().unwrap()).unwrap();
        assert_eq!(
            record["body"]["snippet"]["channelId"], text,
            "the same JSON"
        );
        let csv = ["export", "--kind", "video", "--as", "csv"];
        let raw = world.ingest(&csv).stdout;
        assert!(!is_plain(&raw), "a program reads it: {raw:?}");
        let (shown, code) = at_a_terminal(&mut world.command(&csv), 100);
        assert_eq!(code, Some(0), "{shown}");
        assert!(is_plain(&shown.replace("\r\n", "\n")), "{shown:?}");
        let hits = world.json(&["search", "findme"]);
        assert!(
            hits["hits"].as_array().unwrap().len() >= 3,
            "landed and found, as it is: {hits}"
        );
    }
}

#[test]
fn what_a_redis_says_is_never_a_command_to_a_terminal() {
    let redis = Parrot::start();
    let mut world = World::new();
    world
        .set(&format!("ledger.url=redis://127.0.0.1:{}", redis.port))
        .set("ledger.timeout=2s");
    for text in [
        "\u{1b}]0;pwned\u{7}\u{1b}[2J",
        "pwned\u{9b}31m\u{8}\0",
        "\u{202e}pwned\u{2066}",
    ] {
        redis.say(format!("-ERR {text}\r\n").into_bytes());
        for arguments in [
            &["charge", "youtube", "search.list", "-v"][..],
            &["--region", "US", "--job", "trending", "-v"],
            &["status", "-v"],
        ] {
            let ran = world.ingest(arguments);
            assert!(
                ran.stdout.contains("pwned") || ran.stderr.contains("pwned"),
                "{arguments:?}: {ran:?}"
            );
            assert!(is_plain(&ran.stdout), "{arguments:?}: {:?}", ran.stdout);
            assert!(is_plain(&ran.stderr), "{arguments:?}: {:?}", ran.stderr);
        }
    }
}

#[test]
fn a_region_named_like_a_path_leads_nowhere() {
    let regions = [
        "../../x",
        "/etc/passwd",
        "a/b",
        "..",
        "%2e%2e",
        "'; drop table pass; --",
        "{region}",
    ];
    let list = regions.map(|region| format!("{region:?}")).join(",");
    let mut world = World::new();
    let upstream = hostile_upstream("x");
    world
        .set(&format!("regions=[{list}]"))
        .set(&format!("upstreams.youtube.base_url={}", upstream.url()));
    let report = world.json(&["--region", "all", "--job", "trending"]);
    assert_eq!(
        report["passes"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|pass| pass["region"] != "*")
            .count(),
        regions.len()
    );
    let outside: Vec<_> = fs::read_dir(world.directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(outside, ["state"]);
    let locks: Vec<_> = fs::read_dir(world.state_dir().join("locks"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert!(locks.iter().all(|path| path.is_file()), "{locks:?}");
    assert_eq!(world.ingest(&["status"]).code, 0);
}

#[test]
fn a_region_of_any_length_is_walked_and_has_a_lock_of_its_own() {
    let long = "日本語の地域".repeat(20);
    let regions = [format!("{long}一"), format!("{long}二"), "short".to_owned()];
    let list = regions
        .clone()
        .map(|region| format!("{region:?}"))
        .join(",");
    let mut world = World::new();
    let upstream = StubUpstream::start(|_| StubAnswer::json(&json!({ "items": [] })));
    world
        .set(&format!("regions=[{list}]"))
        .set(&format!("upstreams.youtube.base_url={}", upstream.url()));
    let ran = world.ingest(&["--region", "all", "--job", "trending", "--format", "json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let locks = fs::read_dir(world.state_dir().join("locks")).unwrap();
    let locks: Vec<String> = locks
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let of_regions = locks
        .iter()
        .filter(|name| name.starts_with("trending.") && !name.contains("%2A"));
    assert_eq!(of_regions.count(), 3, "{locks:?}");
    assert!(
        locks.contains(&"trending.short.lock".to_owned()),
        "{locks:?}"
    );
}

#[test]
fn a_job_whose_name_takes_many_bytes_runs() {
    let name = "動画".repeat(30);
    let mut world = World::new();
    world.set(&format!(
        "jobs={{ {name:?} = {{ credential = \"youtube\", steps = [{{ call = \"videos.list\", params = {{ chart = \"mostPopular\", regionCode = \"{{region}}\" }}, max_pages = 1 }}] }} }}"
    ));
    let ran = world.ingest(&["--region", "US", "--format", "json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn an_id_of_a_charge_is_short_and_has_no_character_that_nobody_sees() {
    let world = World::new();
    let charge = |id: &str| world.ingest(&["charge", "youtube", "videos.list", "--id", id]);
    let (longest, longer) = ("x".repeat(256), "x".repeat(257));
    for id in ["one", "zwölf-🦀", &longest, "a-b", "a b"] {
        assert_eq!(charge(id).code, 0, "{id}");
    }
    let wrong = [
        &*longer,
        &"ä".repeat(129),
        &"x".repeat(100_000),
        "a\nb",
        "\u{1b}[2J",
        "a\u{9b}",
        "a\u{202e}b",
        "a\u{200b}",
        "\u{feff}a",
        "a\u{2028}",
    ];
    for id in wrong {
        let ran = charge(id);
        assert_eq!(ran.code, 2, "{id:?}: {ran:?}");
        assert!(ran.stderr.contains("the id of a charge"), "{ran:?}");
        assert_eq!(world.ingest(&["release", id]).code, 2, "{id:?}");
    }
    assert_eq!(world.charged("daily"), 5);
}
