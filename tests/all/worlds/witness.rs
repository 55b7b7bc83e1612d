//! What every run requests of the upstream, seen between the run and its client; and how a run is cut short.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::future::pending;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use ingest::run::{Signal, StopSender};
use ingest_base::clock::{Clock, Deadline};
use ingest_config::{Ids, Region, SinceValue, Step};
use ingest_quota::Timestamp;
use ingest_upstream::{Connection, Exchange, Failure, PageRequest, Upstream};
use tokio::sync::Notify;

use super::plan::Cut;

/// A record of one kind: the kind, and its id.
pub type Thing = (String, String);

/// Everything that was requested in a world, in every run.
#[derive(Default)]
pub struct Seen(Mutex<State>);

#[derive(Default)]
struct State {
    /// When each record was last delivered, or requested and absent, and in which run.
    delivered: HashMap<Thing, Delivered>,
    /// Ids that are requested right now.
    under_way: HashSet<Thing>,
    /// Every record that an answer held.
    all: HashSet<Thing>,
    /// What each whole list held when it was last walked to its end, and what its walk has seen so far.
    lists: HashMap<String, List>,
    /// Records that came by their ids, or in a list that is cut.
    elsewhere: HashSet<Thing>,
    /// The bodies of each record in the order in which they came, each where it differs from the one before.
    bodies: HashMap<Thing, Vec<String>>,
    sent: u64,
    answered: u64,
    /// Answers without a record: a further page that proves the end of a list is not landed.
    empty: u64,
    broken: Vec<String>,
}

#[derive(Default)]
struct List {
    whole: HashSet<Thing>,
    begun: HashSet<Thing>,
    /// What it held in its complete passes.
    ever: HashSet<Thing>,
}

/// The name of a list: its call, its place and its parameters, with the value of `{since}` where one of them names it.
fn list_name(step: &Step, region: &Region, since: Option<&SinceValue>) -> String {
    let params = format!("{:?}", step.params);
    let since = since.filter(|_| params.contains("Since"));
    let place = (&region.code, region.slice, since);
    format!("{} {place:?} {params}", step.call.name)
}

#[derive(Clone, Copy)]
struct Delivered {
    at: Timestamp,
    run: u32,
    listed: bool,
}

impl Seen {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Answers without a record.
    pub fn empty(&self) -> u64 {
        self.state().empty
    }

    /// Requests that a client was given, and those of them that brought a page.
    pub fn requests(&self) -> (u64, u64) {
        let state = self.state();
        (state.sent, state.answered)
    }

    pub fn all(&self) -> HashSet<Thing> {
        self.state().all.clone()
    }

    /// What the lists hold that were walked to their ends.
    pub fn listed(&self) -> HashSet<Thing> {
        let state = self.state();
        let lists = state.lists.values();
        lists.flat_map(|list| list.whole.iter().cloned()).collect()
    }

    /// The pass over the lists of a job that are not for a time is complete.
    pub fn completed(&self, step: &Step, region: &Region) {
        let mut state = self.state();
        if let Some(list) = state.lists.get_mut(&list_name(step, region, None)) {
            list.ever.extend(list.whole.iter().cloned());
        }
    }

    /// What complete passes held and no list has any more.
    pub fn lost(&self) -> HashSet<Thing> {
        let state = self.state();
        let lists = || state.lists.values();
        let is_there = |thing: &&Thing| {
            let in_list = |list: &List| list.whole.contains(*thing) || list.begun.contains(*thing);
            state.elsewhere.contains(*thing) || lists().any(in_list)
        };
        let ever = lists().flat_map(|list| &list.ever);
        ever.filter(|thing| !is_there(thing)).cloned().collect()
    }

    /// How many bodies each record had before its last one, where it had any.
    pub fn former_bodies(&self) -> BTreeMap<Thing, u32> {
        let state = self.state();
        let former = state.bodies.iter();
        let former =
            former.map(|(thing, bodies)| (thing.clone(), u32::try_from(bodies.len() - 1).unwrap()));
        former.filter(|(_, former)| *former > 0).collect()
    }

    /// What was requested although it should not have been.
    pub fn broken(&self) -> Vec<String> {
        self.state().broken.clone()
    }

    /// A run was killed: what it had under way is over, and only what the catalog has was delivered by it.
    pub fn killed(&self, run: u32, is_there: impl Fn(&Thing) -> bool) {
        let mut state = self.state();
        state.under_way.clear();
        state
            .delivered
            .retain(|thing, delivered| delivered.run != run || is_there(thing));
    }

