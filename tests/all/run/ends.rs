//! A signal ends a run within ten seconds, whatever the run waits for.

use std::io::Read;
use std::net::TcpListener;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::shared_world::SharedWorld;
use crate::support::world::World;
use ingest_testing::postgres::PostgresServer;
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};

/// What a test must never wait for.
const FOREVER: Duration = Duration::from_secs(120);

/// A server that accepts connections and never answers.
fn silent() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

fn start(world: &World) -> Child {
    start_with(world, &["--region", "US", "--job", "trending"])
}

fn start_with(world: &World, arguments: &[&str]) -> Child {
    world
        .command(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < FOREVER, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Signals a run that waits, and returns what it said when it ended.
fn terminated(mut child: Child) -> (Option<i32>, String) {
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let asked = Instant::now();
    let mut said = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    let code = child.wait().unwrap().code();
    assert!(asked.elapsed() < Duration::from_secs(14), "{said}");
    (code, said)
}

#[test]
fn a_signal_ends_a_run_that_waits_for_an_upstream_a_ledger_a_secret_or_a_lease() {
    let stub = StubUpstream::start(|_| StubAnswer::text(200, "{}").after(FOREVER));
    let mut upstream = World::new();
    upstream.set(&format!("upstreams.youtube.base_url=\"{}\"", stub.url()));
    upstream.set("upstreams.youtube.timeout=\"100s\"");
    let for_upstream = start(&upstream);
    until("the run asked the upstream", || !stub.requests().is_empty());
    let try_call = ["try", "youtube", "videos.list", "--region", "US"];
    let trying = start_with(&upstream, &try_call);

    let (redis, port) = silent();
    let mut ledger = World::new();
    ledger.set(&format!("ledger.url=\"redis://127.0.0.1:{port}\""));
    ledger.set("ledger.timeout=\"100s\"");
    let for_ledger = start(&ledger);

    let mut secret = World::new();
    let asked = secret.state_dir().with_file_name("asked");
    let script = secret.state_dir().with_file_name("secret.sh");
    std::fs::write(&script, format!("touch '{}'\nsleep 60\n", asked.display())).unwrap();
    secret.set(&format!(
        "credentials.youtube.secret={{ command = [\"sh\", \"{}\"] }}",
        script.display()
    ));
    let for_secret = start(&secret);

    let schema = PostgresServer::shared().schema();
    let mut lease = schema.world(&[]);
    lease.set("catalog.lease=\"400s\"");
    assert_eq!(
        lease.ingest(&["--region", "GB", "--job", "trending"]).code,
        0
    );
    let lock = format!(
        "do $$ begin lock table {}.lease in access exclusive mode; perform pg_sleep(40); end $$",
        schema.name
    );
    std::thread::spawn(move || PostgresServer::shared().rows(&lock));
    // Other tests lock other tables of the server.
    let locks = "select count(*) from pg_locks where relation = 'lease'::regclass";
    until("the lease is locked", || {
        let held = "mode = 'AccessExclusiveLock' and granted";
        schema.count(&format!("{locks} and {held}")) > 0
    });
    let for_lease = start(&lease);

    until("both asked the upstream", || stub.requests().len() == 2);
    redis.accept().unwrap();
    until("the secret was asked for", || asked.exists());
    until("the lease was asked for", || {
        schema.count(&format!("{locks} and not granted")) > 0
    });
    let ended: Vec<_> = [
        (for_upstream, "the upstream's response"),
        (trying, "the upstream's response"),
        (for_ledger, "the ledger"),
        (for_secret, "its secret"),
        (for_lease, "the lease"),
    ]
    .into_iter()
    .map(|(child, what)| (std::thread::spawn(move || terminated(child)), what))
    .collect();
    for (ended, what) in ended {
        let (code, said) = ended.join().unwrap();
        assert_eq!(code, Some(143), "{what}: {said}");
        assert!(!said.contains("no task waits"), "{what}: {said}");
    }
}
