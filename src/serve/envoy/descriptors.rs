//! What the descriptors of a request charge.
//!
//! All of them are charged, or none: if one is over its limit, what the others were charged is returned.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tonic::Status;

use super::messages::{
    Code, Descriptor, DescriptorStatus, RateLimit, RateLimitRequest, RateLimitResponse, Unit,
};
use crate::cli::ChargeArgs;
use crate::commands::Error;
use crate::commands::charge::{Charged, Charging, Refusal, UnitsArgs, Word};
use crate::commands::environment::Environment;
use crate::serve::App;
use crate::serve::client::Client;
use crate::serve::fields::whole_seconds;
use crate::serve::problem::Problem;
use ingest_config::{EnvoyConfig, EnvoyDescriptor};
use ingest_quota::{Account, ChargeId, Cost, Limit, LimitName, Units};

/// The most descriptors of a request.
const MOST: usize = 32;
/// The newest charges of a descriptor that a refund can return.
const KEPT: usize = 10_000;
/// The descriptors without a limit that are reported, each once.
const REPORTED: usize = 100;

/// What each descriptor charges.
pub struct Descriptors {
    domain: String,
    known: Vec<Arc<KnownDescriptor>>,
    reported: Mutex<HashSet<String>>,
}

/// A descriptor of the configuration.
struct KnownDescriptor {
    config: EnvoyDescriptor,
    account: Arc<Account>,
    /// Of one hit.
    cost: Cost,
    /// Newest last.
    charges: Mutex<VecDeque<Kept>>,
}

/// A charge that a refund can return.
#[derive(Clone)]
struct Kept {
    id: ChargeId,
    hits: u64,
}

/// A descriptor of a request.
enum Wish {
    Unlimited,
    Look(Arc<KnownDescriptor>),
    Charge(Arc<KnownDescriptor>, u64),
    Refund(Arc<KnownDescriptor>, u64),
}

impl Descriptors {
    /// Finds what each configured descriptor charges.
    ///
    /// # Errors
    /// A descriptor charges what does not exist.
    pub fn new(environment: &Environment, config: &EnvoyConfig) -> Result<Self, Error> {
        let known = config.descriptors.iter().map(|one| {
            let charging = charging(environment, one, 1)?;
            Ok(Arc::new(KnownDescriptor {
                config: one.clone(),
                account: Arc::clone(charging.account()),
                cost: charging.cost().clone(),
                charges: Mutex::default(),
            }))
        });
        Ok(Self {
            domain: config.domain.clone(),
            known: known.collect::<Result<_, Error>>()?,
            reported: Mutex::default(),
        })
    }

    /// Charges what a request names.
    pub async fn charge(
        &self,
        app: &App,
        client: &Client,
        request: &RateLimitRequest,
    ) -> Result<RateLimitResponse, Status> {
        let wishes = self.wishes(client, request)?;
        let mut headers = HashMap::new();
        let (mut statuses, mut granted) = (Vec::new(), Vec::new());
        for wish in &wishes {
            let is_over = statuses.iter().any(DescriptorStatus::is_over);
            let status = match wish {
                Wish::Unlimited => DescriptorStatus::unlimited(),
                Wish::Look(known) => known.look(app, 1).await?,
                // The request is over a limit already: this one is only looked at.
                Wish::Charge(known, hits) if is_over => known.look(app, *hits).await?,
                Wish::Charge(known, hits) => {
                    let charged = known.charge(app, *hits).await?;
                    if charged.decision == Word::Unmetered {
                        headers.insert("ingest-charge", "unmetered".to_owned());
                    }
                    granted.extend(charged.id.clone().map(|id| (known, id)));
                    known.status(&charged)?
                }
                // Below: returned units are spent at once, so they are returned only with all else of the request.
                Wish::Refund(..) => DescriptorStatus::unlimited(),
            };
            statuses.push(status);
        }
        let is_over = statuses.iter().any(DescriptorStatus::is_over);
        for (status, wish) in statuses.iter_mut().zip(&wishes) {
            if let Wish::Refund(known, hits) = wish {
                if !is_over {
                    known.refund(app, *hits).await?;
                }
                *status = known.look(app, 0).await?;
            }
        }
        let over = statuses.iter().filter(|status| status.is_over());
        // The request fits when the last of its descriptors does.
        let resets = over.filter_map(|status| status.duration_until_reset);
        if let Some(reset) = resets.max_by_key(|reset| (reset.seconds, reset.nanos)) {
            let nanos = u32::try_from(reset.nanos).unwrap_or_default();
            let span = Duration::new(reset.seconds.unsigned_abs(), nanos);
            headers.insert("retry-after", whole_seconds(span).to_string());
        }
        if statuses.iter().any(DescriptorStatus::is_over) {
            for (known, id) in granted {
                known.take_back(app, &id).await?;
            }
        }
        Ok(RateLimitResponse::of(statuses, headers))
    }

