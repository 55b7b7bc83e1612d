use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ingest::foresight::{Fits, LimitPreview, Preview};
use ingest::run::RunReport;
use ingest_base::clock::Clock;
use ingest_ledger::{ChargeRequest, LedgerClient};
use ingest_quota::{Cost, Outage};

use super::stage::{HOUR, LEAN, Stage, completed, spent};

fn limit<'p>(preview: &'p Preview, name: &str) -> &'p LimitPreview {
    preview
        .limits
        .iter()
        .find(|limit| limit.limit == name)
        .unwrap()
}

fn fitting(preview: &Preview) -> Vec<String> {
    preview
        .passes
        .iter()
        .filter(|pass| pass.fits == Fits::All)
        .map(|pass| pass.region.clone())
        .collect()
}

fn assert_expected(preview: &Preview, report: &RunReport, limits: &[&str]) {
    for name in limits {
        assert_eq!(
            limit(preview, name).units.expected,
            spent(report, name),
            "{name}: {preview:#?} {report:#?}"
        );
    }
}

fn assert_within(preview: &Preview, report: &RunReport, limits: &[&str]) {
    for name in limits {
        let (range, spent) = (limit(preview, name).units, spent(report, name));
        let within = range.min <= spent && range.max.is_none_or(|max| spent <= max);
        assert!(within, "{name}: {spent} is not in {range:?}");
    }
}

#[tokio::test]
async fn a_run_spends_within_its_preview_and_a_second_one_exactly_what_is_expected() {
    let stage = Stage::shipped(&LEAN).await;
    let first = stage.preview(&[]).await;
    assert_within(&first, &stage.run(&[]).await, &["daily", "search"]);
    // Some lists are due, then all of them, and what was fresh grows stale.
    for wait in [HOUR, 13 * HOUR, 25 * HOUR, 8 * 24 * HOUR, 2 * HOUR] {
        stage.clock.advance(wait);
        let preview = stage.preview(&[]).await;
        let report = stage.run(&[]).await;
        assert_expected(&preview, &report, &["daily", "search"]);
    }
}

#[tokio::test]
async fn the_regions_that_a_preview_names_are_those_that_the_run_completes() {
    for quota in [21, 23, 24, 100] {
        let limit_of = format!(
            "credentials.youtube.limits.daily={{ quota = {quota}, window = \"24h\", wait = \"0s\" }}"
        );
        let sets = [
            &*limit_of,
            LISTING_ONLY,
            "jobs.trending.leave={}",
            "jobs.discover.leave={}",
            NO_DISCOVER,
            LEAN[0],
        ];
        let stage = Stage::shipped(&sets).await;
        let preview = stage.preview(&["trending"]).await;
        let report = stage.run(&["trending"]).await;
        assert_eq!(
            fitting(&preview),
            completed(&report),
            "{quota}: {preview:#?}"
        );
        let stopped = report.stopped_by.as_ref();
        let first_unfit = limit(&preview, "daily").first_unfit.as_ref();
        assert_eq!(
            first_unfit.map(|unfit| unfit.retry_at),
            stopped.map(|stopped| stopped.retry_at),
            "{quota}"
        );
        assert_eq!(
            limit(&preview, "daily").fits,
            if quota == 100 { Fits::All } else { Fits::Part }
        );
    }
}

const LISTING_ONLY: &str = "jobs.trending.steps=[{ call = \"videos.list\", params = { part = \"snippet\", chart = \"mostPopular\", regionCode = \"{region}\" }, max_pages = 4 }]";
const NO_DISCOVER: &str =
    "jobs.discover.steps=[{ call = \"videos.list\", params = { chart = \"mostPopular\" } }]";

