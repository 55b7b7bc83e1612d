//! Which requests are answered. Every response passes here, errors too, and gets the fields that all have.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::auth::only;
use super::auth::{Peer, Presented, Requester};
use super::limiter::Usage;
use super::page;
use super::problem::Problem;
use super::{App, auth, fields};
use ingest_config::May;

/// Probes are answered without a token, and are not counted. What a browser loads beside a page is not counted either.
pub const HEALTH: &str = "/healthz";

/// Answers a request, or refuses it.
pub async fn guard(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let now = app.environment.clock.now();
    let Some(peer) = request.extensions().get::<Peer>().copied() else {
        return Problem::bad_request("the connection has no address").into_response();
    };
    let is_read_by_person = page::is_read_by_person(&request);
    let identity = app.clients.identify(request.headers(), peer);
    // First of all: a page that only borrowed this machine's address gets nothing but this refusal, and costs no reader a
    // request.
    if !auth::is_own(request.headers(), request.uri(), peer, &app.clients.hosts) {
        let usage = app.limiter.look(&identity, now);
        return finished(&app, other_host().into_response(), &usage).await;
    }
    let path = request.uri().path();
    // Only for who may read. Guesses at a token would otherwise be free at these addresses.
    let is_beside_pages =
        page::is_beside_pages(path) && permitted(&app, &request, &identity).is_ok();
    if path == HEALTH || is_beside_pages {
        let usage = app.limiter.look(&identity, now);
        return finished(&app, next.run(request).await, &usage).await;
    }
    // Counted before the token is judged, since a guess at a token is a request too.
    let usage = app.limiter.take(&identity, now).await;
    let response = match usage.retry_in {
        Some(retry_in) => fields::too_many(&usage, retry_in).into_response(),
        None => match permitted(&app, &request, &identity) {
            Err(problem) => problem.into_response(),
            Ok(()) => {
                // For what is charged. A request without a client reads.
                if let Some(client) = identity.token.client() {
                    request.extensions_mut().insert(Arc::clone(client));
                }
                next.run(request).await
            }
        },
    };
    let response = match is_read_by_person {
        true => page::with_problem(response),
        false => response,
    };
    finished(&app, response, &usage).await
}

/// The response with the fields that all have, counted until the client has read it.
async fn finished(app: &App, response: Response, usage: &Usage) -> Response {
    let mut response = app.unread.counted(response).await;
    fields::add(response.headers_mut(), usage);
    response
}

fn permitted(app: &App, request: &Request, identity: &Requester) -> Result<(), Problem> {
    if matches!(identity.token, Presented::Unknown) {
        return Err(Problem::new(
            StatusCode::UNAUTHORIZED,
            "no client has this token; see [serve.clients] of the server's configuration",
        ));
    }
    if request.method() == Method::POST {
        return may_post(request, identity);
    }
    match identity.token.client() {
        Some(client) if !client.config.may(May::Read) => Err(Problem::new(
            StatusCode::FORBIDDEN,
            format!(
                "client `{}` may not read; add \"read\" to its `may`",
                client.name
            ),
        )),
        None if app.clients.must_present_token => Err(Problem::new(
            StatusCode::UNAUTHORIZED,
            "this server needs the token of a client: as `Authorization: Bearer TOKEN`, or as the password of HTTP Basic",
        )),
        Some(_) | None => Ok(()),
    }
}

/// A web page of another server can make a browser send a request, but not one of this type, and not without its origin.
fn may_post(request: &Request, identity: &Requester) -> Result<(), Problem> {
    if !auth::is_same_origin(request.headers()) {
        let detail = "the request comes from a page of another server; send it from a program, or without `Origin`";
        return Err(Problem::new(StatusCode::FORBIDDEN, detail));
    }
    let content_type = only(request.headers(), &header::CONTENT_TYPE);
    let content_type = content_type.ok().flatten().unwrap_or_default();
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    if !media_type.eq_ignore_ascii_case("application/json") {
        let detail = "the body must be JSON: send `Content-Type: application/json`";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    match &identity.token {
        // A browser adds a password by itself, so a page could make it charge.
        Presented::Bearer(client) if client.config.may(May::Charge) => Ok(()),
        Presented::Bearer(client) => Err(Problem::new(
            StatusCode::FORBIDDEN,
            format!(
                "client `{}` may not charge; add \"charge\" to its `may`",
                client.name
            ),
        )),
        Presented::Basic(_) | Presented::Unknown | Presented::Nothing => Err(Problem::new(
            StatusCode::UNAUTHORIZED,
            "a charge needs the token of a client, as `Authorization: Bearer TOKEN`",
        )),
    }
}

fn other_host() -> Problem {
    Problem::new(
        StatusCode::FORBIDDEN,
        "the name in `Host` is none of this server's; add it to serve.hosts",
    )
}
