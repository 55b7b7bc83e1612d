//! The preview of the shipped jobs, as `worlds` has it of random ones.

use std::time::Duration;

use ingest::foresight::{Fits, LimitPreview, Preview};
use ingest::run::{PassOutcome, RunReport};
use ingest_ledger::ChargeRequest;
use ingest_quota::{Cost, Outage};

use super::{JOBS, LEAN};
use crate::support::lab::{Lab, NOON, ended, spent};

const HOUR: Duration = Duration::from_secs(3_600);
const LISTING_ONLY: &str = "jobs.trending.steps=[{ call = \"videos.list\", params = { part = \"snippet\", chart = \"mostPopular\", regionCode = \"{region}\" }, max_pages = 4 }]";
const NO_DISCOVER: &str =
    "jobs.discover.steps=[{ call = \"videos.list\", params = { chart = \"mostPopular\" } }]";

/// A lab whose job lists four pages of each region, with so many units in this time.
fn listing(quota: u64, window: &str) -> Lab {
    let daily = format!(
        "credentials.youtube.limits.daily={{ quota = {quota}, window = \"{window}\", wait = \"0s\" }}"
    );
    let sets = [
        &*daily,
        LISTING_ONLY,
        "jobs.trending.leave={}",
        "jobs.discover.leave={}",
        NO_DISCOVER,
        LEAN[0],
    ];
    Lab::beginning_at(NOON, &sets)
}

fn limit<'p>(preview: &'p Preview, name: &str) -> &'p LimitPreview {
    let mut limits = preview.limits.iter();
    limits.find(|limit| limit.limit == name).unwrap()
}

fn fitting(preview: &Preview) -> Vec<&str> {
    let fitting = preview.passes.iter().filter(|pass| pass.fits == Fits::All);
    fitting.map(|pass| pass.region.as_str()).collect()
}

fn completed(report: &RunReport) -> Vec<&str> {
    ended(report, PassOutcome::Complete)
}

/// After each wait, a run spends what its preview expects, and the first one what is within it.
fn assert_kept(sets: &[&str], jobs: &[&str], waits: &[u32]) {
    let lab = Lab::beginning_at(NOON, sets);
    for (number, hours) in [0].iter().chain(waits).enumerate() {
        lab.pass(*hours * HOUR);
        let preview = lab.preview(jobs);
        let report = lab.run_all(jobs);
        for name in ["daily", "search"] {
            let (range, spent) = (limit(&preview, name).units, spent(&report, name));
            let within = range.min <= spent && range.max.is_none_or(|max| spent <= max);
            assert!(within, "{name}: {spent} is not in {range:?}");
            assert!(number == 0 || spent == range.expected, "{spent}: {range:?}");
        }
    }
}

#[test]
fn a_run_spends_within_its_preview_and_a_second_one_exactly_what_is_expected() {
    // Some lists are due, then all of them, and what was fresh grows stale.
    assert_kept(&LEAN, &JOBS, &[1, 13, 25, 8 * 24, 2]);
}

/// Videos name channels, channels name playlists: the third step draws on what the second fetches.
const CHAIN: &str = "jobs.trending.steps=[{ call = \"videos.list\", params = { chart = \"mostPopular\", regionCode = \"{region}\" }, max_pages = 2 }, \
     { call = \"channels.list\", params = { id = \"{ids}\" }, ids = { from = \"videos.list\", at = \"/snippet/channelId\", batch = 10, fresh_for = \"1d\" } }, \
     { call = \"playlists.list\", params = { id = \"{ids}\" }, ids = { from = \"channels.list\", at = \"/id\", batch = 10, fresh_for = \"3d\" } }]";

#[test]
fn a_chain_of_steps_is_expected_to_the_unit() {
    let sets = [CHAIN, "jobs.trending.leave={}", LEAN[0]];
    assert_kept(&sets, &["trending"], &[2, 26, 4 * 24]);
}

#[test]
fn the_regions_that_a_preview_names_are_those_that_the_run_completes() {
    for quota in [21, 23, 24, 100] {
        let lab = listing(quota, "24h");
        let preview = lab.preview(&["trending"]);
        let report = lab.run("trending");
        assert_eq!(fitting(&preview), completed(&report), "{quota}");
        let first_unfit = limit(&preview, "daily").first_unfit.as_ref();
        assert_eq!(
            first_unfit.map(|unfit| unfit.retry_at),
            report.stopped_by.as_ref().map(|stopped| stopped.retry_at),
            "{quota}"
        );
        let fits = if quota == 100 { Fits::All } else { Fits::Part };
        assert_eq!(limit(&preview, "daily").fits, fits);
    }
}

#[test]
fn a_budget_of_five_regions_names_the_first_that_does_not_fit_and_when_it_does() {
    let lab = listing(22, "24h");
    let preview = lab.preview(&["trending"]);
    assert_eq!(fitting(&preview), ["US", "GB", "DE", "FR", "IN"]);
    let first = limit(&preview, "daily").first_unfit.as_ref().unwrap();
    let named = (&*first.job, &*first.region, &*first.call);
    assert_eq!(named, ("trending", "BR", "videos.list"));
    lab.run("trending");
    // Just before it the charge is refused; at it, it is granted.
    for (early, fits) in [(1, false), (0, true)] {
        lab.reach(first.retry_at - Duration::from_micros(early));
        assert_eq!(try_one(&lab), fits, "{early} µs early");
    }
}

/// Whether a charge like the one that did not fit is granted now.
fn try_one(lab: &Lab) -> bool {
    let job = &lab.config.jobs[0];
    let ask = ChargeRequest {
        account: &job.credential.account,
        id: None,
        cost: &job.steps[0].call.cost,
        leave: &Cost::none(),
        outage: Outage::Refuse,
        purpose: &Default::default(),
    };
    let asked = lab.runtime.block_on(lab.context().ledger.acquire(ask));
    matches!(asked.unwrap(), ingest_ledger::Acquired::Permitted(_))
}

#[test]
fn an_unfinished_pass_counts_only_what_is_left_of_it() {
    let lab = listing(22, "2h");
    lab.run("trending");
    lab.pass(3 * HOUR);
    let preview = lab.preview(&["trending"]);
    let left = preview.steps.iter().find(|step| step.region == "BR");
    assert_eq!(left.unwrap().requests.expected, 2, "{preview:#?}");
    assert_eq!(preview.passes[0].region, "BR", "it goes first");
    assert_eq!(fitting(&preview), completed(&lab.run("trending")));
}
