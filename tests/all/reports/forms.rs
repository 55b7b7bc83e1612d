use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::support::world::World;

fn after_a_run() -> World {
    let world = World::new();
    world.ingest(&["--region", "US,GB", "--job", "trending", "-q"]);
    world
}

#[test]
fn an_export_holds_every_record_once_and_counts_by_region() {
    let world = after_a_run();
    let catalog = rusqlite::Connection::open(world.state_dir().join("catalog.db")).unwrap();
    let count = |sql: &str| {
        catalog
            .query_row(sql, [], |row| row.get::<_, u32>(0))
            .unwrap() as usize
    };
    let videos = world
        .ingest(&["export", "--kind", "video", "--as", "ndjson"])
        .stdout;
    assert_eq!(
        videos.lines().count(),
        count("select count(*) from youtube_video")
    );
    for line in videos.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        assert_eq!(record["id"], record["body"]["id"]);
    }
    let of_region = world
        .ingest(&["export", "--kind", "video", "--region", "US"])
        .stdout;
    let in_region = "select listing.id from listing join pass on pass.id = listing.pass
        where pass.region = 'US' and kind = 'video'";
    let mut statement = catalog.prepare(in_region).unwrap();
    let in_region = statement
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<BTreeSet<String>, _>>()
        .unwrap();
    let id = |line: &str| {
        serde_json::from_str::<Value>(line).unwrap()["id"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(
        of_region.lines().map(id).collect::<BTreeSet<_>>(),
        in_region
    );
    assert_eq!(
        world
            .ingest(&["export", "--kind", "video", "--since", "0s"])
            .stdout,
        ""
    );
    let typo = world.ingest(&["export", "--kind", "vidoe"]);
    assert_eq!(typo.code, 2);
    assert!(typo.stderr.contains("did you mean `video`?"), "{typo:?}");
}

#[test]
fn an_export_as_csv_has_the_configured_columns() {
    let world = after_a_run();
    let file = world.directory.path().join("videos.csv");
    fs::write(&file, "old").unwrap();
    let ran = world.ingest(&[
        "export",
        "--kind",
        "video",
        "--as",
        "csv",
        "--to",
        file.to_str().unwrap(),
    ]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{ran:?}");
    let mut lines = csv::Reader::from_path(&file).unwrap();
    let header: Vec<String> = lines.headers().unwrap().iter().map(str::to_owned).collect();
    assert_eq!(
        header[..5],
        ["upstream", "id", "first_seen", "last_seen", "category_id"]
    );
    let (id, title) = (1, header.iter().position(|name| name == "title").unwrap());
    let catalog = rusqlite::Connection::open(world.state_dir().join("catalog.db")).unwrap();
    // Behind the quote that keeps a spreadsheet from running it.
    let plain = |text: &str| text.strip_prefix('\'').unwrap_or(text).to_owned();
    for record in lines.records() {
        let record = record.unwrap();
        let stored: String = catalog
            .query_row(
                "select title from youtube_video where id = ?1",
                [plain(&record[id])],
                |row| row.get(0),
            )
            .unwrap();
        assert_eq!(plain(&record[title]), stored);
    }
}

#[test]
fn a_file_that_cannot_be_written_whole_is_left_as_it_was() {
    let world = after_a_run();
    let nowhere = world.directory.path().join("none/videos.ndjson");
    let failed = world.ingest(&[
        "export",
        "--kind",
        "video",
        "--to",
        nowhere.to_str().unwrap(),
    ]);
    assert_eq!(failed.code, 1);
    let catalog = world.state_dir().join("catalog.db");
    let file = world.directory.path().join("videos.ndjson");
    fs::write(&file, "old").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let export = || world.ingest(&["export", "--kind", "video", "--to", file.to_str().unwrap()]);
    let whole = fs::read(&catalog).unwrap();
    fs::write(&catalog, "this is no catalog").unwrap();
    assert_eq!(export().code, 1);
    assert_eq!(fs::read_to_string(&file).unwrap(), "old");
    fs::write(&catalog, whole).unwrap();
    assert_eq!(export().code, 0);
    assert_ne!(fs::read_to_string(&file).unwrap(), "old");
    // What others could not read, they still cannot.
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let names: Vec<_> = fs::read_dir(world.directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert!(
        names
            .iter()
            .all(|name| !name.to_string_lossy().ends_with(".part")),
        "{names:?}"
    );
}
