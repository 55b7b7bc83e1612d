//! PostgreSQL without statistics, as a new catalog is before it is first analysed: reads grow with what they read all the same.
//! Counted in blocks, so that the result depends on no clock.

use std::sync::Arc;

use ingest_catalog::{COPIED, Catalog, PassScope, PendingQuery, RecordIds};
use ingest_config::Pointer;
use ingest_quota::Timestamp;
use ingest_testing::postgres::{PostgresServer, Schema};
use tokio::task::block_in_place;

use super::places::database;

const FEW: i64 = 250;
const MANY: i64 = 4 * FEW;
/// How many records are asked for by their ids.
const ASKED: usize = 50;

/// The statements that write open passes of ten records each, which name one id each, and as many ends of lists of ids.
fn fill(passes: i64) -> [String; 4] {
    [
        format!(
            "insert into pass (job, region, started_at) select 'trending', 'r' || number, now() from generate_series(1, {passes}) number"
        ),
        format!(
            "insert into record (upstream, kind, id, first_seen, last_seen, body)
            select 'youtube', 'video', 'v' || number, now(), now(), '{{\"channel\":\"c' || number || '\"}}'
            from generate_series(1, {passes} * 10) number"
        ),
        format!(
            "insert into listing (pass, step, position, call, upstream, kind, id)
            select 1 + number / 10, 0, number % 10, 'videos.list', 'youtube', 'video', 'v' || 1 + number
            from generate_series(0, {passes} * 10 - 1) number"
        ),
        format!(
            "insert into id_since (job, call, id, began)
            select 'trending', 'videos.list', 'v' || number, now() from generate_series(1, {passes} * 10) number"
        ),
    ]
}

/// Returns the blocks that the server reads for the ids that are left, and, of the first [`ASKED`] records, for the ids that they
/// name, for when they were fetched, and for where their lists continue.
async fn blocks(server: &PostgresServer, passes: i64) -> [i64; 4] {
    let schema = block_in_place(|| server.schema());
    // Its tables.
    drop(opened(&schema).await);
    for statement in fill(passes) {
        block_in_place(|| schema.rows(&statement));
    }
    let at = ingest_config::IdPlace::from(Pointer::parse("/channel").unwrap());
    let pending = PendingQuery {
        scope: PassScope::Open,
        job: "trending".into(),
        upstream: "youtube".into(),
        listed_by: "videos.list".into(),
        listed_kind: "video".into(),
        at: at.clone(),
        kind: "channel".into(),
        fresh_since: Timestamp::from_micros(0),
    };
    let asked: Vec<Arc<str>> = (1..=ASKED).map(|n| format!("v{n}").into()).collect();
    let videos = || RecordIds::new("youtube", "video", &asked);
    let count = usize::try_from(passes * 10).unwrap();

    let pending = async || {
        let catalog = opened(&schema).await;
        catalog.pending_ids(pending.clone()).await.unwrap().len()
    };
    let named = async || {
        let catalog = opened(&schema).await;
        catalog.named_ids(videos(), &at).await.unwrap().len()
    };
    let fetched = async || {
        let catalog = opened(&schema).await;
        catalog.last_fetched(videos()).await.unwrap().len()
    };
    let names: Vec<String> = asked.iter().map(|id| id.to_string()).collect();
    let continued = async || {
        let catalog = opened(&schema).await;
        let sinces = catalog.id_sinces("trending", "videos.list", &names).await;
        sinces.unwrap().len()
    };
    [
        read(server, count, pending).await,
        read(server, ASKED, named).await,
        read(server, ASKED, fetched).await,
        read(server, ASKED, continued).await,
    ]
}

async fn opened(schema: &Schema) -> Catalog {
    Catalog::connect(database(schema)).await.unwrap()
}

/// Returns the number of blocks that the server reads to answer a question; checks the number of answers.
async fn read(server: &PostgresServer, answers: usize, question: impl AsyncFn() -> usize) -> i64 {
    block_in_place(|| server.wait_until_alone());
    block_in_place(|| server.rows("select pg_stat_statements_reset()"));
    assert_eq!(question().await, answers);
    read_by(server, "%")
}

/// Returns the number of blocks that statements like this have read.
fn read_by(server: &PostgresServer, like: &str) -> i64 {
    block_in_place(|| server.wait_until_alone());
    let read = format!(
        "select sum(shared_blks_hit + shared_blks_read)::bigint from pg_stat_statements where query like '{like}'"
    );
    block_in_place(|| server.rows(&read))[0].get(0)
}

/// Returns the blocks that the server reads to find, and to delete, a portion of the rows of a copied `listing`.
async fn blocks_of_copy(server: &PostgresServer, passes: i64) -> [i64; 2] {
    let schema = block_in_place(|| server.schema());
    drop(opened(&schema).await);
    for statement in fill(passes) {
        block_in_place(|| schema.rows(&statement));
    }
    let listing = COPIED.iter().find(|table| table.name == "listing").unwrap();
    let catalog = opened(&schema).await;
    let rows = catalog.rows_after(listing, None, 100).await.unwrap();
    drop(catalog);
    let keys = rows.iter().map(|row| row[..listing.key].to_vec());
    let keys: Vec<_> = keys.collect();

    let found = async || {
        let catalog = opened(&schema).await;
        let found = catalog.rows_with(listing, keys.clone()).await;
        found.unwrap().len()
    };
    let replaced = async || {
        let catalog = opened(&schema).await;
        catalog.replace(listing, rows.clone()).await.unwrap();
        rows.len()
    };
    let found = read(server, rows.len(), found).await;
    read(server, rows.len(), replaced).await;
    [found, read_by(server, "delete%")]
}

fn server() -> PostgresServer {
    let settings = [
        "shared_preload_libraries=pg_stat_statements",
        "autovacuum=off",
    ];
    let server = block_in_place(|| PostgresServer::local(&settings));
    block_in_place(|| server.rows("create extension pg_stat_statements"));
    server
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_statistics_reads_grow_no_faster_than_what_they_read() {
    let server = server();
    let (few, many) = (blocks(&server, FEW).await, blocks(&server, MANY).await);
    // Four times as many passes name four times as many ids; an index of one more level is read a little longer.
    let most = [few[0] * 6, few[1] * 2, few[2] * 2, few[3] * 2];
    let is_in_line = many.iter().zip(most).all(|(many, most)| *many <= most);
    assert!(is_in_line, "{few:?} blocks, then {many:?}");
    block_in_place(|| drop(server));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_statistics_a_portion_of_a_copy_depends_on_no_size() {
    let server = server();
    let few = blocks_of_copy(&server, MANY).await;
    let many = blocks_of_copy(&server, 4 * MANY).await;
    let is_in_line = many.iter().zip(few).all(|(many, few)| *many <= few * 3 / 2);
    assert!(is_in_line, "{few:?} blocks, then {many:?}");
    block_in_place(|| drop(server));
}
