//! Where a chapter happens: machines with a state directory each, one catalog in PostgreSQL, one ledger in Redis, and an
//! upstream that remembers who asked it for what.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::super::chance::Chance;
use super::super::process::Process;
use super::super::redis::Redis;
use super::super::sizes;
use super::link::Link;
use ingest_testing::pgbouncer::PgBouncer;
use ingest_testing::postgres::PostgresServer;
use ingest_testing::stub_upstream::{StubAnswer, StubRequest, StubUpstream};

/// Pages of a region, and records of a page.
pub(super) const PAGES: usize = 3;
pub(super) const ROWS: usize = 4;
/// The most different ids that the records of all regions of a round name together.
pub(super) const OWNERS: usize = 20;
pub(super) const SCHEMA: &str = "shared";
const FAKETIME: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";

/// How the machines reach the catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// One server.
    Direct,
    /// PgBouncer in transaction mode before it.
    Pooled,
    /// Two servers, of which one follows the other; each commit waits for both.
    Followed,
    /// Two servers, of which one can lag behind the other.
    Lagging,
}

impl Way {
    pub(super) const ALL: [Self; 4] = [Self::Direct, Self::Pooled, Self::Followed, Self::Lagging];

    pub(super) const fn has_standby(self) -> bool {
        matches!(self, Self::Followed | Self::Lagging)
    }
}

/// How much there is to walk, and by whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sizes {
    /// Four machines with six regions.
    #[allow(dead_code, reason = "those of the tests")]
    Few,
    /// From one machine to six, and from one region to 250.
    Any,
}

/// A request that the upstream saw.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    /// The number of the process.
    pub(super) process: usize,
    /// The region, and the page as a number; or ids.
    pub(super) what: Vec<String>,
    pub(super) region: Option<String>,
    pub(super) arrived: SystemTime,
    /// When the answer began to leave; `None` while it is under way.
    pub(super) answered: Option<SystemTime>,
}

pub(super) struct Place {
    pub(super) way: Way,
    pub(super) lease: Duration,
    sizes: Sizes,
    pub(super) machines: usize,
    /// The number of regions of this round.
    pub(super) regions: usize,
    /// How many connections each process makes in this round; `None` where the program cannot be told.
    pub(super) connections: usize,
    /// How long the upstream takes for an answer.
    delay: Duration,
    /// The machine whose clock is off, and by what.
    pub(super) clock: Option<(usize, &'static str)>,
    pub(super) servers: Vec<PostgresServer>,
    /// The one of them that takes writes.
    pub(super) primary: usize,
    pub(super) pooler: Option<Arc<Mutex<PgBouncer>>>,
    pub(super) redis: Redis,
    /// The way to each server, or to the pooler.
    pub(super) links: Vec<Link>,
    /// From the primary to its standby.
    pub(super) replication: Option<Link>,
    pub(super) redis_link: Link,
    pub(super) runtime: Runtime,
    pub(super) asked: Arc<Mutex<Vec<Asked>>>,
    /// Processes that were started.
    pub(super) started: usize,
    _upstream: StubUpstream,
    program: String,
    directory: TempDir,
}

impl Place {
    pub(super) fn new(program: &str, number: u64, sizes: Sizes, chance: &mut Chance) -> Self {
        let way = Way::ALL[usize::try_from(number).unwrap() % Way::ALL.len()];
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let asked = Arc::default();
        let delay = Duration::from_millis(30 + chance.below(90) as u64);
        let upstream = upstream(Arc::clone(&asked), delay);
        let redis = Redis::start();
        let servers = vec![PostgresServer::local(&[
            "wal_retrieve_retry_interval=200ms",
        ])];
        let pooler = (way == Way::Pooled).then(|| PgBouncer::local(&servers[0]));
        let first = match &pooler {
            Some(pooler) => pooler.socket(),
            None => socket(&servers[0]),
        };
        let pooler = pooler.map(supervised);
        let links = if way.has_standby() { 2 } else { 1 };
        // Until there is a standby, nobody is at its address.
        let targets = std::iter::once(first).chain(std::iter::repeat(PathBuf::from("/nowhere")));
        let links = targets.take(links);
        let (links, redis_link) = runtime.block_on(async {
            let mut made = Vec::new();
            for target in links {
                made.push(Link::to(target).await);
            }
            (made, Link::to(redis.socket()).await)
        });
        let machines = match sizes {
            Sizes::Few => 4,
            Sizes::Any => 1 + chance.below(6),
        };
        // A machine alone has nobody whose clock is right.
        let off = machines > 1 && Path::new(FAKETIME).exists() && chance.once_in(2);
        let clock = off.then(|| (chance.below(machines), chance.one_of(&["-1h", "+1h"])));
        let mut place = Self {
            way,
            lease: Duration::from_secs(chance.one_of(&[2, 3, 3, 4])),
            sizes,
            machines,
            regions: 0,
            connections: 4,
            delay,
            clock,
            servers,
            primary: 0,
            pooler,
            redis,
            links,
            replication: None,
            redis_link,
            runtime,
            asked,
            started: 0,
            _upstream: upstream,
            program: program.to_owned(),
            directory: tempfile::tempdir().unwrap(),
        };
        place.write_configuration(delay);
        place.in_peace(0, "0", &["charge", "youtube", "list"]);
        place.primary().rows("create schema audit");
        for statement in AUDIT {
            place.primary().rows(statement);
        }
        place
    }

