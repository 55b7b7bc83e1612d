//! What a hostile upstream can make of a run's memory.

use std::fs;
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::support::world::World;
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};

const MEBIBYTE: u64 = 1024;
/// Of 200 MiB, without the code of the program: an upstream does not change it, it is 16 MiB in a release build, and more in a
/// build for tests.
const MOST: u64 = 195 * MEBIBYTE;
/// Of a response that is refused before it is parsed: one body of 32 MiB and the process. A second one would exceed it.
const ONE_BODY: u64 = 85 * MEBIBYTE;

/// The most memory that a run of all eight regions held against an upstream that always answers so, in KiB, and its output.
fn peak(answer: StubAnswer) -> (u64, String) {
    peak_of(answer, &[])
}

/// The same of a run with these settings.
fn peak_of(answer: StubAnswer, sets: &[&str]) -> (u64, String) {
    let upstream = StubUpstream::answering([answer]);
    let mut world = World::configured(sets, |_| {});
    world.set(&format!(
        "upstreams.youtube.base_url=\"{}\"",
        upstream.url()
    ));
    // Ids that records name would stand in the catalog, not in memory: this job requests none.
    world.set("jobs.trending.steps=[{ call = \"videos.list\", max_pages = 4 }]");
    let mut command = world.command(&["--region", "all", "--job", "trending"]);
    let mut run = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (mut peak, mut code) = (0, 0);
    while run.try_wait().unwrap().is_none() {
        peak = peak.max(figure(&run, "VmHWM:").unwrap_or(0));
        code = code.max(figure(&run, "RssFile:").unwrap_or(0));
        std::thread::sleep(Duration::from_millis(1));
    }
    let output = run.wait_with_output().unwrap();
    // The code does not count. The system may drop some of it after the peak, so the most that was there is subtracted.
    let peak = peak.saturating_sub(code);
    (peak, String::from_utf8(output.stdout).unwrap())
}

/// In KiB; nothing once the process has ended.
fn figure(run: &Child, name: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", run.id())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[test]
#[cfg(target_os = "linux")]
fn a_gzip_bomb_in_every_region_at_once_is_cut_off_within_200_mib() {
    let (peak, said) = peak(StubAnswer::status(200).body(vec![b' '; 64 << 20]).gzipped());
    assert!(said.contains("raise upstreams.youtube.max_body"), "{said}");
    assert!((1..MOST).contains(&peak), "{peak} KiB");
}

#[test]
#[cfg(target_os = "linux")]
fn a_body_that_never_ends_is_cut_off_within_200_mib() {
    let (peak, said) = peak(StubAnswer::endless(vec![b'['; 1 << 16]));
    assert!(said.contains("raise upstreams.youtube.max_body"), "{said}");
    assert!((1..MOST).contains(&peak), "{peak} KiB");
}

#[test]
#[cfg(target_os = "linux")]
fn an_answer_of_millions_of_tiny_values_takes_the_memory_of_one_body_in_all_regions() {
    let values = vec!["0"; 15 << 20].join(",");
    let (peak, said) = peak(
        StubAnswer::status(200)
            .body(format!("{{\"items\":[{values}]}}"))
            .gzipped(),
    );
    assert!(said.contains("more than 250000 values"), "{said}");
    assert!((1..ONE_BODY).contains(&peak), "{peak} KiB");
}

/// The same of a run of two regions, whose answers fit into the bounds and are as large as they let them be: each needs so much
/// memory that two at once would be too many.
fn peak_of_large(body: String) -> (u64, String) {
    let regions = "regions=[\"US\", \"GB\"]";
    peak_of(StubAnswer::status(200).body(body), &[regions])
}

#[test]
#[cfg(target_os = "linux")]
fn a_title_as_long_as_an_answer_is_landed_in_every_region_within_200_mib() {
    let words: Vec<String> = (0..3_500_000).map(|number| format!("w{number}")).collect();
    for title in ["a ".repeat(15 << 20), words.join(" ")] {
        let body =
            format!("{{\"items\":[{{\"id\":\"1\",\"snippet\":{{\"title\":\"{title}\"}}}}]}}");
        let (peak, said) = peak_of_large(body);
        assert!(said.contains("complete"), "{said}");
        assert!((1..MOST).contains(&peak), "{peak} KiB");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn as_many_records_as_an_answer_holds_are_landed_in_every_region_within_200_mib() {
    let items: Vec<String> = (0..120_000)
        .map(|number| format!("{{\"id\":\"{number}\"}}"))
        .collect();
    let (peak, said) = peak_of_large(format!("{{\"items\":[{}]}}", items.join(",")));
    assert!(said.contains("complete"), "{said}");
    assert!((1..MOST).contains(&peak), "{peak} KiB");
}
