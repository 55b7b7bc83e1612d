//! Envoy's rate limit service, asked by a gRPC client with messages of its own.

use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tonic::body::Body;
use tonic::{Code, Status};
use tonic_prost::ProstCodec;

use super::{CLIENT, Served, TOKEN};

const DESCRIPTORS: &str = "serve.envoy={ listen = \"127.0.0.1:0\", descriptors = [\
    { entries = { path = \"/videos\" }, credential = \"youtube\", call = \"videos.list\" },\
    { entries = { path = \"/search\" }, credential = \"youtube\", cost = { daily = 100 } },\
    { entries = { tenant = \"*\", generic_key = \"bulk\" }, credential = \"youtube\", call = \"videos.list\" }] }";

#[derive(Clone, PartialEq, Message)]
struct Request {
    #[prost(string, tag = "1")]
    domain: String,
    #[prost(message, repeated, tag = "2")]
    descriptors: Vec<Descriptor>,
    #[prost(uint32, tag = "3")]
    hits_addend: u32,
}

#[derive(Clone, PartialEq, Message)]
struct Descriptor {
    #[prost(message, repeated, tag = "1")]
    entries: Vec<Pair>,
    #[prost(message, optional, tag = "3")]
    hits_addend: Option<Number>,
    #[prost(bool, tag = "4")]
    is_negative_hits: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Pair {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct Number {
    #[prost(int64, tag = "1")]
    value: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

#[derive(Clone, PartialEq, Message)]
struct Response {
    #[prost(int32, tag = "1")]
    overall_code: i32,
    #[prost(message, repeated, tag = "2")]
    statuses: Vec<DescriptorStatus>,
    #[prost(message, repeated, tag = "3")]
    response_headers_to_add: Vec<Pair>,
}

#[derive(Clone, PartialEq, Message)]
struct DescriptorStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(message, optional, tag = "2")]
    current_limit: Option<Limit>,
    #[prost(uint32, tag = "3")]
    limit_remaining: u32,
    #[prost(message, optional, tag = "4")]
    duration_until_reset: Option<Number>,
}

#[derive(Clone, PartialEq, Message)]
struct Limit {
    #[prost(uint32, tag = "1")]
    requests_per_unit: u32,
    #[prost(int32, tag = "2")]
    unit: i32,
    #[prost(string, tag = "3")]
    name: String,
}

const OK: i32 = 1;
const OVER: i32 = 2;
const DAY: i32 = 4;

/// A connection of HTTP/2 without TLS, as a service.
struct Channel(hyper::client::conn::http2::SendRequest<Body>);

impl tower_service::Service<axum::http::Request<Body>> for Channel {
    type Response = axum::http::Response<hyper::body::Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, hyper::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: axum::http::Request<Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}

async fn send(
    address: SocketAddr,
    token: Option<&str>,
    request: Request,
) -> Result<Response, Status> {
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    let origin = "http://rate-limits".parse().unwrap();
    let mut client = tonic::client::Grpc::with_origin(Channel(sender), origin);
    client.ready().await.unwrap();
    let mut request = tonic::Request::new(request);
    if let Some(token) = token {
        let token = format!("Bearer {token}").parse().unwrap();
        request.metadata_mut().insert("authorization", token);
    }
    let path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
    let codec = ProstCodec::<Request, Response>::default();
    let answered = client.unary(request, path.parse().unwrap(), codec).await;
    answered.map(tonic::Response::into_inner)
}

fn ask_as(served: &Served, token: Option<&str>, request: Request) -> Result<Response, Status> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(send(served.envoy.unwrap(), token, request))
}

fn ask(served: &Served, request: Request) -> Response {
    ask_as(served, Some(TOKEN), request).unwrap()
}

fn descriptor(entries: &[(&str, &str)]) -> Descriptor {
    let entries = entries.iter().map(|(key, value)| Pair {
        key: (*key).to_owned(),
        value: (*value).to_owned(),
    });
    Descriptor {
        entries: entries.collect(),
        ..Descriptor::default()
    }
}

fn hits(hits: i64, descriptor: Descriptor) -> Descriptor {
    Descriptor {
        hits_addend: Some(Number {
            value: hits,
            nanos: 0,
        }),
        ..descriptor
    }
}

fn refund(descriptor: Descriptor) -> Descriptor {
    Descriptor {
        is_negative_hits: true,
        ..descriptor
    }
}

fn videos() -> Descriptor {
    descriptor(&[("path", "/videos")])
}

fn request(descriptors: Vec<Descriptor>) -> Request {
    Request {
        domain: "ingest".to_owned(),
        descriptors,
        hits_addend: 0,
    }
}

fn codes(response: &Response) -> (i32, Vec<i32>) {
    let statuses = response.statuses.iter().map(|status| status.code);
    (response.overall_code, statuses.collect())
}

