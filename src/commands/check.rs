//! `ingest check`: is quotas.toml right, and can everything in it be reached? No metered call is made.

use serde::Serialize;

use super::advice::advice;
use super::environment::Environment;
use super::{Error, output};
use crate::cli::{Format, Global};
use crate::exit::Exit;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;

use crate::config::{Auth, Credential, LedgerStore, Upstream};
use crate::ledger::{self, Mode};

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Finding {
    what: String,
    verdict: Verdict,
    detail: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Good,
    Warning,
    Bad,
}

/// Looks at everything, and says what is wrong with it.
pub(super) async fn check(global: &Global) -> Result<Exit, Error> {
    let environment = Environment::load(global)?;
    environment.create_state_dir()?;
    let mut findings = vec![configuration(&environment)];
    findings.extend(advice(&environment.config).into_iter().map(warning));
    findings.extend(secrets(&environment).await);
    findings.extend(ledger(&environment).await);
    findings.push(catalog(&environment).await);
    findings.extend(upstreams(&environment).await);
    let worst = findings.iter().map(|finding| finding.verdict).max().unwrap_or(Verdict::Good);
    match global.format {
        Format::Json => output::json(&serde_json::json!({ "verdict": worst, "findings": findings }))?,
        Format::Text if global.quiet && worst != Verdict::Bad => {}
        Format::Text => output::text_line(&in_words(&findings))?,
    }
    Ok(if worst == Verdict::Bad { Exit::Failed } else { Exit::Success })
}

fn configuration(environment: &Environment) -> Finding {
    let config = &environment.config;
    let counted = format!(
        "{} regions, {} upstreams, {} credentials, {} jobs",
        config.regions.len(),
        config.upstreams.len(),
        config.credentials.len(),
        config.jobs.len()
    );
    good(config.path.display().to_string(), counted)
}

fn warning((what, detail): (String, String)) -> Finding {
    Finding { what, verdict: Verdict::Warning, detail }
}

/// Whether the secrets are there. They are read, and not sent anywhere.
async fn secrets(environment: &Environment) -> Vec<Finding> {
    let mut findings = Vec::new();
    for credential in environment.config.credentials.values().filter(|one| one.upstream.auth != Auth::None) {
        let what = format!("the secret of credential {}", credential.name);
        findings.push(match ready(environment, credential).await {
            Ok(()) => good(what, "is there".to_owned()),
            Err(why) => bad(what, why),
        });
    }
    findings
}

async fn ready(environment: &Environment, credential: &Arc<Credential>) -> Result<(), String> {
    let upstream = environment.upstream(credential)?;
    upstream.ready().await.map_err(|failure| failure.to_string())
}

async fn ledger(environment: &Environment) -> Vec<Finding> {
    let what = || format!("the ledger ({})", environment.config.ledger.store);
    let meter = match environment.meter(Mode::ReadWrite) {
        Ok(meter) => meter,
        Err(error) => return vec![bad(what(), error.to_string())],
    };
    let mut findings = Vec::new();
    for credential in environment.config.credentials.values() {
        if let Err(error) = meter.usage(&credential.account).await {
            return vec![bad(what(), error.to_string())];
        }
    }
    findings.push(good(what(), "answers".to_owned()));
    findings.extend(inspected(environment, &what()).await);
    findings
}

/// What is dangerous about the settings of a shared ledger.
async fn inspected(environment: &Environment, what: &str) -> Vec<Finding> {
    let config = &environment.config.ledger;
    let LedgerStore::Redis(url) = &config.store else { return Vec::new() };
    match ledger::redis::inspect(url, config.timeout, config.max_skew, environment.clock.now()).await {
        Ok(findings) => findings.iter().map(|finding| judged(what, finding)).collect(),
        Err(error) => vec![bad(what.to_owned(), error.to_string())],
    }
}

/// A Redis that can lose the ledger serves it all the same; one that lacks a permission does not.
fn judged(what: &str, finding: &ledger::redis::Finding) -> Finding {
    use ledger::redis::Finding::{KeepsNothing, MayEvict};
    let verdict = if matches!(finding, MayEvict { .. } | KeepsNothing) { Verdict::Warning } else { Verdict::Bad };
    Finding { what: what.to_owned(), verdict, detail: finding.to_string() }
}

async fn catalog(environment: &Environment) -> Finding {
    let what = environment.state_dir.join("catalog.db").display().to_string();
    match environment.catalog() {
        Ok(_) => good(what, "opens".to_owned()),
        Err(error) => bad(what, error.to_string()),
    }
}

/// Whether the hosts can be reached. A connection is made; nothing is asked, so nothing is metered.
async fn upstreams(environment: &Environment) -> Vec<Finding> {
    let mut findings = Vec::new();
    for upstream in environment.config.upstreams.values() {
        let what = format!("upstream {}", upstream.name);
        findings.push(match connect(upstream).await {
            Ok(to) => good(what, format!("{to} can be reached")),
            Err(why) => bad(what, why),
        });
    }
    findings
}

async fn connect(upstream: &Upstream) -> Result<String, String> {
    let host = upstream.base_url.host_str().unwrap_or_default();
    let port = upstream.base_url.port_or_known_default().unwrap_or(443);
    let to = format!("{host}:{port}");
    let connecting = TcpStream::connect((host.trim_matches(['[', ']']), port));
    match tokio::time::timeout(CONNECT_TIMEOUT, connecting).await {
        Ok(Ok(_)) => Ok(to),
        Ok(Err(error)) => Err(format!("{to} cannot be reached: {error}; check base_url and the network")),
        Err(_) => Err(format!("{to} did not answer within {CONNECT_TIMEOUT:?}; check base_url and the network")),
    }
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

const fn good(what: String, detail: String) -> Finding {
    Finding { what, verdict: Verdict::Good, detail }
}

const fn bad(what: String, detail: String) -> Finding {
    Finding { what, verdict: Verdict::Bad, detail }
}

fn in_words(findings: &[Finding]) -> String {
    let line = |finding: &Finding| {
        let word = match finding.verdict {
            Verdict::Good => "good   ",
            Verdict::Warning => "warning",
            Verdict::Bad => "BAD    ",
        };
        format!("{word}  {}: {}", finding.what, finding.detail)
    };
    findings.iter().map(line).collect::<Vec<_>>().join("\n")
}
