//! `[notify]`: URLs that are pinged when a run starts and ends, for healthchecks.io and similar services. A run never fails
//! because of a ping.

use std::time::Duration;

use reqwest::redirect::Policy;
use url::Url;

use super::Error;
use crate::run::{RunOutcome, RunReport};
use ingest_config::Notify;

const PATIENCE: Duration = Duration::from_secs(5);
/// The most characters of a message; services keep little.
const LONGEST: usize = 2_000;

/// An event of a run.
pub enum Event<'a> {
    /// The run starts.
    Start,
    /// The run ended: its result, and the message with the causes.
    End(&'a RunReport, String),
    /// The run ended with an error before it had a result.
    Broken(&'a Error),
}

/// Pings the URL of an event. A failed ping is logged.
pub async fn notify(config: &Notify, event: Event<'_>) {
    let Some(url) = url(config, &event) else {
        return;
    };
    let sent = ping(url, body(event)).await;
    if let Err(why) = sent {
        // Anyone who knows the URL can ping it, so the log does not show it.
        tracing::warn!(
            host = url.host_str().unwrap_or_default(),
            "cannot ping the [notify] URL: {why}"
        );
    }
}

fn url<'a>(config: &'a Notify, event: &Event<'_>) -> Option<&'a Url> {
    match event {
        Event::Start => config.start.as_ref(),
        Event::Broken(_) => config.failure.as_ref(),
        Event::End(report, _) => match report.outcome {
            RunOutcome::NothingDue | RunOutcome::Complete => config.success.as_ref(),
            RunOutcome::Stopped => config.stopped.as_ref().or(config.success.as_ref()),
            // A service that was pinged at the start waits for the end; a time limit can have interrupted the run.
            RunOutcome::Failed | RunOutcome::Interrupted => config.failure.as_ref(),
        },
    }
}

fn body(event: Event<'_>) -> String {
    let text = match event {
        Event::Start => String::new(),
        Event::End(_, message) => message,
        Event::Broken(error) => error.to_string(),
    };
    text.chars().take(LONGEST).collect()
}

async fn ping(url: &Url, body: String) -> Result<(), String> {
    // `Err` means that a provider is installed already: the same one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder()
        .redirect(Policy::none())
        .timeout(PATIENCE)
        .build();
    // An error of the library has the URL in it.
    let client = client.map_err(|error| error.without_url().to_string())?;
    let answer = client
        .post(url.clone())
        .body(body)
        .send()
        .await
        .map_err(|error| error.without_url().to_string())?;
    if answer.status().is_success() {
        Ok(())
    } else {
        Err(format!("the server responded with {}", answer.status()))
    }
}
