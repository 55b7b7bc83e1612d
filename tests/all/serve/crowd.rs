//! Many hostile clients beside an honest one.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

use super::safety::with_few_files;
use super::{CLIENT, Served, TOKEN};

const MANY: &str = "serve.readers={ quota = 1000000, window = \"1min\" }";
const REQUEST: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// A connection from an address of loopback.
fn from(address: Ipv4Addr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    bind(&socket, &SocketAddrV4::new(address, 0))?;
    connect(&socket, &to)?;
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    Ok(stream)
}

/// Clients that do something again and again, until they are dropped.
struct Hostile {
    ends: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Hostile {
    fn start(number: usize, act: impl Fn(&AtomicBool) + Clone + Send + 'static) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let start = |_| {
            let (ends, act) = (Arc::clone(&ends), act.clone());
            std::thread::spawn(move || {
                while !ends.load(Ordering::Relaxed) {
                    act(&ends);
                }
            })
        };
        let threads = (0..number).map(start).collect();
        Self { ends, threads }
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Asks on one connection for as long as that is answered, every 0.3 s.
fn keep(address: Ipv4Addr, to: SocketAddr, ends: &AtomicBool) {
    let Ok(mut stream) = from(address, to) else {
        return;
    };
    let mut answer = [0; 4096];
    while !ends.load(Ordering::Relaxed)
        && stream.write_all(REQUEST).is_ok()
        && stream.read(&mut answer).is_ok_and(|read| read > 0)
    {
        std::thread::sleep(Duration::from_millis(300));
    }
}

fn asks_in_time(address: Ipv4Addr, to: SocketAddr) {
    let began = Instant::now();
    let mut stream = from(address, to).unwrap();
    stream.write_all(REQUEST).unwrap();
    let mut answer = [0; 4096];
    let read = stream.read(&mut answer).unwrap();
    assert!(
        answer[..read].starts_with(b"HTTP/1.1 200"),
        "{}",
        String::from_utf8_lossy(&answer[..read])
    );
    assert!(
        began.elapsed() < Duration::from_secs(1),
        "{:?}",
        began.elapsed()
    );
}

#[test]
fn an_address_that_asks_on_every_connection_again_and_again_keeps_nobody_out() {
    // Of 72 places.
    let served = with_few_files(200);
    let (theirs, other) = (Ipv4Addr::new(127, 0, 0, 2), Ipv4Addr::new(127, 0, 0, 3));
    let to = served.address;
    let hostile = Hostile::start(100, move |ends| keep(theirs, to, ends));
    std::thread::sleep(Duration::from_secs(2));
    for _ in 0..5 {
        asks_in_time(other, to);
        // And another client behind the same address.
        asks_in_time(theirs, to);
        std::thread::sleep(Duration::from_millis(200));
    }
    drop(hostile);
}

#[test]
fn a_client_that_is_alone_keeps_its_connection() {
    let served = with_few_files(200);
    let mut stream = from(Ipv4Addr::LOCALHOST, served.address).unwrap();
    let mut answer = [0; 4096];
    for _ in 0..5 {
        stream.write_all(REQUEST).unwrap();
        let read = stream.read(&mut answer).unwrap();
        let text = String::from_utf8_lossy(&answer[..read]).to_lowercase();
        assert!(
            text.starts_with("http/1.1 200") && !text.contains("connection: close"),
            "{text}"
        );
    }
}

/// The most memory that the server held, in KiB.
fn peak(served: &Served) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", served.child.id())).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    line.trim()
        .strip_suffix("kB")
        .unwrap()
        .trim()
        .parse()
        .unwrap()
}

#[test]
fn fifty_long_forecasts_at_once_are_simulated_one_after_another_within_the_units_memory() {
    let served = Served::after_a_run(&[
        MANY,
        CLIENT,
        // Long enough for a build without optimisation to hold what a released one holds in two seconds.
        "serve.query_timeout=40s",
        "jobs.trending.every=1min",
        "jobs.discover.every=1min",
        "credentials.youtube.limits.daily.quota=100000000",
        "credentials.youtube.limits.search.quota=100000000",
        "credentials.youtube.limits.search_burst.quota=100000000",
    ]);
    let to = served.address;
    let forecast = move |_: &AtomicBool| {
        let Ok(mut stream) = from(Ipv4Addr::LOCALHOST, to) else {
            return;
        };
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let head = format!(
            "GET /plan?schedule=*/1%20*%20*%20*%20*&days=60 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n\r\n"
        );
        let _ = stream.write_all(head.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let text = String::from_utf8_lossy(&answer);
        if text.starts_with("HTTP/1.1 503") {
            assert!(text.to_lowercase().contains("retry-after: "), "{text}");
        } else {
            assert!(
                text.is_empty() || text.starts_with("HTTP/1.1 200"),
                "{text}"
            );
        }
    };
    let hostile = Hostile::start(50, forecast);
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(45) {
        asks_in_time(Ipv4Addr::LOCALHOST, to);
        std::thread::sleep(Duration::from_millis(500));
    }
    // Of 512 MiB.
    let peak = peak(&served);
    assert!(peak < 300 << 10, "{peak} KiB");
    served.signal(rustix::process::Signal::KILL);
    drop(hostile);
}

#[test]
fn a_server_ends_at_sighup_as_at_another_signal() {
    let mut served = Served::new(&[]);
    served.signal(rustix::process::Signal::HUP);
    assert_eq!(served.child.wait().unwrap().code(), Some(0));
}
