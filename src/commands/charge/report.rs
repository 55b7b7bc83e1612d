//! What became of a charge: for JSON, in words, and as an exit code.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::commands::figures::{cost, count, instant, span};
use crate::exit::Exit;
use ingest_ledger::{Acquired, Permit};
use ingest_quota::{ChargeId, Cost, LimitName, Rejection, Timestamp, Units};

/// What became of a charge.
#[derive(Debug, Serialize)]
pub struct ChargeReport {
    pub decision: Word,
    /// The id under which it was granted.
    pub id: Option<ChargeId>,
    units: Cost,
    pub remaining: BTreeMap<LimitName, Units>,
    pub retry_after_seconds: Option<f64>,
    retry_at: Option<Timestamp>,
    /// The same in words, with the reason where it was not granted.
    pub detail: String,
    /// How long it waited to fit; `None` where it was not to wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) waited_seconds: Option<f64>,
    /// Which limit rejected it; `None` where none did.
    #[serde(skip)]
    pub(super) rejection: Option<Rejection>,
    /// Why it was refused; `None` where it was not.
    #[cfg_attr(
        not(feature = "serve"),
        expect(dead_code, reason = "the server reads it")
    )]
    #[serde(skip)]
    pub refusal: Option<WhyRefused>,
}

/// Why a charge was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhyRefused {
    /// The id already holds another charge.
    OtherCharge,
    /// It is larger than its limit.
    Never,
    /// The ledger cannot be reached.
    Unavailable,
}

/// What the ledger said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    Granted,
    Rejected,
    Unmetered,
    Refused,
}

/// What the ledger said of a charge of these units.
pub fn report(verdict: &Acquired, units: &Cost) -> ChargeReport {
    match verdict {
        Acquired::Permitted(permit) => match &permit.grant.held {
            Some(held) => {
                let (id, held, units_wanted) = (&permit.id, cost(held), cost(units));
                let why = format!(
                    "id `{id}` already holds a charge of {held}; use a new id for {units_wanted}"
                );
                ChargeReport::refused(units, WhyRefused::OtherCharge, &why)
            }
            None => ChargeReport::permitted(units, permit),
        },
        Acquired::Rejected(rejection) => ChargeReport {
            remaining: BTreeMap::from([(rejection.limit.clone(), rejection.remaining)]),
            retry_after_seconds: Some(rejection.retry_after.as_secs_f64()),
            retry_at: Some(rejection.retry_at),
            rejection: Some(rejection.clone()),
            ..ChargeReport::new(units, Word::Rejected, rejected(units, rejection))
        },
        Acquired::Never { limit, most } => {
            let why = format!(
                "the charge needs {}, and {limit} never grants more than {most}",
                cost(units)
            );
            ChargeReport::refused(units, WhyRefused::Never, &why)
        }
        Acquired::Refused(why) => ChargeReport::refused(units, WhyRefused::Unavailable, why),
    }
}

impl ChargeReport {
    /// What the process tells its caller.
    pub const fn exit(&self) -> Exit {
        match self.decision {
            Word::Granted | Word::Unmetered => Exit::Success,
            Word::Rejected => Exit::Stopped,
            Word::Refused => Exit::Failed,
        }
    }

    fn new(units: &Cost, decision: Word, detail: String) -> Self {
        Self {
            decision,
            id: None,
            units: units.clone(),
            remaining: BTreeMap::new(),
            retry_after_seconds: None,
            retry_at: None,
            detail,
            waited_seconds: None,
            rejection: None,
            refusal: None,
        }
    }

    fn permitted(units: &Cost, permit: &Permit) -> Self {
        let decision = match permit.metered {
            true => Word::Granted,
            false => Word::Unmetered,
        };
        let remaining = &permit.grant.remaining;
        let detail = permitted(permit.metered, units, remaining, &permit.id);
        Self {
            id: Some(permit.id.clone()),
            remaining: remaining.clone(),
            ..Self::new(units, decision, detail)
        }
    }

    fn refused(units: &Cost, refusal: WhyRefused, why: &str) -> Self {
        Self {
            refusal: Some(refusal),
            ..Self::new(units, Word::Refused, format!("Refused: {why}"))
        }
    }
}

fn permitted(
    metered: bool,
    units: &Cost,
    remaining: &BTreeMap<LimitName, Units>,
    id: &ChargeId,
) -> String {
    let left: Vec<String> = remaining
        .iter()
        .map(|(limit, units)| format!("{} {limit}", count(units.get())))
        .collect();
    if metered {
        format!(
            "Granted: {}; remaining: {}; id {id}",
            cost(units),
            left.join(", ")
        )
    } else {
        format!(
            "Unmetered: {}; the ledger cannot be reached and will be charged later; id {id}",
            cost(units)
        )
    }
}

fn rejected(units: &Cost, rejection: &Rejection) -> String {
    let closed = rejection.closed_until.map(|until| {
        let until = instant(until);
        format!("{} is closed until {until}", rejection.limit)
    });
    let remaining = || {
        let remaining = count(rejection.remaining.get());
        format!("{remaining} {} remaining", rejection.limit)
    };
    format!(
        "Rejected: needs {}; {}; retry in {} ({})",
        cost(units),
        closed.unwrap_or_else(remaining),
        span(rejection.retry_after),
        instant(rejection.retry_at)
    )
}
