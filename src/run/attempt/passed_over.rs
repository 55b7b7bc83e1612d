//! The credentials of a job that do not serve a request, while others of it may.

use crate::run::stats::PassStats;
use crate::run::stop_reason::StopReason;
use ingest_quota::Timestamp;

/// Why the credentials so far did not serve a request.
#[derive(Default)]
pub struct PassedOver {
    /// The limit's refusal that fits soonest.
    soonest: Option<(Timestamp, StopReason)>,
    /// The first rejection of a credential.
    denied: Option<StopReason>,
}

impl PassedOver {
    /// Adds a credential and why it did not serve the request.
    ///
    /// # Errors
    /// The reason concerns the other credentials too.
    pub fn add(
        &mut self,
        credential: &str,
        mut reason: StopReason,
        stats: &mut PassStats,
    ) -> Result<(), StopReason> {
        if let Some(at) = reason.stop().map(|stop| stop.retry_at) {
            let soonest = self.soonest.as_ref();
            if soonest.is_none_or(|(soonest, _)| at < *soonest) {
                self.soonest = Some((at, reason));
            }
            return Ok(());
        }
        match &reason {
            StopReason::Denied(why) => stats.deny(credential, why),
            // Another credential may be allowed to request it.
            StopReason::Forbidden(_) => {}
            _ => return Err(reason),
        }
        self.denied.get_or_insert(reason);
        Ok(())
    }

    /// Returns why none served it. A limit says when to come back; the rejections are in the statistics as well.
    pub fn reason(self) -> StopReason {
        let soonest = self.soonest.map(|(_, reason)| reason);
        soonest
            .or(self.denied)
            .unwrap_or_else(|| StopReason::Failed("the job has no credential".to_owned()))
    }
}
