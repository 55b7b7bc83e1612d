//! Authentication by configuration: several secrets, basic, OAuth 2.

use serde_json::json;

use super::{Api, ids, run};
use crate::support::world::World;
use ingest_testing::stub_upstream::{StubAnswer, StubRequest, StubUpstream};

const LIST: &str = r#"records = { at = "/data", kind = "row", id = "/id" }"#;
const APP: &str = "app-s3cret-0123456789";
const USER: &str = "user-s3cret-0123456789";
const SECRETS: &str = r#"secrets = { app = { command = ["printf", "app-s3cret-0123456789"] }, user = { command = ["printf", "user-s3cret-0123456789"] } }"#;

fn one_row(_: &StubRequest) -> StubAnswer {
    StubAnswer::json(&json!({ "data": [{ "id": 1 }] }))
}

/// No file and no output of a run contains a secret.
fn is_hidden(world: &World, secrets: &[&str], except: &str) {
    let ran = world.ingest(&["--region", "all", "--verbose"]);
    let mut folders = vec![world.state_dir()];
    let mut texts = vec![(
        "the output".to_owned(),
        (ran.stdout + &ran.stderr).into_bytes(),
    )];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let text = std::fs::read(&path).unwrap();
                texts.push((path.display().to_string(), text));
            }
        }
    }
    for (place, text) in texts.iter().filter(|(place, _)| !place.contains(except)) {
        for secret in secrets {
            let secret = secret.as_bytes();
            assert!(
                !text.windows(secret.len()).any(|part| part == secret),
                "{place}"
            );
        }
    }
}

#[test]
fn a_credential_has_several_secrets_in_headers_and_parameters() {
    let stub = StubUpstream::start(one_row);
    let world = Api {
        upstream: r#"headers = { x-app = "{secret:app}" }"#,
        call: &format!("params = {{ token = \"{{secret:user}}\" }}\n{LIST}"),
        credential: SECRETS,
        ..Api::default()
    }
    .world(&stub);
    let report = run(&world);
    assert_eq!(report["outcome"], "complete", "{report}");
    let request = &stub.requests()[0];
    assert_eq!(
        (request.header("x-app"), request.param("token")),
        (Some(APP), Some(USER))
    );
    is_hidden(&world, &[APP, USER], "nothing");
}

fn oauth(endpoint: &StubUpstream, keys: &str) -> String {
    format!(
        "auth = {{ oauth = {{ {keys}, token_url = \"{}\" }} }}",
        endpoint.url()
    )
}

#[test]
fn a_refresh_token_is_exchanged_and_its_successor_is_stored_for_the_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let endpoint = StubUpstream::start(|request: &StubRequest| {
        StubAnswer::json(&json!({
            "access_token": format!("access-token-0123456789-{}", request.number),
            "refresh_token": format!("rotated-0123456789-{}", request.number),
            "expires_in": 3600,
        }))
    });
    let stub = StubUpstream::start(|request: &StubRequest| {
        // It accepts the second token alone.
        match request.header("authorization").unwrap() {
            "Bearer access-token-0123456789-1" => one_row(request),
            _ => StubAnswer::error(401, &json!({ "message": "expired" })),
        }
    });
    let world = Api {
        upstream: &oauth(
            &endpoint,
            r#"kind = "refresh_token", refresh_token = "{secret:user}", client_id = "app", client_secret = "{secret:app}""#,
        ),
        call: LIST,
        credential: SECRETS,
        ..Api::default()
    }
    .world(&stub);
    let report = run(&world);
    assert_eq!(report["outcome"], "complete", "{report}");
    assert_eq!(ids(&world), ["1"]);
    assert_eq!(world.charged("daily"), 2, "token requests are not charged");
    let used = |request: &StubRequest| {
        let body = String::from_utf8(request.body.clone()).unwrap();
        body.split("refresh_token=").last().unwrap().to_owned()
    };
    let used: Vec<String> = endpoint.requests().iter().map(used).collect();
    assert_eq!(used, [USER, "rotated-0123456789-0"]);
    let stored = world.state_dir().join("tokens/main.json");
    assert_eq!(
        stored.metadata().unwrap().permissions().mode() & 0o777,
        0o600
    );
    run(&world);
    assert_eq!(
        endpoint.requests().len(),
        2,
        "the next run uses the stored token"
    );
    is_hidden(
        &world,
        &[APP, USER, "access-token-0123456789", "rotated-0123456789"],
        "tokens/main",
    );
}

#[test]
fn a_token_endpoint_that_is_away_costs_nothing_and_fails_the_run() {
    let endpoint = StubUpstream::answering([StubAnswer::dropped()]);
    let stub = StubUpstream::start(one_row);
    let world = Api {
        upstream: &oauth(
            &endpoint,
            r#"kind = "client_credentials", client_id = "app", client_secret = "{secret:app}""#,
        ),
        call: LIST,
        credential: r#"secrets = { app = { command = ["printf", "app-s3cret-0123456789"] } }"#,
        ..Api::default()
    }
    .world(&stub);
    let ran = world.ingest(&["--region", "all", "--format", "json"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(
        ran.stdout.contains("no access token after 4 attempts"),
        "{ran:?}"
    );
    assert_eq!((stub.requests().len(), world.charged("daily")), (0, 0));
}

#[test]
fn the_sandbox_serves_every_kind_of_authentication() {
    let stub = StubUpstream::start(one_row);
    for auth in [
        r#"auth = { basic = { user = "me", password = "{secret:app}" } }"#,
        r#"auth = { oauth = { kind = "client_credentials", client_id = "app", client_secret = "{secret:app}", token_url = "https://id.example.com" } }"#,
        r#"headers = { x-app = "{secret:app}" }"#,
    ] {
        let world = Api {
            upstream: auth,
            call: LIST,
            credential: r#"secrets = { app = { env = "NOT_SET" } }"#,
            ..Api::default()
        }
        .world(&stub);
        let ran = world.ingest(&["--region", "all", "--sandbox"]);
        assert_eq!(ran.code, 0, "{auth}: {ran:?}");
    }
    assert!(stub.requests().is_empty());
}
