//! What keeps others out: names, origins, tokens, and bounds on connections.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use super::{CLIENT, Served, TOKEN};
use crate::support::world::{Ran, World, in_shell};

const MANY: &str = "serve.readers={ quota = 100_000, window = \"1min\" }";

#[test]
fn a_token_is_in_no_output() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = (taken.local_addr().unwrap().to_string(), taken);
    let world = World::configured(&[MANY, CLIENT], |_| {});
    let mut command = world.command(&["serve", "--listen", &taken.0, "-vvv"]);
    let ran = Ran::of(command.env("DASHBOARDS", TOKEN).output().unwrap());
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(!ran.stderr.contains(TOKEN) && !ran.stdout.contains(TOKEN));
    let missing = world.ingest(&["serve"]);
    assert_eq!(missing.code, 2, "{missing:?}");
    assert!(
        missing.stderr.contains("serve.clients.dashboards.token"),
        "{}",
        missing.stderr
    );
}

#[test]
fn a_signal_lets_requests_in_progress_end() {
    let mut served = Served::new(&[MANY]);
    let idle = TcpStream::connect(served.address).unwrap();
    assert_eq!(served.get("/healthz").status, 200);
    let began = Instant::now();
    served.signal(Signal::TERM);
    let ended = served.child.wait().unwrap();
    assert!(ended.success(), "{ended}");
    assert!(
        began.elapsed() < Duration::from_secs(6),
        "{:?}",
        began.elapsed()
    );
    drop(idle);
    assert!(TcpStream::connect(served.address).is_err());
}

#[test]
fn a_slow_head_and_an_idle_connection_are_closed() {
    let served = Served::new(&[MANY]);
    let began = Instant::now();
    let mut slow = TcpStream::connect(served.address).unwrap();
    slow.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        .unwrap();
    slow.set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let mut idle = TcpStream::connect(served.address).unwrap();
    idle.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap();
    idle.set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let mut rest = Vec::new();
    let _ = slow.read_to_end(&mut rest);
    idle.read_to_end(&mut rest).unwrap();
    assert!(
        began.elapsed() < Duration::from_secs(15),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(served.get("/healthz").status, 200);
}

#[test]
fn a_slow_body_ends() {
    let served = Served::new(&[MANY, CLIENT]);
    let mut slow = TcpStream::connect(served.address).unwrap();
    let head = format!(
        "POST /api/v1/charge HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 100\r\nConnection: close\r\n\r\n{{"
    );
    slow.write_all(head.as_bytes()).unwrap();
    slow.set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let mut answer = String::new();
    let _ = slow.read_to_string(&mut answer);
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
}

/// Sends requests for a large answer over connections that read nothing, as many as the server takes.
fn unread(served: &Served, path: &str, connections: usize) -> Vec<TcpStream> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").repeat(20);
    let connect = || {
        let mut stream = TcpStream::connect(served.address).unwrap();
        stream.set_nonblocking(true).unwrap();
        // The rest of the requests waits for answers to be read, too.
        let _ = stream.write(request.as_bytes());
        stream
    };
    (0..connections).map(|_| connect()).collect()
}

/// A server over records whose answers are as large as they get.
fn with_large_records() -> Served {
    let served = Served::after_a_run(&[MANY]);
    let large = format!("'{{\"title\":\"{}\"}}'", "x".repeat(5000));
    let copies = format!(
        "with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000)
        insert into record (upstream, kind, id, first_seen, last_seen, body)
        select upstream, kind, 'copy' || i, first_seen, last_seen, {large}
        from n, (select * from record where kind = 'video' limit 1)"
    );
    served.world.catalog().execute_batch(&copies).unwrap();
    served
}

