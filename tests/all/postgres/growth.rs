//! How the statements that a command sends grow with the regions: counted, so that the result depends on no clock.

use std::fmt::Write;

use ingest_testing::postgres::PostgresServer;

use crate::support::shared_world::SharedWorld;
use crate::support::world::World;

const REGIONS: [&str; 12] = [
    "US", "GB", "DE", "FR", "IN", "BR", "AU", "CA", "JP", "KR", "IT", "ES",
];
const FEW: usize = 3;
const MANY: usize = 4 * FEW;

/// How often a command asks the server, when there are more regions.
enum Grows {
    /// As often as before: it reads all regions at once.
    Not,
    /// As the regions.
    WithThem,
}

impl Grows {
    /// The largest exponent.
    const fn most(&self) -> f64 {
        match self {
            Self::Not => 0.1,
            Self::WithThem => 1.15,
        }
    }
}

/// What is run in this order, over regions that all have a complete pass.
const COMMANDS: [(&[&str], Grows); 7] = [
    (&["--region", "all", "--dry-run"], Grows::Not),
    (
        &[
            "forecast",
            "--region",
            "all",
            "--schedule",
            "daily",
            "--days",
            "1",
        ],
        Grows::Not,
    ),
    (&["status"], Grows::Not),
    (&["history"], Grows::Not),
    (&["--region", "all"], Grows::WithThem),
    // `leave` stops all regions at their first request.
    (
        &[
            "--region",
            "all",
            "--job",
            "trending",
            "--set",
            "credentials.youtube.limits.daily.quota=1502",
            "--set",
            "jobs.discover.leave={}",
        ],
        Grows::WithThem,
    ),
    (&["--region", "all", "--job", "discover"], Grows::Not),
];

/// Returns the number of statements of each command over `regions` regions. The last job is not due, the other always.
fn statements(server: &PostgresServer, regions: usize) -> Vec<f64> {
    let names = &REGIONS[..regions];
    let schema = server.schema();
    let mut world = World::configured(
        &[
            &format!("regions={names:?}"),
            "jobs.trending.every=1ms",
            "upstreams.youtube.calls.\"videos.list\".page={ kind = \"token\", param = \"pageToken\", \
             next = \"/nextPageToken\", size_param = \"maxResults\", size = 50, lasting = \"last\" }",
            "credentials.youtube.limits.search_burst.quota=100",
        ],
        |options| options.quota = None,
    );
    schema.in_world(&mut world);
    let first = world.ingest(&["--region", "all"]);
    assert_eq!(first.code, 0, "{first:?}");
    let sent = |arguments: &[&str]| {
        server.rows("select pg_stat_statements_reset()");
        let ran = world.ingest(arguments);
        assert_eq!(ran.code, 0, "{ran:?}");
        server.wait_until_alone();
        let calls = "select sum(calls)::bigint from pg_stat_statements";
        let calls: i64 = server.rows(calls)[0].get(0);
        f64::from(u32::try_from(calls).unwrap())
    };
    COMMANDS
        .iter()
        .map(|(arguments, _)| sent(arguments))
        .collect()
}

#[test]
fn more_regions_take_no_more_statements_than_they_have_to() {
    let server = PostgresServer::local(&["shared_preload_libraries=pg_stat_statements"]);
    server.rows("create extension pg_stat_statements");
    let (few, many) = (statements(&server, FEW), statements(&server, MANY));
    let (mut table, mut grows_too_fast) = (String::new(), false);
    for (((arguments, grows), few), many) in COMMANDS.iter().zip(few).zip(many) {
        let exponent = (many / few).log(4.0);
        grows_too_fast |= exponent > grows.most();
        let most = grows.most();
        writeln!(
            table,
            "{arguments:?}: {few} and {many}, exponent {exponent:.2} of {most}"
        )
        .unwrap();
    }
    assert!(!grows_too_fast, "{table}");
    println!("{table}");
}

/// Returns the blocks that the server reads for a preview, a status and a history of an hour; `passes` passes are two months old.
fn blocks(server: &PostgresServer, passes: usize) -> [i64; 3] {
    let schema = server.schema();
    let world = schema.world(&[]);
    let ran = world.ingest(&["--region", "all", "--job", "trending"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    schema.rows(&format!(
        "insert into pass (job, region, started_at, finished_at, left_at, outcome)
         select job, region, began, began, began, outcome from generate_series(1, {passes}) number,
            lateral (select now() - interval '60 days' - number * interval '1 minute' began) time,
            lateral (select job, region, outcome from pass where id <= 8 offset number % 8 limit 1) known"
    ));
    server.rows("vacuum analyze");
    let acts: [&[&str]; 3] = [
        &["--region", "all", "--dry-run"],
        &["status"],
        &["history", "--since", "1h"],
    ];
    acts.map(|arguments| {
        server.rows("select pg_stat_statements_reset()");
        let ran = world.ingest(arguments);
        assert_eq!(ran.code, 0, "{ran:?}");
        server.wait_until_alone();
        let read = "select sum(shared_blks_hit + shared_blks_read)::bigint from pg_stat_statements";
        server.rows(read)[0].get(0)
    })
}

#[test]
fn passes_that_nothing_asks_for_are_not_read() {
    let server = PostgresServer::local(&["shared_preload_libraries=pg_stat_statements"]);
    server.rows("create extension pg_stat_statements");
    let (few, many) = (blocks(&server, 1_000), blocks(&server, 16_000));
    // An index of more levels is read a little longer.
    let is_flat = few.iter().zip(many).all(|(few, many)| many < few * 3 / 2);
    assert!(is_flat, "{few:?} blocks, then {many:?}");
}
