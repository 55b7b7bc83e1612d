//! What the stand-in knows, and how it answers one request.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use url::Url;

use super::answer::{Answer, Ending};
use super::asked::{Arrived, Asked};
use super::count::{Counted, Counts, Exhausted, Pace};
use super::credential::Accounts;
use super::fault::{self, Fault, Hit, Kind};
use super::generic::is_free;
use super::log::{self, Logged};
use super::refusal::Refusal;
use super::route::{self, Route};
use super::stand_in::StandIn;
use super::{Options, below};
use crate::clock::Clock;
use crate::config::{Config, Etag};
use crate::quota::Timestamp;

/// Everything that requests share.
pub struct State {
    routes: Vec<Route>,
    accounts: Accounts,
    stand_in: StandIn,
    root: Url,
    latency: Duration,
    clock: Arc<dyn Clock>,
    changing: Mutex<Changing>,
}

struct Changing {
    counts: Counts,
    log: Vec<Logged>,
    faults: Vec<Fault>,
    /// How much the lists of a call hold, by its name.
    totals: BTreeMap<String, u64>,
    /// How often the same was asked.
    attempts: BTreeMap<String, u64>,
}

/// What was found out about a request before it is answered.
struct Verdict {
    exhausted: Option<Exhausted>,
    hit: Option<Hit>,
    /// What is answered if it fits.
    good: Answer,
}

impl State {
    pub fn new(
        config: &Config,
        options: &Options,
        root: Url,
        clock: Arc<dyn Clock>,
    ) -> serde_json::Result<Self> {
        let changing = Changing {
            counts: Counts::new(config, options.quota),
            log: Vec::new(),
            faults: Vec::new(),
            totals: BTreeMap::new(),
            attempts: BTreeMap::new(),
        };
        Ok(Self {
            routes: route::all(config),
            accounts: Accounts::new(config),
            stand_in: StandIn::new(options.seed, options.failure_rate)?,
            root,
            latency: options.latency,
            clock,
            changing: Mutex::new(changing),
        })
    }

    /// Answers a request to an upstream.
    pub fn answer(&self, arrived: &Arrived) -> Answer {
        let now = self.clock.now();
        let Some(route) = route::find(
            &self.routes,
            &arrived.upstream,
            &arrived.method,
            &arrived.path,
        ) else {
            self.changing().log.push(Logged::unknown(arrived, now));
            return Answer::json(404, json!({ "message": self.nothing_here(arrived) }));
        };
        let url = below(&self.root, &arrived.upstream, &arrived.path);
        let asked = Asked::new(route, arrived, url);
        let account = self.accounts.of(
            &route.upstream,
            arrived.secret(&route.upstream.auth).as_deref(),
        );
        let mut answer = match &account {
            Some(account) => self.answer_to(account, &asked, arrived.header("if-none-match"), now),
            None => self.stand_in.refuse(&asked, &Refusal::Denied),
        };
        answer.delay = answer.delay.saturating_add(self.latency);
        self.write_down(&asked, account, &answer, now);
        answer
    }

    fn answer_to(
        &self,
        account: &str,
        asked: &Asked<'_>,
        known: Option<&str>,
        now: Timestamp,
    ) -> Answer {
        let verdict = self.judge(account, asked, known, now);
        let usual = || self.usual(asked, &verdict);
        let answer = match &verdict.hit {
            Some(hit) => self.spoiled(account, asked, hit, usual()),
            None => usual(),
        };
        if answer.ending == Ending::Whole && is_free(&asked.route.upstream, &answer) {
            let cost = self.stand_in.cost(asked);
            self.changing().counts.take_back(account, &cost, now);
        }
        self.tell_what_is_left(account, asked, answer, now)
    }

    /// Finds out what is to become of a request, and counts it: all but one that costs nothing, since nothing changed.
    fn judge(
        &self,
        account: &str,
        asked: &Asked<'_>,
        known: Option<&str>,
        now: Timestamp,
    ) -> Verdict {
        let call = &asked.route.call;
        let (hit, attempt, total) = self.note(asked);
        let good = self.stand_in.answer(asked, attempt, total, known);
        let free = call.etag == Etag::Free && good.status == 304 && hit.is_none();
        let cost = self.stand_in.cost(asked);
        let exhausted = if free {
            None
        } else {
            self.changing().counts.count(account, &cost, now)
        };
        Verdict {
            exhausted,
            hit,
            good,
        }
    }

    /// Notes that a page is asked for: what a test wants to become of that, how often it was, how much its list holds.
    fn note(&self, asked: &Asked<'_>) -> (Option<Hit>, u64, Option<u64>) {
        let call = &asked.route.call.name;
        let mut changing = self.changing();
        let Changing {
            faults,
            totals,
            attempts,
            ..
        } = &mut *changing;
        let attempt = attempts.entry(asked.page()).or_default();
        *attempt = attempt.saturating_add(1);
        (
            fault::hit(faults, call),
            *attempt,
            totals.get(call).copied(),
        )
    }

