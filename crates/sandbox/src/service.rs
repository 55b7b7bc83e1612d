//! What all requests share, and how one of them is answered.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use url::Url;

use super::answer::{Ending, Reply};
use super::count::{Counted, Counts, Exhausted, Pace};
use super::credential::{Caller, Callers};
use super::fault::{self, Fault, FaultKind};
use super::log::{self, Logged};
use super::refuse::{Reason, free_part, refuse};
use super::request::{CallRequest, Received};
use super::route::{self, AnsweredCall};
use super::saved::SavedResponses;
use super::world::World;
use super::{AnswerOrigin, Options, base_of};
use ingest_base::clock::Clock;
use ingest_config::{Config, Etag};
use ingest_quota::Timestamp;

/// Everything that requests share.
pub struct Service {
    routes: Vec<AnsweredCall>,
    callers: Callers,
    world: World,
    saved: SavedResponses,
    root: Url,
    latency: Duration,
    clock: Arc<dyn Clock>,
    counters: Mutex<Counters>,
}

struct Counters {
    counts: Counts,
    log: Vec<Logged>,
    faults: Vec<Fault>,
    /// The number of records of the lists of a call, by its name.
    totals: BTreeMap<String, u64>,
    /// How often the same was requested.
    attempts: BTreeMap<String, u64>,
}

impl Service {
    pub fn new(config: &Config, options: Options, root: Url, clock: Arc<dyn Clock>) -> Self {
        let counters = Counters {
            counts: Counts::new(config, options.quota),
            log: Vec::new(),
            faults: Vec::new(),
            totals: BTreeMap::new(),
            attempts: BTreeMap::new(),
        };
        Self {
            routes: route::all(config),
            callers: Callers::new(config, &options.secrets),
            world: World::new(options.seed, options.failure_rate),
            saved: options.saved,
            root,
            latency: options.latency,
            clock,
            counters: Mutex::new(counters),
        }
    }

    /// Answers a request to an upstream.
    pub fn answer(&self, received: &Received) -> Reply {
        let now = self.clock.now();
        // About the server, and for no call: `ingest check --connect` reads the clock of the response.
        if received.method == "OPTIONS" {
            return Reply::json(200, json!({}));
        }
        let Some(route) = self.route(received) else {
            self.counters
                .lock()
                .log
                .push(Logged::unknown(received, now));
            return Reply::json(404, json!({ "message": self.nothing_here(received) }));
        };
        let base = base_of(&self.root, &received.upstream);
        let request = CallRequest::new(route, received, base);
        let secret = received.secret(&route.upstream.auth);
        let caller = self.callers.of(&route.upstream, secret.as_deref());
        let cached = received.header("if-none-match");
        let mut reply = match &caller {
            Some(caller) => self.answer_to(caller, &request, cached, now),
            None => refuse(&request, &Reason::Denied),
        };
        reply.delay = reply.delay.saturating_add(self.latency);
        let account = caller.map(|caller| caller.account);
        self.write_down(&request, account, &reply, now);
        reply
    }

    /// The call that a request is for; links of saved responses lead to paths that the configuration does not have.
    fn route(&self, received: &Received) -> Option<&AnsweredCall> {
        let upstream = &received.upstream;
        let found = route::find(&self.routes, upstream, received);
        found.or_else(|| {
            let mut routes = self.routes.iter();
            routes.find(|route| {
                let target = received.target(&route.upstream.auth);
                route.upstream.name == *upstream
                    && self.saved.linked_call(upstream, &target) == Some(&route.call.name)
            })
        })
    }

    /// Where the responses of each call come from.
    pub fn origins(&self) -> Vec<(String, String, AnswerOrigin)> {
        let origin = |route: &AnsweredCall| {
            let (upstream, call) = (&route.upstream.name, &route.call.name);
            route.call.records.as_ref()?;
            let origin = match self.saved.count(upstream, call) {
                0 => AnswerOrigin::Generated,
                1.. => AnswerOrigin::Saved,
            };
            Some((upstream.clone(), call.clone(), origin))
        };
        self.routes.iter().filter_map(origin).collect()
    }

