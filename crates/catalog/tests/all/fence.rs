//! The pass is the fence: whatever holders stall, are killed or take over, whichever answers and commits are lost, a pass that ends has
//! each of its pages once and in order. Leases play no part here: anyone may take up a pass at any time.

use std::sync::Arc;

use ingest_catalog::{Landing, PassEnd, PassRef};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use tokio::runtime;
use uuid::Uuid;

use super::fixture::{Fixture, JOB, Page, at};

/// What of the fence a walk is without: each holder then claims what it does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Without {
    Nothing,
    /// The holder's token: each one has that of the holder who has the pass.
    Token,
    /// The number of writes: each one says that it knows of none.
    Number,
    /// The landing's own number: a page that is landed again is another one.
    Landing,
}

#[derive(Debug, Clone)]
enum Event {
    /// Somebody takes up the pass, or is about to begin one.
    TakeUp,
    /// The database fails over to one that lacks the last commits.
    FailOver(usize),
    /// A holder is killed.
    Kill(usize),
    /// A holder does what is next: `restarts` its list, or lands a page or ends the pass, of which the answer `is_lost`.
    Work {
        holder: usize,
        restarts: bool,
        is_lost: bool,
    },
}

fn event() -> impl Strategy<Value = Event> {
    let any = || 0..100_usize;
    prop_oneof![
        8 => Just(Event::TakeUp),
        3 => (0..6_usize).prop_map(Event::FailOver),
        3 => any().prop_map(Event::Kill),
        86 => (any(), 0..100_u8, 0..100_u8).prop_map(|(holder, restarts, lost)| Event::Work {
            holder,
            restarts: restarts < 6,
            is_lost: lost < 20,
        }),
    ]
}

/// A process that believes that it holds the pass.
struct Holder {
    pass: PassRef,
    /// The page that it requests next.
    next: usize,
    /// A page of which it does not know whether it is landed.
    pending: Option<Arc<Landing>>,
}

struct World {
    f: Fixture,
    holders: Vec<Holder>,
    /// The pages of the list.
    pages: usize,
    without: Without,
    commits: usize,
}

/// What a pass has.
const TABLES: [&str; 5] = ["pass", "checkpoint", "listing", "wanted", "restart"];

impl World {
    fn new(pages: usize, without: Without) -> Self {
        let f = Fixture::new();
        f.person
            .execute_batch("attach ':memory:' as log; pragma synchronous = off")
            .unwrap();
        let mut world = Self {
            f,
            holders: Vec::new(),
            pages,
            without,
            commits: 0,
        };
        world.committed();
        world
    }

    /// Keeps what the database has, for a failover.
    fn committed(&mut self) {
        self.commits += 1;
        let keep = TABLES.map(|table| {
            let kept = format!("log.{table}_{}", self.commits);
            format!(
                "drop table if exists {kept}; create table {kept} as select * from main.{table};"
            )
        });
        self.f.person.execute_batch(&keep.concat()).unwrap();
    }

    fn fail_over(&mut self, lost: usize) {
        self.commits -= lost.min(self.commits - 1);
        let back = TABLES.map(|table| {
            let kept = format!("log.{table}_{}", self.commits);
            format!("delete from {table}; insert into {table} select * from {kept};")
        });
        let back = format!("begin; {} commit;", back.concat());
        self.f.person.execute_batch(&back).unwrap();
    }

