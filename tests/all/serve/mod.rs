//! `ingest serve`: the page, the read API, charging over HTTP, and what keeps others out.

mod browser;
mod charging;
mod crowd;
mod deployed;
mod frame;
mod limits;
mod page;
mod reading;
mod redis;
mod safety;
mod screenshots;
mod shared_catalog;
mod vanished;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::support::world::{World, in_shell};

/// A token, as a client of the configuration has it.
pub const TOKEN: &str = "t0ken-of-the-dashboards";
/// A client that may do everything.
pub const CLIENT: &str = "serve.clients.dashboards={ token = { env = \"DASHBOARDS\" }, may = [\"read\", \"charge\"], quota = 100_000 }";

/// A server, and the world that it serves.
pub struct Served {
    pub world: World,
    pub child: Child,
    pub address: SocketAddr,
}

/// What the server answered.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Served {
    /// A server over an empty state, with these values of the configuration.
    pub fn new(sets: &[&str]) -> Self {
        Self::over(World::configured(sets, |_| {}))
    }

    /// A server over the state of a run.
    pub fn after_a_run(sets: &[&str]) -> Self {
        let world = World::configured(sets, |_| {});
        let ran = world.ingest(&["--region", "US,GB"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        Self::over(world)
    }

    pub fn over(world: World) -> Self {
        Self::listening_at(world, "127.0.0.1:0")
    }

    /// A server that other machines can reach, over an empty state, with these values of the configuration.
    pub fn beyond_loopback(sets: &[&str]) -> Self {
        let mut served = Self::listening_at(World::configured(sets, |_| {}), "0.0.0.0:0");
        served.address.set_ip([127, 0, 0, 1].into());
        served
    }

    fn listening_at(world: World, address: &str) -> Self {
        let (child, said) = started(&world, &["--listen", address]);
        let address = |name: &str| said[name].as_str().map(|text| text.parse().unwrap());
        Self {
            world,
            child,
            address: address("address").unwrap(),
        }
    }

    /// Sends `METHOD PATH`, more lines of a head, and a body.
    pub fn send(&self, request: &str, headers: &[&str], body: &str) -> Answer {
        send(self.address, request, headers, body)
    }

    pub fn get(&self, path: &str) -> Answer {
        self.send(&format!("GET {path}"), &[], "")
    }

    /// Posts JSON as the client with the token.
    pub fn post(&self, path: &str, key: Option<&str>, body: &Value) -> Answer {
        let token = format!("Authorization: Bearer {TOKEN}");
        let key = key.map(|key| format!("Idempotency-Key: {key}"));
        let mut headers = vec!["Content-Type: application/json", &token];
        headers.extend(key.as_deref());
        self.send(&format!("POST {path}"), &headers, &body.to_string())
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.child.id().try_into().unwrap());
        rustix::process::kill_process(pid.unwrap(), signal).unwrap();
    }

    /// The memory of the server without the program's code, in MiB.
    pub fn allocated(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("RssAnon:"))
            .unwrap();
        line.split_whitespace()
            .nth(1)
            .unwrap()
            .parse::<u64>()
            .unwrap()
            / 1024
    }
}

/// Sends `METHOD PATH`, more lines of a head, and a body to a server.
pub fn send(address: SocketAddr, request: &str, headers: &[&str], body: &str) -> Answer {
    let has_host = headers
        .iter()
        .any(|line| line.to_lowercase().starts_with("host:"));
    let host = if has_host {
        String::new()
    } else {
        format!("Host: {}\r\n", address)
    };
    let lines: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
    let length = if body.is_empty() {
        String::new()
    } else {
        format!("Content-Length: {}\r\n", body.len())
    };
    let bytes =
        format!("{request} HTTP/1.1\r\n{host}{lines}{length}Connection: close\r\n\r\n{body}");
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    stream.write_all(bytes.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    Answer::of(&answer)
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a server, and waits until it listens.
pub fn start(world: &World, arguments: &[&str]) -> (Child, SocketAddr) {
    let (child, said) = started(world, arguments);
    let address = said["address"].as_str().unwrap().parse().unwrap();
    (child, address)
}

/// The same; returns all that the server says.
fn started(world: &World, arguments: &[&str]) -> (Child, Value) {
    let arguments = [&["serve", "--format", "json"], arguments].concat();
    let mut command = world.command(&arguments);
    command
        // As the shipped unit has it.
        .env("MALLOC_ARENA_MAX", "2")
        .env("DASHBOARDS", TOKEN)
        .env("OTHERS", "another-token-of-16");
    listening(command)
}

/// Starts a server, waits until it listens, and returns all that it says.
pub fn listening(mut command: Command) -> (Child, Value) {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let said = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
    (child, said)
}

impl Answer {
    fn of(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("no head: {:?}", String::from_utf8_lossy(bytes)));
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let body = bytes[end + 4..].to_vec();
        let chunked = head.to_lowercase().contains("transfer-encoding: chunked");
        Self {
            status: head.split(' ').nth(1).unwrap().parse().unwrap(),
            body: if chunked { unchunked(&body) } else { body },
            head,
        }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self
            .head
            .lines()
            .skip(1)
            .filter_map(|line| line.split_once(": "));
        let mut found = lines.filter(|(known, _)| known.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value)
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }
}

fn unchunked(mut body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    loop {
        let end = body.windows(2).position(|two| two == b"\r\n").unwrap();
        let length = std::str::from_utf8(&body[..end]).unwrap();
        let length = usize::from_str_radix(length, 16).unwrap();
        if length == 0 {
            return whole;
        }
        whole.extend_from_slice(&body[end + 2..end + 2 + length]);
        body = &body[end + 2 + length + 2..];
    }
}

/// Starts a server with a socket that is open already, as systemd does.
pub fn activated(world: &World, listener: &std::net::TcpListener) -> Child {
    use std::os::fd::AsRawFd;
    rustix::io::fcntl_setfd(listener, rustix::io::FdFlags::empty()).unwrap();
    let socket = format!(
        "exec 3<&{}; export LISTEN_PID=$$ LISTEN_FDS=1",
        listener.as_raw_fd()
    );
    let mut server = in_shell(&socket, &world.command(&["serve"]));
    server.stdout(Stdio::null()).stderr(Stdio::null());
    server.spawn().unwrap()
}
