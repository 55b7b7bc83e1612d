//! What `ingest check` finds, and its text.

use serde::Serialize;

use crate::commands::output::{self, Colour, Style};

/// The result of one check.
#[derive(Debug, Serialize)]
pub struct CheckFinding {
    pub what: String,
    pub verdict: Verdict,
    pub detail: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Good,
    Warning,
    Bad,
}

pub const fn good(what: String, detail: String) -> CheckFinding {
    CheckFinding {
        what,
        verdict: Verdict::Good,
        detail,
    }
}

pub const fn warning(what: String, detail: String) -> CheckFinding {
    CheckFinding {
        what,
        verdict: Verdict::Warning,
        detail,
    }
}

pub const fn bad(what: String, detail: String) -> CheckFinding {
    CheckFinding {
        what,
        verdict: Verdict::Bad,
        detail,
    }
}

pub fn in_words(findings: &[CheckFinding], style: Style) -> String {
    let line = |finding: &CheckFinding| {
        let (word, colour) = match finding.verdict {
            Verdict::Good => ("good   ", Colour::Green),
            Verdict::Warning => ("warning", Colour::Yellow),
            Verdict::Bad => ("BAD    ", Colour::Red),
        };
        format!(
            "{}  {}: {}",
            style.paint(word, colour),
            finding.what,
            output::shown(&finding.detail)
        )
    };
    findings.iter().map(line).collect::<Vec<_>>().join("\n")
}
