use std::process::Stdio;
use std::time::Duration;

use crate::support::world::World;

#[test]
fn a_region_that_another_run_walks_is_skipped_as_busy() {
    let world = World::with(|options| options.latency = Duration::from_millis(300));
    let mut first = world
        .command(&["--region", "US", "--job", "trending", "-q"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while world.requests() == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let second = world.ingest(&["--region", "US", "--job", "trending", "--format", "json"]);
    assert_eq!(second.code, 0, "{second:?}");
    let report = second.json();
    assert_eq!(report["outcome"], "nothing_due");
    assert_eq!(report["passes"][0]["outcome"], "busy");
    let detail = report["passes"][0]["detail"].as_str().unwrap();
    let holder = format!(
        "another run is walking this region: process {} on ",
        first.id()
    );
    assert!(detail.starts_with(&holder), "{detail}");
    assert!(first.wait().unwrap().success());
}
