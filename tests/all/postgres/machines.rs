//! Several machines with one catalog and one Redis: state directories of their own, and one upstream that counts.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::json::has;
use crate::support::shared_world::SharedWorld;
use crate::support::world::{Ran, World};
use ingest_testing::pgbouncer::PgBouncer;
use ingest_testing::postgres::{PostgresServer, Schema};
use ingest_testing::redis_server::{RedisServer, wait_until};
use ingest_testing::stub_upstream::{StubAnswer, StubRequest, StubUpstream};

const REGIONS: [&str; 6] = ["A", "B", "C", "D", "E", "F"];
/// Pages of a region, and records of a page.
pub(super) const PAGES: usize = 3;
pub(super) const ROWS: usize = 4;

/// Machines that share everything but their state directories.
pub(super) struct Machines {
    world: World,
    pub(super) stub: StubUpstream,
    pub(super) redis: RedisServer,
}

impl Machines {
    /// Machines whose upstream takes this long for a page.
    pub(super) fn new(schema: &Schema, regions: &[&str], delay: Duration, sets: &[&str]) -> Self {
        Self::waiting(schema, regions, sets, move |_| sleep(delay))
    }

    /// Machines whose upstream calls `wait` before each answer.
    fn waiting(
        schema: &Schema,
        regions: &[&str],
        sets: &[&str],
        wait: impl Fn(&StubRequest) + Send + Sync + 'static,
    ) -> Self {
        let stub = StubUpstream::start(move |request| {
            wait(request);
            answer(
                request.param("ids"),
                request.param("region"),
                request.param("page"),
            )
        });
        let redis = RedisServer::start();
        let text = format!(
            "regions = {regions:?}\n\
            [ledger]\nurl = \"redis://127.0.0.1:{}\"\ntimeout = \"5s\"\n\
            [upstreams.rows]\nbase_url = \"https://rows.example.com\"\npause = \"1ms\"\nkeep = \"30d\"\n\
            [upstreams.rows.calls.list]\npath = \"list\"\ncost = 1\n\
            page = {{ kind = \"token\", param = \"page\", next = \"/next\" }}\n\
            records = {{ at = \"/data\", kind = \"row\", id = \"/id\", text = [\"/id\"] }}\n\
            [upstreams.rows.calls.get]\npath = \"get\"\ncost = 1\n\
            records = {{ at = \"/data\", kind = \"thing\", id = \"/id\" }}\n\
            [credentials.rows]\nupstream = \"rows\"\nlimits = {{ daily = {{ quota = 10_000, window = \"24h\" }} }}\n\
            [jobs.rows]\ncredential = \"rows\"\nevery = \"1h\"\nsteps = [\n\
            {{ call = \"list\", params = {{ region = \"{{region}}\" }} }},\n\
            {{ call = \"get\", params = {{ ids = \"{{ids}}\" }}, ids = {{ from = \"list\", at = \"/id\", batch = 8, fresh_for = \"1d\" }} }}]\n",
            redis.port()
        );
        let mut world = World::upon(&stub, &text);
        schema.in_world(&mut world);
        for set in sets {
            world.set(set);
        }
        Self { world, stub, redis }
    }

