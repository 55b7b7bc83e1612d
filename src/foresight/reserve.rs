//! What a backfill leaves to other jobs. A backfill charges whatever it can, so without this the jobs that are due later in the
//! same window would find nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::run::estimate::{Estimator, PassEstimate, expected_cost};
use crate::run::{Candidate, Selection, accounts, candidates};
use ingest_catalog::{CatalogError, CatalogReader};
use ingest_config::{Credential, Job, Leave};
use ingest_ledger::LedgerClient;
use ingest_quota::{Account, Cost, LimitName, Timestamp, Units};

/// The shortest time between two runs of a job without `every`, of which only the last one is known.
const EVERY_RUN: Duration = Duration::from_secs(60 * 60);
/// The turns of a region that are counted one by one. Where there are more, several are counted at the instant of the first.
const MOST_TURNS: u128 = 750;

/// Returns the selection with the units that its backfills leave to `others`, the jobs without slices: what these are going to
/// use before units that are charged now return.
///
/// # Errors
/// When the catalog cannot be read.
pub async fn reserved(
    catalog: &CatalogReader,
    ledger: &dyn LedgerClient,
    selection: Selection,
    others: &Selection,
    now: Timestamp,
) -> Result<Selection, CatalogError> {
    // Every run and preview asks, and most have no backfill: nothing is read for it.
    let leaves_needed = |job: &Job| matches!(job.leave, Leave::Needed(_));
    if selection.iter().all(|(job, _)| !leaves_needed(job)) {
        return Ok(selection);
    }
    let sliced = selection.iter().filter(|(job, _)| leaves_needed(job));
    let own = accounts(sliced.flat_map(|(job, _)| job.credentials()));
    let of_accounts = others.iter().filter(|(job, _)| {
        let is_own = |account: &Arc<Account>| own.iter().any(|own| own.name == account.name);
        job.slices.is_none() && job.credentials().any(|one| is_own(&one.account))
    });
    let others: Selection = of_accounts.cloned().collect();
    let is_selected = |job: &Job| selection.iter().any(|(one, _)| one.name == job.name);
    // In one run the backfill comes after them.
    let walk_first = others.iter().all(|(job, _)| is_selected(job));
    let accounts = accounts(others.iter().flat_map(|(job, _)| job.credentials()));
    let limits = accounts.iter().flat_map(|one| one.limits.values());
    let until = limits.map(|limit| limit.window().expiry(now)).max();
    let mut needs = Vec::new();
    for other in &others {
        let candidates = candidates(catalog, &vec![other.clone()], now).await?;
        let estimator = Estimator {
            catalog,
            job: &other.0,
            now,
        };
        needs.extend(needs_of(estimator, &candidates, until.unwrap_or(now)).await?);
    }
    let use_now = Use::read(ledger, &accounts).await;
    let growth = use_now.growth(needs, walk_first, now);
    let leaving = |job: Arc<Job>| match leaves_needed(&job) {
        true => Arc::new(leaving(&job, &growth)),
        false => job,
    };
    let selection = selection.into_iter();
    Ok(selection
        .map(|(job, regions)| (leaving(job), regions))
        .collect())
}

/// What a job charges to its account, or to that of another of its credentials.
type Costs = Arc<[(Arc<Account>, Cost)]>;

/// What a job is going to charge.
struct Need {
    at: Timestamp,
    /// One turn.
    costs: Costs,
    turns: u64,
}

/// When something is charged: first at one instant, then again and again; `None`: only once, as far as is known.
#[derive(Clone, Copy)]
struct Turns {
    first: Timestamp,
    interval: Option<Duration>,
    until: Timestamp,
}

