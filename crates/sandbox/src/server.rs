//! Requests and responses as HTTP.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State as Shared};
use axum::response::Response;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::answer::Reply;
use super::fault::Fault;
use super::request::Received;
use super::service::Service;

const MOST_BYTES: usize = 4 * 1024 * 1024;

/// The routes of the server.
pub fn router(state: Arc<Service>) -> Router {
    Router::new().fallback(serve).with_state(state)
}

async fn serve(Shared(state): Shared<Arc<Service>>, request: Request<Body>) -> Response {
    let (head, body) = request.into_parts();
    let Ok(body) = to_bytes(body, MOST_BYTES).await else {
        return Reply::json(413, json!({ "message": "The body is too long." })).into_response();
    };
    let arrived = Received::new(head.method.as_str(), &head.uri, head.headers, &body);
    let answer = if arrived.upstream == "_sandbox" {
        control(&state, &arrived.method, &arrived.path, &body)
    } else {
        state.answer(&arrived)
    };
    // Behind the count: an upstream counts a request when it arrives, however slowly it answers.
    tokio::time::sleep(answer.delay).await;
    answer.into_response()
}

/// The sandbox's own interface, `/_sandbox/`.
fn control(state: &Service, method: &str, path: &str, body: &[u8]) -> Reply {
    match (method, path) {
        ("GET", "usage") => Reply::json(200, state.report()),
        ("GET", "requests") => Reply::json(200, state.log()),
        ("POST", "faults") => told(body, |Faults(faults)| state.script(faults)),
        ("DELETE", "faults") => {
            state.unscript();
            Reply::json(200, json!({}))
        }
        ("POST", "totals") => told(body, |totals| state.resize(totals)),
        _ => Reply::json(
            404,
            json!({ "message": "The sandbox serves GET usage, GET requests, POST and DELETE \
                faults, and POST totals." }),
        ),
    }
}

fn told<T: DeserializeOwned>(body: &[u8], tell: impl FnOnce(T)) -> Reply {
    match serde_json::from_slice(body) {
        Ok(told) => {
            tell(told);
            Reply::json(200, json!({}))
        }
        Err(error) => Reply::json(400, json!({ "message": error.to_string() })),
    }
}

/// A list of faults; one that stands alone is a list of one.
struct Faults(Vec<Fault>);

impl<'de> Deserialize<'de> for Faults {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let all = match Value::deserialize(deserializer)? {
            Value::Array(all) => all,
            one => vec![one],
        };
        let all: Result<_, _> = all.into_iter().map(serde_json::from_value).collect();
        all.map(Self).map_err(D::Error::custom)
    }
}
