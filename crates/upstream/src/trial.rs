//! A request that a person examines: how it is sent, and what its response matched.

use super::response::Response;
use super::{Exchange, Failure};
use ingest_config::Rule;

/// How a response was classified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Classified {
    /// The HTTP status.
    pub status: u16,
    /// The index of the first error rule that it matches; `None`: it matches no rule, or its rule was not applied.
    pub rule: Option<usize>,
}

/// The result of one request.
#[derive(Debug, Clone)]
pub struct Trial {
    /// The page, or why there is none.
    pub exchange: Exchange,
    /// `None`: there was no response, or its class is not wanted.
    pub classified: Option<Classified>,
    /// Whether the response is classified. That parses its body once more, so a run does without.
    classifies: bool,
}

impl Trial {
    /// A trial whose response is classified.
    #[must_use]
    pub fn classifying() -> Self {
        Self {
            classifies: true,
            ..Self::default()
        }
    }

    /// Classifies a response, if that is wanted.
    pub fn classify(&mut self, response: &Response, rules: &[Rule]) {
        if self.classifies {
            let matched = response.rule(rules);
            let index = |matched: &Rule| rules.iter().position(|rule| std::ptr::eq(rule, matched));
            self.classified = Some(Classified {
                status: response.status.as_u16(),
                rule: matched.and_then(index),
            });
        }
    }

    /// Forgets the rule, because something else decides: with a new secret, the request is worth another attempt.
    pub fn forget_rule(&mut self) {
        self.classified = self.classified.map(|classified| Classified {
            rule: None,
            ..classified
        });
    }
}

impl Default for Trial {
    fn default() -> Self {
        Self {
            // Stands until the request has a result.
            exchange: Err(Failure::TooLate).into(),
            classified: None,
            classifies: false,
        }
    }
}
