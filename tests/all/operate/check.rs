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
