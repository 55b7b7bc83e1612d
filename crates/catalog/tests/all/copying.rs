//! A copy of a catalog leaves no column behind, and no column is there in vain.

use std::collections::BTreeSet;
use std::sync::Arc;

use ingest_base::record::{Doubted, Tag};
use ingest_catalog::{
    AtKnown, COPIED, CallFacts, Catalog, Estimate, IdSince, Landing, LastingCursor, OpenBatch,
    PassEnd, PassRef, copy,
};
use ingest_config::{Records, Slice};
use ingest_testing::postgres::PostgresServer;
use rusqlite::Connection;
use tempfile::TempDir;
use tokio::task::block_in_place;

use super::fixture::{Page, at, daily, held, new_pass, pending_query, video_of, videos};
use super::places::database;

/// What a copy makes anew or does not need, as `table` or `table.column`.
const NOT_COPIED: &[&str] = &[
    "account_ledger",
    "checkpoint.landing",
    "lease",
    "pass.landed",
    "pass.token",
    "record.text_hash",
    "record_text",
    "record_words",
    "schema_version",
    "wanted",
];

/// Asserts that a catalog has the columns that are copied, and those that are not.
fn all_are_named(found: BTreeSet<(String, String)>) {
    let copied: BTreeSet<(String, String)> = COPIED
        .iter()
        .flat_map(|table| {
            table
                .columns
                .iter()
                .map(|(column, _)| (table.name, *column))
        })
        .map(|(table, column)| (table.to_owned(), column.to_owned()))
        .collect();
    let is_left_out = |table: &str, column: &str| {
        let whole = format!("{table}.{column}");
        NOT_COPIED.iter().any(|one| *one == table || *one == whole)
    };
    let forgotten = found.difference(&copied);
    let forgotten: Vec<_> = forgotten
        .filter(|(table, column)| !is_left_out(table, column))
        .collect();
    assert!(
        forgotten.is_empty(),
        "not copied by tables.rs nor left out: {forgotten:?}"
    );
    let missing: Vec<_> = copied.difference(&found).collect();
    assert!(
        missing.is_empty(),
        "in tables.rs, and not there: {missing:?}"
    );
}

