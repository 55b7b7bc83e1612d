mod control;
mod generic;
mod quota;
mod saved;
mod shipped_file;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use ingest_base::clock::Clock;
use ingest_config::Config;
use ingest_quota::Timestamp;
use ingest_sandbox::{Options, Sandbox};
use reqwest::{Client, Response};
use serde_json::Value;

use crate::support::world::sandbox_client;

/// 2026-11-20T12:00:00Z, four in the morning in Los Angeles.
const NOON: i64 = 1_795_176_000_000_000;

/// A clock that is moved by hand.
struct Hand(AtomicI64);

#[async_trait::async_trait]
impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst))
    }

    async fn sleep(&self, span: Duration) {
        self.advance(span);
    }
}

impl Hand {
    fn set(&self, at: &str) {
        self.0
            .store(Timestamp::parse(at).unwrap().micros(), Ordering::SeqCst);
    }

    fn advance(&self, span: Duration) {
        self.0
            .fetch_add(i64::try_from(span.as_micros()).unwrap(), Ordering::SeqCst);
    }
}

/// A sandbox with whoever asks it.
struct Table {
    sandbox: Sandbox,
    clock: Arc<Hand>,
    client: Client,
}

impl Table {
    async fn laid(config: &Config, options: Options) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let clock = Arc::new(Hand(AtomicI64::new(NOON)));
        let sandbox = Sandbox::start(config, options, Arc::clone(&clock) as Arc<dyn Clock>)
            .await
            .unwrap();
        let client = sandbox_client()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .unwrap();
        Self {
            sandbox,
            clock,
            client,
        }
    }

    async fn youtube() -> Self {
        Self::laid(&shipped(&[]), Options::default()).await
    }

    fn url(&self, upstream: &str, path: &str) -> String {
        format!("{}/{path}", self.sandbox.base_url(upstream))
    }

    /// Asks YouTube, with the right key.
    async fn ask(&self, path: &str) -> Response {
        let request = self.client.get(self.url("youtube", path));
        request
            .header("x-goog-api-key", Sandbox::secret_of("youtube"))
            .send()
            .await
            .unwrap()
    }

    async fn json(&self, path: &str) -> Value {
        let response = self.ask(path).await;
        assert_eq!(response.status(), 200, "{path}");
        response.json().await.unwrap()
    }

    async fn told(&self, path: &str, body: Value) {
        let url = format!("http://{}/_sandbox/{path}", self.sandbox.address());
        let answer = self.client.post(url).json(&body).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{}", answer.text().await.unwrap());
    }

    async fn report(&self, path: &str) -> Value {
        let url = format!("http://{}/_sandbox/{path}", self.sandbox.address());
        self.client
            .get(url)
            .send()
            .await
            .unwrap()
            .json()
            .await
            .unwrap()
    }

    fn used(&self, limit: &str) -> u64 {
        self.sandbox
            .usage()
            .iter()
            .find(|counted| counted.limit == limit)
            .unwrap()
            .used
            .get()
    }
}

fn shipped(sets: &[&str]) -> Config {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("quotas.toml");
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    Config::parse(&std::fs::read_to_string(&path).unwrap(), &path, &sets).unwrap()
}

/// A configuration that somebody wrote.
fn invented(text: &str) -> Config {
    Config::parse(text, Path::new("invented.toml"), &[]).unwrap_or_else(|error| panic!("{error}"))
}

fn texts(page: &Value, at: &str) -> Vec<String> {
    let items = page["items"].as_array().unwrap();
    items
        .iter()
        .map(|item| item.pointer(at).unwrap().as_str().unwrap().to_owned())
        .collect()
}

fn ids(page: &Value) -> Vec<String> {
    texts(page, "/id")
}

const CHART: &str =
    "videos?part=snippet,contentDetails,statistics&chart=mostPopular&maxResults=50&regionCode=";
