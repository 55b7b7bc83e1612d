//! Where requests go.

use std::time::Duration;

use url::Url;

use ingest_config as config;

/// The endpoint of requests, and their bounds.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// Its host and port; the path is not used.
    pub url: Url,
    /// The longest time for one request, connecting included.
    pub timeout: Duration,
    /// The longest response that is read, in bytes after decompression.
    pub max_body: u64,
}

impl From<&config::Upstream> for Endpoint {
    fn from(upstream: &config::Upstream) -> Self {
        Self {
            url: upstream.base_url.clone(),
            timeout: upstream.timeout,
            max_body: upstream.max_body,
        }
    }
}

/// The host and port of a URL, which messages may contain.
pub fn host_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or("nowhere");
    url.port()
        .map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}
