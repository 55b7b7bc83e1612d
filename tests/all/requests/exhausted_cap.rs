//! A cap that the upstream reports as exhausted, without saying until when: what its refusals cost, and how often they are
//! requested. The closing's end is moved into the past in the ledger's file, as if the time had passed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::world::World;
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};

const HOUR: u64 = 3600;
const RUN: [&str; 2] = ["--region", "all"];

/// A page costs 35 of the cap, and the call is configured with the least that it can cost.
const CAPPED: &str = r#"
regions = ["US"]
[upstreams.meter]
base_url = "https://meter.example.com/v1"
errors = [{ status = 403, class = "spent" }]
[upstreams.meter.calls.report]
path = "reports/{region}"
cost = { cap = 2 }
settle = { cap = "/usage/tokens" }
records = { at = "/rows", kind = "row", id = "/id" }
[credentials.meter]
upstream = "meter"
limits = { cap = { quota = 1000, window = "30d" } }
[jobs.reports]
credential = "meter"
every = "1us"
steps = [{ call = "report" }]
"#;

struct Month {
    world: World,
    stub: StubUpstream,
    refuses: Arc<AtomicBool>,
}

impl Month {
    fn begin(sets: &[&str]) -> Self {
        let mut world = World::written(CAPPED, sets);
        let refuses = Arc::new(AtomicBool::new(false));
        let refusing = Arc::clone(&refuses);
        let stub = StubUpstream::start(move |_| match refusing.load(Ordering::SeqCst) {
            true => StubAnswer::error(403, &json!({ "message": "the cap is used up" })),
            false => {
                StubAnswer::json(&json!({ "rows": [{ "id": "1" }], "usage": { "tokens": 35 } }))
            }
        });
        world.set(&format!("upstreams.meter.base_url=\"{}\"", stub.url()));
        Self {
            world,
            stub,
            refuses,
        }
    }

    fn refuse(&self, refuse: bool) {
        self.refuses.store(refuse, Ordering::SeqCst);
    }

    fn run(&self, outcome: &str) -> Value {
        let run = self.world.json(&RUN);
        assert_eq!(run["outcome"], outcome, "{run}");
        run
    }

    /// For how long the cap is closed from now on, in hours, to the minute; the run that was refused said the same.
    fn closed_for(&self, run: &Value) -> u64 {
        let until = self.world.json(&["status"])["limits"][0]["closed_until"].clone();
        assert_eq!(run["stopped_by"]["retry_at"], until, "{run}");
        let until = chrono::DateTime::parse_from_rfc3339(until.as_str().unwrap()).unwrap();
        let seconds = (until.to_utc() - chrono::Utc::now()).num_seconds();
        u64::try_from(seconds + 60).unwrap() / HOUR
    }

    /// Lets the closing end.
    fn wait_until_it_opens(&self) {
        let ledger = rusqlite::Connection::open(self.world.state_dir().join("ledger.db")).unwrap();
        let past = std::time::SystemTime::now() - Duration::from_secs(1);
        let past = past.duration_since(std::time::UNIX_EPOCH).unwrap();
        let moved = ledger.execute(
            "update closing set until = ?1",
            [i64::try_from(past.as_micros()).unwrap()],
        );
        assert_eq!(moved.unwrap(), 1);
    }

    /// Probes a cap that stays exhausted, as soon as each closing ends: how long each closing lasts, in hours.
    fn probe(&self, times: usize) -> Vec<u64> {
        (0..times)
            .map(|_| {
                self.wait_until_it_opens();
                let requests = self.stub.requests().len();
                let run = self.run("stopped");
                self.run("stopped");
                assert_eq!(self.stub.requests().len(), requests + 1, "one probe");
                self.closed_for(&run)
            })
            .collect()
    }
}

#[test]
fn probes_of_an_exhausted_cap_cost_the_calls_smallest_cost_and_back_off_to_one_a_day() {
    let month = Month::begin(&[]);
    month.run("complete");
    assert_eq!(month.world.charged("cap"), 35);
    month.refuse(true);
    let refused = month.run("stopped");
    assert_eq!(month.closed_for(&refused), 1);
    assert_eq!(
        month.world.charged("cap"),
        70,
        "in doubt, it is counted in full"
    );

    assert_eq!(month.probe(7), [2, 4, 8, 16, 24, 24, 24]);
    assert_eq!(month.world.charged("cap"), 70 + 7 * 2);

    month.refuse(false);
    month.wait_until_it_opens();
    month.run("complete");
    month.run("complete");
    assert_eq!(month.world.charged("cap"), 70 + 7 * 2 + 2 * 35);
    let limit = &month.world.json(&["status"])["limits"][0];
    assert!(limit["closed_until"].is_null(), "{limit}");

    month.refuse(true);
    let refused = month.run("stopped");
    assert_eq!(
        month.closed_for(&refused),
        1,
        "an accepted request resets the interval"
    );
}

#[test]
fn a_refusal_that_the_upstream_does_not_count_is_released() {
    let free = "upstreams.meter.errors=[{ status = 403, class = \"spent\", free = true }]";
    let month = Month::begin(&[free]);
    month.run("complete");
    month.refuse(true);
    let refused = month.run("stopped");
    assert_eq!(month.closed_for(&refused), 1);
    assert_eq!(refused["passes"][0]["requests"], 1, "{refused}");
    assert_eq!(refused["passes"][0]["units"], json!({}), "{refused}");
    assert_eq!(month.probe(2), [2, 4]);
    assert_eq!(month.world.charged("cap"), 35, "the page alone");
}

#[test]
fn a_refusal_that_is_free_costs_nothing_whatever_it_means() {
    let rules = "upstreams.meter.errors=[{ status = 403, class = \"skip\", free = true }]";
    let month = Month::begin(&[rules]);
    month.refuse(true);
    month.world.json(&RUN);
    assert_eq!(
        (month.stub.requests().len(), month.world.charged("cap")),
        (1, 0)
    );
}

#[test]
fn a_calendar_limit_without_a_known_reset_opens_at_its_own() {
    let day = "credentials.meter.limits.cap={ quota = 1000, resets = \"UTC\" }";
    let month = Month::begin(&[day]);
    month.refuse(true);
    let run = month.run("stopped");
    assert!(month.closed_for(&run) <= 24);
    month.wait_until_it_opens();
    let ledger = rusqlite::Connection::open(month.world.state_dir().join("ledger.db")).unwrap();
    let probing: bool = ledger
        .query_row("select probing from closing", [], |row| row.get(0))
        .unwrap();
    assert!(!probing, "its reset is known");
}

#[test]
fn the_sandbox_does_not_count_a_refusal_that_is_free() {
    for (free, counted) in [(false, 1), (true, 0)] {
        let rules = format!(
            "upstreams.meter.errors=[{{ status = 403, class = \"spent\", free = {free} }}]"
        );
        let world = World::written(CAPPED, &[&rules, "upstreams.meter.calls.report.settle={}"]);
        world.faults(&json!({ "answer": "spent", "times": 1 }));
        assert_eq!(world.json(&RUN)["outcome"], "stopped");
        assert_eq!(world.counted("cap"), counted * 2);
        assert_eq!(world.most_in_window("cap"), counted * 2);
        assert_eq!(world.charged("cap"), counted * 2);
    }
}