/// A server whose daily limit has 1,000 units.
fn served(more: &[&str]) -> Served {
    let quota = [
        "credentials.youtube.limits.daily.quota=1000",
        "credentials.youtube.limits.daily.headroom=0",
        "jobs.trending.leave.daily=0",
        "jobs.discover.leave={}",
        DESCRIPTORS,
        CLIENT,
    ];
    Served::new(&[&quota, more].concat())
}

#[test]
fn a_descriptor_charges_what_the_configuration_says() {
    let served = served(&[]);
    let answer = ask(&served, request(vec![videos()]));
    assert_eq!(codes(&answer), (OK, vec![OK]));
    let status = &answer.statuses[0];
    assert_eq!(status.limit_remaining, 999);
    let limit = status.current_limit.as_ref().unwrap();
    assert_eq!(
        (limit.requests_per_unit, limit.unit, &*limit.name),
        (1000, DAY, "daily")
    );
    assert_eq!(served.world.charged("daily"), 1);
    // A hit of a search is 100 units, and all numbers are hits.
    let search = descriptor(&[("path", "/search")]);
    let answer = ask(&served, request(vec![search]));
    let status = &answer.statuses[0];
    let limit = status.current_limit.as_ref().unwrap();
    assert_eq!((status.limit_remaining, limit.requests_per_unit), (8, 10));
    let bulk = descriptor(&[("tenant", "anybody"), ("generic_key", "bulk")]);
    let of_request = Request {
        hits_addend: 7,
        ..request(vec![bulk.clone(), hits(2, bulk)])
    };
    assert_eq!(codes(&ask(&served, of_request)), (OK, vec![OK, OK]));
    assert_eq!(served.world.charged("daily"), 1 + 100 + 7 + 2);
}

#[test]
fn what_no_descriptor_names_is_not_limited() {
    let served = served(&[]);
    let others = [
        descriptor(&[("path", "/else")]),
        descriptor(&[("path", "/videos"), ("tenant", "a")]),
        descriptor(&[("generic_key", "bulk")]),
        descriptor(&[]),
    ];
    let answer = ask(&served, request(others.to_vec()));
    assert_eq!(codes(&answer), (OK, vec![OK; 4]));
    let elsewhere = Request {
        domain: "elsewhere".to_owned(),
        ..request(vec![videos()])
    };
    assert_eq!(codes(&ask(&served, elsewhere)), (OK, vec![OK]));
    assert_eq!(served.world.charged("daily"), 0);
}

#[test]
fn over_the_limit_nothing_is_charged_and_the_answer_says_when_it_fits() {
    let served = served(&[]);
    ask(&served, request(vec![hits(995, videos())]));
    let search = || descriptor(&[("path", "/search")]);
    let answer = ask(
        &served,
        request(vec![hits(3, videos()), search(), videos()]),
    );
    assert_eq!(codes(&answer), (OVER, vec![OK, OVER, OK]));
    assert_eq!(served.world.charged("daily"), 995, "all or none");
    let reset = answer.statuses[1].duration_until_reset.as_ref().unwrap();
    let wait = reset.value + i64::from(reset.nanos > 0);
    assert!((86_000..=86_700).contains(&wait), "{reset:?}");
    let header = &answer.response_headers_to_add[0];
    assert_eq!(
        (&*header.key, &*header.value),
        ("retry-after", &*wait.to_string())
    );
    let never = ask(&served, request(vec![hits(1001, videos())]));
    assert_eq!(codes(&never), (OVER, vec![OVER]));
    assert_eq!(never.statuses[0].duration_until_reset, None);
    let most = ask(&served, request(vec![hits(-1, search())]));
    assert_eq!(
        codes(&most),
        (OVER, vec![OVER]),
        "more hits than there are numbers"
    );
}

#[test]
fn no_hits_only_look_and_negative_ones_return_what_was_charged() {
    let served = served(&[]);
    let look = || request(vec![hits(0, videos())]);
    let answer = ask(&served, look());
    assert_eq!(
        (codes(&answer), answer.statuses[0].limit_remaining),
        ((OK, vec![OK]), 1000)
    );
    ask(&served, request(vec![hits(600, videos())]));
    ask(&served, request(vec![hits(400, videos())]));
    let answer = ask(&served, look());
    assert_eq!(codes(&answer), (OVER, vec![OVER]));
    let reset = answer.statuses[0].duration_until_reset.as_ref().unwrap();
    assert!((86_000..=86_700).contains(&reset.value), "{reset:?}");
    let answer = ask(&served, request(vec![refund(hits(450, videos()))]));
    assert_eq!(
        (codes(&answer), answer.statuses[0].limit_remaining),
        ((OK, vec![OK]), 450)
    );
    assert_eq!(served.world.charged("daily"), 550);
    // Nobody gets back more than was charged for the descriptor.
    let search = descriptor(&[("path", "/search")]);
    ask(&served, request(vec![refund(hits(5, search))]));
    assert_eq!(served.world.charged("daily"), 550);
    ask(&served, request(vec![refund(hits(10_000, videos()))]));
    assert_eq!(served.world.charged("daily"), 0);
}

