use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use ingest_catalog::Postgres;
use ingest_config::PostgresUrl;
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::support::world::{Ran, World};
use ingest_testing::postgres::{PostgresServer, connections};
use ingest_testing::redis_server::free_port;

const PASSWORD: &str = "pa:ss\\w/0rd-hush";

/// What `check --connect` says of the catalog at a URL.
pub(super) fn checked(world: &World, url: &str, variables: &[(&str, &str)]) -> (bool, String) {
    let set = format!("catalog.url=\"{url}\"");
    let mut command = world.command(&["check", "--connect", "--format", "json", "--set", &set]);
    command.envs(variables.iter().copied());
    let ran = Ran::of(command.output().unwrap());
    assert!(
        !ran.stdout.contains("hush") && !ran.stderr.contains("hush"),
        "{ran:?}"
    );
    let answer: Value = ran.json();
    let about = |finding: &&Value| {
        finding["what"]
            .as_str()
            .unwrap()
            .starts_with("the catalog (")
    };
    let findings = answer["findings"]
        .as_array()
        .unwrap_or_else(|| panic!("{answer}"));
    let found = findings.iter().rfind(about);
    let found = found.unwrap_or_else(|| panic!("{answer:#}"));
    (
        found["verdict"] == "good",
        found["detail"].as_str().unwrap().to_owned(),
    )
}

/// A server that wants a password of the role `keeper`.
fn locked() -> PostgresServer {
    let server = PostgresServer::with(&[]);
    let password = PASSWORD.replace('\'', "''");
    server.rows(&format!("create role keeper login password '{password}'"));
    server.rows("grant create on database postgres to keeper");
    let rules = "host all keeper 127.0.0.1/32 scram-sha-256\nlocal all keeper scram-sha-256\nhost all all 127.0.0.1/32 trust\n";
    fs::write(server.data().join("pg_hba.conf"), rules).unwrap();
    server.rows("select pg_reload_conf()");
    server
}

#[test]
fn the_password_comes_from_the_configuration_the_url_the_environment_or_a_password_file() {
    let (server, world) = (locked(), World::new());
    let at = format!("127.0.0.1:{}/postgres", server.port());
    let url = format!("postgres://keeper@{at}");
    let good = |url: &str, variables: &[(&str, &str)]| {
        let (good, said) = checked(&world, url, variables);
        assert!(
            good && said.contains("role keeper"),
            "{url} {variables:?}: {said}"
        );
    };
    let bad = |url: &str, variables: &[(&str, &str)], why: &str| {
        let (good, said) = checked(&world, url, variables);
        assert!(!good && said.contains(why), "{url} {variables:?}: {said}");
    };
    bad(
        &url,
        &[],
        "set catalog.password, $PGPASSWORD or a password file",
    );
    bad(
        &url,
        &[("PGPASSWORD", "hush-wrong")],
        "password authentication failed",
    );
    good(&url, &[("PGPASSWORD", PASSWORD)]);
    good(
        &format!("postgres://keeper:pa%3Ass%5Cw%2F0rd-hush@{at}"),
        &[],
    );
    good(
        &format!("postgres://{at}"),
        &[("PGUSER", "keeper"), ("PGPASSWORD", PASSWORD)],
    );

    let file = world.directory.path().join("pgpass");
    let port = server.port();
    let escaped = PASSWORD.replace('\\', "\\\\").replace(':', "\\:");
    let lines = format!(
        "# hush\nelsewhere:*:*:*:hush-1\n127.0.0.1:1:*:*:hush-2\n*:{port}:postgres:keeper:{escaped}\n*:*:*:*:hush-3\n"
    );
    fs::write(&file, lines).unwrap();
    let named = [("PGPASSFILE", file.to_str().unwrap())];
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    bad(&url, &named, "password");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    good(&url, &named);
    fs::rename(&file, world.directory.path().join(".pgpass")).unwrap();
    good(&url, &[("HOME", world.directory.path().to_str().unwrap())]);

    let secret = world.directory.path().join("catalog");
    fs::write(&secret, PASSWORD).unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let directory = world.directory.path().to_str().unwrap();
    for source in [
        "{ env = \"DB_PASSWORD\" }".to_owned(),
        format!("{{ file = \"{}\" }}", secret.display()),
        "{ credential = \"catalog\" }".to_owned(),
        format!("{{ command = [\"cat\", \"{}\"] }}", secret.display()),
    ] {
        let mut world = World::new();
        world.set(&format!("catalog.password={source}"));
        let variables = [
            ("DB_PASSWORD", PASSWORD),
            ("CREDENTIALS_DIRECTORY", directory),
            ("PATH", "/usr/bin:/bin"),
            ("PGPASSWORD", "hush-ignored"),
        ];
        let (good, said) = checked(&world, &url, &variables);
        assert!(good, "{source}: {said}");
    }
}