    pub(super) fn primary(&self) -> &PostgresServer {
        &self.servers[self.primary]
    }

    pub(super) fn state(&self, machine: usize) -> PathBuf {
        self.directory.path().join(format!("machine-{machine}"))
    }

    /// Chooses the sizes of the next round.
    pub(super) fn choose_sizes(&mut self, chance: &mut Chance) {
        self.regions = match self.sizes {
            Sizes::Few => 6,
            Sizes::Any => sizes::regions(chance),
        };
        if self.sizes == Sizes::Any {
            self.connections = 1 + chance.below(4);
        }
    }

    pub(super) fn concurrency(&self, chance: &mut Chance) -> usize {
        match self.sizes {
            Sizes::Few => 1 + chance.below(4),
            Sizes::Any => sizes::concurrency(chance),
        }
    }

    /// The regions of a round.
    fn names(&self, round: &str) -> Vec<String> {
        let numbers = 0..self.regions.max(1);
        numbers.map(|number| format!("r{round}x{number}")).collect()
    }

    /// Starts a run over all regions. Returns the process and its number.
    pub(super) fn run(
        &mut self,
        machine: usize,
        round: &str,
        concurrency: usize,
    ) -> (usize, Process) {
        let said = concurrency.to_string();
        let arguments = ["--region", "all", "--concurrency", &said];
        // A page that was lost is requested again, and batches belong to nobody.
        let requests = 2 * self.regions * PAGES + OWNERS;
        let patience = sizes::patience(requests, concurrency, self.delay);
        self.start(machine, round, &arguments, patience)
    }

