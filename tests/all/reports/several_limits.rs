//! A charge of several limits fits when all of them have room: every output reports that instant.

use std::time::Duration;

use ingest_base::clock::{Clock, SystemClock};
use ingest_base::plain;
use ingest_ledger::{Charge, Ledger, Purpose, SqliteLedger, fresh_id};
use ingest_quota::{ChargeId, Cost, Decision, Entry, Origin, Timestamp, Units};
use proptest::prelude::*;

use super::retry::{account, copied, instant};
use crate::support::world::World;

const MICROSECOND: Duration = Duration::from_micros(1);
const RUN: [&str; 3] = ["--region", "all", "--concurrency=1"];

/// `pair` takes of all limits, `single` of the last one alone.
fn config(quotas: [u64; 3], leave: u64) -> String {
    let [hour, day, month] = quotas;
    format!(
        r#"
        regions = ["A", "B", "C"]
        [upstreams.things]
        base_url = "http://127.0.0.1:1"
        [upstreams.things.calls.pair]
        path = "pair"
        cost = {{ hour = 2, day = 1, month = 1 }}
        records = {{ at = "/items", kind = "pair", id = "/id" }}
        [upstreams.things.calls.single]
        path = "single"
        cost = {{ day = 1, month = 1 }}
        records = {{ at = "/items", kind = "single", id = "/id" }}
        [credentials.things]
        upstream = "things"
        [credentials.things.limits]
        hour = {{ quota = {hour}, window = "1h", wait = "0s" }}
        day = {{ quota = {day}, window = "24h", wait = "0s" }}
        month = {{ quota = {month}, window = "30d", resets = "UTC", wait = "0s" }}
        [jobs.a]
        credential = "things"
        leave = {{ day = {leave} }}
        [[jobs.a.steps]]
        call = "pair"
        params = {{ region = "{{region}}" }}
        [jobs.b]
        credential = "things"
        [[jobs.b.steps]]
        call = "single"
        params = {{ region = "{{region}}" }}
        "#
    )
}

fn cost(units: &[(&str, u64)]) -> Cost {
    let component = |(limit, units): &(&str, u64)| ((*limit).to_owned(), Units::new(*units));
    units.iter().map(component).collect()
}

/// Whether a copy of the ledger grants a charge of `call` at each of these instants.
fn grants<const N: usize>(world: &World, call: &str, leave: u64, at: [Timestamp; N]) -> [bool; N] {
    let (_directory, ledger) = copied(world);
    let account = account(world, "things");
    let left = cost(&[("day", leave)]);
    let (cost, leave) = match call {
        "pair" => (cost(&[("hour", 2), ("day", 1), ("month", 1)]), left),
        _ => (cost(&[("day", 1), ("month", 1)]), Cost::none()),
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    at.map(|now| {
        let (id, purpose) = (fresh_id(), Purpose::default());
        let charge = Charge {
            account: &account,
            id: &id,
            cost: &cost,
            leave: &leave,
            purpose: &purpose,
        };
        let decision = runtime.block_on(ledger.charge(charge, now)).unwrap();
        matches!(decision, Decision::Granted(_))
    })
}

/// A charge of `call` is rejected a moment before `at`, and granted then.
fn assert_fits_at(world: &World, call: &str, leave: u64, at: Timestamp, said_by: &str) {
    let granted = grants(world, call, leave, [at - MICROSECOND, at]);
    assert_eq!(granted, [false, true], "{said_by}: {call}, {at}");
}

/// The run charges a moment later than the preview played it: so the instants differ by that moment.
fn assert_fits_about(world: &World, call: &str, leave: u64, at: Timestamp, said_by: &str) {
    let moment = Duration::from_secs(60);
    let granted = grants(world, call, leave, [at - moment, at + moment]);
    assert_eq!(granted, [false, true], "{said_by}: {call}, {at}");
}

/// Charges made before the run: minutes ago, and units of each limit.
fn charge_before(world: &World, charges: &[(u64, [u64; 3])]) {
    std::fs::create_dir_all(world.state_dir()).unwrap();
    let ledger = SqliteLedger::open(&world.state_dir().join("ledger.db")).unwrap();
    let now = SystemClock.now();
    let entries: Vec<Entry> = (0..)
        .zip(charges)
        .map(|(number, (ago, [hour, day, month]))| Entry {
            origin: Origin::CarriedOver,
            id: ChargeId::new(format!("before-{number}")),
            at: (now - Duration::from_secs(60 * ago)),
            cost: cost(&[("hour", *hour), ("day", *day), ("month", *month)]),
        })
        .collect();
    let account = account(world, "things");
    let absorbed = ledger.absorb(&account, &entries, &[], now);
    tokio::runtime::Runtime::new()
        .unwrap()
        .block_on(absorbed)
        .unwrap();
}

/// The first instants that a preview and then a run report are those of the ledger after that run.
fn assert_reported(quotas: [u64; 3], leave: u64, charges: &[(u64, [u64; 3])]) {
    let world = World::written(&config(quotas, leave), &[]);
    charge_before(&world, charges);
    let preview = world.json(&[&RUN[..], &["--dry-run"]].concat());
    let run = world.json(&RUN);
    for limit in preview["limits"].as_array().unwrap() {
        let first = &limit["first_unfit"];
        if let Some(call) = first["call"].as_str() {
            let at = instant(&first["retry_at"]);
            assert_fits_about(&world, call, leave, at, "preview");
        }
    }
    let stopped_by = &run["stopped_by"];
    let Some(call) = stopped_by["call"].as_str() else {
        return;
    };
    let at = instant(&stopped_by["retry_at"]);
    assert_fits_at(&world, call, leave, at, "run");
    let details: Vec<&str> = run["passes"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|pass| pass["detail"].as_str())
        .collect();
    let fits = format!("retry at {}", plain::instant(at));
    assert!(
        details.iter().any(|detail| detail.contains(&fits)),
        "{fits}: {run}"
    );
    for detail in details {
        let call = detail.split(' ').next().unwrap();
        if let Some((_, at)) = detail.split_once("retry at ") {
            let at = at.trim_end_matches(" UTC").replace(' ', "T") + "Z";
            let at = Timestamp::parse(&at).unwrap();
            assert_fits_about(&world, call, leave, at, detail);
        }
    }
}

#[test]
fn a_limit_that_another_job_fills_after_the_refusal_counts_too() {
    // Of `hour` nothing is left; job `b` then takes all that is left of `day`.
    assert_reported([2, 3, 100], 0, &[(30, [2, 0, 0])]);
}

#[test]
fn what_the_job_leaves_of_another_limit_counts_too() {
    assert_reported([2, 5, 100], 2, &[(30, [1, 1, 0])]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, ..ProptestConfig::default() })]

    #[test]
    fn whatever_was_charged_before_the_first_instant_is_reported(
        quotas in (2_u64..8, 3_u64..9, 3_u64..9),
        leave in 0_u64..2,
        charges in proptest::collection::vec((0_u64..1600, (0_u64..3, 0_u64..3, 0_u64..3)), 1..6),
    ) {
        let charges: Vec<_> = charges.into_iter().map(|(ago, (a, b, c))| (ago, [a, b, c])).collect();
        assert_reported([quotas.0, quotas.1, quotas.2], leave, &charges);
    }
}
