//! `[notify]`: URLs that are pinged as a run begins and ends, as healthchecks.io and its like want. No run ever fails
//! for a ping.

use std::time::Duration;

use reqwest::redirect::Policy;
use url::Url;

use super::Error;
use crate::config::Notify;
use crate::run::{RunOutcome, RunReport};

const PATIENCE: Duration = Duration::from_secs(5);
/// The most characters of a message that are sent; services keep little.
const LONGEST: usize = 2_000;

/// What there is to be told.
pub enum Event<'a> {
    /// A run begins.
    Start,
    /// It ended: the result, and the message with its causes.
    End(&'a RunReport, String),
    /// It did not come to an end.
    Broken(&'a Error),
}

/// Tells whoever wants to know. A failed ping is logged.
pub async fn notify(config: &Notify, event: Event<'_>) {
    let Some(url) = url(config, &event) else {
        return;
    };
    let told = tell(url, body(event)).await;
    if let Err(why) = told {
        // The URL is as good as a secret.
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
            // A service that was pinged at the start waits for the end. Who interrupts a run may be a time limit.
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

async fn tell(url: &Url, body: String) -> Result<(), String> {
    // Whoever was first, it is the same one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder()
        .redirect(Policy::none())
        .timeout(PATIENCE)
        .build();
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