#[test]
fn clients_that_read_nothing_take_bounded_memory_and_keep_nobody_out() {
    let served = with_large_records();
    let path = "/api/v1/records/video?limit=1000";
    let length = served.get(path).body.len();
    assert!(length > 3_000_000, "{length}");
    let before = served.allocated();
    let connections = unread(&served, path, 60);
    let began = Instant::now();
    // All of the answers together are 80 times as large as what may be in memory.
    while began.elapsed() < Duration::from_secs(6) {
        let grown = served.allocated().saturating_sub(before);
        assert!(grown < 100, "{grown} MiB more");
        let answer = served.get("/api/v1/records/video?limit=3");
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    drop(connections);
}

/// A server that may open only this many files.
pub(super) fn with_few_files(files: u32) -> Served {
    let world = World::configured(&[MANY], |_| {});
    let server = world.command(&["serve", "--listen", "127.0.0.1:0", "--format", "json"]);
    let shell = in_shell(&format!("ulimit -n {files}"), &server);
    let (child, said) = super::listening(shell);
    Served {
        address: said["address"].as_str().unwrap().parse().unwrap(),
        world,
        child,
    }
}

#[test]
fn slow_heads_on_every_connection_keep_nobody_out_for_long() {
    let served = with_few_files(200);
    let head = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ";
    let connect = || {
        let mut stream = TcpStream::connect(served.address).unwrap();
        stream.write_all(head).unwrap();
        stream
    };
    // More than the server takes.
    let slow: Vec<TcpStream> = (0..80).map(|_| connect()).collect();
    let began = Instant::now();
    assert_eq!(served.get("/healthz").status, 200);
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    drop(slow);
}

#[test]
fn what_is_too_large_is_refused() {
    let served = Served::new(&[MANY, CLIENT]);
    let large = json!({ "credential": "x".repeat(100_000) });
    assert_eq!(served.post("/api/v1/charge", None, &large).status, 413);
    let deep = format!("{}{}", "[".repeat(30_000), "]".repeat(30_000));
    let token = format!("Authorization: Bearer {TOKEN}");
    let answer = served.send(
        "POST /api/v1/charge",
        &["Content-Type: application/json", &token],
        &deep,
    );
    assert_eq!(answer.status, 400);
    let long = format!("GET /api/v1/search?q={}", "x".repeat(40_000));
    assert!(matches!(
        served.send(&long, &[], "").status,
        400 | 414 | 431
    ));
    let many: Vec<String> = (0..200).map(|n| format!("X-{n}: y")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(served.send("GET /healthz", &many, "").status, 431);
    assert_eq!(served.get("/healthz").status, 200);
}

#[test]
fn a_socket_of_systemd_is_used() {
    let world = World::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let given = crate::serve::activated(&world, &listener);
    drop(listener);
    let served = Served {
        world,
        child: given,
        address,
    };
    assert_eq!(served.get("/healthz").status, 200);
}

/// Reads one answer, and leaves the connection open.
fn one_answer(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        head.extend(byte);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).unwrap();
    head
}

#[test]
fn a_refused_post_leaves_its_connection_open_for_the_next_request() {
    let served = Served::new(&[MANY]);
    let mut stream = TcpStream::connect(served.address).unwrap();
    let host = format!("Host: {}\r\n", served.address);
    for _ in 0..3 {
        // Most clients send the body behind the head.
        let head =
            format!("POST /api/v1/charge HTTP/1.1\r\n{host}Content-Type: application/json\r\n");
        stream
            .write_all(format!("{head}Content-Length: 2\r\n\r\n").as_bytes())
            .unwrap();
        std::thread::sleep(Duration::from_millis(20));
        stream.write_all(b"{}").unwrap();
        let refused = one_answer(&mut stream);
        assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
        assert!(!refused.contains("connection: close"), "{refused}");
        stream
            .write_all(format!("GET /healthz HTTP/1.1\r\n{host}\r\n").as_bytes())
            .unwrap();
        let next = one_answer(&mut stream);
        assert!(next.starts_with("HTTP/1.1 200"), "{next}");
    }
}

#[test]
fn an_answer_to_a_request_whose_body_is_not_wanted_says_that_the_connection_ends() {
    let served = Served::new(&[MANY]);
    let mut stream = TcpStream::connect(served.address).unwrap();
    let head = format!(
        "POST /api/v1/charge HTTP/1.1\r\nHost: {}\r\n",
        served.address
    );
    let asks =
        "Content-Type: application/json\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n";
    stream
        .write_all(format!("{head}{asks}").as_bytes())
        .unwrap();
    let refused = one_answer(&mut stream);
    assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
    assert!(refused.contains("connection: close"), "{refused}");
}
