use serde_json::Value;

use crate::support::world::World;

fn finding<'a>(answer: &'a Value, what: &str) -> &'a Value {
    let findings = answer["findings"].as_array().unwrap();
    let found = findings
        .iter()
        .find(|finding| finding["what"].as_str().unwrap().contains(what));
    found.unwrap_or_else(|| panic!("nothing about {what} in {answer:#}"))
}

#[test]
fn a_host_that_speaks_no_tls_is_told() {
    let mut world = World::new();
    let address = world.sandbox_address();
    world.set(&format!("upstreams.youtube.base_url=https://{address}"));
    let answer = world.json(&["check", "--connect"]);
    let detail = finding(&answer, "upstream youtube")["detail"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(detail.contains("the TLS handshake failed"), "{detail}");
}

#[test]
fn a_check_writes_nothing() {
    let world = World::new();
    for arguments in [&["check"][..], &["check", "--connect"]] {
        assert_eq!(world.ingest(arguments).code, 0, "{arguments:?}");
        let left = std::fs::read_dir(world.directory.path()).unwrap().count();
        assert_eq!(left, 0, "{arguments:?} made something");
    }
    assert_eq!(
        world
            .ingest(&["charge", "youtube", "videos.list", "-q"])
            .code,
        0
    );
    let ledger = world.state_dir().join("ledger.db");
    let (before, written) = (
        std::fs::read(&ledger).unwrap(),
        ledger.metadata().unwrap().modified().unwrap(),
    );
    let names = || super::files::everything_below(&world.state_dir());
    let names_before = names();
    for arguments in [&["check"][..], &["check", "--connect"]] {
        assert_eq!(world.ingest(arguments).code, 0, "{arguments:?}");
    }
    assert_eq!(names(), names_before);
    assert!(before == std::fs::read(&ledger).unwrap());
    assert_eq!(written, ledger.metadata().unwrap().modified().unwrap());
}

#[test]
fn a_server_that_would_not_start_is_no_good_one() {
    let checked = |sets: &[&str]| {
        let world = World::configured(sets, |_| {});
        let served = world
            .command(&["serve"])
            .env("ONE", "x")
            .env("TWO", "0123456789abcdef")
            .output()
            .unwrap();
        assert!(!served.status.success(), "{sets:?}");
        let mut command = world.command(&["check", "--format", "json"]);
        let output = command
            .env("ONE", "x")
            .env("TWO", "0123456789abcdef")
            .output()
            .unwrap();
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let short = checked(&["serve.clients.one={ token = { env = \"ONE\" }, may = [\"charge\"] }"]);
    let found = finding(&short, "serve.clients.one");
    assert_eq!(found["verdict"], "bad", "{found}");
    assert!(
        found["detail"].to_string().contains("16 characters"),
        "{found}"
    );
    let elsewhere = checked(&[
        "serve.listen=203.0.113.7:8080",
        "serve.clients.two={ token = { env = \"TWO\" } }",
    ]);
    assert_eq!(
        finding(&elsewhere, "serve.listen")["verdict"],
        "bad",
        "{elsewhere:#}"
    );
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = format!("serve.listen={}", taken.local_addr().unwrap());
    assert_eq!(
        finding(&checked(&[&listen]), "serve.listen")["verdict"],
        "warning"
    );
}
