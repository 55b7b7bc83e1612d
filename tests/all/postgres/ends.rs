//! Every run over PostgreSQL ends.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::postgres::PostgresServer;
use crate::support::world::Ran;

/// Much longer than any of these runs takes.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs a command to its end, which must come.
fn ended(mut command: Command) -> Ran {
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    ends_within(piped.spawn().unwrap(), PATIENCE)
}

/// Waits for a process; ends and shows one that takes longer.
fn ends_within(mut child: Child, patience: Duration) -> Ran {
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > patience {
            child.kill().unwrap();
            panic!("no end: {:?}", Ran::of(child.wait_with_output().unwrap()));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ran::of(child.wait_with_output().unwrap())
}

#[test]
fn the_shipped_regions_all_at_once_end_with_as_few_connections_as_there_are() {
    for connections in 1..=4 {
        let schema = PostgresServer::shared().schema();
        // Few units: passes stop, and why they did is stored while others end.
        let world = schema.world(&["credentials.youtube.limits.daily.quota=1640"]);
        let connections = format!("catalog.connections={connections}");
        let arguments = [
            "--region",
            "all",
            "--concurrency",
            "8",
            "--set",
            &connections,
        ];
        let ran = ended(world.command(&arguments));
        assert_eq!(ran.code, 0, "{connections}: {ran:?}");
    }
}