    fn answer_to(
        &self,
        caller: &Caller,
        request: &CallRequest<'_>,
        cached: Option<&str>,
        now: Timestamp,
    ) -> Reply {
        let (reply, exhausted, hit) = self.judge(caller, request, cached, now);
        let usual = match &exhausted {
            Some(exhausted) => refuse(request, &reason(caller, exhausted.clone())),
            None => reply,
        };
        let reply = match &hit {
            Some(hit) => self.spoiled(caller, request, hit, usual),
            None => usual,
        };
        let free = free_part(
            &request.route.call.errors,
            &reply,
            &self.world.cost(request),
        );
        if reply.ending == Ending::Whole && !free.is_none() {
            let free = caller.charged(&free, request.region());
            let mut counters = self.counters.lock();
            counters.counts.take_back(&caller.account, &free, now);
        }
        self.report_remaining(caller, request, reply, now)
    }

    /// What a request gets if it fits, the limit that it does not fit, and the fault that a test wants. Every request is
    /// counted, except one that costs nothing because nothing changed.
    fn judge(
        &self,
        caller: &Caller,
        request: &CallRequest<'_>,
        cached: Option<&str>,
        now: Timestamp,
    ) -> (Reply, Option<Exhausted>, Option<Fault>) {
        let (hit, attempt, total) = self.note(request);
        let mishap = self.world.mishap(request, attempt);
        let invented = || self.world.answer(request, total).unless_cached(cached);
        let usual = || self.saved.reply(request).unwrap_or_else(invented);
        let reply = mishap.unwrap_or_else(usual);
        let is_free = request.route.call.etag == Etag::Free && reply.status == 304 && hit.is_none();
        // By the true cost, which can differ from the configured one: an upstream counts what it reports.
        let cost = caller.charged(&self.world.cost(request), request.region());
        let count = || {
            let mut counters = self.counters.lock();
            counters.counts.count(&caller.account, &cost, now)
        };
        let exhausted = if is_free { None } else { count() };
        (reply, exhausted, hit)
    }

    /// Notes that a page is requested: the fault that a test wants, how often the page was requested, and the number of
    /// records of its list where a test set it.
    fn note(&self, request: &CallRequest<'_>) -> (Option<Fault>, u64, Option<u64>) {
        let call = &request.route.call.name;
        let mut counters = self.counters.lock();
        let Counters {
            faults,
            totals,
            attempts,
            ..
        } = &mut *counters;
        let attempt = attempts.entry(request.page()).or_default();
        *attempt = attempt.saturating_add(1);
        let total = totals.get(call).copied();
        (fault::hit(faults, call), *attempt, total)
    }

    /// What a scripted fault makes of a reply.
    fn spoiled(
        &self,
        caller: &Caller,
        request: &CallRequest<'_>,
        hit: &Fault,
        usual: Reply,
    ) -> Reply {
        let reason = match hit.answer {
            Some(FaultKind::Spent) => self.as_if_exhausted(caller, request, Pace::Budget),
            Some(FaultKind::SlowDown) => self.as_if_exhausted(caller, request, Pace::Rate),
            Some(FaultKind::Denied) => Some(Reason::Denied),
            Some(FaultKind::BadCursor) => Some(Reason::BadCursor),
            Some(FaultKind::OldCursor) => Some(Reason::OldCursor),
            Some(FaultKind::Backend) => Some(Reason::Backend(hit.status.unwrap_or(503))),
            Some(
                FaultKind::Drop
                | FaultKind::HalfBody
                | FaultKind::Endless
                | FaultKind::NoBody
                | FaultKind::Html
                | FaultKind::List
                | FaultKind::NullRecords
                | FaultKind::SameCursor
                | FaultKind::PlainError,
            )
            | None => None,
        };
        let reply = reason.map_or(usual, |reason| refuse(request, &reason));
        hit.spoil(reply, request)
    }

