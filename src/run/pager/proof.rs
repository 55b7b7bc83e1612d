//! How the lists of a call end, which one list finds out for all.

use super::List;
use crate::run::stop_reason::StopReason;

impl List<'_> {
    /// Waits for the turn to request a further page that tells how lists of the call end, unless another list has found out
    /// meanwhile.
    pub(super) async fn ask(&mut self) -> Result<(), StopReason> {
        let (upstream, call) = (&self.job.credential.upstream, &self.step.call);
        let known = &self.context.known_calls;
        let turn = known.prove(upstream, call);
        let (waits, job) = (&self.context.waits, &self.job.name);
        let task = format_args!("{} of {job}", self.region.key());
        let listed = waits.begin(task, "how other lists of the call end");
        let mut stop = self.context.stop.clone();
        self.proof = tokio::select! {
            // A run that is told to stop sends no further page, even where its turn came at the same moment.
            biased;
            () = stop.wait() => return Err(StopReason::Interrupted(None)),
            turn = turn => Some(turn),
        };
        drop(listed);
        if self.review.learn(known.of(upstream, call)) {
            self.proof = None;
            return self.end(true, false, Vec::new()).await;
        }
        Ok(())
    }

    /// Keeps what the list shows of its call; of a doubtful one the errors alone.
    pub(super) async fn learn(&mut self) -> Result<(), StopReason> {
        let (upstream, call) = (&self.job.credential.upstream, &self.step.call);
        if !self.review.has_begun() {
            return Ok(());
        }
        let shown = self.review.shown();
        let alone = self.said.is_doubtful().then(|| shown.errors_alone());
        let shown = alone.as_ref().unwrap_or(shown);
        if let Some(facts) = self.context.known_calls.add(upstream, call, shown) {
            let stored = self.context.catalog.store_call_facts(facts);
            self.context
                .waits
                .on("what a call shows", "the catalog", stored)
                .await?;
        }
        Ok(())
    }
}
