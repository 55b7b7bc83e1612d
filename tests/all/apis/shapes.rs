//! Shapes of real APIs that a file from the manual alone has to meet: URLs relative to a base that the response names, a grant
//! of one's own, rows without names, lists that are left out when they are empty.

use serde_json::{Value, json};

use super::{Api, run};
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};

/// Five rows by their ids, of which these are a page.
fn rows(start: usize, size: usize) -> Vec<Value> {
    (start..5.min(start + size))
        .map(|id| json!({ "id": id }))
        .collect()
}

/// Zoom: the client credentials are exchanged under another name of the grant.
#[test]
fn a_parameter_of_a_token_request_replaces_the_usual_one() {
    let stub = StubUpstream::start(|request| {
        if request.path == "/token" {
            let body = String::from_utf8_lossy(&request.body).into_owned();
            assert_eq!(body, "account_id=a1&grant_type=account_credentials");
            return StubAnswer::json(&json!({ "access_token": "t1", "expires_in": 3600 }));
        }
        assert_eq!(request.header("authorization"), Some("Bearer t1"));
        StubAnswer::json(&json!({ "data": rows(0, 5) }))
    });
    let oauth = format!(
        "auth = {{ oauth = {{ kind = \"client_credentials\", token_url = \"{}/token\", client_id = \"c\", \
         client_secret = \"{{secret}}\", params = {{ grant_type = \"account_credentials\", account_id = \"a1\" }} }} }}",
        stub.url()
    );
    let world = Api {
        upstream: &oauth,
        credential: r#"secret = { command = ["printf", "s3cret-0123456789"] }"#,
        call: r#"records = { at = "/data", kind = "row", id = "/id" }"#,
        ..Api::default()
    }
    .world(&stub);
    let report = run(&world);
    assert_eq!(report["outcome"], "complete", "{report}");
}