#[test]
fn a_request_over_a_limit_returns_no_hits_wherever_its_refund_stands() {
    let served = served(&[]);
    ask(&served, request(vec![hits(990, videos())]));
    let (search, back) = (
        descriptor(&[("path", "/search")]),
        refund(hits(7, videos())),
    );
    for descriptors in [
        vec![back.clone(), search.clone()],
        vec![search.clone(), back.clone()],
    ] {
        let answer = ask(&served, request(descriptors));
        assert_eq!(answer.overall_code, OVER, "{answer:?}");
        assert_eq!(served.world.charged("daily"), 990, "all or none");
    }
    let answer = ask(&served, request(vec![back, hits(5, videos())]));
    assert_eq!(codes(&answer), (OK, vec![OK, OK]));
    assert_eq!(answer.statuses[0].limit_remaining, 12);
    assert_eq!(served.world.charged("daily"), 988);
    ask(&served, request(vec![hits(12, videos())]));
    // Nothing is left, and a refund of nothing is still no charge.
    let none = refund(hits(1, search));
    assert_eq!(codes(&ask(&served, request(vec![none]))), (OK, vec![OK]));
}

#[test]
fn only_a_client_that_may_charge_is_answered() {
    let others = "serve.clients.others={ token = { env = \"OTHERS\" }, may = [\"read\"] }";
    let limited = "serve.clients.dashboards.charge=[\"nobody\"]";
    let some = "credentials.nobody={ upstream = \"youtube\", secret = { env = \"YOUTUBE_API_KEY\" }, limits = { daily = { quota = 10, window = \"24h\" }, search = { quota = 10, window = \"24h\" }, search_burst = { quota = 10, window = \"1h\" } } }";
    let served = served(&[others, some, limited]);
    let code = |token| {
        ask_as(&served, token, request(vec![videos()]))
            .unwrap_err()
            .code()
    };
    assert_eq!(code(None), Code::Unauthenticated);
    assert_eq!(code(Some("wrong")), Code::Unauthenticated);
    assert_eq!(code(Some("another-token")), Code::PermissionDenied);
    assert_eq!(code(Some(TOKEN)), Code::PermissionDenied);
    let empty = ask_as(&served, Some(TOKEN), request(Vec::new())).unwrap_err();
    assert_eq!(empty.code(), Code::InvalidArgument);
    assert_eq!(served.world.charged("daily"), 0);
}

#[test]
fn without_the_ledger_the_outage_policy_decides() {
    let redis = ingest_testing::redis_server::RedisServer::start();
    let url = format!("ledger.url=\"redis://127.0.0.1:{}\"", redis.port());
    let served = served(&[&url, "ledger.timeout=300ms"]);
    assert_eq!(
        codes(&ask(&served, request(vec![videos()]))),
        (OK, vec![OK])
    );
    redis.hang();
    let cheap = ask(&served, request(vec![videos()]));
    assert_eq!(codes(&cheap), (OK, vec![OK]));
    let header = &cheap.response_headers_to_add[0];
    assert_eq!(
        (&*header.key, &*header.value),
        ("ingest-charge", "unmetered")
    );
    let expensive = descriptor(&[("path", "/search")]);
    let refused = ask_as(&served, Some(TOKEN), request(vec![expensive])).unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
}

#[test]
fn the_server_starts_only_with_descriptors_that_charge_something() {
    let world = crate::support::world::World::configured(&[], |_| {});
    let wrong = |sets: &[&str]| {
        let mut arguments = Vec::new();
        for set in sets {
            arguments.extend(["--set", set]);
        }
        arguments.extend(["serve", "--listen", "127.0.0.1:0"]);
        let output = world.command(&arguments).env("DASHBOARDS", TOKEN).output();
        let ran = crate::support::world::Ran::of(output.unwrap());
        assert_eq!(ran.code, 2, "{ran:?}");
        ran.stderr
    };
    assert!(wrong(&[DESCRIPTORS]).contains("needs a client that may charge"));
    let of = |charges: &str, advice: &str| {
        let envoy = format!(
            "serve.envoy={{ listen = \"127.0.0.1:0\", descriptors = [{{ entries = {{ a = \"b\" }}, {charges} }}] }}"
        );
        let said = wrong(&[CLIENT, &envoy]);
        assert!(said.contains(advice), "{said}");
    };
    of("credential = \"yutube\", call = \"videos.list\"", "youtube");
    of(
        "credential = \"youtube\", call = \"video.list\"",
        "videos.list",
    );
    of("credential = \"youtube\"", "set `call` or `cost`");
    of("credential = \"youtube\", cost = { hourly = 1 }", "daily");
}
