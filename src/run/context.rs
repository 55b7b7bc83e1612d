//! What a run works with.

use std::collections::HashMap;
use std::sync::Arc;

use super::asked::Asked;
use super::believe::Believing;
use super::estimate::Estimates;
use super::gate::Gate;
use super::halt::Halt;
use super::lock::Locks;
use super::progress::Progress;
use super::stop::Stop;
use super::tally::Tally;
use crate::catalog::{Catalog, Landed, Landing, PassRef};
use crate::clock::Clock;
use crate::config::Credential;
use crate::ledger::Meter;
use crate::quota::Units;
use crate::upstream::Upstream;

/// What a run works with.
pub struct Context {
    /// Where pages are landed.
    pub catalog: Arc<dyn Catalog>,
    /// The way to the ledger.
    pub meter: Arc<Meter>,
    /// The way to the upstream, by the credential's name; or why there is none.
    pub upstreams: HashMap<String, Result<Arc<dyn Upstream>, String>>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Who walks what.
    pub locks: Locks,
    /// Whether to end.
    pub stop: Stop,
    /// What need not be asked again.
    pub gate: Gate,
    /// What was asked, counted.
    pub asked: Asked,
    /// What calls cost whose answers tell it, as this run has learned.
    pub estimates: Estimates,
    /// What is under way while answers tell what is left of a limit.
    pub believing: Believing,
    /// Who watches.
    pub progress: Arc<dyn Progress>,
    /// How many regions walk at once, and how many batches are asked for at once; at least 1.
    pub concurrency: usize,
    /// A call whose largest component is at most this goes ahead when the ledger is down, in units.
    pub cheap_max: Units,
}

impl Context {
    /// The way to a credential's upstream.
    ///
    /// # Errors
    /// Why there is none, such as a secret that is not set.
    pub fn upstream(&self, credential: &Credential) -> Result<&dyn Upstream, Halt> {
        match self.upstreams.get(&credential.name) {
            Some(Ok(upstream)) => Ok(&**upstream),
            Some(Err(why)) => Err(Halt::Failed(why.clone())),
            None => Err(Halt::Failed(format!(
                "credential {} has no client",
                credential.name
            ))),
        }
    }

    /// Lands a page.
    ///
    /// # Errors
    /// When the catalog cannot be written: then no further page is asked for.
    pub async fn land(&self, landing: Landing<'_>) -> Result<Landed, Halt> {
        let landed = self.catalog.land(landing).await;
        landed.map_err(|error| {
            self.gate.cannot_land(&error.to_string());
            error.into()
        })
    }

    /// Whether a page that is asked for now can be landed.
    ///
    /// # Errors
    /// Why not: an earlier page could not be landed, or the catalog is no longer in place.
    pub async fn can_land(&self) -> Result<(), Halt> {
        if let Some(why) = self.gate.unwritable() {
            return Err(Halt::Failed(why));
        }
        let in_place = self.catalog.in_place().await;
        in_place.map_err(|error| {
            self.gate.cannot_land(&error.to_string());
            error.into()
        })
    }

    /// Counts what was spent on no page, for reports and for a ledger that is lost: the ledger has it in any case.
    pub async fn count_unproductive(&self, pass: &PassRef, tally: &Tally) {
        let Tally {
            unlanded_requests: requests,
            unlanded_units: units,
            ..
        } = tally;
        if *requests > 0
            && let Err(error) = self
                .catalog
                .count_unproductive(pass, *requests, units, self.clock.now())
                .await
        {
            tracing::warn!(
                requests,
                "cannot count requests without a page in the catalog: {error}"
            );
        }
    }

    /// Whether a credential can be used, so that a missing secret is found before anything is charged.
    ///
    /// # Errors
    /// Why not.
    pub async fn ready(&self, credential: &Credential) -> Result<(), Halt> {
        self.upstream(credential)?
            .ready()
            .await
            .map_err(|failure| Halt::Failed(failure.to_string()))
    }
}
