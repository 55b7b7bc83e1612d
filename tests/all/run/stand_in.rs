//! `ingest sandbox`: the stand-in alone.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::world::{Ran, World, sandbox_client};

fn served(world: &World) -> (Child, Value) {
    served_with(world, |_| {})
}

fn served_with(world: &World, change: impl Fn(&mut Command)) -> (Child, Value) {
    let mut command = world.command(&["sandbox", "--listen", "127.0.0.1:0", "--format", "json"]);
    change(&mut command);
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
fn a_stand_in_counts_each_credential_as_the_ledger_does() {
    let mut world = World::new();
    world
        .set("credentials.second={ upstream = \"youtube\", secret = { env = \"SECOND\" }, limits = { daily = { quota = 50, window = \"24h\" }, search = { quota = 20, window = \"24h\" }, search_burst = { quota = 20, window = \"1h\" } } }")
        .set("jobs.discover.credential=second")
        .set("jobs.discover.steps=[{ call = \"videos.list\", params = { chart = \"mostPopular\", regionCode = \"{region}\" }, max_pages = 4 }]")
        .set("jobs.discover.leave={}");
    // The keys are the configured ones, or the names of the credentials, which the stand-in knows without their secrets.
    let cases = [
        (
            Some(["first-key", "second-key"]),
            ["first-key", "second-key"],
        ),
        (None, ["youtube", "second"]),
    ];
    for (at, (stand_in, run)) in cases.into_iter().enumerate() {
        let (mut serving, said) = served_with(&world, |command| match stand_in {
            Some(given) => keys(command, given),
            None => drop(command.env_remove("YOUTUBE_API_KEY")),
        });
        let base_url = said["base_urls"]["youtube"].as_str().unwrap().to_owned();
        let set = format!("upstreams.youtube.base_url={base_url}");
        let state = format!("state-{at}");
        let more = ["--set", &set, "--state-dir", &state, "--format", "json"];
        let mut command = world.command(&[&["--region", "US,GB,DE,FR,IN"], &more[..]].concat());
        keys(&mut command, run);
        let report = Ran::of(command.output().unwrap()).json();
        assert_eq!(report["outcome"], "complete", "{report}");
        let address = said["address"].as_str().unwrap();
        let usage = said_by(address, "usage");
        let used = |limits: &Value, account: &str| {
            let limits = limits.as_array().unwrap();
            let mut limits = limits.iter();
            let limit = limits.find(|one| one["account"] == account && one["limit"] == "daily");
            limit.unwrap()["used"].clone()
        };
        for account in ["youtube", "second"] {
            assert_eq!(
                used(&usage["limits"], account),
                used(&report["limits"], account),
                "{account}"
            );
        }
        assert_eq!(used(&usage["limits"], "second"), 20, "{usage}");
        kill_process(Pid::from_child(&serving), Signal::TERM).unwrap();
        serving.wait().unwrap();
    }
}

fn keys(command: &mut Command, [youtube, second]: [&str; 2]) {
    command
        .env("YOUTUBE_API_KEY", youtube)
        .env("SECOND", second);
}

/// What a stand-in says about itself.
fn said_by(address: &str, what: &str) -> Value {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let request = sandbox_client().build().unwrap();
    let url = format!("http://{address}/_sandbox/{what}");
    runtime.block_on(async { request.get(url).send().await.unwrap().json().await.unwrap() })
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
