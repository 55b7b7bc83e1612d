//! Machines with one catalog and one Redis, under everything that goes wrong between them: `bash tests/soak.sh --machines`.
//!
//! A chapter is a place of its own and a row of rounds. In each round the machines walk the same regions, of which none was
//! walked before, while faults befall them; then one machine ends what is left, and everything must agree.

mod link;
mod place;
mod trouble;
mod witness;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::chance::Chance;
use super::tally::Tally;
use place::Place;
pub(crate) use place::Sizes;
use trouble::Trouble;
use witness::{Ended, Round, UNFINISHED};

/// Runs without faults that must complete what is left. One is enough unless the machine is too slow for its leases.
const CALM_RUNS: usize = 6;

pub(crate) struct Chapter {
    place: Place,
    chance: Chance,
    /// The most by which the ledger may count more than the upstream.
    slack: u64,
    by_hand: u64,
}

impl Chapter {
    pub(crate) fn new(seed: u64, number: u64, program: &str, sizes: Sizes) -> Self {
        let mut chance = Chance::of(seed, number);
        let place = Place::new(program, number, sizes, &mut chance);
        Self {
            place,
            chance,
            slack: 0,
            by_hand: 1,
        }
    }

    /// Begins no round after `until`, but one.
    pub(crate) fn tell(mut self, rounds: usize, until: Instant, tally: &Tally) {
        tally.count("chapters");
        if self.place.clock.is_some() {
            tally.count("chapters in which a clock is off by an hour");
        }
        for round in 0..rounds {
            if round > 0 && Instant::now() > until {
                break;
            }
            self.round(&round.to_string(), tally);
            if round % 4 == 3 {
                self.check_ledger(tally);
            }
        }
        self.check_ledger(tally);
    }

    fn round(&mut self, name: &str, tally: &Tally) {
        tally.count("rounds");
        let place = &mut self.place;
        place.choose_sizes(&mut self.chance);
        tally.most("regions of a round", place.regions as u64);
        if place.way.has_standby() && place.servers.len() == 1 && self.chance.once_in(2) {
            place.follow();
        }
        let before_it =
            "select coalesce(max(id), 0), coalesce(sum(requests), 0)::bigint from shared.pass";
        let passes = place.primary().rows(before_it).remove(0);
        let (last_pass, counted): (i64, i64) = (passes.get(0), passes.get(1));
        let before = place.asked.lock().unwrap().len();
        let mut trouble = Trouble::of(place, &mut self.chance);
        trouble.happen(place, name, &mut self.chance, tally);
        let mut ended = HashMap::new();
        let lagged = trouble.lagged;
        let started = std::mem::take(&mut trouble.started);
        let calmed = catch_unwind(AssertUnwindSafe(|| {
            for one in started {
                tally.count("runs");
                // Each request of a process that was killed, or whose Redis was away, may be charged and not sent.
                let in_flight = 2 * one.concurrency as u64;
                self.slack += in_flight * (u64::from(one.killed.is_some()) + trouble.redis_faults);
                let (pid, machine, killed) = (one.pid(), one.machine, one.killed);
                let said = place.ended(one.process);
                if said.as_ref().is_some_and(|(code, _)| *code == 1) {
                    tally.count("runs that failed");
                }
                ended.insert(
                    one.number,
                    Ended {
                        machine,
                        pid,
                        killed,
                        said,
                    },
                );
            }
            calm(place, name, &mut ended, tally);
        }));
        let asked = place.asked.lock().unwrap()[before..].to_vec();
        let round = Round {
            place,
            name,
            ended: &ended,
            asked: &asked,
            lagged,
            last_pass,
            counted,
        };
        let checked = calmed.and_then(|()| catch_unwind(AssertUnwindSafe(|| round.check(tally))));
        if let Err(wrong) = checked {
            eprintln!(
                "{:?}, {} machines, {} regions, connections {}, lease {:?}, clock {:?}: {:#?}\n{}",
                place.way,
                place.machines,
                place.regions,
                place.connections,
                place.lease,
                place.clock,
                trouble.diary,
                round.dump()
            );
            if let Some(pooler) = &place.pooler {
                eprintln!("{}", pooler.lock().unwrap().log());
            }
            resume_unwind(wrong);
        }
    }

