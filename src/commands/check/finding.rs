//! What `ingest check` finds, and its text.

use serde::Serialize;

use crate::doc::{Doc, Phrase, Phrases, Section, Tone};

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

/// The findings in words, a line for each.
pub fn doc(findings: &[CheckFinding]) -> Doc {
    let line = |finding: &CheckFinding| {
        let (word, tone) = match finding.verdict {
            Verdict::Good => ("good   ", Tone::Good),
            Verdict::Warning => ("warning", Tone::Warn),
            Verdict::Bad => ("BAD    ", Tone::Bad),
        };
        Phrases::from(Phrase::toned(word, tone))
            .and(format!("  {}: {}", finding.what, finding.detail))
    };
    let mut part = Section::default();
    part.say_all(findings.iter().map(line));
    Doc::from_iter([part])
}
