use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::support::world::{World, shipped};

fn finding<'a>(answer: &'a Value, what: &str) -> &'a Value {
    let findings = answer["findings"].as_array().unwrap();
    let found = findings
        .iter()
        .find(|finding| finding["what"].as_str().unwrap().contains(what));
    found.unwrap_or_else(|| panic!("nothing about {what} in {answer:#}"))
}

#[test]
fn a_check_alone_connects_to_nothing() {
    let world = World::new();
    let answer = world.json(&["check"]);
    assert_eq!(answer["verdict"], "good");
    assert!(
        answer["findings"]
            .as_array()
            .unwrap()
            .iter()
            .all(|finding| finding["what"] != "upstream youtube")
    );
    let mut away = World::new();
    away.set("upstreams.youtube.base_url=http://127.0.0.1:9");
    assert_eq!(away.ingest(&["check"]).code, 0);
    assert_eq!(away.ingest(&["check", "--connect"]).code, 1);
    assert_eq!(world.requests(), 0);
}

#[test]
fn a_check_that_connects_meters_nothing() {
    let world = World::new();
    let answer = world.json(&["check", "--connect"]);
    assert_eq!(finding(&answer, "upstream youtube")["verdict"], "good");
    assert_eq!((world.requests(), world.charged("daily")), (0, 0));
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
fn a_redis_that_is_not_there_is_told_when_asked_for() {
    let mut world = World::new();
    world.set("ledger.url=redis://127.0.0.1:9");
    assert_eq!(world.ingest(&["check"]).code, 0);
    let answer = world.json(&["check", "--connect"]);
    assert_eq!(finding(&answer, "the ledger (redis")["verdict"], "bad");
}

#[test]
fn a_password_in_a_configuration_that_everyone_can_read_is_warned_of() {
    let path = |world: &World| world.directory.path().join("written.toml");
    let text = fs::read_to_string(shipped()).unwrap();
    let port = ingest_testing::redis_server::free_port();
    let url = format!("url = \"redis://ingest:p%2Fw-0f-th3-l3dg3r@127.0.0.1:{port}\"");
    let with_password = text.replacen("url = \"sqlite\"", &url, 1);
    let cases = [
        (&with_password, 0o644, true),
        (&with_password, 0o640, false),
        (&text, 0o644, false),
    ];
    for (text, mode, warned) in cases {
        let world = World::written(text, &[]);
        fs::set_permissions(path(&world), fs::Permissions::from_mode(mode)).unwrap();
        let checked = world.ingest(&["check"]);
        let warning = format!("warning  permissions of {}", path(&world).display());
        assert_eq!(
            checked.stdout.contains(&warning),
            warned,
            "{mode:o} {checked:?}"
        );
        assert!(!checked.stdout.contains("th3-l3dg3r"), "{checked:?}");
    }
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
fn a_check_reads_the_tokens_of_the_server_and_says_whether_it_can_start() {
    let client = |name: &str, variable: &str| {
        format!("serve.clients.{name}={{ token = {{ env = \"{variable}\" }} }}")
    };
    let checked = |sets: &[&str]| {
        let world = World::configured(sets, |_| {});
        let mut command = world.command(&["check", "--format", "json"]);
        let output = command.env("ONE", "same").env("OTHER", "same").output();
        let answer: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
        answer
    };
    let (one, other, missing) = (
        client("one", "ONE"),
        client("other", "OTHER"),
        client("missing", "NOT_SET"),
    );
    let answer = checked(&[&one]);
    assert_eq!(finding(&answer, "serve.clients.one")["verdict"], "good");
    assert_eq!(answer["verdict"], "good", "{answer:#}");
    let answer = checked(&[&one, &missing]);
    assert_eq!(finding(&answer, "serve.clients.missing")["verdict"], "bad");
    let answer = checked(&[&one, &other]);
    let same = finding(&answer, "serve.clients.other");
    assert_eq!(same["verdict"], "bad");
    assert!(same["detail"].to_string().contains("`one`"), "{same}");
    let answer = checked(&["serve.listen=0.0.0.0:8080"]);
    let open = finding(&answer, "serve.listen");
    assert_eq!(open["verdict"], "bad");
    assert!(open["detail"].to_string().contains("[serve.clients.NAME]"));
    assert!(!checked(&[]).to_string().contains("serve."));
}

#[test]
fn an_exact_limit_beside_one_in_buckets_is_warned_of_where_it_keeps_every_charge() {
    for (exact, is_warned) in [("30d", true), ("1min", false)] {
        let text = format!(
            "[upstreams.api]\nbase_url = \"https://api.example.com\"\ncalls = {{ get = {{ cost = 1 }} }}\n\
             [credentials.api]\nupstream = \"api\"\n\
             [credentials.api.limits]\ndaily = {{ quota = 9, window = \"24h\", counting = \"buckets\" }}\n\
             other = {{ quota = 9, window = \"{exact}\" }}\n"
        );
        let checked = World::written(&text, &[]).ingest(&["check", "--config-only"]);
        assert_eq!(
            checked.stdout.contains("account api: other counts exactly"),
            is_warned,
            "{checked:?}"
        );
    }
}

#[test]
fn a_call_that_no_job_uses_and_that_never_fits_is_a_warning_and_no_error() {
    let mut world = World::new();
    let none = world.json(&["check", "--config-only"]);
    assert_eq!(none["verdict"], "good", "{none:#}");
    world.set("upstreams.youtube.calls.dear={ path = \"dear\", cost = { daily = 9_501 } }");
    let ran = world.ingest(&["check", "--config-only", "--format", "json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let found = ran.json();
    let warned = finding(&found, "call dear of credential youtube");
    assert_eq!(warned["verdict"], "warning", "{found:#}");
    let detail = warned["detail"].as_str().unwrap();
    let said = "it costs 9,501 daily, of which at most 9,500 can be used: it is never granted";
    assert!(detail.contains(said), "{detail}");
}

#[test]
fn what_other_users_can_write_is_said() {
    let key = |world: &World| world.directory.path().join("key");
    let text = fs::read_to_string(shipped()).unwrap();
    let prepared = |command: bool| {
        let world = World::written(&text, &[]);
        fs::write(key(&world), "#!/bin/sh\necho s3cr3t-k3y\n").unwrap();
        fs::set_permissions(key(&world), fs::Permissions::from_mode(0o700)).unwrap();
        let source = match command {
            true => format!("{{ command = [\"{}\"] }}", key(&world).display()),
            false => format!("{{ file = \"{}\" }}", key(&world).display()),
        };
        fs::create_dir(world.state_dir()).unwrap();
        (world, format!("credentials.youtube.secret={source}"))
    };
    for (is_command, opened, mode, verdict) in [
        (false, "key", 0o602, "bad"),
        (false, "key", 0o666, "bad"),
        (true, "key", 0o777, "bad"),
        (true, "key", 0o700, "good"),
        (true, "written.toml", 0o646, "bad"),
        (true, "written.toml", 0o644, "good"),
        (true, "state", 0o777, "warning"),
        (true, "state", 0o1777, "warning"),
        (true, "state", 0o750, "good"),
    ] {
        let (world, secret) = prepared(is_command);
        let path = world.directory.path().join(opened);
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        // A script has two lines, which no secret in a file may have.
        if !is_command {
            fs::write(key(&world), "s3cr3t-k3y").unwrap();
        }
        let answer = world.json(&["check", "--set", &secret]);
        assert_eq!(answer["verdict"], verdict, "{opened} {mode:o}: {answer:#}");
        if verdict != "good" {
            let found = finding(&answer, &format!("permissions of {}", path.display()));
            assert!(found["detail"].to_string().contains("chmod o-w"), "{found}");
        }
    }
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