    pub(super) fn command(&self, machine: usize, arguments: &[&str]) -> Command {
        let mut command = self.world.command(arguments);
        command.env("INGEST_STATE_DIR", self.state(machine));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(super) fn state(&self, machine: usize) -> PathBuf {
        let name = format!("machine-{machine}");
        self.world.directory.path().join(name)
    }

    pub(super) fn start(&self, machine: usize) -> Child {
        self.command(machine, &["--region", "all", "--format", "json"])
            .spawn()
            .unwrap()
    }

    pub(super) fn run(&self, machine: usize) -> Ran {
        ended(self.start(machine))
    }

    pub(super) fn ask(&self, machine: usize, arguments: &[&str]) -> Ran {
        Ran::of(self.command(machine, arguments).output().unwrap())
    }

    /// How often each page and each id was requested.
    pub(super) fn times(&self) -> HashMap<String, usize> {
        let mut times = HashMap::new();
        for request in self.stub.requests() {
            let ids = request.param("ids");
            let page = || format!("{:?} {:?}", request.param("region"), request.param("page"));
            let asked = match ids {
                Some(ids) => ids.split(',').map(str::to_owned).collect(),
                None => vec![page()],
            };
            for one in asked {
                *times.entry(one).or_default() += 1;
            }
        }
        times
    }

    pub(super) fn assert_each_once(&self, regions: usize) {
        let times = self.times();
        assert_eq!(times.len(), regions * PAGES * (1 + ROWS));
        assert!(times.values().all(|times| *times == 1), "{times:?}");
        self.assert_counted();
    }

    /// The ledger counts what the upstream counted.
    pub(super) fn assert_counted(&self) {
        let status: Value = self.ask(1, &["status", "--format", "json"]).json();
        assert_eq!(status["limits"][0]["used"], self.stub.requests().len());
    }

    /// The second machine runs until the region `A` is no longer held, and completes it.
    pub(super) fn take_over(&self) {
        let mut ran = self.run(1);
        wait_until("the lease is over", || {
            let is_held = outcome(&ran, "A").0 == "busy";
            if is_held {
                ran = self.run(1);
            }
            !is_held
        });
        assert_eq!(outcome(&ran, "A").0, "complete", "{ran:?}");
    }

    pub(super) fn wait_for_requests(&self, least: usize) {
        wait_until("requests are sent", || self.stub.requests().len() >= least);
    }
}

fn answer(ids: Option<&str>, region: Option<&str>, page: Option<&str>) -> StubAnswer {
    let row = |id: &str| json!({ "id": id });
    if let Some(ids) = ids {
        let rows: Vec<Value> = ids.split(',').map(row).collect();
        return StubAnswer::json(&json!({ "data": rows }));
    }
    let (region, page) = (
        region.unwrap(),
        page.map_or(0, |page| page.parse().unwrap()),
    );
    let rows: Vec<Value> = (0..ROWS)
        .map(|one| row(&format!("{region}{page}{one}")))
        .collect();
    let next = (page + 1 < PAGES).then(|| (page + 1).to_string());
    StubAnswer::json(&json!({ "data": rows, "next": next }))
}

pub(super) fn ended(child: Child) -> Ran {
    Ran::of(child.wait_with_output().unwrap())
}

pub(super) fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

pub(super) fn complete(schema: &Schema) -> i64 {
    schema.count("select count(*) from pass where outcome = 'complete' and region <> '*'")
}

pub(super) fn outcome(ran: &Ran, region: &str) -> (String, String) {
    let report = ran.json();
    let passes = report["passes"]
        .as_array()
        .unwrap_or_else(|| panic!("{ran:?}"));
    let pass = passes.iter().find(|pass| pass["region"] == region);
    let pass = pass.unwrap_or_else(|| panic!("{report:#}"));
    let detail = pass["detail"].as_str().unwrap_or_default().to_owned();
    (pass["outcome"].as_str().unwrap().to_owned(), detail)
}

/// What a run did, for whoever has to find out why something does not hold.
fn passes_of(ran: &Ran) -> String {
    let report = ran.json();
    let passes = report["passes"].as_array().unwrap().iter();
    let shown = passes.map(|pass| {
        let [region, outcome, pages, detail] =
            ["region", "outcome", "pages", "detail"].map(|key| &pass[key]);
        format!("{region} {outcome} {pages} {detail}")
    });
    shown.collect::<Vec<_>>().join("; ")
}

#[test]
fn four_machines_divide_the_regions_and_request_no_page_and_no_id_twice() {
    let schema = PostgresServer::shared().schema();
    // The first answers wait until more requests are in flight than one machine sends at a time.
    let in_flight = AtomicUsize::new(0);
    let wait = move |_: &StubRequest| {
        in_flight.fetch_add(1, Ordering::SeqCst);
        let began = Instant::now();
        while in_flight.load(Ordering::SeqCst) < 3 && began.elapsed() < Duration::from_secs(20) {
            sleep(Duration::from_millis(5));
        }
    };
    let machines = Machines::waiting(&schema, &REGIONS, &[], wait);
    let arguments = ["--region", "all", "--concurrency", "2", "--format", "json"];
    let start = |machine| machines.command(machine, &arguments).spawn().unwrap();
    let runs: Vec<Child> = (0..4).map(start).collect();
    let mut walked = Vec::new();
    for ran in runs.into_iter().map(ended) {
        assert_eq!(ran.code, 0, "{ran:?}");
        let report = ran.json();
        let passes = report["passes"].as_array().unwrap().iter();
        let complete = passes.filter(|pass| pass["outcome"] == "complete");
        walked.push(complete.count());
    }
    assert!(
        walked.iter().filter(|count| **count > 0).count() > 1,
        "{walked:?}"
    );
    // Whoever found all regions busy may have left before the batches: nothing is paid for again.
    assert_eq!(machines.run(0).code, 0);
    machines.assert_each_once(REGIONS.len());
    assert_eq!(complete(&schema), REGIONS.len() as i64);
    assert_eq!(
        schema.count("select count(*) from lease where expires_at > now()"),
        0
    );
    assert_eq!(machines.run(3).json()["outcome"], "nothing_due");
}

#[test]
fn machines_that_share_a_small_quota_walk_every_region_as_often_as_any_other() {
    let schema = PostgresServer::shared().schema();
    let steps = "jobs.rows.steps=[{ call = \"list\", params = { region = \"{region}\" } }]";
    let sets = [steps, "jobs.rows.every=1us"];
    let machines = Machines::new(&schema, &REGIONS, Duration::from_millis(10), &sets);
    let walked = "select count(pass.id) from unnest(array['A', 'B', 'C', 'D', 'E', 'F']) name
        left join pass on pass.region = name and outcome = 'complete' group by name order by 1";
    let mut told = Vec::new();
    // Each turn has units for two regions: first two machines want them, then one. A machine that holds a region and charges late
    // leaves the units of a turn to regions behind its own: one of those may be walked a turn early, and from then on it has waited longer
    // than regions whose pass of that turn ended later. So counts differ by two at times, and by no more.
    for turn in 1..=8 {
        let quota = format!("credentials.rows.limits.daily.quota={}", turn * 2 * PAGES);
        let arguments = [
            "--region",
            "all",
            "--concurrency",
            "2",
            "--set",
            &quota,
            "--format",
            "json",
        ];
        let start = |machine| machines.command(machine, &arguments).spawn().unwrap();
        let contested = turn % 2 == 1;
        let runs: Vec<Child> = (turn..=turn + usize::from(contested))
            .map(|one| start(one % 4))
            .collect();
        for ran in runs.into_iter().map(ended) {
            assert_eq!(ran.code, 0, "{ran:?}");
            told.push(format!("turn {turn}: {}", passes_of(&ran)));
        }
        let counts = schema.rows(walked);
        let counts: Vec<i64> = counts.iter().map(|row| row.get(0)).collect();
        assert!(
            contested || counts[5] - counts[0] <= 2,
            "turn {turn}: {counts:?}: {told:#?}"
        );
    }
    // A machine that finds the next regions walked begins another one, which the next turn ends first.
    assert!(complete(&schema) >= 16 - 2, "{}", complete(&schema));
    assert_eq!(machines.stub.requests().len(), 16 * PAGES);
    machines.assert_counted();
}

#[test]
fn two_runs_of_one_machine_request_no_page_and_no_id_twice() {
    let schema = PostgresServer::shared().schema();
    let delay = Duration::from_millis(50);
    let machines = Machines::new(&schema, &REGIONS, delay, &[]);
    let runs = [machines.start(0), machines.start(0)];
    for ran in runs.map(ended) {
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    assert_eq!(machines.run(0).code, 0);
    machines.assert_each_once(REGIONS.len());
    assert_eq!(complete(&schema), REGIONS.len() as i64);
}

#[test]
fn each_machine_names_who_walks_a_region() {
    let schema = PostgresServer::shared().schema();
    let machines = Machines::new(&schema, &["A"], Duration::from_millis(500), &[]);
    let walking = machines.start(0);
    machines.wait_for_requests(1);
    let (outcome, detail) = outcome(&machines.run(1), "A");
    let machine = rustix::system::uname();
    let by = format!(
        "process {} on {}",
        walking.id(),
        machine.nodename().to_str().unwrap()
    );
    assert_eq!(outcome, "busy");
    assert!(
        detail.contains(&by) && detail.contains("since 20"),
        "{detail}"
    );
    let status = machines.ask(1, &["status", "--format", "json"]).json();
    let held = &status["walking"][0];
    has(held, &json!({ "job": "rows", "region": "A" }));
    assert_eq!(held["process"], walking.id());
    assert!(held["since"].as_str() < held["until"].as_str(), "{held}");
    let shown = machines.ask(1, &["status"]).stdout;
    assert!(shown.contains(&by), "{shown}");
    assert_eq!(ended(walking).code, 0);
    let after = machines.ask(1, &["status", "--format", "json"]).json();
    assert_eq!(after["walking"], json!([]));
}

#[test]
fn a_machine_that_dies_frees_its_regions_within_a_lease() {
    let schema = PostgresServer::shared().schema();
    let delay = Duration::from_millis(300);
    let machines = Machines::new(&schema, &["A"], delay, &["catalog.lease=2s"]);
    let mut dying = machines.start(0);
    machines.wait_for_requests(2);
    signal(&dying, Signal::KILL);
    dying.wait().unwrap();
    assert_eq!(outcome(&machines.run(1), "A").0, "busy");
    machines.take_over();
    let times = machines.times();
    let twice = times.values().filter(|times| **times > 1).count();
    assert!(
        twice <= 1 && times.values().all(|times| *times <= 2),
        "{times:?}"
    );
    machines.assert_counted();
}

#[test]
fn a_machine_that_stalls_longer_than_its_lease_sends_nothing_more_and_lands_no_cursor() {
    let schema = PostgresServer::shared().schema();
    let delay = Duration::from_millis(300);
    let machines = Machines::new(&schema, &["A"], delay, &["catalog.lease=1s"]);
    let stalled = machines.start(0);
    machines.wait_for_requests(2);
    signal(&stalled, Signal::STOP);
    machines.take_over();
    let (sent, passes) = (
        machines.stub.requests().len(),
        schema.count("select count(*) from pass"),
    );
    let checkpoints = schema.count("select count(*) from checkpoint");
    signal(&stalled, Signal::CONT);
    let stalled = ended(stalled);
    assert_eq!(stalled.code, 1, "{stalled:?}");
    let (outcome, detail) = outcome(&stalled, "A");
    assert_eq!(outcome, "failed");
    assert!(detail.contains("another"), "{detail}");
    assert_eq!(machines.stub.requests().len(), sent);
    assert_eq!(schema.count("select count(*) from checkpoint"), checkpoints);
    assert_eq!(schema.count("select count(*) from pass"), passes);
    assert_eq!(
        schema.count("select sum(requests)::bigint from pass"),
        sent as i64
    );
    machines.assert_counted();
}

#[test]
fn a_run_goes_on_after_its_server_and_its_pooler_were_restarted() {
    let mut server = PostgresServer::with(&["fsync=on"]);
    let mut pooler = PgBouncer::before(&server);
    let schema = server.schema().through(&pooler.url());
    let delay = Duration::from_millis(200);
    let machines = Machines::new(&schema, &["A", "B"], delay, &[]);
    let runs = [machines.start(0), machines.start(1)];
    machines.wait_for_requests(2);
    server.restart();
    machines.wait_for_requests(3);
    pooler.restart();
    let outcomes = runs.map(ended);
    let failed = outcomes.iter().filter(|ran| ran.code != 0).count();
    // A statement that is not the landing of a page may have met the restart; the next run continues.
    assert!(failed == 0 || machines.run(0).code == 0, "{outcomes:?}");
    assert_eq!(machines.run(1).code, 0);
    assert_eq!(complete(&schema), 2);
    machines.assert_each_once(2);
}

#[test]
fn a_page_that_no_database_took_is_kept_and_stored_by_the_next_run_before_anything_else() {
    let mut server = PostgresServer::with(&[]);
    let schema = server.schema();
    let delay = Duration::from_millis(300);
    let machines = Machines::new(&schema, &["A"], delay, &["catalog.lease=1h"]);
    let run = machines.start(0);
    machines.wait_for_requests(2);
    server.kill();
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(
        machines.stub.requests().len(),
        2,
        "it must not send while a page waits"
    );
    signal(&run, Signal::TERM);
    let ran = ended(run);
    assert_ne!(ran.code, 0, "{ran:?}");
    let (_, detail) = outcome(&ran, "A");
    assert!(
        detail.contains("unlanded.jsonl, and the next run stores it"),
        "{detail}"
    );
    let kept = machines
        .world
        .directory
        .path()
        .join("machine-0/unlanded.jsonl");
    let text = std::fs::read_to_string(&kept).unwrap();
    assert_eq!(text.trim().lines().count(), 1);
    let away = machines.run(0);
    assert_eq!(
        (away.code, machines.stub.requests().len()),
        (1, 2),
        "{away:?}"
    );
    server.start();
    schema.rows("update lease set expires_at = now()");
    let next = machines.run(0);
    assert_eq!(outcome(&next, "A").0, "complete", "{next:?}");
    assert!(!kept.exists());
    machines.assert_each_once(1);
}

#[test]
fn a_kept_page_of_a_region_that_another_machine_took_over_brings_its_records_only() {
    let mut server = PostgresServer::with(&[]);
    let schema = server.schema();
    let delay = Duration::from_millis(300);
    let machines = Machines::new(&schema, &["A"], delay, &["catalog.lease=1h"]);
    let run = machines.start(0);
    machines.wait_for_requests(2);
    server.kill();
    std::thread::sleep(Duration::from_millis(500));
    signal(&run, Signal::TERM);
    ended(run);
    server.start();
    schema.rows("update lease set expires_at = now()");
    assert_eq!(outcome(&machines.run(1), "A").0, "complete");
    let checkpoints = schema.count("select count(*) from checkpoint");
    // What the other machine landed since is newer than the kept page.
    schema.rows("update record set body = '{}', gone_at = now() returning 1");
    let next = machines.run(0);
    assert_eq!(next.json()["outcome"], "nothing_due", "{next:?}");
    let older = "select count(*) from record where body <> '{}' or gone_at is null";
    assert_eq!(schema.count(older), 0);
    assert_eq!(schema.count("select count(*) from checkpoint"), checkpoints);
    assert_eq!(
        schema.count("select sum(requests)::bigint from pass"),
        machines.stub.requests().len() as i64
    );
    let times = machines.times();
    assert_eq!(
        times.values().filter(|times| **times == 2).count(),
        1,
        "{times:?}"
    );
}

#[test]
fn machines_that_charge_ledgers_of_their_own_are_refused_and_one_may_move_to_a_shared_one() {
    let schema = PostgresServer::shared().schema();
    let machines = Machines::new(&schema, &["A", "B"], Duration::ZERO, &[]);
    let with_file = |machine: usize, region: &str| {
        let arguments = [
            "--region",
            region,
            "--format",
            "json",
            "--set",
            "ledger.url=sqlite",
        ];
        ended(machines.command(machine, &arguments).spawn().unwrap())
    };
    let first = with_file(0, "A");
    assert_eq!(first.code, 0, "{first:?}");
    let sent = machines.stub.requests().len();
    let refused = with_file(1, "B");
    assert_eq!(refused.code, 1, "{refused:?}");
    let why = refused.json()["error"].as_str().unwrap().to_owned();
    assert!(
        why.contains("account rows is charged in the ledger file of "),
        "{why}"
    );
    assert!(why.contains("in the ledger file of this machine"), "{why}");
    // A check says the same before a run is refused, and finds nothing where the run would move.
    let check = |machine: usize, ledger: &str| {
        let arguments = ["check", "--connect", "--set", ledger];
        let ran = ended(machines.command(machine, &arguments).spawn().unwrap());
        (ran.code, ran.stdout.contains("would be spent twice"))
    };
    assert_eq!(check(1, "ledger.url=sqlite"), (1, true));
    assert!(!check(0, "ledger.url=sqlite").1);
    assert!(!check(0, "ledger.max_skew=30s").1);
    let shared = machines.run(1);
    assert_eq!(shared.code, 1, "{shared:?}");
    assert!(shared.stdout.contains("first on "), "{shared:?}");
    assert_eq!(machines.stub.requests().len(), sent);
    let moved = machines.run(0);
    assert_eq!(moved.code, 0, "{moved:?}");
    machines.assert_counted();
    assert_eq!(machines.run(1).code, 0);
    let back = with_file(0, "A");
    let why = back.json()["error"].as_str().unwrap().to_owned();
    assert!(
        why.contains("write ledger.url = \"redis://127.0.0.1"),
        "{why}"
    );
}

#[test]
fn a_machine_keeps_the_identity_of_its_ledger_file_whatever_the_file_with_it_began_with() {
    let schema = PostgresServer::shared().schema();
    let machines = Machines::new(&schema, &["A"], Duration::ZERO, &["ledger.url=sqlite"]);
    // As a full disk leaves it, or another process that writes it at the same moment.
    fs::create_dir_all(machines.state(0)).unwrap();
    fs::write(machines.state(0).join("ledger.id"), "01").unwrap();
    for _ in 0..2 {
        let ran = machines.run(0);
        assert_eq!(ran.code, 0, "{ran:?}");
    }
}

#[test]
fn a_new_database_is_shown_as_empty_and_made_by_whatever_writes_first() {
    let schema = PostgresServer::shared().schema();
    let machines = Machines::new(&schema, &["A"], Duration::ZERO, &[]);
    for arguments in [
        &["status"][..],
        &["history"],
        &["search", "A00"],
        &["export", "--kind", "row"],
        &["--region", "all", "--dry-run"],
        &["forecast", "--schedule", "0 3 * * *"],
        &["check", "--connect"],
    ] {
        let ran = machines.ask(0, arguments);
        assert_eq!(ran.code, 0, "{arguments:?}: {ran:?}");
    }
    let exists = format!(
        "select count(*) from pg_namespace where nspname = '{}'",
        schema.name
    );
    assert_eq!(schema.count(&exists), 0, "reading must not write");
    assert_eq!(machines.ask(0, &["charge", "rows", "list"]).code, 0);
    assert_eq!(schema.count(&exists), 1);
    let tried = machines.ask(0, &["try", "rows", "list", "--region", "A"]);
    assert_eq!(tried.code, 0, "{tried:?}");
    assert_eq!(outcome(&machines.run(1), "A").0, "complete");
    let found = machines.ask(2, &["search", "A00"]);
    assert!(found.stdout.contains("A00"), "{found:?}");
    let checked = machines.ask(2, &["check", "--connect"]);
    assert!(checked.stdout.contains("has version "), "{checked:?}");
    let repaired = machines.ask(2, &["repair"]);
    assert!(
        repaired.stdout.contains("rebuilt from 12 records")
            || repaired.stdout.contains("rebuilt from 24 records"),
        "{repaired:?}"
    );
}

/// A standby that lagged is the server's data as it was a while ago.
#[test]
fn after_a_failover_to_a_standby_that_lagged_pages_are_paid_for_twice_and_all_of_them_are_counted()
{
    let mut server = PostgresServer::with(&[]);
    let schema = server.schema();
    let machines = Machines::new(
        &schema,
        &["A"],
        Duration::from_millis(400),
        &["catalog.lease=30s"],
    );
    assert_eq!(machines.ask(0, &["charge", "rows", "list"]).code, 0);
    let standby = server.copy();
    let first = machines.start(0);
    machines.wait_for_requests(2);
    server.fail_over(standby);
    let second = machines.run(1);
    assert_eq!(
        outcome(&second, "A").0,
        "complete",
        "both hold the region: {second:?}"
    );
    let first = ended(first);
    assert_eq!(
        outcome(&first, "A").0,
        "failed",
        "its pass is unknown here: {first:?}"
    );
    let status: Value = machines.ask(1, &["status", "--format", "json"]).json();
    assert_eq!(
        status["limits"][0]["used"],
        machines.stub.requests().len() + 1
    );
    assert_eq!(
        schema.count("select count(*) from record where kind = 'row'"),
        (PAGES * ROWS) as i64
    );
    assert_eq!(complete(&schema), 1);
}
