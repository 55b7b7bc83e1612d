//! Roles with few privileges: those of `deploy/postgres/roles.sql`, and one that may write the tables of another role.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

use super::connection::checked;
use crate::support::shared_world::SharedWorld;
use crate::support::world::{Ran, World};
use ingest_testing::postgres::{PostgresServer, as_its_user, program};
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};

const PASSWORD: &str = "hush-of-the-catalog";

/// A server whose database `ingest` was prepared by `deploy/postgres/roles.sql`, as its comment says.
fn prepared() -> PostgresServer {
    let server = PostgresServer::with(&[]);
    server.rows("create database ingest");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/postgres/roles.sql");
    let mut psql = as_its_user(program("psql"));
    psql.args(["-X", "-q", "-h", "127.0.0.1", "-p"])
        .arg(server.port().to_string())
        .args(["-U", "postgres", "-d", "ingest", "-v"])
        .arg(format!("password={PASSWORD}"))
        .stdin(fs::File::open(script).unwrap());
    let ran = Ran::of(psql.output().unwrap());
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran:?}");
    let rules =
        "host all postgres 127.0.0.1/32 trust\nhost ingest all 127.0.0.1/32 scram-sha-256\n";
    fs::write(server.data().join("pg_hba.conf"), rules).unwrap();
    server.rows("select pg_reload_conf()");
    server
}

fn url(server: &PostgresServer, role: &str) -> String {
    format!("postgres://{role}@127.0.0.1:{}/ingest", server.port())
}

fn ran(world: &World, (role_url, password): (&str, &str), arguments: &[&str]) -> Ran {
    let set = format!("catalog.url=\"{role_url}\"");
    let arguments = [arguments, &["--set", &set]].concat();
    let mut command = world.command(&arguments);
    Ran::of(command.env("PGPASSWORD", password).output().unwrap())
}

/// What psql says to this role.
fn as_role(url: &str, password: &str, arguments: &[&str]) -> Ran {
    let mut psql = as_its_user(program("psql"));
    psql.args(["-XqAt", url]).args(arguments);
    Ran::of(psql.env("PGPASSWORD", password).output().unwrap())
}