    fn begin(&self, run: (u32, Timestamp), now: Timestamp, things: &[Thing], ids: &Ids) {
        let mut state = self.state();
        for thing in things {
            if state.under_way.contains(thing) {
                state
                    .broken
                    .push(format!("{thing:?} is requested twice at the same time"));
            }
            let Some(delivered) = state.delivered.get(thing).copied() else {
                continue;
            };
            let is_fresh = match ids.fresh_for {
                Some(span) => delivered.at >= now - span,
                None => delivered.run == run.0 && run.1 == now,
            };
            let was_there = !delivered.listed || delivered.run < run.0;
            if is_fresh && was_there {
                state.broken.push(format!(
                    "{thing:?} is requested at {now} although it was delivered at {}",
                    delivered.at
                ));
            }
        }
        state.under_way.extend(things.iter().cloned());
    }
}

impl State {
    /// Notes a page of a list that is walked to its end.
    fn walk(&mut self, request: &PageRequest<'_>, came: &[Thing], is_last: bool) {
        let list = list_name(request.step, request.region, request.since);
        let list = self.lists.entry(list).or_default();
        if request.cursor.is_none() {
            list.begun.clear();
        }
        list.begun.extend(came.iter().cloned());
        if is_last {
            list.whole = std::mem::take(&mut list.begun);
        }
    }
}

/// A client whose requests are seen.
pub struct Witness {
    pub inner: Arc<dyn Upstream>,
    pub seen: Arc<Seen>,
    pub clock: Arc<dyn Clock>,
    pub run: u32,
    pub began: Timestamp,
    pub knife: Arc<Knife>,
}

/// What cuts a run short.
pub struct Knife {
    pub cut: Cut,
    pub stop: StopSender,
    pub killed: Notify,
    requests: AtomicU64,
}

impl Knife {
    pub fn new(cut: Cut, stop: StopSender) -> Self {
        Self {
            cut,
            stop,
            killed: Notify::new(),
            requests: AtomicU64::new(0),
        }
    }

    async fn kill(&self) {
        self.killed.notify_one();
        pending::<()>().await;
    }
}

#[async_trait]
impl Upstream for Witness {
    async fn ready(&self) -> Result<(), Failure> {
        self.inner.ready().await
    }

    async fn connect(&self) -> Result<Connection, Failure> {
        self.inner.connect().await
    }

    async fn fetch(
        &self,
        request: PageRequest<'_>,
        connection: Connection,
        deadline: Deadline,
    ) -> Exchange {
        let number = self.knife.requests.fetch_add(1, Ordering::SeqCst);
        let now = self.clock.now();
        let kind = &request.step.call.records.as_ref().unwrap().kind;
        let asked: Vec<Thing> = request
            .ids
            .iter()
            .map(|id| (kind.clone(), id.clone()))
            .collect();
        if let Some(ids) = &request.step.ids {
            self.seen.begin((self.run, self.began), now, &asked, ids);
        }
        if self.knife.cut == Cut::KilledBefore(u8::try_from(number).unwrap_or(u8::MAX)) {
            self.knife.kill().await;
        }
        self.seen.state().sent += 1;
        let answered = self.inner.fetch(request, connection, deadline).await;
        match self.knife.cut {
            Cut::Stopped(at) if u64::from(at) == number => self.knife.stop.send(Signal::Terminate),
            Cut::KilledAfter(at) if u64::from(at) == number => self.knife.kill().await,
            _ => {}
        }
        let mut state = self.seen.state();
        for thing in &asked {
            state.under_way.remove(thing);
        }
        match &answered.page {
            Ok(page) => {
                state.answered += 1;
                state.empty += u64::from(page.records.is_empty() && !page.unchanged);
                let came: Vec<Thing> = page
                    .records
                    .iter()
                    .map(|record| (kind.clone(), record.id.clone()))
                    .collect();
                state.all.extend(came.iter().cloned());
                if request.step.ids.is_none() && request.step.max_pages.is_none() {
                    state.walk(&request, &came, page.next.is_none());
                } else {
                    state.elsewhere.extend(came.iter().cloned());
                }
                for record in &page.records {
                    let thing = (kind.clone(), record.id.clone());
                    let bodies = state.bodies.entry(thing).or_default();
                    let body = record.body.to_string();
                    if bodies.last() != Some(&body) {
                        bodies.push(body);
                    }
                }
                let delivered = Delivered {
                    at: self.clock.now(),
                    run: self.run,
                    listed: asked.is_empty(),
                };
                let things = came.into_iter().chain(asked);
                state
                    .delivered
                    .extend(things.map(|thing| (thing, delivered)));
            }
            Err(Failure::TooLate | Failure::NotSent(_) | Failure::Unreachable(_)) => {
                state.sent -= 1;
            }
            Err(_) => {}
        }
        answered
    }
}
