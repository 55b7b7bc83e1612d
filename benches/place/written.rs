//! A catalog of many records, written at once: landing ten million of them page by page would take hours.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::time::Duration;

use ingest_base::list_so_far::ListSoFar;
use ingest_base::record::Record;
use ingest_catalog::{Landing, PassEnd, PassRef, PassStore, SqliteCatalog};
use ingest_config::Config;
use ingest_quota::{Cost, Timestamp};
use rusqlite::{Connection, params};
use serde_json::json;

use super::{Size, code};

const A_PASS: usize = 1000;
/// Channels: a kind that few records have.
const CHANNELS: usize = 10;

/// Fills the catalog. Each region's passes follow each other; the last region has one pass.
pub async fn fill(directory: &Path, config: &Config, size: Size) {
    let path = directory.join("catalog.db");
    land_channels(&path, config).await;
    write(&path, size);
    let catalog = SqliteCatalog::open(&path).unwrap();
    catalog.rebuild_text().await.unwrap();
}

/// Lands a few records by the program, which so knows where videos and channels have their texts.
async fn land_channels(path: &Path, config: &Config) {
    let catalog = SqliteCatalog::open(path).unwrap();
    let at = Timestamp::from(chrono::Utc::now()) - Duration::from_secs(400 * 24 * 3600);
    for (call, records) in [("channels.list", CHANNELS), ("videos.list", 1)] {
        let calls = &config.upstreams["youtube"].calls;
        let kind = calls[call].records.as_ref().unwrap();
        let record = |number: usize| Record {
            id: format!("first{number}"),
            body: json!({ "id": format!("first{number}"), "snippet": { "title": format!("common channel {number}") } }),
        };
        let landing = Landing {
            id: uuid::Uuid::now_v7(),
            pass: PassRef::New {
                job: "trending".into(),
                region: "AA".into(),
                slice: None,
                started_at: at,
            },
            step: 0,
            upstream: "youtube".into(),
            call: call.into(),
            kind: kind.clone(),
            records: (0..records).map(record).collect(),
            request: "request".into(),
            next: None,
            list: ListSoFar::default(),
            cut: false,
            removed: Vec::new(),
            lasting: None,
            greatest: None,
            empty_pages: 0,
            requested: Vec::new(),
            withheld_until: None,
            batch: None,
            since: None,
            doubts: Vec::new(),
            if_repeats: None,
            relists: false,
            requests: 1,
            units: Cost::none(),
            tag: None,
            now: at,
            term: None,
        };
        let landed = catalog.land(landing.into()).await.unwrap();
        let pass = PassRef::Open(landed.pass);
        catalog.finish(&pass, PassEnd::Complete, at).await.unwrap();
    }
}

fn write(path: &Path, size: Size) {
    let mut connection = Connection::open(path).unwrap();
    let faster =
        "pragma journal_mode = off; pragma synchronous = off; pragma cache_size = -500000;";
    connection.execute_batch(faster).unwrap();
    let tx = connection.transaction().unwrap();
    let mut record = tx
        .prepare(
            "insert into record (upstream, kind, id, first_seen, last_seen, changed_at, text_hash, body)
            values ('youtube', 'video', ?1, ?2, ?2, ?2, ?3, ?4)",
        )
        .unwrap();
    let mut pass = tx
        .prepare(
            "insert into pass (job, region, started_at, finished_at, outcome, pages, records, requests, units)
            values ('trending', ?1, ?2, ?2, 'complete', 20, ?3, 20, '{\"daily\":20}') returning id",
        )
        .unwrap();
    let mut listed = tx
        .prepare(
            "insert into listing (pass, step, position, call, upstream, kind, id)
            values (?1, 0, ?2, 'videos.list', 'youtube', 'video', ?3)",
        )
        .unwrap();
    let passes = size.records.div_ceil(A_PASS);
    let now = chrono::Utc::now();
    for number in 0..passes {
        let minutes = 90 + 5 * (passes - 1 - number);
        let at = now - Duration::from_secs(60 * minutes as u64);
        let at = at.format("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
        let region = match number == passes / 2 {
            true => code(size.regions - 1),
            false => code(number % (size.regions - 1)),
        };
        let records = number * A_PASS..size.records.min((number + 1) * A_PASS);
        let id: i64 = pass
            .query_row(params![region, at, records.len() as i64], |row| row.get(0))
            .unwrap();
        for (position, number) in (1..).zip(records) {
            let (name, title) = (format!("v{number:09}"), title(number));
            let mut hasher = DefaultHasher::new();
            title.hash(&mut hasher);
            let hash = hasher.finish().cast_signed();
            let body = json!({ "id": name, "snippet": { "title": title, "channelId": format!("c{}", number % 20_000) } });
            record
                .execute(params![name, at, hash, body.to_string()])
                .unwrap();
            listed.execute(params![id, position, name]).unwrap();
        }
    }
    drop((record, pass, listed));
    tx.commit().unwrap();
    connection
        .execute_batch("pragma journal_mode = wal;")
        .unwrap();
}

/// Words that all records have, that half of them have and the other half has not, that one in a thousand and that one alone
/// has; and 天 and 気, which all have and one in a thousand has side by side.
fn title(number: usize) -> String {
    let half = ["even", "odd"][number % 2];
    let weather = if number % 1000 == 500 {
        "天気"
    } else {
        "天 気"
    };
    let (some, more) = (number % 1000, number / 7 % 5000);
    format!("common word{some} rare{number} {half} tag{more} about a {weather} thing")
}
