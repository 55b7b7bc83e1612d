//! The last statements of a transaction, which are sent together with its commit.

use std::borrow::Cow;

use ingest_catalog::{Parameter, Postgres, PostgresError};
use ingest_config::PostgresUrl;
use tokio::runtime::Runtime;
use tokio_postgres::types::Type;

use ingest_testing::postgres::{PostgresServer, Schema, connections};

const INSERT: &str = "insert into landed values ($1)";

fn place() -> (Schema, Postgres, Runtime) {
    let schema = PostgresServer::shared().schema();
    PostgresServer::shared().rows(&format!("create schema {}", schema.name));
    schema.rows("create table landed (n bigint primary key)");
    let url = PostgresUrl::parse(&schema.url).unwrap();
    let postgres = Postgres::new(&url, None, &schema.name, connections());
    (schema, postgres, Runtime::new().unwrap())
}

fn landed(schema: &Schema) -> i64 {
    schema.count("select count(*) from landed")
}

#[test]
fn statements_that_are_sent_with_the_commit_take_place_together() {
    let (schema, postgres, runtime) = place();
    let done = runtime.block_on(async {
        let mut session = postgres.session().await?;
        let tx = session.begin().await?;
        tx.commit_after(async {
            tokio::try_join!(
                biased;
                tx.execute(INSERT, &[(&1_i64, Type::INT8)]),
                tx.execute(INSERT, &[(&2_i64, Type::INT8)]),
            )
        })
        .await
    });
    assert!(done.is_ok(), "{done:?}");
    assert_eq!(landed(&schema), 2);
}

#[test]
fn of_statements_that_are_sent_with_the_commit_one_that_fails_takes_all_back() {
    let (schema, postgres, runtime) = place();
    let done = runtime.block_on(async {
        let mut session = postgres.session().await?;
        let tx = session.begin().await?;
        tx.execute(INSERT, &[(&1_i64, Type::INT8)]).await?;
        let failed = tx
            .commit_after(async {
                tokio::try_join!(
                    biased;
                    tx.execute(INSERT, &[(&2_i64, Type::INT8)]),
                    tx.execute(INSERT, &[(&1_i64, Type::INT8)]),
                    tx.execute(INSERT, &[(&3_i64, Type::INT8)]),
                )
            })
            .await;
        drop(tx);
        // The connection is as good as before.
        let tx = session.begin().await?;
        tx.execute(INSERT, &[(&4_i64, Type::INT8)]).await?;
        tx.commit().await?;
        failed
    });
    let failed = done.unwrap_err();
    assert!(failed.to_string().contains("23505"), "{failed:?}");
    assert_eq!(schema.count("select n from landed"), 4);
    assert_eq!(landed(&schema), 1);
}

#[test]
fn a_statement_that_would_follow_the_commit_is_not_sent() {
    let (schema, postgres, runtime) = place();
    let done = runtime.block_on(async {
        let mut session = postgres.session().await?;
        let tx = session.begin().await?;
        tx.commit_after(async {
            tx.execute(INSERT, &[(&1_i64, Type::INT8)]).await?;
            // The answer may be there at once: then this is what waits.
            tokio::task::yield_now().await;
            tx.execute(INSERT, &[(&2_i64, Type::INT8)]).await
        })
        .await
    });
    // What was sent took place, and the caller does not take that for all of it.
    assert!(matches!(done, Err(PostgresError::Ended)), "{done:?}");
    assert_eq!(schema.count("select n from landed"), 1);
    assert_eq!(landed(&schema), 1);
}

#[test]
fn a_statement_that_cannot_be_sent_takes_those_before_it_back() {
    let (schema, postgres, runtime) = place();
    let done = runtime.block_on(async {
        let mut session = postgres.session().await?;
        let tx = session.begin().await?;
        let text: Cow<'_, str> = "a text is no number".into();
        let unfit: [Parameter<'_>; 1] = [(&text, Type::INT8)];
        tx.commit_after(async {
            tokio::try_join!(
                biased;
                tx.execute(INSERT, &[(&1_i64, Type::INT8)]),
                tx.execute(INSERT, &unfit),
            )
        })
        .await
    });
    assert!(done.is_err(), "{done:?}");
    assert_eq!(landed(&schema), 0);
}
