//! What landing in PostgreSQL costs, side by side with a bare tokio-postgres loop that writes the same rows into the same tables
//! and indexes by the same upserts: `cargo bench --bench shared_landing`.
//!
//! The server is a private one on this machine, which waits for its disk at each commit (`fsync = on`). The bare loop knows its
//! words and its positions beforehand, and reads nothing. It looks records up by the same joins, and leaves it to the server when
//! the words of new records are merged into the index.
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing)]

#[path = "landing.rs"]
#[allow(dead_code, reason = "it is a benchmark of its own")]
mod landing;
#[path = "../tests/all/support/world.rs"]
#[allow(
    dead_code,
    clippy::panic,
    clippy::expect_used,
    reason = "it is the tests', which use the rest"
)]
mod world;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use ingest_catalog::{Postgres, PostgresCatalog};
use ingest_config::PostgresUrl;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, NoTls};

use self::landing::{PAGE, Row, Times, at, land, landing_table, page, rows, seen_again};
use ingest_testing::postgres::{PostgresServer, Schema};

const BEGIN: &str =
    "insert into pass (job, region, started_at) values ('trending', $1, $2) returning id";
const STORE: &str = "insert into record (upstream, kind, id, first_seen, last_seen, changed_at, text_hash, body)
    select 'youtube', 'video', page.id, $1, $1, $1, 1, page.body from unnest($2, $3) page (id, body)
    on conflict (upstream, kind, id) do update set last_seen = excluded.last_seen, body = excluded.body";
const INDEX: &str = "insert into record_text (number, length, words)
    select record.number, 1, page.words::tsvector from unnest($1, $2) page (id, words)
    cross join lateral (select number from record where upstream = 'youtube' and kind = 'video' and id = page.id offset 0) record";
const LIST: &str = "insert into listing (pass, step, position, call, upstream, kind, id)
    select $1, 0, $2 + page.place, 'videos.list', 'youtube', 'video', page.id
    from unnest($3) with ordinality page (id, place)";
const CHECKPOINT: &str =
    "insert into checkpoint (pass, step, page, cursor, landed_at) values ($1, 0, $2, $3, $4)";
const COUNT: &str =
    "update pass set pages = pages + 1, records = records + 50, requests = requests + 1,
    units = '{\"daily\":4}' where id = $1";

fn main() {
    measure(400, &["fsync=on", "autovacuum=on", "shared_buffers=256MB"]);
}

/// The same over little: whether it still works.
#[allow(dead_code, reason = "the tests call it")]
pub fn shortened() {
    measure(4, &[]);
}

fn measure(pages: usize, settings: &[&str]) {
    let server = PostgresServer::with(settings);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(run(&server, pages));
}

async fn run(server: &PostgresServer, pages: usize) {
    let catalog = open(&server.schema()).await;
    let mut bare = Bare::open(&server.schema()).await;
    let walked: Vec<_> = (0..pages).map(page).collect();
    println!(
        "{} bytes a record, {PAGE} records a page, {pages} pages",
        walked[0][0].body.to_string().len()
    );
    let mut figures = Vec::new();
    for (walk, (name, pages)) in [
        ("first seen", walked.clone()),
        ("seen again", seen_again(&walked)),
    ]
    .into_iter()
    .enumerate()
    {
        let (mut times, mut pass) = (Times::default(), None);
        // Turn by turn, so that whatever else the machine does meets both.
        for (number, records) in pages.iter().enumerate() {
            times
                .written
                .push(bare.write(&rows(records), walk, number).await);
            times
                .landed
                .push(land(&catalog, &mut pass, records, walk, number).await);
        }
        figures.push((name, times));
    }
    println!("{}", landing_table(&figures));
}

async fn open(schema: &Schema) -> PostgresCatalog {
    let url = PostgresUrl::parse(&schema.url).unwrap();
    PostgresCatalog::open(Postgres::new(&url, None, &schema.name, 4))
        .await
        .unwrap()
}

/// What one would write without a catalog.
struct Bare {
    client: Client,
    pass: i64,
}

impl Bare {
    async fn open(schema: &Schema) -> Self {
        drop(open(schema).await);
        let (client, connection) = tokio_postgres::connect(&schema.url, NoTls).await.unwrap();
        tokio::spawn(connection);
        let path = format!("set search_path to {}", schema.name);
        client.batch_execute(&path).await.unwrap();
        Self { client, pass: 0 }
    }

    /// The text of what is seen again is known to be the same: it is not indexed again.
    async fn write(&mut self, page: &[Row], walk: usize, number: usize) -> Duration {
        let mut rows: Vec<&Row> = page.iter().collect();
        rows.sort_by_key(|row| &row.id);
        let ids: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
        let bodies: Vec<&str> = rows.iter().map(|row| row.body.as_str()).collect();
        let words: Vec<String> = rows.iter().map(|row| words(&row.text)).collect();
        let now = at(walk).to_utc();
        let begun = Instant::now();
        self.client.batch_execute("begin").await.unwrap();
        if number.is_multiple_of(4) {
            let region = format!("R{}", number / 4 % 8);
            let begin = [
                parameter(&region, Type::TEXT),
                parameter(&now, Type::TIMESTAMPTZ),
            ];
            let rows = self.client.query_typed(BEGIN, &begin).await.unwrap();
            self.pass = rows[0].get(0);
        }
        let (pass, page) = (self.pass, number as i64 % 4);
        let (before, cursor) = (page * PAGE as i64, format!("cursor-{number}"));
        let texts = Type::TEXT_ARRAY;
        let pass = || parameter(&pass, Type::INT8);
        let store = [
            parameter(&now, Type::TIMESTAMPTZ),
            parameter(&ids, texts.clone()),
            parameter(&bodies, texts.clone()),
        ];
        let index = [
            parameter(&ids, texts.clone()),
            parameter(&words, texts.clone()),
        ];
        let list = [
            pass(),
            parameter(&before, Type::INT8),
            parameter(&ids, texts),
        ];
        let checkpoint = [
            pass(),
            parameter(&page, Type::INT8),
            parameter(&cursor, Type::TEXT),
            parameter(&now, Type::TIMESTAMPTZ),
        ];
        let count = [pass()];
        let indexed = async {
            if walk == 0 {
                self.client.execute_typed(INDEX, &index).await?;
            }
            Ok(0)
        };
        tokio::try_join!(
            biased;
            self.client.execute_typed(STORE, &store),
            indexed,
            self.client.execute_typed(LIST, &list),
            self.client.execute_typed(CHECKPOINT, &checkpoint),
            self.client.execute_typed(COUNT, &count),
        )
        .unwrap();
        self.client.batch_execute("commit").await.unwrap();
        begun.elapsed()
    }
}

fn parameter<T: ToSql + Sync>(value: &T, kind: Type) -> (&(dyn ToSql + Sync), Type) {
    (value, kind)
}

fn words(text: &str) -> String {
    let words: BTreeSet<String> = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    quoted.join(" ")
}
