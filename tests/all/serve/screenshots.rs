//! The pictures in docs/serve.md: the page at a fixed time, over data that are always the same.
//!
//! `INGEST_WRITE_DOCS=1 cargo test --test all -- serve::screenshots` takes them anew. It needs Chromium, faketime and pngquant.

use std::path::Path;
use std::process::Command;

use super::{Answer, Served, listening};
use crate::support::browser::Browser;
use crate::support::world::{World, through};

/// When the pictures are taken.
const NOW: &str = "2026-06-01 12:00:00";
/// The longest picture, in pixels.
const HIGHEST: u64 = 1100;

/// A command of the world at another time.
fn at(time: &str, command: &Command) -> Command {
    let mut faked = Command::new("faketime");
    faked.args(["-f", time]);
    let mut faked = through(faked, command);
    faked
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("TZ", "UTC")
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    faked
}

/// Runs the binary at a time, and returns its exit code.
fn run_at(world: &World, time: &str, arguments: &[&str]) -> Option<i32> {
    // The wrapper itself fails now and then, if another one has just ended.
    let ran = (0..5).map(|_| at(time, &world.command(arguments)).output().unwrap());
    let mut ran = ran.skip_while(|ran| String::from_utf8_lossy(&ran.stderr).contains("sem_open"));
    ran.next().unwrap().status.code()
}

/// A day of runs.
fn a_day() -> World {
    let world = World::configured(&["serve.query_timeout=60s"], |_| {});
    let practise = ["--sandbox", "--region", "all", "--job"];
    for hour in [3, 9, 15, 21] {
        let time = format!("2026-05-31 {hour:02}:20:00");
        assert_eq!(
            run_at(&world, &time, &[&practise[..], &["trending"]].concat()),
            Some(0)
        );
    }
    for (time, job) in [
        ("2026-05-31 16:00:00", "discover"),
        ("2026-06-01 04:30:00", "discover"),
        ("2026-06-01 11:20:00", "trending"),
    ] {
        assert_eq!(
            run_at(&world, time, &[&practise[..], &[job]].concat()),
            Some(0)
        );
    }
    let state = world.state_dir().join("sandbox");
    let away = [
        "--state-dir",
        state.to_str().unwrap(),
        "--set",
        "upstreams.youtube.base_url=\"http://127.0.0.1:9/\"",
        "--set",
        "upstreams.youtube.attempts=1",
    ];
    let failed = run_at(
        &world,
        "2026-06-01 11:50:00",
        &[
            &away[..],
            &[
                "--region",
                "DE,FR",
                "--job",
                "discover",
                "--set",
                "jobs.discover.every=1h",
            ],
        ]
        .concat(),
    );
    assert_ne!(failed, Some(0));
    world
}

#[test]
fn the_documentation_shows_the_page() {
    if std::env::var_os("INGEST_WRITE_DOCS").is_none() {
        return;
    }
    let browser = Browser::start().expect("Chromium");
    browser.devtools(
        "Emulation.setScrollbarsHidden",
        serde_json::json!({ "hidden": true }),
    );
    let world = a_day();
    let state = world.state_dir().join("sandbox");
    let serve = world.command(&[
        "--state-dir",
        state.to_str().unwrap(),
        "serve",
        "--format",
        "json",
        "--listen",
        "127.0.0.1:0",
    ]);
    let (child, said) = listening(at(NOW, &serve));
    let address = said["address"].as_str().unwrap().parse().unwrap();
    let served = Served {
        world,
        child,
        address,
    };
    let _: Answer = served.get("/healthz");
    for (name, path, width, scheme) in [
        ("overview", "/", 1000, "light"),
        ("overview-phone", "/", 360, "dark"),
        ("search", "/search?q=summer&kind=video", 1000, "light"),
        ("passes", "/history?job=discover&region=DE", 1000, "light"),
        (
            "plan",
            "/plan?region=US,DE&schedule=daily&days=2",
            1000,
            "light",
        ),
    ] {
        browser.colours(scheme);
        browser.screen(width, 400);
        browser.goto(&format!("http://{address}{path}"));
        let height = browser
            .script("return document.documentElement.scrollHeight")
            .as_u64()
            .unwrap();
        browser.screen(width, height.min(HIGHEST).try_into().unwrap());
        let shot = browser.screenshot(&format!("serve-{name}"));
        let target =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("docs/images/serve-{name}.png"));
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        let smaller = Command::new("pngquant")
            .args(["--force", "--strip", "--output"])
            .args([&target, &shot])
            .status();
        assert!(smaller.expect("pngquant").success());
        assert!(
            std::fs::metadata(&target).unwrap().len() < 100_000,
            "{name}"
        );
    }
}