    fn wishes(&self, client: &Client, request: &RateLimitRequest) -> Result<Vec<Wish>, Status> {
        if request.domain.is_empty() || !(1..=MOST).contains(&request.descriptors.len()) {
            let why = format!("expected a domain and 1 to {MOST} descriptors");
            return Err(Status::invalid_argument(why));
        }
        let wishes = request.descriptors.iter().map(|descriptor| {
            let Some(known) = self.known(&request.domain, descriptor) else {
                return Ok(Wish::Unlimited);
            };
            if !client.config.may_charge(&known.config.credential) {
                return Err(Status::permission_denied(format!(
                    "client `{}` may not charge credential `{}`",
                    client.name, known.config.credential
                )));
            }
            // The protocol cannot tell a 0 of the request from an unset one, which means 1.
            let of_request = u64::from(request.hits_addend).max(1);
            let hits = descriptor.hits_addend.map_or(of_request, |hits| hits.value);
            Ok(match (hits, descriptor.is_negative_hits) {
                (0, _) => Wish::Look(known),
                (hits, true) => Wish::Refund(known, hits),
                (hits, false) => Wish::Charge(known, hits),
            })
        });
        wishes.collect()
    }

    /// What a descriptor charges; `None`: nothing.
    fn known(&self, domain: &str, descriptor: &Descriptor) -> Option<Arc<KnownDescriptor>> {
        let entries = descriptor.entries.iter();
        let entries = entries.map(|entry| (entry.key.as_str(), entry.value.as_str()));
        let found = (domain == self.domain).then(|| {
            let mut known = self.known.iter();
            known.find(|one| one.config.matches(entries.clone()))
        });
        let found = found.flatten().cloned();
        if found.is_none() {
            let keys: Vec<&str> = entries.map(|(key, _)| key).collect();
            self.report(domain, &keys);
        }
        found
    }

    /// Reports descriptors that nothing limits, those with the same keys once.
    fn report(&self, domain: &str, keys: &[&str]) {
        let shown = ingest_base::plain::one_line(&format!("{domain}: {}", keys.join(", ")));
        // Clients choose the keys, so neither the log nor this set may grow with them.
        let mut reported = locked(&self.reported);
        if reported.len() < REPORTED && reported.insert(shown.to_string()) {
            tracing::warn!(
                "no descriptor of [serve.envoy] matches `{shown}`, so it is not limited"
            );
        }
    }
}

impl KnownDescriptor {
    async fn charge(&self, app: &App, hits: u64) -> Result<Charged, Status> {
        let charging = charging(&app.environment, &self.config, hits);
        let charging = charging.map_err(|error| refused(error.into()))?;
        let charged = app.charge(charging).await.map_err(refused)?;
        if let Some(id) = charged.id.clone() {
            let mut kept = locked(&self.charges);
            kept.push_back(Kept { id, hits });
            if kept.len() > KEPT {
                kept.pop_front();
            }
        }
        Ok(charged)
    }

    /// Returns hits that were charged before, the newest charges first. What this server did not charge is not returned.
    async fn refund(&self, app: &App, mut hits: u64) -> Result<(), Status> {
        while hits > 0 {
            // Taken out before the ledger is asked, so that two refunds at once do not return the same charge.
            let Some(last) = locked(&self.charges).pop_back() else {
                return Ok(());
            };
            let left = last.hits.saturating_sub(hits);
            if let Err(status) = self.settle(app, &last.id, left).await {
                locked(&self.charges).push_back(last);
                return Err(status);
            }
            hits = hits.saturating_sub(last.hits);
            if left > 0 {
                let kept = Kept { hits: left, ..last };
                locked(&self.charges).push_back(kept);
            }
        }
        Ok(())
    }

    async fn take_back(&self, app: &App, id: &ChargeId) -> Result<(), Status> {
        // First, so that a refund that comes meanwhile does not count on it.
        locked(&self.charges).retain(|kept| kept.id != *id);
        self.settle(app, id, 0).await
    }

    /// Corrects a charge to this many hits.
    async fn settle(&self, app: &App, id: &ChargeId, hits: u64) -> Result<(), Status> {
        let (account, id, cost) = (Arc::clone(&self.account), id.clone(), self.cost.times(hits));
        let settled = app
            .in_ledger(move |ledger| async move { Ok(ledger.settle(&account, &id, &cost).await?) });
        settled.await.map_err(refused)
    }