#[test]
fn the_roles_that_are_delivered_run_and_read_a_catalog_and_can_do_nothing_else() {
    let (server, world) = (prepared(), World::new());
    let (writer, reader) = (url(&server, "ingest"), url(&server, "watcher"));
    let (good, said) = checked(&world, &writer, &[("PGPASSWORD", PASSWORD)]);
    assert!(good && said.contains("role ingest"), "{said}");
    let run = ran(&world, (&writer, PASSWORD), &["--region", "US"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{run:?}");
    let as_writer = |sql: &str| as_role(&writer, PASSWORD, &["-c", sql]);
    let merged = as_writer("select gin_clean_pending_list('ingest.record_text_words') >= 0");
    assert_eq!(merged.stdout, "t\n", "{merged:?}");
    for refused in [
        "create table public.mine (one int)",
        "create schema mine",
        "create role other",
        "select pg_read_file('PG_VERSION')",
    ] {
        let refused = as_writer(refused);
        assert!(refused.stderr.contains("permission denied"), "{refused:?}");
    }

    server.rows(&format!(
        "create role watcher login password '{PASSWORD}-2' in role ingest_reader"
    ));
    let watcher = format!("{PASSWORD}-2");
    let as_watcher = |sql: &str| as_role(&reader, &watcher, &["-c", sql]);
    let count = as_watcher("select count(*) > 0 from youtube_video; show statement_timeout");
    assert_eq!(count.stdout, "t\n1min\n", "{count:?}");
    for arguments in [
        &["status"][..],
        &["history"],
        &["search", "the"],
        &["export", "--kind", "video"],
        &["--region", "US", "--dry-run"],
    ] {
        let read = ran(&world, (&reader, &watcher), arguments);
        assert_eq!(
            (read.code, read.stderr.as_str()),
            (0, ""),
            "{arguments:?}: {read:?}"
        );
    }
    let export = ran(&world, (&reader, &watcher), &["export", "--kind", "video"]);
    assert!(export.stdout.lines().count() > 0, "{export:?}");
    let write = ran(&world, (&reader, &watcher), &["--region", "GB"]);
    assert_eq!(write.code, 1, "{write:?}");
    assert!(
        format!("{write:?}").contains("permission denied"),
        "{write:?}"
    );
}

/// As docs/postgres.md has it, by its own commands.
#[test]
fn a_catalog_of_the_delivered_roles_is_backed_up_and_restored() {
    let (server, world) = (prepared(), World::new());
    let writer = url(&server, "ingest");
    let ingest = |arguments: &[&str]| ran(&world, (&writer, PASSWORD), arguments);
    assert_eq!(ingest(&["--region", "US"]).code, 0);
    let export = ["export", "--kind", "video"];
    let before = ingest(&export).stdout;
    let manual = include_str!("../../../docs/postgres.md");
    let manual = manual.split("## Backup and restore").nth(1).unwrap();
    let file = world.directory.path().join("catalog.sql");
    let shell = |begins: &str, admin: &str| {
        let line = manual.lines().find(|line| line.starts_with(begins));
        let line = line
            .unwrap()
            .replace("/var/backups/catalog.sql", file.to_str().unwrap());
        let mut command = Command::new("sh");
        command.args(["-c", &line]).env("PGPASSWORD", PASSWORD);
        let programs = program("psql").parent().unwrap().display().to_string();
        let path = format!("{programs}:{}", std::env::var("PATH").unwrap());
        let command = command.env("PATH", path).env("URL", &writer);
        Ran::of(command.env("ADMIN", admin).output().unwrap())
    };
    assert_eq!(shell("pg_dump ", "").code, 0);
    assert_eq!(ingest(&["--region", "GB"]).code, 0);
    let later = ingest(&export).stdout;
    assert_ne!(later, before);
    let refused = shell("psql ", &writer);
    assert_eq!(refused.code, 3, "{refused:?}");
    assert_eq!(ingest(&export).stdout, later);
    let restored = shell("psql ", &url(&server, "postgres"));
    assert_eq!(restored.code, 0, "{restored:?}");
    let repaired = ingest(&["repair"]);
    assert_eq!(repaired.code, 0, "{repaired:?}");
    assert_eq!(ingest(&export).stdout, before);
    assert_eq!(ingest(&["--region", "GB"]).code, 0);
}

/// As where an administrator owns the tables. Merging words into an index is its owner's.
#[test]
fn a_role_that_does_not_own_the_tables_lands_pages_and_says_that_it_cannot_merge_words() {
    let server = PostgresServer::shared();
    let schema = server.schema();
    let word = |page: usize, row: usize, one: usize| format!("w{page}x{row}x{one}");
    // Three pages of 80,000 words each.
    let upstream = StubUpstream::start(move |request| {
        let page: usize = request
            .param("page")
            .map_or(0, |page| page.parse().unwrap());
        let text = |row: usize| {
            (0..4_000)
                .map(|one| word(page, row, one))
                .collect::<Vec<_>>()
                .join(" ")
        };
        let rows = (0..20).map(|row| json!({ "id": format!("{page}-{row}"), "text": text(row) }));
        let rows: Vec<Value> = rows.collect();
        // The last answer leaves time for what the first ones began.
        sleep(Duration::from_millis(if page == 4 { 600 } else { 0 }));
        let next = (page < 4).then(|| (page + 1).to_string());
        StubAnswer::json(&json!({ "data": rows, "next": next }))
    });
    let text = "regions = [\"A\", \"B\"]\n\
        [upstreams.rows]\nbase_url = \"https://rows.example.com\"\npause = \"1ms\"\n\
        [upstreams.rows.calls.list]\npath = \"list\"\ncost = 1\n\
        page = { kind = \"token\", param = \"page\", next = \"/next\" }\n\
        records = { at = \"/data\", kind = \"row\", id = \"/id\", text = [\"/text\"] }\n\
        [credentials.rows]\nupstream = \"rows\"\nlimits = { daily = { quota = 10_000, window = \"24h\" } }\n\
        [jobs.rows]\ncredential = \"rows\"\nevery = \"1h\"\nsteps = [{ call = \"list\", params = { region = \"{region}\" } }]\n";
    let mut world = World::upon(&upstream, text);
    schema.in_world(&mut world);
    assert_eq!(world.ingest(&["charge", "rows", "list"]).code, 0);
    let (name, role) = (&schema.name, format!("worker_of_{}", schema.name));
    for sql in [
        format!("create role {role} login"),
        format!("grant usage on schema {name} to {role}"),
        format!("grant select, insert, update, delete on all tables in schema {name} to {role}"),
        format!("grant usage, update on all sequences in schema {name} to {role}"),
    ] {
        server.rows(&sql);
    }
    world.set(&format!(
        "catalog.url=\"postgres://{role}@127.0.0.1:{}/postgres\"",
        server.port()
    ));
    let run = world.ingest(&["--region", "A"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(schema.count("select count(*) from record_text"), 100);
    let warned = run
        .stderr
        .matches("must be owner of index record_text_words")
        .count();
    assert_eq!(warned, 1, "{}", run.stderr);
    assert!(
        run.stderr
            .contains("a member of the role that owns the schema"),
        "{}",
        run.stderr
    );
    let found = world.ingest(&["search", "w3x7x3999"]);
    assert!(found.stdout.contains("3-7"), "{found:?}");
}
