//! `ingest charge`: one charge by hand or from a script, to the same ledger.

mod charging;
mod report;
mod wait;

use super::environment::Environment;
use super::output::Message;
use super::{Error, output};
use crate::cli::{ChargeArgs, Global};
use crate::exit::Exit;

pub use charging::{ChargeOrder, Charging, OrderedCost, id_of};
pub use report::Word;
#[cfg(feature = "serve")]
pub use report::{ChargeReport, WhyRefused};

/// Charges one call, and says what the ledger said.
pub async fn charge(global: &Global, args: &ChargeArgs) -> Result<Exit, Error> {
    let environment = Environment::load(global)?;
    let order = ChargeOrder {
        credential: &args.credential,
        what: OrderedCost::Calls(&args.call, args.times),
        region: args.region.as_deref(),
        id: args.id.as_deref(),
    };
    let charging = Charging::new(&environment, &order)?;
    let (charged, signal) = charging.charge(&environment, args.wait).await?;
    let is_granted = matches!(charged.decision, Word::Granted | Word::Unmetered);
    output::report(global, &charged, |_| {
        let text = output::shown(&charged.detail);
        match is_granted {
            true => Message::Done(text),
            false => Message::Failure(text),
        }
    })?;
    Ok(match signal {
        Some(signal) if !is_granted => signal.into(),
        _ => charged.exit(),
    })
}
