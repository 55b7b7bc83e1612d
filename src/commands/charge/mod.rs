//! `ingest charge`: one charge by hand or from a script, to the same ledger.

mod charged;
mod charging;
mod wait;

use super::environment::Environment;
use super::output::Message;
use super::{Error, output};
use crate::cli::{ChargeArgs, Global};
use crate::exit::Exit;

pub use charged::Word;
#[cfg(feature = "serve")]
pub use charged::{Charged, Refusal};
pub use charging::{Charging, id_of};
#[cfg(feature = "serve")]
pub use charging::{UnitsArgs, in_ledger};

/// Charges one call, and says what the ledger said.
pub async fn charge(global: &Global, args: &ChargeArgs) -> Result<Exit, Error> {
    let environment = Environment::load(global)?;
    let charging = Charging::new(&environment, args)?;
    let (charged, signal) = match args.wait {
        None => (charging.charge(&environment).await?, None),
        Some(most) => charging.charge_when_it_fits(&environment, most).await?,
    };
    let is_granted = matches!(charged.decision, Word::Granted | Word::Unmetered);
    let words = if is_granted {
        Message::Done
    } else {
        Message::Failure
    };
    output::report(global, &charged, |_| words(output::shown(&charged.detail)))?;
    Ok(match signal {
        Some(signal) if !is_granted => signal.into(),
        _ => charged.exit(),
    })
}