    /// What is answered unless a test wants something else.
    fn usual(&self, asked: &Asked<'_>, verdict: &Verdict) -> Answer {
        match &verdict.exhausted {
            Some(exhausted) => self.stand_in.refuse(asked, &self.refusal(asked, exhausted)),
            None => verdict.good.clone(),
        }
    }

    fn refusal(&self, asked: &Asked<'_>, exhausted: &Exhausted) -> Refusal {
        let name = self
            .accounts
            .upstream_name(&asked.route.upstream.name, &exhausted.limit);
        match exhausted.pace {
            Pace::Budget => Refusal::Spent(exhausted.clone(), name),
            Pace::Rate => Refusal::SlowDown(exhausted.clone(), name),
        }
    }

    /// What a scripted fault makes of an answer.
    fn spoiled(&self, account: &str, asked: &Asked<'_>, hit: &Hit, usual: Answer) -> Answer {
        let refusal = match hit.kind {
            Some(Kind::Spent) => self.as_if_exhausted(account, asked, Pace::Budget),
            Some(Kind::SlowDown) => self.as_if_exhausted(account, asked, Pace::Rate),
            Some(Kind::Denied) => Some(Refusal::Denied),
            Some(Kind::BadCursor) => Some(Refusal::BadCursor),
            Some(Kind::Backend) => Some(Refusal::Backend(hit.status.unwrap_or(503))),
            _ => None,
        };
        hit.spoil(
            refusal.map_or(usual, |refusal| self.stand_in.refuse(asked, &refusal)),
            asked,
        )
    }

    fn as_if_exhausted(&self, account: &str, asked: &Asked<'_>, pace: Pace) -> Option<Refusal> {
        let (limit, now) = (
            asked.route.call.cost.limits().next()?.clone(),
            self.clock.now(),
        );
        let left = self
            .changing()
            .counts
            .left(account, &asked.route.call.cost, now);
        let (quota, fits_at) = left.map_or((0, now), |left| (left.quota, left.resets_at));
        let exhausted = Exhausted {
            limit,
            quota,
            fits_at,
            fits_in: fits_at.since(now),
            pace,
        };
        Some(self.refusal(asked, &exhausted))
    }

    /// The headers by which many upstreams tell what is left.
    fn tell_what_is_left(
        &self,
        account: &str,
        asked: &Asked<'_>,
        answer: Answer,
        now: Timestamp,
    ) -> Answer {
        if !self.stand_in.tells_what_is_left(asked) {
            return answer;
        }
        match self
            .changing()
            .counts
            .left(account, &asked.route.call.cost, now)
        {
            Some(left) => {
                let name = self
                    .accounts
                    .upstream_name(&asked.route.upstream.name, &left.limit);
                let resource = (
                    "x-ratelimit-resource",
                    name.unwrap_or_else(|| left.limit.clone()),
                );
                let told = left.told().into_iter().chain([resource]);
                told.fold(answer, |answer, (name, value)| {
                    answer.or_header(name, value)
                })
            }
            None => answer,
        }
    }

    fn write_down(
        &self,
        asked: &Asked<'_>,
        account: Option<String>,
        answer: &Answer,
        now: Timestamp,
    ) {
        let mut logged = Logged::new(asked, self.stand_in.ids(asked), account, now);
        logged.status = if answer.ending == Ending::Dropped {
            0
        } else {
            answer.status
        };
        self.changing().log.push(logged);
    }

    fn nothing_here(&self, arrived: &Arrived) -> String {
        let upstreams = self.routes.iter().map(|route| route.upstream.name.as_str());
        let names: std::collections::BTreeSet<&str> = upstreams.collect();
        let names: Vec<&str> = names.into_iter().collect();
        format!(
            "No call of an upstream is {} {}; upstreams are: {}.",
            arrived.method,
            arrived.path,
            names.join(", ")
        )
    }

    pub fn usage(&self) -> Vec<Counted> {
        self.changing().counts.usage(self.clock.now())
    }

    pub fn requests(&self) -> u64 {
        u64::try_from(self.changing().log.len()).unwrap_or(u64::MAX)
    }

    /// `GET /_sandbox/usage`
    pub fn report(&self) -> Value {
        let limits = self.usage();
        let changing = self.changing();
        json!({ "requests": changing.log.len(), "limits": limits, "calls": log::calls(&changing.log) })
    }

    /// `GET /_sandbox/requests`
    pub fn log(&self) -> Value {
        serde_json::to_value(&self.changing().log).unwrap_or_default()
    }

    /// `POST /_sandbox/faults`
    pub fn script(&self, faults: Vec<Fault>) {
        self.changing().faults.extend(faults);
    }

    /// `DELETE /_sandbox/faults`
    pub fn unscript(&self) {
        self.changing().faults.clear();
    }

    /// `POST /_sandbox/totals`
    pub fn resize(&self, totals: BTreeMap<String, u64>) {
        self.changing().totals.extend(totals);
    }

    fn changing(&self) -> MutexGuard<'_, Changing> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
