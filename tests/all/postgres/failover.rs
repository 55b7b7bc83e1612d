//! What a server that crashed or took over from another one no longer has.

use std::io::{Read, Write, copy};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;

use super::machines::{Machines, PAGES, ROWS, complete, ended, outcome, signal};
use crate::support::world::FAKETIME;
use ingest_testing::not_run::not_run;
use ingest_testing::postgres::{PostgresServer, Schema};
use ingest_testing::redis_server::wait_until;

#[test]
fn a_page_that_a_failover_lost_is_requested_again_before_its_region_is_complete() {
    let mut server = PostgresServer::with(&[]);
    let schema = server.schema();
    let delay = Duration::from_millis(700);
    let machines = Machines::new(&schema, &["A"], delay, &["catalog.lease=1h"]);
    let run = machines.start(0);
    machines.wait_for_requests(2);
    let standby = server.copy();
    machines.wait_for_requests(3);
    server.fail_over(standby);
    let run = ended(run);
    let (how, why) = outcome(&run, "A");
    assert_eq!(how, "failed", "{run:?}");
    assert!(why.contains("lost pages in a failover"), "{why}");
    let next = machines.run(0);
    assert_eq!(outcome(&next, "A").0, "complete", "{next:?}");
    let listed = "select count(distinct id) from listing where step = 0";
    assert_eq!(schema.count(listed), (PAGES * ROWS) as i64);
    let times = machines.times();
    let again: Vec<_> = times.iter().filter(|(_, times)| **times > 1).collect();
    assert_eq!(again.len(), 2, "the second and the third page: {times:?}");
    machines.assert_counted();
    assert_eq!(complete(&schema), 1);
}

#[test]
fn a_page_whose_pass_a_failover_lost_brings_its_records_and_stops_no_later_run() {
    let mut server = PostgresServer::with(&[]);
    let schema = server.schema();
    let delay = Duration::from_millis(700);
    let machines = Machines::new(&schema, &["A"], delay, &["catalog.lease=1h"]);
    assert_eq!(machines.ask(0, &["charge", "rows", "list"]).code, 0);
    let standby = server.copy();
    let run = machines.start(0);
    machines.wait_for_requests(2);
    server.fail_over(standby);
    let run = ended(run);
    assert_eq!(outcome(&run, "A").0, "failed", "{run:?}");
    assert!(!machines.state(0).join("unlanded.jsonl").exists());
    assert_eq!(schema.count("select count(*) from record"), ROWS as i64);
    let next = machines.run(0);
    assert_eq!(outcome(&next, "A").0, "complete", "{next:?}");
    assert_eq!(complete(&schema), 1);
}

/// Ends a run whose second page the database did not take, and its lease. Returns the file that keeps the page.
fn keep_a_page(server: &PostgresServer, schema: &Schema, machines: &Machines) -> PathBuf {
    let run = machines.start(0);
    machines.wait_for_requests(2);
    server.hang();
    std::thread::sleep(Duration::from_millis(500));
    signal(&run, Signal::TERM);
    let kept = machines.state(0).join("unlanded.jsonl");
    wait_until("the page is kept", || kept.exists());
    // What the run writes last, it can write.
    server.resume();
    ended(run);
    schema.rows("update lease set expires_at = now()");
    kept
}

#[test]
fn a_run_of_many_regions_reports_when_a_signal_ends_it_while_the_database_hangs() {
    let server = PostgresServer::with(&[]);
    let schema = server.schema();
    let regions = ["A", "B", "C", "D", "E", "F", "G", "H"];
    let delay = Duration::from_millis(300);
    let machines = Machines::new(&schema, &regions, delay, &["catalog.connections=1"]);
    let run = machines.start(0);
    machines.wait_for_requests(10);
    server.hang();
    std::thread::sleep(Duration::from_millis(500));
    signal(&run, Signal::TERM);
    let ran = ended(run);
    server.resume();
    assert_eq!(ran.json()["passes"].as_array().unwrap().len(), 8, "{ran:?}");
}

#[test]
fn the_requests_for_a_page_that_is_kept_are_counted_once() {
    let server = PostgresServer::with(&[]);
    let schema = server.schema();
    let delay = Duration::from_millis(300);
    let machines = Machines::new(&schema, &["A"], delay, &["catalog.lease=1h"]);
    keep_a_page(&server, &schema, &machines);
    let next = machines.run(0);
    assert_eq!(outcome(&next, "A").0, "complete", "{next:?}");
    assert_eq!(
        schema.count("select sum(requests)::bigint from pass"),
        machines.stub.requests().len() as i64
    );
    machines.assert_each_once(1);
}

/// A text that no compression makes fit for an index.
fn long_id() -> String {
    let mut number = 1_u64;
    let mut letter = || {
        number = number
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        char::from(b'a' + (number >> 33) as u8 % 26)
    };
    (0..3_000).map(|_| letter()).collect()
}

