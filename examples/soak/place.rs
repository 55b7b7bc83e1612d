//! Where a chapter happens: a sandbox, one or two machines with a state directory each, and perhaps a Redis.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use ingest_base::clock::SystemClock;
use ingest_config::{Config, Sources};
use ingest_sandbox::{Options, Sandbox};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::chance::Chance;
use crate::invariants;
use crate::process::Process;
use crate::redis::Redis;
use crate::sizes;
use crate::tally::Tally;

/// What is let through in a window where there are few regions, and for each where there are many.
const ENFORCED: u64 = 40;
const ENFORCED_EACH: u64 = 5;
/// What may go unmetered on each machine within a window.
const TRICKLE: u64 = 10;
/// How late a request may arrive where a machine has more to do than it can: by so much the sandbox's window is shorter.
/// (A unit counts a tenth of a second longer than its window, which is enough for a machine that keeps up.)
const LATENESS: Duration = Duration::from_millis(600);
/// What an upstream's answer may take, of those that it is told to delay too.
const DELAY: Duration = Duration::from_millis(50);
const FAKETIME: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";

/// Whose ledger it is, and what may happen to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Books {
    /// A file of one machine.
    File,
    /// A Redis of two machines that loses nothing.
    Shared,
    /// A Redis of one machine that loses data: the machine itself knows all.
    OneMachine,
    /// A Redis of two machines that loses data, after which both wait for a window.
    Waiting,
    /// A Redis of two machines that loses data, after which they go on from what each knows.
    Floors,
}

impl Books {
    pub(crate) const ALL: [Self; 5] = [
        Self::File,
        Self::Shared,
        Self::OneMachine,
        Self::Waiting,
        Self::Floors,
    ];

    pub(crate) const fn machines(self) -> usize {
        match self {
            Self::File | Self::OneMachine => 1,
            Self::Shared | Self::Waiting | Self::Floors => 2,
        }
    }

    pub(crate) const fn loses_data(self) -> bool {
        matches!(self, Self::OneMachine | Self::Waiting | Self::Floors)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::File => "a file",
            Self::Shared => "a shared Redis",
            Self::OneMachine => "a Redis that loses data, one machine",
            Self::Waiting => "a Redis that loses data, two machines that wait",
            Self::Floors => "a Redis that loses data, two machines that go on",
        }
    }
}

pub(crate) struct Place {
    pub(crate) books: Books,
    pub(crate) redis: Option<Redis>,
    pub(crate) sandbox: Sandbox,
    pub(crate) window: Duration,
    /// How many units a call takes.
    pub(crate) cost: u64,
    /// What is let through in a window.
    pub(crate) enforced: u64,
    pub(crate) regions: Vec<String>,
    /// Whether clocks jump here.
    pub(crate) jumps: bool,
    program: String,
    directory: TempDir,
    sets: Vec<String>,
    runtime: Runtime,
}

impl Place {
    pub(crate) fn new(program: &str, books: Books, chance: &mut Chance) -> Self {
        let redis = (books != Books::File).then(Redis::start);
        let (window, cost) = (2 + chance.below(2) as u64, chance.one_of(&[1, 1, 2]));
        // A ledger in a file goes by the clock of its machine: only a shared one can tell that this is off.
        let jumps = redis.is_some() && chance.once_in(3);
        let regions: Vec<String> = codes().take(sizes::regions(chance)).collect();
        let enforced = ENFORCED.max(ENFORCED_EACH * regions.len() as u64);
        let mut sets = configuration(books, redis.as_ref().map(Redis::url), cost);
        sets.push(format!("regions={regions:?}"));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let window = Duration::from_secs(window);
        let sandboxs = [sets.clone(), vec![limits(enforced, window - LATENESS)]].concat();
        let config = Config::load(&Sources {
            path: Some(shipped()),
            sets: sandboxs,
        })
        .unwrap();
        sets.push(limits(enforced, window));
        let options = Options {
            seed: chance.below(1000) as u64,
            ..Options::default()
        };
        let sandbox = runtime
            .block_on(Sandbox::start(&config, options, Arc::new(SystemClock)))
            .unwrap();
        sets.push(format!(
            "upstreams.youtube.base_url=\"{}\"",
            sandbox.base_url("youtube")
        ));
        let (program, directory) = (program.to_owned(), tempfile::tempdir().unwrap());
        let place = Self {
            books,
            redis,
            sandbox,
            window,
            cost,
            enforced,
            regions,
            jumps,
            program,
            directory,
            sets,
            runtime,
        };
        place.tell_sandbox(
            "POST",
            "totals",
            &json!({ "videos.list": 5 + chance.below(20) }),
        );
        place
    }

