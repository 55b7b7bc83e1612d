//! What goes wrong in a round, and when.

use std::time::{Duration, Instant, SystemTime};

use rustix::process::{Pid, Signal, kill_process};

use super::super::chance::Chance;
use super::super::process::Process;
use super::super::redis::Mishap;
use super::super::tally::Tally;
use super::place::{Place, Way};

/// A process of a round, and what befell it.
pub(super) struct Started {
    pub(super) number: usize,
    pub(super) machine: usize,
    pub(super) concurrency: usize,
    pub(super) process: Process,
    pub(super) killed: Option<SystemTime>,
    asked_to_end: bool,
}

impl Started {
    pub(super) fn pid(&self) -> i64 {
        self.process.child.id().into()
    }

    fn signal(&self, signal: Signal) {
        let _ = kill_process(Pid::from_child(&self.process.child), signal);
    }
}

#[derive(Debug, Clone, Copy)]
enum Fault {
    Kill,
    Stall,
    Continue(usize),
    Terminate,
    /// The crontab of a machine starts a run while another one still walks.
    Overlap,
    StopDatabase(Option<Signal>),
    HangDatabase,
    ResumeDatabase,
    SilenceSome,
    SilenceAll,
    Heal,
    SilenceReplication,
    FailOver,
    RestartPooler,
    Redis(Mishap),
    SilenceRedis,
    HealRedis,
}

/// The faults of one round.
pub(super) struct Trouble {
    /// In the order of their times, after the first process started.
    plan: Vec<(Duration, Fault)>,
    pub(super) started: Vec<Started>,
    /// Whether the catalog lost what a former primary had committed.
    pub(super) lagged: bool,
    /// Faults after which it is not known whether a charge took place.
    pub(super) redis_faults: u64,
    /// What happened when.
    pub(super) diary: Vec<String>,
}

impl Trouble {
    pub(super) fn of(place: &Place, chance: &mut Chance) -> Self {
        let mut plan = Vec::new();
        for _ in 0..1 + chance.below(3) {
            let at = Duration::from_millis(100) + chance.millis_below(1500);
            let span = chance.millis_below(4000);
            let fault = draw(place, chance);
            plan.push((at, fault));
            match fault {
                Fault::HangDatabase => plan.push((at + span, Fault::ResumeDatabase)),
                Fault::SilenceSome | Fault::SilenceAll => plan.push((at + span, Fault::Heal)),
                Fault::SilenceRedis => plan.push((at + span, Fault::HealRedis)),
                Fault::SilenceReplication => plan.push((at + span / 4, Fault::FailOver)),
                _ => {}
            }
        }
        plan.sort_by_key(|(at, _)| *at);
        Self {
            plan,
            started: Vec::new(),
            lagged: false,
            redis_faults: 0,
            diary: Vec::new(),
        }
    }

    /// Starts the machines, and does to them and to the servers what is planned. Nothing is wrong any more when it returns, but
    /// the processes may still run.
    pub(super) fn happen(
        &mut self,
        place: &mut Place,
        round: &str,
        chance: &mut Chance,
        tally: &Tally,
    ) {
        let began = Instant::now();
        for machine in 0..place.machines {
            std::thread::sleep(chance.millis_below(60));
            self.start(place, machine, round, chance);
        }
        let mut plan = std::mem::take(&mut self.plan);
        while !plan.is_empty() {
            let (at, fault) = plan.remove(0);
            std::thread::sleep(at.saturating_sub(began.elapsed()));
            if let Some(later) = self.befall(fault, place, round, chance, tally) {
                plan.push((began.elapsed() + later.0, later.1));
                plan.sort_by_key(|(at, _)| *at);
            }
        }
    }

    fn start(&mut self, place: &mut Place, machine: usize, round: &str, chance: &mut Chance) {
        let concurrency = place.concurrency(chance);
        let (number, process) = place.run(machine, round, concurrency);
        self.started.push(Started {
            number,
            machine,
            concurrency,
            process,
            killed: None,
            asked_to_end: false,
        });
    }

