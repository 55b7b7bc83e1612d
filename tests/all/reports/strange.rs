//! What nobody should type or publish, and somebody does.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;

use crate::support::world::World;

/// Titles that break what is written carelessly.
const TITLES: [&str; 8] = [
    "a comma, a \"quote\" and a ; semicolon",
    "two\nlines\r\nor three",
    "=HYPERLINK(\"http://example.org\")",
    "+1-2@x",
    "ünï 日本語 🐶 \u{202e}siht",
    "\u{1b}[31mred\u{1b}[0m \u{7} bell",
    "' or 1=1 --",
    "   ",
];

fn landed() -> World {
    let world = World::configured(&super::promises::LISTING_ONLY, |_| {});
    world.json(&["--region", "US", "--job", "trending"]);
    let catalog = world.catalog();
    for (number, title) in (0_u32..).zip(TITLES) {
        let update = "update record set body = json_set(body, '$.snippet.title', ?1)
             where id = (select id from record where kind = 'video' order by id limit 1 offset ?2)";
        assert_eq!(catalog.execute(update, (title, number)).unwrap(), 1);
    }
    world
}

fn titles(csv: &[u8]) -> Vec<String> {
    let mut lines = csv::Reader::from_reader(csv);
    let column = lines
        .headers()
        .unwrap()
        .iter()
        .position(|name| name == "title")
        .unwrap();
    lines
        .records()
        .map(|record| {
            let title = &record.unwrap()[column];
            // A quote of its own stays.
            let guarded = title.strip_prefix('\'');
            let guarded = guarded.filter(|rest| rest.starts_with(['=', '+', '-', '@']));
            guarded.unwrap_or(title).to_owned()
        })
        .collect()
}

#[test]
fn titles_of_any_kind_come_through_an_export_as_they_are_behind_the_quote_that_a_spreadsheet_needs()
{
    let world = landed();
    let csv = world
        .ingest(&["export", "--kind", "video", "--as", "csv"])
        .stdout;
    let titles = titles(csv.as_bytes());
    assert_eq!(titles.len(), 20);
    let ndjson = world.ingest(&["export", "--kind", "video"]).stdout;
    let of_line = |line: &str| {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        record["body"]["snippet"]["title"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let same: Vec<String> = ndjson.lines().map(of_line).collect();
    assert_eq!(titles, same);
    assert!(
        TITLES
            .iter()
            .all(|title| titles.iter().any(|found| found == title)),
        "{titles:?}"
    );
}

fn export_to(world: &World, to: &Path) -> crate::support::world::Ran {
    world.ingest(&["export", "--kind", "video", "--to", to.to_str().unwrap()])
}

fn nothing_beside(directory: &Path) {
    let names = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let parts: Vec<String> = names.filter(|name| name.ends_with(".part")).collect();
    assert_eq!(parts, Vec::<String>::new());
}

#[test]
fn an_export_replaces_files_alone() {
    let world = landed();
    let directory = world.directory.path();
    let (folder, socket) = (directory.join("folder"), directory.join("socket"));
    fs::create_dir(&folder).unwrap();
    let _listener = UnixListener::bind(&socket).unwrap();
    for to in [
        &folder,
        &socket,
        Path::new("/dev/null"),
        &directory.join("none/at/all"),
        Path::new("/proc/nothing"),
    ] {
        let failed = export_to(&world, to);
        assert_eq!(
            (failed.code, failed.stdout.as_str()),
            (1, ""),
            "{to:?}: {failed:?}"
        );
        assert!(failed.stderr.contains("cannot write"), "{to:?}: {failed:?}");
    }
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
    nothing_beside(directory);
}

#[test]
fn an_export_through_a_link_replaces_what_it_stands_for() {
    let world = landed();
    let (file, link) = (
        world.directory.path().join("file"),
        world.directory.path().join("link"),
    );
    fs::write(&file, "old").unwrap();
    symlink(&file, &link).unwrap();
    assert_eq!(export_to(&world, &link).code, 0);
    assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), 20);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    nothing_beside(world.directory.path());
}

#[test]
fn whatever_is_searched_for_is_words_and_never_syntax() {
    let world = landed();
    for words in [
        "\"unbalanced",
        "a*",
        "NEAR(a b)",
        "title:x",
        "^a",
        "a AND",
        "OR",
        "NOT a",
        "(",
        ")",
        "{a}",
        "-a",
        "a + b",
        "'",
        "\\",
        "%",
        "\u{1b}[31m",
        "日本語",
        "🐶",
        "",
        " ",
        "..",
        "select * from record; drop table record",
    ] {
        let found = world.ingest(&["search", "--", words]);
        assert_eq!(
            (found.code, found.stderr.as_str()),
            (0, ""),
            "{words:?}: {found:?}"
        );
        let json = world.ingest(&["search", "--format", "json", "--", words]);
        assert!(json.json()["hits"].is_array(), "{words:?}: {json:?}");
    }
    assert_eq!(
        world.count("select count(*) from record where kind = 'video'"),
        20
    );
}