#[tokio::test]
async fn a_budget_of_five_regions_names_the_first_that_does_not_fit_and_when_it_does() {
    let quota = "credentials.youtube.limits.daily={ quota = 22, window = \"24h\", wait = \"0s\" }";
    let sets = [
        quota,
        LISTING_ONLY,
        "jobs.trending.leave={}",
        "jobs.discover.leave={}",
        NO_DISCOVER,
        LEAN[0],
    ];
    let stage = Stage::shipped(&sets).await;
    let preview = stage.preview(&["trending"]).await;
    assert_eq!(fitting(&preview), ["US", "GB", "DE", "FR", "IN"]);
    let first = limit(&preview, "daily").first_unfit.clone().unwrap();
    assert_eq!(
        (
            first.job.as_str(),
            first.region.as_str(),
            first.call.as_str()
        ),
        ("trending", "BR", "videos.list")
    );
    stage.run(&["trending"]).await;
    // Just before it the charge is refused; at it, it is granted.
    for (early, fits) in [(1, false), (0, true)] {
        stage
            .clock
            .reach(first.retry_at - Duration::from_micros(early));
        assert_eq!(try_one(&stage).await, fits, "{early} µs early");
    }
}

/// Whether a charge like the one that did not fit is granted now.
async fn try_one(stage: &Stage) -> bool {
    let job = &stage.config.jobs[0];
    let call = &job.steps[0].call;
    let ask = ChargeRequest {
        account: &job.credential.account,
        id: None,
        cost: &call.cost,
        leave: &Cost::none(),
        outage: Outage::Refuse,
        purpose: &Default::default(),
    };
    matches!(
        stage.ledger().acquire(ask).await.unwrap(),
        ingest_ledger::Acquired::Permitted(_)
    )
}

#[tokio::test]
async fn an_unfinished_pass_counts_only_what_is_left_of_it() {
    let quota = "credentials.youtube.limits.daily={ quota = 22, window = \"2h\", wait = \"0s\" }";
    let sets = [
        quota,
        LISTING_ONLY,
        "jobs.trending.leave={}",
        "jobs.discover.leave={}",
        NO_DISCOVER,
        LEAN[0],
    ];
    let stage = Stage::shipped(&sets).await;
    stage.run(&["trending"]).await;
    stage.clock.advance(3 * HOUR);
    let preview = stage.preview(&["trending"]).await;
    let left = preview
        .steps
        .iter()
        .find(|step| step.region == "BR")
        .unwrap();
    assert_eq!(left.requests.expected, 2, "{preview:#?}");
    assert_eq!(
        preview.passes[0].region, "BR",
        "an unfinished pass goes first"
    );
    assert_eq!(
        fitting(&preview),
        completed(&stage.run(&["trending"]).await)
    );
}

/// Videos name channels, channels name playlists: the third step draws on what the second fetches.
const CHAIN: &str = "jobs.trending.steps=[
    { call = \"videos.list\", params = { chart = \"mostPopular\", regionCode = \"{region}\" }, max_pages = 2 },
    { call = \"channels.list\", params = { id = \"{ids}\" }, ids = { from = \"videos.list\", at = \"/snippet/channelId\", batch = 10, fresh_for = \"1d\" } },
    { call = \"playlists.list\", params = { id = \"{ids}\" }, ids = { from = \"channels.list\", at = \"/id\", batch = 10, fresh_for = \"3d\" } }]";

#[tokio::test]
async fn a_chain_of_steps_is_expected_to_the_unit() {
    let stage =
        Stage::shipped(&[&CHAIN.replace('\n', " "), "jobs.trending.leave={}", LEAN[0]]).await;
    let first = stage.preview(&["trending"]).await;
    assert_within(&first, &stage.run(&["trending"]).await, &["daily"]);
    for wait in [2 * HOUR, 26 * HOUR, 4 * 24 * HOUR] {
        stage.clock.advance(wait);
        let preview = stage.preview(&["trending"]).await;
        assert_expected(&preview, &stage.run(&["trending"]).await, &["daily"]);
    }
}

#[tokio::test]
async fn a_preview_writes_nothing() {
    let mut stage = Stage::shipped(&LEAN).await;
    stage.run(&["trending"]).await;
    stage.reopen();
    stage.clock.advance(2 * HOUR);
    let before = bytes(stage.directory.path());
    stage.preview(&[]).await;
    stage
        .forecast(&[], &[stage.clock.now()], stage.clock.now() + HOUR)
        .await;
    assert!(
        before == bytes(stage.directory.path()),
        "a preview or a forecast wrote something"
    );
}

fn bytes(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(bytes(&path));
        } else if !path.to_string_lossy().ends_with("-shm") {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}
