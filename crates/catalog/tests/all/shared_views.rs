//! What people see who query the catalog in PostgreSQL: typed columns; and which schemas are taken for catalogs.

use ingest_catalog::{Catalog, CatalogReader};
use ingest_config::ColumnType;
use serde_json::{Value, json};
use tokio::task::block_in_place;

use super::fixture::{Page, column, record, records_of};
use super::places::database;
use ingest_testing::postgres::{PostgresServer, Schema};

struct Shared {
    schema: Schema,
    catalog: Catalog,
}

async fn shared() -> Shared {
    let schema = block_in_place(|| PostgresServer::shared().schema());
    let catalog = Catalog::connect(database(&schema)).await.unwrap();
    Shared { schema, catalog }
}

impl Shared {
    async fn land(&self, page: Page) {
        page.land(&self.catalog).await.unwrap();
    }

    /// The rows of a query, each as a row of PostgreSQL's own text.
    fn rows(&self, sql: &str) -> Vec<String> {
        let sql = format!("select row_to_json(found)::text from ({sql}) found");
        let rows = block_in_place(|| self.schema.rows(&sql));
        rows.iter().map(|row| row.get(0)).collect()
    }
}

/// A page of records with these values of `v`, in a column `v` of a type.
fn page(kind: Option<ColumnType>, values: &[Value]) -> Page {
    let records = values.iter().enumerate();
    let records =
        records.map(|(n, value)| record(&format!("{n:02}"), json!({ "v": value, "nul": "\0" })));
    let mut of_kind = records_of("k", &[], &[]);
    let mut typed = column("/v");
    typed.kind = kind;
    of_kind.columns.insert("v".into(), typed);
    Page {
        kind: of_kind,
        ..Page::of(records.collect())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_have_their_types_and_odd_values_are_null() {
    let odd = json!([null, "", "odd", "nul \0", {"a": 1}, [1], "1e999", "-", ".", "99999999999999999999", "2026-13-45", true]);
    let odd = odd.as_array().unwrap();
    let cases = [
        (
            ColumnType::Integer,
            json!([12, "-7", 0]),
            json!([12, -7, 0]),
            "bigint",
        ),
        (
            ColumnType::Real,
            json!([1.5, "-2e3", "1e-400"]),
            json!([1.5, -2000, 0]),
            "double precision",
        ),
        (
            ColumnType::Boolean,
            json!([true, "FALSE", 1]),
            json!([true, false, true]),
            "boolean",
        ),
        (
            ColumnType::Timestamp,
            json!([
                "2026-03-01T12:00:00+01:00",
                "2026-03-01",
                1_700_000_000,
                1_700_000_000_000_u64,
                -14_182_940.5,
                "-1500000000000.5",
                -62_135_596_801_i64
            ]),
            json!([
                "2026-03-01T11:00:00+00:00",
                "2026-03-01T00:00:00+00:00",
                "2023-11-14T22:13:20+00:00",
                "2023-11-14T22:13:20+00:00",
                "1969-07-20T20:17:40+00:00",
                "1922-06-20T21:20:00+00:00",
                null
            ]),
            "timestamp with time zone",
        ),
        (
            ColumnType::Text,
            json!(["a", 1, "x\0y"]),
            json!(["a", "1", "x\u{FFFD}y"]),
            "text",
        ),
        (
            ColumnType::Json,
            json!([{"b": 1, "a": [2]}, "q"]),
            json!([{"b": 1, "a": [2]}, "q"]),
            "json",
        ),
    ];
    for (kind, values, expected, name) in cases {
        let f = shared().await;
        let values: Vec<Value> = values
            .as_array()
            .unwrap()
            .iter()
            .chain(odd)
            .cloned()
            .collect();
        f.land(page(Some(kind), &values)).await;
        let rows = f.rows("select v from youtube_k order by id");
        assert_eq!(
            rows.len(),
            values.len(),
            "no record makes the view of {name} fail"
        );
        for (row, expected) in rows.iter().zip(expected.as_array().unwrap()) {
            let row: Value = serde_json::from_str(row).unwrap();
            assert_eq!(&row["v"], expected, "{name}");
        }
        let found = f.rows("select distinct pg_typeof(v)::text as type from youtube_k");
        assert_eq!(found, [json!({ "type": name }).to_string()]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_later_schema_is_rejected_and_one_of_something_else_is_left_alone() {
    let f = shared().await;
    block_in_place(|| {
        f.schema
            .rows("update schema_version set version = 99 returning 1")
    });
    for error in [
        Catalog::connect(database(&f.schema)).await.err().unwrap(),
        CatalogReader::connect(database(&f.schema))
            .await
            .err()
            .unwrap(),
    ] {
        let said = error.to_string();
        assert!(
            said.contains("has version 99") && said.contains("upgrade ingest"),
            "{said}"
        );
        assert!(!error.is_retryable());
    }
    let others = [
        "update schema_version set version = 10, digest = digest + 1 returning 1",
        "alter table schema_version drop column digest",
    ];
    for other in others {
        block_in_place(|| f.schema.rows(other));
        let opened = CatalogReader::connect(database(&f.schema)).await;
        let said = opened.err().unwrap().to_string();
        assert!(
            said.contains("other tables") && said.contains("set catalog.schema"),
            "{said}"
        );
    }
    let foreign = block_in_place(|| PostgresServer::shared().schema());
    let nothing = CatalogReader::connect(database(&foreign)).await;
    assert!(
        nothing
            .unwrap()
            .jobs_and_regions()
            .await
            .unwrap()
            .is_empty()
    );
    let create = format!(
        "create schema {0}; create table {0}.theirs ()",
        foreign.name
    );
    block_in_place(|| {
        create
            .split(';')
            .for_each(|sql| drop(PostgresServer::shared().rows(sql)))
    });
    let error = Catalog::connect(database(&foreign)).await.err().unwrap();
    assert!(
        error.to_string().contains("tables of something else"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_processes_create_one_schema() {
    let schema = block_in_place(|| PostgresServer::shared().schema());
    let opened =
        futures_util::future::join_all((0..4).map(|_| Catalog::connect(database(&schema)))).await;
    assert!(opened.iter().all(Result::is_ok));
}