    fn as_if_exhausted(
        &self,
        caller: &Caller,
        request: &CallRequest<'_>,
        pace: Pace,
    ) -> Option<Reason> {
        let now = self.clock.now();
        let cost = caller.charged(&request.route.call.cost, request.region());
        let limit = cost.limits().next()?.clone();
        let left = self
            .counters
            .lock()
            .counts
            .left(&caller.account, &cost, now);
        let (quota, resets_at) = left.map_or((0, now), |left| (left.quota, left.resets_at));
        let fits_at = match pace {
            Pace::Budget => resets_at,
            // Nothing is exhausted: the next request fits.
            Pace::Rate => now,
        };
        let exhausted = Exhausted {
            limit,
            quota,
            fits_at,
            fits_in: fits_at.since(now),
            pace,
        };
        Some(reason(caller, exhausted))
    }

    /// Adds the headers in which many upstreams report what remains.
    fn report_remaining(
        &self,
        caller: &Caller,
        request: &CallRequest<'_>,
        reply: Reply,
        now: Timestamp,
    ) -> Reply {
        // A saved response has the headers that its upstream sent.
        if reply.is_saved {
            return reply;
        }
        let cost = caller.charged(&request.route.call.cost, request.region());
        let Some(left) = self
            .counters
            .lock()
            .counts
            .left(&caller.account, &cost, now)
        else {
            return reply;
        };
        let (configured, name) = caller.names(&left.limit);
        let name = name.unwrap_or(configured);
        let headers = left.headers().into_iter();
        headers
            .chain([("x-ratelimit-resource", name)])
            .fold(reply, |reply, (name, value)| reply.or_header(name, value))
    }

    fn write_down(
        &self,
        request: &CallRequest<'_>,
        account: Option<String>,
        reply: &Reply,
        now: Timestamp,
    ) {
        let ids = request.ids().map_or(0, |ids| ids.len());
        let mut logged = Logged::new(request, ids, account, now);
        if reply.ending != Ending::Dropped {
            logged.status = reply.status;
        }
        self.counters.lock().log.push(logged);
    }

    fn nothing_here(&self, received: &Received) -> String {
        let upstreams = self.routes.iter().map(|route| route.upstream.name.as_str());
        let names: std::collections::BTreeSet<&str> = upstreams.collect();
        let names: Vec<&str> = names.into_iter().collect();
        format!(
            "No configured call has {} {}. The base URL ends in the name of an upstream: {}.",
            received.method,
            received.path,
            names.join(", ")
        )
    }

    pub fn usage(&self) -> Vec<Counted> {
        self.counters.lock().counts.usage(self.clock.now())
    }

    pub fn requests(&self) -> u64 {
        u64::try_from(self.counters.lock().log.len()).unwrap_or(u64::MAX)
    }

    /// `GET /_sandbox/usage`
    pub fn report(&self) -> Value {
        let limits = self.usage();
        let counters = self.counters.lock();
        json!({ "requests": counters.log.len(), "limits": limits, "calls": log::calls(&counters.log) })
    }

    /// `GET /_sandbox/requests`
    pub fn log(&self) -> Value {
        serde_json::to_value(&self.counters.lock().log).unwrap_or_default()
    }

    /// `POST /_sandbox/faults`
    pub fn script(&self, faults: Vec<Fault>) {
        self.counters.lock().faults.extend(faults);
    }

    /// `DELETE /_sandbox/faults`
    pub fn unscript(&self) {
        self.counters.lock().faults.clear();
    }

    /// `POST /_sandbox/totals`
    pub fn resize(&self, totals: BTreeMap<String, u64>) {
        self.counters.lock().totals.extend(totals);
    }
}

fn reason(caller: &Caller, exhausted: Exhausted) -> Reason {
    let (limit, name) = caller.names(&exhausted.limit);
    Reason::Exhausted(Exhausted { limit, ..exhausted }, name)
}
