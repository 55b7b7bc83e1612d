//! The stories of `tests/cases/machines.txt`: what machines ask of a ledger in Redis, what happens to it, and what they hear.
//!
//! A line is who does something, and what. Servers are `redis` and `replica`; what happens to them is in [`Told::happen`]. All others are
//! machines, which are cut off as long as `redis` is not started. `here` is a new process of a machine each time, `here.1` one that goes
//! on, `here.watcher` one that only looks; `@+90m` has a clock that much later, `@-72h` earlier, and `@+90m/4m` one that is 4 minutes
//! behind the ledger's.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ingest_config::AfterLoss;
use ingest_ledger::{Acquired, Permit};
use ingest_quota::{Account, ChargeId, Closing, Cost, Outage, Units};
use ingest_testing::redis_server::{RedisServer, url, wait_until};

use super::TIMEOUT;
use super::machine::{Machine, Process, account};
use super::stored::{key, stored, try_stored};
use crate::books::secs;

const STORIES: &str = include_str!("../../cases/machines.txt");

type Otherwise = Result<(), String>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machines_hear_what_the_stories_say() {
    let mut wrong = Vec::new();
    for story in STORIES
        .split("\n\n")
        .filter(|story| !story.starts_with('#'))
    {
        let (name, lines) = story.split_once('\n').unwrap();
        for lines in variants(lines) {
            if let Err(otherwise) = Told::tell(&lines).await {
                wrong.push(format!("{name}: {otherwise}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_story_that_goes_otherwise_is_found() {
    for wrong in [
        "here takes 11",
        "here rejected 1",
        "here refused 1",
        "here takes 1 unmetered",
        "here takes 1 as a repeated",
        "here takes 1 probing 60s",
        "here drains 9",
        "here used 1",
        "redis floors 1",
    ] {
        let told = Told::tell(&format!("redis starts\n{wrong}")).await;
        assert!(told.is_err(), "{wrong}");
    }
}

/// The story for each word of its `each {NAME}: ONE OTHER`.
fn variants(lines: &str) -> Vec<String> {
    let each = lines
        .lines()
        .find_map(|line| line.trim().strip_prefix("each "));
    let Some((name, words)) = each.and_then(|each| each.split_once(": ")) else {
        return vec![lines.to_owned()];
    };
    let rest = lines
        .lines()
        .filter(|line| !line.trim().starts_with("each "));
    let rest = rest.collect::<Vec<_>>().join("\n");
    words
        .split(' ')
        .map(|word| rest.replace(name, word))
        .collect()
}

/// What a story has begun: its servers, machines, processes and permits.
struct Told {
    account: Account,
    servers: BTreeMap<String, RedisServer>,
    machines: BTreeMap<String, Machine>,
    processes: BTreeMap<String, Arc<Process>>,
    permits: BTreeMap<String, Permit>,
    saved: BTreeMap<String, Vec<u8>>,
}

impl Told {
    async fn tell(lines: &str) -> Otherwise {
        let mut told = Self {
            account: account(10),
            servers: BTreeMap::new(),
            machines: BTreeMap::new(),
            processes: BTreeMap::new(),
            permits: BTreeMap::new(),
            saved: BTreeMap::new(),
        };
        for line in lines.lines().map(str::trim) {
            let (who, what) = line.split_once(' ').unwrap();
            let done = match who {
                "quota" => {
                    told.account = account(what.parse().unwrap());
                    Ok(())
                }
                "redis" | "replica" => told.happen(who, what),
                _ => told.act(who, what).await,
            };
            done.map_err(|otherwise| format!("{line}: {otherwise}"))?;
        }
        Ok(())
    }

    /// What happens to a server: one of these, what it then holds, or a command of Redis, in which `{log}` is a key of the account.
    fn happen(&mut self, name: &str, what: &str) -> Otherwise {
        if what.starts_with("starts") {
            let lasting = [
                "--appendonly",
                "yes",
                "--appendfsync",
                "always",
                "--save",
                "",
            ];
            let server = match what {
                "starts" => RedisServer::start(),
                _ => RedisServer::with(&lasting),
            };
            self.servers.insert(name.to_owned(), server);
            return Ok(());
        }
        let port = self.servers["redis"].port();
        let server = self.servers.get_mut(name).unwrap();
        let words: Vec<&str> = what.split(' ').collect();
        match words.as_slice() {
            ["follows", "redis"] => server.tell(&format!("REPLICAOF 127.0.0.1 {port}")),
            ["has", records] => {
                let records: usize = records.parse().unwrap();
                let account = &self.account;
                wait_until("the replica has the charges", || {
                    try_stored(server, account).is_ok_and(|stored| stored.records == records)
                });
            }
            ["hangs"] => server.hang(),
            ["resumes"] => server.resume(),
            ["is", "killed"] => server.kill(),
            ["restarts"] => server.restart(),
            ["is", "saved"] => self.saved = server.dump_all(),
            ["is", "as", "saved"] => server.restore_all(&self.saved),
            ["is", "empty"] => return equal(server.ask::<i64>("DBSIZE"), 0),
            ["is", "whole"] => return equal(stored(server, &self.account).wrong, Vec::new()),
            ["floors", floors] => {
                return equal(
                    stored(server, &self.account).floors.to_string(),
                    (*floors).to_owned(),
                );
            }
            _ => {
                let parts = ["main", "log", "ids"];
                let command = parts.iter().fold(what.to_owned(), |command, part| {
                    command.replace(&format!("{{{part}}}"), &key(&self.account, part))
                });
                server.tell(&command);
            }
        }
        Ok(())
    }

    fn machine(&mut self, name: &str) -> &mut Machine {
        let redis = self.servers.get("redis").map(RedisServer::url);
        let at = || Machine::new(redis.unwrap_or_else(|| url("redis://127.0.0.1:1")));
        self.machines.entry(name.to_owned()).or_insert_with(at)
    }

    fn process(&mut self, who: &str) -> Arc<Process> {
        if let Some(process) = self.processes.get(who) {
            return Arc::clone(process);
        }
        let (name, clock) = who.split_once('@').unwrap_or((who, ""));
        let (name, number) = name.split_once('.').unwrap_or((name, ""));
        let machine = self.machine(name);
        let process = match (number, clock.split_at(clock.len().min(1))) {
            ("watcher", _) => machine.watcher(),
            (_, ("+", later)) => match later.split_once('/') {
                Some((later, behind)) => machine.process_behind(span(later), span(behind)),
                None => machine.process_later(span(later)),
            },
            (_, ("-", earlier)) => machine.process_earlier(span(earlier)),
            _ => machine.process(),
        };
        let process = Arc::new(process);
        if !number.is_empty() && number != "watcher" {
            self.processes.insert(who.to_owned(), Arc::clone(&process));
        }
        process
    }

    async fn act(&mut self, who: &str, what: &str) -> Otherwise {
        let (what, said) = what.split_once(": ").unwrap_or((what, ""));
        let words: Vec<&str> = what.split(' ').collect();
        match words.as_slice() {
            ["waits", "after", "a", "loss"] => {
                self.machine(who).policy.after_loss = AfterLoss::Wait
            }
            ["may", "spend", units] => {
                self.machine(who).policy.unmetered_max = Units::new(units.parse().unwrap());
            }
            ["moves", "to", server] => {
                let at = self.servers[*server].url();
                self.machine(who).url = at;
            }
            ["logs", "in", "as", user] => {
                let port = self.servers["redis"].port();
                self.machine(who).url = url(&format!("redis://{user}@127.0.0.1:{port}"));
            }
            ["reaches", way] => {
                let redis = &self.servers["redis"];
                let way = way.replace("{port}", &redis.port().to_string());
                let way = way.replace("{socket}", &redis.socket().display().to_string());
                self.machine(who).url = url(&way);
            }
            ["knows", "nothing"] => {
                let usage = self.process(who).0.usage(&self.account).await;
                return equal(usage.is_err(), true);
            }
            ["is", "cut", "off"] => self.machine(who).url = url("redis://127.0.0.1:1"),
            ["gives", "up", "soon"] => self.machine(who).timeout = Duration::from_millis(100),
            ["is", "patient"] => self.machine(who).timeout = TIMEOUT,
            ["drains", units] => {
                let drained = self.process(who).drain(&self.account).await;
                return equal(drained.to_string(), (*units).to_owned());
            }
            ["used", units] => {
                let used = self.process(who).used(&self.account).await;
                return equal(used.to_string(), (*units).to_owned());
            }
            ["closes"] => {
                let process = self.process(who);
                let closed = process
                    .0
                    .close(&self.account, "daily", Closing::Probing)
                    .await;
                closed.unwrap();
            }
            ["reopens"] => {
                let process = self.process(who);
                process.0.reopen(&self.account, "daily").await.unwrap();
            }
            ["releases", name] => {
                let (process, permit) = (self.process(who), &self.permits[*name]);
                process.0.release(&self.account, permit).await.unwrap();
            }
            ["settles", name, units] => {
                let (process, id) = (self.process(who), self.permits[*name].id.clone());
                let settled = process.0.settle(&self.account, &id, &daily(units)).await;
                settled.unwrap();
            }
            [verb, units, how @ ..] => return self.ask(who, (verb, units), how, said).await,
            _ => panic!("nobody does {what}"),
        }
        Ok(())
    }

    /// Asks for units, and compares the verdict: `takes`, `rejected`, `refused` with a part of the reason, or `never`.
    async fn ask(
        &mut self,
        who: &str,
        (verb, units): (&str, &str),
        how: &[&str],
        said: &str,
    ) -> Otherwise {
        let behind = |word: &str| {
            let at = how.iter().position(|one| *one == word)?;
            how.get(at + 1).copied()
        };
        let has = |word: &str| how.contains(&word);
        let outage = match has("cheaply") || has("unmetered") {
            true => Outage::Allow,
            false => Outage::Refuse,
        };
        let id = behind("as").map(ChargeId::new);
        let times: u32 = behind("times").map_or(1, |times| times.parse().unwrap());
        let process = self.process(who);
        for _ in 0..times {
            let units = units.parse().unwrap();
            let asked = process
                .try_ask(&self.account, id.as_ref(), units, outage)
                .await;
            match (verb, asked.unwrap()) {
                ("takes", Acquired::Permitted(permit)) => {
                    equal(permit.metered, !has("unmetered"))?;
                    if has("repeated") || has("new") {
                        equal(permit.grant.repeated, has("repeated"))?;
                    }
                    if let Some(held) = behind("held") {
                        equal(&permit.grant.held, &Some(daily(held)))?;
                    }
                    if let Some(probing) = behind("probing") {
                        equal(permit.grant.probing.get("daily"), Some(&span(probing)))?;
                    }
                    if has("unprobed") {
                        equal(permit.grant.probing.len(), 0)?;
                    }
                    let name = behind("called").unwrap_or_default();
                    self.permits.insert(name.to_owned(), permit);
                }
                ("rejected", Acquired::Rejected(rejection)) => {
                    if let Some(least) = behind("for") {
                        let off = span(least).saturating_sub(rejection.retry_after);
                        let is_near = off <= secs(100) && rejection.retry_after <= span(least);
                        equal(
                            (is_near, rejection.retry_after),
                            (true, rejection.retry_after),
                        )?;
                    }
                }
                // No reason has a second line, or a password.
                ("refused", Acquired::Refused(why)) if why.contains(said) => {
                    equal(why.contains('\n') || why.contains("wrong-one"), false)?;
                }
                ("never", Acquired::Never { most, .. }) => {
                    equal(
                        Some(most.get().to_string()),
                        behind("most").map(str::to_owned),
                    )?;
                }
                (_, other) => return Err(format!("{other:?}")),
            }
        }
        Ok(())
    }
}

fn daily(units: &str) -> Cost {
    [("daily".to_owned(), Units::new(units.parse().unwrap()))]
        .into_iter()
        .collect()
}

/// Seconds `s`, minutes `m` or hours `h`.
fn span(text: &str) -> Duration {
    let (number, unit) = text.split_at(text.len() - 1);
    let one = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => panic!("no span: {text}"),
    };
    secs(one * number.parse::<u64>().unwrap())
}

fn equal<T: PartialEq + std::fmt::Debug>(found: T, wanted: T) -> Otherwise {
    match found == wanted {
        true => Ok(()),
        false => Err(format!("{found:?}")),
    }
}
