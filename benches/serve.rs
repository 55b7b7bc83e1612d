//! What `ingest serve` bears: a thousand clients at once for a minute, its memory, a hundred thousand addresses, a run beside
//! it, and a charge over Redis beside one of the ledger itself.
//!
//! `cargo bench --bench serve [-- CLIENTS SECONDS]`
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod place;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ingest_base::clock::SystemClock;
use ingest_config::{Config, Sources};
use ingest_ledger::{ChargeRequest, Mode, Purpose};
use ingest_quota::{Cost, Outage, Units};
use ingest_testing::redis_server::RedisServer;
use place::{Place, Size};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::time::{sleep, sleep_until};

/// The limit of each client: so low that every one of them meets it again and again.
const QUOTA: usize = 4;
const WINDOW: Duration = Duration::from_secs(10);

fn main() {
    let mut numbers = std::env::args()
        .skip(1)
        .filter_map(|argument| argument.parse().ok());
    let clients = numbers.next().unwrap_or(1000);
    let seconds = numbers.next().unwrap_or(60);
    measure(
        clients,
        Duration::from_secs(seconds as u64),
        100_000,
        5,
        3000,
    );
}

/// The same with little, once: whether it still works.
#[allow(dead_code, reason = "the tests call it")]
pub fn shortened() {
    measure(3, Duration::from_secs(1), 100, 1, 3);
}

fn measure(clients: usize, time: Duration, addresses: usize, runs: usize, charges: usize) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = Runtime::new().unwrap();
    let place = runtime.block_on(filled());
    let server = Server::start(&place, &[]);
    println!(
        "memory after the start: {:.1} MiB",
        server.megabytes("VmRSS")
    );
    let seen = runtime.block_on(read_all(&server, clients, time));
    println!("{clients} clients for {time:?}: {seen:?}");
    println!(
        "memory then: {:.1} MiB, at most {:.1} MiB",
        server.megabytes("VmRSS"),
        server.megabytes("VmHWM")
    );
    let before = server.megabytes("VmRSS");
    runtime.block_on(addresses_at_once(&server, addresses));
    let grown = server.megabytes("VmRSS") - before;
    println!("{addresses} more addresses: {grown:.1} MiB more");
    drop(server);
    let (alone, beside) = beside(&runtime, runs);
    println!(
        "a run: {alone:.0?} alone, {beside:.0?} beside a server that is read, {:.3} times as long",
        beside.as_secs_f64() / alone.as_secs_f64()
    );
    runtime.block_on(charge(charges));
}

async fn filled() -> Place {
    Place::filled(Size {
        regions: 8,
        records: 2000,
        charges: 1000,
        ..Size::default()
    })
    .await
}

struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(place: &Place, sets: &[&str]) -> Self {
        let mut command = place.command();
        let readers = format!(
            "serve.readers={{ quota = {QUOTA}, window = \"{}s\" }}",
            WINDOW.as_secs()
        );
        command.args(["--set", "serve.trusted_hops=1", "--set", &readers]);
        for set in sets {
            command.args(["--set", set]);
        }
        let mut child = command
            .env("DASHBOARDS", "a-token-that-nobody-guesses")
            .args(["serve", "--listen", "127.0.0.1:0", "--format", "json"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let said: Value = serde_json::from_str(&line).unwrap();
        let address = said["address"].as_str().unwrap().to_owned();
        Self { child, address }
    }

    fn megabytes(&self, name: &str) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        let kilobytes: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kilobytes / 1024.0
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection that is kept.
struct Connection(tokio::io::BufReader<TcpStream>);

struct Answer {
    status: u16,
    retry_after: Option<u64>,
}

impl Connection {
    async fn open(address: &str) -> Self {
        Self(tokio::io::BufReader::new(
            TcpStream::connect(address).await.unwrap(),
        ))
    }

    async fn ask(&mut self, request: &str) -> Answer {
        self.0
            .get_mut()
            .write_all(request.as_bytes())
            .await
            .unwrap();
        let mut fields = BTreeMap::new();
        let mut line = String::new();
        self.0.read_line(&mut line).await.unwrap();
        let status = line.split(' ').nth(1).unwrap_or_else(|| panic!("{line:?}"));
        let status = status.parse().unwrap();
        loop {
            line.clear();
            self.0.read_line(&mut line).await.unwrap();
            match line.trim_end().split_once(": ") {
                Some((name, value)) => fields.insert(name.to_owned(), value.to_owned()),
                None => break,
            };
        }
        let length = fields
            .get("content-length")
            .map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).await.unwrap();
        Answer {
            status,
            retry_after: fields
                .get("retry-after")
                .map(|seconds| seconds.parse().unwrap()),
        }
    }
}

fn get(path: &str, client: usize) -> String {
    let [_, b, c, d] = (client as u32).to_be_bytes();
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 11.{b}.{c}.{d}\r\n\r\n")
}

/// What the clients saw.
#[derive(Debug, Default)]
struct Seen {
    granted: usize,
    rejected: usize,
    /// Requests that were rejected a second before they fit, and that fit at the second that was said.
    exact: usize,
    slowest_ms: u128,
}

async fn read_all(server: &Server, clients: usize, time: Duration) -> Seen {
    let until = Instant::now() + time;
    let tasks = (0..clients).map(|client| {
        let address = server.address.clone();
        tokio::spawn(async move {
            sleep(Duration::from_micros(
                client as u64 * 1_000_000 / clients as u64,
            ))
            .await;
            read(&address, client, until).await
        })
    });
    let tasks: Vec<_> = tasks.collect();
    let mut all = Seen::default();
    for task in tasks {
        let seen = task.await.unwrap();
        all.granted += seen.granted;
        all.rejected += seen.rejected;
        all.exact += seen.exact;
        all.slowest_ms = all.slowest_ms.max(seen.slowest_ms);
    }
    all
}

/// Reads as one client: at once until it is rejected, then a second before the time that was said, then at that time.
async fn read(address: &str, client: usize, until: Instant) -> Seen {
    const PATHS: [&str; 3] = [
        "/api/v1/records/video?limit=5",
        "/api/v1/search?q=word17",
        "/api/v1/history",
    ];
    let mut connection = Connection::open(address).await;
    let mut seen = Seen::default();
    // When the granted requests were sent at the earliest, and answered at the latest.
    let mut granted: Vec<(Instant, Instant)> = Vec::new();
    let mut opened = Instant::now();
    for turn in client.. {
        if Instant::now() > until {
            break;
        }
        // The server closes a connection that is idle for ten seconds.
        if opened.elapsed() > Duration::from_secs(5) {
            connection = Connection::open(address).await;
        }
        let sent = Instant::now();
        let answer = connection
            .ask(&get(PATHS[turn % PATHS.len()], client))
            .await;
        let answered = Instant::now();
        opened = answered;
        seen.slowest_ms = seen.slowest_ms.max((answered - sent).as_millis());
        match answer.status {
            200 => {
                seen.granted += 1;
                granted.push((sent, answered));
            }
            429 => {
                seen.rejected += 1;
                let seconds = Duration::from_secs(answer.retry_after.unwrap());
                let early = sent + seconds - Duration::from_millis(1300);
                if early > Instant::now() && early < until {
                    sleep_until(early.into()).await;
                    connection = Connection::open(address).await;
                    let answer = connection.ask(&get("/nothing", client)).await;
                    if Instant::now() < sent + seconds - Duration::from_secs(1) {
                        assert_eq!(answer.status, 429, "it fits earlier than was said");
                    }
                }
                sleep_until((answered + seconds).into()).await;
                connection = Connection::open(address).await;
                let sent = Instant::now();
                let answer = connection.ask(&get("/nothing", client)).await;
                assert_eq!(answer.status, 404, "it does not fit when it was said to");
                granted.push((sent, Instant::now()));
                opened = Instant::now();
                seen.exact += 1;
            }
            other => panic!("status {other}"),
        }
    }
    for window in granted.windows(QUOTA + 1) {
        let longest = window[QUOTA].1.duration_since(window[0].0);
        assert!(longest >= WINDOW, "{QUOTA} and one more within {longest:?}");
    }
    seen
}

/// A request of each of many addresses.
async fn addresses_at_once(server: &Server, addresses: usize) {
    let mut connection = Connection::open(&server.address).await;
    for address in 0..addresses {
        let answer = connection.ask(&get("/nothing", 1_000_000 + address)).await;
        assert!(matches!(answer.status, 404 | 429), "{}", answer.status);
    }
}

/// The medians of a run alone and of one beside a server that answers a request every 50 ms, in turns.
fn beside(runtime: &Runtime, runs: usize) -> (Duration, Duration) {
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..runs {
        for (with_server, times) in times.iter_mut().enumerate() {
            let place = runtime.block_on(filled());
            let server = (with_server == 1).then(|| Server::start(&place, &[]));
            let reader = server.as_ref().map(|server| {
                let address = server.address.clone();
                runtime.spawn(async move {
                    for client in 0.. {
                        let mut connection = Connection::open(&address).await;
                        connection.ask(&get("/api/v1/history", client)).await;
                        sleep(Duration::from_millis(50)).await;
                    }
                })
            });
            let run = place.measure(&["--region", "all", "--job", "trending"]);
            assert_eq!(run.exit, "0");
            times.push(run.took);
            if let Some(reader) = reader {
                reader.abort();
            }
        }
    }
    let median = |times: &mut Vec<Duration>| {
        times.sort();
        times[times.len() / 2]
    };
    let [alone, beside] = &mut times;
    (median(alone), median(beside))
}

/// Charges over HTTP and by a ledger client, in turns.
async fn charge(charges: usize) {
    let redis = RedisServer::start();
    let url = format!("ledger.url=\"redis://127.0.0.1:{}\"", redis.port());
    let quota = "credentials.youtube.limits.daily={ quota = 100000000, window = \"24h\" }";
    let client = "serve.clients.dashboards={ token = { env = \"DASHBOARDS\" }, may = [\"charge\"], quota = 100_000_000, window = \"1s\" }";
    let place = filled().await;
    let server = Server::start(&place, &[&url, quota, client]);
    let directory = tempfile::tempdir().unwrap();
    let sources = Sources {
        path: Some(concat!(env!("CARGO_MANIFEST_DIR"), "/quotas.toml").into()),
        sets: vec![url.clone(), quota.to_owned()],
    };
    let config = Config::load(&sources).unwrap();
    let ledger = ingest_ledger::open(
        &config.ledger,
        directory.path(),
        Mode::ReadWrite,
        Arc::new(SystemClock),
    );
    let ledger = ledger.unwrap();
    let account = &config.credentials["youtube"].account;
    let cost = Cost::from_iter([("daily".to_owned(), Units::new(1))]);
    let purpose = Purpose {
        job: None,
        region: None,
        call: "videos.list".to_owned(),
    };
    let body = "{\"credential\":\"youtube\",\"call\":\"videos.list\"}";
    let request = format!(
        "POST /api/v1/charge HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer a-token-that-nobody-guesses\r\n\
        Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut connection = Connection::open(&server.address).await;
    let (mut without, mut by_http, mut by_ledger) = (Vec::new(), Vec::new(), Vec::new());
    for turn in 0..charges + charges / 10 {
        let began = Instant::now();
        connection.ask(&get("/healthz", 0)).await;
        let bare = began.elapsed();
        let began = Instant::now();
        assert_eq!(connection.ask(&request).await.status, 200);
        let http = began.elapsed();
        let began = Instant::now();
        let ask = ChargeRequest {
            account,
            id: None,
            cost: &cost,
            leave: &Cost::none(),
            outage: Outage::Refuse,
            purpose: &purpose,
        };
        ledger.acquire(ask).await.unwrap();
        // The first ones open files and connections.
        if turn >= charges / 10 {
            without.push(bare);
            by_http.push(http);
            by_ledger.push(began.elapsed());
        }
    }
    for (name, times) in [
        ("an answer without a charge", &mut without),
        ("a charge over HTTP", &mut by_http),
        ("a charge by the ledger", &mut by_ledger),
    ] {
        times.sort();
        let at = |part: usize| times[(times.len() - 1) * part / 100].as_micros();
        println!(
            "{name}: median {} µs, p90 {} µs, p99 {} µs",
            at(50),
            at(90),
            at(99)
        );
    }
}
