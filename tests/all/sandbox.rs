mod control;
mod generic;
mod quota;
mod saved;
mod shipped_file;

use std::path::Path;
use std::sync::Arc;

use ingest_config::Config;
use ingest_sandbox::{Options, Sandbox};
use reqwest::{Client, Response};
use serde_json::Value;

use crate::support::lab::{HandClock, NOON};
use crate::support::world::sandbox_client;

/// A sandbox with whoever asks it.
struct Table {
    sandbox: Sandbox,
    clock: HandClock,
    client: Client,
}

impl Table {
    async fn laid(config: &Config, options: Options) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let clock = HandClock::at(NOON);
        let sandbox = Sandbox::start(config, options, Arc::new(clock.clone()))
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
