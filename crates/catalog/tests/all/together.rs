//! Several machines that write one catalog in PostgreSQL at the same time.

use std::sync::Arc;

use ingest_base::record::Record;
use ingest_catalog::{Catalog, CatalogReader, PassId, RecordsQuery};
use ingest_config::Records;
use ingest_testing::postgres::PostgresServer;
use serde_json::json;
use tokio::task::block_in_place;

use super::fixture::{Page, at, held, record, records_of};
use super::places::database;

/// Records whose bodies differ by `version`.
fn things(ids: impl Iterator<Item = usize>, version: usize) -> Vec<Record> {
    ids.map(|id| record(&format!("thing-{id:04}"), json!({ "version": version })))
        .collect()
}

async fn pass(catalog: &Catalog, region: &str, records: Vec<Record>, minutes: u64) -> PassId {
    let page = Page::of(records).over(region, at(minutes)).now(at(minutes));
    page.land(catalog).await.unwrap().pass
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_that_two_regions_lose_at_once_are_gone() {
    const COUNT: usize = 3_000;
    let schema = block_in_place(|| PostgresServer::shared().schema());
    let opened = async || Catalog::connect(database(&schema)).await.unwrap();
    let (one, other) = (opened().await, opened().await);
    for (catalog, region) in [(&one, "US"), (&other, "GB")] {
        let pass = pass(catalog, region, things(0..COUNT, 0), 0).await;
        catalog
            .complete(&mut held(pass), &[0], at(1))
            .await
            .unwrap();
    }
    let empty = pass(&one, "US", Vec::new(), 10).await;
    let also_empty = pass(&other, "GB", Vec::new(), 10).await;
    let (mut empty, mut also_empty) = (held(empty), held(also_empty));
    let (gone, also_gone) = tokio::join!(
        one.complete(&mut empty, &[0], at(11)),
        other.complete(&mut also_empty, &[0], at(11)),
    );
    assert_eq!(gone.unwrap() + also_gone.unwrap(), COUNT as u64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machines_that_keep_former_bodies_of_the_same_records_wait_for_each_other_in_one_order() {
    let server = block_in_place(|| PostgresServer::local(&[]));
    let schema = block_in_place(|| server.schema());
    let walk = async |region: &str, step: usize| {
        let catalog = Catalog::connect(database(&schema)).await.unwrap();
        for version in 0..15 {
            // Other orders, and some records unchanged.
            let ids = (0..200).map(|place| place * step % 401);
            let records = things(ids, version / 2 + step % 2);
            let page = Page {
                kind: Records {
                    history: true,
                    ..records_of("thing", &[], &[])
                },
                ..Page::of(records)
                    .over(region, at(0))
                    .now(at(version as u64))
            };
            catalog.land(Arc::new(page.landing())).await.unwrap();
        }
    };
    tokio::join!(walk("US", 7), walk("GB", 12), walk("DE", 133));
    let deadlocks = "select sum(deadlocks)::bigint from pg_stat_database";
    block_in_place(|| server.wait_until_alone());
    let found: i64 = block_in_place(|| server.rows(deadlocks))[0].get(0);
    assert_eq!(found, 0);
    block_in_place(|| drop(server));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_reads_records_on_from_the_last_one_misses_none_that_a_slower_machine_had_numbered() {
    let schema = block_in_place(|| PostgresServer::shared().schema());
    let opened = async || Catalog::connect(database(&schema)).await.unwrap();
    let (slow, fast) = (opened().await, opened().await);
    let reader = CatalogReader::connect(database(&schema)).await.unwrap();
    pass(&slow, "US", things(0..1, 0), 0).await;
    let postgres = database(&schema);
    let mut session = postgres.session().await.unwrap();
    let held = session.begin().await.unwrap();
    let lock = "select number from record where id = 'thing-0000' for update";
    held.query(lock, &[]).await.unwrap();
    let slow = tokio::spawn(async move { pass(&slow, "GB", things(0..5, 1), 1).await });
    let waiting = "select count(*) from pg_locks where not granted
        and pid in (select pid from pg_locks where relation = 'record'::regclass)";
    while block_in_place(|| schema.count(waiting)) == 0 {
        tokio::task::yield_now().await;
    }
    pass(&fast, "DE", things(10..15, 0), 1).await;
    let (mut found, mut after) = (Vec::new(), None);
    let query = RecordsQuery {
        kind: "video".to_owned(),
        region: None,
        since: None,
        changed_since: None,
    };
    let page = reader.records_page(query.clone(), after, 100).await;
    found.extend(page.unwrap().records);
    after = found.last().map(|record| record.position);
    drop(held);
    drop(session);
    slow.await.unwrap();
    let page = reader.records_page(query, after, 100).await;
    found.extend(page.unwrap().records);
    let ids: std::collections::BTreeSet<_> = found.iter().map(|record| &record.id).collect();
    assert_eq!(ids.len(), 10, "{ids:?}");
}
