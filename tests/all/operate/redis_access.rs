//! How a ledger in Redis is reached: passwords of the Redis and of its Sentinels, certificates, and what the messages say.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::Value;

use crate::support::world::World;
use ingest_testing::redis_server::RedisServer;

const PASSWORD: &str = "open-sesame";
const OF_SENTINEL: &str = "swordfish";

fn world(url: &str, sets: &[&str]) -> World {
    let mut world = World::new();
    world.set(&format!("ledger.url=\"{url}\""));
    world.set("ledger.timeout=2s");
    for set in sets {
        world.set(set);
    }
    world
}

fn charge(world: &World) -> Value {
    world.json(&["charge", "youtube", "videos.list"])
}

/// What a charge says that goes ahead without the ledger, which it logs once.
fn outage(world: &World) -> String {
    let ran = world.ingest(&["charge", "youtube", "videos.list"]);
    assert!(ran.stdout.contains("Unmetered"), "{ran:?}");
    ran.stderr
}

/// A file in the world's directory.
fn written(world: &World, name: &str, text: &str) -> PathBuf {
    let path = world.directory.path().join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}

#[test]
fn the_password_can_be_in_every_place_that_a_secret_can_be_in() {
    let server = RedisServer::with(&["--requirepass", PASSWORD]);
    let url = format!("redis://default@127.0.0.1:{}", server.port());
    let mut places = vec![
        "{ env = \"REDIS_PASSWORD\" }".to_owned(),
        "{ credential = \"redis.key\" }".to_owned(),
        format!("{{ command = [\"echo\", \"{PASSWORD}\"] }}"),
    ];
    let files = World::new();
    let file = written(&files, "redis.key", &format!("{PASSWORD}\n"));
    places.push(format!("{{ file = \"{}\" }}", file.display()));
    for place in places {
        let world = world(&url, &[&format!("ledger.password={place}")]);
        let mut command = world.command(&["charge", "youtube", "videos.list", "--format", "json"]);
        command
            .env("REDIS_PASSWORD", PASSWORD)
            .env("CREDENTIALS_DIRECTORY", files.directory.path())
            .env("PATH", std::env::var_os("PATH").unwrap());
        let output = command.output().unwrap();
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(answer["decision"], "granted", "{place}: {output:?}");
    }
}

#[test]
fn sentinels_have_a_password_of_their_own_and_messages_name_the_one_that_is_wrong() {
    let primary = RedisServer::with(&["--requirepass", PASSWORD]);
    let sentinel = RedisServer::sentinel_with(
        &primary,
        &format!("sentinel auth-pass ledger {PASSWORD}\nrequirepass {OF_SENTINEL}"),
    );
    let url = format!(
        "redis+sentinel://127.0.0.1:1,127.0.0.1:{}/ledger",
        sentinel.port()
    );
    let password = |name: &str, text: &str| {
        format!("ledger.{name}={{ command = [\"/bin/echo\", \"{text}\"] }}")
    };
    let right = password("password", PASSWORD);
    let of_sentinel = password("sentinel_password", OF_SENTINEL);

    assert_eq!(
        charge(&world(&url, &[&right, &of_sentinel]))["decision"],
        "granted"
    );
    for (sets, expected) in [
        (
            vec![right.clone()],
            "the Sentinel requires a password; set ledger.sentinel_password",
        ),
        (
            vec![right.clone(), password("sentinel_password", "wrong-one")],
            "the Sentinel rejected the password; correct ledger.sentinel_password",
        ),
        (
            vec![of_sentinel.clone(), password("password", "wrong-one")],
            "Redis rejected the user or the password; correct ledger.url or ledger.password",
        ),
        (
            vec![of_sentinel.clone()],
            "Redis requires a password; set ledger.password",
        ),
    ] {
        let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
        let why = outage(&world(&url, &sets));
        assert!(why.contains(expected), "{why}");
        assert!(
            !why.contains("wrong-one") && !why.contains(OF_SENTINEL),
            "{why}"
        );
    }
    let unknown = url.replace("/ledger", "/other");
    let why = outage(&world(&unknown, &[&right, &of_sentinel]));
    assert!(
        why.contains("the Sentinels do not monitor a service `other`"),
        "{why}"
    );
}

