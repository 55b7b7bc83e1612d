//! The turn of a request: until its credential was accepted once with its present secrets, one request goes alone.

use super::Attempt;
use crate::run::blocked::Subject;
use crate::run::credentials::{Digest, Known};
use crate::run::stop_reason::StopReason;
use tokio::sync::OwnedMutexGuard;

/// The turn of one request, until it is answered.
#[derive(Default)]
pub struct Turn {
    /// What the request carries; `None` for a credential without a secret, of which nothing is known.
    carries: Option<Digest>,
    /// Others wait meanwhile.
    _alone: Option<OwnedMutexGuard<()>>,
}

impl Attempt<'_> {
    /// Waits for the turn of the request, before anything is charged for it.
    ///
    /// # Errors
    /// The upstream rejected the credential, or a signal ended the wait.
    pub async fn turn(&self) -> Result<Turn, StopReason> {
        let (context, credential) = (self.context, &self.job.credential);
        let credentials = &context.blocked.credentials;
        // A secret that is missing is reported by what checks it before the charge.
        let secrets = context.upstream(credential)?.secrets();
        let Ok(Some(secrets)) = self.waiting("its secret", secrets).await else {
            return Ok(Turn::default());
        };
        let Some(digest) = credentials.digest(credential, &secrets) else {
            return Ok(Turn::default());
        };
        if self.is_accepted(&digest)? {
            return Ok(Turn::beside(digest));
        }
        let mut stop = context.stop.clone();
        let first = credentials.first(&credential.name).lock_owned();
        let first = self.waiting("the first answer to its credential", first);
        let alone = tokio::select! {
            biased;
            () = stop.wait() => return Err(StopReason::Interrupted(None)),
            alone = first => alone,
        };
        // The request before this one has shown it.
        let subject = Subject::Credential(credential.name.clone());
        if let Some(why) = context.blocked.why(&subject) {
            return Err(StopReason::Denied(why));
        }
        if self.is_accepted(&digest)? {
            return Ok(Turn::beside(digest));
        }
        Ok(Turn {
            carries: Some(digest),
            _alone: Some(alone),
        })
    }

    /// Whether the upstream has accepted the credential; `false` where nothing is known.
    fn is_accepted(&self, digest: &Digest) -> Result<bool, StopReason> {
        let known = self.context.known(self.job, &self.job.credential, digest);
        match known {
            Known::Accepted => Ok(true),
            Known::Nothing => Ok(false),
            Known::Rejected(why) => Err(StopReason::Denied(why)),
        }
    }

    /// Records that the upstream accepted the credential.
    pub fn accepted(&self, turn: &Turn) {
        let (name, blocked) = (&self.job.credential.name, &self.context.blocked);
        blocked.accept(name);
        if let Some(digest) = &turn.carries {
            blocked.credentials.accept(name, digest);
        }
    }

    /// Records that the upstream rejected the credential, and returns why with when it is asked again.
    pub fn rejected(&self, turn: &Turn, why: String) -> StopReason {
        let (context, name) = (self.context, &self.job.credential.name);
        let credentials = &context.blocked.credentials;
        let why = match &turn.carries {
            // Perhaps it is withdrawn, perhaps these requests are forbidden: the first request of the next run goes alone.
            Some(_) if context.blocked.was_accepted(name) => {
                credentials.forget(name);
                why
            }
            Some(digest) => {
                let at = context.clock.now();
                credentials.reject(digest, (self.job, &self.region.key()), &why, at)
            }
            None => why,
        };
        let subject = Subject::Credential(name.clone());
        context.blocked.block(subject, &why);
        StopReason::Denied(why)
    }
}

impl Turn {
    /// The turn of a request that no other one waits for.
    const fn beside(digest: Digest) -> Self {
        Self {
            carries: Some(digest),
            _alone: None,
        }
    }
}
