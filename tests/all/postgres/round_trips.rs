//! How often a run waits for the database: counted between the two, so that the result depends on no clock.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::support::shared_world::SharedWorld;
use crate::support::world::World;
use ingest_testing::postgres::PostgresServer;

const FEW: usize = 2;
const MANY: usize = 12;
/// The most for each page of a region that has one page.
const MOST: usize = 10;
const TRIES: usize = 5;
/// How long an answer is held back: what is sent together must not look as if it waited.
const HELD: Duration = Duration::from_millis(4);

/// A way to a server that counts what is sent behind an answer.
struct Counting {
    port: u16,
    trips: Arc<AtomicUsize>,
}

impl Counting {
    fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = listener.local_addr().unwrap().port();
        let trips = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&trips);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let server = TcpStream::connect(("127.0.0.1", port)).unwrap();
                let (asks, answers) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let is_answered = Arc::new(AtomicBool::new(true));
                let (answered, counted) = (Arc::clone(&is_answered), Arc::clone(&counted));
                thread::spawn(move || {
                    pass_on(asks, server, || {
                        let is_next = is_answered.swap(false, Ordering::SeqCst);
                        counted.fetch_add(usize::from(is_next), Ordering::SeqCst);
                    });
                });
                thread::spawn(move || {
                    pass_on(answers, client, || {
                        thread::sleep(HELD);
                        answered.store(true, Ordering::SeqCst);
                    });
                });
            }
        });
        Self { port: own, trips }
    }
}

/// Passes bytes on, each time after a call.
fn pass_on(mut from: TcpStream, mut to: TcpStream, before: impl Fn()) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        before();
        if to.write_all(&buffer[..length]).is_err() {
            return;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Write);
}

/// Returns the round trips of a first run over `regions` regions of one page, and of a second one.
fn round_trips(regions: usize) -> [usize; 2] {
    let codes: Vec<String> = (0..regions).map(|at| format!("\"r{at}\"")).collect();
    let text = format!(
        r#"
regions = [{}]
[upstreams.shop]
base_url = "https://shop.example.com"
[upstreams.shop.calls.orders]
path = "orders/{{region}}"
cost = 1
records = {{ at = "/items", kind = "order", id = ["{{region}}", "/id"], text = ["/name"] }}
[credentials.shop]
upstream = "shop"
limits = {{ daily = {{ quota = 1000000, window = "24h" }} }}
[jobs.orders]
credential = "shop"
steps = [{{ call = "orders" }}]
"#,
        codes.join(", ")
    );
    let mut world = World::written(&text, &[]);
    PostgresServer::shared().schema().in_world(&mut world);
    assert_eq!(world.ingest(&["status"]).code, 0);
    let link = Counting::to(PostgresServer::shared().port());
    world.set(&format!(
        "catalog.url=\"postgres://postgres@127.0.0.1:{}/postgres\"",
        link.port
    ));
    ["first", "second"].map(|run| {
        let before = link.trips.load(Ordering::SeqCst);
        let ran = world.ingest(&["--region", "all", "--concurrency", "1"]);
        assert_eq!(ran.code, 0, "the {run} run: {ran:?}");
        link.trips.load(Ordering::SeqCst) - before
    })
}

/// The round trips that so many regions more take, in a first run and in a second one.
fn more_round_trips() -> [usize; 2] {
    let [few, many] = [FEW, MANY].map(round_trips);
    [0, 1].map(|run| many[run].saturating_sub(few[run]))
}

#[test]
fn a_region_of_one_page_takes_at_most_ten_round_trips_to_the_database() {
    let is_within = |more: &[usize; 2]| more.iter().all(|more| *more <= MOST * (MANY - FEW));
    // On a busy machine what is sent together can arrive apart, which only adds to the count.
    let mut tries = Vec::new();
    while tries.len() < TRIES && !tries.iter().any(is_within) {
        tries.push(more_round_trips());
    }
    assert!(
        tries.iter().any(is_within),
        "{tries:?} for {} regions more",
        MANY - FEW
    );
}

#[test]
fn a_server_that_isolates_transactions_strictly_by_default_serves_runs_as_well() {
    for level in ["repeatable read", "serializable"] {
        let setting = format!("default_transaction_isolation={level}");
        let server = PostgresServer::local(&[&setting]);
        let schema = server.schema();
        let world = schema.world(&["regions=[\"US\", \"GB\"]", "jobs.trending.every=1ms"]);
        for _ in 0..2 {
            let ran = world.json(&["--region", "all", "--job", "trending"]);
            assert_eq!(ran["outcome"], "complete", "{level}: {ran}");
        }
    }
}