    /// How a charge of `hits` would be answered now. Charges nothing.
    async fn look(&self, app: &App, hits: u64) -> Result<DescriptorStatus, Status> {
        let (account, cost) = (Arc::clone(&self.account), self.cost.times(hits));
        let now = app.environment.clock.now();
        let looked = app.in_ledger(move |ledger| async move {
            let (mut remaining, mut waits) = (HashMap::new(), None);
            for usage in ledger.usage(&account).await? {
                let units = cost.of(&usage.limit);
                remaining.insert(usage.limit.clone(), usage.remaining);
                if units <= usage.remaining {
                    continue;
                }
                let enforced = account.limits.get(&usage.limit).map(Limit::enforced);
                let most = enforced.unwrap_or_default().saturating_sub(units);
                let falls = ledger.falls_to(&account, &usage.limit, most).await?;
                let falls = falls.max(usage.closed_until);
                waits = waits.max(Some(falls.map_or(Duration::ZERO, |at| at.since(now))));
            }
            Ok((remaining, waits))
        });
        let (remaining, waits) = looked.await.map_err(refused)?;
        let remaining = |limit: &LimitName| remaining.get(limit).copied();
        let code = if waits.is_some() {
            Code::OverLimit
        } else {
            Code::Ok
        };
        Ok(self.status_of(code, remaining, waits))
    }

    fn status(&self, charged: &Charged) -> Result<DescriptorStatus, Status> {
        let remaining = |limit: &LimitName| charged.remaining.get(limit).copied();
        match (charged.decision, charged.refusal) {
            (Word::Granted, _) => Ok(self.status_of(Code::Ok, remaining, None)),
            (Word::Unmetered, _) => Ok(DescriptorStatus::unlimited()),
            (Word::Rejected, _) => {
                let seconds = charged.retry_after_seconds.unwrap_or_default();
                let wait = Duration::try_from_secs_f64(seconds).unwrap_or_default();
                Ok(self.status_of(Code::OverLimit, remaining, Some(wait)))
            }
            // An error would let the request pass, as Envoy is mostly configured.
            (Word::Refused, Some(Refusal::Never)) => {
                Ok(self.status_of(Code::OverLimit, remaining, None))
            }
            (Word::Refused, Some(Refusal::OtherCharge | Refusal::Unavailable) | None) => {
                Err(Status::unavailable(&charged.detail))
            }
        }
    }

    /// The status by the limit that grants the fewest hits. All numbers are hits of this descriptor.
    fn status_of(
        &self,
        code: Code,
        remaining: impl Fn(&LimitName) -> Option<Units>,
        waits: Option<Duration>,
    ) -> DescriptorStatus {
        let hits = |units: Units, cost: Units| units.get() / cost.get().max(1);
        let limits = self.cost.iter().filter_map(|(limit, cost)| {
            let configured = self.account.limits.get(limit)?;
            Some((hits(remaining(limit)?, cost), limit, configured, cost))
        });
        let Some((left, name, limit, cost)) = limits.min_by_key(|(left, ..)| *left) else {
            return DescriptorStatus {
                code: code.into(),
                duration_until_reset: waits.map(Into::into),
                ..DescriptorStatus::default()
            };
        };
        let in_32_bits = |hits: u64| u32::try_from(hits).unwrap_or(u32::MAX);
        DescriptorStatus {
            code: code.into(),
            current_limit: Some(RateLimit {
                requests_per_unit: in_32_bits(hits(limit.enforced(), cost)),
                unit: Unit::of(limit.window().longest()).into(),
                name: name.clone(),
            }),
            limit_remaining: in_32_bits(left),
            duration_until_reset: waits.map(Into::into),
        }
    }
}

/// The charge of hits of a descriptor.
fn charging(
    environment: &Environment,
    descriptor: &EnvoyDescriptor,
    hits: u64,
) -> Result<Charging, Error> {
    let EnvoyDescriptor {
        credential,
        call,
        cost,
        region,
        ..
    } = descriptor;
    match (call, cost) {
        (Some(call), _) => Charging::new(
            environment,
            &ChargeArgs {
                credential: credential.clone(),
                call: call.clone(),
                id: None,
                region: region.clone(),
                times: hits,
            },
        ),
        (None, Some(cost)) => Charging::of_units(
            environment,
            &UnitsArgs {
                credential,
                cost: &cost.times(hits),
                region: region.as_deref(),
                purpose: "envoy",
                id: None,
            },
        ),
        (None, None) => Err(Error::Usage(
            "a descriptor of [serve.envoy] needs `call` or `cost`".to_owned(),
        )),
    }
}

fn refused(problem: Problem) -> Status {
    match problem.status {
        503 => Status::unavailable(problem.detail),
        400..=499 => Status::invalid_argument(problem.detail),
        _ => Status::internal(problem.detail),
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}
