//! The end of a chapter: nothing goes wrong any more, and everything must agree.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::chapter::Chapter;
use crate::invariants;
use crate::place::{Books, Place};
use crate::tally::Tally;

/// Walks of all regions take two windows or three.
const RUNS: usize = 12;

pub(crate) fn end(chapter: &mut Chapter, tally: &Tally) {
    let place = &chapter.place;
    if place.books.loses_data() {
        // A Redis that came back from before a reopening is closed again.
        place.reopen();
    }
    come_by(place);
    let (used, counted) = (used(place), place.counted().0);
    // What a clock that was off wrote down as unmetered is repaid at the time that it had.
    assert!(
        place.jumps || used >= counted,
        "the ledger counts {used}, the upstream {counted}: {:?}",
        place.books
    );
    if place.books == Books::Waiting {
        std::thread::sleep(place.window + Duration::from_millis(500));
    }
    for machine in 0..place.books.machines() {
        walks_everything(place, machine);
    }
    agrees(place);
    place.check(tally);
    tally.count("calm ends");
}

/// Every machine tells the ledger what it has not heard.
fn come_by(place: &Place) {
    for _ in 0..2 {
        for machine in 0..place.books.machines() {
            let (code, said) = place.run(machine, &["charge", "youtube", "videos.list"]);
            let waits = place.books == Books::Waiting && code == 1;
            assert!(
                code == 0 || code == 75 || waits,
                "{code}: {said}\n{}",
                place.dump()
            );
        }
    }
}

fn used(place: &Place) -> u64 {
    let (code, said) = place.run(0, &["status"]);
    assert_eq!(code, 0, "{said}");
    let limits = said["limits"].as_array().unwrap();
    limits
        .iter()
        .find(|limit| limit["limit"] == "daily")
        .unwrap()["used"]
        .as_u64()
        .unwrap()
}

/// Whatever was left undone, runs in peace complete every region, each page landed and each request charged.
fn walks_everything(place: &Place, machine: usize) {
    let (mut complete, mut last) = (BTreeSet::new(), Value::Null);
    for _ in 0..RUNS {
        let before = place.sandbox.requests();
        let (code, said) = place.run(machine, &["--region", "all", "--job", "trending"]);
        let requests = place.sandbox.requests() - before;
        let passes = said["passes"].as_array().unwrap();
        assert!(code == 0 || is_excused(passes), "{said}");
        let sum = |what: &str| {
            passes
                .iter()
                .map(|pass| pass[what].as_u64().unwrap())
                .sum::<u64>()
        };
        let counted = (sum("requests"), sum("pages"), &said["requests"]);
        assert_eq!(
            counted,
            (requests, requests, &Value::from(requests)),
            "{said}"
        );
        // What a clock two hours ahead has completed is due again two hours later.
        let had = |pass: &&Value| {
            pass["outcome"] == "complete" || (place.jumps && pass["outcome"] == "not_due")
        };
        let ended = passes
            .iter()
            .filter(had)
            .filter(|pass| pass["region"] != "*");
        complete.extend(ended.map(|pass| pass["region"].as_str().unwrap().to_owned()));
        if complete.len() == place.regions.len() {
            return;
        }
        std::thread::sleep(place.window);
        last = said;
    }
    panic!(
        "{:?}: after {RUNS} runs in peace only {complete:?} are complete: {last}\n{}",
        place.books,
        place.dump()
    );
}

/// Whether nothing failed but charges that took longer than a grant of a window of seconds lasts, as they may while many regions
/// walk at once on a busy computer, and passes that a run was killed before it ended them as doubtful. Such regions walk in the next
/// run.
fn is_excused(passes: &[Value]) -> bool {
    let excuse = |pass: &Value| {
        let why = pass["detail"].as_str().unwrap_or_default();
        let is_slow = why.contains("the ledger responds too slowly");
        let was_doubtful = pass["outcome"] == "doubtful" && pass["requests"] == 0;
        is_slow || (was_doubtful && pass["resumed"] == true)
    };
    let has_failed = |pass: &Value| {
        ["refused", "failed", "doubtful"]
            .map(Value::from)
            .contains(&pass["outcome"])
    };
    passes.iter().any(excuse) && passes.iter().all(|pass| !has_failed(pass) || excuse(pass))
}

/// After a quiet window the ledger and the upstream begin at nothing, and count the same from there.
fn agrees(place: &Place) {
    std::thread::sleep(place.window + Duration::from_millis(300));
    let recorded = (place.books == Books::File).then(|| invariants::charged(&place.state(0)));
    let regions: Vec<&str> = place.regions.iter().take(2).map(String::as_str).collect();
    let regions = regions.join(",");
    let (began, before) = (Instant::now(), place.sandbox.requests());
    for machine in 0..place.books.machines() {
        place.run(machine, &["--region", &regions, "--job", "trending"]);
    }
    let used = used(place);
    let asked = (place.sandbox.requests() - before) * place.cost;
    assert!(
        (asked > 0 || place.jumps) && asked <= place.enforced,
        "{asked} units were asked for"
    );
    if began.elapsed() < place.window {
        let about = || {
            format!(
                "the ledger, the upstream: {:?}\n{}",
                place.books,
                place.dump()
            )
        };
        assert_eq!(used, asked, "{}", about());
    }
    if let Some(recorded) = recorded {
        assert_eq!(invariants::charged(&place.state(0)) - recorded, asked);
    }
}
