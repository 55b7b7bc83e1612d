//! A bearer token from a command, fetched again once after a 401.

use std::os::unix::fs::PermissionsExt;

use crate::support::world::World;

const BEARER: &str = r#"
regions = ["US"]
[upstreams.closed]
base_url = "https://closed.example.com"
auth = { bearer = true }
[upstreams.closed.calls.list]
path = "things/{region}"
cost = 1
records = { at = "/items", kind = "thing", id = "/id" }
[credentials.closed]
upstream = "closed"
secret = { env = "TOKEN" }
limits = { daily = { quota = 100, resets = "UTC" } }
[jobs.things]
credential = "closed"
steps = [{ call = "list" }]
"#;

/// Runs with a command that prints these tokens in turn, the last one from then on; how often it was asked.
fn with_tokens(first: &str, second: &str) -> (World, i32, usize) {
    let mut world = World::written(BEARER, &[]);
    let script = world.directory.path().join("token.sh");
    let asked = world.directory.path().join("asked");
    let text = format!(
        "#!/bin/sh\nif [ -e {0} ]; then token={second}; else token={first}; fi\n/bin/echo x >> {0}\n/bin/echo $token\n",
        asked.display()
    );
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o700)).unwrap();
    world.set(&format!(
        "credentials.closed.secret={{ command = [\"/bin/sh\", \"{}\"] }}",
        script.display()
    ));
    let ran = world.ingest(&["--region", "all"]);
    let asked = std::fs::read_to_string(asked).unwrap().lines().count();
    (world, ran.code, asked)
}

#[test]
fn a_token_that_ran_out_is_fetched_again_once() {
    let (world, code, asked) = with_tokens("wrong", "right");
    assert_eq!((code, asked, world.requests()), (0, 2, 2));
    assert_eq!(
        world.charged("daily"),
        2,
        "the refused request is charged too"
    );
}

#[test]
fn a_token_that_is_refused_again_ends_it() {
    let (world, code, asked) = with_tokens("wrong", "wrong");
    assert_eq!((code, asked), (1, 2));
    assert!(world.requests() <= 2);
}
