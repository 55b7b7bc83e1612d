use crate::support::world::World;

#[test]
fn a_first_run_lands_every_region_and_a_second_makes_no_request() {
    let world = World::new();
    let first = world.json(&["--region", "all", "--job", "trending"]);
    assert_eq!(first["outcome"], "complete", "{first}");
    let regions: Vec<&str> = first["passes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pass| pass["region"].as_str().unwrap())
        .collect();
    assert_eq!(
        regions,
        ["US", "GB", "DE", "FR", "IN", "BR", "AU", "CA", "*"]
    );
    assert!(
        first["passes"]
            .as_array()
            .unwrap()
            .iter()
            .all(|pass| pass["outcome"] == "complete")
    );
    let requests = world.requests();
    assert_eq!(first["requests"].as_u64(), Some(requests));

    let second = world.ingest(&["--region", "all", "--job", "trending", "--format", "json"]);
    assert_eq!(second.code, 0);
    assert_eq!(second.json()["outcome"], "nothing_due");
    assert_eq!(world.requests(), requests);
}

#[test]
fn search_finds_a_landed_title_and_makes_no_request() {
    let world = World::new();
    world.ingest(&["--region", "US", "--job", "trending"]);
    let requests = world.requests();
    let title = "select title from youtube_video where title glob '[A-Za-z]*' order by id limit 1";
    let catalog = rusqlite::Connection::open(world.state_dir().join("catalog.db")).unwrap();
    let title: String = catalog.query_row(title, [], |row| row.get(0)).unwrap();
    let found = world.json(&["search", &title]);
    assert!(
        !found["hits"].as_array().unwrap().is_empty(),
        "{title} was not found"
    );
    assert_eq!(world.requests(), requests);
}

#[test]
fn an_unknown_region_or_job_is_wrong_usage_and_requests_nothing() {
    let world = World::new();
    for arguments in [
        ["--region", "UX"].as_slice(),
        &["--region", "all", "--job", "trendign"],
        &[],
        &["--region"],
    ] {
        let ran = world.ingest(arguments);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.stdout.is_empty(), "{ran:?}");
    }
    assert!(
        world
            .ingest(&["--region", "all", "--job", "trendign"])
            .stderr
            .contains("did you mean `trending`?")
    );
    assert_eq!(world.requests(), 0);
}

#[test]
fn whoever_has_only_practised_is_told_where_that_is_found() {
    let world = World::new();
    assert_eq!(world.ingest(&["search", "a"]).stdout, "No records found.\n");
    assert_eq!(
        world
            .ingest(&["--region", "US", "--job", "trending", "--sandbox", "-q"])
            .code,
        0
    );
    let said = world.ingest(&["search", "a"]).stdout;
    assert!(said.contains("add --sandbox"), "{said}");
    assert_eq!(
        world
            .ingest(&["--region", "US", "--job", "trending", "-q"])
            .code,
        0
    );
    assert_eq!(
        world.ingest(&["search", "nobodywrotethis"]).stdout,
        "No records found.\n"
    );
}
