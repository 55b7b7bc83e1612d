//! Whether a configuration that holds secrets can be read by others.

use std::fs;
use std::os::unix::fs::MetadataExt;

use super::finding::{CheckFinding, warning};
use ingest_base::bounded;
use ingest_config::{Config, RedisUrl};

const OTHERS_READ: u32 = 0o004;

/// A warning, if every user of this machine can read the file and it holds a secret.
pub fn secrets_for_all(config: &Config) -> Option<CheckFinding> {
    let mode = fs::metadata(&config.path).ok()?.mode();
    let text = bounded::file_of_text(&config.path, bounded::DOCUMENT).ok()?;
    let held = held(config, &text);
    if mode & OTHERS_READ == 0 || held.is_empty() {
        return None;
    }
    let path = config.path.display();
    let detail = format!(
        "every user of this machine can read the file, which contains {}: run `chmod o-r \
        {path}`, and make the user that runs `ingest` its owner or a member of its group",
        held.join(" and ")
    );
    Some(warning(format!("permissions of {path}"), detail))
}

/// The secrets that the file itself holds: a `--set` is not in it.
fn held(config: &Config, text: &str) -> Vec<&'static str> {
    let url = config.ledger.store.redis();
    let password = url
        .and_then(RedisUrl::expose_password)
        .filter(|password| !password.is_empty());
    let notify = &config.notify;
    let urls = [
        &notify.start,
        &notify.success,
        &notify.stopped,
        &notify.failure,
    ];
    // By its path, which is the secret part of such a URL.
    let has_url = urls
        .into_iter()
        .flatten()
        .any(|url| text.contains(url.path()) && url.path().len() > 1);
    let has_password = password.is_some_and(|password| text.contains(password));
    let held = [
        (has_password, "the password of the ledger"),
        (
            has_url,
            "URLs of [notify], which anyone who knows them can ping",
        ),
    ];
    let held = held.into_iter().filter(|(is_held, _)| *is_held);
    held.map(|(_, what)| what).collect()
}