#[test]
fn a_server_is_found_by_its_socket_and_behind_hosts_that_do_not_answer() {
    let (server, world) = (PostgresServer::shared(), World::new());
    let (port, socket) = (server.port(), server.socket().display());
    let deaf = TcpListener::bind("127.0.0.1:0").unwrap();
    let deaf = deaf.local_addr().unwrap();
    let nobody = free_port();
    for url in [
        format!("postgres://postgres@/postgres?host={socket}&port={port}"),
        format!(
            "postgres://postgres@127.0.0.1:{nobody},{deaf},127.0.0.1:{port}/postgres?connect_timeout=1"
        ),
        format!("postgresql://postgres@localhost:{port}/postgres?application_name=me"),
    ] {
        let (good, said) = checked(&world, &url, &[]);
        assert!(good && said.contains("PostgreSQL "), "{url}: {said}");
    }
    let (good, said) = checked(
        &world,
        &format!("postgres://postgres@127.0.0.1:{nobody}/x"),
        &[],
    );
    assert!(
        !good && said.contains(&format!("127.0.0.1:{nobody}: ")),
        "{said}"
    );
    let (good, said) = checked(
        &world,
        &format!("postgres://postgres@127.0.0.1:{port}/missing"),
        &[],
    );
    assert!(
        !good && said.contains("database \"missing\" does not exist"),
        "{said}"
    );
}

#[test]
fn a_server_that_takes_no_writes_is_passed_over() {
    let (standby, world) = (
        PostgresServer::with(&["default_transaction_read_only=on"]),
        World::new(),
    );
    let shared = PostgresServer::shared();
    let both = format!(
        "postgres://postgres@127.0.0.1:{},127.0.0.1:{}/postgres",
        standby.port(),
        shared.port()
    );
    let (good, said) = checked(&world, &both, &[]);
    assert!(good, "{said}");
    let (good, said) = checked(&world, &standby.url(), &[]);
    assert!(!good && said.contains("does not allow writes"), "{said}");
}

#[test]
fn a_statement_that_is_given_up_ends_on_the_server_too() {
    let server = PostgresServer::shared();
    let url = PostgresUrl::parse(&server.url()).unwrap();
    Runtime::new().unwrap().block_on(async {
        let postgres = Postgres::new(&url, None, "none", connections());
        let begun = Instant::now();
        let sql = "select pg_sleep(3600), 'given up'";
        let patience = Duration::from_millis(300);
        let silent = postgres.autocommit(sql, &[], patience).await.unwrap_err();
        assert!(
            silent.to_string().contains("no answer within 300ms"),
            "{silent}"
        );
        assert!(begun.elapsed() < Duration::from_secs(30));
        let running = "select count(*) from pg_stat_activity
            where query like 'select pg_sleep(3600)%' and state = 'active'";
        while postgres.query(running, &[]).await.unwrap()[0].get::<_, i64>(0) > 0 {
            assert!(begun.elapsed() < Duration::from_secs(60), "it still runs");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
}

#[test]
fn a_server_that_hangs_is_given_up_in_time() {
    let server = PostgresServer::with(&[]);
    let world = World::new();
    let url = format!("{}?connect_timeout=1", server.url());
    assert!(checked(&world, &url, &[]).0);
    server.hang();
    let (good, said) = checked(&world, &url, &[]);
    server.resume();
    assert!(!good && said.contains("no answer within 1s"), "{said}");
}
