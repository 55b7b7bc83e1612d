//! A sandbox, one or two state directories, and runs against them.

use std::fmt;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ingest::clock::SystemClock;
use ingest::config::{Config, Sources};
use ingest::sandbox::{Options, Sandbox};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::chance::Chance;
use crate::invariants;
use crate::redis::Redis;

/// What is let through in a window, and what may go unmetered on each of two machines.
const ENFORCED: u64 = 40;
const TRICKLE: u64 = 10;
const PATIENCE: Duration = Duration::from_secs(120);
const FAKETIME: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";

pub(crate) struct Rig {
    program: String,
    directory: TempDir,
    states: usize,
    sets: Vec<String>,
    sandbox: Sandbox,
    runtime: Runtime,
    redis: Option<Redis>,
}

/// What was tried.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) rounds: usize,
    runs: usize,
    killed: usize,
    faults: usize,
    full_disks: usize,
    clock_jumps: usize,
    ledger_faults: usize,
    most: u64,
    requests: u64,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} rounds, {} runs, {} killed, {} sets of upstream faults, {} full disks, {} clock jumps, {} faults of \
             Redis; at most {} of {ENFORCED} units in a window (and {TRICKLE} unmetered a machine)",
            self.rounds,
            self.runs,
            self.killed,
            self.faults,
            self.full_disks,
            self.clock_jumps,
            self.ledger_faults,
            self.most
        )
    }
}

impl Rig {
    /// One machine, its ledger a file.
    pub(crate) fn local(program: &str) -> Self {
        Self::new(program, 1, None)
    }

    /// Two machines, their ledger a Redis; `None` where there is none to start.
    pub(crate) fn shared(program: &str) -> Option<Self> {
        Some(Self::new(program, 2, Some(Redis::start()?)))
    }

    fn new(program: &str, states: usize, redis: Option<Redis>) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut sets = configuration(redis.as_ref().map(|redis| redis.port));
        let runtime = Runtime::new().unwrap();
        let config = Config::load(&Sources { path: Some(shipped()), sets: sets.clone() }).unwrap();
        let listen = "127.0.0.1:0".parse().unwrap();
        let options = Options { listen, latency: Duration::from_millis(5), failure_rate: 0.02, quota: None, seed: 1 };
        let sandbox = runtime.block_on(Sandbox::start(&config, options, Arc::new(SystemClock))).unwrap();
        sets.push(format!("upstreams.youtube.base_url=\"{}\"", sandbox.base_url("youtube")));
        let directory = tempfile::tempdir().unwrap();
        Self { program: program.to_owned(), directory, states, sets, sandbox, runtime, redis }
    }

    fn state(&self, number: usize) -> PathBuf {
        self.directory.path().join(format!("state-{number}"))
    }

    /// Some runs at once, what befalls them, and what holds afterwards.
    pub(crate) fn round(&mut self, chance: &mut Chance, tally: &mut Tally) {
        tally.rounds += 1;
        if chance.once_in(2) {
            tally.faults += 1;
            self.faults(chance);
        }
        let count = 1 + chance.below(3);
        let mut running: Vec<Running> = (0..count).map(|number| self.start(number, chance, tally)).collect();
        for run in &mut running {
            std::thread::sleep(Duration::from_millis(chance.below(150) as u64));
            run.befall(chance, tally);
        }
        self.befall_redis(chance, tally);
        let killed = running.into_iter().map(Running::end).filter(|ended| *ended == End::Killed).count();
        tally.killed += killed;
        self.check(tally);
    }

    fn start(&self, number: usize, chance: &mut Chance, tally: &mut Tally) -> Running {
        tally.runs += 1;
        let state = self.state(chance.below(self.states));
        let mut shell = String::from("exec \"$0\" \"$@\"");
        if chance.once_in(6) {
            tally.full_disks += 1;
            // A file that cannot grow is what a full disk looks like; ignored, the signal becomes an error.
            shell = format!("trap '' XFSZ; ulimit -f {}; {shell}", 8 + chance.below(400));
        }
        let mut command = Command::new("bash");
        command.args(["-c", &shell, &self.program, "--config"]).arg(shipped()).arg("--state-dir").arg(state);
        for set in &self.sets {
            command.args(["--set", set]);
        }
        command.args(["--region", chance.one_of(&["all", "US", "US,GB,DE", "IN,BR"]), "-q"]);
        command.args(["--concurrency", &(1 + chance.below(8)).to_string()]);
        if chance.once_in(6) && Path::new(FAKETIME).exists() {
            tally.clock_jumps += 1;
            command
                .env("LD_PRELOAD", FAKETIME)
                .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
                .env("FAKETIME", self.jump(chance));
        }
        let said = self.directory.path().join(format!("said-{number}"));
        command
            .env("YOUTUBE_API_KEY", "k")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&said).unwrap());
        Running { child: command.spawn().unwrap(), said }
    }

    /// A clock that is set forward frees the units of a ledger on its machine: only a shared ledger can tell.
    fn jump(&self, chance: &mut Chance) -> &'static str {
        let jumps: &[&'static str] =
            if self.redis.is_some() { &["-2h", "-3s", "+2h", "+1d"] } else { &["-2h", "-3s", "-1d"] };
        chance.one_of(jumps)
    }

    fn faults(&self, chance: &mut Chance) {
        let times = 1 + chance.below(6);
        let after = chance.below(10);
        let fault = match chance.below(8) {
            0 => json!({ "status": 500 }),
            1 => json!({ "answer": "drop" }),
            2 => json!({ "answer": "half_body" }),
            3 => json!({ "answer": "slow_down" }),
            4 => json!({ "answer": "html" }),
            5 => json!({ "answer": "same_cursor" }),
            6 => json!({ "delay_ms": 300 }),
            _ => json!({ "answer": "no_body" }),
        };
        let mut fault: Value = fault;
        fault["times"] = json!(times);
        fault["after"] = json!(after);
        let url = format!("http://{}/_sandbox/faults", self.sandbox.address());
        let sent = self.runtime.block_on(reqwest::Client::new().post(url).json(&fault).send()).unwrap();
        assert!(sent.status().is_success(), "{fault}");
    }

    fn befall_redis(&mut self, chance: &mut Chance, tally: &mut Tally) {
        let (what, span) = (chance.below(5), Duration::from_millis(chance.below(800) as u64));
        let Some(redis) = &mut self.redis else { return };
        match what {
            0 => redis.kill_and_restart(span),
            1 => redis.stop_for(span),
            _ => return,
        }
        tally.ledger_faults += 1;
    }

    fn check(&self, tally: &mut Tally) {
        let counted = self.sandbox.usage().into_iter().find(|counted| counted.limit == "daily");
        let most = counted.map_or(0, |counted| counted.most_in_window.get());
        let trickle = if self.redis.is_some() { TRICKLE * self.states as u64 } else { 0 };
        assert!(most <= ENFORCED + trickle, "over: {most} units in one window");
        tally.most = tally.most.max(most);
        (0..self.states).for_each(|number| invariants::of_catalog(&self.state(number)));
        if self.redis.is_none() {
            let (charged, asked) = (invariants::charged(&self.state(0)), self.sandbox.requests());
            assert!(charged >= asked, "the upstream saw {asked} requests of a unit each, the ledger {charged}");
            tally.requests = asked;
        }
    }
}