#[test]
fn a_kept_page_that_the_catalog_rejects_stays_in_its_file_and_one_that_was_cut_does_not() {
    let server = PostgresServer::with(&[]);
    let schema = server.schema();
    let delay = Duration::from_millis(300);
    let machines = Machines::new(&schema, &["A"], delay, &["catalog.lease=1h"]);
    let kept = keep_a_page(&server, &schema, &machines);
    let page = std::fs::read_to_string(&kept).unwrap();
    assert!(page.contains("A10"), "{page}");
    let page = page.replace("A10", &long_id());
    // The process ended within a character.
    let cut = b"{\"upstream\":\"\xc3";
    std::fs::write(&kept, [page.as_bytes(), cut].concat()).unwrap();
    let next = machines.run(0);
    assert_eq!(outcome(&next, "A").0, "complete", "{next:?}");
    assert!(next.stderr.contains("a page stays there"), "{next:?}");
    assert!(next.stderr.contains("a page was cut"), "{next:?}");
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), page.trim_start());
}

#[test]
fn a_run_that_stalls_between_its_charge_and_its_request_does_not_send_what_another_machine_walks() {
    let schema = PostgresServer::shared().schema();
    let delay = Duration::from_millis(300);
    let machines = Machines::new(&schema, &["A"], delay, &["catalog.lease=1s"]);
    let stalled = machines.start(0);
    machines.wait_for_requests(1);
    // The next charge waits for its answer, which arrives while the process is stopped.
    machines.redis.hang();
    std::thread::sleep(Duration::from_millis(600));
    signal(&stalled, Signal::STOP);
    // A signal stops a process some time after it was sent, on a busy machine.
    wait_until("all of its threads are stopped", || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", stalled.id())).unwrap();
        let mut tasks = tasks.map(|task| task.unwrap().path().join("stat"));
        tasks.all(|stat| std::fs::read_to_string(stat).unwrap().contains(") T "))
    });
    machines.redis.resume();
    machines.take_over();
    let sent = machines.stub.requests().len();
    signal(&stalled, Signal::CONT);
    let stalled = ended(stalled);
    assert_eq!(outcome(&stalled, "A").0, "failed", "{stalled:?}");
    assert_eq!(machines.stub.requests().len(), sent);
    machines.assert_each_once(1);
}

#[test]
fn a_run_that_cannot_ask_the_database_for_its_time_walks_nothing_by_its_own_clock() {
    let server = PostgresServer::shared();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!(
        "postgres://postgres@{}/postgres",
        listener.local_addr().unwrap()
    );
    let port = server.port();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let server = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let (asks, answers) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || pass_on_until_the_time_is_asked(asks, server));
            std::thread::spawn(move || copy(&mut &answers, &mut &client));
        }
    });
    let schema = server.schema();
    let machines = Machines::new(&schema, &["A"], Duration::ZERO, &[]);
    let url = format!("catalog.url=\"{url}\"");
    let arguments = ["--region", "all", "--format", "json", "--set", &url];
    let ran = machines.ask(0, &arguments);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert_eq!(machines.stub.requests().len(), 0, "{ran:?}");
    assert_eq!(outcome(&machines.run(0), "A").0, "complete");
}

/// Passes on what a client sends, and ends the connection where that asks for the time and nothing else.
fn pass_on_until_the_time_is_asked(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let asks = b"select clock_timestamp()\0";
        let sent = &buffer[..length];
        if sent.windows(asks.len()).any(|part| part == asks) || to.write_all(sent).is_err() {
            break;
        }
    }
    for end in [from, to] {
        let _ = end.shutdown(Shutdown::Both);
    }
}

#[test]
fn a_machine_whose_clock_is_an_hour_off_walks_no_region_again_and_charges_the_shared_ledger() {
    if !Path::new(FAKETIME).exists() {
        not_run("libfaketime is not installed: machines with a wrong clock are not checked");
        return;
    }
    for by in ["+1h", "-1h"] {
        let schema = PostgresServer::shared().schema();
        let machines = Machines::new(&schema, &["A", "B"], Duration::ZERO, &[]);
        let off = |region: &str| {
            let mut command = machines.command(0, &["--region", region, "--format", "json"]);
            command
                .env("LD_PRELOAD", FAKETIME)
                .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
                .env("FAKETIME", by);
            ended(command.spawn().unwrap())
        };
        let first = off("A");
        assert_eq!(outcome(&first, "A").0, "complete", "{first:?}");
        assert!(
            first.stderr.contains("this machine's clock is 1h"),
            "{first:?}"
        );
        let second = machines.run(1);
        assert_eq!(outcome(&second, "A").0, "not_due", "{by}: {second:?}");
        assert_eq!(outcome(&second, "B").0, "complete", "{by}: {second:?}");
        let third = off("all");
        assert_eq!(third.json()["outcome"], "nothing_due", "{by}: {third:?}");
        machines.assert_each_once(2);
    }
}