#[tokio::test]
async fn a_copy_names_every_column_of_a_file() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("catalog.db");
    drop(Catalog::open(&path).unwrap());
    let file = Connection::open(&path).unwrap();
    let sql = "select tables.name, columns.name from sqlite_master tables, pragma_table_info(tables.name) columns
        where tables.type = 'table' and tables.name not like 'record\\_text\\_%' escape '\\'";
    let mut statement = file.prepare(sql).unwrap();
    let found = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    all_are_named(found.unwrap().collect::<Result<_, _>>().unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_names_every_column_of_a_schema_of_postgres() {
    let schema = block_in_place(|| PostgresServer::shared().schema());
    Catalog::connect(database(&schema)).await.unwrap();
    let sql = format!(
        "select table_name::text, column_name::text from information_schema.columns
        join information_schema.tables using (table_schema, table_name)
        where table_schema = '{}' and table_type = 'BASE TABLE'",
        schema.name
    );
    let found = block_in_place(|| schema.rows(&sql));
    all_are_named(found.iter().map(|row| (row.get(0), row.get(1))).collect());
}

/// Stores something in every column.
async fn fill(store: &Catalog) {
    let page = Page::of(vec![video_of("v1", "c1"), video_of("v2", "c2")]);
    // The second one stops at what the first one knew.
    for minute in [0, 1] {
        let feed = Landing {
            pass: new_pass("GB", at(minute)),
            at_known: AtKnown::Stop,
            next: Some("2".into()),
            ..page.landing()
        };
        let pass = store.land(Arc::new(feed)).await.unwrap().pass;
        let ended = held(pass);
        store
            .finish(&mut ended.clone(), PassEnd::Complete, at(minute))
            .await
            .unwrap();
    }
    let list = Landing {
        pass: PassRef {
            slice: Some(Slice {
                from: at(0),
                to: at(1),
            }),
            ..new_pass("US", at(2))
        },
        kind: Arc::new(Records {
            history: true,
            ..videos()
        }),
        step: 1,
        next: Some("2".into()),
        lasting: Some("delta".into()),
        cut: true,
        greatest: Some("[7]".into()),
        empty_pages: 1,
        doubts: vec![Doubted {
            doubt: "doubt".into(),
            call: "videos.list".into(),
            text: "text".into(),
        }],
        relists: true,
        requests: 1,
        units: daily(3),
        tag: Some(Tag {
            request: "request".into(),
            name: "tag".into(),
            next: Some("2".into()),
        }),
        records: [("v1", "c1"), ("v2", "c2"), ("v3", "c3")]
            .map(|(id, channel)| video_of(id, channel))
            .into(),
        ..page.landing()
    };
    let pass = store.land(Arc::new(list.clone())).await.unwrap().pass;
    let changed = Landing {
        pass: held(pass),
        records: vec![video_of("v1", "c3")],
        removed: vec!["v3".into()],
        next: None,
        ..Landing {
            kind: list.kind.clone(),
            step: 1,
            cut: true,
            now: at(3),
            ..page.landing()
        }
    };
    store.land(Arc::new(changed)).await.unwrap();
    let ids = vec!["c3".to_owned(), "absent".to_owned()];
    let batch = Landing {
        batch: Some(OpenBatch {
            cursors: vec!["2".into()],
            empty_pages: 1,
            greatest: Some("[7]".into()),
            ..OpenBatch::new(1, ids, at(2))
        }),
        since: Some(IdSince {
            id: "c3".into(),
            began: at(2),
            greatest: Some("[7]".into()),
            lasting: Some(LastingCursor {
                request: "request".into(),
                cursor: "delta".into(),
            }),
        }),
        ..Page::channels(&["c3", "absent"], &["c3"]).landing()
    };
    let shared = store.land(Arc::new(batch)).await.unwrap().pass;
    let naming = pending_query("/snippet/channelId", at(0));
    store
        .link_parents(&mut held(shared), 1, naming)
        .await
        .unwrap();
    store.restart_step(&mut held(pass), 2, at(0)).await.unwrap();
    let ended = held(pass);
    store
        .finish(&mut ended.clone(), PassEnd::Doubtful, at(4))
        .await
        .unwrap();
    store
        .store_outcome(&ended, true, Some("notes"), at(4))
        .await
        .unwrap();
    store
        .store_refusal(&mut held(pass), "request")
        .await
        .unwrap();
    let (upstream, call) = ("youtube".to_owned(), "videos.list".to_owned());
    let estimate = Estimate {
        upstream: upstream.clone(),
        call: call.clone(),
        cost: daily(1),
    };
    store.learn(estimate).await.unwrap();
    let facts = CallFacts {
        upstream,
        call,
        facts: "{}".into(),
    };
    store.store_call_facts(facts).await.unwrap();
}

/// Asserts that no column is null, false or zero in all rows: what writes its table would have forgotten it.
async fn every_column_is_written(catalog: &Catalog) {
    fill(catalog).await;
    let mut forgotten = Vec::new();
    for table in COPIED.iter() {
        let rows = catalog.rows_after(table, None, 100).await.unwrap();
        for (place, (column, _)) in table.columns.iter().enumerate() {
            let is_empty =
                |value: String| ["Null", "Integer(0)", "Truth(false)"].contains(&&*value);
            if rows.iter().all(|row| is_empty(format!("{:?}", row[place]))) {
                forgotten.push(format!("{}.{column}", table.name));
            }
        }
    }
    assert_eq!(forgotten, [""; 0]);
}

#[tokio::test]
async fn every_column_of_a_file_is_written() {
    let dir = TempDir::new().unwrap();
    let catalog = Catalog::open(&dir.path().join("catalog.db")).unwrap();
    every_column_is_written(&catalog).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_column_of_a_schema_of_postgres_is_written() {
    let schema = block_in_place(|| PostgresServer::shared().schema());
    let catalog = Catalog::connect(database(&schema)).await.unwrap();
    every_column_is_written(&catalog).await;
}

#[tokio::test]
async fn a_catalog_to_which_a_run_wrote_is_no_copy_of_another_one() {
    let dir = TempDir::new().unwrap();
    let opened = |name: &str| Catalog::open(&dir.path().join(name)).unwrap();
    let (from, to) = (opened("from.db"), opened("to.db"));
    let page =
        |region, minutes, body| Page::of(vec![video_of("a", body)]).over(region, at(minutes));
    page("US", 0, "old").land(&from).await.unwrap();
    copy(&from, &to, &|_| {}).await.unwrap();
    copy(&from, &to, &|_| {}).await.unwrap();
    page("GB", 1, "newer").land(&to).await.unwrap();
    page("GB", 2, "older").land(&from).await.unwrap();
    let error = copy(&from, &to, &|_| {}).await.unwrap_err();
    assert!(
        error.to_string().contains("a run wrote to the copy"),
        "{error}"
    );
}