    /// The ledger counts what the upstream counted, once every machine has told it.
    fn check_ledger(&mut self, tally: &Tally) {
        for machine in 0..self.place.machines {
            let (code, said) = self
                .place
                .in_peace(machine, "0", &["charge", "youtube", "list"]);
            assert_eq!(code, 0, "{said}");
            self.by_hand += 1;
        }
        let off = self.place.clock.map(|(machine, _)| machine);
        let machine = (0..self.place.machines)
            .find(|machine| Some(*machine) != off)
            .unwrap();
        let (code, said) = self.place.in_peace(machine, "0", &["status"]);
        assert_eq!(code, 0, "{said}");
        let used = said["limits"][0]["used"].as_u64().unwrap();
        let asked = self.place.asked.lock().unwrap().len() as u64 + self.by_hand;
        let dump = || self.place.redis.dump();
        assert!(
            used >= asked,
            "the ledger counts {used}, the upstream {asked}\n{}",
            dump()
        );
        let more = used - asked;
        assert!(
            more <= self.slack,
            "the ledger counts {used}, the upstream {asked}; {} may be more",
            self.slack
        );
        self.place.redis.check();
        tally.most("units that the ledger counts beyond the upstream", more);
        tally.count("comparisons of the ledger with the upstream");
    }
}

/// Waits until the leases of those that died are over, and lets the machines end what is left.
fn calm(place: &mut Place, round: &str, ended: &mut HashMap<usize, Ended>, tally: &Tally) {
    place.wait_for_standby();
    let began = Instant::now();
    let held = "select count(*) from shared.lease where expires_at > clock_timestamp()";
    while place.primary().rows(held)[0].get::<_, i64>(0) > 0 {
        assert!(
            began.elapsed() < place.lease + Duration::from_secs(3),
            "leases do not end"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    let with_pages =
        (0..place.machines).filter(|machine| place.state(*machine).join("unlanded.jsonl").exists());
    let with_pages: Vec<usize> = with_pages.collect();
    for machine in &with_pages {
        tally.count("machines that kept pages");
        // What it keeps, it stores before it asks for anything.
        for _ in 0..CALM_RUNS {
            if place.state(*machine).join("unlanded.jsonl").exists() {
                calm_run(place, *machine, round, ended);
            }
        }
    }
    for run in 0..CALM_RUNS {
        let machine = (place.started + run) % place.machines;
        if calm_run(place, machine, round, ended) {
            return;
        }
        tally.count("runs in peace that left something");
        // A pooler that found no server says so to everybody for a second.
        std::thread::sleep(Duration::from_millis(700));
    }
    panic!("{CALM_RUNS} runs in peace left something");
}

/// Runs a machine without faults. Returns whether everything is complete.
fn calm_run(
    place: &mut Place,
    machine: usize,
    round: &str,
    ended: &mut HashMap<usize, Ended>,
) -> bool {
    let (number, process) = place.run(machine, round, 3);
    let pid = process.child.id().into();
    let said = place.ended(process);
    let is_done = |pass: &Value| {
        pass["region"] == "*" || pass["outcome"] == "complete" || pass["outcome"] == "not_due"
    };
    let passes = said
        .as_ref()
        .and_then(|(_, report)| report["passes"].as_array());
    let done = passes.is_some_and(|passes| passes.iter().all(is_done));
    if !done {
        eprintln!("a run in peace on machine {machine}: {said:?}");
    }
    let open = place.primary().rows(UNFINISHED);
    ended.insert(
        number,
        Ended {
            machine,
            pid,
            killed: None,
            said,
        },
    );
    done && open[0].get::<_, i64>(0) == 0
}
