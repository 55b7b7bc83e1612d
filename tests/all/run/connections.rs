//! What a run pays for on connections that are slow, that the server closes, and that outlast a suspended process.

use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::world::{Ran, World};
use ingest_testing::raw_server::{Act, Identity, RawServer, Reply};

const CONFIG: &str = r#"
regions = ["US"]
[upstreams.api]
base_url = "https://api.example.test/v1"
auth = "none"
[upstreams.api.calls.list]
path = "things"
cost = { pace = 1 }
page = { kind = "token", param = "cursor", next = "/next" }
records = { at = "/items", kind = "thing", id = "/id" }
[credentials.api]
upstream = "api"
[credentials.api.limits]
pace = { quota = 3, window = "1s" }
[jobs.things]
credential = "api"
steps = [{ call = "list" }]
"#;

/// Room for everything.
const WIDE: &str = "credentials.api.limits.pace={ quota = 1000, window = \"24h\" }";

fn world(url: &str, sets: &[&str]) -> World {
    let mut world = World::written(CONFIG, sets);
    world.set(&format!("upstreams.api.base_url=\"{url}\""));
    world
}

/// Answers with the requested one of `pages` pages of one record each.
fn page_of(pages: usize) -> Arc<Reply> {
    Arc::new(move |request| {
        let query = request.line.split_once("cursor=").map(|(_, rest)| rest);
        let number: usize =
            query.map_or(0, |rest| rest.split(' ').next().unwrap().parse().unwrap());
        let next = if number + 1 < pages {
            format!("\"{}\"", number + 1)
        } else {
            "null".to_owned()
        };
        let body = format!("{{\"items\":[{{\"id\":\"{number}\"}}],\"next\":{next}}}");
        format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .into()
    })
}

/// Asserts that the run is complete after `pages` pages.
fn complete(ran: &Ran, pages: usize) {
    assert_eq!(ran.code, 0, "{ran:?}");
    let report = ran.json();
    assert_eq!(report["passes"][0]["outcome"], "complete", "{report}");
    assert_eq!(report["passes"][0]["records"], pages, "{report}");
}

const RUN: [&str; 4] = ["--region", "all", "--format", "json"];

#[test]
fn a_pace_limit_holds_where_a_connection_takes_longer_than_the_grace() {
    let identity = Identity::new();
    let page = page_of(7);
    let server = RawServer::over_tls(&identity, Duration::from_millis(300), move |_| {
        vec![Act::Serve(Arc::clone(&page))]
    });
    let world = world(&server.url(), &[]);
    let mut command = world.command(&RUN);
    let ran = Ran::of(
        command
            .env("SSL_CERT_FILE", identity.file())
            .output()
            .unwrap(),
    );
    complete(&ran, 7);
    assert_eq!(server.requests().len(), 7);
    assert_eq!(server.most_within(Duration::from_secs(1)), 3, "{ran:?}");
    assert_eq!(world.recorded("pace"), 7);
}

#[test]
fn a_pace_limit_holds_where_every_request_needs_a_slow_connection_of_its_own() {
    let identity = Identity::new();
    let page = page_of(5);
    let server = RawServer::over_tls(&identity, Duration::from_millis(150), move |number| {
        let delay = Duration::from_millis(if number % 2 == 0 { 200 } else { 0 });
        vec![Act::Wait(delay), Act::Reply(Arc::clone(&page))]
    });
    let world = world(&server.url(), &[]);
    let mut command = world.command(&RUN);
    let ran = Ran::of(
        command
            .env("SSL_CERT_FILE", identity.file())
            .output()
            .unwrap(),
    );
    complete(&ran, 5);
    assert!(server.most_within(Duration::from_secs(1)) <= 3, "{ran:?}");
    assert_eq!((server.requests().len(), world.recorded("pace")), (5, 5));
}

#[test]
fn a_connection_that_the_server_closed_meanwhile_costs_nothing() {
    let page = page_of(20);
    let server = RawServer::start(move |_| vec![Act::Reply(Arc::clone(&page))]);
    let world = world(&server.url(), &[WIDE]);
    complete(&world.ingest(&RUN), 20);
    assert_eq!((server.requests().len(), world.recorded("pace")), (20, 20));
}

#[test]
fn a_server_that_drops_what_it_is_sent_on_kept_connections_is_sent_it_on_new_ones() {
    let page = page_of(20);
    let server = RawServer::start(move |_| vec![Act::Reply(Arc::clone(&page)), Act::Read]);
    let world = world(&server.url(), &[WIDE]);
    complete(&world.ingest(&RUN), 20);
    let sent = server.requests().len();
    assert!((20..=24).contains(&sent), "{sent} requests for 20 pages");
    assert_eq!(
        world.recorded("pace"),
        sent as u64,
        "each of them may have been counted"
    );
}

/// Stops a run while it waits for an answer, until the answer has come and its time is over.
fn suspended() -> usize {
    let page = page_of(1);
    let server = RawServer::start(move |_| {
        let late: Arc<Reply> = {
            let page = Arc::clone(&page);
            Arc::new(move |request| {
                std::thread::sleep(Duration::from_millis(300));
                page(request)
            })
        };
        vec![Act::Serve(late)]
    });
    let world = world(&server.url(), &[WIDE, "upstreams.api.timeout=\"1s\""]);
    let mut command = world.command(&RUN);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let run = command.spawn().unwrap();
    while server.requests().is_empty() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let pid = Pid::from_child(&run);
    kill_process(pid, Signal::STOP).unwrap();
    std::thread::sleep(Duration::from_millis(1300));
    kill_process(pid, Signal::CONT).unwrap();
    complete(&Ran::of(run.wait_with_output().unwrap()), 1);
    server.requests().len()
}