    pub(crate) fn state(&self, machine: usize) -> PathBuf {
        self.directory.path().join(format!("state-{machine}"))
    }

    /// The program on a machine, before it is known what it is to do.
    pub(crate) fn command(&self, machine: usize, limits: &str) -> Command {
        let mut command = Command::new("bash");
        command.args(["-c", &format!("{limits} exec \"$0\" \"$@\""), &self.program]);
        command
            .arg("--config")
            .arg(shipped())
            .env("INGEST_STATE_DIR", self.state(machine));
        for set in &self.sets {
            command.args(["--set", set]);
        }
        command
            .args(["-q", "--format", "json"])
            .env("YOUTUBE_API_KEY", "k");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Something somebody does on one of the machines, perhaps with a full disk or a clock that is off.
    pub(crate) fn start(&self, chance: &mut Chance, tally: &Tally) -> Process {
        let mut limits = String::new();
        if chance.once_in(8) {
            tally.count("full disks");
            // A file that cannot grow is what a full disk looks like; ignored, the signal becomes an error.
            limits = format!("trap '' XFSZ; ulimit -f {};", 8 + chance.below(400));
        }
        let machine = chance.below(self.books.machines());
        let mut command = self.command(machine, &limits);
        let (what, concurrency) = self.arguments(chance);
        command.args(&what);
        if self.jumps && chance.once_in(4) && Path::new(FAKETIME).exists() {
            tally.count("clock jumps");
            let jump = chance.one_of(&["-2h", "-3s", "+2h"]);
            command
                .env("LD_PRELOAD", FAKETIME)
                .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
                .env("FAKETIME", jump);
        }
        tally.count(if what[0] == "--region" {
            "runs"
        } else {
            "other commands"
        });
        Process::start(command, what.join(" "), self.patience(concurrency))
    }

    /// Something that somebody does, and its concurrency.
    fn arguments(&self, chance: &mut Chance) -> (Vec<String>, usize) {
        let concurrency = sizes::concurrency(chance);
        let said = concurrency.to_string();
        let first = chance.below(self.regions.len());
        let some = self
            .regions
            .iter()
            .skip(first)
            .take(chance.one_of(&[1, 2, 3]));
        let some: Vec<&str> = some.map(String::as_str).collect();
        let some = some.join(",");
        let words: &[&str] = match chance.below(12) {
            0 => &["charge", "youtube", "videos.list"],
            1 => &["charge", "youtube", "videos.list", "--id", "by-hand"],
            2 => &["status"],
            3 => &["--region", "all", "--dry-run"],
            4 => chance.one_of(&[
                &["search", "the"][..],
                &["history"],
                &["repair"],
                &["check", "--connect"],
            ]),
            _ => {
                let regions = if chance.once_in(3) { "all" } else { &some };
                &["--region", regions, "--concurrency", &said]
            }
        };
        (
            words.iter().map(|word| (*word).to_owned()).collect(),
            concurrency,
        )
    }

    /// How long a process may take: what the window does not hold, nobody waits for.
    fn patience(&self, concurrency: usize) -> Duration {
        let requests = usize::try_from(self.enforced / self.cost).unwrap();
        sizes::patience(requests, concurrency, DELAY)
    }

    pub(crate) fn tell_sandbox(&self, method: &str, what: &str, told: &Value) {
        let url = format!("http://{}/_sandbox/{what}", self.sandbox.address());
        let request = reqwest::Client::new()
            .request(method.parse().unwrap(), url)
            .json(told);
        assert!(
            self.runtime
                .block_on(request.send())
                .unwrap()
                .status()
                .is_success(),
            "{told}"
        );
    }

    /// Runs the program to its end in peace.
    pub(crate) fn run(&self, machine: usize, arguments: &[&str]) -> (i32, Value) {
        // A machine that has more to do than it can is no outage.
        let patient = [
            "--set",
            "ledger.timeout=5s",
            "--set",
            "upstreams.youtube.timeout=10s",
        ];
        let mut command = self.command(machine, "");
        command.args(patient).args(arguments);
        let process = Process::start(command, arguments.join(" "), self.patience(1));
        process.end(|| self.requests()).expect("nobody ended it")
    }

    /// Takes back what the upstream said while it played spent.
    pub(crate) fn reopen(&self) {
        for machine in 0..self.books.machines() {
            self.run(machine, &["reopen", "youtube", "daily"]);
        }
    }

    pub(crate) fn requests(&self) -> usize {
        usize::try_from(self.sandbox.requests()).unwrap()
    }

    /// What the sandbox counts now, and the most that it ever counted in one window.
    pub(crate) fn counted(&self) -> (u64, u64) {
        let counted = self
            .sandbox
            .usage()
            .into_iter()
            .find(|counted| counted.limit == "daily")
            .unwrap();
        (counted.used.get(), counted.most_in_window.get())
    }

    /// The most that any window may hold.
    pub(crate) fn bound(&self) -> u64 {
        let machines = self.books.machines() as u64;
        // What others charged since a machine last heard of a ledger that lost it can be spent again.
        let enforced = if self.books == Books::Floors {
            self.enforced * machines
        } else {
            self.enforced
        };
        // A clock that was set forward takes what went unmetered before for long ago.
        let trickle = if self.redis.is_some() {
            TRICKLE * machines * (1 + u64::from(self.jumps))
        } else {
            0
        };
        enforced + trickle
    }

    /// What the ledger holds, for whoever has to find out why something does not hold.
    pub(crate) fn dump(&self) -> String {
        let journals =
            (0..self.books.machines()).map(|machine| invariants::dump(&self.state(machine)));
        let journals = journals.collect::<Vec<_>>().join("\n");
        format!(
            "{}\n{journals}",
            self.redis.as_ref().map(Redis::dump).unwrap_or_default()
        )
    }

    /// What holds after every round.
    pub(crate) fn check(&self, tally: &Tally) {
        let (_, most) = self.counted();
        tally.most(self.books.name(), most);
        assert!(
            most <= self.bound(),
            "over: {most} of {} in one window, {:?}, jumps: {}",
            self.bound(),
            self.books,
            self.jumps
        );
        (0..self.books.machines()).for_each(|machine| invariants::of_state(&self.state(machine)));
        self.redis.iter().for_each(Redis::check);
        if self.books == Books::File {
            let (charged, asked) = (
                invariants::charged(&self.state(0)),
                self.sandbox.requests() * self.cost,
            );
            assert!(
                charged >= asked,
                "the upstream saw {asked} units, the ledger {charged}"
            );
        }
    }
}

/// Every code of two letters, as the upstream's regions have.
fn codes() -> impl Iterator<Item = String> {
    ('A'..='Z').flat_map(|first| ('A'..='Z').map(move |second| format!("{first}{second}")))
}

/// The shipped configuration with a small quota of a short window, and short pages.
fn configuration(books: Books, redis: Option<String>, cost: u64) -> Vec<String> {
    let page = "{ kind = \"token\", param = \"pageToken\", next = \"/nextPageToken\", size_param = \"maxResults\", size = 5 }";
    let listing = "{ call = \"videos.list\", params = { chart = \"mostPopular\", regionCode = \"{region}\" }, max_pages = 2 }";
    let mut sets = vec![
        "upstreams.youtube.calls.\"search.list\".cost=1".to_owned(),
        format!("upstreams.youtube.calls.\"videos.list\".page={page}"),
        format!("upstreams.youtube.calls.\"videos.list\".cost={cost}"),
        format!("upstreams.youtube.calls.\"channels.list\".cost={cost}"),
        "upstreams.youtube.pause=5ms".to_owned(),
        "upstreams.youtube.timeout=1s".to_owned(),
        "upstreams.youtube.max_body=256KiB".to_owned(),
        "jobs.trending.every=1us".to_owned(),
        "jobs.trending.leave={ daily = 2 }".to_owned(),
        "jobs.discover.leave={}".to_owned(),
        format!("jobs.discover.steps=[{listing}]"),
        "jobs.discover.every=1s".to_owned(),
        format!("ledger.unmetered_max={TRICKLE}"),
    ];
    if books == Books::Waiting {
        sets.push("ledger.after_loss=wait".to_owned());
    }
    sets.extend(redis.map(|url| format!("ledger.url={url}")));
    sets
}

/// The one limit. What would be too much is counted, not refused.
fn limits(enforced: u64, window: Duration) -> String {
    let headroom = 2 * TRICKLE * 2 + enforced;
    format!(
        "credentials.youtube.limits={{ daily = {{ quota = {}, headroom = {headroom}, window = \"{}ms\", wait = \"50ms\" }} }}",
        enforced + headroom,
        window.as_millis()
    )
}

fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("quotas.toml")
}
