//! `ingest check`: checks quotas.toml, the secrets and the state files; on request also ledger and upstreams. It
//! sends no metered request and writes nothing.

mod connect;
mod finding;
mod permissions;
mod serve;

use std::sync::Arc;

use self::finding::{CheckFinding, FOUND, Severity, bad, found, good, warning};
use serde_json::json;

use super::advice::advice;
use super::environment::{CATALOG_FILE, Environment};
use super::figures::counted;
use super::lost_catalog::lost_catalog;
use super::output::Message;
use super::refill::{recorded_ledger, restored};
use super::{Error, output};
use crate::cli::{CheckArgs, Global};
use crate::exit::Exit;
use ingest_config::{Auth, Credential};
use ingest_ledger as ledger;
use ingest_ledger::{LedgerClient, file_of};
use ingest_sqlite as sqlite;
use ingest_upstream::Upstream;

/// Checks everything, and reports each fault.
pub async fn check(global: &Global, args: CheckArgs) -> Result<Exit, Error> {
    let environment = Environment::load(global)?;
    let mut findings = vec![configuration(&environment)];
    findings.extend(permissions::secrets_for_all(&environment.config));
    findings.extend(permissions::files(&environment.config));
    let advice = advice(&environment.config).into_iter();
    findings.extend(advice.map(|(what, detail)| warning(what, detail)));
    if args.config_only {
        return show(&findings, global);
    }
    findings.extend(secrets(&environment, args.connect).await);
    findings.extend(serve::server(&environment.config.serve).await);
    findings.extend(permissions::state_dir(&environment.state_dir));
    let (usable, ledger) = ledger(&environment).await;
    findings.push(usable);
    findings.extend(catalog(&environment, args.connect, ledger.as_deref()).await);
    if args.connect {
        findings.extend(connect::everything(&environment, ledger.as_deref()).await);
    }
    show(&findings, global)
}

fn show(findings: &[CheckFinding], global: &Global) -> Result<Exit, Error> {
    let worst = findings
        .iter()
        .map(|finding| finding.verdict)
        .max()
        .unwrap_or(Severity::Good);
    let report = json!({ "verdict": worst, "findings": findings });
    output::report(global, &report, |screen| {
        if global.logs_only() {
            log_bad(findings);
        }
        let text = finding::doc(findings).text(screen);
        // `-q` leaves out `Done`, and a fault is printed all the same.
        match worst == Severity::Bad && !global.logs_only() {
            true => Message::Result(text),
            false => Message::Done(text),
        }
    })?;
    Ok(Exit::failed_if(worst == Severity::Bad))
}

fn log_bad(findings: &[CheckFinding]) {
    let bad = findings.iter().filter(|one| one.verdict == Severity::Bad);
    for CheckFinding { what, detail, .. } in bad {
        tracing::error!("{what}: {detail}");
    }
}

fn configuration(environment: &Environment) -> CheckFinding {
    let config = &environment.config;
    let parts = [
        (config.regions.len(), "region"),
        (config.upstreams.len(), "upstream"),
        (config.credentials.len(), "credential"),
        (config.jobs.len(), "job"),
    ];
    let counted = parts
        .map(|(number, what)| counted(number as u64, what))
        .join(", ");
    good(config.path.display().to_string(), counted)
}

/// Checks that the secrets can be read. They are sent nowhere, unless an access token is to be requested with them.
async fn secrets(environment: &Environment, connects: bool) -> Vec<CheckFinding> {
    let mut findings = Vec::new();
    for credential in environment
        .config
        .credentials
        .values()
        .filter(|one| one.secret.is_some() || !one.secrets.is_empty())
    {
        let what = format!("secret of credential {}", credential.name);
        let asks = matches!(credential.upstream.auth, Auth::OAuth(_));
        findings.push(match ready(environment, credential, connects).await {
            Ok(()) if !asks => good(what, FOUND.to_owned()),
            Ok(()) if connects => good(what, "found, and it obtains an access token".to_owned()),
            Ok(()) => good(what, "found; --connect requests an access token".to_owned()),
            Err(why) => bad(what, why),
        });
    }
    findings.extend(secrets_of_ledger(environment).await);
    findings
}

/// Whether passwords and certificates of a shared ledger can be read.
async fn secrets_of_ledger(environment: &Environment) -> Option<CheckFinding> {
    let config = &environment.config.ledger;
    if config.store.is_file() || !config.needs_access() {
        return None;
    }
    let ready = ledger::redis::ready(config).await.map(|()| FOUND);
    Some(found("secrets of the ledger", ready))
}

async fn ready(
    environment: &Environment,
    credential: &Arc<Credential>,
    connects: bool,
) -> Result<(), String> {
    let client = environment.client(credential);
    let client = client.map_err(|error| error.to_string())?;
    let ready = match connects {
        true => client.ready().await,
        false => client.has_secrets().await,
    };
    ready.map_err(|failure| failure.to_string())
}

/// Checks the part of the ledger that is on this machine: the ledger file, or the journal.
async fn ledger(environment: &Environment) -> (CheckFinding, Option<Arc<dyn LedgerClient>>) {
    let store = &environment.config.ledger.store;
    let path = environment.state_dir.join(file_of(store));
    let what = path.display().to_string();
    let ledger = match recorded_ledger(environment) {
        Ok(ledger) => ledger,
        Err(error) => return (unusable(what, &error.to_string()), None),
    };
    if let Err(why) = sqlite::can_be_written(&path) {
        return (bad(what, why), None);
    }
    // Only `--connect` asks a server; without it the journal is all that can be looked at.
    let usable = if store.is_file() {
        connect::answers(environment, &*ledger).await
    } else {
        can_be_read(environment, &*ledger).await
    };
    match usable {
        Ok(()) => {
            let usable = match restored(environment, &*ledger).await {
                None => good(what, "usable".to_owned()),
                Some(restored) => warning(what, restored),
            };
            (usable, Some(ledger))
        }
        Err(why) => (bad(what, why), None),
    }
}

/// Checks that the journal can be read.
async fn can_be_read(environment: &Environment, ledger: &dyn LedgerClient) -> Result<(), String> {
    for credential in environment.config.credentials.values() {
        ledger
            .unrepaid(&credential.account)
            .await
            .map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Checks the catalog; `None` for a database that `--connect` checks.
async fn catalog(
    environment: &Environment,
    connects: bool,
    ledger: Option<&dyn LedgerClient>,
) -> Option<CheckFinding> {
    if let Some(database) = environment.database() {
        let what = format!("the catalog ({})", database.shown());
        return match database.read_password().await {
            // Reported once, with the connection.
            Ok(()) if connects => None,
            read => Some(found(
                what,
                read.map(|()| "not tried; --connect connects to it"),
            )),
        };
    }
    let path = environment.state_dir.join(CATALOG_FILE);
    let what = path.display().to_string();
    let lost = match ledger {
        Some(ledger) => lost_catalog(environment, ledger).await,
        None => None,
    };
    if let Some(lost) = lost {
        return Some(bad(what, lost));
    }
    Some(match environment.reader().await {
        Ok(_) => found(what, sqlite::can_be_written(&path).map(|()| "usable")),
        Err(error) => unusable(what, &error.to_string()),
    })
}

/// Reports a file that cannot be used, with its path once.
fn unusable(path: String, why: &str) -> CheckFinding {
    let why = output::without_path(why, &path);
    bad(path, why)
}