/// One run.
struct Running {
    child: Child,
    said: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Itself,
    Killed,
}

impl Running {
    fn befall(&mut self, chance: &mut Chance, _: &mut Tally) {
        let signal = match chance.below(6) {
            0 | 1 => Signal::KILL,
            2 => Signal::TERM,
            _ => return,
        };
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }

    fn end(mut self) -> End {
        let status = self.wait();
        let said = std::fs::read_to_string(&self.said).unwrap();
        assert!(!said.contains("panicked"), "{said}");
        match (status.code(), status.signal()) {
            (Some(0 | 1 | 130 | 143), _) => End::Itself,
            (_, Some(9 | 15)) => End::Killed,
            _ => panic!("{status}: {said}"),
        }
    }

    fn wait(&mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(began.elapsed() < PATIENCE, "a run does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The shipped configuration with a small quota of a short window, all of it at a unit a call.
fn configuration(redis: Option<u16>) -> Vec<String> {
    let quota = ENFORCED + 2 * TRICKLE;
    let listing =
        "{ call = \"videos.list\", params = { chart = \"mostPopular\", regionCode = \"{region}\" }, max_pages = 4 }";
    let mut sets = vec![
        format!(
            "credentials.youtube.limits.daily={{ quota = {quota}, headroom = {}, window = \"4s\", wait = \"100ms\" }}",
            2 * TRICKLE
        ),
        "jobs.trending.every=1us".to_owned(),
        "jobs.trending.leave={ daily = 5 }".to_owned(),
        format!("jobs.discover.steps=[{listing}]"),
        "jobs.discover.every=1s".to_owned(),
        "upstreams.youtube.pause=10ms".to_owned(),
        format!("ledger.unmetered_max={TRICKLE}"),
    ];
    sets.extend(redis.map(|port| format!("ledger.url=redis://127.0.0.1:{port}")));
    sets
}

fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("quotas.toml")
}