impl Turns {
    /// Returns the need of each turn before the end, of which the later ones can cost more than the first.
    fn needs(self, first: &Costs, later: &Costs) -> Vec<Need> {
        let need = |at, costs: &Costs, turns| Need {
            at,
            costs: Arc::clone(costs),
            turns,
        };
        let mut needs = Vec::new();
        if self.first < self.until {
            needs.push(need(self.first, first, 1));
        }
        let Some(interval) = self.interval.filter(|interval| !interval.is_zero()) else {
            return needs;
        };
        let all = self.until.since(self.first).as_micros() / interval.as_micros().max(1);
        let together = u32::try_from(all / MOST_TURNS + 1).unwrap_or(u32::MAX);
        let mut at = self.first + interval;
        while at < self.until {
            needs.push(need(at, later, together.into()));
            at += interval * together;
        }
        needs
    }
}

/// Returns what a job charges before `until`: its pages region by region, and the batches of all regions together.
async fn needs_of(
    estimator: Estimator<'_>,
    candidates: &[Candidate],
    until: Timestamp,
) -> Result<Vec<Need>, CatalogError> {
    let Estimator { job, now, .. } = estimator;
    let ids = job.steps.iter().filter_map(|step| step.ids.as_ref());
    let fresh_for: Vec<Duration> = ids.map(|ids| ids.fresh_for.unwrap_or_default()).collect();
    let first = passes(estimator, candidates).await?;
    let mut again = candidates.to_vec();
    again.iter_mut().for_each(|one| one.state.unfinished = None);
    // Later passes are whole, and nothing that was fetched before them is fresh.
    let stale = Estimator {
        now: now + fresh_for.iter().max().copied().unwrap_or_default(),
        ..estimator
    };
    let again = passes(stale, &again).await?;
    let interval = interval(job, candidates, now);
    let due = |one: &Candidate| match one.resumable(now) {
        Some(_) => now,
        None => one.due_at().map_or(now, |due| due.max(now)),
    };
    let turns = |first, interval| Turns {
        first,
        interval,
        until,
    };
    let mut needs = Vec::new();
    for ((candidate, first), again) in candidates.iter().zip(&first).zip(&again) {
        let pages = |pass| costs(job, &[pages_alone(pass)]);
        needs.extend(turns(due(candidate), interval).needs(&pages(first), &pages(again)));
    }
    if let (Some(shortest), Some(at)) = (fresh_for.iter().min(), candidates.iter().map(due).min()) {
        let batches = |all: &[PassEstimate]| {
            let all: Vec<PassEstimate> = all.iter().map(batches_alone).collect();
            costs(job, &all)
        };
        let interval = interval.map(|interval| interval.max(*shortest));
        needs.extend(turns(at, interval).needs(&batches(&first), &batches(&again)));
    }
    Ok(needs)
}

async fn passes(
    estimator: Estimator<'_>,
    candidates: &[Candidate],
) -> Result<Vec<PassEstimate>, CatalogError> {
    let candidates: Vec<&Candidate> = candidates.iter().collect();
    estimator.passes(&candidates).await
}

fn pages_alone(pass: &PassEstimate) -> PassEstimate {
    PassEstimate {
        ids: BTreeMap::new(),
        ..pass.clone()
    }
}

fn batches_alone(pass: &PassEstimate) -> PassEstimate {
    PassEstimate {
        pages: BTreeMap::new(),
        ..pass.clone()
    }
}

/// Returns after how long a region of a job is due again: without `every`, which nothing configures, as long after now as its
/// last pass is before; `None` if there was none.
fn interval(job: &Job, candidates: &[Candidate], now: Timestamp) -> Option<Duration> {
    let last = candidates.iter().filter_map(|one| one.state.last_complete);
    let ago = || Some(now.since(last.max()?).max(EVERY_RUN));
    job.every.or_else(ago)
}

fn costs(job: &Job, passes: &[PassEstimate]) -> Costs {
    let with = |job: Job| {
        let cost = expected_cost(&job, passes);
        (Arc::clone(&job.credential.account), cost)
    };
    job.by_credential().map(with).collect()
}

/// A limit of an account.
type LimitOf = (String, LimitName);

type Used = BTreeMap<LimitOf, Units>;

