use std::process::Stdio;
use std::time::Duration;

use rusqlite::Connection;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::world::World;

/// Stops a run between asking for a charge and being granted it, for longer than the grace of 100 ms.
fn suspend(world: &World) -> std::process::Output {
    let ledger = Connection::open(world.state_dir().join("ledger.db")).unwrap();
    ledger.execute_batch("begin immediate").unwrap();
    let mut command = world.command(&["--region", "GB", "--job", "trending", "--format", "json"]);
    let run = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The region's lock is taken just before the first charge, which then waits for the ledger.
    while !world.state_dir().join("locks/trending.GB.lock").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(400));
    kill_process(Pid::from_child(&run), Signal::STOP).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    ledger.execute_batch("commit").unwrap();
    kill_process(Pid::from_child(&run), Signal::CONT).unwrap();
    run.wait_with_output().unwrap()
}

#[test]
fn a_grant_of_a_run_that_was_suspended_is_given_back_and_charged_anew() {
    let limit = "credentials.youtube.limits.daily={ quota = 1000, window = \"60s\" }";
    let world = World::configured(
        &["jobs.trending.leave={}", "jobs.discover.leave={}", limit],
        |_| {},
    );
    assert_eq!(
        world.ingest(&["--region", "US", "--job", "trending"]).code,
        0
    );
    let output = suspend(&world);
    assert!(output.status.success(), "{output:?}");
    let ledger = Connection::open(world.state_dir().join("ledger.db")).unwrap();
    let given_back = "select count(*) from taken where units = 0 and limit_name = 'daily'";
    let given_back: i64 = ledger.query_row(given_back, [], |row| row.get(0)).unwrap();
    // On a busy machine others have too.
    assert!(given_back > 0, "the grant had grown too old to be sent");
    assert_eq!(world.recorded("daily"), world.counted("daily"));
    assert_eq!(world.requests(), world.counted("daily"));
}