    /// Returns what ends the fault, and after how long.
    #[allow(clippy::too_many_arguments, reason = "what a round consists of")]
    fn befall(
        &mut self,
        fault: Fault,
        place: &mut Place,
        round: &str,
        chance: &mut Chance,
        tally: &Tally,
    ) -> Option<(Duration, Fault)> {
        let at = chance.below(self.started.len());
        let now = chrono::Utc::now().format("%T%.3f");
        self.diary.push(format!("{now} {fault:?} (process {at})"));
        match fault {
            Fault::Kill => {
                tally.count("killed");
                self.started[at].killed.get_or_insert_with(SystemTime::now);
                self.started[at].signal(Signal::KILL);
            }
            Fault::Stall => {
                tally.count("stalled beyond a lease");
                self.started[at].signal(Signal::STOP);
                let span = place.lease + Duration::from_millis(200) + chance.millis_below(2000);
                return Some((span, Fault::Continue(at)));
            }
            Fault::Continue(at) => self.started[at].signal(Signal::CONT),
            // A second signal would end it at once, without its report.
            Fault::Terminate if !self.started[at].asked_to_end => {
                tally.count("asked to end");
                self.started[at].asked_to_end = true;
                self.started[at].signal(Signal::TERM);
            }
            Fault::Terminate => {}
            Fault::Overlap => {
                tally.count("runs beside another of the same machine");
                let machine = chance.below(place.machines);
                self.start(place, machine, round, chance);
            }
            Fault::Redis(mishap) => {
                tally.count("faults of Redis");
                self.redis_faults += 1;
                place.redis.suffer(mishap, chance.millis_below(2500), 0);
            }
            Fault::SilenceRedis => {
                tally.count("silences of Redis");
                self.redis_faults += 1;
                place
                    .redis_link
                    .silence(chance.once_in(2).then_some(chance));
            }
            Fault::HealRedis => place.redis_link.heal(chance.once_in(2)),
            Fault::RestartPooler => {
                tally.count("restarts of PgBouncer");
                place.pooler.as_ref().unwrap().lock().unwrap().restart();
            }
            database => self.befall_database(database, place, chance, tally),
        }
        None
    }

    fn befall_database(
        &mut self,
        fault: Fault,
        place: &mut Place,
        chance: &mut Chance,
        tally: &Tally,
    ) {
        let primary = place.primary;
        match fault {
            Fault::StopDatabase(how) => {
                match how {
                    Some(Signal::INT) => tally.count("fast restarts of PostgreSQL"),
                    Some(_) => tally.count("immediate restarts of PostgreSQL"),
                    None => tally.count("power cuts of PostgreSQL"),
                }
                let server = &mut place.servers[primary];
                // One that hangs would not hear the signal.
                server.resume();
                match how {
                    Some(signal) => server.stop(signal),
                    None => server.kill(),
                }
                std::thread::sleep(chance.millis_below(1500));
                server.start();
            }
            Fault::HangDatabase => {
                tally.count("hangs of PostgreSQL");
                place.servers[primary].hang();
            }
            Fault::ResumeDatabase => place.servers[primary].resume(),
            Fault::SilenceSome => {
                tally.count("silent connections");
                place
                    .links
                    .iter()
                    .for_each(|link| link.silence(Some(&mut *chance)));
            }
            Fault::SilenceAll => {
                tally.count("silences of PostgreSQL");
                place.links.iter().for_each(|link| link.silence(None));
            }
            Fault::Heal => {
                let cut = chance.once_in(2);
                place.links.iter().for_each(|link| link.heal(cut));
            }
            Fault::SilenceReplication => {
                if let Some(link) = &place.replication {
                    link.silence(None);
                }
            }
            Fault::FailOver if place.servers.len() == 2 => {
                place.servers[primary].resume();
                if place.way == Way::Lagging {
                    tally.count("failovers to a standby that may lag");
                    self.lagged = true;
                } else {
                    tally.count("failovers to a synchronous standby");
                }
                place.fail_over();
                if let Some(link) = &place.replication {
                    link.heal(true);
                }
            }
            _ => {}
        }
    }
}

fn draw(place: &Place, chance: &mut Chance) -> Fault {
    let mut faults = vec![
        Fault::Kill,
        Fault::Kill,
        Fault::Stall,
        Fault::Stall,
        Fault::Terminate,
        Fault::Overlap,
        Fault::StopDatabase(Some(Signal::INT)),
        Fault::StopDatabase(Some(Signal::QUIT)),
        Fault::StopDatabase(None),
        Fault::HangDatabase,
        Fault::SilenceSome,
        Fault::SilenceAll,
        Fault::Redis(chance.one_of(&Mishap::HARMLESS)),
        Fault::Redis(Mishap::Restart),
        Fault::SilenceRedis,
    ];
    if place.pooler.is_some() {
        faults.extend([Fault::RestartPooler; 3]);
    }
    if place.servers.len() == 2 {
        faults.extend([Fault::FailOver; 3]);
    }
    if place.servers.len() == 2 && place.way == Way::Lagging {
        faults.extend([Fault::SilenceReplication; 3]);
    }
    chance.one_of(&faults)
}