#[test]
fn an_answer_that_came_while_the_process_was_suspended_is_read() {
    let rounds: Vec<_> = (0..4).map(|_| std::thread::spawn(suspended)).collect();
    let sent: Vec<usize> = rounds
        .into_iter()
        .map(|round| round.join().unwrap())
        .collect();
    assert_eq!(sent, [1; 4]);
}

/// A run of an upstream that only a proxy of the environment leads to.
fn through(variable: &str, proxy: &str, url: &str, more: &[(&str, &str)]) -> (World, Ran) {
    let world = world(url, &[WIDE, "upstreams.api.attempts=1"]);
    let mut command = world.command(&RUN);
    command.env(variable, proxy).envs(more.iter().copied());
    let ran = Ran::of(command.output().unwrap());
    (world, ran)
}

#[test]
fn plain_requests_go_through_the_proxy_that_the_environment_names() {
    let page = page_of(2);
    let proxy = RawServer::start(move |_| vec![Act::Serve(Arc::clone(&page))]);
    let url = proxy.url().replace("//", "//user:word@");
    let (world, ran) = through("http_proxy", &url, "http://api.example.test/v1", &[]);
    complete(&ran, 2);
    let requests = proxy.requests();
    assert_eq!(
        requests[0].line,
        "GET http://api.example.test/v1/things HTTP/1.1"
    );
    let authorization = "proxy-authorization: Basic dXNlcjp3b3Jk".to_owned();
    assert!(requests[1].headers.contains(&authorization), "{requests:?}");
    assert_eq!((proxy.connections(), world.recorded("pace")), (1, 2));
}

#[test]
fn secure_requests_go_through_a_tunnel_of_the_proxy() {
    let (identity, page) = (Identity::new(), page_of(2));
    let server = RawServer::over_tls(&identity, Duration::ZERO, move |_| {
        vec![Act::Serve(Arc::clone(&page))]
    });
    let to = server.address();
    let proxy = RawServer::start(move |_| {
        vec![
            Act::Read,
            Act::Send(b"HTTP/1.1 200 OK\r\n\r\n".to_vec()),
            Act::Tunnel(to),
        ]
    });
    let file = identity.file();
    let trust = [("SSL_CERT_FILE", file.to_str().unwrap())];
    let (world, ran) = through(
        "HTTPS_PROXY",
        &proxy.url(),
        "https://api.example.test/v1",
        &trust,
    );
    complete(&ran, 2);
    assert_eq!(
        proxy.requests()[0].line,
        "CONNECT api.example.test:443 HTTP/1.1"
    );
    assert_eq!(server.requests()[0].line, "GET /v1/things HTTP/1.1");
    // A check reaches the upstream in the same way.
    let mut check = world.command(&["check", "--connect"]);
    check.env("HTTPS_PROXY", proxy.url()).envs(trust);
    let checked = Ran::of(check.output().unwrap());
    let reached = format!(
        "api.example.test:443 can be reached through the proxy {} and speaks TLS",
        proxy.address()
    );
    assert!(checked.stdout.contains(&reached), "{checked:?}");
}

#[test]
fn a_request_that_a_proxy_did_not_pass_on_was_never_sent() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let refusing = RawServer::sending("HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n");
    for (variable, proxy, url, expected) in [
        (
            "http_proxy",
            format!("http://{closed}"),
            "http://api.example.test/v1",
            format!("the proxy {closed}"),
        ),
        (
            "https_proxy",
            format!("http://{closed}"),
            "https://api.example.test/v1",
            format!("the proxy {closed}"),
        ),
        (
            "https_proxy",
            refusing.url(),
            "https://api.example.test/v1",
            format!("the proxy {}", refusing.address()),
        ),
    ] {
        let (world, ran) = through(variable, &proxy, url, &[]);
        assert_eq!(ran.code, 1, "{ran:?}");
        let detail = ran.json()["passes"][0]["detail"].to_string();
        assert!(detail.contains(&expected), "{detail}");
        assert_eq!(
            (world.recorded("pace"), ran.json()["requests"].as_u64()),
            (0, Some(0)),
            "{ran:?}"
        );
    }
}

#[test]
fn a_proxy_of_a_kind_that_is_not_supported_is_refused_before_anything_is_requested() {
    let proxy = "socks5://127.0.0.1:1";
    let (world, ran) = through("all_proxy", proxy, "https://api.example.test/v1", &[]);
    assert_eq!((ran.code, world.recorded("pace")), (2, 0), "{ran:?}");
    assert!(
        ran.stderr.contains("socks5:// proxies are not supported"),
        "{ran:?}"
    );
}

#[test]
fn a_host_that_no_proxy_names_is_reached_without_one() {
    let (_, ran) = through(
        "http_proxy",
        "http://127.0.0.1:1",
        "http://api.invalid/v1",
        &[("no_proxy", "api.invalid")],
    );
    let detail = ran.json()["passes"][0]["detail"].to_string();
    assert!(
        detail.contains("cannot connect to api.invalid") && !detail.contains("proxy"),
        "{detail}"
    );
}

#[test]
fn a_server_that_accepts_and_never_answers_a_handshake_costs_nothing() {
    let server = RawServer::start(|_| vec![Act::Hold]);
    let url = server.url().replace("http:", "https:");
    let world = world(
        &url,
        &[
            WIDE,
            "upstreams.api.timeout=\"400ms\"",
            "upstreams.api.attempts=1",
        ],
    );
    let began = Instant::now();
    let ran = world.ingest(&RUN);
    assert_eq!((ran.code, world.recorded("pace")), (1, 0), "{ran:?}");
    assert!(began.elapsed() < Duration::from_secs(5));
}
