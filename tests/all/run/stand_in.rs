//! `ingest sandbox`: the stand-in alone.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::world::World;

fn served(world: &World) -> (Child, Value) {
    let mut command = world.command(&["sandbox", "--listen", "127.0.0.1:0", "--format", "json"]);
    let mut serving = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(serving.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    (serving, serde_json::from_str(&line).unwrap())
}

#[test]
fn a_run_is_served_by_a_stand_in_of_its_own_process_and_a_signal_ends_it_with_0() {
    for signal in [Signal::TERM, Signal::INT] {
        let world = World::new();
        let (mut serving, said) = served(&world);
        let base_url = said["base_urls"]["youtube"].as_str().unwrap().to_owned();
        let set = format!("upstreams.youtube.base_url={base_url}");
        let ran = world.ingest(&["--region", "US", "--job", "trending", "--set", &set]);
        assert_eq!(ran.code, 0, "{ran:?}");
        kill_process(Pid::from_child(&serving), signal).unwrap();
        assert_eq!(serving.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn a_port_that_is_taken_is_named_with_what_to_do() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ran = World::new().ingest(&["sandbox", "--listen", &address]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(
        ran.stderr.contains(&address) && ran.stderr.contains("--listen"),
        "{ran:?}"
    );
}
