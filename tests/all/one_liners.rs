//! The lines of docs/usage.md that take the place of a feature work as they are written: DuckDB for Parquet, `curl` and
//! `OnFailure=` for notifications.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use assert_cmd::cargo::cargo_bin;
use serde_json::json;

use crate::support::world::{World, shipped};
use ingest_testing::not_run::not_run;
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};

const USAGE: &str = include_str!("../../docs/usage.md");

/// The block of the document that is marked so.
fn block(mark: &str) -> &'static str {
    let (_, rest) = USAGE.split_once(&format!("```{mark}\n")).unwrap();
    rest.split("```").next().unwrap().trim()
}

/// Writes a program, such as the `duckdb` that is installed for Python alone.
fn program(directory: &Path, name: &str, text: &str) {
    let path = directory.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs a line in a directory where `ingest` is the built program, over the world.
fn shell(world: &World, line: &str) -> Output {
    let here = world.directory.path();
    let sets = world.sets.iter().map(|set| format!(" --set '{set}'"));
    let sets: String = sets.collect();
    let ingest = cargo_bin!("ingest").display().to_string();
    let given = match line.contains("--sandbox") {
        true => String::new(),
        false => format!(" --config '{}'{sets}", shipped().display()),
    };
    program(
        here,
        "ingest",
        &format!("#!/bin/sh\nexec {ingest} \"$@\"{given}\n"),
    );
    let path = std::env::var("PATH").unwrap();
    Command::new("sh")
        .args(["-c", line])
        .current_dir(here)
        .env("PATH", format!("{}:{path}", here.display()))
        .env("HOME", here)
        .env("YOUTUBE_API_KEY", "any")
        .output()
        .unwrap()
}

#[test]
fn duckdb_makes_parquet_of_an_export() {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/readers/bin/python");
    if !python.exists() {
        not_run("no DuckDB to write Parquet with");
        return;
    }
    let world = World::new();
    let here = world.directory.path();
    let call = "import duckdb, sys\nresult = duckdb.sql(sys.argv[2])\nif result: print(*result.fetchone())";
    program(here, "run.py", call);
    let named = format!(
        "#!/bin/sh\nexec {} {}/run.py \"$@\"\n",
        python.display(),
        here.display()
    );
    program(here, "duckdb", &named);
    let ran = shell(&world, "ingest --region US,GB --sandbox");
    assert!(ran.status.success(), "{ran:?}");
    let written = shell(&world, block("duckdb"));
    assert!(written.status.success(), "{written:?}");
    let all = shell(&world, "ingest export --kind video --sandbox");
    let videos = String::from_utf8(all.stdout).unwrap().lines().count();
    let asked = "select count(*), count(title), sum(views) > 0, typeof(any_value(views)), typeof(any_value(last_seen)) from 'videos.parquet'";
    let read = shell(&world, &format!("duckdb -c \"{asked}\""));
    assert_eq!(
        String::from_utf8(read.stdout).unwrap().trim(),
        format!("{videos} {videos} True BIGINT TIMESTAMP WITH TIME ZONE")
    );
}

#[test]
fn curl_pings_a_service_with_the_exit_code_of_a_run_and_what_it_printed() {
    let service = StubUpstream::answering(vec![StubAnswer::text(200, "OK"); 3]);
    let line = block("ping").replace("https://hc-ping.com", &service.url());
    let world = World::new();
    let pinged = |world: &World| {
        let ran = shell(world, &line.replace("--region all", "--region US"));
        assert!(ran.status.success(), "{ran:?}");
        service.requests().pop().unwrap()
    };
    let complete = pinged(&world);
    assert_eq!((&*complete.path, &*complete.body), ("/UUID/0", &b""[..]));
    let failing = World::new();
    failing.faults(&json!({ "status": 500, "times": 100 }));
    let failed = pinged(&failing);
    assert_eq!(failed.path, "/UUID/1");
    let body = String::from_utf8(failed.body).unwrap();
    assert!(body.contains("500"), "{body}");
}

#[test]
fn systemd_takes_the_unit_that_a_failed_run_starts() {
    if Command::new("systemd-analyze")
        .arg("--version")
        .output()
        .is_err()
    {
        not_run("no systemd-analyze to look at the unit of a failed run with");
        return;
    }
    let units = tempfile::tempdir().unwrap();
    let at = |path: &str| units.path().join(path.rsplit_once("system/").unwrap().1);
    let mut path = None;
    for line in block("systemd").lines() {
        match line.strip_prefix("# ") {
            Some(named) => path = Some(at(named)),
            None => {
                let file = path.as_ref().unwrap();
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                let text = fs::read_to_string(file).unwrap_or_default();
                fs::write(file, format!("{text}{line}\n")).unwrap();
            }
        }
    }
    let failed = units.path().join("ingest-failed.service");
    let verified = Command::new("systemd-analyze")
        .args(["verify", "--man=no"])
        .arg(&failed)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&verified.stderr);
    assert!(
        verified.status.success() && said.trim().is_empty(),
        "{said}"
    );
    let drop_in = fs::read_to_string(units.path().join("ingest.service.d/failed.conf")).unwrap();
    assert_eq!(drop_in, "[Unit]\nOnFailure=ingest-failed.service\n");
}