/// A certificate of its own for `localhost`, which the server trusts in clients too.
fn certificate(world: &World) -> (PathBuf, PathBuf) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    (
        written(world, "redis.crt", &made.cert.pem()),
        written(world, "redis.key", &made.signing_key.serialize_pem()),
    )
}

#[test]
fn a_redis_that_requires_a_certificate_of_its_clients_gets_the_configured_one() {
    let files = World::new();
    let (cert, key) = certificate(&files);
    let (_server, port) = RedisServer::with_tls_clients(&cert, &key, "yes");
    let url = format!("rediss://localhost:{port}");
    let (cert, key) = (cert.display(), key.display());
    let both = format!("ledger.tls={{ ca = \"{cert}\", cert = \"{cert}\", key = \"{key}\" }}");
    assert_eq!(charge(&world(&url, &[&both]))["decision"], "granted");
    let ca = format!("ledger.tls={{ ca = \"{cert}\" }}");
    // By which of the two the server's refusal is noticed depends on the moment.
    for _ in 0..4 {
        let why = outage(&world(&url, &[&ca]));
        assert!(why.contains("set or correct ledger.tls.cert"), "{why}");
    }
    let no_ca = format!("ledger.tls={{ ca = \"{key}\" }}");
    let why = outage(&world(&url, &[&no_ca]));
    assert!(why.contains("redis.key contains no certificate"), "{why}");
    let missing = world(&url, &["ledger.tls={ ca = \"/nonexistent/ca.crt\" }"]);
    let checked = missing.ingest(&["check"]);
    assert!(
        checked
            .stdout
            .contains("ledger.tls.ca: cannot read /nonexistent/ca.crt: "),
        "{checked:?}"
    );
}

#[test]
fn a_certificate_of_an_unknown_issuer_is_reported_with_the_key_that_names_one() {
    let files = World::new();
    let (cert, key) = certificate(&files);
    let (_server, port) = RedisServer::with_tls(&cert, &key);
    let url = format!("rediss://localhost:{port}");
    let why = outage(&world(&url, &[]));
    assert!(why.contains("issuer of the server's certificate"), "{why}");
    assert!(why.contains("ledger.tls.ca"), "{why}");
    let checked = world(&url, &[]).ingest(&["check", "--connect"]);
    assert_eq!(checked.code, 1, "{checked:?}");
    assert!(checked.stdout.contains("ledger.tls.ca"), "{checked:?}");
}

/// What a check with a connection says of the ledger, one finding after another.
fn findings_of_ledger(server: &RedisServer) -> Vec<String> {
    let url = format!("redis://127.0.0.1:{}", server.port());
    findings_at(&url)
}

