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
    let held = held(config, &text)?;
    if mode & OTHERS_READ == 0 {
        return None;
    }
    let path = config.path.display();
    let detail = format!(
        "every user of this machine can read the file, which contains {held}: run `chmod o-r \
        {path}`, and make the user that runs `ingest` its owner or a member of its group"
    );
    Some(warning(format!("permissions of {path}"), detail))
}

/// The secret that the file itself holds: a `--set` is not in it.
fn held(config: &Config, text: &str) -> Option<&'static str> {
    let url = config.ledger.store.redis();
    let password = url
        .and_then(RedisUrl::expose_password)
        .filter(|password| !password.is_empty());
    let is_held = password.is_some_and(|password| text.contains(password));
    is_held.then_some("the password of the ledger")
}
