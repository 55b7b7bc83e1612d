//! Whether other users of this machine can write what `ingest` trusts: the configuration, secrets, commands, the state directory.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::finding::{CheckFinding, bad, warning};
use ingest_config::{Config, SecretSource};

const OTHERS_WRITE: u32 = 0o002;

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
