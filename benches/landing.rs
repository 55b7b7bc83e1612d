//! What the catalog costs: landing, side by side with a bare rusqlite loop that writes the same rows into the same tables
//! and indexes in the same transactions.
//!
//! `cargo bench --bench landing`
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing)]

mod place;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ingest_base::record::Record;
use ingest_catalog::{Catalog, Landing, PassEnd, PassRef};
use ingest_config::Job;
use ingest_quota::Timestamp;
use ingest_sqlite as sqlite;
use rusqlite::{Connection, TransactionBehavior, params};
use serde_json::{Value, json};

use place::figures::{median, table};

/// Pages of 50, as the upstream serves them.
const PAGE: usize = 50;

fn main() {
    measure(400);
}

/// The same over little: whether it still works.
#[allow(dead_code, reason = "the tests call it")]
pub fn shortened() {
    measure(4);
}

fn measure(pages: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(run(pages));
}

async fn run(pages: usize) {
    let dir = tempfile::tempdir().unwrap();
    let catalog = Catalog::open(&dir.path().join("catalog.db")).unwrap();
    let job = place::trending(&place::shipped_with(&[]));
    let mut bare = Bare::open(&dir.path().join("bare.db"));
    let walked: Vec<Vec<Record>> = (0..pages).map(page).collect();
    println!(
        "{} bytes a record, {PAGE} records a page, {pages} pages",
        walked[0][0].body.to_string().len()
    );
    let mut table = table(&[
        "page of 50",
        "catalog, median ms",
        "bare, median ms",
        "catalog, records/s",
        "bare, records/s",
        "rate",
    ]);
    for (walk, name) in ["first seen", "seen again"].into_iter().enumerate() {
        let pages = if walk == 0 {
            walked.clone()
        } else {
            seen_again(&walked)
        };
        let times = side_by_side(&catalog, &job, &mut bare, &pages, walk).await;
        table.add_row(row(name, &times));
    }
    println!("{table}");
}

/// How long each page took, in the catalog and bare.
#[derive(Default)]
struct Times {
    landed: Vec<Duration>,
    written: Vec<Duration>,
}

/// Turn by turn, so that whatever else the machine does meets both.
async fn side_by_side(
    catalog: &Catalog,
    job: &Job,
    bare: &mut Bare,
    pages: &[Vec<Record>],
    walk: usize,
) -> Times {
    let mut times = Times::default();
    let mut pass = None;
    for (number, records) in pages.iter().enumerate() {
        let rows = rows(job, records);
        let begun = Instant::now();
        bare.write(&rows, walk, number);
        times.written.push(begun.elapsed());
        times
            .landed
            .push(land(catalog, job, &mut pass, (records, walk, number)).await);
    }
    times
}

/// Four pages make a pass, which `pass` remembers.
async fn land(
    catalog: &Catalog,
    job: &Job,
    pass: &mut Option<PassRef>,
    (records, walk, number): (&[Record], usize, usize),
) -> Duration {
    if number.is_multiple_of(4)
        && let Some(mut ended) = pass.take()
    {
        let end = catalog.finish(&mut ended, PassEnd::Complete, at(walk));
        end.await.unwrap();
    }
    let region = format!("R{}", number / 4 % 8);
    let begun = || PassRef::new("trending", &region, None, at(walk));
    let mut of_page = pass.take().unwrap_or_else(begun);
    let landing = Landing {
        next: Some(format!("cursor-{number}")),
        ..place::page(job, &of_page, records.to_vec(), at(walk))
    };
    let landing = Arc::new(landing);
    let begun = Instant::now();
    let landed = catalog.land(landing).await.unwrap();
    let took = begun.elapsed();
    of_page.confirm(&landed);
    *pass = Some(of_page);
    took
}

/// What one would write without a catalog.
struct Bare {
    connection: Connection,
    pass: i64,
}

struct Row {
    id: String,
    body: String,
    text: String,
}

impl Bare {
    fn open(path: &Path) -> Self {
        drop(sqlite::open(path, Catalog::schema()).unwrap());
        let connection = Connection::open(path).unwrap();
        connection
            .pragma_update(None, "synchronous", "normal")
            .unwrap();
        connection.set_prepared_statement_cache_capacity(64);
        // As the catalog does.
        Self {
            connection,
            pass: 0,
        }
    }

