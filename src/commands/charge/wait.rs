//! Waits until a charge that a limit rejected fits.

use std::time::Duration;

use super::report::ChargeReport;
use crate::commands::figures::span;
use crate::commands::{Error, signals};
use crate::run::{Signal, Stop, Waits};
use ingest_base::clock::{Monotonic, SystemClock};
use ingest_quota::Rejection;

/// The shortest wait: a ledger whose clock is a little behind this machine's rejects again at once.
const SHORTEST: Duration = Duration::from_millis(1);

/// The wait of `ingest charge --wait`.
pub struct Waiting {
    most: Duration,
    began: Monotonic,
    waited: Duration,
    /// Listens to signals, from the first wait on.
    stop: Option<Stop>,
}

impl Waiting {
    /// A wait of at most `most` from now on.
    pub fn new(most: Duration) -> Self {
        Self {
            most,
            began: Monotonic::now(),
            waited: Duration::ZERO,
            stop: None,
        }
    }

    /// Waits until the charge fits; `false` where no wait helps within the time that is left, or a signal ended it. Another
    /// charge can take the units first: then the ledger rejects this one again, and says when it fits next.
    pub async fn until_it_fits(&mut self, charged: &ChargeReport) -> Result<bool, Error> {
        let Some(rejection) = charged.rejection.as_ref().filter(|one| is_brief(one)) else {
            return Ok(false);
        };
        let wait = rejection.retry_after.max(SHORTEST);
        if self.signal().is_some() || self.began.elapsed().saturating_add(wait) > self.most {
            return Ok(false);
        }
        let stop = match self.stop.take() {
            Some(stop) => stop,
            None => signals::listen(
                "the wait for units ends; a charge that was sent already may still be made, and the answer says so",
                Waits::default(),
            )?,
        };
        tracing::info!(
            limit = rejection.limit,
            "waiting {} for units",
            humantime::format_duration(wait)
        );
        let slept = Monotonic::now();
        stop.sleep(&SystemClock, wait).await;
        self.waited += slept.elapsed();
        self.stop = Some(stop);
        Ok(self.signal().is_none())
    }

    /// Adds to the answer how long was waited, and what ended the wait.
    pub fn tell(&self, charged: &mut ChargeReport) {
        charged.waited_seconds = Some(self.waited.as_secs_f64());
        if self.signal().is_some() && charged.rejection.is_some() {
            charged.detail += &format!("; interrupted after {}", span(self.waited));
        } else if self.waited > Duration::ZERO {
            charged.detail += &format!("; waited {}", span(self.waited));
        }
    }

    /// The signal that ended the wait; `None` while there was none.
    pub fn signal(&self) -> Option<Signal> {
        self.stop.as_ref()?.signal()
    }
}

/// Whether waiting helps: a closed limit opens when its upstream serves again, which may be later than it said.
fn is_brief(rejection: &Rejection) -> bool {
    rejection.closed_until.is_none()
}
