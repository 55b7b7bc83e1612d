//! `ingest charge`: one charge by hand or from a script, to the same ledger.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::environment::{Environment, unknown};
use super::table::{cost, count, instant, span};
use super::{Error, output};
use crate::cli::{ChargeArgs, Format, Global};
use crate::config::{Call, Credential};
use crate::exit::Exit;
use crate::ledger::{Ask, Mode, Purpose, Verdict};
use crate::quota::{ChargeId, Cost, LimitName, Rejection, Units};

#[derive(Debug, Serialize)]
struct Charged<'a> {
    decision: Word,
    id: Option<&'a ChargeId>,
    units: &'a Cost,
    remaining: BTreeMap<LimitName, Units>,
    retry_after_seconds: Option<f64>,
    #[serde(skip)]
    detail: String,
}

#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
enum Word {
    Granted,
    Rejected,
    Unmetered,
    Refused,
}

/// Charges one call, and says what the ledger said.
pub(super) async fn charge(global: &Global, args: &ChargeArgs) -> Result<Exit, Error> {
    let environment = Environment::load(global)?;
    let (credential, call) = find(&environment, args)?;
    environment.create_state_dir()?;
    let id = args.id.as_deref().map_or_else(ChargeId::fresh, ChargeId::new);
    let ask = Ask {
        account: &credential.account,
        id: Some(&id),
        cost: &call.cost,
        leave: &Cost::none(),
        outage: call.outage_policy(environment.config.ledger.cheap_max),
        purpose: &Purpose { job: None, region: None, call: call.name.clone() },
    };
    let verdict = environment.meter(Mode::ReadWrite)?.ask(ask).await?;
    let charged = charged(&verdict, &call.cost, &id);
    match global.format {
        Format::Json => output::json(&charged)?,
        Format::Text if global.quiet && matches!(charged.decision, Word::Granted | Word::Unmetered) => {}
        Format::Text => output::text_line(&charged.detail)?,
    }
    Ok(exit(charged.decision))
}

fn find(environment: &Environment, args: &ChargeArgs) -> Result<(Arc<Credential>, Arc<Call>), Error> {
    let credentials = &environment.config.credentials;
    let known = credentials.keys().map(String::as_str);
    let credential = credentials
        .get(&args.credential)
        .ok_or_else(|| Error::Usage(unknown("credential", &args.credential, known)))?;
    let calls = &credential.upstream.calls;
    let known = calls.keys().map(String::as_str);
    let call = calls.get(&args.call).ok_or_else(|| Error::Usage(unknown("call", &args.call, known)))?;
    match call.cost.limits().find(|limit| !credential.account.limits.contains_key(*limit)) {
        None => Ok((Arc::clone(credential), Arc::clone(call))),
        Some(lacking) => Err(Error::Usage(format!(
            "{} charges the limit `{lacking}`, which credential `{}` lacks: add it to [credentials.{}.limits]",
            call.name, credential.name, credential.name
        ))),
    }
}

fn charged<'a>(verdict: &Verdict, units: &'a Cost, id: &'a ChargeId) -> Charged<'a> {
    let charged = Charged {
        decision: Word::Refused,
        id: Some(id),
        units,
        remaining: BTreeMap::new(),
        retry_after_seconds: None,
        detail: String::new(),
    };
    match verdict {
        Verdict::Permitted(permit) => Charged {
            decision: if permit.metered { Word::Granted } else { Word::Unmetered },
            remaining: permit.grant.remaining.clone(),
            detail: permitted(permit.metered, units, &permit.grant.remaining, id),
            ..charged
        },
        Verdict::Rejected(rejection) => Charged {
            decision: Word::Rejected,
            id: None,
            remaining: BTreeMap::from([(rejection.limit.clone(), rejection.remaining)]),
            retry_after_seconds: Some(rejection.retry_after.as_secs_f64()),
            detail: rejected(units, rejection),
            ..charged
        },
        Verdict::Never { limit, most } => Charged {
            id: None,
            detail: format!("Refused: it takes {}, and {limit} never holds more than {most}.", cost(units)),
            ..charged
        },
        Verdict::Refused(why) => Charged { id: None, detail: format!("Refused: {why}"), ..charged },
    }
}

fn permitted(metered: bool, units: &Cost, remaining: &BTreeMap<LimitName, Units>, id: &ChargeId) -> String {
    let left: Vec<String> = remaining.iter().map(|(limit, units)| format!("{} {limit}", count(units.get()))).collect();
    if metered {
        format!("Granted: {}; left: {}; id {id}", cost(units), left.join(", "))
    } else {
        format!("Unmetered: {}, while the ledger is out of reach; it will be repaid; id {id}", cost(units))
    }
}

fn rejected(units: &Cost, rejection: &Rejection) -> String {
    format!(
        "Rejected: it takes {}, and {} of {} are left: it fits in {}, at {}",
        cost(units),
        count(rejection.remaining.get()),
        rejection.limit,
        span(rejection.retry_after),
        instant(rejection.retry_at)
    )
}

const fn exit(decision: Word) -> Exit {
    match decision {
        Word::Granted | Word::Unmetered => Exit::Success,
        Word::Rejected => Exit::Stopped,
        Word::Refused => Exit::Failed,
    }
}
