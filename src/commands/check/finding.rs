//! What `ingest check` finds, and its text.

use serde::Serialize;

use crate::doc::{Doc, Phrase, Phrases, Section, Tone};

/// The result of one check.
#[derive(Debug, Serialize)]
pub struct CheckFinding {
    pub what: String,
    pub verdict: Severity,
    pub detail: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Good,
    Warning,
    Bad,
}

pub const fn good(what: String, detail: String) -> CheckFinding {
    CheckFinding {
        what,
        verdict: Severity::Good,
        detail,
    }
}

pub const fn warning(what: String, detail: String) -> CheckFinding {
    CheckFinding {
        what,
        verdict: Severity::Warning,
        detail,
    }
}

pub const fn bad(what: String, detail: String) -> CheckFinding {
    CheckFinding {
        what,
        verdict: Severity::Bad,
        detail,
    }
}

/// The detail of a secret that can be read.
pub const FOUND: &str = "found";

/// What is right with it, or wrong.
pub fn found(what: impl Into<String>, result: Result<impl Into<String>, String>) -> CheckFinding {
    match result {
        Ok(right) => good(what.into(), right.into()),
        Err(why) => bad(what.into(), why),
    }
}

/// The findings in words, a line for each.
pub fn doc(findings: &[CheckFinding]) -> Doc {
    let line = |finding: &CheckFinding| {
        let (word, tone) = match finding.verdict {
            Severity::Good => ("good   ", Tone::Good),
            Severity::Warning => ("warning", Tone::Warn),
            Severity::Bad => ("BAD    ", Tone::Bad),
        };
        Phrases::from(Phrase::toned(word, tone))
            .and(format!("  {}: {}", finding.what, finding.detail))
    };
    let mut part = Section::default();
    part.say_all(findings.iter().map(line));
    Doc::from_iter([part])
}