    /// Starts the program on a machine. Returns the process and its number.
    fn start(
        &mut self,
        machine: usize,
        round: &str,
        arguments: &[&str],
        patience: Duration,
    ) -> (usize, Process) {
        let number = self.started;
        self.started += 1;
        let mut command = Command::new(&self.program);
        command
            .arg("--config")
            .arg(self.directory.path().join("quotas.toml"))
            .env("INGEST_STATE_DIR", self.state(machine))
            .args(["--set", &format!("regions={:?}", self.names(round))])
            .args([
                "--set",
                &format!("catalog.connections={}", self.connections),
            ])
            .args(arguments)
            .args(["-v", "--format", "json"])
            .env("TOKEN", format!("process-{number}"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some((_, by)) = self.clock.filter(|(off, _)| *off == machine) {
            command
                .env("LD_PRELOAD", FAKETIME)
                .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
                .env("FAKETIME", by);
        }
        let what = format!(
            "machine {machine} of {}, {} regions, connections {}: {}",
            self.machines,
            self.regions,
            self.connections,
            arguments.join(" ")
        );
        (number, Process::start(command, what, patience))
    }

    /// Runs the program to its end, without faults.
    pub(super) fn in_peace(
        &mut self,
        machine: usize,
        round: &str,
        arguments: &[&str],
    ) -> (i32, Value) {
        let patience = sizes::patience(1, 1, Duration::ZERO);
        let (_, process) = self.start(machine, round, arguments, patience);
        self.ended(process).expect("nobody ended it")
    }

    pub(super) fn ended(&self, process: Process) -> Option<(i32, Value)> {
        process.end(|| self.asked.lock().unwrap().len())
    }

    /// Makes the standby anew, behind the primary.
    pub(super) fn follow(&mut self) {
        assert_eq!(self.servers.len(), 1);
        let through = (self.way == Way::Lagging).then(|| {
            let target = socket(self.primary());
            match &self.replication {
                Some(link) => {
                    // It may have gone silent after the last failover.
                    link.heal(true);
                    link.lead_to(target);
                }
                None => self.replication = Some(self.runtime.block_on(Link::to(target))),
            }
            self.replication.as_ref().unwrap().port()
        });
        let standby = PostgresServer::standby(self.primary(), through);
        self.servers.push(standby);
        self.wait_for_standby();
        if self.way == Way::Followed {
            self.set_synchronous("'*'");
        }
        self.address();
    }

    /// Waits until the standby, if there is one, has a connection to the primary: no commit is answered before.
    pub(super) fn wait_for_standby(&self) {
        if self.servers.len() < 2 {
            return;
        }
        let streaming = "select 1 from pg_stat_replication where state = 'streaming'";
        let streams = || self.primary().rows(streaming).len() == 1;
        ingest_testing::redis_server::wait_until("the standby streams", streams);
    }

    fn set_synchronous(&self, names: &str) {
        let set = format!("alter system set synchronous_standby_names = {names}");
        self.primary().rows(&set);
        self.primary().rows("select pg_reload_conf()");
    }

    /// The primary dies, and the standby takes over.
    pub(super) fn fail_over(&mut self) {
        self.servers[self.primary].kill();
        self.servers.remove(self.primary);
        self.servers[0].promote();
        if self.way == Way::Followed {
            self.set_synchronous("''");
        }
        self.links.swap(0, 1);
        self.address();
    }

    /// Leads the links to the servers: the first one of `links` to the primary.
    fn address(&self) {
        let nowhere = PathBuf::from("/nowhere");
        for (at, link) in self.links.iter().enumerate() {
            link.lead_to(self.servers.get(at).map_or_else(|| nowhere.clone(), socket));
        }
    }

    fn write_configuration(&self, delay: Duration) {
        let mut ports: Vec<u16> = self.links.iter().map(Link::port).collect();
        ports.sort_unstable();
        let hosts: Vec<String> = ports
            .iter()
            .map(|port| format!("127.0.0.1:{port}"))
            .collect();
        let text = format!(
            "[ledger]\nurl = \"redis://127.0.0.1:{}\"\ntimeout = \"2s\"\n\
            [catalog]\nurl = \"postgres://postgres@{}/postgres?connect_timeout=3\"\nschema = \"{SCHEMA}\"\nlease = \"{}s\"\n\
            [upstreams.rows]\nbase_url = \"{}\"\npause = \"1ms\"\ntimeout = \"60s\"\n\
            auth = {{ bearer = true }}\n\
            [upstreams.rows.calls.list]\npath = \"list\"\ncost = 1\n\
            page = {{ kind = \"token\", param = \"page\", next = \"/next\" }}\n\
            records = {{ at = \"/data\", kind = \"row\", id = \"/id\", text = [\"/id\"] }}\n\
            [upstreams.rows.calls.get]\npath = \"get\"\ncost = 1\n\
            records = {{ at = \"/data\", kind = \"thing\", id = \"/id\" }}\n\
            [credentials.youtube]\nupstream = \"rows\"\nsecret = {{ env = \"TOKEN\" }}\n\
            limits = {{ daily = {{ quota = 1_000_000, window = \"24h\" }} }}\n\
            [jobs.rows]\ncredential = \"youtube\"\nevery = \"1h\"\nsteps = [\n\
            {{ call = \"list\", params = {{ region = \"{{region}}\" }} }},\n\
            {{ call = \"get\", params = {{ ids = \"{{ids}}\" }}, ids = {{ from = \"list\", at = \"/owner\", batch = 8, fresh_for = \"1d\" }} }}]\n\
            # An answer takes {delay:?}.\n",
            self.redis_link.port(),
            hosts.join(","),
            self.lease.as_secs(),
            self._upstream.url(),
        );
        std::fs::write(self.directory.path().join("quotas.toml"), text).unwrap();
    }
}

/// Every change of a lease, by the server's clock.
const AUDIT: [&str; 3] = [
    "create table audit.lease (at timestamptz not null default clock_timestamp(), job text, region text, process bigint,
        holder uuid, expires_at timestamptz)",
    "create function audit.note() returns trigger language plpgsql as $$ begin
        insert into audit.lease (job, region, process, holder, expires_at)
        values (new.job, new.region, new.process, new.holder, new.expires_at);
        return new; end $$",
    "create trigger note after insert or update on shared.lease for each row execute function audit.note()",
];

/// PgBouncer 1.18 ends by itself (`bad client state`) where the client of a cancel request closes its connection in the wrong
/// moment. It is started again, as by systemd.
fn supervised(pooler: PgBouncer) -> Arc<Mutex<PgBouncer>> {
    let pooler = Arc::new(Mutex::new(pooler));
    let watched = Arc::downgrade(&pooler);
    std::thread::spawn(move || {
        while let Some(pooler) = watched.upgrade() {
            if pooler.lock().unwrap().revive() {
                eprintln!("PgBouncer ended by itself");
            }
            drop(pooler);
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    pooler
}

fn socket(server: &PostgresServer) -> PathBuf {
    server.socket().join(format!(".s.PGSQL.{}", server.port()))
}

/// Lists regions of a few pages, whose records name owners that other regions name too.
fn upstream(asked: Arc<Mutex<Vec<Asked>>>, delay: Duration) -> StubUpstream {
    StubUpstream::start(move |request| {
        let number = note(&asked, request);
        std::thread::sleep(delay);
        asked.lock().unwrap()[number].answered = Some(SystemTime::now());
        match (request.param("ids"), request.param("region")) {
            (Some(ids), _) => {
                let things: Vec<Value> = ids.split(',').map(|id| json!({ "id": id })).collect();
                StubAnswer::json(&json!({ "data": things }))
            }
            (None, region) => page(region.unwrap_or_default(), page_of(request)),
        }
    })
}

fn page_of(request: &StubRequest) -> usize {
    request
        .param("page")
        .map_or(0, |page| page.parse().unwrap())
}

fn note(asked: &Mutex<Vec<Asked>>, request: &StubRequest) -> usize {
    let token = request.header("authorization").unwrap_or_default();
    let what = match request.param("ids") {
        Some(ids) => ids.split(',').map(str::to_owned).collect(),
        None => vec![format!(
            "{} {}",
            request.param("region").unwrap_or_default(),
            page_of(request)
        )],
    };
    let mut asked = asked.lock().unwrap();
    asked.push(Asked {
        process: token.rsplit('-').next().unwrap().parse().unwrap(),
        what,
        region: request.param("region").map(str::to_owned),
        arrived: SystemTime::now(),
        answered: None,
    });
    asked.len() - 1
}

fn page(region: &str, page: usize) -> StubAnswer {
    // A region's name ends with its number; the rest names the round.
    let (round, number) = region.split_once('x').unwrap();
    let first = number.parse::<usize>().unwrap() * PAGES * ROWS + page * ROWS;
    let row = |one: usize| json!({ "id": format!("{region}-{page}-{one}"), "owner": format!("{round}-{}", (first + one) % OWNERS) });
    let rows: Vec<Value> = (0..ROWS).map(row).collect();
    let next = (page + 1 < PAGES).then(|| (page + 1).to_string());
    StubAnswer::json(&json!({ "data": rows, "next": next }))
}
