//! Every run over PostgreSQL ends.

use std::process::Stdio;
use std::time::Duration;

use futures_util::StreamExt;
use ingest_catalog::{Catalog, Postgres, RecordsQuery};
use ingest_config::PostgresUrl;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls};

use crate::support::shared_world::SharedWorld;
use crate::support::world::{PATIENCE, ended, ends_within};
use ingest_testing::postgres::{PostgresServer, Schema};
use ingest_testing::redis_server::wait_until;

#[test]
fn the_shipped_regions_all_at_once_end_with_as_few_connections_as_there_are() {
    for connections in 1..=4 {
        let schema = PostgresServer::shared().schema();
        // Few units: passes stop, and why they did is stored while others end.
        let world = schema.world(&[
            "credentials.youtube.limits.daily.quota=1640",
            "jobs.discover.leave={}",
        ]);
        let connections = format!("catalog.connections={connections}");
        let arguments = [
            "--region",
            "all",
            "--concurrency",
            "8",
            "--set",
            &connections,
        ];
        let ran = ended(world.command(&arguments));
        assert_eq!(ran.code, 0, "{connections}: {ran:?}");
    }
}

/// A session of somebody else, who locks tables of a schema.
struct Locks<'a> {
    schema: &'a Schema,
    client: Client,
    runtime: Runtime,
}

impl<'a> Locks<'a> {
    fn new(schema: &'a Schema, table: &str) -> Self {
        let runtime = Runtime::new().unwrap();
        let connected = tokio_postgres::connect(&schema.url, NoTls);
        let (client, connection) = runtime.block_on(connected).unwrap();
        runtime.spawn(connection);
        let locks = Self {
            schema,
            client,
            runtime,
        };
        let name = &schema.name;
        locks.run(&format!(
            "begin; lock table {name}.{table} in access exclusive mode"
        ));
        locks
    }

    fn run(&self, sql: &str) {
        let done = self.client.batch_execute(sql);
        self.runtime.block_on(done).unwrap();
    }

    /// Waits until statements of somebody wait for a table.
    fn are_waited_for(&self, table: &str) {
        let waiting = format!(
            "select count(*) from pg_locks where not granted and relation = '{table}'::regclass"
        );
        wait_until("a statement waits", || self.schema.count(&waiting) > 0);
    }
}

fn trending(region: &str) -> [&str; 6] {
    ["--region", region, "--job", "trending", "--format", "json"]
}

#[test]
fn a_lease_that_the_database_grants_late_is_asked_for_again_while_it_would_be_trusted() {
    let schema = PostgresServer::shared().schema();
    let world = schema.world(&["catalog.lease=\"8s\""]);
    assert_eq!(world.ingest(&trending("GB")).code, 0);
    let locks = Locks::new(&schema, "lease");
    let mut command = world.command(&trending("US"));
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let run = piped.spawn().unwrap();
    locks.are_waited_for("lease");
    // Two attempts of two seconds get no answer. A lease of 8 s would be trusted for six.
    std::thread::sleep(Duration::from_millis(4_200));
    locks.run("commit");
    let ran = ends_within(run, PATIENCE);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ran.json()["passes"][0]["outcome"], "complete", "{ran:?}");
}

#[test]
fn a_region_that_gets_no_connection_in_time_fails_and_names_catalog_connections() {
    let schema = PostgresServer::shared().schema();
    // One region is to wait for the server longer than the other one for the connection: for up to a quarter of this.
    let mut world = schema.world(&["catalog.lease=\"10m\""]);
    world.set("catalog.connections=1");
    assert_eq!(world.ingest(&trending("GB")).code, 0);
    let locks = Locks::new(&schema, "lease");
    let mut command = world.command(&trending("US,DE"));
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let run = piped.spawn().unwrap();
    // The run wants their leases. Then one of them waits for the server, and the other one for the connection.
    locks.are_waited_for("lease");
    let passes = Locks::new(&schema, "pass");
    locks.run("commit");
    passes.are_waited_for("pass");
    std::thread::sleep(Duration::from_secs(31));
    passes.run("commit");
    let ran = ends_within(run, PATIENCE);
    assert_eq!(ran.code, 1, "{ran:?}");
    let report = ran.json();
    let passes = report["passes"].as_array().unwrap();
    let failed: Vec<&str> = passes
        .iter()
        .filter(|pass| pass["outcome"] == "failed")
        .map(|pass| pass["detail"].as_str().unwrap())
        .collect();
    let [why] = failed[..] else {
        panic!("{report:#}")
    };
    assert!(
        why.contains(
            "no connection to the database became free within 30 s: raise catalog.connections"
        ),
        "{why}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn records_that_nobody_takes_keep_the_only_connection_from_no_other_reader() {
    let schema = tokio::task::block_in_place(|| PostgresServer::shared().schema());
    let url = PostgresUrl::parse(&schema.url).unwrap();
    let database = Postgres::new(&url, None, &schema.name, 1);
    let catalog = Catalog::connect(database).await.unwrap();
    tokio::task::block_in_place(|| {
        schema.rows(
            "insert into record (upstream, kind, id, first_seen, last_seen, body)
            select 'rows', 'row', n::text, now(), now(), '{}' from generate_series(1, 2000) n",
        )
    });
    let mut records = catalog.records(RecordsQuery {
        kind: "row".to_owned(),
        region: None,
        since: None,
        changed_since: None,
    });
    let first = records.next().await.unwrap().unwrap();
    let other = catalog.record("rows", "row", "7").await;
    assert_eq!(other.unwrap().unwrap().id, "7");
    let rest = records.map(|page| page.unwrap().len());
    let rest: usize = rest.fold(0, async |sum, page| sum + page).await;
    assert_eq!(first.len() + rest, 2000);
}
