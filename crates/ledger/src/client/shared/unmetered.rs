//! Charges while the ledger cannot be reached: the outage policy of the call, and the allowance of this machine.

use super::{Attempt, SharedClient};
use crate::Charge;
use crate::client::{Acquired, ClientError};
use crate::journal::Unmetered;
use ingest_quota::{Grant, Outage};

/// What to do about a refusal that ends with the outage.
const REMEDY: &str = "repeat it when the ledger answers, which `ingest check --connect` shows";

impl SharedClient {
    /// Charges without the ledger, or refuses, as the call's policy says (L29, L31). `reason` is the outage.
    pub async fn charge_unmetered(
        &self,
        mut attempt: Attempt<'_>,
        reason: String,
    ) -> Result<Acquired, ClientError> {
        let request = attempt.request;
        if request.outage == Outage::Refuse {
            let why = "calls above `ledger.cheap_max` units or with `outage = \"refuse\"` are \
                refused during an outage";
            return self
                .refuse(&attempt, format!("{reason}; {why}; {REMEDY}"))
                .await;
        }
        // That needs the configuration alone, so an outage does not hide it.
        if let Some((limit, most)) = request.account.never_holds(request.cost, request.leave) {
            self.drop_charge(&attempt).await?;
            return Ok(Acquired::Never { limit, most });
        }
        let (most, now) = (self.policy.unmetered_max, self.clock.now());
        let charge = Charge::new(&request, &attempt.id);
        let grant = match self.journal.charge_unmetered(charge, most, now).await? {
            Unmetered::Allowed { id, probing } => {
                attempt.id = id;
                Grant {
                    probing,
                    ..Grant::default()
                }
            }
            Unmetered::Repeated { id, held } => {
                attempt.id = id;
                Grant {
                    repeated: true,
                    held: Some(held).filter(|held| *held != request.account.taken(request.cost)),
                    ..Grant::default()
                }
            }
            Unmetered::Exhausted => {
                let reason = format!(
                    "{reason}; the {most} units of `ledger.unmetered_max` are used, or too few are left; {REMEDY}"
                );
                return self.refuse(&attempt, reason).await;
            }
            // An outage and not a rejection, which would state when the charge fits: only the ledger knows that.
            Unmetered::Closed { limit, until } => {
                let reason = format!(
                    "{reason}; the upstream reported `{limit}` exhausted, and it is closed until \
                    {until}"
                );
                return self.refuse(&attempt, reason).await;
            }
        };
        Ok(attempt.permitted(grant, false))
    }
}
