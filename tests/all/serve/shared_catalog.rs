//! `ingest serve` over a catalog in PostgreSQL: the same answers as over files, deadlines, a database that goes away.

use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use super::reading::timeless;
use super::{Answer, Served};
use crate::support::shared_world::SharedWorld;
use crate::support::world::World;
use ingest_testing::postgres::PostgresServer;
use ingest_testing::redis_server::wait_until;

const MANY: &str = "serve.readers={ quota = 100_000, window = \"1min\" }";
const PATIENT: &str = "serve.query_timeout=30s";

#[test]
fn a_server_over_postgres_answers_as_one_over_files() {
    let schema = PostgresServer::shared().schema();
    let mut files = World::configured(&[MANY, PATIENT], |_| {});
    files.set(&format!("catalog.schema={}", schema.name));
    assert_eq!(files.ingest(&["--region", "US,GB"]).code, 0);
    files
        .catalog()
        .execute(
            "insert into pass (job, region, started_at, requests, left_at, failed, notes)
            select 'trending', 'DE', started_at, 3, started_at, 1, 'it failed' from pass limit 1",
            [],
        )
        .unwrap();
    let copied = files.json(&["catalog", "copy", "--from", "sqlite", "--to", &schema.url]);
    assert_eq!(copied["verified"], true, "{copied}");
    let mut shared = World::configured(&[MANY, PATIENT], |_| {});
    schema.in_world(&mut shared);
    std::fs::create_dir_all(shared.state_dir()).unwrap();
    for file in ["ledger.db", "ledger.db-wal"] {
        let _ = std::fs::copy(files.state_dir().join(file), shared.state_dir().join(file));
    }
    let (files, shared) = (Served::over(files), Served::over(shared));
    let pages = files.get("/api/v1/records/video?limit=7");
    let next = pages.header("link").unwrap();
    let next = next
        .trim_start_matches('<')
        .split('>')
        .next()
        .unwrap()
        .to_owned();
    let record: serde_json::Value =
        serde_json::from_str(pages.text().lines().next().unwrap()).unwrap();
    let id = record["id"].as_str().unwrap();
    let title = record["body"]["snippet"]["title"].as_str().unwrap();
    let title: String = title.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let exactly = [
        "/api/v1/status".to_owned(),
        "/api/v1/history".to_owned(),
        "/api/v1/plan?region=all".to_owned(),
        "/api/v1/records/video?limit=7".to_owned(),
        next,
        "/api/v1/records/video?region=GB&seen_since=1d&limit=1000".to_owned(),
        format!("/api/v1/records/video/{id}"),
        "/api/v1/records/nothing".to_owned(),
        "/history?job=trending&region=DE".to_owned(),
        "/search?kind=video&region=US".to_owned(),
        format!("/record?kind=video&id={id}"),
        "/search?q=ab".to_owned(),
    ];
    for path in &exactly {
        let (one, other) = (files.get(path), shared.get(path));
        assert_eq!(one.status, other.status, "{path}: {}", other.text());
        // The footer names the catalog, and a link says how many minutes ago a pass began.
        let parts = |answer: &Answer| {
            let text = answer.text();
            let content = text.split("<footer>").next().unwrap();
            let parts = content.split("since=").map(|part| {
                part.trim_start_matches(|one: char| one.is_ascii_digit())
                    .to_owned()
            });
            parts.collect::<Vec<_>>()
        };
        match path.starts_with("/api/v1/records") || !path.starts_with("/api/") {
            true => assert_eq!(parts(&one), parts(&other), "{path}"),
            false => assert_eq!(timeless(one.json()), timeless(other.json()), "{path}"),
        }
    }
    // They rank in their own ways, and find the same.
    for query in [
        format!("q={title}"),
        format!("q={title}&kind=video&region=US"),
        "q=vid*".to_owned(),
    ] {
        let found = |served: &Served| {
            let answer = served.get(&format!("/api/v1/search?{query}&limit=1000"));
            let hits = answer.json()["hits"].as_array().unwrap().clone();
            let mut ids: Vec<String> = hits
                .iter()
                .map(|hit| format!("{} {}", hit["kind"], hit["id"]))
                .collect();
            ids.sort();
            ids
        };
        assert_eq!(found(&files), found(&shared), "{query}");
    }
    for page in [
        "/",
        "/plan",
        "/metrics",
        "/search?q=vid",
        "/plan?region=US&schedule=daily&days=1",
    ] {
        assert_eq!(
            (files.get(page).status, shared.get(page).status),
            (200, 200),
            "{page}"
        );
    }
}

#[test]
fn the_deadline_of_a_query_cancels_it_in_the_database() {
    let schema = PostgresServer::shared().schema();
    let world = schema.world(&[MANY, "serve.query_timeout=400ms"]);
    assert_eq!(
        world.ingest(&["--region", "US", "--job", "trending"]).code,
        0
    );
    let served = Served::over(world);
    let running = format!(
        "select pid from pg_stat_activity where state = 'active' and wait_event_type = 'Lock' and query like '%{}%' or
            (state = 'active' and wait_event_type = 'Lock' and pid in (select pid from pg_locks where not granted and relation = '{}.record'::regclass))",
        schema.name, schema.name
    );
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(&schema.url, tokio_postgres::NoTls)
            .await
            .unwrap();
        tokio::spawn(connection);
        let lock = format!(
            "begin; lock table {}.record in access exclusive mode",
            schema.name
        );
        client.batch_execute(&lock).await.unwrap();
        let began = Instant::now();
        let answer = tokio::task::block_in_place(|| served.get("/api/v1/records/video"));
        assert_eq!(answer.status, 503, "{}", answer.text());
        assert!(answer.header("retry-after").is_some());
        assert!(
            began.elapsed() < Duration::from_secs(5),
            "{:?}",
            began.elapsed()
        );
        let is_cancelled = || schema.rows(&running).is_empty();
        tokio::task::block_in_place(|| wait_until("the statement is cancelled", is_cancelled));
        client.batch_execute("rollback").await.unwrap();
    });
    assert_eq!(served.get("/api/v1/records/video").status, 200);
}

#[test]
fn a_database_that_goes_away_is_a_503_until_it_is_back() {
    let mut server = PostgresServer::with(&[]);
    let schema = server.schema();
    let world = schema.world(&[MANY]);
    assert_eq!(
        world.ingest(&["--region", "US", "--job", "trending"]).code,
        0
    );
    let served = Served::over(world);
    let paths = [
        "/",
        "/search?q=vid",
        "/history",
        "/plan",
        "/api/v1/status",
        "/api/v1/records/video",
        "/metrics",
    ];
    for path in paths {
        assert_eq!(served.get(path).status, 200, "{path}");
    }
    server.kill();
    for path in paths {
        let answer = served.get(path);
        assert_eq!(answer.status, 503, "{path}: {}", answer.text());
        assert!(answer.header("retry-after").is_some(), "{path}");
        assert!(
            !answer.text().contains(&server.port().to_string()),
            "{path} says where it is"
        );
    }
    assert_eq!(served.get("/healthz").status, 200);
    server.start();
    for path in paths {
        assert_eq!(served.get(path).status, 200, "{path}");
    }
}
