//! What the stand-in knows, and how it answers one request.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use url::Url;

use super::answer::{Answer, Content, Ending};
use super::asked::{Arrived, Asked};
use super::chance::Chance;
use super::count::{Counted, Counts, Exhausted, Pace};
use super::credential::Accounts;
use super::fault::{self, Fault, Hit, Kind, Mishap};
use super::generic;
use super::log::{self, Logged};
use super::refusal::Refusal;
use super::route::{self, Route};
use super::youtube::{self, Resource, Resources};
use super::{Options, below};
use crate::clock::Clock;
use crate::config::{Config, Paging};
use crate::quota::Timestamp;

/// Everything that requests share.
pub(super) struct State {
    routes: Vec<Route>,
    accounts: Accounts,
    resources: Resources,
    root: Url,
    world: Chance,
    failure_rate: f64,
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
    attempt: u64,
    total: Option<u64>,
}

impl State {
    pub(super) fn new(
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
            resources: Resources::read()?,
            root,
            world: Chance::new(options.seed),
            failure_rate: options.failure_rate,
            latency: options.latency,
            clock,
            changing: Mutex::new(changing),
        })
    }

    /// Answers a request to an upstream.
    pub(super) fn answer(&self, arrived: &Arrived) -> Answer {
        let now = self.clock.now();
        let Some(route) = route::find(&self.routes, &arrived.upstream, &arrived.method, &arrived.path) else {
            self.changing().log.push(Logged::unknown(arrived, now));
            return Answer::json(404, json!({ "message": self.nothing_here(arrived) }));
        };
        let url = below(&self.root, &arrived.upstream, &arrived.path);
        let asked = Asked::new(route, arrived, url);
        let account = self.accounts.of(&route.upstream, arrived.secret(&route.upstream.auth));
        let mut answer = match &account {
            Some(account) => self.answer_to(account, &asked, arrived.header("if-none-match"), now),
            None => self.refuse(&asked, &Refusal::Denied),
        };
        answer.delay = answer.delay.saturating_add(self.latency);
        self.write_down(&asked, account, &answer, now);
        answer
    }

    fn answer_to(&self, account: &str, asked: &Asked<'_>, known: Option<&str>, now: Timestamp) -> Answer {
        let verdict = self.judge(account, asked, now);
        let usual = || self.usual(asked, &verdict, known);
        let answer = match &verdict.hit {
            Some(hit) => self.spoiled(account, asked, hit, usual()),
            None => usual(),
        };
        self.tell_what_is_left(account, asked, answer, now)
    }

    /// Counts a request and finds out what is to become of it.
    fn judge(&self, account: &str, asked: &Asked<'_>, now: Timestamp) -> Verdict {
        let call = &asked.route.call;
        let mut changing = self.changing();
        let Changing { counts, faults, totals, attempts, .. } = &mut *changing;
        let attempt = attempts.entry(format!("{} {:?}", asked.list(), asked.cursor())).or_default();
        *attempt = attempt.saturating_add(1);
        Verdict {
            exhausted: counts.count(account, &call.cost, now),
            hit: fault::hit(faults, &call.name),
            attempt: *attempt,
            total: totals.get(&call.name).copied(),
        }
    }

    /// What is answered unless a test wants something else.
    fn usual(&self, asked: &Asked<'_>, verdict: &Verdict, known: Option<&str>) -> Answer {
        if let Some(exhausted) = &verdict.exhausted {
            return self.exhausted(asked, exhausted);
        }
        let what = format!("{} {:?}", asked.list(), asked.cursor());
        match fault::mishap(self.world, self.failure_rate, &what, verdict.attempt) {
            Some(Mishap::Backend(status)) => self.refuse(asked, &Refusal::Backend(status)),
            Some(Mishap::Drop) => Answer::text(503, "").ending(Ending::Dropped),
            None => self.good(asked, verdict.total, known),
        }
    }

    fn good(&self, asked: &Asked<'_>, total: Option<u64>, known: Option<&str>) -> Answer {
        let answer = match self.resource(asked) {
            Some(resource) => youtube::answer(resource, asked, self.world, total),
            None => generic::answer(asked, self.world, total),
        };
        if answer.status == 200 { answer.unless_known(known) } else { answer }
    }

    fn exhausted(&self, asked: &Asked<'_>, exhausted: &Exhausted) -> Answer {
        let name = self.accounts.upstream_name(&asked.route.upstream.name, &exhausted.limit);
        let refusal = match exhausted.pace {
            Pace::Budget => Refusal::Spent(exhausted.clone(), name),
            Pace::Rate => Refusal::SlowDown(exhausted.clone(), name),
        };
        self.refuse(asked, &refusal)
    }

    fn refuse(&self, asked: &Asked<'_>, refusal: &Refusal) -> Answer {
        match self.resource(asked) {
            Some(_) => youtube::refuse(refusal),
            None => generic::refuse(&asked.route.upstream, refusal),
        }
    }

    /// What a scripted fault makes of an answer.
    fn spoiled(&self, account: &str, asked: &Asked<'_>, hit: &Hit, usual: Answer) -> Answer {
        let refusal = match hit.kind {
            Some(Kind::Spent | Kind::SlowDown) => self.as_if_exhausted(account, asked, hit.kind),
            Some(Kind::Denied) => Some(Refusal::Denied),
            Some(Kind::BadCursor) => Some(Refusal::BadCursor),
            Some(Kind::Backend) => Some(Refusal::Backend(hit.status.unwrap_or(503))),
            _ => None,
        };
        let mut answer = refusal.map_or(usual, |refusal| self.refuse(asked, &refusal));
        match (hit.kind, &mut answer.content) {
            (Some(Kind::NullRecords), Content::Json(body)) => spoil_records(body, asked),
            (Some(Kind::SameCursor), Content::Json(body)) => repeat_cursor(body, asked),
            _ => {}
        }
        hit.spoil(answer)
    }

    fn as_if_exhausted(&self, account: &str, asked: &Asked<'_>, kind: Option<Kind>) -> Option<Refusal> {
        let limit = asked.route.call.cost.limits().next()?.clone();
        let left = self.changing().counts.left(account, &asked.route.call.cost, self.clock.now());
        let (quota, fits_at) = left.map_or((0, self.clock.now()), |left| (left.quota, left.resets_at));
        let name = self.accounts.upstream_name(&asked.route.upstream.name, &limit);
        let fits_in = fits_at.since(self.clock.now());
        let exhausted = Exhausted { limit, quota, fits_at, fits_in, pace: Pace::Budget };
        Some(match kind {
            Some(Kind::SlowDown) => Refusal::SlowDown(exhausted, None),
            _ => Refusal::Spent(exhausted, name),
        })
    }

    /// The headers by which many upstreams tell what is left. YouTube has none.
    fn tell_what_is_left(&self, account: &str, asked: &Asked<'_>, answer: Answer, now: Timestamp) -> Answer {
        if self.resource(asked).is_some() {
            return answer;
        }
        let Some(left) = self.changing().counts.left(account, &asked.route.call.cost, now) else { return answer };
        let told = [
            ("x-ratelimit-limit", left.quota.to_string()),
            ("x-ratelimit-used", left.used.to_string()),
            ("x-ratelimit-remaining", left.quota.saturating_sub(left.used).to_string()),
            ("x-ratelimit-reset", left.resets_at.micros().div_euclid(1_000_000).saturating_add(1).to_string()),
        ];
        told.into_iter().fold(answer, |answer, (name, value)| {
            let there = answer.headers.iter().any(|(other, _)| other == name);
            if there { answer } else { answer.with_header(name, value) }
        })
    }

    fn write_down(&self, asked: &Asked<'_>, account: Option<String>, answer: &Answer, now: Timestamp) {
        let ids = match self.resource(asked) {
            Some(_) => asked.param("id").map_or(0, |ids| ids.split(',').count()),
            None => asked.ids().map_or(0, |ids| ids.len()),
        };
        let mut logged = Logged::new(asked, ids, account, now);
        logged.status = if answer.ending == Ending::Dropped { 0 } else { answer.status };
        self.changing().log.push(logged);
    }

    fn resource(&self, asked: &Asked<'_>) -> Option<&Resource> {
        self.resources.of(asked.route)
    }

    fn nothing_here(&self, arrived: &Arrived) -> String {
        let upstreams = self.routes.iter().map(|route| route.upstream.name.as_str());
        let names: std::collections::BTreeSet<&str> = upstreams.collect();
        let names: Vec<&str> = names.into_iter().collect();
        format!("No call of an upstream is {} {}; upstreams are: {}.", arrived.method, arrived.path, names.join(", "))
    }

    pub(super) fn usage(&self) -> Vec<Counted> {
        self.changing().counts.usage(self.clock.now())
    }

    pub(super) fn requests(&self) -> u64 {
        u64::try_from(self.changing().log.len()).unwrap_or(u64::MAX)
    }

    /// `GET /_sandbox/usage`
    pub(super) fn report(&self) -> Value {
        let limits = self.usage();
        let changing = self.changing();
        json!({ "requests": changing.log.len(), "limits": limits, "calls": log::calls(&changing.log) })
    }

    /// `GET /_sandbox/requests`
    pub(super) fn log(&self) -> Value {
        serde_json::to_value(&self.changing().log).unwrap_or_default()
    }

    /// `POST /_sandbox/faults`
    pub(super) fn script(&self, faults: Vec<Fault>) {
        self.changing().faults.extend(faults);
    }

    /// `POST /_sandbox/totals`
    pub(super) fn resize(&self, totals: BTreeMap<String, u64>) {
        self.changing().totals.extend(totals);
    }

    fn changing(&self) -> MutexGuard<'_, Changing> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn spoil_records(body: &mut Value, asked: &Asked<'_>) {
    let Some(records) = &asked.route.call.records else { return };
    if let Some(Value::Array(list)) = body.pointer_mut(records.at.as_str()) {
        list.fill(Value::Null);
    }
}

fn repeat_cursor(body: &mut Value, asked: &Asked<'_>) {
    let (Paging::Token { next, .. }, Some(cursor)) = (&asked.route.call.paging, asked.cursor()) else { return };
    if let Some(found) = body.pointer_mut(next.as_str()) {
        *found = cursor.into();
    }
}
