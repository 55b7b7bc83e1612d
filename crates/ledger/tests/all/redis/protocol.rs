//! The whole protocol under everything at once: several machines, each with its journal and two processes, and a Redis
//! that is flushed, restarted empty, hung, cut off from its replies and led back to an older state, in random order. The
//! upstream keeps its own count.
//!
//! Whatever happens, what was sent is at most what one window lets through, and what the outage policy lets through
//! without the ledger, and what other machines had charged before a loss since a machine last heard of it.

use std::time::Duration;

use ingest_ledger::Acquired;
use ingest_quota::{Account, Outage};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::machine::{Machine, Process, account};
use ingest_testing::proxy::Proxy;
use ingest_testing::redis_server::{RedisServer, url};

const QUOTA: u64 = 40;
const MACHINES: usize = 2;
const PROCESSES: usize = 2;
const ALLOWANCE: u64 = 3;

#[derive(Debug, Clone)]
enum Event {
    /// `count` charges by one process of one machine.
    Charge {
        machine: usize,
        process: usize,
        units: u64,
        outage: bool,
    },
    /// All processes of all machines charge at once.
    ChargeTogether {
        units: u64,
    },
    /// The newest request of a machine never left.
    Release {
        machine: usize,
    },
    /// The next replies are lost after their script ran.
    Cut {
        replies: u32,
    },
    Flush,
    ForgetScripts,
    /// The process ends at any point of a charge, and another takes its place.
    Crash {
        machine: usize,
        process: usize,
        after_micros: u64,
    },
}

fn events() -> impl Strategy<Value = Event> {
    let (machines, processes) = (|| 0..MACHINES, || 0..PROCESSES);
    prop_oneof![
        8 => (machines(), processes(), 1..4_u64, any::<bool>())
            .prop_map(|(machine, process, units, outage)| Event::Charge { machine, process, units, outage }),
        2 => (1..3_u64).prop_map(|units| Event::ChargeTogether { units }),
        2 => machines().prop_map(|machine| Event::Release { machine }),
        3 => (1..4_u32).prop_map(|replies| Event::Cut { replies }),
        1 => Just(Event::Flush),
        1 => Just(Event::ForgetScripts),
        2 => (machines(), processes(), 0..3000_u64)
            .prop_map(|(machine, process, after_micros)| Event::Crash { machine, process, after_micros }),
    ]
}

struct World {
    server: RedisServer,
    proxy: Proxy,
    machines: Vec<Machine>,
    processes: Vec<Vec<Process>>,
    account: Account,
    /// What each machine sent and did not release, by the upstream's count, newest last.
    sent: Vec<Vec<(ingest_ledger::Permit, u64)>>,
    /// What a machine may not have heard of when the ledger lost it.
    unheard: u64,
    /// What each machine had heard of last.
    heard: Vec<u64>,
}

impl World {
    async fn new(server: RedisServer) -> Self {
        let proxy = Proxy::to(server.port()).await;
        let machines: Vec<_> = (0..MACHINES)
            .map(|_| {
                let mut machine = Machine::new(url(&format!("redis://127.0.0.1:{}", proxy.port())));
                machine.policy.unmetered_max = ALLOWANCE.into();
                machine
            })
            .collect();
        let processes = machines
            .iter()
            .map(|machine| (0..PROCESSES).map(|_| machine.process()).collect())
            .collect();
        let (sent, heard) = (vec![Vec::new(); MACHINES], vec![0; MACHINES]);
        Self {
            server,
            proxy,
            machines,
            processes,
            account: account(QUOTA),
            sent,
            unheard: 0,
            heard,
        }
    }

    fn all_sent(&self) -> u64 {
        self.sent.iter().flatten().map(|(_, units)| units).sum()
    }

    /// What may have been sent beyond the limit: the trickle of every machine, and what a loss hid.
    fn excused(&self) -> u64 {
        ALLOWANCE * MACHINES as u64 + self.unheard
    }

    fn send(&mut self, machine: usize, units: u64, verdict: Acquired) {
        if let Acquired::Permitted(permit) = verdict {
            let metered = permit.metered;
            self.sent[machine].push((permit, units));
            if metered {
                self.heard[machine] = self.all_sent();
            }
        }
    }

    async fn happen(&mut self, event: &Event) {
        match event {
            Event::Charge {
                machine,
                process,
                units,
                outage,
            } => {
                let outage = if *outage {
                    Outage::Allow
                } else {
                    Outage::Refuse
                };
                let process = &self.processes[*machine][*process];
                let verdict = process
                    .try_ask(&self.account, None, *units, outage)
                    .await
                    .unwrap();
                self.send(*machine, *units, verdict);
            }
            Event::ChargeTogether { units } => {
                let asks = self
                    .processes
                    .iter()
                    .enumerate()
                    .flat_map(|(machine, processes)| {
                        processes.iter().map(move |process| (machine, process))
                    });
                let account = &self.account;
                let asks = asks
                    .map(async |(machine, process)| (machine, process.ask(account, *units).await));
                for (machine, verdict) in futures_util::future::join_all(asks).await {
                    self.send(machine, *units, verdict);
                }
            }
            Event::Release { machine } => {
                if let Some((permit, _)) = self.sent[*machine].pop() {
                    self.processes[*machine][0]
                        .0
                        .release(&self.account, &permit)
                        .await
                        .unwrap();
                }
            }
            Event::Cut { replies } => self.proxy.cut(*replies),
            Event::Flush => {
                let sent = self.all_sent();
                let behind = self
                    .heard
                    .iter()
                    .map(|heard| sent.saturating_sub(*heard))
                    .max();
                self.unheard += behind.unwrap_or_default();
                self.server.tell("FLUSHALL");
            }
            Event::ForgetScripts => {
                self.server.tell("SCRIPT FLUSH");
                self.server.tell("FUNCTION FLUSH");
            }
            Event::Crash {
                machine,
                process,
                after_micros,
            } => {
                let ask = self.processes[*machine][*process].try_ask(
                    &self.account,
                    None,
                    2,
                    Outage::Allow,
                );
                // A permit that comes in time is sent; one that does not is never sent.
                if let Ok(verdict) =
                    tokio::time::timeout(Duration::from_micros(*after_micros), ask).await
                {
                    self.send(*machine, 2, verdict.unwrap());
                }
                self.processes[*machine][*process] = self.machines[*machine].process();
            }
        }
    }

    fn holds(&self, event: &Event) {
        let (sent, excused) = (self.all_sent(), self.excused());
        assert!(
            sent <= QUOTA + excused,
            "{sent} sent, {excused} beyond {QUOTA} excused, after {event:?}"
        );
    }

    /// When all is well again and everybody came by, the ledger counts at least what was sent.
    async fn settles(&mut self) {
        self.proxy.cut(0);
        for machine in &self.machines {
            machine.process().used(&self.account).await;
        }
        let used = self.machines[0].process().used(&self.account).await;
        assert!(
            used >= self.all_sent(),
            "{used} counted of {} sent",
            self.all_sent()
        );
    }
}

#[test]
fn whatever_breaks_nothing_is_overspent_and_everything_sent_is_counted() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let cases = std::env::var("PROTOCOL_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok())
        .unwrap_or(24);
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 200,
        ..Config::default()
    };
    let outcome = TestRunner::new(config).run(&vec(events(), 1..60), |events| {
        runtime.block_on(async {
            let mut world = World::new(RedisServer::start()).await;
            for event in &events {
                world.happen(event).await;
                world.holds(event);
            }
            world.settles().await;
        });
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}
