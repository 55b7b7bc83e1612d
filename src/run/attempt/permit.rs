//! The permit to send one request: from what this run knows, then a connection, then a charge in the ledger.

use std::time::Duration;

use super::refusal::Retry;
use super::turn::Turn;
use super::{Attempt, NoPage};
use crate::run::blocked::Subject;
use crate::run::outcome::StoppedBy;
use crate::run::steps::ids_of;
use crate::run::stop_reason::{Refused, StopReason};
use ingest_base::clock::Deadline;
use ingest_catalog::Resource;
use ingest_ledger::{Acquired, ChargeRequest, ClientError, Permit, Purpose};
use ingest_quota::Rejection;
use ingest_upstream::{Connection, Failure};

impl Attempt<'_> {
    /// Returns a charge and the connection to send its request on. Connecting comes first, since it can take longer than a
    /// grant lasts. Where no connection can be made, the ledger is charged all the same: a limit is exhausted whether or not
    /// the upstream can be reached, and then that is the result.
    pub async fn permit(&mut self, turn: &Turn) -> Result<(Permit, Connection), NoPage> {
        let mut connection = Connection::default();
        loop {
            self.check(turn).await?;
            let connected = self.connect(&mut connection);
            let connected = self
                .waiting("a connection to the upstream", connected)
                .await?;
            match self.waiting("the ledger", self.charge()).await? {
                Acquired::Permitted(permit) => {
                    let Err(failure) = connected else {
                        self.stats.charge(&self.cost, permit.metered);
                        return Ok((permit, connection));
                    };
                    self.context.ledger.release(self.account(), &permit).await?;
                    return Err(self.not_connected(failure));
                }
                Acquired::Rejected(rejection) => self.wait_until_it_fits(&rejection).await?,
                Acquired::Never { limit, most } => {
                    return Err(NoPage::Stop(StopReason::Failed(format!(
                        "{} can never be granted: it needs more {limit} than the {most} that one \
                        charge can use",
                        self.call.name
                    ))));
                }
                Acquired::Refused(why) => return Err(NoPage::Stop(StopReason::LedgerAway(why))),
            }
        }
    }

    /// Returns until when a permitted request may leave: for as long as its grant is good and its leases are trusted. A process
    /// that was stopped since the charge could send what another machine sends now.
    pub fn deadline(&self, permit: &Permit) -> Deadline {
        let leases = self.leased();
        let leases = leases.filter_map(|resource| self.context.leases.trusted_until(&resource));
        leases.fold(permit.deadline, Deadline::sooner)
    }

    /// Returns what the request needs the leases of.
    fn leased(&self) -> impl Iterator<Item = Resource> {
        let region = Resource::region(&self.job.name, &self.region.key());
        let ids = self.step.ids.is_some().then(|| ids_of(self.job, self.step));
        std::iter::once(region).chain(ids)
    }

    /// Checks what this run has learned, so that it charges no unit to learn it again.
    async fn check(&self, turn: &Turn) -> Result<(), StopReason> {
        let (context, credential) = (self.context, &self.job.credential);
        self.pause().await;
        // Behind the pause, which a signal ends.
        if context.stop.signal().is_some() {
            return Err(StopReason::Interrupted(None));
        }
        let why = |subject| context.blocked.why(&subject);
        if let Some(why) = why(Subject::Credential(credential.name.clone())) {
            return Err(StopReason::Denied(why));
        }
        let unreachable = why(Subject::Upstream(credential.upstream.name.clone()));
        let held = || why(Subject::Account(self.account().name.clone()));
        if let Some(why) = unreachable.or_else(held) {
            return Err(StopReason::Failed(why));
        }
        for resource in self.leased() {
            let until = context.leases.trusted_until(&resource);
            if until.is_some_and(|until| until.is_past()) {
                return Err(StopReason::Failed(format!(
                    "the database did not confirm the lease of {resource} in time: another machine may walk it"
                )));
            }
        }
        // A page that cannot be landed is not paid for.
        context.can_land().await?;
        let ready = context.ready(credential);
        match self.waiting("its secret", ready).await {
            // The token endpoint rejected it.
            Err(StopReason::Denied(why)) => return Err(self.rejected(turn, why)),
            ready => ready?,
        }
        let (account, call) = (&credential.account, &self.call.name);
        match context.blocked.refusal(account, call, self.claim()) {
            Some(refused) => Err(StopReason::Stopped(refused.into(), Refused::Charge)),
            None => Ok(()),
        }
    }

    /// Waits while the upstream requests that the account slow down, and again where it extends that meanwhile.
    async fn pause(&self) {
        let context = self.context;
        let mut waited_for = None;
        while let Some(until) = context
            .blocked
            .slowed_until(&self.account().name)
            .filter(|until| waited_for != Some(*until))
        {
            let pause = until.since(context.clock.now());
            context.stop.sleep(&*context.clock, pause).await;
            waited_for = Some(until);
        }
    }

    /// Connects unless `connection` is still open.
    async fn connect(
        &self,
        connection: &mut Connection,
    ) -> Result<Result<(), Failure>, StopReason> {
        if connection.is_open() {
            return Ok(Ok(()));
        }
        let upstream = self.context.upstream(&self.job.credential)?;
        Ok(upstream.connect().await.map(|made| *connection = made))
    }

    async fn charge(&self) -> Result<Acquired, ClientError> {
        let purpose = Purpose {
            job: Some(self.job.name.clone()),
            region: Some(self.region.code.clone()),
            call: self.call.name.clone(),
        };
        let charge = ChargeRequest {
            account: self.account(),
            id: None,
            cost: &self.cost,
            leave: &self.leave,
            outage: self.call.outage_policy(self.context.cheap_max),
            purpose: &purpose,
        };
        self.context.ledger.acquire(charge).await
    }

    fn not_connected(&self, failure: Failure) -> NoPage {
        self.log(&Err(failure.clone()), Duration::ZERO);
        match failure {
            Failure::Unreachable(why) => NoPage::Retry(Retry::unreachable(why)),
            failure => NoPage::Stop(StopReason::Failed(failure.to_string())),
        }
    }

    /// Waits for a charge to fit, if its limit is configured to be waited for that long.
    async fn wait_until_it_fits(&self, rejection: &Rejection) -> Result<(), StopReason> {
        let context = self.context;
        if rejection.retry_after <= self.job.credential.wait(&rejection.limit) {
            let wait = rejection.retry_after;
            context.stop.sleep(&*context.clock, wait).await;
            return Ok(());
        }
        let limit = rejection.limit.clone();
        let stopped_by = StoppedBy {
            remaining: rejection.remaining,
            ..self.stopped_by(limit, rejection.retry_at, rejection.retry_after)
        };
        let claim = stopped_by.units + stopped_by.leave();
        context
            .blocked
            .refuse(Some(claim), stopped_by.clone(), context.clock.now());
        Err(StopReason::Stopped(stopped_by.into(), Refused::Charge))
    }
}