fn findings_at(url: &str) -> Vec<String> {
    let answer = world(url, &[]).json(&["check", "--connect"]);
    let findings = answer["findings"].as_array().unwrap().iter();
    let of_ledger =
        findings.filter(|one| one["what"].as_str().unwrap().starts_with("the ledger ("));
    of_ledger
        .map(|one| one["detail"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_check_says_in_which_way_redis_runs_the_ledger_and_why() {
    let functions = RedisServer::with(&["--appendonly", "yes"]);
    let found = findings_of_ledger(&functions);
    let way = ["answers", "runs the ledger as functions by FCALL"];
    assert_eq!(found, way);
    let scripts = RedisServer::with(&["--appendonly", "yes", "--rename-command", "FCALL", ""]);
    let found = findings_of_ledger(&scripts);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[1].contains("as a script by EVALSHA"), "{found:?}");
    assert!(found[1].contains("unknown command"), "{found:?}");
    let nodes = RedisServer::cluster();
    let url = format!("redis+cluster://127.0.0.1:{}", nodes[0].port());
    nodes
        .iter()
        .for_each(|node| node.tell("CONFIG SET appendonly yes"));
    assert_eq!(findings_at(&url), way);
    // What one of them lacks is said once.
    nodes[2].tell("CONFIG SET appendonly no");
    let found = findings_at(&url);
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[2].contains("appendonly is off"), "{found:?}");
}

#[test]
fn a_user_who_may_run_no_functions_charges_by_the_script() {
    let server = RedisServer::with(&["--appendonly", "yes"]);
    server.tell("ACL SETUSER teller on >open-sesame ~ingest:* +@all -fcall");
    let url = format!("redis://teller:{PASSWORD}@127.0.0.1:{}", server.port());
    assert_eq!(charge(&world(&url, &[]))["decision"], "granted");
    let checked = world(&url, &[]).ingest(&["check", "--connect"]);
    assert!(checked.stdout.contains("EVALSHA"), "{checked:?}");
    assert!(checked.stdout.contains("NOPERM"), "{checked:?}");
}

#[test]
fn a_plain_connection_to_a_port_that_expects_tls_is_told_to_use_it() {
    let files = World::new();
    let (cert, key) = certificate(&files);
    let (_server, port) = RedisServer::with_tls(&cert, &key);
    let why = outage(&world(&format!("redis://localhost:{port}"), &[]));
    assert!(
        why.contains("if the server expects TLS, write rediss://"),
        "{why}"
    );
    let why = outage(&world(
        &format!("redis+sentinel://localhost:{port}/main"),
        &[],
    ));
    assert!(
        why.contains("if the server expects TLS, append ?tls=true"),
        "{why}"
    );
    let why = outage(&world("redis://127.0.0.1:1", &[]));
    assert!(!why.contains("TLS"), "{why}");
}

#[test]
fn the_sandbox_needs_none_of_the_passwords() {
    let ledger = "[ledger]
        url = \"rediss://127.0.0.1:1\"
        tls = { ca = \"/nonexistent/ca.crt\" }
        password = { env = \"NOT_SET\" }";
    let shipped =
        include_str!("../../../quotas.toml").replace("[ledger]\nurl = \"sqlite\"", ledger);
    let world = World::written(&shipped, &[]);
    let ran = world.ingest(&["--region", "US", "--job", "trending", "--sandbox"]);
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn every_form_of_the_url_is_in_the_shipped_configuration_and_in_the_manual() {
    let shipped = include_str!("../../../quotas.toml");
    let commented = shipped
        .lines()
        .filter_map(|line| line.strip_prefix("#   url = \"")?.split('"').next());
    let urls: Vec<&str> = commented.collect();
    let manual = World::new().ingest(&["man"]).stdout;
    for scheme in ["redis", "rediss", "redis+sentinel", "redis+cluster", "unix"] {
        let url = urls
            .iter()
            .find(|url| url.starts_with(&format!("{scheme}://")));
        let url = url.unwrap_or_else(|| panic!("{scheme} is not in {urls:?}"));
        ingest_config::RedisUrl::parse(url).unwrap();
        assert!(manual.contains(&format!("{scheme}://")), "{scheme}");
    }
    for key in ["password", "sentinel_password", "tls"] {
        assert!(shipped.contains(&format!("#   {key} = {{ ")), "{key}");
        assert!(
            manual.replace('\\', "").contains(&format!("ledger.{key}")),
            "{key}"
        );
    }
}

#[test]
fn a_limit_that_another_machine_counts_by_another_quota_is_reported_until_it_is_charged() {
    let server = RedisServer::start();
    let url = format!("redis://127.0.0.1:{}", server.port());
    assert_eq!(charge(&world(&url, &[]))["decision"], "granted");
    let other = world(&url, &["credentials.youtube.limits.daily.quota=9000"]);
    let said = || other.ingest(&["charge", "youtube", "videos.list"]).stderr;
    let why = said();
    assert!(
        why.contains("another configuration of this limit was used before"),
        "{why}"
    );
    assert!(why.contains("10000 less 500 in 1day"), "{why}");
    assert!(!said().contains("another configuration"));
}
