//! What a backfill leaves to the other jobs of its account: what these need before its units return.

use std::time::Duration;

use ingest::foresight;
use ingest_quota::Units;
use ingest_sandbox::Options;

use crate::support::lab::{Lab, NOON};

const HOUR: Duration = Duration::from_secs(3_600);

/// A job of one page an hour, one of two pages every six hours, and a backfill of the same account.
fn lab(window: &str) -> Lab {
    let text = format!(
        "[upstreams.rows]\nbase_url = \"https://rows.example.com\"\n\
         [upstreams.rows.calls.list]\npath = \"list\"\ncost = 1\n\
         page = {{ kind = \"token\", param = \"after\", next = \"/next\" }}\n\
         records = {{ at = \"/data\", kind = \"row\", id = \"/id\" }}\n\
         [credentials.rows]\nupstream = \"rows\"\n\
         limits = {{ daily = {{ quota = 99, {window} }} }}\n\
         [jobs.backfill]\ncredential = \"rows\"\n\
         slices = {{ from = \"2024-01-01\", to = \"2024-02-01\", step = \"1d\" }}\n\
         [[jobs.backfill.steps]]\ncall = \"list\"\n\
         params = {{ from = \"{{slice.from:%Y-%m-%d}}\" }}\n\
         [jobs.hourly]\ncredential = \"rows\"\nevery = \"1h\"\n\
         [[jobs.hourly.steps]]\ncall = \"list\"\nmax_pages = 1\nparams = {{ of = \"hour\" }}\n\
         [jobs.quarter]\ncredential = \"rows\"\nevery = \"6h\"\n\
         [[jobs.quarter.steps]]\ncall = \"list\"\nmax_pages = 2\nparams = {{ of = \"quarter\" }}\n"
    );
    let lab = Lab::written(&text, &[], Options::default());
    lab.reach(NOON);
    lab
}

/// What the backfill leaves of the limit, in a run of itself alone.
fn left(lab: &Lab) -> Units {
    let (selection, others) = (
        lab.selection(&["backfill"]),
        lab.selection(&["backfill", "hourly", "quarter"]),
    );
    let context = lab.context();
    let (catalog, ledger) = (&*context.catalog, &*context.ledger);
    let left = foresight::reserved(catalog, ledger, selection, &others, lab.now());
    let job = &lab.runtime.block_on(left).unwrap()[0].0;
    job.leave.of(&job.credential).of("daily")
}

#[test]
fn until_a_reset_a_backfill_leaves_every_turn_of_the_other_jobs() {
    let lab = lab("resets = \"UTC\"");
    lab.run_briefly(&["hourly", "quarter"]);
    let after_noon = left(&lab);
    for _ in 0..3 {
        lab.pass(HOUR);
        lab.run_briefly(&["hourly", "quarter"]);
    }
    let at_three = left(&lab);
    // Until midnight and its grace: 12 of the hourly pages, and 2 pages twice.
    assert_eq!(after_noon, Units::new(16));
    assert_eq!(at_three, Units::new(13));
}

#[test]
fn in_a_window_that_slides_units_that_return_in_time_are_not_left_once_more() {
    let lab = lab("window = \"24h\"");
    let mut all = Vec::new();
    for hour in 0..27 {
        lab.run_briefly(&["hourly", "quarter"]);
        lab.pass(HOUR / 2);
        if [0, 5, 12, 24, 25, 26].contains(&hour) {
            all.push(left(&lab).get());
        }
        lab.pass(HOUR / 2);
    }
    // A whole day of 32 units first; of a day that was charged already, what is requested before its units are back.
    assert_eq!(all, [32, 27, 16, 3, 3, 3]);
}
