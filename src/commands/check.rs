//! `ingest check`: is quotas.toml right, and can everything in it be reached? No metered call is made.

use serde::Serialize;

use super::environment::Environment;
use super::{Error, output};
use crate::cli::{Format, Global};
use crate::exit::Exit;
use crate::ledger::{self, Access};

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
