//! What a configuration names may never end: each read has a bound, and its message names it.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::world::{Ran, World, ends_within};
use ingest_testing::raw_server::{Act, RawServer};

/// In KiB: what the process holds of itself, and of the longest that it reads.
const MOST: u64 = 250 << 10;

/// Runs a command to its end, and the most memory that it held, in KiB.
fn peak(mut command: Command) -> (Ran, u64) {
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", child.id());
    let (sender, done) = std::sync::mpsc::channel::<()>();
    let watched = std::thread::spawn(move || {
        let mut peak = 0;
        while done.try_recv().is_err() {
            let text = fs::read_to_string(&status).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let held = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok());
            peak = peak.max(held.unwrap_or(0));
            std::thread::sleep(Duration::from_millis(2));
        }
        peak
    });
    let ran = ends_within(child, Duration::from_secs(50));
    sender.send(()).unwrap();
    (ran, watched.join().unwrap())
}

fn bounded(name: &str, command: Command, bound: &str) {
    let (ran, peak) = peak(command);
    let said = format!("{}{}", ran.stdout, ran.stderr);
    assert!(ran.code == 1 || ran.code == 2, "{name}: {ran:?}");
    assert!(said.contains(bound), "{name}: {said}");
    assert!(peak < MOST, "{name}: {peak} KiB");
}

#[test]
fn what_a_configuration_names_is_read_to_a_bound() {
    let world = World::new();
    let run = |set: &str| world.command(&["--region", "US", "--job", "trending", "--set", set]);
    let secret = |source: &str| run(&format!("credentials.youtube.secret={source}"));
    bounded(
        "a secret that a command prints",
        secret("{ command = [\"sh\", \"-c\", \"yes\"] }"),
        "64 KiB",
    );
    bounded(
        "a secret that ignores its reader",
        secret(
            "{ command = [\"sh\", \"-c\", \"trap '' PIPE; while :; do echo yyyyyyyyyyyyyyyy; done 2>/dev/null\"] }",
        ),
        "64 KiB",
    );
    bounded(
        "a secret in a file",
        secret("{ file = \"/dev/zero\" }"),
        "64 KiB",
    );
    bounded(
        "regions in a file",
        run("regions={ file = \"/dev/zero\" }"),
        "16 MiB",
    );
    bounded(
        "a certificate",
        world.command(&[
            "charge",
            "youtube",
            "search.list",
            "--set",
            "ledger.url=rediss://127.0.0.1:1",
            "--set",
            "ledger.tls={ ca = \"/dev/zero\" }",
        ]),
        "16 MiB",
    );
    bounded(
        "a saved response",
        world.command(&["init", "--answer", "/dev/zero", "-"]),
        "128 MiB",
    );
    let mut configuration = Command::new(assert_cmd::cargo::cargo_bin!("ingest"));
    configuration
        .args(["--config", "/dev/zero", "check"])
        .current_dir(world.directory.path());
    bounded("the configuration", configuration, "16 MiB");
}

#[test]
fn a_command_that_says_much_beside_its_secret_is_heard_out() {
    let world = World::new();
    let command = "credentials.youtube.secret={ command = [\"sh\", \"-c\", \"yes | head -c 3000000 >&2; echo s3cr3t-k3y-0f-th3-t3sts\"] }";
    let ran = world.ingest(&["--region", "US", "--job", "trending", "--set", command]);
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn an_answer_of_a_redis_is_read_to_a_bound() {
    let answers = [
        ("one text", b"$400000000\r\n".to_vec(), vec![b'x'; 1 << 20]),
        (
            "many texts",
            b"*100000000\r\n".to_vec(),
            b":1\r\n".repeat(1 << 18),
        ),
        ("a line", b"+".to_vec(), vec![b'x'; 1 << 20]),
        ("an error", b"-ERR ".to_vec(), vec![b'x'; 1 << 20]),
    ];
    for (name, head, part) in answers {
        let server = RawServer::start(move |_| {
            let mut acts = vec![Act::Send(head.clone())];
            acts.extend(vec![Act::Send(part.clone()); 600]);
            acts
        });
        let world = World::new();
        let url = format!("ledger.url=redis://{}", server.address());
        // A call that is too dear to go ahead without the ledger.
        let charge = world.command(&[
            "charge",
            "youtube",
            "search.list",
            "--set",
            &url,
            "--set",
            "ledger.timeout=40s",
        ]);
        bounded(name, charge, "4 MiB");
    }
}