    /// The pages of a pass in the order in which they were landed.
    fn pages_of(&self, which: &str) -> Vec<Vec<usize>> {
        let sql = format!(
            "select group_concat(request, ' ') from (select pass, request from checkpoint
            where pass in (select id from pass where {which}) order by pass, page) group by pass"
        );
        let pages = |row: String| row.split(' ').map(|page| page.parse().unwrap()).collect();
        self.f.rows(&sql).into_iter().map(pages).collect()
    }

    /// A holder's pass, as it says that it is.
    fn claimed(&self, pass: &PassRef) -> PassRef {
        let mut pass = pass.clone();
        match self.without {
            Without::Nothing | Without::Landing => {}
            Without::Number => pass.landed = 0,
            Without::Token => {
                let id = pass.id.map_or(0, |pass| pass.0);
                let sql = format!("select token from pass where id = {id} and token is not null");
                if let Some(token) = self.f.rows(&sql).pop() {
                    pass.token = Uuid::parse_str(&token).unwrap();
                }
            }
        }
        pass
    }

    async fn take_up(&mut self, minute: u64) {
        let open = self.f.catalog.open_passes(JOB).await.unwrap().pop();
        let (pass, next) = match open {
            Some(open) => {
                let next = open.steps.first().map_or(0, |step| {
                    step.cursor
                        .as_ref()
                        .map_or(self.pages, |next| next.parse().unwrap())
                });
                let taken = self.f.catalog.take_up(JOB, &open).await.unwrap();
                self.committed();
                (taken.expect("nobody writes in between"), next)
            }
            None => (PassRef::new(JOB, "US", None, at(minute)), 0),
        };
        self.holders.push(Holder {
            pass,
            next,
            pending: None,
        });
    }

    /// Lands a holder's next page. Returns whether it goes on.
    async fn land(&mut self, holder: &mut Holder, is_lost: bool) -> bool {
        let (page, pages) = (holder.next, self.pages);
        let pass = self.claimed(&holder.pass);
        let landing = holder.pending.take().unwrap_or_else(|| {
            let mut landing = Page::of(Vec::new()).landing();
            landing.request = page.to_string();
            landing.next = (page + 1 < pages).then(|| (page + 1).to_string());
            Arc::new(landing)
        });
        let landing = Arc::new(Landing {
            pass,
            id: match self.without {
                Without::Landing => Uuid::now_v7(),
                _ => landing.id,
            },
            ..Landing::clone(&landing)
        });
        let landed = self.f.catalog.land(Arc::clone(&landing)).await.unwrap();
        self.committed();
        if landed.is_lost {
            return false;
        }
        match is_lost {
            true => holder.pending = Some(landing),
            false => {
                holder.pass.confirm(&landed);
                holder.next += 1;
            }
        }
        true
    }

    /// Returns whether the holder goes on.
    async fn work(&mut self, holder: &mut Holder, restarts: bool, is_lost: bool) -> bool {
        let mut pass = self.claimed(&holder.pass);
        if holder.pending.is_some()
            || (holder.next < self.pages && !(restarts && pass.id.is_some()))
        {
            return self.land(holder, is_lost).await;
        }
        if restarts {
            // A step starts over once; here it may do so at any time.
            self.f.person.execute_batch("delete from restart").unwrap();
            let restarted = self.f.catalog.restart_step(&mut pass, 0, at(0)).await;
            self.committed();
            holder.next = 0;
            holder.pass.landed = pass.landed;
            return restarted.is_ok();
        }
        let ended = self.f.catalog.finish(&mut pass, PassEnd::Complete, at(0));
        let _ = ended.await;
        self.committed();
        false
    }

    async fn play(&mut self, event: &Event, minute: u64) {
        match event {
            Event::TakeUp => self.take_up(minute).await,
            Event::FailOver(lost) => self.fail_over(*lost),
            Event::Kill(holder) if self.holders.len() > 1 => {
                drop(self.holders.swap_remove(holder % self.holders.len()));
            }
            Event::Kill(_) => {}
            Event::Work { .. } if self.holders.is_empty() => self.take_up(minute).await,
            Event::Work {
                holder,
                restarts,
                is_lost,
            } => {
                let mut holder = self.holders.swap_remove(holder % self.holders.len());
                if self.work(&mut holder, *restarts, *is_lost).await {
                    self.holders.push(holder);
                }
            }
        }
    }

    /// What does not hold.
    fn wrong(&self) -> Option<String> {
        let whole: Vec<usize> = (0..self.pages).collect();
        let ended = self.pages_of("outcome = 'complete'");
        let open = self.pages_of("outcome is null");
        let is_begun = |pages: &Vec<usize>| whole.starts_with(pages);
        (!ended.iter().all(|pages| *pages == whole) || !open.iter().all(is_begun))
            .then(|| format!("ended with {ended:?}, open with {open:?}"))
    }
}

/// Plays walks; fails at the first one that goes wrong.
fn play(without: Without, walks: u32) -> Result<(), String> {
    let config = Config {
        cases: walks,
        failure_persistence: None,
        max_shrink_iters: 0,
        ..Config::default()
    };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let runtime = runtime::Builder::new_current_thread().build().unwrap();
    let walk = (1..8_usize, prop::collection::vec(event(), 100));
    let played = runner.run(&walk, |(pages, events)| {
        runtime.block_on(async {
            let mut world = World::new(pages, without);
            for (minute, event) in (0..).zip(&events) {
                world.play(event, minute).await;
                if let Some(wrong) = world.wrong() {
                    return Err(TestCaseError::fail(wrong));
                }
            }
            Ok(())
        })
    });
    played.map_err(|error| error.to_string())
}

#[test]
fn no_holder_that_stalls_and_no_failover_makes_a_gap_in_a_pass_or_a_page_twice() {
    play(Without::Nothing, 60).unwrap();
}

#[test]
fn each_part_of_the_fence_is_needed() {
    for without in [Without::Token, Without::Number, Without::Landing] {
        let played = play(without, 60);
        assert!(played.is_err(), "no walk goes wrong without: {without:?}");
    }
}
