//! What other users of this machine can do: read secrets in the configuration, and write what `ingest` trusts.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::finding::{CheckFinding, bad, warning};
use ingest_base::bounded;
use ingest_config::{CatalogStore, Config, RedisUrl, SecretSource};
use secrecy::ExposeSecret;

const OTHERS_READ: u32 = 0o004;
const OTHERS_WRITE: u32 = 0o002;

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
    let ledger = config.ledger.store.redis();
    let ledger = ledger.and_then(RedisUrl::expose_password);
    let catalog = match &config.catalog.store {
        CatalogStore::Postgres(url) => url.password().map(ExposeSecret::expose_secret),
        CatalogStore::Sqlite => None,
    };
    let passwords = [
        (ledger, "the password of the ledger"),
        (catalog, "the password of the catalog"),
    ];
    let is_held = |password: &str| !password.is_empty() && text.contains(password);
    let mut held = passwords
        .into_iter()
        .filter(|(password, _)| password.is_some_and(is_held));
    held.next().map(|(_, what)| what)
}

/// The files that others can write, each with what that lets them do.
pub fn files(config: &Config) -> Vec<CheckFinding> {
    let mut findings = Vec::new();
    if is_open(&config.path) {
        let can = "and so run commands as this user";
        findings.push(finding(&config.path, can));
    }
    for source in config.secret_sources() {
        match source {
            SecretSource::File(path) if is_open(path) => {
                findings.push(finding(path, "and so exchange the secret"));
            }
            SecretSource::Command(words) => {
                let programs = words.iter().map(PathBuf::from);
                let open = programs.filter(|path| is_open(path));
                findings
                    .extend(open.map(|path| finding(&path, "and so run commands as this user")));
            }
            SecretSource::File(_) | SecretSource::Env(_) | SecretSource::Credential(_) => {}
        }
    }
    findings.sort_by(|one, other| one.what.cmp(&other.what));
    findings.dedup_by(|one, other| one.what == other.what);
    findings
}

/// A warning, if other users can exchange the files of the state directory.
pub fn state_dir(path: &Path) -> Option<CheckFinding> {
    let mode = fs::metadata(path).ok()?.mode();
    let path = path.display();
    let detail = format!(
        "every user of this machine can exchange the ledger and the catalog in it, and so spend the quota again: run `chmod o-w {path}`"
    );
    (mode & OTHERS_WRITE != 0).then(|| warning(format!("permissions of {path}"), detail))
}

/// Whether every user can write a file. A device, such as `/dev/null`, is nobody's to exchange.
fn is_open(path: &Path) -> bool {
    let about = fs::metadata(path);
    about.is_ok_and(|about| about.is_file() && about.mode() & OTHERS_WRITE != 0)
}

fn finding(path: &Path, can: &str) -> CheckFinding {
    let path = path.display();
    let detail =
        format!("every user of this machine can write the file, {can}: run `chmod o-w {path}`");
    bad(format!("permissions of {path}"), detail)
}