/// The use of some limits, as far as nothing more is charged.
#[derive(Default)]
struct Use {
    now: Used,
    /// When units return.
    returns: Vec<(Timestamp, LimitOf, Units)>,
}

impl Use {
    /// Reads the use of these accounts. Where the ledger cannot be reached, nothing is used.
    async fn read(ledger: &dyn LedgerClient, accounts: &[Arc<Account>]) -> Self {
        let mut all = Self::default();
        for account in accounts {
            for usage in ledger.usage(account).await.unwrap_or_default() {
                let limit = (account.name.clone(), usage.limit);
                let back = usage.returns.iter();
                let returns = back.map(|back| (back.at, limit.clone(), back.units));
                all.returns.extend(returns);
                all.now.insert(limit, usage.used);
            }
        }
        all.returns.sort_by_key(|(at, ..)| *at);
        all
    }

    /// Returns how much more of each limit is used at the peak than at `now`, while a unit that is charged then still counts. What is
    /// needed at `now` is used before that if the others walk first.
    fn growth(self, mut needs: Vec<Need>, walk_first: bool, now: Timestamp) -> Used {
        needs.sort_by_key(|need| need.at);
        let mut returns = self.returns.into_iter().peekable();
        let (mut before, mut used, mut growth) = (self.now.clone(), self.now, Used::new());
        for need in needs {
            while let Some((_, limit, units)) = returns.next_if(|(at, ..)| *at <= need.at) {
                let used = used.entry(limit).or_default();
                *used = used.saturating_sub(units);
            }
            let Some((account, cost)) = need.charged(&used) else {
                continue;
            };
            for (name, limit) in account.charged(&cost) {
                let place = (account.name.clone(), name.clone());
                let used = used.entry(place.clone()).or_default();
                *used += cost.of(name);
                if walk_first && need.at <= now {
                    before.insert(place, *used);
                } else if limit.window().expiry(now) > need.at {
                    let before = before.get(&place).copied().unwrap_or_default();
                    let most = growth.entry(place).or_default();
                    *most = used.saturating_sub(before).max(*most);
                }
            }
        }
        growth
    }
}

impl Need {
    /// Returns what it charges: to the first account that has room for it, or to the first.
    fn charged(&self, used: &Used) -> Option<(Arc<Account>, Cost)> {
        let of_turns =
            |(account, cost): &(Arc<Account>, Cost)| (Arc::clone(account), cost.times(self.turns));
        let has_room = |(account, cost): &(Arc<Account>, Cost)| {
            account.charged(cost).all(|(name, limit)| {
                let place = (account.name.clone(), name.clone());
                let used = used.get(&place).copied().unwrap_or_default();
                limit.fits(used, cost.of(name), Units::ZERO)
            })
        };
        let mut all = self.costs.iter().map(of_turns);
        all.find(has_room)
            .or_else(|| self.costs.first().map(of_turns))
    }
}

/// Returns the job with what it leaves.
fn leaving(job: &Job, growth: &Used) -> Job {
    let of_each = job.credentials().map(|credential| {
        let needed = needed(credential, job, growth);
        (credential.name.clone(), needed)
    });
    Job {
        leave: Leave::Needed(of_each.collect()),
        ..job.clone()
    }
}

/// Returns what other jobs need of the limits of a credential. A job can use a limit that nobody else uses at the moment, so it is never
/// all of it.
fn needed(credential: &Credential, job: &Job, growth: &Used) -> Cost {
    let account = &credential.account;
    let mut needed = Cost::none();
    for ((_, limit), units) in growth.iter().filter(|((name, _), _)| *name == account.name) {
        let configured = credential.configured_name(limit);
        let costs = job.steps.iter().map(|step| step.call.cost.of(configured));
        let largest = costs.max().unwrap_or_default();
        let enforced = account.limits.get(limit).map(ingest_quota::Limit::enforced);
        let most = enforced.unwrap_or_default().saturating_sub(largest);
        needed.set(configured, (*units).min(most).max(needed.of(configured)));
    }
    needed
}