    /// The text of what is seen again is known to be the same: it is not indexed again.
    fn write(&mut self, rows: &[Row], walk: usize, number: usize) {
        let now = at(walk).to_string();
        let tx = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .unwrap();
        if number.is_multiple_of(4) {
            let sql = "insert into pass (job, region, started_at, finished_at) values ('trending', ?1, ?2, ?2)";
            self.pass = tx
                .prepare_cached(sql)
                .unwrap()
                .insert((format!("R{}", number / 4 % 8), &now))
                .unwrap();
        }
        for (position, row) in rows.iter().enumerate() {
            let sql = "insert into record (upstream, kind, id, first_seen, last_seen, text_hash, body)
                values ('youtube', 'video', ?1, ?2, ?2, 1, ?3)
                on conflict do update set last_seen = excluded.last_seen, body = excluded.body returning number";
            let mut statement = tx.prepare_cached(sql).unwrap();
            let record: i64 = statement
                .query_row((&row.id, &now, &row.body), |row| row.get(0))
                .unwrap();
            if walk == 0 {
                let sql = "insert into record_words (number, text) values (?1, ?2)";
                tx.prepare_cached(sql)
                    .unwrap()
                    .execute((record, &row.text))
                    .unwrap();
            }
            let sql = "insert into listing (pass, step, position, call, upstream, kind, id)
                values (?1, 0, ?2, 'videos.list', 'youtube', 'video', ?3)";
            let place = (number % 4 * PAGE + position) as i64;
            tx.prepare_cached(sql)
                .unwrap()
                .execute(params![self.pass, place, row.id])
                .unwrap();
        }
        let sql = "insert into checkpoint (pass, step, page, cursor, landed_at) values (?1, 0, ?2, ?3, ?4)";
        let checkpoint = params![
            self.pass,
            (number % 4) as i64,
            format!("cursor-{number}"),
            now
        ];
        tx.prepare_cached(sql).unwrap().execute(checkpoint).unwrap();
        let sql =
            "update pass set pages = pages + 1, records = records + 50, requests = requests + 1,
            units = '{\"daily\":4}' where id = ?1";
        tx.prepare_cached(sql)
            .unwrap()
            .execute([self.pass])
            .unwrap();
        tx.commit().unwrap();
    }
}

fn rows(job: &Job, records: &[Record]) -> Vec<Row> {
    let kind = job.steps[0].call.records.as_ref().unwrap();
    let text = |record: &Record| {
        kind.text
            .iter()
            .flat_map(|at| at.texts_in(&record.body))
            .collect::<Vec<_>>()
            .join("\n")
    };
    records
        .iter()
        .map(|record| Row {
            id: record.id.clone(),
            body: record.body.to_string(),
            text: text(record),
        })
        .collect()
}

fn row(name: &str, Times { landed, written }: &Times) -> [String; 6] {
    let rate = |times: &[Duration]| {
        (times.len() * PAGE) as f64 / times.iter().sum::<Duration>().as_secs_f64()
    };
    let [catalog, bare] = [landed, written].map(|times| median(times).as_secs_f64() * 1e3);
    [
        name.to_owned(),
        format!("{catalog:.2}"),
        format!("{bare:.2}"),
        format!("{:.0}", rate(landed)),
        format!("{:.0}", rate(written)),
        format!("{:.2}", bare / catalog),
    ]
}

/// Other counts under the same texts, which is what most of an hour's changes are.
fn seen_again(pages: &[Vec<Record>]) -> Vec<Vec<Record>> {
    let mut pages = pages.to_vec();
    for record in pages.iter_mut().flatten() {
        record.body["statistics"]["viewCount"] = Value::from("7654321");
    }
    pages
}

fn page(number: usize) -> Vec<Record> {
    (number * PAGE..(number + 1) * PAGE).map(video).collect()
}

fn video(number: usize) -> Record {
    let mut dice = Dice(number as u64 + 1);
    let id = format!("{:011x}", dice.roll() >> 20);
    let tags: Vec<String> = (0..8).map(|_| dice.words(2)).collect();
    let body = json!({
        "kind": "sample#video", "etag": format!("{:x}", dice.roll()), "id": id,
        "snippet": {
            "publishedAt": "2026-03-01T08:00:00Z", "channelId": format!("UC{:020x}", dice.roll() % 40_000),
            "title": dice.words(8), "description": format!("{} rare{number}", dice.words(200)),
            "thumbnails": {
                "default": {"url": format!("https://images.example/{id}/default.jpg"), "width": 120, "height": 90},
                "medium": {"url": format!("https://images.example/{id}/medium.jpg"), "width": 320, "height": 180},
                "high": {"url": format!("https://images.example/{id}/high.jpg"), "width": 480, "height": 360},
            },
            "channelTitle": dice.words(2), "tags": tags, "categoryId": "10", "liveBroadcastContent": "none",
            "localized": {"title": dice.words(8), "description": dice.words(60)}, "defaultAudioLanguage": "en",
        },
        "contentDetails": {"duration": "PT4M13S", "dimension": "2d", "definition": "hd", "caption": "false"},
        "statistics": {"viewCount": (dice.roll() % 10_000_000).to_string(), "likeCount": "4821", "commentCount": "77"},
    });
    Record { id, body }
}

/// The same records in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Words as languages have them: few of them often, many seldom.
    fn words(&mut self, count: usize) -> String {
        let word = |_| {
            let even = (self.roll() % 1_000_000) as f64 / 1_000_000.0;
            format!("w{}", 20_000_f64.powf(even) as u64)
        };
        (0..count).map(word).collect::<Vec<_>>().join(" ")
    }
}

fn at(hours: usize) -> Timestamp {
    Timestamp::from_micros(1_772_366_400_000_000) + Duration::from_secs(3_600 * hours as u64)
}
