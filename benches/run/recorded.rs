//! A stand-in that costs next to nothing: it answers from memory what the sandbox answered once, so that what is timed is
//! the program and not whoever answers it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Query, State};
use axum::routing::get;
use rusqlite::Connection;
use tokio::net::TcpListener;

const PAGE: usize = 50;

/// What a catalog holds that one run filled.
struct Recorded {
    /// Pages of a region, whole.
    pages: HashMap<String, Vec<String>>,
    /// Channels by id.
    channels: HashMap<String, String>,
    /// How long an answer takes.
    pause: Duration,
}

/// Serves the pages and channels of a catalog, each answer after a pause, as long as the process lives.
pub async fn serve(catalog: &Path, pause: Duration) -> SocketAddr {
    let recorded = Arc::new(Recorded::read(catalog, pause));
    let router = Router::new()
        .route("/videos", get(videos))
        .route("/channels", get(channels))
        .with_state(recorded);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    address
}

impl Recorded {
    fn read(catalog: &Path, pause: Duration) -> Self {
        let catalog = Connection::open(catalog).unwrap();
        let sql = "select region, body from pass join listing on listing.pass = pass.id
                join record on record.kind = listing.kind and record.id = listing.id
            where region <> '*' order by region, position";
        let mut lists: HashMap<String, Vec<String>> = HashMap::new();
        let mut statement = catalog.prepare(sql).unwrap();
        let listed = statement
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap();
        for (region, body) in listed.map(Result::unwrap) {
            lists.entry(region).or_default().push(body);
        }
        let mut statement = catalog
            .prepare("select id, body from record where kind = 'channel'")
            .unwrap();
        let channels = statement
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap();
        let channels = channels.map(Result::unwrap).collect();
        Self {
            pages: lists
                .into_iter()
                .map(|(region, list)| (region, pages(&list)))
                .collect(),
            channels,
            pause,
        }
    }
}

fn pages(list: &[String]) -> Vec<String> {
    let last = list.len().div_ceil(PAGE);
    let page = |(number, items): (usize, &[String])| {
        let next = if number + 1 < last {
            format!("\"nextPageToken\":\"{}\",", number + 1)
        } else {
            String::new()
        };
        format!("{{{next}\"items\":[{}]}}", items.join(","))
    };
    list.chunks(PAGE).enumerate().map(page).collect()
}

type Asked = Query<HashMap<String, String>>;

async fn videos(State(recorded): State<Arc<Recorded>>, asked: Asked) -> String {
    tokio::time::sleep(recorded.pause).await;
    let number: usize = asked
        .get("pageToken")
        .map_or(0, |token| token.parse().unwrap());
    recorded
        .pages
        .get(&asked["regionCode"])
        .and_then(|pages| pages.get(number))
        .unwrap()
        .clone()
}

async fn channels(State(recorded): State<Arc<Recorded>>, asked: Asked) -> String {
    tokio::time::sleep(recorded.pause).await;
    let found: Vec<&str> = asked["id"]
        .split(',')
        .filter_map(|id| recorded.channels.get(id))
        .map(String::as_str)
        .collect();
    format!("{{\"items\":[{}]}}", found.join(","))
}
